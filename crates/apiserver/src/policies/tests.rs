use super::expressions::{Inputs, Outcome, problem, validate};
use super::*;

fn outcomes(policy: &Value, object: &Value) -> Vec<String> {
    let request = json!({"operation": "CREATE", "userInfo": {"username": "alice"}});
    let namespace = json!({"metadata": {"name": "a", "labels": {"env": "test"}}});
    let inputs = Inputs {
        object: Some(object),
        old: None,
        request: &request,
        params: None,
        namespace: Some(&namespace),
    };
    let described = |outcome| match outcome {
        Outcome::Denied { message, reason } => format!("{reason}{message}"),
        Outcome::Failed(why) => format!("failed: {why}"),
    };
    validate(policy, &inputs).into_iter().map(described).collect()
}

fn deployment(replicas: i64) -> Value {
    json!({"spec": {"replicas": replicas}})
}

#[test]
fn messages_are_computed_given_or_the_expression() {
    let policy = json!({"spec": {"validations": [
        {"expression": "object.spec.replicas > 1", "messageExpression": "'got ' + string(object.spec.replicas)"},
        {"expression": "object.spec.replicas > 2", "message": " too few ", "messageExpression": "'a' + 1"},
        {"expression": "object.spec.replicas > 3", "reason": "Forbidden"},
        {"expression": "namespaceObject.metadata.name == 'a' && request.operation == 'CREATE' && oldObject == null"},
    ]}});
    assert_eq!(
        outcomes(&policy, &deployment(1)),
        [
            "got 1",
            "too few",
            "Forbiddenfailed expression: object.spec.replicas > 3"
        ]
    );
    assert_eq!(outcomes(&policy, &deployment(4)), Vec::<String>::new());
}

#[test]
fn variables_see_those_before_them() {
    let policy = json!({"spec": {
        "variables": [
            {"name": "replicas", "expression": "object.spec.replicas"},
            {"name": "odd", "expression": "variables.replicas % 2 == 1"},
            {"name": "broken", "expression": "object.spec.absent"},
        ],
        "validations": [{"expression": "variables.odd"}],
    }});
    assert_eq!(
        outcomes(&policy, &deployment(2)),
        ["failed expression: variables.odd"]
    );
    assert_eq!(outcomes(&policy, &deployment(3)), Vec::<String>::new());
    let mut reads_broken = policy;
    reads_broken["spec"]["validations"] = json!([{"expression": "variables.broken"}]);
    assert_eq!(
        outcomes(&reads_broken, &deployment(3)),
        [
            "failed: expression 'variables.broken' resulted in error: composited variable \"broken\" fails to evaluate: no such key: absent"
        ]
    );
}

#[test]
fn condition_that_does_not_hold_ends_the_evaluation() {
    let policy = json!({"spec": {
        "matchConditions": [{"name": "bob", "expression": "request.userInfo.username == 'bob'"}],
        "validations": [{"expression": "false"}],
    }});
    assert_eq!(outcomes(&policy, &deployment(1)), Vec::<String>::new());
}

#[test]
fn expression_that_does_not_compile_has_a_problem() {
    assert_eq!(problem("object.spec.replicas > 1"), None);
    assert!(problem("object.spec.replicas >").is_some());
    assert!(problem("missing > 1").is_some_and(|why| why.contains("undeclared reference to 'missing'")));
}
