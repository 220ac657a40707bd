//! Programs that control other objects, built from the pinned modules in `crates/xtask/peers`.

use std::path::{Path, PathBuf};

use super::control_plane::{go, key, module};
use super::{Error, Progress, cache_folder, forge, once, run, runs};

/// The version of prometheus-operator.
pub const PROMETHEUS_OPERATOR_VERSION: &str = "0.85.0";

const OPERATOR: &str = "prometheus-operator";
const OPERATOR_MODULE: &str = "github.com/prometheus-operator/prometheus-operator";
const MANAGER: &str = "controller-runtime";

/// prometheus-operator, with the manifests of its module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrometheusOperator {
    /// The program.
    pub program: PathBuf,
    /// The folder of its CRDs.
    pub definitions: PathBuf,
    /// The folder of its ServiceAccount, role and Deployment.
    pub manifests: PathBuf,
}

/// Builds prometheus-operator unless cached.
///
/// # Errors
/// [`Error::NoGo`] without a `go` on PATH; otherwise the failed step.
pub fn prometheus_operator(progress: Progress<'_>) -> Result<PrometheusOperator, Error> {
    let package = format!("{OPERATOR_MODULE}/cmd/operator");
    let options = ["-ldflags", "-s -w"];
    let program = forge::built(
        OPERATOR,
        PROMETHEUS_OPERATOR_VERSION,
        &options,
        &package,
        progress,
    )?;
    let folder = run(
        "go list",
        go(&module().join(OPERATOR)).args(["list", "-m", "-f", "{{.Dir}}", OPERATOR_MODULE]),
    )?;
    let example = Path::new(folder.trim()).join("example");
    Ok(PrometheusOperator {
        program,
        definitions: example.join("prometheus-operator-crd"),
        manifests: example.join("rbac/prometheus-operator"),
    })
}

/// Builds a manager of controller-runtime, `crates/xtask/peers/controller-runtime`, unless cached.
///
/// # Errors
/// As of [`prometheus_operator`].
pub fn manager(progress: Progress<'_>) -> Result<PathBuf, Error> {
    if !runs("go", &["version"]) {
        return Err(Error::NoGo);
    }
    let module = module().join(MANAGER);
    let key = key(&module, &["go.mod", "go.sum", "main.go"])?;
    let folder = cache_folder()?.join(format!("{MANAGER}-{key}"));
    once(&folder, progress, |partial, progress| {
        progress("building a manager of controller-runtime");
        let mut command = go(&module);
        command
            .args(["build", "-ldflags", "-s -w", "-o"])
            .arg(partial.join("manager"))
            .arg(".");
        run("go build of a manager", &mut command).map(drop)
    })?;
    Ok(folder.join("manager"))
}
