//! Decrypting panics on nothing, whatever the format, and a text without a readable recipient
//! stays closed.
#![no_main]

use equate_sops::{Decrypter, Format, Integrity, Keys};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let identity = include_bytes!("../../crates/sops/testdata/keys/one.agekey");
    Keys::from_secret([("one.agekey", identity.as_slice())]).expect("the tests' own key can be read")
});

fuzz_target!(|data: &[u8]| {
    let none = Keys::default();
    for format in [Format::Yaml, Format::Json, Format::Dotenv, Format::Binary] {
        let decrypter = Decrypter::new(&KEYS).with_integrity(Integrity::Skipped);
        drop(decrypter.decrypt(data, format, format));
        drop(decrypter.decrypt(data, format, Format::Yaml));
        assert!(Decrypter::new(&none).decrypt(data, format, format).is_err());
    }
});
