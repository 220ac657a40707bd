//! Decryption. The files are recorded: the real sops made them, for keys that protect nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_controllers::{Key, Policy};
use serde_json::{Value, json};

use super::super::manifest_in;
use crate::session::{Options, Session, ready};

const ONE: &str = include_str!("../../../../../sops/testdata/keys/one.agekey");
const PGP: &str = include_str!("../../../../../sops/testdata/keys/cv.asc");
/// For `one` and another; a Secret of two fields.
const MANIFEST: &str = include_str!("../../../../../sops/testdata/sealed/secret.yaml");
/// For `one`.
const BLOB: &str = include_str!("../../../../../sops/testdata/sealed/blob.bin");
const BLOB_OPENED: &[u8] = include_bytes!("../../../../../sops/testdata/opened/blob.bin");
const SETTINGS: &str = include_str!("../../../../../sops/testdata/sealed/settings.env");
/// For PGP keys, and an age key that no test has.
const MIXED: &str = include_str!("../../../../../sops/testdata/sealed/mixed.env");
/// The encrypted text, which must not leak.
const HIDDEN: &str = "correct horse";

/// A session with these files and a Secret of these keys.
async fn session(files: &[(&str, &str)], keys: &[(&str, &str)]) -> Session {
    let session = Session::anywhere(files).await;
    session.create(secret("keys", json!({}), keys)).await;
    session
}

fn secret(name: &str, labels: Value, entries: &[(&str, &str)]) -> Value {
    let entries: Value = entries
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(STANDARD.encode(value))))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let more = json!({ "data": entries, "metadata": { "labels": labels } });
    serde_json::from_str(&manifest_in("@home", "Secret", name, more)).unwrap()
}

/// All objects are in `@home`; decryption uses the Secret `keys`.
fn spec() -> Value {
    json!({
        "targetNamespace": "@home",
        "decryption": { "provider": "sops", "secretRef": { "name": "keys" } },
    })
}

async fn has(session: &Session, name: &str, entry: &str, value: &[u8]) {
    let pointer = format!("/data/{entry}");
    let value = json!(STANDARD.encode(value));
    session.is("Secret", name, &pointer, value).await;
}

#[tokio::test]
async fn spec_decryption_provider_sops_opens_manifests_and_files() {
    let kustomization = "resources: [secret.yaml, base]\n\
                         generatorOptions: {disableNameSuffixHash: true}\n\
                         secretGenerator:\n- {name: one, files: [blob.bin, b=blob.bin], envs: [settings.env]}\n";
    let files = [
        ("apps/kustomization.yaml", kustomization),
        ("apps/secret.yaml", MANIFEST),
        ("apps/blob.bin", BLOB),
        ("apps/settings.env", SETTINGS),
        (
            "apps/base/kustomization.yaml",
            "generatorOptions: {disableNameSuffixHash: true}\n\
             secretGenerator:\n- {name: two, envs: [mixed.env]}\n",
        ),
        ("apps/base/mixed.env", MIXED),
    ];
    let session = session(&files, &[("age.agekey", ONE), ("pgp.asc", PGP), ("other", "x")]).await;
    session.kustomize("apps", "apps", spec()).await;
    has(&session, "database", "password", HIDDEN.as_bytes()).await;
    has(&session, "database", "token", b"hello").await;
    has(&session, "one", "blob.bin", BLOB_OPENED).await;
    has(&session, "one", "b", BLOB_OPENED).await;
    has(&session, "one", "USER", b"admin").await;
    has(&session, "two", "USER", b"admin").await;
    session.is("Secret", "database", "/sops", Value::Null).await;
    let status = session
        .until("apps", "ready", |status| ready(status).0 == "True")
        .await;
    assert!(!serde_json::to_string(&status).unwrap().contains(HIDDEN));
    assert_eq!(session.stats().builds, 1);
    session.end().await;
}

#[tokio::test]
async fn spec_decryption_provider_sops_opens_patches() {
    let readable = "apiVersion: v1\nkind: Secret\nmetadata: {name: database, namespace: apps}\n";
    let files = [
        (
            "apps/kustomization.yaml",
            "resources: [readable.yaml]\npatches:\n- path: patch.yaml\n",
        ),
        ("apps/readable.yaml", readable),
        ("apps/patch.yaml", MANIFEST),
    ];
    let session = session(&files, &[("age.agekey", ONE)]).await;
    session.kustomize("apps", "apps", spec()).await;
    has(&session, "database", "password", HIDDEN.as_bytes()).await;
    session.end().await;
}

#[tokio::test]
async fn spec_decryption_secret_ref_name_another_tenants_key() {
    let generator = "secretGenerator:\n- {name: one, envs: [settings.env]}\n";
    let files = [
        ("apps/secret.yaml", MANIFEST),
        ("files/kustomization.yaml", generator),
        ("files/settings.env", SETTINGS),
    ];
    let session = session(&files, &[("pgp.asc", PGP)]).await;
    session.kustomize("apps", "apps", spec()).await;
    session.kustomize("files", "files", spec()).await;
    let one = "age age12uqef4xwlk0dyhllr3xn5msa0yd5vthhvvf3s2qkdzvt5p2xf3yqrc469l: its private key is not among \
               the 0 given; add a key in the Secret that ends in .agekey";
    assert_eq!(
        session.fails("files", "BuildFailed").await,
        format!(
            "error decrypting sources: files/kustomization.yaml:2:3: 'settings.env' cannot be decrypted: none of \
             the given keys decrypts its data key: {one}"
        )
    );
    let message = session.fails("apps", "BuildFailed").await;
    let begins = format!(
        "decryption failed for 'Secret.v1.[noGrp]/database': apps/secret.yaml:1:1: it cannot be decrypted: none of \
         the given keys decrypts its data key: {one}"
    );
    assert!(message.starts_with(&begins), "{message}");
    session.exists("Secret", "database", false).await;
    session.end().await;
}

#[tokio::test]
async fn spec_decryption_secret_ref_name_what_it_holds() {
    let session = session(&[("apps/secret.yaml", MANIFEST)], &[("age.agekey", "not one")]).await;
    let home = session.here("@home");
    session.kustomize("apps", "apps", spec()).await;
    let damaged = format!(
        "failed to import 'age.agekey' data from sops decryption Secret '{home}/keys': line 1 is not an age \
         identity: it must begin with AGE-SECRET-KEY-1"
    );
    assert_eq!(session.fails("apps", "BuildFailed").await, damaged);
    let mut lost = spec();
    lost["decryption"]["secretRef"]["name"] = json!("lost");
    session.kustomize("lost", "apps", lost).await;
    let absent = format!("secrets \"lost\" not found in namespace \"{home}\" (spec.decryption.secretRef)");
    assert_eq!(session.fails("lost", "BuildFailed").await, absent);
    session.end().await;
}

/// Of a shared Secret only age keys count, and a Kustomization that names a Secret uses only that.
#[tokio::test]
async fn spec_decryption_provider_sops_with_a_key_for_all() {
    let generator = "generatorOptions: {disableNameSuffixHash: true}\n\
                     secretGenerator:\n- {name: one, envs: [mixed.env]}\n";
    let files = [
        ("apps/secret.yaml", MANIFEST),
        ("files/kustomization.yaml", generator),
        ("files/mixed.env", MIXED),
    ];
    let mut session = session(&files, &[("pgp.asc", PGP)]).await;
    let home = session.here("@home");
    let policy = Policy {
        sops_age_secret: Some(Key::new(&*home, "all")),
        ..Policy::default()
    };
    let options = Options {
        policy,
        ..Options::default()
    };
    session.engine(options).await;
    let mut unnamed = spec();
    unnamed["decryption"]["secretRef"] = Value::Null;
    session.kustomize("apps", "apps", unnamed.clone()).await;
    let absent = format!("secrets \"all\" not found in namespace \"{home}\" (--sops-age-secret)");
    assert_eq!(session.fails("apps", "BuildFailed").await, absent);
    let labels = json!({ "reconcile.fluxcd.io/watch": "Enabled" });
    let all = secret("all", labels, &[("age.agekey", ONE), ("pgp.asc", PGP)]);
    session.create(all).await;
    has(&session, "database", "password", HIDDEN.as_bytes()).await;
    session.kustomize("files", "files", unnamed).await;
    let message = session.fails("files", "BuildFailed").await;
    assert!(
        message.contains("none of the given keys decrypts its data key"),
        "{message}"
    );
    session.kustomize("named", "apps", spec()).await;
    let message = session.fails("named", "BuildFailed").await;
    assert!(message.contains("is not among the 0 given"), "{message}");
    session.end().await;
}

/// Other keys cause a build: at once where the Secret is watched, else on request.
#[tokio::test]
async fn spec_decryption_secret_ref_name_is_read_again() {
    let files = [("apps/secret.yaml", MANIFEST)];
    let session = session(&files, &[("pgp.asc", PGP)]).await;
    let labels = json!({ "reconcile.fluxcd.io/watch": "Enabled" });
    session
        .create(secret("watched", labels, &[("pgp.asc", PGP)]))
        .await;
    let mut watched = spec();
    watched["decryption"]["secretRef"]["name"] = json!("watched");
    session.kustomize("apps", "apps", spec()).await;
    session.fails("apps", "BuildFailed").await;
    let more = json!({ "data": { "age.agekey": STANDARD.encode(ONE) } });
    session
        .merge::<k8s_openapi::api::core::v1::Secret>(&session.here("@home"), "keys", more.clone())
        .await;
    let request = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "1" } } });
    session.patch("apps", request).await;
    has(&session, "database", "password", HIDDEN.as_bytes()).await;

    session
        .patch("apps", json!({ "spec": { "suspend": true } }))
        .await;
    session.kustomize("watched", "apps", watched).await;
    session.fails("watched", "BuildFailed").await;
    session
        .merge::<k8s_openapi::api::core::v1::Secret>(&session.here("@home"), "watched", more)
        .await;
    let builds = |message: &str| !message.contains("none of the keys given");
    session
        .until("watched", "it was built", |status| builds(&ready(status).1))
        .await;
    session.end().await;
}

/// Neither a Secret nor a shared key.
#[tokio::test]
async fn spec_decryption_provider_sops_without_a_key() {
    let session = session(&[("apps/secret.yaml", MANIFEST)], &[]).await;
    let spec = json!({ "targetNamespace": "@home", "decryption": { "provider": "sops" } });
    session.kustomize("apps", "apps", spec).await;
    let message = session.fails("apps", "BuildFailed").await;
    let begins = "decryption failed for 'Secret.v1.[noGrp]/database': ";
    assert!(message.starts_with(begins), "{message}");
    session.exists("Secret", "database", false).await;
    session.end().await;
}

#[tokio::test]
async fn spec_decryption_provider_sops_is_missing() {
    let session = session(&[("apps/secret.yaml", MANIFEST)], &[]).await;
    session
        .kustomize("apps", "apps", json!({ "targetNamespace": "@home" }))
        .await;
    let message = format!(
        "Secret/{}/database is SOPS encrypted, configuring decryption is required for this secret to be reconciled",
        session.here("@home")
    );
    assert_eq!(session.fails("apps", "ReconciliationFailed").await, message);
    session.exists("Secret", "database", false).await;
    session.end().await;
}

#[tokio::test]
async fn spec_decryption_service_account_name_is_refused() {
    let session = session(&[("apps/secret.yaml", MANIFEST)], &[("age.agekey", ONE)]).await;
    let mut spec = spec();
    spec["decryption"]["serviceAccountName"] = json!("anyone");
    session.kustomize("apps", "apps", spec).await;
    assert_eq!(
        session.fails("apps", "FeatureGateDisabled").await,
        "to use spec.decryption.serviceAccountName for decryption authentication please enable the \
         ObjectLevelWorkloadIdentity feature gate in the controller"
    );
    session.end().await;
}

/// A token is only sent to the addresses of its Secret.
#[tokio::test]
async fn spec_decryption_secret_ref_name_where_its_token_may_go() {
    let sealed = "ENC[AES256_GCM,data:AA==,iv:AA==,tag:AA==,type:str]";
    let manifest = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData: {{a: '{sealed}'}}\nsops:\n    \
         hc_vault: [{{vault_address: 'https://evil.example', engine_path: transit, key_name: k, enc: 'vault:v1:x'}}]\n    \
         lastmodified: \"2026\"\n    mac: {sealed}\n"
    );
    let token = ("sops.vault-token", "hvs.of-the-tenant");
    let keys = [token, ("sops.vault-address", "https://vault.example.com:8200\n")];
    let session = session(&[("apps/a.yaml", &*manifest)], &keys).await;
    session.kustomize("apps", "apps", spec()).await;
    let message = session.fails("apps", "BuildFailed").await;
    assert!(
        message.ends_with(
            "Vault https://evil.example/v1/transit/keys/k: the token must not be sent to https://evil.example; \
             if you trust this address, add it to sops.vault-address in the Secret of the keys"
        ),
        "{message}"
    );
    session.end().await;
}

#[tokio::test]
async fn annotation_decrypt_disabled() {
    let entry = json!({ "data": { "settings.env": STANDARD.encode(SETTINGS) } });
    let mut excepted = entry.clone();
    excepted["metadata"] = json!({ "annotations": { "kustomize.toolkit.fluxcd.io/decrypt": "disabled" } });
    let files = [
        ("apps/a.yaml", &*manifest_in("", "Secret", "opened", entry)),
        ("apps/b.yaml", &*manifest_in("", "Secret", "sealed", excepted)),
    ];
    let session = session(&files, &[("age.agekey", ONE)]).await;
    session.kustomize("apps", "apps", spec()).await;
    has(&session, "sealed", "settings.env", SETTINGS.as_bytes()).await;
    let opened = include_bytes!("../../../../../sops/testdata/opened/settings.env");
    has(&session, "opened", "settings.env", opened).await;
    session.end().await;
}
