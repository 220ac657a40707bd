//! Classifies a host's error messages: git and its hosts use one exit status for every failure, so the text
//! decides.

use crate::{kind::Kind, transport::Failure};

const MESSAGE_CHARS_MAX: usize = 200;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct HostMessage(String);

impl HostMessage {
    /// Without control characters.
    pub(super) fn last_of(message: &str) -> Option<Self> {
        let last = message.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        Some(Self::of(last))
    }

    /// One short line without control characters.
    pub(super) fn of(message: &str) -> Self {
        let plain = message.chars().filter(|c| !c.is_control());
        Self(plain.take(MESSAGE_CHARS_MAX).collect())
    }
}

pub(super) fn classify(message: &[u8], otherwise: String) -> Failure {
    let message = String::from_utf8_lossy(message);
    let last = HostMessage::last_of(&message).unwrap_or(HostMessage(otherwise));
    let any = |needles: &[&str]| needles.iter().any(|needle| message.contains(needle));
    if any(&[
        "does not appear to be a git repository",
        "not a git repository",
        "epository not found",
        "could not be found",
    ]) {
        return Failure::new(Kind::RepositoryNotFound, "no such repository").because(last);
    }
    if any(&["ermission", "ccess denied", "nauthorized"]) {
        return Failure::new(Kind::Authentication, "the host refused the key").because(last);
    }
    Failure::new(Kind::RemoteFailure, "the host ended the session").because(last)
}

#[cfg(test)]
mod tests {
    use super::classify;

    #[test]
    fn last_line_is_classified() {
        #[track_caller]
        fn check(message: &str, want: &str) {
            let failure = classify(message.as_bytes(), "it closed the connection".to_owned());
            let cause = failure
                .source
                .map(|source| source.to_string())
                .unwrap_or_default();
            assert_eq!(format!("{:?}: {}: {cause}", failure.kind, failure.problem), want);
        }
        check(
            "ERROR: Repository not found.\nfatal: \x1b[31mno\r\n\n",
            "RepositoryNotFound: no such repository: fatal: [31mno",
        );
        check(
            "fatal: '/x' does not appear to be a git repository\n",
            "RepositoryNotFound: no such repository: fatal: '/x' does not appear to be a git repository",
        );
        check(
            "ERROR: Permission to org/x denied to deploy key\n",
            "Authentication: the host refused the key: ERROR: Permission to org/x denied to deploy key",
        );
        check(
            "sh: git-upload-pack: not found",
            "RemoteFailure: the host ended the session: sh: git-upload-pack: not found",
        );
        check(
            "",
            "RemoteFailure: the host ended the session: it closed the connection",
        );
    }
}
