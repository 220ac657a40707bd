//! Inputs of a build and the changes they detect.

use crate::memory::Memory;
use equate_kustomize::{Inputs, Spec, build};

fn manifest(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")
}

fn inputs(tree: &Memory, path: &str) -> Inputs {
    let spec = Spec {
        path: path.to_owned(),
        ..Spec::default()
    };
    build(tree, &spec).unwrap().inputs
}

fn tree() -> Memory {
    let mut tree = Memory::new(&[
        (
            "app/kustomization.yaml",
            "resources: [../base, a.yaml, linked.yaml]\npatches: [{path: patch.yaml}]\ncomponents: [../component]\n\
             configMapGenerator: [{name: g, files: [../data/file], envs: [../data/env]}]\n",
        ),
        ("app/a.yaml", &manifest("a")),
        (
            "app/patch.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n",
        ),
        ("app/unused.yaml", &manifest("unused")),
        ("base/kustomization.yml", "resources: [b.yaml]\n"),
        ("base/b.yaml", &manifest("b")),
        (
            "component/kustomization.yaml",
            "kind: Component\nnamePrefix: p-\n",
        ),
        ("data/file", "1"),
        ("data/env", "A=1\n"),
        ("data/other", "1"),
        ("real/l.yaml", &manifest("l")),
        ("walked/a.yaml", &manifest("a")),
        ("walked/deep/b.yaml", &manifest("b")),
        ("walked/deep/notes.md", "x"),
    ]);
    tree.link("app/linked.yaml", "../real/l.yaml");
    tree
}

fn check(path: &str, change: impl FnOnce(&mut Memory), expected: bool, what: &str) {
    let before = tree();
    let inputs = inputs(&before, path);
    assert!(inputs.unchanged(&before), "{path}: unchanged by nothing");
    let mut after = before.clone();
    change(&mut after);
    assert_eq!(inputs.unchanged(&after), expected, "{path}: {what}");
}

#[test]
fn a_change_of_any_file_read_is_noticed() {
    for file in [
        "app/kustomization.yaml",
        "app/a.yaml",
        "app/patch.yaml",
        "base/kustomization.yml",
        "base/b.yaml",
        "component/kustomization.yaml",
        "data/file",
        "data/env",
        "real/l.yaml",
    ] {
        check("app", |tree| tree.put(file, b"# changed\n"), false, file);
        check("app", |tree| tree.remove(file), false, file);
    }
    check(
        "app",
        |tree| tree.link("app/linked.yaml", "../app/a.yaml"),
        false,
        "another link",
    );
    check(
        "walked",
        |tree| tree.put("walked/deep/b.yaml", b"# changed\n"),
        false,
        "a walked file",
    );
}

#[test]
fn a_file_that_appears_where_one_was_looked_for_is_noticed() {
    for file in [
        "app/Kustomization",
        "base/kustomization.yaml",
        "component/kustomization.yml",
    ] {
        check("app", |tree| tree.put(file, b"x"), false, file);
    }
    for file in ["walked/kustomization.yaml", "walked/deep/kustomization.yaml"] {
        check("walked", |tree| tree.put(file, b"x"), false, file);
    }
}

#[test]
fn a_change_of_a_walked_listing_is_noticed() {
    check(
        "walked",
        |tree| tree.put("walked/new.yaml", b"x"),
        false,
        "a new file",
    );
    check(
        "walked",
        |tree| tree.put("walked/deep/new.md", b"x"),
        false,
        "any new name",
    );
    check(
        "walked",
        |tree| tree.remove("walked/deep/notes.md"),
        false,
        "a name gone",
    );
    check(
        "walked",
        |tree| tree.put("walked/new/x.yaml", b"x"),
        false,
        "a new directory",
    );
}

#[test]
fn an_unrelated_change_is_not_noticed() {
    for file in [
        "app/unused.yaml",
        "data/other",
        "app/new.yaml",
        "base/new.yaml",
        "elsewhere/x",
    ] {
        check("app", |tree| tree.put(file, b"changed"), true, file);
    }
    for file in ["walked/deep/notes.md", "app/a.yaml", "elsewhere/x"] {
        check("walked", |tree| tree.put(file, b"changed"), true, file);
    }
}

#[test]
fn a_missing_component_that_appears_is_noticed() {
    let before = Memory::new(&[("app/a.yaml", &manifest("a"))]);
    let spec = Spec {
        path: "app".to_owned(),
        components: vec!["../component".to_owned()],
        ignore_missing_components: true,
        ..Spec::default()
    };
    let inputs = build(&before, &spec).unwrap().inputs;
    assert!(inputs.unchanged(&before));
    assert!(!inputs.unchanged(&before.with("component/kustomization.yaml", "kind: Component\n")));
}
