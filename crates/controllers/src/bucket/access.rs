//! How the store of a Bucket is reached: the credentials, certificates and proxy of its Secrets. They are
//! read when needed and not kept.

use equate_api::source::BucketProvider;
use equate_bucket::{
    Access, Api, AzureCredentials, Bucket, Credentials, Principal, SecretString, ServiceAccount,
};

use super::Buckets;
use super::declared::Declared;
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
                     clientSecret, or accountKey, or sasKey"
                );
                failure::access(message, false)
            };
            let (tenant, client) = (text("tenantId")?, text("clientId")?);
            let credentials = match (tenant, client) {
                (Some(tenant), Some(client)) => match text("clientSecret")? {
                    Some(secret) => AzureCredentials::Principal(Principal {
                        tenant,
                        client,
                        secret: secret.into(),
                        authority: text("authorityHost")?,
                    }),
                    None if data.contains_key("clientCertificate") => {
                        return Err(refused("clientCertificate"));
                    }
                    None => return Err(refused("clientId without clientSecret")),
                },
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
