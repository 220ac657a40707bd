//! Health of simulated workloads equals that of real ones.

use equate_apply::health::compute_at;
use equate_manifest::{object::Object, yaml};
use equate_testkit::apiserver::{EmbeddedCluster, Profile, Simulation};
use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use std::time::Duration;

fn workload(kind: &str, spec: &str) -> Value {
    let text = format!(
        "
metadata: {{ name: web }}
spec:
  selector: {{ matchLabels: {{ app: web }} }}
  template:
    metadata: {{ labels: {{ app: web }} }}
    spec:
      containers: [{{ name: c, image: nginx }}]
  {spec}
"
    );
    let mut object = document(&text);
    let group = if kind == "Job" { "batch" } else { "apps" };
    object["apiVersion"] = json!(format!("{group}/v1"));
    object["kind"] = json!(kind);
    if kind == "Job" {
        object["spec"].as_object_mut().unwrap().remove("selector");
        object["spec"]["template"]["metadata"] = json!({});
        object["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    }
    object
}

fn document(text: &str) -> Value {
    let documents = yaml::load(text, &yaml::Options::default()).unwrap();
    documents.into_iter().next().unwrap().value
}

fn plural(kind: &str) -> ApiResource {
    let (group, version) = match kind {
        "Job" | "CronJob" => ("batch", "v1"),
        "Ingress" => ("networking.k8s.io", "v1"),
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" => ("apps", "v1"),
        _ => ("", "v1"),
    };
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

struct World {
    cluster: EmbeddedCluster,
    client: Client,
}

impl World {
    async fn start() -> Self {
        let start = tokio::time::Instant::now();
        let profile = Profile {
            workloads: Some(Simulation::default()),
            ..Profile::default()
        };
        let cluster = EmbeddedCluster::builder()
            .controllers(profile)
            .clock(move || {
                let passed = i64::try_from(start.elapsed().as_millis()).unwrap();
                jiff::Timestamp::from_millisecond(1_800_000_000_000 + passed).unwrap()
            })
            .build()
            .await
            .unwrap();
        let client = cluster.client();
        // The namespace's ServiceAccount appears a moment after it.
        tokio::time::sleep(Duration::from_millis(100)).await;
        Self { cluster, client }
    }

    async fn create(&self, object: Value) {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let api: Api<DynamicObject> = Api::default_namespaced_with(self.client.clone(), &plural(&kind));
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    async fn health(&self, kind: &str) -> Vec<String> {
        let api: Api<DynamicObject> = Api::default_namespaced_with(self.client.clone(), &plural(kind));
        let list = api.list(&kube::api::ListParams::default()).await.unwrap();
        let verdict = |object: DynamicObject| {
            let mut value = serde_json::to_value(object).unwrap();
            let resource = plural(kind);
            value["apiVersion"] = json!(resource.api_version);
            value["kind"] = json!(resource.kind);
            let object = Object::from_value(value).unwrap();
            let now = "2030-01-01T00:00:00Z".parse().unwrap();
            let health = compute_at(&object, now);
            format!("{}: {}", health.status, health.message)
        };
        let mut verdicts: Vec<String> = list.into_iter().map(verdict).collect();
        verdicts.sort();
        verdicts.dedup();
        verdicts
    }
}

async fn check(kind: &str, spec: &str, after: u64, expected: &str, pods: &[&str]) {
    let world = World::start().await;
    world.create(workload(kind, spec)).await;
    tokio::time::sleep(Duration::from_secs(after)).await;
    assert_eq!(world.health(kind).await, [expected], "{kind} {spec}");
    assert_eq!(world.health("Pod").await, pods, "pods of {kind} {spec}");
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn healthy_workloads_are_current() {
    let ready = ["Current: Pod is Ready"];
    check(
        "Deployment",
        "replicas: 2",
        2,
        "Current: Deployment is available. Replicas: 2",
        &ready,
    )
    .await;
    check(
        "Deployment",
        "replicas: 0",
        2,
        "Current: Deployment is available. Replicas: 0",
        &[],
    )
    .await;
    check(
        "ReplicaSet",
        "replicas: 2",
        2,
        "Current: ReplicaSet is available. Replicas: 2",
        &ready,
    )
    .await;
    check(
        "StatefulSet",
        "replicas: 2",
        2,
        "Current: Partition rollout complete. updated: 2",
        &ready,
    )
    .await;
    check(
        "DaemonSet",
        "minReadySeconds: 0",
        2,
        "Current: All replicas scheduled as expected. Replicas: 1",
        &ready,
    )
    .await;
    let done = ["Current: Pod has completed successfully"];
    check(
        "Job",
        "completions: 2",
        5,
        "Current: Job Completed. succeeded: 2/2",
        &done,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn workloads_on_their_way_are_in_progress() {
    let (pending, ready) = ("InProgress: Pod is in the Pending phase", "Current: Pod is Ready");
    check(
        "Deployment",
        "replicas: 2",
        0,
        "InProgress: Available: 0/2",
        &[pending],
    )
    .await;
    check(
        "Deployment",
        "minReadySeconds: 60",
        5,
        "InProgress: Available: 0/1",
        &[ready],
    )
    .await;
    let spec = "replicas: 2\n  minReadySeconds: 60";
    check("StatefulSet", spec, 5, "InProgress: Replicas: 1/2", &[ready]).await;
}

#[tokio::test(start_paused = true)]
async fn failing_workloads_are_judged_as_real_ones() {
    let crash = ["Failed: Containers in CrashLoop state: c"];
    let pull = ["InProgress: Pod is in the Pending phase"];
    check_failing(
        "Deployment",
        "CrashLoopBackOff",
        30,
        "InProgress: Available: 0/1",
        &crash,
    )
    .await;
    check_failing(
        "Deployment",
        "CrashLoopBackOff",
        90,
        "Failed: Progress deadline exceeded",
        &crash,
    )
    .await;
    check_failing(
        "Deployment",
        "ImagePullBackOff",
        30,
        "InProgress: Available: 0/1",
        &pull,
    )
    .await;
    check_failing(
        "Deployment",
        "ImagePullBackOff",
        90,
        "Failed: Progress deadline exceeded",
        &pull,
    )
    .await;
    check_failing(
        "StatefulSet",
        "CrashLoopBackOff",
        90,
        "InProgress: Ready: 0/1",
        &crash,
    )
    .await;
    check_failing(
        "DaemonSet",
        "ImagePullBackOff",
        90,
        "InProgress: Available: 0/1",
        &pull,
    )
    .await;
    check_failing(
        "Job",
        "ImagePullBackOff",
        90,
        "InProgress: Job in progress",
        &pull,
    )
    .await;
    let ended = ["Current: Pod has completed, but not successfully"];
    check_failing(
        "Job",
        "CrashLoopBackOff",
        90,
        "Failed: Job Failed. failed: 2/1",
        &ended,
    )
    .await;
}

async fn check_failing(kind: &str, fault: &str, after: u64, expected: &str, pods: &[&str]) {
    let world = World::start().await;
    let spec = match kind {
        "Deployment" => "progressDeadlineSeconds: 60",
        "Job" => "backoffLimit: 1",
        _ => "minReadySeconds: 0",
    };
    let mut object = workload(kind, spec);
    object["spec"]["template"]["metadata"]["annotations"] = json!({ "equate.dev/simulate": fault });
    world.create(object).await;
    tokio::time::sleep(Duration::from_secs(after)).await;
    assert_eq!(world.health(kind).await, [expected], "{kind} {fault}");
    assert_eq!(world.health("Pod").await, pods, "pods of {kind} {fault}");
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn objects_beside_workloads_are_current() {
    let world = World::start().await;
    for text in [
        "{ apiVersion: v1, kind: Service, metadata: { name: web }, spec: { type: LoadBalancer, ports: [{ port: 80 }] } }",
        "{ apiVersion: v1, kind: PersistentVolumeClaim, metadata: { name: data }, spec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } } } }",
        "{ apiVersion: v1, kind: Pod, metadata: { name: bare }, spec: { containers: [{ name: c, image: nginx }] } }",
        "{ apiVersion: batch/v1, kind: CronJob, metadata: { name: nightly }, spec: { schedule: '0 1 * * *', jobTemplate: { spec: { template: { spec: { restartPolicy: Never, containers: [{ name: c, image: nginx }] } } } } } }",
        "{ apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: { name: web }, spec: { defaultBackend: { service: { name: web, port: { number: 80 } } } } }",
    ] {
        world.create(document(text)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    for (kind, expected) in [
        ("Service", "Current: Service is ready"),
        ("PersistentVolumeClaim", "Current: PVC is Bound"),
        ("Pod", "Current: Pod is Ready"),
        ("CronJob", "Current: Resource is always ready"),
        ("Ingress", "Current: Resource is current"),
    ] {
        assert_eq!(world.health(kind).await, [expected], "{kind}");
    }
    world.cluster.stop().await;
}
