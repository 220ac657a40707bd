//! What a build costs: n objects of four kinds with namespace, prefix, labels and images.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "criterion's macros; a bench may fail"
)]

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use equate_kustomize::{EntryKind, Options, ReadError, Stat, Tree, kustomize};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::hint::black_box;

/// Files of one directory.
struct Files(HashMap<String, Bytes>);

impl Tree for Files {
    fn stat(&self, path: &str) -> Option<Stat> {
        let kind = if path.is_empty() {
            EntryKind::Directory
        } else {
            self.0.get(path)?;
            EntryKind::File
        };
        Some(Stat { kind, id: [0; 32] })
    }

    fn list(&self, _dir: &str) -> Option<Vec<(String, Stat)>> {
        None
    }

    fn read(&self, path: &str) -> Result<Bytes, ReadError> {
        self.0.get(path).cloned().ok_or(ReadError::Absent)
    }
}

/// Deployments that use the ConfigMaps and ServiceAccounts beside them, and Services for them.
fn tree(objects: usize) -> Files {
    let mut text = String::new();
    for i in 0..objects / 4 {
        write!(
            text,
            "apiVersion: apps/v1
kind: Deployment
metadata:
  name: app-{i}
  labels: {{app: app-{i}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: app-{i}}}}}
  template:
    metadata:
      labels: {{app: app-{i}}}
    spec:
      serviceAccountName: app-{i}
      containers:
      - name: app
        image: registry.example.com/app:1.0
        envFrom:
        - configMapRef: {{name: app-{i}}}
        ports:
        - containerPort: 8080
---
apiVersion: v1
kind: Service
metadata:
  name: app-{i}
spec:
  selector: {{app: app-{i}}}
  ports:
  - port: 80
    targetPort: 8080
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: app-{i}
data:
  key: value-{i}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: app-{i}
---
"
        )
        .unwrap();
    }
    let kustomization = "resources: [all.yaml]
namespace: prod
namePrefix: p-
labels:
- pairs: {team: web}
  includeSelectors: true
images:
- name: registry.example.com/app
  newTag: '2.0'
";
    Files(HashMap::from([
        ("kustomization.yaml".to_owned(), Bytes::from(kustomization)),
        ("all.yaml".to_owned(), Bytes::from(text)),
    ]))
}

fn build(c: &mut Criterion) {
    let mut group = c.benchmark_group("build");
    group.sample_size(20);
    for objects in [100, 1_000, 4_000] {
        let tree = tree(objects);
        let built = kustomize(&tree, "", &Options::default()).unwrap();
        assert_eq!(built.objects.len(), objects);
        group.bench_function(BenchmarkId::from_parameter(objects), |b| {
            b.iter(|| kustomize(black_box(&tree), "", &Options::default()).unwrap());
        });
    }
    group.finish();
}

criterion_group!(benches, build);
criterion_main!(benches);
