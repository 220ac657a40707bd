//! Patches: detects the format of a text, selects targets, applies it.

mod merge;

use crate::budget::{Budget, measure, measure_map};
use crate::collection::Collection;
use crate::error::{BuildError, Fault, Place};
use crate::kustomization::{Patch, Selector};
use crate::loader::{Loader, at};
use crate::manifests;
use crate::resource::{Resource, scalar_text};
use crate::schema::Schema;
use crate::secrets::{self, SecretFile};
use crate::selector::Matcher;
use crate::spelling::Spelling;
use equate_manifest::patch::json;
use equate_manifest::yaml::{Duplicates, Options};
use serde_json::{Map, Value};

/// The longest quote of a patch in a message, which may end up in a status condition.
const QUOTED_CHARS_MAX: usize = 300;

#[derive(Debug)]
pub(crate) struct Prepared {
    content: Content,
    target: Option<Matcher>,
    place: Place,
    source: String,
}

#[derive(Debug)]
enum Content {
    Strategic(Vec<Resource>),
    Json(json::Patch),
    /// An empty entry, which kustomize accepts.
    Nothing,
}

pub(crate) fn merge_values(
    mut under: Map<String, Value>,
    spelling: &Spelling,
    over: Map<String, Value>,
    schema: &Schema,
    budget: &Budget,
) -> Result<Option<Value>, Fault> {
    budget.spend(spelling.steps())?;
    for blank in &spelling.blanks {
        merge::drop_blank(&mut under, &blank.path, schema);
    }
    merge::merge(under, over, schema, budget).map_err(|fault| match fault {
        merge::MergeFault::Exhausted(exhausted) => exhausted.into(),
        merge::MergeFault::Directive(directive) => Fault::Directive { directive },
        merge::MergeFault::Kind {
            path,
            expected,
            found,
        } => Fault::ValuesMerge {
            path,
            expected,
            found,
        },
    })
}

pub(crate) fn prepare(
    patch: &Patch,
    root: &str,
    place: Place,
    loader: &mut Loader<'_>,
) -> Result<Prepared, BuildError> {
    let inline = patch.patch.trim();
    let (text, path, source) = match (inline.is_empty(), patch.path.is_empty()) {
        (true, true) => return Err(at(place)(Fault::NoPatch)),
        (false, false) => return Err(at(place)(Fault::PatchAndPath)),
        (false, true) => (
            inline.to_owned(),
            place.path.clone(),
            format!("[patch: {:?}]", beginning(inline)),
        ),
        (true, false) => {
            let read = read_patch(loader, root, &patch.path);
            let (path, text) = read.map_err(at(place.clone()))?;
            (text, path, format!("[path: {:?}]", patch.path))
        }
    };
    let content = read(&text, &path, &source, &loader.budget).map_err(at(place.clone()))?;
    let content = match content {
        Content::Strategic(mut patches) => {
            for strategic in &mut patches {
                strategic.may_rename = patch.options.allow_name_change;
                strategic.may_retype = patch.options.allow_kind_change;
            }
            Content::Strategic(patches)
        }
        other => other,
    };
    let target = patch
        .target
        .as_ref()
        .map(|target| Matcher::new(target, &loader.budget))
        .transpose()
        .map_err(at(place.clone()))?;
    Ok(Prepared {
        content,
        target,
        place,
        source,
    })
}

fn beginning(text: &str) -> &str {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

fn read_patch(loader: &mut Loader<'_>, root: &str, path: &str) -> Result<(String, String), Fault> {
    let (real, content) = loader.read(root, path)?;
    let file = SecretFile {
        name: path,
        is_env: false,
        content: &content,
    };
    let opened = secrets::open_file(loader, root, path, file)?;
    match String::from_utf8(opened.unwrap_or(content).into()) {
        Ok(text) => Ok((real, text)),
        Err(_) => Err(Fault::NotText { path: real }),
    }
}

fn read(text: &str, path: &str, source: &str, budget: &Budget) -> Result<Content, Fault> {
    let strategic = manifests::parse(text, path, budget);
    let json = json_patch(text, budget);
    match (strategic, json) {
        (Ok(strategic), Ok(json)) if !strategic.is_empty() && !json.is_empty() => Err(Fault::BothPatches {
            source_text: source.to_owned(),
        }),
        (Ok(strategic), _) if !strategic.is_empty() => Ok(Content::Strategic(strategic)),
        (Ok(_), _) => Ok(Content::Nothing),
        (Err(_), Ok(json)) => Ok(Content::Json(json.patch)),
        (Err(strategic), Err(json)) => Err(Fault::NeitherPatch {
            source_text: source.to_owned(),
            why: match *strategic.fault {
                // a list is meant as operations: that error helps more
                Fault::NotMap { .. } => Box::new(json),
                fault => Box::new(fault),
            },
        }),
    }
}

struct JsonPatch {
    patch: json::Patch,
    operations: usize,
}

impl JsonPatch {
    fn is_empty(&self) -> bool {
        self.operations == 0
    }
}

/// Reads a JSON patch in JSON or YAML. A text that begins with `[` is parsed as JSON only, as in kustomize.
fn json_patch(text: &str, budget: &Budget) -> Result<JsonPatch, Fault> {
    let value = if text.starts_with('[') {
        budget.spend(text.len())?;
        serde_json::from_str(text).map_err(Fault::PatchJson)?
    } else {
        first_document(text, budget)?
    };
    let operations = value.as_array().map_or(0, Vec::len);
    let patch = json::Patch::parse(&value).map_err(Fault::JsonPatch)?;
    Ok(JsonPatch { patch, operations })
}

fn first_document(text: &str, budget: &Budget) -> Result<Value, Fault> {
    let options = Options {
        duplicates: Duplicates::Collect,
        ..Options::default()
    };
    let documents = budget
        .load(text, &options)
        .map_err(|error| Fault::Yaml(error.fault))?;
    let first = documents.into_iter().next();
    Ok(first.map_or(Value::Null, |document| document.value))
}

impl Prepared {
    /// Applies the patch to its targets. Returns the changed resources, or `None` for "see `changed`".
    pub(crate) fn apply(&self, resources: &mut Collection, schema: &Schema) -> Result<(), BuildError> {
        let applied = self.try_apply(resources, schema);
        applied
            .and_then(|()| Ok(resources.budget().check()?))
            .map_err(at(self.place.clone()))
    }

    fn try_apply(&self, resources: &mut Collection, schema: &Schema) -> Result<(), Fault> {
        match (&self.content, &self.target) {
            (Content::Nothing, _) => Ok(()),
            (Content::Strategic(patches), Some(target)) => {
                let [patch] = &patches[..] else {
                    return Err(Fault::SeveralPatches {
                        source_text: self.source.clone(),
                    });
                };
                strategic_by_selector(resources, patch, target, schema)
            }
            (Content::Strategic(patches), None) => patches
                .iter()
                .try_for_each(|patch| strategic_by_id(resources, patch, schema)),
            (Content::Json(patch), Some(target)) => json_by_selector(resources, patch, target, true, schema),
            (Content::Json(_), None) => Err(Fault::NoTarget {
                source_text: self.source.clone(),
            }),
        }
    }
}

/// Applies the entries of `patchesStrategicMerge`: inline manifests or files. At least one must not be empty.
pub(crate) fn apply_strategic_entries(
    entries: &[String],
    root: &str,
    place: impl Fn(usize) -> Place,
    loader: &mut Loader<'_>,
    resources: &mut Collection,
    schema: &Schema,
) -> Result<(), BuildError> {
    let mut patches = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let checked = loader.budget.check().map_err(Fault::from);
        checked.map_err(at(place(index)))?;
        let inline = manifests::parse(entry, &place(index).path, &loader.budget);
        let found = match inline {
            Ok(found) => found,
            Err(_) => {
                let (path, text) = loader.read_text(root, entry).map_err(at(place(index)))?;
                manifests::parse(&text, &path, &loader.budget)?
            }
        };
        patches.extend(found.into_iter().map(|patch| (index, patch)));
    }
    if patches.is_empty() {
        let source_text = entries.join(", ");
        return Err(at(place(0))(Fault::EmptyPatch { source_text }));
    }
    patches
        .iter()
        .try_for_each(|(index, patch)| strategic_by_id(resources, patch, schema).map_err(at(place(*index))))
}

pub(crate) fn apply_json_entry(
    entry: &Patch,
    root: &str,
    place: &Place,
    loader: &mut Loader<'_>,
    resources: &mut Collection,
    schema: &Schema,
) -> Result<(), BuildError> {
    let selector = entry.target.clone().unwrap_or_default();
    if selector.name.is_empty() {
        return Err(at(place.clone())(Fault::NoTargetName));
    }
    let (text, source) = match (entry.patch.is_empty(), entry.path.is_empty()) {
        (true, true) => return Err(at(place.clone())(Fault::NoJsonPatch)),
        (false, false) => return Err(at(place.clone())(Fault::JsonPatchAndPath)),
        (false, true) => (entry.patch.clone(), "[patch]".to_owned()),
        (true, false) => {
            let (path, text) = loader.read_text(root, &entry.path).map_err(at(place.clone()))?;
            (text, format!("[path: {path:?}]"))
        }
    };
    let patch = json_patch(&text, &loader.budget).map_err(at(place.clone()))?;
    if patch.is_empty() {
        return Err(at(place.clone())(Fault::EmptyPatch { source_text: source }));
    }
    let target = Matcher::new(&selector, &loader.budget).map_err(at(place.clone()))?;
    json_by_selector(resources, &patch.patch, &target, false, schema).map_err(at(place.clone()))
}

pub(crate) fn strategic_by_id(
    resources: &mut Collection,
    patch: &Resource,
    schema: &Schema,
) -> Result<(), Fault> {
    let id = patch.original_id().to_string();
    let places = resources.by_any_id(&patch.first_called(schema), schema);
    match places[..] {
        [at] => {
            if !strategic(resources, at, patch, schema)? {
                resources.remove(&[at]);
            }
            Ok(())
        }
        [] => Err(Fault::NoPatchTarget { id }),
        _ => Err(Fault::SeveralPatchTargets { id }),
    }
}

pub(crate) fn strategic_by_selector(
    resources: &mut Collection,
    patch: &Resource,
    target: &Matcher,
    schema: &Schema,
) -> Result<(), Fault> {
    let patch = with_texts(patch);
    let budget = resources.budget();
    let patch_steps = measure_map(&patch.object.0).0 / 4;
    let mut gone = Vec::new();
    for at in resources.candidates(target) {
        let resource = resources.at(at);
        budget.spend(1)?;
        if !target.matches(resource, schema) {
            continue;
        }
        budget.spend(patch_steps)?;
        let mut patch = patch.clone();
        patch
            .object
            .0
            .insert("apiVersion".to_owned(), resource.object.api_version().into());
        if !strategic(resources, at, &patch, schema)? {
            gone.push(at);
        }
    }
    resources.remove(&gone);
    Ok(())
}

/// The patch as kustomize uses it with a selector: its labels and annotations become strings, so a null
/// becomes `null` and deletes nothing. Empty maps are dropped.
fn with_texts(patch: &Resource) -> Resource {
    let mut patch = patch.clone();
    let spelling = std::mem::take(&mut patch.spelling);
    let nulls = spelling.nulls();
    for field in ["labels", "annotations"] {
        let metadata = patch.metadata_mut();
        let Some(Value::Object(texts)) = metadata.get_mut(field).filter(|value| !is_empty(value)) else {
            metadata.remove(field);
            continue;
        };
        for (key, value) in texts {
            *value = match &*value {
                Value::Null => nulls.text(field, key).into(),
                value => scalar_text(value).unwrap_or_default().into(),
            };
        }
    }
    patch
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_none_or(Map::is_empty)
}

/// Merges a patch into the resource at `at`; returns false if nothing is left of it.
fn strategic(
    resources: &mut Collection,
    at: usize,
    patch: &Resource,
    schema: &Schema,
) -> Result<bool, Fault> {
    let budget = resources.budget();
    budget.charge(measure_map(&patch.object.0).0)?;
    resources.change(at, schema, |resource| {
        if patch.may_rename || patch.may_retype {
            resource.remember(schema);
        }
        strategic_to(resource, patch, schema, &budget)
    })
}

fn strategic_to(
    resource: &mut Resource,
    patch: &Resource,
    schema: &Schema,
    budget: &Budget,
) -> Result<bool, Fault> {
    budget.spend(resource.spelling.steps() + resource.sharing.steps(&resource.object.0))?;
    let (kind, name) = (resource.kind().to_owned(), resource.name().to_owned());
    let namespace = resource.object.namespace().to_owned();
    let mut target = std::mem::take(&mut resource.object.0);
    let blanks = &mut resource.spelling.blanks;
    blanks.retain(|blank| !merge::drop_blank(&mut target, &blank.path, schema));
    let merged =
        merge::merge(target, patch.object.0.clone(), schema, budget).map_err(|fault| fault.of(&name))?;
    let Some(Value::Object(merged)) =
        merged.filter(|value| value.as_object().is_some_and(|map| !map.is_empty()))
    else {
        return Ok(false);
    };
    resource.object.0 = merged;
    resource
        .sharing
        .follow_patch(&mut resource.object.0, &patch.object.0);
    if !patch.may_retype {
        resource.object.0.insert("kind".to_owned(), kind.into());
    }
    if !patch.may_rename {
        resource.set_name(&name);
    }
    resource.set_namespace(&namespace);
    Ok(true)
}

fn json_by_selector(
    resources: &mut Collection,
    patch: &json::Patch,
    target: &Matcher,
    remembers: bool,
    schema: &Schema,
) -> Result<(), Fault> {
    let budget = resources.budget();
    for at in resources.candidates(target) {
        budget.spend(1)?;
        if !target.matches(resources.at(at), schema) {
            continue;
        }
        resources.change(at, schema, |resource| {
            if remembers {
                resource.remember(schema);
            }
            json_to(resource, patch, &budget)
        })?;
    }
    Ok(())
}

fn json_to(resource: &mut Resource, patch: &json::Patch, budget: &Budget) -> Result<(), Fault> {
    let id = resource.id().to_string();
    budget.spend(resource.spelling.steps())?;
    // kustomize keeps the history in annotations, so a renamed object always has some
    let lends = !resource.history.is_empty() && resource.texts("annotations").is_none();
    if lends {
        let metadata = resource.metadata_mut();
        metadata.insert("annotations".to_owned(), Value::Object(Map::new()));
    }
    resource.sharing.forget();
    resource.spelling.pass_through_json(&mut resource.object.0);
    let document = Value::Object(std::mem::take(&mut resource.object.0));
    let (before, _) = measure(&document);
    budget.spend(before / 8)?;
    match patch.apply_watched(document, &mut budget.watch()) {
        Ok(Value::Object(map)) => {
            let (after, _) = measure_map(&map);
            budget.charge(after.saturating_sub(before))?;
            resource.object.0 = map;
        }
        Ok(_) => return Err(Fault::JsonResult { id }),
        Err(problem) => return Err(Fault::JsonApply { id, problem }),
    }
    if lends && resource.texts("annotations").is_some_and(Map::is_empty) {
        resource.metadata_mut().remove("annotations");
    }
    Ok(())
}

pub(crate) fn selector(target: &crate::spec::SpecTarget) -> Selector {
    Selector {
        group: target.group.clone(),
        version: target.version.clone(),
        kind: target.kind.clone(),
        name: target.name.clone(),
        namespace: target.namespace.clone(),
        label_selector: target.label_selector.clone(),
        annotation_selector: target.annotation_selector.clone(),
    }
}
