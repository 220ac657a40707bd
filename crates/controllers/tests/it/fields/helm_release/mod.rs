//! HelmRelease, of one chart whose values select its objects.

mod chart;
mod drift;
mod health;
mod install;
mod object;
mod render;
mod rollback;
mod status;
mod test;
mod uninstall;
mod upgrade;

use equate_api::helm::HelmRelease;
use equate_api::source::{GitRepository, HelmChart};
use equate_controllers::Policy;
use equate_testkit::eventually::eventually;
use k8s_openapi::api::core::v1::Secret;
use kube::CustomResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::merge;
use super::objects::MAP;
use crate::session::{DEADLINE, Options, Session};

const KIND: &str = "HelmRelease";
const METADATA: &str = "apiVersion: v2\nname: app\nversion: 1.0.0\nappVersion: \"7\"\n";

/// More objects than the ConfigMap, each by a value.
///
/// | value | object |
/// |---|---|
/// | `extra` | the ConfigMap `<release>-extra` |
/// | `broken` | a Service that the API server refuses |
/// | `web` | the Deployment `<release>-web` without replicas, with this image |
/// | `stuck` | the Deployment `<release>-stuck` whose pods never run |
/// | `job` | the Job `<release>-job` whose pods never run |
const MORE: &str = r#"{{- define "stuck" }}
    metadata:
      labels: {app: {{ .Release.Name }}-stuck}
      annotations: {equate.dev/simulate: ImagePullBackOff}
    spec:
      restartPolicy: {{ .Values.restart | default "Always" }}
      nodeSelector: {equate.test/nowhere: "true"}
      containers: [{name: main, image: "registry.invalid/web:1"}]
{{- end }}
{{- if .Values.extra }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-extra}
data: {value: {{ .Values.extra | quote }}}
{{- end }}
{{- if .Values.broken }}
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}-broken}
spec: {ports: [{port: 0}]}
{{- end }}
{{- if .Values.web }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}-web}
spec:
  replicas: 0
  selector: {matchLabels: {app: {{ .Release.Name }}-web}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}-web}}
    spec: {containers: [{name: main, image: {{ .Values.web | quote }}}]}
{{- end }}
{{- if .Values.stuck }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}-stuck}
spec:
  selector: {matchLabels: {app: {{ .Release.Name }}-stuck}}
  template: {{- template "stuck" . }}
{{- end }}
{{- if .Values.job }}
---
apiVersion: batch/v1
kind: Job
metadata: {name: {{ .Release.Name }}-job}
spec:
  template: {{- template "stuck" (dict "Release" .Release "Values" (dict "restart" "Never")) }}
{{- end }}
"#;

/// A hook for each value with the name of an event: a ConfigMap, or with the value `fails` or `hangs` a Job.
const HOOKS: &str = r#"{{- range $event := list "pre-install" "pre-upgrade" "post-rollback" "pre-delete" "test" }}
{{- with index $.Values $event }}
---
{{- if has . (list "fails" "hangs") }}
apiVersion: batch/v1
kind: Job
{{- else }}
apiVersion: v1
kind: ConfigMap
{{- end }}
metadata:
  name: {{ $.Release.Name }}-{{ $event }}
  annotations: {helm.sh/hook: {{ $event }}}
{{- if has . (list "fails" "hangs") }}
spec:
{{- if eq . "fails" }}
  activeDeadlineSeconds: 1
{{- end }}
  template: {{- template "stuck" (dict "Release" $.Release "Values" (dict "restart" "Never")) }}
{{- end }}
{{- end }}
{{- end }}
"#;

/// A session with the chart.
async fn start() -> Session {
    start_with(&[], Options::default()).await
}

/// The same with more files of the repository.
async fn start_with(files: &[(&str, &str)], options: Options) -> Session {
    let mut all = vec![
        ("charts/app/Chart.yaml", METADATA),
        ("charts/app/values.yaml", "value: one\n"),
        ("charts/app/prod.yaml", "value: prod\n"),
        ("charts/app/templates/map.yaml", MAP),
        ("charts/app/templates/more.yaml", MORE),
        ("charts/app/templates/hooks.yaml", HOOKS),
    ];
    all.extend(files);
    let options = Options {
        policy: Policy {
            external_artifacts: true,
            ..options.policy
        },
        kinds: vec![HelmChart::crd(), HelmRelease::crd()],
        ..options
    };
    Session::anywhere_with(&all, options).await
}

/// A HelmRelease of the chart, with an interval of an hour. Null removes a field.
async fn release(session: &Session, name: &str, spec: Value) {
    session.declare(KIND, name, whole(session, spec)).await;
}

fn whole(session: &Session, spec: Value) -> Value {
    let mut whole = json!({
        "interval": "1h",
        "chart": {
            "metadata": { "labels": session.labels() },
            "spec": { "chart": "charts/app", "sourceRef": { "kind": "GitRepository", "name": "fleet" } },
        },
    });
    merge(&mut whole, &spec);
    whole.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    whole
}

/// Waits until the release is ready for a reason at a revision; returns its status.
async fn ready(session: &Session, reason: &str, version: i64) -> Value {
    let what = format!("HelmRelease app is ready by {reason} at revision {version}");
    eventually(&what, DEADLINE, async || {
        let object = session.look(KIND, "@home", "app").await;
        let status = object["status"].clone();
        let said = super::objects::told(&status, "Ready");
        let is_over = super::objects::told(&status, "Reconciling").is_null()
            && status["observedGeneration"] == object["metadata"]["generation"];
        match said["status"] == "True"
            && said["reason"] == *reason
            && status["history"][0]["version"] == version
            && is_over
        {
            true => Ok(status),
            false => Err(format!("{} {}", status["conditions"], status["history"])),
        }
    })
    .await
}

/// Waits until no retries are left, and `Released` has this reason and message; returns the status.
async fn stalls(session: &Session, reason: &str, message: &str) -> Value {
    session
        .condition(KIND, "app", "Stalled", "RetriesExceeded", "")
        .await;
    session.condition(KIND, "app", "Released", reason, message).await
}

/// Waits until an operation failed before it stored a revision: it is tried again and again, as in Flux.
async fn fails(session: &Session, reason: &str, message: &str) {
    session.condition(KIND, "app", "Released", reason, message).await;
    session.reports(KIND, "app", reason, message).await;
}

/// An install of a release `app` with a spec: it succeeds.
async fn installed(session: &Session, spec: Value) -> Value {
    release(session, "app", spec).await;
    ready(session, "InstallSucceeded", 1).await
}

/// The value of the ConfigMap.
async fn value(session: &Session, expected: &str) {
    session
        .is("ConfigMap", "app-map", "/data/value", json!(expected))
        .await;
}

/// Commits, and fetches it.
async fn push(session: &Session, files: &[(&str, Option<&str>)]) -> String {
    let revision = session.commit(files);
    let asked = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": revision } } });
    session.merge::<GitRepository>("@home", "fleet", asked).await;
    revision
}

/// Deletes the HelmRelease; does not wait for its end.
async fn delete(session: &Session) {
    session.delete::<HelmRelease>("@home", "app").await;
}

/// The revisions and statuses of the records in a namespace, oldest first.
async fn records_in(session: &Session, namespace: &str, name: &str) -> Vec<String> {
    let secrets: Api<Secret> = Api::namespaced(session.client.clone(), &session.here(namespace));
    let labels = ListParams::default().labels(&format!("owner=helm,name={name}"));
    let mut found: Vec<(i64, String)> = secrets
        .list(&labels)
        .await
        .unwrap()
        .into_iter()
        .map(|secret| {
            let labels = secret.metadata.labels.unwrap();
            (labels["version"].parse().unwrap(), labels["status"].clone())
        })
        .collect();
    found.sort();
    let text = |(version, status)| format!("v{version} {status}");
    found.into_iter().map(text).collect()
}

/// Waits until the records are these.
async fn records(session: &Session, expected: &[&str]) {
    eventually(
        &format!("the records are {expected:?}"),
        DEADLINE,
        async || match records_in(session, "@home", "app").await {
            found if found == expected => Ok(()),
            found => Err(format!("{found:?}")),
        },
    )
    .await;
}

/// Waits until an event about the release contains this.
async fn event(session: &Session, text: &str) {
    crate::helm_releases::has_event(session, "app", text).await;
}

/// Whether `helm-controller` has a field of an object by server-side apply, or by updates.
async fn written(session: &Session, operation: &str, other: &str) {
    let what = format!("app-map is written by {operation}");
    eventually(&what, DEADLINE, async || {
        let object = session.look("ConfigMap", "@home", "app-map").await;
        let managers = object["metadata"]["managedFields"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let has = |operation: &str| {
            managers.iter().any(|manager| {
                manager["manager"] == "helm-controller"
                    && manager["operation"] == operation
                    && !manager["fieldsV1"]["f:data"]["f:value"].is_null()
            })
        };
        match has(operation) && !has(other) {
            true => Ok(()),
            false => Err(json!(managers).to_string()),
        }
    })
    .await;
}
