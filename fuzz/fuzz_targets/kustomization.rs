//! No kustomization file makes a build panic, hang or grow without bound.
#![no_main]

use bytes::Bytes;
use equate_fuzz::{Files, build};
use libfuzzer_sys::fuzz_target;

const OBJECTS: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}, annotations: {a: '1'}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      serviceAccountName: web
      containers:
      - {name: web, image: 'nginx:1', env: [{name: X, valueFrom: {configMapKeyRef: {name: c, key: k}}}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: n}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {k: v, json: '{\"a\": [1]}', text: $(X)}
---
apiVersion: example.com/v1
kind: Thing
metadata: {name: t}
spec: {list: [{name: a}, b], image: nginx}
";

fuzz_target!(|data: &[u8]| {
    let text = |text: &'static str| Bytes::from_static(text.as_bytes());
    let files = Files(vec![
        ("k/kustomization.yaml", Bytes::copy_from_slice(data)),
        ("k/o.yaml", text(OBJECTS)),
        (
            "k/p.yaml",
            text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: null, l: m}\n"),
        ),
        (
            "k/j.yaml",
            text("- {op: add, path: /metadata/labels, value: {x: y}}\n"),
        ),
        ("k/e.env", text("A=1\nB\n# c\n")),
        (
            "k/t.yaml",
            text(
                "apiVersion: builtin\nkind: PrefixTransformer\nmetadata: {name: x}\nprefix: p-\nfieldSpecs: [{path: metadata/name}]\n",
            ),
        ),
        (
            "k/c.yaml",
            text(
                "nameReference: [{kind: ConfigMap, fieldSpecs: [{kind: Thing, path: spec/list/name}]}]\nvarReference: [{path: data/text}]\n",
            ),
        ),
        ("k/b/kustomization.yaml", text("resources: [../o.yaml, o.yaml]\n")),
        (
            "k/b/o.yaml",
            text("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"),
        ),
        (
            "b/kustomization.yaml",
            text("namePrefix: b-\nresources: [o.yaml]\n"),
        ),
        (
            "b/o.yaml",
            text("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web}\n"),
        ),
        (
            "m/kustomization.yaml",
            text("kind: Component\napiVersion: kustomize.config.k8s.io/v1alpha1\nnameSuffix: -m\n"),
        ),
    ]);
    build(&files, "k");
});
