//! Decryption through the caller, who has the keys.
//!
//! As in Flux's controller, files of `secretGenerator` and `patches` are decrypted before use, so a name's
//! suffix depends on the Secret's plaintext. Manifests are decrypted after the build, before variables are
//! substituted. Other readers get files as committed, and fetched files are never decrypted.

use crate::error::Fault;
use crate::loader::Loader;
use crate::path;
use crate::resource::Resource;
use bytes::Bytes;
use equate_manifest::object::Object;
use std::error::Error;

/// Decrypts files and objects. Plaintext passes unchanged.
pub trait Secrets {
    /// Decrypts a file; `None` if it is not encrypted.
    fn file(&self, file: &SecretFile<'_>) -> Result<Option<Vec<u8>>, SecretError>;

    /// Decrypts an object of the build in place.
    fn object(&self, object: &mut Object) -> Result<(), SecretError>;
}

/// The caller's own error for decryption.
pub type SecretError = Box<dyn Error + Send + Sync>;

/// A file that may be encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretFile<'f> {
    /// The name that determines the format: the path as written, or the key in the generated object.
    pub name: &'f str,
    /// Whether it is an entry of `envs`, which is dotenv unless its name says otherwise.
    pub is_env: bool,
    /// The file's content.
    pub content: &'f [u8],
}

/// The steps of a call that decrypts nothing.
const CALL_STEPS: usize = 10;

pub(crate) fn open_file(
    loader: &Loader<'_>,
    root: &str,
    path: &str,
    file: SecretFile<'_>,
) -> Result<Option<Bytes>, Fault> {
    let Some(secrets) = loader.secrets.filter(|_| path::split_label(root).0.is_empty()) else {
        return Ok(None);
    };
    loader.budget.spend(file.content.len() / 8)?;
    let opened = secrets.file(&file).map_err(|source| Fault::Decrypt {
        path: path.to_owned(),
        source,
    })?;
    let Some(opened) = opened else { return Ok(None) };
    loader.budget.charge(opened.len())?;
    Ok(Some(opened.into()))
}

pub(crate) fn open_object(loader: &Loader<'_>, resource: &mut Resource) -> Result<(), Fault> {
    let Some(secrets) = loader.secrets else {
        return Ok(());
    };
    loader.budget.spend(CALL_STEPS)?;
    secrets
        .object(&mut resource.object)
        .map_err(|source| Fault::DecryptObject {
            id: resource.id().without_namespace(),
            source,
        })
}
