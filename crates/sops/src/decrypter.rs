//! Decrypts a file: read it, find the data key, decrypt the values, check the MAC, write it.

use secrecy::SecretSlice;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::budget::{Budget, Meter};
use crate::data_key::{self, DataKeyError};
use crate::envelope::{EnvelopeError, Opener};
use crate::format::{Format, FormatError, ReadError};
use crate::keys::Keys;
use crate::metadata::{Metadata, MetadataError};
use crate::transit::Transit;
use crate::tree::{Entry, Node};
use crate::walk::{self, Mac, WalkError, WalkOptions};

/// Whether to check a document's MAC.
///
/// Without it, each encrypted value is still authentic and in its place. But values may be removed, and
/// readable values changed. Flux never checks the MAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Integrity {
    /// The MAC must match.
    #[default]
    Checked,
    /// The MAC is not checked.
    Skipped,
}

/// Limits on the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The size of an encrypted file, in bytes.
    pub bytes_max: usize,
    /// The nesting depth.
    pub depth_max: usize,
    /// The number of values and comments, aliases included. A value counts once more for each 64 bytes and,
    /// when it is decrypted, also for the keys above it.
    pub entries_max: usize,
    /// The length of a key, in bytes.
    pub key_bytes_max: usize,
    /// The work with private keys and expressions, in steps of some ten nanoseconds.
    pub steps_max: u64,
}

impl Default for Limits {
    /// Flux's 5 MiB; 100 levels; 200,000 values; keys of 4 KiB; three seconds of work.
    fn default() -> Self {
        Self {
            bytes_max: 5 << 20,
            depth_max: 100,
            entries_max: 200_000,
            key_bytes_max: 4 << 10,
            steps_max: 300_000_000,
        }
    }
}

/// The reason why a file is not decrypted. It shows only keys and names of recipients.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file is too large.
    #[error("it has {found} bytes, more than the {max} that an encrypted file may have")]
    TooLong {
        /// Its size.
        found: usize,
        /// The limit.
        max: usize,
    },
    /// The text is not in its format.
    #[error("it cannot be read as {format}")]
    Format {
        /// The format.
        format: Format,
        /// The reason.
        #[source]
        source: FormatError,
    },
    /// The metadata is invalid.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The data key cannot be found.
    #[error(transparent)]
    DataKey(#[from] DataKeyError),
    /// The data key is invalid.
    #[error("its data key cannot be used")]
    DataKeyLength(#[source] EnvelopeError),
    /// A value cannot be decrypted.
    #[error(transparent)]
    Value(#[from] WalkError),
    /// The MAC cannot be decrypted.
    #[error("its MAC cannot be read")]
    Mac(#[source] EnvelopeError),
    /// The MAC does not match.
    #[error("it was changed since it was encrypted: its MAC does not match; encrypt it again")]
    Changed,
    /// The result cannot be written in the requested format.
    #[error("it cannot be written as {format}")]
    Output {
        /// The format.
        format: Format,
        /// The reason.
        #[source]
        source: FormatError,
    },
}

/// Decrypts with the keys of one Kustomization.
#[derive(Clone, Copy)]
pub struct Decrypter<'k> {
    keys: &'k Keys,
    transit: Option<&'k dyn Transit>,
    integrity: Integrity,
    limits: Limits,
    meter: Option<Meter<'k>>,
    on_value: Option<walk::ValueCallback<'k>>,
}

impl std::fmt::Debug for Decrypter<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Decrypter")
            .field("keys", &self.keys)
            .field("transit", &self.transit.is_some())
            .field("integrity", &self.integrity)
            .finish_non_exhaustive()
    }
}

impl<'k> Decrypter<'k> {
    /// Uses these keys, no transit engine, MAC checks and the default limits.
    pub fn new(keys: &'k Keys) -> Self {
        Self {
            keys,
            transit: None,
            integrity: Integrity::Checked,
            limits: Limits::default(),
            meter: None,
            on_value: None,
        }
    }

    /// Sets the client for transit engines.
    #[must_use]
    pub fn with_transit(self, transit: &'k dyn Transit) -> Self {
        Self {
            transit: Some(transit),
            ..self
        }
    }

    /// Sets whether MACs are checked.
    #[must_use]
    pub fn with_integrity(self, integrity: Integrity) -> Self {
        Self { integrity, ..self }
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Sets a check that is called often, with the work ahead in steps of some ten nanoseconds. It stops the
    /// work if it returns true.
    #[must_use]
    pub fn with_meter(self, meter: &'k dyn Fn(u64) -> bool) -> Self {
        Self {
            meter: Some(meter),
            ..self
        }
    }

    /// Sets a callback for every decrypted value, so that it can be masked in output.
    #[must_use]
    pub fn with_value_callback(self, on_value: &'k dyn Fn(&[u8])) -> Self {
        Self {
            on_value: Some(on_value),
            ..self
        }
    }

    /// Decrypts a file. Returns `None` if it is not encrypted.
    pub fn file(&self, bytes: &[u8], format: Format) -> Result<Option<SecretSlice<u8>>, FileError> {
        if !format.is_encrypted(bytes) {
            return Ok(None);
        }
        self.decrypt(bytes, format, format).map(Some)
    }

    /// Decrypts an encrypted text and writes it, possibly in another format.
    pub fn decrypt(&self, bytes: &[u8], from: Format, to: Format) -> Result<SecretSlice<u8>, FileError> {
        self.check_length(bytes.len())?;
        let (mut documents, metadata) = from.read(bytes, &self.budget()).map_err(|error| match error {
            ReadError::Format(source) => FileError::Format { format: from, source },
            ReadError::Metadata(error) => error.into(),
        })?;
        let opener = self.opener(&metadata)?;
        let options = WalkOptions {
            rule: &metadata.rule,
            mac_only_encrypted: metadata.mac_only_encrypted,
            without_comments: false,
            on_value: self.on_value,
        };
        let mac = walk::open(&mut documents, &opener, options, &self.budget())?;
        if self.integrity == Integrity::Checked {
            check(&metadata, &opener, &mac)?;
        }
        let mut written: Zeroizing<Vec<u8>> = to
            .write(&documents)
            .map_err(|source| FileError::Output { format: to, source })?;
        Ok(std::mem::take(&mut *written).into())
    }

    /// Decrypts a document that a build has rebuilt: its order and comments are lost, so the MAC cannot be
    /// checked.
    pub(crate) fn open_rebuilt(&self, document: &mut Vec<Entry>) -> Result<(), FileError> {
        let mut documents = [std::mem::take(document)];
        let metadata = crate::metadata::take(&mut documents)?;
        let opener = self.opener(&metadata)?;
        let options = WalkOptions {
            rule: &metadata.rule,
            mac_only_encrypted: metadata.mac_only_encrypted,
            without_comments: true,
            on_value: self.on_value,
        };
        walk::open(&mut documents, &opener, options, &self.budget())?;
        let [opened] = documents;
        *document = opened;
        Ok(())
    }

    pub(crate) fn check_length(&self, found: usize) -> Result<(), FileError> {
        let max = self.limits.bytes_max;
        if found > max {
            return Err(FileError::TooLong { found, max });
        }
        Ok(())
    }

    fn budget(&self) -> Budget<'k> {
        Budget::new(self.limits, self.meter)
    }

    fn opener(&self, metadata: &Metadata) -> Result<Opener, FileError> {
        let key = data_key::find(metadata, self.keys, self.transit, &self.budget())?;
        Opener::new(&key).map_err(FileError::DataKeyLength)
    }
}

fn check(metadata: &Metadata, opener: &Opener, mac: &Mac) -> Result<(), FileError> {
    let sealed = opener
        .open(&metadata.mac, &metadata.last_modified)
        .map_err(FileError::Mac)?;
    let same = match &sealed {
        Node::Text(text) => text.as_bytes().ct_eq(mac.0.as_bytes()).into(),
        _ => false,
    };
    if same { Ok(()) } else { Err(FileError::Changed) }
}
