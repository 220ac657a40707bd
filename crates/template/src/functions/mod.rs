//! The functions available to templates: a table of names, parameters and bodies.
//!
//! Names are resolved when a template is parsed. Arguments are checked before a body runs. Each body charges
//! its output, in advance where one call could be large.

mod builtins;
mod case;
mod cast;
mod certificates;
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
mod random;
mod strings;
mod toml;
mod versions;

pub(crate) use duration::{number_method, number_text};
pub use layout::parse_time;
pub use paths::clean_path;
pub(crate) use patterns::Pattern;

use crate::call::{Call, Outcome, Ty};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The functions available to templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Library {
    /// The language's own.
    Go,
    /// Also sprig's, without those that read the environment and without Helm's.
    Sprig,
    /// sprig's and Helm's, without those that read the environment.
    #[default]
    Helm,
}

#[derive(Clone, Copy)]
pub(crate) enum Body {
    Run(for<'c, 'e> fn(&mut Call<'c, 'e>) -> Outcome),
    And,
    Or,
    /// `call`, which needs its first argument's text: no value is a function.
    Call,
}

#[derive(Clone, Copy)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) params: &'static [Ty],
    pub(crate) variadic: Option<Ty>,
    pub(crate) is_unrepeatable: bool,
    pub(crate) body: Body,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct FunctionId(u16);

impl std::fmt::Debug for FunctionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Writes rows of the table: `name(parameters; variadic) => body`, with the source of
/// change (`"random"`, `"clock"`) after the parameters of unrepeatable functions.
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

/// Builtins with special evaluation.
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

/// Later groups override earlier ones by name.
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
    (Library::Helm, random::FUNCTIONS),
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

/// Helm's additions to sprig.
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
        // ids are only made from indexes of the table
        &TABLE[usize::from(self.0)].1
    }

    pub(crate) fn name(self) -> &'static str {
        self.function().name
    }
}
