//! Objects and watches when their definition changes.

use crate::lifecycle::Bench;
use axum::body::Body;
use equate_apiserver::Identity;
use futures::StreamExt;
use http::Request;
use serde_json::{Value, json};
use std::time::Duration;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/ex.io/v1/namespaces/default/widgets";

fn definition(properties: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.ex.io" },
        "spec": {
            "group": "ex.io", "scope": "Namespaced",
            "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": { "type": "object", "properties": properties } } } },
            }],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn schema_change_applies_to_reads_and_ends_watches() {
    let bench = Bench::new().await;
    bench
        .done("POST", CRDS, definition(&json!({ "a": { "type": "string" } })))
        .await;
    bench.until_served(WIDGETS).await;
    let widget = json!({
        "apiVersion": "ex.io/v1", "kind": "Widget", "metadata": { "name": "w" }, "spec": { "a": "1" },
    });
    bench.done("POST", WIDGETS, widget).await;

    let watch = Request::get(format!("{WIDGETS}?watch=true"))
        .extension(Identity::admin())
        .body(Body::empty())
        .unwrap();
    let mut stream = bench.respond(watch).await.into_body().into_data_stream();
    let first = stream.next().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("ADDED"));

    let changed = json!([{
        "op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties",
        "value": { "b": { "type": "string", "default": "new" } },
    }]);
    let path = format!("{CRDS}/widgets.ex.io");
    let patch = Request::patch(&path)
        .header("content-type", "application/json-patch+json")
        .extension(Identity::admin())
        .body(Body::from(changed.to_string()))
        .unwrap();
    assert!(bench.respond(patch).await.status().is_success());

    let read = bench.done("GET", &format!("{WIDGETS}/w"), Value::Null).await;
    assert_eq!(read["spec"], json!({ "b": "new" }));
    let list = bench.done("GET", WIDGETS, Value::Null).await;
    assert_eq!(list["items"][0]["spec"], json!({ "b": "new" }));
    let rest = tokio::time::timeout(Duration::from_secs(5), stream.next()).await;
    assert!(
        matches!(rest, Ok(None)),
        "the watch goes on by the old schema: {rest:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn disruption_budget_blocks_evictions() {
    let bench = Bench::new().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "labels": { "a": "b" } },
        "spec": { "nodeName": "n1", "containers": [{ "name": "c", "image": "i" }] },
    });
    bench
        .until_served("/api/v1/namespaces/default/serviceaccounts/default")
        .await;
    bench.done("POST", pods, pod).await;
    bench
        .done(
            "PATCH",
            &format!("{pods}/p/status"),
            json!({ "status": { "phase": "Running" } }),
        )
        .await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "b" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "a": "b" } } },
    });
    bench.done("POST", budgets, budget).await;
    let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "p" } });
    let (status, answer) = bench.ask("POST", &format!("{pods}/p/eviction"), &eviction).await;
    assert_eq!(status.as_u16(), 429, "{answer}");
    assert_eq!(answer["details"]["causes"][0]["reason"], "DisruptionBudget");
    let allowed = json!({ "status": { "observedGeneration": 1, "disruptionsAllowed": 1 } });
    bench.done("PATCH", &format!("{budgets}/b/status"), allowed).await;
    bench.done("POST", &format!("{pods}/p/eviction"), eviction).await;
}
