//! Archives that are larger than they look (row 5).

use serde_json::json;

use super::{Attack, attack};
use crate::hostile::archive;
use crate::hostile::ground::{Ground, Rule, Sign, Threat};
use crate::hostile::session::Outcome;

pub(super) fn all() -> Vec<Attack> {
    vec![
        attack("archive: a long name of 2 GiB", |ground| {
            Box::pin(async move { packed(ground, archive::long_name(2048)?).await })
        }),
        attack("archive: a PAX record of 2 GiB", |ground| {
            Box::pin(async move { packed(ground, archive::long_record(2048)?).await })
        }),
        attack("archive: a file of 4 GiB", |ground| {
            Box::pin(async move { packed(ground, archive::bomb(4096)?).await })
        }),
        attack("archive: a million entries", |ground| {
            Box::pin(async move { packed(ground, archive::entries(1000)?).await })
        }),
        attack("archive: links that lead out of it", |ground| {
            Box::pin(async move {
                let threat = packed(ground, archive::links()?).await?;
                Ok(threat.rule(Rule::NeverReady("Kustomization", "k0")))
            })
        }),
    ]
}

async fn packed(ground: &Ground<'_>, bytes: Vec<u8>) -> Outcome<Threat> {
    let server = ground.artifact(bytes).await?;
    for number in 0..4 {
        let object = ground.kustomization(&format!("k{number}"), json!({}));
        ground.create(object).await?;
    }
    Ok(Threat::new(Sign::Worked("k0")).holding(server))
}
