//! The definitions: published schemas, completed from the Go source.

use super::Error;
use super::go::{Decl, Field, Sources, Type};
use super::resources::Served;
use serde_json::{Map, Value, json};
use std::path::Path;

const PREFIX: &str = "#/components/schemas/";

/// Types with their own encoding; their definitions are complete.
const OWN_ENCODING: &[(&str, &str)] = &[
    ("Quantity", "\"0\""),
    ("Time", "null"),
    ("MicroTime", "null"),
    ("Duration", "\"0s\""),
    ("IntOrString", "0"),
    ("RawExtension", "null"),
    ("FieldsV1", "null"),
    ("JSON", "null"),
    ("JSONSchemaPropsOrArray", "null"),
    ("JSONSchemaPropsOrBool", "false"),
    ("JSONSchemaPropsOrStringArray", "null"),
];

pub(super) fn read(folder: &Path, served: &Served, sources: &mut Sources) -> Result<Published, Error> {
    let mut definitions = Map::new();
    let mut files = vec!["api__v1_openapi.json".to_owned()];
    files.extend(
        served
            .iter()
            .filter(|(group, _)| !group.is_empty())
            .map(|(group, version)| format!("apis__{group}__{version}_openapi.json")),
    );
    files.extend(["api_openapi.json", "apis_openapi.json", "version_openapi.json"].map(str::to_owned));
    for file in files {
        let mut document = super::read_json(&folder.join(file))?;
        if let Value::Object(schemas) = document["components"]["schemas"].take() {
            for (name, schema) in schemas {
                // The first document is the core group's. Documents differ only in the kinds listed for a
                // shared type, and the core group's kind is the shared one.
                definitions.entry(name).or_insert(schema);
            }
        }
    }
    let descriptions = definitions
        .iter()
        .map(|(name, schema)| (name.clone(), described(schema)))
        .collect();
    for (name, schema) in &mut definitions {
        tidy(schema);
        let (path, ty) = go_type(name)?;
        if !OWN_ENCODING.iter().any(|(own, _)| *own == ty) {
            annotate_struct(name, schema, &path, &ty, sources)?;
        }
    }
    Ok(Published {
        definitions,
        descriptions,
    })
}

pub(super) struct Published {
    pub(super) definitions: Map<String, Value>,
    /// Texts by definition, then by property; the definition's own is under the empty name.
    pub(super) descriptions: Map<String, Value>,
}

fn described(schema: &Value) -> Value {
    let mut texts = Map::new();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let own = std::iter::once((String::new(), schema));
    for (name, node) in own.chain(properties.map(|(name, node)| (name.clone(), node))) {
        if let Some(text) = node.get("description") {
            texts.insert(name, text.clone());
        }
    }
    Value::Object(texts)
}

/// Removes descriptions and shortens references.
fn tidy(node: &mut Value) {
    let Value::Object(node) = node else { return };
    node.remove("description");
    if let Some(Value::Array(all)) = node.get_mut("allOf")
        && let [single] = all.as_mut_slice()
        && let Some(reference) = single.get_mut("$ref").map(Value::take)
    {
        node.remove("allOf");
        node.insert("$ref".into(), reference);
    }
    if let Some(Value::String(reference)) = node.get_mut("$ref")
        && let Some(name) = reference.strip_prefix(PREFIX)
    {
        *reference = name.to_owned();
    }
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        properties.values_mut().for_each(tidy);
    }
    for key in ["items", "additionalProperties", "not"] {
        if let Some(child) = node.get_mut(key) {
            tidy(child);
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(children)) = node.get_mut(key) {
            children.iter_mut().for_each(tidy);
        }
    }
}

/// The Go package and type of a definition.
fn go_type(definition: &str) -> Result<(String, String), Error> {
    let unknown = || Error::Source(format!("definition {definition} belongs to no known Go package"));
    let (package, ty) = definition.rsplit_once('.').ok_or_else(unknown)?;
    let modules = [
        ("io.k8s.api.", "k8s.io/api/"),
        ("io.k8s.apimachinery.", "k8s.io/apimachinery/"),
        (
            "io.k8s.apiextensions-apiserver.",
            "k8s.io/apiextensions-apiserver/",
        ),
        ("io.k8s.kube-aggregator.", "k8s.io/kube-aggregator/"),
    ];
    let path = modules
        .iter()
        .find_map(|(prefix, module)| {
            Some(format!(
                "{module}{}",
                package.strip_prefix(prefix)?.replace('.', "/")
            ))
        })
        .ok_or_else(unknown)?;
    Ok((path, ty.to_owned()))
}

/// A field of a struct or an embedded struct, and the names of the embedded structs.
struct Flat {
    field: Field,
    inline: Vec<String>,
    /// The protobuf numbers of the embedded structs and the field; `None` if one has no number.
    numbers: Option<Vec<u32>>,
}

fn fields(path: &str, ty: &str, sources: &mut Sources) -> Result<Vec<Flat>, Error> {
    let ty = Type::Named(path.to_owned(), ty.to_owned());
    let Type::Named(path, ty) = sources.underlying(&ty)? else {
        return Err(Error::Source(format!("{path}.{ty:?} is not a struct")));
    };
    let Decl::Struct(own) = sources.declaration(&path, &ty)? else {
        return Err(Error::Source(format!("{path}.{ty} is not a struct")));
    };
    let mut flat = Vec::new();
    for field in own {
        if !field.json.is_empty() {
            flat.push(Flat {
                numbers: field.protobuf.map(|number| vec![number]),
                field,
                inline: Vec::new(),
            });
            continue;
        }
        let Type::Named(path, ty) = &field.ty else {
            return Err(Error::Source(format!(
                "{path}.{ty} embeds something that is not a struct"
            )));
        };
        for mut inner in fields(path, ty, sources)? {
            inner.inline.insert(0, field.name.clone());
            let outer = field.protobuf.into_iter();
            inner.numbers = match (field.protobuf, inner.numbers) {
                (Some(_), Some(numbers)) => Some(outer.chain(numbers).collect()),
                _ => None,
            };
            flat.push(inner);
        }
    }
    Ok(flat)
}

fn annotate_struct(
    name: &str,
    schema: &mut Value,
    path: &str,
    ty: &str,
    sources: &mut Sources,
) -> Result<(), Error> {
    let flat = fields(path, ty, sources)?;
    let mut empty = Map::new();
    let properties = match schema.get_mut("properties") {
        Some(Value::Object(properties)) => properties,
        _ => &mut empty,
    };
    let mut published: Vec<String> = properties.keys().cloned().collect();
    let mut declared: Vec<String> = flat.iter().map(|flat| flat.field.json.clone()).collect();
    published.sort();
    declared.sort();
    if published != declared {
        return Err(Error::Source(format!(
            "{name}: published properties {published:?} are not the Go fields {declared:?}"
        )));
    }
    for Flat {
        field,
        inline,
        numbers,
    } in flat
    {
        let node = &mut properties[&field.json];
        annotate(node, &field.ty, false, sources)?;
        let omit = omit(name, &field, sources)?;
        node["x-omit"] = omit.into();
        if omit == "never" && matches!(sources.underlying(&field.ty)?, Type::Pointer(_)) {
            node["x-pointer"] = true.into();
        }
        if !inline.is_empty() {
            node["x-inline"] = inline.join(".").into();
        }
        if let Some(numbers) = numbers {
            node["x-pb"] = numbers.into();
        }
    }
    let zero = zero_struct(path, ty, sources)?;
    if !zero.is_empty() {
        schema["x-zero"] = Value::Object(zero);
    }
    Ok(())
}

fn omit(name: &str, field: &Field, sources: &mut Sources) -> Result<&'static str, Error> {
    let under = sources.underlying(&field.ty)?;
    let plain_struct = matches!(under, Type::Named(..));
    if field.omitzero && !plain_struct {
        return Err(Error::Source(format!(
            "{name}.{}: omitzero on {under:?}",
            field.json
        )));
    }
    Ok(match under {
        Type::Named(..) if field.omitzero => "zero",
        Type::Named(..) => "never",
        _ if !field.omitempty => "never",
        Type::Pointer(_) | Type::Interface => "nil",
        Type::Builtin(_) | Type::Slice(_) | Type::Map(..) => "empty",
    })
}

/// Annotates a node and its children with Go types that the schema alone does not determine.
fn annotate(node: &mut Value, ty: &Type, element: bool, sources: &mut Sources) -> Result<(), Error> {
    let ty = sources.dealias(ty)?;
    let target = match &ty {
        Type::Pointer(to) => sources.dealias(to)?,
        other => other.clone(),
    };
    let under = sources.underlying(&target)?;
    if !element || under != target {
        let values = sources.enumeration(&target)?;
        if !values.is_empty() && node.get("enum").is_none() {
            node["enum"] = values.into();
        }
    }
    match &under {
        Type::Slice(of) if node.get("items").is_some() => annotate(&mut node["items"], of, true, sources)?,
        Type::Map(_, value) if node.get("additionalProperties").is_some() => {
            annotate(&mut node["additionalProperties"], value, true, sources)?;
        }
        _ => {}
    }
    let printed = sources.print(if element { &ty } else { &target })?;
    if printed != derived(node) {
        node["x-go"] = printed.into();
    }
    Ok(())
}

/// The default Go type of a node; `manifest::schema` derives the same.
fn derived(node: &Value) -> String {
    if let Some(go) = node["x-go"].as_str() {
        return go.to_owned();
    }
    if let Some(reference) = node["$ref"].as_str() {
        let mut parts = reference.rsplitn(3, '.');
        let ty = parts.next().unwrap_or_default();
        return format!("{}.{ty}", parts.next().unwrap_or_default());
    }
    match (node["type"].as_str(), node["format"].as_str()) {
        (Some("string"), Some("byte")) => "[]uint8".into(),
        (Some("string"), _) => "string".into(),
        (Some("integer"), Some("int32")) => "int32".into(),
        (Some("integer"), _) => "int64".into(),
        (Some("number"), _) => "float64".into(),
        (Some("boolean"), _) => "bool".into(),
        (Some("array"), _) => format!("[]{}", derived(&node["items"])),
        (Some("object"), _) if node.get("additionalProperties").is_some() => {
            format!("map[string]{}", derived(&node["additionalProperties"]))
        }
        _ => String::new(),
    }
}

fn zero_struct(path: &str, ty: &str, sources: &mut Sources) -> Result<Map<String, Value>, Error> {
    let mut zero = Map::new();
    for Flat { field, .. } in fields(path, ty, sources)? {
        if omit(ty, &field, sources)? == "never" {
            let value = zero_value(&field.ty, sources)?;
            zero.insert(field.json, value);
        }
    }
    Ok(zero)
}

fn zero_value(ty: &Type, sources: &mut Sources) -> Result<Value, Error> {
    Ok(match sources.underlying(ty)? {
        Type::Pointer(_) | Type::Slice(_) | Type::Map(..) | Type::Interface => Value::Null,
        Type::Builtin(name) => match name.as_str() {
            "string" => "".into(),
            "bool" => false.into(),
            _ => json!(0),
        },
        Type::Named(path, name) => match OWN_ENCODING.iter().find(|(own, _)| *own == name) {
            Some((_, zero)) => serde_json::from_str(zero).unwrap_or_default(),
            None => Value::Object(zero_struct(&path, &name, sources)?),
        },
    })
}
