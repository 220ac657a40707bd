//! Work with trees pauses, and ends at each pause.

use std::cell::Cell;
use std::fmt::Debug;

use super::git_tests::Repository;
use super::{Included, Parts, Tree};
use crate::ignore::{Ignore, KeyRules};
use crate::limits::Limits;
use crate::pauses::Pauses;
use crate::storage::{Place, Publisher, Retention, Storage};

/// Checks that work pauses at least this often, and ends with each pause.
fn check<T, E: Debug>(name: &str, least: usize, work: impl Fn(&Pauses<'_>) -> Result<T, E>) {
    let paused = |answers: usize| {
        let asked = Cell::new(0);
        let go_on = || {
            asked.set(asked.get() + 1);
            asked.get() <= answers
        };
        let done = work(&Pauses::new(&go_on)).map(drop);
        (done, asked.get())
    };
    let (done, asked) = paused(usize::MAX);
    done.unwrap();
    assert!(asked >= least, "{name}: {asked} pauses");
    for answers in [0, asked / 2, asked - 1] {
        let (done, asked) = paused(answers);
        assert!(done.is_err(), "{name}: it went on after {answers} pauses");
        assert_eq!(asked, answers + 1, "{name}: it went on");
    }
}

#[test]
fn work_with_many_patterns_pauses_and_ends() {
    let limits = Limits::default();
    // compared with a path of 250 bytes, each pattern is 252 steps: 9,000 of them are 138 pauses
    let patterns: String = (0..9000).map(|number| format!("{number}\n")).collect();
    let name = format!("{}/{}", "a".repeat(125), "b".repeat(124));
    let ignore = Ignore::new(Some(&patterns));
    let repository = Repository::new();
    repository.write(&[(&name, "a")]);
    let git = repository.commit();
    check("a commit", 150, |pauses| {
        Tree::from_git_after(&git, &ignore, &limits, None, pauses)
    });
    let parts = Parts {
        git: &git,
        only: &[],
        submodules: &[],
        included: &[],
    };
    check("parts", 150, |pauses| {
        Tree::compose(&parts, &ignore, &limits, tempfile::tempfile().unwrap(), pauses)
    });
    let tree = Tree::from_git(&git, &Ignore::default(), &limits).unwrap();
    let mut archive = Vec::new();
    tree.write_archive(&mut archive, &limits).unwrap();
    check("an archive", 150, |pauses| {
        Tree::unpack(&*archive, &ignore, &limits, tempfile::tempfile().unwrap(), pauses)
    });
    let rules = KeyRules::new(Some(&patterns), None, 9000).unwrap();
    check("a key", 150, |pauses| rules.excludes(&name, pauses));
}

#[test]
fn work_with_content_pauses_and_ends() {
    let limits = Limits::default();
    let repository = Repository::new();
    let mebibyte = "a".repeat(1 << 20);
    repository.write(&[("a", &mebibyte), ("b", &mebibyte), ("c", &mebibyte)]);
    let git = repository.commit();
    let tree = Tree::from_git(&git, &Ignore::default(), &limits).unwrap();
    let mut archive = Vec::new();
    tree.write_archive(&mut archive, &limits).unwrap();
    check("an archive", 20, |pauses| {
        let everything = Ignore::new(Some("!*"));
        Tree::unpack(
            &*archive,
            &everything,
            &limits,
            tempfile::tempfile().unwrap(),
            pauses,
        )
    });
    let included = [Included {
        name: "other".to_owned(),
        tree: tree.clone(),
        from: String::new(),
        to: "other".to_owned(),
    }];
    let only = ["a".to_owned(), "b".to_owned()];
    let parts = Parts {
        git: &git,
        only: &only,
        submodules: &[],
        included: &included,
    };
    // each selected path, each tree, each file
    check("parts", 2 + 1 + 3, |pauses| {
        Tree::compose(
            &parts,
            &Ignore::default(),
            &limits,
            tempfile::tempfile().unwrap(),
            pauses,
        )
    });
    let publisher = Publisher::new(Place::new("Bucket", "apps", "a").unwrap(), "1".to_owned());
    // each part of a file, and before each change of the place
    check("an artifact", 1 + 3 * 64 + 1, |pauses| {
        let root = tempfile::tempdir().unwrap();
        let storage = Storage::open(root.path().join("store"), "http://x", Retention::default()).unwrap();
        storage.publish_pausing(&publisher, "main@sha1:1", &tree, pauses)
    });
}

#[test]
fn reading_a_stored_artifact_pauses_and_ends() {
    let root = tempfile::tempdir().unwrap();
    let open = || Storage::open(root.path().join("store"), "http://x", Retention::default()).unwrap();
    let publisher = Publisher::new(Place::new("Bucket", "apps", "a").unwrap(), "1".to_owned());
    let repository = Repository::new();
    let numbers = (0..1 << 16_u64).map(|number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    // more than 512 KiB as an archive
    let text: String = numbers.map(|number| format!("{number:016x}")).collect();
    repository.write(&[("a", &text)]);
    let limits = Limits::default();
    let tree = Tree::from_git(&repository.commit(), &Ignore::default(), &limits).unwrap();
    let stored = open().publish(&publisher, "main@sha1:1", &tree).unwrap();
    // it is hashed, read and unpacked
    check("a stored artifact", 8 + 8 + 32, |pauses| {
        let read = open().tree(&publisher, &stored.digest, pauses)?;
        assert_eq!(read.as_ref(), Some(&tree));
        Ok::<(), crate::storage::StorageError>(())
    });
}

#[test]
fn short_work_does_not_pause() {
    let repository = Repository::new();
    repository.write(&[("apps/a.yaml", "a"), ("apps/b/c.yaml", "a")]);
    let git = repository.commit();
    let pauses = Pauses::new(&|| false);
    Tree::from_git_after(&git, &Ignore::default(), &Limits::default(), None, &pauses).unwrap();
}
