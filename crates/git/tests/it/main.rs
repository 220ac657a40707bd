//! Tests with real peers: git's own `upload-pack` over HTTP, the git program, ssh servers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests, also their helpers"
)]

mod each;
mod http;
mod local;
mod measure;
mod ssh;
mod ssh_by_hand;
mod ssh_in_process;

use equate_git::{Limits, Mirrors, Remote};
use equate_testkit::git::HttpServer;

/// Mirrors in a temporary directory.
struct Fixture {
    mirrors: Mirrors,
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        // An error means the same provider is installed already.
        rustls::crypto::ring::default_provider().install_default().ok();
        let directory = tempfile::tempdir().unwrap();
        let mirrors = Mirrors::new(directory.path().join("mirrors"), limits);
        Self { mirrors, directory }
    }
}

fn remote(server: &HttpServer) -> Remote {
    Remote::new(server.url())
}

/// An error and its causes, as the CLI prints them.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
