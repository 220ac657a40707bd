//! One of several processes works, and the next begins when that one is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use equate_controllers::kit::lease::{Held, LeaseConfig};
use equate_testkit::apiserver::EmbeddedCluster;
use equate_testkit::eventually::eventually;
use equate_testkit::faults::{Fault, Faults, Rule, Verb};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use crate::session::{DEADLINE, Session};

const NAME: &str = "kustomize-controller-leader-election";

fn terms(identity: &str) -> LeaseConfig {
    LeaseConfig::new("default", NAME, identity)
}

async fn spec(client: &Client) -> LeaseSpec {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    leases.get(NAME).await.unwrap().spec.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_lease_passes_to_the_next_process() {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let (client, runtime) = (cluster.client(), Handle::current());
    let first = Held::acquire(client.clone(), terms("first"), &runtime).await;
    assert_eq!(spec(&client).await.holder_identity.as_deref(), Some("first"));

    // while it is renewed, nobody else gets it
    let waits = Held::acquire(client.clone(), terms("second"), &runtime);
    let mut waits = std::pin::pin!(waits);
    assert!(timeout(Duration::from_secs(600), &mut waits).await.is_err());
    assert!(timeout(Duration::ZERO, first.lost()).await.is_err());

    // after a release the next gets it at once
    first.release().await;
    let asked = Instant::now();
    let second = waits.await;
    assert!(asked.elapsed() <= Duration::from_secs(5), "{:?}", asked.elapsed());
    let now = spec(&client).await;
    assert_eq!(
        (now.holder_identity.as_deref(), now.lease_transitions),
        (Some("second"), Some(1))
    );

    // another process took it nevertheless, as by hand: it is lost
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    let taken = json!({ "spec": { "holderIdentity": "third", "leaseDurationSeconds": 35 } });
    leases
        .patch(NAME, &PatchParams::default(), &Patch::Merge(taken))
        .await
        .unwrap();
    timeout(Duration::from_secs(6), second.lost()).await.unwrap();

    // a holder that vanished is awaited for the lease's duration
    let asked = Instant::now();
    let fourth = Held::acquire(client.clone(), terms("fourth"), &runtime).await;
    let waited = asked.elapsed();
    assert!(
        waited > Duration::from_secs(35) && waited <= Duration::from_secs(41),
        "{waited:?}"
    );
    drop(fourth);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn work_ends_before_another_may_begin() {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let (faults, runtime) = (Faults::seeded(1), Handle::current());
    let held = Held::acquire(faults.wrap(&cluster.client()), terms("first"), &runtime).await;
    let other = Held::acquire(cluster.client(), terms("second"), &runtime);
    let (mut other, mut lost) = (std::pin::pin!(other), std::pin::pin!(held.lost()));
    // the API server answers one process and not the other
    faults.add(Rule::new(Verb::Any, "leases", Fault::Unreachable));
    let begun = Instant::now();
    tokio::select! {
        () = &mut lost => {}
        _ = &mut other => panic!("two hold it"),
    }
    assert!(begun.elapsed() <= Duration::from_secs(30));
    other.await;
    assert!(begun.elapsed() > Duration::from_secs(30));
    cluster.stop().await;
}

/// On a clock of its own, so that it may be a real API server: of concurrent candidates one works at a
/// time, also after the API server stops answering one of them.
#[tokio::test]
async fn of_concurrent_candidates_one_works_at_a_time() {
    const MANY: usize = 4;
    let session = Session::anywhere(&[]).await;
    let working = Arc::new(AtomicUsize::new(0));
    let turn = async |number: usize| {
        let faults = Faults::seeded(1);
        let terms = LeaseConfig {
            namespace: session.home.clone(),
            // long enough that no renewal is late on a busy machine
            duration: Duration::from_secs(15),
            renew: Duration::from_secs(12),
            retry: Duration::from_millis(500),
            ..terms(&number.to_string())
        };
        let held = Held::acquire(faults.wrap(&session.client), terms, &Handle::current()).await;
        assert_eq!(working.fetch_add(1, Ordering::SeqCst), 0, "two work");
        let leases: Api<Lease> = Api::namespaced(session.client.clone(), &session.home);
        let renewed = async || {
            let spec = leases.get(NAME).await.map_err(|error| error.to_string())?.spec;
            let spec = spec.unwrap_or_default();
            match spec.renew_time > spec.acquire_time {
                true if spec.holder_identity == Some(number.to_string()) => Ok(()),
                _ => Err(format!("{spec:?}")),
            }
        };
        eventually("it is renewed", DEADLINE, renewed).await;
        match number {
            0 => {
                faults.add(Rule::new(Verb::Any, "leases", Fault::Unreachable));
                timeout(DEADLINE, held.lost()).await.unwrap();
                working.fetch_sub(1, Ordering::SeqCst);
            }
            _ => {
                working.fetch_sub(1, Ordering::SeqCst);
                held.release().await;
            }
        }
    };
    let turns = futures::future::join_all((0..MANY).map(turn));
    timeout(2 * DEADLINE, turns).await.unwrap();
    let leases: Api<Lease> = Api::namespaced(session.client.clone(), &session.home);
    let spec = leases.get(NAME).await.unwrap().spec.unwrap();
    assert_eq!(spec.lease_transitions, Some(MANY as i32 - 1), "{spec:?}");
    session.end().await;
}
