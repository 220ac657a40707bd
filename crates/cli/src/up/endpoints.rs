//! What a running loop offers over HTTP on loopback: artifacts, a webhook, counters.
//!
//! | path | what |
//! |---|---|
//! | `/gitrepository/...` | artifacts, for other consumers; Flux's paths |
//! | `POST /hook/TOKEN` | look at all sources now; the token is the run's own |
//! | `/metrics` | counters, in Prometheus' text format |
//! | `/healthz` | whether the process answers |
//!
//! `.equate/endpoints.json` says where they are.

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// What the routes ask the loop for.
pub(crate) trait Loop: Send + Sync + 'static {
    /// Looks at all sources now.
    fn wake_sources(&self);
    /// Counters in Prometheus' text format.
    fn metrics(&self) -> String;
}

/// A bound address, not yet answering: artifacts carry it in their URLs before anything is served.
#[derive(Debug)]
pub(crate) struct Endpoints {
    listener: TcpListener,
    address: SocketAddr,
    token: String,
}

impl Endpoints {
    /// Takes a free port on loopback.
    pub(crate) async fn bind() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Ok(Self {
            address: listener.local_addr()?,
            listener,
            token: uuid::Uuid::new_v4().simple().to_string(),
        })
    }

    /// Where it answers.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What others are told, as `.equate/endpoints.json`.
    pub(crate) fn description(&self) -> String {
        let url = self.url();
        let description = json!({
            "artifacts": url,
            "metrics": format!("{url}/metrics"),
            "webhook": format!("{url}/hook/{}", self.token),
        });
        format!("{description:#}\n")
    }

    /// Answers until told to stop.
    pub(crate) async fn serve(
        self,
        artifacts: Router,
        engine: Arc<dyn Loop>,
        stop: CancellationToken,
    ) -> std::io::Result<()> {
        let routes = Router::new()
            .route("/healthz", get(async || "ok"))
            .route("/metrics", get(metrics))
            .with_state(Arc::clone(&engine))
            .route("/hook/{token}", post(hook).with_state((self.token, engine)))
            .merge(artifacts);
        axum::serve(self.listener, routes)
            .with_graceful_shutdown(stop.cancelled_owned())
            .await
    }
}

async fn metrics(State(engine): State<Arc<dyn Loop>>) -> String {
    engine.metrics()
}

async fn hook(
    State((token, engine)): State<(String, Arc<dyn Loop>)>,
    Path(given): Path<String>,
) -> StatusCode {
    // The path is the secret: it must not be guessable by how long the answer takes.
    if !bool::from(token.as_bytes().ct_eq(given.as_bytes())) {
        return StatusCode::NOT_FOUND;
    }
    engine.wake_sources();
    StatusCode::ACCEPTED
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Debug, Default)]
    struct Counted(AtomicUsize);

    impl Loop for Counted {
        fn wake_sources(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }

        fn metrics(&self) -> String {
            format!("woken {}\n", self.0.load(Ordering::SeqCst))
        }
    }

    #[tokio::test]
    async fn the_webhook_needs_its_token() {
        let endpoints = Endpoints::bind().await.unwrap();
        let told: serde_json::Value = serde_json::from_str(&endpoints.description()).unwrap();
        let url: http::Uri = endpoints.url().parse().unwrap();
        let engine = Arc::new(Counted::default());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(endpoints.serve(Router::new(), engine, stop.clone()));
        // A plain HTTP client that is in the tree already.
        let client = kube::Client::try_from(kube::Config::new(url)).unwrap();
        let ask = async |method: &str, path: &str| {
            let request = http::Request::builder()
                .method(method)
                .uri(path)
                .body(Vec::new())
                .unwrap();
            let (parts, _) = client
                .send(request.map(kube::client::Body::from))
                .await
                .unwrap()
                .into_parts();
            parts.status.as_u16()
        };
        let hook = told["webhook"]
            .as_str()
            .unwrap()
            .rsplit_once('/')
            .unwrap()
            .1
            .to_owned();
        assert_eq!(ask("POST", &format!("/hook/{hook}")).await, 202);
        assert_eq!(ask("POST", "/hook/guess").await, 404);
        assert_eq!(ask("GET", &format!("/hook/{hook}")).await, 405);
        assert_eq!(ask("GET", "/healthz").await, 200);
        let text = client
            .request_text(http::Request::get("/metrics").body(Vec::new()).unwrap())
            .await
            .unwrap();
        assert_eq!(text, "woken 1\n");
        stop.cancel();
        serving.await.unwrap().unwrap();
    }
}
