//! Flux's own source-controller and this one hand sources over, in both directions, on a real cluster. The new
//! one keeps each artifact on the same volume: path, revision and digest are the same. Consumers are not
//! reconciled again. `EQUATE_SOURCE_CONTROLLER` names the program, as `cargo xtask test-peers` does.

use std::collections::BTreeMap;

use equate_api::helm::HelmRelease;
use equate_api::kustomize::Kustomization;
use equate_api::source::{Bucket, HelmChart, HelmRepository, OciRepository};
use equate_testkit::bucket::BucketServer;
use equate_testkit::eventually::eventually;
use equate_testkit::git::{Guard, HttpServer};
use equate_testkit::registry::RegistryServer;
use equate_testkit::web::WebServer;
use kube::CustomResourceExt as _;
use serde_json::{Value, json};

use crate::fields::objects::{index, packed};
use crate::fields::oci_repository::{CONTENT, archive};
use crate::session::{DEADLINE, Options, Session, config_map_in};
use crate::source_controller::{SourceController, define};

const SOURCES: [(&str, &str); 6] = [
    ("GitRepository", "git"),
    ("HelmRepository", "charts"),
    ("HelmChart", "pulled"),
    ("HelmChart", "packaged"),
    ("OCIRepository", "image"),
    ("Bucket", "files"),
];

/// Their content, served to both controllers.
struct Ground {
    git: HttpServer,
    web: WebServer,
    registry: RegistryServer,
    bucket: BucketServer,
}

impl Ground {
    /// `None` without a git server program.
    fn open(session: &Session) -> Option<Self> {
        session.commit(&[
            ("cm.yaml", Some(&config_map_in("@home", "of-git", "one"))),
            (
                "chart/Chart.yaml",
                Some("apiVersion: v2\nname: app\nversion: 1.0.0\n"),
            ),
            ("chart/values.yaml", Some("value: one\n")),
            ("kustomization.yaml", Some("resources: [cm.yaml]\n")),
        ]);
        let ground = Self {
            git: session.repository.serve(Guard::Open, false).unwrap()?,
            web: WebServer::open().unwrap(),
            registry: RegistryServer::open().unwrap(),
            bucket: BucketServer::open().unwrap(),
        };
        ground.web.put("/app-1.0.0.tgz", packed("app", "1.0.0", &[]));
        ground
            .web
            .put("/index.yaml", index(&[("app", "1.0.0", "app-1.0.0.tgz")]));
        ground.fill(session, "one");
        Some(ground)
    }

    /// Puts a value into the image and the bucket.
    fn fill(&self, session: &Session, value: &str) {
        let text = session.here(&config_map_in("@home", "of-image", value));
        let layers: [(&str, &[u8]); 1] = [(CONTENT, &archive(&[("cm.yaml", &text)]))];
        self.registry.artifact("org/app", "v1", &layers, &[]);
        let text = session.here(&config_map_in("@home", "of-files", value));
        self.bucket.put("cm.yaml", text);
    }

    async fn declare(&self, session: &Session) {
        let keys = json!({ "accesskey": "access", "secretkey": "secret/key+1" });
        session.conceal("keys", keys).await;
        let chart = |chart: &str, kind: &str, name: &str| {
            let source = json!({ "kind": kind, "name": name });
            json!({ "chart": chart, "version": "1.0.0", "sourceRef": source })
        };
        let specs = [
            json!({ "url": self.git.url(), "ref": { "branch": "main" } }),
            json!({ "url": self.web.url() }),
            chart("app", "HelmRepository", "charts"),
            chart("chart", "GitRepository", "git"),
            json!({
                "url": format!("{}/org/app", self.registry.url()), "insecure": true, "ref": { "tag": "v1" },
            }),
            json!({
                "bucketName": "apps", "endpoint": self.bucket.endpoint(), "insecure": true,
                "region": "us-east-1", "secretRef": { "name": "keys" },
            }),
        ];
        for ((kind, name), mut spec) in SOURCES.into_iter().zip(specs) {
            spec["interval"] = "1h".into();
            session.declare(kind, name, spec).await;
        }
    }
}

/// Waits until all sources are ready; returns path, revision and digest of their artifacts.
async fn artifacts(session: &Session) -> BTreeMap<String, Value> {
    let mut artifacts = BTreeMap::new();
    for (kind, name) in SOURCES {
        let status = ready(session, kind, name).await;
        let artifact = &status["artifact"];
        let kept = ["path", "revision", "digest"].map(|field| artifact[field].clone());
        artifacts.insert(format!("{kind}/{name}"), json!(kept));
    }
    artifacts
}

async fn ready(session: &Session, kind: &str, name: &str) -> Value {
    let what = format!("{kind} {name} is ready");
    eventually(&what, DEADLINE, async || {
        let object = session.look(kind, "@home", name).await;
        let status = &object["status"];
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let ready = conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        match ready && status["observedGeneration"] == object["metadata"]["generation"] {
            true => Ok(status.clone()),
            false => Err(status.to_string()),
        }
    })
    .await
}

/// The controllers of consumers, beside source-controller.
fn consumers() -> Options {
    let components = ["kustomize-controller", "helm-controller"];
    Options {
        controllers: Some(equate_controllers::all().only(&components)),
        artifacts: Some("consumers"),
        ..Options::default()
    }
}

const CONSUMERS: [(&str, &str); 5] = [
    ("Kustomization", "git"),
    ("Kustomization", "image"),
    ("Kustomization", "files"),
    ("HelmRelease", "pulled"),
    ("HelmRelease", "packaged"),
];

async fn consume(session: &Session, kind: &str, name: &str, (source_kind, source): (&str, &str)) {
    let source = json!({ "kind": source_kind, "name": source });
    let spec = match kind {
        "Kustomization" => json!({ "interval": "1h", "prune": true, "path": "./", "sourceRef": source }),
        _ => json!({ "interval": "1h", "chartRef": source }),
    };
    session.declare(kind, name, spec).await;
    ready(session, kind, name).await;
}

/// One more consumer of the image. Its objects have names of their own: no object is declared twice.
async fn canary(session: &Session, name: &str) {
    let source = json!({ "kind": "OCIRepository", "name": "image" });
    let spec = json!({
        "interval": "1h", "prune": true, "path": "./", "sourceRef": source, "namePrefix": format!("{name}-"),
    });
    session.declare("Kustomization", name, spec).await;
    ready(session, "Kustomization", name).await;
}

/// Their runs so far, and the versions of the applied objects.
async fn consumed(session: &Session) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for (kind, name) in CONSUMERS {
        let status = session.look(kind, "@home", name).await["status"].clone();
        found.insert(format!("{kind}/{name}"), status["history"].clone());
    }
    for name in ["of-git", "of-image", "of-files", "pulled-map"] {
        let object = session.look("ConfigMap", "@home", name).await;
        assert!(!object.is_null(), "ConfigMap {name} is missing");
        let version = object["metadata"]["resourceVersion"].clone();
        found.insert(format!("ConfigMap/{name}"), version);
    }
    found
}

/// The state that a handover keeps.
struct State {
    artifacts: BTreeMap<String, Value>,
    consumed: BTreeMap<String, Value>,
}

/// Requests a run of each source of the new controller, and compares the state with the one before.
async fn takes_over(session: &Session, what: &str, before: &State) {
    for (kind, name) in SOURCES {
        session.demand(kind, name, what).await;
    }
    let differs = |before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>| {
        let differ = before.iter().filter(|(name, was)| after.get(*name) != Some(was));
        let lines = differ.map(|(name, was)| format!("{name}: {was} became {:?}", after.get(name)));
        lines.collect::<Vec<String>>()
    };
    let wrong = differs(&before.artifacts, &artifacts(session).await);
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
    // the one that came last is ready: the others have seen their sources, too
    canary(session, what).await;
    let wrong = differs(&before.consumed, &consumed(session).await);
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
    session.delete::<Kustomization>("@home", what).await;
}

/// New content arrives at the consumers.
async fn goes_on(session: &Session, ground: &Ground, value: &str) {
    ground.fill(session, value);
    for (kind, name) in [("OCIRepository", "image"), ("Bucket", "files")] {
        session.demand(kind, name, value).await;
    }
    for name in ["of-image", "of-files"] {
        session.value("@home", name, Some(value)).await;
    }
}

#[tokio::test]
async fn the_real_source_controller_and_ours_take_artifacts_over() {
    let kinds = vec![
        HelmRepository::crd(),
        HelmChart::crd(),
        OciRepository::crd(),
        Bucket::crd(),
        HelmRelease::crd(),
    ];
    let mut session = Session::anywhere_with(
        &[],
        Options {
            kinds,
            ..Options::default()
        },
    )
    .await;
    session.stop().await;
    session.lose_artifacts();
    define(&session.client).await;
    let storage = session.folder().join("artifacts");
    let Some(theirs) = SourceController::of_namespace(&storage, &session.home) else {
        session.end().await;
        return;
    };
    let Some(ground) = Ground::open(&session) else {
        session.end().await;
        return;
    };
    ground.declare(&session).await;
    let artifacts_of_theirs = artifacts(&session).await;
    session.engine(consumers()).await;
    for (kind, name) in CONSUMERS {
        let source = SOURCES.into_iter().find(|(_, source)| *source == name).unwrap();
        consume(&session, kind, name, source).await;
    }
    let before = State {
        artifacts: artifacts_of_theirs,
        consumed: consumed(&session).await,
    };
    session.stop().await;
    theirs.stop().await;

    session.engine(Options::default()).await;
    takes_over(&session, "from-theirs-to-ours", &before).await;
    goes_on(&session, &ground, "two").await;
    for (kind, name) in CONSUMERS {
        ready(&session, kind, name).await;
    }
    let before = State {
        artifacts: artifacts(&session).await,
        consumed: consumed(&session).await,
    };
    session.stop().await;

    let theirs = SourceController::of_namespace(&storage, &session.home).unwrap();
    session.engine(consumers()).await;
    takes_over(&session, "from-ours-to-theirs", &before).await;
    goes_on(&session, &ground, "three").await;
    theirs.stop().await;
    session.end().await;
}
