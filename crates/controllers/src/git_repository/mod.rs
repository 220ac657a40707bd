//! Keeps an artifact of the revision that a GitRepository references.
//!
//! A run resolves the reference. If the revision changed, or the spec selects other files of it, the run
//! makes an artifact and reports it with one status patch. A run begins on a change of the spec or
//! annotations, a commit in a directory that replaces the URL, after a failure, and at the interval. The
//! interval is a safety net where there is a watch; elsewhere it finds new commits.
//!
//! A repository that cannot be read changes nothing: the last artifact is kept, and `Ready` shows the
//! reason.

mod act;
mod credentials;
mod decide;
mod declared;
mod failure;
mod host;
mod includes;
mod observe;
mod report;
#[cfg(test)]
mod tests;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use equate_api::meta::{FINALIZER, SOURCE_MANAGER, SOURCE_STATUS_MANAGER};
use equate_api::source::{GitRepository, GitRepositoryStatus};
use equate_egress::Egress;
use equate_git::Mirrors;
use equate_source::{Place, Storage};
use jiff::Timestamp;
use kube::Client;
use tokio::time::Instant;

use self::act::{Done, Opened};
use self::decide::{Plan, Seen};
use self::declared::Declared;
use self::includes::Includers;
use crate::kit::about::{About, Column, Concurrency};
use crate::kit::controller::{self, Absence, Acted, Controller, Next, Reconcilable, own_reason};
use crate::kit::mirror::{Change, Mirror};
use crate::kit::processors::Processors;
use crate::kit::reconciliation::{Reconciliation, Stop};
use crate::kit::services::Kit;
use crate::kit::sessions::Sessions;
use crate::kit::tenants::Tenants;
use crate::kit::wake::Reason;
use crate::sources::draft::Draft;
use crate::sources::store;
use crate::sources::watches::{Watched, Watches};
use crate::{Key, ObjectRef};

/// A longer operation gets a status about its progress.
const PATIENCE: Duration = Duration::from_secs(2);

const ABOUT: About = About {
    kind: "GitRepository",
    plural: "gitrepositories",
    group: "source.toolkit.fluxcd.io",
    version: "v1",
    aliases: &["gitrepo", "git"],
    family: Some("sources"),
    component: SOURCE_MANAGER,
    finalizer: Some(FINALIZER),
    status_manager: SOURCE_STATUS_MANAGER,
    owner: None,
    // with as few workers as Kustomizations have, a handful of unresponsive hosts would delay all other
    // sources
    concurrency: Concurrency::Waits { at_least: 64 },
    suspends: true,
    columns: &[Column::new("REVISION", &["/status/artifact/revision"])],
};

pub(crate) struct GitRepositories {
    cx: Arc<Context>,
    includers: Includers,
    kit: Arc<Kit>,
}

/// Dependencies of work off the runtime's threads.
struct Context {
    client: Client,
    repositories: Mirror<GitRepository>,
    git: Mirrors,
    storage: Storage,
    watches: Watches,
    egress: Egress,
    sessions: Sessions,
    tenants: Tenants,
    processors: Processors,
    timeout_max: Duration,
}

type Run<'a> = Reconciliation<'a, GitRepositories>;

impl Controller for GitRepositories {
    type Object = GitRepository;
    type Declared = Arc<Declared>;
    type Memory = ();
    type Seen = Seen;
    type Plan = Plan;
    type Done = Done;

    const ABOUT: &'static About = &ABOUT;

    fn new(kit: &Arc<Kit>) -> Self {
        Self {
            cx: Arc::new(Context {
                client: kit.client.clone(),
                repositories: kit.serve_source(),
                git: kit.git.clone(),
                storage: kit.storage.clone(),
                watches: kit.watches.clone(),
                egress: kit.settings.egress.clone(),
                sessions: kit.sessions.clone(),
                tenants: kit.settings.tenants.clone(),
                processors: kit.processors.clone(),
                timeout_max: kit.settings.timeout_max,
            }),
            includers: Includers::default(),
            kit: Arc::clone(kit),
        }
    }

    fn affected(&self, change: &Change<GitRepository>) -> Vec<(ObjectRef, Reason)> {
        let includers = self.includers.changed(change).into_iter();
        let includers = includers.map(|key| (key, Reason::Source));
        let own = own_reason(change.what).map(|reason| (change.key.clone(), reason));
        let all = includers.chain(own);
        all.map(|(key, reason)| (ObjectRef::of(ABOUT.kind, &key), reason))
            .collect()
    }

    fn declare(object: &GitRepository) -> Result<Arc<Declared>, controller::Failure> {
        Ok(Arc::new(Declared::try_from(object)?))
    }

    async fn observe(&self, run: &mut Run<'_>, declared: &Arc<Declared>) -> Result<Seen, Stop> {
        if declared.deleting || declared.unsupported.is_some() {
            return Ok(Seen::Unobserved);
        }
        self.follow(declared).await;
        let work = observe::observe(Arc::clone(&self.cx), Arc::clone(declared), run.status());
        // known sources are checked again and again: only a new one gets a status meanwhile
        let observed = match is_new(declared, &run.status()) {
            true => {
                let progress = |status| progressing(declared, &status, None);
                Box::pin(run.with_progress(PATIENCE, work, progress)).await?
            }
            false => Box::pin(work).await,
        };
        Ok(Seen::Observed(Box::new(observed)))
    }

    fn decide(declared: &Arc<Declared>, seen: &Seen, _now: Instant) -> Plan {
        decide::decide(declared, seen)
    }

    async fn act(
        &self,
        run: &mut Run<'_>,
        declared: &Arc<Declared>,
        seen: Seen,
        plan: Plan,
    ) -> Result<Acted<Done>, Stop> {
        Ok(match plan {
            Plan::Delete => self.delete(declared).await,
            Plan::Fail { failure, lost } => Acted::Done(Done::Failed {
                failure,
                revision: None,
                lost,
            }),
            Plan::Keep => {
                let path = run.status().artifact.map(|artifact| artifact.path);
                let url = path.map(|path| self.cx.storage.url(&path));
                Acted::Done(Done::Kept { url })
            }
            Plan::Publish(revision, why) => {
                let key = run.key();
                tracing::debug!(%key, %revision, ?why, "creating an artifact");
                let Seen::Observed(observed) = seen else {
                    return Ok(Acted::Again);
                };
                self.publish(run, declared, *observed, &revision).await?
            }
        })
    }

    fn report(
        declared: &Arc<Declared>,
        before: &GitRepositoryStatus,
        done: Done,
        now: Timestamp,
    ) -> controller::Report<GitRepositoryStatus> {
        report::report(declared, before, done, now)
    }

    fn interval(&self, object: &GitRepository) -> Duration {
        let remote = self.cx.git.substitute(&object.spec.url).is_none();
        let poll = self.kit.settings.poll.filter(|_| remote);
        poll.unwrap_or_else(|| object.interval())
    }

    fn suspend(&self, key: &Key, (): ()) {
        self.cx.watches.leave(&ObjectRef::of(ABOUT.kind, key));
    }

    fn suspended(declared: &Arc<Declared>, status: GitRepositoryStatus) -> GitRepositoryStatus {
        Draft::new(&status, declared.generation, Timestamp::now()).suspended()
    }

    fn finished(&self, key: &Key) {
        self.kit.source_checked(&ObjectRef::of(Self::ABOUT.kind, key));
    }

    /// Removes the artifacts of an object that was deleted without our finalizer. Artifacts of another
    /// process's object stay until it is deleted: they may be in use.
    async fn forget(&self, key: &Key, (): (), why: Absence) {
        self.cx.watches.leave(&ObjectRef::of(ABOUT.kind, key));
        let place = Place::new(ABOUT.kind, &key.namespace, &key.name);
        if let (Absence::Deleted, true, Ok(place)) = (why, self.cx.repositories.is_ready(), place)
            && let Err(error) = store::remove(&self.cx.storage, place).await
        {
            tracing::warn!(%key, error, "cannot remove the artifacts of a deleted GitRepository");
        }
    }
}

impl GitRepositories {
    /// Watches the directory that replaces the URL before it is read, so that no commit is missed.
    async fn follow(&self, declared: &Declared) {
        let object = ObjectRef::of(ABOUT.kind, &declared.key);
        let path = self.cx.git.substitute(&declared.url);
        self.cx.watches.follow(object, path, Watched::Refs).await;
    }

    async fn publish(
        &self,
        run: &mut Run<'_>,
        declared: &Arc<Declared>,
        observed: decide::Observed,
        revision: &equate_git::Revision,
    ) -> Result<Acted<Done>, Stop> {
        let lost = observed.is_lost();
        let decide::Observed {
            remote,
            included,
            fetching,
            ..
        } = observed;
        let Some(remote) = remote else {
            return Ok(Acted::Done(Done::Unopened));
        };
        let text = revision.to_string();
        let stored = run.status().artifact;
        let shown = stored
            .is_none_or(|artifact| artifact.revision != text)
            .then_some(text);
        let opened = Opened {
            remote,
            included,
            fetching,
        };
        let (cx, own, revision) = (Arc::clone(&self.cx), Arc::clone(declared), revision.clone());
        let deleted = run.deleted(declared.deleting);
        let work = async {
            tokio::select! {
                biased;
                published = act::publish(cx, own, opened, revision) => Some(published),
                () = deleted => None,
            }
        };
        let progress = |status| progressing(declared, &status, shown.as_deref());
        Ok(
            match Box::pin(run.with_progress(PATIENCE, work, progress)).await? {
                Some(Ok(published)) => Acted::Done(Done::Published(Box::new(published))),
                Some(Err(failure)) => Acted::Done(Done::Failed {
                    // an unverified revision is not shown as the newest, nor is one that was never fetched
                    revision: shown.filter(|_| !failure.hides_revision(run.status().artifact.is_none())),
                    failure,
                    lost,
                }),
                // the next run removes the artifacts
                None => Acted::Unreported(Next::After(Duration::ZERO, Reason::Changed)),
            },
        )
    }

    /// Removes its artifacts first: without the finalizer, nothing knows them.
    async fn delete(&self, declared: &Declared) -> Acted<Done> {
        self.cx.watches.leave(&ObjectRef::of(ABOUT.kind, &declared.key));
        match store::remove(&self.cx.storage, declared.publisher.place().clone()).await {
            Ok(()) => Acted::Released,
            Err(error) => Acted::Done(Done::NotRemoved(error)),
        }
    }
}

/// Whether its present spec was never carried out.
fn is_new(declared: &Declared, status: &GitRepositoryStatus) -> bool {
    status.artifact.is_none() || status.observed_generation != Some(declared.generation)
}

fn progressing(
    declared: &Declared,
    status: &GitRepositoryStatus,
    revision: Option<&str>,
) -> GitRepositoryStatus {
    let news = revision.map(report::news);
    Draft::new(status, declared.generation, Timestamp::now()).progressing(news.as_ref())
}

impl Reconcilable for GitRepository {
    type Status = GitRepositoryStatus;

    fn status(&self) -> Option<&GitRepositoryStatus> {
        self.status.as_ref()
    }

    fn interval(&self) -> Duration {
        self.spec.interval.get()
    }

    fn is_suspended(&self) -> bool {
        self.spec.suspend
    }

    fn revision(&self) -> Option<&str> {
        let artifact = self.status.as_ref()?.artifact.as_ref()?;
        Some(&artifact.revision)
    }

    fn revision_time(&self) -> Option<Timestamp> {
        let artifact = self.status.as_ref()?.artifact.as_ref()?;
        Some(artifact.last_update_time.0)
    }
}

crate::standard_status!(GitRepositoryStatus);
