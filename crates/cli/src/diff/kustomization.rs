//! `equate diff kustomization`: what one Kustomization would change, built from a local directory.
//!
//! Built as `equate build kustomization` builds it, held against the cluster as `equate diff` does.
//! How the Kustomization is applied (dependencies, health checks, its service account) does not
//! matter here and is not looked at. Those that it drops are shown with `--recursive`, as those are
//! that it declares.

use super::{Compared, DiffError, Judge, all_kustomizations};
use crate::build::RenderError;
use crate::build::kustomization::{Args, Renderer, hide};
use crate::controllers::flags::Identity;
use equate_api::kustomize::Kustomization;
use equate_apply::cluster::{Cluster, Preview};
use equate_apply::difference::Shown;
use equate_apply::plan::{KeepReason, Step};
use equate_controllers::kustomization::preview::{Fleet, PreviewError};
use equate_kustomize::Resource;
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::path::Path;
use tokio::runtime::Runtime;

/// Compares the Kustomization that is named, and with `--recursive` those it declares.
pub(super) fn compare(
    args: &Args,
    path: &Path,
    identity: &Identity,
    runtime: &Runtime,
) -> Result<Vec<Compared>, DiffError> {
    let connection = runtime.block_on(args.cluster.connect_aloud())?;
    let cluster = Cluster::new(connection.client.clone());
    let renderer = Renderer::new(args, path, Some(connection.client.clone()), runtime)?;
    // of the others it is enough to know what they hold
    let all = runtime.block_on(all_kustomizations(&connection.client))?;
    let judge = Judge::of(&connection, identity)?;
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
                let hidden = hide(&mut objects).map_err(RenderError::from)?;
                sealed.insert(name.clone(), hidden);
                let declared = alone(kustomization);
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
                by_keys(&mut preview, sealed.get(&name));
                preview
            }),
            Err(error) => Err(error),
        },
        name,
        path,
    });
    Ok(compared.collect())
}

fn called(kustomization: &Kustomization) -> String {
    let meta = &kustomization.metadata;
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("Kustomization/{}/{}", text(&meta.namespace), text(&meta.name))
}

/// The Kustomizations among objects, with what the cluster knows of them.
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

/// Leaves of Secrets that are encrypted only which keys they have, as Flux does: what they would hold is
/// not known here.
fn by_keys(preview: &mut Preview, sealed: Option<&HashSet<String>>) {
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

/// A Kustomization without what says how it is applied, not what; a build has its variables in it, and
/// what is encrypted stays so.
fn alone(mut kustomization: Kustomization) -> Kustomization {
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

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
