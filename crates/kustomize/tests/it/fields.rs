//! Every field of `kustomization.yaml` has an effect or is refused by name.

use crate::memory::Memory;
use equate_kustomize::{Options, kustomize};

#[test]
fn deprecations_are_in_reading_order() {
    let tree = Memory::new(&[
        (
            "k/kustomization.yaml",
            "vars: []\nBases: [../b]\ncommonLabels: {}\npatchesJson6902: null\n",
        ),
        (
            "b/kustomization.yaml",
            "resources: []\nimageTags: []\npatchesStrategicMerge: []\n",
        ),
    ]);
    let built = kustomize(&tree, "k", &Options::default()).unwrap();
    let told: Vec<String> = built
        .deprecations
        .iter()
        .map(|deprecation| format!("{} {deprecation}", deprecation.place))
        .collect();
    let line = |place: &str, field: &str, instead: &str, remark: &str| {
        format!(
            "{place} # Warning: '{field}' is deprecated. Please use '{instead}' instead. {remark}\
             Run 'kustomize edit fix' to update your Kustomization automatically."
        )
    };
    assert_eq!(
        told,
        [
            line("k/kustomization.yaml:2:8", "bases", "resources", ""),
            line("k/kustomization.yaml:3:15", "commonLabels", "labels", ""),
            line(
                "k/kustomization.yaml:1:7",
                "vars",
                "replacements",
                "[EXPERIMENTAL] "
            ),
            line("b/kustomization.yaml:2:12", "imageTags", "images", ""),
            line(
                "b/kustomization.yaml:3:24",
                "patchesStrategicMerge",
                "patches",
                ""
            ),
        ]
    );
}

struct Row {
    field: &'static str,
    kustomization: String,
    expected: &'static str,
}

fn rows() -> Vec<Row> {
    let lines = include_str!("fields.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let [field, kustomization, expected] = line.splitn(3, " | ").collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            Row {
                field,
                kustomization: kustomization.replace("...", "resources: [all.yaml]"),
                expected,
            }
        })
        .collect()
}

const FILES: &[(&str, &str)] = &[
    (
        "all.yaml",
        r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: d, labels: {app: d}}
spec:
  replicas: 1
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec:
      containers:
      - name: main
        image: a:v1
        args: [var:$(W)]
        envFrom: [{configMapRef: {name: c}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: s}
spec:
  ref: {name: c}
  volumeClaimTemplates: [{metadata: {name: v}}]
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: ns, labels: {tier: x}, annotations: {zone: a}}
spec:
  image: a:v1
  list: [{id: 1}]
  size: 1
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {k: v}
"#,
    ),
    (
        "below.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: below}}",
    ),
    ("base/kustomization.yaml", "resources: [below.yaml]"),
    (
        "base/below.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: below}}",
    ),
    (
        "part/kustomization.yaml",
        "{apiVersion: kustomize.config.k8s.io/v1alpha1, kind: Component, namePrefix: part-}",
    ),
    (
        "patch.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {patched: by path}}",
    ),
    (
        "patch.json",
        r#"[{"op": "add", "path": "/data/added", "value": "by path"}]"#,
    ),
    (
        "replacement.yaml",
        "{source: {kind: ConfigMap}, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.replaced], options: {create: true}}]}",
    ),
    ("text.env", "KEY=value\n"),
    ("own.yaml", "namePrefix: [{kind: Widget, path: spec/image}]"),
    (
        "generator.yaml",
        "{apiVersion: builtin, kind: ConfigMapGenerator, metadata: {name: g}, literals: [made=by plugin]}",
    ),
    (
        "transformer.yaml",
        "{apiVersion: builtin, kind: AnnotationsTransformer, metadata: {name: any}, annotations: {added: by plugin}, fieldSpecs: [{path: metadata/annotations, create: true}]}",
    ),
    (
        "schema.json",
        r##"{"definitions": {
  "v1.Widget": {"properties": {"spec": {"$ref": "#/definitions/v1.Spec"}},
    "x-kubernetes-group-version-kind": [{"group": "example.com", "kind": "Widget", "version": "v1"}]},
  "v1.Spec": {"properties": {"list": {"type": "array", "items": {"type": "object"},
    "x-kubernetes-patch-merge-key": "id", "x-kubernetes-patch-strategy": "merge"}}}}}"##,
    ),
    (
        "definitions.json",
        r#"{"apps/v1.StatefulSet": {"Schema": {
  "properties": {"apiVersion": {}, "kind": {}, "metadata": {}, "spec": {"$ref": "example.com/v1.Spec"}},
  "x-kubernetes-group-version-kind": [{"group": "apps", "kind": "StatefulSet", "version": "v1"}]}},
 "example.com/v1.Spec": {"Schema": {"properties": {"ref": {"$ref": "example.com/v1.Ref",
  "x-kubernetes-object-ref-api-version": "v1", "x-kubernetes-object-ref-kind": "ConfigMap"}}}},
 "example.com/v1.Ref": {"Schema": {"properties": {"name": {"type": "string"}}}}}"#,
    ),
];

/// The objects of a build with the lines between `^` and `$`, `$$` at the end; or the error.
fn outcome(kustomization: &str) -> Result<String, String> {
    let tree = Memory::new(FILES).with("kustomization.yaml", kustomization);
    let built = kustomize(&tree, "", &Options::default()).map_err(|error| error.to_string())?;
    let lines = built.objects.into_iter().map(|resource| {
        let text = equate_manifest::yaml::to_string(&resource.object.into_value());
        let words: Vec<&str> = text.split_whitespace().collect();
        format!("^ {} $ ", words.join(" "))
    });
    Ok(lines.chain(["$$".to_owned()]).collect())
}

#[test]
fn every_field_has_its_effect_or_is_refused_by_name() {
    let plain = outcome("resources: [all.yaml]").unwrap();
    let mut wrong = Vec::new();
    for row in rows() {
        let found = outcome(&row.kustomization);
        let (as_expected, without) = match (&found, row.expected.strip_prefix("! ")) {
            (Err(error), Some(expected)) => (error.contains(expected), false),
            (Ok(objects), None) => (objects.contains(row.expected), plain.contains(row.expected)),
            _ => (false, false),
        };
        if !as_expected {
            let found = found.unwrap_or_else(|error| error);
            wrong.push(format!("{}: expected {}\n{found}", row.field, row.expected));
        }
        // a selector that matches nothing must change nothing
        if without && !row.kustomization.contains("remove") {
            wrong.push(format!("{}: {} is there without it", row.field, row.expected));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unknown_fields_are_refused_everywhere() {
    for row in rows() {
        // misspells the last name of the path
        let name = row.field.rsplit('.').next().unwrap().trim_end_matches("[]");
        let misspelt = row
            .kustomization
            .replacen(&format!("{name}:"), &format!("{name}x:"), 1);
        if misspelt == row.kustomization {
            continue;
        }
        let error = outcome(&misspelt).unwrap_err();
        let expected = format!("unknown field \"{name}x\"");
        assert!(error.contains(&expected), "{misspelt}\n{error}");
    }
}
