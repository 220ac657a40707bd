//! How the registry of an OCIRepository is reached: the credentials, certificates and proxy of its Secrets.
//!
//! They are read when needed and not kept. Errors have the names of keys only.

use std::collections::BTreeMap;

use equate_registry::{Access, DockerConfig, Proxy, Repository, SecretString};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};

use super::Context;
use super::declared::Declared;
use super::failure;
use crate::kit::read::{ReadError, chain, read};
use crate::kit::time_limit::TimeLimit;
use crate::sources::failure::Failure;

/// Pull secrets of one ServiceAccount that are read.
const PULL_SECRETS_MAX: usize = 32;
/// As in Flux.
const PROXY_BYTES_MAX: usize = 2048;
const PROXY_SCHEMES: [&str; 3] = ["http", "https", "socks5"];

type Data = BTreeMap<String, ByteString>;

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
        let secret = get(cx, namespace, name).await;
        let secret = secret.map_err(|(problem, is_final)| failed(problem, is_final))?;
        let data = secret.data.unwrap_or_default();
        access.proxy = Some(proxy(namespace, name, &data).map_err(|problem| failed(problem, false))?);
    }
    if let Some(name) = &declared.certificates {
        let doing = format!("generate transport for '{}'", declared.url);
        let failed = |problem: String, is_final| failure::access(&doing, &problem, is_final);
        let secret = get(cx, namespace, name).await;
        let secret = secret.map_err(|(problem, is_final)| failed(problem, is_final))?;
        let data = secret.data.unwrap_or_default();
        certificates(namespace, name, &data, &mut access).map_err(|problem| failed(problem, false))?;
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
            let secret = get(cx, namespace, &reference.name)
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

/// A Secret, or the problem and whether only another spec helps.
pub(super) async fn get(cx: &Context, namespace: &str, name: &str) -> Result<Secret, (String, bool)> {
    match read::<Secret>(&cx.client, namespace, name).await {
        Ok(Some(secret)) => Ok(secret),
        Ok(None) => Err((format!("secret '{namespace}/{name}' not found"), false)),
        Err(error) => {
            let problem = format!("failed to get secret '{namespace}/{name}': {}", chain(&error));
            Err((problem, is_name(&error)))
        }
    }
}

fn proxy(namespace: &str, name: &str, data: &Data) -> Result<Proxy, String> {
    let place = format!("secret '{namespace}/{name}'");
    let text = |key: &str| {
        let value = data.get(key).map(|value| std::str::from_utf8(&value.0));
        let value = value
            .transpose()
            .map_err(|_| format!("{place}: '{key}' is not UTF-8"))?;
        Ok::<_, String>(value.map(str::to_owned))
    };
    let address = text("address")?.ok_or_else(|| format!("{place}: key 'address' not found"))?;
    if address.is_empty() {
        return Err(format!("{place}: proxy address is empty"));
    }
    if address.len() > PROXY_BYTES_MAX {
        return Err(format!(
            "{place}: proxy URL exceeds maximum length of {PROXY_BYTES_MAX} characters"
        ));
    }
    let scheme = address.split(':').next().unwrap_or_default();
    if !PROXY_SCHEMES.contains(&scheme) {
        return Err(format!(
            "{place}: proxy URL must use one of the supported schemes ({}), got '{scheme}'",
            PROXY_SCHEMES.join(", ")
        ));
    }
    let credentials = text("username")?.map(|username| {
        let password = text("password").map(Option::unwrap_or_default);
        password.map(|password| (username, SecretString::from(password)))
    });
    Ok(Proxy {
        address,
        credentials: credentials.transpose()?,
    })
}

/// The keys of Flux, and its older names for them.
fn certificates(namespace: &str, name: &str, data: &Data, access: &mut Access) -> Result<(), String> {
    let value = |key: &str, older: &str| {
        let found = data.get(key).or_else(|| data.get(older));
        found.map(|value| &*value.0).filter(|value| !value.is_empty())
    };
    let place = format!("secret '{namespace}/{name}'");
    let ca = value("ca.crt", "caFile");
    let pair = match (value("tls.crt", "certFile"), value("tls.key", "keyFile")) {
        (Some(certificate), Some(key)) => {
            let pem = [certificate, b"\n", key].concat();
            let pem =
                String::from_utf8(pem).map_err(|_| format!("{place}: 'tls.crt' or 'tls.key' is not PEM"))?;
            Some(SecretString::from(pem))
        }
        (Some(_), None) => return Err(format!("{place} contains 'tls.crt' but missing 'tls.key'")),
        (None, Some(_)) => return Err(format!("{place} contains 'tls.key' but missing 'tls.crt'")),
        (None, None) if ca.is_none() => {
            return Err(format!(
                "{place} must contain either 'ca.crt' or both 'tls.crt' and 'tls.key'"
            ));
        }
        (None, None) => None,
    };
    access.ca = ca.map(<[u8]>::to_vec);
    access.identity = pair;
    Ok(())
}
