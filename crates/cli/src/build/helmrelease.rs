//! `equate build helmrelease`: renders the chart of a HelmRelease, with the controller's code.
//!
//! The chart is a local one, is among the files of its source (a directory, or the git repository in this
//! directory), or is in a directory that stands for its repository or registry. No chart is fetched from a host. Writes nothing but its output, which has values of Secrets in
//! clear text.

use super::RenderError;
use super::output;
use crate::charts;
use crate::connection::{self, ConnectError};
use crate::failure::chain;
use crate::template::TemplateError;
use crate::up::entry::{self, EntryError};
use crate::up::{Repository, RepositoryError};
use equate_api::helm::HelmRelease;
use equate_api::source::{ChartSourceKind, GitRepository, HelmChartSpec, HelmRepository};
use equate_controllers::helm_chart::local;
use equate_controllers::helm_release::offline::{ClusterSeen, Objects, Offline, chart_of};
use equate_controllers::helm_release::values::{self, Holders, ValuesError};
use equate_egress::Egress;
use equate_git::{LocalRepository, Mirrors, OpenError};
use equate_helm::capabilities::{Capabilities, KubeVersion, KubeVersionError};
use equate_helm::{Chart, Limits};
use equate_manifest::object::Object;
use equate_manifest::yaml;
use equate_source::{Ignore, Tree, TreeError};
use kube::Client;
use kube::api::Api;
use serde_json::Value;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use tokio::runtime::Runtime;

const GROUP: &str = "helm.toolkit.fluxcd.io/";
const SOURCES: &str = "source.toolkit.fluxcd.io/";
/// Stands for standard input.
const STDIN: &str = "-";

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Render a release of the cluster with the chart in this git repository
  equate build helmrelease web -n shop
  # Render it with another chart
  equate build helmrelease web -n shop --path ../charts/web
  # Render it without a cluster, with the ConfigMaps and Secrets of the same build
  equate build apps/shop | equate build helmrelease web -n shop --dry-run \\
    --helmrelease-file - --local-sources GitRepository/flux-system/fleet=.")]
pub(crate) struct BuildArgs {
    /// Name of the HelmRelease.
    #[arg(value_name = "NAME")]
    name: String,
    /// Namespace of the HelmRelease.
    #[arg(short, long, default_value = equate_api::meta::DEFAULT_NAMESPACE)]
    namespace: String,
    /// Chart to render instead of that of the source: a directory or a .tgz archive.
    #[arg(long, value_name = "CHART")]
    path: Option<PathBuf>,
    /// Read the HelmRelease from this file instead of the cluster (`-` for standard input); ConfigMaps and Secrets in it come first for `spec.valuesFrom`.
    #[arg(long, value_name = "FILE")]
    helmrelease_file: Option<PathBuf>,
    /// Local directory of the chart's source, such as `GitRepository/flux-system/fleet=.`.
    #[arg(long, value_name = "SOURCE=DIR,...", value_delimiter = ',', value_parser = super::kustomization::local_source)]
    local_sources: Vec<(String, PathBuf)>,
    /// Read charts from the directory DIR instead of the chart repository or registry at URL, such as `https://charts.example.org=../charts` (can be repeated).
    #[arg(long, value_name = "URL=DIR", value_parser = crate::up::substitution)]
    instead_of: Vec<(String, PathBuf)>,
    /// Use no cluster: `lookup` finds nothing, and other ConfigMaps and Secrets of `spec.valuesFrom` are left out; requires --helmrelease-file.
    #[arg(long, requires = "helmrelease_file")]
    dry_run: bool,
    /// Kubernetes version for the chart with --dry-run, such as `1.33` (default: that of Helm).
    #[arg(long, value_name = "VERSION", requires = "dry_run")]
    kube_version: Option<String>,
    /// Additional API versions for the chart with --dry-run, such as `example.org/v1` (can be repeated).
    #[arg(long, value_name = "VERSION,...", value_delimiter = ',', requires = "dry_run")]
    api_versions: Vec<String>,
    /// Leave out hooks.
    #[arg(long)]
    no_hooks: bool,
    #[command(flatten)]
    cluster: connection::Options,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum HelmReleaseError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("failed to read HelmRelease file {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{}:{error}", path.display())]
    Yaml { path: PathBuf, error: yaml::YamlError },
    #[error("{place}: could not decode the HelmRelease")]
    Decode {
        place: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("{place}: could not decode the HelmRepository")]
    DecodeSource {
        place: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("{} has no HelmRelease {name} in namespace {namespace}", path.display())]
    NotInFile {
        name: String,
        namespace: String,
        path: PathBuf,
    },
    #[error("failed to get HelmRelease {namespace}/{name}")]
    Get {
        name: String,
        namespace: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("HelmRelease {namespace}/{name} not found in the cluster")]
    Absent { name: String, namespace: String },
    #[error(
        "HelmRelease {release}: the chart of {source_name} is not in reach: {why}; name a local copy with --path, or \
         the directory of the source with --local-sources or --instead-of"
    )]
    OutOfReach {
        release: String,
        source_name: String,
        why: String,
    },
    #[error("HelmRelease {release}: could not read the chart in {}", path.display())]
    ReadChart {
        release: String,
        path: PathBuf,
        #[source]
        source: Box<ChartReadError>,
    },
    #[error("HelmRelease {release}: {why}")]
    Chart { release: String, why: String },
    #[error("HelmRelease {release}: could not read the chart of {source_name}")]
    StandIn {
        release: String,
        source_name: String,
        #[source]
        source: Box<TemplateError>,
    },
    #[error(transparent)]
    InsteadOf(#[from] EntryError),
    #[error("could not compose the values of HelmRelease {release}")]
    Values {
        release: String,
        #[source]
        source: Box<ValuesError>,
    },
    #[error("invalid Kubernetes version {text:?}")]
    KubeVersion {
        text: String,
        #[source]
        source: KubeVersionError,
    },
    #[error("HelmRelease {release}: {why}")]
    Render { release: String, why: String },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ChartReadError {
    #[error(transparent)]
    File(#[from] std::io::Error),
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error(transparent)]
    Repository(#[from] OpenError),
}

pub(super) fn build(args: &BuildArgs, runtime: &Runtime) -> Result<(), RenderError> {
    let client = match args.dry_run {
        true => None,
        false => {
            let connection = runtime.block_on(args.cluster.connect_and_print());
            Some(connection.map_err(HelmReleaseError::from)?.client)
        }
    };
    let objects = runtime.block_on(render(args, client.as_ref()))?;
    Ok(output::standard(&text(objects, args.no_hooks))?)
}

async fn render(args: &BuildArgs, client: Option<&Client>) -> Result<Objects, HelmReleaseError> {
    let given = match &args.helmrelease_file {
        Some(path) => documents(path)?,
        None => Vec::new(),
    };
    let release = args.release(&given, client).await?;
    let chart = args.chart(&release, &given, client).await?;
    let values = args.values(&release, &given, client).await?;
    let assumed;
    let cluster = match client {
        Some(client) => ClusterSeen::Live(client),
        None => {
            assumed = args.capabilities()?;
            ClusterSeen::Assumed(&assumed)
        }
    };
    let rendering = Offline {
        release: &release,
        chart,
        values: &values,
        cluster,
    };
    rendering.render().await.map_err(|why| HelmReleaseError::Render {
        release: args.called(),
        why,
    })
}

impl BuildArgs {
    fn called(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The HelmRelease of the file, with the status in the cluster; or that of the cluster.
    async fn release(
        &self,
        given: &[(String, Object)],
        client: Option<&Client>,
    ) -> Result<HelmRelease, HelmReleaseError> {
        let (name, namespace) = (self.name.clone(), self.namespace.clone());
        let live = match client {
            None => None,
            Some(client) => {
                let api: Api<HelmRelease> = Api::namespaced(client.clone(), &namespace);
                let found = api.get_opt(&name).await;
                found.map_err(|source| HelmReleaseError::Get {
                    name: name.clone(),
                    namespace: namespace.clone(),
                    source: Box::new(source),
                })?
            }
        };
        let Some(path) = &self.helmrelease_file else {
            return live.ok_or(HelmReleaseError::Absent { name, namespace });
        };
        let is = |object: &Object| {
            object.api_version().starts_with(GROUP)
                && object.kind() == "HelmRelease"
                && object.name() == name
                && ["", namespace.as_str()].contains(&object.namespace())
        };
        let Some((place, object)) = given.iter().find(|(_, object)| is(object)) else {
            let path = path.clone();
            return Err(HelmReleaseError::NotInFile {
                name,
                namespace,
                path,
            });
        };
        let decoded = serde_json::from_value(Value::Object(object.0.clone()));
        let mut release: HelmRelease = decoded.map_err(|source| HelmReleaseError::Decode {
            place: place.clone(),
            source,
        })?;
        release.metadata.namespace = Some(namespace);
        release.status = live.and_then(|live| live.status);
        Ok(release)
    }

    async fn chart(
        &self,
        release: &HelmRelease,
        given: &[(String, Object)],
        client: Option<&Client>,
    ) -> Result<Chart, HelmReleaseError> {
        let template = chart_of(release);
        let failed = |why| HelmReleaseError::Chart {
            release: self.called(),
            why,
        };
        if let Some(path) = &self.path {
            return match (&template, path.is_dir()) {
                (Some(template), true) => {
                    local::of_directory(template, self.directory(path)?).map_err(failed)
                }
                (Some(template), false) => {
                    let bytes = std::fs::read(path);
                    let bytes = bytes.map_err(|error| self.unread(path)(error.into()))?;
                    local::of_archive(template, &bytes).map_err(failed)
                }
                (None, _) => {
                    Chart::from_path(path, &Limits::default()).map_err(|error| failed(chain(&error)))
                }
            };
        }
        let Some(template) = template else {
            let reference = release.spec.chart_ref.as_ref();
            let source = reference.map_or_else(String::new, |reference| {
                let namespace = reference.namespace.as_deref().unwrap_or(&self.namespace);
                format!("{}/{namespace}/{}", reference.kind, reference.name)
            });
            return Err(self.out_of_reach(source, "charts of spec.chartRef are not fetched here".to_owned()));
        };
        let source = &template.spec.source_ref;
        let namespace = template.metadata.namespace.as_deref().unwrap_or_default();
        let key = format!("{}/{namespace}/{}", source.kind, source.name);
        let known = self.local_sources.iter().find(|(source, _)| *source == key);
        let tree = match (known, source.kind) {
            (Some((_, directory)), _) => self.directory(directory)?,
            (None, ChartSourceKind::GitRepository) => {
                self.working_tree(client, namespace, &source.name, &key).await?
            }
            (None, ChartSourceKind::HelmRepository) => {
                let named = (namespace, &*source.name);
                let bytes = self.stand_in(&template.spec, named, given, client).await?;
                return local::of_archive(&template, &bytes).map_err(failed);
            }
            (None, kind) => {
                let why = format!("charts of a {kind} are not fetched here");
                return Err(self.out_of_reach(key, why));
            }
        };
        local::of_source(&template, &tree).map_err(failed)
    }

    /// The archive of a chart of a HelmRepository, from the directory that stands for its URL.
    async fn stand_in(
        &self,
        chart: &HelmChartSpec,
        (namespace, name): (&str, &str),
        given: &[(String, Object)],
        client: Option<&Client>,
    ) -> Result<Vec<u8>, HelmReleaseError> {
        let key = format!("HelmRepository/{namespace}/{name}");
        let out_of_reach = |why: String| self.out_of_reach(key.clone(), why);
        if self.instead_of.is_empty() {
            let why = "charts of a HelmRepository are not fetched here, and no --instead-of is given";
            return Err(out_of_reach(why.to_owned()));
        }
        let egress = entry::instead_of(Egress::default(), &self.instead_of)?;
        let is = |object: &Object| {
            object.api_version().starts_with(SOURCES)
                && object.kind() == "HelmRepository"
                && object.name() == name
                && ["", namespace].contains(&object.namespace())
        };
        let repository: HelmRepository = match (given.iter().find(|(_, object)| is(object)), client) {
            (Some((place, object)), _) => {
                let decoded = serde_json::from_value(Value::Object(object.0.clone()));
                decoded.map_err(|source| HelmReleaseError::DecodeSource {
                    place: place.clone(),
                    source,
                })?
            }
            (None, Some(client)) => {
                let found = Api::namespaced(client.clone(), namespace).get(name).await;
                found.map_err(|error| out_of_reach(format!("cannot read it: {}", chain(&error))))?
            }
            (None, None) => {
                let why = "its URL is not known without a cluster, and the file does not have it";
                return Err(out_of_reach(why.to_owned()));
            }
        };
        let (url, version) = (&repository.spec.url, chart.version.as_deref().unwrap_or_default());
        let found = charts::stand_in(&egress, url, &chart.chart, version).await;
        let found = found.map_err(|source| HelmReleaseError::StandIn {
            release: self.called(),
            source_name: key.clone(),
            source: source.into(),
        })?;
        found.ok_or_else(|| out_of_reach(format!("its URL is {url}, and no --instead-of stands for it")))
    }

    fn directory(&self, path: &Path) -> Result<Tree, HelmReleaseError> {
        let tree = Tree::from_directory(path, &Ignore::new(None), &equate_source::Limits::default());
        tree.map_err(|error| self.unread(path)(error.into()))
    }

    /// The files of the repository in this directory, if the GitRepository has its URL.
    async fn working_tree(
        &self,
        client: Option<&Client>,
        namespace: &str,
        name: &str,
        key: &str,
    ) -> Result<Tree, HelmReleaseError> {
        let out_of_reach = |why: String| self.out_of_reach(key.to_owned(), why);
        let Some(client) = client else {
            return Err(out_of_reach("its URL is not known without a cluster".to_owned()));
        };
        let here = Path::new(".");
        let found: Result<Repository, RepositoryError> = Repository::choose(".", None);
        let repository = found.map_err(|error| out_of_reach(chain(&error)))?;
        let local = LocalRepository::discover(here).map_err(|error| out_of_reach(chain(&error)))?;
        let api: Api<GitRepository> = Api::namespaced(client.clone(), namespace);
        let source = api.get(name).await;
        let source = source.map_err(|error| out_of_reach(format!("cannot read it: {}", chain(&error))))?;
        // the same comparison of URLs as for `--instead-of` in the controllers
        let mirrors = Mirrors::new(PathBuf::new(), equate_git::Limits::default());
        let mirrors = mirrors.instead_of(&repository.url, &local.root);
        if mirrors.substitute(&source.spec.url).is_none() {
            return Err(out_of_reach(format!(
                "its URL is {}, and that of the repository in this directory is {}",
                source.spec.url, repository.url
            )));
        }
        let unread = self.unread(&local.root);
        let files = local.files().map_err(|error| unread(error.into()))?;
        let ignore = Ignore::new(source.spec.ignore.as_deref());
        let tree = Tree::from_files(&local.root, &files, &ignore, &equate_source::Limits::default());
        tree.map_err(|error| self.unread(&local.root)(error.into()))
    }

    fn out_of_reach(&self, source_name: String, why: String) -> HelmReleaseError {
        HelmReleaseError::OutOfReach {
            release: self.called(),
            source_name,
            why,
        }
    }

    fn unread(&self, path: &Path) -> impl Fn(ChartReadError) -> HelmReleaseError {
        let (release, path) = (self.called(), path.to_owned());
        move |source| HelmReleaseError::ReadChart {
            release: release.clone(),
            path: path.clone(),
            source: Box::new(source),
        }
    }

    async fn values(
        &self,
        release: &HelmRelease,
        given: &[(String, Object)],
        client: Option<&Client>,
    ) -> Result<values::Composed, HelmReleaseError> {
        let given: Vec<Object> = given.iter().map(|(_, object)| object.clone()).collect();
        let holders = Holders {
            given: &given,
            client,
        };
        let mut references = release.spec.values_from.clone();
        if self.dry_run {
            references.retain(|reference| {
                let gives = holders.gives(&self.namespace, reference);
                if !gives {
                    eprintln!(
                        "warning: HelmRelease {}: the values of {} {} are left out: no cluster is used, and the file does not have it",
                        self.called(),
                        reference.kind,
                        reference.name
                    );
                }
                gives
            });
        }
        let inline = release.spec.values.as_ref();
        let composed = values::compose(holders, &self.namespace, inline, &references).await;
        composed.map_err(|source| HelmReleaseError::Values {
            release: self.called(),
            source: Box::new(source),
        })
    }

    fn capabilities(&self) -> Result<Capabilities, HelmReleaseError> {
        let mut capabilities = Capabilities::default();
        if let Some(text) = &self.kube_version {
            let version = text.parse::<KubeVersion>();
            capabilities.kube_version = version.map_err(|source| HelmReleaseError::KubeVersion {
                text: text.clone(),
                source,
            })?;
        }
        capabilities.api_versions.extend(self.api_versions.clone());
        Ok(capabilities)
    }
}

/// The objects of a file, each with its place.
fn documents(path: &Path) -> Result<Vec<(String, Object)>, HelmReleaseError> {
    let mut text = String::new();
    let read = match path == Path::new(STDIN) {
        true => std::io::stdin().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(path).map(|read| text = read),
    };
    read.map_err(|source| HelmReleaseError::Read {
        path: path.to_owned(),
        source,
    })?;
    let loaded = yaml::load(&text, &yaml::Options::default());
    let loaded = loaded.map_err(|error| HelmReleaseError::Yaml {
        path: path.to_owned(),
        error,
    })?;
    let objects = loaded.into_iter().filter_map(|document| {
        let place = format!("{}:{}", path.display(), document.place.line);
        Some((place, Object::from_value(document.value)?))
    });
    Ok(objects.collect())
}

/// In the format of `equate build kustomization`.
fn text(objects: Objects, no_hooks: bool) -> String {
    let Objects {
        definitions,
        held,
        hooks,
    } = objects;
    let hooks = hooks.into_iter().filter(|_| !no_hooks);
    let all = definitions.into_iter().chain(held).chain(hooks);
    all.map(|object| yaml::to_string(&object.into_value()) + "---\n")
        .collect()
}

#[cfg(test)]
mod tests;
