//! A cluster for tests of commands: the embedded API over TLS, with our CRDs and a few objects.

use crate::connection::{self, Connection, Options};
use crate::kinds::Kinds;
use crate::watch::{is_established, wait_until};
use equate_apiserver::EmbeddedCluster;
use equate_apiserver::cluster::Serving;
use equate_helm::release::{Driver, Release, Stamp, digest, to_object};
use equate_manifest::yaml;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};

pub(crate) struct Fixture {
    pub(crate) connection: Connection,
    pub(crate) kinds: Kinds,
    _serving: Serving,
    _cluster: EmbeddedCluster,
    folder: tempfile::TempDir,
}

impl Fixture {
    /// Serves a cluster with all CRDs and the namespace `flux-system`.
    pub(crate) async fn start() -> Self {
        let fixture = Self::bare().await;
        fixture.define().await;
        fixture
            .apply("{apiVersion: v1, kind: Namespace, metadata: {name: flux-system}}")
            .await;
        fixture
    }

    /// Serves a cluster with Kubernetes' own kinds alone, selected by its kubeconfig.
    pub(crate) async fn bare() -> Self {
        connection::install_tls();
        let cluster = EmbeddedCluster::builder().build().await.unwrap();
        let serving = cluster
            .serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .await
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        cluster.write_kubeconfig(&serving, &kubeconfig).unwrap();
        let options = Options {
            kubeconfig: Some(kubeconfig),
            context: None,
        };
        let connection = options.connect().await.unwrap();
        Self {
            connection,
            kinds: Kinds::of(equate_controllers::all().iter()),
            _serving: serving,
            _cluster: cluster,
            folder,
        }
    }

    /// A client that acts as another user.
    pub(crate) async fn client_as(&self, user: &str) -> Client {
        let options = Options {
            kubeconfig: Some(self.folder.path().join("kubeconfig")),
            context: None,
        };
        let impersonated = |mut config: kube::Config| {
            config.auth_info.impersonate = Some(user.to_owned());
            Client::try_from(config)
        };
        options.connect_by(impersonated).await.unwrap().client
    }

    /// Stores a revision of a release as Helm does, and returns its digest. `operation` is a controller's mark.
    pub(crate) async fn store(&self, record: Value, operation: Option<&str>) -> String {
        let release: Release = serde_json::from_value(record).unwrap();
        let stamp = Stamp::Created(0);
        let mut object = to_object(&release, Driver::Secret, &release.namespace, stamp).unwrap();
        if let Some(operation) = operation {
            object["metadata"]["annotations"] = json!({ "helm.equate.dev/operation": operation });
        }
        self.apply(&object.to_string()).await;
        digest(&release, "").unwrap()
    }

    async fn define(&self) {
        let api: Api<CustomResourceDefinition> = Api::all(self.connection.client.clone());
        for definition in equate_api::definitions() {
            let document = documents(definition.yaml).remove(0);
            let crd = serde_json::from_value(document).unwrap();
            api.create(&PostParams::default(), &crd).await.unwrap();
        }
        for definition in equate_api::definitions() {
            wait_until(&api, definition.name, is_established).await.unwrap();
        }
    }

    pub(crate) async fn apply(&self, text: &str) {
        let cluster = equate_apply::cluster::Cluster::new(self.connection.client.clone());
        for mut document in documents(text) {
            let object = equate_manifest::object::Object::from_value(document.clone()).unwrap();
            let kind = cluster.resolve(&object.gvk().unwrap()).await.unwrap();
            let namespace = if kind.namespaced { object.namespace() } else { "" };
            let api: Api<kube::api::DynamicObject> = match namespace {
                "" => Api::all_with(self.connection.client.clone(), &kind.resource),
                namespace => Api::namespaced_with(self.connection.client.clone(), namespace, &kind.resource),
            };
            let parameters = PatchParams::apply("test").force();
            let status = document.as_object_mut().unwrap().remove("status");
            api.patch(object.name(), &parameters, &Patch::Apply(&document))
                .await
                .unwrap();
            if let Some(status) = status {
                let patch = serde_json::json!({ "status": status });
                let parameters = PatchParams::default();
                api.patch_status(object.name(), &parameters, &Patch::Merge(&patch))
                    .await
                    .unwrap();
            }
        }
    }
}

fn documents(text: &str) -> Vec<Value> {
    let documents = yaml::load(text, &yaml::Options::default()).unwrap();
    documents.into_iter().map(|document| document.value).collect()
}

/// Objects in different states.
pub(crate) const FLEET: &str = r#"
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: fleet, namespace: flux-system, labels: {team: platform}}
spec: {url: https://example.com/fleet, interval: 1m}
status:
  observedGeneration: 1
  conditions: [{type: Ready, status: "True", reason: Succeeded, message: "stored artifact for revision 'main@sha1:0123456789012345678901234567890123456789'", lastTransitionTime: "2026-01-01T00:00:00Z", observedGeneration: 1}]
  artifact: {revision: "main@sha1:0123456789012345678901234567890123456789", digest: "sha256:00", path: a, url: http://a/a, lastUpdateTime: "2026-01-01T00:00:00Z"}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: flux-system}
spec: {interval: 1m, prune: true, sourceRef: {kind: GitRepository, name: fleet}}
status:
  observedGeneration: 1
  conditions: [{type: Ready, status: "False", reason: BuildFailed, message: "apps/kustomization.yaml:3:1: no such file\nlook there", lastTransitionTime: "2026-01-01T00:00:00Z", observedGeneration: 1}]
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: new, namespace: default}
spec: {interval: 1m, prune: true, suspend: true, sourceRef: {kind: GitRepository, name: fleet, namespace: flux-system}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: redis, namespace: flux-system}
spec: {interval: 1m, chartRef: {kind: OCIRepository, name: redis}}
"#;

/// An object that no controller reconciles.
pub(crate) const ALERT: &str = r#"
apiVersion: notification.toolkit.fluxcd.io/v1beta3
kind: Alert
metadata: {name: al, namespace: flux-system}
spec: {providerRef: {name: slack}, eventSources: [{kind: Kustomization, name: "*"}]}
"#;
