//! Groups failures by their cause, and says which kinds Equate does not reconcile. Pure.

use super::definitions::Defined;
use super::hosts::{self, Unanswered};
use crate::schemaless::GroupKind;
use equate_controllers::ObjectRef;
use equate_controllers::kit::MissingKinds;
use std::collections::{BTreeMap, BTreeSet};

/// The causes that are named before the others are counted.
pub(crate) const NAMED: usize = 20;
const WEBHOOKS_NAMED: usize = 5;
/// Objects that wait for others are named up to this number.
pub(crate) const WAITING_NAMED: usize = 5;

/// Facts about kinds, beside the objects' own statuses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) missing: BTreeMap<ObjectRef, MissingKinds>,
    pub(crate) defined: Defined,
    /// The owners whose source has a kind without a controller, with that source.
    pub(crate) blocked: BTreeMap<ObjectRef, String>,
    /// The HelmReleases whose objects are in another cluster.
    pub(crate) remote: BTreeSet<ObjectRef>,
    /// The served version of Flux's kinds that manifests have in another one.
    pub(crate) served: BTreeMap<GroupKind, &'static str>,
    /// The sources whose host did not answer.
    pub(crate) unreachable: BTreeMap<ObjectRef, Unanswered>,
    /// The objects with webhooks that the API does not call, with the number of these webhooks.
    pub(crate) skipped_webhooks: BTreeMap<String, usize>,
}

/// A line for each missing kind that one of these failing owners needs, then `refused`, then one for each silent
/// host.
pub(crate) fn causes(facts: &Facts, failing: &BTreeSet<ObjectRef>, refused: Vec<String>) -> Vec<String> {
    let mut lines = undefined(facts, failing);
    lines.extend(refused);
    lines.extend(hosts::silent(&facts.unreachable));
    lines
}

fn undefined(facts: &Facts, failing: &BTreeSet<ObjectRef>) -> Vec<String> {
    let mut owners: BTreeMap<GroupKind, BTreeSet<&ObjectRef>> = BTreeMap::new();
    for (owner, missing) in facts.missing.iter().filter(|(owner, _)| failing.contains(owner)) {
        for gvk in missing.kinds.keys() {
            let of_kind = owners.entry((gvk.group.clone(), gvk.kind.clone()));
            of_kind.or_default().insert(owner);
        }
    }
    let mut by_number: Vec<_> = owners.into_iter().collect();
    by_number.sort_by_key(|(_, owners)| std::cmp::Reverse(owners.len()));
    let more = by_number.len().saturating_sub(NAMED);
    let mut lines: Vec<String> = by_number
        .iter()
        .take(NAMED)
        .map(|(kind, owners)| cause(facts, kind, owners))
        .collect();
    if more > 0 {
        lines.push(format!("{more} more kinds are not defined"));
    }
    let helps = by_number
        .iter()
        .any(|(kind, _)| !facts.defined.refused.contains_key(kind) && !facts.served.contains_key(kind));
    match lines.last_mut() {
        Some(last) if helps => last.push_str("; try --crds or --unknown-kinds=accept"),
        _ => {}
    }
    lines
}

fn cause(facts: &Facts, kind: &GroupKind, owners: &BTreeSet<&ObjectRef>) -> String {
    let counted = counted(owners);
    let of = if kind.0.is_empty() {
        String::new()
    } else {
        format!(" ({})", kind.0)
    };
    if let Some(version) = facts.served.get(kind) {
        return format!(
            "{}{of} is served as {version} only: {counted}; change its apiVersion to {}/{version}",
            kind.1, kind.0
        );
    }
    match facts.defined.refused.get(kind) {
        Some((_, why)) => format!("{}{of} is not defined: {counted}; {why}", kind.1),
        None => format!("{}{of} is not defined: {counted}", kind.1),
    }
}

/// `Kustomization/apps`, `16 Kustomizations`, or `HelmRelease/web and 2 Kustomizations`.
fn counted(owners: &BTreeSet<&ObjectRef>) -> String {
    let mut kinds: BTreeMap<&str, Vec<&ObjectRef>> = BTreeMap::new();
    for owner in owners {
        kinds.entry(owner.kind).or_default().push(owner);
    }
    let each = kinds.iter().map(|(kind, owners)| match owners.as_slice() {
        [only] => format!("{kind}/{}", only.name),
        all => format!("{} {kind}s", all.len()),
    });
    each.collect::<Vec<_>>().join(" and ")
}

/// Lines about what is applied and not acted on.
pub(crate) fn notes(facts: &Facts, unsupported: &BTreeMap<String, usize>) -> Vec<String> {
    let mut lines = Vec::new();
    if !unsupported.is_empty() {
        let total: usize = unsupported.values().sum();
        let kinds: Vec<String> = unsupported
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        lines.push(format!(
            "{total} {} stored and not reconciled, because Equate has no controller for {}: {}",
            if total == 1 { "object is" } else { "objects are" },
            if unsupported.len() == 1 {
                "its kind yet"
            } else {
                "these kinds yet"
            },
            kinds.join(", ")
        ));
    }
    let schemaless = &facts.defined.schemaless;
    if !schemaless.is_empty() {
        let names = schemaless.iter().map(|(_, kind)| kind.as_str());
        let mut named: Vec<&str> = names.take(NAMED).collect();
        if schemaless.len() > NAMED {
            named.push("...");
        }
        lines.push(format!(
            "{} accepted without a schema, so nothing validates or reconciles {}: {}",
            if schemaless.len() == 1 {
                "1 kind is".to_owned()
            } else {
                format!("{} kinds are", schemaless.len())
            },
            if schemaless.len() == 1 {
                "its objects"
            } else {
                "their objects"
            },
            named.join(", ")
        ));
    }
    if !facts.skipped_webhooks.is_empty() {
        let total: usize = facts.skipped_webhooks.values().sum();
        let mut named: Vec<&str> = facts.skipped_webhooks.keys().map(String::as_str).collect();
        if named.len() > WEBHOOKS_NAMED {
            named.truncate(WEBHOOKS_NAMED);
            named.push("...");
        }
        lines.push(format!(
            "{}: {}",
            if total == 1 {
                "1 webhook is not called, because it is not on this machine".to_owned()
            } else {
                format!("{total} webhooks are not called, because they are not on this machine")
            },
            named.join(", ")
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use equate_manifest::object::GroupVersionKind;

    fn owner(name: &str) -> ObjectRef {
        ObjectRef::new("Kustomization", "flux-system", name)
    }

    fn lacking(kinds: &[&str]) -> MissingKinds {
        let gvk = |kind: &&str| (GroupVersionKind::new("x.org", "v1", *kind), true);
        MissingKinds {
            kinds: kinds.iter().map(gvk).collect(),
            only: true,
            resolved: false,
        }
    }

    #[test]
    fn failures_are_grouped_by_the_missing_kind() {
        let mut facts = Facts {
            missing: [
                (owner("a"), lacking(&["Secret", "Route"])),
                (owner("b"), lacking(&["Secret"])),
                (owner("suspended"), lacking(&["Other"])),
            ]
            .into(),
            ..Facts::default()
        };
        let failing = [owner("a"), owner("b"), owner("c")].into();
        assert_eq!(
            causes(&facts, &failing, Vec::new()),
            [
                "Secret (x.org) is not defined: 2 Kustomizations",
                "Route (x.org) is not defined: Kustomization/a; try --crds or --unknown-kinds=accept",
            ]
        );
        let release = ObjectRef::new("HelmRelease", "flux-system", "web");
        facts.missing.insert(release.clone(), lacking(&["Secret"]));
        let with_release = [owner("a"), owner("b"), release.clone()].into();
        assert_eq!(
            causes(&facts, &with_release, Vec::new())[0],
            "Secret (x.org) is not defined: HelmRelease/web and 2 Kustomizations"
        );
        facts.missing.remove(&release);
        let refused = |kind: &str| {
            (
                ("x.org".to_owned(), kind.to_owned()),
                (BTreeSet::new(), "no".to_owned()),
            )
        };
        facts.defined.refused = [refused("Secret"), refused("Route")].into();
        // a flag that did not help is not named again
        assert_eq!(
            causes(&facts, &failing, Vec::new()),
            [
                "Secret (x.org) is not defined: 2 Kustomizations; no",
                "Route (x.org) is not defined: Kustomization/a; no"
            ]
        );
        assert_eq!(causes(&facts, &BTreeSet::new(), Vec::new()), Vec::<String>::new());
    }

    #[test]
    fn a_kind_of_another_version_names_the_served_one() {
        let facts = Facts {
            missing: [(owner("a"), lacking(&["OCIRepository"]))].into(),
            served: [(("x.org".to_owned(), "OCIRepository".to_owned()), "v1")].into(),
            ..Facts::default()
        };
        let lines = causes(&facts, &[owner("a")].into(), Vec::new());
        assert_eq!(
            lines,
            [
                "OCIRepository (x.org) is served as v1 only: Kustomization/a; change its apiVersion to x.org/v1"
            ]
        );
    }

    #[test]
    fn kinds_without_a_controller_are_counted() {
        let facts = Facts {
            defined: Defined {
                schemaless: [("x.org".to_owned(), "Route".to_owned())].into(),
                ..Defined::default()
            },
            skipped_webhooks: ["a", "b", "c", "d", "e", "f"]
                .map(|name| (format!("ValidatingWebhookConfiguration/{name}"), 2))
                .into(),
            ..Facts::default()
        };
        let unsupported = [("HelmRelease".to_owned(), 2), ("HelmRepository".to_owned(), 1)].into();
        assert_eq!(
            notes(&facts, &unsupported),
            [
                "3 objects are stored and not reconciled, because Equate has no controller for these kinds yet: \
                 2 HelmRelease, 1 HelmRepository",
                "1 kind is accepted without a schema, so nothing validates or reconciles its objects: Route",
                "12 webhooks are not called, because they are not on this machine: ValidatingWebhookConfiguration/a, \
                 ValidatingWebhookConfiguration/b, ValidatingWebhookConfiguration/c, ValidatingWebhookConfiguration/d, \
                 ValidatingWebhookConfiguration/e, ...",
            ]
        );
        assert_eq!(notes(&Facts::default(), &BTreeMap::new()), Vec::<String>::new());
    }
}
