//! The initial objects of a cluster: namespaces, roles, priority classes.

use super::{Api, Cx, Endpoint, Target, body};
use crate::auth::{self, Identity};
use crate::builtin;
use crate::cluster::BuildError;
use crate::http::options::{FieldValidation, WriteOptions};
use crate::managed_fields;
use crate::store::{Change, Expect};
use serde_json::Value;

/// As in upstream's managed fields.
const MANAGER: &str = "kube-apiserver";

impl Api {
    /// Creates absent objects, in one commit; present ones stay unchanged.
    ///
    /// `gathered`: whether aggregated ClusterRoles start with their rules.
    pub(crate) async fn bootstrap(&self, gathered: bool) -> Result<(), BuildError> {
        let view = self.view();
        let identity = Identity::admin();
        let now = self.now();
        let mut changes = Vec::new();
        for object in builtin::bootstrap()
            .into_iter()
            .chain(auth::bootstrap::objects(gathered))
        {
            let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
            let refused = |why: &str| BuildError::Bootstrap {
                name: name.clone(),
                why: why.to_owned(),
            };
            let (target, object) = self
                .bootstrap_target(&view, object)
                .ok_or_else(|| refused("no such kind"))?;
            let key = target.key();
            if view.snapshot.get(&key).is_some() {
                continue;
            }
            let decoded =
                body::decode(&target.resource, object, &[]).map_err(|why| refused(&why.to_string()))?;
            let cx = Cx {
                identity: &identity,
                manager: MANAGER.to_owned(),
                options: WriteOptions {
                    dry_run: false,
                    field_validation: FieldValidation::Ignore,
                    field_manager: None,
                },
                warnings: Vec::new(),
            };
            let mut new = managed_fields::update(None, decoded.value, &self.manager(&target, &cx, &now));
            self.prepare_create((&target, &view), &mut new, &now, false)
                .map_err(|e| refused(&e.message))?;
            changes.push(Change::Put {
                key,
                object: new,
                expect: Expect::Absent,
            });
        }
        if !changes.is_empty() {
            self.store.commit(changes).await.map_err(BuildError::Commit)?;
        }
        Ok(())
    }

    fn bootstrap_target(&self, view: &super::View, object: Value) -> Option<(Target, Value)> {
        let api_version = object["apiVersion"].as_str()?;
        let gv = equate_manifest::object::GroupVersion::parse(api_version)?;
        let resource = view.registry.by_kind(&gv.group, object["kind"].as_str()?)?;
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let target = Target {
            resource: std::sync::Arc::clone(resource),
            namespace: text("namespace"),
            name: text("name"),
            endpoint: Endpoint::Main,
        };
        Some((target, object))
    }
}
