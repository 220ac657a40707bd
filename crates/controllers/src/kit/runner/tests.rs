//! The runner's behaviour for every kind, with a controller that records the called verbs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use equate_api::meta::{ConditionType, Reason as Why, condition};
use equate_api::source::{GitRepository, GitRepositoryStatus};
use equate_git::{Limits, Mirrors};
use equate_source::{Retention, Storage};
use equate_testkit::cluster::EmbeddedCluster;
use equate_testkit::eventually::eventually;
use equate_testkit::faults::{Fault, Faults, Rule, Verb};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::kit::backoff::{Backoff, Jitter};
use crate::kit::controller::{Absence, Acted, Controller, Failure, Next, Report, Retry, StandardConditions};
use crate::kit::queue::Counts;
use crate::kit::reconciliation::{Reconciliation, Stop};
use crate::kit::services::Kit;
use crate::kit::wake::Reason;
use crate::kit::{About, Severity, controller::Notice};
use crate::{ControllerSet, Engine, Key, Shards};

const DEADLINE: Duration = Duration::from_secs(60);

/// The called verbs, in order; the test's side of the controller.
#[derive(Clone, Default)]
struct Calls {
    log: Arc<Mutex<Vec<String>>>,
    /// A verb waits here for the test.
    gate: Arc<Notify>,
}

impl Calls {
    fn add(&self, call: impl Into<String>) {
        self.log.lock().unwrap().push(call.into());
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    fn has(&self, call: &str) -> bool {
        self.log.lock().unwrap().iter().any(|own| own == call)
    }
}

/// Reconciles GitRepositories by the last part of their `spec.url`.
struct Probe<const FINALIZER: bool> {
    calls: Calls,
}

const KEEPING: About = About {
    finalizer: Some("example.org/probe"),
    ..BARE
};

const BARE: About = About {
    kind: "GitRepository",
    plural: "gitrepositories",
    group: "source.toolkit.fluxcd.io",
    component: "probe",
    status_manager: "probe",
    ..About::DEFAULT
};

#[derive(Debug, PartialEq)]
enum Plan {
    Again,
    Say(String),
    Release,
}

impl<const FINALIZER: bool> Controller for Probe<FINALIZER> {
    type Object = GitRepository;
    type Declared = (String, bool, i64);
    type Memory = usize;
    type Seen = usize;
    type Plan = Plan;
    type Done = String;

    const ABOUT: &'static About = if FINALIZER { &KEEPING } else { &BARE };

    fn new(kit: &Arc<Kit>) -> Self {
        Self {
            calls: kit.configuration(),
        }
    }

    fn declare(object: &GitRepository) -> Result<Self::Declared, Failure> {
        let word = object.spec.url.rsplit('/').next().unwrap_or_default().to_owned();
        if word == "senseless" {
            return Err(Failure::stalled(Why::Failed, "spec.url makes no sense"));
        }
        let meta = &object.metadata;
        Ok((
            word,
            meta.deletion_timestamp.is_some(),
            meta.generation.unwrap_or_default(),
        ))
    }

    async fn observe(
        &self,
        run: &mut Reconciliation<'_, Self>,
        declared: &Self::Declared,
    ) -> Result<usize, Stop> {
        self.calls.add(format!("observe {}", declared.0));
        run.memory += 1;
        Ok(run.memory)
    }

    fn decide((word, deleting, _): &Self::Declared, rounds: &usize, _: Instant) -> Plan {
        match &**word {
            _ if *deleting => Plan::Release,
            "fetches" if *rounds < 3 => Plan::Again,
            "keeps" if *rounds < 2 => Plan::Again,
            "pauses" => Plan::Again,
            "asks-for-ever" if *rounds < 7 => Plan::Again,
            word => Plan::Say(word.to_owned()),
        }
    }

    async fn act(
        &self,
        run: &mut Reconciliation<'_, Self>,
        (word, ..): &Self::Declared,
        memory: usize,
        plan: Plan,
    ) -> Result<Acted<String>, Stop> {
        if word == "breaks" {
            self.calls.add(format!("act {word} {memory}"));
            assert!(memory != 2, "on purpose");
        }
        if matches!(&**word, "writes" | "waits" | "ends") {
            self.calls.add(format!("act {word} {memory}"));
            self.calls.gate.notified().await;
        }
        if word == "ends" {
            return Err(Stop::Gone);
        }
        if word == "writes" {
            let mut status = run.status();
            status.observed_ignore = Some(format!("written in run {memory}"));
            run.write_status(status).await?;
        }
        if matches!(&**word, "keeps" | "pauses") && plan == Plan::Again {
            let mut status = run.status();
            status.observed_ignore = Some(format!("held in run {memory}"));
            run.hold_status(status);
        }
        Ok(match plan {
            Plan::Again if word == "pauses" => Acted::Unreported(Next::Await),
            Plan::Again => Acted::Again,
            Plan::Say(word) if word == "counts" => Acted::Done(format!("{word} {memory}")),
            Plan::Say(word) => Acted::Done(word),
            Plan::Release => Acted::Released,
        })
    }

    fn report(
        (_, _, generation): &Self::Declared,
        before: &GitRepositoryStatus,
        word: String,
        now: Timestamp,
    ) -> Report<GitRepositoryStatus> {
        let mut status = before.clone();
        let failure = |retry: Retry| Failure {
            retry,
            ..Failure::passing(Why::Failed, word.clone())
        };
        let failure = match &*word {
            "refused" => Some(failure(Retry::Interval)),
            "impossible" => Some(failure(Retry::Never)),
            _ => None,
        };
        let conditions = StandardConditions::new(&mut status, *generation, now);
        match &failure {
            Some(failure) => conditions.failed(failure),
            None => conditions.ready(Why::Succeeded, &word),
        }
        let notice = || Notice::new(Severity::Normal, "Said", word);
        let notice = (status != *before).then(notice);
        Report {
            status,
            notices: notice.into_iter().collect(),
            next: Next::Await,
            ended: true,
            failed: failure.is_some(),
        }
    }

    async fn release_undeclared(
        &self,
        run: &mut Reconciliation<'_, Self>,
        refused: &Failure,
    ) -> Result<Notice, Failure> {
        match run.key().name == "holds" && !self.calls.has("let go") {
            true => Err(Failure::passing(Why::Failed, "something is left")),
            // the default
            false => Ok(Notice::left(refused)),
        }
    }

    fn suspend(&self, key: &Key, memory: usize) {
        self.calls.add(format!("suspend {} {memory}", key.name));
    }

    async fn forget(&self, key: &Key, _: usize, why: Absence) {
        self.calls.add(format!("forget {} {why:?}", key.name));
        if key.name == "lingers" {
            self.calls.gate.notified().await;
        }
    }
}

struct Session {
    cluster: EmbeddedCluster,
    faults: Faults,
    calls: Calls,
    ran: Arc<Mutex<Vec<(String, bool)>>>,
    engine: Option<Engine>,
    _folder: tempfile::TempDir,
}

impl Session {
    async fn start() -> Session {
        Self::of::<Probe<true>>(8).await
    }

    async fn of<C: Controller>(workers: usize) -> Session {
        let cluster = EmbeddedCluster::builder().build().await.unwrap();
        let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
        definitions
            .create(&PostParams::default(), &GitRepository::crd())
            .await
            .unwrap();
        let (faults, calls) = (Faults::seeded(1), Calls::default());
        let ran: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
        let observed = Arc::clone(&ran);
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::open(
            folder.path().join("a"),
            "http://127.0.0.1:9",
            Retention::default(),
        );
        let engine = Engine::builder(faults.wrap(&cluster.client()))
            .controllers(ControllerSet::new().with::<C>())
            .concurrency(workers)
            .configure(calls.clone())
            .observer(Arc::new(move |event| {
                let ran = (event.key.name.clone(), event.failed);
                observed.lock().unwrap().push(ran);
            }))
            .mirrors(Mirrors::new(folder.path().join("git"), Limits::default()))
            .storage(storage.unwrap())
            .shards(Shards::default().labels("!elsewhere").unwrap())
            .jitter(Jitter::none())
            .backoff(Backoff {
                first: Duration::from_millis(10),
                max: Duration::from_millis(10),
            })
            .start()
            .await
            .unwrap();
        Session {
            cluster,
            faults,
            calls,
            ran,
            engine: Some(engine),
            _folder: folder,
        }
    }

    fn api(&self) -> Api<GitRepository> {
        Api::namespaced(self.cluster.client(), "default")
    }

    async fn create(&self, word: &str, merge: Value) {
        let mut object = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": { "name": word, "namespace": "default" },
            "spec": { "url": format!("https://example.org/{word}"), "interval": "10h" },
        });
        json_patch(&mut object, merge);
        let object = serde_json::from_value(object).unwrap();
        self.api().create(&PostParams::default(), &object).await.unwrap();
    }

    fn counts(&self) -> Counts {
        self.engine.as_ref().unwrap().queues()[0].1
    }

    async fn appeared(&self, objects: u64) {
        eventually(&format!("{objects} appeared"), DEADLINE, async || {
            let counts = self.counts();
            match counts.wakes(Reason::Appeared) == objects {
                true => Ok(()),
                false => Err(format!("{counts:?}")),
            }
        })
        .await;
    }

    async fn delete(&self, name: &str) {
        self.api().delete(name, &DeleteParams::default()).await.unwrap();
    }

    async fn patch(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        self.api()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    async fn says(&self, name: &str, of: ConditionType, message: &str) -> GitRepository {
        eventually(&format!("{name} says {message}"), DEADLINE, async || {
            let object = self.api().get(name).await.unwrap();
            let status = object.status.clone().unwrap_or_default();
            match condition(&status.conditions, of) {
                Some(own) if own.message == message => Ok(object),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    async fn gone(&self, name: &str) {
        eventually(&format!("{name} is gone"), DEADLINE, async || {
            match self.api().get_opt(name).await.unwrap() {
                None => Ok(()),
                Some(object) => Err(format!("{object:?}")),
            }
        })
        .await;
    }

    async fn called(&self, call: &str) {
        eventually(call, DEADLINE, async || match self.calls.has(call) {
            true => Ok(()),
            false => Err(format!("{:?}", self.calls.log.lock().unwrap())),
        })
        .await;
    }

    async fn answered(&self, name: &str) -> Option<String> {
        let status = self.api().get(name).await.unwrap().status;
        status.unwrap_or_default().last_handled_reconcile_at
    }

    async fn answers(&self, name: &str, token: &str) {
        eventually(&format!("{name} answers {token}"), DEADLINE, async || match self
            .answered(name)
            .await
            .as_deref()
        {
            Some(own) if own == token => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }

    /// Waits for an event, which nothing repeated.
    async fn has_event(&self, name: &str, reason: &str, message: &str) {
        let api: Api<Event> = Api::namespaced(self.cluster.client(), "default");
        eventually(&format!("an event {reason} of {name}"), DEADLINE, async || {
            let all = api.list(&ListParams::default()).await.unwrap().items;
            let about = |event: &&Event| event.involved_object.name.as_deref() == Some(name);
            let events: Vec<_> = all
                .iter()
                .filter(about)
                .map(|event| (event.reason.as_deref(), event.message.as_deref(), event.count))
                .collect();
            match events.contains(&(Some(reason), Some(message), Some(1))) {
                true => Ok(()),
                false => Err(format!("{events:?}")),
            }
        })
        .await;
    }

    fn status_patches(&self) -> usize {
        let log = self.faults.log();
        log.iter().filter(|call| call.path.ends_with("/status")).count()
    }

    async fn end(mut self) {
        if let Some(engine) = self.engine.take() {
            engine.stop().await;
        }
        self.cluster.stop().await;
    }
}

fn json_patch(into: &mut Value, merge: Value) {
    match (into, merge) {
        (Value::Object(into), Value::Object(merge)) => {
            for (key, value) in merge {
                json_patch(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, merge) => *into = merge,
    }
}

fn asked(token: &str) -> Value {
    json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": token } } })
}

#[tokio::test]
async fn the_finalizer_comes_first_and_goes_last() {
    let session = Session::start().await;
    session.create("a", json!({})).await;
    let object = session.says("a", ConditionType::Ready, "a").await;
    assert_eq!(object.metadata.finalizers.unwrap(), ["example.org/probe"]);
    assert_eq!(session.calls.taken(), ["observe a"]);
    session.delete("a").await;
    session.called("forget a Deleted").await;
    assert!(session.api().get_opt("a").await.unwrap().is_none());
    session.end().await;
}

#[tokio::test]
async fn a_suspended_object_answers_requests_and_is_not_observed() {
    let session = Session::start().await;
    let mut rests = asked("1");
    json_patch(&mut rests, json!({ "spec": { "suspend": true } }));
    session.create("a", rests).await;
    session.called("suspend a 0").await;
    session.answers("a", "1").await;
    assert!(!session.calls.has("observe a"));
    session.patch("a", json!({ "spec": { "suspend": false } })).await;
    session.says("a", ConditionType::Ready, "a").await;
    session.end().await;
}

#[tokio::test]
async fn a_request_that_comes_during_a_run_is_answered_by_the_next() {
    let session = Session::start().await;
    session.create("writes", asked("1")).await;
    session.called("act writes 1").await;
    // the next status write of this run returns it
    session.patch("writes", asked("2")).await;
    session.calls.gate.notify_one();
    session.called("act writes 2").await;
    assert_eq!(session.answered("writes").await.as_deref(), Some("1"));
    session.calls.gate.notify_one();
    session.answers("writes", "2").await;
    session.end().await;
}

#[tokio::test]
async fn an_invalid_spec_stalls_and_is_reported_once() {
    let session = Session::start().await;
    session.create("senseless", json!({})).await;
    session
        .says("senseless", ConditionType::Stalled, "spec.url makes no sense")
        .await;
    let written = session.status_patches();
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    session.patch("senseless", label).await;
    session
        .patch("senseless", json!({ "spec": { "url": "https://example.org/b" } }))
        .await;
    let object = session.says("senseless", ConditionType::Ready, "b").await;
    let conditions = object.status.unwrap().conditions;
    assert!(
        condition(&conditions, ConditionType::Stalled).is_none(),
        "{conditions:?}"
    );
    assert_eq!(session.status_patches(), written + 1);
    session.end().await;
}

#[tokio::test]
async fn a_plan_can_ask_for_more_rounds_and_yields_after_four() {
    let session = Session::start().await;
    session.create("fetches", json!({})).await;
    session.says("fetches", ConditionType::Ready, "fetches").await;
    assert_eq!(session.calls.taken(), ["observe fetches"; 3]);
    let runs = session.counts().runs;
    session.create("asks-for-ever", json!({})).await;
    session
        .says("asks-for-ever", ConditionType::Ready, "asks-for-ever")
        .await;
    assert_eq!(session.calls.taken(), ["observe asks-for-ever"; 7]);
    let counts = session.counts();
    assert_eq!(counts.runs - runs, 2, "{counts:?}");
    session.end().await;
}

#[tokio::test]
async fn a_status_that_could_not_be_written_is_written_by_the_next_run() {
    let session = Session::start().await;
    let refused = Rule::new(
        Verb::Patch,
        "/apis/source.toolkit.fluxcd.io/v1/namespaces/default/gitrepositories/a/status",
        Fault::status(503),
    );
    session.faults.add(refused.times(2));
    session.create("a", json!({})).await;
    session.says("a", ConditionType::Ready, "a").await;
    assert_eq!(session.status_patches(), 3);
    // the run that wrote it saw no change
    session.has_event("a", "Said", "a").await;
    session.end().await;
}

#[tokio::test]
async fn a_held_status_is_written_with_the_next() {
    let session = Session::start().await;
    session.create("keeps", json!({})).await;
    let object = session.says("keeps", ConditionType::Ready, "keeps").await;
    let held = object.status.unwrap().observed_ignore;
    assert_eq!(held.as_deref(), Some("held in run 1"));
    assert_eq!(session.status_patches(), 1);
    session.end().await;
}

#[tokio::test]
async fn a_held_status_is_written_when_its_run_ends_or_by_the_next() {
    let session = Session::start().await;
    let refused = Rule::new(Verb::Patch, "/gitrepositories/pauses/status", Fault::status(503));
    session.faults.add(refused.times(1));
    session.create("pauses", json!({})).await;
    eventually("the next run wrote it first", DEADLINE, async || {
        let status = session.api().get("pauses").await.unwrap().status;
        match status.unwrap_or_default().observed_ignore.as_deref() {
            Some("held in run 2") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // refused, the first run's, the second run's
    assert_eq!(session.status_patches(), 3);
    session.end().await;
}

#[tokio::test]
async fn a_status_that_could_not_be_written_is_kept_when_the_spec_changes() {
    let session = Session::start().await;
    let refused = Rule::new(Verb::Patch, "/gitrepositories/keeps/status", Fault::status(503));
    session.faults.add(refused);
    session.create("keeps", json!({})).await;
    eventually("a status was refused", DEADLINE, async || {
        let tried = session.status_patches() > 0;
        tried.then_some(()).ok_or("none was tried")
    })
    .await;
    session.patch("keeps", url("goes-on")).await;
    session.called("observe goes-on").await;
    session.faults.clear();
    let object = session.says("keeps", ConditionType::Ready, "goes-on").await;
    let held = object.status.unwrap().observed_ignore;
    assert_eq!(held.as_deref(), Some("held in run 1"));
    session.has_event("keeps", "Said", "keeps").await;
    session.end().await;
}

#[tokio::test]
async fn an_object_of_another_shard_is_forgotten_and_not_written() {
    let session = Session::start().await;
    session.create("a", json!({})).await;
    session.says("a", ConditionType::Ready, "a").await;
    let labels = json!({ "metadata": { "labels": { "elsewhere": "" } },
                         "spec": { "url": "https://example.org/b" } });
    session.patch("a", labels).await;
    session.called("forget a OtherShard").await;
    let object = session.api().get("a").await.unwrap();
    let ready = condition(&object.status.unwrap().conditions, ConditionType::Ready).cloned();
    assert_eq!(ready.unwrap().message, "a");
    session.end().await;
}

/// The spec of the second object of a name.
fn url(word: &str) -> Value {
    json!({ "spec": { "url": format!("https://example.org/{word}") } })
}

#[tokio::test]
async fn an_object_recreated_while_the_old_one_is_forgotten_runs() {
    let session = Session::start().await;
    session.create("lingers", json!({})).await;
    session.says("lingers", ConditionType::Ready, "lingers").await;
    session.delete("lingers").await;
    session.called("forget lingers Deleted").await;
    session.create("lingers", url("b")).await;
    session.appeared(2).await;
    session.calls.gate.notify_one();
    session.says("lingers", ConditionType::Ready, "b").await;
    session.end().await;
}

#[tokio::test]
async fn an_object_recreated_before_the_old_one_is_forgotten_runs() {
    let session = Session::of::<Probe<false>>(8).await;
    session.create("ends", json!({})).await;
    session.called("act ends 1").await;
    session.delete("ends").await;
    session.create("ends", url("b")).await;
    session.appeared(2).await;
    session.calls.gate.notify_one();
    session.says("ends", ConditionType::Ready, "b").await;
    assert!(session.calls.has("forget ends Deleted"));
    session.end().await;
}

#[tokio::test]
async fn a_recreated_object_gets_no_memory_of_the_old_one() {
    let session = Session::of::<Probe<false>>(1).await;
    session.create("counts", json!({})).await;
    session.says("counts", ConditionType::Ready, "counts 1").await;
    // nothing else runs meanwhile: the end of the old one is not seen by itself
    session.create("waits", json!({})).await;
    session.called("act waits 1").await;
    session.delete("counts").await;
    session.create("counts", json!({})).await;
    session.appeared(3).await;
    session.calls.gate.notify_one();
    session.called("forget counts Deleted").await;
    session.says("counts", ConditionType::Ready, "counts 1").await;
    session.end().await;
}

#[tokio::test]
async fn a_recreated_object_gets_no_status_of_the_old_one() {
    let session = Session::of::<Probe<false>>(8).await;
    session.create("waits", json!({})).await;
    session.called("act waits 1").await;
    session.delete("waits").await;
    session.create("waits", url("counts")).await;
    session.appeared(2).await;
    session.calls.gate.notify_one();
    session.says("waits", ConditionType::Ready, "counts 1").await;
    assert!(session.calls.has("forget waits Deleted"));
    assert_eq!(session.status_patches(), 1);
    session.end().await;
}

#[tokio::test]
async fn an_invalid_spec_does_not_block_deletion() {
    let session = Session::start().await;
    let message = "spec.url makes no sense";
    session.create("senseless", json!({})).await;
    session.says("senseless", ConditionType::Stalled, message).await;
    session.delete("senseless").await;
    session.gone("senseless").await;
    session.called("forget senseless Deleted").await;
    let left = format!("deleted without cleanup: {message}; delete its objects by hand");
    session.has_event("senseless", "Failed", &left).await;

    // a controller with a cleanup keeps it until that is done
    session.create("holds", url("senseless")).await;
    session.says("holds", ConditionType::Stalled, message).await;
    session.delete("holds").await;
    session
        .says("holds", ConditionType::Ready, "something is left")
        .await;
    session.calls.add("let go");
    session.gone("holds").await;
    assert!(!session.calls.has("observe senseless"));
    session.end().await;
}

#[tokio::test]
async fn a_failure_without_retry_is_a_failure() {
    let session = Session::start().await;
    for (word, failed) in [
        ("a", false),
        ("refused", true),
        ("impossible", true),
        ("senseless", true),
    ] {
        session.create(word, json!({})).await;
        let ran = eventually(&format!("{word} ran"), DEADLINE, async || {
            let ran = session.ran.lock().unwrap();
            let first = ran.iter().find(|(name, _)| name == word);
            first.map(|(_, failed)| *failed).ok_or(format!("{ran:?}"))
        })
        .await;
        assert_eq!(ran, failed, "{word}");
    }
    session.end().await;
}

#[tokio::test]
async fn a_panic_drops_the_memory_and_no_status() {
    let session = Session::start().await;
    let refused = Rule::new(Verb::Patch, "/gitrepositories/breaks/status", Fault::status(503));
    session.faults.add(refused.times(1));
    session.create("breaks", json!({})).await;
    // the second run writes the first one's status, then panics; the third one begins anew
    session.says("breaks", ConditionType::Ready, "breaks").await;
    session.has_event("breaks", "Said", "breaks").await;
    let acts = ["act breaks 1", "act breaks 2", "act breaks 1"];
    eventually("a third run", DEADLINE, async || {
        let log = session.calls.log.lock().unwrap().clone();
        let seen: Vec<_> = log.iter().filter(|call| call.starts_with("act")).collect();
        match seen == acts {
            true => Ok(()),
            false => Err(format!("{seen:?}")),
        }
    })
    .await;
    assert_eq!(session.counts().panicked, 1);
    assert_eq!(session.status_patches(), 2);
    session.end().await;
}

#[tokio::test]
async fn a_finalizer_that_changed_meanwhile_is_set_and_removed_by_the_next_run() {
    let session = Session::start().await;
    let conflict = || Rule::new(Verb::Patch, "/gitrepositories/a", Fault::status(409)).times(1);
    let finalizers = async |expected: &[&str]| {
        eventually(&format!("finalizers {expected:?}"), DEADLINE, async || {
            let object = session.api().get("a").await.unwrap();
            match object.metadata.finalizers.clone().unwrap_or_default() == expected {
                true => Ok(()),
                false => Err(format!("{object:?}")),
            }
        })
        .await;
    };
    session.faults.add(conflict());
    session
        .create(
            "a",
            json!({ "metadata": { "finalizers": ["example.org/other"] } }),
        )
        .await;
    finalizers(&["example.org/other", "example.org/probe"]).await;
    session.says("a", ConditionType::Ready, "a").await;
    // nothing was observed before it existed
    assert_eq!(session.calls.taken(), ["observe a"]);
    session.faults.add(conflict());
    session.delete("a").await;
    finalizers(&["example.org/other"]).await;
    session.called("forget a Deleted").await;
    session.end().await;
}
