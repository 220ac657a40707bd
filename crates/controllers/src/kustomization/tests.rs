//! Statuses, as tables.

use std::time::Duration;

use equate_api::kustomize::{Kustomization, KustomizationStatus};
use equate_api::meta::Reason;
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::plan::{Budget, Exceeded};
use serde_json::{Value, json};

use super::declaration;
use super::declared::Declared;
use super::inputs::artifact::Revision;
use super::object_ref;
use super::reasons::{Failure, Stall, Wait};
use super::report::{Done, EventContext, Outcome, Ready, report};
use super::status::{Aspects, Attempt, Healthy, StatusDraft};
use crate::kit::controller::Next;
use crate::kit::mirror::{Change, What};
use crate::ownership::contest::Contest;
use crate::ownership::graph::OwnershipGraph;
use crate::{Key, Policy};

pub(super) const FIRST: &str = "main@sha1:1111111111111111111111111111111111111111";
pub(super) const SECOND: &str = "main@sha1:2222222222222222222222222222222222222222";

/// A Kustomization with this spec and the required fields.
pub(super) fn kustomization(metadata: &Value, spec: &Value, status: &Value) -> Kustomization {
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

pub(super) fn declared(metadata: &Value, spec: &Value) -> Declared {
    let status = json!({ "inventory": { "entries": [{ "id": "shop_web_apps_Deployment", "v": "v1" }] } });
    Declared::from(&kustomization(metadata, spec, &status))
}

pub(super) fn key(name: &str) -> Key {
    Key::new("flux-system", name)
}

fn shown(status: &KustomizationStatus) -> String {
    let mut lines: Vec<String> = status
        .conditions
        .iter()
        .map(|c| format!("{}={} {} {}", c.type_, c.status, c.reason, c.message))
        .collect();
    let inventory = status.inventory.iter().flat_map(|inventory| &inventory.entries);
    lines.push(format!(
        "applied={:?} attempted={:?} generation={:?} holds={:?}",
        status.last_applied_revision.as_deref().map(short),
        status.last_attempted_revision.as_deref().map(short),
        status.observed_generation,
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
fn statuses_of_a_whole_life() {
    let ks = declared(&json!({}), &json!({ "timeout": "1m" }));
    let now: jiff::Timestamp = "2026-11-21T18:00:00Z".parse().unwrap();
    let attempt = |digest: &str| Attempt {
        digest: digest.to_owned(),
        took: Duration::from_millis(1500),
    };
    let mut status = KustomizationStatus::default();
    let mut check = |what: &dyn Fn(StatusDraft<'_>) -> StatusDraft<'_>, aspects: &Aspects, expected: &str| {
        let next = what(StatusDraft::new(&ks, &status, now)).finish(aspects);
        assert_eq!(shown(&next), expected);
        // repeating it changes nothing
        if !expected.contains("sha256:") {
            assert_eq!(what(StatusDraft::new(&ks, &next, now)).finish(aspects), next);
        }
        status = next;
    };
    let calm = Aspects::default();
    let (none, one) = (Inventory::default(), ks.inventory.clone());

    check(
        &|report| report.waiting(&Wait::DependencyNotReady(key("infra"))),
        &calm,
        "Ready=False DependencyNotReady dependency 'flux-system/infra' is not ready\n\
         applied=None attempted=None generation=Some(-1) holds=[]",
    );
    check(
        &|report| report.started(&revision(FIRST), &one),
        &calm,
        "Reconciling=True Progressing Detecting drift for revision main@sha1:1111111111111111111111111111111111111111 \
         with a timeout of 1m0s\n\
         Ready=Unknown Progressing Reconciliation in progress\n\
         applied=None attempted=Some(\"main@sha1:11\") generation=Some(-1) \
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
         applied=None attempted=Some(\"main@sha1:11\") generation=Some(-1) \
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
         applied=None attempted=Some(\"main@sha1:11\") generation=Some(-1) \
         holds=[\"shop_web_apps_Deployment\"]\n\
         sha256:a HealthCheckFailed 1.5s x1 Some(\"main@sha1:11\")",
    );
    let passed = Healthy::Passed(Duration::from_millis(300));
    check(
        &|report| report.ready(&revision(SECOND), &one, &attempt("sha256:b"), &passed),
        &calm,
        "Ready=True ReconciliationSucceeded Applied revision: main@sha1:2222222222222222222222222222222222222222\n\
         Healthy=True Succeeded Health check passed in 300ms\n\
         applied=Some(\"main@sha1:22\") attempted=Some(\"main@sha1:22\") generation=Some(2) \
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
         Healthy=True Succeeded Health check passed in 300ms\n\
         OwnershipConflict=True OwnershipConflict Deployment/shop/web (also declared by Kustomization/flux-system/other)\n\
         PruneBlocked=True OthersUnknown not deleted yet: one\n\
         applied=Some(\"main@sha1:22\") attempted=Some(\"main@sha1:22\") generation=Some(2) \
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
         pruning would delete all 7 objects of its inventory; nothing was changed. If this is meant, confirm with: \
         kubectl -n flux-system annotate --overwrite kustomization.kustomize.toolkit.fluxcd.io/apps \
         equate.dev/allow-empty=main@sha1:1111111111111111111111111111111111111111\n\
         Ready=False EmptyRender revision main@sha1:1111111111111111111111111111111111111111 declares no objects, and \
         pruning would delete all 7 objects of its inventory; nothing was changed. If this is meant, confirm with: \
         kubectl -n flux-system annotate --overwrite kustomization.kustomize.toolkit.fluxcd.io/apps \
         equate.dev/allow-empty=main@sha1:1111111111111111111111111111111111111111\n\
         Healthy=True Succeeded Health check passed in 300ms\n\
         applied=Some(\"main@sha1:22\") attempted=Some(\"main@sha1:22\") generation=Some(2) \
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
         applied=Some(\"main@sha1:22\") attempted=Some(\"main@sha1:22\") generation=Some(2) \
         holds=[]\n\
         sha256:b ReconciliationSucceeded 1.5s x2 Some(\"main@sha1:22\")\n\
         sha256:a HealthCheckFailed 1.5s x1 Some(\"main@sha1:11\")",
    );
}

#[test]
fn the_end_of_a_run_answers_a_request_and_a_failure_is_counted() {
    let ks = declared(&json!({}), &json!({}));
    let before = KustomizationStatus::default();
    let now: jiff::Timestamp = "2026-11-21T18:00:00Z".parse().unwrap();
    let held = || ks.inventory.clone();
    let check = |outcome: Outcome, ended: bool, failed: bool| {
        let text = format!("{outcome:?}");
        let done = Done {
            outcome,
            aspects: Aspects::default(),
            context: EventContext::default(),
            next: Next::Await,
        };
        let said = report(&ks, &before, done, now);
        assert_eq!((said.ended, said.failed), (ended, failed), "{text}");
        // only the kit answers a request, also at the end of a reconciliation
        assert_eq!(said.status.last_handled_reconcile_at, None, "{text}");
    };
    let ready = || Ready {
        revision: revision(FIRST),
        inventory: held(),
        attempt: Attempt {
            digest: "sha256:a".to_owned(),
            took: Duration::ZERO,
        },
        healthy: Healthy::NotChecked,
        changed: false,
        requested: true,
    };
    let waiting = |wait: Wait| Outcome::Waiting {
        wait,
        revision: None,
        again: Duration::ZERO,
    };
    let fetching = |trouble: Option<&str>| Wait::Fetching {
        revision: FIRST.to_owned(),
        trouble: trouble.map(str::to_owned),
    };
    let unfetched = Wait::Unfetched {
        revision: FIRST.to_owned(),
        gone: false,
        why: "no answer".to_owned(),
    };
    let failed = Outcome::Failed {
        failure: Failure::Apply("refused".to_owned()),
        revision: revision(FIRST),
        inventory: held(),
        attempt: None,
        same: false,
    };
    check(Outcome::Unchanged, false, false);
    check(Outcome::Awaiting("others".to_owned()), false, false);
    let checking = Outcome::Checking {
        revision: revision(FIRST),
        inventory: held(),
    };
    check(checking, false, false);
    check(waiting(fetching(None)), false, false);
    check(waiting(fetching(Some("no answer"))), true, false);
    check(waiting(unfetched), true, true);
    check(waiting(Wait::DependencyNotReady(key("infra"))), true, false);
    check(Outcome::Suspended, true, false);
    check(Outcome::Stalled(Stall::Account("-".to_owned())), true, true);
    check(Outcome::Steady(held()), true, false);
    check(Outcome::Ready(ready()), true, false);
    check(Outcome::Renewed(ready()), true, false);
    check(failed, true, true);
}

#[test]
fn an_exceeded_prune_budget_names_objects_and_confirmation() {
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

/// A cluster that an older version reconciled: its conditions are read until the next write removes them.
#[test]
fn conditions_under_old_names_are_read_and_removed() {
    let condition = |of: &str| {
        json!({
            "type": of, "status": "True", "reason": "OthersUnknown", "message": "not deleted yet: one",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let check = |of: &str, blocked: bool, after: &[&str]| {
        let status = json!({ "conditions": [condition(of)] });
        let object = kustomization(&json!({}), &json!({}), &status);
        let mut graph = OwnershipGraph::default();
        let change = Change {
            key: key("apps"),
            what: What::Appeared,
            before: None,
            after: Some(std::sync::Arc::new(object.clone())),
        };
        declaration::changed(&mut graph, &change, true, &Policy::default());
        let known = graph.declaration(&object_ref(&key("apps"))).unwrap();
        assert_eq!(known.status.prune_blocked, blocked, "{of}");
        let ks = Declared::from(&object);
        let draft = StatusDraft::new(&ks, object.status.as_ref().unwrap(), jiff::Timestamp::UNIX_EPOCH);
        let written = draft.finish(&Aspects::default());
        let types: Vec<&str> = written.conditions.iter().map(|one| &*one.type_).collect();
        assert_eq!(types, after, "{of}");
    };
    check("PruneHeld", true, &[]);
    check("PruneBlocked", true, &[]);
    check("Contested", false, &[]);
    check("Ready", false, &["Ready"]);
}
