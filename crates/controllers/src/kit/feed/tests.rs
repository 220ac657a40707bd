use super::*;

use std::future::Future;
use std::sync::Mutex;

use http::{Request as HttpRequest, Response};
use kube::client::Body;
use kube::core::DynamicObject;

const LIMITS: ListLimits = ListLimits {
    pages: 10,
    objects: 50,
    bytes: 8_000,
    time: Duration::from_secs(30),
    events: 40,
    events_per_second: 20,
};

type Asked = Arc<Mutex<Vec<String>>>;

/// A client of a server with this answer to the query of its n-th request.
fn client<F>(asked: &Asked, answer: impl Fn(usize, String) -> F + Clone + Send + Sync + 'static) -> Client
where
    F: Future<Output = Body> + Send + 'static,
{
    let asked = Arc::clone(asked);
    let service = tower::service_fn(move |request: HttpRequest<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let number = {
            let mut asked = asked.lock().unwrap();
            asked.push(query.clone());
            asked.len()
        };
        let answer = answer.clone();
        async move { Ok::<_, std::convert::Infallible>(Response::new(answer(number, query).await)) }
    });
    Client::new(service, "default")
}

fn page(objects: usize, padding: usize, token: &str) -> Body {
    let items: Vec<String> = (0..objects)
        .map(|number| {
            let padding = "x".repeat(padding);
            format!(r#"{{"metadata":{{"name":"o{number}{padding}","resourceVersion":"1"}}}}"#)
        })
        .collect();
    let text = format!(
        r#"{{"metadata":{{"resourceVersion":"1","continue":"{token}"}},"items":[{}]}}"#,
        items.join(",")
    );
    Body::from(text.into_bytes())
}

/// The first changes that a feed of this server delivers.
async fn changes(client: Client, count: usize) -> Vec<String> {
    changes_of(client, count, None, || ()).await
}

async fn changes_of<U: Send>(
    client: Client,
    count: usize,
    memory: Option<ListMemory>,
    value: impl Fn() -> U + Send,
) -> Vec<String> {
    let collection = Collection {
        client,
        path: "/api/v1/configmaps".to_owned(),
        labels: None,
        fields: None,
        metadata: false,
    };
    let pace = Pace {
        jitter: Jitter::seeded(3),
        lists: LIMITS,
        memory,
        ..Pace::default()
    };
    let (sender, mut changes) = tokio::sync::mpsc::unbounded_channel();
    let read = move |_: DynamicObject| {
        Ok(Item {
            version: 1,
            value: value(),
        })
    };
    let deliver = move |change: Change<U>| {
        let text = match change {
            Change::Listed(_, items) => format!("listed {}", items.len()),
            Change::Applied(_) => "applied".to_owned(),
            Change::Failed(error) => error.to_string(),
            Change::Deleted(_) => "deleted".to_owned(),
            Change::Bookmark(version) => format!("bookmark {version}"),
            Change::Unserved => "unserved".to_owned(),
        };
        sender.send(text).ok();
    };
    let feed = follow(collection, pace, Arc::new(Notify::new()), read, deliver);
    let mut all = Vec::new();
    tokio::select! {
        () = feed => {}
        () = async {
            while all.len() < count {
                all.extend(changes.recv().await);
            }
        } => {}
    }
    all
}

#[tokio::test(start_paused = true)]
async fn a_list_without_end_is_an_error_that_names_the_limit() {
    let check = async |objects: usize, padding: usize, token: fn(usize) -> String, expected: &str| {
        let asked = Asked::default();
        let client = client(&asked, move |number, _| async move {
            page(objects, padding, &token(number))
        });
        let failed = changes(client, 1).await;
        assert_eq!(
            failed,
            [format!("cannot list /api/v1/configmaps: the list {expected}")]
        );
        assert!(asked.lock().unwrap().len() <= LIMITS.pages + 1);
    };
    let other = |number: usize| number.to_string();
    check(0, 0, other, "has more than 10 pages, the limit").await;
    check(20, 0, other, "has more than 50 objects, the limit").await;
    check(5, 1_000, other, "has more than 8000 bytes, the limit").await;
    let same = |_: usize| "again".to_owned();
    let repeats = "repeats a page, so it has no end; report it to the operator of the API server";
    check(1, 0, same, repeats).await;
    // one page is counted, too
    check(51, 0, |_| String::new(), "has more than 50 objects, the limit").await;
}

#[tokio::test(start_paused = true)]
async fn a_list_has_a_deadline_for_all_its_pages() {
    let client = client(&Asked::default(), |number, _| async move {
        tokio::time::sleep(Duration::from_secs(9)).await;
        page(1, 0, &number.to_string())
    });
    assert_eq!(
        changes(client, 1).await,
        ["cannot list /api/v1/configmaps: the list is not complete after 30s, the limit"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_of_the_largest_size_is_read() {
    let client = client(&Asked::default(), |number, query| async move {
        match query.contains("watch=true") {
            true => std::future::pending().await,
            false if number == 5 => page(10, 0, ""),
            false => page(10, 0, &number.to_string()),
        }
    });
    assert_eq!(changes(client, 1).await, ["listed 50"]);
}

#[tokio::test(start_paused = true)]
async fn largest_list_ends_when_all_need_too_much_memory() {
    const ITEM: usize = 64 << 10;
    let check = async |others: u64, expected: &str| {
        let client = client(&Asked::default(), |number, query| async move {
            match query.contains("watch=true") {
                true => std::future::pending().await,
                false if number % 5 == 0 => page(10, 0, ""),
                false => page(10, 0, &number.to_string()),
            }
        });
        let memory = Memory::default();
        let others: Vec<_> = (0..others).map(|other| memory.hold(&other.to_string())).collect();
        others
            .iter()
            .for_each(|other| assert!(other.add(4 << 20).is_ok()));
        let shared = ListMemory {
            memory,
            namespace: "team-a".into(),
        };
        assert_eq!(
            Box::pin(changes_of(client, 1, Some(shared), || [0_u8; ITEM])).await,
            [expected]
        );
        assert!(others.iter().all(|other| other.add(0).is_ok()));
    };
    check(19, "listed 50").await;
    let ended = "was ended, because all answers together need too much memory; it is read again later";
    check(20, &format!("cannot list /api/v1/configmaps: the list {ended}")).await;
}

#[tokio::test(start_paused = true)]
async fn list_ends_while_it_waits_for_a_page() {
    let client = client(&Asked::default(), |number, _| async move {
        match number {
            1..5 => page(10, 0, &number.to_string()),
            _ => std::future::pending().await,
        }
    });
    let memory = Memory::default();
    let shared = ListMemory {
        memory: memory.clone(),
        namespace: "team-a".into(),
    };
    let value = || [0_u8; 64 << 10];
    let began = Instant::now();
    let (failed, ()) = tokio::join!(Box::pin(changes_of(client, 1, Some(shared), value)), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let small: Vec<_> = (0..32).map(|_| memory.hold("team-a")).collect();
        small.iter().for_each(|small| assert!(small.add(3 << 20).is_ok()));
    });
    assert!(
        failed[0].contains("all answers together need too much memory"),
        "{failed:?}"
    );
    assert_eq!(began.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_only_adds_is_listed_again() {
    let asked = Asked::default();
    let client = client(&asked, |_, query| async move {
        if !query.contains("watch=true") {
            return page(1, 0, "");
        }
        let line = r#"{"type":"ADDED","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new","resourceVersion":"2"}}}"#;
        let text = format!("{line}\n").repeat(1_000);
        Body::from(text.into_bytes())
    });
    let begun = Instant::now();
    let seen = changes(client, 2 * (LIMITS.events + 1) + 1).await;
    let lists: Vec<usize> = (0..seen.len()).filter(|at| seen[*at] == "listed 1").collect();
    assert_eq!(lists, [0, LIMITS.events + 1, 2 * (LIMITS.events + 1)]);
    let asked: Vec<bool> = asked
        .lock()
        .unwrap()
        .iter()
        .map(|query| query.contains("watch=true"))
        .collect();
    assert_eq!(asked[..5], [false, true, false, true, false]);
    // 80 events at 20 a second
    assert_eq!(begun.elapsed().as_secs(), 4);
}
