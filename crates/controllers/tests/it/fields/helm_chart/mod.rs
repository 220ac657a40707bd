//! HelmChart, of a chart repository, a registry, a bucket or a git repository in the same process.

mod build;
mod sources;
mod status;
mod verify;

use equate_api::source::{GitRepository, HelmChart, HelmRepository};
use equate_helm::Chart;
use equate_testkit::web::WebServer;
use kube::CustomResourceExt as _;
use serde_json::{Value, json};

use super::merge;
use super::objects::{MAP, index, packed};
use crate::session::{Options, Session};

const KIND: &str = "HelmChart";

/// The `Chart.yaml` of `app` in a version.
fn metadata(version: &str) -> String {
    format!("apiVersion: v2\nname: app\nversion: {version}\n")
}

/// A session whose repository has the chart `charts/app` in version 1.0.0.
async fn start() -> Session {
    start_with(Options::default()).await
}

async fn start_with(options: Options) -> Session {
    let files = [
        ("charts/app/Chart.yaml", &*metadata("1.0.0")),
        ("charts/app/values.yaml", "value: one\n"),
        ("charts/app/templates/map.yaml", MAP),
        ("charts/app/prod.yaml", "value: prod\n"),
        ("env/site.yaml", "value: site\n"),
    ];
    let kinds = vec![HelmRepository::crd(), HelmChart::crd()];
    Session::anywhere_with(&files, Options { kinds, ..options }).await
}

/// A HelmChart of the git repository, with an interval of an hour unless the spec sets one.
async fn chart(session: &Session, name: &str, spec: Value) {
    let source = json!({ "kind": "GitRepository", "name": "fleet" });
    let mut whole = json!({ "chart": "charts/app", "interval": "1h", "sourceRef": source });
    merge(&mut whole, &spec);
    session.declare(KIND, name, whole).await;
}

/// Waits until it is packaged; returns its status.
async fn packaged(session: &Session, name: &str, version: &str) -> Value {
    let message = format!("packaged 'app' chart with version '{version}'");
    session
        .reports(KIND, name, "ChartPackageSucceeded", &message)
        .await
}

/// The value in a packed chart.
fn value(session: &Session, status: &Value) -> Value {
    let bytes = session.archived(&status["artifact"]).unwrap();
    let chart = Chart::from_archive(&bytes, &equate_helm::Limits::default()).unwrap();
    chart.values["value"].clone()
}

/// Commits, and fetches it.
async fn push(session: &Session, files: &[(&str, Option<&str>)]) -> String {
    let revision = session.commit(files);
    let asked = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": revision } } });
    session.merge::<GitRepository>("@home", "fleet", asked).await;
    let message = format!("stored artifact for revision '{revision}'");
    session
        .reports("GitRepository", "fleet", "Succeeded", &message)
        .await;
    revision
}

/// A HelmRepository `charts` with the chart `app` in these versions.
async fn repository(session: &Session, versions: &[&str]) -> WebServer {
    let server = WebServer::open().unwrap();
    publish(&server, versions);
    let spec = json!({ "url": server.url(), "interval": "1h" });
    session.declare("HelmRepository", "charts", spec).await;
    server
}

fn publish(server: &WebServer, versions: &[&str]) {
    let files: Vec<String> = versions
        .iter()
        .map(|version| format!("app-{version}.tgz"))
        .collect();
    for (version, file) in versions.iter().zip(&files) {
        let text = format!("value: prod-{version}\n");
        server.put(
            &format!("/{file}"),
            packed("app", version, &[("prod.yaml", &text)]),
        );
    }
    let charts: Vec<(&str, &str, &str)> = versions
        .iter()
        .zip(&files)
        .map(|(version, file)| ("app", *version, &**file))
        .collect();
    server.put("/index.yaml", index(&charts));
}

/// The spec of a chart of that repository.
fn remote() -> Value {
    json!({ "chart": "app", "sourceRef": { "kind": "HelmRepository", "name": "charts" } })
}

/// Waits until it is pulled; returns its status.
async fn pulled(session: &Session, name: &str, version: &str) -> Value {
    let message = format!("pulled 'app' chart with version '{version}'");
    session.reports(KIND, name, "ChartPullSucceeded", &message).await
}
