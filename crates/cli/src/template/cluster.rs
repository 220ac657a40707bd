//! The cluster of `--dry-run=server`: what it serves, and what `lookup` finds there.

use super::TemplateError;
use equate_apply::segment::{SegmentError, segment};
use equate_helm::capabilities::{Capabilities, KubeVersion};
use equate_template::{Fault, Map, Value};
use futures::AsyncReadExt as _;
use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, APIResourceList};
use kube::Client;
use std::collections::HashMap;
use tokio::runtime::Handle;

/// The most bytes of all that is looked up in a render.
const ANSWERS_BYTES_MAX: u64 = 32 << 20;

/// A cluster that a render may ask. It is asked once for each thing: what it answered holds for all of the
/// render.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
    runtime: Handle,
    served: HashMap<String, Vec<APIResource>>,
    /// What was looked up, by its path; nothing where there is nothing.
    found: HashMap<String, Option<serde_json::Value>>,
    bytes_left: u64,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

impl Cluster {
    pub(super) fn new(client: Client, runtime: Handle) -> Self {
        Self {
            client,
            runtime,
            served: HashMap::new(),
            found: HashMap::new(),
            bytes_left: ANSWERS_BYTES_MAX,
        }
    }

    /// Its version, and everything it serves: `apps/v1` and `apps/v1/Deployment`.
    pub(super) fn capabilities(&mut self) -> Result<Capabilities, TemplateError> {
        let failed = |what| {
            move |source| TemplateError::Cluster {
                what,
                source: Box::new(source),
            }
        };
        let client = self.client.clone();
        let info = self
            .runtime
            .block_on(client.apiserver_version())
            .map_err(failed("for its version"))?;
        // as it says it, a vendor's suffix and a `33+` included: so does Helm
        let kube_version = KubeVersion {
            version: info.git_version.clone(),
            normalized: info.git_version,
            major: info.major,
            minor: info.minor,
        };
        let groups = self
            .runtime
            .block_on(client.list_api_groups())
            .map_err(failed("for its groups"))?;
        let core = self
            .runtime
            .block_on(client.list_core_api_versions())
            .map_err(failed("for its versions"))?;
        let mut versions: Vec<String> = core.versions;
        for group in groups.groups {
            versions.extend(group.versions.into_iter().map(|version| version.group_version));
        }
        let mut api_versions = Vec::new();
        for version in versions {
            // a group whose server does not answer is passed over, as by Helm
            if let Ok(resources) = self.resources(&version) {
                let kinds = resources
                    .iter()
                    .map(|resource| format!("{version}/{}", resource.kind));
                api_versions.extend(kinds);
            }
            api_versions.push(version);
        }
        api_versions.sort();
        api_versions.dedup();
        Ok(Capabilities {
            kube_version,
            api_versions,
        })
    }

    fn resources(&mut self, version: &str) -> Result<&[APIResource], kube::Error> {
        if !self.served.contains_key(version) {
            let client = self.client.clone();
            let answer: APIResourceList = self.runtime.block_on(async {
                match version.contains('/') {
                    true => client.list_api_group_resources(version).await,
                    false => client.list_core_api_resources(version).await,
                }
            })?;
            self.served.insert(version.to_owned(), answer.resources);
        }
        Ok(self.served.get(version).map_or(&[], Vec::as_slice))
    }

    /// What `lookup` comes to: an object, a list without a name, an empty map where there is none.
    pub(super) fn lookup(
        &mut self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Value, Fault> {
        let failed = |error: &kube::Error| {
            Fault::message(format!(
                "unable to get apiresource from unstructured: {api_version}, Kind={kind}: {error}"
            ))
        };
        let resources = self.resources(api_version).map_err(|error| failed(&error))?;
        let found = resources
            .iter()
            .find(|resource| resource.kind == kind && !resource.name.contains('/'));
        let Some(resource) = found else {
            return Ok(Map::new().into());
        };
        let path = path(api_version, resource, namespace, name)
            .map_err(|error| Fault::message(error.to_string()))?;
        if !self.found.contains_key(&path) {
            let found = self.read(&path)?;
            self.found.insert(path.clone(), found);
        }
        // each gets a copy: templates may change it
        Ok(match self.found.get(&path) {
            Some(Some(object)) => equate_helm::engine::value(object),
            _ => Map::new().into(),
        })
    }

    /// What is at a path, if anything is.
    fn read(&mut self, path: &str) -> Result<Option<serde_json::Value>, Fault> {
        let failed = |error: &dyn std::error::Error| Fault::message(error.to_string());
        let request = Request::get(path)
            .body(Vec::new())
            .map_err(|error| failed(&error))?;
        let most = self.bytes_left;
        let body = self.runtime.block_on(async {
            let stream = self.client.request_stream(request).await?;
            let mut body = Vec::new();
            let read = stream.take(most + 1).read_to_end(&mut body).await;
            read.map_err(kube::Error::ReadEvents)?;
            Ok(body)
        });
        let body = match body {
            Ok(body) => body,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(failed(&error)),
        };
        self.bytes_left = most.checked_sub(body.len() as u64).ok_or_else(|| {
            Fault::message(format!(
                "limit: more than {ANSWERS_BYTES_MAX} bytes of objects that were looked up"
            ))
        })?;
        serde_json::from_slice(&body)
            .map(Some)
            .map_err(|error| failed(&error))
    }
}

/// Where the objects are. The names come from a chart: each is one segment, whatever is in it.
fn path(
    api_version: &str,
    resource: &APIResource,
    namespace: &str,
    name: &str,
) -> Result<String, SegmentError> {
    let mut path = String::from(if api_version.contains('/') {
        "/apis"
    } else {
        "/api"
    });
    let mut add = |what, text| -> Result<(), SegmentError> {
        path.push('/');
        path.push_str(&segment(what, text)?);
        Ok(())
    };
    for part in api_version.split('/') {
        add("apiVersion", part)?;
    }
    if resource.namespaced && !namespace.is_empty() {
        add("namespaces", "namespaces")?;
        add("namespace", namespace)?;
    }
    add("resource", &resource.name)?;
    if !name.is_empty() {
        add("name", name)?;
    }
    Ok(path)
}
