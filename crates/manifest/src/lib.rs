//! Kubernetes objects as data.
//!
//! Everything here is synchronous and total: values in, values out. It knows
//! how an object is identified, how it is read from and written to YAML and
//! JSON, how it is patched, who owns which of its fields, and what its schema
//! says. It refuses to do I/O, to know a cluster, or to know Equate's own
//! kinds.
//!
//! | module | what it answers |
//! |---|---|
//! | [`object`] | what an object is called and where it lives |
//! | [`json`] | strict JSON reading: duplicate keys, Go's error texts |
//! | [`yaml`] | YAML in (1.1 and 1.2, spans, limits) and out |
//! | [`schema`] | OpenAPI schemas: the built-in table, decoding, normal form |
//! | [`patch`] | JSON patch, merge patch, strategic merge patch |
//! | [`fieldpath`] | sets of field paths and their wire form, `FieldsV1` |
//! | [`typed`] | values seen through a merge schema: compare, merge, remove |
//! | [`merge`] | server-side apply: who owns what after an update or an apply |
//! | [`calendar`] | how long months are, for texts that may be dates |

pub mod calendar;
pub mod fieldpath;
pub mod json;
pub mod merge;
pub mod object;
pub mod patch;
pub mod schema;
pub mod typed;
pub mod yaml;
