//! What the controllers may do, and what for. docs/install.md says the same to people.
//!
//! Reconciling needs little; applying needs what is applied, which nobody knows before. So, as with
//! Flux, the account of kustomize-controller has all rights, and tenants are kept from them by
//! impersonation (`spec.serviceAccountName`, `--default-service-account`). Without Kustomizations
//! nothing is bound to all rights.

use equate_controllers::ControllerSet;
use serde_json::{Value, json};

use super::manifests::{NAME, Settings};

/// Flux's groups, in the order of its manifests: applying those and these by turns changes nothing.
const GROUPS: [&str; 6] = [
    "notification.toolkit.fluxcd.io",
    "source.toolkit.fluxcd.io",
    "source.extensions.fluxcd.io",
    "helm.toolkit.fluxcd.io",
    "image.toolkit.fluxcd.io",
    "kustomize.toolkit.fluxcd.io",
];

/// Flux's ServiceAccounts of the controllers that run.
pub(super) fn accounts(settings: &Settings) -> Vec<Value> {
    let accounts = settings.components().into_iter().map(
        |name| json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": settings.meta(name, &[]) }),
    );
    accounts.collect()
}

/// Flux's additions to the roles view, edit and admin: who may use a namespace may use its objects of
/// Flux's kinds.
pub(super) fn of_people(settings: &Settings) -> [Value; 2] {
    let (view, edit, admin) = (
        ("rbac.authorization.k8s.io/aggregate-to-view", "true"),
        ("rbac.authorization.k8s.io/aggregate-to-edit", "true"),
        ("rbac.authorization.k8s.io/aggregate-to-admin", "true"),
    );
    let read = json!(["get", "list", "watch"]);
    let write = json!(["create", "delete", "deletecollection", "patch", "update"]);
    let mut all = GROUPS.to_vec();
    all.extend(
        groups(&settings.known)
            .into_iter()
            .filter(|group| !GROUPS.contains(group)),
    );
    let rules = |verbs: Value| json!([{ "apiGroups": all, "resources": ["*"], "verbs": verbs }]);
    [
        role(settings, "flux-view", &[view, edit, admin], &rules(read)),
        role(settings, "flux-edit", &[edit, admin], &rules(write)),
    ]
}

/// What Equate's pod may do.
pub(super) fn of_controllers(settings: &Settings) -> Vec<Value> {
    let name = format!("{NAME}-controllers");
    let mut all = vec![
        role(settings, &name, &[], &rules(settings)),
        binding(settings, &name, &format!("{name}-{}", settings.namespace)),
    ];
    if settings.applier().is_some() {
        all.push(binding(settings, &format!("{NAME}-reconciler"), "cluster-admin"));
    }
    all
}

/// What reconciling needs, whatever is applied. Flux's `crd-controller` without what nothing here does:
/// creating and deleting its own kinds, Leases in ConfigMaps, the kinds of other controllers.
fn rules(settings: &Settings) -> Value {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
    let read: &[&str] = &["get", "list", "watch"];
    // specs, statuses, finalizers and annotations of what is reconciled
    let work: &[&str] = &["get", "list", "watch", "patch", "update"];
    let own = groups(&settings.known).into_iter().map(|group| {
        let mut running = settings.running.iter();
        let reconciled = running.any(|about| about.group == group);
        rule(group, &["*"], if reconciled { work } else { read })
    });
    let others = [
        // credentials, keys and values; whose labels admit a reference; whom to impersonate
        rule(
            "",
            &["configmaps", "namespaces", "secrets", "serviceaccounts"],
            read,
        ),
        rule("", &["events"], &["create", "patch"]),
        // who works and who waits
        rule("coordination.k8s.io", &["leases"], &["get", "create", "update"]),
    ];
    own.chain(others).collect()
}

/// The API groups of controllers, each once.
fn groups(controllers: &ControllerSet) -> Vec<&'static str> {
    let mut groups = Vec::new();
    for about in controllers.iter() {
        if !groups.contains(&about.group) {
            groups.push(about.group);
        }
    }
    groups
}

fn role(settings: &Settings, name: &str, labels: &[(&str, &str)], rules: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": settings.cluster_meta(name, labels),
        "rules": rules,
    })
}

fn binding(settings: &Settings, name: &str, role: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": settings.cluster_meta(name, &[]),
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{
            "kind": "ServiceAccount",
            "name": settings.runs_as(),
            "namespace": settings.namespace,
        }],
    })
}
