//! Parameters: the objects that `paramKind` and `paramRef` name.

use super::Request;
use crate::builtin::selector;
use crate::builtin::tree::{get, has, text};
use crate::pipeline::View;
use crate::store::Key;
use equate_manifest::object::GroupVersion;
use serde_json::Value;

/// One evaluation for each; a policy without parameters has one without.
pub(super) fn collect<'a>(
    policy: &Value,
    binding: &Value,
    request: &Request<'_>,
    view: &'a View,
) -> Result<Vec<Option<&'a Value>>, String> {
    let (kind, reference) = (get(policy, "spec.paramKind"), get(binding, "spec.paramRef"));
    if kind.is_null() || reference.is_null() {
        return Ok(vec![None]);
    }
    let (api_version, kind) = (text(kind, "apiVersion"), text(kind, "kind"));
    let missing = || format!("paramKind kind `{api_version}, Kind={kind}` not known");
    let group = GroupVersion::parse(api_version).ok_or_else(missing)?.group;
    let resource = view.registry.by_kind(&group, kind).ok_or_else(missing)?;
    let namespace = match (resource.namespaced, text(reference, "namespace")) {
        (false, "") => "",
        (false, _) => {
            return Err(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned(),
            );
        }
        (true, "") if request.target.namespace.is_empty() => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                    .to_owned(),
            );
        }
        (true, "") => request.target.namespace.as_str(),
        (true, given) => given,
    };
    let storage = resource.storage();
    let found: Vec<Option<&Value>> = if has(reference, "selector") {
        let selected = get(reference, "selector");
        view.snapshot
            .list(&storage, Some(namespace))
            .map(|(_, entry)| entry.object())
            .filter(|param| selector::matches(selected, get(param, "metadata.labels")))
            .map(Some)
            .collect()
    } else {
        let key = Key::new(&storage, namespace, text(reference, "name"));
        view.snapshot
            .get(&key)
            .map(|entry| Some(entry.object()))
            .into_iter()
            .collect()
    };
    let must_exist = text(reference, "parameterNotFoundAction") != "Allow";
    if found.is_empty() && must_exist {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found)
}
