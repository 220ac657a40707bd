//! The HTTP endpoints of a running loop, on loopback.
//!
//! | path | content |
//! |---|---|
//! | `/gitrepository/...` | artifacts, at Flux's paths |
//! | `POST /hook/TOKEN` | reconciles all sources; each run has its own token |
//! | `/metrics` | metrics in Prometheus text format |
//! | `/healthz` | 200 |
//!
//! `.equate/endpoints.json` contains the addresses.

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use equate_apiserver::Pace;
use http::StatusCode;
use ring::rand::SystemRandom;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Its clients are those of this machine.
const PACE: Pace = Pace {
    per_second: 1_000,
    burst: 10_000,
};

pub(crate) trait Loop: Send + Sync + 'static {
    fn wake_sources(&self);
    fn metrics(&self) -> String;
}

/// 128 random bits in hexadecimal digits.
fn token() -> std::io::Result<String> {
    let bytes: [u8; 16] = ring::rand::generate(&SystemRandom::new())
        .map_err(|_| std::io::Error::other("the operating system has no random numbers"))?
        .expose();
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A bound address that is not served yet: artifact URLs contain it before anything is served.
#[derive(Debug)]
pub(crate) struct Endpoints {
    listener: TcpListener,
    address: SocketAddr,
    token: String,
}

impl Endpoints {
    pub(crate) async fn bind() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Ok(Self {
            address: listener.local_addr()?,
            listener,
            token: token()?,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn description(&self) -> String {
        let url = self.url();
        let description = json!({
            "artifacts": url,
            "metrics": format!("{url}/metrics"),
            "webhook": format!("{url}/hook/{}", self.token),
        });
        format!("{description:#}\n")
    }

    pub(crate) async fn serve(self, artifacts: Router, engine: Arc<dyn Loop>, stop: CancellationToken) {
        let routes = Router::new()
            .route("/healthz", get(async || "ok"))
            .route("/metrics", get(metrics))
            .with_state(Arc::clone(&engine))
            .route("/hook/{token}", post(hook).with_state((self.token, engine)))
            .merge(artifacts);
        equate_apiserver::serve_http(self.listener, routes, PACE, stop).await;
    }
}

async fn metrics(State(engine): State<Arc<dyn Loop>>) -> String {
    engine.metrics()
}

async fn hook(
    State((token, engine)): State<(String, Arc<dyn Loop>)>,
    Path(given): Path<String>,
) -> StatusCode {
    // the path is a secret: compare in constant time
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
    async fn webhook_requires_its_token() {
        let endpoints = Endpoints::bind().await.unwrap();
        let description: serde_json::Value = serde_json::from_str(&endpoints.description()).unwrap();
        let url: http::Uri = endpoints.url().parse().unwrap();
        let engine = Arc::new(Counted::default());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(endpoints.serve(Router::new(), engine, stop.clone()));
        // an HTTP client that is among the dependencies already
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
        let hook = description["webhook"]
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
        serving.await.unwrap();
    }
}
