//! Jobs: pods that run to completion.
//!
//! Success and failure policies, back-off per index and the tracking finalizer of pods are not simulated.
//! Ended pods are counted from the existing ones; a count never decreases.

use super::look::{
    Look, Speaker, condition, counted, free_names, is_active, is_ready, pod_of, seconds, wanted,
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
    /// The succeeded indexes of an indexed Job.
    indexes: Option<BTreeSet<usize>>,
}

enum End {
    Complete,
    Failed(&'static str, &'static str),
}

pub(super) fn look(look: &mut Look<'_>, object: &Value) {
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
        return retire(look, object);
    }
    let job = Job::of(look, object);
    if let Some(why) = look.refusal() {
        look.tell_refusal(job.speaker(), &why, &format!("Error creating: {why}"));
    }
    if flag(object, "spec.suspend") {
        return job.suspend(look);
    }
    match job.end(look) {
        Some(end) => job.finish(look, &end),
        None => {
            let moved = job.run(look);
            if !moved {
                job.report(look, &[]);
            }
        }
    }
}

/// Deletes a finished Job after its TTL.
fn retire(look: &mut Look<'_>, job: &Value) {
    if has(job, "spec.ttlSecondsAfterFinished") {
        let wait = seconds(job, "spec.ttlSecondsAfterFinished");
        if look.passed(("ended", uid(job)), wait) {
            let key = look.key;
            let delete = crate::controllers::Action::Delete {
                key: key.clone(),
                uid: uid(job).to_owned(),
                revision: None,
                propagation: crate::controllers::Propagation::Foreground,
            };
            look.step(vec![delete]);
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
    fn of(look: &Look<'a>, object: &'a Value) -> Self {
        let pods = look.children_of(object, Kind::Pod);
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

    fn end(&self, look: &mut Look<'_>) -> Option<End> {
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
            if look.passed(("active", uid(job)), wait) {
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

    fn speaker(&self) -> Speaker<'a> {
        Speaker {
            component: COMPONENT,
            about: self.object,
        }
    }

    /// Creates the pods that may run now. Returns whether it did anything.
    fn run(&self, look: &mut Look<'_>) -> bool {
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
                let actions = vec![look.kill(key, pod)];
                look.step(actions);
            }
            return true;
        }
        let missing = room - self.active.len();
        if missing == 0 || !self.backed_off(look) {
            return false;
        }
        let name = meta(job, "name");
        if self.indexes.is_some() {
            for index in self.free_indexes().into_iter().take(missing) {
                for pod in free_names(look, &format!("{name}-{index}"), 1) {
                    self.add(look, &pod, Some(index));
                }
            }
            return true;
        }
        for pod in free_names(look, name, missing) {
            self.add(look, &pod, None);
        }
        true
    }

    fn backed_off(&self, look: &mut Look<'_>) -> bool {
        let Some(doublings) = self.failed.checked_sub(1) else {
            return true;
        };
        let factor = 2_u32.pow(u32::try_from(doublings).unwrap_or(u32::MAX).min(8));
        let state = format!("{}/{}", uid(self.object), self.failed);
        look.passed(("back off", &state), (BACK_OFF_FIRST * factor).min(BACK_OFF_MAX))
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

    fn add(&self, look: &mut Look<'_>, name: &str, index: Option<usize>) {
        let mut pod = pod_of(self.object, get(self.object, "spec.template"), name);
        if let Some(index) = index {
            pod["metadata"]["labels"][INDEX] = json!(index.to_string());
            pod["metadata"]["annotations"][INDEX] = json!(index.to_string());
            pod["spec"]["hostname"] = json!(format!("{}-{index}", meta(self.object, "name")));
        }
        let message = format!("Created pod: {name}");
        let actions = vec![
            look.create(Kind::Pod, pod),
            look.event(self.speaker(), "Normal", "SuccessfulCreate", &message),
        ];
        look.step(actions);
    }

    fn suspend(&self, look: &mut Look<'_>) {
        for (key, pod) in &self.active {
            let actions = vec![look.kill(key, pod)];
            look.step(actions);
        }
        look.settled("active");
        let known = condition(self.object, "Suspended").is_some_and(|c| c["status"] == "True");
        if known {
            return self.report(look, &[]);
        }
        let event = look.event(self.speaker(), "Normal", "Suspended", "Job suspended");
        look.step(vec![event]);
        self.report(look, &[("Suspended", "JobSuspended", "Job suspended")]);
    }

    fn finish(&self, look: &mut Look<'_>, end: &End) {
        for (key, pod) in &self.active {
            let actions = vec![look.kill(key, pod)];
            look.step(actions);
        }
        let (kind, reason, message) = match end {
            End::Complete => ("Normal", "Completed", "Job completed"),
            End::Failed(reason, message) => ("Warning", *reason, *message),
        };
        let event = look.event(self.speaker(), kind, reason, message);
        look.step(vec![event]);
        let (first, second, reason, message) = match end {
            End::Complete => (
                "SuccessCriteriaMet",
                "Complete",
                "CompletionsReached",
                "Reached expected number of succeeded pods",
            ),
            End::Failed(reason, message) => ("FailureTarget", "Failed", *reason, *message),
        };
        self.report(look, &[(first, reason, message), (second, reason, message)]);
    }

    /// Writes the counts and adds conditions.
    fn report(&self, look: &mut Look<'_>, added: &[(&str, &str, &str)]) {
        let job = self.object;
        let now = look.now();
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
        counted(&mut status, "active", active);
        counted(&mut status, "succeeded", self.succeeded);
        // Pods that end with their Job count as failed.
        let failed = match added.first() {
            Some(("FailureTarget", ..)) => self.failed + self.active.len(),
            _ => self.failed,
        };
        counted(&mut status, "failed", failed);
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
        let action = look.status(job, &status);
        look.step(action.into_iter().collect());
    }
}
