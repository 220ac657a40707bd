use super::*;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

fn read(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/provenance");
    fs::read(folder.join(name)).unwrap()
}

fn shown(verified: &Verified) -> String {
    let signed: String = verified
        .signed_by
        .iter()
        .map(|user| format!("Signed by: {user}\n"))
        .collect();
    let Verified {
        fingerprint, digest, ..
    } = verified;
    format!("{signed}Using Key With Fingerprint: {fingerprint}\nChart Hash Verified: {digest}")
}

fn of_ours(case: &Value) -> Option<&'static str> {
    let is = |prov: &str, ring: &str| case["prov"] == prov && case["ring"] == ring;
    // Helm 4.3 loses what comes after the first armored block of a file
    if is("good", "both.asc") {
        return Some("Signed by: alice <alice@example.com>");
    }
    is("sha1", "rsa.asc").then_some("Error: openpgp: invalid signature: SHA1 is no longer secure")
}

/// Answers of helm 4.3.1 for the files in `testdata/provenance`.
#[test]
fn verifies_as_helm_does() {
    let mut count = 0;
    for line in String::from_utf8(read("verdicts.jsonl")).unwrap().lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| case[key].as_str().unwrap();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(case["at"].as_u64().unwrap());
        let (archive, provenance) = (read(text("archive")), read(&format!("{}.prov", text("prov"))));
        let said = match KeyRing::read(&read(text("ring"))) {
            Err(error) => format!("Error: failed to load keyring: {error}"),
            Ok(ring) => match verify(&archive, text("name"), &provenance, &ring, now) {
                Ok(verified) => shown(&verified),
                Err(error) => format!("Error: {error}{}", cause(&error)),
            },
        };
        let is_alike = match of_ours(&case) {
            Some(ours) => said.starts_with(ours) && !text("said").starts_with(ours),
            // the texts of parsers and the causes of unusable keys are our own
            None => said == text("said") || is_refused(text("said")) && head(&said) == head(text("said")),
        };
        assert!(is_alike, "{line}\n got {said}");
        count += 1;
    }
    assert!(count >= 42, "{count}");
}

fn cause(error: &ProvenanceError) -> String {
    error
        .source()
        .map(|cause| format!(": {cause}"))
        .unwrap_or_default()
}

fn is_refused(said: &str) -> bool {
    ["openpgp: ", "failed to load keyring: ", "error converting YAML"]
        .iter()
        .any(|words| said.starts_with(&format!("Error: {words}")))
}

fn head(said: &str) -> Vec<&str> {
    let words = match said.starts_with("Error: openpgp: ") {
        true => 3,
        false => 2,
    };
    said.split(": ").take(words).collect()
}

#[test]
fn flaws_that_helm_does_not_distinguish() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let check = |provenance: &[u8], ring: &str, want: &str| {
        let ring = KeyRing::read(&read(ring)).unwrap();
        let archive = read("small-1.0.0.tgz");
        let error = verify(&archive, "small-1.0.0.tgz", provenance, &ring, now).unwrap_err();
        let got = format!("{error}{}", cause(&error));
        assert!(got.starts_with(want), "{got}");
    };
    let named = |name: &str| read(&format!("{name}.prov"));
    check(
        &vec![b'a'; PROVENANCE_BYTES_MAX + 1],
        "alice.asc",
        "the provenance has 6291457 bytes, more than 6291456",
    );
    check(&named("expired"), "expired.asc", "openpgp: key expired: key ");
    check(&named("lapsed"), "lapsed.asc", "openpgp: key expired: key ");
    check(
        &named("future"),
        "alice.asc",
        "openpgp: signature expired: it was made in the future: check the clocks",
    );
    let good = String::from_utf8(named("good")).unwrap();
    for (from, to, want) in [
        (
            "\n-----BEGIN PGP SIGNED",
            "\n -----BEGIN PGP SIGNED",
            "signature block not found",
        ),
        (
            "-----BEGIN PGP SIGNED MESSAGE-----",
            "-----BEGIN PGP SIGNED MESSAGE----- ",
            "signature block not found",
        ),
        (
            "\n-----END PGP SIGNATURE-----",
            "\n@-----END PGP SIGNATURE-----",
            "signature block not found",
        ),
        ("Hash: SHA512", "Hash: SHA512, CRC", "signature block not found"),
        (
            "BEGIN PGP SIGNATURE-----\n\nw",
            "BEGIN PGP SIGNATURE-----\n\n!",
            "openpgp: invalid data: ",
        ),
        // the signed text ends before its last line break
        (
            "\n-----BEGIN PGP SIGNATURE",
            "\n\n-----BEGIN PGP SIGNATURE",
            "openpgp: invalid signature: key ",
        ),
        ("- - a", "-- a", "openpgp: invalid signature: key "),
    ] {
        let changed = format!("\n{good}").replacen(from, to, 1);
        check(changed.as_bytes(), "alice.asc", want);
    }
    // unneeded dash escapes are valid
    let escaped = good.replacen("name: small", "- name: small", 1);
    let ring = KeyRing::read(&read("alice.asc")).unwrap();
    let archive = read("small-1.0.0.tgz");
    verify(&archive, "small-1.0.0.tgz", escaped.as_bytes(), &ring, now).unwrap();
}

#[test]
fn sums_of_every_kind() {
    let check = |text: &str, want: &str| {
        let got = signed_sum(text, "a").unwrap_or_else(|error| error.to_string());
        assert_eq!(got, want, "{text}");
    };
    let none = "provenance does not contain a SHA for a file named \"a\"";
    check("x\n...\nfiles: {a: sha256:b}", "sha256:b");
    check("x\n...\nFiles: {a: b, c: d}\n...\nfiles: {a: e}", "b");
    check("x\n...\nfiles: {a: 5}", "5");
    check("x\n...\nfiles: {a: }", "");
    check("x\n...\nfiles: {b: c}", none);
    check("x\n...\nfiles:", none);
    check("x\n...\n", none);
    check("...\nfiles: {a: b}", "message block must have at least two parts");
    let wrong = "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal";
    check(
        "\n...\n[]",
        &format!("{wrong} array into Go value of type provenance.SumCollection"),
    );
    check(
        "\n...\nfiles: {a: {}}",
        &format!("{wrong} object into Go struct field .files of type string"),
    );
    let many = format!("\n...\nfiles: [{}]", "a,".repeat(SUMS_MAX));
    check(&many, "error converting YAML to JSON: yaml");
}
