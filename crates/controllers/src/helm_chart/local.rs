//! The chart that a run makes of files, without a cluster: for builds on a developer's machine.
//!
//! Versions get no build metadata, which only a source's revision knows, and dependencies are not fetched.

use equate_api::source::HelmChart;
use equate_helm::Chart;
use equate_helm::package::Package;
use equate_source::{Pauses, Tree};

use super::act::{chart_values, tree_values};
use super::build::Step;
use super::declared::Declared;
use super::origin::LocalChart;
use crate::kit::read::chain;
use crate::sources::charts::HelmSettings;
use crate::sources::failure::Failure;

/// The chart at `spec.chart` among the files of its source, with the values files of the source.
///
/// # Errors
/// The text of the failed step, as a status has it.
pub fn of_source(object: &HelmChart, tree: &Tree) -> Result<Chart, String> {
    let (declared, settings) = (declared(object)?, HelmSettings::default());
    let made = || -> Result<Chart, Failure> {
        let (local, _, _) = LocalChart::find(tree, &declared.chart, &settings)?;
        let (paths, ignore_missing) = (&declared.values_files, declared.ignore_missing);
        let (merged, _) = tree_values(
            &local.tree,
            (paths, ignore_missing),
            &settings.chart(),
            &Pauses::none(),
        )?;
        let mut package = local.load(&settings).map_err(|why| Step::Package.failed(why))?;
        if let Some(merged) = merged {
            let set = package.set_values(&merged);
            set.map_err(|error| Step::Values.failed(error))?;
        }
        Ok(package.chart().clone())
    };
    made().map_err(|failure| failure.message)
}

/// The chart of an archive, with values files of its own.
///
/// # Errors
/// The text of the failed step, as a status has it.
pub fn of_archive(object: &HelmChart, bytes: &[u8]) -> Result<Chart, String> {
    let package = Package::from_archive(bytes, &HelmSettings::default().chart());
    of_package(object, package.map_err(|error| chain(&error))?)
}

/// The same of a chart's own directory.
///
/// # Errors
/// The text of the failed step, as a status has it.
pub fn of_directory(object: &HelmChart, tree: Tree) -> Result<Chart, String> {
    let local = LocalChart {
        tree,
        path: String::new(),
        is_directory: true,
    };
    of_package(object, local.load(&HelmSettings::default())?)
}

fn of_package(object: &HelmChart, mut package: Package) -> Result<Chart, String> {
    let declared = declared(object)?;
    if !declared.values_files.is_empty() {
        let limits = HelmSettings::default().chart();
        let merged = chart_values(
            &package,
            (&declared.values_files, declared.ignore_missing),
            &limits,
            &Pauses::none(),
        );
        let (merged, _) = merged.map_err(|failure| failure.message)?;
        let set = package.set_values(&merged);
        set.map_err(|error| Step::Values.failed(error).message)?;
    }
    Ok(package.chart().clone())
}

fn declared(object: &HelmChart) -> Result<Declared, String> {
    Declared::try_from(object).map_err(|error| error.to_string())
}
