//! The context of one object's reconciliation: its inputs, and the writes it requests.

use super::alarm::Alarms;
use super::bindings::Bindings;
use super::selection::Selections;
use super::{Children, Kind, NODE, Simulation};
use crate::builtin::selector;
use crate::builtin::tree::{get, int};
use crate::controllers::object::{deleting, meta, text, uid};
use crate::controllers::{Action, Propagation, Seen, Step};
use crate::store::Key;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeSet, HashMap};
use tokio::time::{Duration, Instant};

const MANAGER: &str = "kube-controller-manager";
pub(super) const KUBELET: &str = "kubelet";
/// Upstream's alphabet, which spells no words.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Events about pods per reconciliation: upstream's recorder has a burst of 25.
pub(super) const EVENTS_MAX: usize = 25;

/// How long pods may be refused before it is reported: a namespace's ServiceAccount may arrive a moment
/// after the namespace.
const REFUSAL_REPORT_DELAY: Duration = Duration::from_secs(1);

/// The kubelet's defaults `eventRecordQPS` 50 and `eventBurst` 100.
const POD_EVENT_EVERY: Duration = Duration::from_millis(20);
const POD_EVENTS_BURST: u32 = 100;

/// The share of Events about pods that start and stop: a mass start must not fill the store.
#[derive(Debug, Default)]
pub(super) struct EventLimit {
    used_until: Option<Instant>,
}

impl EventLimit {
    fn allows(&mut self, count: usize, at: Instant) -> bool {
        let used_until = self.used_until.map_or(at, |until| until.max(at));
        let wanted = used_until + POD_EVENT_EVERY * u32::try_from(count).unwrap_or(POD_EVENTS_BURST);
        let allowed = wanted <= at + POD_EVENT_EVERY * POD_EVENTS_BURST;
        if allowed {
            self.used_until = Some(wanted);
        }
        allowed
    }
}

pub(super) struct Context<'a> {
    pub(super) seen: &'a Seen<'a>,
    pub(super) key: &'a Key,
    pub(super) simulation: &'a Simulation,
    pub(super) children: &'a Children,
    pub(super) alarms: &'a mut Alarms,
    pub(super) refusals: &'a mut HashMap<Key, String>,
    pub(super) events: &'a mut u64,
    pub(super) pod_events: &'a mut EventLimit,
    pub(super) selections: &'a mut Selections,
    pub(super) bindings: &'a mut Bindings,
    pub(super) orphans: &'a BTreeSet<Key>,
    pub(super) steps: &'a mut Vec<Step>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct EventSource<'a> {
    pub(super) component: &'static str,
    pub(super) about: &'a Value,
}

impl<'a> Context<'a> {
    pub(super) fn children_of(&self, owner: &Value, kind: Kind) -> Vec<(&'a Key, &'a Value)> {
        let resource = kind.resource();
        let children = self.children.get(uid(owner)).into_iter().flatten();
        children
            .filter(|key| key.resource == resource)
            .filter_map(|key| Some((key, self.seen.snapshot.get(key)?.object())))
            .collect()
    }

    /// The objects of a kind without a controller that a selector matches.
    pub(super) fn orphans_of(&self, kind: Kind, selector: &Value) -> Vec<(&'a Key, &'a Value)> {
        let first = Key::new(&kind.resource(), &*self.key.namespace, "");
        self.orphans
            .range(&first..)
            .take_while(|key| key.resource == first.resource && key.namespace == first.namespace)
            .filter_map(|key| Some((key, self.seen.snapshot.get(key)?.object())))
            .filter(|(_, pod)| selector::matches(selector, &pod["metadata"]["labels"]))
            .collect()
    }

    pub(super) fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&'a Value> {
        let key = Key::new(&kind.resource(), namespace, name);
        self.seen.snapshot.get(&key).map(|entry| entry.object())
    }

    pub(super) fn has_lasted(&mut self, state: (&'static str, &str), wait: Duration) -> bool {
        self.alarms
            .has_lasted(self.key, state, wait, (self.seen.at, self.key))
    }

    pub(super) fn allows_pod_events(&mut self, count: usize) -> bool {
        self.pod_events.allows(count, self.seen.at)
    }

    /// Wakes this object at a time of the wall clock.
    pub(super) fn wake_at(&mut self, question: &'static str, time: jiff::Timestamp) {
        let wait = Duration::try_from(time.duration_since(self.seen.now)).unwrap_or_default();
        let state = time.to_string();
        let due = self.seen.at + wait;
        self.alarms.wake(self.key, (question, &state), due, self.seen.at);
    }

    /// Clears a question: asked again, it starts anew.
    pub(super) fn clear(&mut self, question: &'static str) {
        self.alarms.clear(self.key, question);
    }

    pub(super) fn available(&mut self, pod: &Value, min_ready: Duration) -> bool {
        if !is_ready(pod) || min_ready.is_zero() {
            return is_ready(pod);
        }
        let state = format!("{}/{}", uid(pod), condition_time(pod, "Ready"));
        let key = Key::new(&Kind::Pod.resource(), &*self.key.namespace, meta(pod, "name"));
        self.alarms
            .has_lasted(&key, ("ready", &state), min_ready, (self.seen.at, self.key))
    }

    pub(super) fn refusal(&mut self) -> Option<String> {
        match self.refusals.remove(self.key) {
            None => {
                self.clear("refused");
                self.clear("reported");
                None
            }
            Some(why) => self
                .has_lasted(("refused", "create"), REFUSAL_REPORT_DELAY)
                .then_some(why),
        }
    }

    pub(super) fn report_refusal(&mut self, by: EventSource<'_>, why: &str, message: &str) {
        if self.alarms.is_new(self.key, ("reported", why), self.seen.at) {
            let event = self.event(by, "Warning", "FailedCreate", message);
            self.step(vec![event]);
        }
    }

    pub(super) fn now(&self) -> Value {
        time(self.seen.now)
    }

    pub(super) fn selected_pods(&mut self) -> Vec<&'a Value> {
        self.selections.pods(self.key, self.seen.snapshot)
    }

    pub(super) fn step(&mut self, actions: Vec<Action>) {
        if !actions.is_empty() {
            self.steps.push(Step {
                about: self.key.clone(),
                actions,
            });
        }
    }

    pub(super) fn create(&self, kind: Kind, object: Value) -> Action {
        let key = Key::new(&kind.resource(), &*self.key.namespace, meta(&object, "name"));
        Action::Create {
            key,
            object,
            manager: MANAGER,
        }
    }

    pub(super) fn change(&self, key: &Key, object: &Value, mut patch: Value) -> Action {
        patch["metadata"]["uid"] = json!(uid(object));
        Action::Merge {
            key: key.clone(),
            endpoint: "",
            patch,
            manager: MANAGER,
        }
    }

    pub(super) fn status(&self, object: &Value, status: &Value) -> Option<Action> {
        let patch = difference(get(object, "status"), status)?;
        Some(self.status_patch(object, patch))
    }

    pub(super) fn status_patch(&self, object: &Value, patch: Value) -> Action {
        let manager = match Kind::of(&self.key.resource) {
            Some(Kind::Pod | Kind::Node) => KUBELET,
            _ => MANAGER,
        };
        let mut whole = json!({ "metadata": { "uid": uid(object) } });
        whole["status"] = patch;
        Action::Merge {
            key: self.key.clone(),
            endpoint: "status",
            patch: whole,
            manager,
        }
    }

    pub(super) fn delete(&self, key: &Key, object: &Value, propagation: Propagation) -> Action {
        Action::Delete {
            key: key.clone(),
            uid: uid(object).to_owned(),
            revision: None,
            propagation,
        }
    }

    pub(super) fn kill(&self, key: &Key, object: &Value) -> Action {
        Action::Kill {
            key: key.clone(),
            uid: uid(object).to_owned(),
        }
    }

    /// `kind`: `Normal` or `Warning`.
    pub(super) fn event(&mut self, by: EventSource<'_>, kind: &str, reason: &str, message: &str) -> Action {
        *self.events += 1;
        let (about, namespace) = (by.about, meta(by.about, "namespace"));
        let namespace = if namespace.is_empty() {
            "default"
        } else {
            namespace
        };
        let serial = self
            .seen
            .now
            .as_nanosecond()
            .wrapping_add(i128::from(*self.events));
        let name = format!("{}.{serial:x}", meta(about, "name"));
        let mut involved = json!({
            "kind": text(about, "kind"), "apiVersion": text(about, "apiVersion"),
            "namespace": meta(about, "namespace"), "name": meta(about, "name"),
            "uid": uid(about), "resourceVersion": meta(about, "resourceVersion"),
        });
        if meta(about, "namespace").is_empty()
            && let Some(involved) = involved.as_object_mut()
        {
            involved.remove("namespace");
        }
        let mut source = json!({ "component": by.component });
        let mut instance = "";
        if by.component == KUBELET {
            source["host"] = json!(NODE);
            instance = NODE;
        }
        let now = self.now();
        let object = json!({
            "kind": "Event", "apiVersion": "v1",
            "metadata": { "name": name, "namespace": namespace },
            "involvedObject": involved,
            "reason": reason, "message": message, "type": kind,
            "source": source, "reportingComponent": by.component, "reportingInstance": instance,
            "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        });
        Action::Create {
            key: Key::new(&crate::store::ResourceId::new("", "events"), namespace, name),
            object,
            manager: MANAGER,
        }
    }
}

/// A time as objects carry it.
pub(super) fn time(at: jiff::Timestamp) -> Value {
    json!(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// The merge patch from one value to another; `None` if they are equal. Absent and `null` are the same.
pub(super) fn difference(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return (!same(old, new)).then(|| new.clone());
    };
    let mut patch = Map::new();
    for (name, value) in after {
        if let Some(change) = difference(before.get(name).unwrap_or(&Value::Null), value) {
            patch.insert(name.clone(), change);
        }
    }
    for (name, _) in before
        .iter()
        .filter(|(n, v)| !v.is_null() && !after.contains_key(*n))
    {
        patch.insert(name.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn same(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let covers = |a: &Map<String, Value>, b: &Map<String, Value>| {
                a.iter()
                    .all(|(name, value)| same(value, b.get(name).unwrap_or(&Value::Null)))
            };
            covers(old, new) && covers(new, old)
        }
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new))
        }
        (old, new) => old == new,
    }
}

pub(super) fn set_count(status: &mut Value, name: &str, count: usize) {
    if count > 0 {
        status[name] = json!(count);
    }
}

pub(super) fn wanted(object: &Value, path: &str, default: usize) -> usize {
    int(object, path).map_or(default, |n| usize::try_from(n).unwrap_or(0))
}

pub(super) fn seconds(object: &Value, path: &str) -> Duration {
    let seconds = int(object, path).and_then(|n| u64::try_from(n).ok());
    Duration::from_secs(seconds.unwrap_or(0))
}

pub(super) fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    let conditions = get(object, "status.conditions").as_array()?;
    conditions.iter().find(|c| c["type"] == kind)
}

fn condition_time<'v>(object: &'v Value, kind: &str) -> &'v str {
    condition(object, kind).map_or("", |c| text(c, "lastTransitionTime"))
}

pub(super) fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|c| c["status"] == "True")
}

/// Whether a pod counts: neither ended nor being deleted.
pub(super) fn is_active(pod: &Value) -> bool {
    let phase = get(pod, "status.phase");
    !deleting(pod) && phase != "Succeeded" && phase != "Failed"
}

/// A short text that depends on all parts and looks like one of upstream's hashes.
pub(super) fn digest(parts: &[&str], length: usize) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let bytes = hash.finalize();
    let letter = |b: &u8| char::from(ALPHABET[usize::from(*b) % ALPHABET.len()]);
    bytes.iter().take(length).map(letter).collect()
}

pub(super) fn controller_reference(owner: &Value) -> Value {
    json!([{
        "apiVersion": text(owner, "apiVersion"), "kind": text(owner, "kind"),
        "name": meta(owner, "name"), "uid": uid(owner),
        "controller": true, "blockOwnerDeletion": true,
    }])
}

pub(super) fn pod_of(owner: &Value, template: &Value, name: &str) -> Value {
    let mut metadata = json!({
        "name": name, "namespace": meta(owner, "namespace"), "ownerReferences": controller_reference(owner),
    });
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"] })
}

/// That many unused names `OWNER-xxxxx`, the same for the same owner.
pub(super) fn free_names(cx: &Context<'_>, owner: &str, count: usize) -> Vec<String> {
    // As upstream's generated names, which fit a label.
    let base: String = owner.chars().take(57).collect();
    let free = |n: usize| {
        let name = format!(
            "{base}-{}",
            digest(&[&cx.key.namespace, owner, &n.to_string()], 5)
        );
        cx.get(Kind::Pod, &cx.key.namespace, &name)
            .is_none()
            .then_some(name)
    };
    (0..).filter_map(free).take(count).collect()
}
