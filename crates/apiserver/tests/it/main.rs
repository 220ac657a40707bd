//! What needs a process of its own, or the whole of the crate from outside.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what went wrong by panicking"
)]

mod journal;
