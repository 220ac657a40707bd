//! The Go template language and its function library, in process and within limits.
//!
//! Charts are written in Go's `text/template` with some two hundred functions of sprig and Helm. A
//! render must give the bytes that Helm gives, so values keep Go's types, numbers and maps print as
//! Go prints them, and errors say what Go says, with name, line and column.
//!
//! A [`TemplateSet`] holds what was read; a [`Session`] runs templates of it with one budget
//! ([`Limits`]), and the [`World`] answers for chance, clock and cluster, so that a render is repeatable
//! when the caller wants it. [`Session::unrepeatable`] tells whether it was.
//!
//! Refused: complex constants, and the functions that read the environment. There is no HTML-aware
//! escaping; `html` and `js` escape as in `text/template`.

mod ast;
mod call;
mod exec;
mod fault;
mod format;
mod functions;
mod lex;
mod limits;
mod literal;
mod parse;
mod session;
mod value;

pub use call::Ty;
pub use fault::{Error, ErrorKind, Fault};
pub use functions::Library;
pub use limits::{Limit, Limits};
pub use session::{MissingKey, Options, Seeded, Session, TemplateSet, World};
pub use value::{Elements, Entries, Host, Int, Kind, List, Map, Method, Str, Uint, Value};
