//! Refused input and its messages, which contain no secrets.

use super::encrypt::{Order, encrypt};
use super::{chain, decrypted, keys, read, testdata};
use crate::budget::Budget;
use crate::{Decrypter, Format, Keys, Limits, Transit, TransitError, TransitKey};

/// A fixture, a text in it and its replacement, the given keys, and the error.
type Row<'r> = (&'r str, (&'r str, &'r str), &'r [&'r str], &'r str);

fn check(rows: &[Row<'_>]) {
    let mut wrong = Vec::new();
    for (name, (from, to), given, expected) in rows {
        let sealed = String::from_utf8(read(&format!("sealed/{name}"))).unwrap();
        assert!(sealed.contains(from), "{name} has no {from}");
        let sealed = sealed.replacen(from, to, 1);
        let keys = keys(given);
        let found = decrypted(&Decrypter::new(&keys), sealed.as_bytes(), Format::of_path(name));
        let found = found.map_or_else(|error| error, |_| "decrypted".to_owned());
        if found != *expected {
            wrong.push(format!(
                "{name} with {to}\n  expected {expected}\n  found    {found}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const ONE: &[&str] = &["one.agekey"];

#[test]
fn changed_documents_are_refused() {
    check(&[
        (
            "secret.yaml",
            ("kind: Secret", "kind: Secrets"),
            ONE,
            "it was changed since it was encrypted: its MAC does not match; encrypt it again",
        ),
        (
            "mac_only.yaml",
            ("kind: Secret", "kind: Secrets"),
            ONE,
            "decrypted",
        ),
        (
            "secret.yaml",
            ("    user:", "    usher:"),
            ONE,
            "the value at stringData.usher: it does not decrypt with this file's data key: it was changed or \
             moved from another place",
        ),
        (
            "secret.yaml",
            ("type:str]", "type:strange]"),
            ONE,
            "the value at stringData.user: its type is unknown",
        ),
        (
            "secret.yaml",
            ("type:str]", "type:int]"),
            ONE,
            "the value at stringData.user: its value is not the integer that its type declares",
        ),
        (
            "secret.yaml",
            (",iv:", ",iv:A"),
            ONE,
            "the value at stringData.user: its iv is damaged",
        ),
        (
            "secret.yaml",
            ("lastmodified: \"2026", "lastmodified: \"2025"),
            ONE,
            "its MAC cannot be read: it does not decrypt with this file's data key: it was changed or moved \
             from another place",
        ),
        (
            "groups.env",
            ("__map_recipient", "__map_enc"),
            ONE,
            "sops_key_groups__list_0__map_age__list_0__map_enc contradicts another key about the same \
             value",
        ),
    ]);
}

#[test]
fn damaged_metadata_is_refused() {
    check(&[
        (
            "secret.yaml",
            ("lastmodified", "last"),
            ONE,
            "sops.lastmodified is missing",
        ),
        (
            "secret.yaml",
            ("        - recipient:", "        - receiver:"),
            ONE,
            "sops.age[0].recipient is missing",
        ),
        (
            "secret.yaml",
            ("        - recipient:", "        - 1\n        - recipient:"),
            ONE,
            "sops.age[0] is a number and not a mapping",
        ),
        (
            "secret.yaml",
            ("    age:", "    ages:"),
            ONE,
            "sops names no recipient of its data key",
        ),
        (
            "secret.yaml",
            ("    age:", "    unencrypted_suffix: x\n    age:"),
            ONE,
            "sops has both unencrypted_suffix and encrypted_regex, and only one rule may be set",
        ),
        (
            "secret.yaml",
            ("sops:", "soup:"),
            ONE,
            "it has no SOPS metadata, so it is not encrypted",
        ),
        (
            "secret.yaml",
            ("sops:", "sops: [x]\nsoup:"),
            ONE,
            "sops is a list and not a mapping",
        ),
    ]);
}

#[test]
fn malformed_files_are_refused() {
    check(&[
        (
            "secret.yaml",
            ("kind:", "apiVersion:"),
            ONE,
            "it cannot be read as YAML: 2:1: the key \"apiVersion\" appears twice",
        ),
        (
            "secret.yaml",
            ("kind: Secret", "kind: !thing Secret"),
            ONE,
            "it cannot be read as YAML: 2:14: the tag !thing is not supported",
        ),
        (
            "secret.yaml",
            ("kind: Secret", "1: Secret"),
            ONE,
            "it cannot be read as YAML: 2:1: a key is a number and not a string",
        ),
        (
            "values.json",
            ("{", "{\"z\": 0,"),
            ONE,
            "it cannot be read as JSON: 2:4: the key \"z\" appears twice",
        ),
        (
            "settings.env",
            ("EMPTY=", "EMPTY"),
            ONE,
            "it cannot be read as dotenv: 5:1: there is no = in this line",
        ),
    ]);
    let keys = Keys::default();
    let found = Decrypter::new(&keys).file(b"[a]\nb = c\n[sops]\n", Format::Ini);
    assert_eq!(
        chain(&found.unwrap_err()),
        "it cannot be read as INI: INI files are not supported; use dotenv, YAML or binary"
    );
}

#[test]
fn missing_private_keys_are_named() {
    check(&[
        (
            "cv.yaml",
            ("kind", "kind"),
            &["one.agekey", "rsa.asc"],
            "none of the given keys decrypts its data key: PGP 3FE20A9001A587678EC33BF2ACF9351DDBADB890: its \
             private key is not among the 1 given; add a key in the Secret that ends in .asc",
        ),
        (
            "everything.yaml",
            ("kind", "kind"),
            &["two.agekey", "rsa.asc"],
            "none of the given keys decrypts its data key: age \
             age12uqef4xwlk0dyhllr3xn5msa0yd5vthhvvf3s2qkdzvt5p2xf3yqrc469l: its private key is not among the \
             1 given; add a key in the Secret that ends in .agekey",
        ),
        (
            "everything.yaml",
            ("recipient: age1", "recipient: age1pq1"),
            ONE,
            "none of the given keys decrypts its data key: age \
             age1pq12uqef4xwlk0dyhllr3xn5msa0yd5vthhvvf3s2qkdzvt5p2xf3yqrc469l: this kind of key is not \
             supported yet; add an age, PGP or Vault recipient",
        ),
        (
            "everything.yaml",
            ("BEGIN AGE", "BEGIN OLD"),
            ONE,
            "none of the given keys decrypts its data key: age \
             age12uqef4xwlk0dyhllr3xn5msa0yd5vthhvvf3s2qkdzvt5p2xf3yqrc469l: its encrypted data key is damaged \
             (age armor)",
        ),
        (
            "groups.yaml",
            ("kind", "kind"),
            &["two.agekey"],
            "its data key needs 2 of 3 key groups, and only 1 could be decrypted: age \
             age12uqef4xwlk0dyhllr3xn5msa0yd5vthhvvf3s2qkdzvt5p2xf3yqrc469l: its private key is not among the \
             1 given; add a key in the Secret that ends in .agekey; PGP \
             3FE20A9001A587678EC33BF2ACF9351DDBADB890: its private key is not among the 0 given; add a key in \
             the Secret that ends in .asc",
        ),
    ]);
}

/// A document with this as its only recipient list.
fn only_for(list: &str) -> String {
    format!(
        "a: ENC[AES256_GCM,data:AA==,iv:AA==,tag:AA==,type:str]\nsops:\n    {list}\n    lastmodified: \"2026\"\n    \
         mac: ENC[AES256_GCM,data:AA==,iv:AA==,tag:AA==,type:str]\n"
    )
}

struct Refusing;

impl Transit for Refusing {
    fn open(&self, key: &TransitKey<'_>) -> Result<zeroize::Zeroizing<Vec<u8>>, TransitError> {
        let request = key.request()?;
        request.read(403, br#"{"errors":["permission\n\u001b denied"]}"#)
    }
}

#[test]
fn unsupported_services_are_named() {
    let keys = keys(ONE);
    let alone = Decrypter::new(&keys);
    let asking = alone.with_transit(&Refusing);
    let vault = |engine: &str| {
        only_for(&format!(
            "hc_vault: [{{vault_address: 'https://vault.example.com/', engine_path: {engine}, key_name: k, enc: x}}]"
        ))
    };
    let unsupported = "this kind of key is not supported yet; add an age, PGP or Vault recipient";
    for (document, decrypter, failure) in [
        (
            only_for("kms: [{arn: 'arn:aws:kms:eu-central-1:1:key/2', enc: x}]"),
            alone,
            format!("AWS KMS arn:aws:kms:eu-central-1:1:key/2: {unsupported}"),
        ),
        (
            only_for("gcp_kms: [{resource_id: projects/p, enc: x}]"),
            alone,
            format!("GCP KMS projects/p: {unsupported}"),
        ),
        (
            only_for("azure_kv: [{vault_url: 'https://v.example.com', name: n, enc: x}]"),
            alone,
            format!("Azure Key Vault https://v.example.com: {unsupported}"),
        ),
        (
            only_for("hckms: [{key_id: 'r:k', enc: x}]"),
            alone,
            format!("Huawei Cloud KMS r:k: {unsupported}"),
        ),
        (
            only_for("age: [{recipient: ssh-ed25519 AAAA, enc: x}]"),
            alone,
            format!("age ssh-ed25519 AAAA: {unsupported}"),
        ),
        (
            only_for(&format!(
                "age: [{{recipient: age1pq1{}, enc: x}}]",
                "q".repeat(2_000)
            )),
            alone,
            format!("age age1pq1{}…: {unsupported}", "q".repeat(113)),
        ),
        (
            vault("transit"),
            alone,
            "Vault https://vault.example.com/v1/transit/keys/k: no token is given for it (sops.vault-token)"
                .to_owned(),
        ),
        (
            vault("transit"),
            asking,
            "Vault https://vault.example.com/v1/transit/keys/k: it answers 403: permission denied".to_owned(),
        ),
        (
            vault("../sys"),
            asking,
            "Vault https://vault.example.com/v1/../sys/keys/k: \"..\" is not a valid key or engine name"
                .to_owned(),
        ),
    ] {
        let found = decrypted(&decrypter, document.as_bytes(), Format::Yaml);
        assert_eq!(
            found,
            Err(format!("none of the given keys decrypts its data key: {failure}"))
        );
    }
}

#[test]
fn invalid_key_entries_are_refused() {
    let pq = "AGE-SECRET-KEY-PQ-1QQQ";
    for (name, value, expected) in [
        (
            "a.agekey",
            "x",
            "a.agekey: line 1 is not an age identity: it must begin with AGE-SECRET-KEY-1",
        ),
        ("a.agekey", "# only\n\n", "a.agekey: it contains no age identity"),
        (
            "a.agekey",
            "\nAGE-SECRET-KEY-1QQQ",
            "a.agekey: the age identity in line 2 is damaged: its checksum or length is wrong",
        ),
        (
            "a.agekey",
            pq,
            "a.agekey: the age identity in line 1 is a post-quantum one (AGE-SECRET-KEY-PQ-1), which is not \
             supported yet",
        ),
        (
            "a.agekey",
            "AGE-PLUGIN-YUBIKEY-1QQQ",
            "a.agekey: the age identity in line 1 needs a plugin, and plugins are not supported",
        ),
        ("sops.aws-kms", "anything", "read"),
        ("notes.txt", "anything", "read"),
        ("sops.vault-token", " token\n", "read"),
    ] {
        let found = Keys::from_secret([(name, value.as_bytes())]);
        let found = found.map_or_else(|error| chain(&error), |_| "read".to_owned());
        assert_eq!(found, expected);
    }
    // the rest is not read
    let many = [read("keys/one.agekey").repeat(1001), b"\nx\n".to_vec()].concat();
    let many = Keys::from_secret([("a.agekey", many.as_slice())]).unwrap_err();
    assert_eq!(many.to_string(), "there are more than 1000 keys");
    let locked = Keys::from_secret([("k.asc", read("keys/locked.asc").as_slice())]).unwrap_err();
    let text = chain(&locked);
    assert!(
        text.starts_with("k.asc: the PGP key ") && text.ends_with("export it without one"),
        "{text}"
    );
    assert!(testdata("keys/locked.asc").exists());
    let junk = Keys::from_secret([("k.asc", b"x".as_slice())]).unwrap_err();
    assert!(chain(&junk).starts_with("k.asc: "), "{}", chain(&junk));
}

#[test]
fn input_limits_are_enforced() {
    let keys = keys(ONE);
    let check = |limits: Limits, text: &str, format, expected: &str| {
        let found = decrypted(
            &Decrypter::new(&keys).with_limits(limits),
            text.as_bytes(),
            format,
        );
        let found = found.map_or_else(|error| error, |_| "decrypted".to_owned());
        assert_eq!(found, expected);
    };
    let usual = Limits::default();
    let short = Limits {
        bytes_max: 100,
        ..usual
    };
    let blob = String::from_utf8(read("sealed/blob.bin")).unwrap();
    check(
        short,
        &blob,
        Format::Binary,
        "it has 1057 bytes, more than the 100 that an encrypted file may have",
    );
    let flat = Limits {
        depth_max: 5,
        ..usual
    };
    check(
        flat,
        "a: [[[[[[[[1]]]]]]]]\nsops: {mac: ENC[}\n",
        Format::Yaml,
        "it cannot be read as YAML: 1:9: recursion limit exceeded",
    );
    let deep = |levels| format!("{{\"a\": {}1{}}}", "[".repeat(levels), "]".repeat(levels));
    let refused = "it cannot be read as JSON: 1:106: it is nested deeper than 100 levels";
    check(usual, &deep(100), Format::Json, refused);
    let missing = "it has no SOPS metadata, so it is not encrypted";
    check(usual, &deep(99), Format::Json, missing);
}

/// Everything that costs something has a limit, in each format.
#[test]
fn entry_limits_are_enforced() {
    let keys = keys(ONE);
    let check = |format, text: &str, expected: &str| {
        let found = decrypted(&Decrypter::new(&keys), text.as_bytes(), format);
        let found = found.map_or_else(|error| error, |_| "decrypted".to_owned());
        assert_eq!(found, format!("it cannot be read as {format}: {expected}"));
    };
    let many = "there are more than 200000 values and comments (long ones count several times)";
    let bomb = format!(
        "a: &a {}\nb: [{}]\nsops: {{mac: ENC[}}\n",
        "x".repeat(100_000),
        "*a,".repeat(1_000)
    );
    check(Format::Yaml, &bomb, &format!("2:383: {many}"));
    check(Format::Yaml, &"#\n".repeat(200_001), &format!("200001:1: {many}"));
    check(
        Format::Dotenv,
        &"#\n".repeat(200_001),
        &format!("200001:1: {many}"),
    );
    check(
        Format::Dotenv,
        &"a=\n".repeat(200_001),
        &format!("200001:1: {many}"),
    );
    let list = format!("{{\"a\": [{}1]}}", "1,".repeat(200_000));
    check(Format::Json, &list, &format!("1:400004: {many}"));
    let key = "k".repeat(4_097);
    let long = "a key is longer than 4096 bytes";
    check(Format::Yaml, &format!("? {key}\n: 1\n"), &format!("1:3: {long}"));
    check(
        Format::Json,
        &format!("{{\"{key}\": 1}}"),
        &format!("1:4100: {long}"),
    );
    check(Format::Dotenv, &format!("{key}=1\n"), &format!("1:1: {long}"));
    check(
        Format::Json,
        "{\"a\": 9223372036854775808}",
        "1:25: a number beyond 64 bits, which SOPS cannot store",
    );
}

/// A value is authenticated with its path, so the path counts with each value.
#[test]
fn long_paths_count_with_every_value() {
    let keys = keys(ONE);
    let order = |format| Order {
        format,
        rule: Some(("encrypted_regex", "^none$")),
        mac_only_encrypted: true,
        groups: vec![keys.age.clone()],
        threshold: 1,
    };
    let (key, items) = ("k".repeat(4_000), "1,".repeat(3_200));
    for (format, plain) in [
        (Format::Json, format!("{{\"{key}\": [{items}1]}}")),
        (Format::Yaml, format!("? {key}\n: [{items}1]\n")),
    ] {
        let sealed = encrypt(plain.as_bytes(), &order(format));
        let found = decrypted(&Decrypter::new(&keys), &sealed, format).unwrap_err();
        assert!(
            found.ends_with("there are more than 200000 values and comments (long ones count several times)"),
            "{found}"
        );
    }
}

/// A comment is matched once, however many are above a value. JSON has none.
#[test]
fn comments_are_matched_once() {
    let keys = keys(ONE);
    let comments = "#all of this\n".repeat(100_000);
    let yaml = format!("a:\n{}    b: c\n", comments.replace('#', "    #"));
    let dotenv = format!("{comments}B=c\n");
    let began = std::time::Instant::now();
    let late = |_| began.elapsed() > std::time::Duration::from_secs(120);
    let decrypter = Decrypter::new(&keys).with_meter(&late);
    let rule = ("encrypted_comment_regex", "^none$");
    for (format, plain) in [(Format::Yaml, yaml), (Format::Dotenv, dotenv)] {
        let order = Order {
            format,
            rule: Some(rule),
            mac_only_encrypted: false,
            groups: vec![keys.age.clone()],
            threshold: 1,
        };
        let sealed = String::from_utf8(encrypt(plain.as_bytes(), &order)).unwrap();
        // nothing is encrypted under either rule
        let other = sealed
            .replace("encrypted_comment_regex", "unencrypted_comment_regex")
            .replace("^none$", "^all");
        for sealed in [sealed, other] {
            let opened = decrypted(&decrypter, sealed.as_bytes(), format);
            assert_eq!(
                opened.map(|opened| opened == plain.as_bytes()),
                Ok(true),
                "{format}"
            );
        }
    }
}

/// An age file with a hundred key exchanges for nobody.
fn exchanges(count: usize) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
    let part = STANDARD_NO_PAD.encode([9; 32]);
    let mut file = "age-encryption.org/v1\n".to_owned();
    for _ in 0..count {
        file += &format!("-> X25519 {part}\n{part}\n");
    }
    file += &format!(
        "-> scrypt {} 30\n{part}\n--- {part}\n",
        STANDARD_NO_PAD.encode([9; 16])
    );
    let mut bytes = file.into_bytes();
    bytes.extend([9; 64]);
    let packed = STANDARD.encode(bytes);
    format!("-----BEGIN AGE ENCRYPTED FILE-----\\n{packed}\\n-----END AGE ENCRYPTED FILE-----\\n")
}

/// A PGP message with session keys for an anonymous recipient.
fn session_keys(count: usize) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let mut packets = Vec::new();
    for _ in 0..count {
        // version 3, key id 0, RSA, a number of 8 bits
        packets.extend([0xc1, 13, 3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 8, 0xff]);
    }
    packets.extend([0xd2, 40, 1]);
    packets.extend([9; 39]);
    let packed = STANDARD.encode(packets);
    format!("-----BEGIN PGP MESSAGE-----\\n\\n{packed}\\n-----END PGP MESSAGE-----\\n")
}

/// The work with private keys is limited before it is done, and the caller is told about it.
#[test]
fn work_with_private_keys_is_limited() {
    let keys = keys(&["one.agekey", "two.agekey", "rsa.asc"]);
    let many = |list: &str, entry: &str, count: usize| {
        only_for(&format!("{list}: [{}]", vec![entry; count].join(", ")))
    };
    let age = format!("{{recipient: age1x, enc: \"{}\"}}", exchanges(99));
    let pgp = format!("{{fp: X, enc: \"{}\"}}", session_keys(500));
    let limit = "its recipients and rule take more than 300000000 steps of work; name fewer recipients, give fewer \
                 keys, or simplify the rule";
    for (document, few, steps_min) in [
        (many("age", &age, 380), many("age", &age, 2), 2_000_000),
        (
            many("pgp", &pgp, 20),
            many("pgp", &format!("{{fp: X, enc: \"{}\"}}", session_keys(2)), 2),
            500_000,
        ),
    ] {
        let decrypter = Decrypter::new(&keys);
        let found = decrypted(&decrypter, document.as_bytes(), Format::Yaml);
        assert_eq!(found, Err(limit.to_owned()));
        let told = std::cell::Cell::new(0);
        let meter = |steps: u64| {
            told.set(told.get() + steps);
            false
        };
        drop(decrypted(
            &decrypter.with_meter(&meter),
            few.as_bytes(),
            Format::Yaml,
        ));
        assert!(told.get() >= steps_min, "{}", told.get());
        let stop = |steps: u64| steps > 100_000;
        let found = decrypted(&decrypter.with_meter(&stop), document.as_bytes(), Format::Yaml);
        assert_eq!(found, Err("it was cancelled".to_owned()));
    }
    // a passphrase's work factor costs nothing: such stanzas are skipped
    let alone = many(
        "age",
        &format!("{{recipient: age1x, enc: \"{}\"}}", exchanges(0)),
        1,
    );
    let found = decrypted(&Decrypter::new(&keys), alone.as_bytes(), Format::Yaml).unwrap_err();
    assert!(
        found.contains("its private key is not among the 2 given"),
        "{found}"
    );
}

/// A large expression visits all its states for each byte of a key.
#[test]
fn work_with_the_rule_is_limited() {
    let keys = keys(ONE);
    let large = format!("^{}$", "(x[a-z]y|[b-d])?".repeat(400));
    let names = (0..100).map(|at| format!("\"{at}{}\": 1", "x".repeat(4_000)));
    let plain = format!("{{{}}}", names.collect::<Vec<_>>().join(", "));
    for (rule, expected) in [(large.as_str(), Err("steps of work")), ("^none$", Ok(()))] {
        let order = Order {
            format: Format::Json,
            rule: Some(("encrypted_regex", rule)),
            mac_only_encrypted: true,
            groups: vec![keys.age.clone()],
            threshold: 1,
        };
        let sealed = encrypt(plain.as_bytes(), &order);
        let found = decrypted(&Decrypter::new(&keys), &sealed, Format::Json);
        match expected {
            Ok(()) => assert!(found.is_ok(), "{rule}"),
            Err(part) => assert!(found.unwrap_err().contains(part), "{rule}"),
        }
    }
}

#[test]
fn cancelled_work_stops() {
    let keys = keys(ONE);
    for (name, format) in [
        ("secret.yaml", Format::Yaml),
        ("values.json", Format::Json),
        ("settings.env", Format::Dotenv),
    ] {
        let sealed = read(&format!("sealed/{name}"));
        let asked = std::cell::Cell::new(0_usize);
        let never = |_| {
            asked.set(asked.get() + 1);
            false
        };
        let decrypter = Decrypter::new(&keys);
        assert!(decrypted(&decrypter.with_meter(&never), &sealed, format).is_ok());
        // while reading, and while decrypting
        for at in 0..asked.get() {
            let left = std::cell::Cell::new(at);
            let stop = |_| left.replace(left.get().saturating_sub(1)) == 0;
            let found = decrypted(&decrypter.with_meter(&stop), &sealed, format);
            let found = found.unwrap_err();
            assert!(found.ends_with("it was cancelled"), "{found}");
        }
    }
}

/// Neither `Debug` nor an error shows a private key, a token or a value.
#[test]
fn secrets_are_never_shown() {
    let mut keys = keys(&["one.agekey", "cv.asc"]);
    keys.add("sops.vault-token", b"hvs.token").unwrap();
    let shown = format!("{keys:?} {:?}", Decrypter::new(&keys).with_transit(&Refusing));
    assert!(
        !shown.contains("SECRET-KEY") && !shown.contains("hvs.token"),
        "{shown}"
    );
    let budget = Budget::new(Limits::default(), None);
    let (documents, _) = Format::Yaml
        .read(&read("sealed/everything.yaml"), &budget)
        .unwrap();
    let opened = Format::Yaml.read_plain(&read("opened/everything.yaml")).unwrap();
    for text in [format!("{documents:?}"), format!("{opened:?}")] {
        assert!(
            !text.contains("ENC[") && !text.contains("line1") && !text.contains("511"),
            "{text}"
        );
    }
}
