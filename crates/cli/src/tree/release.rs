//! The chart and the objects of a HelmRelease. Its status has both; a status that an older helm-controller wrote has
//! no inventory, so the objects come from the release's record in the cluster.

use super::{READ_TIMEOUT, Reader};
use crate::failure::chain;
use equate_apply::id::ObjectId;
use equate_helm::release::{from_object, key};
use equate_manifest::object::Object;
use equate_manifest::yaml;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::fmt;

pub(super) const KIND: &str = "HelmRelease";

/// The chart of the latest revision.
#[derive(Debug)]
pub(super) struct ChartSeen {
    name: String,
    version: String,
    app_version: Option<String>,
}

impl ChartSeen {
    pub(super) fn of(object: &DynamicObject) -> Option<Self> {
        let latest = latest(object)?;
        let text = |field: &str| latest[field].as_str().map(str::to_owned);
        Some(Self {
            name: text("chartName")?,
            version: text("chartVersion")?,
            app_version: text("appVersion"),
        })
    }

    pub(super) fn data(&self) -> Value {
        json!({ "name": self.name, "version": self.version, "appVersion": self.app_version })
    }
}

/// `chart web@1.4.0, app version 7.2`.
impl fmt::Display for ChartSeen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chart {}@{}", self.name, self.version)?;
        match &self.app_version {
            Some(version) => write!(f, ", app version {version}"),
            None => Ok(()),
        }
    }
}

fn latest(object: &DynamicObject) -> Option<&Value> {
    let history = object.data["status"]["history"].as_array()?;
    history.iter().max_by_key(|snapshot| snapshot["version"].as_u64())
}

impl Reader<'_> {
    /// The objects in the record of the latest revision; none without a revision.
    pub(super) async fn recorded(&self, object: &DynamicObject) -> Result<Vec<(ObjectId, String)>, String> {
        let Some(latest) = latest(object) else {
            return Ok(Vec::new());
        };
        if object.data["spec"]["kubeConfig"].is_object() {
            return Err("its record is in another cluster".to_owned());
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let namespace = text(&object.data["status"]["storageNamespace"]);
        let name = key(
            &text(&latest["name"]),
            latest["version"].as_u64().unwrap_or_default(),
        );
        let id = ObjectId::new("", "Secret", &namespace, &name);
        let secret = self.cluster.get(&id, "v1", READ_TIMEOUT).await;
        let secret = secret.map_err(|error| format!("cannot read {id}: {}", chain(&error)))?;
        let secret = secret.ok_or_else(|| format!("{id} does not exist"))?;
        let release =
            from_object(&Value::Object(secret.0)).map_err(|error| format!("{id}: {}", chain(&error)))?;
        let documents = yaml::load(&release.manifest, &yaml::Options::default());
        let documents = documents.map_err(|error| format!("the manifest in {id}: {error}"))?;
        let mut found = Vec::new();
        for document in documents {
            if let Some(object) = Object::from_value(document.value) {
                found.push(self.recorded_object(&object, &release.namespace).await);
            }
        }
        Ok(found)
    }

    /// A recorded object without a namespace is in that of the release, if its kind has namespaces.
    async fn recorded_object(&self, object: &Object, namespace: &str) -> (ObjectId, String) {
        let mut id = ObjectId::of(object);
        let version = object
            .api_version()
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        if id.namespace.is_empty() {
            let kind = match object.gvk() {
                Some(gvk) => self.cluster.resolve(&gvk).await.ok(),
                None => None,
            };
            if kind.is_none_or(|kind| kind.namespaced) {
                id = ObjectId::new(&id.group, &id.kind, namespace, &id.name);
            }
        }
        (id, version)
    }
}
