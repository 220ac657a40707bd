//! `equate up --once`: whether the wait is over. Pure.

use super::view::{Dashboard, Group, Row, State};
use std::time::Duration;

/// How long nothing may change before what has failed counts as final.
pub(crate) const QUIET: Duration = Duration::from_secs(3);

/// What a dashboard means to somebody who waits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Everything that is looked after is ready.
    Ready,
    /// Something failed; what else waits may be waiting for that.
    Failed(Vec<String>),
    /// It is on its way.
    Waiting(Vec<String>),
}

/// Judges a dashboard. Nothing known yet is waiting, not success.
pub(crate) fn judge(dashboard: &Dashboard) -> Verdict {
    let reasons = |wanted: &[State]| -> Vec<String> {
        dashboard
            .groups
            .iter()
            .flat_map(|group| group.rows.iter().map(move |row| (group, row)))
            .filter(|(_, row)| wanted.contains(&row.state))
            .map(|(group, row)| reason(group, row))
            .collect()
    };
    let mut own = dashboard.groups.iter().filter(|group| group.has_own_object);
    let nothing_yet = own.any(|group| group.rows.is_empty());
    if nothing_yet || !reasons(&[State::Waiting]).is_empty() && reasons(&[State::Failed]).is_empty() {
        return Verdict::Waiting(reasons(&[State::Waiting]));
    }
    if reasons(&[State::Failed]).is_empty() {
        Verdict::Ready
    } else {
        Verdict::Failed(reasons(&[State::Failed, State::Waiting]))
    }
}

impl Verdict {
    /// The same where some of what is ready speaks of an earlier time: that is on its way.
    pub(crate) fn unless_behind(self, behind: Vec<String>) -> Self {
        match self {
            Self::Ready if !behind.is_empty() => Self::Waiting(behind),
            verdict => verdict,
        }
    }
}

fn reason(group: &Group, row: &Row) -> String {
    let said = if row.message.is_empty() {
        row.detail.as_str()
    } else {
        row.message.as_str()
    };
    // Of a message of several lines the first belongs to the name, the others stand below it.
    format!(
        "{}: {}",
        group.full_name(row),
        said.trim().replace('\n', "\n    ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sources: &[State], kustomizations: &[State], expected: &Verdict) {
        let group = |kind: Option<&'static str>, has_own_object, states: &[State]| Group {
            heading: String::new(),
            kind,
            has_own_object,
            rows: states
                .iter()
                .enumerate()
                .map(|(number, state)| Row {
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
    fn ready_at_an_earlier_revision_is_waiting() {
        let check = |verdict: Verdict, behind: &[&str], expected: Verdict| {
            let behind = behind.iter().map(ToString::to_string).collect();
            assert_eq!(verdict.unless_behind(behind), expected);
        };
        check(Verdict::Ready, &[], Verdict::Ready);
        check(Verdict::Ready, &["a"], Verdict::Waiting(vec!["a".into()]));
        let failed = || Verdict::Failed(vec!["b".into()]);
        check(failed(), &["a"], failed());
    }

    #[test]
    fn verdicts() {
        use State::{Failed, Idle, Ready, Waiting};
        let said = |names: &[&str]| names.iter().map(|name| format!("{name}: said")).collect();
        check(&[], &[], &Verdict::Waiting(vec![]));
        check(&[Ready], &[], &Verdict::Waiting(vec![]));
        check(&[Ready], &[Ready, Idle], &Verdict::Ready);
        check(
            &[Ready],
            &[Ready, Waiting],
            &Verdict::Waiting(said(&["Kustomization/1"])),
        );
        check(
            &[Failed],
            &[Waiting],
            &Verdict::Failed(said(&["0", "Kustomization/0"])),
        );
    }
}
