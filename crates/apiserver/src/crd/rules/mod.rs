//! Validation rules (CEL). The evaluator lands next; until then rules are not run.

use super::node::Node;
use crate::field::FieldError;
use equate_manifest::schema::{Schema, ValidationRule};
use serde_json::Value;
#[derive(Debug)]
pub(super) struct Rule {}
pub(super) struct Checked {
    pub(super) rule: Option<String>,
    pub(super) message_expression: Option<String>,
    pub(super) uses_old_self: bool,
}
pub(super) fn attach(_: &mut Node, _: &Schema) {}
pub(super) fn check(_: &ValidationRule, _: &Node, _: bool) -> Checked {
    Checked {
        rule: None,
        message_expression: None,
        uses_old_self: false,
    }
}
pub(super) fn evaluate(_: &Value, _: Option<&Value>, _: &Node, _: &str, _: bool) -> Vec<FieldError> {
    Vec::new()
}
