//! Signatures.

use equate_testkit::registry::{RegistryOptions, RegistryServer};
use serde_json::{Value, json};

use super::{KIND, chart, pulled, remote, start};
use crate::fields::objects::{packed, told};
use crate::fields::signer::Signer;
use crate::session::Session;

/// A session with a registry `charts` that has the chart `app`, and the digest of its manifest.
async fn registry() -> (Session, RegistryServer, String) {
    let session = start().await;
    let server = RegistryServer::open().unwrap();
    let bytes = packed("app", "1.0.0", &[]);
    let layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
    let digest = server.artifact("charts/app", "1.0.0", &[(layer, &bytes)], &[]);
    let spec = json!({ "type": "oci", "url": format!("{}/charts", server.url()) });
    session.declare("HelmRepository", "charts", spec).await;
    (session, server, digest)
}

async fn verified(session: &Session, verify: Value) {
    let mut spec = remote();
    crate::fields::merge(&mut spec, &json!({ "version": "1.0.0", "verify": verify }));
    chart(session, "app", spec).await;
}

/// The chart is used once it is signed by the key.
#[tokio::test]
async fn spec_verify_provider_cosign() {
    let (session, server, digest) = registry().await;
    let (signer, stranger) = (Signer::new(), Signer::new());
    session
        .conceal("keys", json!({ "cosign.pub": signer.public() }))
        .await;
    verified(
        &session,
        json!({ "provider": "cosign", "secretRef": { "name": "keys" } }),
    )
    .await;
    let message = "chart verification error: failed to verify oci://localhost:";
    let status = session
        .reports(KIND, "app", "ChartVerificationError", message)
        .await;
    assert_eq!(told(&status, "SourceVerified")["status"], json!("False"));
    stranger.sign(&server, "charts/app", &digest);
    session.demand(KIND, "app", "stranger").await;
    let status = session
        .reports(KIND, "app", "ChartVerificationError", message)
        .await;
    assert_eq!(status["artifact"], Value::Null);
    signer.sign(&server, "charts/app", &digest);
    session.demand(KIND, "app", "signed").await;
    let status = pulled(&session, "app", "1.0.0").await;
    let said = told(&status, "SourceVerified");
    let message = "verified signature of version 1.0.0";
    assert_eq!(
        (&said["status"], &said["message"]),
        (&json!("True"), &json!(message))
    );
    session.end().await;
}

#[tokio::test]
async fn spec_verify_secret_ref_name() {
    let (session, server, digest) = registry().await;
    let signer = Signer::new();
    signer.sign(&server, "charts/app", &digest);
    verified(
        &session,
        json!({ "provider": "cosign", "secretRef": { "name": "none" } }),
    )
    .await;
    let message = "failed to verify the signature using provider 'cosign': secret '@home/none' not found";
    session.reports(KIND, "app", "VerificationError", message).await;
    session
        .conceal("keys", json!({ "cosign.pub": signer.public() }))
        .await;
    session
        .respec(
            KIND,
            "app",
            json!({ "verify": { "secretRef": { "name": "keys" } } }),
        )
        .await;
    pulled(&session, "app", "1.0.0").await;
    session.end().await;
}

#[tokio::test]
async fn spec_verify_provider_notation() {
    let (session, _server, _) = registry().await;
    let tls = RegistryServer::start(RegistryOptions {
        tls: true,
        ..RegistryOptions::default()
    })
    .unwrap();
    let data = |level: &str| {
        let mut statement = json!({
            "name": "all", "registryScopes": ["*"], "signatureVerification": { "level": level },
        });
        if level != "skip" {
            statement["trustStores"] = json!(["ca:all"]);
            statement["trustedIdentities"] = json!(["*"]);
        }
        let policy = json!({ "version": "1.0", "trustPolicies": [statement] }).to_string();
        json!({ "trustpolicy.json": policy, "ca.crt": tls.certificate().unwrap() })
    };
    session.conceal("strict", data("strict")).await;
    verified(
        &session,
        json!({ "provider": "notation", "secretRef": { "name": "strict" } }),
    )
    .await;
    let message = "no signature is associated with";
    session
        .reports(KIND, "app", "ChartVerificationError", message)
        .await;
    // a policy that skips lets the chart pass, unverified
    session.conceal("skip", data("skip")).await;
    session
        .respec(
            KIND,
            "app",
            json!({ "verify": { "secretRef": { "name": "skip" } } }),
        )
        .await;
    let status = pulled(&session, "app", "1.0.0").await;
    assert_ne!(told(&status, "SourceVerified")["status"], json!("True"));
    session.end().await;
}

/// Signers by identity: the expressions are read, and an unsigned chart is refused.
async fn identity(field: &str) {
    let (session, _server, _) = registry().await;
    let verify = |expression: &str| {
        let mut identity = json!({ "issuer": "^https://issuer$", "subject": "^me$" });
        identity[field] = json!(expression);
        json!({ "provider": "cosign", "matchOIDCIdentity": [identity] })
    };
    verified(&session, verify("(")).await;
    let malformed = format!("malformed {field} in identity");
    session
        .reports(KIND, "app", "VerificationError", &malformed)
        .await;
    let spec = json!({ "verify": verify("^good$") });
    session.respec(KIND, "app", spec).await;
    session
        .reports(KIND, "app", "ChartVerificationError", "no signatures found")
        .await;
    session.end().await;
}

#[tokio::test]
async fn spec_verify_match_oidcidentity_issuer() {
    Box::pin(identity("issuer")).await;
}

#[tokio::test]
async fn spec_verify_match_oidcidentity_subject() {
    Box::pin(identity("subject")).await;
}
