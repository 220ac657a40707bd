//! `equate template` against Helm: the cases of `crates/helm/tests/cases`, recorded by `cargo xtask baseline
//! helm`.

#[path = "../../../helm/tests/it/chart_case.rs"]
mod chart_case;
#[expect(dead_code, reason = "used by the builds of kustomize")]
#[path = "../../../kustomize/tests/it/cases/format.rs"]
pub(super) mod format;

use super::session::equate_in;
use format::Case;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../helm/tests/cases");
    let mut found = Vec::new();
    for topic in std::fs::read_dir(folder).unwrap() {
        let topic = topic.unwrap().path();
        if topic.is_dir() {
            found.extend(std::fs::read_dir(topic).unwrap().map(|case| case.unwrap().path()));
        }
    }
    found.sort();
    found
}

fn fault(case: &Case) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    chart_case::write(case, &root).unwrap();
    let arguments = chart_case::arguments(case);
    let mut line = vec!["template"];
    line.extend(arguments.iter().map(String::as_str));
    let home = tempfile::tempdir().unwrap();
    let output = equate_in(&root, &line)
        .env("NO_COLOR", "1")
        .env("HOME", home.path())
        .envs(chart_case::environment(case))
        .output()
        .unwrap();
    let hide = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&*root.to_string_lossy(), "<ROOT>");
    let (printed, stderr) = (hide(&output.stdout), hide(&output.stderr));
    let recorded = |name: &str| case.answer(name).unwrap_or_default();
    let ours = |name: &str| {
        case.answer(&format!("our {name}"))
            .unwrap_or_else(|| recorded(name))
    };

    // the format ends every answer with a line break
    let ended = |text: &str| match text.is_empty() || text.ends_with('\n') {
        true => text.to_owned(),
        false => format!("{text}\n"),
    };
    let mut faults = String::new();
    let mut differ = |what: &str, want: &str, got: &str| {
        if want != got {
            let _ = write!(faults, "{what}: want\n{want}\n{what}: got\n{got}\n");
        }
    };
    differ("output", &ended(ours("output")), &ended(&printed));
    let mut errors: Vec<&str> = stderr.lines().collect();
    let mut log: Vec<&str> = errors.extract_if(.., |line| line.starts_with("level=")).collect();
    let error = errors.iter().flat_map(|line| [line, "\n"]).collect::<String>();
    differ(
        "error",
        ours("error"),
        error.strip_prefix("Error: ").unwrap_or(&error),
    );
    differ(
        "success",
        &recorded("error").is_empty().to_string(),
        &output.status.success().to_string(),
    );
    // lines for developers are left out; errors are in the text of the error, too
    let told = |line: &&str| line.starts_with("level=WARN") || line.starts_with("level=INFO");
    let mut logged: Vec<&str> = ours("log").lines().filter(told).collect();
    // Helm walks through maps in random order
    logged.sort_unstable();
    log.sort_unstable();
    differ("log", &logged.join("\n"), &log.join("\n"));
    for (path, text) in chart_case::left(case, &root).unwrap() {
        differ(&path, recorded(&format!("file {path}")), &text);
    }
    for name in case.answer_names().filter_map(|name| name.strip_prefix("file ")) {
        differ(name, "true", &root.join(name).exists().to_string());
    }
    (!faults.is_empty()).then_some(faults)
}

fn faults(paths: &[PathBuf]) -> String {
    let mut faults = String::new();
    for path in paths {
        let text = std::fs::read_to_string(path).unwrap();
        let case = Case::parse(&text).unwrap();
        let shown = path.display();
        if let Some(fault) = fault(&case) {
            let _ = write!(faults, "== {shown}\n{fault}\n");
        }
        let is_ours = case.answer("our error").is_some() || case.answer("our output").is_some();
        if is_ours && case.answer("difference").is_none() {
            let _ = write!(faults, "== {shown}\nours differs, and nothing says why\n");
        }
    }
    faults
}

#[test]
fn all_cases_match_helm() {
    let cases = cases();
    assert!(cases.len() >= 600, "{} cases", cases.len());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let faults: String = std::thread::scope(|scope| {
        let parts = cases.chunks(cases.len().div_ceil(threads));
        let parts: Vec<_> = parts.map(|part| scope.spawn(|| faults(part))).collect();
        parts.into_iter().map(|part| part.join().unwrap()).collect()
    });
    assert!(
        faults.is_empty(),
        "{} of {} cases:\n{faults}",
        faults.matches("== ").count(),
        cases.len()
    );
}

/// A chart of a registry is rendered as the same chart on disk.
#[test]
fn a_chart_of_a_registry_is_rendered() {
    let registry = equate_testkit::registry::RegistryServer::open().unwrap();
    let file = |name: &str, text: &str| equate_helm::File {
        name: name.into(),
        data: text.as_bytes().into(),
    };
    let chart = |version: &str| {
        let metadata = format!("apiVersion: v2\nname: web\nversion: {version}\n");
        let template =
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {v: '{{ .Chart.Version }}'}\n";
        let files = [file("Chart.yaml", &metadata), file("templates/a.yaml", template)];
        let package = equate_helm::package::Package::from_tree(files, &equate_helm::Limits::default());
        package.unwrap().write().unwrap()
    };
    for version in ["1.0.0", "1.1.0"] {
        let layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
        registry.artifact("charts/web", version, &[(layer, &chart(version))], &[]);
    }
    let home = tempfile::tempdir().unwrap();
    let check = |arguments: &[&str], is_fine: bool, expected: &str| {
        let url = format!("{}/charts/{}", registry.url(), arguments[0]);
        let line = [&["template", &url], &arguments[1..]].concat();
        let output = equate_in(home.path(), &line)
            .env("HOME", home.path())
            .output()
            .unwrap();
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        assert_eq!(output.status.success(), is_fine, "{printed}");
        assert!(printed.contains(expected), "{printed}");
    };
    check(&["web"], true, "data: {v: '1.1.0'}");
    check(&["web", "--version", "1.0.0"], true, "data: {v: '1.0.0'}");
    check(&["web", "--version", "<1.1"], true, "data: {v: '1.0.0'}");
    check(&["web:1.0.0"], true, "data: {v: '1.0.0'}");
    check(
        &["web", "--version", "7.x"],
        false,
        "could not locate a version matching provided version string 7.x",
    );
    check(&["none", "--version", "1.0.0"], false, "not found (HTTP 404)");
}

/// A directory of charts stands for a repository and for a registry, in every command that renders charts.
#[test]
fn a_directory_of_charts_stands_for_a_url() {
    let place = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = place.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let chart = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
    write("charts/web/Chart.yaml", chart);
    write("charts/web/values.yaml", "size: small\n");
    let template =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {size: '{{ .Values.size }}'}\n";
    write("charts/web/templates/a.yaml", template);
    let check = |line: &str, is_fine: bool, expected: &str| {
        let line: Vec<&str> = line.split_whitespace().collect();
        let mut command = equate_in(place.path(), &line);
        let output = command.env("HOME", place.path()).output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        assert_eq!(output.status.success(), is_fine, "{line:?}: {printed}");
        assert!(printed.contains(expected), "{line:?}: {printed}");
    };
    let http = "--instead-of https://charts.example.org=charts";
    let oci = "--instead-of oci://registry.example.org/charts=charts";
    for size in ["small", "large"] {
        write("charts/web/values.yaml", &format!("size: {size}\n"));
        let expected = &format!("size: '{size}'");
        let repo = format!("template web --repo https://charts.example.org {http}");
        check(&repo, true, expected);
        check(&format!("{repo} --version 1.0.0"), true, expected);
        check(&format!("{repo} --version ^1"), true, expected);
        let registry = format!("template oci://registry.example.org/charts/web {oci}");
        check(&registry, true, expected);
        check(&format!("{registry} --version 1.0.0"), true, expected);
        for repo in ["https://charts.example.org", "oci://registry.example.org/charts"] {
            let kustomization = format!("helmCharts:\n- {{name: web, repo: '{repo}', version: 1.0.0}}\n");
            write("app/kustomization.yaml", &kustomization);
            let line = format!("build app --enable-helm {http} {oci}");
            check(&line, true, &format!("size: {size}"));
        }
        for (kind, repo) in [
            ("default", "https://charts.example.org"),
            ("oci", "oci://registry.example.org/charts"),
        ] {
            let objects = format!(
                "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: web}}\nspec:\n  \
                 interval: 1m\n  chart: {{spec: {{chart: web, version: 1.x, sourceRef: {{kind: HelmRepository, \
                 name: charts}}}}}}\n---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\n\
                 metadata: {{name: charts}}\nspec: {{type: {kind}, interval: 1m, url: '{repo}'}}\n"
            );
            write("release.yaml", &objects);
            let line = "build helmrelease web -n shop --dry-run --helmrelease-file release.yaml";
            check(&format!("{line} {http} {oci}"), true, &format!("size: {size}"));
            let other = "--instead-of https://other.example.org=charts";
            check(
                &format!("{line} {other}"),
                false,
                &format!("its URL is {repo}, and no --instead-of stands for it"),
            );
            check(line, false, "and no --instead-of is given");
        }
    }
    let absent = format!("template none --repo https://charts.example.org {http}");
    check(
        &absent,
        false,
        "chart \"none\" not found in https://charts.example.org repository",
    );
    let missing =
        "template web --repo https://charts.example.org --instead-of https://charts.example.org=chart";
    check(missing, false, "chart is not a directory or archive");
}
