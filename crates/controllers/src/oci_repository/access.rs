//! How the registry of an OCIRepository is reached: the credentials, certificates and proxy of its Secrets.
//!
//! They are read when needed and not kept. Errors have the names of keys only.

use equate_registry::{Access, DockerConfig, Repository};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};

use super::Context;
use super::declared::Declared;
use super::failure;
use crate::kit::read::{ReadError, chain, read};
use crate::kit::time_limit::TimeLimit;
use crate::sources::failure::Failure;
use crate::sources::secrets::{certificates, proxy, secret};

/// Pull secrets of one ServiceAccount that are read.
const PULL_SECRETS_MAX: usize = 32;

impl Context {
    /// The limit of one operation.
    pub(super) fn limit(&self, declared: &Declared) -> TimeLimit {
        TimeLimit::of(declared.timeout, self.timeout_max)
    }
}

pub(super) async fn access(
    cx: &Context,
    declared: &Declared,
    repository: &Repository,
) -> Result<Access, Failure> {
    let namespace = &declared.key.namespace;
    let mut access = Access::new(namespace, cx.limit(declared).time);
    access.insecure = declared.insecure;
    if cx.registries.substitute(repository).is_some() {
        return Ok(access);
    }
    let config = docker_config(cx, declared).await?;
    let Some(config) = config else {
        if let Some(field) = declared.cloud {
            return Err(Failure::unsupported(field, "artifact"));
        }
        return with_transport(cx, declared, access).await;
    };
    access.credentials = config.find(repository).cloned();
    with_transport(cx, declared, access).await
}

async fn with_transport(cx: &Context, declared: &Declared, mut access: Access) -> Result<Access, Failure> {
    let namespace = &declared.key.namespace;
    if let Some(name) = &declared.proxy {
        let failed = |problem: String, is_final| failure::access("get proxy address", &problem, is_final);
        let found = secret(&cx.client, namespace, name).await;
        let found = found.map_err(|(problem, is_final)| failed(problem, is_final))?;
        let data = found.data.unwrap_or_default();
        access.proxy = Some(proxy(namespace, name, &data).map_err(|problem| failed(problem, false))?);
    }
    if let Some(name) = &declared.certificates {
        let doing = format!("generate transport for '{}'", declared.url);
        let failed = |problem: String, is_final| failure::access(&doing, &problem, is_final);
        let found = secret(&cx.client, namespace, name).await;
        let found = found.map_err(|(problem, is_final)| failed(problem, is_final))?;
        let data = found.data.unwrap_or_default();
        let pem = certificates(namespace, name, &data).map_err(|problem| failed(problem, false))?;
        (access.ca, access.identity) = (pem.ca, pem.identity);
    }
    Ok(access)
}

/// The credentials of `secretRef` and of the ServiceAccount's pull secrets; `None` if neither names any.
async fn docker_config(cx: &Context, declared: &Declared) -> Result<Option<DockerConfig>, Failure> {
    let namespace = &declared.key.namespace;
    let failed = |problem: String, is_final| failure::access("get credential", &problem, is_final);
    let mut secrets = Vec::new();
    if let Some(name) = &declared.secret {
        let found = read::<Secret>(&cx.client, namespace, name).await;
        let problem = |cause: &str| format!("failed to get secret '{namespace}/{name}': {cause}");
        match found {
            Ok(Some(secret)) => secrets.push(secret),
            Ok(None) => {
                return Err(failed(problem(&format!("secrets \"{name}\" not found")), false));
            }
            Err(error) => return Err(failed(problem(&chain(&error)), is_name(&error))),
        }
    }
    if let Some(account) = &declared.service_account {
        let place = format!("{namespace}/{account}");
        let found = read::<ServiceAccount>(&cx.client, namespace, account).await;
        let found = match found {
            Ok(Some(found)) => found,
            Ok(None) => return Err(failed(format!("serviceaccount '{place}' not found"), false)),
            Err(error) => {
                let problem = format!("failed to get serviceaccount '{place}': {}", chain(&error));
                return Err(failed(problem, is_name(&error)));
            }
        };
        let named = found.image_pull_secrets.unwrap_or_default();
        if named.len() > PULL_SECRETS_MAX {
            let problem =
                format!("serviceaccount '{place}' has more than {PULL_SECRETS_MAX} imagePullSecrets");
            return Err(failed(problem, false));
        }
        for reference in named {
            let secret = secret(&cx.client, namespace, &reference.name)
                .await
                .map_err(|(problem, _)| {
                    let problem =
                        format!("failed to get image pull secret for serviceaccount '{place}': {problem}");
                    failed(problem, false)
                })?;
            secrets.push(secret);
        }
    }
    if secrets.is_empty() {
        return Ok(None);
    }
    let mut config = DockerConfig::default();
    for secret in secrets {
        let name = secret.metadata.name.clone().unwrap_or_default();
        add(&mut config, secret)
            .map_err(|problem| failed(format!("secret '{namespace}/{name}': {problem}"), false))?;
    }
    Ok(Some(config))
}

/// As Kubernetes' keyring: the type of the Secret decides, and Secrets of other types have no entry.
fn add(config: &mut DockerConfig, secret: Secret) -> Result<(), String> {
    let data = secret.data.unwrap_or_default();
    let value = |key: &str| {
        data.get(key)
            .map(|value| &*value.0)
            .filter(|value| !value.is_empty())
    };
    let added = match secret.type_.as_deref() {
        Some("kubernetes.io/dockerconfigjson") => value(".dockerconfigjson").map(|json| config.add(json)),
        Some("kubernetes.io/dockercfg") => value(".dockercfg").map(|json| config.add_legacy(json)),
        _ => None,
    };
    added.unwrap_or(Ok(())).map_err(|error| error.to_string())
}

fn is_name(error: &ReadError) -> bool {
    matches!(error, ReadError::Name(_))
}
