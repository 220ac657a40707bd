//! Built-in admission: the visible effects of upstream's default plugins.

use super::meta::{deleting, meta_text};
use super::{Api, Cx, Endpoint, Target, View};
use crate::builtin::admission;
use crate::builtin::service::{self, Claim};
use crate::pod_security;
use crate::policies;
use crate::quota::{self, Charge, Measured};
use crate::registry::SchemaSource;
use crate::status::{ApiError, Cause, GroupResource};
use crate::store::{Change, Expect, Key, ResourceId};
use crate::webhooks;
use serde_json::Value;
use std::collections::HashSet;

/// The namespace must exist and not be terminating; then the kind's own admission.
pub(super) fn create(
    api: &Api,
    view: &View,
    target: &Target,
    object: &mut Value,
    cx: &mut Cx<'_>,
) -> Result<(), ApiError> {
    if target.resource.namespaced {
        namespace_lives(view, target, object)?;
    }
    definition_lives(view, target, object)?;
    if let Some(warning) = admission::deduplicate_owners(object) {
        cx.warn(warning);
    }
    escalation(api, view, target, object, None, cx)?;
    kind_admission(api, view, target, object, None)?;
    mutate(view, target, object, None, cx)?;
    limits(view, target, object, None)
}

pub(super) fn update(
    api: &Api,
    view: &View,
    target: &Target,
    object: &mut Value,
    stored: &Value,
    cx: &mut Cx<'_>,
) -> Result<(), ApiError> {
    if let Some(warning) = admission::deduplicate_owners(object) {
        cx.warn(warning);
    }
    escalation(api, view, target, object, Some(stored), cx)?;
    kind_admission(api, view, target, object, Some(stored))?;
    mutate(view, target, object, Some(stored), cx)?;
    limits(view, target, object, Some(stored))
}

fn mutate(
    view: &View,
    target: &Target,
    object: &mut Value,
    old: Option<&Value>,
    cx: &Cx<'_>,
) -> Result<(), ApiError> {
    let name = meta_text(object, "name").to_owned();
    let request = policies::Request {
        target,
        identity: cx.identity,
        name: &name,
        object: None,
        old,
        dry_run: cx.dry_run(),
    };
    policies::mutate(view, request, object)
}

/// LimitRanges: defaults of a new pod, then the checks; an update of a pod cannot change its containers.
fn limits(view: &View, target: &Target, object: &mut Value, stored: Option<&Value>) -> Result<(), ApiError> {
    let plural = match (target.resource.group.as_str(), target.resource.plural.as_str()) {
        ("", plural @ ("pods" | "persistentvolumeclaims")) => plural,
        _ => return Ok(()),
    };
    let handled = match target.endpoint {
        Endpoint::Main => plural != "pods" || stored.is_none(),
        Endpoint::Other("resize") => true,
        _ => false,
    };
    if !handled || stored.is_some_and(deleting) {
        return Ok(());
    }
    let ranges: Vec<&Value> = view
        .snapshot
        .list(&ResourceId::new("", "limitranges"), Some(&target.namespace))
        .map(|(_, entry)| entry.object())
        .collect();
    if plural == "pods" {
        for range in &ranges {
            quota::apply_defaults(range, object);
        }
    }
    ranges
        .iter()
        .try_for_each(|range| quota::check_limits(range, plural, object))
        .map_err(|why| ApiError::forbidden(&target.group_resource(), meta_text(object, "name"), why))
}

fn escalation(
    api: &Api,
    view: &View,
    target: &Target,
    object: &Value,
    stored: Option<&Value>,
    cx: &Cx<'_>,
) -> Result<(), ApiError> {
    let resource = target.group_resource();
    api.auth.check_escalation(
        &view.snapshot,
        cx.identity,
        (&resource, &target.namespace, &target.name),
        object,
        stored,
    )
}

fn definition_lives(view: &View, target: &Target, object: &Value) -> Result<(), ApiError> {
    if !matches!(target.resource.schema, SchemaSource::Custom(_)) {
        return Ok(());
    }
    let resource = target.group_resource();
    let definitions = ResourceId::new(crate::crd::GROUP, crate::crd::PLURAL);
    let definition = view
        .snapshot
        .get(&Key::new(&definitions, "", resource.to_string()));
    if definition.is_some_and(|entry| deleting(entry.object())) {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(ApiError::forbidden(&resource, meta_text(object, "name"), why));
    }
    Ok(())
}

fn namespace_lives(view: &View, target: &Target, object: &Value) -> Result<(), ApiError> {
    let namespace = &target.namespace;
    let key = Key {
        resource: ResourceId::new("", "namespaces"),
        namespace: String::new(),
        name: namespace.clone(),
    };
    let Some(entry) = view.snapshot.get(&key) else {
        return Err(ApiError::not_found(
            &GroupResource::new("", "namespaces"),
            namespace,
        ));
    };
    if !deleting(entry.object()) {
        return Ok(());
    }
    let mut error = ApiError::forbidden(
        &target.group_resource(),
        meta_text(object, "name"),
        format_args!("unable to create new content in namespace {namespace} because it is being terminated"),
    );
    if let Some(details) = &mut error.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
    }
    Err(error)
}

fn kind_admission(
    api: &Api,
    view: &View,
    target: &Target,
    object: &mut Value,
    stored: Option<&Value>,
) -> Result<(), ApiError> {
    if target.endpoint != Endpoint::Main {
        return Ok(());
    }
    let all = |group: &str, plural: &str| {
        view.snapshot
            .list(&ResourceId::new(group, plural), None)
            .map(|(_, entry)| entry.object())
            .collect::<Vec<_>>()
    };
    match (
        target.resource.group.as_str(),
        target.resource.kind.as_str(),
        stored,
    ) {
        ("", "Pod", None) => {
            if api.settings.service_account_admission {
                admission::service_account(object);
                service_account_exists(view, target, object)?;
            }
            admission::default_tolerations(object);
            // Spares the write of a binding. A pod that has to wait is bound later.
            if let Some(node) = api.settings.node
                && crate::controllers::schedule(&view.snapshot, object).is_ok()
            {
                admission::bind(object, node);
            }
            let classes = all("scheduling.k8s.io", "priorityclasses");
            let class = |name: &str| {
                classes
                    .iter()
                    .find(|c| c["metadata"]["name"] == name)
                    .map(|c| (*c).clone())
            };
            let default = classes.iter().find(|c| c["globalDefault"] == true).copied();
            admission::priority(object, class, default).map_err(|why| {
                ApiError::forbidden(&target.group_resource(), meta_text(object, "name"), why)
            })?;
        }
        ("", "Pod", Some(_)) => admission::default_tolerations(object),
        ("", "PersistentVolumeClaim", None) => {
            admission::claim_protection(object);
            admission::default_storage_class(object, all("storage.k8s.io", "storageclasses").into_iter());
        }
        ("", "Node", None) => admission::node_taint(object),
        ("", "PersistentVolume", None) => admission::volume_protection(object),
        ("networking.k8s.io", "Ingress", None) => {
            admission::default_ingress_class(object, all("networking.k8s.io", "ingressclasses").into_iter());
        }
        _ => {}
    }
    Ok(())
}

fn service_account_exists(view: &View, target: &Target, pod: &Value) -> Result<(), ApiError> {
    let name = pod["spec"]["serviceAccountName"].as_str().unwrap_or_default();
    let key = Key::new(
        &ResourceId::new("", "serviceaccounts"),
        target.namespace.clone(),
        name,
    );
    if view.snapshot.get(&key).is_some() {
        return Ok(());
    }
    Err(ApiError::forbidden(
        &target.group_resource(),
        meta_text(pod, "name"),
        format_args!(
            "error looking up service account {}/{name}: serviceaccount \"{name}\" not found",
            target.namespace
        ),
    ))
}

impl Api {
    /// Mutating webhooks, after policies.
    pub(super) async fn mutate(
        &self,
        view: &View,
        target: &Target,
        object: &mut Value,
        old: Option<&Value>,
        cx: &mut Cx<'_>,
    ) -> Result<(), ApiError> {
        let name = meta_text(object, "name").to_owned();
        let request = policies::Request {
            target,
            identity: cx.identity,
            name: &name,
            object: None,
            old,
            dry_run: cx.dry_run(),
        };
        let mut warnings = Vec::new();
        let outcome = webhooks::mutate(&self.webhooks, view, request, object, &mut warnings).await;
        warnings.into_iter().for_each(|warning| cx.warn(warning));
        outcome
    }

    /// Pod security, admission policies and webhooks; the pair is the object and its stored state.
    pub(super) async fn review(
        &self,
        view: &View,
        target: &Target,
        (object, old): (Option<&Value>, Option<&Value>),
        cx: &mut Cx<'_>,
    ) -> Result<(), ApiError> {
        let request = policies::Request {
            target,
            identity: cx.identity,
            name: object.or(old).map_or("", |object| meta_text(object, "name")),
            object,
            old,
            dry_run: cx.dry_run(),
        };
        if let (Some(object), Some(old)) = (object, old) {
            claim_size(view, target, (object, old), self.settings.node.is_some())?;
        }
        let mut warnings = object.map_or(Ok(Vec::new()), |object| pod_security(view, target, object, old))?;
        warnings.extend(policies::review(view, &request)?);
        let outcome = webhooks::review(&self.webhooks, view, &request, &mut warnings).await;
        warnings.into_iter().for_each(|warning| cx.warn(warning));
        outcome
    }

    /// The changes of quotas that go with a write; 403 if one does not admit it.
    pub(super) fn charges(
        &self,
        view: &View,
        target: &Target,
        object: &Value,
        stored: Option<&Value>,
    ) -> Result<Vec<Change>, ApiError> {
        let handled = matches!(target.endpoint, Endpoint::Main | Endpoint::Other("resize"));
        if target.namespace.is_empty() || !handled {
            return Ok(Vec::new());
        }
        let id = ResourceId::new("", "resourcequotas");
        let quotas = view
            .snapshot
            .list(&id, Some(&target.namespace))
            .map(|(_, entry)| (entry.object(), entry.revision));
        let measured = Measured::new(target.resource.storage());
        let charges = quota::charge(&measured, quotas, object, stored, (self.clock)())
            .map_err(|why| ApiError::forbidden(&target.group_resource(), meta_text(object, "name"), why))?;
        let change = |Charge { quota, revision }| Change::Put {
            key: Key::new(&id, target.namespace.as_str(), meta_text(&quota, "name")),
            expect: Expect::Revision(revision),
            object: quota,
        };
        Ok(charges.into_iter().map(change).collect())
    }

    /// Serializes writes of Services: two at once would get the same address.
    pub(super) async fn lock_addresses(&self, target: &Target) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        if allocates(target) {
            Some(self.addresses.lock().await)
        } else {
            None
        }
    }
}

/// The plugin `PersistentVolumeClaimResize`. With `simulated` volumes, a class that is not defined here allows it:
/// the real cluster has it from its provider.
fn claim_size(
    view: &View,
    target: &Target,
    (claim, stored): (&Value, &Value),
    simulated: bool,
) -> Result<(), ApiError> {
    let (group, plural) = (target.resource.group.as_str(), target.resource.plural.as_str());
    if (group, plural, target.endpoint) != ("", "persistentvolumeclaims", Endpoint::Main) {
        return Ok(());
    }
    let id = ResourceId::new("storage.k8s.io", "storageclasses");
    let classes = || view.snapshot.list(&id, None).map(|(_, entry)| entry.object());
    let class = admission::storage_class(claim);
    // an empty class never has a provisioner
    let is_static = claim["spec"]["storageClassName"] == "";
    if simulated && !is_static && !classes().any(|known| meta_text(known, "name") == class) {
        return Ok(());
    }
    admission::claim_size(claim, stored, classes())
        .map_err(|why| ApiError::forbidden(&target.group_resource(), meta_text(claim, "name"), why))
}

/// The plugin `PodSecurity`: refusals and warnings.
fn pod_security(
    view: &View,
    target: &Target,
    object: &Value,
    old: Option<&Value>,
) -> Result<Vec<String>, ApiError> {
    let (group, plural) = (target.resource.group.as_str(), target.resource.plural.as_str());
    let namespace = || {
        let key = Key::new(&ResourceId::new("", "namespaces"), "", target.namespace.as_str());
        view.snapshot.get(&key)
    };
    match (group, plural, target.endpoint) {
        ("", "namespaces", Endpoint::Main) => {
            let errors = pod_security::check_labels(object, old);
            if !errors.is_empty() {
                return Err(target.invalid(meta_text(object, "name"), &errors));
            }
            let Some(old) = old else {
                return Ok(Vec::new());
            };
            let name = meta_text(object, "name");
            let pods = view.snapshot.list(&ResourceId::new("", "pods"), Some(name));
            let pods = pods.map(|(_, entry)| entry.object());
            Ok(pod_security::check_existing(object, old, pods))
        }
        ("", "pods", Endpoint::Main | Endpoint::Other("ephemeralcontainers" | "resize")) => {
            let Some(namespace) = namespace() else {
                return Ok(Vec::new());
            };
            pod_security::check_pod(namespace.object(), object, old)
                .map_err(|why| ApiError::forbidden(&target.group_resource(), meta_text(object, "name"), why))
        }
        _ => {
            let path = pod_security::template_path(group, plural);
            let (Endpoint::Main, Some(path)) = (target.endpoint, path) else {
                return Ok(Vec::new());
            };
            let Some(namespace) = namespace() else {
                return Ok(Vec::new());
            };
            Ok(pod_security::check_template(namespace.object(), object, path))
        }
    }
}

fn allocates(target: &Target) -> bool {
    target.resource.group.is_empty() && target.resource.kind == "Service" && target.endpoint == Endpoint::Main
}

/// Allocates addresses and node ports. Reads all Services.
pub(super) fn allocate(
    view: &View,
    target: &Target,
    object: &mut Value,
    stored: Option<&Value>,
    dry_run: bool,
) -> Result<(), ApiError> {
    if !allocates(target) {
        return Ok(());
    }
    let own = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let id = ResourceId::new("", "services");
    let held: HashSet<Claim<'_>> = view
        .snapshot
        .list(&id, None)
        .map(|(_, entry)| entry.object())
        .filter(|service| service["metadata"]["uid"].as_str() != Some(own.as_str()))
        .flat_map(service::claims)
        .collect();
    service::allocate(object, stored, dry_run, |claim| held.contains(&claim))
        .map_err(|errors| target.invalid(meta_text(object, "name"), &errors))
}
