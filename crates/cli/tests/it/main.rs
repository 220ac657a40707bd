//! The binary as a person runs it, on the example fleet.

mod example;
mod session;
