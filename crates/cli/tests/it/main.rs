//! The binary as a process, on the example fleet.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot continue panics"
)]

mod build;
mod controllers;
mod example;
mod fleet;
mod forge;
mod helm_fleet;
mod history_source;
mod inflate;
mod install;
mod promote;
mod promote_each;
mod promote_kills;
mod promote_races;
mod promotion_state;
mod session;
mod template;
mod undeploy;
mod webhook;
mod write_a_controller;
