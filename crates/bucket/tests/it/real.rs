//! The client against SeaweedFS, which checks signatures and rights as S3 does.
//!
//! `cargo xtask test-peers` names the program; without it the tests print a line and are skipped.

use equate_bucket::{Access, Api, Bucket, Credentials, Limits, Reason, Stores};
use equate_egress::Egress;
use equate_testkit::servers::{self, SEAWEEDFS_VARIABLE, SeaweedFsServer};

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

#[tokio::test]
async fn objects_of_a_real_store_are_listed_and_fetched() {
    let program = match servers::program(SEAWEEDFS_VARIABLE) {
        Ok(program) => program,
        Err(skip) => return eprintln!("{}", skip.0),
    };
    let server = SeaweedFsServer::start(&program, "apps").unwrap();
    // more than the thousand keys of one page
    let mut wanted: Vec<String> = (0..1_005)
        .map(|number| format!("many/{number:04}.yaml"))
        .collect();
    wanted.extend(["a b+c&(d).yaml", "dir/ü.yaml", "dir/x%41.yaml", "e.yaml"].map(str::to_owned));
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
    let listed = listed.unwrap();
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
