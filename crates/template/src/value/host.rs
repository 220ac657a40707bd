//! Values with fields and methods of their own: times, versions, certificates, and what the caller
//! brings (`.Files`, `.Capabilities.APIVersions`).

use super::{Kind, Value};
use crate::call::Ty;
use crate::fault::Fault;
use std::fmt;

/// A method: what it takes, so that arguments are checked as Go checks them.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// Its parameters.
    pub params: &'static [Ty],
    /// What further arguments are, if it takes any.
    pub variadic: Option<Ty>,
}

/// A value that is neither a scalar nor a plain slice or map.
pub trait Host: fmt::Debug {
    /// The name of its Go type, as `%T` prints it: `*semver.Version`.
    fn type_name(&self) -> &'static str;

    /// Its kind.
    fn kind(&self) -> Kind {
        Kind::Struct
    }

    /// The value of a field, or of a key when it is a map.
    fn field(&self, _name: &str) -> Option<Value> {
        None
    }

    /// A method it has.
    fn method(&self, _name: &str) -> Option<Method> {
        None
    }

    /// Calls a method with arguments of the types it asked for. The error is what Go's method would return.
    fn call(&self, name: &str, _args: &[Value]) -> Result<Value, Fault> {
        Err(Fault::message(format!(
            "{name} is not a method of {}",
            self.type_name()
        )))
    }

    /// What its `String` method returns, if it has one.
    fn text(&self) -> Option<String> {
        None
    }

    /// Its fields in order, or its entries when it is a map or a slice.
    fn entries(&self) -> Option<Vec<(Value, Value)>> {
        None
    }

    /// How many entries it has, when it is a map or a slice. Who knows without making them says so here.
    fn count(&self) -> Option<usize> {
        self.entries().map(|entries| entries.len())
    }

    /// As JSON, for `toJson` and `toYaml`.
    fn to_json(&self) -> Result<serde_json::Value, Fault>;

    /// Itself, for who knows what it is.
    fn as_any(&self) -> &dyn std::any::Any;
}
