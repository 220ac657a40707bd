//! The kinds that a cluster serves, by the names that kubectl accepts: `deploy`, `deployments`,
//! `deployment.apps`, `deployment.v1.apps`.

use crate::failure::Failure;
use kube::Client;
use kube::core::discovery::v2::APIGroupDiscoveryList;
use kube::core::{ApiResource, GroupVersionKind};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
    singular: String,
    short: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ServedError {
    #[error("could not list the kinds of the cluster")]
    List(#[source] Box<kube::Error>),
    #[error("the cluster serves no kind {word:?}{}", did_you_mean(.near))]
    Unknown { word: String, near: Option<String> },
}

impl Failure for ServedError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::List(_) => {
                Some("check that the cluster runs, or select another with --kubeconfig and --context")
            }
            Self::Unknown { .. } => Some("list all kinds with `kubectl api-resources`"),
        }
    }
}

fn did_you_mean(near: &Option<String>) -> String {
    near.as_ref()
        .map_or_else(String::new, |near| format!("; did you mean {near}?"))
}

/// The kind of a name; built-in groups and preferred versions come first.
pub(crate) async fn find(client: &Client, word: &str) -> Result<Served, ServedError> {
    let list = |error| ServedError::List(Box::new(error));
    let core = client.list_core_api_versions_aggregated().await.map_err(list)?;
    let groups = client.list_api_groups_aggregated().await.map_err(list)?;
    let mut all = kinds(core);
    all.extend(kinds(groups));
    let lower = word.to_lowercase();
    let found = all.iter().find(|kind| kind.is_called(&lower)).cloned();
    found.ok_or_else(|| ServedError::Unknown {
        near: nearest(&all, &lower),
        word: word.to_owned(),
    })
}

fn nearest(all: &[Served], word: &str) -> Option<String> {
    let names = all.iter().map(|kind| kind.singular.as_str());
    let near = names.map(|name| (strsim::jaro_winkler(name, word), name));
    let best = near.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.85).then(|| best.1.to_owned())
}

fn kinds(list: APIGroupDiscoveryList) -> Vec<Served> {
    let mut found = Vec::new();
    for group in list.items {
        let name = group.metadata.and_then(|meta| meta.name).unwrap_or_default();
        for version in group.versions {
            let number = version.version.unwrap_or_default();
            for resource in version.resources {
                let (Some(plural), Some(kind)) = (resource.resource, resource.response_kind) else {
                    continue;
                };
                let kind = kind.kind.unwrap_or_default();
                let gvk = GroupVersionKind::gvk(&name, &number, &kind);
                let singular = resource.singular_resource.filter(|name| !name.is_empty());
                found.push(Served {
                    resource: ApiResource::from_gvk_with_plural(&gvk, &plural),
                    namespaced: resource.scope.as_deref() == Some("Namespaced"),
                    singular: singular.unwrap_or_else(|| kind.to_lowercase()),
                    short: resource.short_names,
                });
            }
        }
    }
    found
}

impl Served {
    fn is_called(&self, word: &str) -> bool {
        let ApiResource {
            group,
            version,
            plural,
            kind,
            ..
        } = &self.resource;
        let (name, rest) = word.split_once('.').unwrap_or((word, ""));
        let named = name == plural || name == self.singular || name == kind.to_lowercase();
        let short = rest.is_empty() && self.short.iter().any(|short| short == name);
        let in_group = rest.is_empty() || rest == group || rest == format!("{version}.{group}");
        (named && in_group) || short
    }
}
