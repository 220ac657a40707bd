//! JSON patch, RFC 6902.
//!
//! As lax as the API server's library, because clients rely on it: `replace` of an absent key adds it, `test`
//! of an absent key passes against null, negative indices count from the end, `copy` of an absent key yields
//! null. Unlike the library, `test` compares values, not spellings: there `"<"` never equals the stored
//! `"\u003c"`.
//!
//! Refused: operations that copy too much or nest values too deep. Copying a value into itself doubles its
//! depth each time, and walkers have a stack.

use crate::json::type_name;
use crate::json::{DEPTH_MAX, to_go_string};
use serde_json::Value;

/// The most operations of one patch.
pub const OPERATIONS_MAX: usize = 10_000;

/// The most bytes of JSON that the `copy` operations of one patch may add.
pub const COPIED_BYTES_MAX: usize = 3 << 20;

/// A parsed patch.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch {
    operations: Vec<Operation>,
    /// Unknown fields of operations, as paths (`[0].vlaue`).
    pub unknown_fields: Vec<String>,
}

/// Why a document is not a patch: status 400 (413 for [`PatchError::TooMany`]).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// Not a list, or an item is not an object.
    #[error("json: cannot unmarshal {found} into Go value of type {wanted}")]
    Type {
        /// The JSON type found.
        found: &'static str,
        /// The Go type wanted.
        wanted: &'static str,
    },
    /// A field of an operation is not a string.
    #[error("json: cannot unmarshal {found} into Go struct field jsonPatchOp.{field} of type string")]
    Field {
        /// The JSON type found.
        found: &'static str,
        /// `op`, `path` or `from`.
        field: &'static str,
    },
    /// More than [`OPERATIONS_MAX`].
    #[error("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {got}")]
    TooMany {
        /// The number of operations.
        got: usize,
    },
}

/// Why a patch does not apply: status 422.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// An unknown or missing operation.
    #[error("Unexpected kind: {0}")]
    Kind(String),
    /// An operation lacks `path` or `from`.
    #[error("{op} operation failed to decode {field}: missing value")]
    Incomplete {
        /// The operation.
        op: &'static str,
        /// The field it lacks.
        field: &'static str,
    },
    /// The path does not exist.
    #[error("{op} operation does not apply: doc is missing path: {path:?}: missing value")]
    Missing {
        /// The operation.
        op: &'static str,
        /// The path.
        path: String,
    },
    /// The field to remove does not exist.
    #[error("error in {op} for path: '{path}': Unable to remove nonexistent key: {key}: missing value")]
    Key {
        /// The operation.
        op: &'static str,
        /// The path.
        path: String,
        /// Its last segment, unescaped.
        key: String,
    },
    /// A list index that is invalid or out of range.
    #[error("error in {op} for path: '{path}': invalid index referenced")]
    Index {
        /// The operation.
        op: &'static str,
        /// The path.
        path: String,
    },
    /// A `test` that failed.
    #[error("testing value {path} failed: test failed")]
    Test {
        /// The path.
        path: String,
    },
    /// A scalar would replace the whole document.
    #[error("replace operation value must be object or array")]
    Root,
    /// Values nested deeper than [`DEPTH_MAX`].
    #[error("{op} operation does not apply: values would be nested deeper than {DEPTH_MAX} levels")]
    Nesting {
        /// The operation.
        op: &'static str,
    },
    /// The caller ended the work.
    #[error("it was stopped")]
    Stopped,
    /// More than [`COPIED_BYTES_MAX`].
    #[error(
        "unable to complete the copy, the accumulated size increase of copy is {size}, exceeding the limit {COPIED_BYTES_MAX}"
    )]
    Copied {
        /// The total size.
        size: usize,
    },
}

#[derive(Debug, Clone, PartialEq)]
struct Operation {
    op: Option<String>,
    path: Option<String>,
    from: Option<String>,
    value: Value,
}

impl Patch {
    /// Parses a patch document.
    pub fn parse(document: &Value) -> Result<Self, PatchError> {
        const DOCUMENT: &str = "[]handlers.jsonPatchOp";
        const OPERATION: &str = "handlers.jsonPatchOp";
        let items = match document {
            Value::Null => &[][..],
            Value::Array(items) => items,
            other => {
                return Err(PatchError::Type {
                    found: type_name(other),
                    wanted: DOCUMENT,
                });
            }
        };
        if items.len() > OPERATIONS_MAX {
            return Err(PatchError::TooMany { got: items.len() });
        }
        let mut patch = Self {
            operations: Vec::with_capacity(items.len()),
            unknown_fields: Vec::new(),
        };
        for (index, item) in items.iter().enumerate() {
            let text = |field: &'static str| match item.get(field) {
                None | Some(Value::Null) => Ok(None),
                Some(Value::String(text)) => Ok(Some(text.clone())),
                Some(other) => Err(PatchError::Field {
                    found: type_name(other),
                    field,
                }),
            };
            match item {
                Value::Object(map) => {
                    for key in map.keys() {
                        if !matches!(key.as_str(), "op" | "path" | "from" | "value") {
                            patch.unknown_fields.push(format!("[{index}].{key}"));
                        }
                    }
                }
                Value::Null => {}
                other => {
                    return Err(PatchError::Type {
                        found: type_name(other),
                        wanted: OPERATION,
                    });
                }
            }
            patch.operations.push(Operation {
                op: text("op")?,
                path: text("path")?,
                from: text("from")?,
                value: item.get("value").cloned().unwrap_or(Value::Null),
            });
        }
        Ok(patch)
    }

    /// Applies all operations in order, or none.
    pub fn apply(&self, mut document: Value) -> Result<Value, ApplyError> {
        let mut account = Account::default();
        for operation in &self.operations {
            operation.apply(&mut document, &mut account)?;
        }
        Ok(document)
    }

    /// [`Self::apply`] that calls `watch` before each operation with its work, in steps of some ten
    /// nanoseconds. False ends it with [`ApplyError::Stopped`].
    pub fn apply_watched(
        &self,
        mut document: Value,
        watch: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Value, ApplyError> {
        let mut account = Account::default();
        for operation in &self.operations {
            if !watch(operation.steps(&mut document)) {
                return Err(ApplyError::Stopped);
            }
            operation.apply(&mut document, &mut account)?;
        }
        Ok(document)
    }
}

#[derive(Default)]
struct Account {
    copied: usize,
    /// An upper bound for the document's depth. `None` until a move: other operations measure their value.
    levels: Option<usize>,
}

impl Account {
    fn nest(&mut self, op: &'static str, path: &str, levels: usize) -> Result<(), ApplyError> {
        let whole = tokens(path).saturating_add(levels);
        if whole > DEPTH_MAX {
            return Err(ApplyError::Nesting { op });
        }
        self.levels = self.levels.map(|known| known.max(whole));
        Ok(())
    }

    /// The depth of a moved value, measured only where it could matter: a large value may be moved ten
    /// thousand times.
    fn moved(&self, from: &str, path: &str, value: &Value) -> usize {
        match self.levels {
            Some(known) if known.saturating_sub(tokens(from)).saturating_add(tokens(path)) <= DEPTH_MAX => {
                known.saturating_sub(tokens(from))
            }
            _ => levels(value),
        }
    }
}

fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or_default(),
        Value::Object(map) => 1 + map.values().map(levels).max().unwrap_or_default(),
        _ => 0,
    }
}

fn tokens(path: &str) -> usize {
    path.matches('/').count()
}

impl Operation {
    /// The work, by the lists that are shifted and the values that are copied or compared.
    fn steps(&self, document: &mut Value) -> usize {
        const SHIFTED_PER_STEP: usize = 8;
        const TIMES_WRITTEN: usize = 8;
        let mut of = |path: &Option<String>| {
            let path = path.as_deref().unwrap_or_default();
            let shifted = match parent(document, "", path) {
                Ok((Value::Array(items), _)) => items.len() / SHIFTED_PER_STEP,
                _ => 0,
            };
            shifted + path.len() / 4
        };
        let places = of(&self.path) + of(&self.from);
        let copied = match (self.op.as_deref(), self.from.as_deref()) {
            (Some("copy"), Some(from)) => get(document, "", from).ok().flatten().map_or(0, size),
            _ => 0,
        };
        4 + places + copied * TIMES_WRITTEN + size(&self.value)
    }

    fn apply(&self, document: &mut Value, account: &mut Account) -> Result<(), ApplyError> {
        match self.op.as_deref() {
            Some("add") => {
                let path = self.path("add")?;
                account.nest("add", path, levels(&self.value))?;
                add(document, "add", path, self.value.clone())
            }
            Some("remove") => remove(document, "remove", self.path("remove")?).map(drop),
            Some("replace") => {
                account.nest("replace", self.path("replace")?, levels(&self.value))?;
                self.replace(document)
            }
            Some("move") => {
                let from = self.from("move")?;
                account.levels.get_or_insert_with(|| levels(document));
                let value = remove(document, "move", from)?;
                let path = self.path("move")?;
                account.nest("move", path, account.moved(from, path, &value))?;
                add(document, "move", path, value)
            }
            Some("copy") => {
                let value = get(document, "copy", self.from("copy")?)?
                    .cloned()
                    .unwrap_or(Value::Null);
                account.copied += to_go_string(&value).len();
                if account.copied > COPIED_BYTES_MAX {
                    return Err(ApplyError::Copied { size: account.copied });
                }
                let path = self.path("copy")?;
                account.nest("copy", path, levels(&value))?;
                add(document, "copy", path, value)
            }
            Some("test") => self.test(document),
            other => Err(ApplyError::Kind(other.unwrap_or("unknown").to_owned())),
        }
    }

    fn path(&self, op: &'static str) -> Result<&str, ApplyError> {
        self.path
            .as_deref()
            .ok_or(ApplyError::Incomplete { op, field: "path" })
    }

    fn from(&self, op: &'static str) -> Result<&str, ApplyError> {
        self.from
            .as_deref()
            .ok_or(ApplyError::Incomplete { op, field: "from" })
    }

    fn replace(&self, document: &mut Value) -> Result<(), ApplyError> {
        let path = self.path("replace")?;
        if path.is_empty() {
            if !matches!(self.value, Value::Object(_) | Value::Array(_)) {
                return Err(ApplyError::Root);
            }
            *document = self.value.clone();
            return Ok(());
        }
        let (parent, key) = parent(document, "replace", path)?;
        match parent {
            Value::Array(items) => {
                let index = index(items.len(), &key).ok_or_else(|| missing("replace", path))?;
                items[index] = self.value.clone();
            }
            Value::Object(map) => {
                map.insert(key, self.value.clone());
            }
            _ => return Err(missing("replace", path)),
        }
        Ok(())
    }

    fn test(&self, document: &mut Value) -> Result<(), ApplyError> {
        let path = self.path("test")?;
        let found = if path.is_empty() {
            Some(&*document)
        } else {
            get(document, "test", path)?
        };
        if found.unwrap_or(&Value::Null) == &self.value {
            Ok(())
        } else {
            Err(ApplyError::Test {
                path: path.to_owned(),
            })
        }
    }
}

/// Steps to copy or compare a value.
fn size(value: &Value) -> usize {
    const VALUE_STEPS: usize = 4;
    const BYTES_PER_STEP: usize = 32;
    let below = match value {
        Value::String(text) => text.len() / BYTES_PER_STEP,
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| key.len() / BYTES_PER_STEP + size(value))
            .sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    below + VALUE_STEPS
}

fn missing(op: &'static str, path: &str) -> ApplyError {
    ApplyError::Missing {
        op,
        path: path.to_owned(),
    }
}

fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// The parent container and the last key. Text before the first `/` is ignored, as upstream does.
fn parent<'d>(
    document: &'d mut Value,
    op: &'static str,
    path: &str,
) -> Result<(&'d mut Value, String), ApplyError> {
    let (_, tokens) = path.split_once('/').ok_or_else(|| missing(op, path))?;
    let mut tokens: Vec<&str> = tokens.split('/').collect();
    let last = tokens.pop().unwrap_or_default();
    let mut node = document;
    for token in tokens {
        let token = unescape(token);
        node = match node {
            Value::Object(map) => map.get_mut(&token),
            Value::Array(items) => index(items.len(), &token).and_then(|index| items.get_mut(index)),
            _ => None,
        }
        .ok_or_else(|| missing(op, path))?;
    }
    match node {
        Value::Object(_) | Value::Array(_) => Ok((node, unescape(last))),
        _ => Err(missing(op, path)),
    }
}

/// The index of a token in a list of `length`; negative ones count from the end.
fn index(length: usize, token: &str) -> Option<usize> {
    let number: i64 = token.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    let number = if number < 0 { number + length } else { number };
    if (0..length).contains(&number) {
        usize::try_from(number).ok()
    } else {
        None
    }
}

fn get<'d>(document: &'d mut Value, op: &'static str, path: &str) -> Result<Option<&'d Value>, ApplyError> {
    let (parent, key) = parent(document, op, path)?;
    match parent {
        Value::Array(items) => index(items.len(), &key)
            .map(|index| Some(&items[index]))
            .ok_or_else(|| ApplyError::Index {
                op,
                path: path.to_owned(),
            }),
        other => Ok(other.get(&key)),
    }
}

fn add(document: &mut Value, op: &'static str, path: &str, value: Value) -> Result<(), ApplyError> {
    let (parent, key) = parent(document, op, path)?;
    match parent {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let at = index(items.len() + 1, &key).ok_or_else(|| ApplyError::Index {
                op,
                path: path.to_owned(),
            })?;
            items.insert(at, value);
        }
        Value::Object(map) => {
            map.insert(key, value);
        }
        _ => return Err(missing(op, path)),
    }
    Ok(())
}

fn remove(document: &mut Value, op: &'static str, path: &str) -> Result<Value, ApplyError> {
    let (parent, key) = parent(document, op, path)?;
    match parent {
        Value::Array(items) => index(items.len(), &key)
            .map(|index| items.remove(index))
            .ok_or_else(|| ApplyError::Index {
                op,
                path: path.to_owned(),
            }),
        Value::Object(map) => map.remove(&key).ok_or_else(|| ApplyError::Key {
            op,
            path: path.to_owned(),
            key,
        }),
        _ => Err(missing(op, path)),
    }
}
