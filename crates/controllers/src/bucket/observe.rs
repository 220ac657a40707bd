//! Observes the artifact in the store, and the objects of the bucket. It only reads, except that the store
//! of artifacts removes a damaged archive.

use equate_api::meta::Reason;
use equate_api::source::{BucketProvider, BucketStatus};
use equate_bucket::{Access, Object, Reason as Class};
use equate_source::{KeyRules, Limits};

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
    let indexing = cx.kit.processors.run(&declared.key.namespace, move || {
        let file = file.as_deref().map(String::from_utf8_lossy);
        let rules = KeyRules::new(file.as_deref(), spec.as_deref());
        let objects = listed.into_iter().filter(|object| {
            !object.key.ends_with('/') && object.key != IGNORE_FILE && !rules.excludes(&object.key)
        });
        let index = Index(objects.map(|object| (object.key, object.etag)).collect());
        let revision = index.revision();
        (index, revision)
    });
    let indexed = indexing.done().await;
    let (index, revision) =
        indexed.map_err(|_| Failure::broken(Reason::BucketOperationFailed, &declared.key))?;
    Ok(Found {
        index,
        revision,
        ignore_file,
        access,
    })
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
