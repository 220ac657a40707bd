//! The shapes of a kustomization file and of the files it names.

use super::decode::Shape;

pub(crate) const TEXTS: Shape = Shape::List(&Shape::Text);

const FIELD_SPEC: Shape = Shape::Struct {
    name: "FieldSpec",
    fields: &[
        ("group", Shape::Text),
        ("version", Shape::Text),
        ("kind", Shape::Text),
        ("path", Shape::Text),
        ("create", Shape::Flag),
    ],
};

pub(crate) const FIELD_SPECS: Shape = Shape::List(&FIELD_SPEC);

pub(crate) const SELECTOR: Shape = Shape::Struct {
    name: "Selector",
    fields: &[
        ("group", Shape::Text),
        ("version", Shape::Text),
        ("kind", Shape::Text),
        ("name", Shape::Text),
        ("namespace", Shape::Text),
        ("labelSelector", Shape::Text),
        ("annotationSelector", Shape::Text),
    ],
};

pub(crate) const PATCH_OPTIONS: Shape = Shape::Struct {
    name: "PatchArgs",
    fields: &[("allowNameChange", Shape::Flag), ("allowKindChange", Shape::Flag)],
};

const PATCH: Shape = Shape::Struct {
    name: "Patch",
    fields: &[
        ("path", Shape::Text),
        ("patch", Shape::Text),
        ("target", SELECTOR),
        ("options", PATCH_OPTIONS),
    ],
};

pub(crate) const IMAGE: Shape = Shape::Struct {
    name: "Image",
    fields: &[
        ("name", Shape::Text),
        ("newName", Shape::Text),
        ("newTag", Shape::Text),
        ("tagSuffix", Shape::Text),
        ("digest", Shape::Text),
    ],
};

pub(crate) const GENERATOR_OPTIONS: Shape = Shape::Struct {
    name: "GeneratorOptions",
    fields: &[
        ("labels", Shape::Texts),
        ("annotations", Shape::Texts),
        ("disableNameSuffixHash", Shape::Flag),
        ("immutable", Shape::Flag),
    ],
};

const CONFIG_MAP: Shape = Shape::Struct {
    name: "ConfigMapArgs",
    fields: &[
        ("namespace", Shape::Text),
        ("name", Shape::Text),
        ("behavior", Shape::Text),
        ("literals", TEXTS),
        ("files", TEXTS),
        ("envs", TEXTS),
        ("env", Shape::Text),
        ("options", GENERATOR_OPTIONS),
    ],
};

const SECRET: Shape = Shape::Struct {
    name: "SecretArgs",
    fields: &[
        ("namespace", Shape::Text),
        ("name", Shape::Text),
        ("behavior", Shape::Text),
        ("literals", TEXTS),
        ("files", TEXTS),
        ("envs", TEXTS),
        ("env", Shape::Text),
        ("options", GENERATOR_OPTIONS),
        ("type", Shape::Text),
    ],
};

const FIELD_OPTIONS: Shape = Shape::Struct {
    name: "FieldOptions",
    fields: &[
        ("delimiter", Shape::Text),
        ("index", Shape::Integer),
        ("encoding", Shape::Text),
        ("create", Shape::Flag),
    ],
};

pub(crate) const REPLACEMENT: Shape = Shape::Struct {
    name: "ReplacementField",
    fields: &[
        ("path", Shape::Text),
        (
            "source",
            Shape::Struct {
                name: "SourceSelector",
                fields: &[
                    ("group", Shape::Text),
                    ("version", Shape::Text),
                    ("kind", Shape::Text),
                    ("name", Shape::Text),
                    ("namespace", Shape::Text),
                    ("fieldPath", Shape::Text),
                    ("options", FIELD_OPTIONS),
                ],
            },
        ),
        ("sourceValue", Shape::Text),
        (
            "targets",
            Shape::List(&Shape::Struct {
                name: "TargetSelector",
                fields: &[
                    ("select", SELECTOR),
                    ("reject", Shape::List(&SELECTOR)),
                    ("fieldPaths", TEXTS),
                    ("options", FIELD_OPTIONS),
                ],
            }),
        ),
    ],
};

pub(crate) const REPLICA: Shape = Shape::Struct {
    name: "Replica",
    fields: &[("name", Shape::Text), ("count", Shape::Integer)],
};

pub(crate) const SORT_OPTIONS: Shape = Shape::Struct {
    name: "SortOptions",
    fields: &[
        ("order", Shape::Text),
        (
            "legacySortOptions",
            Shape::Struct {
                name: "LegacySortOptions",
                fields: &[("orderFirst", TEXTS), ("orderLast", TEXTS)],
            },
        ),
    ],
};

const VARIABLE: Shape = Shape::Struct {
    name: "Var",
    fields: &[
        ("name", Shape::Text),
        (
            "objref",
            Shape::Struct {
                name: "Target",
                fields: &[
                    ("apiVersion", Shape::Text),
                    ("group", Shape::Text),
                    ("version", Shape::Text),
                    ("kind", Shape::Text),
                    ("name", Shape::Text),
                    ("namespace", Shape::Text),
                ],
            },
        ),
        (
            "fieldref",
            Shape::Struct {
                name: "FieldSelector",
                fields: &[("fieldPath", Shape::Text)],
            },
        ),
    ],
};

const METADATA: Shape = Shape::Struct {
    name: "ObjectMeta",
    fields: &[
        ("name", Shape::Text),
        ("namespace", Shape::Text),
        ("labels", Shape::Texts),
        ("annotations", Shape::Texts),
    ],
};

pub(crate) const HELM_GLOBALS: Shape = Shape::Struct {
    name: "HelmGlobals",
    fields: &[("chartHome", Shape::Text), ("configHome", Shape::Text)],
};

pub(crate) const HELM_CHART: Shape = Shape::Struct {
    name: "HelmChart",
    fields: &[
        ("name", Shape::Text),
        ("version", Shape::Text),
        ("repo", Shape::Text),
        ("releaseName", Shape::Text),
        ("namespace", Shape::Text),
        ("additionalValuesFiles", TEXTS),
        ("valuesFile", Shape::Text),
        ("valuesInline", Shape::Any),
        ("valuesMerge", Shape::Text),
        ("includeCRDs", Shape::Flag),
        ("skipHooks", Shape::Flag),
        ("apiVersions", TEXTS),
        ("kubeVersion", Shape::Text),
        ("nameTemplate", Shape::Text),
        ("skipTests", Shape::Flag),
        ("debug", Shape::Flag),
        ("devel", Shape::Flag),
    ],
};

/// The predecessor of `helmCharts`.
const OLD_HELM_CHART: Shape = Shape::Struct {
    name: "HelmChartArgs",
    fields: &[
        ("chartName", Shape::Text),
        ("chartVersion", Shape::Text),
        ("chartRepoUrl", Shape::Text),
        ("chartHome", Shape::Text),
        ("chartRepoName", Shape::Text),
        ("helmBin", Shape::Text),
        ("helmHome", Shape::Text),
        ("values", Shape::Text),
        ("valuesLocal", Shape::Any),
        ("valuesMerge", Shape::Text),
        ("releaseName", Shape::Text),
        ("releaseNamespace", Shape::Text),
        ("extraArgs", TEXTS),
    ],
};

pub(crate) static KUSTOMIZATION: Shape = Shape::Struct {
    name: "Kustomization",
    fields: &[
        ("apiVersion", Shape::Text),
        ("kind", Shape::Text),
        ("metadata", METADATA),
        ("openapi", Shape::Texts),
        ("namePrefix", Shape::Text),
        ("nameSuffix", Shape::Text),
        ("namespace", Shape::Text),
        ("commonLabels", Shape::Texts),
        (
            "labels",
            Shape::List(&Shape::Struct {
                name: "Label",
                fields: &[
                    ("pairs", Shape::Texts),
                    ("includeSelectors", Shape::Flag),
                    ("includeTemplates", Shape::Flag),
                    ("includeVolumeClaimTemplates", Shape::Flag),
                    ("fields", FIELD_SPECS),
                ],
            }),
        ),
        ("commonAnnotations", Shape::Texts),
        ("patchesStrategicMerge", TEXTS),
        ("patchesJson6902", Shape::List(&PATCH)),
        ("patches", Shape::List(&PATCH)),
        ("images", Shape::List(&IMAGE)),
        ("imageTags", Shape::List(&IMAGE)),
        ("replacements", Shape::List(&REPLACEMENT)),
        ("replicas", Shape::List(&REPLICA)),
        ("vars", Shape::List(&VARIABLE)),
        ("sortOptions", SORT_OPTIONS),
        ("resources", TEXTS),
        ("components", TEXTS),
        ("crds", TEXTS),
        ("bases", TEXTS),
        ("configMapGenerator", Shape::List(&CONFIG_MAP)),
        ("secretGenerator", Shape::List(&SECRET)),
        ("helmGlobals", HELM_GLOBALS),
        ("helmCharts", Shape::List(&HELM_CHART)),
        ("helmChartInflationGenerator", Shape::List(&OLD_HELM_CHART)),
        ("generatorOptions", GENERATOR_OPTIONS),
        ("configurations", TEXTS),
        ("generators", TEXTS),
        ("transformers", TEXTS),
        ("validators", TEXTS),
        ("buildMetadata", TEXTS),
    ],
};

pub(crate) static CONFIGURATION: Shape = Shape::Struct {
    name: "TransformerConfig",
    fields: &[
        ("namePrefix", FIELD_SPECS),
        ("nameSuffix", FIELD_SPECS),
        ("namespace", FIELD_SPECS),
        ("labels", FIELD_SPECS),
        ("commonLabels", FIELD_SPECS),
        ("templateLabels", FIELD_SPECS),
        ("volumeClaimTemplateLabels", FIELD_SPECS),
        ("commonAnnotations", FIELD_SPECS),
        (
            "nameReference",
            Shape::List(&Shape::Struct {
                name: "NameBackReferences",
                fields: &[
                    ("group", Shape::Text),
                    ("version", Shape::Text),
                    ("kind", Shape::Text),
                    ("fieldSpecs", FIELD_SPECS),
                ],
            }),
        ),
        ("varReference", FIELD_SPECS),
        ("images", FIELD_SPECS),
        ("replicas", FIELD_SPECS),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(shape: &Shape, path: &str, into: &mut Vec<String>) {
        match shape {
            Shape::Struct { fields, .. } => {
                for (name, shape) in *fields {
                    let path = if path.is_empty() {
                        (*name).to_owned()
                    } else {
                        format!("{path}.{name}")
                    };
                    paths(shape, &path, into);
                }
            }
            Shape::List(item) if matches!(item, Shape::Struct { .. }) => {
                paths(item, &format!("{path}[]"), into);
            }
            Shape::Text | Shape::Flag | Shape::Integer | Shape::Texts | Shape::List(_) | Shape::Any => {
                into.push(path.to_owned());
            }
        }
    }

    #[test]
    fn the_effect_of_every_field_is_tested() {
        let mut known = Vec::new();
        paths(&KUSTOMIZATION, "", &mut known);
        let tested: Vec<&str> = include_str!("../../tests/it/fields.txt")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| Some(line.split_once(" | ")?.0))
            .collect();
        assert_eq!(tested, known);
    }
}
