//! The embedded API held against the real one.

mod kubectl;
mod live;
mod peer;
mod recorded;
