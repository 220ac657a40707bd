//! The chart: a HelmChart of the template, or a reference to a source.

use equate_api::extensions::ArtifactGenerator;
use equate_api::source::{Bucket, ExternalArtifact, HelmRepository, OciRepository};
use equate_testkit::bucket::BucketServer;
use equate_testkit::registry::{RegistryOptions, RegistryServer};
use equate_testkit::web::WebServer;
use serde_json::{Value, json};

use super::{KIND, METADATA, installed, push, ready, release, start, value};
use crate::fields::objects::{MAP, index, packed};
use crate::fields::signer::Signer;
use crate::session::{Session, URL};

const LAYER: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// The HelmChart of the template has this at a place.
async fn has(session: &Session, pointer: &str, expected: Value) {
    let name = session.here("@home-app");
    session.is("HelmChart", &name, pointer, expected).await;
}

#[tokio::test]
async fn spec_chart_metadata_labels() {
    let session = start().await;
    installed(
        &session,
        json!({ "chart": { "metadata": { "labels": { "team": "blue" } } } }),
    )
    .await;
    has(&session, "/metadata/labels/team", json!("blue")).await;
    session.end().await;
}

#[tokio::test]
async fn spec_chart_metadata_annotations() {
    let session = start().await;
    let annotations = json!({ "chart": { "metadata": { "annotations": { "team": "blue" } } } });
    installed(&session, annotations).await;
    has(&session, "/metadata/annotations/team", json!("blue")).await;
    session.end().await;
}

/// A spec of the template.
fn template(spec: Value) -> Value {
    json!({ "chart": { "spec": spec } })
}

#[tokio::test]
async fn spec_chart_spec_chart() {
    let session = start().await;
    release(&session, "app", template(json!({ "chart": "charts/none" }))).await;
    session
        .reports(KIND, "app", "SourceNotReady", "is not ready")
        .await;
    session
        .respec(KIND, "app", template(json!({ "chart": "charts/app" })))
        .await;
    ready(&session, "InstallSucceeded", 1).await;
    value(&session, "one").await;
    session.end().await;
}

#[tokio::test]
async fn spec_chart_spec_values_files() {
    let session = start().await;
    let files = json!(["charts/app/values.yaml", "charts/app/prod.yaml"]);
    installed(&session, template(json!({ "valuesFiles": files }))).await;
    value(&session, "prod").await;
    session.end().await;
}

#[tokio::test]
async fn spec_chart_spec_ignore_missing_values_files() {
    let session = start().await;
    let files = json!(["charts/app/none.yaml", "charts/app/prod.yaml"]);
    release(&session, "app", template(json!({ "valuesFiles": files }))).await;
    session
        .reports(KIND, "app", "SourceNotReady", "is not ready")
        .await;
    let ignored = template(json!({ "ignoreMissingValuesFiles": true }));
    session.respec(KIND, "app", ignored).await;
    ready(&session, "InstallSucceeded", 1).await;
    value(&session, "prod").await;
    session.end().await;
}

/// The default is the release's interval.
#[tokio::test]
async fn spec_chart_spec_interval() {
    let session = start().await;
    installed(&session, json!({})).await;
    has(&session, "/spec/interval", json!("1h0m0s")).await;
    session
        .respec(KIND, "app", template(json!({ "interval": "7m" })))
        .await;
    has(&session, "/spec/interval", json!("7m0s")).await;
    session.end().await;
}

const CHANGED: (&str, Option<&str>) = ("charts/app/values.yaml", Some("value: two\n"));

/// A new version of the chart is released, and no other change of the source.
#[tokio::test]
async fn spec_chart_spec_reconcile_strategy_chart_version() {
    let session = start().await;
    installed(&session, template(json!({ "reconcileStrategy": "ChartVersion" }))).await;
    let revision = push(&session, &[CHANGED]).await;
    has(
        &session,
        "/status/observedSourceArtifactRevision",
        json!(revision),
    )
    .await;
    session.demand(KIND, "app", "now").await;
    ready(&session, "InstallSucceeded", 1).await;
    let metadata = METADATA.replace("1.0.0", "1.1.0");
    push(&session, &[("charts/app/Chart.yaml", Some(&metadata))]).await;
    let status = ready(&session, "UpgradeSucceeded", 2).await;
    assert_eq!(status["history"][0]["chartVersion"], json!("1.1.0"));
    value(&session, "two").await;
    session.end().await;
}

/// Each revision of the source is released.
#[tokio::test]
async fn spec_chart_spec_reconcile_strategy_revision() {
    let session = start().await;
    installed(&session, template(json!({ "reconcileStrategy": "Revision" }))).await;
    let revision = push(&session, &[CHANGED]).await;
    let status = ready(&session, "UpgradeSucceeded", 2).await;
    let commit = revision.rsplit(':').next().unwrap();
    let version = format!("1.0.0+{}", &commit[..12]);
    assert_eq!(status["history"][0]["chartVersion"], json!(version));
    value(&session, "two").await;
    session.end().await;
}

/// As in Flux, the kind alone selects the source.
#[tokio::test]
async fn spec_chart_spec_source_ref_api_version() {
    let session = start().await;
    installed(
        &session,
        template(json!({ "sourceRef": { "apiVersion": "other.test/v1" } })),
    )
    .await;
    session.end().await;
}

/// A chart repository `charts` with two versions of the chart.
async fn repository(session: &Session) -> WebServer {
    session.serves::<HelmRepository>().await;
    let server = WebServer::open().unwrap();
    for version in ["1.0.0", "2.0.0"] {
        server.put(&format!("/app-{version}.tgz"), packed("app", version, &[]));
    }
    let charts = [
        ("app", "1.0.0", "app-1.0.0.tgz"),
        ("app", "2.0.0", "app-2.0.0.tgz"),
    ];
    server.put("/index.yaml", index(&charts));
    let spec = json!({ "url": server.url(), "interval": "1h" });
    session.declare("HelmRepository", "charts", spec).await;
    server
}

fn of_repository() -> Value {
    json!({ "chart": "app", "sourceRef": { "kind": "HelmRepository", "name": "charts" } })
}

#[tokio::test]
async fn spec_chart_spec_source_ref_kind_helm_repository() {
    let session = start().await;
    let _server = repository(&session).await;
    installed(&session, template(of_repository())).await;
    value(&session, "one").await;
    session.end().await;
}

#[tokio::test]
async fn spec_chart_spec_version() {
    let session = start().await;
    let _server = repository(&session).await;
    let mut spec = of_repository();
    spec["version"] = json!("1.x");
    let status = installed(&session, template(spec)).await;
    assert_eq!(status["history"][0]["chartVersion"], json!("1.0.0"));
    session
        .respec(KIND, "app", template(json!({ "version": "*" })))
        .await;
    let status = ready(&session, "UpgradeSucceeded", 2).await;
    assert_eq!(status["history"][0]["chartVersion"], json!("2.0.0"));
    session.end().await;
}

#[tokio::test]
async fn spec_chart_spec_source_ref_kind_git_repository() {
    let session = start().await;
    installed(&session, json!({})).await;
    value(&session, "one").await;
    session.end().await;
}

#[tokio::test]
async fn spec_chart_spec_source_ref_kind_bucket() {
    let session = start().await;
    session.serves::<Bucket>().await;
    let server = BucketServer::open().unwrap();
    server.put("app/Chart.yaml", METADATA);
    server.put("app/values.yaml", "value: bucket\n");
    server.put("app/templates/map.yaml", MAP);
    session
        .conceal(
            "keys",
            json!({ "accesskey": "access", "secretkey": "secret/key+1" }),
        )
        .await;
    let bucket = json!({
        "bucketName": "apps", "endpoint": server.endpoint(), "insecure": true, "interval": "1h",
        "secretRef": { "name": "keys" },
    });
    session.declare("Bucket", "files", bucket).await;
    let spec = json!({ "chart": "app", "sourceRef": { "kind": "Bucket", "name": "files" } });
    installed(&session, template(spec)).await;
    value(&session, "bucket").await;
    session.end().await;
}

#[tokio::test]
async fn spec_chart_spec_source_ref_name() {
    let session = start().await;
    release(
        &session,
        "app",
        template(json!({ "sourceRef": { "name": "none" } })),
    )
    .await;
    session
        .reports(KIND, "app", "SourceNotReady", "is not ready")
        .await;
    session
        .respec(KIND, "app", template(json!({ "sourceRef": { "name": "fleet" } })))
        .await;
    ready(&session, "InstallSucceeded", 1).await;
    session.end().await;
}

/// The HelmChart is in the namespace of its source.
#[tokio::test]
async fn spec_chart_spec_source_ref_namespace() {
    let session = start().await;
    session.namespace("@home-team").await;
    let source = json!({ "url": URL, "interval": "1h", "ref": { "branch": "main" } });
    session
        .declare_in("@home-team", "GitRepository", "theirs", source)
        .await;
    let source = json!({ "name": "theirs", "namespace": "@home-team" });
    installed(&session, template(json!({ "sourceRef": source }))).await;
    let name = session.here("@home-app");
    session.exists_in("@home-team", "HelmChart", &name, true).await;
    session.end().await;
}

/// A registry `charts` with the chart, and the digest of its manifest.
async fn registry(session: &Session) -> (RegistryServer, String) {
    session.serves::<HelmRepository>().await;
    let server = RegistryServer::open().unwrap();
    let digest = server.artifact(
        "charts/app",
        "1.0.0",
        &[(LAYER, &packed("app", "1.0.0", &[]))],
        &[],
    );
    let spec = json!({ "type": "oci", "url": format!("{}/charts", server.url()) });
    session.declare("HelmRepository", "charts", spec).await;
    (server, digest)
}

fn verified(verify: Value) -> Value {
    let mut spec = of_repository();
    spec["version"] = json!("1.0.0");
    spec["verify"] = verify;
    template(spec)
}

/// The chart is released once it is signed.
#[tokio::test]
async fn spec_chart_spec_verify_provider_cosign() {
    let session = start().await;
    let (server, digest) = registry(&session).await;
    let signer = Signer::new();
    session
        .conceal("keys", json!({ "cosign.pub": signer.public() }))
        .await;
    let spec = verified(json!({ "provider": "cosign", "secretRef": { "name": "keys" } }));
    release(&session, "app", spec).await;
    session
        .reports(KIND, "app", "SourceNotReady", "is not ready")
        .await;
    signer.sign(&server, "charts/app", &digest);
    let chart = session.here("@home-app");
    session.demand("HelmChart", &chart, "signed").await;
    ready(&session, "InstallSucceeded", 1).await;
    session.end().await;
}

#[tokio::test]
async fn spec_chart_spec_verify_secret_ref_name() {
    let session = start().await;
    let (server, digest) = registry(&session).await;
    let signer = Signer::new();
    signer.sign(&server, "charts/app", &digest);
    let spec = verified(json!({ "provider": "cosign", "secretRef": { "name": "none" } }));
    release(&session, "app", spec).await;
    session
        .reports(KIND, "app", "SourceNotReady", "is not ready")
        .await;
    session
        .conceal("keys", json!({ "cosign.pub": signer.public() }))
        .await;
    let keys = template(json!({ "verify": { "secretRef": { "name": "keys" } } }));
    session.respec(KIND, "app", keys).await;
    ready(&session, "InstallSucceeded", 1).await;
    session.end().await;
}

/// A policy that requires a signature, then one that skips it.
#[tokio::test]
async fn spec_chart_spec_verify_provider_notation() {
    let session = start().await;
    let (_server, _) = registry(&session).await;
    let tls = RegistryServer::start(RegistryOptions {
        tls: true,
        ..RegistryOptions::default()
    })
    .unwrap();
    let data = |statement: Value| {
        let policy = json!({ "version": "1.0", "trustPolicies": [statement] }).to_string();
        json!({ "trustpolicy.json": policy, "ca.crt": tls.certificate().unwrap() })
    };
    let strict = json!({
        "name": "all", "registryScopes": ["*"], "signatureVerification": { "level": "strict" },
        "trustStores": ["ca:all"], "trustedIdentities": ["*"],
    });
    session.conceal("strict", data(strict)).await;
    let spec = verified(json!({ "provider": "notation", "secretRef": { "name": "strict" } }));
    release(&session, "app", spec).await;
    session
        .reports(KIND, "app", "SourceNotReady", "is not ready")
        .await;
    let skip = json!({
        "name": "all", "registryScopes": ["*"], "signatureVerification": { "level": "skip" },
    });
    session.conceal("skip", data(skip)).await;
    let skips = template(json!({ "verify": { "secretRef": { "name": "skip" } } }));
    session.respec(KIND, "app", skips).await;
    ready(&session, "InstallSucceeded", 1).await;
    session.end().await;
}

/// A release by a reference.
fn referring(reference: Value) -> Value {
    json!({ "chart": null, "chartRef": reference })
}

/// Its version has the digest of the artifact.
#[tokio::test]
async fn spec_chart_ref_kind_ocirepository() {
    let session = start().await;
    session.serves::<OciRepository>().await;
    let server = RegistryServer::open().unwrap();
    let digest = server.artifact(
        "charts/app",
        "1.0.0",
        &[(LAYER, &packed("app", "1.0.0", &[]))],
        &[],
    );
    let selector = json!({ "mediaType": LAYER, "operation": "copy" });
    let source = json!({
        "url": format!("{}/charts/app", server.url()), "interval": "1h", "ref": { "tag": "1.0.0" },
        "layerSelector": selector,
    });
    session.declare("OCIRepository", "chart", source).await;
    let spec = referring(json!({ "kind": "OCIRepository", "name": "chart" }));
    let status = installed(&session, spec).await;
    let version = format!("1.0.0+{}", &digest["sha256:".len()..][..12]);
    assert_eq!(status["history"][0]["chartVersion"], json!(version));
    assert_eq!(status["history"][0]["ociDigest"], json!(digest));
    session.end().await;
}

/// A HelmChart `shared` in a namespace.
async fn shared(session: &Session, namespace: &str) {
    let source = json!({ "kind": "GitRepository", "name": "fleet" });
    let spec = json!({ "chart": "charts/app", "interval": "1h", "sourceRef": source });
    session.declare_in(namespace, "HelmChart", "shared", spec).await;
}

#[tokio::test]
async fn spec_chart_ref_kind_helm_chart() {
    let session = start().await;
    shared(&session, "@home").await;
    let spec = referring(json!({ "kind": "HelmChart", "name": "shared" }));
    let status = installed(&session, spec).await;
    assert_eq!(status["helmChart"], Value::Null);
    let own = session.here("@home-app");
    session.exists("HelmChart", &own, false).await;
    session.end().await;
}

/// An artifact of an ArtifactGenerator.
#[tokio::test]
async fn spec_chart_ref_kind_external_artifact() {
    let session = start().await;
    session.serves::<ExternalArtifact>().await;
    session.serves::<ArtifactGenerator>().await;
    let generator = json!({
        "sources": [{ "alias": "git", "kind": "GitRepository", "name": "fleet" }],
        "artifacts": [{ "name": "chart", "copy": [{ "from": "@git/charts/app", "to": "@artifact/" }] }],
    });
    session.declare("ArtifactGenerator", "split", generator).await;
    let spec = referring(json!({ "kind": "ExternalArtifact", "name": "chart" }));
    installed(&session, spec).await;
    value(&session, "one").await;
    session.end().await;
}

#[tokio::test]
async fn spec_chart_ref_name() {
    let session = start().await;
    let spec = referring(json!({ "kind": "HelmChart", "name": "shared" }));
    release(&session, "app", spec).await;
    session
        .reports(KIND, "app", "ArtifactFailed", "\"shared\" not found")
        .await;
    shared(&session, "@home").await;
    ready(&session, "InstallSucceeded", 1).await;
    session.end().await;
}

#[tokio::test]
async fn spec_chart_ref_namespace() {
    let session = start().await;
    session.namespace("@home-team").await;
    let source = json!({ "url": URL, "interval": "1h", "ref": { "branch": "main" } });
    session
        .declare_in("@home-team", "GitRepository", "fleet", source)
        .await;
    shared(&session, "@home-team").await;
    let reference = json!({ "kind": "HelmChart", "name": "shared", "namespace": "@home-team" });
    installed(&session, referring(reference)).await;
    session.end().await;
}

/// As in Flux, the kind alone selects the source.
#[tokio::test]
async fn spec_chart_ref_api_version() {
    let session = start().await;
    shared(&session, "@home").await;
    let reference = json!({ "apiVersion": "other.test/v1", "kind": "HelmChart", "name": "shared" });
    installed(&session, referring(reference)).await;
    session.end().await;
}
