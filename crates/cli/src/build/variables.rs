//! `spec.postBuild.substituteFrom`: variables that ConfigMaps and Secrets of the cluster hold.

use equate_api::kustomize::{Kustomization, ValuesKind};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::Api;
use std::collections::BTreeMap;

/// Why variables are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VariablesError {
    /// It is not there, and not optional.
    #[error("substitute from '{kind}/{name}': it is not in namespace {namespace}")]
    Absent {
        /// ConfigMap or Secret.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Where it was looked for.
        namespace: String,
    },
    /// The cluster did not say.
    #[error("substitute from '{kind}/{name}'")]
    Get {
        /// ConfigMap or Secret.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// A value of a Secret is no text. It is not shown.
    #[error("substitute from 'Secret/{name}': the value of {key:?} is not UTF-8")]
    NotText {
        /// The Secret's name.
        name: String,
        /// The variable.
        key: String,
    },
}

/// All variables, later ones over earlier ones, those written in the Kustomization over all.
pub(crate) async fn collect(
    client: &Client,
    kustomization: &Kustomization,
) -> Result<BTreeMap<String, String>, VariablesError> {
    let mut variables = BTreeMap::new();
    let Some(post) = &kustomization.spec.post_build else {
        return Ok(variables);
    };
    let namespace = kustomization.metadata.namespace.as_deref().unwrap_or("default");
    for reference in &post.substitute_from {
        let name = &reference.name;
        let (kind, found) = match reference.kind {
            ValuesKind::ConfigMap => {
                let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
                let found = api.get_opt(name).await;
                (
                    "ConfigMap",
                    found.map(|found| found.map(|map| Ok(of_config_map(map)))),
                )
            }
            ValuesKind::Secret => {
                let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
                let found = api.get_opt(name).await;
                (
                    "Secret",
                    found.map(|found| found.map(|secret| of_secret(name, secret))),
                )
            }
        };
        let found = found.map_err(|source| VariablesError::Get {
            kind,
            name: name.clone(),
            source: Box::new(source),
        })?;
        match found {
            Some(values) => variables.extend(values?),
            None if reference.optional => {}
            None => {
                return Err(VariablesError::Absent {
                    kind,
                    name: name.clone(),
                    namespace: namespace.to_owned(),
                });
            }
        }
    }
    variables.extend(post.substitute.clone());
    Ok(variables)
}

fn of_config_map(map: ConfigMap) -> BTreeMap<String, String> {
    map.data.into_iter().flatten().collect()
}

fn of_secret(name: &str, secret: Secret) -> Result<BTreeMap<String, String>, VariablesError> {
    let values = secret.data.into_iter().flatten();
    values
        .map(|(key, value)| match String::from_utf8(value.0) {
            Ok(text) => Ok((key, text)),
            Err(_) => Err(VariablesError::NotText {
                name: name.to_owned(),
                key,
            }),
        })
        .collect()
}
