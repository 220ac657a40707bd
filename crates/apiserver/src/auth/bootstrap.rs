//! The ClusterRoles and bindings of a new cluster, as kube-apiserver 1.36 serves them.
//!
//! `cluster-admin`, `admin`, `edit`, `view`, the roles they aggregate, and the rights of every caller. The
//! roles of upstream's own components and controllers are left out: those do not run here.

use super::rbac::GROUP;
use serde_json::{Value, json};

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];

struct Role {
    name: &'static str,
    /// The role that aggregates this one (`aggregate-to-X`); empty for none.
    joins: &'static str,
    /// The name under which it aggregates others; its own rules are then computed. Empty for none.
    gathers: &'static str,
    rules: &'static [Rule],
}

enum Rule {
    /// Verbs, API groups, resources.
    On(
        &'static [&'static str],
        &'static [&'static str],
        &'static [&'static str],
    ),
    /// Verbs, paths.
    Paths(&'static [&'static str], &'static [&'static str]),
}

/// All ClusterRoles and ClusterRoleBindings, in the order of their creation, without uid and creation time.
///
/// With `gathered`, aggregated roles have their rules already; without it they are `null`, as upstream
/// before the controller runs. Upstream's field manager for them is `kube-apiserver`.
pub(crate) fn objects(gathered: bool) -> Vec<Value> {
    let mut roles: Vec<Value> = ROLES.iter().map(Role::object).collect();
    if gathered {
        gather(&mut roles);
    }
    roles.extend(BINDINGS.iter().map(|(name, groups)| binding(name, groups)));
    roles
}

/// Fills in the rules of aggregated roles. They can aggregate each other, without cycles: repeat until a
/// round changes nothing.
fn gather(roles: &mut [Value]) {
    loop {
        let before = roles.to_vec();
        for role in &mut *roles {
            if let Some(rules) = super::aggregate::aggregated_rules(role, &before.iter()) {
                role["rules"] = Value::Array(rules);
            }
        }
        if *roles == *before {
            return;
        }
    }
}

impl Role {
    fn object(&self) -> Value {
        let mut object = json!({
            "kind": "ClusterRole",
            "apiVersion": format!("{GROUP}/v1"),
            "metadata": metadata(self.name),
            "rules": null,
        });
        if self.gathers.is_empty() {
            object["rules"] = self.rules.iter().map(Rule::object).collect();
        }
        if !self.joins.is_empty() {
            object["metadata"]["labels"][aggregate_label(self.joins)] = json!("true");
        }
        if !self.gathers.is_empty() {
            object["aggregationRule"] = json!({ "clusterRoleSelectors": [{ "matchLabels": { aggregate_label(self.gathers): "true" } }] });
        }
        object
    }
}

impl Rule {
    fn object(&self) -> Value {
        match self {
            Self::On(verbs, groups, resources) => {
                json!({ "verbs": verbs, "apiGroups": groups, "resources": resources })
            }
            Self::Paths(verbs, paths) => json!({ "verbs": verbs, "nonResourceURLs": paths }),
        }
    }
}

fn aggregate_label(to: &str) -> String {
    format!("{GROUP}/aggregate-to-{to}")
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
        "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
    })
}

fn binding(name: &str, groups: &[&str]) -> Value {
    let subjects: Vec<Value> = groups
        .iter()
        .map(|group| json!({ "kind": "Group", "apiGroup": GROUP, "name": group }))
        .collect();
    json!({
        "kind": "ClusterRoleBinding",
        "apiVersion": format!("{GROUP}/v1"),
        "metadata": metadata(name),
        "subjects": subjects,
        "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": name },
    })
}

const BINDINGS: &[(&str, &[&str])] = &[
    ("cluster-admin", &["system:masters"]),
    ("system:basic-user", &["system:authenticated"]),
    ("system:discovery", &["system:authenticated"]),
    ("system:monitoring", &["system:monitoring"]),
    (
        "system:public-info-viewer",
        &["system:authenticated", "system:unauthenticated"],
    ),
    (
        "system:service-account-issuer-discovery",
        &["system:serviceaccounts"],
    ),
];

const ROLES: &[Role] = &[
    Role {
        name: "admin",
        joins: "",
        gathers: "admin",
        rules: &[],
    },
    Role {
        name: "cluster-admin",
        joins: "",
        gathers: "",
        rules: &[Rule::On(&["*"], &["*"], &["*"]), Rule::Paths(&["*"], &["*"])],
    },
    Role {
        name: "edit",
        joins: "admin",
        gathers: "edit",
        rules: &[],
    },
    Role {
        name: "system:aggregate-to-admin",
        joins: "admin",
        gathers: "",
        rules: &[
            Rule::On(
                &["create"],
                &["authorization.k8s.io"],
                &["localsubjectaccessreviews"],
            ),
            Rule::On(
                &[
                    "create",
                    "delete",
                    "deletecollection",
                    "get",
                    "list",
                    "patch",
                    "update",
                    "watch",
                ],
                &["rbac.authorization.k8s.io"],
                &["rolebindings", "roles"],
            ),
        ],
    },
    Role {
        name: "system:aggregate-to-edit",
        joins: "edit",
        gathers: "",
        rules: &[
            Rule::On(
                READ,
                &[""],
                &[
                    "pods/attach",
                    "pods/exec",
                    "pods/portforward",
                    "pods/proxy",
                    "secrets",
                    "services/proxy",
                ],
            ),
            Rule::On(&["impersonate"], &[""], &["serviceaccounts"]),
            Rule::On(
                WRITE,
                &[""],
                &[
                    "pods",
                    "pods/attach",
                    "pods/exec",
                    "pods/portforward",
                    "pods/proxy",
                ],
            ),
            Rule::On(&["create"], &[""], &["pods/eviction"]),
            Rule::On(
                WRITE,
                &[""],
                &[
                    "configmaps",
                    "persistentvolumeclaims",
                    "replicationcontrollers",
                    "replicationcontrollers/scale",
                    "secrets",
                    "serviceaccounts",
                    "services",
                    "services/proxy",
                ],
            ),
            Rule::On(&["create"], &[""], &["serviceaccounts/token"]),
            Rule::On(WRITE, &["", "events.k8s.io"], &["events"]),
            Rule::On(
                WRITE,
                &["apps"],
                &[
                    "daemonsets",
                    "deployments",
                    "deployments/rollback",
                    "deployments/scale",
                    "replicasets",
                    "replicasets/scale",
                    "statefulsets",
                    "statefulsets/scale",
                ],
            ),
            Rule::On(WRITE, &["autoscaling"], &["horizontalpodautoscalers"]),
            Rule::On(WRITE, &["batch"], &["cronjobs", "jobs"]),
            Rule::On(
                WRITE,
                &["extensions"],
                &[
                    "daemonsets",
                    "deployments",
                    "deployments/rollback",
                    "deployments/scale",
                    "ingresses",
                    "networkpolicies",
                    "replicasets",
                    "replicasets/scale",
                    "replicationcontrollers/scale",
                ],
            ),
            Rule::On(WRITE, &["policy"], &["poddisruptionbudgets"]),
            Rule::On(WRITE, &["networking.k8s.io"], &["ingresses", "networkpolicies"]),
            Rule::On(
                &[
                    "create",
                    "delete",
                    "deletecollection",
                    "get",
                    "list",
                    "patch",
                    "update",
                    "watch",
                ],
                &["coordination.k8s.io"],
                &["leases"],
            ),
            Rule::On(
                WRITE,
                &["resource.k8s.io"],
                &["resourceclaims", "resourceclaimtemplates"],
            ),
        ],
    },
    Role {
        name: "system:aggregate-to-view",
        joins: "view",
        gathers: "",
        rules: &[
            Rule::On(
                READ,
                &[""],
                &[
                    "configmaps",
                    "endpoints",
                    "persistentvolumeclaims",
                    "persistentvolumeclaims/status",
                    "pods",
                    "replicationcontrollers",
                    "replicationcontrollers/scale",
                    "serviceaccounts",
                    "services",
                    "services/status",
                ],
            ),
            Rule::On(
                READ,
                &[""],
                &[
                    "bindings",
                    "limitranges",
                    "namespaces/status",
                    "pods/log",
                    "pods/status",
                    "replicationcontrollers/status",
                    "resourcequotas",
                    "resourcequotas/status",
                ],
            ),
            Rule::On(READ, &[""], &["namespaces"]),
            Rule::On(READ, &["", "events.k8s.io"], &["events"]),
            Rule::On(READ, &["discovery.k8s.io"], &["endpointslices"]),
            Rule::On(
                READ,
                &["apps"],
                &[
                    "controllerrevisions",
                    "daemonsets",
                    "daemonsets/status",
                    "deployments",
                    "deployments/scale",
                    "deployments/status",
                    "replicasets",
                    "replicasets/scale",
                    "replicasets/status",
                    "statefulsets",
                    "statefulsets/scale",
                    "statefulsets/status",
                ],
            ),
            Rule::On(
                READ,
                &["autoscaling"],
                &["horizontalpodautoscalers", "horizontalpodautoscalers/status"],
            ),
            Rule::On(
                READ,
                &["batch"],
                &["cronjobs", "cronjobs/status", "jobs", "jobs/status"],
            ),
            Rule::On(
                READ,
                &["extensions"],
                &[
                    "daemonsets",
                    "daemonsets/status",
                    "deployments",
                    "deployments/scale",
                    "deployments/status",
                    "ingresses",
                    "ingresses/status",
                    "networkpolicies",
                    "replicasets",
                    "replicasets/scale",
                    "replicasets/status",
                    "replicationcontrollers/scale",
                ],
            ),
            Rule::On(
                READ,
                &["policy"],
                &["poddisruptionbudgets", "poddisruptionbudgets/status"],
            ),
            Rule::On(
                READ,
                &["networking.k8s.io"],
                &["ingresses", "ingresses/status", "networkpolicies"],
            ),
            Rule::On(
                READ,
                &["resource.k8s.io"],
                &[
                    "resourceclaims",
                    "resourceclaims/status",
                    "resourceclaimtemplates",
                ],
            ),
        ],
    },
    Role {
        name: "system:basic-user",
        joins: "",
        gathers: "",
        rules: &[
            Rule::On(
                &["create"],
                &["authorization.k8s.io"],
                &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            ),
            Rule::On(&["create"], &["authentication.k8s.io"], &["selfsubjectreviews"]),
        ],
    },
    Role {
        name: "system:discovery",
        joins: "",
        gathers: "",
        rules: &[Rule::Paths(
            &["get"],
            &[
                "/api",
                "/api/*",
                "/apis",
                "/apis/*",
                "/healthz",
                "/livez",
                "/openapi",
                "/openapi/*",
                "/readyz",
                "/version",
                "/version/",
            ],
        )],
    },
    Role {
        name: "system:monitoring",
        joins: "",
        gathers: "",
        rules: &[
            Rule::Paths(
                &["get"],
                &[
                    "/flagz",
                    "/healthz",
                    "/healthz/*",
                    "/livez",
                    "/livez/*",
                    "/metrics",
                    "/metrics/slis",
                    "/readyz",
                    "/readyz/*",
                    "/statusz",
                ],
            ),
            Rule::On(&["get"], &[""], &["nodes/metrics"]),
        ],
    },
    Role {
        name: "system:public-info-viewer",
        joins: "",
        gathers: "",
        rules: &[Rule::Paths(
            &["get"],
            &["/healthz", "/livez", "/readyz", "/version", "/version/"],
        )],
    },
    Role {
        name: "system:service-account-issuer-discovery",
        joins: "",
        gathers: "",
        rules: &[Rule::Paths(
            &["get"],
            &[
                "/.well-known/openid-configuration",
                "/.well-known/openid-configuration/",
                "/openid/v1/jwks",
                "/openid/v1/jwks/",
            ],
        )],
    },
    Role {
        name: "view",
        joins: "edit",
        gathers: "view",
        rules: &[],
    },
];
