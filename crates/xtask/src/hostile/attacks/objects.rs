//! Many objects of one namespace (row 12, and the shares of the queues).

use futures::future::join_all;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{Attack, attack};
use crate::bench::session::api;
use crate::hostile::ground::{Ground, Sign, Threat};
use crate::hostile::session::{KUSTOMIZE, Outcome};

const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";

pub(super) fn all() -> Vec<Attack> {
    vec![
        attack("objects: a chain of dependencies", |ground| {
            Box::pin(chain(ground, false))
        }),
        attack("objects: a cycle of dependencies", |ground| {
            Box::pin(chain(ground, true))
        }),
        attack("objects: many Kustomizations with an interval of 1s", |ground| {
            Box::pin(async move {
                let tree = ground.tree(&[("a.yaml", OBJECT)]).await?;
                let all = (0..ground.pick(600, 5_000))
                    .map(|number| {
                        let prefix = format!("p{number}-");
                        ground.kustomization(
                            &format!("k{number}"),
                            json!({ "namePrefix": prefix, "interval": "1s" }),
                        )
                    })
                    .collect();
                ground.create_all(all).await?;
                Ok(Threat::new(Sign::Worked("k0")).holding(tree))
            })
        }),
        attack("objects: requests for reconciliation without pause", |ground| {
            Box::pin(async move {
                let tree = ground.tree(&[("a.yaml", OBJECT)]).await?;
                let all = (0..10)
                    .map(|number| {
                        let prefix = format!("p{number}-");
                        ground.kustomization(&format!("k{number}"), json!({ "namePrefix": prefix }))
                    })
                    .collect();
                ground.create_all(all).await?;
                let kustomizations = api(
                    &ground.session.client,
                    KUSTOMIZE,
                    "v1",
                    "Kustomization",
                    &ground.name,
                );
                let requests = tokio::spawn(async move {
                    for round in 0_u64.. {
                        let request = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": round.to_string() } } });
                        let (params, patch) = (PatchParams::default(), Patch::Merge(request));
                        let names: Vec<String> = (0..10).map(|number| format!("k{number}")).collect();
                        let patches = names
                            .iter()
                            .map(|name| kustomizations.patch(name, &params, &patch));
                        if join_all(patches).await.iter().any(Result::is_err) {
                            // the attacker is deleted
                            return;
                        }
                    }
                });
                let threat = Threat::new(Sign::Worked("k0")).holding(tree);
                Ok(threat.holding(AbortOnDrop(requests)))
            })
        }),
        attack("objects: values of many MiB", |ground| {
            Box::pin(async move {
                let count = ground.pick(16, 64);
                let value = "x".repeat(1_000_000);
                let all = (0..count)
                    .map(|number| {
                        json!({
                            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("v{number}") },
                            "data": { format!("v{number}"): value },
                        })
                    })
                    .collect();
                ground.create_all(all).await?;
                let from: Vec<Value> = (0..count)
                    .map(|number| json!({ "kind": "ConfigMap", "name": format!("v{number}") }))
                    .collect();
                let tree = ground.tree(&[("a.yaml", OBJECT)]).await?;
                let all = (0..16)
                    .map(|number| {
                        let more = json!({ "namePrefix": format!("p{number}-"), "postBuild": { "substituteFrom": from } });
                        ground.kustomization(&format!("k{number}"), more)
                    })
                    .collect();
                ground.create_all(all).await?;
                Ok(Threat::new(Sign::Worked("k0")).holding(tree))
            })
        }),
    ]
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn chain(ground: &Ground<'_>, closed: bool) -> Outcome<Threat> {
    let tree = ground.tree(&[("a.yaml", OBJECT)]).await?;
    let count = ground.pick(800, 2_400);
    let all = (0..count)
        .map(|number| {
            let next = (number + 1) % count;
            let needs = match next > 0 || closed {
                true => json!([{ "name": format!("k{next}") }]),
                false => json!([]),
            };
            ground.kustomization(&format!("k{number}"), json!({ "dependsOn": needs }))
        })
        .collect();
    ground.create_all(all).await?;
    Ok(Threat::new(Sign::Worked("k0")).holding(tree))
}
