//! Helm itself, the reference for charts, built from the pinned module in `crates/xtask/peers/helm`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::control_plane::{go, key, module};
use super::{Error, Progress, cache_folder, once, run, runs};

/// The reference version of Helm.
pub const HELM_VERSION: &str = "4.2.3";

/// Helm as a program.
#[derive(Debug, Clone)]
pub struct Helm {
    program: PathBuf,
}

impl Helm {
    /// Helm's own command line; the caller adds arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("helm");
        command
    }

    /// Writes a program called `helm` into a folder, for callers that need a path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn script(&self, folder: &Path) -> Result<PathBuf, Error> {
        let path = folder.join("helm");
        let program = self.program.display();
        fs::write(&path, format!("#!/bin/sh\nexec '{program}' helm \"$@\"\n"))
            .map_err(Error::io("write", &path))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(Error::io("write", &path))?;
        Ok(path)
    }

    /// A process that answers questions on standard input line by line, in a mode (`render`, `bench`).
    pub fn answers(&self, mode: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(mode);
        command
    }
}

/// Builds Helm unless cached.
///
/// # Errors
/// [`Error::NoGo`] without a `go` on PATH; otherwise the failed step.
pub fn helm(progress: Progress<'_>) -> Result<Helm, Error> {
    if !runs("go", &["version"]) {
        return Err(Error::NoGo);
    }
    let module = module().join("helm");
    let key = key(&module, &["go.mod", "go.sum", "main.go"])?;
    let folder = cache_folder()?.join(format!("helm-{HELM_VERSION}-{key}"));
    once(&folder, progress, |partial, progress| {
        progress(&format!("building helm {HELM_VERSION}"));
        fs::create_dir_all(partial).map_err(Error::io("create", partial))?;
        let mut command = go(&module);
        command
            .args(["build", "-ldflags", "-s -w", "-o"])
            .arg(partial.join("judge"))
            .arg(".");
        run("go build of helm", &mut command).map(drop)
    })?;
    Ok(Helm {
        program: folder.join("judge"),
    })
}
