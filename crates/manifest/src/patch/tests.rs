use super::{json, merge};
use serde_json::{Value, json};

fn goldens(text: &str, run: impl Fn(Value, &Value) -> Option<Value>) {
    let mut failures = Vec::new();
    let mut count = 0;
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        count += 1;
        let got = run(case["original"].clone(), &case["patch"]);
        if got.as_ref() != case.get("result") {
            failures.push(format!("{line}\n  got {got:?}"));
        }
    }
    assert!(count >= 100);
    assert!(
        failures.is_empty(),
        "{} of {count} differ\n{}",
        failures.len(),
        failures[..failures.len().min(8)].join("\n")
    );
}

/// Compares values and failures, but not error texts, which never reach a client.
#[test]
fn json_patch_agrees_with_the_real_library() {
    goldens(include_str!("goldens/json.jsonl"), |original, patch| {
        json::Patch::parse(patch).unwrap().apply(original).ok()
    });
}

#[test]
fn merge_patch_agrees_with_the_real_library() {
    goldens(include_str!("goldens/merge.jsonl"), |original, patch| {
        merge::apply(original, patch).ok()
    });
}

#[test]
fn invalid_patches_are_refused() {
    #[track_caller]
    fn check(document: impl std::borrow::Borrow<Value>, expected: &str) {
        let got = match json::Patch::parse(document.borrow()) {
            Ok(patch) => format!("unknown {:?}", patch.unknown_fields),
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expected);
    }
    check(
        json!({"a": 1}),
        "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
    );
    check(
        json!("a"),
        "json: cannot unmarshal string into Go value of type []handlers.jsonPatchOp",
    );
    check(
        json!([1]),
        "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
    );
    check(
        json!([{"op": 1}]),
        "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
    );
    check(json!(null), "unknown []");
    check(
        json!([{"op": "add", "path": "/a", "vlaue": 1}]),
        r#"unknown ["[0].vlaue"]"#,
    );
    check(
        Value::from(vec![json!({"op": "test", "path": ""}); json::OPERATIONS_MAX + 1]),
        "The allowed maximum operations in a JSON patch is 10000, got 10001",
    );

    let refused = |patch: Value| merge::apply(json!({}), &patch).unwrap_err().to_string();
    assert_eq!(refused(Value::Null), "Invalid JSON Patch");
    assert_eq!(
        refused(json!([])),
        "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
    );
}

#[test]
fn copies_have_a_limit() {
    let document = json!({"a": "x".repeat(1 << 20)});
    let copy = json!({"op": "copy", "from": "/a", "path": "/b"});
    let patch = |times: usize| json::Patch::parse(&vec![copy.clone(); times].into()).unwrap();
    assert!(patch(2).apply(document.clone()).is_ok());
    let error = patch(3).apply(document).unwrap_err();
    assert!(matches!(error, json::ApplyError::Copied { .. }), "{error}");
}

/// A value copied into its deepest place doubles its depth; moving it down a chain, or adding ever deeper,
/// adds a level.
#[test]
fn nesting_has_a_limit() {
    let deep = |times: usize| "/a".repeat(times);
    let copies: Vec<Value> = (0..17)
        .map(|times| json!({"op": "copy", "from": "/a", "path": deep((1 << times) + 1)}))
        .collect();
    let adds: Vec<Value> = (1..5000)
        .map(|times| json!({"op": "add", "path": deep(times), "value": {}}))
        .collect();
    let replaces: Vec<Value> = (1..5000)
        .map(|times| json!({"op": "replace", "path": deep(times), "value": {}}))
        .collect();
    let chain: serde_json::Map<String, Value> = (0..5000).map(|at| (format!("k{at}"), json!({}))).collect();
    let moves: Vec<Value> = (1..5000)
        .map(|at| json!({"op": "move", "from": format!("/k{}", at - 1), "path": format!("/k{at}/x")}))
        .collect();
    for (op, document, operations, fit) in [
        ("copy", json!({"a": {}}), copies, 8),
        ("add", json!({}), adds, 511),
        ("replace", json!({}), replaces, 511),
        ("move", Value::Object(chain), moves, 510),
    ] {
        let patch = |operations: &[Value]| json::Patch::parse(&operations.to_vec().into()).unwrap();
        assert!(patch(&operations[..fit]).apply(document.clone()).is_ok(), "{op}");
        for count in [fit + 1, operations.len()] {
            let refused = patch(&operations[..count]).apply(document.clone());
            assert_eq!(refused, Err(json::ApplyError::Nesting { op }), "{op}");
        }
    }
}

#[test]
fn work_of_operations_is_watched() {
    let list: Vec<Value> = (0..80_000).map(Value::from).collect();
    let operation = |op: Value| json::Patch::parse(&vec![op; 10].into()).unwrap();
    for (op, steps_min) in [
        (json!({"op": "add", "path": "/a/0", "value": 1}), 100_000),
        (json!({"op": "copy", "from": "/a", "path": "/b"}), 1_000_000),
        (
            json!({"op": "test", "path": "/b", "value": "x".repeat(100_000)}),
            30_000,
        ),
        (json!({"op": "move", "from": "/a/1", "path": "/a/0"}), 200_000),
    ] {
        let document = json!({"a": list, "b": "x".repeat(100_000)});
        let mut steps = 0;
        let mut watch = |more| {
            steps += more;
            true
        };
        // ten copies are more than a patch may make
        drop(operation(op.clone()).apply_watched(document.clone(), &mut watch));
        assert!(steps >= steps_min, "{steps}: {op}");
        let stopped = operation(op).apply_watched(document, &mut |_| false);
        assert_eq!(stopped, Err(json::ApplyError::Stopped));
    }
}
