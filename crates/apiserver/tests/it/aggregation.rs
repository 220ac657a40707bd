//! An APIService is stored and says that nothing is aggregated.

use equate_apiserver::EmbeddedCluster;
use http::StatusCode;
use serde_json::{Value, json};

use crate::webhooks::ask;

const PATH: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

fn service(name: &str, spec: &Value) -> Value {
    let mut object = json!({
        "metadata": { "name": name },
        "spec": { "group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100 },
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    object
}

#[tokio::test]
async fn an_api_service_is_stored_without_effect() {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let metrics = json!({
        "service": { "namespace": "kube-system", "name": "metrics-server" }, "insecureSkipTLSVerify": true,
    });
    let body = service("v1beta1.metrics.k8s.io", &metrics);
    let (status, object, warning) = ask(&cluster, "POST", PATH, &body).await;
    assert_eq!(status, StatusCode::CREATED, "{object}");
    assert_eq!(object["spec"]["service"]["port"], 443);
    let condition = &object["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&json!("Available"), &json!("False"), &json!("NotAggregated"))
    );
    let said =
        "APIService v1beta1.metrics.k8s.io has no effect: this server does not aggregate other API servers";
    assert!(warning.contains(said), "{warning}");
    let (status, _, _) = ask(
        &cluster,
        "GET",
        "/apis/metrics.k8s.io/v1beta1/nodes",
        &Value::Null,
    )
    .await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, object, warning) = ask(
        &cluster,
        "POST",
        PATH,
        &service("v1.apps", &json!({ "group": "apps", "version": "v1" })),
    )
    .await;
    assert_eq!((status, warning.as_str()), (StatusCode::CREATED, ""));
    assert_eq!(object["status"]["conditions"][0]["reason"], "Local");
    cluster.stop().await;
}

#[tokio::test]
async fn mistakes_in_an_api_service_are_named() {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let check = async |name: &str, spec: Value, expected: &str| {
        let (status, answer, _) = ask(&cluster, "POST", PATH, &service(name, &spec)).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
    };
    let name = "v1beta1.metrics.k8s.io";
    check(
        "metrics",
        json!({}),
        "metadata.name: Invalid value: \"metrics\": must be `spec.version+\".\"+spec.group`: \"v1beta1.metrics.k8s.io\"",
    )
    .await;
    check(
        name,
        json!({ "versionPriority": 0 }),
        "spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
    )
    .await;
    check(
        name,
        json!({ "groupPriorityMinimum": 20_001 }),
        "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
    )
    .await;
    check(
        name,
        json!({ "insecureSkipTLSVerify": true }),
        "local APIServices may not have insecureSkipTLSVerify",
    )
    .await;
    check(
        name,
        json!({ "service": { "name": "a" } }),
        "spec.service.namespace: Required value",
    )
    .await;
    let both = json!({
        "service": { "name": "a", "namespace": "b" }, "insecureSkipTLSVerify": true, "caBundle": "YQ==",
    });
    check(name, both, "may not be true if caBundle is present").await;
    cluster.stop().await;
}
