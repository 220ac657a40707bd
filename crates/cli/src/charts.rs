//! The charts of a kustomization, rendered in process.
//!
//! What the kustomize crate asks for meets what the helm crate does; neither knows the other. A chart gets
//! here as files: where they may lie, and what they may lead to, was settled by the build. No helm is run, no
//! cluster is asked, and `lookup` finds nothing. Controllers have no use for this: Flux renders no
//! `helmCharts`.
//!
//! Refused: charts that would have to be fetched, and whatever Helm refuses, in its words.

use crate::template::{self, NAME_DEFAULT, TemplateError, world::Real};
use bytes::Bytes;
use equate_helm::cache::Cache;
use equate_helm::capabilities::{Capabilities, KubeVersion};
use equate_helm::engine::{Bounds, Release};
use equate_helm::listing::{self, Choices};
use equate_helm::render::{self, Request};
use equate_helm::values::UserValues;
use equate_helm::{File, Limits, Values, dependencies, release};
use equate_kustomize::{Chart, ChartError, Charts};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Renders the charts of a build. What the fields say is for charts that do not say it themselves.
#[derive(Debug, Default)]
pub(crate) struct Renderer {
    /// The version of Kubernetes; empty for what Helm assumes.
    pub(crate) kube_version: String,
    /// API versions, besides the usual ones.
    pub(crate) api_versions: Vec<String>,
    /// Whether the text of a chart that is refused is told.
    pub(crate) debug: bool,
    /// Templates that were read: a chart may be asked for more than once.
    pub(crate) cache: Cache,
    /// Ends every render.
    pub(crate) stop: Option<Arc<AtomicBool>>,
}

/// A chart is elsewhere.
#[derive(Debug, thiserror::Error)]
#[error(
    "{name} of {repo} is not in {directory}, and charts are not fetched yet: \
     `{pull}` puts it there",
    pull = self.pull()
)]
struct Elsewhere {
    name: String,
    version: String,
    /// Without credentials.
    repo: String,
    directory: String,
}

impl Elsewhere {
    /// What puts the chart where it is looked for.
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
        Err(Box::new(Elsewhere {
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
        let rendered = render::render(request, &self.cache, Box::new(Real::new(None)?), bounds);
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

/// The release. As with `helm template --generate-name`, one without a name gets the usual one.
fn release(asked: &Chart) -> Result<Release, TemplateError> {
    let name = match (asked.release_name.as_str(), asked.name_template.as_str()) {
        ("", "") => NAME_DEFAULT.to_owned(),
        ("", template) => template::named_by(template)?,
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
    // nothing of a kustomization names files beside these
    let none = &mut |_: &str| Err(io::ErrorKind::NotFound.into());
    Ok(user.values(&Limits::default(), none)?)
}

/// The chart, if it can become a release.
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
