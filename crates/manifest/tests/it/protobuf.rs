//! The protobuf form of built-in objects, compared with the bytes of Kubernetes' own encoder.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_manifest::schema::protobuf::{self, ProtobufError};
use equate_manifest::schema::{decode, kubernetes};
use serde_json::{Value, json};

struct Case {
    name: String,
    json: Value,
    bytes: Vec<u8>,
}

fn cases() -> Vec<Case> {
    let lines = include_str!("../golden/protobuf/kinds.jsonl").lines();
    let case = |line| {
        let case: Value = serde_json::from_str(line).unwrap();
        Case {
            name: format!("{} {} {}", case["apiVersion"], case["kind"], case["seed"]),
            json: case["json"].clone(),
            bytes: STANDARD.decode(case["pb"].as_str().unwrap()).unwrap(),
        }
    };
    lines.map(case).collect()
}

/// The object after Go's decoder and encoder.
fn normal(value: &Value) -> Value {
    let named = |name: &str| {
        let (version, kind) = (value["apiVersion"].as_str().unwrap(), &value["kind"]);
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let schema = kubernetes().get(name).unwrap();
        let mut kinds = schema.group_version_kinds.iter();
        kinds.any(|known| known.group == group && known.version == version && known.kind == *kind)
    };
    let definition = kubernetes().names().find(|name| named(name)).unwrap();
    decode(kubernetes(), definition, value.clone()).unwrap().value
}

#[test]
fn kubernetes_own_bytes_are_decoded() {
    let cases = cases();
    assert!(cases.len() > 300);
    for case in cases {
        let decoded = protobuf::decode_object(kubernetes(), &case.bytes);
        let decoded = decoded.unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!(normal(&decoded), normal(&case.json), "{}", case.name);
    }
}

#[test]
fn objects_are_encoded_to_kubernetes_own_bytes() {
    for case in cases() {
        let encoded = protobuf::encode_object(kubernetes(), &normal(&case.json));
        let encoded = encoded.unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let back = protobuf::decode_object(kubernetes(), &encoded).unwrap();
        assert_eq!(normal(&back), normal(&case.json), "{}", case.name);
        assert_eq!(
            STANDARD.encode(encoded),
            STANDARD.encode(&case.bytes),
            "{}",
            case.name
        );
    }
}

#[test]
fn bytes_that_are_no_object_are_refused() {
    let check = |bytes: &[u8], expected: ProtobufError| {
        assert_eq!(protobuf::decode_object(kubernetes(), bytes), Err(expected));
    };
    check(b"{}", ProtobufError::NoEnvelope);
    check(b"k8s\0\x0a\x05", ProtobufError::Truncated);
    let sealed = |kind: &str, raw: &[u8]| {
        let api_version = "v1";
        protobuf::Envelope {
            api_version,
            kind,
            raw,
        }
        .seal()
    };
    let kind = || ProtobufError::Kind {
        api_version: "v1".to_owned(),
        kind: "Widget".to_owned(),
    };
    check(&sealed("Widget", b""), kind());
    let unknown = |number| ProtobufError::Unknown {
        definition: "io.k8s.api.core.v1.Secret".to_owned(),
        number,
    };
    check(&sealed("Secret", &[9 << 3, 0]), unknown(9));
    check(&sealed("Secret", &[1 << 3, 0]), ProtobufError::Form(1));
    check(&sealed("Secret", &[3 << 3 | 2, 1, 0xff]), ProtobufError::Text(3));
    // an annotation with neither key nor value
    let secret = protobuf::decode_object(kubernetes(), &sealed("Secret", &[10, 2, 12 << 3 | 2, 0])).unwrap();
    assert_eq!(secret["metadata"], json!({ "annotations": { "": "" } }));
}

#[test]
fn deep_messages_are_refused() {
    let mut schema = Vec::new();
    for _ in 0..200 {
        let mut outer = Vec::new();
        // not
        protobuf::put_bytes(&mut outer, 28, &schema);
        schema = outer;
    }
    let mut all = Vec::new();
    for number in [1, 4, 7, 2] {
        all.clear();
        protobuf::put_bytes(&mut all, number, &schema);
        schema = all.clone();
    }
    let sealed = protobuf::Envelope {
        api_version: "apiextensions.k8s.io/v1",
        kind: "CustomResourceDefinition",
        raw: &schema,
    };
    let answer = protobuf::decode_object(kubernetes(), &sealed.seal());
    assert_eq!(answer, Err(ProtobufError::Deep));
}
