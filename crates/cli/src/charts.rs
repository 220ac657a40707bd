//! Renders the charts of a kustomization in process.
//!
//! Connects the kustomize crate to the helm crate; neither knows the other. The build has checked where the
//! files of a chart may be. No helm program runs, no cluster is read, and `lookup` finds nothing. Controllers
//! do not use this: Flux renders no `helmCharts`.
//!
//! Charts that are not in the tree come from directories of this machine (`--instead-of`). Refuses charts that
//! would have to be fetched from a host, and everything that Helm refuses, with Helm's text.

use crate::template::{self, NAME_DEFAULT, TemplateError, world::SystemWorld};
use bytes::Bytes;
use equate_controllers::chart_fetch::{ChartRepository, fetch_from_registry, registries};
use equate_egress::Egress;
use equate_helm::cache::Cache;
use equate_helm::capabilities::{Capabilities, KubeVersion};
use equate_helm::engine::{Bounds, Release};
use equate_helm::listing::{self, Choices};
use equate_helm::package::Package;
use equate_helm::render::{self, Request};
use equate_helm::values::UserValues;
use equate_helm::{File, Limits, Values, dependencies, release};
use equate_kustomize::{Chart, ChartError, Charts};
use equate_registry::{Access, Repository};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::runtime::Handle;

/// The time to read a chart of a directory.
const READ_MAX: Duration = Duration::from_secs(120);

/// Renders the charts of a build. The fields are defaults for charts that do not set them.
#[derive(Debug, Default)]
pub(crate) struct Renderer {
    /// Kubernetes version; empty for Helm's default.
    pub(crate) kube_version: String,
    pub(crate) api_versions: Vec<String>,
    /// Whether the error of a chart that fails includes its output.
    pub(crate) debug: bool,
    /// Parsed templates: one chart may be rendered several times.
    pub(crate) cache: Cache,
    /// Stops every render when set.
    pub(crate) stop: Option<Arc<AtomicBool>>,
    /// Directories that stand for places of charts.
    pub(crate) directories: Option<Directories>,
}

/// Directories of this machine that stand for repositories and registries of charts (`--instead-of`).
#[derive(Debug)]
pub(crate) struct Directories {
    pub(crate) egress: Egress,
    pub(crate) runtime: Handle,
}

/// The archive of a chart of a repository or registry, from the directory that stands for its URL, as a cluster
/// of `equate up` reads it. `None` if there is no such directory.
pub(crate) async fn stand_in(
    egress: &Egress,
    repo: &str,
    name: &str,
    version: &str,
) -> Result<Option<Vec<u8>>, TemplateError> {
    let Some(registry) = repo.strip_prefix("oci://") else {
        if egress.substitutes().find(repo).is_none() {
            return Ok(None);
        }
        let repository = ChartRepository::new(repo).with_egress(egress.clone());
        return Ok(Some(repository.fetch(name, version).await?));
    };
    let reference = format!("{}/{name}", registry.trim_end_matches('/'));
    // no directory stands for a URL that is none, and an error would show a password in it
    let Ok(repository) = Repository::parse(&reference) else {
        return Ok(None);
    };
    let registries = registries(egress.clone());
    if registries.substitute(&repository).is_none() {
        return Ok(None);
    }
    let opened = registries.open(repository, Access::new("", READ_MAX));
    let remote = opened.map_err(|error| TemplateError::RegistryChart(Box::new(error.into())))?;
    let fetched = fetch_from_registry(&remote, None, version).await;
    Ok(Some(
        fetched.map_err(|error| TemplateError::RegistryChart(error.into()))?,
    ))
}

#[derive(Debug, thiserror::Error)]
#[error(
    "chart {name} of {repo} is not in {directory}, and charts are not fetched yet; \
     fetch it with `{pull}`",
    pull = self.pull()
)]
struct ChartNotLocal {
    name: String,
    version: String,
    /// Without credentials.
    repo: String,
    directory: String,
}

impl ChartNotLocal {
    fn pull(&self) -> String {
        let Self {
            name,
            version,
            repo,
            directory,
        } = self;
        let home = directory.strip_suffix(&format!("/{name}")).unwrap_or(directory);
        let chart = match repo.starts_with("oci://") {
            true => format!("{}/{name}", repo.trim_end_matches('/')),
            false => format!("--repo {repo} {name}"),
        };
        let version = match version.as_str() {
            "" => String::new(),
            version => format!(" --version {version}"),
        };
        format!("helm pull {chart}{version} --untar --untardir {home}")
    }
}

impl Charts for Renderer {
    fn fetch(&self, chart: &Chart) -> Result<BTreeMap<String, Bytes>, ChartError> {
        if let Some(Directories { egress, runtime }) = &self.directories {
            let found = runtime.block_on(stand_in(egress, &chart.repo, &chart.name, &chart.version))?;
            if let Some(archive) = found {
                let package = Package::from_archive(&archive, &Limits::default())?;
                let files = package.files().iter();
                return Ok(files
                    .map(|file| (file.name.to_string(), Bytes::copy_from_slice(&file.data)))
                    .collect());
            }
        }
        Err(Box::new(ChartNotLocal {
            name: chart.name.clone(),
            version: chart.version.clone(),
            repo: chart.repo_shown(),
            directory: chart.directory.clone(),
        }))
    }

    fn render(&self, chart: &Chart) -> Result<String, ChartError> {
        Ok(self.text(chart)?)
    }
}

impl Renderer {
    fn text(&self, asked: &Chart) -> Result<String, TemplateError> {
        let capabilities = self.capabilities(asked)?;
        let release = release(asked)?;
        let values = values(asked)?;
        let chart = chart(asked)?;
        release::check_name(&release.name)
            .map_err(|error| TemplateError::Name(release.name.clone(), error))?;
        let request = Request {
            chart: &chart,
            values: &values,
            release: &release,
            capabilities: &capabilities,
            skip_schema: false,
            subchart_notes: false,
        };
        let bounds = Bounds {
            stop: self.stop.clone(),
            ..Bounds::default()
        };
        let rendered = render::render(request, &self.cache, Box::new(SystemWorld::new(None)?), bounds);
        let rendered = rendered.map_err(|error| self.refused(asked, error))?;
        let crds = match asked.include_crds {
            true => listing::crds(&rendered.chart),
            false => Vec::new(),
        };
        let choices = Choices {
            no_hooks: asked.skip_hooks,
            skip_tests: asked.skip_tests,
            show_only: Vec::new(),
        };
        Ok(listing::text(&crds, &rendered.sorted, &choices)?)
    }

    fn capabilities(&self, asked: &Chart) -> Result<Capabilities, TemplateError> {
        let mut capabilities = Capabilities::default();
        let text = match asked.kube_version.as_str() {
            "" => &self.kube_version,
            text => text,
        };
        if !text.is_empty() {
            let version = text.parse::<KubeVersion>();
            capabilities.kube_version = version.map_err(|source| TemplateError::KubeVersion {
                text: text.to_owned(),
                source,
            })?;
        }
        let more = match asked.api_versions.is_empty() {
            true => &self.api_versions,
            false => &asked.api_versions,
        };
        let more = more.iter().flat_map(|versions| versions.split(','));
        capabilities.api_versions.extend(more.map(str::to_owned));
        Ok(capabilities)
    }

    fn refused(&self, asked: &Chart, error: render::Error) -> TemplateError {
        if error.is_stopped() {
            return TemplateError::Late {
                error: Box::new(error),
                option: "--helm-timeout",
            };
        }
        let mut more = Cow::Borrowed("");
        if let (true, render::Error::Manifest(unsorted)) = (self.debug || asked.debug, &error) {
            let files = unsorted.texts.files.iter().map(|(path, text)| (&**path, &**text));
            match listing::unsorted(files, &Choices::default()) {
                Ok(shown) => more = format!("\n{}", shown.trim_end()).into(),
                Err(error) => return error.into(),
            }
        }
        TemplateError::Render(Box::new(error), more)
    }
}

/// The release. One without a name gets the same default as with `helm template --generate-name`.
fn release(asked: &Chart) -> Result<Release, TemplateError> {
    let name = match (asked.release_name.as_str(), asked.name_template.as_str()) {
        ("", "") => NAME_DEFAULT.to_owned(),
        ("", template) => template::render_name_template(template)?,
        (name, "") => name.to_owned(),
        (_, _) => return Err(TemplateError::Named("--name-template")),
    };
    let namespace = match asked.namespace.as_str() {
        "" => "default",
        namespace => namespace,
    };
    Ok(Release {
        name,
        namespace: namespace.to_owned(),
        revision: 1,
        is_upgrade: false,
    })
}

fn values(asked: &Chart) -> Result<Values, TemplateError> {
    let files = asked.values.iter();
    let user = UserValues {
        files: files.map(|file| (file.name.clone(), file.text.clone())).collect(),
        ..UserValues::default()
    };
    // a kustomization's values name no files
    let none = &mut |_: &str| Err(io::ErrorKind::NotFound.into());
    Ok(user.values(&Limits::default(), none)?)
}

/// The chart, if it is installable.
fn chart(asked: &Chart) -> Result<equate_helm::Chart, TemplateError> {
    let files = asked.files.iter().map(|(name, data)| File {
        name: name.as_str().into(),
        data: data[..].into(),
    });
    let chart = equate_helm::Chart::from_tree(files, &Limits::default())?;
    dependencies::check_installable(&chart)?;
    dependencies::check_present(&chart).map_err(TemplateError::Dependencies)?;
    Ok(chart)
}
