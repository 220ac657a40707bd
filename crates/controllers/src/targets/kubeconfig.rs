//! Parses the kubeconfig of another cluster, from a Secret, and makes a client.
//!
//! Writers of Secrets are not trusted with this machine. So fields that would run a program here, read a
//! file of this machine, or trust any certificate are refused by name. They are not ignored: the cluster
//! would be opened with less than requested. The [`Policy`] can allow the first and the last. Errors
//! contain nothing of its content but the first word of its context's name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_egress::Egress;
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use kube::{Client, Config};
use sha2::{Digest as _, Sha256};

use super::client;
use crate::policy::Policy;

/// A kubeconfig of one cluster is not longer.
pub(crate) const BYTES_MAX: usize = 256 << 10;

/// Why a kubeconfig is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KubeConfigError {
    /// It is too long.
    #[error("the kubeconfig has {0} bytes; the limit is {BYTES_MAX}")]
    TooLarge(usize),
    /// It is not UTF-8.
    #[error("the kubeconfig is not UTF-8")]
    NotText,
    /// It is no kubeconfig. The cause is left out, for it may quote a secret.
    #[error("the kubeconfig cannot be parsed as YAML of the kind Config")]
    Malformed,
    /// Its current context is missing or incomplete.
    #[error("the kubeconfig's current-context {0:?} names no context with a cluster and a user")]
    Context(String),
    /// It asks for something that a Secret may not.
    #[error("the kubeconfig's {field} is refused: {why}")]
    Refused {
        /// The field.
        field: &'static str,
        /// The reason, and the alternative.
        why: &'static str,
    },
    /// It cannot be made a client of.
    #[error("the kubeconfig cannot be used: its server, certificates or keys are invalid")]
    Unusable,
}

pub(crate) struct Opened {
    pub(crate) client: Client,
    /// Identifies the cluster: other credentials reach the same objects.
    pub(crate) fingerprint: [u8; 32],
}

/// Opens the cluster of a kubeconfig for a namespace.
pub(crate) async fn open(
    bytes: &[u8],
    policy: &Policy,
    egress: &Egress,
    namespace: &str,
) -> Result<Opened, KubeConfigError> {
    let (kubeconfig, fingerprint) = read(bytes, policy)?;
    let client = client(kubeconfig, egress, namespace).await?;
    Ok(Opened { client, fingerprint })
}

/// The client of a kubeconfig for a namespace, for the fuzzer.
///
/// # Errors
/// The kubeconfig is refused or invalid.
pub async fn open_kubeconfig(
    bytes: &[u8],
    policy: &Policy,
    egress: &Egress,
    namespace: &str,
) -> Result<Client, KubeConfigError> {
    Ok(open(bytes, policy, egress, namespace).await?.client)
}

/// Opens a cluster by its address and certificates, without credentials.
pub(crate) async fn open_cluster(
    server: &str,
    ca: Option<&str>,
    egress: &Egress,
    namespace: &str,
) -> Result<Opened, KubeConfigError> {
    const NAME: &str = "cluster";
    let cluster = Cluster {
        server: Some(server.to_owned()),
        certificate_authority_data: ca.map(|ca| STANDARD.encode(ca)),
        ..Cluster::default()
    };
    let fingerprint = fingerprint(&cluster);
    let context = Context {
        cluster: NAME.to_owned(),
        user: Some(NAME.to_owned()),
        ..Context::default()
    };
    let kubeconfig = Kubeconfig {
        current_context: Some(NAME.to_owned()),
        clusters: vec![NamedCluster {
            name: NAME.to_owned(),
            cluster: Some(cluster),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: NAME.to_owned(),
            auth_info: Some(AuthInfo::default()),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: NAME.to_owned(),
            context: Some(context),
            ..NamedContext::default()
        }],
        ..Kubeconfig::default()
    };
    let client = client(kubeconfig, egress, namespace).await?;
    Ok(Opened { client, fingerprint })
}

async fn client(kubeconfig: Kubeconfig, egress: &Egress, namespace: &str) -> Result<Client, KubeConfigError> {
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let config = config.map_err(|_| KubeConfigError::Unusable)?;
    client::foreign(&config, egress, namespace).map_err(|_| KubeConfigError::Unusable)
}

fn read(bytes: &[u8], policy: &Policy) -> Result<(Kubeconfig, [u8; 32]), KubeConfigError> {
    if bytes.len() > BYTES_MAX {
        return Err(KubeConfigError::TooLarge(bytes.len()));
    }
    let text = str::from_utf8(bytes).map_err(|_| KubeConfigError::NotText)?;
    let mut all = Kubeconfig::from_yaml(text).map_err(|_| KubeConfigError::Malformed)?;
    let name = all.current_context.clone().unwrap_or_default();
    let nothing = || KubeConfigError::Context(first_word(&name));
    // unused entries are not checked, and do not reach the client
    all.contexts.retain(|context| context.name == name);
    let context = all.contexts.first().and_then(|context| context.context.clone());
    let context = context.ok_or_else(nothing)?;
    all.clusters.retain(|cluster| cluster.name == context.cluster);
    all.auth_infos
        .retain(|user| Some(&user.name) == context.user.as_ref());
    let cluster = all.clusters.first().and_then(|named| named.cluster.as_ref());
    let user = all.auth_infos.first().and_then(|named| named.auth_info.as_ref());
    let (cluster, user) = (cluster.ok_or_else(nothing)?, user.ok_or_else(nothing)?);
    check(cluster, user, policy)?;
    let fingerprint = fingerprint(cluster);
    Ok((all, fingerprint))
}

/// With a wrong indentation, YAML joins the lines that follow to a name, and one may be a token.
fn first_word(name: &str) -> String {
    match name.split_once(char::is_whitespace) {
        Some((first, _)) => format!("{first} ..."),
        None => name.to_owned(),
    }
}

fn check(cluster: &Cluster, user: &AuthInfo, policy: &Policy) -> Result<(), KubeConfigError> {
    const INLINE: &str = "a Secret may not read files of the controllers' machine; put the content into \
        the kubeconfig (kubectl config view --raw --flatten)";
    let insecure = cluster.insecure_skip_tls_verify == Some(true);
    let refused = [
        (
            user.exec.is_some() && !policy.insecure_kubeconfig_exec,
            "users[].user.exec",
            "a Secret may not run programs; use a token, or start `equate controllers` with --insecure-kubeconfig-exec",
        ),
        (
            user.auth_provider.is_some(),
            "users[].user.auth-provider",
            "a Secret may not run programs; use a token",
        ),
        (
            insecure && !policy.insecure_kubeconfig_tls,
            "clusters[].cluster.insecure-skip-tls-verify",
            "the server must prove its identity; set certificate-authority-data, or start `equate controllers` with \
             --insecure-kubeconfig-tls",
        ),
        (
            cluster.certificate_authority.is_some(),
            "clusters[].cluster.certificate-authority",
            INLINE,
        ),
        (
            user.client_certificate.is_some(),
            "users[].user.client-certificate",
            INLINE,
        ),
        (user.client_key.is_some(), "users[].user.client-key", INLINE),
        (user.token_file.is_some(), "users[].user.tokenFile", INLINE),
        (
            cluster.proxy_url.is_some(),
            "clusters[].cluster.proxy-url",
            "proxies are not supported",
        ),
        (
            user.impersonate.is_some()
                || user.impersonate_uid.is_some()
                || user.impersonate_groups.is_some()
                || user.impersonate_user_extra.is_some(),
            "users[].user.as",
            "set the account to impersonate in spec.serviceAccountName",
        ),
    ];
    match refused.into_iter().find(|(found, _, _)| *found) {
        Some((_, field, why)) => Err(KubeConfigError::Refused { field, why }),
        None => Ok(()),
    }
}

/// Identifies a cluster by its address and certificates, for any credentials.
fn fingerprint(cluster: &Cluster) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in [
        &cluster.server,
        &cluster.certificate_authority_data,
        &cluster.tls_server_name,
    ] {
        let part = part.as_deref().unwrap_or_default();
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn kubeconfig(cluster: Value, user: Value) -> String {
        let mut all = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "contexts": [
                { "name": "other", "context": { "cluster": "other", "user": "other" } },
                { "name": "it", "context": { "cluster": "it", "user": "it" } },
            ],
            "clusters": [
                { "name": "other", "cluster": { "server": "https://other", "certificate-authority": "/etc/passwd" } },
                { "name": "it", "cluster": { "server": "https://it:6443" } },
            ],
            "users": [
                { "name": "other", "user": { "exec": { "command": "sh" } } },
                { "name": "it", "user": { "token": "s3cret" } },
            ],
        });
        for (list, part, fields) in [("clusters", "cluster", cluster), ("users", "user", user)] {
            for (field, value) in fields.as_object().unwrap() {
                all[list][1][part][field] = value.clone();
            }
        }
        all.to_string()
    }

    #[test]
    fn unsafe_fields_are_refused_by_name() {
        let check = |cluster: Value, user: Value, policy: &Policy, expected: Option<&str>| {
            let read = read(kubeconfig(cluster, user).as_bytes(), policy);
            match (read, expected) {
                (Ok(_), None) => {}
                (Err(error), Some(field)) => {
                    let text = error.to_string();
                    assert!(text.contains(field), "{text}");
                    assert!(!text.contains("s3cret"), "{text}");
                }
                (other, expected) => panic!("{:?} is not {expected:?}", other.map(|_| ())),
            }
        };
        let strict = Policy::default();
        // another context does not matter
        check(json!({}), json!({}), &strict, None);
        let exec = || json!({ "exec": { "apiVersion": "client.authentication.k8s.io/v1", "command": "sh" } });
        check(json!({}), exec(), &strict, Some("users[].user.exec"));
        let lax = Policy {
            insecure_kubeconfig_exec: true,
            insecure_kubeconfig_tls: true,
            ..Policy::default()
        };
        check(json!({}), exec(), &lax, None);
        let insecure = || json!({ "insecure-skip-tls-verify": true });
        let field = "clusters[].cluster.insecure-skip-tls-verify";
        check(insecure(), json!({}), &strict, Some(field));
        check(insecure(), json!({}), &lax, None);
        for (field, name) in [
            ("tokenFile", "users[].user.tokenFile"),
            ("client-key", "users[].user.client-key"),
            ("client-certificate", "users[].user.client-certificate"),
            ("as", "users[].user.as"),
        ] {
            let path = "/var/run/secrets/kubernetes.io/serviceaccount/token";
            check(json!({}), json!({ field: path }), &lax, Some(name));
        }
        for (field, name) in [
            (
                "certificate-authority",
                "clusters[].cluster.certificate-authority",
            ),
            ("proxy-url", "clusters[].cluster.proxy-url"),
        ] {
            check(json!({ field: "http://x" }), json!({}), &lax, Some(name));
        }
    }

    #[test]
    fn an_invalid_kubeconfig_is_rejected_and_not_quoted() {
        let check = |bytes: &[u8], expected: &str| {
            let error = read(bytes, &Policy::default()).map(|_| ()).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(b"\xff", "the kubeconfig is not UTF-8");
        check(
            b"token: [s3cret",
            "the kubeconfig cannot be parsed as YAML of the kind Config",
        );
        let none = "the kubeconfig's current-context \"\" names no context with a cluster and a user";
        check(b"apiVersion: v1\nkind: Config\n", none);
        check(
            b"apiVersion: v1\nkind: Config\ncurrent-context: it\n  token s3cret\n",
            "the kubeconfig's current-context \"it ...\" names no context with a cluster and a user",
        );
        let large = vec![b' '; BYTES_MAX + 1];
        check(&large, "the kubeconfig has 262145 bytes; the limit is 262144");
    }

    #[test]
    fn the_fingerprint_ignores_credentials() {
        let fingerprint = |cluster: Value, user: Value| {
            let text = kubeconfig(cluster, user);
            read(text.as_bytes(), &Policy::default()).map(|(_, fingerprint)| fingerprint)
        };
        let one = fingerprint(json!({}), json!({}));
        assert!(one.is_ok());
        assert_eq!(one, fingerprint(json!({}), json!({ "token": "another" })));
        assert_ne!(
            one,
            fingerprint(json!({ "server": "https://elsewhere" }), json!({}))
        );
    }
}
