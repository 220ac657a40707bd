//! The changes inside the HelmReleases of a Kustomization.
//!
//! A chart in this repository is rendered as the working tree has it. Other charts are not fetched: if the commit
//! changes such a release, a line says that its objects are not compared.

use crate::failure::chain;
use equate_api::helm::HelmRelease;
use equate_api::source::ChartSourceKind;
use equate_apply::cluster::Preview;
use equate_apply::id::ObjectId;
use equate_apply::plan::Step;
use equate_controllers::helm_chart::local;
use equate_controllers::helm_release::comparison::{Change, Comparison, ComparisonError};
use equate_controllers::helm_release::offline::chart_of;
use equate_manifest::object::Object;
use kube::Client;
use kube::api::Api;
use serde_json::{Value, json};
use std::fmt::Write as _;

use super::Trees;
use super::data::{field, object as named};

const GROUP: &str = "helm.toolkit.fluxcd.io";

/// A release of a Kustomization, compared.
#[derive(Debug)]
pub(super) struct Inside {
    /// `HelmRelease/shop/web`.
    name: String,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    Changes(Vec<Change>),
    /// They cannot be known here.
    Unknown(String),
    /// It would fail.
    Failed(String),
}

impl Inside {
    /// As [`super::text::code`].
    pub(super) fn code(&self) -> u8 {
        match &self.outcome {
            Outcome::Changes(changes) => u8::from(!changes.is_empty()),
            Outcome::Unknown(_) => 0,
            Outcome::Failed(_) => 2,
        }
    }

    pub(super) fn changes(&self) -> usize {
        match &self.outcome {
            Outcome::Changes(changes) => changes.len(),
            Outcome::Unknown(_) | Outcome::Failed(_) => 0,
        }
    }

    pub(super) fn describe(&self) -> String {
        let mut text = String::new();
        let _infallible = match &self.outcome {
            Outcome::Changes(changes) if changes.is_empty() => Ok(()),
            Outcome::Changes(changes) => {
                let _infallible = writeln!(text, "in {}", self.name);
                changes.iter().try_for_each(|change| match change {
                    Change::Create(id) => writeln!(text, "  + {id}"),
                    Change::Delete(id) => writeln!(text, "  - {id}"),
                    Change::Patch(id, fields) => {
                        let _infallible = writeln!(text, "  ~ {id}");
                        let mut fields = fields.iter();
                        fields.try_for_each(|field| writeln!(text, "      {field}"))
                    }
                })
            }
            Outcome::Unknown(why) => {
                writeln!(text, "? in {}: its objects are not compared: {why}", self.name)
            }
            Outcome::Failed(why) => writeln!(text, "! in {}: {why}", self.name),
        };
        text
    }

    /// None without a change.
    pub(super) fn data(&self) -> Option<Value> {
        let mut value = json!({ "release": self.name });
        match &self.outcome {
            Outcome::Changes(changes) if changes.is_empty() => return None,
            Outcome::Changes(changes) => value["differences"] = changes.iter().map(change).collect(),
            Outcome::Unknown(why) => value["notCompared"] = why.as_str().into(),
            Outcome::Failed(why) => value["error"] = why.as_str().into(),
        }
        Some(value)
    }
}

fn change(change: &Change) -> Value {
    match change {
        Change::Create(id) => json!({ "action": "create", "object": named(id) }),
        Change::Delete(id) => json!({ "action": "delete", "object": named(id) }),
        Change::Patch(id, fields) => {
            let fields: Vec<Value> = fields.iter().map(field).collect();
            json!({ "action": "change", "object": named(id), "fields": fields })
        }
    }
}

/// Compares the HelmReleases among the objects of a Kustomization.
pub(super) async fn compare(
    client: &Client,
    objects: &[Object],
    preview: &Preview,
    trees: &Trees,
) -> Vec<Inside> {
    let mut all = Vec::new();
    let releases = objects.iter().filter(|object| {
        object.kind() == "HelmRelease" && object.api_version().split('/').next() == Some(GROUP)
    });
    for object in releases {
        let id = ObjectId::of(object);
        if let Some(outcome) = one(client, object, &id, objects, preview, trees).await {
            all.push(Inside {
                name: id.to_string(),
                outcome,
            });
        }
    }
    all
}

/// None if the release is left alone.
async fn one(
    client: &Client,
    object: &Object,
    id: &ObjectId,
    objects: &[Object],
    preview: &Preview,
    trees: &Trees,
) -> Option<Outcome> {
    let declared = serde_json::from_value(Value::Object(object.0.clone()));
    // an invalid one is refused when it is applied
    let mut declared: HelmRelease = declared.ok()?;
    if declared.spec.suspend {
        return None;
    }
    let live: Api<HelmRelease> = Api::namespaced(client.clone(), &id.namespace);
    let live = live.get_opt(&id.name).await;
    let live = match live {
        Ok(live) => live,
        Err(error) => return Some(Outcome::Unknown(format!("cannot read it: {}", chain(&error)))),
    };
    declared.metadata.namespace = Some(id.namespace.to_string());
    declared.status = live.as_ref().and_then(|live| live.status.clone());
    let changes = changed(preview, id) || reads_changed(&declared, id, preview);
    if declared.spec.kube_config.is_some() {
        let why = "its records are in the cluster of spec.kubeConfig".to_owned();
        return changes.then_some(Outcome::Unknown(why));
    }
    let chart = match in_reach(&declared, trees) {
        Ok(Ok(chart)) => chart,
        Ok(Err(why)) => return Some(Outcome::Failed(why)),
        Err(source) => {
            let why = format!("its chart is of {source}, which is not fetched here");
            return changes.then_some(Outcome::Unknown(why));
        }
    };
    let comparison = Comparison {
        declared: &declared,
        live: live.as_ref(),
        chart,
        given: objects,
    };
    Some(match Box::pin(comparison.changes(client)).await {
        Ok(changes) => Outcome::Changes(changes),
        Err(ComparisonError::Unread(why)) => Outcome::Unknown(why),
        Err(ComparisonError::Fails(why)) => Outcome::Failed(why),
    })
}

/// The chart among the files of this repository, or the source that has it.
fn in_reach(declared: &HelmRelease, trees: &Trees) -> Result<Result<equate_helm::Chart, String>, String> {
    let Some(template) = chart_of(declared) else {
        let reference = declared.spec.chart_ref.as_ref();
        return Err(reference.map_or_else(String::new, |reference| {
            format!("{} {}", reference.kind, reference.name)
        }));
    };
    let source = &template.spec.source_ref;
    let key = (template.metadata.namespace.clone(), Some(source.name.clone()));
    match trees.get(&key) {
        Some(tree) if source.kind == ChartSourceKind::GitRepository => Ok(local::of_source(&template, tree)),
        _ => Err(format!("{} {}", source.kind, source.name)),
    }
}

fn changed(preview: &Preview, id: &ObjectId) -> bool {
    let mut steps = preview.plan.steps();
    steps.any(|step| step.id() == id && step.acts())
}

/// Whether the commit changes an object with its values.
fn reads_changed(declared: &HelmRelease, id: &ObjectId, preview: &Preview) -> bool {
    let acts: Vec<&ObjectId> = preview
        .plan
        .steps()
        .filter(|step| step.acts())
        .map(Step::id)
        .collect();
    declared.spec.values_from.iter().any(|reference| {
        let holder = ObjectId::new("", reference.kind.as_str(), &id.namespace, &reference.name);
        acts.contains(&&holder)
    })
}

#[cfg(test)]
mod tests;
