//! Local directories: substituted for a URL, watched and inspected; changed by the real git program.

use std::{
    path::Path,
    process::Command,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Duration,
};

use equate_git::{Head, Kind, Limits, LocalRepository, Reference, Remote, watch};
use equate_testkit::git::Repository;

use crate::{Fixture, chain};

const URL: &str = "https://example.org/fleet.git";

/// Runs git; `false` if it is not installed.
fn git(directory: &Path, arguments: &[&str]) -> bool {
    let mut command = Command::new("git");
    command
        .current_dir(directory)
        .args([
            "-c",
            "user.name=Test",
            "-c",
            "user.email=test@example.org",
            "-c",
            "safe.directory=*",
        ])
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    match command.output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "git {arguments:?}: {said}");
            true
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: the git program is not installed");
            false
        }
        Err(error) => panic!("git {arguments:?}: {error}"),
    }
}

#[test]
fn a_directory_is_substituted_for_a_url() {
    let repository = Repository::init().unwrap();
    let first = repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let second = repository.commit(&[("b/c.yaml", Some("c: 1\n"))]).unwrap();
    repository.annotated_tag("v1.0.0", &first).unwrap();
    let fixture = Fixture::new();
    let worktree = fixture.directory.path().join("linked");
    let mut places = vec![repository.path().to_owned(), repository.path().join(".git")];
    let linked = [
        "worktree",
        "add",
        "--quiet",
        "-b",
        "topic",
        worktree.to_str().unwrap(),
    ];
    if git(repository.path(), &linked) {
        places.push(worktree);
    }
    for place in places {
        let mirrors = fixture.mirrors.clone().instead_of(URL, &place);
        let remote = Remote::new(URL);
        let check = |reference: Reference, want: &str, files: usize| {
            let revision = mirrors.resolve(&remote, &reference).unwrap();
            let numbered = revision.to_string().replace(&first, "#1").replace(&second, "#2");
            assert_eq!(numbered, want, "{reference} in {}", place.display());
            let commit = mirrors.fetch(&remote, &revision).unwrap();
            assert_eq!(commit.tree().entries().unwrap().len(), files);
        };
        check(Reference::branch("main"), "main@sha1:#2", 2);
        check(Reference::tag("v1.0.0"), "v1.0.0@sha1:#1", 1);
        check(Reference::name("HEAD"), "HEAD@sha1:#2", 2);
        check(Reference::semver("*"), "v1.0.0@sha1:#1", 1);
        check(Reference::commit(&first), "sha1:#1", 1);
        check(Reference::name("refs/heads/main"), "refs/heads/main@sha1:#2", 2);
    }
    let mirrors = fixture.mirrors.clone().instead_of(URL, repository.path());
    let missing = mirrors
        .resolve(&Remote::new(URL), &Reference::branch("mani"))
        .unwrap_err();
    let place = repository.path().display();
    assert!(chain(&missing).starts_with(&format!(
        "branch \"mani\" does not exist in {place}; near it: main"
    )));
    assert!(
        !fixture.directory.path().join("mirrors").exists(),
        "nothing is copied"
    );

    let nothing = fixture.mirrors.clone().instead_of(URL, fixture.directory.path());
    let error = nothing
        .resolve(&Remote::new(URL), &Reference::branch("main"))
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Storage);
    assert!(
        chain(&error).contains(" as a git repository"),
        "{}",
        chain(&error)
    );
}

#[test]
fn repository_state_is_inspected() {
    let repository = Repository::init().unwrap();
    let look = || LocalRepository::discover(repository.path()).unwrap();
    assert_eq!(look().head, Head::Unborn("main".to_owned()));
    let commit = repository
        .commit(&[("a.yaml", Some("a: 1\n")), ("d/b.yaml", Some("b: 1\n"))])
        .unwrap();
    let here = look();
    assert_eq!(here.head, Head::Branch("main".to_owned()));
    assert_eq!(here.root, repository.path().canonicalize().unwrap());
    assert_eq!((here.origin, here.uncommitted), (None, false));
    assert_eq!(
        LocalRepository::discover(&repository.path().join("d"))
            .unwrap()
            .root,
        here.root
    );

    repository
        .configure("remote \"origin\"", "url", "https://me:hunter2@example.org/fleet")
        .unwrap();
    assert_eq!(look().origin.as_deref(), Some("https://example.org/fleet"));

    let file = |path: &str| repository.path().join(path);
    let check = |what: &str, want: bool| assert_eq!(look().uncommitted, want, "{what}");
    std::fs::write(file("a.yaml"), "a: 2\n").unwrap();
    check("a changed file of the same size", true);
    std::fs::write(file("a.yaml"), "a: 1\n").unwrap();
    check("the same content again", false);
    std::fs::remove_file(file("d/b.yaml")).unwrap();
    check("a removed file", true);
    std::fs::write(file("d/b.yaml"), "b: 1\n").unwrap();
    check("the file again", false);
    std::fs::write(file("d/new.yaml"), "n: 1\n").unwrap();
    check("a new file", true);
    std::fs::write(file(".git/info/exclude"), "new.yaml\n").unwrap();
    check("a new file that is ignored", false);
    std::fs::create_dir(file(".equate")).unwrap();
    std::fs::write(file(".equate/.gitignore"), "*\n").unwrap();
    std::fs::write(file(".equate/kubeconfig"), "k").unwrap();
    check("a directory that ignores itself", false);

    if git(repository.path(), &["checkout", "--quiet", "--detach"]) {
        assert_eq!(look().head, Head::Detached(commit));
        check("after git wrote the index", false);
        std::fs::write(file("a.yaml"), "a: 3\n").unwrap();
        git(repository.path(), &["add", "a.yaml"]);
        check("a staged change", true);
    }
    let bare = Repository::init_bare().unwrap();
    bare.commit(&[("a", Some("1"))]).unwrap();
    assert!(!LocalRepository::discover(bare.path()).unwrap().uncommitted);
    let nowhere = tempfile::tempdir().unwrap();
    assert!(LocalRepository::discover(nowhere.path()).is_err());
}

/// Waits for a call, and then for a short pause.
fn called(receive: &Receiver<()>) -> bool {
    let mut any = false;
    let mut patience = Duration::from_secs(60);
    loop {
        match receive.recv_timeout(patience) {
            Ok(()) => any = true,
            Err(RecvTimeoutError::Timeout) => return any,
            Err(RecvTimeoutError::Disconnected) => panic!("the watch ended"),
        }
        patience = Duration::from_millis(500);
    }
}

/// Whether no call comes in a time that is long enough for one.
fn quiet(receive: &Receiver<()>) -> bool {
    matches!(
        receive.recv_timeout(Duration::from_millis(300)),
        Err(RecvTimeoutError::Timeout)
    )
}

#[test]
fn watch_reports_commits_checkouts_and_packing() {
    let repository = Repository::init().unwrap();
    repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let (send, receive) = channel();
    let watching = watch(repository.path(), move || send.send(()).unwrap()).unwrap();
    let path = repository.path();

    std::fs::write(path.join("a.yaml"), "a: 2\n").unwrap();
    assert!(quiet(&receive), "a saved file is nobody's business");
    if !git(path, &["commit", "--quiet", "-am", "two"]) {
        return;
    }
    assert!(called(&receive), "git commit");
    git(path, &["checkout", "--quiet", "-b", "feature/deep/one"]);
    assert!(called(&receive), "git checkout -b, with directories that are new");
    git(path, &["commit", "--quiet", "--allow-empty", "-m", "three"]);
    assert!(called(&receive), "a commit in a directory that was new");
    git(path, &["checkout", "--quiet", "main"]);
    assert!(called(&receive), "git checkout other");
    git(path, &["pack-refs", "--all"]);
    assert!(called(&receive), "git pack-refs");
    git(path, &["commit", "--quiet", "--allow-empty", "-m", "four"]);
    assert!(called(&receive), "a commit after packing");
    git(path, &["status"]);
    assert!(quiet(&receive), "git status");
    drop(watching);
}

#[test]
fn watch_reports_a_linked_worktrees_head() {
    let repository = Repository::init().unwrap();
    repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let linked = directory.path().join("linked");
    if !git(
        repository.path(),
        &[
            "worktree",
            "add",
            "--quiet",
            "-b",
            "topic",
            linked.to_str().unwrap(),
        ],
    ) {
        return;
    }
    assert_eq!(
        LocalRepository::discover(&linked).unwrap().head,
        Head::Branch("topic".to_owned())
    );
    let (send, receive) = channel();
    let _watching = watch(&linked, move || send.send(()).unwrap()).unwrap();
    git(&linked, &["commit", "--quiet", "--allow-empty", "-m", "two"]);
    assert!(called(&receive), "a commit there");
    git(&linked, &["checkout", "--quiet", "--detach"]);
    assert!(called(&receive), "its own HEAD");
    assert!(watch(directory.path(), || ()).is_err(), "no repository");
}

#[test]
fn trees_are_read_by_any_git_revision() {
    let repository = Repository::init().unwrap();
    let first = repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    repository.commit(&[("b/c.yaml", Some("c: 1\n"))]).unwrap();
    repository.annotated_tag("v1", &first).unwrap();
    let below = repository.path().join("b");
    let files = |revision: &str| {
        LocalRepository::tree(&below, revision, &Limits::default())
            .map(|tree| tree.entries().unwrap().len())
            .map_err(|error| {
                error
                    .to_string()
                    .replace(repository.path().to_str().unwrap(), "HERE")
            })
    };
    for (revision, expected) in [
        ("HEAD", Ok(2)),
        ("main", Ok(2)),
        ("HEAD~1", Ok(1)),
        ("v1", Ok(1)),
        (&first[..8], Ok(1)),
        ("HEAD:b", Ok(1)),
        (
            "HEAD:a.yaml",
            Err("\"HEAD:a.yaml\" is not a commit or tree of HERE"),
        ),
        ("absent", Err("\"absent\" is not a commit or tree of HERE")),
        ("", Err("\"\" is not a commit or tree of HERE")),
    ] {
        assert_eq!(files(revision), expected.map_err(str::to_owned), "{revision}");
    }
}
