//! Sources of charts.

use equate_api::source::Bucket;
use equate_testkit::bucket::BucketServer;
use serde_json::json;

use super::{KIND, chart, metadata, packaged, pulled, remote, repository, start, value};
use crate::fields::objects::MAP;

#[tokio::test]
async fn spec_source_ref_kind_helm_repository() {
    let session = start().await;
    chart(&session, "app", remote()).await;
    let message = "failed to get source: HelmRepository.source.toolkit.fluxcd.io \"charts\" not found";
    session.reports(KIND, "app", "SourceUnavailable", message).await;
    let _server = repository(&session, &["1.0.0"]).await;
    let status = pulled(&session, "app", "1.0.0").await;
    assert_eq!(value(&session, &status), json!("one"));
    session.end().await;
}

#[tokio::test]
async fn spec_source_ref_kind_git_repository() {
    let session = start().await;
    chart(&session, "app", json!({})).await;
    let status = packaged(&session, "app", "1.0.0").await;
    assert_eq!(value(&session, &status), json!("one"));
    session.end().await;
}

#[tokio::test]
async fn spec_source_ref_kind_bucket() {
    let session = start().await;
    session.serves::<Bucket>().await;
    let server = BucketServer::open().unwrap();
    server.put("app/Chart.yaml", metadata("2.0.0"));
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
    chart(&session, "app", spec).await;
    let status = packaged(&session, "app", "2.0.0").await;
    assert_eq!(value(&session, &status), json!("bucket"));
    session.end().await;
}

#[tokio::test]
async fn spec_source_ref_name() {
    let session = start().await;
    chart(&session, "app", json!({ "sourceRef": { "name": "none" } })).await;
    let message = "failed to get source: GitRepository.source.toolkit.fluxcd.io \"none\" not found";
    session.reports(KIND, "app", "SourceUnavailable", message).await;
    session
        .respec(KIND, "app", json!({ "sourceRef": { "name": "fleet" } }))
        .await;
    packaged(&session, "app", "1.0.0").await;
    session.end().await;
}

/// As in Flux, the kind alone selects the source.
#[tokio::test]
async fn spec_source_ref_api_version() {
    let session = start().await;
    chart(
        &session,
        "app",
        json!({ "sourceRef": { "apiVersion": "other.test/v1" } }),
    )
    .await;
    packaged(&session, "app", "1.0.0").await;
    session.end().await;
}
