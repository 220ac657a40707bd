//! Helm's release records and their meaning.
//!
//! Records are interchangeable with Helm's: either side reads, lists and rolls back the other's. This
//! module decides which operations are allowed and which records change; callers write.

mod codec;
mod digest;
mod name;
mod record;
mod state;
#[cfg(test)]
mod tests;

pub use codec::{
    DecodeError, Driver, ENCODED_BYTES_MAX, EncodeError, JSON_BYTES_MAX, MEMORY_BYTES_MAX, Stamp, Summary,
    decode, encode, from_object, key, to_object,
};
pub use digest::{config_digest, digest};
pub use name::{NameError, check_name, shortened};
pub use record::{ApplyMethod, Info, RecordedChart, RecordedFile, Release, Status};
pub use state::{History, Pending, Refusal, Revision, State};
