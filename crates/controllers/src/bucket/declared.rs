//! A Bucket as this controller reads it: parsed once. A field that Equate does not support is reported by
//! name; none is ignored.

use std::time::Duration;

use equate_api::meta::LocalReference;
use equate_api::source::{Bucket, BucketProvider, BucketSpec};
use equate_bucket::{Kind, PlaceError as NameError};
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
    /// A field for credentials, which a directory that stands for the bucket does not need.
    pub(crate) unsupported: Option<&'static str>,
}

impl Declared {
    /// The failure of the spec itself.
    pub(crate) fn refused(&self) -> Option<Failure> {
        self.names.as_ref().err().map(failure::names)
    }
}

impl TryFrom<&Bucket> for Declared {
    type Error = PlaceError;

    /// Fails for names that no API server accepts.
    fn try_from(object: &Bucket) -> Result<Self, PlaceError> {
        let (meta, spec) = (&object.metadata, &object.spec);
        let key = Key::of(meta);
        let place = Place::new(ABOUT.kind, &key.namespace, &key.name)?;
        let name = |reference: &Option<LocalReference>| {
            let name = reference.as_ref().map(|reference| reference.name.clone());
            name.filter(|name| !name.is_empty())
        };
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
            secret: name(&spec.secret_ref),
            certificates: name(&spec.cert_secret_ref),
            proxy: name(&spec.proxy_secret_ref),
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
        sts,
        suspend: _,
        timeout: _,
    } = spec;
    // as in Flux, a Secret comes first
    if secret_ref.is_some() {
        return None;
    }
    match provider.unwrap_or_default() {
        _ if sts.is_some() => Some("spec.sts"),
        _ if service_account_name.is_some() => Some("spec.serviceAccountName"),
        BucketProvider::Aws => Some("spec.provider aws without secretRef"),
        BucketProvider::Gcp => Some("spec.provider gcp without secretRef"),
        BucketProvider::Azure => Some("spec.provider azure without secretRef"),
        BucketProvider::Generic => None,
    }
}
