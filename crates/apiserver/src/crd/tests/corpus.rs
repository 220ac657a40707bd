//! Widely installed definitions: none is refused. Read from the shared corpus; skipped if it is absent.

use super::{CustomVersion, causes, default_crd, validate_crd};
use equate_manifest::yaml;
use std::path::Path;

#[test]
fn flux_definitions_are_accepted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/flux-crds");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: {} is absent", folder.display());
        return;
    };
    let mut count = 0;
    for entry in entries {
        let path = entry.expect("entry").path();
        if path.extension().is_none_or(|e| e != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("text");
        for document in yaml::load(&text, &yaml::Options::default()).expect("yaml") {
            let mut crd = document.value;
            default_crd(&mut crd);
            assert_eq!(
                causes(&validate_crd(&crd)),
                Vec::<[String; 3]>::new(),
                "{}",
                path.display()
            );
            for version in crd["spec"]["versions"].as_array().into_iter().flatten() {
                let name = version["name"].as_str().expect("name");
                CustomVersion::compile(&crd, name).expect("compiles");
                count += 1;
            }
        }
    }
    assert!(count >= 15, "{count} versions");
}
