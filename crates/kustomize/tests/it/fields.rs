//! Every field of `kustomization.yaml`: what it does, or that it is refused by name.

use crate::memory::Memory;
use equate_kustomize::{Options, kustomize};

#[test]
fn deprecated_fields_are_told_in_the_order_files_are_read() {
    let tree = Memory::new(&[
        (
            "k/kustomization.yaml",
            "vars: []\nBases: [../b]\ncommonLabels: {}\npatchesJson6902: null\n",
        ),
        (
            "b/kustomization.yaml",
            "resources: []\nimageTags: []\npatchesStrategicMerge: []\n",
        ),
    ]);
    let built = kustomize(&tree, "k", &Options::default()).unwrap();
    let told: Vec<String> = built
        .deprecations
        .iter()
        .map(|deprecation| format!("{} {deprecation}", deprecation.place))
        .collect();
    let line = |place: &str, field: &str, instead: &str, remark: &str| {
        format!(
            "{place} # Warning: '{field}' is deprecated. Please use '{instead}' instead. {remark}\
             Run 'kustomize edit fix' to update your Kustomization automatically."
        )
    };
    assert_eq!(
        told,
        [
            line("k/kustomization.yaml:2:8", "bases", "resources", ""),
            line("k/kustomization.yaml:3:15", "commonLabels", "labels", ""),
            line(
                "k/kustomization.yaml:1:7",
                "vars",
                "replacements",
                "[EXPERIMENTAL] "
            ),
            line("b/kustomization.yaml:2:12", "imageTags", "images", ""),
            line(
                "b/kustomization.yaml:3:24",
                "patchesStrategicMerge",
                "patches",
                ""
            ),
        ]
    );
}
