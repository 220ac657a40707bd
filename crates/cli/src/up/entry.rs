//! The directory of a local repository to apply, when `--path` names none.

use equate_egress::Egress;
use equate_manifest::yaml;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The directory levels that are searched.
const LEVELS_MAX: usize = 6;
/// The directories that are searched.
const DIRECTORIES_MAX: usize = 5_000;
/// The files that are read.
const FILES_MAX: usize = 5_000;
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The start of the `apiVersion` of Flux's Kustomizations.
const FLUX_GROUP: &str = "kustomize.toolkit.fluxcd.io/";
/// The directories that a note names.
const NAMED_MAX: usize = 8;
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
    #[error("--path {path} is a file; give its directory {directory}")]
    File { path: String, directory: String },
    #[error("--path {path} leads out of the repository; give a directory inside it{}", suggestion(nearest.as_deref()))]
    Outside { path: String, nearest: Option<String> },
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
        return check_given(root, given);
    }
    let candidates = candidates(root);
    match candidates.as_slice() {
        [] => Ok("./".to_owned()),
        [only] => Ok(only.clone()),
        _ => Err(EntryError::Several(candidates)),
    }
}

fn check_given(root: &Path, given: &str) -> Result<String, EntryError> {
    let near = || {
        nearest(
            given.trim_matches(['.', '/']),
            &relative(root, &directories(root)),
        )
    };
    let path = given.to_owned();
    if leads_out(given) {
        return Err(EntryError::Outside {
            path,
            nearest: near(),
        });
    }
    let place = root.join(given.trim_start_matches('/'));
    if place.is_file() {
        let directory = Path::new(given).parent().unwrap_or(Path::new(""));
        let directory = match directory.as_os_str().is_empty() {
            true => "./".to_owned(),
            false => directory.display().to_string(),
        };
        return Err(EntryError::File { path, directory });
    }
    match place.exists() {
        true => Ok(path),
        false => Err(EntryError::Absent {
            path,
            root: root.to_owned(),
            nearest: near(),
        }),
    }
}

/// The path in a remote repository, which is not looked into at the start.
pub(crate) fn check_remote(given: Option<&str>) -> Result<String, EntryError> {
    let path = given.unwrap_or("./").to_owned();
    match leads_out(&path) {
        true => Err(EntryError::Outside { path, nearest: None }),
        false => Ok(path),
    }
}

fn leads_out(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in Path::new(path).components() {
        depth = match (part, depth) {
            (Component::ParentDir, 0) => return true,
            (Component::ParentDir, _) => depth - 1,
            (Component::Normal(_), _) => depth + 1,
            (Component::CurDir | Component::RootDir | Component::Prefix(_), _) => depth,
        };
    }
    false
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

/// A note that names directories to start from, if the whole repository is applied for lack of one.
pub(crate) fn whole(root: &Path, path: &str) -> Option<String> {
    if path != "./" || has_kustomization(root) || has_manifests(root) {
        return None;
    }
    let all = directories(root).into_iter();
    let found: Vec<PathBuf> = all.filter(|path| has_kustomization(path)).collect();
    let mut names = relative(root, &found);
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    (!names.is_empty()).then(|| {
        format!(
            "note: applies the whole repository; to start from one directory, choose it with --path: {}",
            names.join(", ")
        )
    })
}

/// A note about a directory without manifests.
pub(crate) fn empty(root: &Path, path: &str) -> Option<String> {
    let start = root.join(path.trim_start_matches('/'));
    let all = directories(&start);
    let is_searched = |directory: &Path| {
        let below = directory.strip_prefix(&start).unwrap_or(directory);
        below.components().count() < LEVELS_MAX
    };
    let is_empty = |directory: &Path| !has_manifests(directory) && !has_kustomization(directory);
    let nothing = all.len() < DIRECTORIES_MAX
        && all
            .iter()
            .all(|directory| is_searched(directory) && is_empty(directory));
    nothing.then(|| format!("note: {path} has no manifests, so nothing is applied"))
}

/// Directories to start from: those that Flux was bootstrapped in, else those below `clusters`, else those with
/// Kustomizations of Flux that no other one applies, else the only one with a kustomization in a repository
/// without manifests at the top.
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
    let has_manifests = has_manifests(root);
    let clusters = children(&root.join("clusters"));
    if !clusters.is_empty() && !has_manifests {
        return relative(root, &clusters);
    }
    let first = first_of_flux(root, &all);
    if first.contains(&root.to_owned()) {
        return Vec::new();
    }
    if !first.is_empty() {
        return relative(root, &first);
    }
    if has_manifests {
        return Vec::new();
    }
    let kustomizations: Vec<PathBuf> = all.into_iter().filter(|path| has_kustomization(path)).collect();
    match kustomizations.as_slice() {
        [_] => relative(root, &kustomizations),
        _ => Vec::new(),
    }
}

/// The directories with Kustomizations of Flux that are in no `spec.path` of another directory's.
fn first_of_flux(root: &Path, all: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = 0;
    let declared: Vec<(&PathBuf, Vec<PathBuf>)> = all
        .iter()
        .map(|directory| (directory, paths_of_flux(root, directory, &mut files)))
        .filter(|(_, paths)| !paths.is_empty())
        .collect();
    let is_applied = |directory: &Path| {
        let others = declared.iter().filter(|(other, _)| *other != directory);
        let mut paths = others.flat_map(|(_, paths)| paths);
        paths.any(|path| directory.starts_with(path))
    };
    let first = declared.iter().map(|(directory, _)| *directory);
    first
        .filter(|directory| !is_applied(directory))
        .cloned()
        .collect()
}

/// The `spec.path` of each Kustomization of Flux in the files of a directory.
fn paths_of_flux(root: &Path, directory: &Path, files: &mut usize) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for file in manifests(directory) {
        *files += 1;
        let is_small = fs::metadata(&file).is_ok_and(|file| file.len() <= FILE_BYTES_MAX);
        if *files > FILES_MAX || !is_small {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap_or_default();
        if !text.contains(FLUX_GROUP) {
            continue;
        }
        // a file that is no YAML, such as a template, declares nothing
        let documents = yaml::load(&text, &yaml::Options::default()).unwrap_or_default();
        let objects = documents.into_iter().map(|document| document.value);
        let declared = objects.filter(|object| {
            let version = object["apiVersion"].as_str().unwrap_or_default();
            object["kind"] == "Kustomization" && version.starts_with(FLUX_GROUP)
        });
        paths.extend(declared.map(|object| {
            let path = object["spec"]["path"].as_str().unwrap_or_default();
            let inside = Path::new(path).components();
            let inside: PathBuf = inside
                .filter(|part| matches!(part, Component::Normal(_)))
                .collect();
            root.join(inside)
        }));
    }
    paths
}

fn has_kustomization(directory: &Path) -> bool {
    let names = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
    names.iter().any(|name| directory.join(name).is_file())
}

fn has_manifests(directory: &Path) -> bool {
    !manifests(directory).is_empty()
}

/// The visible YAML files in a directory, by name.
fn manifests(directory: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let manifests = paths.filter(|path| {
        let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        is_yaml && !is_hidden(path) && path.is_file()
    });
    manifests.collect()
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
    fn kustomizations_of_flux_that_no_other_applies_are_the_entry() {
        let flux = |path: &str| {
            format!(
                "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: a}}\n\
                 spec: {{path: {path}}}\n"
            )
        };
        let check = |files: &[(&str, String)], expected: Result<&str, &str>| {
            let root = repository(&files.iter().map(|(file, _)| *file).collect::<Vec<_>>());
            for (file, text) in files {
                fs::write(root.path().join(file), text).unwrap();
            }
            let chosen = choose(root.path(), None).map_err(|error| error.to_string());
            assert_eq!(chosen.as_deref().map_err(String::as_str), expected);
        };
        let apps = ("apps/web/ks.yaml", flux("./apps/web/app"));
        let task = ("Taskfile.yaml", "version: 3".to_owned());
        let cluster = ("k8s/flux/cluster/ks.yaml", flux("./apps"));
        check(&[cluster.clone(), apps.clone(), task], Ok("k8s/flux/cluster"));
        // one that applies itself, too
        let own = ("k8s/flux/cluster/own.yaml", flux("./k8s/flux"));
        check(&[cluster.clone(), own, apps.clone()], Ok("k8s/flux/cluster"));
        check(&[cluster.clone(), ("top.yaml", flux("./k8s"))], Ok("./"));
        let other = ("k8s/other/ks.yaml", flux("./apps"));
        let several = "the repository has several directories to start from: k8s/other, k8s/flux/cluster; \
                       choose one with --path";
        check(&[cluster.clone(), other, apps.clone()], Err(several));
        let broken = ("k8s/broken/ks.yaml", format!("{}a: b: c", flux("./apps")));
        check(&[cluster, broken, apps], Ok("k8s/flux/cluster"));
    }

    #[test]
    fn the_whole_repository_is_applied_with_a_note() {
        let check = |files: &[&str], expected: Option<&str>| {
            let root = repository(files);
            let path = choose(root.path(), None).unwrap();
            let note = whole(root.path(), &path);
            assert_eq!(note.as_deref(), expected, "{files:?}");
        };
        check(
            &["app.yaml", "a/kustomization.yaml", "b/kustomization.yaml"],
            None,
        );
        check(&["a/kustomization.yaml"], None);
        check(
            &["a/kustomization.yaml", "b/c/kustomization.yaml"],
            Some(
                "note: applies the whole repository; to start from one directory, choose it with --path: a, b/c",
            ),
        );
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
        let file = "--path apps/web/a.yaml is a file; give its directory apps/web";
        check("apps/web/a.yaml", Err(file));
        let outside = "--path apps/../../web leads out of the repository; give a directory inside it";
        check("apps/../../web", Err(outside));
        check("../clusters/dev", Err("; did you mean clusters/dev?"));
        check("apps/../apps/web", Ok("apps/../apps/web"));
        assert_eq!(check_remote(None).as_deref(), Ok("./"));
        assert!(check_remote(Some("../x")).is_err());
    }

    #[test]
    fn a_repository_without_manifests_has_a_note() {
        let check = |files: &[&str], path: &str, expected: Option<&str>| {
            assert_eq!(
                empty(repository(files).path(), path).as_deref(),
                expected,
                "{files:?}"
            );
        };
        let note = "note: ./ has no manifests, so nothing is applied";
        check(&["README.md", "src/main.rs"], "./", Some(note));
        check(&["README.md", "deploy/app.yaml"], "./", None);
        check(&["app/Kustomization", "b.yaml"], "app", None);
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
