mod model;

use super::*;
use serde_json::{Value, json};

fn pods() -> ResourceId {
    ResourceId::new("", "pods")
}

fn put(key: &Key, object: Value, expect: Expect) -> Change {
    Change::Put {
        key: key.clone(),
        object,
        expect,
    }
}

fn delete(key: &Key, expect: Expect) -> Change {
    Change::Delete {
        key: key.clone(),
        expect,
        last: None,
    }
}

/// One line per change: what the store says of it.
async fn check_commit(changes: Vec<(&str, Change)>, expected: &[&str]) {
    let store = Store::in_memory();
    let mut seen = Vec::new();
    for (name, change) in changes {
        seen.push(match store.commit(vec![change]).await {
            Ok(entries) => format!("{name}: {}", entries[0].object()),
            Err(error) => format!("{name}: {error}"),
        });
    }
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_change_is_made_when_what_it_expects_is_there() {
    let a = Key::new(&pods(), "default", "a");
    let last = json!({"metadata": {"finalizers": []}});
    check_commit(
        vec![
            ("put at a revision", put(&a, json!({}), Expect::Revision(1))),
            ("delete", delete(&a, Expect::Any)),
            ("create", put(&a, json!({"spec": 1}), Expect::Absent)),
            ("create again", put(&a, json!({}), Expect::Absent)),
            ("stale", put(&a, json!({}), Expect::Revision(1))),
            (
                "update",
                put(
                    &a,
                    json!({"metadata": {"resourceVersion": "9"}}),
                    Expect::Revision(2),
                ),
            ),
            ("replace", put(&a, json!({"spec": 2}), Expect::Any)),
            ("no object", put(&a, json!([]), Expect::Any)),
            ("no metadata", put(&a, json!({"metadata": 1}), Expect::Any)),
            ("stale delete", delete(&a, Expect::Revision(3))),
            ("delete", delete(&a, Expect::Revision(4))),
            ("put", put(&a, json!({}), Expect::Any)),
            (
                "delete with a last state",
                Change::Delete {
                    key: a.clone(),
                    expect: Expect::Any,
                    last: Some(last),
                },
            ),
        ],
        &[
            "put at a revision: pods default/a does not exist",
            "delete: pods default/a does not exist",
            r#"create: {"metadata":{"resourceVersion":"2"},"spec":1}"#,
            "create again: pods default/a exists",
            "stale: pods default/a is at revision 2, not at the expected one",
            r#"update: {"metadata":{"resourceVersion":"3"}}"#,
            r#"replace: {"metadata":{"resourceVersion":"4"},"spec":2}"#,
            "no object: the value for pods default/a is not an object with metadata",
            "no metadata: the value for pods default/a is not an object with metadata",
            "stale delete: pods default/a is at revision 4, not at the expected one",
            r#"delete: {"metadata":{"resourceVersion":"5"},"spec":2}"#,
            r#"put: {"metadata":{"resourceVersion":"6"}}"#,
            r#"delete with a last state: {"metadata":{"finalizers":[],"resourceVersion":"7"}}"#,
        ],
    )
    .await;
}
