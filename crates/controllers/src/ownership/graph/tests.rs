use std::sync::Arc;
use std::time::Duration;

use equate_apply::desired::Desired;
use equate_manifest::object::Object;
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::object_ref::tests::{HELM_RELEASE, KUSTOMIZATION};
use crate::ownership::desired::{BuiltObjects, Watched};
use crate::ownership::other_shards::{ReadySeen, StatusSeen};

/// An owner that reads `fleet` and has done nothing yet.
pub(crate) fn declaration() -> Declaration {
    Declaration {
        owner: &KUSTOMIZATION,
        ours: true,
        generation: 1,
        deleting: false,
        suspended: false,
        source: source("fleet", "n"),
        depends_on: BTreeSet::new(),
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

/// A graph to which Kustomizations are declared by name.
#[derive(Default)]
struct Told {
    index: OwnershipGraph,
}

impl Told {
    /// Declares a Kustomization, or its end, and checks the woken owners by name and reason.
    fn check(&mut self, name: &str, why: Option<Reason>, now: Option<Declaration>, expected: &[&str]) {
        let wakes = self.index.changed(&apps(name), why, now);
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
fn a_change_wakes_those_whom_it_concerns() {
    let mut told = Told::default();
    let none = declaration;
    let on = |name: &str| Declaration {
        depends_on: BTreeSet::from([apps(name)]),
        ..declaration()
    };
    told.check("infra", Some(Reason::Appeared), Some(none()), &["infra appeared"]);
    told.check(
        "apps",
        Some(Reason::Appeared),
        Some(on("infra")),
        &["apps appeared"],
    );
    told.check(
        "more",
        Some(Reason::Appeared),
        Some(on("apps")),
        &["more appeared"],
    );
    // its own status wakes only owners that wait for it
    let status = |revision: &str| Some(ready(revision, &[]));
    told.check("infra", None, status("1"), &["apps dependency"]);
    told.check("infra", None, status("1"), &[]);
    told.check("infra", None, status("2"), &["apps dependency"]);
    told.check(
        "infra",
        Some(Reason::Requested),
        status("2"),
        &["infra requested"],
    );
    told.check("infra", None, None, &["infra deleted", "apps dependency"]);
    told.check("apps", Some(Reason::Changed), Some(none()), &["apps changed"]);
    told.check("infra", Some(Reason::Appeared), Some(none()), &["infra appeared"]);
}

#[test]
fn a_source_wakes_those_that_read_it() {
    let mut told = Told::default();
    let from = |name: &str, namespace: &str| {
        Some(Declaration {
            source: source(name, namespace),
            ..declaration()
        })
    };
    told.check("a", Some(Reason::Appeared), from("fleet", "n"), &["a appeared"]);
    told.check("b", Some(Reason::Appeared), from("fleet", "m"), &["b appeared"]);
    told.check("c", Some(Reason::Appeared), from("other", "n"), &["c appeared"]);
    let readers = |told: &Told, namespace: &str| {
        let readers = told.index.readers(&source("fleet", namespace));
        readers.into_iter().map(|key| key.name).collect::<Vec<_>>()
    };
    assert_eq!(
        (readers(&told, "n"), readers(&told, "m")),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
    told.check("b", Some(Reason::Changed), from("fleet", "n"), &["b changed"]);
    told.check("a", None, None, &["a deleted"]);
    assert_eq!(
        (readers(&told, "n"), readers(&told, "m")),
        (vec!["b".to_owned()], vec![])
    );
}

#[test]
fn what_one_holds_and_another_wants_is_told_to_both() {
    let mut told = Told::default();
    let holds = |holds: &[&str]| Some(ready("1", holds));
    let id = ObjectId::from_inventory("n_x__ConfigMap").unwrap();
    let (one, two) = (apps("one"), apps("two"));
    told.check(
        "one",
        Some(Reason::Appeared),
        holds(&["n_x__ConfigMap", "n_y__ConfigMap"]),
        &["one appeared"],
    );
    told.check("two", Some(Reason::Appeared), holds(&[]), &["two appeared"]);
    assert_eq!(told.index.claimants(&id, &two).next(), Some(&one));
    assert_eq!(told.index.claimants(&id, &one).next(), None);
    let contest = Contest {
        id: id.clone(),
        other: one.clone(),
    };
    assert_eq!(
        shown(&told.index.contest(&two, std::slice::from_ref(&contest))),
        ["one object"]
    );
    assert_eq!(shown(&told.index.contest(&two, &[contest])), Vec::<String>::new());
    let of_one: Vec<String> = told
        .index
        .contested(&one)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(of_one, ["ConfigMap/n/x (also declared by Kustomization/n/two)"]);
    // released: the other may take it
    told.check("one", None, holds(&["n_y__ConfigMap"]), &["two object"]);
    assert!(!told.index.claims(&one, &id));
    assert_eq!(shown(&told.index.contest(&two, &[])), ["one object"]);
    assert_eq!(told.index.contested(&one), []);
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
fn what_one_lets_go_of_another_takes() {
    let mut told = Told::default();
    let holds = |holds: &[&str]| Some(ready("1", holds));
    let (x, y) = ("n_x__ConfigMap", "n_y__ConfigMap");
    let id = ObjectId::from_inventory(x).unwrap();
    let (one, two) = (apps("one"), apps("two"));
    told.check("one", Some(Reason::Appeared), holds(&[x, y]), &["one appeared"]);
    told.check("two", Some(Reason::Appeared), holds(&[]), &["two appeared"]);
    let index = &mut told.index;
    // an owner without a desired state keeps its inventory
    assert_eq!(
        (index.claimants(&id, &two).next(), index.taker(&id, &one)),
        (Some(&one), None)
    );
    assert!(index.set_desired(&one, wanting(1, &[x, y])).is_empty());
    assert_eq!(index.claimants(&id, &two).next(), Some(&one));
    // both want it: the first keeps it
    index.set_desired(&two, wanting(1, &[x]));
    assert_eq!(
        (
            index.claimants(&id, &two).next(),
            index.claimants(&id, &one).next()
        ),
        (Some(&one), None)
    );
    index.set_desired(&one, wanting(1, &[y]));
    assert_eq!(
        (index.claimants(&id, &two).next(), index.taker(&id, &one)),
        (None, Some(&two))
    );
    // an owner that cannot be built any more keeps its objects
    let unknown = DesiredState {
        wants: DesiredSet::Unknown("cannot be built"),
        ..wanting(1, &[])
    };
    index.set_desired(&one, unknown);
    assert_eq!(index.claimants(&id, &two).next(), Some(&one));
    // a deleted owner keeps and takes nothing
    let deleted = Declaration {
        deleting: true,
        ..ready("1", &[x, y])
    };
    told.index.changed(&one, Some(Reason::Deleted), Some(deleted));
    told.index.set_desired(&one, wanting(1, &[x]));
    assert_eq!(told.index.claimants(&id, &two).next(), None);
    assert_eq!(told.index.taker(&id, &two), None);
    told.check("one", None, None, &["one deleted"]);
    assert_eq!(told.index.desired_state(&one), None);
}

#[test]
fn who_waits_for_a_word_is_woken_by_it() {
    let mut told = Told::default();
    let none = || Some(declaration());
    for name in ["a", "b", "c", "d"] {
        told.check(
            name,
            Some(Reason::Appeared),
            none(),
            &[&format!("{name} appeared")],
        );
    }
    let key = |name: &str| apps(name);
    let keys = |names: &[&str]| names.iter().map(|name| key(name)).collect::<BTreeSet<_>>();
    let check = |told: &mut Told, of: &str, state: DesiredState, expected: &[&str]| {
        let wakes = told.index.set_desired(&key(of), state);
        assert_eq!(shown(&wakes), expected, "{of}");
    };
    let watched = Watched {
        of: keys(&["c", "d"]),
        until: None,
    };
    told.index.announcements.watch(&key("a"), watched);
    check(&mut told, "b", wanting(1, &[]), &[]);
    check(&mut told, "c", wanting(1, &[]), &["a dependency"]);
    check(&mut told, "d", wanting(1, &[]), &["a dependency"]);
    // the same announcement again wakes nobody
    check(&mut told, "d", wanting(1, &[]), &[]);
    check(&mut told, "d", wanting(2, &[]), &["a dependency"]);
    told.check("d", None, None, &["d deleted", "a dependency"]);
    told.index.announcements.watch(&key("a"), Watched::default());
    check(&mut told, "d", wanting(3, &[]), &[]);
    assert!(told.index.announcements.is_idle());
}

#[test]
fn whom_one_waits_for_has_its_time_with_each_input() {
    let mut told = Told::default();
    let none = || Some(declaration());
    told.check("a", Some(Reason::Appeared), none(), &["a appeared"]);
    let (a, start) = (apps("a"), Instant::now());
    let later = start + Duration::from_secs(60);
    let from = |artifact: &str| (1, artifact.to_owned());
    let index = &mut told.index;
    assert_eq!(index.announcements.awaited_since(&a, from("1"), start), start);
    assert_eq!(index.announcements.awaited_since(&a, from("1"), later), start);
    assert_eq!(index.announcements.awaited_since(&a, from("2"), later), later);
    index.set_desired(&a, wanting(1, &[]));
    assert_eq!(index.announcements.awaited_since(&a, from("2"), start), start);
    // a failed build counts for its own inputs only
    index.unreached(&a, from("2"));
    assert!(index.announcements.is_unreached(&a, 1, "2") && !index.announcements.is_unreached(&a, 1, "3"));
    index.set_desired(&a, wanting(2, &[]));
    assert!(!index.announcements.is_unreached(&a, 1, "2"));
}

#[test]
fn a_source_that_was_looked_at_is_news_once() {
    let mut told = Told::default();
    let none = || Some(declaration());
    for name in ["a", "b"] {
        told.check(
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
    let index = &mut told.index;
    index.announcements.watch(&apps("b"), watched);
    assert!(!index.announcements.has_looked(&source));
    assert_eq!(shown(&index.looked(source.clone())), ["b dependency"]);
    assert!(index.announcements.has_looked(&source) && index.looked(source.clone()).is_empty());
    // another source of the same name is a new one
    index.announcements.forget_source(&source);
    assert!(!index.announcements.has_looked(&source));
}

#[test]
fn what_another_shard_claims_is_told_to_who_holds_it() {
    let (ours, theirs) = ("ours", "theirs");
    let mut told = Told::default();
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
    told.check(
        ours,
        Some(Reason::Appeared),
        holds(&["n_x__ConfigMap"]),
        &[&appeared],
    );
    told.check(
        theirs,
        Some(Reason::Appeared),
        elsewhere(&["n_y__ConfigMap"]),
        &[],
    );
    assert!(told.index.has_let_go(&their_key, &x, &our_key));
    assert!(
        !told.index.has_let_go(&our_key, &x, &their_key),
        "not of another shard"
    );

    let woken = format!("{ours} dependency");
    let both = ["n_x__ConfigMap", "n_y__ConfigMap"];
    told.check(theirs, None, elsewhere(&both), &[&woken]);
    told.check(theirs, None, elsewhere(&both), &[]);
    assert!(!told.index.has_let_go(&their_key, &x, &our_key));
    told.check(theirs, None, elsewhere(&[]), &[]);
    assert!(told.index.has_let_go(&their_key, &x, &our_key));
    // a deleted owner leaves no facts
    let forgotten = format!("{theirs} deleted");
    told.check(theirs, None, None, &[&forgotten]);
    assert!(!told.index.has_let_go(&their_key, &x, &our_key));
}

#[test]
fn objects_of_two_kinds_with_one_name_are_two() {
    let mut told = Told::default();
    let (one, release) = (apps("one"), ObjectRef::new("HelmRelease", "n", "one"));
    let appeared = Some(Reason::Appeared);
    let x = "n_x__ConfigMap";
    told.check("one", appeared, Some(ready("1", &[x])), &["one appeared"]);
    let declared = Declaration {
        owner: &HELM_RELEASE,
        source: source("charts", "n"),
        ..declaration()
    };
    told.index.changed(&release, appeared, Some(declared));
    assert_eq!(
        told.index.readers(&source("fleet", "n")),
        std::slice::from_ref(&one)
    );
    assert_eq!(
        told.index.readers(&source("charts", "n")),
        std::slice::from_ref(&release)
    );
    // one of them goes, and the other keeps its objects
    told.index.changed(&release, None, None);
    assert!(told.index.claims(&one, &ObjectId::from_inventory(x).unwrap()));
    assert_eq!(told.index.readers(&source("fleet", "n")), [one]);
}

#[test]
fn of_two_kinds_that_hold_an_object_the_first_in_order_has_it() {
    let mut told = Told::default();
    let (one, release) = (apps("one"), ObjectRef::new("HelmRelease", "n", "z"));
    let x = "n_x__ConfigMap";
    let id = ObjectId::from_inventory(x).unwrap();
    let release_holds = |holds: &[&str]| Declaration {
        owner: &HELM_RELEASE,
        ..ready("1", holds)
    };
    let claimants = |told: &Told, but: &ObjectRef| -> Vec<ObjectRef> {
        told.index.claimants(&id, but).cloned().collect()
    };
    told.index.changed(&one, None, Some(ready("1", &[])));
    told.index.changed(&release, None, Some(release_holds(&[x])));
    // the holder has it, no matter which owner wants it
    assert_eq!(claimants(&told, &one), std::slice::from_ref(&release));
    assert_eq!(told.index.owner(&release), Owner::new(&HELM_RELEASE, "n", "z"));
    // two that record it at once: one owns it, and neither waits for the other
    told.index.changed(&one, None, Some(ready("1", &[x])));
    assert_eq!(claimants(&told, &one), std::slice::from_ref(&release));
    assert_eq!(claimants(&told, &release), []);
    // an owner that does not want it any more leaves it to the other
    told.index.set_desired(&release, wanting(1, &[]));
    assert_eq!(claimants(&told, &one), []);
    assert_eq!(told.index.taker(&id, &release), Some(&one));
}

#[test]
fn a_dependency_of_another_kind_wakes_its_dependents() {
    let mut told = Told::default();
    let release = ObjectRef::new("HelmRelease", "n", "infra");
    let on = Declaration {
        depends_on: BTreeSet::from([release.clone()]),
        ..declaration()
    };
    told.check("apps", Some(Reason::Appeared), Some(on), &["apps appeared"]);
    // a Kustomization of that name is another object
    told.check("infra", None, Some(ready("1", &[])), &[]);
    let infra = Declaration {
        owner: &HELM_RELEASE,
        ..ready("1", &[])
    };
    let wakes = told.index.changed(&release, None, Some(infra));
    assert_eq!(wakes, [(apps("apps"), Reason::Dependency)]);
}
