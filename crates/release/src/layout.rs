//! Environments by convention: directories with the names that people give to environments.

use crate::config::{Config, Pattern, Services, Stage};
use equate_kustomize::{EntryKind, Tree};
use std::collections::{BTreeMap, BTreeSet};

const DEPTH_MAX: usize = 6;
const DIRECTORIES_MAX: usize = 50_000;

/// Words of environments, from left to right.
const RANKS: [&[&str]; 4] = [
    &["dev", "develop", "development", "sandbox"],
    &["test", "testing", "qa", "int", "integration", "ci"],
    &[
        "staging",
        "stage",
        "stg",
        "uat",
        "preprod",
        "preproduction",
        "acceptance",
    ],
    &["prod", "production", "prd", "live"],
];

/// Directories that hold applications, and ones that hold something else.
const PREFERRED: [&str; 2] = ["apps", "services"];
const LAST: [&str; 6] = [
    "clusters",
    "infrastructure",
    "infra",
    "bootstrap",
    "terraform",
    "tests",
];

/// Finds environments in a tree. `None` if no two directories look like environments of the same thing.
pub fn detect(tree: &dyn Tree) -> Option<Config> {
    let mut found = Vec::new();
    let mut left = DIRECTORIES_MAX;
    walk(tree, "", 0, &mut left, &mut found);
    let candidates = candidates(tree, &found);
    let (pattern, environments) = candidates
        .into_iter()
        .filter(|(_, environments)| environments.len() > 1)
        .max_by_key(|(pattern, environments)| {
            let places = pattern.places(tree, &environments.iter().map(String::as_str).collect::<Vec<_>>());
            let text = pattern.to_string();
            let top = text.split('/').next().unwrap_or_default();
            let preference = match top {
                top if PREFERRED.contains(&top) => 2,
                top if LAST.contains(&top) => 0,
                _ => 1,
            };
            (
                preference,
                environments.len(),
                places.len(),
                std::cmp::Reverse(text),
            )
        })?;
    Some(Config {
        stages: stages(&environments),
        services: Services::Versions(pattern),
        values: Vec::new(),
        rules: Vec::new(),
        clusters: BTreeMap::new(),
        committer: None,
        is_written: false,
    })
}

/// The text of an `equate.yaml` with what was found.
pub fn to_text(config: &Config) -> String {
    let stages: Vec<String> = config
        .stages
        .iter()
        .map(|stage| match stage.members.as_slice() {
            [only] if *only == stage.name => only.clone(),
            members => format!("{{{}: [{}]}}", stage.name, members.join(", ")),
        })
        .collect();
    let services = config.services.pattern().to_string();
    format!(
        "version: 1\nenvironments: [{}]  # left to right\nservices: {services}\n",
        stages.join(", ")
    )
}

fn walk(tree: &dyn Tree, directory: &str, depth: usize, left: &mut usize, found: &mut Vec<String>) {
    if depth > DEPTH_MAX {
        return;
    }
    for name in crate::config::children(tree, directory) {
        *left = left.saturating_sub(1);
        if *left == 0 {
            return;
        }
        let path = crate::config::join(directory, &name);
        if rank(&name).is_some() {
            found.push(path);
        } else {
            walk(tree, &path, depth + 1, left, found);
        }
    }
}

/// The position of a name: by the whole name, its first word or its last.
fn rank(name: &str) -> Option<usize> {
    word(name).map(|(rank, _)| rank)
}

fn word(name: &str) -> Option<(usize, String)> {
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> = name.split(['-', '_', '.']).collect();
    let joined = words.concat();
    let candidates = [
        Some(joined.as_str()),
        words.first().copied(),
        words.last().copied(),
    ];
    candidates.into_iter().flatten().find_map(|word| {
        let rank = RANKS.iter().position(|words| words.contains(&word))?;
        Some((rank, word.to_owned()))
    })
}

fn candidates(tree: &dyn Tree, found: &[String]) -> Vec<(Pattern, BTreeSet<String>)> {
    let mut by_parent: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for path in found {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        by_parent.entry(parent).or_default().insert(name.to_owned());
    }
    let mut by_pattern: BTreeMap<String, (usize, BTreeSet<String>)> = BTreeMap::new();
    for (parent, names) in &by_parent {
        let base = crate::config::join(parent, "{environment}");
        let below = names
            .iter()
            .filter(|name| has_services(tree, &crate::config::join(parent, name)));
        let text = match below.count() {
            count if count * 2 > names.len() => format!("{base}/{{service}}"),
            _ => base,
        };
        by_pattern
            .entry(text)
            .or_insert((2, BTreeSet::new()))
            .1
            .extend(names.clone());
        // directories that differ in one segment are services
        let segments: Vec<&str> = parent.split('/').collect();
        for at in 0..segments.len() {
            if segments[at].is_empty() {
                continue;
            }
            let mut wild = segments.clone();
            wild[at] = "{service}";
            let text = format!("{}/{{environment}}", wild.join("/"));
            let entry = by_pattern.entry(text).or_insert((0, BTreeSet::new()));
            entry.0 += 1;
            entry.1.extend(names.clone());
        }
    }
    by_pattern
        .into_iter()
        .filter(|(_, (parents, _))| *parents > 1)
        .filter_map(|(text, (_, names))| Some((Pattern::parse(&text).ok()?, names)))
        .collect()
}

/// Whether a directory's children are directories with manifests.
fn has_services(tree: &dyn Tree, directory: &str) -> bool {
    let children = crate::config::children(tree, directory);
    children.iter().any(|child| {
        let entries = tree
            .list(&crate::config::join(directory, child))
            .unwrap_or_default();
        let is_manifest = |name: &str| name.ends_with(".yaml") || name.ends_with(".yml");
        entries
            .iter()
            .any(|(name, stat)| stat.kind != EntryKind::Directory && is_manifest(name))
    })
}

/// Environments of one word are a group, if no environment has the word as its name.
fn stages(environments: &BTreeSet<String>) -> Vec<Stage> {
    let mut by_word: BTreeMap<(usize, String), Vec<String>> = BTreeMap::new();
    for name in environments {
        if let Some(word) = word(name) {
            by_word.entry(word).or_default().push(name.clone());
        }
    }
    let mut stages = Vec::new();
    for ((_, word), members) in by_word {
        if members.len() > 1 && !environments.contains(&word) {
            stages.push(Stage { name: word, members });
        } else {
            stages.extend(members.into_iter().map(|name| Stage {
                members: vec![name.clone()],
                name,
            }));
        }
    }
    stages
}

#[cfg(test)]
mod tests {
    use super::{detect, to_text};
    use crate::config::{Config, FILE};
    use crate::overlay::Memory;

    #[track_caller]
    fn check(paths: &[&str], expected: &str) {
        let tree = paths
            .iter()
            .fold(Memory::default(), |tree, path| tree.with(path, "a: b\n"));
        let text = detect(&tree).map(|config| to_text(&config)).unwrap_or_default();
        assert_eq!(text, expected);
        if !text.is_empty() {
            Config::parse(FILE, &text).unwrap();
        }
    }

    #[test]
    fn environments_are_found_by_name() {
        check(
            &[
                "apps/dev/cart/kustomization.yaml",
                "apps/prod-eu/cart/kustomization.yaml",
                "apps/prod-us/cart/kustomization.yaml",
                "apps/staging/cart/kustomization.yaml",
                "apps/staging/ledger/kustomization.yaml",
                "clusters/dev/apps.yaml",
                "clusters/staging/apps.yaml",
            ],
            "version: 1\nenvironments: [dev, staging, {prod: [prod-eu, prod-us]}]  # left to right\n\
             services: apps/{environment}/{service}\n",
        );
        // flux2-kustomize-helm-example
        check(
            &[
                "apps/base/podinfo/release.yaml",
                "apps/production/kustomization.yaml",
                "apps/staging/kustomization.yaml",
                "clusters/production/apps.yaml",
                "clusters/staging/apps.yaml",
                "infrastructure/controllers/cert-manager.yaml",
            ],
            "version: 1\nenvironments: [staging, production]  # left to right\nservices: apps/{environment}\n",
        );
        // a monorepo with overlays
        check(
            &[
                "services/cart/base/deployment.yaml",
                "services/cart/overlays/dev/kustomization.yaml",
                "services/cart/overlays/prod/kustomization.yaml",
                "services/ledger/overlays/dev/kustomization.yaml",
                "services/ledger/overlays/prod/kustomization.yaml",
            ],
            "version: 1\nenvironments: [dev, prod]  # left to right\n\
             services: services/{service}/overlays/{environment}\n",
        );
        check(&["src/main.rs", "deploy/dev/a.yaml"], "");
    }
}
