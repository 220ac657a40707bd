//! Values from ConfigMaps and Secrets: the variables of `spec.postBuild.substituteFrom`, and the keys of
//! `spec.decryption`.
//!
//! They are read at most once for a run, with one request for each reference, and dropped when the build is
//! applied. They are never written. A digest stays, to detect a change. No error, log or event has a value
//! of a Secret: messages of the API server about objects pass through the masks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use equate_api::kustomize::{Decryption, Kustomization, SubstituteReference, ValuesKind};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use super::decryption::{self, KeyRing, KeySecret, KeysError};
use crate::kit::inputs::{InputRef, Versions, version_of};
use crate::kit::processors::Processors;
use crate::kustomization::declared;
use crate::kustomization::reasons::Failure;
use crate::masks::Masks;
use crate::{Key, kit};

/// The most references of one Kustomization.
pub const REFERENCES_MAX: usize = 64;
/// The most bytes of all names and values together.
pub const BYTES_MAX: usize = 8 << 20;

/// An error while variables are read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValuesError {
    /// It does not exist, and is not optional.
    #[error(
        "substitute from '{kind}/{name}' error: {}s {name:?} not found in namespace {namespace:?}",
        kind.to_lowercase()
    )]
    Absent {
        /// ConfigMap or Secret.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: String,
    },
    /// The API server refuses to return it, or its answer cannot be read.
    #[error("substitute from '{kind}/{name}' error: {why}")]
    Refused {
        /// ConfigMap or Secret.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The API server's message.
        why: String,
    },
    /// The API server was busy or did not answer.
    #[error("substitute from '{kind}/{name}' error: {why}")]
    Unreachable {
        /// ConfigMap or Secret.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The error.
        why: String,
    },
    /// A value of a Secret is not text. It is not shown.
    #[error("substitute from 'Secret/{name}' error: the value of {key:?} is not UTF-8")]
    NotText {
        /// The Secret's name.
        name: String,
        /// The variable.
        key: String,
    },
    /// Too many references.
    #[error("spec.postBuild.substituteFrom has {0} entries; the limit is {REFERENCES_MAX}")]
    TooMany(usize),
    /// Too many bytes.
    #[error("spec.postBuild.substituteFrom refers to more than {BYTES_MAX} bytes of values")]
    TooLarge,
    /// An error of the keys.
    #[error(transparent)]
    Keys(#[from] KeysError),
}

impl ValuesError {
    /// Whether the same spec and objects give the same error.
    pub(in crate::kustomization) fn is_repeatable(&self) -> bool {
        match self {
            Self::Absent { .. } | Self::NotText { .. } | Self::TooMany(_) | Self::TooLarge => true,
            Self::Refused { .. } | Self::Unreachable { .. } | Self::Keys(_) => false,
        }
    }
}

impl From<ValuesError> for Failure {
    fn from(error: ValuesError) -> Self {
        let why = match &error {
            ValuesError::Keys(error) => error.to_string(),
            error => format!("post build failed: {error}"),
        };
        match error {
            ValuesError::Unreachable { .. } | ValuesError::Keys(KeysError::Unreachable { .. }) => {
                Failure::Unreachable(why)
            }
            ValuesError::Keys(_) => Failure::Values(why),
            ValuesError::Absent { .. }
            | ValuesError::Refused { .. }
            | ValuesError::NotText { .. }
            | ValuesError::TooMany(_)
            | ValuesError::TooLarge => Failure::Values(why),
        }
    }
}

/// The version of the values, without the values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    digest: [u8; 32],
    versions: Versions,
}

impl Stamp {
    /// Whether the values are the same, also in other versions of their objects.
    pub fn is_of(&self, other: &Stamp) -> bool {
        self.digest == other.digest
    }

    /// The objects that were read.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }
}

/// Variables with their values, and keys. `Debug` shows names only.
pub struct Values {
    variables: BTreeMap<String, String>,
    /// None without decryption.
    keys: Option<KeyRing>,
    secrets: Arc<Masks>,
    stamp: Stamp,
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

impl Values {
    /// The version of the values.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// The variables, overridden by the inline ones.
    pub fn under(&self, inline: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut all = self.variables.clone();
        all.extend(inline.clone());
        all
    }

    pub(in crate::kustomization) fn keys(&self) -> Option<&KeyRing> {
        self.keys.as_ref()
    }

    pub(in crate::kustomization) fn masks(&self) -> &Arc<Masks> {
        &self.secrets
    }
}

/// The ConfigMaps and Secrets of a Kustomization, with the Secret of shared keys.
pub fn holders(object: &Kustomization, shared_keys: Option<&Key>) -> impl Iterator<Item = InputRef> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let post = object.spec.post_build.as_ref();
    let references = post.map_or(&[][..], |post| &post.substitute_from);
    let from = (references, object.spec.decryption.as_ref(), shared_keys);
    read_by(namespace, from).chain(declared::holder(object))
}

/// The objects that are read, in order.
pub(in crate::kustomization) fn read_by(
    namespace: &str,
    (references, decryption, shared_keys): (&[SubstituteReference], Option<&Decryption>, Option<&Key>),
) -> impl Iterator<Item = InputRef> {
    let keys = decryption.and_then(|decryption| KeySecret::of(decryption, namespace, shared_keys));
    let keys = keys.map(|keys| (ValuesKind::Secret, Key::new(keys.namespace, keys.name)));
    let values = references
        .iter()
        .map(move |reference| (reference.kind, Key::new(namespace, &*reference.name)));
    keys.into_iter().chain(values)
}

/// Reads the variables of all references, where the last of a name wins; and the keys, from the shared
/// Secret if the Kustomization names none.
///
/// # Errors
/// When a reference that is not optional cannot be read.
pub async fn read(
    client: &Client,
    namespace: &str,
    references: &[SubstituteReference],
    decryption: Option<&Decryption>,
    shared_keys: Option<&Key>,
) -> Result<Values, ValuesError> {
    let mut versions = Versions::default();
    read_with_versions(
        (client, None),
        namespace,
        (references, decryption, shared_keys),
        &mut versions,
    )
    .await
}

/// Like [`read`], with the versions of what was read, also before an error. Many keys are read on the processors.
pub(in crate::kustomization) async fn read_with_versions(
    (client, processors): (&Client, Option<&Processors>),
    namespace: &str,
    (references, decryption, shared_keys): (&[SubstituteReference], Option<&Decryption>, Option<&Key>),
    versions: &mut Versions,
) -> Result<Values, ValuesError> {
    if references.len() > REFERENCES_MAX {
        return Err(ValuesError::TooMany(references.len()));
    }
    let (mut variables, mut secrets) = (BTreeMap::new(), Masks::default());
    // first, as in Flux: then an error of the keys costs no read of values
    let secret = decryption.and_then(|decryption| KeySecret::of(decryption, namespace, shared_keys));
    let keys = match secret {
        None => None,
        Some(secret) => {
            let found = decryption::read(client, processors, secret).await?;
            let holder = Key::new(secret.namespace, secret.name);
            versions.push((ValuesKind::Secret, holder), found.version);
            if let Some((token, _)) = found.ring.token() {
                secrets.add(token);
            }
            Some(found)
        }
    };
    let mut bytes = 0;
    for reference in references {
        let found = match reference.kind {
            ValuesKind::ConfigMap => get::<ConfigMap>(client, namespace, reference)
                .await?
                .map(of_config_map),
            ValuesKind::Secret => get::<Secret>(client, namespace, reference)
                .await?
                .map(|secret| of_secret(&reference.name, secret)),
        };
        let holder = (reference.kind, Key::new(namespace, &*reference.name));
        let Some(found) = found else {
            versions.push(holder, None);
            if !reference.optional {
                return Err(ValuesError::Absent {
                    kind: reference.kind.as_str(),
                    name: reference.name.clone(),
                    namespace: namespace.to_owned(),
                });
            }
            continue;
        };
        versions.push(holder, found.version);
        let values = found.values?;
        bytes += values
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum::<usize>();
        if bytes > BYTES_MAX {
            return Err(ValuesError::TooLarge);
        }
        if reference.kind == ValuesKind::Secret {
            values.values().for_each(|value| secrets.add(value));
        }
        variables.extend(values);
    }
    let mut hash = Sha256::new();
    hash.update(digest(
        variables.iter().map(|(name, value)| (name, value.as_bytes())),
    ));
    if let Some(keys) = &keys {
        let entries = keys.entries.iter();
        hash.update(digest(entries.map(|(name, value)| (name, &**value))));
    }
    let keys = decryption.map(|_| keys.map(|found| found.ring).unwrap_or_default());
    Ok(Values {
        variables,
        keys,
        secrets: Arc::new(secrets),
        stamp: Stamp {
            digest: hash.finalize().into(),
            versions: versions.clone(),
        },
    })
}

/// The content of one reference.
struct Found {
    version: Option<u64>,
    values: Result<BTreeMap<String, String>, ValuesError>,
}

fn of_config_map(map: ConfigMap) -> Found {
    let values = map.data.into_iter().flatten();
    Found {
        version: version_of(&map.metadata),
        values: Ok(values.map(|(name, value)| (name, in_one_line(&value))).collect()),
    }
}

fn of_secret(name: &str, secret: Secret) -> Found {
    let values = secret.data.into_iter().flatten();
    let values = values.map(|(key, value)| match String::from_utf8(value.0) {
        Ok(text) => Ok((key, in_one_line(&text))),
        Err(_) => Err(ValuesError::NotText {
            name: name.to_owned(),
            key,
        }),
    });
    Found {
        version: version_of(&secret.metadata),
        values: values.collect(),
    }
}

fn in_one_line(value: &str) -> String {
    value.replace('\n', "")
}

fn digest<'t>(entries: impl Iterator<Item = (&'t String, &'t [u8])>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in entries.flat_map(|(name, value)| [name.as_bytes(), value]) {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

async fn get<K>(
    client: &Client,
    namespace: &str,
    reference: &SubstituteReference,
) -> Result<Option<K>, ValuesError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + fmt::Debug,
{
    let found = kit::read::read(client, namespace, &reference.name).await;
    found.map_err(|error| {
        let (kind, name) = (reference.kind.as_str(), reference.name.clone());
        let why = error.to_string();
        match error.passes() {
            true => ValuesError::Unreachable { kind, name, why },
            false => ValuesError::Refused { kind, name, why },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(variables: &[(&str, &str)], secrets: &[&str]) -> Values {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let variables: BTreeMap<_, _> = variables.collect();
        let mut masks = Masks::default();
        secrets.iter().for_each(|&secret| masks.add(secret));
        Values {
            stamp: Stamp {
                digest: digest(variables.iter().map(|(name, value)| (name, value.as_bytes()))),
                versions: Versions::default(),
            },
            variables,
            keys: None,
            secrets: Arc::new(masks),
        }
    }

    #[test]
    fn debug_shows_names_only() {
        let values = values(&[("token", "hunter2")], &["hunter2"]);
        assert_eq!(format!("{values:?}"), r#"{"token"}"#);
        assert!(!format!("{:?}", values.stamp()).contains("hunter2"));
    }

    #[test]
    fn digests_distinguish_values_with_equal_concatenation() {
        let check = |one: &[(&str, &str)], other: &[(&str, &str)], same: bool| {
            let (one, other) = (values(one, &[]), values(other, &[]));
            assert_eq!(one.stamp().is_of(other.stamp()), same);
        };
        check(&[("a", "b")], &[("a", "b")], true);
        check(&[("a", "bc")], &[("ab", "c")], false);
        check(&[("a", "")], &[], false);
    }
}
