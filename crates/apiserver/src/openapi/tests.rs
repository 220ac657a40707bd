//! The documents against those that Kubernetes ships, where its module is in Go's cache.

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

/// What both sides are compared by: descriptions, enumerations, content types and the lone `allOf` of a
/// described reference go; upstream's files are written without enumerations.
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

/// Kinds whose delete answers with the object although upstream's documents say a Status.
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
    for name in names {
        let file = folder.join(format!("{}_openapi.json", name.replace('/', "__")));
        let text = std::fs::read_to_string(&file).expect("upstream has the document");
        let mut expected: Value = serde_json::from_str(&text).expect("upstream's document is JSON");
        let bytes = document(&resources, &name).expect("the document is made");
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
    assert_eq!(document(&builtin(), "apis/apps/v2"), None);
    assert_eq!(document(&builtin(), "apis/ex.io"), None);
}
