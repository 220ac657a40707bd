//! Sessions with the host of a repository: the namespace's share of its connections, and no worker.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use equate_api::meta::Reason;
use equate_egress::{Outcome, Silence};
use equate_git::{Commit, Kind, Revision};
use futures::future::BoxFuture;

use super::Context;
use super::declared::Declared;
use super::failure::{CHECKOUT, Failure};
use crate::kit::processors::JobError;
use crate::kit::queue::without_worker;
use crate::kit::time_limit::TimeLimit;

/// The outcome of a session for its host, and why the host is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HostOutcome(Outcome, Option<Silence>);

/// The meaning of a session's end for its host. A time limit may be the tenant's, and means nothing.
pub(super) fn outcome(failed: Option<Kind>) -> Option<HostOutcome> {
    match failed {
        Some(Kind::Unreachable(silence)) => Some(HostOutcome(Outcome::Silent, Some(silence))),
        Some(Kind::Tls) => Some(HostOutcome(Outcome::Silent, None)),
        Some(Kind::Timeout | Kind::Storage | Kind::UrlInvalid) => None,
        _ => Some(HostOutcome(Outcome::Answered, None)),
    }
}

/// A session that goes on after its reference is resolved. The mutex makes it `Sync`.
pub(crate) struct Fetching(Mutex<BoxFuture<'static, Resolved>>);

/// A revision, and its commit if it is new.
pub(super) type Resolved = Result<(Revision, Option<Commit>), Failure>;

impl Fetching {
    pub(super) fn new(session: impl Future<Output = Resolved> + Send + 'static) -> Self {
        Self(Mutex::new(Box::pin(session)))
    }

    pub(super) async fn commit(self) -> Result<Option<Commit>, Failure> {
        let session = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (_, commit) = session.await?;
        Ok(commit)
    }
}

impl fmt::Debug for Fetching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetching").finish_non_exhaustive()
    }
}

impl Context {
    /// The limit of one operation.
    pub(super) fn limit(&self, declared: &Declared) -> TimeLimit {
        TimeLimit::of(declared.timeout, self.timeout_max)
    }

    /// Runs a session off the runtime's threads. A directory that replaces the URL has no host.
    pub(super) async fn at_host<T: Send + 'static>(
        &self,
        declared: &Arc<Declared>,
        session: impl FnOnce() -> (Result<T, Failure>, Option<HostOutcome>) + Send + 'static,
    ) -> Result<T, Failure> {
        let broken = |error: JobError| {
            tracing::error!(key = %declared.key, %error, "a git session broke");
            Failure::broken(Reason::GitOperationFailed, &declared.key)
        };
        let host = equate_git::host(&declared.url);
        let Some(host) = host.filter(|_| self.git.substitute(&declared.url).is_none()) else {
            let done = self.processors.beside(session).await;
            return done.map_or_else(|error| Err(broken(error)), |(done, _)| done);
        };
        let namespace = &declared.key.namespace;
        without_worker(async {
            let admission = self.egress.enter(namespace, &host).await;
            let mut admission = admission
                .map_err(|refusal| Failure::closed(Reason::GitOperationFailed, CHECKOUT, &refusal))?;
            let slot = self.sessions.enter(namespace).await;
            let done = self.processors.beside(move || {
                // until its end, also if the run is cancelled before
                let _slot = slot;
                let (done, outcome) = session();
                if let Some(HostOutcome(outcome, silence)) = outcome {
                    admission.report(outcome);
                    if let Some(silence) = silence {
                        admission.because(silence);
                    }
                }
                done
            });
            done.await.unwrap_or_else(|error| Err(broken(error)))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_against_a_host_and_a_tenants_time_limit_does_not() {
        let answered = Some(HostOutcome(Outcome::Answered, None));
        assert_eq!(outcome(None), answered);
        let silent = |why| Some(HostOutcome(Outcome::Silent, why));
        let refused = Silence::Refused;
        assert_eq!(outcome(Some(Kind::Unreachable(refused))), silent(Some(refused)));
        assert_eq!(outcome(Some(Kind::Tls)), silent(None));
        assert_eq!(outcome(Some(Kind::Timeout)), None);
        assert_eq!(outcome(Some(Kind::Authentication)), answered);
    }
}
