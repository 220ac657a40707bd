//! Finds the file and line that declare an object: in the working tree, or in a reachable artifact.
//!
//! Builds the Kustomization as its controller does, without remote bases and decryption.

use crate::diagnosis::Reader;
use crate::failure::chain;
use crate::kinds::Kinds;
use crate::objects::{self, RequestError};
use crate::up::Repository;
use equate_api::kustomize::Kustomization;
use equate_apply::id::ObjectId;
use equate_controllers::kustomization::declared::Declared;
use equate_controllers::kustomization::inputs::substitute_from;
use equate_controllers::kustomization::inputs::tree::Content;
use equate_git::{LocalRepository, Mirrors};
use equate_manifest::object::Object;
use equate_source::{Ignore, Limits, Tree};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of an artifact that is fetched for one line of text.
const ARTIFACT_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `apps/web.yaml:3`, and the place of the file.
    File { place: String, of: String },
    /// The reason.
    Unknown(String),
}

/// The file of an object and the object in it, by the Kustomization that applies it.
pub(super) async fn find(
    reader: &Reader,
    kinds: &Kinds,
    kustomization: &Kustomization,
    id: &ObjectId,
    directory: &Path,
) -> (Origin, Option<Object>) {
    match look(reader, kinds, kustomization, id, directory).await {
        Ok((place, of, object)) => (Origin::File { place, of }, Some(object)),
        Err(reason) => (Origin::Unknown(reason), None),
    }
}

async fn look(
    reader: &Reader,
    kinds: &Kinds,
    kustomization: &Kustomization,
    id: &ObjectId,
    directory: &Path,
) -> Result<(String, String, Object), String> {
    let source = source(reader, kinds, kustomization).await?;
    let here = working_tree(&source, directory);
    let (tree, of) = match here {
        Ok(tree) => (tree, "the working tree".to_owned()),
        Err(why_not) => {
            let revision = source.revision.as_deref().unwrap_or_default();
            let tree = artifact(&source)
                .await
                .map_err(|error| format!("{why_not}; {error}"))?;
            (tree, format!("the artifact {revision} of {}", source.called))
        }
    };
    let declared = Declared::from(kustomization);
    let mut spec = declared.build;
    if let Some(substitution) = &mut spec.substitute {
        let namespace = kustomization.metadata.namespace.as_deref().unwrap_or_default();
        let client = reader.client().clone();
        let read = substitute_from::read(&client, namespace, &declared.substitute_from, None, None).await;
        let read = read.map_err(|error| format!("cannot read its variables: {}", chain(&error)))?;
        substitution.variables = read.under(&substitution.variables);
    }
    let build = move || equate_kustomize::build(&Content(tree), &spec);
    let built = tokio::task::spawn_blocking(build).await;
    let built = built
        .map_err(|error| format!("the build ended early: {error}"))?
        .map_err(|error| format!("{of} cannot be built here: {}", chain(&error)))?;
    let found = built.objects.into_iter().find(|resource| {
        let declared = ObjectId::of(&resource.object);
        declared.group == id.group
            && declared.kind == id.kind
            && declared.name == id.name
            && (declared.namespace == id.namespace || declared.namespace.is_empty())
    });
    let found = found.ok_or_else(|| format!("{of} does not declare it"))?;
    let place = format!("{}:{}", found.origin.path, found.origin.line);
    Ok((place, of, found.object))
}

struct Source {
    called: String,
    git_url: Option<String>,
    ignore: Option<String>,
    artifact_url: Option<String>,
    revision: Option<String>,
    digest: Option<String>,
}

async fn source(reader: &Reader, kinds: &Kinds, kustomization: &Kustomization) -> Result<Source, String> {
    let reference = &kustomization.spec.source_ref;
    let own = kustomization.metadata.namespace.as_deref().unwrap_or_default();
    let namespace = reference.namespace.as_deref().unwrap_or(own);
    let called = format!("{}/{namespace}/{}", reference.kind, reference.name);
    let kind = kinds
        .named(&reference.kind.to_string())
        .ok_or_else(|| format!("{called} is of an unknown kind"))?;
    let found = objects::get(reader.client(), kind, namespace, &reference.name).await;
    let found = found.map_err(|error: RequestError| chain(&error))?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let (spec, artifact) = (&found.data["spec"], &found.data["status"]["artifact"]);
    Ok(Source {
        git_url: text(&spec["url"]).filter(|_| kind.kind == "GitRepository"),
        ignore: text(&spec["ignore"]),
        artifact_url: text(&artifact["url"]),
        revision: text(&artifact["revision"]),
        digest: text(&artifact["digest"]),
        called,
    })
}

/// The files of the repository around this directory, if the source reads it.
fn working_tree(source: &Source, directory: &Path) -> Result<Tree, String> {
    let Some(url) = &source.git_url else {
        return Err(format!("{} has no working tree", source.called));
    };
    let elsewhere = || format!("{} is not in a working tree of {url}", directory.display());
    let repository =
        Repository::choose(&directory.to_string_lossy(), None).map_err(|_not_here| elsewhere())?;
    let local = LocalRepository::discover(directory).map_err(|_not_here| elsewhere())?;
    let here =
        Mirrors::new(PathBuf::new(), equate_git::Limits::default()).instead_of(&repository.url, &local.root);
    if here.substitute(url).is_none() {
        return Err(elsewhere());
    }
    let files = local.files().map_err(|error| chain(&error))?;
    let ignore = Ignore::new(source.ignore.as_deref());
    Tree::from_files(&local.root, &files, &ignore, &Limits::default()).map_err(|error| chain(&error))
}

async fn artifact(source: &Source) -> Result<Tree, String> {
    let Some(url) = &source.artifact_url else {
        return Err(format!("{} has no artifact", source.called));
    };
    let unreachable = |error: String| format!("the artifact of {} is not reachable: {error}", source.called);
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(FETCH_TIMEOUT)
        .no_proxy()
        .build()
        .map_err(|error| unreachable(chain(&error)))?;
    let answer = client.get(url).send().await;
    let answer = answer.and_then(reqwest::Response::error_for_status);
    let mut answer = answer.map_err(|error| unreachable(chain(&error.without_url())))?;
    let mut bytes = Vec::new();
    while let Some(chunk) = answer
        .chunk()
        .await
        .map_err(|error| unreachable(chain(&error.without_url())))?
    {
        bytes.extend_from_slice(&chunk);
        if bytes.len() as u64 > ARTIFACT_BYTES_MAX {
            return Err(unreachable(format!(
                "it is larger than {ARTIFACT_BYTES_MAX} bytes"
            )));
        }
    }
    let digest = format!(
        "sha256:{}",
        hex(ring::digest::digest(&ring::digest::SHA256, &bytes).as_ref())
    );
    if source.digest.as_ref().is_some_and(|expected| *expected != digest) {
        return Err(unreachable(
            "its digest differs from that in the status".to_owned(),
        ));
    }
    let unpack = move || Tree::from_archive(bytes.as_slice(), &Limits::default());
    let unpacked = tokio::task::spawn_blocking(unpack).await;
    unpacked
        .map_err(|error| unreachable(error.to_string()))?
        .map_err(|error| unreachable(chain(&error)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
