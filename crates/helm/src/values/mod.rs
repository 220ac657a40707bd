//! Values: read from files, set on a command line, merged, and put together with a chart's own.
//!
//! | file | what it answers |
//! |---|---|
//! | `read.rs` | what YAML says |
//! | `set.rs` | what `--set` and its kin say |
//! | `user.rs` | which of all that a user says counts |
//! | `coalesce.rs` | what the templates of a chart and its subcharts see |
//! | `room.rs` | how much of memory that may take |
//! | `print.rs` | values in messages |
//!
//! Everything here is a function from values to values. A null is kept until values are coalesced.

pub(crate) mod coalesce;
mod print;
mod read;
pub(crate) mod room;
pub mod set;
mod user;

pub use coalesce::{CoalesceError, Warning, coalesce};
pub(crate) use print::plain as plain_text;
pub use read::{ReadError, merge, read};
pub(crate) use read::{floats, nodes, read_bytes};
pub use user::{UserValues, UserValuesError};
