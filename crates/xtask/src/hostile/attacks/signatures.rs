//! Signatures of artifacts that take long to verify (row 3).

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Attack, attack};
use crate::hostile::ground::{Ground, Sign, Threat, digest};
use crate::hostile::servers::Server;
use crate::hostile::session::Outcome;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The most that are read.
const SIGNATURES: usize = 100;
const KEYS: usize = 32;
/// A P-384 key (RFC 5480): the curve's base point.
const KEY: &str = "MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEqofKIr6LBTeOscce8yCtdG4dO2KLp5uYWfdB4IJUKjhVAvJdv1UpbDpUXjhydgq3NhfeSpYmLG9dnpi/kpLcKfj0Hb0omhR86doxE7XwuMAKYLHOHX6BnXpDHXyQ6g5f";
/// A signature of the form that ECDSA has, of nothing: r = s = 1.
const SIGNATURE: &str = "MAYCAQECAQE=";

pub(super) fn all() -> Vec<Attack> {
    vec![attack("registry: 100 signatures for each of 32 keys", |ground| {
        Box::pin(async move { signed(ground).await })
    })]
}

async fn signed(ground: &Ground<'_>) -> Outcome<Threat> {
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{KEY}\n-----END PUBLIC KEY-----\n");
    let keys: serde_json::Map<String, Value> = (0..KEYS)
        .map(|number| (format!("{number}.pub"), json!(pem)))
        .collect();
    ground.secret("keys", Value::Object(keys)).await?;

    let payload = b"{}";
    let layer = json!({
        "mediaType": "application/vnd.dev.cosign.simplesigning.v1+json",
        "digest": digest(payload), "size": payload.len(),
        "annotations": { "dev.cosignproject.cosign/signature": SIGNATURE },
    });
    let artifact = Arc::new(manifest(&[]));
    let signatures = Arc::new(manifest(&vec![layer; SIGNATURES]));
    let server = Server::start(move |mut connection| {
        let (artifact, signatures) = (Arc::clone(&artifact), Arc::clone(&signatures));
        async move {
            while let Some(head) = connection.head().await? {
                let path = &head.path;
                match path {
                    _ if path.contains("/referrers/") => connection.answer(404, "text/plain", b"").await?,
                    _ if path.contains("/blobs/") => {
                        connection
                            .answer(200, "application/octet-stream", payload)
                            .await?;
                    }
                    _ if path.ends_with(".sig") => connection.answer(200, MANIFEST, &signatures).await?,
                    _ if path.ends_with("/1") || path.ends_with(&digest(&artifact)) => {
                        connection.answer(200, MANIFEST, &artifact).await?;
                    }
                    _ => connection.answer(404, "text/plain", b"").await?,
                }
            }
            Ok(())
        }
    })
    .await?;
    for number in 0..ground.pick(2, 8) {
        ground
            .create(json!({
                "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository",
                "metadata": { "name": format!("r{number}") },
                "spec": {
                    "interval": "1m", "timeout": "60m", "insecure": true, "ref": { "tag": "1" },
                    "url": format!("oci://{}/a", server.address()),
                    "verify": { "provider": "cosign", "secretRef": { "name": "keys" } },
                },
            }))
            .await?;
    }
    Ok(Threat::new(Sign::Worked("r0")).holding(server))
}

fn manifest(layers: &[Value]) -> Vec<u8> {
    let config = json!({
        "mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest(b"{}"), "size": 2,
    });
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers,
    });
    manifest.to_string().into_bytes()
}
