use super::{ConditionStatus, ConditionType, Duration, Reason, merge_patch, set_condition};
use jiff::Timestamp;
use serde_json::json;

#[test]
fn durations() {
    let check = |text: &str, expected: &str| {
        let said = match text.parse::<Duration>() {
            Ok(duration) => duration.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(said, expected, "{text}");
    };
    check("1h30m", "1h30m0s");
    check("0.5s", "500ms");
    check("500ms", "500ms");
    check("1500ms", "1.5s");
    check("60s", "1m0s");
    check("1m0.25s", "1m0.25s");
    check("1.5h", "1h30m0s");
    check("0s", "0s");
    check("0", "0s");
    check("10ns", "10ns");
    check("1500ns", "1.5\u{b5}s");
    check("1001us", "1.001ms");
    check("24h", "24h0m0s");
    check(".5m", "30s");
    check("100000000000h", "2562047h47m16.854775807s");
    check("", "\"\" is not a duration such as 10m, 1h30m or 500ms");
    check("fast", "\"fast\" is not a duration such as 10m, 1h30m or 500ms");
    check(
        "10",
        "unknown unit \"\" in duration \"10\"; use ns, us, ms, s, m or h",
    );
    check(
        "1d",
        "unknown unit \"d\" in duration \"1d\"; use ns, us, ms, s, m or h",
    );
    check(
        "1m s",
        "unknown unit \"m s\" in duration \"1m s\"; use ns, us, ms, s, m or h",
    );
    check("-1s", "duration \"-1s\" is negative");
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn transition_time_changes_only_with_the_status() {
    let mut conditions = Vec::new();
    let mut set = |status, message: &str, now| {
        let (of, reason) = (ConditionType::Ready, Reason::Progressing);
        set_condition(&mut conditions, of, status, reason, message, 1, now);
        format!(
            "{} {}",
            conditions[0].last_transition_time.0, conditions[0].message
        )
    };
    let fraction = at(10) + jiff::SignedDuration::from_millis(900);
    assert_eq!(
        set(ConditionStatus::Unknown, "a", fraction),
        "1970-01-01T00:00:10Z a"
    );
    assert_eq!(
        set(ConditionStatus::Unknown, "b", at(20)),
        "1970-01-01T00:00:10Z b"
    );
    assert_eq!(set(ConditionStatus::True, "b", at(30)), "1970-01-01T00:00:30Z b");
}

#[test]
fn conditions_have_fluxs_order() {
    let mut conditions = Vec::new();
    for (of, generation) in [
        (ConditionType::Healthy, 1),
        (ConditionType::Ready, 1),
        (ConditionType::ArtifactInStorage, 1),
        (ConditionType::OwnershipConflict, 2),
        (ConditionType::Stalled, 1),
        (ConditionType::Reconciling, 1),
    ] {
        let status = ConditionStatus::True;
        set_condition(
            &mut conditions,
            of,
            status,
            Reason::Succeeded,
            "",
            generation,
            at(0),
        );
    }
    let order: Vec<&str> = conditions
        .iter()
        .map(|condition| condition.type_.as_str())
        .collect();
    assert_eq!(
        order.join(" "),
        "Stalled Reconciling Ready OwnershipConflict ArtifactInStorage Healthy"
    );
}

#[test]
fn long_message_is_truncated() {
    let mut conditions = Vec::new();
    let message = "\u{e9}".repeat(super::MESSAGE_CHARACTERS_MAX + 1);
    let (of, status) = (ConditionType::Ready, ConditionStatus::False);
    set_condition(&mut conditions, of, status, Reason::Failed, &message, 1, at(0));
    let kept = &conditions[0].message;
    assert_eq!(kept.chars().count(), super::MESSAGE_CHARACTERS_MAX);
    assert!(
        kept.ends_with("\u{e9} [message cut]"),
        "{}",
        &kept[kept.len() - 40..]
    );
}

#[test]
fn merge_patches() {
    let check = |before: serde_json::Value, after: serde_json::Value, expected: Option<serde_json::Value>| {
        assert_eq!(
            merge_patch(&before, &after).unwrap(),
            expected,
            "{before} {after}"
        );
    };
    check(json!({"a": 1}), json!({"a": 1}), None);
    check(json!({"a": 1}), json!({"a": 2}), Some(json!({"a": 2})));
    check(json!({"a": 1, "b": 1}), json!({"b": 1}), Some(json!({"a": null})));
    check(
        json!({"a": {"b": 1, "c": 2}}),
        json!({"a": {"b": 1, "d": 3}}),
        Some(json!({"a": {"c": null, "d": 3}})),
    );
    check(json!({"l": [1, 2]}), json!({"l": [1]}), Some(json!({"l": [1]})));
}
