//! Secrets that a source names, in its own namespace. They are read when needed and not kept.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;

use crate::kit::read::{ReadError, read};

pub(crate) type SecretData = BTreeMap<String, ByteString>;

/// Why a Secret cannot be read. Callers name it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SecretReadError {
    #[error("secrets \"{0}\" not found")]
    Absent(String),
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl SecretReadError {
    /// Whether only another spec helps.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Read(ReadError::Name(_)))
    }
}

pub(crate) async fn read_secret(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<SecretData, SecretReadError> {
    let found = read::<Secret>(client, namespace, name).await?;
    let found = found.ok_or_else(|| SecretReadError::Absent(name.to_owned()))?;
    Ok(found.data.unwrap_or_default())
}

/// The value of a key. An empty value counts as absent, as in Flux.
pub(crate) fn value<'a>(data: &'a SecretData, key: &str) -> Option<&'a [u8]> {
    let value = data.get(key).map(|value| &*value.0);
    value.filter(|value| !value.is_empty())
}
