//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy over HTTP.

use super::webhooks::ask;
use equate_apiserver::{EmbeddedCluster, Profile};
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const DENY: &str = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ";

/// A cluster with a policy `p` for ConfigMaps and its binding `b`.
struct Policies(EmbeddedCluster);

impl Policies {
    async fn new() -> Self {
        let quiet = Profile {
            service_accounts: false,
            root_ca: false,
            ..Profile::default()
        };
        Self(
            EmbeddedCluster::builder()
                .controllers(quiet)
                .build()
                .await
                .unwrap(),
        )
    }

    async fn validating(spec: Value, binding: Value) -> Self {
        let policies = Self::new().await;
        policies.add("validating", spec, binding).await;
        policies
    }

    async fn mutating(spec: Value, binding: Value) -> Self {
        let policies = Self::new().await;
        policies.add("mutating", spec, binding).await;
        policies
    }

    async fn add(&self, kind: &str, mut spec: Value, mut binding: Value) {
        spec["matchConstraints"] = json!({ "resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": if kind == "mutating" { json!(["CREATE"]) } else { json!(["*"]) },
        }] });
        if kind == "mutating" {
            spec["reinvocationPolicy"] = json!("Never");
        }
        binding["policyName"] = json!("p");
        self.made(
            &format!("{GROUP}/{kind}admissionpolicies"),
            json!({ "metadata": { "name": "p" }, "spec": spec }),
        )
        .await;
        self.made(
            &format!("{GROUP}/{kind}admissionpolicybindings"),
            json!({ "metadata": { "name": "b" }, "spec": binding }),
        )
        .await;
    }

    async fn made(&self, path: &str, body: Value) -> Value {
        let (status, answer, _) = ask(&self.0, "POST", path, &body).await;
        assert_eq!(status.as_u16(), 201, "{path}: {answer}");
        answer
    }

    /// The answer to a ConfigMap with `data: {a: b}`: status, object or Status, warning.
    async fn create(&self, name: &str) -> (u16, Value, String) {
        self.create_in(CONFIG_MAPS, name).await
    }

    async fn create_in(&self, path: &str, name: &str) -> (u16, Value, String) {
        let body = json!({ "metadata": { "name": name }, "data": { "a": "b" } });
        let (status, answer, warning) = ask(&self.0, "POST", path, &body).await;
        (status.as_u16(), answer, warning)
    }

    async fn assert_refused(&self, code: u16, reason: &str, message: &str) {
        let (status, answer, _) = self.create("refused").await;
        assert_eq!(answer["message"], message);
        assert_eq!((status, &answer["reason"]), (code, &json!(reason)), "{answer}");
    }

    async fn assert_admitted(&self) -> Value {
        let (status, answer, warning) = self.create("admitted").await;
        assert_eq!((status, warning.as_str()), (201, ""), "{answer}");
        answer
    }
}

fn deny() -> Value {
    json!({ "validationActions": ["Deny"] })
}

fn denied(why: &str) -> String {
    format!("configmaps \"refused\" is forbidden: {DENY}{why}")
}

#[tokio::test]
async fn denied_write_is_refused_with_the_policys_message() {
    let spec = json!({ "validations": [{ "expression": "object.data.a == 'c'" }] });
    let policies = Policies::validating(spec, deny()).await;
    let why = denied("failed expression: object.data.a == 'c'");
    policies.assert_refused(422, "Invalid", &why).await;
    let (_, answer, _) = policies.create("refused").await;
    let cause = why.split_once("forbidden: ").unwrap().1;
    assert_eq!(answer["details"]["causes"], json!([{ "message": cause }]));
    let (status, ..) = ask(
        &policies.0,
        "GET",
        &format!("{CONFIG_MAPS}/refused"),
        &Value::Null,
    )
    .await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn reason_of_a_validation_sets_the_status_code() {
    for (reason, code) in [
        ("Unauthorized", 401),
        ("Forbidden", 403),
        ("RequestEntityTooLarge", 413),
    ] {
        let spec = json!({ "validations": [{
            "expression": "false", "reason": reason, "messageExpression": "'no ' + object.metadata.name",
        }] });
        let policies = Policies::validating(spec, deny()).await;
        policies.assert_refused(code, reason, &denied("no refused")).await;
    }
}

#[tokio::test]
async fn warn_action_admits_with_a_warning() {
    let spec = json!({ "validations": [{ "expression": "false", "message": "old" }] });
    let binding = json!({ "validationActions": ["Warn", "Audit"] });
    let policies = Policies::validating(spec, binding).await;
    let (status, answer, warning) = policies.create("a").await;
    assert_eq!(status, 201, "{answer}");
    assert_eq!(
        warning,
        "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': old\""
    );
}

#[tokio::test]
async fn warn_action_answers_a_deletion_with_a_warning() {
    let spec = json!({ "validations": [{ "expression": "object != null", "message": "gone" }] });
    let policies = Policies::validating(spec, json!({ "validationActions": ["Warn"] })).await;
    for path in [&format!("{CONFIG_MAPS}/admitted"), CONFIG_MAPS] {
        policies.assert_admitted().await;
        let (status, answer, warning) = ask(&policies.0, "DELETE", path, &json!({})).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(
            warning, "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': gone\"",
            "{path}"
        );
    }
}

#[tokio::test]
async fn audit_action_admits_without_a_warning() {
    let spec = json!({ "validations": [{ "expression": "false" }] });
    let policies = Policies::validating(spec, json!({ "validationActions": ["Audit"] })).await;
    policies.assert_admitted().await;
}

#[tokio::test]
async fn policy_without_its_binding_admits() {
    let spec = json!({ "validations": [{ "expression": "false" }] });
    let policies = Policies::validating(spec, deny()).await;
    policies
        .assert_refused(422, "Invalid", &denied("failed expression: false"))
        .await;
    let binding = format!("{GROUP}/validatingadmissionpolicybindings/b");
    let (status, answer, _) = ask(&policies.0, "DELETE", &binding, &json!({})).await;
    assert_eq!(status, 200, "{answer}");
    policies.assert_admitted().await;
}

#[tokio::test]
async fn binding_is_limited_to_the_namespaces_that_it_selects() {
    let spec = json!({ "validations": [{ "expression": "false" }] });
    let mut binding = deny();
    binding["matchResources"] = json!({ "namespaceSelector": { "matchLabels": { "env": "prod" } } });
    let policies = Policies::validating(spec, binding).await;
    let prod = json!({ "metadata": { "name": "prod", "labels": { "env": "prod" } } });
    policies.made("/api/v1/namespaces", prod).await;
    policies.assert_admitted().await;
    let (status, answer, _) = policies
        .create_in("/api/v1/namespaces/prod/configmaps", "a")
        .await;
    assert_eq!(status, 422, "{answer}");
}

#[tokio::test]
async fn deletion_is_denied_by_the_old_object() {
    let spec = json!({ "validations": [{
        "expression": "request.operation != 'DELETE' || oldObject.data.a != 'b'", "message": "kept",
    }] });
    let policies = Policies::validating(spec, deny()).await;
    policies.assert_admitted().await;
    let path = format!("{CONFIG_MAPS}/admitted");
    let (status, answer, _) = ask(&policies.0, "DELETE", &path, &json!({})).await;
    assert_eq!(status, 422, "{answer}");
    let message = format!("configmaps \"admitted\" is forbidden: {DENY}kept");
    assert_eq!(answer["message"], message);
    let (status, ..) = ask(&policies.0, "GET", &path, &Value::Null).await;
    assert_eq!(status, 200);
}

fn parameter(not_found: &str) -> Value {
    json!({ "name": "limits", "namespace": "default", "parameterNotFoundAction": not_found })
}

#[tokio::test]
async fn policy_reads_its_parameter() {
    let spec = json!({
        "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" },
        "validations": [{
            "expression": "object.data.a == params.data.a", "messageExpression": "'not ' + params.data.a",
        }],
    });
    let check = async |allowed: &str| {
        let policies = Policies::new().await;
        let limits = json!({ "metadata": { "name": "limits" }, "data": { "a": allowed } });
        policies.made(CONFIG_MAPS, limits).await;
        let mut binding = deny();
        binding["paramRef"] = parameter("Deny");
        policies.add("validating", spec.clone(), binding).await;
        policies
    };
    check("b").await.assert_admitted().await;
    check("c")
        .await
        .assert_refused(422, "Invalid", &denied("not c"))
        .await;
}

#[tokio::test]
async fn missing_parameter_refuses_whatever_the_actions() {
    let spec = json!({
        "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" },
        "validations": [{ "expression": "false" }],
    });
    let policies = async |not_found: &str| {
        let binding = json!({ "validationActions": ["Warn"], "paramRef": parameter(not_found) });
        Policies::validating(spec.clone(), binding).await
    };
    let why = denied(
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
    );
    policies("Deny").await.assert_refused(422, "Invalid", &why).await;
    policies("Allow").await.assert_admitted().await;
}

#[tokio::test]
async fn match_condition_that_is_false_skips_the_policy() {
    const FAILS: &str = "object.data.x == 'y'";
    let check = async |conditions: &[&str], failure: &str, want: Option<&str>| {
        let named = conditions.iter().enumerate();
        let named: Vec<Value> = named
            .map(|(i, expression)| json!({ "name": format!("c{i}"), "expression": expression }))
            .collect();
        let spec = json!({
            "matchConditions": named, "failurePolicy": failure, "validations": [{ "expression": "false" }],
        });
        let policies = Policies::validating(spec, deny()).await;
        match want {
            None => drop(policies.assert_admitted().await),
            Some(why) => policies.assert_refused(422, "Invalid", &denied(why)).await,
        }
    };
    check(&["true"], "Fail", Some("failed expression: false")).await;
    check(&["true", "object.data.a == 'c'"], "Fail", None).await;
    check(&[FAILS, "false"], "Fail", None).await;
    let why = "expression 'object.data.x == 'y'' resulted in error: no such key: x";
    check(&[FAILS, "true"], "Fail", Some(why)).await;
    check(&[FAILS, "true"], "Ignore", None).await;
}

#[tokio::test]
async fn failed_validation_counts_by_the_failure_policy() {
    let policies = async |failure: &str| {
        let spec = json!({
            "failurePolicy": failure, "validations": [{ "expression": "object.data.x == 'y'" }],
        });
        Policies::validating(spec, deny()).await
    };
    let why = denied("expression 'object.data.x == 'y'' resulted in error: no such key: x");
    policies("Fail").await.assert_refused(422, "Invalid", &why).await;
    policies("Ignore").await.assert_admitted().await;
}

fn json_patch(expression: &str) -> Value {
    json!({ "patchType": "JSONPatch", "jsonPatch": { "expression": expression } })
}

fn adds(key: &str, value: &str) -> Value {
    json_patch(&format!(
        "[JSONPatch{{op: 'add', path: '/data/{key}', value: {value}}}]"
    ))
}

#[tokio::test]
async fn apply_configuration_is_merged_into_the_object() {
    let expression = "Object{metadata: Object.metadata{labels: {'made': 'so'}}}";
    let mutation = json!({
        "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": expression },
    });
    let policies = Policies::mutating(json!({ "mutations": [mutation] }), json!({})).await;
    let made = policies.assert_admitted().await;
    assert_eq!(made["metadata"]["labels"], json!({ "made": "so" }));
    assert_eq!(made["data"], json!({ "a": "b" }));
}

#[tokio::test]
async fn mutations_see_those_before_them() {
    let spec = json!({
        "matchConditions": [{ "name": "new", "expression": "!('c' in object.data)" }],
        "variables": [{ "name": "a", "expression": "object.data.a" }],
        "mutations": [adds("c", "variables.a + '1'"), adds("d", "object.data.c + '2'")],
    });
    let policies = Policies::mutating(spec, json!({})).await;
    let made = policies.assert_admitted().await;
    assert_eq!(made["data"], json!({ "a": "b", "c": "b1", "d": "b12" }));
}

#[tokio::test]
async fn mutation_is_skipped_by_a_false_match_condition() {
    let spec = json!({
        "matchConditions": [{ "name": "other", "expression": "object.metadata.name == 'other'" }],
        "mutations": [adds("c", "'d'")],
    });
    let policies = Policies::mutating(spec, json!({})).await;
    assert_eq!(policies.assert_admitted().await["data"], json!({ "a": "b" }));
    let (_, other, _) = policies.create("other").await;
    assert_eq!(other["data"], json!({ "a": "b", "c": "d" }));
}

#[tokio::test]
async fn mutation_reads_its_parameter() {
    let policies = Policies::new().await;
    let limits = json!({ "metadata": { "name": "limits" }, "data": { "a": "z" } });
    policies.made(CONFIG_MAPS, limits).await;
    let spec = json!({
        "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" }, "mutations": [adds("c", "params.data.a")],
    });
    let binding = json!({ "paramRef": parameter("Deny") });
    policies.add("mutating", spec, binding).await;
    let made = policies.assert_admitted().await;
    assert_eq!(made["data"], json!({ "a": "b", "c": "z" }));
}

#[tokio::test]
async fn failed_mutation_counts_by_the_failure_policy() {
    let policies = async |failure: &str| {
        let spec = json!({
            "failurePolicy": failure,
            "mutations": [adds("c", "'d'"), adds("e", "object.data.x"), adds("f", "'g'")],
        });
        Policies::mutating(spec, json!({})).await
    };
    let why = "policy 'p' with binding 'b' denied request: expression '[JSONPatch{op: 'add', path: '/data/e', value: object.data.x}]' resulted in error: no such key: x";
    policies("Fail").await.assert_refused(403, "Invalid", why).await;
    let made = policies("Ignore").await.assert_admitted().await;
    assert_eq!(made["data"], json!({ "a": "b", "c": "d", "f": "g" }));
}

#[tokio::test]
async fn missing_parameter_of_a_mutation_is_forbidden() {
    let spec = json!({
        "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" }, "mutations": [adds("c", "params.data.a")],
    });
    let policies = Policies::mutating(spec, json!({ "paramRef": parameter("Deny") })).await;
    let why = "policy 'p' with binding 'b' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    policies.assert_refused(403, "Forbidden", why).await;
}

#[tokio::test]
async fn validation_sees_the_mutated_object() {
    let policies = Policies::mutating(json!({ "mutations": [adds("c", "'d'")] }), json!({})).await;
    let spec = json!({ "validations": [{
        "expression": "!('c' in object.data)", "messageExpression": "object.data.c",
    }] });
    policies.add("validating", spec, deny()).await;
    policies.assert_refused(422, "Invalid", &denied("d")).await;
}
