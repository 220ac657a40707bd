//! The process: a client, Leases, an engine and listeners, until a signal or the loss of a Lease.
//!
//! All Leases are acquired first, so that one process does all work of its shard or none. As in Flux, losing
//! a Lease ends the process: a clean start is cheaper than recovery.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use equate_apiserver::Pace;
use equate_controllers::engine::{Builder, StartError};
use equate_controllers::kit::lease::{self, Held, LeaseConfig, LeaseConfigError};
use equate_controllers::kit::notify::{Notifier, NotifyError};
use equate_controllers::kit::request_turns::RequestTurns;
use equate_controllers::shards::SelectorError;
use equate_controllers::{AnswerLimits, AwsEnvironment, ControllerSet, Engine, LimitLayer};
use equate_egress::Egress;
use equate_git::{Limits, Mirrors, SshAlgorithmError};
use equate_priority::Background;
use equate_source::{Storage, StorageError};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use kube::client::ClientBuilder;
use kube::config::InClusterError;
use kube::{Client, Config};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::flags::{Args, Endpoints};
use super::gates;
use super::metrics::Metrics;
use super::probe::Probe;
use super::value::Listen;
use super::vital::Vital;
use crate::connection::{self, ConnectError};
use crate::counts::Requests;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::transit::CertificatesError;
use crate::up::entry::{self, EntryError};

/// Time at shutdown for open HTTP responses, and for the API server to release the Leases.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Time at shutdown for running reconciliations; shorter than a pod's grace period.
const RECONCILE_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug, thiserror::Error)]
pub(crate) enum ControllersError {
    #[error("{0}")]
    Refused(String),
    #[error("invalid --feature-gates: {0}")]
    Gate(String),
    #[error("invalid --watch-label-selector")]
    Selector(#[from] SelectorError),
    #[error(transparent)]
    Entry(#[from] EntryError),
    #[error("invalid --ssh-kex-algos or --ssh-hostkey-algos")]
    Ssh(#[from] SshAlgorithmError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("no kubeconfig given, and not running in a pod")]
    InCluster(#[source] InClusterError),
    #[error("could not use the ServiceAccount of this pod")]
    Client(#[source] kube::Error),
    #[error("could not create {path}")]
    Directory {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("could not open the artifact store")]
    Storage(#[from] StorageError),
    #[error("could not listen for {0}")]
    Listen(&'static str, #[source] std::io::Error),
    #[error(transparent)]
    Transit(#[from] CertificatesError),
    #[error("could not start the controllers")]
    Engine(#[from] StartError),
    #[error("leader election: {0}")]
    LeaseConfig(#[from] LeaseConfigError),
    #[error("leader election lost: the Lease {0} could not be renewed in time")]
    Lost(String),
    #[error("invalid --events-addr")]
    Events(#[from] NotifyError),
    #[error("could not listen for signals")]
    Signal(#[source] std::io::Error),
    #[error("could not start threads")]
    Threads(#[source] std::io::Error),
}

impl Failure for ControllersError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::InCluster(_) => {
                Some("select a cluster with --kubeconfig; in a pod, mount the token of its ServiceAccount")
            }
            Self::Connect(error) => error.hint(),
            Self::Refused(_)
            | Self::Gate(_)
            | Self::Selector(_)
            | Self::Entry(_)
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
            | Self::Signal(_)
            | Self::Threads(_) => None,
        }
    }
}

/// Runs the selected controllers until a signal, or until a Lease is lost.
pub(crate) async fn run(args: Args, controllers: &ControllerSet) -> Result<(), ControllersError> {
    if let Some(refused) = args.ignored.refusal() {
        return Err(ControllersError::Refused(refused));
    }
    let gates = gates::read(&args.feature_gates).map_err(ControllersError::Gate)?;
    for warning in args.ignored.warnings().chain(gates.warnings.iter().cloned()) {
        tracing::warn!("{warning}");
    }
    let shards = args.scope.shards()?;
    let controllers = controllers.only(&args.controllers);
    let configs = lease_configs(&args, &controllers.components())?;
    let transit = crate::transit::settings()?;
    let named = transit.addresses.iter().map(String::as_str);
    let servers = args.tenancy.artifact_server.iter();
    let servers: Vec<String> = servers.map(ToString::to_string).collect();
    let servers = servers.iter().map(String::as_str);
    let artifacts = servers.chain([args.storage.storage_adv_addr.as_str()]);
    let egress = args.egress.egress(named.chain(artifacts));
    let egress = entry::instead_of(egress, &args.instead_of)?;
    let mirrors = mirrors(&args, egress.clone())?;
    let mut interrupts = Interrupts::listen().map_err(ControllersError::Signal)?;
    let vital = Vital::start().map_err(ControllersError::Threads)?;
    let background = Background::start().map_err(ControllersError::Threads)?;
    let args = Arc::new(args);
    let metrics = Metrics::new(&controllers, args.concurrent);
    let probe = Probe::new(Arc::clone(&metrics));
    let mut vital_listeners = Listeners::on(vital.handle());
    let Endpoints {
        health_addr,
        metrics_addr,
        ..
    } = &args.endpoints;
    let health = vital.run(bind(health_addr.clone(), "probes")).await?;
    vital_listeners.serve(health, probe.health(), PROBES);
    let measured = vital.run(bind(metrics_addr.clone(), "metrics")).await?;
    vital_listeners.serve(measured, probe.metrics(), METRICS);

    let leases = match configs.is_empty() {
        true => Ok(Leases::default()),
        false => {
            let (own, counts) = (Arc::clone(&args), Arc::clone(&metrics));
            let client = vital
                .run(async move { client(&own, counts.requests()).await })
                .await?;
            Leases::acquire(&configs, (&client, vital.handle()), &mut interrupts, &metrics).await
        }
    };
    let leases = match leases {
        Ok(leases) => leases,
        Err((end, leases)) => return end.shut_down(leases, [vital_listeners], &args).await,
    };
    let client = client(&args, metrics.requests()).await?;
    let mut listeners = Listeners::on(&Handle::current());
    // only the leader serves artifacts
    let artifacts = bind(args.storage.storage_addr.clone(), "artifacts").await?;
    let address = args.storage.storage_adv_addr.trim();
    let address = advertised(address, &args.storage.storage_addr, artifacts.as_ref());
    let storage = open(&args, &address)?;
    listeners.serve(artifacts, storage.router(), ARTIFACTS);
    let policy = args.tenancy.policy(&args.scope.namespace, &gates, &address);
    let components = controllers.components().join(",");
    let engine = Engine::builder(client)
        .controllers(controllers)
        .mirrors(mirrors)
        .storage(storage)
        .policy(policy)
        .shards(shards)
        .tenants(args.tenancy.tenants(&args.scope.namespace))
        .background(background)
        .timeout_max(args.timeout_max.get())
        .egress(egress)
        .configure(transit)
        .configure(AwsEnvironment::read(|name| std::env::var(name).ok()))
        .configure(args.helm.settings())
        .observer(metrics.observer());
    // the start sends requests, and the API server may not answer
    let engine = tokio::select! {
        end = End::of(&mut interrupts, &leases) => {
            return end.shut_down(leases, [vital_listeners, listeners], &args).await;
        }
        started = start(&args, engine) => Arc::new(started?),
    };
    probe.mark_ready(&engine);
    tracing::info!(controllers = components, "starting");
    let end = End::of(&mut interrupts, &leases).await;
    if let End::Asked(_) = end {
        tracing::info!("stopping");
        tokio::select! {
            () = stop(engine) => {}
            lost = leases.lost() => return Err(ControllersError::Lost(lost)),
        }
    }
    end.shut_down(leases, [vital_listeners, listeners], &args).await
}

async fn stop(engine: Arc<Engine>) {
    // a scrape may hold the engine for a moment; dropping that reference ends it
    if let Some(engine) = Arc::into_inner(engine)
        && tokio::time::timeout(RECONCILE_SHUTDOWN_TIMEOUT, engine.stop())
            .await
            .is_err()
    {
        tracing::error!(
            "reconciliations did not end within {RECONCILE_SHUTDOWN_TIMEOUT:?} and are cancelled"
        );
    }
}

enum End {
    /// A signal, or a failure to listen for one.
    Asked(std::io::Result<()>),
    Lost(String),
}

impl End {
    async fn of(interrupts: &mut Interrupts, leases: &Leases) -> End {
        tokio::select! {
            result = interrupts.received() => End::Asked(result),
            lost = leases.lost() => End::Lost(lost),
        }
    }

    /// Stops the listeners and releases the Leases.
    async fn shut_down(
        self,
        leases: Leases,
        listeners: impl IntoIterator<Item = Listeners>,
        args: &Args,
    ) -> Result<(), ControllersError> {
        match self {
            End::Asked(result) => {
                leases.release(args).await;
                futures::future::join_all(listeners.into_iter().map(Listeners::end)).await;
                result.map_err(ControllersError::Signal)
            }
            // no waiting: the next leader may start soon
            End::Lost(lost) => Err(ControllersError::Lost(lost)),
        }
    }
}

async fn start(args: &Args, engine: Builder) -> Result<Engine, ControllersError> {
    let events = Some(args.endpoints.events_addr.as_str()).filter(|address| !address.is_empty());
    let notifier = events
        .map(|address| Notifier::start(address, &host()))
        .transpose()?;
    let engine = engine
        .concurrency(args.concurrent.into())
        .http_retries(args.http_retry)
        .notifier(notifier)
        .backoff(args.retry.backoff())
        .interval_jitter(f64::from(args.retry.interval_jitter_percentage) / 100.0)
        .dependency_retry(args.retry.requeue_dependency.get())
        .start()
        .await?;
    Ok(engine)
}

/// The Leases to acquire, one for each of Flux's controllers. The order is the same in every process, so that
/// two processes never wait for each other.
fn lease_configs(args: &Args, components: &[&str]) -> Result<Vec<LeaseConfig>, ControllersError> {
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
            Ok(args
                .election
                .lease_config(&args.scope.namespace, name, &identity)?)
        })
        .collect()
}

#[derive(Debug, Default)]
struct Leases(Vec<Held>);

impl Leases {
    /// Acquires all Leases. Holding one while another process holds the rest would block everybody: after a
    /// timeout the held ones are released for the same time.
    async fn acquire(
        all: &[LeaseConfig],
        (client, runtime): (&Client, &Handle),
        interrupts: &mut Interrupts,
        metrics: &Metrics,
    ) -> Result<Leases, (End, Leases)> {
        'again: loop {
            all.iter().for_each(|config| metrics.leads(&config.name, false));
            let mut leases = Leases::default();
            for config in all {
                let held = !leases.0.is_empty();
                let patience = async {
                    match held {
                        // longer than it takes to notice an expired Lease
                        true => tokio::time::sleep(3 * config.duration).await,
                        false => std::future::pending().await,
                    }
                };
                tokio::select! {
                    end = End::of(interrupts, &leases) => return Err((end, leases)),
                    held = Held::acquire(client.clone(), config.clone(), runtime) => leases.0.push(held),
                    () = patience => {
                        let lease = &config.name;
                        tracing::warn!(lease, "another process holds this Lease: releasing the others");
                        leases.release_all().await;
                        tokio::select! {
                            received = interrupts.received() => return Err((End::Asked(received), Leases::default())),
                            () = tokio::time::sleep(config.duration) => continue 'again,
                        }
                    }
                }
                metrics.leads(&config.name, true);
            }
            return Ok(leases);
        }
    }

    /// The first lost Lease; never resolves without Leases.
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
            self.release_all().await;
        }
    }

    async fn release_all(self) {
        let all = self.0.into_iter().map(Held::release);
        // a Lease that could not be released expires
        drop(tokio::time::timeout(SHUTDOWN_TIMEOUT, futures::future::join_all(all)).await);
    }
}

/// The name of a listener, and its pace for one address: a flood takes little of the processors. Waits are
/// shorter than a probe's timeout, by the number of connections of an address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Port(&'static str, Pace);

pub(super) const PROBES: Port = Port("probes", pace(500, 500));
/// An answer may have megabytes.
const METRICS: Port = Port("metrics", pace(10, 50));
/// A restart of other controllers asks for all artifacts.
const ARTIFACTS: Port = Port("artifacts", pace(500, 2_000));

const fn pace(per_second: u32, burst: u32) -> Pace {
    Pace { per_second, burst }
}

#[derive(Debug)]
pub(super) struct Listeners {
    stop: CancellationToken,
    tasks: JoinSet<()>,
    runtime: Handle,
}

impl Listeners {
    pub(super) fn on(runtime: &Handle) -> Self {
        Self {
            stop: CancellationToken::new(),
            tasks: JoinSet::new(),
            runtime: runtime.clone(),
        }
    }

    /// Serves a listener that was bound on the same runtime.
    pub(super) fn serve(&mut self, listener: Option<TcpListener>, router: Router, port: Port) {
        let Some(listener) = listener else { return };
        let Port(what, pace) = port;
        // the only way to learn the port if port 0 was requested
        match listener.local_addr() {
            Ok(address) => tracing::info!(what, %address, "listening"),
            Err(error) => tracing::warn!(what, %error, "listening on an unknown address"),
        }
        let stopped = self.stop.clone();
        let serving = async move { equate_apiserver::serve_http(listener, router, pace, stopped).await };
        self.tasks.spawn_on(serving, &self.runtime);
    }

    async fn end(mut self) {
        self.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        // dropping the set aborts the rest
        drop(tokio::time::timeout(SHUTDOWN_TIMEOUT, ended).await);
    }
}

fn host() -> String {
    let named = std::env::var("HOSTNAME").ok();
    let named = named.or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let named = named
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty());
    named.unwrap_or_else(|| "localhost".to_owned())
}

/// The client for the kubeconfig, or for the cluster of this pod.
async fn client(args: &Args, requests: &Requests) -> Result<Client, ControllersError> {
    let make = |config| {
        let builder = ClientBuilder::try_from(config)?;
        let limits = LimitLayer(AnswerLimits::OWN);
        let turns = RequestTurns::new(args.tenancy.tenants(&args.scope.namespace));
        let builder = builder.with_layer(&limits).with_layer(requests);
        Ok(builder.with_layer(&turns).build())
    };
    let named = args.cluster.kubeconfig.is_some()
        || args.cluster.context.is_some()
        || std::env::var_os("KUBECONFIG").is_some_and(|files| !files.is_empty());
    if named {
        return Ok(args.cluster.connect_by(make).await?.client);
    }
    let config = Config::incluster().map_err(ControllersError::InCluster)?;
    make(connection::complete(config)).map_err(ControllersError::Client)
}

async fn bind(at: Listen, what: &'static str) -> Result<Option<TcpListener>, ControllersError> {
    let bound = at.bind().await;
    bound.map_err(|source| ControllersError::Listen(what, source))
}

fn open(args: &Args, address: &str) -> Result<Storage, ControllersError> {
    let flags = &args.storage;
    let root = flags.storage_path.join("artifacts");
    std::fs::create_dir_all(&root).map_err(|source| ControllersError::Directory {
        path: root.clone(),
        source,
    })?;
    let url = format!("http://{address}");
    let share = flags.share(args.tenancy.platform(&args.scope.namespace));
    Ok(Storage::open_shared(root, &url, flags.retention(), share)?)
}

/// The advertised address of the artifacts: the flag's, or the listener's with the name of this machine if it
/// listens on all addresses.
fn advertised(configured: &str, at: &Listen, listener: Option<&TcpListener>) -> String {
    let address = listener.and_then(|listener| listener.local_addr().ok());
    let port = address.map_or(0, |address| address.port());
    if !configured.is_empty() {
        return configured.to_owned();
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

fn mirrors(args: &Args, egress: Egress) -> Result<Mirrors, SshAlgorithmError> {
    let root = args.storage.storage_path.join("git");
    Ok(Mirrors::with_egress(
        root,
        Limits::default(),
        args.ssh.algorithms()?,
        egress,
    ))
}
