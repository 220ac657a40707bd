//! JSON and YAML, in and out.

use super::{Function, table};
use crate::call::{Call, Outcome};
use crate::fault::Fault;
use crate::limits::Limit;
use crate::value::{Elements, Entries, List, Map, Value};
use equate_manifest::{json, yaml};
use serde_json::Value as Json;

pub(super) const FUNCTIONS: &[Function] = table! {
    "toJson" (Any) => |call| lenient(call, 0, json::to_go_string);
    "mustToJson" (Any) => |call| strict(call, 0, json::to_go_string);
    "toPrettyJson" (Any) => |call| lenient(call, INDENT, pretty_json);
    "mustToPrettyJson" (Any) => |call| strict(call, INDENT, pretty_json);
    "toRawJson" (Any) => |call| strict(call, 0, |json| raw(&json::to_go_string(json)));
    "mustToRawJson" (Any) => |call| strict(call, 0, |json| raw(&json::to_go_string(json)));
    "toYaml" (Any) => |call| lenient(call, INDENT, to_yaml);
    "mustToYaml" (Any) => |call| strict(call, INDENT, to_yaml);
    "toYamlPretty" (Any) => |call| {
        written(call, INDENT)?;
        match deep(|| call.arg(0).to_json_with_floats(call.depth_max()).map(|json| super::pretty::to_yaml(&json))) {
            Ok(text) => call.done(text),
            Err(Fault::Message(_)) => Ok("".into()),
            Err(fault) => Err(fault),
        }
    };
    "fromJson" (Str) => |call| {
        spent(call)?;
        let read = deep(|| from_json(call, MAP));
        Ok(map_or_error(read, Map::nil(Entries::Any)).into())
    };
    "fromJsonArray" (Str) => |call| {
        spent(call)?;
        let read = deep(|| from_json(call, LIST));
        Ok(list_or_error(read, List::nil(Elements::Any)).into())
    };
    "mustFromJson" (Str) => |call| {
        spent(call)?;
        deep(|| from_json(call, ANY)).map_err(Fault::Message)
    };
    "fromYaml" (Str) => |call| {
        spent(call)?;
        let read = deep(|| from_yaml(call, MAP));
        // null gives an empty map, not nil
        counted(call, map_or_error(read, Map::new()).into())
    };
    "fromYamlArray" (Str) => |call| {
        spent(call)?;
        let read = deep(|| from_yaml(call, LIST));
        counted(call, list_or_error(read, List::new(Vec::new())).into())
    };
};

const INDENT: usize = 2;

fn to_json(call: &mut Call<'_, '_>, indent: usize) -> Result<Json, Fault> {
    written(call, indent)?;
    call.arg(0).to_json(call.depth_max())
}

/// Charges the written size of the value before it is written.
fn written(call: &mut Call<'_, '_>, indent: usize) -> Result<(), Limit> {
    let written = call.arg(0).written(indent, call.exec.limits())?;
    // writing is a hundred times slower than copying
    call.exec.meter().work(written.text.saturating_mul(16))?;
    call.exec.meter().work(written.maps.saturating_mul(4))?;
    call.exec.meter().make(written.text.saturating_add(written.maps))
}

/// Writes a value; empty if that fails.
fn lenient(call: &mut Call<'_, '_>, indent: usize, write: fn(&Json) -> String) -> Outcome {
    let text = deep(|| to_json(call, indent).map(|json| write(&json)));
    match text {
        Ok(text) => call.done(text),
        Err(Fault::Message(_)) => Ok("".into()),
        Err(fault) => Err(fault),
    }
}

/// Runs with stack for a document of the deepest nesting.
fn deep<T>(run: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(4 << 20, 8 << 20, run)
}

fn strict(call: &mut Call<'_, '_>, indent: usize, write: fn(&Json) -> String) -> Outcome {
    let text = deep(|| to_json(call, indent).map(|json| write(&json)))?;
    call.done(text)
}

fn to_yaml(json: &Json) -> String {
    let text = yaml::to_string(json);
    match text.strip_suffix('\n') {
        Some(text) => text.to_owned(),
        None => text,
    }
}

/// JSON as Go indents it, by two spaces.
fn pretty_json(json: &Json) -> String {
    let mut out = String::new();
    indented(&mut out, json, 0);
    out
}

fn indented(out: &mut String, json: &Json, depth: usize) {
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', INDENT * depth));
    };
    match json {
        Json::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                out.push(if index == 0 { '[' } else { ',' });
                line(out, depth + 1);
                indented(out, item, depth + 1);
            }
            line(out, depth);
            out.push(']');
        }
        Json::Object(map) if !map.is_empty() => {
            for (index, (key, value)) in map.iter().enumerate() {
                out.push(if index == 0 { '{' } else { ',' });
                line(out, depth + 1);
                out.push_str(&json::to_go_string(&Json::String(key.clone())));
                out.push_str(": ");
                indented(out, value, depth + 1);
            }
            line(out, depth);
            out.push('}');
        }
        other => out.push_str(&json::to_go_string(other)),
    }
}

/// JSON with `<`, `>` and `&` unescaped.
fn raw(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let plain = match escape.get(..6) {
            Some("\\u003c") => Some('<'),
            Some("\\u003e") => Some('>'),
            Some("\\u0026") => Some('&'),
            _ => None,
        };
        let length = match plain {
            Some(character) => {
                out.push(character);
                6
            }
            None => {
                // an escaped backslash hides the next character
                out.push_str(escape.get(..2).unwrap_or(escape));
                escape.len().min(2)
            }
        };
        rest = &escape[length..];
    }
    out.push_str(rest);
    out
}

/// The most values of a YAML text, with aliases expanded.
const NODES_MAX: usize = 100_000;
/// The memory of an object while it is parsed, and as a map.
const OBJECT_BYTES: usize = 1_200;

type Wanted = (fn(&Json) -> bool, &'static str);

const ANY: Wanted = (|_| true, "");
const MAP: Wanted = (
    |json| json.is_object() || json.is_null(),
    "map[string]interface {}",
);
const LIST: Wanted = (|json| json.is_array() || json.is_null(), "[]interface {}");

fn fitting(json: &Json, (fits, name): Wanted) -> Result<Value, String> {
    if !fits(json) {
        let found = json::type_name(json);
        return Err(format!(
            "json: cannot unmarshal {found} into Go value of type {name}"
        ));
    }
    Ok(Value::from_json(json))
}

/// Charges the memory to parse a text, in advance.
fn spent(call: &mut Call<'_, '_>) -> Result<(), Limit> {
    call.charge_slow_read(16)?;
    let text = call.bytes(0);
    // an object of five bytes takes as much as one of eleven entries
    let maps = memchr::memchr_iter(b'{', text)
        .count()
        .saturating_mul(OBJECT_BYTES);
    let bytes = text.len().saturating_mul(8).saturating_add(maps);
    call.exec.meter().make(bytes)
}

fn from_json(call: &mut Call<'_, '_>, wanted: Wanted) -> Result<Value, String> {
    let decoded = json::decode(call.bytes(0)).map_err(|error| error.to_string())?;
    fitting(&decoded.value, wanted)
}

fn from_yaml(call: &mut Call<'_, '_>, wanted: Wanted) -> Result<Value, String> {
    let options = yaml::Options {
        duplicates: yaml::Duplicates::Collect,
        nodes_max: NODES_MAX,
        ..yaml::Options::default()
    };
    let document = yaml::load_first(&call.text(0), &options).map_err(|error| {
        // go-yaml omits the line if it is the first
        let line = match error.line {
            1 => String::new(),
            line => format!("line {line}: "),
        };
        format!("error converting YAML to JSON: yaml: {line}{}", error.fault)
    })?;
    let json = document.map_or(Json::Null, |document| document.value);
    fitting(&json, wanted).map_err(|error| format!("error unmarshaling JSON: while decoding JSON: {error}"))
}

/// Charges a parsed value, which aliases may make much larger than its text.
fn counted(call: &mut Call<'_, '_>, value: Value) -> Outcome {
    let written = value.written(0, call.exec.limits())?;
    let bytes = written
        .text
        .saturating_mul(4)
        .saturating_add(written.maps.saturating_mul(2));
    call.exec.meter().make(bytes)?;
    Ok(value)
}

fn map_or_error(read: Result<Value, String>, null: Map) -> Map {
    match read {
        Ok(Value::Map(map)) => map,
        Ok(_) => null,
        Err(message) => Map::from_iter([("Error".into(), message.into())]),
    }
}

fn list_or_error(read: Result<Value, String>, null: List) -> List {
    match read {
        Ok(Value::List(list)) => list,
        Ok(_) => null,
        Err(message) => List::new(vec![message.into()]),
    }
}

#[cfg(test)]
mod tests {
    use super::{INDENT, pretty_json, to_yaml};
    use crate::limits::Limits;
    use crate::value::{List, Map, Value};

    #[test]
    fn written_size_is_charged() {
        let nested = |value: Value| {
            (0..200).fold(value, |inner, _| {
                let side = List::new(vec![Value::int(1), inner]);
                Map::from_iter([("k".into(), side.into()), ("l".into(), Value::from("a\nb"))]).into()
            })
        };
        for value in [
            Value::from("\u{1}\u{2}<>&"),
            Value::from("a: \n\n\nb"),
            nested(Value::int(1)),
            nested(Value::from(&*"line\n".repeat(500))),
            nested(List::new(vec![Value::int(7); 500]).into()),
        ] {
            let counted = value.written(INDENT, &Limits::default()).unwrap().text;
            let json = value.to_json(1_000).unwrap();
            for (how, text) in [
                ("json", pretty_json(&json)),
                ("yaml", to_yaml(&json)),
                ("pretty", super::super::pretty::to_yaml(&json)),
            ] {
                let length = text.len();
                assert!(length <= counted, "{how}: {length} of {counted}");
            }
        }
    }
}
