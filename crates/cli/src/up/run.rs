//! Runs the loop: starts its parts in order, shows their progress, stops them in reverse.

use super::Args;
use super::bootstrap::{self, BootstrapError, Root};
use super::crds::{self, CrdsError, Given};
use super::dashboard::{Known, dashboard};
use super::definitions::Definer;
use super::endpoints::{Endpoints, Loop};
use super::entry::{self, EntryError};
use super::hosts;
use super::live;
use super::once::{self, FINAL_AFTER, Readiness, is_explained, judge, told};
use super::own_credentials::{CredentialsError, Places};
use super::repository::{Repository, RepositoryError};
use super::screen::Screen;
use super::standing::Unwatched;
use super::summary::Facts;
use super::view::{Dashboard, State};
use crate::counts::{self, Requests};
use crate::failure::{Failure, is_broken_pipe};
use crate::kinds::Kinds;
use crate::transit::CertificatesError;
use crate::workspace::{ClaimError, DIRECTORY, Workspace};
use axum::Router;
use equate_api::helm::HelmRelease;
use equate_api::kustomize::Kustomization;
use equate_apiserver::cluster::{BuildError, ServeError, Serving};
use equate_apiserver::{EmbeddedCluster, Identity, Profile, Simulation};
use equate_apply::id::ObjectId;
use equate_apply::plan::Presence;
use equate_controllers::engine::StartError;
use equate_controllers::helm_release;
use equate_controllers::{AwsEnvironment, ControllerSet, Engine, ObjectRef, OwnLoop, Policy};
use equate_egress::Egress;
use equate_git::{Limits, Mirrors, OwnCredentials, SshAlgorithms};
use equate_source::{Retention, Storage, StorageError};
use futures::StreamExt as _;
use futures::future::OptionFuture;
use http::Request;
use kube::Client;
use kube::client::Body;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::{Layer as _, ServiceExt as _};

/// Ages have seconds; redrawing more often would only flicker.
const AGE_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum share of time spent on redrawing ages: one in this.
const AGE_SHARE: u32 = 200;
/// Maximum interval of redrawing ages, even if a view is large.
const AGE_INTERVAL_MAX: Duration = Duration::from_secs(10);
/// Maximum share of time spent on redrawing changes, which matter more.
const CHANGE_SHARE: u32 = 10;
/// Time at shutdown for open responses.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
/// Changes within this time are shown together.
const CHANGE_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of looks at objects that no controller watches, where ages are not shown.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// Objects whose cause is looked for when a wait has failed, and the time for all.
const DIAGNOSED: usize = 20;
const LOOKS_AT_ONCE: usize = 8;
const DIAGNOSIS_TIMEOUT: Duration = Duration::from_secs(2);
/// Time without changes after which summaries are printed: counts have stopped growing.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub(crate) enum UpError {
    #[error("could not determine the working directory")]
    Here(#[source] std::io::Error),
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Transit(#[from] CertificatesError),
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    #[error(transparent)]
    Entry(#[from] EntryError),
    #[error(transparent)]
    Crds(#[from] CrdsError),
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error("could not start the embedded API")]
    Build(#[source] Box<BuildError>),
    #[error("could not serve the embedded API")]
    Serve(#[source] ServeError),
    #[error("could not write {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("could not open the artifact store")]
    Storage(#[from] StorageError),
    #[error("could not prepare the cluster")]
    Bootstrap(#[from] BootstrapError),
    #[error("could not list the definitions of the cluster")]
    Definitions(#[source] Box<kube::Error>),
    #[error("could not start the controllers")]
    Engine(#[from] StartError),
    #[error("could not serve artifacts")]
    Endpoints(#[source] std::io::Error),
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
    #[error("could not use the terminal")]
    Terminal(#[source] std::io::Error),
    #[error("could not listen for signals")]
    Signal(#[source] std::io::Error),
    #[error("not ready after {waited}:\n  {}", reasons.join("\n  "))]
    NotReady {
        waited: String,
        /// Whether the wait ended before the timeout: something failed and nothing else changed.
        early: bool,
        /// Whether all directories are applied, because none was chosen.
        whole: bool,
        reasons: Vec<String>,
    },
    #[error("interrupted before everything was ready:\n  {}", reasons.join("\n  "))]
    Interrupted { reasons: Vec<String> },
}

impl Failure for UpError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Claim(ClaimError::Taken { .. }) => Some("stop it first, or run this in another directory"),
            Self::Repository(RepositoryError::Credentials) => Some(
                "leave them out: use git's credential helper, ~/.netrc, or --username and --password-file",
            ),
            Self::Repository(_) => {
                Some("use a directory in a git repository with a commit, or a URL; see `equate up --help`")
            }
            Self::Crds(error) => error.hint(),
            Self::Serve(ServeError::Listen { .. }) => {
                Some("choose another port with --port, or 0 for any free one")
            }
            // waiting longer does not repair a failure
            Self::Terminal(_) => Some("run it with --no-interactive"),
            Self::NotReady {
                whole: true, early, ..
            } => Some(match early {
                true => {
                    "choose one of the directories above with --path, or run it without --once to watch it"
                }
                false => "choose one of the directories above with --path, or increase --timeout",
            }),
            Self::NotReady { early: true, .. } => Some("run it without --once to watch it"),
            Self::NotReady { early: false, .. } => {
                Some("run it without --once to watch it, or increase --timeout")
            }
            Self::Here(_)
            | Self::Claim(_)
            | Self::Entry(_)
            | Self::Credentials(_)
            | Self::Transit(_)
            | Self::Build(_)
            | Self::Serve(_)
            | Self::Write { .. }
            | Self::Storage(_)
            | Self::Bootstrap(_)
            | Self::Definitions(_)
            | Self::Engine(_)
            | Self::Endpoints(_)
            | Self::Output(_)
            | Self::Signal(_)
            | Self::Interrupted { .. } => None,
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

/// Runs until interrupted, or until the wait of `--once` is over.
pub(crate) async fn run(args: Args, controllers: &ControllerSet, kinds: &Kinds) -> Result<(), UpError> {
    let here = std::env::current_dir().map_err(UpError::Here)?;
    // listen before the parts start: an interrupt during the start cleans up too
    let mut interrupt = std::pin::pin!(crate::interrupt::interrupted());
    let repository = Repository::choose(&args.repository, args.branch.as_deref())?;
    let egress = entry::instead_of(Egress::default(), &args.instead_of)?;
    let (path, all) = match (&repository.directory, args.path.as_deref()) {
        (Some(directory), given) => {
            let path = entry::choose(directory, given)?;
            let all = given.is_none().then(|| entry::whole(directory, &path)).flatten();
            (path, all)
        }
        (None, given) => (entry::check_remote(given)?, None),
    };
    let given = crds::load(&args.crds)?;
    let own = args.credentials.credentials(&repository, Places::of_process())?;
    let workspace = Workspace::claim(&here)?;
    let mut screen = Screen::of_stdout();
    let is_live = !args.once && !args.no_interactive && live::is_possible();
    let whole = all.is_some();
    let empty = repository.directory.as_deref();
    let empty = empty.and_then(|directory| entry::empty(directory, &path));
    let notes: Vec<String> = given.notes.iter().cloned().chain(all).chain(empty).collect();
    for note in &notes {
        screen.note(note).map_err(UpError::Output)?;
    }
    if repository.uncommitted && !is_live {
        screen
            .note("note: uncommitted changes are not applied; commit them first")
            .map_err(UpError::Output)?;
    }
    let starting = Dashboard {
        title: format!("{}  starting", title(&repository, &path)),
        ..Dashboard::default()
    };
    screen.show(&starting).map_err(UpError::Output)?;
    let session = tokio::select! {
        biased;
        result = &mut interrupt => {
            result.map_err(UpError::Signal)?;
            let reasons = vec!["still starting".to_owned()];
            return if args.once { Err(UpError::Interrupted { reasons }) } else { Ok(()) };
        }
        session = Session::start((&args, &path, given, own, egress), &repository, &workspace, controllers, kinds) => session?,
    };
    let outcome = if args.once {
        let timeout = args.timeout.get();
        session
            .until_ready(&mut screen, (timeout, whole), interrupt)
            .await
    } else if is_live {
        session
            .until_ended(&mut screen, repository.directory, &notes, interrupt)
            .await
    } else {
        session.until_interrupted(&mut screen, interrupt).await
    };
    session.stop().await;
    outcome
}

/// The redraw intervals of a view: the longer drawing takes, the longer they are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// For ages alone.
    pub(super) tick: Duration,
    /// After a change, to collect further ones.
    pub(super) calm: Duration,
}

impl Pace {
    /// The pace of a view that took this long to draw.
    pub(super) fn of(cost: Duration) -> Self {
        Self {
            tick: cost
                .saturating_mul(AGE_SHARE)
                .clamp(AGE_INTERVAL, AGE_INTERVAL_MAX),
            calm: cost
                .saturating_mul(CHANGE_SHARE)
                .clamp(CHANGE_INTERVAL, AGE_INTERVAL),
        }
    }
}

struct Session {
    /// The client of views, whose requests are not counted.
    client: Client,
    cluster: EmbeddedCluster,
    serving: Serving,
    engine: Arc<Running>,
    endpoints: JoinHandle<()>,
    definer: Definer,
    /// Defines missing kinds, if that is asked for.
    defining: Option<JoinHandle<()>>,
    stop: CancellationToken,
    title: String,
    hints: Vec<String>,
    kinds: Kinds,
    unwatched: Unwatched,
    /// Removed at the end; none if the state is kept.
    _temporary: Option<tempfile::TempDir>,
}

/// The loop behind the endpoints.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) engine: Engine,
    requests: Requests,
}

impl Session {
    async fn start(
        (args, path, given, own, egress): (&Args, &str, Given, OwnCredentials, Egress),
        repository: &Repository,
        workspace: &Workspace,
        controllers: &ControllerSet,
        kinds: &Kinds,
    ) -> Result<Self, UpError> {
        let (state, temporary) = state_directory(args.persist.as_deref())?;
        let cluster = build(args.persist.as_deref()).await?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
        let serving = cluster.serve(address).await.map_err(UpError::Serve)?;
        let requests = Requests::default();
        let client = in_process(cluster.router(), &requests);
        bootstrap::definitions(&client).await?;
        bootstrap::given(&client, &given).await?;
        let definer = Definer::new(client.clone(), given.catalogues, args.unknown_kinds).await;
        let definer = definer.map_err(|error| UpError::Definitions(Box::new(error)))?;
        bootstrap::user_roles(&client, controllers).await?;
        bootstrap::root(&client, &root(args, path, repository)).await?;
        let endpoints = Endpoints::bind().await.map_err(UpError::Endpoints)?;
        let storage = Storage::open(state.join("artifacts"), &endpoints.url(), Retention::default())?;
        let artifacts = storage.router();
        let engine = Engine::builder(client)
            .controllers(controllers.clone())
            .mirrors(mirrors(repository, &state, egress.clone()).with_own_credentials(own))
            .egress(egress)
            .storage(storage)
            .root(OwnLoop {
                name: bootstrap::NAME.into(),
                namespace: bootstrap::NAME.into(),
                path: path.to_owned(),
            })
            .default_namespace("default")
            .policy(Policy {
                // the one user of this cluster writes all statuses
                external_artifacts: true,
                ..Policy::default()
            })
            .poll(args.poll.get())
            .unreconciled(kinds.without_controller())
            .configure(crate::transit::settings()?)
            .configure(AwsEnvironment::read(|name| std::env::var(name).ok()))
            .start()
            .await?;
        let engine = Arc::new(Running { engine, requests });
        let stop = CancellationToken::new();
        let defining = definer.is_active().then(|| {
            let running = definer.clone().run(Arc::clone(&engine), stop.clone());
            tokio::spawn(running)
        });
        let description = endpoints.description();
        let serving_endpoints =
            endpoints.serve(artifacts, Arc::clone(&engine) as Arc<dyn Loop>, stop.clone());
        let session = Self {
            title: title(repository, path),
            hints: hints(args),
            kinds: kinds.in_up(true),
            unwatched: Unwatched::default(),
            endpoints: tokio::spawn(serving_endpoints),
            definer,
            defining,
            client: in_process(cluster.router(), &Requests::default()),
            cluster,
            serving,
            engine,
            stop,
            _temporary: temporary,
        };
        session.announce(workspace, &description)?;
        Ok(session)
    }

    /// Writes the files by which others reach this loop. The kubeconfig is last: once it exists, everything
    /// does.
    fn announce(&self, workspace: &Workspace, endpoints: &str) -> Result<(), UpError> {
        let path = workspace.endpoints();
        crate::workspace::write_private(&path, endpoints)
            .map_err(|source| UpError::Write { path, source })?;
        let path = workspace.kubeconfig();
        self.cluster
            .write_kubeconfig(&self.serving, &path)
            .map_err(|source| UpError::Write { path, source })
    }

    fn dashboard(&self) -> Dashboard {
        let engine = &self.engine.engine;
        dashboard(Known {
            title: self.title.clone(),
            hints: self.hints.clone(),
            kinds: &self.kinds,
            reconciled: &engine.reconciled(),
            observed: &|id| match engine.object(id) {
                Presence::Present(observed) => Some(observed),
                Presence::Absent | Presence::Unknown => None,
            },
            looked: &self.unwatched.look(self.cluster.reading()),
            kept: &engine.own_files(),
            facts: &self.facts(),
            now: jiff::Timestamp::now(),
        })
    }

    fn facts(&self) -> Facts {
        let engine = &self.engine.engine;
        let sources = engine.objects::<Kustomization>().into_iter();
        let blocked = sources.filter_map(|object| {
            let source = &object.spec.source_ref;
            let kind = self.kinds.named(source.kind.as_str())?;
            let meta = &object.metadata;
            let owner = ObjectRef::new("Kustomization", meta.namespace.clone()?, meta.name.clone()?);
            kind.is_unsupported()
                .then(|| (owner, format!("{}/{}", kind.kind, source.name)))
        });
        let releases = engine.objects::<HelmRelease>().into_iter();
        let remote = releases.filter_map(|release| {
            let meta = &release.metadata;
            let owner = ObjectRef::new("HelmRelease", meta.namespace.clone()?, meta.name.clone()?);
            release.spec.kube_config.is_some().then_some(owner)
        });
        let missing = engine.missing_kinds();
        let kinds = missing.values().flat_map(|missing| missing.kinds.keys());
        let served = kinds.filter_map(|gvk| {
            let known = self.kinds.find(&gvk.group, &gvk.kind)?;
            (known.version != gvk.version).then(|| ((gvk.group.clone(), gvk.kind.clone()), known.version))
        });
        Facts {
            served: served.collect(),
            missing,
            defined: self.definer.defined(),
            blocked: blocked.collect(),
            remote: remote.collect(),
            unreachable: hosts::unanswered(engine),
            skipped_webhooks: self.cluster.skipped_webhooks(),
        }
    }

    /// Shows the interactive view until a key or a signal ends it.
    async fn until_ended(
        &self,
        screen: &mut Screen,
        repository: Option<PathBuf>,
        notes: &[String],
        interrupt: Pin<&mut impl Future<Output = std::io::Result<()>>>,
    ) -> Result<(), UpError> {
        screen.clear().map_err(UpError::Output)?;
        let dashboard = || {
            let mut dashboard = self.dashboard();
            dashboard.notes.extend(notes.iter().cloned());
            dashboard
        };
        let seen = live::Seen {
            client: self.client.clone(),
            kinds: &self.kinds,
            repository,
            dashboard: &dashboard,
            changes: self.engine.engine.changes(),
        };
        let last = live::run(seen, interrupt).await.map_err(UpError::Terminal)?;
        let line = format!("{}  ended: {}", self.title, counted(&last));
        screen.note(&line).map_err(UpError::Output)
    }

    async fn until_interrupted(
        &self,
        screen: &mut Screen,
        mut interrupt: Pin<&mut impl Future<Output = std::io::Result<()>>>,
    ) -> Result<(), UpError> {
        let mut changes = self.engine.engine.changes();
        loop {
            let begun = Instant::now();
            let dashboard = self.dashboard();
            screen.show(&dashboard).map_err(UpError::Output)?;
            let pace = Pace::of(begun.elapsed());
            tokio::select! {
                result = &mut interrupt => return result.map_err(UpError::Signal),
                () = tokio::time::sleep(pace.tick.max(LOOK_INTERVAL)), if !screen.shows_ages() => {}
                () = tokio::time::sleep(pace.tick), if screen.shows_ages() => {}
                () = tokio::time::sleep(SETTLED_AFTER), if screen.has_news(&dashboard) => {
                    screen.summarise(&dashboard).map_err(UpError::Output)?;
                }
                _ = changes.changed() => tokio::time::sleep(pace.calm).await,
            }
        }
    }

    /// Waits until everything is ready, a failure is final, or the timeout.
    async fn until_ready(
        &self,
        screen: &mut Screen,
        (timeout, whole): (Duration, bool),
        mut interrupt: Pin<&mut impl Future<Output = std::io::Result<()>>>,
    ) -> Result<(), UpError> {
        let mut changes = self.engine.engine.changes();
        let begun = Instant::now();
        let mut quiet_since = begun;
        let mut shown = 0;
        loop {
            changes.mark_unchanged();
            // before the statuses are read, which then show objects that catch up in between
            let behind = self.engine.engine.behind();
            let dashboard = self.dashboard();
            screen.show(&dashboard).map_err(UpError::Output)?;
            // objects of releases change without the controllers
            if shown != std::mem::replace(&mut shown, dashboard.digest()) {
                quiet_since = Instant::now();
            }
            let verdict = judge(&dashboard).unless_behind(behind);
            let engine = &self.engine.engine;
            // what fails may need a kind or a release that is still to come
            let goes_on = self.definer.is_pending(&engine.missing_kinds())
                || engine
                    .objects::<HelmRelease>()
                    .iter()
                    .any(|release| helm_release::is_releasing(release));
            let (deadline, reasons) = match verdict {
                Readiness::Ready => {
                    return screen.summarise(&dashboard).map_err(UpError::Output);
                }
                Readiness::Failed(reasons) if goes_on => (begun + timeout, reasons),
                Readiness::Waiting(reasons) => (begun + timeout, reasons),
                Readiness::Failed(reasons) => ((quiet_since + FINAL_AFTER).min(begun + timeout), reasons),
            };
            tokio::select! {
                result = &mut interrupt => {
                    result.map_err(UpError::Signal)?;
                    return Err(UpError::Interrupted { reasons });
                }
                () = tokio::time::sleep_until(deadline) => {
                    let causes = tokio::select! {
                        result = &mut interrupt => {
                            result.map_err(UpError::Signal)?;
                            BTreeMap::new()
                        }
                        causes = self.causes(&dashboard) => causes,
                    };
                    let told = once::reasons(&dashboard, &causes);
                    // all is ready, at an older revision
                    let reasons = if told.is_empty() { reasons } else { told };
                    screen.note_all(&dashboard.notes).map_err(UpError::Output)?;
                    let waited = format!("{:.0?}", begun.elapsed());
                    let early = deadline < begun + timeout;
                    return Err(UpError::NotReady {
                        waited,
                        early,
                        whole,
                        reasons,
                    });
                }
                () = tokio::time::sleep(SETTLED_AFTER), if !screen.is_settled() => {
                    screen.settle().map_err(UpError::Output)?;
                }
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
                _ = changes.changed() => quiet_since = Instant::now(),
            }
        }
    }

    /// The causes of the first rows that are not ready: a container's last line, a missing node.
    async fn causes(&self, dashboard: &Dashboard) -> BTreeMap<ObjectId, String> {
        // others have the causes of dependents
        let unwell = told(dashboard).filter(|(group, row)| {
            !is_explained(row) && !dashboard.dependents.contains(&group.full_name(row))
        });
        let ids = unwell.filter_map(|(_, row)| row.id.clone()).take(DIAGNOSED);
        let looks = futures::stream::iter(ids).map(|id| async move {
            let cause = crate::explain::cause(&self.client, &self.kinds, &id).await;
            cause.map(|cause| (id, cause))
        });
        let mut looks = std::pin::pin!(looks.buffer_unordered(LOOKS_AT_ONCE));
        let mut causes = BTreeMap::new();
        let end = Instant::now() + DIAGNOSIS_TIMEOUT;
        // the messages alone are enough if the cluster does not answer
        while let Ok(Some(found)) = tokio::time::timeout_at(end, looks.next()).await {
            causes.extend(found);
        }
        causes
    }

    /// Stops the parts in reverse order.
    async fn stop(self) {
        self.stop.cancel();
        if let Some(Err(error)) = OptionFuture::from(self.defining).await {
            tracing::warn!(%error, "defining missing kinds failed");
        }
        let abort = self.endpoints.abort_handle();
        match tokio::time::timeout(SHUTDOWN_TIMEOUT, self.endpoints).await {
            Ok(Ok(_served)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the HTTP endpoints failed"),
            // a client does not finish reading an artifact
            Err(_elapsed) => abort.abort(),
        }
        match Arc::try_unwrap(self.engine) {
            Ok(running) => running.engine.stop().await,
            Err(_shared) => tracing::warn!("a response is still open; dropping the controllers"),
        }
        self.serving.stop().await;
        self.cluster.stop().await;
    }
}

impl Loop for Running {
    fn wake_sources(&self) {
        self.engine.wake_sources();
    }

    fn metrics(&self) -> String {
        let mut registry = Registry::default();
        counts::engine(&mut registry, &self.engine.stats(), &self.engine.queues());
        self.requests.register(&mut registry);
        counts::page(&[&registry])
    }
}

/// An administrator's client of an in-process API, with counted requests.
pub(super) fn in_process(api: Router, requests: &Requests) -> Client {
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let api = api.clone();
        async move {
            request.extensions_mut().insert(Identity::admin());
            api.oneshot(request).await
        }
    });
    Client::new(requests.layer(service), "default")
}

async fn build(persist: Option<&Path>) -> Result<EmbeddedCluster, UpError> {
    let mut builder = EmbeddedCluster::builder().controllers(Profile {
        workloads: Some(Simulation::default()),
        ..Profile::default()
    });
    if let Some(directory) = persist {
        builder = builder.journal(directory.join("cluster.redb"));
    }
    builder
        .build()
        .await
        .map_err(|error| UpError::Build(Box::new(error)))
}

/// The directory of mirrors and artifacts: the persistent one, or a temporary one.
fn state_directory(persist: Option<&Path>) -> Result<(PathBuf, Option<tempfile::TempDir>), UpError> {
    if let Some(directory) = persist {
        std::fs::create_dir_all(directory).map_err(|source| UpError::Write {
            path: directory.into(),
            source,
        })?;
        return Ok((directory.into(), None));
    }
    let temporary = tempfile::Builder::new()
        .prefix("equate-")
        .tempdir()
        .map_err(|source| UpError::Write {
            path: std::env::temp_dir(),
            source,
        })?;
    Ok((temporary.path().into(), Some(temporary)))
}

fn root(args: &Args, path: &str, repository: &Repository) -> Root {
    Root {
        url: repository.url.clone(),
        reference: repository.reference.clone(),
        path: path.to_owned(),
        interval: args.poll.to_string(),
    }
}

fn mirrors(repository: &Repository, state: &Path, egress: Egress) -> Mirrors {
    let (root, ssh) = (state.join("git"), SshAlgorithms::default());
    let mirrors = Mirrors::with_egress(root, Limits::default(), ssh, egress);
    match &repository.directory {
        Some(directory) => mirrors.instead_of(&repository.url, directory),
        None => mirrors,
    }
}

fn title(repository: &Repository, path: &str) -> String {
    let branch = repository
        .reference
        .branch
        .as_ref()
        .or(repository.reference.name.as_ref());
    format!(
        "equate up  {}  {}  {}",
        repository.name,
        branch.map_or("", String::as_str),
        path
    )
}

/// `3 ready, 1 failed`.
fn counted(dashboard: &Dashboard) -> String {
    let mut counts: BTreeMap<State, usize> = BTreeMap::new();
    for row in dashboard.groups.iter().flat_map(|group| &group.rows) {
        *counts.entry(row.state).or_default() += 1;
    }
    let counts = counts
        .iter()
        .map(|(state, count)| format!("{count} {}", state.word()));
    counts.collect::<Vec<_>>().join(", ")
}

fn hints(args: &Args) -> Vec<String> {
    if args.once {
        return Vec::new();
    }
    vec![format!(
        "KUBECONFIG={DIRECTORY}/kubeconfig kubectl get pods -A    equate tree ks flux-system    Ctrl-C stops"
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_views_are_redrawn_less_often() {
        let check = |cost: u64, tick: u64, calm: u64| {
            let expected = Pace {
                tick: Duration::from_millis(tick),
                calm: Duration::from_millis(calm),
            };
            assert_eq!(Pace::of(Duration::from_millis(cost)), expected);
        };
        check(0, 1000, 100);
        check(5, 1000, 100);
        check(33, 6600, 330);
        check(500, 10_000, 1000);
    }
}
