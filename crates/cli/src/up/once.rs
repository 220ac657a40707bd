//! `equate up --once`: decides whether the wait is over. Pure.

use super::summary::WAITING_NAMED;
use super::view::{APPLIED, Dashboard, Group, NOT_FOUND, Row, State};
use std::time::Duration;

/// Time without changes after which a failure is final.
pub(crate) const FINAL_AFTER: Duration = Duration::from_secs(3);

const WAIT_FOR_OTHERS: &str = "objects wait for others that are not ready";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    /// An object failed; others may be waiting for it.
    Failed(Vec<String>),
    Waiting(Vec<String>),
}

/// Judges a dashboard. An empty one is waiting, not ready.
pub(crate) fn judge(dashboard: &Dashboard) -> Readiness {
    let failed = reasons(dashboard, State::Failed);
    let failed: Vec<String> = dashboard.causes.iter().cloned().chain(failed).collect();
    let waiting = reasons(dashboard, State::Waiting);
    let mut own = dashboard.groups.iter().filter(|group| group.has_own_object);
    let nothing_yet = own.any(|group| group.rows.is_empty());
    if nothing_yet || !waiting.is_empty() && failed.is_empty() {
        return Readiness::Waiting(waiting);
    }
    if failed.is_empty() {
        return Readiness::Ready;
    }
    let explained = explained(dashboard);
    let others = waiting.into_iter().filter(|reason| !explained.contains(reason));
    let others = others.map(|reason| match reason.ends_with(WAIT_FOR_OTHERS) {
        true => reason,
        false => format!("still waiting: {reason}"),
    });
    Readiness::Failed(failed.into_iter().chain(others).collect())
}

/// A line for each row in this state that no line of the summary covers.
fn reasons(dashboard: &Dashboard, state: State) -> Vec<String> {
    let mut lines = Vec::new();
    for group in &dashboard.groups {
        for row in group.rows.iter().filter(|row| row.state == state) {
            let name = group.full_name(row);
            if !dashboard.is_counted(&name) && !dashboard.grouped.contains(&name) {
                lines.push(reason(group, row));
            }
        }
    }
    let dependents = dashboard.dependents.len();
    if state == State::Waiting && dependents > WAITING_NAMED {
        lines.push(format!("{dependents} {WAIT_FOR_OTHERS}"));
    }
    lines
}

/// The reasons that only repeat what an owner's row says.
fn explained(dashboard: &Dashboard) -> Vec<String> {
    let rows = dashboard
        .groups
        .iter()
        .flat_map(|group| group.rows.iter().map(move |row| (group, row)));
    let explained = rows.filter(|(_, row)| is_explained(row));
    explained.map(|(group, row)| reason(group, row)).collect()
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
fn is_explained(row: &Row) -> bool {
    row.state == State::Waiting && (row.detail == APPLIED || row.detail == NOT_FOUND)
}

fn reason(group: &Group, row: &Row) -> String {
    let detail = if row.message.is_empty() {
        row.detail.as_str()
    } else {
        row.message.as_str()
    };
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
