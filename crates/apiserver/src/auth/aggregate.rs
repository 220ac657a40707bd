//! Aggregated ClusterRoles: their rules come from other ClusterRoles, selected by label.

use serde_json::Value;

/// The rules of all `roles` that match the role's selectors, without duplicates, by role name.
///
/// `None` if the role does not aggregate. `roles` are in name order. A selector with an unknown operator
/// matches nothing.
pub(crate) fn aggregated_rules<'a>(
    role: &Value,
    roles: &(impl Iterator<Item = &'a Value> + Clone),
) -> Option<Vec<Value>> {
    let rule = role.get("aggregationRule").filter(|r| !r.is_null())?;
    let name = &role["metadata"]["name"];
    let mut out: Vec<Value> = Vec::new();
    for selector in rule["clusterRoleSelectors"].as_array().into_iter().flatten() {
        for other in roles.clone() {
            if other["metadata"]["name"] == *name || !selector_matches(selector, &other["metadata"]["labels"])
            {
                continue;
            }
            for rule in other["rules"].as_array().into_iter().flatten() {
                if !out.contains(rule) {
                    out.push(rule.clone());
                }
            }
        }
    }
    Some(out)
}

pub(crate) fn selector_matches(selector: &Value, labels: &Value) -> bool {
    let equal = selector["matchLabels"].as_object();
    let equal = equal.into_iter().flatten().all(|(k, v)| labels.get(k) == Some(v));
    let expressions = selector["matchExpressions"].as_array();
    equal
        && expressions
            .into_iter()
            .flatten()
            .all(|e| expression_matches(e, labels))
}

fn expression_matches(expression: &Value, labels: &Value) -> bool {
    let label = expression["key"].as_str().and_then(|key| labels.get(key));
    let listed = || {
        let values = expression["values"].as_array();
        label.is_some_and(|label| values.is_some_and(|values| values.contains(label)))
    };
    match expression["operator"].as_str() {
        Some("In") => listed(),
        Some("NotIn") => !listed(),
        Some("Exists") => label.is_some(),
        Some("DoesNotExist") => label.is_none(),
        _ => false,
    }
}
