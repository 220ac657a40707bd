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
        ..Pace::default()
    };
    let (sender, mut changes) = tokio::sync::mpsc::unbounded_channel();
    let read = |_: DynamicObject| {
        Ok(Item {
            version: 1,
            value: (),
        })
    };
    let deliver = move |change: Change<()>| {
        let text = match change {
            Change::Listed(_, items) => format!("listed {}", items.len()),
            Change::Applied(_) => "applied".to_owned(),
            Change::Failed(error) => error.to_string(),
            other => format!("{other:?}"),
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
