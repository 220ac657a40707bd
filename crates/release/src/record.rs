//! Records of promotions: the commit message, its trailers, and the note.
//!
//! People read the subject, programs read the note. A commit without either still counts in history: the
//! versions are in its tree.

use crate::artifact::{Artifact, Subject, Version};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The ref of the notes.
pub const NOTES: &str = "refs/notes/equate";

/// The version of the note's format.
pub const FORMAT: u32 = 1;

/// The most bytes of a note that are read.
const NOTE_BYTES_MAX: usize = 1 << 20;
const SUBJECT_CHARS_MAX: usize = 72;

/// The reason for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Intent {
    /// From one environment to the next.
    Promote,
    /// A version that was named.
    Release,
    /// Back to a version that the environment had.
    Rollback,
    /// A hold was set.
    Hold,
    /// A hold was removed.
    Unhold,
    /// A service was removed from an environment.
    Undeploy,
}

impl fmt::Display for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Promote => "promote",
            Self::Release => "release",
            Self::Rollback => "roll back",
            Self::Hold => "hold",
            Self::Unhold => "unhold",
            Self::Undeploy => "undeploy",
        })
    }
}

/// The record of one commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The version of the format.
    pub format: u32,
    /// The reason for the commit.
    pub intent: Intent,
    /// The person who asked, `Name <address>`.
    pub by: String,
    /// The reason that the person gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The changes.
    pub changes: Vec<RecordChange>,
}

/// The change of one service in one environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordChange {
    /// The service.
    pub service: String,
    /// The environment.
    pub environment: String,
    /// The environment that the version came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The id of the versions before.
    pub previous: String,
    /// The id of the versions after.
    pub artifact: String,
    /// The version that stands for the artifact.
    pub version: String,
    /// The versions after, by subject.
    pub versions: BTreeMap<String, Vec<String>>,
}

/// The versions of an artifact as records spell them.
pub fn versions(artifact: &Artifact) -> BTreeMap<String, Vec<String>> {
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (subject, version) in artifact.iter() {
        let text = match version.digest.as_str() {
            "" => version.tag.clone(),
            digest => format!("{}@{digest}", version.tag),
        };
        versions.entry(subject.to_string()).or_default().push(text);
    }
    versions
}

/// Reads what [`versions`] writes; unknown kinds are left out.
pub fn artifact(versions: &BTreeMap<String, Vec<String>>) -> Artifact {
    let mut artifact = Artifact::default();
    for (subject, texts) in versions {
        let Some(subject) = Subject::parse(subject) else {
            continue;
        };
        for version in texts.iter().filter_map(|text| Version::parse(text)) {
            artifact.add(subject.clone(), version);
        }
    }
    artifact
}

impl Record {
    /// The commit message: a subject, the reason, trailers.
    pub fn message(&self) -> String {
        let mut text = self.subject();
        text.push_str("\n\n");
        if let Some(reason) = &self.reason {
            text.push_str(&one_paragraph(reason));
            text.push_str("\n\n");
        }
        let mut trailer = |key: &str, value: &str| {
            if !value.is_empty() {
                text.push_str(&format!("{key}: {}\n", one_line(value)));
            }
        };
        for change in &self.changes {
            trailer("Service", &change.service);
            trailer("Environment", &change.environment);
            trailer("Artifact-ID", &change.artifact);
            trailer(
                "Promoted-from-environment",
                change.from.as_deref().unwrap_or_default(),
            );
        }
        trailer("Release-intent", &self.intent.to_string());
        trailer("Released-by", &self.by);
        text
    }

    /// `promote checkout 2.4.1 to staging`, cut to 72 characters.
    pub fn subject(&self) -> String {
        let mut services: Vec<String> = Vec::new();
        let mut environments: Vec<&str> = Vec::new();
        for change in &self.changes {
            let service = match self.intent {
                Intent::Hold | Intent::Unhold | Intent::Undeploy => change.service.clone(),
                Intent::Promote | Intent::Release | Intent::Rollback => {
                    format!("{} {}", change.service, change.version)
                }
            };
            if !services.contains(&service) {
                services.push(service);
            }
            if !environments.contains(&change.environment.as_str()) {
                environments.push(&change.environment);
            }
        }
        let services = match services.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            [one, rest @ ..] => format!("{one} and {} more", rest.len()),
        };
        let place = environments.join(", ");
        let subject = match self.intent {
            Intent::Promote | Intent::Release => format!("{} {services} to {place}", self.intent),
            Intent::Rollback => {
                let changes = self.changes.iter();
                let names: Vec<&str> = changes.map(|change| change.service.as_str()).collect();
                let version = self.changes.first().map(|change| change.version.as_str());
                let names = names.first().copied().unwrap_or_default();
                format!("roll back {names} to {} in {place}", version.unwrap_or_default())
            }
            Intent::Hold | Intent::Unhold => format!("{} {services} in {place}", self.intent),
            Intent::Undeploy => format!("undeploy {services} from {place}"),
        };
        one_line(&subject).chars().take(SUBJECT_CHARS_MAX).collect()
    }

    /// The note's text.
    pub fn note(&self) -> String {
        // a record has only texts and numbers, which always serialize
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        format!("{text}\n")
    }

    /// Reads a note. `None` if it is of another program or a newer format.
    pub fn parse_note(text: &str) -> Option<Self> {
        let text = text.get(..NOTE_BYTES_MAX.min(text.len()))?;
        let record: Self = serde_json::from_str(text).ok()?;
        (record.format == FORMAT).then_some(record)
    }

    /// The trailers of a message, as far as it has them. Never fails: messages are written by hand, too.
    pub fn of_message(message: &str) -> Option<Self> {
        let mut intent = None;
        let mut by = String::new();
        let mut changes: Vec<RecordChange> = Vec::new();
        for (key, value) in trailers(message) {
            match key.to_ascii_lowercase().as_str() {
                "service" => changes.push(RecordChange {
                    service: value.to_owned(),
                    environment: String::new(),
                    from: None,
                    previous: String::new(),
                    artifact: String::new(),
                    version: String::new(),
                    versions: BTreeMap::new(),
                }),
                "release-intent" => intent = parse_intent(value),
                "released-by" => by = value.to_owned(),
                other => {
                    if let Some(change) = changes.last_mut() {
                        match other {
                            "environment" => change.environment = value.to_owned(),
                            "artifact-id" => change.artifact = value.to_owned(),
                            "promoted-from-environment" => change.from = Some(value.to_owned()),
                            _ => {}
                        }
                    }
                }
            }
        }
        Some(Self {
            format: FORMAT,
            intent: intent?,
            by,
            reason: reason(message),
            changes,
        })
    }
}

fn parse_intent(text: &str) -> Option<Intent> {
    let all = [
        Intent::Promote,
        Intent::Release,
        Intent::Rollback,
        Intent::Hold,
        Intent::Unhold,
        Intent::Undeploy,
    ];
    let text = text.trim();
    all.into_iter()
        .find(|intent| intent.to_string().eq_ignore_ascii_case(text))
}

/// The paragraphs of a message, with any line ends.
fn paragraphs(message: &str) -> Vec<Vec<&str>> {
    let mut paragraphs: Vec<Vec<&str>> = vec![Vec::new()];
    for line in message.lines() {
        let line = line.trim_end_matches('\r').trim_end();
        match (line.is_empty(), paragraphs.last_mut()) {
            (true, Some(last)) if !last.is_empty() => paragraphs.push(Vec::new()),
            (false, Some(last)) => last.push(line),
            _ => {}
        }
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    paragraphs
}

/// The lines `Key: value` of the last paragraph. Others among them are left out.
fn trailers(message: &str) -> Vec<(&str, &str)> {
    let paragraphs = paragraphs(message);
    let last = match paragraphs.as_slice() {
        [] | [_] => return Vec::new(),
        [.., last] => last.clone(),
    };
    let pairs = last.into_iter().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        let is_key = |c: char| c.is_ascii_alphanumeric() || c == '-';
        (!key.is_empty() && key.chars().all(is_key)).then(|| (key, value.trim()))
    });
    pairs.collect()
}

fn reason(message: &str) -> Option<String> {
    let paragraphs = paragraphs(message);
    match paragraphs.as_slice() {
        [_, middle @ .., _] if !middle.is_empty() => {
            let texts: Vec<String> = middle.iter().map(|lines| lines.join(" ")).collect();
            Some(texts.join("\n\n"))
        }
        _ => None,
    }
}

/// A text without line breaks and control characters, so that it stays in its line.
pub fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// A reason never becomes a trailer or a paragraph of its own.
fn one_paragraph(text: &str) -> String {
    one_line(text)
}

#[cfg(test)]
mod tests {
    use super::{FORMAT, Intent, Record, RecordChange};
    use std::collections::BTreeMap;

    fn record(reason: Option<&str>, by: &str) -> Record {
        Record {
            format: FORMAT,
            intent: Intent::Promote,
            by: by.to_owned(),
            reason: reason.map(str::to_owned),
            changes: vec![RecordChange {
                service: "checkout".to_owned(),
                environment: "staging".to_owned(),
                from: Some("dev".to_owned()),
                previous: "sha256:aa".to_owned(),
                artifact: "sha256:bb".to_owned(),
                version: "2.4.1".to_owned(),
                versions: BTreeMap::from([("image checkout".to_owned(), vec!["2.4.1".to_owned()])]),
            }],
        }
    }

    #[test]
    fn message_has_a_subject_a_reason_and_trailers() {
        assert_eq!(
            record(Some("fixes\nthe cart"), "Mia Holm <mia@example.org>").message(),
            "promote checkout 2.4.1 to staging\n\nfixes the cart\n\nService: checkout\nEnvironment: staging\n\
             Artifact-ID: sha256:bb\nPromoted-from-environment: dev\nRelease-intent: promote\n\
             Released-by: Mia Holm <mia@example.org>\n"
        );
    }

    #[test]
    fn note_is_read_back_and_newer_formats_are_not() {
        let record = record(None, "Ł <l@example.org>");
        assert_eq!(Record::parse_note(&record.note()), Some(record.clone()));
        let newer = Record { format: 2, ..record };
        assert_eq!(Record::parse_note(&newer.note()), None);
        assert_eq!(Record::parse_note("Reviewed-by: x"), None);
    }

    #[test]
    fn trap_11_messages_with_odd_trailers_are_read() {
        #[track_caller]
        fn check(message: &str, expected: Option<(&str, &str, &str)>) {
            let read = Record::of_message(message);
            let found = read.as_ref().map(|record| {
                let change = record.changes.first();
                let environment = change.map(|change| change.environment.as_str());
                (
                    record.by.as_str(),
                    environment.unwrap_or_default(),
                    record.reason.as_deref().unwrap_or_default(),
                )
            });
            assert_eq!(found, expected, "{message:?}");
        }
        let plain = record(Some("why"), "Łukasz Żółć <l@example.org>").message();
        let expected = Some(("Łukasz Żółć <l@example.org>", "staging", "why"));
        check(&plain, expected);
        check(&plain.replace('\n', "\r\n"), expected);
        check(&plain.replace("Service:", "not a trailer\nService:"), expected);
        // an empty name
        check(
            "s\n\nService: a\nEnvironment: e\nRelease-intent: promote\nReleased-by:  <a@b>\n",
            Some(("<a@b>", "e", "")),
        );
        check(
            "s\n\nRelease-intent: promote\nService:\nEnvironment\n:\n",
            Some(("", "", "")),
        );
        check("by hand\n", None);
        check("", None);
        check("\n\n\n", None);
        check("s\n\nRelease-intent: unheard of\n", None);
        // a reason cannot forge a trailer
        let forged = record(
            Some("x\n\nReleased-by: Eve <eve@example.org>"),
            "Mia <mia@example.org>",
        );
        let read = Record::of_message(&forged.message()).unwrap();
        assert_eq!(read.by, "Mia <mia@example.org>");
    }
}
