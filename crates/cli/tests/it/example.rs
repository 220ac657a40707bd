//! The commands of the README.

use super::session::{DEADLINE, Fleet, equate_in, printed};
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

const DEPLOYMENT: &str = "apps/base/web/deployment.yaml";

#[test]
fn once_waits_until_all_is_ready_and_cleans_up() {
    let fleet = Fleet::example();
    let output = fleet.equate(&["up", "--path", "clusters/dev", "--once"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("ready    Kustomization/apps"), "{text}");
    assert!(text.contains("ready    Deployment/web/web"), "{text}");
    assert!(!fleet.path().join(".equate").exists());
    let output = fleet.equate(&["get", "all"]);
    assert_ne!(output.status.code(), Some(0));
    let text = printed(&output);
    assert!(text.contains("no cluster selected"), "{text}");
}

/// As in CI checkouts: a commit is checked out, no branch.
#[test]
fn detached_head_is_followed() {
    let fleet = Fleet::example();
    let head = fleet.path().join(".git/HEAD");
    let branch = std::fs::read_to_string(&head).unwrap();
    let branch = branch.trim().strip_prefix("ref: ").unwrap();
    let commit = std::fs::read_to_string(fleet.path().join(".git").join(branch)).unwrap();
    std::fs::write(head, commit).unwrap();
    let output = fleet.equate(&["up", "--path", "clusters/dev", "--once"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("ready    Kustomization/apps"), "{text}");
}

#[test]
fn once_reports_why_objects_are_not_ready() {
    let fleet = Fleet::example();
    let broken = fleet
        .read(DEPLOYMENT)
        .replace("  replicas: 1\n", "  replicas: 1\n   indented: badly\n");
    fleet.commit(DEPLOYMENT, Some(&broken));
    let output = fleet.equate(&["up", "--path", "clusters/dev", "--once"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("not ready after"), "{text}");
    assert!(text.contains("apps/base/web/deployment.yaml:9:"), "{text}");
    // it ended early: waiting longer would not help
    assert!(text.contains("hint: run it without --once"), "{text}");
    assert!(!text.contains("--timeout"), "{text}");
}

#[test]
fn missing_path_is_refused_at_the_start() {
    let fleet = Fleet::example();
    let output = fleet.equate(&["up", "--path", "clusters/absent", "--once"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("--path clusters/absent does not exist in "),
        "{text}"
    );
    assert!(text.contains("did you mean clusters/dev?"), "{text}");
    assert!(!fleet.path().join(".equate").exists());
}

#[test]
fn refused_loop_leaves_no_files() {
    let place = tempfile::tempdir().unwrap();
    for arguments in [
        ["up", "."].as_slice(),
        &["up", "absent"],
        &["--context", "c", "up", "."],
    ] {
        let output = equate_in(place.path(), arguments).output().unwrap();
        assert_ne!(
            output.status.code(),
            Some(0),
            "{arguments:?}: {}",
            printed(&output)
        );
        assert_eq!(
            std::fs::read_dir(place.path()).unwrap().count(),
            0,
            "{arguments:?}"
        );
    }
}

#[test]
fn once_fails_on_a_simulated_failure() {
    let fleet = Fleet::example();
    let failing = fleet.read(DEPLOYMENT).replacen(
        "  name: web\n",
        "  name: web\n  annotations:\n    equate.dev/simulate: CrashLoopBackOff\n",
        1,
    );
    fleet.commit(DEPLOYMENT, Some(&failing));
    let output = fleet.equate(&["up", "--path", "clusters/dev", "--once", "--timeout", "25s"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("Deployment/web/web"), "{text}");
}

#[test]
fn session_of_the_readme_works() {
    let fleet = Fleet::example();
    let up = fleet.up("ready    Kustomization/apps");
    let mode = fleet
        .path()
        .join(".equate/kubeconfig")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let run = |arguments: &[&str], code: i32, words: &[&str]| {
        let output = fleet.equate(arguments);
        let text = printed(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{text}");
        for word in words {
            assert!(text.contains(word), "{arguments:?}: no {word:?} in\n{text}");
        }
    };
    run(
        &["up", "--path", "clusters/dev"],
        1,
        &["`equate up` already runs in", "run this in another directory"],
    );
    run(
        &["get", "kustomizations"],
        0,
        &["apps", "infrastructure", "flux-system", "True"],
    );
    run(
        &["tree", "kustomization", "flux-system"],
        0,
        &["Deployment/web/web", "ConfigMap/web/settings"],
    );
    // the event is written beside the status
    let shown = ["events", "--for", "Kustomization/apps"];
    let end = Instant::now() + DEADLINE;
    while !printed(&fleet.equate(&shown)).contains("ReconciliationSucceeded") && Instant::now() < end {}
    run(&shown, 0, &["ReconciliationSucceeded"]);
    run(
        &[
            "-n",
            "flux-system",
            "events",
            "--for",
            "Kustomization/apps",
            "-o",
            "json",
        ],
        0,
        &["\"reason\": \"ReconciliationSucceeded\"", "\"kind\": \"List\""],
    );
    run(&["diff"], 0, &["nothing would change"]);

    // uncommitted: diff shows it, the loop does not apply it
    let more = fleet.read(DEPLOYMENT).replace("replicas: 1", "replicas: 2");
    fleet.write(DEPLOYMENT, &more);
    run(
        &["diff"],
        1,
        &["~ Deployment/web/web", ".spec.replicas: 1 -> 2", "1 changed"],
    );
    run(
        &["diff", "ks", "apps", "-o", "yaml"],
        1,
        &[
            "kustomization: Kustomization/flux-system/apps",
            "action: change",
            "after: 2",
        ],
    );
    run(
        &["diff", "kustomization", "infrastructure"],
        0,
        &["1 Kustomization: nothing would change"],
    );
    // committed: the loop applies it
    let revision = fleet.commit(DEPLOYMENT, Some(&more));
    up.wait_for(&format!("ready    Kustomization/apps  main@{}", &revision[..7]));
    run(&["reconcile", "kustomization", "apps"], 0, &[]);
    run(&["diff"], 0, &["nothing would change"]);

    run(&["suspend", "kustomization", "apps"], 0, &[]);
    run(&["get", "kustomization", "apps"], 0, &["apps", "True"]);
    run(&["resume", "kustomization", "apps"], 0, &[]);

    assert!(up.interrupt());
    assert!(!fleet.path().join(".equate").exists());
}
