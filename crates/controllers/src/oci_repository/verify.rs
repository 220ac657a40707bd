//! Verifies the signature of a manifest, with the keys, roots and policies of Secrets.
//!
//! Messages are those of Flux's `ocirepository_controller.go` (v1.9). The rules are in
//! `equate_registry::verify`.

use equate_api::meta::LocalReference;
use equate_api::source::{OciVerification, SignatureProvider};
use equate_registry::oci_spec::image::Digest;
use equate_registry::verify::cosign::{self, Identity, Trust};
use equate_registry::verify::notation::{self, Outcome, Target, TrustPolicy, TrustStore};
use equate_registry::verify::{PublicKey, TrustedRoot};
use equate_registry::{Remote, Version};
use jiff::Timestamp;

use super::Context;
use super::access::get;
use super::decide::Found;
use super::declared::Declared;
use super::failure;
use crate::kit::queue::without_worker;
use crate::kit::read::chain;
use crate::sources::failure::Failure;
use crate::sources::secrets::SecretData;

const TRUSTED_ROOT: &str = "trusted_root.json";
const TRUST_POLICY: &str = "trustpolicy.json";
/// Keys of one Secret that are tried.
const KEYS_MAX: usize = 32;

/// The verified revision; `None` if a policy lets an unverified artifact pass.
pub(super) async fn verify(
    cx: &Context,
    declared: &Declared,
    asked: &OciVerification,
    remote: &Remote,
    found: &Found,
) -> Result<Option<String>, Failure> {
    let namespace = &declared.key.namespace;
    let name = remote.repository().at(&Version::Digest(found.digest.clone()));
    let (provider, done) = match (asked.provider, &asked.secret_ref) {
        (SignatureProvider::Cosign, Some(secret)) => {
            let done = by_keys(cx, namespace, secret, remote, &found.digest, &name).await;
            ("cosign", done.map(|()| true))
        }
        (SignatureProvider::Cosign, None) => {
            let done = keyless(cx, namespace, asked, remote, &found.digest).await;
            ("cosign keyless", done.map(|()| true))
        }
        (SignatureProvider::Notation, secret) => {
            let done = by_policy(cx, namespace, secret.as_ref(), remote, &found.digest, &name).await;
            ("notation", done)
        }
    };
    let is_verified = done.map_err(|problem| failure::verification(provider, &problem))?;
    Ok(is_verified.then(|| found.revision.clone()))
}

async fn data(cx: &Context, namespace: &str, name: &str) -> Result<SecretData, String> {
    let secret = get(cx, namespace, name).await.map_err(|(problem, _)| problem)?;
    Ok(secret.data.unwrap_or_default())
}

async fn by_keys(
    cx: &Context,
    namespace: &str,
    secret: &LocalReference,
    remote: &Remote,
    artifact: &Digest,
    name: &str,
) -> Result<(), String> {
    let data = data(cx, namespace, &secret.name).await?;
    let files: Vec<_> = data.iter().filter(|(file, _)| file.ends_with(".pub")).collect();
    if files.len() > KEYS_MAX {
        return Err(format!(
            "secret '{namespace}/{}' has more than {KEYS_MAX} public keys",
            secret.name
        ));
    }
    let mut keys = Vec::new();
    for (file, pem) in files {
        let key = PublicKey::from_pem(&pem.0);
        let place = || format!("cannot read '{file}' of secret '{namespace}/{}'", secret.name);
        keys.push(key.map_err(|error| format!("{}: {}", place(), chain(&error)))?);
    }
    let signatures = without_worker(remote.cosign_signatures(artifact)).await;
    let signatures = signatures.map_err(|error| chain(&error))?;
    let now = Timestamp::now();
    let mut last = None;
    for key in keys {
        match cosign::verify(artifact, &signatures, &Trust::Key(key), now) {
            Ok(_) => return Ok(()),
            Err(error) => last = Some(chain(&error)),
        }
    }
    let why = last.unwrap_or_else(|| format!("secret '{namespace}/{}' has no key '*.pub'", secret.name));
    Err(format!("no matching signatures were found for '{name}': {why}"))
}

async fn keyless(
    cx: &Context,
    namespace: &str,
    asked: &OciVerification,
    remote: &Remote,
    artifact: &Digest,
) -> Result<(), String> {
    let Some(reference) = &asked.trusted_root_secret_ref else {
        return Err("spec.verify.trustedRootSecretRef is required without keys".to_owned());
    };
    let place = format!("'{namespace}/{}'", reference.name);
    let failed = |problem: String| format!("failed to read trusted root from secret {place}: {problem}");
    let data = data(cx, namespace, &reference.name).await.map_err(failed)?;
    let json = data
        .get(TRUSTED_ROOT)
        .ok_or_else(|| failed(format!("'{TRUSTED_ROOT}' not found in secret {place}")))?;
    let root = TrustedRoot::parse(&json.0).map_err(|error| failed(chain(&error)))?;
    let identities: Result<Vec<_>, _> = asked
        .match_oidc_identity
        .iter()
        .map(|identity| Identity::new(&identity.issuer, &identity.subject))
        .collect();
    let trust = Trust::Keyless {
        root: Box::new(root),
        identities: identities.map_err(|error| chain(&error))?,
    };
    let signatures = without_worker(remote.cosign_signatures(artifact)).await;
    let signatures = signatures.map_err(|error| chain(&error))?;
    let verified = cosign::verify(artifact, &signatures, &trust, Timestamp::now());
    verified.map(drop).map_err(|error| chain(&error))
}

async fn by_policy(
    cx: &Context,
    namespace: &str,
    secret: Option<&LocalReference>,
    remote: &Remote,
    artifact: &Digest,
    name: &str,
) -> Result<bool, String> {
    let Some(secret) = secret else {
        return Err(format!("verification secret cannot be empty: '{name}'"));
    };
    let place = format!("'{namespace}/{}'", secret.name);
    let data = data(cx, namespace, &secret.name).await?;
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
        return Err(format!("no certificates found in secret {place}"));
    }
    let store = TrustStore::new(files).map_err(|error| chain(&error))?;
    if policy.skips(name).map_err(|error| chain(&error))? {
        return Ok(false);
    }
    let fetching = async {
        let manifest = remote.manifest(&Version::Digest(artifact.clone())).await?;
        Ok::<_, equate_registry::Error>((manifest, remote.notation_signatures(artifact).await?))
    };
    let (manifest, signatures) = without_worker(fetching).await.map_err(|error| chain(&error))?;
    let target = Target {
        media_type: manifest.media_type.to_string(),
        digest: artifact.to_string(),
        size: manifest.bytes.len() as u64,
    };
    let outcome = notation::verify(&policy, &store, name, &target, &signatures, Timestamp::now());
    match outcome.map_err(|error| chain(&error))? {
        Outcome::Verified(_) => Ok(true),
        Outcome::Ignored(_) | Outcome::Skipped => Ok(false),
    }
}
