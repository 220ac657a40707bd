//! The loop as its users see it: a repository, an embedded cluster with simulated workloads, and the real
//! engine. One file per promise.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::print_stderr,
    reason = "tests, also their helpers"
)]

mod apply;
mod artifact_server;
mod artifacts;
mod containers;
mod contest;
mod correct;
mod cves;
mod delete;
mod depend;
mod elsewhere;
mod escapes;
mod fair;
mod fan_out;
mod faults;
mod fields;
mod follow;
mod health;
mod helm_handover;
mod helm_kills;
mod helm_options;
mod helm_releases;
mod helm_turns;
mod lease;
mod moves;
mod moves_faults;
mod own_loop;
mod preview;
mod prune;
mod prune_budget;
mod ready_expr;
mod recreate;
mod refuse;
mod remote;
mod rest;
mod scenarios;
mod session;
mod shards;
mod source_controller;
mod sources_handover;
mod status;
mod steady;
mod substitute_from;
mod switch_over;
mod tenancy;
mod transit;
