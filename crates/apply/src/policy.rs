//! The annotations and labels of an object that control apply and prune.
//!
//! As in Flux, labels and annotations count alike and values ignore case (`pkg/ssa/utils/meta.go`).

use equate_manifest::object::Object;
use serde_json::Value;
use std::fmt;

const PREFIX: &str = "kustomize.toolkit.fluxcd.io";

/// `kustomize.toolkit.fluxcd.io/ssa`: the mode of apply.
///
/// As in Flux, every mode that writes forces conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Takes over fields that `kubectl` set, so that those not in git are removed.
    #[default]
    Override,
    /// Keeps fields that others set and git does not have, also `kubectl`'s.
    Merge,
    /// Creates the object if it does not exist, and never changes it. It is still pruned.
    IfNotPresent,
    /// Neither applied nor pruned.
    Ignore,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Override => "Override",
            Self::Merge => "Merge",
            Self::IfNotPresent => "IfNotPresent",
            Self::Ignore => "Ignore",
        })
    }
}

/// The policy of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The mode of apply.
    pub mode: Mode,
    /// `force: Enabled`: recreate when a change is refused.
    pub force: bool,
    /// Whether it may be pruned; false with `prune: Disabled`.
    pub prune: bool,
    /// Whether it is reconciled; false with `reconcile: disabled`.
    pub reconcile: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            force: false,
            prune: true,
            reconcile: true,
        }
    }
}

impl Policy {
    /// Reads labels and annotations. As in Flux, unknown values are ignored.
    pub fn of(object: &Object) -> Policy {
        let says = |key: &str, value: &str| {
            let key = format!("{PREFIX}/{key}");
            ["labels", "annotations"].iter().any(|place| {
                let found = object
                    .metadata()
                    .and_then(|m| m.get(*place))
                    .and_then(|m| m.get(&key));
                found
                    .and_then(Value::as_str)
                    .is_some_and(|v| v.eq_ignore_ascii_case(value))
            })
        };
        // in Flux's order, so that contradictions have the same result
        let mode = [Mode::Ignore, Mode::IfNotPresent, Mode::Merge]
            .into_iter()
            .find(|mode| says("ssa", &mode.to_string()))
            .unwrap_or_default();
        Policy {
            mode,
            force: says("force", "Enabled"),
            prune: !says("prune", "Disabled"),
            reconcile: !says("reconcile", "disabled"),
        }
    }

    /// Whether the object is left alone altogether.
    pub fn ignored(self) -> bool {
        !self.reconcile || self.mode == Mode::Ignore
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn labels_and_annotations_are_read() {
        let check = |labels: Value, annotations: Value, expected: Policy| {
            let object = json!({ "metadata": { "labels": labels, "annotations": annotations } });
            assert_eq!(Policy::of(&Object::from_value(object).unwrap()), expected);
        };
        let key = |key: &str, value: &str| json!({ format!("kustomize.toolkit.fluxcd.io/{key}"): value });
        let default = Policy::default();
        let mode = |mode| Policy { mode, ..default };
        let nothing = json!({});
        check(nothing.clone(), nothing.clone(), default);
        check(Value::Null, Value::Null, default);
        check(nothing.clone(), key("ssa", "Override"), default);
        check(nothing.clone(), key("ssa", "merge"), mode(Mode::Merge));
        check(
            key("ssa", "IfNotPresent"),
            nothing.clone(),
            mode(Mode::IfNotPresent),
        );
        check(key("ssa", "Merge"), key("ssa", "Ignore"), mode(Mode::Ignore));
        check(nothing.clone(), key("ssa", "sometimes"), default);
        check(
            nothing.clone(),
            key("force", "enabled"),
            Policy {
                force: true,
                ..default
            },
        );
        check(nothing.clone(), key("force", "true"), default);
        check(
            key("prune", "Disabled"),
            nothing.clone(),
            Policy {
                prune: false,
                ..default
            },
        );
        check(
            nothing,
            key("reconcile", "Disabled"),
            Policy {
                reconcile: false,
                ..default
            },
        );
    }
}
