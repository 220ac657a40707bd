//! Connects to the host, verifies its key, and authenticates.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use equate_egress::{Egress, Silence};
use russh::{
    AlgorithmKind, Channel, Names, SshId,
    client::{
        AuthResult, ChannelOpenHandle, Config, DisconnectReason, GexParams, Handle, Handler, Msg, Session,
        connect_stream,
    },
    keys::{
        Algorithm, HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKeyOrCertificate,
        agent::AgentSessionBinding,
    },
};
use tokio::net::TcpStream;

use super::{
    agent,
    channel::Line,
    dial::dial,
    known_hosts::Known,
    message::HostMessage,
    proof::{self, NegotiationMismatch},
};
use crate::{
    kind::Kind,
    remote::{Endpoint, Proxy},
    transport::Failure,
};

/// Packets have up to 32 KiB.
const PACKETS_AHEAD: usize = 32;
/// Least, preferred and most bits. Larger groups block the shared thread for a good part of a second.
const GROUP_BITS: [usize; 3] = [2048, 3072, 4096];
const USER: &str = "git";

pub(super) struct Host {
    known: Known,
    close_reason: CloseReason,
    shown: Option<Algorithm>,
    agreed: Arc<OnceLock<Algorithm>>,
}

fn negotiation_mismatch(error: NegotiationMismatch) -> Failure {
    let problem = "the host's key does not match the negotiated algorithm";
    Failure::new(Kind::Authentication, problem).because(error)
}

#[derive(Debug, Clone, Default)]
pub(super) struct CloseReason(Arc<Mutex<Option<String>>>);

impl CloseReason {
    fn note(&self, message: &str) {
        let message = HostMessage::last_of(message).map(|message| message.to_string());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = message;
    }

    pub(super) fn message(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[derive(Debug)]
pub(super) enum HostError {
    Ours(Failure),
    Russh(russh::Error),
}

impl From<russh::Error> for HostError {
    fn from(error: russh::Error) -> Self {
        Self::Russh(error)
    }
}

impl Handler for Host {
    type Error = HostError;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        let (algorithm, checked) = match shown {
            PublicKeyOrCertificate::PublicKey { key, .. } => (key.algorithm(), self.known.check(key)),
            PublicKeyOrCertificate::Certificate(certificate) => (
                certificate.public_key().algorithm(),
                self.known.check_certificate(certificate),
            ),
        };
        self.shown = Some(algorithm);
        checked.map(|()| true).map_err(|refusal| {
            let problem = "the host's key does not match known_hosts";
            HostError::Ours(Failure::new(Kind::Authentication, problem).because(refusal))
        })
    }

    async fn kex_done(
        &mut self,
        _secret: Option<&[u8]>,
        names: &Names,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        // Only the first exchange presents a key.
        let Some(shown) = self.shown.take() else {
            return Ok(());
        };
        let agreed = self.agreed.get_or_init(|| names.key.clone());
        proof::key(agreed, &shown).map_err(|error| HostError::Ours(negotiation_mismatch(error)))
    }

    // Nothing is forwarded, so every channel that a host opens is refused. The library accepts and keeps
    // them by default; dropping the reply refuses.

    async fn server_channel_open_session(
        &mut self,
        _channel: Channel<Msg>,
        _reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_direct_tcpip(
        &mut self,
        _channel: Channel<Msg>,
        _host: &str,
        _port: u32,
        _from: &str,
        _from_port: u32,
        _reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_direct_streamlocal(
        &mut self,
        _channel: Channel<Msg>,
        _path: &str,
        _reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_forwarded_tcpip(
        &mut self,
        _channel: Channel<Msg>,
        _address: &str,
        _port: u32,
        _from: &str,
        _from_port: u32,
        _reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_forwarded_streamlocal(
        &mut self,
        _channel: Channel<Msg>,
        _path: &str,
        _reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_agent_forward(
        &mut self,
        _channel: Channel<Msg>,
        _reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_x11(
        &mut self,
        _channel: Channel<Msg>,
        _from: &str,
        _from_port: u32,
        _reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn disconnected(&mut self, reason: DisconnectReason<Self::Error>) -> Result<(), Self::Error> {
        match reason {
            DisconnectReason::ReceivedDisconnect(reason) => {
                self.close_reason.note(&reason.message);
                Ok(())
            }
            DisconnectReason::Error(error) => {
                if let HostError::Russh(error) = &error {
                    self.close_reason.note(&error.to_string());
                }
                Err(error)
            }
        }
    }
}

/// The proof of the user's identity.
pub(super) enum Identity {
    Key(Arc<PrivateKey>),
    /// The socket of an agent.
    Agent(PathBuf),
}

pub(super) struct Open {
    pub(super) handle: Handle<Host>,
    pub(super) channel: Channel<Msg>,
    pub(super) close_reason: CloseReason,
    pub(super) line: Arc<Line>,
}

/// Dropping the future closes the connection.
pub(super) async fn open(
    egress: &Egress,
    endpoint: &Endpoint,
    proxy: Option<&Proxy>,
    known: Known,
    preferred: russh::Preferred,
    identity: Identity,
) -> Result<Open, Failure> {
    let stream = dial(egress, endpoint, proxy).await?;
    let silence = Silence::Unconnected;
    let unusable = |error| Failure::new(Kind::Unreachable(silence), silence.words()).because(error);
    let stream = stream.into_std().map_err(unusable)?;
    let line = Arc::new(Line(stream.try_clone().map_err(unusable)?));
    let stream = TcpStream::from_std(stream).map_err(unusable)?;
    stream.set_nodelay(true).map_err(unusable)?;
    let close_reason = CloseReason::default();
    let [least, preferred_bits, most] = GROUP_BITS;
    let groups = GexParams::new(least, preferred_bits, most).map_err(|error| {
        Failure::new(Kind::RemoteFailure, "cannot set up the key exchange groups").because(error)
    })?;
    let config = Config {
        client_id: SshId::Standard(concat!("SSH-2.0-equate_", env!("CARGO_PKG_VERSION")).into()),
        preferred,
        channel_buffer_size: PACKETS_AHEAD,
        gex: groups,
        ..Config::default()
    };
    let agreed = Arc::new(OnceLock::new());
    let host = Host {
        known,
        close_reason: close_reason.clone(),
        shown: None,
        agreed: Arc::clone(&agreed),
    };
    let mut handle = connect_stream(Arc::new(config), stream, host)
        .await
        .map_err(handshake_failure)?;
    let signature = handle.agent_session_binding().map(AgentSessionBinding::signature);
    proof::signature(agreed.get(), signature).map_err(negotiation_mismatch)?;
    let user = endpoint.user.as_deref().unwrap_or(USER);
    match identity {
        Identity::Key(key) => authenticate(&mut handle, user, key, &close_reason).await?,
        Identity::Agent(socket) => agent::authenticate(&mut handle, user, &socket, &close_reason).await?,
    }
    let channel = handle
        .channel_open_session()
        .await
        .map_err(|error| ended(&error, &close_reason))?;
    Ok(Open {
        handle,
        channel,
        close_reason,
        line,
    })
}

fn handshake_failure(error: HostError) -> Failure {
    let error = match error {
        HostError::Ours(failure) => return failure,
        HostError::Russh(error) => error,
    };
    match error {
        russh::Error::NoCommonAlgo { kind, theirs, .. } => {
            let what = match kind {
                AlgorithmKind::Kex => "key exchange",
                AlgorithmKind::Key => "host key",
                AlgorithmKind::Cipher => "cipher",
                AlgorithmKind::Compression => "compression",
                AlgorithmKind::Mac => "message authentication",
            };
            let theirs = HostMessage::of(&format!("it offers {}", theirs.join(", ")));
            let problem = format!("it has no accepted {what} algorithm");
            Failure::new(Kind::RemoteFailure, problem).because(theirs)
        }
        russh::Error::Version => Failure::new(Kind::Protocol, "the answer is not an ssh server's"),
        russh::Error::WrongServerSig | russh::Error::Signature(_) => {
            let problem = "the host's signature does not match its key";
            Failure::new(Kind::Authentication, problem).because(HostMessage::of(&error.to_string()))
        }
        error => {
            let failure = Failure::new(Kind::RemoteFailure, "the host ended the session");
            failure.because(HostMessage::of(&error.to_string()))
        }
    }
}

pub(super) fn ended(error: &russh::Error, reason: &CloseReason) -> Failure {
    let failure = Failure::new(Kind::RemoteFailure, "the host ended the session");
    match reason.message() {
        Some(message) => failure.because(message),
        None => failure.because(HostMessage::of(&error.to_string())),
    }
}

async fn authenticate(
    handle: &mut Handle<Host>,
    user: &str,
    key: Arc<PrivateKey>,
    reason: &CloseReason,
) -> Result<(), Failure> {
    let hashes = match key.algorithm() {
        Algorithm::Rsa { .. } => hashes(handle, reason).await?,
        _ => vec![None],
    };
    let mut wants = String::new();
    for hash in hashes {
        let key = PrivateKeyWithHashAlg::new(Arc::clone(&key), hash);
        let answer = handle.authenticate_publickey(user, key).await;
        match answer.map_err(|error| ended(&error, reason))? {
            AuthResult::Success => return Ok(()),
            AuthResult::Failure {
                partial_success: true,
                remaining_methods,
            } => {
                let problem = "the host requires more than a key";
                let wanted = methods(&remaining_methods);
                return Err(Failure::new(Kind::Authentication, problem).because(wanted));
            }
            AuthResult::Failure {
                remaining_methods, ..
            } => wants = methods(&remaining_methods),
        }
    }
    let failure = Failure::new(Kind::Authentication, "the host refused the key");
    Err(match reason.message() {
        Some(message) => failure.because(message),
        None => failure.because(format!("of user {user:?}; it accepts {wants}")),
    })
}

pub(super) fn methods(methods: &russh::MethodSet) -> String {
    let names: Vec<String> = methods.iter().map(String::from).collect();
    match names.is_empty() {
        true => "nothing else".to_owned(),
        false => names.join(", "),
    }
}

/// The hashes that the host lists, or else all in turn. Never SHA-1.
pub(super) async fn hashes(
    handle: &Handle<Host>,
    reason: &CloseReason,
) -> Result<Vec<Option<HashAlg>>, Failure> {
    let best = handle.best_supported_rsa_hash().await;
    match best.map_err(|error| ended(&error, reason))? {
        None => Ok(vec![Some(HashAlg::Sha512), Some(HashAlg::Sha256)]),
        Some(Some(hash)) => Ok(vec![Some(hash)]),
        Some(None) => Err(Failure::new(
            Kind::Authentication,
            "the host accepts RSA keys only with SHA-1, which is not supported: use another key",
        )),
    }
}
