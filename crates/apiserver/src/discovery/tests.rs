//! The documents equal those of a recorded server.

use super::*;
use std::path::Path;

pub(crate) fn builtin() -> Vec<Arc<Resource>> {
    crate::catalog::builtin_resources()
}

fn recorded(scenario: &str) -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/conformance/kube-apiserver-1.36/k8s-1.36.2-http.jsonl");
    let Ok(text) = std::fs::read_to_string(&file) else {
        println!("skipped: no recordings beside the repository");
        return Vec::new();
    };
    text.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find(|recorded| recorded["scenario"] == scenario)
        .and_then(|mut recorded| serde_json::from_value(recorded["steps"].take()).ok())
        .expect("the scenario is recorded")
}

#[test]
fn documents_equal_the_recorded_ones() {
    let resources = builtin();
    let mut compared = 0;
    for step in recorded("discovery") {
        let path = step["path"].as_str().unwrap_or_default();
        let body = &step["response"]["body"];
        let aggregate = body["kind"] == "APIGroupDiscoveryList";
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let document = match parts.as_slice() {
            ["api"] if aggregate => aggregated(&resources, true, "v2"),
            ["apis"] if aggregate => aggregated(&resources, false, "v2"),
            ["api"] => api_versions("127.0.0.1:26443"),
            ["apis"] => group_list(&resources),
            ["api", version] => resource_list(&resources, "", version).expect("served"),
            ["apis", name] => group(&resources, name).expect("served"),
            ["apis", name, version] => resource_list(&resources, name, version).expect("served"),
            _ => continue,
        };
        assert_eq!(document, *body, "{path}");
        compared += 1;
    }
    assert!(compared == 0 || compared == 8, "compared {compared}");
}

#[test]
fn unserved_groups_have_no_document() {
    let resources = builtin();
    assert_eq!(group(&resources, ""), None);
    assert_eq!(group(&resources, "ex.io"), None);
    assert_eq!(resource_list(&resources, "apps", "v2"), None);
}

#[test]
fn versions_are_ordered_by_preference() {
    let mut versions = [
        "v1alpha1",
        "foo",
        "v10",
        "v1beta2",
        "v2",
        "bar",
        "v1",
        "v11alpha2",
        "v1beta10",
    ];
    versions.sort_by(|a, b| compare_versions(b, a));
    assert_eq!(
        versions,
        [
            "v10",
            "v2",
            "v1",
            "v1beta10",
            "v1beta2",
            "v11alpha2",
            "v1alpha1",
            "bar",
            "foo"
        ]
    );
}

#[test]
fn storage_hash_is_that_of_the_stored_version() {
    let resources = builtin();
    let events = resource_list(&resources, "events.k8s.io", "v1").expect("served");
    let core = resource_list(&resources, "", "v1").expect("served");
    let core = core["resources"].as_array().expect("a list");
    let core = core
        .iter()
        .find(|entry| entry["name"] == "events")
        .expect("listed");
    assert_eq!(
        events["resources"][0]["storageVersionHash"],
        core["storageVersionHash"]
    );
}
