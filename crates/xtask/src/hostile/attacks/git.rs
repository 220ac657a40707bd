//! Git hosts that do not answer, or answer without end (row 6).

use equate_testkit::git::ssh::SshKey;
use serde_json::json;

use super::{Attack, attack};
use crate::hostile::ground::{Ground, Sign, Threat};
use crate::hostile::pack::{self, Trick};
use crate::hostile::servers::Server;
use crate::hostile::session::Outcome;

pub(super) fn all() -> Vec<Attack> {
    vec![
        attack(
            "git: 64 repositories at a silent host, timeout 90000m",
            |ground| {
                Box::pin(async move {
                    let server = Server::silent().await?;
                    let url = format!("http://{}/a.git", server.address());
                    repositories(ground, server, &url, 64, 4).await
                })
            },
        ),
        attack("git: a host without TLS", |ground| {
            Box::pin(async move {
                let server = Server::silent().await?;
                let url = format!("https://{}/a.git", server.address());
                repositories(ground, server, &url, 16, 4).await
            })
        }),
        attack("git: an ssh host that is silent", |ground| {
            Box::pin(async move {
                let server = Server::silent().await?;
                let (user, host) = (SshKey::ed25519(1), SshKey::ed25519(2));
                let address = server.address();
                let known_hosts = format!("[{}]:{} {}", address.ip(), address.port(), host.public());
                let key = json!({ "identity": user.private(), "known_hosts": known_hosts });
                ground.secret("credentials", key).await?;
                let url = format!("ssh://git@{address}/a.git");
                for number in 0..16 {
                    let more = json!({ "secretRef": { "name": "credentials" }, "timeout": "90000m" });
                    ground.repository(&format!("r{number}"), &url, more).await?;
                }
                let sign = Sign::Contacted(server.contacts(), 4);
                Ok(Threat::new(sign).holding(server))
            })
        }),
        attack("git: refs without end", |ground| {
            Box::pin(tricked(ground, Trick::EndlessRefs, 8))
        }),
        attack("git: a pack of 10 GiB", |ground| {
            Box::pin(tricked(ground, Trick::HugePack, 4))
        }),
        attack("git: a pack that drips", |ground| {
            Box::pin(tricked(ground, Trick::DripPack, 16))
        }),
        attack("git: deltas that make 16 GiB each", |ground| {
            Box::pin(tricked(ground, Trick::DeltaBomb, 8))
        }),
        attack("git: ignore files without end", |ground| {
            Box::pin(async move {
                let mut threat = tricked(ground, Trick::SharedIgnoreFile, 4).await?;
                threat.sign = Sign::Said("GitRepository", "r0", "files of ignore patterns");
                Ok(threat)
            })
        }),
        attack("git: includes of 990 MiB", |ground| {
            Box::pin(async move {
                let server = pack::start(Trick::LargeFiles).await?;
                let url = format!("http://{}/a.git", server.address());
                ground.repository("base", &url, json!({})).await?;
                for number in 0..4 {
                    let include = json!([{ "repository": { "name": "base" }, "toPath": "x" }]);
                    let more = json!({ "include": include, "timeout": "60m" });
                    ground.repository(&format!("r{number}"), &url, more).await?;
                }
                Ok(Threat::new(Sign::Worked("r0")).holding(server))
            })
        }),
    ]
}

async fn tricked(ground: &Ground<'_>, trick: Trick, count: usize) -> Outcome<Threat> {
    let server = pack::start(trick).await?;
    let url = format!("http://{}/a.git", server.address());
    // a fetch has several requests
    repositories(ground, server, &url, count, 3).await
}

async fn repositories(
    ground: &Ground<'_>,
    server: Server,
    url: &str,
    count: usize,
    contacts: usize,
) -> Outcome<Threat> {
    for number in 0..count {
        ground
            .repository(&format!("r{number}"), url, json!({ "timeout": "90000m" }))
            .await?;
    }
    let sign = Sign::Contacted(server.contacts(), contacts);
    Ok(Threat::new(sign).holding(server))
}
