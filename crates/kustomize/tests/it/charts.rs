//! Charts: requests to the renderer, and the use of its output.

use crate::memory::Memory;
use bytes::Bytes;
use equate_kustomize::{
    Chart, ChartError, Charts, Limits, LoadRestriction, Loaders, Options, kustomize_with,
};
use std::collections::BTreeMap;

/// Renders a ConfigMap that describes the request; can pull `pulled`, and fails to render `bad`.
struct Teller;

impl Charts for Teller {
    fn fetch(&self, chart: &Chart) -> Result<BTreeMap<String, Bytes>, ChartError> {
        if chart.name != "pulled" {
            return Err(format!("{} has no {}", chart.repo_shown(), chart.directory).into());
        }
        Ok([("values.yaml".to_owned(), Bytes::from("p: 1\n"))].into())
    }

    fn render(&self, chart: &Chart) -> Result<String, ChartError> {
        if chart.name == "bad" {
            return Err("it is bad".into());
        }
        let files: Vec<&str> = chart.files.keys().map(String::as_str).collect();
        let values: Vec<&str> = chart.values.iter().map(|file| file.text.trim()).collect();
        Ok(format!(
            "---\n# Source: t.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {}}}\ndata:\n  namespace: {:?}\n  files: {:?}\n  values: {:?}\n",
            chart.release_name,
            chart.namespace,
            files.join(" "),
            values.join("; "),
        ))
    }
}

fn built(base: &str) -> String {
    let mut tree = Memory::new(&[
        (
            "top/kustomization.yaml",
            "namespace: top\nnamePrefix: p-\nresources: [../base]\n",
        ),
        ("base/kustomization.yaml", base),
        ("base/charts/web/Chart.yaml", "name: web\n"),
        ("base/charts/web/values.yaml", "a: 1\n"),
        ("base/charts/web/templates/c.yaml", "x\n"),
        ("base/charts/bad/values.yaml", "# none\n"),
        ("base/charts/list/values.yaml", "- 1\n"),
        ("base/charts/map/values.yaml", "a: {b: 1}\n"),
        ("base/charts/yaml/values.yaml", "a: [\n"),
        ("base/other.yaml", "b: 2\n"),
        ("base/charts/web-1.0/web/Chart.yaml", "pulled\n"),
        ("base/charts/web-1.0/web/values.yaml", "v: 1\n"),
        ("base/charts/loop/values.yaml", ""),
        ("base/charts/away/values.yaml", ""),
        ("base/charts/linked/values.yaml", "l: 1\n"),
        ("base/shared/note", "n"),
        ("out/values.yaml", "o: 1\n"),
        ("out/Chart.yaml", ""),
    ]);
    tree.link("base/charts/loop/again", "../loop");
    tree.link("base/charts/away/secret", "../../../top/kustomization.yaml");
    tree.link("base/charts/linked/shared", "../../shared");
    tree.link("base/charts/leaving", "../../../x");
    for double in ["a", "b", "c", "d", "e", "f", "g"] {
        tree.put(&format!("base/charts/doubling/{double}/values.yaml"), b"");
        let next = char::from(double.as_bytes()[0] + 1);
        for link in ["x", "y", "z"] {
            tree.link(
                &format!("base/charts/doubling/{double}/{link}"),
                &format!("../{next}"),
            );
        }
    }
    tree.put("base/charts/doubling/h/values.yaml", b"");
    tree.put(&format!("base/charts/deep/{}x", "d/".repeat(64)), b"");
    let loaders = Loaders {
        charts: Some(&Teller),
        ..Loaders::default()
    };
    let options = Options {
        restriction: LoadRestriction::Root,
        limits: Limits {
            files_max: 1_000,
            charts_max: 3,
            ..Limits::default()
        },
        ..Options::default()
    };
    match kustomize_with(&tree, "top", &options, loaders) {
        Ok(built) => {
            let object = &built.objects[0].object;
            let data = object.0["data"].as_object().unwrap().iter();
            let data: Vec<String> = data
                .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default().trim()))
                .collect();
            format!("{} {}", object.name(), data.join(" "))
        }
        Err(error) => match std::error::Error::source(&error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}

#[test]
fn renderer_gets_files_and_values() {
    const ALL: &str = "files=Chart.yaml templates/c.yaml values.yaml";
    for (base, expected) in [
        (
            "helmCharts: [{name: web, releaseName: r}]\n",
            format!("p-r {ALL} namespace=top values=a: 1"),
        ),
        (
            "namespace: base\nhelmCharts:\n- {name: web, releaseName: r, valuesFile: other.yaml, valuesInline: {c: [1]}, valuesMerge: replace, additionalValuesFiles: [other.yaml]}\n",
            format!("p-r {ALL} namespace=base values=c:\n- 1; b: 2"),
        ),
        (
            "helmCharts:\n- {name: web, releaseName: r, valuesFile: other.yaml, valuesInline: {b: 3, c: 4}}\n",
            format!("p-r {ALL} namespace=top values=b: 3\nc: 4"),
        ),
        (
            "helmCharts:\n- {name: web, releaseName: r, valuesMerge: merge, valuesFile: other.yaml, valuesInline: {b: 3, c: 4}}\n",
            format!("p-r {ALL} namespace=top values=b: 2\nc: 4"),
        ),
        (
            "helmCharts: [{name: web, releaseName: r, namespace: own, version: '1.0', repo: 'https://h'}]\n",
            "p-r files=Chart.yaml values.yaml namespace=own values=v: 1".to_owned(),
        ),
        (
            "helmCharts: [{name: pulled, releaseName: r, repo: 'https://h'}]\n",
            "p-r files=values.yaml namespace=top values=p: 1".to_owned(),
        ),
        (
            "helmCharts: [{name: linked, releaseName: r}]\n",
            "p-r files=shared/note values.yaml namespace=top values=l: 1".to_owned(),
        ),
        (
            "helmChartInflationGenerator:\n- {chartName: web, releaseName: r, valuesLocal: {a: 2}, releaseNamespace: gone}\n",
            format!("p-r {ALL} namespace=top values=a: 2"),
        ),
        (
            "generators:\n- |-\n  {apiVersion: builtin, kind: HelmChartInflationGenerator, metadata: {name: x}, name: web, releaseName: r, values: [odd]}\n",
            format!("p-r {ALL} namespace= values=a: 1"),
        ),
    ] {
        assert_eq!(built(base), expected, "{base}");
    }
}

#[test]
fn chart_errors_name_their_place() {
    for (base, expected) in [
        (
            "helmCharts: [{name: bad}]\n",
            "base/kustomization.yaml:1:14: chart \"bad\" cannot be rendered: it is bad",
        ),
        (
            "helmCharts: [{name: web}]\n",
            "base/kustomization.yaml:1:14: chart \"web\" renders an invalid manifest in t.yaml: missing metadata.name in object: v1 ConfigMap",
        ),
        (
            "helmCharts: [{name: absent}]\n",
            "base/kustomization.yaml:1:14: no repo specified for pull, no chart found at 'charts/absent'",
        ),
        (
            "helmCharts: [{name: absent, repo: 'https://u:p@h/r'}]\n",
            "base/kustomization.yaml:1:14: chart \"absent\" cannot be pulled: https://h/r has no charts/absent",
        ),
        (
            "helmCharts: [{releaseName: r}]\n",
            "base/kustomization.yaml:1:14: chart name cannot be empty",
        ),
        (
            "helmCharts: [{name: web, releaseName: --post-renderer=x}]\n",
            "base/kustomization.yaml:1:14: releaseName must not start with '-', got \"--post-renderer=x\"",
        ),
        (
            "helmCharts: [{name: web, valuesMerge: both}]\n",
            "base/kustomization.yaml:1:14: valuesMerge must be one of [merge override replace]",
        ),
        (
            "helmCharts: [{name: web, releaseNam: r}]\n",
            "base/kustomization.yaml:1:38: invalid Kustomization: json: unknown field \"releaseNam\"",
        ),
        (
            "helmCharts: [{name: web, valuesInline: [1]}]\n",
            "base/kustomization.yaml:1:14: valuesInline must be a map: found array",
        ),
        (
            "helmCharts: [{name: web, valuesFile: ../secret.yaml}]\n",
            "base/kustomization.yaml:1:14: no such file or directory: '../secret.yaml'",
        ),
        (
            "helmCharts: [{name: web, valuesFile: ../top/kustomization.yaml}]\n",
            "base/kustomization.yaml:1:14: security; file 'top/kustomization.yaml' is not in or below 'base'",
        ),
        (
            "helmCharts: [{name: web, additionalValuesFiles: [../../x]}]\n",
            "base/kustomization.yaml:1:14: could not load additionalValuesFile: security; '../../x' leads out of the source",
        ),
        (
            "helmGlobals: {chartHome: ../..}\nhelmCharts: [{name: web}]\n",
            "base/kustomization.yaml:2:14: security; '../../web' leads out of the source",
        ),
        (
            "helmGlobals: {chartHome: ..}\nhelmCharts: [{name: out}]\n",
            "base/kustomization.yaml:2:14: security; file 'out/values.yaml' is not in or below 'base'",
        ),
        (
            "helmGlobals: {chartHome: /etc}\nhelmCharts: [{name: web}]\n",
            "base/kustomization.yaml:2:14: new root '/etc/web' cannot be absolute",
        ),
        (
            "helmCharts: [{name: leaving}]\n",
            "base/kustomization.yaml:1:14: security; 'charts/leaving' is not read: the symbolic link 'base/charts/leaving' leads out of the source",
        ),
        (
            "helmCharts: [{name: loop}]\n",
            "base/kustomization.yaml:1:14: chart link 'base/charts/loop/again' cannot be followed: its symbolic links form a cycle",
        ),
        (
            "helmCharts: [{name: away}]\n",
            "base/kustomization.yaml:1:14: security; chart link 'base/charts/away/secret' leads to 'top/kustomization.yaml', which is neither in the chart nor in or below 'base'",
        ),
        (
            "helmCharts: [{name: doubling}]\n",
            "base/kustomization.yaml:1:14: the build reads more than 1000 files",
        ),
        (
            "helmCharts: [{name: deep}]\n",
            "base/kustomization.yaml:1:14: the directories of a chart are nested deeper than 64 levels",
        ),
        (
            "helmCharts: [{name: bad, valuesInline: {a: 1}}]\n",
            "base/kustomization.yaml:1:14: could not parse values file into rnode: EOF: 'charts/bad/values.yaml' is empty, and inline values cannot be merged with it",
        ),
        (
            "helmCharts: [{name: list, valuesInline: {a: 1}}]\n",
            "base/kustomization.yaml:1:14: could not merge values: 'charts/list/values.yaml' must be a map: found array",
        ),
        (
            "helmCharts: [{name: map, valuesInline: {a: 1}}]\n",
            "base/kustomization.yaml:1:14: could not merge values: a: wrong node kind: expected MappingNode but got ScalarNode",
        ),
        (
            "helmCharts: [{name: yaml, valuesInline: {a: 1}}]\n",
            "base/kustomization.yaml:1:14: could not parse values file into rnode: 'charts/yaml/values.yaml', 1:4: unclosed bracket '['",
        ),
        (
            "helmCharts: [{name: web, releaseName: a}, {name: web, releaseName: b}, {name: web, releaseName: c}, {name: web, releaseName: d}]\n",
            "base/kustomization.yaml:1:101: the build renders more than 3 charts",
        ),
        (
            "generators:\n- |-\n  {apiVersion: builtin, kind: HelmChartInflationGenerator, metadata: {name: x}}\n",
            "base/kustomization.yaml:3:3: chart name cannot be empty",
        ),
    ] {
        let expected = format!("{expected}; included from top/kustomization.yaml:3:13");
        assert_eq!(built(base), expected, "{base}");
    }
}
