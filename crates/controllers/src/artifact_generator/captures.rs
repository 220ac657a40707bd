//! Directories that `pathPattern` matches, and the artifacts of each.
//!
//! Texts are those of Flux's `artifactgenerator_pathpattern.go` (source-watcher v2.2).

use std::collections::{BTreeMap, HashMap, HashSet};

use equate_api::extensions::{CopyOperation, OutputArtifact};
use equate_source::{Entry, Tree};

/// Artifacts of one generator, over all directories.
const ARTIFACTS_MAX: usize = 1000;
/// A name is tried with all captures of its segment.
const CAPTURES_MAX: usize = 16;
/// Bytes of their texts: each has a copy of all operations.
const ARTIFACTS_BYTES_MAX: usize = 16 << 20;

/// An artifact to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) artifact: OutputArtifact,
    /// The captures, in lower case.
    pub(super) labels: BTreeMap<String, String>,
}

type Captures = BTreeMap<String, String>;

/// The artifacts of a generator. The error is final: only another spec or source helps.
pub(super) fn wanted(
    artifacts: &[OutputArtifact],
    pattern: Option<&str>,
    sources: &BTreeMap<String, Tree>,
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<Wanted>, String> {
    let Some(pattern) = pattern.filter(|pattern| !pattern.is_empty()) else {
        let all = artifacts.iter().map(|artifact| Wanted {
            artifact: artifact.clone(),
            labels: Captures::new(),
        });
        return Ok(all.collect());
    };
    let told = |why: String| format!("pathPattern {pattern:?}: {why}");
    let parts = pattern.strip_prefix('@').and_then(|rest| rest.split_once('/'));
    let (alias, path) = parts.ok_or_else(|| format!("invalid pathPattern format: {pattern}"))?;
    let tree = sources.get(alias);
    let tree = tree.ok_or_else(|| told(format!("source alias {alias} not found in local sources")))?;
    let segments: Result<Vec<Vec<Part>>, String> = path.split('/').map(segment).collect();
    let segments = segments.map_err(told)?;
    let mut names: Vec<&str> = Vec::new();
    for part in segments.iter().flatten() {
        if let Part::Capture(name) = part {
            if names.contains(&name.as_str()) {
                return Err(told(format!("duplicate capture variable {name:?}")));
            }
            if name.len() > 63 || name.starts_with('_') || name.ends_with('_') {
                let why = format!("capture variable {name:?} is not a valid Kubernetes label key");
                return Err(told(why));
            }
            names.push(name);
        }
    }
    if names.len() > CAPTURES_MAX {
        return Err(told(format!("it has more than {CAPTURES_MAX} capture variables")));
    }
    let mut found = Vec::new();
    let all = directories((tree, go_on), "", &segments, &Captures::new(), &mut found);
    all.map_err(|Stopped| told("it was stopped".to_owned()))?;
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    let (mut all, mut seen, mut bytes) = (Vec::new(), HashMap::new(), 0usize);
    for (directory, captures) in found {
        let labels: Captures = captures
            .iter()
            .map(|(name, value)| (name.clone(), value.to_lowercase()))
            .collect();
        for (name, value) in &labels {
            if !is_label(value) {
                return Err(told(format!(
                    "captured value {value:?} for variable {name:?} is not a valid Kubernetes label value"
                )));
            }
        }
        for artifact in artifacts {
            let rendered = render(artifact, &labels, &captures).map_err(|why| {
                let name = &artifact.name;
                told(format!(
                    "failed to render artifact {name} for match {directory}: {why}"
                ))
            })?;
            bytes = bytes.saturating_add(length(&rendered));
            if bytes > ARTIFACTS_BYTES_MAX {
                return Err(told(format!(
                    "its artifacts have more than {ARTIFACTS_BYTES_MAX} bytes of names and operations"
                )));
            }
            let name = rendered.name.clone();
            if !is_name(&name) {
                return Err(told(format!(
                    "rendered artifact name {name:?} is not a valid Kubernetes object name"
                )));
            }
            if let Some(other) = seen.insert(name.clone(), directory.clone()) {
                return Err(told(format!(
                    "directories {other:?} and {directory:?} both resolve to artifact name {name:?}"
                )));
            }
            all.push(Wanted {
                artifact: rendered,
                labels: labels.clone(),
            });
            if all.len() > ARTIFACTS_MAX {
                return Err(told(format!("it makes more than {ARTIFACTS_MAX} artifacts")));
            }
        }
    }
    Ok(all)
}

fn length(artifact: &OutputArtifact) -> usize {
    let operation = |copy: &CopyOperation| {
        let excluded = copy.exclude.iter().map(|text| text.len() + size_of::<String>());
        copy.from.len() + copy.to.len() + size_of::<CopyOperation>() + excluded.sum::<usize>()
    };
    artifact.name.len() + artifact.copy.iter().map(operation).sum::<usize>()
}

/// A part of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Capture(String),
}

fn is_variable(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The parts of a text with `{captures}`.
fn segment(text: &str) -> Result<Vec<Part>, String> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        let (before, after) = rest.split_at(at);
        if !before.is_empty() {
            parts.push(Part::Text(before.to_owned()));
        }
        let Some(after) = after.strip_prefix('{') else {
            return Err("a capture ends without an opening brace".to_owned());
        };
        let Some((name, after)) = after.split_once('}') else {
            return Err("a capture has no closing brace".to_owned());
        };
        if name.is_empty() {
            return Err("empty capture variable".to_owned());
        }
        if !is_variable(name) {
            return Err(format!(
                "capture variable {name:?} must be a valid capture name matching [A-Za-z_][A-Za-z0-9_]*"
            ));
        }
        parts.push(Part::Capture(name.to_owned()));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.to_owned()));
    }
    Ok(parts)
}

struct Stopped;

/// The directories below `at` that match the segments from here on.
fn directories(
    (tree, go_on): (&Tree, &dyn Fn() -> bool),
    at: &str,
    segments: &[Vec<Part>],
    captures: &Captures,
    found: &mut Vec<(String, Captures)>,
) -> Result<(), Stopped> {
    let Some((first, rest)) = segments.split_first() else {
        found.push((at.to_owned(), captures.clone()));
        return Ok(());
    };
    for (name, entry) in tree.list(at).unwrap_or_default() {
        if !go_on() {
            return Err(Stopped);
        }
        let mut captures = captures.clone();
        if matches!(entry, Entry::Directory { .. }) && captured(first, &name, &mut captures) {
            let path = match at {
                "" => name,
                at => format!("{at}/{name}"),
            };
            directories((tree, go_on), &path, rest, &captures, found)?;
        }
    }
    Ok(())
}

/// Matches a name; the first captures take as much as possible, as in a regular expression.
fn captured(parts: &[Part], name: &str, captures: &mut Captures) -> bool {
    captured_rest(parts, name, captures, &mut HashSet::new())
}

/// `failed` has the lengths of the rests that do not match. Without it, the time is exponential in the number
/// of captures.
fn captured_rest(
    parts: &[Part],
    name: &str,
    captures: &mut Captures,
    failed: &mut HashSet<(usize, usize)>,
) -> bool {
    // each part takes a character at least
    if parts.len() > name.len() || failed.contains(&(parts.len(), name.len())) {
        return false;
    }
    let matched = match parts.split_first() {
        None => name.is_empty(),
        Some((Part::Text(text), rest)) => name
            .strip_prefix(text.as_str())
            .is_some_and(|name| captured_rest(rest, name, captures, failed)),
        Some((Part::Capture(variable), rest)) => {
            let mut ends = name.char_indices().map(|(at, char)| at + char.len_utf8()).rev();
            ends.any(|end| {
                let (value, after) = name.split_at(end);
                let matched = captured_rest(rest, after, captures, failed);
                if matched {
                    captures.insert(variable.clone(), value.to_owned());
                }
                matched
            })
        }
    };
    if !matched {
        failed.insert((parts.len(), name.len()));
    }
    matched
}

/// The name gets captures in lower case, paths get them as they are.
fn render(
    artifact: &OutputArtifact,
    labels: &Captures,
    captures: &Captures,
) -> Result<OutputArtifact, String> {
    let copy = artifact.copy.iter().map(|operation| {
        Ok(CopyOperation {
            from: filled(&operation.from, captures)?,
            to: filled(&operation.to, captures)?,
            exclude: operation.exclude.clone(),
            strategy: operation.strategy,
        })
    });
    Ok(OutputArtifact {
        copy: copy.collect::<Result<_, String>>()?,
        name: filled(&artifact.name, labels)?,
        origin_revision: artifact.origin_revision.clone(),
        revision: artifact.revision.clone(),
    })
}

fn filled(template: &str, captures: &Captures) -> Result<String, String> {
    let invalid = |why: String| format!("invalid template {template:?}: {why}");
    let mut text = String::new();
    for part in segment(template).map_err(invalid)? {
        match part {
            Part::Text(part) => text.push_str(&part),
            Part::Capture(name) => match captures.get(&name) {
                Some(value) => text.push_str(value),
                None => {
                    return Err(invalid(format!(
                        "capture variable {name:?} is not defined by pathPattern"
                    )));
                }
            },
        }
    }
    Ok(text)
}

fn is_label(value: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = value.as_bytes();
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// A DNS subdomain, as names of objects are.
pub(super) fn is_name(name: &str) -> bool {
    let is_edge =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    name.len() <= 253
        && name.split('.').all(|label| {
            let bytes = label.as_bytes();
            is_edge(bytes.first())
                && is_edge(bytes.last())
                && bytes.iter().all(|byte| is_edge(Some(byte)) || *byte == b'-')
        })
}

#[cfg(test)]
mod tests {
    use equate_source::{Gathering, Limits};

    use super::*;

    fn tree(paths: &[&str]) -> Tree {
        let mut gathering = Gathering::new(tempfile::tempfile().unwrap(), &Limits::default());
        for path in paths {
            gathering.add(path, b"", false).unwrap();
        }
        gathering.finish().unwrap()
    }

    fn names(pattern: &str, name: &str, paths: &[&str]) -> Result<Vec<String>, String> {
        let artifact = OutputArtifact {
            name: name.to_owned(),
            copy: vec![CopyOperation {
                from: "@git/apps/{app}/**".to_owned(),
                to: "@artifact/".to_owned(),
                ..CopyOperation::default()
            }],
            ..OutputArtifact::default()
        };
        let sources = BTreeMap::from([("git".to_owned(), tree(paths))]);
        let wanted = wanted(&[artifact], Some(pattern), &sources, &|| true)?;
        Ok(wanted
            .into_iter()
            .map(|wanted| {
                format!(
                    "{} {} {:?}",
                    wanted.artifact.name, wanted.artifact.copy[0].from, wanted.labels
                )
            })
            .collect())
    }

    #[test]
    fn each_matching_directory_gets_its_artifacts() {
        let paths = [
            "apps/Web/envs/dev/a",
            "apps/db/envs/dev/a",
            "apps/db/envs/prod/a",
            "apps/file",
        ];
        let expected = [
            "web-dev @git/apps/Web/** {\"app\": \"web\", \"env\": \"dev\"}",
            "db-dev @git/apps/db/** {\"app\": \"db\", \"env\": \"dev\"}",
            "db-prod @git/apps/db/** {\"app\": \"db\", \"env\": \"prod\"}",
        ];
        let found = names("@git/apps/{app}/envs/{env}", "{app}-{env}", &paths).unwrap();
        assert_eq!(found, expected);
        assert_eq!(names("@git/none/{app}", "{app}", &paths), Ok(Vec::new()));
        let found = names("@git/apps/{app}/envs/p{rest}", "{app}-{rest}", &paths).unwrap();
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn many_captures_of_a_long_name_end() {
        let more: String = (1..CAPTURES_MAX).map(|number| format!("{{c{number}}}")).collect();
        let captures = format!("{{app}}{more}");
        let path = |length| format!("{}/x", "a".repeat(length));
        let found = names(&format!("@git/{captures}-"), "{app}", &[&path(200)]);
        assert_eq!(found, Ok(Vec::new()));
        let found = names(&format!("@git/{captures}"), "{app}", &[&path(70)]).unwrap();
        assert_eq!(found.len(), 1);
        let error = names(&format!("@git/{captures}{{one}}"), "{app}", &[&path(70)]).unwrap_err();
        assert!(error.contains("more than 16 capture variables"), "{error}");
    }

    #[test]
    fn a_search_can_be_stopped_at_each_directory() {
        let sources = BTreeMap::from([("git".to_owned(), tree(&["a/b/1", "a/c/1"]))]);
        let found = |answers: usize| {
            let asked = std::cell::Cell::new(0);
            let go_on = || {
                asked.set(asked.get() + 1);
                assert!(asked.get() <= answers + 1, "it went on");
                asked.get() <= answers
            };
            wanted(&[], Some("@git/{app}/{env}"), &sources, &go_on)
        };
        assert_eq!(found(3), Ok(Vec::new()));
        for answers in 0..3 {
            assert!(
                found(answers).unwrap_err().contains("it was stopped"),
                "{answers}"
            );
        }
    }

    #[test]
    fn patterns_and_names_are_checked() {
        let check = |pattern: &str, name: &str, why: &str| {
            let error = names(pattern, name, &["apps/a/x", "apps/A/x", "apps/b_/x"]).unwrap_err();
            assert!(error.contains(why), "{error}");
        };
        check("@other/{app}", "{app}", "source alias other not found");
        check("@git/{app", "{app}", "a capture has no closing brace");
        check("@git/{}", "{app}", "empty capture variable");
        check("@git/{app}/{app}", "{app}", "duplicate capture variable \"app\"");
        check("@git/{1}", "{app}", "must be a valid capture name");
        check(
            "@git/apps/{app}",
            "{env}",
            "capture variable \"env\" is not defined by pathPattern",
        );
        check("@git/apps/{app}", "{app}", "both resolve to artifact name \"a\"");
        check(
            "@git/apps/b{app}",
            "{app}",
            "captured value \"_\" for variable \"app\" is not a valid",
        );
    }
}
