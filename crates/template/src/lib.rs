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
//! A chart is parsed once, into a set that may be kept and rendered from many threads at once; each
//! render has a session of its own. The order of the files, in which Helm reads and runs them, is the
//! caller's; so are the values:
//!
//! ```
//! use equate_template::{Library, Map, Options, Seeded, Session, TemplateSet, Value};
//!
//! let files = [
//!     ("web/templates/map.yaml", "name: {{ include \"web.name\" . }}\nport: {{ .Values.port }}\nnone: {{ .Values.no }}\n"),
//!     ("web/templates/bad.yaml", "{{ required \"a zone, please\" .Values.zone }}"),
//!     ("web/templates/_names.tpl", "{{ define \"web.name\" }}{{ tpl .Values.name . | trunc 63 }}{{ end }}"),
//! ];
//! let mut set = TemplateSet::new(Library::Helm);
//! for (name, text) in files {
//!     set.parse(name, text).map_err(|error| error.helm_text())?;
//! }
//!
//! // a map of the chart's: what a template `set`s in it, the following templates see
//! let values = serde_json::json!({"name": "{{ .Release.Name }}-web", "port": 8080, "release": "blue"});
//! let release = Map::from_iter([("Name".into(), Value::from("blue"))]);
//! let data = Map::from_iter([("Values".into(), Value::from_json(&values)), ("Release".into(), release.into())]);
//! let mut session = Session::new(Options::helm(), Box::new(Seeded::new(b"seed", 0)));
//!
//! let text = session.render(&set, "web/templates/map.yaml", data.clone().into()).unwrap();
//! assert_eq!(text.lossy(), "name: blue-web\nport: 8080\nnone: \n");
//! let error = session.render(&set, "web/templates/bad.yaml", data.into()).unwrap_err();
//! assert_eq!(error.helm_text(), "execution error at (web/templates/bad.yaml:1:3): a zone, please");
//! # Ok::<(), String>(())
//! ```
//!
//! What has methods (`.Files.Get`, `.Capabilities.APIVersions.Has`) is a [`Host`]; `lookup` asks the
//! [`World`]. [`Error::helm_text`] tells an error as Helm 4 does, places line by line.
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
mod remembered;
mod report;
mod session;
mod value;

pub use call::Ty;
pub use fault::{Error, ErrorKind, Fault};
pub use functions::{
    Constraint, Library, NoConstraint, NoVersion, Version, clean_path, go_pattern, parse_time,
};
pub use limits::{Limit, Limits};
pub use literal::{is_printable, quote};
pub use remembered::Memory;
pub use session::{MissingKey, Options, Seeded, Session, TemplateSet, World};
pub use value::{Elements, Entries, Host, Int, Kind, List, Map, Method, Str, Uint, Value};
