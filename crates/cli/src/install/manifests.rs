//! The objects, as values, in the order in which they can be made.
//!
//! What Flux's own manifests hold is the same here, byte for byte where it matters, so that both can be
//! applied by turns and nothing changes: the namespace, the definitions, the ServiceAccounts, the roles
//! of people, the quota, the policies, the Service. What only Equate needs is called `equate`.

use equate_controllers::ControllerSet;
use equate_manifest::yaml;
use serde_json::{Value, json};

use super::{pod, rights};

/// What the Deployment is called, and what only Equate needs begins with.
pub(super) const NAME: &str = "equate";

/// What may differ.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) namespace: String,
    pub(super) image: String,
    /// The controllers that run.
    pub(super) running: ControllerSet,
    /// All controllers of this program: what the others reconcile is read.
    pub(super) known: ControllerSet,
    /// Whether what Flux's manifests hold is left out.
    pub(super) beside_flux: bool,
    pub(super) watch_all_namespaces: bool,
    pub(super) network_policy: bool,
    pub(super) events_addr: Option<String>,
    pub(super) toleration_keys: Vec<String>,
    pub(super) image_pull_secret: Option<String>,
    pub(super) cluster_domain: String,
    pub(super) log_level: String,
}

/// A committed definition is not YAML, which is a bug.
#[derive(Debug, thiserror::Error)]
#[error("the definition {name} cannot be read")]
pub(crate) struct DefinitionError {
    name: &'static str,
    #[source]
    source: yaml::YamlError,
}

impl Settings {
    /// All objects; each comes after what it needs, the Deployment is the last.
    pub(super) fn manifests(&self) -> Result<Vec<Value>, DefinitionError> {
        let mut all = Vec::new();
        if !self.beside_flux {
            all.push(self.namespace_object());
            all.extend(self.definitions()?);
            all.extend(rights::accounts(self));
            all.extend(rights::of_people(self));
        }
        all.extend(rights::of_controllers(self));
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

    /// The controllers that run, as Flux calls them.
    pub(super) fn components(&self) -> Vec<&'static str> {
        self.running.components()
    }

    /// Flux's controller that applies what nobody knows before, where one runs.
    pub(super) fn applier(&self) -> Option<&'static str> {
        let mut running = self.running.iter();
        running
            .find(|about| about.owner.is_some())
            .map(|about| about.component)
    }

    /// Flux's controller that serves artifacts, where one runs.
    pub(super) fn artifact_server(&self) -> Option<&'static str> {
        let mut running = self.running.iter();
        running
            .find(|about| about.family == Some("sources"))
            .map(|about| about.component)
    }

    /// As whom the pod runs: with Flux's ServiceAccount of the controller that needs most, so that
    /// what clouds, registries and admission policies grant to that one is granted.
    pub(super) fn runs_as(&self) -> &'static str {
        let first = self.components().first().copied();
        self.applier().or(first).unwrap_or(NAME)
    }

    /// The labels of all that is installed, as Flux puts them; its tools look for them.
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

    /// Of an object without a namespace: two installations do not share it.
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

    /// All of Flux's definitions, also of kinds that nothing here reconciles: whoever replaces Flux's
    /// manifests in git by these must lose none, for with a definition goes every object of its kind.
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

    /// Pods of the priority that these have are, in some clusters, only let into namespaces with a
    /// quota for it.
    fn quota(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": self.meta(&format!("critical-pods-{}", self.namespace), &[]),
            "spec": {
                // a thousand, as the API server writes it: kubectl would find another spelling to differ
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

    /// Artifacts, by Flux's name. It finds the pod that is ready, which is the one that has the Lease:
    /// Flux's or Equate's.
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
