//! The fields of a kustomization file.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

type Texts = BTreeMap<String, String>;

/// All fields, named as in kustomize api 0.21.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Fields {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) metadata: Option<Value>,
    pub(crate) openapi: Texts,
    pub(crate) name_prefix: String,
    pub(crate) name_suffix: String,
    pub(crate) namespace: String,
    pub(crate) common_labels: Texts,
    pub(crate) labels: Vec<LabelField>,
    pub(crate) common_annotations: Texts,
    pub(crate) patches_strategic_merge: Vec<String>,
    pub(crate) patches_json6902: Vec<Patch>,
    pub(crate) patches: Vec<Patch>,
    pub(crate) images: Vec<Image>,
    pub(crate) image_tags: Vec<Image>,
    pub(crate) replacements: Vec<Replacement>,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) vars: Vec<Variable>,
    pub(crate) sort_options: Option<SortOptions>,
    pub(crate) resources: Vec<String>,
    pub(crate) components: Vec<String>,
    pub(crate) crds: Vec<String>,
    pub(crate) bases: Vec<String>,
    pub(crate) config_map_generator: Vec<GeneratorFields>,
    pub(crate) secret_generator: Vec<GeneratorFields>,
    pub(crate) helm_globals: Option<Value>,
    pub(crate) helm_charts: Vec<Value>,
    pub(crate) helm_chart_inflation_generator: Vec<Value>,
    pub(crate) generator_options: Option<GeneratorOptions>,
    pub(crate) configurations: Vec<String>,
    pub(crate) generators: Vec<String>,
    pub(crate) transformers: Vec<String>,
    pub(crate) validators: Vec<String>,
    pub(crate) build_metadata: Vec<String>,
}

impl Fields {
    /// Moves deprecated fields into their successors. `bases` and `imageTags` come last.
    pub(super) fn move_deprecated(&mut self) {
        let images = std::mem::take(&mut self.image_tags);
        self.images.extend(images);
        for generator in self
            .config_map_generator
            .iter_mut()
            .chain(&mut self.secret_generator)
        {
            let env = std::mem::take(&mut generator.env);
            if !env.is_empty() {
                generator.envs.push(env);
            }
        }
    }
}

/// `labels[]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LabelField {
    pub(crate) pairs: Texts,
    pub(crate) include_selectors: bool,
    pub(crate) include_templates: bool,
    pub(crate) include_volume_claim_templates: bool,
    pub(crate) fields: Vec<FieldSpecField>,
}

/// A field specification as users write it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct FieldSpecField {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) path: String,
    pub(crate) create: bool,
}

/// `patches[]` and `patchesJson6902[]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Patch {
    pub(crate) path: String,
    pub(crate) patch: String,
    pub(crate) target: Option<Selector>,
    pub(crate) options: PatchOptions,
}

/// `patches[].options`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PatchOptions {
    pub(crate) allow_name_change: bool,
    pub(crate) allow_kind_change: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Selector {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) label_selector: String,
    pub(crate) annotation_selector: String,
}

/// `images[]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Image {
    pub(crate) name: String,
    pub(crate) new_name: String,
    pub(crate) new_tag: String,
    pub(crate) tag_suffix: String,
    pub(crate) digest: String,
}

/// `replicas[]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Replica {
    pub(crate) name: String,
    pub(crate) count: i64,
}

/// `vars[]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) objref: Target,
    pub(crate) fieldref: FieldReference,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Target {
    pub(crate) api_version: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) namespace: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FieldReference {
    pub(crate) field_path: String,
}

/// `replacements[]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Replacement {
    pub(crate) path: String,
    pub(crate) source: Option<ReplacementSource>,
    pub(crate) source_value: Option<String>,
    pub(crate) targets: Vec<ReplacementTarget>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReplacementSource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) field_path: String,
    pub(crate) options: Option<FieldOptions>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReplacementTarget {
    pub(crate) select: Option<Selector>,
    pub(crate) reject: Vec<Selector>,
    pub(crate) field_paths: Vec<String>,
    pub(crate) options: Option<FieldOptions>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FieldOptions {
    pub(crate) delimiter: String,
    pub(crate) index: i64,
    pub(crate) encoding: String,
    pub(crate) create: bool,
}

/// `sortOptions`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SortOptions {
    pub(crate) order: String,
    pub(crate) legacy_sort_options: Option<LegacySortOptions>,
}

/// `sortOptions.legacySortOptions`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LegacySortOptions {
    pub(crate) order_first: Vec<String>,
    pub(crate) order_last: Vec<String>,
}

/// `configMapGenerator[]` and `secretGenerator[]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GeneratorFields {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) behavior: String,
    pub(crate) literals: Vec<String>,
    pub(crate) files: Vec<String>,
    pub(crate) envs: Vec<String>,
    pub(crate) env: String,
    pub(crate) options: Option<GeneratorOptions>,
    pub(crate) r#type: String,
}

/// `generatorOptions`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GeneratorOptions {
    pub(crate) labels: Texts,
    pub(crate) annotations: Texts,
    pub(crate) disable_name_suffix_hash: bool,
    pub(crate) immutable: bool,
}

/// A file of `configurations`: field specifications by list.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Configuration {
    pub(crate) name_prefix: Vec<FieldSpecField>,
    pub(crate) name_suffix: Vec<FieldSpecField>,
    pub(crate) namespace: Vec<FieldSpecField>,
    pub(crate) labels: Vec<FieldSpecField>,
    pub(crate) common_labels: Vec<FieldSpecField>,
    pub(crate) template_labels: Vec<FieldSpecField>,
    pub(crate) volume_claim_template_labels: Vec<FieldSpecField>,
    pub(crate) common_annotations: Vec<FieldSpecField>,
    pub(crate) name_reference: Vec<ReferenceField>,
    pub(crate) var_reference: Vec<FieldSpecField>,
    pub(crate) images: Vec<FieldSpecField>,
    pub(crate) replicas: Vec<FieldSpecField>,
}

/// `nameReference[]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReferenceField {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) field_specs: Vec<FieldSpecField>,
}
