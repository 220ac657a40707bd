//! The embedded API held against the real one.

mod live;
mod peer;
mod recorded;
