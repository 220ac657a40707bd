//! Kinds served in several versions: objects written through one are read, patched and watched through the
//! other.

use equate_apiserver::EmbeddedCluster;
use http::Request;
use kube::Client;
use serde_json::{Value, json};

async fn send(client: &Client, method: &str, path: &str, content_type: &str, body: &Value) -> Value {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(body.to_string().into_bytes())
        .unwrap();
    client.request(request).await.unwrap()
}

#[tokio::test]
async fn an_autoscaler_is_one_object_in_both_versions() {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let client = cluster.client();
    let (v1, v2) = (
        "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
        "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
    );
    let target = json!({ "kind": "Deployment", "name": "web", "apiVersion": "apps/v1" });
    let created = send(
        &client,
        "POST",
        v1,
        "application/json",
        &json!({
            "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "a" },
            "spec": { "scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 70 },
        }),
    )
    .await;
    assert_eq!(created["spec"]["targetCPUUtilizationPercentage"], 70);
    let name = format!("{v2}/a");
    let read: Value = client
        .request(Request::get(&name).body(Vec::new()).unwrap())
        .await
        .unwrap();
    assert_eq!(read["apiVersion"], "autoscaling/v2");
    assert_eq!(
        read["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"],
        70
    );
    let patch = json!({ "spec": { "maxReplicas": 5 } });
    let patched = send(&client, "PATCH", &name, "application/merge-patch+json", &patch).await;
    assert_eq!(patched["spec"]["maxReplicas"], 5);
    let back: Value = client
        .request(Request::get(format!("{v1}/a")).body(Vec::new()).unwrap())
        .await
        .unwrap();
    assert_eq!(back["apiVersion"], "autoscaling/v1");
    assert_eq!(back["spec"]["targetCPUUtilizationPercentage"], 70);
    assert_eq!(back["spec"]["maxReplicas"], 5);
}

#[tokio::test]
async fn an_event_is_one_object_in_both_groups() {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let client = cluster.client();
    send(
        &client,
        "POST",
        "/apis/events.k8s.io/v1/namespaces/default/events",
        "application/json",
        &json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": { "name": "e" },
            "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": "Tested", "action": "Test",
            "note": "it was tested", "reportingController": "equate.test/it", "reportingInstance": "it-1",
            "regarding": { "kind": "Pod", "namespace": "default", "name": "p", "uid": "u" },
        }),
    )
    .await;
    let selected = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp";
    let list: Value = client
        .request(Request::get(selected).body(Vec::new()).unwrap())
        .await
        .unwrap();
    assert_eq!(list["items"][0]["message"], "it was tested");
    assert_eq!(list["items"][0]["involvedObject"]["name"], "p");
    // The group's own field labels, and only those.
    for (label, count) in [
        ("regarding.name%3Dp", Some(1)),
        ("regarding.name%3Dq", Some(0)),
        ("reportingController%3Dequate.test/it", Some(1)),
        ("reason%3DTested", Some(1)),
        ("involvedObject.name%3Dp", None),
        ("reportingComponent%3Dequate.test/it", None),
    ] {
        let path = format!("/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector={label}");
        let answer = client
            .request::<Value>(Request::get(&path).body(Vec::new()).unwrap())
            .await;
        let got = match answer {
            Ok(list) => list["items"].as_array().map(Vec::len),
            Err(kube::Error::Api(status)) => {
                assert!(
                    status.message.starts_with("field label not supported: "),
                    "{path}: {status:?}"
                );
                None
            }
            Err(error) => panic!("{path}: {error}"),
        };
        assert_eq!(got, count, "{path}");
    }
    let none = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dq";
    let list: Value = client
        .request(Request::get(none).body(Vec::new()).unwrap())
        .await
        .unwrap();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(0));
}
