//! Walk-throughs of `equate up` with repositories that need more than it has: definitions, controllers,
//! credentials.

use super::session::{DEADLINE, Fleet, equate_in, printed};
use equate_testkit::eventually::eventually;
use equate_testkit::git::{Guard, Repository};
use std::path::Path;

const SECRET: &str = "apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata: { name: db, namespace: default }
spec: { refreshInterval: 1h }
";

fn kustomization(name: &str, more: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {{ name: {name}, namespace: flux-system }}
spec:
  interval: 10m
  path: ./{name}
  prune: true
  wait: true
  sourceRef: {{ kind: GitRepository, name: flux-system }}
{more}"
    )
}

/// Two Kustomizations with a kind without a definition, and one that depends on them.
fn fleet() -> Fleet {
    let fleet = Fleet::empty();
    fleet.commit("clusters/dev/a.yaml", Some(&kustomization("a", "")));
    fleet.commit("clusters/dev/b.yaml", Some(&kustomization("b", "")));
    let depends = "  dependsOn: [{ name: a }]\n";
    fleet.commit("clusters/dev/c.yaml", Some(&kustomization("c", depends)));
    fleet.commit("a/secret.yaml", Some(SECRET));
    fleet.commit("b/secret.yaml", Some(&SECRET.replace("name: db", "name: web")));
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: c, namespace: default }\n";
    fleet.commit("c/map.yaml", Some(map));
    fleet
}

fn once(fleet: &Fleet, more: &[&str]) -> (Option<i32>, String) {
    let mut arguments = vec!["up", "--path", "clusters/dev", "--once"];
    arguments.extend(more);
    let output = fleet.equate(&arguments);
    (output.status.code(), printed(&output))
}

#[test]
fn missing_kinds_are_one_cause() {
    let (code, text) = once(&fleet(), &[]);
    assert_eq!(code, Some(1), "{text}");
    let cause = "  ExternalSecret (external-secrets.io) is not defined: 2 Kustomizations; \
                 try --crds or --unknown-kinds=accept\n";
    assert_eq!(text.matches(cause).count(), 1, "{text}");
    assert!(!text.contains("dry-run failed"), "{text}");
    assert!(text.contains("dependency 'flux-system/a' is not ready"), "{text}");
}

#[test]
fn missing_kinds_are_accepted() {
    let (code, text) = once(&fleet(), &["--unknown-kinds=accept"]);
    assert_eq!(code, Some(0), "{text}");
    for expected in [
        "ready    Kustomization/c",
        "idle     ExternalSecret/default/db  no schema",
        "note     1 kind is accepted without a schema",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn missing_kinds_are_defined_from_files_and_catalogues() {
    let fleet = fleet();
    let place = tempfile::tempdir().unwrap();
    let definition = r#"apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: externalsecrets.external-secrets.io }
spec:
  group: external-secrets.io
  scope: Namespaced
  names: { kind: ExternalSecret, plural: externalsecrets }
  versions:
  - name: v1
    served: true
    storage: true
    schema: { openAPIV3Schema: { type: object, properties: { spec: { type: object, properties: { refreshInterval: { type: string } } } } } }
"#;
    std::fs::write(place.path().join("crds.yaml"), definition).unwrap();
    let crds = place.path().to_str().unwrap();
    let (code, text) = once(&fleet, &["--crds", crds]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("ready    ExternalSecret/default/db  Current"),
        "{text}"
    );
    let catalogue = tempfile::tempdir().unwrap();
    std::fs::create_dir(catalogue.path().join("external-secrets.io")).unwrap();
    let schema =
        r#"{ "type": "object", "properties": { "spec": { "type": "object", "required": ["data"] } } }"#;
    std::fs::write(
        catalogue
            .path()
            .join("external-secrets.io/externalsecret_v1.json"),
        schema,
    )
    .unwrap();
    let (code, text) = once(&fleet, &["--crds", catalogue.path().to_str().unwrap()]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("spec.data: Required value"), "{text}");
    let (code, text) = once(&fleet, &["--crds", &format!("{crds}/absent")]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("/absent does not exist"), "{text}");
}

#[test]
fn charts_are_released() {
    let fleet = Fleet::empty();
    fleet.commit("clusters/dev/a.yaml", Some(&kustomization("a", "")));
    let release = "apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: { name: web, namespace: flux-system }
spec:
  interval: 10m
  targetNamespace: default
  chart: { spec: { chart: ./charts/web, sourceRef: { kind: GitRepository, name: flux-system } } }
  values: { greeting: hello }
";
    fleet.commit("a/release.yaml", Some(release));
    let chart = "apiVersion: v2\nname: web\nversion: 1.2.3\n";
    fleet.commit("charts/web/Chart.yaml", Some(chart));
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: {{ .Release.Name }} }\ndata: { greeting: {{ .Values.greeting }} }\n";
    fleet.commit("charts/web/templates/map.yaml", Some(map));
    let (code, text) = once(&fleet, &[]);
    assert_eq!(code, Some(0), "{text}");
    for expected in ["ready    Kustomization/a", "ready    HelmRelease/web"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let _up = fleet.up("ready    HelmRelease/web");
    let said = printed(&fleet.equate(&["reconcile", "hr", "web", "--with-source", "--force"]));
    for expected in [
        "gitrepository/flux-system is ready: ",
        "helmchart/flux-system-web is ready: ",
        "helmrelease/web is ready: Helm upgrade succeeded for release default/default-web.v2 with chart web@1.2.3",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let tree = printed(&fleet.equate(&["tree", "hr", "web"]));
    assert!(tree.contains("ConfigMap/default/default-web"), "{tree}");
    let explained = printed(&fleet.equate(&["explain", "configmap", "default-web", "-n", "default"]));
    assert!(explained.contains("HelmRelease/flux-system/web"), "{explained}");
    let listed = printed(&fleet.equate(&["get", "hr"]));
    assert!(
        listed.contains("1.2.3") && listed.contains("Helm upgrade succeeded"),
        "{listed}"
    );
}

/// A Kustomization with a HelmRelease of a chart with these templates.
fn fleet_of_chart(templates: &[(&str, &str)]) -> Fleet {
    let fleet = Fleet::empty();
    fleet.commit("clusters/dev/a.yaml", Some(&kustomization("a", "")));
    let release = "apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: { name: web, namespace: flux-system }
spec:
  interval: 10m
  targetNamespace: default
  chart: { spec: { chart: ./charts/web, sourceRef: { kind: GitRepository, name: flux-system } } }
";
    fleet.commit("a/release.yaml", Some(release));
    let chart = "apiVersion: v2\nname: web\nversion: 1.2.3\n";
    fleet.commit("charts/web/Chart.yaml", Some(chart));
    for (path, text) in templates {
        fleet.commit(&format!("charts/web/templates/{path}"), Some(text));
    }
    fleet
}

#[test]
fn kinds_that_only_a_chart_renders_are_accepted() {
    let monitor = "apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: { name: {{ .Release.Name }} }
spec: { endpoints: [{ port: http }] }
";
    let fleet = fleet_of_chart(&[("monitor.yaml", monitor)]);
    let (code, text) = once(&fleet, &[]);
    assert_eq!(code, Some(1), "{text}");
    let cause = "  ServiceMonitor (monitoring.coreos.com) is not defined: HelmRelease/web; \
                 try --crds or --unknown-kinds=accept\n";
    assert_eq!(text.matches(cause).count(), 1, "{text}");
    let (code, text) = once(&fleet, &["--unknown-kinds=accept"]);
    assert_eq!(code, Some(0), "{text}");
    for expected in [
        "ready    HelmRelease/web",
        "idle     ServiceMonitor/default/default-web  no schema",
        "note     1 kind is accepted without a schema",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

/// A Job that runs before the objects of the chart.
fn job(annotation: &str) -> String {
    format!(
        "apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations: {{ helm.sh/hook: pre-install, {annotation} }}
spec:
  template:
    spec: {{ restartPolicy: Never, containers: [{{ name: a, image: a }}] }}
"
    )
}

#[test]
fn a_failure_is_not_final_while_a_release_is_installed() {
    // longer than a failure has to last
    let slow = job("equate.dev/simulate-runs-for: 6s");
    let fleet = fleet_of_chart(&[("job.yaml", &slow)]);
    fleet.commit("clusters/dev/b.yaml", Some(&kustomization("b", "")));
    let (code, text) = once(&fleet, &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("ready    HelmRelease/web"), "{text}");
    let (_, reasons) = text.split_once("not ready after").unwrap();
    assert!(
        reasons.contains("Kustomization/b") && !reasons.contains("HelmRelease"),
        "{text}"
    );
}

#[tokio::test]
async fn the_hook_that_a_release_waits_for_is_explained() {
    let fleet = fleet_of_chart(&[("job.yaml", &job("equate.dev/simulate: Running"))]);
    let up = fleet.up("HelmRelease/web");
    eventually("the hook is explained", DEADLINE, async || {
        let text = printed(&fleet.equate(&["explain", "hr", "web"]));
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let is = words.contains("waits for: pre-install hook Job/default/migrate: InProgress: ");
        is.then_some(()).ok_or(text)
    })
    .await;
    assert!(up.interrupt());
}

const IMAGE: &str = "apiVersion: image.toolkit.fluxcd.io/v1
kind: ImageRepository
metadata: { name: redis, namespace: flux-system }
spec: { interval: 1m, image: example.org/redis }
";

#[test]
fn kinds_without_a_controller_are_unsupported() {
    let fleet = Fleet::empty();
    fleet.commit("clusters/dev/a.yaml", Some(&kustomization("a", "")));
    fleet.commit("a/image.yaml", Some(IMAGE));
    let (code, text) = once(&fleet, &[]);
    assert_eq!(code, Some(0), "{text}");
    for expected in [
        "ready    Kustomization/a",
        "idle     ImageRepository/flux-system/redis  unsupported",
        "note     1 object is stored and not reconciled, because Equate has no controller for its kind yet: 1 ImageRepository",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let up = fleet.up("note     1 object is stored");
    let output = fleet.equate(&["reconcile", "imgrepo", "redis"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let unsupported = "unsupported: Equate has no controller for it yet";
    assert!(text.contains(unsupported), "{text}");
    for command in [&["tree", "ks", "a"][..], &["get", "imgrepo"]] {
        let text = printed(&fleet.equate(command));
        assert!(text.contains(unsupported), "{text}");
    }
    let output = fleet.equate(&["explain", "ImageRepository/flux-system/redis", "-o", "json"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(unsupported), "{text}");
    assert!(up.interrupt());
}

const SILENT_HOST: &str = "
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: { name: web, namespace: flux-system }
spec: { interval: 1m, url: 'http://127.0.0.1:1/charts' }
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: { name: registry, namespace: flux-system }
spec: { type: oci, insecure: true, url: 'oci://127.0.0.1:2/charts' }
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmChart
metadata: { name: registry, namespace: flux-system }
spec: { interval: 1m, chart: app, version: 1.x, sourceRef: { kind: HelmRepository, name: registry } }
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: Bucket
metadata: { name: files, namespace: flux-system }
spec: { interval: 1m, insecure: true, endpoint: '127.0.0.1:1', bucketName: files }
";

#[test]
fn sources_of_a_silent_host_have_one_line() {
    let fleet = Fleet::empty();
    fleet.commit("clusters/dev/a.yaml", Some(SILENT_HOST));
    let (code, text) = once(&fleet, &[]);
    assert_eq!(code, Some(1), "{text}");
    let reasons: Vec<&str> = text.lines().filter(|line| line.contains("127.0.0.1")).collect();
    let refused = "cannot be reached (it refuses connections)";
    let bucket = "https://127.0.0.1:1/files";
    let charts = "oci://127.0.0.1:2/charts";
    assert_eq!(
        reasons,
        [
            format!(
                "  127.0.0.1:1 {refused}: 2 sources with 2 URLs; use their content on this machine with \
                 --instead-of http://127.0.0.1:1/charts=DIR for each"
            ),
            format!(
                "  127.0.0.1:2 {refused}: HelmChart/registry; use its content on this machine with \
                 --instead-of {charts}=DIR"
            ),
        ],
        "{text}"
    );
    let files = tempfile::tempdir().unwrap();
    let pair = |url: &str| format!("--instead-of={url}={}", files.path().display());
    let (_, text) = once(&fleet, &[&pair(bucket), &pair("http://127.0.0.1:1/charts")]);
    assert!(!text.contains("127.0.0.1:1"), "{text}");
}

#[test]
fn a_path_that_is_no_directory_of_the_repository_is_refused() {
    let fleet = Fleet::empty();
    fleet.commit(
        "apps/web/cm.yaml",
        Some("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"),
    );
    for (path, expected) in [
        (
            "apps/web/cm.yaml",
            "error: --path apps/web/cm.yaml is a file; give its directory apps/web\n",
        ),
        (
            "../apps/wep",
            "leads out of the repository; give a directory inside it; did you mean apps/web?\n",
        ),
    ] {
        let text = printed(&fleet.equate(&["up", "--once", "--path", path]));
        assert!(text.ends_with(expected), "{text}");
    }
}

#[test]
fn a_tenant_with_the_role_admin_applies_objects_of_flux() {
    let fleet = Fleet::empty();
    let tenant = "apiVersion: v1
kind: ServiceAccount
metadata: { name: team, namespace: flux-system }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: team, namespace: flux-system }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin }
subjects: [{ kind: ServiceAccount, name: team, namespace: flux-system }]
";
    let a = kustomization("a", "  serviceAccountName: team\n");
    fleet.commit("clusters/dev/a.yaml", Some(&format!("{tenant}---\n{a}")));
    fleet.commit("a/image.yaml", Some(IMAGE));
    fleet.commit("a/b.yaml", Some(&kustomization("b", "")));
    fleet.commit("b/map.yaml", Some(MAP));
    let (code, text) = once(&fleet, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("ready    Kustomization/b"), "{text}");
}

#[test]
fn an_artifact_that_nobody_publishes_is_waited_for() {
    let fleet = Fleet::empty();
    let source = "apiVersion: source.toolkit.fluxcd.io/v1
kind: ExternalArtifact
metadata: { name: app, namespace: flux-system }
spec: {}
";
    let from_artifact = kustomization("a", "").replace(
        "kind: GitRepository, name: flux-system",
        "kind: ExternalArtifact, name: app",
    );
    fleet.commit(
        "clusters/dev/a.yaml",
        Some(&format!("{source}---\n{from_artifact}")),
    );
    let (code, text) = once(&fleet, &["--timeout", "5s"]);
    assert_eq!(code, Some(1), "{text}");
    let reason = "Source artifact not found, waiting for ExternalArtifact/flux-system/app";
    assert!(text.contains(reason), "{text}");
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: a, namespace: default }\n";

/// A directory, a repository and its server; none without git.
fn guarded() -> Option<(tempfile::TempDir, Repository, equate_testkit::git::HttpServer)> {
    let repository = Repository::init().unwrap();
    repository.commit(&[("app/map.yaml", Some(MAP))]).unwrap();
    let guard = Guard::Basic("me".to_owned(), "secret".to_owned());
    let server = repository.serve(guard, false).unwrap()?;
    Some((tempfile::tempdir().unwrap(), repository, server))
}

fn once_at(home: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = equate_in(home, &[&["up", "--once", "--timeout", "60s"], arguments].concat())
        .output()
        .unwrap();
    (output.status.code(), printed(&output))
}

#[test]
fn a_private_repository_is_read_with_the_users_credentials() {
    let Some((home, _repository, server)) = guarded() else {
        return;
    };
    let url = server.url();
    let (code, text) = once_at(home.path(), &[&url, "--path", "app"]);
    assert_eq!(code, Some(1), "{text}");
    let ways = "the host requires credentials (HTTP 401) (no credentials were found; sign in with git or set a token \
                (git credential, ~/.netrc, GITHUB_TOKEN), give --username and --password-file, or clone it and give \
                the directory)";
    assert!(text.contains(ways), "{text}");
    let reads = |home: &Path, more: &[&str]| {
        let (code, text) = once_at(home, &[&[url.as_str(), "--path", "app"], more].concat());
        assert_eq!(code, Some(0), "{more:?}: {text}");
        assert!(!text.contains("secret"), "{text}");
    };
    let write = |name: &str, text: &str| {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(name), text).unwrap();
        home
    };
    reads(
        write(".netrc", "machine localhost login me password secret\n").path(),
        &[],
    );
    let helper = "[credential]\n\thelper = \"!f() { echo username=me; echo password=secret; }; f\"\n";
    reads(write(".gitconfig", helper).path(), &[]);
    let home = write("password", "secret\n");
    reads(home.path(), &["--username", "me", "--password-file", "password"]);
    let (code, text) = once_at(
        home.path(),
        &[&url, "--path", "app", "--password-file", "password"],
    );
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("the host refused the credentials (HTTP 401) (tried --password-file;"),
        "{text}"
    );
}

#[test]
fn declared_repositories_need_the_flag() {
    let Some((home, _repository, server)) = guarded() else {
        return;
    };
    let fleet = Fleet::empty();
    let source = format!(
        "apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {{ name: app, namespace: flux-system }}
spec: {{ interval: 1m, url: {}, ref: {{ name: HEAD }}, secretRef: {{ name: absent }} }}
",
        server.url()
    );
    let app = kustomization("app", "").replace("name: flux-system }", "name: app }");
    fleet.commit("clusters/dev/app.yaml", Some(&format!("{source}---\n{app}")));
    let netrc = "machine localhost login me password secret\n";
    std::fs::write(home.path().join(".netrc"), netrc).unwrap();
    let here = fleet.path().to_str().unwrap();
    let host = server
        .url()
        .trim_start_matches("http://")
        .split('/')
        .next()
        .unwrap()
        .to_owned();
    let flag = format!("--credentials-for={host}");
    let (code, text) = once_at(home.path(), &[here, "--path", "clusters/dev"]);
    assert_eq!(code, Some(1), "{text}");
    let ways =
        format!("use your own credentials with --credentials-for {host}, add the Secret of spec.secretRef");
    assert!(text.contains(&ways), "{text}");
    let (code, text) = once_at(home.path(), &[here, "--path", "clusters/dev", &flag]);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn an_ssh_repository_is_read_with_the_users_key() {
    let repository = Repository::init().unwrap();
    repository.commit(&[("app/map.yaml", Some(MAP))]).unwrap();
    let Some(server) = repository.serve_ssh().unwrap() else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let ssh = home.path().join(".ssh");
    std::fs::create_dir(&ssh).unwrap();
    std::fs::write(ssh.join("id_ed25519"), server.identity()).unwrap();
    let url = server.url();
    let (code, text) = once_at(home.path(), &[&url, "--path", "app"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("the host's key does not match known_hosts") && text.contains("no line is for"),
        "{text}"
    );
    assert!(text.contains("add a key to the ssh agent or to ~/.ssh"), "{text}");
    std::fs::write(ssh.join("known_hosts"), server.known_hosts()).unwrap();
    let (code, text) = once_at(home.path(), &[&url, "--path", "app"]);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn an_installation_needs_an_image() {
    let place = tempfile::tempdir().unwrap();
    let output = equate_in(place.path(), &["install", "--export"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let text = printed(&output);
    assert!(
        text.contains("there is no published image") && text.contains("cargo xtask image"),
        "{text}"
    );
}

#[test]
fn a_failed_wait_ends_with_the_cause() {
    let fleet = Fleet::empty();
    let crashing = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: default
  annotations: { equate.dev/simulate: CrashLoopBackOff, equate.dev/simulate-log: 'panic: no database' }
spec:
  progressDeadlineSeconds: 2
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [{ name: c, image: nginx }] }
";
    fleet.commit("clusters/dev/web.yaml", Some(crashing));
    let job = "apiVersion: batch/v1
kind: Job
metadata: { name: slow, namespace: default }
spec:
  template:
    spec: { restartPolicy: Never, containers: [{ name: c, image: busybox, command: [sleep, '100'] }] }
";
    fleet.commit("clusters/dev/job.yaml", Some(job));
    let (code, text) = once(&fleet, &[]);
    assert_eq!(code, Some(1), "{text}");
    let (_, reasons) = text.split_once("error: not ready after ").unwrap();
    let reasons: Vec<&str> = reasons.lines().skip(1).collect();
    let cause = "  Deployment/default/web: CrashLoopBackOff: Pod/default/web-";
    assert!(reasons[0].starts_with(cause), "{text}");
    assert!(
        reasons[0].ends_with("last log line: panic: no database; Progress deadline exceeded"),
        "{text}"
    );
    assert_eq!(
        reasons[1], "  still waiting: Job/default/slow: Job in progress",
        "{text}"
    );
}

#[test]
fn a_failure_of_the_whole_repository_asks_for_a_directory() {
    let fleet = Fleet::empty();
    fleet.commit(
        "charts/web/Chart.yaml",
        Some("apiVersion: v2\nname: web\nversion: 1.2.3\n"),
    );
    for directory in ["kustomize", "deploy"] {
        let path = format!("{directory}/kustomization.yaml");
        fleet.commit(&path, Some("resources: [map.yaml]\n"));
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: a, namespace: default }\n";
        fleet.commit(&format!("{directory}/map.yaml"), Some(map));
    }
    let output = fleet.equate(&["up", "--once"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let hint =
        "hint: choose one of the directories above with --path, or run it without --once to watch it\n";
    assert!(text.contains(hint), "{text}");
}
