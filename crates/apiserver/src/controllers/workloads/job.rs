//! Jobs: pods that run to completion.
//!
//! The tracking finalizer of pods is not simulated: ended pods are counted from the existing ones, and a
//! count never decreases.

use super::context::{
    Context, EventSource, condition, free_names, is_active, is_ready, pod_of, seconds, set_count, wanted,
};
use super::job_policy::{
    FAILURES, IGNORED_FAILURES, INDEX, Verdict, count_of, fails_index, index_of, parse_indexes, show_indexes,
    success, verdict,
};
use super::{Kind, pod, replica_set};
use crate::builtin::tree::{flag, get, has, int, items, text};
use crate::controllers::Propagation;
use crate::controllers::object::{deleting, meta, uid};
use crate::store::Key;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::time::Duration;

const COMPONENT: &str = "job-controller";
/// The controller's back-off between failed pods: doubled from the first to the last.
const BACK_OFF_FIRST: Duration = Duration::from_secs(10);
const BACK_OFF_MAX: Duration = Duration::from_secs(600);

struct Job<'a> {
    object: &'a Value,
    active: Vec<(&'a Key, &'a Value)>,
    succeeded: usize,
    failed: usize,
    going: usize,
    indexes: Option<BTreeSet<usize>>,
    /// The pods that failed.
    lost: Vec<(&'a Key, &'a Value)>,
    /// With `backoffLimitPerIndex`.
    failed_indexes: Option<BTreeSet<usize>>,
}

struct End {
    complete: bool,
    reason: &'static str,
    message: String,
}

impl End {
    fn failed(reason: &'static str, message: &str) -> Self {
        Self {
            complete: false,
            reason,
            message: message.to_owned(),
        }
    }

    fn complete(reason: &'static str, message: &str) -> Self {
        Self {
            complete: true,
            ..Self::failed(reason, message)
        }
    }
}

pub(super) fn reconcile(cx: &mut Context<'_>, object: &Value) {
    if get(object, "spec.managedBy")
        .as_str()
        .is_some_and(|by| by != "kubernetes.io/job-controller")
    {
        return;
    }
    let ended = ["Complete", "Failed"]
        .iter()
        .any(|kind| condition(object, kind).is_some_and(|c| c["status"] == "True"));
    if ended {
        return delete_after_ttl(cx, object);
    }
    let pods = cx.children_of(object, Kind::Pod);
    let claims = replica_set::claims(cx, object, Kind::Pod, &pods);
    if !claims.is_empty() {
        return cx.step(claims);
    }
    let job = Job::of(&pods, object);
    if let Some(why) = cx.refusal() {
        cx.report_refusal(job.event_source(), &why, &format!("Error creating: {why}"));
    }
    if flag(object, "spec.suspend") {
        return job.suspend(cx);
    }
    match job.end(cx) {
        Some(end) => job.finish(cx, &end),
        None => {
            let moved = job.run(cx);
            if !moved {
                job.report(cx, &[]);
            }
        }
    }
}

fn delete_after_ttl(cx: &mut Context<'_>, job: &Value) {
    if has(job, "spec.ttlSecondsAfterFinished") {
        let wait = seconds(job, "spec.ttlSecondsAfterFinished");
        if cx.has_lasted(("ended", uid(job)), wait) {
            let delete = cx.delete(cx.key, job, Propagation::Foreground);
            cx.step(vec![delete]);
        }
    }
}

impl<'a> Job<'a> {
    fn of(pods: &[(&'a Key, &'a Value)], object: &'a Value) -> Self {
        let phase = |name: &str| {
            let ended = pods.iter().filter(|(_, p)| text(p, "status.phase") == name);
            ended.copied().collect::<Vec<_>>()
        };
        let (done, lost) = (phase("Succeeded"), phase("Failed"));
        let indexes = (text(object, "spec.completionMode") == "Indexed").then(|| {
            let mut indexes = parse_indexes(text(object, "status.completedIndexes"));
            indexes.extend(done.iter().filter_map(|(_, pod)| index_of(pod)));
            indexes
        });
        let succeeded = match &indexes {
            Some(indexes) => indexes.len(),
            None => done.len().max(wanted(object, "status.succeeded", 0)),
        };
        let counted = lost
            .iter()
            .filter(|(_, pod)| verdict(object, pod) != Verdict::Ignore);
        let failed = counted.count().max(wanted(object, "status.failed", 0));
        let failed_indexes = has(object, "spec.backoffLimitPerIndex").then(|| {
            let failing = lost.iter().filter(|(_, pod)| fails_index(object, pod));
            let mut failed = parse_indexes(text(object, "status.failedIndexes"));
            failed.extend(failing.filter_map(|(_, pod)| index_of(pod)));
            failed
        });
        Self {
            object,
            succeeded,
            failed,
            going: pods.iter().filter(|(_, p)| deleting(p)).count(),
            active: pods.iter().filter(|(_, p)| is_active(p)).copied().collect(),
            indexes,
            lost,
            failed_indexes,
        }
    }

    fn end(&self, cx: &mut Context<'_>) -> Option<End> {
        let job = self.object;
        let of_policy = self.lost.iter().find_map(|(_, pod)| match verdict(job, pod) {
            Verdict::FailJob(message) => Some(message),
            Verdict::Count | Verdict::Ignore | Verdict::FailIndex => None,
        });
        if let Some(message) = of_policy {
            return Some(End::failed("PodFailurePolicy", &message));
        }
        let limit = wanted(job, "spec.backoffLimit", 6);
        let restarts: i64 = match text(job, "spec.template.spec.restartPolicy") {
            "OnFailure" => self.active.iter().map(|(_, p)| pod::restart_count(p)).sum(),
            _ => 0,
        };
        let restarts = usize::try_from(restarts).unwrap_or(0);
        if self.failed > limit || (restarts > 0 && restarts >= limit) {
            return Some(End::failed(
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
            ));
        }
        if has(job, "spec.activeDeadlineSeconds") {
            let wait = seconds(job, "spec.activeDeadlineSeconds");
            if cx.has_lasted(("active", uid(job)), wait) {
                let why = "Job was active longer than specified deadline";
                return Some(End::failed("DeadlineExceeded", why));
            }
        }
        self.end_by_index().or_else(|| self.end_by_count())
    }

    fn end_by_index(&self) -> Option<End> {
        let job = self.object;
        let succeeded = self.indexes.as_ref()?;
        let failed = self.failed_indexes.as_ref().map_or(0, BTreeSet::len);
        let completions = wanted(job, "spec.completions", 0);
        if has(job, "spec.maxFailedIndexes") && failed > wanted(job, "spec.maxFailedIndexes", 0) {
            let why = "Job has exceeded the specified maximal number of failed indexes";
            return Some(End::failed("MaxFailedIndexesExceeded", why));
        }
        if failed > 0 && failed + succeeded.len() >= completions {
            return Some(End::failed("FailedIndexes", "Job has failed indexes"));
        }
        let message = success(job, succeeded)?;
        Some(End::complete("SuccessPolicy", &message))
    }

    fn end_by_count(&self) -> Option<End> {
        let complete = match int(self.object, "spec.completions") {
            Some(completions) => self.succeeded >= usize::try_from(completions).unwrap_or(0),
            // A work queue is done once one pod has succeeded and the others have ended.
            None => self.succeeded > 0 && self.active.is_empty(),
        };
        complete.then(|| End::complete("CompletionsReached", "Reached expected number of succeeded pods"))
    }

    fn event_source(&self) -> EventSource<'a> {
        EventSource {
            component: COMPONENT,
            about: self.object,
        }
    }

    fn run(&self, cx: &mut Context<'_>) -> bool {
        let job = self.object;
        let parallelism = wanted(job, "spec.parallelism", 1);
        let left = match int(job, "spec.completions") {
            Some(completions) => usize::try_from(completions)
                .unwrap_or(0)
                .saturating_sub(self.succeeded),
            None if self.succeeded > 0 => self.active.len(),
            None => parallelism,
        };
        let room = parallelism.min(left);
        if self.active.len() > room {
            for (key, pod) in &self.active[room..] {
                let actions = pod::remove(cx, key, pod);
                cx.step(actions);
            }
            return true;
        }
        let mut missing = room - self.active.len();
        if text(job, "spec.podReplacementPolicy") == "Failed" {
            missing = missing.saturating_sub(self.going);
        }
        if missing == 0 || (self.failed_indexes.is_none() && !self.back_off_elapsed(cx)) {
            return false;
        }
        let name = meta(job, "name");
        if self.indexes.is_some() {
            let mut moved = false;
            for index in self.free_indexes().into_iter().take(missing) {
                let before = self.last_of(index);
                if self.failed_indexes.is_some() && !before.is_none_or(|before| self.may_retry(cx, before)) {
                    continue;
                }
                for pod in free_names(cx, &format!("{name}-{index}"), 1) {
                    self.add(cx, &pod, Some((index, before.map(|(_, pod)| pod))));
                    moved = true;
                }
            }
            return moved;
        }
        for pod in free_names(cx, name, missing) {
            self.add(cx, &pod, None);
        }
        true
    }

    /// The newest failed pod of an index.
    fn last_of(&self, index: usize) -> Option<(&'a Key, &'a Value)> {
        let failures = |pod: &Value| count_of(pod, FAILURES) + count_of(pod, IGNORED_FAILURES);
        let of_index = self.lost.iter().filter(|(_, pod)| index_of(pod) == Some(index));
        of_index.copied().max_by_key(|(_, pod)| failures(pod))
    }

    /// Whether the back-off after a failed pod of an index has passed.
    fn may_retry(&self, cx: &mut Context<'_>, (key, pod): (&Key, &Value)) -> bool {
        let failures = count_of(pod, FAILURES) + count_of(pod, IGNORED_FAILURES);
        let factor = 2_u32.pow(u32::try_from(failures).unwrap_or(u32::MAX).min(8));
        let wait = (BACK_OFF_FIRST * factor).min(BACK_OFF_MAX);
        cx.alarms
            .has_lasted(key, ("index back off", uid(pod)), wait, (cx.seen.at, cx.key))
    }

    fn back_off_elapsed(&self, cx: &mut Context<'_>) -> bool {
        let Some(doublings) = self.failed.checked_sub(1) else {
            return true;
        };
        let factor = 2_u32.pow(u32::try_from(doublings).unwrap_or(u32::MAX).min(8));
        let state = format!("{}/{}", uid(self.object), self.failed);
        cx.has_lasted(("back off", &state), (BACK_OFF_FIRST * factor).min(BACK_OFF_MAX))
    }

    fn free_indexes(&self) -> BTreeSet<usize> {
        let Some(done) = &self.indexes else {
            return BTreeSet::new();
        };
        let running: BTreeSet<usize> = self.active.iter().filter_map(|(_, p)| index_of(p)).collect();
        let is_failed = |index: &usize| self.failed_indexes.as_ref().is_some_and(|f| f.contains(index));
        (0..wanted(self.object, "spec.completions", 0))
            .filter(|index| !done.contains(index) && !running.contains(index) && !is_failed(index))
            .collect()
    }

    /// `index`: the index, and its last failed pod.
    fn add(&self, cx: &mut Context<'_>, name: &str, index: Option<(usize, Option<&Value>)>) {
        let mut pod = pod_of(self.object, get(self.object, "spec.template"), name);
        if let Some((index, before)) = index {
            pod["metadata"]["labels"][INDEX] = json!(index.to_string());
            pod["metadata"]["annotations"][INDEX] = json!(index.to_string());
            pod["spec"]["hostname"] = json!(format!("{}-{index}", meta(self.object, "name")));
            for list in ["containers", "initContainers"] {
                for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
                    set_index_variable(container);
                }
            }
            if self.failed_indexes.is_some() {
                let ignored = before.is_some_and(|pod| verdict(self.object, pod) == Verdict::Ignore);
                let annotations = &mut pod["metadata"]["annotations"];
                for (name, grows) in [(FAILURES, !ignored), (IGNORED_FAILURES, ignored)] {
                    let known = before.map_or(0, |pod| count_of(pod, name));
                    let count = known + i64::from(grows && before.is_some());
                    if name == FAILURES || count > 0 {
                        annotations[name] = json!(count.to_string());
                    }
                }
            }
        }
        let message = format!("Created pod: {name}");
        let actions = vec![
            cx.create(Kind::Pod, pod),
            cx.event(self.event_source(), "Normal", "SuccessfulCreate", &message),
        ];
        cx.step(actions);
    }

    fn suspend(&self, cx: &mut Context<'_>) {
        for (key, pod) in &self.active {
            let actions = pod::remove(cx, key, pod);
            cx.step(actions);
        }
        cx.clear("active");
        let known = condition(self.object, "Suspended").is_some_and(|c| c["status"] == "True");
        if known {
            return self.report(cx, &[]);
        }
        let event = cx.event(self.event_source(), "Normal", "Suspended", "Job suspended");
        cx.step(vec![event]);
        self.report(cx, &[("Suspended", "JobSuspended", "Job suspended")]);
    }

    fn finish(&self, cx: &mut Context<'_>, end: &End) {
        for (key, pod) in &self.active {
            let actions = pod::remove(cx, key, pod);
            cx.step(actions);
        }
        let (kind, reason, message) = match end.complete {
            true => ("Normal", "Completed", "Job completed"),
            false => ("Warning", end.reason, end.message.as_str()),
        };
        let event = cx.event(self.event_source(), kind, reason, message);
        cx.step(vec![event]);
        let (first, second) = match end.complete {
            true => ("SuccessCriteriaMet", "Complete"),
            false => ("FailureTarget", "Failed"),
        };
        let (reason, message) = (end.reason, end.message.as_str());
        self.report(cx, &[(first, reason, message), (second, reason, message)]);
    }

    fn report(&self, cx: &mut Context<'_>, added: &[(&str, &str, &str)]) {
        let job = self.object;
        let now = cx.now();
        let suspended = flag(job, "spec.suspend");
        let ended = added
            .iter()
            .any(|(kind, ..)| *kind == "Complete" || *kind == "Failed");
        let active = if ended || suspended { 0 } else { self.active.len() };
        let ready = self.active.iter().filter(|(_, p)| is_ready(p)).count();
        let mut status = json!({
            "terminating": self.going,
            "uncountedTerminatedPods": {},
            "ready": if active == 0 { 0 } else { ready },
        });
        if !suspended {
            let known = get(job, "status.startTime");
            status["startTime"] = if known.is_null() {
                now.clone()
            } else {
                known.clone()
            };
        }
        set_count(&mut status, "active", active);
        set_count(&mut status, "succeeded", self.succeeded);
        // Pods that end with their Job count as failed.
        let failed = match added.first() {
            Some(("FailureTarget", ..)) => self.failed + self.active.len(),
            _ => self.failed,
        };
        set_count(&mut status, "failed", failed);
        if let Some(indexes) = self.indexes.as_ref().filter(|i| !i.is_empty()) {
            status["completedIndexes"] = json!(show_indexes(indexes));
        }
        if let Some(failed) = &self.failed_indexes {
            status["failedIndexes"] = json!(show_indexes(failed));
        }
        let mut conditions = items(job, "status.conditions").to_vec();
        let entry = |kind: &str, status: &str, reason: &str, message: &str| {
            json!({
                "type": kind, "status": status, "lastProbeTime": now, "lastTransitionTime": now,
                "reason": reason, "message": message,
            })
        };
        for known in &mut conditions {
            if !suspended && known["type"] == "Suspended" && known["status"] == "True" {
                *known = entry("Suspended", "False", "JobResumed", "Job resumed");
            }
        }
        for (kind, reason, message) in added {
            conditions.retain(|c| c["type"] != *kind);
            conditions.push(entry(kind, "True", reason, message));
        }
        if !conditions.is_empty() {
            status["conditions"] = json!(conditions);
        }
        if added.iter().any(|(kind, ..)| *kind == "Complete") {
            status["completionTime"] = now;
        }
        let action = cx.status(job, &status);
        cx.step(action.into_iter().collect());
    }
}

/// As the downward API sets it, unless the container declares the variable.
fn set_index_variable(container: &mut Value) {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    let mut variables = items(container, "env").to_vec();
    if variables.iter().any(|variable| text(variable, "name") == NAME) {
        return;
    }
    let path = format!("metadata.labels['{INDEX}']");
    variables.push(json!({ "name": NAME, "valueFrom": { "fieldRef": { "fieldPath": path } } }));
    container["env"] = json!(variables);
}
