//! Deleting what git no longer holds.

use super::applied::{Action, Applied, Done, Outcome};
use super::error::{ApplyError, Failure};
use super::request::{Ask, Endpoint};
use super::{Cluster, Execution, Silence, persist, together};
use crate::id::ObjectId;
use crate::observed::Observed;
use crate::order;
use crate::plan::{self, KeepReason, Step};
use equate_manifest::object::GroupVersionKind;

/// An object that is deleted and created again under the same name all the time is given up after so many looks.
const ATTEMPTS: usize = 3;

/// What the API server makes of a deletion.
enum Deletion {
    Accepted,
    Gone,
    /// Another object has the name now.
    OtherUid,
}

impl Cluster {
    /// Carries out prune steps in their order, those of one rank several at a time.
    ///
    /// An object is deleted in the background, and only if it still has the uid that was seen: one
    /// that somebody created anew under the same name is looked at first. What fails stays in the
    /// inventory: it is for the caller to keep it there.
    pub async fn prune(&self, steps: &[Step], execution: &Execution<'_>) -> Applied {
        let silence = Silence::default();
        let mut applied = Applied::default();
        for rank in steps.chunk_by(|a, b| order::rank(&a.id().kind) == order::rank(&b.id().kind)) {
            let mut steps = Vec::with_capacity(rank.len());
            for step in rank {
                steps.push(self.prune_outcome(step, execution, &silence));
            }
            applied
                .outcomes
                .extend(together(steps, execution.concurrency).await);
        }
        applied
    }

    async fn prune_outcome(&self, step: &Step, execution: &Execution<'_>, silence: &Silence) -> Outcome {
        let result = match step {
            Step::Keep(_, reason) => Ok(Done::kept(reason.clone(), None)),
            Step::Prune { id, version, uid } => {
                let pruning = self.prune_one(id, version, uid.as_deref(), execution);
                silence.guard(pruning).await
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
        uid: Option<&str>,
        execution: &Execution<'_>,
    ) -> Result<Done, ApplyError> {
        let gvk = GroupVersionKind::new(&*id.group, version, &*id.kind);
        let resolving = persist(execution.patience, async || {
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
        let mut seen = uid.map(str::to_owned);
        for _ in 0..ATTEMPTS {
            let uid = match seen.take() {
                Some(uid) => uid,
                None => match self.prunable_uid(&endpoint, execution).await? {
                    Ok(uid) => uid,
                    Err(kept) => return Ok(kept),
                },
            };
            let (endpoint, uid) = (&endpoint, uid.as_str());
            let deletion = persist(execution.patience, || async move {
                match endpoint.ask(&self.client, Ask::Delete { uid }).await {
                    Ok(_) => Ok(Deletion::Accepted),
                    Err(ApplyError::Refused { code: 404, .. } | ApplyError::NoSuchKind { .. }) => {
                        Ok(Deletion::Gone)
                    }
                    Err(ApplyError::Conflict { .. }) => Ok(Deletion::OtherUid),
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
                Deletion::OtherUid => {}
            }
        }
        Err(ApplyError::Conflict {
            message: format!("it was another object each of {ATTEMPTS} times it was to be deleted"),
        })
    }

    /// The uid of an object that may be pruned; what is kept instead, if it may not.
    async fn prunable_uid(
        &self,
        endpoint: &Endpoint<'_>,
        execution: &Execution<'_>,
    ) -> Result<Result<String, Done>, ApplyError> {
        let live = persist(execution.patience, || endpoint.get(&self.client)).await?;
        let Some(live) = live else {
            return Ok(Err(Done::kept(KeepReason::Gone, None)));
        };
        let observed = Observed::of(&live);
        Ok(match plan::prunable(&observed, execution.options.owner) {
            Ok(()) => Ok(observed.uid),
            Err(reason) => Err(Done::kept(reason, Some(observed))),
        })
    }
}
