//! Releases that are killed at each step: one commit or none, and the next call says which.
//!
//! The process stops where a server does not answer, or where a lock of git is held, and is killed there.

use crate::promote::{clone_of, command, commit, files, git, local, remote, run};
use crate::session::DEADLINE;
use equate_testkit::git::{Fault, Repository};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

#[test]
fn trap_20_push_over_http_that_is_killed_is_one_commit_or_none() {
    let remote = Repository::init_bare().unwrap();
    commit(&remote, &files(&["checkout"]));
    let Some(server) = remote.serve_http().unwrap() else {
        return;
    };
    let clone = clone_of(&server.url());
    let steps = [
        (
            "it asks for the branch",
            Fault::Before("service=git-upload-pack"),
            false,
        ),
        (
            "it asks for the refs",
            Fault::Before("service=git-receive-pack"),
            false,
        ),
        ("the pack is sent", Fault::Before("/git-receive-pack"), false),
        (
            "the refs moved, without an answer",
            Fault::After("/git-receive-pack"),
            true,
        ),
    ];
    for (number, (step, fault, lands)) in steps.into_iter().enumerate() {
        let version = format!("4.{number}.0");
        let held = server.held();
        server.set(fault);
        let child = start(&clone, &version);
        wait_until(step, || server.held() > held);
        kill(child);
        server.set(Fault::None);
        check(step, &clone, remote.path(), &version, lands);
    }
}

#[test]
fn trap_20_push_to_a_directory_that_is_killed_is_one_commit_or_none() {
    let (clone, remote) = remote(&["checkout"]);
    let [here, there] = [clone.path().join(".git"), remote.path().to_owned()];
    let (before, after) = (
        "the objects are written",
        "the refs moved, and the clone's did not",
    );
    let steps = [
        (before, &there, there.join("refs/heads/main.lock"), false),
        (after, &here, here.join("refs/remotes/origin/main.lock"), true),
    ];
    for repository in [&clone, &remote] {
        wait_for_locks(repository);
    }
    // the number of objects of one release
    let _first = run(&clone, &release("3.9.0"), 0);
    let counts = [objects(&here), objects(&there)];
    let _second = run(&clone, &release("3.9.1"), 0);
    let added = [objects(&here) - counts[0], objects(&there) - counts[1]];
    assert_eq!(added[0], added[1]);
    for (number, (step, store, lock, lands)) in steps.into_iter().enumerate() {
        let version = format!("4.{number}.0");
        let count = objects(store) + added[0];
        std::fs::write(&lock, "").unwrap();
        let child = start(&clone, &version);
        wait_until(step, || objects(store) >= count);
        kill(child);
        std::fs::remove_file(&lock).unwrap();
        check(step, &clone, remote.path(), &version, lands);
    }
}

#[test]
fn trap_20_local_commit_that_is_killed_is_one_commit_or_none() {
    let repository = local(&["checkout"]);
    wait_for_locks(&repository);
    let git_dir = repository.path().join(".git");
    let file = repository.path().join("apps/dev/checkout/kustomization.yaml");
    let _first = run(&repository, &release("3.9.0"), 0);
    let count = objects(&git_dir);
    let _second = run(&repository, &release("3.9.1"), 0);
    let added = objects(&git_dir) - count;
    for (number, (step, lock)) in [
        ("the file is written, and the index is not", "index.lock"),
        (
            "the index is written, and the branch did not move",
            "refs/heads/main.lock",
        ),
        // one that is killed between two locks leaves a lock, as git does: it has to be removed by hand
    ]
    .into_iter()
    .enumerate()
    {
        let version = format!("4.{number}.0");
        let lock = git_dir.join(lock);
        let count = objects(&git_dir) + added;
        std::fs::write(&lock, "").unwrap();
        let child = start(&repository, &version);
        wait_until(step, || {
            let is_written = std::fs::read_to_string(&file).is_ok_and(|text| text.contains(&version));
            is_written && (lock.ends_with("index.lock") || objects(&git_dir) >= count)
        });
        kill(child);
        std::fs::remove_file(&lock).unwrap();
        check(step, &repository, repository.path(), &version, false);
        let status = git(repository.path(), &["status", "--porcelain"]).unwrap();
        assert_eq!(status, "", "{step}");
    }
}

fn image(version: &str) -> String {
    format!("registry.example/checkout={version}")
}

fn release(version: &str) -> [&'static str; 6] {
    let image: &'static str = Box::leak(image(version).into_boxed_str());
    ["release", "checkout", "--to", "dev", "--image", image]
}

fn start(clone: &Repository, version: &str) -> Child {
    let mut command = command(clone.path(), &release(version));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn kill(mut child: Child) {
    assert!(child.try_wait().unwrap().is_none(), "it did not wait");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Lets processes wait for the locks of refs.
fn wait_for_locks(repository: &Repository) {
    repository
        .configure("core", "filesRefLockTimeout", "600000")
        .unwrap();
}

/// The number of loose objects.
fn objects(git_dir: &Path) -> usize {
    let names = |path: PathBuf| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(path).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let name_length = |path: &Path| path.file_name().map_or(0, std::ffi::OsStr::len);
    let directories = names(git_dir.join("objects"))
        .into_iter()
        .filter(|path| name_length(path) == 2);
    let found = directories.flat_map(names);
    found.filter(|path| name_length(path) == 38).count()
}

#[track_caller]
fn wait_until(step: &str, reached: impl Fn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !reached() {
        assert!(Instant::now() < end, "not reached: {step}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// The next call says whether the commit is there, and makes it if not.
#[track_caller]
fn check(step: &str, clone: &Repository, remote: &Path, version: &str, lands: bool) {
    let commits = || {
        let subject = format!("--grep=checkout {version} ");
        let found = git(remote, &["log", "--format=%s", &subject, "main"]).unwrap();
        found.lines().count()
    };
    assert_eq!(commits(), usize::from(lands), "{step}");
    let text = run(clone, &release(version), 0);
    match lands {
        true => assert_eq!(text, format!("checkout {version} is in dev already\n"), "{step}"),
        false => assert!(text.contains("committed  ID on main"), "{step}: {text}"),
    }
    assert_eq!(commits(), 1, "{step}");
    git(remote, &["fsck", "--strict"]).unwrap();
    // branch and notes moved together
    let note = git(remote, &["notes", "--ref=equate", "show", "main"]).unwrap();
    assert!(note.contains(version), "{step}: {note}");
}
