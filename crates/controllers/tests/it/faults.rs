//! The cluster converges to git, and no object that git holds is deleted: under all faults of the API
//! server, the network and git, and when the process dies at any time.
//!
//! One short story, repeated under each fault: objects are applied; a commit changes one, removes one and
//! adds one; a person deletes one. The clock is paused, so that backoff costs nothing and a story that
//! never converges fails soon.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use equate_api::meta::{ConditionType, condition};
use equate_api::source::GitRepository;
use equate_testkit::faults::{Call, Death, Fault, Faults, Rule, Verb};
use equate_testkit::git::Fault as GitFault;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};
use serde_json::json;
use tokio::time::Instant;

use crate::session::{Options, Session, config_map, deployment, inventory, ready};

/// Of the paused clock: the longest backoff is a quarter of an hour.
const DEADLINE: Duration = Duration::from_secs(2 * 3600);
const OWNED: &str = "kustomize.toolkit.fluxcd.io/name=apps";

/// Waits for a level, a second of the paused clock at a time.
pub(crate) async fn comes(what: &str, mut look: impl AsyncFnMut() -> Result<(), String>) {
    let end = Instant::now() + DEADLINE;
    loop {
        let Err(seen) = look().await else { return };
        assert!(Instant::now() < end, "never: {what}; last seen: {seen}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The managed ConfigMaps, by name.
async fn values(session: &Session) -> BTreeMap<String, String> {
    let maps: Api<ConfigMap> = Api::namespaced(session.client.clone(), "default");
    let list = maps.list(&ListParams::default().labels(OWNED)).await.unwrap();
    let value = |map: ConfigMap| map.data.unwrap_or_default().remove("value").unwrap_or_default();
    let named = |map: ConfigMap| (map.metadata.name.clone().unwrap_or_default(), value(map));
    list.items.into_iter().map(named).collect()
}

/// Waits until the cluster equals this, and the Kustomization reports it.
async fn equals(session: &Session, what: &str, revision: &str, maps: &[(&str, &str)], others: &[&str]) {
    let expected: BTreeMap<String, String> = maps
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let mut ids: Vec<String> = expected
        .keys()
        .map(|name| format!("default_{name}__ConfigMap"))
        .collect();
    ids.extend(others.iter().map(|id| (*id).to_owned()));
    ids.sort();
    comes(&format!("{what}: {maps:?} at {revision}"), async || {
        let status = session
            .kustomizations()
            .get("apps")
            .await
            .unwrap()
            .status
            .unwrap_or_default();
        let mut listed = inventory(&status);
        listed.sort();
        let values = values(session).await;
        let applied = ("True".to_owned(), format!("Applied revision: {revision}"));
        if values == expected && listed == ids && ready(&status) == applied {
            return Ok(());
        }
        Err(format!(
            "{values:?}, inventory {listed:?}, {:?}",
            status.conditions
        ))
    })
    .await;
}

/// No request deleted an object other than `allowed`.
pub(crate) fn deleted_only(what: &str, log: &[Call], allowed: &[&str]) {
    for call in log.iter().filter(|call| call.to_string().starts_with("DELETE ")) {
        let name = call.path.rsplit('/').next().unwrap_or_default();
        assert!(allowed.contains(&name), "{what}: {call}");
    }
}

fn files() -> Vec<(&'static str, String)> {
    vec![
        ("apps/a.yaml", config_map("a", "one")),
        ("apps/b.yaml", config_map("b", "one")),
        ("apps/web.yaml", deployment("web", "example.org/web:1", json!({}))),
    ]
}

async fn start() -> Session {
    let files = files();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, &**text)).collect();
    Session::start(&files).await
}

const WEB: &[&str] = &["default_web_apps_Deployment"];

/// The second commit changes `a`, removes `b` and adds `c`.
fn second_commit(session: &Session) -> String {
    session.commit(&[
        ("apps/a.yaml", Some(&config_map("a", "two"))),
        ("apps/b.yaml", None),
        ("apps/c.yaml", Some(&config_map("c", "two"))),
    ])
}

/// The story, under faults from the engine's first request on.
async fn check(what: &str, rules: &[Rule]) {
    let mut session = start().await;
    for rule in rules {
        session.faults.add(rule.clone());
    }
    session.engine(Options::default()).await;
    let first = session.commit(&[]);
    session
        .kustomize("apps", "apps", json!({ "wait": true, "retryInterval": "10s" }))
        .await;
    equals(&session, what, &first, &[("a", "one"), ("b", "one")], WEB).await;
    deleted_only(what, &session.faults.log(), &[]);

    let second = second_commit(&session);
    equals(&session, what, &second, &[("a", "two"), ("c", "two")], WEB).await;

    session.delete::<ConfigMap>("default", "a").await;
    session.delete::<Deployment>("default", "web").await;
    comes(
        &format!("{what}: what was deleted by hand comes back"),
        async || {
            let web: Option<Deployment> = session.get("default", "web").await;
            let values = values(&session).await;
            if web.is_some() && values.contains_key("a") {
                Ok(())
            } else {
                Err(format!("{values:?}"))
            }
        },
    )
    .await;
    equals(&session, what, &second, &[("a", "two"), ("c", "two")], WEB).await;
    deleted_only(what, &session.faults.log(), &["b"]);
    let hit = session
        .faults
        .log()
        .iter()
        .filter(|call| call.fault.is_some())
        .count();
    assert!(rules.is_empty() || hit > 0, "{what}: nothing was hit");
    session.end().await;
}

#[tokio::test(start_paused = true)]
async fn without_faults() {
    check("no fault", &[]).await;
}

/// A status in place of answers: to each kind of request a few times, and to a third of all.
pub(crate) fn answers(code: u16, retry_after_seconds: Option<u32>) -> [(String, Vec<Rule>); 2] {
    let fault = Fault::Status {
        code,
        retry_after_seconds,
    };
    let on = |verb, path: &str| Rule::new(verb, path, fault);
    let each = vec![
        on(Verb::Patch, "/configmaps/").times(3),
        on(Verb::Patch, "/status").times(4),
        on(Verb::Delete, "/configmaps/").times(2),
        on(Verb::Watch, "").times(6),
        on(Verb::Create, "").times(2),
    ];
    let third = vec![on(Verb::Any, "").percent(33).times(80)];
    [
        (format!("{code} to each kind of request"), each),
        (format!("{code} to a third of all"), third),
    ]
}

async fn check_status(code: u16, retry_after_seconds: Option<u32>) {
    for (what, rules) in answers(code, retry_after_seconds) {
        check(&what, &rules).await;
    }
}

#[tokio::test(start_paused = true)]
async fn conflict() {
    check_status(409, None).await;
}

#[tokio::test(start_paused = true)]
async fn gone() {
    check_status(410, None).await;
}

#[tokio::test(start_paused = true)]
async fn too_many_requests() {
    check_status(429, Some(5)).await;
}

#[tokio::test(start_paused = true)]
async fn internal_error() {
    check_status(500, None).await;
}

#[tokio::test(start_paused = true)]
async fn unavailable() {
    check_status(503, None).await;
}

#[tokio::test(start_paused = true)]
async fn broken_connections() {
    let on = Rule::new;
    check(
        "unreachable",
        &[on(Verb::Any, "", Fault::Unreachable).percent(40).times(80)],
    )
    .await;
    check(
        "answers lost after the write",
        &[on(Verb::Write, "", Fault::LostAnswer).percent(50).times(40)],
    )
    .await;
    check(
        "answers that break off",
        &[on(Verb::Any, "", Fault::CutAfterBytes(300)).percent(30).times(40)],
    )
    .await;
    check(
        "slow answers",
        &[on(Verb::Any, "", Fault::Slow(Duration::from_secs(20))).percent(50)],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn failing_watches() {
    let on = |fault| [Rule::new(Verb::Watch, "", fault)];
    check("watches that end after each event", &on(Fault::EndAfterLines(1))).await;
    check("watches that are cut in a line", &on(Fault::CutAfterLines(1))).await;
    check("watches that fall silent", &on(Fault::SilentAfterLines(1))).await;
    check(
        "watches that never say anything",
        &[Rule::new(Verb::Watch, "", Fault::SilentAfterLines(0)).times(12)],
    )
    .await;
    check("watches that repeat themselves", &on(Fault::RepeatLines)).await;
    check(
        "watches whose history is gone",
        &[Rule::new(Verb::Watch, "", Fault::ErrorEvent(410)).times(12)],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn git_is_unreachable_for_a_while() {
    let session = start().await;
    let first = session.commit(&[]);
    session.kustomize("apps", "apps", json!({})).await;
    equals(
        &session,
        "git is there",
        &first,
        &[("a", "one"), ("b", "one")],
        WEB,
    )
    .await;

    let path = session.repository.path().to_path_buf();
    let away = path.with_extension("away");
    std::fs::rename(&path, &away).unwrap();
    session
        .merge::<GitRepository>("flux-system", "fleet", requested("1"))
        .await;
    source_fails(&session, "git is gone").await;
    // the fetched state stays valid: a deleted object comes back without git
    session.delete::<ConfigMap>("default", "a").await;
    comes("a comes back", async || {
        let values = values(&session).await;
        let status = session
            .kustomizations()
            .get("apps")
            .await
            .unwrap()
            .status
            .unwrap_or_default();
        if values.contains_key("a") {
            Ok(())
        } else {
            Err(format!("{values:?}, {:?}", status.conditions))
        }
    })
    .await;
    equals(
        &session,
        "git is gone",
        &first,
        &[("a", "one"), ("b", "one")],
        WEB,
    )
    .await;
    deleted_only("git is gone", &session.faults.log(), &[]);

    std::fs::rename(&away, &path).unwrap();
    let second = second_commit(&session);
    equals(
        &session,
        "git is back",
        &second,
        &[("a", "two"), ("c", "two")],
        WEB,
    )
    .await;
    deleted_only("git is back", &session.faults.log(), &["b"]);
    session.end().await;
}

/// Waits until the source reports a failed fetch.
async fn source_fails(session: &Session, what: &str) {
    comes(&format!("{what}: the source says that it fails"), async || {
        let fleet: Option<GitRepository> = session.get("flux-system", "fleet").await;
        let status = fleet.unwrap().status.unwrap_or_default();
        let ready = condition(&status.conditions, ConditionType::Ready);
        let said = format!("{ready:?}");
        if ready.is_some_and(|ready| ready.status == "False") {
            Ok(())
        } else {
            Err(said)
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn git_is_slow_or_answers_garbage() {
    // another test of this process may have been first
    rustls::crypto::ring::default_provider().install_default().ok();
    let session = start().await;
    let Some(server) = session.repository.serve_http().unwrap() else {
        return;
    };
    // the second is one of the real clock: git is read outside of the paused one
    let spec = json!({ "spec": { "url": server.url(), "interval": "1m", "timeout": "1s" } });
    session.merge::<GitRepository>("flux-system", "fleet", spec).await;
    let first = session.commit(&[]);
    session.kustomize("apps", "apps", json!({})).await;
    equals(
        &session,
        "git is well",
        &first,
        &[("a", "one"), ("b", "one")],
        WEB,
    )
    .await;

    let ms = Duration::from_millis;
    // each with whether a source can still be read
    let table = [
        (GitFault::Delay(ms(100)), true),
        (GitFault::Silence, false),
        (GitFault::Stall, false),
        (GitFault::Status(503), false),
        (GitFault::Garbage, false),
        (GitFault::Page, false),
        (GitFault::Cut(30), false),
    ];
    for (number, (fault, readable)) in table.into_iter().enumerate() {
        let what = format!("git and {fault:?}");
        server.set(fault);
        let value = number.to_string();
        let revision = session.commit(&[("apps/a.yaml", Some(&config_map("a", &value)))]);
        session
            .merge::<GitRepository>("flux-system", "fleet", requested(&value))
            .await;
        let now = [("a", &*value), ("b", "one")];
        if !readable {
            source_fails(&session, &what).await;
            assert_eq!(values(&session).await.len(), 2, "{what}");
            server.set(GitFault::None);
        }
        equals(&session, &what, &revision, &now, WEB).await;
        server.set(GitFault::None);
        deleted_only(&what, &session.faults.log(), &[]);
    }
    session.end().await;
}

fn requested(token: &str) -> serde_json::Value {
    json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": token } } })
}

/// The end of the story for an engine that dies at its n-th write.
struct Life {
    /// Whether there was an n-th write.
    died: bool,
    writes: usize,
}

/// A client that dies at its n-th write, Kubernetes Events aside: nothing depends on them.
pub(crate) fn mortal(n: usize, death: Death) -> (Faults, Arc<AtomicUsize>) {
    let faults = Faults::seeded(1);
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&writes);
    faults.die_when(move |call| {
        let counts = call.is_write() && !call.path.contains("/events");
        (counts && counted.fetch_add(1, Ordering::SeqCst) + 1 == n).then_some(death)
    });
    (faults, writes)
}

/// Every managed object is in the inventory, where the next process finds it.
async fn nothing_is_forgotten(session: &Session, what: &str) {
    let Ok(object) = session.kustomizations().get("apps").await else {
        return;
    };
    let listed = inventory(&object.status.unwrap_or_default());
    for name in values(session).await.keys() {
        let id = format!("default_{name}__ConfigMap");
        assert!(
            listed.contains(&id),
            "{what}: {id} is applied, the inventory has {listed:?}"
        );
    }
}

/// Waits for a state of the story, and starts another engine where the first one dies.
async fn reach(session: &mut Session, what: &str, revision: &str, maps: &[(&str, &str)], wiped: bool) {
    let faults = session.faults.clone();
    let died = {
        let reached = equals(session, what, revision, maps, &[]);
        tokio::select! {
            biased;
            () = faults.died() => true,
            () = reached => false,
        }
    };
    if died {
        session.kill();
        nothing_is_forgotten(session, what).await;
        if wiped {
            session.lose_artifacts();
        }
        session.faults = Faults::seeded(2);
        session.engine(Options::default()).await;
        equals(session, what, revision, maps, &[]).await;
    }
}

async fn live(n: usize, death: Death) -> Life {
    let wiped = n.is_multiple_of(2) == (death == Death::Before);
    let what = format!(
        "dies at write {n}, {death:?}, {}",
        if wiped { "artifacts lost" } else { "artifacts kept" }
    );
    let files = [
        ("apps/a.yaml", &*config_map("a", "one")),
        ("apps/b.yaml", &*config_map("b", "one")),
    ];
    let mut session = Session::start(&files).await;
    let (faults, writes) = mortal(n, death);
    session.faults = faults.clone();
    session.engine(Options::default()).await;
    let first = session.commit(&[]);
    session.kustomize("apps", "apps", json!({})).await;
    reach(&mut session, &what, &first, &[("a", "one"), ("b", "one")], wiped).await;
    deleted_only(&what, &faults.log(), &[]);
    deleted_only(&what, &session.faults.log(), &[]);
    let second = second_commit(&session);
    reach(&mut session, &what, &second, &[("a", "two"), ("c", "two")], wiped).await;
    deleted_only(&what, &faults.log(), &["b"]);
    deleted_only(&what, &session.faults.log(), &["b"]);
    session.end().await;
    Life {
        died: faults.is_dead(),
        writes: writes.load(Ordering::SeqCst),
    }
}

/// Dies at each write in turn, until a run ends before its n-th write.
async fn lives(death: Death) {
    for n in 1..200 {
        let life = live(n, death).await;
        if !life.died {
            eprintln!(
                "{death:?}: an engine made {} writes and died at each",
                life.writes
            );
            assert!(n > 8, "the story has more writes than {n}");
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
