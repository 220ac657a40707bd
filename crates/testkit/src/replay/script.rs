//! Our own scenarios in a short form: one file each, one line per request.
//!
//! The first line has the name and the namespace. Every other line is a request: `{"desc", "do": "APPLY
//! /api/v1/namespaces/{ns}/configmaps/a?fieldManager=m", "body", ...}`. `do` is a verb and a path; the
//! verb of a patch selects its type. Defaults: JSON both ways, the administrator's token.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Capture, Error, Scenario, Step, Until};
use crate::real::{ADMIN_TOKEN, ALICE_TOKEN};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    scenario: String,
    /// Absent if the scenario creates its own namespaces.
    namespace: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Line {
    desc: String,
    #[serde(rename = "do")]
    action: String,
    body: Option<Box<RawValue>>,
    /// The identity: `admin` by default, `alice`, `anonymous`, or a token.
    #[serde(rename = "as")]
    who: Option<String>,
    content_type: Option<String>,
    /// `table`, `metadata`, `metadata-list`, or a literal header.
    accept: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    watch_seconds: Option<u64>,
    until: Option<Until>,
    /// Name to dotted path.
    #[serde(default)]
    capture: BTreeMap<String, String>,
}

/// Loads one script.
///
/// # Errors
/// The file cannot be read, or a line is invalid.
pub fn load_script(path: &Path) -> Result<Scenario, Error> {
    let lines: Vec<Box<RawValue>> = super::lines(path, "line of JSON")?;
    let format = |line: usize, what: &'static str| {
        move |source| Error::Format {
            path: path.into(),
            line: line + 1,
            what,
            source,
        }
    };
    let head = lines.first().map_or("{}", |line| line.get());
    let head: Head = serde_json::from_str(head).map_err(format(0, "head of a scenario"))?;
    let mut scenario = Scenario {
        name: head.scenario,
        namespace: head.namespace,
        captures: Vec::new(),
        steps: Vec::new(),
    };
    for (index, line) in lines.iter().enumerate().skip(1) {
        let line: Line = serde_json::from_str(line.get()).map_err(format(index, "request"))?;
        let step = scenario.steps.len();
        scenario
            .captures
            .extend(line.capture.iter().map(|(name, path)| Capture {
                step,
                path: path.clone(),
                name: name.clone(),
            }));
        scenario
            .steps
            .push(line.step(scenario.namespace.as_deref().unwrap_or_default()));
    }
    Ok(scenario)
}

impl Line {
    fn step(self, namespace: &str) -> Step {
        let (verb, path) = self.action.split_once(' ').unwrap_or((&self.action, "/"));
        let (method, content_type) = match verb {
            "APPLY" => ("PATCH", "application/apply-patch+yaml"),
            "MERGE" => ("PATCH", "application/merge-patch+json"),
            "STRATEGIC" => ("PATCH", "application/strategic-merge-patch+json"),
            "JSONPATCH" => ("PATCH", "application/json-patch+json"),
            method => (method, "application/json"),
        };
        let accept = match self.accept.as_deref() {
            None => "application/json",
            Some("table") => "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            Some("metadata") => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Some("metadata-list") => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Some(accept) => accept,
        };
        let token = match self.who.as_deref() {
            None | Some("admin") => Some(ADMIN_TOKEN),
            Some("alice") => Some(ALICE_TOKEN),
            Some("anonymous") => None,
            Some(token) => Some(token),
        };
        Step {
            desc: self.desc,
            method: method.to_owned(),
            path: path.replace("{ns}", namespace),
            content_type: self
                .content_type
                .or_else(|| self.body.is_some().then(|| content_type.to_owned())),
            body: self.body,
            accept: Some(accept.to_owned()),
            token: token.map(str::to_owned),
            headers: self.headers.map(|headers| {
                headers
                    .into_iter()
                    .map(|(name, value)| (name, value.replace("{ns}", namespace)))
                    .collect()
            }),
            watch_seconds: self.watch_seconds,
            sleep: None,
            until: self.until,
            response: None,
        }
    }
}
