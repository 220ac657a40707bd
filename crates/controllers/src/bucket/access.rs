//! How the store of a Bucket is reached: the credentials, certificates and proxy of its Secrets. They are
//! read when needed and not kept.

use equate_bucket::{Access, Bucket, Credentials, SecretString};

use super::Buckets;
use super::declared::Declared;
use super::failure;
use crate::kit::read::chain;
use crate::kit::time_limit::TimeLimit;
use crate::sources::failure::Failure;
use crate::sources::secrets::{SecretReadError, certificates, proxy, read_secret, value};

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
            let (Some(_), Some(_)) = (data.get("accesskey"), data.get("secretkey")) else {
                let message =
                    format!("invalid '{name}' secret data: required fields 'accesskey' and 'secretkey'");
                return Err(failure::access(message, false));
            };
            let text = |key: &str| {
                let text = value(&data, key).map(|bytes| std::str::from_utf8(bytes).map(str::to_owned));
                text.transpose().map_err(|_| {
                    failure::access(
                        format!("'{key}' in secret '{namespace}/{name}' is not UTF-8"),
                        false,
                    )
                })
            };
            // as upstream, an empty one means no credentials
            if let (Some(access_key), Some(secret_key)) = (text("accesskey")?, text("secretkey")?) {
                access.credentials = Some(Credentials {
                    access_key,
                    secret_key: SecretString::from(secret_key),
                });
            }
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
