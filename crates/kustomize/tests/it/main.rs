//! Whole builds, over trees in memory.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod cases;
mod charts;
mod errors;
mod fields;
mod flux;
mod inputs;
mod memory;
mod property;
mod refusals;
mod remote;
mod secrets;
mod threads;
mod vectors;
mod work;
