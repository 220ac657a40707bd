//! An API server that is busy, broken or absent.

use crate::world::{KUSTOMIZATION, World, check, say};
use equate_apply::cluster::{Cluster, Execution};
use equate_apply::id::ObjectId;
use equate_manifest::object::GroupVersionKind;
use http::{Request, Response};
use kube::client::Body;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The answer that replaces the API server's.
#[derive(Clone)]
enum Fault {
    Status(u16, &'static str, &'static str),
    RetryAfter(&'static str),
    Dropped,
    Silent,
}

/// Answers the first requests to a path with faults, then passes requests on. Counts all.
fn faulty(world: &World, faults: Vec<Fault>, path: &'static str) -> (Cluster, Arc<Mutex<usize>>) {
    let faults = Arc::new(Mutex::new(VecDeque::from(faults)));
    let requests = Arc::new(Mutex::new(0));
    let (client, counted) = (world.client.clone(), Arc::clone(&requests));
    let service = tower::service_fn(move |request: Request<Body>| {
        let meant = request.uri().path().contains(path);
        let fault = if meant {
            *counted.lock().unwrap() += 1;
            faults.lock().unwrap().pop_front()
        } else {
            None
        };
        let client = client.clone();
        async move {
            let answer = |code: u16, reason: &str, message: &str| {
                let body = format!(
                    r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","code":{code},"reason":"{reason}","message":"{message}"}}"#
                );
                Response::builder()
                    .status(code)
                    .body(Body::from(body.into_bytes()))
                    .unwrap()
            };
            match fault {
                None => client.send(request).await.map_err(std::io::Error::other),
                Some(Fault::Status(code, reason, message)) => Ok(answer(code, reason, message)),
                Some(Fault::RetryAfter(seconds)) => {
                    let mut response = answer(429, "TooManyRequests", "slow down");
                    response
                        .headers_mut()
                        .insert("retry-after", seconds.parse().unwrap());
                    Ok(response)
                }
                Some(Fault::Silent) => std::future::pending().await,
                Some(Fault::Dropped) => Err(std::io::Error::other("connection reset")),
            }
        }
    });
    (Cluster::new(kube::Client::new(service, "default")), requests)
}

const A: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

async fn applied(faults: Vec<Fault>) -> (String, usize) {
    let mut world = World::start().await;
    let (cluster, requests) = faulty(&world, faults, "/configmaps/");
    let (plan, desired) = world.plan(A).await;
    let owner = world.owner.clone();
    let options = world.options(&owner);
    let execution = Execution::new(&options);
    let applied = cluster.apply_stage(&plan.stages[0], &desired, &execution).await;
    let mut text = plan.to_string();
    say(&mut text, &applied);
    let requests = *requests.lock().unwrap();
    (text.replacen("create ConfigMap/default/a\n", "", 1), requests)
}

#[tokio::test(start_paused = true)]
async fn transient_failures_are_retried() {
    let created = "= ConfigMap/default/a created";
    let conflict = Fault::Status(409, "Conflict", "the object has been modified");
    for (what, fault) in [
        ("409", conflict),
        ("429", Fault::RetryAfter("1")),
        (
            "429 without a time",
            Fault::Status(429, "TooManyRequests", "slow down"),
        ),
        (
            "500",
            Fault::Status(500, "InternalError", "etcdserver: leader changed"),
        ),
        (
            "503",
            Fault::Status(503, "ServiceUnavailable", "apiserver not ready"),
        ),
        ("dropped", Fault::Dropped),
        (
            "a webhook that does not answer",
            Fault::Status(500, "InternalError", "failed calling webhook x: timeout"),
        ),
    ] {
        let (text, requests) = applied(vec![fault.clone(), fault]).await;
        check(what, &text, created);
        assert_eq!(requests, 3, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn permanent_failures_are_reported_and_not_retried() {
    let check_one = async |fault: Fault, expected: &str, tried: usize| {
        let (text, requests) = applied(vec![fault.clone(); 50]).await;
        check(
            expected,
            &text,
            &format!("! ConfigMap/default/a from apps.yaml: {expected}"),
        );
        assert_eq!(requests, tried, "{expected}");
    };
    check_one(
        Fault::Status(403, "Forbidden", "configmaps is forbidden"),
        "not allowed: configmaps is forbidden",
        1,
    )
    .await;
    check_one(
        Fault::Status(403, "Forbidden", "exceeded quota: small"),
        "quota exceeded: exceeded quota: small",
        1,
    )
    .await;
    check_one(
        Fault::Status(401, "Unauthorized", "who?"),
        "not authenticated: who?",
        1,
    )
    .await;
    check_one(
        Fault::Status(400, "BadRequest", "admission webhook x denied the request: no"),
        "admission webhook: admission webhook x denied the request: no",
        1,
    )
    .await;
    // told to retry later than an apply may take
    check_one(
        Fault::RetryAfter("60"),
        "the API server asks to retry later: slow down",
        1,
    )
    .await;
    // patience of 3 seconds: 0, 50, 150, 350, 750, 1550 ms
    check_one(
        Fault::Status(503, "ServiceUnavailable", "not ready"),
        "the API server failed with 503: not ready",
        6,
    )
    .await;
}

/// Admission policies refuse with the same code and reason.
#[tokio::test(start_paused = true)]
async fn missing_rights_are_the_authorizers_refusals() {
    let world = World::start().await;
    let id = ObjectId::new("", "ConfigMap", "default", "a");
    let check_one = async |message: &'static str, expected: Result<bool, &str>| {
        let fault = Fault::Status(403, "Forbidden", message);
        let (cluster, _) = faulty(&world, vec![fault], "/configmaps/");
        let may = cluster
            .may_write(&KUSTOMIZATION, &id, "v1", Duration::from_secs(10))
            .await;
        let may = may.map_err(|error| error.to_string());
        assert_eq!(may, expected.map_err(str::to_owned), "{message}");
    };
    check_one(
        "configmaps a is forbidden: User x cannot patch resource configmaps in API group",
        Ok(false),
    )
    .await;
    check_one(
        "configmaps a is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
        Ok(true),
    )
    .await;
    check_one(
        "users x is forbidden: User us cannot impersonate resource users",
        Err("not allowed: users x is forbidden: User us cannot impersonate resource users"),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn unresponsive_api_servers_are_not_asked_for_every_object() {
    let mut world = World::start().await;
    let (cluster, requests) = faulty(&world, vec![Fault::Dropped; 10_000], "/configmaps/");
    let many: String = (0..40)
        .map(|at| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{at}}}\n"))
        .collect();
    let (plan, desired) = world.plan(&many).await;
    let owner = world.owner.clone();
    let options = world.options(&owner);
    let applied = cluster
        .apply_stage(&plan.stages[0], &desired, &Execution::new(&options))
        .await;
    let mut text = String::new();
    say(&mut text, &applied);
    let silent = text.matches("the API server cannot be reached").count();
    let untried = text.matches("skipped: the API server does not answer").count();
    assert_eq!(silent + untried, 40, "{text}");
    assert_eq!(silent, 8, "as many as are written at once");
    assert_eq!(*requests.lock().unwrap(), 8 * 6);
}

#[tokio::test(start_paused = true)]
async fn a_missing_kind_is_asked_for_once_a_second_at_most() {
    let world = World::start().await;
    let (cluster, requests) = faulty(&world, Vec::new(), "/apis/example.org");
    let gvk = GroupVersionKind::new("example.org", "v1", "Gadget");
    let miss = async || {
        for _ in 0..50 {
            assert!(cluster.resolve(&gvk).await.is_err());
        }
        *requests.lock().unwrap()
    };
    assert_eq!(miss().await, 1);
    tokio::time::advance(Duration::from_millis(900)).await;
    assert_eq!(miss().await, 1);
    tokio::time::advance(Duration::from_millis(200)).await;
    assert_eq!(miss().await, 2);
    // an expected kind is waited for, but not for ever
    cluster.expect_change("example.org");
    let before = tokio::time::Instant::now();
    assert!(cluster.resolve(&gvk).await.is_err());
    let waited = before.elapsed();
    assert!(
        Duration::from_secs(2) < waited && waited < Duration::from_secs(3),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn silent_discovery_ends_for_all_callers_at_once_and_heals() {
    let world = World::start().await;
    let (cluster, requests) = faulty(&world, vec![Fault::Silent], "/apis");
    let gvk = GroupVersionKind::new("apps", "v1", "Deployment");
    let before = tokio::time::Instant::now();
    let callers = (0..20).map(|_| cluster.resolve(&gvk));
    for answer in futures::future::join_all(callers).await {
        let error = std::error::Error::source(&answer.unwrap_err())
            .unwrap()
            .to_string();
        assert_eq!(error, "no answer within 10s");
    }
    assert_eq!(before.elapsed().as_secs(), 10);
    assert_eq!(*requests.lock().unwrap(), 1, "all wait for one request");
    assert!(cluster.resolve(&gvk).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn discovery_that_fails_in_passing_is_tried_again() {
    let mut world = World::start().await;
    let (plan, desired) = world.plan(A).await;
    let unready = Fault::Status(503, "ServiceUnavailable", "not ready");
    let (cluster, requests) = faulty(&world, vec![unready; 2], "/apis");
    let owner = world.owner.clone();
    let options = world.options(&owner);
    let applied = cluster
        .apply_stage(&plan.stages[0], &desired, &Execution::new(&options))
        .await;
    let mut text = String::new();
    say(&mut text, &applied);
    check("discovery", &text, "= ConfigMap/default/a created");
    assert_eq!(*requests.lock().unwrap(), 3);
}
