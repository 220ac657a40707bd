//! Bootstraps a new cluster: applies the CRDs, and the loop's own GitRepository and Kustomization.
//!
//! Both are named `flux-system`, in the namespace of that name, as in clusters bootstrapped by Flux: fleet
//! repositories refer to them. Applying them again on persisted state changes nothing.

use super::crds::Given;
use crate::install::rbac;
use crate::watch::{WatchError, is_established, wait_until};
use equate_controllers::ControllerSet;
use equate_git::Reference;
use equate_manifest::yaml;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) const NAME: &str = "flux-system";
pub(crate) const OWN_KINDS: [&str; 2] = ["GitRepository", "Kustomization"];
const MANAGER: &str = "equate";
/// The accounts that a bootstrapped cluster gives all rights.
const ACCOUNTS: [&str; 2] = ["kustomize-controller", "helm-controller"];
/// Maximum number of concurrent writes of CRDs.
const CONCURRENCY: usize = 8;
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub(crate) enum BootstrapError {
    #[error("could not parse the CRD {name}")]
    Definition {
        name: &'static str,
        #[source]
        source: yaml::YamlError,
    },
    #[error("could not apply {what}")]
    Apply {
        what: String,
        #[source]
        source: kube::Error,
    },
    #[error("the CRD {name} was not established")]
    Establish {
        name: String,
        #[source]
        source: WatchError,
    },
    #[error(
        "the CRD {name} of {origin} was not established within {}s; check whether another one has its names",
        ESTABLISHED_WITHIN.as_secs()
    )]
    NotEstablished { name: String, origin: String },
}

#[derive(Debug, Clone)]
pub(crate) struct Root {
    pub(crate) url: String,
    pub(crate) reference: Reference,
    /// As in `spec.path`, `./clusters/dev`.
    pub(crate) path: String,
    /// Interval of polling the source, as a Go duration.
    pub(crate) interval: String,
}

pub(crate) async fn definitions(client: &Client) -> Result<(), BootstrapError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    stream::iter(equate_api::definitions())
        .map(|definition| establish(&api, definition))
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await
}

async fn establish(
    api: &Api<CustomResourceDefinition>,
    definition: &'static equate_api::Definition,
) -> Result<(), BootstrapError> {
    let name = definition.name;
    let documents = yaml::load(definition.yaml, &yaml::Options::default())
        .map_err(|source| BootstrapError::Definition { name, source })?;
    for document in documents {
        api.patch(
            name,
            &PatchParams::apply(MANAGER).force(),
            &Patch::Apply(&document.value),
        )
        .await
        .map_err(|source| BootstrapError::Apply {
            what: format!("CustomResourceDefinition/{name}"),
            source,
        })?;
    }
    wait_until(api, name, is_established)
        .await
        .map_err(|source| BootstrapError::Establish {
            name: name.to_owned(),
            source,
        })
}

/// Applies the definitions of `--crds`.
pub(crate) async fn given(client: &Client, given: &Given) -> Result<(), BootstrapError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    stream::iter(&given.definitions)
        .map(async |(name, definition)| {
            let parameters = PatchParams::apply(MANAGER).force();
            let applied = api
                .patch(name, &parameters, &Patch::Apply(&definition.object))
                .await;
            applied.map_err(|source| BootstrapError::Apply {
                what: format!("CustomResourceDefinition/{name} from {}", definition.origin),
                source,
            })?;
            let established = wait_until(&api, name, is_established);
            match tokio::time::timeout(ESTABLISHED_WITHIN, established).await {
                Ok(established) => established.map_err(|source| BootstrapError::Establish {
                    name: name.clone(),
                    source,
                }),
                Err(_) => Err(BootstrapError::NotEstablished {
                    name: name.clone(),
                    origin: definition.origin.clone(),
                }),
            }
        })
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await
}

pub(crate) async fn root(client: &Client, root: &Root) -> Result<(), BootstrapError> {
    let namespaces: Api<DynamicObject> = Api::all_with(client.clone(), &resource("", "v1", "Namespace"));
    apply(&namespaces, &namespace()).await?;
    accounts(client).await?;
    let sources = resource("source.toolkit.fluxcd.io", "v1", "GitRepository");
    apply(
        &Api::namespaced_with(client.clone(), NAME, &sources),
        &git_repository(root),
    )
    .await?;
    let kustomizations = resource("kustomize.toolkit.fluxcd.io", "v1", "Kustomization");
    apply(
        &Api::namespaced_with(client.clone(), NAME, &kustomizations),
        &kustomization(root),
    )
    .await
}

/// The service accounts of Flux's controllers, with the rights that a bootstrapped cluster gives them: a fleet
/// may name them in `spec.serviceAccountName`.
async fn accounts(client: &Client) -> Result<(), BootstrapError> {
    let accounts = resource("", "v1", "ServiceAccount");
    let accounts: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAME, &accounts);
    for name in ACCOUNTS {
        let account = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": name, "namespace": NAME },
        });
        apply(&accounts, &account).await?;
    }
    let bindings = resource("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding");
    apply(&Api::all_with(client.clone(), &bindings), &binding()).await
}

/// Flux's additions to the roles view, edit and admin: a fleet binds tenants to these.
pub(crate) async fn user_roles(client: &Client, controllers: &ControllerSet) -> Result<(), BootstrapError> {
    let roles = resource("rbac.authorization.k8s.io", "v1", "ClusterRole");
    let roles: Api<DynamicObject> = Api::all_with(client.clone(), &roles);
    for role in rbac::user_roles(controllers) {
        let labels: BTreeMap<&str, &str> = role.labels.into_iter().collect();
        let object = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": format!("{}-{NAME}", role.name), "labels": labels },
            "rules": role.rules,
        });
        apply(&roles, &object).await?;
    }
    Ok(())
}

async fn apply(api: &Api<DynamicObject>, object: &Value) -> Result<(), BootstrapError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = text(&object["metadata"]["name"]);
    api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(object))
        .await
        .map(drop)
        .map_err(|source| BootstrapError::Apply {
            what: format!("{}/{name}", text(&object["kind"])),
            source,
        })
}

fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn namespace() -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAME } })
}

/// As in Flux's `gotk-components.yaml`.
fn binding() -> Value {
    let subject = |name| json!({ "kind": "ServiceAccount", "name": name, "namespace": NAME });
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": "cluster-reconciler-flux-system" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": ACCOUNTS.map(subject),
    })
}

fn git_repository(root: &Root) -> Value {
    let Reference {
        branch,
        tag,
        semver,
        name,
        commit,
    } = &root.reference;
    let reference: serde_json::Map<String, Value> = [
        ("branch", branch),
        ("tag", tag),
        ("semver", semver),
        ("name", name),
        ("commit", commit),
    ]
    .into_iter()
    .filter_map(|(field, value)| value.as_ref().map(|value| (field.to_owned(), json!(value))))
    .collect();
    json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "metadata": { "name": NAME, "namespace": NAME },
        "spec": { "url": root.url, "ref": reference, "interval": root.interval },
    })
}

fn kustomization(root: &Root) -> Value {
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": { "name": NAME, "namespace": NAME },
        "spec": {
            "interval": "10m",
            "path": root.path,
            "prune": true,
            "sourceRef": { "kind": "GitRepository", "name": NAME },
        },
    })
}
