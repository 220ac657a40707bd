use super::*;

#[test]
fn deletion_follows_the_policy() {
    let now = Instant::now();
    let what = |spec: Value, change: &dyn Fn(&mut Seen), expected: &str| {
        let metadata = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
        let ks = Declared {
            inventory: inventory(&["a"]),
            ..declared(&metadata, &spec)
        };
        let mut seen = seen(now);
        let mut objects = objects(&[], &["a"], &["a"]);
        objects.may_be_empty = true;
        seen.objects = Some(objects);
        change(&mut seen);
        check(&ks, &seen, now, expected);
    };
    let (delete, stays) = ("delete prune ConfigMap/shop/a, then Removal", "Removal(Orphaned)");
    what(json!({}), &|_| {}, delete);
    what(json!({ "prune": false }), &|_| {}, stays);
    what(json!({ "suspend": true }), &|_| {}, stays);
    for (policy, expected) in [
        ("MirrorPrune", stays),
        ("Orphan", stays),
        ("Delete", delete),
        (
            "WaitForTermination",
            "PrepareDeletion { account: false, waits: true }",
        ),
    ] {
        what(
            json!({ "prune": false, "deletionPolicy": policy }),
            &|_| {},
            expected,
        );
    }
    // the objects are in this cluster, whatever it cannot build
    what(
        json!({ "decryption": { "provider": "sops", "serviceAccountName": "anyone" } }),
        &|_| {},
        delete,
    );
    let prepared = |account, starting| {
        move |seen: &mut Seen| {
            seen.deletion.acts_as = true;
            seen.deletion.prepared = Some(Prepared { account, starting });
        }
    };
    what(
        json!({}),
        &|seen| seen.deletion.acts_as = true,
        "PrepareDeletion { account: true, waits: false }",
    );
    what(json!({}), &prepared(true, false), delete);
    what(json!({}), &prepared(false, false), "forsake [\"a\"]");
    let waits = || json!({ "deletionPolicy": "WaitForTermination" });
    what(waits(), &prepared(true, true), "DeletionUnlisted");
    what(
        waits(),
        &prepared(true, false),
        "delete prune ConfigMap/shop/a, then Check",
    );
    what(
        json!({}),
        &|seen| seen.no_access = Some(Failure::Unreachable("no way".to_owned())),
        "unreached: no way",
    );
    what(
        json!({}),
        &|seen| {
            let mut survey = Survey::default();
            survey.mark_unknown(object_ref(&key("other")), "cannot be built at this revision");
            let others = &mut seen.objects.as_mut().unwrap().others;
            others.awaited = Some(owner_of(&key("other")));
            others.survey = Arc::new(survey);
        },
        "held: not deleted yet: ConfigMap/shop/a; may have moved to Kustomization/flux-system/other, which cannot be \
         built at this revision. Pruning continues when that Kustomization is repaired, suspended or deleted",
    );
    what(
        json!({}),
        &|seen| {
            let needed = (owner_of(&key("other")), id("b"));
            seen.objects.as_mut().unwrap().needed.insert(id("a"), needed);
        },
        "delete , then Hold(Inventory { entries: {ObjectId { group: \"\", kind: \"ConfigMap\", namespace: \
         \"shop\", name: \"a\" }: \"v1\"} })",
    );
    let deleted = |remaining: &'static [&'static str], until: Option<Instant>| {
        move |seen: &mut Seen| {
            seen.since.terminating_until = until;
            seen.deletion.deleted = Some(Deleted {
                plan: Arc::default(),
                remaining: remaining.iter().map(|name| id(name)).collect(),
                blind: false,
            });
        }
    };
    what(waits(), &deleted(&[], None), "deleted");
    what(waits(), &deleted(&["a"], None), "terminating, blind: false");
    what(waits(), &deleted(&["a"], Some(now)), "overdue [\"a\"]");
}

#[test]
fn an_unreadable_inventory_blocks_only_steps_that_need_it() {
    let now = Instant::now();
    let check = |metadata: Value, spec: Value, stalls: bool| {
        let status = json!({ "inventory": { "entries": [{ "id": "nonsense", "v": "v1" }] } });
        let declared = Declared::from(&kustomization(&metadata, &spec, &status));
        let step = decide(&declared, &seen(now), now).step;
        let stalled = matches!(step, Step::Idle(Idle::Stalled(Stall::Inventory(_))));
        assert_eq!(stalled, stalls, "{metadata} {spec}: {step:?}");
    };
    let deleted = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
    check(json!({}), json!({}), true);
    check(json!({}), json!({ "suspend": true }), false);
    check(deleted.clone(), json!({}), true);
    check(
        deleted.clone(),
        json!({ "deletionPolicy": "WaitForTermination" }),
        true,
    );
    check(deleted.clone(), json!({ "deletionPolicy": "Orphan" }), false);
    check(deleted.clone(), json!({ "prune": false }), false);
    check(deleted, json!({ "suspend": true }), false);
}
