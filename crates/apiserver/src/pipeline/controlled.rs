//! Writes of controllers, through the same pipeline as clients'.

use super::subresource::scheduled;
use super::{Api, Body, BodyKind, Cx, Endpoint, PatchKind, Target, body};
use crate::auth::Identity;
use crate::controllers::{Action, Cluster, Served};
use crate::http::options::{DeleteOptions, FieldValidation, WriteOptions};
use crate::status::ApiError;
use crate::store::{Change, CommitError, Expect, Key, Snapshot, Store};
use bytes::Bytes;
use equate_manifest::object::GroupVersion;
use serde_json::{Value, json};
use std::sync::Arc;

impl Cluster for Api {
    fn store(&self) -> &Store {
        &self.store
    }

    fn served(&self, snapshot: &Snapshot, api_version: &str, kind: &str) -> Option<Served> {
        let gv = GroupVersion::parse(api_version)?;
        let registry = self.catalog.at(snapshot);
        let resource = registry.by_kind(&gv.group, kind)?;
        Some(Served {
            resource: resource.storage(),
            namespaced: resource.namespaced,
        })
    }

    fn now(&self) -> jiff::Timestamp {
        (self.clock)()
    }

    async fn perform(&self, action: Action) -> Result<(), ApiError> {
        let identity = Identity::admin();
        let writer = |manager: &str| Cx {
            identity: &identity,
            manager: manager.to_owned(),
            options: WriteOptions {
                dry_run: false,
                field_validation: FieldValidation::Ignore,
                field_manager: None,
            },
            warnings: Vec::new(),
        };
        match action {
            Action::Create { key, object, manager } => {
                let target = self.controlled(&key, "")?;
                let body = json_body(&object);
                let mut cx = writer(manager);
                let object = body::read_object(&target, &body, &mut cx)?;
                self.create_object(&target, object, &mut cx, true)
                    .await
                    .map(|_| ())
            }
            Action::Merge {
                key,
                endpoint,
                patch,
                manager,
            } => {
                let target = self.controlled(&key, endpoint)?;
                self.patch(
                    &target,
                    &json_body(&patch),
                    PatchKind::Merge,
                    false,
                    &mut writer(manager),
                )
                .await
                .map(|_| ())
            }
            Action::Apply { key, object, manager } => {
                let target = self.controlled(&key, "")?;
                self.patch(
                    &target,
                    &json_body(&object),
                    PatchKind::Apply,
                    true,
                    &mut writer(manager),
                )
                .await
                .map(|_| ())
            }
            Action::Bind { key, uid, node } => self.assign(&key, &uid, node).await,
            Action::Kill { key, uid } => {
                let target = self.controlled(&key, "")?;
                let options = DeleteOptions {
                    grace_period_seconds: Some(0),
                    uid: Some(uid),
                    ..DeleteOptions::default()
                };
                self.delete(&target, &options, &identity, &mut Vec::new())
                    .await
                    .map(|_| ())
            }
            Action::Delete {
                key,
                uid,
                revision,
                propagation,
            } => {
                let target = self.controlled(&key, "")?;
                let options = DeleteOptions {
                    uid: Some(uid),
                    resource_version: revision.map(|r| r.to_string()),
                    propagation: Some(propagation.text().to_owned()),
                    ..DeleteOptions::default()
                };
                self.delete(&target, &options, &identity, &mut Vec::new())
                    .await
                    .map(|_| ())
            }
        }
    }
}

impl Api {
    /// Binds a pod that has no node yet, as the scheduler does.
    async fn assign(&self, key: &Key, uid: &str, node: &str) -> Result<(), ApiError> {
        let target = self.controlled(key, "")?;
        let view = self.view();
        let current = view.snapshot.get(key).ok_or_else(|| target.not_found())?;
        let mut pod = current.object().clone();
        let bound = pod["spec"]["nodeName"]
            .as_str()
            .is_some_and(|node| !node.is_empty());
        if bound || pod["metadata"]["uid"] != uid {
            return Ok(());
        }
        pod["spec"]["nodeName"] = json!(node);
        scheduled(&mut pod, &self.now());
        let change = Change::Put {
            key: key.clone(),
            object: pod,
            expect: Expect::Revision(current.revision),
        };
        match self.store.commit(vec![change]).await {
            Ok(_) => Ok(()),
            Err(CommitError::Conflict { .. } | CommitError::Missing { .. }) => Err(target.modified()),
            Err(other) => Err(ApiError::internal(other.to_string())),
        }
    }

    fn controlled(&self, key: &Key, endpoint: &str) -> Result<Target, ApiError> {
        let view = self.view();
        // Controllers of kinds with several versions write the newest.
        let resource = match key.resource.group() {
            "autoscaling" => view.registry.get("autoscaling", "v2", key.resource.plural()),
            _ => view.registry.by_storage(&key.resource),
        };
        let resource = resource.ok_or_else(ApiError::no_such_resource)?;
        Ok(Target {
            resource: Arc::clone(resource),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            endpoint: match endpoint {
                "status" => Endpoint::Status,
                "finalize" => Endpoint::Finalize,
                _ => Endpoint::Main,
            },
        })
    }
}

fn json_body(value: &Value) -> Body {
    Body {
        bytes: Bytes::from(value.to_string()),
        kind: BodyKind::Json,
    }
}
