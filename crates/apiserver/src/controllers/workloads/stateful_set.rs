//! StatefulSets: numbered pods, one after the other unless parallel.

use super::context::{
    Context, EventSource, controller_reference, is_active, is_ready, pod_of, seconds, set_count, wanted,
};
use super::revision::{HASH, Revisions};
use super::{Kind, pod, replica_set};
use crate::builtin::tree::{entries, get, items, text};
use crate::controllers::Action;
use crate::controllers::object::{deleting, meta, uid};
use crate::store::Key;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Range;
use tokio::time::Duration;

const COMPONENT: &str = "statefulset-controller";

struct Set<'a> {
    object: &'a Value,
    ordinals: Range<usize>,
    parallel: bool,
    min_ready: Duration,
    revisions: Revisions<'a>,
    current: String,
    pods: BTreeMap<usize, (&'a Key, &'a Value)>,
}

pub(super) fn reconcile(cx: &mut Context<'_>, object: &Value) {
    let pods = cx.children_of(object, Kind::Pod);
    let is_member = |pod: &str| ordinal(meta(object, "name"), pod).is_some();
    let mut claims = replica_set::claims_of(cx, object, Kind::Pod, &pods, is_member);
    claims.extend(Revisions::adopt(cx, object));
    if !claims.is_empty() {
        return cx.step(claims);
    }
    let set = Set::of(cx, object, &pods);
    if let Some(why) = cx.refusal() {
        let message = format!("create Pod in StatefulSet {} failed error: {why}", set.name());
        cx.report_refusal(set.event_source(), &why, &message);
    }
    let mut used: Vec<&str> = set.pods.values().map(|(_, pod)| revision_of(pod)).collect();
    used.push(&set.current);
    let actions = set.revisions.keep(cx, object, &set.revisions.update, &used);
    cx.step(actions);
    for (ordinal, (_, pod)) in &set.pods {
        let actions = set.retain(cx, *ordinal, pod);
        cx.step(actions);
    }
    let moved = set.grow(cx) || set.shrink(cx) || set.update(cx);
    // Between two steps the counts change with the pods.
    if !moved {
        set.report(cx);
    }
}

/// The ordinal of a set's pod, by its name.
fn ordinal(set: &str, pod: &str) -> Option<usize> {
    pod.strip_prefix(set)?.strip_prefix('-')?.parse().ok()
}

/// The set that needs a pod's name.
pub(super) fn parent(pod: &Key) -> Option<Key> {
    let (set, ordinal) = pod.name.rsplit_once('-')?;
    ordinal.parse::<usize>().ok()?;
    Some(Key::new(&Kind::StatefulSet.resource(), &*pod.namespace, set))
}

fn revision_of(pod: &Value) -> &str {
    pod["metadata"]["labels"][HASH].as_str().unwrap_or_default()
}

impl<'a> Set<'a> {
    fn of(cx: &Context<'a>, object: &'a Value, pods: &[(&'a Key, &'a Value)]) -> Self {
        let start = wanted(object, "spec.ordinals.start", 0);
        let revisions = Revisions::of(cx, object);
        let current = match text(object, "status.currentRevision") {
            "" => revisions.update.clone(),
            known => known.to_owned(),
        };
        let name = meta(object, "name");
        let pods = pods
            .iter()
            .filter_map(|(key, pod)| Some((ordinal(name, &key.name)?, (*key, *pod))))
            .collect();
        Self {
            object,
            ordinals: start..start + wanted(object, "spec.replicas", 1),
            parallel: text(object, "spec.podManagementPolicy") == "Parallel",
            min_ready: seconds(object, "spec.minReadySeconds"),
            revisions,
            current,
            pods,
        }
    }

    fn partition(&self) -> usize {
        let partition = wanted(self.object, "spec.updateStrategy.rollingUpdate.partition", 0);
        self.ordinals.start + partition
    }

    fn is_available(&self, cx: &mut Context<'_>, pod: &Value) -> bool {
        !deleting(pod) && cx.available(pod, self.min_ready)
    }

    fn event(&self, cx: &mut Context<'_>, verb: &str, pod: &str) -> Action {
        let message = format!("{verb} Pod {pod} in StatefulSet {} successful", self.name());
        let reason = format!("Successful{verb}");
        cx.event(self.event_source(), "Normal", &reason, &message)
    }

    fn event_source(&self) -> EventSource<'a> {
        EventSource {
            component: COMPONENT,
            about: self.object,
        }
    }

    fn name(&self) -> &'a str {
        meta(self.object, "name")
    }

    /// Creates missing pods; when ordered, the first one, once its predecessors are ready. Returns whether
    /// it did anything.
    fn grow(&self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        for ordinal in self.ordinals.clone() {
            match self.pods.get(&ordinal) {
                None if self.is_taken(cx, ordinal) => {}
                None => {
                    self.add(cx, ordinal);
                    moved = true;
                }
                Some((key, pod)) if !is_active(pod) && !deleting(pod) => {
                    let actions = vec![cx.kill(key, pod)];
                    cx.step(actions);
                    moved = true;
                }
                Some((_, pod)) => {
                    if !self.parallel && !self.is_available(cx, pod) {
                        return moved;
                    }
                    continue;
                }
            }
            if !self.parallel {
                return moved;
            }
        }
        moved
    }

    /// Whether another owner's pod has the name; it is reported once.
    fn is_taken(&self, cx: &mut Context<'_>, ordinal: usize) -> bool {
        let (set, pod) = (self.name(), format!("{}-{ordinal}", self.name()));
        let Some(holder) = cx.get(Kind::Pod, &cx.key.namespace, &pod) else {
            return false;
        };
        if cx.alarms.is_new(cx.key, ("taken", uid(holder)), cx.seen.at) {
            let message =
                format!("create Pod {pod} in StatefulSet {set} failed error: pods {pod:?} already exists");
            let event = cx.event(self.event_source(), "Warning", "FailedCreate", &message);
            cx.step(vec![event]);
        }
        true
    }

    fn add(&self, cx: &mut Context<'_>, ordinal: usize) {
        let (set, name) = (self.object, format!("{}-{ordinal}", self.name()));
        let mut actions = Vec::new();
        let mut volumes: Vec<Value> = Vec::new();
        for template in items(set, "spec.volumeClaimTemplates") {
            let volume = meta(template, "name");
            let claim = format!("{volume}-{name}");
            if cx.get(Kind::Claim, &cx.key.namespace, &claim).is_none() {
                let mut labels = get(template, "metadata.labels").clone();
                for (label, value) in entries(set, "spec.selector.matchLabels") {
                    labels[label] = value.clone();
                }
                let object = json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "metadata": { "name": claim, "namespace": cx.key.namespace, "labels": labels },
                    "spec": template["spec"],
                });
                actions.push(cx.create(Kind::Claim, object));
            }
            volumes.push(json!({ "name": volume, "persistentVolumeClaim": { "claimName": claim } }));
        }
        let old = (ordinal < self.partition()).then(|| self.revisions.template(&self.current));
        let (revision, template) = match old.flatten() {
            Some(template) => (&self.current, template),
            None => (&self.revisions.update, get(set, "spec.template")),
        };
        let mut pod = pod_of(set, template, &name);
        for (label, value) in [
            (HASH, revision.as_str()),
            ("statefulset.kubernetes.io/pod-name", &name),
            ("apps.kubernetes.io/pod-index", &ordinal.to_string()),
        ] {
            pod["metadata"]["labels"][label] = json!(value);
        }
        let replaced = |v: &Value| volumes.iter().any(|ours| ours["name"] == v["name"]);
        let kept = items(&pod, "spec.volumes").iter().filter(|v| !replaced(v));
        let volumes: Vec<Value> = kept.cloned().chain(volumes.iter().cloned()).collect();
        if !volumes.is_empty() {
            pod["spec"]["volumes"] = json!(volumes);
        }
        pod["spec"]["hostname"] = json!(name);
        let service = text(set, "spec.serviceName");
        if !service.is_empty() {
            pod["spec"]["subdomain"] = json!(service);
        }
        actions.push(cx.create(Kind::Pod, pod));
        actions.push(self.event(cx, "Create", &name));
        cx.step(actions);
    }

    /// The owners of a pod's volume claims, by `persistentVolumeClaimRetentionPolicy`.
    fn retain(&self, cx: &Context<'_>, ordinal: usize, pod: &Value) -> Vec<Action> {
        let policy = get(self.object, "spec.persistentVolumeClaimRetentionPolicy");
        let (scaled, deleted) = (
            text(policy, "whenScaled") == "Delete",
            text(policy, "whenDeleted") == "Delete",
        );
        let owner = match self.ordinals.contains(&ordinal) {
            false if scaled => Some(pod),
            _ if deleted => Some(self.object),
            _ => None,
        };
        let is_ours = |reference: &Value| match text(reference, "kind") {
            "StatefulSet" => text(reference, "name") == self.name(),
            "Pod" => text(reference, "name") == meta(pod, "name"),
            _ => false,
        };
        let mut actions = Vec::new();
        for template in items(self.object, "spec.volumeClaimTemplates") {
            let name = format!("{}-{}", meta(template, "name"), meta(pod, "name"));
            let Some(claim) = cx.get(Kind::Claim, &cx.key.namespace, &name) else {
                continue;
            };
            let known = items(claim, "metadata.ownerReferences");
            let mut wanted: Vec<Value> = known.iter().filter(|r| !is_ours(r)).cloned().collect();
            let is_foreign = wanted.iter().any(|r| r["controller"] == true);
            if let Some(owner) = owner.filter(|_| !is_foreign) {
                let reference = controller_reference(owner);
                wanted.extend(reference.as_array().into_iter().flatten().cloned());
            }
            if known != wanted {
                let key = Key::new(&Kind::Claim.resource(), &*cx.key.namespace, &*name);
                let patch = json!({ "metadata": { "ownerReferences": wanted } });
                actions.push(cx.change(&key, claim, patch));
            }
        }
        actions
    }

    fn shrink(&self, cx: &mut Context<'_>) -> bool {
        let beyond = self.pods.iter().rev().filter(|(n, _)| !self.ordinals.contains(n));
        let count = if self.parallel { usize::MAX } else { 1 };
        let mut moved = false;
        for (_, (key, pod)) in beyond.take(count) {
            self.remove(cx, key, pod);
            moved = true;
        }
        moved
    }

    fn remove(&self, cx: &mut Context<'_>, key: &Key, pod: &Value) {
        if !deleting(pod) {
            let mut actions = pod::remove(cx, key, pod);
            actions.push(self.event(cx, "Delete", &key.name));
            cx.step(actions);
        }
    }

    /// Replaces the last pod of another revision, once its successors are ready.
    fn update(&self, cx: &mut Context<'_>) -> bool {
        if text(self.object, "spec.updateStrategy.type") == "OnDelete" {
            return false;
        }
        let partition = self.partition();
        for (_, (key, pod)) in self.pods.iter().rev().filter(|(n, _)| **n >= partition) {
            if revision_of(pod) != self.revisions.update {
                self.remove(cx, key, pod);
                return true;
            }
            if !self.is_available(cx, pod) {
                return false;
            }
        }
        false
    }

    fn report(&self, cx: &mut Context<'_>) {
        let set = self.object;
        let pods: Vec<&Value> = self.pods.values().map(|(_, pod)| *pod).collect();
        let of = |revision: &str| pods.iter().filter(|p| revision_of(p) == revision).count();
        let ready = pods.iter().filter(|p| is_ready(p)).count();
        let available = pods.iter().filter(|p| cx.available(p, self.min_ready)).count();
        let (update, mut current) = (&self.revisions.update, &self.current);
        let updated = of(update);
        let rolls = text(set, "spec.updateStrategy.type") != "OnDelete";
        if rolls && updated == pods.len() && ready == pods.len() && pods.len() == self.ordinals.len() {
            current = update;
        }
        let mut status = json!({
            "observedGeneration": get(set, "metadata.generation"),
            "replicas": pods.len(),
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": 0,
            "availableReplicas": available,
        });
        set_count(&mut status, "readyReplicas", ready);
        set_count(&mut status, "currentReplicas", of(current));
        set_count(&mut status, "updatedReplicas", updated);
        let action = cx.status(set, &status);
        cx.step(action.into_iter().collect());
    }
}
