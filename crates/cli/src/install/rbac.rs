//! The RBAC roles of the controllers; docs/install.md describes them.
//!
//! Reconciling needs few permissions, but applying needs those for objects that are not known in advance. So,
//! as with Flux, the account of kustomize-controller is cluster-admin, and impersonation restricts tenants
//! (`spec.serviceAccountName`, `--default-service-account`). Without them and HelmReleases nothing is bound to
//! cluster-admin.

use std::collections::BTreeSet;

use equate_controllers::ControllerSet;
use serde_json::{Value, json};

use super::manifests::{NAME, Settings};

/// Flux's groups, in the order of its manifests, so that applying both in turn changes nothing.
const GROUPS: [&str; 6] = [
    "notification.toolkit.fluxcd.io",
    "source.toolkit.fluxcd.io",
    "source.extensions.fluxcd.io",
    "helm.toolkit.fluxcd.io",
    "image.toolkit.fluxcd.io",
    "kustomize.toolkit.fluxcd.io",
];

pub(super) fn accounts(settings: &Settings) -> Vec<Value> {
    let accounts = settings.components().into_iter().map(
        |name| json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": settings.meta(name, &[]) }),
    );
    accounts.collect()
}

/// A role of people and tenants.
pub(crate) struct UserRole {
    /// Its name, without that of the installation.
    pub(crate) name: &'static str,
    pub(crate) labels: Vec<(&'static str, &'static str)>,
    pub(crate) rules: Value,
}

/// Flux's additions to the roles view, edit and admin: users of a namespace may use its Flux objects. Editors
/// cannot write statuses.
pub(crate) fn user_roles(known: &ControllerSet) -> [UserRole; 2] {
    let (view, edit, admin) = (
        ("rbac.authorization.k8s.io/aggregate-to-view", "true"),
        ("rbac.authorization.k8s.io/aggregate-to-edit", "true"),
        ("rbac.authorization.k8s.io/aggregate-to-admin", "true"),
    );
    let read = json!(["get", "list", "watch"]);
    let write = json!(["create", "delete", "deletecollection", "patch", "update"]);
    let mut all = GROUPS.to_vec();
    all.extend(groups(known).into_iter().filter(|group| !GROUPS.contains(group)));
    let read = json!([{ "apiGroups": all, "resources": ["*"], "verbs": read }]);
    let write: Vec<Value> = all
        .iter()
        .map(|group| json!({ "apiGroups": [group], "resources": resources(known, group), "verbs": write }))
        .collect();
    [
        UserRole {
            name: "flux-view",
            labels: vec![view, edit, admin],
            rules: read,
        },
        UserRole {
            name: "flux-edit",
            labels: vec![edit, admin],
            rules: write.into(),
        },
    ]
}

fn resources(known: &ControllerSet, group: &str) -> BTreeSet<&'static str> {
    let defined = equate_api::definitions().iter();
    let defined = defined.filter_map(|definition| {
        let (plural, of) = definition.name.split_once('.')?;
        (of == group).then_some(plural)
    });
    let known = known.iter().filter(|about| about.group == group);
    defined.chain(known.map(|about| about.plural)).collect()
}

pub(super) fn controller_roles(settings: &Settings) -> Vec<Value> {
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

/// The permissions for reconciling. Flux's `crd-controller` without creating and deleting its own kinds,
/// Leases in ConfigMaps, and the kinds of other controllers.
fn rules(settings: &Settings) -> Value {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
    let read: &[&str] = &["get", "list", "watch"];
    // specs, statuses, finalizers and annotations of reconciled objects
    let work: &[&str] = &["get", "list", "watch", "patch", "update"];
    let own = groups(&settings.known).into_iter().map(|group| {
        let mut running = settings.running.iter();
        let reconciled = running.any(|about| about.group == group);
        rule(group, &["*"], if reconciled { work } else { read })
    });
    let others = [
        // credentials, keys and values; labels of namespaces for cross-namespace references; impersonation
        rule(
            "",
            &["configmaps", "namespaces", "secrets", "serviceaccounts"],
            read,
        ),
        rule("", &["events"], &["create", "patch"]),
        // leader election
        rule("coordination.k8s.io", &["leases"], &["get", "create", "update"]),
    ];
    // ArtifactGenerators make and remove ExternalArtifacts
    let mut running = settings.running.iter();
    let makes = running.any(|about| about.kind == "ArtifactGenerator");
    let made = makes.then(|| {
        rule(
            "source.toolkit.fluxcd.io",
            &["externalartifacts"],
            &["create", "delete"],
        )
    });
    own.chain(made).chain(others).collect()
}

fn groups(controllers: &ControllerSet) -> Vec<&'static str> {
    let mut groups = Vec::new();
    for about in controllers.iter() {
        if !groups.contains(&about.group) {
            groups.push(about.group);
        }
    }
    groups
}

pub(super) fn role(settings: &Settings, name: &str, labels: &[(&str, &str)], rules: &Value) -> Value {
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
