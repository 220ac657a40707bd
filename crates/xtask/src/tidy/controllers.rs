//! Rules of the crate `controllers`: shared modules import no controller, and no type does everything.

use std::collections::{BTreeMap, BTreeSet};

use super::File;
use super::rust::Tokens;

const SOURCES: &str = "crates/controllers/src/";

/// The shared folders. Every other folder is a controller's own.
const SHARED_FOLDERS: [&str; 8] = [
    "dependencies",
    "engine",
    "kit",
    "masks",
    "ownership",
    "shards",
    "sources",
    "targets",
];

/// The files that name all controllers: the list of them, and the public API.
const LISTS: [&str; 2] = ["lib.rs", "set.rs"];

/// A type with more mutating methods has several tasks.
const MUT_METHODS_MAX: usize = 15;

pub(super) fn check(files: &[File]) -> Vec<String> {
    let sources: Vec<(&str, &File)> = files
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
        .filter_map(|file| Some((file.path.strip_prefix(SOURCES)?, file)))
        .collect();
    let mut complaints = imports(&sources);
    complaints.extend(sizes(&sources));
    complaints
}

/// The first path element below `src/`: a folder or a file.
fn top(path: &str) -> &str {
    path.split('/').next().unwrap_or(path)
}

fn imports(sources: &[(&str, &File)]) -> Vec<String> {
    let folders = sources.iter().filter(|(path, _)| path.contains('/'));
    let controllers: BTreeSet<&str> = folders
        .map(|(path, _)| top(path))
        .filter(|folder| !SHARED_FOLDERS.contains(folder))
        .collect();
    let mut complaints = Vec::new();
    for (path, file) in sources {
        if LISTS.contains(path) {
            continue;
        }
        let own = controllers.get(top(path)).copied();
        let depth = depth(path);
        let tokens = Tokens::of(&file.text);
        let imports = tokens.path_heads().into_iter().filter(|head| {
            let from_the_root = head.supers.is_none_or(|supers| supers >= depth);
            from_the_root && own != Some(&*head.name) && controllers.contains(&*head.name)
        });
        // one complaint per name and file
        let lines: BTreeMap<String, usize> = imports.map(|head| (head.name, head.line)).collect();
        complaints.extend(lines.into_iter().map(|(name, line)| match own {
            Some(own) => format!(
                "{}:{line}: the controller `{own}` imports the controller `{name}`: move what both need to a \
                 shared module",
                file.path
            ),
            None => format!(
                "{}:{line}: imports the controller `{name}`, which shared modules do not",
                file.path
            ),
        }));
    }
    complaints
}

/// The number of modules from the crate's root to a file.
fn depth(path: &str) -> usize {
    let modules = path.trim_end_matches(".rs").split('/');
    modules.filter(|module| *module != "mod").count()
}

fn sizes(sources: &[(&str, &File)]) -> Vec<String> {
    let mut counts: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for (path, file) in sources {
        if super::sources::is_test(file) {
            continue;
        }
        for method in Tokens::of(&file.text).without_tests().mut_methods() {
            *counts.entry((top(path), method.of)).or_default() += 1;
        }
    }
    let large = counts.into_iter().filter(|(_, count)| *count > MUT_METHODS_MAX);
    large
        .map(|((place, name), count)| {
            format!(
                "{SOURCES}{place}: `{name}` has {count} methods that take `&mut self`, more than \
                 {MUT_METHODS_MAX}: split it"
            )
        })
        .collect()
}
