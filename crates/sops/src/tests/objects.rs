//! Objects of a build.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_manifest::yaml;
use serde_json::{Value, json};

use super::{chain, keys, read};
use crate::Decrypter;

fn object(file: &str) -> Value {
    let text = String::from_utf8(read(file)).unwrap();
    let mut documents = yaml::load(&text, &yaml::Options::default()).unwrap();
    documents.remove(0).value
}

/// The result and whether anything was decrypted, or the error.
fn decrypt(mut object: Value) -> Result<(bool, Value), String> {
    let keys = keys(&["one.agekey"]);
    let any = Decrypter::new(&keys)
        .object(&mut object)
        .map_err(|error| chain(&error))?;
    Ok((any, object))
}

#[test]
fn changed_manifests_are_decrypted() {
    let change = |object: &mut Value| {
        object["metadata"]["namespace"] = "tenant".into();
        object["metadata"]["labels"]["added"] = "yes".into();
    };
    for name in ["secret.yaml", "mac_only.yaml", "unencrypted_regex.yaml"] {
        let (mut sealed, mut opened) = (object(&format!("sealed/{name}")), object("opened/secret.yaml"));
        change(&mut sealed);
        change(&mut opened);
        assert_eq!(decrypt(sealed), Ok((true, opened)), "{name}");
    }
}

/// Without the comments that rules look for, values that look encrypted are decrypted.
#[test]
fn comment_rules_apply_without_comments() {
    for name in ["comments.yaml", "uncommented.yaml"] {
        let opened = object(&format!("opened/{name}"));
        assert_eq!(
            decrypt(object(&format!("sealed/{name}"))),
            Ok((true, opened)),
            "{name}"
        );
    }
}

#[test]
fn encrypted_entries_of_a_secret_are_decrypted() {
    let names = ["settings.env", "values.json", "blob.bin"];
    let secret = |folder: &str, line: usize| {
        let mut data = json!({"plain": "aGk=", "broken": "%"});
        for name in names {
            let packed = STANDARD.encode(read(&format!("{folder}/{name}")));
            let lines: Vec<String> = packed
                .as_bytes()
                .chunks(line)
                .map(|line| String::from_utf8_lossy(line).into_owned())
                .collect();
            data[name] = lines.join("\n").into();
        }
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data})
    };
    // a secretGenerator breaks it into lines of 70
    for line in [usize::MAX, 70] {
        assert_eq!(
            decrypt(secret("sealed", line)),
            Ok((true, secret("opened", usize::MAX)))
        );
        assert_eq!(decrypt(secret("plain", line)), Ok((false, secret("plain", line))));
    }
}

#[test]
fn plain_objects_are_left_alone() {
    let mut excepted = object("sealed/secret.yaml");
    excepted["metadata"]["annotations"] = json!({"kustomize.toolkit.fluxcd.io/decrypt": "Disabled"});
    let data = STANDARD.encode(read("sealed/settings.env"));
    for object in [
        excepted,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"settings.env": data}}),
        json!({"apiVersion": "v1", "kind": "Secret", "sops": {"mac": ""}}),
        json!(null),
    ] {
        assert_eq!(decrypt(object.clone()), Ok((false, object)));
    }
}

/// After a failure an object is unchanged; numbers stay the same numbers.
#[test]
fn numbers_and_failed_objects_are_unchanged() {
    let keys = keys(&["one.agekey"]);
    for (number, expected) in [
        (
            json!(u64::MAX),
            "the value at spec.sizes.0: a number beyond 64 bits, which SOPS cannot store; quote it",
        ),
        (
            json!(1),
            "it cannot be decrypted: the value at stringData.user: the document's rule requires encryption, \
             but it is a number in plain text; encrypt the document again, and only fields that no one else \
             writes: with --encrypted-regex '^(data|stringData)$' for a Secret",
        ),
    ] {
        let mut found = object("sealed/secret.yaml");
        found["spec"] = json!({ "sizes": [number] });
        found["stringData"]["user"] = 1.into();
        let before = found.clone();
        let error = Decrypter::new(&keys).object(&mut found).unwrap_err();
        assert_eq!(chain(&error), expected);
        assert_eq!(found, before);
    }
}

/// The callback gets decrypted values, not the plain ones.
#[test]
fn decrypted_values_are_reported() {
    let keys = keys(&["one.agekey"]);
    let seen = std::cell::RefCell::new(Vec::new());
    let told = |value: &[u8]| {
        seen.borrow_mut()
            .push(String::from_utf8_lossy(value).into_owned());
    };
    let mut found = object("sealed/secret.yaml");
    Decrypter::new(&keys)
        .with_value_callback(&told)
        .object(&mut found)
        .unwrap();
    let values = ["data", "stringData"].map(|field| found[field].as_object().unwrap().values());
    let mut expected: Vec<_> = values.into_iter().flatten().filter_map(Value::as_str).collect();
    expected.sort_unstable();
    let mut seen = seen.into_inner();
    seen.sort_unstable();
    assert_eq!(seen, expected);
}

#[test]
fn refusals_name_the_object_and_the_cause() {
    let mut moved = object("sealed/secret.yaml");
    let password = moved["stringData"]["password"].take();
    moved["stringData"] = json!({ "user": password });
    let mut readable = object("sealed/secret.yaml");
    readable["stringData"]["user"] = "admin".into();
    let entry = STANDARD.encode(read("sealed/cv.yaml"));
    for (object, expected) in [
        (
            moved,
            "it cannot be decrypted: the value at stringData.user: it does not decrypt with this file's data \
             key: it was changed or moved from another place",
        ),
        (
            readable,
            "it cannot be decrypted: the value at stringData.user: the document's rule requires encryption, \
             but it is a string in plain text; encrypt the document again, and only fields that no one else \
             writes: with --encrypted-regex '^(data|stringData)$' for a Secret",
        ),
        (
            json!({"kind": "Secret", "data": {"a.yaml": entry}}),
            "data.a.yaml cannot be decrypted: none of the given keys decrypts its data key: PGP \
             3FE20A9001A587678EC33BF2ACF9351DDBADB890: its private key is not among the 0 given; add a key \
             in the Secret that ends in .asc",
        ),
    ] {
        assert_eq!(decrypt(object), Err(expected.to_owned()));
    }
}
