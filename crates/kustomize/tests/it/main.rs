//! Whole builds, over trees in memory.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod memory;
mod vectors;
