//! Rules about source files: headers, names, sizes, left-overs, traces of a machine.

use super::File;

/// Longer files are split by concept.
const LINES_MAX: usize = 800;

const DRAWERS: [&str; 8] = [
    "util", "utils", "helper", "helpers", "common", "misc", "shared", "stuff",
];

/// Marks of unfinished work. Written in two halves, so that this file has none.
const LEFT_OVERS: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
];

/// Folders that exist on one machine only.
const MACHINE_PATHS: [&str; 6] = [
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/shared"),
    concat!("/wo", "rk/wt"),
    concat!("/wo", "rk/main"),
];

/// Only the registries' clients know these hosts.
const REGISTRY_HOSTS: [&str; 6] = [
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("proxy.", "golang.org"),
    concat!("registry.", "npmjs.org"),
];

pub(super) fn check(files: &[File]) -> Vec<String> {
    files.iter().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<String> {
    let path = &file.path;
    let mut complaints = Vec::new();
    if path.ends_with(".rs") {
        if !is_test(file) && !file.text.starts_with("//!") {
            complaints.push(format!("{path}: no `//!` header that says why the file exists"));
        }
        let lines = file.text.lines().count();
        if lines > LINES_MAX && !is_test(file) && !is_generated(file) {
            complaints.push(format!(
                "{path}: {lines} lines, more than {LINES_MAX}: split it by concept"
            ));
        }
        let drawer = |name: &str| DRAWERS.contains(&name.trim_end_matches(".rs"));
        if let Some(name) = path.split('/').find(|name| drawer(name)) {
            complaints.push(format!("{path}: {name} says nothing about the content"));
        }
    }
    if is_foreign(file) {
        return complaints;
    }
    for (number, line) in file.text.lines().enumerate() {
        let number = number + 1;
        if path.ends_with(".rs")
            && let Some(found) = LEFT_OVERS.iter().find(|found| line.contains(**found))
        {
            complaints.push(format!("{path}:{number}: {found}"));
        }
        if let Some(found) = MACHINE_PATHS.iter().find(|found| line.contains(**found)) {
            complaints.push(format!("{path}:{number}: {found} is a path of one machine"));
        }
        if let Some(found) = REGISTRY_HOSTS.iter().find(|found| line.contains(**found)) {
            complaints.push(format!("{path}:{number}: {found} is a registry's host"));
        }
    }
    complaints
}

pub(super) fn is_test(file: &File) -> bool {
    file.name() == "tests.rs" || file.path.split('/').any(|part| part == "tests")
}

pub(super) fn is_generated(file: &File) -> bool {
    file.path.split('/').any(|part| part == "generated")
}

/// Written by a package manager or vendored.
fn is_foreign(file: &File) -> bool {
    matches!(file.name(), "Cargo.lock" | "go.mod" | "go.sum" | "LICENSE") || is_generated(file)
}
