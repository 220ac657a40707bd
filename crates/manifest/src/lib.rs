//! Kubernetes objects as data.
//!
//! Everything here is synchronous and total: values in, values out. The crate identifies objects,
//! reads and writes them as YAML and JSON, patches them, tracks field ownership, and applies schemas.
//! It does no I/O and knows neither a cluster nor Equate's own kinds.
//!
//! | module | purpose |
//! |---|---|
//! | [`object`] | ids and accessors of objects |
//! | [`json`] | strict JSON: duplicate keys, Go's error texts |
//! | [`yaml`] | YAML in (1.1 and 1.2, spans, limits) and out |
//! | [`schema`] | OpenAPI schemas: the built-in table, decoding, normal form |
//! | [`patch`] | JSON patch, merge patch, strategic merge patch |
//! | [`fieldpath`] | sets of field paths and their wire form, `FieldsV1` |
//! | [`typed`] | values with a merge schema: compare, merge, remove |
//! | [`merge`] | server-side apply: field owners after an update or an apply |
//! | [`regexp`] | regular expressions in Go's syntax |
//! | [`calendar`] | lengths of months, for texts that may be dates |
//! | [`go`] | texts as Go programs read and print them: durations, quotes, versions |

pub mod calendar;
pub mod fieldpath;
pub mod go;
pub mod json;
pub mod merge;
pub mod object;
pub mod patch;
pub mod regexp;
pub mod schema;
pub mod typed;
pub mod yaml;
