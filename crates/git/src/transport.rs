//! One session with a remote: connect, list refs, receive a pack, within a deadline.
//!
//! gix implements the protocol over transports of this crate ([`http`], [`ssh`]), which enforce time, size,
//! redirects and credentials. They record the first failure with its kind, and the session reports it when
//! gix returns: no error text is parsed.

use std::{
    error::Error,
    fmt, io,
    num::NonZeroU32,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use equate_egress::{Displaced, HeldAnswer, Silence};
use gix::{
    ObjectId,
    protocol::{
        Handshake, LsRefsCommand,
        fetch::{Arguments, Negotiate, Response, Shallow, Tags, negotiate},
        handshake::Ref,
        ls_refs::RefPrefixes,
        transport::{Protocol, Service, client::blocking_io::Transport},
    },
};

use crate::{
    kind::Kind,
    limits::Limits,
    remote::{ByteBudget, Credentials, Endpoint, Remote, Scheme, UrlError},
    resolve::{Listed, Refs, ResolveError},
};

mod http;
mod pack;
mod push;
mod ssh;
mod watchdog;

pub(crate) use http::{Answer, Ask, Clients};
pub(crate) use push::{Pushed, RefUpdate};
pub use ssh::{SshAlgorithmError, SshAlgorithms};
use watchdog::Deadline;

const AGENT: &str = concat!("git/equate-", env!("CARGO_PKG_VERSION"));

/// The time limit of a host's first answer. No tenant can choose it, so a host that exceeds it is silent for all.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// An object of a pack may have this many bytes, however small the limit of a blob is: commits and trees are
/// objects, too.
const OBJECT_BYTES_LEAST: u64 = 1 << 20;

fn silent() -> Failure {
    let problem = format!("it did not answer within {}s", ANSWER_MAX.as_secs());
    Failure::new(Kind::Unreachable(Silence::Late), problem)
}

/// The failure of a session with a remote.
#[derive(Debug)]
pub struct RemoteError {
    doing: &'static str,
    url: String,
    failure: Failure,
}

impl RemoteError {
    /// The class of the failure.
    pub fn kind(&self) -> Kind {
        self.failure.kind
    }

    /// The failure and its causes in one line, for callers that name the remote themselves.
    pub fn without_url(&self) -> String {
        let mut text = self.failure.problem.clone();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        match self.failure.hint() {
            Some(hint) => format!("{text} ({hint})"),
            None => text,
        }
    }

    /// Replaces the hint.
    pub(crate) fn advised(mut self, advice: &str) -> Self {
        self.failure.advice = Some(advice.to_owned());
        self
    }

    /// The remote's URL without credentials.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { doing, url, failure } = self;
        write!(f, "cannot {doing} {url}: {}", failure.problem)?;
        match failure.hint() {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl Error for RemoteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.failure.source.as_deref().map(|source| source as _)
    }
}

impl Clients {
    pub(crate) fn ask(
        &self,
        remote: &Remote,
        ask: &Ask<'_>,
        deadline: Instant,
    ) -> Result<Answer, RemoteError> {
        self.call(remote, ask, deadline).map_err(|failure| RemoteError {
            doing: "ask",
            url: ask.url.to_owned(),
            failure,
        })
    }
}

#[derive(Debug)]
struct Failure {
    kind: Kind,
    problem: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    advice: Option<String>,
}

impl Failure {
    fn new(kind: Kind, problem: impl Into<String>) -> Self {
        Self {
            kind,
            problem: problem.into(),
            source: None,
            advice: None,
        }
    }

    fn because(self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            source: Some(source.into()),
            ..self
        }
    }

    fn hint(&self) -> Option<&str> {
        if let Some(advice) = &self.advice {
            return Some(advice);
        }
        match self.kind {
            Kind::Authentication => Some("check the credentials and their read permissions"),
            Kind::RepositoryNotFound => Some(
                "check the path; hosts also answer this when credentials are missing or lack read access",
            ),
            Kind::Unreachable(_) => Some(equate_egress::UNREACHABLE),
            Kind::Tls => Some("check the host's certificate and the configured ca"),
            Kind::Timeout => Some("check the host, or allow a longer timeout"),
            Kind::Protocol => Some("check that the url is that of a git repository"),
            Kind::UrlInvalid
            | Kind::ReferenceInvalid
            | Kind::ReferenceNotFound
            | Kind::RemoteFailure
            | Kind::Limit
            | Kind::Storage => None,
        }
    }
}

#[derive(Debug, Clone)]
struct Shared {
    deadline: Instant,
    timeout: Duration,
    interrupt: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<Failure>>>,
    allowance: Arc<Mutex<Allowance>>,
    held: Arc<HeldAnswer>,
}

#[derive(Debug)]
struct Allowance {
    left: u64,
    max: u64,
    what: &'static str,
    /// The bytes of one object of a pack, as it is sent.
    object_max: u64,
    /// Bytes of memory for each byte that is kept.
    memory: u64,
}

/// A listed ref takes its name and two ids, each allocated apart.
const LISTED_MEMORY: u64 = 4;

impl Allowance {
    /// For an answer that is kept whole.
    fn whole(what: &'static str, max: u64) -> Self {
        Self {
            left: max,
            max,
            what,
            object_max: u64::MAX,
            memory: LISTED_MEMORY,
        }
    }
}

impl Shared {
    fn allow(&self, allowance: Allowance) {
        *self.allowance.lock().unwrap_or_else(PoisonError::into_inner) = allowance;
        self.held.clear();
    }

    fn left(&self) -> u64 {
        self.allowance.lock().unwrap_or_else(PoisonError::into_inner).left
    }

    fn count(&self, bytes: usize) -> io::Result<()> {
        let bytes = bytes as u64;
        let mut allowance = self.allowance.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(left) = allowance.left.checked_sub(bytes) else {
            let problem = format!("its {} is larger than {} bytes", allowance.what, allowance.max);
            return Err(self.fail(Failure::new(Kind::Limit, problem)));
        };
        allowance.left = left;
        match self.held.add(bytes.saturating_mul(allowance.memory)) {
            Ok(held) if held > allowance.object_max => {
                let problem = format!(
                    "its {} has an object of more than {} bytes",
                    allowance.what, allowance.object_max
                );
                Err(self.fail(Failure::new(Kind::Limit, problem)))
            }
            Ok(_) => Ok(()),
            Err(Displaced) => Err(self.displaced()),
        }
    }

    fn displaced(&self) -> io::Error {
        let problem = "its answer was ended, because all answers together need too much memory";
        let mut failure = Failure::new(Kind::Limit, problem);
        failure.advice = Some("it is fetched again later".to_owned());
        self.fail(failure)
    }

    fn fail(&self, failure: Failure) -> io::Error {
        let error = io::Error::other(failure.problem.clone());
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(failure);
        error
    }

    fn timed_out(&self) -> io::Error {
        let seconds = self.timeout.as_secs_f64();
        self.fail(Failure::new(
            Kind::Timeout,
            format!("it took longer than {seconds}s"),
        ))
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    fn take_failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

pub(crate) struct Session {
    transport: Box<dyn Transport + Send>,
    handshake: Handshake,
    shared: Shared,
    url: String,
    limits: Limits,
    byte_budget: Option<ByteBudget>,
    _deadline: Deadline,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

impl From<SessionError> for ResolveError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Url(error) => Self::Url(error),
            SessionError::Remote(error) => Self::Remote(error),
        }
    }
}

impl Session {
    pub(crate) fn open(
        clients: &Clients,
        remote: &Remote,
        endpoint: &Endpoint,
        credentials: &Credentials,
        limits: &Limits,
        deadline: Instant,
    ) -> Result<Self, SessionError> {
        let service = Service::UploadPack;
        Self::open_for(service, clients, remote, endpoint, credentials, limits, deadline)
    }

    pub(crate) fn open_for(
        service: Service,
        clients: &Clients,
        remote: &Remote,
        endpoint: &Endpoint,
        credentials: &Credentials,
        limits: &Limits,
        deadline: Instant,
    ) -> Result<Self, SessionError> {
        let shared = Shared {
            deadline,
            timeout: remote.timeout,
            interrupt: Arc::default(),
            failure: Arc::default(),
            allowance: Arc::new(Mutex::new(Allowance::whole(
                "first answer",
                limits.listing_bytes_max,
            ))),
            held: Arc::new(clients.egress().memory().hold(&endpoint.host)),
        };
        let url = endpoint.to_string();
        let failed = |failure| RemoteError {
            doing: "connect to",
            url: url.clone(),
            failure,
        };
        let interrupt = Arc::clone(&shared.interrupt);
        let no_thread = |error| {
            failed(Failure::new(Kind::Storage, "cannot start a thread for the timeout").because(error))
        };
        // a connection that takes long lowers the priority of this thread
        clients.watchdog.begin().map_err(no_thread)?;
        let (transport, watched): (Box<dyn Transport + Send>, io::Result<Deadline>) = match endpoint.scheme {
            Scheme::Http | Scheme::Https => {
                let transport =
                    http::connect(clients, remote, endpoint, credentials, &shared).map_err(&failed)?;
                let fire = move || interrupt.store(true, Ordering::Release);
                (transport, clients.watchdog.watch(shared.deadline, fire))
            }
            Scheme::Ssh => {
                let (transport, cut) = ssh::connect(
                    clients,
                    endpoint,
                    remote.proxy.as_ref(),
                    credentials,
                    &shared,
                    service,
                )
                .map_err(&failed)?;
                let fire = move || {
                    interrupt.store(true, Ordering::Release);
                    cut.cut();
                };
                (transport, clients.watchdog.watch(shared.deadline, fire))
            }
        };
        let deadline = watched.map_err(no_thread)?;
        let mut transport = transport;
        // Our transports add credentials; never prompt for any.
        let nobody = |_| Ok(None);
        let shaken = gix::protocol::handshake(
            &mut transport,
            service,
            nobody,
            Vec::new(),
            &mut gix::progress::Discard,
        );
        let handshake =
            shaken.map_err(|error| failed(failure(&shared, "its answer is not git's protocol", error)))?;
        Ok(Self {
            transport,
            handshake,
            shared,
            url,
            limits: limits.clone(),
            byte_budget: remote.byte_budget.clone(),
            _deadline: deadline,
        })
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.shared.deadline
    }

    fn error(&self, doing: &'static str, failure: Failure) -> RemoteError {
        RemoteError {
            doing,
            url: self.url.clone(),
            failure,
        }
    }

    pub(crate) fn refs(&mut self, prefix: &str) -> Result<Vec<Listed>, RemoteError> {
        let refs = match (&self.handshake.refs, self.handshake.server_protocol_version) {
            (Some(refs), _) => refs.clone(),
            (None, Protocol::V2) => self.ls_refs(prefix)?,
            (None, Protocol::V0 | Protocol::V1) => Vec::new(),
        };
        let max = self.limits.refs_max;
        if refs.len() > max {
            let problem = format!("it has more than {max} refs under {prefix}");
            return Err(self.error("list the refs of", Failure::new(Kind::Limit, problem)));
        }
        Ok(refs
            .iter()
            .filter_map(listed)
            .filter(|listed| listed.name.starts_with(prefix))
            .collect())
    }

    fn ls_refs(&mut self, prefix: &str) -> Result<Vec<Ref>, RemoteError> {
        let max = self.limits.listing_bytes_max;
        self.shared.allow(Allowance::whole("list of refs", max));
        let mut prefixes = RefPrefixes::new();
        prefixes.extend([prefix.into()]);
        let agent = ("agent", Some(AGENT.to_owned()));
        let command = LsRefsCommand::new(Some(prefixes), &self.handshake.capabilities, agent);
        let listed = command.invoke_blocking(&mut self.transport, &mut gix::progress::Discard, false);
        let listed = listed.map_err(|error| {
            self.error(
                "list the refs of",
                failure(&self.shared, "its list of refs is malformed", error),
            )
        })?;
        // the session may go on for long
        self.shared.held.clear();
        Ok(listed)
    }

    pub(crate) fn fetch(
        &mut self,
        repository: &gix::Repository,
        wants: &[ObjectId],
        haves: &[ObjectId],
        depth: Option<NonZeroU32>,
    ) -> Result<u32, RemoteError> {
        let whole = self.limits.pack_bytes_max;
        let (what, max) = match &self.byte_budget {
            None => ("pack", whole),
            Some(byte_budget) => (
                "pack, with those of other submodules,",
                byte_budget.left().min(whole),
            ),
        };
        let object_max = self
            .limits
            .blob_bytes_max
            .saturating_mul(2)
            .max(OBJECT_BYTES_LEAST);
        self.shared.allow(Allowance {
            left: max,
            max: whole,
            what,
            object_max,
            memory: 1,
        });
        let shallow = depth.map_or_else(Shallow::undo, Shallow::DepthAtRemote);
        let shallow_file = repository.git_dir().join("shallow");
        let options = gix::protocol::fetch::Options {
            shallow_file,
            shallow: &shallow,
            tags: Tags::None,
            reject_shallow_remote: false,
        };
        let context = gix::protocol::fetch::Context {
            handshake: &mut self.handshake,
            transport: &mut self.transport,
            user_agent: ("agent", Some(AGENT.to_owned())),
            trace_packetlines: false,
        };
        let mut objects = 0;
        let fetched = gix::protocol::fetch(
            &mut SingleRound { wants, haves },
            |pack, _progress, interrupt| {
                objects = pack::receive(pack, repository, &self.limits, interrupt, &self.shared.held)?;
                Ok(true)
            },
            gix::progress::Discard,
            &self.shared.interrupt,
            context,
            options,
        );
        if let Some(byte_budget) = &self.byte_budget {
            byte_budget.take(max - self.shared.left());
        }
        match fetched {
            Ok(_) => Ok(objects),
            Err(error) => {
                if error.classify().is_resource_exhausted() {
                    let problem =
                        format!("its pack has an object of more than {object_max} bytes when it is unpacked");
                    // an earlier failure is the cause
                    self.shared.fail(Failure::new(Kind::Limit, problem));
                }
                let failure = failure(&self.shared, "it did not send the objects", error);
                Err(self.error("fetch from", failure))
            }
        }
    }
}

impl Refs for Session {
    fn list(&mut self, prefix: &str) -> Result<Vec<Listed>, ResolveError> {
        Ok(self.refs(prefix)?)
    }

    fn has(&mut self, _: ObjectId) -> Result<bool, ResolveError> {
        Ok(true)
    }

    fn place(&self) -> String {
        self.url.clone()
    }
}

fn failure(shared: &Shared, otherwise: &str, error: gix::Error) -> Failure {
    if let Some(noted) = shared.take_failure() {
        return noted;
    }
    if shared.is_over() {
        shared.timed_out();
        if let Some(noted) = shared.take_failure() {
            return noted;
        }
    }
    Failure::new(Kind::Protocol, otherwise).because(error)
}

fn listed(found: &Ref) -> Option<Listed> {
    let (name, target, peeled) = found.unpack();
    let id = peeled.or(target)?.to_owned();
    Some(Listed {
        name: std::str::from_utf8(name).ok()?.to_owned(),
        tag: peeled.and(target).map(ToOwned::to_owned),
        id,
    })
}

/// Negotiates in one round: the objects at hand are known without walking history.
struct SingleRound<'a> {
    wants: &'a [ObjectId],
    haves: &'a [ObjectId],
}

impl Negotiate for SingleRound<'_> {
    fn mark_complete_and_common_ref(&mut self) -> gix::Result<negotiate::Action> {
        Ok(negotiate::Action::MustNegotiate {
            remote_ref_target_known: vec![false; self.wants.len()],
        })
    }

    fn add_wants(&mut self, arguments: &mut Arguments, _known: &[bool]) -> bool {
        for want in self.wants {
            arguments.want(want);
        }
        !self.wants.is_empty()
    }

    fn one_round(
        &mut self,
        _state: &mut negotiate::one_round::State,
        arguments: &mut Arguments,
        _previous: Option<&Response>,
    ) -> gix::Result<(negotiate::Round, bool)> {
        for have in self.haves {
            arguments.have(have);
        }
        let sent = self.haves.len();
        let round = negotiate::Round {
            haves_sent: sent,
            in_vain: 0,
            haves_to_send: sent,
            previous_response_had_at_least_one_in_common: false,
        };
        Ok((round, true))
    }
}
