//! A comparison as data, for `-o json` and `-o yaml`.
//!
//! Has one entry per Kustomization, also without changes. Masks the values of Secrets like the text. A value
//! that is absent before or after has no field.

use super::releases::Inside;
use super::{Compared, text};
use crate::failure::chain;
use equate_apply::difference::{Difference, Shown};
use equate_apply::id::ObjectId;
use equate_apply::plan::{Guard, Step};
use serde_json::{Map, Value, json};

pub(super) fn list(all: &[Compared]) -> Value {
    Value::Array(all.iter().map(kustomization).collect())
}

fn kustomization(compared: &Compared) -> Value {
    let mut value = json!({ "kustomization": compared.name, "path": compared.path });
    match &compared.outcome {
        Err(error) => value["error"] = chain(error).into(),
        Ok(preview) => {
            value["differences"] = text::steps(preview).filter_map(difference).collect();
            let releases: Vec<Value> = compared.releases.iter().filter_map(Inside::data).collect();
            if !releases.is_empty() {
                value["releases"] = releases.into();
            }
            if let Some(guard) = &preview.plan.guard {
                match guard {
                    Guard::EmptyRender(empty) => {
                        value["wouldRenderNothing"] =
                            json!({ "revision": empty.revision, "objects": empty.objects });
                    }
                    Guard::Budget(exceeded) => {
                        let mut said = json!({ "objects": exceeded.objects.len(), "held": exceeded.held });
                        if let Some(budget) = exceeded.budget {
                            said["budget"] = budget.to_string().into();
                        }
                        value["wouldExceedPruneBudget"] = said;
                    }
                }
            }
            if !preview.failures.is_empty() {
                let failures = preview.failures.iter().map(|failure| chain(failure).into());
                value["refused"] = Value::Array(failures.collect());
            }
        }
    }
    value
}

/// The action on an object; none for objects that the text does not show either.
fn difference(step: &Step) -> Option<Value> {
    let (action, detail) = match step {
        Step::Create(_) => ("create", None),
        Step::Patch { changes, .. } => {
            let changes = changes.iter().map(field).collect();
            ("change", Some(("fields", Value::Array(changes))))
        }
        Step::Recreate { why, .. } => ("recreate", Some(("why", why.trim().into()))),
        Step::Prune { .. } => ("prune", None),
        // the text's reason, so that both forms always agree
        Step::Keep(..) => ("keep", Some(("why", text::why_kept(step)?.into()))),
    };
    let mut value = json!({ "action": action, "object": object(step.id()) });
    if let Some((field, detail)) = detail {
        value[field] = detail;
    }
    Some(value)
}

pub(super) fn object(id: &ObjectId) -> Value {
    json!({ "group": &*id.group, "kind": &*id.kind, "namespace": &*id.namespace, "name": &*id.name })
}

pub(super) fn field(difference: &Difference) -> Value {
    let mut value = Map::from_iter([("path".to_owned(), difference.path.as_str().into())]);
    for (name, shown) in [("before", &difference.before), ("after", &difference.after)] {
        match shown {
            Some(Shown::Value(shown)) => value.insert(name.to_owned(), shown.clone()),
            Some(Shown::Masked) => value.insert(name.to_owned(), "***".into()),
            None => None,
        };
    }
    Value::Object(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use equate_apply::cluster::Preview;
    use equate_apply::owner::Owner;
    use equate_apply::plan::{KeepReason, PatchReason, Plan};
    use equate_controllers::kustomization::KUSTOMIZATION;
    use equate_controllers::kustomization::preview::PreviewError;

    fn check(outcome: Result<Vec<Step>, PreviewError>, expected: &Value) {
        let outcome = outcome.map(|prune| Preview {
            plan: Plan {
                prune,
                ..Plan::default()
            },
            failures: Vec::new(),
        });
        let one = Compared {
            name: "Kustomization/n/a".to_owned(),
            path: "a".to_owned(),
            outcome,
            releases: Vec::new(),
        };
        assert_eq!(list(&[one]), json!([expected]));
    }

    #[test]
    fn actions_are_listed_and_secrets_are_masked() {
        let id = || ObjectId::new("apps", "Deployment", "n", "x");
        let object = json!({ "group": "apps", "kind": "Deployment", "namespace": "n", "name": "x" });
        let base = |differences: Value| json!({ "kustomization": "Kustomization/n/a", "path": "a", "differences": differences });
        let changes = vec![
            Difference {
                path: ".data.k".to_owned(),
                before: Some(Shown::Masked),
                after: Some(Shown::Masked),
            },
            Difference {
                path: ".spec.replicas".to_owned(),
                before: None,
                after: Some(Shown::Value(json!(2))),
            },
        ];
        let patch = Step::Patch {
            id: id(),
            reason: PatchReason::Changed,
            from: None,
            changes,
        };
        check(
            Ok(vec![Step::Create(id()), patch]),
            &base(json!([
                { "action": "create", "object": object },
                { "action": "change", "object": object, "fields": [
                    { "path": ".data.k", "before": "***", "after": "***" },
                    { "path": ".spec.replicas", "after": 2 },
                ] },
            ])),
        );
        check(
            Ok(vec![
                Step::Keep(id(), KeepReason::Unchanged),
                Step::Keep(id(), KeepReason::HandedOver(Owner::new(&KUSTOMIZATION, "n", "b"))),
            ]),
            &base(json!([
                { "action": "keep", "object": object, "why": "handed over to Kustomization/n/b" },
            ])),
        );
        check(
            Err(PreviewError::Build("no such file".to_owned())),
            &json!({ "kustomization": "Kustomization/n/a", "path": "a", "error": PreviewError::Build("no such file".to_owned()).to_string() }),
        );
    }
}
