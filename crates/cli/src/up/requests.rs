//! Counts what the loop asks of the API, by method and status.

use axum::Router;
use equate_apiserver::Identity;
use http::Request;
use kube::client::Body;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use tower::ServiceExt;

/// Requests so far. A clone counts into the same place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requests(Arc<Mutex<BTreeMap<(String, u16), u64>>>);

impl Requests {
    /// An administrator's client on an in-process API whose requests are counted.
    pub(crate) fn client(&self, api: Router) -> kube::Client {
        let requests = self.clone();
        let service = tower::service_fn(move |mut request: Request<Body>| {
            let requests = requests.clone();
            let api = api.clone();
            async move {
                let method = request.method().to_string();
                request.extensions_mut().insert(Identity::admin());
                let answer = api.oneshot(request).await?;
                requests.count(method, answer.status().as_u16());
                Ok::<_, std::convert::Infallible>(answer)
            }
        });
        kube::Client::new(service, "default")
    }

    fn count(&self, method: String, status: u16) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((method, status)).or_default() += 1;
    }

    /// In Prometheus' text format, under the name that client-go gives it.
    pub(crate) fn write(&self, text: &mut String) {
        text.push_str("# TYPE rest_client_requests_total counter\n");
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for ((method, status), count) in counts.iter() {
            let _infallible = writeln!(
                text,
                "rest_client_requests_total{{method=\"{method}\",code=\"{status}\"}} {count}"
            );
        }
    }
}
