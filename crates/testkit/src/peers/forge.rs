//! Gitea and notation, built from the pinned modules in `crates/xtask/peers`.

use std::path::PathBuf;

use super::control_plane::{go, key, module};
use super::{Error, Progress, cache_folder, once, run, runs};

/// The forge: git over https and ssh, packages of Helm and OCI.
pub const GITEA_VERSION: &str = "1.26.0";
/// The signer of notation's signatures.
pub const NOTATION_VERSION: &str = "1.3.2";

const GITEA: &str = "code.gitea.io/gitea";
const NOTATION: &str = "github.com/notaryproject/notation/cmd/notation";
/// Gitea's tags for a database in the program itself.
const GITEA_TAGS: &str = "sqlite sqlite_unlock_notify";

/// Gitea's program and its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gitea {
    /// The program.
    pub program: PathBuf,
    /// The folder of its templates.
    pub files: PathBuf,
}

/// Builds Gitea unless cached.
///
/// # Errors
/// [`Error::NoGo`] without a `go` on PATH; otherwise the failed step.
pub fn gitea(progress: Progress<'_>) -> Result<Gitea, Error> {
    let flags = format!("-s -w -X main.Version={GITEA_VERSION} -X 'main.Tags={GITEA_TAGS}'");
    let options = ["-ldflags", &flags, "-tags", GITEA_TAGS];
    let program = built("gitea", GITEA_VERSION, &options, GITEA, progress)?;
    let files = run(
        "go list",
        go(&module().join("gitea")).args(["list", "-m", "-f", "{{.Dir}}", GITEA]),
    )?;
    Ok(Gitea {
        program,
        files: PathBuf::from(files.trim()),
    })
}

/// Builds notation, which signs artifacts, unless cached.
///
/// # Errors
/// As of [`gitea`].
pub fn notation(progress: Progress<'_>) -> Result<PathBuf, Error> {
    let options = ["-ldflags", "-s -w"];
    built("notation", NOTATION_VERSION, &options, NOTATION, progress)
}

/// Builds a program from the module of its name unless cached.
pub(super) fn built(
    name: &str,
    version: &str,
    options: &[&str],
    package: &str,
    progress: Progress<'_>,
) -> Result<PathBuf, Error> {
    if !runs("go", &["version"]) {
        return Err(Error::NoGo);
    }
    let module = module().join(name);
    let key = key(&module, &["go.mod", "go.sum"])?;
    let folder = cache_folder()?.join(format!("{name}-{version}-{key}"));
    once(&folder, progress, |partial, progress| {
        progress(&format!("building {name} {version}"));
        let mut command = go(&module);
        command.arg("build").args(options);
        command.arg("-o").arg(partial.join(name)).arg(package);
        run(&format!("go build of {name}"), &mut command).map(drop)
    })?;
    Ok(folder.join(name))
}
