//! Small trees with large builds (row 4).

use std::fmt::Write as _;

use serde_json::json;

use super::{Attack, attack};
use crate::hostile::ground::{Ground, Sign, Threat};
use crate::hostile::session::Outcome;

const HEAD: &str = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n";

pub(super) fn all() -> Vec<Attack> {
    vec![
        attack("build: replacements in all of many objects", |ground| {
            Box::pin(async move {
                let mut text = "replacements:\n".to_owned();
                for number in 0..ground.pick(5_000, 20_000) {
                    let _ = writeln!(
                        text,
                        "- {{source: {{kind: ConfigMap, name: m{number}, fieldPath: data.a}}, targets: [{{select: {{kind: ConfigMap}}, fieldPaths: [data.a]}}]}}"
                    );
                }
                built(ground, many_maps(ground.pick(20_000, 47_500), &text)).await
            })
        }),
        attack("build: 2,000 patches of all of many objects", |ground| {
            Box::pin(async move {
                let mut text = "patches:\n".to_owned();
                for number in 0..2_000 {
                    let _ = writeln!(
                        text,
                        "- {{target: {{kind: ConfigMap, name: \".*{number}.*\"}}, patch: '[{{\"op\": \"add\", \"path\": \"/data/b\", \"value\": \"{number}\"}}]'}}"
                    );
                }
                built(ground, many_maps(ground.pick(5_000, 20_000), &text)).await
            })
        }),
        attack("build: bases that double twenty times", |ground| {
            Box::pin(async move {
                let mut files = vec![(
                    "b0/kustomization.yaml".to_owned(),
                    format!("{HEAD}resources: [a.yaml]\n"),
                )];
                files.push((
                    "b0/a.yaml".to_owned(),
                    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n".to_owned(),
                ));
                for level in 1..=20 {
                    let below = level - 1;
                    for side in ["l", "r"] {
                        files.push((
                            format!("b{level}/{side}/kustomization.yaml"),
                            format!("{HEAD}namePrefix: {side}-\nresources: [../../b{below}]\n"),
                        ));
                    }
                    files.push((
                        format!("b{level}/kustomization.yaml"),
                        format!("{HEAD}resources: [l, r]\n"),
                    ));
                }
                files.push((
                    "kustomization.yaml".to_owned(),
                    format!("{HEAD}resources: [b20]\n"),
                ));
                built(ground, files).await
            })
        }),
        attack("build: aliases that multiply", |ground| {
            Box::pin(async move {
                let mut text = String::from(
                    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n",
                );
                for level in 1..30 {
                    let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
                    let _ = writeln!(text, "a{level}: &a{level} [{aliases}]");
                }
                built(ground, vec![("a.yaml".to_owned(), text)]).await
            })
        }),
        attack("build: nested a million deep", |ground| {
            Box::pin(async move {
                let text = format!("a: {}\n", "[".repeat(1_000_000));
                let json = format!("{{\"a\": {}", "{\"a\":".repeat(500_000));
                let files = vec![("a.yaml".to_owned(), text), ("b.json".to_owned(), json)];
                built(ground, files).await
            })
        }),
        attack("build: substitutions of 4 GiB", |ground| {
            Box::pin(async move {
                let value = "x".repeat(1 << 20);
                ground
                    .create(json!({
                        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "values" },
                        "data": { "a": value },
                    }))
                    .await?;
                let text = format!(
                    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  a: \"{}\"\n",
                    "${a}".repeat(4_096)
                );
                let from =
                    json!({ "postBuild": { "substituteFrom": [{ "kind": "ConfigMap", "name": "values" }] } });
                substituted(ground, &text, from).await
            })
        }),
        attack("build: substitutions nested 50,000 deep", |ground| {
            Box::pin(async move {
                let text = format!(
                    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  a: \"{}x{}\"\n",
                    "${b:-".repeat(50_000),
                    "}".repeat(50_000)
                );
                substituted(
                    ground,
                    &text,
                    json!({ "postBuild": { "substitute": { "a": "x" } } }),
                )
                .await
            })
        }),
        attack("build: many objects", |ground| {
            Box::pin(async move { built(ground, many_maps(ground.pick(500, 5_000), "")).await })
        }),
    ]
}

/// A kustomization of this many ConfigMaps, with more fields.
fn many_maps(count: usize, more: &str) -> Vec<(String, String)> {
    // a file has at most 10,000 documents
    const FILE: usize = 9_000;
    let mut kustomization = format!("{HEAD}{more}resources:\n");
    let mut files = Vec::new();
    for first in (0..count).step_by(FILE) {
        let mut text = String::new();
        for number in first..count.min(first + FILE) {
            let _ = write!(
                text,
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{number}}}\ndata: {{a: x}}\n"
            );
        }
        let _ = writeln!(kustomization, "- m{first}.yaml");
        files.push((format!("m{first}.yaml"), text));
    }
    files.push(("kustomization.yaml".to_owned(), kustomization));
    files
}

/// Four builds of a tree: twice the processors of a small machine.
async fn built(ground: &Ground<'_>, files: Vec<(String, String)>) -> Outcome<Threat> {
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    let tree = ground.tree(&files).await?;
    for number in 0..4 {
        // each in its own namespace of names, so that none waits for another
        let more = json!({ "namePrefix": format!("p{number}-") });
        ground
            .create(ground.kustomization(&format!("k{number}"), more))
            .await?;
    }
    Ok(Threat::new(Sign::Worked("k0")).holding(tree))
}

async fn substituted(ground: &Ground<'_>, text: &str, more: serde_json::Value) -> Outcome<Threat> {
    let tree = ground.tree(&[("a.yaml", text)]).await?;
    for number in 0..4 {
        ground
            .create(ground.kustomization(&format!("k{number}"), more.clone()))
            .await?;
    }
    Ok(Threat::new(Sign::Worked("k0")).holding(tree))
}
