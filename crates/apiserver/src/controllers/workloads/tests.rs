//! The arithmetic and the small decisions. `testkit/tests/it/workloads.rs` runs whole scenarios through the
//! API.

use super::context::difference;
use super::rollout::{Margin, Part, Size, new_size, old_sizes, scaled};
use super::{KINDS, Kind, RECONCILES_MAX, Simulation, Workloads};
use crate::controllers::{Controller, Seen};
use crate::store::{Change, Expect, Key, Store};
use serde_json::{Value, json};
use tokio::time::Instant;

#[test]
fn kinds_are_in_table_order() {
    for (index, (group, plural, _, kind)) in KINDS.into_iter().enumerate() {
        assert_eq!(kind as usize, index, "{plural}");
        let resource = kind.resource();
        assert_eq!((resource.group(), resource.plural()), (group, plural));
    }
}

#[test]
fn surge_and_unavailable_are_resolved() {
    let check = |strategy: Value, wanted: usize, surge: usize, unavailable: usize| {
        let deployment = json!({ "spec": { "strategy": strategy } });
        let expected = Margin { surge, unavailable };
        assert_eq!(
            Margin::of(&deployment, wanted),
            expected,
            "{strategy} of {wanted}"
        );
    };
    let rolling = |surge: Value, unavailable: Value| {
        let limits = json!({ "maxSurge": surge, "maxUnavailable": unavailable });
        json!({ "type": "RollingUpdate", "rollingUpdate": limits })
    };
    check(rolling(json!("25%"), json!("25%")), 2, 1, 0);
    check(rolling(json!("25%"), json!("25%")), 4, 1, 1);
    check(rolling(json!("25%"), json!("25%")), 10, 3, 2);
    check(rolling(json!(2), json!(0)), 3, 2, 0);
    check(rolling(json!(0), json!("100%")), 3, 0, 3);
    check(rolling(json!(0), json!(9)), 3, 0, 3);
    // Both zero would never progress.
    check(rolling(json!(0), json!(0)), 3, 0, 1);
    check(rolling(json!(0), json!("10%")), 3, 0, 1);
    check(json!({ "type": "Recreate" }), 3, 0, 0);
}

/// A rollout until it ends, all pods being available after each step; one line a step.
fn rolled(wanted: usize, start: &[usize], margin: Margin) -> Vec<String> {
    let mut old: Vec<usize> = start.to_vec();
    let (mut new, mut lines) = (0, Vec::new());
    loop {
        let before = (new, old.clone());
        let all = new + old.iter().sum::<usize>();
        let grown = new_size(wanted, new, all, margin);
        if grown == new {
            let size = |replicas: usize| Size {
                replicas,
                available: replicas,
            };
            let sizes: Vec<Size> = old.iter().map(|n| size(*n)).collect();
            old = old_sizes(wanted, size(new), &sizes, margin);
        }
        new = grown;
        if (new, &old) == (before.0, &before.1) {
            return lines;
        }
        let total = new + old.iter().sum::<usize>();
        assert!(
            total <= wanted.max(start.iter().sum()) + margin.surge,
            "too many: {lines:?}"
        );
        assert!(total + margin.unavailable >= wanted, "too few: {lines:?}");
        lines.push(format!("{new} new, {old:?} old"));
    }
}

#[test]
fn rollout_proceeds_in_steps() {
    let margin = |surge, unavailable| Margin { surge, unavailable };
    assert_eq!(
        rolled(2, &[2], margin(1, 0)),
        [
            "1 new, [2] old",
            "1 new, [1] old",
            "2 new, [1] old",
            "2 new, [0] old"
        ]
    );
    assert_eq!(
        rolled(3, &[3], margin(0, 1)),
        [
            "0 new, [2] old",
            "1 new, [2] old",
            "1 new, [1] old",
            "2 new, [1] old",
            "2 new, [0] old",
            "3 new, [0] old",
        ]
    );
    assert_eq!(
        rolled(4, &[1, 3], margin(4, 0)),
        ["4 new, [1, 3] old", "4 new, [0, 0] old"]
    );
    assert_eq!(rolled(0, &[2], margin(1, 1)), ["0 new, [0] old"]);
}

#[test]
fn unavailable_pods_are_removed_first() {
    let size = |replicas, available| Size { replicas, available };
    let margin = Margin {
        surge: 1,
        unavailable: 1,
    };
    let old = [size(2, 0), size(2, 2)];
    assert_eq!(old_sizes(4, size(1, 0), &old, margin), [1, 2]);
    // A broken rollout stops at maxUnavailable.
    let old = [size(4, 4)];
    assert_eq!(old_sizes(4, size(2, 0), &old, margin), [3]);
    assert_eq!(old_sizes(4, size(2, 0), &[size(3, 3)], margin), [3]);
}

#[test]
fn differences_are_merge_patches() {
    let check = |old: Value, new: Value, expected: Value| {
        let found = difference(&old, &new).unwrap_or(Value::Null);
        assert_eq!(found, expected, "{old} to {new}");
    };
    check(json!({}), json!({ "a": 1 }), json!({ "a": 1 }));
    check(json!({ "a": 1 }), json!({}), json!({ "a": null }));
    check(json!({ "a": 1 }), json!({ "a": 1 }), Value::Null);
    check(
        json!({ "a": { "b": 1, "c": 2 } }),
        json!({ "a": { "b": 2 } }),
        json!({ "a": { "b": 2, "c": null } }),
    );
    check(
        json!({ "a": [1, 2] }),
        json!({ "a": [1, 3] }),
        json!({ "a": [1, 3] }),
    );
    check(json!(null), json!({ "a": 1 }), json!({ "a": 1 }));
    // Absent and null are the same.
    check(json!({ "a": null }), json!({}), Value::Null);
    check(json!({}), json!({ "a": null }), Value::Null);
    check(json!([{ "a": 1 }]), json!([{ "a": 1, "b": null }]), Value::Null);
}

#[test]
fn a_scale_during_a_rollout_keeps_the_shares() {
    let check = |wanted: usize, parts: &[(usize, usize)], surge: usize, expected: &[usize]| {
        let parts: Vec<Part> = parts
            .iter()
            .map(|&(replicas, most_before)| Part {
                replicas,
                most_before: Some(most_before),
            })
            .collect();
        let pods = parts.iter().map(|part| part.replicas).sum();
        let margin = Margin {
            surge,
            unavailable: 0,
        };
        assert_eq!(
            scaled(wanted, &parts, pods, margin),
            expected,
            "{wanted} of {parts:?}"
        );
    };
    // The example of Kubernetes' documentation: 10 with a surge of 3, scaled to 15.
    check(15, &[(8, 13), (5, 13)], 3, &[11, 7]);
    check(30, &[(8, 13), (5, 13)], 3, &[20, 13]);
    check(5, &[(8, 13), (5, 13)], 3, &[5, 3]);
    check(0, &[(8, 13), (5, 13)], 3, &[0, 0]);
    check(10, &[(8, 13), (5, 13)], 3, &[8, 5]);
}

#[tokio::test]
async fn reconciles_without_steps_are_bounded_too() {
    let store = Store::in_memory();
    let volume = |n: usize| Change::Put {
        key: Key::new(&Kind::Volume.resource(), "", format!("v{n}")),
        object: json!({ "metadata": { "name": format!("v{n}") }, "status": { "phase": "Available" } }),
        expect: Expect::Absent,
    };
    let count = 2 * RECONCILES_MAX;
    store.commit((0..count).map(volume).collect()).await.unwrap();
    let snapshot = store.snapshot();
    let (at, now) = (Instant::now(), jiff::Timestamp::UNIX_EPOCH);
    let seen = Seen {
        snapshot: &snapshot,
        at,
        now,
        served: &|_, _| None,
    };
    let mut workloads = Workloads::new(Simulation::default());
    workloads.resync(&snapshot, at, now);
    // One more: the node.
    for left in [RECONCILES_MAX + 1, 1, 0] {
        workloads.decide(&seen);
        assert_eq!(workloads.dirty.len(), left);
        // The rest is due at once, though no step was taken.
        assert_eq!(workloads.due(), (left > 0).then_some(at));
    }
}
