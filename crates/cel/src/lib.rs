//! The Common Expression Language: one engine for the rules of custom resources and for the expressions of
//! Flux.
//!
//! ```text
//! text -> lex -> parse -> program (names, functions, macros) -> eval, against a Budget
//! ```
//!
//! Texts and their nesting are limited, so that every walk fits on the stack of a worker. A run pays for
//! each step, byte and element. Values are borrowed from JSON and typed by a [`Schema`] where they are read.
//!
//! Syntax, results and errors are cel-go's. Messages are refused, except those of mutating policies. Names are checked, types are not: the API
//! server checks rules against its schemas.

mod budget;
mod environment;
mod error;
mod eval;
mod functions;
mod lex;
mod parse;
mod program;
#[cfg(test)]
mod tests;
mod value;

pub use budget::Budget;
pub use environment::{Environment, Library, NamedFormat, Variables};
pub use error::{CompileError, Fail, Failure, FailureKind, Issues};
pub use functions::{Opaque, is_pattern, type_value, uri_problem};
pub use parse::{Limits, RESERVED};
pub use program::{Binary, Call, Each, EachKind, Node, Op, Program, pattern_budget, undeclared_text};
pub use value::{
    Bytes, Evaluated, Fields, List, ListKind, Map, Schema, Text, UNTYPED, Untyped, Val, parse_time,
    parse_timestamp,
};
