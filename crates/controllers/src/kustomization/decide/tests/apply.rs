use super::*;

/// A build of these objects that begins to be applied.
fn staged(now: Instant, objects: Objects) -> Seen {
    let mut seen = seen(now);
    seen.last = Some(Last {
        built: true,
        ..last(Phase::Staged {
            until: now + Duration::from_secs(60),
        })
    });
    seen.objects = Some(objects);
    seen
}

fn holding(names: &[&str]) -> Declared {
    Declared {
        inventory: inventory(names),
        ..declared(&json!({}), &json!({ "timeout": "1m" }))
    }
}

#[test]
fn the_inventory_is_written_before_objects_are_applied() {
    let now = Instant::now();
    let what = |declared: &[&str], held: &[&str], live: &[&str], expected: &str| {
        let seen = staged(now, objects(declared, held, live));
        check(&holding(held), &seen, now, expected);
    };
    what(
        &["a", "b"],
        &["b"],
        &["b"],
        "apply create ConfigMap/shop/a, patch ConfigMap/shop/b (changed); written ahead: Some([\"a\", \"b\"])",
    );
    what(
        &["a"],
        &["a"],
        &[],
        "apply create ConfigMap/shop/a; written ahead: None",
    );
    // an object that disappears stays in the inventory until it is gone
    what(
        &["a"],
        &["a", "b"],
        &["b"],
        "apply create ConfigMap/shop/a, prune ConfigMap/shop/b; written ahead: None",
    );
    what(&[], &["a"], &["a"], "confirm EmptyRender");
}

#[test]
fn all_questions_come_before_applying() {
    let now = Instant::now();
    let ks = holding(&["old"]);
    let what = |change: &dyn Fn(&mut Seen), expected: &str| {
        let mut seen = staged(now, objects(&["a"], &["old"], &["old"]));
        change(&mut seen);
        check(&ks, &seen, now, expected);
    };
    let with =
        |change: &'static dyn Fn(&mut Objects)| move |seen: &mut Seen| change(seen.objects.as_mut().unwrap());
    let question = |name: &str| Questions {
        objects: vec![Question {
            by: owner_of(&key("other")),
            user: "someone".to_owned(),
            id: id(name),
            version: "v1".to_owned(),
        }],
        containers: Vec::new(),
        about: vec![id(name)],
    };
    what(
        &|seen| seen.no_access = Some(Failure::Unreachable(String::new())),
        "NoAccess",
    );
    what(
        &with(&|objects| objects.kinds.trouble = Some(Failure::Unreachable("down".to_owned()))),
        "fail down",
    );
    let unlisted = with(&|objects| objects.kinds.starting = Some("Widget".to_owned()));
    what(&unlisted, "KindsUnlisted");
    what(
        &|seen| {
            unlisted(seen);
            seen.last.as_mut().unwrap().phase = Phase::Staged { until: now };
        },
        "fail the API server has not listed Widget",
    );
    what(
        &|seen| {
            let others = &mut seen.objects.as_mut().unwrap().others;
            (others.own_questions, others.questions) = (question("a"), question("old"));
        },
        "survey [\"a\", \"old\"]",
    );
    what(
        &|seen| seen.objects.as_mut().unwrap().others.questions = question("old"),
        "survey [\"old\"]",
    );
    let holders = |since: u64| {
        move |seen: &mut Seen| {
            seen.since.others = now.checked_sub(Duration::from_secs(since));
            let others = &mut seen.objects.as_mut().unwrap().others;
            others.questions = question("old");
            others.holders = Some(Holders {
                named: "Kustomization/n/other".to_owned(),
                until: now + Duration::from_secs(60),
            });
        }
    };
    what(&holders(0), "await silently");
    what(
        &holders(10),
        "await: Waiting for Kustomization/n/other to be built before the objects that it held are applied",
    );
}

/// A run that applied `declared` and holds `held`.
fn passed(now: Instant, declared: &[&str], held: &[&str], live: &[&str]) -> Seen {
    let applied = objects(declared, held, live);
    let plan = Arc::new(applied.plan().plan);
    let gone: Vec<&str> = held
        .iter()
        .filter(|name| !declared.contains(name))
        .copied()
        .collect();
    let mut rest = objects(&[], &gone, live);
    rest.may_be_empty = true;
    let mut seen = staged(now, rest);
    seen.last.as_mut().unwrap().passed = Some(Passed {
        plan,
        desired: applied.desired,
    });
    seen
}

#[test]
fn undeclared_objects_are_pruned_after_applying() {
    let now = Instant::now();
    let held = ["a", "gone", "old"];
    let what = |change: &dyn Fn(&mut Seen), expected: &str| {
        let mut seen = passed(now, &["a"], &held, &["a", "old"]);
        change(&mut seen);
        check(&holding(&held), &seen, now, expected);
    };
    what(
        &|_| {},
        "finish [\"prune ConfigMap/shop/old\", \"keep ConfigMap/shop/gone (already gone)\"]; holds [\"a\"], \
         lingering [], Healthy(NotChecked)",
    );
    let taken = |seen: &mut Seen| {
        let other = owner_of(&key("other"));
        seen.objects.as_mut().unwrap().takers.insert(id("old"), other);
    };
    what(
        &taken,
        "finish [\"keep ConfigMap/shop/old (handed over to Kustomization flux-system/other)\", \"keep ConfigMap/shop/gone \
         (already gone)\"]; holds [\"a\", \"old\"], lingering [\"old\"], Healthy(NotChecked)",
    );
    what(
        &|seen| {
            let others = &mut seen.objects.as_mut().unwrap().others;
            others.awaited = Some(owner_of(&key("other")));
            others.unbuilt = "Kustomization/flux-system/other".to_owned();
            others.survey = Arc::new(Survey {
                until: Some(now + Duration::from_secs(60)),
                ..Survey::default()
            });
            seen.since.others = now.checked_sub(Duration::from_secs(10));
        },
        "await: Waiting for Kustomization/flux-system/other to be built before ConfigMap/shop/old may be deleted",
    );
    let contest = |near: bool| {
        move |seen: &mut Seen| {
            let contest = Contest {
                id: id("a"),
                other: object_ref(&key("other")),
            };
            seen.last.as_mut().unwrap().contests = vec![(contest, near)];
        }
    };
    // nothing is pruned while ownership is unclear
    what(&contest(true), "contested; holds [\"a\", \"gone\", \"old\"]");
}

#[test]
fn too_many_deletions_wait_for_confirmation_or_a_smaller_plan() {
    let now = Instant::now();
    let held: Vec<String> = (0..12).map(|n| format!("c{n:02}")).collect();
    let held: Vec<&str> = held.iter().map(String::as_str).collect();
    let what = |change: &dyn Fn(&mut Seen), expected: &str| {
        let mut objects = objects(&[], &held, &held);
        objects.may_be_empty = true;
        objects.prune_check = Some(PruneBudgetCheck {
            budget: None,
            held: 20,
        });
        let mut seen = staged(now, objects);
        seen.last.as_mut().unwrap().phase = Phase::Unconfirmed;
        change(&mut seen);
        check(&holding(&held), &seen, now, expected);
    };
    let last =
        |change: &'static dyn Fn(&mut Last)| move |seen: &mut Seen| change(seen.last.as_mut().unwrap());
    what(&|_| {}, "stall PruneBudgetExceeded");
    what(&last(&|last| last.confirmed = true), "Build(Confirmed)");
    what(&last(&|last| last.wants = None), "Build(Confirmed)");
    what(&last(&|last| last.empty = true), "Unconfirmed");
    let fewer = |seen: &mut Seen| {
        let other = owner_of(&key("other"));
        let takers = held.iter().take(4).map(|name| (id(name), other.clone()));
        seen.objects.as_mut().unwrap().takers = takers.collect();
    };
    what(&fewer, "Build(Confirmed)");
}
