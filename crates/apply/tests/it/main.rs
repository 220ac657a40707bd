//! Execution of plans on the embedded API, or on a real one with `EQUATE_TESTS_ON=real`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests, also their helpers"
)]

mod faults;
mod fields;
mod kinds;
mod loops;
mod modes;
mod pruning;
mod simulated;
mod takeover;
mod world;
