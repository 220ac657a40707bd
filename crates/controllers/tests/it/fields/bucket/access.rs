//! The store, credentials, certificates, proxies.

use equate_api::source::Bucket;
use equate_testkit::bucket::{
    AzureGuard, BucketApi, BucketFault, BucketOptions, BucketServer, LDAP_USER, WEB_IDENTITY, WEB_ROLE,
    client_certificate,
};
use equate_testkit::git::Proxy;
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

use super::Store;
use crate::session::Options;

const FILES: [(&str, &str); 1] = [("a.yaml", "a: 1\n")];

impl Store {
    /// None of these texts is in the status or in an event.
    async fn never_said(&self, name: &str, words: &[&str]) {
        let events: Api<Event> = Api::namespaced(self.session.client.clone(), &self.session.home);
        let events = events.list(&ListParams::default()).await.unwrap();
        let object = self.session.look("Bucket", "@home", name).await;
        let said = format!("{:?} {}", events.items, object["status"]);
        for word in words {
            assert!(!said.contains(word), "{word}: {said}");
        }
    }

    async fn refuses(&self, name: &str, spec: Value, message: &str) {
        self.source(name, spec).await;
        let status = self.says(name, "Unsupported", message).await;
        let mut conditions = status["conditions"].as_array().unwrap().iter();
        assert!(
            conditions.any(|condition| condition["type"] == "Stalled"),
            "{status}"
        );
    }
}

async fn filled() -> Store {
    let store = Store::open().await;
    store.server.put("a.yaml", "a: 1\n");
    store
}

/// First none, then incomplete ones, then wrong ones, then the right ones.
#[tokio::test]
async fn spec_secret_ref_name() {
    let store = filled().await;
    store.source("app", json!({ "secretRef": null })).await;
    let text =
        "failed to confirm existence of 'apps' bucket: cannot ask for apps: the store requires credentials";
    store.says("app", "BucketOperationFailed", text).await;
    store
        .change("app", json!({ "secretRef": { "name": "none" } }))
        .await;
    let text = "failed to get secret '@home/none': secrets \"none\" not found";
    store.says("app", "AuthenticationFailed", text).await;
    store.secret("half", json!({ "accesskey": "access" })).await;
    store
        .change("app", json!({ "secretRef": { "name": "half" } }))
        .await;
    let text = "invalid 'half' secret data: required fields 'accesskey' and 'secretkey'";
    store.says("app", "AuthenticationFailed", text).await;
    let wrong = json!({ "stringData": { "secretkey": "wr0ng" } });
    store.session.merge::<Secret>("@home", "half", wrong).await;
    store.ask("app", "wrong").await;
    store
        .says(
            "app",
            "BucketOperationFailed",
            "the store refused the credentials",
        )
        .await;
    store
        .change("app", json!({ "secretRef": { "name": "keys" } }))
        .await;
    store.holds("app", &FILES).await;
    store.never_said("app", &["wr0ng", "secret/key+1"]).await;
    store.session.end().await;
}

#[tokio::test]
async fn spec_bucket_name() {
    let store = filled().await;
    store.source("app", json!({ "bucketName": "other" })).await;
    store
        .says("app", "BucketOperationFailed", "bucket 'other' not found")
        .await;
    store.change("app", json!({ "bucketName": "a/b" })).await;
    store
        .says("app", "URLInvalid", "bucket name \"a/b\" must be")
        .await;
    store.change("app", json!({ "bucketName": "apps" })).await;
    store.holds("app", &FILES).await;
    store.session.end().await;
}

#[tokio::test]
async fn spec_endpoint() {
    let store = filled().await;
    let url = format!("http://{}", store.server.endpoint());
    store.source("app", json!({ "endpoint": url })).await;
    store
        .says("app", "URLInvalid", "is not a host with an optional port")
        .await;
    store
        .change("app", json!({ "endpoint": store.server.endpoint() }))
        .await;
    store.holds("app", &FILES).await;
    let moved = BucketServer::open().unwrap();
    moved.put("b.yaml", "b: 1\n");
    store.change("app", json!({ "endpoint": moved.endpoint() })).await;
    store.holds("app", &[("b.yaml", "b: 1\n")]).await;
    store.session.end().await;
}

#[tokio::test]
async fn spec_provider_generic() {
    let store = filled().await;
    store.source("app", json!({ "provider": "generic" })).await;
    store.holds("app", &FILES).await;
    store.session.end().await;
}

/// With keys, and with the identity of the machine. That of a ServiceAccount is not supported yet.
#[tokio::test]
async fn spec_provider_aws() {
    let server = BucketServer::open().unwrap();
    let environment = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.services())].into();
    let options = Options {
        environment,
        ..Options::default()
    };
    let store = Store::of(server, options).await;
    store.server.put("a.yaml", "a: 1\n");
    store.source("app", json!({ "provider": "aws" })).await;
    store.holds("app", &FILES).await;
    store
        .source("identity", json!({ "provider": "aws", "secretRef": null }))
        .await;
    let text = "AWS authentication failed: failed to create provider access token for the controller: cannot get \
                credentials for apps: neither spec.region nor the controller's environment variable AWS_REGION";
    store.says("identity", "AuthenticationFailed", text).await;
    store.change("identity", json!({ "region": "us-east-1" })).await;
    store.holds("identity", &FILES).await;
    store.server.put("a.yaml", "a: 2\n");
    store.ask("identity", "changed").await;
    store.holds("identity", &[("a.yaml", "a: 2\n")]).await;
    store.never_said("identity", &["t0ken", "temporary/secret"]).await;
    store.session.end().await;
}

/// With the key of a service account. Other identities are not supported yet.
#[tokio::test]
async fn spec_provider_gcp() {
    let options = BucketOptions {
        api: BucketApi::Google,
        ..BucketOptions::default()
    };
    let store = Store::with(options, Options::default()).await;
    store.server.put("a.yaml", "a: 1\n");
    let secret = |name: &str| json!({ "provider": "gcp", "secretRef": { "name": name } });
    store.source("app", secret("keys")).await;
    let text = "invalid 'keys' secret data: required fields 'serviceaccount'";
    store.says("app", "AuthenticationFailed", text).await;
    store
        .secret(
            "broken",
            json!({ "serviceaccount": "{\"private_key\":\"h1dden\"}" }),
        )
        .await;
    store.change("app", secret("broken")).await;
    let text = "'serviceaccount' in secret '@home/broken' cannot be used: its type \"\" is not supported";
    store.says("app", "AuthenticationFailed", text).await;
    let account = store.server.service_account();
    store
        .secret("account", json!({ "serviceaccount": account }))
        .await;
    store.change("app", secret("account")).await;
    store.holds("app", &FILES).await;
    store.server.put("a.yaml", "a: 2\n");
    store.ask("app", "changed").await;
    store.holds("app", &[("a.yaml", "a: 2\n")]).await;
    store.never_said("app", &["h1dden", "PRIVATE KEY"]).await;
    let text = "spec.provider gcp without secretRef is not supported yet";
    store
        .refuses("identity", json!({ "provider": "gcp", "secretRef": null }), text)
        .await;
    store.session.end().await;
}

/// With the key of an account, a shared access signature or a service principal, with a secret or a certificate. Other identities are not
/// supported yet.
#[tokio::test]
async fn spec_provider_azure() {
    let key = "dGhlIGtleSBvZiB0aGUgYWNjb3VudA==";
    let options = BucketOptions {
        api: BucketApi::Azure(AzureGuard::Key(key.to_owned())),
        ..BucketOptions::default()
    };
    let store = Store::with(options, Options::default()).await;
    store.server.put("a.yaml", "a: 1\n");
    let endpoint = store.server.azure_endpoint();
    let secret = |endpoint: &str, name: &str| json!({ "provider": "azure", "endpoint": endpoint, "secretRef": { "name": name } });
    store.source("app", secret(&endpoint, "keys")).await;
    let text = "invalid 'keys' secret data: requires a 'clientId' or 'accountKey' field";
    store.says("app", "AuthenticationFailed", text).await;
    store
        .secret("wrong", json!({ "accountKey": "d3IwbmcgaDFkZGVu" }))
        .await;
    store.change("app", secret(&endpoint, "wrong")).await;
    let text = "the store refused the credentials (HTTP 403): AuthenticationFailed";
    store.says("app", "BucketOperationFailed", text).await;
    store.secret("account", json!({ "accountKey": key })).await;
    store.change("app", secret(&endpoint, "account")).await;
    store.holds("app", &FILES).await;
    let certificate = json!({ "tenantId": "t", "clientId": "c", "clientCertificate": "pem" });
    store.secret("certificate", certificate).await;
    store
        .source("certificate", secret(&endpoint, "certificate"))
        .await;
    let text = "failed to parse client certificates: clientCertificate in secret '@home/certificate': it has no RSA key";
    store.says("certificate", "AuthenticationFailed", text).await;

    let sas = "sv=2022-11-02&sr=c&sp=rl&sig=h1dden%3D";
    let shared = BucketServer::start(BucketOptions {
        api: BucketApi::Azure(AzureGuard::Sas(sas.to_owned())),
        ..BucketOptions::default()
    });
    let shared = shared.unwrap();
    shared.put("b.yaml", "b: 1\n");
    store.secret("sas", json!({ "sasKey": format!("?{sas}") })).await;
    store.change("app", secret(&shared.azure_endpoint(), "sas")).await;
    store.holds("app", &[("b.yaml", "b: 1\n")]).await;

    let fields = ["tenant-1", "client-1", "s3cret"].map(str::to_owned);
    let [tenant, client, password] = fields;
    let tokens = BucketServer::start(BucketOptions {
        api: BucketApi::Azure(AzureGuard::Principal(tenant, client, password)),
        ..BucketOptions::default()
    });
    let tokens = tokens.unwrap();
    tokens.put("c.yaml", "c: 1\n");
    let principal = json!({
        "tenantId": "tenant-1", "clientId": "client-1", "clientSecret": "s3cret",
        "authorityHost": tokens.azure_endpoint(),
    });
    store.secret("principal", principal).await;
    store
        .change("app", secret(&tokens.azure_endpoint(), "principal"))
        .await;
    store.holds("app", &[("c.yaml", "c: 1\n")]).await;
    let right = json!({ "stringData": {
        "tenantId": "tenant-1", "clientId": "client-1", "clientCertificate": client_certificate(),
        "authorityHost": tokens.azure_endpoint(),
    } });
    store.session.merge::<Secret>("@home", "certificate", right).await;
    store
        .change("certificate", secret(&tokens.azure_endpoint(), "certificate"))
        .await;
    store.holds("certificate", &[("c.yaml", "c: 1\n")]).await;
    store.never_said("certificate", &["PRIVATE KEY"]).await;
    let hidden = [key, "d3IwbmcgaDFkZGVu", "h1dden", "s3cret"];
    store.never_said("app", &hidden).await;
    let text = "spec.provider azure without secretRef is not supported yet";
    let spec = json!({ "provider": "azure", "endpoint": endpoint, "secretRef": null });
    store.refuses("identity", spec, text).await;
    store.session.end().await;
}

#[tokio::test]
async fn spec_service_account_name_is_refused() {
    let store = Store::open().await;
    let spec = json!({ "provider": "aws", "secretRef": null, "serviceAccountName": "reader" });
    store
        .refuses("app", spec, "spec.serviceAccountName is not supported yet")
        .await;
    store.session.end().await;
}

/// A Bucket that a user of LDAP reads.
fn ldap(endpoint: &str, user: &str) -> Value {
    let sts = json!({ "provider": "ldap", "endpoint": endpoint, "secretRef": { "name": user } });
    json!({ "secretRef": null, "sts": sts })
}

impl Store {
    async fn user(&self, name: &str, password: &str) {
        let user = json!({ "username": LDAP_USER.0, "password": password });
        self.secret(name, user).await;
    }

    /// The message of the API server that refuses a Bucket.
    async fn not_created(&self, spec: Value) -> String {
        let text = self.session.here(&self.object("refused", &spec).to_string());
        let object: Bucket = serde_json::from_str(&text).unwrap();
        let buckets: Api<Bucket> = Api::namespaced(self.session.client.clone(), &self.session.home);
        let refused = buckets.create(&PostParams::default(), &object).await;
        refused.unwrap_err().to_string()
    }
}

#[tokio::test]
async fn spec_sts_provider_ldap() {
    let store = filled().await;
    let services = store.server.services();
    store.user("user", LDAP_USER.1).await;
    store.source("app", ldap(&services, "user")).await;
    store.holds("app", &FILES).await;
    let asked = store.server.take();
    assert!(asked.contains(&"POST / 200".to_owned()), "{asked:?}");
    // another run uses the same keys, also for what changed
    store.server.put("a.yaml", "a: 2\n");
    store.ask("app", "changed").await;
    store.holds("app", &[("a.yaml", "a: 2\n")]).await;
    let asked = store.server.take();
    assert!(!asked.iter().any(|line| line.starts_with("POST")), "{asked:?}");
    store
        .never_said("app", &[LDAP_USER.1, "t0ken", "temporary/secret"])
        .await;
    let mut spec = ldap(&services, "user");
    spec["provider"] = json!("aws");
    let text = "'aws' is the only supported STS provider for the 'aws' Bucket provider";
    let refused = store.not_created(spec).await;
    assert!(refused.contains(text), "{refused}");
    store.session.end().await;
}

/// The environment has keys, which need no service; a web identity asks the named one.
#[tokio::test]
async fn spec_sts_provider_aws() {
    let server = BucketServer::open().unwrap();
    server.put("a.yaml", "a: 1\n");
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, WEB_IDENTITY).unwrap();
    let environment = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap().to_owned()),
        ("AWS_ROLE_ARN", WEB_ROLE.to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ENDPOINT_URL_STS", server.services()),
    ];
    let options = Options {
        environment: environment.into(),
        ..Options::default()
    };
    let store = Store::of(server, options).await;
    store
        .source("app", json!({ "provider": "aws", "secretRef": null }))
        .await;
    store.holds("app", &FILES).await;
    let proxy = Proxy::to(&store.server.endpoint(), "p", "q").unwrap();
    let address = json!({ "address": proxy.url(), "username": "p", "password": "q" });
    store.secret("proxy", address).await;
    let named = |endpoint: &str| json!({ "sts": { "provider": "aws", "endpoint": endpoint } });
    let mut spec = named("https://sts.eu-west-1.amazonaws.com");
    spec["proxySecretRef"] = json!({ "name": "proxy" });
    store.change("app", spec).await;
    // the proxy leads to a server without its certificate, which gets no token
    let text = "AWS authentication failed: failed to create provider access token for the controller: cannot get \
                credentials for apps: the token service of AWS: ";
    store.says("app", "AuthenticationFailed", text).await;
    let heads = proxy.heads();
    let connect = "CONNECT sts.eu-west-1.amazonaws.com:443 ";
    assert!(heads.iter().any(|head| head.starts_with(connect)), "{heads:?}");
    // a token of the process goes to AWS alone
    store.change("app", named("https://sts.example.org")).await;
    let text = "AWS authentication failed: failed to create provider access token for the controller: invalid STS \
                endpoint: 'https://sts.example.org'. must match ^https://";
    store.says("app", "AuthenticationFailed", text).await;
    store.never_said("app", &[WEB_IDENTITY, "temporary/secret"]).await;
    let refused = |spec: Value| {
        let mut sts = json!({ "provider": "aws", "endpoint": "https://sts.amazonaws.com" });
        if spec["sts"].is_object() {
            crate::fields::merge(&mut sts, &spec["sts"]);
        }
        json!({ "provider": spec["provider"], "secretRef": null, "sts": sts })
    };
    for (spec, text) in [
        (
            json!({ "provider": "generic" }),
            "'ldap' is the only supported STS provider for the 'generic' Bucket provider",
        ),
        (
            json!({ "provider": "gcp" }),
            "STS configuration is only supported for the 'aws' and 'generic' Bucket providers",
        ),
        (
            json!({ "provider": "aws", "sts": { "secretRef": { "name": "x" } } }),
            "spec.sts.secretRef is not required for the 'aws' STS provider",
        ),
        (
            json!({ "provider": "aws", "sts": { "certSecretRef": { "name": "x" } } }),
            "spec.sts.certSecretRef is not required for the 'aws' STS provider",
        ),
    ] {
        let found = store.not_created(refused(spec)).await;
        assert!(found.contains(text), "{found}");
    }
    store.session.end().await;
}

#[tokio::test]
async fn spec_sts_endpoint() {
    let store = filled().await;
    store.user("user", LDAP_USER.1).await;
    store.source("app", ldap("https://", "user")).await;
    let text = "failed to parse STS endpoint 'https://': it is not an http or https URL of a host";
    store.says("app", "URLInvalid", text).await;
    let endpoint = |endpoint: &str| json!({ "sts": { "endpoint": endpoint } });
    let services = store.server.services();
    store
        .change("app", endpoint(&services.replace("http:", "https:")))
        .await;
    let text = "failed to confirm existence of 'apps' bucket: cannot get credentials for apps: the token service of \
                spec.sts: ";
    store.says("app", "BucketOperationFailed", text).await;
    store.change("app", endpoint(&services)).await;
    store.holds("app", &FILES).await;
    let refused = store.not_created(ldap("ldap://x", "user")).await;
    assert!(refused.contains("spec.sts.endpoint"), "{refused}");
    store.session.end().await;
}

/// First none, then incomplete ones, then wrong ones, then the right ones.
#[tokio::test]
async fn spec_sts_secret_ref_name() {
    let store = filled().await;
    let services = store.server.services();
    let mut spec = ldap(&services, "user");
    spec["sts"].as_object_mut().unwrap().remove("secretRef");
    store.source("app", spec).await;
    let text =
        "the token service refused the credentials (HTTP 400): InvalidParameterValue: LDAP server error";
    store.says("app", "BucketOperationFailed", text).await;
    let secret = |name: &str| json!({ "sts": { "secretRef": { "name": name } } });
    store.change("app", secret("user")).await;
    let text = "failed to get STS secret '@home/user': secrets \"user\" not found";
    store.says("app", "AuthenticationFailed", text).await;
    store.secret("half", json!({ "username": LDAP_USER.0 })).await;
    store.change("app", secret("half")).await;
    let text = "invalid 'half' secret data for 'ldap' STS provider: required fields username, password";
    store.says("app", "AuthenticationFailed", text).await;
    store.user("wrong", "wr0ng").await;
    store.change("app", secret("wrong")).await;
    let text =
        "the token service refused the credentials (HTTP 400): InvalidParameterValue: LDAP server error";
    store.says("app", "BucketOperationFailed", text).await;
    store.user("user", LDAP_USER.1).await;
    store.change("app", secret("user")).await;
    store.holds("app", &FILES).await;
    store.never_said("app", &["wr0ng", LDAP_USER.1, "t0ken"]).await;
    store.session.end().await;
}

#[tokio::test]
async fn spec_sts_cert_secret_ref_name() {
    let options = BucketOptions {
        tls: true,
        clients: true,
        ..BucketOptions::default()
    };
    let store = Store::with(options, Options::default()).await;
    store.server.put("a.yaml", "a: 1\n");
    store.user("user", LDAP_USER.1).await;
    store.secret("tls", json!({ "other": "1" })).await;
    let ca = store.server.certificate().unwrap().to_owned();
    let client = store.server.client().unwrap().clone();
    let all = json!({ "ca.crt": ca, "tls.crt": client.certificate, "tls.key": client.key });
    store.secret("all", all.clone()).await;
    // the certificates of the store do not count at the token service
    let mut spec = ldap(&store.server.services(), "user");
    spec["insecure"] = json!(false);
    spec["certSecretRef"] = json!({ "name": "all" });
    store.source("app", spec).await;
    let text = "the token service of spec.sts: the connection is not trusted";
    store.says("app", "BucketOperationFailed", text).await;
    let named = json!({ "sts": { "certSecretRef": { "name": "tls" } } });
    store.change("app", named).await;
    let text = "failed to get STS TLS config: secret '@home/tls' must contain either 'ca.crt' or both";
    store.says("app", "AuthenticationFailed", text).await;
    let right = json!({ "stringData": all });
    store.session.merge::<Secret>("@home", "tls", right).await;
    store.ask("app", "right").await;
    store.holds("app", &FILES).await;
    store.session.end().await;
}

/// The region is found out, unless the spec names one.
#[tokio::test]
async fn spec_region() {
    let options = BucketOptions {
        region: "eu-west-1".to_owned(),
        ..BucketOptions::default()
    };
    let store = Store::with(options, Options::default()).await;
    store.server.put("a.yaml", "a: 1\n");
    store.source("app", json!({ "region": "eu-west-2" })).await;
    store
        .says("app", "BucketOperationFailed", "failed to confirm existence")
        .await;
    store.change("app", json!({ "region": "eu-west-1" })).await;
    store.holds("app", &FILES).await;
    store.source("found", json!({})).await;
    store.holds("found", &FILES).await;
    store.session.end().await;
}

/// Without it, the store must have TLS.
#[tokio::test]
async fn spec_insecure() {
    let store = filled().await;
    store.source("app", json!({ "insecure": false })).await;
    store
        .says(
            "app",
            "BucketOperationFailed",
            "failed to confirm existence of 'apps' bucket",
        )
        .await;
    store.change("app", json!({ "insecure": true })).await;
    store.holds("app", &FILES).await;
    store.session.end().await;
}

#[tokio::test]
async fn spec_cert_secret_ref_name() {
    let options = BucketOptions {
        tls: true,
        ..BucketOptions::default()
    };
    let store = Store::with(options, Options::default()).await;
    store.server.put("a.yaml", "a: 1\n");
    store.source("app", json!({ "insecure": false })).await;
    store
        .says("app", "BucketOperationFailed", "the connection is not trusted")
        .await;
    store.secret("tls", json!({ "other": "1" })).await;
    store
        .change("app", json!({ "certSecretRef": { "name": "tls" } }))
        .await;
    let text = "failed to get TLS config: secret '@home/tls' must contain either 'ca.crt' or both";
    store.says("app", "AuthenticationFailed", text).await;
    let right = json!({ "stringData": { "ca.crt": store.server.certificate().unwrap() } });
    store.session.merge::<Secret>("@home", "tls", right).await;
    store.ask("app", "right").await;
    store.holds("app", &FILES).await;
    store.session.end().await;
}

#[tokio::test]
async fn spec_cert_secret_ref_name_with_a_client_certificate() {
    let options = BucketOptions {
        tls: true,
        clients: true,
        ..BucketOptions::default()
    };
    let store = Store::with(options, Options::default()).await;
    store.server.put("a.yaml", "a: 1\n");
    let ca = store.server.certificate().unwrap().to_owned();
    store.secret("tls", json!({ "ca.crt": ca })).await;
    let spec = json!({ "insecure": false, "certSecretRef": { "name": "tls" } });
    store.source("app", spec).await;
    store
        .says("app", "BucketOperationFailed", "failed to confirm existence")
        .await;
    let client = store.server.client().unwrap().clone();
    let right = json!({ "stringData": { "tls.crt": client.certificate, "tls.key": client.key } });
    store.session.merge::<Secret>("@home", "tls", right).await;
    store.ask("app", "right").await;
    store.holds("app", &FILES).await;
    store.session.end().await;
}

#[tokio::test]
async fn spec_proxy_secret_ref_name() {
    let store = filled().await;
    let proxy = Proxy::to(&store.server.endpoint(), "p", "q").unwrap();
    store.secret("proxy", json!({ "address": "ftp://p" })).await;
    store
        .source("app", json!({ "proxySecretRef": { "name": "proxy" } }))
        .await;
    let text = "failed to get proxy URL: secret '@home/proxy': proxy URL must use one of the supported";
    store.says("app", "AuthenticationFailed", text).await;
    let right = json!({ "stringData": { "address": proxy.url(), "username": "p", "password": "q" } });
    store.session.merge::<Secret>("@home", "proxy", right).await;
    store.ask("app", "right").await;
    store.holds("app", &FILES).await;
    assert!(!proxy.heads().is_empty());
    store.session.end().await;
}

#[tokio::test]
async fn spec_interval() {
    let store = filled().await;
    store.source("app", json!({ "interval": "200ms" })).await;
    store.holds("app", &FILES).await;
    store.server.put("a.yaml", "a: 2\n");
    store.holds("app", &[("a.yaml", "a: 2\n")]).await;
    store.session.end().await;
}

#[tokio::test]
async fn spec_timeout() {
    let store = filled().await;
    store.server.fault(BucketFault::Silence, usize::MAX);
    store.source("app", json!({ "timeout": "300ms" })).await;
    store
        .says("app", "BucketOperationFailed", "it took longer than 0.3s")
        .await;
    store.server.heal();
    store.change("app", json!({ "timeout": "60s" })).await;
    store.holds("app", &FILES).await;
    store.session.end().await;
}

#[tokio::test]
async fn spec_suspend() {
    let store = filled().await;
    store.source("app", json!({ "suspend": true })).await;
    store.source("other", json!({})).await;
    store.holds("other", &FILES).await;
    let object = store.session.look("Bucket", "@home", "app").await;
    assert_eq!(object["status"]["artifact"], Value::Null);
    store.change("app", json!({ "suspend": false })).await;
    store.holds("app", &FILES).await;
    store.session.end().await;
}

#[tokio::test]
async fn label_sharding_key() {
    let options = Options {
        selector: Some("!sharding.fluxcd.io/key".to_owned()),
        ..Options::default()
    };
    let store = Store::with(BucketOptions::default(), options).await;
    store.server.put("a.yaml", "a: 1\n");
    store.source("app", json!({ "suspend": true })).await;
    let key = |key: Value| json!({ "metadata": { "labels": { "sharding.fluxcd.io/key": key } } });
    let session = &store.session;
    session.merge::<Bucket>("@home", "app", key(json!("one"))).await;
    store.change("app", json!({ "suspend": false })).await;
    store.source("also", json!({})).await;
    store.holds("also", &FILES).await;
    let object = session.look("Bucket", "@home", "app").await;
    assert_eq!(object["status"]["artifact"], Value::Null);
    session.merge::<Bucket>("@home", "app", key(Value::Null)).await;
    store.holds("app", &FILES).await;
    store.session.end().await;
}
