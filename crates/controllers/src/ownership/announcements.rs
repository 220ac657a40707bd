//! Who waits to learn what others want, and since when: pure.
//!
//! An owner announces what it wants with each build. Another that is about to delete surveys these
//! announcements, and waits for those that are missing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::desired::Watched;
use super::relations::Relation;
use super::survey::Survey;
use crate::ObjectRef;
use crate::kit::wake::Reason;

/// Surveys are kept for so many different timeouts of the readers of one source.
const TIMEOUTS: usize = 8;

/// The input of a build: the generation of the owner, and the digest of the artifact.
pub(crate) type BuiltFrom = (i64, String);

/// A survey, and when it holds.
#[derive(Debug)]
struct KeptSurvey {
    version: u64,
    timeout: Duration,
    artifact: Option<String>,
    survey: Arc<Survey>,
}

/// Who waits for which announcements.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    /// The owners that each waits for.
    watched: HashMap<ObjectRef, Watched>,
    /// The owners that wait for each.
    listeners: Relation<ObjectRef>,
    /// The last surveys for the readers of a source, one for each timeout.
    surveys: HashMap<ObjectRef, Vec<KeptSurvey>>,
    /// Raised by everything that may change the result of a survey.
    version: u64,
    /// Since when an announcement is waited for, and the build that it will come from.
    awaited: HashMap<ObjectRef, (BuiltFrom, Instant)>,
    /// Builds that failed because the API server did not answer.
    unreached: HashMap<ObjectRef, BuiltFrom>,
    /// The sources that this process has looked at.
    looked: HashSet<ObjectRef>,
}

impl Announcements {
    /// From now on these owners wake `key`, and no others.
    pub(crate) fn watch(&mut self, key: &ObjectRef, watched: Watched) {
        if let Some(before) = self.watched.remove(key) {
            self.listeners.unlink(&before.of, key);
        }
        self.listeners.link(&watched.of, key);
        if !watched.is_empty() {
            self.watched.insert(key.clone(), watched);
        }
    }

    /// Until when an owner waits for the last of those it waits for.
    pub(crate) fn waits_until(&self, key: &ObjectRef) -> Option<Instant> {
        self.watched.get(key).and_then(|watched| watched.until)
    }

    /// The owners that wait for this one.
    pub(super) fn listeners_of(&self, of: &ObjectRef) -> impl Iterator<Item = (ObjectRef, Reason)> {
        let listening = self.listeners.of(of);
        listening.map(|key| (key.clone(), Reason::Dependency))
    }

    /// An owner has announced what it wants, or will not: who waited for that.
    pub(crate) fn spoken(&mut self, of: &ObjectRef) -> Vec<(ObjectRef, Reason)> {
        self.stop_awaiting(of);
        self.listeners_of(of).collect()
    }

    /// The last survey for the readers of a source, if it still holds: nothing has changed, or the owner that
    /// it waits for has not announced anything.
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
        let silent = || {
            let (key, since) = kept.survey.waits_for()?;
            Some(self.is_silent(key, since))
        };
        (kept.version == self.version || silent() == Some(true)).then(|| Arc::clone(&kept.survey))
    }

    /// Keeps a survey for others that read the same source and have the same timeout.
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

    /// Something changed that a survey may depend on.
    pub(crate) fn outdate_surveys(&mut self) {
        self.version += 1;
    }

    /// The same, and no survey holds because the owner that it waits for is silent.
    pub(super) fn forget_surveys(&mut self) {
        self.outdate_surveys();
        self.surveys.clear();
    }

    /// Whether an owner that is waited for since then has not announced anything.
    pub(crate) fn is_silent(&self, key: &ObjectRef, since: Instant) -> bool {
        self.awaited.get(key).is_some_and(|(_, known)| *known == since)
    }

    /// Whether the announcement of an owner is waited for.
    pub(super) fn is_awaited(&self, key: &ObjectRef) -> bool {
        self.awaited.contains_key(key)
    }

    /// Since when the announcement of an owner is waited for that comes from this build; from now on if nobody
    /// has waited for it before.
    pub(crate) fn awaited_since(&mut self, key: &ObjectRef, from: BuiltFrom, now: Instant) -> Instant {
        match self.awaited.get(key) {
            Some((known, since)) if *known == from => *since,
            _ => {
                self.awaited.insert(key.clone(), (from, now));
                now
            }
        }
    }

    /// Nobody waits for the announcement of an owner any more.
    pub(super) fn stop_awaiting(&mut self, key: &ObjectRef) {
        self.awaited.remove(key);
    }

    /// Notes that an owner was built.
    pub(super) fn built(&mut self, key: &ObjectRef) {
        self.stop_awaiting(key);
        self.unreached.remove(key);
    }

    /// Notes that a build failed because the API server did not answer; whether that is new.
    pub(super) fn unreached(&mut self, key: &ObjectRef, from: BuiltFrom) -> bool {
        if self.unreached.get(key) == Some(&from) {
            return false;
        }
        self.outdate_surveys();
        self.unreached.insert(key.clone(), from);
        true
    }

    /// Whether this build of an owner failed because the API server did not answer.
    pub(crate) fn is_unreached(&self, key: &ObjectRef, generation: i64, artifact: &str) -> bool {
        let from = self.unreached.get(key);
        from.is_some_and(|(of, from)| *of == generation && from == artifact)
    }

    /// Notes that this process has looked at a source: its status names what it has now. Whether that is new.
    pub(super) fn looked(&mut self, source: &ObjectRef) -> bool {
        let new = self.looked.insert(source.clone());
        if new {
            self.outdate_surveys();
        }
        new
    }

    /// Whether this process has looked at a source.
    pub(crate) fn has_looked(&self, source: &ObjectRef) -> bool {
        self.looked.contains(source)
    }

    /// Forgets a source that is gone: another of its name has to be looked at.
    pub(crate) fn forget_source(&mut self, source: &ObjectRef) {
        self.outdate_surveys();
        self.surveys.remove(source);
        self.looked.remove(source);
    }

    /// Whether nobody waits for anybody.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.watched.is_empty() && self.listeners.iter().next().is_none()
    }

    /// Forgets an owner that is gone.
    pub(super) fn forget(&mut self, key: &ObjectRef) {
        self.watch(key, Watched::default());
        self.built(key);
    }
}
