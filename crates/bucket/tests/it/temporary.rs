//! Temporary keys: of a user of LDAP, and of this process as AWS documents it.

use std::collections::BTreeMap;
use std::time::Duration;

use equate_bucket::{
    Access, Api, Aws, AwsEnvironment, Bucket, Error, Identity, Ldap, Limits, Reason, SecretString, Stores,
};
use equate_egress::{AddressPolicy, Egress};
use equate_testkit::bucket::{
    BucketFault, BucketOptions, BucketServer, CONTAINER_TOKEN, LDAP_USER, WEB_IDENTITY, WEB_ROLE,
};

fn access(identity: Identity) -> Access {
    let mut access = Access::new("apps", Duration::from_secs(30));
    access.insecure = true;
    access.api = Api::S3As(identity);
    access
}

fn ldap(server: &BucketServer, password: &str) -> Access {
    let ldap = Ldap::new(&server.services(), LDAP_USER.0, password.into()).unwrap();
    access(Identity::Ldap(ldap))
}

fn server() -> BucketServer {
    let server = BucketServer::open().unwrap();
    server.put("a.yaml", "a");
    server
}

/// The requests to services of keys.
fn exchanges(server: &BucketServer) -> usize {
    let asked = server.take();
    let store = |line: &&String| line.contains(" /apps");
    asked.len() - asked.iter().filter(store).count()
}

async fn reads(bucket: &Bucket) {
    bucket.authenticate().await.unwrap();
    assert!(bucket.exists().await.unwrap());
    let listed = bucket.list("").await.unwrap();
    assert_eq!(listed.objects.len(), 1);
    let mut content = Vec::new();
    bucket.get("a.yaml", 10, &mut content).await.unwrap();
    assert_eq!(content, b"a");
}

/// Its class and text; none of them has a secret.
fn said(error: &Error) -> (Reason, String) {
    let debug = format!("{error:?}");
    for secret in [LDAP_USER.1, WEB_IDENTITY, CONTAINER_TOKEN, "wr0ng", "t0ken"] {
        assert!(!debug.contains(secret), "{debug}");
    }
    (error.reason(), error.to_string())
}

#[tokio::test]
async fn keys_of_an_ldap_user_are_kept_until_shortly_before_their_end() {
    let server = server();
    let stores = Stores::new(Egress::default(), Limits::default());
    let open = || {
        let access = ldap(&server, LDAP_USER.1);
        stores.open(&server.endpoint(), "apps", access).unwrap()
    };
    reads(&open()).await;
    assert_eq!(exchanges(&server), 1);
    // another run uses the same keys
    reads(&open()).await;
    assert_eq!(exchanges(&server), 0);
    // keys that the store refuses are forgotten
    server.revoke();
    let error = open().list("").await.unwrap_err();
    let text = "cannot list apps: the store refused the credentials (HTTP 403): InvalidAccessKeyId: the temporary \
                key does not exist (check the permissions of the identity that the keys are for)";
    assert_eq!(said(&error), (Reason::Authentication, text.to_owned()));
    reads(&open()).await;
    // keys without a rest of life are asked for again
    server.revoke();
    assert!(open().list("").await.is_err());
    server.temporary_life(Duration::ZERO);
    server.take();
    assert!(open().exists().await.unwrap());
    assert!(open().exists().await.unwrap());
    assert_eq!(exchanges(&server), 2);
}

#[tokio::test]
async fn refusals_of_a_token_service_are_told_apart() {
    let server = server();
    let stores = Stores::new(Egress::default(), Limits::default());
    let refused = async |stores: &Stores, access: Access| {
        let bucket = stores.open(&server.endpoint(), "apps", access).unwrap();
        said(&bucket.authenticate().await.unwrap_err())
    };
    let wrong = |text: &str| {
        format!(
            "cannot get credentials for apps: the token service of spec.sts: {text} \
             (check username and password of spec.sts.secretRef, and spec.sts)"
        )
    };
    let text = "the token service refused the credentials (HTTP 400): InvalidParameterValue: LDAP server error: LDAP \
                auth failed for DN";
    let expected = (Reason::Authentication, wrong(text));
    assert_eq!(refused(&stores, ldap(&server, "wr0ng")).await, expected);
    // the password must not be read on the way
    let mut secure = ldap(&server, LDAP_USER.1);
    secure.insecure = false;
    let expected = (
        Reason::Authentication,
        wrong("its URL is not https, and spec.insecure is not set"),
    );
    assert_eq!(refused(&stores, secure).await, expected);
    let guarded = Stores::new(Egress::new(AddressPolicy::default()), Limits::default());
    let (reason, text) = refused(&guarded, ldap(&server, LDAP_USER.1)).await;
    assert_eq!(reason, Reason::Refused, "{text}");
    server.fault(BucketFault::Redirect("http://localhost:1/".to_owned()), 1);
    let (reason, text) = refused(&stores, ldap(&server, LDAP_USER.1)).await;
    assert_eq!(reason, Reason::Refused, "{text}");
    assert!(text.contains("the token service redirects (HTTP 307)"), "{text}");
    // a service that is busy is asked again
    server.fault(BucketFault::Status(503), 2);
    let open = || stores.open(&server.endpoint(), "apps", ldap(&server, LDAP_USER.1));
    open().unwrap().authenticate().await.unwrap();
}

/// The certificates of the store's Secret count at the store alone, those of the token service's at that alone.
#[tokio::test]
async fn a_token_service_has_certificates_of_its_own() {
    let store = server();
    let options = BucketOptions {
        tls: true,
        clients: true,
        ..BucketOptions::default()
    };
    let service = BucketServer::start(options).unwrap();
    let ca = service.certificate().unwrap().as_bytes().to_vec();
    let client = service.client().unwrap();
    let client = SecretString::from(format!("{}\n{}", client.certificate, client.key));
    let stores = Stores::new(Egress::default(), Limits::default());
    let check = async |ldap: Ldap, at_store: bool| {
        let mut access = access(Identity::Ldap(ldap));
        if at_store {
            (access.ca, access.identity) = (Some(ca.clone()), Some(client.clone()));
        }
        let bucket = stores.open(&store.endpoint(), "apps", access).unwrap();
        bucket.authenticate().await.map_err(|error| said(&error).0)
    };
    let user = || Ldap::new(&service.services(), LDAP_USER.0, LDAP_USER.1.into()).unwrap();
    assert_eq!(check(user(), true).await, Err(Reason::Tls));
    let mut trusting = user();
    trusting.ca = Some(ca.clone());
    assert!(
        check(trusting.clone(), true).await.is_err(),
        "without a client certificate"
    );
    trusting.identity = Some(client.clone());
    assert_eq!(check(trusting, false).await, Ok(()));
}

fn process(variables: &[(&str, &str)]) -> Stores {
    let variables: BTreeMap<String, String> = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let environment = AwsEnvironment::read(|name| variables.get(name).cloned());
    // tenants may not name loopback; the platform may
    Stores::identified(guarded(), Limits::default(), environment)
}

/// Loopback is refused, except for the name of the store.
fn guarded() -> Egress {
    Egress::exempting(AddressPolicy::default(), [("localhost".to_owned(), None)])
}

fn aws() -> Access {
    access(Identity::Aws(
        Aws::new(Some("us-east-1".to_owned()), None).unwrap(),
    ))
}

#[tokio::test]
async fn each_documented_identity_of_a_process_reads() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let server = server();
    let (web, token) = (
        file("web", &format!("{WEB_IDENTITY}\n")),
        file("token", CONTAINER_TOKEN),
    );
    let services = server.services();
    let container = format!("{services}/container");
    let keys = [
        ("AWS_ACCESS_KEY_ID", "access"),
        ("AWS_SECRET_ACCESS_KEY", "secret/key+1"),
    ];
    let web = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", &*web),
        ("AWS_ROLE_ARN", WEB_ROLE),
        ("AWS_ENDPOINT_URL_STS", &*services),
    ];
    let full = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*container);
    let identities: [(&[(&str, &str)], usize); 5] = [
        (&keys, 0),
        (&web, 1),
        (&[full, ("AWS_CONTAINER_AUTHORIZATION_TOKEN", CONTAINER_TOKEN)], 1),
        (&[full, ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &*token)], 1),
        // the token, the name of the role, its keys
        (&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &*services)], 3),
    ];
    for (variables, expected) in identities {
        let stores = process(variables);
        for expected in [expected, 0] {
            let bucket = stores.open(&server.endpoint(), "apps", aws()).unwrap();
            reads(&bucket).await;
            assert_eq!(exchanges(&server), expected, "{variables:?}");
        }
    }
}

#[tokio::test]
async fn an_identity_that_is_missing_or_refused_says_which() {
    let server = server();
    let services = server.services();
    let container = format!("{services}/container");
    let check = async |variables: &[(&str, &str)], region: Option<&str>, expected: &str| {
        let stores = process(variables);
        let identity = Identity::Aws(Aws::new(region.map(str::to_owned), None).unwrap());
        let bucket = stores.open(&server.endpoint(), "apps", access(identity)).unwrap();
        let (_, text) = said(&bucket.authenticate().await.unwrap_err());
        assert!(text.contains(expected), "{text}");
    };
    let here = Some("us-east-1");
    let text = "neither spec.region nor the controller's environment variable AWS_REGION is set";
    check(&[], None, text).await;
    let off = ("AWS_EC2_METADATA_DISABLED", "true");
    check(&[off, ("AWS_REGION", "eu-west-1")], None, "names no identity").await;
    let missing = ("AWS_WEB_IDENTITY_TOKEN_FILE", "/nowhere/token");
    let text = "the controller's environment variable AWS_ROLE_ARN is missing or malformed";
    check(&[missing], here, text).await;
    let role = ("AWS_ROLE_ARN", WEB_ROLE);
    let text = "the token service of AWS: the token in /nowhere/token cannot be read";
    check(&[missing, role], here, text).await;
    let wrong = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(wrong.path(), "wr0ng").unwrap();
    let wrong = ("AWS_WEB_IDENTITY_TOKEN_FILE", wrong.path().to_str().unwrap());
    let text = "the token service of AWS: the token service refused the credentials (HTTP 400): InvalidIdentityToken";
    check(&[wrong, role, ("AWS_ENDPOINT_URL_STS", &*services)], here, text).await;
    let text = "the credentials endpoint of the container: the token service refused the credentials (HTTP 401): \
                AccessDenied: Unauthorized token";
    check(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*container)], here, text).await;
    let nothing = format!("{services}/nothing");
    let text = "the metadata service of the machine: ";
    check(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &*nothing)], here, text).await;
}

/// The environment opens no address for a tenant.
#[tokio::test]
async fn a_tenant_cannot_name_the_services_of_the_platform() {
    let server = server();
    let services = server.services();
    let stores = process(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &*services)]);
    let endpoint = services.trim_start_matches("http://");
    let bucket = stores.open(endpoint, "apps", aws()).unwrap();
    bucket.authenticate().await.unwrap();
    server.take();
    let error = bucket.exists().await.unwrap_err();
    assert_eq!(error.reason(), Reason::Refused, "{error}");
    let ldap = Ldap::new(&services, LDAP_USER.0, LDAP_USER.1.into()).unwrap();
    let bucket = stores.open(&server.endpoint(), "apps", access(Identity::Ldap(ldap)));
    let error = bucket.unwrap().authenticate().await.unwrap_err();
    assert_eq!(error.reason(), Reason::Refused, "{error}");
    assert_eq!(server.take(), Vec::<String>::new());
}
