//! A Kustomization as this controller reads it: parsed once, with defaults filled in.
//!
//! No code below this file reads the custom resource again.

use std::time::Duration;

use equate_api::kustomize::{
    Decryption, DeletionPolicy, Kustomization, KustomizationSpec, SourceKind, SubstituteReference,
    SubstituteStrategy,
};
use equate_api::meta::{ALLOW_EMPTY, FINALIZER, PRUNE_BUDGET, PRUNE_CONFIRM};
use equate_apply::id::{ObjectId, ParseIdError};
use equate_apply::inventory::Inventory;
use equate_apply::plan::Budget;
use equate_kustomize as kustomize;

use crate::kit::inputs::InputRef;
use crate::object_rules::{build_limits, spec_target};
use crate::policy::Policy;
use crate::targets::kube_config_source::KubeConfigSource;
use crate::targets::target::account;
use crate::{Key, ObjectRef};

/// The settings of a Kustomization.
#[derive(Debug, Clone, PartialEq)]
pub struct Declared {
    /// Its namespace and name.
    pub key: Key,
    /// The generation of its spec.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it has our finalizer.
    pub finalizer: bool,
    /// The revision that may declare no objects.
    pub allow_empty: Option<String>,
    /// The limit for deletions by one revision, if set.
    pub prune_budget: Option<Budget>,
    /// The revision that may exceed it.
    pub prune_confirm: Option<String>,
    /// The kind of its source.
    pub source_kind: SourceKind,
    /// Its source.
    pub source: Key,
    /// The interval of reconciliation without a change.
    pub interval: Duration,
    /// The delay after a failure.
    pub retry_interval: Duration,
    /// The time for applying and for health checks, each.
    pub timeout: Duration,
    /// Whether reconciliation is suspended.
    pub suspend: bool,
    /// Whether objects that are no longer declared are deleted.
    pub prune: bool,
    /// Whether an object is recreated where an update is refused.
    pub force: bool,
    /// Whether all applied objects must be healthy.
    pub wait: bool,
    /// The kubeconfig of another target cluster.
    pub kube_config: Option<KubeConfigSource>,
    /// The ServiceAccount to impersonate.
    pub service_account: Option<String>,
    /// The policy for the objects when it is deleted.
    pub deletion: DeletionPolicy,
    /// The Kustomizations that have to be ready first.
    pub depends_on: Vec<Key>,
    /// CEL expressions that replace the readiness of a dependency, in the order of `depends_on`.
    pub ready_exprs: Vec<Option<String>>,
    /// The objects that have to be healthy.
    pub health_checks: Vec<HealthCheck>,
    /// The ConfigMaps and Secrets with variables.
    pub substitute_from: Vec<SubstituteReference>,
    /// The decryption settings.
    pub decryption: Option<Decryption>,
    /// The build settings.
    pub build: kustomize::Spec,
    /// Why an annotation of Equate's is invalid.
    pub misread: Option<String>,
    /// The inventory of its status.
    pub inventory: Inventory,
    /// Why the inventory is unreadable: going on without it would lose the objects to prune.
    pub unreadable: Option<ParseIdError>,
}

/// An object whose health is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// The object.
    pub id: ObjectId,
    /// The version of its API.
    pub version: String,
}

impl Declared {
    pub(crate) fn source_ref(&self) -> ObjectRef {
        ObjectRef::of(self.source_kind.as_str(), &self.source)
    }

    /// The ServiceAccount to impersonate under this policy.
    pub(crate) fn account<'a>(&'a self, policy: &'a Policy) -> Option<&'a str> {
        account(self.service_account.as_deref(), policy)
    }

    /// Whether it reads ConfigMaps or Secrets.
    pub(super) fn reads_values(&self) -> bool {
        !self.substitute_from.is_empty() || self.decryption.is_some()
    }
}

impl From<&Kustomization> for Declared {
    fn from(object: &Kustomization) -> Self {
        let (meta, spec) = (&object.metadata, &object.spec);
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let key = Key::new(namespace, meta.name.as_deref().unwrap_or_default());
        let near =
            |other: Option<&String>, name: &str| Key::new(other.map_or(namespace, String::as_str), name);
        let annotation = |name: &str| meta.annotations.as_ref()?.get(name).cloned();
        let (inventory, unreadable) = match inventory(object) {
            Ok(inventory) => (inventory, None),
            Err(error) => (Inventory::default(), Some(error)),
        };
        let budget = annotation(PRUNE_BUDGET).map(|text| text.parse::<Budget>());
        let (prune_budget, misread) = match budget {
            None => (None, None),
            Some(Ok(budget)) => (Some(budget), None),
            Some(Err(error)) => (None, Some(format!("annotation {PRUNE_BUDGET}: {error}"))),
        };
        Self {
            generation: meta.generation.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            finalizer: meta.finalizers.iter().flatten().any(|f| f == FINALIZER),
            allow_empty: annotation(ALLOW_EMPTY),
            prune_budget,
            prune_confirm: annotation(PRUNE_CONFIRM),
            misread,
            source_kind: spec.source_ref.kind,
            source: near(spec.source_ref.namespace.as_ref(), &spec.source_ref.name),
            interval: spec.interval.get(),
            retry_interval: spec.retry_interval(),
            timeout: spec.timeout(),
            suspend: spec.suspend,
            prune: spec.prune,
            force: spec.force,
            wait: spec.wait,
            kube_config: spec.kube_config.as_ref().map(KubeConfigSource::from),
            service_account: spec.service_account_name.clone().filter(|name| !name.is_empty()),
            deletion: spec.deletion_policy.unwrap_or_default(),
            depends_on: spec
                .depends_on
                .iter()
                .map(|dependency| near(dependency.namespace.as_ref(), &dependency.name))
                .collect(),
            ready_exprs: spec
                .depends_on
                .iter()
                .map(|dependency| dependency.ready_expr.clone().filter(|text| !text.is_empty()))
                .collect(),
            health_checks: health_checks(object, namespace),
            substitute_from: {
                let post = spec.post_build.as_ref();
                post.map(|post| post.substitute_from.clone()).unwrap_or_default()
            },
            decryption: spec.decryption.clone(),
            build: build_spec(object, &key),
            inventory,
            unreadable,
            key,
        }
    }
}

/// The ServiceAccount to impersonate, without parsing the rest of the spec.
pub(super) fn account_of<'a>(spec: &'a KustomizationSpec, policy: &'a Policy) -> Option<&'a str> {
    account(spec.service_account_name.as_deref(), policy)
}

/// The Secret or ConfigMap that opens its target cluster.
pub(super) fn holder(object: &Kustomization) -> Option<InputRef> {
    let opener = KubeConfigSource::from(object.spec.kube_config.as_ref()?);
    Some(opener.holder(object.metadata.namespace.as_deref().unwrap_or_default()))
}

pub(super) fn inventory(object: &Kustomization) -> Result<Inventory, ParseIdError> {
    let held = object
        .status
        .as_ref()
        .and_then(|status| status.inventory.as_ref());
    let entries = held.iter().flat_map(|inventory| &inventory.entries);
    Inventory::parse(entries.map(|entry| (entry.id.as_str(), entry.v.as_str())))
}

fn health_checks(object: &Kustomization, namespace: &str) -> Vec<HealthCheck> {
    let checks = object.spec.health_checks.iter();
    checks
        .map(|check| {
            let api_version = check.api_version.as_deref().unwrap_or("apps/v1");
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let namespace = check.namespace.as_deref().unwrap_or(namespace);
            HealthCheck {
                id: ObjectId::new(group, &check.kind, namespace, &check.name),
                version: version.to_owned(),
            }
        })
        .collect()
}

fn build_spec(object: &Kustomization, key: &Key) -> kustomize::Spec {
    let spec = &object.spec;
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let metadata = spec.common_metadata.clone().unwrap_or_default();
    kustomize::Spec {
        path: text(&spec.path),
        target_namespace: text(&spec.target_namespace),
        name_prefix: text(&spec.name_prefix),
        name_suffix: text(&spec.name_suffix),
        components: spec.components.clone(),
        ignore_missing_components: spec.ignore_missing_components,
        patches: spec
            .patches
            .iter()
            .map(|patch| kustomize::SpecPatch {
                patch: patch.patch.clone(),
                target: patch.target.as_ref().map(spec_target),
            })
            .collect(),
        images: spec
            .images
            .iter()
            .map(|image| kustomize::SpecImage {
                name: image.name.clone(),
                new_name: text(&image.new_name),
                new_tag: text(&image.new_tag),
                digest: text(&image.digest),
            })
            .collect(),
        common_metadata: kustomize::CommonMetadata {
            labels: metadata.labels,
            annotations: metadata.annotations,
        },
        build_metadata: spec
            .build_metadata
            .iter()
            .map(|word| word.as_str().to_owned())
            .collect(),
        substitute: spec.post_build.as_ref().map(|post| kustomize::Substitution {
            variables: post.substitute.clone(),
            always: post.substitute_strategy == Some(SubstituteStrategy::Always),
            strict: true,
        }),
        owner: key.to_string(),
        limits: build_limits(),
    }
}
