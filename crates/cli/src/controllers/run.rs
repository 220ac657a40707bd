//! The process: a client, an engine and what listens, until a signal.

use std::path::PathBuf;
use std::time::Duration;

use equate_controllers::engine::{Controllers, StartError};
use equate_controllers::shards::SelectorError;
use equate_controllers::{Engine, Policy};
use equate_git::{Limits, Mirrors};
use equate_source::{Storage, StorageError};
use kube::config::InClusterError;
use kube::{Client, Config};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::flags::{Args, Controller};
use super::gates;
use super::value::Listen;
use crate::connection::ConnectError;
use crate::transit::CertificatesError;

/// How long those who read an artifact may take when the process ends.
const PATIENCE: Duration = Duration::from_secs(5);
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
    /// Waiting for the signal failed.
    #[error("could not listen for signals")]
    Signal(#[source] std::io::Error),
}

/// Runs until a signal.
pub(crate) async fn run(args: Args) -> Result<(), ControllersError> {
    if let Some(refused) = args.foreign.refusal() {
        return Err(ControllersError::Refused(refused));
    }
    let gates = gates::read(&args.feature_gates).map_err(ControllersError::Gate)?;
    for warning in args.foreign.warnings().chain(gates.warnings) {
        tracing::info!("{warning}");
    }
    let shards = args.scope.shards()?;
    let client = client(&args).await?;
    let artifacts = bind(&args.storage.storage_addr, "artifacts").await?;
    let storage = open(&args, artifacts.as_ref())?;
    let router = storage.router();
    let engine = Engine::builder(client)
        .mirrors(mirrors(&args))
        .storage(storage)
        .concurrency(args.concurrent.into())
        .http_retries(args.http_retry)
        .policy(Policy {
            external_artifacts: gates.external_artifacts,
            ..args.lockdown.policy()
        })
        .shards(shards)
        .transit(crate::transit::settings()?)
        .controllers(Controllers {
            sources: args.controllers.contains(&Controller::Source),
            kustomizations: args.controllers.contains(&Controller::Kustomize),
        })
        .start()
        .await?;
    tracing::info!(controllers = ?args.controllers, "starting");
    let stop = CancellationToken::new();
    let serving = artifacts.map(|listener| {
        let told = stop.clone().cancelled_owned();
        tokio::spawn(async move {
            let served = axum::serve(listener, router).with_graceful_shutdown(told);
            if let Err(error) = served.await {
                tracing::error!(%error, "artifacts are not served any more");
            }
        })
    });
    let ended = crate::interrupt::interrupted()
        .await
        .map_err(ControllersError::Signal);
    tracing::info!("stopping");
    engine.stop().await;
    stop.cancel();
    if let Some(serving) = serving {
        let abort = serving.abort_handle();
        if tokio::time::timeout(PATIENCE, serving).await.is_err() {
            abort.abort();
        }
    }
    ended
}

/// The cluster that a kubeconfig names, or the one this is a pod of.
async fn client(args: &Args) -> Result<Client, ControllersError> {
    let named = args.cluster.kubeconfig.is_some()
        || args.cluster.context.is_some()
        || std::env::var_os("KUBECONFIG").is_some_and(|files| !files.is_empty());
    if named {
        return Ok(args.cluster.connect().await?.client);
    }
    let mut config = Config::incluster().map_err(ControllersError::InCluster)?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Client::try_from(config).map_err(ControllersError::Client)
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
        _ => std::env::var("HOSTNAME")
            .ok()
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "localhost".to_owned()),
    };
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

fn mirrors(args: &Args) -> Mirrors {
    let mirrors = Mirrors::new(args.storage.storage_path.join("git"), Limits::default());
    args.instead_of
        .iter()
        .fold(mirrors, |mirrors, (url, path)| mirrors.instead_of(url, path))
}
