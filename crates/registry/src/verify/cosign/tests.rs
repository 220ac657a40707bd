mod keyless;

use super::bundle::{Content, pre_authentication};
use super::*;
use crate::verify::chain_text;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::str::FromStr as _;

const RECORDED: &str = include_str!("../../../testdata/verify/cosign.json");
const SUITE: &str = include_str!("../../../testdata/verify/sigstore.json");
const NOW: Timestamp = Timestamp::constant(1_795_000_000, 0);
const GO_ON: GoOn<'static> = &|| true;

fn text(error: &dyn std::error::Error) -> String {
    chain_text(error)
}

struct Recorded {
    artifact: Digest,
    keys: BTreeMap<String, String>,
    simple: Vec<(HashMap<String, String>, String)>,
    bundles: Vec<String>,
}

fn recorded() -> Recorded {
    let all: Value = serde_json::from_str(RECORDED).unwrap();
    let simple = all["simple"].as_array().unwrap().iter();
    let simple = simple.map(|layer| {
        let annotations = serde_json::from_value(layer["annotations"].clone()).unwrap();
        (annotations, layer["payload"].as_str().unwrap().to_owned())
    });
    Recorded {
        artifact: Digest::from_str(all["digest"].as_str().unwrap()).unwrap(),
        keys: serde_json::from_value(all["keys"].clone()).unwrap(),
        simple: simple.collect(),
        bundles: serde_json::from_value(all["bundles"].clone()).unwrap(),
    }
}

impl Recorded {
    fn trust(&self, key: &str) -> Trust {
        Trust::Key(PublicKey::from_pem(self.keys[key].as_bytes()).unwrap())
    }

    fn all_simple(&self) -> Signatures {
        let layers = self.simple.iter();
        Signatures {
            bundles: Vec::new(),
            simple: layers
                .map(|(annotations, payload)| {
                    SimpleSignature::of_layer(Some(annotations), payload.clone().into_bytes())
                })
                .collect(),
        }
    }

    fn all_bundles(&self) -> Signatures {
        let bundles = self.bundles.iter();
        Signatures {
            bundles: bundles
                .map(|bundle| Bundle::of_layer(bundle.as_bytes()).unwrap())
                .collect(),
            simple: Vec::new(),
        }
    }
}

/// The signatures of an artifact that verify with a key.
fn count(recorded: &Recorded, signatures: &Signatures, artifact: &Digest, key: &str) -> usize {
    let trust = recorded.trust(key);
    let bundles = signatures.bundles.iter();
    let simple = signatures.simple.iter();
    let by_bundle = bundles.filter(|bundle| bundle.verify(artifact, &trust, GO_ON).is_ok());
    by_bundle.count()
        + simple
            .filter(|one| one.verify(artifact, &trust, NOW, GO_ON).is_ok())
            .count()
}

#[test]
fn each_key_of_cosign_verifies_its_own_signatures() {
    let recorded = recorded();
    let other = Digest::from_str(&crate::sha256(b"other")).unwrap();
    let check = |signatures: &Signatures, key: &str, expected: usize| {
        assert_eq!(
            count(&recorded, signatures, &recorded.artifact, key),
            expected,
            "{key}"
        );
        assert_eq!(count(&recorded, signatures, &other, key), 0, "{key}");
        let verified = verify(&recorded.artifact, signatures, &recorded.trust(key), NOW, GO_ON);
        assert_eq!(verified.ok(), (expected > 0).then_some(Signer::Key), "{key}");
    };
    for key in ["p256", "p384", "rsa", "ed25519"] {
        check(&recorded.all_simple(), key, 1);
    }
    for key in ["p256", "p384", "rsa"] {
        check(&recorded.all_bundles(), key, 1);
    }
    // cosign 3 signs with Ed25519ph, which source-controller refuses too
    check(&recorded.all_bundles(), "ed25519", 0);
}

#[test]
fn bundles_count_before_simple_signatures() {
    let recorded = recorded();
    let mut signatures = recorded.all_simple();
    // one bundle, of another key
    signatures.bundles = recorded
        .all_bundles()
        .bundles
        .into_iter()
        .filter(|bundle| {
            bundle
                .verify(&recorded.artifact, &recorded.trust("rsa"), GO_ON)
                .is_ok()
        })
        .collect();
    let result = verify(
        &recorded.artifact,
        &signatures,
        &recorded.trust("p256"),
        NOW,
        GO_ON,
    );
    let error = text(&result.unwrap_err());
    assert_eq!(
        error,
        "no matching attestations: failed to verify signature: invalid signature when validating ECDSA signature"
    );
    let none = verify(
        &recorded.artifact,
        &Signatures::default(),
        &recorded.trust("rsa"),
        NOW,
        GO_ON,
    );
    assert_eq!(text(&none.unwrap_err()), "no signatures found");
}

#[test]
fn changed_simple_signatures_are_refused() {
    let recorded = recorded();
    let (annotations, payload) = &recorded.simple[0];
    let signature = annotations.values().next().unwrap();
    let check = |signature: &str, payload: &str, expected: &str| {
        let annotations = HashMap::from([(
            "dev.cosignproject.cosign/signature".to_owned(),
            signature.to_owned(),
        )]);
        let one = SimpleSignature::of_layer(Some(&annotations), payload.as_bytes().to_vec());
        let error = one
            .verify(&recorded.artifact, &recorded.trust("p256"), NOW, GO_ON)
            .unwrap_err();
        assert_eq!(text(&error), expected, "{signature} {payload}");
    };
    let invalid = "failed to verify signature: invalid signature when validating ECDSA signature";
    check("", payload, invalid);
    check("%", payload, "the base64 of the signature is malformed");
    check(&signature.replacen('Q', "R", 1), payload, invalid);
    check(signature, &payload.replacen("3268", "3269", 1), invalid);
    check(signature, &format!("{payload} "), invalid);
    check(signature, "", invalid);
}

#[test]
fn changed_bundles_are_refused() {
    let recorded = recorded();
    let bundle = recorded
        .bundles
        .iter()
        .find(|bundle| {
            let bundle = Bundle::of_layer(bundle.as_bytes()).unwrap();
            bundle
                .verify(&recorded.artifact, &recorded.trust("p256"), GO_ON)
                .is_ok()
        })
        .unwrap();
    let check = |from: &str, to: &str, expected: &str| {
        assert!(bundle.contains(from), "{from}");
        let changed = bundle.replacen(from, to, 1);
        let result = Bundle::of_layer(changed.as_bytes()).map_err(|error| text(&error));
        let result = result.and_then(|bundle| {
            let verified = bundle.verify(&recorded.artifact, &recorded.trust("p256"), GO_ON);
            verified.map_err(|error| text(&error))
        });
        let error = result.unwrap_err();
        assert!(error.starts_with(expected), "{from} -> {to}: {error}");
    };
    let invalid = "failed to verify signature: invalid signature";
    check("application/vnd.in-toto+json", "application/json", invalid);
    check("\"payload\":\"eyJf", "\"payload\":\"eyJg", invalid);
    check("bundle.v0.3+json", "bundle.v0.2+json", "bundle version too old");
    check(
        "bundle.v0.3+json",
        "bundle.v0.4+json",
        "validation error: unsupported media type",
    );
    check(
        "\"publicKey\"",
        "\"publicKeys\"",
        "validation error: missing verification material",
    );
    check(
        "\"dsseEnvelope\"",
        "\"envelope\"",
        "validation error: missing bundle content",
    );
    check(
        "\"signatures\"",
        "\"others\"",
        "exactly one signature is required",
    );
    check(
        "\"signatures\":[",
        "\"signatures\":[{\"sig\":\"AA==\"},",
        "exactly one signature is required",
    );
    check("\"sig\":\"", "\"sig\":\"AAAA", invalid);
    check("{", "[", "validation error: the bundle is not valid JSON");
}

#[test]
fn unusable_keys_are_refused_by_name() {
    let check = |pem: &str, expected: &str| {
        assert_eq!(text(&PublicKey::from_pem(pem.as_bytes()).unwrap_err()), expected);
    };
    let block =
        |name: &str, base64: &str| format!("-----BEGIN {name}-----\n{base64}\n-----END {name}-----\n");
    check("", "PEM decoding failed");
    check("no key", "PEM decoding failed");
    check(
        &block("PRIVATE KEY", "AAAA"),
        "unknown Public key PEM file type: PRIVATE KEY. Are you passing the correct public key?",
    );
    check(
        &block("PUBLIC KEY", "BAEA"),
        "the public key is malformed: an element has the tag 0x04, but 0x30 is expected",
    );
    check(
        &block("PUBLIC KEY", "MBkwEAYHKoZIzj0CAQYFK4EEACMDBQAEAQID"),
        "keys of the algorithm ECDSA P-521 are not supported; use ECDSA P-256 or P-384, RSA or Ed25519",
    );
}

#[test]
fn identities_match_as_in_go() {
    let check = |issuer: &str, subject: &str, expected: bool| {
        let identity = Identity::new(issuer, subject).unwrap();
        let subjects = ["https://github.com/org/app/.github/workflows/release.yml@refs/tags/v1".to_owned()];
        let matches = identity.matches("https://token.actions.githubusercontent.com", &subjects);
        assert_eq!(matches, expected, "{issuer} {subject}");
    };
    check("", "", true);
    check(
        "^https://token.actions.githubusercontent.com$",
        "^https://github.com/org/app.*$",
        true,
    );
    check("actions", "org/app", true);
    check("^https://accounts.google.com$", "", false);
    check("", "^https://github.com/other/", false);
    check("", r"(?i)^HTTPS://GITHUB\.COM/org", true);
    let error = Identity::new("(", "").unwrap_err();
    assert_eq!(
        error.to_string(),
        "malformed issuer in identity: ( : error parsing regexp: missing closing ): `(`"
    );
}

/// The bundle of a case of the suite, with the changes to its base.
fn resolve<'a>(all: &'a [Value], case: &'a Value, field: &str) -> Value {
    let Some(base) = case["base"].as_str() else {
        return case[field].clone();
    };
    let base = all.iter().find(|other| other["name"] == base).unwrap();
    let mut value = resolve(all, base, field);
    for change in case["set"].as_array().unwrap() {
        let pointer = change[0].as_str().unwrap();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = value.pointer_mut(parent).unwrap();
        match (parent, change.get(1)) {
            (Value::Object(fields), None) => {
                fields.remove(name).unwrap();
            }
            (Value::Object(fields), Some(new)) => {
                fields.insert(name.to_owned(), new.clone());
            }
            (Value::Array(items), Some(new)) => items[name.parse::<usize>().unwrap()] = new.clone(),
            (other, _) => panic!("{pointer} of {other}"),
        }
    }
    value
}

/// Verifies a case as the suite asks: the file `a.txt` or another one is signed, directly or as the subject
/// of a statement.
fn verify_case(case: &Value, bundle: &Value, root: &Value) -> Result<(), String> {
    const ARTIFACT: &str = "DO NOT MODIFY ME!\n\nthis is \"a.txt\", a sample input for sigstore-conformance's test suite.\n\nDO NOT MODIFY ME!\n";
    const IDENTITY: &str = "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main";
    let signed = &bundle["messageSignature"]["messageDigest"]["digest"];
    let bundle = Bundle::parse(bundle.to_string().as_bytes()).map_err(|error| text(&error))?;
    let trust = match case["key"].as_str() {
        Some(key) => Trust::Key(PublicKey::from_pem(key.as_bytes()).map_err(|error| text(&error))?),
        None => {
            let root = TrustedRoot::parse(root.to_string().as_bytes()).map_err(|error| text(&error))?;
            let given = |field: &str, default: &str| {
                let text = case[field].as_str().unwrap_or(default).trim();
                format!("^{}$", regex::escape(text))
            };
            let issuer = given("issuer", "https://token.actions.githubusercontent.com");
            Trust::Keyless {
                root: Box::new(root),
                identities: vec![Identity::new(&issuer, &given("identity", IDENTITY)).unwrap()],
            }
        }
    };
    let artifact = case["artifact"].as_str().unwrap_or(ARTIFACT);
    let digest = Sha256::digest(artifact);
    let verified = match &bundle.content {
        Content::Envelope { .. } => {
            let digest = Digest::from_str(&crate::sha256(artifact.as_bytes())).unwrap();
            bundle.verify(&digest, &trust, GO_ON)
        }
        Content::Message if *signed != *BASE64.encode(digest) => {
            return Err("artifact does not match digest".to_owned());
        }
        Content::Message => bundle.check(artifact.as_bytes(), None, &trust, GO_ON),
    };
    verified.map(|_| ()).map_err(|error| text(&error))
}

#[test]
fn suite_of_sigstore_passes() {
    let suite: Value = serde_json::from_str(SUITE).unwrap();
    let cases = suite["cases"].as_array().unwrap();
    let roots: Vec<Value> = suite["roots"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, root)| {
            let mut root = root.clone();
            root["name"] = name.clone().into();
            root
        })
        .collect();
    let mut wrong = Vec::new();
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let root = roots.iter().find(|root| root["name"] == case["root"]).unwrap();
        let result = verify_case(
            case,
            &resolve(cases, case, "bundle"),
            &resolve(&roots, root, "root"),
        );
        if result.is_ok() == name.ends_with("_fail") {
            wrong.push(format!("{name}: {result:?}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn envelopes_are_encoded_as_dsse_says() {
    assert_eq!(
        pre_authentication("http://example.com/HelloWorld", b"hello world"),
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    );
}
