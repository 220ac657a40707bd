//! Says once what several refused objects share. Pure.

use super::summary::{Facts, NAMED};
use super::view::{Group, Row, State};
use std::collections::{BTreeMap, BTreeSet};

/// The number of objects that are refused for one reason before they share a line.
const SHARED_BY: usize = 3;

/// The lines of the summary that stand for messages of rows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shared {
    pub(crate) causes: Vec<String>,
    /// The full names of rows whose messages the causes cover.
    pub(crate) covered: BTreeSet<String>,
}

/// One line of a failure: `Kind/namespace/name dry-run failed (Reason): why (file:line)`.
#[derive(Debug, PartialEq, Eq)]
struct Refusal<'a> {
    /// The reason of the condition, before the first line.
    before: &'a str,
    kind: &'a str,
    name: &'a str,
    why: &'a str,
    /// ` (file:line)`, or nothing.
    place: &'a str,
}

impl<'a> Refusal<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (head, rest) = line.split_once(" dry-run failed")?;
        let (before, id) = head.split_at(head.rfind(' ').map_or(0, |space| space + 1));
        let (kind, name) = id.split_once('/')?;
        let (_, why) = rest.split_once(": ")?;
        let (why, place) = why.split_at(
            why.rfind(" (")
                .filter(|&at| is_place(&why[at..]))
                .unwrap_or(why.len()),
        );
        Some(Self {
            before,
            kind,
            name,
            why: why.strip_prefix("not valid: ").unwrap_or(why),
            place,
        })
    }

    /// Whether a line of the summary names this kind as not defined.
    fn is_undefined(&self) -> bool {
        self.why.starts_with("no matches for kind ")
    }
}

/// Whether a text is ` (file:line)`.
fn is_place(text: &str) -> bool {
    let line = text.strip_suffix(')').and_then(|text| text.rsplit_once(':'));
    line.is_some_and(|(_, line)| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Leaves only lines in the messages of failed rows that no line of the summary covers.
///
/// The cost is proportional to these messages.
pub(crate) fn share(groups: &mut [Group], facts: &Facts) -> Shared {
    let lacking: BTreeSet<(&str, &str, &str)> = facts
        .missing
        .keys()
        .map(|owner| (owner.kind, &*owner.namespace, &*owner.name))
        .collect();
    let is_lacking = |row: &Row| {
        let id = row.id.as_ref();
        id.is_some_and(|id| lacking.contains(&(&*id.kind, &*id.namespace, &*id.name)))
    };
    let (causes, kinds) = causes(groups);
    let mut covered = BTreeSet::new();
    for group in groups.iter_mut() {
        let mut replaced = Vec::new();
        for (index, row) in group.rows.iter().enumerate().filter(|(_, row)| is_failed(row)) {
            let lacks = is_lacking(row);
            let is_covered = |line: &&str| {
                Refusal::read(line).is_some_and(|refusal| match refusal.is_undefined() {
                    true => lacks,
                    false => kinds.contains(&(refusal.kind.to_owned(), refusal.why.to_owned())),
                })
            };
            let kept: Vec<&str> = row.message.lines().filter(|line| !is_covered(line)).collect();
            if kept.is_empty() {
                covered.insert(group.full_name(row));
            } else if kept.len() < row.message.lines().count() {
                let kept = kept.join("\n");
                let first = row.message.lines().next().and_then(Refusal::read);
                let before = first.map_or("", |first| first.before);
                let kept = kept.strip_prefix(before).unwrap_or(&kept);
                replaced.push((index, format!("{before}{kept}")));
            }
        }
        for (index, message) in replaced {
            if let Some(row) = group.rows.get_mut(index) {
                row.message = message;
            }
        }
    }
    Shared { causes, covered }
}

fn is_failed(row: &Row) -> bool {
    row.state == State::Failed && !row.message.is_empty()
}

/// A line for each reason that enough objects share, and these kinds with their reasons.
fn causes(groups: &[Group]) -> (Vec<String>, BTreeSet<(String, String)>) {
    let mut refused: BTreeMap<(&str, &str), Vec<(String, &str)>> = BTreeMap::new();
    let rows = groups.iter().flat_map(|group| &group.rows);
    for line in rows
        .filter(|row| is_failed(row))
        .flat_map(|row| row.message.lines())
    {
        match Refusal::read(line) {
            Some(refusal) if !refusal.is_undefined() => {
                let of = refused.entry((refusal.kind, refusal.why)).or_default();
                of.push((format!("{}/{}", refusal.kind, refusal.name), refusal.place));
            }
            Some(_) | None => {}
        }
    }
    refused.retain(|_, objects| objects.len() >= SHARED_BY);
    let mut by_number: Vec<_> = refused.into_iter().collect();
    by_number.sort_by_key(|(_, objects)| std::cmp::Reverse(objects.len()));
    // the messages of those that are not named stay as they are
    by_number.truncate(NAMED);
    let line = |(kind, why): &(&str, &str), objects: &[(String, &str)]| {
        let (first, place) = objects.iter().min()?;
        let number = objects.len();
        Some(format!(
            "{kind}: {number} are refused: {why}; the first is {first}{place}"
        ))
    };
    let lines = by_number
        .iter()
        .filter_map(|(shared, objects)| line(shared, objects));
    let lines = lines.collect();
    let kinds = by_number
        .iter()
        .map(|((kind, why), _)| ((*kind).to_owned(), (*why).to_owned()));
    (lines, kinds.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use equate_apply::id::ObjectId;
    use equate_controllers::ObjectRef;
    use equate_controllers::kit::MissingKinds;

    fn row(name: &str, message: &str) -> Row {
        Row {
            id: Some(ObjectId::new(
                "kustomize.toolkit.fluxcd.io",
                "Kustomization",
                "flux-system",
                name,
            )),
            state: State::Failed,
            name: name.into(),
            detail: String::new(),
            age: String::new(),
            message: message.into(),
        }
    }

    fn of_rows(rows: Vec<Row>) -> Vec<Group> {
        vec![Group {
            kind: Some("Kustomization"),
            rows,
            ..Group::default()
        }]
    }

    const SCALER: &str =
        "dry-run failed (Invalid): not valid: spec.minReplicas: Invalid value: 0 (base/hpa.yaml:2)";
    const SECRET: &str =
        "dry-run failed: no matches for kind \"Secret\" in version \"x.org/v1\" (base/secret.yaml:3)";

    #[test]
    fn refusals_that_three_objects_share_have_one_line() {
        let alone = "ConfigMap/a/app dry-run failed (Forbidden): not allowed (app.yaml:1)";
        let mut groups = of_rows(vec![
            row(
                "a",
                &format!("ReconciliationFailed: Scaler/a/web {SCALER}\n{alone}"),
            ),
            row("b", &format!("ReconciliationFailed: Scaler/b/web {SCALER}")),
            row(
                "c",
                &format!("ReconciliationFailed: {alone}\nScaler/c/web {SCALER}"),
            ),
        ]);
        let shared = share(&mut groups, &Facts::default());
        assert_eq!(
            shared.causes,
            [
                "Scaler: 3 are refused: spec.minReplicas: Invalid value: 0; the first is Scaler/a/web (base/hpa.yaml:2)"
            ]
        );
        assert_eq!(shared.covered, ["Kustomization/b".to_owned()].into());
        let message = |row: usize| groups[0].rows[row].message.clone();
        let rest = format!("ReconciliationFailed: {alone}");
        assert_eq!([message(0), message(2)], [rest.clone(), rest]);
    }

    #[test]
    fn what_two_objects_share_stays_in_their_rows() {
        let rows =
            || ["a", "b"].map(|name| row(name, &format!("ReconciliationFailed: Scaler/{name}/web {SCALER}")));
        let mut groups = of_rows(rows().to_vec());
        assert_eq!(share(&mut groups, &Facts::default()), Shared::default());
        assert_eq!(groups, of_rows(rows().to_vec()));
    }

    #[test]
    fn kinds_that_the_summary_names_are_left_out() {
        let message = format!("ReconciliationFailed: Secret/a/key {SECRET}\nScaler/a/web {SCALER}");
        let unknown = row("b", &format!("ReconciliationFailed: Secret/b/key {SECRET}"));
        let mut groups = of_rows(vec![row("a", &message), unknown.clone()]);
        let owner = ObjectRef::new("Kustomization", "flux-system", "a");
        let facts = Facts {
            missing: [(owner, MissingKinds::default())].into(),
            ..Facts::default()
        };
        assert_eq!(share(&mut groups, &facts), Shared::default());
        assert_eq!(
            groups[0].rows[0].message,
            format!("ReconciliationFailed: Scaler/a/web {SCALER}")
        );
        assert_eq!(groups[0].rows[1], unknown);
    }

    #[test]
    fn lines_of_other_failures_are_not_refusals() {
        for line in [
            "",
            "BuildFailed: no such file",
            "a dry-run failed",
            "/ dry-run failed",
        ] {
            assert_eq!(Refusal::read(line), None, "{line}");
        }
        let read = Refusal::read("Job/a/b dry-run failed (Invalid): field is immutable (again)").unwrap();
        assert_eq!((read.why, read.place), ("field is immutable (again)", ""));
        let limit = "must be less than 3 (limit: 3 of x)";
        let line = format!("Job/a/b dry-run failed (Invalid): {limit} (a/job.yaml:12)");
        let read = Refusal::read(&line).unwrap();
        assert_eq!((read.why, read.place), (limit, " (a/job.yaml:12)"));
    }
}
