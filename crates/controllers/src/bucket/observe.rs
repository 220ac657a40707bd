//! Observes the artifact in the store, and the objects of the bucket. It only reads, except that the store
//! of artifacts removes a damaged archive.

use equate_api::source::{BucketProvider, BucketStatus};
use equate_bucket::{Access, Object, Reason as Class};
use equate_source::{KeyRules, Limits, Pauses};

use super::Buckets;
use super::decide::{Artifact, Found, Observed};
use super::declared::Declared;
use super::failure;
use super::index::Index;
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
    let (ignore_file, listed) = without_worker(list(cx, declared, &access)).await?;
    let (file, spec) = (ignore_file.clone(), declared.ignore.clone());
    // patterns and keys are a tenant's
    let bucket = declared.bucket.clone();
    let work = move |go_on: &dyn Fn() -> bool| {
        let pauses = Pauses::new(go_on);
        index(listed, file.as_deref(), spec.as_deref(), &pauses).map_err(|why| {
            failure::operation(format!(
                "indexation of objects from bucket '{bucket}' failed: {why}"
            ))
        })
    };
    let (processors, limit) = (&cx.kit.processors, cx.kit.settings.timeout_max);
    let indexed = processors.paced(&declared.key.namespace, limit, work).await;
    let (index, revision) =
        indexed.unwrap_or_else(|error| Err(failure::unfinished(declared, &error, "select objects")))?;
    Ok(Found {
        index,
        revision,
        ignore_file,
        access,
    })
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

/// The `.sourceignore`, and the objects.
async fn list(
    cx: &Buckets,
    declared: &Declared,
    access: &Access,
) -> Result<(Option<Vec<u8>>, Vec<Object>), Failure> {
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
    let listed = bucket.list(&declared.prefix).await;
    let listed = listed.map_err(|error| failure::list(name, &error, limit))?;
    Ok((ignore_file, listed))
}

#[cfg(test)]
mod tests {
    use super::*;

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
