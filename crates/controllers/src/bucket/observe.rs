//! Observes the artifact in the store, and the objects of the bucket. It only reads, except that the store
//! of artifacts removes a damaged archive.

use std::sync::Arc;
use std::time::Duration;

use equate_api::source::{BucketProvider, BucketStatus};
use equate_bucket::{Access, Bucket, Listing, Object, Reason as Class};
use equate_source::{KeyRules, Limits, Pauses};
use tokio::time::Instant;

use super::Buckets;
use super::decide::{Artifact, Found, Observed};
use super::declared::Declared;
use super::failure;
use super::index::Index;
use crate::kit::processors::Processors;
use crate::kit::queue::without_worker;
use crate::sources::failure::Failure;
use crate::sources::store::{Form, is_stored};

/// The object with ignore rules. It is no part of the revision.
pub(super) const IGNORE_FILE: &str = ".sourceignore";

/// Observes the store of artifacts, then that of objects.
pub(super) async fn observe(cx: &Buckets, declared: &Declared, status: BucketStatus) -> Observed {
    let artifact = match status.artifact.clone() {
        None => Artifact::None,
        Some(artifact) => {
            let stored = is_stored(&cx.kit.storage, &declared.publisher, artifact, Form::Tree);
            match stored.await {
                true => Artifact::Stored,
                false => Artifact::Lost,
            }
        }
    };
    let found = match cx.access(declared).await {
        Ok(access) => find(cx, declared, access).await,
        Err(failure) => Err(failure),
    };
    Observed {
        status,
        artifact,
        found,
    }
}

async fn find(cx: &Buckets, declared: &Declared, access: Access) -> Result<Found, Failure> {
    let unlisted = |error| failure::list(&declared.bucket, &error, cx.limit(declared));
    let asking = async {
        let (bucket, ignore_file) = open(cx, declared, &access).await?;
        let listed = bucket.list(&declared.prefix).await.map_err(unlisted)?;
        Ok::<_, Failure>((bucket, ignore_file, listed, Instant::now()))
    };
    let (bucket, ignore_file, mut listed, mut listed_at) = without_worker(asking).await?;
    let (processors, limit) = (&cx.kit.processors, cx.kit.settings.timeout_max);
    let mut again = bucket.again();
    let (index, revision) = loop {
        let file = ignore_file.clone();
        if let Some(done) = selected(processors, limit, declared, file, listed).await {
            break done?;
        }
        // it may have waited for others
        bucket.extend(listed_at.elapsed());
        let asking = async {
            bucket.pause_displaced(&mut again).await?;
            let listed = bucket.list(&declared.prefix).await?;
            Ok((listed, Instant::now()))
        };
        (listed, listed_at) = without_worker(asking).await.map_err(unlisted)?;
    };
    Ok(Found {
        index,
        revision,
        ignore_file,
        access,
    })
}

/// The objects that are not ignored; `None` if the list was displaced.
async fn selected(
    processors: &Processors,
    limit: Duration,
    declared: &Declared,
    file: Option<Vec<u8>>,
    listed: Listing,
) -> Option<Result<(Index, String), Failure>> {
    let Listing { objects, held } = listed;
    let held = Arc::new(held);
    let (until_end, spec, bucket) = (
        Arc::clone(&held),
        declared.ignore.clone(),
        declared.bucket.clone(),
    );
    // patterns and keys are a tenant's
    let work = move |go_on: &dyn Fn() -> bool| {
        let indexed = index(objects, file.as_deref(), spec.as_deref(), &Pauses::new(go_on));
        drop(until_end);
        indexed.map_err(|why| {
            failure::operation(format!(
                "indexation of objects from bucket '{bucket}' failed: {why}"
            ))
        })
    };
    tokio::select! {
        biased;
        () = held.over() => None,
        indexed = processors.paced(&declared.key.namespace, limit, work) => {
            let unfinished = |error| Err(failure::unfinished(declared, &error, "select objects"));
            Some(indexed.unwrap_or_else(unfinished))
        }
    }
}

/// The objects that are not ignored, and their revision.
fn index(
    listed: Vec<Object>,
    file: Option<&[u8]>,
    spec: Option<&str>,
    pauses: &Pauses<'_>,
) -> Result<(Index, String), String> {
    let file = file.map(String::from_utf8_lossy);
    let patterns_max = Limits::default().ignore_patterns_max;
    let rules = KeyRules::new(file.as_deref(), spec, patterns_max);
    let rules = rules.map_err(|limit| format!("{IGNORE_FILE} and spec.ignore: {limit}"))?;
    let mut index = Index::default();
    for object in listed {
        let is_file = !object.key.ends_with('/') && object.key != IGNORE_FILE;
        if is_file
            && !rules
                .excludes(&object.key, pauses)
                .map_err(|stopped| stopped.to_string())?
        {
            index.0.insert(object.key, object.etag);
        }
    }
    let revision = index.revision();
    Ok((index, revision))
}

/// The bucket, and its `.sourceignore`.
async fn open(
    cx: &Buckets,
    declared: &Declared,
    access: &Access,
) -> Result<(Bucket, Option<Vec<u8>>), Failure> {
    let (name, limit) = (&declared.bucket, cx.limit(declared));
    let bucket = cx.open(declared, access)?;
    // before the store is asked: a wrong password is tried once
    let authenticated = bucket.authenticate().await;
    authenticated.map_err(|error| match declared.provider {
        BucketProvider::Aws => failure::authenticate(&error, limit),
        _ => failure::exists(name, &error, limit),
    })?;
    let exists = bucket.exists().await;
    if !exists.map_err(|error| failure::exists(name, &error, limit))? {
        return Err(failure::absent(name));
    }
    let mut text = Vec::new();
    let bytes_max = Limits::default().ignore_bytes_max;
    let ignore_file = match bucket.get(IGNORE_FILE, bytes_max, &mut text).await {
        Ok(_) => Some(text),
        Err(error) if error.reason() == Class::NotFound => None,
        Err(error) => return Err(failure::ignore_file(&error, limit)),
    };
    Ok((bucket, ignore_file))
}

#[cfg(test)]
mod tests {
    use equate_egress::Memory;
    use serde_json::json;
    use tokio::runtime::Handle;

    use super::*;
    use crate::kit::processors::Threads;
    use crate::kit::tenants::Tenants;

    #[tokio::test]
    async fn objects_take_memory_until_they_are_selected() {
        let object = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "Bucket",
            "metadata": { "name": "apps", "namespace": "team-a" },
            "spec": { "bucketName": "apps", "endpoint": "minio.example", "interval": "1m" },
        });
        let object: equate_api::source::Bucket = serde_json::from_value(object).unwrap();
        let declared = Declared::try_from(&object).unwrap();
        let processors = Processors::of_machine(Tenants::default(), Threads::Runtime(Handle::current()));
        let (memory, whole) = (Memory::default(), 65 << 20);
        let select = || {
            let held = memory.hold("team-a");
            held.add(whole).unwrap();
            let objects = Vec::new();
            let listed = Listing { objects, held };
            selected(&processors, Duration::from_secs(60), &declared, None, listed)
        };
        assert!(matches!(select().await, Some(Ok(_))));
        let other = memory.hold("team-b");
        assert_eq!(other.add(whole), Ok(whole));
        other.clear();
        let selecting = select();
        other.add(2 << 20).ok();
        assert!(selecting.await.is_none());
    }

    #[test]
    fn the_selection_of_objects_is_limited_and_ends() {
        let object = |number: usize| Object {
            key: format!("{}/{number}", "a".repeat(250)),
            etag: "1".to_owned(),
            size: 0,
        };
        let listed = |objects: usize| (0..objects).map(object).collect::<Vec<Object>>();
        let patterns = |lines: usize| "b\n".repeat(lines);
        let file = patterns(6000);
        let select = |spec: usize, go_on: &dyn Fn() -> bool| {
            let spec = patterns(spec);
            index(listed(3), Some(file.as_bytes()), Some(&spec), &Pauses::new(go_on))
        };
        assert_eq!(select(4000, &|| true).map(|(index, _)| index.0.len()), Ok(3));
        let error = select(4001, &|| true).unwrap_err();
        assert_eq!(
            error,
            ".sourceignore and spec.ignore: more than 10000 ignore patterns"
        );
        assert_eq!(select(4000, &|| false).unwrap_err(), "it was stopped");
    }
}
