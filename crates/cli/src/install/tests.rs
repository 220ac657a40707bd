use std::collections::BTreeSet;

use equate_api::meta::DEFAULT_NAMESPACE;
use equate_controllers::all;
use serde_json::Value;

use super::*;
use crate::line;

pub(super) fn settings() -> Settings {
    Settings {
        namespace: DEFAULT_NAMESPACE.to_owned(),
        image: "equate:test".to_owned(),
        running: all(),
        known: all(),
        beside_flux: false,
        watch_all_namespaces: true,
        network_policy: true,
        events_addr: None,
        toleration_keys: Vec::new(),
        image_pull_secret: None,
        cluster_domain: "cluster.local".to_owned(),
        log_level: "info".to_owned(),
    }
}

fn is_definition(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

/// The manifests without the CRDs, which have their own files, and without the version.
fn shown(settings: &Settings) -> String {
    let all = settings.manifests().unwrap();
    let all = all.iter().filter(|object| !is_definition(object));
    let all: Vec<String> = all.map(yaml::to_string).collect();
    all.join("---\n")
        .replace(concat!("v", env!("CARGO_PKG_VERSION")), "VERSION")
}

fn names(settings: &Settings) -> Vec<String> {
    let all = settings.manifests().unwrap();
    let all = all.iter().filter(|object| !is_definition(object));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.map(|object| format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"])))
        .collect()
}

#[test]
fn manifests_match_the_golden_file() {
    let shown = shown(&settings());
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/src/install/golden.yaml");
    if std::env::var_os("EQUATE_BLESS").is_some() {
        std::fs::write(golden, &shown).unwrap();
    }
    assert_eq!(shown, std::fs::read_to_string(golden).unwrap());
}

#[test]
fn objects_follow_their_dependencies() {
    let text = export(&settings()).unwrap();
    let objects: Vec<Value> = yaml::load(&text, &yaml::Options::default())
        .unwrap()
        .into_iter()
        .map(|document| document.value)
        .collect();
    assert_eq!(objects, settings().manifests().unwrap());
    assert_eq!(objects[0]["kind"], "Namespace");
    let definitions = objects.iter().filter(|object| is_definition(object));
    assert_eq!(definitions.count(), equate_api::definitions().len());
    let place = |kind: &str, name: &str| {
        let found = objects
            .iter()
            .position(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("no {kind}/{name}"))
    };
    for object in &objects {
        let at = place(
            object["kind"].as_str().unwrap(),
            object["metadata"]["name"].as_str().unwrap(),
        );
        let role = &object["roleRef"]["name"];
        if let Some(role) = role.as_str().filter(|role| *role != "cluster-admin") {
            assert!(place("ClusterRole", role) < at);
        }
        for subject in object["subjects"].as_array().into_iter().flatten() {
            assert!(place("ServiceAccount", subject["name"].as_str().unwrap()) < at);
        }
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/part-of"], "flux");
        assert_eq!(labels["app.kubernetes.io/instance"], DEFAULT_NAMESPACE);
    }
    assert_eq!(objects.last().unwrap()["kind"], "Deployment");
}

#[test]
fn service_and_deployment_select_the_pod() {
    let objects = settings().manifests().unwrap();
    let of = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
    let (service, deployment) = (of("Service"), of("Deployment"));
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    let matches = |selector: &Value| {
        let selector = selector.as_object().unwrap();
        selector.iter().all(|(key, value)| labels[key] == *value)
    };
    assert!(matches(&service["spec"]["selector"]));
    let own = &deployment["spec"]["selector"]["matchLabels"];
    assert!(matches(own));
    // Flux's Deployment selects its pods by this label
    assert!(own.get("app").is_none());
}

fn difference(a: &Settings, b: &Settings) -> (Vec<String>, Vec<String>) {
    let lines = |settings: &Settings| -> BTreeSet<String> {
        let text = shown(settings);
        let lines = text.lines().map(|line| line.trim_start_matches([' ', '-']));
        lines.map(str::to_owned).collect()
    };
    let (a, b) = (lines(a), lines(b));
    let minus = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect();
    (minus(&a, &b), minus(&b, &a))
}

#[test]
fn each_flag_changes_only_its_lines() {
    let check = |flags: &str, gone: &[&str], new: &[&str]| {
        let line = format!("equate install {flags}");
        let line::Command::Install(args) = line::parse(line.split_whitespace(), &all()).unwrap().command
        else {
            panic!("{flags}")
        };
        let usual = Settings {
            image: concat!("equate:", env!("CARGO_PKG_VERSION")).to_owned(),
            ..settings()
        };
        let (was, is) = difference(&usual, &args.settings(&all()));
        assert_eq!(was, gone, "{flags}");
        assert_eq!(is, new, "{flags}");
    };
    check("", &[], &[]);
    check(
        "--watch-all-namespaces=false",
        &["watch-all-namespaces=true"],
        &["watch-all-namespaces=false"],
    );
    check("--log-level debug", &["log-level=info"], &["log-level=debug"]);
    check(
        "--cluster-domain example.",
        &["storage-adv-addr=source-controller.$(RUNTIME_NAMESPACE).svc.cluster.local."],
        &["storage-adv-addr=source-controller.$(RUNTIME_NAMESPACE).svc.example."],
    );
    check(
        "--toleration-keys critical,other",
        &[],
        &["key: critical", "key: other", "operator: Exists", "tolerations:"],
    );
    check(
        "--image-pull-secret pull",
        &[],
        &["imagePullSecrets:", "name: pull"],
    );
    check(
        "--events-addr http://n.flux-system/",
        &[],
        &["events-addr=http://n.flux-system/"],
    );
    check(
        "--image=a/b:c",
        &[concat!("image: equate:", env!("CARGO_PKG_VERSION"))],
        &["image: a/b:c"],
    );
}

#[test]
fn default_image_has_this_version() {
    let check = |flags: &str, expected: &str| {
        let line = format!("equate install {flags}");
        let line::Command::Install(args) = line::parse(line.split_whitespace(), &all()).unwrap().command
        else {
            panic!("{flags}")
        };
        assert_eq!(args.settings(&all()).image, expected);
    };
    check("", concat!("equate:", env!("CARGO_PKG_VERSION")));
    check(
        "--registry r.example/team/",
        concat!("r.example/team/equate:", env!("CARGO_PKG_VERSION")),
    );
    check("--image r.example/mine@sha256:1", "r.example/mine@sha256:1");
}

#[test]
fn unsupported_flags_of_flux_are_refused_by_name() {
    for (flags, expected) in [
        (
            "--components-extra=image-reflector-controller",
            "not supported: Equate has no such controllers",
        ),
        (
            "--components=notification-controller",
            "possible values: source-controller, kustomize-controller, helm-controller",
        ),
        ("--manifests=.", "not supported: the manifests are"),
        ("--registry-creds=u:p", "not supported: create the Secret"),
        ("--dry-run=client", "--export prints the manifests"),
        ("--dry-run=perhaps", "expected server"),
        ("--dry-run --export", "cannot be used with"),
        ("--force --export", "cannot be used with"),
        ("--image a --registry b", "cannot be used with"),
        ("--network-policy=perhaps", "expected true or false"),
        ("--log-level=loud", "possible values: trace"),
        ("--token-auth", "unexpected argument '--token-auth'"),
    ] {
        let line = format!("equate install {flags}");
        let error = line::parse(line.split_whitespace(), &all())
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{flags}: {error}");
    }
}

#[test]
fn omitted_parts_are_not_in_the_manifests() {
    let check = |change: &dyn Fn(&mut Settings), expected: &str| {
        let mut changed = settings();
        change(&mut changed);
        assert_eq!(names(&changed).join(" "), expected);
    };
    check(
        &|s| s.running = s.known.only(&["source-controller"]),
        "Namespace/flux-system ServiceAccount/source-controller \
         ClusterRole/flux-view-flux-system ClusterRole/flux-edit-flux-system \
         ClusterRole/equate-controllers-flux-system ClusterRoleBinding/equate-controllers-flux-system \
         ResourceQuota/critical-pods-flux-system NetworkPolicy/allow-egress NetworkPolicy/allow-scraping \
         Service/source-controller Deployment/equate",
    );
    check(
        &|s| {
            s.running = s.known.only(&["kustomize-controller"]);
            s.network_policy = false;
        },
        "Namespace/flux-system ServiceAccount/kustomize-controller \
         ClusterRole/flux-view-flux-system ClusterRole/flux-edit-flux-system \
         ClusterRole/equate-controllers-flux-system ClusterRoleBinding/equate-controllers-flux-system \
         ClusterRoleBinding/equate-reconciler-flux-system \
         ResourceQuota/critical-pods-flux-system Deployment/equate",
    );
    check(
        &|s| s.beside_flux = true,
        "ClusterRole/equate-controllers-flux-system ClusterRoleBinding/equate-controllers-flux-system \
         ClusterRoleBinding/equate-reconciler-flux-system Deployment/equate",
    );
}

#[test]
fn editors_cannot_write_statuses() {
    let manifests = settings().manifests().unwrap();
    let of = |name: &str| {
        let mut roles = manifests
            .iter()
            .filter(|object| object["metadata"]["name"] == name);
        roles.next().unwrap()["rules"].as_array().unwrap().clone()
    };
    let edit = of("flux-edit-flux-system");
    let resources = |group: &str| -> Vec<String> {
        let rule = edit.iter().find(|rule| rule["apiGroups"][0] == group).unwrap();
        let resources = rule["resources"].as_array().unwrap().iter();
        resources
            .map(|resource| resource.as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        resources("source.toolkit.fluxcd.io"),
        [
            "buckets",
            "externalartifacts",
            "gitrepositories",
            "helmcharts",
            "helmrepositories",
            "ocirepositories"
        ]
    );
    assert_eq!(resources("kustomize.toolkit.fluxcd.io"), ["kustomizations"]);
    assert_eq!(of("flux-view-flux-system")[0]["resources"][0], "*");
}

#[test]
fn artifacts_of_another_cluster_domain_are_fetched() {
    let mut all = settings();
    all.running = all.known.only(&["kustomize-controller"]);
    let args = |all: &Settings| {
        let deployment = all.manifests().unwrap().pop().unwrap();
        deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string()
    };
    assert!(!args(&all).contains("--artifact-server"), "{}", args(&all));
    all.cluster_domain = "example.org".to_owned();
    let expected = "--artifact-server=source-controller.$(RUNTIME_NAMESPACE).svc.example.org";
    assert!(args(&all).contains(expected), "{}", args(&all));
}

/// The arguments of the pod parse, and its ports are those that are listened on.
#[test]
fn pod_arguments_parse() {
    let mut all = settings();
    all.events_addr = Some("http://n/".to_owned());
    let manifests = all.manifests().unwrap();
    let container = &manifests.last().unwrap()["spec"]["template"]["spec"]["containers"][0];
    let words = container["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap());
    let command = line::parse(std::iter::once("equate").chain(words), &equate_controllers::all())
        .unwrap()
        .command;
    let printed = format!("{command:?}");
    for part in [
        "controllers: [\"source-controller\", \"kustomize-controller\", \"helm-controller\", \"source-watcher\"]",
        "enable_leader_election: true",
        "storage_path: \"/data\"",
        "storage_adv_addr: \"source-controller.$(RUNTIME_NAMESPACE).svc.cluster.local.\"",
        "events_addr: \"http://n/\"",
        "metrics_addr: At(None, 8080)",
        "health_addr: At(None, 9440)",
        "storage_addr: At(None, 9090)",
    ] {
        assert!(printed.contains(part), "no {part} in {printed}");
    }
}
