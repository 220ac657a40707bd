//! Pushes new objects and refs to a remote, as one compare-and-swap.
//!
//! The remote's list of refs comes first: a branch that is not at the expected commit costs no upload. The
//! remote compares again when it moves the refs. After a refusal the refs are listed again: they say whether
//! the branch moved, not the remote's words, which are for the user.

use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use gix::{
    ObjectId,
    protocol::transport::client::{MessageKind, WriteMode, blocking_io::Transport as _},
};

use super::{AGENT, Allowance, RemoteError, Session, failure};
use crate::objects::Objects;

/// The most bytes of a remote's words that are kept.
const WORDS_BYTES_MAX: usize = 16 << 10;

/// A ref to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefUpdate {
    pub(crate) name: String,
    pub(crate) old: Option<ObjectId>,
    pub(crate) new: ObjectId,
}

/// The answer of a remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// All refs moved.
    Done,
    /// The remote refused a ref, with its words.
    Refused(String),
}

impl Session {
    /// The commit of a ref in the remote's first answer.
    pub(crate) fn advertised(&mut self, name: &str) -> Result<Option<ObjectId>, RemoteError> {
        let listed = self.refs(name)?;
        let found = listed.into_iter().find(|listed| listed.name == name);
        Ok(found.map(|listed| listed.tag.unwrap_or(listed.id)))
    }

    /// Sends objects, and asks to move refs. The session must be one for pushes.
    pub(crate) fn push(&mut self, updates: &[RefUpdate], objects: &Objects) -> Result<Pushed, RemoteError> {
        let answered = self.send(updates, objects);
        match answered {
            Ok((report, words)) => Ok(read_report(&report, &words)),
            Err(error) => {
                let failure = failure(&self.shared, "it did not take the push", error);
                Err(self.error("push to", failure))
            }
        }
    }

    fn send(
        &mut self,
        updates: &[RefUpdate],
        objects: &Objects,
    ) -> Result<(Vec<String>, String), gix::Error> {
        let max = self.limits.listing_bytes_max;
        self.shared.allow(Allowance::whole("answer to the push", max));
        let capabilities = &self.handshake.capabilities;
        let has = |name: &str| capabilities.contains(name);
        let mut wanted = vec!["report-status".to_owned()];
        let bands = has("side-band-64k");
        if bands {
            wanted.push("side-band-64k".to_owned());
        }
        if has("atomic") && updates.len() > 1 {
            wanted.push("atomic".to_owned());
        }
        if has("object-format") {
            wanted.push("object-format=sha1".to_owned());
        }
        wanted.push(format!("agent={AGENT}"));
        let null = ObjectId::null(gix::hash::Kind::Sha1);
        let mut body = Vec::new();
        for (at, update) in updates.iter().enumerate() {
            let old = update.old.unwrap_or(null);
            let mut line = format!("{old} {} {}", update.new, update.name);
            if at == 0 {
                line.push('\0');
                line.push_str(&wanted.join(" "));
            }
            body.extend_from_slice(format!("{:04x}{line}", line.len() + 4).as_bytes());
        }
        body.extend_from_slice(b"0000");
        body.extend_from_slice(&objects.pack().map_err(gix::Error::from_error)?);
        let request = self
            .transport
            .request(WriteMode::Binary, MessageKind::Flush, false)?;
        let (mut writer, mut reader) = request.into_parts();
        writer.write_all(&body).map_err(gix::Error::from_error)?;
        writer.flush().map_err(gix::Error::from_error)?;
        drop(writer);
        let words = Arc::new(Mutex::new(Vec::new()));
        if !bands {
            let mut lines = Vec::new();
            while let Some(line) = reader.readline() {
                let line = line.map_err(gix::Error::from_error)??;
                if let Some(text) = line.as_slice() {
                    lines.push(String::from_utf8_lossy(text).trim_end().to_owned());
                }
            }
            return Ok((lines, String::new()));
        }
        let heard = Arc::clone(&words);
        reader.set_progress_handler(Some(Box::new(move |_is_error, text| {
            let mut words = heard.lock().unwrap_or_else(PoisonError::into_inner);
            let room = WORDS_BYTES_MAX.saturating_sub(words.len());
            words.extend_from_slice(&text[..text.len().min(room)]);
            std::ops::ControlFlow::Continue(())
        })));
        let mut report = Vec::new();
        reader.read_to_end(&mut report).map_err(gix::Error::from_error)?;
        drop(reader);
        let words = words.lock().unwrap_or_else(PoisonError::into_inner);
        let words = String::from_utf8_lossy(&words).into_owned();
        Ok((packet_lines(&report), words))
    }
}

/// The texts of packet lines.
fn packet_lines(bytes: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = bytes;
    while let Some(header) = rest.get(..4) {
        let length = std::str::from_utf8(header).ok();
        let length = length.and_then(|text| usize::from_str_radix(text, 16).ok());
        match length {
            Some(0..=3) => rest = &rest[4..],
            Some(length) => {
                let Some(line) = rest.get(4..length) else {
                    break;
                };
                lines.push(String::from_utf8_lossy(line).trim_end().to_owned());
                rest = &rest[length..];
            }
            None => break,
        }
    }
    lines
}

fn read_report(report: &[String], words: &str) -> Pushed {
    let mut refusals: Vec<String> = Vec::new();
    let mut accepted = 0;
    for line in report {
        if let Some(rest) = line.strip_prefix("ng ") {
            refusals.push(rest.to_owned());
        } else if let Some(rest) = line.strip_prefix("unpack ") {
            if rest != "ok" {
                refusals.push(format!("unpack: {rest}"));
            }
        } else if line.starts_with("ok ") {
            accepted += 1;
        }
    }
    if refusals.is_empty() && accepted > 0 {
        return Pushed::Done;
    }
    let said: Vec<&str> = words
        .lines()
        .map(|line| line.trim_start_matches("remote:").trim())
        .filter(|line| !line.is_empty())
        .collect();
    let mut text = match refusals.is_empty() {
        true => "it gave no answer".to_owned(),
        false => refusals.join("; "),
    };
    if !said.is_empty() {
        text.push_str(": ");
        text.push_str(&said.join(" "));
    }
    // a remote's words reach a terminal
    Pushed::Refused(text.chars().filter(|c| !c.is_control()).take(2_000).collect())
}

#[cfg(test)]
mod tests {
    use super::{Pushed, packet_lines, read_report};

    #[test]
    fn reports_are_read() {
        #[track_caller]
        fn check(lines: &[&str], words: &str, expected: &Pushed) {
            let bytes: String = lines
                .iter()
                .map(|line| format!("{:04x}{line}\n", line.len() + 5))
                .collect();
            assert_eq!(&read_report(&packet_lines(bytes.as_bytes()), words), expected);
        }
        check(&["unpack ok", "ok refs/heads/main"], "hello", &Pushed::Done);
        let refused = |text: &str| Pushed::Refused(text.to_owned());
        check(
            &["unpack ok", "ng refs/heads/main pre-receive hook declined"],
            "remote: branch is protected\n\u{1b}[31m\n",
            &refused("refs/heads/main pre-receive hook declined: branch is protected [31m"),
        );
        check(&[], "", &refused("it gave no answer"));
        check(
            &["unpack index-pack failed"],
            "",
            &refused("unpack: index-pack failed"),
        );
    }
}
