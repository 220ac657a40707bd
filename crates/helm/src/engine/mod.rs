//! From a chart and its values to texts.
//!
//! All templates of a chart and its subcharts are one set, so they see each other's definitions. They
//! are read from the deepest file up and by name downwards, so that a parent's definition replaces a
//! subchart's, and run in the same order: values are shared and may be changed on the way, which charts
//! rely on. A [`Program`] is what was read; it is kept and run many times ([`crate::cache`]).

mod glob;
mod objects;

use crate::capabilities::Capabilities;
use crate::chart::{Chart, File, Values};
use equate_template::{
    Entries, Int, Library, Limits, List, Map, Options, Session, Str, TemplateSet, Value, World,
};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

/// Why a chart could not be rendered. Displays as Helm's error, with the places on the way, line by line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.helm_text())]
pub struct RenderError(pub Box<equate_template::Error>);

/// What a render is told about the release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Its name.
    pub name: String,
    /// The namespace it goes to.
    pub namespace: String,
    /// Which revision, from 1.
    pub revision: i64,
    /// Whether there is one already.
    pub is_upgrade: bool,
}

/// The templates of a chart and its subcharts, read.
#[derive(Debug)]
pub struct Program {
    set: TemplateSet,
    /// In the order in which they run; partials are left out.
    runs: Vec<Run>,
    root: Part,
    /// How many charts there are.
    parts: usize,
    /// Bytes of templates.
    bytes: usize,
}

/// A template to run.
#[derive(Debug)]
struct Run {
    name: Arc<str>,
    /// Whose it is: the number of its chart, depth first.
    part: usize,
}

/// What of a chart its templates see, and its subcharts.
#[derive(Debug)]
struct Part {
    number: usize,
    /// `parent/charts/child`.
    path: String,
    name: String,
    metadata: Arc<crate::Metadata>,
    files: Arc<[File]>,
    below: Vec<Part>,
}

/// What came of running the templates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// The path of each template that is no partial, and its text, in the order of the paths.
    pub files: Vec<(Arc<str>, String)>,
    /// The functions used whose results differ from one render to the next.
    pub unrepeatable: BTreeSet<&'static str>,
}

/// The parse order: the deepest path first, then the name from z to a.
fn order(left: &str, right: &str) -> std::cmp::Ordering {
    let depth = |path: &str| path.bytes().filter(|byte| *byte == b'/').count();
    (depth(right), right).cmp(&(depth(left), left))
}

impl Program {
    /// Reads the templates of a chart whose dependencies are settled. Cost: the bytes of the templates.
    pub fn read(chart: &Chart) -> Result<Self, RenderError> {
        let mut templates = Vec::new();
        let mut parts = 0;
        let root = Part::collect(chart, None, &mut parts, &mut templates);
        templates.sort_by(|(left, ..), (right, ..)| order(left, right));
        // of two files of one name the last counts
        templates.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                std::mem::swap(later, earlier);
            }
            same
        });
        let mut set = TemplateSet::new(Library::Helm);
        let mut runs = Vec::new();
        let bytes = templates.iter().map(|(_, text, _)| text.len()).sum();
        for (name, text, part) in templates {
            let text = String::from_utf8_lossy(&text);
            set.parse(&name, &text).map_err(RenderError)?;
            let base = name.rsplit('/').next().unwrap_or_default();
            if !base.starts_with('_') {
                runs.push(Run {
                    name: name.into(),
                    part,
                });
            }
        }
        Ok(Self {
            set,
            runs,
            root,
            parts,
            bytes,
        })
    }

    /// How many bytes of templates it was read from.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Runs the templates with values that were coalesced. Cost: what the templates do, within the limits.
    pub fn run(
        &self,
        values: &Values,
        release: &Release,
        capabilities: &Capabilities,
        world: Box<dyn World>,
        limits: Limits,
    ) -> Result<Texts, RenderError> {
        let mut session = Session::new(
            Options {
                limits,
                ..Options::helm()
            },
            world,
        );
        let shared = [
            ("Release", Value::Map(release_object(release))),
            (
                "Capabilities",
                Value::Host(Rc::new(objects::Cluster::new(capabilities))),
            ),
        ];
        let mut data = vec![Map::new(); self.parts];
        let values = map(values.iter()).as_type(Entries::Named("common.Values"));
        self.root.data(&values, true, &shared, &mut data);
        let mut files = Vec::with_capacity(self.runs.len());
        let ran = self.run_all(&mut session, &data, &mut files);
        let unrepeatable = session.unrepeatable().collect();
        ran?;
        files.sort();
        Ok(Texts { files, unrepeatable })
    }

    fn run_all(
        &self,
        session: &mut Session,
        data: &[Map],
        files: &mut Vec<(Arc<str>, String)>,
    ) -> Result<(), RenderError> {
        let paths = self.paths();
        for Run { name, part } in &self.runs {
            let (Some(data), Some(path)) = (data.get(*part), paths.get(*part)) else {
                continue;
            };
            let template = [
                (Str::from("Name"), Value::from(&**name)),
                (Str::from("BasePath"), Value::from(format!("{path}/templates"))),
            ];
            let template = Map::of(Entries::Named("common.Values"), template.into_iter().collect());
            data.insert("Template".into(), template.into());
            let text = session
                .render(&self.set, name, Value::Map(data.clone()))
                .map_err(RenderError)?;
            files.push((Arc::clone(name), text.lossy().into_owned()));
        }
        Ok(())
    }

    fn paths(&self) -> Vec<&str> {
        fn add<'p>(part: &'p Part, paths: &mut Vec<&'p str>) {
            paths.push(&part.path);
            for below in &part.below {
                add(below, paths);
            }
        }
        let mut paths = Vec::with_capacity(self.parts);
        add(&self.root, &mut paths);
        paths
    }
}

impl Part {
    /// A chart and those below it, depth first; their templates with full names.
    fn collect(
        chart: &Chart,
        parent: Option<&str>,
        parts: &mut usize,
        templates: &mut Vec<(String, Arc<[u8]>, usize)>,
    ) -> Self {
        let number = *parts;
        *parts += 1;
        let name = chart.name().to_owned();
        let path = match parent {
            Some(parent) => format!("{parent}/charts/{name}"),
            None => name.clone(),
        };
        let is_library = chart.metadata.kind.eq_ignore_ascii_case("library");
        for file in chart.templates.iter() {
            let base = file.name.rsplit('/').next().unwrap_or_default();
            if !is_library || base.starts_with('_') {
                templates.push((format!("{path}/{}", file.name), Arc::clone(&file.data), number));
            }
        }
        let below = chart.dependencies.iter();
        let below = below
            .map(|chart| Self::collect(chart, Some(&path), parts, templates))
            .collect();
        Self {
            number,
            name,
            metadata: Arc::clone(&chart.metadata),
            files: Arc::clone(&chart.files),
            below,
            path,
        }
    }

    /// What templates of this chart and those below see, by the number of the chart.
    fn data(&self, values: &Map, is_root: bool, shared: &[(&str, Value); 2], data: &mut Vec<Map>) -> Map {
        let subcharts = Map::new();
        let own = Map::new();
        own.insert("Chart".into(), objects::chart(&self.metadata, is_root).into());
        own.insert(
            "Files".into(),
            Value::Host(Rc::new(objects::Files::new(&self.files))),
        );
        for (name, value) in shared {
            own.insert((*name).into(), value.clone());
        }
        own.insert("Values".into(), values.clone().into());
        own.insert("Subcharts".into(), subcharts.clone().into());
        if let Some(place) = data.get_mut(self.number) {
            *place = own.clone();
        }
        for part in &self.below {
            let below = table(values, &part.name).as_type(Entries::Named("common.Values"));
            let below = part.data(&below, false, shared, data);
            subcharts.insert(part.name.as_str().into(), below.into());
        }
        own
    }
}

/// The values of a subchart. Its name is taken for a path, as in Helm: one with a dot finds nothing.
fn table(values: &Map, name: &str) -> Map {
    let mut found = values.clone();
    for key in name.split('.') {
        match found.get(key.as_bytes()) {
            Some(Value::Map(map)) => found = map,
            _ => return Map::new(),
        }
    }
    found
}

fn release_object(release: &Release) -> Map {
    let entries = [
        ("Name", Value::from(release.name.as_str())),
        ("Namespace", release.namespace.as_str().into()),
        ("IsUpgrade", release.is_upgrade.into()),
        ("IsInstall", (!release.is_upgrade).into()),
        ("Revision", Value::Int(release.revision, Int::Int)),
        ("Service", "Helm".into()),
    ];
    let entries = entries.into_iter().map(|(name, value)| (Str::from(name), value));
    Map::of(Entries::Any, entries.collect())
}

fn map<'v>(entries: impl Iterator<Item = (&'v String, &'v Json)>) -> Map {
    let entries = entries.map(|(key, item)| (Str::from(key.as_str()), value(item)));
    Map::of(Entries::Any, entries.collect())
}

/// A value for templates: numbers that are written whole are `int64`, as those of `--set` and of objects
/// of a cluster; those of a chart were read as `float64`.
pub fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => match number.as_i64() {
            Some(whole) if !number.is_f64() => Value::int64(whole),
            _ => Value::Float(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::List(List::new(items.iter().map(value).collect())),
        Json::Object(entries) => Value::Map(map(entries.iter())),
    }
}
