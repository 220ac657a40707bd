//! Artifacts that this process did not publish itself: fetched once, however many read them.
//!
//! Whoever needs one asks and goes away; it is woken when there is an answer. So no worker waits for a
//! network, and a thousand readers of one artifact are one download. What was asked for last by each reader
//! is what is kept: a digest nobody asks for any more goes, from memory and from disk. After a start the
//! disk is asked before the network.
//!
//! A failure that may pass (no connection, a busy server) is tried again here, with growing pauses, as Flux
//! does with `--http-retry`. Any other waits for another artifact, for a request, or for the reader's
//! `retryInterval`.

mod download;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use equate_source::{Cache, Digest, Tree};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use self::download::{DownloadError, Http, finished};
use crate::ObjectRef;
use crate::kit::backoff::{Backoff, Jitter};

/// Flux's `--http-retry`.
pub(crate) const RETRIES: u32 = 9;
/// Downloads at once: they share one link, and each has a file.
const DOWNLOADS_MAX: usize = 8;
/// Between attempts.
const PAUSE: Backoff = Backoff {
    first: Duration::from_secs(1),
    max: Duration::from_secs(30),
};
/// What a source has collected it is about to replace: that is not worth a whole `retryInterval`.
pub(crate) const GONE_PAUSE: Duration = Duration::from_secs(30);
/// After this time it is forgotten where something was looked for.
const TRIED: Duration = Duration::from_secs(3600);
/// By then whoever reads an artifact of before the start has asked for it.
const SWEEP_AFTER: Duration = Duration::from_secs(600);

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArtifactRequest<'a> {
    /// As the status has it.
    pub(crate) digest: &'a str,
    /// Where it is.
    pub(crate) url: &'a str,
    /// After this time what failed is tried again.
    pub(crate) retry: Duration,
    /// The request that asks to try again now, if one is open.
    pub(crate) token: Option<&'a str>,
}

/// What there is.
#[derive(Debug, Clone)]
pub(crate) enum ArtifactState {
    /// The tree.
    Here(Tree),
    /// Not yet; whoever asked is woken. Why the last attempt failed, if one did.
    Coming(Option<Arc<str>>),
    /// It was tried in vain. Whether its source has it no more, and the sentence.
    Failed(bool, Arc<str>),
}

/// All of them; clones are the same.
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
    downloads: Semaphore,
    /// Bounds work that holds a processor, of all that this process does.
    processors: Arc<Semaphore>,
    state: Mutex<State>,
    arrived: Box<dyn Fn(ObjectRef) + Send + Sync>,
}

#[derive(Default)]
struct State {
    readers: HashMap<ObjectRef, Reader>,
    entries: HashMap<Digest, Entry>,
}

/// What one reader asked for last.
struct Reader {
    digest: Digest,
    url: String,
    token: Option<String>,
}

struct Entry {
    readers: BTreeSet<ObjectRef>,
    url: String,
    /// Where else it was looked for in vain, and until when: one digest may be published at many places.
    tried: HashMap<String, Instant>,
    stage: Stage,
}

impl Entry {
    /// Whether it may be somewhere where it was not looked for lately.
    fn is_elsewhere(&self, url: &str, pause: Duration) -> bool {
        self.url != url && self.tried.get(url).is_none_or(|at| at.elapsed() >= pause)
    }
}

enum Stage {
    Coming {
        trouble: Option<Arc<str>>,
        // whoever lets go of it gives up the download
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

/// How artifacts are fetched.
pub(crate) struct Settings {
    pub(crate) cache: Cache,
    pub(crate) retries: u32,
    pub(crate) jitter: Jitter,
    pub(crate) processors: Arc<Semaphore>,
}

impl Artifacts {
    /// Nothing is asked yet. `arrived` is told of every reader that has an answer; it must not block.
    pub(crate) fn new(
        settings: Settings,
        arrived: impl Fn(ObjectRef) + Send + Sync + 'static,
    ) -> Result<Artifacts, reqwest::Error> {
        let Settings {
            cache,
            retries,
            jitter,
            processors,
        } = settings;
        Ok(Artifacts {
            shared: Arc::new(Shared {
                cache,
                http: Http::new()?,
                retries,
                pause: PAUSE,
                jitter,
                downloads: Semaphore::new(DOWNLOADS_MAX),
                processors,
                state: Mutex::default(),
                arrived: Box::new(arrived),
            }),
        })
    }

    /// Removes what earlier processes kept and nobody has asked for, once all had time to ask.
    pub(crate) async fn sweep(self) {
        sleep(SWEEP_AFTER).await;
        let cache = self.shared.cache.clone();
        match spawn_blocking(move || cache.sweep()).await {
            Ok(swept) => tracing::debug!(swept, "artifacts that nobody reads are gone"),
            Err(error) => tracing::warn!(%error, "artifacts that nobody reads could not be swept"),
        }
    }

    /// What there is of an artifact. From now on it is what this reader reads, and no other.
    pub(crate) fn look(&self, reader: &ObjectRef, ask: ArtifactRequest<'_>) -> ArtifactState {
        let digest = match Digest::parse(ask.digest) {
            Ok(digest) => digest,
            Err(error) => {
                self.release(reader);
                let why =
                    format!("failed to verify archive: {error}; check status.artifact.digest of the source");
                return ArtifactState::Failed(false, why.into());
            }
        };
        let mut state = self.state();
        let asked = state.reads(reader, &digest, ask);
        let let_go = asked.let_go;
        let entry = state
            .entries
            .entry(digest.clone())
            .or_insert_with(|| self.begun(&digest, ask.url));
        entry.readers.insert(reader.clone());
        let again = match &entry.stage {
            Stage::Here(_) => false,
            // whoever serves it has moved: nothing comes from where it was
            Stage::Coming { trouble, .. } => {
                trouble.is_some()
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
            let begun = self.begun(&digest, ask.url);
            let url = std::mem::replace(&mut entry.url, begun.url);
            entry.stage = begun.stage;
            entry.tried.retain(|_, at| at.elapsed() < TRIED);
            entry.tried.insert(url, Instant::now());
        }
        let look = match &entry.stage {
            Stage::Here(tree) => ArtifactState::Here(tree.clone()),
            Stage::Coming { trouble, .. } => ArtifactState::Coming(trouble.clone()),
            Stage::Failed { why, gone, .. } => ArtifactState::Failed(*gone, Arc::clone(why)),
        };
        drop(state);
        self.forget(let_go);
        look
    }

    /// A reader reads no artifact of others any more.
    pub(crate) fn release(&self, reader: &ObjectRef) {
        let let_go = self.state().release(reader);
        self.forget(let_go);
    }

    fn begun(&self, digest: &Digest, url: &str) -> Entry {
        let (own, digest, address) = (Arc::clone(&self.shared), digest.clone(), url.to_owned());
        let task = tokio::spawn(async move {
            let ended = own.fetch(&digest, &address).await;
            own.end(&digest, ended);
        });
        Entry {
            readers: BTreeSet::new(),
            url: url.to_owned(),
            tried: HashMap::new(),
            stage: Stage::Coming {
                trouble: None,
                _task: AbortOnDropHandle::new(task),
            },
        }
    }

    fn forget(&self, let_go: Option<Digest>) {
        if let Some(digest) = let_go {
            let cache = self.shared.cache.clone();
            // nobody waits for a file to go
            drop(spawn_blocking(move || cache.forget(&digest)));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

/// What a reader's asking means.
struct Asked {
    /// Whether a request is open that was not seen before, or it is said to be somewhere else than before.
    again: bool,
    /// What nobody reads any more.
    let_go: Option<Digest>,
}

impl State {
    fn reads(&mut self, reader: &ObjectRef, digest: &Digest, ask: ArtifactRequest<'_>) -> Asked {
        let before = self.readers.get(reader);
        let again = before.is_some_and(|before| {
            let asked = ask.token.is_some() && before.token.as_deref() != ask.token;
            asked || (before.digest == *digest && before.url != ask.url)
        });
        let let_go = match before {
            Some(before) if before.digest != *digest => self.release(reader),
            _ => None,
        };
        let now = Reader {
            digest: digest.clone(),
            url: ask.url.to_owned(),
            token: ask.token.map(str::to_owned),
        };
        self.readers.insert(reader.clone(), now);
        Asked { again, let_go }
    }

    fn release(&mut self, reader: &ObjectRef) -> Option<Digest> {
        let digest = self.readers.remove(reader)?.digest;
        let entry = self.entries.get_mut(&digest)?;
        entry.readers.remove(reader);
        if !entry.readers.is_empty() {
            return None;
        }
        self.entries.remove(&digest);
        Some(digest)
    }
}

impl Shared {
    /// A panic elsewhere leaves nothing half-done in it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From disk, or over the network, with as many attempts as are allowed.
    async fn fetch(&self, digest: &Digest, url: &str) -> Result<Tree, DownloadError> {
        let (cache, own) = (self.cache.clone(), digest.clone());
        if let Ok(Some(tree)) = self.on_a_processor(move || cache.load(&own)).await {
            return Ok(tree);
        }
        let mut failures = 0;
        loop {
            let error = match self.attempt(digest, url).await {
                Ok(tree) => return Ok(tree),
                Err(error) => error,
            };
            failures += 1;
            if !error.passes() || failures > self.retries {
                return Err(error);
            }
            tracing::debug!(%digest, url, failures, error = error.said(), "an artifact could not be fetched");
            self.trouble(digest, error.said().into());
            let pause = self.pause.delay(failures, &self.jitter);
            sleep(
                error
                    .after()
                    .map_or(pause, |after| after.clamp(pause, self.pause.max)),
            )
            .await;
        }
    }

    async fn attempt(&self, digest: &Digest, url: &str) -> Result<Tree, DownloadError> {
        // never closed
        let _permit = self.downloads.acquire().await;
        let received = self.http.fetch(url, digest, &self.cache).await?;
        let address = url.to_owned();
        self.on_a_processor(move || finished(&address, received)).await?
    }

    async fn on_a_processor<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DownloadError> {
        // never closed, and the work has it until it ends, also if nobody waits for it any more
        let permit = Arc::clone(&self.processors).acquire_owned().await;
        let done = spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        done.await.map_err(|_| DownloadError::BrokeOff)
    }

    /// An attempt failed and another follows: those who wait for it say so.
    fn trouble(&self, digest: &Digest, why: Arc<str>) {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(digest) else {
            return;
        };
        let Stage::Coming { trouble, .. } = &mut entry.stage else {
            return;
        };
        if trouble.as_ref() == Some(&why) {
            return;
        }
        *trouble = Some(why);
        let readers = entry.readers.clone();
        drop(state);
        readers.into_iter().for_each(&self.arrived);
    }

    fn end(&self, digest: &Digest, ended: Result<Tree, DownloadError>) {
        let stage = match ended {
            Ok(tree) => Stage::Here(tree),
            Err(error) => {
                let why: Arc<str> = error.said().into();
                tracing::info!(%digest, %why, "an artifact is not to be had");
                Stage::Failed {
                    why,
                    gone: error.is_gone(),
                    at: Instant::now(),
                }
            }
        };
        let mut state = self.state();
        // given up meanwhile
        let Some(entry) = state.entries.get_mut(digest) else {
            return;
        };
        // the task that runs here is let go of last
        let _before = std::mem::replace(&mut entry.stage, stage);
        let readers = entry.readers.clone();
        drop(state);
        readers.into_iter().for_each(&self.arrived);
    }
}

#[cfg(test)]
mod tests;
