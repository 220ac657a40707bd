//! Flux's helm-controller and source-controller, built from the pinned modules in `crates/xtask/peers`.

use std::fs;
use std::path::PathBuf;

use super::control_plane::{go, key, module};
use super::{Error, Progress, cache_folder, once, run, runs};

/// The reference version of helm-controller.
pub const HELM_CONTROLLER_VERSION: &str = "1.6.3";

/// Names the program for the tests.
pub const HELM_CONTROLLER_VARIABLE: &str = "EQUATE_HELM_CONTROLLER";

/// The reference version of source-controller.
pub const SOURCE_CONTROLLER_VERSION: &str = "1.9.1";

/// Names the program for the tests.
pub const SOURCE_CONTROLLER_VARIABLE: &str = "EQUATE_SOURCE_CONTROLLER";

/// Builds helm-controller unless cached; returns the program.
///
/// # Errors
/// [`Error::NoGo`] without a `go` on PATH; otherwise the failed step.
pub fn helm_controller(progress: Progress<'_>) -> Result<PathBuf, Error> {
    controller("helm-controller", HELM_CONTROLLER_VERSION, progress)
}

/// Builds source-controller unless cached; returns the program.
///
/// # Errors
/// As of [`helm_controller`].
pub fn source_controller(progress: Progress<'_>) -> Result<PathBuf, Error> {
    controller("source-controller", SOURCE_CONTROLLER_VERSION, progress)
}

fn controller(name: &str, version: &str, progress: Progress<'_>) -> Result<PathBuf, Error> {
    if !runs("go", &["version"]) {
        return Err(Error::NoGo);
    }
    let module = module().join(name);
    let key = key(&module, &["go.mod", "go.sum"])?;
    let folder = cache_folder()?.join(format!("{name}-{version}-{key}"));
    once(&folder, progress, |partial, progress| {
        progress(&format!("building {name} {version}"));
        fs::create_dir_all(partial).map_err(Error::io("create", partial))?;
        let mut command = go(&module);
        command
            .args(["build", "-ldflags", "-s -w", "-o"])
            .arg(partial.join(name))
            .arg(format!("github.com/fluxcd/{name}"));
        run(&format!("go build of {name}"), &mut command).map(drop)
    })?;
    Ok(folder.join(name))
}
