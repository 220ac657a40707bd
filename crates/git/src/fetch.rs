//! Shallow, incremental fetches of one commit into a mirror.
//!
//! A ref in the mirror marks a commit once everything its tree names is there. Marked commits are the base
//! of the next fetch, so only new objects travel.

use std::{
    cell::Cell,
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use gix::ObjectId;

use crate::{
    commit::Commit,
    kind::Kind,
    limits::Limits,
    mirror::{Generation, Mirror, MirrorError, MirrorLock},
    reference::Revision,
    remote::{Credentials, Endpoint, Remote, UrlError},
    resolve::{LocalRefs, Refs as _},
    store::OpenStoreError,
    transport::{Clients, RemoteError, Session, SessionError},
    tree::TreeError,
};

const MARKS: &str = "refs/fetched/";
/// A session that was idle for longer is opened again: the server may have ended it.
const IDLE_MAX: Duration = Duration::from_secs(1);
/// The marked commits that a fetch names as its bases: with 64 it took 25 ms, and 11 ms with few.
const BASES_MAX: usize = 4;
/// Refs that mark tips with full history.
const HISTORIES: &str = "refs/history/";

/// The reason why a commit cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The URL or the credentials are invalid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The remote did not answer or refused.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The commit was rewritten or deleted on the remote after it was resolved.
    #[error("commit {commit} is not in {place}{}", moved(reference.as_deref(), tip.as_deref()))]
    Gone {
        /// The commit.
        commit: String,
        /// The remote.
        place: String,
        /// The ref it was found at.
        reference: Option<String>,
        /// The current target of that ref.
        tip: Option<String>,
    },
    /// A local repository has no such commit.
    #[error("commit {commit} is not in {place}")]
    Absent {
        /// The commit.
        commit: String,
        /// The directory.
        place: String,
        /// The error from gix.
        source: gix::Error,
    },
    /// The remote sent an incomplete commit, or one beyond a limit.
    #[error("fetch of commit {commit} from {place} is incomplete")]
    Incomplete {
        /// The commit.
        commit: String,
        /// The remote.
        place: String,
        /// The missing or oversized part.
        source: TreeError,
    },
    /// Another call used the same mirror until the timeout.
    #[error("timed out after {seconds}s waiting for the mirror of {place}")]
    Busy {
        /// The remote.
        place: String,
        /// The remote's timeout.
        seconds: f64,
    },
    /// A local directory cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenStoreError),
    /// The directory of all mirrors cannot be used.
    #[error("cannot use the mirror directory {}", root.display())]
    Root {
        /// The directory.
        root: PathBuf,
        /// The error from the system.
        source: std::io::Error,
    },
    /// The mirror cannot be read or written.
    #[error("cannot {doing} the mirror of {place}")]
    Mirror {
        /// The remote.
        place: String,
        /// The operation: `open`, `read` or `write`.
        doing: &'static str,
        /// The error from the system or gix.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl FetchError {
    /// The class of the failure.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Url(_) => Kind::UrlInvalid,
            Self::Remote(error) => error.kind(),
            Self::Gone { .. } | Self::Absent { .. } => Kind::ReferenceNotFound,
            Self::Incomplete {
                source: TreeError::Object { .. } | TreeError::Name { .. },
                ..
            } => Kind::Protocol,
            Self::Incomplete { .. } => Kind::Limit,
            Self::Busy { .. } => Kind::Timeout,
            Self::Open(_) | Self::Root { .. } | Self::Mirror { .. } => Kind::Storage,
        }
    }
}

impl FetchError {
    pub(crate) fn advised(self, advice: &str) -> Self {
        match self {
            Self::Url(error) => Self::Url(error.advised(advice)),
            Self::Remote(error) => Self::Remote(error.advised(advice)),
            other => other,
        }
    }
}

impl From<SessionError> for FetchError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Url(error) => Self::Url(error),
            SessionError::Remote(error) => Self::Remote(error),
        }
    }
}

fn moved(reference: Option<&str>, tip: Option<&str>) -> String {
    match (reference, tip) {
        (Some(reference), Some(tip)) => format!(": {reference} is now at {tip}"),
        (Some(reference), None) => format!(": {reference} no longer exists"),
        (None, _) => ": no branch contains it".to_owned(),
    }
}

pub(crate) struct Job<'a> {
    clients: &'a Clients,
    limits: &'a Arc<Limits>,
    remote: &'a Remote,
    endpoint: &'a Endpoint,
    credentials: &'a Credentials,
    revision: &'a Revision,
    place: String,
    deadline: Instant,
    /// The first session, if it is open.
    open: Cell<Option<Session>>,
}

pub(crate) fn fetch(mirror: &Mirror, job: &Job<'_>) -> Result<Commit, FetchError> {
    let limits = job.limits;
    let held = job.lock(mirror)?;
    let generation = held.generation().map_err(|error| job.opened(error))?;
    if job.marked(&generation)? {
        match job.read(&generation) {
            Ok(commit) => return Ok(commit),
            // Marked and unreadable means data loss on disk, so the mirror cannot be a base either.
            Err(error) => tracing::warn!(place = %job.place, %error, "fetching a damaged mirror again"),
        }
        return job.fetch_again(&held);
    }
    let packs = generation.packs();
    if packs.bytes >= limits.mirror_bytes_max {
        let (bytes, limit) = (packs.bytes, limits.mirror_bytes_max);
        tracing::info!(place = %job.place, bytes, limit, "fetching a mirror afresh, because its packs are too large");
        return job.fetch_again(&held);
    }
    if packs.count >= limits.packs_max {
        return job.fetch_again(&held);
    }
    match job.fetch_and_mark(&generation) {
        // A base object is missing after all.
        Err(FetchError::Incomplete {
            source: TreeError::Object { .. },
            ..
        }) if generation.packs().count > 1 => job.fetch_again(&held),
        result => result,
    }
}

/// Brings a commit's tag object into its own store. `None` for a lightweight tag.
pub(crate) fn tag(mirror: &Mirror, job: &Job<'_>, commit: &Commit) -> Result<Option<ObjectId>, FetchError> {
    let mut session = job.session()?;
    let name = job.revision.reference().unwrap_or_default();
    let listed = session.refs(name)?.into_iter().find(|listed| listed.name == name);
    let listed = listed.filter(|listed| listed.id == job.revision.id);
    let Some(listed) = listed else {
        return Err(job.gone(None));
    };
    let Some(id) = listed.tag else {
        return Ok(None);
    };
    let store = commit.tree().store();
    if store.with(|repository| repository.has_object(id)) {
        return Ok(Some(id));
    }
    // even if the mirror was renewed meanwhile, the commit's own store gets the object
    let _held = job.lock(mirror)?;
    let (wants, haves) = ([id], [job.revision.id]);
    let one = Some(NonZeroU32::MIN);
    let brought = store.with(|repository| session.fetch(repository, &wants, &haves, one));
    brought?;
    Ok(Some(id))
}

pub(crate) fn local_tag(commit: &Commit, path: &Path) -> Result<Option<ObjectId>, FetchError> {
    let revision = commit.revision();
    let place = path.display().to_string();
    let unreadable = |source| FetchError::Mirror {
        place: place.clone(),
        doing: "read",
        source,
    };
    let name = revision.reference().unwrap_or_default();
    let mut refs = LocalRefs {
        store: commit.tree().store(),
        place: place.clone(),
    };
    let listed = refs.list(name).map_err(|error| unreadable(error.into()))?;
    let listed = listed.into_iter().find(|listed| listed.name == name);
    match listed.filter(|listed| listed.id == revision.id) {
        Some(listed) => Ok(listed.tag),
        None => Err(FetchError::Gone {
            commit: revision.commit(),
            place,
            reference: Some(name.to_owned()),
            tip: None,
        }),
    }
}

impl<'a> Job<'a> {
    pub(crate) fn new(
        clients: &'a Clients,
        limits: &'a Arc<Limits>,
        remote: &'a Remote,
        endpoint: &'a Endpoint,
        credentials: &'a Credentials,
        revision: &'a Revision,
    ) -> Self {
        Self {
            clients,
            limits,
            remote,
            endpoint,
            credentials,
            revision,
            place: endpoint.to_string(),
            deadline: Instant::now() + remote.timeout,
            open: Cell::new(None),
        }
    }

    /// In an open session, until its deadline.
    pub(crate) fn within(self, session: Session) -> Self {
        Self {
            deadline: session.deadline(),
            open: Cell::new(Some(session)),
            ..self
        }
    }
}

impl Job<'_> {
    fn lock<'m>(&self, mirror: &'m Mirror) -> Result<MirrorLock<'m>, FetchError> {
        let began = Instant::now();
        let held = mirror.lock(self.deadline);
        if began.elapsed() > IDLE_MAX {
            drop(self.open.take());
        }
        held.map_err(|error| self.mirror("open", error))?
            .ok_or_else(|| FetchError::Busy {
                place: self.place.clone(),
                seconds: self.remote.timeout.as_secs_f64(),
            })
    }

    fn gone(&self, tip: Option<ObjectId>) -> FetchError {
        FetchError::Gone {
            commit: self.revision.commit(),
            place: self.place.clone(),
            reference: self.revision.reference().map(str::to_owned),
            tip: tip.map(|tip| tip.to_string()),
        }
    }

    fn mirror(
        &self,
        doing: &'static str,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> FetchError {
        FetchError::Mirror {
            place: self.place.clone(),
            doing,
            source: error.into(),
        }
    }

    fn opened(&self, error: MirrorError) -> FetchError {
        self.mirror("open", error)
    }

    fn fetch_again(&self, held: &MirrorLock<'_>) -> Result<Commit, FetchError> {
        let generation = held.renew().map_err(|error| self.opened(error))?;
        self.fetch_and_mark(&generation)
    }

    fn marked(&self, generation: &Generation) -> Result<bool, FetchError> {
        let name = format!("{MARKS}{}", self.revision.id);
        let found = generation.store.with(|repository| {
            repository
                .try_find_reference(name.as_str())
                .map(|found| found.is_some())
        });
        found.map_err(|error| self.mirror("read", error))
    }

    fn read(&self, generation: &Generation) -> Result<Commit, FetchError> {
        Commit::read(&generation.store, self.revision, self.limits)
            .map_err(|error| self.mirror("read", error))
    }

    fn fetch_and_mark(&self, generation: &Generation) -> Result<Commit, FetchError> {
        self.receive(generation)?;
        let commit = self.read(generation)?;
        self.check_complete(generation, &commit)?;
        self.mark(generation, MARKS, &[self.revision.id])?;
        generation.set_last(self.revision.reference().unwrap_or_default(), self.revision.id);
        Ok(commit)
    }

    fn receive(&self, generation: &Generation) -> Result<(), FetchError> {
        let wanted = self.revision.id;
        let haves = self.bases(generation)?;
        let one = NonZeroU32::MIN;
        let refused = generation.store.with(|repository| -> Result<_, FetchError> {
            let mut session = self.session()?;
            match session.fetch(repository, &[wanted], &haves, Some(one)) {
                Ok(objects) => {
                    tracing::debug!(place = %self.place, objects, "fetched");
                    Ok(None)
                }
                // Servers word the refusal of a commit that is no ref's tip differently.
                Err(error) if matches!(error.kind(), Kind::Protocol | Kind::RemoteFailure) => Ok(Some(error)),
                Err(error) => Err(error.into()),
            }
        })?;
        match refused {
            None => Ok(()),
            Some(refused) => self.fetch_by_ref(generation, refused),
        }
    }

    /// Fetches the commit through its ref, or through all branches, with the history that contains it.
    fn fetch_by_ref(&self, generation: &Generation, refused: RemoteError) -> Result<(), FetchError> {
        let reference = self.revision.reference();
        let mut session = self.session()?;
        let prefix = reference.unwrap_or("refs/heads/");
        let mut tips = session.refs(prefix)?;
        tips.retain(|listed| reference.is_none_or(|reference| listed.name == reference));
        if tips.is_empty() {
            return Err(self.gone(None));
        }
        if tips.iter().any(|listed| listed.id == self.revision.id) {
            // The commit is a tip, so the server did not refuse for lack of a ref.
            return Err(refused.into());
        }
        let mut wants: Vec<ObjectId> = tips.iter().map(|listed| listed.id).collect();
        wants.sort_unstable();
        wants.dedup();
        let haves = self.marks(generation, HISTORIES)?;
        wants.retain(|want| !haves.contains(want));
        if !wants.is_empty() {
            generation
                .store
                .with(|repository| session.fetch(repository, &wants, &haves, None))?;
            self.mark(generation, HISTORIES, &wants)?;
        }
        let found = generation
            .store
            .with(|repository| repository.find_commit(self.revision.id).is_ok());
        match found {
            true => Ok(()),
            false => Err(self.gone(
                tips.first()
                    .map(|listed| listed.id)
                    .filter(|_| reference.is_some()),
            )),
        }
    }

    fn session(&self) -> Result<Session, SessionError> {
        if let Some(open) = self.open.take() {
            return Ok(open);
        }
        Session::open(
            self.clients,
            self.remote,
            self.endpoint,
            self.credentials,
            self.limits,
            self.deadline,
        )
    }

    /// The bases of the next fetch: the last commit of its reference, and the newest ones. The host reads the trees of
    /// all of them.
    fn bases(&self, generation: &Generation) -> Result<Vec<ObjectId>, FetchError> {
        let last = generation.last(self.revision.reference().unwrap_or_default());
        let names = generation.newest_files(MARKS);
        let names = names.map_err(|error| self.mirror("read", error))?;
        let newest = names.iter().filter_map(|name| name.parse().ok());
        let newest = newest.filter(|id| last != Some(*id));
        Ok(generation.store.with(|repository| {
            let all = last.into_iter().chain(newest);
            all.filter(|id| repository.has_object(*id))
                .take(BASES_MAX)
                .collect()
        }))
    }

    fn marks(&self, generation: &Generation, prefix: &str) -> Result<Vec<ObjectId>, FetchError> {
        let marks = generation
            .store
            .with(|repository| -> Result<Vec<ObjectId>, gix::Error> {
                let mut marks = Vec::new();
                for mark in repository.references()?.prefixed(prefix)? {
                    marks.extend(mark.ok().and_then(|mark| mark.try_id().map(gix::Id::detach)));
                }
                Ok(marks)
            });
        marks.map_err(|error| self.mirror("read", error))
    }

    fn mark(&self, generation: &Generation, prefix: &str, ids: &[ObjectId]) -> Result<(), FetchError> {
        let marked = generation.store.with(|repository| -> Result<(), gix::Error> {
            for id in ids {
                let any = gix::refs::transaction::PreviousValue::Any;
                repository.reference(format!("{prefix}{id}"), *id, any, "fetched")?;
            }
            Ok(())
        });
        marked.map_err(|error| self.mirror("write", error))
    }

    /// A marked commit must never fail later for a missing object.
    fn check_complete(&self, generation: &Generation, commit: &Commit) -> Result<(), FetchError> {
        let incomplete = |source| FetchError::Incomplete {
            commit: self.revision.commit(),
            place: self.place.clone(),
            source,
        };
        let blobs = commit.tree().blobs().map_err(incomplete)?;
        let missing = generation
            .store
            .with(|repository| blobs.into_iter().find(|id| !repository.has_object(id.0)));
        match missing {
            None => Ok(()),
            Some(id) => match commit.tree().size(&id) {
                Err(error) => Err(incomplete(error)),
                Ok(_) => Ok(()),
            },
        }
    }
}
