//! `generators`, `transformers`, `validators`: builtins with their own configuration.
//!
//! An entry is inline text, a file, or a directory that builds configurations. Only builtins run; programs
//! and containers are refused by kind.

mod fields;
mod iam_policy;
mod value_add;

use crate::charts;
use crate::collection::{self, Collection};
use crate::error::{BuildError, Fault};
use crate::field_spec::FieldSpec;
use crate::generate::{self, Entry, Kind};
use crate::kustomization::{self, GeneratorFields, Kustomization, Patch, Shape, UnknownFields};
use crate::loader::at;
use crate::manifests;
use crate::notes::{FileOrigin, Note};
use crate::passes;
use crate::patch;
use crate::pipeline::{self, Accumulated, Build};
use crate::resource::Resource;
use crate::transform::affix::{Affix, AffixPass};
use crate::transform::images::ImagePass;
use crate::transform::labels::LabelPass;
use crate::transform::namespace::{Namespace, Subjects};
use crate::transform::{replacements, replicas};
use fields::{GENERATOR, GeneratorConfigFields, IAM_POLICY, TRANSFORMER, TransformerFields};
use serde::de::DeserializeOwned;
use std::collections::HashMap;

const BUILTIN: &str = "builtin";

pub(crate) fn generate(
    build: &mut Build<'_, '_>,
    kustomization: &Kustomization,
    so_far: &mut Accumulated,
) -> Result<(), BuildError> {
    for configuration in load(
        build,
        kustomization,
        "generators",
        &kustomization.fields.generators,
    )? {
        if configuration.kind() == "IAMPolicyGenerator" {
            let mut made = iam_policy::generate(read(&configuration, &IAM_POLICY)?, &configuration)?;
            made.note = build.tracks.then(|| note_of(build, &configuration));
            let place = configuration.place();
            so_far
                .resources
                .absorb(made, build.schema.get())
                .map_err(at(place))?;
            continue;
        }
        if configuration.kind() == "HelmChartInflationGenerator" {
            chart(build, kustomization, &configuration, so_far)?;
            continue;
        }
        let kind = match configuration.kind() {
            "ConfigMapGenerator" => Kind::ConfigMap,
            "SecretGenerator" => Kind::Secret,
            other => return Err(unsupported(&configuration, other)),
        };
        let fields: GeneratorConfigFields = read(&configuration, &GENERATOR)?;
        let or = |own: &str, metadata: &str| {
            if own.is_empty() {
                metadata.to_owned()
            } else {
                own.to_owned()
            }
        };
        let mut entry = GeneratorFields {
            name: or(&fields.name, &fields.metadata.name),
            namespace: or(&fields.namespace, &fields.metadata.namespace),
            behavior: fields.behavior,
            literals: fields.literals,
            files: fields.files,
            envs: fields.envs,
            env: String::new(),
            options: fields.options,
            r#type: fields.r#type,
        };
        if !fields.env.is_empty() {
            entry.envs.push(fields.env);
        }
        let place = configuration.place();
        let (of, root) = (Entry::Configuration, &kustomization.root);
        let mut made = generate::generate(kind, of, &entry, None, root, &place, build.loader)?;
        if build.tracks {
            made.note = Some(note_of(build, &configuration));
        }
        so_far
            .resources
            .absorb(made, build.schema.get())
            .map_err(at(place))?;
    }
    Ok(())
}

/// Renders a chart from its own configuration. The kustomization's namespace does not apply.
fn chart(
    build: &mut Build<'_, '_>,
    kustomization: &Kustomization,
    configuration: &Resource,
    so_far: &mut Accumulated,
) -> Result<(), BuildError> {
    let place = configuration.place();
    if build.loader.charts.is_none() {
        return Err(at(place)(Fault::Helm));
    }
    let asked = charts::of_generator(configuration.object.clone().into_value());
    let asked = asked.map_err(at(place.clone()))?;
    let note = note_of(build, configuration);
    build.chart(kustomization, asked, &place, &note, so_far)
}

pub(crate) fn transform(
    build: &mut Build<'_, '_>,
    kustomization: &Kustomization,
    so_far: &mut Accumulated,
) -> Result<(), BuildError> {
    let configurations = load(
        build,
        kustomization,
        "transformers",
        &kustomization.fields.transformers,
    )?;
    for configuration in &configurations {
        run(build, kustomization, configuration, &mut so_far.resources)?;
        if build.tracks {
            let note = note_of(build, configuration);
            let noted = pipeline::note_all(&mut so_far.resources, &note).map_err(Fault::from);
            noted.map_err(at(configuration.place()))?;
        }
    }
    Ok(())
}

/// Runs the entries of `validators`: transformers that may not change anything.
pub(crate) fn validate(
    build: &mut Build<'_, '_>,
    kustomization: &Kustomization,
    so_far: &mut Accumulated,
) -> Result<(), BuildError> {
    let configurations = load(
        build,
        kustomization,
        "validators",
        &kustomization.fields.validators,
    )?;
    for configuration in &configurations {
        let budget = &build.loader.budget;
        let copied = so_far.resources.items().iter().try_for_each(|resource| {
            // copied and compared
            budget.spend(2 * collection::copy_steps(resource))
        });
        copied.map_err(|exhausted| at(configuration.place())(exhausted.into()))?;
        let before: Vec<Resource> = so_far.resources.items().to_vec();
        run(build, kustomization, configuration, &mut so_far.resources)?;
        let after = so_far.resources.items();
        let same = before.len() == after.len()
            && before
                .iter()
                .zip(after)
                .all(|(before, after)| before.object == after.object);
        if !same {
            return Err(at(configuration.place())(Fault::Validator {
                id: configuration.id().to_string(),
            }));
        }
    }
    Ok(())
}

fn load(
    build: &mut Build<'_, '_>,
    kustomization: &Kustomization,
    field: &str,
    entries: &[String],
) -> Result<Vec<Resource>, BuildError> {
    let mut found = Accumulated::empty(&build.loader.budget);
    let mut paths = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let place = kustomization.item(field, index);
        let checked = build.loader.budget.check().map_err(Fault::from);
        checked.map_err(at(place.clone()))?;
        match manifests::parse(entry, &kustomization.path, &build.loader.budget) {
            Ok(mut configurations) => {
                for configuration in &mut configurations {
                    configuration.origin.line = place.line;
                    configuration.column = place.column;
                    let file = FileOrigin::new(&build.root, kustomization, &kustomization.path);
                    configuration.note = build.tracks.then_some(Note::File(file));
                }
                let added = found.resources.append_all(configurations, build.schema.get());
                added.map_err(at(place))?;
            }
            Err(_) => paths.push((entry, place)),
        }
    }
    for (entry, place) in paths {
        build.resource(kustomization, entry, place, &mut found)?;
    }
    let configurations = found.resources.into_items();
    for configuration in &configurations {
        if configuration.object.api_version() != BUILTIN {
            let kind = configuration.kind().to_owned();
            return Err(at(configuration.place())(Fault::Plugin { kind }));
        }
    }
    Ok(configurations)
}

fn run(
    build: &mut Build<'_, '_>,
    kustomization: &Kustomization,
    configuration: &Resource,
    resources: &mut Collection,
) -> Result<(), BuildError> {
    let fields: TransformerFields = read(configuration, &TRANSFORMER)?;
    let place = configuration.place();
    let root = &kustomization.root;
    let schema = build.schema.get();
    let specs: Vec<FieldSpec> = fields.field_specs.iter().map(FieldSpec::from_field).collect();
    let budget = build.loader.budget.clone();
    let affixing = |affix| AffixPass {
        affix,
        specs: &specs,
        schema,
        budget: budget.clone(),
    };
    let done = match configuration.kind() {
        "AnnotationsTransformer" => {
            let pass = LabelPass::new(&fields.annotations, &specs, &budget);
            passes::run(&pass, resources)
        }
        "LabelTransformer" => passes::run(&LabelPass::new(&fields.labels, &specs, &budget), resources),
        "PrefixTransformer" => passes::run(&affixing(Affix::Prefix(&fields.prefix)), resources),
        "SuffixTransformer" => passes::run(&affixing(Affix::Suffix(&fields.suffix)), resources),
        "PrefixSuffixTransformer" => passes::run(&affixing(Affix::Prefix(&fields.prefix)), resources)
            .and_then(|()| passes::run(&affixing(Affix::Suffix(&fields.suffix)), resources)),
        "HashTransformer" => pipeline::add_hashes(resources, schema),
        "ImageTagTransformer" => {
            let images = std::slice::from_ref(&fields.image_tag);
            let pass = ImagePass::new(images, &specs, &budget).map_err(Fault::from);
            pass.and_then(|pass| passes::run(&pass, resources))
        }
        "ReplicaCountTransformer" => replicas::apply(resources, &fields.replica, &specs),
        "NamespaceTransformer" => match subjects(&fields.set_role_binding_subjects) {
            Err(fault) => Err(fault),
            Ok(_) if fields.metadata.namespace.is_empty() => Ok(()),
            Ok(subjects) => {
                let namespace = Namespace {
                    name: &fields.metadata.namespace,
                    unset_only: fields.unset_only,
                    subjects,
                };
                namespace.apply(resources, &specs, schema)
            }
        },
        "ValueAddTransformer" => return value_add::apply(fields, kustomization, place, build, resources),
        "PatchTransformer" => {
            let entry = Patch {
                path: fields.path,
                patch: fields.patch,
                target: fields.target,
                options: fields.options,
            };
            return patch::prepare(&entry, root, place, build.loader)?.apply(resources, schema);
        }
        "PatchStrategicMergeTransformer" => {
            let entries: Vec<String> = fields
                .paths
                .into_iter()
                .chain((!fields.patches.is_empty()).then_some(fields.patches))
                .collect();
            return patch::apply_strategic_entries(
                &entries,
                root,
                |_| place.clone(),
                build.loader,
                resources,
                schema,
            );
        }
        "PatchJson6902Transformer" => {
            let entry = Patch {
                path: fields.path,
                patch: fields.json_op,
                target: fields.target,
                ..Patch::default()
            };
            return patch::apply_json_entry(&entry, root, &place, build.loader, resources, schema);
        }
        "ReplacementTransformer" => {
            return fields.replacements.iter().try_for_each(|entry| {
                replacements::apply_entry(entry, root, place.clone(), build.loader, resources, schema)
            });
        }
        other => {
            let kind = other.to_owned();
            return Err(at(place)(Fault::Builtin { kind }));
        }
    };
    done.map_err(at(place))
}

fn subjects(mode: &str) -> Result<Subjects, Fault> {
    match mode {
        "" | "defaultOnly" => Ok(Subjects::Default),
        "allServiceAccounts" => Ok(Subjects::ServiceAccounts),
        "none" => Ok(Subjects::None),
        other => Err(Fault::SubjectMode {
            mode: other.to_owned(),
        }),
    }
}

fn read<T: DeserializeOwned + Default>(
    configuration: &Resource,
    shape: &'static Shape,
) -> Result<T, BuildError> {
    let value = configuration.object.clone().into_value();
    kustomization::decode(value, shape, UnknownFields::Ignored, &mut HashMap::new())
        .map_err(|(_, fault)| at(configuration.place())(fault))
}

fn note_of(build: &Build<'_, '_>, configuration: &Resource) -> Note {
    let configured_in = match &configuration.note {
        Some(Note::File(whence)) => whence.clone(),
        _ => FileOrigin::of_tree(&build.root, &configuration.origin.path),
    };
    Note::Configured {
        configured_in,
        api_version: configuration.object.api_version().to_owned(),
        kind: configuration.kind().to_owned(),
        name: configuration.name().to_owned(),
        namespace: configuration.object.namespace().to_owned(),
    }
}

fn unsupported(configuration: &Resource, kind: &str) -> BuildError {
    at(configuration.place())(Fault::Unsupported {
        field: format!("the builtin {kind}"),
    })
}
