//! The methods of Helm's `common.Values`, the map type of `.Values` and of a template's data.

use super::Exec;
use crate::call::{Args, Call, Ty};
use crate::fault::Fault;
use crate::functions::{Body, FunctionId, Library};
use crate::value::{Entries, Map, Method, Str, Value};

/// The method, if maps of this type have it.
pub(super) fn method(map: &Map, name: &Str) -> Option<Method> {
    let params: &'static [Ty] = match (map.entries_type(), name.as_bytes()) {
        (Entries::Named(_), b"AsMap" | b"YAML") => &[],
        (Entries::Named(_), b"Table") => &[Ty::Str],
        // no template has a writer
        (Entries::Named(_), b"Encode") => &[Ty::Struct("io.Writer")],
        _ => return None,
    };
    Some(Method {
        params,
        variadic: None,
    })
}

/// Calls a method with arguments that [`method`] checked.
pub(super) fn call(exec: &mut Exec<'_>, map: &Map, name: &str, args: &[Value]) -> Result<Value, Fault> {
    match (name, args) {
        ("AsMap", _) => Ok(map.as_type(Entries::Any).into()),
        ("Table", [Value::String(path)]) => table(map, &path.lossy()),
        ("YAML", _) => yaml(exec, map),
        _ => Err(Fault::message(format!("{name} takes no value a template has"))),
    }
}

fn table(map: &Map, path: &str) -> Result<Value, Fault> {
    let mut found = map.clone();
    for key in path.split('.') {
        match found.get(key.as_bytes()) {
            Some(Value::Map(below)) => found = below,
            _ => {
                let key = equate_manifest::go::quote(key);
                return Err(Fault::message(format!("{key} is not a table")));
            }
        }
    }
    Ok(found.as_type(map.entries_type()).into())
}

/// `toYaml` with a final line break.
fn yaml(exec: &mut Exec<'_>, map: &Map) -> Result<Value, Fault> {
    let function = FunctionId::find("toYaml", Library::Helm).map(FunctionId::function);
    let Some(Body::Run(run)) = function.map(|function| function.body) else {
        return Err(Fault::message("YAML needs toYaml"));
    };
    let args = Args::from_iter([Value::Map(map.clone())]);
    let text = run(&mut Call { exec, args })?;
    match text {
        Value::String(text) => Ok(Value::from(format!("{}\n", text.lossy()))),
        other => Ok(other),
    }
}
