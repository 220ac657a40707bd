//! Opens a cluster with a ServiceAccount's token: `spec.kubeConfig.configMapRef`, provider `generic`.
//!
//! This process requests the token with its own rights, for an account in the Kustomization's namespace
//! and the audiences of that cluster, and sends it only there. One token per configuration stays in
//! memory until 80 % of its life are over. The next request then gets another, so an idle cluster costs
//! nothing.
//!
//! Refused: all of it without Flux's feature gate, because everybody who may write the ConfigMap gets such a
//! token; audiences and hosts that the operator does not list; cloud providers, whose services exchange such
//! a token for theirs; addresses without TLS; and this process's own identity if no account is named, which
//! Flux would lend.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use equate_egress::Egress;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{StatusCode, Uri};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::client::Body;
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::kubeconfig::{self, KubeConfigError, Opened};
use crate::Key;
use crate::key::is_name;
use crate::kit::read::answer;
use crate::policy::Policy;

/// The shortest time between token requests, whatever the clocks say.
const PAUSE: Duration = Duration::from_secs(10);
/// The certificates of one cluster are not longer.
const CA_BYTES_MAX: usize = 256 << 10;

/// Why a ConfigMap opens no cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadIdentityError {
    /// The feature gate is off.
    #[error(
        "ObjectLevelWorkloadIdentity feature gate is not enabled, so no token of a ServiceAccount is requested; \
         `equate controllers` enables it with --feature-gates=ObjectLevelWorkloadIdentity=true, or use a kubeconfig in spec.kubeConfig.secretRef"
    )]
    Gated,
    /// The audience is not listed.
    #[error(
        "a token for audience {0:?} is not allowed; `equate controllers` allows it with --workload-identity-audiences"
    )]
    Audience(String),
    /// The host is not listed.
    #[error("no token may be sent to {0:?}; `equate controllers` allows it with --workload-identity-hosts")]
    Host(String),
    /// A cloud's provider.
    #[error(
        "provider '{0}' is not supported, because its clusters need tokens of a cloud service; use provider 'generic' \
         with a cluster that trusts this one's ServiceAccounts, or a kubeconfig in spec.kubeConfig.secretRef"
    )]
    Cloud(String),
    /// An unknown provider.
    #[error("provider '{0}' not implemented; use 'generic'")]
    Provider(String),
    /// The address is missing.
    #[error("cluster address is required to create a REST config: set 'address'")]
    NoAddress,
    /// The address is invalid.
    #[error("failed to parse cluster address {0:?}: expected a URL such as https://cluster.example.com:6443")]
    Address(String),
    /// The address has no TLS.
    #[error("the Kubernetes API server address '{0}' must use https scheme")]
    Plain(String),
    /// The account is missing.
    #[error(
        "it names no 'serviceAccountName', and --default-kubeconfig-service-account is not set; the controllers' own \
         identity is never used"
    )]
    NoAccount,
    /// The account's name is invalid.
    #[error("serviceAccountName {0:?} is not a name that a ServiceAccount can have")]
    Account(String),
    /// The certificates are too long.
    #[error("'ca.crt' has {0} bytes; the limit is {CA_BYTES_MAX}")]
    TooLarge(usize),
    /// The API server gives no token.
    #[error("failed to create kubernetes token for service account '{account}': {why}")]
    Token {
        /// The account.
        account: Key,
        /// The API server's message.
        why: String,
        /// Whether the API server was busy or unreachable.
        passing: bool,
    },
    /// No client can be made of it.
    #[error("cannot make a client for the cluster: its 'address' or 'ca.crt' is invalid")]
    Unusable(#[source] KubeConfigError),
}

impl WorkloadIdentityError {
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, WorkloadIdentityError::Token { passing: true, .. })
    }
}

/// A cluster and the account whose token opens it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkloadIdentity {
    /// `https://host:port`.
    server: String,
    ca: Option<String>,
    account: Key,
    audiences: Vec<String>,
}

impl WorkloadIdentity {
    pub(crate) fn parse(
        data: &BTreeMap<String, String>,
        namespace: &str,
        policy: &Policy,
    ) -> Result<Self, WorkloadIdentityError> {
        let text = |key: &str| {
            data.get(key)
                .map(|text| text.trim())
                .filter(|text| !text.is_empty())
        };
        match text("provider").unwrap_or_default() {
            "generic" => {}
            cloud @ ("aws" | "azure" | "gcp") => return Err(WorkloadIdentityError::Cloud(cloud.to_owned())),
            other => return Err(WorkloadIdentityError::Provider(other.to_owned())),
        }
        let allowed = &policy.workload_identity;
        if !allowed.enabled {
            return Err(WorkloadIdentityError::Gated);
        }
        let address = text("address").ok_or(WorkloadIdentityError::NoAddress)?;
        let server = server(address)?;
        let host = host_of(&server);
        if !allowed.hosts.is_empty() && !allowed.hosts.contains(host) {
            return Err(WorkloadIdentityError::Host(host.to_owned()));
        }
        let default = policy.default_kubeconfig_service_account.as_deref();
        let account = text("serviceAccountName").or(default.filter(|name| !name.is_empty()));
        let account = account.ok_or(WorkloadIdentityError::NoAccount)?;
        if !is_name(account) {
            return Err(WorkloadIdentityError::Account(account.to_owned()));
        }
        let ca = text("ca.crt");
        if let Some(ca) = ca.filter(|ca| ca.len() > CA_BYTES_MAX) {
            return Err(WorkloadIdentityError::TooLarge(ca.len()));
        }
        let audiences = text("audiences").into_iter().flat_map(str::lines);
        let audiences = audiences.map(str::trim).filter(|audience| !audience.is_empty());
        let mut audiences: Vec<String> = audiences.map(str::to_owned).collect();
        if audiences.is_empty() {
            audiences.push(address.to_owned());
        }
        let mut unlisted = audiences
            .iter()
            .filter(|audience| !allowed.audiences.contains(*audience));
        if let Some(unlisted) = unlisted.next().filter(|_| !allowed.audiences.is_empty()) {
            return Err(WorkloadIdentityError::Audience(unlisted.clone()));
        }
        Ok(Self {
            server,
            ca: ca.map(str::to_owned),
            account: Key::new(namespace, account),
            audiences,
        })
    }

    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let ca = self.ca.as_deref().unwrap_or_default();
        let parts = [
            "identity",
            &self.server,
            ca,
            &self.account.namespace,
            &self.account.name,
        ];
        for part in parts.into_iter().chain(self.audiences.iter().map(String::as_str)) {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }

    /// Opens the cluster. `client` gives the tokens.
    pub(crate) async fn open(
        self,
        client: &Client,
        egress: &Egress,
    ) -> Result<Opened, WorkloadIdentityError> {
        let Opened {
            client: bare,
            fingerprint,
        } = kubeconfig::open_cluster(&self.server, self.ca.as_deref(), egress, &self.account.namespace)
            .await
            .map_err(WorkloadIdentityError::Unusable)?;
        let tokens = Arc::new(Tokens {
            client: client.clone(),
            account: self.account,
            audiences: self.audiences,
            held: Mutex::default(),
        });
        // now, so that a failure is reported at once
        tokens.current().await?;
        let send = move |request: http::Request<Body>| {
            let (tokens, bare) = (Arc::clone(&tokens), bare.clone());
            async move { tokens.send(&bare, request).await }
        };
        let client = Client::new(tower::service_fn(send), "default");
        Ok(Opened { client, fingerprint })
    }
}

/// Parses an address as Flux does: the default is `https`, and a path is ignored.
fn server(address: &str) -> Result<String, WorkloadIdentityError> {
    let wrong = || WorkloadIdentityError::Address(address.to_owned());
    let text = match address.starts_with("http") {
        true => address.to_owned(),
        false => format!("https://{address}"),
    };
    let uri: Uri = text.parse().map_err(|_| wrong())?;
    if uri.scheme_str() != Some("https") {
        return Err(WorkloadIdentityError::Plain(address.to_owned()));
    }
    let authority = uri.authority().ok_or_else(wrong)?;
    if authority.as_str().contains('@') || authority.host().is_empty() {
        return Err(wrong());
    }
    let port = match authority.as_str().strip_prefix(authority.host()) {
        Some("") => 443,
        Some(port) => port
            .strip_prefix(':')
            .and_then(|port| port.parse::<u16>().ok())
            .ok_or_else(wrong)?,
        None => return Err(wrong()),
    };
    Ok(format!("https://{}:{port}", authority.host().to_lowercase()))
}

fn host_of(server: &str) -> &str {
    let authority = server.trim_start_matches("https://");
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

struct Tokens {
    client: Client,
    account: Key,
    audiences: Vec<String>,
    // held during a request: all others wait for the same token
    held: Mutex<Option<Held>>,
}

#[derive(Clone)]
struct Held {
    header: HeaderValue,
    renew: Instant,
    expires: Instant,
}

impl Tokens {
    async fn send(
        &self,
        bare: &Client,
        mut request: http::Request<Body>,
    ) -> Result<http::Response<Body>, tower::BoxError> {
        let header = self.current().await?;
        request.headers_mut().insert(AUTHORIZATION, header.clone());
        let response = bare.send(request).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            // it may be a new account of the same name
            self.drop(&header).await;
        }
        Ok(response)
    }

    /// A token with at least a fifth of its life left, or, if no other can be had, any that lives.
    async fn current(&self) -> Result<HeaderValue, WorkloadIdentityError> {
        let mut held = self.held.lock().await;
        let now = Instant::now();
        if let Some(held) = held.as_ref().filter(|held| now < held.renew) {
            return Ok(held.header.clone());
        }
        match (self.request().await, held.as_ref()) {
            (Ok(new), _) => Ok(held.insert(new).header.clone()),
            (Err(error), Some(old)) if error.is_passing() && now < old.expires => Ok(old.header.clone()),
            (Err(error), _) => Err(error),
        }
    }

    async fn drop(&self, header: &HeaderValue) {
        let mut held = self.held.lock().await;
        if held.as_ref().is_some_and(|held| held.header == *header) {
            *held = None;
        }
    }

    async fn request(&self) -> Result<Held, WorkloadIdentityError> {
        let failed = |why: String, passing| WorkloadIdentityError::Token {
            account: self.account.clone(),
            why,
            passing,
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.account.namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(self.audiences.clone()),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let (name, params) = (&self.account.name, PostParams::default());
        let asking = accounts.create_token_request(name, &params, &request);
        let given = answer("TokenRequest", asking).await;
        let given = given.map_err(|error| failed(error.to_string(), error.passes()))?;
        let none = || failed("the answer has no token".to_owned(), false);
        let status = given.status.ok_or_else(none)?;
        let token = Zeroizing::new(status.token.ok_or_else(none)?);
        let header = HeaderValue::from_str(&Zeroizing::new(format!("Bearer {}", *token)));
        let mut header = header.map_err(|_| none())?;
        header.set_sensitive(true);
        let expires = status.expiration_timestamp.ok_or_else(none)?.0;
        // an expired one by this machine's clock is requested again soon
        let life = Duration::try_from(expires.duration_since(Timestamp::now())).unwrap_or_default();
        let now = Instant::now();
        Ok(Held {
            header,
            renew: now + life.mul_f64(0.8).max(PAUSE),
            expires: now + life,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::WorkloadIdentityPolicy;

    fn parse(data: &[(&str, &str)], default: Option<&str>) -> Result<WorkloadIdentity, String> {
        let data = data
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let policy = Policy {
            default_kubeconfig_service_account: default.map(str::to_owned),
            workload_identity: WorkloadIdentityPolicy::any(),
            ..Policy::default()
        };
        WorkloadIdentity::parse(&data.collect(), "team-a", &policy).map_err(|error| error.to_string())
    }

    #[test]
    fn tokens_need_the_gate_and_a_listed_audience_and_host() {
        let data = [
            ("provider", "generic"),
            ("address", "https://Prod.example:6443"),
            ("serviceAccountName", "deployer"),
            ("audiences", "prod\ntest"),
        ];
        let data = data.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let check = |enabled: bool, audiences: &[&str], hosts: &[&str], expected: Option<&str>| {
            let set = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
            let policy = Policy {
                workload_identity: WorkloadIdentityPolicy {
                    enabled,
                    audiences: set(audiences),
                    hosts: set(hosts),
                },
                ..Policy::default()
            };
            let parsed = WorkloadIdentity::parse(&data.clone().into(), "team-a", &policy);
            let message = parsed.err().map(|error| error.to_string());
            match (&message, expected) {
                (None, None) => {}
                (Some(message), Some(expected)) if message.contains(expected) => {}
                _ => panic!("{audiences:?} {hosts:?}: {message:?}"),
            }
        };
        let gate = "enables it with --feature-gates=ObjectLevelWorkloadIdentity=true";
        check(false, &[], &[], Some(gate));
        // lists only narrow it
        check(false, &["prod", "test"], &["prod.example"], Some(gate));
        check(true, &[], &[], None);
        check(true, &["prod", "test"], &["prod.example"], None);
        check(
            true,
            &["prod"],
            &[],
            Some("a token for audience \"test\" is not allowed"),
        );
        check(
            true,
            &[],
            &["other.example"],
            Some("no token may be sent to \"prod.example\""),
        );
    }

    #[test]
    fn invalid_config_maps_are_rejected_with_a_reason() {
        let check = |data: &[(&str, &str)], expected: &str| {
            let error = parse(data, None).unwrap_err();
            assert!(error.contains(expected), "{data:?}: {error}");
        };
        let generic = ("provider", "generic");
        for cloud in ["aws", "azure", "gcp"] {
            check(
                &[("provider", cloud)],
                &format!("provider '{cloud}' is not supported"),
            );
        }
        check(&[], "provider '' not implemented");
        check(&[("provider", "other")], "provider 'other' not implemented");
        check(&[generic], "cluster address is required");
        check(
            &[generic, ("address", "http://a")],
            "'http://a' must use https scheme",
        );
        for address in ["https://", "https://user@a", "a b", "https://a:x"] {
            check(
                &[generic, ("address", address)],
                "failed to parse cluster address",
            );
        }
        check(&[generic, ("address", "a")], "names no 'serviceAccountName'");
        let account = ("serviceAccountName", "../../platform/serviceaccounts/admin");
        check(
            &[generic, ("address", "a"), account],
            "is not a name that a ServiceAccount can have",
        );
        let large = "x".repeat(CA_BYTES_MAX + 1);
        let all = [
            generic,
            ("address", "a"),
            ("serviceAccountName", "b"),
            ("ca.crt", &large),
        ];
        check(&all, "'ca.crt' has 262145 bytes");
    }

    #[test]
    fn the_digest_has_the_address_and_the_account() {
        let of = |more: &[(&str, &str)], default: Option<&str>| {
            let all = [&[("provider", "generic")], more].concat();
            parse(&all, default).unwrap()
        };
        let named = of(
            &[("address", "Example.com"), ("serviceAccountName", "deployer")],
            Some("default"),
        );
        assert_eq!(named.server, "https://example.com:443");
        assert_eq!(named.account, Key::new("team-a", "deployer"));
        assert_eq!(named.audiences, ["Example.com"]);
        let all = [
            ("address", "https://[::1]:6443/api"),
            ("audiences", " one \n\n two\n"),
            ("ca.crt", "pem"),
        ];
        let default = of(&all, Some("default"));
        assert_eq!(default.server, "https://[::1]:6443");
        assert_eq!(default.account, Key::new("team-a", "default"));
        assert_eq!(default.audiences, ["one", "two"]);
        // another account, audience or certificate is another identity
        let digests = [
            &named,
            &default,
            &of(&all, Some("other")),
            &of(&all[..2], Some("default")),
            &of(&[all[0], all[2]], Some("default")),
        ]
        .map(WorkloadIdentity::digest);
        let distinct: std::collections::BTreeSet<_> = digests.into_iter().collect();
        assert_eq!(distinct.len(), 5);
        assert_eq!(default.digest(), of(&all, Some("default")).digest());
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_renewed_when_a_fifth_of_its_life_is_left() {
        let cluster = equate_testkit::apiserver::EmbeddedCluster::builder()
            .build()
            .await
            .unwrap();
        let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), "default");
        let mut account = ServiceAccount::default();
        account.metadata.name = Some("deployer".to_owned());
        accounts.create(&PostParams::default(), &account).await.unwrap();
        let tokens = Tokens {
            client: cluster.client(),
            account: Key::new("default", "deployer"),
            audiences: vec!["elsewhere".to_owned()],
            held: Mutex::default(),
        };
        let first = tokens.current().await.unwrap();
        assert!(first.is_sensitive());
        tokio::time::advance(Duration::from_secs(47 * 60)).await;
        assert_eq!(tokens.current().await.unwrap(), first);
        tokio::time::advance(Duration::from_secs(60)).await;
        let second = tokens.current().await.unwrap();
        assert_ne!(second, first);
        // a refused token is not used again, unless it was replaced meanwhile
        tokens.drop(&first).await;
        assert_eq!(tokens.current().await.unwrap(), second);
        tokens.drop(&second).await;
        assert_ne!(tokens.current().await.unwrap(), second);
        cluster.stop().await;
    }
}
