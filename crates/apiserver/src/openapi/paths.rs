//! The paths of a group and version and their operations.

use super::META;
use super::components;
use crate::registry::{Resource, Subresource};
use serde_json::{Map, Value, json};

const REFERENCE: &str = "#/components/schemas/";

const WRITE: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
];
const PATCH: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("force", "boolean"),
];
const LIST: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const DELETE: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const DELETE_COLLECTION: &[(&str, &str)] = &[
    ("continue", "string"),
    ("dryRun", "string"),
    ("fieldSelector", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
];
const LOG: &[(&str, &str)] = &[
    ("container", "string"),
    ("follow", "boolean"),
    ("insecureSkipTLSVerifyBackend", "boolean"),
    ("limitBytes", "integer"),
    ("previous", "boolean"),
    ("sinceSeconds", "integer"),
    ("stream", "string"),
    ("tailLines", "integer"),
    ("timestamps", "boolean"),
];

/// Subresources that stream to a node; there is none.
const STREAMS: &[&str] = &["attach", "exec", "portforward", "proxy"];

/// `Apps`, `RbacAuthorization`, `ExIo`; `Core` for the core group.
pub(super) fn group_name(group: &str) -> String {
    let group = match group {
        "" => "core",
        group => group.strip_suffix(".k8s.io").unwrap_or(group),
    };
    group.split('.').map(upper_first).collect()
}

fn upper_first(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

pub(super) fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}

pub(super) fn single(path: &str, operation: &str, tag: &str, definition: &str) -> Map<String, Value> {
    let get = json!({
        "operationId": operation,
        "tags": [tag],
        "responses": responses(&[("200", "OK")], &content(&reference(definition), false)),
    });
    Map::from_iter([(path.to_owned(), json!({ "get": get }))])
}

pub(super) fn resource_list(of: &Resource) -> Map<String, Value> {
    let operation = format!("get{}APIResources", prefix(of));
    single(
        &format!("{}/", root(of)),
        &operation,
        &tag(of),
        &format!("{META}APIResourceList"),
    )
}

fn root(resource: &Resource) -> String {
    match resource.group.as_str() {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    }
}

fn prefix(resource: &Resource) -> String {
    format!(
        "{}{}",
        group_name(&resource.group),
        upper_first(&resource.version)
    )
}

fn tag(resource: &Resource) -> String {
    format!(
        "{}_{}",
        lower_first(&group_name(&resource.group)),
        resource.version
    )
}

fn reference(definition: &str) -> Value {
    json!({ "$ref": format!("{REFERENCE}{definition}") })
}

fn content(schema: &Value, streams: bool) -> Value {
    let mut content = Map::new();
    content.insert("application/json".to_owned(), json!({ "schema": schema }));
    content.insert("application/yaml".to_owned(), json!({ "schema": schema }));
    if streams {
        content.insert(
            "application/json;stream=watch".to_owned(),
            json!({ "schema": schema }),
        );
    }
    Value::Object(content)
}

fn responses(codes: &[(&str, &str)], content: &Value) -> Value {
    let mut responses = Map::new();
    for (code, description) in codes {
        responses.insert(
            (*code).to_owned(),
            json!({"description": description, "content": content}),
        );
    }
    responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    Value::Object(responses)
}

/// An operation before its parameters are shared with others of its path.
struct Operation {
    method: &'static str,
    parameters: &'static [(&'static str, &'static str)],
    body: Value,
}

struct Describe<'a> {
    resource: &'a Resource,
    kind: (&'a str, &'a str, &'a str),
    definition: String,
    list_definition: String,
    /// `Scale` in `readAppsV1NamespacedDeploymentScale`.
    suffix: String,
}

impl Describe<'_> {
    fn name(&self, scope: &str) -> String {
        format!(
            "{}{scope}{}{}",
            prefix(self.resource),
            self.resource.kind,
            self.suffix
        )
    }

    fn scope(&self) -> &'static str {
        if self.resource.namespaced {
            "Namespaced"
        } else {
            ""
        }
    }

    fn operation(&self, id: &str, action: &str, responses: &Value, body: Option<Value>) -> Value {
        let (group, version, kind) = self.kind;
        let mut operation = json!({
            "operationId": id,
            "tags": [tag(self.resource)],
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
            "responses": responses,
        });
        if let Some(body) = body {
            operation["requestBody"] = body;
        }
        operation
    }

    fn own(&self) -> Value {
        content(&reference(&self.definition), false)
    }

    fn object_body(&self) -> Value {
        json!({"content": {"*/*": {"schema": reference(&self.definition)}}, "required": true})
    }

    fn read(&self) -> Operation {
        let id = format!("read{}", self.name(self.scope()));
        Operation {
            method: "get",
            // Upstream describes a read's parameters for custom resources only.
            parameters: match components::builtin_name(self.resource) {
                Some(_) => &[],
                None => &[("resourceVersion", "string")],
            },
            body: self.operation(&id, "get", &responses(&[("200", "OK")], &self.own()), None),
        }
    }

    fn list(&self, scope: &str, suffix: &str) -> Operation {
        let id = format!("list{}{suffix}", self.name(scope));
        let content = content(&reference(&self.list_definition), true);
        Operation {
            method: "get",
            parameters: LIST,
            body: self.operation(&id, "list", &responses(&[("200", "OK")], &content), None),
        }
    }

    fn create(&self) -> Operation {
        let id = format!("create{}", self.name(self.scope()));
        let codes = &[("200", "OK"), ("201", "Created"), ("202", "Accepted")];
        Operation {
            method: "post",
            parameters: WRITE,
            body: self.operation(
                &id,
                "post",
                &responses(codes, &self.own()),
                Some(self.object_body()),
            ),
        }
    }

    fn update(&self) -> Operation {
        let id = format!("replace{}", self.name(self.scope()));
        let codes = &[("200", "OK"), ("201", "Created")];
        Operation {
            method: "put",
            parameters: WRITE,
            body: self.operation(
                &id,
                "put",
                &responses(codes, &self.own()),
                Some(self.object_body()),
            ),
        }
    }

    fn patch(&self, strategic: bool) -> Operation {
        let id = format!("patch{}", self.name(self.scope()));
        // Upstream describes an apply that creates only for built-in resources.
        let codes: &[_] = match strategic {
            true => &[("200", "OK"), ("201", "Created")],
            false => &[("200", "OK")],
        };
        let mut types = vec![
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
        ];
        if strategic {
            types.push("application/strategic-merge-patch+json");
        }
        let schema = reference(&format!("{META}Patch"));
        let content: Map<String, Value> = types
            .into_iter()
            .map(|kind| (kind.to_owned(), json!({ "schema": schema })))
            .collect();
        let body = json!({"content": content, "required": true});
        Operation {
            method: "patch",
            parameters: PATCH,
            body: self.operation(&id, "patch", &responses(codes, &self.own()), Some(body)),
        }
    }

    fn delete(&self) -> Operation {
        let id = format!("delete{}", self.name(self.scope()));
        let content = match self.resource.strategy.delete_returns_object {
            true => self.own(),
            false => content(&reference(&format!("{META}Status")), false),
        };
        let codes = &[("200", "OK"), ("202", "Accepted")];
        Operation {
            method: "delete",
            parameters: DELETE,
            body: self.operation(&id, "delete", &responses(codes, &content), Some(delete_options())),
        }
    }

    fn delete_collection(&self) -> Operation {
        let id = format!("delete{}", self.name(&format!("Collection{}", self.scope())));
        let content = content(&reference(&format!("{META}Status")), false);
        Operation {
            method: "delete",
            parameters: DELETE_COLLECTION,
            body: self.operation(
                &id,
                "deletecollection",
                &responses(&[("200", "OK")], &content),
                Some(delete_options()),
            ),
        }
    }

    fn log(&self) -> Operation {
        let id = format!("read{}", self.name(self.scope()));
        let content = json!({"text/plain": {"schema": {"type": "string"}}});
        Operation {
            method: "get",
            parameters: LOG,
            body: self.operation(&id, "get", &responses(&[("200", "OK")], &content), None),
        }
    }
}

fn delete_options() -> Value {
    json!({"content": {"*/*": {"schema": reference(&format!("{META}DeleteOptions"))}}})
}

pub(super) fn resource(resource: &Resource, paths: &mut Map<String, Value>) {
    let builtin = components::builtin_name(resource);
    let definition = components::definition_name(resource);
    let describe = Describe {
        resource,
        kind: (&resource.group, &resource.version, &resource.kind),
        list_definition: components::list_definition_name(resource),
        definition,
        suffix: String::new(),
    };
    let may = |verb: &str| resource.verbs.iter().any(|v| v == verb);
    let all = format!("{}/{}", root(resource), resource.plural);
    let collection = match resource.namespaced {
        true => format!("{}/namespaces/{{namespace}}/{}", root(resource), resource.plural),
        false => all.clone(),
    };
    let object = format!("{collection}/{{name}}");
    if resource.namespaced && may("list") {
        insert(paths, &all, vec![describe.list("", "ForAllNamespaces")]);
    }
    let mut operations = Vec::new();
    if may("list") {
        operations.push(describe.list(describe.scope(), ""));
    }
    if may("create") {
        operations.push(describe.create());
    }
    if may("deletecollection") {
        operations.push(describe.delete_collection());
    }
    insert(paths, &collection, operations);
    let mut operations = Vec::new();
    for (verb, operation) in [
        ("get", describe.read()),
        ("update", describe.update()),
        ("delete", describe.delete()),
    ] {
        if may(verb) {
            operations.push(operation);
        }
    }
    if may("patch") {
        operations.push(describe.patch(builtin.is_some()));
    }
    insert(paths, &object, operations);
    for sub in &resource.subresources {
        if !STREAMS.contains(&sub.name.as_str()) {
            insert(
                paths,
                &format!("{object}/{}", sub.name),
                subresource(&describe, sub),
            );
        }
    }
}

fn subresource(parent: &Describe<'_>, sub: &Subresource) -> Vec<Operation> {
    let (group, version, kind) = &sub.kind;
    let (group, version) = match version.as_str() {
        "" => (parent.resource.group.as_str(), parent.resource.version.as_str()),
        version => (group.as_str(), version),
    };
    let describe = Describe {
        resource: parent.resource,
        // A custom resource's operations are its own kind's, whatever their body.
        kind: match components::builtin_name(parent.resource) {
            Some(_) => (group, version, kind),
            None => parent.kind,
        },
        definition: components::definition_of_kind(parent.resource, group, version, kind),
        list_definition: String::new(),
        suffix: upper_first(&sub.name),
    };
    if sub.name == "log" {
        return vec![describe.log()];
    }
    let strategic = components::builtin_name(parent.resource).is_some();
    sub.verbs
        .iter()
        .filter_map(|verb| match verb.as_str() {
            "get" => Some(describe.read()),
            "update" => Some(describe.update()),
            "patch" => Some(describe.patch(strategic)),
            "create" => Some(describe.create()),
            _ => None,
        })
        .collect()
}

/// Adds a path. Parameters that all operations take move to the path.
fn insert(paths: &mut Map<String, Value>, path: &str, operations: Vec<Operation>) {
    let Some(first) = operations.first() else { return };
    let shared: Vec<(&str, &str)> = first
        .parameters
        .iter()
        .copied()
        .filter(|parameter| {
            operations
                .iter()
                .all(|operation| operation.parameters.contains(parameter))
        })
        .collect();
    let mut item = Map::new();
    for mut operation in operations {
        let own: Vec<Value> = operation
            .parameters
            .iter()
            .filter(|parameter| !shared.contains(parameter))
            .map(|(name, kind)| parameter(name, kind))
            .collect();
        if !own.is_empty() {
            operation.body["parameters"] = own.into();
        }
        item.insert(operation.method.to_owned(), operation.body);
    }
    let mut parameters: Vec<Value> = shared.iter().map(|(name, kind)| parameter(name, kind)).collect();
    parameters.push(parameter("pretty", "string"));
    for name in ["name", "namespace"] {
        if path.contains(&format!("{{{name}}}")) {
            let schema = json!({"type": "string", "uniqueItems": true});
            parameters.push(json!({"name": name, "in": "path", "required": true, "schema": schema}));
        }
    }
    parameters.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    item.insert("parameters".to_owned(), parameters.into());
    paths.insert(path.to_owned(), Value::Object(item));
}

fn parameter(name: &str, kind: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
}
