//! Promotions in real repositories, with the binary as a process.

use crate::session::{Fleet, equate_in, printed};
use equate_testkit::git::Repository;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: NAME
spec:
  selector:
    matchLabels: {app: NAME}
  template:
    metadata:
      labels: {app: NAME}
    spec:
      containers:
      - name: NAME
        image: registry.example/NAME:0.0.0
";

pub(crate) const CONFIG: &str = "version: 1
environments: [dev, staging, {prod: [prod-eu, prod-us]}]
services: apps/{environment}/{service}
";

const ENVIRONMENTS: [(&str, &str); 4] = [
    ("dev", "2.4.1"),
    ("staging", "2.4.0"),
    ("prod-eu", "2.3.9"),
    ("prod-us", "2.3.7"),
];

pub(crate) fn overlay(name: &str, version: &str) -> String {
    format!(
        "# {name}, by hand\nresources:\n- ../../../base/{name}  # shared\n\nimages:\n- name: registry.example/{name}\n\
         \x20 newTag: {version}  # keep me\n"
    )
}

pub(crate) fn files(services: &[&str]) -> Vec<(String, String)> {
    let mut files = vec![("README.md".to_owned(), "fleet\n".to_owned())];
    for name in services {
        let base = format!("base/{name}");
        files.push((
            format!("{base}/kustomization.yaml"),
            "resources: [deployment.yaml]\n".to_owned(),
        ));
        files.push((
            format!("{base}/deployment.yaml"),
            DEPLOYMENT.replace("NAME", name),
        ));
        for (environment, version) in ENVIRONMENTS {
            let path = format!("apps/{environment}/{name}/kustomization.yaml");
            files.push((path, overlay(name, version)));
        }
    }
    files
}

pub(crate) fn commit(repository: &Repository, files: &[(String, String)]) -> String {
    let files: Vec<(&str, Option<&str>)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), Some(text.as_str())))
        .collect();
    repository.commit(&files).unwrap()
}

/// A repository without a remote.
pub(crate) fn local(services: &[&str]) -> Repository {
    let repository = Repository::init().unwrap();
    commit(&repository, &files(services));
    repository
}

/// A bare repository, and a clone of it that has fetched nothing yet.
pub(crate) fn remote(services: &[&str]) -> (Repository, Repository) {
    let remote = Repository::init_bare().unwrap();
    commit(&remote, &files(services));
    (clone_of(&directory(&remote)), remote)
}

/// The directory of a repository, as the address of a remote.
fn directory(remote: &Repository) -> String {
    remote.path().display().to_string()
}

/// A clone of an address that has fetched nothing yet.
pub(crate) fn clone_of(url: &str) -> Repository {
    let clone = Repository::init().unwrap();
    clone.configure("remote \"origin\"", "url", url).unwrap();
    clone
}

/// Runs git in a directory; returns its output, or its errors.
pub(crate) fn git(directory: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(directory)
        .env("HOME", directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env_remove("GIT_SSL_CAINFO")
        .env("GIT_AUTHOR_NAME", "Olga Outside")
        .env("GIT_AUTHOR_EMAIL", "olga@example.org")
        .env("GIT_COMMITTER_NAME", "Olga Outside")
        .env("GIT_COMMITTER_EMAIL", "olga@example.org")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(printed(&output)),
    }
}

pub(crate) fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = equate_in(directory, arguments);
    command
        .env("GIT_AUTHOR_NAME", "Mia Holm")
        .env("GIT_AUTHOR_EMAIL", "mia@example.org")
        .env("TZ", "UTC")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("GIT_SSL_CAINFO")
        .stdin(Stdio::null());
    command
}

pub(crate) fn equate(repository: &Repository, arguments: &[&str]) -> Output {
    command(repository.path(), arguments).output().unwrap()
}

/// Runs a command; returns its output without commit ids.
#[track_caller]
pub(crate) fn run(repository: &Repository, arguments: &[&str], code: i32) -> String {
    let output = equate(repository, arguments);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{text}");
    let lines = text.lines().map(|line| match line.strip_prefix("committed  ") {
        Some(rest) => format!("committed  ID{}\n", rest.get(7..).unwrap_or_default()),
        None => format!("{line}\n"),
    });
    lines.collect()
}

pub(crate) fn matrix(repository: &Repository, service: &str) -> Vec<String> {
    let output = equate(repository, &["matrix", service, "-o", "json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", printed(&output)));
    let cells = value["services"][0]["environments"].as_array().unwrap();
    cells
        .iter()
        .map(|cell| cell["version"].as_str().unwrap().to_owned())
        .collect()
}

pub(crate) fn history(repository: &Repository, arguments: &[&str]) -> Vec<String> {
    let arguments = [&["history", "-o", "json", "--count", "10000"], arguments].concat();
    let output = equate(repository, &arguments);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", printed(&output)));
    let changes = value["changes"].as_array().unwrap();
    changes
        .iter()
        .map(|change| {
            let side = |side: &str| change[side]["version"].as_str().unwrap_or("-").to_owned();
            let (service, environment) = (&change["service"], &change["environment"]);
            let intent = change["record"]["intent"].as_str().unwrap_or("by hand");
            let names = [service, environment].map(|name| name.as_str().unwrap().to_owned());
            format!(
                "{} {} -> {} {intent}",
                names.join(" "),
                side("before"),
                side("after")
            )
        })
        .collect()
}

pub(crate) fn read(repository: &Repository, path: &str) -> String {
    std::fs::read_to_string(repository.path().join(path)).unwrap()
}

#[test]
fn promotion_changes_one_line() {
    let repository = local(&["checkout"]);
    let found = run(&repository, &["init"], 0);
    assert_eq!(
        found,
        "4 environments under apps/, 1 service, 4 places that set a version\n\
         order from names: dev > staging > prod (prod-eu, prod-us)\n\
         wrote equate.yaml (3 lines); nothing else changed\n"
    );
    let text = read(&repository, "equate.yaml");
    assert_eq!(text, CONFIG.replace("}]\n", "}]  # left to right\n"));
    repository.commit(&[("equate.yaml", Some(&text))]).unwrap();
    let dry = run(
        &repository,
        &["promote", "checkout", "--to", "staging", "--dry-run"],
        0,
    );
    let plan = "checkout 2.4.0 -> 2.4.1 in staging, from dev\n  \
                apps/staging/checkout/kustomization.yaml:7  newTag: 2.4.0 -> 2.4.1\n";
    assert_eq!(
        dry,
        format!("{plan}dry run: would commit to main: promote checkout 2.4.1 to staging\n")
    );
    assert_eq!(
        matrix(&repository, "checkout"),
        ["2.4.1", "2.4.0", "2.3.9", "2.3.7"]
    );
    let promote = ["promote", "checkout", "--to", "staging", "--reason", "for Mia"];
    assert_eq!(
        run(&repository, &promote, 0),
        format!("{plan}committed  ID on main by Mia Holm <mia@example.org>\n")
    );
    assert_eq!(
        matrix(&repository, "checkout"),
        ["2.4.1", "2.4.1", "2.3.9", "2.3.7"]
    );
    // the work tree has the file, and nothing else of it changed
    assert_eq!(
        read(&repository, "apps/staging/checkout/kustomization.yaml"),
        overlay("checkout", "2.4.1")
    );
    assert_eq!(
        run(&repository, &promote, 0),
        "checkout 2.4.1 is in staging already\n"
    );
    assert_eq!(
        history(&repository, &["checkout", "--env", "staging"]),
        [
            "checkout staging 2.4.0 -> 2.4.1 promote",
            "checkout staging - -> 2.4.0 by hand"
        ]
    );
    // a group changes in one commit
    let group = run(&repository, &["promote", "checkout", "--to", "prod"], 0);
    assert_eq!(group.matches("committed").count(), 1, "{group}");
    assert_eq!(matrix(&repository, "checkout"), ["2.4.1"; 4]);
    // an image of its own
    let image = "registry.example/checkout=2.5.0";
    run(
        &repository,
        &["release", "checkout", "--to", "dev", "--image", image],
        0,
    );
    assert_eq!(matrix(&repository, "checkout")[0], "2.5.0");
}

#[test]
fn dirty_files_are_refused_and_others_stay() {
    let repository = local(&["checkout"]);
    let path = repository.path().join("apps/staging/checkout/kustomization.yaml");
    std::fs::write(&path, "# mine\n").unwrap();
    let text = run(&repository, &["promote", "checkout", "--to", "staging"], 1);
    assert!(
        text.starts_with("error: uncommitted changes in apps/staging/checkout/kustomization.yaml\n"),
        "{text}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "# mine\n");
    assert_eq!(matrix(&repository, "checkout")[1], "2.4.0");
    // other uncommitted files are no obstacle
    std::fs::write(&path, overlay("checkout", "2.4.0")).unwrap();
    std::fs::write(repository.path().join("README.md"), "mine\n").unwrap();
    run(&repository, &["promote", "checkout", "--to", "staging"], 0);
    assert_eq!(read(&repository, "README.md"), "mine\n");
}

#[test]
fn holds_and_rollbacks() {
    let repository = local(&["checkout"]);
    run(&repository, &["promote", "checkout", "--to", "staging"], 0);
    let back = [
        "rollback",
        "checkout",
        "--env",
        "staging",
        "--reason",
        "cart answers 500",
    ];
    assert_eq!(
        run(&repository, &back, 0),
        "checkout 2.4.1 -> 2.4.0 in staging\n  apps/staging/checkout/kustomization.yaml:7  newTag: 2.4.1 -> 2.4.0\n\
         held: automation waits for a version newer than 2.4.1, or `equate unhold checkout --env staging`\n\
         committed  ID on main by Mia Holm <mia@example.org>\n"
    );
    let shown = run(&repository, &["matrix", "checkout"], 0);
    assert!(
        shown.contains(
            "staging held by Mia Holm: cart answers 500, automation waits for a version newer than 2.4.1"
        ),
        "{shown}"
    );
    // the version and the hold came in one commit
    assert_eq!(
        history(&repository, &["--env", "staging"])[..2],
        [
            "checkout staging 2.4.1 -> 2.4.0 rollback",
            "checkout staging 2.4.0 -> 2.4.1 promote"
        ]
    );
    // a person may promote again; a hold of a person stops everybody
    run(&repository, &["promote", "checkout", "--to", "staging"], 0);
    let until = "2999-01-01";
    let hold = [
        "hold", "checkout", "--env", "prod-eu", "--reason", "US first", "--until", until,
    ];
    run(&repository, &hold, 0);
    assert_eq!(
        run(&repository, &["promote", "checkout", "--to", "prod"], 3),
        "error: checkout 2.4.1 may not go to prod-eu yet\n  refused    .equate/holds/prod-eu/checkout.yaml:1   \
         hold: held by Mia Holm: US first, until 1 Jan 00:00\n"
    );
    assert_eq!(matrix(&repository, "checkout")[2..], ["2.3.9", "2.3.7"]);
    run(&repository, &["promote", "checkout", "--to", "prod-us"], 0);
    run(&repository, &["unhold", "checkout", "--env", "prod-eu"], 0);
    run(&repository, &["promote", "checkout", "--to", "prod-eu"], 0);
    assert_eq!(matrix(&repository, "checkout"), ["2.4.1"; 4]);
}

#[test]
fn trap_04_the_last_commit_of_two_releases_decides() {
    let (clone, remote) = remote(&["checkout"]);
    let other = clone_of(&directory(&remote));
    let release = |clone: &Repository, version: &str| {
        let image = format!("registry.example/checkout={version}");
        let arguments = ["release", "checkout", "--to", "dev", "--image", &image];
        let mut command = command(clone.path(), &arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let (mut one, mut two) = (release(&clone, "3.0.0"), release(&other, "3.1.0"));
    assert!(one.wait().unwrap().success());
    assert!(two.wait().unwrap().success());
    let changes = history(&clone, &["--env", "dev"]);
    assert_eq!(changes.len(), 3, "{changes:?}");
    // each was made for the version that the other left
    let now = matrix(&clone, "checkout")[0].clone();
    let before = if now == "3.0.0" { "3.1.0" } else { "3.0.0" };
    assert_eq!(
        changes[..2],
        [
            format!("checkout dev {before} -> {now} release"),
            format!("checkout dev 2.4.1 -> {before} release"),
        ]
    );
}

#[test]
fn trap_06_no_home_identity_or_terminal_is_needed() {
    let (clone, _remote) = remote(&["checkout"]);
    let bare = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_equate"));
        command.args(arguments).current_dir(clone.path()).env_clear();
        // without HOME the system would name one
        command.env("HOME", "/nonexistent");
        command.stdin(Stdio::null()).output().unwrap()
    };
    let output = bare(&["promote", "checkout", "--to", "staging"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(printed(&output).contains("--author"), "{}", printed(&output));
    let author = "Łukasz Żółć <l@example.org>";
    let output = bare(&["promote", "checkout", "--to", "staging", "--author", author]);
    assert!(output.status.success(), "{}", printed(&output));
    assert!(printed(&output).contains("by Łukasz Żółć <l@example.org>"));
}

#[test]
fn trap_09_rule_that_came_after_the_plan_counts() {
    let (clone, remote) = remote(&["checkout"]);
    commit(&remote, &[("equate.yaml".to_owned(), CONFIG.to_owned())]);
    let plan = clone.path().join("plan.json");
    let plan = plan.to_str().unwrap();
    run(
        &clone,
        &["promote", "checkout", "--to", "staging", "--plan", plan],
        0,
    );
    let frozen =
        format!("{CONFIG}rules:\n- to: staging\n  freeze: [{{from: 2020-01-01, until: 2999-01-01}}]\n");
    commit(&remote, &[("equate.yaml".to_owned(), frozen)]);
    let text = run(&clone, &["promote", "--apply", plan], 3);
    assert!(
        text.contains("refused    equate.yaml:6   freeze: staging is frozen, until 2 Jan 00:00"),
        "{text}"
    );
    assert_eq!(matrix(&clone, "checkout")[1], "2.4.0");
    // a plan that would do something else is stale
    commit(&remote, &[("equate.yaml".to_owned(), CONFIG.to_owned())]);
    let path = "apps/dev/checkout/kustomization.yaml".to_owned();
    commit(&remote, &[(path, overlay("checkout", "2.4.2"))]);
    run(&clone, &["promote", "--apply", plan], 6);
    assert_eq!(matrix(&clone, "checkout")[1], "2.4.0");
}

#[test]
fn trap_16_names_do_not_leave_their_directory() {
    let repository = local(&["checkout"]);
    for service in ["../../x", "a/b", "..", ".git", "-x", "checkout\n"] {
        let output = equate(&repository, &["promote", "--to", "staging", "--", service]);
        assert_eq!(output.status.code(), Some(2), "{service}: {}", printed(&output));
    }
    for environment in ["../prod", "/", "..", "prod-eu/../dev"] {
        let output = equate(
            &repository,
            &["hold", "checkout", "--reason", "x", "--env", environment],
        );
        assert_eq!(
            output.status.code(),
            Some(2),
            "{environment}: {}",
            printed(&output)
        );
    }
}

#[test]
fn trap_20_killed_promotion_is_one_commit_or_none() {
    let (clone, remote) = remote(&["checkout"]);
    let locks = [
        remote.path().join("refs/heads/main.lock"),
        clone.path().join(".git/refs/remotes/origin/main.lock"),
    ];
    for (round, milliseconds) in [0_u64, 5, 15, 30, 60, 120, 250].into_iter().enumerate() {
        let version = format!("4.{round}.0");
        let image = format!("registry.example/checkout={version}");
        let arguments = ["release", "checkout", "--to", "dev", "--image", &image];
        let mut child = command(clone.path(), &arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::park_timeout(std::time::Duration::from_millis(milliseconds));
        child.kill().unwrap();
        child.wait().unwrap();
        // one that is killed while it moves a ref leaves a lock, as git does: it has to be removed by hand
        for lock in locks.iter().filter(|lock| lock.exists()) {
            std::fs::remove_file(lock).unwrap();
        }
        // the next call says whether it is there, and completes it
        let text = run(&clone, &arguments, 0);
        let is_there = text == format!("checkout {version} is in dev already\n");
        assert!(is_there || text.contains("committed"), "{text}");
        let changes = history(&clone, &["--env", "dev"]);
        let landed = changes
            .iter()
            .filter(|change| change.contains(&format!("-> {version} ")));
        assert_eq!(landed.count(), 1, "{changes:?}");
    }
}

#[test]
fn push_goes_over_http() {
    let remote = Repository::init_bare().unwrap();
    commit(&remote, &files(&["checkout"]));
    if let Some(server) = remote.serve_http().unwrap() {
        check_push(&remote, &server.url(), |_| {});
    }
}

#[test]
fn push_goes_over_ssh() {
    let remote = Repository::init_bare().unwrap();
    commit(&remote, &files(&["checkout"]));
    let Some(server) = remote.serve_ssh().unwrap() else {
        return;
    };
    check_push(&remote, &server.url(), |home| {
        let ssh = home.join(".ssh");
        std::fs::create_dir(&ssh).unwrap();
        std::fs::write(ssh.join("id_ed25519"), server.identity()).unwrap();
        std::fs::write(ssh.join("known_hosts"), server.known_hosts()).unwrap();
    });
}

#[test]
fn refusal_of_a_host_is_shown() {
    let remote = Repository::init_bare().unwrap();
    commit(&remote, &files(&["checkout"]));
    let Some(server) = remote.serve_http().unwrap() else {
        return;
    };
    let hook = remote.path().join("hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(
        &hook,
        "#!/bin/sh\necho 'main is protected: open a pull request' >&2\nexit 1\n",
    )
    .unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&hook, executable).unwrap();
    let clone = clone_of(&server.url());
    let text = run(&clone, &["promote", "checkout", "--to", "staging"], 1);
    assert!(text.contains("main is protected: open a pull request"), "{text}");
    assert!(text.contains("pre-receive hook declined"), "{text}");
    assert_eq!(matrix(&clone, "checkout")[1], "2.4.0");
}

#[test]
fn refusals_of_a_directory_say_the_cause() {
    let promote = ["promote", "checkout", "--to", "staging"];
    let checked_out = local(&["checkout"]);
    let text = run(&clone_of(&directory(&checked_out)), &promote, 1);
    assert!(
        text.contains("refused the push to main: the branch is checked out there"),
        "{text}"
    );
    assert!(text.contains("push to a bare repository"), "{text}");

    let (clone, remote) = remote(&["checkout"]);
    let lock = remote.path().join("refs/heads/main.lock");
    std::fs::write(&lock, "").unwrap();
    let text = run(&clone, &promote, 1);
    assert!(text.contains("refs/heads/main.lock exists"), "{text}");
    assert!(text.contains("remove it and try again"), "{text}");
    assert!(!text.contains("protected"), "{text}");
    std::fs::remove_file(&lock).unwrap();
    run(&clone, &promote, 0);

    let lock = checked_out.path().join(".git/refs/heads/main.lock");
    std::fs::write(&lock, "").unwrap();
    let text = run(&checked_out, &[&promote[..], &["--local"]].concat(), 1);
    assert!(text.contains(".git/refs/heads/main.lock exists"), "{text}");
    // the files are as before
    assert_eq!(git(checked_out.path(), &["status", "--porcelain"]).unwrap(), "");
    std::fs::remove_file(&lock).unwrap();
    run(&checked_out, &[&promote[..], &["--local"]].concat(), 0);
}

fn check_push(remote: &Repository, url: &str, prepare: impl FnOnce(&Path)) {
    let clone = clone_of(url);
    prepare(clone.path());
    run(&clone, &["promote", "checkout", "--to", "staging"], 0);
    assert_eq!(matrix(&clone, "checkout")[1], "2.4.1");
    // git agrees that everything is there
    let check = |arguments: &[&str]| git(remote.path(), arguments).unwrap();
    check(&["fsck", "--strict"]);
    assert_eq!(
        check(&["log", "-1", "--format=%an %cn %s", "main"]),
        "Mia Holm Equate promote checkout 2.4.1 to staging\n"
    );
    let note = check(&["notes", "--ref=equate", "show", "main"]);
    assert!(note.contains("\"intent\": \"promote\""), "{note}");
    assert_eq!(check(&["diff", "--numstat", "main~1", "main"]).lines().count(), 1);
}

#[test]
fn wait_ends_when_the_version_is_healthy_or_crashes() {
    let fleet = Fleet::example();
    let crash = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  annotations: {equate.dev/simulate: \
                 CrashLoopBackOff}\n";
    let equate = |arguments: &[&str]| command(fleet.path(), arguments).output().unwrap();
    let image = fleet.read("apps/base/web/deployment.yaml");
    let image = image
        .lines()
        .find_map(|line| line.trim().strip_prefix("image: "))
        .unwrap()
        .to_owned();
    let name = image.rsplit_once(':').unwrap().0.to_owned();
    let release = |version: &str| {
        let image = format!("{name}={version}");
        let arguments = [
            "release",
            "web",
            "--to",
            "dev",
            "--image",
            &image,
            "--wait",
            "--timeout",
            "60s",
        ];
        equate(&arguments)
    };
    // nothing to look at
    let output = release("9.9.1");
    assert_eq!(output.status.code(), Some(5), "{}", printed(&output));
    let up = fleet.up("web");
    let output = release("9.9.2");
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
    assert!(
        printed(&output).contains("healthy    Deployment web/web 1/1"),
        "{}",
        printed(&output)
    );
    // the status of the Kustomization remembers when that was
    let output = equate(&["history", "web", "--at", "0s", "--env", "dev", "-o", "json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = &value["services"][0];
    assert_eq!(row["version"], "9.9.2", "{}", printed(&output));
    let (committed, applied) = (row["committed"].as_str(), row["applied"].as_str());
    assert!(applied.is_some() && committed <= applied, "{}", printed(&output));
    let mut overlay = fleet.read("apps/dev/kustomization.yaml");
    overlay.push_str("patches:\n- path: crash.yaml\n");
    fleet.write("apps/dev/kustomization.yaml", &overlay);
    fleet.commit("apps/dev/crash.yaml", Some(crash));
    fleet.commit("apps/dev/kustomization.yaml", Some(&overlay));
    let output = release("9.9.3");
    assert_eq!(output.status.code(), Some(4), "{}", printed(&output));
    assert!(
        printed(&output).contains("CrashLoopBackOff"),
        "{}",
        printed(&output)
    );
    assert!(up.interrupt());
}
