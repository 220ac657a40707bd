//! The manifests as values, in the order of their creation.
//!
//! Objects that Flux's manifests contain are identical here, so that applying both in turn changes nothing:
//! the namespace, CRDs, ServiceAccounts, quota, policies and Service. Equate's own objects are
//! named `equate`.

use equate_controllers::ControllerSet;
use equate_manifest::yaml;
use serde_json::{Value, json};

use super::{pod, rbac};

/// The name of the Deployment, and the prefix of Equate's own objects.
pub(super) const NAME: &str = "equate";

#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) namespace: String,
    pub(super) image: String,
    pub(super) running: ControllerSet,
    /// All controllers of this program; the kinds of those that do not run are only read.
    pub(super) known: ControllerSet,
    /// Whether to leave out the objects of Flux's manifests.
    pub(super) beside_flux: bool,
    pub(super) watch_all_namespaces: bool,
    pub(super) network_policy: bool,
    pub(super) events_addr: Option<String>,
    pub(super) toleration_keys: Vec<String>,
    pub(super) image_pull_secret: Option<String>,
    pub(super) cluster_domain: String,
    pub(super) log_level: String,
}

/// A committed CRD is not valid YAML: a bug.
#[derive(Debug, thiserror::Error)]
#[error("could not parse the CRD {name}")]
pub(crate) struct DefinitionError {
    name: &'static str,
    #[source]
    source: yaml::YamlError,
}

impl Settings {
    /// All objects in the order of their dependencies; the Deployment is last.
    pub(super) fn manifests(&self) -> Result<Vec<Value>, DefinitionError> {
        let mut all = Vec::new();
        if !self.beside_flux {
            all.push(self.namespace_object());
            all.extend(self.definitions()?);
            all.extend(rbac::accounts(self));
            let roles = rbac::user_roles(&self.known).into_iter();
            all.extend(roles.map(|user| rbac::role(self, user.name, &user.labels, &user.rules)));
        }
        all.extend(rbac::controller_roles(self));
        if !self.beside_flux {
            all.push(self.quota());
            if self.network_policy {
                all.extend(self.policies());
            }
            all.extend(self.artifact_server().map(|name| self.service(name)));
        }
        all.push(pod::deployment(self));
        Ok(all)
    }

    pub(super) fn components(&self) -> Vec<&'static str> {
        self.running.components()
    }

    /// The running Flux controller that applies arbitrary objects, if any.
    pub(super) fn applier(&self) -> Option<&'static str> {
        let mut running = self.running.iter();
        running
            .find(|about| about.owner.is_some())
            .map(|about| about.component)
    }

    /// The running Flux controller that serves artifacts, if any.
    pub(super) fn artifact_server(&self) -> Option<&'static str> {
        let mut running = self.running.iter();
        running
            .find(|about| about.family == Some("sources"))
            .map(|about| about.component)
    }

    /// The pod's ServiceAccount: the one of the controller that needs most, so that permissions granted to it
    /// by clouds, registries and admission policies apply.
    pub(super) fn runs_as(&self) -> &'static str {
        let first = self.components().first().copied();
        self.applier().or(first).unwrap_or(NAME)
    }

    pub(super) fn labels(&self, more: &[(&str, &str)]) -> Value {
        let mut labels = json!({
            "app.kubernetes.io/instance": self.namespace,
            "app.kubernetes.io/part-of": "flux",
            "app.kubernetes.io/version": concat!("v", env!("CARGO_PKG_VERSION")),
        });
        for (key, value) in more {
            labels[*key] = (*value).into();
        }
        labels
    }

    pub(super) fn meta(&self, name: &str, labels: &[(&str, &str)]) -> Value {
        json!({ "name": name, "namespace": self.namespace, "labels": self.labels(labels) })
    }

    /// Metadata of a cluster-scoped object: two installations do not share it.
    pub(super) fn cluster_meta(&self, name: &str, labels: &[(&str, &str)]) -> Value {
        json!({ "name": format!("{name}-{}", self.namespace), "labels": self.labels(labels) })
    }

    fn namespace_object(&self) -> Value {
        let labels = [
            ("pod-security.kubernetes.io/warn", "restricted"),
            ("pod-security.kubernetes.io/warn-version", "latest"),
        ];
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": { "name": self.namespace, "labels": self.labels(&labels) },
        })
    }

    /// All of Flux's CRDs, also of kinds without a controller here. Replacing Flux's manifests in git by
    /// these must not delete a CRD, because its objects would be deleted with it.
    fn definitions(&self) -> Result<Vec<Value>, DefinitionError> {
        let mut all = Vec::new();
        for definition in equate_api::definitions() {
            let name = definition.name;
            let documents = yaml::load(definition.yaml, &yaml::Options::default())
                .map_err(|source| DefinitionError { name, source })?;
            for document in documents {
                let mut definition = document.value;
                definition["metadata"]["labels"] = self.labels(&[]);
                all.push(definition);
            }
        }
        Ok(all)
    }

    /// Some clusters admit pods of this priority only into namespaces with a quota for it.
    fn quota(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": self.meta(&format!("critical-pods-{}", self.namespace), &[]),
            "spec": {
                // 1000 as the API server formats it; kubectl would report another format as a difference
                "hard": { "pods": "1k" },
                "scopeSelector": { "matchExpressions": [{
                    "operator": "In",
                    "scopeName": "PriorityClass",
                    "values": ["system-node-critical", "system-cluster-critical"],
                }] },
            },
        })
    }

    fn policies(&self) -> [Value; 2] {
        let policy = |name: &str, spec: Value| {
            json!({
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": self.meta(name, &[]),
                "spec": spec,
            })
        };
        [
            policy(
                "allow-egress",
                json!({
                    "podSelector": {},
                    "policyTypes": ["Ingress", "Egress"],
                    "ingress": [{ "from": [{ "podSelector": {} }] }],
                    "egress": [{}],
                }),
            ),
            policy(
                "allow-scraping",
                json!({
                    "podSelector": {},
                    "policyTypes": ["Ingress"],
                    "ingress": [{
                        "from": [{ "namespaceSelector": {} }],
                        "ports": [{ "port": 8080, "protocol": "TCP" }],
                    }],
                }),
            ),
        ]
    }

    /// The Service of artifacts, with Flux's name. It selects the ready pod, which holds the Lease: Flux's or
    /// Equate's.
    fn service(&self, name: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.meta(name, &[("control-plane", "controller")]),
            "spec": {
                "type": "ClusterIP",
                "selector": { "app": name },
                "ports": [{ "name": "http", "port": 80, "protocol": "TCP", "targetPort": "http" }],
            },
        })
    }
}
