//! Several changes in one push: to a directory, and over HTTP to git's own receive-pack.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    os::unix::fs::PermissionsExt as _,
    time::{Duration, Instant, SystemTime},
};

use equate_git::{
    ChangeError, Commit, Draft, Each, Identity, Limits, Remote, Upstream, WritableRepository, Written, queue,
};
use equate_testkit::git::Repository;

use crate::Fixture;

const NOTES: &str = "refs/notes/equate";
const DEADLINE: Duration = Duration::from_secs(60);

/// A clone that has fetched nothing yet.
struct Clone {
    repository: WritableRepository,
    upstream: Upstream,
    remote: Remote,
    fixture: Fixture,
    _directory: Repository,
}

impl Clone {
    fn of(url: &str) -> Self {
        let directory = Repository::init().unwrap();
        directory.configure("remote \"origin\"", "url", url).unwrap();
        let repository = WritableRepository::discover(directory.path(), Limits::default()).unwrap();
        let upstream = repository.upstream(Some("main")).unwrap();
        Self {
            remote: Remote::new(&upstream.url),
            repository,
            upstream,
            fixture: Fixture::new(),
            _directory: directory,
        }
    }

    fn commit_each<T, E>(
        &self,
        count: usize,
        make: impl FnMut(usize, &[Commit]) -> Result<(Option<Draft>, T), E>,
    ) -> Each<T, E> {
        let mirrors = &self.fixture.mirrors;
        let (remote, upstream) = (&self.remote, &self.upstream);
        self.repository
            .commit_each_upstream(mirrors, remote, upstream, count, make)
    }

    /// The messages of the branch, from the oldest, with those of their notes.
    fn messages(&self) -> Vec<String> {
        let mirrors = &self.fixture.mirrors;
        let tip = self
            .repository
            .fetch_upstream::<Infallible>(mirrors, &self.remote, &self.upstream, NOTES);
        let mut next = Some(tip.unwrap());
        let mut messages = Vec::new();
        while let Some(id) = next {
            let found = self.repository.commit(&id).unwrap();
            let note = self.repository.note(&self.upstream.notes, &id);
            let note = note.map_or_else(String::new, |note| format!(" ({note})"));
            messages.push(format!("{}{note}", found.commit.message()));
            next = found.parents.into_iter().next();
        }
        messages.reverse();
        messages
    }

    /// The number of pushes that this clone remembers.
    fn pushes(&self) -> usize {
        let log = self
            .repository
            .common_dir()
            .join("logs")
            .join(&self.upstream.tracking);
        let log = std::fs::read_to_string(log).unwrap();
        log.lines().filter(|line| line.ends_with("commit: push")).count()
    }
}

/// Adds a line to the list that the tip has.
fn draft(tip: &Commit, name: &str) -> Draft {
    let entry = tip.tree().entry("list").unwrap().unwrap();
    let mut list = tip.tree().read(&entry.id).unwrap().to_vec();
    list.extend_from_slice(format!("{name}\n").as_bytes());
    let who = Identity::parse("Mia Holm <mia@example.org>").unwrap();
    Draft {
        changes: [("list".to_owned(), Some(list))].into(),
        author: who.clone(),
        committer: who,
        time: SystemTime::UNIX_EPOCH,
        message: format!("add {name}"),
        note: Some((NOTES.to_owned(), format!("note of {name}"))),
    }
}

#[track_caller]
fn id<T: std::fmt::Debug, E: std::fmt::Debug>(outcome: &Result<(Written, T), ChangeError<E>>) -> &str {
    match outcome {
        Ok((Written::Commit { id, .. }, _)) => id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn changes_to_a_directory_share_a_push() {
    let remote = Repository::init_bare().unwrap();
    let path = remote.path().display().to_string();
    check(&remote, &path);
}

#[test]
fn changes_over_http_share_a_push() {
    let remote = Repository::init_bare().unwrap();
    if let Some(server) = remote.serve_http().unwrap() {
        check(&remote, &server.url());
    }
}

/// Twelve changes; one is refused, one has nothing to do, and an outsider pushes while the ninth is made.
#[track_caller]
fn check(remote: &Repository, url: &str) {
    remote
        .commit_to("main", "begin", &[("list", Some("begin\n"))])
        .unwrap();
    let clone = Clone::of(url);
    let mut outside = 0;
    let mut asked = Vec::new();
    let each = clone.commit_each(12, |number, commits| {
        asked.push(number);
        if number == 8 && outside == 0 {
            outside += 1;
            let file = [("README.md", Some("by hand\n"))];
            remote.commit_to("main", "by hand", &file).unwrap();
        }
        match number {
            3 => Err("a rule says no"),
            5 => Ok((None, commits.len())),
            number => {
                let name = number.to_string();
                Ok((Some(draft(commits.last().unwrap(), &name)), commits.len()))
            }
        }
    });
    assert!(each.failure.is_none(), "{:?}", each.failure);
    let outcomes: Vec<String> = each
        .done
        .iter()
        .map(|outcome| match outcome {
            Ok((Written::Nothing, _)) => "nothing".to_owned(),
            Ok((Written::Commit { attempts, .. }, commits)) => format!("{attempts} on {commits}"),
            Err(error) => error.to_string(),
        })
        .collect();
    // half of the changes after the loss, then the rest at once
    let expected = [
        "2 on 1",
        "2 on 2",
        "2 on 3",
        "a rule says no",
        "2 on 4",
        "nothing",
        "1 on 1",
        "1 on 2",
        "1 on 3",
        "1 on 4",
        "1 on 5",
        "1 on 6",
    ];
    assert_eq!(outcomes, expected);
    let numbers: Vec<usize> = (0..12).chain(0..6).chain(6..12).collect();
    assert_eq!(asked, numbers);
    assert_eq!(clone.pushes(), 2);
    let mut messages = vec!["begin".to_owned(), "by hand".to_owned()];
    let added = [0, 1, 2, 4, 6, 7, 8, 9, 10, 11];
    messages.extend(added.map(|number| format!("add {number} (note of {number})")));
    assert_eq!(clone.messages(), messages);
    // what the remote has is what was answered
    let fresh = Clone::of(url);
    assert_eq!(fresh.messages(), messages);
    let tip = fresh.repository.tip(&fresh.upstream.tracking).unwrap();
    let tip = fresh.repository.commit(&tip).unwrap().commit;
    let read = |path: &str| {
        let entry = tip.tree().entry(path).unwrap().unwrap();
        String::from_utf8(tip.tree().read(&entry.id).unwrap().to_vec()).unwrap()
    };
    assert_eq!(read("list"), "begin\n0\n1\n2\n4\n6\n7\n8\n9\n10\n11\n");
    assert_eq!(read("README.md"), "by hand\n");
    assert_eq!(id(each.done.last().unwrap()), tip.revision().commit());
}

#[test]
fn failed_push_leaves_the_outcomes_of_the_pushes_before() {
    let remote = Repository::init_bare().unwrap();
    remote
        .commit_to("main", "begin", &[("list", Some("begin\n"))])
        .unwrap();
    let clone = Clone::of(&remote.path().display().to_string());
    let mut lost = false;
    let each = clone.commit_each(4, |number, commits| {
        if number == 1 && !lost {
            lost = true;
            let file = [("README.md", Some("by hand\n"))];
            remote.commit_to("main", "by hand", &file).unwrap();
        }
        // the second push
        if number == 2 && commits.len() == 1 {
            remote.delete_branch("main").unwrap();
        }
        let draft = draft(commits.last().unwrap(), &number.to_string());
        Ok::<_, Infallible>((Some(draft), ()))
    });
    assert!(matches!(&each.failure, Some(ChangeError::NoBranch { .. })));
    let ids: Vec<&str> = each.done.iter().map(id).collect();
    assert_eq!(ids.len(), 2);
    remote.set_branch("main", ids[1]).unwrap();
    let messages = ["begin", "by hand", "add 0 (note of 0)", "add 1 (note of 1)"];
    assert_eq!(clone.messages(), messages);
}

/// Eight changes, of which a hook of the remote refuses the third.
#[test]
fn refused_commit_does_not_take_others_with_it() {
    let remote = Repository::init_bare().unwrap();
    remote
        .commit_to("main", "begin", &[("list", Some("begin\n"))])
        .unwrap();
    let Some(server) = remote.serve_http().unwrap() else {
        return;
    };
    let hook = |subject: &str| {
        let hook = remote.path().join("hooks/pre-receive");
        let text = format!(
            "#!/bin/sh\nwhile read old new name; do\n  case \"$(git log --format=,%s, $old..$new)\" in *',{subject},'*) \
             echo 'a rule says no' >&2; exit 1;; esac\ndone\n"
        );
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        std::fs::write(&hook, text).unwrap();
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    hook("add 2");
    let clone = Clone::of(&server.url());
    let add = |clone: &Clone, count: usize| {
        clone.commit_each(count, |number, commits| {
            let draft = draft(commits.last().unwrap(), &number.to_string());
            Ok::<_, Infallible>((Some(draft), ()))
        })
    };
    let each = add(&clone, 8);
    assert!(each.failure.is_none(), "{:?}", each.failure);
    let refused: Vec<usize> = (0..8).filter(|number| each.done[*number].is_err()).collect();
    assert_eq!(refused, [2]);
    let error = each.done[2].as_ref().unwrap_err().to_string();
    assert!(error.contains("a rule says no"), "{error}");
    let mut messages = vec!["begin".to_owned()];
    let added = [0, 1, 3, 4, 5, 6, 7];
    messages.extend(added.map(|number| format!("add {number} (note of {number})")));
    assert_eq!(clone.messages(), messages);
    // a remote that refuses everything is not asked for each
    hook("add '*'");
    server.take();
    let each = add(&clone, 50);
    assert_eq!(each.done.len(), 2);
    assert!(matches!(&each.failure, Some(ChangeError::Refused { .. })));
    let asked = server.take().len();
    assert!(asked < 100, "{asked} requests");
    assert_eq!(clone.messages(), messages);
}

#[test]
fn requests_that_arrive_during_a_push_share_the_next() {
    const REQUESTS: usize = 12;
    let remote = Repository::init_bare().unwrap();
    remote
        .commit_to("main", "begin", &[("list", Some("begin\n"))])
        .unwrap();
    let clone = Clone::of(&remote.path().display().to_string());
    let (requests, queue) = queue::<usize, String>();
    let (answers, batches) = std::thread::scope(|scope| {
        // dropped with a failed assertion: the senders must not wait for ever
        let mut queue = queue;
        let senders: Vec<_> = (0..REQUESTS)
            .map(|number| {
                let requests = requests.clone();
                scope.spawn(move || requests.send_blocking(number).unwrap().blocking_recv().unwrap())
            })
            .collect();
        drop(requests);
        let mut batches = Vec::new();
        loop {
            let batch = queue.next_batch();
            if batch.is_empty() {
                break;
            }
            let end = Instant::now() + DEADLINE;
            let each = clone.commit_each(batch.len(), |at, commits| {
                // the first push lasts until all other requests wait
                while batches.is_empty() && batch.len() + queue.waiting() < REQUESTS {
                    assert!(Instant::now() < end, "{} requests wait", queue.waiting());
                    std::thread::yield_now();
                }
                let name = batch[at].request.to_string();
                Ok::<_, Infallible>((Some(draft(commits.last().unwrap(), &name)), ()))
            });
            batches.push(batch.len());
            for (waiting, outcome) in batch.into_iter().zip(each.done) {
                waiting.answer(id(&outcome).to_owned());
            }
        }
        let answers: Vec<String> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
        (answers, batches)
    });
    assert!(batches.len() <= 2, "{batches:?}");
    assert_eq!(clone.pushes(), batches.len());
    let found: BTreeSet<&String> = answers.iter().collect();
    assert_eq!(found.len(), REQUESTS);
    for (number, id) in answers.iter().enumerate() {
        let commit = clone.repository.commit(id).unwrap().commit;
        assert_eq!(commit.message(), format!("add {number}"));
    }
    let messages: BTreeSet<String> = clone.messages().into_iter().collect();
    assert_eq!(messages.len(), REQUESTS + 1);
}
