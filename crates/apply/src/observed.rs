//! The facts kept about a live object, instead of the whole object.

use crate::health::{self, Health};
use crate::owned::{self, Digest};
use crate::owner::{Owner, OwnerKind};
use crate::policy::Policy;
use crate::rules::{OwnerHealth, OwnerRules, Stamp};
use crate::takeover;
use equate_manifest::object::Object;
use serde_json::Value;

/// A live object, reduced to what planning and reporting need, for owners of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.creationTimestamp`.
    pub created: Option<jiff::Timestamp>,
    /// `metadata.generation`; 0 where the kind has none.
    pub generation: i64,
    /// The owner in its labels, among owners of that kind.
    pub owner: Option<Owner>,
    /// The digest of the fields owned by that kind's field manager, without ignored ones.
    pub owned: Digest,
    /// The version of its owner's rules at that time.
    pub stamp: Stamp,
    /// Its health.
    pub health: Health,
    /// Its health by the rules of owners that have their own.
    pub judged: Vec<OwnerHealth>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its annotations for apply and prune, as they are in the cluster, where anyone may set them.
    pub policy: Policy,
    /// Whether `kubectl` owns fields that an apply takes over.
    pub kubectl: bool,
    /// The last other manager that wrote it, named when our fields were overwritten.
    pub other_writer: Option<String>,
    /// The kind it defines, if it is a CustomResourceDefinition.
    pub defines: Option<String>,
}

impl Observed {
    /// Observes a live object with its `managedFields`, for owners of a kind.
    pub fn of(live: &Object, kind: &'static OwnerKind) -> Observed {
        Self::under(live, kind, &())
    }

    /// Same as [`Observed::of`], under its owner's rules.
    pub fn under(live: &Object, kind: &'static OwnerKind, rules: &dyn OwnerRules) -> Observed {
        let text = |key: &str| {
            let value = live.metadata().and_then(|m| m.get(key));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let metadata = |key: &str| live.metadata().and_then(|m| m.get(key));
        let owner = Owner::of(live, kind);
        let stamp = owner.as_ref().map_or(0, |owner| rules.stamp(owner));
        let ignored = match (&owner, stamp) {
            (None, _) | (_, 0) => Vec::new(),
            (Some(owner), _) => rules.ignored(owner, live),
        };
        let mut observed = Observed {
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            created: text("creationTimestamp").parse().ok(),
            generation: metadata("generation").and_then(Value::as_i64).unwrap_or_default(),
            owned: owned::owned_but(live, kind.field_manager, &ignored),
            stamp,
            health: health::compute(live),
            judged: Vec::new(),
            deleting: metadata("deletionTimestamp").is_some_and(|t| !t.is_null()),
            policy: Policy::of(live),
            kubectl: takeover::needed(live, kind.field_manager),
            other_writer: other_writer(live, kind.field_manager),
            defines: defines(live),
            owner,
        };
        if let Some(owner) = observed.owner.clone() {
            observed.judge(live, &owner, rules);
        }
        observed
    }

    /// Adds the health by an owner's rules.
    pub fn judge(&mut self, live: &Object, by: &Owner, rules: &dyn OwnerRules) {
        let stamp = rules.stamp(by);
        if stamp == 0 || self.judged.iter().any(|judged| judged.by == *by) {
            return;
        }
        if let Some(health) = rules.judge(by, live) {
            self.judged.push(OwnerHealth {
                by: by.clone(),
                stamp,
                health,
            });
        }
    }

    /// The health by an owner's rules.
    pub fn judged_by(&self, by: &Owner) -> Option<&OwnerHealth> {
        self.judged.iter().find(|judged| judged.by == *by)
    }
}

fn defines(live: &Object) -> Option<String> {
    let definition =
        live.kind() == "CustomResourceDefinition" && live.api_version().starts_with("apiextensions.k8s.io/");
    let kind = live.0.get("spec")?.get("names")?.get("kind")?.as_str()?;
    definition.then(|| kind.to_owned())
}

/// The latest entry that is neither our manager's nor about status; autoscalers write through `scale`.
/// Times are RFC 3339 in UTC, so text order is time order.
fn other_writer(live: &Object, manager: &str) -> Option<String> {
    let entries = live.metadata()?.get("managedFields")?.as_array()?;
    let text = |entry: &Value, key: &str| {
        entry
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    entries
        .iter()
        .filter(|entry| text(entry, "manager") != manager && text(entry, "subresource") != "status")
        .max_by_key(|entry| text(entry, "time"))
        .map(|entry| text(entry, "manager"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::tests::{HELM_RELEASE, KUSTOMIZATION};
    use serde_json::json;

    fn observed(metadata: &Value) -> Observed {
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
        Observed::of(&Object::from_value(object).unwrap(), &KUSTOMIZATION)
    }

    #[test]
    fn observed_fields() {
        let bare = observed(&json!({ "name": "a" }));
        assert_eq!((bare.owner, bare.deleting, bare.kubectl), (None, false, false));
        assert_eq!(
            (bare.generation, bare.created, bare.other_writer),
            (0, None, None)
        );
        let full = observed(&json!({
            "uid": "u", "resourceVersion": "7", "generation": 3, "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionTimestamp": "2026-01-02T03:04:06Z",
            "labels": {
                "kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
            },
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}" },
        }));
        assert_eq!(
            full.owner,
            Some(Owner::new(&KUSTOMIZATION, "flux-system", "apps"))
        );
        assert_eq!(
            (full.uid.as_str(), full.resource_version.as_str(), full.generation),
            ("u", "7", 3)
        );
        assert!(full.deleting && full.kubectl);
        assert_eq!(full.created.unwrap().to_string(), "2026-01-02T03:04:05Z");
        // one label alone is not an owner
        let half = observed(&json!({ "labels": { "kustomize.toolkit.fluxcd.io/name": "apps" } }));
        assert_eq!(half.owner, None);
    }

    #[test]
    fn each_kind_of_owner_sees_its_own_fields() {
        let entry = |manager: &str, field: &str, time: &str| {
            json!({ "manager": manager, "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                    "fieldsV1": { "f:data": { field: {} } }, "time": time })
        };
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": { "k": "1", "h": "2" },
            "metadata": {
                "labels": {
                    "kustomize.toolkit.fluxcd.io/name": "b", "kustomize.toolkit.fluxcd.io/namespace": "a",
                    "helm.toolkit.fluxcd.io/name": "b", "helm.toolkit.fluxcd.io/namespace": "a",
                },
                "managedFields": [
                    entry("kustomize-controller", "f:k", "2026-01-01T00:00:00Z"),
                    entry("helm-controller", "f:h", "2026-01-02T00:00:00Z"),
                ],
            },
        });
        let object = Object::from_value(object).unwrap();
        let seen = [&KUSTOMIZATION, &HELM_RELEASE].map(|kind| (kind, Observed::of(&object, kind)));
        for (kind, observed) in &seen {
            assert_eq!(observed.owner, Some(Owner::new(kind, "a", "b")));
        }
        let [(_, by_kustomization), (_, by_release)] = &seen;
        assert_ne!(by_kustomization.owned, by_release.owned);
        let writers = [by_kustomization, by_release].map(|observed| observed.other_writer.as_deref());
        assert_eq!(writers, [Some("helm-controller"), Some("kustomize-controller")]);
    }

    #[test]
    fn the_last_other_writer_is_named() {
        let check = |entries: &[(&str, &str, &str)], expected: Option<&str>| {
            let entries: Vec<_> = entries
                .iter()
                .map(|(manager, subresource, time)| {
                    json!({ "manager": manager, "operation": "Update", "subresource": subresource, "time": time })
                })
                .collect();
            let observed = observed(&json!({ "managedFields": entries }));
            assert_eq!(observed.other_writer.as_deref(), expected);
        };
        check(&[], None);
        check(&[("kustomize-controller", "", "2026-01-01T00:00:00Z")], None);
        check(
            &[
                ("early", "", "2026-01-01T00:00:00Z"),
                ("late", "", "2026-01-02T00:00:00Z"),
                ("status", "status", "2026-01-03T00:00:00Z"),
                ("kustomize-controller", "", "2026-01-04T00:00:00Z"),
            ],
            Some("late"),
        );
        check(
            &[
                ("person", "", "2026-01-01T00:00:00Z"),
                ("autoscaler", "scale", "2026-01-02T00:00:00Z"),
            ],
            Some("autoscaler"),
        );
    }
}
