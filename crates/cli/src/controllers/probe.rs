//! Health and metrics over HTTP.
//!
//! | path | answer |
//! |---|---|
//! | `/healthz` | 200 |
//! | `/readyz` | 200 while the engine runs; 503 while the process waits for a Lease, so that a Service finds the leader |
//! | `/metrics` | metrics in OpenMetrics text format |

use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use equate_controllers::Engine;
use http::{StatusCode, header};

use super::metrics::Metrics;

#[derive(Debug, Clone)]
pub(crate) struct Probe {
    metrics: Arc<Metrics>,
    // set once, read by every request
    engine: Arc<Mutex<Weak<Engine>>>,
}

impl Probe {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            metrics,
            engine: Arc::default(),
        }
    }

    /// Marks the process as ready until the engine is dropped.
    pub(crate) fn mark_ready(&self, engine: &Arc<Engine>) {
        *self.engine.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(engine);
    }

    fn engine(&self) -> Option<Arc<Engine>> {
        self.engine
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .upgrade()
    }

    pub(crate) fn health(&self) -> Router {
        Router::new()
            .route("/healthz", get(async || "ok"))
            .route("/readyz", get(ready))
            .with_state(self.clone())
    }

    pub(crate) fn metrics(&self) -> Router {
        Router::new()
            .route("/metrics", get(metrics))
            .with_state(self.clone())
    }
}

async fn ready(State(probe): State<Probe>) -> (StatusCode, &'static str) {
    match probe.engine() {
        Some(_) => (StatusCode::OK, "ok"),
        None => (StatusCode::SERVICE_UNAVAILABLE, "waiting for a Lease\n"),
    }
}

async fn metrics(State(probe): State<Probe>) -> ([(header::HeaderName, &'static str); 1], String) {
    let form = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    (
        [(header::CONTENT_TYPE, form)],
        probe.metrics.text(probe.engine().as_deref()),
    )
}
