//! Ages as `kubectl get` shows them.

use equate_manifest::go::duration;
use jiff::Timestamp;

/// The age of an RFC 3339 time; `<unknown>` without one, `<invalid>` if malformed.
pub(super) fn since(time: Option<&str>, now: Timestamp) -> String {
    match time {
        None | Some("") => "<unknown>".to_owned(),
        Some(text) => match text.parse::<Timestamp>() {
            Ok(time) => duration::human(now.duration_since(time).as_secs()),
            Err(_) => "<invalid>".to_owned(),
        },
    }
}
