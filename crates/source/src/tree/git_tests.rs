//! Trees of commits made by the real git.

use std::fs;
use std::process::Command;
use std::sync::Arc;

use equate_git::{Mirrors, Reference, Remote};

use super::tests::show;
use super::{Directory, Tree};
use crate::ignore::Ignore;
use crate::limits::Limits;
use crate::pauses::Pauses;

pub(super) struct Repository {
    place: tempfile::TempDir,
}

impl Repository {
    pub(super) fn new() -> Repository {
        let repository = Repository {
            place: tempfile::tempdir().unwrap(),
        };
        repository.git(&["init", "-q", "-b", "main"]);
        repository
    }

    fn git(&self, arguments: &[&str]) -> String {
        let done = Command::new("git")
            .arg("-C")
            .arg(self.place.path())
            .args([
                "-c",
                "user.name=Equate",
                "-c",
                "user.email=equate@example.org",
                "-c",
                "commit.gpgsign=false",
            ])
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", self.place.path())
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// Writes an object that git itself would not make.
    fn object(&self, kind: &str, content: &[u8]) -> String {
        fs::write(self.place.path().join("object"), content).unwrap();
        self.git(&["hash-object", "-w", "-t", kind, "object"])
    }

    fn commit_of(&self, tree: &str) -> equate_git::Tree {
        let commit = self.git(&["commit-tree", tree, "-m", "a change"]);
        self.git(&["update-ref", "refs/heads/main", &commit]);
        self.head()
    }

    pub(super) fn write(&self, files: &[(&str, &str)]) -> &Repository {
        for (path, content) in files {
            let full = self.place.path().join(path);
            fs::create_dir_all(full.parent().unwrap()).unwrap();
            fs::write(full, content).unwrap();
        }
        self
    }

    pub(super) fn commit(&self) -> equate_git::Tree {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "a change"]);
        self.head()
    }

    fn head(&self) -> equate_git::Tree {
        let url = "https://example.org/fleet.git";
        let mirrors = Mirrors::new(self.place.path().join("unused"), equate_git::Limits::default())
            .instead_of(url, self.place.path());
        let revision = mirrors
            .resolve(&Remote::new(url), &Reference::branch("main"))
            .unwrap();
        mirrors
            .fetch(&Remote::new(url), &revision)
            .unwrap()
            .tree()
            .clone()
    }
}

fn tree(git: &equate_git::Tree, ignore: Option<&str>, previous: Option<&Tree>) -> Tree {
    Tree::from_git_after(
        git,
        &Ignore::new(ignore),
        &Limits::default(),
        previous,
        &Pauses::none(),
    )
    .unwrap()
}

fn directory<'t>(tree: &'t Tree, path: &str) -> &'t Arc<Directory> {
    path.split('/')
        .fold(&tree.root, |directory, name| directory.directory(name).unwrap())
}

#[test]
fn a_commits_tree_equals_its_checkout() {
    let repository = Repository::new();
    repository.write(&[
        ("app/deploy.yaml", "kind: Deployment\n"),
        ("app-more/x.yaml", "x"),
        ("app/run.sh", "#!/bin/sh\n"),
        ("app/logo.png", "png"),
        (".github/workflows/ci.yaml", "on: push"),
        (".gitignore", "target"),
        ("docs/.sourceignore", "*.md\n"),
        ("docs/a.md", "a"),
        ("docs/b.txt", "b"),
    ]);
    #[cfg(unix)]
    {
        let run = repository.place.path().join("app/run.sh");
        fs::set_permissions(run, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("deploy.yaml", repository.place.path().join("app/link.yaml")).unwrap();
    }
    let commit = repository.commit();
    let check = |ignore: Option<&str>, expected: &str| {
        let tree = tree(&commit, ignore, None);
        assert_eq!(show(&tree), expected, "{ignore:?}");
        // the same tree, id for id, from the checkout and from the archive
        let checkout =
            Tree::from_directory(repository.place.path(), &Ignore::new(ignore), &Limits::default()).unwrap();
        assert_eq!(checkout, tree, "{ignore:?}");
        let mut archive = Vec::new();
        tree.write_archive(&mut archive, &Limits::default()).unwrap();
        assert_eq!(
            Tree::from_archive(&archive[..], &Limits::default()).unwrap(),
            tree,
            "{ignore:?}"
        );
    };
    // as in Flux, a .sourceignore anywhere replaces the defaults
    check(
        None,
        ".github/ .github/workflows/ .github/workflows/ci.yaml=on: push app/ app/deploy.yaml=kind: Deployment\n \
         app/logo.png=png app/run.sh*=#!/bin/sh\n app-more/ app-more/x.yaml=x docs/ docs/.sourceignore=*.md\n docs/b.txt=b",
    );
    check(
        Some("/*\n!/app-more\n!/docs/a.md"),
        "app-more/ app-more/x.yaml=x docs/ docs/a.md=a",
    );
    assert!(tree(&commit, None, None).is_link("app/link.yaml"));
    repository.git(&["rm", "-q", "-r", "docs"]);
    let tree = tree(&repository.commit(), None, None);
    assert_eq!(
        show(&tree),
        "app/ app/deploy.yaml=kind: Deployment\n app/run.sh*=#!/bin/sh\n app-more/ app-more/x.yaml=x"
    );
}

#[test]
fn unchanged_directories_are_shared() {
    let repository = Repository::new();
    repository.write(&[
        ("a/deep/x.yaml", "1"),
        ("a/y.yaml", "1"),
        ("b/z.yaml", "1"),
        ("docs/more/d.md", "1"),
    ]);
    let ignore = Some("docs/");
    let first = tree(&repository.commit(), ignore, None);
    let second_commit = repository.write(&[("a/y.yaml", "2")]).commit();
    let second = tree(&second_commit, ignore, Some(&first));
    assert!(Arc::ptr_eq(
        directory(&first, "a/deep"),
        directory(&second, "a/deep")
    ));
    assert!(Arc::ptr_eq(directory(&first, "b"), directory(&second, "b")));
    assert!(!Arc::ptr_eq(directory(&first, "a"), directory(&second, "a")));
    assert_eq!(second, tree(&second_commit, ignore, None));
    assert_eq!(
        show(&second),
        "a/ a/deep/ a/deep/x.yaml=1 a/y.yaml=2 b/ b/z.yaml=1"
    );
    assert!(Arc::ptr_eq(
        &tree(&second_commit, ignore, Some(&second)).root,
        &second.root
    ));

    // rules come and go in every way: nothing of an earlier tree's decisions remains
    let commits = [
        (
            repository
                .write(&[("docs/more/.sourceignore", "x.yaml")])
                .commit(),
            ignore,
        ),
        (
            repository
                .write(&[("docs/more/.sourceignore", "!*"), ("b/w.yaml", "1")])
                .commit(),
            Some("docs\n*.yaml"),
        ),
        (
            repository.write(&[("docs/more/.sourceignore", "")]).commit(),
            None,
        ),
        (repository.write(&[(".sourceignore", "deep\n")]).commit(), None),
        (
            repository.write(&[(".sourceignore", "#deep\n")]).commit(),
            Some(""),
        ),
    ];
    let mut previous = second;
    for (commit, ignore) in &commits {
        let next = tree(commit, *ignore, Some(&previous));
        let alone = tree(commit, *ignore, None);
        assert_eq!((show(&next), &next), (show(&alone), &alone), "{ignore:?}");
        previous = next;
    }
}

#[test]
fn a_commit_has_limits() {
    let repository = Repository::new();
    let commit = repository
        .write(&[
            ("a/b/c.yaml", "12345678"),
            ("d.yaml", "1"),
            (".sourceignore", "none\n"),
        ])
        .commit();
    let check = |limits: Limits, expected: &str| {
        let error = Tree::from_git(&commit, &Ignore::default(), &limits).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    let all = Limits::default();
    check(
        Limits {
            entries_max: 4,
            ..all.clone()
        },
        r#""": more than 4 files and directories"#,
    );
    check(
        Limits {
            depth_max: 1,
            ..all.clone()
        },
        r#""a/b": more than 1 directories deep"#,
    );
    check(
        Limits {
            path_bytes_max: 3,
            ..all.clone()
        },
        r#""a/b": a path longer than 3 bytes"#,
    );
    check(
        Limits {
            ignore_bytes_max: 4,
            ..all.clone()
        },
        r#"".sourceignore": more than 4 bytes in all files of ignore patterns together, with their paths"#,
    );
    let shared = Tree::from_git(&commit, &Ignore::default(), &all).unwrap();
    let few = Limits {
        entries_max: 4,
        ..all
    };
    Tree::from_git_after(&commit, &Ignore::default(), &few, Some(&shared), &Pauses::none()).unwrap_err();
}

/// Three directories that each are the next level's three would be 3^20 entries: the limit bounds the time.
#[test]
fn a_bomb_of_trees_stops_at_the_limit() {
    let repository = Repository::new();
    let blob = repository.object("blob", b"x");
    let mut tree = repository.object("tree", &tree_of(&[("100644", "f", &blob)]));
    for _ in 0..20 {
        let below = ["a", "b", "c"].map(|name| ("40000", name, &*tree));
        tree = repository.object("tree", &tree_of(&below));
    }
    let git = repository.commit_of(&tree);
    let limits = Limits {
        entries_max: 10_000,
        ..Limits::default()
    };
    let error = Tree::from_git(&git, &Ignore::default(), &limits)
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("more than 10000 files and directories"),
        "{error}"
    );
}

/// Directories without files: only they can be counted.
#[test]
fn a_bomb_of_empty_directories_stops_at_the_limit() {
    let repository = Repository::new();
    let mut tree = repository.object("tree", b"");
    for _ in 0..40 {
        tree = repository.object("tree", &tree_of(&[("40000", "a", &tree), ("40000", "b", &tree)]));
    }
    let error = repository.commit_of(&tree).entries().unwrap_err();
    assert_eq!(error.to_string(), "more than 200000 directories in one tree");
}

/// Four objects that are a `.sourceignore` in 2,000 directories.
fn shared_ignore_file(repository: &Repository, text: &str) -> equate_git::Tree {
    let blob = repository.object("blob", text.as_bytes());
    let mut tree = repository.object("tree", &tree_of(&[("100644", ".sourceignore", &blob)]));
    for width in [50, 40] {
        let names: Vec<String> = (0..width).map(|number| format!("{number:02}")).collect();
        let below: Vec<_> = names.iter().map(|name| ("40000", &**name, &*tree)).collect();
        tree = repository.object("tree", &tree_of(&below));
    }
    repository.commit_of(&tree)
}

#[test]
fn a_shared_ignore_file_counts_in_each_directory() {
    let limits = Limits::default();
    let check = |text: &str, expected: &str| {
        let repository = Repository::new();
        let git = shared_ignore_file(&repository, text);
        let error = Tree::from_git(&git, &Ignore::default(), &limits).unwrap_err();
        assert_eq!(error.to_string(), expected);
        let parts = super::Parts {
            git: &git,
            only: &[],
            submodules: &[],
            included: &[],
        };
        let error = Tree::compose(
            &parts,
            &Ignore::default(),
            &limits,
            tempfile::tempfile().unwrap(),
            &Pauses::none(),
        )
        .unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    check(
        &"#".repeat(1024),
        r#""20/06/.sourceignore": more than 1048576 bytes in all files of ignore patterns together, with their paths"#,
    );
    check(
        &"a\n".repeat(10),
        r#""20/00/.sourceignore": more than 10000 ignore patterns"#,
    );
    let spec = Ignore::new(Some(&"a\n".repeat(10_001)));
    let repository = Repository::new();
    let git = repository.commit();
    let error = Tree::from_git(&git, &spec, &limits).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#""spec.ignore": more than 10000 ignore patterns"#
    );
}

fn tree_of(entries: &[(&str, &str, &str)]) -> Vec<u8> {
    let mut tree = Vec::new();
    for (mode, name, id) in entries {
        tree.extend(format!("{mode} {name}\0").bytes());
        tree.extend(
            (0..id.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()),
        );
    }
    tree
}

#[test]
fn published_trees_are_read_without_git() {
    let root = tempfile::tempdir().unwrap();
    let retention = crate::Retention::default();
    let storage = crate::Storage::open(root.path().to_owned(), "http://source.example", retention).unwrap();
    let place = crate::Place::new("GitRepository", "flux-system", "fleet").unwrap();
    let publisher = crate::Publisher::new(place, "1");
    let publish = |content: &str, revision: &str| {
        let repository = Repository::new();
        let tree = tree(
            &repository.write(&[("app/config.yaml", content)]).commit(),
            None,
            None,
        );
        let stored = storage.publish(&publisher, revision, &tree).unwrap();
        fs::remove_dir_all(repository.place.path().join(".git")).unwrap();
        (tree, stored)
    };
    let (_, stored) = publish("value: 1\n", "main@sha1:1111111111111111111111111111111111111111");
    let tree = storage
        .tree(&publisher, &stored.digest, &Pauses::none())
        .unwrap()
        .unwrap();
    assert_eq!(&*tree.read("app/config.yaml").unwrap(), b"value: 1\n");
    // a changed archive is not used
    let (tree, stored) = publish("value: 2\n", "main@sha1:2222222222222222222222222222222222222222");
    fs::write(root.path().join(&stored.path), b"something else").unwrap();
    let error = tree.read("app/config.yaml").unwrap_err();
    assert_eq!(error.to_string(), "cannot read \"app/config.yaml\" from git");
}
