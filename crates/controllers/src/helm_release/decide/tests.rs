//! The rules of decisions, as tables.

use std::collections::BTreeSet;
use std::time::Duration;

use equate_api::helm::{HelmRelease, HelmReleaseStatus};
use equate_helm::release::Status;
use serde_json::{Value, json};

use super::seen::{
    Access, Basis, Chart, Dependencies, Drift, Last, OwnChart, Previous, Seen, Source, Storage, UnnamedChart,
    Values,
};
use super::{Again, Step, decide};
use crate::helm_release::declared::{Action, Class, Declared};

const CONFIG: &str = "sha256:c0";

#[expect(clippy::needless_pass_by_value, reason = "callers write it in place")]
fn declared(spec: Value, metadata: Value) -> Declared {
    let mut object = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": { "name": "app", "namespace": "team", "generation": 3, "uid": "u" },
        "spec": {
            "interval": "10m",
            "chart": { "spec": { "chart": "c", "sourceRef": { "kind": "GitRepository", "name": "g" } } },
        },
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    for (field, value) in metadata.as_object().unwrap() {
        object["metadata"][field] = value.clone();
    }
    let object: HelmRelease = serde_json::from_value(object).unwrap();
    Declared::from(&object)
}

fn snapshot(version: i64, status: &str) -> Value {
    json!({
        "apiVersion": "v2", "chartName": "c", "chartVersion": "1.0.0", "configDigest": CONFIG, "digest": "d",
        "firstDeployed": "2026-01-01T00:00:00Z", "lastDeployed": "2026-01-01T00:00:00Z",
        "name": "app", "namespace": "team", "status": status, "version": version,
    })
}

/// A status after a release of what is declared.
#[expect(clippy::needless_pass_by_value, reason = "callers write it in place")]
fn status(fields: Value) -> HelmReleaseStatus {
    let mut status = json!({
        "helmChart": "team/team-app",
        "storageNamespace": "team",
        "observedGeneration": 3,
        "lastAttemptedGeneration": 3,
        "lastAttemptedRevision": "1.0.0",
        "lastAttemptedConfigDigest": CONFIG,
        "lastAttemptedReleaseAction": "install",
        "history": [snapshot(1, "deployed")],
    });
    for (field, value) in fields.as_object().unwrap() {
        match value.is_null() {
            true => drop(status.as_object_mut().unwrap().remove(field)),
            false => status[field] = value.clone(),
        }
    }
    serde_json::from_value(status).unwrap()
}

fn last(version: u64, status: &str) -> Last {
    Last {
        version,
        status: Status::from(status),
        chart_name: "c".to_owned(),
        chart_version: "1.0.0".to_owned(),
        observed: true,
        interrupted: None,
        previous: Previous::None,
        kept_values: None,
    }
}

fn chart() -> Chart {
    Chart {
        name: "c".to_owned(),
        version: "1.0.0".to_owned(),
        app_version: String::new(),
        oci_digest: None,
        artifact: "sha256:a".to_owned(),
    }
}

fn seen(status: HelmReleaseStatus, storage: Storage) -> Seen {
    Seen {
        status,
        problem: None,
        own_chart: OwnChart::AsDeclared,
        unnamed_chart: UnnamedChart::None,
        dependencies: Dependencies::Ready,
        source: Source::Ready(chart()),
        values: Values::Ready(CONFIG.to_owned()),
        access: Access::Open,
        storage,
        operation: None,
        attempted: BTreeSet::new(),
        kind_defined: false,
        retry_in: None,
        applying: None,
        drift: Vec::new(),
    }
}

fn none() -> Value {
    json!({})
}

/// The step and its reason, as text.
fn shown(declared: &Declared, seen: &Seen) -> String {
    let plan = decide(declared, seen);
    let step = match plan.step {
        Step::Begin(action) => action.name().to_owned(),
        Step::Wait(obstacle) => format!("wait {}", obstacle.reason),
        Step::Fail(obstacle) => format!("fail {}", obstacle.reason),
        Step::Stall(reason, _) => format!("stall {reason}"),
        Step::Exhausted(reason, message) => format!("exhausted {reason}: {message}"),
        Step::TryAgain(Again::After(interval)) => format!("again after {interval:?}"),
        Step::TryAgain(again) => format!("again {again:?}"),
        Step::Rest(left) => format!("rest {left:?}"),
        other => format!("{other:?}"),
    };
    format!("{step}; {}", plan.reason)
}

#[track_caller]
fn check(spec: Value, seen: &Seen, expected: &str) {
    assert_eq!(shown(&declared(spec, none()), seen), expected);
}

#[test]
fn the_state_of_the_release_decides() {
    let new = || status(json!({ "history": null, "lastAttemptedReleaseAction": null }));
    check(
        none(),
        &seen(new(), Storage::Empty),
        "install; release not installed: no release in storage for object",
    );
    check(
        none(),
        &seen(new(), Storage::Last(last(4, "deployed"))),
        "upgrade; release not managed by controller: found existing release in storage",
    );
    check(
        none(),
        &seen(new(), Storage::Last(last(4, "uninstalled"))),
        "install; release not installed: found uninstalled release in storage",
    );
    let deployed = || Storage::Last(last(1, "deployed"));
    check(
        none(),
        &seen(status(none()), deployed()),
        "Settle; release in-sync with desired state",
    );
    let mut changed = seen(status(none()), deployed());
    changed.source = Source::Ready(Chart {
        version: "1.1.0".to_owned(),
        ..chart()
    });
    check(
        none(),
        &changed,
        "upgrade; release out-of-sync with desired state: release chart changed",
    );
    let mut changed = seen(status(none()), deployed());
    changed.values = Values::Ready("sha256:c1".to_owned());
    check(
        none(),
        &changed,
        "upgrade; release out-of-sync with desired state: release config values changed",
    );
    check(
        json!({ "postRenderers": [{ "kustomize": { "images": [{ "name": "a", "newTag": "1" }] } }] }),
        &seen(status(json!({ "observedGeneration": 2 })), deployed()),
        "upgrade; release out-of-sync with desired state: postrenderers digest has changed",
    );
    let foreign = Storage::Last(Last {
        observed: false,
        ..last(2, "deployed")
    });
    check(
        none(),
        &seen(status(none()), foreign),
        "upgrade; release not managed by controller: release not observed to be made for object",
    );
    check(
        none(),
        &seen(status(none()), Storage::Last(last(2, "pending-upgrade"))),
        "unlock; release locked: release with status 'pending-upgrade'",
    );
    check(
        none(),
        &seen(status(none()), Storage::Last(last(1, "uninstalling"))),
        "uninstall; the removal of the release was interrupted",
    );
    check(
        none(),
        &seen(status(none()), Storage::Failed("no".to_owned())),
        "fail StateError; failed to retrieve last release from storage: no",
    );
}

#[test]
fn an_upgrade_waits_for_the_objects_of_its_commit() {
    let applying = |storage: Storage, change: &dyn Fn(&mut Seen)| {
        let mut seen = seen(status(none()), storage);
        seen.applying = Some("Kustomization/apps is being applied".to_owned());
        change(&mut seen);
        seen
    };
    let deployed = || Storage::Last(last(1, "deployed"));
    let changed = |seen: &mut Seen| seen.values = Values::Ready("sha256:c1".to_owned());
    check(
        none(),
        &applying(deployed(), &changed),
        "Hold; Kustomization/apps is being applied: release out-of-sync with desired state: release config values \
         changed",
    );
    check(
        none(),
        &applying(deployed(), &|_| ()),
        "Settle; release in-sync with desired state",
    );
    check(
        none(),
        &applying(Storage::Last(last(2, "pending-upgrade")), &changed),
        "unlock; release locked: release with status 'pending-upgrade'",
    );
    let metadata = json!({ "annotations": {
        "reconcile.fluxcd.io/requestedAt": "now", "reconcile.fluxcd.io/forceAt": "now",
    } });
    assert_eq!(
        shown(&declared(none(), metadata), &applying(deployed(), &|_| ())),
        "upgrade; force requested through annotation: release in-sync with desired state"
    );
}

#[test]
fn a_definition_that_was_missing_gives_a_release_another_attempt() {
    let failed = || {
        let status = status(json!({
            "history": null, "installFailures": 1, "failures": 1, "lastAttemptedReleaseAction": "install",
        }));
        seen(status, Storage::Empty)
    };
    let reason = "release not installed: no release in storage for object";
    check(
        none(),
        &failed(),
        "exhausted RetriesExceeded: Failed to install after 1 attempt(s); no retries are left: cannot install \
         release",
    );
    let mut defined = failed();
    defined.kind_defined = true;
    check(none(), &defined, &format!("install; {reason}"));
    let plan = decide(&declared(none(), none()), &defined);
    assert_eq!(plan.reset, Some("a kind that was missing is defined"));
}

#[test]
fn an_interrupted_operation_of_the_same_inputs_is_resumed() {
    let basis = Basis {
        action: Action::Upgrade,
        generation: 3,
        chart_version: "1.0.0".to_owned(),
        config_digest: CONFIG.to_owned(),
    };
    let storage = Storage::Last(Last {
        interrupted: Some(basis.clone()),
        ..last(2, "pending-upgrade")
    });
    let plan = decide(&declared(none(), none()), &seen(status(none()), storage.clone()));
    assert_eq!(plan.step, Step::Resume(basis.clone()));
    assert_eq!(plan.reason, "the upgrade was interrupted");
    assert_eq!(plan.reset, None);
    // the status of its begin was lost
    let lost = status(json!({ "lastAttemptedGeneration": 2 }));
    let plan = decide(&declared(none(), none()), &seen(lost, storage));
    assert_eq!(plan.step, Step::Resume(basis));
    assert_eq!(plan.reset, Some("generation differs from last attempt"));
}

#[test]
fn a_change_of_the_inputs_ends_an_operation() {
    let basis = |generation: i64, version: &str, config: &str| Basis {
        action: Action::Upgrade,
        generation,
        chart_version: version.to_owned(),
        config_digest: config.to_owned(),
    };
    let check = |basis: Basis, change: &dyn Fn(&mut Seen), expected: Step| {
        let mut seen = seen(status(none()), Storage::NotLooked);
        seen.operation = Some(basis);
        change(&mut seen);
        assert_eq!(decide(&declared(none(), none()), &seen).step, expected);
    };
    check(basis(3, "1.0.0", CONFIG), &|_| {}, Step::Continue);
    check(basis(2, "1.0.0", CONFIG), &|_| {}, Step::Preempt);
    check(basis(3, "0.9.0", CONFIG), &|_| {}, Step::Preempt);
    check(basis(3, "1.0.0", "sha256:c1"), &|_| {}, Step::Preempt);
    // what is unknown has not changed
    let unready = |seen: &mut Seen| seen.source = Source::NotReady("no".to_owned());
    check(basis(3, "0.9.0", CONFIG), &unready, Step::Continue);
    let waits = |seen: &mut Seen| seen.dependencies = Dependencies::NotReady("no".to_owned());
    check(basis(3, "1.0.0", CONFIG), &waits, Step::Continue);
}

#[test]
fn failures_are_remediated_within_the_retries() {
    let failed = |action: &str, failures: i64, previous: Previous| {
        let counter = format!("{action}Failures");
        let status = status(json!({
            "lastAttemptedReleaseAction": action,
            counter: failures,
            "history": [snapshot(2, "failed"), snapshot(1, "deployed")],
        }));
        let last = Last {
            previous,
            ..last(2, "failed")
        };
        seen(status, Storage::Last(last))
    };
    let intact = || Previous::Intact(1);
    let retries = |action: &str, retries: i64| json!({ action: { "remediation": { "retries": retries } } });
    let reason = "release is in a failed state";
    check(
        none(),
        &failed("upgrade", 1, intact()),
        "exhausted RetriesExceeded: Failed to upgrade after 1 attempt(s); no retries are left: cannot remediate \
         failed release",
    );
    check(
        retries("upgrade", 2),
        &failed("upgrade", 1, intact()),
        &format!("rollback; {reason}"),
    );
    // the last failure is remediated, too
    check(
        retries("upgrade", 2),
        &failed("upgrade", 3, intact()),
        &format!("rollback; {reason}"),
    );
    check(
        json!({ "upgrade": { "remediation": { "retries": 1, "strategy": "uninstall" } } }),
        &failed("upgrade", 1, intact()),
        &format!("uninstall; {reason}"),
    );
    check(
        retries("install", -1),
        &failed("install", 7, Previous::None),
        &format!("uninstall; {reason}"),
    );
    check(
        retries("upgrade", 2),
        &failed("upgrade", 1, Previous::None),
        "exhausted MissingRollbackTarget: Failed to perform remediation: missing target release for rollback: \
         cannot remediate failed release; there is no earlier release to roll back to",
    );
    check(
        retries("upgrade", 2),
        &failed("upgrade", 1, Previous::Changed("gone".to_owned())),
        "upgrade; unable to verify previous release: gone",
    );
    // the inputs changed since: they get an attempt of their own
    check(
        none(),
        &failed("upgrade", 0, intact()),
        &format!("upgrade; conditions have changed since last failure: {reason}"),
    );
    check(
        json!({ "upgrade": { "strategy": { "name": "RetryOnFailure" } } }),
        &failed("upgrade", 5, intact()),
        &format!("upgrade; retry: {reason}"),
    );
}

#[test]
fn an_attempt_runs_each_class_of_actions_once() {
    let attempted = |action: &str, failures: i64| {
        let counter = format!("{action}Failures");
        let status = status(json!({ "lastAttemptedReleaseAction": action, counter: failures }));
        let mut seen = seen(status, Storage::Last(last(2, "deployed")));
        seen.values = Values::Ready("sha256:c1".to_owned());
        seen.status.last_attempted_config_digest = Some("sha256:c1".to_owned());
        seen.attempted = [Class::Release].into();
        seen
    };
    let reason = "release out-of-sync with desired state: release config values changed";
    check(none(), &attempted("upgrade", 0), &format!("again Soon; {reason}"));
    check(
        json!({ "upgrade": { "strategy": { "name": "RetryOnFailure", "retryInterval": "1m" } } }),
        &attempted("upgrade", 0),
        &format!("again after 60s; {reason}"),
    );
}

/// A wake for another reason, like a new condition of the source, is no reason to try earlier.
#[test]
fn the_interval_of_the_retry_strategy_holds_for_all_wakes() {
    let spec = || json!({ "install": { "strategy": { "name": "RetryOnFailure", "retryInterval": "1h" } } });
    let mut failed = seen(
        status(json!({ "history": [snapshot(1, "failed")] })),
        Storage::Last(last(1, "failed")),
    );
    failed.retry_in = Some(Duration::from_secs(60));
    let rests = "rest 60s; waits for the next attempt: retry: release is in a failed state";
    check(spec(), &failed, rests);
    let requested = declared(
        spec(),
        json!({ "annotations": {
            "reconcile.fluxcd.io/requestedAt": "1", "reconcile.fluxcd.io/forceAt": "1",
        } }),
    );
    assert_eq!(decide(&requested, &failed).step, Step::Begin(Action::Upgrade));
}

#[test]
fn requests_force_and_reset() {
    let request = |annotations: Value| declared(none(), json!({ "annotations": annotations }));
    let forced = request(json!({
        "reconcile.fluxcd.io/requestedAt": "1", "reconcile.fluxcd.io/forceAt": "1",
    }));
    let in_sync = || seen(status(none()), Storage::Last(last(1, "deployed")));
    let plan = decide(&forced, &in_sync());
    assert_eq!((plan.step, plan.forced), (Step::Begin(Action::Upgrade), true));
    // once
    let mut handled = in_sync();
    handled.status.last_handled_force_at = Some("1".to_owned());
    assert_eq!(decide(&forced, &handled).step, Step::Settle);
    let other = request(json!({
        "reconcile.fluxcd.io/requestedAt": "2", "reconcile.fluxcd.io/forceAt": "1",
    }));
    assert_eq!(decide(&other, &in_sync()).step, Step::Settle);
    let exhausted = || {
        let status = status(json!({ "history": null, "installFailures": 1 }));
        seen(status, Storage::Empty)
    };
    check(
        none(),
        &exhausted(),
        "exhausted RetriesExceeded: Failed to install after 1 attempt(s); no retries are left: cannot install release",
    );
    let reset = request(json!({
        "reconcile.fluxcd.io/requestedAt": "1", "reconcile.fluxcd.io/resetAt": "1",
    }));
    let plan = decide(&reset, &exhausted());
    assert_eq!(plan.step, Step::Begin(Action::Install));
    assert_eq!(plan.reset, Some("reset requested through annotation"));
    assert_eq!(decide(&forced, &exhausted()).step, Step::Begin(Action::Install));
}

#[test]
fn tests_and_drift_follow_a_release() {
    let deployed = |history: Value| {
        seen(
            status(json!({ "history": [history] })),
            Storage::Last(last(1, "deployed")),
        )
    };
    let tests = json!({ "test": { "enable": true } });
    check(
        tests.clone(),
        &deployed(snapshot(1, "deployed")),
        "test; release has not been tested",
    );
    let tested = |phase: &str| {
        let mut snapshot = snapshot(1, "deployed");
        snapshot["testHooks"] = json!({ "t": { "phase": phase } });
        snapshot
    };
    check(
        tests.clone(),
        &deployed(tested("Succeeded")),
        "Settle; release in-sync with desired state",
    );
    check(
        tests,
        &deployed(tested("Failed")),
        "upgrade; conditions have changed since last failure: release is in a failed state: release has test in \
         failed phase",
    );
    let mut drifted = deployed(snapshot(1, "deployed"));
    drifted.drift = vec![Drift {
        object: "ConfigMap/team/a".to_owned(),
        changes: Some([0, 1, 0]),
    }];
    let drift = |mode: &str| json!({ "driftDetection": { "mode": mode } });
    let reason = "objects of the release differ from it";
    check(
        drift("enabled"),
        &drifted,
        &format!("correct cluster drift; {reason}"),
    );
    check(drift("warn"), &drifted, &format!("ReportDrift; {reason}"));
    check(
        drift("disabled"),
        &drifted,
        "Settle; release in-sync with desired state",
    );
}

#[test]
fn obstacles_come_first() {
    let check = |change: &dyn Fn(&mut Seen), expected: &str| {
        let mut seen = seen(status(none()), Storage::NotLooked);
        change(&mut seen);
        check(none(), &seen, expected);
    };
    check(
        &|seen| seen.problem = Some("bad".to_owned()),
        "stall InvalidCELExpression; the rules for its objects are invalid",
    );
    check(
        &|seen| seen.source = Source::Denied("no".to_owned()),
        "stall AccessDenied; no",
    );
    check(
        &|seen| seen.own_chart = OwnChart::Differs,
        "ApplyChart; the HelmChart differs from the template",
    );
    check(
        &|seen| seen.status.helm_chart = Some("old/chart".to_owned()),
        r#"DeleteChart("old/chart"); the spec refers to another chart"#,
    );
    check(
        &|seen| seen.dependencies = Dependencies::NotReady("dependency 'team/db' is not ready".to_owned()),
        "wait DependencyNotReady; dependency 'team/db' is not ready",
    );
    check(
        &|seen| seen.source = Source::Absent("gone".to_owned()),
        "wait ArtifactFailed; could not get Source object: gone",
    );
    check(
        &|seen| seen.source = Source::NotReady("not yet".to_owned()),
        "wait SourceNotReady; not yet",
    );
    check(
        &|seen| seen.values = Values::Failed("no key".to_owned()),
        "fail ValuesError; no key",
    );
    check(
        &|seen| seen.access = Access::Failed("no kubeconfig".to_owned(), true),
        "fail RESTClientError; no kubeconfig",
    );
}

#[test]
fn another_target_is_another_release() {
    let deployed = || seen(status(none()), Storage::Last(last(1, "deployed")));
    let check = |spec: Value, seen: &Seen, expected: &str| {
        let plan = decide(&declared(spec, none()), seen);
        assert_eq!(plan.step, Step::Begin(Action::Uninstall));
        assert_eq!(
            plan.reason,
            format!("release target configuration changed ({expected})")
        );
    };
    check(
        json!({ "storageNamespace": "x" }),
        &deployed(),
        "storage namespace",
    );
    check(
        json!({ "targetNamespace": "x" }),
        &deployed(),
        "release namespace",
    );
    check(json!({ "releaseName": "x" }), &deployed(), "release name");
    let mut renamed = deployed();
    renamed.source = Source::Ready(Chart {
        name: "other".to_owned(),
        ..chart()
    });
    check(none(), &renamed, "chart name");
    let in_place = json!({ "upgrade": { "chartNameChangeStrategy": "InPlaceUpdate" } });
    assert_eq!(
        decide(&declared(in_place, none()), &renamed).step,
        Step::Begin(Action::Upgrade)
    );
}

#[test]
fn deletion_uninstalls_and_lets_go() {
    let deleting = |spec: Value| declared(spec, json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }));
    let check = |spec: Value, change: &dyn Fn(&mut Seen), expected: Step| {
        let mut seen = seen(status(none()), Storage::NotLooked);
        change(&mut seen);
        assert_eq!(decide(&deleting(spec), &seen).step, expected);
    };
    let delete = || Step::DeleteChart("team/team-app".to_owned());
    check(none(), &|_| {}, Step::Begin(Action::Uninstall));
    check(json!({ "suspend": true }), &|_| {}, Step::Release);
    let uninstalled = |seen: &mut Seen| {
        seen.status.history.clear();
        seen.status.storage_namespace = None;
    };
    check(none(), &uninstalled, delete());
    let nothing = |seen: &mut Seen| {
        uninstalled(seen);
        seen.status.helm_chart = None;
    };
    check(none(), &nothing, Step::Release);
    let unnamed = |chart: UnnamedChart| {
        move |seen: &mut Seen| {
            nothing(seen);
            seen.unnamed_chart = chart.clone();
        }
    };
    let exists = UnnamedChart::Exists("there/lost".to_owned());
    check(
        none(),
        &unnamed(exists),
        Step::DeleteChart("there/lost".to_owned()),
    );
    check(none(), &unnamed(UnnamedChart::Unlisted), Step::Await);
    let no_account = |seen: &mut Seen| seen.access = Access::NoAccount("deployer".to_owned());
    check(none(), &no_account, delete());
    let no_cluster = |seen: &mut Seen| seen.access = Access::Failed("not found".to_owned(), true);
    check(none(), &no_cluster, delete());
    let upgrading = |seen: &mut Seen| {
        seen.operation = Some(Basis {
            action: Action::Upgrade,
            generation: 2,
            chart_version: String::new(),
            config_digest: String::new(),
        });
    };
    check(none(), &upgrading, Step::Preempt);
    let abandoned = |seen: &mut Seen| {
        upgrading(seen);
        no_account(seen);
    };
    check(none(), &abandoned, delete());
}
