//! Azurite from npm. npm verifies each package against the registry's hash.

use std::path::PathBuf;
use std::process::Command;

use super::{Error, Progress, cache_folder, once, run, runs};

/// The newest that runs on Node 20.
const AZURITE: &str = "azurite@3.35.0";
const BLOB_SERVER: &str = "node_modules/azurite/dist/src/blob/main.js";

/// Fetches Azurite, Microsoft's emulator of Azure Storage, unless cached: the script of its blob server, for `node`.
///
/// # Errors
/// [`Error::NoNpm`] without Node and npm; otherwise the failed step.
pub fn azurite(progress: Progress<'_>) -> Result<PathBuf, Error> {
    let folder = cache_folder()?.join(AZURITE.replace('@', "-"));
    let runs = runs("node", &["--version"]) && (folder.is_dir() || runs("npm", &["--version"]));
    if !runs {
        return Err(Error::NoNpm {
            wanted: AZURITE.to_owned(),
        });
    }
    once(&folder, progress, |partial, progress| {
        progress(&format!("fetching {AZURITE}"));
        let mut npm = Command::new("npm");
        npm.arg("install").arg("--prefix").arg(partial).args([
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--omit=dev",
            AZURITE,
        ]);
        run(&format!("npm install {AZURITE}"), &mut npm).map(drop)
    })?;
    Ok(folder.join(BLOB_SERVER))
}
