//! The behaviour of containers whose command is simple enough to read: `sleep 30`, `exit 1`, `false`.
//!
//! Nothing is executed. Only pods that end of themselves, with one container, are read.

use super::behaviour::{Behaviour, Outcome};
use crate::builtin::tree::{items, text};
use serde_json::Value;
use tokio::time::Duration;

/// The longest `sleep` that is measured; a longer one goes on for ever.
const SLEEP_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The behaviour of a pod by the command of its only container.
pub(super) fn of(pod: &Value) -> Option<Behaviour> {
    if text(pod, "spec.restartPolicy") == "Always" {
        return None;
    }
    let [container] = items(pod, "spec.containers") else {
        return None;
    };
    let words = items(container, "command").iter().chain(items(container, "args"));
    let words: Vec<&str> = words.filter_map(Value::as_str).collect();
    match words.as_slice() {
        [] if is_pause(text(container, "image")) => Some(endless()),
        [shell, "-c" | "-ec" | "-ce", script] if is_shell(shell) => {
            in_shell(&script.split_whitespace().collect::<Vec<_>>())
        }
        words => program(words),
    }
}

/// A script of one command: a program, or one of the commands that only a shell has.
fn in_shell(words: &[&str]) -> Option<Behaviour> {
    match words {
        ["exec", words @ ..] => program(words),
        ["exit", code] => match code.parse().ok().filter(|code| (0..=255).contains(code))? {
            0 => Some(Behaviour::default()),
            code => Some(exits(code)),
        },
        words => program(words),
    }
}

fn program(words: &[&str]) -> Option<Behaviour> {
    let (program, arguments) = words.split_first()?;
    match (base(program), arguments) {
        ("true", []) => Some(Behaviour::default()),
        ("false", []) => Some(exits(1)),
        ("sleep", [time]) => sleeps(time),
        _ => None,
    }
}

fn exits(code: i64) -> Behaviour {
    Behaviour {
        exit_code: Some(code),
        ..Behaviour::default()
    }
}

fn endless() -> Behaviour {
    Behaviour {
        outcome: Some(Outcome::Running),
        ..Behaviour::default()
    }
}

/// A time as coreutils reads it: `30`, `1.5m`, `2h`, `infinity`.
fn sleeps(time: &str) -> Option<Behaviour> {
    if matches!(time, "infinity" | "inf") {
        return Some(endless());
    }
    let (number, unit) = time.split_at(time.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(time.len()));
    let unit = match unit {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 60.0 * 60.0,
        "d" => 24.0 * 60.0 * 60.0,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok()? * unit;
    if seconds > SLEEP_MAX.as_secs_f64() {
        return Some(endless());
    }
    Some(Behaviour {
        runs_for: Some(Duration::try_from_secs_f64(seconds).ok()?),
        ..Behaviour::default()
    })
}

fn is_shell(program: &str) -> bool {
    matches!(base(program), "sh" | "bash" | "ash" | "dash")
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Whether an image is Kubernetes' own that only waits.
fn is_pause(image: &str) -> bool {
    base(image).split([':', '@']).next() == Some("pause")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(policy: &str, image: &str, command: &[&str], args: &[&str]) -> Option<Behaviour> {
        let container = json!({ "image": image, "command": command, "args": args });
        of(&json!({ "spec": { "restartPolicy": policy, "containers": [container] } }))
    }

    #[test]
    fn simple_commands_are_read() {
        let runs = |seconds: f64| Behaviour {
            runs_for: Some(Duration::from_secs_f64(seconds)),
            ..Behaviour::default()
        };
        let check = |command: &[&str], args: &[&str], expected: Option<Behaviour>| {
            let read = read("Never", "busybox", command, args);
            assert_eq!(read, expected, "{command:?} {args:?}");
        };
        check(&["sleep", "300"], &[], Some(runs(300.0)));
        check(&["/bin/sleep"], &["1.5m"], Some(runs(90.0)));
        check(&["sh", "-c", " exec sleep 2 "], &[], Some(runs(2.0)));
        check(&["sleep", "infinity"], &[], Some(endless()));
        check(&["sleep", "1e300"], &[], None);
        check(&["sleep", "99999999999d"], &[], Some(endless()));
        check(&["/bin/sh", "-c"], &["exit 3"], Some(exits(3)));
        check(&["sh", "-c", "exit 0"], &[], Some(Behaviour::default()));
        check(&["/bin/true"], &[], Some(Behaviour::default()));
        check(&["/bin/false"], &[], Some(exits(1)));
        for other in [
            "exit 256",
            "sleep 1; exit 2",
            "sleep -1",
            "sleep NaN",
            "exec",
            "exec exit 3",
            "/bin/exit 3",
            "",
            "false x",
        ] {
            check(&["sh", "-c", other], &[], None);
        }
        check(&["exit", "3"], &[], None);
        check(&["exec", "sleep", "3"], &[], None);
        check(&[], &[], None);
    }

    #[test]
    fn pods_that_end_by_themselves_are_read() {
        assert_eq!(read("Always", "busybox", &["false"], &[]), None);
        assert_eq!(
            read("OnFailure", "registry.k8s.io/pause:3.10", &[], &[]),
            Some(endless())
        );
        assert_eq!(read("OnFailure", "example.org/pauses:1", &[], &[]), None);
        let two = json!([{ "command": ["false"] }, { "command": ["false"] }]);
        assert_eq!(
            of(&json!({ "spec": { "restartPolicy": "Never", "containers": two } })),
            None
        );
    }
}
