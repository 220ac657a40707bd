//! Rendering of a chart and user values to the objects of a release.
//!
//! Helm's steps in Helm's order: select subcharts, coalesce values, validate them, check the Kubernetes
//! version, execute the templates, parse the output.

use crate::cache::Cache;
use crate::capabilities::Capabilities;
use crate::chart::{Chart, Values};
use crate::dependencies::{self, IncompatibleKubernetes};
use crate::engine::{Bounds, Release, RenderError, Texts};
use crate::log::{Level, LogLine};
use crate::manifests::{self, ManifestError, Sorted};
use crate::order::Order;
use crate::schema::SchemaError;
use crate::values::{self, CoalesceError, Warning};
use equate_template::{ErrorKind, Limit, World};
use std::collections::BTreeSet;

/// The inputs of a render.
#[derive(Debug, Clone, Copy)]
pub struct Request<'r> {
    /// The loaded chart.
    pub chart: &'r Chart,
    /// The user's values.
    pub values: &'r Values,
    /// Its release.
    pub release: &'r Release,
    /// Its cluster.
    pub capabilities: &'r Capabilities,
    /// Skip schema validation of values.
    pub skip_schema: bool,
    /// Include the notes of subcharts.
    pub subchart_notes: bool,
}

/// A rendered chart.
#[derive(Debug, Clone)]
pub struct Rendered {
    /// The chart with its enabled subcharts.
    pub chart: Chart,
    /// Its objects and hooks, in installation order.
    pub sorted: Sorted,
    /// Its notes, often empty.
    pub notes: String,
    /// Warnings about values; the render continued.
    pub warnings: Vec<LogLine>,
    /// The non-deterministic functions that were called.
    pub unrepeatable: BTreeSet<&'static str>,
}

/// A chart cannot be rendered. Displays as Helm's error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The chart does not support the Kubernetes version.
    #[error(transparent)]
    Kubernetes(#[from] IncompatibleKubernetes),
    /// Subcharts cannot be selected.
    #[error("chart dependencies processing failed: {0}")]
    Dependencies(CoalesceError),
    /// Values cannot be coalesced.
    #[error(transparent)]
    Values(#[from] CoalesceError),
    /// Values do not match a schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A template failed.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The output is not a manifest.
    #[error("{}: {}", .0.error, .0.error.fault)]
    Manifest(Box<InvalidManifests>),
}

/// Output that is not valid manifests.
#[derive(Debug)]
pub struct InvalidManifests {
    /// The place and the cause.
    pub error: ManifestError,
    /// All output, for display.
    pub texts: Texts,
}

impl Error {
    /// Whether a release exists that failed: earlier errors come before there is one.
    pub fn is_of_a_release(&self) -> bool {
        match self {
            Self::Dependencies(_) | Self::Values(_) | Self::Schema(_) => false,
            Self::Kubernetes(_) | Self::Render(_) | Self::Manifest(_) => true,
        }
    }

    /// Whether [`Bounds::stop`] ended it.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Self::Render(error) if error.0.kind == ErrorKind::Limit(Limit::Stopped))
    }
}

/// The raw output of a chart's templates.
#[derive(Debug, Clone)]
pub struct RawRender {
    /// The chart with its enabled subcharts.
    pub chart: Chart,
    /// The output of its templates.
    pub texts: Texts,
    /// Warnings about values.
    pub warnings: Vec<Warning>,
}

/// Renders a chart, with templates and schemas from the cache if present.
///
/// # Errors
/// See [`Error`].
pub fn render(
    request: Request<'_>,
    cache: &Cache,
    world: Box<dyn World>,
    bounds: impl Into<Bounds>,
) -> Result<Rendered, Error> {
    let RawRender {
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
                let ignored = ignored.map(|hook| {
                    LogLine::new(Level::Info, "skipping unknown hooks").with("hookTypes", hook.events.clone())
                });
                let warnings = warnings.iter().map(Warning::log_line);
                warnings.chain(ignored).collect()
            },
            sorted,
            notes,
            unrepeatable: texts.unrepeatable,
        }),
        Err(error) => Err(Error::Manifest(Box::new(InvalidManifests { error, texts }))),
    }
}

/// Renders a chart to texts, without parsing them as manifests.
///
/// # Errors
/// See [`Error`].
pub fn texts(
    request: Request<'_>,
    cache: &Cache,
    world: Box<dyn World>,
    bounds: impl Into<Bounds>,
) -> Result<RawRender, Error> {
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
            // errors show the version as the cluster reports it
            found: kubernetes.version.clone(),
            ..error
        }
    })?;
    let program = known.program(cache, &chart)?;
    let texts = program.run(&values, request.release, request.capabilities, world, bounds)?;
    Ok(RawRender {
        chart,
        texts,
        warnings,
    })
}
