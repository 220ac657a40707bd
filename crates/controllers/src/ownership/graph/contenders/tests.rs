use std::sync::Arc;

use equate_api::meta::{KubeConfigReference, SecretKeyReference};
use equate_apply::desired::Desired;
use equate_apply::owner::Owner;
use equate_manifest::object::Object;
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::object_ref::tests::{HELM_RELEASE, KUSTOMIZATION};
use crate::ownership::access_reviews::Review;
use crate::ownership::desired::{BuiltObjects, DesiredState};
use crate::ownership::graph::tests::declaration;

const ARTIFACT: &str = "sha256:1";
const X: &str = "n_x__ConfigMap";

/// Kustomizations of the namespace `n` that read one source, as their controller would declare them.
#[derive(Default)]
struct Fleet {
    graph: OwnershipGraph,
}

impl Fleet {
    fn of(names: &[&str]) -> Self {
        let mut fleet = Self::default();
        for name in names {
            fleet.declare(name, |_| ());
        }
        fleet
    }

    fn declare(&mut self, name: &str, change: impl FnOnce(&mut Declaration)) {
        let mut now = declaration();
        change(&mut now);
        self.graph.changed(&apps(name), None, Some(now));
    }

    fn built(&mut self, name: &str, ids: &[&str]) {
        self.set(name, ARTIFACT, wanted(ids));
    }

    fn set(&mut self, name: &str, artifact: &str, wants: DesiredSet) {
        let owner = apps(name);
        let state = DesiredState {
            generation: self.graph.declaration(&owner).unwrap().generation,
            artifact: artifact.to_owned(),
            wants,
            applied: false,
            forms: Vec::new(),
        };
        self.graph.set_desired(&owner, state);
    }

    /// The other owner of `x`, from the view of an owner without `x` in its inventory.
    #[track_caller]
    fn check(&self, by: &str, expected: Option<&str>) {
        self.check_as(by, Own::default(), expected);
    }

    #[track_caller]
    fn check_as(&self, by: &str, own: Own<'_>, expected: Option<&str>) {
        let own = Own {
            artifact: Some(ARTIFACT),
            ..own
        };
        let by = apps(by);
        let owner = self
            .graph
            .owned_by_other(&id(X), &by, own, &mut Waiting::default());
        assert_eq!(owner.map(|owner| &*owner.name), expected, "{by}");
    }

    /// The owner to build before one is known to own objects of these namespaces.
    #[track_caller]
    fn check_pending(&mut self, by: &str, namespaces: &[&str], expected: Option<&str>) {
        self.check_pending_of(ARTIFACT, by, namespaces, expected);
    }

    #[track_caller]
    fn check_pending_of(&mut self, artifact: &str, by: &str, namespaces: &[&str], expected: Option<&str>) {
        let namespaces = namespaces.iter().copied().collect();
        let pending = self.graph.pending_before(artifact, &apps(by), &namespaces);
        let name = pending.map(|pending| pending.owner.name);
        assert_eq!(name.as_deref(), expected, "{by}");
    }
}

fn apps(name: &str) -> ObjectRef {
    ObjectRef::new("Kustomization", "n", name)
}

fn id(text: &str) -> ObjectId {
    ObjectId::from_inventory(text).unwrap()
}

fn wanted(ids: &[&str]) -> DesiredSet {
    let owner = Owner::new(&KUSTOMIZATION, "n", "one");
    let desired: Vec<Desired> = ids
        .iter()
        .map(|text| {
            let id = id(text);
            let version = match &*id.group {
                "" => "v1".to_owned(),
                group => format!("{group}/v1"),
            };
            let object = json!({
                "apiVersion": version, "kind": &*id.kind,
                "metadata": { "name": &*id.name, "namespace": &*id.namespace },
            });
            Desired::new(Object::from_value(object).unwrap(), &owner, None)
        })
        .collect();
    let applies = |desired: &Desired| {
        let is_owner = &*desired.id.kind == "Kustomization";
        is_owner.then(|| ("Kustomization", Some(declaration().source)))
    };
    DesiredSet::Known(BuiltObjects::of(&desired, applies).into())
}

fn child_of(parent: &str) -> impl FnOnce(&mut Declaration) {
    let parent = apps(parent);
    move |it| it.parent = Some(parent)
}

fn on(dependency: &str) -> impl FnOnce(&mut Declaration) {
    let dependency = apps(dependency);
    move |it| it.depends_on = Arc::from([dependency])
}

fn holding(ids: &[&str]) -> impl FnOnce(&mut Declaration) {
    let holds: BTreeSet<ObjectId> = ids.iter().map(|text| id(text)).collect();
    move |it| it.holds = Arc::new(holds)
}

fn other_source(it: &mut Declaration) {
    it.source = ObjectRef::new("GitRepository", "n", "other");
}

fn away(it: &mut Declaration) {
    it.remote = true;
    it.kube_config = Some(KubeConfigReference {
        config_map_ref: None,
        secret_ref: Some(SecretKeyReference {
            name: "away".to_owned(),
            key: None,
        }),
    });
}

#[test]
fn an_object_without_holder_goes_to_the_first_by_name() {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.built("b", &[X]);
    fleet.check("b", None);
    fleet.built("c", &[X]);
    fleet.built("a", &["n_y__ConfigMap"]);
    fleet.check("b", None);
    fleet.check("c", Some("b"));
    fleet.built("a", &[X]);
    fleet.check("a", None);
    fleet.check("b", Some("a"));
    fleet.check("c", Some("a"));
}

#[test]
fn a_holder_or_taker_keeps_the_object() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.built("a", &[X]);
    fleet.built("b", &[X]);
    fleet.check("b", Some("a"));
    // before its inventory says so
    fleet.graph.taken.take(&apps("b"), [id(X)].into_iter());
    fleet.check("a", Some("b"));
    fleet.check("b", None);
    // then its inventory does
    fleet.declare("b", holding(&[X]));
    assert!(fleet.graph.taken.is_empty());
    fleet.check("a", Some("b"));
    // both hold it, in a cluster that was taken over: the labels decide
    fleet.declare("a", holding(&[X]));
    let b = apps("b");
    let holds = |named| Own {
        holds: true,
        named,
        artifact: None,
    };
    fleet.check_as("b", holds(None), Some("a"));
    fleet.check_as("b", holds(Some(&b)), None);
    fleet.check_as("a", holds(Some(&b)), Some("b"));
    fleet.check_as("a", holds(None), None);
}

#[test]
fn outdated_or_inactive_owners_do_not_want() {
    // `a` comes before `b`, and is changed so that it does not count
    let check = |change: &dyn Fn(&mut Fleet), expected: Option<&str>| {
        let mut fleet = Fleet::of(&["a", "b"]);
        fleet.built("a", &[X]);
        fleet.built("b", &[X]);
        change(&mut fleet);
        fleet.check("b", expected);
    };
    check(&|_| (), Some("a"));
    check(&|fleet| fleet.declare("a", |it| it.suspended = true), None);
    check(&|fleet| fleet.declare("a", |it| it.deleting = true), None);
    check(
        &|fleet| fleet.set("a", ARTIFACT, DesiredSet::Unknown("cannot be built")),
        None,
    );
    // built from an older artifact or spec
    check(&|fleet| fleet.set("a", "sha256:0", wanted(&[X])), None);
    check(&|fleet| fleet.declare("a", |it| it.generation = 2), None);
    check(&|fleet| fleet.declare("a", other_source), None);
    check(&|fleet| fleet.declare("a", away), None);
    check(&|fleet| fleet.declare("a", |it| it.ours = false), None);
    let refused = Review {
        allowed: false,
        at: Instant::now(),
    };
    check(
        &|fleet| fleet.graph.reviews.record(apps("a"), id(X), refused),
        None,
    );
}

#[test]
fn a_claim_of_another_kind_is_enough() {
    let mut fleet = Fleet::of(&["a"]);
    fleet.built("a", &[X]);
    let release = ObjectRef::new("HelmRelease", "n", "z");
    let mut now = declaration();
    now.owner = &HELM_RELEASE;
    holding(&[X])(&mut now);
    fleet.graph.changed(&release, None, Some(now));
    fleet.check("a", Some("z"));
    let named = apps("a");
    let own = Own {
        holds: true,
        named: Some(&named),
        artifact: None,
    };
    fleet.check_as("a", own, Some("z"));
}

#[test]
fn a_parent_comes_before_its_children() {
    let mut fleet = Fleet::of(&["z"]);
    fleet.declare("a", child_of("z"));
    fleet.built("z", &[X]);
    fleet.built("a", &[X]);
    fleet.check("z", None);
    fleet.check("a", Some("z"));
    // and before those of another
    fleet.declare("y", |_| ());
    fleet.built("y", &[X]);
    fleet.check("z", Some("y"));
    fleet.check("a", Some("y"));
    // labels that name each other form a cycle
    fleet.declare("y", child_of("z"));
    fleet.declare("z", child_of("y"));
    fleet.check("a", None);
    fleet.check("z", Some("a"));
}

#[test]
fn one_that_waits_for_another_comes_after_it() {
    let mut fleet = Fleet::of(&["b", "c"]);
    fleet.declare("a", on("c"));
    fleet.built("a", &[X]);
    fleet.built("b", &[X]);
    // its place relative to `c` is unknown before `c` is built
    fleet.check_pending("a", &["n"], Some("c"));
    fleet.built("c", &[]);
    fleet.check_pending("a", &["n"], None);
    fleet.check("b", Some("a"));
    fleet.built("c", &[X]);
    fleet.check("b", None);
    fleet.check("a", Some("b"));
    fleet.check("c", Some("b"));
    // the child of one with `spec.wait`
    let mut fleet = Fleet::default();
    fleet.declare("parent", |it| it.waits = true);
    fleet.declare("child", child_of("parent"));
    fleet.declare("a", on("parent"));
    fleet.built("a", &[X]);
    fleet.built("child", &[X]);
    fleet.check("child", None);
    fleet.check("a", Some("child"));
    fleet.declare("parent", |_| ());
    fleet.check("child", Some("a"));
}

/// All graphs without cycles of four owners, and all groups of them.
#[test]
fn those_that_wait_for_another_are_found_together() {
    let names = ["a", "b", "c", "d"];
    let bit = |set: u32, at: usize| set & (1 << at) != 0;
    for edges in 0..1 << 6 {
        let mut fleet = Fleet::of(&names);
        let mut at = 0;
        for (from, name) in names.iter().enumerate() {
            let mut depends_on = Vec::new();
            for to in &names[from + 1..] {
                if bit(edges, at) {
                    depends_on.push(apps(to));
                }
                at += 1;
            }
            fleet.declare(name, |it| it.depends_on = depends_on.into());
        }
        for group in 0..1 << 4 {
            let members = names.iter().enumerate().filter(|(at, _)| bit(group, *at));
            let contenders: Vec<ObjectRef> = members.map(|(_, name)| apps(name)).collect();
            let mut found: Vec<&ObjectRef> = fleet.graph.waiting_among(&contenders).collect();
            found.sort();
            let waits = |one: &&ObjectRef| {
                fleet
                    .graph
                    .awaited_by(one)
                    .any(|other| contenders.contains(other))
            };
            let expected: Vec<&ObjectRef> = contenders.iter().filter(waits).collect();
            assert_eq!(found, expected, "{edges:b} {group:b}");
        }
    }
}

#[test]
fn earlier_owners_are_built_first() {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.check_pending("a", &["n"], None);
    // the last of them, which is mostly built last
    fleet.check_pending("c", &["n"], Some("b"));
    fleet.built("b", &[]);
    fleet.check_pending("c", &["n"], Some("a"));
    fleet.built("a", &[]);
    fleet.check_pending("c", &["n"], None);
    // a new one, one with another spec, and a build of another artifact
    fleet.declare("bb", |_| ());
    fleet.check_pending("c", &["n"], Some("bb"));
    fleet.built("bb", &[]);
    fleet.declare("a", |it| it.generation = 2);
    fleet.check_pending("c", &["n"], Some("a"));
    fleet.built("a", &[]);
    fleet.check_pending("c", &["n"], None);
    fleet.check_pending_of("sha256:2", "c", &["n"], Some("bb"));
}

#[test]
fn an_owner_without_wants_is_not_waited_for() {
    let check = |change: fn(&mut Declaration), namespaces: &[&str], expected: Option<&str>| {
        let mut fleet = Fleet::of(&["b"]);
        fleet.declare("a", change);
        fleet.check_pending("b", namespaces, expected);
        // the same if it is declared later
        let mut fleet = Fleet::of(&["a", "b"]);
        fleet.check_pending("b", &["n"], Some("a"));
        fleet.declare("a", change);
        fleet.check_pending("b", namespaces, expected);
    };
    check(|_| (), &["n"], Some("a"));
    check(|it| it.suspended = true, &["n"], None);
    check(|it| it.deleting = true, &["n"], None);
    check(|it| it.ours = false, &["n"], None);
    check(other_source, &["n"], None);
    check(away, &["n"], None);
    // all of its objects that have a namespace are in this one
    let targeted = |it: &mut Declaration| it.target_namespace = Some("web".to_owned());
    check(targeted, &["n"], None);
    check(targeted, &["n", "web"], Some("a"));
    check(targeted, &["n", ""], Some("a"));
    // the API server did not answer
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.check_pending("b", &["n"], Some("a"));
    fleet.graph.unreached(&apps("a"), (1, ARTIFACT.to_owned()));
    fleet.check_pending("b", &["n"], None);
    // two with the same kubeconfig share a cluster
    let mut fleet = Fleet::default();
    for name in ["a", "b"] {
        fleet.declare(name, away);
    }
    fleet.check_pending("b", &["n"], Some("a"));
}

#[test]
fn children_that_are_being_applied_are_waited_for() {
    let kustomization = |name: &str| format!("n_{name}_kustomize.toolkit.fluxcd.io_Kustomization");
    let (root, child) = (apps("root"), apps("a"));
    let mut fleet = Fleet::of(&["root"]);
    fleet.declare("b", child_of("root"));
    fleet.built("b", &[X]);
    fleet.built(
        "root",
        &[&kustomization("a"), &kustomization("b"), &kustomization("c")],
    );
    // while the parent waits, nothing waits for its child
    fleet.check_pending("b", &["n"], None);
    fleet.graph.begin_apply(&root);
    fleet.check_pending("b", &["n"], Some("a"));
    fleet.check_pending("root", &["n"], None);
    // applied, and not declared yet
    fleet.graph.child_applied(&root, &child, 1);
    fleet.graph.end_apply(&root);
    fleet.check_pending("b", &["n"], Some("a"));
    fleet.declare("a", child_of("root"));
    fleet.check_pending("b", &["n"], Some("a"));
    fleet.built("a", &[]);
    fleet.check_pending("b", &["n"], None);
    // another spec of it
    fleet.graph.begin_apply(&root);
    fleet.graph.child_applied(&root, &child, 2);
    fleet.graph.end_apply(&root);
    fleet.check_pending("b", &["n"], Some("a"));
    fleet.declare("a", |it| {
        child_of("root")(it);
        it.generation = 2;
    });
    fleet.built("a", &[]);
    fleet.check_pending("b", &["n"], None);
    // a child that could not be applied does not appear
    fleet.graph.begin_apply(&root);
    fleet.graph.end_apply(&root);
    fleet.check_pending("b", &["n"], None);
}
