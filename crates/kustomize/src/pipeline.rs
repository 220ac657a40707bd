//! Builds a kustomization in kustomize's order.
//!
//! Each kustomization, depth first: resources and bases, generators, components, transformers. Then at the
//! root: hash suffixes, name references, variables, order, origin annotations.

use crate::bases::Visited;
use crate::budget::{Budget, measure_map};
use crate::collection::Collection;
use crate::error::{BuildError, Exhausted, Fault, Place};
use crate::field_spec::Tables;
use crate::generate::{self, Entry, Kind};
use crate::kustomization::{self, Configuration, Kustomization, UnknownFields};
use crate::loader::{Loader, at};
use crate::notes::{self, Note};
use crate::order;
use crate::passes::{NotePass, Passes};
use crate::patch;
use crate::plugins;
use crate::references;
use crate::resource::{Resource, scalar_text};
use crate::schema::Schema;
use crate::spec::Order;
use crate::transform::affix::{Affix, AffixPass};
use crate::transform::images::ImagePass;
use crate::transform::labels::{self, LabelPass};
use crate::transform::namespace::{Namespace, Subjects};
use crate::transform::{replacements, replicas};
use crate::variables::{self, Variables};
use equate_manifest::yaml;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// The annotation of objects that exist only during the build.
const LOCAL: &str = "config.kubernetes.io/local-config";

#[derive(Debug)]
pub(crate) struct Accumulated {
    pub(crate) resources: Collection,
    /// Empty until the first kustomization adds its own.
    pub(crate) tables: Arc<Tables>,
    pub(crate) variables: Variables,
}

impl Accumulated {
    pub(crate) fn empty(budget: &Budget) -> Self {
        Self {
            resources: Collection::within(budget),
            tables: Tables::none(),
            variables: Variables::default(),
        }
    }
}

pub(crate) struct Build<'l, 't> {
    pub(crate) loader: &'l mut Loader<'t>,
    pub(crate) schema: SchemaChoice,
    schema_chosen: bool,
    pub(crate) tracks: bool,
    pub(crate) root: String,
    /// The directories being built, outermost first.
    pub(crate) visited: Vec<Visited>,
}

#[derive(Debug)]
pub(crate) enum SchemaChoice {
    BuiltIn,
    Custom(Box<Schema>),
}

impl SchemaChoice {
    pub(crate) fn get(&self) -> &Schema {
        match self {
            Self::BuiltIn => Schema::built_in(),
            Self::Custom(schema) => schema,
        }
    }
}

/// Builds the root kustomization, then runs the steps for the root only.
pub(crate) fn run(
    kustomization: &Kustomization,
    loader: &mut Loader<'_>,
    default_order: Order,
) -> Result<Vec<Resource>, BuildError> {
    let fields = &kustomization.fields;
    // kustomize ignores unknown options
    let asks = |option: &str| fields.build_metadata.iter().any(|asked| asked == option);
    let mut build = Build {
        loader,
        schema: SchemaChoice::BuiltIn,
        schema_chosen: false,
        tracks: !fields.build_metadata.is_empty(),
        root: kustomization.root.clone(),
        visited: vec![Visited::root(kustomization)],
    };
    build.choose_schema(kustomization)?;
    let mut accumulated = Accumulated::empty(&build.loader.budget);
    build.kustomize(kustomization, &mut accumulated)?;
    let schema = build.schema.get();
    let Accumulated {
        mut resources,
        tables,
        variables,
    } = accumulated;
    let hashed = add_hashes(&mut resources, schema);
    hashed.map_err(at(Place::file(&kustomization.path)))?;
    let (marks, tells_origins, tells_changes) = (
        asks("managedByLabel"),
        asks("originAnnotations"),
        asks("transformerAnnotations"),
    );
    let budget = resources.budget();
    let settle = |resource: &mut Resource| {
        resource.is_local = is_local(resource);
        if marks {
            notes::mark_managed(resource);
        }
        notes::write(resource, tells_origins, tells_changes, &budget);
        budget.owe(resource.spelling.steps());
        finish_annotations(resource);
    };
    if variables.is_empty() {
        references::fix(&mut resources, &tables.references, schema, &settle)?;
    } else {
        references::fix(&mut resources, &tables.references, schema, &|_| {})?;
        let unused = variables::resolve(&mut resources, &variables, &tables.variables)?;
        build.loader.warnings.extend(unused);
        resources.contents_mut().iter_mut().for_each(settle);
    }
    let mut resources = resources.into_items();
    resources.retain(|resource| !resource.is_local);
    order::sort(
        &mut resources,
        fields.sort_options.as_ref(),
        default_order,
        &budget,
    )
    .map_err(at(kustomization.place(&["sortOptions"])))?;
    Ok(resources)
}

pub(crate) fn add_hashes(resources: &mut Collection, schema: &Schema) -> Result<(), Fault> {
    let budget = resources.budget();
    if resources.items().iter().all(|resource| !resource.needs_hash) {
        return Ok(());
    }
    for resource in resources
        .items_mut()
        .iter_mut()
        .filter(|resource| resource.needs_hash)
    {
        budget.spend(measure_map(&resource.object.0).0)?;
        let suffix = generate::suffix(resource);
        resource.remember(schema);
        resource.set_name(&format!("{}-{suffix}", resource.name()));
    }
    Ok(())
}

fn is_local(resource: &Resource) -> bool {
    let local = resource
        .texts("annotations")
        .and_then(|annotations| annotations.get(LOCAL));
    local.is_some_and(|value| scalar_text(value).is_none_or(|text| text != "false"))
}

/// Removes kustomize's internal annotations, turns the others into strings, and drops an empty map.
fn finish_annotations(resource: &mut Resource) {
    let mut spelling = std::mem::take(&mut resource.spelling);
    spelling.resolve_blanks(&mut resource.object.0);
    if !resource
        .object
        .metadata()
        .is_some_and(|metadata| metadata.contains_key("annotations"))
    {
        return;
    }
    let nulls = spelling.nulls();
    let metadata = resource.metadata_mut();
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.retain(|name, _| !is_internal(name));
        for (key, value) in annotations.iter_mut() {
            match value {
                Value::Null => *value = nulls.text("annotations", key).into(),
                Value::String(_) => {}
                value => *value = scalar_text(value).unwrap_or_default().into(),
            }
        }
        if !annotations.is_empty() {
            return;
        }
    }
    metadata.remove("annotations");
}

/// The annotations kustomize uses internally during a build.
fn is_internal(name: &str) -> bool {
    if let Some(rest) = name.strip_prefix("internal.config.kubernetes.io/") {
        return matches!(
            rest,
            "previousKinds"
                | "previousNames"
                | "previousNamespaces"
                | "prefixes"
                | "suffixes"
                | "refBy"
                | "generatorBehavior"
                | "needsHashSuffix"
                | "allowNameChange"
                | "allowKindChange"
                | "path"
                | "index"
                | "seqindent"
                | "id"
                | "annotations-migration-resource-id"
                | "helm-generated"
        );
    }
    matches!(
        name,
        "config.kubernetes.io/path" | "config.kubernetes.io/index" | "config.k8s.io/id"
    )
}

impl Build<'_, '_> {
    /// Applies a whole kustomization to the accumulated resources: none for a base, the parent's for a
    /// component.
    pub(crate) fn kustomize(
        &mut self,
        kustomization: &Kustomization,
        so_far: &mut Accumulated,
    ) -> Result<(), BuildError> {
        refuse(kustomization, self.loader.charts.is_some())?;
        self.resources(kustomization, so_far)?;
        self.configurations(kustomization, so_far)?;
        self.generators(kustomization, so_far)?;
        self.components(kustomization, so_far)?;
        self.transform(kustomization, so_far)?;
        self.validators(kustomization, so_far)?;
        self.variables(kustomization, so_far)?;
        let limit = self.loader.limits.objects_max;
        if so_far.resources.len() > limit {
            return Err(at(Place::file(&kustomization.path))(Fault::Objects(limit)));
        }
        Ok(())
    }

    fn resources(
        &mut self,
        kustomization: &Kustomization,
        so_far: &mut Accumulated,
    ) -> Result<(), BuildError> {
        let fields = &kustomization.fields;
        let lists = [("resources", &fields.resources), ("bases", &fields.bases)];
        for (field, entries) in lists {
            for (index, entry) in entries.iter().enumerate() {
                let place = kustomization.item(field, index);
                self.resource(kustomization, entry, place, so_far)?;
            }
        }
        Ok(())
    }

    fn configurations(
        &mut self,
        kustomization: &Kustomization,
        so_far: &mut Accumulated,
    ) -> Result<(), BuildError> {
        let mut own = Tables::built_in();
        for (index, entry) in kustomization.fields.configurations.iter().enumerate() {
            let place = kustomization.item("configurations", index);
            let (path, text) = self
                .loader
                .read_text(&kustomization.root, entry)
                .map_err(at(place.clone()))?;
            let budget = &self.loader.budget;
            let configuration = read_configuration(&text, &path, budget)?;
            Arc::make_mut(&mut own)
                .extend(&configuration, budget)
                .map_err(at(place))?;
        }
        let place = kustomization.place(&["configurations"]);
        Tables::absorb(&mut so_far.tables, &own, &self.loader.budget).map_err(at(place))?;
        for (index, entry) in kustomization.fields.crds.iter().enumerate() {
            let place = kustomization.item("crds", index);
            let (path, text) = self
                .loader
                .read_text(&kustomization.root, entry)
                .map_err(at(place.clone()))?;
            let configuration = crate::crds::configuration(&text, &path, self.loader)?;
            Arc::make_mut(&mut so_far.tables)
                .extend(&configuration, &self.loader.budget)
                .map_err(at(place))?;
        }
        Ok(())
    }

    fn generators(
        &mut self,
        kustomization: &Kustomization,
        so_far: &mut Accumulated,
    ) -> Result<(), BuildError> {
        let fields = &kustomization.fields;
        for (kind, field, entries) in [
            (
                Kind::ConfigMap,
                "configMapGenerator",
                &fields.config_map_generator,
            ),
            (Kind::Secret, "secretGenerator", &fields.secret_generator),
        ] {
            for (index, entry) in entries.iter().enumerate() {
                let place = kustomization.item(field, index);
                let global = fields.generator_options.as_ref();
                let root = &kustomization.root;
                let mut made =
                    generate::generate(kind, Entry::Field, entry, global, root, &place, self.loader)?;
                if self.tracks {
                    made.note = Some(Note::builtin(&self.root, kustomization, kind.builtin()));
                }
                so_far
                    .resources
                    .absorb(made, self.schema.get())
                    .map_err(at(place))?;
            }
        }
        self.charts(kustomization, so_far)?;
        plugins::generate(self, kustomization, so_far)
    }

    fn transform(
        &mut self,
        kustomization: &Kustomization,
        so_far: &mut Accumulated,
    ) -> Result<(), BuildError> {
        self.patch(kustomization, so_far)?;
        let fields = &kustomization.fields;
        let Accumulated {
            resources, tables, ..
        } = so_far;
        let schema = self.schema.get();
        let tracker = Tracker {
            on: self.tracks,
            root: &self.root,
            kustomization,
        };
        if !fields.namespace.is_empty() {
            let namespace = Namespace {
                name: &fields.namespace,
                unset_only: false,
                subjects: Subjects::Default,
            };
            let moved = namespace.apply(resources, &tables.namespace, schema);
            moved.map_err(at(kustomization.place(&["namespace"])))?;
            tracker.note(resources, "NamespaceTransformer")?;
        }
        let budget = resources.budget();
        let mut label_specs = Vec::new();
        let mut refused = None;
        for (index, label) in fields.labels.iter().enumerate() {
            match labels::fields_of(label, tables, &budget) {
                Ok(specs) => label_specs.push(specs),
                Err(fault) => {
                    refused = Some(at(kustomization.item("labels", index))(fault));
                    break;
                }
            }
        }
        let mut passes = Passes::default();
        for (field, affix, specs, kind) in [
            (
                "namePrefix",
                Affix::Prefix(&fields.name_prefix),
                &tables.name_prefix,
                "PrefixTransformer",
            ),
            (
                "nameSuffix",
                Affix::Suffix(&fields.name_suffix),
                &tables.name_suffix,
                "SuffixTransformer",
            ),
        ] {
            let (Affix::Prefix(text) | Affix::Suffix(text)) = affix;
            if !text.is_empty() {
                let affixing = AffixPass {
                    affix,
                    specs,
                    schema,
                    budget: budget.clone(),
                };
                passes.add(affixing, kustomization.place(&[field]));
                tracker.add(&mut passes, kind, &budget);
            }
        }
        for (index, (label, specs)) in fields.labels.iter().zip(&label_specs).enumerate() {
            let labelling = LabelPass::new(&label.pairs, specs, &budget);
            passes.add(labelling, kustomization.item("labels", index));
            tracker.add(&mut passes, "LabelTransformer", &budget);
        }
        if let Some(refused) = refused {
            passes.run(resources)?;
            return Err(refused);
        }
        if !fields.common_labels.is_empty() || !fields.labels.is_empty() {
            let labelling = LabelPass::new(&fields.common_labels, &tables.common_labels, &budget);
            passes.add(labelling, kustomization.place(&["commonLabels"]));
            tracker.add(&mut passes, "LabelTransformer", &budget);
        }
        if !fields.common_annotations.is_empty() {
            let annotating = LabelPass::new(&fields.common_annotations, &tables.common_annotations, &budget);
            passes.add(annotating, kustomization.place(&["commonAnnotations"]));
            tracker.add(&mut passes, "AnnotationsTransformer", &budget);
        }
        if !fields.patches_json6902.is_empty() || !fields.replicas.is_empty() {
            std::mem::take(&mut passes).run(resources)?;
        }
        for (index, entry) in fields.patches_json6902.iter().enumerate() {
            let place = kustomization.item("patchesJson6902", index);
            patch::apply_json_entry(entry, &kustomization.root, &place, self.loader, resources, schema)?;
            tracker.note(resources, "PatchJson6902Transformer")?;
        }
        for (index, replica) in fields.replicas.iter().enumerate() {
            let place = kustomization.item("replicas", index);
            replicas::apply(resources, replica, &tables.replicas).map_err(at(place))?;
            tracker.note(resources, "ReplicaCountTransformer")?;
        }
        if !fields.images.is_empty() {
            // an invalid image fails at the first entry
            let place = kustomization.item("images", 0);
            match ImagePass::new(&fields.images, &tables.images, &budget) {
                Ok(tagging) => passes.add(tagging, place),
                Err(exhausted) => {
                    passes.run(resources)?;
                    return Err(at(place)(exhausted.into()));
                }
            }
        }
        for _ in &fields.images {
            tracker.add(&mut passes, "ImageTagTransformer", &budget);
        }
        passes.run(resources)?;
        if !fields.replacements.is_empty() {
            replacements::apply_all(kustomization, self.loader, resources, schema)?;
            tracker.note(resources, "ReplacementTransformer")?;
        }
        plugins::transform(self, kustomization, so_far)
    }

    fn patch(&mut self, kustomization: &Kustomization, so_far: &mut Accumulated) -> Result<(), BuildError> {
        let fields = &kustomization.fields;
        let (root, schema) = (&kustomization.root, self.schema.get());
        let tracker = Tracker {
            on: self.tracks,
            root: &self.root,
            kustomization,
        };
        let resources = &mut so_far.resources;
        if !fields.patches_strategic_merge.is_empty() {
            let place = |index| kustomization.item("patchesStrategicMerge", index);
            let entries = &fields.patches_strategic_merge;
            patch::apply_strategic_entries(entries, root, place, self.loader, resources, schema)?;
            tracker.note(resources, "PatchStrategicMergeTransformer")?;
        }
        for (index, entry) in fields.patches.iter().enumerate() {
            let place = kustomization.item("patches", index);
            let prepared = patch::prepare(entry, root, place, self.loader)?;
            prepared.apply(resources, schema)?;
            tracker.note(resources, "PatchTransformer")?;
        }
        Ok(())
    }

    fn validators(
        &mut self,
        kustomization: &Kustomization,
        so_far: &mut Accumulated,
    ) -> Result<(), BuildError> {
        plugins::validate(self, kustomization, so_far)
    }

    fn variables(
        &mut self,
        kustomization: &Kustomization,
        so_far: &mut Accumulated,
    ) -> Result<(), BuildError> {
        for (index, variable) in kustomization.fields.vars.iter().enumerate() {
            let place = kustomization.item("vars", index);
            let bound = variables::bind(variable, place.clone(), &mut so_far.resources, self.schema.get());
            let bound = bound.map_err(at(place.clone()))?;
            so_far.variables.add(bound).map_err(at(place))?;
        }
        Ok(())
    }

    /// `openapi`: the first schema of a build is used throughout.
    pub(crate) fn choose_schema(&mut self, kustomization: &Kustomization) -> Result<(), BuildError> {
        let openapi = &kustomization.fields.openapi;
        let place = || kustomization.place(&["openapi"]);
        let version = openapi.get("version");
        let Some(entry) = openapi.get("path") else {
            return match version.map(String::as_str) {
                None | Some("") => Ok(()),
                Some("v1.21.2" | "v1_21_2") => {
                    self.schema_chosen = true;
                    Ok(())
                }
                Some(other) => Err(at(place())(Fault::OpenApiVersion {
                    version: other.to_owned(),
                })),
            };
        };
        if version.is_some() {
            return Err(at(place())(Fault::OpenApiBoth));
        }
        let (path, text) = self
            .loader
            .read_text(&kustomization.root, entry)
            .map_err(at(place()))?;
        if self.schema_chosen {
            return Ok(());
        }
        self.schema_chosen = true;
        let documents = self.loader.budget.load(&text, &yaml::Options::default());
        let documents = documents.map_err(|error| BuildError::yaml(&path, error))?;
        let document = documents
            .into_iter()
            .next()
            .map_or(Value::Null, |document| document.value);
        let mut schema = Schema::built_in().clone();
        schema.extend(&document);
        self.schema = SchemaChoice::Custom(Box::new(schema));
        Ok(())
    }
}

struct Tracker<'a> {
    on: bool,
    root: &'a str,
    kustomization: &'a Kustomization,
}

impl Tracker<'_> {
    fn note(&self, resources: &mut Collection, kind: &'static str) -> Result<(), BuildError> {
        if self.on {
            let note = Note::builtin(self.root, self.kustomization, kind);
            let noted = note_all(resources, &note).map_err(Fault::from);
            noted.map_err(at(Place::file(&self.kustomization.path)))?;
        }
        Ok(())
    }

    fn add(&self, passes: &mut Passes<'_>, kind: &'static str, budget: &Budget) {
        if self.on {
            let note = Note::builtin(self.root, self.kustomization, kind);
            let place = Place::file(&self.kustomization.path);
            passes.add(NotePass(note, budget.clone()), place);
        }
    }
}

pub(crate) fn note_all(resources: &mut Collection, note: &Note) -> Result<(), Exhausted> {
    let budget = resources.budget();
    let bytes = note.bytes();
    for resource in resources.contents_mut() {
        budget.charge(bytes)?;
        budget.spend(notes::STEPS)?;
        resource.note_change(note);
    }
    Ok(())
}

fn refuse(kustomization: &Kustomization, charts: bool) -> Result<(), BuildError> {
    let fields = &kustomization.fields;
    if charts {
        return Ok(());
    }
    let lists = [
        ("helmCharts", &fields.helm_charts),
        (
            "helmChartInflationGenerator",
            &fields.helm_chart_inflation_generator,
        ),
    ];
    for (field, entries) in lists {
        if !entries.is_empty() {
            return Err(at(kustomization.place(&[field]))(Fault::Helm));
        }
    }
    Ok(())
}

fn read_configuration(text: &str, path: &str, budget: &Budget) -> Result<Configuration, BuildError> {
    let options = yaml::Options {
        duplicates: yaml::Duplicates::Collect,
        spans: true,
        ..yaml::Options::default()
    };
    let documents = budget
        .load(text, &options)
        .map_err(|error| BuildError::yaml(path, error))?;
    let document = documents.into_iter().next();
    let (value, spans) = document.map_or_else(Default::default, |document| (document.value, document.spans));
    let shape = &kustomization::shapes::CONFIGURATION;
    kustomization::decode(value, shape, UnknownFields::Refused, &mut HashMap::new()).map_err(
        |(segments, fault)| {
            let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
            let fault = match fault {
                Fault::UnknownField { field } => Fault::UnknownConfiguration { field },
                fault => fault,
            };
            at(kustomization::place_of(path, &spans, &segments))(fault)
        },
    )
}
