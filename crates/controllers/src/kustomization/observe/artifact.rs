//! The artifact of a source: in this process's own store, or fetched from its publisher.
//!
//! A source that this process reconciles is never fetched: its controller publishes it here shortly,
//! even if its status still has an old address. All others are fetched by address and digest. A forged status
//! opens only artifacts of its own source.

use equate_api::extensions::ArtifactGenerator;
use equate_api::kustomize::SourceKind;
use equate_source::Tree;

use crate::ObjectRef;
use crate::kustomization::declared::Declared;
use crate::kustomization::inputs::artifact::{Artifact, Revision, SourceSeen};
use crate::kustomization::{Kustomizations, object_ref};
use crate::sources::artifacts::{ArtifactRequest, ArtifactState};
use crate::sources::{Named, SourceArtifact, store};

/// The artifact metadata that names the original revision.
const ORIGIN_REVISION: &str = "org.opencontainers.image.revision";

impl Kustomizations {
    /// The digest and the revision of a source's present artifact.
    pub(in crate::kustomization) fn current_artifact(&self, source: &ObjectRef) -> Option<(String, String)> {
        let artifact = self.kit.sources.artifact(source)?;
        Some((artifact.digest, artifact.revision))
    }

    pub(in crate::kustomization) fn artifact_digest(&self, source: &ObjectRef) -> Option<String> {
        self.current_artifact(source).map(|(digest, _)| digest)
    }
}

/// Observes the source. A source that cannot be read now wakes the Kustomization when it can. `request` is
/// the token of the request that the run answers.
pub(super) async fn source(
    cx: &Kustomizations,
    ks: &Declared,
    request: Option<&str>,
) -> (SourceSeen, Option<Artifact>) {
    let source = ks.source_ref();
    if ks.source_kind == SourceKind::ExternalArtifact && !cx.kit.settings.policy.external_artifacts {
        let why = format!(
            "can't access '{}/{}', ExternalArtifact feature gate is disabled; `equate controllers` enables \
             it with --feature-gates=ExternalArtifact=true",
            ks.source_kind, ks.source
        );
        return (SourceSeen::Denied(why), None);
    }
    let published = match cx.kit.sources.named(&source) {
        Named::Unlisted(why) => return (SourceSeen::Unlisted(why), None),
        Named::Unserved => return (SourceSeen::Unserved, None),
        Named::Absent => return (SourceSeen::Absent, None),
        Named::Nothing => {
            let generates = ks.source_kind == SourceKind::ExternalArtifact
                && cx.kit.known_mirror::<ArtifactGenerator>().is_some();
            let served = generates || cx.kit.sources.serves_kind(source.kind);
            return (SourceSeen::NoArtifact { served }, None);
        }
        Named::Artifact(found) => *found,
    };
    if cx.kit.sources.serves(&source) {
        cx.kit.artifacts.release(&object_ref(&ks.key));
        let namespace = &ks.key.namespace;
        let digest = &published.artifact.digest;
        return match store::tree(&cx.kit, namespace, &published.publisher, digest).await {
            Ok(None) => (SourceSeen::NotStored, None),
            Ok(Some(tree)) => here(published, tree),
            Err(why) => (SourceSeen::Unlisted(Some(why)), None),
        };
    }
    if ks.deleting {
        // it is no longer built
        cx.kit.artifacts.release(&object_ref(&ks.key));
        return (SourceSeen::NotStored, None);
    }
    fetched(cx, ks, request, published).await
}

async fn fetched(
    cx: &Kustomizations,
    ks: &Declared,
    request: Option<&str>,
    published: SourceArtifact,
) -> (SourceSeen, Option<Artifact>) {
    let SourceArtifact { artifact, publisher } = &published;
    let revision = artifact.revision.clone();
    // a source of another shard may have the artifact of one of this process, and ArtifactGenerators of this
    // process make ExternalArtifacts
    let may_be_stored =
        ks.source_kind == SourceKind::ExternalArtifact || cx.kit.sources.serves_kind(ks.source_kind.as_str());
    if may_be_stored
        && let Ok(Some(tree)) = store::tree(&cx.kit, &ks.key.namespace, publisher, &artifact.digest).await
    {
        cx.kit.artifacts.release(&object_ref(&ks.key));
        return here(published, tree);
    }
    let servers = &cx.kit.settings.policy.artifact_servers;
    if let Err(error) = servers.check(publisher, &artifact.url) {
        cx.kit.artifacts.release(&object_ref(&ks.key));
        let why = error.to_string();
        let gone = false;
        return (SourceSeen::Unfetched { revision, gone, why }, None);
    }
    let ask = ArtifactRequest {
        publisher,
        digest: &artifact.digest,
        url: &artifact.url,
        retry: ks.retry_interval,
        token: request,
    };
    match cx.kit.artifacts.get(&object_ref(&ks.key), ask) {
        ArtifactState::Here(tree) => here(published, tree),
        ArtifactState::Coming(trouble) => {
            let trouble = trouble.as_deref().map(str::to_owned);
            (SourceSeen::Fetching { revision, trouble }, None)
        }
        ArtifactState::Failed(gone, why) => {
            let why = why.as_ref().to_owned();
            (SourceSeen::Unfetched { revision, gone, why }, None)
        }
    }
}

fn here(published: SourceArtifact, tree: Tree) -> (SourceSeen, Option<Artifact>) {
    let equate_api::source::Artifact {
        digest,
        metadata,
        revision,
        ..
    } = published.artifact;
    let seen = SourceSeen::Stored {
        revision: revision.clone(),
    };
    let origin = metadata.get(ORIGIN_REVISION).cloned();
    let revision = Revision { revision, origin };
    let artifact = Artifact {
        revision,
        digest,
        tree,
    };
    (seen, Some(artifact))
}
