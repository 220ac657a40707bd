//! The counters of an engine and of API requests, for `/metrics` of `equate controllers` and `equate up`.
//! Names are those of client-go and controller-runtime where these have the metric.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use equate_controllers::Stats;
use equate_controllers::kit::about::About;
use equate_controllers::kit::queue::Counts;
use http::{Request, Response};
use kube::client::Body;
use tower::{Layer, Service};

/// The name that controller-runtime gives to the controller of a kind, and client-go to its queue.
pub(crate) fn queue_name(about: &About) -> String {
    about.kind.to_lowercase()
}

/// Writes the engine's counters and the length of each kind's queue.
pub(crate) fn engine(text: &mut String, stats: &Stats, queues: &[(&'static About, Counts)]) {
    let Stats {
        runs,
        builds,
        builds_skipped,
        applies,
        prunes,
        corrections,
        status_patches,
        prune_checks,
        // of the kinds that apply alone; all queues are written below
        queue: _,
    } = *stats;
    for (name, value) in [
        ("equate_runs", runs),
        ("equate_builds", builds),
        ("equate_builds_skipped", builds_skipped),
        ("equate_objects_applied", applies),
        ("equate_objects_pruned", prunes),
        ("equate_objects_corrected", corrections),
        ("equate_status_patches", status_patches),
        ("equate_prune_checks", prune_checks),
    ] {
        let _infallible = writeln!(text, "# TYPE {name} counter\n{name}_total {value}");
    }
    text.push_str("# TYPE workqueue_depth gauge\n");
    for (about, counts) in queues {
        let (name, depth) = (queue_name(about), counts.ready + counts.running);
        let _infallible = writeln!(text, "workqueue_depth{{name=\"{name}\"}} {depth}");
    }
}

/// Requests to the API server by method and status code. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requests(Arc<Mutex<BTreeMap<(String, u16), u64>>>);

impl Requests {
    fn count(&self, method: String, status: u16) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((method, status)).or_default() += 1;
    }

    pub(crate) fn write(&self, text: &mut String) {
        text.push_str("# TYPE rest_client_requests counter\n");
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for ((method, status), count) in counts.iter() {
            let _infallible = writeln!(
                text,
                "rest_client_requests_total{{method=\"{method}\",code=\"{status}\"}} {count}"
            );
        }
    }
}

impl<S> Layer<S> for Requests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            inner,
            requests: self.clone(),
        }
    }
}

/// An HTTP service that counts its responses; a request without a response is not counted.
#[derive(Debug, Clone)]
pub(crate) struct Counted<S> {
    inner: S,
    requests: Requests,
}

impl<S, B> Service<Request<Body>> for Counted<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (requests, method) = (self.requests.clone(), request.method().to_string());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            requests.count(method, answer.status().as_u16());
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_established_names() {
        let requests = Requests::default();
        for (method, status) in [("GET", 200), ("GET", 200), ("PATCH", 409)] {
            requests.count(method.to_owned(), status);
        }
        let mut text = String::new();
        let stats = Stats {
            builds: 3,
            ..Stats::default()
        };
        let counts = |ready, running| Counts {
            ready,
            running,
            ..Counts::default()
        };
        let controllers = equate_controllers::all();
        let queues: Vec<_> = controllers.iter().zip([counts(4, 0), counts(1, 1)]).collect();
        engine(&mut text, &stats, &queues);
        requests.write(&mut text);
        for line in [
            "equate_builds_total 3",
            "workqueue_depth{name=\"gitrepository\"} 4",
            "workqueue_depth{name=\"kustomization\"} 2",
            "rest_client_requests_total{method=\"GET\",code=\"200\"} 2",
            "rest_client_requests_total{method=\"PATCH\",code=\"409\"} 1",
        ] {
            assert!(text.lines().any(|known| known == line), "no {line} in\n{text}");
        }
    }
}
