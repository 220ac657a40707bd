//! The public API against results of Go and Helm's engine.
#![expect(clippy::unwrap_used, reason = "tests")]

mod certificates;
mod golden;
mod hostile;
mod inventory;
mod limits;
mod world;
