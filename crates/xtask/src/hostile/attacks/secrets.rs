//! Encrypted files whose keys cost time (row 7).

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Attack, attack};
use crate::hostile::ground::{Ground, Sign, Threat};
use crate::hostile::servers::Server;
use crate::hostile::session::Outcome;

/// The keys of the tests of SOPS.
const AGE_KEY: &str = include_str!("../../../../sops/testdata/keys/one.agekey");
const PGP_KEY: &str = include_str!("../../../../sops/testdata/keys/rsa.asc");

pub(super) fn all() -> Vec<Attack> {
    vec![
        attack("SOPS: 190 files with keys in a silent Vault", |ground| {
            Box::pin(async move {
                let server = Server::silent().await?;
                let address = format!("http://{}", server.address());
                let files: Vec<(String, String)> = (0..190)
                    .map(|number| {
                        let recipient = format!(
                            "  hc_vault:\n  - vault_address: {address}\n    engine_path: sops\n    key_name: k{number}\n    \
                             created_at: \"2026-01-01T00:00:00Z\"\n    enc: vault:v1:AAAA\n"
                        );
                        (format!("s{number}.yaml"), sealed(&format!("s{number}"), &recipient))
                    })
                    .collect();
                let keys = json!({ "sops.vault-token": "token", "sops.vault-address": address });
                let contacts = server.contacts();
                let threat = encrypted(ground, &files, keys, Sign::Contacted(contacts, 2)).await?;
                Ok(threat.holding(server))
            })
        }),
        attack("SOPS: age with scrypt of 2^30", |ground| {
            Box::pin(async move {
                let files: Vec<(String, String)> = (0..50)
                    .map(|number| {
                        let mut recipients = "  age:\n".to_owned();
                        for _ in 0..20 {
                            let file = "age-encryption.org/v1\n-> scrypt AAAAAAAAAAAAAAAAAAAAAA 30\n\
                                        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n\
                                        --- AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n";
                            let text = armored("AGE ENCRYPTED FILE", file.as_bytes());
                            let _ = write!(recipients, "  - recipient: age1x\n    enc: |\n{text}");
                        }
                        (
                            format!("s{number}.yaml"),
                            sealed(&format!("s{number}"), &recipients),
                        )
                    })
                    .collect();
                let keys = json!({ "one.agekey": AGE_KEY });
                encrypted(ground, &files, keys, Sign::Worked("k0")).await
            })
        }),
        attack("SOPS: PGP messages of 2,000 session keys", |ground| {
            Box::pin(async move {
                // a session key for any key: version 3, key id 0, RSA with 2,048 bits
                let mut packet = vec![0xc1, 0xc0, 0x4c, 3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x07, 0xff];
                packet.resize(3 + 268, 0x5a);
                let mut message = packet.repeat(2_000);
                message.extend([0xd2, 20, 1]);
                message.extend([0; 19]);
                let text = armored("PGP MESSAGE", &message);
                let files: Vec<(String, String)> = (0..4)
                    .map(|number| {
                        let recipient = format!(
                            "  pgp:\n  - created_at: \"2026-01-01T00:00:00Z\"\n    fp: 4CAC6E7CD6A932186CF3C0B5CC123C3C9D1990FB\n    \
                             enc: |\n{text}"
                        );
                        (format!("s{number}.yaml"), sealed(&format!("s{number}"), &recipient))
                    })
                    .collect();
                let keys = json!({ "rsa.asc": PGP_KEY });
                encrypted(ground, &files, keys, Sign::Worked("k0")).await
            })
        }),
    ]
}

async fn encrypted(
    ground: &Ground<'_>,
    files: &[(String, String)],
    keys: Value,
    sign: Sign,
) -> Outcome<Threat> {
    ground.secret("keys", keys).await?;
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    let tree = ground.tree(&files).await?;
    let all = (0..8)
        .map(|number| {
            let more = json!({ "decryption": { "provider": "sops", "secretRef": { "name": "keys" } } });
            ground.kustomization(&format!("k{number}"), more)
        })
        .collect();
    ground.create_all(all).await?;
    Ok(Threat::new(sign).holding(tree))
}

fn sealed(name: &str, recipients: &str) -> String {
    const VALUE: &str = "ENC[AES256_GCM,data:8oRxYUgWH48=,iv:WI13QahYPC8zaABEXLOq1C8UM723XZjxEk8OO+DRnWM=,tag:L2a9oOpDNvVGD3EY0dL/Aw==,type:str]";
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {name}\nstringData:\n  a: {VALUE}\nsops:\n{recipients}  \
         lastmodified: \"2026-01-01T00:00:00Z\"\n  mac: {VALUE}\n  encrypted_regex: ^(data|stringData)$\n  version: 3.11.0\n"
    )
}

/// The armor of a message, indented as a block of YAML.
fn armored(kind: &str, bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    let mut out = format!("      -----BEGIN {kind}-----\n");
    if kind.starts_with("PGP") {
        out.push('\n');
    }
    for line in text.as_bytes().chunks(64) {
        let _ = writeln!(out, "      {}", String::from_utf8_lossy(line));
    }
    let _ = writeln!(out, "      -----END {kind}-----");
    out
}
