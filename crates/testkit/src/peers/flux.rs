//! Flux's helm-controller, built from the pinned module in `crates/xtask/peers/helm-controller`.

use std::fs;
use std::path::PathBuf;

use super::control_plane::{go, key, module};
use super::{Error, Progress, cache_folder, once, run, runs};

/// The reference version of helm-controller.
pub const HELM_CONTROLLER_VERSION: &str = "1.6.3";

/// Names the program for the tests.
pub const HELM_CONTROLLER_VARIABLE: &str = "EQUATE_HELM_CONTROLLER";

/// Builds helm-controller unless cached; returns the program.
///
/// # Errors
/// [`Error::NoGo`] without a `go` on PATH; otherwise the failed step.
pub fn helm_controller(progress: Progress<'_>) -> Result<PathBuf, Error> {
    if !runs("go", &["version"]) {
        return Err(Error::NoGo);
    }
    let module = module().join("helm-controller");
    let key = key(&module, &["go.mod", "go.sum"])?;
    let folder = cache_folder()?.join(format!("helm-controller-{HELM_CONTROLLER_VERSION}-{key}"));
    once(&folder, progress, |partial, progress| {
        progress(&format!("building helm-controller {HELM_CONTROLLER_VERSION}"));
        fs::create_dir_all(partial).map_err(Error::io("create", partial))?;
        let mut command = go(&module);
        command
            .args(["build", "-ldflags", "-s -w", "-o"])
            .arg(partial.join("helm-controller"))
            .arg("github.com/fluxcd/helm-controller");
        run("go build of helm-controller", &mut command).map(drop)
    })?;
    Ok(folder.join("helm-controller"))
}
