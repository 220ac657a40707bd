//! The checks of the levels `baseline` and `restricted`, by version.
//!
//! Reasons and details are upstream's texts.

use super::policy::{Level, LevelVersion};
use crate::builtin::tree::{flag, get, has, int, items, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

/// The last version in which a check changed; later ones are the same.
const LAST: u32 = 35;

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The allowed sysctls, and the version that allowed them first.
const SYSCTLS: [(&str, u32); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

/// The types of SELinux, and the version that allowed them first.
const SELINUX_TYPES: [(&str, u32); 5] = [
    ("", 0),
    ("container_t", 0),
    ("container_init_t", 0),
    ("container_kvm_t", 0),
    ("container_engine_t", 31),
];

const ALLOWED_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

const OTHER_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

const APPARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_ANNOTATION: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// A pod, or the template of one.
pub(super) struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
}

/// A failed check.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) reason: &'static str,
    detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.reason, self.detail)
    }
}

fn finding(reason: &'static str, detail: impl Into<String>) -> Option<Finding> {
    Some(Finding {
        reason,
        detail: detail.into(),
    })
}

struct Check {
    level: Level,
    since: u32,
    /// For `baseline`: the version since which a check of `restricted` takes its place.
    replaced_since: Option<u32>,
    run: fn(&Pod<'_>, u32) -> Option<Finding>,
}

const fn baseline(run: fn(&Pod<'_>, u32) -> Option<Finding>) -> Check {
    Check {
        level: Level::Baseline,
        since: 0,
        replaced_since: None,
        run,
    }
}

const fn replaced(since: u32, run: fn(&Pod<'_>, u32) -> Option<Finding>) -> Check {
    Check {
        replaced_since: Some(since),
        ..baseline(run)
    }
}

const fn restricted(since: u32, run: fn(&Pod<'_>, u32) -> Option<Finding>) -> Check {
    Check {
        level: Level::Restricted,
        since,
        ..baseline(run)
    }
}

/// In the order of the messages.
static CHECKS: [Check; 19] = [
    baseline(app_armor),
    replaced(22, added_capabilities),
    baseline(host_namespaces),
    replaced(0, host_paths),
    baseline(host_ports),
    Check {
        since: 34,
        ..baseline(probe_hosts)
    },
    baseline(privileged),
    replaced(35, proc_mount),
    baseline(selinux),
    replaced(19, seccomp),
    baseline(sysctls),
    baseline(host_process),
    restricted(8, privilege_escalation),
    restricted(22, dropped_capabilities),
    restricted(35, |pod, _| masked_proc_mount(pod)),
    restricted(0, volumes),
    restricted(0, non_root),
    restricted(23, root_user),
    restricted(19, required_seccomp),
];

pub(super) fn findings(level: LevelVersion, pod: &Pod<'_>) -> Vec<Finding> {
    let version = level.version.unwrap_or(LAST).min(LAST);
    let is_replaced = |check: &Check| {
        level.level == Level::Restricted && check.replaced_since.is_some_and(|since| since <= version)
    };
    let checks = CHECKS
        .iter()
        .filter(|check| check.level <= level.level && check.since <= version && !is_replaced(check));
    let checks = checks.filter(|_| level.level != Level::Privileged);
    checks.filter_map(|check| (check.run)(pod, version)).collect()
}

impl<'a> Pod<'a> {
    pub(super) fn of(pod: &'a Value) -> Self {
        Self {
            metadata: get(pod, "metadata"),
            spec: get(pod, "spec"),
        }
    }

    fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        lists.into_iter().flat_map(|list| items(spec, list))
    }

    fn containers_that(&self, mut are_bad: impl FnMut(&'a Value) -> bool) -> Names<'a> {
        let bad = self.containers().filter(|container| are_bad(container));
        Names(bad.map(|container| text(container, "name")).collect())
    }

    fn annotation(&self, name: &str) -> Option<&'a str> {
        get(self.metadata, "annotations").get(name)?.as_str()
    }

    fn is_windows(&self, version: u32) -> bool {
        version >= 25 && text(self.spec, "os.name") == "windows"
    }

    fn has_user_namespace(&self, version: u32) -> bool {
        version >= 35 && get(self.spec, "hostUsers") == false
    }

    /// The pod and the containers with a security context that `is_bad`: `pod and container "a"`.
    fn setters(&self, mut is_bad: impl FnMut(&'a Value) -> bool) -> Option<String> {
        let mut setters = Vec::new();
        if is_bad(get(self.spec, "securityContext")) {
            setters.push("pod".to_owned());
        }
        let containers = self.containers_that(|container| is_bad(get(container, "securityContext")));
        if !containers.0.is_empty() {
            setters.push(containers.to_string());
        }
        (!setters.is_empty()).then(|| setters.join(" and "))
    }
}

/// Names of containers: `containers "a", "b"`.
struct Names<'a>(Vec<&'a str>);

impl Names<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn uses(&self) -> &'static str {
        if self.0.len() == 1 { "uses" } else { "use" }
    }
}

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", plural("container", self.0.len()), quoted(&self.0))
    }
}

fn plural(noun: &str, count: usize) -> String {
    if count == 1 {
        noun.to_owned()
    } else {
        format!("{noun}s")
    }
}

fn quoted<'a, 'b: 'a>(texts: impl IntoIterator<Item = &'a &'b str>) -> String {
    let texts: Vec<_> = texts.into_iter().map(|text| format!("\"{text}\"")).collect();
    texts.join(", ")
}

/// Whether a profile of seccomp or AppArmor confines the container.
fn is_confining(kind: &str) -> bool {
    matches!(kind, "RuntimeDefault" | "Localhost")
}

fn app_armor(pod: &Pod<'_>, _: u32) -> Option<Finding> {
    let mut types = BTreeSet::new();
    let setters = pod.setters(|context| {
        let profile = Some(get(context, "appArmorProfile")).filter(|profile| !profile.is_null());
        let kind = profile.map(|profile| text(profile, "type"));
        let kind = kind.filter(|kind| !is_confining(kind));
        kind.map(|kind| types.insert(kind)).is_some()
    });
    let annotations = get(pod.metadata, "annotations").as_object().into_iter().flatten();
    let mut bad: Vec<String> = annotations
        .filter(|(name, _)| name.starts_with(APPARMOR_ANNOTATION))
        .filter_map(|(name, value)| Some((name, value.as_str()?)))
        .filter(|(_, value)| {
            !value.is_empty() && *value != "runtime/default" && !value.starts_with("localhost/")
        })
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    bad.sort_unstable();
    let mut setters: Vec<String> = setters.into_iter().collect();
    if !bad.is_empty() {
        setters.push(plural("annotation", bad.len()));
    }
    if setters.is_empty() {
        return None;
    }
    let values: Vec<&str> = types.into_iter().chain(bad.iter().map(String::as_str)).collect();
    let reason = match values.len() {
        1 => "forbidden AppArmor profile",
        _ => "forbidden AppArmor profiles",
    };
    let setters = setters.join(" and ");
    finding(
        reason,
        format!(
            "{setters} must not set AppArmor profile type to {}",
            quoted(&values)
        ),
    )
}

fn added(container: &Value) -> impl Iterator<Item = &str> {
    let added = items(container, "securityContext.capabilities.add");
    added.iter().filter_map(Value::as_str)
}

fn added_capabilities(pod: &Pod<'_>, _: u32) -> Option<Finding> {
    let (bad, capabilities) = forbidden_capabilities(pod, &CAPABILITIES);
    if bad.is_empty() {
        return None;
    }
    let capabilities = quoted(&capabilities);
    let detail = format!("{bad} must not include {capabilities} in securityContext.capabilities.add");
    finding("non-default capabilities", detail)
}

fn forbidden_capabilities<'a>(pod: &Pod<'a>, allowed: &[&str]) -> (Names<'a>, BTreeSet<&'a str>) {
    let is_forbidden = |capability: &&str| !allowed.contains(capability);
    let bad = pod.containers_that(|container| added(container).any(|added| is_forbidden(&added)));
    let capabilities = pod.containers().flat_map(added).filter(is_forbidden).collect();
    (bad, capabilities)
}

fn dropped_capabilities(pod: &Pod<'_>, version: u32) -> Option<Finding> {
    if pod.is_windows(version) {
        return None;
    }
    let keeping = pod.containers_that(|container| {
        let dropped = items(container, "securityContext.capabilities.drop");
        !dropped.iter().any(|capability| capability == "ALL")
    });
    let (adding, capabilities) = forbidden_capabilities(pod, &["NET_BIND_SERVICE"]);
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!(
            "{keeping} must set securityContext.capabilities.drop=[\"ALL\"]"
        ));
    }
    if !adding.is_empty() {
        details.push(format!(
            "{adding} must not include {} in securityContext.capabilities.add",
            quoted(&capabilities)
        ));
    }
    if details.is_empty() {
        return None;
    }
    finding("unrestricted capabilities", details.join("; "))
}

fn host_namespaces(pod: &Pod<'_>, _: u32) -> Option<Finding> {
    let fields = ["hostNetwork", "hostPID", "hostIPC"];
    let shared = fields.into_iter().filter(|field| flag(pod.spec, field));
    let shared: Vec<_> = shared.map(|field| format!("{field}=true")).collect();
    if shared.is_empty() {
        return None;
    }
    finding("host namespaces", shared.join(", "))
}

fn host_paths(pod: &Pod<'_>, _: u32) -> Option<Finding> {
    let volumes = items(pod.spec, "volumes").iter();
    let bad: Vec<&str> = volumes
        .filter(|volume| has(volume, "hostPath"))
        .map(|volume| text(volume, "name"))
        .collect();
    if bad.is_empty() {
        return None;
    }
    finding(
        "hostPath volumes",
        format!("{} {}", plural("volume", bad.len()), quoted(&bad)),
    )
}

fn host_ports(pod: &Pod<'_>, _: u32) -> Option<Finding> {
    let mut ports = BTreeSet::new();
    let bad = pod.containers_that(|container| {
        let used = items(container, "ports")
            .iter()
            .filter_map(|port| int(port, "hostPort"));
        let before = used
            .filter(|port| *port != 0)
            .map(|port| ports.insert(port.to_string()));
        before.count() > 0
    });
    if bad.is_empty() {
        return None;
    }
    let noun = plural("hostPort", ports.len());
    let ports = ports.into_iter().collect::<Vec<_>>().join(", ");
    finding("hostPort", format!("{bad} {} {noun} {ports}", bad.uses()))
}

fn probe_hosts(pod: &Pod<'_>, _: u32) -> Option<Finding> {
    let handlers = [
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle.postStart",
        "lifecycle.preStop",
    ];
    let mut hosts = BTreeSet::new();
    let mut bad = pod.containers_that(|container| {
        let handlers = handlers.iter().map(|handler| get(container, handler));
        let named =
            handlers.flat_map(|handler| [text(handler, "httpGet.host"), text(handler, "tcpSocket.host")]);
        let before = named
            .filter(|host| !host.is_empty())
            .map(|host| hosts.insert(host));
        before.count() > 0
    });
    if bad.is_empty() {
        return None;
    }
    bad.0.sort_unstable();
    bad.0.dedup();
    let noun = plural("probe or lifecycle host", hosts.len());
    finding(
        "probe or lifecycle host",
        format!("{bad} {} {noun} {}", bad.uses(), quoted(&hosts)),
    )
}

fn privileged(pod: &Pod<'_>, _: u32) -> Option<Finding> {
    let bad = pod.containers_that(|container| flag(container, "securityContext.privileged"));
    if bad.is_empty() {
        return None;
    }
    finding(
        "privileged",
        format!("{bad} must not set securityContext.privileged=true"),
    )
}

fn proc_mount(pod: &Pod<'_>, version: u32) -> Option<Finding> {
    if pod.has_user_namespace(version) {
        return None;
    }
    masked_proc_mount(pod)
}

fn masked_proc_mount(pod: &Pod<'_>) -> Option<Finding> {
    let mut types = BTreeSet::new();
    let bad = pod.containers_that(|container| {
        let kind = get(container, "securityContext.procMount").as_str();
        let kind = kind.filter(|kind| *kind != "Default");
        kind.map(|kind| types.insert(kind)).is_some()
    });
    if bad.is_empty() {
        return None;
    }
    finding(
        "procMount",
        format!(
            "{bad} must not set securityContext.procMount to {}",
            quoted(&types)
        ),
    )
}

fn selinux(pod: &Pod<'_>, version: u32) -> Option<Finding> {
    let is_allowed = |kind: &str| {
        SELINUX_TYPES
            .iter()
            .any(|(known, since)| *known == kind && *since <= version)
    };
    let mut types = BTreeSet::new();
    let (mut sets_user, mut sets_role) = (false, false);
    let setters = pod.setters(|context| {
        let options = get(context, "seLinuxOptions");
        let kind = text(options, "type");
        let has_type = !is_allowed(kind);
        if has_type {
            types.insert(kind);
        }
        let has_user = !text(options, "user").is_empty();
        let has_role = !text(options, "role").is_empty();
        sets_user |= has_user;
        sets_role |= has_role;
        has_type || has_user || has_role
    })?;
    let mut data = Vec::new();
    if !types.is_empty() {
        data.push(format!("{} {}", plural("type", types.len()), quoted(&types)));
    }
    if sets_user {
        data.push("user may not be set".to_owned());
    }
    if sets_role {
        data.push("role may not be set".to_owned());
    }
    let data = data.join("; ");
    finding(
        "seLinuxOptions",
        format!("{setters} set forbidden securityContext.seLinuxOptions: {data}"),
    )
}

/// A profile that is set, and its type.
fn seccomp_type(context: &Value) -> Option<&str> {
    let profile = get(context, "seccompProfile");
    (!profile.is_null()).then(|| text(profile, "type"))
}

fn seccomp(pod: &Pod<'_>, version: u32) -> Option<Finding> {
    if version < 19 {
        return seccomp_annotations(pod);
    }
    let mut types = BTreeSet::new();
    let setters = pod.setters(|context| {
        let kind = seccomp_type(context).filter(|kind| !is_confining(kind));
        kind.map(|kind| types.insert(kind)).is_some()
    })?;
    let types = quoted(&types);
    finding(
        "seccompProfile",
        format!("{setters} must not set securityContext.seccompProfile.type to {types}"),
    )
}

fn seccomp_annotations(pod: &Pod<'_>) -> Option<Finding> {
    let containers = pod.containers();
    let names = containers.map(|container| format!("{SECCOMP_ANNOTATION}{}", text(container, "name")));
    let is_bad = |value: &str| {
        !matches!(value, "runtime/default" | "docker/default") && !value.starts_with("localhost/")
    };
    let bad: BTreeSet<String> = names
        .chain([SECCOMP_POD_ANNOTATION.to_owned()])
        .filter_map(|name| Some((pod.annotation(&name)?, name)))
        .filter(|(value, _)| is_bad(value))
        .map(|(value, name)| format!("{name}={value:?}"))
        .collect();
    if bad.is_empty() {
        return None;
    }
    let noun = plural("annotation", bad.len());
    let bad = bad.into_iter().collect::<Vec<_>>().join(", ");
    finding("seccompProfile", format!("forbidden {noun} {bad}"))
}

fn required_seccomp(pod: &Pod<'_>, version: u32) -> Option<Finding> {
    if pod.is_windows(version) {
        return None;
    }
    if let Some(explicit) = seccomp(pod, version) {
        return Some(explicit);
    }
    if seccomp_type(get(pod.spec, "securityContext")).is_some() {
        return None;
    }
    let bad = pod.containers_that(|container| seccomp_type(get(container, "securityContext")).is_none());
    if bad.is_empty() {
        return None;
    }
    finding(
        "seccompProfile",
        format!(
            "pod or {bad} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
        ),
    )
}

fn sysctls(pod: &Pod<'_>, version: u32) -> Option<Finding> {
    let is_allowed = |name: &str| {
        SYSCTLS
            .iter()
            .any(|(known, since)| *known == name && *since <= version)
    };
    let named = items(pod.spec, "securityContext.sysctls").iter();
    let bad: Vec<_> = named
        .map(|sysctl| text(sysctl, "name"))
        .filter(|name| !is_allowed(name))
        .collect();
    if bad.is_empty() {
        return None;
    }
    finding("forbidden sysctls", bad.join(", "))
}

fn host_process(pod: &Pod<'_>, _: u32) -> Option<Finding> {
    let setters = pod.setters(|context| flag(context, "windowsOptions.hostProcess"))?;
    finding(
        "hostProcess",
        format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"),
    )
}

fn privilege_escalation(pod: &Pod<'_>, version: u32) -> Option<Finding> {
    if pod.is_windows(version) {
        return None;
    }
    let bad =
        pod.containers_that(|container| get(container, "securityContext.allowPrivilegeEscalation") != false);
    if bad.is_empty() {
        return None;
    }
    let detail = format!("{bad} must set securityContext.allowPrivilegeEscalation=false");
    finding("allowPrivilegeEscalation != false", detail)
}

fn volumes(pod: &Pod<'_>, _: u32) -> Option<Finding> {
    let kind = |volume: &Value| {
        if ALLOWED_VOLUMES.iter().any(|kind| has(volume, kind)) {
            return None;
        }
        let known = OTHER_VOLUMES.into_iter().find(|kind| has(volume, kind));
        Some(known.unwrap_or("unknown"))
    };
    let volumes = items(pod.spec, "volumes").iter();
    let bad: Vec<_> = volumes
        .filter_map(|volume| Some((text(volume, "name"), kind(volume)?)))
        .collect();
    if bad.is_empty() {
        return None;
    }
    let names: Vec<&str> = bad.iter().map(|(name, _)| *name).collect();
    let kinds: BTreeSet<&str> = bad.iter().map(|(_, kind)| *kind).collect();
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", names.len()),
        quoted(&names),
        if names.len() == 1 { "uses" } else { "use" },
        plural("restricted volume type", kinds.len()),
        quoted(&kinds)
    );
    finding("restricted volume types", detail)
}

fn non_root(pod: &Pod<'_>, version: u32) -> Option<Finding> {
    const REASON: &str = "runAsNonRoot != true";
    if pod.has_user_namespace(version) {
        return None;
    }
    if let Some(setters) = pod.setters(|context| get(context, "runAsNonRoot") == false) {
        return finding(
            REASON,
            format!("{setters} must not set securityContext.runAsNonRoot=false"),
        );
    }
    if flag(pod.spec, "securityContext.runAsNonRoot") {
        return None;
    }
    let bad = pod.containers_that(|container| !has(container, "securityContext.runAsNonRoot"));
    if bad.is_empty() {
        return None;
    }
    finding(
        REASON,
        format!("pod or {bad} must set securityContext.runAsNonRoot=true"),
    )
}

fn root_user(pod: &Pod<'_>, version: u32) -> Option<Finding> {
    if pod.has_user_namespace(version) {
        return None;
    }
    let setters = pod.setters(|context| get(context, "runAsUser") == 0)?;
    finding("runAsUser=0", format!("{setters} must not set runAsUser=0"))
}
