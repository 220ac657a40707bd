//! How the store of a Bucket is reached: the credentials, certificates and proxy of its Secrets. They are
//! read when needed and not kept.

use equate_api::source::BucketProvider;
use equate_bucket::{
    Access, Api, Aws, AzureCredentials, Bucket, ClientCertificate, Credentials, Identity, Ldap, Principal,
    Proof, SecretString, ServiceAccount,
};

use super::Buckets;
use super::declared::{Declared, TokenService};
use super::failure;
use crate::kit::read::chain;
use crate::kit::time_limit::TimeLimit;
use crate::sources::failure::Failure;
use crate::sources::secrets::{SecretData, SecretReadError, certificates, proxy, read_secret, value};

impl Buckets {
    /// The limit of one operation.
    pub(super) fn limit(&self, declared: &Declared) -> TimeLimit {
        TimeLimit::of(declared.timeout, self.kit.settings.timeout_max)
    }

    /// Opens the bucket; its time limit begins now.
    pub(super) fn open(&self, declared: &Declared, access: &Access) -> Result<Bucket, Failure> {
        let opened = self
            .kit
            .buckets
            .open(&declared.endpoint, &declared.bucket, access.clone());
        opened.map_err(|error| failure::access(chain(&error), false))
    }

    pub(super) async fn access(&self, declared: &Declared) -> Result<Access, Failure> {
        let namespace = &declared.key.namespace;
        let read = async |what: &str, name: &str| {
            let data = read_secret(&self.kit.client, namespace, name).await;
            data.map_err(|error: SecretReadError| {
                let message = format!("{what} '{namespace}/{name}': {}", chain(&error));
                failure::access(message, error.is_final())
            })
        };
        let mut access = Access::new(namespace, self.limit(declared).time);
        access.insecure = declared.insecure;
        access.region.clone_from(&declared.region);
        let local = self.kit.buckets.substitute(&declared.endpoint, &declared.bucket);
        if local.is_some() {
            return Ok(access);
        }
        if let Some(field) = declared.unsupported {
            return Err(Failure::unsupported(field, "bucket"));
        }
        if let Some(name) = &declared.secret {
            let data = read("failed to get secret", name).await?;
            access.api = api(declared, name, &data)?;
        }
        let token_service = declared.token_service.as_ref().ok().and_then(Option::as_ref);
        if let Some(TokenService::Ldap {
            endpoint,
            secret,
            certificates: trusted,
        }) = token_service
        {
            let (mut username, mut password) = (String::new(), SecretString::default());
            if let Some(name) = secret {
                let data = read("failed to get STS secret", name).await?;
                (username, password) = user(declared, name, &data)?;
            }
            let ldap = Ldap::new(endpoint, &username, password);
            let mut ldap = ldap.map_err(|error| failure::token_service_url(endpoint, &error))?;
            if let Some(name) = trusted {
                let data = read("failed to get STS TLS config: failed to get secret", name).await?;
                let found = certificates(namespace, name, &data);
                let found = found
                    .map_err(|why| failure::access(format!("failed to get STS TLS config: {why}"), false))?;
                (ldap.ca, ldap.identity) = (found.ca, found.identity);
            }
            // credentials of the store come first
            if declared.secret.is_none() {
                access.api = Api::S3As(Identity::Ldap(ldap));
            }
        }
        if declared.secret.is_none() && declared.provider == BucketProvider::Aws {
            let endpoint = token_service.and_then(|service| match service {
                TokenService::Aws { endpoint } => Some(endpoint.as_str()),
                TokenService::Ldap { .. } => None,
            });
            let aws = Aws::new(declared.region.clone(), endpoint);
            let aws = aws.map_err(|error| failure::identity(&error.to_string()))?;
            access.api = Api::S3As(Identity::Aws(aws));
        }
        if let Some(name) = &declared.proxy {
            let data = read("failed to get proxy URL: failed to get secret", name).await?;
            let found = proxy(namespace, name, &data);
            let found =
                found.map_err(|why| failure::access(format!("failed to get proxy URL: {why}"), false))?;
            access.proxy = Some(found);
        }
        if let Some(name) = &declared.certificates {
            let data = read("failed to get TLS config: failed to get secret", name).await?;
            let found = certificates(namespace, name, &data);
            let found =
                found.map_err(|why| failure::access(format!("failed to get TLS config: {why}"), false))?;
            (access.ca, access.identity) = (found.ca, found.identity);
        }
        Ok(access)
    }
}

/// The user of LDAP; the message is that of Flux.
fn user(declared: &Declared, name: &str, data: &SecretData) -> Result<(String, SecretString), Failure> {
    let namespace = &declared.key.namespace;
    let text = |key: &str| {
        let Some(bytes) = value(data, key) else {
            let message = format!(
                "invalid '{name}' secret data for 'ldap' STS provider: required fields username, password"
            );
            return Err(failure::access(message, false));
        };
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| {
            let message = format!("'{key}' in secret '{namespace}/{name}' is not UTF-8");
            failure::access(message, false)
        })
    };
    Ok((text("username")?, text("password")?.into()))
}

/// The credentials of the Secret, by provider; the messages are those of Flux.
fn api(declared: &Declared, name: &str, data: &SecretData) -> Result<Api, Failure> {
    let namespace = &declared.key.namespace;
    let text = |key: &str| {
        let text = value(data, key).map(|bytes| std::str::from_utf8(bytes).map(str::to_owned));
        text.transpose().map_err(|_| {
            let message = format!("'{key}' in secret '{namespace}/{name}' is not UTF-8");
            failure::access(message, false)
        })
    };
    let invalid = |why: &str| failure::access(format!("invalid '{name}' secret data: {why}"), false);
    match declared.provider {
        BucketProvider::Generic | BucketProvider::Aws => {
            let (Some(_), Some(_)) = (data.get("accesskey"), data.get("secretkey")) else {
                return Err(invalid("required fields 'accesskey' and 'secretkey'"));
            };
            // as upstream, an empty one means no credentials
            let keys = text("accesskey")?.zip(text("secretkey")?);
            Ok(Api::S3(keys.map(|(access_key, secret_key)| Credentials {
                access_key,
                secret_key: SecretString::from(secret_key),
            })))
        }
        BucketProvider::Gcp => {
            let Some(key) = value(data, "serviceaccount") else {
                return Err(invalid("required fields 'serviceaccount'"));
            };
            let account = ServiceAccount::parse(key);
            account.map(Api::Google).map_err(|error| {
                let message =
                    format!("'serviceaccount' in secret '{namespace}/{name}' cannot be used: {error}");
                failure::access(message, false)
            })
        }
        BucketProvider::Azure => {
            // another Secret repairs it, so it is tried again
            let refused = |field: &str| {
                let message = format!(
                    "{field} in secret '{namespace}/{name}' is not supported yet; use tenantId, clientId and \
                     clientSecret or clientCertificate, or accountKey, or sasKey"
                );
                failure::access(message, false)
            };
            let (tenant, client) = (text("tenantId")?, text("clientId")?);
            let credentials = match (tenant, client) {
                (Some(tenant), Some(client)) => {
                    let proof = match (text("clientSecret")?, value(data, "clientCertificate")) {
                        (Some(secret), _) => Proof::Secret(secret.into()),
                        (None, Some(pem)) => {
                            let sends_chain = text("clientCertificateSendChain")?;
                            let sends_chain = sends_chain
                                .is_some_and(|text| text == "1" || text.eq_ignore_ascii_case("true"));
                            let certificate = ClientCertificate::parse(pem, sends_chain);
                            Proof::Certificate(certificate.map_err(|error| {
                                let message = format!(
                                    "failed to parse client certificates: clientCertificate in secret \
                                     '{namespace}/{name}': {error}"
                                );
                                failure::access(message, false)
                            })?)
                        }
                        (None, None) => {
                            return Err(refused("clientId without clientSecret or clientCertificate"));
                        }
                    };
                    AzureCredentials::Principal(Principal {
                        tenant,
                        client,
                        proof,
                        authority: text("authorityHost")?,
                    })
                }
                (None, Some(_)) => return Err(refused("clientId without tenantId")),
                (_, None) => match (text("accountKey")?, text("sasKey")?) {
                    (Some(key), _) => AzureCredentials::AccountKey(key.into()),
                    (None, Some(sas)) => AzureCredentials::Sas(sas.into()),
                    (None, None) => {
                        return Err(invalid(
                            "requires a 'clientId' or 'accountKey' field, a combination of 'tenantId', 'clientId' \
                             and 'clientSecret', or 'tenantId', 'clientId' and 'clientCertificate'",
                        ));
                    }
                },
            };
            Ok(Api::Azure(credentials))
        }
    }
}
