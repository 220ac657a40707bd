//! Changes of a branch of a remote: fetch the tip, make the commit, push, and again if the tip moved.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use gix::{ObjectId, protocol::transport::Service};

use super::{
    ChangeError, Refusal, Tips, WritableRepository, Written, back_off,
    chain::Chain,
    move_ref, move_refs,
    refusal::{left_lock, refusal_of},
    tip_of,
    turn::Turn,
};
use crate::{
    commit::Commit,
    fetch::FetchError,
    local::Head,
    mirrors::Mirrors,
    objects::Draft,
    remote::{Endpoint, Remote},
    store::Store,
    transport::{Pushed, RefUpdate, Session},
};

/// The most tips that a change is made for: fifty others who land first, each with a few pushes between.
pub(super) const ATTEMPTS_MAX: usize = 200;
/// The most refusals in a row because another push holds a ref. A lock that a killed process left stays.
const LOCKED_MAX: usize = 10;
/// The most changes in a row that a remote refuses alone: then it refuses all, as a protected branch does.
const REFUSED_MAX: usize = 3;
/// The most commits on top of ours in which it is looked for.
const ABOVE_MAX: usize = 1_000;
/// The most commits that a fetch says it has.
const HAVES_MAX: usize = 64;

/// A branch of a remote repository that a local branch follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// The URL or directory of the remote, as configured.
    pub url: String,
    /// The branch there.
    pub branch: String,
    /// The local ref that remembers its tip.
    pub tracking: String,
    /// The local ref that remembers the tip of the notes.
    pub notes: String,
    /// A directory in which processes of this machine wait for their turns to push. Not needed for a remote in
    /// a directory, and without it they only race.
    pub turns: Option<PathBuf>,
}

/// The answer to a push.
enum Landing {
    Done,
    /// A ref is not at the expected commit, so nothing was sent.
    Moved,
    Refused {
        words: String,
        cause: Refusal,
        lock: Option<PathBuf>,
    },
}

impl From<Pushed> for Landing {
    fn from(pushed: Pushed) -> Self {
        match pushed {
            Pushed::Done => Self::Done,
            Pushed::Refused(words) => Self::Refused {
                cause: if is_lock(&words) {
                    Refusal::Locked
                } else {
                    Refusal::Rule
                },
                words,
                lock: None,
            },
        }
    }
}

impl Race {
    /// Goes on with half of the changes, after the others of this machine had their turns.
    fn lose(&mut self, changes: usize, attempt: usize) {
        self.share = (changes / 2).max(1);
        // with a turn no loser of the same race is met again, since the others on this machine wait
        if self.turn.is_none() {
            back_off(attempt);
        }
    }
}

impl Upstream {
    /// The URL without credentials, or the directory.
    pub fn place(&self) -> String {
        match Endpoint::parse(&self.url) {
            Ok(endpoint) => endpoint.to_string(),
            Err(_) => self.url.clone(),
        }
    }

    /// The directory, if the remote is on this machine.
    fn directory(&self, root: &Path) -> Option<PathBuf> {
        if let Some(path) = self.url.strip_prefix("file://") {
            return Some(PathBuf::from(path));
        }
        if self.url.contains("://") {
            return None;
        }
        // `host:path` is ssh, as in git
        let is_ssh = self.url.find(':').is_some_and(|at| !self.url[..at].contains('/'));
        (!is_ssh).then(|| root.join(&self.url))
    }
}

/// The outcome of several changes.
#[derive(Debug)]
pub struct Each<T, E> {
    /// The outcomes of the changes in their order, without those that the failure stopped. An error is of one
    /// change alone.
    pub done: Vec<Result<(Written, T), ChangeError<E>>>,
    /// The reason why the other changes are not on the branch.
    pub failure: Option<ChangeError<E>>,
}

/// The outcomes of some changes, in their order.
type Outcomes<T, E> = Vec<Result<(Written, T), ChangeError<E>>>;

/// The ids of the commits of some changes that are not on the branch yet.
type Made<T, E> = Vec<Result<(Option<ObjectId>, T), ChangeError<E>>>;

/// A remote branch to push to.
struct Target<'t> {
    mirrors: &'t Mirrors,
    remote: &'t Remote,
    upstream: &'t Upstream,
}

/// The state of a race with others who push.
struct Race {
    /// The most changes of the next push. Half as many after a loss: a chain that takes longer to make than the
    /// time between two pushes of others never lands.
    share: usize,
    turn: Option<Turn>,
    /// The changes in a row that the remote refused alone.
    refused: usize,
}

/// The notes of releases.
const NOTES: &str = "refs/notes/equate";

impl WritableRepository {
    /// The upstream of a branch: as configured, else the branch of the same name in the only remote or
    /// `origin`. `None` without a remote.
    pub fn upstream(&self, branch: Option<&str>) -> Option<Upstream> {
        let current = match self.head().ok()? {
            Head::Branch(name) | Head::Unborn(name) => Some(name),
            Head::Detached(_) => None,
        };
        let branch = branch.map(str::to_owned).or(current)?;
        let remote = self.setting(&format!("branch.{branch}.remote"));
        let merge = self.setting(&format!("branch.{branch}.merge"));
        let remote = match remote.filter(|remote| remote != ".") {
            Some(remote) => remote,
            None => self.store.with(|repository| {
                let names = repository.remote_names();
                let mut names = names.iter().map(ToString::to_string);
                match names.len() {
                    1 => names.next(),
                    _ => names.find(|name| name == "origin"),
                }
            })?,
        };
        let url = self.setting(&format!("remote.{remote}.pushurl"));
        let url = url.or_else(|| self.setting(&format!("remote.{remote}.url")))?;
        let there = merge
            .as_deref()
            .and_then(|merge| merge.strip_prefix("refs/heads/"))
            .map_or(branch.clone(), str::to_owned);
        Some(Upstream {
            url: ssh_url(&url),
            tracking: format!("refs/remotes/{remote}/{there}"),
            notes: format!("refs/notes/{remote}/equate"),
            branch: there,
            turns: None,
        })
    }

    /// Fetches the upstream's branch and notes with their history, and returns the branch's tip.
    ///
    /// # Errors
    /// The remote does not answer, or has no such branch.
    pub fn fetch_upstream<E>(
        &self,
        mirrors: &Mirrors,
        remote: &Remote,
        upstream: &Upstream,
        notes: &str,
    ) -> Result<String, ChangeError<E>> {
        let tips = self.tips(mirrors, remote, upstream, notes)?;
        Ok(tips.branch.to_string())
    }

    /// Commits a change to the upstream's branch, and pushes it with its note.
    ///
    /// `make` is called for each tip until a push lands. The local branch and the work tree stay.
    ///
    /// # Errors
    /// `make` fails, or the remote does not answer or refuses.
    pub fn commit_upstream<E>(
        &self,
        mirrors: &Mirrors,
        remote: &Remote,
        upstream: &Upstream,
        mut make: impl FnMut(&Commit) -> Result<Option<Draft>, E>,
    ) -> Result<Written, ChangeError<E>> {
        let make = |_: usize, commits: &[Commit]| match commits.last() {
            Some(tip) => make(tip).map(|draft| (draft, ())),
            None => Ok((None, ())),
        };
        let Each { mut done, failure } = self.commit_each_upstream(mirrors, remote, upstream, 1, make);
        match (done.pop(), failure) {
            (_, Some(failure)) => Err(failure),
            (Some(outcome), None) => outcome.map(|(written, ())| written),
            (None, None) => Ok(Written::Nothing),
        }
    }

    /// Commits several changes to the upstream's branch, each in a commit of its own on top of the one before,
    /// and pushes as many as possible at once.
    ///
    /// `make` gets the number of the change, and the commits below it: the branch's tip, and the changes before it
    /// that are not pushed yet. It returns a draft, if any, and a value for the caller. A change that fails is left out
    /// alone. After a lost race all changes of the push are made again for the new tip, in the same order.
    ///
    /// If a rule of the remote refuses a push, its changes are pushed in smaller parts, down to each alone. One that
    /// is refused alone fails; after some in a row, all others do.
    pub fn commit_each_upstream<T, E>(
        &self,
        mirrors: &Mirrors,
        remote: &Remote,
        upstream: &Upstream,
        count: usize,
        mut make: impl FnMut(usize, &[Commit]) -> Result<(Option<Draft>, T), E>,
    ) -> Each<T, E> {
        let target = Target {
            mirrors,
            remote,
            upstream,
        };
        let mut race = Race {
            share: count,
            turn: None,
            refused: 0,
        };
        let mut done = Vec::with_capacity(count);
        while done.len() < count {
            let first = done.len();
            match self.land(&target, &mut race, first..count, &mut make) {
                Ok(landed) => done.extend(landed),
                Err(failure) => {
                    return Each {
                        done,
                        failure: Some(failure),
                    };
                }
            }
        }
        Each { done, failure: None }
    }

    /// Lands the first of some changes with one push, after as many losses as it takes.
    fn land<T, E>(
        &self,
        target: &Target<'_>,
        race: &mut Race,
        changes: Range<usize>,
        make: &mut impl FnMut(usize, &[Commit]) -> Result<(Option<Draft>, T), E>,
    ) -> Result<Outcomes<T, E>, ChangeError<E>> {
        let Target {
            mirrors,
            remote,
            upstream,
        } = *target;
        let reference = format!("refs/heads/{}", upstream.branch);
        let mut locked = 0;
        for attempt in 1..=ATTEMPTS_MAX {
            // the first push is a race that most win; the losers go one after the other
            if attempt > 1 && race.turn.is_none() {
                race.turn = self.turn(upstream);
            }
            let tips = self.tips(mirrors, remote, upstream, NOTES)?;
            let end = changes.end.min(changes.start.saturating_add(race.share));
            let (chain, made) = self.chain(tips, changes.start..end, make)?;
            let written = |id: Option<ObjectId>| match id {
                None => Written::Nothing,
                Some(id) => Written::Commit {
                    id: id.to_string(),
                    attempts: attempt,
                },
            };
            let outcomes = |made: Made<T, E>| -> Outcomes<T, E> {
                let outcomes = made.into_iter();
                outcomes
                    .map(|outcome| outcome.map(|(id, value)| (written(id), value)))
                    .collect()
            };
            if chain.commits() == 0 {
                return Ok(outcomes(made));
            }
            let updates = chain.updates(&reference);
            let pushed = self.push(target, &updates, &chain);
            let (refused, failed) = match pushed {
                Ok(Landing::Done) => {
                    self.remember(upstream, &chain);
                    race.share = race.share.saturating_mul(2);
                    race.refused = 0;
                    return Ok(outcomes(made));
                }
                Ok(Landing::Moved) => {
                    race.lose(made.len(), attempt);
                    continue;
                }
                Ok(Landing::Refused { words, cause, lock }) => (Some((words, cause, lock)), None),
                Err(error) => (None, Some(error)),
            };
            // only the refs say whether the commits arrived
            let now = match (self.tips(mirrors, remote, upstream, NOTES), failed) {
                (Ok(now), None) => now,
                (Ok(now), Some(failed)) if now.branch == tips.branch => return Err(failed.into()),
                (Ok(now), Some(_)) => now,
                (Err::<_, ChangeError<E>>(_), Some(failed)) => {
                    return Err(ChangeError::Unknown {
                        commit: chain.tip().to_string(),
                        place: upstream.place(),
                        source: Box::new(failed),
                    });
                }
                (Err(error), None) => return Err(error),
            };
            if self.is_below(now.branch, chain.tip()) {
                return Ok(outcomes(made));
            }
            if now != tips {
                locked = 0;
                race.lose(made.len(), attempt);
                continue;
            }
            locked += 1;
            let (words, cause, lock) = refused.unwrap_or_default();
            if cause == Refusal::Rule && chain.commits() > 1 {
                // the remote does not say which commit it minds
                race.share = (made.len() / 2).max(1);
                continue;
            }
            if cause != Refusal::Locked || locked > LOCKED_MAX {
                let (place, branch) = (upstream.place(), upstream.branch.clone());
                let refusal = match lock {
                    Some(file) => ChangeError::Locked { place, branch, file },
                    None => ChangeError::Refused {
                        place,
                        branch,
                        words,
                        cause,
                    },
                };
                race.refused += 1;
                if cause != Refusal::Rule || race.refused >= REFUSED_MAX {
                    return Err(refusal);
                }
                return Ok(refuse_one(outcomes(made), refusal));
            }
            back_off(attempt);
        }
        Err(ChangeError::Moved {
            branch: upstream.branch.clone(),
            attempts: ATTEMPTS_MAX,
        })
    }

    /// Makes changes, each for the commit of the one before. Returns the ids of their commits.
    fn chain<T, E>(
        &self,
        tips: Tips,
        changes: Range<usize>,
        make: &mut impl FnMut(usize, &[Commit]) -> Result<(Option<Draft>, T), E>,
    ) -> Result<(Chain, Made<T, E>), ChangeError<E>> {
        let mut commits = vec![self.commit(&tips.branch.to_string())?.commit];
        let mut chain = Chain::new(&self.store, &self.limits, tips);
        let mut made = Vec::with_capacity(changes.len());
        for number in changes {
            made.push(match make(number, &commits) {
                Err(error) => Err(ChangeError::Make(error)),
                Ok((None, value)) => Ok((None, value)),
                Ok((Some(draft), value)) => match chain.add(&draft) {
                    Err(error) => Err(error.into()),
                    Ok(id) => {
                        commits.push(chain.read_tip()?);
                        Ok((Some(id), value))
                    }
                },
            });
        }
        Ok((chain, made))
    }

    /// Processes that push to a directory meet in it; others in the directory of the upstream.
    fn turn(&self, upstream: &Upstream) -> Option<Turn> {
        match upstream.directory(&self.root) {
            Some(directory) => {
                let store = Store::open(&directory, None).ok()?;
                let common = store.with(|repository| repository.common_dir().join("equate"));
                Turn::take(&common, &upstream.branch)
            }
            None => {
                let directory = upstream.turns.as_ref()?;
                Turn::take(directory, &format!("{} {}", upstream.url, upstream.branch))
            }
        }
    }

    /// Whether a commit is among the first parents of a tip.
    fn is_below(&self, tip: ObjectId, commit: ObjectId) -> bool {
        let mut at = tip;
        for _ in 0..ABOVE_MAX {
            if at == commit {
                return true;
            }
            let parent = self.store.with(|repository| {
                let found = repository.find_commit(at).ok()?;
                found.parent_ids().next().map(gix::Id::detach)
            });
            match parent {
                Some(parent) => at = parent,
                None => return false,
            }
        }
        false
    }

    fn remember(&self, upstream: &Upstream, chain: &Chain) {
        let mut updates = vec![RefUpdate {
            name: upstream.tracking.clone(),
            old: self.find(&upstream.tracking),
            new: chain.tip(),
        }];
        if let Some(new) = chain.notes() {
            updates.push(RefUpdate {
                name: upstream.notes.clone(),
                old: self.find(&upstream.notes),
                new,
            });
        }
        let kept = self.store.with(|repository| {
            chain.objects().write(repository)?;
            move_refs(repository, &updates, "push")
        });
        if let Err(error) = kept {
            // the commits are on the remote; the next fetch repeats this
            tracing::warn!(%error, "cannot remember the pushed commit");
        }
    }

    fn tips<E>(
        &self,
        mirrors: &Mirrors,
        remote: &Remote,
        upstream: &Upstream,
        notes: &str,
    ) -> Result<Tips, ChangeError<E>> {
        let reference = format!("refs/heads/{}", upstream.branch);
        let missing = || ChangeError::NoBranch {
            place: upstream.place(),
            branch: upstream.branch.clone(),
        };
        let tips = match upstream.directory(&self.root) {
            Some(directory) => {
                let store = Store::open(&directory, None).map_err(FetchError::from)?;
                let find = |name: &str| store.with(|repository| tip_of(repository, name));
                let tips = Tips {
                    branch: find(&reference).ok_or_else(missing)?,
                    notes: find(notes),
                };
                for id in [Some(tips.branch), tips.notes].into_iter().flatten() {
                    let copied = copy(&store, &self.store, id);
                    copied.map_err(|source| self.repository("write", source))?;
                }
                tips
            }
            None => {
                let known = [self.find(&upstream.tracking), self.find(&upstream.notes)];
                let known: Vec<ObjectId> = known.into_iter().flatten().collect();
                let found = mirrors.with_credentials(remote, |remote| {
                    self.fetch_tips(mirrors, remote, (&reference, notes), &known)
                })?;
                found.ok_or_else(missing)?
            }
        };
        self.store.with(|repository| {
            for (name, id) in [
                (&upstream.tracking, Some(tips.branch)),
                (&upstream.notes, tips.notes),
            ] {
                let known = repository.try_find_reference(name.as_str()).ok().flatten();
                let known = known.and_then(|known| known.try_id().map(gix::Id::detach));
                if let Some(id) = id.filter(|id| known != Some(*id))
                    && let Err(error) = move_ref(repository, name, known, id, "fetch")
                {
                    tracing::debug!(%error, name, "another process moved the ref");
                }
            }
        });
        Ok(tips)
    }

    /// `known` are the last tips: a clone may have too many refs to offer them all.
    fn fetch_tips(
        &self,
        mirrors: &Mirrors,
        remote: &Remote,
        (reference, notes): (&str, &str),
        known: &[ObjectId],
    ) -> Result<Option<Tips>, FetchError> {
        let mut session = mirrors.session(Service::UploadPack, remote)?;
        let Some(branch) = session.advertised(reference)? else {
            return Ok(None);
        };
        let notes = session.advertised(notes)?;
        let tips = Tips { branch, notes };
        let mut wants: Vec<ObjectId> = [Some(branch), notes].into_iter().flatten().collect();
        self.store.with(|repository| -> Result<(), FetchError> {
            wants.retain(|want| !repository.has_object(*want));
            if wants.is_empty() {
                return Ok(());
            }
            let mut haves = known.to_vec();
            if let Ok(references) = repository.references()
                && let Ok(all) = references.all()
            {
                for reference in all.flatten().take(HAVES_MAX) {
                    haves.extend(reference.try_id().map(gix::Id::detach));
                }
            }
            haves.retain(|id| repository.find_commit(*id).is_ok());
            haves.sort_unstable();
            haves.dedup();
            session.fetch(repository, &wants, &haves, None)?;
            Ok(())
        })?;
        Ok(Some(tips))
    }

    fn push(&self, target: &Target<'_>, updates: &[RefUpdate], chain: &Chain) -> Result<Landing, FetchError> {
        let Target {
            mirrors,
            remote,
            upstream,
        } = *target;
        if let Some(directory) = upstream.directory(&self.root) {
            return push_to_directory(&directory, updates, chain);
        }
        mirrors.with_credentials(remote, |remote| {
            let mut session = mirrors.session(Service::ReceivePack, remote)?;
            for update in updates {
                if session.advertised(&update.name)? != update.old {
                    return Ok(Landing::Moved);
                }
            }
            push_all(&mut session, updates, chain).map(Landing::from)
        })
    }
}

/// The outcomes of changes of which only one has a commit, and that was refused.
fn refuse_one<T, E>(outcomes: Outcomes<T, E>, refusal: ChangeError<E>) -> Outcomes<T, E> {
    let mut refusal = Some(refusal);
    let refused = outcomes.into_iter().map(|outcome| match outcome {
        Ok((Written::Commit { .. }, value)) => match refusal.take() {
            Some(refusal) => Err(refusal),
            None => Ok((Written::Nothing, value)),
        },
        other => other,
    });
    refused.collect()
}

/// Without an atomic push the branch goes first: a note of a commit that did not arrive would lie.
fn push_all(session: &mut Session, updates: &[RefUpdate], chain: &Chain) -> Result<Pushed, FetchError> {
    Ok(session.push(updates, chain.objects())?)
}

fn push_to_directory(directory: &Path, updates: &[RefUpdate], chain: &Chain) -> Result<Landing, FetchError> {
    let store = Store::open(directory, None)?;
    let checked_out = store.with(|repository| {
        let head = repository.head_name().ok().flatten();
        repository
            .workdir()
            .and(head)
            .map(|head| head.as_bstr().to_string())
    });
    if updates
        .iter()
        .any(|update| Some(&update.name) == checked_out.as_ref())
    {
        return Ok(Landing::Refused {
            words: "the branch is checked out there".to_owned(),
            cause: Refusal::CheckedOut,
            lock: None,
        });
    }
    let is_old = |update: &RefUpdate| store.with(|repository| tip_of(repository, &update.name)) == update.old;
    if !updates.iter().all(is_old) {
        return Ok(Landing::Moved);
    }
    let moved = store.with(|repository| {
        chain.objects().write(repository)?;
        move_refs(repository, updates, "push")
    });
    let Err(error) = moved else {
        return Ok(Landing::Done);
    };
    let words = whole_text(&error);
    let lock = left_lock(&store, updates);
    let cause = match &lock {
        Some(_) => Refusal::Locked,
        None if is_lock(&words) => Refusal::Locked,
        None => refusal_of(&error),
    };
    Ok(Landing::Refused { words, cause, lock })
}

/// An error with its causes, in one line.
fn whole_text(error: &gix::Error) -> String {
    let first: &dyn std::error::Error = error;
    let causes = std::iter::successors(Some(first), |error| error.source());
    let mut words: Vec<String> = causes.map(ToString::to_string).collect();
    words.dedup();
    words.join(": ")
}

/// Whether another push holds a ref, in the words of git and gix: the protocol has no code for it. The words
/// of hooks and forges, such as "blocked" or "locked branch", are refusals.
fn is_lock(words: &str) -> bool {
    let own = [
        "cannot lock ref",
        "failed to lock",
        "failed to update ref",
        "lock could not be obtained",
    ];
    own.iter().any(|own| words.contains(own))
}

/// Copies a commit, its history and everything they name.
fn copy(from: &Store, to: &Arc<Store>, tip: ObjectId) -> Result<(), gix::Error> {
    let mut pending = vec![tip];
    while let Some(id) = pending.pop() {
        if to.with(|repository| repository.has_object(id)) {
            continue;
        }
        let (kind, data) = from.with(|repository| {
            let object = repository.find_object(id)?;
            Ok::<_, gix::Error>((object.kind, object.data.clone()))
        })?;
        let below = from.with(|repository| -> Result<Vec<ObjectId>, gix::Error> {
            Ok(match kind {
                gix::objs::Kind::Commit => {
                    let commit = repository.find_commit(id)?;
                    let mut below: Vec<ObjectId> = commit.parent_ids().map(gix::Id::detach).collect();
                    below.push(commit.tree_id()?.detach());
                    below
                }
                gix::objs::Kind::Tree => {
                    let tree = repository.find_tree(id)?;
                    let entries = tree.iter().filter_map(Result::ok);
                    let entries = entries.filter(|entry| !entry.mode().is_commit());
                    entries.map(|entry| entry.object_id()).collect()
                }
                gix::objs::Kind::Blob | gix::objs::Kind::Tag => Vec::new(),
            })
        })?;
        let missing = |id: &ObjectId| !to.with(|repository| repository.has_object(*id));
        let missing: Vec<ObjectId> = below.into_iter().filter(missing).collect();
        if missing.is_empty() {
            to.with(|repository| gix::objs::Write::write_buf(&repository.objects, kind, &data))?;
        } else {
            // an object is written after those that it names: a killed copy leaves nothing incomplete
            pending.push(id);
            pending.extend(missing);
        }
    }
    Ok(())
}

/// `git@host:path` as a URL.
fn ssh_url(url: &str) -> String {
    let at = url
        .find(':')
        .filter(|at| !url.contains("://") && !url[..*at].contains('/'));
    match at {
        Some(at) => format!("ssh://{}/{}", &url[..at], url[at + 1..].trim_start_matches('/')),
        None => url.to_owned(),
    }
}

impl Mirrors {
    pub(crate) fn session(&self, service: Service, remote: &Remote) -> Result<Session, FetchError> {
        let endpoint = Endpoint::parse(&remote.url)?;
        let credentials = endpoint.credentials(&remote.credentials)?;
        let deadline = Instant::now() + remote.timeout;
        let (clients, limits) = self.parts();
        let session = Session::open_for(
            service,
            clients,
            remote,
            &endpoint,
            &credentials,
            limits,
            deadline,
        );
        Ok(session?)
    }

    pub(crate) fn with_credentials<T>(
        &self,
        remote: &Remote,
        operation: impl Fn(&Remote) -> Result<T, FetchError>,
    ) -> Result<T, FetchError> {
        match self.own() {
            Some(own) => own.attempt(remote, operation, FetchError::kind, FetchError::advised),
            None => operation(remote),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{is_lock, ssh_url};

    #[test]
    fn only_held_refs_are_tried_again() {
        for words in [
            "refs/heads/main failed to update ref",
            "refs/heads/main cannot lock ref 'refs/heads/main': is at 1 but expected 2",
            "A lock could not be obtained for reference \"refs/heads/main\"",
        ] {
            assert!(is_lock(words), "{words}");
        }
        for words in [
            "refs/heads/main pre-receive hook declined: blocked by policy",
            "refs/heads/main protected branch hook declined: Cannot change this locked branch",
        ] {
            assert!(!is_lock(words), "{words}");
        }
    }

    #[test]
    fn short_ssh_urls_become_urls() {
        assert_eq!(
            ssh_url("git@example.org:a/b.git"),
            "ssh://git@example.org/a/b.git"
        );
        assert_eq!(ssh_url("https://example.org/a"), "https://example.org/a");
        assert_eq!(ssh_url("/srv/a:b"), "/srv/a:b");
        assert_eq!(ssh_url("../a"), "../a");
    }
}
