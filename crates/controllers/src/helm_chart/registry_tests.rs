//! Whole runs against a registry on loopback.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_api::source::OciRepository;
use equate_helm::Chart;
use equate_testkit::registry::{RegistryGuard, RegistryOptions, RegistryServer};
use kube::CustomResourceExt as _;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::sources::charts::HelmSettings;
use crate::sources::testing::{GIT_URL, Session, chart, told};

const KIND: &str = "HelmChart";
const LAYER: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

fn push(registry: &RegistryServer, name: &str, tag: &str, bytes: &[u8]) -> String {
    let readme: (&str, &[u8]) = ("text/plain", b"provenance");
    registry.artifact(&format!("charts/{name}"), tag, &[readme, (LAYER, bytes)], &[])
}

fn paths(registry: &RegistryServer) -> Vec<String> {
    let requests = registry.take().into_iter();
    let of_charts = requests.filter(|request| request.path.contains("/charts/"));
    of_charts
        .map(|request| format!("{} {}", request.method, request.path))
        .collect()
}

/// A key of cosign.
struct Signer {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl Signer {
    fn new() -> Signer {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Signer {
            pair: EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap(),
            random,
        }
    }

    /// PEM of the SubjectPublicKeyInfo (RFC 5480).
    fn public(&self) -> String {
        const HEAD: [u8; 26] = [
            0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
            0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
        ];
        let key = STANDARD.encode([&HEAD[..], self.pair.public_key().as_ref()].concat());
        format!("-----BEGIN PUBLIC KEY-----\n{key}\n-----END PUBLIC KEY-----\n")
    }

    /// Signs a manifest as cosign 2 does.
    fn sign(&self, registry: &RegistryServer, repository: &str, digest: &str) {
        let payload = json!({
            "critical": {
                "identity": { "docker-reference": "" },
                "image": { "docker-manifest-digest": digest },
                "type": "cosign container image signature",
            },
            "optional": null,
        })
        .to_string();
        let signature = self.pair.sign(&self.random, payload.as_bytes()).unwrap();
        let mut layer = registry.blob("application/vnd.dev.cosign.simplesigning.v1+json", payload);
        layer["annotations"] =
            json!({ "dev.cosignproject.cosign/signature": STANDARD.encode(signature.as_ref()) });
        let config = registry.blob("application/vnd.oci.image.config.v1+json", "{}");
        let manifest = json!({ "schemaVersion": 2, "config": config, "layers": [layer] });
        let tag = format!("{}.sig", digest.replace(':', "-"));
        registry.manifest(repository, Some(&tag), &manifest);
    }
}

async fn repository(session: &Session, registry: &RegistryServer, more: Value) {
    let mut spec = json!({ "url": format!("{}/charts", registry.url()), "type": "oci" });
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    session
        .create("HelmRepository", "registry", json!({ "spec": spec }))
        .await;
}

async fn create(session: &Session, name: &str, spec: Value) {
    let mut whole = json!({
        "chart": "app", "interval": "1h", "sourceRef": { "kind": "HelmRepository", "name": "registry" },
    });
    whole
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    session.create(KIND, name, json!({ "spec": whole })).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chart_of_a_registry_is_kept_byte_for_byte() {
    let session = Session::start(HelmSettings::default()).await;
    let registry = RegistryServer::open().unwrap();
    let (first, second) = (
        chart("app", "1.0.0", &[]),
        chart("app", "1.1.0+b1", &[("x.yaml", "a: 2\n")]),
    );
    push(&registry, "app", "1.0.0", &first);
    push(&registry, "app", "v9.0.0", &second);
    push(&registry, "app", "2.0.0-rc.1", &second);
    repository(&session, &registry, json!({})).await;
    create(&session, "app", json!({ "version": "1.x" })).await;
    let text = "pulled 'app' chart with version '1.0.0'";
    let status = session.ready(KIND, "app", "ChartPullSucceeded", text).await;
    assert_eq!(status["artifact"]["path"], "helmchart/apps/app/app-1.0.0.tgz");
    assert_eq!(status["artifact"]["revision"], "1.0.0");
    assert_eq!(status["observedSourceArtifactRevision"], Value::Null);
    assert_eq!(session.bytes(&status), first);

    // a range costs the list of tags, and a newer tag is pulled
    paths(&registry);
    session.reconcile(KIND, "app", "1").await;
    assert_eq!(paths(&registry), ["GET /v2/charts/app/tags/list?n=1000"]);
    push(&registry, "app", "1.1.0_b1", &second);
    session.reconcile(KIND, "app", "2").await;
    let text = "pulled 'app' chart with version '1.1.0+b1'";
    let status = session.ready(KIND, "app", "ChartPullSucceeded", text).await;
    assert_eq!(session.bytes(&status), second);

    // a complete version costs no request once it is there
    create(&session, "exact", json!({ "version": "1.0.0" })).await;
    session
        .ready(KIND, "exact", "ChartPullSucceeded", "'1.0.0'")
        .await;
    paths(&registry);
    session.reconcile(KIND, "exact", "1").await;
    assert_eq!(paths(&registry), Vec::<String>::new());

    let values = json!({ "version": "1.1.0+b1", "valuesFiles": ["values.yaml", "x.yaml"] });
    create(&session, "values", values).await;
    let text = "packaged 'app' chart with version '1.1.0+1' and merged values files [values.yaml x.yaml]";
    let status = session.ready(KIND, "values", "ChartPackageSucceeded", text).await;
    let packed = Chart::from_archive(&session.bytes(&status), &equate_helm::Limits::default()).unwrap();
    assert_eq!(packed.values["a"], json!(2.0));

    for (name, spec, text) in [
        (
            "none",
            json!({ "version": "7.x" }),
            "chart pull error: failed to get chart version for remote reference: could not locate a version \
             matching provided version string 7.x",
        ),
        (
            "gone",
            json!({ "version": "1.2.3" }),
            "chart pull error: failed to download chart for remote reference: failed to get 'oci://",
        ),
        (
            "absent",
            json!({ "chart": "none" }),
            "remote reference: could not get tags for \"none\": could not fetch tags for \"oci://",
        ),
    ] {
        create(&session, name, spec).await;
        session.ready(KIND, name, "ChartPullError", text).await;
    }
    session.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chart_of_a_registry_is_verified_at_each_run() {
    let session = Session::start(HelmSettings::default()).await;
    let registry = RegistryServer::open().unwrap();
    let signer = Signer::new();
    let bytes = chart("app", "1.0.0", &[]);
    let digest = push(&registry, "app", "1.0.0", &bytes);
    repository(&session, &registry, json!({})).await;
    let verify = json!({ "provider": "cosign", "secretRef": { "name": "keys" } });
    create(&session, "app", json!({ "version": "1.0.0", "verify": verify })).await;
    let text = "failed to verify the signature using provider 'cosign': secret 'apps/keys' not found";
    let failed = session.ready(KIND, "app", "VerificationError", text).await;
    let expected = format!("SourceVerified=False VerificationError: {text}");
    assert!(told(&failed).contains(&expected), "{failed}");
    let keys = json!({ "stringData": { "cosign.pub": signer.public() } });
    session.create("Secret", "keys", keys).await;
    session.reconcile(KIND, "app", "1").await;
    let text = "chart verification error: failed to verify oci://localhost:";
    let failed = session.ready(KIND, "app", "ChartVerificationError", text).await;
    let conditions = told(&failed).join("\n");
    for expected in [
        "BuildFailed=True ChartVerificationError",
        "SourceVerified=False VerificationError",
    ] {
        assert!(conditions.contains(expected), "{conditions}");
    }
    assert_eq!(failed["artifact"], Value::Null);

    signer.sign(&registry, "charts/app", &digest);
    session.reconcile(KIND, "app", "2").await;
    let status = session
        .ready(KIND, "app", "ChartPullSucceeded", "pulled 'app'")
        .await;
    assert_eq!(session.bytes(&status), bytes);
    let verified = "SourceVerified=True Succeeded: verified signature of version 1.0.0";
    assert!(told(&status).contains(&verified.to_owned()), "{status}");

    // the tag moves to a manifest without a signature
    push(
        &registry,
        "app",
        "1.0.0",
        &chart("app", "1.0.0", &[("other", "1")]),
    );
    session.reconcile(KIND, "app", "3").await;
    let failed = session.ready(KIND, "app", "ChartVerificationError", text).await;
    assert_eq!(
        failed["artifact"], status["artifact"],
        "the last artifact is kept"
    );

    // without a key, the public Sigstore is trusted
    let identity = json!({ "issuer": "^https://accounts.example.com$", "subject": "" });
    let verify = json!({ "provider": "cosign", "secretRef": null, "matchOIDCIdentity": [identity] });
    session
        .patch(KIND, "app", json!({ "spec": { "verify": verify } }))
        .await;
    let text = "no signatures found";
    let keyless = session.ready(KIND, "app", "ChartVerificationError", text).await;
    assert_eq!(keyless["artifact"], failed["artifact"]);

    session
        .patch(KIND, "app", json!({ "spec": { "verify": null } }))
        .await;
    let status = session
        .ready(KIND, "app", "ChartPullSucceeded", "pulled 'app'")
        .await;
    assert!(!told(&status).join("\n").contains("SourceVerified"), "{status}");
    session.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_registry_needs_the_secret_of_its_helm_repository() {
    let session = Session::start(HelmSettings::default()).await;
    let options = RegistryOptions {
        guard: RegistryGuard::Token("user".to_owned(), "pass".to_owned()),
        ..RegistryOptions::default()
    };
    let registry = RegistryServer::start(options).unwrap();
    let db = chart("db", "2.0.0", &[]);
    push(&registry, "app", "1.0.0", &chart("app", "1.0.0", &[]));
    push(&registry, "db", "2.0.0", &db);
    repository(&session, &registry, json!({})).await;
    create(&session, "app", json!({ "version": "1.0.0" })).await;
    let text = "failed to authenticate with the Helm repository: chart pull error: failed to download chart";
    session.ready(KIND, "app", "AuthenticationFailed", text).await;

    let mut auths = serde_json::Map::new();
    auths.insert(
        "other.example".to_owned(),
        json!({ "username": "user", "password": "pass" }),
    );
    let config = |auths: &serde_json::Map<String, Value>| json!({ ".dockerconfigjson": json!({ "auths": auths }).to_string() });
    let docker = json!({ "type": "kubernetes.io/dockerconfigjson", "stringData": config(&auths) });
    session.create("Secret", "docker", docker).await;
    let named = |name: &str| json!({ "spec": { "secretRef": { "name": name } } });
    session.patch("HelmRepository", "registry", named("docker")).await;
    session.reconcile(KIND, "app", "1").await;
    let text = "failed to configure OCI registry authentication: no auth config for 'localhost:";
    session.ready(KIND, "app", "AuthenticationFailed", text).await;
    auths.insert(
        registry.authority(),
        json!({ "username": "user", "password": "pass" }),
    );
    session
        .patch("Secret", "docker", json!({ "stringData": config(&auths) }))
        .await;
    session.reconcile(KIND, "app", "2").await;
    session
        .ready(KIND, "app", "ChartPullSucceeded", "pulled 'app'")
        .await;

    // a chart of a git repository has a dependency in the registry
    let login = json!({ "stringData": { "username": "user", "password": "pass" } });
    session.create("Secret", "login", login).await;
    session.patch("HelmRepository", "registry", named("login")).await;
    let needs = format!(
        "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n\
         - {{name: db, version: 2.x, repository: {}/charts/}}\n",
        registry.url()
    );
    session
        .repository
        .commit(&[("web/Chart.yaml", Some(&*needs))])
        .unwrap();
    let git = json!({ "url": GIT_URL, "ref": { "branch": "main" }, "interval": "1h" });
    session
        .create("GitRepository", "fleet", json!({ "spec": git }))
        .await;
    let source = json!({ "kind": "GitRepository", "name": "fleet" });
    create(&session, "web", json!({ "chart": "web", "sourceRef": source })).await;
    let status = session
        .ready(KIND, "web", "ChartPackageSucceeded", "packaged 'web'")
        .await;
    let packed = Chart::from_archive(&session.bytes(&status), &equate_helm::Limits::default()).unwrap();
    let names: Vec<&str> = packed.dependencies.iter().map(|chart| chart.name()).collect();
    assert_eq!(names, ["db"]);

    let cloud = json!({ "spec": { "provider": "aws", "secretRef": null } });
    session.patch("HelmRepository", "registry", cloud).await;
    session.reconcile(KIND, "app", "3").await;
    let text = "spec.provider aws of the HelmRepository is not supported yet";
    session.ready(KIND, "app", "Unsupported", text).await;
    session.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletion_ends_the_wait_for_a_silent_registry() {
    let kinds = [OciRepository::crd()];
    let session = Session::with(HelmSettings::default(), &kinds, &["source-controller"]).await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("oci://{}/charts", silent.local_addr().unwrap());
    let source = json!({ "url": url, "type": "oci", "timeout": "60m", "interval": "1h" });
    session
        .create("HelmRepository", "registry", json!({ "spec": source }))
        .await;
    create(&session, "app", json!({ "version": "1.x" })).await;
    let image = json!({ "url": url, "timeout": "60m", "interval": "1h", "ref": { "semver": "1.x" } });
    session
        .create("OCIRepository", "app", json!({ "spec": image }))
        .await;
    let asked = [silent.accept().await.unwrap(), silent.accept().await.unwrap()];
    for kind in [KIND, "OCIRepository"] {
        session.delete(kind, "app").await;
    }
    drop(asked);
    session.stop().await;
}
