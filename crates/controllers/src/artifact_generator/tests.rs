//! Whole runs with a git repository.

use equate_api::extensions::ArtifactGenerator;
use equate_api::meta::Reason;
use equate_api::source::ExternalArtifact;
use equate_source::{Limits, Tree};
use equate_testkit::eventually::eventually;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use kube::api::Api;
use serde_json::{Value, json};

use super::declared::Declared;
use crate::sources::charts::HelmSettings;
use crate::sources::testing::{DEADLINE, GIT_URL, Session, told};

const OWN: &str = "ArtifactGenerator";
const MADE: &str = "ExternalArtifact";

fn source() -> Value {
    json!({ "alias": "git", "kind": "GitRepository", "name": "fleet" })
}

#[test]
fn invalid_specs_are_named() {
    let check = |spec: Value, reason: Reason, expected: &str| {
        let mut object = json!({
            "apiVersion": "source.extensions.fluxcd.io/v1beta1", "kind": OWN,
            "metadata": { "name": "split", "namespace": "apps" },
            "spec": { "sources": [source()], "artifacts": [] },
        });
        object["spec"]
            .as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        let object: ArtifactGenerator = serde_json::from_value(object).unwrap();
        let declared = Declared::from(&object);
        let refused = declared.refused.clone().or_else(|| declared.crosses()).unwrap();
        assert_eq!((refused.reason, refused.message.as_str()), (reason, expected));
    };
    let copy = json!([{ "from": "@git/a", "to": "@artifact/" }]);
    let invalid = Reason::ValidationFailed;
    check(
        json!({ "sources": [source(), source()] }),
        invalid,
        "duplicate source alias 'git' found",
    );
    let one = json!({ "name": "a", "copy": copy });
    check(
        json!({ "artifacts": [one, one] }),
        invalid,
        "duplicate artifact name 'a' found",
    );
    let wrong = json!({ "name": "A", "copy": copy });
    let text = "artifact name \"A\" is not a valid Kubernetes object name";
    check(json!({ "artifacts": [wrong] }), invalid, text);
    let other = json!({ "name": "a", "copy": copy, "revision": "@oci" });
    let text = "artifact a revision source alias 'oci' not found";
    check(json!({ "artifacts": [other] }), invalid, text);
    let far = json!({ "alias": "git", "kind": "Bucket", "name": "b", "namespace": "far" });
    let text = "cross-namespace reference to source Bucket/far/b is not allowed";
    check(json!({ "sources": [far] }), Reason::AccessDenied, text);
}

async fn start() -> Session {
    let more = [ArtifactGenerator::crd(), ExternalArtifact::crd()];
    let controllers = ["source-controller", "source-watcher"];
    Session::with(HelmSettings::default(), &more, &controllers).await
}

async fn generate(session: &Session, spec: Value) {
    let mut whole = json!({ "sources": [source()] });
    whole
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    session.create(OWN, "split", json!({ "spec": whole })).await;
}

/// The status of an ExternalArtifact, once it meets a condition.
async fn made(session: &Session, name: &str, is_met: impl Fn(&Value) -> bool) -> Value {
    eventually(&format!("{name} is made"), DEADLINE, async || {
        let found = session
            .api(MADE)
            .get_opt(name)
            .await
            .map_err(|error| error.to_string())?;
        let found = found.ok_or("it is absent")?;
        let object = serde_json::to_value(&found).unwrap();
        match is_met(&object["status"]) {
            true => Ok(object),
            false => Err(object["status"].to_string()),
        }
    })
    .await
}

async fn absent(session: &Session, name: &str) {
    eventually(&format!("{name} is absent"), DEADLINE, async || {
        match session.api(MADE).get_opt(name).await {
            Ok(None) => Ok(()),
            found => Err(format!("{found:?}")),
        }
    })
    .await;
}

fn files(session: &Session, object: &Value) -> Vec<String> {
    let bytes = session.bytes(&object["status"]);
    let tree = Tree::from_archive(&*bytes, &Limits::default()).unwrap();
    tree.list("").unwrap().into_iter().map(|(name, _)| name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_artifact_changes_only_with_its_files() {
    let session = start().await;
    let git = json!({ "url": GIT_URL, "ref": { "branch": "main" }, "interval": "1h" });
    let first = session
        .repository
        .commit(&[
            ("apps/a/a.yaml", Some("a: 1\n")),
            ("apps/b/b.yaml", Some("b: 1\n")),
            ("common/c.yaml", Some("c: 1\n")),
        ])
        .unwrap();
    let common = json!({ "from": "@git/common/**", "to": "@artifact/" });
    let artifacts = json!([
        { "name": "a", "copy": [{ "from": "@git/apps/a/**", "to": "@artifact/" }, common] },
        { "name": "b", "copy": [{ "from": "@git/apps/b/**", "to": "@artifact/" }], "originRevision": "@git" },
    ]);
    let metadata = json!({ "labels": { "team": "x" }, "annotations": { "note": "y" } });
    generate(
        &session,
        json!({ "artifacts": artifacts, "commonMetadata": metadata }),
    )
    .await;
    let text = "get sources failed: GitRepository.source.toolkit.fluxcd.io \"fleet\" not found";
    session.ready(OWN, "split", "SourceFetchFailed", text).await;
    session
        .create("GitRepository", "fleet", json!({ "spec": git }))
        .await;
    let text = "reconciliation succeeded, generated 2 artifact(s)";
    let status = session.ready(OWN, "split", "Succeeded", text).await;
    let own = json!([{
        "name": "a", "namespace": "apps",
        "digest": status["inventory"][0]["digest"], "filename": status["inventory"][0]["filename"],
    }]);
    assert_eq!(status["inventory"][0], own[0]);
    let (a, b) = (
        made(&session, "a", |_| true).await,
        made(&session, "b", |_| true).await,
    );
    assert_eq!(files(&session, &a), ["a.yaml", "c.yaml"]);
    let digest = a["status"]["artifact"]["digest"].as_str().unwrap();
    assert_eq!(
        a["status"]["artifact"]["revision"],
        json!(format!("latest@{digest}"))
    );
    assert_eq!(own[0]["digest"], json!(digest));
    let path = format!("externalartifact/apps/a/{}", own[0]["filename"].as_str().unwrap());
    assert_eq!(a["status"]["artifact"]["path"], json!(path));
    assert_eq!(told(&a["status"]), ["Ready=True Succeeded: Artifact is ready"]);
    let generator = session.api(OWN).get("split").await.unwrap();
    assert_eq!(
        a["metadata"]["labels"],
        json!({
            "app.kubernetes.io/managed-by": "source-watcher",
            "source.extensions.fluxcd.io/generator": generator.metadata.uid,
            "team": "x",
        })
    );
    assert_eq!(a["metadata"]["annotations"], json!({ "note": "y" }));
    assert_eq!(
        a["spec"]["sourceRef"],
        json!({ "apiVersion": "source.extensions.fluxcd.io/v1beta1", "kind": OWN, "name": "split", "namespace": "apps" })
    );
    let revision = format!("main@sha1:{first}");
    let metadata = json!({ "org.opencontainers.image.revision": revision });
    assert_eq!(b["status"]["artifact"]["metadata"], metadata);

    // a commit that changes one of them
    let second = session
        .repository
        .commit(&[("apps/b/b.yaml", Some("b: 2\n"))])
        .unwrap();
    let revision = json!(format!("main@sha1:{second}"));
    let pointer = "/artifact/metadata/org.opencontainers.image.revision";
    let b = made(&session, "b", |status| status.pointer(pointer) == Some(&revision)).await;
    assert_eq!(files(&session, &b), ["b.yaml"]);
    session.reconcile(OWN, "split", "1").await;
    let kept = made(&session, "a", |_| true).await;
    assert_eq!(kept["status"], a["status"]);
    assert_eq!(
        kept["metadata"]["resourceVersion"],
        a["metadata"]["resourceVersion"]
    );

    // a deleted ExternalArtifact comes back
    session.api(MADE).delete("b", &Default::default()).await.unwrap();
    session.reconcile(OWN, "split", "2").await;
    made(&session, "b", |status| status["artifact"] != Value::Null).await;

    // one that is not wanted any more goes
    let one = json!([{ "name": "a", "copy": [common] }]);
    session
        .patch(OWN, "split", json!({ "spec": { "artifacts": one } }))
        .await;
    absent(&session, "b").await;
    session
        .ready(OWN, "split", "Succeeded", "generated 1 artifact(s)")
        .await;

    let wrong = json!([{ "name": "a", "copy": [{ "from": "@git/none", "to": "@artifact/" }] }]);
    session
        .patch(OWN, "split", json!({ "spec": { "artifacts": wrong } }))
        .await;
    let text = "a build failed: failed to apply copy operations: failed to apply copy operation from '@git/none' to \
                '@artifact/': source 'none' does not exist";
    session.ready(OWN, "split", "BuildFailed", text).await;
    made(&session, "a", |status| status["artifact"] != Value::Null).await;
    session.delete(OWN, "split").await;
    absent(&session, "a").await;
    session.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_directory_of_a_pattern_gets_its_artifact() {
    let session = start().await;
    let git = json!({ "url": GIT_URL, "ref": { "branch": "main" }, "interval": "1h" });
    session
        .repository
        .commit(&[
            ("apps/Web/a.yaml", Some("a: 1\n")),
            ("apps/db/a.yaml", Some("a: 2\n")),
        ])
        .unwrap();
    session
        .create("GitRepository", "fleet", json!({ "spec": git }))
        .await;
    let foreign = json!({ "spec": {} });
    session.create(MADE, "app-db", foreign).await;
    let artifact =
        json!({ "name": "app-{app}", "copy": [{ "from": "@git/apps/{app}/**", "to": "@artifact/" }] });
    generate(
        &session,
        json!({ "pathPattern": "@git/apps/{app}", "artifacts": [artifact] }),
    )
    .await;
    let text = "app-db reconcile failed: ExternalArtifact apps/app-db is not of this generator";
    session.ready(OWN, "split", "ReconciliationFailed", text).await;
    session.delete(MADE, "app-db").await;
    session.reconcile(OWN, "split", "1").await;
    session
        .ready(OWN, "split", "Succeeded", "generated 2 artifact(s)")
        .await;
    let web = made(&session, "app-web", |_| true).await;
    assert_eq!(web["metadata"]["labels"]["app"], json!("web"));
    session
        .repository
        .commit(&[("apps/db/a.yaml", None), ("apps/new/a.yaml", Some("a: 3\n"))])
        .unwrap();
    absent(&session, "app-db").await;
    made(&session, "app-new", |status| status["artifact"] != Value::Null).await;

    let disabled =
        json!({ "metadata": { "annotations": { "source.extensions.fluxcd.io/reconcile": "disabled" } } });
    session.patch(OWN, "split", disabled).await;
    session
        .patch(
            OWN,
            "split",
            json!({ "spec": { "pathPattern": "@git/none/{app}" } }),
        )
        .await;
    let enabled =
        json!({ "metadata": { "annotations": { "source.extensions.fluxcd.io/reconcile": "enabled" } } });
    made(&session, "app-new", |_| true).await;
    session.patch(OWN, "split", enabled).await;
    session
        .ready(OWN, "split", "Succeeded", "generated 0 artifact(s)")
        .await;
    absent(&session, "app-new").await;
    session.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletion_ends_long_work() {
    let session = start().await;
    let names: Vec<String> = (0..300).map(|number| format!("many/{number}")).collect();
    let files: Vec<(&str, Option<&str>)> = names.iter().map(|name| (&**name, Some("a"))).collect();
    session.repository.commit(&files).unwrap();
    let git = json!({ "url": GIT_URL, "ref": { "branch": "main" }, "interval": "1h" });
    session
        .create("GitRepository", "fleet", json!({ "spec": git }))
        .await;
    session.ready("GitRepository", "fleet", "Succeeded", "").await;
    let first = json!([{ "from": "@git/many/1", "to": "@artifact/" }]);
    // 300 files, 100 patterns of 64 alternatives each, 200 times
    let excluded = vec!["{a,b,c,d}{a,b,c,d}{a,b,c,d}*"; 100];
    let long = json!({
        "from": "@git/many/**", "to": "@artifact/", "strategy": "Extract", "exclude": excluded,
    });
    let artifacts = json!([
        { "name": "first", "copy": first },
        { "name": "long", "copy": vec![long; 200] },
    ]);
    generate(&session, json!({ "artifacts": artifacts })).await;
    made(&session, "first", |status| status["artifact"] != Value::Null).await;
    session.delete(OWN, "split").await;
    absent(&session, "first").await;
    assert_eq!(session.warnings().await, Vec::<String>::new());
    session.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generator_is_deleted_without_the_kind_of_its_artifacts() {
    let session = start().await;
    session.repository.commit(&[("a", Some("a"))]).unwrap();
    let git = json!({ "url": GIT_URL, "ref": { "branch": "main" }, "interval": "1h" });
    session
        .create("GitRepository", "fleet", json!({ "spec": git }))
        .await;
    let copy = json!([{ "from": "@git/a", "to": "@artifact/" }]);
    generate(&session, json!({ "artifacts": [{ "name": "a", "copy": copy }] })).await;
    made(&session, "a", |status| status["artifact"] != Value::Null).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(session.cluster.client());
    let name = "externalartifacts.source.toolkit.fluxcd.io";
    definitions.delete(name, &Default::default()).await.unwrap();
    eventually("the kind is gone", DEADLINE, async || {
        match session.api(MADE).get_opt("a").await {
            Ok(None) => Ok(()),
            found => Err(format!("{found:?}")),
        }
    })
    .await;
    session.delete(OWN, "split").await;
    session.stop().await;
}
