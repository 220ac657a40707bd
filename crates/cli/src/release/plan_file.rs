//! Files of `--plan` and `--apply`: a request, and what it would change. A plan is applied by making it again:
//! it is stale if the repository has moved so that the same request changes something else.

use super::ReleaseError;
use super::write::Done;
use equate_release::plan::Plan;
use equate_release::record::{FORMAT, Intent};
use serde_json::{Map, Value, json};
use std::path::Path;

/// A plan that was read from a file.
pub(super) struct PlanFile {
    name: String,
    request: Map<String, Value>,
    /// The changes, to compare with those of the plan that is made now.
    pub(super) summary: Value,
}

impl PlanFile {
    /// Reads the plan of a command.
    ///
    /// # Errors
    /// The file cannot be read, has another format, or is a plan of another command.
    pub(super) fn read(path: &Path, intent: Intent) -> Result<Self, ReleaseError> {
        let text = std::fs::read_to_string(path).map_err(|source| ReleaseError::File {
            doing: "read",
            path: path.to_owned(),
            source,
        })?;
        let name = path.display().to_string();
        let wrong = || ReleaseError::PlanFile { name: name.clone() };
        let mut value: Value = serde_json::from_str(&text).map_err(|_| wrong())?;
        let format = value.get("format").and_then(Value::as_u64);
        let (Some(Value::Object(request)), Some(summary)) = (
            value.get_mut("request").map(Value::take),
            value.get_mut("plan").map(Value::take),
        ) else {
            return Err(wrong());
        };
        if format != Some(u64::from(FORMAT)) {
            return Err(wrong());
        }
        let found = summary.get("intent").and_then(Value::as_str).unwrap_or_default();
        if json!(intent) != *found {
            let command = found.to_owned();
            return Err(ReleaseError::OtherPlan { name, command });
        }
        Ok(Self {
            name,
            request,
            summary,
        })
    }

    /// A text of the request.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.request.get(key).and_then(Value::as_str).map(str::to_owned)
    }

    /// A text that the request must have.
    pub(super) fn needed(&self, key: &str) -> Result<String, ReleaseError> {
        self.text(key).ok_or_else(|| ReleaseError::PlanFile {
            name: self.name.clone(),
        })
    }

    /// The texts of a list.
    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        let items = self.request.get(key).and_then(Value::as_array);
        let texts = items.into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    }
}

/// The changes of a plan, as its file has them.
pub(super) fn summary(plan: &Plan) -> Value {
    // texts and numbers always serialize
    serde_json::to_value(plan.summary()).unwrap_or_default()
}

/// Writes a request and its plan.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(path: &Path, request: &Value, done: &Done) -> Result<(), ReleaseError> {
    let value = json!({
        "format": FORMAT,
        "base": done.commit.revision().commit(),
        "request": request,
        "plan": summary(&done.plan),
    });
    std::fs::write(path, format!("{value:#}\n")).map_err(|source| ReleaseError::File {
        doing: "write",
        path: path.to_owned(),
        source,
    })
}
