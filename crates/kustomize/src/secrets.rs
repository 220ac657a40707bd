//! What is encrypted in a repository: opened by the caller, who has the keys.
//!
//! As in Flux's controller: a file that an entry of `secretGenerator` or of `patches` names is opened
//! before it is used, so that the suffix of a name is made of what the Secret holds; a manifest is
//! opened when the build is done, before variables are put in. A file is opened for these two alone: what
//! else reads it gets it as it is committed. So does what was fetched from elsewhere.

use crate::error::Fault;
use crate::loader::Loader;
use crate::path;
use crate::resource::Resource;
use bytes::Bytes;
use equate_manifest::object::Object;
use std::error::Error;

/// Opens what is encrypted. What is not is left as it is.
pub trait Secrets {
    /// A file's content; none where it is not encrypted.
    ///
    /// # Errors
    /// When it does not open; the text must not tell what is in it.
    fn file(&self, file: &SecretFile<'_>) -> Result<Option<Vec<u8>>, SecretError>;

    /// An object of the build, in place.
    ///
    /// # Errors
    /// When it does not open; the text must not tell what is in it.
    fn object(&self, object: &mut Object) -> Result<(), SecretError>;
}

/// Why something is not opened: the caller's own error.
pub type SecretError = Box<dyn Error + Send + Sync>;

/// A file that may be encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretFile<'f> {
    /// The name that tells its format: its path as it is written, or the key it is to have.
    pub name: &'f str,
    /// Whether it is an entry of `envs`, which is dotenv where its name tells nothing.
    pub is_env: bool,
    /// What is in it.
    pub content: &'f [u8],
}

/// Opens a file of the tree's own, if there is who does.
pub(crate) fn open_file(
    loader: &Loader<'_>,
    root: &str,
    path: &str,
    file: SecretFile<'_>,
) -> Result<Option<Bytes>, Fault> {
    let Some(secrets) = loader.secrets.filter(|_| path::split_label(root).0.is_empty()) else {
        return Ok(None);
    };
    let opened = secrets.file(&file).map_err(|source| Fault::Decrypt {
        path: path.to_owned(),
        source,
    })?;
    let Some(opened) = opened else { return Ok(None) };
    loader.budget.make(opened.len())?;
    Ok(Some(opened.into()))
}

/// Opens an object, if there is who does.
pub(crate) fn open_object(loader: &Loader<'_>, resource: &mut Resource) -> Result<(), Fault> {
    let Some(secrets) = loader.secrets else {
        return Ok(());
    };
    secrets
        .object(&mut resource.object)
        .map_err(|source| Fault::DecryptObject {
            id: resource.id().without_namespace(),
            source,
        })
}
