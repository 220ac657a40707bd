//! The records of a release in the cluster, read and written with the release's rights.
//!
//! A record that this controller writes has an annotation that names the HelmRelease, its generation and the
//! action, until Helm or another controller writes it: they replace the whole object. So a pending record with
//! our annotation is an operation of ours that was interrupted, and nobody has touched it since. A finished
//! one that the status does not have is an operation whose outcome was not reported.

use std::time::Duration;

use equate_apply::cluster::{ApplyError, Cluster, Propagation, Write};
use equate_apply::id::ObjectId;
use equate_helm::release::{
    Driver, History, Release, Revision, Stamp, Status, Summary, from_object, key, to_object,
};
use equate_manifest::object::{GroupVersionKind, Object};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::declared::Declared;
use super::{HELM_RELEASE, HelmReleases};
use crate::kit::processors::{JobError, Processors};
use crate::kit::read::chain;
use crate::targets::target::Access;

const ANSWER: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(3);
/// Names the operation that made a record.
const OPERATION: &str = "helm.equate.dev/operation";

/// Why records cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StorageError {
    /// The API server refused the request or did not answer.
    #[error("{0}")]
    Cluster(String),
    /// A record cannot be decoded or encoded.
    #[error("{0}")]
    Record(String),
    /// The record exists already.
    #[error("release: already exists")]
    Exists,
    /// The record was deleted meanwhile.
    #[error("release: not found")]
    Gone,
}

/// The records of one release.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Storage<'a> {
    pub(crate) cluster: &'a Cluster,
    /// The namespace of the records.
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// A record is as large as the tenant's chart makes it: it is packed and unpacked there. A command has no
    /// tenants.
    processors: Option<(&'a Processors, &'a str)>,
}

/// A record, and whether this controller wrote it last.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) release: Release,
    /// The owner of the operation that made it.
    pub(crate) operation: Option<String>,
}

/// A revision as its labels say, and the version of its object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) revision: Revision,
    pub(crate) resource_version: String,
}

impl From<ApplyError> for StorageError {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Conflict { message } if message.contains("already exists") => Self::Exists,
            ApplyError::Refused { code: 404, .. } => Self::Gone,
            error => Self::Cluster(chain(&error)),
        }
    }
}

impl From<JobError> for StorageError {
    fn from(error: JobError) -> Self {
        Self::Record(error.to_string())
    }
}

impl<'a> Storage<'a> {
    /// The records of a HelmRelease.
    pub(crate) fn of(cx: &'a HelmReleases, declared: &'a Declared, access: &'a Access) -> Self {
        Self {
            cluster: &access.cluster,
            namespace: &declared.storage,
            name: &declared.name,
            processors: Some((&cx.kit.processors, &declared.key.namespace)),
        }
    }

    /// The records of a release, for a command.
    pub(crate) fn of_command(cluster: &'a Cluster, declared: &'a Declared) -> Self {
        Self {
            cluster,
            namespace: &declared.storage,
            name: &declared.name,
            processors: None,
        }
    }

    /// The records of another release, with the same rights.
    pub(crate) fn named(self, namespace: &'a str, name: &'a str) -> Self {
        Self {
            namespace,
            name,
            ..self
        }
    }

    /// The revisions, oldest first.
    pub(crate) async fn list(&self) -> Result<Vec<Stored>, StorageError> {
        let labels = format!("name={},owner=helm", self.name);
        let listed = self
            .cluster
            .list(&secret(), self.namespace, (&labels, true), ANSWER)
            .await?;
        let mut found: Vec<Stored> = listed
            .into_iter()
            .filter_map(|object| {
                let object = Value::Object(object.0);
                let summary = Summary::of(&object)?;
                let version = object.get("metadata")?.get("resourceVersion")?.as_str()?;
                (summary.name == self.name).then(|| Stored {
                    revision: (&summary).into(),
                    resource_version: version.to_owned(),
                })
            })
            .collect();
        found.sort_by_key(|stored| stored.revision.version);
        Ok(found)
    }

    /// A revision; `None` if it is gone.
    pub(crate) async fn get(&self, version: u64) -> Result<Option<Record>, StorageError> {
        let id = self.id(version);
        let Some(object) = self.cluster.get(&id, "v1", ANSWER).await? else {
            return Ok(None);
        };
        let annotations = object.metadata().and_then(|metadata| metadata.get("annotations"));
        let operation = annotations.and_then(|annotations| annotations.get(OPERATION)?.as_str());
        let operation = operation.map(str::to_owned);
        let value = Value::Object(object.0);
        let release = self
            .work_on(move || from_object(&value))
            .await?
            .map_err(|error| StorageError::Record(format!("record {}: {}", id.name, chain(&error))))?;
        Ok(Some(Record { release, operation }))
    }

    /// Works on a record where the tenant's work is done.
    pub(crate) async fn work_on<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, StorageError> {
        match self.processors {
            Some((processors, tenant)) => Ok(processors.run(tenant, work).done().await?),
            None => Ok(work()),
        }
    }

    /// Stores a new revision, after removing those over the maximum.
    pub(crate) async fn create(
        &self,
        release: &Release,
        operation: &str,
        known: &[Stored],
        revisions_max: usize,
    ) -> Result<Record, StorageError> {
        let history: History = known.iter().map(|stored| stored.revision.clone()).collect();
        for version in history.forgotten(revisions_max) {
            self.delete(version).await?;
        }
        let now = Timestamp::now().as_second();
        let record = Record {
            release: release.clone(),
            operation: Some(operation.to_owned()),
        };
        let object = self.object(&record, Stamp::Created(now)).await?;
        self.write(release.version, Write::Create(&object)).await?;
        Ok(record)
    }

    /// Replaces a revision; the version of its object.
    pub(crate) async fn update(&self, record: &Record) -> Result<Option<String>, StorageError> {
        let stamp = Stamp::Modified(Timestamp::now().as_second());
        let object = self.object(record, stamp).await?;
        self.write(record.release.version, Write::Replace(&object)).await
    }

    /// Deletes a revision.
    pub(crate) async fn delete(&self, version: u64) -> Result<(), StorageError> {
        self.write(version, Write::Delete(Propagation::Background))
            .await
            .map(drop)
    }

    async fn write(&self, version: u64, write: Write<'_>) -> Result<Option<String>, StorageError> {
        let id = self.id(version);
        let written = self
            .cluster
            .write(&HELM_RELEASE, (&id, "v1"), write, (ANSWER, PATIENCE));
        let written = written.await?;
        let metadata = written.as_ref().and_then(|written| written.object.metadata());
        let version = metadata.and_then(|metadata| metadata.get("resourceVersion")?.as_str());
        Ok(version.map(str::to_owned))
    }

    async fn object(&self, record: &Record, stamp: Stamp) -> Result<Object, StorageError> {
        let (release, namespace) = (record.release.clone(), self.namespace.to_owned());
        let packing = self.work_on(move || to_object(&release, Driver::Secret, &namespace, stamp));
        let packed = packing.await?;
        let mut object = packed.map_err(|error| StorageError::Record(chain(&error)))?;
        if let Some(operation) = record
            .operation
            .as_ref()
            .filter(|_| is_last(&record.release.info.status))
        {
            object["metadata"]["annotations"] = json!({ OPERATION: operation });
        }
        Object::from_value(object).ok_or_else(|| StorageError::Record("a record is not an object".to_owned()))
    }

    fn id(&self, version: u64) -> ObjectId {
        ObjectId::new("", "Secret", self.namespace, &key(self.name, version))
    }
}

/// Whether a release may end with a record of this status.
fn is_last(status: &Status) -> bool {
    status.is_pending() || matches!(status, Status::Uninstalling | Status::Deployed | Status::Failed)
}

fn secret() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "Secret")
}
