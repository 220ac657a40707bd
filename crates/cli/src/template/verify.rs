//! `--verify`: a packed chart is used when its `.prov` file proves it, by a key of the key ring.
//!
//! What was proved is what is rendered: the archive is read once.

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

/// Why a chart is not proved. Where Helm says so too, the words are Helm's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VerifyError {
    /// A directory has no sum.
    #[error("unpacked charts cannot be verified")]
    Unpacked,
    /// It has another name than archives of charts.
    #[error("chart must be a tgz file")]
    NotArchive,
    /// The archive cannot be read.
    #[error("failed to read chart archive: {path}")]
    Archive {
        /// Where it is.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The provenance cannot be read.
    #[error("could not load provenance file {path}")]
    Provenance {
        /// Where it should be.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is no home directory to look for keys in.
    #[error("no home directory is known to look for keys in: name them with --keyring")]
    Homeless,
    /// The key ring cannot be read.
    #[error("failed to load keyring: {path}")]
    KeyRing {
        /// Where it should be.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There are no keys in the key ring.
    #[error("failed to load keyring: {path}")]
    InvalidKeyRing {
        /// Where it is.
        path: PathBuf,
        /// Why.
        #[source]
        source: KeyRingError,
    },
    /// The archive is not proved.
    #[error(transparent)]
    Unproved(#[from] ProvenanceError),
}

/// The chart of an archive that is proved by a key of this key ring, or of GnuPG's own.
pub(super) fn chart(
    path: &Path,
    ring: Option<&Path>,
    limits: &Limits,
) -> Result<Chart, super::TemplateError> {
    let bytes = proved(path, ring, limits)?;
    if bytes.len() as u64 > limits.archive_bytes_max {
        let limit = LimitExceeded::ArchiveBytes(limits.archive_bytes_max);
        return Err(LoadError::from(limit).into());
    }
    Ok(Chart::from_archive(&bytes, limits)?)
}

fn proved(path: &Path, ring: Option<&Path>, limits: &Limits) -> Result<Vec<u8>, VerifyError> {
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
    let keys = ring.map(Path::to_path_buf).or_else(own_ring);
    let keys = keys.ok_or(VerifyError::Homeless)?;
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

/// A file, cut where it is longer than it may be: who reads it says so.
fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Where GnuPG keeps public keys: in a ring of old, or in a keybox. Never below the working directory, whose
/// keys may be a stranger's.
fn own_ring() -> Option<PathBuf> {
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
