//! The directory of a local repository to apply, when `--path` names none.

use equate_egress::Egress;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The directory levels that are searched.
const LEVELS_MAX: usize = 6;
/// The directories that are searched.
const DIRECTORIES_MAX: usize = 5_000;
/// The ends of the names of packed charts and artifacts.
const ARCHIVES: [&str; 2] = [".tgz", ".tar.gz"];

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum EntryError {
    #[error("the repository has several directories to start from: {}; choose one with --path", .0.join(", "))]
    Several(Vec<String>),
    #[error("--path {path} does not exist in {}{}", root.display(), suggestion(nearest.as_deref()))]
    Absent {
        path: String,
        root: PathBuf,
        nearest: Option<String>,
    },
    #[error("--instead-of {url}={}: {} is not a directory or archive{}", path.display(), path.display(), suggestion(nearest.as_deref()))]
    Instead {
        url: String,
        path: PathBuf,
        nearest: Option<String>,
    },
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"))
}

/// The directory to apply: the given one, else the only one that looks like an entry, else `./`.
pub(crate) fn choose(root: &Path, given: Option<&str>) -> Result<String, EntryError> {
    if let Some(given) = given {
        return match root.join(given.trim_start_matches('/')).exists() {
            true => Ok(given.to_owned()),
            false => Err(EntryError::Absent {
                path: given.to_owned(),
                root: root.to_owned(),
                nearest: nearest(
                    given.trim_matches(['.', '/']),
                    &relative(root, &directories(root)),
                ),
            }),
        };
    }
    let candidates = candidates(root);
    match candidates.as_slice() {
        [] => Ok("./".to_owned()),
        [only] => Ok(only.clone()),
        _ => Err(EntryError::Several(candidates)),
    }
}

/// The way out with the directories of `--instead-of`, which must exist.
pub(crate) fn instead_of(egress: Egress, pairs: &[(String, PathBuf)]) -> Result<Egress, EntryError> {
    check_instead_of(pairs)?;
    let pairs = pairs.iter();
    Ok(pairs.fold(egress, |egress, (url, path)| egress.instead_of(url, path)))
}

/// Checks that the directories of `--instead-of` exist. A packed chart or artifact is a file.
pub(crate) fn check_instead_of(pairs: &[(String, PathBuf)]) -> Result<(), EntryError> {
    let is_archive = |path: &Path| {
        let name = path.to_string_lossy();
        path.is_file() && ARCHIVES.iter().any(|end| name.ends_with(end))
    };
    let mut missing = pairs.iter();
    let missing = missing.find(|(_, path)| !path.is_dir() && !is_archive(path));
    let Some((url, path)) = missing else {
        return Ok(());
    };
    Err(EntryError::Instead {
        url: url.clone(),
        path: path.clone(),
        nearest: nearest_sibling(path),
    })
}

/// The directory whose name is nearest to that of a missing one.
pub(crate) fn nearest_sibling(path: &Path) -> Option<String> {
    let parent = path.parent().filter(|parent| parent.as_os_str() != "");
    let siblings = children(parent.unwrap_or(Path::new(".")));
    let named = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let names: Vec<String> = siblings.iter().filter_map(|path| named(path)).collect();
    let name = nearest(&named(path)?, &names)?;
    Some(match parent {
        Some(parent) => parent.join(&name).display().to_string(),
        None => name,
    })
}

/// Directories to start from: those that Flux was bootstrapped in, else those below `clusters`, else the
/// only one with a kustomization in a repository without manifests at the top.
fn candidates(root: &Path) -> Vec<String> {
    let all = directories(root);
    let bootstrapped: Vec<PathBuf> = all
        .iter()
        .filter(|directory| directory.join("flux-system/gotk-sync.yaml").is_file())
        .cloned()
        .collect();
    if !bootstrapped.is_empty() {
        return relative(root, &bootstrapped);
    }
    if has_manifests(root) {
        return Vec::new();
    }
    let clusters = children(&root.join("clusters"));
    if !clusters.is_empty() {
        return relative(root, &clusters);
    }
    let kustomizations: Vec<PathBuf> = all.into_iter().filter(|path| has_kustomization(path)).collect();
    match kustomizations.as_slice() {
        [_] => relative(root, &kustomizations),
        _ => Vec::new(),
    }
}

fn has_kustomization(directory: &Path) -> bool {
    let names = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
    names.iter().any(|name| directory.join(name).is_file())
}

fn has_manifests(directory: &Path) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        is_yaml && !is_hidden(&path) && path.is_file()
    })
}

fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_none_or(|name| name.to_string_lossy().starts_with('.'))
}

/// The visible directories in a directory, by name; symbolic links are not followed.
fn children(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let visible = directories
        .map(|entry| entry.path())
        .filter(|path| !is_hidden(path));
    let sorted: BTreeSet<PathBuf> = visible.collect();
    sorted.into_iter().collect()
}

/// The root and the directories below it, the upper ones first.
fn directories(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    let mut level = vec![root.to_owned()];
    for _ in 0..LEVELS_MAX {
        level = level.iter().flat_map(|directory| children(directory)).collect();
        found.extend(level.iter().take(DIRECTORIES_MAX - found.len()).cloned());
    }
    found
}

fn relative(root: &Path, directories: &[PathBuf]) -> Vec<String> {
    let inside = |directory: &PathBuf| {
        let inside = directory.strip_prefix(root).unwrap_or(directory);
        match inside.as_os_str().is_empty() {
            true => "./".to_owned(),
            false => inside.to_string_lossy().into_owned(),
        }
    };
    directories.iter().map(inside).collect()
}

fn nearest(wanted: &str, names: &[String]) -> Option<String> {
    let scored = names
        .iter()
        .map(|name| (strsim::normalized_damerau_levenshtein(wanted, name), name));
    let best = scored.max_by(|(left, _), (right, _)| left.total_cmp(right))?;
    (best.0 >= 0.6).then(|| best.1.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository with these files.
    fn repository(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    #[test]
    fn the_only_entry_is_found() {
        let check = |files: &[&str], expected: Result<&str, &str>| {
            let root = repository(files);
            let chosen = choose(root.path(), None).map_err(|error| error.to_string());
            assert_eq!(chosen.as_deref().map_err(String::as_str), expected, "{files:?}");
        };
        check(&[], Ok("./"));
        check(&["app.yaml", "clusters/dev/a.yaml"], Ok("./"));
        check(&["README.md", "clusters/dev/a.yaml"], Ok("clusters/dev"));
        check(
            &["clusters/dev/a.yaml", "clusters/prod/a.yaml", "clusters/.git/x"],
            Err(
                "the repository has several directories to start from: clusters/dev, clusters/prod; \
                 choose one with --path",
            ),
        );
        check(
            &["clusters/dev/flux-system/gotk-sync.yaml", "clusters/prod/a.yaml"],
            Ok("clusters/dev"),
        );
        check(&["flux-system/gotk-sync.yaml"], Ok("./"));
        check(
            &["deploy/base/kustomization.yaml", "src/main.rs"],
            Ok("deploy/base"),
        );
        check(&["a/kustomization.yaml", "b/kustomization.yaml"], Ok("./"));
        check(&["deploy/app.yaml"], Ok("./"));
    }

    #[test]
    fn a_path_that_does_not_exist_names_the_nearest() {
        let root = repository(&["clusters/dev/a.yaml", "apps/web/a.yaml"]);
        let check = |given: &str, expected: Result<&str, &str>| {
            let chosen = choose(root.path(), Some(given)).map_err(|error| error.to_string());
            match (&chosen, expected) {
                (Ok(chosen), Ok(expected)) => assert_eq!(chosen, expected),
                (Err(error), Err(expected)) => assert!(error.ends_with(expected), "{error}"),
                _ => panic!("{given}: {chosen:?}"),
            }
        };
        check("./clusters/dev", Ok("./clusters/dev"));
        check("./cluster/dev", Err("; did you mean clusters/dev?"));
        check("nothing-like-it", Err(&root.path().display().to_string()));
    }

    #[test]
    fn instead_of_needs_a_directory_or_an_archive() {
        let root = repository(&["app/a.yaml", "app-1.0.0.tgz", "note.txt"]);
        let pair = |name: &str| vec![("https://h/a".to_owned(), root.path().join(name))];
        assert_eq!(check_instead_of(&pair("app")), Ok(()));
        assert_eq!(check_instead_of(&pair("app-1.0.0.tgz")), Ok(()));
        assert!(check_instead_of(&pair("note.txt")).is_err());
        let error = check_instead_of(&pair("ap")).unwrap_err().to_string();
        let expected = format!("did you mean {}?", root.path().join("app").display());
        assert!(error.ends_with(&expected), "{error}");
    }
}
