//! `equate promote --each`: independent promotions that share pushes.

use crate::promote::{CONFIG, clone_of, command, commit, equate, files, git, matrix, overlay, remote};
use crate::session::printed;
use equate_testkit::git::Repository;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Output, Stdio};

const SERVICES: [&str; 4] = ["cart", "checkout", "ledger", "search"];

/// The ends of promotions: the service, the outcome, and `new` if there is a commit.
fn ends(output: &Output) -> Vec<String> {
    let value: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", printed(output)));
    let changes = value["changes"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    changes
        .iter()
        .map(|change| {
            let service = change["steps"][0]["service"].as_str();
            let service = service.map_or_else(|| text(&change["service"]), str::to_owned);
            let new = if change["commit"].is_string() { " new" } else { "" };
            format!("{service} {}{new}", text(&change["outcome"]))
        })
        .collect()
}

/// The number of pushes that a clone remembers.
fn pushes(clone: &Repository) -> usize {
    let log = clone.path().join(".git/logs/refs/remotes/origin/main");
    let log = std::fs::read_to_string(log).unwrap();
    log.lines().filter(|line| line.ends_with("commit: push")).count()
}

fn subjects(repository: &Repository) -> Vec<String> {
    let log = git(repository.path(), &["log", "--reverse", "--format=%s", "main"]).unwrap();
    log.lines().map(str::to_owned).collect()
}

fn held(service: &str) -> (String, String) {
    (
        format!(".equate/holds/staging/{service}.yaml"),
        "reason: audit\nby: Anna Berg <anna@example.org>\n".to_owned(),
    )
}

#[test]
fn refused_and_unknown_services_fail_alone() {
    let (clone, remote) = remote(&SERVICES);
    commit(&remote, &[held("ledger")]);
    let services = ["cart", "checkout", "ledger", "chekout", "search", "cart"];
    let arguments = [
        &["promote"],
        services.as_slice(),
        &["--to", "staging", "--each", "-o", "json"],
    ]
    .concat();
    let output = equate(&clone, &arguments);
    // an unknown service is worse than a refusal
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: unknown service \"chekout\"\nhint: did you mean checkout?\n"
    );
    assert_eq!(
        ends(&output),
        [
            "cart committed new",
            "checkout committed new",
            "ledger refused",
            "chekout failed",
            "search committed new",
            "cart unchanged"
        ]
    );
    assert_eq!(pushes(&clone), 1);
    let promoted = ["cart", "checkout", "search"].map(|name| format!("promote {name} 2.4.1 to staging"));
    assert_eq!(subjects(&remote)[2..], promoted);
    let noted = git(remote.path(), &["notes", "--ref=equate", "list"]).unwrap();
    assert_eq!(noted.lines().count(), 3, "{noted}");
    git(remote.path(), &["fsck", "--strict"]).unwrap();
    for service in ["cart", "checkout", "search"] {
        assert_eq!(matrix(&clone, service)[1], "2.4.1");
    }
    assert_eq!(matrix(&clone, "ledger")[1], "2.4.0");
}

#[test]
fn text_has_the_ends_one_after_the_other() {
    let (clone, remote) = remote(&["cart", "ledger"]);
    commit(&remote, &[held("ledger")]);
    let each = ["promote", "ledger", "cart", "--to", "staging", "--each"];
    let dry = equate(&clone, &[&each[..], &["--dry-run"]].concat());
    assert_eq!(dry.status.code(), Some(3), "{}", printed(&dry));
    let text = String::from_utf8_lossy(&dry.stdout).into_owned();
    let plan = "cart 2.4.0 -> 2.4.1 in staging, from dev\n  apps/staging/cart/kustomization.yaml:7  newTag: 2.4.0 \
                -> 2.4.1\n";
    assert!(
        text.starts_with(&format!("{plan}dry run: would commit to main of ")),
        "{text}"
    );
    assert_eq!(subjects(&remote).len(), 2);
    let output = equate(&clone, &each);
    assert_eq!(output.status.code(), Some(3), "{}", printed(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with(&format!("{plan}committed  ")), "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
    let refusal = "error: ledger 2.4.1 may not go to staging\n  refused    .equate/holds/staging/ledger.yaml:1   \
                   hold: held by Anna Berg: audit\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), refusal);
}

#[test]
fn local_branch_gets_a_commit_for_each() {
    let repository = crate::promote::local(&["cart", "checkout"]);
    let arguments = [
        "promote", "cart", "checkout", "--to", "staging", "--each", "-o", "json",
    ];
    let output = equate(&repository, &arguments);
    assert_eq!(ends(&output), ["cart committed new", "checkout committed new"]);
    assert_eq!(subjects(&repository).len(), 3);
    assert_eq!(git(repository.path(), &["status", "--porcelain"]).unwrap(), "");
}

/// Rules see the commits that are not pushed yet.
#[test]
fn history_has_the_commits_of_the_same_push() {
    let (clone, remote) = remote(&SERVICES);
    let rules = format!("{CONFIG}rules:\n- {{to: staging, soak: 1h}}\n- {{to: prod-eu, soak: 1h}}\n");
    commit(&remote, &[("equate.yaml".to_owned(), rules)]);
    let first = equate(
        &clone,
        &[
            "promote", "cart", "search", "ledger", "--to", "staging", "--each", "-o", "json",
        ],
    );
    assert_eq!(
        ends(&first),
        [
            "cart committed new",
            "search committed new",
            "ledger committed new"
        ],
        "{}",
        printed(&first)
    );
    let value: Value = serde_json::from_slice(&first.stdout).unwrap();
    let verdict = &value["changes"][2]["steps"][0]["verdicts"][0];
    assert_eq!(verdict["rule"], "soak");
    assert_eq!(verdict["refused"], false, "{verdict}");
    // the soak of this version began with that push
    let second = equate(
        &clone,
        &[
            "promote", "cart", "ledger", "--to", "prod-eu", "--each", "-o", "json",
        ],
    );
    assert_eq!(second.status.code(), Some(3), "{}", printed(&second));
    assert_eq!(ends(&second), ["cart refused", "ledger refused"]);
}

#[test]
fn services_of_standard_input_are_promoted_as_they_come() {
    let remote = Repository::init_bare().unwrap();
    let Some(server) = remote.serve_http().unwrap() else {
        return;
    };
    let names: Vec<String> = (0..12).map(|number| format!("service-{number:02}")).collect();
    let services: Vec<&str> = names.iter().map(String::as_str).collect();
    commit(&remote, &files(&services));
    let clone = clone_of(&server.url());
    let mut command = command(clone.path(), &["promote", "-", "--to", "staging", "--each"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut committed = |count: usize| {
        let lines = lines.by_ref().map(Result::unwrap);
        let landed = lines.filter(|line| line.starts_with("committed  "));
        assert_eq!(landed.take(count).count(), count);
    };
    stdin
        .write_all(format!("{}\n\n", names[..4].join("\n")).as_bytes())
        .unwrap();
    committed(4);
    let outside = overlay(&names[11], "2.4.2");
    commit(
        &remote,
        &[(format!("apps/dev/{}/kustomization.yaml", names[11]), outside)],
    );
    stdin.write_all(names[4..].join("\n").as_bytes()).unwrap();
    drop(stdin);
    committed(8);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", printed(&output));
    // one push may begin with the first line already, before the others come
    let pushes = pushes(&clone);
    assert!(pushes <= 4, "{pushes}");
    let mut subjects = subjects(&remote);
    assert_eq!(subjects.remove(5), "change");
    let mut expected: Vec<String> = names
        .iter()
        .map(|name| format!("promote {name} 2.4.1 to staging"))
        .collect();
    expected[11] = expected[11].replace("2.4.1", "2.4.2");
    assert_eq!(subjects[1..], expected);
}
