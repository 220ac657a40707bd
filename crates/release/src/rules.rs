//! Rules: soak, freeze windows, required health, holds.
//!
//! Every rule that matches applies, and the strictest wins. A verdict names the file and line of its rule. The
//! caller judges when asked, and again on the tip that it pushes to.

use crate::artifact::Artifact;
use crate::config::{Config, FILE};
use crate::hold::{Hold, Stops};
use equate_manifest::go::version::Version as Semver;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// The writer of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// A person who asked for it.
    Person,
    /// A program that acts on its own.
    Automation,
}

/// The health of a version in an environment, as far as something shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Nothing shows it; the reason.
    Unknown(String),
    /// It runs.
    Healthy,
    /// It does not; the reason.
    Unhealthy(String),
}

/// A version in the environment it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The environment.
    pub environment: String,
    /// The time of the commit that brought it, if history goes back to it.
    pub since: Option<Timestamp>,
    /// Its health there.
    pub health: Health,
}

/// A change to judge.
#[derive(Debug, Clone, Copy)]
pub struct Case<'c> {
    /// The service.
    pub service: &'c str,
    /// The environment that changes.
    pub environment: &'c str,
    /// The versions that it gets.
    pub artifact: &'c Artifact,
    /// Whether it goes back to a version that the environment had.
    pub is_rollback: bool,
    /// The writer.
    pub actor: Actor,
    /// The version in the environment it comes from.
    pub arrival: Option<&'c Arrival>,
    /// The holds of the repository.
    pub holds: &'c [Hold],
    /// The time.
    pub now: Timestamp,
}

/// The answer of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The file and line of the rule.
    pub place: String,
    /// The rule: `soak`, `freeze`, `healthy`, `hold`.
    pub rule: &'static str,
    /// Whether it refuses the change.
    pub refused: bool,
    /// The reason.
    pub text: String,
    /// The time at which it no longer refuses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The answers of all rules that match, in the order of the file; holds come last.
///
/// A rollback is never frozen, and needs no soak: it is the way out of an outage.
pub fn judge(config: &Config, case: &Case<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    if !case.is_rollback {
        verdicts.extend(soak(config, case));
        verdicts.extend(healthy(config, case));
        verdicts.extend(freezes(config, case));
    }
    verdicts.extend(case.holds.iter().filter_map(|hold| held(hold, case)));
    verdicts
}

/// The answers for the removal of a service: freezes and holds. It brings no version that could soak.
pub fn judge_removal(config: &Config, case: &Case<'_>) -> Vec<Verdict> {
    let mut verdicts = freezes(config, case);
    verdicts.extend(case.holds.iter().filter_map(|hold| held(hold, case)));
    verdicts
}

fn soak(config: &Config, case: &Case<'_>) -> Option<Verdict> {
    let rules = config.rules_for(case.environment, case.service);
    let (soak, line) = rules.filter_map(|rule| rule.soak).max()?;
    let wanted = SignedDuration::try_from(soak).unwrap_or(SignedDuration::MAX);
    let verdict = |refused, text, until| {
        Some(Verdict {
            place: format!("{FILE}:{line}"),
            rule: "soak",
            refused,
            text,
            until,
        })
    };
    let needs = span(wanted);
    let Some(arrival) = case.arrival else {
        let before = config.before(case.environment);
        let text = match before.is_empty() {
            true => return None,
            false => format!(
                "it is not in {}, and must be there for {needs}",
                before.join(" or ")
            ),
        };
        return verdict(true, text, None);
    };
    let environment = &arrival.environment;
    let Some(since) = arrival.since else {
        let text =
            format!("history does not go back to its arrival in {environment}; fetch the whole history");
        return verdict(true, text, None);
    };
    let there = case.now.duration_since(since);
    let state = match arrival.health {
        Health::Healthy => "healthy in",
        Health::Unknown(_) | Health::Unhealthy(_) => "in",
    };
    let is_short = there < wanted;
    let until = since.checked_add(wanted).ok();
    let text = format!("{state} {environment} for {} of {needs}", span(there));
    verdict(is_short, text, until.filter(|_| is_short))
}

fn healthy(config: &Config, case: &Case<'_>) -> Option<Verdict> {
    let mut rules = config.rules_for(case.environment, case.service);
    let (_, line) = rules.find_map(|rule| rule.healthy.filter(|(needed, _)| *needed))?;
    let (refused, text) = match case.arrival {
        None if config.before(case.environment).is_empty() => return None,
        None => {
            let before = config.before(case.environment);
            (true, format!("it does not run in {}", before.join(" or ")))
        }
        Some(Arrival {
            environment, health, ..
        }) => match health {
            Health::Healthy => (false, format!("healthy in {environment}")),
            Health::Unhealthy(reason) => (true, format!("not healthy in {environment}: {reason}")),
            Health::Unknown(reason) => (true, format!("its health in {environment} is unknown: {reason}")),
        },
    };
    Some(Verdict {
        place: format!("{FILE}:{line}"),
        rule: "healthy",
        refused,
        text,
        until: None,
    })
}

fn freezes(config: &Config, case: &Case<'_>) -> Vec<Verdict> {
    let rules = config.rules_for(case.environment, case.service);
    let windows = rules.flat_map(|rule| &rule.freeze);
    let verdicts = windows.filter_map(|freeze| {
        let until = freeze.until(case.now)?;
        let reason = match &freeze.reason {
            Some(reason) => format!(": {reason}"),
            None => String::new(),
        };
        Some(Verdict {
            place: format!("{FILE}:{}", freeze.line),
            rule: "freeze",
            refused: true,
            text: format!("{} is frozen{reason}", case.environment),
            until: Some(until),
        })
    });
    verdicts.collect()
}

fn held(hold: &Hold, case: &Case<'_>) -> Option<Verdict> {
    let means = hold.environment == case.environment && hold.service == case.service;
    if !means || !hold.is_active(case.now) {
        return None;
    }
    let stops = match (hold.stops, case.actor) {
        (Stops::All, _) => true,
        (Stops::Automation, Actor::Person) => false,
        (Stops::Automation, Actor::Automation) => !hold.newer_than.as_deref().is_some_and(|held| {
            let label = case.artifact.label(case.service);
            is_newer(&label, held)
        }),
    };
    stops.then(|| Verdict {
        place: format!("{}:{}", hold.path, hold.line),
        rule: "hold",
        refused: true,
        text: format!("held by {}: {}", hold.name(), hold.reason),
        until: hold.until,
    })
}

/// Whether a version is newer. Versions that cannot be compared are not.
pub fn is_newer(version: &str, than: &str) -> bool {
    match (Semver::parse_tag(version), Semver::parse_tag(than)) {
        (Ok(version), Ok(than)) => version.order_with_metadata(&than).is_gt(),
        _ => false,
    }
}

/// A duration in its two largest units: `1m`, `3h12m`, `21d`.
pub fn span(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m"),
        (0, hours, 0) => format!("{hours}h"),
        (0, hours, minutes) => format!("{hours}h{minutes}m"),
        (days, 0, _) => format!("{days}d"),
        (days, hours, _) if days < 3 => format!("{days}d{hours}h"),
        (days, _, _) => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Actor, Arrival, Case, Health, judge};
    use crate::artifact::{Artifact, Subject, Version};
    use crate::config::Config;
    use crate::hold::{Hold, Stops};

    const NOW: &str = "2026-11-25T12:00:00Z";

    fn config(rules: &str) -> Config {
        let text = format!(
            "version: 1\nenvironments: [dev, staging, {{prod: [prod-eu, prod-us]}}]\n\
             services: apps/{{environment}}/{{service}}\n{rules}"
        );
        Config::parse("equate.yaml", &text).unwrap()
    }

    fn artifact(tag: &str) -> Artifact {
        let mut artifact = Artifact::default();
        artifact.set(Subject::Image("cart".to_owned()), Version::tag(tag));
        artifact
    }

    fn arrival(since: &str, health: Health) -> Arrival {
        Arrival {
            environment: "staging".to_owned(),
            since: since.parse().ok(),
            health,
        }
    }

    #[track_caller]
    fn check(rules: &str, arrival: Option<&Arrival>, holds: &[Hold], actor: Actor, expected: &[&str]) {
        let case = Case {
            service: "cart",
            environment: "prod-eu",
            artifact: &artifact("2.4.1"),
            is_rollback: false,
            actor,
            arrival,
            holds,
            now: NOW.parse().unwrap(),
        };
        let verdicts = judge(&config(rules), &case);
        let found: Vec<String> = verdicts
            .iter()
            .map(|verdict| {
                let answer = if verdict.refused { "refused" } else { "met" };
                let until = verdict.until.map(|until| format!(", until {until}"));
                let (place, rule, text) = (&verdict.place, verdict.rule, &verdict.text);
                format!("{answer} {place} {rule}: {text}{}", until.unwrap_or_default())
            })
            .collect();
        assert_eq!(found, expected);
        // nothing but a hold stops a rollback
        let back = judge(
            &config(rules),
            &Case {
                is_rollback: true,
                ..case
            },
        );
        assert!(back.iter().all(|verdict| verdict.rule == "hold"));
    }

    #[test]
    fn strictest_soak_wins() {
        let rules = "rules:\n- soak: 1h\n- to: prod\n  soak: 4h\n- to: dev\n  soak: 9h\n";
        let there = |since| arrival(since, Health::Healthy);
        check(
            rules,
            Some(&there("2026-11-25T11:59:00Z")),
            &[],
            Actor::Person,
            &["refused equate.yaml:7 soak: healthy in staging for 1m of 4h, until 2026-11-25T15:59:00Z"],
        );
        check(
            rules,
            Some(&there("2026-11-25T08:00:00Z")),
            &[],
            Actor::Person,
            &["met equate.yaml:7 soak: healthy in staging for 4h of 4h"],
        );
        check(
            rules,
            None,
            &[],
            Actor::Person,
            &["refused equate.yaml:7 soak: it is not in staging, and must be there for 4h"],
        );
    }

    #[test]
    fn required_health_needs_something_to_look_at() {
        let rules = "rules:\n- {to: prod, healthy: true}\n";
        let there = |health| arrival("2026-11-25T08:00:00Z", health);
        check(
            rules,
            Some(&there(Health::Unknown("no cluster".to_owned()))),
            &[],
            Actor::Person,
            &["refused equate.yaml:5 healthy: its health in staging is unknown: no cluster"],
        );
        check(
            rules,
            Some(&there(Health::Healthy)),
            &[],
            Actor::Person,
            &["met equate.yaml:5 healthy: healthy in staging"],
        );
    }

    #[test]
    fn freeze_names_its_line_and_end() {
        let rules = "rules:\n- to: prod\n  freeze:\n  - {from: Wed 10:00, until: Wed 14:00, zone: \
                     Europe/Copenhagen, reason: audit}\n  - {from: Fri 16:00, until: Mon 07:00}\n";
        check(
            rules,
            None,
            &[],
            Actor::Person,
            &["refused equate.yaml:7 freeze: prod-eu is frozen: audit, until 2026-11-25T13:00:00Z"],
        );
    }

    #[test]
    fn hold_after_a_rollback_stops_automation_until_a_newer_version() {
        let hold = |newer_than: &str, until: &str| Hold {
            environment: "prod-eu".to_owned(),
            service: "cart".to_owned(),
            reason: "cart answers 500".to_owned(),
            by: "Mia <mia@example.org>".to_owned(),
            since: None,
            until: until.parse().ok(),
            stops: Stops::Automation,
            newer_than: Some(newer_than.to_owned()),
            path: Hold::path("prod-eu", "cart"),
            line: 1,
        };
        let refused = "refused .equate/holds/prod-eu/cart.yaml:1 hold: held by Mia: cart answers 500";
        check("", None, &[hold("2.4.1", "")], Actor::Automation, &[refused]);
        check("", None, &[hold("2.4.1", "")], Actor::Person, &[]);
        check("", None, &[hold("2.4.0", "")], Actor::Automation, &[]);
        check("", None, &[hold("main-1", "")], Actor::Automation, &[refused]);
        check("", None, &[hold("2.4.1", NOW)], Actor::Automation, &[]);
    }
}
