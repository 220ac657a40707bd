//! The field matrix: the supported Flux fields and annotations, with the tests that prove each.
//!
//! Rows come from the definitions, proofs from the test names in `crates/controllers/tests/it/fields`. A
//! row without a test needs a reason here, and a test ending in `_is_refused` proves no support. A test
//! without a row and an unneeded reason are errors, so the page promises nothing untested.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use equate_api::extensions::ArtifactGenerator;
use equate_api::helm::HelmRelease;
use equate_api::kustomize::Kustomization;
use equate_api::source::{Bucket, ExternalArtifact, GitRepository, HelmChart, HelmRepository, OciRepository};
use kube::CustomResourceExt as _;
use serde_json::Value;

use super::Error;

const PAGE: &str = "../../docs/compatibility.d/fields.md";
const TESTS: &str = "../controllers/tests/it/fields";
const REFUSAL: &str = "_is_refused";

const HEADER: &str = "\
# Every field of the kinds of Flux, and its tests

This page lists every field of these kinds in Flux 2.9: Kustomization, GitRepository, OCIRepository, Bucket,
HelmRepository, HelmChart, ArtifactGenerator and ExternalArtifact. It also lists the annotations and labels of these objects and
of the objects they apply.

- A supported field has at least one test, which runs on the embedded API and on a real kube-apiserver 1.36.
- An unsupported field makes the object `Stalled`, and the message names the field.
- After a reference to a Secret, the row lists the entries of the Secret.
- Annotations of `equate.dev` are Equate's own.

[loop.md](loop.md), [git-repository.md](git-repository.md), [oci-repository.md](oci-repository.md),
[bucket.md](bucket.md), [chart-sources.md](chart-sources.md), [helm-release.md](helm-release.md) and
[artifact-generator.md](artifact-generator.md) describe fields that work differently. `cargo xtask gen` writes this page from the names of the tests in
`crates/controllers/tests/it/fields`.
";

/// Rows whose subfields are one row.
const WHOLE: &[&str] = &[
    "status.artifact",
    "status.conditions",
    "status.history",
    "status.includedArtifacts",
    "status.observedInclude",
];

/// Variants of a field: kind, field, the content of the Secret, and the suffix in test names.
const FORMS: &[(&str, &str, &str, &str)] = &[
    (
        "GitRepository",
        "spec.secretRef.name",
        "username, password",
        "basic",
    ),
    (
        "GitRepository",
        "spec.secretRef.name",
        "bearerToken",
        "bearer_token",
    ),
    ("GitRepository", "spec.secretRef.name", "ca.crt", "ca"),
    (
        "GitRepository",
        "spec.secretRef.name",
        "tls.crt, tls.key",
        "client_certificate",
    ),
    (
        "GitRepository",
        "spec.secretRef.name",
        "identity, known_hosts",
        "ssh",
    ),
    (
        "GitRepository",
        "spec.secretRef.name",
        "identity, known_hosts, password",
        "ssh_password",
    ),
    (
        "GitRepository",
        "spec.proxySecretRef.name",
        "address, username, password",
        "credentials",
    ),
    (
        "GitRepository",
        "spec.proxySecretRef.name",
        "an address of socks5://",
        "socks5",
    ),
    (
        "GitRepository",
        "spec.proxySecretRef.name",
        "with a url of ssh://",
        "of_an_ssh_url",
    ),
    (
        "HelmRepository",
        "spec.secretRef.name",
        ".dockerconfigjson, of a registry",
        "docker",
    ),
    (
        "HelmRepository",
        "spec.certSecretRef.name",
        "tls.crt, tls.key",
        "client_certificate",
    ),
];

/// Rows other than fields: their text, and their prefix in test names.
const MARKS: &[(&str, &str, &str)] = &[
    (
        "Kustomization",
        "reconcile.fluxcd.io/requestedAt",
        "annotation_requested_at",
    ),
    (
        "Kustomization",
        "reconcile.fluxcd.io/watch, a label of ConfigMaps and Secrets",
        "label_watch",
    ),
    (
        "Kustomization",
        "sharding.fluxcd.io/key, a label",
        "label_sharding",
    ),
    (
        "Kustomization",
        "event.toolkit.fluxcd.io/*, metadata of its events",
        "annotation_event",
    ),
    (
        "Kustomization",
        "equate.dev/prune-budget",
        "annotation_prune_budget",
    ),
    (
        "Kustomization",
        "equate.dev/prune-confirm",
        "annotation_prune_confirm",
    ),
    (
        "Kustomization",
        "equate.dev/allow-empty",
        "annotation_allow_empty",
    ),
    (
        "Kustomization",
        "kustomize.toolkit.fluxcd.io/ssa: Override",
        "annotation_ssa_override",
    ),
    (
        "Kustomization",
        "kustomize.toolkit.fluxcd.io/ssa: Merge",
        "annotation_ssa_merge",
    ),
    (
        "Kustomization",
        "kustomize.toolkit.fluxcd.io/ssa: IfNotPresent",
        "annotation_ssa_if_not_present",
    ),
    (
        "Kustomization",
        "kustomize.toolkit.fluxcd.io/ssa: Ignore",
        "annotation_ssa_ignore",
    ),
    (
        "Kustomization",
        "kustomize.toolkit.fluxcd.io/prune: Disabled",
        "annotation_prune",
    ),
    (
        "Kustomization",
        "kustomize.toolkit.fluxcd.io/force: Enabled",
        "annotation_force",
    ),
    (
        "Kustomization",
        "kustomize.toolkit.fluxcd.io/substitute: disabled",
        "annotation_substitute",
    ),
    (
        "Kustomization",
        "kustomize.toolkit.fluxcd.io/reconcile: disabled",
        "annotation_reconcile",
    ),
    (
        "Kustomization",
        "kustomize.toolkit.fluxcd.io/decrypt: disabled",
        "annotation_decrypt",
    ),
    (
        "GitRepository",
        "reconcile.fluxcd.io/requestedAt",
        "annotation_requested_at",
    ),
    (
        "GitRepository",
        "sharding.fluxcd.io/key, a label",
        "label_sharding",
    ),
    (
        "GitRepository",
        "event.toolkit.fluxcd.io/*, metadata of its events",
        "annotation_event",
    ),
    (
        "OCIRepository",
        "reconcile.fluxcd.io/requestedAt",
        "annotation_requested_at",
    ),
    (
        "OCIRepository",
        "sharding.fluxcd.io/key, a label",
        "label_sharding",
    ),
    (
        "Bucket",
        "reconcile.fluxcd.io/requestedAt",
        "annotation_requested_at",
    ),
    ("Bucket", "sharding.fluxcd.io/key, a label", "label_sharding"),
    (
        "HelmRepository",
        "reconcile.fluxcd.io/requestedAt",
        "annotation_requested_at",
    ),
    (
        "HelmRepository",
        "sharding.fluxcd.io/key, a label",
        "label_sharding",
    ),
    (
        "HelmRepository",
        "event.toolkit.fluxcd.io/*, metadata of its events",
        "annotation_event",
    ),
    (
        "HelmChart",
        "reconcile.fluxcd.io/requestedAt",
        "annotation_requested_at",
    ),
    ("HelmChart", "sharding.fluxcd.io/key, a label", "label_sharding"),
    (
        "HelmChart",
        "event.toolkit.fluxcd.io/*, metadata of its events",
        "annotation_event",
    ),
    (
        "HelmRelease",
        "reconcile.fluxcd.io/requestedAt",
        "annotation_requested_at",
    ),
    (
        "HelmRelease",
        "reconcile.fluxcd.io/forceAt",
        "annotation_force_at",
    ),
    (
        "HelmRelease",
        "reconcile.fluxcd.io/resetAt",
        "annotation_reset_at",
    ),
    (
        "HelmRelease",
        "reconcile.fluxcd.io/watch, a label of ConfigMaps and Secrets",
        "label_watch",
    ),
    ("HelmRelease", "sharding.fluxcd.io/key, a label", "label_sharding"),
    (
        "HelmRelease",
        "event.toolkit.fluxcd.io/*, metadata of its events",
        "annotation_event",
    ),
    (
        "HelmRelease",
        "helm.toolkit.fluxcd.io/driftDetection: disabled",
        "annotation_drift_detection",
    ),
    (
        "ArtifactGenerator",
        "reconcile.fluxcd.io/requestedAt",
        "annotation_requested_at",
    ),
    (
        "ArtifactGenerator",
        "sharding.fluxcd.io/key, a label",
        "label_sharding",
    ),
    (
        "ArtifactGenerator",
        "source.extensions.fluxcd.io/reconcile: disabled",
        "annotation_reconcile",
    ),
];

/// Rows without a supporting test: kind, the row or its parent, the reason.
const MISSING: &[(&str, &str, &str)] = &[
    ("Kustomization", "spec.decryption.serviceAccountName", CLOUD),
    ("GitRepository", "spec.serviceAccountName", CLOUD),
    ("GitRepository", "spec.provider: aws", CLOUD),
    ("GitRepository", "spec.provider: azure", CLOUD),
    ("OCIRepository", "spec.provider: aws", CLOUD),
    ("OCIRepository", "spec.provider: azure", CLOUD),
    ("OCIRepository", "spec.provider: gcp", CLOUD),
    ("Bucket", "spec.serviceAccountName", CLOUD),
    ("HelmRepository", "spec.provider: aws", CLOUD),
    ("HelmRepository", "spec.provider: azure", CLOUD),
    ("HelmRepository", "spec.provider: gcp", CLOUD),
];
const CLOUD: &str = "refused: tokens of cloud identities are not supported yet";

struct Kind {
    name: &'static str,
    /// The folder of its tests.
    folder: &'static str,
    definition: Value,
}

/// A row: its text, and its name in tests.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    written: String,
    called: String,
}

/// Writes the page, or with `check` compares it.
pub(super) fn generate(check: bool) -> Result<(), Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let text = page()?;
    super::settle(path, &text, check)
}

fn page() -> Result<String, Error> {
    let definition = |crd| serde_json::to_value(crd).map_err(Error::Definition);
    let kinds = [
        Kind {
            name: "Kustomization",
            folder: "kustomization",
            definition: definition(Kustomization::crd())?,
        },
        Kind {
            name: "GitRepository",
            folder: "git_repository",
            definition: definition(GitRepository::crd())?,
        },
        Kind {
            name: "OCIRepository",
            folder: "oci_repository",
            definition: definition(OciRepository::crd())?,
        },
        Kind {
            name: "Bucket",
            folder: "bucket",
            definition: definition(Bucket::crd())?,
        },
        Kind {
            name: "HelmRepository",
            folder: "helm_repository",
            definition: definition(HelmRepository::crd())?,
        },
        Kind {
            name: "HelmChart",
            folder: "helm_chart",
            definition: definition(HelmChart::crd())?,
        },
        Kind {
            name: "HelmRelease",
            folder: "helm_release",
            definition: definition(HelmRelease::crd())?,
        },
        Kind {
            name: "ArtifactGenerator",
            folder: "artifact_generator",
            definition: definition(ArtifactGenerator::crd())?,
        },
        Kind {
            name: "ExternalArtifact",
            folder: "external_artifact",
            definition: definition(ExternalArtifact::crd())?,
        },
    ];
    let (mut text, mut faults) = (HEADER.to_owned(), Vec::new());
    for kind in &kinds {
        let tests = tests(kind.folder)?;
        let rows = rows(kind);
        // writing to a String cannot fail
        let _ = write!(
            text,
            "\n## {}\n\n| field | supported | tests |\n|---|---|---|\n",
            kind.name
        );
        let mut proven = BTreeSet::new();
        for row in &rows {
            let proofs: Vec<&str> = tests
                .iter()
                .filter(|test| proves(test, row, &rows))
                .map(String::as_str)
                .collect();
            proven.extend(proofs.iter().map(|test| (*test).to_owned()));
            match line(kind, row, &proofs) {
                Ok(line) => drop(writeln!(text, "{line}")),
                Err(fault) => faults.push(fault),
            }
        }
        let stray = tests.iter().filter(|test| !proven.contains(*test));
        faults.extend(stray.map(|test| format!("the test {test} of {} does not name a field", kind.folder)));
    }
    match faults.is_empty() {
        true => Ok(text),
        false => Err(Error::Source(faults.join("\n"))),
    }
}

/// A row of the page, or the fault that prevents it.
fn line(kind: &Kind, row: &Row, proofs: &[&str]) -> Result<String, String> {
    let covers = |part: &str| {
        let rest = row.written.strip_prefix(part);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':']))
    };
    let missing = MISSING
        .iter()
        .find(|(of, part, _)| *of == kind.name && covers(part));
    let written = &row.written;
    let works = proofs.iter().find(|test| !test.ends_with(REFUSAL));
    let names = proofs.iter().map(|test| format!("`{test}`"));
    let tests = names.collect::<Vec<_>>().join(", ");
    match (missing, works) {
        (None, None) => Err(format!(
            "{} {written} has neither a test ({}...) nor a reason",
            kind.name, row.called
        )),
        (Some(_), Some(test)) => Err(format!(
            "{} {written} has the test {test} and needs no reason",
            kind.name
        )),
        (Some((.., why)), None) => {
            let tests = if tests.is_empty() {
                tests
            } else {
                format!(": {tests}")
            };
            Ok(format!("| `{written}` | no | {why}{tests} |"))
        }
        (None, Some(_)) => Ok(format!("| `{written}` | yes | {tests} |")),
    }
}

/// Whether a test belongs to a row, and to no more specific one.
fn proves(test: &str, row: &Row, rows: &[Row]) -> bool {
    let named = |row: &Row| {
        let rest = test.strip_prefix(row.called.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    let closer = |other: &Row| other.called.len() > row.called.len() && named(other);
    named(row) && !rows.iter().any(closer)
}

fn tests(folder: &str) -> Result<BTreeSet<String>, Error> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(TESTS).join(folder);
    let mut names = BTreeSet::new();
    for path in sources(&folder)? {
        let text = std::fs::read_to_string(&path).map_err(|source| Error::Read { path, source })?;
        let (mut marked, mut table) = (false, false);
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("async fn ").filter(|_| marked) {
                names.extend(rest.split('(').next().map(str::to_owned));
            }
            // in a table of tests, each line starts with a name
            let named = line.strip_prefix("    ").and_then(|line| line.split_once(": "));
            if let Some((name, _)) = named.filter(|_| table)
                && name
                    .bytes()
                    .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
            {
                names.insert(name.to_owned());
            }
            marked = line.starts_with("#[tokio::test") || marked && line.starts_with("#[");
            table = line == "fields! {" || table && line != "}";
        }
    }
    Ok(names)
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let read = |source| Error::Read {
        path: folder.to_owned(),
        source,
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(read)? {
        paths.push(entry.map_err(read)?.path());
    }
    paths.sort();
    Ok(paths)
}

/// All rows of a kind: its fields in the definition's order, then the others.
fn rows(kind: &Kind) -> Vec<Row> {
    let schema = &kind.definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut rows = Vec::new();
    for part in ["spec", "status"] {
        fields(&schema["properties"][part], part, &mut rows);
    }
    let mut rows: Vec<Row> = rows.into_iter().flat_map(|row| forms(kind, row)).collect();
    let marks = MARKS.iter().filter(|(of, ..)| *of == kind.name);
    rows.extend(marks.map(|(_, written, called)| Row {
        written: (*written).to_owned(),
        called: (*called).to_owned(),
    }));
    rows
}

fn forms(kind: &Kind, row: Row) -> Vec<Row> {
    let forms = FORMS
        .iter()
        .filter(|(of, field, ..)| *of == kind.name && *field == row.written);
    let forms: Vec<Row> = forms
        .map(|(_, field, holds, called)| Row {
            written: format!("{field}: {holds}"),
            called: format!("{}_{called}", row.called),
        })
        .collect();
    [row].into_iter().chain(forms).collect()
}

fn fields(schema: &Value, path: &str, rows: &mut Vec<Row>) {
    let item = match schema["type"].as_str() {
        Some("array") => &schema["items"],
        _ => schema,
    };
    if let Some(properties) = item["properties"].as_object().filter(|_| !WHOLE.contains(&path)) {
        for (name, schema) in properties {
            fields(schema, &format!("{path}.{name}"), rows);
        }
        return;
    }
    let values = item["enum"].as_array().into_iter().flatten();
    let values: Vec<&str> = values
        .filter_map(Value::as_str)
        .filter(|value| !value.is_empty())
        .collect();
    if values.is_empty() {
        rows.push(Row {
            written: path.to_owned(),
            called: words(path),
        });
    }
    rows.extend(values.into_iter().map(|value| Row {
        written: format!("{path}: {value}"),
        called: format!("{}_{}", words(path), words(value)),
    }));
}

/// `spec.dependsOn.readyExpr` as `spec_depends_on_ready_expr`.
fn words(path: &str) -> String {
    let mut words = String::new();
    let mut inside = false;
    for letter in path.chars() {
        if letter.is_ascii_alphanumeric() {
            if letter.is_ascii_uppercase() && inside {
                words.push('_');
            }
            words.push(letter.to_ascii_lowercase());
            inside = !letter.is_ascii_uppercase();
        } else {
            words.push('_');
            inside = false;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_words() {
        for (path, expected) in [
            ("spec.dependsOn.readyExpr", "spec_depends_on_ready_expr"),
            ("spec.kubeConfig.secretRef.key", "spec_kube_config_secret_ref_key"),
            ("TagAndHEAD", "tag_and_head"),
            ("HEAD", "head"),
        ] {
            assert_eq!(words(path), expected, "{path}");
        }
    }

    #[test]
    fn the_closest_row_is_proven() {
        let row = |called: &str| Row {
            written: called.to_owned(),
            called: called.to_owned(),
        };
        let rows = [row("spec_wait"), row("spec_wait_long"), row("spec_waiter")];
        for (test, expected) in [
            ("spec_wait", Some(0)),
            ("spec_wait_for_it", Some(0)),
            ("spec_wait_long_for_it", Some(1)),
            ("spec_waiter", Some(2)),
            ("spec_weight", None),
        ] {
            let found = rows.iter().position(|row| proves(test, row, &rows));
            assert_eq!(found, expected, "{test}");
        }
    }
}
