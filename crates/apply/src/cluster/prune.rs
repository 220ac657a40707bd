//! Deletion of objects that git no longer declares.

use super::applied::{Action, Applied, Done, Outcome};
use super::error::{ApplyError, Failure};
use super::request::{Endpoint, ObjectRequest};
use super::{Cluster, Execution, Unresponsive, retry_transient, run_concurrently};
use crate::id::ObjectId;
use crate::observed::Observed;
use crate::order;
use crate::plan::{self, KeepReason, Step};
use equate_manifest::object::GroupVersionKind;

/// The most attempts for an object that changes before each deletion.
const ATTEMPTS: usize = 5;

enum Deletion {
    Accepted,
    Gone,
    /// The object changed, or another one has its name.
    Changed,
}

impl Cluster {
    /// Executes prune steps in order, those of one rank concurrently.
    ///
    /// Deletes in the background, with preconditions on what was observed. An object that changed or was
    /// recreated since is read again first: it may belong to another owner or be protected by now. A
    /// failed object stays in the inventory; the caller keeps it there.
    pub async fn prune(&self, steps: &[Step], execution: &Execution<'_>) -> Applied {
        let unresponsive = Unresponsive::default();
        let mut applied = Applied::default();
        for rank in steps.chunk_by(|a, b| order::rank(&a.id().kind) == order::rank(&b.id().kind)) {
            let mut steps = Vec::with_capacity(rank.len());
            for step in rank {
                steps.push(self.prune_outcome(step, execution, &unresponsive));
            }
            applied
                .outcomes
                .extend(run_concurrently(steps, execution.concurrency).await);
        }
        applied
    }

    async fn prune_outcome(
        &self,
        step: &Step,
        execution: &Execution<'_>,
        unresponsive: &Unresponsive,
    ) -> Outcome {
        let result = match step {
            Step::Keep(_, reason) => Ok(Done::kept(reason.clone(), None)),
            Step::Prune { id, version, from } => {
                let pruning = self.prune_one(id, version, from.as_ref(), execution);
                unresponsive.guard(pruning).await
            }
            Step::Create(_) | Step::Patch { .. } | Step::Recreate { .. } => Err(ApplyError::NotGiven),
        };
        Outcome {
            id: step.id().clone(),
            result: result.map_err(|error| Failure {
                id: step.id().clone(),
                origin: None,
                error,
            }),
        }
    }

    async fn prune_one(
        &self,
        id: &ObjectId,
        version: &str,
        from: Option<&(String, String)>,
        execution: &Execution<'_>,
    ) -> Result<Done, ApplyError> {
        let gvk = GroupVersionKind::new(&*id.group, version, &*id.kind);
        let resolving = retry_transient(execution.patience, async || {
            Ok(self.resolve_any_version(&gvk).await?)
        });
        let kind = match resolving.await {
            Ok(kind) => kind,
            // deleting a definition deletes its objects
            Err(ApplyError::NoSuchKind { .. }) => return Ok(Done::kept(KeepReason::Gone, None)),
            Err(error) => return Err(error),
        };
        let endpoint = Endpoint {
            id,
            kind,
            timeout: execution.timeout,
        };
        let mut seen = from.cloned();
        for _ in 0..ATTEMPTS {
            let (uid, version) = match seen.take() {
                Some(seen) => seen,
                None => match self.prunable(&endpoint, execution).await? {
                    Ok(observed) => (observed.uid, observed.resource_version),
                    Err(kept) => return Ok(kept),
                },
            };
            let endpoint = &endpoint;
            let ask = ObjectRequest::Delete {
                uid: &uid,
                version: Some(&version),
            };
            let deletion = retry_transient(execution.patience, || async move {
                match endpoint.ask(&self.caller, ask).await {
                    Ok(_) => Ok(Deletion::Accepted),
                    Err(ApplyError::Refused { code: 404, .. } | ApplyError::NoSuchKind { .. }) => {
                        Ok(Deletion::Gone)
                    }
                    Err(ApplyError::Conflict { .. }) => Ok(Deletion::Changed),
                    Err(error) => Err(error),
                }
            });
            match deletion.await? {
                Deletion::Accepted => {
                    return Ok(Done {
                        action: Action::Pruned,
                        observed: None,
                        remembered: None,
                        warnings: Vec::new(),
                    });
                }
                Deletion::Gone => return Ok(Done::kept(KeepReason::Gone, None)),
                Deletion::Changed => {}
            }
        }
        Err(ApplyError::Conflict {
            message: format!("it changed each of {ATTEMPTS} times it was to be deleted"),
        })
    }

    /// The live object if it may be pruned; otherwise the reason to keep it.
    async fn prunable(
        &self,
        endpoint: &Endpoint<'_>,
        execution: &Execution<'_>,
    ) -> Result<Result<Observed, Done>, ApplyError> {
        let live = retry_transient(execution.patience, || endpoint.get(&self.caller)).await?;
        let Some(live) = live else {
            return Ok(Err(Done::kept(KeepReason::Gone, None)));
        };
        let observed = Observed::under(&live, execution.by(), execution.rules);
        Ok(match plan::prunable(endpoint.id, &observed, execution.options) {
            Ok(()) => Ok(observed),
            Err(reason) => Err(Done::kept(reason, Some(observed))),
        })
    }
}
