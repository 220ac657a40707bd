//! `IAMPolicyGenerator`: a ServiceAccount bound to a cloud account. kustomize supports GKE only.

use super::fields::PolicyFields;

use crate::error::{BuildError, Fault};
use crate::loader::at;
use crate::resource::Resource;
use serde_json::{Value, json};

pub(super) fn generate(fields: PolicyFields, configuration: &Resource) -> Result<Resource, BuildError> {
    if fields.cloud != "gke" {
        let cloud = fields.cloud;
        return Err(at(configuration.place())(Fault::Cloud { cloud }));
    }
    let account = &fields.service_account;
    let email = format!("{}@{}.iam.gserviceaccount.com", account.name, account.project_id);
    let object = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "annotations": { "iam.gke.io/gcp-service-account": email },
            "name": fields.kubernetes_service.name,
        },
    });
    let Value::Object(object) = object else {
        return Err(at(configuration.place())(Fault::NoMetadata));
    };
    let mut made = Resource::new(object, configuration.origin.clone());
    made.set_namespace(&fields.kubernetes_service.namespace);
    Ok(made)
}
