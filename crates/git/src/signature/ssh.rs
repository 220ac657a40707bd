//! SSH signatures, as made by `ssh-keygen -Y sign -n git`.
//!
//! Options of an `authorized_keys` line restrict logins and are ignored. A line with `cert-authority` or
//! `expiry-time` is skipped: its key is not a signer, or not forever. Certificates are not supported. The
//! library must not read one, because it follows certificates of certificates without a limit.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use russh::keys::ssh_key::{
    Algorithm, HashAlg, PublicKey, SshSig, authorized_keys::Entry, encoding::Decode as _, public::KeyData,
};

use super::{KeyFile, SignatureError};

const NAMESPACE: &str = "git";
const RSA_BITS_MIN: u32 = 2048;
const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";
/// Part of the name of every type of certificate.
const CERTIFICATE: &[u8] = b"-cert-v01@";
/// The flag of a touched hardware key.
const USER_PRESENT: u8 = 1;

pub(super) fn verify(payload: &[u8], armor: &str, files: &[KeyFile]) -> Result<String, SignatureError> {
    let signature = read(armor)?;
    acceptable(&signature)?;
    let mut notes = Vec::new();
    for file in files {
        for line in lines(&file.text) {
            if has_certificate(line) {
                notes.push(format!(
                    "{:?} has a line with a certificate, which is not supported",
                    file.name
                ));
                continue;
            }
            let entry: Entry = match line.parse() {
                Ok(entry) => entry,
                Err(error) => {
                    notes.push(format!(
                        "{:?} has a line that is not a public key: {error}",
                        file.name
                    ));
                    continue;
                }
            };
            let key: &PublicKey = entry.public_key();
            if key.key_data() != signature.public_key() {
                continue;
            }
            let fingerprint = key.fingerprint(HashAlg::Sha256).to_string();
            if let Some(option) = disqualifying_option(&entry) {
                notes.push(format!(
                    "key {fingerprint} in {:?} is limited by {option}, which is not supported",
                    file.name
                ));
                continue;
            }
            match key.verify(NAMESPACE, payload, &signature) {
                Ok(()) => return Ok(fingerprint),
                Err(_) => notes.push(format!("key {fingerprint} did not sign this content")),
            }
        }
    }
    Err(SignatureError::NoMatchingKey {
        place: "authorized keys",
        notes,
    })
}

fn read(armor: &str) -> Result<SshSig, SignatureError> {
    let malformed = |problem: String| SignatureError::Malformed { kind: "SSH", problem };
    let body = armor
        .trim()
        .strip_prefix(BEGIN)
        .and_then(|rest| rest.strip_suffix(END));
    let body = body.ok_or_else(|| malformed(format!("it is not between {BEGIN} and {END}")))?;
    let body: String = body.split_ascii_whitespace().collect();
    let body = STANDARD
        .decode(body)
        .map_err(|error| malformed(error.to_string()))?;
    if names_certificate(&body) {
        return Err(SignatureError::Refused {
            kind: "SSH",
            problem: "it was made with a certificate, which is not supported".to_owned(),
        });
    }
    let mut rest = body.as_slice();
    let signature = SshSig::decode(&mut rest).map_err(|error| malformed(error.to_string()))?;
    match rest.len() {
        0 => Ok(signature),
        more => Err(malformed(format!("{more} bytes follow it"))),
    }
}

fn names_certificate(bytes: &[u8]) -> bool {
    bytes.windows(CERTIFICATE.len()).any(|part| part == CERTIFICATE)
}

/// Whether a word of the line is or encodes a certificate.
fn has_certificate(line: &str) -> bool {
    line.split_whitespace().any(|word| {
        let decoded = STANDARD.decode(word);
        names_certificate(word.as_bytes()) || decoded.is_ok_and(|bytes| names_certificate(&bytes))
    })
}

fn acceptable(signature: &SshSig) -> Result<(), SignatureError> {
    let refused = |problem: String| Err(SignatureError::Refused { kind: "SSH", problem });
    if signature.namespace() != NAMESPACE {
        return refused(format!(
            "it was made for {:?}, not for {NAMESPACE:?}",
            signature.namespace()
        ));
    }
    match signature.signature().algorithm() {
        Algorithm::Dsa => return refused("DSA is no longer secure".to_owned()),
        Algorithm::Rsa { hash: None } => return refused("RSA with SHA-1 is no longer secure".to_owned()),
        _ => {}
    }
    match signature.public_key() {
        KeyData::Rsa(key) => {
            let bits = key.key_size();
            if bits < RSA_BITS_MIN {
                return refused(format!(
                    "an RSA key of {bits} bits is too short: at least {RSA_BITS_MIN} are required"
                ));
            }
        }
        KeyData::SkEd25519(_) | KeyData::SkEcdsaSha2NistP256(_) => {
            // the last five bytes: flags and a four-byte counter
            let bytes = signature.signature_bytes();
            let flags = bytes.len().checked_sub(5).and_then(|at| bytes.get(at));
            if flags.is_none_or(|flags| flags & USER_PRESENT == 0) {
                return refused("its hardware key signed without a touch".to_owned());
            }
        }
        _ => {}
    }
    Ok(())
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn disqualifying_option(entry: &Entry) -> Option<&'static str> {
    let has = |name: &str| {
        entry.config_opts().iter().any(|option| {
            option
                .split('=')
                .next()
                .is_some_and(|own| own.eq_ignore_ascii_case(name))
        })
    };
    ["cert-authority", "expiry-time"]
        .into_iter()
        .find(|name| has(name))
}
