//! The object rules of all owners, by kind: one watch serves several controllers, and each registers the
//! rules of its owners.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use equate_apply::health::Health;
use equate_apply::owner::Owner;
use equate_apply::pointer::Pointer;
use equate_apply::rules::{OwnerRules, Stamp};
use equate_manifest::object::Object;

/// A kind without rules has the default ones.
#[derive(Debug, Default)]
pub(crate) struct RulesByKind {
    // a lookup for each event; written once for each controller
    rules: RwLock<BTreeMap<&'static str, Arc<dyn OwnerRules>>>,
}

impl RulesByKind {
    pub(crate) fn register(&self, kind: &'static str, rules: Arc<dyn OwnerRules>) {
        let mut all = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(kind, rules);
    }

    fn of(&self, owner: &Owner) -> Option<Arc<dyn OwnerRules>> {
        let all = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        all.get(owner.kind.kind).cloned()
    }
}

impl OwnerRules for RulesByKind {
    fn stamp(&self, owner: &Owner) -> Stamp {
        self.of(owner).map_or(0, |rules| rules.stamp(owner))
    }

    fn ignored(&self, owner: &Owner, object: &Object) -> Vec<Pointer> {
        self.of(owner)
            .map(|rules| rules.ignored(owner, object))
            .unwrap_or_default()
    }

    fn judge(&self, owner: &Owner, object: &Object) -> Option<Health> {
        self.of(owner)?.judge(owner, object)
    }
}
