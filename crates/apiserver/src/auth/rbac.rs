//! Role-based access control: rules and bindings of `rbac.authorization.k8s.io/v1`, evaluated as
//! kube-apiserver 1.36 does.
//!
//! Rules only add rights. Cluster bindings are evaluated before those of the namespace. A binding to an
//! absent role grants nothing and is named in the reason of a denial.

use super::identity::{Identity, MASTERS, split_service_account};
use crate::field::go_quote;
use crate::status::{ApiError, GroupResource};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// The attributes of a request. With a `path` it is a non-resource request: only `path` and `verb` count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Attributes {
    /// `get`, `list`, `deletecollection`, ...; the lowercase HTTP method of a non-resource request.
    pub(crate) verb: String,
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) resource: String,
    /// `status`; empty for none.
    pub(crate) subresource: String,
    /// Empty at the cluster scope.
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// `/metrics`; empty for a resource request.
    pub(crate) path: String,
}

impl Attributes {
    pub(crate) fn path(verb: &str, path: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            path: path.to_owned(),
            ..Self::default()
        }
    }

    fn is_resource(&self) -> bool {
        self.path.is_empty()
    }

    fn described_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    /// The binding that allowed it, or the roles that could not be read; may be empty.
    pub(crate) reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) resource_names: Vec<String>,
    pub(crate) paths: Vec<String>,
}

impl Rule {
    pub(crate) fn parse(value: &Value) -> Self {
        Self {
            verbs: texts(value, "verbs"),
            groups: texts(value, "apiGroups"),
            resources: texts(value, "resources"),
            resource_names: texts(value, "resourceNames"),
            paths: texts(value, "nonResourceURLs"),
        }
    }

    fn allows(&self, request: &Attributes) -> bool {
        if !has_or_all(&self.verbs, &request.verb) {
            return false;
        }
        if !request.is_resource() {
            return self.paths.iter().any(|p| path_covers(p, &request.path));
        }
        has_or_all(&self.groups, &request.group)
            && self.resources.iter().any(|r| resource_matches(r, request))
            && (self.resource_names.is_empty() || self.resource_names.contains(&request.name))
    }
}

/// Whether the rule's path `owner` covers `path`: equal, `*`, or a prefix with trailing `*`.
pub(super) fn path_covers(owner: &str, path: &str) -> bool {
    owner == path || (owner.ends_with('*') && path.starts_with(owner.trim_end_matches('*')))
}

fn has_or_all(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == "*" || item == wanted)
}

/// Whether the rule's text is `resource`, `resource/subresource` or `*/subresource`.
fn resource_matches(rule: &str, request: &Attributes) -> bool {
    if rule == "*" {
        return true;
    }
    if request.subresource.is_empty() {
        // an access review may ask for the resource `pods/log`
        return rule == request.resource;
    }
    let resource = rule
        .strip_suffix(&request.subresource)
        .and_then(|rule| rule.strip_suffix('/'));
    resource.is_some_and(|resource| resource == "*" || resource == request.resource)
}

fn texts(value: &Value, key: &str) -> Vec<String> {
    let items = value.get(key).and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RoleRef {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) name: String,
}

impl RoleRef {
    pub(crate) fn of(binding: &Value) -> Self {
        let text = |key| text(&binding["roleRef"], key).to_owned();
        Self {
            group: text("apiGroup"),
            kind: text("kind"),
            name: text("name"),
        }
    }
}

#[derive(Debug, Clone)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

impl Subject {
    fn is(&self, who: &Identity, binding_namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => self.name == who.name,
            "Group" => who.in_group(&self.name),
            "ServiceAccount" => {
                let namespace = self.namespace_in(binding_namespace);
                !namespace.is_empty()
                    && split_service_account(&who.name) == Some((namespace, self.name.as_str()))
            }
            _ => false,
        }
    }

    fn namespace_in<'a>(&'a self, binding_namespace: &'a str) -> &'a str {
        if self.namespace.is_empty() {
            binding_namespace
        } else {
            &self.namespace
        }
    }

    fn describe(&self, binding_namespace: &str) -> String {
        let name = if self.kind == "ServiceAccount" {
            go_quote(&format!("{}/{}", self.name, self.namespace_in(binding_namespace)))
        } else {
            go_quote(&self.name)
        };
        format!("{} {name}", self.kind)
    }
}

#[derive(Debug, Clone)]
struct Binding {
    name: String,
    role: RoleRef,
    subjects: Vec<Subject>,
}

impl Binding {
    fn parse(binding: &Value) -> Self {
        let subjects = binding["subjects"].as_array();
        Self {
            name: metadata(binding, "name").to_owned(),
            role: RoleRef::of(binding),
            subjects: subjects
                .into_iter()
                .flatten()
                .map(|s| Subject {
                    kind: text(s, "kind").to_owned(),
                    name: text(s, "name").to_owned(),
                    namespace: text(s, "namespace").to_owned(),
                })
                .collect(),
        }
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn metadata<'a>(object: &'a Value, key: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(Value::as_object)
        .and_then(|m: &Map<String, Value>| m.get(key))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[derive(Debug, Clone, Default)]
pub(crate) struct RbacView {
    cluster_roles: BTreeMap<String, Vec<Rule>>,
    roles: BTreeMap<(String, String), Vec<Rule>>,
    cluster_bindings: Vec<Binding>,
    bindings: BTreeMap<String, Vec<Binding>>,
}

struct Granted<'a> {
    rule: &'a Rule,
    binding: &'a Binding,
    namespace: Option<&'a str>,
    subject: &'a Subject,
}

impl Granted<'_> {
    fn describe(&self) -> String {
        let (kind, name) = match self.namespace {
            None => ("ClusterRoleBinding", self.binding.name.clone()),
            Some(ns) => ("RoleBinding", format!("{}/{ns}", self.binding.name)),
        };
        format!(
            "{kind} {} of {} {} to {}",
            go_quote(&name),
            self.binding.role.kind,
            go_quote(&self.binding.role.name),
            self.subject.describe(self.namespace.unwrap_or_default())
        )
    }
}

impl RbacView {
    /// From the objects of the four resources, each in name order.
    pub(crate) fn new<'a>(
        cluster_roles: impl IntoIterator<Item = &'a Value>,
        roles: impl IntoIterator<Item = &'a Value>,
        cluster_bindings: impl IntoIterator<Item = &'a Value>,
        bindings: impl IntoIterator<Item = &'a Value>,
    ) -> Self {
        let mut view = Self::default();
        for role in cluster_roles {
            view.cluster_roles
                .insert(metadata(role, "name").to_owned(), rules_of(role));
        }
        for role in roles {
            let key = (
                metadata(role, "namespace").to_owned(),
                metadata(role, "name").to_owned(),
            );
            view.roles.insert(key, rules_of(role));
        }
        view.cluster_bindings = cluster_bindings.into_iter().map(Binding::parse).collect();
        for binding in bindings {
            view.bindings
                .entry(metadata(binding, "namespace").to_owned())
                .or_default()
                .push(Binding::parse(binding));
        }
        view
    }

    /// The rules of a role; `namespace` is the binding's, empty for cluster bindings.
    pub(crate) fn role_rules(&self, role: &RoleRef, namespace: &str) -> Result<&[Rule], ApiError> {
        let (found, singular) = match role.kind.as_str() {
            "ClusterRole" => (self.cluster_roles.get(&role.name), "clusterrole"),
            "Role" => (self.roles.get(&(namespace.to_owned(), role.name.clone())), "role"),
            other => {
                return Err(ApiError::internal(format!(
                    "unsupported role reference kind: {}",
                    go_quote(other)
                )));
            }
        };
        // Upstream's listers name the resource in the singular, and clients see the text.
        found
            .map(Vec::as_slice)
            .ok_or_else(|| ApiError::not_found(&GroupResource::new(GROUP, singular), &role.name))
    }

    pub(super) fn rules_for(&self, who: &Identity, namespace: &str) -> (Vec<&Rule>, Vec<String>) {
        let mut rules = Vec::new();
        let (_, errors) = self.visit(who, namespace, |granted| {
            rules.push(granted.rule);
            false
        });
        (rules, errors)
    }

    fn visit<'a>(
        &'a self,
        who: &Identity,
        namespace: &str,
        mut stop: impl FnMut(&Granted<'a>) -> bool,
    ) -> (Option<String>, Vec<String>) {
        let mut errors = Vec::new();
        let cluster = self.cluster_bindings.iter().map(|b| (b, None));
        let local = self.bindings.get_key_value(namespace).into_iter();
        let local = local.flat_map(|(ns, bindings)| bindings.iter().map(|b| (b, Some(ns.as_str()))));
        for (binding, scope) in cluster.chain(local) {
            let scope_name = scope.unwrap_or_default();
            let Some(subject) = binding.subjects.iter().find(|s| s.is(who, scope_name)) else {
                continue;
            };
            let rules = match self.role_rules(&binding.role, scope_name) {
                Ok(rules) => rules,
                Err(error) => {
                    errors.push(error.message);
                    continue;
                }
            };
            for rule in rules {
                let granted = Granted {
                    rule,
                    binding,
                    namespace: scope,
                    subject,
                };
                if stop(&granted) {
                    return (Some(granted.describe()), errors);
                }
            }
        }
        (None, errors)
    }
}

pub(super) fn rules_of(role: &Value) -> Vec<Rule> {
    let rules = role.get("rules").and_then(Value::as_array);
    rules.into_iter().flatten().map(Rule::parse).collect()
}

pub(crate) fn authorize(view: &RbacView, who: &Identity, request: &Attributes) -> Decision {
    if who.in_group(MASTERS) {
        return Decision {
            allowed: true,
            reason: String::new(),
        };
    }
    match view.visit(who, &request.namespace, |granted| granted.rule.allows(request)) {
        (Some(source), _) => Decision {
            allowed: true,
            reason: format!("RBAC: allowed by {source}"),
        },
        (None, errors) if errors.is_empty() => Decision {
            allowed: false,
            reason: String::new(),
        },
        (None, errors) => Decision {
            allowed: false,
            reason: format!("RBAC: {}", aggregate_text(&errors)),
        },
    }
}

pub(crate) fn require(view: &RbacView, who: &Identity, request: &Attributes) -> Result<(), ApiError> {
    let decision = authorize(view, who, request);
    if decision.allowed {
        Ok(())
    } else {
        Err(forbidden(who, request, &decision.reason))
    }
}

pub(crate) fn forbidden(who: &Identity, request: &Attributes, reason: &str) -> ApiError {
    let user = go_quote(&who.name);
    let verb = &request.verb;
    let what = if !request.is_resource() {
        format!("User {user} cannot {verb} path {}", go_quote(&request.path))
    } else {
        let resource = go_quote(&request.described_resource());
        let group = go_quote(&request.group);
        let scope = if request.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {}", go_quote(&request.namespace))
        };
        format!("User {user} cannot {verb} resource {resource} in API group {group} {scope}")
    };
    // A browser that shows the text must not interpret it as HTML.
    let mut text = what
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    if !reason.is_empty() {
        text.push_str(": ");
        text.push_str(reason);
    }
    ApiError::forbidden(
        &GroupResource::new(&request.group, &request.resource),
        &request.name,
        text,
    )
}

/// Several errors as Go's aggregate prints them: without duplicates, in brackets if more than one.
pub(super) fn aggregate_text(errors: &[String]) -> String {
    let mut unique: Vec<&str> = Vec::new();
    for error in errors {
        if !unique.contains(&error.as_str()) {
            unique.push(error);
        }
    }
    match unique.as_slice() {
        [one] => (*one).to_owned(),
        many => format!("[{}]", many.join(", ")),
    }
}
