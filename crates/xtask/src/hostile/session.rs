//! The attacked processes: `equate api` and `equate controllers` with the flags of a shared cluster, and a
//! Kustomization of the namespace `platform` whose commits are timed.

use std::cell::Cell;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use equate_testkit::git::{HttpServer, Repository};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::servers::get;
use crate::bench::process::Process;
use crate::bench::session::api;

pub(super) type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The namespace of the timed commits. It is no platform namespace of the controllers: an ordinary tenant
/// must not wait, either.
pub(super) const HONEST: &str = "platform";
/// The ServiceAccount of `--default-service-account`.
pub(super) const ACCOUNT: &str = "reconciler";
pub(super) const KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io";
pub(super) const SOURCE: &str = "source.toolkit.fluxcd.io";
/// The kinds that attackers make, with group and version; those that depend on others first.
pub(super) const KINDS: [(&str, &str, &str); 9] = [
    (KUSTOMIZE, "v1", "Kustomization"),
    ("source.extensions.fluxcd.io", "v1beta1", "ArtifactGenerator"),
    ("helm.toolkit.fluxcd.io", "v2", "HelmRelease"),
    (SOURCE, "v1", "HelmChart"),
    (SOURCE, "v1", "HelmRepository"),
    (SOURCE, "v1", "OCIRepository"),
    (SOURCE, "v1", "Bucket"),
    (SOURCE, "v1", "GitRepository"),
    (SOURCE, "v1", "ExternalArtifact"),
];
/// The time for a process to start.
const START_MAX: Duration = Duration::from_secs(60);
/// The pause between two looks at an object.
const LOOK: Duration = Duration::from_millis(5);
/// Lines of the log in the report of a failure.
const LOG_LINES: usize = 12;

pub(super) struct Session {
    pub(super) client: Client,
    pub(super) controllers: Process,
    pub(super) health: SocketAddr,
    pub(super) artifacts: SocketAddr,
    pub(super) metrics: SocketAddr,
    repository: Repository,
    _server: HttpServer,
    commits: Cell<usize>,
    log: PathBuf,
    pub(super) api: Process,
    // last: the processes write there
    folder: tempfile::TempDir,
}

impl Session {
    pub(super) async fn start(binary: &Path) -> Outcome<Self> {
        let folder = tempfile::Builder::new().prefix("equate-hostile-").tempdir()?;
        let kubeconfig = kubeconfig(folder.path());
        let mut command = quiet(binary, folder.path(), "api.log")?;
        command
            .args(["api", "--port", "0", "--kubeconfig"])
            .arg(&kubeconfig);
        let mut api = Process::start(&mut command)?;
        let client = connect(&kubeconfig, &mut api).await?;
        define(&client).await?;
        let [health, artifacts, metrics] = [free_address()?, free_address()?, free_address()?];
        let log = folder.path().join("controllers.log");
        let mut command = quiet(binary, folder.path(), "controllers.log")?;
        command
            .args(["controllers", "--namespace", "flux-system", "--kubeconfig"])
            .arg(&kubeconfig)
            .arg("--storage-path")
            .arg(folder.path().join("data"))
            .args(["--storage-addr", &artifacts.to_string()])
            .args(["--health-addr", &health.to_string()])
            .args(["--metrics-addr", &metrics.to_string()])
            .args(["--no-cross-namespace-refs", "--no-remote-bases"])
            .args(["--default-service-account", ACCOUNT])
            .args(["--feature-gates", "ExternalArtifact=true"])
            // all hosts of the attackers are here
            .arg("--egress-allow=127.0.0.0/8");
        let controllers = Process::start(&mut command)?;
        let repository = Repository::init()?;
        repository.commit(&[("settings.yaml", Some(&settings(0)))])?;
        let server = repository.serve_http()?.ok_or("git is not installed")?;
        let url = server.url();
        let session = Self {
            client,
            controllers,
            health,
            artifacts,
            metrics,
            repository,
            _server: server,
            commits: Cell::new(0),
            log,
            api,
            folder,
        };
        session.tenant(HONEST).await?;
        session.furnish(&url).await?;
        Ok(session)
    }

    /// A namespace whose ServiceAccount may do everything there.
    pub(super) async fn tenant(&self, name: &str) -> Outcome {
        self.create(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
            .await?;
        self.create(json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": ACCOUNT, "namespace": name },
        }))
        .await?;
        self.create(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": ACCOUNT, "namespace": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": name }],
        }))
        .await
    }

    async fn furnish(&self, url: &str) -> Outcome {
        self.create(json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": { "name": HONEST, "namespace": HONEST },
            "spec": { "url": url, "interval": "10m", "ref": { "branch": "main" } },
        }))
        .await?;
        self.create(json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": { "name": HONEST, "namespace": HONEST },
            "spec": {
                "interval": "10m", "path": "./", "prune": true,
                "sourceRef": { "kind": "GitRepository", "name": HONEST },
                "postBuild": { "substitute": { "marker": "quiet-marker" } },
            },
        }))
        .await?;
        self.applied(0, START_MAX).await?;
        self.list_external_artifacts().await
    }

    /// The controllers list a kind of sources when the first Kustomization names it.
    async fn list_external_artifacts(&self) -> Outcome {
        self.create(json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": { "name": "lists", "namespace": HONEST },
            "spec": {
                "interval": "10m", "retryInterval": "1s", "prune": true,
                "sourceRef": { "kind": "ExternalArtifact", "name": "none" },
            },
        }))
        .await?;
        let begun = Instant::now();
        loop {
            let said = self.condition(HONEST, "Kustomization", "lists").await;
            if said.contains("not found") {
                return Ok(());
            }
            if begun.elapsed() > START_MAX {
                return Err(format!("ExternalArtifacts are not listed after {START_MAX:?}: {said}").into());
            }
            sleep(LOOK).await;
        }
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        kubeconfig(self.folder.path())
    }

    pub(super) async fn create(&self, object: Value) -> Outcome {
        create(&self.client, object).await
    }

    /// Commits, requests a reconciliation as a webhook does, and waits until the change is applied.
    pub(super) async fn commit(&self, patience: Duration) -> Outcome<Duration> {
        let number = self.commits.get() + 1;
        self.commits.set(number);
        self.repository
            .commit(&[("settings.yaml", Some(&settings(number)))])?;
        let begun = Instant::now();
        let sources = api(&self.client, SOURCE, "v1", "GitRepository", HONEST);
        let request = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": number.to_string() } } });
        let patch = Patch::Merge(request);
        sources.patch(HONEST, &PatchParams::default(), &patch).await?;
        self.applied(number, patience).await?;
        Ok(begun.elapsed())
    }

    async fn applied(&self, number: usize, patience: Duration) -> Outcome<Duration> {
        let maps = api(&self.client, "", "v1", "ConfigMap", HONEST);
        let (begun, expected) = (Instant::now(), json!(number.to_string()));
        loop {
            let found = maps.get_opt("settings").await?;
            if found.is_some_and(|map| map.data.pointer("/data/value") == Some(&expected)) {
                return Ok(begun.elapsed());
            }
            if begun.elapsed() > patience {
                let why = self.condition(HONEST, "Kustomization", HONEST).await;
                let source = self.condition(HONEST, "GitRepository", HONEST).await;
                return Err(format!(
                    "commit {number} is not applied after {patience:?}; Kustomization: {why}; GitRepository: {source}"
                )
                .into());
            }
            sleep(LOOK).await;
        }
    }

    pub(super) async fn condition(&self, namespace: &str, kind: &str, name: &str) -> String {
        condition(&self.client, namespace, kind, name).await
    }

    /// The objects of the controllers' kinds outside of the honest namespace.
    pub(super) async fn strangers(&self) -> Outcome<Vec<String>> {
        let mut found = Vec::new();
        for (group, version, kind) in KINDS {
            let all = whole(&self.client, group, version, kind);
            let all = all.list(&ListParams::default()).await?.items;
            let others = all
                .iter()
                .filter(|one| one.metadata.namespace.as_deref() != Some(HONEST));
            found.extend(others.map(|one| stranger(kind, one)));
        }
        Ok(found)
    }

    pub(super) fn log(&self) -> String {
        std::fs::read(&self.log).map_or_else(
            |error| error.to_string(),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    /// The end of the log, for a report.
    pub(super) fn last_lines(&self) -> String {
        let log = self.log();
        let is_info = |line: &&str| !line.contains(r#""level":"info""#);
        let lines: Vec<&str> = log.lines().filter(is_info).collect();
        let tail = lines.iter().skip(lines.len().saturating_sub(LOG_LINES));
        tail.map(|line| format!("      {}\n", line.chars().take(400).collect::<String>()))
            .collect()
    }
}

pub(super) async fn create(client: &Client, object: Value) -> Outcome {
    let text = |pointer: &str| {
        let found = object.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    let (name, namespace) = (text("/metadata/name"), text("/metadata/namespace"));
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
    let api = match namespace.is_empty() {
        true => whole(client, group, version, &kind),
        false => api(client, group, version, &kind, &namespace),
    };
    let object: DynamicObject = serde_json::from_value(object)?;
    let created = api.create(&PostParams::default(), &object).await;
    created.map_err(|error| format!("cannot create {kind} {namespace}/{name}: {error}"))?;
    Ok(())
}

/// Status, reason and message of an object's `Ready`; empty if it has none.
pub(super) async fn condition(client: &Client, namespace: &str, kind: &str, name: &str) -> String {
    let api = kind_api(client, kind, namespace);
    match api.get_opt(name).await {
        Ok(object) => object.and_then(|object| ready(&object)).unwrap_or_default(),
        Err(error) => error.to_string(),
    }
}

/// The API of one of [`KINDS`].
pub(super) fn kind_api(client: &Client, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let known = KINDS.iter().find(|(_, _, known)| *known == kind);
    let (group, version, kind) = known.copied().unwrap_or((SOURCE, "v1", kind));
    api(client, group, version, kind, namespace)
}

/// An object that is still there, with what tells why.
fn stranger(kind: &str, object: &DynamicObject) -> String {
    let meta = &object.metadata;
    let deleted = match &meta.deletion_timestamp {
        Some(time) => format!("deleted at {}", time.0),
        None => "not deleted".to_owned(),
    };
    format!(
        "{kind} {}/{}, {deleted}: {}",
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
        ready(object).unwrap_or_else(|| "no condition".to_owned())
    )
}

/// `Ready` of an object.
pub(super) fn ready(object: &DynamicObject) -> Option<String> {
    let conditions = object.data.pointer("/status/conditions")?.as_array()?;
    let ready = conditions.iter().find(|one| one["type"] == "Ready")?;
    let text = |field: &str| ready[field].as_str().unwrap_or_default();
    Some(format!(
        "{} {} {}",
        text("status"),
        text("reason"),
        text("message")
    ))
}

pub(super) fn whole(client: &Client, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::all_with(client.clone(), &resource)
}

fn settings(number: usize) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n  namespace: {HONEST}\ndata:\n  value: \"{number}\"\n"
    )
}

fn quiet(binary: &Path, folder: &Path, log: &str) -> Outcome<Command> {
    let log = std::fs::File::create(folder.join(log))?;
    let mut command = Command::new(binary);
    command
        .current_dir(folder)
        .env_remove("KUBECONFIG")
        .env_remove("RUST_LOG")
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    Ok(command)
}

fn kubeconfig(folder: &Path) -> PathBuf {
    folder.join("kubeconfig")
}

/// Another client, whose connections belong to the runtime of the caller.
pub(super) async fn connected(kubeconfig: &Path) -> Outcome<Client> {
    let read = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn connect(kubeconfig: &Path, process: &mut Process) -> Outcome<Client> {
    let begun = Instant::now();
    loop {
        if let Some(status) = process.ended()? {
            return Err(format!("`equate api` ended: {status}").into());
        }
        // it may be half written
        if let Ok(client) = connected(kubeconfig).await {
            return Ok(client);
        }
        if begun.elapsed() > START_MAX {
            return Err(format!("`equate api` wrote no kubeconfig in {START_MAX:?}").into());
        }
        sleep(LOOK).await;
    }
}

/// Creates all definitions, and waits until they are served.
async fn define(client: &Client) -> Outcome {
    let definitions = whole(client, "apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    for (_, definition) in equate_api::definitions::generate()? {
        let definition: DynamicObject = serde_json::from_value(definition)?;
        definitions.create(&PostParams::default(), &definition).await?;
    }
    let begun = Instant::now();
    for (group, version, kind) in KINDS {
        let all = whole(client, group, version, kind);
        while let Err(error) = all.list_metadata(&ListParams::default()).await {
            if begun.elapsed() > START_MAX {
                return Err(error.into());
            }
            sleep(LOOK).await;
        }
    }
    Ok(())
}

fn free_address() -> Outcome<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Asks for `/healthz` and `/readyz` until it is dropped.
pub(super) struct Probes {
    seen: Arc<Mutex<Probed>>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Probed {
    /// The longest answer.
    pub(super) worst: Duration,
    /// The last answer that was none, or another than 200.
    pub(super) failure: Option<String>,
}

impl Probes {
    pub(super) fn start(health: SocketAddr, patience: Duration) -> Self {
        let seen = Arc::<Mutex<Probed>>::default();
        let noted = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            loop {
                for path in ["/healthz", "/readyz"] {
                    let answer = get(health, path, patience).await;
                    let mut seen = noted.lock().unwrap_or_else(PoisonError::into_inner);
                    match answer {
                        Ok((200, time)) => seen.worst = seen.worst.max(time),
                        Ok((code, _)) => seen.failure = Some(format!("GET {path}: {code}")),
                        Err(why) => {
                            seen.worst = seen.worst.max(patience);
                            seen.failure = Some(why);
                        }
                    }
                }
                sleep(Duration::from_millis(100)).await;
            }
        });
        Self { seen, task }
    }

    pub(super) fn seen(&self) -> Probed {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.task.abort();
    }
}
