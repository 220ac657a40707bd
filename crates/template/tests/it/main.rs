//! The crate as its users see it, judged by what Go and Helm's engine answered.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod golden;
mod hostile;
mod inventory;
mod limits;
mod world;
