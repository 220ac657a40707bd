//! Tests with a real server: downloads, their number, and the error messages.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State as Given};
use axum::http::{Response, StatusCode, header};
use axum::routing::get;
use equate_egress::Egress;
use equate_source::{Limits, Place, Publisher};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::*;
use crate::kit::processors::Threads;
use crate::kit::sessions::Sessions;
use crate::kit::tenants::Tenants;

const DEADLINE: Duration = Duration::from_secs(60);

struct Site {
    answers: Mutex<HashMap<String, Vec<Answer>>>,
    asked: AtomicUsize,
}

#[derive(Clone)]
enum Answer {
    Archive(Vec<u8>),
    Status(u16),
    To(String),
    /// Fewer bytes than promised.
    Half(Vec<u8>),
}

impl Site {
    /// Serves answers, each path its own in turn, the last for ever. Returns the address.
    async fn serve(answers: Vec<(&str, Vec<Answer>)>) -> (Arc<Site>, String) {
        let answers = answers.into_iter().map(|(path, list)| (path.to_owned(), list));
        let site = Arc::new(Site {
            answers: Mutex::new(answers.collect()),
            asked: AtomicUsize::new(0),
        });
        let router = Router::new()
            .route("/{file}", get(answer))
            .with_state(Arc::clone(&site));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        (site, format!("http://{address}"))
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

async fn answer(Given(site): Given<Arc<Site>>, Path(file): Path<String>) -> Response<Body> {
    site.asked.fetch_add(1, Ordering::SeqCst);
    let answer = {
        let mut answers = site.answers.lock().unwrap();
        match answers.get_mut(&file) {
            None => Answer::Status(404),
            Some(list) if list.len() > 1 => list.remove(0),
            Some(list) => list[0].clone(),
        }
    };
    let response = Response::builder();
    match answer {
        Answer::Archive(bytes) => response.body(Body::from(bytes)),
        Answer::Status(status) => response
            .status(StatusCode::from_u16(status).unwrap())
            .body(Body::empty()),
        Answer::To(url) => response
            .status(302)
            .header(header::LOCATION, url)
            .body(Body::empty()),
        Answer::Half(bytes) => {
            let broken = futures::stream::iter([Ok(bytes), Err(std::io::Error::other("cut"))]);
            response.body(Body::from_stream(broken))
        }
    }
    .unwrap()
}

fn archive(content: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.yaml"), content).unwrap();
    let tree = Tree::from_directory(
        folder.path(),
        &equate_source::Ignore::new(None),
        &Limits::default(),
    )
    .unwrap();
    let mut bytes = Vec::new();
    tree.write_archive(&mut bytes, &Limits::default()).unwrap();
    bytes
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{hex}")
}

fn publisher() -> Publisher {
    Publisher::new(Place::new("Bucket", "ns", "app").unwrap(), "1")
}

struct Fetching {
    artifacts: Artifacts,
    arrived: mpsc::UnboundedReceiver<ObjectRef>,
    folder: tempfile::TempDir,
}

impl Fetching {
    fn new(retries: u32) -> Fetching {
        Self::below(tempfile::tempdir().unwrap(), retries)
    }

    fn below(folder: tempfile::TempDir, retries: u32) -> Fetching {
        let settings = Settings {
            cache: Cache::open(folder.path().to_owned()).unwrap(),
            retries,
            jitter: Jitter::none(),
            processors: Processors::new(2, Tenants::default(), Threads::Own),
            sessions: Sessions::default(),
            attempt_max: TimeLimit::of(ATTEMPT_MAX, Duration::MAX),
            egress: Egress::default(),
        };
        let (send, arrived) = mpsc::unbounded_channel();
        let mut artifacts = Artifacts::new(settings, move |key| drop(send.send(key))).unwrap();
        let shared = Arc::get_mut(&mut artifacts.shared).unwrap();
        shared.pause.first = Duration::from_millis(1);
        Fetching {
            artifacts,
            arrived,
            folder,
        }
    }

    fn get(&self, reader: &str, digest: &str, url: &str) -> ArtifactState {
        let publisher = publisher();
        let ask = ArtifactRequest {
            publisher: &publisher,
            digest,
            url,
            retry: Duration::from_secs(3600),
            token: None,
        };
        self.artifacts
            .get(&ObjectRef::new("Kustomization", "ns", reader), ask)
    }

    /// Asks again after each wake, until there is an answer.
    async fn settled(&mut self, reader: &str, digest: &str, url: &str) -> ArtifactState {
        loop {
            match self.get(reader, digest, url) {
                ArtifactState::Coming(_) => {
                    let woken = tokio::time::timeout(DEADLINE, self.arrived.recv());
                    woken.await.expect("a reader is woken");
                }
                settled => return settled,
            }
        }
    }
}

fn message(found: ArtifactState) -> String {
    match found {
        ArtifactState::Here(tree) => format!("here: {:?}", tree.read("a.yaml").unwrap()),
        ArtifactState::Coming(error) => format!("coming: {error:?}"),
        ArtifactState::Failed(gone, why) => format!("{}{why}", if gone { "gone: " } else { "" }),
    }
}

#[tokio::test]
async fn an_archive_is_fetched_once_for_all_readers() {
    let bytes = archive("a: 1");
    let (site, base) = Site::serve(vec![("a", vec![Answer::Archive(bytes.clone())])]).await;
    let (digest, url) = (digest(&bytes), format!("{base}/a"));
    let mut fetching = Fetching::new(0);
    for reader in 0..50 {
        fetching.get(&format!("r{reader}"), &digest, &url);
    }
    for reader in 0..50 {
        let found = fetching.settled(&format!("r{reader}"), &digest, &url).await;
        assert_eq!(message(found), r#"here: b"a: 1""#);
    }
    assert_eq!(site.asked(), 1);

    // a restart reads the cache
    let mut again = Fetching::below(fetching.folder, 0);
    assert_eq!(
        message(again.settled("r", &digest, &url).await),
        r#"here: b"a: 1""#
    );
    assert_eq!(site.asked(), 1);

    // an artifact without readers is removed
    again
        .artifacts
        .release(&ObjectRef::new("Kustomization", "ns", "r"));
    let kept = || std::fs::read_dir(again.folder.path()).unwrap().count();
    let gone = async || if kept() == 0 { Ok(()) } else { Err(kept()) };
    equate_testkit::eventually::eventually("the archive goes", DEADLINE, gone).await;
    assert_eq!(
        message(again.settled("r", &digest, &url).await),
        r#"here: b"a: 1""#
    );
    assert_eq!(site.asked(), 2);
}

#[tokio::test]
async fn download_errors_say_the_cause_and_the_remedy() {
    let good = archive("a: 1");
    let (other, elsewhere) = Site::serve(vec![("a", vec![Answer::Archive(good.clone())])]).await;
    let away = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let (_site, base) = Site::serve(vec![
        ("refused", vec![Answer::Status(403)]),
        ("busy", vec![Answer::Status(503)]),
        ("other", vec![Answer::Archive(archive("b: 2"))]),
        ("off", vec![Answer::To(format!("{elsewhere}/a"))]),
        ("on", vec![Answer::To("/good".to_owned())]),
        ("round", vec![Answer::To("/round".to_owned())]),
        ("good", vec![Answer::Archive(good.clone())]),
        (
            "later",
            vec![
                Answer::Status(502),
                Answer::Half(good[..9].into()),
                Answer::Archive(good.clone()),
            ],
        ),
        ("text", vec![Answer::Archive(b"no archive".into())]),
    ])
    .await;
    let wanted = digest(&good);
    let reconcile = "the archive does not match the digest in the source's status and was not unpacked; reconcile the source";
    let gone = "its source publishes a newer one when it is reconciled: annotate the source with \
                reconcile.fluxcd.io/requestedAt";
    let address = "check status.artifact.url of the source";
    let here = r#"here: b"a: 1""#;
    let table = [
        (format!("{base}/good"), &*wanted, here.to_owned()),
        (format!("{base}/on"), &wanted, here.to_owned()),
        (format!("{base}/later"), &wanted, here.to_owned()),
        (
            format!("{base}/none"),
            &wanted,
            format!("gone: Source is not ready, artifact not found: {base}/none does not exist (any more); {gone}"),
        ),
        (
            format!("{base}/refused"),
            &wanted,
            format!("failed to download archive from {base}/refused (status: 403 Forbidden)"),
        ),
        (
            format!("{base}/busy"),
            &wanted,
            format!("failed to download archive from {base}/busy (status: 503 Service Unavailable)"),
        ),
        (
            format!("{base}/other"),
            &wanted,
            format!("failed to verify archive: computed digest doesn't match provided '{wanted}'; {reconcile}"),
        ),
        (
            format!("{base}/off"),
            &wanted,
            format!(
                "failed to download archive from {base}/off (status: 302 Found): only redirects on the same host \
                 are allowed; {address}"
            ),
        ),
        (
            format!("{base}/round"),
            &wanted,
            format!(
                "failed to download archive from {base}/round (status: 302 Found): only redirects on the same \
                 host are allowed; {address}"
            ),
        ),
        (
            format!("{base}/text"),
            &digest(b"no archive"),
            format!(
                "failed to download archive from {base}/text: failed to extract archive: not a complete tar.gz \
                 archive: invalid gzip header; exclude files from the artifact, or repair its producer"
            ),
        ),
        (
            "ftp://host/a".to_owned(),
            &wanted,
            format!("failed to download archive: \"ftp://host/a\" is not an http or https URL; {address}"),
        ),
        (
            format!("{base}/good"),
            "md5:abc",
            "failed to verify archive: failed to parse digest 'md5:abc': unsupported digest algorithm, use sha256, \
             sha384, sha512 or blake3; check status.artifact.digest of the source"
                .to_owned(),
        ),
    ];
    for (url, digest, expected) in table {
        let mut fetching = Fetching::new(2);
        assert_eq!(
            message(fetching.settled("r", digest, &url).await),
            expected,
            "{url}"
        );
    }
    assert_eq!(other.asked(), 0, "no other host is asked");
    let mut fetching = Fetching::new(1);
    let unreachable = message(fetching.settled("r", &wanted, &format!("{away}/a")).await);
    assert!(
        unreachable.starts_with(&format!("failed to download archive: GET {away}/a: "))
            && unreachable.ends_with("; check that the source's controller runs and is reachable from here"),
        "{unreachable}"
    );
}

#[tokio::test]
async fn a_password_in_an_address_is_not_shown() {
    let (_site, base) = Site::serve(Vec::new()).await;
    let url = base.replace("http://", "http://me:hunter2@");
    let mut fetching = Fetching::new(0);
    let found = message(fetching.settled("r", &digest(b""), &format!("{url}/none")).await);
    assert!(
        found.contains(&format!("{base}/none")) && !found.contains("hunter2"),
        "{found}"
    );
}

#[tokio::test]
async fn a_failed_download_is_retried_after_a_request_or_a_new_address() {
    let bytes = archive("a: 1");
    let (site, base) = Site::serve(vec![
        (
            "a",
            vec![
                Answer::Status(404),
                Answer::Status(404),
                Answer::Archive(bytes.clone()),
            ],
        ),
        ("b", vec![Answer::Status(403)]),
    ])
    .await;
    let digest = digest(&bytes);
    let (a, b) = (format!("{base}/a"), format!("{base}/b"));
    let mut fetching = Fetching::new(0);
    let publisher = publisher();
    let ask = |token, url| ArtifactRequest {
        publisher: &publisher,
        digest: &digest,
        url,
        retry: Duration::from_secs(3600),
        token,
    };
    let key = ObjectRef::new("Kustomization", "ns", "r");
    fetching.settled("r", &digest, &a).await;
    // reading the state sends no request
    assert!(matches!(
        fetching.get("r", &digest, &a),
        ArtifactState::Failed(true, _)
    ));
    assert_eq!(site.asked(), 1);
    // another address does
    fetching.settled("r", &digest, &b).await;
    assert_eq!(site.asked(), 2);
    // and so does a request to reconcile, once
    fetching.artifacts.get(&key, ask(Some("now"), &b));
    let woken = tokio::time::timeout(DEADLINE, fetching.arrived.recv());
    woken.await.unwrap();
    assert!(matches!(
        fetching.artifacts.get(&key, ask(Some("now"), &b)),
        ArtifactState::Failed(false, _)
    ));
    assert_eq!(site.asked(), 3);
    fetching.settled("r", &digest, &a).await;
    fetching.artifacts.get(&key, ask(Some("again"), &a));
    assert_eq!(
        message(fetching.settled("r", &digest, &a).await),
        r#"here: b"a: 1""#
    );
}

#[tokio::test]
async fn readers_with_different_addresses_do_not_restart_each_other() {
    let gone = || vec![Answer::Status(404), Answer::Status(404)];
    let (site, base) = Site::serve(vec![("a", gone()), ("b", gone())]).await;
    let digest = digest(b"");
    let (a, b) = (format!("{base}/a"), format!("{base}/b"));
    let mut fetching = Fetching::new(0);
    fetching.settled("one", &digest, &a).await;
    fetching.settled("two", &digest, &b).await;
    for _ in 0..5 {
        for (reader, url) in [("one", &a), ("two", &b)] {
            let found = fetching.get(reader, &digest, url);
            assert!(matches!(found, ArtifactState::Failed(true, _)), "{reader}");
        }
    }
    assert_eq!(site.asked(), 2);
}

#[tokio::test]
async fn readers_of_two_kinds_with_one_name_are_two() {
    let archive = archive("a: 1");
    let digest = digest(&archive);
    let (_site, base) = Site::serve(vec![("a", vec![Answer::Archive(archive)])]).await;
    let url = format!("{base}/a");
    let mut fetching = Fetching::new(0);
    let publisher = publisher();
    let ask = || ArtifactRequest {
        publisher: &publisher,
        digest: &digest,
        url: &url,
        retry: Duration::from_secs(3600),
        token: None,
    };
    let release = ObjectRef::new("HelmRelease", "ns", "r");
    fetching.artifacts.get(&release, ask());
    fetching.settled("r", &digest, &url).await;
    fetching
        .artifacts
        .release(&ObjectRef::new("Kustomization", "ns", "r"));
    let found = fetching.artifacts.get(&release, ask());
    assert!(
        matches!(found, ArtifactState::Here(_)),
        "the other still reads it"
    );
}

#[tokio::test]
async fn a_digest_opens_no_artifact_of_another_source() {
    let bytes = archive("a: 1");
    let (site, base) = Site::serve(vec![("a", vec![Answer::Archive(bytes.clone())])]).await;
    let (digest, url) = (digest(&bytes), format!("{base}/a"));
    let mut fetching = Fetching::new(0);
    fetching.settled("own", &digest, &url).await;
    let other = Publisher::new(Place::new("Bucket", "team-a", "app").unwrap(), "2");
    let missing = format!("{base}/none");
    let ask = || ArtifactRequest {
        publisher: &other,
        digest: &digest,
        url: &missing,
        retry: Duration::from_secs(3600),
        token: None,
    };
    let reader = ObjectRef::new("Kustomization", "team-a", "r");
    fetching.artifacts.get(&reader, ask());
    let woken = tokio::time::timeout(DEADLINE, fetching.arrived.recv());
    woken.await.expect("the reader is woken");
    let found = fetching.artifacts.get(&reader, ask());
    assert!(matches!(found, ArtifactState::Failed(true, _)), "{found:?}");
    assert_eq!(site.asked(), 2);
}
