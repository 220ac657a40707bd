//! Deployments: a ReplicaSet per pod template, and the rollout between them.

use super::behaviour::is_declaration;
use super::context::{
    Context, EventSource, condition, controller_reference, digest, is_active, seconds, set_count, wanted,
};
use super::replica_set::claims;
use super::rollout::{Margin, Part, Size, new_size, old_sizes, scaled};
use super::{Kind, controller};
use crate::builtin::tree::{annotation, entries, flag, get, int, items, text};
use crate::controllers::Action;
use crate::controllers::object::{deleting, meta, uid};
use crate::store::Key;
use serde_json::{Map, Value, json};

const COMPONENT: &str = "deployment-controller";
const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];
/// The default of `progressDeadlineSeconds` that disables it.
const NO_DEADLINE: i64 = i32::MAX as i64;

#[derive(Clone, Copy)]
struct Set<'a> {
    key: &'a Key,
    object: &'a Value,
    size: Size,
}

struct Rollout<'a> {
    deployment: &'a Value,
    wanted: usize,
    margin: Margin,
    new: Option<Set<'a>>,
    /// Oldest first.
    old: Vec<Set<'a>>,
}

pub(super) fn reconcile(cx: &mut Context<'_>, deployment: &Value) {
    let sets = cx.children_of(deployment, Kind::ReplicaSet);
    let claims = claims(cx, deployment, Kind::ReplicaSet, &sets);
    if !claims.is_empty() {
        return cx.step(claims);
    }
    let rollout = Rollout::of(cx, deployment);
    let mut actions = Vec::new();
    let paused = flag(deployment, "spec.paused");
    match rollout.new {
        None if !paused && rollout.may_create_pods(cx) => rollout.create_new(cx, &mut actions),
        None => {}
        Some(new) => rollout.describe(cx, new, &mut actions),
    }
    rollout.scale(cx, paused, &mut actions);
    if rollout.is_complete(&rollout.counts()) {
        rollout.prune_history(cx, &mut actions);
    }
    // Until the new ReplicaSet exists and has observed its size, there is nothing to count; its status
    // wakes this Deployment.
    if actions.is_empty() && rollout.new.is_none_or(|new| is_observed(new.object)) {
        actions.extend(rollout.report(cx));
    }
    cx.step(actions);
}

impl<'a> Rollout<'a> {
    fn of(cx: &Context<'a>, deployment: &'a Value) -> Self {
        let mut sets: Vec<Set<'a>> = cx
            .children_of(deployment, Kind::ReplicaSet)
            .into_iter()
            .filter(|(_, set)| !deleting(set))
            .map(|(key, object)| Set {
                key,
                object,
                size: Size {
                    replicas: wanted(object, "spec.replicas", 1),
                    available: wanted(object, "status.availableReplicas", 0),
                },
            })
            .collect();
        sets.sort_by_key(|set| {
            (
                meta(set.object, "creationTimestamp"),
                revision(set.object),
                &set.key.name,
            )
        });
        let template = get(deployment, "spec.template");
        let position = sets.iter().position(|set| same_template(set.object, template));
        let new = position.map(|position| sets.remove(position));
        let replicas = wanted(deployment, "spec.replicas", 1);
        Self {
            deployment,
            wanted: replicas,
            margin: Margin::of(deployment, replicas),
            new,
            old: sets,
        }
    }

    fn is_recreate(&self) -> bool {
        text(self.deployment, "spec.strategy.type") == "Recreate"
    }

    fn event_source(&self) -> EventSource<'a> {
        EventSource {
            component: COMPONENT,
            about: self.deployment,
        }
    }

    fn may_create_pods(&self, cx: &Context<'_>) -> bool {
        let empty = |set: &Set<'_>| {
            let pods = cx.children_of(set.object, Kind::Pod);
            set.size.replicas == 0 && !pods.iter().any(|(_, pod)| is_active(pod) || deleting(pod))
        };
        !self.is_recreate() || self.old.iter().all(empty)
    }

    fn all_replicas(&self) -> usize {
        self.new
            .iter()
            .chain(&self.old)
            .map(|set| set.size.replicas)
            .sum()
    }

    fn next_revision(&self) -> i64 {
        1 + self.old.iter().map(|set| revision(set.object)).max().unwrap_or(0)
    }

    fn create_new(&self, cx: &mut Context<'_>, actions: &mut Vec<Action>) {
        let deployment = self.deployment;
        let template = get(deployment, "spec.template");
        let hash = digest(&[&template.to_string()], 10);
        let name = format!("{}-{hash}", meta(deployment, "name"));
        if let Some(orphan) = cx.get(Kind::ReplicaSet, &cx.key.namespace, &name) {
            if controller(orphan).is_none() && same_template(orphan, template) {
                let key = Key::new(&Kind::ReplicaSet.resource(), &*cx.key.namespace, &*name);
                let patch = json!({ "metadata": { "ownerReferences": controller_reference(deployment) } });
                actions.push(cx.change(&key, orphan, patch));
            }
            return;
        }
        let size = new_size(self.wanted, 0, self.all_replicas(), self.margin);
        let with_hash = |labels: &Value| {
            let mut labels = labels.as_object().cloned().unwrap_or_default();
            labels.insert(HASH.to_owned(), json!(hash));
            Value::Object(labels)
        };
        let mut template = template.clone();
        template["metadata"]["labels"] = with_hash(get(&template, "metadata.labels"));
        let mut selector = get(deployment, "spec.selector").clone();
        selector["matchLabels"] = with_hash(get(&selector, "matchLabels"));
        let mut annotations = self.annotations();
        annotations.extend(self.sizes());
        annotations.insert(REVISION.to_owned(), json!(self.next_revision().to_string()));
        let mut spec = json!({ "replicas": size, "selector": selector, "template": template });
        if let Some(seconds) = int(deployment, "spec.minReadySeconds") {
            spec["minReadySeconds"] = json!(seconds);
        }
        let object = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": name, "namespace": cx.key.namespace, "labels": template["metadata"]["labels"],
                "annotations": annotations, "ownerReferences": controller_reference(deployment),
            },
            "spec": spec,
        });
        actions.push(cx.create(Kind::ReplicaSet, object));
        if size > 0 {
            let message = format!("Scaled up replica set {name} from 0 to {size}");
            actions.push(cx.event(self.event_source(), "Normal", "ScalingReplicaSet", &message));
        }
    }

    fn annotations(&self) -> Map<String, Value> {
        entries(self.deployment, "metadata.annotations")
            .filter(|(name, _)| !OWN.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    fn sizes(&self) -> [(String, Value); 2] {
        let max = match self.wanted {
            0 => 0,
            wanted => wanted + self.margin.surge,
        };
        [
            (DESIRED.to_owned(), json!(self.wanted.to_string())),
            (MAX.to_owned(), json!(max.to_string())),
        ]
    }

    fn revision(&self) -> i64 {
        self.new
            .map_or(0, |new| revision(new.object).max(self.next_revision()))
    }

    fn describe(&self, cx: &Context<'_>, new: Set<'_>, actions: &mut Vec<Action>) {
        let mut annotations = self.annotations();
        let (known, current) = (revision(new.object), self.revision());
        annotations.insert(REVISION.to_owned(), json!(current.to_string()));
        if known != 0 && known < current {
            // A rollback: this template was an earlier revision.
            let mut history: Vec<&str> = annotation(new.object, HISTORY)
                .unwrap_or_default()
                .split(',')
                .filter(|part| !part.is_empty())
                .collect();
            let known = known.to_string();
            history.push(&known);
            annotations.insert(HISTORY.to_owned(), json!(history.join(",")));
        }
        let present = get(new.object, "metadata.annotations");
        let mut patch: Map<String, Value> = annotations
            .into_iter()
            .filter(|(name, value)| present.get(name) != Some(value))
            .collect();
        // Copied annotations stay, as upstream; except a behaviour that is no longer declared.
        let declared = entries(new.object, "metadata.annotations").filter(|(name, _)| is_declaration(name));
        for (name, _) in declared.filter(|(name, _)| annotation(self.deployment, name).is_none()) {
            patch.insert(name.clone(), Value::Null);
        }
        if !patch.is_empty() {
            let patch = json!({ "metadata": { "annotations": patch } });
            actions.push(cx.change(new.key, new.object, patch));
        }
    }

    fn scale(&self, cx: &mut Context<'_>, paused: bool, actions: &mut Vec<Action>) {
        let active: Vec<Set<'_>> = self
            .new
            .iter()
            .chain(&self.old)
            .copied()
            .filter(|set| set.size.replicas > 0)
            .collect();
        let resized = active.iter().any(|set| self.is_resized(set));
        // Without a rollout in progress, or with a paused one: the only active ReplicaSet follows.
        let alone = match (&active[..], &self.new) {
            ([one], _) => Some(*one),
            ([], Some(new)) => Some(*new),
            _ => None,
        };
        if let Some(set) = alone
            && (paused || resized)
        {
            return self.resize(cx, set, self.wanted, actions);
        }
        if resized && !self.is_recreate() {
            return self.share(cx, actions);
        }
        if paused {
            return;
        }
        if self.is_recreate() {
            for set in &self.old {
                self.resize(cx, *set, 0, actions);
            }
            if let Some(new) = self.new.filter(|_| self.may_create_pods(cx)) {
                self.resize(cx, new, self.wanted, actions);
            }
            return;
        }
        let Some(new) = self.new else {
            return;
        };
        let size = new_size(self.wanted, new.size.replicas, self.all_replicas(), self.margin);
        if size != new.size.replicas {
            return self.resize(cx, new, size, actions);
        }
        let old: Vec<Size> = self.old.iter().map(|set| set.size).collect();
        let sizes = old_sizes(self.wanted, new.size, &old, self.margin);
        for (set, size) in self.old.iter().zip(sizes) {
            self.resize(cx, *set, size, actions);
        }
    }

    /// Scales all active ReplicaSets in the middle of a rollout.
    fn share(&self, cx: &mut Context<'_>, actions: &mut Vec<Action>) {
        let wanted_text = self.wanted.to_string();
        let is_saturated = |new: &Set<'_>| {
            let Size { replicas, available } = new.size;
            replicas == self.wanted
                && available == self.wanted
                && annotation(new.object, DESIRED) == Some(&wanted_text)
        };
        if self.new.as_ref().is_some_and(is_saturated) {
            for set in &self.old {
                self.resize(cx, *set, 0, actions);
            }
            return;
        }
        let active: Vec<Set<'_>> = self.old.iter().chain(&self.new).copied().collect();
        let active: Vec<Set<'_>> = active.into_iter().filter(|set| set.size.replicas > 0).collect();
        let part = |set: &Set<'_>| Part {
            replicas: set.size.replicas,
            most_before: annotation(set.object, MAX).and_then(|text| text.parse().ok()),
        };
        let parts: Vec<Part> = active.iter().map(part).collect();
        let sizes = scaled(self.wanted, &parts, self.counts().replicas, self.margin);
        for (set, size) in active.iter().zip(sizes) {
            if size == set.size.replicas && self.is_resized(set) {
                let annotations: Map<String, Value> = self.sizes().into_iter().collect();
                let patch = json!({ "metadata": { "annotations": annotations } });
                actions.push(cx.change(set.key, set.object, patch));
            } else {
                self.resize(cx, *set, size, actions);
            }
        }
    }

    fn is_resized(&self, set: &Set<'_>) -> bool {
        annotation(set.object, DESIRED).is_some_and(|d| d != self.wanted.to_string())
    }

    fn resize(&self, cx: &mut Context<'_>, set: Set<'_>, size: usize, actions: &mut Vec<Action>) {
        let before = set.size.replicas;
        if before == size && (size != self.wanted || !self.is_resized(&set)) {
            return;
        }
        let annotations: Map<String, Value> = self.sizes().into_iter().collect();
        let patch = json!({ "metadata": { "annotations": annotations }, "spec": { "replicas": size } });
        actions.push(cx.change(set.key, set.object, patch));
        if before == size {
            return;
        }
        let way = if size > before { "up" } else { "down" };
        let message = format!(
            "Scaled {way} replica set {} from {before} to {size}",
            set.key.name
        );
        actions.push(cx.event(self.event_source(), "Normal", "ScalingReplicaSet", &message));
    }

    fn prune_history(&self, cx: &Context<'_>, actions: &mut Vec<Action>) {
        let limit = wanted(self.deployment, "spec.revisionHistoryLimit", 10);
        let mut empty: Vec<&Set<'_>> = self
            .old
            .iter()
            .filter(|set| set.size.replicas == 0 && wanted(set.object, "status.replicas", 0) == 0)
            .collect();
        empty.sort_by_key(|set| revision(set.object));
        let excess = self.old.len().saturating_sub(limit);
        actions.extend(
            empty
                .into_iter()
                .take(excess)
                .map(|set| cx.kill(set.key, set.object)),
        );
    }

    fn counts(&self) -> Counts {
        let sum = |path: &str| {
            let sets = self.new.iter().chain(&self.old);
            sets.map(|set| wanted(set.object, path, 0)).sum::<usize>()
        };
        let available = sum("status.availableReplicas");
        Counts {
            replicas: sum("status.replicas"),
            updated: self.new.map_or(0, |set| wanted(set.object, "status.replicas", 0)),
            ready: sum("status.readyReplicas"),
            available,
            unavailable: self.all_replicas().saturating_sub(available),
            terminating: sum("status.terminatingReplicas"),
        }
    }

    fn is_complete(&self, counts: &Counts) -> bool {
        self.new.is_some()
            && [counts.updated, counts.replicas, counts.available]
                .iter()
                .all(|count| *count == self.wanted)
    }

    fn report(&self, cx: &mut Context<'_>) -> Option<Action> {
        let deployment = self.deployment;
        let counts = self.counts();
        let mut conditions = items(deployment, "status.conditions").to_vec();
        self.availability(&counts, &mut conditions, &cx.now());
        self.progress(cx, &counts, &mut conditions);
        self.failure(&mut conditions, &cx.now());
        let mut status = json!({
            "observedGeneration": get(deployment, "metadata.generation"),
            "terminatingReplicas": counts.terminating,
        });
        set_count(&mut status, "replicas", counts.replicas);
        set_count(&mut status, "updatedReplicas", counts.updated);
        set_count(&mut status, "readyReplicas", counts.ready);
        set_count(&mut status, "availableReplicas", counts.available);
        set_count(&mut status, "unavailableReplicas", counts.unavailable);
        if !conditions.is_empty() {
            status["conditions"] = json!(conditions);
        }
        let mut action = cx.status(deployment, &status);
        let revision = self.revision().to_string();
        if self.new.is_some() && annotation(deployment, REVISION) != Some(&revision) {
            // Through the status, as upstream: elsewhere it would start a new generation.
            let action = action.get_or_insert_with(|| cx.status_patch(deployment, json!({})));
            if let Action::Merge { patch, .. } = action {
                patch["metadata"]["annotations"] = json!({ REVISION: revision });
            }
        }
        action
    }

    fn failure(&self, conditions: &mut Vec<Value>, now: &Value) {
        const KIND: &str = "ReplicaFailure";
        let failure = self.new.and_then(|new| condition(new.object, KIND));
        match failure {
            Some(c) => {
                let verdict = (text(c, "status"), text(c, "reason"), text(c, "message"));
                set_condition(conditions, KIND, verdict, false, now);
            }
            None => conditions.retain(|c| c["type"] != KIND),
        }
    }

    fn availability(&self, counts: &Counts, conditions: &mut Vec<Value>, now: &Value) {
        let needed = self.wanted.saturating_sub(self.margin.unavailable);
        let verdict = if counts.available >= needed {
            (
                "True",
                "MinimumReplicasAvailable",
                "Deployment has minimum availability.",
            )
        } else {
            (
                "False",
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.",
            )
        };
        set_condition(conditions, "Available", verdict, false, now);
    }

    fn progress(&self, cx: &mut Context<'_>, counts: &Counts, conditions: &mut Vec<Value>) {
        const KIND: &str = "Progressing";
        let deployment = self.deployment;
        let deadline = int(deployment, "spec.progressDeadlineSeconds").unwrap_or(NO_DEADLINE);
        if deadline == NO_DEADLINE {
            return conditions.retain(|c| c["type"] != KIND);
        }
        let now = cx.now();
        let subject = match self.new {
            Some(new) => format!("ReplicaSet {:?}", new.key.name),
            None => format!("Deployment {:?}", meta(deployment, "name")),
        };
        let known = condition(deployment, KIND);
        let reason = known.map_or("", |c| text(c, "reason"));
        let done = reason == "NewReplicaSetAvailable" && counts.replicas == counts.updated;
        if flag(deployment, "spec.paused") {
            if reason != "DeploymentPaused" && reason != "ProgressDeadlineExceeded" {
                let verdict = ("Unknown", "DeploymentPaused", "Deployment is paused");
                set_condition(conditions, KIND, verdict, false, &now);
            }
            return;
        }
        if reason == "DeploymentPaused" {
            let verdict = ("Unknown", "DeploymentResumed", "Deployment is resumed");
            set_condition(conditions, KIND, verdict, false, &now);
        }
        if self.is_complete(counts) {
            let message = format!("{subject} has successfully progressed.");
            let verdict = ("True", "NewReplicaSetAvailable", &*message);
            return set_condition(conditions, KIND, verdict, false, &now);
        }
        if done && self.new.is_some_and(|new| new.size.replicas == self.wanted) {
            // Later changes of pods do not restart a finished rollout.
            return;
        }
        // A condition about another ReplicaSet belongs to an earlier rollout.
        let is_new = known.is_none_or(|c| !text(c, "message").starts_with(&subject));
        if is_new || self.has_progressed(counts) {
            let message = format!("{subject} is progressing.");
            let verdict = ("True", "ReplicaSetUpdated", &*message);
            return set_condition(conditions, KIND, verdict, true, &now);
        }
        let since = known.map_or("", |c| text(c, "lastUpdateTime"));
        let generation = get(deployment, "metadata.generation");
        let state = format!("{}/{generation}/{subject}/{since}", uid(deployment));
        let wait = seconds(deployment, "spec.progressDeadlineSeconds");
        if reason == "ProgressDeadlineExceeded" || cx.has_lasted(("progress", &state), wait) {
            let message = format!("{subject} has timed out progressing.");
            let verdict = ("False", "ProgressDeadlineExceeded", &*message);
            set_condition(conditions, KIND, verdict, false, &now);
        }
    }

    fn has_progressed(&self, counts: &Counts) -> bool {
        let before = |name: &str| wanted(get(self.deployment, "status"), name, 0);
        let old = |replicas: usize, updated: usize| replicas.saturating_sub(updated);
        counts.updated > before("updatedReplicas")
            || old(counts.replicas, counts.updated) < old(before("replicas"), before("updatedReplicas"))
            || counts.ready > before("readyReplicas")
            || counts.available > before("availableReplicas")
    }
}

#[derive(Debug)]
struct Counts {
    replicas: usize,
    updated: usize,
    ready: usize,
    available: usize,
    unavailable: usize,
    terminating: usize,
}

/// Sets a condition as upstream does: a changed one moves to the end of the list; one with the same status
/// and reason stays unchanged, unless `renewed`.
fn set_condition(
    conditions: &mut Vec<Value>,
    kind: &str,
    (status, reason, message): (&str, &str, &str),
    renewed: bool,
    now: &Value,
) {
    let known = conditions.iter().position(|c| c["type"] == kind);
    let mut since = now.clone();
    if let Some(position) = known {
        let present = &conditions[position];
        if !renewed && present["status"] == status && present["reason"] == reason {
            return;
        }
        if present["status"] == status {
            since = present["lastTransitionTime"].clone();
        }
        conditions.remove(position);
    }
    conditions.push(json!({
        "type": kind, "status": status, "lastUpdateTime": now, "lastTransitionTime": since,
        "reason": reason, "message": message,
    }));
}

fn is_observed(set: &Value) -> bool {
    get(set, "status.observedGeneration") == get(set, "metadata.generation")
}

fn revision(object: &Value) -> i64 {
    annotation(object, REVISION)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

fn same_template(set: &Value, template: &Value) -> bool {
    let own = get(set, "spec.template");
    let labels = |template: &Value| -> Vec<(String, Value)> {
        entries(template, "metadata.labels")
            .filter(|(name, _)| *name != HASH)
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    let others = |template: &Value| -> Vec<(String, Value)> {
        entries(template, "metadata")
            .filter(|(name, value)| *name != "labels" && !value.is_null())
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    own["spec"] == template["spec"] && labels(own) == labels(template) && others(own) == others(template)
}
