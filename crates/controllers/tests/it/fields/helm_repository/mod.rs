//! HelmRepository, with a chart repository or a registry in the same process.

mod access;
mod fetch;
mod status;

use equate_api::source::{HelmChart, HelmRepository};
use equate_testkit::web::{WebOptions, WebServer};
use kube::CustomResourceExt as _;
use serde_json::{Value, json};

use super::merge;
use super::objects::{index, packed};
use crate::session::{Options, Session};

const KIND: &str = "HelmRepository";
/// The media type of charts in registries.
const LAYER: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// A session with a chart repository that has the chart `app` in version 1.0.0.
struct Charts {
    session: Session,
    server: WebServer,
}

impl Charts {
    async fn open() -> Charts {
        Self::with(WebOptions::default(), Options::default()).await
    }

    async fn with(web: WebOptions, options: Options) -> Charts {
        let session = start(options).await;
        let server = WebServer::start(web).unwrap();
        server.put("/app-1.0.0.tgz", packed("app", "1.0.0", &[]));
        let charts = Charts { session, server };
        charts.publish(&["1.0.0"]);
        charts
    }

    /// Publishes an index with these versions of the chart. Returns its revision.
    fn publish(&self, versions: &[&str]) -> String {
        let urls: Vec<String> = versions
            .iter()
            .map(|version| format!("app-{version}.tgz"))
            .collect();
        let charts: Vec<(&str, &str, &str)> = versions
            .iter()
            .zip(&urls)
            .map(|(version, url)| ("app", *version, &**url))
            .collect();
        let text = index(&charts);
        let revision = format!("sha256:{}", super::objects::hex(text.as_bytes()));
        self.server.put("/index.yaml", text);
        revision
    }

    /// A HelmRepository of the server, with an interval of an hour unless the spec sets one.
    async fn source(&self, name: &str, spec: Value) {
        let mut whole = json!({ "url": self.server.url(), "interval": "1h" });
        merge(&mut whole, &spec);
        self.session.declare(KIND, name, whole).await;
    }

    /// Waits until an index is stored.
    async fn stored(&self, name: &str, revision: &str) -> Value {
        let message = format!("stored artifact: revision '{revision}'");
        self.session.reports(KIND, name, "Succeeded", &message).await
    }
}

/// A session with HelmRepositories and HelmCharts.
async fn start(options: Options) -> Session {
    let kinds = vec![HelmRepository::crd(), HelmChart::crd()];
    Session::anywhere_with(&[], Options { kinds, ..options }).await
}

/// The chart `app` of a HelmRepository.
async fn chart(session: &Session, name: &str, repository: &str) {
    let source = json!({ "kind": KIND, "name": repository });
    let spec = json!({ "chart": "app", "version": "1.0.0", "interval": "1h", "sourceRef": source });
    session.declare("HelmChart", name, spec).await;
}

/// Waits until a chart is pulled.
async fn pulled(session: &Session, name: &str) {
    let message = "pulled 'app' chart with version '1.0.0'";
    session
        .reports("HelmChart", name, "ChartPullSucceeded", message)
        .await;
}
