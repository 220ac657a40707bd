//! The interactive view of `equate up`, if standard output is a terminal.
//!
//! `model` takes keys and news in and says what to do; `draw` turns it into cells; both are pure. Here is the
//! loop between them, the engine and the terminal. It only reads: no key changes the cluster.

mod activity;
mod draw;
mod load;
mod model;
mod pane;
mod terminal;
#[cfg(test)]
mod tests;

pub(super) use terminal::is_possible;

use super::run::Pace;
use super::view::Dashboard;
use crate::kinds::Kinds;
use crate::log;
use crate::watch::{self, Event as Change, Selectors};
use equate_git::LocalRepository;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::{Api, Client};
use load::Loader;
use model::{Ask, Input, Model};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;
use terminal::{Keys, Screen};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Interval of the check for uncommitted changes, and the most that it may take of it: one in this.
const UNCOMMITTED_INTERVAL: Duration = Duration::from_secs(2);
const UNCOMMITTED_SHARE: u32 = 20;
/// The parts of a running loop that the view reads.
pub(super) struct Seen<'a> {
    pub(super) client: Client,
    pub(super) kinds: &'a Kinds,
    /// The repository, if it is on this machine.
    pub(super) repository: Option<PathBuf>,
    pub(super) dashboard: &'a dyn Fn() -> Dashboard,
    pub(super) changes: Receiver<u64>,
}

/// Shows the loop until a key or a signal ends it; returns the last state.
pub(super) async fn run(
    seen: Seen<'_>,
    mut interrupt: Pin<&mut impl Future<Output = io::Result<()>>>,
) -> io::Result<Dashboard> {
    let Seen {
        client,
        kinds,
        repository,
        dashboard,
        mut changes,
    } = seen;
    let loader = Loader {
        client: client.clone(),
        kinds: kinds.clone(),
        is_local: repository.is_some(),
        directory: match &repository {
            Some(directory) => directory.clone(),
            None => std::env::current_dir()?,
        },
    };
    let (sender, mut inputs) = unbounded_channel();
    let mut tasks = Tasks {
        loader,
        sender: sender.clone(),
        running: JoinSet::new(),
    };
    tasks
        .running
        .spawn(follow_events(client, kinds.clone(), sender.clone()));
    if let Some(directory) = repository {
        tasks.running.spawn(follow_uncommitted(directory, sender.clone()));
    }
    let mut screen = Screen::open()?;
    let (columns, lines) = screen.size()?;
    let mut model = Model::new(Timestamp::now(), columns, lines);
    let _keys = Keys::read(sender);
    tasks.start(model.update(Input::Dashboard(dashboard())));
    let (mut updating, mut drawing) = (Duration::ZERO, Duration::ZERO);
    let mut turns = Turns::new();
    let mut is_stale = true;
    loop {
        if is_stale {
            let begun = Instant::now();
            model.now = Timestamp::now();
            screen.draw(&model)?;
            drawing = begun.elapsed();
        }
        is_stale = true;
        let pace = Pace::of(updating + drawing);
        let next = tokio::select! {
            result = &mut interrupt => {
                result?;
                return Ok(model.dashboard);
            }
            next = turns.next(&pace, &mut inputs, &mut changes) => next,
        };
        let input = match next {
            Next::Input(input) => Some(input),
            Next::Refresh => None,
            Next::Later => {
                is_stale = false;
                continue;
            }
        };
        let mut asks = match input {
            Some(input) => model.update(input),
            None => {
                for line in log::Held::news() {
                    model.update(Input::Warning(line));
                }
                let begun = Instant::now();
                let asks = model.update(Input::Dashboard(dashboard()));
                updating = begun.elapsed();
                asks
            }
        };
        // a fleet that starts has thousands of events: they are drawn together
        while let Ok(input) = inputs.try_recv() {
            asks.extend(model.update(input));
        }
        if asks.contains(&Ask::End) {
            return Ok(model.dashboard);
        }
        tasks.start(asks);
    }
}

enum Next {
    Input(Input),
    /// The dashboard is read again.
    Refresh,
    /// A change is shown with those that follow it soon.
    Later,
}

/// When the dashboard is read again: soon after a change, and at each tick for ages and causes.
struct Turns {
    refreshed: Instant,
    /// Set after a change that is not shown yet.
    due: Option<Instant>,
}

impl Turns {
    fn new() -> Self {
        Self {
            refreshed: Instant::now(),
            due: None,
        }
    }

    async fn next(
        &mut self,
        pace: &Pace,
        inputs: &mut UnboundedReceiver<Input>,
        changes: &mut Receiver<u64>,
    ) -> Next {
        // not counted from the last input: a steady one would put it off for ever
        let tick = self.refreshed + pace.tick;
        let refresh = self.due.map_or(tick, |due| due.min(tick));
        tokio::select! {
            Some(input) = inputs.recv() => return Next::Input(input),
            _ = changes.changed(), if self.due.is_none() => {
                self.due = Some(Instant::now() + pace.calm);
                return Next::Later;
            }
            () = tokio::time::sleep_until(refresh) => {}
        }
        *self = Self::new();
        Next::Refresh
    }
}

/// Tasks beside the view, which end with it.
struct Tasks {
    loader: Loader,
    sender: UnboundedSender<Input>,
    running: JoinSet<()>,
}

impl Tasks {
    fn start(&mut self, asks: Vec<Ask>) {
        while self.running.try_join_next().is_some() {}
        for ask in asks {
            let (loader, sender) = (self.loader.clone(), self.sender.clone());
            match ask {
                Ask::End => {}
                Ask::Load(request) => {
                    self.running.spawn(async move {
                        let content = loader.load(&request).await;
                        // the view has ended
                        let _ended = sender.send(Input::Loaded(request, content));
                    });
                }
                Ask::Diagnose(id) => {
                    self.running.spawn(async move {
                        let cause = loader.cause(&id).await;
                        let _ended = sender.send(Input::Cause(id, cause));
                    });
                }
            }
        }
    }
}

async fn follow_events(client: Client, kinds: Kinds, sender: UnboundedSender<Input>) {
    let api: Api<Event> = Api::all(client);
    let mut changes = watch::watch(&api, Selectors::default()).boxed();
    while let Some(change) = changes.next().await {
        let input = match change {
            Ok(Change::Applied(item)) => ours(&kinds, vec![item.value]),
            Ok(Change::Listed(items)) => ours(&kinds, items.into_iter().map(|item| item.value).collect()),
            Ok(Change::Deleted(_)) => continue,
            Err(error) => Input::Warning(format!("the activity is interrupted: {}", error.line())),
        };
        if sender.send(input).is_err() {
            return;
        }
    }
}

/// The events about objects that the controllers reconcile.
fn ours(kinds: &Kinds, mut events: Vec<Event>) -> Input {
    events.retain(|event| {
        let object = &event.involved_object;
        let version = object.api_version.as_deref().unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        kinds
            .find(group, object.kind.as_deref().unwrap_or_default())
            .is_some()
    });
    Input::Events(events)
}

async fn follow_uncommitted(directory: PathBuf, sender: UnboundedSender<Input>) {
    loop {
        let directory = directory.clone();
        let begun = Instant::now();
        let found = tokio::task::spawn_blocking(move || LocalRepository::discover(&directory)).await;
        // a repository that cannot be read now, as in the middle of a rebase, is read again
        if let Ok(Ok(local)) = found
            && sender.send(Input::Uncommitted(local.uncommitted)).is_err()
        {
            return;
        }
        let cost = begun.elapsed().saturating_mul(UNCOMMITTED_SHARE);
        tokio::time::sleep(cost.max(UNCOMMITTED_INTERVAL)).await;
    }
}
