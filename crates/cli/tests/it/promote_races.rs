//! Many promotions at once in one repository, while somebody pushes with git.

use crate::promote::{clone_of, command, commit, files, git, local};
use crate::session::printed;
use equate_testkit::git::Repository;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The promotions at once; fifty are in `forge`, and in `cargo xtask bench release` with the release binary.
const PROMOTIONS: usize = 10;

#[test]
fn trap_05_promotions_land_in_a_directory() {
    let remote = Repository::init_bare().unwrap();
    let path = remote.path().display().to_string();
    check(&remote, &path);
}

#[test]
fn trap_05_promotions_land_over_http() {
    let remote = Repository::init_bare().unwrap();
    if let Some(server) = remote.serve_http().unwrap() {
        check(&remote, &server.url());
    }
}

fn check(remote: &Repository, url: &str) {
    let names = names(PROMOTIONS);
    let services: Vec<&str> = names.iter().map(String::as_str).collect();
    commit(remote, &files(&services));
    let clones: Vec<Repository> = services.iter().map(|_| clone_of(url)).collect();
    let outside = race(&services, &clones, &clone_of(url));
    check_history(remote.path(), &services, outside);
}

/// Promotes each service to staging in its clone, all at once, while somebody pushes to `main` from `outsider`.
/// Returns the number of that one's commits.
#[track_caller]
pub(crate) fn race(services: &[&str], clones: &[Repository], outsider: &Repository) -> usize {
    git(outsider.path(), &["pull", "--quiet", "origin", "main"]).unwrap();
    // the clones are of one user, who has one directory for turns
    let cache = tempfile::tempdir().unwrap();
    let running: Vec<Child> = services
        .iter()
        .zip(clones)
        .map(|(service, clone)| start(clone, service, cache.path()))
        .collect();
    let ends = AtomicBool::new(false);
    let (outputs, outside) = std::thread::scope(|scope| {
        let pushed = scope.spawn(|| push_between(outsider.path(), &ends));
        let outputs: Vec<_> = running
            .into_iter()
            .map(|child| child.wait_with_output().unwrap())
            .collect();
        ends.store(true, Ordering::Release);
        (outputs, pushed.join().unwrap())
    });
    outputs.iter().for_each(landed);
    assert!(outside > 0);
    outside
}

#[test]
fn trap_05_promotions_land_in_one_work_tree() {
    let names = names(PROMOTIONS);
    let services: Vec<&str> = names.iter().map(String::as_str).collect();
    let repository = local(&services);
    let cache = tempfile::tempdir().unwrap();
    let running: Vec<Child> = services
        .iter()
        .map(|service| start(&repository, service, cache.path()))
        .collect();
    for child in running {
        landed(&child.wait_with_output().unwrap());
    }
    check_history(repository.path(), &services, 0);
    assert_eq!(git(repository.path(), &["status", "--porcelain"]).unwrap(), "");
}

pub(crate) fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("service-{number:02}")).collect()
}

fn start(clone: &Repository, service: &str, cache: &Path) -> Child {
    let mut command = command(clone.path(), &["promote", service, "--to", "staging"]);
    command
        .env("XDG_CACHE_HOME", cache)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[track_caller]
fn landed(output: &Output) {
    assert!(output.status.success(), "{}", printed(output));
    assert!(printed(output).contains("committed  "), "{}", printed(output));
}

/// One commit for each service, with its note, and those of the outsider; no merge.
#[track_caller]
pub(crate) fn check_history(remote: &Path, services: &[&str], outside: usize) {
    let here = |arguments: &[&str]| git(remote, arguments).unwrap();
    here(&["fsck", "--strict"]);
    assert_eq!(here(&["rev-list", "--min-parents=2", "main"]), "", "a merge");
    let subjects = here(&["log", "--format=%s", "main"]);
    let (promoted, others): (Vec<&str>, Vec<&str>) = subjects
        .lines()
        .partition(|subject| subject.starts_with("promote "));
    let wanted: BTreeSet<String> = services
        .iter()
        .map(|service| format!("promote {service} 2.4.1 to staging"))
        .collect();
    assert_eq!(promoted.len(), wanted.len(), "{subjects}");
    assert_eq!(
        promoted.into_iter().map(str::to_owned).collect::<BTreeSet<_>>(),
        wanted
    );
    // the first commit, and all of the outsider's
    assert_eq!(others.len(), outside + 1, "{subjects}");
    // each promotion changed one file, and has its note
    let noted = here(&["notes", "--ref=equate", "list"]);
    assert_eq!(noted.lines().count(), services.len(), "{noted}");
    for id in here(&["rev-list", "--grep=^promote ", "main"]).lines() {
        assert!(noted.contains(id), "{id} has no note");
        let changed = here(&["diff-tree", "--no-commit-id", "-r", "--name-only", id]);
        assert_eq!(changed.lines().count(), 1, "{changed}");
    }
    for service in services {
        let file = format!("main:apps/staging/{service}/kustomization.yaml");
        assert!(here(&["show", &file]).contains("newTag: 2.4.1"));
    }
}

/// Pushes a commit to the same branch with git, as a person does, each time that somebody else's landed. Pushes
/// without a pause would win every time: a promotion takes longer. Returns the number of commits.
fn push_between(clone: &Path, ends: &AtomicBool) -> usize {
    let (mut number, mut mine) = (0, String::new());
    let tip = || git(clone, &["ls-remote", "--heads", "origin", "main"]).unwrap();
    while !ends.load(Ordering::Acquire) {
        if tip() == mine {
            std::thread::park_timeout(Duration::from_millis(20));
            continue;
        }
        number += 1;
        std::fs::write(clone.join("README.md"), format!("change {number}\n")).unwrap();
        git(clone, &["commit", "--quiet", "-am", "by hand"]).unwrap();
        let mut attempts = 0;
        while let Err(refused) = git(clone, &["push", "--quiet", "origin", "HEAD:main"]) {
            attempts += 1;
            assert!(attempts < 1_000, "{refused}");
            git(clone, &["pull", "--quiet", "--rebase", "origin", "main"]).unwrap();
        }
        let commit = git(clone, &["rev-parse", "HEAD"]).unwrap();
        mine = format!("{}\trefs/heads/main\n", commit.trim_end());
    }
    number
}
