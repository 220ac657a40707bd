//! Renders a chart and its values to texts.
//!
//! The templates of a chart and its subcharts form one set with shared definitions. They are parsed
//! deepest path first and from z to a, so that a parent's definition replaces a subchart's. They execute
//! in the same order: templates may change shared values, and charts rely on it. A [`Program`] is the
//! parsed set; [`crate::cache`] keeps it.

mod glob;
mod globals;
mod objects;

use crate::capabilities::Capabilities;
use crate::chart::{Chart, File, Values};
use equate_template::{
    Entries, Int, Library, Limits, Map, Options, RenderCache, Session, Str, TemplateSet, Value,
};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use equate_template::Value as TemplateValue;
pub use equate_template::{Fault, Seeded, World};
pub use globals::value;

/// A render failure. Displays as Helm's error, with the template call stack, line by line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.helm_text())]
pub struct RenderError(pub Box<equate_template::Error>);

/// The `.Release` of a render.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its revision, from 1.
    pub revision: i64,
    /// Whether the release exists already.
    pub is_upgrade: bool,
}

/// Limits of a render, and its stop signal.
#[derive(Debug, Clone, Default)]
pub struct Bounds {
    /// The limits.
    pub limits: Limits,
    /// Ends the render with [`equate_template::Limit::Stopped`] once set. The crate has no clock; the
    /// caller does.
    pub stop: Option<Arc<AtomicBool>>,
}

impl From<Limits> for Bounds {
    fn from(limits: Limits) -> Self {
        Self { limits, stop: None }
    }
}

/// The parsed templates of a chart and its subcharts.
#[derive(Debug)]
pub struct Program {
    set: TemplateSet,
    /// In execution order, without partials.
    runs: Vec<Run>,
    root: Part,
    parts: usize,
    /// Approximate bytes of memory.
    weight: usize,
}

#[derive(Debug)]
struct Run {
    name: Arc<str>,
    /// The index of its chart, depth first.
    part: usize,
    /// `.Template.BasePath` of that chart.
    base: String,
}

/// The fields of a chart that its templates and subcharts see.
#[derive(Debug)]
struct Part {
    number: usize,
    name: String,
    metadata: Arc<crate::Metadata>,
    files: Arc<[File]>,
    below: Vec<Part>,
}

/// The output of the templates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// The path and output of each template except partials, sorted by path.
    pub files: Vec<(Arc<str>, String)>,
    /// The non-deterministic functions that were called.
    pub unrepeatable: BTreeSet<&'static str>,
}

/// The parse order: the deepest path first, then the name from z to a.
fn order(left: &str, right: &str) -> std::cmp::Ordering {
    let depth = |path: &str| path.bytes().filter(|byte| *byte == b'/').count();
    (depth(right), right).cmp(&(depth(left), left))
}

impl Program {
    /// Parses the templates of a chart with resolved dependencies. Cost: the bytes of the templates.
    pub fn read(chart: &Chart) -> Result<Self, RenderError> {
        Self::remembering(chart, &RenderCache::default())
    }

    /// Same as [`Program::read`], sharing parsed texts with the renders of other charts.
    pub fn remembering(chart: &Chart, memory: &RenderCache) -> Result<Self, RenderError> {
        let mut templates = Vec::new();
        let mut paths = Vec::new();
        let root = Part::collect(chart, None, &mut paths, &mut templates);
        templates.sort_by(|(left, ..), (right, ..)| order(left, right));
        // the last file of a name wins
        templates.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                std::mem::swap(later, earlier);
            }
            same
        });
        let mut set = TemplateSet::with_cache(Library::Helm, memory.clone());
        let mut runs = Vec::new();
        for (name, text, part) in templates {
            let text = String::from_utf8_lossy(&text);
            set.parse(&name, &text).map_err(RenderError)?;
            let base = name.rsplit('/').next().unwrap_or_default();
            if !base.starts_with('_') {
                runs.push(Run {
                    base: format!("{}/templates", paths.get(part).map_or("", String::as_str)),
                    name: name.into(),
                    part,
                });
            }
        }
        Ok(Self {
            weight: set.weight() + root.weight(),
            set,
            runs,
            root,
            parts: paths.len(),
        })
    }

    /// Approximate bytes of memory: the parsed templates, and the chart's files, which it keeps alive.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Executes the templates with coalesced values. Cost: that of the templates, within the limits.
    pub fn run(
        &self,
        values: &Values,
        release: &Release,
        capabilities: &Capabilities,
        world: Box<dyn World>,
        bounds: impl Into<Bounds>,
    ) -> Result<Texts, RenderError> {
        let Bounds { limits, stop } = bounds.into();
        let mut session = Session::new(
            Options {
                limits,
                stop,
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
        let values = globals::values(&self.root, values).as_type(Entries::Named("common.Values"));
        self.root.data(&values, true, &shared, &mut data);
        let mut files = Vec::with_capacity(self.runs.len());
        let ran = self.run_all(&mut session, &data, &mut files);
        let unrepeatable = session.unrepeatable().collect();
        ran?;
        files.sort_by(|(left, _), (right, _)| left.cmp(right));
        Ok(Texts { files, unrepeatable })
    }

    fn run_all(
        &self,
        session: &mut Session,
        data: &[Map],
        files: &mut Vec<(Arc<str>, String)>,
    ) -> Result<(), RenderError> {
        for Run { name, part, base } in &self.runs {
            let Some(data) = data.get(*part) else {
                continue;
            };
            let template = [
                (Str::from("Name"), Value::from(&**name)),
                (Str::from("BasePath"), Value::from(base.as_str())),
            ];
            let template = Map::of(Entries::Named("common.Values"), template.into_iter().collect());
            data.insert("Template".into(), template.into());
            let data = data.as_type(Entries::Named("common.Values"));
            let text = session
                .render(&self.set, name, Value::Map(data))
                .map_err(RenderError)?;
            files.push((Arc::clone(name), text.lossy().into_owned()));
        }
        Ok(())
    }
}

impl Part {
    fn weight(&self) -> usize {
        const PART_BYTES: usize = 2 << 10;
        const FILE_BYTES: usize = 100;
        let files = self.files.iter();
        let files = files.map(|file| file.data.len() + file.name.len() + FILE_BYTES);
        let below = self.below.iter().map(Self::weight);
        PART_BYTES + files.sum::<usize>() + below.sum::<usize>()
    }

    /// The charts depth first, with their paths (`parent/charts/child`) and the full names of their
    /// templates.
    fn collect(
        chart: &Chart,
        parent: Option<&str>,
        paths: &mut Vec<String>,
        templates: &mut Vec<(String, Arc<[u8]>, usize)>,
    ) -> Self {
        let number = paths.len();
        let name = chart.name().to_owned();
        let path = match parent {
            Some(parent) => format!("{parent}/charts/{name}"),
            None => name.clone(),
        };
        paths.push(path.clone());
        let is_library = chart.metadata.kind.eq_ignore_ascii_case("library");
        for file in chart.templates.iter() {
            let base = file.name.rsplit('/').next().unwrap_or_default();
            if !is_library || base.starts_with('_') {
                templates.push((format!("{path}/{}", file.name), Arc::clone(&file.data), number));
            }
        }
        let below = chart.dependencies.iter();
        let below = below
            .map(|chart| Self::collect(chart, Some(&path), paths, templates))
            .collect();
        Self {
            number,
            name,
            metadata: Arc::clone(&chart.metadata),
            files: Arc::clone(&chart.files),
            below,
        }
    }

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

/// The values of a subchart. As in Helm, its name is a path, so a name with a dot finds nothing.
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
