//! Trees of many objects, each in a shape that may be slow.
//!
//! The cost should be proportional to `n`; each shape documents its unit.

use bytes::Bytes;
use equate_kustomize::{EntryKind, ReadError, Stat, Tree};
use std::collections::BTreeMap;
use std::fmt::Write as _;

#[derive(Debug, Default)]
pub(crate) struct Files(pub(crate) BTreeMap<String, Bytes>);

impl Files {
    fn add(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.0.insert(path.into(), Bytes::from(text.into()));
    }
}

impl Tree for Files {
    fn stat(&self, path: &str) -> Option<Stat> {
        let kind = if self.0.contains_key(path) {
            EntryKind::File
        } else {
            let below = format!("{path}/");
            let next = self.0.range(below.clone()..).next();
            let is_directory = path.is_empty() || next.is_some_and(|(name, _)| name.starts_with(&below));
            is_directory.then_some(EntryKind::Directory)?
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

/// A shape: its name, its two sizes, and its generator.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) small: usize,
    #[allow(dead_code, reason = "not used by both benches")]
    pub(crate) large: usize,
    pub(crate) make: fn(usize) -> Files,
}

pub(crate) const SHAPES: &[Shape] = &[
    shape("list", 1_000, 4_000, list),
    shape("one line of JSON", 1_000, 4_000, one_line),
    shape("a file each", 1_000, 4_000, file_each),
    shape("flat bases of one", 250, 1_000, flat_bases),
    shape("bases of ten", 25, 100, bases_of_ten),
    shape("levels over 100", 8, 32, levels),
    shape("same name everywhere", 1_000, 4_000, same_name),
    shape("patches by name", 250, 1_000, patches_by_name),
    shape("JSON patches by name", 250, 1_000, json_patches_by_name),
    shape("patches that delete", 250, 1_000, patches_that_delete),
    shape("regex over 1000", 25, 100, regex_patches),
    shape("replacements", 250, 1_000, replacements),
    shape("variables", 250, 1_000, variables),
    shape("generators", 250, 1_000, generators),
    shape("images", 250, 1_000, images),
    shape("replicas", 250, 1_000, replicas),
    shape("KB of text", 1_000, 4_000, text),
];

const fn shape(name: &'static str, small: usize, large: usize, make: fn(usize) -> Files) -> Shape {
    Shape {
        name,
        small,
        large,
        make,
    }
}

/// A Deployment that uses the ConfigMap and ServiceAccount of its name.
fn deployment(out: &mut String, name: &str, image: &str) {
    write!(
        out,
        "apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  labels: {{app: {name}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
      serviceAccountName: {name}
      containers:
      - name: app
        image: {image}
        envFrom:
        - configMapRef: {{name: {name}}}
        ports:
        - containerPort: 8080
---
"
    )
    .unwrap();
}

fn config_map(out: &mut String, name: &str, value: &str) {
    write!(
        out,
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  key: {value}\n---\n"
    )
    .unwrap();
}

const IMAGE: &str = "registry.example.com/app:1.0";

const FIELDS: &str = "namespace: prod
namePrefix: p-
labels:
- pairs: {team: web}
  includeSelectors: true
images:
- name: registry.example.com/app
  newTag: '2.0'
";

/// `objects` of four kinds in equal parts, with namespace, prefix, labels and images.
pub(crate) fn plain(objects: usize) -> Files {
    let mut text = String::new();
    for i in 0..objects / 4 {
        let name = format!("app-{i}");
        deployment(&mut text, &name, IMAGE);
        write!(
            text,
            "apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  selector: {{app: {name}}}
  ports:
  - port: 80
    targetPort: 8080
---
"
        )
        .unwrap();
        config_map(&mut text, &name, &format!("value-{i}"));
        write!(
            text,
            "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {name}\n---\n"
        )
        .unwrap();
    }
    let mut files = Files::default();
    files.add("kustomization.yaml", format!("resources: [all.yaml]\n{FIELDS}"));
    files.add("all.yaml", text);
    files
}

fn list(items: usize) -> Files {
    let mut text = "apiVersion: v1\nkind: List\nitems:\n".to_owned();
    for i in 0..items {
        write!(
            text,
            "- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: app-{i}\n  data:\n    key: value-{i}\n"
        )
        .unwrap();
    }
    let mut files = Files::default();
    files.add("kustomization.yaml", format!("resources: [all.yaml]\n{FIELDS}"));
    files.add("all.yaml", text);
    files
}

/// ConfigMaps in a `List` that is one line of JSON.
fn one_line(items: usize) -> Files {
    let mut text = r#"{"apiVersion":"v1","kind":"List","items":["#.to_owned();
    for i in 0..items {
        let comma = if i == 0 { "" } else { "," };
        write!(
            text,
            r#"{comma}{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"app-{i}"}},"data":{{"key":"value-{i}"}}}}"#
        )
        .unwrap();
    }
    text.push_str("]}");
    let mut files = Files::default();
    files.add("kustomization.yaml", format!("resources: [all.json]\n{FIELDS}"));
    files.add("all.json", text);
    files
}

fn file_each(objects: usize) -> Files {
    let mut files = Files::default();
    let mut kustomization = format!("{FIELDS}resources:\n");
    for i in 0..objects {
        let mut text = String::new();
        deployment(&mut text, &format!("app-{i}"), IMAGE);
        files.add(format!("app-{i}.yaml"), text);
        writeln!(kustomization, "- app-{i}.yaml").unwrap();
    }
    files.add("kustomization.yaml", kustomization);
    files
}

/// Bases of `each` Deployments with transformers of their own, under one root.
fn bases(bases: usize, each: usize) -> Files {
    let mut files = Files::default();
    let mut root = format!("{FIELDS}resources:\n");
    for base in 0..bases {
        let mut text = String::new();
        for i in 0..each {
            deployment(&mut text, &format!("app-{i}"), IMAGE);
            config_map(&mut text, &format!("app-{i}"), "x");
        }
        files.add(format!("base-{base}/all.yaml"), text);
        files.add(
            format!("base-{base}/kustomization.yaml"),
            format!(
                "resources: [all.yaml]\nnamePrefix: b{base}-\nlabels:\n- pairs: {{base: b{base}}}\n  includeSelectors: true\n"
            ),
        );
        writeln!(root, "- base-{base}").unwrap();
    }
    files.add("kustomization.yaml", root);
    files
}

/// Kustomizations of one Deployment and one ConfigMap, under one root.
fn flat_bases(kustomizations: usize) -> Files {
    bases(kustomizations, 1)
}

/// Kustomizations of ten Deployments and ten ConfigMaps, under one root.
fn bases_of_ten(kustomizations: usize) -> Files {
    bases(kustomizations, 10)
}

/// Kustomizations one over the other, each with a prefix and labels, over 100 objects.
fn levels(levels: usize) -> Files {
    let mut files = Files::default();
    let mut dir = String::new();
    for level in 0..levels {
        let below = if level + 1 == levels { "all.yaml" } else { "below" };
        files.add(
            format!("{dir}kustomization.yaml"),
            format!(
                "resources: [{below}]\nnamePrefix: l{level}-\nlabels:\n- pairs: {{l{level}: x}}\n  includeSelectors: true\n"
            ),
        );
        if level + 1 == levels {
            let mut text = String::new();
            for i in 0..50 {
                deployment(&mut text, &format!("app-{i}"), IMAGE);
                config_map(&mut text, &format!("app-{i}"), "x");
            }
            files.add(format!("{dir}all.yaml"), text);
        }
        dir.push_str("below/");
    }
    files
}

fn same_name(objects: usize) -> Files {
    let mut text = String::new();
    for i in 0..objects / 2 {
        write!(
            text,
            "apiVersion: v1
kind: ConfigMap
metadata: {{name: app, namespace: n{i}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: app, namespace: n{i}}}
spec:
  template:
    spec:
      containers:
      - name: app
        envFrom:
        - configMapRef: {{name: app}}
---
"
        )
        .unwrap();
    }
    let mut files = Files::default();
    files.add(
        "kustomization.yaml",
        "resources: [all.yaml]\nnamePrefix: p-\n".to_owned(),
    );
    files.add("all.yaml", text);
    files
}

/// As many Deployments as entries of a kustomization's list.
fn each(objects: usize, field: &str, entry: impl Fn(usize) -> String) -> Files {
    let mut text = String::new();
    let mut kustomization = format!("resources: [all.yaml]\nnamePrefix: p-\n{field}:\n");
    for i in 0..objects {
        deployment(
            &mut text,
            &format!("app-{i}"),
            &format!("registry.example.com/app-{i}:1.0"),
        );
        kustomization.push_str(&entry(i));
    }
    let mut files = Files::default();
    files.add("all.yaml", text);
    files.add("kustomization.yaml", kustomization);
    files
}

/// Strategic merge patches and their Deployments; every other one by a selector.
fn patches_by_name(patches: usize) -> Files {
    each(patches, "patches", |i| {
        let target = if i % 2 == 0 {
            String::new()
        } else {
            format!("  target: {{kind: Deployment, name: app-{i}}}\n")
        };
        format!(
            "- patch: |\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata: {{name: app-{i}}}\n    spec: {{replicas: {i}}}\n{target}"
        )
    })
}

fn json_patches_by_name(patches: usize) -> Files {
    each(patches, "patches", |i| {
        format!(
            "- patch: |\n    - {{op: replace, path: /spec/replicas, value: {i}}}\n  target: {{kind: Deployment, name: app-{i}}}\n"
        )
    })
}

fn patches_that_delete(patches: usize) -> Files {
    each(patches, "patches", |i| {
        let directive = if i % 2 == 0 { "delete" } else { "merge" };
        format!(
            "- patch: '{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: app-{i}}}, $patch: {directive}}}'\n"
        )
    })
}

/// Patches by expressions that ten of 1,000 Deployments match.
fn regex_patches(patches: usize) -> Files {
    let mut files = each(1_000, "labels", |_| String::new());
    let mut kustomization = "resources: [all.yaml]\npatches:\n".to_owned();
    for i in 0..patches {
        writeln!(
            kustomization,
            "- patch: |\n    - {{op: add, path: /metadata/labels/l{i}, value: x}}\n  target: {{kind: Deployment, name: 'app-{i}[0-9]'}}",
        )
        .unwrap();
    }
    files.add("kustomization.yaml", kustomization);
    files
}

fn replacements(replacements: usize) -> Files {
    each(replacements, "replacements", |i| {
        format!(
            "- source: {{kind: Deployment, name: app-{i}, fieldPath: metadata.name}}
  targets:
  - select: {{kind: Deployment, name: app-{i}}}
    fieldPaths: ['spec.template.metadata.labels.app']
"
        )
    })
}

/// Variables of Deployments, each used in one.
fn variables(variables: usize) -> Files {
    let mut files = each(variables, "vars", |i| {
        format!(
            "- name: VAR_{i}\n  objref: {{apiVersion: v1, kind: ConfigMap, name: settings-{i}}}\n  fieldref: {{fieldpath: data.key}}\n"
        )
    });
    let mut text = String::new();
    for i in 0..variables {
        config_map(&mut text, &format!("settings-{i}"), &format!("value-{i}"));
        deployment(
            &mut text,
            &format!("user-{i}"),
            &format!("registry.example.com/$(VAR_{i}):1.0"),
        );
    }
    files.add("all.yaml", text);
    files
}

/// Generated ConfigMaps, each named by a Deployment.
fn generators(generators: usize) -> Files {
    each(generators, "configMapGenerator", |i| {
        format!("- name: app-{i}\n  literals: [key=value-{i}]\n")
    })
}

fn images(images: usize) -> Files {
    each(images, "images", |i| {
        format!("- name: registry.example.com/app-{i}\n  newTag: '2.{i}'\n")
    })
}

fn replicas(replicas: usize) -> Files {
    each(replicas, "replicas", |i| {
        format!("- name: app-{i}\n  count: {i}\n")
    })
}

/// A ConfigMap of a long text, written in YAML, and one generated from the same text.
fn text(kilobytes: usize) -> Files {
    let mut text = String::new();
    let mut indented = String::new();
    for line in 0..kilobytes * 16 {
        writeln!(
            text,
            "line {line:>6}: what it is that is written here, to the end"
        )
        .unwrap();
        writeln!(
            indented,
            "    line {line:>6}: what it is that is written here, to the end"
        )
        .unwrap();
    }
    let mut files = Files::default();
    files.add("text.txt", text);
    files.add(
        "all.yaml",
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: written}}\ndata:\n  text: |\n{indented}"),
    );
    files.add(
        "kustomization.yaml",
        format!("resources: [all.yaml]\nconfigMapGenerator:\n- name: made\n  files: [text.txt]\n{FIELDS}"),
    );
    files
}
