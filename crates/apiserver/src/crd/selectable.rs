//! Paths into a schema, in `selectableFields` and the `fieldPath` of rules: `.spec.x['a.b']`.

use equate_manifest::schema::{Additional, Schema, SchemaType};

pub(super) struct Found<'a> {
    /// The path as field errors write it, without a leading dot: `spec.x[a.b]`.
    pub(super) path: String,
    pub(super) schema: Option<&'a Schema>,
}

/// Follows `json_path`; `brackets` allows `['name']`.
pub(super) fn resolve<'a>(json_path: &str, schema: &'a Schema, brackets: bool) -> Result<Found<'a>, String> {
    let mut found = Found {
        path: String::new(),
        schema: Some(schema),
    };
    let tokens = tokenize(json_path);
    let mut tokens = tokens.iter().map(String::as_str);
    while let Some(token) = tokens.next() {
        match token {
            "." => {
                let name = tokens.next().ok_or("unexpected end of JSON path")?;
                step(&mut found, name)?;
            }
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or("unexpected end of JSON path")?;
                let inner = quoted
                    .strip_prefix('\'')
                    .and_then(|q| q.strip_suffix('\''))
                    .ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                step(&mut found, &unescape(inner)?)?;
                match tokens.next() {
                    Some("]") => {}
                    Some(other) => return Err(format!("expected ] but got {other}")),
                    None => return Err("unexpected end of JSON path".to_owned()),
                }
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(found)
}

pub(super) fn is_selectable(schema: Option<&Schema>) -> bool {
    matches!(
        schema.and_then(|s| s.kind),
        Some(SchemaType::String | SchemaType::Boolean | SchemaType::Integer)
    )
}

fn step(found: &mut Found<'_>, name: &str) -> Result<(), String> {
    let invalid = || "does not refer to a valid field".to_owned();
    let schema = found.schema.ok_or_else(invalid)?;
    if !schema.properties.is_empty() {
        found.schema = Some(schema.properties.get(name).ok_or_else(invalid)?);
        if !found.path.is_empty() {
            found.path.push('.');
        }
        found.path.push_str(name);
        return Ok(());
    }
    found.schema = match &schema.additional_properties {
        Some(Additional::Schema(inner)) => Some(inner),
        Some(Additional::Allowed(_)) => None,
        None => return Err(invalid()),
    };
    found.path.push_str(&format!("[{name}]"));
    Ok(())
}

fn tokenize(path: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut current = String::new();
    let mut quoted = false;
    for c in path.chars() {
        if quoted {
            let escaped = current.ends_with('\\');
            current.push(c);
            if c == '\'' && !escaped {
                quoted = false;
                out.push(std::mem::take(&mut current));
            }
        } else if matches!(c, '.' | '[' | ']') {
            if !current.is_empty() {
                out.push(std::mem::take(&mut current));
            }
            out.push(c.to_string());
        } else {
            quoted = c == '\'' && current.is_empty();
            current.push(c);
        }
    }
    if !current.is_empty() {
        out.push(current);
    }
    out
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next() {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some('\'') => '\'',
            Some('\\') => '\\',
            Some(other) => return Err(format!("invalid string literal: invalid escape char \\{other}")),
            None => '\\',
        });
    }
    Ok(out)
}
