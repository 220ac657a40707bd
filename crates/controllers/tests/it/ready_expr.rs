//! `spec.dependsOn[].readyExpr`: readiness by an expression of the dependent.

use equate_api::meta::{ConditionType, is_true};
use serde_json::{Value, json};

use crate::session::{Session, config_map_in, said};

/// Applied, or the reason and a part of the message.
type Expected = Result<(), (&'static str, &'static str)>;

#[tokio::test]
async fn kustomization_depends_on_ready_expr() {
    let session = Session::anywhere(&[("apps/a.yaml", &config_map_in("@home", "NAME", "one"))]).await;
    // never ready without an expression
    session.kustomize("infra", "lost", json!({})).await;
    session.fails("infra", "ArtifactFailed").await;
    let labels = json!({ "metadata": { "labels": { "stage": "2" } } });
    session.patch("infra", labels).await;
    let cases: [(&str, &str, Expected); 7] = [
        ("a", "dep.metadata.labels.stage == '2'", Ok(())),
        (
            "b",
            "dep.metadata.name == 'infra' && self.metadata.name == 'b'",
            Ok(()),
        ),
        (
            "c",
            "dep.status.conditions.exists(e, e.type == 'Ready' && e.status == 'False')",
            Ok(()),
        ),
        (
            "d",
            "dep.status.conditions.filter(e, e.type == 'Ready').all(e, e.status == 'True')",
            Err((
                "DependencyNotReady",
                "dependency '@home/infra' is not ready according to readyExpr eval",
            )),
        ),
        (
            "e",
            "dep.spec.nothing == 'x'",
            Err((
                "DependencyNotReady",
                "failed to evaluate the CEL expression 'dep.spec.nothing == 'x''",
            )),
        ),
        (
            "f",
            "dep.",
            Err((
                "InvalidCELExpression",
                "failed to evaluate dependency infra: failed to parse the CEL expression 'dep.'",
            )),
        ),
        (
            "g",
            "other.ready == true",
            Err(("InvalidCELExpression", "undeclared reference to 'other'")),
        ),
    ];
    for (name, expression, expected) in cases {
        session.kustomize(name, "apps", spec(name, expression)).await;
        match expected {
            Ok(()) => session.value("@home", name, Some("one")).await,
            Err((reason, part)) => {
                let message = session.fails(name, reason).await;
                assert!(message.contains(&session.here(part)), "{name}: {message}");
                let status = session.kustomizations().get(name).await.unwrap().status.unwrap();
                let stalls = reason == "InvalidCELExpression";
                assert_eq!(
                    is_true(&status.conditions, ConditionType::Stalled),
                    stalls,
                    "{name}"
                );
                assert_eq!(
                    said(&status, ConditionType::Stalled).contains(&session.here(part)),
                    stalls,
                    "{name}"
                );
                session.value("@home", name, None).await;
            }
        }
    }
    // after a repair it continues
    session
        .patch("f", json!({ "spec": spec("f", "dep.metadata.name == 'infra'") }))
        .await;
    session.value("@home", "f", Some("one")).await;
    session.end().await;
}

#[tokio::test]
async fn kustomization_depends_on_ready_expr_is_evaluated_when_the_dependency_changes() {
    let session = Session::anywhere(&[("apps/a.yaml", &config_map_in("@home", "NAME", "one"))]).await;
    session.kustomize("infra", "lost", json!({})).await;
    session
        .kustomize(
            "apps",
            "apps",
            spec(
                "a",
                "has(dep.metadata.labels) && dep.metadata.labels.stage == '2'",
            ),
        )
        .await;
    session.fails("apps", "DependencyNotReady").await;
    session
        .patch("infra", json!({ "metadata": { "labels": { "stage": "1" } } }))
        .await;
    session
        .patch("infra", json!({ "metadata": { "labels": { "stage": "2" } } }))
        .await;
    session.value("@home", "a", Some("one")).await;
    session.end().await;
}

fn spec(name: &str, expression: &str) -> Value {
    json!({
        "dependsOn": [{ "name": "infra", "readyExpr": expression }],
        "patches": [{
            "patch": format!("[{{\"op\": \"replace\", \"path\": \"/metadata/name\", \"value\": \"{name}\"}}]"),
            "target": { "kind": "ConfigMap" },
        }],
    })
}
