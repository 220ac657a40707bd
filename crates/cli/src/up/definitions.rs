//! Defines kinds when an object needs them: from a catalogue of schemas, or without a schema.
//!
//! A kind is defined only after it was missing for a while, because the repository may define it itself. Kinds
//! of built-in groups and existing definitions are left alone.

use super::crds;
use super::run::Running;
use crate::schemaless::{self, Definition, GroupKind, is_made};
use crate::watch::{is_established, wait_until};
use equate_controllers::ObjectRef;
use equate_controllers::kit::MissingKinds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The time for the repository's own definition of a kind to appear.
const APPEARS_WITHIN: Duration = Duration::from_secs(1);
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(10);
const MANAGER: &str = "equate";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum UnknownKinds {
    /// An object of a kind without a definition fails.
    #[default]
    Refuse,
    /// The kind is defined without a schema.
    Accept,
}

/// The kinds that were defined, and those that could not be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Defined {
    pub(crate) schemaless: BTreeSet<GroupKind>,
    /// With the versions that were asked for.
    pub(crate) refused: BTreeMap<GroupKind, (BTreeSet<String>, String)>,
}

#[derive(Clone)]
pub(crate) struct Definer {
    client: Client,
    catalogues: BTreeSet<PathBuf>,
    unknown: UnknownKinds,
    defined: Arc<Mutex<Defined>>,
}

/// A missing kind, as its objects want it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Wanted {
    versions: BTreeSet<String>,
    namespaced: bool,
}

impl Definer {
    /// Notes the kinds that an earlier run defined without a schema.
    pub(crate) async fn new(
        client: Client,
        catalogues: BTreeSet<PathBuf>,
        unknown: UnknownKinds,
    ) -> Result<Self, kube::Error> {
        let defined = Defined {
            schemaless: schemaless::kinds(&client).await?,
            ..Defined::default()
        };
        Ok(Self {
            client,
            catalogues,
            unknown,
            defined: Arc::new(Mutex::new(defined)),
        })
    }

    pub(crate) fn defined(&self) -> Defined {
        self.lock().clone()
    }

    pub(crate) fn is_active(&self) -> bool {
        self.unknown == UnknownKinds::Accept || !self.catalogues.is_empty()
    }

    /// Whether a missing kind may still be defined.
    pub(crate) fn is_pending(&self, missing: &BTreeMap<ObjectRef, MissingKinds>) -> bool {
        let mut wanted = wanted(missing).into_iter();
        self.is_active() && wanted.any(|(kind, wanted)| !self.is_refused(&kind, &wanted))
    }

    fn is_refused(&self, kind: &GroupKind, wanted: &Wanted) -> bool {
        let defined = self.lock();
        let refused = defined.refused.get(kind);
        refused.is_some_and(|(versions, _)| *versions == wanted.versions)
    }

    /// Defines missing kinds until it is stopped.
    pub(crate) async fn run(self, running: Arc<Running>, stop: CancellationToken) {
        let engine = &running.engine;
        let mut changes = engine.changes();
        let mut since: HashMap<GroupKind, Instant> = HashMap::new();
        loop {
            changes.mark_unchanged();
            let mut missing = wanted(&engine.missing_kinds());
            missing.retain(|kind, wanted| !self.is_refused(kind, wanted));
            since.retain(|kind, _| missing.contains_key(kind));
            let now = Instant::now();
            for (kind, wanted) in missing {
                let seen = *since.entry(kind.clone()).or_insert(now);
                if seen + APPEARS_WITHIN > now {
                    continue;
                }
                since.remove(&kind);
                match self.define(&kind, &wanted).await {
                    Ok(()) => engine.kind_defined(&kind.0, &kind.1),
                    Err(why) => {
                        self.lock().refused.insert(kind, (wanted.versions, why));
                    }
                }
            }
            let next = since.values().min().map(|seen| *seen + APPEARS_WITHIN);
            tokio::select! {
                () = stop.cancelled() => return,
                _ = changes.changed() => {}
                () = tokio::time::sleep_until(next.unwrap_or(now)), if next.is_some() => {}
            }
        }
    }

    /// Defines a kind. The error is a sentence for the user.
    async fn define(&self, kind: &GroupKind, wanted: &Wanted) -> Result<(), String> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let asked = |error: kube::Error| format!("the embedded API does not answer: {error}");
        let all = api.list(&ListParams::default()).await.map_err(asked)?.items;
        let of_group = |definition: &&CustomResourceDefinition| definition.spec.group == kind.0;
        let existing = all
            .iter()
            .filter(of_group)
            .find(|definition| definition.spec.names.kind == kind.1);
        let mut versions = wanted.versions.clone();
        let mut storage = None;
        match existing {
            Some(existing) if !is_made(existing) => {
                let served = existing.spec.versions.iter().filter(|version| version.served);
                let served: Vec<&str> = served.map(|version| version.name.as_str()).collect();
                // it may have appeared since the failure
                if versions.iter().all(|wanted| served.contains(&wanted.as_str())) {
                    return Ok(());
                }
                return Err(format!("its definition serves only {}", served.join(", ")));
            }
            Some(existing) => {
                let known = &existing.spec.versions;
                if versions
                    .iter()
                    .all(|wanted| known.iter().any(|version| version.name == *wanted))
                {
                    return Ok(());
                }
                versions.extend(known.iter().map(|version| version.name.clone()));
                storage = known
                    .iter()
                    .find(|version| version.storage)
                    .map(|version| version.name.clone());
            }
            None => {
                let groups = self.client.list_api_groups().await.map_err(asked)?;
                let served = groups.groups.iter().any(|group| group.name == kind.0);
                if kind.0.is_empty() || served && !all.iter().any(|definition| of_group(&definition)) {
                    return Err("its group is built in, so check the kind and the version".to_owned());
                }
            }
        }
        let schemas = self.schemas(kind, versions)?;
        let with_schema = schemas.values().any(Option::is_some);
        let definition = Definition {
            group: kind.0.clone(),
            kind: kind.1.clone(),
            namespaced: wanted.namespaced,
            versions: schemas,
        };
        let written = self.write(&api, &definition, storage.as_deref()).await;
        let definition = match written {
            Err(_) if with_schema && self.unknown == UnknownKinds::Accept => {
                let versions = definition
                    .versions
                    .into_keys()
                    .map(|version| (version, None))
                    .collect();
                let open = Definition {
                    versions,
                    ..definition
                };
                self.write(&api, &open, storage.as_deref()).await?;
                open
            }
            Err(why) => return Err(why),
            Ok(()) => definition,
        };
        if definition.versions.values().any(Option::is_none) {
            self.lock().schemaless.insert(kind.clone());
        }
        Ok(())
    }

    /// The schema of each version, or none for those that are accepted without one.
    fn schemas(
        &self,
        (group, kind): &GroupKind,
        versions: BTreeSet<String>,
    ) -> Result<BTreeMap<String, Option<Value>>, String> {
        let mut schemas = BTreeMap::new();
        for version in versions {
            let schema = match crds::schema(&self.catalogues, group, &version, kind) {
                Some(Ok(schema)) => Some(schema),
                None | Some(Err(_)) if self.unknown == UnknownKinds::Accept => None,
                Some(Err(why)) => return Err(format!("its schema is not readable: {why}")),
                None => return Err(format!("--crds has no schema of version {version}")),
            };
            schemas.insert(version, schema);
        }
        Ok(schemas)
    }

    async fn write(
        &self,
        api: &Api<CustomResourceDefinition>,
        definition: &Definition,
        storage: Option<&str>,
    ) -> Result<(), String> {
        let name = definition.name();
        let object = definition.object(storage);
        let parameters = PatchParams::apply(MANAGER).force();
        let refused = |error: kube::Error| format!("the embedded API refuses its schema: {error}");
        api.patch(&name, &parameters, &Patch::Apply(&object))
            .await
            .map_err(refused)?;
        let established = wait_until(api, &name, is_established);
        match tokio::time::timeout(ESTABLISHED_WITHIN, established).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.line()),
            Err(_) => Err(format!("its definition {name} was not established")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Defined> {
        self.defined.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kinds without a namespace, whose objects have one nevertheless where a Kustomization has a target namespace.
const CLUSTER_SCOPED: [(&str, &str); 12] = [
    ("cert-manager.io", "ClusterIssuer"),
    ("cilium.io", "CiliumBGPAdvertisement"),
    ("cilium.io", "CiliumBGPClusterConfig"),
    ("cilium.io", "CiliumBGPPeerConfig"),
    ("cilium.io", "CiliumLoadBalancerIPPool"),
    ("external-secrets.io", "ClusterExternalSecret"),
    ("external-secrets.io", "ClusterSecretStore"),
    ("gateway.networking.k8s.io", "GatewayClass"),
    ("keda.sh", "ClusterTriggerAuthentication"),
    ("kyverno.io", "ClusterCleanupPolicy"),
    ("kyverno.io", "ClusterPolicy"),
    ("postgresql.cnpg.io", "ClusterImageCatalog"),
];

/// The missing kinds of all owners.
fn wanted(missing: &BTreeMap<ObjectRef, MissingKinds>) -> BTreeMap<GroupKind, Wanted> {
    let mut all: BTreeMap<GroupKind, Wanted> = BTreeMap::new();
    let missing = missing.values().filter(|missing| !missing.resolved);
    for (gvk, namespaced) in missing.flat_map(|missing| &missing.kinds) {
        let wanted = all.entry((gvk.group.clone(), gvk.kind.clone())).or_default();
        wanted.versions.insert(gvk.version.clone());
        let is_known = CLUSTER_SCOPED.contains(&(&*gvk.group, &*gvk.kind));
        wanted.namespaced |= *namespaced && !is_known;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use equate_apiserver::EmbeddedCluster;
    use equate_manifest::object::GroupVersionKind;
    use std::fs;

    async fn definer(catalogues: &[PathBuf], unknown: UnknownKinds) -> (EmbeddedCluster, Definer) {
        let cluster = EmbeddedCluster::builder().build().await.unwrap();
        let client = super::super::run::in_process(cluster.router(), &crate::counts::Requests::default());
        let catalogues = catalogues.iter().cloned().collect();
        let definer = Definer::new(client, catalogues, unknown).await.unwrap();
        (cluster, definer)
    }

    fn wants(versions: &[&str], namespaced: bool) -> Wanted {
        Wanted {
            versions: versions.iter().map(ToString::to_string).collect(),
            namespaced,
        }
    }

    fn kind(group: &str, kind: &str) -> GroupKind {
        (group.to_owned(), kind.to_owned())
    }

    #[tokio::test]
    async fn an_accepted_kind_serves_each_version_that_objects_have() {
        let (cluster, definer) = definer(&[], UnknownKinds::Accept).await;
        let secret = kind("external-secrets.io", "ExternalSecret");
        definer.define(&secret, &wants(&["v1beta1"], true)).await.unwrap();
        definer.define(&secret, &wants(&["v1"], true)).await.unwrap();
        assert_eq!(definer.defined().schemaless, BTreeSet::from([secret.clone()]));
        let api: Api<CustomResourceDefinition> = Api::all(definer.client.clone());
        let made = api.get("externalsecrets.external-secrets.io").await.unwrap();
        let versions = made.spec.versions.iter();
        let versions: Vec<(&str, bool)> = versions.map(|v| (v.name.as_str(), v.storage)).collect();
        assert_eq!(versions, [("v1", false), ("v1beta1", true)]);
        assert_eq!(made.spec.scope, "Namespaced");
        // a restart on the same state knows it
        let again = Definer::new(definer.client.clone(), BTreeSet::new(), UnknownKinds::Refuse)
            .await
            .unwrap();
        assert_eq!(again.defined().schemaless, BTreeSet::from([secret]));
        cluster.stop().await;
    }

    #[tokio::test]
    async fn built_in_groups_and_other_definitions_are_left_alone() {
        let (cluster, definer) = definer(&[], UnknownKinds::Accept).await;
        let refused = async |group: &str, name: &str| {
            definer
                .define(&kind(group, name), &wants(&["v1beta1"], true))
                .await
                .unwrap_err()
        };
        for (group, name) in [
            ("networking.k8s.io", "Ingress"),
            ("", "Pods"),
            ("policy", "PodSecurityPolicy"),
        ] {
            assert!(
                refused(group, name).await.starts_with("its group is built in"),
                "{group}"
            );
        }
        super::super::bootstrap::definitions(&definer.client)
            .await
            .unwrap();
        let why = refused("kustomize.toolkit.fluxcd.io", "Kustomization").await;
        assert!(why.starts_with("its definition serves only v1"), "{why}");
        cluster.stop().await;
    }

    #[tokio::test]
    async fn a_catalogue_gives_the_schema() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("x.org")).unwrap();
        let schema = r#"{ "type": "object", "additionalProperties": false, "properties": {
            "spec": { "type": "object", "additionalProperties": false, "required": ["size"],
                      "properties": { "size": { "type": "integer" } } } } }"#;
        fs::write(place.path().join("x.org/disk_v1.json"), schema).unwrap();
        let (cluster, definer) = definer(&[place.path().to_owned()], UnknownKinds::Refuse).await;
        let disk = kind("x.org", "Disk");
        definer.define(&disk, &wants(&["v1"], false)).await.unwrap();
        assert_eq!(definer.defined().schemaless, BTreeSet::new());
        let why = definer
            .define(&kind("x.org", "Tape"), &wants(&["v1"], false))
            .await
            .unwrap_err();
        assert_eq!(why, "--crds has no schema of version v1");
        let resource = kube::core::ApiResource::from_gvk_with_plural(
            &kube::core::GroupVersionKind::gvk("x.org", "v1", "Disk"),
            "disks",
        );
        let disks: Api<kube::api::DynamicObject> = Api::all_with(definer.client.clone(), &resource);
        let object: kube::api::DynamicObject = serde_json::from_value(serde_json::json!({
            "apiVersion": "x.org/v1", "kind": "Disk", "metadata": { "name": "a" }, "spec": {},
        }))
        .unwrap();
        let refused = disks
            .create(&kube::api::PostParams::default(), &object)
            .await
            .unwrap_err();
        assert!(
            refused.to_string().contains("spec.size: Required value"),
            "{refused}"
        );
        cluster.stop().await;
    }

    #[test]
    fn known_kinds_without_a_namespace_get_none() {
        let gvk = |group: &str, kind: &str| (GroupVersionKind::new(group, "v1", kind), true);
        let kinds = [
            gvk("cert-manager.io", "ClusterIssuer"),
            gvk("postgresql.cnpg.io", "Cluster"),
        ];
        let owner = ObjectRef::new("Kustomization", "flux-system", "issuers");
        let missing = MissingKinds {
            kinds: kinds.into(),
            ..MissingKinds::default()
        };
        let all = wanted(&[(owner, missing)].into());
        let namespaced: Vec<_> = all
            .iter()
            .map(|((_, kind), wanted)| (&**kind, wanted.namespaced))
            .collect();
        assert_eq!(namespaced, [("ClusterIssuer", false), ("Cluster", true)]);
    }
}
