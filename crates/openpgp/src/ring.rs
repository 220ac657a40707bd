//! The public keys in a file.
//!
//! Three forms are read: armored blocks, as `gpg --export --armor` writes them; packets, as in a
//! `pubring.gpg`; and a keybox, `pubring.kbx`, in which GnuPG keeps packets with its own records. An
//! unreadable key is reported and does not hide the others. Secret keys yield their public half.

use pgp::armor::{Dearmor, DearmorOptions};
use pgp::composed::{Deserializable, SignedPublicKey, SignedSecretKey};
use pgp::packet::{Packet, PacketParser, PacketTrait as _};
use pgp::types::Tag;
use std::io::Read as _;

use crate::certificate::Certificate;

/// The most certificates of one file.
pub const CERTIFICATES_MAX: usize = 1_000;
/// The most bytes of one file.
pub const RING_BYTES_MAX: usize = 16 << 20;
/// The most problems reported for one file.
const NOTES_MAX: usize = 3;

const ARMOR: &str = "-----BEGIN PGP";
const PUBLIC_BLOCK: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const SECRET_BLOCK: &str = "-----BEGIN PGP PRIVATE KEY BLOCK-----";

/// The keys of one file, and the problems with the others.
#[derive(Debug, Clone, Default)]
pub struct KeyRing {
    certificates: Vec<Certificate>,
    unreadable: Vec<String>,
}

/// The reason why a file is not a key ring.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyRingError {
    /// It is too large.
    #[error("it has {bytes} bytes, more than the limit of {RING_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It is a keybox with inconsistent parts.
    #[error("the keybox is corrupt at byte {at}")]
    Keybox {
        /// The offset of the first inconsistency.
        at: usize,
    },
    /// It has a known form but no key.
    #[error("no keys found")]
    Empty,
    /// None of its keys can be read.
    #[error("none of its keys can be read: {}", .0.join("; "))]
    Unreadable(Vec<String>),
}

impl KeyRing {
    /// The public keys in the armored blocks of a text. Other text is ignored.
    pub fn armored(text: &str) -> Self {
        let mut ring = Self::default();
        if !ring.add_armored(text, &[PUBLIC_BLOCK]) {
            ring.note("it contains no armored public key".to_owned());
        }
        ring
    }

    /// Reads the keys of a file in any of the three forms. A file of packets may have no keys.
    ///
    /// # Errors
    /// The file has no keys or none that can be read.
    pub fn read(bytes: &[u8]) -> Result<Self, KeyRingError> {
        if bytes.len() > RING_BYTES_MAX {
            return Err(KeyRingError::TooLarge { bytes: bytes.len() });
        }
        let mut ring = Self::default();
        let is_packets = if is_keybox(bytes) {
            for block in keybox(bytes)? {
                ring.add_packets(block);
            }
            false
        } else if bytes.trim_ascii_start().starts_with(ARMOR.as_bytes()) {
            ring.add_armored(&String::from_utf8_lossy(bytes), &[PUBLIC_BLOCK, SECRET_BLOCK]);
            false
        } else {
            ring.add_packets(bytes);
            true
        };
        match (ring.certificates.is_empty(), ring.unreadable.is_empty()) {
            (true, false) => Err(KeyRingError::Unreadable(ring.unreadable)),
            (true, true) if !is_packets => Err(KeyRingError::Empty),
            _ => Ok(ring),
        }
    }

    /// The keys in file order.
    pub fn certificates(&self) -> &[Certificate] {
        &self.certificates
    }

    /// The first problems with keys that cannot be read.
    pub fn unreadable(&self) -> &[String] {
        &self.unreadable
    }

    fn note(&mut self, problem: String) {
        if self.unreadable.len() < NOTES_MAX {
            self.unreadable.push(problem);
        }
    }

    /// Adds the keys of the blocks that begin with one of these lines. Returns whether there are such
    /// blocks.
    fn add_armored(&mut self, text: &str, begins: &[&str]) -> bool {
        let mut starts: Vec<usize> = begins
            .iter()
            .flat_map(|begin| text.match_indices(begin).map(|(at, _)| at))
            .collect();
        starts.sort_unstable();
        for (index, start) in starts.iter().enumerate() {
            let end = starts.get(index + 1).copied().unwrap_or(text.len());
            let block = text.get(*start..end).unwrap_or_default();
            let mut packets = Vec::new();
            let options = DearmorOptions::default().set_limit(RING_BYTES_MAX);
            match Dearmor::with_options(block.as_bytes(), options).read_to_end(&mut packets) {
                Ok(_) => self.add_packets(&packets),
                // an unsupported key does not hide the others
                Err(error) => self.note(error.to_string()),
            }
        }
        !starts.is_empty()
    }

    /// Adds the keys of packets; a primary key begins a certificate. Foreign packets are found later, when
    /// signatures are verified.
    fn add_packets(&mut self, bytes: &[u8]) {
        let mut certificate: Vec<Packet> = Vec::new();
        for packet in PacketParser::new(bytes) {
            match packet {
                // GnuPG stores its own packets between those of a `pubring.gpg`
                Ok(Packet::Trust(_) | Packet::Marker(_) | Packet::Padding(_)) => {}
                Ok(packet) => {
                    if is_primary(&packet) {
                        self.add(std::mem::take(&mut certificate));
                    }
                    certificate.push(packet);
                }
                Err(error) => self.note(error.to_string()),
            }
            if self.certificates.len() >= CERTIFICATES_MAX {
                self.note(format!("more than {CERTIFICATES_MAX} keys"));
                return;
            }
        }
        self.add(certificate);
    }

    fn add(&mut self, packets: Vec<Packet>) {
        let Some(first) = packets.first() else {
            return;
        };
        let tag = first.tag();
        let packets = packets.into_iter().map(Ok).peekable();
        let parsed = match tag {
            Tag::PublicKey => SignedPublicKey::from_packets(packets).next(),
            Tag::SecretKey => {
                let secret = SignedSecretKey::from_packets(packets).next();
                secret.map(|secret| secret.map(|secret| secret.to_public_key()))
            }
            other => {
                self.note(format!("{other:?} where a key begins"));
                return;
            }
        };
        match parsed {
            Some(Ok(certificate)) => self.certificates.push(Certificate(certificate)),
            Some(Err(error)) => self.note(error.to_string()),
            None => {}
        }
    }
}

fn is_primary(packet: &Packet) -> bool {
    matches!(packet.tag(), Tag::PublicKey | Tag::SecretKey)
}

/// The head of a keybox blob: length, kind, version and flags.
const BLOB_HEAD_BYTES: usize = 8;
const BLOB_FIRST: u8 = 1;
const BLOB_OPENPGP: u8 = 2;
/// The flag of blobs that GnuPG itself excludes from the ring.
const BLOB_EPHEMERAL: u16 = 2;

fn is_keybox(bytes: &[u8]) -> bool {
    bytes.get(4) == Some(&BLOB_FIRST) && bytes.get(8..12) == Some(b"KBXf")
}

fn keybox(bytes: &[u8]) -> Result<Vec<&[u8]>, KeyRingError> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (block, length) = blob(&bytes[at..]).ok_or(KeyRingError::Keybox { at })?;
        blocks.extend(block);
        at += length;
    }
    Ok(blocks)
}

/// The certificate in the first blob, if any, and the blob's length.
fn blob(bytes: &[u8]) -> Option<(Option<&[u8]>, usize)> {
    let length = number(bytes, 0)?;
    let blob = bytes.get(..length)?;
    let [_, _, _, _, kind, _, flags @ ..] = *blob.first_chunk::<BLOB_HEAD_BYTES>()?;
    if kind != BLOB_OPENPGP || u16::from_be_bytes(flags) & BLOB_EPHEMERAL != 0 {
        return Some((None, length));
    }
    let (start, bytes) = (number(blob, 8)?, number(blob, 12)?);
    let block = blob.get(start..start.checked_add(bytes)?)?;
    Some((Some(block), length))
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let four = bytes.get(at..)?.first_chunk()?;
    usize::try_from(u32::from_be_bytes(*four)).ok()
}
