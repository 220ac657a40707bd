//! `--crds`: definitions from files, directories, charts and catalogues of schemas.
//!
//! Nothing is rendered: of a chart, the files in `crds/` count. A catalogue has one JSON schema for each kind
//! and version, `GROUP/KIND_VERSION.json`; it is read when an object needs the kind.

use super::entry::nearest_sibling;
use crate::failure::Failure;
use crate::schemaless::structural;
use equate_helm::{Chart, Limits, LoadError, listing};
use equate_manifest::yaml::{self, YamlError};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The files of a directory that are looked at; large catalogues have some ten thousand.
const FILES_MAX: usize = 100_000;
const LEVELS_MAX: usize = 8;
const KIND: &str = "CustomResourceDefinition";
/// A larger file without definitions is not parsed.
const PARSED_BYTES_MAX: usize = 1 << 20;
/// The notes about one path.
const NOTES_MAX: usize = 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CrdsError {
    #[error("--crds {} does not exist{}", path.display(), nearest.as_deref().map(|name| format!("; did you mean {name}?")).unwrap_or_default())]
    Absent { path: PathBuf, nearest: Option<String> },
    #[error(
        "--crds {} contains no CustomResourceDefinition and no schema such as example.org/kind_v1.json{}{}",
        path.display(),
        if *templates { "; its definitions are templates" } else { "" },
        unreadable.as_deref().map(|why| format!("; {why}")).unwrap_or_default()
    )]
    Empty {
        path: PathBuf,
        templates: bool,
        unreadable: Option<String>,
    },
    #[error("--crds: could not read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("--crds: could not parse {origin}")]
    Parse {
        origin: String,
        #[source]
        source: YamlError,
    },
    #[error("--crds: could not load the chart {}", path.display())]
    Chart {
        path: PathBuf,
        #[source]
        source: LoadError,
    },
    #[error("--crds {} contains more than {FILES_MAX} files", path.display())]
    TooMany { path: PathBuf },
}

impl Failure for CrdsError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Empty { templates: true, .. } => Some(
                "render them first: equate template CHART > crds.yaml, with the values that enable them, then --crds crds.yaml",
            ),
            _ => None,
        }
    }
}

/// A definition of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    pub(crate) origin: String,
    pub(crate) object: Value,
}

#[derive(Debug, Default)]
pub(crate) struct Given {
    /// By name; of two, the later one.
    pub(crate) definitions: BTreeMap<String, Definition>,
    pub(crate) catalogues: BTreeSet<PathBuf>,
    /// About definitions that were left out.
    pub(crate) notes: Vec<String>,
    /// Files that cannot be parsed, and why.
    unreadable: Vec<String>,
}

/// Reads the definitions of all paths.
pub(crate) fn load(paths: &[PathBuf]) -> Result<Given, CrdsError> {
    let mut given = Given::default();
    for path in paths {
        if !path.exists() {
            return Err(CrdsError::Absent {
                path: path.clone(),
                nearest: nearest_sibling(path),
            });
        }
        let mut of_path = Given::default();
        of_path.add(path)?;
        if of_path.definitions.is_empty() && of_path.catalogues.is_empty() {
            return Err(CrdsError::Empty {
                path: path.clone(),
                templates: !of_path.notes.is_empty(),
                unreadable: of_path.unreadable.into_iter().next(),
            });
        }
        let unreadable = of_path.unreadable.into_iter();
        let left_out = unreadable.map(|why| format!("note: --crds leaves out a file: {why}"));
        let mut notes: Vec<String> = of_path.notes.into_iter().chain(left_out).collect();
        let more = notes.len().saturating_sub(NOTES_MAX);
        notes.truncate(NOTES_MAX);
        if more > 0 {
            notes.push(format!("note: --crds {}: {more} more notes", path.display()));
        }
        given.notes.extend(notes);
        given.definitions.extend(of_path.definitions);
        given.catalogues.extend(of_path.catalogues);
    }
    Ok(given)
}

impl Given {
    fn add(&mut self, path: &Path) -> Result<(), CrdsError> {
        if path.is_dir() && path.join("Chart.yaml").is_file() {
            return self.add_chart(path);
        }
        if path.is_dir() {
            let mut left = FILES_MAX;
            return self.add_directory(path, path, LEVELS_MAX, &mut left);
        }
        match path.extension().and_then(|end| end.to_str()) {
            Some("tgz" | "gz") => self.add_chart(path),
            _ => self.add_file(path),
        }
    }

    fn add_directory(
        &mut self,
        root: &Path,
        directory: &Path,
        levels: usize,
        left: &mut usize,
    ) -> Result<(), CrdsError> {
        let failed = |source| CrdsError::Read {
            path: directory.to_owned(),
            source,
        };
        let mut entries: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            entries.push(entry.map_err(failed)?.path());
        }
        entries.sort();
        for path in entries {
            *left = left.checked_sub(1).ok_or_else(|| CrdsError::TooMany {
                path: root.to_owned(),
            })?;
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let hidden = name.is_none_or(|name| name.starts_with('.'));
            if hidden || path.is_symlink() && path.is_dir() {
                continue;
            }
            if path.is_dir() {
                match path.join("Chart.yaml").is_file() {
                    true => self.add_chart(&path)?,
                    false if levels > 0 => self.add_directory(root, &path, levels - 1, left)?,
                    false => {}
                }
                continue;
            }
            match path.extension().and_then(|end| end.to_str()) {
                Some("yaml" | "yml") => self.add_file(&path)?,
                Some("json") => self.catalogues.extend(catalogue_of(&path)),
                _ => {}
            }
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path) -> Result<(), CrdsError> {
        let bytes = fs::read(path).map_err(|source| CrdsError::Read {
            path: path.to_owned(),
            source,
        })?;
        let text = String::from_utf8_lossy(&bytes);
        if !text.contains(KIND) {
            self.look_for_mistakes(path, &text);
            return Ok(());
        }
        self.add_text(&text, &path.display().to_string())
    }

    /// A file that cannot be parsed may have been meant as a definition.
    fn look_for_mistakes(&mut self, path: &Path, text: &str) {
        if text.len() > PARSED_BYTES_MAX || text.contains("{{") {
            return;
        }
        if let Err(error) = yaml::load(text, &yaml::Options::default()) {
            let why = format!("could not parse {}: {error}", path.display());
            self.unreadable.push(why);
        }
    }

    fn add_text(&mut self, text: &str, origin: &str) -> Result<(), CrdsError> {
        if !text.contains(KIND) {
            return Ok(());
        }
        let documents = match yaml::load(text, &yaml::Options::default()) {
            Ok(documents) => documents,
            Err(_) if text.contains("{{") => {
                self.notes.push(format!(
                    "note: {origin} is a template, which --crds does not render"
                ));
                return Ok(());
            }
            Err(source) => {
                let origin = origin.to_owned();
                return Err(CrdsError::Parse { origin, source });
            }
        };
        for document in documents {
            self.add_object(document.value, origin);
        }
        Ok(())
    }

    /// Adds a definition, or those of a list.
    fn add_object(&mut self, mut object: Value, origin: &str) {
        if let Some(Value::Array(items)) = object.get_mut("items").map(Value::take) {
            for item in items {
                self.add_object(item, origin);
            }
            return;
        }
        let name = object["metadata"]["name"].as_str().map(str::to_owned);
        let (Some(name), true) = (name, object["kind"] == KIND) else {
            return;
        };
        if object["apiVersion"] != "apiextensions.k8s.io/v1" {
            self.notes.push(format!(
                "note: {KIND}/{name} of {origin} has apiVersion {}, which no API server has served since Kubernetes 1.22",
                object["apiVersion"].as_str().unwrap_or_default()
            ));
            return;
        }
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        let origin = origin.to_owned();
        self.definitions.insert(name, Definition { origin, object });
    }

    fn add_chart(&mut self, path: &Path) -> Result<(), CrdsError> {
        let chart = Chart::from_path(path, &Limits::default()).map_err(|source| CrdsError::Chart {
            path: path.to_owned(),
            source,
        })?;
        for file in listing::crds(&chart) {
            self.add_text(&file.content, &format!("{}:{}", path.display(), file.source))?;
        }
        let templates = templates(&chart);
        if templates > 0 {
            self.notes.push(format!(
                "note: {templates} templates of {} contain definitions, which --crds does not render; \
                 see `equate template`",
                path.display()
            ));
        }
        Ok(())
    }
}

/// The templates of a chart and its subcharts that contain definitions.
fn templates(chart: &Chart) -> usize {
    let contains = |data: &[u8]| {
        let wanted = b"kind: CustomResourceDefinition";
        data.windows(wanted.len()).any(|part| part == wanted)
    };
    let own = chart.templates.iter().filter(|file| contains(&file.data)).count();
    own + chart
        .dependencies
        .iter()
        .map(|chart| templates(chart))
        .sum::<usize>()
}

/// The catalogue of a schema `GROUP/KIND_VERSION.json`.
fn catalogue_of(path: &Path) -> Option<PathBuf> {
    let (_, version) = path.file_stem()?.to_str()?.rsplit_once('_')?;
    let group = path.parent()?;
    let is_group = group.file_name()?.to_str()?.contains('.');
    (is_group && version.starts_with('v')).then(|| group.parent().map(Path::to_owned))?
}

/// The schema of a kind in one of the catalogues, and its file.
pub(crate) fn schema(
    catalogues: &BTreeSet<PathBuf>,
    group: &str,
    version: &str,
    kind: &str,
) -> Option<Result<Value, String>> {
    let name = format!("{}_{version}.json", kind.to_lowercase());
    let files = catalogues.iter().map(|root| root.join(group).join(&name));
    let file = files.into_iter().find(|file| file.is_file())?;
    let said = |why: String| format!("{}: {why}", file.display());
    let text = match fs::read(&file) {
        Ok(text) => text,
        Err(error) => return Some(Err(said(error.to_string()))),
    };
    let parsed = serde_json::from_slice::<Value>(&text);
    Some(match parsed {
        Ok(schema) => Ok(structural(&schema)),
        Err(error) => Err(said(error.to_string())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n";

    fn named(name: &str) -> String {
        format!("{DEFINITION}metadata: {{ name: {name} }}\n")
    }

    fn place(files: &[(&str, &str)]) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = place.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        place
    }

    fn loaded(place: &Path, path: &str) -> Result<(Vec<String>, usize, Vec<String>), String> {
        let given = load(&[place.join(path)]).map_err(|error| error.to_string())?;
        let names = given.definitions.into_keys().collect();
        Ok((names, given.catalogues.len(), given.notes))
    }

    #[test]
    fn definitions_are_found_in_files_directories_and_charts() {
        let list = format!("kind: List\nitems:\n- {}", named("c.x.org").replace('\n', "\n  "));
        let (a, b) = (named("a.x.org"), named("b.x.org"));
        let place = place(&[
            ("one.yaml", &a),
            ("all/a.yaml", &a),
            ("all/deep/b.yml", &b),
            ("all/list.yaml", &list),
            ("all/app.yaml", "kind: Deployment\n"),
            ("broken/a.yaml", &a),
            ("broken/b.yaml", "not: [yaml"),
            ("broken/template.yaml", "not: [{{ x }}"),
            (
                "chart/Chart.yaml",
                "apiVersion: v2\nname: chart\nversion: 1.0.0\n",
            ),
            ("chart/crds/a.yaml", &a),
            (
                "chart/templates/b.yaml",
                &format!("{{{{ if .Values.crds }}}}\n{b}{{{{ end }}}}\n"),
            ),
            ("catalogue/x.org/thing_v1.json", "{}"),
        ]);
        let check = |path: &str, names: &[&str], catalogues: usize, notes: usize| {
            let (found, in_catalogues, said) = loaded(place.path(), path).unwrap();
            let found: Vec<&str> = found.iter().map(String::as_str).collect();
            assert_eq!(
                (found.as_slice(), in_catalogues, said.len()),
                (names, catalogues, notes),
                "{path}"
            );
        };
        check("one.yaml", &["a.x.org"], 0, 0);
        check("all", &["a.x.org", "b.x.org", "c.x.org"], 0, 0);
        check("broken", &["a.x.org"], 0, 1);
        check("chart", &["a.x.org"], 0, 1);
        check("catalogue", &[], 1, 0);
    }

    #[test]
    fn a_path_without_definitions_is_refused() {
        let template = format!("{{{{ if x }}}}\n{}{{{{ end }}}}\n", named("a.x.org"));
        let place = place(&[
            ("crds/a.txt", "no"),
            ("templates/a.yaml", &template),
            ("broken/a.yaml", "not: [yaml"),
        ]);
        let check = |path: &str, expected: &str| {
            let error = loaded(place.path(), path).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("crd", "did you mean");
        check("crds", "contains no CustomResourceDefinition");
        check("templates", "its definitions are templates");
        check("broken", "; could not parse ");
    }

    #[test]
    fn each_path_has_its_own_notes() {
        let definition = named("a.x.org");
        let place = place(&[
            ("a/a.yaml", &definition),
            ("a/broken.yaml", "not: [yaml"),
            ("b/b.yaml", "kind: Deployment\n"),
        ]);
        let both = [place.path().join("a"), place.path().join("b")];
        let error = load(&both).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("--crds {}", both[1].display())),
            "{error}"
        );
        assert!(!error.contains("could not parse"), "{error}");
        let twice = load(&[both[0].clone(), both[0].clone()]).unwrap();
        assert_eq!(twice.notes.len(), 2);

        for number in 0..NOTES_MAX + 2 {
            fs::write(both[0].join(format!("{number}.yaml")), "not: [yaml").unwrap();
        }
        let notes = load(&both[..1]).unwrap().notes;
        let last = format!("note: --crds {}: 3 more notes", both[0].display());
        assert_eq!((notes.len(), notes.last()), (NOTES_MAX + 1, Some(&last)));
    }

    #[test]
    fn a_schema_is_found_by_group_kind_and_version() {
        let place = place(&[(
            "x.org/thing_v1.json",
            r#"{ "properties": { "spec": { "type": "object" } } }"#,
        )]);
        let catalogues = load(&[place.path().to_owned()]).unwrap().catalogues;
        let found = schema(&catalogues, "x.org", "v1", "Thing").unwrap().unwrap();
        assert_eq!(found["properties"]["spec"]["type"], "object");
        assert!(schema(&catalogues, "x.org", "v2", "Thing").is_none());
    }
}
