//! A comparison as text. Pure.

use super::Compared;
use super::releases::Inside;
use crate::failure::chain;
use equate_apply::cluster::Preview;
use equate_apply::id::ObjectId;
use equate_apply::plan::{Guard, KeepReason, Step};
use equate_controllers::ObjectRef;
use std::collections::HashSet;
use std::fmt::Write;

/// 0: no changes, 1: changes, 2: an error, or an object would be refused.
pub(super) fn code(compared: &Compared) -> u8 {
    let inside = compared.releases.iter().map(Inside::code).max();
    own_code(compared).max(inside.unwrap_or(0))
}

fn own_code(compared: &Compared) -> u8 {
    match &compared.outcome {
        Err(_) => 2,
        Ok(preview) if !preview.failures.is_empty() || preview.plan.guard.is_some() => 2,
        Ok(preview) if steps(preview).any(|step| is_held(step) || is_awaited(step)) => 2,
        Ok(preview) => u8::from(steps(preview).any(Step::acts)),
    }
}

pub(super) fn describe(compared: &Compared) -> String {
    let mut text = String::new();
    match &compared.outcome {
        Err(error) => {
            let _infallible = writeln!(text, "! {}", indented(&chain(error)));
        }
        Ok(preview) => {
            for step in steps(preview) {
                describe_step(&mut text, step);
            }
            if let Some(guard) = &preview.plan.guard {
                let _infallible = match guard {
                    Guard::EmptyRender(empty) => writeln!(
                        text,
                        "! it would render nothing: {} would be deleted, and nothing is until that is confirmed",
                        match empty.objects {
                            1 => "1 object".to_owned(),
                            objects => format!("{objects} objects"),
                        }
                    ),
                    Guard::Budget(exceeded) => writeln!(
                        text,
                        "! nothing is applied or deleted until the deletion is confirmed: {exceeded}"
                    ),
                };
            }
            for failure in &preview.failures {
                let _infallible = writeln!(text, "! {}", indented(&chain(failure)));
            }
            for inside in &compared.releases {
                text.push_str(&inside.describe());
            }
        }
    }
    if text.is_empty() {
        return text;
    }
    let body: String = text.lines().map(|line| format!("  {line}\n")).collect();
    format!("{}  {}\n{body}", compared.name, compared.path)
}

/// The change to one object.
pub(super) fn describe_one(compared: &Compared, id: &ObjectId) -> String {
    let mut text = String::new();
    match &compared.outcome {
        Err(error) => {
            let _infallible = writeln!(text, "! {}", indented(&chain(error)));
        }
        Ok(preview) => {
            for step in steps(preview).filter(|step| step.id() == id) {
                describe_step(&mut text, step);
            }
            for failure in preview.failures.iter().filter(|failure| failure.id == *id) {
                let _infallible = writeln!(text, "! {}", indented(&chain(failure)));
            }
        }
    }
    if text.is_empty() {
        text.push_str("nothing would change\n");
    }
    text
}

fn describe_step(text: &mut String, step: &Step) {
    let _infallible = match step {
        Step::Create(id) => writeln!(text, "+ {id}"),
        Step::Patch { id, changes, .. } => {
            let _infallible = writeln!(text, "~ {id}");
            for change in changes {
                let _infallible = writeln!(text, "    {change}");
            }
            Ok(())
        }
        Step::Recreate { id, why } => writeln!(text, "± {id}  deleted and recreated: {}", indented(why)),
        Step::Prune { id, .. } => writeln!(text, "- {id}"),
        Step::Keep(id, KeepReason::HeldBy(owner)) => writeln!(
            text,
            "! {id}  ownership conflict: {} declares it too",
            ObjectRef::from(owner)
        ),
        Step::Keep(id, KeepReason::HandedOver(owner)) => {
            writeln!(text, "> {id}  handed over to {}", ObjectRef::from(owner))
        }
        Step::Keep(id, KeepReason::Awaited(owner)) => writeln!(
            text,
            "! {id}  kept: it may have moved to {}, which cannot be built",
            ObjectRef::from(owner)
        ),
        Step::Keep(id, KeepReason::OverBudget) => {
            writeln!(text, "! {id}  deleted only if confirmed")
        }
        Step::Keep(..) => Ok(()),
    };
}

/// The reason to leave an object alone, without its mark and name.
pub(super) fn why_kept(step: &Step) -> Option<String> {
    let mut text = String::new();
    describe_step(&mut text, step);
    let (_, why) = text.split_once("  ")?;
    Some(why.trim_end().to_owned())
}

pub(super) fn summary(all: &[Compared]) -> String {
    let previews = || all.iter().filter_map(|one| one.outcome.as_ref().ok());
    let count = |of: fn(&Step) -> bool| previews().flat_map(steps).filter(|step| of(step)).count();
    let refused: usize = previews().map(|preview| preview.failures.len()).sum();
    let inside = all.iter().flat_map(|one| &one.releases).map(Inside::changes);
    let unbuilt = all.len() - previews().count();
    let mut parts = Vec::new();
    for (number, what) in [
        (count(|step| matches!(step, Step::Create(_))), "created"),
        (count(|step| matches!(step, Step::Patch { .. })), "changed"),
        (count(|step| matches!(step, Step::Recreate { .. })), "recreated"),
        (count(is_handed_over), "handed over"),
        (count(|step| matches!(step, Step::Prune { .. })), "pruned"),
        (count(is_held), "in conflict"),
        (count(is_awaited), "kept"),
        (count(is_over_budget), "to be confirmed"),
        (refused, "refused"),
        (inside.sum(), "in releases"),
    ] {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    }
    if unbuilt > 0 {
        parts.push(format!("{unbuilt} not built"));
    }
    let what = if parts.is_empty() {
        "nothing would change".to_owned()
    } else {
        parts.join(", ")
    };
    format!(
        "{} Kustomization{}: {what}\n",
        all.len(),
        if all.len() == 1 { "" } else { "s" }
    )
}

fn is_held(step: &Step) -> bool {
    matches!(step, Step::Keep(_, KeepReason::HeldBy(_)))
}

fn is_handed_over(step: &Step) -> bool {
    matches!(step, Step::Keep(_, KeepReason::HandedOver(_)))
}

fn is_awaited(step: &Step) -> bool {
    matches!(step, Step::Keep(_, KeepReason::Awaited(_)))
}

fn is_over_budget(step: &Step) -> bool {
    matches!(step, Step::Keep(_, KeepReason::OverBudget))
}

/// The steps, without those of refused objects, which change nothing.
pub(super) fn steps(preview: &Preview) -> impl Iterator<Item = &Step> {
    let refused: HashSet<&ObjectId> = preview.failures.iter().map(|failure| &failure.id).collect();
    preview
        .plan
        .steps()
        .filter(move |step| !refused.contains(step.id()))
}

fn indented(text: &str) -> String {
    text.trim().replace('\n', "\n    ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use equate_apply::cluster::{ApplyError, Failure};
    use equate_apply::owner::Owner;
    use equate_apply::plan::{EmptyRender, PatchReason, Plan};
    use equate_controllers::kustomization::KUSTOMIZATION;

    fn check(steps: Vec<Step>, expected_code: u8, expected: &str, expected_summary: &str) {
        let preview = Preview {
            plan: Plan {
                prune: steps,
                ..Plan::default()
            },
            failures: Vec::new(),
        };
        let one = Compared {
            name: "Kustomization/n/a".to_owned(),
            path: "a".to_owned(),
            outcome: Ok(preview),
            releases: Vec::new(),
        };
        assert_eq!(code(&one), expected_code);
        assert_eq!(describe(&one), expected);
        assert_eq!(summary(&[one]), expected_summary);
    }

    #[test]
    fn refused_objects_do_not_count_as_changed() {
        let id = |name: &str| ObjectId::new("", "ConfigMap", "n", name);
        let patch = |name: &str| Step::Patch {
            id: id(name),
            reason: PatchReason::NotSeen,
            from: None,
            changes: Vec::new(),
        };
        let refused = Failure {
            id: id("b"),
            origin: None,
            error: ApplyError::NamespaceMissing {
                namespace: "n".to_owned(),
            },
        };
        let mut preview = Preview {
            plan: Plan {
                prune: vec![Step::Create(id("a")), patch("b")],
                ..Plan::default()
            },
            failures: vec![refused],
        };
        let one = |preview: Preview| Compared {
            name: "Kustomization/n/a".to_owned(),
            path: "a".to_owned(),
            outcome: Ok(preview),
            releases: Vec::new(),
        };
        preview.plan.guard = Some(Guard::EmptyRender(EmptyRender {
            revision: "r".to_owned(),
            objects: 1,
        }));
        let compared = one(preview);
        assert_eq!(
            summary(std::slice::from_ref(&compared)),
            "1 Kustomization: 1 created, 1 refused\n"
        );
        assert_eq!(
            describe(&compared),
            "Kustomization/n/a  a\n  + ConfigMap/n/a\n  \
             ! it would render nothing: 1 object would be deleted, and nothing is until that is confirmed\n  \
             ! ConfigMap/n/b: namespace n does not exist; create it, or declare it in git\n"
        );
    }

    #[test]
    fn objects_of_other_owners_are_reported() {
        let keep = |reason: fn(Owner) -> KeepReason| {
            let id = ObjectId::new("", "ConfigMap", "n", "x");
            vec![Step::Keep(id, reason(Owner::new(&KUSTOMIZATION, "n", "b")))]
        };
        let unchanged = |_| KeepReason::Unchanged;
        check(keep(unchanged), 0, "", "1 Kustomization: nothing would change\n");
        check(
            keep(KeepReason::HandedOver),
            0,
            "Kustomization/n/a  a\n  > ConfigMap/n/x  handed over to Kustomization/n/b\n",
            "1 Kustomization: 1 handed over\n",
        );
        check(
            keep(KeepReason::HeldBy),
            2,
            "Kustomization/n/a  a\n  ! ConfigMap/n/x  ownership conflict: Kustomization/n/b declares it too\n",
            "1 Kustomization: 1 in conflict\n",
        );
        check(
            keep(KeepReason::Awaited),
            2,
            "Kustomization/n/a  a\n  ! ConfigMap/n/x  kept: it may have moved to Kustomization/n/b, \
             which cannot be built\n",
            "1 Kustomization: 1 kept\n",
        );
    }
}
