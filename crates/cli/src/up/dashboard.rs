//! Derives the dashboard from custom resources and observed objects. Pure.

use super::bootstrap::OWN_KINDS;
use super::refusals;
use super::standing::{Looked, Standing};
use super::summary::{self, Facts};
use super::view::{APPLIED, Dashboard, Group, NOT_FOUND, Row, State};
use crate::kinds::{Kind, Kinds};
use crate::status;
use equate_api::kustomize::InventoryEntry;
use equate_api::meta::{ConditionStatus, ConditionType, Reason, condition, is_true};
use equate_apply::health::Status;
use equate_apply::id::ObjectId;
use equate_apply::observed::Observed;
use equate_controllers::ObjectRef;
use equate_controllers::kit::{About, Listed};
use equate_controllers::kustomization::reasons::PATH_NOT_FOUND;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

const COMMIT_DIGITS: usize = 7;
/// About an object of a release that was deleted.
const NOT_CORRECTED: &str = "deleted since the release, which has no drift detection";

pub(crate) struct Known<'a> {
    pub(crate) title: String,
    pub(crate) hints: Vec<String>,
    pub(crate) kinds: &'a Kinds,
    pub(crate) reconciled: &'a [(&'static About, Vec<Arc<dyn Listed>>)],
    pub(crate) observed: &'a dyn Fn(&ObjectId) -> Option<Arc<Observed>>,
    /// For objects that no controller watches.
    pub(crate) looked: &'a dyn Fn(&ObjectId) -> Looked,
    /// Files whose objects this loop replaces, with the number of objects.
    pub(crate) kept: &'a [(String, usize)],
    pub(crate) facts: &'a Facts,
    pub(crate) now: Timestamp,
}

pub(crate) fn dashboard(known: Known<'_>) -> Dashboard {
    let mut groups = groups(&known);
    let shared = refusals::share(&mut groups, known.facts);
    groups.push(Group {
        heading: "OBJECTS".into(),
        rows: objects(&known),
        ..Group::default()
    });
    let Owners {
        failing,
        mut grouped,
        dependents,
    } = owners(&known);
    grouped.extend(shared.covered);
    Dashboard {
        causes: summary::causes(known.facts, &failing, shared.causes),
        notes: summary::notes(known.facts, &unsupported(&known)),
        grouped,
        dependents,
        title: known.title,
        hints: known.hints,
        groups,
    }
}

/// The owners with a problem, and the full names of those that a summary covers.
#[derive(Default)]
struct Owners {
    failing: BTreeSet<ObjectRef>,
    grouped: BTreeSet<String>,
    dependents: BTreeSet<String>,
}

fn owners(known: &Known<'_>) -> Owners {
    let mut owners = Owners::default();
    let unready = unready(known);
    let all = known.reconciled.iter();
    for (about, object) in all.flat_map(|(about, objects)| objects.iter().map(move |object| (about, object)))
    {
        let (conditions, generation) = object.observed();
        let meta = object.metadata();
        let full_name = format!("{}/{}", about.kind, name(meta));
        match state_and_message(meta, object.is_suspended(), conditions, generation).0 {
            State::Failed => {
                let owner = owner(about, meta);
                let missing = known.facts.missing.get(&owner);
                let is_cause = missing.is_some_and(|missing| missing.only)
                    || known.facts.unreachable.contains_key(&owner);
                if is_cause {
                    owners.grouped.insert(full_name);
                }
                owners.failing.insert(owner);
            }
            State::Waiting if waits_for_others(&id(about, meta), &**object, &unready) => {
                owners.dependents.insert(full_name);
            }
            State::Waiting => {}
            State::Idle | State::Kept | State::Ready => {}
        }
    }
    let missing = known.facts.missing.values().filter(|missing| !missing.resolved);
    let missing = missing.flat_map(|missing| missing.kinds.keys());
    let missing: BTreeSet<(&str, &str)> = missing.map(|gvk| (&*gvk.group, &*gvk.kind)).collect();
    if !missing.is_empty() {
        let all = known.reconciled.iter().flat_map(|(_, objects)| objects);
        let held = all.flat_map(|object| inventory(object.inventory()));
        let of_kind = held.filter(|id| missing.contains(&(&*id.group, &*id.kind)));
        let absent = of_kind.filter(|id| (known.observed)(id).is_none());
        owners.grouped.extend(absent.map(|id| called(known, &id)));
    }
    owners
}

/// The reconciled objects that are failed or waiting.
fn unready(known: &Known<'_>) -> BTreeSet<ObjectId> {
    let mut unready = BTreeSet::new();
    for (about, objects) in known.reconciled {
        let objects = objects.iter().filter(|object| {
            let (conditions, generation) = object.observed();
            let (state, _) =
                state_and_message(object.metadata(), object.is_suspended(), conditions, generation);
            matches!(state, State::Failed | State::Waiting) && !object.is_static()
        });
        unready.extend(objects.map(|object| id(about, object.metadata())));
    }
    unready
}

/// Whether a waiting object only waits for objects that have rows of their own.
fn waits_for_others(own: &ObjectId, object: &dyn Listed, unready: &BTreeSet<ObjectId>) -> bool {
    let (conditions, _) = object.observed();
    let Some(ready) = condition(conditions, ConditionType::Ready) else {
        return false;
    };
    let waits = [
        Reason::DependencyNotReady,
        Reason::SourceNotReady,
        Reason::SourceUnavailable,
        Reason::NoSourceArtifact,
    ];
    if waits.iter().any(|reason| ready.reason == reason.as_str()) {
        return true;
    }
    // the health checks of a Kustomization
    ready.reason == Reason::Progressing.as_str()
        && inventory(object.inventory()).any(|id| id != *own && unready.contains(&id))
}

fn id(about: &About, meta: &ObjectMeta) -> ObjectId {
    ObjectId::new(
        about.group,
        about.kind,
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

fn owner(about: &About, meta: &ObjectMeta) -> ObjectRef {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    ObjectRef::new(about.kind, text(&meta.namespace), text(&meta.name))
}

/// The applied objects of kinds without a controller, by kind.
fn unsupported(known: &Known<'_>) -> BTreeMap<String, usize> {
    let all = known.reconciled.iter().flat_map(|(_, objects)| objects);
    let held: BTreeSet<ObjectId> = all.flat_map(|object| inventory(object.inventory())).collect();
    let mut kinds = BTreeMap::new();
    for id in held.iter().filter(|id| lacks_controller(known, id)) {
        *kinds.entry(id.kind.to_string()).or_default() += 1;
    }
    kinds
}

/// One group for each reconciled kind or its family. Empty groups are hidden, unless one of the loop's own
/// objects is missing.
fn groups(known: &Known<'_>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (about, objects) in known.reconciled {
        let rows = objects.iter().map(|object| row(known, about, &**object));
        let heading = about.family.unwrap_or(about.plural).to_uppercase();
        let place = groups.iter().position(|group| group.heading == heading);
        let place = place.unwrap_or_else(|| {
            groups.push(Group {
                heading,
                kind: about.family.is_none().then_some(about.kind),
                ..Group::default()
            });
            groups.len() - 1
        });
        let group = &mut groups[place];
        group.has_own_object |= OWN_KINDS.contains(&about.kind);
        group.rows.extend(rows);
    }
    for group in &mut groups {
        group.rows.sort_by(|a, b| a.name.cmp(&b.name));
    }
    groups.retain(|group| group.has_own_object || !group.rows.is_empty());
    groups
}

/// Applied objects without a row in another group.
fn objects(known: &Known<'_>) -> Vec<Row> {
    let listed = listed(known);
    let all = known.reconciled.iter().flat_map(|(_, objects)| objects);
    let held: BTreeSet<ObjectId> = all
        .flat_map(|object| inventory(object.inventory()))
        .filter(|id| !listed.contains(&(&*id.group, &*id.kind, &*id.namespace, &*id.name)))
        .collect();
    let releases = known
        .reconciled
        .iter()
        .filter(|(about, _)| about.kind == "HelmRelease");
    let releases = releases.flat_map(|(about, objects)| objects.iter().map(move |object| (*about, object)));
    let of_releases: BTreeMap<ObjectId, (&About, &dyn Listed)> = releases
        .flat_map(|(about, release)| inventory(release.inventory()).map(move |id| (id, (about, &**release))))
        .collect();
    let held = held.iter().map(|id| {
        let observed = (known.observed)(id);
        match of_releases.get(id).filter(|_| observed.is_none()) {
            Some((about, release)) => released_row(known, id, about, *release),
            None => object_row(known, id, observed.as_deref().map(Standing::of)),
        }
    });
    let kept = known.kept.iter().map(|(file, count)| Row {
        id: None,
        state: State::Kept,
        name: file.clone(),
        detail: format!("{count} kept"),
        age: String::new(),
        message: "replaced by this loop".into(),
    });
    held.chain(kept).collect()
}

/// Objects with a row in another group: API group, kind, namespace and name. A newly applied object may be
/// missing there, and gets a row among the objects: otherwise a loop that has just started would count as
/// ready.
fn listed<'a>(known: &Known<'a>) -> HashSet<(&'a str, &'a str, &'a str, &'a str)> {
    let text = |field: &'a Option<String>| field.as_deref().unwrap_or_default();
    let mut listed = HashSet::new();
    for (about, objects) in known.reconciled {
        let metas = objects.iter().map(|object| object.metadata());
        listed.extend(metas.map(|meta| (about.group, about.kind, text(&meta.namespace), text(&meta.name))));
    }
    listed
}

fn is_reconciled(known: &Known<'_>, id: &ObjectId) -> bool {
    let mut kinds = known.reconciled.iter();
    kinds.any(|(about, _)| *about.group == *id.group && *about.kind == *id.kind)
}

fn lacks_controller(known: &Known<'_>, id: &ObjectId) -> bool {
    let kind = known.kinds.find(&id.group, &id.kind);
    kind.is_some_and(Kind::is_unsupported)
}

fn inventory(entries: &[InventoryEntry]) -> impl Iterator<Item = ObjectId> {
    let ids = entries.iter();
    ids.filter_map(|entry| ObjectId::from_inventory(&entry.id).ok())
}

fn row(known: &Known<'_>, about: &'static About, object: &dyn Listed) -> Row {
    let meta = object.metadata();
    let (conditions, observed_generation) = object.observed();
    let (state, message) = state_and_message(meta, object.is_suspended(), conditions, observed_generation);
    let (state, message) = match known.facts.blocked.get(&owner(about, meta)) {
        Some(source) if state == State::Waiting => (
            State::Failed,
            format!("its source {source} is unsupported: Equate has no controller for that kind yet"),
        ),
        _ if object.is_static() && !object.is_suspended() => (State::Ready, String::new()),
        _ => (state, message),
    };
    Row {
        id: Some(id(about, meta)),
        state,
        name: match about.family {
            Some(_) => format!("{}/{}", about.kind, name(meta)),
            None => name(meta),
        },
        detail: object.revision().map(short_revision).unwrap_or_default(),
        age: age(object.revision_time().or_else(|| created(meta)), known.now),
        message,
    }
}

/// The row's name, as in the object's own group if its kind has one.
fn called(known: &Known<'_>, id: &ObjectId) -> String {
    if is_reconciled(known, id) && &*id.namespace == equate_api::meta::DEFAULT_NAMESPACE {
        return format!("{}/{}", id.kind, id.name);
    }
    id.to_string()
}

/// The row of an object that no controller reconciles or no schema describes: nothing says whether it works.
fn unjudged_row(known: &Known<'_>, id: &ObjectId, created: Option<Timestamp>) -> Option<Row> {
    let kind = (id.group.to_string(), id.kind.to_string());
    let detail = if lacks_controller(known, id) {
        "unsupported"
    } else if known.facts.defined.schemaless.contains(&kind) {
        "no schema"
    } else {
        return None;
    };
    Some(Row {
        id: Some(id.clone()),
        state: State::Idle,
        name: id.to_string(),
        detail: detail.into(),
        age: age(created, known.now),
        message: String::new(),
    })
}

/// An object of a HelmRelease, which watches its objects only while it waits for them or looks for drift.
fn released_row(known: &Known<'_>, id: &ObjectId, about: &About, release: &dyn Listed) -> Row {
    if let Some(row) = unjudged_row(known, id, None) {
        return row;
    }
    let (conditions, observed_generation) = release.observed();
    let meta = release.metadata();
    let (state, _) = state_and_message(meta, release.is_suspended(), conditions, observed_generation);
    let is_done = matches!(state, State::Ready | State::Idle);
    let looked = match is_done && !known.facts.remote.contains(&owner(about, meta)) {
        true => (known.looked)(id),
        false => Looked::Unknown,
    };
    let (state, detail, message) = match looked {
        Looked::Present(standing) => return object_row(known, id, Some(standing)),
        Looked::Absent => (State::Idle, "gone", NOT_CORRECTED),
        Looked::Unknown if state == State::Ready => (State::Ready, APPLIED, ""),
        Looked::Unknown => (State::Waiting, APPLIED, ""),
    };
    Row {
        id: Some(id.clone()),
        state,
        name: called(known, id),
        detail: detail.into(),
        age: String::new(),
        message: message.into(),
    }
}

fn object_row(known: &Known<'_>, id: &ObjectId, standing: Option<Standing>) -> Row {
    let Some(standing) = standing else {
        return Row {
            id: Some(id.clone()),
            state: State::Waiting,
            name: called(known, id),
            detail: NOT_FOUND.into(),
            age: String::new(),
            message: String::new(),
        };
    };
    let unjudged = unjudged_row(known, id, standing.created);
    if let Some(row) = unjudged.filter(|_| !standing.deleting) {
        return row;
    }
    let state = match standing.health.status {
        _ if standing.deleting => State::Waiting,
        Status::Current => State::Ready,
        Status::InProgress | Status::Terminating | Status::NotFound => State::Waiting,
        Status::Failed => State::Failed,
        Status::Unknown => State::Idle,
    };
    let message = match state {
        State::Ready => String::new(),
        State::Failed | State::Waiting | State::Idle | State::Kept => {
            status::in_words(&standing.health.message).to_owned()
        }
    };
    Row {
        id: Some(id.clone()),
        state,
        name: called(known, id),
        detail: standing.health.status.to_string(),
        age: age(standing.created, known.now),
        message,
    }
}

/// The state of a custom resource, and its message if it is not ready.
pub(crate) fn state_and_message(
    meta: &ObjectMeta,
    suspended: bool,
    conditions: &[Condition],
    observed_generation: Option<i64>,
) -> (State, String) {
    if suspended {
        return (State::Idle, "suspended".into());
    }
    let Some(ready) = condition(conditions, ConditionType::Ready) else {
        return (State::Waiting, status::NOT_RECONCILED.into());
    };
    let reconciling = is_true(conditions, ConditionType::Reconciling);
    if ready.status != ConditionStatus::True.as_str() {
        // An object that waits for another is not failed itself: the other one shows the failure. A failure
        // that will be retried is still a failure.
        let waits = [
            Reason::DependencyNotReady,
            Reason::SourceNotReady,
            Reason::SourceUnavailable,
            Reason::NoSourceArtifact,
            Reason::ArtifactFailed,
            Reason::Progressing,
        ]
        .iter()
        .any(|reason| ready.reason == reason.as_str());
        // an artifact that lacks the path: nothing to wait for
        let waits = waits && !ready.message.starts_with(PATH_NOT_FOUND);
        let given_up = is_true(conditions, ConditionType::Stalled)
            || (ready.status == ConditionStatus::False.as_str() && !waits);
        let state = if given_up { State::Failed } else { State::Waiting };
        return (state, status::line(&ready.reason, &ready.message));
    }
    let current = meta.generation.is_none() || meta.generation == observed_generation;
    if reconciling || !current {
        return (State::Waiting, "reconciling".into());
    }
    (State::Ready, String::new())
}

/// The name, with the namespace if it is not the loop's own.
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

/// Shortens `main@sha1:5c1f2ab0...` to `main@5c1f2ab`. Versions of charts stay as they are.
pub(crate) fn short_revision(revision: &str) -> String {
    let (name, digest) = match revision.rsplit_once('@') {
        Some((name, digest)) => (Some(name), digest),
        None if !revision.contains(':') => return revision.to_owned(),
        None => (None, revision),
    };
    let hex = digest.split_once(':').map_or(digest, |(_, hex)| hex);
    let short = hex.get(..COMMIT_DIGITS).unwrap_or(hex);
    match name {
        Some(name) => format!("{name}@{short}"),
        None => short.to_owned(),
    }
}

/// The age in its largest unit, roughly like kubectl: `42s`, `7m`, `3h`, `12d`.
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
    use crate::up::definitions::Defined;
    use equate_api::helm::HelmRelease;
    use equate_api::kustomize::Kustomization;
    use equate_apply::health::Health;
    use equate_controllers::kustomization::reasons::Failure;
    use serde_json::json;

    /// The dashboard of objects of one kind, while nothing is watched.
    fn drawn(kind: &str, objects: &[Arc<dyn Listed>], facts: &Facts) -> Dashboard {
        drawn_with(kind, objects, facts, &|_| Looked::Unknown)
    }

    fn drawn_with(
        kind: &str,
        objects: &[Arc<dyn Listed>],
        facts: &Facts,
        looked: &dyn Fn(&ObjectId) -> Looked,
    ) -> Dashboard {
        let controllers = equate_controllers::all();
        let kinds = Kinds::of(controllers.iter());
        let of = |about: &About| match about.kind == kind {
            true => objects.to_vec(),
            false => Vec::new(),
        };
        let reconciled: Vec<_> = controllers.iter().map(|about| (about, of(about))).collect();
        dashboard(Known {
            title: String::new(),
            hints: Vec::new(),
            kinds: &kinds,
            reconciled: &reconciled,
            observed: &|_| None,
            looked,
            kept: &[],
            facts,
            now: Timestamp::UNIX_EPOCH,
        })
    }

    #[test]
    fn kustomization_known_from_an_inventory_only_is_awaited() {
        let ready = |name: &str, holds: &[&str]| -> Arc<dyn Listed> {
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
            Arc::new(serde_json::from_value::<Kustomization>(object).unwrap())
        };
        let check = |kustomizations: &[Arc<dyn Listed>], expected: &[&str]| {
            let drawn = drawn("Kustomization", kustomizations, &Facts::default());
            let objects: Vec<String> = drawn.groups[2]
                .rows
                .iter()
                .map(|row| format!("{} {}", row.name, row.detail))
                .collect();
            assert_eq!(objects, expected);
        };
        let root = ready("root", &["apps"]);
        check(&[Arc::clone(&root)], &["Kustomization/apps not found"]);
        check(&[root, ready("apps", &[])], &[]);
    }

    fn release(reason: &str, status: &str) -> Arc<dyn Listed> {
        let release = json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2",
            "kind": "HelmRelease",
            "metadata": { "name": "web", "namespace": "default", "generation": 1 },
            "spec": { "interval": "1m" },
            "status": {
                "observedGeneration": 1,
                "conditions": [{ "type": "Ready", "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
                "inventory": { "entries": [
                    { "id": "default_web_x.org_Route", "v": "v1" },
                    { "id": "default_web__ConfigMap", "v": "v1" },
                ] },
            },
        });
        Arc::new(serde_json::from_value::<HelmRelease>(release).unwrap())
    }

    #[test]
    fn objects_of_a_ready_release_show_what_became_of_them() {
        let crashed = Standing {
            created: None,
            deleting: false,
            health: Health {
                status: Status::InProgress,
                message: "Available: 0/1".into(),
            },
        };
        let check =
            |release: Arc<dyn Listed>, facts: &Facts, looked: Looked, expected: (State, &str, &str)| {
                let drawn = drawn_with("HelmRelease", &[release], facts, &|_| looked.clone());
                let row = drawn.groups.last().unwrap().rows.first().unwrap();
                assert_eq!((row.state, row.detail.as_str(), row.message.as_str()), expected);
            };
        let ready = || release("x", "True");
        let near = Facts::default();
        let unready = (State::Waiting, "InProgress", "Available: 0/1");
        check(ready(), &near, Looked::Present(crashed.clone()), unready);
        check(
            ready(),
            &near,
            Looked::Absent,
            (State::Idle, "gone", NOT_CORRECTED),
        );
        check(ready(), &near, Looked::Unknown, (State::Ready, APPLIED, ""));
        let remote = Facts {
            remote: [ObjectRef::new("HelmRelease", "default", "web")].into(),
            ..Facts::default()
        };
        check(ready(), &remote, Looked::Absent, (State::Ready, APPLIED, ""));
        let installing = release("Progressing", "Unknown");
        check(installing, &near, Looked::Absent, (State::Waiting, APPLIED, ""));
    }

    #[test]
    fn object_of_a_release_that_nothing_judges_says_so_without_a_watch() {
        let defined = Defined {
            schemaless: [("x.org".to_owned(), "Route".to_owned())].into(),
            ..Defined::default()
        };
        let facts = Facts {
            defined,
            ..Facts::default()
        };
        let drawn = drawn("HelmRelease", &[release("x", "True")], &facts);
        let rows = drawn.groups.last().unwrap().rows.iter();
        let rows: Vec<_> = rows
            .map(|row| (row.name.as_str(), row.state, row.detail.as_str()))
            .collect();
        let expected = [
            ("ConfigMap/default/web", State::Ready, APPLIED),
            ("Route/default/web", State::Idle, "no schema"),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn kinds_of_a_family_share_a_group() {
        let named = |name: &str| -> Arc<dyn Listed> {
            let object = json!({
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
                "kind": "Kustomization",
                "metadata": { "name": name, "namespace": "flux-system" },
                "spec": { "interval": "1m", "prune": true, "sourceRef": { "kind": "GitRepository", "name": "fleet" } },
            });
            Arc::new(serde_json::from_value::<Kustomization>(object).unwrap())
        };
        let about =
            |kind: &'static str, plural: &'static str, family: Option<&'static str>| -> &'static About {
                Box::leak(Box::new(About {
                    kind,
                    plural,
                    family,
                    ..About::DEFAULT
                }))
            };
        let check = |releases: Vec<Arc<dyn Listed>>, expected: &str| {
            let reconciled = [
                (
                    about("GitRepository", "gitrepositories", Some("sources")),
                    vec![named("fleet")],
                ),
                (about("Kustomization", "kustomizations", None), Vec::new()),
                (about("Bucket", "buckets", Some("sources")), vec![named("charts")]),
                (about("HelmRelease", "helmreleases", None), releases),
            ];
            let drawn = dashboard(Known {
                title: String::new(),
                hints: Vec::new(),
                kinds: &Kinds::of(reconciled.iter().map(|(about, _)| *about)),
                reconciled: &reconciled,
                observed: &|_| None,
                looked: &|_| Looked::Unknown,
                kept: &[],
                facts: &Facts::default(),
                now: Timestamp::UNIX_EPOCH,
            });
            let text = drawn.groups.iter().map(|group| {
                let rows: Vec<String> = group.rows.iter().map(|row| group.full_name(row)).collect();
                format!("{} {}", group.heading, rows.join(" "))
            });
            assert_eq!(text.collect::<Vec<_>>().join("\n"), expected);
        };
        check(
            vec![named("redis")],
            "SOURCES Bucket/charts GitRepository/fleet\nKUSTOMIZATIONS \nHELMRELEASES HelmRelease/redis\nOBJECTS ",
        );
        // an optional group is hidden; the loop's own Kustomization is awaited
        check(
            Vec::new(),
            "SOURCES Bucket/charts GitRepository/fleet\nKUSTOMIZATIONS \nOBJECTS ",
        );
    }

    #[test]
    fn waiting_and_failed_objects_are_distinguished() {
        let check = |reason: &str, message: &str, expected: State| {
            let condition = json!({ "type": "Ready", "status": "False", "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z" });
            let conditions = [serde_json::from_value(condition).unwrap()];
            let (state, text) = state_and_message(&ObjectMeta::default(), false, &conditions, None);
            assert_eq!((state, text), (expected, format!("{reason}: {message}")));
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
        check(
            "SourceNotReady",
            "OCIRepository 'a/b' is not ready: no connection",
            State::Waiting,
        );
        let absent = Failure::PathAbsent {
            path: "apps".to_owned(),
            nearest: None,
        };
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
            ("1.18.2+af77ab038174", "1.18.2+af77ab038174"),
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
