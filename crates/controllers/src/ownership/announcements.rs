//! Which owner waits for the announcements of which others. Pure.
//!
//! Each build of an owner announces its desired objects. An owner that prunes makes a *survey* of these
//! announcements first and waits for the missing ones.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::desired::Watched;
use super::relations::Relation;
use super::survey::Survey;
use crate::ObjectRef;
use crate::kit::wake::Reason;

const TIMEOUTS: usize = 8;

/// The input of a build: the owner's generation and the artifact's digest.
pub(crate) type BuiltFrom = (i64, String);

#[derive(Debug)]
struct KeptSurvey {
    version: u64,
    timeout: Duration,
    artifact: Option<String>,
    survey: Arc<Survey>,
}

#[derive(Debug, Default)]
pub(crate) struct Announcements {
    watched: HashMap<ObjectRef, Watched>,
    /// The reverse of `watched`.
    listeners: Relation<ObjectRef>,
    /// The last surveys for the readers of a source, one per timeout.
    surveys: HashMap<ObjectRef, Vec<KeptSurvey>>,
    /// Increases with every change that may change a survey.
    version: u64,
    awaited: HashMap<ObjectRef, (BuiltFrom, Instant)>,
    unreached: HashMap<ObjectRef, BuiltFrom>,
    checked_sources: HashSet<ObjectRef>,
}

impl Announcements {
    /// Replaces the owners whose announcements wake `key`.
    pub(crate) fn watch(&mut self, key: &ObjectRef, watched: Watched) {
        if let Some(before) = self.watched.remove(key) {
            self.listeners.unlink(&before.of, key);
        }
        self.listeners.link(&watched.of, key);
        if !watched.is_empty() {
            self.watched.insert(key.clone(), watched);
        }
    }

    /// The last deadline of the owners that `key` waits for.
    pub(crate) fn waits_until(&self, key: &ObjectRef) -> Option<Instant> {
        self.watched.get(key).and_then(|watched| watched.until)
    }

    pub(super) fn listeners_of(&self, of: &ObjectRef) -> impl Iterator<Item = (ObjectRef, Reason)> {
        let listening = self.listeners.of(of);
        listening.map(|key| (key.clone(), Reason::Dependency))
    }

    /// Ends the wait for an owner that announced its objects or never will. Returns the owners to wake.
    pub(crate) fn announced(&mut self, of: &ObjectRef) -> Vec<(ObjectRef, Reason)> {
        self.stop_awaiting(of);
        self.listeners_of(of).collect()
    }

    /// The cached survey for the readers of a source. It is valid while nothing changes, or while the
    /// owner that it waits for has not announced anything.
    pub(crate) fn kept_survey(
        &self,
        source: &ObjectRef,
        timeout: Duration,
        artifact: Option<&str>,
    ) -> Option<Arc<Survey>> {
        let mut all = self.surveys.get(source)?.iter();
        let kept = all.find(|kept| kept.timeout == timeout)?;
        if kept.artifact.as_deref() != artifact {
            return None;
        }
        let unannounced = || {
            let (key, since) = kept.survey.waits_for()?;
            Some(self.is_unannounced(key, since))
        };
        (kept.version == self.version || unannounced() == Some(true)).then(|| Arc::clone(&kept.survey))
    }

    pub(crate) fn keep_survey(
        &mut self,
        source: ObjectRef,
        timeout: Duration,
        artifact: Option<String>,
        survey: Arc<Survey>,
    ) {
        let kept = KeptSurvey {
            version: self.version,
            timeout,
            artifact,
            survey,
        };
        let all = self.surveys.entry(source).or_default();
        all.retain(|other| other.timeout != timeout);
        if all.len() == TIMEOUTS {
            all.remove(0);
        }
        all.push(kept);
    }

    pub(crate) fn outdate_surveys(&mut self) {
        self.version += 1;
    }

    /// Drops all surveys, also those that wait for an owner without an announcement.
    pub(super) fn forget_surveys(&mut self) {
        self.outdate_surveys();
        self.surveys.clear();
    }

    /// Whether an owner that is awaited since then has not announced anything.
    pub(crate) fn is_unannounced(&self, key: &ObjectRef, since: Instant) -> bool {
        self.awaited.get(key).is_some_and(|(_, known)| *known == since)
    }

    pub(super) fn is_awaited(&self, key: &ObjectRef) -> bool {
        self.awaited.contains_key(key)
    }

    /// The start of the wait for the announcement from this build: now, if this is the first wait.
    pub(crate) fn awaited_since(&mut self, key: &ObjectRef, from: BuiltFrom, now: Instant) -> Instant {
        match self.awaited.get(key) {
            Some((known, since)) if *known == from => *since,
            _ => {
                self.awaited.insert(key.clone(), (from, now));
                now
            }
        }
    }

    pub(super) fn stop_awaiting(&mut self, key: &ObjectRef) {
        self.awaited.remove(key);
    }

    pub(super) fn built(&mut self, key: &ObjectRef) {
        self.stop_awaiting(key);
        self.unreached.remove(key);
    }

    /// Notes that a build failed because the API server did not answer. Returns whether that is new.
    pub(super) fn unreached(&mut self, key: &ObjectRef, from: BuiltFrom) -> bool {
        if self.unreached.get(key) == Some(&from) {
            return false;
        }
        self.outdate_surveys();
        self.unreached.insert(key.clone(), from);
        true
    }

    pub(crate) fn is_unreached(&self, key: &ObjectRef, generation: i64, artifact: &str) -> bool {
        let from = self.unreached.get(key);
        from.is_some_and(|(of, from)| *of == generation && from == artifact)
    }

    /// Notes that this process fetched a source, so its status is current. Returns whether that is new.
    pub(super) fn source_checked(&mut self, source: &ObjectRef) -> bool {
        let new = self.checked_sources.insert(source.clone());
        if new {
            self.outdate_surveys();
        }
        new
    }

    pub(crate) fn is_source_checked(&self, source: &ObjectRef) -> bool {
        self.checked_sources.contains(source)
    }

    pub(super) fn forget_surveys_of(&mut self, source: &ObjectRef) {
        self.surveys.remove(source);
    }

    /// Forgets a deleted source. A new one of the same name has to be fetched again.
    pub(crate) fn forget_source(&mut self, source: &ObjectRef) {
        self.outdate_surveys();
        self.surveys.remove(source);
        self.checked_sources.remove(source);
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.watched.is_empty() && self.listeners.iter().next().is_none() && self.surveys.is_empty()
    }

    pub(super) fn forget(&mut self, key: &ObjectRef) {
        self.watch(key, Watched::default());
        self.built(key);
    }
}
