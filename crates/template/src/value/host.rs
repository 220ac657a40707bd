//! Values with fields and methods: times, versions, certificates, and the caller's (`.Files`,
//! `.Capabilities.APIVersions`).

use super::{Kind, Value};
use crate::call::Ty;
use crate::fault::Fault;
use std::fmt;

/// A method's signature, for Go's argument checks.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// Its parameters.
    pub params: &'static [Ty],
    /// The type of variadic arguments, if any.
    pub variadic: Option<Ty>,
}

/// A value other than a scalar, plain slice or map.
pub trait Host: fmt::Debug {
    /// The name of its Go type, as `%T` prints it: `*semver.Version`.
    fn type_name(&self) -> &'static str;

    /// Its kind.
    fn kind(&self) -> Kind {
        Kind::Struct
    }

    /// The value of a field, or of a key if it is a map.
    fn field(&self, _name: &str) -> Option<Value> {
        None
    }

    /// The method with this name.
    fn method(&self, _name: &str) -> Option<Method> {
        None
    }

    /// Calls a method with checked arguments. The error is that of Go's method.
    fn call(&self, name: &str, _args: &[Value]) -> Result<Value, Fault> {
        Err(Fault::message(format!(
            "{name} is not a method of {}",
            self.type_name()
        )))
    }

    /// The result of its `String` method, if it has one.
    fn text(&self) -> Option<String> {
        None
    }

    /// Its fields in order, or its entries if it is a map or slice.
    fn entries(&self) -> Option<Vec<(Value, Value)>> {
        None
    }

    /// The number of entries of a map or slice. Override it where counting needs no entries.
    fn count(&self) -> Option<usize> {
        self.entries().map(|entries| entries.len())
    }

    /// As JSON, for `toJson` and `toYaml`.
    fn to_json(&self) -> Result<serde_json::Value, Fault>;

    /// The concrete value, for downcasts.
    fn as_any(&self) -> &dyn std::any::Any;
}
