//! SSH signatures, as made by `ssh-keygen -Y sign -n git`.
//!
//! Options of an `authorized_keys` line restrict logins and are ignored. A line with `cert-authority` or
//! `expiry-time` is skipped: its key is not a signer, or not forever.

use ssh_key::{Algorithm, HashAlg, PublicKey, SshSig, authorized_keys::Entry, public::KeyData};

use super::{KeyFile, SignatureError};

const NAMESPACE: &str = "git";
const RSA_BITS_MIN: usize = 2048;
/// The flag of a touched hardware key.
const USER_PRESENT: u8 = 1;

pub(super) fn verify(payload: &[u8], armor: &str, files: &[KeyFile]) -> Result<String, SignatureError> {
    let signature = SshSig::from_pem(normalize_lines(armor)).map_err(|error| SignatureError::Malformed {
        kind: "SSH",
        problem: error.to_string(),
    })?;
    acceptable(&signature)?;
    let mut notes = Vec::new();
    for file in files {
        for line in lines(&file.text) {
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

fn normalize_lines(armor: &str) -> String {
    let mut text = armor.replace("\r\n", "\n");
    text.push('\n');
    text
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
            let bits = key.n.as_positive_bytes().map_or(0, |bytes| bytes.len() * 8);
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
