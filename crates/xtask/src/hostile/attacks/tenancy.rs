//! Reading or changing another namespace's objects (rows 9 to 13). The timed commits run meanwhile, too.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{Attack, attack};
use crate::bench::session::api;
use crate::hostile::ground::{Rule, Sign, Threat, artifact, digest};
use crate::hostile::servers::Server;
use crate::hostile::session::{HONEST, KUSTOMIZE, SOURCE};

/// The secret of the attack on masks; its capitals must not appear anywhere, either.
const SECRET: &str = "correct-horse-battery";

pub(super) fn all() -> Vec<Attack> {
    vec![
        attack("forged status: an internal address", |ground| {
            Box::pin(async move {
                let server = Server::file(Vec::new()).await?;
                let address = format!("http://{}/internal", server.address());
                let nothing = digest(b"");
                for (kind, spec) in [
                    (
                        "Bucket",
                        json!({ "interval": "10m", "bucketName": "b", "endpoint": "example.com" }),
                    ),
                    (
                        "OCIRepository",
                        json!({ "interval": "10m", "url": "oci://example.com/a" }),
                    ),
                ] {
                    ground
                        .create(json!({
                            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": kind,
                            "metadata": { "name": "forged" }, "spec": spec,
                        }))
                        .await?;
                    let status = json!({ "artifact": artifact(&nothing, &address) });
                    ground.patch_status(kind, "forged", status).await?;
                    let more = json!({ "sourceRef": { "kind": kind, "name": "forged" } });
                    let name = kind.to_ascii_lowercase();
                    ground.create(ground.kustomization(&name, more)).await?;
                }
                let rule = Rule::Untouched(server.contacts());
                let sign = Sign::Judged("Kustomization", "bucket");
                Ok(Threat::new(sign).holding(server).rule(rule))
            })
        }),
        attack("forged status: another namespace's digest", |ground| {
            Box::pin(async move {
                let platform: DynamicObject =
                    api(&ground.session.client, SOURCE, "v1", "GitRepository", HONEST)
                        .get(HONEST)
                        .await?;
                let artifact = platform
                    .data
                    .pointer("/status/artifact")
                    .cloned()
                    .unwrap_or_default();
                let url = "https://example.com/a.git";
                ground
                    .repository("forged", url, json!({ "suspend": true }))
                    .await?;
                ground
                    .patch_status("GitRepository", "forged", json!({ "artifact": artifact }))
                    .await?;
                let more = json!({ "sourceRef": { "kind": "GitRepository", "name": "forged" } });
                ground.create(ground.kustomization("thief", more)).await?;
                let sign = Sign::Judged("Kustomization", "thief");
                Ok(Threat::new(sign).rule(Rule::Absent("ConfigMap", "settings")))
            })
        }),
        attack("forged status: an inventory of many objects", |ground| {
            Box::pin(async move {
                let tree = ground.small_tree().await?;
                let suspended = json!({ "suspend": true });
                ground.create(ground.kustomization("k0", suspended)).await?;
                let mut entries: Vec<Value> = (0..ground.pick(5_000, 60_000))
                    .map(|number| json!({ "id": format!("x_m{number}__ConfigMap"), "v": "v1" }))
                    .collect();
                entries.push(json!({ "id": format!("{HONEST}_settings__ConfigMap"), "v": "v1" }));
                let status = json!({ "inventory": { "entries": entries } });
                ground.patch_status("Kustomization", "k0", status).await?;
                let kustomizations = api(
                    &ground.session.client,
                    KUSTOMIZE,
                    "v1",
                    "Kustomization",
                    &ground.name,
                );
                let resume = kube::api::Patch::Merge(json!({ "spec": { "suspend": false } }));
                kustomizations
                    .patch("k0", &kube::api::PatchParams::default(), &resume)
                    .await?;
                Ok(Threat::new(Sign::Worked("k0")).holding(tree))
            })
        }),
        attack("masks: a secret in capitals and in parts", |ground| {
            Box::pin(async move {
                ground.secret("values", json!({ "pw": SECRET })).await?;
                // no value of a label: the API server refuses it and quotes it
                let text =
                    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {a: \"${pw^^}!\"}\n";
                let tree = ground.tree(&[("a.yaml", text)]).await?;
                let more =
                    json!({ "postBuild": { "substituteFrom": [{ "kind": "Secret", "name": "values" }] } });
                ground.create(ground.kustomization("k0", more)).await?;
                let rule = Rule::Hidden(SECRET.to_ascii_uppercase());
                let sign = Sign::Judged("Kustomization", "k0");
                Ok(Threat::new(sign).holding(tree).rule(rule))
            })
        }),
        attack("readyExpr: another namespace's spec", |ground| {
            Box::pin(async move {
                let tree = ground.small_tree().await?;
                let guess = "dep.spec.postBuild.substitute.marker.startsWith('quiet')";
                let needs = json!([{ "name": HONEST, "namespace": HONEST, "readyExpr": guess }]);
                ground
                    .create(ground.kustomization("k0", json!({ "dependsOn": needs })))
                    .await?;
                let sign = Sign::Judged("Kustomization", "k0");
                Ok(Threat::new(sign)
                    .holding(tree)
                    .rule(Rule::NeverReady("Kustomization", "k0")))
            })
        }),
    ]
}
