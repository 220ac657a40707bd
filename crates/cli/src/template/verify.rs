//! `--verify`: requires that a key of the keyring signed the `.prov` file of a chart archive.
//!
//! Reads the archive once, so that the verified bytes are the rendered ones.

use equate_helm::limits::LimitExceeded;
use equate_helm::load::LoadError;
use equate_helm::provenance::{
    self, EXTENSION, KeyRing, KeyRingError, PROVENANCE_BYTES_MAX, ProvenanceError, RING_BYTES_MAX,
};
use equate_helm::{Chart, Limits};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Why verification failed. Helm's own errors have Helm's text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VerifyError {
    #[error("unpacked charts cannot be verified")]
    Unpacked,
    #[error("chart must be a tgz file")]
    NotArchive,
    #[error("failed to read chart archive: {path}")]
    Archive {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("could not load provenance file {path}")]
    Provenance {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("could not find the home directory to search for keys; set --keyring")]
    NoHomeDirectory,
    #[error("failed to load keyring: {path}")]
    KeyRing {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("failed to load keyring: {path}")]
    InvalidKeyRing {
        path: PathBuf,
        #[source]
        source: KeyRingError,
    },
    #[error(transparent)]
    NotVerified(#[from] ProvenanceError),
}

/// The chart of a verified archive, by this keyring or GnuPG's own.
pub(super) fn chart(
    path: &Path,
    ring: Option<&Path>,
    limits: &Limits,
) -> Result<Chart, super::TemplateError> {
    let bytes = read_verified(path, ring, limits)?;
    if bytes.len() as u64 > limits.archive_bytes_max {
        let limit = LimitExceeded::ArchiveBytes(limits.archive_bytes_max);
        return Err(LoadError::from(limit).into());
    }
    Ok(Chart::from_archive(&bytes, limits)?)
}

fn read_verified(path: &Path, ring: Option<&Path>, limits: &Limits) -> Result<Vec<u8>, VerifyError> {
    if path.is_dir() {
        return Err(VerifyError::Unpacked);
    }
    let extension = path.extension().and_then(|extension| extension.to_str());
    let name = path.file_name().map(|name| name.to_string_lossy());
    let (Some("tgz"), Some(name)) = (extension.map(str::to_ascii_lowercase).as_deref(), name) else {
        return Err(VerifyError::NotArchive);
    };
    let mut beside = OsString::from(path);
    beside.push(EXTENSION);
    let beside = PathBuf::from(beside);
    let provenance = read(&beside, PROVENANCE_BYTES_MAX as u64)
        .map_err(|source| VerifyError::Provenance { path: beside, source })?;
    let keys = ring.map(Path::to_path_buf).or_else(default_keyring);
    let keys = keys.ok_or(VerifyError::NoHomeDirectory)?;
    let ring = match read(&keys, RING_BYTES_MAX as u64).map(|bytes| KeyRing::read(&bytes)) {
        Ok(Ok(ring)) => ring,
        Ok(Err(source)) => return Err(VerifyError::InvalidKeyRing { path: keys, source }),
        Err(source) => return Err(VerifyError::KeyRing { path: keys, source }),
    };
    let archive = read(path, limits.archive_bytes_max).map_err(|source| VerifyError::Archive {
        path: path.to_owned(),
        source,
    })?;
    provenance::verify(&archive, &name, &provenance, &ring, SystemTime::now())?;
    Ok(archive)
}

/// Reads a file, cut one byte after the limit: the parser reports it.
fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// GnuPG's own public keys: an old keyring or a keybox. Never searched below the working directory, whose
/// keys may be someone else's.
fn default_keyring() -> Option<PathBuf> {
    let home = match std::env::var_os("GNUPGHOME") {
        Some(home) => PathBuf::from(home),
        None => std::env::home_dir()
            .filter(|home| home.is_absolute())?
            .join(".gnupg"),
    };
    let (ring, keybox) = (home.join("pubring.gpg"), home.join("pubring.kbx"));
    Some(match !ring.exists() && keybox.exists() {
        true => keybox,
        false => ring,
    })
}
