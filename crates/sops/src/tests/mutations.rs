//! Damaged documents yield an error or the right answer, never a panic.

use super::{decrypted, keys, read};
use crate::{Decrypter, ExposeSecret as _, Format, Keys};

const ROUNDS: u64 = 150;

/// Pseudo-random numbers, the same in every run.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

fn damaged(bytes: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    const BYTES: &[u8] = b"\0\t\n -:#[]{}\",&*!|>=_\xff09aZ";
    let mut bytes = bytes.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len());
        let end = (at + numbers.below(40)).min(bytes.len());
        match numbers.below(5) {
            0 => bytes[at] = BYTES[numbers.below(BYTES.len())],
            1 => bytes.insert(at, BYTES[numbers.below(BYTES.len())]),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let copied = bytes[at..end].to_vec();
                let to = numbers.below(bytes.len());
                bytes.splice(to..to, copied);
            }
            _ => bytes.truncate(at.max(1)),
        }
        if bytes.is_empty() {
            bytes.push(b'x');
        }
    }
    bytes
}

#[test]
fn damaged_documents_never_decrypt_wrongly() {
    let keys = keys(&["one.agekey", "two.agekey"]);
    let decrypter = Decrypter::new(&keys);
    let mut numbers = Numbers(0x5095);
    for name in [
        "everything.yaml",
        "groups.yaml",
        "values.json",
        "groups.env",
        "blob.bin",
    ] {
        let sealed = read(&format!("sealed/{name}"));
        let opened = read(&format!("opened/{name}"));
        for _ in 0..ROUNDS {
            let bytes = damaged(&sealed, &mut numbers);
            let found = decrypted(&decrypter, &bytes, Format::of_path(name));
            // the MAC does not cover keys of values, but this document has only the required one
            if name == "blob.bin" && found.is_ok() {
                assert_eq!(found.as_ref(), Ok(&opened));
            }
            if let Err(error) = found {
                assert!(!error.contains("correct horse"), "{error}");
            }
        }
    }
}

#[test]
fn damaged_keys_never_panic() {
    let given = keys(&["one.agekey", "cv.asc"]);
    let mut numbers = Numbers(0x0a9e);
    for name in ["one.agekey", "cv.asc"] {
        let key = read(&format!("keys/{name}"));
        for _ in 0..ROUNDS {
            drop(Keys::from_secret([(
                name,
                damaged(&key, &mut numbers).as_slice(),
            )]));
        }
    }
    let armored = |name: &str| {
        let text = String::from_utf8(read(name)).unwrap();
        let (start, end) = (text.find("-----BEGIN").unwrap(), text.find("-----END").unwrap());
        (
            text[..start].to_owned(),
            text[start..end].to_owned(),
            text[end..].to_owned(),
        )
    };
    for name in ["sealed/everything.yaml", "sealed/cv.yaml"] {
        let (before, inner, after) = armored(name);
        for _ in 0..ROUNDS {
            let inner = damaged(inner.as_bytes(), &mut numbers);
            let text = before.clone() + &String::from_utf8_lossy(&inner) + &after;
            if let Ok(opened) = Decrypter::new(&given).decrypt(text.as_bytes(), Format::Yaml, Format::Yaml) {
                let expected = read(&name.replace("sealed", "opened"));
                assert_eq!(opened.expose_secret(), expected.as_slice());
            }
        }
    }
}
