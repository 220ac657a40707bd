//! Masks the parts of statuses and events that differ from run to run: times, durations, commits, digests
//! of archives, addresses.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::Event;
use regex::Regex;
use serde_json::Value;

/// The masked texts of one scenario.
#[derive(Debug)]
pub(super) struct Mask {
    url: String,
    commits: Vec<String>,
    patterns: Vec<(Regex, &'static str)>,
}

impl Mask {
    /// `url` is the repository's.
    pub(super) fn new(url: &str) -> Self {
        let patterns = [
            (
                r"(finished in|passed in|failed after|terminated after) [0-9.hmsµn]+",
                "$1 <time>",
            ),
            (
                r"https?://[^/ ]+/(gitrepository|helmrepository|helmchart|ocirepository|bucket)/",
                "<storage>/$1/",
            ),
            (r"(127\.0\.0\.1|localhost):[0-9]+", "<host>"),
            (r"/tmp/[A-Za-z-]+[0-9]+", "<folder>"),
            (r"sha256:[0-9a-f]{64}", "sha256:<digest>"),
            // not those of the history, which are compared
            (r"(^|[^=0-9a-f])[0-9a-f]{64}\b", "$1<digest>"),
            // a chart's version with its revision
            (r"\+[0-9a-f]{12}\b", "+<commit>"),
            (r#""size":[0-9]+"#, "\"size\":<bytes>"),
            (r"\b[0-9a-f]{40}\b", "<unknown commit>"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<moment>"),
        ];
        Self {
            url: url.to_owned(),
            commits: Vec::new(),
            patterns: patterns
                .into_iter()
                .map(|(pattern, mask)| (Regex::new(pattern).unwrap(), mask))
                .collect(),
        }
    }

    /// A commit of the scenario is shown by its number.
    pub(super) fn commit(&mut self, id: &str) {
        self.commits.push(id.to_owned());
    }

    pub(super) fn text(&self, text: &str) -> String {
        let mut text = text.replace(&self.url, "<url>");
        for (number, commit) in self.commits.iter().enumerate() {
            text = text.replace(commit, &format!("<commit {}>", number + 1));
        }
        for (pattern, mask) in &self.patterns {
            text = pattern.replace_all(&text, *mask).into_owned();
        }
        text
    }

    /// An object's generation and status, a fact on each line.
    pub(super) fn object(&self, object: &Value) -> Vec<String> {
        let mut lines = Vec::new();
        let status = &object["status"];
        lines.push(format!(
            "generation {}, observed {}",
            object["metadata"]["generation"], status["observedGeneration"]
        ));
        for condition in status["conditions"].as_array().into_iter().flatten() {
            let word = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            lines.push(format!(
                "{}={} {} of {}: {}",
                word("type"),
                word("status"),
                word("reason"),
                condition["observedGeneration"],
                word("message")
            ));
        }
        for (field, value) in status.as_object().into_iter().flatten() {
            match (field.as_str(), value) {
                ("conditions" | "observedGeneration", _) => {}
                ("inventory", value) => {
                    let entries = value["entries"].as_array().into_iter().flatten();
                    let mut ids: Vec<String> = entries
                        .map(|entry| format!("{} {}", entry["id"], entry["v"]))
                        .collect();
                    ids.sort();
                    lines.push(format!("inventory of {}", ids.len()));
                    lines.extend(ids);
                }
                ("history", value) if object["kind"] == "HelmRelease" => {
                    lines.extend(value.as_array().into_iter().flatten().map(snapshot));
                }
                ("history", value) => lines.extend(value.as_array().into_iter().flatten().map(record)),
                ("lastAttemptedReleaseActionDuration", _) => lines.push(format!("{field}: <time>")),
                (field, Value::String(digest)) if field.ends_with("Digest") => {
                    lines.push(format!("{field}: {}", short(digest)));
                }
                (field, value) => lines.push(format!("{field}: {value}")),
            }
        }
        lines
            .iter()
            .flat_map(|line| {
                indented(
                    &self.text(line).replace("history sha256=", "history sha256:"),
                    "  ",
                )
            })
            .collect()
    }

    pub(super) fn event(&self, event: &Event) -> String {
        let word = |part: &Option<String>| part.clone().unwrap_or_default();
        let message = word(&event.message);
        let message = match message.split_once("\nLast Helm logs:") {
            Some((message, _)) => format!("{message}\nLast Helm logs: <logs>"),
            None => message,
        };
        let mut text = format!(
            "event {}/{} {} {}: {}",
            word(&event.involved_object.kind),
            word(&event.involved_object.name),
            word(&event.type_),
            word(&event.reason),
            // client-go's prefix after more than ten events
            message
                .trim_end()
                .trim_start_matches("(combined from similar events): ")
        );
        for (name, value) in event.metadata.annotations.iter().flatten() {
            let _ = write!(text, "\n{name}: {value}");
        }
        indented(&self.text(&text), "").join("\n  ")
    }
}

/// A record of the history. Its count is not shown: it depends on wake-ups by others.
fn record(record: &Value) -> String {
    format!(
        "history {} {} {}",
        record["digest"]
            .as_str()
            .unwrap_or_default()
            .replace("sha256:", "sha256="),
        record["lastReconciledStatus"].as_str().unwrap_or_default(),
        record["metadata"]
    )
}

/// A revision of a release. Its own digest has the time of the release in it.
fn snapshot(snapshot: &Value) -> String {
    let mut fields = Vec::new();
    for (field, value) in snapshot.as_object().into_iter().flatten() {
        fields.push(match (field.as_str(), value) {
            ("configDigest", Value::String(digest)) => format!("{field} {}", short(digest)),
            (field, Value::String(text)) => format!("{field} {text}"),
            (field, value) => format!("{field} {value}"),
        });
    }
    format!("history {}", fields.join(", "))
}

/// The digest of declared values depends on nothing else: it is compared.
fn short(digest: &str) -> &str {
    digest.get(..15).unwrap_or(digest)
}

fn indented(text: &str, by: &str) -> Vec<String> {
    text.trim_end()
        .lines()
        .map(|line| format!("{by}{}", line.trim_end()))
        .collect()
}
