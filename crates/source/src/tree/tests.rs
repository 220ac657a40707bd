use std::fs;
use std::path::Path;

use bytes::Bytes;

use super::{Building, Entry, Tree};
use crate::ignore::Ignore;
use crate::limits::Limits;

fn tree(files: &[(&str, &str)]) -> Tree {
    let limits = Limits::default();
    let mut building = Building::new(&limits);
    for (path, content) in files {
        building
            .file(path, Bytes::from((*content).to_owned()), false)
            .unwrap();
    }
    building.finish()
}

fn directory_id(tree: &Tree, path: &str) -> super::ContentId {
    match tree.entry(path) {
        Some(Entry::Directory { id }) => id,
        other => panic!("{path}: {other:?}"),
    }
}

pub(crate) fn show(tree: &Tree) -> String {
    let mut shown = Vec::new();
    let _: Result<(), ()> = tree.walk(&mut |path, node| {
        shown.push(match node.entry() {
            Entry::File { executable, .. } => {
                format!(
                    "{path}{}={}",
                    if executable { "*" } else { "" },
                    String::from_utf8_lossy(&tree.read(path).unwrap())
                )
            }
            Entry::Directory { .. } => format!("{path}/"),
        });
        Ok(())
    });
    shown.join(" ")
}

#[test]
fn paths_find_their_entries() {
    let tree = tree(&[("a/b/c.yaml", "c"), ("a.yaml", "a")]);
    let check = |path: &str, expected: &str| {
        let entry = match tree.entry(path) {
            Some(Entry::File { .. }) => "file",
            Some(Entry::Directory { .. }) => "directory",
            None => "nothing",
        };
        let list = tree
            .list(path)
            .map(|list| list.into_iter().map(|(name, _)| name).collect::<Vec<_>>());
        let read = match tree.read(path) {
            Ok(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            Err(error) => error.to_string(),
        };
        assert_eq!(format!("{entry} {list:?} {read}"), expected, "{path:?}");
    };
    check("", r#"directory Some(["a", "a.yaml"]) "" is a directory"#);
    check("a", r#"directory Some(["b"]) "a" is a directory"#);
    check("a/b", r#"directory Some(["c.yaml"]) "a/b" is a directory"#);
    check("a/b/c.yaml", "file None c");
    check("a.yaml", "file None a");
    for absent in [
        "b", "a/c", "a.yaml/b", "a/", "/a", "a//b", "./a", "a/../a", ".", "..",
    ] {
        check(absent, &format!("nothing None {absent:?} does not exist"));
    }
}

#[test]
fn ids_cover_everything_below_and_nothing_else() {
    let one = tree(&[("a/b/x", "1"), ("c/y", "2")]);
    let other = tree(&[("a/b/x", "1"), ("c/y", "3")]);
    assert_eq!(directory_id(&one, "a"), directory_id(&other, "a"));
    assert_ne!(directory_id(&one, "c"), directory_id(&other, "c"));
    assert_ne!(one, other);
    assert_ne!(
        directory_id(&tree(&[("a/x", "1")]), "a"),
        directory_id(&tree(&[("a/y", "1")]), "a")
    );
    // a name cannot merge with what follows it
    assert_ne!(tree(&[("ab", "c")]), tree(&[("a", "bc")]));
    let limits = Limits::default();
    let executable = |executable| {
        let mut building = Building::new(&limits);
        building.file("x", Bytes::from_static(b"1"), executable).unwrap();
        building.finish()
    };
    assert_ne!(executable(true), executable(false));
}

fn write(root: &Path, path: &str, content: &str) {
    let full = root.join(path);
    fs::create_dir_all(full.parent().unwrap()).unwrap();
    fs::write(full, content).unwrap();
}

#[test]
fn ignored_files_of_a_local_directory_are_left_out() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("repository");
    for (path, content) in [
        (".git/config", "never"),
        (".sourceignore", "*.md\n"),
        ("app/.sourceignore", "!KEEP.md\n/secret\n"),
        ("app/KEEP.md", "kept"),
        ("app/secret/a.yaml", "a"),
        ("app/x.yaml", "x"),
        ("docs/README.md", "r"),
        ("secret/b.yaml", "b"),
    ] {
        write(&root, path, content);
    }
    let check = |ignore: Option<&str>, expected: &str| {
        let tree = Tree::from_directory(&root, &Ignore::new(ignore), &Limits::default()).unwrap();
        assert_eq!(show(&tree), expected);
    };
    let sourceignores = (".sourceignore=*.md\n", "app/.sourceignore=!KEEP.md\n/secret\n");
    check(
        None,
        &format!(
            "{} app/ {} app/KEEP.md=kept app/x.yaml=x docs/ secret/ secret/b.yaml=b",
            sourceignores.0, sourceignores.1
        ),
    );
    check(
        Some("/*\n!/secret\n!/app/x.yaml"),
        "app/ app/x.yaml=x secret/ secret/b.yaml=b",
    );
}

#[cfg(unix)]
#[test]
fn links_out_of_a_local_directory_are_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("repository");
    write(place.path(), "outside/secret.yaml", "secret");
    write(&root, "a.yaml", "a");
    write(&root, "run", "x");
    fs::set_permissions(
        root.join("run"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    std::os::unix::fs::symlink("../outside", root.join("directory")).unwrap();
    std::os::unix::fs::symlink("../outside/secret.yaml", root.join("file.yaml")).unwrap();
    let tree = Tree::from_directory(&root, &Ignore::default(), &Limits::default()).unwrap();
    assert_eq!(show(&tree), "a.yaml=a run*=x");
    assert!(tree.is_link("file.yaml") && tree.is_link("directory") && !tree.is_link("a.yaml"));
    let error = tree.read("file.yaml").unwrap_err().to_string();
    assert_eq!(
        error,
        r#""file.yaml" is a symbolic link, which is not part of an artifact"#
    );
}

#[test]
fn a_local_directory_has_limits() {
    let place = tempfile::tempdir().unwrap();
    for path in ["a/b/c.yaml", "d.yaml", ".sourceignore"] {
        write(place.path(), path, "12345678");
    }
    let check = |limits: Limits, expected: &str| {
        let error = Tree::from_directory(place.path(), &Ignore::default(), &limits).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    let all = Limits::default();
    check(
        Limits {
            entries_max: 4,
            ..all.clone()
        },
        r#""a/b": more than 4 files and directories"#,
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
            file_bytes_max: 7,
            ..all.clone()
        },
        r#"".sourceignore": a file larger than 7 bytes"#,
    );
    check(
        Limits {
            tree_bytes_max: 20,
            ..all.clone()
        },
        r#""d.yaml": more than 20 bytes in all files together"#,
    );
    check(
        Limits {
            ignore_bytes_max: 7,
            ..all.clone()
        },
        r#"".sourceignore": more than 7 bytes in all files of ignore patterns together, with their paths"#,
    );
    let absent = Tree::from_directory(&place.path().join("absent"), &Ignore::default(), &all).unwrap_err();
    assert!(absent.to_string().starts_with("cannot read "), "{absent}");
}
