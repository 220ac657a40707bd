//! The client against the registry of the distribution project, and signatures of cosign and notation in it.
//!
//! `cargo xtask test-peers` names the programs; without them the tests print a line and are skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use equate_registry::oci_spec::image::Digest;
use equate_registry::verify::{PublicKey, cosign, notation};
use equate_registry::{Access, Reason, Remote, Repository, Version, sha256};
use equate_testkit::servers::{
    self, COSIGN_VARIABLE, DISTRIBUTION_VARIABLE, DistributionAuth, DistributionServer, GITEA_FILES_VARIABLE,
    GITEA_VARIABLE, GiteaServer, NOTATION_VARIABLE,
};
use equate_testkit::web::{WebOptions, WebServer};
use jiff::Timestamp;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

use super::{anonymous, chain, named, registries};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// `mia` with the password `correct-horse`, by bcrypt.
const HTPASSWD: &str = "mia:$2y$04$KCxwBDioWeGS90P4w3QLD.OowRxZI1F6q..0wYh/pnnQ5TKgpJFbG\n";

/// The program that a variable names, or none after a line that says so.
fn program(variable: &str) -> Option<PathBuf> {
    servers::program(variable)
        .inspect_err(|skip| eprintln!("{}", skip.0))
        .ok()
}

fn open(server: &DistributionServer, path: &str, access: Access) -> Remote {
    let repository = Repository::parse(&format!("{}/{path}", server.authority())).unwrap();
    registries().open(repository, access).unwrap()
}

/// Pushes an artifact with one layer; returns its manifest's digest and size.
async fn push(remote: &Remote, tag: &str, layer: &'static [u8]) -> (Digest, u64) {
    let descriptor =
        |kind: &str, bytes: &[u8]| json!({ "mediaType": kind, "digest": sha256(bytes), "size": bytes.len() });
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor("application/vnd.cncf.flux.config.v1+json", b"{}"),
        "layers": [descriptor("application/vnd.cncf.flux.content.v1.tar+gzip", layer)],
    });
    remote.push_blob(Bytes::from_static(b"{}")).await.unwrap();
    remote.push_blob(Bytes::from_static(layer)).await.unwrap();
    let bytes = Bytes::from(manifest.to_string());
    let size = bytes.len() as u64;
    let tag = Version::tag(tag).unwrap();
    (remote.push_manifest(&tag, MANIFEST, bytes).await.unwrap(), size)
}

/// Reads back what [`push`] wrote.
async fn check(remote: &Remote, tag: &str, digest: &Digest, layer: &[u8]) {
    let found = remote.resolve(&Version::tag(tag).unwrap()).await.unwrap();
    assert_eq!(&found, digest);
    let image = remote.image(&Version::Digest(found)).await.unwrap();
    let mut bytes = Vec::new();
    remote
        .blob(&image.manifest.layers()[0], &mut bytes)
        .await
        .unwrap();
    assert_eq!(bytes, layer);
}

#[tokio::test]
async fn artifacts_are_pushed_and_pulled_without_credentials() {
    let Some(program) = program(DISTRIBUTION_VARIABLE) else {
        return;
    };
    let server = DistributionServer::start(&program, DistributionAuth::Open).unwrap();
    let remote = open(&server, "team/app", anonymous());
    let (digest, _) = push(&remote, "v1", b"first").await;
    push(&remote, "v2", b"second").await;
    check(&remote, "v1", &digest, b"first").await;
    assert_eq!(*remote.tags().await.unwrap(), ["v1", "v2"]);
    // this registry has no referrers API: they are looked for at a tag
    assert_eq!(remote.referrers(&digest, None).await.unwrap().len(), 0);
    let unknown = open(&server, "team/nothing", anonymous());
    let error = unknown.tags().await.unwrap_err();
    assert_eq!(error.reason(), Reason::NotFound, "{}", chain(&error));
}

#[tokio::test]
async fn basic_credentials_are_checked() {
    let Some(program) = program(DISTRIBUTION_VARIABLE) else {
        return;
    };
    let server = DistributionServer::start(&program, DistributionAuth::Basic(HTPASSWD)).unwrap();
    let remote = open(&server, "team/app", named("mia", "correct-horse"));
    let (digest, _) = push(&remote, "v1", b"content").await;
    check(&remote, "v1", &digest, b"content").await;
    for access in [anonymous(), named("mia", "wrong")] {
        let error = open(&server, "team/app", access).tags().await.unwrap_err();
        assert_eq!(error.reason(), Reason::Authentication, "{}", chain(&error));
    }
}

/// A token for a repository, signed with ES256, as the registry expects it of its issuer.
fn token(key: &KeyPair, certificate: &rcgen::Certificate, repository: &str, actions: &[&str]) -> String {
    let chance = ring::rand::SystemRandom::new();
    let pair =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key.serialize_der(), &chance).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let header = json!({ "typ": "JWT", "alg": "ES256", "x5c": [STANDARD.encode(certificate.der())] });
    let claims = json!({
        "iss": "issuer",
        "sub": "mia",
        "aud": "test",
        "exp": now + 3_600,
        "nbf": now - 60,
        "iat": now - 60,
        "jti": "1",
        "access": [{ "type": "repository", "name": repository, "actions": actions }],
    });
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encoded(&header), encoded(&claims));
    let signature = pair.sign(&chance, signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[tokio::test]
async fn a_token_is_fetched_where_the_registry_says() {
    let Some(program) = program(DISTRIBUTION_VARIABLE) else {
        return;
    };
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let certificate = rcgen::CertificateParams::new(["issuer".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let issuer = WebServer::start(WebOptions {
        login: Some(("mia".to_owned(), "correct-horse".to_owned())),
        ..WebOptions::default()
    })
    .unwrap();
    let server = DistributionServer::start(
        &program,
        DistributionAuth::Token {
            realm: &format!("{}/token", issuer.url()),
            issuer: "issuer",
            certificate: &certificate.pem(),
        },
    )
    .unwrap();
    let grant = |repository: &str, actions: &[&str]| {
        let answer = json!({ "token": token(&key, &certificate, repository, actions) });
        issuer.put("/token", answer.to_string());
    };
    grant("team/app", &["pull", "push"]);
    let remote = open(&server, "team/app", named("mia", "correct-horse"));
    let (digest, _) = push(&remote, "v1", b"content").await;
    check(&remote, "v1", &digest, b"content").await;
    let asked = issuer.take();
    assert!(
        !asked.is_empty() && asked.iter().all(|line| line == "/token 200+"),
        "{asked:?}"
    );
    // a token for another repository opens nothing
    grant("team/other", &["pull"]);
    let other = open(&server, "team/app", named("mia", "correct-horse"));
    let error = other.tags().await.unwrap_err();
    assert_eq!(error.reason(), Reason::Authentication, "{}", chain(&error));
    let wrong = open(&server, "team/app", named("mia", "wrong"));
    let error = wrong.tags().await.unwrap_err();
    assert_eq!(error.reason(), Reason::Authentication, "{}", chain(&error));
}

/// Gitea is registry and token server in one.
#[test]
fn packages_of_a_forge_are_pushed_and_pulled() {
    let (Some(gitea), Some(files)) = (program(GITEA_VARIABLE), program(GITEA_FILES_VARIABLE)) else {
        return;
    };
    let forge = GiteaServer::start(&gitea, &files).unwrap();
    let (user, password) = forge.user();
    let open = |access: Access| {
        let repository = Repository::parse(&format!("{}/{user}/app", forge.authority())).unwrap();
        let ca = Some(forge.certificate().as_bytes().to_vec());
        registries().open(repository, Access { ca, ..access }).unwrap()
    };
    let checks = async {
        let remote = open(named(user, password));
        let (digest, _) = push(&remote, "v0", b"content").await;
        check(&remote, "v0", &digest, b"content").await;
        let mut wanted = vec!["v0".to_owned()];
        for number in 1..60 {
            let tag = format!("v{number}");
            push(&remote, &tag, b"content").await;
            wanted.push(tag);
        }
        wanted.sort();
        let mut tags = remote.tags().await.unwrap().to_vec();
        tags.sort();
        assert_eq!(tags, wanted);
        assert_eq!(remote.referrers(&digest, None).await.unwrap().len(), 0);
        let error = open(named(user, "wrong")).tags().await.unwrap_err();
        assert_eq!(error.reason(), Reason::Authentication, "{}", chain(&error));
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(checks);
}

/// Runs a signer in its own home.
#[track_caller]
fn signs(program: &Path, home: &Path, arguments: &[&str]) {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(home)
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", home)
        .env("COSIGN_PASSWORD", "correct-horse")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn artifacts_that_cosign_signed_are_verified() {
    let (Some(registry), Some(cosign)) = (program(DISTRIBUTION_VARIABLE), program(COSIGN_VARIABLE)) else {
        return;
    };
    let server = DistributionServer::start(&registry, DistributionAuth::Open).unwrap();
    let remote = open(&server, "team/app", anonymous());
    let (digest, _) = push(&remote, "v1", b"content").await;
    let (unsigned, _) = push(&remote, "v2", b"unsigned").await;
    let home = tempfile::tempdir().unwrap();
    let image = format!("{}/team/app@{digest}", server.authority());
    signs(&cosign, home.path(), &["generate-key-pair"]);
    signs(
        &cosign,
        home.path(),
        &[
            "sign",
            "--yes",
            "--key=cosign.key",
            "--tlog-upload=false",
            "--allow-http-registry",
            "--allow-insecure-registry",
            &image,
        ],
    );
    let read = |name: &str| std::fs::read(home.path().join(name)).unwrap();
    let trust = |pem: &[u8]| cosign::Trust::Key(PublicKey::from_pem(pem).unwrap());
    let verified = async |digest: &Digest, pem: &[u8]| {
        let signatures = remote.cosign_signatures(digest).await.unwrap();
        let result = cosign::verify(digest, &signatures, &trust(pem), Timestamp::now(), &|| true);
        result.map_err(|error| chain(&error))
    };
    let key = read("cosign.pub");
    assert_eq!(verified(&digest, &key).await, Ok(cosign::Signer::Key));
    assert!(verified(&unsigned, &key).await.is_err());
    signs(
        &cosign,
        home.path(),
        &["generate-key-pair", "--output-key-prefix=other"],
    );
    let error = verified(&digest, &read("other.pub")).await.unwrap_err();
    assert!(error.contains("invalid signature"), "{error}");
}

#[tokio::test]
async fn artifacts_that_notation_signed_are_verified() {
    let (Some(registry), Some(notation)) = (program(DISTRIBUTION_VARIABLE), program(NOTATION_VARIABLE))
    else {
        return;
    };
    let server = DistributionServer::start(&registry, DistributionAuth::Open).unwrap();
    let remote = open(&server, "team/app", anonymous());
    let (digest, size) = push(&remote, "v1", b"content").await;
    let home = tempfile::tempdir().unwrap();
    let image = format!("{}/team/app@{digest}", server.authority());
    for name in ["mia.example", "other.example"] {
        signs(&notation, home.path(), &["cert", "generate-test", name]);
    }
    for format in ["jws", "cose"] {
        signs(
            &notation,
            home.path(),
            &[
                "sign",
                "--key=mia.example",
                "--signature-format",
                format,
                "--insecure-registry",
                &image,
            ],
        );
    }
    let signatures = remote.notation_signatures(&digest).await.unwrap();
    let mut kinds: Vec<&str> = signatures.iter().map(|one| one.media_type.as_str()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["application/cose", "application/jose+json"]);
    let policy = json!({
        "version": "1.0",
        "trustPolicies": [{
            "name": "app",
            "registryScopes": ["*"],
            "signatureVerification": { "level": "strict" },
            "trustStores": ["ca:certs"],
            "trustedIdentities": ["*"],
        }],
    });
    let policy = notation::TrustPolicy::parse(policy.to_string().as_bytes()).unwrap();
    let target = notation::Target {
        media_type: MANIFEST.to_owned(),
        digest: digest.to_string(),
        size,
    };
    let verified = |name: &str, target: &notation::Target, signature: &notation::NotationSignature| {
        let path = home.path().join(format!("notation/localkeys/{name}.crt"));
        let certificate = std::fs::read(path).unwrap();
        let store = notation::TrustStore::new([("ca.crt", certificate.as_slice())]).unwrap();
        let signatures = std::slice::from_ref(signature);
        notation::verify(&policy, &store, &image, target, signatures, Timestamp::now())
            .map_err(|error| chain(&error))
    };
    let other = notation::Target {
        digest: sha256(b"other"),
        ..target.clone()
    };
    for signature in &*signatures {
        let kind = &signature.media_type;
        let outcome = verified("mia.example", &target, signature);
        assert!(
            matches!(outcome, Ok(notation::Outcome::Verified(_))),
            "{kind}: {outcome:?}"
        );
        assert!(verified("other.example", &target, signature).is_err(), "{kind}");
        assert!(verified("mia.example", &other, signature).is_err(), "{kind}");
    }
}
