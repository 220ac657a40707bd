//! The fields of builtin configurations. Unknown fields are ignored.

use crate::kustomization::{
    FieldSpecField, GeneratorOptions, Image, PatchOptions, Replacement, Replica, Selector, Shape, shapes,
};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TransformerFields {
    pub(super) metadata: Named,
    pub(super) prefix: String,
    pub(super) suffix: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) field_specs: Vec<FieldSpecField>,
    pub(super) unset_only: bool,
    pub(super) set_role_binding_subjects: String,
    pub(super) paths: Vec<String>,
    pub(super) patches: String,
    pub(super) path: String,
    pub(super) patch: String,
    pub(super) json_op: String,
    pub(super) target: Option<Selector>,
    pub(super) options: PatchOptions,
    pub(super) replica: Replica,
    pub(super) image_tag: Image,
    pub(super) replacements: Vec<Replacement>,
    pub(super) value: String,
    pub(super) targets: Vec<ValueTarget>,
    pub(super) target_file_path: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) namespace: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ValueTarget {
    pub(super) selector: Option<Selector>,
    pub(super) field_path: String,
    pub(super) file_path_position: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GeneratorConfigFields {
    pub(super) metadata: Named,
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) behavior: String,
    pub(super) literals: Vec<String>,
    pub(super) files: Vec<String>,
    pub(super) envs: Vec<String>,
    pub(super) env: String,
    pub(super) options: Option<GeneratorOptions>,
    pub(super) r#type: String,
}

const NAMED: Shape = Shape::Struct {
    name: "ObjectMeta",
    fields: &[("name", Shape::Text), ("namespace", Shape::Text)],
};

const TARGETS: Shape = Shape::List(&Shape::Struct {
    name: "Target",
    fields: &[
        ("selector", shapes::SELECTOR),
        ("fieldPath", Shape::Text),
        ("filePathPosition", Shape::Integer),
    ],
});

pub(super) static TRANSFORMER: Shape = Shape::Struct {
    name: "Transformer",
    fields: &[
        ("metadata", NAMED),
        ("prefix", Shape::Text),
        ("suffix", Shape::Text),
        ("labels", Shape::Texts),
        ("annotations", Shape::Texts),
        ("fieldSpecs", shapes::FIELD_SPECS),
        ("unsetOnly", Shape::Flag),
        ("setRoleBindingSubjects", Shape::Text),
        ("paths", shapes::TEXTS),
        ("patches", Shape::Text),
        ("path", Shape::Text),
        ("patch", Shape::Text),
        ("jsonOp", Shape::Text),
        ("target", shapes::SELECTOR),
        ("options", shapes::PATCH_OPTIONS),
        ("replica", shapes::REPLICA),
        ("imageTag", shapes::IMAGE),
        ("replacements", Shape::List(&shapes::REPLACEMENT)),
        ("value", Shape::Text),
        ("targets", TARGETS),
        ("targetFilePath", Shape::Text),
    ],
};

pub(super) static TARGET_FILE: Shape = Shape::Struct {
    name: "Targets",
    fields: &[("targets", TARGETS)],
};

pub(super) static GENERATOR: Shape = Shape::Struct {
    name: "Generator",
    fields: &[
        ("metadata", NAMED),
        ("name", Shape::Text),
        ("namespace", Shape::Text),
        ("behavior", Shape::Text),
        ("literals", shapes::TEXTS),
        ("files", shapes::TEXTS),
        ("envs", shapes::TEXTS),
        ("env", Shape::Text),
        ("options", shapes::GENERATOR_OPTIONS),
        ("type", Shape::Text),
    ],
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PolicyFields {
    pub(super) cloud: String,
    pub(super) kubernetes_service: Named,
    pub(super) service_account: CloudAccount,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CloudAccount {
    pub(super) name: String,
    pub(super) project_id: String,
}

pub(super) static IAM_POLICY: Shape = Shape::Struct {
    name: "IAMPolicyGenerator",
    fields: &[
        ("cloud", Shape::Text),
        ("kubernetesService", NAMED),
        (
            "serviceAccount",
            Shape::Struct {
                name: "ServiceAccount",
                fields: &[("name", Shape::Text), ("projectId", Shape::Text)],
            },
        ),
    ],
};
