//! The age file: a header that seals a file key for each recipient, and the payload.
//!
//! Only payloads of one chunk are read, because a data key has 32 bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::{hkdf, hmac};
use x25519_dalek::PublicKey;
use zeroize::Zeroizing;

use super::Identity;

const VERSION: &[u8] = b"age-encryption.org/v1\n";
const X25519_INFO: &[u8] = b"age-encryption.org/v1/X25519";
const FILE_KEY_BYTES: usize = 16;
const PAYLOAD_NONCE_BYTES: usize = 16;
const CHUNK_BYTES: usize = 64 << 10;
const TAG_BYTES: usize = 16;
/// The nonce of a chunk that is both first and last.
const ONLY_CHUNK: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const NO_NONCE: [u8; 12] = [0; 12];

const STANZAS_MAX: usize = 100;
/// The work of a key exchange, in steps of ten nanoseconds.
const EXCHANGE_STEPS: u64 = 6_000;

/// A file whose header is not authenticated yet.
pub(super) struct File<'b> {
    /// The X25519 stanzas; others are skipped.
    stanzas: Vec<Stanza>,
    /// The header up to `---`, inclusive.
    signed: &'b [u8],
    mac: Vec<u8>,
    nonce: &'b [u8],
    chunk: &'b [u8],
}

struct Stanza {
    ephemeral: [u8; 32],
    sealed: Vec<u8>,
}

impl<'b> File<'b> {
    pub(super) fn read(bytes: &'b [u8]) -> Option<Self> {
        let mut lines = Lines {
            all: bytes,
            at: VERSION.len(),
        };
        if !bytes.starts_with(VERSION) {
            return None;
        }
        let mut stanzas = Vec::new();
        for _ in 0..=STANZAS_MAX {
            let start = lines.at;
            let line = lines.next()?;
            if let Some(mac) = line.strip_prefix("--- ") {
                let (nonce, chunk) = bytes.get(lines.at..)?.split_at_checked(PAYLOAD_NONCE_BYTES)?;
                if chunk.len() > CHUNK_BYTES + TAG_BYTES {
                    return None;
                }
                return Some(Self {
                    stanzas,
                    signed: &bytes[..start + 3],
                    mac: decode(mac)?,
                    nonce,
                    chunk,
                });
            }
            let arguments = line.strip_prefix("-> ")?;
            let sealed = lines.body()?;
            if let Some(share) = arguments.strip_prefix("X25519 ")
                && sealed.len() == FILE_KEY_BYTES + TAG_BYTES
            {
                stanzas.push(Stanza {
                    ephemeral: decode(share)?.try_into().ok()?,
                    sealed,
                });
            }
        }
        None
    }

    /// The work to try an identity, in steps of ten nanoseconds.
    pub(super) fn steps(&self) -> u64 {
        let bytes = self.signed.len() + self.chunk.len();
        EXCHANGE_STEPS * (1 + self.stanzas.len() as u64) + bytes as u64
    }

    pub(super) fn open(&self, identity: &Identity) -> Option<Zeroizing<Vec<u8>>> {
        let mut keys = self.stanzas.iter().filter_map(|stanza| stanza.file_key(identity));
        let file_key = keys.next()?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &*derive(&[], &file_key, b"header")?);
        hmac::verify(&key, self.signed, &self.mac).ok()?;
        let key = derive(self.nonce, &file_key, b"payload")?;
        unseal(&key, ONLY_CHUNK, self.chunk)
    }
}

impl Stanza {
    fn file_key(&self, identity: &Identity) -> Option<Zeroizing<Vec<u8>>> {
        let shared = identity.secret.diffie_hellman(&PublicKey::from(self.ephemeral));
        if !shared.was_contributory() {
            return None;
        }
        let salt = [self.ephemeral, identity.public.to_bytes()].concat();
        let key = derive(&salt, shared.as_bytes(), X25519_INFO)?;
        unseal(&key, NO_NONCE, &self.sealed).filter(|key| key.len() == FILE_KEY_BYTES)
    }
}

struct Lines<'b> {
    all: &'b [u8],
    at: usize,
}

impl<'b> Lines<'b> {
    fn next(&mut self) -> Option<&'b str> {
        let rest = self.all.get(self.at..)?;
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        self.at += end + 1;
        std::str::from_utf8(&rest[..end]).ok()
    }

    /// Lines of 64 characters, the last one shorter.
    fn body(&mut self) -> Option<Vec<u8>> {
        let mut text = String::new();
        loop {
            let line = self.next()?;
            if line.len() > 64 || text.len() > CHUNK_BYTES {
                return None;
            }
            text.push_str(line);
            if line.len() < 64 {
                return decode(&text);
            }
        }
    }
}

fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD_NO_PAD.decode(text).ok()
}

fn derive(salt: &[u8], secret: &[u8], info: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
    let mut key = Zeroizing::new([0; 32]);
    let pseudorandom = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
    let info = [info];
    let expanded = pseudorandom.expand(&info, hkdf::HKDF_SHA256).ok()?;
    expanded.fill(&mut *key).ok()?;
    Some(key)
}

fn cipher(key: &[u8; 32]) -> Option<LessSafeKey> {
    UnboundKey::new(&CHACHA20_POLY1305, key)
        .ok()
        .map(LessSafeKey::new)
}

fn unseal(key: &[u8; 32], nonce: [u8; 12], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut buffer = Zeroizing::new(sealed.to_vec());
    let nonce = Nonce::assume_unique_for_key(nonce);
    let length = cipher(key)?
        .open_in_place(nonce, Aad::empty(), &mut buffer)
        .ok()?
        .len();
    buffer.truncate(length);
    Some(buffer)
}

#[cfg(test)]
pub(crate) fn seal(identity: &Identity, random: &[u8; 64], secret: &[u8]) -> Option<String> {
    let seal = |key: &[u8; 32], nonce, secret: &[u8]| {
        let mut buffer = secret.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        cipher(key)?
            .seal_in_place_append_tag(nonce, Aad::empty(), &mut buffer)
            .ok()?;
        Some(buffer)
    };
    let (ephemeral, rest) = random.split_at(32);
    let (file_key, nonce) = rest.split_at(16);
    let ephemeral = x25519_dalek::StaticSecret::from(<[u8; 32]>::try_from(ephemeral).ok()?);
    let share = PublicKey::from(&ephemeral);
    let shared = ephemeral.diffie_hellman(&identity.public);
    let salt = [share.to_bytes(), identity.public.to_bytes()].concat();
    let wrapped = seal(
        &*derive(&salt, shared.as_bytes(), X25519_INFO)?,
        NO_NONCE,
        file_key,
    )?;
    let mut file = VERSION.to_vec();
    let (share, wrapped) = (STANDARD_NO_PAD.encode(share), STANDARD_NO_PAD.encode(wrapped));
    file.extend_from_slice(format!("-> X25519 {share}\n{wrapped}\n---").as_bytes());
    let key = hmac::Key::new(hmac::HMAC_SHA256, &*derive(&[], file_key, b"header")?);
    let mac = STANDARD_NO_PAD.encode(hmac::sign(&key, &file));
    file.extend_from_slice(format!(" {mac}\n").as_bytes());
    file.extend_from_slice(nonce);
    file.extend_from_slice(&seal(&*derive(nonce, file_key, b"payload")?, ONLY_CHUNK, secret)?);
    Some(super::armor::add(&file))
}
