use super::pod::last_line;
use super::{Node, NodeHealth, Reader};
use crate::fixture::Fixture;
use equate_apply::id::ObjectId;
use serde_json::{Value, json};

/// The lines of a diagnosis, without ages.
fn lines(node: &Node, depth: usize, out: &mut Vec<String>) {
    let text = node.text();
    let text = if text.is_empty() {
        text
    } else {
        format!(": {text}")
    };
    let health = match node.health {
        NodeHealth::Healthy => "healthy",
        NodeHealth::Waiting => "waiting",
        NodeHealth::Failed => "failed",
    };
    out.push(format!("{}{} {health}{text}", "  ".repeat(depth), node.object));
    for child in &node.below {
        lines(child, depth + 1, out);
    }
}

async fn diagnosed(fixture: &Fixture, group: &str, kind: &str, name: &str) -> (Option<String>, String) {
    let reader = Reader::new(fixture.connection.client.clone());
    let id = ObjectId::new(group, kind, "shop", name);
    let object = reader.object(&id, "").await.unwrap().unwrap();
    let node = reader.diagnose(&id, &object).await;
    let mut out = Vec::new();
    lines(&node, 0, &mut out);
    (node.cause(), out.join("\n"))
}

async fn uid(fixture: &Fixture, group: &str, kind: &str, name: &str) -> String {
    let reader = Reader::new(fixture.connection.client.clone());
    let id = ObjectId::new(group, kind, "shop", name);
    let object = reader.object(&id, "").await.unwrap().unwrap();
    object.0["metadata"]["uid"].as_str().unwrap().to_owned()
}

async fn apply(fixture: &Fixture, object: Value) {
    fixture.apply(&object.to_string()).await;
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!([{ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true }])
}

fn template() -> Value {
    json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "web", "image": "web" }] } })
}

fn pod(name: &str, owners: &Value, status: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "shop", "labels": { "app": "web" }, "ownerReferences": owners },
        "spec": { "nodeName": "one", "containers": [{ "name": "web", "image": "web", "ports": [{ "name": "http", "containerPort": 80 }] }] },
        "status": status,
    })
}

fn crashing() -> Value {
    json!({
        "phase": "Running",
        "conditions": [{ "type": "Ready", "status": "False" }],
        "containerStatuses": [{
            "name": "web", "image": "web", "imageID": "", "ready": false, "restartCount": 5,
            "state": { "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 5m0s" } },
            "lastState": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } },
        }],
    })
}

fn ready() -> Value {
    json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] })
}

/// A cluster whose pods have no controller: the test writes their status.
async fn shop() -> Fixture {
    let fixture = Fixture::bare().await;
    apply(
        &fixture,
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } }),
    )
    .await;
    fixture
}

async fn deployment(fixture: &Fixture, set_status: Value) -> Value {
    let spec =
        json!({ "replicas": 0, "selector": { "matchLabels": { "app": "web" } }, "template": template() });
    apply(
        fixture,
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "replicas": 1, "paused": true, "selector": spec["selector"], "template": template() },
            "status": { "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1 },
        }),
    )
    .await;
    let uid_of = uid(fixture, "apps", "Deployment", "web").await;
    apply(
        fixture,
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": { "name": "web-1", "namespace": "shop", "labels": { "app": "web" },
                          "ownerReferences": owner("apps/v1", "Deployment", "web", &uid_of) },
            "spec": spec, "status": set_status,
        }),
    )
    .await;
    let uid_of = uid(fixture, "apps", "ReplicaSet", "web-1").await;
    owner("apps/v1", "ReplicaSet", "web-1", &uid_of)
}

#[tokio::test]
async fn crash_is_found_below_a_deployment() {
    let fixture = shop().await;
    let owners = deployment(&fixture, json!({ "replicas": 1, "observedGeneration": 0 })).await;
    apply(&fixture, pod("web-1-a", &owners, &crashing())).await;
    let (cause, text) = diagnosed(&fixture, "apps", "Deployment", "web").await;
    assert_eq!(
        cause.as_deref(),
        Some(
            "CrashLoopBackOff: Pod/shop/web-1-a, container web: exited with code 137 (OOMKilled), 5 restarts"
        ),
        "{text}"
    );
    assert!(
        text.contains(
            "\n    Pod/shop/web-1-a failed\n      container web failed: CrashLoopBackOff: exited with code 137"
        ),
        "{text}"
    );
}

#[tokio::test]
async fn quota_that_refuses_pods_is_named() {
    let fixture = shop().await;
    let message = "pods \"web-1-a\" is forbidden: exceeded quota: small";
    let refused =
        json!([{ "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message }]);
    deployment(&fixture, json!({ "replicas": 0, "conditions": refused })).await;
    let (cause, text) = diagnosed(&fixture, "apps", "Deployment", "web").await;
    assert_eq!(
        cause,
        Some(format!("FailedCreate: ReplicaSet/shop/web-1: {message}")),
        "{text}"
    );
}

#[tokio::test]
async fn pods_tell_why_they_do_not_run() {
    let fixture = shop().await;
    let check = async |name: &str, status: Value, expected: &str| {
        apply(&fixture, pod(name, &json!([]), &status)).await;
        let (cause, text) = diagnosed(&fixture, "", "Pod", name).await;
        assert_eq!(cause.as_deref().unwrap_or_default(), expected, "{text}");
    };
    let waiting = |reason: &str, message: &str| {
        json!({
            "phase": "Pending",
            "containerStatuses": [{ "name": "web", "image": "web", "imageID": "", "ready": false, "restartCount": 0,
                "state": { "waiting": { "reason": reason, "message": message } } }],
        })
    };
    check(
        "image",
        waiting("ImagePullBackOff", "Back-off pulling image \"web\""),
        "ImagePullBackOff: Pod/shop/image, container web: Back-off pulling image \"web\"",
    )
    .await;
    check(
        "config",
        waiting("CreateContainerConfigError", "configmap \"settings\" not found"),
        "CreateContainerConfigError: Pod/shop/config, container web: configmap \"settings\" not found",
    )
    .await;
    let unscheduled = json!({
        "phase": "Pending",
        "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                         "message": "0/3 nodes are available: 3 Insufficient memory." }],
    });
    check(
        "large",
        unscheduled,
        "Unschedulable: 0/3 nodes are available: 3 Insufficient memory.",
    )
    .await;
    check(
        "evicted",
        json!({ "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory." }),
        "Evicted: The node was low on resource: memory.",
    )
    .await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": "mount", "namespace": "shop" },
        "involvedObject": { "kind": "Pod", "name": "mount", "namespace": "shop" }, "type": "Warning",
        "reason": "FailedMount", "message": "MountVolume.SetUp failed: secret \"keys\" not found",
    });
    apply(&fixture, event).await;
    check(
        "mount",
        waiting("ContainerCreating", ""),
        "FailedMount: MountVolume.SetUp failed: secret \"keys\" not found",
    )
    .await;
    let mut init = waiting("PodInitializing", "");
    init["initContainerStatuses"] = json!([{
        "name": "migrate", "image": "web", "imageID": "", "ready": false, "restartCount": 1,
        "state": { "terminated": { "exitCode": 3, "reason": "Error" } },
    }]);
    check(
        "init",
        init,
        "Error: Pod/shop/init, container migrate: exited with code 3, 1 restart",
    )
    .await;
    check("fine", ready(), "").await;
}

#[tokio::test]
async fn failed_job_shows_its_pod() {
    let fixture = shop().await;
    let message = "Job has reached the specified backoff limit";
    apply(
        &fixture,
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "seed", "namespace": "shop" },
            "spec": { "suspend": true, "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "seed", "image": "seed" }] } } },
            "status": { "failed": 1, "startTime": "2026-01-01T00:00:00Z", "conditions": [
                { "type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "message": message },
                { "type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": message }] },
        }),
    )
    .await;
    let (cause, text) = diagnosed(&fixture, "batch", "Job", "seed").await;
    assert_eq!(cause, Some(format!("BackoffLimitExceeded: {message}")), "{text}");
}

#[tokio::test]
async fn service_without_endpoints_says_why() {
    let fixture = shop().await;
    let service = |port: Value| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": port }] },
        })
    };
    apply(&fixture, service(json!("http"))).await;
    let check = async |expected: &str| {
        let (cause, text) = diagnosed(&fixture, "", "Service", "web").await;
        assert_eq!(cause.as_deref().unwrap_or_default(), expected, "{text}");
    };
    check("NoEndpoints: no pod has the labels app=web").await;
    apply(&fixture, pod("a", &json!([]), &crashing())).await;
    check("CrashLoopBackOff: Pod/shop/a, container web: exited with code 137 (OOMKilled), 5 restarts").await;
    apply(&fixture, pod("b", &json!([]), &ready())).await;
    check("").await;
    apply(&fixture, service(json!("admin"))).await;
    check("NoEndpoints: no container of its pods has a port named admin").await;
}

#[tokio::test]
async fn ingress_names_missing_backends() {
    let fixture = shop().await;
    let ingress = |service: &str, port: u16| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "defaultBackend": { "service": { "name": service, "port": { "number": port } } } },
        })
    };
    let check = async |service: &str, port: u16, expected: &str| {
        apply(&fixture, ingress(service, port)).await;
        let (cause, text) = diagnosed(&fixture, "networking.k8s.io", "Ingress", "web").await;
        assert_eq!(cause.as_deref().unwrap_or_default(), expected, "{text}");
    };
    check("web", 80, "NotFound: Service/shop/web: does not exist").await;
    apply(
        &fixture,
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "ports": [{ "port": 80 }] },
        }),
    )
    .await;
    check("web", 8080, "PortNotFound: Service/shop/web: has no port 8080").await;
    check("web", 80, "").await;
}

#[tokio::test]
async fn claim_without_its_class_is_found_below_a_pod() {
    let fixture = shop().await;
    apply(
        &fixture,
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "data", "namespace": "shop" },
            "spec": { "storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
            "status": { "phase": "Pending" },
        }),
    )
    .await;
    let mut waiting = pod("db", &json!([]), &json!({ "phase": "Pending" }));
    waiting["spec"]["volumes"] =
        json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }]);
    apply(&fixture, waiting).await;
    let (cause, text) = diagnosed(&fixture, "", "Pod", "db").await;
    assert_eq!(
        cause.as_deref(),
        Some("NotFound: StorageClass/fast: does not exist"),
        "{text}"
    );
}

#[test]
fn last_line_of_a_log_has_no_control_characters() {
    let check = |text: &str, expected: Option<&str>| assert_eq!(last_line(text).as_deref(), expected);
    check("", None);
    check("one\ntwo\n\n", Some("two"));
    check("\u{1b}[31mpanic\u{7}: no\r\n", Some("[31mpanic: no"));
}

#[test]
fn the_cause_below_a_healthy_object_names_its_object() {
    let crashed =
        || Node::new("Deployment/shop/web", NodeHealth::Failed).because("Crashed", "exited with code 1");
    let service =
        || Node::new("Service/shop/web", NodeHealth::Failed).because("NoEndpoints", "its pod is not ready");
    let release = |health| Node::new("HelmRelease/shop/web", health).with_below(vec![service(), crashed()]);
    let below = release(NodeHealth::Healthy).cause_below();
    assert_eq!(
        below.as_deref(),
        Some("Deployment/shop/web: Crashed: exited with code 1")
    );
    assert_eq!(release(NodeHealth::Healthy).cause(), None);
    assert_eq!(release(NodeHealth::Failed).cause_below(), None);
}
