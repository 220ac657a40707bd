//! Health and metrics over HTTP.
//!
//! | path | answer |
//! |---|---|
//! | `/healthz` | 200 |
//! | `/readyz` | 200 while the engine runs; 503 while the process waits for a Lease, so that a Service finds the leader |
//! | `/metrics` | metrics in OpenMetrics text format, at most half a second old |

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use bytes::Bytes;
use equate_controllers::Engine;
use http::{StatusCode, header};

use super::metrics::Metrics;

/// Metrics are written at most once in this time: each object has a histogram of them.
const METRICS_AGE_MAX: Duration = Duration::from_millis(500);

/// When metrics were written, and their text.
type Written = (Instant, Bytes);

#[derive(Debug, Clone)]
pub(crate) struct Probe {
    metrics: Arc<Metrics>,
    written: Arc<Mutex<Option<Written>>>,
    // set once, read by every request
    engine: Arc<Mutex<Weak<Engine>>>,
}

impl Probe {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            metrics,
            written: Arc::default(),
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

    /// The metrics. The text is kept, so that a flood of requests does not have it written each time.
    fn metrics_text(&self, now: Instant) -> Bytes {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, text)) = &*written
            && now.saturating_duration_since(*at) < METRICS_AGE_MAX
        {
            return text.clone();
        }
        let text = Bytes::from(self.metrics.text(self.engine().as_deref()));
        *written = Some((now, text.clone()));
        text
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

async fn metrics(State(probe): State<Probe>) -> ([(header::HeaderName, &'static str); 1], Bytes) {
    let form = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, form)], probe.metrics_text(Instant::now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_written_again_after_their_time() {
        let probe = Probe::new(Metrics::new(&equate_controllers::all(), 4));
        let now = Instant::now();
        let first = probe.metrics_text(now);
        let at = |millis| probe.metrics_text(now + Duration::from_millis(millis));
        assert_eq!(at(499).as_ptr(), first.as_ptr());
        assert_ne!(at(500).as_ptr(), first.as_ptr());
    }
}
