//! `equate up --once`: decides whether the wait is over. Pure.

use super::summary::WAITING_NAMED;
use super::view::{APPLIED, Dashboard, Group, NOT_FOUND, Row, State};
use equate_apply::id::ObjectId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time without changes after which a failure is final.
pub(crate) const FINAL_AFTER: Duration = Duration::from_secs(3);

/// Columns of a line about an object that waits for a failed one, whose line is whole.
const DEPENDENT_COLUMNS: usize = 120;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    /// An object failed; others may be waiting for it.
    Failed(Vec<String>),
    Waiting(Vec<String>),
}

/// Judges a dashboard. An empty one is waiting, not ready.
pub(crate) fn judge(dashboard: &Dashboard) -> Readiness {
    let has_failed =
        !dashboard.causes.is_empty() || told(dashboard).any(|(_, row)| row.state == State::Failed);
    let mut own = dashboard.groups.iter().filter(|group| group.has_own_object);
    let nothing_yet = own.any(|group| group.rows.is_empty());
    let waiting = || {
        let rows = told(dashboard).filter(|(_, row)| row.state == State::Waiting);
        let rows = rows.map(|(group, row)| reason(group, row, &row.message));
        rows.chain(dependents(dashboard)).collect::<Vec<_>>()
    };
    if nothing_yet {
        return Readiness::Waiting(waiting());
    }
    if has_failed {
        return Readiness::Failed(reasons(dashboard, &BTreeMap::new()));
    }
    let waiting = waiting();
    match waiting.is_empty() {
        true => Readiness::Ready,
        false => Readiness::Waiting(waiting),
    }
}

/// The reasons of a failed wait: causes and failed rows first. The cost is proportional to their texts.
pub(crate) fn reasons(dashboard: &Dashboard, causes: &BTreeMap<ObjectId, String>) -> Vec<String> {
    let mut failed: Vec<String> = Vec::new();
    let mut waiting: Vec<String> = Vec::new();
    let mut messages = String::new();
    let has_failed = |(_, row): &(&Group, &Row)| row.state == State::Failed;
    for (group, row) in told(dashboard).filter(has_failed) {
        messages.push_str(&row.message);
        failed.push(reason(group, row, &with_cause(row, causes)));
    }
    let fails = !failed.is_empty() || !dashboard.causes.is_empty();
    let others = told(dashboard).filter(|row| !has_failed(row));
    for (group, row) in others.filter(|(_, row)| !fails || !is_explained(row)) {
        let message = with_cause(row, causes);
        let mut line = reason(group, row, &message);
        if fails && dashboard.dependents.contains(&group.full_name(row)) {
            line = console::truncate_str(&line, DEPENDENT_COLUMNS, "…").into_owned();
        }
        // a failure names it, or something is wrong with it
        let is_culprit = message != row.message || messages.contains(&group.full_name(row));
        match fails && !is_culprit {
            true => waiting.push(format!("still waiting: {line}")),
            false => failed.push(line),
        }
    }
    let causes = dashboard.causes.iter().cloned();
    causes
        .chain(failed)
        .chain(waiting)
        .chain(dependents(dashboard))
        .collect()
}

/// The failed and waiting rows that no line of the summary covers, failed ones first.
pub(crate) fn told(dashboard: &Dashboard) -> impl Iterator<Item = (&Group, &Row)> {
    [State::Failed, State::Waiting]
        .into_iter()
        .flat_map(move |state| {
            let rows = dashboard
                .groups
                .iter()
                .flat_map(|group| group.rows.iter().map(move |row| (group, row)));
            rows.filter(move |(group, row)| {
                let is_covered = |name: &str| dashboard.is_counted(name) || dashboard.grouped.contains(name);
                row.state == state && !is_covered(&group.full_name(row))
            })
        })
}

fn dependents(dashboard: &Dashboard) -> Option<String> {
    let number = dashboard.dependents.len();
    (number > WAITING_NAMED).then(|| format!("{number} objects wait for others that are not ready"))
}

/// The message with a cause that it does not contain.
fn with_cause(row: &Row, causes: &BTreeMap<ObjectId, String>) -> String {
    let cause = row.id.as_ref().and_then(|id| causes.get(id));
    match cause.filter(|cause| !row.message.contains(cause.as_str())) {
        Some(cause) => row.caused_by(Some(cause)),
        None => row.message.clone(),
    }
}

impl Readiness {
    /// Treats ready as waiting while some objects are ready at an older revision.
    pub(crate) fn unless_behind(self, behind: Vec<String>) -> Self {
        match self {
            Self::Ready if !behind.is_empty() => Self::Waiting(behind),
            verdict => verdict,
        }
    }
}

/// Whether the row only repeats what that of its owner says.
pub(crate) fn is_explained(row: &Row) -> bool {
    row.state == State::Waiting && (row.detail == APPLIED || row.detail == NOT_FOUND)
}

fn reason(group: &Group, row: &Row, message: &str) -> String {
    let detail = if message.is_empty() { &row.detail } else { message };
    // the first line follows the name, the others are indented below it
    format!(
        "{}: {}",
        group.full_name(row),
        detail.trim().replace('\n', "\n    ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sources: &[State], kustomizations: &[State], expected: &Readiness) {
        let group = |kind: Option<&'static str>, has_own_object, states: &[State]| Group {
            heading: String::new(),
            kind,
            has_own_object,
            rows: states
                .iter()
                .enumerate()
                .map(|(number, state)| Row {
                    id: None,
                    state: *state,
                    name: number.to_string(),
                    detail: String::new(),
                    age: String::new(),
                    message: "said".into(),
                })
                .collect(),
        };
        let dashboard = Dashboard {
            groups: vec![
                group(None, true, sources),
                group(Some("Kustomization"), true, kustomizations),
                group(None, false, &[]),
            ],
            ..Dashboard::default()
        };
        assert_eq!(judge(&dashboard), *expected);
    }

    #[test]
    fn ready_at_an_older_revision_is_waiting() {
        let check = |verdict: Readiness, behind: &[&str], expected: Readiness| {
            let behind = behind.iter().map(ToString::to_string).collect();
            assert_eq!(verdict.unless_behind(behind), expected);
        };
        check(Readiness::Ready, &[], Readiness::Ready);
        check(Readiness::Ready, &["a"], Readiness::Waiting(vec!["a".into()]));
        let failed = || Readiness::Failed(vec!["b".into()]);
        check(failed(), &["a"], failed());
    }

    #[test]
    fn a_failure_is_reported_without_the_objects_that_it_explains() {
        let row = |name: &str, state: State, detail: &str| Row {
            id: None,
            state,
            name: name.into(),
            detail: detail.into(),
            age: String::new(),
            message: String::new(),
        };
        let group = |rows: Vec<Row>| Group {
            has_own_object: true,
            rows,
            ..Group::default()
        };
        let waiting = || {
            group(vec![
                row("a", State::Waiting, NOT_FOUND),
                row("b", State::Waiting, APPLIED),
                row("c", State::Waiting, "InProgress"),
            ])
        };
        let judged = |groups: Vec<Group>| {
            judge(&Dashboard {
                groups,
                ..Dashboard::default()
            })
        };
        let all = ["a: not found", "b: applied", "c: InProgress"].map(String::from);
        assert_eq!(judged(vec![waiting()]), Readiness::Waiting(all.to_vec()));
        let failed = group(vec![row("web", State::Failed, "broken")]);
        let reasons = ["web: broken", "still waiting: c: InProgress"].map(String::from);
        assert_eq!(
            judged(vec![failed, waiting()]),
            Readiness::Failed(reasons.to_vec())
        );
    }

    #[test]
    fn dependents_of_a_failure_have_a_short_line() {
        let row = |name: &str, state: State, message: String| Row {
            id: None,
            state,
            name: name.into(),
            detail: String::new(),
            age: String::new(),
            message,
        };
        let dashboard = Dashboard {
            groups: vec![Group {
                has_own_object: true,
                rows: vec![
                    row("a", State::Failed, "x".repeat(200)),
                    row("b", State::Waiting, "x".repeat(200)),
                ],
                ..Group::default()
            }],
            dependents: ["b".to_owned()].into(),
            ..Dashboard::default()
        };
        let lengths: Vec<usize> = reasons(&dashboard, &BTreeMap::new())
            .iter()
            .map(|line| line.chars().count())
            .collect();
        assert_eq!(lengths, [203, "still waiting: ".len() + DEPENDENT_COLUMNS]);
    }

    #[test]
    fn objects_that_may_be_well_are_told_from_culprits() {
        let row = |name: &str, state: State, message: &str| Row {
            id: Some(ObjectId::new("", "Deployment", "default", name)),
            state,
            name: format!("Deployment/default/{name}"),
            detail: String::new(),
            age: String::new(),
            message: message.into(),
        };
        let dashboard = Dashboard {
            groups: vec![Group {
                has_own_object: true,
                rows: vec![
                    row("slow", State::Waiting, "Available: 0/1"),
                    row("named", State::Waiting, "Available: 0/1"),
                    row("crashed", State::Waiting, "Available: 0/1"),
                    row(
                        "apps",
                        State::Failed,
                        "timeout: [Deployment/default/named status: 'InProgress']",
                    ),
                ],
                ..Group::default()
            }],
            ..Dashboard::default()
        };
        let id = |name: &str| ObjectId::new("", "Deployment", "default", name);
        let causes = [
            (id("crashed"), "CrashLoopBackOff: exited with code 1".to_owned()),
            (id("slow"), "Available: 0/1".to_owned()),
        ];
        assert_eq!(
            reasons(&dashboard, &causes.into()),
            [
                "Deployment/default/apps: timeout: [Deployment/default/named status: 'InProgress']",
                "Deployment/default/named: Available: 0/1",
                "Deployment/default/crashed: CrashLoopBackOff: exited with code 1; Available: 0/1",
                "still waiting: Deployment/default/slow: Available: 0/1",
            ]
        );
    }

    #[test]
    fn dashboards_are_judged() {
        use State::{Failed, Idle, Ready, Waiting};
        let detail = |names: &[&str]| names.iter().map(|name| format!("{name}: said")).collect();
        check(&[], &[], &Readiness::Waiting(vec![]));
        check(&[Ready], &[], &Readiness::Waiting(vec![]));
        check(&[Ready], &[Ready, Idle], &Readiness::Ready);
        check(
            &[Ready],
            &[Ready, Waiting],
            &Readiness::Waiting(detail(&["Kustomization/1"])),
        );
        check(
            &[Failed],
            &[Waiting],
            &Readiness::Failed(vec![
                "0: said".into(),
                "still waiting: Kustomization/0: said".into(),
            ]),
        );
    }
}
