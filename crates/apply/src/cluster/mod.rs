//! Execution of plans: the only place that writes managed objects.
//!
//! | module | task |
//! |---|---|
//! | [`apply`](self) | stages: objects of one rank concurrently |
//! | `request` | one request, and the meaning of its answer |
//! | `caller` | the identity of requests |
//! | `discovery` | served kinds |
//! | `preview` | the dry run of a plan |
//! | `direct` | single requests, for callers that plan in another way |
//!
//! A failed object stops neither its stage nor the objects beside it: one bad manifest costs one object.
//! The caller does not continue with the next stage. Only this module constructs an [`Applied`]:
//! intentions cannot be reported as done.

mod applied;
mod apply;
mod caller;
mod direct;
mod discovery;
mod error;
mod namespaces;
mod preview;
mod prune;
mod request;

pub use applied::{Action, Applied, Done, Outcome};
pub use caller::InvalidUserName;
pub use direct::{PatchKind, Propagation, Write, Written};
pub use discovery::{Kind, Wait};
pub use error::{ApplyError, DiscoveryError, Failure, FieldCause, ResolveError, Retry};
pub use namespaces::NamespaceError;
pub use preview::Preview;

use crate::id::ObjectId;
use crate::owner::OwnerKind;
use crate::plan::Options;
use crate::rules::OwnerRules;
use caller::Caller;
use discovery::Cache;
use equate_manifest::object::{GroupVersionKind, Object};
use futures::stream::{self, StreamExt as _};
use kube::Client;
use request::{Endpoint, ObjectRequest};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// A cluster to apply objects to. Cheap to clone; clones share discovery.
#[derive(Clone)]
pub struct Cluster {
    caller: Caller,
    kinds: Arc<Cache>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

/// Options of an execution.
#[derive(Debug, Clone)]
pub struct Execution<'a> {
    /// The options of the plan, for decisions about objects that were not known then.
    pub options: &'a Options<'a>,
    /// The rules of owners for their objects.
    pub rules: &'a dyn OwnerRules,
    /// Whether every object may be recreated when a change is refused, not only those that ask for it.
    pub force: bool,
    /// The most concurrent writes.
    pub concurrency: usize,
    /// The timeout of one request.
    pub timeout: Duration,
    /// The longest retry of transient failures (conflicts, 429, 5xx, no answer) of one object.
    pub patience: Duration,
}

impl<'a> Execution<'a> {
    fn by(&self) -> &'static OwnerKind {
        self.options.owner.kind
    }

    /// Eight concurrent objects, 30 seconds for a request, 3 seconds of retries.
    pub fn new(options: &'a Options<'a>) -> Self {
        Self {
            options,
            rules: &(),
            force: false,
            concurrency: 8,
            timeout: Duration::from_secs(30),
            patience: Duration::from_secs(3),
        }
    }
}

impl Cluster {
    /// A cluster by its client. Sends no request.
    pub fn new(client: Client) -> Self {
        Self {
            caller: Caller::new(client),
            kinds: Arc::default(),
        }
    }

    /// The same, whose callers wait for discovery in this wrapper.
    pub fn waiting(client: Client, wait: Wait) -> Self {
        Self {
            caller: Caller::new(client),
            kinds: Arc::new(Cache::waiting(wait)),
        }
    }

    /// The same cluster, impersonating a user. The client's own identity needs the right to impersonate.
    /// Discovery uses the client's own identity and is shared.
    ///
    /// # Errors
    /// The name does not fit into a header.
    pub fn acting_as(&self, user: &str) -> Result<Self, InvalidUserName> {
        Ok(Self {
            caller: self.caller.acting_as(user)?,
            kinds: Arc::clone(&self.kinds),
        })
    }

    /// The client, without impersonation.
    pub fn client(&self) -> &Client {
        &self.caller.client
    }

    /// Resolves a kind.
    ///
    /// # Errors
    /// The cluster does not serve it, or discovery failed.
    pub async fn resolve(&self, gvk: &GroupVersionKind) -> Result<Kind, ResolveError> {
        self.kinds.resolve(self.client(), gvk).await
    }

    /// Resolves a kind in the version of an inventory entry, or in any other served version.
    ///
    /// # Errors
    /// The cluster serves no version, or discovery failed.
    pub async fn resolve_any_version(&self, gvk: &GroupVersionKind) -> Result<Kind, ResolveError> {
        self.kinds.resolve_any_version(self.client(), gvk).await
    }

    /// Expects new kinds of a group, because a CustomResourceDefinition was written or established. A
    /// lookup of a missing kind in the next seconds waits for it, for two seconds at most.
    pub fn expect_change(&self, group: &str) {
        self.kinds.expect_change(group);
    }

    /// Whether the authorizer allows writing an object: it is asked with a dry run of an empty patch,
    /// with the field manager of an owner's kind. A missing object may be written; admission does not
    /// count. An empty version means any.
    ///
    /// # Errors
    /// The API server does not answer the question.
    pub async fn may_write(
        &self,
        by: &OwnerKind,
        id: &ObjectId,
        version: &str,
        timeout: Duration,
    ) -> Result<bool, ApplyError> {
        let gvk = GroupVersionKind::new(&*id.group, version, &*id.kind);
        let kind = match self.resolve_any_version(&gvk).await {
            Ok(kind) => kind,
            Err(ResolveError::NoSuchKind { .. }) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        match (Endpoint { id, kind, timeout })
            .ask(&self.caller, ObjectRequest::Touch(by))
            .await
        {
            Err(ApplyError::Forbidden { message }) if message.contains(NO_RIGHT) => Ok(false),
            // a missing right to impersonate is not a missing right to write
            Err(error @ ApplyError::Forbidden { .. }) if error.to_string().contains(NO_IDENTITY) => {
                Err(error)
            }
            Err(
                error @ (ApplyError::Unreachable(_)
                | ApplyError::Timeout { .. }
                | ApplyError::Unauthorized { .. }
                | ApplyError::TooManyRequests { .. }
                | ApplyError::Server { .. }),
            ) => Err(error),
            // any other error is not about permissions
            Ok(_) | Err(_) => Ok(true),
        }
    }

    /// The live object, in the version of an inventory entry; `None` if it does not exist or its kind is
    /// not served.
    ///
    /// # Errors
    /// The request failed.
    pub async fn get(
        &self,
        id: &ObjectId,
        version: &str,
        timeout: Duration,
    ) -> Result<Option<Object>, ApplyError> {
        let gvk = GroupVersionKind::new(&*id.group, version, &*id.kind);
        match self.resolve_any_version(&gvk).await {
            Ok(kind) => Endpoint { id, kind, timeout }.get(&self.caller).await,
            Err(ResolveError::NoSuchKind { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Part of every authorizer's refusal of a patch; refusals by admission policies have the same code and
/// reason.
const NO_RIGHT: &str = " cannot patch resource ";
const NO_IDENTITY: &str = " cannot impersonate";

/// Retries transient failures until success or the end of patience.
///
/// Takes a closure that returns futures, because the futures of an async closure are not known to be
/// `Send`.
async fn retry_transient<T, F>(patience: Duration, mut attempt: impl FnMut() -> F) -> Result<T, ApplyError>
where
    F: Future<Output = Result<T, ApplyError>>,
{
    const PAUSE: Duration = Duration::from_millis(50);
    let deadline = Instant::now() + patience;
    let mut pause = PAUSE;
    loop {
        let error = match attempt().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let wait = match &error {
            ApplyError::Conflict { .. }
            | ApplyError::Server { .. }
            | ApplyError::Unreachable(_)
            | ApplyError::Timeout { .. }
            | ApplyError::Webhook { answered: false, .. } => pause,
            ApplyError::TooManyRequests { retry_after, .. } => retry_after.unwrap_or(pause),
            _ => return Err(error),
        };
        if Instant::now() + wait > deadline {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
        pause *= 2;
    }
}

/// Runs futures concurrently and returns their results in order.
///
/// Takes futures, because those of a closure over references are not known to be `Send` for all
/// lifetimes.
async fn run_concurrently<F: Future>(work: Vec<F>, concurrency: usize) -> Vec<F::Output> {
    let numbered = work.into_iter().enumerate();
    let mut done: Vec<(usize, F::Output)> =
        stream::iter(numbered.map(|(at, work)| async move { (at, work.await) }))
            .buffer_unordered(concurrency.max(1))
            .collect()
            .await;
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, done)| done).collect()
}

/// Whether the API server stopped answering; shared by concurrent writes.
#[derive(Debug, Default)]
struct Unresponsive(AtomicBool);

impl Unresponsive {
    /// Runs an attempt, unless another one just got no answer.
    async fn guard<T>(&self, attempt: impl Future<Output = Result<T, ApplyError>>) -> Result<T, ApplyError> {
        if self.0.load(Ordering::Relaxed) {
            return Err(ApplyError::NotTried);
        }
        let result = attempt.await;
        if result.as_ref().is_err_and(ApplyError::is_unresponsive) {
            self.0.store(true, Ordering::Relaxed);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::Desired;
    use crate::plan::{Plan, Stage, Step};

    /// A controller's worker moves the futures between threads.
    #[test]
    fn futures_are_send() {
        fn send<T: Send>(_: impl FnOnce() -> T) {}
        fn each<'a>(
            cluster: &'a Cluster,
            (stage, plan, steps): (&'a Stage, &'a Plan, &'a [Step]),
            desired: &'a [Desired],
            execution: &'a Execution<'a>,
        ) {
            send(move || cluster.apply_stage(stage, desired, execution));
            send(move || cluster.prune(steps, execution));
            send(move || cluster.preview(plan, desired, execution));
        }
        let _ = each;
    }
}
