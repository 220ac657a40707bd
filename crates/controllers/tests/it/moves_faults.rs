//! A move under the fault table: whatever the API server answers and whenever the process dies, the moved
//! object keeps its uid.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use equate_api::kustomize::Kustomization;
use equate_api::meta::ConditionType;
use equate_testkit::faults::{Death, Fault, Rule, Verb};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::faults::{answers, comes, deleted_only, mortal};
use crate::session::{HOME, Options, Session, config_map, inventory, ready, said};

const OWNER: &str = "kustomize.toolkit.fluxcd.io/name";
/// The former owner, and the taker, which depends on it.
const FROM: &str = "a";
const TO: &str = "b";

async fn start() -> Session {
    let (x, gone, own) = (
        config_map("x", "one"),
        config_map("gone", "one"),
        config_map("own", "one"),
    );
    Session::start(&[
        ("a/x.yaml", &*x),
        ("a/gone.yaml", &*gone),
        ("a/keep.yaml", &*config_map("keep", "one")),
        ("b/own.yaml", &*own),
    ])
    .await
}

async fn kustomize(session: &Session) {
    let spec = json!({ "retryInterval": "10s" });
    session.kustomize(FROM, FROM, spec).await;
    let spec = json!({ "retryInterval": "10s", "dependsOn": [{ "name": FROM }] });
    session.kustomize(TO, TO, spec).await;
}

fn moves(session: &Session) -> String {
    let x = config_map("x", "moved");
    session.commit(&[("a/x.yaml", None), ("a/gone.yaml", None), ("b/x.yaml", Some(&x))])
}

/// The uid of `x`, its owner and its value.
async fn x(session: &Session) -> Option<(String, String, String)> {
    let map: ConfigMap = session.get("default", "x").await?;
    let owner = map.metadata.labels.unwrap_or_default().remove(OWNER);
    let value = map.data.unwrap_or_default().remove("value");
    Some((
        map.metadata.uid.unwrap_or_default(),
        owner.unwrap_or_default(),
        value.unwrap_or_default(),
    ))
}

/// Waits until both are ready at a revision, and hold these ConfigMaps.
async fn equals(session: &Session, what: &str, revision: &str, holds: [(&str, &[&str]); 2]) {
    for (name, maps) in holds {
        let expected: BTreeSet<String> = maps
            .iter()
            .map(|map| format!("default_{map}__ConfigMap"))
            .collect();
        comes(&format!("{what}: {name} at {revision}"), async || {
            let status = session
                .kustomizations()
                .get(name)
                .await
                .unwrap()
                .status
                .unwrap_or_default();
            let applied = ("True".to_owned(), format!("Applied revision: {revision}"));
            let held: BTreeSet<String> = inventory(&status).into_iter().collect();
            if held == expected && ready(&status) == applied {
                return Ok(());
            }
            Err(format!("{held:?}, {:?}", status.conditions))
        })
        .await;
    }
}

const BEFORE: [(&str, &[&str]); 2] = [(FROM, &["gone", "keep", "x"]), (TO, &["own"])];
const AFTER: [(&str, &[&str]); 2] = [(FROM, &["keep"]), (TO, &["own", "x"])];

async fn has_moved(session: &Session, what: &str, uid: &str) {
    let expected = Some((uid.to_owned(), TO.to_owned(), "moved".to_owned()));
    assert_eq!(x(session).await, expected, "{what}");
    let gone: Option<ConfigMap> = session.get("default", "gone").await;
    assert!(
        gone.is_none_or(|map| map.metadata.deletion_timestamp.is_some()),
        "{what}"
    );
    deleted_only(what, &session.faults.log(), &["gone"]);
}

async fn check(what: &str, rules: &[Rule]) {
    let session = start().await;
    let first = session.commit(&[]);
    kustomize(&session).await;
    equals(&session, what, &first, BEFORE).await;
    let (uid, ..) = x(&session).await.unwrap();
    for rule in rules {
        session.faults.add(rule.clone());
    }
    let second = moves(&session);
    equals(&session, what, &second, AFTER).await;
    has_moved(&session, what, &uid).await;
    session.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_api_server() {
    for code in [409, 500] {
        for (what, rules) in answers(code, None) {
            check(&what, &rules).await;
        }
    }
    let lost = Rule::new(Verb::Write, "", Fault::LostAnswer)
        .percent(50)
        .times(30);
    check("answers lost after the write", &[lost]).await;
}

#[tokio::test(start_paused = true)]
async fn failing_watches() {
    let on = |fault| [Rule::new(Verb::Watch, "", fault)];
    check("watches that end after each event", &on(Fault::EndAfterLines(1))).await;
    check("watches that are cut in a line", &on(Fault::CutAfterLines(1))).await;
    check("watches that fall silent", &on(Fault::SilentAfterLines(1))).await;
    let slow = Fault::Slow(Duration::from_secs(20));
    check("slow answers", &[Rule::new(Verb::Any, "", slow).percent(50)]).await;
}

/// Runs the story with an engine that dies at its n-th write after the commit. Returns whether there was
/// one.
async fn live(n: usize, death: Death) -> bool {
    let what = format!("dies at write {n}, {death:?}");
    let mut session = start().await;
    let first = session.commit(&[]);
    kustomize(&session).await;
    equals(&session, &what, &first, BEFORE).await;
    let (uid, ..) = x(&session).await.unwrap();
    session.stop().await;
    let (faults, writes) = mortal(n, death);
    session.faults = faults.clone();
    let second = moves(&session);
    session.engine(Options::default()).await;
    let died = {
        let reached = equals(&session, &what, &second, AFTER);
        tokio::select! {
            biased;
            () = faults.died() => true,
            () = reached => false,
        }
    };
    if died {
        session.kill();
        // an inventory has it
        let mut held = BTreeSet::new();
        for name in [FROM, TO] {
            let status = session.kustomizations().get(name).await.unwrap().status;
            held.extend(inventory(&status.unwrap_or_default()));
        }
        assert!(held.contains("default_x__ConfigMap"), "{what}: {held:?}");
        deleted_only(&what, &faults.log(), &["gone"]);
        session.faults = equate_testkit::faults::Faults::seeded(2);
        session.engine(Options::default()).await;
        equals(&session, &what, &second, AFTER).await;
    }
    has_moved(&session, &what, &uid).await;
    session.end().await;
    if !died {
        eprintln!(
            "{death:?}: an engine made {} writes",
            writes.load(Ordering::SeqCst)
        );
    }
    died
}

#[tokio::test(start_paused = true)]
async fn killed_at_each_write() {
    for death in [Death::Before, Death::After] {
        let mut n = 1;
        while live(n, death).await {
            n += 1;
            assert!(n < 100, "the story never ends");
        }
        assert!(n > 4, "the story has more writes than {n}");
    }
}

/// Waits until a Kustomization's condition contains this text.
async fn says(session: &Session, name: &str, of: ConditionType, text: &str) {
    comes(&format!("{name} says {text:?}"), async || {
        let status = session.kustomizations().get(name).await.unwrap().status;
        let message = said(&status.unwrap_or_default(), of);
        match message.contains(text) {
            true => Ok(()),
            false => Err(message),
        }
    })
    .await;
}

/// Two that read one source; the status of the second cannot be written, so it builds nothing new.
async fn muted() -> (Session, String) {
    let session = start().await;
    let first = session.commit(&[]);
    session.kustomize(FROM, FROM, json!({ "timeout": "1m" })).await;
    session.kustomize(TO, TO, json!({ "retryInterval": "10s" })).await;
    equals(&session, "muted", &first, BEFORE).await;
    let (uid, ..) = x(&session).await.unwrap();
    let refused = Fault::Status {
        code: 500,
        retry_after_seconds: None,
    };
    session
        .faults
        .add(Rule::new(Verb::Patch, "/kustomizations/b/status", refused));
    let own = config_map("own", "two");
    session.commit(&[("b/own.yaml", Some(&own))]);
    comes("b is applied", async || {
        let map: Option<ConfigMap> = session.get("default", "own").await;
        let data = map.and_then(|map| map.data).unwrap_or_default();
        match data.get("value").map(String::as_str) {
            Some("two") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    (session, uid)
}

#[tokio::test(start_paused = true)]
async fn each_revision_renews_the_deadline_of_a_late_one() {
    let (session, uid) = muted().await;
    moves(&session);
    let waits = "Waiting for Kustomization/flux-system/b to be built before ConfigMap/default/x";
    says(&session, FROM, ConditionType::Reconciling, waits).await;
    // its time is over: objects that it may want are kept, and the status says so
    let late = "may have moved to Kustomization/flux-system/b, which has not been built in time";
    says(&session, FROM, ConditionType::PruneBlocked, late).await;
    // another revision has a new deadline, and the old message stays meanwhile
    let keep = config_map("keep", "two");
    let revision = session.commit(&[("a/keep.yaml", Some(&keep))]);
    says(&session, FROM, ConditionType::Reconciling, waits).await;
    says(&session, FROM, ConditionType::PruneBlocked, late).await;
    deleted_only("late", &session.faults.log(), &[]);
    session.faults.clear();
    equals(&session, "not late any more", &revision, AFTER).await;
    has_moved(&session, "not late any more", &uid).await;
    session.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_start_fetches_the_source_before_it_deletes() {
    let mut session = start().await;
    let first = session.commit(&[]);
    kustomize(&session).await;
    equals(&session, "start", &first, BEFORE).await;
    let (uid, ..) = x(&session).await.unwrap();
    session.stop().await;
    session.delete::<Kustomization>(HOME, FROM).await;
    session.patch(TO, json!({ "spec": { "dependsOn": [] } })).await;
    moves(&session);
    // all but the source is fast
    let slow = Fault::Slow(Duration::from_secs(20));
    session
        .faults
        .add(Rule::new(Verb::Patch, "/gitrepositories/fleet/status", slow));
    session.engine(Options::default()).await;
    comes("a is gone", async || {
        let found: Option<Kustomization> = session.get(HOME, FROM).await;
        found.map_or(Ok(()), |object| Err(format!("{:?}", object.status)))
    })
    .await;
    comes("x is the other's", async || match x(&session).await {
        Some((now, owner, value)) if now == uid && owner == TO && value == "moved" => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    deleted_only("start", &session.faults.log(), &["gone", "keep", "a"]);
    session.end().await;
}

#[tokio::test(start_paused = true)]
async fn blocked_pruning_is_reported_continuously() {
    let session = start().await;
    let first = session.commit(&[]);
    kustomize(&session).await;
    equals(&session, "held", &first, BEFORE).await;
    let broken = "resources: [missing.yaml]\n";
    session.commit(&[("a/x.yaml", None), ("b/kustomization.yaml", Some(broken))]);
    let built = "may have moved to Kustomization/flux-system/b, which cannot be built";
    says(&session, FROM, ConditionType::PruneBlocked, built).await;
    for n in 0..5 {
        session.faults.clear_log();
        let other = config_map("other", &n.to_string());
        let revision = session.commit(&[("elsewhere/other.yaml", Some(&other))]);
        let at = format!("Applied revision: {revision}");
        comes("carried on", async || {
            let status = session.kustomizations().get(FROM).await.unwrap().status;
            let (_, message) = ready(&status.unwrap_or_default());
            if message == at { Ok(()) } else { Err(message) }
        })
        .await;
        says(&session, FROM, ConditionType::PruneBlocked, built).await;
        let log = session.faults.log();
        let words = log
            .iter()
            .filter(|call| call.path.ends_with("/kustomizations/a/status"));
        assert_eq!(words.count(), 1, "one word for one revision");
    }
    session.end().await;
}
