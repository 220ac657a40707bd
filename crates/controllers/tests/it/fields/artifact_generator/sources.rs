//! The sources.

use equate_api::source::{Bucket, HelmChart, OciRepository};
use equate_testkit::bucket::BucketServer;
use equate_testkit::registry::RegistryServer;
use serde_json::{Value, json};

use super::{KIND, copies, generate, git, holds, start, start_with};
use crate::fields::objects::MAP;
use crate::session::{Options, Session, URL};

/// An artifact of a source `it` has its file.
async fn read(session: &Session, source: Value, from: &str, expected: &[(&str, &str)]) {
    let mut spec = copies(json!([{ "from": from, "to": "@artifact/" }]));
    spec["sources"] = json!([source]);
    session.declare(KIND, "reader", spec).await;
    holds(session, "app", expected).await;
}

#[tokio::test]
async fn spec_sources_alias() {
    let session = start().await;
    let mut spec = copies(json!([{ "from": "@other/apps/db/**", "to": "@artifact/" }]));
    generate(&session, spec.clone()).await;
    session
        .reports(KIND, "split", "BuildFailed", "source alias 'other' not found")
        .await;
    let mut source = git();
    source["alias"] = json!("other");
    spec["sources"] = json!([source]);
    session.respec(KIND, "split", spec).await;
    holds(&session, "app", &[("a.yaml", "a: db\n")]).await;
    session
        .respec(KIND, "split", json!({ "sources": [source, source] }))
        .await;
    let message = "duplicate source alias 'other' found";
    session.reports(KIND, "split", "ValidationFailed", message).await;
    session.end().await;
}

#[tokio::test]
async fn spec_sources_name() {
    let session = start().await;
    let mut spec = copies(json!([{ "from": "@git/apps/db/**", "to": "@artifact/" }]));
    spec["sources"] = json!([{ "alias": "git", "kind": "GitRepository", "name": "none" }]);
    generate(&session, spec).await;
    let message = "get sources failed: GitRepository.source.toolkit.fluxcd.io \"none\" not found";
    session.reports(KIND, "split", "SourceFetchFailed", message).await;
    session.respec(KIND, "split", json!({ "sources": [git()] })).await;
    holds(&session, "app", &[("a.yaml", "a: db\n")]).await;
    session.end().await;
}

/// A source of another namespace, unless a policy denies it.
#[tokio::test]
async fn spec_sources_namespace() {
    let session = start().await;
    session.namespace("@home-team").await;
    let spec = json!({ "url": URL, "interval": "1h", "ref": { "branch": "main" } });
    session
        .declare_in("@home-team", "GitRepository", "theirs", spec)
        .await;
    let source =
        json!({ "alias": "git", "kind": "GitRepository", "name": "theirs", "namespace": "@home-team" });
    read(&session, source, "@git/apps/db/**", &[("a.yaml", "a: db\n")]).await;
    session.end().await;
}

#[tokio::test]
async fn spec_sources_kind_git_repository() {
    let session = start().await;
    read(&session, git(), "@git/apps/db/**", &[("a.yaml", "a: db\n")]).await;
    // a new commit makes a new artifact
    session.commit(&[("apps/db/a.yaml", Some("a: two\n"))]);
    holds(&session, "app", &[("a.yaml", "a: two\n")]).await;
    session.end().await;
}

#[tokio::test]
async fn spec_sources_kind_bucket() {
    let session = start().await;
    session.serves::<Bucket>().await;
    let server = BucketServer::open().unwrap();
    server.put("in/a.yaml", "a: bucket\n");
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
    let source = json!({ "alias": "it", "kind": "Bucket", "name": "files" });
    read(&session, source, "@it/in/**", &[("a.yaml", "a: bucket\n")]).await;
    session.end().await;
}

#[tokio::test]
async fn spec_sources_kind_ocirepository() {
    let session = start().await;
    session.serves::<OciRepository>().await;
    let server = RegistryServer::open().unwrap();
    let kind = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
    let layer = crate::fields::objects::packed("app", "1.0.0", &[]);
    server.artifact("org/app", "v1", &[(kind, &layer)], &[]);
    let url = format!("{}/org/app", server.url());
    let spec = json!({ "url": url, "interval": "1h", "ref": { "tag": "v1" } });
    session.declare("OCIRepository", "files", spec).await;
    let source = json!({ "alias": "it", "kind": "OCIRepository", "name": "files" });
    read(
        &session,
        source,
        "@it/app/values.yaml",
        &[("values.yaml", "value: one\n")],
    )
    .await;
    session.end().await;
}

/// The files of the packed chart.
#[tokio::test]
async fn spec_sources_kind_helm_chart() {
    let files = [
        (
            "charts/app/Chart.yaml",
            "apiVersion: v2\nname: app\nversion: 1.0.0\n",
        ),
        ("charts/app/values.yaml", "value: one\n"),
        ("charts/app/templates/map.yaml", MAP),
    ];
    let session = start_with(&files, Options::default()).await;
    session.serves::<HelmChart>().await;
    let origin = json!({ "kind": "GitRepository", "name": "fleet" });
    let chart = json!({ "chart": "charts/app", "interval": "1h", "sourceRef": origin });
    session.declare("HelmChart", "chart", chart).await;
    let source = json!({ "alias": "it", "kind": "HelmChart", "name": "chart" });
    read(
        &session,
        source,
        "@it/app/values.yaml",
        &[("values.yaml", "value: one\n")],
    )
    .await;
    session.end().await;
}

/// An artifact of another generator.
#[tokio::test]
async fn spec_sources_kind_external_artifact() {
    let session = start().await;
    let copy = json!([{ "from": "@git/apps/**", "to": "@artifact/" }]);
    generate(
        &session,
        json!({ "artifacts": [{ "name": "first", "copy": copy }] }),
    )
    .await;
    let source = json!({ "alias": "it", "kind": "ExternalArtifact", "name": "first" });
    read(&session, source, "@it/db/**", &[("a.yaml", "a: db\n")]).await;
    session.end().await;
}
