//! Commands that show and check promotions, with the binary as a process.

use crate::promote::{CONFIG, commit, equate, local, run};
use crate::session::printed;
use equate_testkit::git::Repository;

/// The data that a command prints.
#[track_caller]
fn data(repository: &Repository, arguments: &[&str]) -> serde_json::Value {
    let arguments = [arguments, &["-o", "json"]].concat();
    let output = equate(repository, &arguments);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", printed(&output)))
}

/// The cells of a table without runs of spaces.
fn rows(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| {
        let cells = line.split("   ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.collect::<Vec<_>>().join(" | ")
    });
    lines.collect()
}

const RULES: &str = "rules:
- to: staging
  freeze: [{from: 2020-01-01, until: 2999-01-01, reason: audit}]
- to: prod
  soak: 90000d
  healthy: true
";

#[test]
fn status_names_the_next_version_and_what_refuses_it() {
    let repository = local(&["checkout", "ledger"]);
    let config = ("equate.yaml".to_owned(), format!("{CONFIG}{RULES}"));
    commit(&repository, &[config]);
    let hold = [
        "hold",
        "checkout",
        "--env",
        "prod-us",
        "--reason",
        "EU first",
        "--until",
        "2999-01-01",
    ];
    run(&repository, &hold, 0);
    let text = run(&repository, &["status", "checkout"], 0);
    let mut found = rows(&text);
    // ages grow
    for row in &mut found[1..5] {
        let mut cells: Vec<&str> = row.split(" | ").collect();
        cells.remove(3);
        *row = cells.join(" | ");
        if let Some((start, rest)) = row.split_once(" for ") {
            let (_, rest) = rest.split_once(" of ").unwrap();
            *row = format!("{start} for .. of {rest}");
        }
        if let Some((start, rest)) = row.split_once(", met at ") {
            let (_, rest) = rest.split_once(';').unwrap();
            *row = format!("{start};{rest}");
        }
    }
    let blind = "equate.yaml:9 healthy: its health in staging is unknown: ";
    for row in &mut found[3..5] {
        let (start, rest) = row.split_once(blind).unwrap_or_else(|| panic!("{row}"));
        let reason = rest.split("; .equate").next().unwrap().len();
        *row = format!("{start}{blind}..{}", &rest[reason..]);
    }
    let soak = "equate.yaml:8 soak: in staging for .. of 90000d";
    assert_eq!(
        found,
        [
            "SERVICE | ENVIRONMENT | VERSION | AGE | NEXT | REFUSED BY".to_owned(),
            "checkout | dev | 2.4.1 | -".to_owned(),
            "checkout | staging | 2.4.0 | 2.4.1 from dev | equate.yaml:6 freeze: staging is frozen: audit, until 2 Jan \
             00:00"
                .to_owned(),
            format!("checkout | prod-eu | 2.3.9 | 2.4.0 from staging | {soak}; {blind}.."),
            format!(
                "checkout | prod-us | 2.3.7 | 2.4.0 from staging | {soak}; {blind}..; \
                 .equate/holds/prod-us/checkout.yaml:1 hold: held by Mia Holm: EU first, until 1 Jan 00:00"
            ),
            String::new(),
            "checkout in prod-us: held by Mia Holm until 1 Jan: EU first".to_owned(),
            "`promote`, `release` and `rollback` to prod-us are refused, and automation waits".to_owned(),
            ".equate/holds/prod-us/checkout.yaml:1; `equate unhold checkout --env prod-us` ends it".to_owned(),
        ]
    );
    // status and promote agree
    let all = data(&repository, &["status", "--env", "staging"]);
    let services = all["services"].as_array().unwrap();
    assert_eq!(services.len(), 2);
    for service in services {
        assert_eq!(service["next"]["state"], "refused", "{service}");
        let name = service["service"].as_str().unwrap();
        run(&repository, &["promote", name, "--to", "staging"], 3);
    }
}

#[test]
fn near_names_are_offered_by_every_command() {
    let repository = local(&["checkout"]);
    for arguments in [
        &["status", "chekout"][..],
        &["matrix", "chekout"],
        &["history", "chekout"],
        &["promote", "chekout", "--to", "staging"],
        &["unhold", "chekout", "--env", "staging"],
    ] {
        let text = run(&repository, arguments, 2);
        assert!(
            text.contains("hint: did you mean checkout?"),
            "{arguments:?} {text}"
        );
    }
    for arguments in [
        &["status", "checkout", "--env", "stagin"][..],
        &["history", "--env", "stagin"],
        &["promote", "checkout", "--to", "stagin"],
    ] {
        let text = run(&repository, arguments, 2);
        assert!(
            text.contains("hint: did you mean staging?"),
            "{arguments:?} {text}"
        );
    }
}

#[test]
fn promotion_of_a_version_that_was_rolled_back_warns() {
    let repository = local(&["checkout"]);
    let promote = ["promote", "checkout", "--to", "staging"];
    let text = run(&repository, &promote, 0);
    assert!(!text.contains("warning"), "{text}");
    let reason = ["--reason", "cart answers 500"];
    run(
        &repository,
        &[&["rollback", "checkout", "--env", "staging"][..], &reason].concat(),
        0,
    );
    let output = equate(&repository, &promote);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.starts_with("warning: checkout 2.4.1 was rolled back in staging ")
            && errors.contains(" ago by Mia Holm: cart answers 500\n"),
        "{errors}"
    );
    assert!(output.status.success());
    // another version is no reason to warn
    let image = "registry.example/checkout=2.5.0";
    run(
        &repository,
        &["release", "checkout", "--to", "dev", "--image", image],
        0,
    );
    let text = run(&repository, &promote, 0);
    assert!(!text.contains("warning"), "{text}");
}

#[test]
fn missing_objects_end_the_history_with_an_error() {
    let repository = local(&["checkout"]);
    let middle = commit(&repository, &[("README.md".to_owned(), "one\n".to_owned())]);
    run(&repository, &["promote", "checkout", "--to", "staging"], 0);
    let object = repository
        .path()
        .join(format!(".git/objects/{}/{}", &middle[..2], &middle[2..]));
    std::fs::remove_file(&object).unwrap();
    let text = run(&repository, &["history"], 1);
    assert!(text.contains("error: cannot read the git repository"), "{text}");
    // history of a shallow clone ends earlier, and that is no damage
    let tip = std::fs::read_to_string(repository.path().join(".git/refs/heads/main")).unwrap();
    std::fs::write(repository.path().join(".git/shallow"), tip).unwrap();
    assert_eq!(run(&repository, &["history"], 0), "no change of a version\n");
}
