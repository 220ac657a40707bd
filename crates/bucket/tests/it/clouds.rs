//! The APIs of Google Cloud Storage and Azure Blob Storage, against stores that verify each request.

use std::time::Duration;

use equate_bucket::{
    Access, Api, AzureCredentials, Bucket, ClientCertificate, Error, Limits, Object, Principal, Proof,
    Reason, ServiceAccount, Stores,
};
use equate_egress::Egress;
use equate_testkit::bucket::{
    AzureGuard, BucketApi, BucketFault, BucketOptions, BucketServer, client_certificate,
};

const KEY: &str = "dGhlIGtleSBvZiB0aGUgYWNjb3VudA==";
const SAS: &str = "sv=2022-11-02&sr=c&sp=rl&sig=a%2Fb%3D";

fn access(api: Api) -> Access {
    let mut access = Access::new("apps", Duration::from_secs(30));
    access.insecure = true;
    access.api = api;
    access
}

fn server(api: BucketApi) -> BucketServer {
    let options = BucketOptions {
        api,
        page: 2,
        ..BucketOptions::default()
    };
    let server = BucketServer::start(options).unwrap();
    for (key, text) in [
        ("a.yaml", "a"),
        ("dir/b c&+%.yaml", "b"),
        ("dir/ü.yaml", "u"),
        ("x", ""),
    ] {
        server.put(key, text);
    }
    server
}

/// Everything that a run asks for.
async fn check(bucket: &Bucket) {
    assert!(bucket.exists().await.unwrap());
    let keys = |listed: Vec<Object>| -> Vec<String> { listed.into_iter().map(|object| object.key).collect() };
    let listed = bucket.list("").await.unwrap().objects;
    assert_eq!(
        keys(listed.clone()),
        ["a.yaml", "dir/b c&+%.yaml", "dir/ü.yaml", "x"]
    );
    let below = bucket.list("dir/b").await.unwrap().objects;
    assert_eq!(keys(below), ["dir/b c&+%.yaml"]);
    for object in listed {
        let mut content = Vec::new();
        let etag = bucket.get(&object.key, 10, &mut content).await.unwrap();
        // a run compares the etag of an object with that of the next list
        assert_eq!(
            (&etag, content.len() as u64),
            (&object.etag, object.size),
            "{}",
            object.key
        );
        assert!(!etag.is_empty());
    }
    let absent = bucket.get("none", 10, &mut Vec::new()).await.unwrap_err();
    assert_eq!(absent.reason(), Reason::NotFound, "{absent}");
}

fn stores() -> Stores {
    Stores::new(Egress::default(), Limits::default())
}

async fn refused(opened: Result<Bucket, Error>, reason: Reason, text: &str) {
    let error = opened.unwrap().exists().await.unwrap_err();
    assert_eq!(error.reason(), reason, "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

fn google(server: &BucketServer) -> Api {
    Api::Google(ServiceAccount::parse(server.service_account().as_bytes()).unwrap())
}

#[tokio::test]
async fn google_serves_a_service_account() {
    let server = server(BucketApi::Google);
    let stores = stores();
    let open = || {
        stores
            .open(&server.endpoint(), "apps", access(google(&server)))
            .unwrap()
    };
    check(&open()).await;
    let asked = server.take();
    let tokens = asked.iter().filter(|line| line.starts_with("POST /token"));
    assert_eq!(tokens.count(), 1, "{asked:?}");
    // another run uses the same token
    assert!(open().exists().await.unwrap());
    assert_eq!(server.take().len(), 1);
    // one that the store refuses is forgotten
    server.revoke();
    let error = open().exists().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot ask for apps: the store refused the credentials (HTTP 401): Invalid Credentials \
         (check serviceaccount and its permissions for the bucket)"
    );
    assert!(open().exists().await.unwrap());
    let absent = stores.open(&server.endpoint(), "others", access(google(&server)));
    assert!(!absent.unwrap().exists().await.unwrap());
}

#[tokio::test]
async fn google_refusals_are_told_apart() {
    let server = server(BucketApi::Google);
    let account = |change: (&str, &str)| {
        let text = server.service_account().replace(change.0, change.1);
        access(Api::Google(ServiceAccount::parse(text.as_bytes()).unwrap()))
    };
    let stores = stores();
    let open = |access| stores.open(&server.endpoint(), "apps", access);
    let text = "the token service refused the credentials (HTTP 400): invalid_grant: Invalid JWT claims.";
    let stranger = account(("reader@project", "writer@project"));
    refused(open(stranger), Reason::Authentication, text).await;
    // the token service must have TLS unless the spec says otherwise
    let mut secure = access(google(&server));
    secure.insecure = false;
    let text = "the URL of the token service is not https";
    refused(open(secure), Reason::Authentication, text).await;
    server.fault(BucketFault::List("<html>".to_owned()), 1);
    let error = open(access(google(&server))).unwrap().list("").await.unwrap_err();
    assert_eq!(error.reason(), Reason::Malformed, "{error}");
    server.fault(BucketFault::Status(503), 2);
    assert!(open(access(google(&server))).unwrap().exists().await.unwrap());
    server.fault(BucketFault::Status(503), 3);
    let text = "the store limits requests (HTTP 503)";
    refused(open(access(google(&server))), Reason::Failed, text).await;
}

#[tokio::test]
async fn azure_serves_keys_signatures_and_service_principals() {
    let principal = |proof: Proof, server: &BucketServer| {
        Api::Azure(AzureCredentials::Principal(Principal {
            tenant: "tenant-1".to_owned(),
            client: "client-1".to_owned(),
            proof,
            authority: Some(server.azure_endpoint()),
        }))
    };
    let key = |key: &str| Api::Azure(AzureCredentials::AccountKey(key.into()));
    let sas = |sas: &str| Api::Azure(AzureCredentials::Sas(sas.into()));
    let open = |server: &BucketServer, api| stores().open(&server.azure_endpoint(), "apps", access(api));
    let no = "the store refused the credentials (HTTP 403): AuthenticationFailed: no";

    let signed = server(BucketApi::Azure(AzureGuard::Key(KEY.to_owned())));
    check(&open(&signed, key(KEY)).unwrap()).await;
    refused(open(&signed, key("b3RoZXI=")), Reason::Authentication, no).await;
    let long = |characters| {
        let blob = format!(
            "<Blob><Name>{}</Name><Properties/></Blob>",
            "ü".repeat(characters)
        );
        let list = format!("<EnumerationResults><Blobs>{blob}</Blobs><NextMarker/></EnumerationResults>");
        signed.fault(BucketFault::List(list), 1);
        open(&signed, key(KEY)).unwrap()
    };
    assert_eq!(long(1024).list("").await.unwrap().objects[0].key.len(), 2048);
    let bucket = long(1025);
    let error = bucket.list("").await.unwrap_err();
    assert!(
        error.to_string().contains("has more than 1024 characters"),
        "{error}"
    );
    let absent = bucket
        .get(&"ü".repeat(1024), 1, &mut Vec::new())
        .await
        .unwrap_err();
    assert_eq!(absent.reason(), Reason::NotFound, "{absent}");
    let text = "accountKey is not in base64";
    refused(open(&signed, key("no base64")), Reason::Authentication, text).await;
    let mut secure = access(key(KEY));
    secure.insecure = false;
    let text = "the endpoint is not https, and spec.insecure is not set";
    let plain = stores().open(&signed.azure_endpoint(), "apps", secure);
    refused(plain, Reason::Authentication, text).await;
    let absent = stores().open(&signed.azure_endpoint(), "others", access(key(KEY)));
    assert!(!absent.unwrap().exists().await.unwrap());

    let shared = server(BucketApi::Azure(AzureGuard::Sas(SAS.to_owned())));
    check(&open(&shared, sas(&format!("?{SAS}"))).unwrap()).await;
    refused(open(&shared, sas("sig=other")), Reason::Authentication, no).await;

    let (tenant, client) = ("tenant-1".to_owned(), "client-1".to_owned());
    let guard = AzureGuard::Principal(tenant, client, "s3cr&t".to_owned());
    let tokens = server(BucketApi::Azure(guard));
    let secret = |text: &str| Proof::Secret(text.into());
    check(&open(&tokens, principal(secret("s3cr&t"), &tokens)).unwrap()).await;
    assert_eq!(tokens.revoke(), 1);
    let certificate = ClientCertificate::parse(client_certificate().as_bytes(), true).unwrap();
    check(&open(&tokens, principal(Proof::Certificate(certificate), &tokens)).unwrap()).await;
    assert_eq!(tokens.revoke(), 2);
    let text = "the token service refused the credentials (HTTP 401): invalid_client: AADSTS7000215";
    let wrong = open(&tokens, principal(secret("wr0ng"), &tokens));
    let error = wrong.unwrap().exists().await.unwrap_err();
    assert!(error.to_string().contains(text), "{error}");
    assert!(!format!("{error:?}").contains("wr0ng"), "{error:?}");
}
