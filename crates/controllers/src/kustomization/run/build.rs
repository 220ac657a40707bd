//! Builds a revision for a run: with what was read of ConfigMaps and Secrets, or from what was built ahead
//! of it; then applies it. The build itself is `render`.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use tokio::time::Instant;

use super::observe::dependency_states;
use super::status::Stop;
use super::{Run, count, refreshes_values};
use crate::kit::queue::Requeue;
use crate::kit::wake::Reasons;
use crate::kustomization::decide::{Cause, Phase, deadline};
use crate::kustomization::declared::Declared;
use crate::kustomization::inputs::artifact::Artifact;
use crate::kustomization::inputs::substitute_from::{self, Values, ValuesError};
use crate::kustomization::memory::Record;
use crate::kustomization::reasons::Failure;
use crate::kustomization::render::{Rendered, Rendering, desired_of};
use crate::ownership::desired::DesiredSet;

impl Run<'_> {
    /// Builds a revision and applies it as far as it goes.
    pub(super) async fn build(
        &mut self,
        ks: &Declared,
        artifact: &Artifact,
        cause: Cause,
    ) -> Result<Requeue, Stop> {
        if self.access_failure.is_none()
            && cause == Cause::Retry
            && self.memory.record.as_ref().is_some_and(|r| r.desired.is_some())
        {
            // what was built is still here: only the applying failed
            self.renew(artifact);
            self.restart(ks);
            return self.apply(ks).await;
        }
        let values = self.values(ks).await;
        let prepared = self.memory.prepared.take();
        let prepared = prepared.filter(|prepared| {
            prepared.is_of(ks.generation, &artifact.tree) && prepared.is_with(values.as_ref().ok())
        });
        let rendered = match (prepared.and_then(|prepared| prepared.outcome), &values) {
            _ if self.access_failure.is_some() => Err(self
                .access_failure
                .clone()
                .unwrap_or(Failure::Apply(String::new()))),
            (_, Err(error)) => Err(error.clone().into()),
            (Some(outcome), Ok(_)) => outcome,
            (None, Ok(values)) => self.render(ks, Some(values), artifact).await,
        };
        let wants = desired_of(&rendered);
        match &wants {
            Some(wants) => {
                self.publish_desired(ks, &artifact.digest, wants.clone(), false);
                self.memory.declare(wants);
            }
            None => self.unreached(ks, &artifact.digest),
        }
        self.memory.surveying_since = None;
        let before = self.memory.record.take();
        let mut record = self.new_record(ks, artifact, values.as_deref().ok(), wants);
        match rendered {
            Ok(rendered) => {
                record.masks.push(rendered.opened);
                record.inputs = Some(rendered.inputs);
                record.digest = rendered.digest;
                if let Some(before) = before.filter(|before| before.digest == record.digest) {
                    record.since = before.since;
                }
                record.empty = rendered.desired.iter().all(|desired| desired.own_loop);
                record.desired = Some(Arc::new(rendered.desired));
                if let Some(files) = rendered.own_files {
                    *self
                        .cx
                        .kit
                        .own_files
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner) = files;
                }
                self.memory.record = Some(record);
                self.apply(ks).await
            }
            Err(failure) => {
                self.memory.record = Some(record);
                self.fail(ks, failure, None).await
            }
        }
    }

    /// What is remembered of a revision when it begins to be carried out.
    fn new_record(
        &self,
        ks: &Declared,
        artifact: &Artifact,
        values: Option<&Values>,
        wants: Option<DesiredSet>,
    ) -> Record {
        let now = Instant::now();
        Record {
            generation: ks.generation,
            revision: artifact.revision.clone(),
            since: artifact.revision.revision.clone(),
            config: self.access.config,
            tree: artifact.tree.id(),
            inputs: None,
            values: values.map(|values| values.stamp().clone()),
            masks: values
                .map(|values| Arc::clone(values.masks()))
                .into_iter()
                .collect(),
            artifact: artifact.digest.clone(),
            wants,
            applied: false,
            digest: String::new(),
            empty: false,
            token: ks.requested_at.clone(),
            began: self.began,
            desired: None,
            objects: Vec::new(),
            asked: Vec::new(),
            checks: Vec::new(),
            dependency_states: dependency_states(self.cx, ks),
            contests: Vec::new(),
            going: Vec::new(),
            left: BTreeSet::new(),
            changed: false,
            failure: None,
            phase: Phase::Staged {
                until: deadline(now, ks.timeout),
            },
            checking: now,
        }
    }

    /// Builds a revision.
    pub(super) async fn render(
        &self,
        ks: &Declared,
        values: Option<&Arc<Values>>,
        artifact: &Artifact,
    ) -> Result<Rendered, Failure> {
        let cx = self.cx;
        count(&cx.kit.tally.builds, 1);
        tracing::debug!(key = %self.key, revision = artifact.revision.revision, "building");
        let rendering = Rendering {
            cluster: &self.access.cluster,
            blocking: &cx.kit.processors,
            root: cx.kit.settings.root.as_ref(),
            default_namespace: cx.kit.settings.default_namespace.as_deref(),
            transits: &cx.transits,
            rules: &cx.rules,
        };
        rendering
            .render(ks, values.map(Arc::as_ref), &artifact.tree)
            .await
    }

    /// The variables, read once for a run.
    pub(super) async fn values(&mut self, ks: &Declared) -> Result<Arc<Values>, ValuesError> {
        if let Some(read) = &self.values {
            return read.clone();
        }
        if ks.reads_values() {
            self.cx.kit.inputs.begin();
        }
        let (namespace, decryption) = (&ks.key.namespace, ks.decryption.as_ref());
        let shared_keys = self.cx.kit.settings.policy.sops_age_secret.as_ref();
        let (client, references) = (&self.cx.kit.client, &ks.substitute_from);
        let read = substitute_from::read(client, namespace, references, decryption, shared_keys).await;
        self.values.insert(read.map(Arc::new)).clone()
    }

    /// Looks whether the variables are others, where something says that it is time to.
    pub(super) async fn refresh_values(&mut self, reasons: Reasons) {
        let Some(record) = &self.memory.record else { return };
        let ks = Declared::from(&*self.object);
        if !ks.reads_values() || ks.deleting || ks.suspend {
            return;
        }
        let told = record.values.as_ref();
        let told = told.is_some_and(|stamp| stamp.is_current(|holder| self.cx.kit.inputs.version(holder)));
        if !reasons.iter().any(|reason| refreshes_values(reason, told)) {
            return;
        }
        let read = self.values(&ks).await;
        // the same in other versions
        if let (Ok(values), Some(record)) = (read, &mut self.memory.record)
            && let Some(stamp) = &mut record.values
            && stamp.is_of(values.stamp())
        {
            stamp.clone_from(values.stamp());
        }
    }

    /// Another try with what was built.
    fn restart(&mut self, ks: &Declared) {
        if let Some(record) = &mut self.memory.record {
            record.began = self.began;
            record.token = ks.requested_at.clone();
            record.dependency_states = dependency_states(self.cx, ks);
            record.phase = Phase::Staged {
                until: deadline(self.began, ks.timeout),
            };
            if let Some(wants) = record.wants.clone() {
                let (artifact, applied) = (record.artifact.clone(), record.applied);
                self.publish_desired(ks, &artifact, wants, applied);
            }
        }
    }
}
