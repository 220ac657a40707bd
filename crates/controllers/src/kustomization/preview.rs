//! What a run would do to the cluster, without doing it: the same rendering, planning and wording.
//!
//! For people who look before they commit. It asks the API server about every object (a dry run
//! each) and writes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use equate_api::kustomize::Kustomization;
use equate_apply::cluster::{Cluster, Execution, Preview};
use equate_apply::id::ObjectId;
use equate_apply::observed::Observed;
use equate_apply::owner::Owner;
use equate_apply::plan::{self, Live, Memory, Options, Presence, plan};
use equate_source::Tree;
use tokio::sync::Semaphore;

use super::build::{Rendered, Rendering};
use super::declared::Declared;
use super::reasons::Failure;
use crate::engine::OwnLoop;

/// How long one object is asked for.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What the plan calls a revision that no commit has yet.
const UNCOMMITTED: &str = "uncommitted";

/// What a preview is made with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The Kustomization whose directory may hold the engine's own manifests.
    pub root: Option<OwnLoop>,
    /// The namespace of objects that name none.
    pub default_namespace: Option<String>,
}

/// Why there is no preview.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// A field has no meaning yet.
    #[error("{0} is not supported yet")]
    Unsupported(&'static str),
    /// The inventory in its status cannot be read, so what would be pruned is not known.
    #[error("its inventory cannot be read")]
    Inventory(#[source] equate_apply::id::ParseIdError),
    /// It cannot be built; the text is what its status would say.
    #[error("{0}")]
    Build(String),
    /// An object that would be pruned could not be looked at.
    #[error("could not look at {id}")]
    Look {
        /// Which.
        id: ObjectId,
        /// Why.
        #[source]
        source: equate_apply::cluster::ApplyError,
    },
}

/// Holds what a Kustomization would be built to from a tree against the cluster.
///
/// # Errors
/// When it cannot be built. That objects would be refused is part of the answer.
pub async fn preview(
    cluster: &Cluster,
    object: &Kustomization,
    tree: &Tree,
    settings: &Settings,
) -> Result<Preview, PreviewError> {
    let declared = Declared::from(object);
    if let Some(field) = declared.unsupported {
        return Err(PreviewError::Unsupported(field));
    }
    if let Some(error) = declared.unreadable {
        return Err(PreviewError::Inventory(error));
    }
    let rendering = Rendering {
        cluster,
        blocking: &Semaphore::new(1),
        root: settings.root.as_ref(),
        default_namespace: settings.default_namespace.as_deref(),
    };
    let Rendered { desired, .. } = rendering
        .render(&declared, tree)
        .await
        .map_err(|failure| PreviewError::Build(Failure::to_string(&failure)))?;
    let wanted: BTreeSet<&ObjectId> = desired.iter().map(|desired| &desired.id).collect();
    let mut live = Live::default();
    let gone = declared.inventory.iter().filter(|(id, _)| !wanted.contains(id));
    for (id, version) in gone {
        let found = cluster.get(id, version, TIMEOUT).await;
        let found = found.map_err(|source| PreviewError::Look {
            id: id.clone(),
            source,
        })?;
        let presence = found.map_or(Presence::Absent, |object| {
            Presence::Present(Arc::new(Observed::of(&object)))
        });
        live.insert(id.clone(), presence);
    }
    let owner = Owner::new(&declared.key.namespace, &declared.key.name);
    let options = Options {
        prune: declared.prune,
        allow_empty: declared.allow_empty.as_deref(),
        ..Options::new(&owner, UNCOMMITTED)
    };
    let planned: plan::Plan = plan(&desired, &declared.inventory, &live, &Memory::default(), &options);
    let execution = Execution {
        force: declared.force,
        ..Execution::new(&options)
    };
    Ok(cluster.preview(&planned, &desired, &execution).await)
}
