//! The binary as a person runs it, on the example fleet.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on says so"
)]

mod build;
mod controllers;
mod example;
mod session;
mod webhook;
