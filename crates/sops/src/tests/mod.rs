//! Fixtures of the real tool, refusals, damaged input, and the real tool itself.

mod encrypt;
mod fixtures;
mod mutations;
mod objects;
mod real;
mod refusals;
mod round_trips;

use std::path::{Path, PathBuf};

use crate::{Decrypter, ExposeSecret as _, Format, Keys};

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

fn read(name: &str) -> Vec<u8> {
    let path = testdata(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn keys(names: &[&str]) -> Keys {
    let mut keys = Keys::default();
    for name in names {
        keys.add(name, &read(&format!("keys/{name}"))).unwrap();
    }
    keys
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

fn decrypted(decrypter: &Decrypter<'_>, bytes: &[u8], format: Format) -> Result<Vec<u8>, String> {
    match decrypter.decrypt(bytes, format, format) {
        Ok(opened) => Ok(opened.expose_secret().to_vec()),
        Err(error) => Err(chain(&error)),
    }
}
