//! Decisions as values, and whole runs against a chart repository on loopback and a git repository.

use std::time::Duration;

use equate_api::meta::{ConditionType, Reason};
use equate_api::source::HelmChart;
use equate_helm::package::Package;
use equate_helm::{Chart, Limits};
use equate_source::Pauses;
use serde_json::{Value, json};

use super::act::{chart_values, unmade};
use super::build::{Build, with_metadata};
use super::declared::{Declared, clean};
use crate::kit::processors::JobError;
use crate::sources::charts::HelmSettings;
use crate::sources::failure::Failure;
use crate::sources::testing::{GIT_URL, Host, Session, chart, digest, index, told};

const KIND: &str = "HelmChart";

fn declared(spec: &Value) -> Declared {
    let object = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": KIND,
        "metadata": { "name": "app", "namespace": "apps", "uid": "1", "generation": 1 },
        "spec": spec,
    });
    let object: HelmChart = serde_json::from_value(object).unwrap();
    Declared::try_from(&object).unwrap()
}

#[test]
fn the_charts_own_values_are_no_values_files() {
    let check = |files: &[&str], expected: &[&str]| {
        let own = declared(&json!({
            "chart": "app", "interval": "1m", "valuesFiles": files,
            "sourceRef": { "kind": "HelmRepository", "name": "charts" },
        }));
        assert_eq!(own.values_files, expected);
    };
    check(&[], &[]);
    check(&["./values.yaml"], &[]);
    check(&["values.yaml", "a.yaml"], &["values.yaml", "a.yaml"]);
}

#[test]
fn values_files_are_merged_until_nobody_waits() {
    let package = Package::from_archive(&chart("app", "1.0.0", &[("a.yaml", "a: 1")]), &Limits::default());
    let (package, paths) = (package.unwrap(), vec!["a.yaml".to_owned(); 5]);
    let merged = |answers: usize| {
        let asked = std::cell::Cell::new(0);
        let go_on = || {
            asked.set(asked.get() + 1);
            asked.get() <= answers
        };
        let merged = chart_values(
            &package,
            (&paths, false),
            &Limits::default(),
            &Pauses::new(&go_on),
        );
        (merged.is_ok(), asked.get())
    };
    assert_eq!((merged(5), merged(3)), ((true, 5), (false, 4)));
}

#[test]
fn work_that_does_not_end_is_done_again() {
    let check = |files: &[&str], error: JobError, reason: Reason, message: &str| {
        let own = declared(&json!({
            "chart": "app", "interval": "1m", "valuesFiles": files,
            "sourceRef": { "kind": "HelmRepository", "name": "charts" },
        }));
        let expected = Failure::passing(ConditionType::BuildFailed, reason, message);
        assert_eq!(unmade(&error, &own), expected);
    };
    check(
        &[],
        JobError::Late(Duration::from_secs(60)),
        Reason::ChartPackageError,
        "chart package error: failed to load chart: it takes longer than 1m0s of a processor; use fewer files or \
         patterns, or raise --timeout-max",
    );
    check(
        &["a.yaml"],
        JobError::NoThread,
        Reason::ValuesFilesError,
        "values files merge error: failed to merge chart values: cannot start a thread; raise the limit of processes \
         of this container",
    );
    check(
        &[],
        JobError::Panicked(String::new()),
        Reason::ChartPackageError,
        "internal error while reconciling apps/app; see the controller's log",
    );
}

/// The commits and charts would take minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_work_does_not_stall() {
    let session = Session::limited(Duration::from_secs(2)).await;
    let values: String = (0..10_000)
        .map(|number| format!("a{number}: {{b: c}}\n"))
        .collect();
    let mut files = vec![(
        "app/Chart.yaml",
        Some("{apiVersion: v2, name: app, version: 1.0.0}"),
    )];
    files.push(("a.yaml", Some(&values)));
    let names: Vec<String> = (0..400)
        .map(|number| format!("{}{number}", "a".repeat(240)))
        .collect();
    files.extend(names.iter().map(|name| (&**name, Some("a"))));
    session.repository.commit(&files).unwrap();
    let patterns: String = (0..9000)
        .map(|number| format!("*{}-{number}\n", "a".repeat(90)))
        .collect();
    for (name, ignore) in [("quick", None), ("late", Some(patterns))] {
        let spec = json!({
            "url": GIT_URL, "ref": { "branch": "main" }, "interval": "1h", "ignore": ignore,
        });
        session
            .create("GitRepository", name, json!({ "spec": spec }))
            .await;
    }
    let spec = json!({
        "chart": "app", "interval": "1h", "valuesFiles": vec!["a.yaml"; 10_000],
        "sourceRef": { "kind": "GitRepository", "name": "quick" },
    });
    session.create(KIND, "app", json!({ "spec": spec })).await;
    let late = "it takes longer than 2s of a processor";
    for (kind, name, reason) in [
        (KIND, "app", "ValuesFilesError"),
        ("GitRepository", "late", "GitOperationFailed"),
    ] {
        let status = session.ready(kind, name, reason, late).await;
        let told = told(&status);
        assert!(!told.iter().any(|line| line.starts_with("Stalled")), "{told:?}");
    }
    session.stop().await;
}

#[test]
fn paths_stay_below_their_root() {
    for (path, expected) in [
        ("./charts/app/", "charts/app"),
        ("charts/../app", "app"),
        ("../../app", "app"),
        ("..", ""),
    ] {
        assert_eq!(clean(path), expected);
    }
}

#[test]
fn texts_are_those_of_flux() {
    let build = Build {
        name: "app".to_owned(),
        version: "1.0.0".to_owned(),
        packaged: false,
        values_files: Vec::new(),
        verified: false,
    };
    assert_eq!(build.summary(), "pulled 'app' chart with version '1.0.0'");
    assert_eq!(build.news(), "new 'app' chart with version '1.0.0'");
    let packaged = Build {
        packaged: true,
        values_files: vec!["a.yaml".to_owned(), "b.yaml".to_owned()],
        ..build
    };
    assert_eq!(
        packaged.summary(),
        "packaged 'app' chart with version '1.0.0' and merged values files [a.yaml b.yaml]"
    );
    let check = |version: &str, metadata: Option<&str>, expected: Result<&str, &str>| {
        let patched = with_metadata(version, metadata).map_err(|failure| failure.message);
        assert_eq!(patched, expected.map(str::to_owned).map_err(str::to_owned));
    };
    check("v1.0", None, Ok("v1.0"));
    check("v1.0", Some("1234567890ab.2"), Ok("1.0.0+1234567890ab.2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chart_of_a_repository_is_kept_byte_for_byte() {
    let (session, host) = (Session::start(HelmSettings::default()).await, Host::start().await);
    let values = [
        ("prod.yaml", "a: 2\nb: {c: true}\n"),
        ("templates/a.yaml", "a: {{ .Values.a }}\n"),
    ];
    let (first, second) = (chart("app", "1.0.0", &values), chart("app", "1.1.0", &values));
    let bad = chart("bad", "1.0.0", &[]);
    host.put("/app-1.0.0.tgz", first.clone());
    host.put("/files/app-1.1.0.tgz", second.clone());
    host.put("/bad-1.0.0.tgz", bad);
    let entries = [
        ("app", "1.0.0", "app-1.0.0.tgz", &*digest(&first)),
        ("bad", "1.0.0", "bad-1.0.0.tgz", &*digest(&second)),
    ];
    host.put("/index.yaml", index(&entries));
    let spec = json!({ "url": &host.address, "interval": "1h" });
    session
        .create("HelmRepository", "charts", json!({ "spec": spec }))
        .await;
    let create = async |name: &str, spec: Value| {
        let mut whole =
            json!({ "interval": "1h", "sourceRef": { "kind": "HelmRepository", "name": "charts" } });
        whole
            .as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        session.create(KIND, name, json!({ "spec": whole })).await;
    };

    create("app", json!({ "chart": "app", "version": "1.x" })).await;
    let status = session
        .ready(
            KIND,
            "app",
            "ChartPullSucceeded",
            "pulled 'app' chart with version '1.0.0'",
        )
        .await;
    assert_eq!(status["artifact"]["path"], "helmchart/apps/app/app-1.0.0.tgz");
    assert_eq!(status["artifact"]["revision"], "1.0.0");
    assert_eq!(status["observedChartName"], "app");
    assert_eq!(
        status["url"],
        "http://source:9090/helmchart/apps/app/latest.tar.gz"
    );
    assert_eq!(session.bytes(&status), first);
    session
        .event("Normal ChartPullSucceeded pulled 'app' chart with version '1.0.0'")
        .await;

    // an unchanged chart costs no request
    host.requests();
    let again = session.reconcile(KIND, "app", "1").await;
    assert_eq!(again["conditions"], status["conditions"]);
    assert_eq!(host.requests(), Vec::<String>::new());

    // values files of the chart
    create(
        "values",
        json!({ "chart": "app", "valuesFiles": ["values.yaml", "prod.yaml", "none.yaml"] }),
    )
    .await;
    let why =
        "values files merge error: failed to merge chart values: no values file found at path 'none.yaml'";
    let failed = session.ready(KIND, "values", "ValuesFilesError", why).await;
    assert!(told(&failed).contains(&format!("BuildFailed=True ValuesFilesError: {why}")));
    let patch = json!({ "spec": { "ignoreMissingValuesFiles": true } });
    session.patch(KIND, "values", patch).await;
    let text = "packaged 'app' chart with version '1.0.0+2' and merged values files [values.yaml prod.yaml]";
    let status = session.ready(KIND, "values", "ChartPackageSucceeded", text).await;
    assert_eq!(status["observedValuesFiles"], json!(["values.yaml", "prod.yaml"]));
    let packed = Chart::from_archive(&session.bytes(&status), &Limits::default()).unwrap();
    assert_eq!(packed.metadata.version, "1.0.0+2");
    assert_eq!(
        Value::Object((*packed.values).clone()),
        json!({ "a": 2.0, "b": { "c": true } })
    );
    let kept = session.reconcile(KIND, "values", "1").await;
    assert_eq!(kept["artifact"], status["artifact"]);
    assert_eq!(kept["conditions"], status["conditions"]);

    // the index and the chart disagree
    create("bad", json!({ "chart": "bad" })).await;
    let why =
        "chart pull error: failed to download chart for remote reference: the chart has the digest sha256:";
    session.ready(KIND, "bad", "ChartPullError", why).await;
    create("absent", json!({ "chart": "none" })).await;
    let why =
        "invalid chart reference: failed to get chart version for remote reference: no chart name found";
    session.ready(KIND, "absent", "InvalidChartReference", why).await;
    create("upper", json!({ "chart": "App" })).await;
    session
        .ready(KIND, "upper", "InvalidChartReference", "invalid chart name 'App'")
        .await;
    create(
        "signed",
        json!({ "chart": "app", "verify": { "provider": "cosign" } }),
    )
    .await;
    let why = "chart verification error: only charts of a HelmRepository of type oci have signatures";
    let failed = session.ready(KIND, "signed", "ChartVerificationError", why).await;
    assert_eq!(failed["artifact"], Value::Null);

    // a new index wakes the charts of its repository
    let entries = [
        ("app", "1.0.0", "app-1.0.0.tgz", ""),
        ("app", "1.1.0", "files/app-1.1.0.tgz", &*digest(&second)),
    ];
    host.put("/index.yaml", index(&entries));
    session.reconcile("HelmRepository", "charts", "1").await;
    let text = "pulled 'app' chart with version '1.1.0'";
    let status = session.ready(KIND, "app", "ChartPullSucceeded", text).await;
    assert_eq!(session.bytes(&status), second);

    let source = json!({ "kind": "HelmRepository", "name": "nowhere" });
    create("lost", json!({ "chart": "app", "sourceRef": source })).await;
    let why = "failed to get source: HelmRepository.source.toolkit.fluxcd.io \"nowhere\" not found";
    session.ready(KIND, "lost", "SourceUnavailable", why).await;
    session.delete(KIND, "app").await;
    session.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chart_of_a_git_repository_is_packaged_with_what_it_needs() {
    let (session, host) = (Session::start(HelmSettings::default()).await, Host::start().await);
    let db = chart("db", "2.0.1", &[]);
    host.put("/charts/db-2.0.1.tgz", db.clone());
    host.put(
        "/charts/index.yaml",
        index(&[("db", "2.0.1", "db-2.0.1.tgz", "")]),
    );
    let needs = format!(
        "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies:\n\
         - {{name: web, version: 0.x, repository: file://../web}}\n\
         - {{name: db, version: 2.x, repository: {}/charts}}\n",
        host.address
    );
    let first = session
        .repository
        .commit(&[
            ("charts/app/Chart.yaml", Some(&*needs)),
            ("charts/app/values.yaml", Some("a: 1\n")),
            ("charts/app/README.md", Some("text")),
            ("charts/app/.helmignore", Some("*.md\n")),
            (
                "charts/web/Chart.yaml",
                Some("{apiVersion: v2, name: web, version: 0.1.0}"),
            ),
            ("env/prod.yaml", Some("a: 2\n")),
        ])
        .unwrap();
    let spec = json!({ "url": GIT_URL, "ref": { "branch": "main" }, "interval": "1h" });
    let git = json!({ "kind": "GitRepository", "name": "fleet" });
    let app = json!({ "chart": "./charts/app", "interval": "1h", "sourceRef": git });
    session.create(KIND, "app", json!({ "spec": app })).await;
    session
        .ready(KIND, "app", "SourceUnavailable", "\"fleet\" not found")
        .await;
    session
        .create("GitRepository", "fleet", json!({ "spec": spec }))
        .await;
    let text = "packaged 'app' chart with version '1.0.0'";
    let status = session.ready(KIND, "app", "ChartPackageSucceeded", text).await;
    assert_eq!(
        status["observedSourceArtifactRevision"],
        format!("main@sha1:{first}")
    );
    session
        .event("Normal ResolvedDependencies resolved 2 chart dependencies")
        .await;
    let bytes = session.bytes(&status);
    let packed = Chart::from_archive(&bytes, &Limits::default()).unwrap();
    let names: Vec<&str> = packed.dependencies.iter().map(|chart| chart.name()).collect();
    assert_eq!(names, ["db", "web"]);
    assert!(packed.files.iter().all(|file| &*file.name != "README.md"));

    // the version of the chart is the same: another revision of the source packages nothing
    let second = session.repository.commit(&[("other", Some("1"))]).unwrap();
    let observed = format!("main@sha1:{second}");
    let kept = session
        .until(KIND, "app", "ChartPackageSucceeded", text, |status| {
            status["observedSourceArtifactRevision"] == observed
        })
        .await;
    assert_eq!(kept["artifact"], status["artifact"]);

    // each revision, with values files of the source
    let patch = json!({ "spec": { "reconcileStrategy": "Revision", "valuesFiles": ["/env/prod.yaml"] } });
    session.patch(KIND, "app", patch).await;
    let version = format!("1.0.0+{}.2", &second[..12]);
    let text =
        format!("packaged 'app' chart with version '{version}' and merged values files [/env/prod.yaml]");
    let status = session.ready(KIND, "app", "ChartPackageSucceeded", &text).await;
    assert_eq!(
        status["artifact"]["path"],
        format!("helmchart/apps/app/app-{version}.tgz")
    );
    let packed = Chart::from_archive(&session.bytes(&status), &Limits::default()).unwrap();
    assert_eq!(packed.values["a"], json!(2.0));

    // the chart is gone
    session
        .patch(KIND, "app", json!({ "spec": { "chart": "charts/none" } }))
        .await;
    let why = "invalid chart reference: no chart found at 'charts/none'";
    let failed = session.ready(KIND, "app", "InvalidChartReference", why).await;
    assert_eq!(
        failed["artifact"], status["artifact"],
        "the last artifact is kept"
    );

    // a local dependency that does not fit
    let web = "{apiVersion: v2, name: web, version: 1.0.0}";
    session
        .repository
        .commit(&[("charts/web/Chart.yaml", Some(web))])
        .unwrap();
    session
        .patch(KIND, "app", json!({ "spec": { "chart": "charts/app" } }))
        .await;
    let why = "dependency build error: failed to add local dependency 'web': can't get a valid version for \
               constraint '0.x'";
    session.ready(KIND, "app", "DependencyBuildError", why).await;
    session.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_and_logins_of_charts() {
    let settings = HelmSettings {
        chart_bytes_max: 4000,
        chart_file_bytes_max: 6000,
        ..HelmSettings::default()
    };
    let (session, host, files) = (
        Session::start(settings).await,
        Host::start().await,
        Host::start().await,
    );
    let app = chart("app", "1.0.0", &[]);
    files.put("/app.tgz", app.clone());
    files.put("/large.tgz", vec![0; 4001]);
    files.put(
        "/file.tgz",
        chart("file", "1.0.0", &[("a.txt", &"x".repeat(6001))]),
    );
    files.put("/text.tgz", "no chart");
    host.require("dXNlcjpwYXNz");
    files.require("dXNlcjpwYXNz");
    let url = |name: &str| format!("{}/{name}.tgz", files.address);
    let entries: Vec<(&str, String)> = ["app", "large", "file", "text", "gone"]
        .iter()
        .map(|name| (*name, url(name)))
        .collect();
    let entries: Vec<_> = entries
        .iter()
        .map(|(name, url)| (*name, "1.0.0", &**url, ""))
        .collect();
    host.put("/index.yaml", index(&entries));
    let login = json!({ "stringData": { "username": "user", "password": "pass" } });
    session.create("Secret", "login", login).await;
    let spec = json!({ "url": &host.address, "interval": "1h", "secretRef": { "name": "login" } });
    session
        .create("HelmRepository", "charts", json!({ "spec": spec }))
        .await;
    let source = json!({ "kind": "HelmRepository", "name": "charts" });
    let create = async |name: &str| {
        let spec = json!({ "chart": name, "interval": "1h", "sourceRef": source });
        session.create(KIND, name, json!({ "spec": spec })).await;
    };

    // the login stays at the host of the repository
    create("app").await;
    let why = "failed to authenticate with the Helm repository: chart pull error: failed to download chart for remote \
               reference: failed to fetch";
    session.ready(KIND, "app", "AuthenticationFailed", why).await;
    assert_eq!(files.requests().first().map(String::as_str), Some("/app.tgz 401"));
    session
        .patch(
            "HelmRepository",
            "charts",
            json!({ "spec": { "passCredentials": true } }),
        )
        .await;
    session.reconcile(KIND, "app", "1").await;
    let status = session
        .ready(KIND, "app", "ChartPullSucceeded", "pulled 'app'")
        .await;
    assert_eq!(session.bytes(&status), app);

    for (name, why) in [
        (
            "large",
            "size of chart exceeds '4000' bytes limit (--helm-chart-max-size)",
        ),
        ("file", "is larger than the maximum file size 6000"),
        ("text", "failed to load chart metadata from written chart"),
        ("gone", "404 Not Found"),
    ] {
        create(name).await;
        session.ready(KIND, name, "ChartPullError", why).await;
    }

    // a suspended chart is left alone
    session
        .patch(KIND, "app", json!({ "spec": { "suspend": true } }))
        .await;
    files.requests();
    session.reconcile(KIND, "app", "2").await;
    assert!(
        files
            .requests()
            .iter()
            .all(|request| !request.starts_with("/app.tgz"))
    );
    session.stop().await;
}
