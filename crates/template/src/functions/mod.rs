//! The functions templates may call: a table of names, parameters and bodies.
//!
//! A name is looked up once, when the template is read. A function whose parameter is of the wrong
//! type never runs, so bodies find what the table promises. Each counts what it makes, before it
//! makes it where one call could make much.

mod builtins;
mod case;
mod cast;
mod certificates;
mod chance;
mod dates;
mod dicts;
mod documents;
mod duration;
mod encode;
mod engine;
mod layout;
mod lists;
mod math;
mod passwords;
mod paths;
mod patterns;
mod pretty;
mod regexp;
mod strings;
mod toml;
mod versions;

pub(crate) use duration::{number_method, number_text};
pub use layout::parse_time;
pub use paths::clean_path;
pub(crate) use patterns::Pattern;
pub use patterns::go_pattern;
pub use versions::{Constraint, NoConstraint, NoVersion, Version};

use crate::call::{Call, Outcome, Ty};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Which functions templates may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Library {
    /// Those of the language itself.
    Go,
    /// Those of sprig besides, without those that read the environment and without Helm's own.
    Sprig,
    /// Those of Helm: sprig's and its own, without those that read the environment.
    #[default]
    Helm,
}

/// What a function does.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    Run(for<'c, 'e> fn(&mut Call<'c, 'e>) -> Outcome),
    /// Stops at the first argument that is false.
    And,
    /// Stops at the first argument that is true.
    Or,
    /// `call`, which needs the name of its first argument: no value here is a function.
    Call,
}

/// A function of the table.
#[derive(Clone, Copy)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) params: &'static [Ty],
    pub(crate) variadic: Option<Ty>,
    /// Whether its result may differ from one render to the next.
    pub(crate) is_unrepeatable: bool,
    pub(crate) body: Body,
}

/// A function by its place in the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct FunctionId(u16);

impl std::fmt::Debug for FunctionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Writes rows of the table: `name(parameters; further) => body`, `?` for what may differ.
macro_rules! table {
    ($($name:literal ($($param:ident),* $(; $more:ident)?) $($flag:literal)? => $body:expr;)*) => {
        &[$($crate::functions::Function {
            name: $name,
            params: &[$($crate::functions::table!(@type $param)),*],
            variadic: $crate::functions::table!(@more $($more)?),
            is_unrepeatable: $crate::functions::table!(@flag $($flag)?),
            body: $crate::functions::Body::Run($body),
        }),*]
    };
    (@type Time) => { $crate::call::Ty::Struct("time.Time") };
    (@type Certificate) => { $crate::call::Ty::Struct("sprig.certificate") };
    (@type $param:ident) => { $crate::call::Ty::$param };
    (@more) => { None };
    (@more $more:ident) => { Some($crate::call::Ty::$more) };
    (@flag) => { false };
    (@flag $flag:literal) => { true };
}
pub(crate) use table;

/// The functions of the language that are no plain calls.
const LOGIC: &[Function] = &[
    special("and", Body::And),
    special("or", Body::Or),
    special("call", Body::Call),
];

const fn special(name: &'static str, body: Body) -> Function {
    Function {
        name,
        params: &[Ty::Reflect],
        variadic: Some(Ty::Reflect),
        is_unrepeatable: false,
        body,
    }
}

/// Later groups replace functions of earlier ones by name.
const GROUPS: &[(Library, &[Function])] = &[
    (Library::Go, LOGIC),
    (Library::Go, builtins::FUNCTIONS),
    (Library::Helm, strings::FUNCTIONS),
    (Library::Helm, math::FUNCTIONS),
    (Library::Helm, lists::FUNCTIONS),
    (Library::Helm, dicts::FUNCTIONS),
    (Library::Helm, encode::FUNCTIONS),
    (Library::Helm, documents::FUNCTIONS),
    (Library::Helm, engine::FUNCTIONS),
    (Library::Helm, patterns::FUNCTIONS),
    (Library::Helm, versions::FUNCTIONS),
    (Library::Helm, paths::FUNCTIONS),
    (Library::Helm, chance::FUNCTIONS),
    (Library::Helm, certificates::FUNCTIONS),
    (Library::Helm, dates::FUNCTIONS),
    (Library::Helm, passwords::FUNCTIONS),
    (Library::Helm, toml::FUNCTIONS),
];

static TABLE: LazyLock<Vec<(Library, Function)>> = LazyLock::new(|| {
    let rows = |(library, group): &(Library, &'static [Function])| {
        let library = *library;
        group.iter().map(move |function| (library, *function))
    };
    GROUPS.iter().flat_map(rows).collect()
});

/// What Helm has besides sprig.
const OF_HELM: [&str; 13] = [
    "fromJsonArray",
    "fromToml",
    "fromYaml",
    "fromYamlArray",
    "include",
    "lookup",
    "mustToToml",
    "mustToYaml",
    "required",
    "toToml",
    "toYaml",
    "toYamlPretty",
    "tpl",
];

static NAMES: LazyLock<[HashMap<&'static str, FunctionId>; 3]> = LazyLock::new(|| {
    [Library::Go, Library::Sprig, Library::Helm].map(|library| {
        let mut names = HashMap::new();
        for (index, (from, function)) in TABLE.iter().enumerate() {
            let has = match library {
                Library::Go => *from == Library::Go,
                Library::Sprig => !OF_HELM.contains(&function.name),
                Library::Helm => true,
            };
            if has {
                names.insert(function.name, FunctionId(index as u16));
            }
        }
        names
    })
});

impl FunctionId {
    pub(crate) fn find(name: &str, library: Library) -> Option<Self> {
        let [go, sprig, helm] = &*NAMES;
        let names = match library {
            Library::Go => go,
            Library::Sprig => sprig,
            Library::Helm => helm,
        };
        names.get(name).copied()
    }

    pub(crate) fn function(self) -> &'static Function {
        // an id is only made from a place in the table
        &TABLE[usize::from(self.0)].1
    }

    pub(crate) fn name(self) -> &'static str {
        self.function().name
    }
}
