//! The client against SeaweedFS, which checks signatures and rights as S3 does, and against Azurite, which checks
//! keys and shared access signatures as Azure Blob Storage does.
//!
//! `cargo xtask test-peers` names the program; without it the tests print a line and are skipped.

use equate_bucket::{Access, Api, AzureCredentials, Bucket, Credentials, Limits, Reason, Stores};
use equate_egress::{Egress, Proxy};
use equate_testkit::git;
use equate_testkit::servers::{self, AZURITE_VARIABLE, AzuriteServer, SEAWEEDFS_VARIABLE, SeaweedFsServer};

use super::{access, keys};

fn signed((access_key, secret_key): (&str, &str)) -> Access {
    let mut access = access();
    access.api = Api::S3(Some(Credentials {
        access_key: access_key.to_owned(),
        secret_key: secret_key.into(),
    }));
    access
}

fn opened(server: &SeaweedFsServer, bucket: &str, access: Access) -> Bucket {
    let stores = Stores::new(Egress::default(), Limits::default());
    stores.open(&server.endpoint(), bucket, access).unwrap()
}

/// More than the thousand names of one page, and some that need escapes.
fn names() -> Vec<String> {
    let many = (0..1_005).map(|number| format!("many/{number:04}.yaml"));
    let escaped = ["a b+c&(d).yaml", "dir/ü.yaml", "dir/x%41.yaml", "e.yaml"];
    many.chain(escaped.map(str::to_owned)).collect()
}

#[tokio::test]
async fn objects_of_a_real_store_are_listed_and_fetched() {
    let program = match servers::program(SEAWEEDFS_VARIABLE) {
        Ok(program) => program,
        Err(skip) => return eprintln!("{}", skip.0),
    };
    let server = SeaweedFsServer::start(&program, "apps").unwrap();
    let mut wanted = names();
    for key in &wanted {
        server.put("apps", key, key.as_bytes()).unwrap();
    }
    server.put("secret", "hidden.yaml", b"hidden").unwrap();
    wanted.sort();
    for who in [server.admin(), server.reader()] {
        let bucket = opened(&server, "apps", signed(who));
        assert!(bucket.exists().await.unwrap());
        let mut found = keys(&bucket, "").await.unwrap();
        found.sort();
        assert_eq!(found.len(), wanted.len(), "{who:?}");
        assert_eq!(found, wanted, "{who:?}");
        assert_eq!(keys(&bucket, "dir/x").await.unwrap(), ["dir/x%41.yaml"]);
        for key in wanted.iter().filter(|key| !key.starts_with("many/")) {
            let mut bytes = Vec::new();
            bucket.get(key, 100, &mut bytes).await.unwrap();
            assert_eq!(bytes, key.as_bytes(), "{who:?}");
        }
    }
    let listed = opened(&server, "apps", signed(server.admin())).list("e.").await;
    let listed = listed.unwrap().objects;
    let mut bytes = Vec::new();
    let bucket = opened(&server, "apps", signed(server.admin()));
    let etag = bucket.get("e.yaml", 100, &mut bytes).await.unwrap();
    assert_eq!(listed[0].etag, etag, "a list tells which objects changed");

    let check = async |bucket: &str, access: Access, expected: &str| {
        let bucket = opened(&server, bucket, access);
        let (reason, text) = keys(&bucket, "").await.unwrap_err();
        assert_eq!(reason, Reason::Authentication, "{text}");
        assert!(text.contains(expected), "{text}");
    };
    let (name, _) = server.admin();
    check("apps", signed((name, "wrong")), "SignatureDoesNotMatch").await;
    check("apps", signed(("nobody", "wrong")), "InvalidAccessKeyId").await;
    check("secret", signed(server.reader()), "AccessDenied").await;
    let mut anonymous = access();
    anonymous.api = Api::S3(None);
    check("apps", anonymous, "AccessDenied").await;
    let missing = opened(&server, "missing", signed(server.admin()));
    assert!(!missing.exists().await.unwrap());
}

#[tokio::test]
async fn objects_of_azurite_are_listed_and_fetched() {
    let script = match servers::program(AZURITE_VARIABLE) {
        Ok(script) => script,
        Err(skip) => return eprintln!("{}", skip.0),
    };
    let server = AzuriteServer::start(&script).unwrap();
    for container in ["apps", "other"] {
        server.create(container).unwrap();
    }
    let mut wanted = names();
    for key in &wanted {
        server.put("apps", key, key.as_bytes()).unwrap();
    }
    server.put("other", "hidden.yaml", b"hidden").unwrap();
    wanted.sort();
    // the name of the account is a part of the host, which no resolver knows
    let proxy = git::Proxy::to(&server.authority(), "p", "q").unwrap();
    let stores = Stores::new(Egress::default(), Limits::default());
    let opened = |container: &str, credentials: AzureCredentials| {
        let mut access = access();
        access.api = Api::Azure(credentials);
        access.proxy = Some(Proxy {
            address: proxy.url(),
            credentials: Some(("p".to_owned(), "q".into())),
        });
        stores.open(&server.endpoint(), container, access).unwrap()
    };
    let key = || AzureCredentials::AccountKey(server.key().into());
    let sas = |permissions: &str| AzureCredentials::Sas(server.sas(permissions).into());
    for credentials in [key(), sas("rl")] {
        let bucket = opened("apps", credentials);
        assert!(bucket.exists().await.unwrap());
        let listed = bucket.list("").await.unwrap().objects;
        let mut found: Vec<&str> = listed.iter().map(|object| object.key.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found.len(), wanted.len());
        assert_eq!(found, wanted);
        assert_eq!(keys(&bucket, "dir/x").await.unwrap(), ["dir/x%41.yaml"]);
        for object in listed.iter().filter(|object| !object.key.starts_with("many/")) {
            let mut bytes = Vec::new();
            let etag = bucket.get(&object.key, 100, &mut bytes).await.unwrap();
            assert_eq!(bytes, object.key.as_bytes());
            assert_eq!(bytes.len() as u64, object.size, "{}", object.key);
            // a list tells which objects changed
            assert_eq!(etag, object.etag, "{}", object.key);
        }
        let missing = bucket.get("none.yaml", 100, &mut Vec::new()).await.unwrap_err();
        assert_eq!(missing.reason(), Reason::NotFound, "{missing}");
    }
    let before = opened("apps", key()).list("e.").await.unwrap().objects;
    server.put("apps", "e.yaml", b"changed").unwrap();
    let after = opened("apps", key()).list("e.").await.unwrap().objects;
    assert_ne!(before[0].etag, after[0].etag);

    let check = async |credentials: AzureCredentials, expected: &str| {
        let (reason, text) = keys(&opened("apps", credentials), "").await.unwrap_err();
        assert_eq!(reason, Reason::Authentication, "{text}");
        assert!(text.contains(expected), "{text}");
    };
    let wrong = AzureCredentials::AccountKey("b3RoZXI=".into());
    check(wrong, "(HTTP 403): AuthorizationFailure").await;
    let forged = server.sas("rl").replace("sp=rl", "sp=rwl");
    check(
        AzureCredentials::Sas(forged.into()),
        "(HTTP 403): AuthorizationFailure",
    )
    .await;
    check(sas("w"), "(HTTP 403): AuthorizationPermissionMismatch").await;
    let missing = opened("missing", key());
    assert!(!missing.exists().await.unwrap());
}
