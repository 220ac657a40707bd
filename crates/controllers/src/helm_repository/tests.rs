//! Decisions as values, and whole runs against a chart repository on loopback.

use equate_api::source::{Artifact as StatusArtifact, HelmRepository, HelmRepositoryStatus};
use serde_json::{Value, json};

use super::decide::{Artifact, Index, Observed, Plan, Seen, decide};
use super::declared::Declared;
use crate::sources::charts::HelmSettings;
use crate::sources::failure::Failure;
use crate::sources::testing::{Host, Session, digest, index, told};

const KIND: &str = "HelmRepository";

fn declared(spec: &Value) -> Declared {
    let object = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": KIND,
        "metadata": { "name": "charts", "namespace": "apps", "uid": "1", "generation": 1 },
        "spec": spec,
    });
    let object: HelmRepository = serde_json::from_value(object).unwrap();
    Declared::try_from(&object).unwrap()
}

fn status(revision: &str) -> HelmRepositoryStatus {
    let artifact = json!({
        "digest": "sha256:0", "lastUpdateTime": "2026-01-02T00:00:00Z", "path": "p", "revision": revision,
        "url": "http://source/p",
    });
    let artifact: StatusArtifact = serde_json::from_value(artifact).unwrap();
    HelmRepositoryStatus {
        artifact: Some(artifact),
        ..HelmRepositoryStatus::default()
    }
}

#[test]
fn only_another_index_is_published() {
    let own = declared(&json!({ "url": "https://a.example/charts" }));
    let fetched = |revision: &str| {
        Ok(Index::Fetched {
            file: tempfile::tempfile().unwrap(),
            revision: revision.to_owned(),
        })
    };
    let check = |artifact: Artifact, index: Result<Index, Failure>, expected: Plan| {
        let seen = Seen::Observed(Box::new(Observed {
            status: status("sha256:1"),
            artifact,
            index,
        }));
        assert_eq!(decide(&own, &seen), expected, "{seen:?}");
    };
    let publish = |revision: &str, lost| Plan::Publish {
        revision: revision.to_owned(),
        lost,
    };
    check(Artifact::Stored, Ok(Index::Unchanged), Plan::Keep);
    check(Artifact::Stored, fetched("sha256:1"), Plan::Keep);
    check(Artifact::Stored, fetched("sha256:2"), publish("sha256:2", false));
    check(Artifact::Lost, fetched("sha256:1"), publish("sha256:1", true));
    let failure = Failure::unsupported("x", "y");
    let failed = |lost| Plan::Fail {
        failure: failure.clone(),
        lost,
    };
    check(Artifact::Stored, Err(failure.clone()), failed(false));
    check(Artifact::Lost, Err(failure.clone()), failed(true));
}

#[test]
fn a_registry_is_static() {
    let own = declared(&json!({ "url": "oci://a.example/charts", "type": "oci" }));
    let check = |status: HelmRepositoryStatus, expected: Plan| {
        assert_eq!(decide(&own, &Seen::Unobserved(Box::new(status))), expected);
    };
    check(HelmRepositoryStatus::default(), Plan::Nothing);
    check(status("sha256:1"), Plan::Clear);
    let unobserved = HelmRepositoryStatus {
        observed_generation: Some(-1),
        ..HelmRepositoryStatus::default()
    };
    check(unobserved, Plan::Clear);
    let deleted = Declared {
        deleting: true,
        ..own
    };
    assert_eq!(decide(&deleted, &Seen::Unobserved(Box::default())), Plan::Delete);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_artifact_follows_the_index() {
    let (session, host) = (Session::start(HelmSettings::default()).await, Host::start().await);
    let first = index(&[("app", "1.0.0", "app-1.0.0.tgz", "")]);
    host.put("/charts/index.yaml", first.clone());
    let spec = json!({ "url": format!("{}/charts", host.address), "interval": "1h" });
    session.create(KIND, "charts", json!({ "spec": spec })).await;
    let revision = format!("sha256:{}", digest(first.as_bytes()));
    let message = format!("stored artifact: revision '{revision}'");
    let status = session.ready(KIND, "charts", "Succeeded", &message).await;
    let path = format!(
        "helmrepository/apps/charts/index-{}.yaml",
        digest(first.as_bytes())
    );
    assert_eq!(status["artifact"]["path"], path);
    assert_eq!(status["artifact"]["revision"], revision);
    assert_eq!(
        status["url"],
        "http://source:9090/helmrepository/apps/charts/index.yaml"
    );
    assert_eq!(session.bytes(&status), first.as_bytes());
    let size = format!("{}B", first.len());
    let stored = format!(
        "stored fetched index of size {size} from '{}/charts'",
        host.address
    );
    session.event(&format!("Normal NewArtifact {stored}")).await;
    assert_eq!(host.requests(), ["/charts/index.yaml 200"]);

    // the same index is not sent again, and nothing changes
    let again = session.reconcile(KIND, "charts", "1").await;
    assert_eq!(again["conditions"], status["conditions"]);
    assert_eq!(host.requests(), ["/charts/index.yaml 304"]);

    // an index that does not parse changes nothing
    host.put("/charts/index.yaml", "entries: {}\n");
    let failed = session.reconcile(KIND, "charts", "2").await;
    let why =
        "failed to load Helm repository from index YAML: failed to load index: no API version specified";
    assert_eq!(failed["artifact"], status["artifact"]);
    assert_eq!(
        told(&failed),
        [
            "Reconciling=True ProgressingWithRetry: reconciliation in progress",
            &format!("Ready=False IndexationFailed: {why}"),
            &format!("ArtifactInStorage=True Succeeded: {message}"),
            &format!("FetchFailed=True IndexationFailed: {why}"),
        ]
    );

    let second = index(&[("app", "1.1.0", "app-1.1.0.tgz", "")]);
    host.put("/charts/index.yaml", second.clone());
    let status = session.reconcile(KIND, "charts", "3").await;
    assert_eq!(
        status["artifact"]["revision"],
        format!("sha256:{}", digest(second.as_bytes()))
    );

    session.delete(KIND, "charts").await;
    session.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_limits_and_addresses() {
    let settings = HelmSettings {
        index_bytes_max: 1000,
        ..HelmSettings::default()
    };
    let (session, host) = (Session::start(settings).await, Host::start().await);
    let other = Host::start().await;
    let text = index(&[("app", "1.0.0", "app-1.0.0.tgz", "")]);
    host.put("/index.yaml", text.clone());
    host.put("/large/index.yaml", "x".repeat(1001));
    host.redirect("/moved/index.yaml", &format!("{}/index.yaml", other.address));
    other.put("/index.yaml", text);
    host.require("dXNlcjpwYXNz");
    let create = async |name: &str, spec: Value| {
        session.create(KIND, name, json!({ "spec": spec })).await;
    };
    let url = |path: &str| format!("{}{path}", host.address);

    create("none", json!({ "url": url("/") })).await;
    let why = format!("failed to fetch {}/index.yaml : 401 Unauthorized", host.address);
    let status = session.ready(KIND, "none", "Failed", &why).await;
    assert!(status["artifact"].is_null());

    let secret = json!({ "name": "login" });
    create("user", json!({ "url": url("/"), "secretRef": secret })).await;
    let why = "failed to get authentication secret 'apps/login': secrets \"login\" not found";
    session.ready(KIND, "user", "AuthenticationFailed", why).await;
    let data = json!({ "stringData": { "username": "user", "password": "pass" } });
    session.create("Secret", "login", data).await;
    session.reconcile(KIND, "user", "1").await;
    session.ready(KIND, "user", "Succeeded", "stored artifact").await;

    create("large", json!({ "url": url("/large"), "secretRef": secret })).await;
    let why = "index exceeds the maximum index file size of 1000 bytes";
    session.ready(KIND, "large", "Failed", why).await;

    // the login stays at its host
    create("moved", json!({ "url": url("/moved"), "secretRef": secret })).await;
    session.ready(KIND, "moved", "Succeeded", "stored artifact").await;
    assert_eq!(other.requests(), ["/index.yaml 200"]);
    assert!(host.requests().contains(&"/moved/index.yaml 302+".to_owned()));

    let half = json!({ "stringData": { "username": "user" } });
    session.create("Secret", "half", half).await;
    create(
        "half",
        json!({ "url": url("/"), "secretRef": { "name": "half" } }),
    )
    .await;
    let why = "malformed basic auth - has 'username' but missing 'password'";
    session.ready(KIND, "half", "AuthenticationFailed", why).await;
    create(
        "tls",
        json!({ "url": url("/"), "certSecretRef": { "name": "half" } }),
    )
    .await;
    let why = "must contain either 'ca.crt' or both 'tls.crt' and 'tls.key'";
    session.ready(KIND, "tls", "AuthenticationFailed", why).await;

    // a host that accepts connections and does not answer
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", silent.local_addr().unwrap());
    create("silent", json!({ "url": address, "timeout": "1s" })).await;
    let why = "no complete answer within 1s (spec.timeout)";
    session.ready(KIND, "silent", "Failed", why).await;
    session.delete(KIND, "silent").await;

    create("oci", json!({ "url": "oci://a.example/charts" })).await;
    let why = "'oci' URL scheme cannot be used with 'default' HelmRepository type";
    let status = session.ready(KIND, "oci", "URLInvalid", why).await;
    assert!(told(&status)[0].starts_with("Stalled=True URLInvalid"));
    // it becomes static, without any status
    session
        .patch(KIND, "oci", json!({ "spec": { "type": "oci" } }))
        .await;
    equate_testkit::eventually::eventually("it is static", std::time::Duration::from_secs(60), async || {
        let object = session.api(KIND).get("oci").await.unwrap();
        let finalizers = object.metadata.finalizers.unwrap_or_default();
        match (&object.data["status"], finalizers.is_empty()) {
            (status, true) if *status == json!({}) => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await;
    assert_eq!(session.behind(), Vec::<String>::new());
    session.delete(KIND, "oci").await;
    session.stop().await;
}
