//! Charts: what is asked of whoever renders them, and what becomes of what they render.

use crate::memory::Memory;
use equate_kustomize::{Chart, ChartError, Charts, Loaders, Options, ValuesMerge, kustomize_with};

/// Renders a ConfigMap that says what was asked for; knows no chart called `absent`.
struct Teller;

impl Charts for Teller {
    fn render(&self, chart: &Chart) -> Result<String, ChartError> {
        if chart.name == "absent" {
            return Err("no such chart".into());
        }
        let files = chart.files.iter().flatten().map(|(path, _)| path.as_str());
        let files: Vec<&str> = files.collect();
        Ok(format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {}}}\ndata:\n  namespace: {:?}\n  files: {:?}\n  values: {:?}\n  more: {:?}\n  inline: {:?}\n  merge: {:?}\n",
            chart.release_name,
            chart.namespace,
            files.join(" "),
            chart.values.clone().unwrap_or_default(),
            chart.additional_values.join(" "),
            serde_json::to_string(&chart.values_inline)?,
            format!("{:?}", chart.values_merge),
        ))
    }
}

/// The data of the one object, or the error with its cause.
fn built(base: &str) -> String {
    let tree = Memory::new(&[
        (
            "top/kustomization.yaml",
            "namespace: top\nnamePrefix: p-\nresources: [../base]\n",
        ),
        ("base/kustomization.yaml", base),
        ("base/charts/web/Chart.yaml", "name: web\n"),
        ("base/charts/web/values.yaml", "a: 1\n"),
        ("base/charts/web/templates/c.yaml", "x\n"),
        ("base/other.yaml", "b: 2\n"),
        ("base/charts/web-1.0/web/Chart.yaml", "pulled\n"),
    ]);
    let loaders = Loaders {
        charts: Some(&Teller),
        ..Loaders::default()
    };
    match kustomize_with(&tree, "top", &Options::default(), loaders) {
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
fn charts_are_asked_for_with_their_files_and_values() {
    assert_eq!(ValuesMerge::default(), ValuesMerge::Override);
    for (base, expected) in [
        (
            "helmCharts: [{name: web, releaseName: r}]\n",
            "p-r files=Chart.yaml templates/c.yaml values.yaml inline={} merge=Override more= namespace=top values=a: 1",
        ),
        (
            "namespace: base\nhelmCharts:\n- {name: web, releaseName: r, valuesFile: other.yaml, valuesInline: {c: [1]}, valuesMerge: replace, additionalValuesFiles: [other.yaml]}\n",
            "p-r files=Chart.yaml templates/c.yaml values.yaml inline={\"c\":[1]} merge=Replace more=b: 2 namespace=base values=b: 2",
        ),
        (
            "helmCharts: [{name: web, releaseName: r, namespace: own, version: '1.0', repo: 'https://h'}]\n",
            "p-r files=Chart.yaml inline={} merge=Override more= namespace=own values=",
        ),
        (
            "helmCharts: [{name: absent}]\n",
            "base/kustomization.yaml:1:14: chart \"absent\" cannot be rendered: no such chart",
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
            "helmCharts: [{name: web, valuesFile: ../secret.yaml}]\n",
            "base/kustomization.yaml:1:14: evalsymlink failure on '../secret.yaml': no such file or directory",
        ),
        (
            "helmChartInflationGenerator: [{chartName: web}]\n",
            "base/kustomization.yaml:1:30: helmChartInflationGenerator is not supported yet",
        ),
    ] {
        assert_eq!(built(base), expected, "{base}");
    }
}
