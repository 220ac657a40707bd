//! A cluster with the kinds of chart sources, a chart repository on loopback, and charts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use equate_api::meta::{Condition, ConditionType, condition};
use equate_api::source::{Artifact, GitRepository, HelmChart, HelmRepository};
use equate_egress::Egress;
use equate_git::{Limits, Mirrors};
use equate_helm::chart::File;
use equate_helm::package::Package;
use equate_source::{Retention, Storage};
use equate_testkit::cluster::EmbeddedCluster;
use equate_testkit::eventually::eventually;
use equate_testkit::git::Repository;
use http::header::{AUTHORIZATION, ETAG, IF_NONE_MATCH, LOCATION};
use http::{HeaderMap, StatusCode, Uri};
use k8s_openapi::api::core::v1::{Event, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::engine::Builder;
use crate::kit::backoff::Jitter;
use crate::sources::charts::HelmSettings;
use crate::{Engine, all};

/// Long enough for a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "apps";
pub(crate) const GIT_URL: &str = "https://local.invalid/charts";

/// Packs a chart of these files; its `Chart.yaml` is that of a name and a version.
pub(crate) fn chart(name: &str, version: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let metadata = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
    let own = [("Chart.yaml", &*metadata), ("values.yaml", "a: 1\n")];
    let all = own.iter().chain(files).map(|(name, data)| File {
        name: (*name).into(),
        data: data.as_bytes().into(),
    });
    let package = Package::from_tree(all, &equate_helm::Limits::default()).unwrap();
    package.write().unwrap()
}

/// An index in Helm's layout.
pub(crate) fn index(charts: &[(&str, &str, &str, &str)]) -> String {
    let mut by_name: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, version, url, digest) in charts {
        by_name.entry(name).or_default().push(format!(
            "  - apiVersion: v2\n    digest: \"{digest}\"\n    name: {name}\n    urls:\n    - {url}\n    version: {version}\n"
        ));
    }
    let mut text = "apiVersion: v1\nentries:\n".to_owned();
    for (name, versions) in by_name {
        text.push_str(&format!("  {name}:\n{}", versions.concat()));
    }
    text
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// A chart repository on loopback. A change of its files is seen by the next request.
#[derive(Clone, Default)]
pub(crate) struct Host {
    state: Arc<Mutex<HostState>>,
    pub(crate) address: String,
}

#[derive(Default)]
struct HostState {
    files: BTreeMap<String, Vec<u8>>,
    redirects: BTreeMap<String, String>,
    login: Option<String>,
    requests: Vec<String>,
}

impl Host {
    pub(crate) async fn start() -> Host {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = Host {
            address: format!("http://{}", listener.local_addr().unwrap()),
            ..Host::default()
        };
        let router = Router::new().fallback(answer).with_state(host.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        host
    }

    pub(crate) fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        let mut state = self.state.lock().unwrap();
        state.files.insert(path.to_owned(), bytes.into());
    }

    pub(crate) fn redirect(&self, path: &str, to: &str) {
        let mut state = self.state.lock().unwrap();
        state.redirects.insert(path.to_owned(), to.to_owned());
    }

    /// Requires a login, `user:password` in base64.
    pub(crate) fn require(&self, login: &str) {
        self.state.lock().unwrap().login = Some(format!("Basic {login}"));
    }

    /// The requests since the last call: path and status, with `+` after it if they had a login.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }
}

async fn answer(State(host): State<Host>, uri: Uri, headers: HeaderMap) -> Response {
    let mut state = host.state.lock().unwrap();
    let path = uri.path().to_owned();
    let login = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let (status, response) = match (state.files.get(&path), state.redirects.get(&path)) {
        _ if state.login.is_some() && state.login.as_deref() != login => {
            (401, StatusCode::UNAUTHORIZED.into_response())
        }
        (_, Some(to)) => (302, (StatusCode::FOUND, [(LOCATION, to.clone())]).into_response()),
        (None, None) => (404, StatusCode::NOT_FOUND.into_response()),
        (Some(bytes), None) => {
            let etag = format!("\"{}\"", digest(bytes));
            match headers.get(IF_NONE_MATCH).is_some_and(|known| *known == *etag) {
                true => (304, StatusCode::NOT_MODIFIED.into_response()),
                false => (200, ([(ETAG, etag)], bytes.clone()).into_response()),
            }
        }
    };
    let mark = if login.is_some() { "+" } else { "" };
    state.requests.push(format!("{path} {status}{mark}"));
    response
}

/// A cluster with a git repository, and the controllers of chart sources.
pub(crate) struct Session {
    pub(crate) cluster: EmbeddedCluster,
    pub(crate) repository: Repository,
    engine: Engine,
    folder: tempfile::TempDir,
}

impl Session {
    pub(crate) async fn start(settings: HelmSettings) -> Session {
        Self::with(settings, &[], &["source-controller"]).await
    }

    /// With this limit for one build, fetch or download.
    pub(crate) async fn limited(timeout_max: Duration) -> Session {
        let settings = |builder: Builder| builder.timeout_max(timeout_max);
        Self::configured(settings, &[], &["source-controller"]).await
    }

    /// With more kinds, and the controllers of these names.
    pub(crate) async fn with(
        settings: HelmSettings,
        more: &[CustomResourceDefinition],
        controllers: &[&str],
    ) -> Session {
        Self::standing_in(settings, Egress::default(), more, controllers).await
    }

    /// The same, and directories stand for hosts.
    pub(crate) async fn standing_in(
        settings: HelmSettings,
        egress: Egress,
        more: &[CustomResourceDefinition],
        controllers: &[&str],
    ) -> Session {
        let settings = |builder: Builder| builder.egress(egress).configure(settings);
        Self::configured(settings, more, controllers).await
    }

    async fn configured(
        settings: impl FnOnce(Builder) -> Builder,
        more: &[CustomResourceDefinition],
        controllers: &[&str],
    ) -> Session {
        let cluster = EmbeddedCluster::builder().build().await.unwrap();
        let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
        let own = [GitRepository::crd(), HelmRepository::crd(), HelmChart::crd()];
        for definition in own.iter().chain(more) {
            let created = definitions.create(&PostParams::default(), definition).await;
            created.unwrap();
        }
        let namespace: Namespace =
            serde_json::from_value(json!({ "metadata": { "name": NAMESPACE } })).unwrap();
        let namespaces = Api::all(cluster.client());
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init().unwrap();
        let mirrors = Mirrors::new(folder.path().join("git"), Limits::default());
        let mirrors = mirrors.instead_of(GIT_URL, repository.path());
        let artifacts = folder.path().join("artifacts");
        let storage = Storage::open(artifacts, "http://source:9090", Retention::default()).unwrap();
        let builder = Engine::builder(cluster.client())
            .controllers(all().only(controllers))
            .mirrors(mirrors)
            .storage(storage)
            .jitter(Jitter::none());
        let engine = settings(builder).start().await.unwrap();
        Session {
            cluster,
            repository,
            engine,
            folder,
        }
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, version) = match kind {
            "Secret" => ("", "v1"),
            "ArtifactGenerator" => ("source.extensions.fluxcd.io", "v1beta1"),
            _ => ("source.toolkit.fluxcd.io", "v1"),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.cluster.client(), NAMESPACE, &resource)
    }

    pub(crate) async fn create(&self, kind: &str, name: &str, body: Value) {
        let mut object = json!({ "metadata": { "name": name } });
        object
            .as_object_mut()
            .unwrap()
            .extend(body.as_object().unwrap().clone());
        object["kind"] = kind.into();
        object["apiVersion"] = match kind {
            "Secret" => "v1",
            "ArtifactGenerator" => "source.extensions.fluxcd.io/v1beta1",
            _ => "source.toolkit.fluxcd.io/v1",
        }
        .into();
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let create = async || {
            let api = self.api(kind);
            api.create(&PostParams::default(), &object).await.map(drop)
        };
        eventually(&format!("{kind} {name} is created"), DEADLINE, create).await;
    }

    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        let patched = self.api(kind).patch(name, &PatchParams::default(), &patch).await;
        patched.unwrap();
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        let api = self.api(kind);
        api.delete(name, &Default::default()).await.unwrap();
        let gone = async || match api.get_opt(name).await {
            Ok(None) => Ok(()),
            found => Err(format!("{found:?}")),
        };
        eventually(&format!("{kind} {name} is gone"), DEADLINE, gone).await;
    }

    /// The status, once `Ready` has this reason and a message with this text.
    pub(crate) async fn ready(&self, kind: &str, name: &str, reason: &str, text: &str) -> Value {
        self.until(kind, name, reason, text, |_| true).await
    }

    /// The same, once the status meets a condition as well.
    pub(crate) async fn until(
        &self,
        kind: &str,
        name: &str,
        reason: &str,
        text: &str,
        is_met: impl Fn(&Value) -> bool,
    ) -> Value {
        let what = format!("Ready of {kind} {name} says {reason} {text}");
        eventually(&what, DEADLINE, async || {
            let object = self
                .api(kind)
                .get(name)
                .await
                .map_err(|error| error.to_string())?;
            let status = object.data["status"].clone();
            let conditions: Vec<Condition> =
                serde_json::from_value(status["conditions"].clone()).unwrap_or_default();
            let ready = condition(&conditions, ConditionType::Ready);
            let said = ready.map(|ready| (&*ready.reason, &*ready.message));
            match said {
                Some((own, message)) if own == reason && message.contains(text) && is_met(&status) => {
                    Ok(status)
                }
                _ => Err(format!("{said:?} {status}")),
            }
        })
        .await
    }

    /// Requests a reconcile, and waits until it has ended.
    pub(crate) async fn reconcile(&self, kind: &str, name: &str, token: &str) -> Value {
        let annotations = json!({ "reconcile.fluxcd.io/requestedAt": token });
        self.patch(kind, name, json!({ "metadata": { "annotations": annotations } }))
            .await;
        eventually(&format!("{kind} {name} answers {token}"), DEADLINE, async || {
            let object = self
                .api(kind)
                .get(name)
                .await
                .map_err(|error| error.to_string())?;
            let status = object.data["status"].clone();
            match status["lastHandledReconcileAt"] == token {
                true => Ok(status),
                false => Err(status.to_string()),
            }
        })
        .await
    }

    /// Waits for an event, `Normal Reason message`.
    pub(crate) async fn event(&self, expected: &str) {
        eventually(&format!("event {expected}"), DEADLINE, async || {
            let said = self.events().await;
            match said.iter().any(|said| said == expected) {
                true => Ok(()),
                false => Err(format!("{said:#?}")),
            }
        })
        .await;
    }

    /// All events, as [`Session::event`] has them.
    pub(crate) async fn events(&self) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.cluster.client(), NAMESPACE);
        let list = events.list(&ListParams::default()).await.unwrap();
        let one = |event: Event| {
            let (kind, reason) = (event.type_.unwrap_or_default(), event.reason.unwrap_or_default());
            format!("{kind} {reason} {}", event.message.unwrap_or_default())
        };
        list.items.into_iter().map(one).collect()
    }

    /// The warnings so far. A later one of this GitRepository, which has no branch, is written after them.
    pub(crate) async fn warnings(&self) -> Vec<String> {
        let spec = json!({ "url": GIT_URL, "ref": { "branch": "none" }, "interval": "1h" });
        self.create("GitRepository", "last", json!({ "spec": spec }))
            .await;
        let is_last = |event: &String| event.contains("branch \"none\" does not exist");
        eventually("the last event", DEADLINE, async || {
            let mut warnings = self.events().await;
            warnings.retain(|event| event.starts_with("Warning"));
            match warnings.iter().any(is_last) {
                true => Ok(warnings.into_iter().filter(|event| !is_last(event)).collect()),
                false => Err(format!("{warnings:#?}")),
            }
        })
        .await
    }

    /// The bytes of the artifact of a status.
    pub(crate) fn bytes(&self, status: &Value) -> Vec<u8> {
        let artifact: Artifact = serde_json::from_value(status["artifact"].clone()).unwrap();
        std::fs::read(self.folder.path().join("artifacts").join(artifact.path)).unwrap()
    }

    /// The sources that were not checked yet.
    pub(crate) fn behind(&self) -> Vec<String> {
        self.engine.behind()
    }

    pub(crate) async fn stop(self) {
        self.engine.stop().await;
    }
}

/// The conditions of a status, without times.
pub(crate) fn told(status: &Value) -> Vec<String> {
    let conditions: Vec<Condition> = serde_json::from_value(status["conditions"].clone()).unwrap();
    let one = |condition: &Condition| {
        format!(
            "{}={} {}: {}",
            condition.type_, condition.status, condition.reason, condition.message
        )
    };
    conditions.iter().map(one).collect()
}
