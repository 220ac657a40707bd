//! CronJobs: a Job at each time of the schedule, and the history of ended ones.

use super::Kind;
use super::context::{Context, EventSource, condition, controller_reference, time, wanted};
use super::schedule::Schedule;
use crate::builtin::tree::{flag, get, int, items, text};
use crate::controllers::object::{deleting, meta, uid};
use crate::controllers::{Action, Propagation};
use crate::store::Key;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

const COMPONENT: &str = "cronjob-controller";
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Upstream's margin for clocks that differ.
const DELTA: SignedDuration = SignedDuration::from_millis(100);
/// More unserved times than this are reported.
const MISSED_MAX: i64 = 100;

struct CronJob<'a> {
    object: &'a Value,
    jobs: Vec<(&'a Key, &'a Value)>,
    /// The Jobs of the status that still run.
    active: Vec<Value>,
}

pub(super) fn reconcile(cx: &mut Context<'_>, object: &Value) {
    let mut cron_job = CronJob::of(cx, object);
    cron_job.report_jobs(cx);
    let start = cron_job.due(cx);
    let started = start.and_then(|at| cron_job.start(cx, at));
    cron_job.limit_history(cx);
    let (mut actions, at) = started.unwrap_or_default();
    actions.extend(cx.status(object, &cron_job.status(at)));
    cx.step(actions);
}

fn ended(job: &Value) -> Option<&'static str> {
    ["Complete", "Failed"]
        .into_iter()
        .find(|kind| condition(job, kind).is_some_and(|c| c["status"] == "True"))
}

fn runs(job: &Value) -> bool {
    ended(job).is_none() && !deleting(job)
}

fn is_ours(job: &Value) -> bool {
    job["metadata"]["annotations"].get(SCHEDULED).is_some()
}

impl<'a> CronJob<'a> {
    fn of(cx: &Context<'a>, object: &'a Value) -> Self {
        let jobs = cx.children_of(object, Kind::Job);
        let mut active = Vec::new();
        for (_, job) in &jobs {
            if runs(job) && is_ours(job) {
                active.push(json!({
                    "apiVersion": "batch/v1", "kind": "Job", "name": meta(job, "name"),
                    "namespace": meta(job, "namespace"), "uid": uid(job),
                }));
            }
        }
        active.sort_by(|a, b| text(a, "name").cmp(text(b, "name")));
        Self { object, jobs, active }
    }

    fn report_jobs(&self, cx: &mut Context<'_>) {
        for (key, job) in self.jobs.iter().filter(|(_, job)| runs(job) && !is_ours(job)) {
            if cx.alarms.is_new(key, ("unexpected", uid(job)), cx.seen.at) {
                let name = &key.name;
                let message = format!("Saw a job that the controller did not create or forgot: {name}");
                report(cx, self.object, ("Warning", "UnexpectedJob", &message));
            }
        }
        for known in items(self.object, "status.active") {
            let name = text(known, "name");
            let job = self
                .jobs
                .iter()
                .find(|(_, job)| job["metadata"]["uid"] == known["uid"]);
            let (reason, message) = match job.map(|(_, job)| ended(job)) {
                Some(None) => continue,
                Some(Some(kind)) => (
                    "SawCompletedJob",
                    format!("Saw completed job: {name}, condition: {kind}"),
                ),
                None => ("MissingJob", format!("Active job went missing: {name}")),
            };
            report(cx, self.object, ("Normal", reason, &message));
        }
    }

    /// The time whose Job has to start now. Sets the alarm for the next one.
    fn due(&self, cx: &mut Context<'_>) -> Option<(Schedule, Timestamp)> {
        let object = self.object;
        let (zone, expression) = (text(object, "spec.timeZone"), text(object, "spec.schedule"));
        if flag(object, "spec.suspend") {
            return None;
        }
        let Some(schedule) = Schedule::parse(expression, zone) else {
            let message = format!("unparseable schedule: {expression:?} in time zone {zone:?}");
            report_once(cx, object, ("Warning", "UnparseableSchedule", &message));
            return None;
        };
        let now = cx.seen.now;
        let last: Option<Timestamp> = text(object, "status.lastScheduleTime").parse().ok();
        let created: Option<Timestamp> = meta(object, "creationTimestamp").parse().ok();
        let since = last.or(created)?;
        let deadline = int(object, "spec.startingDeadlineSeconds").map(SignedDuration::from_secs);
        let oldest = deadline.map_or(since, |deadline| since.max(now - deadline));
        let Some(missed) = schedule.missed(oldest, now) else {
            let message = format!("invalid schedule: {expression} : it has no times");
            report_once(cx, object, ("Warning", "InvalidSchedule", &message));
            return None;
        };
        if let Some(next) = schedule.next(missed.last.unwrap_or(now)) {
            cx.wake_at("schedule", next + DELTA);
        }
        let at = missed.last.filter(|at| Some(*at) != last)?;
        if missed.count > MISSED_MAX {
            let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            report_once(cx, object, ("Warning", "TooManyMissedTimes", message));
        }
        if deadline.is_some_and(|deadline| at + deadline < now) {
            let shown = at.strftime("%a, %d %b %Y %H:%M:%S UTC");
            let message = format!("Missed scheduled time to start a job: {shown}");
            report_once(cx, object, ("Warning", "MissSchedule", &message));
            return None;
        }
        if text(object, "spec.concurrencyPolicy") == "Forbid" && !self.active.is_empty() {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            let state = at.to_string();
            if cx.alarms.is_new(cx.key, ("forbidden", &state), cx.seen.at) {
                report(cx, object, ("Normal", "JobAlreadyActive", message));
            }
            return None;
        }
        Some((schedule, at))
    }

    /// The writes that start a Job, after those that end the ones it replaces.
    fn start(
        &mut self,
        cx: &mut Context<'_>,
        (schedule, at): (Schedule, Timestamp),
    ) -> Option<(Vec<Action>, Option<Timestamp>)> {
        let object = self.object;
        let name = format!("{}-{}", meta(object, "name"), at.as_second() / 60);
        if self.jobs.iter().any(|(key, _)| key.name == name) {
            return Some((Vec::new(), Some(at)));
        }
        if text(object, "spec.concurrencyPolicy") == "Replace" {
            let replaced: Vec<(&Key, &Value)> = self
                .jobs
                .iter()
                .filter(|(_, job)| self.active.iter().any(|known| known["uid"] == uid(job)))
                .copied()
                .collect();
            self.delete(cx, &replaced);
        }
        let template = get(object, "spec.jobTemplate");
        let mut annotations = get(template, "metadata.annotations").clone();
        annotations[SCHEDULED] = json!(schedule.show(at));
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": name, "namespace": cx.key.namespace, "annotations": annotations,
                "labels": get(template, "metadata.labels"),
                "ownerReferences": controller_reference(object),
            },
            "spec": template["spec"],
        });
        let by = EventSource {
            component: COMPONENT,
            about: object,
        };
        let message = format!("Created job {name}");
        let actions = vec![
            cx.create(Kind::Job, job),
            cx.event(by, "Normal", "SuccessfulCreate", &message),
        ];
        Some((actions, Some(at)))
    }

    fn delete(&mut self, cx: &mut Context<'_>, jobs: &[(&Key, &Value)]) {
        let by = EventSource {
            component: COMPONENT,
            about: self.object,
        };
        for (key, job) in jobs {
            self.active.retain(|known| known["uid"] != uid(job));
            let message = format!("Deleted job {}", key.name);
            let actions = vec![
                cx.delete(key, job, Propagation::Background),
                cx.event(by, "Normal", "SuccessfulDelete", &message),
            ];
            cx.step(actions);
        }
    }

    fn limit_history(&mut self, cx: &mut Context<'_>) {
        for (kind, field, default) in [
            ("Complete", "spec.successfulJobsHistoryLimit", 3),
            ("Failed", "spec.failedJobsHistoryLimit", 1),
        ] {
            let of_kind = self
                .jobs
                .iter()
                .filter(|(_, job)| ended(job) == Some(kind) && !deleting(job));
            let mut jobs: Vec<(&Key, &Value)> = of_kind.copied().collect();
            jobs.sort_by_key(|(key, job)| (text(job, "status.startTime"), &key.name));
            let excess = jobs.len().saturating_sub(wanted(self.object, field, default));
            self.delete(cx, &jobs[..excess]);
        }
    }

    fn status(&self, started: Option<Timestamp>) -> Value {
        let object = self.object;
        let mut status = json!({});
        if !self.active.is_empty() {
            status["active"] = json!(self.active);
        }
        let last = get(object, "status.lastScheduleTime");
        let last = started.map_or_else(|| last.clone(), time);
        if !last.is_null() {
            status["lastScheduleTime"] = last;
        }
        let succeeded = self.jobs.iter().filter(|(_, job)| ended(job) == Some("Complete"));
        let times = succeeded.map(|(_, job)| text(job, "status.completionTime"));
        let known = std::iter::once(text(object, "status.lastSuccessfulTime"));
        if let Some(newest) = times.chain(known).max().filter(|time| !time.is_empty()) {
            status["lastSuccessfulTime"] = json!(newest);
        }
        status
    }
}

fn report(cx: &mut Context<'_>, object: &Value, (kind, reason, message): (&str, &str, &str)) {
    let by = EventSource {
        component: COMPONENT,
        about: object,
    };
    let event = cx.event(by, kind, reason, message);
    cx.step(vec![event]);
}

fn report_once(cx: &mut Context<'_>, object: &Value, (kind, reason, message): (&str, &str, &str)) {
    if cx.alarms.is_new(cx.key, ("reported", message), cx.seen.at) {
        report(cx, object, (kind, reason, message));
    }
}
