//! Server-side apply of a stage.

use super::applied::{Action, Applied, Done, Outcome};
use super::error::{ApplyError, Failure};
use super::request::{Endpoint, ObjectRequest};
use super::{Cluster, Execution, Unresponsive, retry_transient, run_concurrently};
use crate::desired::Desired;
use crate::id::ObjectId;
use crate::ignored;
use crate::normal;
use crate::observed::Observed;
use crate::order;
use crate::owner::OwnerKind;
use crate::plan::{self, KeepReason, Memory, PatchReason, Presence, Remembered, Stage, Step};
use crate::policy::Mode;
use crate::takeover;
use equate_manifest::object::Object;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The most attempts to move kubectl's fields while others change the object.
const TAKEOVER_ATTEMPTS: usize = 5;

impl Cluster {
    /// Executes the steps of a stage: rank after rank, objects of one rank concurrently.
    ///
    /// Every step has an outcome. After a failure the other steps still run, unless the API server does
    /// not answer. The caller then skips the later stages.
    pub async fn apply_stage(
        &self,
        stage: &Stage,
        desired: &[Desired],
        execution: &Execution<'_>,
    ) -> Applied {
        let mut given: HashMap<&ObjectId, &Desired> = HashMap::with_capacity(desired.len());
        for desired in desired {
            given.entry(&desired.id).or_insert(desired);
        }
        let unresponsive = Unresponsive::default();
        let mut applied = Applied::default();
        for rank in stage
            .steps
            .chunk_by(|a, b| order::rank(&a.id().kind) == order::rank(&b.id().kind))
        {
            let mut steps = Vec::with_capacity(rank.len());
            for step in rank {
                let desired = given.get(step.id()).copied();
                steps.push(self.apply_outcome(step, desired, execution, &unresponsive));
            }
            applied
                .outcomes
                .extend(run_concurrently(steps, execution.concurrency).await);
        }
        applied
    }

    async fn apply_outcome(
        &self,
        step: &Step,
        desired: Option<&Desired>,
        execution: &Execution<'_>,
        unresponsive: &Unresponsive,
    ) -> Outcome {
        let result = match (step, desired) {
            (Step::Keep(_, reason), _) => Ok(Done::kept(reason.clone(), None)),
            (_, None) => Err(ApplyError::NotGiven),
            (_, Some(desired)) => unresponsive.guard(self.apply_one(step, desired, execution)).await,
        };
        Outcome {
            id: step.id().clone(),
            result: result.map_err(|error| Failure {
                id: step.id().clone(),
                origin: desired.and_then(|desired| desired.origin.clone()),
                error,
            }),
        }
    }

    async fn apply_one(
        &self,
        step: &Step,
        desired: &Desired,
        execution: &Execution<'_>,
    ) -> Result<Done, ApplyError> {
        let resolving = retry_transient(execution.patience, async || {
            self.endpoint(desired, execution.timeout).await
        });
        let endpoint = resolving.await?;
        let cx = ObjectWrite {
            cluster: self,
            endpoint,
            desired,
            execution,
        };
        let done = match step {
            Step::Recreate { .. } => cx.recreate().await,
            Step::Patch {
                reason: PatchReason::NotSeen,
                ..
            } => cx.read_and_apply().await,
            Step::Create(_) if desired.policy.mode == Mode::IfNotPresent => cx.read_and_apply().await,
            Step::Patch { from, .. } => cx.apply(from.as_deref()).await,
            Step::Create(_) | Step::Prune { .. } | Step::Keep(..) => cx.apply(None).await,
        };
        match done {
            Err(ApplyError::NoSuchKind { gvk }) => {
                self.kinds.forget(&gvk);
                Err(ApplyError::NoSuchKind { gvk })
            }
            Ok(done) => {
                if &*desired.id.kind == "CustomResourceDefinition" {
                    self.expect_change(group_of(&desired.object));
                }
                Ok(done)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn endpoint<'d>(
        &self,
        desired: &'d Desired,
        timeout: Duration,
    ) -> Result<Endpoint<'d>, ApplyError> {
        let gvk = desired.object.gvk().ok_or_else(|| ApplyError::ApiVersion {
            api_version: desired.object.api_version().to_owned(),
        })?;
        Ok(Endpoint {
            id: &desired.id,
            kind: self.resolve(&gvk).await?,
            timeout,
        })
    }
}

fn group_of(definition: &Object) -> &str {
    let spec = definition.0.get("spec");
    spec.and_then(|spec| spec.get("group")?.as_str())
        .unwrap_or_default()
}

struct ObjectWrite<'a> {
    cluster: &'a Cluster,
    endpoint: Endpoint<'a>,
    desired: &'a Desired,
    execution: &'a Execution<'a>,
}

impl ObjectWrite<'_> {
    fn by(&self) -> &'static OwnerKind {
        self.execution.by()
    }

    async fn ask(&self, ask: ObjectRequest<'_>) -> Result<super::request::Answer, ApplyError> {
        let caller = &self.cluster.caller;
        retry_transient(self.execution.patience, || self.endpoint.ask(caller, ask)).await
    }

    async fn get(&self) -> Result<Option<Object>, ApplyError> {
        let caller = &self.cluster.caller;
        retry_transient(self.execution.patience, || self.endpoint.get(caller)).await
    }

    /// Decides again with the live object, which the plan did not have.
    async fn read_and_apply(&self) -> Result<Done, ApplyError> {
        let Some(live) = self.get().await? else {
            return self.apply(None).await;
        };
        let observed = Arc::new(Observed::under(&live, self.by(), self.execution.rules));
        let presence = Presence::Present(Arc::clone(&observed));
        match plan::apply_step(
            self.desired,
            &presence,
            &Memory::default(),
            self.execution.options,
        ) {
            Step::Keep(_, reason) => {
                let unchanged = reason == KeepReason::Unchanged;
                let remembered = self.remembered(&observed);
                let mut done = Done::kept(reason, Some(Arc::unwrap_or_clone(observed)));
                done.remembered = unchanged.then_some(remembered);
                Ok(done)
            }
            _ => self.apply(Some(&observed.resource_version)).await,
        }
    }

    async fn apply(&self, from: Option<&str>) -> Result<Done, ApplyError> {
        let adjusted = self.adjusted().await?;
        let object = adjusted.as_ref().unwrap_or(&self.desired.object);
        let refused = match self.apply_object(object, from, Vec::new()).await {
            Err(ApplyError::Invalid { message, fields }) => (message, fields),
            other => return other,
        };
        let (message, fields) = refused;
        // an unknown field is refused before validation, without naming fields
        if fields.is_empty()
            && let Some((object, warnings)) = without_unknown_fields(object)
        {
            return self.apply_object(&object, from, warnings).await;
        }
        // If the object could be created, it is valid, and only the change is refused. Flux deletes
        // without this check (`pkg/ssa/errors/immutable.go`).
        if !self.could_be_created().await {
            return Err(ApplyError::Invalid { message, fields });
        }
        if self.execution.force || self.desired.policy.force {
            return self.recreate().await;
        }
        Err(ApplyError::Immutable { message, fields })
    }

    /// The object to send if it differs from the desired one: ignored fields depend on the live object.
    async fn adjusted(&self) -> Result<Option<Object>, ApplyError> {
        if self.desired.ignored.is_empty() {
            return Ok(None);
        }
        let live = self.get().await?;
        Ok(live.and_then(|live| {
            ignored::adjusted(
                &self.desired.object,
                &live,
                self.by().field_manager,
                &self.desired.ignored,
            )
        }))
    }

    async fn apply_object(
        &self,
        object: &Object,
        from: Option<&str>,
        warnings: Vec<String>,
    ) -> Result<Done, ApplyError> {
        let apply = ObjectRequest::Apply {
            by: self.by(),
            object,
            dry_run: false,
        };
        let mut answer = self.ask(apply).await?;
        let created = answer.created;
        if self.desired.policy.mode != Mode::Merge
            && takeover::needed(&answer.object, self.by().field_manager)
        {
            self.take_over(answer.object).await?;
            answer = self.ask(apply).await?;
        }
        let observed = Observed::under(&answer.object, self.by(), self.execution.rules);
        let action = match from {
            _ if created => Action::Created,
            Some(from) if from == observed.resource_version => Action::Unchanged,
            _ => Action::Configured,
        };
        Ok(Done {
            action,
            remembered: Some(self.remembered(&observed)),
            observed: Some(observed),
            warnings,
        })
    }

    /// The digest of the planned object, also if less was sent: the next plan compares with it.
    fn remembered(&self, observed: &Observed) -> Remembered {
        Remembered {
            desired: self.desired.digest,
            owned: observed.owned,
        }
    }

    async fn take_over(&self, mut live: Object) -> Result<(), ApplyError> {
        let caller = &self.cluster.caller;
        for _ in 0..TAKEOVER_ATTEMPTS {
            let Some(patch) = takeover::patch(&live, self.by().field_manager) else {
                return Ok(());
            };
            let request = ObjectRequest::JsonPatch {
                by: self.by(),
                patch: &patch,
                dry_run: false,
            };
            match self.endpoint.ask(caller, request).await {
                Ok(_) => return Ok(()),
                Err(error @ ApplyError::Conflict { .. }) => match self.get().await? {
                    Some(newer) => live = newer,
                    None => return Err(error),
                },
                Err(error) => return Err(error),
            }
        }
        Err(ApplyError::Conflict {
            message: format!("its managers changed {TAKEOVER_ATTEMPTS} times while they were taken over"),
        })
    }

    /// A dry-run creation validates before it reports that the name is taken.
    async fn could_be_created(&self) -> bool {
        let asked = self
            .ask_once(ObjectRequest::CreateDryRun(self.by(), &self.desired.object))
            .await;
        matches!(asked, Err(ApplyError::Conflict { .. }))
    }

    async fn ask_once(&self, ask: ObjectRequest<'_>) -> Result<super::request::Answer, ApplyError> {
        self.endpoint.ask(&self.cluster.caller, ask).await
    }

    /// Deletes and creates anew. Does not wait for finalizers: the caller learns of the deletion and
    /// retries.
    async fn recreate(&self) -> Result<Done, ApplyError> {
        let Some(live) = self.get().await? else {
            return self.apply_object(&self.desired.object, None, Vec::new()).await;
        };
        let (uid, deleting) = {
            let observed = Observed::of(&live, self.by());
            (observed.uid, observed.deleting)
        };
        if deleting {
            return Err(still_there(uid, &live));
        }
        // whatever the live object is by now, the desired one could be created in its place
        let delete = ObjectRequest::Delete {
            uid: &uid,
            version: None,
        };
        match self.ask(delete).await {
            Ok(_) | Err(ApplyError::Refused { code: 404, .. }) => {}
            Err(error) => return Err(error),
        }
        let left = self.get().await?;
        if let Some(left) = left.filter(|left| Observed::of(left, self.by()).uid == uid) {
            return Err(still_there(uid, &left));
        }
        let mut done = self.apply_object(&self.desired.object, None, Vec::new()).await?;
        done.action = Action::Recreated;
        Ok(done)
    }
}

/// Flux silently drops fields unknown to its types. Here they are named in a warning.
fn without_unknown_fields(object: &Object) -> Option<(Object, Vec<String>)> {
    let mut object = object.clone();
    let unknown = normal::normalise(&mut object, normal::Unknown::Drop);
    let warnings = unknown
        .iter()
        .map(|field| format!("unknown field {field} was left out"))
        .collect();
    (!unknown.is_empty()).then_some((object, warnings))
}

fn still_there(uid: String, live: &Object) -> ApplyError {
    ApplyError::StillThere {
        uid,
        finalizers: finalizers(live),
    }
}

fn finalizers(live: &Object) -> Vec<String> {
    let found = live.metadata().and_then(|m| m.get("finalizers")?.as_array());
    found
        .into_iter()
        .flatten()
        .filter_map(|f| f.as_str().map(str::to_owned))
        .collect()
}
