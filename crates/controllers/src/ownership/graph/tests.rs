use std::sync::Arc;
use std::time::Duration;

use equate_apply::desired::Desired;
use equate_manifest::object::Object;
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::object_ref::tests::{HELM_RELEASE, KUSTOMIZATION};
use crate::ownership::contest::{Contest, as_others_see};
use crate::ownership::desired::{BuiltObjects, Watched};
use crate::ownership::other_shards::{ReadySeen, StatusSeen};
use crate::ownership::survey::Survey;

/// An owner that reads `fleet` and has done nothing yet.
pub(crate) fn declaration() -> Declaration {
    Declaration {
        owner: &KUSTOMIZATION,
        ours: true,
        generation: 1,
        deleting: false,
        suspended: false,
        source: source("fleet", "n"),
        depends_on: Arc::default(),
        uses_ready_expr: false,
        inputs: BTreeSet::new(),
        holds: Arc::default(),
        remote: false,
        impersonates: false,
        user: None,
        kube_config: None,
        parent: None,
        target_namespace: None,
        waits: false,
        status: StatusSeen::default(),
    }
}

fn source(name: &str, namespace: &str) -> ObjectRef {
    ObjectRef::new("GitRepository", namespace, name)
}

fn apps(name: &str) -> ObjectRef {
    ObjectRef::new("Kustomization", "n", name)
}

/// The same after it applied a revision, with an inventory.
pub(crate) fn ready(revision: &str, holds: &[&str]) -> Declaration {
    let holds = holds.iter().map(|id| ObjectId::from_inventory(id).unwrap());
    Declaration {
        holds: Arc::new(holds.collect()),
        status: StatusSeen {
            observed_generation: Some(1),
            applied: Some(revision.to_owned()),
            ready: Some(ReadySeen {
                is_true: true,
                is_false: false,
                is_unhealthy: false,
                reason: "ReconciliationSucceeded".to_owned(),
                observed_generation: Some(1),
            }),
            ..StatusSeen::default()
        },
        ..declaration()
    }
}

#[derive(Default)]
struct Fixture {
    graph: OwnershipGraph,
}

impl Fixture {
    /// Declares a Kustomization, or its end, and checks the woken owners by name and reason.
    fn check(&mut self, name: &str, why: Option<Reason>, now: Option<Declaration>, expected: &[&str]) {
        let wakes = self.graph.changed(&apps(name), why, now);
        assert_eq!(shown(&wakes), expected, "{name} {why:?}");
    }
}

fn shown(wakes: &[(ObjectRef, Reason)]) -> Vec<String> {
    wakes
        .iter()
        .map(|(key, reason)| format!("{} {reason}", key.name))
        .collect()
}

#[test]
fn a_change_wakes_the_owners_it_affects() {
    let mut fixture = Fixture::default();
    let none = declaration;
    let on = |name: &str| Declaration {
        depends_on: Arc::from([apps(name)]),
        ..declaration()
    };
    fixture.check("infra", Some(Reason::Appeared), Some(none()), &["infra appeared"]);
    fixture.check(
        "apps",
        Some(Reason::Appeared),
        Some(on("infra")),
        &["apps appeared"],
    );
    fixture.check(
        "more",
        Some(Reason::Appeared),
        Some(on("apps")),
        &["more appeared"],
    );
    // its own status wakes only owners that wait for it
    let status = |revision: &str| Some(ready(revision, &[]));
    fixture.check("infra", None, status("1"), &["apps dependency"]);
    fixture.check("infra", None, status("1"), &[]);
    fixture.check("infra", None, status("2"), &["apps dependency"]);
    fixture.check(
        "infra",
        Some(Reason::Requested),
        status("2"),
        &["infra requested"],
    );
    fixture.check("infra", None, None, &["infra deleted", "apps dependency"]);
    fixture.check("apps", Some(Reason::Changed), Some(none()), &["apps changed"]);
    fixture.check("infra", Some(Reason::Appeared), Some(none()), &["infra appeared"]);
}

#[test]
fn a_source_wakes_its_readers() {
    let mut fixture = Fixture::default();
    let from = |name: &str, namespace: &str| {
        Some(Declaration {
            source: source(name, namespace),
            ..declaration()
        })
    };
    fixture.check("a", Some(Reason::Appeared), from("fleet", "n"), &["a appeared"]);
    fixture.check("b", Some(Reason::Appeared), from("fleet", "m"), &["b appeared"]);
    fixture.check("c", Some(Reason::Appeared), from("other", "n"), &["c appeared"]);
    let readers = |fixture: &Fixture, namespace: &str| {
        let readers = fixture.graph.readers(&source("fleet", namespace));
        readers.into_iter().map(|key| key.name).collect::<Vec<_>>()
    };
    assert_eq!(
        (readers(&fixture, "n"), readers(&fixture, "m")),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
    fixture.check("b", Some(Reason::Changed), from("fleet", "n"), &["b changed"]);
    fixture.check("a", None, None, &["a deleted"]);
    assert_eq!(
        (readers(&fixture, "n"), readers(&fixture, "m")),
        (vec!["b".to_owned()], vec![])
    );
}

#[test]
fn a_conflict_wakes_both_owners() {
    let mut fixture = Fixture::default();
    let holds = |holds: &[&str]| Some(ready("1", holds));
    let id = ObjectId::from_inventory("n_x__ConfigMap").unwrap();
    let (one, two) = (apps("one"), apps("two"));
    fixture.check(
        "one",
        Some(Reason::Appeared),
        holds(&["n_x__ConfigMap", "n_y__ConfigMap"]),
        &["one appeared"],
    );
    fixture.check("two", Some(Reason::Appeared), holds(&[]), &["two appeared"]);
    assert_eq!(fixture.graph.claimants(&id, &two).next(), Some(&one));
    assert_eq!(fixture.graph.claimants(&id, &one).next(), None);
    let contest = Contest {
        id: id.clone(),
        other: one.clone(),
    };
    let contests = as_others_see(&two, &[contest]);
    assert_eq!(
        shown(&fixture.graph.contest(&two, contests.clone())),
        ["one object"]
    );
    assert_eq!(
        shown(&fixture.graph.contest(&two, contests)),
        Vec::<String>::new()
    );
    assert_eq!(
        fixture.graph.contested(&one).to_string(),
        "ConfigMap/n/x (also declared by Kustomization/n/two)"
    );
    fixture.graph.set_desired(&two, wanting(1, &["n_x__ConfigMap"]));
    // an owner that only wants such an object was not kept from it
    let three = apps("three");
    fixture.check("three", Some(Reason::Appeared), holds(&[]), &["three appeared"]);
    fixture.graph.set_desired(&three, wanting(1, &["n_x__ConfigMap"]));
    // released: the other may take it
    fixture.check("one", None, holds(&["n_y__ConfigMap"]), &["two object"]);
    assert!(!fixture.graph.claims(&one, &id));
    assert_eq!(
        shown(&fixture.graph.contest(&two, BTreeMap::new())),
        ["one object"]
    );
    assert!(fixture.graph.contested(&one).is_empty());
}

fn wanting(generation: i64, ids: &[&str]) -> DesiredState {
    let desired: Vec<Desired> = ids
        .iter()
        .map(|id| {
            let id = ObjectId::from_inventory(id).unwrap();
            let object = json!({
                "apiVersion": "v1", "kind": &*id.kind,
                "metadata": { "name": &*id.name, "namespace": &*id.namespace },
            });
            let owner = Owner::new(&KUSTOMIZATION, "n", "one");
            Desired::new(Object::from_value(object).unwrap(), &owner, None)
        })
        .collect();
    DesiredState {
        generation,
        artifact: "sha256:1".to_owned(),
        wants: DesiredSet::Known(BuiltObjects::of(&desired, |_| None).into()),
        applied: false,
        forms: Vec::new(),
    }
}

#[test]
fn an_owner_is_unapplied_until_its_objects_are() {
    let unapplied = |now: Declaration, state: Option<DesiredState>| {
        let mut graph = OwnershipGraph::default();
        let one = apps("one");
        graph.changed(&one, None, Some(now));
        if let Some(state) = state {
            graph.set_desired(&one, state);
        }
        graph.is_unapplied(&one, "main@sha1:2", "sha256:1")
    };
    let state = |change: fn(&mut DesiredState)| {
        let mut state = wanting(1, &[]);
        change(&mut state);
        Some(state)
    };
    assert!(unapplied(declaration(), None));
    assert!(unapplied(declaration(), state(|_| ())));
    assert!(!unapplied(declaration(), state(|it| it.applied = true)));
    let earlier = |it: &mut DesiredState| (it.applied, it.artifact) = (true, "sha256:0".to_owned());
    assert!(unapplied(declaration(), state(earlier)));
    let fails = |it: &mut DesiredState| it.wants = DesiredSet::Unknown("it does not build");
    assert!(!unapplied(declaration(), state(fails)));
    let with = |change: fn(&mut Declaration)| {
        let mut declaration = ready("main@sha1:1", &[]);
        change(&mut declaration);
        declaration
    };
    assert!(!unapplied(with(|it| it.suspended = true), None));
    assert!(!unapplied(with(|it| it.ours = false), None));
    assert!(!unapplied(with(|it| it.deleting = true), None));
    let failed = |it: &mut Declaration| {
        it.status.attempted = Some("main@sha1:2".to_owned());
        let ready = it.status.ready.as_mut().unwrap();
        (ready.is_true, ready.is_false) = (false, true);
    };
    assert!(!unapplied(with(failed), state(|_| ())));
    let earlier = |it: &mut Declaration| {
        it.status.attempted = Some("main@sha1:1".to_owned());
        let ready = it.status.ready.as_mut().unwrap();
        (ready.is_true, ready.is_false) = (false, true);
    };
    assert!(unapplied(with(earlier), state(|_| ())));
    assert!(!OwnershipGraph::default().is_unapplied(&apps("two"), "main@sha1:2", "sha256:1"));
}

#[test]
fn a_released_object_is_taken_by_another() {
    let mut fixture = Fixture::default();
    let holds = |holds: &[&str]| Some(ready("1", holds));
    let (x, y) = ("n_x__ConfigMap", "n_y__ConfigMap");
    let id = ObjectId::from_inventory(x).unwrap();
    let (one, two) = (apps("one"), apps("two"));
    fixture.check("one", Some(Reason::Appeared), holds(&[x, y]), &["one appeared"]);
    fixture.check("two", Some(Reason::Appeared), holds(&[]), &["two appeared"]);
    let graph = &mut fixture.graph;
    // an owner without a desired state keeps its inventory
    assert_eq!(
        (graph.claimants(&id, &two).next(), graph.taker(&id, &one)),
        (Some(&one), None)
    );
    assert!(graph.set_desired(&one, wanting(1, &[x, y])).is_empty());
    assert_eq!(graph.claimants(&id, &two).next(), Some(&one));
    // both want it: the first keeps it
    graph.set_desired(&two, wanting(1, &[x]));
    assert_eq!(
        (
            graph.claimants(&id, &two).next(),
            graph.claimants(&id, &one).next()
        ),
        (Some(&one), None)
    );
    graph.set_desired(&one, wanting(1, &[y]));
    assert_eq!(
        (graph.claimants(&id, &two).next(), graph.taker(&id, &one)),
        (None, Some(&two))
    );
    // an owner that cannot be built any more keeps its objects
    let unknown = DesiredState {
        wants: DesiredSet::Unknown("cannot be built"),
        ..wanting(1, &[])
    };
    graph.set_desired(&one, unknown);
    assert_eq!(graph.claimants(&id, &two).next(), Some(&one));
    // a deleted owner keeps and takes nothing
    let deleted = Declaration {
        deleting: true,
        ..ready("1", &[x, y])
    };
    fixture.graph.changed(&one, Some(Reason::Deleted), Some(deleted));
    fixture.graph.set_desired(&one, wanting(1, &[x]));
    assert_eq!(fixture.graph.claimants(&id, &two).next(), None);
    assert_eq!(fixture.graph.taker(&id, &two), None);
    fixture.check("one", None, None, &["one deleted"]);
    assert_eq!(fixture.graph.desired_state(&one), None);
}

#[test]
fn an_announcement_wakes_the_owners_that_wait_for_it() {
    let mut fixture = Fixture::default();
    let none = || Some(declaration());
    for name in ["a", "b", "c", "d"] {
        fixture.check(
            name,
            Some(Reason::Appeared),
            none(),
            &[&format!("{name} appeared")],
        );
    }
    let key = |name: &str| apps(name);
    let keys = |names: &[&str]| names.iter().map(|name| key(name)).collect::<BTreeSet<_>>();
    let check = |fixture: &mut Fixture, of: &str, state: DesiredState, expected: &[&str]| {
        let wakes = fixture.graph.set_desired(&key(of), state);
        assert_eq!(shown(&wakes), expected, "{of}");
    };
    let watched = Watched {
        of: keys(&["c", "d"]),
        until: None,
    };
    fixture.graph.announcements.watch(&key("a"), watched);
    check(&mut fixture, "b", wanting(1, &[]), &[]);
    check(&mut fixture, "c", wanting(1, &[]), &["a dependency"]);
    check(&mut fixture, "d", wanting(1, &[]), &["a dependency"]);
    // the same announcement again wakes nobody
    check(&mut fixture, "d", wanting(1, &[]), &[]);
    check(&mut fixture, "d", wanting(2, &[]), &["a dependency"]);
    fixture.check("d", None, None, &["d deleted", "a dependency"]);
    fixture.graph.announcements.watch(&key("a"), Watched::default());
    check(&mut fixture, "d", wanting(3, &[]), &[]);
    assert!(fixture.graph.announcements.is_idle());
}

#[test]
fn the_wait_starts_again_with_each_input() {
    let mut fixture = Fixture::default();
    let none = || Some(declaration());
    fixture.check("a", Some(Reason::Appeared), none(), &["a appeared"]);
    let (a, start) = (apps("a"), Instant::now());
    let later = start + Duration::from_secs(60);
    let from = |artifact: &str| (1, artifact.to_owned());
    let graph = &mut fixture.graph;
    assert_eq!(graph.announcements.awaited_since(&a, from("1"), start), start);
    assert_eq!(graph.announcements.awaited_since(&a, from("1"), later), start);
    assert_eq!(graph.announcements.awaited_since(&a, from("2"), later), later);
    graph.set_desired(&a, wanting(1, &[]));
    assert_eq!(graph.announcements.awaited_since(&a, from("2"), start), start);
    // a failed build counts for its own inputs only
    graph.unreached(&a, from("2"));
    assert!(graph.announcements.is_unreached(&a, 1, "2") && !graph.announcements.is_unreached(&a, 1, "3"));
    graph.set_desired(&a, wanting(2, &[]));
    assert!(!graph.announcements.is_unreached(&a, 1, "2"));
}

#[test]
fn the_first_fetch_of_a_source_wakes_its_readers() {
    let mut fixture = Fixture::default();
    let none = || Some(declaration());
    for name in ["a", "b"] {
        fixture.check(
            name,
            Some(Reason::Appeared),
            none(),
            &[&format!("{name} appeared")],
        );
    }
    let source = source("fleet", "n");
    let watched = Watched {
        of: BTreeSet::from([apps("a")]),
        until: None,
    };
    let graph = &mut fixture.graph;
    graph.announcements.watch(&apps("b"), watched);
    assert!(!graph.announcements.is_source_checked(&source));
    assert_eq!(shown(&graph.source_checked(&source)), ["b dependency"]);
    assert!(graph.announcements.is_source_checked(&source) && graph.source_checked(&source).is_empty());
    // another source of the same name is a new one
    graph.announcements.forget_source(&source);
    assert!(!graph.announcements.is_source_checked(&source));
}

#[test]
fn a_survey_ends_with_the_last_reader_of_its_source() {
    let mut fixture = Fixture::default();
    for name in ["a", "b"] {
        let appeared = format!("{name} appeared");
        fixture.check(name, Some(Reason::Appeared), Some(declaration()), &[&appeared]);
    }
    let kept = Arc::new(Survey::default());
    let second = Duration::from_secs(1);
    let announcements = &mut fixture.graph.announcements;
    announcements.keep_survey(source("fleet", "n"), second, None, kept);
    fixture.check("a", None, None, &["a deleted"]);
    assert!(!fixture.graph.announcements.is_idle());
    let of_another = Declaration {
        source: source("other", "n"),
        ..declaration()
    };
    fixture.check("b", None, Some(of_another), &[]);
    assert!(fixture.graph.announcements.is_idle());
}

#[test]
fn a_claim_of_another_shard_wakes_the_holder() {
    let (ours, theirs) = ("ours", "theirs");
    let mut fixture = Fixture::default();
    let x = ObjectId::from_inventory("n_x__ConfigMap").unwrap();
    let [our_key, their_key] = [ours, theirs].map(apps);
    let holds = |holds: &[&str]| Some(ready("1", holds));
    let elsewhere = |holds: &[&str]| {
        Some(Declaration {
            ours: false,
            ..ready("1", holds)
        })
    };
    let appeared = format!("{ours} appeared");
    fixture.check(
        ours,
        Some(Reason::Appeared),
        holds(&["n_x__ConfigMap"]),
        &[&appeared],
    );
    fixture.check(
        theirs,
        Some(Reason::Appeared),
        elsewhere(&["n_y__ConfigMap"]),
        &[],
    );
    assert!(fixture.graph.has_let_go(&their_key, &x, &our_key));
    assert!(
        !fixture.graph.has_let_go(&our_key, &x, &their_key),
        "not of another shard"
    );

    let woken = format!("{ours} dependency");
    let both = ["n_x__ConfigMap", "n_y__ConfigMap"];
    fixture.check(theirs, None, elsewhere(&both), &[&woken]);
    fixture.check(theirs, None, elsewhere(&both), &[]);
    assert!(!fixture.graph.has_let_go(&their_key, &x, &our_key));
    fixture.check(theirs, None, elsewhere(&[]), &[]);
    assert!(fixture.graph.has_let_go(&their_key, &x, &our_key));
    // a deleted owner leaves no facts
    let forgotten = format!("{theirs} deleted");
    fixture.check(theirs, None, None, &[&forgotten]);
    assert!(!fixture.graph.has_let_go(&their_key, &x, &our_key));
}

#[test]
fn equal_names_of_two_kinds_are_two_owners() {
    let mut fixture = Fixture::default();
    let (one, release) = (apps("one"), ObjectRef::new("HelmRelease", "n", "one"));
    let appeared = Some(Reason::Appeared);
    let x = "n_x__ConfigMap";
    fixture.check("one", appeared, Some(ready("1", &[x])), &["one appeared"]);
    let declared = Declaration {
        owner: &HELM_RELEASE,
        source: source("charts", "n"),
        ..declaration()
    };
    fixture.graph.changed(&release, appeared, Some(declared));
    assert_eq!(
        fixture.graph.readers(&source("fleet", "n")),
        std::slice::from_ref(&one)
    );
    assert_eq!(
        fixture.graph.readers(&source("charts", "n")),
        std::slice::from_ref(&release)
    );
    // one of them goes, and the other keeps its objects
    fixture.graph.changed(&release, None, None);
    assert!(fixture.graph.claims(&one, &ObjectId::from_inventory(x).unwrap()));
    assert_eq!(fixture.graph.readers(&source("fleet", "n")), [one]);
}

#[test]
fn the_first_of_two_kinds_that_hold_an_object_owns_it() {
    let mut fixture = Fixture::default();
    let (one, release) = (apps("one"), ObjectRef::new("HelmRelease", "n", "z"));
    let x = "n_x__ConfigMap";
    let id = ObjectId::from_inventory(x).unwrap();
    let release_holds = |holds: &[&str]| Declaration {
        owner: &HELM_RELEASE,
        ..ready("1", holds)
    };
    let claimants = |fixture: &Fixture, but: &ObjectRef| -> Vec<ObjectRef> {
        fixture.graph.claimants(&id, but).cloned().collect()
    };
    fixture.graph.changed(&one, None, Some(ready("1", &[])));
    fixture.graph.changed(&release, None, Some(release_holds(&[x])));
    // the holder has it, no matter which owner wants it
    assert_eq!(claimants(&fixture, &one), std::slice::from_ref(&release));
    assert_eq!(fixture.graph.owner(&release), Owner::new(&HELM_RELEASE, "n", "z"));
    // two that record it at once: one owns it, and neither waits for the other
    fixture.graph.changed(&one, None, Some(ready("1", &[x])));
    assert_eq!(claimants(&fixture, &one), std::slice::from_ref(&release));
    assert_eq!(claimants(&fixture, &release), []);
    // an owner that does not want it any more leaves it to the other
    fixture.graph.set_desired(&release, wanting(1, &[]));
    assert_eq!(claimants(&fixture, &one), []);
    assert_eq!(fixture.graph.taker(&id, &release), Some(&one));
}

#[test]
fn a_dependency_of_another_kind_wakes_its_dependents() {
    let mut fixture = Fixture::default();
    let release = ObjectRef::new("HelmRelease", "n", "infra");
    let on = Declaration {
        depends_on: Arc::from([release.clone()]),
        ..declaration()
    };
    fixture.check("apps", Some(Reason::Appeared), Some(on), &["apps appeared"]);
    // a Kustomization of that name is another object
    fixture.check("infra", None, Some(ready("1", &[])), &[]);
    let infra = Declaration {
        owner: &HELM_RELEASE,
        ..ready("1", &[])
    };
    let wakes = fixture.graph.changed(&release, None, Some(infra));
    assert_eq!(wakes, [(apps("apps"), Reason::Dependency)]);
}

#[test]
fn dependencies_of_some_owners_are_copied() {
    let mut graph = OwnershipGraph::default();
    let depends = |on: &[&str]| Declaration {
        depends_on: on.iter().map(|name| apps(name)).collect(),
        ..declaration()
    };
    graph.changed(&apps("a"), None, Some(depends(&["b", "c"])));
    graph.changed(&apps("b"), None, Some(depends(&["a"])));
    let of = |names: &[&str]| {
        let owners: Vec<ObjectRef> = names.iter().map(|name| apps(name)).collect();
        let found = graph.dependencies_of(&owners.iter().collect::<Vec<_>>());
        found.iter().map(|all| all.to_vec()).collect::<Vec<_>>()
    };
    let none = Vec::new();
    assert_eq!(
        of(&["b", "c", "a"]),
        [vec![apps("a")], none, vec![apps("b"), apps("c")]]
    );
    let is_way = |names: &[&str]| graph.is_way(&names.iter().map(|name| apps(name)).collect::<Vec<_>>());
    assert!(is_way(&["a", "b", "a", "c"]));
    assert!(!is_way(&["a", "b", "c"]));
}
