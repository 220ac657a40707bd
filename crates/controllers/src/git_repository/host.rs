//! Sessions with the host of a repository: the namespace's share of its connections, and no worker.

use std::sync::Arc;

use equate_api::meta::Reason;
use equate_egress::Outcome;
use equate_git::Kind;
use tokio::task::spawn_blocking;

use super::Context;
use super::declared::Declared;
use super::failure::{CHECKOUT, Failure};
use crate::kit::queue::without_worker;
use crate::kit::time_limit::TimeLimit;

/// The meaning of a session's end for its host. A time limit may be the tenant's, and means nothing.
pub(super) fn outcome(failed: Option<Kind>) -> Option<Outcome> {
    match failed {
        Some(Kind::Unreachable | Kind::Tls) => Some(Outcome::Silent),
        Some(Kind::Timeout | Kind::Storage | Kind::UrlInvalid) => None,
        _ => Some(Outcome::Answered),
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
        session: impl FnOnce() -> (Result<T, Failure>, Option<Outcome>) + Send + 'static,
    ) -> Result<T, Failure> {
        let done = async {
            let done = spawn_blocking(session).await;
            done.unwrap_or_else(|_| {
                (
                    Err(Failure::broken(Reason::GitOperationFailed, &declared.key)),
                    None,
                )
            })
        };
        let host = equate_git::host(&declared.url);
        let Some(host) = host.filter(|_| self.git.substitute(&declared.url).is_none()) else {
            return done.await.0;
        };
        without_worker(async {
            let admission = self.egress.enter(&declared.key.namespace, &host).await;
            let mut admission = admission
                .map_err(|refusal| Failure::closed(Reason::GitOperationFailed, CHECKOUT, &refusal))?;
            let (done, outcome) = done.await;
            if let Some(outcome) = outcome {
                admission.report(outcome);
            }
            done
        })
        .await
    }
}
