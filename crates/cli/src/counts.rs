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
    for (name, value, help) in [
        (
            "equate_runs",
            runs,
            "Total number of reconciliations of Kustomizations",
        ),
        (
            "equate_builds",
            builds,
            "Total number of builds of Kustomizations",
        ),
        (
            "equate_builds_skipped",
            builds_skipped,
            "Total number of new revisions without a build, because its inputs did not change",
        ),
        (
            "equate_objects_applied",
            applies,
            "Total number of objects applied",
        ),
        ("equate_objects_pruned", prunes, "Total number of objects pruned"),
        (
            "equate_objects_corrected",
            corrections,
            "Total number of objects corrected after drift",
        ),
        (
            "equate_status_patches",
            status_patches,
            "Total number of status patches of Kustomizations",
        ),
        (
            "equate_prune_checks",
            prune_checks,
            "Total number of checks whether other Kustomizations want an object that would be pruned",
        ),
    ] {
        describe(text, name, "counter", help);
        let _infallible = writeln!(text, "{name}_total {value}");
    }
    // client-go's text
    describe(text, "workqueue_depth", "gauge", "Current depth of workqueue");
    for (about, counts) in queues {
        let (name, depth) = (queue_name(about), counts.ready + counts.running);
        let _infallible = writeln!(text, "workqueue_depth{{name=\"{name}\"}} {depth}");
    }
}

/// Writes the metadata of a metric, with the full stop that the registry's encoder adds to the help.
pub(crate) fn describe(text: &mut String, name: &str, kind: &str, help: &str) {
    let _infallible = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
}

/// Requests to the API server by method and status code. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requests(Arc<Mutex<BTreeMap<(String, u16), u64>>>);

impl Requests {
    pub(crate) fn count(&self, method: String, status: u16) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((method, status)).or_default() += 1;
    }

    pub(crate) fn write(&self, text: &mut String) {
        let help = "Total number of requests to the API server, by method and status code";
        describe(text, "rest_client_requests", "counter", help);
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
