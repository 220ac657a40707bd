//! A GitRepository as this controller reads it: parsed once. A field that Equate does not support is
//! reported by name; none is ignored.

use std::time::Duration;

use equate_api::meta::FINALIZER;
use equate_api::source::{GitProvider, GitRepository, GitRepositorySpec, GitVerificationMode, Include};
use equate_git::Reference;
use equate_source::{Place, PlaceError, Publisher};

use crate::Key;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Declared {
    pub(crate) key: Key,
    pub(crate) publisher: Publisher,
    pub(crate) generation: i64,
    pub(crate) deleting: bool,
    pub(crate) finalizer: bool,
    pub(crate) suspend: bool,
    pub(crate) url: String,
    pub(crate) reference: Reference,
    pub(crate) ignore: Option<String>,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    /// The Secret with the credentials, in its own namespace.
    pub(crate) secret: Option<String>,
    /// Whether a GitHub App authenticates.
    pub(crate) github: bool,
    /// The Secret with the proxy, in its own namespace.
    pub(crate) proxy: Option<String>,
    /// The directories of `spec.sparseCheckout`; all if empty.
    pub(crate) sparse: Vec<String>,
    pub(crate) submodules: bool,
    /// GitRepositories of its own namespace whose files are included.
    pub(crate) include: Vec<Include>,
    pub(crate) verify: Option<Verify>,
    pub(crate) unsupported: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verify {
    /// Never the old spelling.
    pub(crate) mode: GitVerificationMode,
    /// The Secret with the public keys, in its own namespace.
    pub(crate) secret: String,
}

impl Verify {
    pub(crate) fn tag(&self) -> bool {
        self.mode != GitVerificationMode::Head
    }

    pub(crate) fn head(&self) -> bool {
        self.mode != GitVerificationMode::Tag
    }

    /// Whether a verification in the mode `observed` satisfies this mode.
    pub(crate) fn is_covered_by(&self, observed: Option<&str>) -> bool {
        observed.is_some_and(|observed| {
            observed == self.mode.as_str() || observed == GitVerificationMode::TagAndHead.as_str()
        })
    }
}

impl TryFrom<&GitRepository> for Declared {
    type Error = PlaceError;

    /// Fails for names that no API server accepts.
    fn try_from(object: &GitRepository) -> Result<Self, PlaceError> {
        let (meta, spec) = (&object.metadata, &object.spec);
        let key = Key::of(meta);
        Ok(Self {
            publisher: Publisher::new(
                Place::new("GitRepository", &key.namespace, &key.name)?,
                meta.uid.clone().unwrap_or_default(),
            ),
            key,
            generation: meta.generation.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            finalizer: meta
                .finalizers
                .iter()
                .flatten()
                .any(|finalizer| finalizer == FINALIZER),
            suspend: spec.suspend,
            url: spec.url.clone(),
            reference: reference(spec),
            ignore: spec.ignore.clone(),
            interval: spec.interval.get(),
            timeout: spec.timeout(),
            secret: spec.secret_ref.as_ref().map(|secret| secret.name.clone()),
            github: spec.provider == Some(GitProvider::Github),
            proxy: spec.proxy_secret_ref.as_ref().map(|proxy| proxy.name.clone()),
            sparse: spec.sparse_checkout.clone(),
            submodules: spec.recurse_submodules,
            include: spec.include.clone(),
            verify: verify(spec),
            unsupported: unsupported(spec),
        })
    }
}

fn verify(spec: &GitRepositorySpec) -> Option<Verify> {
    let verification = spec.verify.as_ref()?;
    let mode = match verification.mode.unwrap_or_default() {
        GitVerificationMode::LegacyHead => GitVerificationMode::Head,
        mode => mode,
    };
    Some(Verify {
        mode,
        secret: verification.secret_ref.name.clone(),
    })
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

/// Names every field, so that a new one does not compile without a decision.
fn unsupported(spec: &GitRepositorySpec) -> Option<&'static str> {
    let GitRepositorySpec {
        ignore: _,
        include: _,
        interval: _,
        provider,
        proxy_secret_ref: _,
        recurse_submodules: _,
        reference: _,
        secret_ref: _,
        service_account_name,
        sparse_checkout: _,
        suspend: _,
        timeout: _,
        url: _,
        verify: _,
    } = spec;
    let cloud = provider.and_then(|provider| match provider {
        GitProvider::Generic | GitProvider::Github => None,
        GitProvider::Aws => Some("spec.provider aws"),
        GitProvider::Azure => Some("spec.provider azure"),
    });
    cloud.or(service_account_name.as_ref().map(|_| "spec.serviceAccountName"))
}
