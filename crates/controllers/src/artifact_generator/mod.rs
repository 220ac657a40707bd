//! Makes ExternalArtifacts of files of other sources.
//!
//! A run compares the artifacts of the sources with those of the last run. If one changed, or the spec, or an
//! ExternalArtifact is missing, it composes all artifacts. One whose files did not change keeps its digest and
//! its revision, so that its readers do not run. A new artifact of a source starts the next run.
//!
//! | file | contents |
//! |---|---|
//! | `captures` | directories that `pathPattern` matches |
//! | `globs` | patterns of paths |
//! | `compose` | copy operations |

mod act;
mod captures;
mod compose;
mod decide;
mod declared;
mod globs;
mod observe;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use equate_api::extensions::{ArtifactGenerator, ArtifactGeneratorStatus};
use equate_api::meta::{Condition, ConditionType, condition};
use equate_api::source::ExternalArtifact;
use jiff::Timestamp;
use kube::api::{Api, ListParams};
use tokio::time::Instant;

use self::act::{Done, Unmade};
use self::decide::{Plan, Seen};
use self::declared::Declared;
use crate::kit::Status;
use crate::kit::about::{About, Concurrency};
use crate::kit::controller::{self, Acted, Controller, Next, Reconcilable, own_reason};
use crate::kit::mirror::Change;
use crate::kit::reconciliation::{Reconciliation, Stop};
use crate::kit::services::Kit;
use crate::kit::wake::Reason;
use crate::{Key, ObjectRef};

/// As upstream: the object has no interval of its own.
const INTERVAL: Duration = Duration::from_secs(60 * 60);
const MANAGER: &str = "source-watcher";
/// Its value on an ExternalArtifact is the uid of the generator.
const GENERATOR: &str = "source.extensions.fluxcd.io/generator";
const KIND: &str = "ExternalArtifact";

const ABOUT: About = About {
    kind: "ArtifactGenerator",
    plural: "artifactgenerators",
    group: "source.extensions.fluxcd.io",
    version: "v1beta1",
    aliases: &["ag", "generators", "generator"],
    family: Some("artifacts"),
    component: MANAGER,
    finalizer: Some("source.extensions.fluxcd.io/finalizer"),
    status_manager: MANAGER,
    owner: None,
    concurrency: Concurrency::Computes,
    suspends: false,
    columns: &[],
};

pub(crate) struct ArtifactGenerators {
    kit: Arc<Kit>,
}

type Run<'a> = Reconciliation<'a, ArtifactGenerators>;

impl Controller for ArtifactGenerators {
    type Object = ArtifactGenerator;
    type Declared = Declared;
    type Memory = ();
    type Seen = Seen;
    type Plan = Plan;
    type Done = Done;

    const ABOUT: &'static About = &ABOUT;

    fn new(kit: &Arc<Kit>) -> Self {
        Self { kit: Arc::clone(kit) }
    }

    fn affected(&self, change: &Change<ArtifactGenerator>) -> Vec<(ObjectRef, Reason)> {
        let own = ObjectRef::of(ABOUT.kind, &change.key);
        let sources = change.after.as_ref().map(|object| declared::sources(object));
        let sources = sources.into_iter().flatten().map(|(_, source)| source);
        self.kit
            .source_readers
            .set(&own, sources.collect::<BTreeSet<_>>());
        let reason = own_reason(change.what);
        reason.map(|reason| (own, reason)).into_iter().collect()
    }

    fn declare(object: &ArtifactGenerator) -> Result<Declared, controller::Failure> {
        Ok(Declared::from(object))
    }

    async fn observe(&self, run: &mut Run<'_>, declared: &Declared) -> Result<Seen, Stop> {
        let status = run.status();
        if declared.deleting || declared.disabled || self.refused(declared).is_some() {
            let refused = self.refused(declared);
            return Ok(Seen::Unobserved { status, refused });
        }
        let observed = observe::observe(self, declared, status).await;
        Ok(Seen::Observed(Box::new(observed)))
    }

    fn decide(declared: &Declared, seen: &Seen, _now: Instant) -> Plan {
        decide::decide(declared, seen)
    }

    async fn act(
        &self,
        run: &mut Run<'_>,
        declared: &Declared,
        seen: Seen,
        plan: Plan,
    ) -> Result<Acted<Done>, Stop> {
        Ok(match plan {
            Plan::Delete => match act::remove(self, declared, &BTreeSet::new()).await {
                Ok(()) => Acted::Released,
                Err(failure) => Acted::Done(Done::Failed(failure)),
            },
            Plan::Nothing => Acted::Unreported(Next::Await),
            Plan::Disable => Acted::Done(Done::Disabled),
            Plan::Fail(failure) => Acted::Done(Done::Failed(failure)),
            Plan::Keep => Acted::Done(Done::Kept),
            Plan::Build(why) => {
                let key = run.key();
                tracing::debug!(%key, ?why, "composing artifacts");
                let Seen::Observed(observed) = seen else {
                    return Ok(Acted::Again);
                };
                match Box::pin(act::publish(self, run, declared, *observed)).await {
                    Ok(made) => Acted::Done(Done::Published(made)),
                    Err(Unmade::Failed(failure)) => Acted::Done(Done::Failed(failure)),
                    // the next run removes what was made
                    Err(Unmade::Deleted) => Acted::Unreported(Next::After(Duration::ZERO, Reason::Changed)),
                }
            }
        })
    }

    fn report(
        declared: &Declared,
        before: &ArtifactGeneratorStatus,
        done: Done,
        now: Timestamp,
    ) -> controller::Report<ArtifactGeneratorStatus> {
        report::report(declared, before, done, now)
    }

    async fn forget(&self, key: &Key, (): (), _why: controller::Absence) {
        let own = ObjectRef::of(ABOUT.kind, key);
        self.kit.source_readers.set(&own, BTreeSet::new());
    }
}

impl ArtifactGenerators {
    /// The failure of the spec itself.
    fn refused(&self, declared: &Declared) -> Option<controller::Failure> {
        let denies = self.kit.settings.policy.no_cross_namespace_refs;
        declared
            .refused
            .clone()
            .or_else(|| declared.crosses().filter(|_| denies))
    }

    fn api(&self, namespace: &str) -> Api<ExternalArtifact> {
        Api::namespaced(self.kit.client.clone(), namespace)
    }

    /// The ExternalArtifacts of a generator.
    async fn live(&self, declared: &Declared) -> Result<Vec<ExternalArtifact>, kube::Error> {
        let own = ListParams::default().labels(&format!("{GENERATOR}={}", declared.uid));
        Ok(self.api(&declared.key.namespace).list(&own).await?.items)
    }
}

impl Reconcilable for ArtifactGenerator {
    type Status = ArtifactGeneratorStatus;

    fn status(&self) -> Option<&ArtifactGeneratorStatus> {
        self.status.as_ref()
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }
}

impl Status for ArtifactGeneratorStatus {
    fn observed(&self) -> (&[Condition], Option<i64>) {
        let ready = condition(&self.conditions, ConditionType::Ready);
        let generation = ready.and_then(|ready| ready.observed_generation);
        (&self.conditions, generation)
    }

    fn conditions(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }

    fn observed_generation(&mut self) -> &mut Option<i64> {
        &mut self.observed_generation
    }

    fn last_handled_reconcile_at(&mut self) -> &mut Option<String> {
        &mut self.last_handled_reconcile_at
    }
}
