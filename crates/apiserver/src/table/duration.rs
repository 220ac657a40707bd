//! Ages as `kubectl get` shows them.

use jiff::{SignedDuration, Timestamp};

/// The two largest units that matter: `5s`, `3m20s`, `5h`, `2d3h`, `1y30d`. Up to a second of clock skew
/// counts as now, more is `<invalid>`.
pub(crate) fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |large: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => two(days, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{days}d"),
        () if hours < 24 * 365 * 8 => two(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

/// The age of an RFC 3339 time; `<unknown>` without one, `<invalid>` if malformed.
pub(super) fn since(time: Option<&str>, now: Timestamp) -> String {
    match time {
        None | Some("") => "<unknown>".to_owned(),
        Some(text) => match text.parse::<Timestamp>() {
            Ok(time) => human_duration(now.duration_since(time)),
            Err(_) => "<invalid>".to_owned(),
        },
    }
}
