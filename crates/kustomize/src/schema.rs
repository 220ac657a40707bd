//! The schema of kinds: their scope and their merging lists.
//!
//! Frozen at Kubernetes v1.21.2, as in kustomize: a newer kind counts as namespaced and its lists are
//! replaced. As in Flux, `openapi.path` adds definitions, which replace those of the same name.

use serde_json::Value;
use std::collections::HashMap;
use std::sync::LazyLock;

static BUILT_IN: LazyLock<Schema> =
    LazyLock::new(|| Schema::from_table(include_str!("../data/schema-v1.21.2.txt")));

#[derive(Debug, Clone, Default)]
pub(crate) struct Schema {
    kinds: HashMap<String, HashMap<String, Kind>>,
    types: Vec<HashMap<String, Field>>,
    names: HashMap<String, usize>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Kind {
    cluster_scoped: bool,
    node: Option<usize>,
}

#[derive(Debug, Clone)]
enum Field {
    Object(usize),
    /// A merging list: the type of its items and their keys.
    List(Option<usize>, Vec<String>),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'s> {
    schema: &'s Schema,
    index: usize,
}

/// The merge rules of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FieldType<'s> {
    /// Unknown: maps merge, lists are replaced.
    Unknown,
    Object(Node<'s>),
    /// A list that merges by keys; without keys, as a set.
    MergingList(Option<Node<'s>>, &'s [String]),
}

impl Schema {
    pub(crate) fn built_in() -> &'static Self {
        &BUILT_IN
    }

    pub(crate) fn is_cluster_scoped(&self, api_version: &str, kind: &str) -> bool {
        self.kind(api_version, kind)
            .is_some_and(|kind| kind.cluster_scoped)
    }

    pub(crate) fn root(&self, api_version: &str, kind: &str) -> FieldType<'_> {
        match self.kind(api_version, kind).and_then(|kind| kind.node) {
            Some(index) => FieldType::Object(Node { schema: self, index }),
            None => FieldType::Unknown,
        }
    }

    fn kind(&self, api_version: &str, kind: &str) -> Option<Kind> {
        self.kinds.get(api_version)?.get(kind).copied()
    }

    /// Reads the table in `data/`; its header describes the format.
    fn from_table(table: &str) -> Self {
        let mut schema = Self::default();
        let index = |word: &str| word.parse::<usize>().ok();
        for line in table.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            match words[..] {
                ["kind", api_version, kind, scope, node] => {
                    let kinds = schema.kinds.entry(api_version.to_owned()).or_default();
                    kinds.insert(
                        kind.to_owned(),
                        Kind {
                            cluster_scoped: scope == "cluster",
                            node: index(node),
                        },
                    );
                }
                ["type", _, name] => {
                    schema.names.insert(name.to_owned(), schema.types.len());
                    schema.types.push(HashMap::new());
                }
                [field, "list", items, ref keys @ ..] if line.starts_with(' ') => {
                    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
                    if let Some(last) = schema.types.last_mut() {
                        last.insert(field.to_owned(), Field::List(index(items), keys));
                    }
                }
                [field, node] if line.starts_with(' ') => {
                    if let (Some(last), Some(node)) = (schema.types.last_mut(), index(node)) {
                        last.insert(field.to_owned(), Field::Object(node));
                    }
                }
                _ => {}
            }
        }
        schema
    }

    /// Adds an OpenAPI v2 document, such as that of `openapi.path`.
    pub(crate) fn extend(&mut self, document: &Value) {
        let Some(definitions) = document.get("definitions").and_then(Value::as_object) else {
            return;
        };
        for name in definitions.keys() {
            if !self.names.contains_key(name) {
                self.names.insert(name.clone(), self.types.len());
                self.types.push(HashMap::new());
            }
        }
        let mut reader = OpenApi { schema: self };
        for (name, definition) in definitions {
            reader.definition(name, definition);
        }
        reader.scopes(document);
    }
}

struct OpenApi<'s> {
    schema: &'s mut Schema,
}

impl OpenApi<'_> {
    fn definition(&mut self, name: &str, definition: &Value) {
        let Some(at) = self.schema.names.get(name).copied() else {
            return;
        };
        let kinds = definition
            .get("x-kubernetes-group-version-kind")
            .and_then(Value::as_array);
        for kind in kinds.into_iter().flatten() {
            let text = |field: &str| kind.get(field).and_then(Value::as_str).unwrap_or_default();
            let api_version = match text("group") {
                "" => text("version").to_owned(),
                group => format!("{group}/{}", text("version")),
            };
            let kinds = self.schema.kinds.entry(api_version).or_default();
            kinds.entry(text("kind").to_owned()).or_default().node = Some(at);
        }
        self.fields(at, definition);
    }

    fn fields(&mut self, at: usize, object: &Value) {
        let mut fields = HashMap::new();
        for (name, property) in object
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            if let Some(field) = self.field(property) {
                fields.insert(name.clone(), field);
            }
        }
        if let Some(additional) = object
            .get("additionalProperties")
            .filter(|value| value.is_object())
            && let Some(field) = self.field(additional)
        {
            fields.insert("*".to_owned(), field);
        }
        self.schema.types[at] = fields;
    }

    fn field(&mut self, property: &Value) -> Option<Field> {
        if property.get("type").and_then(Value::as_str) != Some("array") {
            return self.node(property).map(Field::Object);
        }
        let text = |field: &str| property.get(field).and_then(Value::as_str);
        let strategies = text("x-kubernetes-patch-strategy").unwrap_or_default();
        if !strategies.split(',').any(|strategy| strategy == "merge") {
            return None;
        }
        let keys = match property
            .get("x-kubernetes-list-map-keys")
            .and_then(Value::as_array)
        {
            Some(keys) => keys
                .iter()
                .filter_map(|key| key.as_str().map(str::to_owned))
                .collect(),
            None => text("x-kubernetes-patch-merge-key")
                .map(str::to_owned)
                .into_iter()
                .collect(),
        };
        let items = property.get("items").and_then(|items| self.node(items));
        Some(Field::List(items, keys))
    }

    /// The type a property refers to, or a new one for an inline schema.
    fn node(&mut self, property: &Value) -> Option<usize> {
        if let Some(reference) = property.get("$ref").and_then(Value::as_str) {
            return self.schema.names.get(reference.rsplit('/').next()?).copied();
        }
        if property.get("properties").is_none() && property.get("additionalProperties").is_none() {
            return None;
        }
        let at = self.schema.types.len();
        self.schema.types.push(HashMap::new());
        self.fields(at, property);
        Some(at)
    }

    /// A kind with a path without `{namespace}`, and none with it, is cluster-scoped.
    fn scopes(&mut self, document: &Value) {
        let mut namespaced: HashMap<(String, String), bool> = HashMap::new();
        for (path, item) in document
            .get("paths")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let Some(kind) = item
                .get("get")
                .and_then(|get| get.get("x-kubernetes-group-version-kind"))
            else {
                continue;
            };
            if !path.ends_with("/{name}") && !path.ends_with('}') {
                continue;
            }
            let text = |field: &str| kind.get(field).and_then(Value::as_str).unwrap_or_default();
            let api_version = match text("group") {
                "" => text("version").to_owned(),
                group => format!("{group}/{}", text("version")),
            };
            *namespaced
                .entry((api_version, text("kind").to_owned()))
                .or_default() |= path.contains("namespaces/{namespace}");
        }
        for ((api_version, kind), namespaced) in namespaced {
            let kinds = self.schema.kinds.entry(api_version).or_default();
            kinds.entry(kind).or_default().cluster_scoped = !namespaced;
        }
    }
}

impl<'s> Node<'s> {
    pub(crate) fn field(self, name: &str) -> FieldType<'s> {
        let fields = &self.schema.types[self.index];
        let node = |index: usize| Node {
            schema: self.schema,
            index,
        };
        match fields.get(name).or_else(|| fields.get("*")) {
            None => FieldType::Unknown,
            Some(Field::Object(index)) => FieldType::Object(node(*index)),
            Some(Field::List(items, keys)) => FieldType::MergingList(items.map(node), keys),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_and_merge_keys_match_1_21() {
        let schema = Schema::built_in();
        for (api_version, kind, expected) in [
            ("v1", "Namespace", true),
            ("rbac.authorization.k8s.io/v1", "ClusterRole", true),
            ("v1", "Service", false),
            ("example.com/v1", "Thing", false),
        ] {
            assert_eq!(schema.is_cluster_scoped(api_version, kind), expected, "{kind}");
        }
        let mut at = schema.root("apps/v1", "Deployment");
        for field in ["spec", "template", "spec"] {
            let FieldType::Object(node) = at else {
                panic!("{field}: {at:?}");
            };
            at = node.field(field);
        }
        let FieldType::Object(pod) = at else {
            panic!("{at:?}");
        };
        let FieldType::MergingList(Some(container), [name]) = pod.field("containers") else {
            panic!("containers do not merge by one key");
        };
        assert_eq!(name, "name");
        let FieldType::MergingList(_, keys) = container.field("ports") else {
            panic!("ports do not merge");
        };
        assert_eq!(keys, ["containerPort", "protocol"]);
        assert!(matches!(pod.field("tolerations"), FieldType::Unknown));
        assert!(matches!(
            schema.root("autoscaling/v2", "HorizontalPodAutoscaler"),
            FieldType::Unknown
        ));
    }
}
