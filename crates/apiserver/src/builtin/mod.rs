//! The built-in kinds: defaults, derived fields and validation, in one table.
//!
//! A kind is data and pure functions ([`Strategy`]), grouped by API group. Rules, order and messages are
//! those of Kubernetes 1.36, because tools and people match on them. `docs/compatibility.md` lists the
//! checks that are left out.
//!
//! Objects arrive decoded by their schema: zero values that Go would omit are absent, and quantities are
//! canonical. Nothing here reads the store or the clock; closures supply cluster state
//! ([`service::allocate`], [`admission`]).

mod addresses;
pub(crate) mod admission;
mod admissionregistration;
mod apiregistration;
mod apps;
mod autoscaling;
mod batch;
pub(crate) mod bootstrap;
mod container_checks;
mod coordination;
mod core;
mod cron;
mod events;
pub(crate) mod meta;
pub(crate) mod names;
mod networking;
pub(crate) mod parts;
mod pod;
mod pod_checks;
mod pod_update;
mod policy;
pub(crate) mod quantity;
mod rbac;
mod scheduling;
mod selectable;
pub(crate) mod selector;
pub(crate) mod service;
mod storage;
#[cfg(test)]
mod tests;
pub(crate) mod tree;
mod volume_checks;

pub(crate) use bootstrap::bootstrap;
pub(crate) use meta::{validate_object_meta, validate_object_meta_update};
pub(crate) use pod::{deletion_grace, qos_class};
pub(crate) use selectable::selectable;

use crate::registry::{Generation, NameRule, Strategy};

pub(crate) const GROUPS: &[&str] = &[
    "",
    "admissionregistration.k8s.io",
    "apps",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

const SPEC_AND_STATUS: Strategy = Strategy {
    has_status: true,
    status_keeps: &[&["spec"]],
    reset_fields: &[&["status"]],
    status_reset_fields: &[&["spec"]],
    prepare_create: |object| tree::set(object, "status", serde_json::json!({})),
    ..Strategy::GENERIC
};

static GENERIC: Strategy = Strategy::GENERIC;
static GENERIC_WITH_STATUS: Strategy = SPEC_AND_STATUS;

/// `resource.k8s.io`: DELETE answers with the object.
const RESOURCE: Strategy = Strategy {
    delete_returns_object: true,
    ..Strategy::GENERIC
};

static DEVICE: Strategy = Strategy {
    generation: Generation::Spec,
    ..RESOURCE
};

static DEVICE_TAINT_RULE: Strategy = Strategy {
    generation: Generation::Spec,
    ..RESOURCE_CLAIM_STRATEGY
};

const RESOURCE_CLAIM_STRATEGY: Strategy = Strategy {
    delete_returns_object: true,
    ..SPEC_AND_STATUS
};

static RESOURCE_CLAIM: Strategy = RESOURCE_CLAIM_STRATEGY;
static RESOURCE_CLAIM_TEMPLATE: Strategy = RESOURCE;

static CERTIFICATE_SIGNING_REQUEST: Strategy = Strategy {
    has_status: true,
    status_keeps: &[&["spec"]],
    reset_fields: &[&["status"], &["spec"]],
    status_reset_fields: &[&["spec"], &["status", "conditions"]],
    name: NameRule::DnsSubdomain,
    prepare_create: |request| tree::set(request, "status", serde_json::json!({})),
    prepare_update: |new, stored| tree::restore(new, stored, "spec"),
    selectable: &["spec.signerName"],
    ..Strategy::GENERIC
};

pub(crate) fn strategy(group: &str, kind: &str) -> &'static Strategy {
    match (group, kind) {
        ("", "ConfigMap") => &core::CONFIG_MAP,
        ("", "Endpoints") => &core::ENDPOINTS,
        ("", "Event") | ("events.k8s.io", "Event") => &events::EVENT,
        ("", "LimitRange") => &core::LIMIT_RANGE,
        ("", "Namespace") => &core::NAMESPACE,
        ("", "Node") => &core::NODE,
        ("", "PersistentVolume") => &storage::PERSISTENT_VOLUME,
        ("", "PersistentVolumeClaim") => &storage::PERSISTENT_VOLUME_CLAIM,
        ("", "Pod") => &pod::POD,
        ("", "PodTemplate") => &pod::POD_TEMPLATE,
        ("", "ReplicationController") => &apps::REPLICATION_CONTROLLER,
        ("", "ResourceQuota") => &core::RESOURCE_QUOTA,
        ("", "Secret") => &core::SECRET,
        ("", "Service") => &service::SERVICE,
        ("", "ServiceAccount") => &core::SERVICE_ACCOUNT,
        ("admissionregistration.k8s.io", kind) => admissionregistration::strategy(kind),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => &crate::crd::DEFINITION,
        ("apiregistration.k8s.io", "APIService") => &apiregistration::API_SERVICE,
        ("apps", "ControllerRevision") => &apps::CONTROLLER_REVISION,
        ("apps", "DaemonSet") => &apps::DAEMON_SET,
        ("apps", "Deployment") => &apps::DEPLOYMENT,
        ("apps", "ReplicaSet") => &apps::REPLICA_SET,
        ("apps", "StatefulSet") => &apps::STATEFUL_SET,
        ("autoscaling", "HorizontalPodAutoscaler") => &autoscaling::HORIZONTAL_POD_AUTOSCALER,
        ("batch", "CronJob") => &batch::CRON_JOB,
        ("batch", "Job") => &batch::JOB,
        ("certificates.k8s.io", "CertificateSigningRequest") => &CERTIFICATE_SIGNING_REQUEST,
        ("coordination.k8s.io", "Lease" | "LeaseCandidate") => &coordination::LEASE,
        ("discovery.k8s.io", "EndpointSlice") => &networking::ENDPOINT_SLICE,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => &scheduling::FLOW_SCHEMA,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => &scheduling::PRIORITY_LEVEL,
        ("networking.k8s.io", "Ingress") => &networking::INGRESS,
        ("networking.k8s.io", "IngressClass") => &networking::INGRESS_CLASS,
        ("networking.k8s.io", "NetworkPolicy") => &networking::NETWORK_POLICY,
        ("node.k8s.io", "RuntimeClass") => &scheduling::RUNTIME_CLASS,
        ("policy", "PodDisruptionBudget") => &policy::POD_DISRUPTION_BUDGET,
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => rbac::role(kind),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => rbac::binding(kind),
        ("resource.k8s.io", "DeviceTaintRule") => &DEVICE_TAINT_RULE,
        ("resource.k8s.io", "DeviceClass" | "ResourceSlice") => &DEVICE,
        ("resource.k8s.io", "ResourceClaim" | "ResourcePoolStatusRequest") => &RESOURCE_CLAIM,
        ("resource.k8s.io", _) => &RESOURCE_CLAIM_TEMPLATE,
        ("scheduling.k8s.io", "PriorityClass") => &scheduling::PRIORITY_CLASS,
        ("storage.k8s.io", kind) => storage::strategy(kind),
        ("networking.k8s.io", "ServiceCIDR")
        | ("certificates.k8s.io", "PodCertificateRequest")
        | ("internal.apiserver.k8s.io", "StorageVersion")
        | ("scheduling.k8s.io", "PodGroup")
        | ("storagemigration.k8s.io", "StorageVersionMigration") => &GENERIC_WITH_STATUS,
        _ => &GENERIC,
    }
}
