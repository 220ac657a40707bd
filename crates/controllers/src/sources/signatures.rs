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
use k8s_openapi::ByteString;
use kube::Client;
use tokio::time::Instant;

use super::failure::Failure;
use super::secrets::{SecretData, secret};
use crate::kit::processors::{JobError, Processors};
use crate::kit::queue::without_worker;
use crate::kit::read::chain;
use crate::kit::time_limit::TimeLimit;

const TRUSTED_ROOT: &str = "trusted_root.json";
const TRUST_POLICY: &str = "trustpolicy.json";
/// Keys of one Secret that are tried.
const KEYS_MAX: usize = 32;
/// Identities of one `matchOIDCIdentity`. Each may take 2 MiB.
const IDENTITIES_MAX: usize = 32;

/// The means of a verification.
#[derive(Clone, Copy)]
pub(crate) struct Means<'a> {
    pub(crate) client: &'a Client,
    pub(crate) processors: &'a Processors,
    pub(crate) namespace: &'a str,
    /// Of the time on a processor.
    pub(crate) limit: TimeLimit,
}

impl Means<'_> {
    /// Runs work that is short, or asks again and again whether it goes on; if not, nobody waits for its result.
    async fn work<T: Send + 'static>(
        &self,
        remote: &Remote,
        work: impl FnOnce(&dyn Fn() -> bool) -> Result<T, Why> + Send + 'static,
    ) -> Result<T, Why> {
        let begun = Instant::now();
        let done = self.processors.paced(self.namespace, self.limit.time, work).await;
        // it may have waited for others
        remote.extend(begun.elapsed());
        done.unwrap_or_else(|error| Err(self.unfinished(&error)))
    }

    fn unfinished(&self, error: &JobError) -> Why {
        let text = match error {
            JobError::Late(_) => format!(
                "it uses a processor for longer than {}; remove signatures, keys, identities or trusted authorities",
                self.limit
            ),
            JobError::NoThread => chain(error),
            JobError::Panicked(_) | JobError::Displaced => {
                "internal error; see the controller's log".to_owned()
            }
        };
        Why {
            text,
            is_setup: false,
        }
    }

    async fn data(&self, name: &str) -> Result<SecretData, String> {
        let secret = secret(self.client, self.namespace, name).await;
        let secret = secret.map_err(|(problem, _)| problem)?;
        Ok(secret.data.unwrap_or_default())
    }
}

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
    /// Whether the artifact is verified; false if a policy lets an unverified one pass.
    pub(crate) async fn verify(
        &self,
        means: Means<'_>,
        remote: &Remote,
        artifact: &Digest,
    ) -> Result<bool, Unverified> {
        let (provider, done) = match (self.provider, &self.secret) {
            (SignatureProvider::Cosign, Some(secret)) => {
                let done = by_keys(means, secret, remote, artifact).await;
                ("cosign", done.map(|()| true))
            }
            (SignatureProvider::Cosign, None) => {
                let done = self.keyless(means, remote, artifact).await;
                ("cosign keyless", done.map(|()| true))
            }
            (SignatureProvider::Notation, secret) => {
                let done = by_policy(means, secret.as_deref(), remote, artifact).await;
                ("notation", done)
            }
        };
        done.map_err(|why| Unverified {
            provider,
            why: why.text,
            is_setup: why.is_setup,
        })
    }

    async fn keyless(&self, means: Means<'_>, remote: &Remote, artifact: &Digest) -> Result<(), Why> {
        let given = match &self.trusted_root {
            Some(secret) => {
                let place = format!("'{}/{secret}'", means.namespace);
                let data = means.data(secret).await;
                Some((data.map_err(|problem| unread_root(&place, &problem))?, place))
            }
            None => None,
        };
        let identities = self.identities.clone();
        let reading = means.work(remote, move |go_on| {
            let root = match given {
                Some((data, place)) => given_root(&data, &place)?,
                None => TrustedRoot::public_good().map_err(|error| chain(&error))?,
            };
            Ok(Trust::Keyless {
                root: Box::new(root),
                identities: compiled(&identities, go_on)?,
            })
        });
        let trust = reading.await?;
        let signatures = without_worker(remote.cosign_signatures(artifact)).await;
        let signatures = signatures.map_err(|error| Why::of(&error))?;
        let artifact = artifact.clone();
        let verifying = means.work(remote, move |go_on| {
            let go_on = || go_on() && signatures.check().is_ok();
            let verified = cosign::verify(&artifact, &signatures, &trust, Timestamp::now(), &go_on);
            signatures.check().map_err(|displaced| Why::of(&displaced))?;
            verified.map(drop).map_err(|error| Why::of(&error))
        });
        verifying.await
    }
}

fn unread_root(place: &str, problem: &str) -> String {
    format!("failed to read trusted root from secret {place}: {problem}")
}

fn given_root(data: &SecretData, place: &str) -> Result<TrustedRoot, String> {
    let absent = || unread_root(place, &format!("'{TRUSTED_ROOT}' not found in secret {place}"));
    let json = data.get(TRUSTED_ROOT).ok_or_else(absent)?;
    TrustedRoot::parse(&json.0).map_err(|error| unread_root(place, &chain(&error)))
}

fn compiled(identities: &[OciIdentity], go_on: &dyn Fn() -> bool) -> Result<Vec<Identity>, Why> {
    if identities.len() > IDENTITIES_MAX {
        return Err(
            format!("spec.verify.matchOIDCIdentity has more than {IDENTITIES_MAX} identities").into(),
        );
    }
    let mut compiled = Vec::with_capacity(identities.len());
    for identity in identities {
        if !go_on() {
            return Err(Why::of(&cosign::Unverified::Stopped));
        }
        let identity = Identity::new(&identity.issuer, &identity.subject);
        compiled.push(identity.map_err(|error| chain(&error))?);
    }
    Ok(compiled)
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

async fn by_keys(means: Means<'_>, secret: &str, remote: &Remote, artifact: &Digest) -> Result<(), Why> {
    let place = format!("'{}/{secret}'", means.namespace);
    let data = means.data(secret).await?;
    let files: Vec<_> = data.iter().filter(|(file, _)| file.ends_with(".pub")).collect();
    if files.len() > KEYS_MAX {
        return Err(format!("secret {place} has more than {KEYS_MAX} public keys").into());
    }
    let files: Vec<_> = files
        .into_iter()
        .map(|(file, pem)| (file.clone(), pem.clone()))
        .collect();
    let in_secret = place.clone();
    let reading = means.work(remote, move |_| {
        let key = |(file, pem): &(String, ByteString)| {
            let key = PublicKey::from_pem(&pem.0);
            key.map_err(|error| format!("cannot read '{file}' of secret {in_secret}: {}", chain(&error)))
        };
        Ok(files.iter().map(key).collect::<Result<Vec<_>, _>>()?)
    });
    let keys = reading.await?;
    let signatures = without_worker(remote.cosign_signatures(artifact)).await;
    let signatures = signatures.map_err(|error| Why::of(&error))?;
    if keys.is_empty() {
        return Err(format!("no public keys found in secret {place}").into());
    }
    let (artifact, name) = (artifact.clone(), named(remote, artifact));
    let verifying = means.work(remote, move |go_on| {
        let now = Timestamp::now();
        let mut last = String::new();
        let go_on = || go_on() && signatures.check().is_ok();
        for key in keys {
            let trust = Trust::Key(key);
            let verified = cosign::verify(&artifact, &signatures, &trust, now, &go_on);
            signatures.check().map_err(|displaced| Why::of(&displaced))?;
            match verified {
                Ok(_) => return Ok(()),
                Err(error) => last = chain(&error),
            }
        }
        Err(Why {
            text: format!("no matching signatures were found for '{name}': {last}"),
            is_setup: false,
        })
    });
    verifying.await
}

/// The name of an artifact.
fn named(remote: &Remote, artifact: &Digest) -> String {
    remote.repository().at(&Version::Digest(artifact.clone()))
}

async fn by_policy(
    means: Means<'_>,
    secret: Option<&str>,
    remote: &Remote,
    artifact: &Digest,
) -> Result<bool, Why> {
    let name = named(remote, artifact);
    let Some(secret) = secret else {
        return Err(format!("verification secret cannot be empty: '{name}'").into());
    };
    let place = format!("'{}/{secret}'", means.namespace);
    let data = means.data(secret).await?;
    let own_name = name.clone();
    let reading = means.work(remote, move |_| {
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
        let skips = policy.skips(&own_name).map_err(|error| chain(&error))?;
        Ok((!skips).then_some((policy, store)))
    });
    let Some((policy, store)) = reading.await? else {
        return Ok(false);
    };
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
    let verifying = means.work(remote, move |_| {
        let outcome = notation::verify(&policy, &store, &name, &target, &signatures, Timestamp::now());
        match outcome.map_err(|error| Why::of(&error))? {
            Outcome::Verified(_) => Ok(true),
            Outcome::Ignored(_) | Outcome::Skipped => Ok(false),
        }
    });
    verifying.await
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use equate_egress::Egress;
    use equate_registry::{Access, Limits, Registries, Repository};
    use kube::client::Body;
    use tokio::runtime::Handle;

    use super::*;
    use crate::kit::processors::Threads;
    use crate::kit::tenants::Tenants;

    async fn silent(_: http::Request<Body>) -> Result<http::Response<Body>, Infallible> {
        std::future::pending().await
    }

    #[tokio::test]
    async fn a_verification_without_end_is_stopped() {
        let client = Client::new(tower::service_fn(silent), "default");
        let processors = Processors::of_machine(Tenants::default(), Threads::Runtime(Handle::current()));
        let means = Means {
            client: &client,
            processors: &processors,
            namespace: "team-a",
            limit: TimeLimit::of(Duration::from_millis(50), Duration::MAX),
        };
        let registries = Registries::new(Egress::default(), Limits::default());
        let repository = Repository::parse("localhost:1/app").unwrap();
        let remote = registries
            .open(repository, Access::new("team-a", Duration::from_secs(60)))
            .unwrap();
        let ended = Arc::new(AtomicUsize::new(0));
        let own = Arc::clone(&ended);
        let work = move |go_on: &dyn Fn() -> bool| {
            while go_on() {}
            own.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let why = means.work(&remote, work).await.unwrap_err();
        let expected = "it uses a processor for longer than 50ms (spec.timeout); remove signatures";
        assert!(!why.is_setup && why.text.starts_with(expected), "{}", why.text);
        while !processors.are_idle() {
            tokio::task::yield_now().await;
        }
        assert_eq!(ended.load(Ordering::Relaxed), 1);
    }
}
