use super::{Event, Selectors, WatchError, watch_at};
use axum::body::Body;
use equate_controllers::kit::backoff::{Backoff, Jitter};
use equate_controllers::kit::feed::Pace;
use futures::StreamExt;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn object(name: &str, version: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "resourceVersion": version.to_string() },
    })
}

fn list(version: u64, items: &[Value]) -> (u16, String) {
    let list = json!({ "metadata": { "resourceVersion": version.to_string() }, "items": items });
    (200, list.to_string())
}

fn events(events: &[(&str, Value)]) -> (u16, String) {
    let lines = events
        .iter()
        .map(|(kind, object)| format!("{}\n", json!({ "type": kind, "object": object })));
    (200, lines.collect())
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message,
    })
}

fn refusal(code: u16, reason: &str, message: &str) -> (u16, String) {
    (code, status(code, reason, message).to_string())
}

/// Answers the requests in order, and checks which of them are watches and from where. Watches of the last
/// answer stay open.
async fn check(answers: Vec<(&'static str, (u16, String))>, expected: &[&str]) {
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let next = answers.lock().unwrap().pop_front();
        async move {
            let Some((asked, (code, text))) = next else {
                return std::future::pending().await;
            };
            let query = request.uri().query().unwrap_or_default();
            let from = query
                .split('&')
                .find_map(|part| part.strip_prefix("resourceVersion="));
            let request = match query.contains("watch=true") {
                true => format!("watch {}", from.unwrap_or_default()),
                false => "list".to_owned(),
            };
            assert_eq!(request, asked);
            let response = Response::builder().status(code).body(Body::from(text));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    let api: Api<ConfigMap> = Api::namespaced(Client::new(service, "default"), "default");
    let pace = Pace {
        backoff: Backoff {
            first: Duration::from_millis(1),
            max: Duration::from_millis(1),
        },
        jitter: Jitter::none(),
        ..Pace::default()
    };
    let mut stream = pin!(watch_at(&api, Selectors::named("a"), pace));
    for expected in expected {
        let event = tokio::time::timeout(Duration::from_secs(60), stream.next()).await;
        assert_eq!(describe(event.unwrap().unwrap()), *expected);
    }
}

fn describe(event: Result<Event<ConfigMap>, WatchError>) -> String {
    match event {
        Ok(Event::Listed(items)) => {
            let names: Vec<String> = items.iter().map(|item| item.value.name_any()).collect();
            format!("listed {}", names.join(" "))
        }
        Ok(Event::Applied(item)) => format!("applied {} {}", item.value.name_any(), item.version),
        Ok(Event::Deleted(item)) => format!("deleted {} {}", item.value.name_any(), item.version),
        Err(error) => {
            // kube adds the answer as a Rust value
            let line = error.line();
            format!("error {}", line.split(" (Status").next().unwrap())
        }
    }
}

#[tokio::test]
async fn closed_watch_resumes_at_its_last_version() {
    let answers = vec![
        ("list", list(5, &[object("a", 3)])),
        ("watch 5", events(&[("MODIFIED", object("a", 6))])),
        ("watch 6", events(&[("DELETED", object("a", 8))])),
    ];
    check(answers, &["listed a", "applied a 6", "deleted a 8"]).await;
}

#[tokio::test]
async fn expired_watch_lists_again() {
    let expired = status(410, "Expired", "too old resource version: 5 (7)");
    let answers = vec![
        ("list", list(5, &[object("a", 3)])),
        ("watch 5", events(&[("ERROR", expired)])),
        ("list", list(9, &[])),
        ("watch 9", events(&[("ADDED", object("a", 10))])),
    ];
    check(answers, &["listed a", "listed ", "applied a 10"]).await;
}

#[tokio::test]
async fn failures_are_shown_and_retried() {
    let path = "/api/v1/namespaces/default/configmaps";
    let answers = vec![
        ("list", refusal(403, "Forbidden", "configmaps is forbidden")),
        ("list", refusal(404, "NotFound", "the server could not find it")),
        ("list", list(5, &[object("a", 3)])),
        ("watch 5", refusal(500, "InternalError", "try again")),
        ("watch 5", events(&[("MODIFIED", object("a", 6))])),
    ];
    let expected = [
        &format!("error cannot list {path}: ApiError: configmaps is forbidden: Forbidden"),
        &format!("error the cluster does not serve {path}"),
        "listed a",
        &format!("error cannot watch {path}: ApiError: try again: InternalError"),
        "applied a 6",
    ];
    check(answers, &expected).await;
}
