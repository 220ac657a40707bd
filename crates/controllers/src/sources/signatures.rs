//! Verifies the signature of a manifest, with the keys, roots and policies of Secrets.
//!
//! Messages are those of Flux's `ocirepository_controller.go` and `helmchart_controller.go` (v1.9). The rules
//! are in `equate_registry::verify`.

use equate_api::meta::{ConditionType, LocalReference, Reason};
use equate_api::source::{ChartVerification, OciIdentity, OciVerification, SignatureProvider};
use equate_registry::oci_spec::image::Digest;
use equate_registry::verify::cosign::{self, Identity, Trust};
use equate_registry::verify::notation::{self, Outcome, Target, TrustPolicy, TrustStore};
use equate_registry::verify::{PublicKey, TrustedRoot};
use equate_registry::{Remote, Version};
use jiff::Timestamp;
use kube::Client;

use super::failure::Failure;
use super::secrets::{SecretData, secret};
use crate::kit::queue::without_worker;
use crate::kit::read::chain;

const TRUSTED_ROOT: &str = "trusted_root.json";
const TRUST_POLICY: &str = "trustpolicy.json";
/// Keys of one Secret that are tried.
const KEYS_MAX: usize = 32;

/// The signatures that a source requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Required {
    provider: SignatureProvider,
    /// The Secret with the keys or the policy.
    secret: Option<String>,
    trusted_root: Option<String>,
    identities: Vec<OciIdentity>,
}

impl From<&OciVerification> for Required {
    fn from(spec: &OciVerification) -> Self {
        let OciVerification {
            match_oidc_identity,
            provider,
            secret_ref,
            trusted_root_secret_ref,
        } = spec;
        Self {
            provider: *provider,
            secret: name(secret_ref.as_ref()),
            trusted_root: name(trusted_root_secret_ref.as_ref()),
            identities: match_oidc_identity.clone(),
        }
    }
}

impl From<&ChartVerification> for Required {
    fn from(spec: &ChartVerification) -> Self {
        let ChartVerification {
            match_oidc_identity,
            provider,
            secret_ref,
        } = spec;
        Self {
            provider: *provider,
            secret: name(secret_ref.as_ref()),
            trusted_root: None,
            identities: match_oidc_identity.clone(),
        }
    }
}

fn name(reference: Option<&LocalReference>) -> Option<String> {
    reference.map(|reference| reference.name.clone())
}

impl Required {
    /// Whether it needs Sigstore's public instance.
    pub(crate) fn needs_public_root(&self) -> bool {
        self.provider == SignatureProvider::Cosign && self.secret.is_none() && self.trusted_root.is_none()
    }

    /// Whether the artifact is verified; false if a policy lets an unverified one pass.
    pub(crate) async fn verify(
        &self,
        client: &Client,
        namespace: &str,
        remote: &Remote,
        artifact: &Digest,
    ) -> Result<bool, Unverified> {
        let name = remote.repository().at(&Version::Digest(artifact.clone()));
        let (provider, done) = match (self.provider, &self.secret) {
            (SignatureProvider::Cosign, Some(secret)) => {
                let done = by_keys(client, namespace, secret, remote, artifact, &name).await;
                ("cosign", done.map(|()| true))
            }
            (SignatureProvider::Cosign, None) => {
                let done = self.keyless(client, namespace, remote, artifact).await;
                ("cosign keyless", done.map(|()| true))
            }
            (SignatureProvider::Notation, secret) => {
                let done = by_policy(client, namespace, secret.as_deref(), remote, artifact, &name).await;
                ("notation", done)
            }
        };
        done.map_err(|why| Unverified {
            provider,
            why: why.text,
            is_setup: why.is_setup,
        })
    }

    async fn keyless(
        &self,
        client: &Client,
        namespace: &str,
        remote: &Remote,
        artifact: &Digest,
    ) -> Result<(), Why> {
        let Some(secret) = &self.trusted_root else {
            return Err("spec.verify.trustedRootSecretRef is required without keys"
                .to_owned()
                .into());
        };
        let place = format!("'{namespace}/{secret}'");
        let failed = |problem: String| format!("failed to read trusted root from secret {place}: {problem}");
        let data = data(client, namespace, secret).await.map_err(failed)?;
        let json = data
            .get(TRUSTED_ROOT)
            .ok_or_else(|| failed(format!("'{TRUSTED_ROOT}' not found in secret {place}")))?;
        let root = TrustedRoot::parse(&json.0).map_err(|error| failed(chain(&error)))?;
        let identities = self.identities.iter();
        let identities: Result<Vec<_>, _> = identities
            .map(|identity| Identity::new(&identity.issuer, &identity.subject))
            .collect();
        let trust = Trust::Keyless {
            root: Box::new(root),
            identities: identities.map_err(|error| chain(&error))?,
        };
        let signatures = without_worker(remote.cosign_signatures(artifact)).await;
        let signatures = signatures.map_err(|error| Why::of(&error))?;
        let verified = cosign::verify(artifact, &signatures, &trust, Timestamp::now());
        verified.map(drop).map_err(|error| Why::of(&error))
    }
}

/// An artifact is not verified, because a signature is missing or invalid, or a key or policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unverified {
    pub(crate) provider: &'static str,
    pub(crate) why: String,
    /// Whether a key or a policy cannot be read, so that no signature was compared.
    pub(crate) is_setup: bool,
}

/// The same, before the provider is known.
struct Why {
    text: String,
    is_setup: bool,
}

impl From<String> for Why {
    fn from(text: String) -> Self {
        Self { text, is_setup: true }
    }
}

impl Why {
    fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        Self {
            text: chain(error),
            is_setup: false,
        }
    }
}

impl Unverified {
    /// The registry cannot be asked.
    pub(crate) fn registry(why: String) -> Self {
        Self {
            provider: "",
            why,
            is_setup: false,
        }
    }

    /// Another manifest or key may be valid.
    pub(crate) fn failure(&self) -> Failure {
        let Self { provider, why, .. } = self;
        let message = format!("failed to verify the signature using provider '{provider}': {why}");
        Failure::passing(ConditionType::SourceVerified, Reason::VerificationError, message)
    }
}

async fn data(client: &Client, namespace: &str, name: &str) -> Result<SecretData, String> {
    let secret = secret(client, namespace, name).await;
    let secret = secret.map_err(|(problem, _)| problem)?;
    Ok(secret.data.unwrap_or_default())
}

async fn by_keys(
    client: &Client,
    namespace: &str,
    secret: &str,
    remote: &Remote,
    artifact: &Digest,
    name: &str,
) -> Result<(), Why> {
    let data = data(client, namespace, secret).await?;
    let files: Vec<_> = data.iter().filter(|(file, _)| file.ends_with(".pub")).collect();
    if files.len() > KEYS_MAX {
        return Err(format!("secret '{namespace}/{secret}' has more than {KEYS_MAX} public keys").into());
    }
    let mut keys = Vec::new();
    for (file, pem) in files {
        let key = PublicKey::from_pem(&pem.0);
        let place = || format!("cannot read '{file}' of secret '{namespace}/{secret}'");
        keys.push(key.map_err(|error| format!("{}: {}", place(), chain(&error)))?);
    }
    let signatures = without_worker(remote.cosign_signatures(artifact)).await;
    let signatures = signatures.map_err(|error| Why::of(&error))?;
    let now = Timestamp::now();
    if keys.is_empty() {
        return Err(format!("no public keys found in secret '{namespace}/{secret}'").into());
    }
    let mut last = String::new();
    for key in keys {
        match cosign::verify(artifact, &signatures, &Trust::Key(key), now) {
            Ok(_) => return Ok(()),
            Err(error) => last = chain(&error),
        }
    }
    Err(Why {
        text: format!("no matching signatures were found for '{name}': {last}"),
        is_setup: false,
    })
}

async fn by_policy(
    client: &Client,
    namespace: &str,
    secret: Option<&str>,
    remote: &Remote,
    artifact: &Digest,
    name: &str,
) -> Result<bool, Why> {
    let Some(secret) = secret else {
        return Err(format!("verification secret cannot be empty: '{name}'").into());
    };
    let place = format!("'{namespace}/{secret}'");
    let data = data(client, namespace, secret).await?;
    let policy = data
        .get(TRUST_POLICY)
        .ok_or_else(|| format!("'{TRUST_POLICY}' not found in secret {place}"))?;
    let policy = TrustPolicy::parse(&policy.0)
        .map_err(|error| format!("error occurred while parsing {TRUST_POLICY}: {}", chain(&error)))?;
    let is_certificate = |file: &str| file.ends_with(".crt") || file.ends_with(".pem");
    let files: Vec<_> = data
        .iter()
        .filter(|(file, _)| is_certificate(file))
        .map(|(file, bytes)| (file.as_str(), &*bytes.0))
        .collect();
    if files.is_empty() {
        return Err(format!("no certificates found in secret {place}").into());
    }
    let store = TrustStore::new(files).map_err(|error| chain(&error))?;
    if policy.skips(name).map_err(|error| chain(&error))? {
        return Ok(false);
    }
    let fetching = async {
        let manifest = remote.manifest(&Version::Digest(artifact.clone())).await?;
        Ok::<_, equate_registry::Error>((manifest, remote.notation_signatures(artifact).await?))
    };
    let (manifest, signatures) = without_worker(fetching).await.map_err(|error| Why::of(&error))?;
    let target = Target {
        media_type: manifest.media_type.to_string(),
        digest: artifact.to_string(),
        size: manifest.bytes.len() as u64,
    };
    let outcome = notation::verify(&policy, &store, name, &target, &signatures, Timestamp::now());
    match outcome.map_err(|error| Why::of(&error))? {
        Outcome::Verified(_) => Ok(true),
        Outcome::Ignored(_) | Outcome::Skipped => Ok(false),
    }
}
