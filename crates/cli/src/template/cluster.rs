//! The cluster of `--dry-run=server`: its version, API versions, and the objects of `lookup`.

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

/// Limit of the bytes of all objects looked up in a render.
const ANSWERS_BYTES_MAX: u64 = 32 << 20;

/// A cluster as input of a render. Sends each request once: an answer is valid for the whole render.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
    runtime: Handle,
    served: HashMap<String, Vec<APIResource>>,
    /// Objects that were looked up by path; none if absent.
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

    /// Its version and all API versions: `apps/v1` and `apps/v1/Deployment`.
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
        // unchanged like in Helm, including a vendor's suffix and `33+`
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
            // skips a group whose server does not answer, like Helm
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

    /// The result of `lookup`: an object, a list if no name is given, an empty map if absent.
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
        // a copy: templates may modify it
        Ok(match self.found.get(&path) {
            Some(Some(object)) => equate_helm::engine::value(object),
            _ => Map::new().into(),
        })
    }

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

/// The URL path of the objects. Names come from a chart: each is one segment, whatever it contains.
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
