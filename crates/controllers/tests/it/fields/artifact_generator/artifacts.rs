//! The artifacts, their files and metadata.

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::Write as _;

use super::{KIND, MADE, copies, generate, holds, start, start_with, succeeded};
use crate::fields::objects::told;
use crate::session::{Options, Session};

/// The files that copy operations make.
async fn made(operations: Value, expected: &[(&str, &str)]) {
    let session = start().await;
    generate(&session, copies(operations)).await;
    holds(&session, "app", expected).await;
    session.end().await;
}

/// A directory, its content, a pattern, a file.
#[tokio::test]
async fn spec_artifacts_copy_from() {
    let to = "@artifact/";
    let whole = ("web/a.yaml", "a: web\n");
    made(
        json!([{ "from": "@git/apps/web", "to": to }]),
        &[whole, ("web/b.md", "text")],
    )
    .await;
    let below = [("a.yaml", "a: web\n"), ("b.md", "text")];
    made(json!([{ "from": "@git/apps/web/**", "to": to }]), &below).await;
    let matching = [("apps/db/a.yaml", "a: db\n"), ("apps/web/a.yaml", "a: web\n")];
    made(json!([{ "from": "@git/apps/*/a.yaml", "to": to }]), &matching).await;
    made(
        json!([{ "from": "@git/apps/db/a.yaml", "to": to }]),
        &[("a.yaml", "a: db\n")],
    )
    .await;
}

#[tokio::test]
async fn spec_artifacts_copy_from_that_is_missing() {
    let session = start().await;
    generate(
        &session,
        copies(json!([{ "from": "@git/none", "to": "@artifact/" }])),
    )
    .await;
    let message =
        "failed to apply copy operation from '@git/none' to '@artifact/': source 'none' does not exist";
    session.reports(KIND, "split", "BuildFailed", message).await;
    session.end().await;
}

#[tokio::test]
async fn spec_artifacts_copy_to() {
    let operations = json!([
        { "from": "@git/apps/db/a.yaml", "to": "@artifact/deep/other.yaml" },
        { "from": "@git/apps/web/**", "to": "@artifact/here/" },
    ]);
    let expected = [
        ("deep/other.yaml", "a: db\n"),
        ("here/a.yaml", "a: web\n"),
        ("here/b.md", "text"),
    ];
    made(operations, &expected).await;
}

#[tokio::test]
async fn spec_artifacts_copy_exclude() {
    let operations = json!([{ "from": "@git/apps/**", "to": "@artifact/", "exclude": ["*.md", "db/**"] }]);
    made(operations, &[("web/a.yaml", "a: web\n")]).await;
}

/// The later file replaces the earlier one.
#[tokio::test]
async fn spec_artifacts_copy_strategy_overwrite() {
    let operations = json!([
        { "from": "@git/common/a.yaml", "to": "@artifact/" },
        { "from": "@git/common/over.yaml", "to": "@artifact/a.yaml", "strategy": "Overwrite" },
    ]);
    made(operations, &[("a.yaml", "b: {d: 2}\n")]).await;
}

/// The later file is merged into the earlier one.
#[tokio::test]
async fn spec_artifacts_copy_strategy_merge() {
    let operations = json!([
        { "from": "@git/common/a.yaml", "to": "@artifact/" },
        { "from": "@git/common/over.yaml", "to": "@artifact/a.yaml", "strategy": "Merge" },
    ]);
    made(operations, &[("a.yaml", "a: common\nb:\n  c: 1\n  d: 2\n")]).await;
}

/// The files of an archive, as an OCIRepository copies it.
#[tokio::test]
async fn spec_artifacts_copy_strategy_extract() {
    let session = start().await;
    session.serves::<equate_api::source::OciRepository>().await;
    let server = equate_testkit::registry::RegistryServer::open().unwrap();
    let inner = archive(&[("a.yaml", "a: packed\n")]);
    let kind = "application/vnd.cncf.flux.content.v1.tar+gzip";
    // the source's artifact has the layer as one archive in it
    let layer = archive_of_bytes("files.tar.gz", &inner);
    server.artifact("org/app", "v1", &[(kind, &layer)], &[]);
    let url = format!("{}/org/app", server.url());
    let source = json!({ "url": url, "interval": "1h", "ref": { "tag": "v1" }, "ignore": "none" });
    session.declare("OCIRepository", "files", source).await;
    let sources = json!([{ "alias": "oci", "kind": "OCIRepository", "name": "files" }]);
    let mut spec = copies(json!([
        { "from": "@oci/files.tar.gz", "to": "@artifact/out/", "strategy": "Extract" },
    ]));
    spec["sources"] = sources;
    generate(&session, spec).await;
    holds(&session, "app", &[("out/a.yaml", "a: packed\n")]).await;
    session.end().await;
}

/// A `tar.gz`.
fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, text) in files {
        append(&mut tar, path, text.as_bytes());
    }
    ended(tar)
}

/// One with one file.
fn archive_of_bytes(path: &str, bytes: &[u8]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    append(&mut tar, path, bytes);
    ended(tar)
}

fn append(tar: &mut tar::Builder<GzEncoder<Vec<u8>>>, path: &str, bytes: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, path, bytes).unwrap();
}

fn ended(tar: tar::Builder<GzEncoder<Vec<u8>>>) -> Vec<u8> {
    let mut gzip = tar.into_inner().unwrap();
    gzip.flush().unwrap();
    gzip.finish().unwrap()
}

/// An ExternalArtifact of the name; one that is not declared any more goes.
#[tokio::test]
async fn spec_artifacts_name() {
    let session = start().await;
    let copy = json!([{ "from": "@git/apps/db/**", "to": "@artifact/" }]);
    generate(&session, copies(copy.clone())).await;
    holds(&session, "app", &[("a.yaml", "a: db\n")]).await;
    let artifacts = json!([{ "name": "other", "copy": copy }]);
    session
        .respec(KIND, "split", json!({ "artifacts": artifacts }))
        .await;
    holds(&session, "other", &[("a.yaml", "a: db\n")]).await;
    session.exists(MADE, "app", false).await;
    let twice = json!([{ "name": "other", "copy": copy }, { "name": "other", "copy": copy }]);
    session.respec(KIND, "split", json!({ "artifacts": twice })).await;
    let message = "duplicate artifact name 'other' found";
    session.reports(KIND, "split", "ValidationFailed", message).await;
    session.end().await;
}

/// An artifact of one file, with more fields; returns its status.
async fn revised(fields: Value) -> (Session, Value, String) {
    let session = start().await;
    let mut spec = copies(json!([{ "from": "@git/apps/db/**", "to": "@artifact/" }]));
    crate::fields::merge(&mut spec["artifacts"][0], &fields);
    generate(&session, spec).await;
    succeeded(&session, 1).await;
    let object = holds(&session, "app", &[("a.yaml", "a: db\n")]).await;
    let source = session.look("GitRepository", "@home", "fleet").await;
    let revision = source["status"]["artifact"]["revision"]
        .as_str()
        .unwrap()
        .to_owned();
    (session, object["status"]["artifact"].clone(), revision)
}

/// That of a source; without it, a digest of the files.
#[tokio::test]
async fn spec_artifacts_revision() {
    let (session, artifact, revision) = revised(json!({ "revision": "@git" })).await;
    assert_eq!(artifact["revision"], json!(revision));
    session.end().await;
    let (session, artifact, _) = revised(json!({})).await;
    let expected = format!("latest@{}", artifact["digest"].as_str().unwrap());
    assert_eq!(artifact["revision"], json!(expected));
    session.end().await;
}

#[tokio::test]
async fn spec_artifacts_origin_revision() {
    let (session, artifact, revision) = revised(json!({ "originRevision": "@git" })).await;
    let metadata = json!({ "org.opencontainers.image.revision": revision });
    assert_eq!(artifact["metadata"], metadata);
    session.end().await;
}

async fn common(part: &str) {
    let session = start().await;
    let mut spec = copies(json!([{ "from": "@git/apps/db/**", "to": "@artifact/" }]));
    spec["commonMetadata"] = json!({ part: { "team": "blue" } });
    generate(&session, spec).await;
    session
        .is(MADE, "app", &format!("/metadata/{part}/team"), json!("blue"))
        .await;
    session.end().await;
}

#[tokio::test]
async fn spec_common_metadata_labels() {
    common("labels").await;
}

#[tokio::test]
async fn spec_common_metadata_annotations() {
    common("annotations").await;
}

/// Each directory that matches gets its artifact.
#[tokio::test]
async fn spec_path_pattern() {
    let session = start().await;
    let artifact =
        json!({ "name": "of-{app}", "copy": [{ "from": "@git/apps/{app}/**", "to": "@artifact/" }] });
    generate(
        &session,
        json!({ "pathPattern": "@git/apps/{app}", "artifacts": [artifact] }),
    )
    .await;
    succeeded(&session, 2).await;
    let object = holds(&session, "of-db", &[("a.yaml", "a: db\n")]).await;
    assert_eq!(object["metadata"]["labels"]["app"], json!("db"));
    holds(&session, "of-web", &[("a.yaml", "a: web\n"), ("b.md", "text")]).await;
    session.commit(&[("apps/db/a.yaml", None), ("apps/new/a.yaml", Some("a: new\n"))]);
    holds(&session, "of-new", &[("a.yaml", "a: new\n")]).await;
    session.exists(MADE, "of-db", false).await;
    session.end().await;
}

/// A disabled generator does nothing; its artifacts stay.
#[tokio::test]
async fn annotation_reconcile() {
    let session = start().await;
    let mut spec = copies(json!([{ "from": "@git/apps/db/**", "to": "@artifact/" }]));
    spec["sources"] = json!([super::git()]);
    let annotation = "source.extensions.fluxcd.io/reconcile";
    let object = json!({
        "apiVersion": "source.extensions.fluxcd.io/v1beta1", "kind": KIND,
        "metadata": {
            "name": "split", "namespace": "@home", "labels": session.labels(),
            "annotations": { annotation: "disabled" },
        },
        "spec": spec,
    });
    session.create(object).await;
    let message = "Initialized with reconciliation suspended";
    let status = session
        .reports(KIND, "split", "ReconciliationDisabled", message)
        .await;
    assert_eq!(told(&status, "Ready")["status"], json!("True"));
    session.exists(MADE, "app", false).await;
    session.annotate(KIND, "split", annotation, Value::Null).await;
    holds(&session, "app", &[("a.yaml", "a: db\n")]).await;
    session
        .annotate(KIND, "split", annotation, json!("disabled"))
        .await;
    let other = json!([{ "from": "@git/apps/web/a.yaml", "to": "@artifact/" }]);
    session.respec(KIND, "split", copies(other.clone())).await;
    // another generator runs meanwhile
    spec["artifacts"] = json!([{ "name": "also", "copy": other }]);
    session.declare(KIND, "also", spec).await;
    holds(&session, "also", &[("a.yaml", "a: web\n")]).await;
    holds(&session, "app", &[("a.yaml", "a: db\n")]).await;
    session.annotate(KIND, "split", annotation, Value::Null).await;
    holds(&session, "app", &[("a.yaml", "a: web\n")]).await;
    session.end().await;
}

/// A deleted ExternalArtifact comes back.
#[tokio::test]
async fn annotation_requested_at() {
    let session = start().await;
    let spec = copies(json!([{ "from": "@git/apps/db/**", "to": "@artifact/" }]));
    generate(&session, spec).await;
    holds(&session, "app", &[("a.yaml", "a: db\n")]).await;
    session
        .delete::<equate_api::source::ExternalArtifact>("@home", "app")
        .await;
    session.exists(MADE, "app", false).await;
    session.demand(KIND, "split", "now").await;
    holds(&session, "app", &[("a.yaml", "a: db\n")]).await;
    session.end().await;
}

/// An object with a shard's key belongs to another process.
#[tokio::test]
async fn label_sharding_key() {
    let options = Options {
        selector: Some("!sharding.fluxcd.io/key".to_owned()),
        ..Options::default()
    };
    let session = start_with(&super::FILES, options).await;
    let key = |key: Value| json!({ "metadata": { "labels": { "sharding.fluxcd.io/key": key } } });
    let mut spec = copies(json!([{ "from": "@git/apps/db/**", "to": "@artifact/" }]));
    spec["sources"] = json!([super::git()]);
    let mut labels = session.labels();
    labels["sharding.fluxcd.io/key"] = json!("one");
    let object = json!({
        "apiVersion": "source.extensions.fluxcd.io/v1beta1", "kind": KIND,
        "metadata": { "name": "split", "namespace": "@home", "labels": labels }, "spec": spec,
    });
    session.create(object).await;
    spec["artifacts"][0]["name"] = json!("also");
    session.declare(KIND, "also", spec).await;
    holds(&session, "also", &[("a.yaml", "a: db\n")]).await;
    session.exists(MADE, "app", false).await;
    session.set(KIND, "split", key(Value::Null)).await;
    holds(&session, "app", &[("a.yaml", "a: db\n")]).await;
    session.end().await;
}
