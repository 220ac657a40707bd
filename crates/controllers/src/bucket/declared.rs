//! A Bucket as this controller reads it: parsed once. A field that Equate does not support is reported by
//! name; none is ignored.

use std::time::Duration;

use equate_api::meta::LocalReference;
use equate_api::source::{Bucket, BucketProvider, BucketSpec, StsProvider};
use equate_bucket::{Kind, Ldap, PlaceError as NameError};
use equate_source::{Place, PlaceError, Publisher};

use super::ABOUT;
use super::failure;
use crate::Key;
use crate::sources::failure::Failure;

/// As upstream's default in Go; the CRD has the same.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Declared {
    pub(crate) key: Key,
    pub(crate) publisher: Publisher,
    pub(crate) generation: i64,
    pub(crate) deleting: bool,
    pub(crate) provider: BucketProvider,
    /// The name of the bucket.
    pub(crate) bucket: String,
    /// The host of the store, with a port if it is not the usual one; for Azure a URL.
    pub(crate) endpoint: String,
    /// Whether both can be part of a URL.
    pub(crate) names: Result<(), NameError>,
    /// Empty for all objects.
    pub(crate) prefix: String,
    pub(crate) region: Option<String>,
    pub(crate) insecure: bool,
    pub(crate) ignore: Option<String>,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    /// The Secret with the credentials, in its own namespace.
    pub(crate) secret: Option<String>,
    /// The Secret with the certificates.
    pub(crate) certificates: Option<String>,
    /// The Secret with the proxy.
    pub(crate) proxy: Option<String>,
    /// The service of temporary keys, or why the spec is wrong.
    pub(crate) token_service: Result<Option<TokenService>, Failure>,
    /// A field for credentials, which a directory that stands for the bucket does not need.
    pub(crate) unsupported: Option<&'static str>,
}

/// A service of temporary keys. A Secret with credentials of the store comes first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TokenService {
    /// MinIO's, for users of LDAP.
    Ldap {
        endpoint: String,
        /// The Secret with the user.
        secret: Option<String>,
        /// The Secret with the certificates of the service.
        certificates: Option<String>,
    },
    /// That of AWS.
    Aws { endpoint: String },
}

impl Declared {
    /// The failure of the spec itself.
    pub(crate) fn refused(&self) -> Option<Failure> {
        let names = self.names.as_ref().err().map(failure::names);
        names.or_else(|| self.token_service.clone().err())
    }
}

/// The name of a referenced object; an empty one is none.
fn name(reference: Option<&LocalReference>) -> Option<String> {
    let name = reference.map(|reference| reference.name.clone());
    name.filter(|name| !name.is_empty())
}

impl TryFrom<&Bucket> for Declared {
    type Error = PlaceError;

    /// Fails for names that no API server accepts.
    fn try_from(object: &Bucket) -> Result<Self, PlaceError> {
        let (meta, spec) = (&object.metadata, &object.spec);
        let key = Key::of(meta);
        let place = Place::new(ABOUT.kind, &key.namespace, &key.name)?;
        Ok(Self {
            publisher: Publisher::new(place, meta.uid.clone().unwrap_or_default()),
            key,
            generation: meta.generation.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            provider: spec.provider.unwrap_or_default(),
            bucket: spec.bucket_name.clone(),
            endpoint: spec.endpoint.clone(),
            names: equate_bucket::Bucket::check(kind(spec), &spec.endpoint, &spec.bucket_name),
            prefix: spec.prefix.clone().unwrap_or_default(),
            region: spec.region.clone().filter(|region| !region.is_empty()),
            insecure: spec.insecure,
            ignore: spec.ignore.clone(),
            interval: spec.interval.get(),
            timeout: spec.timeout.as_ref().map_or(TIMEOUT, |timeout| timeout.get()),
            secret: name(spec.secret_ref.as_ref()),
            certificates: name(spec.cert_secret_ref.as_ref()),
            proxy: name(spec.proxy_secret_ref.as_ref()),
            token_service: token_service(spec),
            unsupported: unsupported(spec),
        })
    }
}

fn kind(spec: &BucketSpec) -> Kind {
    match spec.provider.unwrap_or_default() {
        BucketProvider::Generic | BucketProvider::Aws => Kind::S3,
        BucketProvider::Gcp => Kind::Google,
        BucketProvider::Azure => Kind::Azure,
    }
}

/// The rules and messages of Flux's `ValidateSTSProvider`; the definition has the same rules.
fn token_service(spec: &BucketSpec) -> Result<Option<TokenService>, Failure> {
    let Some(sts) = &spec.sts else {
        return Ok(None);
    };
    let (provider, of) = (spec.provider.unwrap_or_default(), sts.provider);
    let wrong = |message: String| Err(failure::token_service(message));
    let unneeded = |field: &str| {
        wrong(format!(
            "spec.sts.{field} is not required for the '{of}' STS provider"
        ))
    };
    let endpoint = sts.endpoint.clone();
    let checked = |service: TokenService| match Ldap::check(&endpoint) {
        Ok(()) => Ok(Some(service)),
        Err(error) => Err(failure::token_service_url(&endpoint, &error)),
    };
    match (provider, of) {
        (BucketProvider::Aws, StsProvider::Aws) if sts.secret_ref.is_some() => unneeded("secretRef"),
        (BucketProvider::Aws, StsProvider::Aws) if sts.cert_secret_ref.is_some() => unneeded("certSecretRef"),
        (BucketProvider::Aws, StsProvider::Aws) => checked(TokenService::Aws {
            endpoint: endpoint.clone(),
        }),
        (BucketProvider::Generic, StsProvider::Ldap) => checked(TokenService::Ldap {
            endpoint: endpoint.clone(),
            secret: name(sts.secret_ref.as_ref()),
            certificates: name(sts.cert_secret_ref.as_ref()),
        }),
        (BucketProvider::Aws, StsProvider::Ldap) | (BucketProvider::Generic, StsProvider::Aws) => wrong(
            format!("STS provider '{of}' is not supported for '{provider}' bucket provider"),
        ),
        // ignored, as in Flux
        (BucketProvider::Gcp | BucketProvider::Azure, _) => Ok(None),
    }
}

/// Names every field, so that a new one does not compile without a decision.
fn unsupported(spec: &BucketSpec) -> Option<&'static str> {
    let BucketSpec {
        bucket_name: _,
        cert_secret_ref: _,
        endpoint: _,
        ignore: _,
        insecure: _,
        interval: _,
        prefix: _,
        provider,
        proxy_secret_ref: _,
        region: _,
        secret_ref,
        service_account_name,
        sts: _,
        suspend: _,
        timeout: _,
    } = spec;
    // as in Flux, a Secret comes first
    if secret_ref.is_some() {
        return None;
    }
    match provider.unwrap_or_default() {
        _ if service_account_name.is_some() => Some("spec.serviceAccountName"),
        BucketProvider::Gcp => Some("spec.provider gcp without secretRef"),
        BucketProvider::Azure => Some("spec.provider azure without secretRef"),
        BucketProvider::Generic | BucketProvider::Aws => None,
    }
}

#[cfg(test)]
mod tests {
    use equate_api::meta::Reason;
    use serde_json::{Value, json};

    use super::*;
    use crate::kit::controller::Retry;

    fn declared(spec: &Value) -> Declared {
        let mut object = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "Bucket",
            "metadata": { "name": "app", "namespace": "flux-system" },
            "spec": { "bucketName": "apps", "endpoint": "minio.example", "interval": "1m" },
        });
        let fields = object["spec"].as_object_mut().unwrap();
        fields.extend(spec.as_object().unwrap().clone());
        let object: Bucket = serde_json::from_value(object).unwrap();
        Declared::try_from(&object).unwrap()
    }

    /// An API server refuses most of these itself.
    #[test]
    fn a_token_service_that_does_not_fit_stalls_with_the_message_of_flux() {
        let check = |provider: &str, sts: Value, reason: Reason, message: &str| {
            let refused = declared(&json!({ "provider": provider, "sts": sts })).refused();
            let refused = refused.unwrap();
            assert_eq!((refused.reason, &*refused.message), (reason, message));
            assert_eq!(refused.retry, Retry::Never);
        };
        let sts = |provider: &str| json!({ "provider": provider, "endpoint": "https://sts.amazonaws.com" });
        let with = |field: &str| {
            let mut sts = sts("aws");
            sts[field] = json!({ "name": "x" });
            sts
        };
        let configuration = Reason::InvalidStsConfiguration;
        check(
            "generic",
            sts("aws"),
            configuration,
            "STS provider 'aws' is not supported for 'generic' bucket provider",
        );
        check(
            "aws",
            sts("ldap"),
            configuration,
            "STS provider 'ldap' is not supported for 'aws' bucket provider",
        );
        check(
            "aws",
            with("secretRef"),
            configuration,
            "spec.sts.secretRef is not required for the 'aws' STS provider",
        );
        check(
            "aws",
            with("certSecretRef"),
            configuration,
            "spec.sts.certSecretRef is not required for the 'aws' STS provider",
        );
        check(
            "generic",
            json!({ "provider": "ldap", "endpoint": "https://" }),
            Reason::UrlInvalid,
            "failed to parse STS endpoint 'https://': it is not an http or https URL of a host",
        );
        assert_eq!(
            declared(&json!({ "provider": "aws", "sts": sts("aws") })).refused(),
            None
        );
        assert_eq!(declared(&json!({ "sts": sts("ldap") })).refused(), None);
        assert_eq!(
            declared(&json!({ "provider": "gcp", "sts": sts("ldap") })).token_service,
            Ok(None)
        );
    }
}
