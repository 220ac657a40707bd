//! The dependencies of all owners at one moment: a search of them may take long and holds no lock.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::declaration::Declaration;
use crate::ObjectRef;

/// A clone costs a counter; a change copies the map while a clone exists.
#[derive(Debug, Clone, Default)]
pub struct Dependencies(Arc<HashMap<ObjectRef, Arc<BTreeSet<ObjectRef>>>>);

impl Dependencies {
    /// The dependencies of an owner.
    pub fn of<'a>(&'a self, owner: &ObjectRef) -> impl Iterator<Item = &'a ObjectRef> + use<'a> {
        self.0.get(owner).into_iter().flat_map(|found| found.iter())
    }

    /// The number of owners with dependencies.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no owner has dependencies.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn set(&mut self, owner: &ObjectRef, now: Option<&Declaration>) {
        let now = now.map(|now| &now.depends_on).filter(|found| !found.is_empty());
        if self.0.get(owner).map(|found| &**found) == now {
            return;
        }
        let all = Arc::make_mut(&mut self.0);
        match now {
            Some(now) => drop(all.insert(owner.clone(), Arc::new(now.clone()))),
            None => drop(all.remove(owner)),
        }
    }
}
