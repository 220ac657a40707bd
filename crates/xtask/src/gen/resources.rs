//! The served resources, in discovery's order.

use super::Error;
use serde_json::{Map, Value, json};

/// Groups and versions in discovery's order; the core group first.
pub(super) type Served = Vec<(String, String)>;

/// The versions that upstream serves by default: the stable ones.
pub(super) fn served(discovery: &Value) -> Result<Served, Error> {
    let mut served = vec![(String::new(), "v1".to_owned())];
    for group in list(discovery, "items")? {
        for version in list(group, "versions")? {
            let version = text(version, "version")?;
            if version
                .trim_start_matches('v')
                .chars()
                .all(|c| c.is_ascii_digit())
            {
                served.push((text(&group["metadata"], "name")?.to_owned(), version.to_owned()));
            }
        }
    }
    Ok(served)
}

/// One object per resource: aggregated discovery's entry, flattened, with the definition's name.
pub(super) fn read(
    discovery: &Value,
    core: &Value,
    definitions: &Map<String, Value>,
) -> Result<Vec<Value>, Error> {
    let mut resources = core_resources(core, definitions)?;
    let served = served(discovery)?;
    for group in list(discovery, "items")? {
        let name = text(&group["metadata"], "name")?;
        for version in list(group, "versions")? {
            let version_name = text(version, "version")?;
            if !served.iter().any(|(g, v)| g == name && v == version_name) {
                continue;
            }
            for resource in list(version, "resources")? {
                resources.push(aggregated(name, version_name, resource, definitions)?);
            }
        }
    }
    Ok(resources)
}

fn aggregated(
    group: &str,
    version: &str,
    from: &Value,
    definitions: &Map<String, Value>,
) -> Result<Value, Error> {
    let kind = gvk(group, version, &from["responseKind"])?;
    let mut subresources = Vec::new();
    for sub in from["subresources"].as_array().into_iter().flatten() {
        let (g, v, k) = gvk(group, version, &sub["responseKind"])?;
        subresources.push(json!({
            "name": text(sub, "subresource")?,
            "group": g, "version": v, "kind": k,
            "verbs": sub["verbs"],
        }));
    }
    Ok(resource(
        (group, version),
        (
            text(from, "resource")?,
            from["singularResource"].as_str().unwrap_or_default(),
        ),
        &kind,
        from["scope"] == "Namespaced",
        from,
        &subresources,
        definitions,
    ))
}

/// The core group is recorded only in the older form: a flat list with `pods/status`.
fn core_resources(core: &Value, definitions: &Map<String, Value>) -> Result<Vec<Value>, Error> {
    let entries = list(core, "resources")?;
    let mut resources = Vec::new();
    for entry in entries {
        let plural = text(entry, "name")?;
        if plural.contains('/') {
            continue;
        }
        let mut subresources = Vec::new();
        for sub in entries {
            let Some((parent, name)) = text(sub, "name")?.split_once('/') else {
                continue;
            };
            if parent != plural {
                continue;
            }
            let (group, version, kind) = gvk("", "v1", sub)?;
            subresources.push(json!({
                "name": name, "group": group, "version": version, "kind": kind, "verbs": sub["verbs"],
            }));
        }
        resources.push(resource(
            ("", "v1"),
            (plural, text(entry, "singularName")?),
            &gvk("", "v1", entry)?,
            entry["namespaced"] == true,
            entry,
            &subresources,
            definitions,
        ));
    }
    Ok(resources)
}

/// The part that is the same in both forms of discovery.
fn resource(
    (group, version): (&str, &str),
    (plural, singular): (&str, &str),
    kind: &(String, String, String),
    namespaced: bool,
    entry: &Value,
    subresources: &[Value],
    definitions: &Map<String, Value>,
) -> Value {
    let wanted = json!({"group": kind.0, "version": kind.1, "kind": kind.2});
    let definition = definitions.iter().find_map(|(name, schema)| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array()?;
        kinds.contains(&wanted).then_some(name)
    });
    json!({
        "group": group,
        "version": version,
        "plural": plural,
        "singular": singular,
        "kind": kind.2,
        "namespaced": namespaced,
        "verbs": entry["verbs"],
        "shortNames": entry["shortNames"].as_array().cloned().unwrap_or_default(),
        "categories": entry["categories"].as_array().cloned().unwrap_or_default(),
        "definition": definition,
        "subresources": subresources,
    })
}

/// A kind; its group and version default to the resource's.
fn gvk(group: &str, version: &str, from: &Value) -> Result<(String, String, String), Error> {
    let said = from["version"]
        .as_str()
        .is_some_and(|version| !version.is_empty());
    let (group, version) = match said {
        true => (from["group"].as_str().unwrap_or_default(), text(from, "version")?),
        false => (group, version),
    };
    Ok((
        group.to_owned(),
        version.to_owned(),
        text(from, "kind")?.to_owned(),
    ))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, Error> {
    value[key]
        .as_array()
        .ok_or_else(|| Error::Source(format!("discovery: {key} is not a list")))
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, Error> {
    value[key]
        .as_str()
        .ok_or_else(|| Error::Source(format!("discovery: {key} is not a string in {value}")))
}
