//! Normalisation of values that differ between two runs of the same requests.
//!
//! Ids and versions become tokens numbered by first appearance (`<uid:1>`, `<rv:2>`), so that equality
//! stays visible; times become `<ts>`. Values that need not match are masked or dropped, each rule named
//! below. Normalisation is idempotent, so recordings go through it too.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

use crate::wire::Answer;

const FOREIGN_CONFIG_MAPS: [&str; 2] = ["openshift-service-ca.crt", "kube-root-ca.crt"];

const AGE_COLUMNS: [&str; 6] = [
    "Age",
    "Last Seen",
    "First Seen",
    "Last Schedule",
    "Duration",
    "Created At",
];

/// The tokens of one scenario on one server.
#[derive(Debug, Clone, Default)]
pub struct Normaliser {
    uids: HashMap<String, usize>,
    versions: HashMap<String, usize>,
}

impl Normaliser {
    /// Normalises an answer.
    pub fn answer(&mut self, mut answer: Answer) -> Answer {
        self.value(&mut answer.body);
        for warning in &mut answer.warnings {
            *warning = self.text(warning);
        }
        answer
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) => self.object(fields),
            Value::Array(items) => {
                items.retain(|item| !is_foreign(item));
                items.iter_mut().for_each(|item| self.value(item));
            }
            Value::String(text) => *text = self.text(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn object(&mut self, fields: &mut Map<String, Value>) {
        if fields.get("kind").and_then(Value::as_str) == Some("Table") {
            mask_cells(fields);
        }
        if is_collection(fields) {
            mask_collection_version(fields);
        }
        if fields.get("type").and_then(Value::as_str) == Some("BOOKMARK")
            && let Some(Value::Object(object)) = fields.get_mut("object")
        {
            mask_collection_version(object);
        }
        mask_generated_name(fields);
        // a managed field of a list keyed by uid contains the uid in its name
        let named_by_id: Vec<String> = fields.keys().filter(|key| UUID.is_match(key)).cloned().collect();
        for key in named_by_id {
            if let Some(value) = fields.remove(&key) {
                let key = self.text(&key);
                fields.insert(key, value);
            }
        }
        for (key, value) in fields.iter_mut() {
            match (key.as_str(), &mut *value) {
                ("resourceVersion", Value::String(version)) => *version = self.version(version),
                (
                    "gitVersion" | "gitCommit" | "goVersion" | "compiler" | "platform",
                    Value::String(build),
                ) => {
                    "<build>".clone_into(build);
                }
                ("continue", Value::String(token)) if !token.is_empty() => "<continue>".clone_into(token),
                ("clusterIP", Value::String(address)) => mask_address(address),
                ("clusterIPs", Value::Array(addresses)) => {
                    for address in addresses {
                        if let Value::String(address) = address {
                            mask_address(address);
                        }
                    }
                }
                ("nodePort" | "healthCheckNodePort", Value::Number(_)) => {
                    *value = Value::String("<port>".to_owned());
                }
                ("managedFields", Value::Array(entries)) => {
                    entries.iter_mut().for_each(|entry| self.value(entry));
                    // the server sorts by time, so the order depends on the boundary of a second
                    entries.sort_by_key(manager_key);
                }
                (_, value) => self.value(value),
            }
        }
    }

    fn version(&mut self, text: &str) -> String {
        if text.is_empty() || text == "0" || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.to_owned();
        }
        let next = self.versions.len() + 1;
        format!("<rv:{}>", self.versions.entry(text.to_owned()).or_insert(next))
    }

    fn text(&mut self, text: &str) -> String {
        let text = UUID.replace_all(text, |found: &Captures<'_>| {
            let next = self.uids.len() + 1;
            format!("<uid:{}>", self.uids.entry(found[0].to_owned()).or_insert(next))
        });
        let text = TIME.replace_all(&text, "<ts>");
        let text = JWT.replace_all(&text, "<jwt>");
        let text = WHOLE_OBJECT.replace_all(&text, "Invalid value: \"<object>\"");
        let text = LOOPBACK.replace_all(&text, "127.0.0.1:<port>");
        VERSION_IN_TEXT.replace_all(&text, "$before<rv>").into_owned()
    }
}

static UUID: LazyLock<Regex> =
    LazyLock::new(|| regex(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static TIME: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"));
static JWT: LazyLock<Regex> = LazyLock::new(|| regex(r"eyJ[\w-]+\.eyJ[\w-]+\.[\w-]+"));
/// A refused patch repeats the whole object, in its own order.
static WHOLE_OBJECT: LazyLock<Regex> = LazyLock::new(|| regex(r#"Invalid value: "\{\\"apiVersion\\".*\}""#));
/// The server's own address.
static LOOPBACK: LazyLock<Regex> = LazyLock::new(|| regex(r"127\.0\.0\.1:\d+"));
/// Versions in messages and in YAML; they depend on the server's other work.
static VERSION_IN_TEXT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?P<before>too old resource version: \d+ \(|ResourceVersion in (the precondition|record) \(|, current: |resourceVersion: "|resourceVersion\\*":\\*")\d+"#,
    )
});
static AGE: LazyLock<Regex> = LazyLock::new(|| regex(r"^(\d+[smhdy])+$"));
static ADDRESS: LazyLock<Regex> = LazyLock::new(|| regex(r"^\d+\.\d+\.\d+\.\d+$"));

fn regex(pattern: &str) -> Regex {
    match Regex::new(pattern) {
        Ok(regex) => regex,
        Err(error) => unreachable!("the pattern {pattern} is a constant: {error}"),
    }
}

/// Whether an item, row or event is about a ConfigMap that the recorded server adds.
fn is_foreign(item: &Value) -> bool {
    let named = |value: &Value| {
        value
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .is_some_and(is_foreign_name)
    };
    named(item)
        || item.get("object").is_some_and(named)
        || item
            .pointer("/cells/0")
            .and_then(Value::as_str)
            .is_some_and(is_foreign_name)
}

fn is_foreign_name(name: &str) -> bool {
    FOREIGN_CONFIG_MAPS.contains(&name)
}

fn is_collection(fields: &Map<String, Value>) -> bool {
    let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
    kind == "Table" || fields.contains_key("items")
}

/// The version of a collection is the store's, which depends on the server's other work.
fn mask_collection_version(fields: &mut Map<String, Value>) {
    if let Some(Value::String(version)) = fields
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("resourceVersion"))
        && !version.is_empty()
    {
        "<rv>".clone_into(version);
    }
}

fn mask_generated_name(fields: &mut Map<String, Value>) {
    let Some(Value::Object(metadata)) = fields.get_mut("metadata") else {
        return;
    };
    let Some(prefix) = metadata
        .get("generateName")
        .and_then(Value::as_str)
        .map(str::to_owned)
    else {
        return;
    };
    if let Some(Value::String(name)) = metadata.get_mut("name")
        && name.starts_with(&prefix)
    {
        *name = format!("{prefix}<generated>");
    }
}

fn mask_address(address: &mut String) {
    if ADDRESS.is_match(address) {
        "<ip>".clone_into(address);
    }
}

fn mask_cells(table: &mut Map<String, Value>) {
    let columns: Vec<usize> = match table.get("columnDefinitions") {
        Some(Value::Array(columns)) => columns
            .iter()
            .enumerate()
            .filter(|(_, column)| {
                column
                    .get("name")
                    .and_then(Value::as_str)
                    .is_some_and(|name| AGE_COLUMNS.contains(&name))
            })
            .map(|(index, _)| index)
            .collect(),
        // events after a watch's first have no column definitions: any cell may be an age
        _ => (0..16).collect(),
    };
    let Some(Value::Array(rows)) = table.get_mut("rows") else {
        return;
    };
    for row in rows {
        let Some(Value::Array(cells)) = row.get_mut("cells") else {
            continue;
        };
        for cell in cells.iter_mut() {
            if let Value::String(cell) = cell {
                mask_address(cell);
            }
        }
        for column in &columns {
            if let Some(Value::String(cell)) = cells.get_mut(*column)
                && AGE.is_match(cell)
            {
                "<age>".clone_into(cell);
            }
        }
    }
}

fn manager_key(entry: &Value) -> [String; 4] {
    ["operation", "manager", "apiVersion", "subresource"].map(|key| {
        entry
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    })
}
