//! Indexes of the claims and volumes that may be bound to each other, and of the pods that use claims.
//!
//! Events keep them, so that a decision reads its candidates and nothing else, however many there are. The
//! snapshot of a decision is newer: it has the last word.

use super::Kind;
use crate::builtin::admission::storage_class;
use crate::builtin::quantity;
use crate::builtin::tree::{get, has, items, text};
use crate::controllers::object::deleting;
use crate::store::Key;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// A capacity, `None` if unknown, and the name of its volume.
type Sized = (Option<i128>, String);

#[derive(Debug, Default)]
pub(super) struct Bindings {
    /// Claims, by the volume that they name.
    claims: HashMap<String, BTreeSet<Key>>,
    /// Volumes, by the claim that they name.
    reserved: HashMap<Key, BTreeSet<String>>,
    /// Volumes that name no claim, by class.
    free: HashMap<String, BTreeSet<Sized>>,
    /// Pods, by the claim that they use.
    users: HashMap<Key, BTreeSet<Key>>,
    /// Volumes that this round binds; its snapshot shows them as free.
    taken: BTreeSet<String>,
}

fn replace<K: Hash + Eq, V: Ord>(
    index: &mut HashMap<K, BTreeSet<V>>,
    old: Option<(K, V)>,
    new: Option<(K, V)>,
) {
    if old == new {
        return;
    }
    if let Some((place, value)) = old
        && let Some(values) = index.get_mut(&place)
    {
        values.remove(&value);
        if values.is_empty() {
            index.remove(&place);
        }
    }
    if let Some((place, value)) = new {
        index.entry(place).or_default().insert(value);
    }
}

fn claim_of(volume: &Value) -> Option<Key> {
    let reference = get(volume, "spec.claimRef");
    let (namespace, name) = (text(reference, "namespace"), text(reference, "name"));
    (!reference.is_null()).then(|| Key::new(&Kind::Claim.resource(), namespace, name))
}

/// The names of the claims that a pod uses until it ends.
pub(super) fn claims_of(pod: &Value) -> impl Iterator<Item = &str> {
    let has_ended = matches!(text(pod, "status.phase"), "Succeeded" | "Failed");
    let volumes = items(pod, "spec.volumes").iter().filter(move |_| !has_ended);
    let names = volumes.map(|volume| text(volume, "persistentVolumeClaim.claimName"));
    names.filter(|name| !name.is_empty())
}

fn capacity(volume: &Value) -> Option<i128> {
    quantity::nano(text(volume, "spec.capacity.storage"))
}

impl Bindings {
    pub(super) fn claim_changed(&mut self, claim: &Key, before: Option<&Value>, after: Option<&Value>) {
        let place = |object: &Value| {
            let volume = text(object, "spec.volumeName");
            (!volume.is_empty()).then(|| (volume.to_owned(), claim.clone()))
        };
        replace(&mut self.claims, before.and_then(place), after.and_then(place));
    }

    /// Returns the claims that the pod leaves.
    pub(super) fn pod_changed(
        &mut self,
        pod: &Key,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> Vec<Key> {
        let used = |object: &Value| -> BTreeSet<Key> {
            let claim = |name| Key::new(&Kind::Claim.resource(), &*pod.namespace, name);
            claims_of(object).map(claim).collect()
        };
        let (old, new) = (before.map(used), after.map(used));
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        let left: Vec<Key> = old.difference(&new).cloned().collect();
        for claim in &left {
            replace(&mut self.users, Some((claim.clone(), pod.clone())), None);
        }
        for claim in new.difference(&old) {
            replace(&mut self.users, None, Some((claim.clone(), pod.clone())));
        }
        left
    }

    /// The pods that use a claim.
    pub(super) fn users(&self, claim: &Key) -> impl Iterator<Item = &Key> {
        self.users.get(claim).into_iter().flatten()
    }

    /// Returns the claims that the change may let bind.
    pub(super) fn volume_changed(
        &mut self,
        volume: &Key,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> Vec<Key> {
        let name = || volume.name.clone();
        let reserved = |object: &Value| Some((claim_of(object)?, name()));
        replace(
            &mut self.reserved,
            before.and_then(reserved),
            after.and_then(reserved),
        );
        let free = |object: &Value| {
            let is_free = !has(object, "spec.claimRef");
            is_free.then(|| (storage_class(object).to_owned(), (capacity(object), name())))
        };
        replace(&mut self.free, before.and_then(free), after.and_then(free));
        match after.filter(|object| !deleting(object)) {
            None => Vec::new(),
            Some(object) => match claim_of(object) {
                None => self.naming(&volume.name).cloned().collect(),
                Some(claim) if text(object, "spec.claimRef.uid").is_empty() => vec![claim],
                Some(_) => Vec::new(),
            },
        }
    }

    /// The claims that name a volume.
    fn naming(&self, volume: &str) -> impl Iterator<Item = &Key> {
        self.claims.get(volume).into_iter().flatten()
    }

    /// The names of the volumes that name a claim.
    pub(super) fn reserved_for(&self, claim: &Key) -> impl Iterator<Item = &String> {
        self.reserved.get(claim).into_iter().flatten()
    }

    /// The names of the volumes of a class that no claim has, smallest first.
    pub(super) fn free(&self, class: &str, least: Option<i128>) -> impl Iterator<Item = &String> {
        let volumes = self.free.get(class).into_iter();
        volumes
            .flat_map(move |volumes| volumes.range((least, String::new())..))
            .map(|(_, name)| name)
            .filter(|name| !self.taken.contains(*name))
    }

    pub(super) fn take(&mut self, volume: &str) {
        self.taken.insert(volume.to_owned());
    }

    /// Ends a round: what it bound is in the next snapshot, unless the API refused it.
    pub(super) fn end_round(&mut self) {
        self.taken.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn key(kind: Kind, name: &str) -> Key {
        let namespace = if kind == Kind::Claim { "wl" } else { "" };
        Key::new(&kind.resource(), namespace, name)
    }

    fn volume(class: &str, size: &str, reference: &Value) -> Value {
        json!({ "spec": {
            "storageClassName": class, "capacity": { "storage": size }, "claimRef": reference,
        } })
    }

    fn free<'b>(bindings: &'b Bindings, class: &str, least: &str) -> Vec<&'b str> {
        let names = bindings.free(class, quantity::nano(least));
        names.map(String::as_str).collect()
    }

    #[test]
    fn only_candidates_are_read() {
        let mut bindings = Bindings::default();
        for n in 0..1000 {
            let (disk, claim) = (
                key(Kind::Volume, &format!("v{n}")),
                key(Kind::Claim, &format!("c{n}")),
            );
            let of = json!({ "spec": { "volumeName": disk.name } });
            bindings.claim_changed(&claim, None, Some(&of));
            let other = volume("other", "5Gi", &Value::Null);
            assert_eq!(bindings.volume_changed(&disk, None, Some(&other)), [claim]);
        }
        for (name, size) in [
            ("large", "9Gi"),
            ("small", "1Gi"),
            ("fit", "5Gi"),
            ("also", "5Gi"),
        ] {
            let disk = volume("manual", size, &Value::Null);
            bindings.volume_changed(&key(Kind::Volume, name), None, Some(&disk));
        }
        assert_eq!(free(&bindings, "manual", "4Gi"), ["also", "fit", "large"]);
        bindings.take("also");
        assert_eq!(free(&bindings, "manual", "4Gi"), ["fit", "large"]);
        bindings.end_round();
        assert_eq!(free(&bindings, "manual", "6Gi"), ["large"]);
        assert!(free(&bindings, "absent", "1Gi").is_empty());
    }

    #[test]
    fn pods_use_claims_until_they_end() {
        let mut bindings = Bindings::default();
        let pod = |name: &str| Key::new(&Kind::Pod.resource(), "wl", name);
        let data = key(Kind::Claim, "data");
        let running = |claim: &str| {
            let volumes = json!([{ "persistentVolumeClaim": { "claimName": claim } }, { "emptyDir": {} }]);
            json!({ "spec": { "volumes": volumes } })
        };
        let mut ended = running("data");
        ended["status"]["phase"] = json!("Succeeded");
        for n in 0..1000 {
            bindings.pod_changed(
                &pod(&format!("p{n}")),
                None,
                Some(&running(&format!("other-{n}"))),
            );
        }
        for name in ["a", "b"] {
            assert!(
                bindings
                    .pod_changed(&pod(name), None, Some(&running("data")))
                    .is_empty()
            );
        }
        assert_eq!(bindings.users(&data).count(), 2);
        let left = bindings.pod_changed(&pod("a"), Some(&running("data")), Some(&ended));
        assert_eq!((left, bindings.users(&data).count()), (vec![data.clone()], 1));
        let left = bindings.pod_changed(&pod("b"), Some(&running("data")), None);
        assert_eq!((left, bindings.users(&data).count()), (vec![data.clone()], 0));
    }

    #[test]
    fn a_volume_leaves_its_old_place() {
        let mut bindings = Bindings::default();
        let (disk, data) = (key(Kind::Volume, "disk"), key(Kind::Claim, "data"));
        let named = json!({ "namespace": "wl", "name": "data" });
        let mut bound = named.clone();
        bound["uid"] = json!("u");
        let steps = [
            (volume("", "1Gi", &Value::Null), 1, 0, 0),
            (volume("", "1Gi", &named), 0, 1, 1),
            (volume("", "1Gi", &bound), 0, 1, 0),
        ];
        let mut before = None;
        for (after, expected_free, expected_reserved, expected_woken) in steps {
            let woken = bindings.volume_changed(&disk, before.as_ref(), Some(&after));
            assert_eq!(free(&bindings, "", "1Gi").len(), expected_free, "{after}");
            assert_eq!(bindings.reserved_for(&data).count(), expected_reserved, "{after}");
            assert_eq!(woken.len(), expected_woken, "{after}");
            before = Some(after);
        }
        bindings.volume_changed(&disk, before.as_ref(), None);
        assert!(bindings.reserved.is_empty() && bindings.free.is_empty());
    }
}
