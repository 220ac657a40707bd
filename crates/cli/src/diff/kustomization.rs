//! `equate diff kustomization`: compares one Kustomization, built from a local directory, with the cluster.
//!
//! Builds like `equate build kustomization` and compares like `equate diff`. Ignores how the Kustomization is
//! applied: dependencies, health checks and ServiceAccount. `--recursive` also compares nested
//! Kustomizations, declared and dropped.

use super::{Compared, ControllerSettings, DiffError, all_kustomizations};
use crate::build::RenderError;
use crate::build::kustomization::{Args, Renderer, mask_secrets};
use crate::controllers::flags::Identity;
use crate::failure::chain;
use equate_api::kustomize::Kustomization;
use equate_apply::cluster::{Cluster, Preview};
use equate_apply::difference::Shown;
use equate_apply::plan::{KeepReason, Step};
use equate_controllers::kustomization::preview::{Fleet, PreviewError};
use equate_kustomize::Resource;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use tokio::runtime::Runtime;

pub(super) fn compare(
    args: &Args,
    path: &Path,
    identity: &Identity,
    runtime: &Runtime,
) -> Result<Vec<Compared>, DiffError> {
    let connection = runtime.block_on(args.cluster.connect_and_print())?;
    let cluster = Cluster::new(connection.client.clone());
    let renderer = Renderer::new(args, path, Some(connection.client.clone()), runtime)?;
    // the other Kustomizations are needed for their inventories only
    let all = runtime.block_on(all_kustomizations(&connection.client))?;
    let judge = ControllerSettings::of(&connection, identity)?;
    let own = |kustomization: &Kustomization| judge.settings(kustomization);
    let mut fleet = runtime.block_on(Fleet::build(&cluster, all, |_| None, own));
    let mut built = Vec::new();
    let mut seen = HashSet::new();
    let mut sealed: HashMap<String, HashSet<String>> = HashMap::new();
    let named = renderer.named().map_err(RenderError::from)?;
    let mut left = vec![(named, path.to_owned())];
    while let Some((mut kustomization, directory)) = left.pop() {
        let namespace = &mut kustomization.metadata.namespace;
        namespace.get_or_insert_with(|| args.namespace.clone());
        let name = called(&kustomization);
        if !seen.insert(name.clone()) {
            continue;
        }
        let outcome = match renderer.render(&kustomization, &directory) {
            Err(error) => Err(PreviewError::Build(chain(&error))),
            Ok(mut objects) => {
                if args.recursive {
                    left.extend(nested(&renderer, &objects)?);
                }
                let hidden = mask_secrets(&mut objects).map_err(RenderError::from)?;
                sealed.insert(name.clone(), hidden);
                let declared = without_apply_settings(kustomization);
                let settings = own(&declared);
                runtime.block_on(fleet.put(&cluster, declared.clone(), objects, &settings));
                Ok(declared)
            }
        };
        built.push((name, directory.display().to_string(), outcome));
    }
    let gone = runtime.block_on(fleet.settle());
    if args.recursive {
        let gone = gone.iter().filter_map(|going| fleet.get(&going.key));
        built.extend(gone.map(|one| {
            let path = one.spec.path.clone().unwrap_or_default();
            (called(one), path, Ok(one.clone()))
        }));
    }
    let compared = built.into_iter().map(|(name, path, outcome)| Compared {
        outcome: match outcome {
            Ok(one) => runtime.block_on(fleet.preview(&one)).map(|mut preview| {
                reduce_to_keys(&mut preview, sealed.get(&name));
                preview
            }),
            Err(error) => Err(error),
        },
        name,
        path,
        // its chart is in another place than the given directory
        releases: Vec::new(),
    });
    Ok(compared.collect())
}

fn called(kustomization: &Kustomization) -> String {
    let meta = &kustomization.metadata;
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("Kustomization/{}/{}", text(&meta.namespace), text(&meta.name))
}

/// The Kustomizations among the objects, with their status in the cluster.
fn nested(
    renderer: &Renderer<'_>,
    objects: &[Resource],
) -> Result<Vec<(Kustomization, std::path::PathBuf)>, RenderError> {
    let mut found = renderer.nested(objects)?;
    for (nested, _) in &mut found {
        let meta = &nested.metadata;
        let (name, namespace) = (meta.name.as_deref(), meta.namespace.as_deref());
        let live = renderer.live(name.unwrap_or_default(), namespace.unwrap_or_default())?;
        nested.status = live.and_then(|live| live.status);
    }
    found.reverse();
    Ok(found)
}

/// Reduces encrypted Secrets to their keys, like Flux: their values are unknown here.
fn reduce_to_keys(preview: &mut Preview, sealed: Option<&HashSet<String>>) {
    let Some(sealed) = sealed else { return };
    for step in preview.plan.stages.iter_mut().flat_map(|stage| &mut stage.steps) {
        let Step::Patch { id, changes, .. } = step else {
            continue;
        };
        if &*id.kind != "Secret" || !sealed.contains(&*id.name) {
            continue;
        }
        changes.retain(|change| {
            let masked = |shown: &Option<Shown>| matches!(shown, Some(Shown::Masked));
            !(masked(&change.before) && masked(&change.after))
        });
        if changes.is_empty() {
            *step = Step::Keep(id.clone(), KeepReason::Unchanged);
        }
    }
}

/// The Kustomization without the fields that say how it is applied. The build has substituted its variables;
/// encrypted values stay encrypted.
fn without_apply_settings(mut kustomization: Kustomization) -> Kustomization {
    let spec = &mut kustomization.spec;
    if let Some(post) = &mut spec.post_build {
        post.substitute_from.clear();
    }
    spec.depends_on.clear();
    spec.health_check_exprs.clear();
    spec.service_account_name = None;
    spec.decryption = None;
    kustomization
}
