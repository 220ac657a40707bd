//! Commands that show and check promotions, with the binary as a process.

use crate::promote::{CONFIG, commit, equate, history, local, read, run};
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

#[test]
fn stored_history_is_that_of_the_commits() {
    let repository = local(&["checkout", "ledger"]);
    let folder = repository.path().join(".git/equate");
    let index = || {
        let files = std::fs::read_dir(&folder).unwrap();
        let paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        assert_eq!(paths.len(), 1, "{paths:?}");
        paths[0].clone()
    };
    // with the index, and without one
    let check = |expected: usize| {
        let stored = history(&repository, &[]);
        let described = data(&repository, &["describe", "checkout"]);
        let bytes = std::fs::read(index()).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(history(&repository, &[]), stored);
        assert_eq!(data(&repository, &["describe", "checkout"]), described);
        assert_eq!(std::fs::read(index()).unwrap(), bytes);
        assert_eq!(stored.len(), expected, "{stored:?}");
    };
    check(8);
    run(&repository, &["promote", "checkout", "--to", "staging"], 0);
    check(9);
    // damaged
    std::fs::write(index(), "equate").unwrap();
    check(9);
    // of other directories
    let config = CONFIG.replace("staging, ", "");
    commit(&repository, &[("equate.yaml".to_owned(), config)]);
    check(6);
    // the branch goes on elsewhere
    let reset = ["update-ref", "refs/heads/main", "HEAD~2"];
    let mut git = std::process::Command::new("git");
    assert!(
        git.args(reset)
            .current_dir(repository.path())
            .status()
            .unwrap()
            .success()
    );
    check(8);
    // where it cannot be written, everything still works
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::write(&folder, "").unwrap();
    assert_eq!(history(&repository, &[]).len(), 8);
}

#[test]
fn description_names_places_people_and_other_environments() {
    let repository = local(&["checkout"]);
    let hand = repository.commit(&[("notes.txt", Some("x"))]).unwrap();
    run(
        &repository,
        &["promote", "checkout", "--to", "staging", "--reason", "for Mia"],
        0,
    );
    let rollback = ["rollback", "checkout", "--env", "staging", "--reason", "slow"];
    run(&repository, &rollback, 0);
    let current = data(&repository, &["describe", "checkout@staging"]);
    let current = &current["environments"][0];
    assert_eq!(current["version"], "2.4.0");
    assert_eq!(
        current["subjects"],
        serde_json::json!([{
            "kind": "image",
            "name": "registry.example/checkout",
            "versions": [{"tag": "2.4.0", "digest": ""}],
            "places": ["apps/staging/checkout/kustomization.yaml:7"],
        }])
    );
    assert_eq!(current["author"]["name"], "Mia Holm");
    assert_eq!(current["record"]["intent"], "rollback");
    assert_eq!(current["recordPlace"], "git note");
    assert_eq!(current["reason"], "slow");
    assert_eq!(current["before"], "2.4.1");
    assert_eq!(current["holds"][0]["newerThan"], "2.4.1");
    // an older version, where it was and still is
    let text = run(
        &repository,
        &["describe", "checkout", "2.4.1", "--env", "staging"],
        0,
    );
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(lines[0], "checkout in staging");
    assert_eq!(lines[1], "version    2.4.1, which staging no longer has");
    assert_eq!(lines[3], "image      registry.example/checkout 2.4.1");
    assert_eq!(lines[4], "apps/staging/checkout/kustomization.yaml:7");
    for expected in [
        "by         Mia Holm <mia@example.org>",
        "how        promote from dev",
        "reason     for Mia",
        "record     git note",
        "before     2.4.0",
        "also in    dev since ",
    ] {
        assert!(
            lines.iter().any(|line| line.starts_with(expected)),
            "{expected:?}\n{text}"
        );
    }
    // a version by hand has no record, and says so
    let text = run(&repository, &["describe", "checkout@dev"], 0);
    assert!(text.contains("how        by hand: "), "{text}");
    assert!(text.contains("was in     staging from "), "{text}");
    assert!(!text.contains(&hand), "{text}");
    let text = run(&repository, &["describe", "checkout", "9.9.9"], 1);
    assert!(text.contains("no environment ever had checkout 9.9.9"), "{text}");
    let text = run(&repository, &["describe", "checkout@dev", "--env", "staging"], 2);
    assert!(text.contains("the environment is given twice"), "{text}");
}

#[test]
fn history_shows_a_past_time_and_the_difference_of_two() {
    let repository = local(&["checkout", "ledger"]);
    run(&repository, &["promote", "checkout", "--to", "staging"], 0);
    // the files came long before, and the promotion came now
    let now = data(&repository, &["history", "--at", "0s", "--env", "staging"]);
    let before = data(&repository, &["history", "--at", "1h", "--env", "staging"]);
    let versions = |value: &serde_json::Value| -> Vec<String> {
        let services = value["services"].as_array().unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let names = services.iter();
        names
            .map(|row| format!("{} {}", text(&row["service"]), text(&row["version"])))
            .collect()
    };
    assert_eq!(versions(&now), ["checkout 2.4.1", "ledger 2.4.0"]);
    assert_eq!(versions(&before), ["checkout 2.4.0", "ledger 2.4.0"]);
    assert_ne!(now["commit"], before["commit"]);
    assert_eq!(now["services"][0]["applied"], serde_json::Value::Null);
    // no cluster is looked at, and that is said once
    let output = equate(&repository, &["history", "--at", "1h"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        errors.matches("unknown when it was applied in ").count(),
        1,
        "{errors}"
    );
    let text = run(&repository, &["history", "diff", "staging@1h", "staging"], 0);
    assert_eq!(
        rows(&text),
        ["SERVICE | STAGING@1H | STAGING", "checkout | 2.4.0 | 2.4.1"]
    );
    let between = data(&repository, &["history", "diff", "prod-eu", "prod-us"]);
    assert_eq!(between["services"].as_array().unwrap().len(), 2);
    let none = run(&repository, &["history", "diff", "dev@1h", "dev"], 0);
    assert_eq!(none, "no service differs\n");
    let text = run(&repository, &["history", "--at", "1990-01-01"], 1);
    assert!(text.contains("the history begins at "), "{text}");
    let text = run(&repository, &["history", "--at", "yesterday"], 2);
    assert!(text.contains("is not a time in the past"), "{text}");
    let text = run(&repository, &["history", "diff", "prod", "dev"], 2);
    assert!(text.contains("\"prod\" is not ENVIRONMENT"), "{text}");
}

#[test]
fn undeploy_removes_one_service_in_one_commit() {
    let repository = local(&["checkout", "ledger"]);
    let parent = "apps/staging/kustomization.yaml";
    let text = "resources:\n- checkout  # the shop\n- ledger\n";
    commit(&repository, &[(parent.to_owned(), text.to_owned())]);
    let undeploy = ["undeploy", "checkout", "--env", "staging"];
    // nobody is there to confirm it
    let refused = run(&repository, &undeploy, 2);
    assert!(refused.contains("give --yes"), "{refused}");
    let lines = "checkout 2.4.0 leaves staging\n  apps/staging/checkout/kustomization.yaml  removed\n  \
                 apps/staging/kustomization.yaml:2  resources: checkout removed\n";
    let dry = run(&repository, &[&undeploy[..], &["--dry-run"]].concat(), 0);
    assert_eq!(
        dry,
        format!("{lines}dry run: would commit to main: undeploy checkout from staging\n")
    );
    let done = run(
        &repository,
        &[&undeploy[..], &["--yes", "--reason", "moved"]].concat(),
        0,
    );
    assert_eq!(
        done,
        format!("{lines}committed  ID on main by Mia Holm <mia@example.org>\n")
    );
    assert_eq!(read(&repository, parent), "resources:\n- ledger\n");
    assert!(!repository.path().join("apps/staging/checkout").exists());
    let status = data(&repository, &["status", "checkout", "--env", "staging"]);
    assert_eq!(status["services"][0]["version"], serde_json::Value::Null);
    assert_eq!(
        history(&repository, &["checkout", "--env", "staging"])[0],
        "checkout staging 2.4.0 -> - undeploy"
    );
    // a hold stops it
    let hold = ["hold", "ledger", "--env", "staging", "--reason", "audit"];
    run(&repository, &hold, 0);
    let refused = run(
        &repository,
        &["undeploy", "ledger", "--env", "staging", "--yes"],
        3,
    );
    assert_eq!(
        refused,
        "error: ledger 2.4.0 may not leave staging\n  refused    .equate/holds/staging/ledger.yaml:1   hold: held by \
         Mia Holm: audit\n"
    );
    // another environment that is built from it
    let base = "resources:\n- ../../dev/ledger\n";
    commit(
        &repository,
        &[(
            "apps/prod-eu/ledger/kustomization.yaml".to_owned(),
            base.to_owned(),
        )],
    );
    let refused = run(&repository, &["undeploy", "ledger", "--env", "dev", "--yes"], 1);
    assert!(
        refused.contains("removing ledger from dev would also change"),
        "{refused}"
    );
    assert!(refused.contains("in prod-eu"), "{refused}");
}

#[test]
fn doctor_names_what_has_no_effect() {
    let repository = local(&["checkout"]);
    commit(&repository, &[("equate.yaml".to_owned(), CONFIG.to_owned())]);
    assert_eq!(run(&repository, &["doctor"], 0), "nothing to correct\n");
    // warnings are no failure
    let rules = format!("{CONFIG}rules:\n- {{to: prod, services: [chekout], soak: 4h}}\n");
    commit(&repository, &[("equate.yaml".to_owned(), rules)]);
    let text = run(&repository, &["doctor"], 0);
    assert_eq!(
        rows(&text)[1],
        "warning | equate.yaml:5 | the rule is for chekout, and no environment has it | did you mean checkout?"
    );
    // a hold behind a link does not count, and is named
    repository
        .link(".equate/holds/prod-us/checkout.yaml", "../../../README.md")
        .unwrap();
    run(
        &repository,
        &["promote", "checkout", "--to", "prod-us", "--dry-run"],
        0,
    );
    let found = data(&repository, &["doctor"]);
    assert_eq!(found["findings"][0]["severity"], "error");
    assert_eq!(
        found["findings"][0]["place"],
        ".equate/holds/prod-us/checkout.yaml"
    );
    assert_eq!(
        found["findings"][0]["problem"],
        "the hold does not count: it is a symbolic link"
    );
    run(&repository, &["doctor"], 1);
    commit(
        &repository,
        &[("equate.yaml".to_owned(), "version: 2\n".to_owned())],
    );
    let text = run(&repository, &["doctor"], 1);
    assert!(text.contains("equate.yaml:1"), "{text}");
}
