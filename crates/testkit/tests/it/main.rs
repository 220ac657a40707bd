//! The embedded API compared with the real one.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests, also their helpers"
)]

mod components;
mod conversions;
mod kubectl;
mod kustomize;
mod live;
mod peer;
mod recorded;
mod releases;
