//! Classifies a host's error messages: git and its hosts use one exit status for every failure, so the text
//! decides.

use crate::{kind::Kind, transport::Failure};

const WORDS_CHARS_MAX: usize = 200;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Words(String);

impl Words {
    /// Without control characters.
    pub(super) fn last_of(words: &str) -> Option<Self> {
        let last = words.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        Some(Self::of(last))
    }

    /// One short line without control characters.
    pub(super) fn of(words: &str) -> Self {
        let plain = words.chars().filter(|c| !c.is_control());
        Self(plain.take(WORDS_CHARS_MAX).collect())
    }
}

pub(super) fn classify(words: &[u8], otherwise: String) -> Failure {
    let words = String::from_utf8_lossy(words);
    let last = Words::last_of(&words).unwrap_or(Words(otherwise));
    let any = |needles: &[&str]| needles.iter().any(|needle| words.contains(needle));
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
    fn last_words() {
        #[track_caller]
        fn check(words: &str, want: &str) {
            let failure = classify(words.as_bytes(), "it closed the connection".to_owned());
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
