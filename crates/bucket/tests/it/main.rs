//! The client against a store on loopback that computes the signatures itself.

#![expect(clippy::unwrap_used, reason = "tests, also their helpers")]

mod clouds;
mod real;
mod temporary;

use std::time::Duration;

use equate_bucket::{Access, Api, Bucket, Credentials, Limits, Reason, Stores};
use equate_egress::{AddressPolicy, Egress};
use equate_testkit::bucket::{BucketFault, BucketOptions, BucketServer};

fn access() -> Access {
    let mut access = Access::new("apps", Duration::from_secs(30));
    access.insecure = true;
    access.api = Api::S3(Some(Credentials {
        access_key: "access".to_owned(),
        secret_key: "secret/key+1".into(),
    }));
    access
}

fn limited(server: &BucketServer, access: Access, limits: Limits) -> Bucket {
    let stores = Stores::new(Egress::default(), limits);
    stores.open(&server.endpoint(), "apps", access).unwrap()
}

fn opened(server: &BucketServer, access: Access) -> Bucket {
    limited(server, access, Limits::default())
}

/// The keys of a list, or the class and the text of its failure.
async fn keys(bucket: &Bucket, prefix: &str) -> Result<Vec<String>, (Reason, String)> {
    let listed = bucket.list(prefix).await;
    let listed = listed.map_err(|error| (error.reason(), error.to_string()))?;
    Ok(listed.objects.into_iter().map(|object| object.key).collect())
}

#[tokio::test]
async fn objects_are_listed_by_pages_and_fetched() {
    for no_encoding in [false, true] {
        let options = BucketOptions {
            page: 2,
            no_encoding,
            ..BucketOptions::default()
        };
        let server = BucketServer::start(options).unwrap();
        let all = ["a b+c&(d).yaml", "dir/", "dir/ü.yaml", "dir/x%41.yaml", "e.yaml"];
        for key in all {
            server.put(key, key.to_owned());
        }
        let bucket = opened(&server, access());
        assert!(bucket.exists().await.unwrap());
        let mut expected = all.map(str::to_owned).to_vec();
        expected.sort();
        assert_eq!(keys(&bucket, "").await, Ok(expected));
        assert_eq!(keys(&bucket, "dir/x").await, Ok(vec!["dir/x%41.yaml".to_owned()]));
        for key in all.into_iter().filter(|key| !key.ends_with('/')) {
            let mut bytes = Vec::new();
            let etag = bucket.get(key, 100, &mut bytes).await.unwrap();
            assert_eq!(
                (bytes.as_slice(), etag),
                (key.as_bytes(), server.put(key, key.to_owned()))
            );
        }
    }
}

#[tokio::test]
async fn the_region_of_a_bucket_is_found_out() {
    let options = BucketOptions {
        region: "eu-west-1".to_owned(),
        ..BucketOptions::default()
    };
    let server = BucketServer::start(options).unwrap();
    let asked = opened(&server, access());
    assert!(asked.exists().await.unwrap());
    server.take();
    let bucket = opened(&server, access());
    assert_eq!(keys(&bucket, "").await, Ok(Vec::new()));
    let statuses = |server: &BucketServer| -> Vec<String> {
        let last = |request: &String| request.rsplit(' ').next().unwrap_or_default().to_owned();
        server.take().iter().map(last).collect()
    };
    assert_eq!(statuses(&server), ["400", "200"]);
    assert!(bucket.exists().await.unwrap());
    assert_eq!(statuses(&server), ["200"]);
    // one that the user names is not replaced
    let mut wrong = access();
    wrong.region = Some("eu-west-2".to_owned());
    let (reason, text) = keys(&opened(&server, wrong), "").await.unwrap_err();
    assert_eq!(reason, Reason::Failed, "{text}");
    assert!(
        text.contains("AuthorizationHeaderMalformed: the region is wrong"),
        "{text}"
    );
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let server = BucketServer::open().unwrap();
    let check = async |access: Access, reason: Reason, expected: &str| {
        let (found, text) = keys(&opened(&server, access), "").await.unwrap_err();
        assert_eq!(found, reason, "{text}");
        assert!(text.contains(expected), "{text}");
    };
    let mut wrong = access();
    let secret_key = "other".into();
    wrong.api = Api::S3(Some(Credentials {
        access_key: "access".to_owned(),
        secret_key,
    }));
    let text = "cannot list apps: the store refused the credentials (HTTP 403): SignatureDoesNotMatch";
    check(wrong, Reason::Authentication, text).await;
    let mut anonymous = access();
    anonymous.api = Api::S3(None);
    let text = "the store requires credentials (HTTP 403): AccessDenied: Access Denied.";
    check(anonymous, Reason::Authentication, text).await;
    server.fault(BucketFault::Redirect("http://localhost:1/".to_owned()), 1);
    check(access(), Reason::Refused, "the store redirects (HTTP 307)").await;
    server.fault(BucketFault::Status(501), 1);
    check(
        access(),
        Reason::Failed,
        "the store failed (HTTP 501): Fault: a fault",
    )
    .await;

    let stores = Stores::new(Egress::default(), Limits::default());
    let absent = stores.open(&server.endpoint(), "other", access()).unwrap();
    assert!(!absent.exists().await.unwrap());
    let bucket = opened(&server, access());
    let missing = bucket.get("none", 10, &mut Vec::new()).await.unwrap_err();
    assert_eq!(missing.reason(), Reason::NotFound);
    let dots = bucket.get("a/../b", 10, &mut Vec::new()).await.unwrap_err();
    assert!(dots.to_string().contains("a segment '.' or '..'"), "{dots}");
    let guarded = Stores::new(Egress::new(AddressPolicy::default()), Limits::default());
    let endpoint = server.endpoint().replace("localhost", "127.0.0.1");
    let refused = guarded
        .open(&endpoint, "apps", access())
        .unwrap()
        .exists()
        .await
        .unwrap_err();
    assert_eq!(refused.reason(), Reason::Refused);
    let malformed = guarded.open("http://minio", "apps", access()).unwrap_err();
    assert!(
        malformed
            .to_string()
            .contains("is not a host with an optional port"),
        "{malformed}"
    );
}

#[tokio::test]
async fn answers_have_limits() {
    let server = BucketServer::open().unwrap();
    for index in 0..20 {
        server.put(&format!("{index:02}"), "12345678");
    }
    let check = async |limits: Limits, fault: Option<BucketFault>, reason: Reason, expected: &str| {
        if let Some(fault) = fault {
            server.fault(fault, 1000);
        }
        let (found, text) = keys(&limited(&server, access(), limits), "").await.unwrap_err();
        server.heal();
        assert_eq!(found, reason, "{text}");
        assert!(text.contains(expected), "{text}");
    };
    let objects = Limits {
        objects_max: 19,
        ..Limits::default()
    };
    check(
        objects,
        None,
        Reason::TooLarge,
        "it has more than 19 objects; set spec.prefix",
    )
    .await;
    let pages = Limits {
        pages_max: 3,
        ..Limits::default()
    };
    check(
        pages,
        Some(BucketFault::EndlessList),
        Reason::TooLarge,
        "it has more than 3 pages",
    )
    .await;
    let bytes = Limits {
        page_bytes_max: 1000,
        ..Limits::default()
    };
    check(
        bytes,
        None,
        Reason::TooLarge,
        "its list is larger than 1000 bytes",
    )
    .await;
    let list = Limits {
        list_bytes_max: 10_000,
        ..Limits::default()
    };
    check(
        list,
        Some(BucketFault::EndlessList),
        Reason::TooLarge,
        "it has more than 10000 bytes in its list; set spec.prefix",
    )
    .await;
    let texts = Limits {
        // a key of two bytes and an etag of 32, twenty times
        key_bytes_max: 20 * 34 - 1,
        ..Limits::default()
    };
    check(
        texts,
        None,
        Reason::TooLarge,
        "it has more than 679 bytes of keys and etags; set spec.prefix",
    )
    .await;
    let page = "<ListBucketResult><IsTruncated>true</IsTruncated>\
        <NextContinuationToken>x</NextContinuationToken></ListBucketResult>";
    let repeats = Some(BucketFault::List(page.to_owned()));
    check(
        Limits::default(),
        repeats,
        Reason::Malformed,
        "a page of its list repeats",
    )
    .await;
    let html = Some(BucketFault::List("<html>".to_owned()));
    check(
        Limits::default(),
        html,
        Reason::Malformed,
        "its list is malformed",
    )
    .await;

    for (key, etag, token, expected) in [
        (1024, 256, 8 << 10, "a page of its list repeats"),
        (
            1025,
            1,
            1,
            "the key that begins with \"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\" has more than 1024 bytes",
        ),
        (
            1,
            257,
            1,
            "the etag of the key that begins with \"k\" has more than 256 bytes",
        ),
        (1, 1, 8193, "the token of its next page is longer than 8192 bytes"),
    ] {
        let (key, etag, token) = ("k".repeat(key), "e".repeat(etag), "t".repeat(token));
        let page = format!(
            "<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>{key}</Key><ETag>{etag}</ETag></Contents>\
             <NextContinuationToken>{token}</NextContinuationToken></ListBucketResult>"
        );
        let page = Some(BucketFault::List(page));
        check(Limits::default(), page, Reason::Malformed, expected).await;
    }

    let bucket = opened(&server, access());
    let large = bucket.get("00", 7, &mut Vec::new()).await.unwrap_err();
    assert_eq!(large.to_string(), "cannot get 00: it is larger than 7 bytes");
    // once for each attempt
    server.fault(BucketFault::Cut, 3);
    let cut = bucket.get("00", 8, &mut Vec::new()).await.unwrap_err();
    assert_eq!(cut.reason(), Reason::Unreachable, "{cut}");
}

#[tokio::test]
async fn a_list_takes_the_memory_of_answers() {
    let server = BucketServer::open().unwrap();
    for index in 0..300 {
        server.put(&format!("{index:0>1000}"), "12345678");
    }
    server.fault(BucketFault::EndlessList, usize::MAX);
    let limits = Limits {
        pages_max: 5,
        ..Limits::default()
    };
    let egress = Egress::default();
    let opened = Stores::new(egress.clone(), limits).open(&server.endpoint(), "apps", access());
    let bucket = opened.unwrap();
    // all that is there, so that the largest answer ends with the list's second MiB
    let other = egress.memory().hold("other");
    other.add(65 << 20).ok();
    let (_, text) = keys(&bucket, "").await.unwrap_err();
    assert!(text.ends_with("it has more than 5 pages"), "{text}");
    assert!(other.add(0).is_err());
}

#[tokio::test]
async fn a_displaced_list_is_asked_for_again_within_the_time_limit() {
    let server = BucketServer::open().unwrap();
    for index in 0..300 {
        server.put(&format!("{index:0>1000}"), "12345678");
    }
    let egress = Egress::default();
    let opened = |displaced_pause| {
        let limits = Limits {
            displaced_pause,
            ..Limits::default()
        };
        let stores = Stores::new(egress.clone(), limits);
        stores.open(&server.endpoint(), "apps", access()).unwrap()
    };
    // the list is the largest of its owner, and needs more than is left
    let many: Vec<_> = (0..320).map(|_| egress.memory().hold("apps")).collect();
    for held in &many {
        held.add((1 << 20) + (200 << 10)).ok();
    }
    server.fault(BucketFault::EndlessList, usize::MAX);
    let (reason, text) = keys(&opened(Duration::from_secs(3600)), "").await.unwrap_err();
    assert_eq!(reason, Reason::Displaced, "{text}");
    server.heal();
    // it begins anew, so it lacks the pages that were read
    server.fault(BucketFault::EndlessList, 11);
    let found = keys(&opened(Duration::from_millis(1)), "").await.unwrap();
    assert!((1..12 * 300).contains(&found.len()), "{}", found.len());
    assert!(many.iter().all(|held| held.add(0).is_ok()));
}

#[tokio::test]
async fn a_store_that_puts_off_is_asked_again_and_a_silent_one_is_late() {
    let server = BucketServer::open().unwrap();
    server.fault(BucketFault::Status(503), 2);
    assert_eq!(keys(&opened(&server, access()), "").await, Ok(Vec::new()));
    server.fault(BucketFault::Status(503), 3);
    let (_, text) = keys(&opened(&server, access()), "").await.unwrap_err();
    assert!(text.contains("the store limits requests (HTTP 503)"), "{text}");
    server.fault(BucketFault::Silence, 1);
    let mut short = access();
    short.timeout = Duration::from_millis(200);
    let (reason, text) = keys(&opened(&server, short), "").await.unwrap_err();
    assert_eq!(
        (reason, text.contains("it took longer than 0.2s")),
        (Reason::Timeout, true),
        "{text}"
    );
}

#[tokio::test]
async fn certificates_are_checked() {
    let options = BucketOptions {
        tls: true,
        ..BucketOptions::default()
    };
    let server = BucketServer::start(options).unwrap();
    let mut secure = access();
    secure.insecure = false;
    let (reason, text) = keys(&opened(&server, secure.clone()), "").await.unwrap_err();
    assert_eq!(reason, Reason::Tls, "{text}");
    secure.ca = server.certificate().map(|pem| pem.as_bytes().to_vec());
    assert_eq!(keys(&opened(&server, secure), "").await, Ok(Vec::new()));
}
