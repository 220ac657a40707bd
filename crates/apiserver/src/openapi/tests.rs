//! The documents against those that Kubernetes ships, if its module is in Go's cache.

use super::*;
use crate::discovery::tests::builtin;
use std::path::PathBuf;

fn upstream() -> Option<PathBuf> {
    let output = std::process::Command::new("go")
        .args(["env", "GOMODCACHE"])
        .output()
        .ok()?;
    let cache = String::from_utf8(output.stdout).ok()?;
    let folder = PathBuf::from(cache.trim()).join("k8s.io/kubernetes@v1.36.3/api/openapi-spec/v3");
    folder.is_dir().then_some(folder)
}

/// Removes descriptions, enumerations, content types and the lone `allOf` of a described reference;
/// upstream's files are written without enumerations.
fn strip(value: &mut Value, in_properties: bool) {
    match value {
        Value::Object(map) => {
            if !in_properties {
                map.remove("description");
                map.remove("enum");
                if map
                    .get("parameters")
                    .is_some_and(|parameters| parameters == &json!([]))
                {
                    map.remove("parameters");
                }
                if map.len() == 1
                    && let Some(Value::Array(all)) = map.get("allOf")
                    && let [single] = all.as_slice()
                {
                    *map = single.as_object().cloned().unwrap_or_default();
                }
                if let Some(Value::Object(content)) = map.get_mut("content") {
                    let first = content.values().next().cloned();
                    *content = first.map(|first| ("any".to_owned(), first)).into_iter().collect();
                }
            }
            for (key, child) in map.iter_mut() {
                strip(child, !in_properties && key == "properties");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|child| strip(child, false)),
        _ => {}
    }
}

/// Kinds whose delete answers with the object although upstream's documents declare a Status.
const RETURNED: &[&str] = &["CSIStorageCapacity", "Namespace"];

#[test]
fn documents_equal_upstream() {
    let Some(folder) = upstream() else {
        println!("skipped: Kubernetes' module is not in Go's cache");
        return;
    };
    let resources = builtin();
    let names = group_versions(&resources);
    assert_eq!(names.len(), 3 + 20 + 22);
    let mut shared = Shared::default();
    for name in names {
        let file = folder.join(format!("{}_openapi.json", name.replace('/', "__")));
        let text = std::fs::read_to_string(&file).expect("upstream has the document");
        let mut expected: Value = serde_json::from_str(&text).expect("upstream's document is JSON");
        let bytes = document(&resources, &name, &mut shared).expect("the document is made");
        let mut made: Value = serde_json::from_slice(&bytes).expect("the document is JSON");
        let paths = expected["paths"].as_object_mut().expect("paths");
        paths.retain(|path, _| {
            let stream = ["/attach", "/exec", "/portforward", "/proxy", "/proxy/{path}"];
            !path.contains("/watch/") && !stream.iter().any(|end| path.ends_with(end))
        });
        for (path, item) in paths {
            let Some(delete) = item.get_mut("delete") else {
                continue;
            };
            let kind = &delete["x-kubernetes-group-version-kind"]["kind"];
            if RETURNED.iter().any(|returned| kind == *returned) && delete["x-kubernetes-action"] == "delete"
            {
                for code in ["200", "202"] {
                    delete["responses"][code] = made["paths"][path]["delete"]["responses"][code].clone();
                }
            }
        }
        strip(&mut expected, false);
        strip(&mut made, false);
        for part in ["paths", "components/schemas"] {
            let pointer = format!("/{part}");
            let (made, expected) = (made.pointer(&pointer), expected.pointer(&pointer));
            let (made, expected) = (
                made.and_then(Value::as_object),
                expected.and_then(Value::as_object),
            );
            let (made, expected) = (made.expect("made"), expected.expect("expected"));
            let keys = |map: &Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
            assert_eq!(keys(made), keys(expected), "{name}: {part}");
            for (key, value) in expected {
                assert_eq!(made[key], *value, "{name}: {part}: {key}");
            }
        }
    }
}

#[test]
fn documents_are_cached_by_the_hash_of_their_bytes() {
    let documents = [("api/v1".to_owned(), hash(b""))];
    assert_eq!(
        index(&documents)["paths"]["api/v1"]["serverRelativeURL"],
        "/openapi/v3/api/v1?hash=CF83E1357EEFB8BDF1542850D66D8007D620E4050B5715DC83F4A921D36CE9CE\
         47D0D13C5D85F2B0FF8318D2877EEC2F63B931BD47417A81A538327AF927DA3E"
    );
    assert_eq!(document(&builtin(), "apis/apps/v2", &mut Shared::default()), None);
    assert_eq!(document(&builtin(), "apis/ex.io", &mut Shared::default()), None);
}

fn custom(crd: &Value) -> Arc<Resource> {
    let text = |pointer: &str| {
        crd.pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let words = |pointer: &str| match crd.pointer(pointer).and_then(Value::as_array) {
        Some(words) => words
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        None => Vec::new(),
    };
    let verbs = |verbs: &[&str]| verbs.iter().map(|verb| (*verb).to_owned()).collect::<Vec<_>>();
    let version = crate::crd::CustomVersion::compile(crd, "v1").expect("the version compiles");
    let body = (text("/spec/group"), "v1".to_owned(), text("/spec/names/kind"));
    let scale = ("autoscaling".to_owned(), "v1".to_owned(), "Scale".to_owned());
    let subresources = [
        ("status", body, version.has_status()),
        ("scale", scale, version.scale().is_some()),
    ];
    let mut resource = Resource::clone(&builtin()[0]);
    resource.derived = crate::registry::Derived::default();
    resource.group = text("/spec/group");
    resource.version = "v1".to_owned();
    resource.plural = text("/spec/names/plural");
    resource.singular = text("/spec/names/singular");
    resource.kind = text("/spec/names/kind");
    resource.list_kind = format!("{}List", resource.kind);
    resource.namespaced = text("/spec/scope") == "Namespaced";
    resource.short_names = words("/spec/names/shortNames");
    resource.categories = words("/spec/names/categories");
    resource.verbs = verbs(&[
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "create",
        "update",
        "watch",
    ]);
    resource.subresources = subresources
        .into_iter()
        .filter(|(.., served)| *served)
        .map(|(name, kind, _)| crate::registry::Subresource {
            name: name.to_owned(),
            kind,
            verbs: verbs(&["get", "patch", "update"]),
        })
        .collect();
    resource.strategy = crate::crd::strategy(version.has_status());
    resource.schema = SchemaSource::Custom(Arc::new(version));
    Arc::new(resource)
}

/// Published by kube-apiserver 1.36.3 for two custom resources. Not compared: `DeleteOptions`, whose list
/// of kinds there names every group of the server's code, and `deletecollection`, which there has the
/// parameters of a list and none of its own.
#[test]
fn a_custom_document_equals_the_recorded_one() {
    let recorded: Value = serde_json::from_str(include_str!("testdata/custom.json")).expect("the recording");
    let mut resources = builtin();
    for crd in recorded["crds"].as_array().expect("definitions") {
        resources.push(custom(crd));
    }
    let names = group_versions(&resources);
    assert!(names.contains(&"apis/ex.io/v1".to_owned()) && !names.contains(&"apis/ex.io".to_owned()));
    let bytes = document(&resources, "apis/ex.io/v1", &mut Shared::default()).expect("the document is made");
    let mut made: Value = serde_json::from_slice(&bytes).expect("the document is JSON");
    strip(&mut made, false);
    let schemas = made["components"]["schemas"].take();
    let served: Vec<&String> = schemas.as_object().expect("schemas").keys().collect();
    assert_eq!(json!(served), recorded["names"]);
    for (name, schema) in recorded["schemas"].as_object().expect("schemas") {
        assert_eq!(schemas[name], *schema, "{name}");
    }
    for (path, item) in recorded["paths"].as_object().expect("paths") {
        let made = made["paths"][path].as_object_mut().expect("the path is there");
        made.retain(|_, operation| operation["x-kubernetes-action"] != "deletecollection");
        assert_eq!(json!(made), *item, "{path}");
    }
    assert_eq!(
        made["paths"].as_object().map(Map::len),
        recorded["paths"].as_object().map(Map::len)
    );

    let listed = crate::discovery::aggregated(&resources, false, "v2");
    let last = listed["items"]
        .as_array()
        .and_then(|items| items.last())
        .expect("groups");
    assert_eq!(last["metadata"]["name"], "ex.io");
    assert_eq!(
        last["versions"][0]["resources"][0]["responseKind"],
        json!({"group": "ex.io", "version": "v1", "kind": "Widget"})
    );
}
