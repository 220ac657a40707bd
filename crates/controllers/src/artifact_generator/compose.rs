//! Composes the files of an artifact from those of sources, by copy operations in order.
//!
//! The rules are those of `cp`, as Flux's `internal/builder` (source-watcher v2.2) has them, and so are the
//! texts. Files are read when the artifact is written: until then an operation costs names only.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use bytes::{Buf as _, Bytes};
use equate_api::extensions::{CopyOperation, CopyStrategy, OutputArtifact};
use equate_manifest::yaml;
use equate_source::{Entry, Gathering, Ignore, KeyRules, Limits, Pauses, Tree};
use serde_json::{Map, Value};

use super::globs::{Excluded, Pattern, PatternError, is_pattern};
use crate::kit::read::chain;

const DESTINATION: &str = "@artifact/";
const ARCHIVES: [&str; 2] = [".tar.gz", ".tgz"];
/// Archives that one artifact unpacks: the content of each is an open file until the artifact is composed.
const UNPACKED_MAX: usize = 256;

/// Merged files of one artifact stay in memory until it is composed.
const MERGED_BYTES_MAX: usize = 64 << 20;
const STOPPED: &str = "it was stopped";
/// The memory of a step while YAML is read.
const HELD_PER_STEP: usize = 4;

#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    /// An unnamed file for the content of an archive.
    pub(super) scratch: &'a dyn Fn() -> Result<File, String>,
    /// Lets other work go first, for work that holds this many bytes. Tells whether to go on.
    pub(super) go_on: &'a dyn Fn(usize) -> bool,
}

/// Composes one artifact. Blocks.
pub(super) fn compose(
    artifact: &OutputArtifact,
    sources: &BTreeMap<String, Tree>,
    ground: Ground<'_>,
) -> Result<Tree, String> {
    let mut staged = Staged {
        files: BTreeMap::new(),
        ground,
        limits: Limits::default(),
        unpacked: 0,
        unpacked_bytes: 0,
        merged_bytes: 0,
        pattern_bytes: 0,
    };
    for operation in &artifact.copy {
        staged.apply(operation, sources).map_err(|why| {
            let CopyOperation { from, to, .. } = operation;
            format!("failed to apply copy operations: failed to apply copy operation from '{from}' to '{to}': {why}")
        })?;
    }
    staged.finish()
}

/// A file of the artifact.
#[derive(Debug, Clone)]
enum Content {
    Of(Tree, String),
    Merged(Bytes),
}

struct Staged<'a> {
    files: BTreeMap<String, (Content, bool)>,
    ground: Ground<'a>,
    limits: Limits,
    /// Archives so far.
    unpacked: usize,
    /// Their content, also of files that were replaced: unpacking is work.
    unpacked_bytes: u64,
    /// Of merged files, also of those that were replaced.
    merged_bytes: usize,
    /// The memory of the patterns of an operation.
    pattern_bytes: usize,
}

/// An operation, parsed.
struct Copying<'a> {
    tree: &'a Tree,
    strategy: CopyStrategy,
    excluded: Excluded,
    to: &'a str,
}

impl Staged<'_> {
    fn apply(&mut self, operation: &CopyOperation, sources: &BTreeMap<String, Tree>) -> Result<(), String> {
        self.pause()?;
        let from = operation
            .from
            .strip_prefix('@')
            .and_then(|from| from.split_once('/'));
        let (alias, path) = from.ok_or("source format must be '@alias/pattern'")?;
        let to = operation.to.strip_prefix(DESTINATION);
        let to = to.ok_or("destination must start with '@artifact/'")?;
        let tree = sources.get(alias);
        let copying = Copying {
            tree: tree.ok_or_else(|| format!("source alias '{alias}' not found"))?,
            strategy: operation.strategy.unwrap_or_default(),
            excluded: Excluded::new(&operation.exclude)?,
            to,
        };
        self.pattern_bytes = copying.excluded.held();
        match is_pattern(path) {
            true => self.matching(&copying, alias, path),
            false => self.one(&copying, path),
        }
    }

    /// A file or a directory, by its name.
    fn one(&mut self, copying: &Copying<'_>, path: &str) -> Result<(), String> {
        let path = &join("", path)?;
        let name = path.rsplit('/').next().unwrap_or_default();
        let extracts = copying.strategy == CopyStrategy::Extract;
        match copying.tree.entry(path) {
            None => Err(format!("source '{}' does not exist", shown(path))),
            Some(Entry::Directory { .. }) if extracts => Err(format!(
                "extract strategy is not supported for directories, got '{}'",
                shown(path)
            )),
            Some(Entry::Directory { .. }) => {
                let to = join(copying.to, name)?;
                self.directory(copying, path, &to, path)
            }
            Some(Entry::File { .. }) if self.excludes(copying, path, "")? => Ok(()),
            Some(Entry::File { .. }) if extracts => match is_archive(path) {
                true => self.extract(copying, path),
                false => Err(format!(
                    "extract strategy requires tarball file (.tar.gz or .tgz), got '{path}'"
                )),
            },
            Some(Entry::File { executable, .. }) => {
                let into =
                    copying.to.is_empty() || copying.to.ends_with('/') || self.is_directory(copying.to);
                let to = match into {
                    true => join(copying.to, name)?,
                    false => join("", copying.to)?,
                };
                self.file(copying, path, &to, executable)
            }
        }
    }

    fn matching(&mut self, copying: &Copying<'_>, alias: &str, text: &str) -> Result<(), String> {
        let extracts = copying.strategy == CopyStrategy::Extract;
        let pattern = match extracts {
            true => Pattern::deep(text),
            false => Pattern::plain(text),
        };
        let pattern = pattern.map_err(|error| match error {
            PatternError::Malformed => format!("invalid glob pattern '{text}'"),
            PatternError::TooLarge => format!("glob pattern '{text}' is too large: {error}"),
        })?;
        let mut matches = Vec::new();
        let depth = text.split('/').count();
        let depth_max = if extracts { usize::MAX } else { depth };
        let mut search = Search {
            tree: copying.tree,
            pattern: &pattern,
            pause: &|| self.pause(),
            found: &mut matches,
        };
        search.below("", depth_max)?;
        if matches.is_empty() {
            return Err(format!("no files match pattern '{text}' in source '{alias}'"));
        }
        let base: Vec<&str> = text.split('/').take_while(|part| !is_pattern(part)).collect();
        let base = base.join("/");
        let mut included = Vec::new();
        for (path, entry) in matches {
            self.pause()?;
            if !self.excludes(copying, &path, &base)? {
                included.push((path, entry));
            }
        }
        if included.is_empty() {
            return Err(format!(
                "all files matching pattern '{text}' in source '{alias}' were excluded"
            ));
        }
        for (path, entry) in included {
            self.pause()?;
            match entry {
                Entry::Directory { .. } if extracts => {}
                Entry::File { .. } if extracts => {
                    if is_archive(&path) {
                        self.extract(copying, &path)?;
                    }
                }
                entry => {
                    // `dir/**` is the content of the directory
                    let prefix = text.strip_suffix("/**").map(|prefix| format!("{prefix}/"));
                    let below = prefix.and_then(|prefix| path.strip_prefix(&prefix));
                    let to = join(copying.to, below.unwrap_or(&path))?;
                    match entry {
                        Entry::Directory { .. } => self.directory(copying, &path, &to, &base)?,
                        Entry::File { executable, .. } => self.file(copying, &path, &to, executable)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// A directory with all below it. Its files are never merged, as upstream.
    fn directory(&mut self, copying: &Copying<'_>, path: &str, to: &str, base: &str) -> Result<(), String> {
        for (name, entry) in copying.tree.list(path).unwrap_or_default() {
            self.pause()?;
            let (path, to) = (join(path, &name)?, join(to, &name)?);
            if self.excludes(copying, &path, base)? {
                continue;
            }
            match entry {
                Entry::Directory { .. } => self.directory(copying, &path, &to, base)?,
                Entry::File { executable, .. } => {
                    self.put(to, Content::Of(copying.tree.clone(), path), executable)?;
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, copying: &Copying<'_>, path: &str, to: &str, executable: bool) -> Result<(), String> {
        let content = Content::Of(copying.tree.clone(), path.to_owned());
        let under = self
            .files
            .get(to)
            .filter(|_| copying.strategy == CopyStrategy::Merge);
        let Some((under, _)) = under else {
            return self.put(to.to_owned(), content, executable);
        };
        let failed = |why: String| format!("failed to copy file '{path}' to '{to}': {why}");
        let (under, over) = (
            self.mapping(&under.read()?).map_err(failed)?,
            self.mapping(&content.read()?).map_err(failed)?,
        );
        let merged = yaml::to_string(&Value::Object(merge(under, over)));
        self.merged_bytes = self.merged_bytes.saturating_add(merged.len());
        if self.merged_bytes > MERGED_BYTES_MAX {
            let why = format!("all merged files together have more than {MERGED_BYTES_MAX} bytes");
            return Err(failed(why));
        }
        self.put(to.to_owned(), Content::Merged(merged.into()), false)
    }

    fn excludes(&self, copying: &Copying<'_>, path: &str, base: &str) -> Result<bool, String> {
        copying.excluded.has(path, base, &|| self.pause())
    }

    fn held(&self) -> usize {
        self.merged_bytes.saturating_add(self.pattern_bytes)
    }

    fn pause(&self) -> Result<(), String> {
        match (self.ground.go_on)(self.held()) {
            true => Ok(()),
            false => Err(STOPPED.to_owned()),
        }
    }

    /// All documents of a file, merged.
    fn mapping(&self, bytes: &[u8]) -> Result<Map<String, Value>, String> {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        let (mut held, mut goes_on) = (self.held(), true);
        let mut watch = |steps: usize| {
            held = held.saturating_add(steps.saturating_mul(HELD_PER_STEP));
            goes_on = goes_on && (self.ground.go_on)(held);
            goes_on
        };
        let documents = yaml::load_watched(text, &yaml::Options::default(), &mut watch);
        // a short text is read to its end
        if !goes_on {
            return Err(STOPPED.to_owned());
        }
        let documents = documents.map_err(|error| format!("cannot unmarshal YAML document: {error}"))?;
        let mut merged = Map::new();
        for document in documents {
            match document.value {
                Value::Object(mapping) => merged = merge(merged, mapping),
                Value::Null => {}
                _ => return Err("cannot unmarshal YAML document: it is no mapping".to_owned()),
            }
        }
        Ok(merged)
    }

    /// The files of an archive.
    fn extract(&mut self, copying: &Copying<'_>, path: &str) -> Result<(), String> {
        let failed = |why: String| format!("failed to extract tarball '{path}' to '{}': {why}", copying.to);
        self.unpacked += 1;
        if self.unpacked > UNPACKED_MAX {
            let why = format!("an artifact unpacks at most {UNPACKED_MAX} archives");
            return Err(failed(why));
        }
        let bytes = copying.tree.read(path).map_err(|error| failed(chain(&error)))?;
        let pack = (self.ground.scratch)().map_err(failed)?;
        let written = pack.try_clone().map_err(|error| failed(chain(&error)))?;
        // a pattern that matches nothing replaces the defaults: nothing is left out here
        let everything = Ignore::new(Some("!*"));
        let go_on = || (self.ground.go_on)(self.held());
        let tree = Tree::unpack(&*bytes, &everything, &self.limits, pack, &Pauses::new(&go_on));
        let tree = tree.map_err(|error| failed(chain(&error)))?;
        let written = written.metadata().map_err(|error| failed(chain(&error)))?;
        self.unpacked_bytes = self.unpacked_bytes.saturating_add(written.len());
        let bytes_max = self.limits.tree_bytes_max;
        if self.unpacked_bytes > bytes_max {
            let why = format!("all archives together have more than {bytes_max} bytes");
            return Err(failed(why));
        }
        let whole = Copying {
            tree: &tree,
            strategy: CopyStrategy::Overwrite,
            excluded: Excluded::default(),
            to: copying.to,
        };
        self.directory(&whole, "", &join("", copying.to)?, "")
    }

    fn put(&mut self, to: String, content: Content, executable: bool) -> Result<(), String> {
        if to.is_empty() {
            return Err("a file needs a name".to_owned());
        }
        self.files.insert(to, (content, executable));
        match self.files.len() > self.limits.entries_max {
            true => Err(format!(
                "the artifact has more than {} files",
                self.limits.entries_max
            )),
            false => Ok(()),
        }
    }

    fn is_directory(&self, path: &str) -> bool {
        let below = format!("{path}/");
        let mut after = self.files.range(below.clone()..);
        after.next().is_some_and(|(path, _)| path.starts_with(&below))
    }

    fn finish(mut self) -> Result<Tree, String> {
        let rules = KeyRules::of_trees();
        let mut gathering = Gathering::new((self.ground.scratch)()?, &self.limits);
        let files = std::mem::take(&mut self.files);
        let go_on = || (self.ground.go_on)(self.held());
        let pauses = Pauses::new(&go_on);
        for (path, (content, executable)) in files {
            self.pause()?;
            if !rules
                .excludes(&path, &pauses)
                .map_err(|stopped| stopped.to_string())?
            {
                let (length, content) = content.open()?;
                let added = gathering.add_from(&path, content, length, executable);
                added.map_err(|error| chain(&error))?;
            }
        }
        gathering.finish().map_err(|error| chain(&error))
    }
}

impl Content {
    fn open(&self) -> Result<(u64, Box<dyn io::Read>), String> {
        match self {
            Self::Of(tree, path) => tree.open(path).map_err(|error| chain(&error)),
            Self::Merged(bytes) => Ok((bytes.len() as u64, Box::new(bytes.clone().reader()))),
        }
    }

    fn read(&self) -> Result<Bytes, String> {
        match self {
            Self::Of(tree, path) => tree.read(path).map_err(|error| chain(&error)),
            Self::Merged(bytes) => Ok(bytes.clone()),
        }
    }
}

/// A search for files and directories. What is below a match is not a match of the same depth.
struct Search<'a> {
    tree: &'a Tree,
    pattern: &'a Pattern,
    pause: &'a dyn Fn() -> Result<(), String>,
    found: &'a mut Vec<(String, Entry)>,
}

impl Search<'_> {
    fn below(&mut self, at: &str, depth: usize) -> Result<(), String> {
        if depth == 0 {
            return Ok(());
        }
        for (name, entry) in self.tree.list(at).unwrap_or_default() {
            (self.pause)()?;
            let path = match at {
                "" => name,
                at => format!("{at}/{name}"),
            };
            if self.pattern.matches(&path) {
                self.found.push((path.clone(), entry));
            }
            if matches!(entry, Entry::Directory { .. }) {
                self.below(&path, depth.saturating_sub(1))?;
            }
        }
        Ok(())
    }
}

fn is_archive(path: &str) -> bool {
    let path = path.to_lowercase();
    ARCHIVES.iter().any(|ending| path.ends_with(ending))
}

fn shown(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}

/// A path below the root.
fn join(directory: &str, name: &str) -> Result<String, String> {
    let mut names: Vec<&str> = Vec::new();
    for part in directory.split('/').chain(name.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                let left = names.pop();
                left.ok_or_else(|| format!("path '{directory}/{name}' escapes from parent"))?;
            }
            part => names.push(part),
        }
    }
    Ok(names.join("/"))
}

fn merge(mut under: Map<String, Value>, over: Map<String, Value>) -> Map<String, Value> {
    for (key, value) in over {
        let merged = match (under.remove(&key), value) {
            (Some(Value::Object(under)), Value::Object(over)) => Value::Object(merge(under, over)),
            (_, value) => value,
        };
        under.insert(key, merged);
    }
    under
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &[u8])]) -> Tree {
        let mut gathering = Gathering::new(tempfile::tempfile().unwrap(), &Limits::default());
        for (path, bytes) in files {
            gathering.add(path, bytes, false).unwrap();
        }
        gathering.finish().unwrap()
    }

    fn files(tree: &Tree, at: &str, found: &mut Vec<String>) {
        for (name, entry) in tree.list(at).unwrap_or_default() {
            let path = join(at, &name).unwrap();
            match entry {
                Entry::Directory { .. } => files(tree, &path, found),
                Entry::File { .. } => {
                    let text = String::from_utf8_lossy(&tree.read(&path).unwrap()).into_owned();
                    found.push(format!("{path}={text}"));
                }
            }
        }
    }

    fn composed(operations: &[(&str, &str, CopyStrategy, &[&str])]) -> Result<Vec<String>, String> {
        let archive = {
            let inner = tree(&[("x/y.txt", b"y"), ("logo.png", b"png")]);
            let mut bytes = Vec::new();
            inner.write_archive(&mut bytes, &Limits::default()).unwrap();
            bytes
        };
        let git = tree(&[
            ("apps/a.yaml", b"a: {x: 1, z: [1]}\n"),
            ("apps/b.yaml", b"a: {z: [2]}\n---\nc: 1\n"),
            ("apps/sub/c.md", b"c"),
            ("charts/one.tgz", &archive),
            ("logo.png", b"png"),
        ]);
        let copy = operations
            .iter()
            .map(|(from, to, strategy, exclude)| CopyOperation {
                from: (*from).to_owned(),
                to: (*to).to_owned(),
                strategy: Some(*strategy),
                exclude: exclude.iter().map(|text| (*text).to_owned()).collect(),
            });
        let artifact = OutputArtifact {
            name: "all".to_owned(),
            copy: copy.collect(),
            ..OutputArtifact::default()
        };
        let sources = BTreeMap::from([("git".to_owned(), git)]);
        let ground = Ground {
            scratch: &|| Ok(tempfile::tempfile().unwrap()),
            go_on: &|_| true,
        };
        let tree = compose(&artifact, &sources, ground)?;
        let mut found = Vec::new();
        files(&tree, "", &mut found);
        Ok(found)
    }

    #[test]
    fn composing_can_be_stopped_at_each_file() {
        let git = tree(&[
            ("a/1", b"a: 1"),
            ("a/2", b"a: 2"),
            ("a/3", b"a: 3"),
            ("b/1", b"b: 1"),
        ]);
        let sources = BTreeMap::from([("git".to_owned(), git)]);
        let check = |operations: &[(&str, CopyStrategy)], questions: usize| {
            let copy = operations.iter().map(|(from, strategy)| CopyOperation {
                from: (*from).to_owned(),
                to: "@artifact/".to_owned(),
                strategy: Some(*strategy),
                exclude: vec!["none".to_owned()],
            });
            let artifact = OutputArtifact {
                copy: copy.collect(),
                ..OutputArtifact::default()
            };
            let composed = |answers: usize| {
                let asked = std::cell::Cell::new(0);
                let ground = Ground {
                    scratch: &|| Ok(tempfile::tempfile().unwrap()),
                    go_on: &|_| {
                        asked.set(asked.get() + 1);
                        assert!(
                            asked.get() <= answers.saturating_add(1),
                            "{operations:?}: it went on"
                        );
                        asked.get() <= answers
                    },
                };
                (compose(&artifact, &sources, ground).map(drop), asked.get())
            };
            assert_eq!(composed(usize::MAX), (Ok(()), questions), "{operations:?}");
            for answers in 0..questions {
                let (error, _) = composed(answers);
                let error = error.unwrap_err();
                assert!(error.contains("stopped"), "{operations:?}, {answers}: {error}");
            }
        };
        use CopyStrategy::{Merge, Overwrite};
        // the operation; each file where it is found, and where it is written
        check(&[("@git/a", Overwrite)], 1 + 3 + 3);
        // two directories and four files are searched; then each match is excluded or not, and copied
        check(&[("@git/a/*", Overwrite)], 1 + 6 + 3 + 3 + 3);
        let merged = |read: usize| (1 + 6 + 3 + 3) + (1 + 6 + 3 + 3 + read) + 3;
        check(&[("@git/a/*", Overwrite), ("@git/a/*", Merge)], merged(6));
    }

    #[test]
    fn files_are_copied_as_cp_does() {
        use CopyStrategy::{Extract, Merge, Overwrite};
        let check = |operations: &[(&str, &str, CopyStrategy, &[&str])], expected: &[&str]| {
            let paths: Vec<String> = composed(operations).unwrap();
            let paths: Vec<&str> = paths.iter().filter_map(|file| file.split('=').next()).collect();
            assert_eq!(paths, expected, "{operations:?}");
        };
        check(
            &[("@git/apps", "@artifact/", Overwrite, &[])],
            &["apps/a.yaml", "apps/b.yaml", "apps/sub/c.md"],
        );
        check(
            &[("@git/apps/**", "@artifact/x/", Overwrite, &["*.md"])],
            &["x/a.yaml", "x/b.yaml"],
        );
        check(
            &[("@git/apps/*.yaml", "@artifact/", Overwrite, &["b.*"])],
            &["apps/a.yaml"],
        );
        check(
            &[("@git/apps/a.yaml", "@artifact/b.yaml", Overwrite, &[])],
            &["b.yaml"],
        );
        check(
            &[("@git/apps/a.yaml", "@artifact/d/", Overwrite, &[])],
            &["d/a.yaml"],
        );
        let twice = [
            ("@git/apps/a.yaml", "@artifact/d/", Overwrite, &[][..]),
            ("@git/apps/b.yaml", "@artifact/d", Overwrite, &[]),
        ];
        check(&twice, &["d/a.yaml", "d/b.yaml"]);
        // the defaults of the ignore rules apply to the artifact
        check(
            &[("@git/**", "@artifact/", Overwrite, &["charts/**"])],
            &["apps/a.yaml", "apps/b.yaml", "apps/sub/c.md"],
        );
        check(&[("@git/**/*.tgz", "@artifact/c", Extract, &[])], &["c/x/y.txt"]);
        let merged = [
            ("@git/apps/a.yaml", "@artifact/v.yaml", Overwrite, &[][..]),
            ("@git/apps/b.yaml", "@artifact/v.yaml", Merge, &[]),
        ];
        assert_eq!(
            composed(&merged).unwrap(),
            ["v.yaml=a:\n  x: 1\n  z:\n  - 2\nc: 1\n"]
        );
    }

    #[test]
    fn operations_that_cannot_be_carried_out_are_told() {
        use CopyStrategy::{Extract, Merge, Overwrite};
        let check = |from: &str, to: &str, strategy, exclude: &[&str], why: &str| {
            let error = composed(&[(from, to, strategy, exclude)]).unwrap_err();
            assert!(error.contains(why), "{error}");
        };
        check(
            "@other/x",
            "@artifact/",
            Overwrite,
            &[],
            "source alias 'other' not found",
        );
        check(
            "@git/none",
            "@artifact/",
            Overwrite,
            &[],
            "source 'none' does not exist",
        );
        check(
            "@git/none/*",
            "@artifact/",
            Overwrite,
            &[],
            "no files match pattern 'none/*' in source 'git'",
        );
        check(
            "@git/apps/*.md",
            "@artifact/",
            Overwrite,
            &[],
            "no files match pattern",
        );
        check(
            "@git/apps/*",
            "@artifact/",
            Overwrite,
            &["**"],
            "in source 'git' were excluded",
        );
        check(
            "@git/apps",
            "@artifact/",
            Extract,
            &[],
            "extract strategy is not supported for directories",
        );
        check(
            "@git/logo.png",
            "@artifact/",
            Extract,
            &[],
            "extract strategy requires tarball file",
        );
        check(
            "@git/apps/a.yaml",
            "@artifact/../x",
            Merge,
            &[],
            "escapes from parent",
        );
        let again = ("@git/charts/one.tgz", "@artifact/", Extract, &[][..]);
        let error = composed(&[again; UNPACKED_MAX + 1]).unwrap_err();
        assert!(error.contains("unpacks at most 256 archives"), "{error}");
        let error = composed(&[
            ("@git/apps/a.yaml", "@artifact/a", Overwrite, &[]),
            ("@git/apps/**", "@artifact/a", Overwrite, &[]),
        ]);
        assert!(error.unwrap_err().contains("both a file and a directory"));
    }
}
