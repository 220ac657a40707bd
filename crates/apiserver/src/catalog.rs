//! The resources served at a given state of the store.
//!
//! Custom resources are read from the CRDs of a snapshot, so that discovery never lags behind the store.
//! The registry is rebuilt only when a CRD changes, and a version is compiled again only when its own CRD
//! does: the cost of a request does not depend on CRDs.

use crate::builtin;
use crate::conversion::Conversion;
use crate::crd::{self, CustomVersion};
use crate::registry::{Derived, Resource, SchemaSource, Subresource};
use crate::store::{ResourceId, Snapshot};
use equate_manifest::schema;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

#[derive(Debug, Default)]
pub(crate) struct Registry {
    revision: u64,
    resources: Vec<Arc<Resource>>,
    by_path: HashMap<(String, String, String), Arc<Resource>>,
    group_versions: BTreeSet<(String, String)>,
    /// By CRD uid, generation and version.
    compiled: HashMap<(String, i64, String), Arc<CustomVersion>>,
    /// By CRD uid and generation.
    conversions: HashMap<(String, i64), Arc<Conversion>>,
}

impl Registry {
    pub(crate) fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.by_path
            .get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    pub(crate) fn serves(&self, group: &str, version: &str) -> bool {
        self.group_versions
            .contains(&(group.to_owned(), version.to_owned()))
    }

    pub(crate) fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.resources
            .iter()
            .find(|r| r.group == group && r.kind == kind && r.stored())
    }

    pub(crate) fn by_storage(&self, id: &ResourceId) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|r| r.stored() && r.storage() == *id)
    }

    /// The revision of the last change of the set; a cache key for documents made from it.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    fn build(
        revision: u64,
        resources: Vec<Arc<Resource>>,
        compiled: HashMap<(String, i64, String), Arc<CustomVersion>>,
    ) -> Self {
        let by_path = resources
            .iter()
            .map(|r| {
                (
                    (r.group.clone(), r.version.clone(), r.plural.clone()),
                    Arc::clone(r),
                )
            })
            .collect();
        let group_versions = resources
            .iter()
            .map(|r| (r.group.clone(), r.version.clone()))
            .collect();
        Self {
            revision,
            resources,
            by_path,
            group_versions,
            compiled,
            conversions: HashMap::new(),
        }
    }
}

/// The registry of the newest state, kept until a CRD changes.
pub(crate) struct Catalog {
    builtin: Vec<Arc<Resource>>,
    crds: ResourceId,
    current: RwLock<Arc<Registry>>,
}

impl Catalog {
    pub(crate) fn new() -> Self {
        let builtin = builtin_resources();
        let first = Registry::build(0, builtin.clone(), HashMap::new());
        Self {
            builtin,
            crds: ResourceId::new(crd::GROUP, crd::PLURAL),
            current: RwLock::new(Arc::new(first)),
        }
    }

    pub(crate) fn at(&self, snapshot: &Snapshot) -> Arc<Registry> {
        let revision = snapshot.modified(&self.crds);
        let current = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        if current.revision >= revision {
            return current;
        }
        let next = Arc::new(self.rebuild(revision, snapshot, &current));
        let mut slot = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if slot.revision < revision {
            *slot = Arc::clone(&next);
        }
        next
    }

    fn rebuild(&self, revision: u64, snapshot: &Snapshot, before: &Registry) -> Registry {
        let mut resources = self.builtin.clone();
        let mut compiled = HashMap::new();
        let mut conversions = HashMap::new();
        for (_, entry) in snapshot.list(&self.crds, None) {
            let crd = entry.object();
            if !crd::condition_is_true(crd, "Established") {
                continue;
            }
            let uid = crd["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            let generation = crd["metadata"]["generation"].as_i64().unwrap_or_default();
            let mut compile = |name: &str| {
                let key = (uid.clone(), generation, name.to_owned());
                let known = compiled.get(&key).or_else(|| before.compiled.get(&key));
                let custom = match known {
                    Some(custom) => Arc::clone(custom),
                    None => match CustomVersion::compile(crd, name) {
                        Ok(custom) => Arc::new(custom),
                        Err(error) => {
                            tracing::error!(crd = %crd["metadata"]["name"], version = name, %error, "a stored CRD does not compile");
                            return None;
                        }
                    },
                };
                compiled.insert(key, Arc::clone(&custom));
                Some(custom)
            };
            let key = (uid.clone(), generation);
            let conversion = match before.conversions.get(&key) {
                Some(conversion) => Some(Arc::clone(conversion)),
                None => Conversion::of(crd, &mut compile).map(Arc::new),
            };
            if let Some(conversion) = &conversion {
                conversions.insert(key, Arc::clone(conversion));
            }
            let versions = crd["spec"]["versions"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default();
            for version in versions.iter().filter(|v| v["served"] == true) {
                let name = version["name"].as_str().unwrap_or_default();
                if let Some(custom) = compile(name) {
                    let conversion = conversion.clone();
                    resources.push(Arc::new(custom_resource(crd, name, custom, conversion)));
                }
            }
        }
        Registry {
            conversions,
            ..Registry::build(revision, resources, compiled)
        }
    }
}

pub(crate) fn builtin_resources() -> Vec<Arc<Resource>> {
    schema::kubernetes_resources()
        .iter()
        .map(builtin_resource)
        .map(Arc::new)
        .collect()
}

fn builtin_resource(api: &'static schema::ApiResource) -> Resource {
    Resource {
        group: api.group.clone(),
        version: api.version.clone(),
        plural: api.plural.clone(),
        singular: api.singular.clone(),
        kind: api.kind.clone(),
        list_kind: format!("{}List", api.kind),
        namespaced: api.namespaced,
        short_names: api.short_names.clone(),
        categories: api.categories.clone(),
        verbs: api.verbs.clone(),
        schema: SchemaSource::Builtin(&api.definition),
        subresources: api
            .subresources
            .iter()
            .map(|s| Subresource {
                name: s.name.clone(),
                kind: (s.group.clone(), s.version.clone(), s.kind.clone()),
                verbs: s.verbs.clone(),
            })
            .collect(),
        strategy: builtin::strategy(&api.group, &api.kind),
        derived: Derived::default(),
    }
}

const CUSTOM_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

fn custom_resource(
    crd: &Value,
    version: &str,
    custom: Arc<CustomVersion>,
    conversion: Option<Arc<Conversion>>,
) -> Resource {
    let spec = &crd["spec"];
    let names = &crd["status"]["acceptedNames"];
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let list = |v: &Value| -> Vec<String> {
        v.as_array()
            .map(|a| a.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default()
    };
    let kind = text(&names["kind"]);
    let group = text(&spec["group"]);
    let sub = |name: &str, kind: (String, String, String)| Subresource {
        name: name.to_owned(),
        kind,
        verbs: ["get", "patch", "update"].map(str::to_owned).to_vec(),
    };
    let mut subresources = Vec::new();
    if custom.has_status() {
        subresources.push(sub("status", (group.clone(), version.to_owned(), kind.clone())));
    }
    if custom.scale().is_some() {
        subresources.push(sub(
            "scale",
            ("autoscaling".to_owned(), "v1".to_owned(), "Scale".to_owned()),
        ));
    }
    Resource {
        version: version.to_owned(),
        plural: text(&names["plural"]),
        singular: text(&names["singular"]),
        list_kind: text(&names["listKind"]),
        namespaced: spec["scope"] == "Namespaced",
        short_names: list(&names["shortNames"]),
        categories: list(&names["categories"]),
        verbs: CUSTOM_VERBS.map(str::to_owned).to_vec(),
        strategy: crd::strategy(custom.has_status()),
        schema: SchemaSource::Custom(custom),
        subresources,
        kind,
        group,
        // A definition that never changed has no objects of an older schema.
        derived: Derived::converting(
            crd["metadata"]["generation"]
                .as_i64()
                .is_none_or(|generation| generation > 1),
            conversion,
        ),
    }
}
