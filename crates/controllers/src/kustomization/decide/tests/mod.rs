//! Decisions, as tables.

mod apply;
mod deletion;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use equate_api::kustomize::SourceKind;
use equate_apply::desired::Desired;
use equate_apply::health::{Health, Status};
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::observed::Observed;
use equate_apply::plan::{self, Presence, PruneBudgetCheck};
use equate_manifest::object::Object;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::health::{Conclusion, HealthSummary, verdict};
use super::objects::{Holders, Kinds, Objects, Others};
use super::seen::{
    Ahead, Deleted, Exchange, Last, Passed, Phase, Prepared, Prerequisites, Question, Questions, Seen,
};
use super::{Announcement, GRACE, Idle, Removal, Step, decide};
use crate::dependencies::DependencySeen;
use crate::kustomization::declared::Declared;
use crate::kustomization::inputs::artifact::SourceSeen;
use crate::kustomization::reasons::{Failure, Stall};
use crate::kustomization::tests::{FIRST, SECOND, declared, key, kustomization};
use crate::kustomization::{KUSTOMIZATION, object_ref, owner_of};
use crate::ownership::contest::Contest;
use crate::ownership::desired::DesiredSet;
use crate::ownership::survey::Survey;

/// All is well: the artifact is present, and nothing has been done yet.
fn seen(now: Instant) -> Seen {
    Seen {
        last: None,
        ahead: Ahead::Wants(DesiredSet::nothing()),
        objects: None,
        ..Seen::of_build(
            SECOND,
            Last::of_build(2, SECOND, now),
            objects(&[], &[], &[]),
            now,
        )
    }
}

fn last(phase: Phase) -> Last {
    Last {
        built: false,
        wants: Some(DesiredSet::nothing()),
        phase,
        ..Last::of_build(2, SECOND, Instant::now())
    }
}

/// All is well, except for this change before a build.
fn before(change: impl FnOnce(&mut Prerequisites)) -> Seen {
    let mut seen = seen(Instant::now());
    let mut prerequisites = Prerequisites::clone(&seen.prerequisites);
    change(&mut prerequisites);
    seen.prerequisites = Arc::new(prerequisites);
    seen
}

fn id(name: &str) -> ObjectId {
    ObjectId::new("", "ConfigMap", "shop", name)
}

fn inventory(names: &[&str]) -> Inventory {
    names.iter().map(|name| (id(name), "v1".to_owned())).collect()
}

/// Objects of these names: declared, held, and present with Equate's labels.
fn objects(declared: &[&str], held: &[&str], live: &[&str]) -> Objects {
    let owner = owner_of(&key("apps"));
    let desired = declared.iter().map(|name| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": "shop" },
        });
        Desired::new(Object::from_value(map).unwrap(), &owner, None)
    });
    let presence = |name: &&str| {
        let mut map = Object::from_value(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": "shop", "uid": "1", "resourceVersion": "1" },
        }));
        owner.label(map.as_mut().unwrap());
        let observed = Observed::of(&map.unwrap(), &KUSTOMIZATION);
        Presence::Present(Arc::new(observed))
    };
    let all = declared.iter().chain(held);
    let live = all.map(|name| match live.contains(name) {
        true => (id(name), presence(name)),
        false => (id(name), Presence::Absent),
    });
    Objects {
        desired: Arc::new(desired.collect()),
        revision: SECOND.to_owned(),
        held: inventory(held),
        live: live.collect(),
        applies: Arc::default(),
        prune: true,
        may_be_empty: false,
        prune_check: None,
        claims: BTreeSet::new(),
        assigned: BTreeMap::new(),
        unclaimed: Vec::new(),
        takers: BTreeMap::new(),
        needed: BTreeMap::new(),
        released: BTreeMap::new(),
        backing_off: BTreeMap::new(),
        others: Others::default(),
        kinds: Kinds::default(),
        owner,
    }
}

/// A step in a word or two.
fn short(step: &Step) -> String {
    let ids = |plan: &plan::Plan| {
        let steps = plan.steps().filter(|step| step.acts());
        let steps: Vec<String> = steps.map(ToString::to_string).collect();
        steps.join(", ")
    };
    match step {
        Step::Idle(Idle::Awaiting(awaiting)) => match awaiting.no_status_before {
            Some(_) => "await silently".to_owned(),
            None => format!("await: {}", awaiting.message),
        },
        Step::Idle(Idle::Stalled(stall)) => format!("stall {}", stall.reason()),
        Step::Idle(Idle::Waiting { wait, .. }) => format!("wait: {wait}"),
        Step::Idle(Idle::DeletionHeld { why, .. }) => format!("held: {why}"),
        Step::Idle(Idle::DeletionUnreached(failure)) => format!("unreached: {failure}"),
        Step::Idle(Idle::Terminating { blind, .. }) => format!("terminating, blind: {blind}"),
        Step::Idle(other) => format!("{other:?}"),
        Step::Survey(questions) => format!("survey {:?}", names(questions.about.iter())),
        Step::HandOver(exchange) => format!(
            "claim {:?}, release {:?}",
            names(exchange.claims.ids()),
            names(exchange.released.ids())
        ),
        Step::Apply(application) => {
            let ahead = application.write_ahead.as_ref();
            let ahead = ahead.map(|ahead| names(ahead.ids()));
            format!("apply {}; written ahead: {ahead:?}", ids(&application.plan))
        }
        Step::Confirm { stall, .. } => format!("confirm {}", stall.reason()),
        Step::Finish(end) => {
            let steps = end.prune.iter().map(ToString::to_string).collect::<Vec<_>>();
            format!(
                "finish {steps:?}; holds {:?}, lingering {:?}, {:?}",
                names(end.inventory.ids()),
                names(end.lingering.ids()),
                end.conclusion
            )
        }
        Step::OwnershipConflict(held) => format!("contested; holds {:?}", names(held.ids())),
        Step::Conclude(conclusion) => format!("conclude {conclusion:?}"),
        Step::Fail(failure) => format!("fail {failure}"),
        Step::Release(plan) => format!("release {}", ids(plan)),
        Step::Delete { plan, then } => format!("delete {}, then {then:?}", ids(plan)),
        Step::Removal(Removal::Abandoned(left)) => format!("forsake {:?}", names(left.iter())),
        Step::Removal(Removal::Overdue(left, _)) => format!("overdue {:?}", names(left.iter())),
        Step::Removal(Removal::Deleted(_)) => "deleted".to_owned(),
        other => format!("{other:?}"),
    }
}

fn names<'i>(ids: impl Iterator<Item = &'i ObjectId>) -> Vec<String> {
    ids.map(|id| id.name.to_string()).collect()
}

fn check(ks: &Declared, seen: &Seen, now: Instant, expected: &str) {
    let plan = decide(ks, seen, now);
    assert_eq!(short(&plan.step), expected, "{:?}", seen.last);
    // the same observations give the same decision
    assert_eq!(decide(ks, seen, now), plan);
}

#[test]
fn obstacles_are_reported_first() {
    let now = Instant::now();
    let none = || json!({});
    let what = |spec: Value, seen: Seen, expected: &str| {
        check(&declared(&none(), &spec), &seen, now, expected);
    };
    let source = |source| before(|prerequisites| prerequisites.source = source);
    let dependency = |dependency| {
        before(|prerequisites| {
            prerequisites.dependencies = vec![(key("a"), DependencySeen::Ready), (key("b"), dependency)];
        })
    };
    what(json!({ "suspend": true }), seen(now), "Suspended");
    what(
        json!({ "decryption": { "provider": "sops", "serviceAccountName": "anyone" } }),
        seen(now),
        "stall FeatureGateDisabled",
    );
    let way = vec![key("apps"), key("b"), key("apps")];
    what(
        none(),
        before(|p| p.cycle = Some(way)),
        "stall DependencyNotReady",
    );
    let denied = Stall::Account("A".to_owned());
    what(
        none(),
        before(|p| p.denied = Some(denied)),
        "stall ReconciliationFailed",
    );
    let invalid = Stall::Expression("no".to_owned());
    what(
        none(),
        before(|p| p.invalid = Some(invalid)),
        "stall InvalidCELExpression",
    );
    what(
        json!({ "sourceRef": { "kind": "Bucket", "name": "fleet", "namespace": "other" } }),
        source(SourceSeen::Unserved),
        "wait: unable to get source 'other/fleet': no matches for kind \"Bucket\" in version \
         \"source.toolkit.fluxcd.io/v1\"; install its CustomResourceDefinition",
    );
    what(
        none(),
        source(SourceSeen::Absent),
        "wait: GitRepository.source.toolkit.fluxcd.io \"fleet\" not found",
    );
    what(
        none(),
        source(SourceSeen::NoArtifact { served: true }),
        "wait: Source artifact not found, waiting for GitRepository/flux-system/fleet",
    );
    what(
        none(),
        source(SourceSeen::NoArtifact { served: false }),
        "wait: Source artifact not found, waiting for GitRepository/flux-system/fleet, which this process does not \
         reconcile; check that its controller runs",
    );
    what(
        none(),
        source(SourceSeen::NotStored),
        "wait: Source is not ready, artifact not found, waiting for GitRepository/flux-system/fleet: the store has no \
         artifact with the digest in its status that it published",
    );
    for (seen, expected) in [
        (
            DependencySeen::Absent,
            "wait: dependency 'flux-system/b' not found: kustomizations.kustomize.toolkit.fluxcd.io \"b\" not found",
        ),
        (
            DependencySeen::NotReady,
            "wait: dependency 'flux-system/b' is not ready",
        ),
        (
            DependencySeen::Behind,
            "wait: dependency 'flux-system/b' revision is not up to date",
        ),
        (DependencySeen::Ready, "Build(First)"),
    ] {
        what(none(), dependency(seen), expected);
    }
}

#[test]
fn short_waits_do_not_change_a_ready_status() {
    let now = Instant::now();
    let ks = declared(&json!({}), &json!({ "timeout": "5m" }));
    let missing = |source: SourceSeen, looked: bool, ready: bool, since: u64| {
        let mut seen = before(|prerequisites| {
            prerequisites.source = source;
            prerequisites.looked = looked;
        });
        seen.ready = ready;
        seen.since.missing = now.checked_sub(Duration::from_secs(since));
        seen.began = now;
        seen.dependency_retry = Duration::from_secs(30);
        let plan = decide(&ks, &seen, now);
        match plan.step {
            Step::Idle(Idle::WaitingWithoutStatus { again }) => format!("silent for {again:?}"),
            other => short(&other).split(':').next().unwrap_or_default().to_owned(),
        }
    };
    let stored = || SourceSeen::NotStored;
    assert_eq!(missing(stored(), true, true, 0), "silent for 2s");
    assert_eq!(missing(stored(), true, true, 2), "wait");
    assert_eq!(missing(stored(), true, false, 0), "wait");
    // the status of another process: the artifact is about to be fetched for the first time
    assert_eq!(missing(stored(), false, true, 2), "silent for 2s");
    assert_eq!(missing(stored(), false, true, 300), "wait");
    assert_eq!(missing(SourceSeen::Absent, true, true, 0), "wait");
}

#[test]
fn nothing_is_built_twice() {
    let now = Instant::now();
    let (past, future) = (now, now + Duration::from_secs(1));
    let ks = declared(&json!({}), &json!({}));
    let what = |last: Last, expected: &str| {
        let mut seen = seen(now);
        seen.last = Some(last);
        check(&ks, &seen, now, expected);
    };
    let releasing = |last: Last, expected: &str| {
        let mut seen = seen(now);
        seen.last = Some(last);
        let mut lingering = objects(&[], &["old"], &["old"]);
        lingering.may_be_empty = true;
        seen.objects = Some(lingering);
        check(&ks, &seen, now, expected);
    };
    let ready = || last(Phase::Ready { until: None });
    let older = |last: Last| Last {
        revision: FIRST.to_owned(),
        ..last
    };
    let with = |health: HealthSummary, last: Last| Last { health, ..last };
    let pending = || HealthSummary::Pending("x".to_owned());
    let failed = || HealthSummary::Failed("x".to_owned());
    let others = |last: Last| Last {
        inputs_hold: false,
        ..last
    };
    let drifted = |last: Last| Last {
        drifted: true,
        ..last
    };

    what(ready(), "Settled");
    what(older(ready()), "NewRevision");
    what(
        Last {
            generation: 1,
            ..ready()
        },
        "Build(Spec)",
    );
    what(others(ready()), "Build(Inputs)");
    what(drifted(ready()), "Build(Drift)");
    let release = "release prune ConfigMap/shop/old";
    releasing(ready(), release);
    releasing(older(ready()), release);

    // a stage: a new revision with other inputs begins again
    let staged = || last(Phase::Staged { until: future });
    what(staged(), "conclude Healthy(NotChecked)");
    what(others(staged()), "Build(Inputs)");

    // health checks: no status until something changes, or the time is over
    let checking = |until| last(Phase::Checking { until });
    what(with(pending(), checking(future)), "Settled");
    what(with(pending(), checking(past)), "conclude Unhealthy(\"x\")");
    what(with(failed(), checking(future)), "conclude Unhealthy(\"x\")");
    what(checking(future), "conclude Healthy(NotChecked)");
    let asked = |last: Last| Last {
        checked: true,
        ..last
    };
    what(asked(checking(future)), "conclude Healthy(Now)");
    what(older(with(pending(), checking(future))), "NewRevision");
    what(others(with(pending(), checking(future))), "Build(Inputs)");
    // a status that says in progress is enough for a while
    let in_progress = |since| Last {
        in_progress: true,
        checking_since: since,
        ..with(pending(), checking(future))
    };
    what(in_progress(now), "Settled");
    what(in_progress(now - GRACE), "conclude Checking");
    let staged_in_progress = Last {
        in_progress: true,
        ..with(pending(), staged())
    };
    what(staged_in_progress, "conclude CheckingWithoutStatus");
    what(with(pending(), staged()), "conclude Checking");
    what(drifted(with(pending(), checking(future))), "Build(Drift)");

    // an object that stopped being healthy has its time to recover
    let degrades = |last: Last| {
        let mut seen = seen(now);
        seen.last = Some(last);
        match decide(&ks, &seen, now).step {
            Step::Conclude(Conclusion::Degraded { begins, .. }) => format!("degraded, begins: {begins}"),
            other => short(&other),
        }
    };
    assert_eq!(degrades(with(pending(), ready())), "degraded, begins: true");
    let degraded = |until| last(Phase::Ready { until: Some(until) });
    what(with(pending(), degraded(future)), "Settled");
    what(with(pending(), degraded(past)), "conclude Unhealthy(\"x\")");
    what(with(failed(), ready()), "conclude Unhealthy(\"x\")");
    what(asked(degraded(future)), "conclude Healthy(Still)");

    // an unhealthy build becomes ready when healthy, and is applied again in time
    let unhealthy = |retry| last(Phase::Unhealthy { retry });
    what(with(failed(), unhealthy(future)), "Settled");
    what(with(failed(), unhealthy(past)), "Build(Retry)");
    what(asked(unhealthy(future)), "conclude Healthy(Now)");
    what(older(with(failed(), unhealthy(future))), "NewRevision");

    // a failed build waits for its time or for other inputs
    let broken = |retry| last(Phase::Failed { retry });
    what(broken(None), "Settled");
    what(broken(Some(future)), "Settled");
    what(broken(Some(past)), "Build(Retry)");
    let built = Last {
        built: true,
        ..broken(Some(past))
    };
    what(built, "Restart");
    let freed = |last: Last| Last { freed: true, ..last };
    let hope = |last: Last| Last { hope: true, ..last };
    what(freed(broken(Some(future))), "Build(Retry)");
    // a new revision may have repaired it elsewhere; a failed build needs the new revision itself
    what(older(broken(Some(future))), "Build(Retry)");
    what(older(broken(None)), "NewRevision");
    // so may a dependency, which a failed build does not check
    what(hope(broken(Some(future))), "Build(Retry)");
    what(hope(broken(None)), "Settled");
    what(hope(ready()), "Settled");
    // meanwhile the rest continues
    releasing(broken(Some(future)), release);
    releasing(broken(None), "Settled");
    what(drifted(broken(Some(future))), "Build(Drift)");
    what(drifted(broken(None)), "Settled");
}

#[test]
fn dependencies_block_only_new_work() {
    let now = Instant::now();
    let wait = "wait: dependency 'flux-system/infra' is not ready";
    let what = |last: Option<Last>, expected: &str| {
        let mut seen = before(|prerequisites| {
            prerequisites.dependencies = vec![(key("infra"), DependencySeen::NotReady)];
        });
        seen.last = last;
        check(&declared(&json!({}), &json!({})), &seen, now, expected);
    };
    let ready = || last(Phase::Ready { until: None });
    what(None, wait);
    what(Some(ready()), "Settled");
    what(
        Some(Last {
            inputs_hold: false,
            ..ready()
        }),
        wait,
    );
    what(
        Some(Last {
            generation: 1,
            ..ready()
        }),
        wait,
    );
    let older = |last: Last| Last {
        revision: FIRST.to_owned(),
        ..last
    };
    what(Some(older(ready())), wait);
    what(
        Some(Last {
            drifted: true,
            ..ready()
        }),
        "Build(Drift)",
    );
    what(
        Some(last(Phase::Staged { until: now })),
        "conclude Healthy(NotChecked)",
    );
    what(Some(last(Phase::Failed { retry: Some(now) })), wait);
    // a confirmed build was begun before
    what(Some(last(Phase::Unconfirmed)), "Build(Confirmed)");
    let broken = || {
        last(Phase::Failed {
            retry: Some(now + Duration::from_secs(1)),
        })
    };
    // a dependency that stopped being ready gives no hope, and the failure stays reported
    what(
        Some(Last {
            hope: true,
            ..broken()
        }),
        "Settled",
    );
    what(Some(older(broken())), wait);
}

#[test]
fn a_request_is_taken_up_once() {
    let now = Instant::now();
    let what = |request: Option<&str>, token: Option<&str>, expected: &str| {
        let mut seen = seen(now);
        seen.request = request.map(str::to_owned);
        seen.last = Some(Last {
            token: token.map(str::to_owned),
            ..last(Phase::Ready { until: None })
        });
        check(&declared(&json!({}), &json!({})), &seen, now, expected);
    };
    what(Some("2"), None, "Build(Requested)");
    what(Some("2"), Some("1"), "Build(Requested)");
    what(Some("2"), Some("2"), "Settled");
    what(None, Some("2"), "Settled");
}

#[test]
fn reconciliations_with_more_work_go_first() {
    let now = Instant::now();
    let what = |deferrable: bool, no_access: bool, revision: &str, expected: &str| {
        let mut seen = seen(now);
        seen.deferrable = deferrable;
        seen.no_access = no_access.then(|| Failure::Unreachable("no".to_owned()));
        seen.last = Some(Last {
            revision: revision.to_owned(),
            ..last(Phase::Ready { until: None })
        });
        check(&declared(&json!({}), &json!({})), &seen, now, expected);
    };
    what(true, false, FIRST, "Deferred");
    what(false, false, FIRST, "NewRevision");
    what(true, false, SECOND, "Settled");
    what(true, true, FIRST, "NoAccess");
}

#[test]
fn the_desired_state_is_announced_in_all_cases() {
    let now = Instant::now();
    let announced = |spec: Value, seen: &Seen| {
        let plan = decide(&declared(&json!({}), &spec), seen, now);
        match plan.announce {
            Announcement::Wants { wants, applied, .. } => format!("{wants:?}, applied: {applied}")
                .replace("BuiltObjects { ids: [], ignored: {}, appliers: [] }", "[]"),
            other => format!("{other:?}, {}", short(&plan.step)),
        }
    };
    let suspended = || json!({ "suspend": true });
    let ahead = |ahead: Ahead| Seen { ahead, ..seen(now) };
    // a suspended one is built too, because objects may have moved to it
    assert_eq!(
        announced(suspended(), &ahead(Ahead::Missing)),
        "None, BuildAhead { keep: false }"
    );
    assert_eq!(announced(suspended(), &seen(now)), "Known([]), applied: false");
    let unreached = ahead(Ahead::Unreached);
    assert_eq!(
        announced(suspended(), &unreached),
        format!("Unreached({SECOND:?}), Suspended")
    );
    let mut waits = before(|prerequisites| {
        prerequisites.dependencies = vec![(key("infra"), DependencySeen::NotReady)];
    });
    waits.ahead = Ahead::Missing;
    assert_eq!(announced(json!({}), &waits), "None, BuildAhead { keep: true }");
    // a build makes its own announcement
    assert_eq!(announced(json!({}), &seen(now)), "None, Build(First)");
    let with_last = |last: Last| Seen {
        last: Some(last),
        ..seen(now)
    };
    let ready = Last {
        applied: true,
        ..last(Phase::Ready { until: None })
    };
    assert_eq!(
        announced(json!({}), &with_last(ready)),
        "Known([]), applied: true"
    );
    let source = |source| before(|prerequisites| prerequisites.source = source);
    assert_eq!(
        announced(json!({}), &source(SourceSeen::NotStored)),
        "Unknown(\"has a source whose artifact is not stored\"), applied: false"
    );
    assert!(announced(json!({}), &source(SourceSeen::Absent)).starts_with("NotExpected, wait"));
    let denied = Stall::CrossNamespace(SourceKind::GitRepository, key("fleet"));
    assert_eq!(
        announced(json!({}), &before(|p| p.denied = Some(denied))),
        "Known([]), applied: true"
    );
}

#[test]
fn objects_change_shards_before_anything_else() {
    let now = Instant::now();
    let what = |questions: Questions, last: Option<Last>, expected: &str| {
        let mut seen = seen(now);
        seen.exchange = Exchange {
            claims: inventory(&["theirs"]),
            released: inventory(&["ours"]),
            questions,
        };
        seen.last = last;
        check(&declared(&json!({}), &json!({})), &seen, now, expected);
    };
    let crosses = "claim [\"theirs\"], release [\"ours\"]";
    let ready = || Some(last(Phase::Ready { until: None }));
    what(Questions::default(), ready(), crosses);
    what(Questions::default(), None, "Build(First)");
    let questions = Questions {
        containers: vec![vec![Question {
            by: owner_of(&key("other")),
            user: "someone".to_owned(),
            id: id("theirs"),
            version: String::new(),
        }]],
        about: vec![id("theirs")],
        objects: Vec::new(),
    };
    what(questions, ready(), "survey [\"theirs\"]");
}

#[test]
fn all_health_checks_make_one_summary() {
    let check = |objects: &[(&str, Status, &str)], expected: HealthSummary| {
        let ids: Vec<ObjectId> = objects
            .iter()
            .map(|(name, ..)| ObjectId::new("apps", "Deployment", "shop", name))
            .collect();
        let checked = ids.iter().zip(objects).map(|(id, (_, status, message))| {
            let health = Health {
                status: *status,
                message: (*message).to_owned(),
            };
            (id, health)
        });
        assert_eq!(verdict(checked), expected);
    };
    let (current, progress, failed) = (Status::Current, Status::InProgress, Status::Failed);
    check(&[], HealthSummary::Healthy);
    check(
        &[("a", current, "ok"), ("b", current, "")],
        HealthSummary::Healthy,
    );
    check(
        &[
            ("a", current, "ok"),
            ("b", progress, "Available: 0/1"),
            ("c", Status::NotFound, ""),
        ],
        HealthSummary::Pending(
            "timeout waiting for: [Deployment/shop/b status: 'InProgress': Available: 0/1, \
             Deployment/shop/c status: 'NotFound']"
                .to_owned(),
        ),
    );
    check(
        &[("a", progress, ""), ("b", failed, "Progress deadline exceeded")],
        HealthSummary::Failed(
            "failed early due to stalled resources: [Deployment/shop/b status: 'Failed': Progress deadline exceeded]"
                .to_owned(),
        ),
    );
}
