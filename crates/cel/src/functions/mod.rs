//! The functions, by name and library.
//!
//! A function is found when a program is compiled. Each pays for work that grows with its arguments; a call
//! has paid for reading texts once.

mod format;
mod kubernetes;
mod lists;
mod pattern;
mod standard;
mod text;
mod time;
mod url;

use crate::environment::Library;
use crate::eval::Run;
use crate::value::{Evaluated, Val};
use std::collections::HashMap;
use std::sync::LazyLock;

pub use kubernetes::Opaque;
pub use pattern::is_pattern;
pub(crate) use pattern::{LITERAL_UNITS_MAX, Pattern, Patterns};
pub(crate) use standard::show;
pub use url::uri_problem;

type Plain = for<'a> fn(&mut Run<'a, '_, '_>, &[Val<'a>]) -> Evaluated<'a>;
type Matching = for<'a> fn(&mut Run<'a, '_, '_>, &[Val<'a>], Option<&Pattern>) -> Evaluated<'a>;

#[derive(Debug)]
enum Body {
    Plain(Plain),
    /// Its second argument is a regular expression.
    Matching(Matching),
}

#[derive(Debug)]
pub(crate) struct Function {
    name: &'static str,
    in_flux: bool,
    in_kubernetes: bool,
    body: Body,
}

impl Function {
    /// A function of all libraries.
    const fn new(name: &'static str, body: Plain) -> Self {
        Self {
            name,
            in_flux: true,
            in_kubernetes: true,
            body: Body::Plain(body),
        }
    }

    const fn flux(name: &'static str, body: Plain) -> Self {
        Self {
            in_kubernetes: false,
            ..Self::new(name, body)
        }
    }

    const fn kubernetes(name: &'static str, body: Plain) -> Self {
        Self {
            in_flux: false,
            ..Self::new(name, body)
        }
    }

    pub(crate) fn takes_pattern(&self) -> bool {
        matches!(self.body, Body::Matching(_))
    }
}

/// The functions of each library.
static BY_NAME: LazyLock<[HashMap<&str, &Function>; 2]> = LazyLock::new(|| {
    let all = [
        standard::FUNCTIONS,
        text::FUNCTIONS,
        lists::FUNCTIONS,
        pattern::FUNCTIONS,
        time::FUNCTIONS,
        kubernetes::FUNCTIONS,
        url::FUNCTIONS,
    ];
    let of = |is_in: fn(&Function) -> bool| {
        let all = all.iter().flat_map(|table| table.iter());
        all.filter(|function| is_in(function))
            .map(|function| (function.name, function))
            .collect()
    };
    [
        of(|function| function.in_flux),
        of(|function| function.in_kubernetes),
    ]
});

pub(crate) fn find(name: &str, library: Library) -> Option<&'static Function> {
    let [flux, kubernetes] = &*BY_NAME;
    let functions = match library {
        Library::Flux => flux,
        Library::Kubernetes(_) | Library::Mutation(_) => kubernetes,
    };
    functions.get(name).copied()
}

pub(crate) fn call<'a>(
    run: &mut Run<'a, '_, '_>,
    function: &'static Function,
    args: &[Val<'a>],
    pattern: Option<&Pattern>,
) -> Evaluated<'a> {
    let result = match function.body {
        Body::Plain(body) => body(run, args),
        Body::Matching(body) => body(run, args, pattern),
    };
    result.map_err(|fail| fail.in_function(function.name))
}

const TYPES: [&str; 13] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "optional_type",
];

/// The type that a name stands for.
pub fn type_value(name: &str) -> Option<&'static str> {
    TYPES.into_iter().find(|known| *known == name)
}
