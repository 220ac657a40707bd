//! The changes inside a release: its chart and values as declared, rendered, against the record of its newest
//! deployed revision. For previews: it writes nothing, and shows no value of a Secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use equate_api::helm::HelmRelease;
use equate_apply::cluster::Cluster;
use equate_apply::difference::{Difference, Shown, differences};
use equate_apply::id::ObjectId;
use equate_helm::release::{RecordedChart, Status};
use equate_helm::{Chart, Values};
use equate_manifest::object::Object;
use kube::Client;
use serde_json::Value;

use super::declared::Declared;
use super::objects;
use super::offline::{ClusterSeen, Offline};
use super::storage::{Record, Storage, StorageError};
use super::values::{self, Composed, Holders, ValuesError};
use crate::masks::Masks;

/// The change of one object of a release.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// It would be created.
    Create(ObjectId),
    /// These fields would change.
    Patch(ObjectId, Vec<Difference>),
    /// It would be deleted.
    Delete(ObjectId),
}

/// Why a release is not compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComparisonError {
    /// The caller cannot read what it takes; the release may be all right.
    #[error("{0}")]
    Unread(String),
    /// The release would fail.
    #[error("{0}")]
    Fails(String),
}

impl From<ValuesError> for ComparisonError {
    fn from(error: ValuesError) -> Self {
        let why = error.to_string();
        match error {
            ValuesError::Unreachable(_) => Self::Unread(why),
            ValuesError::Reference { .. }
            | ValuesError::TooMany(_)
            | ValuesError::TooLarge
            | ValuesError::Inline => Self::Fails(why),
        }
    }
}

impl From<StorageError> for ComparisonError {
    fn from(error: StorageError) -> Self {
        Self::Unread(format!("cannot read the records of the release: {error}"))
    }
}

/// A release to compare.
#[derive(Debug)]
pub struct Comparison<'a> {
    /// As declared, with its status in the cluster.
    pub declared: &'a HelmRelease,
    /// As it is in the cluster; none if it is new.
    pub live: Option<&'a HelmRelease>,
    /// Its chart.
    pub chart: Chart,
    /// ConfigMaps and Secrets that come before those of the cluster.
    pub given: &'a [Object],
}

impl Comparison<'_> {
    /// Renders the release and compares its objects, without those of hooks.
    ///
    /// # Errors
    /// The values, the records or the chart cannot be read, or the chart cannot be rendered.
    pub async fn changes(self, client: &Client) -> Result<Vec<Change>, ComparisonError> {
        let declared = Declared::from(self.declared);
        let namespace = &declared.key.namespace;
        let holders = Holders {
            given: self.given,
            client: Some(client),
        };
        let spec = &self.declared.spec;
        let composed = values::compose(holders, namespace, spec.values.as_ref(), &spec.values_from);
        let composed = composed.await?;
        let before = match self.live {
            None => Before::Nothing,
            Some(live) => {
                let spec = &live.spec;
                let before = values::compose(client, namespace, spec.values.as_ref(), &spec.values_from);
                before.await.map_or(Before::Unknown, Before::Values)
            }
        };
        let cluster = Cluster::new(client.clone());
        let record = deployed(&cluster, &declared).await?;
        let config = record.as_ref().map(|record| &record.release.config);
        let masks = masks(&composed, &before, config);
        let recorded_chart = record.as_ref().and_then(|record| record.release.chart.as_ref());
        let recorded_version = recorded_chart.map(RecordedChart::version);
        let rendering = Offline {
            release: self.declared,
            chart: with_recorded_metadata(self.chart, recorded_version),
            values: &composed,
            cluster: ClusterSeen::Live(client),
        };
        let rendered = rendering.render().await.map_err(ComparisonError::Fails)?;
        let after = by_id(&cluster, rendered.held, &declared.namespace).await;
        let recorded = match &record {
            None => Vec::new(),
            Some(record) => objects::read(&record.release.manifest).map_err(ComparisonError::Unread)?,
        };
        let recorded = by_id(&cluster, recorded, &declared.namespace).await;
        let mut changes = changes(&recorded, &after, &masks);
        if matches!(before, Before::Unknown) {
            hide_recorded(&mut changes);
        }
        Ok(changes)
    }
}

/// The values of the release as it is in the cluster.
enum Before {
    Nothing,
    Values(Composed),
    /// They cannot be composed, so each value of the record may be one of a Secret.
    Unknown,
}

/// A chart of a revision has build metadata in its version, which changes with each commit: it is no difference.
fn with_recorded_metadata(mut chart: Chart, recorded: Option<&str>) -> Chart {
    let same = recorded.filter(|recorded| {
        let bare = recorded.split_once('+').map(|(version, _)| version);
        bare == Some(&*chart.metadata.version)
    });
    if let Some(version) = same {
        version.clone_into(&mut Arc::make_mut(&mut chart.metadata).version);
    }
    chart
}

fn hide_recorded(changes: &mut [Change]) {
    for change in changes {
        let Change::Patch(_, fields) = change else {
            continue;
        };
        for before in fields.iter_mut().filter_map(|field| field.before.as_mut()) {
            *before = Shown::Masked;
        }
    }
}

/// The newest revision that was deployed.
async fn deployed(cluster: &Cluster, declared: &Declared) -> Result<Option<Record>, StorageError> {
    let storage = Storage::of_command(cluster, declared);
    let all = storage.list().await?;
    let is_deployed = |status: &Status| *status == Status::Deployed;
    let newest = all
        .iter()
        .rev()
        .find(|stored| is_deployed(&stored.revision.status));
    match newest.or(all.last()) {
        None => Ok(None),
        Some(stored) => storage.get(stored.revision.version).await,
    }
}

/// The values of Secrets: those that are declared, those in the cluster, and those of the record at the places
/// that have one now. The Secret may have changed since the revision.
fn masks(composed: &Composed, before: &Before, config: Option<&Values>) -> Masks {
    let mut masks = Masks::clone(&composed.masks);
    let before = match before {
        Before::Values(before) => Some(before),
        Before::Nothing | Before::Unknown => None,
    };
    for now in [Some(composed), before].into_iter().flatten() {
        masks.extend(&now.masks);
        if let Some(config) = config {
            for (key, value) in now.values.iter() {
                add_recorded(&mut masks, &now.masks, value, config.get(key));
            }
        }
    }
    masks
}

fn add_recorded(masks: &mut Masks, of: &Masks, now: &Value, recorded: Option<&Value>) {
    match (now, recorded) {
        (Value::Object(now), Some(Value::Object(recorded))) => {
            for (key, value) in now {
                add_recorded(masks, of, value, recorded.get(key));
            }
        }
        (Value::Array(now), Some(Value::Array(recorded))) => {
            for (at, value) in now.iter().enumerate() {
                add_recorded(masks, of, value, recorded.get(at));
            }
        }
        (Value::String(_) | Value::Number(_), Some(recorded)) if of.hides(now) => match recorded {
            Value::String(text) => masks.add(text),
            Value::Number(number) => masks.add(&number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {}
        },
        _ => {}
    }
}

/// The objects by their ids; one without a namespace is in that of the release, if its kind has namespaces.
async fn by_id(cluster: &Cluster, all: Vec<Object>, namespace: &str) -> BTreeMap<ObjectId, Object> {
    let mut found = BTreeMap::new();
    for object in all {
        let mut id = ObjectId::of(&object);
        if id.namespace.is_empty() {
            let kind = match object.gvk() {
                Some(gvk) => cluster.resolve(&gvk).await.ok(),
                None => None,
            };
            // a kind that the cluster does not serve yet
            if kind.is_none_or(|kind| kind.namespaced) {
                id = ObjectId::new(&id.group, &id.kind, namespace, &id.name);
            }
        }
        found.insert(id, object);
    }
    found
}

fn changes(
    before: &BTreeMap<ObjectId, Object>,
    after: &BTreeMap<ObjectId, Object>,
    masks: &Masks,
) -> Vec<Change> {
    let mut found = Vec::new();
    for (id, is) in after {
        let Some(was) = before.get(id) else {
            found.push(Change::Create(id.clone()));
            continue;
        };
        let mut fields = differences(was, is);
        for field in &mut fields {
            for shown in [&mut field.before, &mut field.after].into_iter().flatten() {
                if matches!(shown, Shown::Value(value) if masks.hides(value)) {
                    *shown = Shown::Masked;
                }
            }
        }
        if !fields.is_empty() {
            found.push(Change::Patch(id.clone(), fields));
        }
    }
    let gone = before.keys().filter(|id| !after.contains_key(*id));
    found.extend(gone.cloned().map(Change::Delete));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[expect(clippy::needless_pass_by_value, reason = "callers write it in place")]
    fn map(data: Value) -> BTreeMap<ObjectId, Object> {
        let object =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data });
        let object = Object::from_value(object).unwrap();
        BTreeMap::from([(ObjectId::of(&object), object)])
    }

    fn lines(changes: &[Change]) -> Vec<String> {
        let fields = changes.iter().flat_map(|change| -> Vec<String> {
            match change {
                Change::Patch(_, fields) => fields.iter().map(ToString::to_string).collect(),
                other => vec![format!("{other:?}")],
            }
        });
        fields.collect()
    }

    #[test]
    fn values_of_secrets_are_masked_in_every_object() {
        let mut masks = Masks::default();
        masks.add("hunter2");
        masks.add("hunter1");
        let before = map(json!({ "url": "postgres://hunter1@db", "size": "1" }));
        let after = map(json!({ "url": "postgres://hunter2@db", "size": "2" }));
        assert_eq!(
            lines(&changes(&before, &after, &masks)),
            ["~ .data.size: \"1\" -> \"2\"", "~ .data.url: *** -> ***"]
        );
        assert!(changes(&after, &after, &masks).is_empty());
        assert_eq!(changes(&after, &BTreeMap::new(), &masks).len(), 1);
    }

    #[test]
    fn replaced_values_of_secrets_are_masked() {
        let mut own = Masks::default();
        own.add("hunter2");
        let now = json!({ "db": { "password": "hunter2", "user": "web" } });
        let recorded = json!({ "db": { "password": "hunter0", "user": "old" } });
        let mut masks = own.clone();
        add_recorded(&mut masks, &own, &now, Some(&recorded));
        assert!(masks.hides(&json!("x hunter0 y")));
        assert!(!masks.hides(&json!("old")));
    }
}
