//! Whether this process lives and works, and what it measures, over HTTP.
//!
//! | path | what |
//! |---|---|
//! | `/healthz` | 200: it answers |
//! | `/readyz` | 200 while it works; 503 while it waits for a Lease, so that a Service leads to the one that works |
//! | `/metrics` | series, in OpenMetrics' text format |

use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use equate_controllers::Engine;
use http::{StatusCode, header};

use super::metrics::Metrics;

/// What the answers are about.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    metrics: Arc<Metrics>,
    // set once; read for each answer
    engine: Arc<Mutex<Weak<Engine>>>,
}

impl Probe {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            metrics,
            engine: Arc::default(),
        }
    }

    /// From now on it works, until the engine is gone.
    pub(crate) fn works(&self, engine: &Arc<Engine>) {
        *self.engine.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(engine);
    }

    fn engine(&self) -> Option<Arc<Engine>> {
        self.engine
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .upgrade()
    }

    /// Answers about health.
    pub(crate) fn health(&self) -> Router {
        Router::new()
            .route("/healthz", get(async || "ok"))
            .route("/readyz", get(ready))
            .with_state(self.clone())
    }

    /// Answers with series.
    pub(crate) fn metrics(&self) -> Router {
        Router::new()
            .route("/metrics", get(metrics))
            .with_state(self.clone())
    }
}

async fn ready(State(probe): State<Probe>) -> (StatusCode, &'static str) {
    match probe.engine() {
        Some(_) => (StatusCode::OK, "ok"),
        None => (StatusCode::SERVICE_UNAVAILABLE, "waits for a Lease\n"),
    }
}

async fn metrics(State(probe): State<Probe>) -> ([(header::HeaderName, &'static str); 1], String) {
    let form = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    (
        [(header::CONTENT_TYPE, form)],
        probe.metrics.text(probe.engine().as_deref()),
    )
}
