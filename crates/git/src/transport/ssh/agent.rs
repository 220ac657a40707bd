//! Authenticates with the keys of the user's ssh agent, which signs. The agent is not forwarded.

use std::path::Path;

use russh::client::Handle;

use super::host::{CloseReason, Host};
use crate::{kind::Kind, transport::Failure};

/// OpenSSH's server accepts six attempts by default.
#[cfg(unix)]
const KEYS_MAX: usize = 5;

#[cfg(not(unix))]
pub(super) async fn authenticate(
    _: &mut Handle<Host>,
    _: &str,
    _: &Path,
    _: &CloseReason,
) -> Result<(), Failure> {
    let problem = "the ssh agent is supported on Unix only";
    Err(Failure::new(Kind::Authentication, problem))
}

#[cfg(unix)]
pub(super) async fn authenticate(
    handle: &mut Handle<Host>,
    user: &str,
    socket: &Path,
    reason: &CloseReason,
) -> Result<(), Failure> {
    use super::{host, known_hosts::preferred};
    use russh::client::AuthResult;
    use russh::keys::agent::{AgentIdentity, client::AgentClient};

    let refused = |problem: &str| Failure::new(Kind::Authentication, problem);
    let silent =
        |error: russh::keys::Error| refused("the ssh agent does not answer").because(error.to_string());
    let mut agent = AgentClient::connect_uds(socket).await.map_err(silent)?;
    let identities = agent.request_identities().await.map_err(silent)?;
    let keys = identities.into_iter().filter_map(|identity| match identity {
        AgentIdentity::PublicKey { key, .. } => Some(key),
        AgentIdentity::Certificate { .. } => None,
    });
    let keys: Vec<_> = keys
        .filter(|key| !preferred(&key.algorithm()).is_empty())
        .collect();
    let mut wants = "nothing else".to_owned();
    for key in keys.iter().take(KEYS_MAX) {
        let hashes = match key.algorithm().is_rsa() {
            true => host::hashes(handle, reason).await?,
            false => vec![None],
        };
        for hash in hashes {
            let answer = handle
                .authenticate_publickey_with(user, key.clone(), hash, &mut agent)
                .await;
            match answer {
                Ok(AuthResult::Success) => return Ok(()),
                Ok(AuthResult::Failure {
                    remaining_methods, ..
                }) => wants = host::methods(&remaining_methods),
                Err(error) => {
                    tracing::debug!(%error, "the ssh agent does not sign with a key");
                }
            }
        }
    }
    Err(match (keys.is_empty(), reason.message()) {
        (true, _) => refused("the ssh agent has no key"),
        (false, Some(message)) => refused("the host refused the keys of the ssh agent").because(message),
        (false, None) => refused("the host refused the keys of the ssh agent")
            .because(format!("of user {user:?}; it accepts {wants}")),
    })
}
