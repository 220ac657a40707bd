//! No answer of an API server to discovery, a list or a watch makes the controllers panic, hang or grow
//! without bound.
#![no_main]

use bytes::Bytes;
use equate_apply::cluster::Cluster;
use equate_controllers::kit::backoff::Jitter;
use equate_controllers::kit::feed::{self, Change, Collection, Item, ListLimits, Pace};
use equate_controllers::{AnswerLimits, LimitLayer};
use equate_manifest::object::GroupVersionKind;
use http_body_util::Full;
use kube::Client;
use kube::client::Body;
use kube::core::DynamicObject;
use libfuzzer_sys::fuzz_target;
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tower::{Layer as _, ServiceBuilder};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime starts")
});

const LISTS: ListLimits = ListLimits {
    pages: 8,
    objects: 100,
    bytes: 64 << 10,
    time: Duration::from_secs(5),
    events: 50,
    events_per_second: 1_000,
};

/// The parts of the input, each an answer with status 200; the server is silent afterwards.
fn client(data: &[u8], ended: &Arc<Notify>) -> Client {
    let parts: VecDeque<Bytes> = data.split(|byte| *byte == 0).map(Bytes::copy_from_slice).collect();
    let (parts, ended) = (Arc::new(Mutex::new(parts)), Arc::clone(ended));
    let service = tower::service_fn(move |_: http::Request<Body>| {
        let part = parts.lock().expect("nothing panics with it").pop_front();
        let ended = Arc::clone(&ended);
        async move {
            match part {
                Some(part) => Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(part))),
                None => {
                    ended.notify_one();
                    std::future::pending().await
                }
            }
        }
    });
    let limits = AnswerLimits {
        bytes: 4 << 10,
        discovery_bytes: 4 << 10,
        event_bytes: 1 << 10,
        ..AnswerLimits::FOREIGN
    };
    let service = ServiceBuilder::new().service(LimitLayer(limits).layer(service));
    Client::new(service, "default")
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let ended = Arc::new(Notify::new());
    RUNTIME.block_on(async {
        let client = client(rest, &ended);
        tokio::select! {
            () = ended.notified() => {}
            () = tokio::time::sleep(Duration::from_millis(200)) => {}
            () = async {
                match kind % 2 {
                    0 => discover(client).await,
                    _ => follow(client).await,
                }
            } => {}
        }
    });
});

async fn discover(client: Client) {
    let cluster = Cluster::new(client);
    for group in ["", "apps"] {
        let kind = GroupVersionKind {
            group: group.to_owned(),
            version: "v1".to_owned(),
            kind: "Thing".to_owned(),
        };
        drop(cluster.resolve(&kind).await);
        drop(cluster.resolve_any_version(&kind).await);
    }
}

async fn follow(client: Client) {
    let collection = Collection {
        client,
        path: "/api/v1/configmaps".to_owned(),
        labels: None,
        fields: None,
        metadata: false,
    };
    let pace = Pace {
        jitter: Jitter::seeded(1),
        lists: LISTS,
        ..Pace::default()
    };
    let failed = Arc::new(Notify::new());
    let failure = Arc::clone(&failed);
    let read = |object: DynamicObject| {
        let text = object.metadata.resource_version.unwrap_or_default();
        let version = text.parse().map_err(|_| text)?;
        Ok(Item { version, value: () })
    };
    let deliver = move |change: Change<()>| match change {
        Change::Listed(_, items) => assert!(items.len() <= LISTS.objects),
        Change::Failed(_) | Change::Unserved => failure.notify_one(),
        Change::Applied(_) | Change::Deleted(_) | Change::Bookmark(_) => {}
    };
    tokio::select! {
        () = feed::follow(collection, pace, Arc::new(Notify::new()), read, deliver) => {}
        () = failed.notified() => {}
    }
}
