//! The crate as its users see it, judged by what Go and Helm's engine answered.
#![expect(clippy::unwrap_used, reason = "tests")]

mod golden;
mod hostile;
mod inventory;
mod limits;
mod world;
