//! Decrypting a file: read it, find the data key, open the values, check the MAC, write it.

use secrecy::SecretSlice;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::budget::Budget;
use crate::data_key::{self, DataKeyError};
use crate::envelope::{EnvelopeError, Opener};
use crate::format::{Format, FormatError, ReadError};
use crate::keys::Keys;
use crate::metadata::{Metadata, MetadataError};
use crate::transit::Transit;
use crate::tree::{Entry, Node};
use crate::walk::{self, Mac, Manner, WalkError};

/// Whether a document's MAC must be right.
///
/// Without it each sealed value is still what someone with the data key sealed for this very place;
/// but values may have been taken away or, where they are readable, changed. Flux never checks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Integrity {
    /// It must.
    #[default]
    Checked,
    /// It is not looked at.
    Skipped,
}

/// How much is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest encrypted file, in bytes.
    pub bytes_max: usize,
    /// The deepest nesting.
    pub depth_max: usize,
    /// The most values and comments, those that aliases repeat included, in any format. One of more
    /// than 64 bytes counts once more for each 64, and when it is opened so do the keys above it.
    pub entries_max: usize,
    /// The longest key.
    pub key_bytes_max: usize,
}

impl Default for Limits {
    /// Flux's 5 MiB; 100 levels; 200,000 values; keys of 4 KiB.
    fn default() -> Self {
        Self {
            bytes_max: 5 << 20,
            depth_max: 100,
            entries_max: 200_000,
            key_bytes_max: 4 << 10,
        }
    }
}

/// Why a file is not decrypted. Says nothing of what is in it but keys and names of recipients.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is too long.
    #[error("it has {found} bytes, more than the {max} that an encrypted file may have")]
    TooLong {
        /// How many it has.
        found: usize,
        /// How many it may have.
        max: usize,
    },
    /// It is not in its format.
    #[error("it cannot be read as {format}")]
    Format {
        /// The format.
        format: Format,
        /// What is wrong.
        #[source]
        source: FormatError,
    },
    /// Its metadata is not right.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// Its data key cannot be had.
    #[error(transparent)]
    DataKey(#[from] DataKeyError),
    /// Its data key is none.
    #[error("its data key cannot be used")]
    DataKeyLength(#[source] EnvelopeError),
    /// A value does not open.
    #[error(transparent)]
    Value(#[from] WalkError),
    /// The MAC does not open.
    #[error("its MAC cannot be read")]
    Mac(#[source] EnvelopeError),
    /// The MAC is another one.
    #[error("it was changed since it was encrypted: its MAC does not match; encrypt it again")]
    Changed,
    /// It does not go into the format that is wanted.
    #[error("it cannot be written as {format}")]
    Output {
        /// The format.
        format: Format,
        /// What is wrong.
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
    stop: Option<&'k dyn Fn() -> bool>,
    told: Option<walk::Told<'k>>,
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
    /// With these keys, no transit engine, the MAC checked, the usual limits.
    pub fn new(keys: &'k Keys) -> Self {
        Self {
            keys,
            transit: None,
            integrity: Integrity::Checked,
            limits: Limits::default(),
            stop: None,
            told: None,
        }
    }

    /// Asks transit engines through this.
    #[must_use]
    pub fn with_transit(self, transit: &'k dyn Transit) -> Self {
        Self {
            transit: Some(transit),
            ..self
        }
    }

    /// What is done about MACs.
    #[must_use]
    pub fn with_integrity(self, integrity: Integrity) -> Self {
        Self { integrity, ..self }
    }

    /// How much is taken.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Asks this again and again whether to end, for whoever waits no longer.
    #[must_use]
    pub fn with_stop(self, stop: &'k dyn Fn() -> bool) -> Self {
        Self {
            stop: Some(stop),
            ..self
        }
    }

    /// Tells this of every value that was opened, so that it can be masked where it might be shown.
    #[must_use]
    pub fn with_told(self, told: &'k dyn Fn(&[u8])) -> Self {
        Self {
            told: Some(told),
            ..self
        }
    }

    /// Decrypts a file, `None` if it is not encrypted: it is to be left as it is.
    pub fn file(&self, bytes: &[u8], format: Format) -> Result<Option<SecretSlice<u8>>, FileError> {
        if !format.is_encrypted(bytes) {
            return Ok(None);
        }
        self.decrypt(bytes, format, format).map(Some)
    }

    /// Decrypts an encrypted text, and writes it in a format that may be another.
    pub fn decrypt(&self, bytes: &[u8], from: Format, to: Format) -> Result<SecretSlice<u8>, FileError> {
        self.check_length(bytes.len())?;
        let (mut documents, metadata) = from.read(bytes, &self.budget()).map_err(|error| match error {
            ReadError::Format(source) => FileError::Format { format: from, source },
            ReadError::Metadata(error) => error.into(),
        })?;
        let opener = self.opener(&metadata)?;
        let manner = Manner {
            rule: &metadata.rule,
            mac_only_encrypted: metadata.mac_only_encrypted,
            without_comments: false,
            told: self.told,
        };
        let mac = walk::open(&mut documents, &opener, manner, &self.budget())?;
        if self.integrity == Integrity::Checked {
            check(&metadata, &opener, &mac)?;
        }
        let mut written: Zeroizing<Vec<u8>> = to
            .write(&documents)
            .map_err(|source| FileError::Output { format: to, source })?;
        Ok(std::mem::take(&mut *written).into())
    }

    /// Opens the values of a document that a build has changed since: whose order is gone, whose
    /// comments are gone, whose MAC therefore cannot be checked.
    pub(crate) fn open_rebuilt(&self, document: &mut Vec<Entry>) -> Result<(), FileError> {
        let mut documents = [std::mem::take(document)];
        let metadata = crate::metadata::take(&mut documents)?;
        let opener = self.opener(&metadata)?;
        let manner = Manner {
            rule: &metadata.rule,
            mac_only_encrypted: metadata.mac_only_encrypted,
            without_comments: true,
            told: self.told,
        };
        walk::open(&mut documents, &opener, manner, &self.budget())?;
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
        Budget::new(self.limits, self.stop)
    }

    fn opener(&self, metadata: &Metadata) -> Result<Opener, FileError> {
        let key = data_key::find(metadata, self.keys, self.transit)?;
        Opener::new(&key).map_err(FileError::DataKeyLength)
    }
}

/// Holds the MAC over the values against the one that was sealed.
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
