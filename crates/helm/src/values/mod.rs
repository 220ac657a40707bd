//! Values: read from files, set on a command line, merged, and put together with a chart's own.
//!
//! Everything here is a function from values to values. A null is kept until values are coalesced.

mod read;

pub use read::{ReadError, merge, read};
pub(crate) use read::{floats, read_bytes};
