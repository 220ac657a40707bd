//! The cells of built-in kinds.

use super::duration::since;
use super::{network, pods, scaling, storage, workloads};
use equate_manifest::go::duration;
use jiff::Timestamp;
use serde_json::{Map, Value};

/// An object in normal form; absent fields have Go's zero value.
#[derive(Clone, Copy)]
pub(super) struct View<'v> {
    pub(super) object: &'v Value,
    pub(super) now: Timestamp,
}

impl<'v> View<'v> {
    pub(super) fn get(&self, pointer: &str) -> Option<&'v Value> {
        self.object.pointer(pointer).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, pointer: &str) -> &'v str {
        self.optional(pointer).unwrap_or_default()
    }

    pub(super) fn optional(&self, pointer: &str) -> Option<&'v str> {
        self.get(pointer)?.as_str()
    }

    pub(super) fn text_or(&self, pointer: &str, default: &'v str) -> &'v str {
        match self.text(pointer) {
            "" => default,
            text => text,
        }
    }

    pub(super) fn number(&self, pointer: &str) -> i64 {
        self.get(pointer).and_then(Value::as_i64).unwrap_or_default()
    }

    pub(super) fn flag(&self, pointer: &str) -> Option<bool> {
        self.get(pointer)?.as_bool()
    }

    pub(super) fn list(&self, pointer: &str) -> &'v [Value] {
        self.get(pointer)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    pub(super) fn texts(&self, pointer: &str) -> Vec<&'v str> {
        self.list(pointer).iter().filter_map(Value::as_str).collect()
    }

    pub(super) fn map(&self, pointer: &str) -> Option<&'v Map<String, Value>> {
        self.get(pointer)?.as_object()
    }

    pub(super) fn name(&self) -> &'v str {
        self.text("/metadata/name")
    }

    pub(super) fn since(&self, pointer: &str) -> String {
        since(self.optional(pointer), self.now)
    }

    pub(super) fn age(&self) -> String {
        self.since("/metadata/creationTimestamp")
    }

    pub(super) fn deleting(&self) -> bool {
        self.get("/metadata/deletionTimestamp").is_some()
    }

    pub(super) fn annotation(&self, name: &str) -> Option<&'v str> {
        self.map("/metadata/annotations")?.get(name)?.as_str()
    }

    pub(super) fn condition(&self, pointer: &str, kind: &str) -> Option<&'v str> {
        condition(self.list(pointer), kind)
    }
}

pub(super) fn condition<'v>(conditions: &'v [Value], kind: &str) -> Option<&'v str> {
    let found = conditions
        .iter()
        .find(|condition| condition.get("type").is_some_and(|of| of == kind))?;
    found.get("status").and_then(Value::as_str)
}

macro_rules! cells {
    ($($cell:expr),* $(,)?) => { vec![$(serde_json::Value::from($cell)),*] };
}
pub(super) use cells;

pub(super) fn cells_of(group: &str, kind: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let view = View { object, now };
    match (group, kind) {
        ("", "Pod") => pods::pod(&view),
        ("", "PodTemplate") => workloads::pod_template(&view),
        ("", "ReplicationController") => workloads::replication_controller(&view),
        ("apps", "ReplicaSet") => workloads::replica_set(&view),
        ("apps", "Deployment") => workloads::deployment(&view),
        ("apps", "StatefulSet") => workloads::stateful_set(&view),
        ("apps", "DaemonSet") => workloads::daemon_set(&view),
        ("apps", "ControllerRevision") => workloads::controller_revision(&view),
        ("batch", "Job") => workloads::job(&view),
        ("batch", "CronJob") => workloads::cron_job(&view),
        ("", "Service") => network::service(&view),
        ("", "Endpoints") => network::endpoints(&view),
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice(&view),
        ("networking.k8s.io", "Ingress") => network::ingress(&view),
        ("networking.k8s.io", "IngressClass") => network::ingress_class(&view),
        ("networking.k8s.io", "NetworkPolicy") => network::network_policy(&view),
        ("networking.k8s.io", "IPAddress") => network::ip_address(&view),
        ("networking.k8s.io", "ServiceCIDR") => {
            cells![view.name(), view.texts("/spec/cidrs").join(","), view.age()]
        }
        ("", "PersistentVolume") => storage::volume(&view),
        ("", "PersistentVolumeClaim") => storage::claim(&view),
        ("storage.k8s.io", "StorageClass") => storage::class(&view),
        ("storage.k8s.io", "VolumeAttachment") => storage::attachment(&view),
        ("storage.k8s.io", "VolumeAttributesClass") => {
            cells![view.name(), view.text("/driverName"), view.age()]
        }
        ("storage.k8s.io", "CSINode") => {
            cells![view.name(), view.list("/spec/drivers").len(), view.age()]
        }
        ("storage.k8s.io", "CSIDriver") => storage::csi_driver(&view),
        ("storage.k8s.io", "CSIStorageCapacity") => {
            cells![
                view.name(),
                view.text("/storageClassName"),
                view.text_or("/capacity", "<unset>")
            ]
        }
        ("autoscaling", "HorizontalPodAutoscaler") => scaling::autoscaler(&view),
        ("", "ResourceQuota") => scaling::resource_quota(&view),
        ("policy", "PodDisruptionBudget") => scaling::disruption_budget(&view),
        ("scheduling.k8s.io", "PriorityClass") => scaling::priority_class(&view),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => scaling::flow_schema(&view),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => scaling::priority_level(&view),
        ("", "Node") => node(&view),
        ("", "Namespace") => cells![view.name(), view.text("/status/phase"), view.age()],
        ("", "Secret") => {
            let data = view.map("/data").map_or(0, Map::len);
            cells![view.name(), view.text("/type"), data, view.age()]
        }
        ("", "ConfigMap") => {
            let data = view.map("/data").map_or(0, Map::len) + view.map("/binaryData").map_or(0, Map::len);
            cells![view.name(), data, view.age()]
        }
        ("", "ServiceAccount") | ("resource.k8s.io", "ResourceClaimTemplate" | "DeviceClass") => {
            cells![view.name(), view.age()]
        }
        ("", "ComponentStatus") => component_status(&view),
        ("", "Event") => event(&view, &CORE_EVENT),
        ("events.k8s.io", "Event") => event(&view, &EVENT),
        ("coordination.k8s.io", "Lease") => {
            cells![view.name(), view.text("/spec/holderIdentity"), view.age()]
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => binding(&view),
        ("node.k8s.io", "RuntimeClass") => cells![view.name(), view.text("/handler"), view.age()],
        ("certificates.k8s.io", "CertificateSigningRequest") => signing_request(&view),
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => cells![view.name(), view.list("/webhooks").len(), view.age()],
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => policy(&view, "/spec/validations"),
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => policy(&view, "/spec/mutations"),
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding",
        ) => policy_binding(&view),
        ("resource.k8s.io", "ResourceClaim") => resource_claim(&view),
        ("resource.k8s.io", "ResourceSlice") => cells![
            view.name(),
            view.text("/spec/nodeName"),
            view.text("/spec/driver"),
            view.text("/spec/pool/name"),
            view.age(),
        ],
        _ => cells![view.name(), view.text("/metadata/creationTimestamp")],
    }
}

/// `a=1,b=2`, or `<none>`.
pub(super) fn labels(labels: Option<&Map<String, Value>>) -> String {
    let mut pairs: Vec<String> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort();
    if pairs.is_empty() {
        "<none>".to_owned()
    } else {
        pairs.join(",")
    }
}

/// [`selector`], with `<none>` for none.
pub(super) fn selector_or_none(value: Option<&Value>) -> String {
    match crate::selector::text_of(value) {
        text if text.is_empty() => "<none>".to_owned(),
        text if text == "<invalid>" => "<error>".to_owned(),
        text => text,
    }
}

/// `a,b,c + 2 more...`
pub(super) fn with_more(shown: &[String], count: usize) -> String {
    let text = shown.join(",");
    if count > shown.len() {
        format!("{text} + {} more...", count - shown.len())
    } else {
        text
    }
}

fn node(view: &View<'_>) -> Vec<Value> {
    let mut status = match view.condition("/status/conditions", "Ready") {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if view.flag("/spec/unschedulable") == Some(true) {
        status.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = Vec::new();
    for (key, value) in view.map("/metadata/labels").into_iter().flatten() {
        match key.strip_prefix("node-role.kubernetes.io/") {
            Some("") => {}
            Some(role) => roles.push(role),
            None if key == "kubernetes.io/role" => {
                roles.extend(value.as_str().filter(|role| !role.is_empty()));
            }
            None => {}
        }
    }
    roles.sort_unstable();
    roles.dedup();
    let roles = if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.join(",")
    };
    let address = |kind: &str| {
        let addresses = view.list("/status/addresses");
        let found = addresses
            .iter()
            .find(|address| address.get("type").is_some_and(|of| of == kind));
        found
            .and_then(|address| address.get("address"))
            .and_then(Value::as_str)
            .unwrap_or("<none>")
    };
    let info = |field: &str| view.text_or(&format!("/status/nodeInfo/{field}"), "<unknown>");
    let kernel = match view.text("/status/nodeInfo/architecture") {
        "" => info("kernelVersion").to_owned(),
        architecture => format!("{} ({architecture})", info("kernelVersion")),
    };
    cells![
        view.name(),
        status,
        roles,
        view.age(),
        view.text("/status/nodeInfo/kubeletVersion"),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        kernel,
        info("containerRuntimeVersion"),
    ]
}

fn component_status(view: &View<'_>) -> Vec<Value> {
    let healthy = view
        .list("/conditions")
        .iter()
        .find(|one| one.get("type").is_some_and(|of| of == "Healthy"));
    let field = |name: &str| {
        healthy
            .and_then(|one| one.get(name))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let status = match (healthy, field("status")) {
        (None, _) => "Unknown",
        (Some(_), "True") => "Healthy",
        (Some(_), _) => "Unhealthy",
    };
    cells![view.name(), status, field("message"), field("error")]
}

/// The names of the same fields in the two Event kinds.
struct EventFields {
    object: &'static str,
    message: &'static str,
    source: &'static str,
    reporter: &'static str,
    first: &'static str,
    last: &'static str,
    count: &'static str,
}

const CORE_EVENT: EventFields = EventFields {
    object: "/involvedObject",
    message: "/message",
    source: "/source",
    reporter: "/reportingComponent",
    first: "/firstTimestamp",
    last: "/lastTimestamp",
    count: "/count",
};

const EVENT: EventFields = EventFields {
    object: "/regarding",
    message: "/note",
    source: "/deprecatedSource",
    reporter: "/reportingController",
    first: "/deprecatedFirstTimestamp",
    last: "/deprecatedLastTimestamp",
    count: "/deprecatedCount",
};

fn event(view: &View<'_>, fields: &EventFields) -> Vec<Value> {
    let first = view.since(if view.get(fields.first).is_some() {
        fields.first
    } else {
        "/eventTime"
    });
    let (last, count) = if view.get("/series").is_some() {
        (
            view.since("/series/lastObservedTime"),
            view.number("/series/count"),
        )
    } else {
        let last = if view.get(fields.last).is_some() {
            view.since(fields.last)
        } else {
            first.clone()
        };
        (last, view.number(fields.count).max(1))
    };
    let of_object = |field: &str| view.text(&format!("{}/{field}", fields.object));
    let target = match (of_object("kind").to_lowercase(), of_object("name")) {
        (kind, "") => kind,
        (kind, name) => format!("{kind}/{name}"),
    };
    let component = view.text_or(
        &format!("{}/component", fields.source),
        view.text(fields.reporter),
    );
    let instance = view.text_or(
        &format!("{}/host", fields.source),
        view.text("/reportingInstance"),
    );
    let source = if instance.is_empty() {
        component.to_owned()
    } else {
        format!("{component}, {instance}")
    };
    cells![
        last,
        view.text("/type"),
        view.text("/reason"),
        target,
        of_object("fieldPath"),
        source,
        view.text(fields.message).trim(),
        first,
        count,
        view.name(),
    ]
}

fn binding(view: &View<'_>) -> Vec<Value> {
    let (mut users, mut groups, mut accounts) = (Vec::new(), Vec::new(), Vec::new());
    for subject in view.list("/subjects") {
        let subject = View {
            object: subject,
            now: view.now,
        };
        let name = subject.text("/name").to_owned();
        match subject.text("/kind") {
            "User" => users.push(name),
            "Group" => groups.push(name),
            "ServiceAccount" => accounts.push(format!("{}/{name}", subject.text("/namespace"))),
            _ => {}
        }
    }
    let role = format!("{}/{}", view.text("/roleRef/kind"), view.text("/roleRef/name"));
    cells![
        view.name(),
        role,
        view.age(),
        users.join(", "),
        groups.join(", "),
        accounts.join(", ")
    ]
}

fn signing_request(view: &View<'_>) -> Vec<Value> {
    let is = |kind: &str| view.condition("/status/conditions", kind).is_some();
    let mut status = if is("Denied") {
        "Denied"
    } else if is("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if is("Failed") {
        status.push_str(",Failed");
    }
    if !view.text("/status/certificate").is_empty() {
        status.push_str(",Issued");
    }
    let duration = view.get("/spec/expirationSeconds").and_then(Value::as_i64);
    let duration = duration.map_or_else(|| "<none>".to_owned(), duration::human);
    let signer = view.text_or("/spec/signerName", "<none>");
    cells![
        view.name(),
        view.age(),
        signer,
        view.text("/spec/username"),
        duration,
        status
    ]
}

fn policy(view: &View<'_>, rules: &str) -> Vec<Value> {
    let parameters = if view.get("/spec/paramKind").is_some() {
        format!(
            "{}/{}",
            view.text("/spec/paramKind/apiVersion"),
            view.text("/spec/paramKind/kind")
        )
    } else {
        "<unset>".to_owned()
    };
    cells![view.name(), view.list(rules).len(), parameters, view.age()]
}

fn policy_binding(view: &View<'_>) -> Vec<Value> {
    let parameters = match (
        view.text("/spec/paramRef/name"),
        view.text("/spec/paramRef/namespace"),
    ) {
        ("", _) => view
            .get("/spec/paramRef/selector")
            .map_or_else(|| "<unset>".to_owned(), go_selector),
        (name, "") => format!("*/{name}"),
        (name, namespace) => format!("{namespace}/{name}"),
    };
    cells![view.name(), view.text("/spec/policyName"), parameters, view.age()]
}

/// A label selector as Go's generated `String` method prints it.
fn go_selector(selector: &Value) -> String {
    let mut text = String::from("&LabelSelector{MatchLabels:map[string]string{");
    for (key, value) in selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        text.push_str(&format!("{key}: {},", value.as_str().unwrap_or_default()));
    }
    text.push_str("},MatchExpressions:[]LabelSelectorRequirement{");
    for expression in selector
        .get("matchExpressions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let field = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or_default();
        let values: Vec<&str> = expression
            .get("values")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        text.push_str(&format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            field("key"),
            field("operator"),
            values.join(" ")
        ));
    }
    text.push_str("},}");
    text
}

fn resource_claim(view: &View<'_>) -> Vec<Value> {
    let mut states = Vec::new();
    if view.deleting() {
        states.push("deleted");
    }
    if view.get("/status/allocation").is_some() {
        states.push("allocated");
        if !view.list("/status/reservedFor").is_empty() {
            states.push("reserved");
        }
    } else if !view.deleting() {
        states.push("pending");
    }
    cells![view.name(), states.join(","), view.age()]
}
