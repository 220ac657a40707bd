//! A HelmRelease whose engine dies: before and after each write, the next engine finishes the operation or
//! remediates. No revision and no hook is made twice.
//!
//! One story: an install, an upgrade, an upgrade that fails and is rolled back, and the removal; with hooks of
//! every event, and tests. The clock is paused.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use equate_api::helm::{HelmRelease, HelmReleaseStatus};
use equate_api::meta::ConditionType;
use equate_testkit::faults::{Call, Death, Faults};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::faults::{comes, mortal};
use crate::helm_releases::{DEPLOYMENT, change, conditions, is, records, release, start};
use crate::session::{Options, Session};

/// The hooks that the story runs, in order. A rollback has those of the revision that it restores, and the
/// upgrade that fails does not come to its last.
const HOOKS: [&str; 12] = [
    "pre-install-1",
    "post-install-1",
    "test-1",
    "pre-upgrade-2",
    "post-upgrade-2",
    "test-2",
    "pre-upgrade-3",
    "pre-rollback-2",
    "post-rollback-2",
    "test-2",
    "pre-delete-2",
    "post-delete-2",
];

fn hooks() -> String {
    let events = [
        "pre-install",
        "post-install",
        "pre-upgrade",
        "post-upgrade",
        "pre-rollback",
        "post-rollback",
        "pre-delete",
        "post-delete",
        "test",
    ];
    let each = events.map(|event| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {event}-{{{{ .Release.Revision }}}}\n  annotations: \
             {{helm.sh/hook: {event}}}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      containers:\n      - \
             {{name: main, image: busybox}}\n"
        )
    });
    each.join("---\n")
}

/// A state of the story.
struct Scene<'a> {
    what: &'a str,
    reached: fn(&HelmReleaseStatus) -> bool,
    records: &'a [&'a str],
    value: &'a str,
}

const INSTALLED: Scene<'_> = Scene {
    what: "installed",
    reached: |status| is(status, ConditionType::Ready, "True", "TestSucceeded") && version(status) == Some(1),
    records: &["v1 deployed"],
    value: "one",
};
const UPGRADED: Scene<'_> = Scene {
    what: "upgraded",
    reached: |status| is(status, ConditionType::Ready, "True", "TestSucceeded") && version(status) == Some(2),
    records: &["v1 superseded", "v2 deployed"],
    value: "two",
};
const ROLLED_BACK: Scene<'_> = Scene {
    what: "rolled back",
    reached: |status| {
        is(status, ConditionType::Stalled, "True", "RetriesExceeded")
            && is(status, ConditionType::Remediated, "True", "RollbackSucceeded")
            && status.upgrade_failures == Some(1)
    },
    records: &["v1 superseded", "v2 superseded", "v3 failed", "v4 deployed"],
    value: "two",
};

fn version(status: &HelmReleaseStatus) -> Option<i64> {
    status.history.first().map(|latest| latest.version)
}

/// Waits for a scene.
async fn comes_to(session: &Session, life: &str, scene: &Scene<'_>) {
    comes(&format!("{life}: {}", scene.what), async || {
        let object: Option<HelmRelease> = session.get("@home", "app").await;
        let status = object.and_then(|object| object.status).unwrap_or_default();
        let records = records(session, "app").await;
        let map: Option<ConfigMap> = session.get("@home", "app-map").await;
        let value = map.and_then(|map| map.data.unwrap_or_default().remove("value"));
        let inventory = status.inventory.as_ref().map_or(0, |held| held.entries.len());
        let all = (scene.reached)(&status)
            && records == scene.records
            && value.as_deref() == Some(scene.value)
            && inventory == 2;
        match all {
            true => Ok(()),
            false => Err(format!("{records:?}, {value:?}, {:#?}", conditions(&status))),
        }
    })
    .await;
}

async fn is_gone(session: &Session, life: &str) {
    comes(&format!("{life}: removed"), async || {
        let object: Option<HelmRelease> = session.get("@home", "app").await;
        match object {
            None => Ok(()),
            Some(object) => Err(format!("{:?}", conditions(&object.status.unwrap_or_default()))),
        }
    })
    .await;
    assert!(records(session, "app").await.is_empty(), "{life}");
    let map: Option<ConfigMap> = session.get("@home", "app-map").await;
    assert!(map.is_none(), "{life}");
}

/// Waits for a part of the story; another engine continues where the first one dies.
async fn reach(session: &mut Session, logs: &mut Vec<Call>, part: impl AsyncFn(&Session)) {
    let faults = session.faults.clone();
    let died = tokio::select! {
        biased;
        () = faults.died() => true,
        () = part(session) => false,
    };
    if died {
        session.kill();
        logs.extend(faults.log());
        session.faults = Faults::seeded(2);
        session.engine(Options::default()).await;
        part(session).await;
    }
}

/// Whether an n-th write was there to die at.
async fn live(n: usize, death: Death) -> bool {
    let life = &*format!("dies at write {n}, {death:?}");
    let hooks = hooks();
    let mut session = start(&[DEPLOYMENT, ("charts/app/templates/hooks.yaml", &hooks)]).await;
    let (faults, writes) = mortal(n, death);
    session.faults = faults.clone();
    session.engine(Options::default()).await;
    let mut log = Vec::new();
    let spec = json!({
        "timeout": "20s", "values": { "value": "one" }, "test": { "enable": true },
        "upgrade": { "remediation": { "remediateLastFailure": true } },
    });
    release(&session, "app", spec).await;
    reach(&mut session, &mut log, async |session| {
        comes_to(session, life, &INSTALLED).await
    })
    .await;
    change(
        &session,
        "app",
        json!({ "spec": { "values": { "value": "two" } } }),
    )
    .await;
    reach(&mut session, &mut log, async |session| {
        comes_to(session, life, &UPGRADED).await
    })
    .await;
    let broken = json!({ "annotations": { "equate.dev/simulate": "ImagePullBackOff" }, "value": "broken" });
    change(&session, "app", json!({ "spec": { "values": broken } })).await;
    reach(&mut session, &mut log, async |session| {
        comes_to(session, life, &ROLLED_BACK).await
    })
    .await;
    session.delete::<HelmRelease>("@home", "app").await;
    reach(&mut session, &mut log, async |session| {
        is_gone(session, life).await
    })
    .await;
    log.extend(session.faults.log());
    let mut jobs: BTreeMap<&str, usize> = BTreeMap::new();
    let writes_of = |call: &&Call| call.method == "PATCH" || call.method == "POST";
    for call in log.iter().filter(writes_of) {
        if let Some((_, name)) = call.path.split_once("/jobs/") {
            *jobs.entry(name).or_default() += 1;
        }
    }
    let expected: BTreeMap<&str, usize> = HOOKS.into_iter().map(|name| (name, 1)).collect();
    assert_eq!(jobs, expected, "{life}");
    let stored = log
        .iter()
        .filter(|call| call.method == "POST" && call.path.ends_with("/secrets"));
    assert_eq!(stored.count(), 4, "{life}");
    session.end().await;
    let died = faults.is_dead();
    if !died {
        eprintln!(
            "{death:?}: an engine made {} writes and died at each",
            writes.load(Ordering::SeqCst)
        );
    }
    died
}

async fn lives(death: Death) {
    for n in 1..300 {
        if !live(n, death).await {
            assert!(n > 40, "the story has more writes than {n}");
            return;
        }
    }
    panic!("the story never ends");
}

#[tokio::test(start_paused = true)]
async fn killed_before_each_write() {
    lives(Death::Before).await;
}

#[tokio::test(start_paused = true)]
async fn killed_after_each_write() {
    lives(Death::After).await;
}
