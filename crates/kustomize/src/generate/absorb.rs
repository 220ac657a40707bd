//! Data that a generated object inherits from the one it replaces or merges into.

use crate::error::Fault;
use crate::resource::{Resource, scalar_text};
use serde_json::{Map, Value};

impl Resource {
    /// Inherits name, namespace, history, labels and annotations; its own labels and annotations win. The
    /// name gets a hash suffix only if both ask for one.
    pub(crate) fn inherit(&mut self, old: &Self) {
        for field in ["labels", "annotations"] {
            let mut texts = texts_of(old.texts(field));
            texts.extend(texts_of(self.texts(field)));
            if texts.is_empty() {
                self.metadata_mut().remove(field);
            } else {
                self.metadata_mut().insert(field.to_owned(), texts.into());
            }
        }
        self.set_name(old.name());
        self.set_namespace(old.object.namespace());
        self.history.clone_from(&old.history);
        self.prefixes.clone_from(&old.prefixes);
        self.suffixes.clone_from(&old.suffixes);
        self.behavior = old.behavior;
        self.needs_hash &= old.needs_hash;
        self.from_chart |= old.from_chart;
        self.changes.clone_from(&old.changes);
    }

    /// Inherits missing data. A Secret's `stringData` counts as data.
    pub(crate) fn merge_data(&mut self, old: &Self) -> Result<(), Fault> {
        let mut data = texts_of(old.object.0.get("data").and_then(Value::as_object));
        if self.kind() == "Secret"
            && let Some(texts) = old.object.0.get("stringData").and_then(Value::as_object)
        {
            for (key, value) in texts {
                let text = scalar_text(value).ok_or_else(|| Fault::StringData { key: key.clone() })?;
                data.insert(key.clone(), super::encode(text.as_bytes()).into());
            }
        }
        self.put("data", data);
        let binary = texts_of(old.object.0.get("binaryData").and_then(Value::as_object));
        self.put("binaryData", binary);
        Ok(())
    }

    fn put(&mut self, field: &str, mut entries: Map<String, Value>) {
        entries.extend(texts_of(self.object.0.get(field).and_then(Value::as_object)));
        if entries.is_empty() {
            self.object.0.remove(field);
        } else {
            self.object.0.insert(field.to_owned(), entries.into());
        }
    }
}

fn texts_of(map: Option<&Map<String, Value>>) -> Map<String, Value> {
    map.into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), scalar_text(value).unwrap_or_default().into()))
        .collect()
}
