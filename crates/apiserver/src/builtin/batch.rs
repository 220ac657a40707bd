//! Job and CronJob.

use super::SPEC_AND_STATUS;
use super::apps::{name_warning, non_negative};
use super::cron;
use super::meta::immutable;
use super::names;
use super::pod::{default_entry, default_template};
use super::pod_checks;
use super::selector;
use super::tree::{default, each, entries, flag, get, has, int, restore, set, text};
use crate::field::FieldError;
use crate::registry::{Generation, Strategy};
use serde_json::{Value, json};

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
/// A CronJob appends a dash and ten digits to the names of its Jobs.
const CRON_JOB_NAME_MAX: usize = 52;

pub(super) static JOB: Strategy = Strategy {
    generation: Generation::Spec,
    default: default_job,
    prepare_create: |job| {
        // upstream shares one map between the two
        let shared = get(job, "metadata.labels") == get(job, "spec.template.metadata.labels");
        generate_selector(job);
        if shared && has(job, "spec.template.metadata.labels") {
            let labels = get(job, "spec.template.metadata.labels").clone();
            set(job, "metadata.labels", labels);
        }
        set(job, "status", json!({}));
        // upstream applies the defaults again on reading, after these labels were added
        default_job(job);
    },
    validate: validate_job,
    validate_update: validate_job_update,
    warnings: |job| {
        let mut out = name_warning(job, "used in Pod names and hostnames");
        out.extend(pod_checks::pod_warnings(job, "spec.template.spec"));
        out
    },
    selectable: &["status.successful"],
    ..SPEC_AND_STATUS
};

pub(super) static CRON_JOB: Strategy = Strategy {
    generation: Generation::Spec,
    default: default_cron_job,
    prepare_create: |object| set(object, "status", json!({})),
    validate: validate_cron_job,
    validate_create: |object| {
        let mut out = Vec::new();
        out.extend(time_zone(object));
        let name = text(object, "metadata.name");
        if name.len() > CRON_JOB_NAME_MAX {
            out.push(FieldError::invalid(
                "metadata.name",
                &name.into(),
                "must be no more than 52 characters",
            ));
        }
        out
    },
    validate_update: |new, stored| {
        if get(new, "spec.timeZone") == get(stored, "spec.timeZone") {
            return Vec::new();
        }
        time_zone(new).into_iter().collect()
    },
    warnings: |object| {
        let mut out = name_warning(object, "used in Pod names and hostnames");
        out.extend(pod_checks::pod_warnings(
            object,
            "spec.jobTemplate.spec.template.spec",
        ));
        out
    },
    ..SPEC_AND_STATUS
};

fn default_job(job: &mut Value) {
    default_template(job, "spec.template");
    if !has(job, "spec.parallelism") && !has(job, "spec.completions") {
        set(job, "spec.completions", 1);
    }
    default(job, "spec.parallelism", 1);
    let unlimited = has(job, "spec.backoffLimitPerIndex");
    default(job, "spec.backoffLimit", if unlimited { i32::MAX } else { 6 });
    let labels = get(job, "spec.template.metadata.labels").clone();
    if !labels.is_null() && entries(job, "metadata.labels").next().is_none() {
        set(job, "metadata.labels", labels);
    }
    default(job, "spec.completionMode", "NonIndexed");
    default(job, "spec.suspend", false);
    default_failure_policy(job, "spec");
    let replacement = if has(job, "spec.podFailurePolicy") {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    default(job, "spec.podReplacementPolicy", replacement);
    default(job, "spec.manualSelector", false);
}

fn default_failure_policy(job: &mut Value, spec: &str) {
    each(job, &format!("{spec}.podFailurePolicy.rules"), |rule| {
        each(rule, "onPodConditions", |pattern| {
            default(pattern, "status", "True");
        });
    });
}

fn default_cron_job(object: &mut Value) {
    default(object, "spec.concurrencyPolicy", "Allow");
    default(object, "spec.suspend", false);
    default(object, "spec.successfulJobsHistoryLimit", 3);
    default(object, "spec.failedJobsHistoryLimit", 1);
    default_template(object, "spec.jobTemplate.spec.template");
    default_failure_policy(object, "spec.jobTemplate.spec");
}

/// Pods of a Job are found by its uid, under the old and the new label names.
fn generate_selector(job: &mut Value) {
    if flag(job, "spec.manualSelector") {
        return;
    }
    let (name, uid) = (
        get(job, "metadata.name").clone(),
        get(job, "metadata.uid").clone(),
    );
    for (label, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        (CONTROLLER_UID, &uid),
    ] {
        default_entry(job, "spec.template.metadata.labels", label, value.clone());
    }
    default_entry(job, "spec.selector.matchLabels", CONTROLLER_UID, uid);
}

fn validate_job_spec(object: &Value, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = get(object, path);
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        out.extend(non_negative(object, &format!("{path}.{field}")));
    }
    if has(spec, "maxFailedIndexes") && !has(spec, "backoffLimitPerIndex") {
        out.push(FieldError::required(
            format!("{path}.backoffLimitPerIndex"),
            "when maxFailedIndexes is specified",
        ));
    }
    let mode = get(spec, "completionMode");
    match mode.as_str() {
        Some("Indexed") => {
            if !has(spec, "completions") {
                out.push(FieldError::required(
                    format!("{path}.completions"),
                    "when completion mode is Indexed",
                ));
            }
            if let Some(parallelism) = int(spec, "parallelism").filter(|n| *n > 100_000) {
                out.push(FieldError::invalid(
                    format!("{path}.parallelism"),
                    &parallelism.into(),
                    "must be less than or equal to 100000 when completion mode is Indexed",
                ));
            }
        }
        Some("NonIndexed") | None => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"] {
                if has(spec, field) {
                    out.push(FieldError::invalid(
                        format!("{path}.{field}"),
                        get(spec, field),
                        "requires indexed completion mode",
                    ));
                }
            }
        }
        Some(_) => out.push(FieldError::not_supported(
            format!("{path}.completionMode"),
            mode,
            &["NonIndexed", "Indexed"],
        )),
    }
    const REPLACEMENTS: &[&str] = &["Failed", "TerminatingOrFailed"];
    let replacement = get(spec, "podReplacementPolicy");
    if replacement.as_str().is_some_and(|p| !REPLACEMENTS.contains(&p)) {
        out.push(FieldError::not_supported(
            format!("{path}.podReplacementPolicy"),
            replacement,
            REPLACEMENTS,
        ));
    }
    let template = get(spec, "template");
    out.extend(pod_checks::validate_template(
        template,
        &format!("{path}.template"),
    ));
    let field = format!("{path}.template.spec.restartPolicy");
    let policy = get(template, "spec.restartPolicy");
    match policy.as_str() {
        Some("Always" | "") | None => {
            out.push(FieldError::required(
                field,
                "valid values: \"OnFailure\", \"Never\"",
            ));
        }
        Some("OnFailure") if has(spec, "podFailurePolicy") => out.push(FieldError::invalid(
            field,
            policy,
            "only \"Never\" is supported when podFailurePolicy is specified",
        )),
        Some("OnFailure" | "Never") => {}
        Some(_) => out.push(FieldError::not_supported(field, policy, &["OnFailure", "Never"])),
    }
    out
}

fn validate_job(job: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = get(job, "spec");
    let labels = get(spec, "template.metadata.labels");
    if !flag(spec, "manualSelector") {
        let (name, uid) = (text(job, "metadata.name"), text(job, "metadata.uid"));
        for (label, expected) in [
            (CONTROLLER_UID, uid),
            ("controller-uid", uid),
            ("batch.kubernetes.io/job-name", name),
            ("job-name", name),
        ] {
            let path = format!("spec.template.metadata.labels[{label}]");
            match labels.get(label) {
                None => out.push(FieldError::required(path, format!("must be '{expected}'"))),
                Some(actual) if actual != expected => {
                    out.push(FieldError::invalid(path, labels, format!("must be '{expected}'")));
                }
                Some(_) => {}
            }
        }
        let own = json!({"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name,
            "controller-uid": uid, "job-name": name});
        if !selector::matches(get(spec, "selector"), &own) {
            out.push(FieldError::invalid(
                "spec.selector",
                get(spec, "selector"),
                "`selector` not auto-generated",
            ));
        }
    }
    out.extend(validate_job_spec(job, "spec"));
    let value = get(spec, "selector");
    if value.is_null() {
        out.push(FieldError::required("spec.selector", ""));
    }
    out.extend(selector::validate(value, "spec.selector"));
    if selector::is_legible(value) && !selector::matches(value, labels) {
        out.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
    if text(spec, "completionMode") == "Indexed"
        && let Some(completions) = int(spec, "completions").filter(|n| *n > 0)
    {
        let name = text(job, "metadata.name");
        let host = format!("{name}-{}", completions - 1);
        if !names::dns_label(&host).is_empty() {
            out.push(FieldError::invalid(
                "metadata.name",
                &name.into(),
                format!("will not able to create pod with invalid DNS label: {host}"),
            ));
        }
    }
    out
}

fn validate_job_update(new: &Value, stored: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    if text(new, "spec.completionMode") != "Indexed" {
        out.extend(immutable(new, stored, "spec.completions"));
    } else if get(new, "spec.completions") != get(stored, "spec.completions")
        && get(new, "spec.completions") != get(new, "spec.parallelism")
    {
        out.push(FieldError::invalid(
            "spec.completions",
            get(new, "spec.completions"),
            "can only be modified in tandem with spec.parallelism",
        ));
    }
    out.extend(immutable(new, stored, "spec.selector"));
    let mut masked = new.clone();
    // a suspended Job that never started may still change its scheduling
    if flag(stored, "spec.suspend") && !has(stored, "status.startTime") {
        for field in [
            "metadata.labels",
            "metadata.annotations",
            "spec.nodeSelector",
            "spec.tolerations",
            "spec.affinity.nodeAffinity",
            "spec.schedulingGates",
        ] {
            restore(&mut masked, stored, &format!("spec.template.{field}"));
        }
    }
    if get(&masked, "spec.template") != get(stored, "spec.template") {
        out.push(FieldError::invalid(
            "spec.template",
            get(new, "spec.template"),
            "field is immutable",
        ));
    }
    for field in [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        out.extend(immutable(new, stored, &format!("spec.{field}")));
    }
    out
}

fn validate_cron_job(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let schedule = text(object, "spec.schedule");
    if schedule.is_empty() {
        out.push(FieldError::required("spec.schedule", ""));
    } else {
        if let Err(why) = cron::check(schedule) {
            out.push(FieldError::invalid("spec.schedule", &schedule.into(), why));
        }
        if schedule.contains("TZ") {
            out.push(FieldError::invalid(
                "spec.schedule",
                &schedule.into(),
                "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            ));
        }
    }
    out.extend(non_negative(object, "spec.startingDeadlineSeconds"));
    let policy = get(object, "spec.concurrencyPolicy");
    if !matches!(policy.as_str(), Some("Allow" | "Forbid" | "Replace")) {
        out.push(FieldError::not_supported(
            "spec.concurrencyPolicy",
            policy,
            &["Allow", "Forbid", "Replace"],
        ));
    }
    let job = "spec.jobTemplate.spec";
    out.extend(validate_job_spec(object, job));
    if has(object, &format!("{job}.selector")) {
        out.push(FieldError::invalid(
            format!("{job}.selector"),
            get(object, &format!("{job}.selector")),
            "`selector` will be auto-generated",
        ));
    }
    if flag(object, &format!("{job}.manualSelector")) {
        out.push(FieldError::not_supported(
            format!("{job}.manualSelector"),
            &true.into(),
            &["nil", "false"],
        ));
    }
    out.extend(non_negative(object, "spec.successfulJobsHistoryLimit"));
    out.extend(non_negative(object, "spec.failedJobsHistoryLimit"));
    out
}

fn time_zone(object: &Value) -> Option<FieldError> {
    let zone = get(object, "spec.timeZone");
    let name = zone.as_str()?;
    let invalid = |why: String| Some(FieldError::invalid("spec.timeZone", zone, why));
    if name.is_empty() {
        return invalid("timeZone must be nil or non-empty string".to_owned());
    }
    let legible = |part: &str| {
        part != "." && part != ".." && !part.starts_with('-') && {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '+' | '-');
            !part.is_empty() && part.chars().all(allowed)
        }
    };
    if !name.split('/').all(legible) {
        return invalid(format!("unknown time zone {name}"));
    }
    if name.eq_ignore_ascii_case("local") {
        return invalid(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned(),
        );
    }
    if name != "UTC" && jiff::tz::TimeZone::get(name).is_err() {
        return invalid(format!("unknown time zone {name}"));
    }
    None
}
