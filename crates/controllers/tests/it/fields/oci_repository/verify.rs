//! Signatures.

use serde_json::{Value, json};

use super::super::signer::Signer;
use super::Registry;

fn condition(status: &Value, of: &str) -> Value {
    let mut all = status["conditions"].as_array().unwrap().iter();
    all.find(|condition| condition["type"] == *of)
        .cloned()
        .unwrap_or_default()
}

/// The artifact is used once it is signed by the key.
#[tokio::test]
async fn spec_verify_secret_ref_name() {
    let registry = Registry::open().await;
    let digest = registry.push("v1", &[("a.yaml", "a: 1\n")]);
    let (signer, stranger) = (Signer::new(), Signer::new());
    registry
        .secret("keys", json!({ "cosign.pub": signer.public() }))
        .await;
    let spec = json!({ "verify": { "provider": "cosign", "secretRef": { "name": "keys" } } });
    registry.source("app", spec).await;
    let text = "failed to verify the signature using provider 'cosign': no matching signatures were found";
    let status = registry.says("app", "VerificationError", text).await;
    assert_eq!(condition(&status, "SourceVerified")["status"], json!("False"));
    assert_eq!(status["artifact"], Value::Null);
    stranger.sign(&registry.server, "org/app", &digest);
    registry.ask("app", "stranger").await;
    registry
        .session
        .is(
            "OCIRepository",
            "app",
            "/status/lastHandledReconcileAt",
            json!("stranger"),
        )
        .await;
    registry.says("app", "VerificationError", text).await;
    signer.sign(&registry.server, "org/app", &digest);
    registry.ask("app", "signed").await;
    let status = registry.stored("app", &digest).await;
    let verified = condition(&status, "SourceVerified");
    let message = format!("verified signature of revision v1@{digest}");
    assert_eq!(
        (&verified["status"], &verified["message"]),
        (&json!("True"), &json!(message))
    );
    // without it, the condition goes
    registry.change("app", json!({ "verify": null })).await;
    let pointer = "/status/observedGeneration";
    registry
        .session
        .is("OCIRepository", "app", pointer, json!(2))
        .await;
    let status = registry.stored("app", &digest).await;
    assert_eq!(condition(&status, "SourceVerified"), Value::Null);
    registry.session.end().await;
}

/// An artifact that is there is verified when the spec begins to ask for it.
#[tokio::test]
async fn spec_verify_provider_cosign() {
    let registry = Registry::open().await;
    let digest = registry.push("v1", &[("a.yaml", "a: 1\n")]);
    let signer = Signer::new();
    signer.sign(&registry.server, "org/app", &digest);
    registry
        .secret("keys", json!({ "cosign.pub": signer.public() }))
        .await;
    registry.source("app", json!({})).await;
    registry.stored("app", &digest).await;
    let verify = json!({ "verify": { "provider": "cosign", "secretRef": { "name": "keys" } } });
    registry.change("app", verify).await;
    let pointer = "/status/observedGeneration";
    registry
        .session
        .is("OCIRepository", "app", pointer, json!(2))
        .await;
    let status = registry.stored("app", &digest).await;
    assert_eq!(condition(&status, "SourceVerified")["status"], json!("True"));
    // a moved tag is not used unverified, and the artifact stays
    registry.push("v1", &[("a.yaml", "a: 2\n")]);
    registry.ask("app", "moved").await;
    let status = registry
        .says("app", "VerificationError", "no matching signatures")
        .await;
    assert_eq!(status["artifact"]["revision"], json!(format!("v1@{digest}")));
    registry
        .change("app", json!({ "verify": { "secretRef": null } }))
        .await;
    registry
        .says(
            "app",
            "VerificationError",
            "'cosign keyless': no signatures found",
        )
        .await;
    registry.session.end().await;
}

#[tokio::test]
async fn spec_verify_provider_notation() {
    let registry = Registry::open().await;
    let digest = registry.push("v1", &[("a.yaml", "a: 1\n")]);
    let policy = |level: &str| {
        let mut statement = json!({
            "name": "all",
            "registryScopes": ["*"],
            "signatureVerification": { "level": level },
        });
        if level != "skip" {
            statement["trustStores"] = json!(["ca:all"]);
            statement["trustedIdentities"] = json!(["*"]);
        }
        json!({ "version": "1.0", "trustPolicies": [statement] }).to_string()
    };
    registry
        .secret("strict", json!({ "trustpolicy.json": policy("strict") }))
        .await;
    let verify = |name: &str| json!({ "verify": { "provider": "notation", "secretRef": { "name": name } } });
    registry.source("app", verify("strict")).await;
    let text = "no certificates found in secret '@home/strict'";
    registry.says("app", "VerificationError", text).await;
    let tls = equate_testkit::registry::RegistryServer::start(equate_testkit::registry::RegistryOptions {
        tls: true,
        ..Default::default()
    })
    .unwrap();
    let certificate = tls.certificate().unwrap();
    let data = |level: &str| json!({ "trustpolicy.json": policy(level), "ca.crt": certificate });
    registry.secret("unsigned", data("strict")).await;
    registry.change("app", verify("unsigned")).await;
    registry
        .says("app", "VerificationError", "no signature is associated with")
        .await;
    // a policy that skips lets the artifact pass, unverified
    registry.secret("skip", data("skip")).await;
    registry.change("app", verify("skip")).await;
    let status = registry.stored("app", &digest).await;
    assert_ne!(condition(&status, "SourceVerified")["status"], json!("True"));
    registry.session.end().await;
}

#[tokio::test]
async fn spec_verify_trusted_root_secret_ref_name() {
    let registry = Registry::open().await;
    registry.push("v1", &[("a.yaml", "a: 1\n")]);
    let verify = json!({ "verify": { "provider": "cosign", "trustedRootSecretRef": { "name": "root" } } });
    registry.source("app", verify).await;
    let text = "failed to verify the signature using provider 'cosign keyless': failed to read trusted root \
                from secret '@home/root': secret '@home/root' not found";
    registry.says("app", "VerificationError", text).await;
    registry.secret("root", json!({ "trusted_root.json": "{" })).await;
    registry.ask("app", "malformed").await;
    let text = "failed to read trusted root from secret '@home/root'";
    registry.says("app", "VerificationError", text).await;
    registry.session.end().await;
}

/// Signers by identity: the expressions are read, and an unsigned artifact is refused.
async fn identity(field: &str) {
    let registry = Registry::open().await;
    registry.push("v1", &[("a.yaml", "a: 1\n")]);
    let root = json!({ "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1" });
    registry
        .secret("root", json!({ "trusted_root.json": root.to_string() }))
        .await;
    let verify = |expression: &str| {
        let mut identity = json!({ "issuer": "^https://issuer$", "subject": "^me$" });
        identity[field] = json!(expression);
        json!({ "verify": {
            "provider": "cosign",
            "trustedRootSecretRef": { "name": "root" },
            "matchOIDCIdentity": [identity],
        } })
    };
    registry.source("app", verify("(")).await;
    let malformed = format!("malformed {field} in identity");
    registry.says("app", "VerificationError", &malformed).await;
    registry.change("app", verify("^good$")).await;
    registry
        .says("app", "VerificationError", "no signatures found")
        .await;
    registry.session.end().await;
}

#[tokio::test]
async fn spec_verify_match_oidcidentity_issuer() {
    identity("issuer").await;
}

#[tokio::test]
async fn spec_verify_match_oidcidentity_subject() {
    identity("subject").await;
}
