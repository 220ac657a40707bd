//! Decisions and statuses, as tables.

use std::time::Duration;

use equate_api::kustomize::{Kustomization, KustomizationStatus, SourceKind};
use equate_api::meta::Reason;
use equate_apply::health::{Health, Status};
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::plan::{Budget, Exceeded};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::decide::{Cause, Decision, Finalize, Last, Phase, Seen, Verdict, admit, verdict};
use super::declared::Declared;
use super::inputs::artifact::{Revision, SourceSeen};
use super::object_ref;
use super::reasons::{Failure, Stall, Wait};
use super::report::{Aspects, Attempt, Healthy, Report};
use crate::Key;
use crate::dependencies::DependencySeen;
use crate::ownership::contest::Contest;

const FIRST: &str = "main@sha1:1111111111111111111111111111111111111111";
const SECOND: &str = "main@sha1:2222222222222222222222222222222222222222";

/// A Kustomization with this spec beside what it must have.
fn kustomization(metadata: &Value, spec: &Value, status: &Value) -> Kustomization {
    let mut object = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {
            "name": "apps", "namespace": "flux-system", "generation": 2,
            "finalizers": ["finalizers.fluxcd.io"],
        },
        "spec": {
            "interval": "10m", "prune": true,
            "sourceRef": { "kind": "GitRepository", "name": "fleet" },
        },
        "status": status,
    });
    for (part, fields) in [("metadata", metadata), ("spec", spec)] {
        for (name, value) in fields.as_object().unwrap() {
            object[part][name] = value.clone();
        }
    }
    serde_json::from_value(object).unwrap()
}

fn declared(metadata: &Value, spec: &Value) -> Declared {
    let status = json!({ "inventory": { "entries": [{ "id": "shop_web_apps_Deployment", "v": "v1" }] } });
    Declared::from(&kustomization(metadata, spec, &status))
}

fn key(name: &str) -> Key {
    Key::new("flux-system", name)
}

/// What is seen when all is well: the artifact is there, and nothing has been done yet.
fn seen(now: Instant) -> Seen {
    Seen {
        now,
        source: SourceSeen::Stored {
            revision: SECOND.to_owned(),
        },
        dependencies: Vec::new(),
        cycle: None,
        denied: None,
        invalid: None,
        handled_at: None,
        last: None,
    }
}

fn last(phase: Phase) -> Last {
    Last {
        generation: 2,
        revision: SECOND.to_owned(),
        token: None,
        inputs_hold: true,
        drifted: false,
        freed: false,
        hope: false,
        releases: false,
        health: Verdict::Healthy,
        phase,
    }
}

#[test]
fn what_stands_in_the_way_is_said_first() {
    let now = Instant::now();
    let check = |metadata: Value, spec: Value, seen: Seen, expected: Decision| {
        assert_eq!(admit(&declared(&metadata, &spec), &seen), expected);
    };
    let source = |source| Seen { source, ..seen(now) };
    let dependency = |dependency| Seen {
        dependencies: vec![(key("a"), DependencySeen::Ready), (key("b"), dependency)],
        ..seen(now)
    };
    let none = || json!({});
    let (git, fleet) = (SourceKind::GitRepository, key("fleet"));
    check(
        json!({ "finalizers": [] }),
        none(),
        seen(now),
        Decision::AddFinalizer,
    );
    check(none(), json!({ "suspend": true }), seen(now), Decision::Suspended);
    check(
        none(),
        json!({ "decryption": { "provider": "sops", "serviceAccountName": "anyone" } }),
        seen(now),
        Decision::Stall(Stall::Gated {
            field: "spec.decryption.serviceAccountName",
            purpose: "decryption authentication",
            gate: "ObjectLevelWorkloadIdentity",
        }),
    );
    let way = vec![key("apps"), key("b"), key("apps")];
    let round = Seen {
        cycle: Some(way.clone()),
        ..seen(now)
    };
    check(none(), none(), round, Decision::Stall(Stall::Cycle(way)));
    check(
        none(),
        json!({ "sourceRef": { "kind": "Bucket", "name": "fleet", "namespace": "other" } }),
        source(SourceSeen::Unserved),
        Decision::Wait(Wait::SourceUnserved(
            SourceKind::Bucket,
            Key::new("other", "fleet"),
        )),
    );
    for (seen, wait) in [
        (SourceSeen::Absent, Wait::SourceAbsent(git, fleet.clone())),
        (SourceSeen::NoArtifact, Wait::NoArtifact(git, fleet.clone())),
        (SourceSeen::NotStored, Wait::NotStored(git, fleet)),
    ] {
        check(none(), none(), source(seen), Decision::Wait(wait));
    }
    for (seen, wait) in [
        (DependencySeen::Absent, Wait::DependencyAbsent(key("b"))),
        (DependencySeen::NotReady, Wait::DependencyNotReady(key("b"))),
        (DependencySeen::Behind, Wait::DependencyBehind(key("b"))),
    ] {
        check(none(), none(), dependency(seen), Decision::Wait(wait));
    }
    check(
        none(),
        none(),
        dependency(DependencySeen::Ready),
        Decision::Build(Cause::First),
    );
}

#[test]
fn deletion_follows_the_policy() {
    let check = |finalizers: &[&str], spec: Value, expected: Decision| {
        let metadata = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers });
        assert_eq!(
            admit(&declared(&metadata, &spec), &seen(Instant::now())),
            expected
        );
    };
    let ours = &["finalizers.fluxcd.io"][..];
    let finalize = Decision::Finalize;
    check(&["other.example.org"], json!({}), Decision::Gone);
    check(ours, json!({}), finalize(Finalize::Delete));
    check(ours, json!({ "prune": false }), finalize(Finalize::Release));
    check(ours, json!({ "suspend": true }), finalize(Finalize::Release));
    for (policy, expected) in [
        ("MirrorPrune", Finalize::Release),
        ("Orphan", Finalize::Release),
        ("Delete", Finalize::Delete),
        ("WaitForTermination", Finalize::DeleteAndWait),
    ] {
        let spec = json!({ "prune": false, "deletionPolicy": policy });
        check(ours, spec, finalize(expected));
    }
    // what it holds is here, whatever it cannot build
    check(
        ours,
        json!({ "decryption": { "provider": "sops", "serviceAccountName": "anyone" } }),
        finalize(Finalize::Delete),
    );
}

#[test]
fn an_inventory_that_cannot_be_read_holds_up_only_who_needs_it() {
    let check = |metadata: Value, spec: Value, stalls: bool| {
        let status = json!({ "inventory": { "entries": [{ "id": "nonsense", "v": "v1" }] } });
        let declared = Declared::from(&kustomization(&metadata, &spec, &status));
        let decision = admit(&declared, &seen(Instant::now()));
        let stalled = matches!(decision, Decision::Stall(Stall::Inventory(_)));
        assert_eq!(stalled, stalls, "{metadata} {spec}: {decision:?}");
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

#[test]
fn nothing_is_built_twice() {
    let now = Instant::now();
    let (past, future) = (now, now + Duration::from_secs(1));
    let check = |last: Last, expected: Decision| {
        let shown = format!("{last:?}");
        let seen = Seen {
            last: Some(last),
            ..seen(now)
        };
        assert_eq!(
            admit(&declared(&json!({}), &json!({})), &seen),
            expected,
            "{shown}"
        );
    };
    let ready = || last(Phase::Ready { until: None });
    let older = |last: Last| Last {
        revision: FIRST.to_owned(),
        ..last
    };
    let with = |health: Verdict, last: Last| Last { health, ..last };
    let pending = || Verdict::Pending("x".to_owned());
    let failed = || Verdict::Failed("x".to_owned());

    check(ready(), Decision::Settled);
    check(older(ready()), Decision::NewRevision);
    check(
        Last {
            generation: 1,
            ..ready()
        },
        Decision::Build(Cause::Spec),
    );
    check(
        Last {
            inputs_hold: false,
            ..ready()
        },
        Decision::Build(Cause::Inputs),
    );
    check(
        Last {
            drifted: true,
            ..ready()
        },
        Decision::Build(Cause::Drift),
    );

    let releases = |last: Last| Last {
        releases: true,
        ..last
    };
    check(releases(ready()), Decision::ReleaseObjects);
    check(releases(older(ready())), Decision::ReleaseObjects);
    check(releases(last(Phase::Staged { until: future })), Decision::Resume);

    // a stage: each wake looks again, at a new revision with other inputs it begins again
    let staged = || last(Phase::Staged { until: future });
    check(staged(), Decision::Resume);
    check(
        Last {
            inputs_hold: false,
            ..staged()
        },
        Decision::Build(Cause::Inputs),
    );

    // health is awaited: silence until something changes, or the time is over
    let checking = |until| last(Phase::Checking { until });
    check(with(pending(), checking(future)), Decision::Settled);
    check(with(pending(), checking(past)), Decision::Health);
    check(with(failed(), checking(future)), Decision::Health);
    check(checking(future), Decision::Health);
    check(older(with(pending(), checking(future))), Decision::NewRevision);
    check(
        Last {
            inputs_hold: false,
            ..with(pending(), checking(future))
        },
        Decision::Build(Cause::Inputs),
    );
    check(
        Last {
            drifted: true,
            ..with(pending(), checking(future))
        },
        Decision::Build(Cause::Drift),
    );

    // what was healthy and is not has its time to become so again
    check(with(pending(), ready()), Decision::Health);
    let degraded = |until| last(Phase::Ready { until: Some(until) });
    check(with(pending(), degraded(future)), Decision::Settled);
    check(with(pending(), degraded(past)), Decision::Health);
    check(with(failed(), ready()), Decision::Health);
    check(degraded(future), Decision::Health);

    // what is not healthy becomes ready when it is, and is applied again in time
    let unhealthy = |retry| last(Phase::Unhealthy { retry });
    check(with(failed(), unhealthy(future)), Decision::Settled);
    check(with(failed(), unhealthy(past)), Decision::Build(Cause::Retry));
    check(unhealthy(future), Decision::Health);
    check(older(with(failed(), unhealthy(future))), Decision::NewRevision);

    // what has to be confirmed looks each time whether it is
    check(last(Phase::Unconfirmed), Decision::Unconfirmed);
    check(older(releases(last(Phase::Unconfirmed))), Decision::Unconfirmed);

    // what failed waits for its time or for other inputs
    let broken = |retry| last(Phase::Failed { retry });
    check(broken(None), Decision::Settled);
    check(broken(Some(future)), Decision::Settled);
    check(broken(Some(past)), Decision::Build(Cause::Retry));
    let freed = |last: Last| Last { freed: true, ..last };
    let hope = |last: Last| Last { hope: true, ..last };
    let drifted = |last: Last| Last {
        drifted: true,
        ..last
    };
    check(freed(broken(Some(future))), Decision::Build(Cause::Retry));
    // a new revision may have repaired it elsewhere; what cannot be built only moves on with it
    check(older(broken(Some(future))), Decision::Build(Cause::Retry));
    check(older(broken(None)), Decision::NewRevision);
    // so may a dependency, which what cannot be built does not ask
    check(hope(broken(Some(future))), Decision::Build(Cause::Retry));
    check(hope(broken(None)), Decision::Settled);
    check(hope(ready()), Decision::Settled);
    // meanwhile the rest goes on
    check(releases(broken(Some(future))), Decision::ReleaseObjects);
    check(releases(broken(None)), Decision::Settled);
    check(drifted(broken(Some(future))), Decision::Build(Cause::Drift));
    check(drifted(broken(None)), Decision::Settled);
}

#[test]
fn dependencies_hold_up_what_is_new_only() {
    let now = Instant::now();
    let check = |last: Option<Last>, expected: Option<Decision>| {
        let seen = Seen {
            dependencies: vec![(key("infra"), DependencySeen::NotReady)],
            last,
            ..seen(now)
        };
        let expected = expected.unwrap_or(Decision::Wait(Wait::DependencyNotReady(key("infra"))));
        assert_eq!(admit(&declared(&json!({}), &json!({})), &seen), expected);
    };
    let ready = || last(Phase::Ready { until: None });
    check(None, None);
    check(Some(ready()), Some(Decision::Settled));
    check(
        Some(Last {
            inputs_hold: false,
            ..ready()
        }),
        None,
    );
    check(
        Some(Last {
            generation: 1,
            ..ready()
        }),
        None,
    );
    check(
        Some(Last {
            revision: FIRST.to_owned(),
            ..ready()
        }),
        None,
    );
    check(
        Some(Last {
            drifted: true,
            ..ready()
        }),
        Some(Decision::Build(Cause::Drift)),
    );
    check(Some(last(Phase::Staged { until: now })), Some(Decision::Resume));
    check(Some(last(Phase::Failed { retry: Some(now) })), None);
    let broken = || {
        last(Phase::Failed {
            retry: Some(now + Duration::from_secs(1)),
        })
    };
    // one that stopped being ready is no hope, and what failed still says why
    let hope = Last {
        hope: true,
        ..broken()
    };
    check(Some(hope), Some(Decision::Settled));
    check(
        Some(Last {
            revision: FIRST.to_owned(),
            ..broken()
        }),
        None,
    );
}

#[test]
fn a_request_is_taken_up_once() {
    let check = |asked: &str, handled: Option<&str>, token: Option<&str>, expected: Decision| {
        let metadata = json!({ "annotations": { "reconcile.fluxcd.io/requestedAt": asked } });
        let seen = Seen {
            handled_at: handled.map(str::to_owned),
            last: Some(Last {
                token: token.map(str::to_owned),
                ..last(Phase::Ready { until: None })
            }),
            ..seen(Instant::now())
        };
        assert_eq!(admit(&declared(&metadata, &json!({})), &seen), expected);
    };
    check("2", None, None, Decision::Build(Cause::Requested));
    check("2", Some("1"), Some("1"), Decision::Build(Cause::Requested));
    check("2", Some("1"), Some("2"), Decision::Settled);
    check("2", Some("2"), None, Decision::Settled);
}

#[test]
fn health_is_judged_as_a_whole() {
    let check = |objects: &[(&str, Status, &str)], expected: Verdict| {
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
    check(&[], Verdict::Healthy);
    check(&[("a", current, "ok"), ("b", current, "")], Verdict::Healthy);
    check(
        &[
            ("a", current, "ok"),
            ("b", progress, "Available: 0/1"),
            ("c", Status::NotFound, ""),
        ],
        Verdict::Pending(
            "timeout waiting for: [Deployment/shop/b status: 'InProgress': Available: 0/1, \
             Deployment/shop/c status: 'NotFound']"
                .to_owned(),
        ),
    );
    check(
        &[("a", progress, ""), ("b", failed, "Progress deadline exceeded")],
        Verdict::Failed(
            "failed early due to stalled resources: [Deployment/shop/b status: 'Failed': Progress deadline exceeded]"
                .to_owned(),
        ),
    );
}

fn shown(status: &KustomizationStatus) -> String {
    let mut lines: Vec<String> = status
        .conditions
        .iter()
        .map(|c| format!("{}={} {} {}", c.type_, c.status, c.reason, c.message))
        .collect();
    let inventory = status.inventory.iter().flat_map(|inventory| &inventory.entries);
    lines.push(format!(
        "applied={:?} attempted={:?} generation={:?} handled={:?} holds={:?}",
        status.last_applied_revision.as_deref().map(short),
        status.last_attempted_revision.as_deref().map(short),
        status.observed_generation,
        status.last_handled_reconcile_at,
        inventory.map(|entry| entry.id.as_str()).collect::<Vec<_>>(),
    ));
    for record in &status.history {
        let revision = record.metadata.get("revision").map(|revision| short(revision));
        lines.push(format!(
            "{} {} {} x{} {:?}",
            record.digest,
            record.last_reconciled_status,
            record.last_reconciled_duration,
            record.total_reconciliations,
            revision
        ));
    }
    lines.join("\n")
}

fn short(revision: &str) -> String {
    revision.chars().take(12).collect()
}

fn revision(text: &str) -> Revision {
    Revision {
        revision: text.to_owned(),
        origin: None,
    }
}

#[test]
fn a_life_in_statuses() {
    let ks = declared(
        &json!({ "annotations": { "reconcile.fluxcd.io/requestedAt": "now" } }),
        &json!({ "timeout": "1m" }),
    );
    let now: jiff::Timestamp = "2026-11-21T18:00:00Z".parse().unwrap();
    let attempt = |digest: &str| Attempt {
        digest: digest.to_owned(),
        took: Duration::from_millis(1500),
    };
    let mut status = KustomizationStatus::default();
    let mut check = |what: &dyn Fn(Report<'_>) -> Report<'_>, aspects: &Aspects, expected: &str| {
        let next = what(Report::new(&ks, &status, now)).finish(aspects);
        assert_eq!(shown(&next), expected);
        // the same again is the same
        if !expected.contains("sha256:") {
            assert_eq!(what(Report::new(&ks, &next, now)).finish(aspects), next);
        }
        status = next;
    };
    let calm = Aspects::default();
    let (none, one) = (Inventory::default(), ks.inventory.clone());

    check(
        &|report| report.waiting(&Wait::DependencyNotReady(key("infra"))),
        &calm,
        "Ready=False DependencyNotReady dependency 'flux-system/infra' is not ready\n\
         applied=None attempted=None generation=Some(-1) handled=Some(\"now\") holds=[]",
    );
    check(
        &|report| report.started(&revision(FIRST), &one),
        &calm,
        "Reconciling=True Progressing Detecting drift for revision main@sha1:1111111111111111111111111111111111111111 \
         with a timeout of 1m0s\n\
         Ready=Unknown Progressing Reconciliation in progress\n\
         applied=None attempted=Some(\"main@sha1:11\") generation=Some(-1) handled=Some(\"now\") \
         holds=[\"shop_web_apps_Deployment\"]",
    );
    check(
        &|report| report.checking(&revision(FIRST), &one),
        &calm,
        "Reconciling=True Progressing Running health checks for revision \
         main@sha1:1111111111111111111111111111111111111111 with a timeout of 1m0s\n\
         Ready=Unknown Progressing Reconciliation in progress\n\
         Healthy=Unknown Progressing Running health checks for revision \
         main@sha1:1111111111111111111111111111111111111111 with a timeout of 1m0s\n\
         applied=None attempted=Some(\"main@sha1:11\") generation=Some(-1) handled=Some(\"now\") \
         holds=[\"shop_web_apps_Deployment\"]",
    );
    let unhealthy = Failure::Health(
        Duration::from_secs(60),
        "timeout waiting for: [Deployment/shop/web status: 'InProgress']".to_owned(),
    );
    check(
        &|report| report.failed(&unhealthy, &revision(FIRST), &one, Some(&attempt("sha256:a"))),
        &calm,
        "Reconciling=True ProgressingWithRetry Running health checks for revision \
         main@sha1:1111111111111111111111111111111111111111 with a timeout of 1m0s\n\
         Ready=False HealthCheckFailed health check failed after 1m0s: timeout waiting for: [Deployment/shop/web \
         status: 'InProgress']\n\
         Healthy=False HealthCheckFailed timeout waiting for: [Deployment/shop/web status: 'InProgress']\n\
         applied=None attempted=Some(\"main@sha1:11\") generation=Some(-1) handled=Some(\"now\") \
         holds=[\"shop_web_apps_Deployment\"]\n\
         sha256:a HealthCheckFailed 1.5s x1 Some(\"main@sha1:11\")",
    );
    let passed = Healthy::Passed(Duration::from_millis(300));
    check(
        &|report| report.ready(&revision(SECOND), &one, &attempt("sha256:b"), &passed),
        &calm,
        "Ready=True ReconciliationSucceeded Applied revision: main@sha1:2222222222222222222222222222222222222222\n\
         Healthy=True Succeeded Health check passed in 300ms\n\
         applied=Some(\"main@sha1:22\") attempted=Some(\"main@sha1:22\") generation=Some(2) handled=Some(\"now\") \
         holds=[\"shop_web_apps_Deployment\"]\n\
         sha256:b ReconciliationSucceeded 1.5s x1 Some(\"main@sha1:22\")\n\
         sha256:a HealthCheckFailed 1.5s x1 Some(\"main@sha1:11\")",
    );
    let contest = Contest {
        id: ObjectId::new("apps", "Deployment", "shop", "web"),
        other: object_ref(&key("other")),
    };
    let contested = Aspects {
        contested: Some(contest.to_string()),
        drifting: None,
        awaited: Some("not deleted yet: one".to_owned()),
        needed: None,
        over_budget: None,
        untaken: None,
    };
    check(
        &|report| report.ready(&revision(SECOND), &one, &attempt("sha256:b"), &Healthy::Still),
        &contested,
        "Ready=True ReconciliationSucceeded Applied revision: main@sha1:2222222222222222222222222222222222222222\n\
         Contested=True Contested Deployment/shop/web (also declared by Kustomization/flux-system/other)\n\
         Healthy=True Succeeded Health check passed in 300ms\n\
         PruneHeld=True OthersUnknown not deleted yet: one\n\
         applied=Some(\"main@sha1:22\") attempted=Some(\"main@sha1:22\") generation=Some(2) handled=Some(\"now\") \
         holds=[\"shop_web_apps_Deployment\"]\n\
         sha256:b ReconciliationSucceeded 1.5s x2 Some(\"main@sha1:22\")\n\
         sha256:a HealthCheckFailed 1.5s x1 Some(\"main@sha1:11\")",
    );
    let empty = Stall::EmptyRender {
        key: key("apps"),
        revision: FIRST.to_owned(),
        held: 7,
    };
    check(
        &|report| report.stalled(&empty),
        &calm,
        "Stalled=True EmptyRender revision main@sha1:1111111111111111111111111111111111111111 declares no objects, and \
         pruning would delete all 7 that are held; nothing was changed. If this is meant, confirm with: kubectl -n \
         flux-system annotate --overwrite kustomization.kustomize.toolkit.fluxcd.io/apps \
         equate.dev/allow-empty=main@sha1:1111111111111111111111111111111111111111\n\
         Ready=False EmptyRender revision main@sha1:1111111111111111111111111111111111111111 declares no objects, and \
         pruning would delete all 7 that are held; nothing was changed. If this is meant, confirm with: kubectl -n \
         flux-system annotate --overwrite kustomization.kustomize.toolkit.fluxcd.io/apps \
         equate.dev/allow-empty=main@sha1:1111111111111111111111111111111111111111\n\
         Healthy=True Succeeded Health check passed in 300ms\n\
         applied=Some(\"main@sha1:22\") attempted=Some(\"main@sha1:22\") generation=Some(2) handled=Some(\"now\") \
         holds=[\"shop_web_apps_Deployment\"]\n\
         sha256:b ReconciliationSucceeded 1.5s x2 Some(\"main@sha1:22\")\n\
         sha256:a HealthCheckFailed 1.5s x1 Some(\"main@sha1:11\")",
    );
    check(
        &|report| {
            report.failed(
                &Failure::Build("a.yaml:3:5: x".to_owned()),
                &revision(SECOND),
                &none,
                None,
            )
        },
        &calm,
        "Reconciling=True ProgressingWithRetry Building manifests for revision \
         main@sha1:2222222222222222222222222222222222222222 with a timeout of 1m0s\n\
         Ready=False BuildFailed kustomize build failed: a.yaml:3:5: x\n\
         applied=Some(\"main@sha1:22\") attempted=Some(\"main@sha1:22\") generation=Some(2) handled=Some(\"now\") \
         holds=[]\n\
         sha256:b ReconciliationSucceeded 1.5s x2 Some(\"main@sha1:22\")\n\
         sha256:a HealthCheckFailed 1.5s x1 Some(\"main@sha1:11\")",
    );
}

#[test]
fn a_revision_that_deletes_too_much_says_what_and_how_to_confirm_it() {
    let id = |n: usize| ObjectId::new("", "ConfigMap", "shop", &format!("c{n:02}"));
    let stall = Stall::PruneBudget {
        key: key("apps"),
        revision: FIRST.to_owned(),
        exceeded: Exceeded {
            objects: (0..12).map(id).collect(),
            held: 20,
            budget: Some(Budget::Objects(5)),
        },
    };
    assert_eq!(stall.reason(), Reason::PruneBudgetExceeded);
    assert_eq!(
        stall.to_string(),
        "revision main@sha1:1111111111111111111111111111111111111111 is not applied and nothing was changed: \
         12 of 20 objects would be deleted, and the prune budget is 5 objects (equate.dev/prune-budget): \
         ConfigMap/shop/c00, ConfigMap/shop/c01, ConfigMap/shop/c02, ConfigMap/shop/c03, ConfigMap/shop/c04, \
         ConfigMap/shop/c05, ConfigMap/shop/c06, ConfigMap/shop/c07, ConfigMap/shop/c08, ConfigMap/shop/c09 and \
         2 more. If this is meant, confirm with: kubectl -n flux-system annotate --overwrite \
         kustomization.kustomize.toolkit.fluxcd.io/apps \
         equate.dev/prune-confirm=main@sha1:1111111111111111111111111111111111111111"
    );
}
