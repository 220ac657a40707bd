//! Reads and changes objects of the known kinds, and names failed requests.

use crate::failure::Failure;
use crate::kinds::Kind;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::Value;

const FIELD_MANAGER: &str = "equate";

/// Compared by code: the answer for a group that is not served is plain text without a reason.
const NOT_FOUND: u16 = 404;

pub(crate) const NOT_SERVED: &str =
    "Flux's CRDs are not installed in this cluster; check --kubeconfig and --context";

#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("{kind} {name} not found in namespace {namespace}")]
    NotFound {
        kind: &'static str,
        name: String,
        namespace: String,
    },
    #[error("the cluster does not serve {0}")]
    NotServed(&'static str),
    #[error("could not {verb} {what}")]
    Failed {
        verb: &'static str,
        what: String,
        #[source]
        source: Box<kube::Error>,
    },
}

impl Failure for RequestError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotFound { .. } => {
                Some("list all objects with `equate get all -A`, or select another namespace with -n")
            }
            Self::NotServed(_) => Some(NOT_SERVED),
            Self::Failed { source, .. } if !matches!(**source, kube::Error::Api(_)) => {
                Some("check that the cluster runs, or select another with --kubeconfig and --context")
            }
            Self::Failed { .. } => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Namespaces {
    One(String),
    All,
}

impl std::fmt::Display for Namespaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::One(namespace) => write!(f, "in namespace {namespace}"),
            Self::All => f.write_str("in any namespace"),
        }
    }
}

pub(crate) fn api(client: &Client, kind: &Kind, namespaces: &Namespaces) -> Api<DynamicObject> {
    match namespaces {
        Namespaces::One(namespace) => Api::namespaced_with(client.clone(), namespace, &kind.resource()),
        Namespaces::All => Api::all_with(client.clone(), &kind.resource()),
    }
}

pub(crate) async fn get(
    client: &Client,
    kind: &Kind,
    namespace: &str,
    name: &str,
) -> Result<DynamicObject, RequestError> {
    let namespaces = Namespaces::One(namespace.to_owned());
    match api(client, kind, &namespaces).get(name).await {
        Ok(object) => Ok(object),
        Err(kube::Error::Api(status)) if status.code == NOT_FOUND => {
            // the answer is the same if the kind is not served: list to tell the two apart
            list(client, kind, &namespaces, None, Some(1)).await?;
            Err(RequestError::NotFound {
                kind: kind.kind,
                name: name.to_owned(),
                namespace: namespace.to_owned(),
            })
        }
        Err(source) => Err(failed("read", kind, name)(source)),
    }
}

pub(crate) async fn list(
    client: &Client,
    kind: &Kind,
    namespaces: &Namespaces,
    selector: Option<&str>,
    limit: Option<u32>,
) -> Result<Vec<DynamicObject>, RequestError> {
    let parameters = ListParams {
        label_selector: selector.map(str::to_owned),
        limit,
        ..ListParams::default()
    };
    match api(client, kind, namespaces).list(&parameters).await {
        Ok(list) => {
            let mut items = list.items;
            items.sort_by_key(|object| (object.metadata.namespace.clone(), object.metadata.name.clone()));
            Ok(items)
        }
        Err(kube::Error::Api(status)) if status.code == NOT_FOUND => {
            Err(RequestError::NotServed(kind.plural))
        }
        Err(source) => Err(RequestError::Failed {
            verb: "list",
            what: format!("{} {namespaces}", kind.plural),
            source: Box::new(source),
        }),
    }
}

pub(crate) async fn patch(
    client: &Client,
    kind: &Kind,
    namespace: &str,
    name: &str,
    patch: &Value,
) -> Result<DynamicObject, RequestError> {
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let namespaces = Namespaces::One(namespace.to_owned());
    let answer = api(client, kind, &namespaces)
        .patch(name, &parameters, &Patch::Merge(patch))
        .await;
    answer.map_err(failed("change", kind, name))
}

pub(crate) fn failed(verb: &'static str, kind: &Kind, name: &str) -> impl Fn(kube::Error) -> RequestError {
    let what = format!("{} {name}", kind.kind);
    move |source| RequestError::Failed {
        verb,
        what: what.clone(),
        source: Box::new(source),
    }
}

pub(crate) fn condition<'a>(object: &'a DynamicObject, kind: &str) -> Option<&'a Value> {
    let conditions = object.data["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

pub(crate) fn text<'a>(condition: Option<&'a Value>, field: &str) -> &'a str {
    condition
        .and_then(|condition| condition[field].as_str())
        .unwrap_or_default()
}

/// The status of an object that needs no reconciliation.
pub(crate) const STATIC: &str = "static: nothing to reconcile";

/// Whether no controller reconciles it: the charts of an OCI registry ask the registry themselves.
pub(crate) fn is_static(kind: &Kind, spec: &Value) -> bool {
    kind.kind == "HelmRepository" && spec["type"] == "oci"
}

pub(crate) fn names(object: &DynamicObject) -> (&str, &str) {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    (namespace, object.metadata.name.as_deref().unwrap_or_default())
}
