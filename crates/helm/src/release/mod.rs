//! The records Helm keeps of a release, and what they say about it.
//!
//! A release made here is one for Helm, and the other way round: its record is read, listed and rolled
//! back by either. Whether a record may be written, and which ones an operation changes, is told; writing
//! is done elsewhere.

mod codec;
mod name;
mod record;
mod state;
#[cfg(test)]
mod tests;

pub use codec::{
    DecodeError, Driver, ENCODED_BYTES_MAX, EncodeError, JSON_BYTES_MAX, MEMORY_BYTES_MAX, Stamp, Summary,
    decode, encode, from_object, key, to_object,
};
pub use name::{NameError, check_name};
pub use record::{ApplyMethod, Info, RecordedChart, RecordedFile, Release, Status};
pub use state::{History, Pending, Refusal, Revision, State};
