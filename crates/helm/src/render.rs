//! A chart and the values of its user, as the objects of a release.
//!
//! The steps are Helm's, in Helm's order: which subcharts take part, the values put together and held
//! against the schemas, whether the cluster will do, the texts, and what is in them.

use crate::cache::Cache;
use crate::capabilities::Capabilities;
use crate::chart::{Chart, Values};
use crate::dependencies::{self, IncompatibleKubernetes};
use crate::engine::{Bounds, Release, RenderError, Texts};
use crate::manifests::{self, ManifestError, Sorted};
use crate::order::Order;
use crate::schema::SchemaError;
use crate::values::{self, CoalesceError, Warning};
use equate_template::{ErrorKind, Limit, World};
use std::collections::BTreeSet;

/// What is rendered, and for whom.
#[derive(Debug, Clone, Copy)]
pub struct Request<'r> {
    /// The chart, as it was read.
    pub chart: &'r Chart,
    /// What its user says.
    pub values: &'r Values,
    /// The release it is for.
    pub release: &'r Release,
    /// The cluster it is for.
    pub capabilities: &'r Capabilities,
    /// Whether values may be other than the charts' schemas say.
    pub skip_schema: bool,
    /// Whether the notes of subcharts are wanted.
    pub subchart_notes: bool,
}

/// A chart that was rendered.
#[derive(Debug, Clone)]
pub struct Rendered {
    /// The chart, with the subcharts that take part.
    pub chart: Chart,
    /// Its objects and hooks, in the order of an installation.
    pub sorted: Sorted,
    /// What its notes say; often nothing.
    pub notes: String,
    /// What was odd about the values; the render went on.
    pub warnings: Vec<String>,
    /// The functions used whose results differ from one render to the next.
    pub unrepeatable: BTreeSet<&'static str>,
}

/// Why a chart is not rendered. Displays as Helm's error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is for other versions of Kubernetes.
    #[error(transparent)]
    Kubernetes(#[from] IncompatibleKubernetes),
    /// Which subcharts take part cannot be told.
    #[error("chart dependencies processing failed: {0}")]
    Dependencies(CoalesceError),
    /// The values do not fit together.
    #[error(transparent)]
    Values(#[from] CoalesceError),
    /// The values are not what a schema says.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A template fails.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// What came out is no manifest.
    #[error("{}: {}", .0.error, .0.error.fault)]
    Manifest(Box<NoManifest>),
}

/// Texts that are no manifests.
#[derive(Debug)]
pub struct NoManifest {
    /// Where, and what is wrong.
    pub error: ManifestError,
    /// All texts, for who wants to see them.
    pub texts: Texts,
}

impl Error {
    /// Whether there was a release that failed: what it is made of was settled before.
    pub fn is_of_a_release(&self) -> bool {
        match self {
            Self::Dependencies(_) | Self::Values(_) | Self::Schema(_) => false,
            Self::Kubernetes(_) | Self::Render(_) | Self::Manifest(_) => true,
        }
    }

    /// Whether it ended because somebody stopped it ([`Bounds::stop`]).
    pub fn is_stopped(&self) -> bool {
        matches!(self, Self::Render(error) if error.0.kind == ErrorKind::Limit(Limit::Stopped))
    }
}

/// A chart whose templates ran.
#[derive(Debug, Clone)]
pub struct Ran {
    /// The chart, with the subcharts that take part.
    pub chart: Chart,
    /// What its templates came to.
    pub texts: Texts,
    /// What was odd about the values.
    pub warnings: Vec<Warning>,
}

/// Renders a chart. Templates and schemas are taken from the cache if they are there.
///
/// # Errors
/// See [`Error`].
pub fn render(
    request: Request<'_>,
    cache: &Cache,
    world: Box<dyn World>,
    bounds: impl Into<Bounds>,
) -> Result<Rendered, Error> {
    let Ran {
        chart,
        texts,
        warnings,
    } = texts(request, cache, world, bounds)?;
    let files = || texts.files.iter().map(|(path, text)| (&**path, &**text));
    let notes = manifests::notes(files(), chart.name(), request.subchart_notes);
    match manifests::sort(files(), Order::Install) {
        Ok(sorted) => Ok(Rendered {
            chart,
            warnings: {
                let ignored = sorted.ignored.iter();
                let ignored = ignored.map(|hook| format!("skipping unknown hooks hookTypes={}", hook.events));
                let warnings = warnings.iter().map(ToString::to_string);
                warnings.chain(ignored).collect()
            },
            sorted,
            notes,
            unrepeatable: texts.unrepeatable,
        }),
        Err(error) => Err(Error::Manifest(Box::new(NoManifest { error, texts }))),
    }
}

/// The same up to the texts of the templates, whatever is in them.
///
/// # Errors
/// See [`Error`].
pub fn texts(
    request: Request<'_>,
    cache: &Cache,
    world: Box<dyn World>,
    bounds: impl Into<Bounds>,
) -> Result<Ran, Error> {
    let (chart, mut warnings) =
        dependencies::process(request.chart, request.values).map_err(Error::Dependencies)?;
    let (mut values, more) = values::coalesce(&chart, request.values)?;
    warnings.extend(more);
    let known = cache.known(&chart);
    if !request.skip_schema {
        known.schemas(cache, &chart).check(&mut values)?;
    }
    let kubernetes = &request.capabilities.kube_version;
    dependencies::check_kubernetes(&chart, &kubernetes.normalized).map_err(|error| {
        IncompatibleKubernetes {
            // what is compared is not what is told
            found: kubernetes.version.clone(),
            ..error
        }
    })?;
    let program = known.program(cache, &chart)?;
    let texts = program.run(&values, request.release, request.capabilities, world, bounds)?;
    Ok(Ran {
        chart,
        texts,
        warnings,
    })
}
