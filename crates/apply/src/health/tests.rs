//! Health by kind. The cases of kstatus's tests (`status_compute_test.go`) in this table's form, and
//! more: messages, malformed objects, Flux's kinds.

use super::{Health, Status, compute, compute_at};
use equate_manifest::object::Object;
use serde_json::{Value, json};

/// `kind` is `apiVersion/Kind`; the generation is 1 unless the body says otherwise.
fn object(kind: &str, body: Value) -> Object {
    let (api_version, kind) = kind.rsplit_once('/').expect("apiVersion/Kind");
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": { "name": "test", "namespace": "qual", "generation": 1 },
    });
    merge(&mut object, body);
    Object::from_value(object).expect("an object")
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn check(kind: &str, cases: &[(&str, Value, &str)]) {
    for (name, body, expected) in cases {
        let Health { status, message } = compute(&object(kind, body.clone()));
        assert_eq!(format!("{status}: {message}"), *expected, "{kind}: {name}");
    }
}

#[test]
fn pods() {
    let unschedulable = json!([{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }]);
    let waiting = |reasons: &[(&str, &str)]| {
        let statuses = reasons
            .iter()
            .map(|(name, reason)| json!({ "name": name, "state": { "waiting": { "reason": reason } } }));
        json!({ "status": {
            "phase": "Running", "conditions": unschedulable,
            "containerStatuses": statuses.collect::<Vec<_>>(),
        }})
    };
    check(
        "v1/Pod",
        &[
            ("no status", json!({}), "InProgress: Pod phase not available"),
            (
                "ready",
                json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } }),
                "Current: Pod is Ready",
            ),
            (
                "running",
                json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "False" }] } }),
                "InProgress: Pod is running but is not Ready",
            ),
            (
                "done",
                json!({ "status": { "phase": "Succeeded", "conditions": [{ "type": "Ready", "status": "False", "reason": "PodCompleted" }] } }),
                "Current: Pod has completed successfully",
            ),
            (
                "done badly",
                json!({ "status": { "phase": "Failed", "conditions": [{ "type": "Ready", "status": "False", "reason": "PodCompleted" }] } }),
                "Current: Pod has completed, but not successfully",
            ),
            (
                "pending",
                json!({ "status": { "phase": "Pending" } }),
                "InProgress: Pod is in the Pending phase",
            ),
            (
                "no node, time unknown",
                json!({ "status": { "phase": "Pending", "conditions": unschedulable } }),
                "InProgress: Pod has not been scheduled",
            ),
            (
                "one container crashes",
                waiting(&[("nginx", "CrashLoopBackOff"), ("log", "ContainerCreating")]),
                "Failed: Containers in CrashLoop state: nginx",
            ),
            (
                "two containers crash",
                waiting(&[("nginx", "CrashLoopBackOff"), ("log", "CrashLoopBackOff")]),
                "Failed: Containers in CrashLoop state: nginx,log",
            ),
            (
                "an image is not pulled while running",
                waiting(&[("nginx", "ImagePullBackOff")]),
                "InProgress: Pod is running but is not Ready",
            ),
            (
                "a phase that does not exist",
                json!({ "status": { "phase": "Sleeping" } }),
                "Unknown: unknown phase Sleeping",
            ),
        ],
    );
}

#[test]
fn a_pod_looks_for_a_node_for_fifteen_seconds() {
    let pending = |created: Value| {
        let body = json!({
            "metadata": { "creationTimestamp": created },
            "status": { "phase": "Pending", "conditions": [
                { "type": "PodScheduled", "status": "False", "reason": "Unschedulable" },
            ] },
        });
        object("v1/Pod", body)
    };
    let created = json!("2026-01-01T00:00:00Z");
    for (now, created, expected) in [
        ("2026-01-01T00:00:00Z", created.clone(), Status::InProgress),
        ("2026-01-01T00:00:14Z", created.clone(), Status::InProgress),
        ("2026-01-01T00:00:15Z", created.clone(), Status::Failed),
        ("2026-01-01T00:00:00Z", Value::Null, Status::Failed),
    ] {
        let now = now.parse().expect("a time");
        let health = compute_at(&pending(created.clone()), now);
        assert_eq!(health.status, expected, "{now} {created}");
    }
}

#[test]
fn volume_claims_and_services() {
    check(
        "v1/PersistentVolumeClaim",
        &[
            (
                "no status",
                json!({}),
                "InProgress: PVC is not Bound. phase: unknown",
            ),
            (
                "pending",
                json!({ "status": { "phase": "Pending" } }),
                "InProgress: PVC is not Bound. phase: Pending",
            ),
            (
                "bound",
                json!({ "status": { "phase": "Bound" } }),
                "Current: PVC is Bound",
            ),
        ],
    );
    check(
        "v1/Service",
        &[
            ("default", json!({}), "Current: Service is ready"),
            (
                "node port",
                json!({ "spec": { "type": "NodePort" } }),
                "Current: Service is ready",
            ),
            (
                "balancer with an address inside",
                json!({ "spec": { "type": "LoadBalancer", "clusterIP": "1.2.3.4" } }),
                "Current: Service is ready",
            ),
            (
                "balancer without",
                json!({ "spec": { "type": "LoadBalancer" } }),
                "InProgress: ClusterIP not set. Service type: LoadBalancer",
            ),
        ],
    );
}

#[test]
fn stateful_sets() {
    let of_four = |status: Value| {
        let mut body = json!({ "spec": { "replicas": 4 }, "status": {
            "observedGeneration": 1, "currentReplicas": 4, "readyReplicas": 4, "replicas": 4,
        }});
        merge(&mut body["status"], status);
        body
    };
    let with_partition = |partition: i64, updated: i64| {
        let mut body = of_four(json!({ "updatedReplicas": updated, "updateRevision": "b" }));
        body["spec"]["updateStrategy"] =
            json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": partition } });
        body
    };
    check(
        "apps/v1/StatefulSet",
        &[
            ("no status", json!({}), "InProgress: Replicas: 0/1"),
            (
                "only current replicas",
                json!({ "status": { "observedGeneration": 1, "currentReplicas": 1 } }),
                "InProgress: Replicas: 0/1",
            ),
            (
                "all there",
                of_four(json!({})),
                "Current: All replicas scheduled as expected. Replicas: 4",
            ),
            (
                "less ready",
                of_four(json!({ "readyReplicas": 2 })),
                "InProgress: Ready: 2/4",
            ),
            (
                "less current",
                of_four(json!({ "currentReplicas": 2 })),
                "InProgress: current: 2/4",
            ),
            (
                "extra pods",
                of_four(json!({ "replicas": 8 })),
                "InProgress: Pending termination: 4",
            ),
            (
                "revisions differ",
                of_four(json!({ "currentRevision": "a", "updateRevision": "b" })),
                "InProgress: Waiting for updated revision to match current",
            ),
            (
                "partition under way",
                with_partition(1, 2),
                "InProgress: updated: 2/3",
            ),
            (
                "partition done",
                with_partition(1, 3),
                "Current: Partition rollout complete. updated: 3",
            ),
            (
                "rolled by hand",
                json!({ "spec": { "updateStrategy": { "type": "OnDelete" } } }),
                "Current: StatefulSet is using the ondelete update strategy",
            ),
        ],
    );
}

#[test]
fn daemon_sets() {
    let of_four = |status: Value| {
        let mut body = json!({ "status": {
            "observedGeneration": 1, "desiredNumberScheduled": 4, "currentNumberScheduled": 4,
            "updatedNumberScheduled": 4, "numberAvailable": 4, "numberReady": 4,
        }});
        merge(&mut body["status"], status);
        body
    };
    let mut without_generation = of_four(json!({}));
    without_generation["metadata"] = json!({ "generation": null });
    let mut next_generation = of_four(json!({}));
    next_generation["metadata"] = json!({ "generation": 2 });
    check(
        "apps/v1/DaemonSet",
        &[
            (
                "no status",
                json!({}),
                "InProgress: DaemonSet status.observedGeneration not found",
            ),
            (
                "no generation",
                without_generation,
                "InProgress: DaemonSet metadata.generation not found",
            ),
            (
                "no wanted number",
                json!({ "status": { "observedGeneration": 1, "currentReplicas": 1 } }),
                "InProgress: Missing .status.desiredNumberScheduled",
            ),
            (
                "all there",
                of_four(json!({})),
                "Current: All replicas scheduled as expected. Replicas: 4",
            ),
            (
                "no node wants it",
                json!({ "status": { "observedGeneration": 1, "desiredNumberScheduled": 0 } }),
                "Current: All replicas scheduled as expected. Replicas: 0",
            ),
            (
                "not observed",
                next_generation,
                "InProgress: DaemonSet generation is 2, but latest observed generation is 1",
            ),
            (
                "less current",
                of_four(json!({ "currentNumberScheduled": 3 })),
                "InProgress: Current: 3/4",
            ),
            (
                "less updated",
                of_four(json!({ "updatedNumberScheduled": 1 })),
                "InProgress: Updated: 1/4",
            ),
            (
                "less available",
                of_four(json!({ "numberAvailable": 2 })),
                "InProgress: Available: 2/4",
            ),
            (
                "less ready",
                of_four(json!({ "numberReady": 2 })),
                "InProgress: Ready: 2/4",
            ),
        ],
    );
}

#[test]
fn deployments() {
    let one = |status: Value, conditions: &[(&str, &str, &str)]| {
        let conditions = conditions
            .iter()
            .map(|(kind, status, reason)| json!({ "type": kind, "status": status, "reason": reason }));
        let mut body = json!({ "status": {
            "observedGeneration": 1, "updatedReplicas": 1, "readyReplicas": 1,
            "availableReplicas": 1, "replicas": 1, "conditions": conditions.collect::<Vec<_>>(),
        }});
        merge(&mut body["status"], status);
        body
    };
    let with_deadline = |mut body: Value| {
        body["spec"] = json!({ "progressDeadlineSeconds": 45 });
        body
    };
    let progressed = ("Progressing", "True", "NewReplicaSetAvailable");
    let available = ("Available", "True", "MinimumReplicasAvailable");
    let fine = [progressed, available];
    check(
        "apps/v1/Deployment",
        &[
            ("no status", json!({}), "InProgress: Replicas: 0/1"),
            (
                "well",
                one(json!({}), &fine),
                "Current: Deployment is available. Replicas: 1",
            ),
            (
                "well, with a deadline",
                with_deadline(one(json!({}), &fine)),
                "Current: Deployment is available. Replicas: 1",
            ),
            (
                "no progress",
                with_deadline(one(
                    json!({}),
                    &[("Progressing", "False", "Some reason"), available],
                )),
                "InProgress: ReplicaSet not Available",
            ),
            (
                "progress is not told of without a deadline",
                one(json!({}), &[available]),
                "Current: Deployment is available. Replicas: 1",
            ),
            (
                "not available",
                one(
                    json!({}),
                    &[progressed, ("Available", "False", "MinimumReplicasUnavailable")],
                ),
                "InProgress: Deployment not Available",
            ),
            (
                "past its deadline",
                with_deadline(one(
                    json!({}),
                    &[available, ("Progressing", "False", "ProgressDeadlineExceeded")],
                )),
                "Failed: Progress deadline exceeded",
            ),
            (
                "too few",
                one(json!({ "replicas": 0 }), &fine),
                "InProgress: Replicas: 0/1",
            ),
            (
                "old ones",
                one(json!({ "updatedReplicas": 0 }), &fine),
                "InProgress: Updated: 0/1",
            ),
            (
                "too many",
                one(json!({ "replicas": 3 }), &fine),
                "InProgress: Pending termination: 2",
            ),
            (
                "unavailable",
                one(json!({ "availableReplicas": 0 }), &fine),
                "InProgress: Available: 0/1",
            ),
            (
                "unready",
                one(json!({ "readyReplicas": 0 }), &fine),
                "InProgress: Ready: 0/1",
            ),
        ],
    );
    check(
        "extensions/v1beta1/Deployment",
        &[("its old group", json!({}), "InProgress: Replicas: 0/1")],
    );
}

#[test]
fn replica_sets() {
    let of_four = |status: Value| {
        let mut body = json!({ "spec": { "replicas": 4 }, "status": {
            "observedGeneration": 1, "replicas": 4, "readyReplicas": 4, "availableReplicas": 4,
            "fullyLabeledReplicas": 4,
        }});
        merge(&mut body["status"], status);
        body
    };
    let failure =
        |status: &str| of_four(json!({ "conditions": [{ "type": "ReplicaFailure", "status": status }] }));
    check(
        "apps/v1/ReplicaSet",
        &[
            ("no status", json!({}), "InProgress: Labelled: 0/1"),
            (
                "well",
                of_four(json!({})),
                "Current: ReplicaSet is available. Replicas: 4",
            ),
            (
                "no failure",
                failure("False"),
                "Current: ReplicaSet is available. Replicas: 4",
            ),
            (
                "failure",
                failure("True"),
                "InProgress: Replica Failure condition. Check Pods",
            ),
            (
                "less ready",
                of_four(json!({ "readyReplicas": 2 })),
                "InProgress: Ready: 2/4",
            ),
            (
                "less available",
                of_four(json!({ "availableReplicas": 2 })),
                "InProgress: Available: 2/4",
            ),
            (
                "too many",
                of_four(json!({ "replicas": 5 })),
                "InProgress: Pending termination: 1",
            ),
        ],
    );
}

#[test]
fn jobs_are_current_when_they_have_completed() {
    let ended = |kind: &str, status: &str| json!([{ "type": kind, "status": status }]);
    check(
        "batch/v1/Job",
        &[
            ("no status", json!({}), "InProgress: Job in progress"),
            (
                "runs",
                json!({
                    "spec": { "completions": 10, "parallelism": 2 },
                    "status": {
                        "startTime": "2019-06-04T01:17:13Z", "succeeded": 3, "failed": 1, "active": 2,
                        "conditions": [{ "type": "Failed", "status": "False" }, { "type": "Complete", "status": "False" }],
                    },
                }),
                "InProgress: Job in progress",
            ),
            (
                "completed",
                json!({ "status": { "succeeded": 1, "active": 0, "conditions": ended("Complete", "True") } }),
                "Current: Job Completed. succeeded: 1/1",
            ),
            (
                "failed",
                json!({ "spec": { "completions": 4 }, "status": { "succeeded": 3, "failed": 1, "conditions": ended("Failed", "True") } }),
                "Failed: Job Failed. failed: 1/4",
            ),
            (
                "suspended",
                json!({ "spec": { "suspend": true }, "status": { "conditions": ended("Suspended", "True") } }),
                "InProgress: Job in progress",
            ),
        ],
    );
}

#[test]
fn always_ready() {
    for kind in ["batch/v1/CronJob", "v1/ConfigMap", "v1/Secret"] {
        check(
            kind,
            &[
                ("no status", json!({}), "Current: Resource is always ready"),
                (
                    "null status",
                    json!({ "status": null }),
                    "Current: Resource is always ready",
                ),
            ],
        );
    }
    check(
        "policy/v1/PodDisruptionBudget",
        &[
            (
                "observed",
                json!({ "status": { "observedGeneration": 1 } }),
                "Current: AllowedDisruptions has been computed.",
            ),
            (
                "not observed",
                json!({ "metadata": { "generation": 2 }, "status": { "observedGeneration": 1 } }),
                "InProgress: PodDisruptionBudget generation is 2, but latest observed generation is 1",
            ),
        ],
    );
}

#[test]
fn definitions() {
    let accepted = json!({ "type": "NamesAccepted", "status": "True", "reason": "NoConflicts" });
    let established = |status: &str, reason: &str| json!({ "type": "Established", "status": status, "reason": reason, "message": "why" });
    let with = |conditions: Value| json!({ "status": { "conditions": conditions } });
    check(
        "apiextensions.k8s.io/v1/CustomResourceDefinition",
        &[
            ("no conditions", json!({}), "InProgress: Install in progress"),
            (
                "installing",
                with(json!([accepted, established("False", "Installing")])),
                "InProgress: Install in progress",
            ),
            (
                "names taken",
                with(
                    json!([{ "type": "NamesAccepted", "status": "False", "reason": "ListKindConflict", "message": "\"WList\" is already in use" }]),
                ),
                "Failed: \"WList\" is already in use",
            ),
            (
                "not established",
                with(json!([accepted, established("False", "NotAccepted")])),
                "Failed: why",
            ),
            (
                "established",
                with(json!([accepted, established("True", "InitialNamesAccepted")])),
                "Current: CRD is established",
            ),
        ],
    );
}

#[test]
fn custom_resources() {
    let with = |kind: &str, status: &str| {
        json!({ "status": { "observedGeneration": 1, "conditions": [
            { "type": kind, "status": status, "reason": "Because", "message": "a sentence" },
        ] } })
    };
    check(
        "something/v1/MyCR",
        &[
            ("no status", json!({}), "Current: Resource is current"),
            (
                "not observed",
                json!({ "metadata": { "generation": 2 }, "status": { "observedGeneration": 1 } }),
                "InProgress: MyCR generation is 2, but latest observed generation is 1",
            ),
            ("ready", with("Ready", "True"), "Current: Resource is Ready"),
            ("not ready", with("Ready", "False"), "InProgress: a sentence"),
            (
                "perhaps ready",
                with("Ready", "Unknown"),
                "InProgress: a sentence",
            ),
            (
                "ready in other words",
                with("Ready", "Yes"),
                "Current: Resource is current",
            ),
            (
                "another condition",
                with("SomeCondition", "False"),
                "Current: Resource is current",
            ),
            (
                "reconciling",
                with("Reconciling", "True"),
                "InProgress: a sentence",
            ),
            ("stalled", with("Stalled", "True"), "Failed: a sentence"),
            (
                "no longer stalled",
                with("Stalled", "False"),
                "Current: Resource is current",
            ),
            (
                "goes",
                json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z", "generation": 2 }, "status": { "observedGeneration": 1 } }),
                "Terminating: Resource scheduled for deletion",
            ),
            (
                "reconciling comes before stalled where it stands first",
                json!({ "status": { "conditions": [
                    { "type": "Ready", "status": "True" },
                    { "type": "Reconciling", "status": "True", "message": "first" },
                    { "type": "Stalled", "status": "True", "message": "second" },
                ] } }),
                "InProgress: first",
            ),
            (
                "conditions of another shape",
                json!({ "status": { "conditions": { "Ready": true } } }),
                "Unknown: status.conditions is not a list",
            ),
            (
                "a condition of another shape",
                json!({ "status": { "conditions": [{ "type": "Ready", "status": true }] } }),
                "Unknown: status.conditions[0].status is not a string",
            ),
            (
                "a text for a status",
                json!({ "status": "fine" }),
                "Unknown: status is not an object",
            ),
            (
                "a generation of another type",
                json!({ "status": { "observedGeneration": "1" } }),
                "Unknown: status.observedGeneration is not an integer",
            ),
        ],
    );
    check(
        "kustomize.toolkit.fluxcd.io/v1/Kustomization",
        &[(
            "just created",
            json!({ "status": { "observedGeneration": -1 } }),
            "InProgress: Kustomization generation is 1, but latest observed generation is -1",
        )],
    );
    check(
        "apiregistration.k8s.io/v1/APIService",
        &[(
            "nobody answers",
            with("Available", "False"),
            "Current: Resource is current",
        )],
    );
    check(
        "apps.example.org/v1/Deployment",
        &[(
            "a kind's name in another group",
            json!({}),
            "Current: Resource is current",
        )],
    );
}
