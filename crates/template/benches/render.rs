//! Charts of real size: the cost of parsing, which a cache saves, and of each render.
#![expect(clippy::unwrap_used, reason = "a bench")]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use equate_template::{Library, Options, Seeded, Session, TemplateSet, Value};
use serde_json::{Value as Json, json};
use std::fmt::Write as _;
use std::hint::black_box;

/// The names and labels of every chart, and the helpers of the library charts.
const HELPERS: &str = r#"
{{- define "app.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- define "app.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}
{{- define "app.chart" -}}
{{- printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- define "app.selectorLabels" -}}
app.kubernetes.io/name: {{ include "app.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "app.labels" -}}
helm.sh/chart: {{ include "app.chart" . }}
{{ include "app.selectorLabels" . }}
{{- if .Chart.AppVersion }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- if .Values.commonLabels }}
{{ toYaml .Values.commonLabels }}
{{- end }}
{{- end }}
{{- define "common.tplvalues.render" -}}
{{- $value := typeIs "string" .value | ternary .value (.value | toYaml) }}
{{- if contains "{{" (toJson .value) }}
{{- tpl $value .context }}
{{- else }}
{{- $value }}
{{- end }}
{{- end }}
{{- define "app.image" -}}
{{- $registry := default .image.registry ((.global).imageRegistry) -}}
{{- printf "%s/%s:%s" $registry .image.repository (.image.tag | toString) -}}
{{- end }}
"#;

/// A workload as in typical charts.
const WORKLOAD: &str = r#"
{{- if .Values.NAME.enabled }}
apiVersion: {{ ternary "apps/v1" "extensions/v1beta1" (semverCompare ">=1.16-0" .Capabilities.KubeVersion) }}
kind: Deployment
metadata:
  name: {{ include "app.fullname" . }}-NAME
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "app.labels" . | nindent 4 }}
    app.kubernetes.io/component: NAME
  {{- with .Values.NAME.annotations }}
  annotations:
    {{- include "common.tplvalues.render" (dict "value" . "context" $) | nindent 4 }}
  {{- end }}
spec:
  replicas: {{ .Values.NAME.replicas | int }}
  selector:
    matchLabels:
      {{- include "app.selectorLabels" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "app.labels" . | nindent 8 }}
      annotations:
        checksum/config: {{ toJson .Values.NAME.config | sha256sum }}
    spec:
      {{- if .Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml .Values.imagePullSecrets | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .Chart.Name }}
          image: {{ include "app.image" (dict "image" .Values.NAME.image "global" .Values.global) | quote }}
          imagePullPolicy: {{ .Values.NAME.image.pullPolicy | default "IfNotPresent" }}
          {{- if .Values.NAME.env }}
          env:
            {{- range $key, $value := .Values.NAME.env }}
            - name: {{ $key | upper | replace "-" "_" }}
              value: {{ $value | quote }}
            {{- end }}
          {{- end }}
          ports:
            {{- range .Values.NAME.ports }}
            - name: {{ .name }}
              containerPort: {{ .port | int }}
              protocol: {{ default "TCP" .protocol }}
            {{- end }}
          resources:
            {{- toYaml .Values.NAME.resources | nindent 12 }}
      {{- with .Values.NAME.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with (merge (dict) .Values.NAME.affinity .Values.affinity) }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end }}
"#;

const FILES: usize = 100;

fn name(number: usize) -> String {
    format!("part{number}")
}

fn values() -> Json {
    let mut values = json!({
        "nameOverride": "", "fullnameOverride": "",
        "global": {"imageRegistry": "registry.example.com"},
        "commonLabels": {"team": "a", "stage": "production"},
        "imagePullSecrets": [{"name": "pull"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"}}]}},
    });
    for number in 0..FILES {
        let env: serde_json::Map<String, Json> = (0..12)
            .map(|at| (format!("some-key-{at}"), json!(format!("value {at}"))))
            .collect();
        values[name(number)] = json!({
            "enabled": true, "replicas": 2,
            "annotations": {"a.example.com/host": "{{ .Release.Name }}.example.com", "plain": "text"},
            "config": {"a": 1, "b": [1, 2, 3], "c": {"d": "e", "f": true}},
            "image": {"registry": "docker.io", "repository": "library/app", "tag": "1.2.3"},
            "env": env,
            "ports": [{"name": "http", "port": 8080}, {"name": "metrics", "port": 9090, "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]}}},
        });
    }
    values
}

fn data(values: &Json) -> Value {
    let rest = json!({
        "Chart": {"Name": "app", "Version": "1.2.3+4", "AppVersion": "9.8.7"},
        "Release": {"Name": "blue", "Namespace": "web", "Service": "Helm"},
        "Capabilities": {"KubeVersion": "v1.36.0"},
    });
    let Value::Map(data) = Value::from_json(&rest) else {
        return Value::Nil;
    };
    data.insert("Values".into(), Value::from_json(values));
    data.into()
}

fn chart() -> Vec<(String, String)> {
    let mut files = vec![("app/templates/_helpers.tpl".to_owned(), HELPERS.to_owned())];
    for number in 0..FILES {
        let name = name(number);
        files.push((
            format!("app/templates/{name}.yaml"),
            WORKLOAD.replace("NAME", &name),
        ));
    }
    files
}

fn parsed(files: &[(String, String)]) -> TemplateSet {
    let mut set = TemplateSet::new(Library::Helm);
    for (name, text) in files {
        set.parse(name, text).unwrap();
    }
    set
}

fn session() -> Session {
    Session::new(Options::helm(), Box::new(Seeded::new(b"bench", 0)))
}

fn whole_chart(c: &mut Criterion) {
    let (files, values) = (chart(), values());
    c.bench_function("chart/parse", |b| b.iter(|| parsed(black_box(&files))));
    let set = parsed(&files);
    c.bench_function("chart/values", |b| b.iter(|| data(black_box(&values))));
    c.bench_function("chart/render", |b| {
        b.iter(|| {
            let (mut session, data) = (session(), data(&values));
            let mut bytes = 0;
            for (name, _) in &files[1..] {
                bytes += session.render(&set, name, data.clone()).unwrap().len();
            }
            bytes
        });
    });
}

fn parts(c: &mut Criterion) {
    let mut plain = String::new();
    for line in 0..200 {
        let _ = writeln!(plain, "line {line}: some text of a file");
    }
    let tree: Json = (0..40)
        .map(|at| {
            (
                format!("key{at}"),
                json!({"a": {"b": {"c": [1, "two", {"d": at}]}}, "text": "x y: z"}),
            )
        })
        .collect::<serde_json::Map<_, _>>()
        .into();
    let data = json!({"tree": tree, "plain": plain, "list": (0..1_000).collect::<Vec<_>>()});
    for (name, template) in [
        (
            "include",
            r#"{{ define "c" }}{{ . }}{{ end }}{{ define "b" }}{{ include "c" . }}{{ end }}{{ define "a" }}{{ include "b" . }}{{ end }}{{ range .list }}{{ include "a" . }}{{ end }}"#,
        ),
        (
            "to_yaml",
            "{{ range until 20 }}{{ toYaml $.tree | nindent 8 }}{{ end }}",
        ),
        (
            "from_yaml",
            "{{ $text := toYaml .tree }}{{ range until 20 }}{{ $_ := fromYaml $text }}{{ end }}",
        ),
        (
            "range",
            "{{ range $i, $e := .list }}{{ if gt (int $e) 500 }}- {{ $e }}: {{ $i }}\n{{ end }}{{ end }}",
        ),
        (
            "tpl",
            r#"{{ range .list }}{{ tpl "{{ . }} of {{ add 1 . }}" . }}{{ end }}"#,
        ),
        (
            "merge",
            "{{ range until 20 }}{{ $_ := mustMergeOverwrite (deepCopy $.tree) (deepCopy $.tree) }}{{ end }}",
        ),
        ("indent", "{{ range until 100 }}{{ $.plain | indent 4 }}{{ end }}"),
        (
            "printf",
            r#"{{ range .list }}{{ printf "%s-%v-%d" "name" . 3 | quote | trunc 63 }}{{ end }}"#,
        ),
        (
            "regex",
            r#"{{ range .list }}{{ regexReplaceAll "[^a-z0-9-]+" "Some Name_1" "-" | lower }}{{ end }}"#,
        ),
    ] {
        let mut set = TemplateSet::new(Library::Helm);
        set.parse("t", template).unwrap();
        c.bench_function(&format!("part/{name}"), |b| {
            b.iter_batched(
                || (session(), Value::from_json(&data)),
                |(mut session, data)| session.render(&set, "t", data).unwrap().len(),
                BatchSize::LargeInput,
            );
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = whole_chart, parts
}
criterion_main!(benches);
