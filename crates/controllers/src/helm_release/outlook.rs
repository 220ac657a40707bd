//! The next action on a release and its reason, for `equate explain helmrelease`: the controller's own decision
//! on what the API shows.
//!
//! It reads with the caller's rights, and it writes nothing. The memory of a running controller and the content
//! of charts are not in the API: the status stands in for them. So it does for objects that cannot be read; each
//! of those is named. Changes of objects in the cluster are not looked for, because that takes dry runs.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use equate_api::helm::{DriftMode, HelmRelease, HelmReleaseStatus};
use equate_api::meta::{Condition, ConditionType, Reason, condition, is_true};
use equate_api::source::{HelmChart, OciRepository};
use equate_apply::cluster::Cluster;
use equate_helm::hooks::Phase;
use equate_helm::release::Status;
use equate_manifest::object::Object;
use kube::Client;
use kube::core::NamespaceResourceScope;
use serde::de::DeserializeOwned;

use super::act::hooks;
use super::decide::seen::{
    Access, Basis, Chart, Dependencies, Drift, Last, OwnChart, Previous, Seen, Source, Storage, UnnamedChart,
    Values,
};
use super::decide::{Again, Step, decide};
use super::declared::{Action, Declared};
use super::memory::LastRecord;
use super::objects::{self, Target};
use super::observe::{chart, dependencies, records};
use super::status::latest;
use super::values::{self, ValuesError};
use super::{own_operation, storage};
use crate::Key;
use crate::dependencies::excess;
use crate::kit::read as kit_read;

const ANSWER: Duration = Duration::from_secs(10);

/// The next action on a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    /// The action, `upgrade the release`.
    pub action: String,
    /// Its reason.
    pub reason: String,
    /// The hook that it waits for: `pre-upgrade hook Job/shop/migrate: InProgress: ...`; none while no hook runs.
    pub waits_for: Option<String>,
    /// The last record: `revision 4, web@1.5.0, failed`; none without one.
    pub record: Option<String>,
    /// Unknown facts, each in one line; the decision assumes that they are as in the status.
    pub unknown: Vec<String>,
}

/// Observes a release, and decides as the controller does.
pub async fn outlook(client: &Client, object: &HelmRelease) -> Outlook {
    let declared = Declared::from(object);
    let mut observer = Observer {
        client,
        declared: &declared,
        status: object.status.clone().unwrap_or_default(),
        values: None,
        unknown: Vec::new(),
        record: None,
        waits_for: None,
    };
    let seen = observer.observe().await;
    let plan = decide(&declared, &seen);
    if plan.step == Step::Settle && declared.drift != DriftMode::Disabled {
        observer
            .unknown
            .push("whether objects of the release were changed: the controller looks for that".to_owned());
    }
    let mut reason = match &plan.step {
        // the reason of these is about the remaining attempts
        Step::Exhausted(_, message) => format!("{message}; {}", plan.reason),
        _ => plan.reason,
    };
    if let Some(reset) = plan.reset.filter(|_| is_attempt(&plan.step)) {
        reason.push_str(&format!("; earlier failures no longer count: {reset}"));
    }
    Outlook {
        action: action(&plan.step, &seen),
        reason,
        waits_for: observer.waits_for,
        record: observer.record,
        unknown: observer.unknown,
    }
}

fn is_attempt(step: &Step) -> bool {
    matches!(step, Step::Begin(_))
}

fn action(step: &Step, seen: &Seen) -> String {
    let fixed = match step {
        Step::Begin(action) => return begun(*action, seen),
        Step::Resume(basis) => return format!("resume the {}", basis.action.name()),
        Step::Continue => return format!("continue the {}", operation(seen)),
        Step::Preempt => return format!("end the {} as failed, and decide again", operation(seen)),
        Step::TryAgain(Again::After(interval)) => {
            let interval = equate_api::meta::Duration::from(*interval);
            return format!("try again after {interval}");
        }
        Step::Release => "remove the finalizer",
        Step::ApplyChart => "apply the HelmChart",
        Step::DeleteChart(_) => "delete the HelmChart",
        Step::Await | Step::Wait(_) | Step::Rest(_) | Step::Hold => "wait",
        Step::Stall(..) => "nothing until the spec changes",
        Step::Fail(_) | Step::TryAgain(Again::Soon | Again::Interval) => "try again",
        Step::ReportDrift => "report the drift",
        Step::Settle => "nothing",
        Step::Exhausted(..) => "nothing until the chart, the values or the spec change",
    };
    fixed.to_owned()
}

fn begun(action: Action, seen: &Seen) -> String {
    let fixed = match action {
        Action::Install => "install the release",
        Action::Upgrade => "upgrade the release",
        Action::Test => "test the release",
        Action::Rollback => match &seen.storage {
            Storage::Last(Last {
                previous: Previous::Intact(version),
                ..
            }) => return format!("roll back to revision {version}"),
            _ => "roll back",
        },
        Action::UninstallFailed | Action::Uninstall => "uninstall the release",
        Action::Unlock => "mark the interrupted operation as failed",
        Action::CorrectDrift => "correct the drift",
    };
    fixed.to_owned()
}

fn operation(seen: &Seen) -> &'static str {
    seen.operation
        .as_ref()
        .map_or("operation", |basis| basis.action.name())
}

struct Observer<'a> {
    client: &'a Client,
    declared: &'a Declared,
    status: HelmReleaseStatus,
    values: Option<Arc<equate_helm::Values>>,
    unknown: Vec<String>,
    record: Option<String>,
    waits_for: Option<String>,
}

impl Observer<'_> {
    /// Looks at the same things in the same order as a run of the controller.
    async fn observe(&mut self) -> Seen {
        let declared = self.declared;
        let mut seen = Seen {
            status: self.status.clone(),
            problem: self.stalled(Reason::InvalidCelExpression),
            own_chart: OwnChart::None,
            unnamed_chart: UnnamedChart::None,
            dependencies: Dependencies::Ready,
            source: self
                .stalled(Reason::AccessDenied)
                .map_or(Source::NotLooked, Source::Denied),
            values: Values::NotLooked,
            access: Access::Open,
            storage: Storage::NotLooked,
            operation: None,
            attempted: BTreeSet::new(),
            kind_defined: false,
            retry_in: None,
            applying: None,
            drift: Vec::new(),
        };
        if declared.deleting || seen.problem.is_some() || matches!(seen.source, Source::Denied(_)) {
            return seen;
        }
        (seen.own_chart, seen.source) = self.chart().await;
        seen.dependencies = self.dependencies().await;
        if seen.own_chart == OwnChart::Differs || !matches!(seen.source, Source::Ready(_)) {
            return seen;
        }
        seen.values = self.values().await;
        if !matches!(seen.values, Values::Ready(_)) {
            return seen;
        }
        seen.storage = self.storage(&mut seen).await;
        if is_true(&self.status.conditions, ConditionType::Drifted) {
            seen.drift.push(Drift {
                object: String::new(),
                changes: None,
            });
        }
        seen
    }

    /// The message of the controller about this generation, if it stalled for this reason.
    fn stalled(&self, reason: Reason) -> Option<String> {
        let stalled = condition(&self.status.conditions, ConditionType::Stalled)?;
        let current = stalled.observed_generation == Some(self.declared.generation);
        let is = stalled.status == "True" && stalled.reason == reason.as_str();
        (is && current).then(|| stalled.message.clone())
    }

    async fn read<K>(&mut self, key: &Key) -> Result<Option<K>, ()>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + fmt::Debug,
    {
        let found = kit_read::read::<K>(self.client, &key.namespace, &key.name).await;
        found.map_err(|error| {
            let line = format!("{} {key} cannot be read: {error}", K::kind(&()));
            self.unknown.push(line);
        })
    }

    async fn chart(&mut self) -> (OwnChart, Source) {
        let declared = self.declared;
        let key = declared.source.key();
        let own_unknown = match declared.owns_chart {
            true => OwnChart::AsDeclared,
            false => OwnChart::None,
        };
        match declared.source.kind {
            "HelmChart" => match self.read::<HelmChart>(&key).await {
                Err(()) => (own_unknown, self.assumed_source()),
                Ok(None) => (chart::compared(declared, None), chart::absent(declared)),
                Ok(Some(found)) => (chart::compared(declared, Some(&found)), self.of_chart(found)),
            },
            "OCIRepository" => match self.read::<OciRepository>(&key).await {
                Err(()) => (own_unknown, self.assumed_source()),
                Ok(None) => (own_unknown, chart::absent(declared)),
                Ok(Some(found)) => (own_unknown, self.of_repository(found)),
            },
            kind => {
                self.unknown.push(format!(
                    "the chart in {kind} {key}: only its archive tells its version"
                ));
                (own_unknown, self.assumed_source())
            }
        }
    }

    fn of_chart(&self, found: HelmChart) -> Source {
        let status = found.status.unwrap_or_default();
        let generations = (found.metadata.generation, status.observed_generation);
        if let Some(unready) = chart::unready(self.declared, generations, &status.conditions) {
            return unready;
        }
        match status.artifact {
            None => self.without_artifact(&status.conditions),
            Some(artifact) => Source::Ready(Chart {
                name: status.observed_chart_name.unwrap_or_else(|| self.released_name()),
                version: artifact.revision,
                app_version: String::new(),
                oci_digest: None,
                artifact: artifact.digest,
            }),
        }
    }

    /// The version of a chart in an OCI artifact: its tag with the digest. The name is that of the last release.
    fn of_repository(&mut self, found: OciRepository) -> Source {
        let status = found.status.unwrap_or_default();
        let generations = (found.metadata.generation, status.observed_generation);
        if let Some(unready) = chart::unready(self.declared, generations, &status.conditions) {
            return unready;
        }
        let Some(artifact) = status.artifact else {
            return self.without_artifact(&status.conditions);
        };
        let (tag, digest) = artifact
            .revision
            .split_once('@')
            .unwrap_or(("", &artifact.revision));
        let attempted = self.status.last_attempted_revision_digest.as_deref();
        let version = match attempted == Some(digest) || attempted == Some(&artifact.revision) {
            true => self.status.last_attempted_revision.clone(),
            false => {
                let tag = tag.replace('_', "+");
                let with_digest = chart::with_digest(&tag, &artifact.revision);
                with_digest.ok().map(|(version, _)| version)
            }
        };
        let version = version.unwrap_or_else(|| {
            let line = format!(
                "the chart version in the artifact {} of {}: only its archive tells it",
                artifact.revision, self.declared.source
            );
            self.unknown.push(line);
            artifact.revision.clone()
        });
        Source::Ready(Chart {
            name: self.released_name(),
            version,
            app_version: String::new(),
            oci_digest: Some(digest.to_owned()),
            artifact: artifact.digest,
        })
    }

    fn without_artifact(&self, conditions: &[Condition]) -> Source {
        let failed = condition(conditions, ConditionType::Ready).filter(|ready| ready.status == "False");
        match failed {
            // the cause is worth more than its effect
            Some(ready) => chart::not_ready(
                self.declared,
                &format!("does not have an artifact: {}", ready.message),
            ),
            None => chart::not_ready(self.declared, "does not have an artifact"),
        }
    }

    fn released_name(&self) -> String {
        latest(&self.status.history).map_or_else(String::new, |latest| latest.chart_name.clone())
    }

    /// The chart of the last attempt.
    fn assumed_source(&self) -> Source {
        match &self.status.last_attempted_revision {
            None => Source::NotLooked,
            Some(version) => Source::Ready(Chart {
                name: self.released_name(),
                version: version.clone(),
                app_version: String::new(),
                oci_digest: self.status.last_attempted_revision_digest.clone(),
                artifact: String::new(),
            }),
        }
    }

    async fn dependencies(&mut self) -> Dependencies {
        let declared = self.declared;
        if let Some(why) = excess(declared.depends_on.len()) {
            return Dependencies::Invalid(Reason::Unsupported, why);
        }
        for (key, expression) in declared.depends_on.iter().zip(&declared.ready_exprs) {
            match self.read::<HelmRelease>(key).await {
                Err(()) => {}
                Ok(None) => return Dependencies::NotReady(dependencies::absent(key)),
                Ok(Some(_)) if expression.is_some() => self.unknown.push(format!(
                    "whether dependency '{key}' is ready: the controller evaluates its readyExpr"
                )),
                Ok(Some(found)) if !dependencies::is_ready(&found) => {
                    return Dependencies::NotReady(dependencies::unready(key));
                }
                Ok(Some(_)) => {}
            }
        }
        Dependencies::Ready
    }

    async fn values(&mut self) -> Values {
        let declared = self.declared;
        let spec = &declared.spec;
        let namespace = &declared.key.namespace;
        let composed = values::compose(self.client, namespace, spec.values.as_ref(), &spec.values_from).await;
        match composed {
            Ok(composed) => {
                self.values = Some(composed.values);
                Values::Ready(composed.digest)
            }
            Err(ValuesError::Unreachable(why)) => {
                self.unknown.push(format!("the values cannot be read: {why}"));
                let attempted = self.status.last_attempted_config_digest.clone();
                let released = || Some(latest(&self.status.history)?.config_digest.clone());
                Values::Ready(attempted.or_else(released).unwrap_or_default())
            }
            Err(error) => Values::Failed(error.to_string()),
        }
    }

    async fn storage(&mut self, seen: &mut Seen) -> Storage {
        let declared = self.declared;
        if declared.kube_config.is_some() {
            self.unknown
                .push("the records of the release: they are in the cluster of spec.kubeConfig".to_owned());
            return self.assumed_storage();
        }
        let cluster = Cluster::new(self.client.clone());
        let storage = storage::Storage::of_command(&cluster, declared);
        let current = latest(&seen.status.history);
        let oci_digest = current.and_then(|current| current.oci_digest.clone());
        let oci_digest = oci_digest.unwrap_or_default();
        let of = (oci_digest.as_str(), declared.upgrade.preserve_values);
        let found = records::reread(&storage, None, of).await;
        let last = match found {
            Ok((_, found)) => found.last,
            Err(error) => {
                self.unknown.push(format!(
                    "the records of the release in namespace {} cannot be read: {error}",
                    declared.storage
                ));
                return self.assumed_storage();
            }
        };
        let Some(last) = last else {
            return Storage::Empty;
        };
        self.record = Some(format!(
            "revision {}, {}@{}, {}",
            last.version, last.chart_name, last.chart_version, last.status
        ));
        seen.operation = in_progress(declared, seen, &last);
        if is_true(&self.status.conditions, ConditionType::Reconciling) {
            self.waits_for = self.running_hook(&storage, last.version).await;
        }
        Storage::Last(records::compared(&storage, declared, (seen, self.values.as_deref()), last).await)
    }

    /// The hook that runs by the record of a revision, and the state of its object.
    async fn running_hook(&mut self, storage: &storage::Storage<'_>, version: u64) -> Option<String> {
        let record = match storage.get(version).await {
            Ok(record) => record?,
            Err(error) => {
                self.unknown.push(format!("whether a hook runs: {error}"));
                return None;
            }
        };
        let mut hooks = record.release.hooks.iter();
        let hook = hooks.find(|hook| hook.last_run.phase == Phase::Running)?;
        let events: Vec<String> = hook.events.iter().map(ToString::to_string).collect();
        let mut objects = objects::read(&hook.manifest).ok()?;
        let namespace = Some(record.release.namespace.as_str());
        let assigned = storage
            .cluster
            .assign_namespaces(objects.iter_mut(), namespace)
            .await;
        let mut states = Vec::new();
        for target in objects.into_iter().map(Target::of) {
            let version = target.api_version();
            let version = version.rsplit_once('/').map_or(version, |(_, version)| version);
            let live = storage.cluster.get(&target.id, version, ANSWER).await;
            states.push(match (&assigned, live) {
                (Ok(()), Ok(live)) => hook_state(&target, live.as_ref()),
                (Err(_), _) | (_, Err(_)) => {
                    self.unknown
                        .push(format!("the state of {}: it cannot be read", target.id));
                    target.id.to_string()
                }
            });
        }
        Some(format!("{} hook {}", events.join(","), states.join(", ")))
    }

    /// The last record as the status has it.
    fn assumed_storage(&self) -> Storage {
        let Some(latest) = latest(&self.status.history) else {
            return Storage::Empty;
        };
        Storage::Last(Last {
            version: u64::try_from(latest.version).unwrap_or_default(),
            status: Status::from(latest.status.as_str()),
            chart_name: latest.chart_name.clone(),
            chart_version: latest.chart_version.clone(),
            kept_values: None,
            observed: true,
            interrupted: None,
            previous: Previous::None,
        })
    }
}

fn hook_state(target: &Target, live: Option<&Object>) -> String {
    let health = hooks::health_of(target, live);
    match health.message.is_empty() {
        true => format!("{}: {}", target.id, health.status),
        false => format!("{}: {}: {}", target.id, health.status, health.message),
    }
}

/// The operation of this HelmRelease that made a pending record: it is in progress, or was interrupted. Either
/// way it goes on while its inputs are the same.
fn in_progress(declared: &Declared, seen: &Seen, last: &LastRecord) -> Option<Basis> {
    let action = match last.status {
        Status::PendingInstall => Action::Install,
        Status::PendingUpgrade => Action::Upgrade,
        Status::PendingRollback => Action::Rollback,
        _ => return None,
    };
    let (generation, name) = own_operation(declared, last.operation.as_deref()?)?;
    let (Source::Ready(chart), Values::Ready(config)) = (&seen.source, &seen.values) else {
        return None;
    };
    // a rollback restores another chart and other values than those that it began with
    let restores = action == Action::Rollback;
    (name == action.name()).then(|| Basis {
        action,
        generation,
        chart_version: match restores {
            true => chart.version.clone(),
            false => last.chart_version.clone(),
        },
        config_digest: match restores {
            true => config.clone(),
            false => last.config_digest.clone(),
        },
    })
}
