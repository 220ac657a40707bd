//! No patch, strategic or JSON, makes a build panic, hang or grow without bound.
#![no_main]

use bytes::Bytes;
use equate_fuzz::{Files, build};
use libfuzzer_sys::fuzz_target;

const OBJECTS: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: o, labels: {app: web}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    spec:
      containers:
      - {name: a, image: i, ports: [{containerPort: 1, protocol: TCP}, {containerPort: 1, protocol: UDP}], env: [{name: X}]}
      - {name: b, command: [x, y], args: null}
      volumes:
      tolerations: [{key: a}]
---
apiVersion: v1
kind: Service
metadata: {name: o, finalizers: [a, b]}
spec: {selector: {app: web}, ports: [{port: 80, name: a}, {port: 80, protocol: UDP}]}
---
apiVersion: example.com/v1
kind: Thing
metadata: {name: o}
spec: {list: [{name: a}, b], map: {c: {d: null}}}
";

fuzz_target!(|data: &[u8]| {
    for kustomization in [
        "resources: [o.yaml]\npatches: [{path: p.yaml, target: {kind: '.*'}, options: {allowNameChange: true, allowKindChange: true}}]\n",
        "resources: [o.yaml]\npatches: [{path: p.yaml}]\n",
    ] {
        let files = Files(vec![
            ("kustomization.yaml", Bytes::from_static(kustomization.as_bytes())),
            ("o.yaml", Bytes::from_static(OBJECTS.as_bytes())),
            ("p.yaml", Bytes::copy_from_slice(data)),
        ]);
        build(&files, "");
    }
});
