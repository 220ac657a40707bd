//! Waiting for a condition, with a deadline and the last observed state.
//!
//! Tests do not sleep: they state the condition, and a failure shows the last state instead.

use std::time::Duration;

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use tokio::time::Instant;

/// Probes until `Ok`, with pauses of tokio's clock.
///
/// # Panics
/// When the deadline passes, with the last error of the probe.
pub async fn eventually<T, E, P, F>(what: &str, deadline: Duration, mut probe: P) -> T
where
    E: std::fmt::Display,
    P: FnMut() -> F,
    F: Future<Output = Result<T, E>>,
{
    let end = Instant::now() + deadline;
    loop {
        let seen = match probe().await {
            Ok(value) => return value,
            Err(seen) => seen,
        };
        assert!(
            Instant::now() < end,
            "not within {deadline:?}: {what}; last seen: {seen}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the kind of a CRD is served.
///
/// # Panics
/// When the deadline passes, with the CRD's status.
pub async fn established(client: &Client, name: &str, deadline: Duration) {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let look = async || {
        let definition = api.get(name).await.map_err(|error| error.to_string())?;
        let conditions = definition.data["status"]["conditions"].as_array();
        let is_served = conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
        is_served
            .then_some(())
            .ok_or_else(|| definition.data["status"].to_string())
    };
    eventually(&format!("the CRD {name} is established"), deadline, look).await;
}
