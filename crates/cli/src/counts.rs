//! The counters of an engine and of API requests, for `/metrics` of `equate controllers` and `equate up`.
//! Names are those of client-go and controller-runtime where these have the metric.

use std::pin::Pin;
use std::task::{Context, Poll};

use equate_controllers::Stats;
use equate_controllers::kit::about::About;
use equate_controllers::kit::queue::Counts;
use http::{Request, Response};
use kube::client::Body;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tower::{Layer, Service};

/// The name that controller-runtime gives to the controller of a kind, and client-go to its queue.
pub(crate) fn queue_name(about: &About) -> String {
    about.kind.to_lowercase()
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Named {
    pub(crate) name: String,
}

/// Registers the counters of an engine with their values now: for a registry of one page.
pub(crate) fn engine(registry: &mut Registry, stats: &Stats, queues: &[(&'static About, Counts)]) {
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
        registry.register(name, help, ConstCounter::new(value));
    }
    let depths = Family::<Named, Gauge>::default();
    for (about, counts) in queues {
        let name = queue_name(about);
        let depth = i64::try_from(counts.ready + counts.running).unwrap_or(i64::MAX);
        depths.get_or_create(&Named { name }).set(depth);
    }
    // client-go's text
    registry.register("workqueue_depth", "Current depth of workqueue", depths);
}

/// The page of `/metrics` with the metrics of these registries.
pub(crate) fn page(registries: &[&Registry]) -> String {
    let mut text = String::new();
    for registry in registries {
        // writing to a String cannot fail
        let _infallible = encode_registry(&mut text, registry);
    }
    let _infallible = encode_eof(&mut text);
    text
}

/// Requests to the API server by method and status code. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requests(Family<Answer, Counter>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    method: String,
    code: u16,
}

impl Requests {
    pub(crate) fn count(&self, method: String, code: u16) {
        self.0.get_or_create(&Answer { method, code }).inc();
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Total number of requests to the API server, by method and status code";
        registry.register("rest_client_requests", help, self.0.clone());
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
        let mut registry = Registry::default();
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
        let counted = |about: &&About| ["GitRepository", "Kustomization"].contains(&about.kind);
        let queues: Vec<_> = controllers
            .iter()
            .filter(counted)
            .zip([counts(4, 0), counts(1, 1)])
            .collect();
        engine(&mut registry, &stats, &queues);
        requests.register(&mut registry);
        let text = page(&[&registry]);
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
