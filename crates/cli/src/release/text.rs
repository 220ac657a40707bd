//! Output: steps, changes, refusals, and their data.

use super::Output;
use crate::failure::StdoutError;
use equate_release::config::parse_duration;
use equate_release::hold::Hold;
use equate_release::plan::{Plan, Step};
use equate_release::record::{Intent, versions};
use equate_release::rules::Verdict;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::io::Write;

/// Prints a value as JSON or YAML.
pub(crate) fn print_data(output: Output, value: &Value) -> Result<(), StdoutError> {
    let text = match output {
        Output::Yaml => equate_manifest::yaml::to_string(value),
        // a value always serializes
        Output::Json | Output::Text | Output::Wide => {
            let text = serde_json::to_string_pretty(value).unwrap_or_default();
            format!("{text}\n")
        }
    };
    print(&text)
}

pub(crate) fn print(text: &str) -> Result<(), StdoutError> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(StdoutError::from)
}

/// A text of the repository without line breaks and what else would steer the terminal.
pub(crate) fn shown(text: &str) -> String {
    let harmless = |c: char| match c {
        '\n' | '\t' => Some(' '),
        c if c.is_control() => None,
        c => Some(c),
    };
    text.chars().filter_map(harmless).collect()
}

/// The first line of a commit's message.
pub(crate) fn subject(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    line.trim_end().to_owned()
}

/// The lines of a step.
pub(crate) fn step(step: &Step) -> String {
    let (before, after) = step.labels();
    let from = match &step.from {
        Some(from) => format!(", from {from}"),
        None => String::new(),
    };
    let (service, environment) = (&step.service, &step.environment);
    if step.is_done() {
        let line = shown(&format!("{service} {after} is in {environment} already"));
        return format!("{line}\n");
    }
    let line = shown(&format!("{service} {before} -> {after} in {environment}{from}"));
    let mut text = format!("{line}\n");
    for change in &step.changes {
        let (path, line, key) = (&change.path, change.line, &change.key);
        let value = match change.old.as_str() {
            "" => change.new.clone(),
            old => format!("{old} -> {}", change.new),
        };
        let change = shown(&format!("{path}:{line}  {key}: {value}"));
        text.push_str(&format!("  {change}\n"));
    }
    if let Some(remark) = &step.remark {
        text.push_str(&format!("{remark}\n"));
    }
    text
}

/// The lines of a step that removes a service.
pub(crate) fn removal(step: &Step) -> String {
    let before = step.before.label(&step.service);
    let (service, environment) = (&step.service, &step.environment);
    let mut text = format!("{}\n", shown(&format!("{service} {before} leaves {environment}")));
    for change in &step.changes {
        let line = match change.old.as_str() {
            "" => format!("{}  {}", change.path, change.new),
            old => format!(
                "{}:{}  {}: {old} {}",
                change.path, change.line, change.key, change.new
            ),
        };
        text.push_str(&format!("  {}\n", shown(&line)));
    }
    text
}

/// `error: checkout 2.4.1 may not go to prod-eu yet`, and the rules that refuse it.
pub(crate) fn refusal(plan: &Plan, now: Timestamp) -> String {
    let mut text = String::new();
    for step in &plan.steps {
        let refusals: Vec<&Verdict> = step.refusals().collect();
        if refusals.is_empty() {
            continue;
        }
        let verb = match plan.record.intent {
            Intent::Rollback => "go back in",
            Intent::Undeploy => "leave",
            _ => "go to",
        };
        let after = match plan.record.intent {
            Intent::Undeploy => step.labels().0,
            _ => step.labels().1,
        };
        let (service, environment) = (&step.service, &step.environment);
        let yet = if refusals.iter().all(|verdict| verdict.until.is_some()) {
            " yet"
        } else {
            ""
        };
        let line = shown(&format!("{service} {after} may not {verb} {environment}{yet}"));
        text.push_str(&format!("error: {line}\n"));
        for verdict in refusals {
            text.push_str(&format!("  refused    {}\n", reason(verdict, now)));
        }
    }
    text
}

pub(crate) fn reason(verdict: &Verdict, now: Timestamp) -> String {
    let Verdict {
        place, rule, text, ..
    } = verdict;
    let until = match (verdict.until, *rule) {
        (None, _) => String::new(),
        (Some(until), "soak") => format!(", met at {}", clock(until, now)),
        (Some(until), _) => format!(", until {}", clock(until, now)),
    };
    shown(&format!("{place}   {rule}: {text}{until}"))
}

/// `18:12` today, else `27 Nov 18:12`, in the local time zone.
pub(crate) fn clock(time: Timestamp, now: Timestamp) -> String {
    let zone = TimeZone::system();
    let (time, now) = (time.to_zoned(zone.clone()), now.to_zoned(zone));
    match time.date() == now.date() {
        true => time.strftime("%H:%M").to_string(),
        false => time.strftime("%-d %b %H:%M").to_string(),
    }
}

/// `2026-11-27 18:12`, in the local time zone.
pub(crate) fn moment(time: Timestamp) -> String {
    let zoned = time.to_zoned(TimeZone::system());
    zoned.strftime("%Y-%m-%d %H:%M").to_string()
}

/// A time that has passed: a time, a day, or a duration before now. A day counts from its start.
pub(crate) fn past_time(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    if let Some(duration) = parse_duration(text) {
        let duration = SignedDuration::try_from(duration).ok()?;
        return now.checked_sub(duration).ok();
    }
    let local: DateTime = text.parse().ok()?;
    let zoned = local.to_zoned(TimeZone::system()).ok()?;
    Some(zoned.timestamp())
}

/// `27 Nov`, in the local time zone.
pub(crate) fn day(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%-d %b").to_string()
}

/// The data of a hold.
pub(crate) fn hold_data(hold: &Hold) -> Value {
    json!({
        "by": hold.by,
        "reason": hold.reason,
        "since": hold.since.map(|since| since.to_string()),
        "until": hold.until.map(|until| until.to_string()),
        "stops": hold.stops,
        "newerThan": hold.newer_than,
        "place": format!("{}:{}", hold.path, hold.line),
        "consequence": hold.consequence(),
    })
}

/// The data of a plan and its outcome.
pub(crate) fn data(plan: &Plan, commit: Option<&str>, outcome: &str) -> Value {
    let steps: Vec<Value> = plan
        .steps
        .iter()
        .map(|step| {
            let (before, after) = step.labels();
            json!({
                "service": step.service,
                "environment": step.environment,
                "from": step.from,
                "before": {"version": before, "artifact": step.before.id().to_string(), "versions": versions(&step.before)},
                "after": {"version": after, "artifact": step.after.id().to_string(), "versions": versions(&step.after)},
                "changes": step.changes,
                "verdicts": step.verdicts,
                "warning": step.warning,
            })
        })
        .collect();
    json!({
        "outcome": outcome,
        "intent": plan.record.intent,
        "commit": commit,
        "message": plan.record.message(),
        "steps": steps,
    })
}

#[cfg(test)]
mod tests {
    use super::{past_time, shown};

    #[test]
    fn past_times_are_read() {
        let now = "2026-11-25T12:00:00Z".parse().unwrap();
        let read = |text: &str| past_time(text, now).map(|time| time.to_string());
        assert_eq!(
            read("2026-11-20T16:00:00Z").as_deref(),
            Some("2026-11-20T16:00:00Z")
        );
        assert_eq!(read("1d12h").as_deref(), Some("2026-11-24T00:00:00Z"));
        assert!(read("2026-11-20").is_some_and(|time| time.starts_with("2026-11-")));
        assert!(read("2026-11-20 16:00").is_some());
        assert_eq!(read("yesterday"), None);
    }

    #[test]
    fn texts_of_a_repository_do_not_steer_the_terminal() {
        assert_eq!(shown("a\u{1b}[31mred\nb\u{7}"), "a[31mred b");
    }
}
