//! Files encrypted by the real tool, compared with its decryption. MACs are checked.

use super::{decrypted, keys, read};
use crate::{Decrypter, Format};

/// A file of `sealed/`, and the keys that decrypt it.
fn check(rows: &[(&str, &[&str])]) {
    let mut wrong = Vec::new();
    for (name, given) in rows {
        let keys = keys(given);
        let expected = read(&format!("opened/{name}"));
        let found = decrypted(
            &Decrypter::new(&keys),
            &read(&format!("sealed/{name}")),
            Format::of_path(name),
        );
        match found {
            Ok(found) if found == expected => {}
            Ok(found) => wrong.push(format!("{name}:\n{}", String::from_utf8_lossy(&found))),
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_format_is_decrypted() {
    check(&[
        ("everything.yaml", &["one.agekey"]),
        ("values.json", &["one.agekey"]),
        ("settings.env", &["one.agekey"]),
        ("blob.bin", &["one.agekey"]),
    ]);
}

#[test]
fn every_rule_is_followed() {
    check(&[
        ("secret.yaml", &["one.agekey"]),
        ("suffix.yaml", &["one.agekey"]),
        ("unencrypted_regex.yaml", &["one.agekey"]),
        ("mac_only.yaml", &["one.agekey"]),
        ("comments.yaml", &["one.agekey"]),
        ("uncommented.yaml", &["one.agekey"]),
    ]);
}

#[test]
fn every_recipient_decrypts() {
    check(&[
        ("secret.yaml", &["two.agekey"]),
        ("secret.yaml", &["two.agekey", "one.agekey", "cv.asc"]),
        ("cv.yaml", &["rsa.asc", "cv.asc"]),
        ("rsa.yaml", &["rsa.asc"]),
        ("mixed.env", &["two.agekey"]),
        ("mixed.env", &["cv.asc"]),
    ]);
}

#[test]
fn key_groups_are_combined() {
    check(&[
        ("groups.yaml", &["one.agekey", "two.agekey"]),
        ("groups.yaml", &["one.agekey", "cv.asc"]),
        ("groups.yaml", &["two.agekey", "cv.asc"]),
        ("groups.yaml", &["one.agekey", "two.agekey", "cv.asc"]),
        ("groups.env", &["two.agekey", "cv.asc"]),
    ]);
}
