//! No manifest makes a build panic, hang or grow without bound, whatever is done to it.
#![no_main]

use bytes::Bytes;
use equate_fuzz::{Files, build};
use libfuzzer_sys::fuzz_target;

const KUSTOMIZATION: &str = "\
resources: [o.yaml]
namespace: n
namePrefix: p-
nameSuffix: -s
labels: [{pairs: {a: b}, includeSelectors: true, includeTemplates: true}]
commonAnnotations: {c: d}
images: [{name: nginx, newTag: '2'}]
patches:
- target: {kind: '.*', labelSelector: 'x!=y'}
  patch: |
    apiVersion: v1
    kind: Any
    metadata: {name: any, annotations: {e: f}}
    spec: {template: {spec: {containers: [{name: s, image: t}], volumes: [{name: v}]}}, ports: [{port: 1}]}
- target: {kind: '[A-M].*'}
  patch: '[{op: add, path: /metadata/labels/g, value: h}, {op: add, path: /spec, value: {i: j}}]'
replacements:
- source: {kind: ConfigMap, fieldPath: data.k}
  targets:
  - {select: {kind: Deployment}, fieldPaths: ['spec.template.spec.containers.*.image'], options: {delimiter: ':', index: 1}}
configMapGenerator: [{name: g, literals: [a=b]}]
buildMetadata: [originAnnotations, transformerAnnotations]
sortOptions: {order: legacy}
";

fuzz_target!(|data: &[u8]| {
    let files = Files(vec![
        ("kustomization.yaml", Bytes::from_static(KUSTOMIZATION.as_bytes())),
        ("o.yaml", Bytes::copy_from_slice(data)),
    ]);
    build(&files, "");
    let alone = Files(vec![
        ("kustomization.yaml", Bytes::from_static(b"resources: [o.yaml]\n")),
        ("o.yaml", Bytes::copy_from_slice(data)),
    ]);
    build(&alone, "");
});
