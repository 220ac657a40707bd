use equate_apply::desired::Desired;
use equate_apply::owner::Owner;
use equate_manifest::object::Object;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::*;
use crate::kit::mirror::What;
use crate::kustomization::KUSTOMIZATION;
use crate::ownership::desired::BuiltObjects;

fn object(name: &str, spec: &Value, status: &Value) -> Arc<Kustomization> {
    let mut object = json!({
        "metadata": { "name": name, "namespace": "n", "generation": 1 },
        "spec": { "interval": "1m", "prune": true, "sourceRef": { "kind": "GitRepository", "name": "fleet" } },
        "status": status,
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    Arc::new(serde_json::from_value(object).unwrap())
}

/// An index, and what each Kustomization was when it was last told of.
#[derive(Default)]
struct Told {
    index: OwnershipGraph,
    objects: HashMap<String, Arc<Kustomization>>,
}

impl Told {
    /// Tells of a Kustomization, or that it is gone; who is woken, by name and reason.
    fn check(&mut self, name: &str, what: What, after: Option<(Value, Value)>, expected: &[&str]) {
        let after = after.map(|(spec, status)| object(name, &spec, &status));
        let before = match &after {
            Some(after) => self.objects.insert(name.to_owned(), Arc::clone(after)),
            None => self.objects.remove(name),
        };
        let key = Key::new("n", name);
        let wakes = self.index.changed(&Change {
            key,
            what,
            before,
            after,
        });
        assert_eq!(shown(&wakes), expected, "{name} {what:?}");
    }
}

fn shown(wakes: &[(Key, Reason)]) -> Vec<String> {
    wakes
        .iter()
        .map(|(key, reason)| format!("{} {reason}", key.name))
        .collect()
}

fn ready(revision: &str, holds: &[&str]) -> Value {
    let entries: Vec<Value> = holds.iter().map(|id| json!({ "id": id, "v": "v1" })).collect();
    json!({
        "observedGeneration": 1,
        "lastAppliedRevision": revision,
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "ReconciliationSucceeded", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
        "inventory": { "entries": entries },
    })
}

#[test]
fn a_change_wakes_those_whom_it_concerns() {
    let mut told = Told::default();
    let none = || (json!({}), json!({}));
    let on = |name: &str| (json!({ "dependsOn": [{ "name": name }] }), json!({}));
    told.check("infra", What::Appeared, Some(none()), &["infra appeared"]);
    told.check("apps", What::Appeared, Some(on("infra")), &["apps appeared"]);
    told.check("more", What::Appeared, Some(on("apps")), &["more appeared"]);
    // its own status wakes nobody but those who wait for it
    let status = |revision: &str| Some((json!({}), ready(revision, &[])));
    told.check("infra", What::Status, status("1"), &["apps dependency"]);
    told.check("infra", What::Status, status("1"), &[]);
    told.check("infra", What::Status, status("2"), &["apps dependency"]);
    told.check("infra", What::Requested, status("2"), &["infra requested"]);
    told.check("infra", What::Gone, None, &["infra deleted", "apps dependency"]);
    told.check("apps", What::Changed, Some(none()), &["apps changed"]);
    told.check("infra", What::Appeared, Some(none()), &["infra appeared"]);
}

#[test]
fn a_source_wakes_those_that_read_it() {
    let mut told = Told::default();
    let from = |source: &str, namespace: &str| {
        let source = json!({ "kind": "GitRepository", "name": source, "namespace": namespace });
        Some((json!({ "sourceRef": source }), json!({})))
    };
    told.check("a", What::Appeared, from("fleet", "n"), &["a appeared"]);
    told.check("b", What::Appeared, from("fleet", "m"), &["b appeared"]);
    told.check("c", What::Appeared, from("other", "n"), &["c appeared"]);
    let readers = |told: &Told, namespace: &str| {
        let readers = told
            .index
            .readers(SourceKind::GitRepository, &Key::new(namespace, "fleet"));
        readers.into_iter().map(|key| key.name).collect::<Vec<_>>()
    };
    assert_eq!(
        (readers(&told, "n"), readers(&told, "m")),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
    told.check("b", What::Changed, from("fleet", "n"), &["b changed"]);
    told.check("a", What::Gone, None, &["a deleted"]);
    assert_eq!(
        (readers(&told, "n"), readers(&told, "m")),
        (vec!["b".to_owned()], vec![])
    );
}

#[test]
fn what_one_holds_and_another_wants_is_told_to_both() {
    let mut told = Told::default();
    let holds = |holds: &[&str]| Some((json!({}), ready("1", holds)));
    let id = ObjectId::from_inventory("n_x__ConfigMap").unwrap();
    let (one, two) = (Key::new("n", "one"), Key::new("n", "two"));
    told.check(
        "one",
        What::Appeared,
        holds(&["n_x__ConfigMap", "n_y__ConfigMap"]),
        &["one appeared"],
    );
    told.check("two", What::Appeared, holds(&[]), &["two appeared"]);
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
    // let go of, it is the other's to take
    told.check("one", What::Status, holds(&["n_y__ConfigMap"]), &["two object"]);
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
        wants: DesiredSet::Known(BuiltObjects::of(&desired).into()),
        applied: false,
        forms: Vec::new(),
    }
}

#[test]
fn what_one_lets_go_of_another_takes() {
    let mut told = Told::default();
    let holds = |holds: &[&str]| Some((json!({}), ready("1", holds)));
    let (x, y) = ("n_x__ConfigMap", "n_y__ConfigMap");
    let id = ObjectId::from_inventory(x).unwrap();
    let (one, two) = (Key::new("n", "one"), Key::new("n", "two"));
    told.check("one", What::Appeared, holds(&[x, y]), &["one appeared"]);
    told.check("two", What::Appeared, holds(&[]), &["two appeared"]);
    let index = &mut told.index;
    // of whom nothing is known holds what it held
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
    // what cannot be built any more holds on
    let unknown = DesiredState {
        wants: DesiredSet::Unknown("cannot be built"),
        ..wanting(1, &[])
    };
    index.set_desired(&one, unknown);
    assert_eq!(index.claimants(&id, &two).next(), Some(&one));
    // who is deleted holds on to nothing, and takes nothing
    let mut deleted = (*object("one", &json!({}), &ready("1", &[x, y]))).clone();
    deleted.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    let deleted = Arc::new(deleted);
    told.index.changed(&Change {
        key: one.clone(),
        what: What::Deleting,
        before: told.objects.insert("one".to_owned(), Arc::clone(&deleted)),
        after: Some(deleted),
    });
    told.index.set_desired(&one, wanting(1, &[x]));
    assert_eq!(told.index.claimants(&id, &two).next(), None);
    assert_eq!(told.index.taker(&id, &two), None);
    told.check("one", What::Gone, None, &["one deleted"]);
    assert_eq!(told.index.desired_state(&one), None);
}

#[test]
fn who_waits_for_a_word_is_woken_by_it() {
    let mut told = Told::default();
    let none = || Some((json!({}), json!({})));
    for name in ["a", "b", "c", "d"] {
        told.check(name, What::Appeared, none(), &[&format!("{name} appeared")]);
    }
    let key = |name: &str| Key::new("n", name);
    let keys = |names: &[&str]| names.iter().map(|name| key(name)).collect::<BTreeSet<_>>();
    let check = |told: &mut Told, of: &str, state: DesiredState, expected: &[&str]| {
        let wakes = told.index.set_desired(&key(of), state);
        assert_eq!(shown(&wakes), expected, "{of}");
    };
    let watched = Watched {
        of: keys(&["c", "d"]),
        until: None,
    };
    told.index.watch(&key("a"), watched);
    check(&mut told, "b", wanting(1, &[]), &[]);
    check(&mut told, "c", wanting(1, &[]), &["a dependency"]);
    check(&mut told, "d", wanting(1, &[]), &["a dependency"]);
    // the same word is no news
    check(&mut told, "d", wanting(1, &[]), &[]);
    check(&mut told, "d", wanting(2, &[]), &["a dependency"]);
    told.check("d", What::Gone, None, &["d deleted", "a dependency"]);
    told.index.watch(&key("a"), Watched::default());
    check(&mut told, "d", wanting(3, &[]), &[]);
    assert!(told.index.listeners.is_empty() && told.index.watched.is_empty());
}

#[test]
fn whom_one_waits_for_has_its_time_with_each_input() {
    let mut told = Told::default();
    let none = || Some((json!({}), json!({})));
    told.check("a", What::Appeared, none(), &["a appeared"]);
    let (a, start) = (Key::new("n", "a"), Instant::now());
    let later = start + Duration::from_secs(60);
    let from = |artifact: &str| (1, artifact.to_owned());
    let index = &mut told.index;
    assert_eq!(index.unbuilt_since(&a, from("1"), start), start);
    assert_eq!(index.unbuilt_since(&a, from("1"), later), start);
    assert_eq!(index.unbuilt_since(&a, from("2"), later), later);
    index.set_desired(&a, wanting(1, &[]));
    assert_eq!(index.unbuilt_since(&a, from("2"), start), start);
    // that it could not be built is true of what it would have been built from
    index.unreached(&a, from("2"));
    assert!(index.is_unreached(&a, &from("2")) && !index.is_unreached(&a, &from("3")));
    index.set_desired(&a, wanting(2, &[]));
    assert!(!index.is_unreached(&a, &from("2")));
}

#[test]
fn a_source_that_was_looked_at_is_news_once() {
    let mut told = Told::default();
    let none = || Some((json!({}), json!({})));
    for name in ["a", "b"] {
        told.check(name, What::Appeared, none(), &[&format!("{name} appeared")]);
    }
    let source = (SourceKind::GitRepository, Key::new("n", "fleet"));
    let watched = Watched {
        of: BTreeSet::from([Key::new("n", "a")]),
        until: None,
    };
    let index = &mut told.index;
    index.watch(&Key::new("n", "b"), watched);
    assert!(!index.has_looked(&source));
    assert_eq!(shown(&index.looked(source.clone())), ["b dependency"]);
    assert!(index.has_looked(&source) && index.looked(source.clone()).is_empty());
    // another of the same name is another
    index.lost(&source);
    assert!(!index.has_looked(&source));
}

#[test]
fn what_another_shard_claims_is_told_to_who_holds_it() {
    let half = crate::shards::Slice::new(0, 2).unwrap();
    let named = |ours: bool| {
        let mut names = (0..100).map(|number| format!("ks-{number}"));
        names.find(|name| half.has("n", name) == ours).unwrap()
    };
    let (ours, theirs) = (named(true), named(false));
    let mut told = Told {
        index: OwnershipGraph::of(Shards::default().slice(half)),
        ..Told::default()
    };
    let x = ObjectId::from_inventory("n_x__ConfigMap").unwrap();
    let [our_key, their_key] = [&ours, &theirs].map(|name| Key::new("n", name.as_str()));
    let holds = |holds: &[&str]| Some((json!({}), ready("1", holds)));
    let appeared = format!("{ours} appeared");
    told.check(&ours, What::Appeared, holds(&["n_x__ConfigMap"]), &[&appeared]);
    told.check(&theirs, What::Appeared, holds(&["n_y__ConfigMap"]), &[]);
    assert!(told.index.has_let_go(&their_key, &x, &our_key));
    assert!(
        !told.index.has_let_go(&our_key, &x, &their_key),
        "not of another shard"
    );

    let woken = format!("{ours} dependency");
    let both = ["n_x__ConfigMap", "n_y__ConfigMap"];
    told.check(&theirs, What::Status, holds(&both), &[&woken]);
    told.check(&theirs, What::Status, holds(&both), &[]);
    assert!(!told.index.has_let_go(&their_key, &x, &our_key));
    told.check(&theirs, What::Status, holds(&[]), &[]);
    assert!(told.index.has_let_go(&their_key, &x, &our_key));
    // of one that is gone nobody knows anything
    let forgotten = format!("{theirs} deleted");
    told.check(&theirs, What::Gone, None, &[&forgotten]);
    assert!(!told.index.has_let_go(&their_key, &x, &our_key));
}
