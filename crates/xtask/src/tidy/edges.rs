//! The allowed dependencies between crates: the table of the architecture.

use super::File;

/// A crate and its allowed dependencies. A new edge needs a decision record.
const EDGES: [(&str, &[&str]); 21] = [
    ("manifest", &[]),
    ("cel", &["manifest"]),
    ("priority", &[]),
    ("apiserver", &["cel", "manifest", "priority"]),
    ("api", &["manifest"]),
    ("openpgp", &[]),
    ("egress", &[]),
    ("git", &["egress", "manifest", "openpgp"]),
    ("bucket", &["egress"]),
    ("registry", &["egress", "manifest"]),
    ("source", &["git"]),
    ("kustomize", &["manifest"]),
    ("sops", &["manifest"]),
    ("template", &["manifest"]),
    ("helm", &["manifest", "openpgp", "template"]),
    ("apply", &["manifest"]),
    ("release", &["kustomize", "manifest"]),
    (
        "controllers",
        &[
            "api",
            "apply",
            "bucket",
            "cel",
            "egress",
            "git",
            "helm",
            "kustomize",
            "manifest",
            "priority",
            "registry",
            "sops",
            "source",
        ],
    ),
    ("testkit", &["apiserver", "manifest"]),
    (
        "cli",
        &[
            "api",
            "apiserver",
            "apply",
            "controllers",
            "egress",
            "git",
            "helm",
            "kustomize",
            "manifest",
            "priority",
            "registry",
            "release",
            "source",
            "template",
        ],
    ),
    ("xtask", &["api", "kustomize", "manifest", "testkit"]),
];

/// Allowed in the tests of every crate.
const TEST_ONLY: &str = "testkit";

/// More dependencies allowed in the tests of one crate.
const TEST_EDGES: [(&str, &str); 2] = [("testkit", "helm"), ("testkit", "template")];

pub(super) fn check(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files {
        let name = file
            .path
            .strip_prefix("crates/")
            .and_then(|path| path.strip_suffix("/Cargo.toml"));
        let Some(name) = name.filter(|name| !name.contains('/')) else {
            continue;
        };
        let Some((_, allowed)) = EDGES.iter().find(|(known, _)| *known == name) else {
            complaints.push(format!(
                "{}: crate {name} is not in xtask's table of edges",
                file.path
            ));
            continue;
        };
        for (section, dependency) in own_dependencies(&file.text) {
            let for_tests = section == "dev-dependencies"
                && (dependency == TEST_ONLY || TEST_EDGES.contains(&(name, dependency)));
            if !allowed.contains(&dependency) && !for_tests {
                complaints.push(format!(
                    "{}: {name} may not use {dependency} ({section})",
                    file.path
                ));
            }
        }
    }
    complaints
}

/// The workspace crates in a manifest, each with its section.
fn own_dependencies(manifest: &str) -> Vec<(&str, &str)> {
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines() {
        if let Some(header) = line
            .trim()
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            section = header;
            // `[dependencies.equate-x]` and `[target.'...'.dependencies]`
            if let Some((outer, dependency)) = header.split_once(".equate-") {
                found.push((outer, dependency));
            }
        } else if section.ends_with("dependencies")
            && let Some(rest) = line.strip_prefix("equate-")
        {
            let name = rest.split(['.', ' ', '=']).next().unwrap_or(rest);
            found.push((section, name));
        }
    }
    found
}
