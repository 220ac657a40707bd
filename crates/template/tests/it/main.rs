//! The crate as its users see it, judged by what Go and Helm's engine answered.

mod golden;
mod limits;
mod world;
