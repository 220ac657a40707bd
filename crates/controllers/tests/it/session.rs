//! A test session: a repository, a cluster, an engine, and ways to observe them.
//!
//! The cluster is embedded and the session's own, unless the session may run
//! [`anywhere`](Session::anywhere) and `EQUATE_TEST_CLUSTER=real` selects the real one that
//! `EQUATE_TEST_KUBECONFIG` names, as `cargo xtask test-peers` does. On that one many sessions run at once:
//! each has its own namespace, and its own Kustomizations and sources with a shard label that its engine
//! selects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_api::extensions::ArtifactGenerator;
use equate_api::helm::HelmRelease;
use equate_api::kustomize::{Kustomization, KustomizationStatus};
use equate_api::meta::{ConditionType, condition};
use equate_api::source::{Bucket, ExternalArtifact, GitRepository, HelmChart, HelmRepository, OciRepository};
use equate_controllers::kit::processors::Threads;
use equate_controllers::policy::WorkloadIdentityPolicy;
use equate_controllers::{AwsEnvironment, CommitWait, ControllerSet, Engine, OwnLoop, Policy, Shards, Stats};
use equate_git::{Limits, Mirrors};
use equate_source::{Retention, Storage};
use equate_testkit::apiserver::{EmbeddedCluster, Profile, Simulation};
use equate_testkit::eventually::{established, eventually};
use equate_testkit::faults::Faults;
use equate_testkit::git::Repository;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::NamespaceResourceScope;
use kube::{Client, Config, CustomResourceExt, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The URL that the session's repository replaces.
pub(crate) const URL: &str = "https://local.invalid/fleet";
/// Long enough for a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);
/// The namespace of the engine's own objects, on an embedded cluster.
pub(crate) const HOME: &str = "flux-system";
/// The placeholder of the session's namespace in files and specs.
const PLACEHOLDER: &str = "@home";
const SESSION: &str = "equate.test/session";

pub(crate) type File<'a> = (&'a str, Option<&'a str>);

pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) repository: Repository,
    pub(crate) faults: Faults,
    /// The namespace of the engine's own objects, and in tests of fields of all others.
    pub(crate) home: String,
    engine: Option<Engine>,
    /// Absent on a shared cluster.
    cluster: Option<EmbeddedCluster>,
    // last: nothing writes there any more
    folder: TempDir,
}

#[derive(Default)]
pub(crate) struct Options {
    pub(crate) root: Option<OwnLoop>,
    pub(crate) default_namespace: Option<String>,
    pub(crate) selector: Option<String>,
    pub(crate) others: Vec<(String, PathBuf)>,
    pub(crate) policy: Policy,
    pub(crate) http_retries: Option<u32>,
    pub(crate) concurrency: Option<usize>,
    /// Whether builds have threads of their own: then a paused clock does not wait for them.
    pub(crate) own_threads: bool,
    pub(crate) timeout_max: Option<Duration>,
    /// More kinds than Kustomization and GitRepository. A kind that is not defined when the engine starts is
    /// asked for with growing delays.
    pub(crate) kinds: Vec<CustomResourceDefinition>,
    /// Only these controllers.
    pub(crate) controllers: Option<ControllerSet>,
    /// The directory of artifacts, `artifacts` by default.
    pub(crate) artifacts: Option<&'static str>,
    /// The variables that name the identity of the process at AWS.
    pub(crate) environment: BTreeMap<&'static str, String>,
    /// The longest wait of an upgrade for the rest of its commit.
    pub(crate) commit_wait: CommitWait,
}

impl Options {
    /// With the feature gate ObjectLevelWorkloadIdentity.
    pub(crate) fn with_tokens() -> Options {
        Options {
            policy: Policy {
                workload_identity: WorkloadIdentityPolicy::any(),
                ..Policy::default()
            },
            ..Options::default()
        }
    }
}

impl Session {
    /// A repository with one commit of these files, a cluster with the CRDs and the GitRepository `fleet`,
    /// and an engine.
    pub(crate) async fn start(files: &[(&str, &str)]) -> Session {
        Self::with(files, Options::default()).await
    }

    pub(crate) async fn with(files: &[(&str, &str)], options: Options) -> Session {
        let cluster = embedded().await;
        Self::on(cluster.client(), Some(cluster), HOME.to_owned(), files, options).await
    }

    /// The same on the selected cluster. All objects belong into the namespace `@home`, the placeholder of
    /// the session's own, or into one whose name begins with it.
    pub(crate) async fn anywhere(files: &[(&str, &str)]) -> Session {
        Self::anywhere_with(files, Options::default()).await
    }

    pub(crate) async fn anywhere_with(files: &[(&str, &str)], options: Options) -> Session {
        static SESSIONS: AtomicU32 = AtomicU32::new(0);
        match std::env::var("EQUATE_TEST_CLUSTER").as_deref() {
            Err(_) | Ok("" | "embedded") => Self::with(files, options).await,
            Ok("real") => {
                let number = SESSIONS.fetch_add(1, Ordering::Relaxed);
                let home = format!("session-{}-{number}", std::process::id());
                Self::on(real().await, None, home, files, options).await
            }
            Ok(other) => panic!("EQUATE_TEST_CLUSTER is {other:?}; there are `embedded` and `real`"),
        }
    }

    async fn on(
        client: Client,
        cluster: Option<EmbeddedCluster>,
        home: String,
        files: &[(&str, &str)],
        options: Options,
    ) -> Session {
        let repository = Repository::init().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut session = Session {
            faults: Faults::seeded(1),
            client,
            repository,
            home,
            engine: None,
            cluster,
            folder,
        };
        session.commit(
            &files
                .iter()
                .map(|(path, text)| (*path, Some(*text)))
                .collect::<Vec<_>>(),
        );
        session.furnish(&options.kinds).await;
        session.engine(options).await;
        session
    }

    async fn furnish(&self, kinds: &[CustomResourceDefinition]) {
        let own = [Kustomization::crd(), GitRepository::crd()];
        for definition in own.iter().chain(kinds) {
            self.define(definition.clone()).await;
        }
        for definition in kinds {
            established(&self.client, &definition.name_any(), DEADLINE).await;
        }
        self.namespace("@home").await;
        let fleet = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "GitRepository",
            "metadata": { "name": "fleet", "namespace": self.home, "labels": self.labels() },
            "spec": { "url": URL, "interval": "10m", "ref": { "branch": "main" } },
        });
        let create = async || {
            let fleet: GitRepository = serde_json::from_value(fleet.clone()).unwrap();
            let repositories: Api<GitRepository> = Api::namespaced(self.client.clone(), &self.home);
            repositories.create(&PostParams::default(), &fleet).await
        };
        eventually("GitRepositories are served", DEADLINE, create).await;
        let list = async || self.kustomizations().list(&ListParams::default()).await;
        eventually("Kustomizations are served", DEADLINE, list).await;
    }

    /// Defines a kind, unless another session on the cluster has.
    pub(crate) async fn define(&self, definition: CustomResourceDefinition) {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        match definitions.create(&PostParams::default(), &definition).await {
            Err(kube::Error::Api(status)) if status.code == 409 && self.cluster.is_none() => {}
            created => drop(created.unwrap()),
        }
    }

    /// Waits until [`all_kinds`] are watched.
    pub(crate) async fn watches_all(&self) {
        let watched = async || {
            let log = self.faults.log();
            let kinds = [
                "/buckets",
                "/ocirepositories",
                "/helmrepositories",
                "/helmcharts",
                "/helmreleases",
                "/artifactgenerators",
            ];
            let missing = kinds
                .into_iter()
                .find(|kind| !log.iter().any(|call| call.watch && call.path.ends_with(kind)));
            missing.map_or(Ok(()), Err)
        };
        eventually("all kinds are watched", DEADLINE, watched).await;
    }

    pub(crate) async fn namespace(&self, name: &str) {
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(self.here(name)),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        Api::all(self.client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
    }

    /// Replaces the placeholder by the session's namespace.
    pub(crate) fn here(&self, text: &str) -> String {
        text.replace(PLACEHOLDER, &self.home)
    }

    pub(crate) fn labels(&self) -> Value {
        json!({ SESSION: self.home })
    }

    /// The label selector of this session's objects; empty where all are.
    pub(crate) fn own(&self) -> String {
        match self.cluster {
            Some(_) => String::new(),
            None => format!("{SESSION}={}", self.home),
        }
    }

    /// Starts an engine, replacing a running one.
    pub(crate) async fn engine(&mut self, options: Options) {
        self.stop().await;
        let mut mirrors = Mirrors::new(self.folder.path().join("git"), Limits::default())
            .instead_of(URL, self.repository.path());
        for (url, path) in options.others {
            mirrors = mirrors.instead_of(&url, &path);
        }
        let storage = self.folder.path().join(options.artifacts.unwrap_or("artifacts"));
        let storage = Storage::open(storage, "http://127.0.0.1:9", Retention::default()).unwrap();
        let mut builder = Engine::builder(self.faults.wrap(&self.client))
            .mirrors(mirrors)
            .storage(storage)
            .threads(match options.own_threads {
                true => Threads::Own,
                false => Threads::Runtime(tokio::runtime::Handle::current()),
            })
            .policy(options.policy)
            .configure(options.commit_wait)
            .configure(AwsEnvironment::read(|name| {
                options.environment.get(name).cloned()
            }));
        let own = Some(self.own()).filter(|own| !own.is_empty());
        let selectors: Vec<String> = own.into_iter().chain(options.selector).collect();
        builder = builder.shards(Shards::default().labels(&selectors.join(",")).unwrap());
        if let Some(controllers) = options.controllers {
            builder = builder.controllers(controllers);
        }
        if let Some(retries) = options.http_retries {
            builder = builder.http_retries(retries);
        }
        if let Some(keys) = options.concurrency {
            builder = builder.concurrency(keys);
        }
        if let Some(time) = options.timeout_max {
            builder = builder.timeout_max(time);
        }
        if let Some(root) = options.root {
            builder = builder.root(root);
        }
        if let Some(namespace) = options.default_namespace {
            builder = builder.default_namespace(namespace);
        }
        self.engine = Some(builder.start().await.unwrap());
    }

    /// The cluster, if the session has its own.
    pub(crate) fn cluster(&self) -> &EmbeddedCluster {
        self.cluster.as_ref().unwrap()
    }

    /// The cluster's TLS address and its CA certificate, valid while the third value is held.
    pub(crate) async fn address(&self) -> (String, String, Box<dyn std::any::Any + Send>) {
        if let Some(cluster) = &self.cluster {
            let serving = cluster.serve("127.0.0.1:0".parse().unwrap()).await.unwrap();
            let authority = cluster.certificate_authority().to_owned();
            return (serving.url(), authority, Box::new(serving));
        }
        let kubeconfig = Kubeconfig::read_from(std::env::var("EQUATE_TEST_KUBECONFIG").unwrap()).unwrap();
        let cluster = kubeconfig.clusters[0].cluster.clone().unwrap();
        let authority = match (cluster.certificate_authority_data, cluster.certificate_authority) {
            (Some(data), _) => String::from_utf8(STANDARD.decode(data).unwrap()).unwrap(),
            (None, path) => std::fs::read_to_string(path.unwrap()).unwrap(),
        };
        (cluster.server.unwrap(), authority, Box::new(()))
    }

    pub(crate) async fn stop(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.stop().await;
        }
    }

    /// Kills the engine in the middle of its work.
    pub(crate) fn kill(&mut self) {
        self.engine = None;
    }

    /// Removes the engine's stored artifacts, as with its pod's disk.
    pub(crate) fn lose_artifacts(&self) {
        use std::io::ErrorKind::{DirectoryNotEmpty, NotFound};
        for part in ["git", "artifacts"] {
            let folder = self.folder.path().join(part);
            // pending writes of a killed engine may still arrive
            while let Err(error) = std::fs::remove_dir_all(&folder) {
                match error.kind() {
                    NotFound => break,
                    DirectoryNotEmpty => {}
                    _ => panic!("{part}: {error}"),
                }
            }
        }
    }

    /// A directory that lives as long as the session.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) async fn end(mut self) {
        self.stop().await;
        if let Some(cluster) = self.cluster {
            cluster.stop().await;
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        self.engine.as_ref().unwrap().stats()
    }

    /// Commits; returns the revision.
    pub(crate) fn commit(&self, files: &[File<'_>]) -> String {
        let texts: Vec<Option<String>> = files.iter().map(|(_, text)| Some(self.here((*text)?))).collect();
        let files = files.iter().zip(&texts);
        let files: Vec<File<'_>> = files.map(|((path, _), text)| (*path, text.as_deref())).collect();
        format!("main@sha1:{}", self.repository.commit(&files).unwrap())
    }

    /// Creates a Kustomization of a directory: pruning, every ten minutes, unless the spec says otherwise.
    pub(crate) async fn kustomize(&self, name: &str, path: &str, spec: Value) {
        let spec = serde_json::from_str(&self.here(&spec.to_string())).unwrap();
        let mut object = kustomization(name, path, spec);
        object.metadata.namespace = Some(self.home.clone());
        object.metadata.labels = serde_json::from_value(self.labels()).unwrap();
        let kustomizations = self.kustomizations();
        kustomizations
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    pub(crate) fn kustomizations(&self) -> Api<Kustomization> {
        Api::namespaced(self.client.clone(), &self.home)
    }

    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        self.merge::<Kustomization>(&self.home, name, patch).await;
    }

    /// Changes any object, as the field manager `somebody`.
    pub(crate) async fn merge<K>(&self, namespace: &str, name: &str, patch: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.here(namespace));
        let params = PatchParams {
            field_manager: Some("somebody".to_owned()),
            ..PatchParams::default()
        };
        let patch: Value = serde_json::from_str(&self.here(&patch.to_string())).unwrap();
        api.patch(name, &params, &Patch::Merge(patch)).await.unwrap()
    }

    /// Waits until a user may list this; new permissions take effect late.
    pub(crate) async fn may(&self, user: &str, path: &str) {
        let (user, path) = (self.here(user), self.here(path));
        let what = format!("{user} may list {path}");
        let list = async || {
            let request = http::Request::get(&path).header("Impersonate-User", &user);
            self.client.request_text(request.body(Vec::new()).unwrap()).await
        };
        eventually(&what, DEADLINE, list).await;
    }

    /// Deletes any object, as `kubectl delete` does.
    pub(crate) async fn delete<K>(&self, namespace: &str, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.here(namespace));
        api.delete(name, &DeleteParams::background()).await.unwrap();
    }

    pub(crate) async fn get<K>(&self, namespace: &str, name: &str) -> Option<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        Api::<K>::namespaced(self.client.clone(), &self.here(namespace))
            .get_opt(name)
            .await
            .unwrap()
    }

    /// Waits until a ConfigMap has this value under the key `value`; without one, until it is gone.
    pub(crate) async fn value(&self, namespace: &str, name: &str, value: Option<&str>) {
        let what = format!("ConfigMap {namespace}/{name} is {value:?}");
        let look = async || {
            let found: Option<ConfigMap> = self.get(namespace, name).await;
            let found = found.map(|map| map.data.unwrap_or_default().remove("value").unwrap_or_default());
            if found.as_deref() == value {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        };
        eventually(&what, DEADLINE, look).await;
    }

    /// The namespace and name of `name` or `namespace/name`.
    fn named<'n>(&self, name: &'n str) -> (Api<Kustomization>, &'n str) {
        let (namespace, name) = name.split_once('/').unwrap_or((PLACEHOLDER, name));
        (Api::namespaced(self.client.clone(), &self.here(namespace)), name)
    }

    /// Waits until a Kustomization's status passes; returns the status. One outside the home namespace is
    /// `namespace/name`.
    pub(crate) async fn until(
        &self,
        name: &str,
        what: &str,
        passes: impl Fn(&KustomizationStatus) -> bool,
    ) -> KustomizationStatus {
        let what = format!("Kustomization {name}: {what}");
        let look = async || {
            let (kustomizations, name) = self.named(name);
            let object = kustomizations
                .get(name)
                .await
                .map_err(|error| error.to_string())?;
            let status = object.status.unwrap_or_default();
            if passes(&status) {
                Ok(status)
            } else {
                Err(shown(&status))
            }
        };
        eventually(&what, DEADLINE, look).await
    }

    /// Waits until a Kustomization is ready at a revision.
    pub(crate) async fn ready(&self, name: &str, revision: &str) -> KustomizationStatus {
        let applied = format!("Applied revision: {revision}");
        let what = format!("ready at {revision}");
        self.until(name, &what, |status| {
            ready(status) == ("True".to_owned(), applied.clone())
        })
        .await
    }

    /// Waits until a Kustomization is not ready for this reason; returns the message.
    pub(crate) async fn fails(&self, name: &str, reason: &str) -> String {
        let what = format!("not ready, {reason}");
        let passes = |status: &KustomizationStatus| {
            condition(&status.conditions, ConditionType::Ready)
                .is_some_and(|ready| ready.status == "False" && ready.reason == reason)
        };
        ready(&self.until(name, &what, passes).await).1
    }

    /// The events of a Kustomization so far: type, reason, message.
    pub(crate) async fn events(&self, name: &str) -> Vec<String> {
        let (namespace, name) = name.split_once('/').unwrap_or((PLACEHOLDER, name));
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.here(namespace));
        let list = events.list(&ListParams::default()).await.unwrap();
        let about = list.items.into_iter().filter(|event| {
            event.involved_object.name.as_deref() == Some(name)
                && event.involved_object.kind.as_deref() == Some("Kustomization")
        });
        about
            .map(|event| {
                let text = |part: Option<String>| part.unwrap_or_default();
                format!(
                    "{} {} {}",
                    text(event.type_),
                    text(event.reason),
                    text(event.message)
                )
            })
            .collect()
    }

    /// Waits for an event that contains this text.
    pub(crate) async fn event(&self, name: &str, text: &str) {
        let text = &*self.here(text);
        let what = format!("an event of Kustomization {name} with {text:?}");
        let look = async || {
            let events = self.events(name).await;
            if events.iter().any(|event| event.contains(text)) {
                Ok(())
            } else {
                Err(events.join("\n"))
            }
        };
        eventually(&what, DEADLINE, look).await;
    }
}

/// An embedded cluster with simulated workloads.
/// The other kinds with a controller, and what these make.
pub(crate) fn all_kinds() -> Vec<CustomResourceDefinition> {
    vec![
        Bucket::crd(),
        OciRepository::crd(),
        HelmRepository::crd(),
        HelmChart::crd(),
        HelmRelease::crd(),
        ArtifactGenerator::crd(),
        ExternalArtifact::crd(),
    ]
}

async fn embedded() -> EmbeddedCluster {
    EmbeddedCluster::builder()
        .controllers(Profile {
            workloads: Some(Simulation::default()),
            namespace_delay: Duration::ZERO,
            ..Profile::default()
        })
        .build()
        .await
        .unwrap()
}

/// The administrator of the real cluster for these tests.
pub(crate) async fn real() -> Client {
    let Ok(path) = std::env::var("EQUATE_TEST_KUBECONFIG") else {
        panic!("EQUATE_TEST_KUBECONFIG is to name the real cluster: use `cargo xtask test-peers`");
    };
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    // the process's one provider; a second installation is the same provider
    let _ = rustls::crypto::ring::default_provider().install_default();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

/// A Kustomization of a directory of `fleet`.
pub(crate) fn kustomization(name: &str, path: &str, spec: Value) -> Kustomization {
    let mut object = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": { "name": name, "namespace": HOME },
        "spec": {
            "interval": "10m",
            "path": path,
            "prune": true,
            "sourceRef": { "kind": "GitRepository", "name": "fleet" },
        },
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

pub(crate) fn ready(status: &KustomizationStatus) -> (String, String) {
    let ready = condition(&status.conditions, ConditionType::Ready);
    ready
        .map(|ready| (ready.status.clone(), ready.message.clone()))
        .unwrap_or_default()
}

pub(crate) fn inventory(status: &KustomizationStatus) -> Vec<String> {
    let inventory = status.inventory.iter().flat_map(|inventory| &inventory.entries);
    inventory.map(|entry| entry.id.clone()).collect()
}

/// A condition's message; empty where it is missing or not true.
pub(crate) fn said(status: &KustomizationStatus, of: ConditionType) -> String {
    let found = condition(&status.conditions, of).filter(|condition| condition.status == "True");
    found
        .map(|condition| condition.message.clone())
        .unwrap_or_default()
}

fn shown(status: &KustomizationStatus) -> String {
    let lines = status.conditions.iter();
    let lines: Vec<String> = lines
        .map(|c| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message))
        .collect();
    format!("{lines:?}")
}

/// A ConfigMap in `default` with one value.
pub(crate) fn config_map(name: &str, value: &str) -> String {
    config_map_in("default", name, value)
}

/// The same in another namespace.
pub(crate) fn config_map_in(namespace: &str, name: &str, value: &str) -> String {
    document(&json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": namespace },
        "data": { "value": value },
    }))
}

/// A Deployment of one replica in `default`, with annotations on its pods.
pub(crate) fn deployment(name: &str, image: &str, annotations: Value) -> String {
    document(&json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name }, "annotations": annotations },
                "spec": { "containers": [{ "name": "main", "image": image }] },
            },
        },
    }))
}

pub(crate) fn document(value: &impl Serialize) -> String {
    // JSON is YAML
    serde_json::to_string_pretty(value).unwrap()
}
