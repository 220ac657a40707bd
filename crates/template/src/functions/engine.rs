//! Helm's additions: templates as functions, and requests to the user or cluster.

use super::{Function, table};
use crate::call::{Call, Outcome};
use crate::fault::Fault;
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = table! {
    "include" (Str, Any) => |call| {
        let (name, data) = (call.str(0), call.arg(1).clone());
        call.exec.include(&name, data).map(Value::String)
    };
    "tpl" (Str, Any) => |call| {
        let (text, data) = (call.str(0), call.arg(1).clone());
        call.exec.tpl(&text, data).map(Value::String)
    };
    "required" (Str, Any) => required;
    "fail" (Str) => |call| Err(Fault::Rejected(call.text(0).into_owned()));
    "lookup" (Str, Str, Str, Str) "state" => |call| {
        let texts: Vec<String> = (0..4).map(|index| call.text(index).into_owned()).collect();
        match texts.as_slice() {
            [api_version, kind, namespace, name] => {
                let session = call.exec.session();
                let found = session.world.lookup(api_version, kind, namespace, name)?;
                session.meter.charge_answer(&found)?;
                Ok(found)
            }
            _ => Ok(Value::Nil),
        }
    };
    // Helm returns an empty text unless the user enables DNS
    "getHostByName" (Str) => |_| Ok("".into());
};

fn required(call: &mut Call<'_, '_>) -> Outcome {
    let is_missing = match call.arg(1) {
        Value::Nil | Value::Absent => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    if is_missing {
        return Err(Fault::Rejected(call.text(0).into_owned()));
    }
    Ok(call.arg(1).clone())
}
