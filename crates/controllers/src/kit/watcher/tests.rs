mod owner_kinds;

use super::*;
use std::time::Duration;

use equate_apply::health::Status;
use equate_testkit::cluster::EmbeddedCluster;
use equate_testkit::eventually::eventually;
use equate_testkit::faults::{Fault, Faults, Rule, Verb};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::kit::backoff::Jitter;
use crate::object_ref::tests::KUSTOMIZATION;

/// Everything in these tests ends within this time of the paused clock.
const SOON: Duration = Duration::from_secs(900);

struct World {
    cluster: EmbeddedCluster,
    faults: Faults,
    watcher: ObjectWatcher,
    wakes: Arc<Mutex<Vec<Wake>>>,
}

fn pace() -> Pace {
    Pace {
        jitter: Jitter::seeded(3),
        ..Pace::default()
    }
}

impl World {
    async fn new() -> World {
        let cluster = EmbeddedCluster::builder().build().await.unwrap();
        let faults = Faults::seeded(3);
        let wakes = Arc::new(Mutex::new(Vec::new()));
        let sent = Arc::clone(&wakes);
        let watcher = ObjectWatcher::new(
            faults.wrap(&cluster.client()),
            pace(),
            Arc::new(()),
            move |wake| {
                sent.lock().unwrap().push(wake);
            },
        );
        World {
            cluster,
            faults,
            watcher,
            wakes,
        }
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.cluster.client(), "default")
    }

    async fn apply(&self, name: &str, owner: &str, value: &str) -> Observed {
        self.apply_as(&KUSTOMIZATION, name, owner, value).await
    }

    async fn apply_as(&self, by: &'static OwnerKind, name: &str, owner: &str, value: &str) -> Observed {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "labels": { by.name_label: owner, by.namespace_label: "default" } },
            "data": { "key": value },
        });
        let params = PatchParams::apply(by.field_manager).force();
        let answer = self
            .config_maps()
            .patch(name, &params, &Patch::Apply(&object))
            .await
            .unwrap();
        let mut answer = serde_json::to_value(answer).unwrap();
        answer["apiVersion"] = "v1".into();
        answer["kind"] = "ConfigMap".into();
        Observed::of(&Object::from_value(answer).unwrap(), by)
    }

    async fn drift(&self, name: &str, value: &str) {
        let patch = Patch::Merge(json!({ "data": { "key": value } }));
        self.config_maps()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    async fn delete(&self, name: &str) {
        self.config_maps()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    fn follow(&self, name: &str) -> Vec<String> {
        self.follow_as(&owner(name))
    }

    fn follow_as(&self, follower: &Owner) -> Vec<String> {
        let interest = Interest {
            kinds: vec![ApiResource::erase::<ConfigMap>(&())],
            objects: Vec::new(),
        };
        let waiting = self.watcher.follow(follower, &interest);
        waiting
            .iter()
            .map(|(kind, waiting)| format!("{kind} {waiting:?}"))
            .collect()
    }

    /// The wakes since the last call, in order, each once.
    fn wakes(&self) -> Vec<String> {
        let mut wakes = Vec::new();
        for Wake { object, cause } in std::mem::take(&mut *self.wakes.lock().unwrap()) {
            // most tests have Kustomizations only
            let woken = match object.kind {
                "Kustomization" => object.name.clone(),
                kind => format!("{kind}/{}", object.name),
            };
            let line = match cause {
                Cause::Object(id, what) => format!("{woken} {} {what:?}", id.name),
                Cause::Kind(kind, change) => format!("{woken} {kind} {change:?}"),
            };
            if !wakes.contains(&line) {
                wakes.push(line);
            }
        }
        wakes
    }

    /// Waits for all these wakes; others may come in between.
    async fn expect_wakes(&self, what: &str, expected: &[&str]) {
        let mut wakes = Vec::new();
        eventually(what, SOON, || {
            wakes.extend(self.wakes());
            let missing = expected.iter().any(|line| !wakes.iter().any(|t| t == line));
            let seen = format!("{wakes:?}");
            async move { if missing { Err(seen) } else { Ok(()) } }
        })
        .await;
    }

    async fn listed(&self, owner: &str) {
        if !self.follow(owner).is_empty() {
            self.expect_wakes("listed", &[&format!("{owner} ConfigMap Listed")])
                .await;
        }
    }

    fn sight(&self, name: &str) -> String {
        match self.watcher.get(&KUSTOMIZATION, &id(name)) {
            Presence::Unknown => "unknown".to_owned(),
            Presence::Absent => "absent".to_owned(),
            Presence::Present(observed) => observed
                .owner
                .as_ref()
                .map_or("nobody's".to_owned(), |owner| format!("{}'s", owner.name)),
        }
    }

    fn seen(&self, name: &str) -> Arc<Observed> {
        match self.watcher.get(&KUSTOMIZATION, &id(name)) {
            Presence::Present(observed) => observed,
            other => panic!("{name} is {other:?}"),
        }
    }
}

fn owner(name: &str) -> Owner {
    Owner::new(&KUSTOMIZATION, "default", name)
}

fn id(name: &str) -> ObjectId {
    ObjectId::new("", "ConfigMap", "default", name)
}

#[tokio::test(start_paused = true)]
async fn owners_are_woken_by_changes_of_their_objects() {
    let world = World::new().await;
    world.apply("a", "app", "1").await;
    assert_eq!(world.sight("a"), "unknown");
    assert_eq!(world.follow("app"), ["ConfigMap Starting(None)"]);
    world.expect_wakes("the list", &["app ConfigMap Listed"]).await;
    assert!(world.follow("app").is_empty());
    assert_eq!(
        (world.sight("a"), world.sight("b")),
        ("app's".to_owned(), "absent".to_owned())
    );

    let cases: [(&str, &[&str]); 6] = [
        ("appears", &["other b Appeared"]),
        ("drifts", &["app a Changed"]),
        ("changes hands", &["app a Owner", "other a Owner"]),
        ("loses its label", &["other b Gone"]),
        ("is deleted", &["other a Gone"]),
        ("comes back", &["app a Appeared"]),
    ];
    for (what, expected) in cases {
        match what {
            "appears" => drop(world.apply("b", "other", "1").await),
            "drifts" => world.drift("a", "2").await,
            "changes hands" => drop(world.apply("a", "other", "2").await),
            "loses its label" => {
                let patch = Patch::Merge(json!({ "metadata": { "labels": null } }));
                world
                    .config_maps()
                    .patch("b", &PatchParams::default(), &patch)
                    .await
                    .unwrap();
            }
            "is deleted" => world.delete("a").await,
            _ => drop(world.apply("a", "app", "1").await),
        }
        let mut wakes = Vec::new();
        eventually(what, SOON, || {
            wakes.extend(world.wakes());
            let ready = if wakes == expected {
                Ok(())
            } else {
                Err(format!("{wakes:?}"))
            };
            async move { ready }
        })
        .await;
    }
    // a field that Equate does not apply
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { "seen": "yes" } } }));
    let changed = world
        .config_maps()
        .patch("a", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let version = changed.metadata.resource_version.unwrap();
    eventually("the annotation", SOON, || {
        let seen = world.seen("a").resource_version.clone();
        let ready = if seen == version { Ok(()) } else { Err(seen) };
        async move { ready }
    })
    .await;
    assert_eq!(world.wakes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_write_counts_at_once_and_does_not_wake_its_author() {
    let world = World::new().await;
    world.listed("app").await;
    // the watch is held back, so that the answer is first
    let first = world.apply("a", "app", "1").await;
    let later = world.apply("a", "app", "2").await;
    assert!(world.watcher.note(&id("a"), later.clone()));
    assert!(!world.watcher.note(&id("a"), first), "an older answer is ignored");
    assert_eq!(world.seen("a").resource_version, later.resource_version);
    world.apply("z", "other", "1").await;
    // events come in order: with z's, both of a's were delivered
    world.expect_wakes("what came after", &["other z Appeared"]).await;
    assert_eq!(world.seen("a").resource_version, later.resource_version);
    assert_eq!(world.wakes(), Vec::<String>::new(), "the author knows");

    world.delete("a").await;
    world.expect_wakes("the deletion", &["app a Gone"]).await;
    assert!(!world.watcher.note(&id("a"), later), "deleted since");
    assert_eq!(world.sight("a"), "absent");

    let mut stranger = world.apply("b", "app", "1").await;
    stranger.owner = None;
    assert!(
        !world.watcher.note(&id("b"), stranger),
        "the watch does not see it"
    );
    let mut elsewhere = world.apply("c", "app", "1").await;
    elsewhere.resource_version = "not a number".to_owned();
    assert!(!world.watcher.note(&id("c"), elsewhere));
}

#[tokio::test(start_paused = true)]
async fn an_unfollowed_kind_is_not_watched() {
    let world = World::new().await;
    world.apply("a", "app", "1").await;
    world.listed("app").await;
    world.follow("other");
    assert_eq!(
        (world.watcher.counts().kinds, world.watcher.counts().objects),
        (1, 1)
    );
    world.watcher.forget(&owner("app"));
    assert_eq!(world.sight("a"), "app's");
    world.watcher.forget(&owner("other"));
    assert_eq!(
        (world.watcher.counts().kinds, world.watcher.counts().objects),
        (0, 0)
    );
    assert_eq!(world.sight("a"), "unknown");
    world.listed("app").await;
    assert_eq!(world.sight("a"), "app's");
}

#[tokio::test(start_paused = true)]
async fn one_watch_serves_all_and_the_steady_state_sends_no_requests() {
    let world = World::new().await;
    for object in 0..50 {
        world
            .apply(&format!("c{object}"), &format!("app{}", object % 10), "1")
            .await;
    }
    for owner in 0..10 {
        world.listed(&format!("app{owner}")).await;
    }
    assert_eq!(world.watcher.counts().objects, 50);
    let calls = world.faults.calls();
    assert_eq!(calls, 2, "one list, one watch: {:?}", world.faults.log());
    tokio::time::sleep(Duration::from_secs(240)).await;
    assert_eq!(world.faults.calls(), calls);
    // the server ends watches after a while
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let log = world.faults.log();
    assert!(
        log[1..].iter().all(|call| call.watch),
        "nothing is listed again: {log:?}"
    );
    assert!(log.len() <= 2 + 3840 / 270, "{}", log.len());
}

#[tokio::test(start_paused = true)]
async fn an_object_without_owner_can_be_waited_for() {
    let world = World::new().await;
    let pods: Api<Pod> = Api::namespaced(world.cluster.client(), "default");
    let pod = serde_json::from_value(json!({
        "metadata": { "name": "db" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    }))
    .unwrap();
    let key = owner("app");
    let pod_id = ObjectId::new("", "Pod", "default", "db");
    let interest = Interest {
        kinds: Vec::new(),
        objects: vec![(ApiResource::erase::<Pod>(&()), pod_id.clone())],
    };
    assert_eq!(world.watcher.get(&KUSTOMIZATION, &pod_id), Presence::Unknown);
    world.watcher.follow(&key, &interest);
    world.expect_wakes("the list", &["app Pod Listed"]).await;
    assert_eq!(world.watcher.get(&KUSTOMIZATION, &pod_id), Presence::Absent);
    // another one of the kind does not matter
    let mut stranger: Pod = pod;
    pods.create(&PostParams::default(), &stranger).await.unwrap();
    world.expect_wakes("the pod", &["app db Appeared"]).await;
    stranger.metadata.name = Some("other".to_owned());
    pods.create(&PostParams::default(), &stranger).await.unwrap();
    let ready = json!({ "status": { "phase": "Running", "conditions": [
        { "type": "Ready", "status": "True" }, { "type": "PodScheduled", "status": "True" },
    ] } });
    pods.patch_status("db", &PatchParams::default(), &Patch::Merge(&ready))
        .await
        .unwrap();
    world.expect_wakes("its health", &["app db Health"]).await;
    let Presence::Present(observed) = world.watcher.get(&KUSTOMIZATION, &pod_id) else {
        panic!()
    };
    assert_eq!(observed.health.status, Status::Current);
    assert_eq!(
        world
            .watcher
            .get(&KUSTOMIZATION, &ObjectId::new("", "Pod", "default", "other")),
        Presence::Unknown
    );
    pods.delete("db", &DeleteParams::default()).await.unwrap();
    world.expect_wakes("its end", &["app db Gone"]).await;
    assert_eq!(world.watcher.counts().singles, 1);
    world.watcher.follow(&key, &Interest::default());
    assert_eq!(world.watcher.counts().singles, 0);
}

/// Faults from the first request on; each must be overcome, in list and watch.
fn table() -> Vec<(&'static str, Vec<Rule>)> {
    let maps = "/configmaps";
    let on = |verb, fault| Rule::new(verb, maps, fault);
    let again = |seconds| Fault::Status {
        code: 429,
        retry_after_seconds: Some(seconds),
    };
    let mut table = vec![
        ("no fault", vec![]),
        ("429 with Retry-After", vec![on(Verb::Any, again(7)).times(4)]),
        (
            "410 to each second request",
            vec![on(Verb::Any, Fault::status(410)).percent(50).times(20)],
        ),
        (
            "410 to watches",
            vec![on(Verb::Watch, Fault::status(410)).times(5)],
        ),
        (
            "410 as an event",
            vec![on(Verb::Watch, Fault::ErrorEvent(410)).times(5)],
        ),
        (
            "500 as an event",
            vec![on(Verb::Watch, Fault::ErrorEvent(500)).times(5)],
        ),
        ("unreachable", vec![on(Verb::Any, Fault::Unreachable).times(8)]),
        ("lost answers", vec![on(Verb::Any, Fault::LostAnswer).times(5)]),
        (
            "a list that breaks off",
            vec![on(Verb::Read, Fault::CutAfterBytes(700)).times(3)],
        ),
        (
            "a list that ends in the middle",
            vec![on(Verb::Read, Fault::EndAfterLines(0)).times(3)],
        ),
        (
            "no answer for long",
            vec![on(Verb::Any, Fault::Slow(Duration::from_secs(300))).times(2)],
        ),
        (
            "slow answers",
            vec![on(Verb::Any, Fault::Slow(Duration::from_secs(9)))],
        ),
        (
            "watches that end at once",
            vec![on(Verb::Watch, Fault::EndAfterLines(0)).times(6)],
        ),
        (
            "watches that end after each event",
            vec![on(Verb::Watch, Fault::EndAfterLines(1))],
        ),
        (
            "watches that break off in a line",
            vec![on(Verb::Watch, Fault::CutAfterLines(1))],
        ),
        (
            "watches that are silent",
            vec![on(Verb::Watch, Fault::SilentAfterLines(0)).times(2)],
        ),
        (
            "watches that fall silent",
            vec![on(Verb::Watch, Fault::SilentAfterLines(2))],
        ),
        (
            "watches that repeat themselves",
            vec![on(Verb::Watch, Fault::RepeatLines)],
        ),
        (
            "a bit of everything",
            vec![
                on(Verb::Any, Fault::status(503)).percent(20),
                on(Verb::Any, Fault::Unreachable).percent(20),
                on(Verb::Watch, Fault::CutAfterLines(1)).percent(30),
                on(Verb::Watch, Fault::ErrorEvent(410)).percent(30),
                on(Verb::Any, Fault::Slow(Duration::from_secs(2))).percent(50),
            ],
        ),
    ];
    for code in [400, 403, 404, 409, 500, 503, 504] {
        table.push(("a status", vec![on(Verb::Any, Fault::status(code)).times(4)]));
    }
    table
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_may_not_be_listed_is_reported() {
    let world = World::new().await;
    world.apply("a", "app", "1").await;
    world
        .faults
        .add(Rule::new(Verb::Read, "configmaps", Fault::status(403)).times(3));
    assert_eq!(world.follow("app"), ["ConfigMap Starting(None)"]);
    world.expect_wakes("refused", &["app ConfigMap Refused"]).await;
    assert_eq!(world.sight("a"), "unknown");
    let waiting = &world.follow("app")[..];
    assert!(waiting[0].starts_with("ConfigMap Refused("), "{waiting:?}");
    // access is granted
    world.expect_wakes("listed", &["app ConfigMap Listed"]).await;
    assert_eq!(world.sight("a"), "app's");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_slow_to_list_is_waited_for() {
    let world = World::new().await;
    world
        .faults
        .add(Rule::new(Verb::Read, "configmaps", Fault::status(503)).times(3));
    world.follow("app");
    world.expect_wakes("listed", &["app ConfigMap Listed"]).await;
    assert!(!world.wakes().iter().any(|wakes| wakes.contains("Refused")));
}

#[tokio::test(start_paused = true)]
async fn every_fault_is_overcome() {
    for (fault, rules) in table() {
        for compacted in [false, true] {
            let world = World::new().await;
            for name in ["kept", "drifted", "deleted", "moved"] {
                world.apply(name, "app", "1").await;
            }
            for rule in &rules {
                world.faults.add(rule.clone());
            }
            world.listed("app").await;
            let before = world.seen("drifted").owned;
            let wakes = Arc::new(Mutex::new(world.wakes()));
            world.drift("drifted", "2").await;
            world.delete("deleted").await;
            world.apply("moved", "other", "1").await;
            world.apply("new", "app", "1").await;
            if compacted {
                // undelivered changes are lost: only a list helps
                world.cluster.compact(world.cluster.revision());
            }
            let what = format!("{fault} (compacted: {compacted}, {rules:?})");
            eventually(&what, SOON, || {
                wakes.lock().unwrap().extend(world.wakes());
                let sights = ["kept", "drifted", "deleted", "moved", "new"].map(|name| world.sight(name));
                let ready = sights == ["app's", "app's", "absent", "other's", "app's"]
                    && world.seen("drifted").owned != before;
                async move { if ready { Ok(()) } else { Err(format!("{sights:?}")) } }
            })
            .await;
            let mut wakes = wakes.lock().unwrap().clone();
            wakes.sort();
            wakes.dedup();
            let expected = [
                "app deleted Gone",
                "app drifted Changed",
                "app moved Owner",
                "app new Appeared",
                "other moved Owner",
            ];
            assert_eq!(wakes, expected, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn retries_back_off() {
    for fault in [
        Fault::status(500),
        Fault::status(410),
        Fault::Unreachable,
        Fault::EndAfterLines(0),
    ] {
        for verb in [Verb::Any, Verb::Watch] {
            let world = World::new().await;
            world.faults.add(Rule::new(verb, "/configmaps", fault));
            world.follow("app");
            tokio::time::sleep(Duration::from_secs(600)).await;
            let calls = world.faults.calls();
            // 0.8 s doubling to 30 s: some 5 steps up, then two a minute, each list and watch
            assert!(
                (10..=60).contains(&calls),
                "{fault:?} on {verb:?}: {calls} requests in ten minutes"
            );
        }
    }
    let world = World::new().await;
    let fault = Fault::Status {
        code: 429,
        retry_after_seconds: Some(100),
    };
    world.faults.add(Rule::new(Verb::Any, "/configmaps", fault));
    world.follow("app");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(
        (5..=7).contains(&world.faults.calls()),
        "{}",
        world.faults.calls()
    );
}

#[tokio::test(start_paused = true)]
async fn a_kind_goes_and_comes_back() {
    let world = World::new().await;
    let crds = Api::<DynamicObject>::all_with(
        world.cluster.client(),
        &ApiResource::erase::<
            k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
        >(&()),
    );
    let definition: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "gears.example.org" },
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": { "plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    }))
    .unwrap();
    let gears = ApiResource {
        group: "example.org".into(),
        version: "v1".into(),
        api_version: "example.org/v1".into(),
        kind: "Gear".into(),
        plural: "gears".into(),
    };
    let key = owner("app");
    let interest = Interest {
        kinds: vec![gears.clone()],
        objects: Vec::new(),
    };
    let gear_id = ObjectId::new("example.org", "Gear", "default", "g");
    let api: Api<DynamicObject> = Api::namespaced_with(world.cluster.client(), "default", &gears);
    let gear: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "example.org/v1", "kind": "Gear",
        "metadata": { "name": "g", "labels": {
            "kustomize.toolkit.fluxcd.io/name": "app", "kustomize.toolkit.fluxcd.io/namespace": "default",
        } },
    }))
    .unwrap();
    world.watcher.follow(&key, &interest);
    world
        .expect_wakes("the kind is not there", &["app Gear.example.org Unserved"])
        .await;
    assert_eq!(world.watcher.get(&KUSTOMIZATION, &gear_id), Presence::Unknown);

    for round in 0..2 {
        crds.create(&PostParams::default(), &definition).await.unwrap();
        eventually("the kind is served", SOON, || {
            let (api, gear) = (api.clone(), gear.clone());
            async move {
                api.create(&PostParams::default(), &gear)
                    .await
                    .map(drop)
                    .map_err(|e| e.to_string())
            }
        })
        .await;
        // the owner that applied the definition follows again: nothing waits for a backoff
        let start = tokio::time::Instant::now();
        let waiting = world.watcher.follow(&key, &interest);
        assert_eq!(waiting.len(), 1, "{waiting:?}");
        world
            .expect_wakes("the kind is there", &["app Gear.example.org Listed"])
            .await;
        assert!(
            start.elapsed() < Duration::from_millis(100),
            "{:?}",
            start.elapsed()
        );
        assert!(
            matches!(world.watcher.get(&KUSTOMIZATION, &gear_id), Presence::Present(_)),
            "round {round}"
        );
        crds.delete("gears.example.org", &DeleteParams::default())
            .await
            .unwrap();
        world
            .expect_wakes(
                "the kind is gone",
                &["app g Gone", "app Gear.example.org Unserved"],
            )
            .await;
        assert_eq!(world.watcher.get(&KUSTOMIZATION, &gear_id), Presence::Unknown);
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_user_ends_the_watches() {
    let world = World::new().await;
    world.listed("app").await;
    let faults = world.faults.clone();
    let calls = faults.calls();
    let World { cluster, watcher, .. } = world;
    let other = watcher.clone();
    drop(watcher);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let with_a_user = faults.calls();
    assert!(with_a_user > calls);
    drop(other);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(faults.calls(), with_a_user);
    drop(cluster);
}

#[test]
fn a_list_beyond_its_limits_wakes_the_followers_once() {
    let mut state = State::default();
    let kind = Kind {
        group: "".into(),
        kind: "ConfigMap".into(),
    };
    let place = Place::Managed(kind.clone(), &KUSTOMIZATION);
    let (_, epoch) = state
        .follow(&owner("app"), &BTreeSet::from([place.clone()]))
        .begin[0];
    let mut fail = |excess| {
        let path = "/api/v1/configmaps".to_owned();
        state.change(
            &place,
            epoch,
            feed::Change::Failed(FeedError::Excess { path, excess }),
        )
    };
    let wakes = fail(feed::Excess::Repeated);
    let causes: Vec<_> = wakes.iter().map(|wake| &wake.cause).collect();
    assert_eq!(causes, [&Cause::Kind(kind, KindChange::Excess)]);
    assert!(fail(feed::Excess::Repeated).is_empty());
}

/// Measures the memory for many objects; asserts only a generous bound.
#[test]
fn an_object_costs_little() {
    let mut state = State::default();
    let kind = Kind {
        group: "apps".into(),
        kind: "Deployment".into(),
    };
    let place = Place::Managed(kind, &KUSTOMIZATION);
    let turnover = state.follow(&owner("app"), &BTreeSet::from([place.clone()]));
    let (_, epoch) = turnover.begin[0];
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "default", "generation": 3,
            "uid": "3f2c1a52-9a0a-4c1e-8f0e-2b7b7e0d4f11",
            "labels": {
                "kustomize.toolkit.fluxcd.io/name": "app",
                "kustomize.toolkit.fluxcd.io/namespace": "default",
            },
        },
        "spec": { "replicas": 1 },
        "status": { "observedGeneration": 3, "replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "updatedReplicas": 1 },
    });
    for number in 0..1000_u64 {
        let mut object = object.clone();
        object["metadata"]["name"] = format!("web-{number}").into();
        object["metadata"]["resourceVersion"] = (number + 1).to_string().into();
        let object = Object::from_value(object).unwrap();
        let item = read(object, "apps/v1", "Deployment", |object| {
            Observed::of(object, &KUSTOMIZATION)
        })
        .unwrap();
        state.change(&place, epoch, feed::Change::Applied(item));
    }
    assert_eq!(state.counts().objects, 1000);
    let id = ObjectId::new("apps", "Deployment", "default", "web-7");
    assert!(matches!(state.get(&KUSTOMIZATION, &id), Presence::Present(_)));
    let fixed = size_of::<Observed>() + 2 * size_of::<Arc<str>>() + size_of::<u64>() + size_of::<usize>();
    println!("an object in the watcher: {fixed} bytes, and its texts");
    assert!(fixed < 512, "{fixed}");
}
