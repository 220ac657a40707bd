//! Watches the objects of a kind, as a stream over the controllers' feed.
//!
//! The feed reconnects and lists again by itself, with a backoff, until the stream is dropped.

use crate::failure::chain;
use equate_controllers::kit::feed::{Change, Collection, FeedError, Item, Pace, follow};
use futures::{Stream, StreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::future;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};

/// Selects the objects to watch; by default all.
#[derive(Debug, Default)]
pub(crate) struct Selectors {
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
}

impl Selectors {
    pub(crate) fn named(name: &str) -> Self {
        Self {
            fields: Some(format!("metadata.name={name}")),
            ..Self::default()
        }
    }
}

#[derive(Debug)]
pub(crate) enum Event<K> {
    /// All objects: the first event, and again after a gap.
    Listed(Vec<Item<K>>),
    Applied(Item<K>),
    Deleted(Item<K>),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    #[error("the cluster does not serve {0}")]
    NotServed(String),
    #[error(transparent)]
    Feed(#[from] FeedError),
}

impl WatchError {
    /// The error and its causes in one line.
    pub(crate) fn line(&self) -> String {
        chain(self)
    }
}

/// Watches objects; an error does not end the stream.
pub(crate) fn watch<K>(
    api: &Api<K>,
    selectors: Selectors,
) -> impl Stream<Item = Result<Event<K>, WatchError>> + Send + use<K>
where
    K: Resource + DeserializeOwned + Clone + Send + 'static,
{
    watch_at(api, selectors, Pace::default())
}

fn watch_at<K>(
    api: &Api<K>,
    selectors: Selectors,
    pace: Pace,
) -> impl Stream<Item = Result<Event<K>, WatchError>> + Send + use<K>
where
    K: Resource + DeserializeOwned + Clone + Send + 'static,
{
    let path = api.resource_url().to_owned();
    changes(api, selectors, pace).filter_map(move |change| {
        future::ready(match change {
            Change::Listed(_, items) => Some(Ok(Event::Listed(items))),
            Change::Applied(item) => Some(Ok(Event::Applied(item))),
            Change::Deleted(item) => Some(Ok(Event::Deleted(item))),
            Change::Bookmark(_) => None,
            Change::Unserved => Some(Err(WatchError::NotServed(path.clone()))),
            Change::Failed(error) => Some(Err(error.into())),
        })
    })
}

/// The feed's changes. It is polled only when all earlier changes are taken, so nothing piles up.
fn changes<K>(api: &Api<K>, selectors: Selectors, pace: Pace) -> impl Stream<Item = Change<K>> + Send + use<K>
where
    K: Resource + DeserializeOwned + Clone + Send + 'static,
{
    let collection = Collection {
        client: api.clone().into_client(),
        path: api.resource_url().to_owned(),
        labels: selectors.labels,
        fields: selectors.fields,
        metadata: false,
    };
    let read = |value: K| {
        let text = value.resource_version().unwrap_or_default();
        let version = text.parse().map_err(|_| text)?;
        Ok(Item { version, value })
    };
    let (sender, mut changes) = mpsc::unbounded_channel();
    let deliver = move |change| {
        // the receiver lives as long as the feed
        let _received = sender.send(change);
    };
    let mut feed = Box::pin(follow(collection, pace, Arc::new(Notify::new()), read, deliver));
    stream::poll_fn(move |context| {
        if changes.is_empty() {
            let _never_ends = feed.as_mut().poll(context);
        }
        changes.poll_recv(context)
    })
}

/// Watches one object: `None` while it does not exist.
pub(crate) fn watch_object<K>(
    api: &Api<K>,
    name: &str,
) -> impl Stream<Item = Result<Option<K>, WatchError>> + Send + use<K>
where
    K: Resource + DeserializeOwned + Clone + Send + 'static,
{
    watch(api, Selectors::named(name)).map(|event| {
        event.map(|event| match event {
            Event::Listed(mut items) => items.pop().map(|item| item.value),
            Event::Applied(item) => Some(item.value),
            Event::Deleted(_) => None,
        })
    })
}

/// Waits until the object exists and the condition holds. Fails with the first error.
pub(crate) async fn wait_until<K>(
    api: &Api<K>,
    name: &str,
    holds: impl Fn(&K) -> bool,
) -> Result<(), WatchError>
where
    K: Resource + DeserializeOwned + Clone + Send + 'static,
{
    let mut states = pin!(watch_object(api, name));
    while let Some(state) = states.next().await {
        if state?.is_some_and(|object| holds(&object)) {
            break;
        }
    }
    Ok(())
}

/// Whether the kind of a CRD is served.
pub(crate) fn is_established(definition: &CustomResourceDefinition) -> bool {
    let status = definition.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    conditions
        .unwrap_or_default()
        .iter()
        .any(|condition| condition.type_ == "Established" && condition.status == "True")
}

#[cfg(test)]
mod tests;
