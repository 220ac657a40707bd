//! Promotions to Gitea over https and ssh, and charts of its package registry.
//!
//! `cargo xtask test-peers` names the programs; without them the tests print a line and are skipped.

use crate::promote::{clone_of, command, git, local};
use crate::promote_races::{check_history, names, race};
use crate::session::{equate_in, printed};
use equate_testkit::git::{Repository, SshKey};
use equate_testkit::servers::{self, GITEA_FILES_VARIABLE, GITEA_VARIABLE, GiteaServer};
use http::Method;
use serde_json::json;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

const SERVICES: [&str; 2] = ["checkout", "ledger"];
/// The promotions at once.
const PROMOTIONS: usize = 50;
/// The forge notes a push in its database after it answered the push.
const NOTED_WITHIN: Duration = Duration::from_secs(60);

fn forge() -> Option<GiteaServer> {
    let named = |variable: &str| {
        servers::program(variable)
            .inspect_err(|skip| println!("{}", skip.0))
            .ok()
    };
    let (program, files) = (named(GITEA_VARIABLE)?, named(GITEA_FILES_VARIABLE)?);
    Some(GiteaServer::start(&program, &files).unwrap())
}

/// A repository of the forge with a fleet on `main`.
fn publish(forge: &GiteaServer, name: &str, services: &[&str]) {
    let wanted = json!({ "name": name, "private": true, "default_branch": "main" });
    forge.api(Method::POST, "user/repos", Some(&wanted)).unwrap();
    let fleet = local(services);
    trust(forge, fleet.path());
    git(fleet.path(), &["push", "--quiet", &forge.https_url(name), "main"]).unwrap();
    let path = format!("repos/{}/{name}", forge.user().0);
    let end = Instant::now() + NOTED_WITHIN;
    while forge.api(Method::GET, &path, None).unwrap()["empty"] != json!(false) {
        assert!(Instant::now() < end, "the forge still calls {name} empty");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// Lets git and Equate in a home trust the forge, with the user's password.
fn trust(forge: &GiteaServer, home: &Path) {
    let certificate = home.join(".git/forge.pem");
    std::fs::write(&certificate, forge.certificate()).unwrap();
    let (user, password) = forge.user();
    let store = home.join(".git/forge-password");
    let line = format!("https://{user}:{password}@{}\n", forge.authority());
    std::fs::write(&store, line).unwrap();
    let config = format!(
        "[http]\n\tsslCAInfo = {}\n[credential]\n\thelper = store --file={}\n",
        certificate.display(),
        store.display()
    );
    std::fs::write(home.join(".gitconfig"), config).unwrap();
}

/// A key that the forge accepts as the user's.
fn accepted_key(forge: &GiteaServer) -> SshKey {
    let key = SshKey::ed25519(7);
    let public = json!({ "title": "laptop", "key": key.public() });
    forge.api(Method::POST, "user/keys", Some(&public)).unwrap();
    key
}

/// Gives a home the key, and the forge's own.
fn use_key(forge: &GiteaServer, home: &Path, key: &SshKey) {
    let ssh = home.join(".ssh");
    std::fs::create_dir_all(&ssh).unwrap();
    std::fs::write(ssh.join("known_hosts"), forge.known_host()).unwrap();
    std::fs::write(ssh.join("id_ed25519"), key.private()).unwrap();
}

fn promote(clone: &Repository, service: &str, to: &str) -> Output {
    let mut command = command(clone.path(), &["promote", service, "--to", to]);
    command.output().unwrap()
}

/// The message of the newest commit, as the forge has it.
fn newest(forge: &GiteaServer, repository: &str) -> String {
    let (user, _) = forge.user();
    let path = format!("repos/{user}/{repository}/commits?limit=1&sha=main");
    let commits = forge.api(Method::GET, &path, None).unwrap();
    commits[0]["commit"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn promotions_land_over_https_and_ssh() {
    let Some(forge) = forge() else { return };
    publish(&forge, "fleet", &SERVICES);

    let clone = clone_of(&forge.https_url("fleet"));
    let output = promote(&clone, "checkout", "staging");
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert!(printed(&output).contains("certificate"), "{}", printed(&output));
    trust(&forge, clone.path());
    let output = promote(&clone, "checkout", "staging");
    assert!(output.status.success(), "{}", printed(&output));
    let message = newest(&forge, "fleet");
    assert!(
        message.starts_with("promote checkout 2.4.1 to staging"),
        "{message}"
    );

    let key = accepted_key(&forge);
    let clone = clone_of(&forge.ssh_url("fleet"));
    use_key(&forge, clone.path(), &SshKey::ed25519(8));
    let output = promote(&clone, "ledger", "staging");
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    use_key(&forge, clone.path(), &key);
    let output = promote(&clone, "ledger", "staging");
    assert!(output.status.success(), "{}", printed(&output));
    let message = newest(&forge, "fleet");
    assert!(
        message.starts_with("promote ledger 2.4.1 to staging"),
        "{message}"
    );
}

/// Half of the promotions go over https and half over ssh.
#[test]
fn trap_05_fifty_promotions_land() {
    let Some(forge) = forge() else { return };
    let names = names(PROMOTIONS);
    let services: Vec<&str> = names.iter().map(String::as_str).collect();
    publish(&forge, "fleet", &services);
    let key = accepted_key(&forge);
    let over_https = || {
        let clone = clone_of(&forge.https_url("fleet"));
        trust(&forge, clone.path());
        clone
    };
    let over_ssh = || {
        let clone = clone_of(&forge.ssh_url("fleet"));
        use_key(&forge, clone.path(), &key);
        clone
    };
    let clones: Vec<Repository> = (0..PROMOTIONS)
        .map(|number| if number % 2 == 0 { over_https() } else { over_ssh() })
        .collect();
    let outsider = over_https();
    let outside = race(&services, &clones, &outsider);
    let mirror = [
        "clone",
        "--quiet",
        "--mirror",
        &forge.https_url("fleet"),
        "mirror",
    ];
    git(outsider.path(), &mirror).unwrap();
    check_history(&outsider.path().join("mirror"), &services, outside);
}

#[test]
fn a_protected_branch_refuses_with_its_words() {
    let Some(forge) = forge() else { return };
    publish(&forge, "fleet", &SERVICES);
    let (user, _) = forge.user();
    let rule = json!({ "rule_name": "main", "enable_push": false });
    let path = format!("repos/{user}/fleet/branch_protections");
    forge.api(Method::POST, &path, Some(&rule)).unwrap();
    let clone = clone_of(&forge.https_url("fleet"));
    trust(&forge, clone.path());
    let output = promote(&clone, "checkout", "staging");
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("Not allowed to push to protected branch main"),
        "{text}"
    );
    assert!(text.contains("hint: if the branch is protected"), "{text}");
    // another branch is open
    let names = ["promote", "checkout", "--to", "staging", "--branch", "changes"];
    git(clone.path(), &["fetch", "--quiet", "origin"]).unwrap();
    git(
        clone.path(),
        &["push", "--quiet", "origin", "origin/main:refs/heads/changes"],
    )
    .unwrap();
    let output = command(clone.path(), &names).output().unwrap();
    assert!(output.status.success(), "{}", printed(&output));
}

#[test]
fn charts_come_from_the_package_registry() {
    let Some(forge) = forge() else { return };
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join("demo");
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    std::fs::write(
        chart.join("Chart.yaml"),
        "apiVersion: v2\nname: demo\nversion: 1.2.3\n",
    )
    .unwrap();
    let map =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-{{ .Chart.Version }}'}\n";
    std::fs::write(chart.join("templates/map.yaml"), map).unwrap();
    let packed = std::process::Command::new("tar")
        .args(["--create", "--gzip", "--file=demo.tgz", "demo"])
        .current_dir(folder.path())
        .status()
        .unwrap();
    assert!(packed.success());
    let (user, password) = forge.user();
    let package = std::fs::read(folder.path().join("demo.tgz")).unwrap();
    let path = format!("api/packages/{user}/helm/api/charts");
    forge.upload(Method::POST, &path, package).unwrap();
    std::fs::write(folder.path().join("ca.pem"), forge.certificate()).unwrap();
    let repository = format!("https://{}/api/packages/{user}/helm", forge.authority());
    let arguments = [
        "template",
        "web",
        "demo",
        "--repo",
        &repository,
        "--ca-file=ca.pem",
        "--username",
        user,
        "--password",
        password,
        "--version",
        "^1",
    ];
    let output = equate_in(folder.path(), &arguments).output().unwrap();
    let text = printed(&output);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("name: web-1.2.3") || text.contains("name: 'web-1.2.3'"),
        "{text}"
    );
}
