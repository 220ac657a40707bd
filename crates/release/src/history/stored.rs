//! A history as bytes: texts once each, and numbers that refer to them.
//!
//! Bytes that this version of Equate did not write for this configuration, or that are damaged, are no history.

use super::{CommitRow, History, Row, Text, Track};
use crate::artifact::{Artifact, Subject, Version};
use crate::config::Config;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;

/// With each change of the format, or of the versions that a tree has, this number grows.
const FORMAT: u32 = 1;
const NONE: u32 = u32::MAX;
const DIGEST_BYTES: usize = 32;

/// The configuration, as far as the history depends on it.
pub fn key(config: &Config) -> String {
    let environments: Vec<&str> = config.environments().collect();
    let pattern = config.services.pattern().to_string();
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "equate history {FORMAT} {version} {environments:?} {pattern:?} {:?}",
        config.values
    )
}

/// The name of a branch's file. Any text may name a branch.
pub fn file_name(branch: &str) -> String {
    let digest = Sha256::digest(branch);
    let digits: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("history-{digits}")
}

/// Texts, each once. The text 0 is empty.
#[derive(Debug, Clone)]
pub(super) struct Texts {
    bytes: String,
    ends: Vec<u32>,
    /// Only filled when texts are added.
    numbers: HashMap<String, Text>,
}

impl Default for Texts {
    fn default() -> Self {
        Self {
            bytes: String::new(),
            ends: vec![0],
            numbers: HashMap::new(),
        }
    }
}

impl PartialEq for Texts {
    fn eq(&self, other: &Self) -> bool {
        (&self.bytes, &self.ends) == (&other.bytes, &other.ends)
    }
}

impl Eq for Texts {}

impl Texts {
    pub(super) fn get(&self, number: Text) -> &str {
        let at = number as usize;
        let start = at.checked_sub(1).and_then(|at| self.ends.get(at)).copied();
        let end = self.ends.get(at).copied().unwrap_or_default();
        self.bytes
            .get(start.unwrap_or_default() as usize..end as usize)
            .unwrap_or_default()
    }

    pub(super) fn number(&mut self, text: &str) -> Text {
        if self.numbers.is_empty() {
            let all = (0..).take(self.ends.len());
            self.numbers = all.map(|number| (self.get(number).to_owned(), number)).collect();
        }
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = short(self.ends.len());
        self.bytes.push_str(text);
        self.ends.push(short(self.bytes.len()));
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

/// The text of an artifact; empty without versions.
pub(super) fn text(artifact: &Artifact) -> String {
    if artifact.is_empty() {
        return String::new();
    }
    let versions: Vec<[&str; 4]> = artifact
        .iter()
        .map(|(subject, version)| [subject.kind(), subject.name(), &version.tag, &version.digest])
        .collect();
    serde_json::Value::from_iter(versions.into_iter().map(|version| version.to_vec())).to_string()
}

/// The artifact of a text; `None` for the empty text.
pub(super) fn artifact(text: &str) -> Option<Artifact> {
    let versions: Vec<[String; 4]> = serde_json::from_str(text).ok()?;
    let mut artifact = Artifact::default();
    for [kind, name, tag, digest] in versions {
        let subject = Subject::parse(&format!("{kind} {name}"))?;
        artifact.add(subject, Version { tag, digest });
    }
    Some(artifact)
}

/// Numbers above four thousand million end the history: it is not stored then.
pub(super) fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(NONE)
}

impl History {
    /// The bytes to store.
    pub fn encode(&self, key: &str) -> Vec<u8> {
        let mut writer = Writer(Vec::with_capacity(self.texts.bytes.len() * 2 + 64));
        writer.text(key);
        writer.text(&self.texts.bytes);
        writer.numbers(self.texts.ends.iter().copied());
        writer.numbers([self.first, self.tip, self.length, u32::from(self.is_whole)]);
        writer.number(short(self.commits.len()));
        for row in &self.commits {
            writer.numbers_alone([row.id, row.author, row.email]);
            writer.0.extend(row.seconds.to_le_bytes());
        }
        writer.number(short(self.tracks.len()));
        for track in &self.tracks {
            let broken = track.broken.unwrap_or(NONE);
            let is_there = u32::from(track.is_there);
            writer.numbers_alone([
                track.environment,
                track.service,
                track.directory,
                is_there,
                broken,
            ]);
            match &track.last {
                None => writer.number(NONE),
                Some(last) => {
                    writer.number(short(last.len()));
                    let pairs = last.iter().flat_map(|(service, artifact)| [*service, *artifact]);
                    writer.numbers_alone(pairs);
                }
            }
            writer.numbers(track.reads.iter().copied());
        }
        writer.number(short(self.rows.len()));
        for row in &self.rows {
            writer.numbers_alone([row.commit, row.track, row.service, row.before, row.after]);
        }
        let digest = Sha256::digest(&writer.0);
        writer.0.extend(digest);
        writer.0
    }

    /// Reads what [`History::encode`] wrote for the same key; `None` for anything else.
    pub fn decode(bytes: &[u8], expected: &str) -> Option<Self> {
        let (content, digest) = bytes.split_at_checked(bytes.len().checked_sub(DIGEST_BYTES)?)?;
        let mut reader = Reader(content);
        // cheap, and most often the reason
        if reader.text()? != expected || Sha256::digest(content).as_slice() != digest {
            return None;
        }
        let bytes = reader.text()?.to_owned();
        let ends = reader.numbers()?;
        let texts = Texts {
            bytes,
            ends,
            numbers: HashMap::new(),
        };
        let [first, tip, length, is_whole] = reader.numbers()?.try_into().ok()?;
        let mut history = Self {
            texts,
            first,
            tip,
            length,
            is_whole: is_whole == 1,
            ..Self::default()
        };
        for _ in 0..reader.number()? {
            let [id, author, email] = reader.array()?;
            let seconds = i64::from_le_bytes(reader.take()?);
            history.commits.push(CommitRow {
                id,
                seconds,
                author,
                email,
            });
        }
        for _ in 0..reader.number()? {
            let [environment, service, directory, is_there, broken] = reader.array()?;
            let last = match reader.number()? {
                NONE => None,
                count => {
                    let pairs =
                        (0..count).map(|_| reader.array().map(|[service, artifact]| (service, artifact)));
                    Some(pairs.collect::<Option<Vec<_>>>()?)
                }
            };
            history.tracks.push(Track {
                environment,
                service,
                directory,
                is_there: is_there == 1,
                broken: (broken != NONE).then_some(broken),
                last,
                reads: reader.numbers()?,
            });
        }
        for _ in 0..reader.number()? {
            let [commit, track, service, before, after] = reader.array()?;
            history.rows.push(Row {
                commit,
                track,
                service,
                before,
                after,
            });
        }
        reader.0.is_empty().then_some(history)
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    fn numbers_alone(&mut self, numbers: impl IntoIterator<Item = u32>) {
        for number in numbers {
            self.number(number);
        }
    }

    fn numbers(&mut self, numbers: impl IntoIterator<Item = u32, IntoIter: ExactSizeIterator>) {
        let numbers = numbers.into_iter();
        self.number(short(numbers.len()));
        self.numbers_alone(numbers);
    }

    fn text(&mut self, text: &str) {
        self.number(short(text.len()));
        self.0.extend(text.as_bytes());
    }
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn bytes(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take()?))
    }

    fn array<const N: usize>(&mut self) -> Option<[u32; N]> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.number()?;
        }
        Some(numbers)
    }

    fn numbers(&mut self) -> Option<Vec<u32>> {
        let count = self.number()? as usize;
        let bytes = self.bytes(count.checked_mul(4)?)?;
        let (numbers, _) = bytes.as_chunks();
        Some(numbers.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }

    fn text(&mut self) -> Option<&'b str> {
        let count = self.number()? as usize;
        std::str::from_utf8(self.bytes(count)?).ok()
    }
}
