//! Sources of other controllers: their artifacts are fetched from the URLs in their statuses.

use std::fmt::Debug;

use equate_api::extensions::ArtifactGenerator;
use equate_api::source::{Bucket, ExternalArtifact, GitRepository, OciRepository};
use equate_controllers::Policy;
use equate_testkit::eventually::eventually;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{CustomResourceExt as _, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::artifact_server::{ArtifactServer, published};
use crate::session::{DEADLINE, HOME, Options, Session, config_map};

const FIRST: &str = "latest@sha256:1111111111111111111111111111111111111111111111111111111111111111";
const SECOND: &str = "latest@sha256:2222222222222222222222222222222222222222222222222222222222222222";
const THIRD: &str = "latest@sha256:3333333333333333333333333333333333333333333333333333333333333333";

async fn start() -> Session {
    let options = Options {
        http_retries: Some(0),
        policy: Policy {
            external_artifacts: true,
            ..Policy::default()
        },
        // its sources are of another process
        selector: Some("!app".to_owned()),
        ..Options::default()
    };
    Session::with(&[], options).await
}

async fn source<K>(session: &Session, name: &str, spec: Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let object = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": { "name": name, "namespace": HOME, "labels": { name: "yes" } },
        "spec": spec,
    });
    let api: Api<K> = Api::namespaced(session.client.clone(), HOME);
    let create = async || {
        let object: K = serde_json::from_value(object.clone()).unwrap();
        api.create(&PostParams::default(), &object).await
    };
    eventually("the kind is served", DEADLINE, create).await;
}

async fn oci(session: &Session) {
    let spec = json!({ "url": "oci://registry.invalid/app", "interval": "10m" });
    source::<OciRepository>(session, "app", spec).await;
}

fn of_oci() -> Value {
    json!({ "sourceRef": { "kind": "OCIRepository", "name": "app" } })
}

/// Waits until a Kustomization is not ready with this message.
async fn says(session: &Session, name: &str, expected: &str) {
    let passes = |status: &equate_api::kustomize::KustomizationStatus| {
        let (ready, message) = crate::session::ready(status);
        ready == "False" && message.contains(expected)
    };
    session.until(name, expected, passes).await;
}

#[tokio::test]
async fn spec_source_ref_oci_repository_is_read_from_its_status_url() {
    let session = start().await;
    session.kustomize("apps", "apps", of_oci()).await;
    says(&session, "apps", "no matches for kind \"OCIRepository\"").await;
    assert!(
        session
            .fails("apps", "ArtifactFailed")
            .await
            .contains("install its CustomResourceDefinition")
    );
    session.define(OciRepository::crd()).await;
    says(
        &session,
        "apps",
        "OCIRepository.source.toolkit.fluxcd.io \"app\" not found",
    )
    .await;
    oci(&session).await;
    says(
        &session,
        "apps",
        "Source artifact not found, waiting for OCIRepository/flux-system/app",
    )
    .await;

    let server = ArtifactServer::start().await;
    let one = config_map("a", "one");
    let mut artifact = server.publish("first", FIRST, &[("apps/a.yaml", &one), ("other/x", "1")]);
    artifact["metadata"] = json!({ "org.opencontainers.image.revision": "main@sha1:abc" });
    published::<OciRepository>(&session, "app", &artifact).await;
    let status = session.ready("apps", FIRST).await;
    assert_eq!(
        status.last_applied_origin_revision.as_deref(),
        Some("main@sha1:abc")
    );
    assert_eq!(status.history[0].metadata["originRevision"], "main@sha1:abc");
    session.value("default", "a", Some("one")).await;
    session.event("apps", "ReconciliationSucceeded").await;
    let events: Api<Event> = Api::namespaced(session.client.clone(), HOME);
    let about = |event: &Event| {
        let annotations = event.metadata.annotations.clone().unwrap_or_default();
        annotations
            .get("kustomize.toolkit.fluxcd.io/originRevision")
            .cloned()
    };
    let list = events.list(&ListParams::default()).await.unwrap();
    assert!(
        list.items
            .iter()
            .filter_map(about)
            .any(|origin| origin == "main@sha1:abc")
    );

    // other files: nothing is built
    let before = session.stats();
    let artifact = server.publish("second", SECOND, &[("apps/a.yaml", &one), ("other/x", "2")]);
    published::<OciRepository>(&session, "app", &artifact).await;
    let status = session.ready("apps", SECOND).await;
    assert_eq!(status.last_applied_origin_revision, None);
    let after = session.stats();
    assert_eq!((after.builds, after.applies), (before.builds, before.applies));
    assert_eq!(after.builds_skipped, before.builds_skipped + 1);
    assert_eq!((server.asked("first"), server.asked("second")), (1, 1));

    // removed before it is read: nothing changes, and the next one is read
    let artifact = server.publish("third", THIRD, &[("apps/a.yaml", &config_map("a", "two"))]);
    server.collect("third");
    published::<OciRepository>(&session, "app", &artifact).await;
    says(&session, "apps", "Source is not ready, artifact not found: ").await;
    session
        .event("apps", "Warning ArtifactFailed Source is not ready")
        .await;
    session.value("default", "a", Some("one")).await;
    let artifact = server.publish("again", THIRD, &[("apps/a.yaml", &config_map("a", "two"))]);
    published::<OciRepository>(&session, "app", &artifact).await;
    session.ready("apps", THIRD).await;
    session.value("default", "a", Some("two")).await;
    session.end().await;
}

#[tokio::test]
async fn an_archive_with_a_wrong_digest_is_not_read() {
    let session = start().await;
    session.define(OciRepository::crd()).await;
    oci(&session).await;
    session.kustomize("apps", "apps", of_oci()).await;
    let server = ArtifactServer::start().await;
    let promised = server.publish("app", FIRST, &[("apps/a.yaml", &config_map("a", "one"))]);
    server.publish("app", FIRST, &[("apps/a.yaml", &config_map("a", "forged"))]);
    published::<OciRepository>(&session, "app", &promised).await;
    says(
        &session,
        "apps",
        "failed to verify archive: computed digest doesn't match provided",
    )
    .await;
    session.value("default", "a", None).await;

    // the artifact of the status exists at last; a request finds it
    server.publish("app", FIRST, &[("apps/a.yaml", &config_map("a", "one"))]);
    let asked = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "now" } } });
    session.patch("apps", asked).await;
    session.ready("apps", FIRST).await;
    session.value("default", "a", Some("one")).await;
    session.end().await;
}

#[tokio::test]
async fn spec_source_ref_bucket_is_fetched_once_for_all_and_not_again_after_a_restart() {
    let mut session = start().await;
    session.define(Bucket::crd()).await;
    let spec = json!({ "bucketName": "b", "endpoint": "s3.invalid", "interval": "10m" });
    source::<Bucket>(&session, "app", spec).await;
    let server = ArtifactServer::start().await;
    let names: Vec<String> = (0..12).map(|number| format!("app-{number}")).collect();
    let maps: Vec<(String, String)> = names
        .iter()
        .map(|name| (format!("{name}/a.yaml"), config_map(name, "one")))
        .collect();
    let files: Vec<(&str, &str)> = maps.iter().map(|(path, text)| (&**path, &**text)).collect();
    let revision = "sha256:1111111111111111111111111111111111111111111111111111111111111111";
    let artifact = server.publish("app", revision, &files);
    published::<Bucket>(&session, "app", &artifact).await;
    for name in &names {
        let spec = json!({ "sourceRef": { "kind": "Bucket", "name": "app" } });
        session.kustomize(name, name, spec).await;
    }
    for name in &names {
        session.ready(name, revision).await;
    }
    assert_eq!(server.asked("app"), 1);

    drop(server);
    let options = Options {
        selector: Some("!app".to_owned()),
        ..Options::default()
    };
    session.engine(options).await;
    let patch = json!({ "spec": { "commonMetadata": { "labels": { "again": "yes" } } } });
    session.patch("app-0", patch).await;
    let status = session
        .until("app-0", "built again", |status| {
            status.observed_generation == Some(2)
        })
        .await;
    assert_eq!(
        crate::session::ready(&status),
        ("True".to_owned(), format!("Applied revision: {revision}"))
    );
    session.end().await;
}

/// The archive is in the store of this process: nothing is downloaded.
#[tokio::test]
async fn an_artifact_generator_feeds_a_kustomization() {
    let options = Options {
        policy: Policy {
            external_artifacts: true,
            ..Policy::default()
        },
        ..Options::default()
    };
    let files = [("apps/a.yaml", &*config_map("a", "one")), ("other/x", "1")];
    let session = Session::with(&files, options).await;
    for definition in [ExternalArtifact::crd(), ArtifactGenerator::crd()] {
        session.define(definition).await;
    }
    let spec = json!({
        "sources": [{ "alias": "git", "kind": "GitRepository", "name": "fleet" }],
        "artifacts": [{ "name": "apps", "copy": [{ "from": "@git/apps/**", "to": "@artifact/here/" }] }],
    });
    source::<ArtifactGenerator>(&session, "split", spec).await;
    let own = json!({ "sourceRef": { "kind": "ExternalArtifact", "name": "apps" } });
    session.kustomize("apps", "here", own).await;
    session.value("default", "a", Some("one")).await;
    let artifacts: Api<ExternalArtifact> = Api::namespaced(session.client.clone(), HOME);
    let made = artifacts
        .get("apps")
        .await
        .unwrap()
        .status
        .unwrap()
        .artifact
        .unwrap();
    session.ready("apps", &made.revision).await;
    assert!(made.revision.starts_with("latest@sha256:"), "{made:?}");
    session.end().await;
}

#[tokio::test]
async fn spec_source_ref_external_artifact_needs_the_feature_gate() {
    let mut session = start().await;
    session.define(ExternalArtifact::crd()).await;
    source::<ExternalArtifact>(&session, "app", json!({})).await;
    let server = ArtifactServer::start().await;
    let artifact = server.publish("app", FIRST, &[("apps/a.yaml", &config_map("a", "one"))]);
    published::<ExternalArtifact>(&session, "app", &artifact).await;
    session.engine(Options::default()).await;
    let spec = json!({ "sourceRef": { "kind": "ExternalArtifact", "name": "app" } });
    session.kustomize("apps", "apps", spec).await;
    let message = session.fails("apps", "AccessDenied").await;
    assert!(
        message.starts_with(
            "can't access 'ExternalArtifact/flux-system/app', ExternalArtifact feature gate is disabled"
        ),
        "{message}"
    );
    assert_eq!(server.asked("app"), 0);
    let policy = Policy {
        external_artifacts: true,
        ..Policy::default()
    };
    let options = Options {
        policy,
        ..Options::default()
    };
    session.engine(options).await;
    session.ready("apps", FIRST).await;
    session.value("default", "a", Some("one")).await;
    session.end().await;
}

#[tokio::test]
async fn a_git_repository_of_another_process_is_read_from_its_status_url() {
    let options = Options {
        selector: Some("!far".to_owned()),
        ..Options::default()
    };
    let session = Session::with(&[], options).await;
    let server = ArtifactServer::start().await;
    let revision = "main@sha1:1111111111111111111111111111111111111111";
    let artifact = server.publish("far", revision, &[("apps/a.yaml", &config_map("a", "one"))]);
    let spec = json!({ "url": "https://far.invalid/far", "interval": "10m" });
    source::<GitRepository>(&session, "far", spec).await;
    published::<GitRepository>(&session, "far", &artifact).await;
    let spec = json!({ "sourceRef": { "kind": "GitRepository", "name": "far" } });
    session.kustomize("apps", "apps", spec).await;
    session.ready("apps", revision).await;
    session.value("default", "a", Some("one")).await;
    assert_eq!(server.asked("far"), 1);

    // the other process publishes a new artifact: undeclared objects are deleted
    let next = "main@sha1:2222222222222222222222222222222222222222";
    let artifact = server.publish("next", next, &[("apps/b.yaml", &config_map("b", "one"))]);
    published::<GitRepository>(&session, "far", &artifact).await;
    session.ready("apps", next).await;
    session.value("default", "b", Some("one")).await;
    session.value("default", "a", None).await;
    session.end().await;
}
