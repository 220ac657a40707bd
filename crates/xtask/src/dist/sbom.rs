//! The packages in the program, as an SPDX 2.3 document.
//!
//! They are those that `cargo metadata` resolves for the target, without packages that only build scripts,
//! macros' expansion on the host or tests need. The checksums are those of `Cargo.lock`.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// The package of the program.
const PROGRAM: &str = "equate-cli";

pub(super) fn document(root: &Path, triple: &str, time: u64) -> Result<Vec<u8>, Box<dyn Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let said = super::output(Command::new(cargo).current_dir(root).args([
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--filter-platform",
        triple,
    ]))?;
    let lock = std::fs::read_to_string(root.join("Cargo.lock"))?;
    let document = spdx(&serde_json::from_str(&said)?, &lock, triple, time)?;
    let mut text = serde_json::to_vec_pretty(&document)?;
    text.push(b'\n');
    Ok(text)
}

fn spdx(metadata: &Value, lock: &str, triple: &str, time: u64) -> Result<Value, Box<dyn Error>> {
    let packages: BTreeMap<&str, &Value> = array(&metadata["packages"])
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let program = packages
        .iter()
        .find(|(_, package)| package["name"] == PROGRAM)
        .map(|(id, _)| *id)
        .ok_or("cargo metadata does not list the package of the program")?;
    let edges = edges(metadata, &packages);
    let mut reached = BTreeSet::from([program]);
    let mut open = vec![program];
    while let Some(id) = open.pop() {
        for to in edges.get(id).into_iter().flatten() {
            if reached.insert(to) {
                open.push(to);
            }
        }
    }
    let checksums = checksums(lock);
    let described = reached.iter().filter_map(|id| packages.get(id));
    let listed: Vec<Value> = described
        .map(|package| described_package(package, &checksums))
        .collect();
    let mut relationships = vec![json!({
        "spdxElementId": "SPDXRef-DOCUMENT",
        "relationshipType": "DESCRIBES",
        "relatedSpdxElement": reference(packages[program]),
    })];
    for id in &reached {
        for to in edges.get(id).into_iter().flatten() {
            relationships.push(json!({
                "spdxElementId": reference(packages[id]),
                "relationshipType": "DEPENDS_ON",
                "relatedSpdxElement": reference(packages[to]),
            }));
        }
    }
    let version = super::VERSION;
    let seconds = i64::try_from(time)?;
    Ok(json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": format!("equate-{version}-{triple}"),
        "documentNamespace": format!("https://spdx.org/spdxdocs/equate-{version}-{triple}-{time}"),
        "creationInfo": {
            "created": jiff::Timestamp::from_second(seconds)?.to_string(),
            "creators": [format!("Tool: equate-xtask-{version}")],
        },
        "packages": listed,
        "relationships": relationships,
    }))
}

/// Which packages each package links.
fn edges<'m>(metadata: &'m Value, packages: &BTreeMap<&str, &Value>) -> BTreeMap<&'m str, Vec<&'m str>> {
    let is_macro = |id: &str| {
        let targets = packages.get(id).map(|package| array(&package["targets"]));
        targets.is_some_and(|mut targets| {
            targets.any(|target| array(&target["kind"]).any(|kind| kind == "proc-macro"))
        })
    };
    let nodes = array(&metadata["resolve"]["nodes"]);
    nodes
        .filter_map(|node| {
            let linked = array(&node["deps"])
                .filter(|dependency| array(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null()));
            let linked = linked
                .filter_map(|dependency| dependency["pkg"].as_str())
                .filter(|id| !is_macro(id));
            Some((node["id"].as_str()?, linked.collect()))
        })
        .collect()
}

fn described_package(package: &Value, checksums: &BTreeMap<(&str, &str), &str>) -> Value {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    let (name, version) = (text("name"), text("version"));
    let license = match package["license"].as_str() {
        // before SPDX expressions, crates wrote a slash
        Some(license) => license.replace('/', " OR "),
        None => "NOASSERTION".to_owned(),
    };
    let mut described = json!({
        "SPDXID": reference(package),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": license,
        "copyrightText": "NOASSERTION",
    });
    if !package["source"].is_null() {
        described["externalRefs"] = json!([{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": format!("pkg:cargo/{name}@{version}"),
        }]);
    }
    if let Some(checksum) = checksums.get(&(name, version)) {
        described["checksums"] = json!([{ "algorithm": "SHA256", "checksumValue": checksum }]);
    }
    described
}

/// SPDX ids have letters, digits, dots and dashes.
fn reference(package: &Value) -> String {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    let id = format!("{}-{}", text("name"), text("version"));
    let id: String = id
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '-'
            }
        })
        .collect();
    format!("SPDXRef-Package-{id}")
}

/// By name and version.
fn checksums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    let blocks = lock.split("[[package]]");
    blocks
        .filter_map(|block| {
            let field = |name: &str| {
                let mut lines = block.lines();
                lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"'))
            };
            Some(((field("name")?, field("version")?), field("checksum")?))
        })
        .collect()
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_the_linked_packages_with_licence_and_checksum() {
        let metadata = json!({
            "packages": [
                { "id": "cli", "name": "equate-cli", "version": "0.1.0", "license": "Apache-2.0", "source": null, "targets": [] },
                { "id": "linked", "name": "linked", "version": "1.2.3+x", "license": "MIT/Apache-2.0", "source": "registry", "targets": [] },
                { "id": "built", "name": "built", "version": "1.0.0", "license": "MIT", "source": "registry", "targets": [] },
                { "id": "derive", "name": "derive", "version": "1.0.0", "license": "MIT", "source": "registry",
                  "targets": [{ "kind": ["proc-macro"] }] },
            ],
            "resolve": { "nodes": [
                { "id": "cli", "deps": [
                    { "pkg": "linked", "dep_kinds": [{ "kind": null }] },
                    { "pkg": "built", "dep_kinds": [{ "kind": "build" }] },
                    { "pkg": "derive", "dep_kinds": [{ "kind": null }] },
                ] },
                { "id": "linked", "deps": [] },
            ] },
        });
        let lock = "[[package]]\nname = \"linked\"\nversion = \"1.2.3+x\"\nchecksum = \"abc\"\n";
        let document = spdx(&metadata, lock, "x86_64-unknown-linux-gnu", 0).unwrap();
        let names: Vec<&Value> = array(&document["packages"])
            .map(|package| &package["name"])
            .collect();
        assert_eq!(names, ["equate-cli", "linked"]);
        let linked = &document["packages"][1];
        assert_eq!(linked["SPDXID"], "SPDXRef-Package-linked-1.2.3-x");
        assert_eq!(linked["licenseDeclared"], "MIT OR Apache-2.0");
        assert_eq!(linked["checksums"][0]["checksumValue"], "abc");
        assert_eq!(
            linked["externalRefs"][0]["referenceLocator"],
            "pkg:cargo/linked@1.2.3+x"
        );
        assert_eq!(document["relationships"].as_array().map(Vec::len), Some(2));
        assert_eq!(document["creationInfo"]["created"], "1970-01-01T00:00:00Z");
    }
}
