//! Doing what a plan says: the only place that writes managed objects.
//!
//! | module | what it does |
//! |---|---|
//! | [`apply`](self) | stages: objects of one rank at a time, several at once |
//! | `request` | one request, and what its answer means |
//! | `caller` | with whose rights requests are made |
//! | `discovery` | which kinds the cluster serves |
//! | `preview` | the plan as the API server would carry it out, without doing so |
//!
//! An object that fails stops neither its stage nor the objects beside it, so that one bad manifest
//! costs one object; the caller does not go on to the next stage. Only this module can make an
//! [`Applied`]: what was intended cannot be reported as done.

mod applied;
mod apply;
mod caller;
mod discovery;
mod error;
mod namespaces;
mod preview;
mod prune;
mod request;

pub use applied::{Action, Applied, Done, Outcome};
pub use caller::NoSuchName;
pub use discovery::Kind;
pub use error::{ApplyError, Failure, FieldCause, ResolveError, Retry};
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
use request::{Ask, Endpoint};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// A cluster that objects are applied to. Cheap to clone; clones share what is known of its kinds.
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

/// How steps are carried out.
#[derive(Debug, Clone)]
pub struct Execution<'a> {
    /// What the plan was made with: what was not seen then is judged by it when it is seen.
    pub options: &'a Options<'a>,
    /// How owners look at their objects.
    pub rules: &'a dyn OwnerRules,
    /// Whether any object may be recreated when a change to it is refused, not only those that say so.
    pub force: bool,
    /// How many objects are written at once.
    pub concurrency: usize,
    /// How long one answer is waited for.
    pub timeout: Duration,
    /// How long failures that pass (conflicts, 429, 5xx, no answer) are tried again for one object.
    pub patience: Duration,
}

impl<'a> Execution<'a> {
    /// The kind of owner that acts.
    fn by(&self) -> &'static OwnerKind {
        self.options.owner.kind
    }

    /// Eight objects at once, 30 seconds for an answer, 3 seconds of patience.
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
    /// A cluster by its client. Nothing is asked until something is needed.
    pub fn new(client: Client) -> Self {
        Self {
            caller: Caller::new(client),
            kinds: Arc::default(),
        }
    }

    /// The same cluster with the rights of another, whom the client's own identity has to be allowed
    /// to impersonate. Which kinds are served is asked and kept for all of them together, with the
    /// client's own rights.
    ///
    /// # Errors
    /// When no header can hold the name.
    pub fn acting_as(&self, user: &str) -> Result<Self, NoSuchName> {
        Ok(Self {
            caller: self.caller.acting_as(user)?,
            kinds: Arc::clone(&self.kinds),
        })
    }

    /// The client, which acts as nobody else.
    pub fn client(&self) -> &Client {
        &self.caller.client
    }

    /// A kind as it is served.
    ///
    /// # Errors
    /// When the cluster does not serve it, or does not say.
    pub async fn resolve(&self, gvk: &GroupVersionKind) -> Result<Kind, ResolveError> {
        self.kinds.resolve(self.client(), gvk).await
    }

    /// A kind in the version an inventory names, or in another if that one is not served any more.
    ///
    /// # Errors
    /// When the cluster serves it in no version, or does not say.
    pub async fn resolve_any_version(&self, gvk: &GroupVersionKind) -> Result<Kind, ResolveError> {
        self.kinds.resolve_any_version(self.client(), gvk).await
    }

    /// Says that kinds of a group are about to come (a CustomResourceDefinition was written or
    /// established): whoever misses one in the next seconds waits for it, for two seconds at most.
    pub async fn expect_change(&self, group: &str) {
        self.kinds.expect_change(group).await;
    }

    /// Whether an object may be written, as the API server says: its authorizer has nothing against an
    /// empty patch of it as a dry run. One that is not there may; what admission says of the object is no
    /// matter of rights. Where the version is empty, any does. It is asked for an owner of a kind, whose
    /// field manager the patch names.
    ///
    /// # Errors
    /// When the API server does not say.
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
            .ask(&self.caller, Ask::Touch(by))
            .await
        {
            Err(ApplyError::Forbidden { message }) if message.contains(NO_RIGHT) => Ok(false),
            // that somebody may not be asked as says nothing of what that one may
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
            // whatever else is wrong with it, it is not a right that is missing
            Ok(_) | Err(_) => Ok(true),
        }
    }

    /// One object as it is, in the version an inventory names; `None` if it or its kind is not there.
    ///
    /// # Errors
    /// When the cluster does not say.
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

/// How every authorizer's refusal of a patch is worded; an admission policy's has the same code and reason.
const NO_RIGHT: &str = " cannot patch resource ";
/// How it is worded that an identity may not be taken.
const NO_IDENTITY: &str = " cannot impersonate";

/// Repeats what fails in passing until it succeeds or patience ends.
///
/// Takes a closure that gives futures, not an async one: those are not known to be `Send`.
async fn persist<T, F>(patience: Duration, mut attempt: impl FnMut() -> F) -> Result<T, ApplyError>
where
    F: Future<Output = Result<T, ApplyError>>,
{
    /// The first pause; each is twice the one before.
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

/// Does several at a time; the answers come in the order given, whichever is there first.
///
/// The futures are made before, because those of a closure over references are not known to be
/// `Send` for all lifetimes.
async fn together<F: Future>(work: Vec<F>, concurrency: usize) -> Vec<F::Output> {
    let numbered = work.into_iter().enumerate();
    let mut done: Vec<(usize, F::Output)> =
        stream::iter(numbered.map(|(at, work)| async move { (at, work.await) }))
            .buffer_unordered(concurrency.max(1))
            .collect()
            .await;
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, done)| done).collect()
}

/// Whether the API server answers at all; shared by the objects that are written together.
#[derive(Debug, Default)]
struct Silence(AtomicBool);

impl Silence {
    /// Tries one object, unless another has just had no answer.
    async fn guard<T>(&self, attempt: impl Future<Output = Result<T, ApplyError>>) -> Result<T, ApplyError> {
        if self.0.load(Ordering::Relaxed) {
            return Err(ApplyError::NotTried);
        }
        let result = attempt.await;
        if result.as_ref().is_err_and(ApplyError::is_silence) {
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

    /// The futures cross threads: a controller's worker holds them.
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
