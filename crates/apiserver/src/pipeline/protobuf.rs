//! Protobuf bodies, of the few kinds that helm's and kubectl's typed clients send.
//!
//! A body is an envelope with a version, a kind and the object's bytes, whose fields are numbered
//! (`generated.proto` of `k8s.io/api` and `k8s.io/apimachinery`). It is converted to the JSON that the
//! client would have sent otherwise. Other kinds are refused by name: skipping unknown fields would lose
//! them. Answers are always JSON, which these clients read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

type Message = [(u32, &'static str, Field)];

/// The type of a field. Clients write empty texts and zeros for absent values; fields with a meaningful
/// zero are pointers in the API.
#[derive(Clone, Copy)]
enum Field {
    Text,
    Number,
    NumberOrNone,
    Flag,
    Time,
    Json,
    Of(&'static Message),
    Texts,
    ListOf(&'static Message),
    TextsByKey,
    BytesByKey,
}

use Field::{BytesByKey, Flag, Json, ListOf, Number, NumberOrNone, Of, Text, Texts, TextsByKey, Time};

const OWNER_REFERENCE: &Message = &[
    (1, "kind", Text),
    (3, "name", Text),
    (4, "uid", Text),
    (5, "apiVersion", Text),
    (6, "controller", Flag),
    (7, "blockOwnerDeletion", Flag),
];
const MANAGED_FIELDS: &Message = &[
    (1, "manager", Text),
    (2, "operation", Text),
    (3, "apiVersion", Text),
    (4, "time", Time),
    (6, "fieldsType", Text),
    (7, "fieldsV1", Json),
    (8, "subresource", Text),
];
const METADATA: &Message = &[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (4, "selfLink", Text),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (7, "generation", Number),
    (8, "creationTimestamp", Time),
    (9, "deletionTimestamp", Time),
    (10, "deletionGracePeriodSeconds", NumberOrNone),
    (11, "labels", TextsByKey),
    (12, "annotations", TextsByKey),
    (13, "ownerReferences", ListOf(OWNER_REFERENCE)),
    (14, "finalizers", Texts),
    (17, "managedFields", ListOf(MANAGED_FIELDS)),
];
const SECRET: &Message = &[
    (1, "metadata", Of(METADATA)),
    (2, "data", BytesByKey),
    (3, "type", Text),
    (4, "stringData", TextsByKey),
    (5, "immutable", Flag),
];
const CONFIG_MAP: &Message = &[
    (1, "metadata", Of(METADATA)),
    (2, "data", TextsByKey),
    (3, "binaryData", BytesByKey),
    (4, "immutable", Flag),
];
const NAMESPACE: &Message = &[
    (1, "metadata", Of(METADATA)),
    (2, "spec", Of(&[(1, "finalizers", Texts)])),
    (
        3,
        "status",
        Of(&[(1, "phase", Text), (2, "conditions", ListOf(NAMESPACE_CONDITION))]),
    ),
];
const NAMESPACE_CONDITION: &Message = &[
    (1, "type", Text),
    (2, "status", Text),
    (4, "lastTransitionTime", Time),
    (5, "reason", Text),
    (6, "message", Text),
];
const SERVICE_ACCOUNT: &Message = &[
    (1, "metadata", Of(METADATA)),
    (2, "secrets", ListOf(OBJECT_REFERENCE)),
    (3, "imagePullSecrets", ListOf(&[(1, "name", Text)])),
    (4, "automountServiceAccountToken", Flag),
];
const OBJECT_REFERENCE: &Message = &[
    (1, "kind", Text),
    (2, "namespace", Text),
    (3, "name", Text),
    (4, "uid", Text),
    (5, "apiVersion", Text),
    (6, "resourceVersion", Text),
    (7, "fieldPath", Text),
];
const DELETE_OPTIONS: &Message = &[
    (1, "gracePeriodSeconds", NumberOrNone),
    (
        2,
        "preconditions",
        Of(&[(1, "uid", Text), (2, "resourceVersion", Text)]),
    ),
    (3, "orphanDependents", Flag),
    (4, "propagationPolicy", Text),
    (5, "dryRun", Texts),
    (6, "ignoreStoreReadErrorWithClusterBreakingPotential", Flag),
];

/// The supported kinds. DeleteOptions come with the version of the deleted object.
const KINDS: [(&str, &str, &Message); 5] = [
    ("v1", "ConfigMap", CONFIG_MAP),
    ("v1", "Namespace", NAMESPACE),
    ("v1", "Secret", SECRET),
    ("v1", "ServiceAccount", SERVICE_ACCOUNT),
    ("", "DeleteOptions", DELETE_OPTIONS),
];

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtobufError {
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoEnvelope,
    #[error("unexpected EOF")]
    Truncated,
    #[error("field {0} of the protobuf message has an unexpected wire type")]
    Form(u32),
    #[error("field {0} of the protobuf message is not UTF-8")]
    Text(u32),
    #[error(
        "the embedded API server reads protobuf bodies of ConfigMap, Namespace, Secret, ServiceAccount and \
         DeleteOptions, not of {kind} ({api_version})"
    )]
    Kind { api_version: String, kind: String },
    #[error("the embedded API server does not know field {0} of the protobuf message")]
    Unknown(u32),
}

const MAGIC: &[u8] = b"k8s\0";

pub(crate) fn decode(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = bytes.strip_prefix(MAGIC).ok_or(ProtobufError::NoEnvelope)?;
    let (mut type_meta, mut raw): (&[u8], &[u8]) = (&[], &[]);
    for field in fields(envelope) {
        match field? {
            (1, Wire::Bytes(bytes)) => type_meta = bytes,
            (2, Wire::Bytes(bytes)) => raw = bytes,
            // the encoding of the object: clients leave it empty
            (3 | 4, Wire::Bytes(&[])) => {}
            (number, _) => return Err(ProtobufError::Form(number)),
        }
    }
    let said = message(&[(1, "apiVersion", Text), (2, "kind", Text)], type_meta)?;
    let word = |key| said.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (word("apiVersion"), word("kind"));
    let is_it = |(known_version, known, _): &&(&str, &str, _)| {
        *known == kind && (known_version.is_empty() || *known_version == api_version)
    };
    let Some((_, _, table)) = KINDS.iter().find(is_it) else {
        return Err(ProtobufError::Kind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        });
    };
    let mut object = message(table, raw)?;
    object.extend(said);
    Ok(Value::Object(object))
}

fn message(table: &Message, bytes: &[u8]) -> Result<Map<String, Value>, ProtobufError> {
    let mut object = Map::new();
    for field in fields(bytes) {
        let (number, wire) = field?;
        let Some((_, name, kind)) = table.iter().find(|(known, _, _)| *known == number) else {
            return Err(ProtobufError::Unknown(number));
        };
        put(&mut object, name, *kind, number, wire)?;
    }
    Ok(object)
}

fn put(
    object: &mut Map<String, Value>,
    name: &str,
    kind: Field,
    number: u32,
    wire: Wire<'_>,
) -> Result<(), ProtobufError> {
    let value = match (kind, wire) {
        (Text, Wire::Bytes(bytes)) => match text(number, bytes)? {
            "" => return Ok(()),
            text => text.into(),
        },
        (Number, Wire::Varint(0)) => return Ok(()),
        (Number | NumberOrNone, Wire::Varint(value)) => value.cast_signed().into(),
        (Flag, Wire::Varint(value)) => (value != 0).into(),
        (Time, Wire::Bytes(bytes)) => match time(number, bytes)? {
            Some(time) => time.into(),
            None => return Ok(()),
        },
        (Json, Wire::Bytes(bytes)) => json(number, bytes)?,
        (Of(table), Wire::Bytes(bytes)) => message(table, bytes)?.into(),
        (Texts, Wire::Bytes(bytes)) => return push(object, name, text(number, bytes)?.into()),
        (ListOf(table), Wire::Bytes(bytes)) => return push(object, name, message(table, bytes)?.into()),
        (TextsByKey | BytesByKey, Wire::Bytes(bytes)) => {
            let (key, value) = entry(number, bytes)?;
            let value = match kind {
                BytesByKey => STANDARD.encode(value),
                _ => text(number, value)?.to_owned(),
            };
            let map = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(map) = map {
                map.insert(key.to_owned(), value.into());
            }
            return Ok(());
        }
        _ => return Err(ProtobufError::Form(number)),
    };
    object.insert(name.to_owned(), value);
    Ok(())
}

fn push(object: &mut Map<String, Value>, name: &str, value: Value) -> Result<(), ProtobufError> {
    let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(items) = list {
        items.push(value);
    }
    Ok(())
}

fn text(number: u32, bytes: &[u8]) -> Result<&str, ProtobufError> {
    std::str::from_utf8(bytes).map_err(|_| ProtobufError::Text(number))
}

fn entry(number: u32, bytes: &[u8]) -> Result<(&str, &[u8]), ProtobufError> {
    let (mut key, mut value): (&[u8], &[u8]) = (&[], &[]);
    for field in fields(bytes) {
        match field? {
            (1, Wire::Bytes(bytes)) => key = bytes,
            (2, Wire::Bytes(bytes)) => value = bytes,
            _ => return Err(ProtobufError::Form(number)),
        }
    }
    Ok((text(number, key)?, value))
}

/// RFC 3339 with whole seconds, as in the API's JSON; `None` for an empty message.
fn time(number: u32, bytes: &[u8]) -> Result<Option<String>, ProtobufError> {
    let mut seconds = None;
    for field in fields(bytes) {
        match field? {
            (1, Wire::Varint(value)) => seconds = Some(value.cast_signed()),
            (2, Wire::Varint(_)) => {}
            _ => return Err(ProtobufError::Form(number)),
        }
    }
    let Some(seconds) = seconds else {
        return Ok(None);
    };
    let time = Timestamp::from_second(seconds).map_err(|_| ProtobufError::Form(number))?;
    Ok(Some(time.to_string()))
}

fn json(number: u32, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut raw: &[u8] = b"null";
    for field in fields(bytes) {
        match field? {
            (1, Wire::Bytes(bytes)) => raw = bytes,
            _ => return Err(ProtobufError::Form(number)),
        }
    }
    serde_json::from_slice(raw).map_err(|_| ProtobufError::Form(number))
}

enum Wire<'b> {
    Varint(u64),
    Bytes(&'b [u8]),
}

fn fields(bytes: &[u8]) -> impl Iterator<Item = Result<(u32, Wire<'_>), ProtobufError>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = field(&mut rest);
        if field.is_err() {
            rest = &[];
        }
        Some(field)
    })
}

fn field<'b>(rest: &mut &'b [u8]) -> Result<(u32, Wire<'b>), ProtobufError> {
    let tag = varint(rest)?;
    let number = u32::try_from(tag >> 3).map_err(|_| ProtobufError::Truncated)?;
    match tag & 7 {
        0 => Ok((number, Wire::Varint(varint(rest)?))),
        2 => {
            let length = usize::try_from(varint(rest)?).map_err(|_| ProtobufError::Truncated)?;
            let (bytes, after) = rest.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
            *rest = after;
            Ok((number, Wire::Bytes(bytes)))
        }
        // fixed widths and groups: no supported kind has them
        _ => Err(ProtobufError::Form(number)),
    }
}

fn varint(rest: &mut &[u8]) -> Result<u64, ProtobufError> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first().ok_or(ProtobufError::Truncated)?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(ProtobufError::Truncated)
}

#[cfg(test)]
mod tests {
    use super::{ProtobufError, decode};
    use serde_json::{Value, json};

    fn varint(mut value: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while value > 127 {
            out.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
        out
    }

    fn field(number: usize, bytes: &[u8]) -> Vec<u8> {
        [varint(number << 3 | 2), varint(bytes.len()), bytes.to_vec()].concat()
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        let envelope = [field(1, &type_meta), field(2, raw), field(3, b""), field(4, b"")];
        [b"k8s\0".to_vec(), envelope.concat()].concat()
    }

    #[test]
    fn client_bodies_are_decoded() {
        let check = |api_version: &str, kind: &str, raw: &[Vec<u8>], expected: Value| {
            assert_eq!(
                decode(&body(api_version, kind, &raw.concat())),
                Ok(expected),
                "{kind}"
            );
        };
        let labels = [field(1, b"a"), field(2, &[b'b'; 200])].concat();
        let owner = [field(1, b"Pod"), field(3, b"p"), vec![6 << 3, 0]].concat();
        let managed = [
            field(1, b"helm"),
            field(4, &[1 << 3, 0x80, 0xa0, 0x8d, 0x06]),
            field(7, &field(1, br#"{"f:data":{}}"#)),
        ];
        let metadata = [
            field(1, b"n"),
            field(2, b""),
            vec![7 << 3, 0],
            field(8, b""),
            field(11, &labels),
            field(13, &owner),
            field(14, b"x"),
            field(14, b"y"),
            vec![10 << 3, 0],
            field(17, &managed.concat()),
        ];
        check(
            "v1",
            "Secret",
            &[
                field(1, &metadata.concat()),
                field(2, &[field(1, b"k"), field(2, b"\xff\x00")].concat()),
                field(2, &field(1, b"empty")),
                field(3, b"helm.sh/release.v1"),
            ],
            json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "name": "n",
                    "labels": {"a": "b".repeat(200)},
                    "ownerReferences": [{"kind": "Pod", "name": "p", "controller": false}],
                    "finalizers": ["x", "y"],
                    "deletionGracePeriodSeconds": 0,
                    "managedFields": [{
                        "manager": "helm",
                        "time": "1970-05-29T03:33:20Z",
                        "fieldsV1": {"f:data": {}},
                    }],
                },
                "data": {"k": "/wA=", "empty": ""},
                "type": "helm.sh/release.v1",
            }),
        );
        check(
            "v1",
            "Namespace",
            &[field(1, &field(1, b"n")), field(2, b""), field(3, b"")],
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}, "spec": {}, "status": {}}),
        );
        let minus_one = [vec![1 << 3], vec![0xff; 9], vec![1]].concat();
        check(
            "apps/v1",
            "DeleteOptions",
            &[
                minus_one,
                field(4, b"Background"),
                field(5, b"All"),
                vec![3 << 3, 1],
            ],
            json!({
                "apiVersion": "apps/v1",
                "kind": "DeleteOptions",
                "gracePeriodSeconds": -1,
                "propagationPolicy": "Background",
                "dryRun": ["All"],
                "orphanDependents": true,
            }),
        );
    }

    #[test]
    fn invalid_bodies_are_refused() {
        let check = |body: &[u8], expected: &str| {
            assert_eq!(decode(body).unwrap_err().to_string(), expected);
        };
        check(
            b"{}",
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        );
        let refused = decode(&body("apps/v1", "Deployment", b"")).unwrap_err();
        assert!(
            refused.to_string().ends_with("not of Deployment (apps/v1)"),
            "{refused}"
        );
        for (raw, expected) in [
            (&[0xff; 11][..], "unexpected EOF"),
            (&[10, 5, 1], "unexpected EOF"),
            (&[10], "unexpected EOF"),
            (
                &[8, 1],
                "field 1 of the protobuf message has an unexpected wire type",
            ),
            (
                &[13, 0, 0, 0, 0],
                "field 1 of the protobuf message has an unexpected wire type",
            ),
            (&[26, 1, 0xff], "field 3 of the protobuf message is not UTF-8"),
            (
                &[0x62, 0],
                "the embedded API server does not know field 12 of the protobuf message",
            ),
        ] {
            check(&body("v1", "Secret", raw), expected);
        }
        let whole = body("v1", "Secret", &field(1, &field(1, b"n")));
        // the last four bytes are the two empty fields of the envelope
        for end in 0..whole.len() - 4 {
            // a truncated body is never mistaken for the whole
            assert_ne!(decode(&whole[..end]), decode(&whole), "{end}");
        }
        assert_eq!(decode(b"k8s"), Err(ProtobufError::NoEnvelope));
    }
}
