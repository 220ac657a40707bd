//! Deployment, ReplicaSet, StatefulSet, DaemonSet, ControllerRevision, ReplicationController.

use super::meta::{self, immutable, validate_labels};
use super::pod::default_template;
use super::tree::{annotation, default, each, entries, get, has, int, items, restore, set, text};
use super::{SPEC_AND_STATUS, container_checks, names, pod_checks, selector, storage};
use crate::field::{FieldError, FieldErrorKind, go_struct};
use crate::registry::{Generation, NameRule, Strategy};
use serde_json::{Value, json};

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) static DEPLOYMENT: Strategy = Strategy {
    generation: Generation::SpecAndAnnotations,
    status_keeps: &[&["spec"], &["metadata", "labels"]],
    status_reset_fields: &[&["spec"], &["metadata", "labels"]],
    default: default_deployment,
    prepare_create: |object| set(object, "status", json!({})),
    validate: validate_deployment,
    validate_update: |new, stored| immutable(new, stored, "spec.selector").into_iter().collect(),
    warnings: |object| {
        let mut out = name_warning(object, "used in Pod names and hostnames");
        out.extend(pod_checks::pod_warnings(object, "spec.template.spec"));
        out
    },
    ..SPEC_AND_STATUS
};

pub(super) static REPLICA_SET: Strategy = Strategy {
    generation: Generation::Spec,
    default: |object| {
        default_template(object, "spec.template");
        default(object, "spec.replicas", 1);
    },
    prepare_create: |object| set(object, "status", json!({"replicas": 0})),
    validate: validate_replica_set,
    validate_update: |new, stored| immutable(new, stored, "spec.selector").into_iter().collect(),
    warnings: |object| pod_checks::pod_warnings(object, "spec.template.spec"),
    selectable: &["status.replicas"],
    ..SPEC_AND_STATUS
};

pub(super) static STATEFUL_SET: Strategy = Strategy {
    generation: Generation::Spec,
    name: NameRule::DnsLabel,
    default: default_stateful_set,
    prepare_create: |object| set(object, "status", json!({"replicas": 0, "availableReplicas": 0})),
    validate: validate_stateful_set,
    validate_create: validate_new_stateful_set,
    validate_update: |new, stored| {
        const MAY_CHANGE: &[&str] = &[
            "replicas",
            "template",
            "updateStrategy",
            "minReadySeconds",
            "ordinals",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
        ];
        let mut same = new.clone();
        for field in MAY_CHANGE {
            restore(&mut same, stored, &format!("spec.{field}"));
        }
        if get(&same, "spec") == get(stored, "spec") {
            return Vec::new();
        }
        vec![FieldError::forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        )]
    },
    warnings: |object| {
        let mut out = pod_checks::pod_warnings(object, "spec.template.spec");
        if int(object, "spec.revisionHistoryLimit").is_some_and(|n| n < 0) {
            out.push("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".to_owned());
        }
        out
    },
    ..SPEC_AND_STATUS
};

pub(super) static DAEMON_SET: Strategy = Strategy {
    generation: Generation::Spec,
    default: default_daemon_set,
    prepare_create: |object| {
        set(
            object,
            "status",
            json!({"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}),
        );
        let generation = template_generation(object).filter(|n| *n >= 1).unwrap_or(1);
        set_template_generation(object, generation);
    },
    prepare_update: |object, stored| {
        let before = template_generation(stored).unwrap_or(0);
        let changed = get(object, "spec.template") != get(stored, "spec.template");
        set_template_generation(object, if changed { before + 1 } else { before });
    },
    validate: validate_daemon_set,
    validate_update: |new, stored| immutable(new, stored, "spec.selector").into_iter().collect(),
    warnings: |object| pod_checks::pod_warnings(object, "spec.template.spec"),
    ..SPEC_AND_STATUS
};

pub(super) static CONTROLLER_REVISION: Strategy = Strategy {
    validate: |object| {
        let mut out = Vec::new();
        if get(object, "data").is_null() {
            out.push(FieldError::required("data", "data is mandatory"));
        }
        out.extend(non_negative(object, "revision"));
        out
    },
    validate_update: |new, stored| immutable(new, stored, "data").into_iter().collect(),
    ..Strategy::GENERIC
};

pub(super) static REPLICATION_CONTROLLER: Strategy = Strategy {
    generation: Generation::Spec,
    default: default_replication_controller,
    prepare_create: |object| set(object, "status", json!({"replicas": 0})),
    validate: validate_replication_controller,
    warnings: |object| pod_checks::pod_warnings(object, "spec.template.spec"),
    ..SPEC_AND_STATUS
};

fn default_deployment(object: &mut Value) {
    default_template(object, "spec.template");
    default(object, "spec.replicas", 1);
    default(object, "spec.strategy.type", "RollingUpdate");
    if text(object, "spec.strategy.type") == "RollingUpdate" {
        default(object, "spec.strategy.rollingUpdate.maxUnavailable", "25%");
        default(object, "spec.strategy.rollingUpdate.maxSurge", "25%");
    }
    default(object, "spec.revisionHistoryLimit", 10);
    default(object, "spec.progressDeadlineSeconds", 600);
}

fn default_stateful_set(object: &mut Value) {
    default_template(object, "spec.template");
    default(object, "spec.podManagementPolicy", "OrderedReady");
    if text(object, "spec.updateStrategy.type").is_empty() {
        set(object, "spec.updateStrategy.type", "RollingUpdate");
        default(object, "spec.updateStrategy.rollingUpdate", json!({}));
    }
    if text(object, "spec.updateStrategy.type") == "RollingUpdate"
        && has(object, "spec.updateStrategy.rollingUpdate")
    {
        default(object, "spec.updateStrategy.rollingUpdate.partition", 0);
    }
    default(
        object,
        "spec.persistentVolumeClaimRetentionPolicy.whenDeleted",
        "Retain",
    );
    default(
        object,
        "spec.persistentVolumeClaimRetentionPolicy.whenScaled",
        "Retain",
    );
    default(object, "spec.replicas", 1);
    default(object, "spec.revisionHistoryLimit", 10);
    each(object, "spec.volumeClaimTemplates", |claim| {
        // claim templates are whole objects upstream, with kind and an initial status
        default(claim, "kind", "PersistentVolumeClaim");
        default(claim, "apiVersion", "v1");
        storage::default_claim(claim);
    });
}

fn default_daemon_set(object: &mut Value) {
    default_template(object, "spec.template");
    default(object, "spec.updateStrategy.type", "RollingUpdate");
    if text(object, "spec.updateStrategy.type") == "RollingUpdate" {
        default(object, "spec.updateStrategy.rollingUpdate.maxUnavailable", 1);
        default(object, "spec.updateStrategy.rollingUpdate.maxSurge", 0);
    }
    default(object, "spec.revisionHistoryLimit", 10);
    // Upstream's conversion always writes the counter, so its first writer owns it.
    if template_generation(object).is_none() {
        set_template_generation(object, 0);
    }
}

fn default_replication_controller(object: &mut Value) {
    default_template(object, "spec.template");
    let labels = get(object, "spec.template.metadata.labels").clone();
    if !labels.is_null() {
        for path in ["spec.selector", "metadata.labels"] {
            if entries(object, path).next().is_none() {
                set(object, path, labels.clone());
            }
        }
    }
    default(object, "spec.replicas", 1);
}

fn template_generation(object: &Value) -> Option<i64> {
    annotation(object, TEMPLATE_GENERATION)?.parse().ok()
}

fn set_template_generation(object: &mut Value, generation: i64) {
    default(object, "metadata.annotations", json!({}));
    if let Some(annotations) = super::tree::at(object, "metadata.annotations").and_then(Value::as_object_mut)
    {
        annotations.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
    }
}

pub(super) fn name_warning(object: &Value, what: &str) -> Vec<String> {
    let problems = names::dns_label(text(object, "metadata.name"));
    if problems.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is {what}, which can result in surprising behavior; a DNS label is recommended: [{}]",
        problems.join(" ")
    )]
}

pub(super) fn non_negative(object: &Value, path: &str) -> Option<FieldError> {
    int(object, path)
        .filter(|n| *n < 0)
        .map(|n| FieldError::invalid(path, &n.into(), "must be greater than or equal to 0"))
}

fn validate_deployment(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    out.extend(non_negative(object, "spec.replicas"));
    out.extend(selector_of(object, "deployment"));
    out.extend(template_for_selector(object, true));
    let strategy = get(object, "spec.strategy");
    match text(strategy, "type") {
        "Recreate" => {
            if has(strategy, "rollingUpdate") {
                out.push(FieldError::forbidden(
                    "spec.strategy.rollingUpdate",
                    "may not be specified when strategy `type` is 'Recreate'",
                ));
            }
        }
        "RollingUpdate" => {
            let path = "spec.strategy.rollingUpdate";
            if has(strategy, "rollingUpdate") {
                out.extend(rolling_update(get(strategy, "rollingUpdate"), path));
            } else {
                out.push(FieldError::required(
                    path,
                    "this should be defaulted and never be nil",
                ));
            }
        }
        _ => out.push(unknown_strategy(
            "spec.strategy",
            strategy,
            &["Recreate", "RollingUpdate"],
        )),
    }
    out.extend(non_negative(object, "spec.minReadySeconds"));
    out.extend(non_negative(object, "spec.revisionHistoryLimit"));
    out.extend(non_negative(object, "spec.progressDeadlineSeconds"));
    if let Some(deadline) = int(object, "spec.progressDeadlineSeconds")
        && deadline <= int(object, "spec.minReadySeconds").unwrap_or(0)
    {
        out.push(FieldError::invalid(
            "spec.progressDeadlineSeconds",
            &deadline.into(),
            "must be greater than minReadySeconds",
        ));
    }
    out
}

fn rolling_update(update: &Value, path: &str) -> Vec<FieldError> {
    let (unavailable, surge) = (get(update, "maxUnavailable"), get(update, "maxSurge"));
    let mut out = Vec::new();
    out.extend(container_checks::int_or_percent(
        unavailable,
        &format!("{path}.maxUnavailable"),
    ));
    out.extend(container_checks::int_or_percent(
        surge,
        &format!("{path}.maxSurge"),
    ));
    if percent_or_int(unavailable) == 0 && percent_or_int(surge) == 0 {
        out.push(FieldError::invalid(
            format!("{path}.maxUnavailable"),
            unavailable,
            "may not be 0 when `maxSurge` is 0",
        ));
    }
    out.extend(container_checks::at_most_all(
        unavailable,
        &format!("{path}.maxUnavailable"),
    ));
    out
}

const STRATEGY: &[(&str, &str)] = &[("Type", "type"), ("RollingUpdate", "rollingUpdate")];

fn unknown_strategy(path: &str, strategy: &Value, known: &[&str]) -> FieldError {
    let mut error = FieldError::not_supported(path, strategy, known);
    error.value = Some(go_struct(strategy, STRATEGY));
    error
}

fn percent_or_int(value: &Value) -> i64 {
    match value {
        Value::String(s) => s.strip_suffix('%').and_then(|n| n.parse().ok()).unwrap_or(0),
        other => other.as_i64().unwrap_or(0),
    }
}

fn selector_of(object: &Value, workload: &str) -> Vec<FieldError> {
    let value = get(object, "spec.selector");
    if value.is_null() {
        return vec![FieldError::required("spec.selector", "")];
    }
    let mut out = selector::validate(value, "spec.selector");
    if selector::is_empty(value) {
        out.push(FieldError::invalid(
            "spec.selector",
            value,
            format!("empty selector is invalid for {workload}"),
        ));
    }
    out
}

fn template_for_selector(object: &Value, check_deadline: bool) -> Vec<FieldError> {
    let (value, template) = (get(object, "spec.selector"), get(object, "spec.template"));
    if !selector::is_legible(value) {
        return vec![FieldError::invalid(
            "spec.selector",
            value,
            "invalid label selector",
        )];
    }
    let mut out: Vec<FieldError> = labels_match(value, template).into_iter().collect();
    out.extend(pod_checks::validate_template(template, "spec.template"));
    out.extend(always_restarts(template));
    if check_deadline && has(template, "spec.activeDeadlineSeconds") {
        out.push(FieldError::forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            "activeDeadlineSeconds in ReplicaSet is not Supported",
        ));
    }
    out
}

/// A nil selector matches nothing; an empty one is not checked.
fn labels_match(value: &Value, template: &Value) -> Option<FieldError> {
    let labels = get(template, "metadata.labels");
    let asked = value.is_null() || !selector::is_empty(value);
    (asked && !selector::matches(value, labels)).then(|| {
        FieldError::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        )
    })
}

fn always_restarts(template: &Value) -> Option<FieldError> {
    let policy = text(template, "spec.restartPolicy");
    (policy != "Always")
        .then(|| FieldError::not_supported("spec.template.spec.restartPolicy", &policy.into(), &["Always"]))
}

fn validate_replica_set(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    out.extend(non_negative(object, "spec.replicas"));
    out.extend(non_negative(object, "spec.minReadySeconds"));
    out.extend(selector_of(object, "deployment"));
    out.extend(template_for_selector(object, true));
    out
}

fn validate_stateful_set(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = get(object, "spec");
    let management = text(spec, "podManagementPolicy");
    if !matches!(management, "OrderedReady" | "Parallel") {
        out.push(FieldError::invalid(
            "spec.podManagementPolicy",
            &management.into(),
            "must be 'OrderedReady' or 'Parallel'",
        ));
    }
    let strategy = get(spec, "updateStrategy");
    let rolling = get(strategy, "rollingUpdate");
    match text(strategy, "type") {
        "OnDelete" if !rolling.is_null() => out.push(FieldError::with_value(
            FieldErrorKind::Invalid,
            "spec.updateStrategy.rollingUpdate",
            Some(go_struct(
                rolling,
                &[("Partition", "partition"), ("MaxUnavailable", "maxUnavailable")],
            )),
            "only allowed for updateStrategy 'RollingUpdate'",
        )),
        "OnDelete" => {}
        "RollingUpdate" => {
            out.extend(non_negative(
                object,
                "spec.updateStrategy.rollingUpdate.partition",
            ));
        }
        _ => out.push(FieldError::with_value(
            FieldErrorKind::Invalid,
            "spec.updateStrategy",
            Some(go_struct(strategy, STRATEGY)),
            "must be 'RollingUpdate' or 'OnDelete'",
        )),
    }
    for field in ["whenDeleted", "whenScaled"] {
        let policy = text(spec, &format!("persistentVolumeClaimRetentionPolicy.{field}"));
        if !matches!(policy, "Retain" | "Delete") {
            out.push(FieldError::not_supported(
                format!("spec.persistentVolumeClaimRetentionPolicy.{field}"),
                &policy.into(),
                &["Retain", "Delete"],
            ));
        }
    }
    out.extend(non_negative(object, "spec.replicas"));
    out.extend(non_negative(object, "spec.minReadySeconds"));
    out.extend(non_negative(object, "spec.ordinals.start"));
    out.extend(selector_of(object, "statefulset"));
    let selector_value = get(spec, "selector");
    if selector::is_legible(selector_value) {
        // claims become volumes of the same name, which the template may mount
        let mut template = get(spec, "template").clone();
        let claims: Vec<Value> = items(spec, "volumeClaimTemplates")
            .iter()
            .map(|claim| {
                let name = text(claim, "metadata.name");
                json!({"name": name, "persistentVolumeClaim": {"claimName": name}})
            })
            .collect();
        if !claims.is_empty() {
            let named = |v: &&Value| !claims.iter().any(|c| get(c, "name") == get(v, "name"));
            let rest: Vec<Value> = items(&template, "spec.volumes")
                .iter()
                .filter(named)
                .cloned()
                .collect();
            set(
                &mut template,
                "spec.volumes",
                Value::Array([claims.clone(), rest].concat()),
            );
        }
        for field in ["spec.subdomain", "spec.hostname"] {
            super::tree::remove(&mut template, field);
        }
        out.extend(labels_match(selector_value, &template));
        out.extend(pod_checks::validate_template(&template, "spec.template"));
        out.extend(validate_labels(
            get(&template, "metadata.labels"),
            "spec.template.labels",
        ));
        out.extend(meta::validate_annotations(
            get(&template, "metadata.annotations"),
            "spec.template.annotations",
        ));
    } else {
        out.push(FieldError::invalid("spec.selector", selector_value, ""));
    }
    out.extend(always_restarts(get(spec, "template")));
    if has(spec, "template.spec.activeDeadlineSeconds") {
        out.push(FieldError::forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            "activeDeadlineSeconds in StatefulSet is not Supported",
        ));
    }
    out
}

fn validate_new_stateful_set(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    for (i, claim) in items(object, "spec.volumeClaimTemplates").iter().enumerate() {
        out.extend(storage::validate_claim_spec(
            get(claim, "spec"),
            &format!("spec.volumeClaimTemplates[{i}].spec"),
        ));
    }
    let service = text(object, "spec.serviceName");
    if !service.is_empty() {
        for message in names::dns_label(service) {
            out.push(FieldError::invalid("spec.serviceName", &service.into(), message));
        }
    }
    out
}

fn validate_daemon_set(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = get(object, "spec");
    let (value, template) = (get(spec, "selector"), get(spec, "template"));
    out.extend(selector::validate(value, "spec.selector"));
    let labels = get(template, "metadata.labels");
    if selector::is_legible(value) && !selector::matches(value, labels) {
        out.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
    if !value.is_null() && selector::is_empty(value) {
        out.push(FieldError::invalid(
            "spec.selector",
            value,
            "empty selector is invalid for daemonset",
        ));
    }
    out.extend(pod_checks::validate_template(template, "spec.template"));
    out.extend(always_restarts(template));
    if has(template, "spec.activeDeadlineSeconds") {
        out.push(FieldError::forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            "activeDeadlineSeconds in DaemonSet is not Supported",
        ));
    }
    out.extend(non_negative(object, "spec.minReadySeconds"));
    let strategy = get(spec, "updateStrategy");
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let path = "spec.updateStrategy.rollingUpdate";
            let (unavailable, surge) = (
                get(strategy, "rollingUpdate.maxUnavailable"),
                get(strategy, "rollingUpdate.maxSurge"),
            );
            out.extend(container_checks::int_or_percent(
                unavailable,
                &format!("{path}.maxUnavailable"),
            ));
            out.extend(container_checks::int_or_percent(
                surge,
                &format!("{path}.maxSurge"),
            ));
            out.extend(container_checks::at_most_all(
                unavailable,
                &format!("{path}.maxUnavailable"),
            ));
            out.extend(container_checks::at_most_all(surge, &format!("{path}.maxSurge")));
            let (has_unavailable, has_surge) = (percent_or_int(unavailable) != 0, percent_or_int(surge) != 0);
            if has_unavailable && has_surge {
                out.push(FieldError::invalid(
                    format!("{path}.maxSurge"),
                    surge,
                    "may not be set when maxUnavailable is non-zero",
                ));
            } else if !has_unavailable && !has_surge {
                out.push(FieldError::required(
                    format!("{path}.maxUnavailable"),
                    "cannot be 0 when maxSurge is 0",
                ));
            }
        }
        _ => out.push(unknown_strategy(
            "spec.updateStrategy",
            strategy,
            &["RollingUpdate", "OnDelete"],
        )),
    }
    out.extend(non_negative(object, "spec.revisionHistoryLimit"));
    out
}

fn validate_replication_controller(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    out.extend(non_negative(object, "spec.minReadySeconds"));
    let (value, template) = (get(object, "spec.selector"), get(object, "spec.template"));
    if entries(value, "").next().is_none() {
        out.push(FieldError::required("spec.selector", ""));
    }
    out.extend(non_negative(object, "spec.replicas"));
    if template.is_null() {
        out.push(FieldError::required("spec.template", ""));
        return out;
    }
    let labels = get(template, "metadata.labels");
    if entries(value, "").any(|(k, v)| labels.get(k) != Some(v)) {
        out.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
    out.extend(pod_checks::validate_template(template, "spec.template"));
    out.extend(always_restarts(template));
    if has(template, "spec.activeDeadlineSeconds") {
        out.push(FieldError::forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            "activeDeadlineSeconds in ReplicationController is not Supported",
        ));
    }
    out
}
