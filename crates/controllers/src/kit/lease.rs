//! Leader election by Lease: of all processes that run a controller, one works.
//!
//! The protocol and the records are client-go's, so that Flux's controllers and Equate's respect each
//! other under Flux's Lease names. Clocks are not compared: a Lease has expired if the observer has not
//! seen it change for its duration.
//!
//! A holder counts from the moment it sent the last granted renewal. It gives up after
//! [`LeaseConfig::renew`], before [`LeaseConfig::duration`] lets another take over. Its work must end at
//! once.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, PostParams};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// The Lease and its timing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseConfig {
    /// The namespace of the Lease.
    pub namespace: String,
    /// Its name, `kustomize-controller-leader-election`.
    pub name: String,
    /// The candidate: different in every process, ever.
    pub identity: String,
    /// How long others wait after the last renewal.
    pub duration: Duration,
    /// How long the holder works after the last renewal.
    pub renew: Duration,
    /// The time between attempts.
    pub retry: Duration,
}

/// Why a configuration is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaseConfigError {
    /// Two processes would work at once.
    #[error("a lease duration of {duration:?} has to be longer than the renew deadline of {renew:?}")]
    Duration {
        /// The duration.
        duration: Duration,
        /// The renew deadline.
        renew: Duration,
    },
    /// One slow answer would lose the Lease.
    #[error("a renew deadline of {renew:?} has to be longer than the retry period of {retry:?}")]
    Renew {
        /// The renew deadline.
        renew: Duration,
        /// The retry period.
        retry: Duration,
    },
}

impl LeaseConfig {
    /// Flux's times: 35 s, 30 s, 5 s.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            duration: Duration::from_secs(35),
            renew: Duration::from_secs(30),
            retry: Duration::from_secs(5),
        }
    }

    /// Checks that two processes never work at once.
    ///
    /// # Errors
    ///
    /// Unless `retry < renew < duration`.
    pub fn check(&self) -> Result<(), LeaseConfigError> {
        let Self {
            duration,
            renew,
            retry,
            ..
        } = *self;
        if duration <= renew {
            return Err(LeaseConfigError::Duration { duration, renew });
        }
        if renew <= retry {
            return Err(LeaseConfigError::Renew { renew, retry });
        }
        Ok(())
    }

    /// The next record. If we held the Lease before, the acquire time stays.
    fn record(&self, before: Option<&LeaseSpec>, now: Timestamp) -> LeaseSpec {
        let ours = before.filter(|spec| holder(spec) == Some(&self.identity));
        let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX)),
            acquire_time: ours
                .and_then(|spec| spec.acquire_time.clone())
                .or(Some(MicroTime(now))),
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(match (before, ours) {
                (Some(_), None) => transitions.saturating_add(1),
                _ => transitions,
            }),
            ..LeaseSpec::default()
        }
    }
}

/// The name of the Lease of a controller that shares its work: Flux's name, so that two processes with
/// the same share have the same Lease. `shares` are the selectors; empty if it does all the work.
pub fn name(controller: &str, shares: &[&str]) -> String {
    let name = format!("{controller}-leader-election");
    if shares.is_empty() {
        return name;
    }
    let mut hash = Sha256::new();
    for share in shares {
        hash.update(share);
    }
    let hash = hash.finalize();
    let hex: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{name}-{hex}")
}

fn holder(spec: &LeaseSpec) -> Option<&str> {
    spec.holder_identity
        .as_deref()
        .filter(|identity| !identity.is_empty())
}

#[derive(Debug, PartialEq, Eq)]
enum Step<'a> {
    Take,
    Wait(&'a str),
}

fn decide<'a>(config: &LeaseConfig, spec: &'a LeaseSpec, unchanged: Duration) -> Step<'a> {
    let Some(other) = holder(spec).filter(|holder| *holder != config.identity) else {
        return Step::Take;
    };
    let seconds = spec
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok());
    let duration = seconds.map_or(config.duration, Duration::from_secs);
    match unchanged > duration {
        true => Step::Take,
        false => Step::Wait(other),
    }
}

/// A Lease that is held until it is lost or released.
pub struct Held {
    name: String,
    lost: watch::Receiver<bool>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("name", &self.name)
            .field("lost", &*self.lost.borrow())
            .finish_non_exhaustive()
    }
}

impl Held {
    /// Waits for the Lease and renews it from then on, on threads of `runtime`. If the future is dropped, a
    /// Lease just taken expires.
    pub async fn acquire(client: Client, config: LeaseConfig, runtime: &Handle) -> Held {
        let mut candidate = Candidate {
            api: Api::namespaced(client, &config.namespace),
            config,
            seen: None,
            waits_for: None,
        };
        let granted = loop {
            let asked = Instant::now();
            match candidate.attempt().await {
                Ok(true) => break asked,
                Ok(false) => {}
                Err(error) => {
                    let name = &candidate.config.name;
                    tracing::warn!(lease = name, %error, "cannot read or write the Lease");
                }
            }
            sleep_until(asked + candidate.config.retry).await;
        };
        let (set_lost, lost) = watch::channel(false);
        let stop = CancellationToken::new();
        let name = candidate.config.name.clone();
        tracing::info!(
            lease = name,
            identity = candidate.config.identity,
            "became leader"
        );
        let task = runtime.spawn(candidate.renew(granted, set_lost, stop.clone()));
        Held {
            name,
            lost,
            stop,
            task,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until it is lost: work has to end now.
    pub async fn lost(&self) {
        let mut lost = self.lost.clone();
        // a task that panicked renews nothing: that is a loss, too
        drop(lost.wait_for(|lost| *lost).await);
    }

    /// Releases it at once; work has ended.
    pub async fn release(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "cannot release the Lease; it expires");
        }
    }
}

struct Candidate {
    api: Api<Lease>,
    config: LeaseConfig,
    /// The Lease at its last observed change, and that time.
    seen: Option<(Lease, Instant)>,
    waits_for: Option<String>,
}

#[derive(Debug, thiserror::Error)]
enum AttemptError {
    #[error(transparent)]
    Refused(#[from] kube::Error),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

impl Candidate {
    /// Takes or renews the Lease if allowed; returns whether it is ours now.
    async fn attempt(&mut self) -> Result<bool, AttemptError> {
        let limit = self.config.renew / 2;
        match timeout(limit, self.attempt_once()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(AttemptError::Timeout(limit)),
        }
    }

    async fn attempt_once(&mut self) -> Result<bool, AttemptError> {
        let Some(lease) = self.api.get_opt(&self.config.name).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.config.name.clone()),
                    namespace: Some(self.config.namespace.clone()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.config.record(None, Timestamp::now())),
            };
            let created = self.api.create(&PostParams::default(), &lease).await;
            return self.written(created);
        };
        let now = Instant::now();
        let version = |lease: &Lease| lease.metadata.resource_version.clone();
        let since = match &self.seen {
            Some((seen, since)) if version(seen) == version(&lease) => *since,
            _ => now,
        };
        let spec = lease.spec.clone().unwrap_or_default();
        self.seen = Some((lease.clone(), since));
        if let Step::Wait(other) = decide(&self.config, &spec, now - since) {
            if self.waits_for.as_deref() != Some(other) {
                tracing::info!(lease = self.config.name, holder = other, "waiting for the Lease");
                self.waits_for = Some(other.to_owned());
            }
            return Ok(false);
        }
        let next = Lease {
            spec: Some(self.config.record(Some(&spec), Timestamp::now())),
            ..lease
        };
        let replaced = self
            .api
            .replace(&self.config.name, &PostParams::default(), &next)
            .await;
        self.written(replaced)
    }

    fn written(&mut self, written: kube::Result<Lease>) -> Result<bool, AttemptError> {
        match written {
            Ok(lease) => {
                self.seen = Some((lease, Instant::now()));
                self.waits_for = None;
                Ok(true)
            }
            // another process was faster
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Renews until told to stop, then releases; or until it may be another's.
    async fn renew(mut self, granted: Instant, lost: watch::Sender<bool>, stop: CancellationToken) {
        let mut until = granted + self.config.renew;
        let mut next = granted + self.config.retry;
        loop {
            tokio::select! {
                () = stop.cancelled() => return self.release().await,
                () = sleep_until(until.min(next)) => {}
            }
            if Instant::now() >= until {
                break;
            }
            let asked = Instant::now();
            next = asked + self.config.retry;
            let renewed = tokio::select! {
                () = stop.cancelled() => return self.release().await,
                () = sleep_until(until) => break,
                renewed = self.attempt() => renewed,
            };
            match renewed {
                Ok(true) => until = asked + self.config.renew,
                // another holder: it is lost
                Ok(false) if self.waits_for.is_some() => break,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(lease = self.config.name, %error, "cannot renew the Lease");
                }
            }
        }
        tracing::error!(lease = self.config.name, "leader election lost");
        lost.send_replace(true);
    }

    async fn release(&mut self) {
        let Some((lease, _)) = self.seen.take() else {
            return;
        };
        let spec = lease.spec.clone().unwrap_or_default();
        if holder(&spec) != Some(&self.config.identity) {
            return;
        }
        let now = MicroTime(Timestamp::now());
        let next = Lease {
            spec: Some(LeaseSpec {
                holder_identity: Some(String::new()),
                lease_duration_seconds: Some(1),
                acquire_time: Some(now.clone()),
                renew_time: Some(now),
                ..spec
            }),
            ..lease
        };
        let params = PostParams::default();
        let replaced = timeout(
            self.config.retry,
            self.api.replace(&self.config.name, &params, &next),
        )
        .await;
        match replaced {
            Ok(Ok(_)) => tracing::info!(lease = self.config.name, "released the Lease"),
            Ok(Err(error)) => {
                tracing::warn!(lease = self.config.name, %error, "cannot release the Lease; it expires");
            }
            Err(_) => tracing::warn!(lease = self.config.name, "cannot release the Lease; it expires"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> LeaseConfig {
        LeaseConfig::new("flux-system", "kustomize-controller-leader-election", "me")
    }

    #[test]
    fn a_free_or_expired_lease_is_taken() {
        let check = |holder: Option<&str>, seconds: Option<i32>, unchanged: u64, expected: Step<'_>| {
            let spec = LeaseSpec {
                holder_identity: holder.map(str::to_owned),
                lease_duration_seconds: seconds,
                ..LeaseSpec::default()
            };
            let step = decide(&config(), &spec, Duration::from_secs(unchanged));
            assert_eq!(step, expected, "{holder:?} {seconds:?} {unchanged}");
        };
        check(None, None, 0, Step::Take);
        check(Some(""), Some(1), 0, Step::Take);
        check(Some("me"), Some(35), 0, Step::Take);
        check(Some("other"), Some(35), 35, Step::Wait("other"));
        check(Some("other"), Some(35), 36, Step::Take);
        // its own duration counts, not ours
        check(Some("other"), Some(60), 36, Step::Wait("other"));
        check(Some("other"), None, 36, Step::Take);
        check(Some("other"), Some(-1), 30, Step::Wait("other"));
    }

    #[test]
    fn a_record_counts_changes_of_the_holder() {
        let early: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let late: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let first = config().record(None, early);
        assert_eq!(
            (first.lease_transitions, first.lease_duration_seconds),
            (Some(0), Some(35))
        );
        let renewed = config().record(Some(&first), late);
        assert_eq!(renewed.acquire_time, Some(MicroTime(early)));
        assert_eq!(
            (renewed.renew_time, renewed.lease_transitions),
            (Some(MicroTime(late)), Some(0))
        );
        let other = LeaseConfig {
            identity: "other".to_owned(),
            ..config()
        };
        let taken = other.record(Some(&first), late);
        assert_eq!(
            (taken.acquire_time, taken.lease_transitions),
            (Some(MicroTime(late)), Some(1))
        );
    }

    /// The sums are those of Flux's `GenerateID`.
    #[test]
    fn shards_have_leases_of_their_own() {
        assert_eq!(
            name("source-controller", &[]),
            "source-controller-leader-election"
        );
        assert_eq!(name("a", &["bar"]), "a-leader-election-fcde2b2e");
        assert_eq!(name("a", &["bar", "baz"]), "a-leader-election-c8f8b724");
    }

    #[test]
    fn the_holder_ends_before_others_begin() {
        let check = |duration, renew, retry, expected: bool| {
            let config = LeaseConfig {
                duration: Duration::from_secs(duration),
                renew: Duration::from_secs(renew),
                retry: Duration::from_secs(retry),
                ..config()
            };
            assert_eq!(config.check().is_ok(), expected, "{config:?}");
        };
        check(35, 30, 5, true);
        check(30, 30, 5, false);
        check(35, 5, 5, false);
    }
}
