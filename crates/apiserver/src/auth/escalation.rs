//! Privilege escalation: a role or binding must not grant more than its writer has.
//!
//! Writing a role needs all of its rules, or the verb `escalate`. Writing a binding needs all rules of the
//! role, or the verb `bind` on it. As in kube-apiserver 1.36, each rule is split into atoms, and one rule
//! of the writer must cover each atom.

use super::identity::{Identity, MASTERS};
use super::rbac::{Attributes, GROUP, RbacView, RoleRef, Rule, authorize, path_covers, rules_of};
use crate::field::go_quote;
use crate::status::{ApiError, GroupResource};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Checks whether `who` may write `object`; `stored` is the object it replaces. Objects of other groups
/// pass.
///
/// Call it after defaulting and before the store.
pub(crate) fn check_write(
    view: &RbacView,
    who: &Identity,
    request: &Attributes,
    object: &Value,
    stored: Option<&Value>,
) -> Result<(), ApiError> {
    if request.group != GROUP || who.in_group(MASTERS) {
        return Ok(());
    }
    let is_role = matches!(request.resource.as_str(), "roles" | "clusterroles");
    let is_binding = matches!(request.resource.as_str(), "rolebindings" | "clusterrolebindings");
    if !(is_role || is_binding) || stored.is_some_and(|old| only_collector_fields_change(object, old)) {
        return Ok(());
    }
    let guard = Guard {
        view,
        who,
        request,
        object,
    };
    if is_role {
        guard.check_role(stored)
    } else {
        guard.check_binding()
    }
}

struct Guard<'a> {
    view: &'a RbacView,
    who: &'a Identity,
    request: &'a Attributes,
    object: &'a Value,
}

impl Guard<'_> {
    fn check_role(&self, stored: Option<&Value>) -> Result<(), ApiError> {
        let escalate = Attributes {
            verb: "escalate".to_owned(),
            subresource: String::new(),
            ..self.request.clone()
        };
        if authorize(self.view, self.who, &escalate).allowed {
            return Ok(());
        }
        self.confirm(&rules_of(self.object))
            .map_err(|text| self.forbidden(&text))?;
        if aggregates(self.object) || stored.is_some_and(aggregates) {
            self.confirm(&everything()).map_err(|_| {
                self.forbidden("must have cluster-admin privileges to use the aggregationRule")
            })?;
        }
        Ok(())
    }

    fn check_binding(&self) -> Result<(), ApiError> {
        let role = RoleRef::of(self.object);
        let resource = match role.kind.as_str() {
            "ClusterRole" => Some("clusterroles"),
            "Role" => Some("roles"),
            _ => None,
        };
        let bind = resource.map(|resource| Attributes {
            verb: "bind".to_owned(),
            group: role.group.clone(),
            resource: resource.to_owned(),
            namespace: self.request.namespace.clone(),
            name: role.name.clone(),
            ..Attributes::default()
        });
        if bind.is_some_and(|bind| authorize(self.view, self.who, &bind).allowed) {
            return Ok(());
        }
        // Upstream's store reports a missing role as a missing binding.
        let rules = self
            .view
            .role_rules(&role, &self.request.namespace)
            .map_err(|error| match error.code {
                404 => ApiError::not_found(&self.resource(), &role.name),
                _ => error,
            })?;
        self.confirm(rules).map_err(|text| self.forbidden(&text))
    }

    fn confirm(&self, rules: &[Rule]) -> Result<(), String> {
        let (held, errors) = self.view.rules_for(self.who, &self.request.namespace);
        let missing = uncovered(&held, rules);
        if missing.is_empty() {
            return Ok(());
        }
        let lines: BTreeSet<String> = compact(missing).iter().map(describe).collect();
        let lines: Vec<String> = lines.into_iter().collect();
        let mut text = format!(
            "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            go_quote(&self.who.name),
            quoted_list(&self.who.groups),
            lines.join("\n")
        );
        if !errors.is_empty() {
            text.push_str(&format!(
                "; resolution errors: [{}]",
                super::rbac::aggregate_text(&errors)
            ));
        }
        Err(text)
    }

    fn forbidden(&self, why: &str) -> ApiError {
        let name = self.object["metadata"]["name"].as_str().unwrap_or_default();
        ApiError::forbidden(&self.resource(), name, why)
    }

    fn resource(&self) -> GroupResource {
        GroupResource::new(GROUP, &self.request.resource)
    }
}

/// The garbage collector may edit owner references and finalizers of any role.
fn only_collector_fields_change(object: &Value, stored: &Value) -> bool {
    let strip = |value: &Value| {
        let mut value = value.clone();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["ownerReferences", "finalizers", "managedFields", "selfLink"] {
                metadata.remove(field);
            }
        }
        value
    };
    strip(object) == strip(stored)
}

fn aggregates(role: &Value) -> bool {
    role["aggregationRule"]["clusterRoleSelectors"]
        .as_array()
        .is_some_and(|selectors| !selectors.is_empty())
}

fn everything() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    [
        Rule {
            verbs: all(),
            groups: all(),
            resources: all(),
            ..Rule::default()
        },
        Rule {
            verbs: all(),
            paths: all(),
            ..Rule::default()
        },
    ]
}

fn uncovered(held: &[&Rule], wanted: &[Rule]) -> Vec<Rule> {
    wanted
        .iter()
        .flat_map(atoms)
        .filter(|atom| !held.iter().any(|rule| covers(rule, atom)))
        .collect()
}

/// Splits a rule into rules of one verb and one resource (and at most one name), or one verb and one path.
fn atoms(rule: &Rule) -> Vec<Rule> {
    let mut out = Vec::new();
    for group in &rule.groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let atom = Rule {
                    verbs: vec![verb.clone()],
                    groups: vec![group.clone()],
                    resources: vec![resource.clone()],
                    ..Rule::default()
                };
                if rule.resource_names.is_empty() {
                    out.push(atom);
                    continue;
                }
                out.extend(rule.resource_names.iter().map(|name| Rule {
                    resource_names: vec![name.clone()],
                    ..atom.clone()
                }));
            }
        }
    }
    for path in &rule.paths {
        out.extend(rule.verbs.iter().map(|verb| Rule {
            verbs: vec![verb.clone()],
            paths: vec![path.clone()],
            ..Rule::default()
        }));
    }
    out
}

fn covers(held: &Rule, atom: &Rule) -> bool {
    all_in(&held.verbs, &atom.verbs)
        && all_in(&held.groups, &atom.groups)
        && atom.resources.iter().all(|r| covers_resource(&held.resources, r))
        && (held.resource_names.is_empty()
            || !atom.resource_names.is_empty()
                && atom
                    .resource_names
                    .iter()
                    .all(|n| held.resource_names.contains(n)))
        && atom
            .paths
            .iter()
            .all(|path| held.paths.iter().any(|owner| path_covers(owner, path)))
}

fn all_in(held: &[String], wanted: &[String]) -> bool {
    held.iter().any(|h| h == "*") || wanted.iter().all(|w| held.contains(w))
}

fn covers_resource(held: &[String], wanted: &str) -> bool {
    held.iter().any(|h| {
        h == "*"
            || h == wanted
            || matches!(
                (h.strip_prefix("*/"), wanted.split_once('/')),
                (Some(held), Some((_, sub))) if held == sub
            )
    })
}

fn compact(atoms: Vec<Rule>) -> Vec<Rule> {
    let mut by_resource: BTreeMap<(String, String, Option<String>), Rule> = BTreeMap::new();
    let mut out = Vec::new();
    for atom in atoms {
        let (Some(group), Some(resource)) = (atom.groups.first(), atom.resources.first()) else {
            out.push(atom);
            continue;
        };
        let key = (
            group.clone(),
            resource.clone(),
            atom.resource_names.first().cloned(),
        );
        match by_resource.get_mut(&key) {
            Some(rule) => rule.verbs.extend(atom.verbs),
            None => {
                by_resource.insert(key, atom);
            }
        }
    }
    out.extend(by_resource.into_values());
    out
}

fn describe(rule: &Rule) -> String {
    let parts = [
        ("APIGroups", &rule.groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.paths),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(name, list)| format!("{name}:{}", quoted_list(list)))
        .collect();
    format!("{{{}}}", parts.join(", "))
}

fn quoted_list(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|s| go_quote(s)).collect();
    format!("[{}]", quoted.join(" "))
}
