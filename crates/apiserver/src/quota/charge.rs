//! Admission by quotas: an object that fits is charged, another one is refused.

use super::{Amounts, Measure, Measured, add, amounts, pod, to_value};
use crate::builtin::tree::{get, text};
use jiff::Timestamp;
use serde_json::Value;

/// A quota with the use of one more object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Charge {
    pub quota: Value,
    pub revision: u64,
}

/// The quotas that a write changes, or the end of the message `pods "p" is forbidden: `.
///
/// `stored` is the object before an update.
pub(crate) fn charge<'a>(
    measured: &Measured,
    quotas: impl Iterator<Item = (&'a Value, u64)>,
    object: &Value,
    stored: Option<&Value>,
    now: Timestamp,
) -> Result<Vec<Charge>, String> {
    if stored.is_some_and(|stored| !is_handled(measured, object, stored, now)) {
        return Ok(Vec::new());
    }
    let mut charges = Vec::new();
    for (quota, revision) in quotas {
        let hard = amounts(get(quota, "status.hard"));
        let names: Vec<&String> = hard.keys().filter(|name| measured.tracks(name)).collect();
        if names.is_empty() || !measured.in_scope(quota, object) {
            continue;
        }
        let title = text(quota, "metadata.name");
        let used = amounts(get(quota, "status.used"));
        if measured.measure == Measure::Pods {
            check_stated(title, object, &names)?;
        }
        if names.iter().any(|name| !used.contains_key(*name)) {
            let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            return Err(format!(
                "status unknown for quota: {title}, resources: {}",
                names.join(",")
            ));
        }
        let mut asked = measured.usage(object, now);
        if let Some(stored) = stored.filter(|stored| measured.in_scope(quota, stored)) {
            subtract(&mut asked, &measured.usage(stored, now));
        }
        asked.retain(|name, amount| names.contains(&name) && amount.nanos() != 0);
        if asked.is_empty() {
            continue;
        }
        let mut total = used.clone();
        add(&mut total, &asked);
        let exceeded: Vec<&String> = asked.keys().filter(|name| total[*name] > hard[*name]).collect();
        if !exceeded.is_empty() {
            return Err(format!(
                "exceeded quota: {title}, requested: {}, used: {}, limited: {}",
                print(&asked, &exceeded),
                print(&used, &exceeded),
                print(&hard, &exceeded)
            ));
        }
        let mut charged = quota.clone();
        charged["status"]["used"] = to_value(&total);
        charges.push(Charge {
            quota: charged,
            revision,
        });
    }
    Ok(charges)
}

/// Updates count where they can change the use: the type of a Service, a claim's size, a pod's scope or resources.
fn is_handled(measured: &Measured, object: &Value, stored: &Value, now: Timestamp) -> bool {
    match measured.measure {
        Measure::Services | Measure::Claims => true,
        Measure::Pods => {
            let deadline = |pod: &Value| get(pod, "spec.activeDeadlineSeconds").is_i64();
            deadline(object) != deadline(stored) || measured.usage(object, now) != measured.usage(stored, now)
        }
        Measure::Count => false,
    }
}

fn check_stated(quota: &str, pod: &Value, names: &[&String]) -> Result<(), String> {
    let missing = pod::unset(pod, names);
    if missing.is_empty() {
        return Ok(());
    }
    let each: Vec<String> = missing
        .iter()
        .map(|(name, containers)| format!("{name} for: {}", containers.join(",")))
        .collect();
    Err(format!("failed quota: {quota}: must specify {}", each.join("; ")))
}

/// Never below zero.
fn subtract(from: &mut Amounts, less: &Amounts) {
    for (name, amount) in from {
        if let Some(less) = less.get(name) {
            *amount = amount.minus_at_least_zero(less);
        }
    }
}

fn print(amounts: &Amounts, names: &[&String]) -> String {
    let parts: Vec<String> = names
        .iter()
        .filter_map(|name| Some(format!("{name}={}", amounts.get(*name)?)))
        .collect();
    parts.join(",")
}
