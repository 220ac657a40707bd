//! Every reason, as a table: desired and live objects, and the plan.

use super::{Budget, Exceeded, Guard, Live, Memory, Options, Presence, PruneBudgetCheck, Remembered, plan};
use crate::desired::Desired;
use crate::health::Health;
use crate::id::ObjectId;
use crate::inventory::Inventory;
use crate::observed::Observed;
use crate::owned::Digest;
use crate::owner::Owner;
use crate::owner::tests::{HELM_RELEASE, KUSTOMIZATION};
use crate::policy::{Mode, Policy};
use equate_manifest::object::Object;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn me() -> Owner {
    Owner::new(&KUSTOMIZATION, "flux-system", "apps")
}

fn desired(name: &str, annotation: &str) -> Desired {
    let annotations = match annotation.split_once(": ") {
        Some((key, value)) => json!({ format!("kustomize.toolkit.fluxcd.io/{key}"): value }),
        None => json!({}),
    };
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": "n", "annotations": annotations },
    });
    Desired::new(Object::from_value(object).unwrap(), &me(), None)
}

fn id(name: &str) -> ObjectId {
    ObjectId::new("", "ConfigMap", "n", name)
}

fn digest(text: &str) -> Digest {
    crate::owned::desired(&Object::from_value(json!({ "data": text })).unwrap())
}

/// A live object as `desired` would leave it, with one change.
fn observed(desired: &Desired, change: impl FnOnce(&mut Observed)) -> Presence {
    let mut observed = Observed {
        uid: "u1".to_owned(),
        resource_version: "7".to_owned(),
        generation: 1,
        owner: Some(me()),
        owned: desired.digest,
        stamp: 0,
        judged: Vec::new(),
        health: Health::not_found(),
        deleting: false,
        policy: Policy::default(),
        kubectl: false,
        other_writer: None,
        created: None,
        defines: None,
    };
    change(&mut observed);
    Presence::Present(Arc::new(observed))
}

fn other() -> Owner {
    Owner::new(&KUSTOMIZATION, "team", "other")
}

struct Case {
    annotation: &'static str,
    own_loop: bool,
    presence: Presence,
    remembered: Option<Remembered>,
    contender: Option<Owner>,
    backing_off: bool,
}

fn case() -> Case {
    Case {
        annotation: "",
        own_loop: false,
        presence: Presence::Unknown,
        remembered: None,
        contender: None,
        backing_off: false,
    }
}

fn check_apply(case: Case, expected: &str) {
    let mut desired = desired("a", case.annotation);
    desired.own_loop = case.own_loop;
    let live = Live::from_iter([(id("a"), case.presence)]);
    let mut memory = Memory::default();
    if let Some(remembered) = case.remembered {
        memory.note(id("a"), remembered);
    }
    let me = me();
    let mut options = Options::new(&me, "main@sha1:1");
    // a claim does not count if the labels name another owner
    let idle = Owner::new(&KUSTOMIZATION, "a", "holds-it-too");
    let claims: BTreeSet<_> = case
        .contender
        .into_iter()
        .chain([idle])
        .map(|o| (id("a"), o))
        .collect();
    options.claims = &claims;
    let backing_off: BTreeMap<_, _> = case
        .backing_off
        .then(|| (id("a"), Some("hpa".to_owned())))
        .into_iter()
        .collect();
    options.backing_off = &backing_off;
    let plan = plan(&[desired], &Inventory::default(), &live, &memory, &options);
    assert_eq!(plan.to_string().trim_end(), expected);
}

#[test]
fn reasons_to_apply_or_keep() {
    let a = desired("a", "");
    let same = || observed(&a, |_| ());
    let changed = || observed(&a, |o| o.owned = digest("x"));
    let applied = Remembered {
        desired: a.digest,
        owned: a.digest,
    };
    let normalised = Remembered {
        desired: a.digest,
        owned: digest("x"),
    };
    let older = Remembered {
        desired: digest("older"),
        owned: digest("x"),
    };
    let check = |change: &dyn Fn(&mut Case), expected: &str| {
        let mut case = case();
        change(&mut case);
        check_apply(case, expected);
    };
    check(&|_| (), "patch ConfigMap/n/a (not seen yet)");
    check(&|c| c.presence = Presence::Absent, "create ConfigMap/n/a");
    check(&|c| c.presence = same(), "keep ConfigMap/n/a (unchanged)");
    check(&|c| c.presence = changed(), "patch ConfigMap/n/a (changed)");
    // memory separates drift from a change, and knows values stored in another form
    check(
        &|c| (c.presence, c.remembered) = (changed(), Some(applied)),
        "patch ConfigMap/n/a (drifted)",
    );
    check(
        &|c| (c.presence, c.remembered) = (changed(), Some(normalised)),
        "keep ConfigMap/n/a (unchanged)",
    );
    check(
        &|c| (c.presence, c.remembered) = (changed(), Some(older)),
        "patch ConfigMap/n/a (changed)",
    );
    // a normalised value set back by hand matches git, whatever is remembered
    check(
        &|c| (c.presence, c.remembered) = (same(), Some(normalised)),
        "keep ConfigMap/n/a (unchanged)",
    );
    // only drift waits: not a change in git, and not an object that was never applied
    let waits = "keep ConfigMap/n/a (hpa keeps changing it, correction is delayed)";
    check(
        &|c| (c.presence, c.remembered, c.backing_off) = (changed(), Some(applied), true),
        waits,
    );
    check(
        &|c| (c.presence, c.remembered, c.backing_off) = (Presence::Absent, Some(applied), true),
        waits,
    );
    check(
        &|c| (c.presence, c.remembered, c.backing_off) = (changed(), Some(older), true),
        "patch ConfigMap/n/a (changed)",
    );
    check(
        &|c| (c.presence, c.backing_off) = (Presence::Absent, true),
        "create ConfigMap/n/a",
    );
    let live = |change: fn(&mut Observed)| observed(&a, change);
    check(
        &|c| c.presence = live(|o| o.kubectl = true),
        "patch ConfigMap/n/a (taken over from kubectl)",
    );
    // a deleting object is left alone, unless git has changed it
    let deleting = || {
        observed(&a, |o| {
            o.deleting = true;
            o.owned = digest("x");
        })
    };
    check(&|c| c.presence = deleting(), "keep ConfigMap/n/a (being deleted)");
    check(
        &|c| (c.presence, c.remembered) = (deleting(), Some(applied)),
        "keep ConfigMap/n/a (being deleted)",
    );
    check(
        &|c| (c.presence, c.remembered) = (deleting(), Some(older)),
        "patch ConfigMap/n/a (changed)",
    );
    check(
        &|c| c.presence = live(|o| o.policy.reconcile = false),
        "keep ConfigMap/n/a (ignored by its annotations)",
    );
    check(
        &|c| c.presence = live(|o| o.policy.mode = Mode::Ignore),
        "keep ConfigMap/n/a (ignored by its annotations)",
    );
    // another owner: a leftover label is taken over, a claimed object is not
    let theirs = || {
        observed(&a, |o| {
            o.owner = Some(other());
            o.owned = digest("theirs");
        })
    };
    check(&|c| c.presence = theirs(), "patch ConfigMap/n/a (changed)");
    check(
        &|c| (c.presence, c.contender) = (theirs(), Some(other())),
        "keep ConfigMap/n/a (owned by Kustomization team/other)",
    );
    check(
        &|c| (c.presence, c.contender) = (theirs(), Some(Owner::new(&KUSTOMIZATION, "team", "third"))),
        "patch ConfigMap/n/a (changed)",
    );
    // labels of another kind are not read: its claim alone counts
    let release = || Owner::new(&HELM_RELEASE, "flux-system", "apps");
    for presence in [Presence::Absent, theirs(), same()] {
        check(
            &|c| (c.presence, c.contender) = (presence.clone(), Some(release())),
            "keep ConfigMap/n/a (owned by HelmRelease flux-system/apps)",
        );
    }
    // ours, and wanted by another: it stays ours
    check(
        &|c| (c.presence, c.contender) = (same(), Some(other())),
        "keep ConfigMap/n/a (unchanged)",
    );
    check(
        &|c| c.own_loop = true,
        "keep ConfigMap/n/a (part of the bootstrap itself)",
    );
}

#[test]
fn annotations_are_respected() {
    let check = |annotation: &'static str, presence: fn(&Desired) -> Presence, expected: &str| {
        check_apply(
            Case {
                annotation,
                presence: presence(&desired("a", annotation)),
                ..case()
            },
            expected,
        );
    };
    let changed: fn(&Desired) -> Presence = |d| observed(d, |o| o.owned = digest("x"));
    let absent: fn(&Desired) -> Presence = |_| Presence::Absent;
    let kubectl: fn(&Desired) -> Presence = |d| observed(d, |o| o.kubectl = true);
    let ignored = "keep ConfigMap/n/a (ignored by its annotations)";
    check("ssa: Ignore", absent, ignored);
    check("ssa: Ignore", changed, ignored);
    check("reconcile: disabled", absent, ignored);
    check("ssa: IfNotPresent", absent, "create ConfigMap/n/a");
    check(
        "ssa: IfNotPresent",
        changed,
        "keep ConfigMap/n/a (exists, and is never changed)",
    );
    check("ssa: Merge", changed, "patch ConfigMap/n/a (changed)");
    check("ssa: Merge", kubectl, "keep ConfigMap/n/a (unchanged)");
    check(
        "ssa: Override",
        kubectl,
        "patch ConfigMap/n/a (taken over from kubectl)",
    );
    check("prune: Disabled", changed, "patch ConfigMap/n/a (changed)");
}

#[test]
fn reasons_to_prune_or_keep() {
    let a = desired("a", "");
    let check_all = |presence: Presence,
                     prune: bool,
                     contender: Option<Owner>,
                     awaited: Option<Owner>,
                     needed: Option<Owner>,
                     expected: &str| {
        let live = Live::from_iter([
            (id("a"), presence),
            (id("z"), observed(&desired("z", ""), |_| ())),
        ]);
        let mut inventory = Inventory::default();
        inventory.insert(id("a"), "v1");
        let me = me();
        let contenders: BTreeMap<_, _> = contender.into_iter().map(|o| (id("a"), o)).collect();
        let mut options = Options::new(&me, "main@sha1:1");
        options.prune = prune;
        options.contenders = &contenders;
        options.awaited = awaited.as_ref();
        let needed: BTreeMap<_, _> = needed.into_iter().map(|o| (id("a"), (o, id("x")))).collect();
        options.needed = &needed;
        let plan = plan(
            &[desired("z", "")],
            &inventory,
            &live,
            &Memory::default(),
            &options,
        );
        assert_eq!(
            plan.to_string().trim_end(),
            format!("keep ConfigMap/n/z (unchanged)\n{expected}")
        );
        // it stays in the inventory until another has it or it is gone
        let lingers = ["handed over", "not pruned until", "not pruned while"];
        let lingers = lingers.iter().any(|words| expected.contains(words));
        let inventory = plan.inventory(&[desired("z", "")], &inventory);
        assert_eq!(inventory.contains(&id("a")), lingers, "{expected}");
        assert!(inventory.contains(&id("z")));
    };
    let check_with = |presence: Presence, prune: bool, contender: Option<Owner>, expected: &str| {
        check_all(presence, prune, contender, None, None, expected);
    };
    let check = |presence: Presence, expected: &str| check_with(presence, true, None, expected);
    let live = |change: fn(&mut Observed)| observed(&a, change);
    check(live(|_| ()), "prune ConfigMap/n/a");
    check(Presence::Unknown, "prune ConfigMap/n/a");
    check(Presence::Absent, "keep ConfigMap/n/a (already gone)");
    check(
        live(|o| o.owner = Some(other())),
        "keep ConfigMap/n/a (belongs to Kustomization team/other)",
    );
    check(
        live(|o| o.owner = None),
        "keep ConfigMap/n/a (its labels name no owner)",
    );
    check(
        live(|o| o.policy.prune = false),
        "keep ConfigMap/n/a (pruning is disabled for it)",
    );
    check(
        live(|o| o.policy.mode = Mode::Ignore),
        "keep ConfigMap/n/a (ignored by its annotations)",
    );
    check(live(|o| o.deleting = true), "keep ConfigMap/n/a (being deleted)");
    let off = "keep ConfigMap/n/a (pruning is off for its owner)";
    check_with(live(|_| ()), false, None, off);
    check_with(Presence::Unknown, false, Some(other()), off);
    let handed_over = "keep ConfigMap/n/a (handed over to Kustomization team/other)";
    check_with(live(|_| ()), true, Some(other()), handed_over);
    check_with(Presence::Unknown, true, Some(other()), handed_over);
    // its labels name the owner that took it over
    let taken = "keep ConfigMap/n/a (belongs to Kustomization team/other)";
    check_with(live(|o| o.owner = Some(other())), true, Some(other()), taken);
    check_with(
        Presence::Absent,
        true,
        Some(other()),
        "keep ConfigMap/n/a (already gone)",
    );
    // an owner whose desired objects are unknown
    let awaited = "keep ConfigMap/n/a (not pruned until it is known what Kustomization team/other declares)";
    let awaits = |presence: Presence, expected: &str| {
        check_all(presence, true, None, Some(other()), None, expected);
    };
    awaits(live(|_| ()), awaited);
    awaits(Presence::Unknown, awaited);
    awaits(Presence::Absent, "keep ConfigMap/n/a (already gone)");
    awaits(live(|o| o.owner = Some(other())), taken);
    awaits(
        live(|o| o.policy.prune = false),
        "keep ConfigMap/n/a (pruning is disabled for it)",
    );
    // one owner that wants it is enough
    check_all(live(|_| ()), true, Some(other()), Some(me()), None, handed_over);
    // a container stays as long as an owner needs its contents, whatever else is unknown
    let needed = "keep ConfigMap/n/a (not pruned while Kustomization team/other has ConfigMap/n/x, which would be deleted with it)";
    let needs = |presence: Presence, awaited: Option<Owner>, expected: &str| {
        check_all(presence, true, None, awaited, Some(other()), expected);
    };
    needs(live(|_| ()), None, needed);
    needs(live(|_| ()), Some(me()), needed);
    needs(Presence::Unknown, None, needed);
    needs(Presence::Absent, None, "keep ConfigMap/n/a (already gone)");
    needs(live(|o| o.owner = Some(other())), None, taken);
    let disabled = "keep ConfigMap/n/a (pruning is disabled for it)";
    needs(live(|o| o.policy.prune = false), None, disabled);
    check_all(
        live(|_| ()),
        true,
        Some(other()),
        None,
        Some(other()),
        handed_over,
    );
}

/// One object per inventory id; all are live and up to date.
fn objects(ids: &str) -> (Vec<Desired>, Live) {
    let desired: Vec<_> = ids
        .split_whitespace()
        .map(|text| {
            let id = ObjectId::from_inventory(text).unwrap();
            let api_version = if id.group.is_empty() {
                "v1".to_owned()
            } else {
                format!("{}/v1", id.group)
            };
            let object = json!({
                "apiVersion": api_version, "kind": &*id.kind,
                "metadata": { "name": &*id.name, "namespace": &*id.namespace },
            });
            Desired::new(Object::from_value(object).unwrap(), &me(), None)
        })
        .collect();
    let live = desired
        .iter()
        .map(|d| (d.id.clone(), observed(d, |_| ())))
        .collect();
    (desired, live)
}

#[test]
fn stages_in_order_and_prune_in_reverse() {
    let (desired, live) = objects(
        "n_web_apps_Deployment n_cfg__ConfigMap _n__Namespace _fast_storage.k8s.io_StorageClass \
         n_db_example.org_Database _dbs_apiextensions.k8s.io_CustomResourceDefinition",
    );
    let custom = BTreeSet::from([("example.org".to_owned(), "Database".to_owned())]);
    let me = me();
    let mut options = Options::new(&me, "main@sha1:1");
    options.custom_stage = &custom;
    let memory = Memory::default();
    let empty = Inventory::default();
    let forward = plan(&desired, &empty, &Live::default(), &memory, &options);
    let stages: Vec<_> = forward
        .stages
        .iter()
        .map(|stage| {
            let ids: Vec<_> = stage.steps.iter().map(|s| s.id().to_string()).collect();
            format!("{}: {}", stage.kind, ids.join(" "))
        })
        .collect();
    assert_eq!(
        stages,
        [
            "definitions: CustomResourceDefinition/dbs Namespace/n",
            "classes: StorageClass/fast",
            "custom: Database/n/db",
            "rest: ConfigMap/n/cfg Deployment/n/web",
        ]
    );
    let inventory = forward.inventory(&desired, &empty);
    options.allow_empty = Some("main@sha1:1");
    let backward = plan(&[], &inventory, &live, &memory, &options);
    assert_eq!(
        backward.to_string(),
        "prune Deployment/n/web\nprune ConfigMap/n/cfg\nprune Database/n/db\nprune StorageClass/fast\n\
         prune Namespace/n\nprune CustomResourceDefinition/dbs\n"
    );
    assert!(!backward.is_noop());
}

#[test]
fn an_empty_render_stops_unless_it_is_confirmed_for_this_revision() {
    let check = |wanted: &[&str], own_loop: bool, confirmed: Option<&str>, stopped: bool| {
        let (all, live) = objects("n_a__ConfigMap n_b__ConfigMap n_loop__ConfigMap");
        let mut inventory = Inventory::default();
        inventory.insert(id("a"), "v1");
        inventory.insert(id("b"), "v1");
        let desired: Vec<_> = all
            .into_iter()
            .filter(|d| wanted.contains(&&*d.id.name))
            .map(|d| if own_loop { d.of_own_loop() } else { d })
            .collect();
        let me = me();
        let mut options = Options::new(&me, "main@sha1:1");
        options.allow_empty = confirmed;
        let plan = plan(&desired, &inventory, &live, &Memory::default(), &options);
        assert_eq!(plan.guard.is_some(), stopped, "{plan}");
        if stopped {
            assert!(plan.prune.is_empty());
            assert_eq!(plan.inventory(&desired, &inventory), inventory);
        }
    };
    check(&[], false, None, true);
    check(&[], false, Some("main@sha1:0"), true);
    check(&[], false, Some("main@sha1:1"), false);
    check(&["a"], false, None, false);
    // a render of the bootstrap alone counts as empty
    check(&["loop"], true, None, true);
    check(&["loop"], false, None, false);
}

#[test]
fn renders_without_objects_to_prune_are_not_blocked() {
    let me = me();
    let options = Options::new(&me, "main@sha1:1");
    let mut inventory = Inventory::default();
    let live = Live::from_iter([(id("a"), Presence::Absent)]);
    assert_eq!(
        plan(&[], &inventory, &live, &Memory::default(), &options).guard,
        None
    );
    inventory.insert(id("a"), "v1");
    // objects that may not be pruned yet are pruned later
    let other = other();
    let waiting = Options {
        awaited: Some(&other),
        ..options.clone()
    };
    let unseen = plan(&[], &inventory, &Live::default(), &Memory::default(), &waiting);
    assert!(matches!(unseen.guard, Some(Guard::EmptyRender(guard)) if guard.objects == 1));
    let needed = BTreeMap::from([(id("a"), (other.clone(), id("x")))]);
    let needed = Options {
        needed: &needed,
        ..options.clone()
    };
    let needed = plan(&[], &inventory, &Live::default(), &Memory::default(), &needed);
    assert!(matches!(needed.guard, Some(Guard::EmptyRender(guard)) if guard.objects == 1));
    let gone = plan(&[], &inventory, &live, &Memory::default(), &options);
    assert_eq!(gone.to_string(), "keep ConfigMap/n/a (already gone)\n");
}

#[test]
fn budgets_are_read() {
    let check = |text: &str, expected: Option<&str>| {
        let read = text.parse::<Budget>();
        assert_eq!(
            read.as_ref().map(ToString::to_string).ok().as_deref(),
            expected,
            "{text}"
        );
        if let Err(error) = read {
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("invalid prune budget {text:?}: "))
            );
        }
    };
    check("20", Some("20 objects"));
    check("1", Some("1 object"));
    check("0", Some("0 objects"));
    check("0%", Some("0%"));
    check("100%", Some("100%"));
    for wrong in [
        "",
        "%",
        "101%",
        "256%",
        "-1",
        "+1",
        "1.5",
        "half",
        "20 ",
        "50 %",
        "99999999999999999999",
    ] {
        check(wrong, None);
    }
}

#[test]
fn a_plan_that_deletes_more_than_it_may_deletes_nothing() {
    // the inventory has `held` objects, `drops` are no longer declared, another owner takes some
    let check = |held: usize, drops: usize, harmless: &[&str], budget: Option<&str>, stopped: bool| {
        let names: Vec<String> = (0..held).map(|n| format!("n_o{n:03}__ConfigMap")).collect();
        let (all, live) = objects(&names.join(" "));
        let mut inventory = Inventory::default();
        for one in &all {
            inventory.insert(one.id.clone(), "v1");
        }
        let me = me();
        let taken: BTreeMap<ObjectId, Owner> = harmless.iter().map(|name| (id(name), other())).collect();
        let options = Options {
            contenders: &taken,
            prune_check: Some(PruneBudgetCheck {
                budget: budget.map(|budget| budget.parse().unwrap()),
                held,
            }),
            ..Options::new(&me, "main@sha1:1")
        };
        let desired = &all[drops..];
        let plan = plan(desired, &inventory, &live, &Memory::default(), &options);
        assert_eq!(matches!(plan.guard, Some(Guard::Budget(_))), stopped, "{plan}");
        let pruned = plan.prune.iter().filter(|step| step.acts()).count();
        let deletions = drops - harmless.len();
        assert_eq!(pruned, if stopped { 0 } else { deletions }, "{plan}");
        if let Some(Guard::Budget(exceeded)) = &plan.guard {
            assert_eq!((exceeded.objects.len(), exceeded.held), (deletions, held));
            assert_eq!(plan.inventory(desired, &inventory), inventory);
            // nothing is forgotten where the rest is applied
            assert_eq!(plan.lingering(&inventory).len(), drops);
        }
    };
    // the default: half of more than ten
    check(20, 10, &[], None, false);
    check(20, 11, &[], None, true);
    check(11, 6, &[], None, true);
    check(10, 9, &[], None, false);
    // handed over objects do not count
    check(20, 11, &["o000"], None, false);
    check(20, 12, &["o000"], None, true);
    check(20, 3, &[], Some("3"), false);
    check(20, 4, &[], Some("3"), true);
    check(4, 1, &[], Some("0"), true);
    check(4, 1, &[], Some("25%"), false);
    check(4, 2, &[], Some("25%"), true);
    check(20, 19, &[], Some("100%"), false);
    check(20, 0, &[], Some("0%"), false);
}

#[test]
fn exceeded_budgets_are_explained() {
    let exceeded = |number: usize, budget: Option<Budget>| Exceeded {
        objects: (0..number).map(|n| id(&format!("o{n}"))).collect(),
        held: 20,
        budget,
    };
    let few = exceeded(2, Some(Budget::Objects(1)));
    assert_eq!(
        few.to_string(),
        "2 of 20 objects would be deleted, and the prune budget is 1 object"
    );
    assert_eq!(few.named(), "ConfigMap/n/o0, ConfigMap/n/o1");
    let many = exceeded(12, None);
    assert_eq!(
        many.to_string(),
        "12 of 20 objects would be deleted, and the prune budget is 50%"
    );
    assert!(
        many.named().ends_with("ConfigMap/n/o9 and 2 more"),
        "{}",
        many.named()
    );
}

#[test]
fn inventories() {
    let (desired, live) = objects("n_a__ConfigMap n_b__ConfigMap n_loop__ConfigMap");
    let mut desired = desired;
    desired[2].own_loop = true;
    let mut before = Inventory::default();
    before.insert(id("old"), "v1");
    let claims = BTreeSet::from([(id("b"), other())]);
    let live: Live = [
        (id("a"), live.get(&id("a")).clone()),
        (id("b"), observed(&desired[1], |o| o.owner = Some(other()))),
    ]
    .into_iter()
    .collect();
    let me = me();
    let mut options = Options::new(&me, "main@sha1:1");
    options.claims = &claims;
    let plan = plan(&desired, &before, &live, &Memory::default(), &options);
    let ids = |inventory: &Inventory| -> Vec<String> { inventory.ids().map(ObjectId::to_string).collect() };
    // neither objects of another owner nor the bootstrap
    assert_eq!(ids(&plan.inventory(&desired, &before)), ["ConfigMap/n/a"]);
    assert_eq!(
        ids(&plan.write_ahead(&desired, &before)),
        ["ConfigMap/n/a", "ConfigMap/n/old"]
    );
    let contested: Vec<_> = plan.contested().map(|(id, o)| format!("{id} {o}")).collect();
    assert_eq!(contested, ["ConfigMap/n/b team/other"]);
}

#[test]
fn of_two_objects_with_one_id_the_first_counts() {
    let first = desired("a", "");
    let second = desired("a", "ssa: Ignore");
    let me = me();
    let plan = plan(
        &[first, second],
        &Inventory::default(),
        &Live::default(),
        &Memory::default(),
        &Options::new(&me, "r"),
    );
    assert_eq!(plan.to_string(), "patch ConfigMap/n/a (not seen yet)\n");
}

#[test]
fn released_objects_may_be_pruned_despite_their_labels() {
    let check = |labels: Option<Owner>, released: Option<Owner>, expected: &str| {
        let a = desired("a", "");
        let live = Live::from_iter([(id("a"), observed(&a, |observed| observed.owner = labels))]);
        let mut inventory = Inventory::default();
        inventory.insert(id("a"), "v1");
        let (me, released) = (me(), released.map(|owner| (id("a"), owner)));
        let released: BTreeMap<_, _> = released.into_iter().collect();
        let options = Options {
            allow_empty: Some("r"),
            released: &released,
            ..Options::new(&me, "r")
        };
        let plan = plan(&[], &inventory, &live, &Memory::default(), &options);
        assert_eq!(plan.to_string().trim_end(), expected);
    };
    let theirs = "keep ConfigMap/n/a (belongs to Kustomization team/other)";
    check(Some(other()), None, theirs);
    check(Some(other()), Some(other()), "prune ConfigMap/n/a");
    check(
        Some(other()),
        Some(Owner::new(&KUSTOMIZATION, "team", "third")),
        theirs,
    );
    check(
        None,
        Some(other()),
        "keep ConfigMap/n/a (its labels name no owner)",
    );
    check(Some(me()), Some(other()), "prune ConfigMap/n/a");
}

#[test]
fn objects_assigned_to_another_owner_are_kept() {
    let me = me();
    let check = |annotation: &str, presence: Presence, expected: &str| {
        let assigned = BTreeMap::from([(id("a"), other())]);
        let options = Options {
            assigned: &assigned,
            ..Options::new(&me, "main@sha1:1")
        };
        let desired = [desired("a", annotation), desired("b", "")];
        let live = Live::from_iter([(id("a"), presence), (id("b"), Presence::Absent)]);
        let plan = plan(
            &desired,
            &Inventory::default(),
            &live,
            &Memory::default(),
            &options,
        );
        assert_eq!(plan.to_string(), format!("{expected}\ncreate ConfigMap/n/b\n"));
        let contested: Vec<_> = plan.contested().map(|(id, owner)| (id.clone(), owner)).collect();
        let held = plan.inventory(&desired, &Inventory::default());
        let ours: Vec<&ObjectId> = held.ids().collect();
        (contested.len(), ours.len())
    };
    let held = "keep ConfigMap/n/a (owned by Kustomization team/other)";
    let ours = observed(&desired("a", ""), |o| o.owned = digest("x"));
    for presence in [Presence::Absent, Presence::Unknown, ours] {
        assert_eq!(check("", presence, held), (1, 1));
    }
    // an ignored object is not contested
    let ignored = "keep ConfigMap/n/a (ignored by its annotations)";
    assert_eq!(check("reconcile: disabled", Presence::Absent, ignored), (0, 2));
}
