//! `equate undeploy` with a plan, and its question in a terminal.

use crate::promote::{command, equate, files, local, run};
use crate::session::printed;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

const PLAN: &str = "checkout 2.4.0 leaves staging\n  apps/staging/checkout/kustomization.yaml  removed\n";

#[test]
fn plan_is_applied_once_and_exactly() {
    let repository = local(&["checkout", "ledger"]);
    let file = repository.path().join("plan.json");
    let file = file.to_str().unwrap();
    let directory = repository.path().join("apps/staging/checkout");
    let plan = [
        "undeploy", "checkout", "--env", "staging", "--reason", "moved", "--plan", file,
    ];
    assert!(run(&repository, &plan, 0).starts_with(PLAN));
    assert!(directory.exists());
    // a plan of another command
    let text = run(&repository, &["promote", "--apply", file], 1);
    assert_eq!(
        text,
        format!("error: {file} is a plan of `equate undeploy`\nhint: give it to that command with --apply\n")
    );
    // the version changed since
    run(&repository, &["promote", "checkout", "--to", "staging"], 0);
    run(&repository, &["undeploy", "--apply", file], 6);
    assert!(directory.exists());
    run(&repository, &plan, 0);
    let text = run(&repository, &["undeploy", "--apply", file], 0);
    assert_eq!(
        text,
        format!(
            "{}committed  ID on main by Mia Holm <mia@example.org>\n",
            PLAN.replace("2.4.0", "2.4.1")
        )
    );
    assert!(!directory.exists());
    let output = equate(
        &repository,
        &["history", "checkout", "--env", "staging", "-o", "json"],
    );
    assert!(
        printed(&output).contains("\"reason\": \"moved\""),
        "{}",
        printed(&output)
    );
    // it is gone
    run(&repository, &["undeploy", "--apply", file], 6);
    // the service and the environment come from the plan
    run(&repository, &["undeploy", "checkout", "--apply", file], 2);
    run(&repository, &["undeploy", "checkout"], 2);
}

#[test]
fn question_shows_the_plan_once() {
    let repository = local(&["checkout", "ledger"]);
    let undeploy = ["undeploy", "checkout", "--env", "staging"];
    let Some(text) = in_terminal(repository.path(), &undeploy, "n") else {
        return;
    };
    assert_eq!(text.matches("checkout 2.4.0 leaves staging").count(), 1, "{text}");
    assert!(text.contains("not confirmed; nothing was written"), "{text}");
    let text = in_terminal(repository.path(), &undeploy, "y").unwrap();
    assert_eq!(text.matches("checkout 2.4.0 leaves staging").count(), 1, "{text}");
    assert_eq!(text.matches("committed  ").count(), 1, "{text}");
    assert!(!text.contains("dry run"), "{text}");
    let left = files(&["checkout"]);
    let left = left
        .iter()
        .filter(|(path, _)| repository.path().join(path).exists());
    assert_eq!(left.count(), files(&["checkout"]).len() - 1);
}

/// Runs a command in a terminal of the program `script`, and answers its question. Without the program prints
/// so and returns `None`.
fn in_terminal(directory: &Path, arguments: &[&str], answer: &str) -> Option<String> {
    let equate = command(directory, arguments);
    let words = std::iter::once(equate.get_program()).chain(equate.get_args());
    let words: Vec<&str> = words.map(|word| word.to_str().unwrap()).collect();
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &words.join(" "), "/dev/null"]);
    script.current_dir(directory);
    for (name, value) in equate.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    script.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = match script.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: the script program is not installed");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let mut input = child.stdin.take().unwrap();
    let mut output = child.stdout.take().unwrap();
    let (mut seen, mut buffer) = (Vec::new(), [0; 1024]);
    let mut is_answered = false;
    loop {
        let read = output.read(&mut buffer).unwrap();
        if read == 0 {
            break;
        }
        seen.extend_from_slice(&buffer[..read]);
        if !is_answered && String::from_utf8_lossy(&seen).contains("[y/N]") {
            input.write_all(format!("{answer}\n").as_bytes()).unwrap();
            is_answered = true;
        }
    }
    drop(input);
    child.wait().unwrap();
    let text = String::from_utf8(seen).unwrap();
    assert!(is_answered, "{text}");
    Some(text)
}
