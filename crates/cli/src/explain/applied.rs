//! Finds out which object applies another, and which fields others wrote.

use super::origin::{self, Origin};
use crate::diagnosis::Reader;
use crate::failure::chain;
use crate::kinds::Kinds;
use equate_api::kustomize::Kustomization;
use equate_api::meta::DEFAULT_NAMESPACE;
use equate_apply::id::ObjectId;
use equate_manifest::fieldpath::{Path, PathElement, Set};
use equate_manifest::object::Object;
use jiff::Timestamp;
use serde_json::Value;

/// Owner references that are followed upwards.
const OWNERS_MAX: usize = 8;
/// Fields that are shown.
const FIELDS_MAX: usize = 10;
const VALUE_CHARS_MAX: usize = 80;

/// Clients that people use, by the beginning of their field manager.
const BY_HAND: [&str; 7] = [
    "kubectl",
    "k9s",
    "node-fetch",
    "Mozilla",
    "lens",
    "dashboard",
    "OpenAPI-Generator",
];
/// Kubernetes' own components, and the clients that request a reconciliation.
const OWN: [&str; 7] = [
    "kube-controller-manager",
    "kube-scheduler",
    "kube-apiserver",
    "kubelet",
    "cloud-controller-manager",
    "equate",
    "flux",
];

/// Parts of the paths of fields that clients and controllers write for themselves.
const MECHANICAL: [&str; 3] = [
    "last-applied-configuration",
    "reconcile.fluxcd.io/",
    ".metadata.finalizers",
];

/// The creator of the first objects of a loop, and their kinds.
const LOOP: &str = "`equate up`";
const LOOP_KINDS: [&str; 2] = ["GitRepository", "Kustomization"];

/// Label prefixes of owners, with their kinds and field managers.
const APPLIERS: [(&str, &str, &str); 2] = [
    (
        "kustomize.toolkit.fluxcd.io",
        "Kustomization",
        "kustomize-controller",
    ),
    ("helm.toolkit.fluxcd.io", "HelmRelease", "helm-controller"),
];

/// The owner of an object and its declaration.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Applied {
    /// The objects from this one's owner to the one in git, `ReplicaSet/shop/web-1`.
    pub(crate) owners: Vec<String>,
    /// `Kustomization/flux-system/shop`.
    pub(crate) by: Option<String>,
    pub(crate) revision: Option<String>,
    /// Why the owner in the labels does not apply it.
    pub(crate) doubt: Option<String>,
    pub(crate) origin: Option<Origin>,
    pub(crate) written: Vec<Written>,
}

/// A field that another manager than its owner's wrote.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Written {
    pub(crate) path: String,
    pub(crate) value: String,
    pub(crate) manager: String,
    pub(crate) when: Option<Timestamp>,
    pub(crate) by_hand: bool,
    /// The value in git, if the file was found and has one.
    pub(crate) declared: Option<String>,
}

struct Applier {
    kind: &'static str,
    group: &'static str,
    manager: &'static str,
    namespace: String,
    name: String,
}

impl Applier {
    fn of(object: &Object) -> Option<Self> {
        let labels = object.metadata()?.get("labels")?;
        APPLIERS.iter().find_map(|(group, kind, manager)| {
            let label = |name: &str| labels.get(format!("{group}/{name}"))?.as_str();
            Some(Self {
                kind,
                group,
                manager,
                namespace: label("namespace")?.to_owned(),
                name: label("name")?.to_owned(),
            })
        })
    }

    fn id(&self) -> ObjectId {
        ObjectId::new(self.group, self.kind, &self.namespace, &self.name)
    }
}

/// The Kustomization or HelmRelease that the labels of an object, or of its controller, name.
pub(crate) async fn labelled_owner(reader: &Reader, object: &Object) -> Option<ObjectId> {
    let top = Top::of(reader, object).await;
    Applier::of(&top.object).map(|applier| applier.id())
}

/// The object that controls another one, directly or through others.
struct Top {
    object: Object,
    owners: Vec<String>,
    doubt: Option<String>,
}

impl Top {
    async fn of(reader: &Reader, object: &Object) -> Self {
        let mut top = Self {
            object: object.clone(),
            owners: Vec::new(),
            doubt: None,
        };
        while let Some((id, version)) = controller_of(&top.object) {
            if top.owners.len() == OWNERS_MAX || Applier::of(&top.object).is_some() {
                break;
            }
            top.owners.push(id.to_string());
            top.object = match reader.object(&id, &version).await {
                Ok(Some(owner)) => owner,
                Ok(None) => {
                    top.doubt = Some(format!("{id} does not exist"));
                    break;
                }
                Err(error) => {
                    top.doubt = Some(format!("cannot read {id}: {}", chain(&error)));
                    break;
                }
            };
        }
        top
    }
}

/// Looks for the owner of an object, and for its file from this directory.
pub(super) async fn find(
    reader: &Reader,
    kinds: &Kinds,
    object: &Object,
    directory: &std::path::Path,
) -> Applied {
    let Top {
        object: declared,
        owners,
        doubt,
    } = Top::of(reader, object).await;
    let mut found = Applied {
        owners,
        doubt,
        ..Applied::default()
    };
    let mut desired = None;
    let applier = Applier::of(&declared);
    if let Some(applier) = &applier {
        desired = applied_by(reader, kinds, &declared, applier, directory, &mut found).await;
    }
    match &applier {
        None if is_of_loop(kinds, &declared) => {
            found.by = Some(LOOP.to_owned());
            found.written = written(&declared, None, None);
        }
        Some(applier) => found.written = written(&declared, Some(applier.manager), desired.as_ref()),
        None if found.doubt.is_none() => found.doubt = writers(&declared),
        None => {}
    }
    found
}

/// Whether `equate up` itself made the object, to begin with.
fn is_of_loop(kinds: &Kinds, object: &Object) -> bool {
    let id = ObjectId::of(object);
    kinds.are_in_up()
        && (&*id.namespace, &*id.name) == (DEFAULT_NAMESPACE, DEFAULT_NAMESPACE)
        && LOOP_KINDS.contains(&&*id.kind)
}

/// The writers of an object that nothing declares.
fn writers(object: &Object) -> Option<String> {
    let entries = object.metadata()?.get("managedFields")?.as_array()?;
    let mut names: Vec<&str> = entries
        .iter()
        .filter(|entry| entry["subresource"] != "status")
        .filter_map(|entry| entry["manager"].as_str())
        .filter(|manager| !OWN.contains(manager))
        .collect();
    names.dedup();
    (!names.is_empty()).then(|| format!("written by {}", names.join(", ")))
}

/// Fills in the applier; returns the object as its file declares it.
async fn applied_by(
    reader: &Reader,
    kinds: &Kinds,
    object: &Object,
    applier: &Applier,
    directory: &std::path::Path,
    found: &mut Applied,
) -> Option<Object> {
    found.by = Some(applier.id().to_string());
    let owner = match reader.object(&applier.id(), "").await {
        Ok(Some(owner)) => owner,
        Ok(None) => {
            found.doubt = Some(format!("{} does not exist", applier.id()));
            return None;
        }
        Err(error) => {
            found.doubt = Some(format!("cannot read {}: {}", applier.id(), chain(&error)));
            return None;
        }
    };
    let id = ObjectId::of(object);
    let status = owner.0.get("status");
    let text = |field: &str| {
        status
            .and_then(|status| status.get(field)?.as_str())
            .map(str::to_owned)
    };
    found.revision = text("lastAppliedRevision").or_else(|| text("lastAttemptedRevision"));
    if applier.kind != "Kustomization" {
        // a chart has no file of this repository; that of its release is the next best
        let above = Applier::of(&owner)?;
        found.owners.push(found.by.take()?);
        let manager = found.by.replace(above.id().to_string());
        debug_assert!(manager.is_none(), "the release was moved to the owners");
        let kustomization = kustomization(reader, &above.id()).await?;
        let (origin, _) = origin::find(reader, kinds, &kustomization, &ObjectId::of(&owner), directory).await;
        found.origin = Some(origin);
        return None;
    }
    let entries = status.and_then(|status| status.get("inventory")?.get("entries")?.as_array());
    let listed = entries.into_iter().flatten().any(|entry| {
        let entry = entry["id"].as_str().unwrap_or_default();
        ObjectId::from_inventory(entry).is_ok_and(|entry| entry == id)
    });
    if !listed {
        found.doubt = Some(format!(
            "its labels name {}, which does not list it in its inventory",
            applier.id()
        ));
    }
    let kustomization = serde_json::from_value(owner.into_value()).ok()?;
    let (origin, desired) = origin::find(reader, kinds, &kustomization, &id, directory).await;
    found.origin = Some(origin);
    desired
}

async fn kustomization(reader: &Reader, id: &ObjectId) -> Option<Kustomization> {
    let object = reader.object(id, "").await.ok()??;
    serde_json::from_value(object.into_value()).ok()
}

/// The controller in an object's owner references, with its version.
fn controller_of(object: &Object) -> Option<(ObjectId, String)> {
    let owners = object.metadata()?.get("ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let (group, version) = match owner["apiVersion"].as_str()?.split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", owner["apiVersion"].as_str()?),
    };
    let id = ObjectId::new(
        group,
        owner["kind"].as_str()?,
        object.namespace(),
        owner["name"].as_str()?,
    );
    Some((id, version.to_owned()))
}

/// The fields that others wrote, by hand first.
pub(super) fn written(object: &Object, owner: Option<&str>, desired: Option<&Object>) -> Vec<Written> {
    let secret = object.kind() == "Secret";
    let entries = object
        .metadata()
        .and_then(|meta| meta.get("managedFields")?.as_array());
    let mut found = Vec::new();
    for entry in entries.into_iter().flatten() {
        let text = |field: &str| entry[field].as_str().unwrap_or_default();
        let manager = text("manager");
        let is_own = Some(manager) == owner || OWN.contains(&manager);
        if is_own || text("subresource") == "status" {
            continue;
        }
        let Ok(fields) = Set::from_fields_v1(&entry["fieldsV1"]) else {
            continue;
        };
        let by_hand = BY_HAND.iter().any(|client| manager.starts_with(client));
        for path in fields.leaves().paths() {
            let shown = path.to_string();
            if MECHANICAL.iter().any(|part| shown.contains(part)) {
                continue;
            }
            let Some(value) = value_at(object, &path) else {
                continue;
            };
            let masked = secret && (shown.starts_with(".data") || shown.starts_with(".stringData"));
            let declared = desired.and_then(|desired| value_at(desired, &path));
            found.push(Written {
                value: show(value, masked),
                declared: declared.map(|value| show(value, masked)),
                path: shown,
                manager: manager.to_owned(),
                when: text("time").parse().ok(),
                by_hand,
            });
        }
    }
    // the fields that differ from git come first
    found.sort_by_key(|one| {
        (
            !one.by_hand,
            one.declared.as_ref().is_none_or(|git| *git == one.value),
        )
    });
    found.truncate(FIELDS_MAX);
    found
}

fn show(value: &Value, masked: bool) -> String {
    if masked {
        return "***".to_owned();
    }
    let text = value.to_string();
    match text.chars().count() > VALUE_CHARS_MAX {
        true => text.chars().take(VALUE_CHARS_MAX).chain("...".chars()).collect(),
        false => text,
    }
}

fn value_at<'o>(object: &'o Object, path: &Path) -> Option<&'o Value> {
    let (first, rest) = path.0.split_first()?;
    let PathElement::Field(name) = first else {
        return None;
    };
    rest.iter()
        .try_fold(object.0.get(&**name)?, |value, element| match element {
            PathElement::Field(name) => value.get(&**name),
            PathElement::Key(keys) => value.as_array()?.iter().find(|item| {
                keys.iter().all(|(name, wanted)| {
                    let found = item.get(&**name);
                    // a protocol that is not written means TCP
                    found == Some(wanted) || (found.is_none() && wanted == "TCP")
                })
            }),
            PathElement::Value(wanted) => value.as_array()?.iter().find(|item| *item == &**wanted),
            PathElement::Index(at) => value.as_array()?.get(usize::try_from(*at).ok()?),
        })
}
