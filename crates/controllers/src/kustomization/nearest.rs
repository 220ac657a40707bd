//! The directory that the author of a wrong `spec.path` may have meant.

use equate_source::{Entry, Tree};

const NAMES_MAX: usize = 1_000;
const PATH_BYTES_MAX: usize = 4_096;
const NAME_BYTES_MAX: usize = 128;
const ALIKE_MIN: f64 = 0.6;

/// The directory whose path differs in one name, up to that name if what follows does not exist.
pub(super) fn directory(tree: &Tree, path: &str) -> Option<String> {
    if path.len() > PATH_BYTES_MAX {
        return None;
    }
    let mut found = String::new();
    let mut rest = path.split('/');
    let wrong = rest.find(|name| {
        let below = joined(&found, name);
        let exists = is_directory(tree, &below);
        if exists {
            found = below;
        }
        !exists
    })?;
    let siblings = tree.list(&found)?.into_iter();
    let directories = siblings.filter(|(_, entry)| matches!(entry, Entry::Directory { .. }));
    let short = directories.filter(|(name, _)| name.len() <= NAME_BYTES_MAX);
    let scored = short
        .take(NAMES_MAX)
        .map(|(name, _)| (strsim::normalized_damerau_levenshtein(wrong, &name), name));
    let (alike, name) = scored.max_by(|(left, _), (right, _)| left.total_cmp(right))?;
    if alike < ALIKE_MIN || wrong.len() > NAME_BYTES_MAX {
        return None;
    }
    let near = joined(&found, &name);
    let rest: Vec<&str> = rest.collect();
    let whole = joined(&near, &rest.join("/"));
    Some(if is_directory(tree, &whole) { whole } else { near })
}

fn joined(directory: &str, name: &str) -> String {
    match (directory, name) {
        ("", name) => name.to_owned(),
        (directory, "") => directory.to_owned(),
        (directory, name) => format!("{directory}/{name}"),
    }
}

fn is_directory(tree: &Tree, path: &str) -> bool {
    matches!(tree.entry(path), Some(Entry::Directory { .. }))
}

#[cfg(test)]
mod tests {
    use equate_source::{Ignore, Limits};

    use super::*;

    #[test]
    fn the_nearest_directory_is_found() {
        let root = tempfile::tempdir().unwrap();
        for path in ["clusters/production/apps", "clusters/staging", "infra"] {
            let directory = root.path().join(path);
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("a.yaml"), "a: 1\n").unwrap();
        }
        let tree = Tree::from_directory(root.path(), &Ignore::new(None), &Limits::default()).unwrap();
        for (path, expected) in [
            ("clusters/prodution", Some("clusters/production")),
            ("cluster/production/apps", Some("clusters/production/apps")),
            ("cluster/other", Some("clusters")),
            ("infra/a.yaml", None),
            ("clusters/else", None),
            (&"x".repeat(100_000), None),
        ] {
            assert_eq!(directory(&tree, path).as_deref(), expected, "{path}");
        }
    }
}
