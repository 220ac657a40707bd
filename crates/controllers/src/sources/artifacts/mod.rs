//! Artifacts of other processes: each is fetched once for all readers of its source.
//!
//! A reader asks and ends its run; the answer wakes it, so no worker waits for the network. An artifact
//! that no reader asked for last is removed from memory and disk. After a start, the disk comes before
//! the network.
//!
//! A failure that may pass (no connection, a busy server) is retried here with growing delays, as Flux
//! does with `--http-retry`. Other failures wait for another artifact, a request, or the reader's
//! `retryInterval`.

mod download;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use equate_egress::Egress;
use equate_source::{Cache, CacheKey, Digest, Publisher, Tree};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

pub(crate) use self::download::ATTEMPT_MAX;
use self::download::{DownloadError, Http, finished};
use crate::ObjectRef;
use crate::kit::backoff::{Backoff, Jitter};
use crate::kit::processors::Processors;
use crate::kit::sessions::Sessions;
use crate::kit::time_limit::TimeLimit;

/// Flux's `--http-retry`.
pub(crate) const RETRIES: u32 = 9;
const PAUSE: Backoff = Backoff {
    first: Duration::from_secs(1),
    max: Duration::from_secs(30),
};
/// A source that has removed an artifact is about to replace it, so `retryInterval` would be too long.
pub(crate) const GONE_PAUSE: Duration = Duration::from_secs(30);
const TRIED: Duration = Duration::from_secs(3600);
/// By then all readers of artifacts from before the start have asked for them.
const SWEEP_AFTER: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Copy)]
pub(crate) struct ArtifactRequest<'a> {
    pub(crate) publisher: &'a Publisher,
    pub(crate) digest: &'a str,
    pub(crate) url: &'a str,
    /// The delay before a failed download is retried.
    pub(crate) retry: Duration,
    pub(crate) token: Option<&'a str>,
}

#[derive(Debug, Clone)]
pub(crate) enum ArtifactState {
    Here(Tree),
    /// Not fetched yet; the reader will be woken. The last failure, if any.
    Coming(Option<Arc<str>>),
    /// The download failed: whether the source has removed the archive, and the message.
    Failed(bool, Arc<str>),
}

#[derive(Clone)]
pub(crate) struct Artifacts {
    shared: Arc<Shared>,
}

struct Shared {
    cache: Cache,
    http: Http,
    retries: u32,
    pause: Backoff,
    jitter: Jitter,
    processors: Processors,
    state: Mutex<State>,
    arrived: Box<dyn Fn(ObjectRef) + Send + Sync>,
}

#[derive(Default)]
struct State {
    readers: HashMap<ObjectRef, Reader>,
    entries: HashMap<CacheKey, Entry>,
}

struct Reader {
    artifact: CacheKey,
    url: String,
    token: Option<String>,
}

struct Entry {
    readers: BTreeSet<ObjectRef>,
    url: String,
    /// Other addresses that failed, with expiry.
    tried: HashMap<String, Instant>,
    stage: Stage,
}

impl Entry {
    fn is_elsewhere(&self, url: &str, pause: Duration) -> bool {
        self.url != url && self.tried.get(url).is_none_or(|at| at.elapsed() >= pause)
    }
}

enum Stage {
    Coming {
        last_error: Option<Arc<str>>,
        // dropping it cancels the download
        _task: AbortOnDropHandle<()>,
    },
    Here(Tree),
    Failed {
        why: Arc<str>,
        gone: bool,
        at: Instant,
    },
}

impl fmt::Debug for Artifacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Artifacts")
            .field("cache", &self.shared.cache)
            .finish_non_exhaustive()
    }
}

pub(crate) struct Settings {
    pub(crate) cache: Cache,
    pub(crate) retries: u32,
    pub(crate) jitter: Jitter,
    pub(crate) processors: Processors,
    pub(crate) sessions: Sessions,
    /// The longest time of one attempt.
    pub(crate) attempt_max: TimeLimit,
    pub(crate) egress: Egress,
}

impl Artifacts {
    /// Empty. `arrived` is called for every reader with an answer; it must not block.
    pub(crate) fn new(
        settings: Settings,
        arrived: impl Fn(ObjectRef) + Send + Sync + 'static,
    ) -> Result<Artifacts, reqwest::Error> {
        let Settings {
            cache,
            retries,
            jitter,
            processors,
            sessions,
            attempt_max,
            egress,
        } = settings;
        Ok(Artifacts {
            shared: Arc::new(Shared {
                cache,
                http: Http::new(egress, sessions, attempt_max)?,
                retries,
                pause: PAUSE,
                jitter,
                processors,
                state: Mutex::default(),
                arrived: Box::new(arrived),
            }),
        })
    }

    /// Removes artifacts of earlier processes that have no readers, once all readers had time to ask.
    pub(crate) async fn sweep(self) {
        sleep(SWEEP_AFTER).await;
        let cache = self.shared.cache.clone();
        match spawn_blocking(move || cache.sweep()).await {
            Ok(swept) => tracing::debug!(swept, "artifacts that nobody reads are gone"),
            Err(error) => tracing::warn!(%error, "cannot remove unread artifacts"),
        }
    }

    /// Returns the state of an artifact and makes it the only one that this reader reads.
    pub(crate) fn get(&self, reader: &ObjectRef, ask: ArtifactRequest<'_>) -> ArtifactState {
        let artifact = match Digest::parse(ask.digest) {
            Ok(digest) => CacheKey::new(ask.publisher, digest),
            Err(error) => {
                self.release(reader);
                let why =
                    format!("failed to verify archive: {error}; check status.artifact.digest of the source");
                return ArtifactState::Failed(false, why.into());
            }
        };
        let mut state = self.state();
        let asked = state.reads(reader, &artifact, ask);
        let let_go = asked.let_go;
        let entry = state
            .entries
            .entry(artifact.clone())
            .or_insert_with(|| self.begun(&artifact, ask.url, &reader.namespace));
        entry.readers.insert(reader.clone());
        let again = match &entry.stage {
            Stage::Here(_) => false,
            // the address has changed: the old one is dead
            Stage::Coming { last_error, .. } => {
                last_error.is_some()
                    && entry.url != ask.url
                    && (asked.again || entry.is_elsewhere(ask.url, ask.retry))
            }
            Stage::Failed { at, gone, .. } => {
                let pause = if *gone {
                    ask.retry.min(GONE_PAUSE)
                } else {
                    ask.retry
                };
                asked.again || entry.is_elsewhere(ask.url, pause) || at.elapsed() >= pause
            }
        };
        if again {
            let begun = self.begun(&artifact, ask.url, &reader.namespace);
            let url = std::mem::replace(&mut entry.url, begun.url);
            entry.stage = begun.stage;
            entry.tried.retain(|_, at| at.elapsed() < TRIED);
            entry.tried.insert(url, Instant::now());
        }
        let found = match &entry.stage {
            Stage::Here(tree) => ArtifactState::Here(tree.clone()),
            Stage::Coming { last_error, .. } => ArtifactState::Coming(last_error.clone()),
            Stage::Failed { why, gone, .. } => ArtifactState::Failed(*gone, Arc::clone(why)),
        };
        drop(state);
        self.forget(let_go);
        found
    }

    pub(crate) fn release(&self, reader: &ObjectRef) {
        let let_go = self.state().release(reader);
        self.forget(let_go);
    }

    /// Begins a download on account of the namespace of its first reader.
    fn begun(&self, artifact: &CacheKey, url: &str, namespace: &str) -> Entry {
        let (own, artifact, address) = (Arc::clone(&self.shared), artifact.clone(), url.to_owned());
        let namespace = namespace.to_owned();
        let task = tokio::spawn(async move {
            let ended = own.fetch(&namespace, &artifact, &address).await;
            own.end(&artifact, ended);
        });
        Entry {
            readers: BTreeSet::new(),
            url: url.to_owned(),
            tried: HashMap::new(),
            stage: Stage::Coming {
                last_error: None,
                _task: AbortOnDropHandle::new(task),
            },
        }
    }

    fn forget(&self, let_go: Option<CacheKey>) {
        if let Some(artifact) = let_go {
            let cache = self.shared.cache.clone();
            // no one waits for the removal
            drop(spawn_blocking(move || cache.forget(&artifact)));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

struct Asked {
    again: bool,
    let_go: Option<CacheKey>,
}

impl State {
    fn reads(&mut self, reader: &ObjectRef, artifact: &CacheKey, ask: ArtifactRequest<'_>) -> Asked {
        let before = self.readers.get(reader);
        let again = before.is_some_and(|before| {
            let asked = ask.token.is_some() && before.token.as_deref() != ask.token;
            asked || (before.artifact == *artifact && before.url != ask.url)
        });
        let let_go = match before {
            Some(before) if before.artifact != *artifact => self.release(reader),
            _ => None,
        };
        let now = Reader {
            artifact: artifact.clone(),
            url: ask.url.to_owned(),
            token: ask.token.map(str::to_owned),
        };
        self.readers.insert(reader.clone(), now);
        Asked { again, let_go }
    }

    fn release(&mut self, reader: &ObjectRef) -> Option<CacheKey> {
        let artifact = self.readers.remove(reader)?.artifact;
        let entry = self.entries.get_mut(&artifact)?;
        entry.readers.remove(reader);
        if !entry.readers.is_empty() {
            return None;
        }
        self.entries.remove(&artifact);
        Some(artifact)
    }
}

impl Shared {
    /// A panic elsewhere leaves no half-done state.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From disk, or over the network with the allowed attempts.
    async fn fetch(&self, namespace: &str, artifact: &CacheKey, url: &str) -> Result<Tree, DownloadError> {
        let digest = artifact.digest();
        let (cache, own) = (self.cache.clone(), artifact.clone());
        if let Ok(Some(tree)) = self
            .processors
            .run(namespace, move || cache.load(&own))
            .done()
            .await
        {
            return Ok(tree);
        }
        let mut failures = 0;
        loop {
            let error = match self.attempt(namespace, artifact, url).await {
                Ok(tree) => return Ok(tree),
                Err(error) => error,
            };
            failures += 1;
            if !error.passes() || failures > self.retries {
                return Err(error);
            }
            tracing::debug!(%digest, url, failures, error = error.message(), "cannot fetch an artifact");
            self.note_retry(artifact, error.message().into());
            let pause = self.pause.delay(failures, &self.jitter);
            sleep(
                error
                    .after()
                    .map_or(pause, |after| after.clamp(pause, self.pause.max)),
            )
            .await;
        }
    }

    async fn attempt(&self, namespace: &str, artifact: &CacheKey, url: &str) -> Result<Tree, DownloadError> {
        let received = self.http.fetch(namespace, url, artifact, &self.cache).await?;
        let address = url.to_owned();
        let finishing = self
            .processors
            .run(namespace, move || finished(&address, received));
        finishing.done().await.map_err(|_| DownloadError::Aborted)?
    }

    /// A failed attempt that will be retried: its readers report it.
    fn note_retry(&self, artifact: &CacheKey, why: Arc<str>) {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(artifact) else {
            return;
        };
        let Stage::Coming { last_error, .. } = &mut entry.stage else {
            return;
        };
        if last_error.as_ref() == Some(&why) {
            return;
        }
        *last_error = Some(why);
        let readers = entry.readers.clone();
        drop(state);
        readers.into_iter().for_each(&self.arrived);
    }

    fn end(&self, artifact: &CacheKey, ended: Result<Tree, DownloadError>) {
        let stage = match ended {
            Ok(tree) => Stage::Here(tree),
            Err(error) => {
                let why: Arc<str> = error.message().into();
                tracing::info!(digest = %artifact.digest(), %why, "an artifact is not available");
                Stage::Failed {
                    why,
                    gone: error.is_gone(),
                    at: Instant::now(),
                }
            }
        };
        let mut state = self.state();
        // given up meanwhile
        let Some(entry) = state.entries.get_mut(artifact) else {
            return;
        };
        // the task that runs here is dropped last
        let _before = std::mem::replace(&mut entry.stage, stage);
        let readers = entry.readers.clone();
        drop(state);
        readers.into_iter().for_each(&self.arrived);
    }
}

#[cfg(test)]
mod tests;
