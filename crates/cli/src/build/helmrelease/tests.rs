use super::{BuildArgs, render, text};
use crate::failure::chain;
use crate::fixture::Fixture;
use clap::Parser;
use kube::Client;
use std::path::Path;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: BuildArgs,
}

async fn built(directory: &Path, line: &str, client: Option<&Client>) -> String {
    let words = line.replace("HERE", &directory.display().to_string());
    let words = std::iter::once("helmrelease").chain(words.split_whitespace());
    let args = Line::try_parse_from(words).unwrap().args;
    match render(&args, client).await {
        Ok(objects) => text(objects, args.no_hooks),
        Err(error) => {
            let error = chain(&error).replace(&directory.display().to_string(), "HERE");
            format!("error: {error}\n")
        }
    }
}

/// A repository with a chart and a HelmRelease of it.
fn repository() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = place.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "charts/web/Chart.yaml",
        "apiVersion: v2\nname: web\nversion: 1.4.0\n",
    );
    write("charts/web/values.yaml", "size: small\ncolour: red\n");
    write("prod.yaml", "size: large\n");
    write(
        "charts/web/templates/map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n  namespace: {{ .Release.Namespace }}\n\
         data:\n  text: {{ .Values.size }} {{ .Values.colour }} {{ .Values.password }} {{ .Chart.Version }}\n\
         \x20 revision: {{ .Release.Revision | quote }}\n\
         {{- with lookup \"v1\" \"ConfigMap\" \"shop\" \"seen\" }}\n  seen: {{ .data.text }}\n{{- end }}\n",
    );
    write(
        "charts/web/templates/job.yaml",
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: before, annotations: {helm.sh/hook: pre-install}}\n",
    );
    write(
        "charts/web/crds/crd.yaml",
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.org}\n",
    );
    write("release.yaml", RELEASE);
    write(
        "remote.yaml",
        &RELEASE.replace("kind: GitRepository", "kind: HelmRepository"),
    );
    place
}

const RELEASE: &str = "
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: shop}
spec:
  interval: 1m
  chart:
    spec:
      chart: ./charts/web
      sourceRef: {kind: GitRepository, name: fleet, namespace: flux-system}
      valuesFiles: [charts/web/values.yaml, prod.yaml]
  commonMetadata: {annotations: {team: shop}}
  valuesFrom:
  - {kind: ConfigMap, name: settings}
  - {kind: Secret, name: keys, valuesKey: password, targetPath: password}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {values.yaml: 'colour: blue'}
---
apiVersion: v1
kind: Secret
metadata: {name: keys, namespace: shop}
stringData: {password: hunter2}
";

const DRY: &str = "web -n shop --dry-run --helmrelease-file HERE/release.yaml";
const SOURCE: &str = "--local-sources GitRepository/flux-system/fleet=HERE";

#[tokio::test]
async fn release_is_rendered_without_a_cluster() {
    let place = repository();
    let definition = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.example.org
---
";
    let map = "apiVersion: v1
data:
  revision: \"1\"
  text: large blue hunter2 1.4.0
kind: ConfigMap
metadata:
  annotations:
    team: shop
  labels:
    helm.toolkit.fluxcd.io/name: web
    helm.toolkit.fluxcd.io/namespace: shop
  name: web
  namespace: shop
---
";
    let hook = "apiVersion: batch/v1
kind: Job
metadata:
  annotations:
    helm.sh/hook: pre-install
  name: before
---
";
    let out = built(place.path(), &format!("{DRY} {SOURCE}"), None).await;
    assert!(out.starts_with(definition) && out.contains(map), "{out}");
    let hooks = &out[definition.len() + map.len()..];
    assert!(hooks.contains("kind: Job"), "{out}");
    let out = built(place.path(), &format!("{DRY} {SOURCE} --no-hooks"), None).await;
    assert_eq!(out, format!("{definition}{map}"), "{hook}");
    // a chart alone has no files of the source
    let alone = built(place.path(), &format!("{DRY} --path HERE/charts/web"), None).await;
    assert_eq!(
        alone,
        "error: HelmRelease shop/web: values files merge error: failed to merge chart values: no values file found at \
         path 'charts/web/values.yaml'\n"
    );
}

#[tokio::test]
async fn charts_that_are_not_in_reach_are_named() {
    let place = repository();
    let check = async |line: &str, expected: &str| {
        assert_eq!(
            built(place.path(), line, None).await,
            format!("error: {expected}\n")
        );
    };
    let what =
        "name a local copy with --path, or the directory of the source with --local-sources or --instead-of";
    check(
        "web -n shop --dry-run --helmrelease-file HERE/remote.yaml",
        &format!(
            "HelmRelease shop/web: the chart of HelmRepository/flux-system/fleet is not in reach: charts of a \
             HelmRepository are not fetched here, and no --instead-of is given; {what}"
        ),
    )
    .await;
    check(
        DRY,
        &format!(
            "HelmRelease shop/web: the chart of GitRepository/flux-system/fleet is not in reach: its URL is not known \
             without a cluster; {what}"
        ),
    )
    .await;
    check(
        "other -n shop --dry-run --helmrelease-file HERE/release.yaml",
        "HERE/release.yaml has no HelmRelease other in namespace shop",
    )
    .await;
}

#[tokio::test]
async fn templates_and_values_see_the_cluster() {
    let place = repository();
    let fixture = Fixture::start().await;
    fixture
        .apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
        .await;
    fixture.apply(RELEASE).await;
    fixture
        .apply(
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: seen, namespace: shop}, data: {text: here}}",
        )
        .await;
    let client = Some(&fixture.connection.client);
    let out = built(place.path(), &format!("web -n shop {SOURCE}"), client).await;
    assert!(out.contains("  text: large blue hunter2 1.4.0\n"), "{out}");
    assert!(out.contains("  seen: here\n"), "{out}");
    let missing = built(place.path(), &format!("none -n shop {SOURCE}"), client).await;
    assert_eq!(missing, "error: HelmRelease shop/none not found in the cluster\n");
}
