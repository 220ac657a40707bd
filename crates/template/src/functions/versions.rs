//! Versions and their methods: `semver`, `semverCompare`.

use super::{Function, table};
use crate::call::{Call, Outcome, Ty};
use crate::fault::Fault;
use crate::value::{Host, Int, Kind, Method, Uint, Value};
use equate_manifest::go::version::{Constraint, Version, VersionError};
use std::cmp::Ordering;
use std::rc::Rc;

pub(super) const FUNCTIONS: &[Function] = table! {
    "semver" (Str) => |call| {
        call.exec.meter().steps(READ_STEPS)?;
        match Version::parse(&call.text(0)) {
            Ok(version) => Ok(Value::Host(Rc::new(version))),
            Err(error) => call.fail(error.to_string()),
        }
    };
    "semverCompare" (Str, Str) => compare;
};

fn compare(call: &mut Call<'_, '_>) -> Outcome {
    call.exec.meter().steps(COMPARE_STEPS)?;
    call.charge_slow_read(64)?;
    let constraint = Constraint::parse(&call.text(0)).map_err(|error| Fault::Message(error.to_string()))?;
    let version = Version::parse(&call.text(1)).map_err(|error| Fault::Message(error.to_string()))?;
    Ok(Value::Bool(constraint.matches(&version)))
}

/// The cost of parsing a short constraint and two versions.
const COMPARE_STEPS: u64 = 80;
const READ_STEPS: u64 = 16;

const NONE: Method = Method {
    params: &[],
    variadic: None,
};
const OTHER: Method = Method {
    params: &[Ty::Struct("*semver.Version")],
    variadic: None,
};
const TEXT: Method = Method {
    params: &[Ty::Str],
    variadic: None,
};

impl Host for Version {
    fn type_name(&self) -> &'static str {
        "*semver.Version"
    }

    fn kind(&self) -> Kind {
        Kind::Ptr
    }

    fn method(&self, name: &str) -> Option<Method> {
        match name {
            "Major" | "Minor" | "Patch" | "Prerelease" | "Metadata" | "Original" | "String" | "IncMajor"
            | "IncMinor" | "IncPatch" => Some(NONE),
            "Compare" | "Equal" | "GreaterThan" | "LessThan" | "GreaterThanEqual" | "LessThanEqual" => {
                Some(OTHER)
            }
            "SetPrerelease" | "SetMetadata" => Some(TEXT),
            _ => None,
        }
    }

    fn call(&self, name: &str, args: &[Value]) -> Result<Value, Fault> {
        let [major, minor, patch] = self.numbers();
        let version = |version: Self| Value::Host(Rc::new(version));
        let text = || match args.first() {
            Some(Value::String(text)) => text.lossy(),
            _ => "".into(),
        };
        let number = |number| Value::Uint(number, Uint::Uint64);
        let order = || match args.first() {
            Some(Value::Host(other)) => match other.as_any().downcast_ref::<Self>() {
                Some(other) => Ok(self.order(other)),
                None => Err(Fault::message("not a version")),
            },
            _ => Err(Fault::message("not a version")),
        };
        let fault = |error: VersionError| Fault::Message(error.to_string());
        Ok(match name {
            "Major" => number(major),
            "Minor" => number(minor),
            "Patch" => number(patch),
            "Prerelease" => self.prerelease().into(),
            "Metadata" => self.metadata().into(),
            "Original" => self.original().into(),
            "IncMajor" => version(self.next_major()),
            "IncMinor" => version(self.next_minor()),
            "IncPatch" => version(self.next_patch()),
            "Compare" => Value::Int(order()? as i64, Int::Int),
            "Equal" => Value::Bool(order()? == Ordering::Equal),
            "GreaterThan" => Value::Bool(order()? == Ordering::Greater),
            "LessThan" => Value::Bool(order()? == Ordering::Less),
            "GreaterThanEqual" => Value::Bool(order()? != Ordering::Less),
            "LessThanEqual" => Value::Bool(order()? != Ordering::Greater),
            "SetPrerelease" => version(self.with_prerelease(&text()).map_err(fault)?),
            "SetMetadata" => version(self.with_metadata(&text()).map_err(fault)?),
            _ => self.to_string().into(),
        })
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string())
    }

    fn to_json(&self) -> Result<serde_json::Value, Fault> {
        Ok(self.to_string().into())
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
