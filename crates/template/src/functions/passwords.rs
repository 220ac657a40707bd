//! Password hashing, derivation and encryption.
//!
//! Each is slow by design; its steps are charged first.

use super::{Function, table};
use crate::call::{Call, Outcome};
use crate::fault::Fault;
use aes::cipher::{BlockDecrypt as _, BlockEncrypt as _, KeyInit as _};
use base64::Engine as _;
use blowfish::Blowfish;
use hmac::Mac;

pub(super) const FUNCTIONS: &[Function] = table! {
    "bcrypt" (Str) "random" => |call| {
        let hash = bcrypt(call, 0)?;
        call.done(hash)
    };
    "htpasswd" (Str, Str) "random" => |call| {
        let user = call.text(0).into_owned();
        if user.contains(':') {
            return call.done(format!("invalid username: {user}"));
        }
        let hash = bcrypt(call, 1)?;
        call.done(format!("{user}:{hash}"))
    };
    "derivePassword" (Uint32, Str, Str, Str, Str) => derive;
    "encryptAES" (Str, Str) "random" => encrypt;
    "decryptAES" (Str, Str) => decrypt;
};

/// The cost of a bcrypt hash, and of a password derived with scrypt.
const HASH_STEPS: u64 = 1_000_000;
const DERIVE_STEPS: u64 = 2_000_000;

/// The log2 of bcrypt's rounds.
const COST: u32 = 10;
const BCRYPT_PASSWORD_BYTES_MAX: usize = 72;

/// Hashes the password in an argument; the error is Go's.
fn bcrypt(call: &mut Call<'_, '_>, index: usize) -> Result<String, Fault> {
    let password = call.bytes(index);
    if password.len() > BCRYPT_PASSWORD_BYTES_MAX {
        let most = BCRYPT_PASSWORD_BYTES_MAX;
        return Ok(format!(
            "failed to encrypt string with bcrypt: bcrypt: password length exceeds {most} bytes"
        ));
    }
    let key = [password, &[0]].concat();
    call.exec.meter().steps(HASH_STEPS)?;
    let mut salt = [0; 16];
    call.exec.session().world.random(&mut salt);
    let (salt_text, hash_text) = (radix64(&salt), radix64(&bcrypt_hash(&key, &salt, COST)));
    Ok(format!("$2a${COST:02}${salt_text}{hash_text}"))
}

/// The first 23 bytes of bcrypt for a key, which ends in 0.
fn bcrypt_hash(key: &[u8], salt: &[u8; 16], cost: u32) -> [u8; 23] {
    let mut cipher: Blowfish = Blowfish::bc_init_state();
    cipher.salted_expand_key(salt, key);
    for _ in 0..1_u32 << cost {
        cipher.bc_expand_key(key);
        cipher.bc_expand_key(salt);
    }
    let mut out = [0; 24];
    for (block, words) in b"OrpheanBeholderScryDoubt".chunks(8).zip(out.chunks_mut(8)) {
        let word = |at: usize| u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
        let mut pair = [word(0), word(4)];
        for _ in 0..64 {
            pair = cipher.bc_encrypt(pair);
        }
        words[..4].copy_from_slice(&pair[0].to_be_bytes());
        words[4..].copy_from_slice(&pair[1].to_be_bytes());
    }
    let mut hash = [0; 23];
    hash.copy_from_slice(&out[..23]);
    hash
}

fn radix64(bytes: &[u8]) -> String {
    const ENGINE: base64::engine::GeneralPurpose = base64::engine::GeneralPurpose::new(
        &base64::alphabet::BCRYPT,
        base64::engine::general_purpose::NO_PAD,
    );
    ENGINE.encode(bytes)
}

/// The characters for a letter of a password template, as Master Password defines them.
fn characters(class: u8) -> &'static [u8] {
    match class {
        b'V' => b"AEIOU",
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'A' => b"AEIOUBCDFGHJKLMNPQRSTVWXYZ",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

/// The templates of a password type, as Master Password defines them.
fn templates(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        "long" => &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
        "medium" => &["CvcnoCvc", "CvcCvcno"],
        "short" => &["Cvcn"],
        "basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        "pin" => &["nnnn"],
        _ => return None,
    })
}

/// Derives the password of a site with the Master Password algorithm.
fn derive(call: &mut Call<'_, '_>) -> Outcome {
    const SCOPE: &[u8] = b"com.lyndir.masterpassword";
    // 2^15 rounds of blocks of 8 in 2 lanes take 32 MiB
    const PARAMS: (u8, u32, u32) = (15, 8, 2);
    let kind = call.text(1).into_owned();
    let Some(templates) = templates(&kind) else {
        return call.done(format!("cannot find password template {kind}"));
    };
    call.read()?;
    call.exec.meter().steps(DERIVE_STEPS)?;
    let (password, user, site) = (call.bytes(2), call.bytes(3), call.bytes(4));
    let length = |text: &[u8]| (text.len() as u32).to_be_bytes();
    let counter = match call.arg(0) {
        crate::Value::Uint(counter, _) => *counter as u32,
        _ => 0,
    };

    let failed =
        |error: &dyn std::fmt::Display| Fault::message(format!("failed to derive password: {error}"));
    let mut key = [0; 64];
    let (log_n, r, p) = PARAMS;
    let params = scrypt::Params::new(log_n, r, p).map_err(|error| failed(&error))?;
    let salt = [SCOPE, &length(user), user].concat();
    scrypt::scrypt(password, &salt, &params, &mut key).map_err(|error| failed(&error))?;
    let seed = <hmac::Hmac<sha2::Sha256> as Mac>::new_from_slice(&key);
    let mut seed = seed.map_err(|error| failed(&error))?;
    for part in [SCOPE, &length(site), site, &counter.to_be_bytes()] {
        seed.update(part);
    }
    let seed = seed.finalize().into_bytes();
    let template = templates[usize::from(seed[0]) % templates.len()];
    let derived = template.bytes().zip(&seed[1..]).map(|(class, byte)| {
        let characters = characters(class);
        char::from(characters[usize::from(*byte) % characters.len()])
    });
    let derived: String = derived.collect();
    call.done(derived)
}

const BLOCK: usize = 16;

/// The cipher of a password: its first 32 bytes, padded with zeros.
fn cipher(password: &[u8]) -> aes::Aes256 {
    let mut key = [0; 32];
    let length = password.len().min(key.len());
    key[..length].copy_from_slice(&password[..length]);
    aes::Aes256::new(&key.into())
}

/// AES-256 in CBC with a random IV in front, in base64.
fn encrypt(call: &mut Call<'_, '_>) -> Outcome {
    let plain = call.str(1);
    if plain.is_empty() {
        return Ok("".into());
    }
    call.made(plain.len().saturating_mul(3))?;
    let cipher = cipher(call.bytes(0));
    let mut before = [0; BLOCK];
    call.exec.session().world.random(&mut before);
    let mut out = before.to_vec();
    // always padded: with a whole block if nothing is missing
    let missing = BLOCK - plain.len() % BLOCK;
    let padding = vec![missing as u8; missing];
    let padded = [plain.as_bytes(), &padding].concat();
    for block in padded.chunks(BLOCK) {
        for (byte, plain) in before.iter_mut().zip(block) {
            *byte ^= plain;
        }
        let mut block = before.into();
        cipher.encrypt_block(&mut block);
        before = block.into();
        out.extend_from_slice(&before);
    }
    call.done(base64::engine::general_purpose::STANDARD.encode(out))
}

fn decrypt(call: &mut Call<'_, '_>) -> Outcome {
    let text = call.str(1);
    if text.is_empty() {
        return Ok("".into());
    }
    call.made(text.len().saturating_mul(2))?;
    let bytes = match super::encode::from_base64(text.as_bytes()) {
        Ok(bytes) => bytes,
        Err(at) => return call.fail(format!("illegal base64 data at input byte {at}")),
    };
    let count = bytes.len();
    let Some((mut before, encrypted)) = bytes.split_first_chunk::<BLOCK>() else {
        return call.fail(format!(
            "runtime error: slice bounds out of range [:{BLOCK}] with capacity {count}"
        ));
    };
    if encrypted.len() % BLOCK != 0 {
        return call.fail("crypto/cipher: input not full blocks");
    }
    let cipher = cipher(call.bytes(0));
    let mut plain = Vec::with_capacity(encrypted.len());
    for chunk in encrypted.as_chunks::<BLOCK>().0 {
        let mut block = (*chunk).into();
        cipher.decrypt_block(&mut block);
        plain.extend(block.iter().zip(before).map(|(byte, before)| byte ^ before));
        before = chunk;
    }
    let Some(missing) = plain.last().map(|last| usize::from(*last)) else {
        return call.fail("runtime error: index out of range [-1]");
    };
    let Some(kept) = plain.len().checked_sub(missing) else {
        let at = plain.len() as i64 - missing as i64;
        return call.fail(format!("runtime error: slice bounds out of range [:{at}]"));
    };
    plain.truncate(kept);
    call.done(plain)
}

#[cfg(test)]
mod tests {
    use super::{bcrypt_hash, radix64};
    use base64::Engine as _;

    /// Hashes made by Go's library: the same salt gives the same hash.
    #[test]
    fn bcrypt_equals_go() {
        let config = base64::engine::GeneralPurposeConfig::new()
            .with_decode_padding_mode(base64::engine::DecodePaddingMode::RequireNone)
            .with_decode_allow_trailing_bits(true);
        let engine = base64::engine::GeneralPurpose::new(&base64::alphabet::BCRYPT, config);
        for (password, hash) in [
            (
                "c",
                "$2a$10$CfiNdq6bBlMShh8BaxUGQOJNc8uWVJhq8TXoMrKZ25nNB/odGxETq",
            ),
            ("", "$2a$10$v8SSJQr/aRW5BCMPNpnN3.YE8V5EYMus/QJne4BUJjynta8H/yFuW"),
            (
                "héllo ☃",
                "$2a$10$MPztQyhFjXqQss4sKxqRMO9h/ivGks9elSIp8z16rEixGNKh54G9K",
            ),
            (
                &"ab".repeat(36),
                "$2a$10$DeQDb2Xvl.ywgtajFtmIs.WwZn8xl3hGm2.GloIlC.A4HJZpCrlW6",
            ),
        ] {
            let (head, text) = hash.split_at("$2a$10$".len());
            let (salt, wanted) = text.split_at(22);
            let salt: [u8; 16] = engine.decode(salt).unwrap().try_into().unwrap();
            let key = [password.as_bytes(), &[0]].concat();
            let hashed = radix64(&bcrypt_hash(&key, &salt, super::COST));
            assert_eq!(hashed, wanted, "{password} {head}");
        }
    }
}
