//! Tests that need their own process, or the crate's public interface.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test says what went wrong by panicking"
)]

mod access;
mod aggregation;
mod clients;
mod definitions;
mod journal;
mod lifecycle;
mod limits;
mod policies;
mod protobuf;
mod quotas;
mod repeated_keys;
mod serving;
mod tokens;
mod versions;
mod webhooks;
mod workloads;

use std::time::Duration;

/// Long enough for a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);
