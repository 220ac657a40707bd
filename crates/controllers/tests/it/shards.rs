//! Several engines share a cluster. Each writes only its own objects, and an object that moves between them
//! is handed over, in any order of runs and restarts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use equate_api::kustomize::{Kustomization, KustomizationStatus};
use equate_api::meta::ConditionType;
use equate_api::source::GitRepository;
use equate_controllers::{ControllerSet, Engine, Shards, all};
use equate_git::{Limits, Mirrors};
use equate_source::{Retention, Storage};
use equate_testkit::eventually::eventually;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::session::{DEADLINE, Options, Session, URL, document, inventory, said};

const KEY: &str = "sharding.fluxcd.io/key";
const OWNER: &str = "kustomize.toolkit.fluxcd.io/name";

/// A session with a process for its source, and one for each shard's Kustomizations. The Kustomization `a`
/// belongs to the shard `a`.
struct Fleet {
    session: Session,
    shards: BTreeMap<&'static str, Engine>,
    source: Engine,
    serving: JoinHandle<()>,
}

impl Fleet {
    async fn start(files: &[(&str, String)]) -> Fleet {
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, &**text)).collect();
        let mut session = Session::anywhere_with(&files, Options::default()).await;
        session.stop().await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let folder = session.folder().join("source");
        std::fs::create_dir_all(&folder).unwrap();
        let storage = Storage::open(folder, &url, Retention::default()).unwrap();
        let router = storage.router();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let sources = all().only(&["source-controller"]);
        let labels = session.own();
        let source = engine(&session, "source", storage, sources, &labels).await;
        Fleet {
            session,
            shards: BTreeMap::new(),
            source,
            serving,
        }
    }

    async fn on(&mut self, shard: &'static str) {
        let folder = self.session.folder().join(shard);
        std::fs::create_dir_all(&folder).unwrap();
        let storage = Storage::open(folder, "http://127.0.0.1:9", Retention::default()).unwrap();
        let kustomizations = all().only(&["kustomize-controller"]);
        let labels = format!("{},{KEY}={shard}", self.session.own());
        let engine = engine(&self.session, shard, storage, kustomizations, &labels).await;
        self.shards.insert(shard, engine);
    }

    fn off(&mut self, shard: &str) {
        drop(self.shards.remove(shard).unwrap());
    }

    /// The Kustomization of a shard; `on` are its dependencies.
    async fn kustomize(&self, shard: &str, on: &[&str]) {
        let on: Vec<Value> = on.iter().map(|name| json!({ "name": name })).collect();
        let spec = json!({ "dependsOn": on, "timeout": "10m" });
        let labels = json!({ "metadata": { "labels": { KEY: shard } } });
        self.session.kustomize(shard, shard, spec).await;
        self.session.patch(shard, labels).await;
    }

    async fn poll(&self) {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        let asked = ASKED.fetch_add(1, Ordering::Relaxed).to_string();
        let request = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": asked } } });
        let home = &self.session.home;
        self.session.merge::<GitRepository>(home, "fleet", request).await;
    }

    /// Waits until a Kustomization has an object in its inventory, or not.
    async fn holds(&self, shard: &str, name: &str, expected: bool) -> KustomizationStatus {
        let what = format!("{name} is in the inventory: {expected}");
        let holds = |status: &KustomizationStatus| self.has(status, name) == expected;
        self.session.until(shard, &what, holds).await
    }

    fn has(&self, status: &KustomizationStatus, name: &str) -> bool {
        let id = format!("{}_{name}__ConfigMap", self.session.home);
        inventory(status).contains(&id)
    }

    /// An object's uid, and the owner in its labels.
    async fn found(&self, name: &str) -> (String, String) {
        let map: ConfigMap = self.session.get("@home", name).await.unwrap();
        let labels = map.metadata.labels.unwrap_or_default();
        (
            map.metadata.uid.unwrap_or_default(),
            labels.get(OWNER).cloned().unwrap_or_default(),
        )
    }

    /// Waits until an object has a new owner, and nothing is blocked or contested any more.
    async fn taken(&self, name: &str, uid: &str, from: &str, to: &str, revision: &str) {
        for shard in [from, to] {
            let what = format!("at {revision}, and at peace");
            let passes = |status: &KustomizationStatus| {
                let quiet = [ConditionType::PruneBlocked, ConditionType::OwnershipConflict];
                status.last_applied_revision.as_deref() == Some(revision)
                    && quiet.into_iter().all(|of| said(status, of).is_empty())
                    && self.has(status, name) == (shard == to)
            };
            self.session.until(shard, &what, passes).await;
        }
        let owner = async || match self.found(name).await {
            (_, owner) if owner == to => Ok(()),
            other => Err(format!("{other:?}")),
        };
        eventually(&format!("{name} is {to}'s"), DEADLINE, owner).await;
        assert_eq!(self.found(name).await.0, uid, "{name} was made anew");
        self.never_deleted(name);
    }

    fn never_deleted(&self, name: &str) {
        let path = format!("/configmaps/{name}");
        for call in self.session.faults.log() {
            let deletes = call.to_string().starts_with("DELETE ") && call.path.ends_with(&path);
            assert!(!deletes, "{call}");
        }
    }

    async fn end(mut self) {
        while let Some((_, engine)) = self.shards.pop_first() {
            engine.stop().await;
        }
        self.source.stop().await;
        self.serving.abort();
        self.session.end().await;
    }
}

async fn engine(
    session: &Session,
    name: &str,
    storage: Storage,
    controllers: ControllerSet,
    labels: &str,
) -> Engine {
    let mirrors = Mirrors::new(session.folder().join(format!("git-{name}")), Limits::default());
    let labels = labels.trim_start_matches(',');
    Engine::builder(session.faults.wrap(&session.client))
        .mirrors(mirrors.instead_of(URL, session.repository.path()))
        .storage(storage)
        .controllers(controllers)
        .shards(Shards::default().labels(labels).unwrap())
        .start()
        .await
        .unwrap()
}

fn map(name: &str, value: &str) -> String {
    document(&json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": "@home" },
        "data": { "value": value },
    }))
}

/// Events of the processes around the commit that moves `x` from `a` to `b`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Meanwhile {
    Nothing,
    /// The former owner is stopped, and starts when the taker waits for it.
    NoDropper,
    /// The taker is stopped, and starts when the former owner waits for it.
    NoTaker,
    /// The taker is killed after its claim, and starts after the release.
    TakerKilled,
    /// The former owner is killed while it waits, and starts after the taker's claim.
    DropperKilled,
}

async fn check(a_on: &[&str], b_on: &[&str], swap: bool, meanwhile: Meanwhile) {
    eprintln!("{a_on:?} {b_on:?} {swap} {meanwhile:?}");
    let mut fleet = Fleet::start(&[
        ("a/keep.yaml", map("keep", "1")),
        ("a/x.yaml", map("x", "1")),
        ("a/gone.yaml", map("gone", "1")),
        ("b/own.yaml", map("own", "1")),
        ("b/y.yaml", map("y", "1")),
    ])
    .await;
    let first = fleet.session.commit(&[]);
    for shard in ["a", "b"] {
        fleet.on(shard).await;
    }
    fleet.kustomize("a", a_on).await;
    fleet.kustomize("b", b_on).await;
    for shard in ["a", "b"] {
        fleet.session.ready(shard, &first).await;
    }
    let (x, _) = fleet.found("x").await;
    let (y, _) = fleet.found("y").await;
    let keep: ConfigMap = fleet.session.get("@home", "keep").await.unwrap();

    match meanwhile {
        Meanwhile::Nothing => {}
        Meanwhile::NoDropper | Meanwhile::TakerKilled => fleet.off("a"),
        Meanwhile::NoTaker | Meanwhile::DropperKilled => fleet.off("b"),
    }
    let (moved, back) = (map("x", "2"), map("y", "2"));
    let mut files = vec![
        ("a/x.yaml", None),
        ("b/x.yaml", Some(&*moved)),
        ("a/gone.yaml", None),
    ];
    if swap {
        files.extend([("b/y.yaml", None), ("a/y.yaml", Some(&*back))]);
    }
    let second = fleet.session.commit(&files);
    fleet.poll().await;
    match meanwhile {
        Meanwhile::Nothing => {}
        Meanwhile::NoDropper => {
            fleet.holds("b", "x", true).await;
            fleet.on("a").await;
        }
        Meanwhile::NoTaker | Meanwhile::DropperKilled => {
            // ready at once, unless it takes an object itself
            let waits = |status: &KustomizationStatus| match swap {
                true => fleet.has(status, "y"),
                false => {
                    said(status, ConditionType::PruneBlocked).contains("x")
                        && status.last_applied_revision.as_ref() == Some(&second)
                }
            };
            fleet.session.until("a", "says what it drops", waits).await;
            if meanwhile == Meanwhile::DropperKilled {
                fleet.off("a");
                fleet.on("b").await;
                fleet.holds("b", "x", true).await;
                fleet.on("a").await;
            } else {
                fleet.on("b").await;
            }
        }
        Meanwhile::TakerKilled => {
            fleet.holds("b", "x", true).await;
            fleet.off("b");
            fleet.on("a").await;
            fleet.holds("a", "x", false).await;
            assert_eq!(fleet.found("x").await.1, "a");
            fleet.on("b").await;
        }
    }
    fleet.taken("x", &x, "a", "b", &second).await;
    fleet.session.value("@home", "x", Some("2")).await;
    if swap {
        fleet.taken("y", &y, "b", "a", &second).await;
        fleet.session.value("@home", "y", Some("2")).await;
    }
    // an object that did not move is pruned, and unchanged ones are untouched
    fleet.session.value("@home", "gone", None).await;
    let kept: ConfigMap = fleet.session.get("@home", "keep").await.unwrap();
    assert_eq!(kept.metadata.resource_version, keep.metadata.resource_version);
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_is_handed_over() {
    check(&[], &[], false, Meanwhile::Nothing).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_is_handed_over_by_a_restarted_shard() {
    check(&[], &[], false, Meanwhile::NoDropper).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_is_handed_over_to_a_restarted_shard() {
    check(&[], &[], false, Meanwhile::NoTaker).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_taker_is_killed() {
    check(&[], &[], false, Meanwhile::TakerKilled).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_former_owner_is_killed() {
    check(&[], &[], false, Meanwhile::DropperKilled).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_taker_depends_on_the_former_owner() {
    check(&[], &["a"], false, Meanwhile::Nothing).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_former_owner_depends_on_the_taker() {
    check(&["b"], &[], false, Meanwhile::Nothing).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_takes_from_the_other() {
    check(&[], &[], true, Meanwhile::Nothing).await;
    check(&[], &[], true, Meanwhile::DropperKilled).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_takes_from_the_other_and_one_waits() {
    check(&[], &["a"], true, Meanwhile::Nothing).await;
    check(&["b"], &[], true, Meanwhile::TakerKilled).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_object_that_nobody_wants_is_deleted() {
    let mut fleet = Fleet::start(&[
        ("a/keep.yaml", map("keep", "1")),
        ("a/x.yaml", map("x", "1")),
        ("b/own.yaml", map("own", "1")),
    ])
    .await;
    let first = fleet.session.commit(&[]);
    for shard in ["a", "b"] {
        fleet.on(shard).await;
        fleet.kustomize(shard, &[]).await;
        fleet.session.ready(shard, &first).await;
    }
    fleet.off("a");
    let moved = map("x", "2");
    fleet
        .session
        .commit(&[("a/x.yaml", None), ("b/x.yaml", Some(&moved))]);
    fleet.poll().await;
    fleet.holds("b", "x", true).await;
    fleet.off("b");
    fleet.on("a").await;
    fleet.holds("a", "x", false).await;
    assert_eq!(fleet.found("x").await.1, "a");
    // nobody wants it by the time it could be taken
    let third = fleet.session.commit(&[("b/x.yaml", None)]);
    fleet.poll().await;
    fleet.session.ready("a", &third).await;
    fleet.on("b").await;
    fleet.session.ready("b", &third).await;
    fleet.session.value("@home", "x", None).await;
    fleet.holds("b", "x", false).await;
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_wants_an_object_keeps_it() {
    let mut fleet = Fleet::start(&[("a/x.yaml", map("x", "a")), ("b/own.yaml", map("own", "1"))]).await;
    let first = fleet.session.commit(&[]);
    for shard in ["a", "b"] {
        fleet.on(shard).await;
        fleet.kustomize(shard, &[]).await;
        fleet.session.ready(shard, &first).await;
    }
    let (uid, _) = fleet.found("x").await;
    let wanted = map("x", "b");
    let second = fleet.session.commit(&[("b/x.yaml", Some(&wanted))]);
    fleet.poll().await;
    fleet.session.ready("a", &second).await;
    fleet.session.fails("b", "OwnershipConflict").await;
    fleet.session.value("@home", "x", Some("a")).await;
    assert_eq!(fleet.found("x").await.1, "a");
    // its claim remains
    fleet.holds("b", "x", true).await;
    let third = fleet
        .session
        .commit(&[("a/x.yaml", None), ("a/other.yaml", Some(&map("other", "1")))]);
    fleet.poll().await;
    fleet.taken("x", &uid, "a", "b", &third).await;
    fleet.session.value("@home", "x", Some("b")).await;
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_another_shard_are_not_written() {
    let mut fleet = Fleet::start(&[("a/a.yaml", map("a", "1")), ("b/b.yaml", map("b", "1"))]).await;
    let first = fleet.session.commit(&[]);
    fleet.on("a").await;
    fleet.kustomize("b", &[]).await;
    fleet.kustomize("a", &[]).await;
    fleet.session.ready("a", &first).await;
    let untouched: Kustomization = fleet.session.kustomizations().get("b").await.unwrap();
    assert_eq!(untouched.metadata.finalizers, None);
    assert_eq!(
        untouched.status.and_then(|status| status.observed_generation),
        Some(-1)
    );
    assert_eq!(fleet.session.events("b").await, [""; 0]);
    assert!(fleet.session.get::<ConfigMap>("@home", "b").await.is_none());

    // with the other label, the object is ours
    let label = |shard: &str| json!({ "metadata": { "labels": { KEY: shard } } });
    fleet.session.patch("b", label("a")).await;
    fleet.session.ready("b", &first).await;
    // and back: its objects stay, and this process leaves them alone
    fleet.session.patch("b", label("b")).await;
    // a later object is reconciled, so the change was noticed
    let asked = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "after" } } });
    fleet.session.patch("a", asked).await;
    let answered =
        |status: &KustomizationStatus| status.last_handled_reconcile_at.as_deref() == Some("after");
    fleet.session.until("a", "has answered", answered).await;
    let files = [("a/a.yaml", map("a", "2")), ("b/b.yaml", map("b", "2"))];
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, Some(&**text))).collect();
    let second = fleet.session.commit(&files);
    fleet.poll().await;
    fleet.session.ready("a", &second).await;
    fleet.session.value("@home", "b", Some("1")).await;
    fleet.on("b").await;
    fleet.session.ready("b", &second).await;
    fleet.session.value("@home", "b", Some("2")).await;
    fleet.end().await;
}
