//! The Go template language and its function library, in process and within limits.
//!
//! The output of charts must equal Helm's, so values keep Go's types, numbers and maps print as in Go, and errors
//! are Go's, with name, line and column.
//!
//! A [`TemplateSet`] holds parsed templates. A [`Session`] runs them with one budget ([`Limits`]). The
//! [`World`] provides randomness, clock and cluster, so that a caller can make renders repeatable;
//! [`Session::unrepeatable`] tells whether one was.
//!
//! A set may be rendered from many threads; each render has its own session. The caller provides the values and the
//! order of the files:
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
//! // templates share the chart's map: a `set` in one is visible to the next
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
//! A value with methods (`.Files.Get`, `.Capabilities.APIVersions.Has`) is a [`Host`]; `lookup` calls the
//! [`World`]. [`Error::helm_text`] formats an error like Helm 4, one place per line.
//!
//! Refused: complex constants, and functions that read the environment. There is no HTML-aware
//! escaping; `html` and `js` escape as in `text/template`.

mod ast;
mod cache;
mod call;
mod exec;
mod fault;
mod format;
mod functions;
mod lex;
mod limits;
mod literal;
mod parse;
mod report;
mod session;
mod value;

pub use cache::RenderCache;
pub use call::Ty;
pub use fault::{Error, ErrorKind, Fault};
pub use functions::{Library, clean_path, parse_time};
pub use limits::{Limit, Limits};
pub use session::{MissingKey, Options, Seeded, Session, TemplateSet, World};
pub use value::{Elements, Entries, Host, Int, Kind, List, Map, Method, Str, Uint, Value};
