//! Observes the sources, and the ExternalArtifacts with their archives. It only reads, except that the store
//! removes a damaged archive.

use std::collections::BTreeMap;

use equate_api::extensions::ArtifactGeneratorStatus;
use equate_api::meta::Reason;
use equate_api::source::{Artifact, ExternalArtifact};
use sha2::{Digest as _, Sha256};

use super::act::ORIGIN_REVISION;
use super::decide::Observed;
use super::declared::Declared;
use super::{ArtifactGenerators, KIND};
use crate::ObjectRef;
use crate::kit::controller::Failure;
use crate::kit::read::chain;
use crate::sources::store::{Form, is_stored};
use crate::sources::{Named, SourceArtifact, publisher};

pub(super) async fn observe(
    cx: &ArtifactGenerators,
    declared: &Declared,
    status: ArtifactGeneratorStatus,
) -> Observed {
    let mut sources = Ok(BTreeMap::new());
    for (alias, source) in &declared.sources {
        match (named(cx, source), &mut sources) {
            (Ok(found), Ok(sources)) => drop(sources.insert(alias.clone(), found)),
            (Err(why), Ok(_)) => sources = Err(fetching(&format!("get sources failed: {why}"))),
            (_, Err(_)) => {}
        }
    }
    let digest = sources.as_ref().map(digest).unwrap_or_default();
    let live = match cx.live(declared).await {
        Err(error) => Err(Failure::passing(
            Reason::ReconciliationFailed,
            format!("error listing external artifacts: {}", chain(&error)),
        )),
        Ok(all) => {
            let mut live = BTreeMap::new();
            for object in all {
                let name = object.metadata.name.clone().unwrap_or_default();
                live.insert(name, intact(cx, &object).await);
            }
            Ok(live)
        }
    };
    Observed {
        status,
        sources,
        digest,
        live,
    }
}

/// A source cannot be used. Its next artifact starts another run.
pub(super) fn fetching(message: &str) -> Failure {
    Failure::passing(Reason::SourceFetchFailed, message)
}

fn named(cx: &ArtifactGenerators, source: &ObjectRef) -> Result<SourceArtifact, String> {
    let (kind, namespace, name) = (source.kind, &source.namespace, &source.name);
    match cx.kit.sources.named(source) {
        Named::Artifact(found) => Ok(*found),
        Named::Nothing => Err(format!("source '{kind}/{namespace}/{name}' is not ready")),
        Named::Absent => Err(format!("{kind}.source.toolkit.fluxcd.io \"{name}\" not found")),
        Named::Unserved => Err(format!(
            "no matches for kind \"{kind}\" in version \"source.toolkit.fluxcd.io/v1\""
        )),
        Named::Unlisted(why) => {
            let why = why.unwrap_or_else(|| "sources of its kind are not listed yet".to_owned());
            Err(format!("unable to get source '{namespace}/{name}': {why}"))
        }
    }
}

/// As upstream's `HashObservedSources`.
fn digest(sources: &BTreeMap<String, SourceArtifact>) -> String {
    let mut parts: Vec<String> = sources
        .iter()
        .map(|(alias, SourceArtifact { artifact, .. })| {
            let Artifact {
                digest,
                revision,
                url,
                ..
            } = artifact;
            format!("{alias}=[digest={digest},revision={revision},url={url}]")
        })
        .collect();
    parts.sort();
    format!("sha256:{:x}", Sha256::digest(parts.join("|")))
}

/// The digest of its artifact, if the store has the archive.
async fn intact(cx: &ArtifactGenerators, object: &ExternalArtifact) -> Option<String> {
    let artifact = object.status.as_ref()?.artifact.clone()?;
    let own = publisher(KIND, &object.metadata)?;
    let digest = artifact.digest.clone();
    let stored = Artifact {
        revision: stored_revision(&artifact.path)?,
        ..artifact
    };
    let is_here = is_stored(&cx.kit.storage, &own, stored, Form::Tree).await;
    is_here.then_some(digest)
}

/// The name of an archive in the store: the digest of its files, because the revision may be that of a
/// source, and is known only later otherwise.
fn stored_revision(path: &str) -> Option<String> {
    let file = path.rsplit('/').next()?;
    Some(format!("files:{}", file.strip_suffix(".tar.gz")?))
}

/// The revision of the artifact that a source is made from.
pub(super) fn origin(source: &SourceArtifact) -> String {
    let origin = source.artifact.metadata.get(ORIGIN_REVISION);
    let origin = origin.filter(|origin| !origin.is_empty());
    origin.unwrap_or(&source.artifact.revision).clone()
}
