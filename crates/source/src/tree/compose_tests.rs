//! Composed trees; a commit alone gives the same tree either way.

use super::git_tests::Repository;
use super::{Included, Parts, Submodule, Tree};
use crate::ignore::Ignore;
use crate::limits::Limits;
use crate::pauses::Pauses;

fn compose(
    git: &equate_git::Tree,
    only: &[&str],
    submodules: &[Submodule],
    included: &[Included],
    ignore: &str,
    limits: &Limits,
) -> Result<Tree, String> {
    let only: Vec<String> = only.iter().map(|path| (*path).to_owned()).collect();
    let parts = Parts {
        git,
        only: &only,
        submodules,
        included,
    };
    Tree::compose(
        &parts,
        &Ignore::new(Some(ignore)),
        limits,
        tempfile::tempfile().unwrap(),
        &Pauses::none(),
    )
    .map_err(|error| error.to_string())
}

fn files(tree: &Tree) -> String {
    let mut paths = Vec::new();
    let walked: Result<(), ()> = tree.walk(&mut |path, node| {
        let mark = if matches!(node, super::Node::Directory(_)) {
            "/"
        } else {
            ""
        };
        paths.push(format!("{path}{mark}"));
        Ok(())
    });
    walked.unwrap();
    paths.join(" ")
}

#[test]
fn composing_a_commit_alone_changes_nothing() {
    let repository = Repository::new();
    repository.write(&[
        ("a.yaml", "a"),
        ("b/.sourceignore", "*.md\n!keep.md\n"),
        ("b/x.md", "x"),
        ("b/keep.md", "k"),
        ("c/only.png", "p"),
        ("c-d/e/f.yaml", "f"),
    ]);
    let git = repository.commit();
    for ignore in ["", "/b", "*.yaml", "/*\n!/c-d", "c/"] {
        let composed = compose(&git, &[], &[], &[], ignore, &Limits::default()).unwrap();
        let plain = Tree::from_git(&git, &Ignore::new(Some(ignore)), &Limits::default()).unwrap();
        assert_eq!(files(&composed), files(&plain), "{ignore:?}");
        assert_eq!(composed.id(), plain.id(), "{ignore:?}");
    }
}

#[test]
fn parts_are_combined_or_conflict() {
    let repository = Repository::new();
    repository.write(&[("a/x.yaml", "x"), ("a-b/y.yaml", "y"), ("top.yaml", "t")]);
    let git = repository.commit();
    let other = Tree::from_git(&git, &Ignore::default(), &Limits::default()).unwrap();
    let include = |from: &str, to: &str| Included {
        name: "other".to_owned(),
        tree: other.clone(),
        from: from.to_owned(),
        to: to.to_owned(),
    };
    let small = Limits {
        tree_bytes_max: 2,
        ..Limits::default()
    };
    let few = Limits {
        entries_max: 6,
        ..Limits::default()
    };
    let check = |only: &[&str], included: &[Included], limits: &Limits, want: &str| {
        let got =
            compose(&git, only, &[], included, "", limits).map_or_else(|error| error, |tree| files(&tree));
        assert!(
            got == want || (got.contains(want) && want.len() > 20),
            "{got}\nwant {want}"
        );
    };
    let limits = Limits::default();
    check(&["a"], &[], &limits, "a/ a/x.yaml");
    check(&["a/x.yaml", "top.yaml"], &[], &limits, "a/ a/x.yaml top.yaml");
    check(&["."], &[], &limits, "a/ a/x.yaml a-b/ a-b/y.yaml top.yaml");
    check(
        &["a", "b"],
        &[],
        &limits,
        "sparse checkout dir 'b' does not exist in repository",
    );
    check(&["a"], &[include("a", "z")], &limits, "a/ a/x.yaml z/ z/x.yaml");
    check(
        &["a"],
        &[include("top.yaml", "z/t")],
        &limits,
        "a/ a/x.yaml z/ z/t",
    );
    check(
        &["a"],
        &[include("a", "a-b")],
        &limits,
        "a/ a/x.yaml a-b/ a-b/x.yaml",
    );
    let failed = "failed to copy 'other' include from ";
    check(
        &["a"],
        &[include("a", "a")],
        &limits,
        &format!("{failed}\"a\" to \"a\": files already exist there"),
    );
    check(
        &["a"],
        &[include("a", "")],
        &limits,
        &format!("{failed}\"a\" to \"\": files already exist there"),
    );
    check(
        &["a"],
        &[include("a", "a/x.yaml")],
        &limits,
        &format!("{failed}\"a\" to \"a/x.yaml\": a file exists there"),
    );
    check(
        &["a"],
        &[include("a", "a/x.yaml/z")],
        &limits,
        &format!("{failed}\"a\" to \"a/x.yaml/z\": a parent directory is a file"),
    );
    check(
        &["a"],
        &[include("gone", "z")],
        &limits,
        &format!("{failed}\"gone\" to \"z\": it does not exist"),
    );
    check(
        &["a"],
        &[include("a", "../z")],
        &limits,
        "it has the name . or ..",
    );
    check(
        &["a"],
        &[include("", "z")],
        &small,
        "more than 2 bytes in all files together",
    );
    check(
        &["a"],
        &[include("", "z")],
        &few,
        "more than 6 files and directories",
    );
}

#[test]
fn contents_of_other_parts_take_no_memory() {
    let repository = Repository::new();
    repository.write(&[("a/x.yaml", "x"), ("top.yaml", "t")]);
    let git = repository.commit();
    let limits = Limits::default();
    let from_git = Tree::from_git(&git, &Ignore::default(), &limits).unwrap();
    let mut archive = Vec::new();
    from_git.write_archive(&mut archive, &limits).unwrap();
    let from_archive = Tree::from_archive(&*archive, &limits).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("a")).unwrap();
    std::fs::write(folder.path().join("a/x.yaml"), "x").unwrap();
    std::fs::write(folder.path().join("top.yaml"), "t").unwrap();
    let in_memory = Tree::from_directory(folder.path(), &Ignore::new(None), &limits).unwrap();
    assert_eq!(
        (from_archive.bytes_in_memory(), in_memory.bytes_in_memory()),
        (0, 2)
    );
    let include = |tree: &Tree, from: &str, to: &str| Included {
        name: "other".to_owned(),
        tree: tree.clone(),
        from: from.to_owned(),
        to: to.to_owned(),
    };
    let included = [
        include(&from_git, "", "git"),
        include(&in_memory, "", "memory"),
        include(&from_archive, "a", "archive"),
        include(&in_memory, "top.yaml", "file"),
    ];
    let composed = compose(&git, &[], &[], &included, "", &limits).unwrap();
    assert_eq!(composed.bytes_in_memory(), 0);
    assert_eq!(composed.read("git/a/x.yaml").unwrap(), "x");
    assert_eq!(composed.read("memory/top.yaml").unwrap(), "t");
    assert_eq!(composed.read("file").unwrap(), "t");
    assert_eq!(composed.read("archive/x.yaml").unwrap(), "x");
    assert_eq!(composed.read("a/x.yaml").unwrap(), "x");
}
