//! Which objects read which sources, for kinds that apply nothing: a change of a source wakes its readers.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::SourceEvent;
use crate::ObjectRef;

#[derive(Debug, Default)]
pub(crate) struct SourceReaders {
    // a few map operations
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    by_source: HashMap<ObjectRef, BTreeSet<ObjectRef>>,
    sources: HashMap<ObjectRef, BTreeSet<ObjectRef>>,
}

impl SourceReaders {
    /// Replaces the sources of a reader; none if it is gone.
    pub(crate) fn set(&self, reader: &ObjectRef, sources: BTreeSet<ObjectRef>) {
        let mut state = self.state();
        let State {
            by_source,
            sources: known,
        } = &mut *state;
        let before = known.remove(reader).unwrap_or_default();
        for gone in before.difference(&sources) {
            let empty = by_source.get_mut(gone).is_some_and(|readers| {
                readers.remove(reader);
                readers.is_empty()
            });
            if empty {
                by_source.remove(gone);
            }
        }
        for new in sources.difference(&before) {
            by_source.entry(new.clone()).or_default().insert(reader.clone());
        }
        if !sources.is_empty() {
            known.insert(reader.clone(), sources);
        }
    }

    /// The readers to wake after an event.
    pub(crate) fn of(&self, event: &SourceEvent) -> Vec<ObjectRef> {
        let state = self.state();
        match event {
            SourceEvent::Artifact { source, .. } => {
                let readers = state.by_source.get(source);
                readers.into_iter().flatten().cloned().collect()
            }
            SourceEvent::Kind(kind) => {
                let all = state.by_source.iter();
                let readers = all.filter(|(source, _)| source.kind == *kind);
                readers.flat_map(|(_, readers)| readers.iter().cloned()).collect()
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_has_the_sources_that_it_was_given_last() {
        let readers = SourceReaders::default();
        let source = |name: &str| ObjectRef::new("GitRepository", "a", name);
        let reader = ObjectRef::new("HelmChart", "a", "app");
        let woken = |name: &str| {
            let event = SourceEvent::Artifact {
                source: source(name),
                gone: false,
            };
            readers.of(&event).len()
        };
        readers.set(&reader, BTreeSet::from([source("one"), source("two")]));
        assert_eq!((woken("one"), woken("two")), (1, 1));
        readers.set(&reader, BTreeSet::from([source("two")]));
        assert_eq!((woken("one"), woken("two")), (0, 1));
        assert_eq!(
            readers.of(&SourceEvent::Kind("GitRepository")),
            std::slice::from_ref(&reader)
        );
        assert!(readers.of(&SourceEvent::Kind("Bucket")).is_empty());
        readers.set(&reader, BTreeSet::new());
        assert_eq!(woken("two"), 0);
        let state = readers.state();
        assert!(state.by_source.is_empty() && state.sources.is_empty());
    }
}
