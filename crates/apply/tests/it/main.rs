//! Plans carried out on the embedded API.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests, also their helpers")]

mod faults;
mod fields;
mod kinds;
mod loops;
mod modes;
mod pruning;
mod takeover;
mod world;
