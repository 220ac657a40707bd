//! ResourceQuota, LimitRange and the subresource `resize` of pods over HTTP.

use super::lifecycle::{Bench, settle};
use equate_apiserver::{EmbeddedCluster, Profile};
use serde_json::{Value, json};

const NAMESPACE: &str = "/api/v1/namespaces/g";
const PODS: &str = "/api/v1/namespaces/g/pods";
const RESIZE: &str = "/api/v1/namespaces/g/pods/p/resize";

/// A namespace `g` with the objects given as kind and spec; each is named `q`.
async fn bench(objects: &[(&str, Value)]) -> Bench {
    let bench = Bench::with(EmbeddedCluster::builder().controllers(Profile::default())).await;
    let namespace = json!({ "metadata": { "name": "g" } });
    bench.done("POST", "/api/v1/namespaces", namespace).await;
    for (kind, spec) in objects {
        let object = json!({ "metadata": { "name": "q" }, "spec": spec });
        bench.done("POST", &format!("{NAMESPACE}/{kind}"), object).await;
    }
    // Controllers create the ServiceAccount and measure the quota.
    settle().await;
    bench
}

fn quota(hard: &Value) -> (&'static str, Value) {
    ("resourcequotas", json!({ "hard": hard }))
}

fn range(limit: &Value) -> (&'static str, Value) {
    ("limitranges", json!({ "limits": [limit] }))
}

fn container(name: &str, resources: &Value) -> Value {
    json!({ "name": name, "image": "i", "resources": resources })
}

fn pod(name: &str, containers: &Value) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "app": "web" } },
        "spec": { "containers": containers },
    })
}

fn asks(cpu: &str) -> Value {
    json!([container("c", &json!({ "requests": { "cpu": cpu } }))])
}

async fn assert_refused(bench: &Bench, call: (&str, &str), body: Value, code: u16, message: &str) {
    let (status, answer) = bench.ask(call.0, call.1, &body).await;
    assert_eq!(answer["message"], message);
    let reason = if code == 403 { "Forbidden" } else { "Invalid" };
    assert_eq!(
        (status.as_u16(), &answer["reason"]),
        (code, &json!(reason)),
        "{answer}"
    );
}

async fn used(bench: &Bench) -> Value {
    let quota = bench
        .done("GET", &format!("{NAMESPACE}/resourcequotas/q"), Value::Null)
        .await;
    quota["status"]["used"].clone()
}

#[tokio::test(start_paused = true)]
async fn pod_over_the_quota_is_refused() {
    let bench = bench(&[quota(&json!({ "requests.cpu": "1", "pods": "5" }))]).await;
    bench.done("POST", PODS, pod("p", &asks("600m"))).await;
    let message = r#"pods "two" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1"#;
    assert_refused(&bench, ("POST", PODS), pod("two", &asks("500m")), 403, message).await;
    bench.done("POST", PODS, pod("two", &asks("400m"))).await;
}

#[tokio::test(start_paused = true)]
async fn pod_must_state_each_resource_of_a_quota() {
    let bench = bench(&[quota(&json!({ "limits.memory": "1Gi" }))]).await;
    let message = r#"pods "p" is forbidden: failed quota: q: must specify limits.memory for: c"#;
    assert_refused(&bench, ("POST", PODS), pod("p", &asks("1")), 403, message).await;
}

#[tokio::test(start_paused = true)]
async fn quota_counts_objects() {
    let bench = bench(&[quota(&json!({ "count/configmaps": "2" }))]).await;
    let path = format!("{NAMESPACE}/configmaps");
    let named = |name: &str| json!({ "metadata": { "name": name } });
    // The other one is kube-root-ca.crt.
    bench.done("POST", &path, named("a")).await;
    let message = r#"configmaps "b" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=2, limited: count/configmaps=2"#;
    assert_refused(&bench, ("POST", &path), named("b"), 403, message).await;
}

#[tokio::test(start_paused = true)]
async fn quota_shows_the_use_after_create_and_delete() {
    let bench = bench(&[quota(&json!({ "requests.cpu": "1", "pods": "2" }))]).await;
    let none = json!({ "requests.cpu": "0", "pods": "0" });
    assert_eq!(used(&bench).await, none);
    let dry = format!("{PODS}?dryRun=All");
    bench.done("POST", &dry, pod("p", &asks("600m"))).await;
    assert_eq!(used(&bench).await, none);
    // With the answer, before any controller runs.
    bench.done("POST", PODS, pod("p", &asks("600m"))).await;
    assert_eq!(used(&bench).await, json!({ "requests.cpu": "600m", "pods": "1" }));
    bench.done("DELETE", &format!("{PODS}/p"), Value::Null).await;
    settle().await;
    assert_eq!(used(&bench).await, none);
}

#[tokio::test(start_paused = true)]
async fn limit_range_completes_a_new_pod() {
    let limits = json!({
        "type": "Container", "default": { "cpu": "1" }, "defaultRequest": { "cpu": "100m", "memory": "1Mi" },
    });
    let bench = bench(&[range(&limits)]).await;
    let given = json!({ "requests": { "cpu": "200m" } });
    let containers = json!([container("a", &given), container("b", &json!({}))]);
    let made = bench.done("POST", PODS, pod("p", &containers)).await;
    let resources = |i: usize| made["spec"]["containers"][i]["resources"].clone();
    let completed =
        |cpu: &str| json!({ "limits": { "cpu": "1" }, "requests": { "cpu": cpu, "memory": "1Mi" } });
    assert_eq!(
        (resources(0), resources(1)),
        (completed("200m"), completed("100m"))
    );
    assert_eq!(
        made["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: memory request for container a; cpu limit for container a; cpu, memory request for container b; cpu limit for container b"
    );
    assert_eq!(made["status"]["qosClass"], "Burstable");
}

#[tokio::test(start_paused = true)]
async fn pod_outside_a_limit_range_is_refused() {
    let limits = json!({ "type": "Container", "max": { "cpu": "2" }, "min": { "cpu": "100m" } });
    let bench = bench(&[range(&limits)]).await;
    let check = async |cpu: &str, why: &str| {
        let containers = json!([container("c", &json!({ "limits": { "cpu": cpu } }))]);
        let message = format!(r#"pods "p" is forbidden: {why}"#);
        assert_refused(&bench, ("POST", PODS), pod("p", &containers), 403, &message).await;
    };
    check("3", "maximum cpu usage per Container is 2, but limit is 3").await;
    check(
        "50m",
        "minimum cpu usage per Container is 100m, but request is 50m",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn claim_above_a_limit_range_is_refused() {
    let limits = json!({ "type": "PersistentVolumeClaim", "max": { "storage": "1Gi" } });
    let bench = bench(&[range(&limits)]).await;
    let claim = json!({
        "metadata": { "name": "c" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "2Gi" } } },
    });
    let message = r#"persistentvolumeclaims "c" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"#;
    let path = format!("{NAMESPACE}/persistentvolumeclaims");
    assert_refused(&bench, ("POST", &path), claim, 403, message).await;
}

#[tokio::test(start_paused = true)]
async fn resize_changes_the_resources_alone() {
    let bench = bench(&[]).await;
    bench.done("POST", PODS, pod("p", &asks("1"))).await;
    let mut wanted = pod("p", &asks("2"));
    wanted["metadata"]["labels"]["app"] = json!("other");
    wanted["spec"]["containers"][0]["image"] = json!("other");
    wanted["spec"]["activeDeadlineSeconds"] = json!(5);
    for method in ["PATCH", "PUT"] {
        let cpu = if method == "PUT" { "3" } else { "2" };
        wanted["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(cpu);
        let made = bench.done(method, RESIZE, wanted.clone()).await;
        let first = &made["spec"]["containers"][0];
        assert_eq!(first["resources"], json!({ "requests": { "cpu": cpu } }));
        assert_eq!(first["image"], "i", "{method}");
        assert_eq!(made["metadata"]["labels"], json!({ "app": "web" }), "{method}");
        assert!(made["spec"].get("activeDeadlineSeconds").is_none(), "{made}");
    }
    let stored = bench.done("GET", &format!("{PODS}/p"), Value::Null).await;
    assert_eq!(stored["metadata"]["generation"], 3);
}

#[tokio::test(start_paused = true)]
async fn pod_changes_its_resources_by_resize_alone() {
    let bench = bench(&[]).await;
    bench.done("POST", PODS, pod("p", &asks("1"))).await;
    let (status, answer) = bench
        .ask(
            "PATCH",
            &format!("{PODS}/p"),
            &json!({ "spec": { "containers": asks("2") } }),
        )
        .await;
    assert_eq!(status.as_u16(), 422, "{answer}");
    let message = answer["message"].as_str().unwrap();
    let start = r#"Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`"#;
    assert!(message.starts_with(start), "{message}");
}

#[tokio::test(start_paused = true)]
async fn resize_is_refused_with_the_reason() {
    let bench = bench(&[]).await;
    let two = |first: Value, second: Value| json!([container("a", &first), container("b", &second)]);
    let requests = |amounts: Value| json!({ "requests": amounts });
    let before = requests(json!({ "cpu": "1", "memory": "1Mi", "ephemeral-storage": "1Gi" }));
    bench
        .done("POST", PODS, pod("p", &two(before.clone(), json!({}))))
        .await;
    let check = async |containers: Value, why: &str| {
        let patch = json!({ "spec": { "containers": containers } });
        let message = format!(r#"Pod "p" is invalid: {why}"#);
        assert_refused(&bench, ("PATCH", RESIZE), patch, 422, &message).await;
    };
    let changed = async |resources: Value, why: &str| check(two(resources, json!({})), why).await;
    changed(
        requests(json!({ "cpu": "1", "memory": "1Mi", "ephemeral-storage": "2Gi" })),
        "spec: Forbidden: only cpu and memory resources are mutable",
    )
    .await;
    changed(
        requests(json!({ "cpu": "2", "ephemeral-storage": "1Gi" })),
        "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
    )
    .await;
    check(
        json!([container("b", &json!({})), container("a", &before)]),
        "[spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize, spec.containers[1].name: Forbidden: containers may not be renamed or reordered on resize]",
    )
    .await;
    check(
        json!([container("a", &before)]),
        "spec.containers: Forbidden: containers may not be added or removed on resize",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn resize_keeps_the_quality_of_service() {
    let bench = bench(&[]).await;
    let guaranteed = json!({ "limits": { "cpu": "1", "memory": "1Mi" } });
    let containers = json!([container("c", &guaranteed)]);
    bench.done("POST", PODS, pod("p", &containers)).await;
    let smaller = json!({
        "limits": { "cpu": "1", "memory": "1Mi" }, "requests": { "cpu": "500m", "memory": "1Mi" },
    });
    let patch = json!({ "spec": { "containers": [container("c", &smaller)] } });
    let message = r#"Pod "p" is invalid: spec: Invalid value: "Guaranteed": Pod QOS Class may not change as a result of resizing"#;
    assert_refused(&bench, ("PATCH", RESIZE), patch, 422, message).await;
}

#[tokio::test(start_paused = true)]
async fn resize_over_the_quota_is_refused() {
    let bench = bench(&[quota(&json!({ "requests.cpu": "1" }))]).await;
    bench.done("POST", PODS, pod("p", &asks("600m"))).await;
    let resized = |cpu: &str| json!({ "spec": { "containers": asks(cpu) } });
    let message = r#"pods "p" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1"#;
    assert_refused(&bench, ("PATCH", RESIZE), resized("1200m"), 403, message).await;
    bench.done("PATCH", RESIZE, resized("900m")).await;
    assert_eq!(used(&bench).await, json!({ "requests.cpu": "900m" }));
    bench.done("PATCH", RESIZE, resized("100m")).await;
    settle().await;
    assert_eq!(used(&bench).await, json!({ "requests.cpu": "100m" }));
}

#[tokio::test(start_paused = true)]
async fn resize_outside_a_limit_range_is_refused() {
    let limits = json!({ "type": "Pod", "max": { "cpu": "2" } });
    let bench = bench(&[range(&limits)]).await;
    let resources = |cpu: &str| json!({ "limits": { "cpu": cpu }, "requests": { "cpu": "1" } });
    let containers = |cpu: &str| json!([container("c", &resources(cpu))]);
    bench.done("POST", PODS, pod("p", &containers("2"))).await;
    let patch = json!({ "spec": { "containers": containers("3") } });
    let message = r#"pods "p" is forbidden: maximum cpu usage per Pod is 2, but limit is 3"#;
    assert_refused(&bench, ("PATCH", RESIZE), patch, 403, message).await;
}
