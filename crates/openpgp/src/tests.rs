//! Key rings in their forms. Signatures and certificates are tested in `equate-git` and `equate-helm`, on
//! files of the real `gpg` and `helm`.

use super::*;
use std::path::Path;

fn read(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../helm/testdata/provenance");
    std::fs::read(folder.join(name)).unwrap()
}

fn users(bytes: &[u8]) -> String {
    match KeyRing::read(bytes) {
        Err(error) => format!("error: {error}"),
        Ok(ring) => {
            let users = ring.certificates().iter().flat_map(Certificate::users);
            users.collect::<Vec<_>>().join(", ")
        }
    }
}

#[test]
fn every_form_of_key_ring_is_read() {
    let both = "bob <bob@example.com>, alice <alice@example.com>";
    let alice = "alice <alice@example.com>";
    for (name, want) in [
        ("alice.asc", alice),
        ("alice.gpg", alice),
        ("secret.gpg", alice),
        ("both.asc", both),
        ("both.kbx", both),
        ("legacy.gpg", both),
        ("empty.gpg", ""),
        ("cut.asc", "error: none of its keys can be read: "),
        ("cut.kbx", "error: the keybox is corrupt at byte 32"),
        ("garbage.gpg", "error: none of its keys can be read: "),
    ] {
        let got = users(&read(name));
        assert!(
            got == want || want.ends_with(": ") && got.starts_with(want),
            "{name}: {got}"
        );
    }
    assert_eq!(
        users(&vec![0; RING_BYTES_MAX + 1]),
        "error: it has 16777217 bytes, more than the limit of 16777216"
    );
    assert_eq!(users(b" \n-----BEGIN PGP MESSAGE-----\n"), "error: no keys found");
}

#[test]
fn ephemeral_and_foreign_blobs_are_skipped() {
    let mut keybox = read("both.kbx");
    let first = u32::from_be_bytes(keybox[..4].try_into().unwrap()) as usize;
    keybox[first + 7] |= 2;
    assert_eq!(users(&keybox), "alice <alice@example.com>");
    // X.509 certificates and empty blobs
    keybox[first + 4] = 3;
    keybox[first + 7] = 0;
    assert_eq!(users(&keybox), "alice <alice@example.com>");
}

/// Damage of any kind causes no panic, and truncation adds no key.
#[test]
fn damaged_rings_yield_no_new_keys() {
    for name in ["alice.asc", "alice.gpg", "both.kbx", "legacy.gpg", "secret.gpg"] {
        let bytes = read(name);
        let known = users(&bytes);
        for at in 0..bytes.len() {
            let left = users(&bytes[..at]);
            let is_known = |user: &str| known.contains(user);
            let is_alike = left.starts_with("error: ") || left.split(", ").all(is_known);
            assert!(is_alike, "{name} {at}: {left}");
            let mut wrong = bytes.clone();
            wrong[at] ^= 0xff;
            drop(users(&wrong));
        }
    }
}
