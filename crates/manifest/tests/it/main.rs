//! Integration tests, as one binary.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod protobuf;
mod smd;
