//! Reading, setting, merging and coalescing of values.
//!
//! Everything here is a function from values to values. A null is kept until values are coalesced.

pub(crate) mod coalesce;
pub(crate) mod memory;
mod print;
mod read;
pub mod set;
mod user;

pub use coalesce::{CoalesceError, Warning, coalesce};
pub(crate) use print::plain as plain_text;
pub use read::{ReadError, merge, read};
pub(crate) use read::{floats, nodes, read_bytes};
pub use user::{UserValues, UserValuesError};
