//! CEL expressions (row 3).

use serde_json::{Value, json};

use super::{Attack, attack};
use crate::hostile::ground::{Ground, Sign, Threat};
use crate::hostile::session::Outcome;

pub(super) fn all() -> Vec<Attack> {
    vec![
        attack("expressions: 200 patterns of 900 states", |ground| {
            Box::pin(async move {
                let numbers: Vec<String> = (0..200).map(|number| number.to_string()).collect();
                let all = numbers.join(",");
                let text = format!("[{all}].all(i, !'ab'.matches('(a|b)*a(a|b){{900}}' + string(i)))");
                dependents(ground, &[text], 8).await
            })
        }),
        attack("expressions: a pattern on a long text", |ground| {
            Box::pin(async move {
                let text = format!(
                    "[{}].all(i, !('{}' + string(i)).matches('(a|b)*a(a|b){{200}}c'))",
                    ["1"; 500].join(","),
                    "ab".repeat(2_000)
                );
                dependents(ground, &[text], 8).await
            })
        }),
        attack("expressions: macros in macros", |ground| {
            Box::pin(async move {
                let list = format!("[{}]", ["1"; 100].join(","));
                let text = ["a", "b", "c", "d", "e"]
                    .iter()
                    .fold("true".to_owned(), |inner, name| {
                        format!("{list}.all({name}, {inner})")
                    });
                dependents(ground, &[text], 8).await
            })
        }),
        attack("expressions: 60 in each object", |ground| {
            Box::pin(async move {
                let tree = ground.small_tree().await?;
                let expressions: Vec<Value> = (0..60)
                    .map(|number| {
                        let pattern = format!("'a'.matches('((a|b){{99}}){{9}}{number}')");
                        json!({ "apiVersion": "example.com/v1", "kind": format!("K{number}"), "current": pattern })
                    })
                    .collect();
                let all = (0..50)
                    .map(|number| {
                        let more = json!({ "wait": true, "healthCheckExprs": expressions });
                        ground.kustomization(&format!("k{number}"), more)
                    })
                    .collect();
                ground.create_all(all).await?;
                Ok(Threat::new(Sign::Worked("k0")).holding(tree))
            })
        }),
        attack("expressions: 60 dependencies of each object", |ground| {
            Box::pin(async move {
                let texts: Vec<String> = (0..60)
                    .map(|number| {
                        let list = format!("[{}]", ["1"; 150].join(","));
                        format!(
                            "{list}.all(a, {list}.all(b, a == b)) && 'a'.matches('((a|b){{99}}){{9}}{number}')"
                        )
                    })
                    .collect();
                dependents(ground, &texts, 50).await
            })
        }),
    ]
}

/// Kustomizations that depend on another by these expressions.
async fn dependents(ground: &Ground<'_>, expressions: &[String], count: usize) -> Outcome<Threat> {
    let tree = ground.small_tree().await?;
    ground.create(ground.kustomization("base", json!({}))).await?;
    let needs: Vec<Value> = expressions
        .iter()
        .map(|text| json!({ "name": "base", "readyExpr": text }))
        .collect();
    let all = (0..count)
        .map(|number| ground.kustomization(&format!("k{number}"), json!({ "dependsOn": needs })))
        .collect();
    ground.create_all(all).await?;
    Ok(Threat::new(Sign::Worked("k0")).holding(tree))
}
