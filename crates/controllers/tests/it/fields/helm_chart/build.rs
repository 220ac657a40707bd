//! Packaging: values files, versions, and the times of a new artifact.

use serde_json::{Value, json};

use super::{
    KIND, chart, metadata, packaged, publish, pulled, push, remote, repository, start, start_with, value,
};
use crate::session::Options;

#[tokio::test]
async fn spec_chart() {
    let session = start().await;
    chart(&session, "app", json!({ "chart": "charts/none" })).await;
    let message = "invalid chart reference: no chart found at 'charts/none'";
    session
        .reports(KIND, "app", "InvalidChartReference", message)
        .await;
    session
        .respec(KIND, "app", json!({ "chart": "./charts/app" }))
        .await;
    packaged(&session, "app", "1.0.0").await;
    session.end().await;
}

/// By name, of a chart repository.
#[tokio::test]
async fn spec_chart_by_name() {
    let session = start().await;
    let _server = repository(&session, &["1.0.0"]).await;
    let mut spec = remote();
    spec["chart"] = json!("none");
    chart(&session, "app", spec).await;
    let message = "failed to get chart version for remote reference: no chart name found";
    session
        .reports(KIND, "app", "InvalidChartReference", message)
        .await;
    session.respec(KIND, "app", json!({ "chart": "app" })).await;
    pulled(&session, "app", "1.0.0").await;
    session.end().await;
}

/// A range selects the newest version in it.
#[tokio::test]
async fn spec_version() {
    let session = start().await;
    let _server = repository(&session, &["1.0.0", "1.2.0", "2.0.0", "3.0.0-rc.1"]).await;
    let mut spec = remote();
    spec["version"] = json!("1.x");
    chart(&session, "app", spec).await;
    pulled(&session, "app", "1.2.0").await;
    session.respec(KIND, "app", json!({ "version": "*" })).await;
    pulled(&session, "app", "2.0.0").await;
    session
        .respec(KIND, "app", json!({ "version": ">=3.0.0-0" }))
        .await;
    pulled(&session, "app", "3.0.0-rc.1").await;
    session.respec(KIND, "app", json!({ "version": "9.x" })).await;
    session.reports(KIND, "app", "InvalidChartReference", "9.x").await;
    session.end().await;
}

/// The registry is asked for a newer tag without a request.
#[tokio::test]
async fn spec_interval() {
    let session = start().await;
    let server = equate_testkit::registry::RegistryServer::open().unwrap();
    let push = |version: &str| {
        let bytes = crate::fields::objects::packed("app", version, &[]);
        let layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
        server.artifact("charts/app", version, &[(layer, &bytes)], &[]);
    };
    push("1.0.0");
    let spec = json!({ "type": "oci", "url": format!("{}/charts", server.url()) });
    session.declare("HelmRepository", "charts", spec).await;
    let mut spec = remote();
    spec["interval"] = json!("1s");
    chart(&session, "app", spec).await;
    pulled(&session, "app", "1.0.0").await;
    push("1.1.0");
    pulled(&session, "app", "1.1.0").await;
    session.end().await;
}

#[tokio::test]
async fn spec_suspend() {
    let session = start().await;
    chart(&session, "app", json!({ "suspend": true })).await;
    chart(&session, "also", json!({})).await;
    packaged(&session, "also", "1.0.0").await;
    assert_eq!(
        session.look(KIND, "@home", "app").await["status"]["artifact"],
        Value::Null
    );
    session.respec(KIND, "app", json!({ "suspend": false })).await;
    packaged(&session, "app", "1.0.0").await;
    session.end().await;
}

/// Another revision of the source with the same version of the chart is the same artifact.
#[tokio::test]
async fn spec_reconcile_strategy_chart_version() {
    let session = start().await;
    chart(&session, "app", json!({ "reconcileStrategy": "ChartVersion" })).await;
    let first = packaged(&session, "app", "1.0.0").await;
    let revision = push(&session, &[("charts/app/values.yaml", Some("value: two\n"))]).await;
    let pointer = "/status/observedSourceArtifactRevision";
    session.is(KIND, "app", pointer, json!(revision)).await;
    let kept = packaged(&session, "app", "1.0.0").await;
    assert_eq!(kept["artifact"], first["artifact"]);
    push(&session, &[("charts/app/Chart.yaml", Some(&metadata("1.1.0")))]).await;
    let second = packaged(&session, "app", "1.1.0").await;
    assert_eq!(value(&session, &second), json!("two"));
    session.end().await;
}

/// Each revision of the source is another version of the chart.
#[tokio::test]
async fn spec_reconcile_strategy_revision() {
    let session = start().await;
    chart(&session, "app", json!({ "reconcileStrategy": "Revision" })).await;
    let revision = push(&session, &[("charts/app/values.yaml", Some("value: two\n"))]).await;
    let commit = revision.rsplit(':').next().unwrap();
    let status = packaged(&session, "app", &format!("1.0.0+{}", &commit[..12])).await;
    assert_eq!(value(&session, &status), json!("two"));
    session.end().await;
}

/// Those of the chart, and by a leading slash those of the source; in this order.
#[tokio::test]
async fn spec_values_files() {
    let session = start().await;
    let files = json!(["charts/app/values.yaml", "env/site.yaml", "charts/app/prod.yaml"]);
    chart(&session, "app", json!({ "valuesFiles": files })).await;
    let status = packaged(&session, "app", "1.0.0+1").await;
    assert_eq!(value(&session, &status), json!("prod"));
    session
        .respec(
            KIND,
            "app",
            json!({ "valuesFiles": ["charts/app/prod.yaml", "env/site.yaml"] }),
        )
        .await;
    let status = packaged(&session, "app", "1.0.0+2").await;
    assert_eq!(value(&session, &status), json!("site"));
    session.end().await;
}

/// Of a chart of a repository: files in the chart.
#[tokio::test]
async fn spec_values_files_of_a_pulled_chart() {
    let session = start().await;
    let _server = repository(&session, &["1.0.0"]).await;
    let mut spec = remote();
    spec["valuesFiles"] = json!(["values.yaml", "prod.yaml"]);
    chart(&session, "app", spec).await;
    let status = packaged(&session, "app", "1.0.0+1").await;
    assert_eq!(value(&session, &status), json!("prod-1.0.0"));
    session.end().await;
}

#[tokio::test]
async fn spec_ignore_missing_values_files() {
    let session = start().await;
    let files = json!(["charts/app/none.yaml", "charts/app/prod.yaml"]);
    chart(&session, "app", json!({ "valuesFiles": files })).await;
    session
        .reports(KIND, "app", "ValuesFilesError", "none.yaml")
        .await;
    session
        .respec(KIND, "app", json!({ "ignoreMissingValuesFiles": true }))
        .await;
    let status = packaged(&session, "app", "1.0.0+2").await;
    assert_eq!(value(&session, &status), json!("prod"));
    session.end().await;
}

#[tokio::test]
async fn annotation_requested_at() {
    let session = start().await;
    let server = repository(&session, &["1.0.0"]).await;
    let mut spec = remote();
    spec["version"] = json!("1.1.0");
    chart(&session, "app", spec).await;
    session
        .reports(KIND, "app", "InvalidChartReference", "1.1.0")
        .await;
    publish(&server, &["1.0.0", "1.1.0"]);
    session.demand("HelmRepository", "charts", "now").await;
    session.demand(KIND, "app", "now").await;
    pulled(&session, "app", "1.1.0").await;
    session.end().await;
}

/// An object with a shard's key belongs to another process.
#[tokio::test]
async fn label_sharding_key() {
    let options = Options {
        selector: Some("!sharding.fluxcd.io/key".to_owned()),
        ..Options::default()
    };
    let session = start_with(options).await;
    chart(&session, "app", json!({ "suspend": true })).await;
    let key = |key: Value| json!({ "metadata": { "labels": { "sharding.fluxcd.io/key": key } } });
    session.set(KIND, "app", key(json!("one"))).await;
    session.respec(KIND, "app", json!({ "suspend": false })).await;
    chart(&session, "also", json!({})).await;
    packaged(&session, "also", "1.0.0").await;
    assert_eq!(
        session.look(KIND, "@home", "app").await["status"]["artifact"],
        Value::Null
    );
    session.set(KIND, "app", key(Value::Null)).await;
    packaged(&session, "app", "1.0.0").await;
    session.end().await;
}

/// Annotations of its events.
#[tokio::test]
async fn annotation_event() {
    let session = start().await;
    chart(&session, "app", json!({ "suspend": true })).await;
    let annotation = "event.toolkit.fluxcd.io/team";
    session.annotate(KIND, "app", annotation, json!("blue")).await;
    session.respec(KIND, "app", json!({ "suspend": false })).await;
    session.carries(KIND, "app", annotation, "blue").await;
    session.end().await;
}
