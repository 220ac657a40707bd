//! The dry run of a plan: `equate diff` shows it.

use super::error::{ApplyError, Failure};
use super::request::ObjectRequest;
use super::{Cluster, Execution, run_concurrently};
use crate::desired::Desired;
use crate::difference;
use crate::id::ObjectId;
use crate::ignored;
use crate::observed::Observed;
use crate::plan::{self, KeepReason, Memory, Plan, Presence, Stage, Step};
use crate::policy::Mode;
use crate::takeover;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A plan with all field changes, and the expected failures.
#[derive(Debug, Default)]
pub struct Preview {
    /// The plan. A failing object keeps its step.
    pub plan: Plan,
    /// The expected failures.
    pub failures: Vec<Failure>,
}

enum ExpectedEffect {
    Step(Step),
    Fails(Step, Failure),
}

impl Cluster {
    /// Reads every object of a plan and applies it as a dry run.
    ///
    /// Objects whose namespace or kind the plan itself creates cannot be tried: they are shown as
    /// created.
    pub async fn preview(&self, plan: &Plan, desired: &[Desired], execution: &Execution<'_>) -> Preview {
        let given: HashMap<&ObjectId, &Desired> = desired.iter().map(|d| (&d.id, d)).collect();
        let mut preview = Preview {
            plan: Plan {
                stages: Vec::new(),
                prune: plan.prune.clone(),
                guard: plan.guard.clone(),
            },
            failures: Vec::new(),
        };
        let planned = PlannedContainers::of(desired);
        for stage in &plan.stages {
            let mut trials = Vec::with_capacity(stage.steps.len());
            for step in &stage.steps {
                let desired = given.get(step.id()).copied();
                trials.push(self.foresee(step, desired, &planned, execution));
            }
            let mut steps = Vec::with_capacity(stage.steps.len());
            for expected in run_concurrently(trials, execution.concurrency).await {
                match expected {
                    ExpectedEffect::Step(step) => steps.push(step),
                    ExpectedEffect::Fails(step, failure) => {
                        steps.push(step);
                        preview.failures.push(failure);
                    }
                }
            }
            preview.plan.stages.push(Stage {
                kind: stage.kind,
                steps,
            });
        }
        preview
    }

    async fn foresee(
        &self,
        step: &Step,
        desired: Option<&Desired>,
        planned: &PlannedContainers<'_>,
        execution: &Execution<'_>,
    ) -> ExpectedEffect {
        let Some(desired) = desired.filter(|_| step.acts()) else {
            return ExpectedEffect::Step(step.clone());
        };
        match self.try_step(desired, execution).await {
            Ok(step) => ExpectedEffect::Step(step),
            Err(ApplyError::NamespaceMissing { namespace }) if planned.namespaces.contains(&*namespace) => {
                ExpectedEffect::Step(Step::Create(desired.id.clone()))
            }
            Err(ApplyError::NoSuchKind { gvk })
                if planned.kinds.contains(&(gvk.group.as_str(), gvk.kind.as_str())) =>
            {
                ExpectedEffect::Step(Step::Create(desired.id.clone()))
            }
            Err(error) => ExpectedEffect::Fails(
                step.clone(),
                Failure {
                    id: desired.id.clone(),
                    origin: desired.origin.clone(),
                    error,
                },
            ),
        }
    }

    async fn try_step(&self, desired: &Desired, execution: &Execution<'_>) -> Result<Step, ApplyError> {
        let endpoint = self.endpoint(desired, execution.timeout).await?;
        let id = desired.id.clone();
        let live = endpoint.get(&self.caller).await?;
        let (presence, from) = match &live {
            None => (Presence::Absent, None),
            Some(live) => {
                let observed = Observed::under(live, execution.by(), execution.rules);
                let from = observed.resource_version.clone();
                (Presence::Present(Arc::new(observed)), Some(from))
            }
        };
        let planned = plan::apply_step(desired, &presence, &Memory::default(), execution.options);
        let Step::Patch { reason, .. } = planned else {
            // creations are tried too, to find what the API server refuses
            if let Step::Create(_) = planned {
                let object = &desired.object;
                endpoint
                    .ask(
                        &self.caller,
                        ObjectRequest::Apply {
                            by: execution.by(),
                            object,
                            dry_run: true,
                        },
                    )
                    .await?;
            }
            return Ok(planned);
        };
        let adjusted = live.as_ref().and_then(|live| {
            ignored::adjusted(
                &desired.object,
                live,
                execution.by().field_manager,
                &desired.ignored,
            )
        });
        let object = adjusted.as_ref().unwrap_or(&desired.object);
        let apply = ObjectRequest::Apply {
            by: execution.by(),
            object,
            dry_run: true,
        };
        let mut tried = endpoint.ask(&self.caller, apply).await;
        if let (Ok(answer), Some(live)) = (&tried, &live)
            && desired.policy.mode != Mode::Merge
            && takeover::needed(&answer.object, execution.by().field_manager)
        {
            let patch = takeover::foreseen(live, &answer.object, execution.by().field_manager);
            // it passes the defaulting, admission and validation of the apply after the takeover
            if !patch.is_empty() {
                let request = ObjectRequest::JsonPatch {
                    by: execution.by(),
                    patch: &patch,
                    dry_run: true,
                };
                tried = endpoint.ask(&self.caller, request).await;
            }
        }
        let after = match tried {
            Err(ApplyError::Invalid { message, fields }) => {
                let creatable = endpoint
                    .ask(&self.caller, ObjectRequest::CreateDryRun(execution.by(), object))
                    .await;
                let creatable = matches!(creatable, Err(ApplyError::Conflict { .. }));
                return match (creatable, execution.force || desired.policy.force) {
                    (true, true) => Ok(Step::Recreate { id, why: message }),
                    (true, false) => Err(ApplyError::Immutable { message, fields }),
                    (false, _) => Err(ApplyError::Invalid { message, fields }),
                };
            }
            other => other?.object,
        };
        let changes = live.map_or_else(Vec::new, |live| difference::differences(&live, &after));
        // a takeover alone changes only managers
        if changes.is_empty() {
            return Ok(Step::Keep(id, KeepReason::Unchanged));
        }
        Ok(Step::Patch {
            id,
            reason,
            from,
            changes,
        })
    }
}

/// Namespaces and kinds that the plan itself creates.
struct PlannedContainers<'a> {
    namespaces: HashSet<&'a str>,
    kinds: HashSet<(&'a str, &'a str)>,
}

impl<'a> PlannedContainers<'a> {
    fn of(desired: &'a [Desired]) -> Self {
        let namespaces = desired
            .iter()
            .filter(|d| &*d.id.kind == "Namespace" && d.id.group.is_empty())
            .map(|d| &*d.id.name);
        let kinds = desired
            .iter()
            .filter(|d| &*d.id.kind == "CustomResourceDefinition")
            .filter_map(|d| {
                let spec = d.object.0.get("spec")?;
                Some((
                    spec.get("group")?.as_str()?,
                    spec.get("names")?.get("kind")?.as_str()?,
                ))
            });
        Self {
            namespaces: namespaces.collect(),
            kinds: kinds.collect(),
        }
    }
}
