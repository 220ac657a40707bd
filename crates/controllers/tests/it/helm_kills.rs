//! A HelmRelease whose engine dies: after each write, the next engine finishes the operation or remediates. No
//! revision and no hook is made twice.
//!
//! One story: an install, an upgrade, an upgrade that fails and is rolled back, and the removal; with hooks of
//! every event, and tests. In each life an engine dies in each part of it. The clock is paused. A death before
//! a write leaves the same as one after the write before, so there is none.

use std::collections::BTreeMap;

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
const HOOKS: [&str; 11] = [
    "pre-install-1",
    "post-install-1",
    "test-1",
    "pre-upgrade-2",
    "post-upgrade-2",
    "test-2",
    "pre-upgrade-3",
    "pre-rollback-2",
    "post-rollback-2",
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
            "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {{{{ .Release.Name }}}}-{event}-{{{{ .Release.Revision }}}}\n  annotations: \
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
async fn comes_to(session: &Session, name: &str, scene: &Scene<'_>) {
    comes(&format!("{name}: {}", scene.what), async || {
        let object: Option<HelmRelease> = session.get("@home", name).await;
        let status = object.and_then(|object| object.status).unwrap_or_default();
        let records = records(session, name).await;
        let map: Option<ConfigMap> = session.get("@home", &format!("{name}-map")).await;
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

async fn is_gone(session: &Session, name: &str) {
    comes(&format!("{name}: removed"), async || {
        let object: Option<HelmRelease> = session.get("@home", name).await;
        match object {
            None => Ok(()),
            Some(object) => Err(format!("{:?}", conditions(&object.status.unwrap_or_default()))),
        }
    })
    .await;
    assert!(records(session, name).await.is_empty(), "{name}");
    let map: Option<ConfigMap> = session.get("@home", &format!("{name}-map")).await;
    assert!(map.is_none(), "{name}");
}

/// A life of a release in which each engine dies after its n-th write.
struct Life<'a> {
    session: &'a mut Session,
    n: usize,
    log: Vec<Call>,
    /// The engines that died.
    deaths: usize,
}

impl Life<'_> {
    /// Starts an engine for a part of the story.
    async fn begin(&mut self) {
        self.session.faults = mortal(self.n, Death::After).0;
        self.session.engine(Options::default()).await;
    }

    /// Waits for the end of a part; another engine continues where the first one dies.
    async fn reach(&mut self, part: impl AsyncFn(&Session)) {
        let faults = self.session.faults.clone();
        let died = tokio::select! {
            biased;
            () = faults.died() => true,
            () = part(self.session) => false,
        };
        if died {
            self.session.kill();
            self.deaths += 1;
            self.log.extend(faults.log());
            self.session.faults = Faults::seeded(2);
            self.session.engine(Options::default()).await;
            part(self.session).await;
        }
        self.log.extend(self.session.faults.log());
    }

    async fn live(&mut self) {
        let name = &*format!("app-{}", self.n);
        self.begin().await;
        let spec = json!({
            "timeout": "20s", "values": { "value": "one" }, "test": { "enable": true },
            "upgrade": { "remediation": { "remediateLastFailure": true } },
        });
        release(self.session, name, spec).await;
        self.reach(async |session| comes_to(session, name, &INSTALLED).await)
            .await;
        self.begin().await;
        change(
            self.session,
            name,
            json!({ "spec": { "values": { "value": "two" } } }),
        )
        .await;
        self.reach(async |session| comes_to(session, name, &UPGRADED).await)
            .await;
        self.begin().await;
        let broken =
            json!({ "annotations": { "equate.dev/simulate": "ImagePullBackOff" }, "value": "broken" });
        change(self.session, name, json!({ "spec": { "values": broken } })).await;
        self.reach(async |session| comes_to(session, name, &ROLLED_BACK).await)
            .await;
        self.begin().await;
        self.session.delete::<HelmRelease>("@home", name).await;
        self.reach(async |session| is_gone(session, name).await).await;

        let (mut hooks, mut stored): (BTreeMap<&str, usize>, usize) = (BTreeMap::new(), 0);
        for call in &self.log {
            let hook = call.path.split_once(&format!("/jobs/{name}-"));
            match (call.method.as_str(), hook) {
                ("PATCH", Some((_, hook))) => *hooks.entry(hook).or_default() += 1,
                ("POST", _) if call.path.ends_with("/secrets") => stored += 1,
                _ => {}
            }
        }
        let once: BTreeMap<&str, usize> = HOOKS.into_iter().map(|name| (name, 1)).collect();
        assert_eq!(hooks, once, "{name}: hooks");
        assert_eq!(stored, ROLLED_BACK.records.len(), "{name}: records");
    }
}

/// Lives with a death after each write from the first one on, of every second one, until none is so late.
async fn lives(first: usize) {
    let hooks = hooks();
    let mut session = start(&[DEPLOYMENT, ("charts/app/templates/hooks.yaml", &hooks)]).await;
    for n in (first..200).step_by(2) {
        let mut life = Life {
            session: &mut session,
            n,
            log: Vec::new(),
            deaths: 0,
        };
        life.live().await;
        if life.deaths == 0 {
            assert!(n > 20, "a part of the story has more writes than {n}");
            session.end().await;
            return;
        }
    }
    panic!("the story never ends");
}

#[tokio::test(start_paused = true)]
async fn killed_after_each_odd_write() {
    lives(1).await;
}

#[tokio::test(start_paused = true)]
async fn killed_after_each_even_write() {
    lives(2).await;
}
