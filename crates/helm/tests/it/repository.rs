//! Repositories and registries: `golden/repository.jsonl`, recorded from Helm 4.3's own packages.

use equate_helm::repository::index::{Index, IndexLimits, resolve_url};
use equate_helm::repository::oci::{self, Reference, Selection};
use serde_json::{Value, json};
use std::error::Error;

fn texts(list: &Value) -> Vec<String> {
    serde_json::from_value(list.clone()).unwrap()
}

fn answer(case: &Value) -> Result<Value, Box<dyn Error>> {
    let text = |key: &str| case[key].as_str().unwrap();
    Ok(match text("about") {
        "get" => {
            let index = Index::parse(text("index").as_bytes(), &IndexLimits::default())?;
            let entry = index.get(text("name"), text("version"))?;
            entry.metadata.version.clone().into()
        }
        "url" => resolve_url(text("repository"), text("reference"))?.into(),
        "choose" => oci::choose(&texts(&case["tags"]), text("version"))?.into(),
        "tags" => oci::versions(texts(&case["tags"]).iter().map(String::as_str)).into(),
        "reference" => {
            // the tags of the recorded registry
            let tags = [
                "1.2.0",
                "v1.3.0",
                "1.2.0_b2",
                "latest",
                "1.10.0",
                "2.0.0-rc.1",
                "10.0.0",
            ];
            let reference = text("reference").replace("HOST", "h.example:5000");
            let reference = Reference::parse(&format!("oci://{reference}"))?;
            let place = format!("oci://HOST/{}", reference.repository);
            let url = match reference.wanted(text("version"))? {
                Selection::Digest(digest, _) => format!("{place}@{digest}"),
                Selection::Tag(tag) => format!("{place}:{}", tag.replace('_', "+")),
                Selection::Newest(version) => {
                    format!("{place}:{}", oci::choose(&oci::versions(tags), &version)?)
                }
            };
            json!({"digest": "", "url": url})
        }
        other => panic!("{other}"),
    })
}

/// Known differences: ours is more lenient.
fn is_known(case: &Value) -> bool {
    // a tag with a plus is converted, as in Helm's pull; `latest` is an ordinary tag
    case["about"] == "reference"
        && ["HOST/x/a:1.2.0+b2", "HOST/x/a:latest"]
            .iter()
            .any(|known| case["reference"] == *known)
}

#[test]
fn answers_as_helm_answers() {
    let mut failures = Vec::new();
    let mut count = 0;
    for line in include_str!("../golden/repository.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        count += 1;
        let wanted = match case.get("error").and_then(Value::as_str) {
            None => Ok(case["got"].clone()),
            // the texts of parsers are our own
            Some(error) => Err(error
                .trim_start_matches("error loading FILE: ")
                .split(": yaml")
                .next()
                .unwrap()),
        };
        let got = answer(&case).map_err(|error| error.to_string());
        let is_alike = match (&got, &wanted) {
            (Ok(got), Ok(wanted)) => got == wanted,
            (Err(got), Err(wanted)) => {
                got.split(": yaml").next() == Some(wanted) || wanted.starts_with(got.as_str())
            }
            _ => false,
        };
        if is_alike == is_known(&case) {
            failures.push(format!("{line}\n  got {got:?}"));
        }
    }
    assert!(count >= 85, "{count}");
    assert!(
        failures.is_empty(),
        "{} differ\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn an_index_has_limits() {
    let created = "created: 2026-01-02T03:04:05Z";
    let entry =
        format!("  - {{name: a, version: 1.0.0, urls: [a.tgz], digest: abc, {created}, removed: true}}\n");
    let text = format!("apiVersion: v1\nentries:\n  a:\n{entry}  - {{name: a, version: x}}\n");
    let parse = |bytes_max, nodes_max| {
        let limits = IndexLimits {
            bytes_max,
            nodes_max,
            ..IndexLimits::default()
        };
        Index::parse(text.as_bytes(), &limits)
    };
    let index = parse(1_000, 100).unwrap();
    let entry = index.get("a", "").unwrap();
    assert_eq!((entry.digest.as_str(), entry.removed), ("abc", true));
    assert_eq!(entry.urls, ["a.tgz"]);
    assert_eq!(index.charts().count(), 1);
    assert_eq!(index.skipped()[0].version, "x");
    assert_eq!(
        index.skipped()[0].reason.to_string(),
        "validation: chart.metadata.version \"x\" is invalid"
    );
    assert_eq!(
        parse(100, 100).unwrap_err().to_string(),
        format!("the index has {} bytes, more than 100", text.len())
    );
    for (odd, fault) in [
        (
            "created: x",
            "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"",
        ),
        ("created: 5", "Time.UnmarshalJSON: input is not a JSON string"),
        ("created: []", "Time.UnmarshalJSON: input is not a JSON string"),
    ] {
        let error = Index::parse(text.replace(created, odd).as_bytes(), &IndexLimits::default()).unwrap_err();
        let cause = error.source().unwrap().to_string();
        assert!(cause.ends_with(fault), "{cause}");
    }
    assert_eq!(
        parse(1_000, 10).unwrap_err().to_string(),
        "the index has more than 10 values"
    );
}
