//! Flux's additions: a generated kustomization, the fields of a spec, substitution.

use crate::memory::Memory;
use equate_kustomize::{Built, CommonMetadata, Spec, SpecImage, SpecPatch, SpecTarget, Substitution, build};
use std::collections::BTreeMap;

const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {containers: [{name: web, image: 'nginx:1'}]}}}
";

fn config_map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")
}

/// The objects as `path:line kind/namespace/name`.
fn names(built: &Built) -> Vec<String> {
    built
        .objects
        .iter()
        .map(|resource| {
            let object = &resource.object;
            format!(
                "{}:{} {}/{}/{}",
                resource.origin.path,
                resource.origin.line,
                object.kind(),
                object.namespace(),
                object.name()
            )
        })
        .collect()
}

fn yaml(built: &Built) -> String {
    let texts: Vec<String> = built
        .objects
        .iter()
        .map(|resource| equate_manifest::yaml::to_string(&resource.object.clone().into_value()))
        .collect();
    texts.join("---\n")
}

fn spec(path: &str) -> Spec {
    Spec {
        path: path.to_owned(),
        ..Spec::default()
    }
}

#[test]
fn missing_kustomization_is_generated() {
    let tree = Memory::new(&[
        ("apps/b.yaml", &config_map("b")),
        (
            "apps/a.yml",
            &format!("{}---\n{}", config_map("a1"), config_map("a2")),
        ),
        ("apps/notes.txt", "not a manifest"),
        ("apps/deep/c.yaml", &config_map("c")),
        (
            "apps/own/kustomization.yaml",
            "namePrefix: own-\nresources: [d.yaml]\n",
        ),
        ("apps/own/d.yaml", &config_map("d")),
        ("apps/own/ignored.yaml", "not: a manifest\n"),
        ("other/e.yaml", &config_map("e")),
    ]);
    for path in ["apps", "./apps/", "/apps"] {
        let built = build(&tree, &spec(path)).unwrap();
        assert_eq!(
            names(&built),
            [
                "apps/a.yml:1 ConfigMap//a1",
                "apps/a.yml:5 ConfigMap//a2",
                "apps/b.yaml:1 ConfigMap//b",
                "apps/deep/c.yaml:1 ConfigMap//c",
                "apps/own/d.yaml:1 ConfigMap//own-d",
            ]
        );
    }
}

#[test]
fn an_empty_directory_builds_nothing() {
    let tree = Memory::new(&[("apps/.gitkeep", "")]);
    assert_eq!(names(&build(&tree, &spec("apps")).unwrap()), [""; 0]);
}

#[test]
fn an_empty_kustomization_builds_nothing() {
    for text in ["", "# nothing\n", "kind: Kustomization\n", "resources: []\n"] {
        let tree = Memory::new(&[("k/kustomization.yaml", text), ("k/a.yaml", &config_map("a"))]);
        assert_eq!(names(&build(&tree, &spec("k")).unwrap()), [""; 0], "{text}");
    }
}

#[test]
fn generated_kustomization_refuses_other_yaml_files() {
    let tree = Memory::new(&[("apps/values.yaml", "# values\na: b\n")]);
    let error = build(&tree, &spec("apps")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "apps/values.yaml:2:1: failed to decode Kubernetes YAML: missing Resource metadata: missing kind in object"
    );
}

#[test]
fn spec_fields_are_merged() {
    let tree = Memory::new(&[
        (
            "k/kustomization.yaml",
            "namespace: mine\nnamePrefix: p-\nimages: [{name: nginx, newTag: '2'}]\nresources: [d.yaml]\n",
        ),
        ("k/d.yaml", DEPLOYMENT),
        (
            "c/kustomization.yaml",
            "kind: Component\ncommonAnnotations: {component: ran}\n",
        ),
    ]);
    let mut spec = Spec {
        target_namespace: "theirs".to_owned(),
        name_prefix: "q-".to_owned(),
        name_suffix: "-s".to_owned(),
        components: vec!["../c".to_owned(), "../absent".to_owned()],
        ignore_missing_components: true,
        patches: vec![SpecPatch {
            patch: "- op: add\n  path: /spec/replicas\n  value: 3\n".to_owned(),
            target: Some(SpecTarget {
                kind: "Deployment".to_owned(),
                ..SpecTarget::default()
            }),
        }],
        images: vec![SpecImage {
            name: "nginx".to_owned(),
            new_name: "registry/nginx".to_owned(),
            ..SpecImage::default()
        }],
        ..spec("k")
    };
    assert_eq!(
        yaml(&build(&tree, &spec).unwrap()),
        "apiVersion: apps/v1
kind: Deployment
metadata:
  annotations:
    component: ran
  name: q-web-s
  namespace: theirs
spec:
  replicas: 3
  template:
    metadata:
      annotations:
        component: ran
    spec:
      containers:
      - image: registry/nginx:2
        name: web
"
    );
    spec.ignore_missing_components = false;
    let error = build(&tree, &spec).unwrap_err();
    assert_eq!(
        error.to_string(),
        "k/kustomization.yaml: no such file or directory: '../absent'"
    );
    spec.components = vec!["https://example.com/x".to_owned()];
    let error = build(&tree, &spec).unwrap_err();
    assert!(
        error.to_string().contains("must be local and relative"),
        "{error}"
    );
}

#[test]
fn common_metadata_wins_over_manifests_and_comes_after_substitution() {
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, labels: {a: manifest, b: kept}}\n";
    let tree = Memory::new(&[("k/c.yaml", manifest)]);
    let common_metadata = CommonMetadata {
        labels: BTreeMap::from([("a".to_owned(), "${v}".to_owned())]),
        annotations: BTreeMap::from([("note".to_owned(), "o".to_owned())]),
    };
    let spec = Spec {
        common_metadata,
        substitute: Some(substitution(&[("v", "x")])),
        ..spec("k")
    };
    assert_eq!(
        yaml(&build(&tree, &spec).unwrap()),
        "apiVersion: v1
kind: ConfigMap
metadata:
  annotations:
    note: o
  labels:
    a: ${v}
    b: kept
  name: c
"
    );
}

fn substitution(variables: &[(&str, &str)]) -> Substitution {
    Substitution {
        variables: variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        ..Substitution::default()
    }
}

#[test]
fn variables_are_substituted_in_objects() {
    let check = |data: &str, variables: &[(&str, &str)], always: bool, expected: Result<&str, &str>| {
        let manifest = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {data}\n");
        let tree = Memory::new(&[("k/c.yaml", &manifest)]);
        let mut substitute = substitution(variables);
        substitute.always = always;
        let spec = Spec {
            substitute: Some(substitute),
            ..spec("k")
        };
        match (build(&tree, &spec), expected) {
            (Ok(built), Ok(expected)) => {
                let data = built.objects[0].object.0["data"].to_string();
                assert_eq!(data, expected);
            }
            (Err(error), Err(expected)) => assert_eq!(error.to_string(), expected),
            (found, _) => panic!("{data}: {found:?}"),
        }
    };
    check("{a: '${v}'}", &[("v", "x")], false, Ok(r#"{"a":"x"}"#));
    check("{a: '${v}'}", &[("v", "3")], false, Ok(r#"{"a":3}"#));
    check("{a: '${v}'}", &[("v", "x\ny")], false, Ok(r#"{"a":"xy"}"#));
    check(
        "{a: '${v:=d}', b: '$v', c: '$${v}'}",
        &[("w", "")],
        false,
        Ok(r#"{"a":"d","b":"$v","c":"${v}"}"#),
    );
    // without variables nothing is substituted, unless requested
    check("{a: '${v:=d}'}", &[], false, Ok(r#"{"a":"${v:=d}"}"#));
    check("{a: '${v:=d}'}", &[], true, Ok(r#"{"a":"d"}"#));
    check(
        "{a: '${v}'}",
        &[("w", "x")],
        false,
        Err(
            "k/c.yaml:1:1: variable substitution failed in ConfigMap.v1.[noGrp]/c.[noNs]: variable not set (strict mode): \"v\"",
        ),
    );
    check(
        "{a: x}",
        &[("1w", "x")],
        false,
        Err(
            "k/kustomization.yaml: '1w' var name is invalid, must match '^[_[:alpha:]][_[:alpha:][:digit:]]*$'",
        ),
    );
    check(
        "{a: '${v}'}",
        &[("v", "a: b: hunter2")],
        false,
        Err(
            "k/c.yaml:1:1: ConfigMap.v1.[noGrp]/c.[noNs] is not YAML after substitution, line 3: mapping values are not allowed in this context",
        ),
    );
}

#[test]
fn opted_out_object_is_not_substituted() {
    for field in ["labels", "annotations"] {
        let manifest = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  {field}: {{kustomize.toolkit.fluxcd.io/substitute: disabled}}\ndata: {{a: '${{v}}'}}\n"
        );
        let tree = Memory::new(&[("k/c.yaml", &manifest)]);
        let spec = Spec {
            substitute: Some(substitution(&[("w", "x")])),
            ..spec("k")
        };
        let built = build(&tree, &spec).unwrap();
        assert_eq!(built.objects[0].object.0["data"]["a"], "${v}", "{field}");
    }
}

#[test]
fn files_outside_the_directory_may_be_read_but_not_outside_the_tree() {
    let kustomization = "configMapGenerator: [{name: c, files: [../shared/x], options: {disableNameSuffixHash: true}}]\nresources: []\n";
    let tree = Memory::new(&[("k/kustomization.yaml", kustomization), ("shared/x", "1")]);
    let built = build(&tree, &spec("k")).unwrap();
    assert_eq!(built.objects[0].object.0["data"]["x"], "1");
    let tree = tree.with(
        "k/kustomization.yaml",
        &kustomization.replace("../shared", "../../shared"),
    );
    let error = build(&tree, &spec("k")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "k/kustomization.yaml:1:22: security; '../../shared/x' leads out of the source"
    );
}

#[test]
fn links_are_followed_inside_the_tree() {
    let mut tree = Memory::new(&[
        ("k/kustomization.yaml", "resources: [linked.yaml, base]\n"),
        ("real/c.yaml", &config_map("c")),
        ("real/base/kustomization.yaml", "resources: [d.yaml]\n"),
        ("real/base/d.yaml", &config_map("d")),
    ]);
    tree.link("k/linked.yaml", "../real/c.yaml");
    tree.link("k/base", "../real/base");
    assert_eq!(
        names(&build(&tree, &spec("k")).unwrap()),
        ["real/c.yaml:1 ConfigMap//c", "real/base/d.yaml:1 ConfigMap//d"]
    );
    tree.link("k/base", "base");
    let error = build(&tree, &spec("k")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "k/kustomization.yaml:1:26: too many links: the symbolic links of 'base' form a cycle"
    );
}
