use super::applied::written;
use super::{Args, TerminalSize, explain_named};
use crate::document::document;
use crate::failure::Failure;
use crate::fixture::{ALERT, FLEET, Fixture};
use clap::Parser;
use equate_api::helm::HelmRelease;
use equate_manifest::object::Object;
use equate_source::{Ignore, Limits, Tree};
use equate_testkit::git::Repository;
use equate_testkit::web::WebServer;
use jiff::Timestamp;
use kube::api::Api;
use kube::{Client, ResourceExt};
use serde_json::json;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

async fn explain_in(fixture: &Fixture, line: &str, directory: &std::path::Path) -> (Option<bool>, String) {
    let words = std::iter::once("explain").chain(line.split_whitespace());
    let args = Line::try_parse_from(words).unwrap().args;
    let size = TerminalSize {
        width: 80,
        colour: false,
    };
    let client = &fixture.connection.client;
    match explain_named(client, &fixture.kinds, &args, directory).await {
        Ok(explanation) => {
            let text = match args.output {
                None => explanation.text(Timestamp::now(), size),
                Some(form) => document(&explanation.data(), form),
            };
            (Some(explanation.is_healthy()), text)
        }
        Err(error) => (None, format!("error: {error}\n")),
    }
}

async fn explain_as(client: &Client, fixture: &Fixture, line: &str) -> String {
    let words = std::iter::once("explain").chain(line.split_whitespace());
    let args = Line::try_parse_from(words).unwrap().args;
    let directory = std::path::Path::new("/");
    let explained = explain_named(client, &fixture.kinds, &args, directory).await;
    let size = TerminalSize {
        width: 80,
        colour: false,
    };
    explained.unwrap().text(Timestamp::now(), size)
}

async fn explain_line(fixture: &Fixture, line: &str) -> (Option<bool>, String) {
    explain_in(fixture, line, std::path::Path::new("/")).await
}

/// A Kustomization of FLEET's source; `spec` and `status` are the content of YAML flow mappings.
fn kustomization(name: &str, spec: &str, status: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n\
         metadata: {{name: {name}, namespace: flux-system}}\n\
         spec: {{interval: 10m, prune: true, sourceRef: {{kind: GitRepository, name: fleet}}{spec}}}\n\
         status: {{{status}}}\n"
    )
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> String {
    format!(
        "{{type: {kind}, status: \"{status}\", reason: {reason}, message: \"{message}\", \
         lastTransitionTime: \"2026-01-01T00:00:00Z\", observedGeneration: 1}}"
    )
}

fn failed(reason: &str, message: &str) -> String {
    format!(
        "observedGeneration: -1, conditions: [{}]",
        condition("Ready", "False", reason, message)
    )
}

const HASH: &str = "main@sha1:0123456789012345678901234567890123456789";

/// The state and message of a step, without its age.
fn step<'t>(text: &'t str, name: &str) -> (&'t str, String) {
    let mut lines = text
        .lines()
        .skip_while(|line| line.split_whitespace().next() != Some(name));
    let first = lines.next().unwrap_or_else(|| panic!("{name} in {text}"));
    let mut words: Vec<&str> = first[33..].split_whitespace().collect();
    for line in lines.take_while(|line| line.starts_with("      ")) {
        words.extend(line.split_whitespace());
    }
    (first[14..25].trim(), words.join(" "))
}

#[tokio::test]
async fn every_reason_has_its_step() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    let check = async |text: &str, at: &str, state: &str, words: &str, next: &str| {
        fixture.apply(text).await;
        let (ready, text) = explain_line(&fixture, "ks one").await;
        assert_eq!(ready, Some(false), "{text}");
        let (is, what) = step(&text, at);
        assert_eq!((is, what.as_str()), (state, words), "{text}");
        let next_line = text
            .split_once("\nnext: ")
            .map(|(_, next)| next.split("\n\n").next().unwrap_or_default())
            .unwrap_or_default();
        let next_line: Vec<&str> = next_line.split_whitespace().collect();
        assert_eq!(next_line.join(" "), next, "{text}");
        let wide = text.lines().filter(|line| !line.starts_with("  kubectl"));
        assert_eq!(wide.filter(|line| line.chars().count() > 80).count(), 0, "{text}");
    };
    let fails = async |reason: &str, message: &str, at: &str, state: &str, next: &str| {
        check(
            &kustomization("one", "", &failed(reason, message)),
            at,
            state,
            message,
            next,
        )
        .await;
    };
    let again = "retried within 10m0s, or at any change";
    let revision = "retried with the next revision or a change of its spec";
    fails(
        "BuildFailed",
        "kustomize build failed: no",
        "build",
        "failed",
        revision,
    )
    .await;
    let absent = "kustomization path not found: ./x is not in the artifact";
    fails("ArtifactFailed", absent, "build", "failed", revision).await;
    let source = "continues when GitRepository/flux-system/fleet has the artifact it needs";
    fails(
        "ArtifactFailed",
        "Source artifact not found",
        "source",
        "waiting",
        source,
    )
    .await;
    fails("ReconciliationFailed", "refused", "apply", "failed", again).await;
    fails("PruneFailed", "refused", "prune", "failed", again).await;
    fails("HealthCheckFailed", "timeout", "health", "failed", again).await;
    let denied = kustomization(
        "one",
        "",
        &format!(
            "observedGeneration: 1, conditions: [{}, {}]",
            condition("Ready", "False", "AccessDenied", "blocked"),
            condition("Stalled", "True", "AccessDenied", "blocked")
        ),
    );
    let nothing = "not retried until its spec, annotations or source revision change";
    check(&denied, "policy", "failed", "blocked", nothing).await;
    let running = format!(
        "observedGeneration: -1, conditions: [{}, {}]",
        condition("Ready", "Unknown", "Progressing", "Reconciliation in progress"),
        condition(
            "Reconciling",
            "True",
            "Progressing",
            "Running health checks for a"
        )
    );
    let running = kustomization(
        "one",
        ", wait: true, healthCheckExprs: [{apiVersion: v1, kind: ConfigMap, current: \"data.ok == 'yes'\"}]",
        &running,
    );
    check(
        &running,
        "health",
        "waiting",
        "Running health checks for a └ spec.healthCheckExprs[0] waiting v1 ConfigMap is healthy when: data.ok == 'yes'",
        "fails after 9m30s, then retried every 10m0s",
    )
    .await;
    check(
        &kustomization("one", ", suspend: true", &failed("BuildFailed", "no")),
        "build",
        "suspended",
        "not reconciled until it is resumed; last status: no",
        "resume it with `equate -n flux-system resume kustomization one`",
    )
    .await;
}

#[tokio::test]
async fn exceeded_prune_budget_shows_the_confirmation_command_once() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    let command = format!("kubectl -n flux-system annotate kustomization/many confirm={HASH}");
    let message = format!(
        "revision {HASH} is not applied: 12 of 13 objects would be deleted. If this is meant, confirm with: {command}"
    );
    let status = format!(
        "observedGeneration: 1, lastAppliedRevision: \"{}\", conditions: [{}, {}]",
        HASH.replace("main", "old"),
        condition("Ready", "False", "PruneBudgetExceeded", &message),
        condition("Stalled", "True", "PruneBudgetExceeded", &message),
    );
    fixture.apply(&kustomization("many", "", &status)).await;
    let (ready, text) = explain_line(&fixture, "kustomization many").await;
    assert_eq!(ready, Some(false));
    assert_eq!(text.matches(&format!("\n  {command}\n")).count(), 1, "{text}");
    assert_eq!(text.matches("kubectl").count(), 1, "{text}");
    let check = |name: &str, state: &str, what: &str| {
        assert_eq!(step(&text, name), (state, what.to_owned()), "{text}");
    };
    let refused = "revision main@sha1:01234567 is not applied: 12 of 13 objects would be deleted.";
    check("prune", "failed", refused);
    check("apply", "-", "0 objects at old@sha1:01234567 stay applied");
}

#[tokio::test]
async fn dependencies_are_followed_to_the_blocking_one() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    let waits = |on: &str| {
        failed(
            "DependencyNotReady",
            &format!("dependency 'flux-system/{on}' is not ready"),
        )
    };
    let ready = format!(
        "observedGeneration: 1, lastAttemptedRevision: \"{HASH}\", conditions: [{}], \
         history: [{{digest: \"sha256:0011223344556677\", firstReconciled: \"2026-01-01T00:00:00Z\", \
         lastReconciled: \"2026-01-01T00:00:00Z\", lastReconciledDuration: 60.458866ms, \
         lastReconciledStatus: ReconciliationSucceeded, totalReconciliations: 1, metadata: {{revision: \"{HASH}\"}}}}]",
        condition("Ready", "True", "ReconciliationSucceeded", "Applied")
    );
    for (name, spec, status) in [
        ("base", "", failed("HealthCheckFailed", "timeout")),
        ("middle", ", dependsOn: [{name: base}]", waits("base")),
        (
            "top",
            ", dependsOn: [{name: middle}, {name: good}, {name: base}]",
            waits("middle"),
        ),
        ("good", "", ready),
        ("lost", ", dependsOn: [{name: nowhere}]", waits("nowhere")),
    ] {
        fixture.apply(&kustomization(name, spec, &status)).await;
    }
    let (is_ready, text) = explain_line(&fixture, "ks/top").await;
    assert_eq!(is_ready, Some(false));
    // ages change
    let without_ages = |line: &str| {
        line.trim()
            .trim_end_matches(|c: char| c.is_ascii_digit() || c == 'd')
            .trim()
            .to_owned()
    };
    let tree: Vec<String> = text
        .lines()
        .filter(|line| line.contains('└') || line.contains('├') || line.contains('│'))
        .map(without_ages)
        .collect();
    let expected = [
        "├ Kustomization/flux-system/middle waiting",
        "│   dependency 'flux-system/base' is not ready",
        "│ └ Kustomization/flux-system/base failed",
        "│     timeout",
        "├ Kustomization/flux-system/good done",
        "└ Kustomization/flux-system/base waiting",
    ];
    assert_eq!(tree, expected, "{text}");
    assert!(
        text.contains("next: continues when Kustomization/flux-system/base is ready\n"),
        "{text}"
    );
    let (_, lost) = explain_line(&fixture, "ks/lost").await;
    assert!(
        lost.contains("Kustomization/flux-system/nowhere failed"),
        "{lost}"
    );

    let (is_ready, good) = explain_line(&fixture, "ks/good").await;
    assert_eq!(is_ready, Some(true));
    assert_eq!(step(&good, "build"), ("done", "sha256:001122334455".to_owned()));
    let applied = "0 objects at main@sha1:01234567, the last run took 60ms";
    assert_eq!(step(&good, "apply"), ("done", applied.to_owned()));

    let (is_ready, data) = explain_line(&fixture, "ks/top -o json").await;
    assert_eq!(is_ready, Some(false));
    let data: serde_json::Value = serde_json::from_str(&data).unwrap();
    assert_eq!(
        data["steps"][2]["dependsOn"][0]["dependsOn"][0]["state"],
        "failed"
    );
    assert_eq!(data["steps"][3]["state"], "ahead");
    assert_eq!(data["ready"], false);
}

#[tokio::test]
async fn a_recent_event_says_that_the_object_is_throttled() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    let event = |name: &str, at: Timestamp| {
        format!(
            "apiVersion: v1\nkind: Event\nmetadata: {{name: {name}, namespace: flux-system}}\n\
             involvedObject: {{kind: Kustomization, name: apps, namespace: flux-system}}\n\
             reason: Throttled\nmessage: namespace {name} has used its share; other tenants go first\n\
             type: Normal\nlastTimestamp: \"{}\"\n",
            at.strftime("%Y-%m-%dT%H:%M:%SZ")
        )
    };
    let hours = std::time::Duration::from_secs(7200);
    fixture.apply(&event("old", Timestamp::now() - hours)).await;
    let (_, text) = explain_line(&fixture, "ks/apps").await;
    assert!(!text.contains("\nthrottled: "), "{text}");
    fixture.apply(&event("team-a", Timestamp::now())).await;
    let (_, text) = explain_line(&fixture, "ks/apps").await;
    let line = "\nthrottled: namespace team-a has used its share; other tenants go first\n";
    assert!(text.contains(line), "{text}");
    let (_, data) = explain_line(&fixture, "ks/apps -o json").await;
    let data: serde_json::Value = serde_json::from_str(&data).unwrap();
    assert_eq!(
        data["throttled"],
        "namespace team-a has used its share; other tenants go first"
    );
}

#[tokio::test]
async fn unexplainable_objects_name_the_cause() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    let check = async |line: &str, expected: &str| {
        assert_eq!(
            explain_line(&fixture, line).await,
            (None, format!("error: {expected}\n")),
            "{line}"
        );
    };
    check(
        "ks/nobody",
        "Kustomization nobody not found in namespace flux-system",
    )
    .await;
    check(
        "ks/apps -n default",
        "Kustomization apps not found in namespace default; it exists in flux-system",
    )
    .await;
    check("ks", "missing the name of the Kustomization").await;
    check("pod", "missing the name of the Pod").await;
    check("pods/a/log", "Pod log not found in namespace a").await;
    check(
        "deploymnt/web",
        "the cluster serves no kind \"deploymnt\"; did you mean deployment?",
    )
    .await;
    check(
        "ks/apps -A",
        "one object is explained: use --namespace instead of --all-namespaces",
    )
    .await;
}

#[tokio::test]
async fn hints_name_the_object_that_exists() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    let check = async |line: &str, expected: &str| {
        let words = std::iter::once("explain").chain(line.split_whitespace());
        let args = Line::try_parse_from(words).unwrap().args;
        let client = &fixture.connection.client;
        let explained = explain_named(client, &fixture.kinds, &args, std::path::Path::new("/")).await;
        let hint = explained.unwrap_err().hint_with_names();
        assert_eq!(hint.as_deref(), Some(expected), "{line}");
    };
    check(
        "ks/apps -n default",
        "run `equate explain kustomization apps -n flux-system`",
    )
    .await;
    check("ks/aps", "run `equate explain kustomization apps -n flux-system`").await;
    check("ns/flux-sytem", "run `equate explain namespace flux-system`").await;
}

#[tokio::test]
async fn other_objects_are_explained_by_every_name() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    fixture
        .apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: flux-system}, data: {a: b}}")
        .await;
    for name in [
        "cm settings",
        "configmaps/settings",
        "ConfigMap settings",
        "configmap/settings",
    ] {
        let (healthy, text) = explain_line(&fixture, &format!("{name} -n flux-system")).await;
        assert_eq!(healthy, Some(true), "{text}");
        assert!(
            text.starts_with("ConfigMap/flux-system/settings is healthy: Resource is always ready\n"),
            "{text}"
        );
        assert!(
            text.contains("\napplied by: no Kustomization or HelmRelease; written by test\n"),
            "{text}"
        );
    }
    for (name, expected) in [
        ("gitrepo/fleet", true),
        // as `-o name` prints them, here and in kubectl
        ("gitrepository.source.toolkit.fluxcd.io/fleet", true),
        ("kustomization.kustomize.toolkit.fluxcd.io/apps", false),
        ("helmrelease.helm.toolkit.fluxcd.io/redis", false),
        (
            "customresourcedefinition.apiextensions.k8s.io/receivers.notification.toolkit.fluxcd.io",
            true,
        ),
    ] {
        let (healthy, text) = explain_line(&fixture, name).await;
        assert_eq!(healthy, Some(expected), "{text}");
    }
    let (healthy, text) = explain_line(&fixture, "ns/flux-system -o json").await;
    assert_eq!(healthy, Some(true), "{text}");
    let data: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(data["object"], "Namespace/flux-system");
    let (healthy, text) = explain_line(&fixture, "hr/redis").await;
    assert_eq!(healthy, Some(false), "{text}");
}

#[tokio::test]
async fn unsupported_objects_are_never_healthy_in_up() {
    let mut fixture = Fixture::start().await;
    fixture.apply(ALERT).await;
    let (healthy, text) = explain_line(&fixture, "alert al").await;
    assert_eq!(healthy, Some(true), "{text}");
    fixture.kinds = fixture.kinds.in_up(true);
    let (healthy, text) = explain_line(&fixture, "alert al").await;
    assert_eq!(healthy, Some(false), "{text}");
    let first = "Alert/flux-system/al is not healthy: unsupported: Equate has no controller for\n  it yet\n";
    assert!(text.starts_with(first), "{text}");
}

#[tokio::test]
async fn objects_are_named_as_in_output() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    fixture
        .apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: flux-system}, data: {a: b}}")
        .await;
    let check = async |line: &str, expected: &str| {
        let (_, text) = explain_line(&fixture, line).await;
        assert!(text.starts_with(expected), "{line}: {text}");
    };
    let settings = "ConfigMap/flux-system/settings is healthy";
    check("ConfigMap/flux-system/settings", settings).await;
    check("ConfigMap/flux-system/settings -n flux-system", settings).await;
    check(
        "GitRepository/flux-system/fleet",
        "GitRepository/flux-system/fleet is healthy",
    )
    .await;
    let other = "error: settings is in namespace flux-system, and --namespace says shop\n";
    check("ConfigMap/flux-system/settings -n shop", other).await;
    check(
        "Kustomization/flux-system/apps -n shop",
        "error: apps is in namespace flux-system",
    )
    .await;
    check("Namespace/flux-system/x", "error: unexpected argument").await;
    check("cm/a/b/c", "error: unexpected argument").await;
}

#[tokio::test]
async fn first_objects_of_up_are_made_by_it() {
    let mut fixture = Fixture::start().await;
    fixture
        .apply(&FLEET.replace("name: fleet,", "name: flux-system,"))
        .await;
    fixture.kinds = fixture.kinds.in_up(true);
    let (_, text) = explain_line(&fixture, "gitrepo/flux-system").await;
    assert!(text.contains("\napplied by: `equate up`\n"), "{text}");
}

const SETTINGS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: first\n---\napiVersion: v1\nkind: ConfigMap\n\
                        metadata:\n  name: settings\ndata:\n  replicas: \"2\"\n";

fn repository_of(url: &str) -> Repository {
    let repository = Repository::init().unwrap();
    repository
        .commit(&[("apps/settings.yaml", Some(SETTINGS))])
        .unwrap();
    repository.configure("remote \"origin\"", "url", url).unwrap();
    std::fs::create_dir_all(repository.path().join("apps")).unwrap();
    std::fs::write(repository.path().join("apps/settings.yaml"), SETTINGS).unwrap();
    repository
}

/// A Kustomization that applies SETTINGS, and its object with a change by hand.
async fn shop(fixture: &Fixture) {
    fixture.apply(FLEET).await;
    let inventory = "inventory: {entries: [{id: flux-system_settings__ConfigMap, v: v1}]}, lastAppliedRevision: \"main@sha1:0123456789012345678901234567890123456789\"";
    fixture
        .apply(&kustomization(
            "shop",
            ", path: ./apps, targetNamespace: flux-system",
            inventory,
        ))
        .await;
    fixture
        .apply(
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: flux-system, labels: {\
             kustomize.toolkit.fluxcd.io/name: shop, kustomize.toolkit.fluxcd.io/namespace: flux-system}}, \
             data: {replicas: \"7\"}}",
        )
        .await;
}

#[tokio::test]
async fn file_and_line_come_from_the_working_tree() {
    let fixture = Fixture::start().await;
    shop(&fixture).await;
    let place = tempfile::tempdir().unwrap();
    let (_, text) = explain_in(&fixture, "cm/settings -n flux-system", place.path()).await;
    assert!(text.contains("\nfile: unknown: "), "{text}");
    let repository = repository_of("https://example.com/fleet.git");
    let (_, text) = explain_in(&fixture, "cm/settings -n flux-system", repository.path()).await;
    assert!(
        text.contains("\napplied by: Kustomization/flux-system/shop at main@sha1:01234567\n"),
        "{text}"
    );
    assert!(
        text.contains("\nfile: apps/settings.yaml:6 in the working tree\n"),
        "{text}"
    );
    assert!(
        text.contains(".data.replicas = \"7\" by test") && text.contains("git has \"2\""),
        "{text}"
    );
}

#[tokio::test]
async fn file_and_line_come_from_a_reachable_artifact() {
    let fixture = Fixture::start().await;
    shop(&fixture).await;
    // not the source's working tree: the line of its file is another one
    let other = repository_of("https://example.com/other.git");
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("apps")).unwrap();
    std::fs::write(
        place.path().join("apps/settings.yaml"),
        format!("# reviewed\n{SETTINGS}"),
    )
    .unwrap();
    let limits = Limits::default();
    let tree = Tree::from_directory(place.path(), &Ignore::new(None), &limits).unwrap();
    let mut archive = Vec::new();
    let digest = tree.write_archive(&mut archive, &limits).unwrap().digest;
    let server = WebServer::open().unwrap();
    server.put("/fleet.tar.gz", archive);
    let explained = async |artifact: &str, digest: &str| {
        let source = format!(
            "{{apiVersion: source.toolkit.fluxcd.io/v1, kind: GitRepository, \
             metadata: {{name: fleet, namespace: flux-system}}, \
             spec: {{url: 'https://example.com/fleet', interval: 1m}}, \
             status: {{artifact: {{revision: '{HASH}', path: a, lastUpdateTime: '2026-01-01T00:00:00Z', \
             digest: '{digest}', url: '{}/{artifact}'}}}}}}",
            server.url()
        );
        fixture.apply(&source).await;
        let (_, text) = explain_in(&fixture, "cm/settings -n flux-system -o json", other.path()).await;
        let data: serde_json::Value = serde_json::from_str(&text).unwrap();
        (
            data["applied"]["file"].clone(),
            data["applied"]["written"][0]["inGit"].clone(),
        )
    };
    let found = json!({
        "path": "apps/settings.yaml:7",
        "in": format!("the artifact {HASH} of GitRepository/flux-system/fleet"),
    });
    assert_eq!(explained("fleet.tar.gz", &digest).await, (found, json!("\"2\"")));

    let not_here = format!(
        "{} is not in a working tree of https://example.com/fleet",
        other.path().display()
    );
    let unreachable = format!("{not_here}; the artifact of GitRepository/flux-system/fleet is not reachable");
    let none = format!("sha256:{}", "0".repeat(64));
    let (file, declared) = explained("fleet.tar.gz", &none).await;
    let expected = format!("{unreachable}: its digest differs from that in the status");
    assert_eq!((file, declared), (json!({ "unknown": expected }), json!(null)));
    let (file, _) = explained("gone.tar.gz", &digest).await;
    let unknown = file["unknown"].as_str().unwrap_or_default();
    assert!(
        unknown.starts_with(&unreachable) && unknown.contains("404"),
        "{file}"
    );
}

#[test]
fn fields_changed_by_hand_come_first() {
    let entry = |manager: &str, subresource: &str, fields: serde_json::Value| {
        json!({ "manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "subresource": subresource, "time": "2026-01-01T00:00:00Z", "fieldsV1": fields })
    };
    let object = |replicas: u64, fields: serde_json::Value| {
        Object::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "managedFields": fields, "annotations": { "a": "b" } },
            "spec": { "replicas": replicas, "template": { "spec": { "containers": [
                { "name": "web", "image": "x", "ports": [{ "containerPort": 80 }] }] } } },
        }))
        .unwrap()
    };
    let image = json!({ "f:spec": { "f:template": { "f:spec": { "f:containers": {
        "k:{\"name\":\"web\"}": { "f:image": {}, "f:ports": {
            "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": { "f:containerPort": {} } } } } } } } });
    let live = object(
        7,
        json!([
            entry(
                "kustomize-controller",
                "",
                json!({ "f:metadata": { "f:annotations": { "f:a": {} } } })
            ),
            entry(
                "kube-controller-manager",
                "status",
                json!({ "f:status": { "f:replicas": {} } })
            ),
            entry("autoscaler", "", image),
            entry("kubectl", "scale", json!({ "f:spec": { "f:replicas": {} } })),
        ]),
    );
    let found = written(&live, Some("kustomize-controller"), Some(&object(2, json!([]))));
    let lines: Vec<String> = found
        .iter()
        .map(|one| {
            let declared = one.declared.as_deref().unwrap_or("-");
            format!(
                "{} {} {} {} {declared}",
                one.by_hand, one.manager, one.path, one.value
            )
        })
        .collect();
    assert_eq!(
        lines,
        [
            "true kubectl .spec.replicas 7 2",
            "false autoscaler .spec.template.spec.containers[name=\"web\"].image \"x\" \"x\"",
            "false autoscaler .spec.template.spec.containers[name=\"web\"].ports[containerPort=80,protocol=\"TCP\"].containerPort 80 80",
        ]
    );
}

#[test]
fn values_of_secrets_are_masked() {
    let object = Object::from_value(json!({
        "apiVersion": "v1", "kind": "Secret", "data": { "password": "c2VjcmV0" },
        "metadata": { "name": "keys", "managedFields": [{
            "manager": "kubectl-edit", "operation": "Update", "fieldsV1": { "f:data": { "f:password": {} } } }] },
    }));
    let found = written(&object.unwrap(), None, None);
    assert_eq!(
        (found[0].path.as_str(), found[0].value.as_str()),
        (".data.password", "***")
    );
}

const CONFIG: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn revision(version: u64, status: &str) -> serde_json::Value {
    json!({
        "name": "web", "namespace": "flux-system", "version": version, "info": { "status": status },
        "chart": { "metadata": { "apiVersion": "v2", "name": "shop", "version": "1.4.0" } },
    })
}

fn snapshot(version: u64, status: &str, digest: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v2", "name": "web", "namespace": "flux-system", "version": version, "status": status,
        "chartName": "shop", "chartVersion": "1.4.0", "configDigest": CONFIG, "digest": digest,
        "firstDeployed": "2026-01-01T00:00:00Z", "lastDeployed": "2026-01-01T00:00:00Z",
    })
}

/// A chart at a version, and the release of it.
async fn released(fixture: &Fixture, chart: &str, spec: serde_json::Value, status: serde_json::Value) {
    let condition = |status: &str, reason: &str| {
        json!({
            "type": "Ready", "status": status, "reason": reason, "message": "said",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
        })
    };
    let source = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmChart",
        "metadata": { "name": "shop", "namespace": "flux-system" },
        "spec": { "interval": "1m", "chart": "shop", "sourceRef": { "kind": "HelmRepository", "name": "shop" } },
        "status": {
            "observedGeneration": 1, "observedChartName": "shop", "conditions": [condition("True", "Succeeded")],
            "artifact": {
                "revision": chart, "digest": format!("sha256:{}", "0".repeat(64)), "path": "a", "url": "http://a/a",
                "lastUpdateTime": "2026-01-01T00:00:00Z",
            },
        },
    });
    fixture.apply(&source.to_string()).await;
    let mut release = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": { "name": "web", "namespace": "flux-system" },
        "spec": { "interval": "1m", "chartRef": { "kind": "HelmChart", "name": "shop" } },
        "status": {
            "observedGeneration": 1, "storageNamespace": "flux-system", "conditions": [condition("False", "Testing")],
            "lastAttemptedGeneration": 1, "lastAttemptedRevision": "1.4.0", "lastAttemptedConfigDigest": CONFIG,
            "lastAttemptedReleaseAction": "upgrade",
        },
    });
    for (part, fields) in [("spec", spec), ("status", status)] {
        for (field, value) in fields.as_object().unwrap() {
            release[part][field] = value.clone();
        }
    }
    fixture.apply(&release.to_string()).await;
}

/// The paragraph of the next action, in one line.
fn next(text: &str) -> String {
    let (_, next) = text.split_once("\nnext: ").unwrap_or_else(|| panic!("{text}"));
    let next = next.split("\n\n").next().unwrap_or_default();
    next.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn next_action_on_a_release_is_the_controllers_decision() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    let check = async |expected: &str| {
        let (_, text) = explain_line(&fixture, "hr web").await;
        assert_eq!(next(&text), expected, "{text}");
    };
    let (healthy, text) = explain_line(&fixture, "hr redis").await;
    assert_eq!(
        (healthy, next(&text).as_str()),
        (
            Some(false),
            "wait: could not get Source object: OCIRepository.source.toolkit.fluxcd.io \"redis\" not found"
        )
    );
    released(&fixture, "1.4.0", json!({}), json!({})).await;
    check("install the release: release not installed: no release in storage for object").await;

    let first = fixture.store(revision(1, "deployed"), None).await;
    check(
        "upgrade the release: release not managed by controller: found existing release in storage \
         last record: revision 1, shop@1.4.0, deployed",
    )
    .await;
    let deployed = || json!({ "history": [snapshot(1, "deployed", &first)] });
    released(&fixture, "1.4.0", json!({}), deployed()).await;
    check("nothing: release in-sync with desired state last record: revision 1, shop@1.4.0, deployed").await;
    released(&fixture, "1.5.0", json!({}), deployed()).await;
    check(
        "upgrade the release: release out-of-sync with desired state: release chart changed; earlier failures no \
         longer count: chart version differs from last attempt last record: revision 1, shop@1.4.0, deployed",
    )
    .await;

    let first = fixture.store(revision(1, "superseded"), None).await;
    let second = fixture.store(revision(2, "failed"), None).await;
    let retries = json!({ "upgrade": { "remediation": { "retries": 1 } } });
    let failed = json!({
        "history": [snapshot(2, "failed", &second), snapshot(1, "superseded", &first)],
        "upgradeFailures": 1, "failures": 1, "observedGeneration": 2, "lastAttemptedGeneration": 2,
    });
    released(&fixture, "1.4.0", retries.clone(), failed.clone()).await;
    check(
        "roll back to revision 1: release is in a failed state last record: revision 2, shop@1.4.0, failed",
    )
    .await;
    let (_, text) = explain_line(&fixture, "hr web -o json").await;
    let data: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(data["next"]["action"], "roll back to revision 1");
    assert_eq!(data["notKnown"], json!([]));

    let mut exhausted = failed.clone();
    exhausted["upgradeFailures"] = json!(2);
    let mut none_left = retries.clone();
    none_left["upgrade"]["remediation"]["remediateLastFailure"] = json!(false);
    exhausted["observedGeneration"] = json!(3);
    exhausted["lastAttemptedGeneration"] = json!(3);
    released(&fixture, "1.4.0", none_left.clone(), exhausted.clone()).await;
    check(
        "nothing until the chart, the values or the spec change: Failed to upgrade after 2 attempt(s); no retries \
         are left: cannot remediate failed release last record: revision 2, shop@1.4.0, failed",
    )
    .await;

    let releases: Api<HelmRelease> = Api::namespaced(fixture.connection.client.clone(), "flux-system");
    let uid = releases.get("web").await.unwrap().uid().unwrap();
    let operation = format!("{uid} 3 upgrade");
    fixture
        .store(revision(3, "pending-upgrade"), Some(&operation))
        .await;
    check(
        "continue the upgrade: the upgrade is in progress last record: revision 3, shop@1.4.0, pending-upgrade",
    )
    .await;
    released(&fixture, "1.5.0", none_left.clone(), exhausted.clone()).await;
    check(
        "end the upgrade as failed, and decide again: the chart, the values or the spec changed during the upgrade \
         last record: revision 3, shop@1.4.0, pending-upgrade",
    )
    .await;
    fixture.store(revision(4, "pending-upgrade"), None).await;
    check(
        "mark the interrupted operation as failed: release locked: release with status 'pending-upgrade'; earlier \
         failures no longer count: chart version differs from last attempt last record: revision 4, shop@1.4.0, \
         pending-upgrade",
    )
    .await;
    none_left["suspend"] = json!(true);
    none_left["valuesFrom"] = json!([{ "kind": "Secret", "name": "missing" }]);
    released(&fixture, "1.4.0", none_left, exhausted).await;
    check(
        "nothing until it is resumed; then try again: could not resolve Secret chart values reference \
         'flux-system/missing' with key 'values.yaml': secrets \"missing\" not found",
    )
    .await;
    let (_, text) = explain_line(&fixture, "hr web").await;
    let first = "HelmRelease/flux-system/web is suspended, and is not healthy";
    assert!(text.starts_with(first), "{text}");
}

const READER: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-flux}
rules:
- {apiGroups: [helm.toolkit.fluxcd.io, source.toolkit.fluxcd.io], resources: ["*"], verbs: [get, list]}
- {apiGroups: [""], resources: [events], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reads-flux}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads-flux}
subjects: [{kind: User, name: reader, apiGroup: rbac.authorization.k8s.io}]
"#;

#[tokio::test]
async fn unreadable_records_are_named_and_taken_from_the_status() {
    let fixture = Fixture::start().await;
    let digest = fixture.store(revision(1, "deployed"), None).await;
    let deployed = json!({ "history": [snapshot(1, "deployed", &digest)] });
    let secret = json!({ "valuesFrom": [{ "kind": "Secret", "name": "settings" }] });
    released(&fixture, "1.5.0", secret, deployed).await;
    fixture.apply(READER).await;
    let client = fixture.client_as("reader").await;
    let text = explain_as(&client, &fixture, "hr web").await;
    assert_eq!(
        next(&text),
        "upgrade the release: release out-of-sync with desired state: release chart changed; earlier failures no \
         longer count: chart version differs from last attempt not known: the values cannot be read: secrets \
         \"settings\" is forbidden: User \"reader\" cannot get resource \"secrets\" in API group \"\" in the \
         namespace \"flux-system\" not known: the records of the release in namespace flux-system cannot be read: \
         not allowed: secrets is forbidden: User \"reader\" cannot list resource \"secrets\" in API group \"\" in the namespace \
         \"flux-system\"",
        "{text}"
    );
}
