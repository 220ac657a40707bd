//! The client against a registry in the same process.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests, also their helpers"
)]

mod authorize;
mod faults;
mod pull;
mod push;
mod real;

use std::time::Duration;

use equate_egress::Egress;
use equate_registry::{Access, Credentials, Limits, Registries, Remote, Repository};
use equate_testkit::registry::RegistryServer;

/// Long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

fn registries() -> Registries {
    Registries::new(Egress::default(), Limits::default())
}

fn limited(limits: Limits) -> Registries {
    Registries::new(Egress::default(), limits)
}

fn repository(server: &RegistryServer, path: &str) -> Repository {
    Repository::parse(&format!("{}/{path}", server.authority())).unwrap()
}

fn anonymous() -> Access {
    Access::new("test", TIMEOUT)
}

fn named(username: &str, password: &str) -> Access {
    Access {
        credentials: Some(Credentials::Basic {
            username: username.to_owned(),
            password: password.into(),
        }),
        ..anonymous()
    }
}

fn open(registries: &Registries, server: &RegistryServer, path: &str, access: Access) -> Remote {
    registries.open(repository(server, path), access).unwrap()
}

/// An error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
