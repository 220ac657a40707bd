//! The process: a client, Leases, an engine and what listens, until a signal or a Lease is lost.
//!
//! All Leases are held before anything begins, so that one process does all of its share or none of it.
//! The one that is lost ends the process at once, as in Flux: a clean start is cheaper than a way back.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use equate_controllers::engine::{Builder, StartError};
use equate_controllers::kit::lease::{self, Held, LeaseConfig, LeaseConfigError};
use equate_controllers::kit::notify::{Notifier, NotifyError};
use equate_controllers::shards::SelectorError;
use equate_controllers::{ControllerSet, Engine, Policy};
use equate_git::{Limits, Mirrors, SshAlgorithmError};
use equate_source::{Storage, StorageError};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use kube::client::ClientBuilder;
use kube::config::InClusterError;
use kube::{Client, Config};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::flags::Args;
use super::gates;
use super::metrics::Metrics;
use super::probe::Probe;
use super::value::Listen;
use crate::connection::ConnectError;
use crate::counts::Requests;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::transit::CertificatesError;

/// How long those who read an artifact, and an API server that is to take Leases back, may take when
/// the process ends.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long runs that have begun may take when the process ends: less than what a pod has.
const GRACE: Duration = Duration::from_secs(20);
/// How long opening a connection to the API server may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why controllers did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControllersError {
    /// A flag of Flux that is not carried out.
    #[error("{0}")]
    Refused(String),
    /// A gate that is not known, or not carried out.
    #[error("--feature-gates: {0}")]
    Gate(String),
    /// No selector.
    #[error("--watch-label-selector")]
    Selector(#[from] SelectorError),
    /// No algorithm of ssh.
    #[error("--ssh-kex-algos, --ssh-hostkey-algos")]
    Ssh(#[from] SshAlgorithmError),
    /// No cluster that a kubeconfig names.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// This is no pod.
    #[error("no kubeconfig is named, and this is no pod of a cluster")]
    InCluster(#[source] InClusterError),
    /// The ServiceAccount of the pod is of no use.
    #[error("could not use the ServiceAccount of this pod")]
    Client(#[source] kube::Error),
    /// A directory could not be made.
    #[error("could not make {path}")]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The artifacts' place could not be opened.
    #[error("could not open the store of artifacts")]
    Storage(#[from] StorageError),
    /// An address could not be taken.
    #[error("could not listen for {0}")]
    Listen(&'static str, #[source] std::io::Error),
    /// Where keys are asked for cannot be read.
    #[error(transparent)]
    Transit(#[from] CertificatesError),
    /// Nothing runs.
    #[error("could not start the controllers")]
    Engine(#[from] StartError),
    /// The times of leader election make no sense.
    #[error("leader election: {0}")]
    LeaseConfig(#[from] LeaseConfigError),
    /// Another works now.
    #[error("leader election lost: the Lease {0} could not be renewed in time")]
    Lost(String),
    /// Events cannot be posted there.
    #[error("--events-addr")]
    Events(#[from] NotifyError),
    /// Waiting for the signal failed.
    #[error("could not listen for signals")]
    Signal(#[source] std::io::Error),
}

impl Failure for ControllersError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::InCluster(_) => {
                Some("name a cluster with --kubeconfig; in a pod, mount the token of its ServiceAccount")
            }
            Self::Connect(error) => error.hint(),
            Self::Refused(_)
            | Self::Gate(_)
            | Self::Selector(_)
            | Self::Ssh(_)
            | Self::Client(_)
            | Self::Directory { .. }
            | Self::Storage(_)
            | Self::Listen(..)
            | Self::Transit(_)
            | Self::Engine(_)
            | Self::LeaseConfig(_)
            | Self::Lost(_)
            | Self::Events(_)
            | Self::Signal(_) => None,
        }
    }
}

/// Runs those of a program's controllers that are asked for, until a signal, or until a Lease is lost.
pub(crate) async fn run(args: Args, controllers: &ControllerSet) -> Result<(), ControllersError> {
    if let Some(refused) = args.ignored.refusal() {
        return Err(ControllersError::Refused(refused));
    }
    let gates = gates::read(&args.feature_gates).map_err(ControllersError::Gate)?;
    for warning in args.ignored.warnings().chain(gates.warnings) {
        tracing::warn!("{warning}");
    }
    let shards = args.scope.shards()?;
    let controllers = controllers.only(&args.controllers);
    let terms = terms(&args, &controllers.components())?;
    let mirrors = mirrors(&args)?;
    let mut interrupts = Interrupts::listen().map_err(ControllersError::Signal)?;
    let metrics = Metrics::new(&controllers, args.concurrent);
    let client = client(&args, metrics.requests()).await?;
    let probe = Probe::new(Arc::clone(&metrics));
    let mut listeners = Listeners::default();
    let health = bind(&args.endpoints.health_addr, "probes").await?;
    listeners.serve(health, probe.health(), "probes");
    let measured = bind(&args.endpoints.metrics_addr, "metrics").await?;
    listeners.serve(measured, probe.metrics(), "metrics");

    let leases = match Leases::acquire(&terms, &client, &mut interrupts, &metrics).await {
        Ok(leases) => leases,
        Err((end, leases)) => return end.come(leases, listeners, &args).await,
    };
    // artifacts are served by who makes them
    let artifacts = bind(&args.storage.storage_addr, "artifacts").await?;
    let storage = open(&args, artifacts.as_ref())?;
    listeners.serve(artifacts, storage.router(), "artifacts");
    let policy = Policy {
        external_artifacts: gates.external_artifacts,
        ..args.tenancy.policy(&args.scope.namespace)
    };
    let components = controllers.components().join(",");
    let engine = Engine::builder(client)
        .controllers(controllers)
        .mirrors(mirrors)
        .storage(storage)
        .policy(policy)
        .shards(shards)
        .observer(metrics.observer());
    // it asks the API server, which may be silent
    let engine = tokio::select! {
        end = End::of(&mut interrupts, &leases) => return end.come(leases, listeners, &args).await,
        started = start(&args, engine) => Arc::new(started?),
    };
    probe.works(&engine);
    tracing::info!(controllers = components, "starting");
    let end = End::of(&mut interrupts, &leases).await;
    if let End::Asked(_) = end {
        tracing::info!("stopping");
        tokio::select! {
            () = stop(engine) => {}
            lost = leases.lost() => return Err(ControllersError::Lost(lost)),
        }
    }
    end.come(leases, listeners, &args).await
}

/// Lets runs end that have begun, for a while.
async fn stop(engine: Arc<Engine>) {
    // a scrape may hold it for a moment; then dropping it ends it
    if let Some(engine) = Arc::into_inner(engine)
        && tokio::time::timeout(GRACE, engine.stop()).await.is_err()
    {
        tracing::error!("what was being done did not end in {GRACE:?}, and is broken off");
    }
}

/// Why a process ends.
enum End {
    /// By a signal, or because none can be waited for.
    Asked(std::io::Result<()>),
    /// This Lease is another's, or may be.
    Lost(String),
}

impl End {
    async fn of(interrupts: &mut Interrupts, leases: &Leases) -> End {
        tokio::select! {
            result = interrupts.heard() => End::Asked(result),
            lost = leases.lost() => End::Lost(lost),
        }
    }

    /// Ends what listens, and leaves the Leases to others.
    async fn come(self, leases: Leases, listeners: Listeners, args: &Args) -> Result<(), ControllersError> {
        match self {
            End::Asked(result) => {
                leases.release(args).await;
                listeners.end().await;
                result.map_err(ControllersError::Signal)
            }
            // nothing is waited for: the next one may begin soon
            End::Lost(lost) => Err(ControllersError::Lost(lost)),
        }
    }
}

/// Starts an engine with what the flags say of how it works.
async fn start(args: &Args, engine: Builder) -> Result<Engine, ControllersError> {
    let events = Some(args.endpoints.events_addr.as_str()).filter(|address| !address.is_empty());
    let notifier = events
        .map(|address| Notifier::start(address, &host()))
        .transpose()?;
    let engine = engine
        .concurrency(args.concurrent.into())
        .http_retries(args.http_retry)
        .configure(crate::transit::settings()?)
        .notifier(notifier)
        .backoff(args.retry.backoff())
        .interval_jitter(f64::from(args.retry.interval_jitter_percentage) / 100.0)
        .dependency_retry(args.retry.requeue_dependency.get())
        .start()
        .await?;
    Ok(engine)
}

/// The Leases to hold, one for each of Flux's controllers, in an order that is the same in every process:
/// nobody waits for one while another waits for what this one has.
fn terms(args: &Args, components: &[&str]) -> Result<Vec<LeaseConfig>, ControllersError> {
    if !args.election.enable_leader_election {
        return Ok(Vec::new());
    }
    let share = args.scope.share();
    let share: Vec<&str> = share.iter().map(String::as_str).collect();
    let identity = format!("{}_{}", host(), uuid::Uuid::new_v4());
    components
        .iter()
        .map(|component| {
            let name = lease::name(component, &share);
            Ok(args.election.terms(&args.scope.namespace, name, &identity)?)
        })
        .collect()
}

/// The Leases that are held.
#[derive(Debug, Default)]
struct Leases(Vec<Held>);

impl Leases {
    /// All of them. One that is held while the rest is another's would keep everybody from its work: it is
    /// given back after a while, for as long.
    async fn acquire(
        all: &[LeaseConfig],
        client: &Client,
        interrupts: &mut Interrupts,
        metrics: &Metrics,
    ) -> Result<Leases, (End, Leases)> {
        'again: loop {
            all.iter().for_each(|terms| metrics.leads(&terms.name, false));
            let mut leases = Leases::default();
            for terms in all {
                let held = !leases.0.is_empty();
                let patience = async {
                    match held {
                        // one that nobody renews is seen to have run out after its duration
                        true => tokio::time::sleep(3 * terms.duration).await,
                        false => std::future::pending().await,
                    }
                };
                tokio::select! {
                    end = End::of(interrupts, &leases) => return Err((end, leases)),
                    held = Held::acquire(client.clone(), terms.clone()) => leases.0.push(held),
                    () = patience => {
                        let lease = &terms.name;
                        tracing::warn!(lease, "another holds this Lease: those that are held are given back");
                        leases.give_back().await;
                        tokio::select! {
                            heard = interrupts.heard() => return Err((End::Asked(heard), Leases::default())),
                            () = tokio::time::sleep(terms.duration) => continue 'again,
                        }
                    }
                }
                metrics.leads(&terms.name, true);
            }
            return Ok(leases);
        }
    }

    /// The first that is lost; never, where none is held.
    async fn lost(&self) -> String {
        let mut all: FuturesUnordered<_> = self
            .0
            .iter()
            .map(|held| async move {
                held.lost().await;
                held.name().to_owned()
            })
            .collect();
        match all.next().await {
            Some(name) => name,
            None => std::future::pending().await,
        }
    }

    async fn release(self, args: &Args) {
        if args.election.leader_election_release_on_cancel {
            self.give_back().await;
        }
    }

    async fn give_back(self) {
        let all = self.0.into_iter().map(Held::release);
        // what the API server does not hear of runs out
        drop(tokio::time::timeout(PATIENCE, futures::future::join_all(all)).await);
    }
}

/// What answers over HTTP.
#[derive(Debug, Default)]
struct Listeners {
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Listeners {
    fn serve(&mut self, listener: Option<TcpListener>, router: Router, what: &'static str) {
        let Some(listener) = listener else { return };
        // of port 0 nothing else tells which it is
        match listener.local_addr() {
            Ok(address) => tracing::info!(what, %address, "listening"),
            Err(error) => tracing::warn!(what, %error, "listening at an address that is not known"),
        }
        let told = self.stop.clone().cancelled_owned();
        self.tasks.spawn(async move {
            let served = axum::serve(listener, router).with_graceful_shutdown(told);
            if let Err(error) = served.await {
                tracing::error!(%error, what, "does not answer any more");
            }
        });
    }

    /// Lets answers that are being given end, for a while.
    async fn end(mut self) {
        self.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        // what is left is aborted with the set
        drop(tokio::time::timeout(PATIENCE, ended).await);
    }
}

/// What this machine is called: the pod, in a cluster.
fn host() -> String {
    let named = std::env::var("HOSTNAME").ok();
    let named = named.or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let named = named
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty());
    named.unwrap_or_else(|| "localhost".to_owned())
}

/// The cluster that a kubeconfig names, or the one this is a pod of.
async fn client(args: &Args, requests: &Requests) -> Result<Client, ControllersError> {
    let make = |config| Ok(ClientBuilder::try_from(config)?.with_layer(requests).build());
    let named = args.cluster.kubeconfig.is_some()
        || args.cluster.context.is_some()
        || std::env::var_os("KUBECONFIG").is_some_and(|files| !files.is_empty());
    if named {
        return Ok(args.cluster.connect_by(make).await?.client);
    }
    let mut config = Config::incluster().map_err(ControllersError::InCluster)?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    make(config).map_err(ControllersError::Client)
}

async fn bind(at: &Listen, what: &'static str) -> Result<Option<TcpListener>, ControllersError> {
    let bound = at.bind().await;
    bound.map_err(|source| ControllersError::Listen(what, source))
}

/// The store of artifacts, with the address by which others reach it.
fn open(args: &Args, listener: Option<&TcpListener>) -> Result<Storage, ControllersError> {
    let flags = &args.storage;
    let root = flags.storage_path.join("artifacts");
    std::fs::create_dir_all(&root).map_err(|source| ControllersError::Directory {
        path: root.clone(),
        source,
    })?;
    let url = format!(
        "http://{}",
        advertised(flags.storage_adv_addr.trim(), &flags.storage_addr, listener)
    );
    Ok(Storage::open(root, &url, flags.retention())?)
}

/// What is told of where artifacts are: what the flag says, or the address that is listened on, by
/// the name of this machine where that is any.
fn advertised(told: &str, at: &Listen, listener: Option<&TcpListener>) -> String {
    let address = listener.and_then(|listener| listener.local_addr().ok());
    let port = address.map_or(0, |address| address.port());
    if !told.is_empty() {
        return told.to_owned();
    }
    let host = match at {
        Listen::At(Some(host), _) if !matches!(&**host, "0.0.0.0" | "::") => host.clone(),
        _ => host(),
    };
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

fn mirrors(args: &Args) -> Result<Mirrors, SshAlgorithmError> {
    let root = args.storage.storage_path.join("git");
    let mirrors = Mirrors::with_ssh(root, Limits::default(), args.ssh.algorithms()?);
    let substitutes = args.instead_of.iter();
    Ok(substitutes.fold(mirrors, |mirrors, (url, path)| mirrors.instead_of(url, path)))
}
