//! `equate build --enable-helm` against the real kustomize and Helm: the cases of
//! `crates/kustomize/tests/cases/charts`, recorded by `cargo xtask baseline kustomize`.

use super::session::equate_in;
use super::template::format::{Case, Content};
use equate_testkit::git::Repository;
use std::path::{Path, PathBuf};

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kustomize/tests/cases/charts");
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|case| case.unwrap().path())
        .collect();
    found.sort();
    found
}

fn write(case: &Case, root: &Path) {
    for file in case.files.iter().filter(|file| !file.for_the_judge) {
        let path = root.join(&file.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match &file.content {
            Content::Bytes(bytes) => std::fs::write(path, bytes).unwrap(),
            Content::Link(target) => std::os::unix::fs::symlink(target, path).unwrap(),
        }
    }
}

fn fault(case: &Case) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    write(case, &root);
    let mut line = vec!["build", "--enable-helm"];
    if !case.legacy_order {
        line.extend(["--reorder", "none"]);
    }
    if case.any_file {
        line.extend(["--load-restrictor", "LoadRestrictionsNone"]);
    }
    line.extend(case.args.iter().flat_map(|words| words.split_whitespace()));
    line.push(match case.build.as_str() {
        "" => ".",
        directory => directory,
    });
    let output = equate_in(&root, &line).env("NO_COLOR", "1").output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let stderr = stderr.replace(&*root.to_string_lossy(), "<ROOT>");
    let stderr: String = stderr
        .split_inclusive('\n')
        .filter(|line| !line.starts_with("Flag --reorder has been deprecated"))
        .collect();
    let found = match output.status.success() {
        true => Ok(printed),
        false => Err(stderr.strip_prefix("error: ").unwrap_or(&stderr).to_owned()),
    };
    let ours = case.answer("our output").map(Ok);
    let ours = ours.or(case.answer("our error").map(Err));
    let wanted = ours.or(case.answer("output").map(Ok));
    let wanted = wanted.map(|wanted| wanted.map(str::to_owned).map_err(str::to_owned));
    (wanted.as_ref() != Some(&found)).then(|| format!("want\n{}\ngot\n{}", shown(wanted), shown(Some(found))))
}

fn shown(result: Option<Result<String, String>>) -> String {
    match result {
        None => "nothing".to_owned(),
        Some(Ok(output)) => format!("output\n{output}"),
        Some(Err(error)) => format!("error\n{error}"),
    }
}

/// `CASE` in the environment selects the cases whose name contains it.
#[test]
fn charts_render_like_kustomize_and_helm() {
    let wanted = std::env::var("CASE").unwrap_or_default();
    let (mut asked, mut wrong) = (0, Vec::new());
    for path in cases() {
        let name = path.file_name().unwrap().to_string_lossy();
        if !name.contains(&wanted) {
            continue;
        }
        asked += 1;
        let case = Case::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        if let Some(fault) = fault(&case) {
            wrong.push(format!("== {name}\n{fault}"));
        }
    }
    assert!(asked > 0, "no case is called {wanted:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Output, or the error without `error: `.
fn built(directory: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut line = vec!["build"];
    line.extend_from_slice(arguments);
    let output = equate_in(directory, &line).env("NO_COLOR", "1").output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => {
            let stderr = String::from_utf8(output.stderr).unwrap();
            Err(stderr.trim_start_matches("error: ").to_owned())
        }
    }
}

const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
const WEB: &str = "helmCharts: [{name: web, releaseName: web}]\n";
const TEMPLATE: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Values.name }}-{{ .Release.Namespace }}}\n";

/// A repository with a chart, and kustomizations that look for charts in other places.
fn repository() -> Repository {
    let repository = Repository::init().unwrap();
    repository
        .commit(&[
            ("app/kustomization.yaml", Some(WEB)),
            ("app/charts/web/Chart.yaml", Some(CHART)),
            ("app/charts/web/values.yaml", Some("name: committed\n")),
            ("app/charts/web/templates/c.yaml", Some(TEMPLATE)),
            (
                "out/kustomization.yaml",
                Some("helmGlobals: {chartHome: ../..}\nhelmCharts: [{name: web}]\n"),
            ),
            (
                "absolute/kustomization.yaml",
                Some("helmGlobals: {chartHome: /srv}\nhelmCharts: [{name: web}]\n"),
            ),
            (
                "file/kustomization.yaml",
                Some("helmGlobals: {chartHome: ../app/charts}\nhelmCharts: [{name: web, valuesFile: ../../values.yaml}]\n"),
            ),
        ])
        .unwrap();
    std::fs::write(
        repository.path().join("app/charts/web/values.yaml"),
        "name: worktree\n",
    )
    .unwrap();
    repository
}

#[test]
fn charts_of_commits_and_fetched_bases_stay_inside_them() {
    let repository = repository();
    let here = repository.path();
    let object = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n");
    for (target, expected) in [
        ("app", object("worktree-default")),
        (".@HEAD:app", object("committed-default")),
    ] {
        assert_eq!(built(here, &[target, "--enable-helm"]), Ok(expected), "{target}");
    }
    for (target, expected) in [
        (
            ".@HEAD:out",
            ".@HEAD:out/kustomization.yaml:2:14: security; '../../web' leads out of the source\n",
        ),
        (
            ".@HEAD:absolute",
            ".@HEAD:absolute/kustomization.yaml:2:14: new root '/srv/web' cannot be absolute\n",
        ),
        (
            ".@HEAD:file",
            ".@HEAD:file/kustomization.yaml:2:14: security; '../../values.yaml' leads out of the source\n",
        ),
    ] {
        assert_eq!(
            built(here, &[target, "--enable-helm"]),
            Err(expected.to_owned()),
            "{target}"
        );
    }

    let place = tempfile::tempdir().unwrap();
    let instead = format!("https://example.org/o/base={}", here.display());
    let with = |base: &str| {
        let base = format!("https://example.org/o/base//{base}?ref=main");
        let overlay = format!("namespace: shop\nresources: ['{base}']\n");
        std::fs::write(place.path().join("kustomization.yaml"), overlay).unwrap();
        let options = [
            ".",
            "--enable-helm",
            "--cache-dir",
            "cache",
            "--instead-of",
            &instead,
        ];
        built(place.path(), &options)
    };
    assert_eq!(with("app"), Ok(object("committed-shop")));
    for (base, word) in [
        ("out", "must be within the repo, but base '../../web' is outside"),
        ("absolute", "new root '/srv/web' cannot be absolute"),
        ("file", "leads out of the source"),
    ] {
        let error = with(base).unwrap_err();
        assert!(error.contains(word), "{base}: {error}");
    }
}

#[test]
fn flux_kustomization_renders_no_charts() {
    let repository = repository();
    let here = repository.path();
    let flux = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: app, namespace: flux-system}\nspec: {interval: 1m, path: ./, prune: true, sourceRef: {kind: GitRepository, name: fleet}}\n";
    std::fs::write(here.join("ks.yaml"), flux).unwrap();
    let line = [
        "ks",
        "app",
        "--path",
        "app",
        "--kustomization-file",
        "ks.yaml",
        "--dry-run",
    ];
    assert_eq!(
        built(here, &line),
        Err("app/kustomization.yaml:1:13: must specify --enable-helm\n".to_owned())
    );
    let refused = built(here, &[&line[..], &["--enable-helm"]].concat()).unwrap_err();
    assert!(
        refused.contains("unexpected argument '--enable-helm'"),
        "{refused}"
    );
}

#[test]
fn helm_program_is_not_run() {
    let repository = repository();
    let line = [
        "build",
        "app",
        "--enable-helm",
        "--helm-command",
        "./no-such-helm",
    ];
    let output = equate_in(repository.path(), &line).output().unwrap();
    assert!(output.status.success());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("--helm-command has no effect"), "{stderr}");
}

#[test]
fn timeout_names_its_option() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for (path, text) in [
        (
            "charts/web/Chart.yaml",
            "apiVersion: v2\nname: web\nversion: 0.1.0\n",
        ),
        ("charts/web/values.yaml", ""),
        ("charts/web/templates/a.yaml", "{{ range 1000000000 }}{{ end }}"),
        ("kustomization.yaml", "helmCharts:\n- name: web\n"),
    ] {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let check = |line: &[&str], option: &str| {
        let output = equate_in(root, line).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8(output.stderr).unwrap();
        let ended = format!("limit: the render was stopped; increase {option}");
        assert!(stderr.contains(&ended), "{stderr}");
    };
    check(&["template", "charts/web", "--timeout", "1ms"], "--timeout");
    check(
        &["build", ".", "--enable-helm", "--helm-timeout", "1ms"],
        "--helm-timeout",
    );
}
