//! The history of versions, from commits alone.
//!
//! A commit changes a version if the build of its tree has another one than the build of its first parent's.
//! So commits made by hand count, and merges like the changes they bring. A tree that does not build hides nothing:
//! the next one that builds is compared with the last one that did.
//!
//! History grows from the oldest commit to the newest. A unit is built again only where a commit changed a
//! path that its last build read, and a directory that gets earlier content back is not built again. A
//! stored history grows by the commits since then, to the same result as from nothing.
//!
//! Builds take most of the time. [`Builder`] makes them ahead, on other threads.

mod ahead;
mod changes;
mod growth;
mod stored;

pub use ahead::{Builder, Built};
pub use growth::Growth;
pub use stored::{file_name, key};

use crate::artifact::Artifact;
use crate::config::Place;
use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use stored::Texts;

/// A commit of the branch, without its message and its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its id.
    pub id: String,
    /// The committer's time.
    pub time: Timestamp,
    /// The author's name.
    pub author: String,
    /// The author's address.
    pub email: String,
}

/// A change of a service's versions in an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The commit.
    pub commit: Commit,
    /// The environment.
    pub environment: String,
    /// The service.
    pub service: String,
    /// The versions before; `None` if the service was not there.
    pub before: Option<Artifact>,
    /// The versions after; `None` if the service is gone.
    pub after: Option<Artifact>,
}

/// A time in which an environment had some versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spell {
    /// The environment.
    pub environment: String,
    /// The commit that brought them.
    pub since: Commit,
    /// The commit that took them away.
    pub until: Option<Commit>,
}

/// The times in which environments had the versions of an artifact, newest first. The entries are of one
/// service, newest first.
pub fn spells(entries: &[Entry], artifact: &Artifact) -> Vec<Spell> {
    let mut later: BTreeMap<&str, &Commit> = BTreeMap::new();
    let mut spells = Vec::new();
    for entry in entries {
        let until = later.insert(&entry.environment, &entry.commit);
        if entry
            .after
            .as_ref()
            .is_some_and(|after| after.agrees_with(artifact))
        {
            spells.push(Spell {
                environment: entry.environment.clone(),
                since: entry.commit.clone(),
                until: until.cloned(),
            });
        }
    }
    spells
}

/// The number of a text in [`Texts`].
type Text = u32;

/// The changes of versions up to a commit, with all that is needed to go on from there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    texts: Texts,
    /// The oldest and the newest commit.
    first: Text,
    tip: Text,
    /// The number of commits.
    length: u32,
    /// Whether the oldest commit has no parent.
    is_whole: bool,
    /// The commits that changed a version, from the oldest.
    commits: Vec<CommitRow>,
    tracks: Vec<Track>,
    /// The changes, from the oldest.
    rows: Vec<Row>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CommitRow {
    id: Text,
    seconds: i64,
    author: Text,
    email: Text,
}

/// A change of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    commit: u32,
    track: u32,
    service: Text,
    /// The empty text if there is no version.
    before: Text,
    after: Text,
}

/// A directory that is built on its own, through time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Track {
    environment: Text,
    /// The empty text if the directory has many services.
    service: Text,
    directory: Text,
    /// Whether the newest commit has the directory.
    is_there: bool,
    /// The first commit since which the directory does not build.
    broken: Option<u32>,
    /// The services of the last build and their versions; `None` if no commit is known that builds. A directory
    /// that is not there has no services.
    last: Option<Vec<(Text, Text)>>,
    /// The paths that the last build read, relative to the directory.
    reads: Vec<Text>,
}

/// The service and the place of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<'h> {
    /// The environment.
    pub environment: &'h str,
    /// The service.
    pub service: &'h str,
    /// The directory that is built.
    pub directory: &'h str,
}

/// A directory of the newest commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current {
    /// The directory.
    pub place: Place,
    /// Its services and their versions; `None` if it does not build.
    pub services: Option<BTreeMap<String, Artifact>>,
}

impl History {
    /// The id of the newest commit; empty without commits.
    pub fn tip(&self) -> &str {
        self.texts.get(self.tip)
    }

    /// The id of the oldest commit, and whether it has no parent.
    pub fn first(&self) -> (&str, bool) {
        (self.texts.get(self.first), self.is_whole)
    }

    /// The number of commits, with those that changed no version.
    pub fn length(&self) -> usize {
        self.length as usize
    }

    /// The wanted changes, from the newest.
    pub fn entries<'h>(
        &'h self,
        mut wanted: impl FnMut(Key<'h>) -> bool + 'h,
    ) -> impl Iterator<Item = Entry> + 'h {
        let rows = self.rows_where(|_| true);
        let mut artifacts = Artifacts::new(self);
        rows.into_iter().filter_map(move |row| {
            let key = self.key(row)?;
            wanted(key).then(|| self.entry(row, key, &mut artifacts))?
        })
    }

    /// The changes of the wanted directories, from the newest. Each directory is asked for once.
    pub fn entries_in<'h>(&'h self, wanted: &dyn Fn(&str) -> bool) -> impl Iterator<Item = Entry> + use<'h> {
        let tracks = self.tracks.iter();
        let is_wanted: Vec<bool> = tracks
            .map(|track| wanted(self.texts.get(track.directory)))
            .collect();
        let rows = self.rows_where(|row| is_wanted.get(row.track as usize).is_some_and(|wanted| *wanted));
        let mut artifacts = Artifacts::new(self);
        rows.into_iter()
            .filter_map(move |row| self.entry(row, self.key(row)?, &mut artifacts))
    }

    /// From the newest.
    fn rows_where(&self, is_wanted: impl Fn(&Row) -> bool) -> Vec<Row> {
        let rows = self.rows.iter().copied().chain(self.ends());
        let mut rows: Vec<Row> = rows.filter(is_wanted).collect();
        rows.sort_by_key(|row| Reverse(row.commit));
        rows
    }

    fn key(&self, row: Row) -> Option<Key<'_>> {
        let track = self.tracks.get(row.track as usize)?;
        Some(Key {
            environment: self.texts.get(track.environment),
            service: self.texts.get(row.service),
            directory: self.texts.get(track.directory),
        })
    }

    fn entry(&self, row: Row, key: Key<'_>, artifacts: &mut Artifacts<'_>) -> Option<Entry> {
        Some(Entry {
            commit: self.commit(row.commit)?,
            environment: key.environment.to_owned(),
            service: key.service.to_owned(),
            before: artifacts.get(row.before),
            after: artifacts.get(row.after),
        })
    }

    /// The ends of versions whose directories do not build now.
    fn ends(&self) -> impl Iterator<Item = Row> + '_ {
        self.tracks.iter().zip(0..).flat_map(|(track, number)| {
            let broken = track
                .broken
                .and_then(|commit| Some((commit, track.last.as_ref()?)));
            broken.into_iter().flat_map(move |(commit, last)| {
                let versioned = last.iter().filter(|(_, artifact)| *artifact != 0);
                versioned.map(move |(service, artifact)| Row {
                    commit,
                    track: number,
                    service: *service,
                    before: *artifact,
                    after: 0,
                })
            })
        })
    }

    fn commit(&self, number: u32) -> Option<Commit> {
        let row = self.commits.get(number as usize)?;
        Some(Commit {
            id: self.texts.get(row.id).to_owned(),
            time: Timestamp::from_second(row.seconds).unwrap_or(Timestamp::UNIX_EPOCH),
            author: self.texts.get(row.author).to_owned(),
            email: self.texts.get(row.email).to_owned(),
        })
    }

    /// The directories of the newest commit, sorted.
    pub fn current(&self) -> Vec<Current> {
        let there = self.tracks.iter().filter(|track| track.is_there);
        let mut artifacts = Artifacts::new(self);
        let mut found: Vec<Current> = there
            .map(|track| {
                let services = || {
                    let last = track.last.iter().flatten();
                    let named = last.map(|(service, artifact)| {
                        let artifact = artifacts.get(*artifact);
                        (self.texts.get(*service).to_owned(), artifact.unwrap_or_default())
                    });
                    named.collect()
                };
                Current {
                    place: self.place(track),
                    services: track.broken.is_none().then(services),
                }
            })
            .collect();
        found.sort_by(|one, other| one.place.cmp(&other.place));
        found
    }

    fn place(&self, track: &Track) -> Place {
        let service = self.texts.get(track.service);
        Place {
            environment: self.texts.get(track.environment).to_owned(),
            service: (!service.is_empty()).then(|| service.to_owned()),
            directory: self.texts.get(track.directory).to_owned(),
        }
    }
}

/// The artifacts of texts, each read once: environments have the same versions one after the other.
struct Artifacts<'h> {
    history: &'h History,
    known: HashMap<Text, Option<Artifact>>,
}

impl<'h> Artifacts<'h> {
    fn new(history: &'h History) -> Self {
        Self {
            history,
            known: HashMap::new(),
        }
    }

    fn get(&mut self, number: Text) -> Option<Artifact> {
        let known = self.known.entry(number);
        known
            .or_insert_with(|| stored::artifact(self.history.texts.get(number)))
            .clone()
    }
}

#[cfg(test)]
mod tests;
