//! A GitRepository as this controller reads it: parsed once. A field that Equate does not carry out yet is
//! found here, so that it can be named; none is passed over.

use std::time::Duration;

use equate_api::meta::{FINALIZER, REQUESTED_AT};
use equate_api::source::{GitProvider, GitRepository, GitRepositorySpec};
use equate_git::Reference;
use equate_source::{Place, PlaceError};

use crate::Key;

/// What a GitRepository asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Declared {
    pub(crate) key: Key,
    /// Where its artifacts are.
    pub(crate) place: Place,
    pub(crate) generation: i64,
    pub(crate) deleting: bool,
    pub(crate) finalizer: bool,
    pub(crate) suspend: bool,
    /// The token of a run that somebody asked for.
    pub(crate) requested_at: Option<String>,
    pub(crate) url: String,
    pub(crate) reference: Reference,
    /// `spec.ignore`.
    pub(crate) ignore: Option<String>,
    pub(crate) interval: Duration,
    /// Of one git operation.
    pub(crate) timeout: Duration,
    /// The Secret with the credentials, in its own namespace.
    pub(crate) secret: Option<String>,
    /// The first field that Equate does not carry out yet.
    pub(crate) unsupported: Option<&'static str>,
}

impl TryFrom<&GitRepository> for Declared {
    type Error = PlaceError;

    /// Fails for names no API server lets through.
    fn try_from(object: &GitRepository) -> Result<Self, PlaceError> {
        let (meta, spec) = (&object.metadata, &object.spec);
        let key = Key::of(meta);
        Ok(Self {
            place: Place::new("GitRepository", &key.namespace, &key.name)?,
            key,
            generation: meta.generation.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            finalizer: meta
                .finalizers
                .iter()
                .flatten()
                .any(|finalizer| finalizer == FINALIZER),
            suspend: spec.suspend,
            requested_at: meta
                .annotations
                .as_ref()
                .and_then(|all| all.get(REQUESTED_AT))
                .cloned(),
            url: spec.url.clone(),
            reference: reference(spec),
            ignore: spec.ignore.clone(),
            interval: spec.interval.get(),
            timeout: spec.timeout(),
            secret: spec.secret_ref.as_ref().map(|secret| secret.name.clone()),
            unsupported: unsupported(spec),
        })
    }
}

fn reference(spec: &GitRepositorySpec) -> Reference {
    let given = spec.reference.clone().unwrap_or_default();
    Reference {
        branch: given.branch,
        tag: given.tag,
        semver: given.semver,
        name: given.name,
        commit: given.commit,
    }
}

/// Every field is named, so that a new one does not compile until somebody decides about it.
fn unsupported(spec: &GitRepositorySpec) -> Option<&'static str> {
    let GitRepositorySpec {
        ignore: _,
        include,
        interval: _,
        provider,
        proxy_secret_ref,
        recurse_submodules,
        reference: _,
        secret_ref: _,
        service_account_name,
        sparse_checkout,
        suspend: _,
        timeout: _,
        url: _,
        verify,
    } = spec;
    let fields = [
        (!include.is_empty(), "spec.include"),
        (verify.is_some(), "spec.verify"),
        (*recurse_submodules, "spec.recurseSubmodules"),
        (!sparse_checkout.is_empty(), "spec.sparseCheckout"),
        (
            provider.is_some_and(|provider| provider != GitProvider::Generic),
            "spec.provider",
        ),
        (service_account_name.is_some(), "spec.serviceAccountName"),
        (proxy_secret_ref.is_some(), "spec.proxySecretRef"),
    ];
    fields.into_iter().find(|(used, _)| *used).map(|(_, field)| field)
}
