//! Reviews: requests that are answered and not stored. They say who somebody is and what they may do.

use super::{Call, decoded};
use crate::auth::issued::AUDIENCE;
use crate::auth::{Attributes, Identity};
use crate::field::FieldError;
use crate::registry::{Resource, SchemaSource};
use crate::status::ApiError;
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

impl Call<'_> {
    /// Answers the creation of a review; `None` for another kind.
    pub(super) async fn review(
        &self,
        resource: &Resource,
        body: axum::body::Body,
    ) -> Option<Result<Response, ApiError>> {
        let is_review = resource.kind.ends_with("Review") && self.method.as_str() == "POST";
        match is_review {
            true => Some(self.answer(resource, body).await),
            false => None,
        }
    }

    async fn answer(&self, resource: &Resource, body: axum::body::Body) -> Result<Response, ApiError> {
        let reply = self.reply()?;
        let review = self.body(body).await?.parse()?.value;
        let SchemaSource::Builtin(definition) = &resource.schema else {
            return Err(ApiError::not_supported(&resource.kind));
        };
        let mut review = decoded(definition, review)?;
        review["kind"] = json!(resource.kind);
        review["apiVersion"] = json!(resource.api_version());
        let status = match resource.kind.as_str() {
            "SelfSubjectReview" => {
                review["metadata"] = json!({ "creationTimestamp": self.api().now() });
                json!({ "userInfo": user_info(&self.identity) })
            }
            "TokenReview" => self.token_review(&review["spec"])?,
            "SelfSubjectRulesReview" => {
                let status = self.rules_review(&review["spec"])?;
                // as upstream: the question is not repeated
                review["spec"] = json!({});
                status
            }
            kind => self.access_review(kind, &review)?,
        };
        review["status"] = status;
        Ok(reply.value(StatusCode::CREATED, &decoded(definition, review)?))
    }

    fn access_review(&self, kind: &str, review: &Value) -> Result<Value, ApiError> {
        let local = kind == "LocalSubjectAccessReview";
        let of_self = kind == "SelfSubjectAccessReview";
        let spec = &review["spec"];
        let problems = problems(review, local, of_self, &self.info.namespace);
        if !problems.is_empty() {
            return Err(ApiError::invalid("authorization.k8s.io", kind, "", &problems));
        }
        let who = match of_self {
            true => self.identity.clone(),
            false => subject(spec),
        };
        let decision = self
            .api()
            .auth
            .decide(&self.view.snapshot, &who, &attributes(spec));
        Ok(json!({ "allowed": decision.allowed, "reason": decision.reason }))
    }

    fn rules_review(&self, spec: &Value) -> Result<Value, ApiError> {
        let namespace = text(spec, "namespace");
        if namespace.is_empty() {
            return Err(ApiError::bad_request("no namespace on request"));
        }
        let auth = &self.api().auth;
        let (rules, errors) = auth.rules(&self.view.snapshot, &self.identity, namespace);
        let of_resources = rules.iter().filter(|rule| !rule.resources.is_empty());
        let of_resources = of_resources.map(|rule| {
            json!({
                "verbs": rule.verbs,
                "apiGroups": rule.groups,
                "resources": rule.resources,
                "resourceNames": rule.resource_names,
            })
        });
        let of_paths = rules.iter().filter(|rule| !rule.paths.is_empty());
        let of_paths = of_paths.map(|rule| json!({ "verbs": rule.verbs, "nonResourceURLs": rule.paths }));
        Ok(json!({
            "resourceRules": of_resources.collect::<Vec<_>>(),
            "nonResourceRules": of_paths.collect::<Vec<_>>(),
            "incomplete": false,
            "evaluationError": errors.join(", "),
        }))
    }

    fn token_review(&self, spec: &Value) -> Result<Value, ApiError> {
        let token = text(spec, "token");
        if token.is_empty() {
            return Err(ApiError::bad_request(
                "token is required for TokenReview in authentication",
            ));
        }
        let asked = spec["audiences"].as_array().into_iter().flatten();
        let mut wanted: Vec<&str> = asked.filter_map(Value::as_str).collect();
        if wanted.is_empty() {
            wanted.push(AUDIENCE);
        }
        let now = (self.api().clock)();
        let auth = &self.api().auth;
        Ok(match auth.holder(&self.view.snapshot, now, token, &wanted) {
            Some((identity, audiences)) => json!({
                "authenticated": true,
                "user": user_info(&identity),
                "audiences": audiences,
            }),
            None => json!({ "error": "invalid bearer token" }),
        })
    }
}

/// The problems of a question about access, in upstream's order.
fn problems(review: &Value, local: bool, of_self: bool, namespace: &str) -> Vec<FieldError> {
    let spec = &review["spec"];
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let mut problems = Vec::new();
    let mut invalid = |field: &str, value: &Value, why: &str| {
        problems.push(FieldError::invalid(field, value, why));
    };
    match (resource.is_null(), path.is_null()) {
        (false, false) => invalid(
            "spec.nonResourceAttributes",
            path,
            "cannot be specified in combination with resourceAttributes",
        ),
        (true, true) => invalid(
            "spec.resourceAttributes",
            path,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        _ => {}
    }
    let nobody = spec["groups"].as_array().is_none_or(Vec::is_empty) && text(spec, "user").is_empty();
    if !of_self && nobody {
        invalid(
            "spec.user",
            &json!(""),
            "at least one of user or group must be specified",
        );
    }
    let metadata = review["metadata"].as_object();
    let said = metadata
        .into_iter()
        .flatten()
        .any(|(key, value)| !value.is_null() && key != "managedFields" && !(local && key == "namespace"));
    if said {
        let why = match local {
            true => "must be empty except for namespace",
            false => "must be empty",
        };
        invalid("metadata", &review["metadata"], why);
    }
    if local {
        let asked = &resource["namespace"];
        if !resource.is_null() && asked.as_str().unwrap_or_default() != namespace {
            invalid(
                "spec.resourceAttributes.namespace",
                asked,
                "must match metadata.namespace",
            );
        }
        if !path.is_null() {
            invalid(
                "spec.nonResourceAttributes",
                path,
                "disallowed on this kind of request",
            );
        }
    }
    problems
}

fn attributes(spec: &Value) -> Attributes {
    let resource = &spec["resourceAttributes"];
    if resource.is_null() {
        let path = &spec["nonResourceAttributes"];
        return Attributes::path(text(path, "verb"), text(path, "path"));
    }
    let word = |key| text(resource, key).to_owned();
    Attributes {
        verb: word("verb"),
        group: word("group"),
        resource: word("resource"),
        subresource: word("subresource"),
        namespace: word("namespace"),
        name: word("name"),
        path: String::new(),
    }
}

/// The subject of a question: as it is said, no groups are added.
fn subject(spec: &Value) -> Identity {
    let words = |value: &Value| {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = spec["extra"].as_object().into_iter().flatten();
    Identity {
        name: text(spec, "user").to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups: words(&spec["groups"]),
        extra: extra.map(|(key, value)| (key.clone(), words(value))).collect(),
    }
}

fn user_info(identity: &Identity) -> Value {
    json!({
        "username": identity.name,
        "uid": identity.uid,
        "groups": identity.groups,
        "extra": identity.extra,
    })
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}
