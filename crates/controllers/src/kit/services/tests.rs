//! Callers that ask the kit for something at once.

use std::collections::{BTreeSet, HashMap};
use std::future::pending;
use std::sync::Barrier;
use std::time::Duration;

use equate_api::kustomize::Kustomization;
use equate_git::{Limits, Mirrors};
use equate_source::{Retention, Storage};
use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::{Kit, Parts, Settings};
use crate::kit::backoff::Jitter;
use crate::kit::events::{Limits as EventLimits, Recorder};
use crate::kit::feed::Pace;
use crate::kit::processors::Threads;
use crate::kit::tenants::Tenants;
use crate::{Key, ObjectRef, Policy, Shards};

/// A kit whose API server never answers.
fn kit(folder: &std::path::Path) -> Kit {
    let silent = |_: http::Request<Body>| pending::<Result<http::Response<Body>, std::io::Error>>();
    let client = Client::new(tower::service_fn(silent), "default");
    let parts = Parts {
        storage: Storage::open(folder.join("a"), "http://127.0.0.1:9", Retention::default()).unwrap(),
        git: Mirrors::new(folder.join("git"), Limits::default()),
        recorder: Recorder::start(client.clone(), EventLimits::default()),
        client,
        settings: Settings {
            unreconciled: BTreeSet::new(),
            root: None,
            default_namespace: None,
            poll: None,
            http_retries: 0,
            pace: Pace::default(),
            jitter: Jitter::none(),
            interval_jitter: 0.0,
            dependency_retry: Duration::from_secs(1),
            policy: Policy::default(),
            shards: Shards::default(),
            egress: equate_egress::Egress::default(),
            tenants: Tenants::default(),
            timeout_max: Duration::MAX,
            threads: Threads::Own,
            background: None,
        },
        configuration: HashMap::new(),
        kinds: BTreeSet::new(),
    };
    Kit::new(parts).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_object_is_reported_as_throttled_once_in_five_minutes() {
    let folder = tempfile::tempdir().unwrap();
    let kit = kit(folder.path());
    let report = |name: &str| kit.report_throttled(ObjectRef::of("GitRepository", &Key::new("a", name)));
    assert!(report("one"));
    assert!(!report("one"));
    assert!(report("two"));
    tokio::time::advance(Duration::from_secs(299)).await;
    assert!(!report("one"));
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(report("one"));
}

#[tokio::test]
async fn all_who_ask_first_get_the_same_mirror() {
    const ASKERS: usize = 8;
    let object = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": { "name": "a", "namespace": "default", "resourceVersion": "1" },
        "spec": { "interval": "1m", "prune": true, "sourceRef": { "kind": "GitRepository", "name": "a" } },
    });
    let object: Kustomization = serde_json::from_value(object).unwrap();
    // two that ask at once do not always meet
    for _ in 0..100 {
        let folder = tempfile::tempdir().unwrap();
        let (kit, barrier) = (kit(folder.path()), Barrier::new(ASKERS));
        let mirrors: Vec<_> = std::thread::scope(|scope| {
            let ask = || {
                barrier.wait();
                kit.mirror::<Kustomization>()
            };
            let asked: Vec<_> = (0..ASKERS).map(|_| scope.spawn(ask)).collect();
            asked.into_iter().map(|asked| asked.join().unwrap()).collect()
        });
        mirrors[0].note(object.clone());
        let key = Key::new("default", "a");
        assert!(mirrors.iter().all(|mirror| mirror.get(&key).is_some()));
    }
}
