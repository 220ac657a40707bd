//! kube-rs against the embedded API, in-process: the requests of a controller that keeps a collection.

use equate_apiserver::EmbeddedCluster;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::watch::Bookmark;
use kube::{Client, ResourceExt};
use serde_json::json;

const OURS: &str = "metadata.name!=kube-root-ca.crt";

struct Place {
    cluster: EmbeddedCluster,
    api: Api<ConfigMap>,
}

impl Place {
    async fn start() -> Self {
        let cluster = EmbeddedCluster::builder().build().await.unwrap();
        let client: Client = cluster.client();
        let api = Api::namespaced(client, "default");
        Self { cluster, api }
    }

    async fn create(&self, name: &str) {
        let object = json!({ "metadata": { "name": name }, "data": { "k": "1" } });
        let object = serde_json::from_value(object).unwrap();
        self.api.create(&PostParams::default(), &object).await.unwrap();
    }

    async fn change(&self, name: &str, value: &str) {
        let patch = Patch::Merge(json!({ "data": { "k": value } }));
        self.api
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    async fn delete(&self, name: &str) {
        self.api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// The names of the objects, and the version of the list.
    async fn list(&self) -> (Vec<String>, String) {
        let list = self.api.list(&ListParams::default().fields(OURS)).await.unwrap();
        let names = list.items.iter().map(ResourceExt::name_any).collect();
        (names, list.metadata.resource_version.unwrap())
    }

    async fn watch(&self, from: &str) -> Watch {
        self.watch_with(WatchParams::default(), from).await
    }

    async fn watch_with(&self, params: WatchParams, from: &str) -> Watch {
        let stream = self.api.watch(&params.fields(OURS), from).await.unwrap();
        Watch {
            stream: stream.boxed(),
            version: from.to_owned(),
        }
    }
}

struct Watch {
    stream: BoxStream<'static, kube::Result<WatchEvent<ConfigMap>>>,
    /// A watch that replaces this one starts here.
    version: String,
}

impl Watch {
    async fn next(&mut self) -> String {
        let event = tokio::time::timeout(crate::DEADLINE, self.stream.try_next());
        let event = event.await.expect("no event").unwrap();
        let (kind, object) = match event.expect("the watch ended") {
            WatchEvent::Added(object) => ("added", object),
            WatchEvent::Modified(object) => ("modified", object),
            WatchEvent::Deleted(object) => ("deleted", object),
            WatchEvent::Bookmark(bookmark) => return self.bookmark(bookmark),
            WatchEvent::Error(status) => return format!("error {} {}", status.code, status.reason),
        };
        self.version = object.resource_version().unwrap();
        format!(
            "{kind} {}={}",
            object.name_any(),
            object.data.unwrap_or_default()["k"]
        )
    }

    fn bookmark(&mut self, bookmark: Bookmark) -> String {
        self.version = bookmark.metadata.resource_version;
        let end = bookmark.metadata.annotations.get("k8s.io/initial-events-end");
        format!("bookmark {}", end.map_or("", String::as_str))
    }
}

#[tokio::test]
async fn watch_resumes_at_its_last_version_without_loss() {
    let place = Place::start().await;
    place.create("a").await;
    let (names, version) = place.list().await;
    assert_eq!(names, ["a"]);
    let mut watch = place.watch(&version).await;
    place.create("b").await;
    assert_eq!(watch.next().await, "added b=1");

    let version = watch.version.clone();
    drop(watch);
    place.change("b", "2").await;
    place.delete("a").await;
    let mut watch = place.watch(&version).await;
    assert_eq!(watch.next().await, "modified b=2");
    assert_eq!(watch.next().await, "deleted a=1");
}

#[tokio::test]
async fn watch_of_compacted_history_expires_and_a_list_replaces_it() {
    let place = Place::start().await;
    place.create("a").await;
    let (_, old) = place.list().await;
    place.change("a", "2").await;
    place.create("b").await;
    place.cluster.compact(place.cluster.revision());
    let mut watch = place.watch(&old).await;
    assert_eq!(watch.next().await, "error 410 Expired");

    let (names, version) = place.list().await;
    assert_eq!(names, ["a", "b"]);
    let mut watch = place.watch(&version).await;
    place.change("b", "2").await;
    assert_eq!(watch.next().await, "modified b=2");
}

#[tokio::test]
async fn streaming_list_ends_with_a_bookmark_and_goes_on_as_a_watch() {
    let place = Place::start().await;
    place.create("a").await;
    place.create("b").await;
    let mut watch = place
        .watch_with(WatchParams::default().initial_events(), "0")
        .await;
    assert_eq!(watch.next().await, "added a=1");
    assert_eq!(watch.next().await, "added b=1");
    assert_eq!(watch.next().await, "bookmark true");

    let version = watch.version.clone();
    place.delete("a").await;
    assert_eq!(watch.next().await, "deleted a=1");
    let mut resumed = place.watch(&version).await;
    assert_eq!(resumed.next().await, "deleted a=1");
}
