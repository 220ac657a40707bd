//! The order of apply.
//!
//! Stages run one after another; a stage waits until the one before is healthy. Inside a stage kinds have
//! ranks; objects of one rank may be applied concurrently. Both are Flux's (`pkg/ssa/sort.go`,
//! `utils/is.go`). Deletion uses the reverse order.

use crate::id::ObjectId;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

/// Kinds before all unlisted ones, in this order.
const FIRST: [&str; 23] = [
    "CustomResourceDefinition",
    "Namespace",
    "ClusterRole",
    "ClusterClass",
    "RuntimeClass",
    "PriorityClass",
    "StorageClass",
    "VolumeSnapshotClass",
    "IngressClass",
    "GatewayClass",
    "ClusterRoleBinding",
    "ResourceQuota",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "Secret",
    "Service",
    "LimitRange",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];

/// Kinds after all others: a webhook that is not served yet would refuse everything after it.
const LAST: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// A stage of an apply, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StageKind {
    /// CustomResourceDefinitions, Namespaces, ClusterRoles.
    Definitions,
    /// Kinds whose name ends in `Class`.
    Classes,
    /// Kinds that the engine is configured to apply before the rest.
    Custom,
    /// Everything else.
    Rest,
}

impl fmt::Display for StageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Definitions => "definitions",
            Self::Classes => "classes",
            Self::Custom => "custom",
            Self::Rest => "rest",
        })
    }
}

/// A kind without its version: group and kind.
pub type GroupKind = (String, String);

/// The stage of an object; `custom` are the kinds of the custom stage.
pub fn stage(id: &ObjectId, custom: &BTreeSet<GroupKind>) -> StageKind {
    let definition = matches!(
        (&*id.group, &*id.kind),
        ("apiextensions.k8s.io", "CustomResourceDefinition")
            | ("", "Namespace")
            | ("rbac.authorization.k8s.io", "ClusterRole")
    );
    if definition {
        StageKind::Definitions
    } else if id.kind.ends_with("Class") {
        StageKind::Classes
    } else if custom.iter().any(|(g, k)| **g == *id.group && **k == *id.kind) {
        StageKind::Custom
    } else {
        StageKind::Rest
    }
}

/// The rank of a kind inside its stage: negative for first, 0 for unlisted, positive for last.
pub fn rank(kind: &str) -> i32 {
    let at = |list: &[&str]| {
        let found = list.iter().position(|k| *k == kind)?;
        i32::try_from(found).ok()
    };
    match (at(&FIRST), at(&LAST)) {
        (Some(first), _) => first - i32::try_from(FIRST.len()).unwrap_or_default(),
        (None, Some(last)) => last + 1,
        (None, None) => 0,
    }
}

/// The order inside a stage: rank, group, kind, namespace, name.
pub fn compare(a: &ObjectId, b: &ObjectId) -> Ordering {
    rank(&a.kind).cmp(&rank(&b.kind)).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ObjectId {
        ObjectId::from_inventory(text).unwrap()
    }

    #[test]
    fn stages() {
        let custom = BTreeSet::from([("example.org".to_owned(), "Database".to_owned())]);
        let check =
            |text: &str, expected: StageKind| assert_eq!(stage(&id(text), &custom), expected, "{text}");
        check(
            "_w_apiextensions.k8s.io_CustomResourceDefinition",
            StageKind::Definitions,
        );
        check("_shop__Namespace", StageKind::Definitions);
        check("_r_rbac.authorization.k8s.io_ClusterRole", StageKind::Definitions);
        check("_r_example.org_ClusterRole", StageKind::Rest);
        check("_r_example.org_Namespace", StageKind::Rest);
        check("_r_rbac.authorization.k8s.io_ClusterRoleBinding", StageKind::Rest);
        check("_s_storage.k8s.io_StorageClass", StageKind::Classes);
        check("n_s_example.org_MyClass", StageKind::Classes);
        check("n_d_example.org_Database", StageKind::Custom);
        check("n_d_other.org_Database", StageKind::Rest);
        check("n_d_apps_Deployment", StageKind::Rest);
    }

    #[test]
    fn the_order_inside_a_stage() {
        let check = |given: &str, expected: &str| {
            let mut ids: Vec<_> = given.split_whitespace().map(id).collect();
            ids.sort_by(compare);
            let shown: Vec<_> = ids.iter().map(ObjectId::to_inventory).collect();
            assert_eq!(shown.join(" "), expected);
        };
        check(
            "n_z__Service n_a_apps_Deployment n_b__ConfigMap n_a__ConfigMap m_z__ConfigMap",
            "m_z__ConfigMap n_a__ConfigMap n_b__ConfigMap n_z__Service n_a_apps_Deployment",
        );
        check(
            "_v_admissionregistration.k8s.io_ValidatingWebhookConfiguration n_a_x.org_Thing \
             _m_admissionregistration.k8s.io_MutatingWebhookConfiguration n_p_policy_PodDisruptionBudget n_a_a.org_Z",
            "n_p_policy_PodDisruptionBudget n_a_a.org_Z n_a_x.org_Thing \
             _m_admissionregistration.k8s.io_MutatingWebhookConfiguration \
             _v_admissionregistration.k8s.io_ValidatingWebhookConfiguration",
        );
        // kinds of one name in two groups have one rank; the group decides
        check(
            "n_a_z.org_Deployment n_b_apps_Deployment",
            "n_b_apps_Deployment n_a_z.org_Deployment",
        );
    }
}
