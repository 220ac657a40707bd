//! Names the items of associative lists.

use super::schema::{List, Schema};
use crate::fieldpath::PathElement;
use serde_json::Value;
use std::sync::Arc;

/// The path element of an item, or its error.
pub(super) fn element_of(schema: &Schema, list: &List, item: &Value) -> Result<PathElement, String> {
    if list.keys.is_empty() {
        return match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".to_owned())
            }
            scalar => Ok(PathElement::Value(Arc::new(scalar.clone()))),
        };
    }
    let item = match item {
        Value::Object(item) => item,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut keys = Vec::with_capacity(list.keys.len());
    for name in &list.keys {
        if let Some(value) = item.get(name.as_ref()) {
            keys.push((Arc::clone(name), value.clone()));
            continue;
        }
        let atom = schema.atom(list.element);
        let Some(map) = &atom.map else {
            return Err(format!(
                "couldn't find default value for {name}: associative list may not have non-map types"
            ));
        };
        if let Some(default) = map.field(name).and_then(|field| field.default.as_ref()) {
            keys.push((Arc::clone(name), default.clone()));
        }
    }
    if keys.is_empty() {
        let names: Vec<_> = list.keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] \
             (and doesn't have default values for any key fields)",
            names.join(" ")
        ));
    }
    Ok(PathElement::key(keys))
}
