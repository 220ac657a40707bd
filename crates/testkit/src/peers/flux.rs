//! Flux's controllers, built from the pinned modules in `crates/xtask/peers`.

use std::path::{Path, PathBuf};

use super::control_plane::{go, module};
use super::{Error, Progress, forge, run};

/// The reference version of helm-controller.
pub const HELM_CONTROLLER_VERSION: &str = "1.6.3";

/// The version of source-controller that serves helm-controller's charts while statuses are recorded.
pub const SOURCE_CONTROLLER_VERSION: &str = "1.9.1";

/// Names the program for the tests.
pub const HELM_CONTROLLER_VARIABLE: &str = "EQUATE_HELM_CONTROLLER";

/// Names the program for the tests.
pub const SOURCE_CONTROLLER_VARIABLE: &str = "EQUATE_SOURCE_CONTROLLER";

/// A program of Flux, with its kinds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FluxController {
    /// The program.
    pub program: PathBuf,
    /// The folder of its CRDs.
    pub definitions: PathBuf,
}

/// Builds helm-controller unless cached; returns the program.
///
/// # Errors
/// [`Error::NoGo`] without a `go` on PATH; otherwise the failed step.
pub fn helm_controller(progress: Progress<'_>) -> Result<PathBuf, Error> {
    built("helm-controller", HELM_CONTROLLER_VERSION, progress)
}

/// Builds source-controller unless cached; returns the program.
///
/// # Errors
/// As of [`helm_controller`].
pub fn source_controller(progress: Progress<'_>) -> Result<PathBuf, Error> {
    built("source-controller", SOURCE_CONTROLLER_VERSION, progress)
}

/// Builds helm-controller and source-controller unless cached.
///
/// # Errors
/// [`Error::NoGo`] without a `go` on PATH; otherwise the failed step.
pub fn flux_controllers(progress: Progress<'_>) -> Result<[FluxController; 2], Error> {
    let helm = helm_controller(progress)?;
    let source = source_controller(progress)?;
    Ok([
        FluxController {
            definitions: definitions("helm-controller")?,
            program: helm,
        },
        FluxController {
            definitions: definitions("source-controller")?,
            program: source,
        },
    ])
}

fn built(name: &str, version: &str, progress: Progress<'_>) -> Result<PathBuf, Error> {
    let package = format!("github.com/fluxcd/{name}");
    forge::built(name, version, &["-ldflags", "-s -w"], &package, progress)
}

/// The CRDs are in the controller's own module.
fn definitions(name: &str) -> Result<PathBuf, Error> {
    let package = format!("github.com/fluxcd/{name}");
    let folder = run(
        "go list",
        go(&module().join(name)).args(["list", "-m", "-f", "{{.Dir}}", &package]),
    )?;
    Ok(Path::new(folder.trim()).join("config/crd/bases"))
}
