//! The commits of a branch, from the oldest to the newest.

use super::stored::{short, text};
use super::{Built as Ahead, Commit, CommitRow, History, Row, Text, Track, changes};
use crate::config::{Config, Place, is_directory};
use crate::fleet::{Built, Unit, above_or_at, is_within};
use crate::overlay::Memory;
use equate_kustomize::{EntryKind, ReadError, Stat, Tree};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The most directories whose builds are remembered.
pub(super) const MEMO_MAX: usize = 100_000;

/// A history that grows by commits.
pub struct Growth<'c> {
    history: History,
    config: &'c Config,
    environments: Vec<&'c str>,
    by_directory: HashMap<String, u32>,
    /// The tracks that read a path.
    watches: BTreeMap<String, BTreeSet<u32>>,
    /// Builds by track and by the id of the directory, of directories that read nothing outside.
    memo: HashMap<(u32, [u8; 32]), Arc<Outcome>>,
    /// Builds of the next commit, by directory.
    ahead: Ahead,
}

impl std::fmt::Debug for Growth<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Growth")
            .field("history", &self.history)
            .finish_non_exhaustive()
    }
}

/// The result of a build.
pub(super) struct Outcome {
    /// The services and the texts of their versions; `None` if the directory does not build.
    services: Option<BTreeMap<String, String>>,
    /// The paths that were read, relative to the directory.
    reads: Vec<String>,
}

impl<'c> Growth<'c> {
    /// Goes on with a history, or begins an empty one.
    pub fn new(history: History, config: &'c Config) -> Self {
        let mut growth = Self {
            environments: config.environments().collect(),
            history,
            config,
            by_directory: HashMap::new(),
            watches: BTreeMap::new(),
            memo: HashMap::new(),
            ahead: Ahead::default(),
        };
        let History { texts, tracks, .. } = &growth.history;
        for (track, number) in tracks.iter().zip(0..) {
            let directory = texts.get(track.directory);
            growth.by_directory.insert(directory.to_owned(), number);
            for read in &track.reads {
                let path = absolute(directory, texts.get(*read));
                growth.watches.entry(path).or_default().insert(number);
            }
        }
        growth
    }

    /// The history up to here.
    pub fn finish(self) -> History {
        self.history
    }

    /// Takes builds of the next commit to be added.
    pub fn expect(&mut self, built: Ahead) {
        self.ahead = built;
    }

    /// Adds the oldest commit. Without a parent, it brought all that it has; else its parent is not known.
    pub fn begin(&mut self, tree: &dyn Tree, commit: &Commit, is_root: bool) {
        self.history.is_whole = is_root;
        self.history.first = self.history.texts.number(&commit.id);
        if is_root {
            self.advance(&Memory::default(), tree, commit);
            return;
        }
        self.arrive(commit);
        let mut row = None;
        for place in self.config.services.pattern().places(tree, &self.environments) {
            let track = self.track(&place, None);
            self.update(track, tree, commit, &mut row);
        }
        self.ahead = Ahead::default();
    }

    /// Adds the next commit. `before` is the tree of its first parent, the newest commit up to now.
    pub fn advance(&mut self, before: &dyn Tree, after: &dyn Tree, commit: &Commit) {
        self.arrive(commit);
        let changed = changes::between(before, after, &|directory| self.leads_on(directory));
        let mut affected: BTreeSet<(Place, u32)> = BTreeSet::new();
        for path in &changed {
            for part in above_or_at(path) {
                for track in self.watches.get(part).into_iter().flatten() {
                    let place = self.history.place(&self.history.tracks[*track as usize]);
                    affected.insert((place, *track));
                }
            }
            let pattern = self.config.services.pattern();
            let Some(place) = pattern.place_of(&self.environments, path) else {
                continue;
            };
            let number = match self.by_directory.get(&place.directory) {
                Some(number) if self.history.tracks[*number as usize].is_there => continue,
                Some(number) => *number,
                None if !is_directory(after, &place.directory) => continue,
                None => self.track(&place, Some(Vec::new())),
            };
            affected.insert((place, number));
        }
        let mut row = None;
        for (_, track) in affected {
            self.update(track, after, commit, &mut row);
        }
        self.ahead = Ahead::default();
    }

    fn arrive(&mut self, commit: &Commit) {
        self.history.tip = self.history.texts.number(&commit.id);
        self.history.length = self.history.length.saturating_add(1);
    }

    /// Whether a directory has paths that a build read, or directories that are built.
    fn leads_on(&self, directory: &str) -> bool {
        let pattern = self.config.services.pattern();
        if pattern.leads_to_place(&self.environments, directory) || self.watches.contains_key(directory) {
            return true;
        }
        let below = format!("{directory}/");
        let next = self.watches.range(below.clone()..).next();
        next.is_some_and(|(path, _)| path.starts_with(&below))
    }

    fn track(&mut self, place: &Place, last: Option<Vec<(Text, Text)>>) -> u32 {
        let number = short(self.history.tracks.len());
        let texts = &mut self.history.texts;
        let track = Track {
            environment: texts.number(&place.environment),
            service: texts.number(place.service.as_deref().unwrap_or_default()),
            directory: texts.number(&place.directory),
            is_there: false,
            broken: None,
            last,
            reads: Vec::new(),
        };
        self.history.tracks.push(track);
        self.by_directory.insert(place.directory.clone(), number);
        number
    }

    /// Builds a directory again. `row` is the commit's, once it has one.
    fn update(&mut self, number: u32, tree: &dyn Tree, commit: &Commit, row: &mut Option<u32>) {
        let place = self.history.place(&self.history.tracks[number as usize]);
        let is_there = is_directory(tree, &place.directory);
        let outcome = match is_there {
            true => self.outcome(number, tree, &place),
            false => Arc::new(Outcome {
                services: Some(BTreeMap::new()),
                reads: Vec::new(),
            }),
        };
        self.watch(number, &place.directory, &outcome.reads);
        let texts = &mut self.history.texts;
        let services = outcome.services.as_ref().map(|services| {
            let numbered = services
                .iter()
                .map(|(service, artifact)| (texts.number(service), texts.number(artifact)));
            numbered.collect::<Vec<_>>()
        });
        let at = number as usize;
        self.history.tracks[at].is_there = is_there;
        let Some(services) = services else {
            // nothing is known about this tree: the next one that builds decides
            if self.history.tracks[at].broken.is_none() {
                let broken = self.row(commit, row);
                self.history.tracks[at].broken = Some(broken);
            }
            return;
        };
        let track = &mut self.history.tracks[at];
        track.broken = None;
        let Some(last) = track.last.replace(services.clone()) else {
            return;
        };
        for (service, before, after) in self.differences(&last, &services) {
            let commit = self.row(commit, row);
            self.history.rows.push(Row {
                commit,
                track: number,
                service,
                before,
                after,
            });
        }
    }

    /// The services whose versions differ, by name. A service without a version is as good as none.
    fn differences(&self, before: &[(Text, Text)], after: &[(Text, Text)]) -> Vec<(Text, Text, Text)> {
        let mut both: BTreeMap<&str, (Text, Text, Text)> = BTreeMap::new();
        let mut add = |services: &[(Text, Text)], is_after: bool| {
            for (service, artifact) in services {
                let name = self.history.texts.get(*service);
                let found = both.entry(name).or_insert((*service, 0, 0));
                match is_after {
                    true => found.2 = *artifact,
                    false => found.1 = *artifact,
                }
            }
        };
        add(before, false);
        add(after, true);
        let differing = both.into_values().filter(|(_, before, after)| before != after);
        differing.collect()
    }

    fn row(&mut self, commit: &Commit, known: &mut Option<u32>) -> u32 {
        *known.get_or_insert_with(|| {
            let texts = &mut self.history.texts;
            let row = CommitRow {
                id: texts.number(&commit.id),
                seconds: commit.time.as_second(),
                author: texts.number(&commit.author),
                email: texts.number(&commit.email),
            };
            self.history.commits.push(row);
            short(self.history.commits.len() - 1)
        })
    }

    fn watch(&mut self, number: u32, directory: &str, reads: &[String]) {
        let track = &self.history.tracks[number as usize];
        let texts = &self.history.texts;
        let known = track.reads.iter().map(|read| texts.get(*read));
        if known.eq(reads.iter().map(String::as_str)) {
            return;
        }
        let old: Vec<String> = track
            .reads
            .iter()
            .map(|read| absolute(directory, texts.get(*read)))
            .collect();
        for path in old {
            if let Some(tracks) = self.watches.get_mut(&path) {
                tracks.remove(&number);
                if tracks.is_empty() {
                    self.watches.remove(&path);
                }
            }
        }
        for read in reads {
            let path = absolute(directory, read);
            self.watches.entry(path).or_default().insert(number);
        }
        let texts = &mut self.history.texts;
        let numbers = reads.iter().map(|read| texts.number(read)).collect();
        self.history.tracks[number as usize].reads = numbers;
    }

    fn outcome(&mut self, number: u32, tree: &dyn Tree, place: &Place) -> Arc<Outcome> {
        let id = tree.stat(&place.directory).map(|stat| stat.id);
        let key = (number, id.unwrap_or_default());
        if let Some(known) = self.memo.get(&key) {
            return Arc::clone(known);
        }
        let outcome = match self.ahead.0.get(&place.directory) {
            Some(built) => Arc::clone(built),
            None => Arc::new(Outcome::of(tree, self.config, place)),
        };
        if outcome.is_own() {
            if self.memo.len() >= MEMO_MAX {
                self.memo.clear();
            }
            self.memo.insert(key, Arc::clone(&outcome));
        }
        outcome
    }
}

impl Outcome {
    /// Whether it depends on nothing but the content of its directory.
    pub(super) fn is_own(&self) -> bool {
        self.services.is_some() && self.reads.iter().all(|read| !read.starts_with('/'))
    }

    pub(super) fn of(tree: &dyn Tree, config: &Config, place: &Place) -> Self {
        let directory = place.directory.as_str();
        let unit = Unit::build(tree, config, place.clone());
        match &unit.state {
            Ok(built) => Self {
                services: Some(services(built)),
                reads: built
                    .inputs
                    .paths()
                    .map(|path| relative(directory, path))
                    .collect::<BTreeSet<String>>()
                    .into_iter()
                    .collect(),
            },
            Err(_) => {
                // a build that fails does not say what it read
                let recorder = Recorder {
                    tree,
                    directory,
                    read: RefCell::default(),
                };
                Unit::build(&recorder, config, place.clone());
                let mut read = recorder.read.into_inner();
                read.insert(directory.to_owned());
                Self {
                    services: None,
                    reads: read.iter().map(|path| relative(directory, path)).collect(),
                }
            }
        }
    }
}

fn services(built: &Built) -> BTreeMap<String, String> {
    let names = built.services.keys();
    names
        .map(|service| (service.clone(), text(&built.artifact(service))))
        .collect()
}

/// `./a` for a path in the directory, `.` for the directory, `/a` for any other.
fn relative(directory: &str, path: &str) -> String {
    match path.strip_prefix(directory) {
        Some("") => ".".to_owned(),
        Some(rest) if is_within(directory, path) => format!("./{}", rest.trim_start_matches('/')),
        Some(_) | None => format!("/{path}"),
    }
}

fn absolute(directory: &str, relative: &str) -> String {
    match (relative.strip_prefix('/'), relative.strip_prefix("./")) {
        (Some(path), _) => path.to_owned(),
        (None, Some(rest)) => crate::config::join(directory, rest),
        (None, None) => directory.to_owned(),
    }
}

/// Remembers the paths on which a failure depends: other content there may end it.
struct Recorder<'t> {
    tree: &'t dyn Tree,
    directory: &'t str,
    read: RefCell<BTreeSet<String>>,
}

impl Tree for Recorder<'_> {
    fn stat(&self, path: &str) -> Option<Stat> {
        let stat = self.tree.stat(path);
        let is_directory = stat.is_some_and(|stat| stat.kind == EntryKind::Directory);
        // of the directories on the way, other content counts only if it was read
        if !(is_directory && (path == self.directory || is_within(path, self.directory))) {
            self.read.borrow_mut().insert(path.to_owned());
        }
        stat
    }

    fn list(&self, dir: &str) -> Option<Vec<(String, Stat)>> {
        self.read.borrow_mut().insert(dir.to_owned());
        self.tree.list(dir)
    }

    fn read(&self, path: &str) -> Result<bytes::Bytes, ReadError> {
        self.read.borrow_mut().insert(path.to_owned());
        self.tree.read(path)
    }
}
