//! Jobs: pods that run to completion.
//!
//! Success and failure policies, back-off per index and the tracking finalizer of pods are not simulated.
//! Ended pods are counted from the existing ones; a count never decreases.

use super::context::{
    Context, EventSource, condition, free_names, is_active, is_ready, pod_of, seconds, set_count, wanted,
};
use super::{Kind, pod};
use crate::builtin::tree::{annotation, flag, get, has, int, items, text};
use crate::controllers::object::{deleting, meta, uid};
use crate::store::Key;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::time::Duration;

const COMPONENT: &str = "job-controller";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
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
}

enum End {
    Complete,
    Failed(&'static str, &'static str),
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
    let job = Job::of(cx, object);
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
            let key = cx.key;
            let delete = crate::controllers::Action::Delete {
                key: key.clone(),
                uid: uid(job).to_owned(),
                revision: None,
                propagation: crate::controllers::Propagation::Foreground,
            };
            cx.step(vec![delete]);
        }
    }
}

fn index_of(pod: &Value) -> Option<usize> {
    annotation(pod, INDEX)?.parse().ok()
}

fn parse_indexes(text: &str) -> BTreeSet<usize> {
    let mut out = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            out.extend(first..=last);
        }
    }
    out
}

fn show_indexes(indexes: &BTreeSet<usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => ranges.push((*index, *index)),
        }
    }
    let shown = ranges.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(",")
}

impl<'a> Job<'a> {
    fn of(cx: &Context<'a>, object: &'a Value) -> Self {
        let pods = cx.children_of(object, Kind::Pod);
        let phase = |name: &str| {
            let ended = pods.iter().filter(|(_, p)| text(p, "status.phase") == name);
            ended.map(|(_, p)| *p).collect::<Vec<_>>()
        };
        let done = phase("Succeeded");
        let indexes = (text(object, "spec.completionMode") == "Indexed").then(|| {
            let mut indexes = parse_indexes(text(object, "status.completedIndexes"));
            indexes.extend(done.iter().filter_map(|pod| index_of(pod)));
            indexes
        });
        let succeeded = match &indexes {
            Some(indexes) => indexes.len(),
            None => done.len().max(wanted(object, "status.succeeded", 0)),
        };
        Self {
            object,
            succeeded,
            failed: phase("Failed").len().max(wanted(object, "status.failed", 0)),
            going: pods.iter().filter(|(_, p)| deleting(p)).count(),
            active: pods.iter().filter(|(_, p)| is_active(p)).copied().collect(),
            indexes,
        }
    }

    fn end(&self, cx: &mut Context<'_>) -> Option<End> {
        let job = self.object;
        let limit = wanted(job, "spec.backoffLimit", 6);
        let restarts: i64 = match text(job, "spec.template.spec.restartPolicy") {
            "OnFailure" => self.active.iter().map(|(_, p)| pod::restart_count(p)).sum(),
            _ => 0,
        };
        let restarts = usize::try_from(restarts).unwrap_or(0);
        if self.failed > limit || (restarts > 0 && restarts >= limit) {
            return Some(End::Failed(
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
            ));
        }
        if has(job, "spec.activeDeadlineSeconds") {
            let wait = seconds(job, "spec.activeDeadlineSeconds");
            if cx.has_lasted(("active", uid(job)), wait) {
                let why = "Job was active longer than specified deadline";
                return Some(End::Failed("DeadlineExceeded", why));
            }
        }
        let complete = match int(job, "spec.completions") {
            Some(completions) => self.succeeded >= usize::try_from(completions).unwrap_or(0),
            // A work queue is done once one pod has succeeded and the others have ended.
            None => self.succeeded > 0 && self.active.is_empty(),
        };
        complete.then_some(End::Complete)
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
                let actions = vec![cx.kill(key, pod)];
                cx.step(actions);
            }
            return true;
        }
        let missing = room - self.active.len();
        if missing == 0 || !self.back_off_elapsed(cx) {
            return false;
        }
        let name = meta(job, "name");
        if self.indexes.is_some() {
            for index in self.free_indexes().into_iter().take(missing) {
                for pod in free_names(cx, &format!("{name}-{index}"), 1) {
                    self.add(cx, &pod, Some(index));
                }
            }
            return true;
        }
        for pod in free_names(cx, name, missing) {
            self.add(cx, &pod, None);
        }
        true
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
        (0..wanted(self.object, "spec.completions", 0))
            .filter(|index| !done.contains(index) && !running.contains(index))
            .collect()
    }

    fn add(&self, cx: &mut Context<'_>, name: &str, index: Option<usize>) {
        let mut pod = pod_of(self.object, get(self.object, "spec.template"), name);
        if let Some(index) = index {
            pod["metadata"]["labels"][INDEX] = json!(index.to_string());
            pod["metadata"]["annotations"][INDEX] = json!(index.to_string());
            pod["spec"]["hostname"] = json!(format!("{}-{index}", meta(self.object, "name")));
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
            let actions = vec![cx.kill(key, pod)];
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
            let actions = vec![cx.kill(key, pod)];
            cx.step(actions);
        }
        let (kind, reason, message) = match end {
            End::Complete => ("Normal", "Completed", "Job completed"),
            End::Failed(reason, message) => ("Warning", *reason, *message),
        };
        let event = cx.event(self.event_source(), kind, reason, message);
        cx.step(vec![event]);
        let (first, second, reason, message) = match end {
            End::Complete => (
                "SuccessCriteriaMet",
                "Complete",
                "CompletionsReached",
                "Reached expected number of succeeded pods",
            ),
            End::Failed(reason, message) => ("FailureTarget", "Failed", *reason, *message),
        };
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
