//! The store, credentials, certificates, proxies.

use equate_api::source::Bucket;
use equate_testkit::bucket::{AzureGuard, BucketApi, BucketFault, BucketOptions, BucketServer};
use equate_testkit::git::Proxy;
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::api::{Api, ListParams};
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

/// With keys. The identity of a node or a ServiceAccount is not supported yet.
#[tokio::test]
async fn spec_provider_aws() {
    let store = filled().await;
    store.source("app", json!({ "provider": "aws" })).await;
    store.holds("app", &FILES).await;
    let text = "spec.provider aws without secretRef is not supported yet";
    store
        .refuses("identity", json!({ "provider": "aws", "secretRef": null }), text)
        .await;
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

/// With the key of an account, a shared access signature or a service principal. Other identities are not
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
    let text = "clientCertificate in secret '@home/certificate' is not supported yet";
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

#[tokio::test]
async fn spec_sts_endpoint_is_refused() {
    let store = Store::open().await;
    let sts = json!({ "provider": "ldap", "endpoint": "http://sts.example" });
    store
        .refuses(
            "app",
            json!({ "secretRef": null, "sts": sts }),
            "spec.sts is not supported yet",
        )
        .await;
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
