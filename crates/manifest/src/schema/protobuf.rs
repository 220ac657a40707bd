//! The protobuf form of built-in objects, which Go's typed clients prefer.
//!
//! A definition numbers its fields (`x-pb`). The bytes are those of the `Marshal` methods in `k8s.io/api`:
//! fields by number, maps by key, absent values of fields that are no pointers as zeros. Reading drops
//! those zeros again, as the JSON encoder would. Unknown fields are errors, so that nothing is lost.

mod wire;

use self::wire::{Wire, fields, put_varint, varint};
use super::decode::is_written;
use super::definitions::{Codec, Definition};
use super::time::{self, Precision};
use super::{Additional, Definitions, Omit, Schema, SchemaType};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

pub use self::wire::{put_bytes, put_double, put_number};

/// The deepest nesting of messages.
const DEPTH_MAX: usize = 128;
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
/// The first bytes of a whole object.
const MAGIC: &[u8] = b"k8s\0";

/// Bytes that are no message of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// They do not begin as an object does.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoEnvelope,
    /// They end within a value.
    #[error("unexpected EOF")]
    Truncated,
    /// A field has another type.
    #[error("field {0} of the protobuf message has an unexpected wire type or value")]
    Form(u32),
    /// A text is not UTF-8.
    #[error("field {0} of the protobuf message is not UTF-8")]
    Text(u32),
    /// No built-in kind.
    #[error("only built-in kinds have a protobuf form, not {kind} ({api_version})")]
    Kind {
        /// `apps/v1`.
        api_version: String,
        /// `Deployment`.
        kind: String,
    },
    /// No field of the kind.
    #[error("{definition} has no protobuf field {number}")]
    Unknown {
        /// The definition's name.
        definition: String,
        /// The field's number.
        number: u32,
    },
    /// Messages are nested too deep.
    #[error("the protobuf message is nested more than {DEPTH_MAX} levels deep")]
    Deep,
    /// A value is not of its definition.
    #[error("{definition} has no protobuf form: {name} has another type")]
    Value {
        /// The definition's name.
        definition: String,
        /// The field.
        name: String,
    },
}

/// The fields of a message, by number.
#[derive(Debug)]
pub(super) struct Slot {
    number: u32,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Field(Box<str>),
    /// The fields of an embedded struct: a message of its own here, part of the object in JSON.
    Embedded(Vec<Slot>),
}

/// Arranges the fields of a schema.
pub(super) fn slots(schema: &Schema) -> Vec<Slot> {
    let mut slots = Vec::new();
    for (name, node) in &schema.properties {
        place(&mut slots, &node.protobuf, name);
    }
    slots
}

fn place(slots: &mut Vec<Slot>, numbers: &[u32], name: &str) {
    let Some((number, rest)) = numbers.split_first() else {
        return;
    };
    let at = slots.binary_search_by_key(number, |slot| slot.number);
    let at = at.unwrap_or_else(|at| {
        let content = match rest {
            [] => Content::Field(name.into()),
            _ => Content::Embedded(Vec::new()),
        };
        let number = *number;
        slots.insert(at, Slot { number, content });
        at
    });
    if let Content::Embedded(inner) = &mut slots[at].content {
        place(inner, rest, name);
    }
}

/// Whether a value is a message with the one field `items` instead of a repeated field.
fn is_wrapped(node: &Schema) -> bool {
    let go = node.go.as_deref().unwrap_or_default();
    go.ends_with(".ExtraValue") || go.ends_with(".Verbs")
}

/// A whole object: its type and its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope<'b> {
    /// `apps/v1`.
    pub api_version: &'b str,
    /// `Deployment`.
    pub kind: &'b str,
    /// The message.
    pub raw: &'b [u8],
}

impl<'b> Envelope<'b> {
    /// Opens the bytes of an object.
    pub fn open(bytes: &'b [u8]) -> Result<Self, ProtobufError> {
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
        let (mut api_version, mut kind) = ("", "");
        for field in fields(type_meta) {
            match field? {
                (1, Wire::Bytes(bytes)) => api_version = text(1, bytes)?,
                (2, Wire::Bytes(bytes)) => kind = text(2, bytes)?,
                (number, _) => return Err(ProtobufError::Form(number)),
            }
        }
        Ok(Self {
            api_version,
            kind,
            raw,
        })
    }

    /// The bytes of the object.
    pub fn seal(&self) -> Vec<u8> {
        let mut type_meta = Vec::new();
        put_bytes(&mut type_meta, 1, self.api_version.as_bytes());
        put_bytes(&mut type_meta, 2, self.kind.as_bytes());
        let mut out = MAGIC.to_vec();
        put_bytes(&mut out, 1, &type_meta);
        put_bytes(&mut out, 2, self.raw);
        put_bytes(&mut out, 3, b"");
        put_bytes(&mut out, 4, b"");
        out
    }
}

/// A frame of a watch: an event such as `ADDED` with a whole object.
pub fn watch_frame(event: &str, object: &[u8]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(object.len() + 8);
    put_bytes(&mut raw, 1, object);
    let mut frame = vec![0; 4];
    put_bytes(&mut frame, 1, event.as_bytes());
    put_bytes(&mut frame, 2, &raw);
    // a frame of 4 GiB does not fit in memory before
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Decodes a whole object to the JSON that the client would have sent otherwise.
pub fn decode_object(defs: &Definitions, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = Envelope::open(bytes)?;
    let definition = kind(defs, envelope.api_version, envelope.kind)?;
    let mut object = message(defs, definition, envelope.raw, 0)?;
    let mut say = |key: &str, word: &str| {
        if !word.is_empty() {
            object.insert(key.to_owned(), word.into());
        }
    };
    say("apiVersion", envelope.api_version);
    say("kind", envelope.kind);
    Ok(Value::Object(object))
}

/// Encodes a whole object in normal form; it says its version and kind.
pub fn encode_object(defs: &Definitions, object: &Value) -> Result<Vec<u8>, ProtobufError> {
    let word = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind_name) = (word("apiVersion"), word("kind"));
    let mut raw = Vec::new();
    match (api_version, kind_name) {
        // the documents that define the table do not have them
        ("meta.k8s.io/v1", "PartialObjectMetadata") => put_partial(defs, object, &mut raw)?,
        ("meta.k8s.io/v1", "PartialObjectMetadataList") => {
            let mut nested = Vec::new();
            encode(defs, LIST_META, &object["metadata"], &mut nested)?;
            put_bytes(&mut raw, 1, &nested);
            for item in object["items"].as_array().into_iter().flatten() {
                nested.clear();
                put_partial(defs, item, &mut nested)?;
                put_bytes(&mut raw, 2, &nested);
            }
        }
        _ => put_message(defs, kind(defs, api_version, kind_name)?, object, &mut raw)?,
    }
    let envelope = Envelope {
        api_version,
        kind: kind_name,
        raw: &raw,
    };
    Ok(envelope.seal())
}

fn put_partial(defs: &Definitions, object: &Value, out: &mut Vec<u8>) -> Result<(), ProtobufError> {
    let mut metadata = Vec::new();
    encode(defs, OBJECT_META, &object["metadata"], &mut metadata)?;
    put_bytes(out, 1, &metadata);
    Ok(())
}

/// Encodes a value of a definition, without an envelope.
pub fn encode(
    defs: &Definitions,
    definition: &str,
    value: &Value,
    out: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    let found = defs.definition(definition).ok_or_else(|| ProtobufError::Kind {
        api_version: String::new(),
        kind: definition.to_owned(),
    })?;
    put_message(defs, found, value, out)
}

fn kind<'d>(defs: &'d Definitions, api_version: &str, kind: &str) -> Result<&'d Definition, ProtobufError> {
    defs.of_kind(api_version, kind)
        .ok_or_else(|| ProtobufError::Kind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        })
}

type Object = Map<String, Value>;

fn message(
    defs: &Definitions,
    definition: &Definition,
    bytes: &[u8],
    depth: usize,
) -> Result<Object, ProtobufError> {
    if depth >= DEPTH_MAX {
        return Err(ProtobufError::Deep);
    }
    let mut object = Map::new();
    let reader = Reader {
        defs,
        definition,
        depth,
    };
    reader.fields(definition.slots(), bytes, &mut object)?;
    Ok(object)
}

/// Reads one message.
struct Reader<'d> {
    defs: &'d Definitions,
    definition: &'d Definition,
    depth: usize,
}

impl Reader<'_> {
    fn fields(&self, slots: &[Slot], bytes: &[u8], object: &mut Object) -> Result<(), ProtobufError> {
        for field in fields(bytes) {
            let (number, wire) = field?;
            let Ok(at) = slots.binary_search_by_key(&number, |slot| slot.number) else {
                return Err(ProtobufError::Unknown {
                    definition: self.definition.name.to_owned(),
                    number,
                });
            };
            match (&slots[at].content, wire) {
                (Content::Embedded(inner), Wire::Bytes(bytes)) => self.fields(inner, bytes, object)?,
                (Content::Embedded(_), _) => return Err(ProtobufError::Form(number)),
                (Content::Field(name), wire) => {
                    if let Some(node) = self.definition.schema().properties.get(&**name) {
                        self.field(name, node, number, wire, object)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn field(
        &self,
        name: &str,
        node: &Schema,
        number: u32,
        wire: Wire<'_>,
        object: &mut Object,
    ) -> Result<(), ProtobufError> {
        match (node.kind, &node.additional_properties, &node.items) {
            (Some(SchemaType::Array), _, Some(items)) if !is_wrapped(node) => {
                let list = object
                    .entry(name)
                    .or_insert_with(|| Value::Array(Vec::new()))
                    .as_array_mut();
                let Some(list) = list else { return Ok(()) };
                // numbers may come in one field
                if let (Some(SchemaType::Integer), &Wire::Bytes(mut packed)) = (items.kind, &wire) {
                    while !packed.is_empty() {
                        let one = Wire::Varint(varint(&mut packed)?);
                        list.push(self.value(items, number, one)?);
                    }
                    return Ok(());
                }
                list.push(self.value(items, number, wire)?);
            }
            (Some(SchemaType::Object), Some(Additional::Schema(values)), _) if node.reference.is_none() => {
                let Wire::Bytes(bytes) = wire else {
                    return Err(ProtobufError::Form(number));
                };
                let (mut key, mut value) = ("", None);
                for field in fields(bytes) {
                    match field? {
                        (1, Wire::Bytes(bytes)) => key = text(number, bytes)?,
                        (2, wire) => value = Some(self.value(values, number, wire)?),
                        _ => return Err(ProtobufError::Form(number)),
                    }
                }
                let value = match value {
                    Some(value) => value,
                    None => self.value(values, number, zero(values))?,
                };
                let map = object
                    .entry(name)
                    .or_insert_with(|| Value::Object(Map::new()))
                    .as_object_mut();
                if let Some(map) = map {
                    map.insert(key.to_owned(), value);
                }
            }
            _ => {
                let value = self.value(node, number, wire)?;
                if is_written(node, &value) {
                    object.insert(name.to_owned(), value);
                } else {
                    object.remove(name);
                }
            }
        }
        Ok(())
    }

    fn value(&self, node: &Schema, number: u32, wire: Wire<'_>) -> Result<Value, ProtobufError> {
        let form = || ProtobufError::Form(number);
        if let Some(reference) = node.reference.as_deref() {
            let Wire::Bytes(bytes) = wire else {
                return Err(form());
            };
            let definition = self.defs.definition(reference).ok_or_else(form)?;
            return self.referred(definition, number, bytes);
        }
        Ok(match (node.kind, wire) {
            (Some(SchemaType::String), Wire::Bytes(bytes)) if node.format.as_deref() == Some("byte") => {
                STANDARD.encode(bytes).into()
            }
            (Some(SchemaType::String), Wire::Bytes(bytes)) => text(number, bytes)?.into(),
            (Some(SchemaType::Integer), Wire::Varint(value)) => match node.format.as_deref() {
                Some("int32") => Value::from(value as i32),
                _ => value.cast_signed().into(),
            },
            (Some(SchemaType::Boolean), Wire::Varint(value)) => (value != 0).into(),
            (Some(SchemaType::Number), Wire::Fixed(bits)) => {
                let float = f64::from_bits(bits);
                // as Go prints it
                match float as i64 {
                    whole if whole as f64 == float && float.abs() < 1e15 => whole.into(),
                    _ => serde_json::Number::from_f64(float).ok_or_else(form)?.into(),
                }
            }
            (Some(SchemaType::Array), Wire::Bytes(bytes)) if is_wrapped(node) => {
                let mut items = Vec::new();
                for field in fields(bytes) {
                    match field? {
                        (1, Wire::Bytes(bytes)) => items.push(Value::from(text(number, bytes)?)),
                        _ => return Err(form()),
                    }
                }
                items.into()
            }
            _ => return Err(form()),
        })
    }

    fn referred(&self, definition: &Definition, number: u32, bytes: &[u8]) -> Result<Value, ProtobufError> {
        let form = || ProtobufError::Form(number);
        let nested = |bytes| self.schema_props(definition, bytes);
        Ok(match definition.codec {
            Codec::Struct => message(self.defs, definition, bytes, self.depth + 1)?.into(),
            Codec::Quantity => {
                let mut quantity = "0";
                for field in fields(bytes) {
                    match field? {
                        (1, Wire::Bytes(bytes)) => quantity = text(number, bytes)?,
                        _ => return Err(form()),
                    }
                }
                quantity.into()
            }
            Codec::Time => instant(number, bytes, Precision::Seconds)?,
            Codec::MicroTime => instant(number, bytes, Precision::Micros)?,
            Codec::IntOrString => {
                let (mut is_text, mut integer, mut word) = (false, 0, "");
                for field in fields(bytes) {
                    match field? {
                        (1, Wire::Varint(value)) => is_text = value != 0,
                        (2, Wire::Varint(value)) => integer = value as i32,
                        (3, Wire::Bytes(bytes)) => word = text(number, bytes)?,
                        _ => return Err(form()),
                    }
                }
                match is_text {
                    true => word.into(),
                    false => integer.into(),
                }
            }
            Codec::Raw => {
                let mut raw: &[u8] = b"null";
                for field in fields(bytes) {
                    match field? {
                        (1, Wire::Bytes(bytes)) => raw = bytes,
                        _ => return Err(form()),
                    }
                }
                serde_json::from_slice(raw).map_err(|_| form())?
            }
            Codec::SchemaOrArray | Codec::SchemaOrStringArray => {
                let (mut one, mut many) = (None, Vec::new());
                for field in fields(bytes) {
                    match field? {
                        (1, Wire::Bytes(bytes)) => one = Some(nested(bytes)?),
                        (2, Wire::Bytes(bytes)) if definition.codec == Codec::SchemaOrArray => {
                            many.push(nested(bytes)?);
                        }
                        (2, Wire::Bytes(bytes)) => many.push(text(number, bytes)?.into()),
                        _ => return Err(form()),
                    }
                }
                match (one, many.is_empty()) {
                    (Some(one), true) => one,
                    (None, true) => Value::Null,
                    (_, false) => many.into(),
                }
            }
            Codec::SchemaOrBool => {
                let (mut schema, mut allows) = (None, false);
                for field in fields(bytes) {
                    match field? {
                        (1, Wire::Varint(value)) => allows = value != 0,
                        (2, Wire::Bytes(bytes)) => schema = Some(nested(bytes)?),
                        _ => return Err(form()),
                    }
                }
                schema.unwrap_or(Value::Bool(allows))
            }
        })
    }

    fn schema_props(&self, outer: &Definition, bytes: &[u8]) -> Result<Value, ProtobufError> {
        let definition = self.defs.definition(schema_name(outer));
        let definition = definition.ok_or(ProtobufError::Form(1))?;
        Ok(message(self.defs, definition, bytes, self.depth + 1)?.into())
    }
}

/// `JSONSchemaProps` of `JSONSchemaPropsOrBool`.
fn schema_name(outer: &Definition) -> &str {
    outer.name.split("Or").next().unwrap_or(outer.name)
}

/// The form of an absent value.
fn zero(node: &Schema) -> Wire<'static> {
    match (&node.reference, node.kind) {
        (None, Some(SchemaType::Integer | SchemaType::Boolean)) => Wire::Varint(0),
        (None, Some(SchemaType::Number)) => Wire::Fixed(0),
        _ => Wire::Bytes(&[]),
    }
}

fn text(number: u32, bytes: &[u8]) -> Result<&str, ProtobufError> {
    std::str::from_utf8(bytes).map_err(|_| ProtobufError::Text(number))
}

/// A time as text; null for an empty message.
fn instant(number: u32, bytes: &[u8], precision: Precision) -> Result<Value, ProtobufError> {
    let (mut seconds, mut nanos) = (None, 0);
    for field in fields(bytes) {
        match field? {
            (1, Wire::Varint(value)) => seconds = Some(value.cast_signed()),
            (2, Wire::Varint(value)) => nanos = value,
            _ => return Err(ProtobufError::Form(number)),
        }
    }
    let Some(seconds) = seconds else {
        return Ok(Value::Null);
    };
    let nanos = u32::try_from(nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    let written = nanos.and_then(|nanos| time::of_unix(seconds, nanos, precision));
    written.map(Value::from).ok_or(ProtobufError::Form(number))
}

fn put_message(
    defs: &Definitions,
    definition: &Definition,
    value: &Value,
    out: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    let writer = Writer { defs, definition };
    match value {
        Value::Object(object) => writer.fields(definition.slots(), Some(object), out),
        Value::Null => writer.fields(definition.slots(), None, out),
        _ => Err(writer.wrong("it")),
    }
}

/// Writes one message.
struct Writer<'d> {
    defs: &'d Definitions,
    definition: &'d Definition,
}

impl Writer<'_> {
    fn wrong(&self, name: &str) -> ProtobufError {
        ProtobufError::Value {
            definition: self.definition.name.to_owned(),
            name: name.to_owned(),
        }
    }

    fn fields(
        &self,
        slots: &[Slot],
        object: Option<&Object>,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtobufError> {
        for Slot { number, content } in slots {
            match content {
                Content::Embedded(inner) => {
                    let mut nested = Vec::new();
                    self.fields(inner, object, &mut nested)?;
                    put_bytes(out, *number, &nested);
                }
                Content::Field(name) => {
                    let value = object.and_then(|object| object.get(&**name));
                    if let Some(node) = self.definition.schema().properties.get(&**name) {
                        self.field(name, node, *number, value, out)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn field(
        &self,
        name: &str,
        node: &Schema,
        number: u32,
        value: Option<&Value>,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtobufError> {
        match value.filter(|value| !value.is_null()) {
            None if is_always_written(node) => self.value(name, node, number, &Value::Null, out),
            None => Ok(()),
            Some(Value::Array(items)) if !is_wrapped(node) && node.items.is_some() => {
                let Some(item) = &node.items else { return Ok(()) };
                items
                    .iter()
                    .try_for_each(|value| self.value(name, item, number, value, out))
            }
            Some(Value::Object(map)) if node.reference.is_none() => {
                let Some(Additional::Schema(values)) = &node.additional_properties else {
                    return Err(self.wrong(name));
                };
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                for (key, value) in entries {
                    let mut entry = Vec::new();
                    put_bytes(&mut entry, 1, key.as_bytes());
                    self.value(name, values, 2, value, &mut entry)?;
                    put_bytes(out, number, &entry);
                }
                Ok(())
            }
            Some(value) => self.value(name, node, number, value, out),
        }
    }

    /// Writes one value; null is the zero value.
    fn value(
        &self,
        name: &str,
        node: &Schema,
        number: u32,
        value: &Value,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtobufError> {
        if let Some(reference) = node.reference.as_deref() {
            let definition = self.defs.definition(reference).ok_or_else(|| self.wrong(name))?;
            let mut nested = Vec::new();
            self.referred(name, definition, value, &mut nested)?;
            put_bytes(out, number, &nested);
            return Ok(());
        }
        match (node.kind, value) {
            (Some(SchemaType::String), Value::String(text)) if node.format.as_deref() == Some("byte") => {
                let bytes = STANDARD.decode(text).map_err(|_| self.wrong(name))?;
                put_bytes(out, number, &bytes);
            }
            (Some(SchemaType::String), Value::String(text)) => put_bytes(out, number, text.as_bytes()),
            (Some(SchemaType::String), Value::Null) => put_bytes(out, number, b""),
            (Some(SchemaType::Integer), Value::Number(value)) => {
                let value = value.as_i64().ok_or_else(|| self.wrong(name))?;
                put_number(out, number, value.cast_unsigned());
            }
            (Some(SchemaType::Integer | SchemaType::Boolean), Value::Null) => put_number(out, number, 0),
            (Some(SchemaType::Boolean), Value::Bool(value)) => put_number(out, number, u64::from(*value)),
            (Some(SchemaType::Number), Value::Number(value)) => {
                put_varint(out, u64::from(number) << 3 | 1);
                out.extend_from_slice(&value.as_f64().unwrap_or_default().to_bits().to_le_bytes());
            }
            (Some(SchemaType::Array), Value::Array(items)) if is_wrapped(node) => {
                let mut nested = Vec::new();
                for item in items {
                    let text = item.as_str().ok_or_else(|| self.wrong(name))?;
                    put_bytes(&mut nested, 1, text.as_bytes());
                }
                put_bytes(out, number, &nested);
            }
            (Some(SchemaType::Array), Value::Null) if is_wrapped(node) => put_bytes(out, number, b""),
            _ => return Err(self.wrong(name)),
        }
        Ok(())
    }

    fn referred(
        &self,
        name: &str,
        definition: &Definition,
        value: &Value,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtobufError> {
        match (definition.codec, value) {
            (Codec::Struct, value) => put_message(self.defs, definition, value, out)?,
            (Codec::Quantity, Value::String(text)) => put_bytes(out, 1, text.as_bytes()),
            (Codec::Quantity, Value::Null) => put_bytes(out, 1, b"0"),
            (Codec::Time | Codec::MicroTime | Codec::Raw, Value::Null) => {}
            (Codec::Time, Value::String(text)) => self.instant(name, text, Precision::Seconds, out)?,
            (Codec::MicroTime, Value::String(text)) => self.instant(name, text, Precision::Micros, out)?,
            (Codec::IntOrString, value) => {
                let (is_text, word) = match value {
                    Value::String(word) => (true, word.as_str()),
                    _ => (false, ""),
                };
                put_number(out, 1, u64::from(is_text));
                put_number(out, 2, value.as_i64().unwrap_or_default().cast_unsigned());
                put_bytes(out, 3, word.as_bytes());
            }
            (Codec::Raw, value) => put_bytes(out, 1, value.to_string().as_bytes()),
            (Codec::SchemaOrBool, value) => {
                put_number(
                    out,
                    1,
                    u64::from(*value == Value::Bool(true) || value.is_object()),
                );
                if value.is_object() {
                    self.schema_props(name, definition, 2, value, out)?;
                }
            }
            (Codec::SchemaOrArray, Value::Array(items)) => {
                for item in items {
                    self.schema_props(name, definition, 2, item, out)?;
                }
            }
            (Codec::SchemaOrStringArray, Value::Array(items)) => {
                for item in items {
                    let text = item.as_str().ok_or_else(|| self.wrong(name))?;
                    put_bytes(out, 2, text.as_bytes());
                }
            }
            (Codec::SchemaOrArray | Codec::SchemaOrStringArray, Value::Null) => {}
            (Codec::SchemaOrArray | Codec::SchemaOrStringArray, value) => {
                self.schema_props(name, definition, 1, value, out)?;
            }
            _ => return Err(self.wrong(name)),
        }
        Ok(())
    }

    fn schema_props(
        &self,
        name: &str,
        outer: &Definition,
        number: u32,
        value: &Value,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtobufError> {
        let definition = self.defs.definition(schema_name(outer));
        let definition = definition.ok_or_else(|| self.wrong(name))?;
        let mut nested = Vec::new();
        put_message(self.defs, definition, value, &mut nested)?;
        put_bytes(out, number, &nested);
        Ok(())
    }

    fn instant(
        &self,
        name: &str,
        text: &str,
        precision: Precision,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtobufError> {
        let (seconds, nanos) = time::to_unix(text, precision).ok_or_else(|| self.wrong(name))?;
        put_number(out, 1, seconds.cast_unsigned());
        put_number(out, 2, u64::from(nanos));
        Ok(())
    }
}

/// Whether an absent value is written as zero: fields that are no pointers, lists or maps.
fn is_always_written(node: &Schema) -> bool {
    let is_list_or_map = match (&node.reference, node.kind) {
        (Some(_), _) => false,
        (None, Some(SchemaType::String)) => node.format.as_deref() == Some("byte"),
        (None, kind) => matches!(kind, Some(SchemaType::Array | SchemaType::Object) | None),
    };
    let is_pointer = node.pointer || node.omit == Some(Omit::Nil);
    !is_list_or_map && !is_pointer
}
