//! Recordings of a real server, replayed: objects from the recording, managers computed here.

use super::*;

fn recordings() -> Option<Vec<Value>> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/conformance/kube-apiserver-1.36/k8s-1.36.2-http.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: no recordings at {}", path.display());
        return None;
    };
    Some(
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}

fn scenario(name: &str) -> Option<Vec<Value>> {
    let mut found = recordings()?;
    found.retain(|scenario| scenario["scenario"] == name);
    assert_eq!(found.len(), 1, "scenario {name}");
    found[0]["steps"].as_array_mut().map(std::mem::take)
}

/// Replays the steps on one object. Compares the bodies of refusals that this layer makes.
struct Replay {
    kind: Kind,
    live: Option<Value>,
    compared: usize,
}

impl Replay {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            live: None,
            compared: 0,
        }
    }

    fn step(&mut self, step: &Value) {
        let about = step["desc"].as_str().unwrap();
        let (path, query) = {
            let path = step["path"].as_str().unwrap();
            path.split_once('?').unwrap_or((path, ""))
        };
        let parameter = |name: &str| {
            query
                .split('&')
                .find_map(|p| p.strip_prefix(name)?.strip_prefix('='))
                .unwrap_or_default()
        };
        let subresource = ["status", "scale"]
            .into_iter()
            .find(|s| path.ends_with(s))
            .unwrap_or_default();
        let response = &step["response"]["body"];
        let name = manager_name(parameter("fieldManager"), "");
        if step["method"] == "GET" || step["method"] == "DELETE" {
            return;
        }
        if subresource == "scale" {
            return self.scale(step, &name);
        }
        let applies = step["contentType"] == "application/apply-patch+yaml";
        if applies {
            let Ok(patch) = serde_json::from_str::<Value>(step["body"].as_str().unwrap()) else {
                return;
            };
            let manager = self.kind.manager(&name, subresource);
            let force = parameter("force") == "true";
            match apply(self.live.as_ref(), &patch, force, &manager) {
                Err(error) => {
                    assert_eq!(&error.to_value(), response, "{about}");
                    self.compared += 1;
                }
                // Refused later, by validation or preconditions.
                Ok(_) if response["kind"] == "Status" => {}
                Ok(applied) => self.keep(about, &applied.object, response),
            }
        } else if response["kind"] == self.kind.kind.as_str() {
            let mut new = response.clone();
            take_managed_fields(&mut new);
            let manager = self.kind.manager(&name, subresource);
            let new = update(self.live.as_ref(), new, &manager);
            self.keep(about, &new, response);
        }
    }

    fn keep(&mut self, about: &str, ours: &Value, recorded: &Value) {
        assert_eq!(timeless(ours), timeless(recorded), "{about}");
        self.compared += 1;
        let mut live = recorded.clone();
        take_managed_fields(&mut live);
        if let Some(entries) = managed_fields(ours) {
            set_managed_fields(&mut live, entries.clone());
        }
        self.live = Some(live);
    }

    /// Records a controller's write between two steps, as far as the recorded object shows it.
    fn controller(&mut self, name: &str, recorded: &Value, fields: &[&str]) {
        let Some(live) = self.live.clone() else { return };
        let mut new = live.clone();
        for pointer in fields {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            if let Some(value) = recorded.pointer(pointer) {
                new.pointer_mut(parent).unwrap()[key] = value.clone();
            }
        }
        take_managed_fields(&mut new);
        self.live = Some(update(Some(&live), new, &self.kind.manager(name, "status")));
    }

    fn scale(&mut self, step: &Value, name: &str) {
        let live = self.live.as_ref().unwrap();
        let scale = Kind {
            reset: &[],
            ..Kind::builtin("io.k8s.api.autoscaling.v1.Scale", "autoscaling/v1", "Scale")
        };
        let path = ["spec", "replicas"];
        let entries = scale::to_scale(managed_fields(live), &path).unwrap();
        let mut stored = json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "web", "uid": "u" },
            "spec": { "replicas": live["spec"]["replicas"] }, "status": { "replicas": 0 },
        });
        if let Some(entries) = entries {
            set_managed_fields(&mut stored, entries);
        }
        let mut manager = scale.manager(name, "");
        manager.subresource = "scale";
        let new = match step["body"].as_str() {
            Some(patch) => {
                let patch = serde_json::from_str(patch).unwrap();
                apply(Some(&stored), &patch, true, &manager).unwrap().object
            }
            None => {
                let mut new = stored.clone();
                new["spec"]["replicas"] = step["body"]["spec"]["replicas"].clone();
                update(Some(&stored), new, &manager)
            }
        };
        let entries = scale::to_parent(
            managed_fields(live),
            managed_fields(&new),
            &self.kind.api_version,
            &path,
        )
        .unwrap();
        let mut live = live.clone();
        live["spec"]["replicas"] = new["spec"]["replicas"].clone();
        set_managed_fields(&mut live, entries.unwrap());
        self.live = Some(live);
    }
}

#[test]
fn config_map() {
    let Some(steps) = scenario("ssa-configmap") else {
        return;
    };
    let mut replay = Replay::new(Kind::config_map());
    for step in &steps {
        let path = step["path"].as_str().unwrap();
        // The other objects of the scenario are new: each is a replay of its own.
        if path.contains("configmaps/a?")
            && !path.contains("fieldManager=&")
            && !path.ends_with("fieldManager=")
        {
            replay.step(step);
        } else if path.contains("configmaps/dry?") {
            let mut other = Replay::new(Kind::config_map());
            other.step(step);
            replay.compared += other.compared;
        }
    }
    assert_eq!(replay.compared, 14);
}

#[test]
fn deployment() {
    let Some(steps) = scenario("ssa-deployment") else {
        return;
    };
    let mut replay = Replay::new(Kind::builtin(
        "io.k8s.api.apps.v1.Deployment",
        "apps/v1",
        "Deployment",
    ));
    for (i, step) in steps.iter().enumerate() {
        // Its controller wrote the first status, and counts revisions in an annotation.
        let fields: &[&str] = match i {
            0 => &[],
            1 => &["/metadata/annotations", "/status"],
            _ => &["/metadata/annotations"],
        };
        replay.controller("kube-controller-manager", &step["response"]["body"], fields);
        replay.step(step);
    }
    assert_eq!(replay.compared, 13);
}

#[test]
fn service() {
    let Some(steps) = scenario("ssa-service") else {
        return;
    };
    let mut replay = Replay::new(Kind::builtin("io.k8s.api.core.v1.Service", "v1", "Service"));
    steps.iter().for_each(|step| replay.step(step));
    assert_eq!(replay.compared, 4);
}

#[test]
fn custom_resource_and_its_definition() {
    let Some(steps) = scenario("crd") else { return };
    let definition = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
    let mut crd = Replay::new(Kind::builtin(
        definition,
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
    ));
    let create = steps.iter().find(|step| step["desc"] == "create crd").unwrap();
    crd.step(create);
    assert_eq!(crd.compared, 1);

    let schema = &create["body"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let widget = || Kind::custom(schema, "ex.io/v1", "Widget");
    let (mut a, mut s) = (Replay::new(widget()), Replay::new(widget()));
    for step in &steps {
        let path = step["path"].as_str().unwrap();
        let created = step["response"]["status"] == 201 && step["body"]["metadata"]["name"] == "a";
        if path.contains("widgets/s") {
            s.step(step);
        } else if path.contains("/widgets") && (created || path.contains("widgets/a")) {
            a.step(step);
        }
    }
    assert_eq!((a.compared, s.compared), (5, 5));
}

/// Fields that admission, allocation and the strategies write after the managers were recorded.
const SERVERS_OWN: &[(&str, &[&[&str]])] = &[
    (
        "Job",
        &[
            &["metadata", "labels"],
            &["spec", "selector"],
            &["spec", "template", "metadata"],
        ],
    ),
    ("Namespace", &[&["spec", "finalizers"]]),
    ("PersistentVolumeClaim", &[&["metadata", "finalizers"]]),
    (
        "Pod",
        &[
            &["spec", "preemptionPolicy"],
            &["spec", "priority"],
            &["spec", "tolerations"],
        ],
    ),
    (
        "Service",
        &[
            &["spec", "clusterIP"],
            &["spec", "clusterIPs"],
            &["spec", "healthCheckNodePort"],
            &["spec", "ipFamilies"],
            &["spec", "ipFamilyPolicy"],
            &["spec", "ports"],
        ],
    ),
];

#[test]
fn created_objects() {
    let Some(recordings) = recordings() else { return };
    let mut compared = 0;
    let mut report = String::new();
    for scenario in recordings {
        for step in scenario["steps"].as_array().unwrap() {
            let object = &step["response"]["body"];
            let api_version = text(object, "/apiVersion");
            let resource = schema::kubernetes_resources().iter().find(|r| {
                let gv = if r.group.is_empty() {
                    r.version.clone()
                } else {
                    format!("{}/{}", r.group, r.version)
                };
                gv == api_version && r.kind == text(object, "/kind")
            });
            let (Some(resource), true) = (resource, managed_fields(object).is_some()) else {
                continue;
            };
            if step["method"] != "POST" || step["response"]["status"] != 201 {
                continue;
            }
            let kind = Kind::builtin(&resource.definition, api_version, &resource.kind);
            let path = step["path"].as_str().unwrap();
            let name = manager_name(path.split_once("fieldManager=").unwrap_or_default().1, "");
            let mut new = object.clone();
            take_managed_fields(&mut new);
            let ours = update(None, new, &kind.manager(&name, ""));
            compared += 1;
            let written: Vec<Path> = SERVERS_OWN
                .iter()
                .filter(|(kind, _)| *kind == resource.kind)
                .flat_map(|(_, paths)| paths.iter().map(|names| Path::fields(names)))
                .collect();
            let fields = |object: &Value| {
                let fields = &managed_fields(object).unwrap()[0]["fieldsV1"];
                Set::from_fields_v1(fields)
                    .unwrap()
                    .recursive_difference(&Set::of(&written))
            };
            // The recording's uid was replaced in the object, but not inside its managers.
            if fields(&ours) != fields(object) && step["desc"] != "dependent" {
                report.push_str(&format!("{}: {}\n", scenario["scenario"], step["desc"]));
            }
        }
    }
    assert_eq!(report, "", "of {compared}");
    assert!(compared > 40, "{compared} compared");
}
