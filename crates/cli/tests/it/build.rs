//! `equate build` and `equate diff kustomization` as processes.

use super::session::{Fleet, equate_in, printed};
use equate_testkit::git::Repository;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;

const CONFIG_MAP: &str = "apiVersion: v1\ndata:\n  k: v\nkind: ConfigMap\nmetadata:\n  name: c\n";

fn write(directory: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn tree() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    write(
        place.path(),
        &[
            ("base/kustomization.yaml", "resources: [c.yaml, d.yaml, n.yaml]\n"),
            ("base/c.yaml", CONFIG_MAP),
            (
                "base/d.yaml",
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: web}\nspec: {replicas: 1}\n",
            ),
            (
                "base/n.yaml",
                "apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n",
            ),
            (
                "overlay/kustomization.yaml",
                "commonLabels: {a: b}\nresources: [../base]\n",
            ),
            ("outside/kustomization.yaml", "resources: [../base/c.yaml]\n"),
            ("linked/kustomization.yaml", "resources: [link.yaml]\n"),
            ("broken/kustomization.yaml", "resources:\n- absent.yaml\n"),
            ("charts/kustomization.yaml", "helmCharts:\n- name: x\n"),
        ],
    );
    std::os::unix::fs::symlink(
        place.path().join("base/c.yaml"),
        place.path().join("linked/link.yaml"),
    )
    .unwrap();
    place
}

/// Exit code, standard output, standard error.
fn run(directory: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = equate_in(directory, arguments).output().unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata:\n  labels:\n    a: b\n  name: web\n";
const LABELLED: &str =
    "apiVersion: v1\ndata:\n  k: v\nkind: ConfigMap\nmetadata:\n  labels:\n    a: b\n  name: c\n";
const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  labels:\n    a: b\n  name: d\n  namespace: web\nspec:\n  replicas: 1\n  selector:\n    matchLabels:\n      a: b\n  template:\n    metadata:\n      labels:\n        a: b\n";

#[test]
fn directory_builds_like_the_kustomize_command() {
    let place = tree();
    let (code, out, error) = run(place.path(), &["build", "overlay"]);
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(out, [NAMESPACE, LABELLED, DEPLOYMENT].join("---\n"));
    assert_eq!(
        error,
        "# Warning: 'commonLabels' is deprecated. Please use 'labels' instead. Run 'kustomize edit fix' to update your Kustomization automatically.\n"
    );
    let (_, here, _) = run(&place.path().join("overlay"), &["build"]);
    assert_eq!(here, out);
    let (_, in_order, _) = run(place.path(), &["build", "overlay", "--reorder", "none"]);
    assert_eq!(in_order, [LABELLED, DEPLOYMENT, NAMESPACE].join("---\n"));
    write(
        place.path(),
        &[(
            "overlay/kustomization.yaml",
            "commonLabels: {a: b}\nresources: [../base, gone.yaml]\nsortOptions: {order: fifo}\n",
        )],
    );
    let (code, _, failed) = run(place.path(), &["build", "overlay"]);
    assert_eq!(code, Some(1));
    assert!(
        failed.starts_with("# Warning: 'commonLabels' is deprecated.")
            && failed.contains("\nerror: overlay/kustomization.yaml:2:22: "),
        "{failed}"
    );
    write(
        place.path(),
        &[(
            "overlay/kustomization.yaml",
            "resources: [../base]\nsortOptions: {order: fifo}\n",
        )],
    );
    let (_, _, twice) = run(place.path(), &["build", "overlay", "--reorder", "none"]);
    assert!(
        twice.contains("Warning: Sorting order is set both in 'kustomization.yaml'"),
        "{twice}"
    );
}

#[test]
fn output_is_one_file_or_one_file_per_object() {
    let place = tree();
    let (code, out, error) = run(place.path(), &["build", "overlay", "-o", "all.yaml"]);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{error}");
    let all = fs::read_to_string(place.path().join("all.yaml")).unwrap();
    assert_eq!(all, [NAMESPACE, LABELLED, DEPLOYMENT].join("---\n"));
    fs::create_dir(place.path().join("out")).unwrap();
    let (code, _, error) = run(place.path(), &["build", "overlay", "-o", "out"]);
    assert_eq!(code, Some(0), "{error}");
    for (name, text) in [
        ("v1_namespace_web.yaml", NAMESPACE),
        ("default_v1_configmap_c.yaml", LABELLED),
        ("web_apps_v1_deployment_d.yaml", DEPLOYMENT),
    ] {
        assert_eq!(
            fs::read_to_string(place.path().join("out").join(name)).unwrap(),
            text,
            "{name}"
        );
    }
    assert_eq!(fs::read_dir(place.path().join("out")).unwrap().count(), 3);
}

#[test]
fn build_errors_have_a_position_and_a_hint() {
    let place = tree();
    fs::write(place.path().join("file"), "").unwrap();
    for (arguments, expected) in [
        (
            &["build", "broken"][..],
            "error: broken/kustomization.yaml:2:3: no such file or directory: 'absent.yaml'\n",
        ),
        (
            &["build", "outside"],
            "error: outside/kustomization.yaml:1:13: security; file 'base/c.yaml' is not in or below 'outside'\n",
        ),
        (
            &["build", "linked"],
            "error: linked/kustomization.yaml:1:13: security; file 'base/c.yaml' is not in or below 'linked'\n",
        ),
        (
            &["build", "charts"],
            "error: charts/kustomization.yaml:2:3: must specify --enable-helm\n",
        ),
        (
            &["build", "charts", "--enable-helm"],
            "error: charts/kustomization.yaml:2:3: no repo specified for pull, no chart found at 'charts/x'\n",
        ),
        (
            &["build", "file"],
            "error: must build at directory: not a valid directory: 'file' is a file\nhint: use a directory",
        ),
        (
            &["build", "none"],
            "error: must build at directory: not a valid directory: 'none' does not exist\nhint: use a directory",
        ),
        (
            &["build", "--no-remote-bases", "https://example.org/a/b?ref=v1"],
            "error: https://example.org/a/b?ref=v1 is remote, and remote bases are refused here: commit a copy and name its directory\n",
        ),
    ] {
        let (code, out, error) = run(place.path(), arguments);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(
            error.starts_with(expected),
            "{arguments:?}\nexpected {expected}\nfound    {error}"
        );
    }
    for directory in ["outside", "linked"] {
        let (code, out, error) = run(
            place.path(),
            &["build", directory, "--load-restrictor", "LoadRestrictionsNone"],
        );
        assert_eq!((code, out.as_str()), (Some(0), CONFIG_MAP), "{error}");
    }
}

/// A repository with a base at the tag `v1`, and another in the working tree.
fn repository() -> Repository {
    let repository = Repository::init().unwrap();
    let first = repository
        .commit(&[
            ("app/kustomization.yaml", Some("resources: [c.yaml]\n")),
            ("app/c.yaml", Some(CONFIG_MAP)),
        ])
        .unwrap();
    repository.tag("v1", &first).unwrap();
    repository
        .commit(&[(
            "app/kustomization.yaml",
            Some("namePrefix: main-\nresources: [c.yaml]\n"),
        )])
        .unwrap();
    write(
        repository.path(),
        &[(
            "app/kustomization.yaml",
            "namePrefix: worktree-\nresources: [c.yaml]\n",
        )],
    );
    repository
}

fn name(output: &str) -> &str {
    output.lines().last().unwrap_or_default().trim()
}

#[test]
fn commit_of_a_local_repository_builds_from_git() {
    let repository = repository();
    let here = repository.path();
    for (target, expected) in [
        ("app", "name: worktree-c"),
        (".@HEAD:app", "name: main-c"),
        (".@v1:app", "name: c"),
        (".@HEAD~1:app/", "name: c"),
        ("./app@v1:app", "name: c"),
    ] {
        let (code, out, error) = run(here, &["build", target]);
        assert_eq!((code, name(&out)), (Some(0), expected), "{target}: {error}");
    }
    let (code, _, error) = run(here, &["build", ".@v2:app"]);
    assert_eq!(code, Some(1));
    assert!(
        error.starts_with("error: \"v2\" is not a commit or tree of"),
        "{error}"
    );
    let (code, _, error) = run(here, &["build", ".@v1:none"]);
    assert_eq!(code, Some(1));
    assert_eq!(error, "error: .@v1:none: no such file or directory: './none'\n");
    // parsed as SSH's short form only if no directory has the name of the user
    fs::create_dir(here.join("fleet")).unwrap();
    write(here, &[("fleet/app/kustomization.yaml", "resources: [c.yaml]\n")]);
    for (target, path) in [
        ("fleet@HEAD:fleet/app", "fleet@HEAD:fleet/app"),
        ("./fleet@HEAD:fleet/app", "./fleet@HEAD:fleet/app"),
    ] {
        let (code, _, error) = run(here, &["build", target]);
        assert_eq!(code, Some(1));
        assert!(
            error.starts_with(&format!("error: {path}: no such file or directory: ")),
            "{error}"
        );
    }
}

#[test]
fn remote_bases_are_fetched() {
    let repository = repository();
    let place = tempfile::tempdir().unwrap();
    let here = place.path();
    let instead = format!("https://example.org/o/base={}", repository.path().display());
    let built = |target: &str, options: &[&str]| {
        let mut arguments = vec!["build", target, "--cache-dir", "cache"];
        arguments.extend_from_slice(options);
        let (code, out, error) = run(here, &arguments);
        (code, name(&out).to_owned(), error)
    };
    let entry = |entry: &str| {
        write(
            here,
            &[(
                "k/kustomization.yaml",
                &format!("nameSuffix: -s\nresources: ['{entry}']\n"),
            )],
        );
    };
    for (url, expected) in [
        ("https://example.org/o/base//app?ref=v1", "name: c-s"),
        ("https://example.org/o/base.git//app?ref=main", "name: main-c-s"),
        ("https://example.org/o/base/app", "name: main-c-s"),
    ] {
        entry(url);
        let (code, found, error) = built("k", &["--instead-of", &instead]);
        assert_eq!((code, found.as_str()), (Some(0), expected), "{url}: {error}");
    }
    let (code, _, error) = built("k", &["--instead-of", &instead, "--no-remote-bases"]);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("https://example.org/o/base/app is remote"),
        "{error}"
    );
    let (code, found, error) = built(
        "https://example.org/o/base//app?ref=v1",
        &["--instead-of", &instead],
    );
    assert_eq!((code, found.as_str()), (Some(0), "name: c"), "{error}");
    let file = format!("file://{}//app?ref=v1", repository.path().display());
    entry(&file);
    let (code, found, error) = built("k", &[]);
    assert_eq!((code, found.as_str()), (Some(0), "name: c-s"), "{error}");
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    let url = server.url();
    for (reference, expected) in [
        ("?ref=v1", "name: c-s"),
        ("?ref=main", "name: main-c-s"),
        ("", "name: main-c-s"),
    ] {
        entry(&format!("{}//app{reference}", url.trim_end_matches('/')));
        let (code, found, error) = built("k", &[]);
        assert_eq!((code, found.as_str()), (Some(0), expected), "{error}");
    }
    assert!(here.join("cache/git").is_dir());
    entry(&format!("{}//app?ref=absent", url.trim_end_matches('/')));
    let (code, _, error) = built("k", &[]);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("k/kustomization.yaml:2:13") && error.contains("branch \"absent\" does not exist"),
        "{error}"
    );
}

/// Serves requests one after the other: a file, or 404.
fn serve(files: Vec<(&'static str, &'static str)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default();
            let found = files.iter().find(|(name, _)| path == *name);
            let (status, text) = found.map_or(("404 Not Found", ""), |(_, text)| ("200 OK", *text));
            let length = text.len();
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}

#[test]
fn files_are_fetched_over_http() {
    let url = serve(vec![("/c.yaml", CONFIG_MAP)]);
    let place = tempfile::tempdir().unwrap();
    let kustomization = |name: &str| format!("resources: ['{url}/{name}']\n");
    write(place.path(), &[("kustomization.yaml", &kustomization("c.yaml"))]);
    let (code, out, error) = run(place.path(), &["build"]);
    assert_eq!((code, out.as_str()), (Some(0), CONFIG_MAP), "{error}");
    write(
        place.path(),
        &[("kustomization.yaml", &kustomization("none.yaml?token=secret"))],
    );
    let (code, _, error) = run(place.path(), &["build"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("/none.yaml?… cannot be read"), "{error}");
    assert!(error.contains("HTTP Error: status code 404"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}

const KUSTOMIZATION: &str = "apiVersion: v1\nkind: Ignored\n---\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: app, namespace: flux-system}\nspec:\n  interval: 1m\n  prune: true\n  path: ./elsewhere\n  sourceRef: {kind: GitRepository, name: fleet}\n  targetNamespace: web\n  postBuild:\n    substitute: {value: from the Kustomization}\n    substituteFrom: [{kind: Secret, name: never-asked-for}]\n";

#[test]
fn kustomization_from_a_file_builds_a_local_directory() {
    let place = tempfile::tempdir().unwrap();
    write(
        place.path(),
        &[
            ("app.yaml", KUSTOMIZATION),
            (
                "manifests/c.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: \"${value}\", other: \"x${none}\"}\n",
            ),
            ("manifests/left/out.yaml", "no: manifest\n"),
            (
                "manifests/s.yaml",
                "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: \"ENC[x]\"}\nsops: {mac: \"ENC[y]\"}\n",
            ),
        ],
    );
    let common = [
        "build",
        "kustomization",
        "app",
        "--path",
        "manifests",
        "--kustomization-file",
        "app.yaml",
        "--dry-run",
    ];
    let with = |options: &[&str]| {
        let mut arguments = common.to_vec();
        arguments.extend_from_slice(options);
        run(place.path(), &arguments)
    };
    let (code, out, error) = with(&["--ignore-paths", "left/"]);
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(
        out,
        "apiVersion: v1\ndata:\n  k: from the Kustomization\n  other: x\nkind: ConfigMap\nmetadata:\n  labels:\n    kustomize.toolkit.fluxcd.io/name: app\n    kustomize.toolkit.fluxcd.io/namespace: flux-system\n  name: c\n  namespace: web\n---\napiVersion: v1\nkind: Secret\nmetadata:\n  labels:\n    kustomize.toolkit.fluxcd.io/name: app\n    kustomize.toolkit.fluxcd.io/namespace: flux-system\n  name: s\n  namespace: web\nstringData:\n  k: '**SOPS**'\n---\n"
    );
    let (code, _, error) = with(&[]);
    assert_eq!(code, Some(1));
    assert!(error.contains("manifests/left/out.yaml:1:1"), "{error}");
    let (code, _, error) = with(&["--ignore-paths", "left/", "--strict-substitute"]);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("variable not set (strict mode): \"none\""),
        "{error}"
    );
    let (code, _, error) = run(
        place.path(),
        &[
            "build",
            "ks",
            "other",
            "--path",
            "manifests",
            "--kustomization-file",
            "app.yaml",
            "--dry-run",
        ],
    );
    assert_eq!(code, Some(1));
    assert!(
        error.contains("failed to find kustomization with name 'other' and namespace 'flux-system'"),
        "{error}"
    );
}

#[test]
fn kustomization_in_the_cluster_builds_and_is_compared() {
    let fleet = Fleet::example();
    let up = fleet.up("ready    Kustomization/apps");
    let check = |arguments: &[&str], code: i32, words: &[&str]| {
        let output = fleet.equate(arguments);
        let text = printed(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{text}");
        for word in words {
            assert!(text.contains(word), "{arguments:?}: no {word:?} in\n{text}");
        }
    };
    let build = ["build", "ks", "flux-system", "--path", "clusters/dev"];
    check(
        &build,
        0,
        &["kustomize.toolkit.fluxcd.io/name: flux-system\n", "name: apps\n"],
    );
    let mut recursive = build.to_vec();
    recursive.extend([
        "--recursive",
        "--local-sources",
        "GitRepository/flux-system/flux-system=.",
    ]);
    check(
        &recursive,
        0,
        &["kustomize.toolkit.fluxcd.io/name: apps\n", "kind: Deployment\n"],
    );
    let alone = [&build[..], &["-r"]].concat();
    check(
        &alone,
        1,
        &["cannot get local path for GitRepository/flux-system/flux-system"],
    );
    let diff = ["diff", "kustomization", "apps", "--path", "apps/dev"];
    check(&diff, 0, &["nothing would change"]);
    let more = fleet
        .read("apps/base/web/deployment.yaml")
        .replace("replicas: 1", "replicas: 2");
    fleet.write("apps/base/web/deployment.yaml", &more);
    check(
        &diff,
        1,
        &[
            "~ Deployment/web/web",
            ".spec.replicas: 1 -> 2",
            "1 Kustomization: 1 changed",
        ],
    );
    let whole = [
        "diff",
        "ks",
        "flux-system",
        "--path",
        "clusters/dev",
        "-r",
        "--local-sources",
        "GitRepository/flux-system/flux-system=.",
    ];
    check(
        &whole,
        1,
        &["~ Deployment/web/web", "3 Kustomizations: 1 changed"],
    );
    fleet.write("apps/dev/kustomization.yaml", "resources: [absent.yaml]\n");
    check(&diff, 2, &["apps/dev/kustomization.yaml:1:13", "1 not built"]);
    check(
        &["diff", "ks", "absent", "--path", "apps/dev"],
        2,
        &["Kustomization flux-system/absent not found"],
    );
    assert!(up.interrupt());
}
