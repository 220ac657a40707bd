//! `equate up` on a fleet with charts, in the shape of flux2-kustomize-helm-example: its sources are
//! directories of this machine.

use super::session::{Fleet, example_files, printed};
use equate_helm::package::Package;
use std::fs;
use std::path::Path;

/// The charts of the example in a directory of their own: one is packed, the others are directories.
fn charts() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for (path, text) in example_files("charts") {
        let path = place.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let redis = place.path().join("redis");
    let package = Package::from_path(&redis, &equate_helm::Limits::default()).unwrap();
    fs::write(place.path().join("redis-7.2.0.tgz"), package.write().unwrap()).unwrap();
    fs::remove_dir_all(redis).unwrap();
    place
}

fn instead(charts: &Path) -> Vec<String> {
    let pair = |url: &str| format!("--instead-of={url}={}", charts.display());
    ["https://charts.example.org", "oci://registry.example.org/charts"]
        .map(pair)
        .to_vec()
}

fn once(fleet: &Fleet, cluster: &str, instead: &[String]) -> (Option<i32>, String) {
    let path = format!("clusters/{cluster}");
    let mut arguments = vec!["up", "--path", &path, "--once"];
    arguments.extend(instead.iter().map(String::as_str));
    let output = fleet.equate(&arguments);
    (output.status.code(), printed(&output))
}

#[test]
fn a_fleet_with_charts_is_ready() {
    let (fleet, charts) = (Fleet::of("helm-fleet"), charts());
    for cluster in ["staging", "production"] {
        let (code, text) = once(&fleet, cluster, &instead(charts.path()));
        assert_eq!(code, Some(0), "{text}");
        for expected in [
            "ready    HelmRepository/cert-manager/cert-manager",
            "ready    Kustomization/apps",
            "ready    Kustomization/infra-configs",
            "ready    Kustomization/infra-controllers",
            "ready    HelmRelease/cert-manager/cert-manager",
            "ready    HelmRelease/ingress-nginx/ingress-nginx",
            "ready    HelmRelease/podinfo/podinfo",
            "ready    HelmRelease/podinfo/redis",
            "ready    Deployment/podinfo/podinfo",
        ] {
            assert!(text.contains(expected), "{cluster}: no {expected:?} in\n{text}");
        }
    }
}

#[test]
fn a_changed_chart_is_released() {
    let (fleet, charts) = (Fleet::of("helm-fleet"), charts());
    let instead = instead(charts.path());
    let arguments: Vec<&str> = instead.iter().map(String::as_str).collect();
    let up = fleet.up_in(
        "clusters/staging",
        &arguments,
        "ready    HelmRelease/podinfo/podinfo",
    );
    let edit = |path: &str, from: &str, to: &str| {
        let path = charts.path().join(path);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replace(from, to)).unwrap();
    };
    let reconcile = |name: &str, expected: &str| {
        let said = printed(&fleet.equate(&["reconcile", "hr", name, "-n", name, "--with-source"]));
        assert!(said.contains(expected), "{expected}: {said}");
    };
    reconcile("podinfo", "podinfo/podinfo.v1 with chart podinfo@6.9.1+");
    // the same version with other files
    edit(
        "podinfo/values.yaml",
        "example.org/podinfo",
        "example.org/podinfo-next",
    );
    reconcile("podinfo", "podinfo/podinfo.v2 with chart podinfo@6.9.1+");
    edit("ingress-nginx/Chart.yaml", "4.13.1", "4.14.0");
    reconcile(
        "ingress-nginx",
        "ingress-nginx/ingress-nginx.v2 with chart ingress-nginx@4.14.0+",
    );
    reconcile(
        "cert-manager",
        "helmrepository/cert-manager is static: nothing to reconcile",
    );
    // nothing asks for it
    edit("cert-manager/Chart.yaml", "1.18.2", "1.19.0");
    up.wait_for("ready    HelmRelease/cert-manager/cert-manager  1.19.0");
}

#[test]
fn objects_of_a_ready_release_show_that_they_crash() {
    let (fleet, charts) = (Fleet::of("helm-fleet"), charts());
    let template = charts.path().join("podinfo/templates/deployment.yaml");
    let text = fs::read_to_string(&template).unwrap();
    let crashing = "  annotations: {equate.dev/simulate: CrashLoopBackOff}\n  labels:";
    fs::write(template, text.replacen("  labels:", crashing, 1)).unwrap();
    let release = "apps/base/podinfo/release.yaml";
    let text = fleet
        .read(release)
        .replace("  install:\n", "  install:\n    disableWait: true\n");
    fleet.commit(release, Some(&text));
    let instead = instead(charts.path());
    let arguments: Vec<&str> = instead.iter().map(String::as_str).collect();
    let ready = "ready    HelmRelease/podinfo/podinfo";
    let up = fleet.up_in("clusters/staging", &arguments, ready);
    up.wait_for("waiting  Deployment/podinfo/podinfo  InProgress");
    let said = printed(&fleet.equate(&["explain", "hr", "podinfo", "-n", "podinfo"]));
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        "is healthy",
        "but not all of its objects: Deployment/podinfo/podinfo: CrashLoopBackOff",
    ] {
        assert!(words.contains(expected), "no {expected:?} in\n{said}");
    }
}
