//! Kubernetes' own end-to-end tests, built from the pinned module in `crates/xtask/peers/conformance`.

use std::fs;
use std::path::{Path, PathBuf};

use super::control_plane::{go, key, linker_flags, module};
use super::{Error, Progress, cache_folder, once, run, runs};

/// The test program.
#[derive(Debug, Clone)]
pub struct E2e {
    program: PathBuf,
}

impl E2e {
    /// Its path.
    pub fn program(&self) -> &Path {
        &self.program
    }
}

/// Builds the end-to-end tests unless cached.
///
/// # Errors
/// [`Error::NoGo`] without a `go` on PATH; otherwise the failed step.
pub fn e2e(progress: Progress<'_>) -> Result<E2e, Error> {
    const PACKAGE: &str = "k8s.io/kubernetes/test/e2e";
    if !runs("go", &["version"]) {
        return Err(Error::NoGo);
    }
    let module = module().join("conformance");
    let key = key(&module, &["go.mod", "go.sum"])?;
    let folder = cache_folder()?.join(format!("e2e-{key}"));
    once(&folder, progress, |partial, progress| {
        progress("building e2e.test, about 3 minutes on two cores");
        fs::create_dir_all(partial).map_err(Error::io("create", partial))?;
        let mut command = go(&module);
        command
            .args(["test", "-c", "-vet=off", "-ldflags", &linker_flags(), "-o"])
            .arg(partial.join("e2e.test"))
            .arg(PACKAGE);
        run("go test -c of Kubernetes' end-to-end tests", &mut command).map(drop)
    })?;
    Ok(E2e {
        program: folder.join("e2e.test"),
    })
}
