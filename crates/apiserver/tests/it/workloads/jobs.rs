//! The policies of Jobs, ReplicationControllers, and pods that they adopt and release.

use super::{World, condition, merge, seconds, workload};
use equate_apiserver::Simulation;
use serde_json::{Value, json};

async fn world() -> World {
    World::new(Simulation::default()).await
}

fn failing(code: &str) -> Value {
    json!({ "metadata": { "annotations": { "equate.dev/simulate-exit-code": code } } })
}

async fn job(world: &World, spec: Value, declared: Value) {
    let mut job = workload("jobs", "job", spec);
    merge(&mut job, declared);
    world.create("jobs", job).await;
}

#[tokio::test(start_paused = true)]
async fn pod_failure_policies_decide() {
    let policy = json!({ "rules": [
        { "action": "FailJob", "onExitCodes": { "operator": "In", "values": [42] } },
        { "action": "Ignore", "onExitCodes": { "operator": "In", "values": [7] } },
    ] });
    let check = async |code: &str, after: u64, expected: &str, failed: Option<u64>| {
        let world = world().await;
        let spec = json!({ "backoffLimit": 1, "podFailurePolicy": policy });
        job(&world, spec, failing(code)).await;
        seconds(after).await;
        let job = world.get("jobs", "job").await;
        assert_eq!(condition(&job, "Failed"), expected, "{code}");
        assert_eq!(job["status"]["failed"].as_u64(), failed, "{code}");
        job
    };
    let job = check("42", 2, "True PodFailurePolicy", Some(1)).await;
    let message = job["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("Container c for pod wl/job-"), "{message}");
    assert!(
        message.ends_with(" failed with exit code 42 matching FailJob rule at index 0"),
        "{message}"
    );
    check("7", 120, "absent", None).await;
    check("1", 120, "True BackoffLimitExceeded", Some(2)).await;
}

#[tokio::test(start_paused = true)]
async fn each_index_has_its_own_back_off() {
    let world = world().await;
    let spec = json!({
        "completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimitPerIndex": 1,
    });
    let slow = json!({ "metadata": { "annotations": { "equate.dev/simulate-runs-for": "5s" } } });
    job(&world, spec, slow).await;
    seconds(1).await;
    let index = |pod: &Value| pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"].clone();
    for pod in world.list("pods").await.iter().filter(|pod| index(pod) == "1") {
        let name = pod["metadata"]["name"].as_str().unwrap();
        world.patch("pods", name, failing("1")).await;
    }
    seconds(8).await;
    let job = world.get("jobs", "job").await;
    assert_eq!(job["status"]["completedIndexes"], "0,2");
    assert_eq!(
        (&job["status"]["failed"], condition(&job, "Complete")),
        (&json!(1), "absent".to_owned())
    );
    seconds(20).await;
    let job = world.get("jobs", "job").await;
    assert_eq!(condition(&job, "Complete"), "True CompletionsReached");
    assert_eq!(job["status"]["failedIndexes"], "");
    let failures = "batch.kubernetes.io/job-index-failure-count";
    let pods = world.list("pods").await;
    let of_index = pods.iter().filter(|pod| index(pod) == "1");
    let mut counts: Vec<&str> = of_index
        .map(|pod| pod["metadata"]["annotations"][failures].as_str().unwrap())
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, ["0", "1"]);
}

#[tokio::test(start_paused = true)]
async fn failed_indexes_fail_the_job_at_the_end() {
    let check = async |most: Option<u64>, reason: &str, failed: &str| {
        let world = world().await;
        let spec = json!({
            "completionMode": "Indexed", "completions": 2, "parallelism": 1,
            "backoffLimitPerIndex": 1, "maxFailedIndexes": most,
        });
        job(&world, spec, failing("1")).await;
        seconds(2).await;
        let counts: Vec<Value> = world
            .list("pods")
            .await
            .iter()
            .map(|p| p["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"].clone())
            .collect();
        assert!(counts.contains(&json!("0")), "{counts:?}");
        seconds(120).await;
        let job = world.get("jobs", "job").await;
        assert_eq!(condition(&job, "Failed"), format!("True {reason}"));
        assert_eq!(job["status"]["failedIndexes"], failed);
    };
    check(None, "FailedIndexes", "0,1").await;
    check(Some(0), "MaxFailedIndexesExceeded", "0").await;
}

#[tokio::test(start_paused = true)]
async fn a_success_policy_ends_a_job_early() {
    let world = world().await;
    let spec = json!({
        "completionMode": "Indexed", "completions": 5, "parallelism": 1,
        "successPolicy": { "rules": [{ "succeededIndexes": "0-1" }] },
    });
    job(&world, spec, json!({})).await;
    seconds(10).await;
    let job = world.get("jobs", "job").await;
    assert_eq!(condition(&job, "SuccessCriteriaMet"), "True SuccessPolicy");
    assert_eq!(condition(&job, "Complete"), "True SuccessPolicy");
    assert_eq!(job["status"]["completedIndexes"], "0,1");
}

#[tokio::test(start_paused = true)]
async fn indexed_pods_know_their_index() {
    let world = world().await;
    let spec = json!({ "completionMode": "Indexed", "completions": 1 });
    job(&world, spec, json!({})).await;
    seconds(1).await;
    let pod = &world.list("pods").await[0];
    let variable = &pod["spec"]["containers"][0]["env"][0];
    assert_eq!(variable["name"], "JOB_COMPLETION_INDEX");
}

#[tokio::test(start_paused = true)]
async fn replication_controllers_keep_their_pods() {
    let world = world().await;
    let template = json!({
        "metadata": { "labels": { "app": "rc" } },
        "spec": { "containers": [{ "name": "c", "image": "nginx" }] },
    });
    let object = json!({ "metadata": { "name": "rc" }, "spec": {
        "replicas": 2, "selector": { "app": "rc" }, "template": template,
    } });
    world.create("replicationcontrollers", object).await;
    seconds(2).await;
    let counts = async || {
        let rc = world.get("replicationcontrollers", "rc").await;
        [
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
        ]
        .map(|name| rc["status"][name].as_u64().unwrap_or(0))
    };
    assert_eq!(counts().await, [2, 2, 2, 2, 1]);
    world.delete("pods", &world.names("pods").await[0]).await;
    seconds(2).await;
    assert_eq!(world.names("pods").await.len(), 2);
    let patch = json!({ "spec": { "replicas": 1 } });
    world.patch("replicationcontrollers", "rc", patch).await;
    seconds(2).await;
    assert_eq!(counts().await, [1, 1, 1, 1, 2]);
    let events = world.events().await;
    let deleted = "ReplicationController Normal SuccessfulDelete: Deleted pod: rc-";
    assert!(events.iter().any(|e| e.starts_with(deleted)), "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn pods_are_adopted_and_released_by_their_labels() {
    for kind in ["replicasets", "replicationcontrollers"] {
        let world = world().await;
        let pod = json!({ "metadata": { "name": "early", "labels": { "app": "web" } }, "spec": {
            "containers": [{ "name": "c", "image": "nginx" }],
        } });
        world.create("pods", pod).await;
        let mut set = workload(kind, "web", json!({ "replicas": 2 }));
        if kind == "replicationcontrollers" {
            set["spec"]["selector"] = json!({ "app": "web" });
        }
        world.create(kind, set).await;
        seconds(2).await;
        let owner = async |name: &str| {
            let pod = world.get("pods", name).await;
            pod["metadata"]["ownerReferences"][0]["name"].clone()
        };
        assert_eq!(world.names("pods").await.len(), 2, "{kind}");
        assert_eq!(owner("early").await, "web", "{kind}");
        let labels = |value: &str| json!({ "metadata": { "labels": { "app": value } } });
        world.patch("pods", "early", labels("debug")).await;
        seconds(2).await;
        assert_eq!(owner("early").await, Value::Null, "{kind}");
        assert_eq!(world.names("pods").await.len(), 3, "{kind}");
        // Back again: it is one too many.
        world.patch("pods", "early", labels("web")).await;
        seconds(2).await;
        assert_eq!(world.names("pods").await.len(), 2, "{kind}");
    }
}

fn running(command: &[&str]) -> Value {
    let container = json!({ "name": "c", "image": "busybox", "command": command });
    json!({ "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [container] } } } })
}

#[tokio::test(start_paused = true)]
async fn simple_commands_of_a_job_decide_its_end() {
    let check = async |command: &[&str], after: u64, expected: (&str, &str)| {
        let world = world().await;
        job(&world, json!({ "backoffLimit": 0 }), running(command)).await;
        seconds(after).await;
        let job = world.get("jobs", "job").await;
        let conditions = (condition(&job, "Complete"), condition(&job, "Failed"));
        assert_eq!(
            (conditions.0.as_str(), conditions.1.as_str()),
            expected,
            "{command:?}"
        );
    };
    check(
        &["sh", "-c", "exit 3"],
        3,
        ("absent", "True BackoffLimitExceeded"),
    )
    .await;
    check(&["sleep", "30"], 25, ("absent", "absent")).await;
    check(&["sleep", "30"], 35, ("True CompletionsReached", "absent")).await;
    check(&["sleep", "infinity"], 10_000, ("absent", "absent")).await;
    check(&["migrate", "up"], 3, ("True CompletionsReached", "absent")).await;
}

#[tokio::test(start_paused = true)]
async fn declarations_outweigh_commands() {
    let world = world().await;
    let mut declared = running(&["false"]);
    merge(&mut declared, failing("0"));
    job(&world, json!({}), declared).await;
    seconds(3).await;
    let job = world.get("jobs", "job").await;
    assert_eq!(condition(&job, "Complete"), "True CompletionsReached");
}

#[tokio::test(start_paused = true)]
async fn a_job_adopts_and_releases_pods_by_their_labels() {
    let world = world().await;
    job(&world, json!({ "parallelism": 1 }), running(&["sleep", "1000"])).await;
    seconds(2).await;
    let first = world.names("pods").await.remove(0);
    let owner = async |name: &str| {
        let pod = world.get("pods", name).await;
        pod["metadata"]["ownerReferences"][0]["name"].clone()
    };
    let orphaned = json!({ "metadata": { "ownerReferences": [] } });
    world.patch("pods", &first, orphaned).await;
    seconds(2).await;
    assert_eq!(owner(&first).await, "job");
    let labels = json!({ "metadata": { "labels": null } });
    world.patch("pods", &first, labels).await;
    seconds(2).await;
    assert_eq!(owner(&first).await, Value::Null);
    assert_eq!(world.names("pods").await.len(), 2);
}
