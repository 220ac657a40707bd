//! SSH in this process, without outside configuration.
//!
//! It uses no program, configuration file, environment or forwarding, no agent but a given one, no other key or known host
//! than the given ones, and never prompts. One connection runs one command, `git-upload-pack` or `git-receive-pack`, with its
//! path quoted for the remote shell.

use std::sync::{Arc, Weak};

use gix::protocol::transport::{
    Protocol, Service,
    client::{blocking_io::Transport, git::ConnectMode, git::blocking_io::Connection},
};

use tokio::time::timeout;

use super::{ANSWER_MAX, Clients, Failure, Shared, silent};
use crate::{
    kind::Kind,
    remote::{Credentials, Endpoint, Proxy},
};

mod agent;
mod algorithms;
mod channel;
mod dial;
mod host;
mod key;
mod known_hosts;
mod message;
mod proof;

pub use algorithms::{SshAlgorithmError, SshAlgorithms};
use channel::{Command, Line};
use host::Identity;
use known_hosts::Known;

#[derive(Debug)]
pub(super) struct Cut(Weak<Line>);

impl Cut {
    pub(super) fn cut(&self) {
        if let Some(line) = self.0.upgrade() {
            line.cut();
        }
    }
}

pub(super) fn connect(
    clients: &Clients,
    endpoint: &Endpoint,
    proxy: Option<&Proxy>,
    credentials: &Credentials,
    shared: &Shared,
    service: Service,
) -> Result<(Box<dyn Transport + Send>, Cut), Failure> {
    let (Credentials::Ssh { known_hosts, .. } | Credentials::SshAgent { known_hosts, .. }) = credentials
    else {
        return Err(Failure::new(Kind::Authentication, "ssh needs a key"));
    };
    let unusable = |problem, error| Failure::new(Kind::Authentication, problem).because(error);
    let known = Known::read(known_hosts, endpoint.bare_host(), endpoint.ssh_port())
        .map_err(|error| Failure::new(Kind::Limit, "cannot read known_hosts").because(error))?;
    let identity = match credentials {
        Credentials::Ssh {
            identity, passphrase, ..
        } => {
            let key = key::read(identity, passphrase.as_ref());
            let key = key.map_err(|error| unusable("the private key cannot be used", error))?;
            Identity::Key(Arc::new(key))
        }
        Credentials::SshAgent { socket, .. } => Identity::Agent(socket.clone()),
        Credentials::None | Credentials::Basic { .. } | Credentials::Bearer(_) => {
            return Err(Failure::new(Kind::Authentication, "ssh needs a key"));
        }
    };
    // Decrypting a key has its own limits, and its time counts.
    if shared.is_over() {
        return Err(deadline_failure(shared));
    }
    let preferred = clients.ssh().preferred(&known);
    let runtime = clients.runtime()?;
    let conversation = async {
        let opening = host::open(clients.egress(), endpoint, proxy, known, preferred, identity);
        let open = timeout(ANSWER_MAX, opening).await;
        let open = open.unwrap_or_else(|_| Err(silent()))?;
        let ended = |error| Failure::new(Kind::RemoteFailure, "the host ended the session").because(error);
        // Most hosts refuse environment variables, except git's own; the session then uses protocol version
        // 1.
        let asked = open.channel.set_env(false, "GIT_PROTOCOL", "version=2").await;
        asked.map_err(ended)?;
        let command = format!("{} {}", service.as_str(), quoted(&remote_path(endpoint)));
        open.channel.exec(true, command).await.map_err(ended)?;
        Ok::<_, Failure>(open)
    };
    let open = match runtime.wait(shared, conversation) {
        Ok(open) => open?,
        Err(_) => return Err(shared.take_failure().unwrap_or_else(|| deadline_failure(shared))),
    };
    let cut = Cut(Arc::downgrade(&open.line));
    let (reader, writer) = Command::pipes(runtime, shared.clone(), open);
    let connection = Connection::new(
        reader,
        writer,
        Protocol::V2,
        endpoint.decoded_path().as_str(),
        None::<(&str, Option<u16>)>,
        ConnectMode::Process,
        false,
    )
    .custom_url(Some(endpoint.to_string().into()));
    Ok((Box::new(connection), cut))
}

fn deadline_failure(shared: &Shared) -> Failure {
    shared.timed_out();
    let noted = shared.take_failure();
    noted.unwrap_or_else(|| Failure::new(Kind::Timeout, "connecting took too long"))
}

/// As in git, `/~user/x` is below the home directory.
fn remote_path(endpoint: &Endpoint) -> String {
    let path = endpoint.decoded_path();
    match path.strip_prefix('/') {
        Some(rest) if rest.starts_with('~') => rest.to_owned(),
        _ => path,
    }
}

/// Quotes `!` too, which some shells expand.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("'");
    for c in text.chars() {
        match c {
            '\'' | '!' => {
                quoted.push_str("'\\");
                quoted.push(c);
                quoted.push('\'');
            }
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn paths_are_quoted_as_one_word() {
        assert_eq!(quoted("/a b/$(id)`id`"), "'/a b/$(id)`id`'");
        assert_eq!(quoted("/it's!"), r"'/it'\''s'\!''");
    }
}
