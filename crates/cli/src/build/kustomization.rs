//! `equate build kustomization`: builds a Flux Kustomization from a local directory.
//!
//! Reads the Kustomization from the cluster or a file; the directory replaces `spec.path` of its source.
//! `equate diff kustomization` builds in the same way.

use super::disk::{Disk, tree_path};
use super::fetch::{self, Fetcher};
use super::mask::{self, MaskError};
use super::output;
use super::{RenderError, print_notes, warn};
use crate::connection::{self, ConnectError};
use equate_api::kustomize::Kustomization;
use equate_controllers::kustomization::declared::Declared;
use equate_controllers::kustomization::inputs::substitute_from::{self, ValuesError};
use equate_kustomize::{Built, EntryKind, Loaders, ReadError, Remotes, Resource, Stat, build_with};
use equate_manifest::object::Object;
use equate_manifest::yaml;
use equate_source::{Ignore, Tree, TreeError};
use kube::Client;
use kube::api::Api;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use tokio::runtime::Runtime;

/// The API group of Flux's Kustomizations and of their owner labels.
const GROUP: &str = "kustomize.toolkit.fluxcd.io";
/// The API group of kustomize's own files, which are not applied.
const FILES_GROUP: &str = "kustomize.config.k8s.io/";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the Kustomization.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Namespace of the Kustomization.
    #[arg(short, long, default_value = equate_api::meta::DEFAULT_NAMESPACE)]
    pub(crate) namespace: String,
    /// Read the Kustomization from this file instead of the cluster.
    #[arg(long, value_name = "FILE", requires = "path")]
    pub(crate) kustomization_file: Option<PathBuf>,
    /// Files to ignore if the directory has no kustomization file, as in .gitignore, such as `docs/,*.tmp.yaml`.
    #[arg(long, value_name = "PATTERN,...", value_delimiter = ',', requires = "path")]
    pub(crate) ignore_paths: Vec<String>,
    /// Fail if a `postBuild` variable has neither a value nor a default.
    #[arg(long, requires = "path")]
    pub(crate) strict_substitute: bool,
    /// Include the Kustomizations among the built objects; their sources need --local-sources.
    #[arg(short, long, requires = "path")]
    pub(crate) recursive: bool,
    /// Local directory of a source, for --recursive, such as `GitRepository/flux-system/fleet=.`.
    #[arg(long, value_name = "SOURCE=DIR,...", value_delimiter = ',', value_parser = local_source, requires = "path")]
    pub(crate) local_sources: Vec<(String, PathBuf)>,
    #[command(flatten)]
    pub(crate) cluster: connection::Options,
    #[command(flatten)]
    pub(crate) fetch: fetch::FetchOptions,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Build a local directory with the Kustomization of the cluster
  equate build kustomization apps --path apps/dev
  # Build it without a cluster
  equate build kustomization apps --path apps/dev --kustomization-file clusters/dev/apps.yaml --dry-run
  # Include the Kustomizations that it contains
  equate build kustomization flux-system --path clusters/dev \\
    --recursive --local-sources GitRepository/flux-system/flux-system=.")]
pub(crate) struct BuildArgs {
    #[command(flatten)]
    common: Args,
    /// Local directory to build instead of `spec.path` of the Kustomization.
    #[arg(long, value_name = "DIR")]
    path: PathBuf,
    /// Use no cluster, and ignore `postBuild.substituteFrom`; requires --kustomization-file.
    #[arg(long, requires = "kustomization_file")]
    dry_run: bool,
}

pub(super) fn local_source(text: &str) -> Result<(String, PathBuf), String> {
    let parts = text.split_once('=').filter(|(source, directory)| {
        source.split('/').filter(|part| !part.is_empty()).count() == 3 && !directory.is_empty()
    });
    let (source, directory) =
        parts.ok_or("expected KIND/NAMESPACE/NAME=DIR, such as GitRepository/flux-system/fleet=.")?;
    Ok((source.to_owned(), directory.into()))
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum KustomizationError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("invalid resource path {path:?}: not a directory")]
    Path { path: PathBuf },
    #[error("failed to read kustomization file {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{}:{error}", path.display())]
    Yaml { path: PathBuf, error: yaml::YamlError },
    #[error("{place}: could not decode the Kustomization")]
    Decode {
        place: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("failed to find kustomization with name '{name}' and namespace '{namespace}' in file '{}'", path.display())]
    NotInFile {
        name: String,
        namespace: String,
        path: PathBuf,
    },
    #[error("failed to get kustomization object {namespace}/{name}")]
    Get {
        name: String,
        namespace: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("Kustomization {namespace}/{name} not found in the cluster")]
    Absent { name: String, namespace: String },
    #[error(transparent)]
    Variables(#[from] ValuesError),
    #[error("{kustomization}: {field} is not supported yet")]
    Unsupported {
        kustomization: String,
        field: &'static str,
    },
    #[error("could not read {}", path.display())]
    Ignore {
        path: PathBuf,
        #[source]
        source: TreeError,
    },
    #[error(transparent)]
    Mask(#[from] MaskError),
    #[error(
        "cannot get local path for {sources} of kustomization {name}: set it with --local-sources {sources}=DIR"
    )]
    NoLocalSource { sources: String, name: String },
}

pub(crate) struct Renderer<'a> {
    args: &'a Args,
    runtime: &'a Runtime,
    /// None if no cluster is used.
    client: Option<Client>,
    fetcher: Option<Fetcher>,
    here: PathBuf,
}

impl<'a> Renderer<'a> {
    pub(crate) fn new(
        args: &'a Args,
        path: &Path,
        client: Option<Client>,
        runtime: &'a Runtime,
    ) -> Result<Self, RenderError> {
        if !path.is_dir() {
            return Err(KustomizationError::Path {
                path: path.to_owned(),
            }
            .into());
        }
        Ok(Self {
            args,
            runtime,
            client,
            fetcher: args.fetch.fetcher(runtime.handle())?,
            here: std::env::current_dir().map_err(RenderError::Here)?,
        })
    }

    /// The selected Kustomization: from the file, with the status in the cluster; or from the cluster.
    pub(crate) fn named(&self) -> Result<Kustomization, KustomizationError> {
        let Args { name, namespace, .. } = self.args;
        let live = self.live(name, namespace)?;
        let Some(file) = &self.args.kustomization_file else {
            return live.ok_or_else(|| KustomizationError::Absent {
                name: name.clone(),
                namespace: namespace.clone(),
            });
        };
        let mut found = read(file, name, namespace)?;
        found.status = live.and_then(|live| live.status);
        Ok(found)
    }

    pub(crate) fn live(
        &self,
        name: &str,
        namespace: &str,
    ) -> Result<Option<Kustomization>, KustomizationError> {
        let Some(client) = &self.client else {
            return Ok(None);
        };
        let api: Api<Kustomization> = Api::namespaced(client.clone(), namespace);
        let found = self.runtime.block_on(api.get_opt(name));
        found.map_err(|source| KustomizationError::Get {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            source: Box::new(source),
        })
    }

    /// Builds the objects: with variables, without masks and owner labels.
    pub(crate) fn render(
        &self,
        kustomization: &Kustomization,
        directory: &Path,
    ) -> Result<Vec<Resource>, RenderError> {
        let declared = Declared::from(kustomization);
        let mut spec = declared.build;
        if !kustomization.spec.ignore.is_empty() {
            return Err(KustomizationError::Unsupported {
                kustomization: spec.owner,
                field: "spec.ignore",
            }
            .into());
        }
        if let Some(substitution) = &mut spec.substitute {
            substitution.strict = self.args.strict_substitute;
            if let Some(client) = &self.client {
                let namespace = kustomization.metadata.namespace.as_deref().unwrap_or("default");
                let read = substitute_from::read(client, namespace, &declared.substitute_from, None, None);
                let read = self.runtime.block_on(read).map_err(KustomizationError::from)?;
                substitution.variables = read.under(&substitution.variables);
            }
        }
        let directory = self.here.join(directory);
        spec.path = tree_path(&directory);
        let loaders = Loaders {
            remotes: self.fetcher.as_ref().map(|fetcher| fetcher as &dyn Remotes),
            ..Loaders::default()
        };
        let disk = Disk::new(spec.limits.file_bytes_max);
        let tree = Kept {
            kept: self.kept(&directory)?,
            directory: clean(&spec.path),
            disk,
        };
        let built = build_with(&tree, &spec, loaders).map_err(|error| {
            print_notes(&error.warnings);
            error.with_paths_relative_to(&tree_path(&self.here))
        })?;
        warn(&built);
        let Built { mut objects, .. } = built;
        objects.retain(|resource| is_applied(&resource.object));
        Ok(objects)
    }

    /// The Kustomizations among the objects, each with the directory of its source.
    pub(crate) fn nested(
        &self,
        objects: &[Resource],
    ) -> Result<Vec<(Kustomization, PathBuf)>, KustomizationError> {
        let among = objects.iter().map(|resource| &resource.object).filter(|object| {
            let group = object.api_version().split('/').next();
            object.kind() == "Kustomization" && group == Some(GROUP)
        });
        among
            .map(|object| {
                let value = Value::Object(object.0.clone());
                let place = format!("{}/{}", object.namespace(), object.name());
                let found: Kustomization = serde_json::from_value(value)
                    .map_err(|source| KustomizationError::Decode { place, source })?;
                let directory = self.local_source(&found)?;
                Ok((found, directory))
            })
            .collect()
    }

    fn local_source(&self, kustomization: &Kustomization) -> Result<PathBuf, KustomizationError> {
        let source = &kustomization.spec.source_ref;
        let namespace = source
            .namespace
            .as_deref()
            .or(kustomization.metadata.namespace.as_deref());
        let key = format!(
            "{}/{}/{}",
            source.kind.as_str(),
            namespace.unwrap_or_default(),
            source.name
        );
        let found = self.args.local_sources.iter().find(|(source, _)| *source == key);
        let (_, directory) = found.ok_or_else(|| KustomizationError::NoLocalSource {
            sources: key,
            name: kustomization.metadata.name.clone().unwrap_or_default(),
        })?;
        let path = kustomization.spec.path.as_deref().unwrap_or_default();
        Ok(directory.join(path.trim_start_matches('/')))
    }

    /// The files that `--ignore-paths` keeps; none without patterns.
    fn kept(&self, directory: &Path) -> Result<Option<Tree>, KustomizationError> {
        if self.args.ignore_paths.is_empty() {
            return Ok(None);
        }
        let ignore = Ignore::new(Some(&self.args.ignore_paths.join("\n")));
        let kept = Tree::from_directory(directory, &ignore, &equate_source::Limits::default());
        kept.map(Some).map_err(|source| KustomizationError::Ignore {
            path: directory.to_owned(),
            source,
        })
    }
}

pub(super) fn build(args: &BuildArgs, runtime: &Runtime) -> Result<(), RenderError> {
    let BuildArgs {
        common,
        path,
        dry_run,
    } = args;
    let client = match dry_run {
        true => None,
        false => {
            let connection = runtime.block_on(common.cluster.connect_and_print());
            Some(connection.map_err(KustomizationError::from)?.client)
        }
    };
    let renderer = Renderer::new(common, path, client, runtime)?;
    let named = renderer.named()?;
    let mut text = String::new();
    let mut seen = HashSet::new();
    let mut left = vec![(named, path.clone())];
    while let Some((kustomization, directory)) = left.pop() {
        let key = (
            kustomization.metadata.namespace.clone(),
            kustomization.metadata.name.clone(),
        );
        if !seen.insert(key) {
            continue;
        }
        let objects = renderer.render(&kustomization, &directory)?;
        if common.recursive {
            for (nested, directory) in renderer.nested(&objects)?.into_iter().rev() {
                let name = nested.metadata.name.clone().unwrap_or_default();
                let namespace = nested.metadata.namespace.clone().unwrap_or_default();
                // like Flux, builds the spec that runs in the cluster
                let live = renderer.live(&name, &namespace)?;
                left.push((live.unwrap_or(nested), directory));
            }
        }
        for resource in objects {
            text.push_str(&document(resource.object, &kustomization)?);
        }
    }
    Ok(output::standard(&text)?)
}

/// Masks SOPS-encrypted values in Secrets; returns the Secrets' names.
pub(crate) fn mask_secrets(objects: &mut [Resource]) -> Result<HashSet<String>, KustomizationError> {
    let mut hidden = HashSet::new();
    for resource in objects {
        let before = resource.object.clone();
        mask::mask(&mut resource.object)?;
        if resource.object != before {
            hidden.insert(resource.object.name().to_owned());
        }
    }
    Ok(hidden)
}

fn document(mut object: Object, owner: &Kustomization) -> Result<String, KustomizationError> {
    label(&mut object, owner);
    mask::mask(&mut object)?;
    Ok(yaml::to_string(&object.into_value()) + "---\n")
}

/// Adds the owner labels; labels set by the Kustomization win.
fn label(object: &mut Object, owner: &Kustomization) {
    let meta = &owner.metadata;
    let common = owner.spec.common_metadata.as_ref().map(|common| &common.labels);
    let labels: BTreeMap<String, Option<&String>> = [("name", &meta.name), ("namespace", &meta.namespace)]
        .into_iter()
        .map(|(field, value)| (format!("{GROUP}/{field}"), value.as_ref()))
        .filter(|(key, _)| !common.is_some_and(|common| common.contains_key(key)))
        .collect();
    let metadata = object
        .0
        .entry("metadata")
        .or_insert_with(|| Value::Object(Default::default()));
    if let Some(map) = metadata.as_object_mut() {
        let known = map.entry("labels").or_insert(Value::Null);
        if known.is_null() {
            *known = Value::Object(Default::default());
        }
        if let Some(known) = known.as_object_mut() {
            for (key, value) in labels {
                known.insert(key, value.map_or("", String::as_str).into());
            }
        }
    }
}

/// Whether an object is applied: kustomize's own files and unnamed objects are not.
fn is_applied(object: &Object) -> bool {
    let own =
        object.kind().eq_ignore_ascii_case("kustomization") && object.api_version().starts_with(FILES_GROUP);
    !own && !object.name().is_empty() && !object.kind().is_empty() && !object.api_version().is_empty()
}

fn read(path: &Path, name: &str, namespace: &str) -> Result<Kustomization, KustomizationError> {
    let text = std::fs::read_to_string(path).map_err(|source| KustomizationError::Read {
        path: path.to_owned(),
        source,
    })?;
    let documents =
        yaml::load(&text, &yaml::Options::default()).map_err(|error| KustomizationError::Yaml {
            path: path.to_owned(),
            error,
        })?;
    for document in documents {
        let at = |field: &str| {
            document
                .value
                .pointer(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let wanted = at("/apiVersion").starts_with(&format!("{GROUP}/"))
            && at("/kind") == "Kustomization"
            && at("/metadata/name") == name
            && ["", namespace].contains(&at("/metadata/namespace"));
        if !wanted {
            continue;
        }
        let place = format!("{}:{}", path.display(), document.place.line);
        return serde_json::from_value(document.value)
            .map_err(|source| KustomizationError::Decode { place, source });
    }
    Err(KustomizationError::NotInFile {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        path: path.to_owned(),
    })
}

/// The file system, where listing one directory shows only the kept files.
struct Kept {
    kept: Option<Tree>,
    directory: String,
    disk: Disk,
}

/// The path without `.`, `..` and empty segments.
fn clean(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            other => segments.push(other),
        }
    }
    segments.join("/")
}

impl equate_kustomize::Tree for Kept {
    fn stat(&self, path: &str) -> Option<Stat> {
        self.disk.stat(path)
    }

    fn list(&self, dir: &str) -> Option<Vec<(String, Stat)>> {
        let mut entries = self.disk.list(dir)?;
        let below = dir
            .strip_prefix(&self.directory)
            .map(|below| below.trim_start_matches('/'));
        if let (Some(kept), Some(below)) = (&self.kept, below) {
            entries.retain(|(name, stat)| {
                let path = format!("{below}/{name}");
                stat.kind != EntryKind::File || kept.entry(path.trim_start_matches('/')).is_some()
            });
        }
        Some(entries)
    }

    fn read(&self, path: &str) -> Result<bytes::Bytes, ReadError> {
        self.disk.read(path)
    }
}
