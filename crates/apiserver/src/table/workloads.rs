//! Cells of workloads.

use super::cells::{View, cells, labels, selector_or_none};
use crate::selector::text_of as selector;
use equate_manifest::go::duration;
use jiff::Timestamp;
use serde_json::Value;

fn containers(view: &View<'_>, template: &str) -> (String, String) {
    let column = |field: &str| {
        let containers = view.list(&format!("{template}/spec/containers")).iter();
        let values =
            containers.map(|container| container.get(field).and_then(Value::as_str).unwrap_or_default());
        values.collect::<Vec<_>>().join(",")
    };
    (column("name"), column("image"))
}

pub(super) fn pod_template(view: &View<'_>) -> Vec<Value> {
    let (names, images) = containers(view, "/template");
    cells![
        view.name(),
        names,
        images,
        labels(view.map("/template/metadata/labels"))
    ]
}

pub(super) fn replication_controller(view: &View<'_>) -> Vec<Value> {
    replicas(view, labels(view.map("/spec/selector")))
}

pub(super) fn replica_set(view: &View<'_>) -> Vec<Value> {
    replicas(view, selector_or_none(view.get("/spec/selector")))
}

fn replicas(view: &View<'_>, selector: String) -> Vec<Value> {
    let (names, images) = containers(view, "/spec/template");
    cells![
        view.name(),
        view.number("/spec/replicas"),
        view.number("/status/replicas"),
        view.number("/status/readyReplicas"),
        view.age(),
        names,
        images,
        selector,
    ]
}

pub(super) fn deployment(view: &View<'_>) -> Vec<Value> {
    let (names, images) = containers(view, "/spec/template");
    cells![
        view.name(),
        format!(
            "{}/{}",
            view.number("/status/readyReplicas"),
            view.number("/spec/replicas")
        ),
        view.number("/status/updatedReplicas"),
        view.number("/status/availableReplicas"),
        view.age(),
        names,
        images,
        selector(view.get("/spec/selector")),
    ]
}

pub(super) fn stateful_set(view: &View<'_>) -> Vec<Value> {
    let (names, images) = containers(view, "/spec/template");
    let ready = format!(
        "{}/{}",
        view.number("/status/readyReplicas"),
        view.number("/spec/replicas")
    );
    cells![view.name(), ready, view.age(), names, images]
}

pub(super) fn daemon_set(view: &View<'_>) -> Vec<Value> {
    let (names, images) = containers(view, "/spec/template");
    cells![
        view.name(),
        view.number("/status/desiredNumberScheduled"),
        view.number("/status/currentNumberScheduled"),
        view.number("/status/numberReady"),
        view.number("/status/updatedNumberScheduled"),
        view.number("/status/numberAvailable"),
        labels(view.map("/spec/template/spec/nodeSelector")),
        view.age(),
        names,
        images,
        selector_or_none(view.get("/spec/selector")),
    ]
}

pub(super) fn controller_revision(view: &View<'_>) -> Vec<Value> {
    let owners = view.list("/metadata/ownerReferences").iter();
    let mut owners = owners.map(|object| View {
        object,
        now: view.now,
    });
    let controller = owners.find(|owner| owner.flag("/controller") == Some(true));
    let controller = controller.map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let kind = match owner.text("/apiVersion").split_once('/') {
                Some((group, _)) => format!("{}.{group}", owner.text("/kind")),
                None => owner.text("/kind").to_owned(),
            };
            format!("{}/{}", kind.to_lowercase(), owner.text("/name"))
        },
    );
    cells![view.name(), controller, view.number("/revision"), view.age()]
}

pub(super) fn job(view: &View<'_>) -> Vec<Value> {
    let succeeded = view.number("/status/succeeded");
    let completions = match view.get("/spec/completions").and_then(Value::as_i64) {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None => match view.number("/spec/parallelism") {
            parallelism if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
            _ => format!("{succeeded}/1"),
        },
    };
    let time = |pointer: &str| {
        view.optional(pointer)
            .and_then(|time| time.parse::<Timestamp>().ok())
    };
    let duration = time("/status/startTime").map(|start| {
        let end = time("/status/completionTime").unwrap_or(view.now);
        duration::human(end.duration_since(start).as_secs())
    });
    let is = |kind: &str| view.condition("/status/conditions", kind) == Some("True");
    let status = if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if view.deleting() {
        "Terminating"
    } else {
        let others = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
        others.into_iter().find(|kind| is(kind)).unwrap_or("Running")
    };
    let (names, images) = containers(view, "/spec/template");
    cells![
        view.name(),
        status,
        completions,
        duration.unwrap_or_default(),
        view.age(),
        names,
        images,
        selector_or_none(view.get("/spec/selector")),
    ]
}

pub(super) fn cron_job(view: &View<'_>) -> Vec<Value> {
    let suspend = match view.flag("/spec/suspend") {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last = match view.get("/status/lastScheduleTime") {
        Some(_) => view.since("/status/lastScheduleTime"),
        None => "<none>".to_owned(),
    };
    let (names, images) = containers(view, "/spec/jobTemplate/spec/template");
    cells![
        view.name(),
        view.text("/spec/schedule"),
        view.optional("/spec/timeZone").unwrap_or("<none>"),
        suspend,
        view.list("/status/active").len(),
        last,
        view.age(),
        names,
        images,
        selector_or_none(view.get("/spec/jobTemplate/spec/selector")),
    ]
}
