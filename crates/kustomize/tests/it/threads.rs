//! Large builds, parsed in parts and transformed by several threads, give the same objects and errors as
//! small ones.

use crate::memory::Memory;
use equate_kustomize::{BuildError, Built, Limits, Options, kustomize};

/// Enough applications to make a build large: four objects each.
const APPS: usize = 120;

const FIELDS: &str = "resources: [all.yaml]
namespace: prod
namePrefix: p-
labels:
- pairs: {team: web}
  includeSelectors: true
images:
- {name: registry.example.com/app, newTag: '2.0'}
";

fn app(at: usize) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata:
  name: app-{at}
spec:
  selector: {{matchLabels: {{app: app-{at}}}}}
  template:
    metadata:
      labels: {{app: app-{at}}}
    spec:
      serviceAccountName: app-{at}
      containers:
      - name: app
        image: registry.example.com/app:1.0
        envFrom:
        - configMapRef: {{name: app-{at}}}
---
apiVersion: v1
kind: Service
metadata: {{name: app-{at}}}
spec:
  selector: {{app: app-{at}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: app-{at}, namespace: old}}
data:
  text: |
    é {at}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: app-{at}}}
---
"
    )
}

fn built(text: &str, threads_max: usize) -> Result<Built, BuildError> {
    let tree = Memory::new(&[("kustomization.yaml", FIELDS), ("all.yaml", text)]);
    let options = Options {
        limits: Limits {
            threads_max,
            ..Limits::default()
        },
        ..Options::default()
    };
    kustomize(&tree, "", &options)
}

#[test]
fn large_build_equals_small_builds() {
    let small: Vec<_> = (0..APPS)
        .flat_map(|at| built(&app(at), 1).unwrap().objects)
        .map(|resource| resource.object)
        .collect();
    let text: String = (0..APPS).map(app).collect();
    // an anchor forces the slow path
    let anchored = text.replacen("app: app-0}", "app: &name app-0}", 1);
    let at_once = built(&anchored, 1).unwrap();
    for threads in [0, 1, 2, 3, 16] {
        let large = built(&text, threads).unwrap();
        assert_eq!(large.objects, at_once.objects, "{threads} threads");
        let objects: Vec<_> = large
            .objects
            .into_iter()
            .map(|resource| resource.object)
            .collect();
        assert_eq!(objects, small, "{threads} threads");
    }
}

/// The error of a large build with changed texts in some applications.
fn check(changes: &[(usize, &str, &str)], expected: &str) {
    let mut apps: Vec<String> = (0..APPS).map(app).collect();
    for (at, from, to) in changes {
        assert!(apps[*at].contains(from), "{from}");
        apps[*at] = apps[*at].replace(from, to);
    }
    let text = apps.concat();
    for threads in [1, 2, 3, 16] {
        let error = built(&text, threads).unwrap_err();
        assert_eq!(error.to_string(), expected, "{threads} threads");
    }
}

#[test]
fn errors_do_not_depend_on_thread_count() {
    let image = ("image: registry.example.com/app:1.0", "image: [x]");
    let kind = ("kind: ConfigMap", "king: ConfigMap");
    for (changes, expected) in [
        (
            vec![(30, image.0, image.1), (90, image.0, image.1)],
            "kustomization.yaml:8:3: considering field 'image' of object Deployment.v1.apps/p-app-30.prod: \
             wrong node kind: expected ScalarNode but got SequenceNode",
        ),
        // labels come before images
        (
            vec![
                (20, image.0, image.1),
                (110, "spec:\n  selector: {app", "spec: 1\nx: {app"),
            ],
            "kustomization.yaml:5:3: considering field 'spec/selector' of object \
             Service.v1.[noGrp]/p-app-110.prod: expected sequence or mapping node",
        ),
        // the whole file is parsed before its manifests are checked
        (
            vec![(10, kind.0, kind.1), (100, "data:\n", "data: 'x\n")],
            "all.yaml:3408:16: invalid trailing content after single-quoted scalar",
        ),
        (
            vec![(60, kind.0, kind.1), (90, kind.0, kind.1)],
            "all.yaml:2064:1: missing Resource metadata: missing kind in object",
        ),
        (
            vec![
                (70, "{name: app-70, namespace: old}", "{name: app-60}"),
                (71, "{name: app-71, namespace: old}", "{name: app-61}"),
            ],
            "kustomization.yaml:2:12: namespace transformation produces ID conflict: \
             ConfigMap.v1.[noGrp]/app-60.prod",
        ),
        (
            vec![(
                80,
                "{name: app-80, namespace: old}",
                "{name: app-70, namespace: old}",
            )],
            "kustomization.yaml:1:13: may not add resource with an already registered id: \
             ConfigMap.v1.[noGrp]/app-70.old",
        ),
    ] {
        check(&changes, expected);
    }
}
