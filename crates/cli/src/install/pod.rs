//! The Deployment, and a pod that meets the restricted Pod Security Standard: no root, no capabilities,
//! no writable root.

use serde_json::{Value, json};

use super::manifests::{NAME, Settings};

/// The label by which the Deployment selects its pods. Not `app`, which is for Flux's Service.
const OWN_LABEL: (&str, &str) = ("app.kubernetes.io/name", NAME);
/// The volume of artifacts and mirrors.
const STORAGE: &str = "/data";
/// The volume of temporary files of builds.
const TEMPORARY: &str = "/tmp";

pub(super) fn deployment(settings: &Settings) -> Value {
    let (key, value) = OWN_LABEL;
    // selects the pod for the artifact Service, and for scrapers and log collectors of Flux's controllers
    let app = ("app", settings.components().first().copied().unwrap_or(NAME));
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": settings.meta(NAME, &[("control-plane", "controller")]),
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { key: value } },
            // a second pod could only wait for the Leases of the first
            "strategy": { "type": "Recreate" },
            "template": {
                "metadata": {
                    "labels": settings.labels(&[OWN_LABEL, app]),
                    "annotations": { "prometheus.io/port": "8080", "prometheus.io/scrape": "true" },
                },
                "spec": pod(settings),
            },
        },
    })
}

fn pod(settings: &Settings) -> Value {
    let mut pod = json!({
        "serviceAccountName": settings.runs_as(),
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": { "kubernetes.io/os": "linux" },
        // more than the shutdown timeouts of reconciliations and artifact reads
        "terminationGracePeriodSeconds": 30,
        // Flux's; identity files of clouds belong to this group
        "securityContext": { "fsGroup": 1337 },
        "containers": [container(settings)],
        "volumes": [
            { "name": "data", "emptyDir": {} },
            { "name": "tmp", "emptyDir": {} },
        ],
    });
    if let Some(secret) = &settings.image_pull_secret {
        pod["imagePullSecrets"] = json!([{ "name": secret }]);
    }
    if !settings.toleration_keys.is_empty() {
        let keys = settings.toleration_keys.iter();
        pod["tolerations"] = keys
            .map(|key| json!({ "key": key, "operator": "Exists" }))
            .collect();
    }
    pod
}

fn container(settings: &Settings) -> Value {
    let port = |name: &str, port: u16| json!({ "name": name, "containerPort": port, "protocol": "TCP" });
    // in the API server's format: another would be a permanent difference
    let resources = json!({
        "limits": { "cpu": "1", "memory": "1Gi" },
        "requests": { "cpu": "100m", "memory": "64Mi" },
    });
    json!({
        "name": "manager",
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "args": args(settings),
        "env": [{
            "name": "RUNTIME_NAMESPACE",
            // with the API server's defaults, because it compares the whole value
            "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" } },
        }],
        "ports": [port("http", 9090), port("http-prom", 8080), port("healthz", 9440)],
        "livenessProbe": { "httpGet": { "path": "/healthz", "port": "healthz" } },
        "readinessProbe": { "httpGet": { "path": "/readyz", "port": "healthz" } },
        "resources": resources,
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "volumeMounts": [
            { "name": "data", "mountPath": STORAGE },
            { "name": "tmp", "mountPath": TEMPORARY },
        ],
    })
}

fn args(settings: &Settings) -> Vec<String> {
    let mut args = vec![
        "controllers".to_owned(),
        format!("--controllers={}", settings.components().join(",")),
        format!("--watch-all-namespaces={}", settings.watch_all_namespaces),
        format!("--log-level={}", settings.log_level),
        "--log-encoding=json".to_owned(),
        "--enable-leader-election".to_owned(),
        format!("--storage-path={STORAGE}"),
    ];
    let domain = settings.cluster_domain.trim_end_matches('.');
    match settings.artifact_server() {
        Some(name) => args.push(format!(
            "--storage-adv-addr={name}.$(RUNTIME_NAMESPACE).svc.{domain}."
        )),
        None if domain != "cluster.local" => args.push(format!(
            "--artifact-server=source-controller.$(RUNTIME_NAMESPACE).svc.{domain}"
        )),
        None => {}
    }
    if let Some(address) = &settings.events_addr {
        args.push(format!("--events-addr={address}"));
    }
    args
}
