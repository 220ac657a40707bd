//! The Kubernetes 1.36 control plane, built from the pinned tools module.
//!
//! The cache key covers all inputs: `go.mod`, `go.sum`, etcd's main and the compiler's version. The first
//! build takes minutes on two cores, later ones seconds through Go's own cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use super::{Error, Progress, cache_folder, once, run, runs};

/// The pinned version; without it the linker writes v0.0.0-master into the programs.
const VERSION: &str = "v1.36.3";

/// The module's `tool` directives, with import paths.
const TOOLS: [&str; 4] = [
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler",
    "sigs.k8s.io/kwok/cmd/kwok",
];

/// kwok's stage files, relative to its module; without them pods do not progress.
const STAGES: [&str; 3] = [
    "kustomize/stage/pod/fast",
    "kustomize/stage/node/fast",
    "kustomize/stage/node/heartbeat-with-lease",
];

/// The programs of a control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlPlane {
    folder: PathBuf,
}

impl ControlPlane {
    /// etcd, the store.
    pub fn etcd(&self) -> PathBuf {
        self.program("etcd")
    }

    /// The API server.
    pub fn kube_apiserver(&self) -> PathBuf {
        self.program("kube-apiserver")
    }

    /// The controllers.
    pub fn kube_controller_manager(&self) -> PathBuf {
        self.program("kube-controller-manager")
    }

    /// The scheduler.
    pub fn kube_scheduler(&self) -> PathBuf {
        self.program("kube-scheduler")
    }

    /// kwok, which simulates nodes.
    pub fn kwok(&self) -> PathBuf {
        self.program("kwok")
    }

    /// kwok's stage files, in order.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn kwok_stages(&self) -> Result<Vec<PathBuf>, Error> {
        let folder = self.folder.join("stages");
        let mut files = Vec::new();
        for entry in fs::read_dir(&folder).map_err(Error::io("list", &folder))? {
            files.push(entry.map_err(Error::io("list", &folder))?.path());
        }
        files.sort();
        Ok(files)
    }

    /// Their folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }
}

/// Builds the control plane unless cached.
///
/// # Errors
/// [`Error::NoGo`] without a `go` on PATH; otherwise the failed step.
pub fn control_plane(progress: Progress<'_>) -> Result<ControlPlane, Error> {
    if !runs("go", &["version"]) {
        return Err(Error::NoGo);
    }
    let module = module();
    let files = ["go.mod", "go.sum", "etcd/main.go"];
    let folder = cache_folder()?.join(format!("kubernetes-{}", key(&module, &files)?));
    once(&folder, progress, |partial, progress| {
        build(&module, partial, progress)
    })?;
    Ok(ControlPlane { folder })
}

pub(super) fn module() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../xtask/peers")
}

/// The inputs of a build: Go's version and the files of the module.
pub(super) fn key(module: &Path, files: &[&str]) -> Result<String, Error> {
    let mut hash = Sha256::new();
    hash.update(run("go env GOVERSION", go(module).args(["env", "GOVERSION"]))?);
    for name in files {
        let path = module.join(name);
        hash.update(fs::read(&path).map_err(Error::io("read", &path))?);
    }
    Ok(hash
        .finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

fn build(module: &Path, partial: &Path, progress: Progress<'_>) -> Result<(), Error> {
    let programs = partial.join("bin");
    fs::create_dir_all(&programs).map_err(Error::io("create", &programs))?;
    for (index, package) in TOOLS.iter().chain(&["./etcd"]).enumerate() {
        let name = package.rsplit('/').next().unwrap_or(package);
        progress(&format!("building {name} ({} of {})", index + 1, TOOLS.len() + 1));
        let mut command = go(module);
        command
            .args(["build", "-ldflags", &linker_flags(), "-o"])
            .arg(programs.join(name))
            .arg(package);
        run(&format!("go build {package}"), &mut command)?;
    }
    let stages = partial.join("stages");
    fs::create_dir_all(&stages).map_err(Error::io("create", &stages))?;
    let kwok = run(
        "go list",
        go(module).args(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"]),
    )?;
    for stage in STAGES {
        copy_stages(&Path::new(kwok.trim()).join(stage), stage, &stages)?;
    }
    progress(&format!("the control plane {VERSION} is built"));
    Ok(())
}

pub(super) fn linker_flags() -> String {
    format!(
        "-s -w -X k8s.io/component-base/version.gitVersion={VERSION} \
         -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
    )
}

/// Copies the Stage files of one folder, prefixed with its name.
fn copy_stages(from: &Path, stage: &str, to: &Path) -> Result<(), Error> {
    let prefix = stage.trim_start_matches("kustomize/stage/").replace('/', "-");
    for entry in fs::read_dir(from).map_err(Error::io("list", from))? {
        let path = entry.map_err(Error::io("list", from))?.path();
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        if !name.ends_with(".yaml") || name == "kustomization.yaml" {
            continue;
        }
        // read and written, not copied: files of the module cache are read-only
        let text = fs::read(&path).map_err(Error::io("read", &path))?;
        let target = to.join(format!("{prefix}-{name}"));
        fs::write(&target, text).map_err(Error::io("write", &target))?;
    }
    Ok(())
}

pub(super) fn go(module: &Path) -> Command {
    let mut command = Command::new("go");
    // a server compiled with encoding/json v2 writes wrong OpenAPI documents
    command
        .current_dir(module)
        .env("GOEXPERIMENT", "nojsonv2")
        .env("GOFLAGS", "-mod=readonly");
    command
}
