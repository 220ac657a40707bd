//! CronJobs. The clock starts at 2027-01-15 08:00 UTC.

use super::{World, merge, seconds};
use equate_apiserver::Simulation;
use serde_json::{Value, json};

async fn world() -> World {
    World::new(Simulation::default()).await
}

fn cron_job(schedule: &str, spec: Value) -> Value {
    let pod = json!({ "restartPolicy": "Never", "containers": [{ "name": "c", "image": "x" }] });
    let mut object = json!({ "metadata": { "name": "tick" }, "spec": {
        "schedule": schedule,
        "jobTemplate": { "spec": { "backoffLimit": 0, "template": { "spec": pod } } },
    } });
    merge(&mut object["spec"], spec);
    object
}

fn running() -> Value {
    json!({ "jobTemplate": { "metadata": { "annotations": { "equate.dev/simulate": "Running" } } } })
}

async fn active(world: &World) -> usize {
    let tick = world.get("cronjobs", "tick").await;
    tick["status"]["active"].as_array().map_or(0, Vec::len)
}

async fn reasons(world: &World) -> Vec<String> {
    let events = world.events().await;
    let of = events.iter().filter_map(|e| e.strip_prefix("CronJob "));
    of.map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn jobs_start_on_schedule_and_leave_a_history() {
    let world = world().await;
    let spec = json!({ "timeZone": "Europe/Berlin" });
    world.create("cronjobs", cron_job("*/5 * * * *", spec)).await;
    seconds(200).await;
    assert!(world.names("jobs").await.is_empty());
    seconds(120).await;
    // The name holds the minute.
    assert_eq!(world.names("jobs").await, ["tick-30000005"]);
    let job = world.get("jobs", "tick-30000005").await;
    assert_eq!(
        job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"],
        "2027-01-15T09:05:00+01:00"
    );
    let tick = world.get("cronjobs", "tick").await;
    assert_eq!(tick["status"]["lastScheduleTime"], "2027-01-15T08:05:00Z");
    assert!(
        tick["status"]["lastSuccessfulTime"].is_string(),
        "{}",
        tick["status"]
    );
    assert_eq!(active(&world).await, 0);
    assert_eq!(
        reasons(&world).await,
        [
            "Normal SuccessfulCreate: Created job tick-30000005",
            "Normal SawCompletedJob: Saw completed job: tick-30000005, condition: Complete",
        ]
    );
    seconds(1200).await;
    let jobs = world.names("jobs").await;
    assert_eq!(jobs, ["tick-30000015", "tick-30000020", "tick-30000025"]);
    let deleted = reasons(&world).await;
    let deleted = deleted.iter().filter(|e| e.contains("SuccessfulDelete")).count();
    assert_eq!(deleted, 2);
}

#[tokio::test(start_paused = true)]
async fn failed_jobs_have_their_own_limit() {
    let world = world().await;
    let failing =
        json!({ "jobTemplate": { "metadata": { "annotations": { "equate.dev/simulate": "Error" } } } });
    world.create("cronjobs", cron_job("* * * * *", failing)).await;
    seconds(200).await;
    assert_eq!(world.names("jobs").await, ["tick-30000003"]);
    let tick = world.get("cronjobs", "tick").await;
    assert_eq!(tick["status"].get("lastSuccessfulTime"), None);
}

#[tokio::test(start_paused = true)]
async fn concurrency_policies_allow_forbid_and_replace() {
    let check = async |policy: &str, jobs: &[&str], reason: &str| {
        let world = world().await;
        let mut spec = running();
        merge(&mut spec, json!({ "concurrencyPolicy": policy }));
        world.create("cronjobs", cron_job("* * * * *", spec)).await;
        seconds(130).await;
        assert_eq!(world.names("jobs").await, jobs, "{policy}");
        assert_eq!(active(&world).await, jobs.len(), "{policy}");
        let reasons = reasons(&world).await;
        assert!(reasons.iter().any(|r| r == reason), "{policy}: {reasons:#?}");
    };
    check(
        "Allow",
        &["tick-30000001", "tick-30000002"],
        "Normal SuccessfulCreate: Created job tick-30000002",
    )
    .await;
    check(
        "Forbid",
        &["tick-30000001"],
        "Normal JobAlreadyActive: Not starting job because prior execution is running and concurrency policy is Forbid",
    )
    .await;
    check(
        "Replace",
        &["tick-30000002"],
        "Normal SuccessfulDelete: Deleted job tick-30000001",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_suspended_cron_job_starts_the_last_missed_time_when_resumed() {
    let check = async |deadline: Option<u64>, jobs: &[&str]| {
        let world = world().await;
        let spec = json!({ "suspend": true, "startingDeadlineSeconds": deadline });
        world.create("cronjobs", cron_job("*/2 * * * *", spec)).await;
        seconds(410).await;
        assert!(world.names("jobs").await.is_empty());
        world
            .patch("cronjobs", "tick", json!({ "spec": { "suspend": false } }))
            .await;
        seconds(5).await;
        assert_eq!(world.names("jobs").await, jobs, "{deadline:?}");
    };
    check(None, &["tick-30000006"]).await;
    check(Some(100), &["tick-30000006"]).await;
    check(Some(20), &[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_made_by_hand_is_no_execution() {
    let world = world().await;
    world.create("cronjobs", cron_job("0 0 1 1 *", running())).await;
    let tick = world.get("cronjobs", "tick").await;
    let mut job = json!({ "metadata": { "name": "manual" }, "spec": tick["spec"]["jobTemplate"]["spec"] });
    job["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": tick["metadata"]["uid"],
        "controller": true,
    }]);
    job["metadata"]["annotations"] = json!({ "cronjob.kubernetes.io/instantiate": "manual" });
    world.create("jobs", job).await;
    seconds(1).await;
    assert_eq!(active(&world).await, 0);
    let expected = "Warning UnexpectedJob: Saw a job that the controller did not create or forgot: manual";
    assert_eq!(reasons(&world).await, [expected]);
}
