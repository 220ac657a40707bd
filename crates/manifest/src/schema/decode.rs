//! The normal form of built-in objects.
//!
//! [`decode`] has the effect of decoding a JSON value into the Go type and encoding it again: it checks
//! types, drops unknown fields, omits or writes zero values as the field's tags demand, and normalizes
//! scalars. Later stages can then compare objects as JSON. Empty lists and maps in fields that are always
//! written become null, because the stored protobuf form cannot represent them.
//!
//! It does not guess kinds, fill in defaults, or match keys case-insensitively. Because it works on a parsed
//! value, it differs from Go in two points: the spelling of floats (`1e3`) is lost, and reports come in
//! sorted key order. Behaviour: sigs.k8s.io/json and k8s.io/apimachinery v0.36.

use super::definitions::{Codec, Definition};
use super::quantity::Quantity;
use super::time::{self, Precision};
use super::{Additional, Definitions, Omit, Schema, SchemaType};
use crate::json::type_name;
use serde_json::{Map, Number, Value};

/// The most unknown fields Go reports.
const UNKNOWN_MAX: usize = 100;

/// A value in normal form.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The value.
    pub value: Value,
    /// The paths of unknown fields, `spec.containers[0].foo`; at most 100.
    pub unknown: Vec<String>,
}

/// A value that is not of the type; prints as Go's error, without a prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DecodeError {
    message: String,
    mismatch: Option<(String, String)>,
}

impl DecodeError {
    /// The found JSON type and the expected Go type, if this is a type error.
    pub fn mismatch(&self) -> Option<(&str, &str)> {
        self.mismatch
            .as_ref()
            .map(|(found, expected)| (found.as_str(), expected.as_str()))
    }
}

/// Converts a value to the normal form of a definition.
pub fn decode(defs: &Definitions, definition: &str, mut value: Value) -> Result<Decoded, DecodeError> {
    let Some(definition) = defs.definition(definition) else {
        return Err(DecodeError {
            message: format!("no definition {definition}"),
            mismatch: None,
        });
    };
    let mut decoder = Decoder {
        defs,
        saved: None,
        mismatch: None,
        unknown: Vec::new(),
        strict: true,
    };
    match decoder.definition(definition, &mut value, &Path::Root) {
        Err(Fatal(message)) => Err(DecodeError {
            message,
            mismatch: None,
        }),
        Ok(()) => match decoder.saved {
            Some(message) => Err(DecodeError {
                message,
                mismatch: decoder.mismatch,
            }),
            None => Ok(Decoded {
                value,
                unknown: decoder.unknown,
            }),
        },
    }
}

struct Decoder<'d> {
    defs: &'d Definitions,
    /// The first type error; decoding goes on, because a later fatal error takes precedence.
    saved: Option<String>,
    /// The types of `saved`, if it is a type error.
    mismatch: Option<(String, String)>,
    unknown: Vec<String>,
    /// Whether unknown fields are reported; types that decode themselves do not.
    strict: bool,
}

/// An error of a type that decodes itself; it ends the decoding.
struct Fatal(String);

type Step = Result<(), Fatal>;

/// The current path; lives on the stack and is only printed for errors.
enum Path<'p> {
    Root,
    Field {
        parent: &'p Path<'p>,
        definition: &'p Definition,
        inline: Option<&'p str>,
        name: &'p str,
    },
    Key(&'p Path<'p>, &'p str),
    Index(&'p Path<'p>, usize),
}

impl Path<'_> {
    /// Go's strict path: every field, key and index.
    fn strict(&self, out: &mut String) {
        let (parent, name) = match self {
            Path::Root => return,
            Path::Index(parent, index) => {
                parent.strict(out);
                out.push_str(&format!("[{index}]"));
                return;
            }
            Path::Field { parent, name, .. } | Path::Key(parent, name) => (parent, name),
        };
        parent.strict(out);
        if !out.is_empty() {
            out.push('.');
        }
        out.push_str(name);
    }

    /// Go's error context: only fields of structs, with embedded structs.
    fn fields(&self, out: &mut Vec<String>) {
        match self {
            Path::Root => {}
            Path::Key(parent, _) | Path::Index(parent, _) => parent.fields(out),
            Path::Field {
                parent, inline, name, ..
            } => {
                parent.fields(out);
                out.extend(inline.map(str::to_owned));
                out.push((*name).to_owned());
            }
        }
    }

    fn context(&self) -> Option<&Definition> {
        match self {
            Path::Root => None,
            Path::Key(parent, _) | Path::Index(parent, _) => parent.context(),
            Path::Field { definition, .. } => Some(definition),
        }
    }

    fn mismatch(&self, found: &str, expected: &str) -> String {
        match self.context() {
            None => format!("json: cannot unmarshal {found} into Go value of type {expected}"),
            Some(definition) => {
                let mut fields = Vec::new();
                self.fields(&mut fields);
                format!(
                    "json: cannot unmarshal {found} into Go struct field {}.{} of type {expected}",
                    definition.go_name(),
                    fields.join(".")
                )
            }
        }
    }
}

impl Decoder<'_> {
    fn save(&mut self, path: &Path<'_>, found: &str, expected: &str) {
        if self.saved.is_none() {
            self.saved = Some(path.mismatch(found, expected));
            self.mismatch = Some((found.to_owned(), expected.to_owned()));
        }
    }

    fn value(&mut self, node: &Schema, value: &mut Value, path: &Path<'_>) -> Step {
        if let Some(reference) = &node.reference {
            return match self.defs.definition(reference) {
                Some(definition) => self.definition(definition, value, path),
                None => Ok(()),
            };
        }
        match node.kind {
            None => return Ok(()),
            Some(SchemaType::String) if node.format.as_deref() == Some("byte") => match value {
                Value::String(text) => {
                    if let Err(position) = normalize_base64(text) {
                        let message = format!("illegal base64 data at input byte {position}");
                        self.saved.get_or_insert(message);
                    }
                    return Ok(());
                }
                Value::Null => return Ok(()),
                _ => {}
            },
            Some(SchemaType::String) if value.is_string() => return Ok(()),
            Some(SchemaType::Boolean) if value.is_boolean() => return Ok(()),
            Some(SchemaType::Integer) => {
                if let Value::Number(number) = value {
                    let narrow = node.format.as_deref() == Some("int32");
                    let fits = number
                        .as_i64()
                        .is_some_and(|n| !narrow || i32::try_from(n).is_ok());
                    if !fits {
                        self.save(path, &format!("number {number}"), &node.go_type());
                    }
                    return Ok(());
                }
            }
            Some(SchemaType::Number) => {
                if let Value::Number(number) = value {
                    normalize_float(number);
                    return Ok(());
                }
            }
            Some(SchemaType::Array) => {
                if let Value::Array(items) = value {
                    return self.list(node, items, path);
                }
            }
            Some(SchemaType::Object) => {
                if let Value::Object(map) = value {
                    return self.map(node, map, path);
                }
            }
            Some(SchemaType::String | SchemaType::Boolean) => {}
        }
        if !value.is_null() {
            self.save(path, type_name(value), &node.go_type());
        }
        *value = self.zero(node);
        Ok(())
    }

    fn list(&mut self, node: &Schema, items: &mut [Value], path: &Path<'_>) -> Step {
        let Some(element) = node.items.as_deref() else {
            return Ok(());
        };
        for (index, item) in items.iter_mut().enumerate() {
            self.element(element, item, &Path::Index(path, index))?;
        }
        Ok(())
    }

    fn map(&mut self, node: &Schema, map: &mut Map<String, Value>, path: &Path<'_>) -> Step {
        let Some(Additional::Schema(element)) = &node.additional_properties else {
            return Ok(());
        };
        for (key, value) in map.iter_mut() {
            self.element(element, value, &Path::Key(path, key))?;
            // the stored form has no null for map values
            if value.is_null() && element.reference.is_none() {
                match element.kind {
                    Some(SchemaType::String) => *value = "".into(),
                    Some(SchemaType::Array) => *value = Value::Array(Vec::new()),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// An item of a list or map: null leaves the zero value.
    fn element(&mut self, node: &Schema, value: &mut Value, path: &Path<'_>) -> Step {
        if value.is_null() {
            *value = self.zero(node);
            return Ok(());
        }
        self.value(node, value, path)
    }

    fn zero(&self, node: &Schema) -> Value {
        if node.go.as_deref().is_some_and(|go| go.starts_with('*')) {
            return Value::Null;
        }
        if let Some(definition) = node
            .reference
            .as_deref()
            .and_then(|name| self.defs.definition(name))
        {
            return match definition.codec {
                Codec::Struct => Value::Object(definition.schema().zero.clone()),
                Codec::Quantity => "0".into(),
                Codec::IntOrString => 0.into(),
                Codec::SchemaOrBool => false.into(),
                Codec::Time
                | Codec::MicroTime
                | Codec::Raw
                | Codec::SchemaOrArray
                | Codec::SchemaOrStringArray => Value::Null,
            };
        }
        match node.kind {
            Some(SchemaType::String) if node.format.as_deref() == Some("byte") => Value::Null,
            Some(SchemaType::String) => "".into(),
            Some(SchemaType::Integer | SchemaType::Number) => 0.into(),
            Some(SchemaType::Boolean) => false.into(),
            Some(SchemaType::Array | SchemaType::Object) | None => Value::Null,
        }
    }

    fn definition(&mut self, definition: &Definition, value: &mut Value, path: &Path<'_>) -> Step {
        match definition.codec {
            Codec::Raw => Ok(()),
            Codec::Struct => self.object(definition, value, path),
            Codec::Quantity => quantity(value),
            Codec::Time => time(value, Precision::Seconds, path),
            Codec::MicroTime => time(value, Precision::Micros, path),
            Codec::IntOrString => int_or_string(value, path),
            Codec::SchemaOrBool => match value {
                Value::Bool(_) => Ok(()),
                Value::Object(_) => self.nested_schema(definition, value, path),
                _ => Err(Fatal("boolean or JSON schema expected".to_owned())),
            },
            Codec::SchemaOrArray => match value {
                Value::Object(_) => self.nested_schema(definition, value, path),
                Value::Array(items) if !items.is_empty() => {
                    for item in items {
                        self.nested_schema(definition, item, path)?;
                    }
                    Ok(())
                }
                _ => {
                    *value = Value::Null;
                    Ok(())
                }
            },
            Codec::SchemaOrStringArray => match value {
                Value::Object(_) => self.nested_schema(definition, value, path),
                Value::Array(items) if !items.is_empty() => {
                    for item in items {
                        match item {
                            Value::String(_) => {}
                            Value::Null => *item = "".into(),
                            _ => return Err(Fatal(path.mismatch(type_name(item), "string"))),
                        }
                    }
                    Ok(())
                }
                _ => {
                    *value = Value::Null;
                    Ok(())
                }
            },
        }
    }

    /// `JSONSchemaProps` inside a type that decodes itself: no unknown fields reported, errors fatal.
    fn nested_schema(&mut self, outer: &Definition, value: &mut Value, path: &Path<'_>) -> Step {
        let name = outer.name.split("Or").next().unwrap_or(outer.name);
        let Some(definition) = self.defs.definition(name) else {
            return Ok(());
        };
        let saved = self.saved.take();
        let strict = std::mem::replace(&mut self.strict, false);
        let result = self.object(definition, value, path);
        self.strict = strict;
        let inner = std::mem::replace(&mut self.saved, saved);
        result?;
        inner.map_or(Ok(()), |message| Err(Fatal(message)))
    }

    fn object(&mut self, definition: &Definition, value: &mut Value, path: &Path<'_>) -> Step {
        let schema = definition.schema();
        let map = match value {
            Value::Object(map) => map,
            other => {
                if !other.is_null() {
                    let expected = definition
                        .name
                        .rmatch_indices('.')
                        .nth(1)
                        .map_or(0, |(dot, _)| dot + 1);
                    self.save(path, type_name(other), &definition.name[expected..]);
                }
                *other = Value::Object(schema.zero.clone());
                return Ok(());
            }
        };
        let is_root = matches!(path, Path::Root);
        let mut fatal = None;
        map.retain(|name, value| {
            if fatal.is_some() {
                return true;
            }
            let Some(node) = schema.properties.get(name) else {
                self.report_unknown(path, name);
                return false;
            };
            if value.is_null() {
                return false;
            }
            let path = Path::Field {
                parent: path,
                definition,
                inline: node.inline.as_deref(),
                name,
            };
            if let Err(error) = self.value(node, value, &path) {
                fatal = Some(error);
                return true;
            }
            // only a whole object has a kind: the stored form has no room for it further down
            is_written(node, value) && (is_root || node.inline.as_deref() != Some("TypeMeta"))
        });
        if let Some(fatal) = fatal {
            return Err(fatal);
        }
        for (name, zero) in &schema.zero {
            if !map.contains_key(name) {
                map.insert(name.clone(), zero.clone());
            }
        }
        // the one nested object with a kind: upstream adds it when encoding
        if let Path::Index(Path::Field { name, definition, .. }, _) = path
            && *name == "volumeClaimTemplates"
            && definition.go_name() == "StatefulSetSpec"
        {
            map.insert("apiVersion".to_owned(), "v1".into());
            map.insert("kind".to_owned(), "PersistentVolumeClaim".into());
        }
        Ok(())
    }

    fn report_unknown(&mut self, path: &Path<'_>, name: &str) {
        if self.strict && self.unknown.len() < UNKNOWN_MAX {
            let mut unknown = String::new();
            Path::Key(path, name).strict(&mut unknown);
            self.unknown.push(unknown);
        }
    }
}

/// Whether the encoder writes a decoded field. Missing fields that are always written are filled in later.
pub(super) fn is_written(node: &Schema, value: &Value) -> bool {
    match node.omit {
        Some(Omit::Empty) => match value {
            Value::Null => false,
            Value::Bool(value) => *value,
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(map) => !map.is_empty(),
        },
        Some(Omit::Never) => match value {
            Value::Array(items) => !items.is_empty(),
            Value::Object(map) => !map.is_empty() || node.reference.is_some(),
            _ => true,
        },
        Some(Omit::Nil | Omit::Zero) => !value.is_null(),
        None => true,
    }
}

fn quantity(value: &mut Value) -> Step {
    let text = match &*value {
        Value::Null => "0".to_owned(),
        // canonical values are short and have no spaces around them
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    let quantity = Quantity::parse(&text).map_err(|error| Fatal(error.to_string()))?;
    *value = Value::String(quantity.to_string());
    Ok(())
}

fn time(value: &mut Value, precision: Precision, path: &Path<'_>) -> Step {
    match value {
        Value::Null => Ok(()),
        Value::String(text) if time::is_normal(text, precision) => Ok(()),
        Value::String(text) => {
            let normal = time::normalize(text, precision).map_err(|error| Fatal(error.to_string()))?;
            *value = normal.map_or(Value::Null, Value::String);
            Ok(())
        }
        other => Err(Fatal(path.mismatch(type_name(other), "string"))),
    }
}

fn int_or_string(value: &mut Value, path: &Path<'_>) -> Step {
    match value {
        Value::String(_) => Ok(()),
        Value::Null => {
            *value = 0.into();
            Ok(())
        }
        Value::Number(number) if number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => Ok(()),
        Value::Number(number) => Err(Fatal(path.mismatch(&format!("number {number}"), "int32"))),
        other => Err(Fatal(path.mismatch(type_name(other), "int32"))),
    }
}

/// Go writes a whole float below 1e21 without a point.
fn normalize_float(number: &mut Number) {
    let Some(float) = number.as_f64() else { return };
    if float.fract() != 0.0 || float.abs() >= 1e21 {
        return;
    }
    let text = format!("{float}");
    if let Ok(integer) = text.parse::<i64>() {
        *number = integer.into();
    } else if let Ok(integer) = text.parse::<u64>() {
        *number = integer.into();
    }
}

/// Checks standard base64 as Go does (skipping line breaks) and normalizes it. The error is the position Go
/// reports.
fn normalize_base64(text: &mut String) -> Result<(), usize> {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    // the base64 crate refuses line breaks and stray bits, both of which Go accepts
    if STANDARD.decode(text.as_bytes()).is_ok() {
        return Ok(());
    }
    let bytes = decode_base64(text.as_bytes())?;
    *text = STANDARD.encode(bytes);
    Ok(())
}

fn decode_base64(input: &[u8]) -> Result<Vec<u8>, usize> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let mut output = Vec::with_capacity(input.len() / 4 * 3);
    let mut group = 0_u32;
    let mut length = 0_usize;
    let mut at = 0;
    while at < input.len() {
        let byte = input[at];
        at += 1;
        if is_break(&byte) {
            continue;
        }
        if let Some(digit) = digit(byte) {
            group = group << 6 | u32::from(digit);
            length += 1;
            if length == 4 {
                output.extend_from_slice(&group.to_be_bytes()[1..]);
                (group, length) = (0, 0);
            }
            continue;
        }
        if byte != b'=' || length < 2 {
            return Err(at - 1);
        }
        let skip = |mut at: usize| {
            while input.get(at).is_some_and(is_break) {
                at += 1;
            }
            at
        };
        if length == 2 {
            at = skip(at);
            match input.get(at) {
                None => return Err(input.len()),
                Some(b'=') => at += 1,
                Some(_) => return Err(at),
            }
        }
        at = skip(at);
        if at < input.len() {
            return Err(at);
        }
        let padded = group << (6 * (4 - length));
        output.extend_from_slice(&padded.to_be_bytes()[1..length]);
        return Ok(output);
    }
    match length {
        0 => Ok(output),
        _ => Err(at - length),
    }
}
