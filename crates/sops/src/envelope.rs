//! One encrypted value: `ENC[AES256_GCM,data:…,iv:…,tag:…,type:…]`.
//!
//! The cipher is AES-256-GCM with a nonce of 32 bytes. The keys that lead to the value are its additional
//! data, so a value cannot be moved to another place.

use aes_gcm::aead::consts::U32;
use aes_gcm::aead::{AeadInPlace as _, KeyInit as _};
use aes_gcm::aes::Aes256;
use aes_gcm::{AesGcm, Nonce, Tag};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret as _, SecretSlice};
use zeroize::Zeroizing;

use crate::tree::{Comment, Node};

pub(crate) const DATA_KEY_BYTES: usize = 32;

pub(crate) const NONCE_BYTES: usize = 32;
pub(crate) const TAG_BYTES: usize = 16;

pub(crate) type Cipher = AesGcm<Aes256, U32>;

pub(crate) const PREFIX: &str = "ENC[AES256_GCM,data:";

/// The reason why a value cannot be decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// It is not an envelope.
    #[error("it is not encrypted: ENC[AES256_GCM,…] is missing")]
    NotSealed,
    /// A part is not base64 or has the wrong length.
    #[error("its {0} is damaged")]
    Damaged(&'static str),
    /// The authentication fails.
    #[error("it does not decrypt with this file's data key: it was changed or moved from another place")]
    Tampered,
    /// The content does not have the declared type.
    #[error("its value is not the {0} that its type declares")]
    Type(&'static str),
    /// The type is not one of SOPS's.
    #[error("its type is unknown")]
    UnknownType,
    /// The data key has the wrong length.
    #[error("the data key has {0} bytes and not {DATA_KEY_BYTES}")]
    DataKey(usize),
}

pub(crate) struct Opener(Box<Cipher>);

impl Opener {
    pub(crate) fn new(data_key: &SecretSlice<u8>) -> Result<Self, EnvelopeError> {
        let key = data_key.expose_secret();
        match Cipher::new_from_slice(key) {
            Ok(cipher) => Ok(Self(Box::new(cipher))),
            Err(_) => Err(EnvelopeError::DataKey(key.len())),
        }
    }

    /// An empty text is never encrypted.
    pub(crate) fn open(&self, sealed: &str, additional: &str) -> Result<Node, EnvelopeError> {
        if sealed.is_empty() {
            return Ok(Node::Text(sealed.into()));
        }
        let parts = Parts::split(sealed).ok_or(EnvelopeError::NotSealed)?;
        let decode = |text: &str, what| STANDARD.decode(text).map_err(|_| EnvelopeError::Damaged(what));
        let mut data = Zeroizing::new(decode(parts.data, "data")?);
        let (iv, tag) = (decode(parts.iv, "iv")?, decode(parts.tag, "tag")?);
        if iv.len() != NONCE_BYTES {
            return Err(EnvelopeError::Damaged("iv"));
        }
        if tag.len() != TAG_BYTES {
            return Err(EnvelopeError::Damaged("tag"));
        }
        let nonce = Nonce::<U32>::from_slice(&iv);
        self.0
            .decrypt_in_place_detached(nonce, additional.as_bytes(), &mut data, Tag::from_slice(&tag))
            .map_err(|_| EnvelopeError::Tampered)?;
        typed(data, parts.kind)
    }
}

pub(crate) fn is_sealed(text: &str) -> bool {
    Parts::split(text).is_some()
}

/// Still in base64.
struct Parts<'t> {
    data: &'t str,
    iv: &'t str,
    tag: &'t str,
    kind: &'t str,
}

impl<'t> Parts<'t> {
    fn split(text: &'t str) -> Option<Self> {
        let rest = text.trim_end().strip_prefix(PREFIX)?.strip_suffix(']')?;
        let (data, rest) = rest.split_once(",iv:")?;
        let (iv, rest) = rest.split_once(",tag:")?;
        let (tag, kind) = rest.split_once(",type:")?;
        Some(Self { data, iv, tag, kind })
    }
}

/// Booleans are spelled as in Python, or as Go reads them.
fn typed(data: Zeroizing<Vec<u8>>, kind: &str) -> Result<Node, EnvelopeError> {
    fn read<T: std::str::FromStr>(data: &[u8], what: &'static str) -> Result<T, EnvelopeError> {
        let text = std::str::from_utf8(data).ok();
        text.and_then(|text| text.parse().ok())
            .ok_or(EnvelopeError::Type(what))
    }
    Ok(match kind {
        "str" | "bytes" => Node::Text(data.into()),
        "int" => Node::Int(read(&data, "integer")?),
        "float" => {
            let float: f64 = read(&data, "float")?;
            if !float.is_finite() {
                return Err(EnvelopeError::Type("finite float"));
            }
            Node::Float(float)
        }
        "bool" => match data.as_slice() {
            b"1" | b"t" | b"T" | b"true" | b"TRUE" | b"True" => Node::Bool(true),
            b"0" | b"f" | b"F" | b"false" | b"FALSE" | b"False" => Node::Bool(false),
            _ => return Err(EnvelopeError::Type("boolean")),
        },
        "time" => Node::Time(read(&data, "date")?),
        "comment" => Node::Comment(Comment {
            text: data.into(),
            inline: false,
        }),
        _ => return Err(EnvelopeError::UnknownType),
    })
}
