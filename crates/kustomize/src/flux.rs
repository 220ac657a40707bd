//! Builds the kustomization of a Flux Kustomization.
//!
//! A directory without a kustomization file gets a generated one. The spec's fields are then merged into it,
//! as Flux writes them to the file before building.

use crate::error::{BuildError, Fault, Place};
use crate::kustomization::{self, FILE_NAMES, Fields, Image, Kustomization, Patch};
use crate::loader::{Loader, at};
use crate::manifests;
use crate::patch;
use crate::path;
use crate::remote;
use crate::resource::{Resource, map_in};
use crate::spec::{CommonMetadata, Spec};
use crate::tree::EntryKind;
use std::collections::HashMap;

pub(crate) fn root(loader: &mut Loader<'_>, spec: &Spec) -> Result<Kustomization, BuildError> {
    // the path is relative to the source, with or without a leading slash
    let asked = spec.path.trim_start_matches('/');
    let place = Place::file(asked);
    let root = loader.resolve_directory("", asked).map_err(at(place))?;
    let mut kustomization = match kustomization::find(loader, &root)? {
        Some(name) => {
            let mut read = kustomization::read(loader, &root, &name)?;
            // without resources kustomize would refuse a file that only the spec fills
            if read.fields.resources.is_empty() {
                read.fields.build_metadata = vec!["originAnnotations".to_owned()];
            }
            read
        }
        None => generate(loader, &root)?,
    };
    put(spec, loader, &mut kustomization)?;
    Ok(kustomization)
}

fn generate(loader: &mut Loader<'_>, root: &str) -> Result<Kustomization, BuildError> {
    let mut resources = Vec::new();
    walk(loader, root, root, 0, &mut resources)?;
    Ok(Kustomization::generated(
        root,
        Fields {
            kind: "Kustomization".to_owned(),
            resources,
            ..Fields::default()
        },
    ))
}

/// Lists the manifests below `dir`. A directory with a kustomization file is listed itself; a YAML file that
/// is not a manifest is an error.
fn walk(
    loader: &mut Loader<'_>,
    root: &str,
    dir: &str,
    depth: usize,
    resources: &mut Vec<String>,
) -> Result<(), BuildError> {
    if depth > loader.limits.depth_max {
        let limit = loader.limits.depth_max;
        return Err(at(Place::file(dir))(Fault::Depth(limit)));
    }
    for (name, kind) in loader.walk(dir) {
        let whole = if dir.is_empty() {
            name.clone()
        } else {
            format!("{dir}/{name}")
        };
        match kind {
            EntryKind::Directory => {
                if has_kustomization(loader, &whole) {
                    resources.push(path::relative(root, &whole));
                } else {
                    walk(loader, root, &whole, depth + 1, resources)?;
                }
            }
            EntryKind::File | EntryKind::Symlink => {
                let manifest = whole.ends_with(".yaml") || whole.ends_with(".yml");
                // the archives Flux builds from contain no links
                if !manifest || kind == EntryKind::Symlink {
                    continue;
                }
                let entry = path::relative(root, &whole);
                let (_, text) = loader.read_text(root, &entry).map_err(at(Place::file(&whole)))?;
                manifests::parse(&text, &whole, &loader.budget)
                    .map_err(|error| at(error.place)(Fault::NotManifest(error.fault)))?;
                resources.push(entry);
            }
        }
    }
    Ok(())
}

fn has_kustomization(loader: &mut Loader<'_>, dir: &str) -> bool {
    FILE_NAMES.iter().any(|name| {
        let path = format!("{dir}/{name}");
        matches!(loader.locate(&path), Ok((_, EntryKind::File)))
    })
}

fn put(spec: &Spec, loader: &mut Loader<'_>, kustomization: &mut Kustomization) -> Result<(), BuildError> {
    let place = Place::file(&kustomization.path);
    let fields = &mut kustomization.fields;
    for (field, value) in [
        (&mut fields.namespace, &spec.target_namespace),
        (&mut fields.name_prefix, &spec.name_prefix),
        (&mut fields.name_suffix, &spec.name_suffix),
    ] {
        if !value.is_empty() {
            field.clone_from(value);
        }
    }
    for entry in &spec.patches {
        fields.patches.push(Patch {
            patch: entry.patch.clone(),
            target: entry.target.as_ref().map(patch::selector),
            ..Patch::default()
        });
    }
    for component in &spec.components {
        if remote::is_remote(component) || component.starts_with('/') {
            return Err(at(place)(Fault::ComponentPath {
                path: component.clone(),
            }));
        }
        let absent = loader.resolve_directory(&kustomization.root, component).is_err();
        if !(spec.ignore_missing_components && absent) {
            fields.components.push(component.clone());
        }
    }
    let mut places: HashMap<String, usize> = HashMap::new();
    for (at, image) in fields.images.iter().enumerate() {
        places.entry(image.name.clone()).or_insert(at);
    }
    for image in &spec.images {
        match places.get(&image.name).map(|at| &mut fields.images[*at]) {
            Some(known) => {
                if !image.new_name.is_empty() {
                    known.new_name.clone_from(&image.new_name);
                }
                if !image.new_tag.is_empty() || !image.digest.is_empty() {
                    known.new_tag.clone_from(&image.new_tag);
                    known.digest.clone_from(&image.digest);
                }
            }
            None => {
                places.insert(image.name.clone(), fields.images.len());
                fields.images.push(Image {
                    name: image.name.clone(),
                    new_name: image.new_name.clone(),
                    new_tag: image.new_tag.clone(),
                    digest: image.digest.clone(),
                    tag_suffix: String::new(),
                });
            }
        }
    }
    if !spec.build_metadata.is_empty() {
        fields.build_metadata.clone_from(&spec.build_metadata);
    }
    Ok(())
}

pub(crate) fn common_metadata(resource: &mut Resource, metadata: &CommonMetadata) {
    for (field, texts) in [
        ("labels", &metadata.labels),
        ("annotations", &metadata.annotations),
    ] {
        if texts.is_empty() {
            continue;
        }
        let map = map_in(resource.metadata_mut(), field);
        for (key, text) in texts {
            map.insert(key.clone(), text.as_str().into());
        }
    }
}
