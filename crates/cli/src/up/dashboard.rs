//! Custom resources and observed objects in, the view's dashboard out. Pure.

use super::view::{Dashboard, Group, Row, State};
use equate_api::kustomize::Kustomization;
use equate_api::meta::{ConditionStatus, ConditionType, Reason, condition, is_true};
use equate_api::source::GitRepository;
use equate_apply::health::Status;
use equate_apply::id::ObjectId;
use equate_apply::observed::Observed;
use equate_controllers::kustomization::reasons::PATH_NOT_FOUND;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Digits of a commit that people read.
const COMMIT_DIGITS: usize = 7;

/// What is known at one moment.
pub(crate) struct Known<'a> {
    pub(crate) title: String,
    pub(crate) hints: Vec<String>,
    pub(crate) sources: &'a [Arc<GitRepository>],
    pub(crate) kustomizations: &'a [Arc<Kustomization>],
    pub(crate) observed: &'a dyn Fn(&ObjectId) -> Option<Arc<Observed>>,
    /// What was left to this very loop: a file, and how many objects it declares.
    pub(crate) kept: &'a [(String, usize)],
    pub(crate) now: Timestamp,
}

/// Everything, ready to be drawn.
pub(crate) fn dashboard(known: Known<'_>) -> Dashboard {
    let listed = Listed::of(&known);
    let held: BTreeSet<ObjectId> = known
        .kustomizations
        .iter()
        .flat_map(|k| inventory(k))
        .filter(|id| !listed.has(id))
        .collect();
    let objects = held
        .iter()
        .map(|id| object_row(id, (known.observed)(id).as_deref(), known.now));
    let kept = known.kept.iter().map(|(file, count)| Row {
        state: State::Kept,
        name: file.clone(),
        detail: format!("{count} kept"),
        age: String::new(),
        message: "this loop takes their place".into(),
    });
    Dashboard {
        title: known.title,
        hints: known.hints,
        groups: vec![
            Group {
                heading: "SOURCES",
                rows: sorted(known.sources.iter().map(|source| source_row(source, known.now))),
            },
            Group {
                heading: "KUSTOMIZATIONS",
                rows: sorted(
                    known
                        .kustomizations
                        .iter()
                        .map(|k| kustomization_row(k, known.now)),
                ),
            },
            Group {
                heading: "OBJECTS",
                rows: objects.chain(kept).collect(),
            },
        ],
    }
}

/// What has a row in another group already. One that was applied this moment may not be known there
/// yet: to leave it out would call a loop ready that has only begun.
struct Listed<'a> {
    sources: HashSet<(&'a str, &'a str)>,
    kustomizations: HashSet<(&'a str, &'a str)>,
}

impl<'a> Listed<'a> {
    fn of(known: &Known<'a>) -> Self {
        let names = |meta: &'a ObjectMeta| {
            let text = |field: &'a Option<String>| field.as_deref().unwrap_or_default();
            (text(&meta.namespace), text(&meta.name))
        };
        Self {
            sources: known
                .sources
                .iter()
                .map(|source| names(&source.metadata))
                .collect(),
            kustomizations: known.kustomizations.iter().map(|k| names(&k.metadata)).collect(),
        }
    }

    fn has(&self, id: &ObjectId) -> bool {
        let group = match &*id.kind {
            _ if !has_its_own_group(id) => return false,
            "Kustomization" => &self.kustomizations,
            _ => &self.sources,
        };
        group.contains(&(&*id.namespace, &*id.name))
    }
}

/// Whether objects of its kind have a group of their own.
fn has_its_own_group(id: &ObjectId) -> bool {
    matches!(
        (&*id.group, &*id.kind),
        ("kustomize.toolkit.fluxcd.io", "Kustomization") | ("source.toolkit.fluxcd.io", "GitRepository")
    )
}

/// Whether Equate has a controller for an object of Flux's, yet.
fn lacks_controller(id: &ObjectId) -> bool {
    let ours = id.group.ends_with(".toolkit.fluxcd.io") || &*id.group == "source.extensions.fluxcd.io";
    // These two have no status: there is nothing that a controller would make ready.
    ours && !has_its_own_group(id) && !matches!(&*id.kind, "Alert" | "Provider")
}

/// The objects that a Kustomization says it holds; an unreadable entry is the controller's to report.
pub(crate) fn inventory(kustomization: &Kustomization) -> Vec<ObjectId> {
    let inventory = kustomization
        .status
        .as_ref()
        .and_then(|status| status.inventory.as_ref());
    inventory
        .map(|inventory| inventory.entries.as_slice())
        .unwrap_or_default()
        .iter()
        .filter_map(|entry| ObjectId::from_inventory(&entry.id).ok())
        .collect()
}

fn sorted(rows: impl Iterator<Item = Row>) -> Vec<Row> {
    let mut rows: Vec<Row> = rows.collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

fn source_row(source: &GitRepository, now: Timestamp) -> Row {
    let status = source.status.as_ref();
    let revision = status
        .and_then(|status| status.artifact.as_ref())
        .map(|artifact| short_revision(&artifact.revision));
    let (state, message) = standing(
        &source.metadata,
        source.spec.suspend,
        status
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default(),
        status.and_then(|status| status.observed_generation),
    );
    Row {
        state,
        name: format!("GitRepository/{}", name(&source.metadata)),
        detail: revision.unwrap_or_default(),
        age: age(created(&source.metadata), now),
        message,
    }
}

fn kustomization_row(kustomization: &Kustomization, now: Timestamp) -> Row {
    let status = kustomization.status.as_ref();
    let revision = status
        .and_then(|status| status.last_applied_revision.as_deref())
        .map(short_revision);
    let (state, message) = standing(
        &kustomization.metadata,
        kustomization.spec.suspend,
        status
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default(),
        status.and_then(|status| status.observed_generation),
    );
    Row {
        state,
        name: name(&kustomization.metadata),
        detail: revision.unwrap_or_default(),
        age: age(created(&kustomization.metadata), now),
        message,
    }
}

/// What an object is called here: as in its own group, where its kind has one.
fn called(id: &ObjectId) -> String {
    if has_its_own_group(id) && &*id.namespace == equate_api::meta::DEFAULT_NAMESPACE {
        return format!("{}/{}", id.kind, id.name);
    }
    id.to_string()
}

fn object_row(id: &ObjectId, observed: Option<&Observed>, now: Timestamp) -> Row {
    let Some(observed) = observed else {
        return Row {
            state: State::Waiting,
            name: called(id),
            detail: "not there".into(),
            age: String::new(),
            message: String::new(),
        };
    };
    if lacks_controller(id) {
        return Row {
            state: State::Idle,
            name: id.to_string(),
            detail: "no controller".into(),
            age: age(observed.created, now),
            message: String::new(),
        };
    }
    let state = match observed.health.status {
        _ if observed.deleting => State::Waiting,
        Status::Current => State::Ready,
        Status::InProgress | Status::Terminating | Status::NotFound => State::Waiting,
        Status::Failed => State::Failed,
        Status::Unknown => State::Idle,
    };
    let message = match state {
        State::Ready => String::new(),
        State::Failed | State::Waiting | State::Idle | State::Kept => observed.health.message.clone(),
    };
    Row {
        state,
        name: called(id),
        detail: observed.health.status.to_string(),
        age: age(observed.created, now),
        message,
    }
}

/// How a custom resource is, and what it says about it when it is not well.
pub(crate) fn standing(
    meta: &ObjectMeta,
    suspended: bool,
    conditions: &[Condition],
    observed_generation: Option<i64>,
) -> (State, String) {
    if suspended {
        return (State::Idle, "suspended".into());
    }
    let Some(ready) = condition(conditions, ConditionType::Ready) else {
        return (State::Waiting, "not looked at yet".into());
    };
    let reconciling = is_true(conditions, ConditionType::Reconciling);
    if ready.status != ConditionStatus::True.as_str() {
        // What waits for another is told by the other, should that have failed. That it will be
        // tried again does not make a failure less of one.
        let waits = [
            Reason::DependencyNotReady,
            Reason::ArtifactFailed,
            Reason::Progressing,
        ]
        .iter()
        .any(|reason| ready.reason == reason.as_str());
        // For an artifact that is there but lacks the path there is nothing to wait for.
        let waits = waits && !ready.message.starts_with(PATH_NOT_FOUND);
        let given_up = is_true(conditions, ConditionType::Stalled)
            || (ready.status == ConditionStatus::False.as_str() && !waits);
        let state = if given_up { State::Failed } else { State::Waiting };
        return (state, ready.message.clone());
    }
    let current = meta.generation.is_none() || meta.generation == observed_generation;
    if reconciling || !current {
        return (State::Waiting, "reconciling".into());
    }
    (State::Ready, String::new())
}

/// The name, with its namespace where that is not the loop's own.
pub(crate) fn name(meta: &ObjectMeta) -> String {
    let name = meta.name.as_deref().unwrap_or_default();
    match meta.namespace.as_deref() {
        None | Some(equate_api::meta::DEFAULT_NAMESPACE) => name.to_owned(),
        Some(namespace) => format!("{namespace}/{name}"),
    }
}

fn created(meta: &ObjectMeta) -> Option<Timestamp> {
    meta.creation_timestamp.as_ref().map(|time| time.0)
}

/// `main@sha1:5c1f2ab0...` as `main@5c1f2ab`.
pub(crate) fn short_revision(revision: &str) -> String {
    let (name, digest) = match revision.rsplit_once('@') {
        Some((name, digest)) => (Some(name), digest),
        None => (None, revision),
    };
    let hex = digest.split_once(':').map_or(digest, |(_, hex)| hex);
    let short = hex.get(..COMMIT_DIGITS).unwrap_or(hex);
    match name {
        Some(name) => format!("{name}@{short}"),
        None => short.to_owned(),
    }
}

/// Time passed in its largest unit, roughly as kubectl prints ages: `42s`, `7m`, `3h`, `12d`.
fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    let Some(since) = since else {
        return String::new();
    };
    let passed = now.duration_since(since).max(SignedDuration::ZERO);
    match passed.as_secs() {
        seconds @ ..=119 => format!("{seconds}s"),
        seconds @ 120..=7199 => format!("{}m", seconds / 60),
        seconds @ 7200..=172_799 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use equate_controllers::kustomization::reasons::Failure;
    use serde_json::json;

    #[test]
    fn a_kustomization_that_is_only_in_an_inventory_is_waited_for() {
        let ready = |name: &str, holds: &[&str]| -> Arc<Kustomization> {
            let entries: Vec<_> = holds
                .iter()
                .map(|name| json!({ "id": format!("flux-system_{name}_kustomize.toolkit.fluxcd.io_Kustomization"), "v": "v1" }))
                .collect();
            let object = json!({
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
                "kind": "Kustomization",
                "metadata": { "name": name, "namespace": "flux-system", "generation": 1 },
                "spec": { "interval": "1m", "prune": true, "sourceRef": { "kind": "GitRepository", "name": "fleet" } },
                "status": {
                    "observedGeneration": 1,
                    "conditions": [{ "type": "Ready", "status": "True", "reason": "x", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
                    "inventory": { "entries": entries },
                },
            });
            Arc::new(serde_json::from_value(object).unwrap())
        };
        let check = |kustomizations: &[Arc<Kustomization>], expected: &[&str]| {
            let drawn = dashboard(Known {
                title: String::new(),
                hints: Vec::new(),
                sources: &[],
                kustomizations,
                observed: &|_| None,
                kept: &[],
                now: Timestamp::UNIX_EPOCH,
            });
            let objects: Vec<String> = drawn.groups[2]
                .rows
                .iter()
                .map(|row| format!("{} {}", row.name, row.detail))
                .collect();
            assert_eq!(objects, expected);
        };
        let root = ready("root", &["apps"]);
        check(&[Arc::clone(&root)], &["Kustomization/apps not there"]);
        check(&[root, ready("apps", &[])], &[]);
    }

    #[test]
    fn what_waits_is_told_from_what_failed() {
        let check = |reason: &str, message: &str, expected: State| {
            let condition = json!({ "type": "Ready", "status": "False", "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z" });
            let conditions = [serde_json::from_value(condition).unwrap()];
            let (state, said) = standing(&ObjectMeta::default(), false, &conditions, None);
            assert_eq!((state, said.as_str()), (expected, message));
        };
        check(
            "ArtifactFailed",
            "GitRepository/a has no artifact",
            State::Waiting,
        );
        check(
            "DependencyNotReady",
            "Kustomization/b is not ready",
            State::Waiting,
        );
        let absent = Failure::PathAbsent("apps".to_owned());
        check(absent.reason().as_str(), &absent.to_string(), State::Failed);
        check("BuildFailed", "no such file", State::Failed);
    }

    #[test]
    fn revisions_and_ages_are_short() {
        for (revision, expected) in [
            ("main@sha1:5c1f2ab0d7", "main@5c1f2ab"),
            ("sha1:5c1f2ab0d7", "5c1f2ab"),
            ("refs/pull/1/head@sha1:5c1f2ab0d7", "refs/pull/1/head@5c1f2ab"),
            ("main@sha1:5c", "main@5c"),
            ("", ""),
        ] {
            assert_eq!(short_revision(revision), expected);
        }
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for (seconds, expected) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7200, "2h"),
            (172_800, "2d"),
        ] {
            assert_eq!(age(Some(now - SignedDuration::from_secs(seconds)), now), expected);
        }
        assert_eq!(age(None, now), "");
    }
}
