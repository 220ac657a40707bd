use super::super::{ControllerSettings, Selected, compare, data, text};
use crate::fixture::{FLEET, Fixture};
use equate_testkit::git::Repository;
use serde_json::json;

const RELEASE: &str = "apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: flux-system}
spec:
  interval: 1m
  chart: {spec: {chart: ./charts/web, sourceRef: {kind: GitRepository, name: fleet}}}
  values: {size: large}
  valuesFrom: [{kind: Secret, name: keys, valuesKey: password, targetPath: password}]
";
const REMOTE: &str = "apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: remote, namespace: flux-system}
spec:
  interval: 1m
  chart: {spec: {chart: redis, sourceRef: {kind: HelmRepository, name: charts}}}
";

/// May change Flux's objects, and read no Secret.
const READER: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: [helm.toolkit.fluxcd.io, source.toolkit.fluxcd.io, kustomize.toolkit.fluxcd.io], resources: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: User, name: reader, apiGroup: rbac.authorization.k8s.io}]
"#;

fn map(name: &str, data: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  labels: {{helm.toolkit.fluxcd.io/name: web, \
         helm.toolkit.fluxcd.io/namespace: flux-system}}\ndata: {data}\n"
    )
}

fn repository() -> Repository {
    let files = [
        ("apps/web.yaml", RELEASE.to_owned()),
        ("apps/remote.yaml", REMOTE.to_owned()),
        (
            "charts/web/Chart.yaml",
            "apiVersion: v2\nname: web\nversion: 1.4.0\n".to_owned(),
        ),
        (
            "charts/web/templates/all.yaml",
            map(
                "web",
                "{size: '{{ .Values.size }}', url: 'db://{{ .Values.password }}@db'}",
            ) + &map("new", "{}"),
        ),
    ];
    let repository = Repository::init().unwrap();
    for (path, text) in &files {
        repository.commit(&[(*path, Some(text.as_str()))]).unwrap();
        let path = repository.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let url = "https://example.com/fleet.git";
    repository.configure("remote \"origin\"", "url", url).unwrap();
    repository
}

#[tokio::test]
async fn changes_inside_releases_are_shown_without_values_of_secrets() {
    let repository = repository();
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    fixture
        .apply(
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: shop, namespace: flux-system}\n\
             spec: {interval: 1m, prune: true, path: ./apps, sourceRef: {kind: GitRepository, name: fleet}}\n",
        )
        .await;
    fixture
        .apply(
            "{apiVersion: v1, kind: Secret, metadata: {name: keys, namespace: flux-system}, stringData: {password: hunter2}}",
        )
        .await;
    // the Secret has changed since this revision
    let recorded = map("web", "{size: small, url: 'db://hunter1@db'}") + &map("old", "{}");
    let record = json!({
        "name": "web", "namespace": "flux-system", "version": 1, "info": { "status": "deployed" },
        "manifest": recorded, "config": { "size": "small", "password": "hunter1" },
    });
    fixture.store(record, None).await;
    fixture.apply(&RELEASE.replace("large", "small")).await;

    let names = ["shop".to_owned()];
    let chosen = Selected {
        directory: repository.path(),
        kustomizations: &names,
        namespace: None,
    };
    let client = &fixture.connection.client;
    let settings = ControllerSettings::in_up().unwrap();
    let compared = compare(&chosen, client, &settings).await.unwrap();
    let [one] = &compared[..] else {
        panic!("{}", compared.len())
    };
    let shown = text::describe(one);
    assert!(
        shown.contains("~ .spec.values.size: \"small\" -> \"large\"\n"),
        "{shown}"
    );
    let inside = "  in HelmRelease/flux-system/web
    + ConfigMap/flux-system/new
    ~ ConfigMap/flux-system/web
        ~ .data.size: \"small\" -> \"large\"
        ~ .data.url: *** -> ***
    - ConfigMap/flux-system/old
";
    assert!(shown.contains(inside), "{shown}");
    let remote = "  ? in HelmRelease/flux-system/remote: its objects are not compared: its chart is of HelmRepository charts, \
                  which is not fetched here\n";
    assert!(shown.contains(remote), "{shown}");
    assert_eq!(text::code(one), 1);
    let summary = text::summary(&compared);
    assert!(
        summary.contains("1 created, 1 changed, 3 in releases"),
        "{summary}"
    );
    fixture.apply(READER).await;
    let reader = fixture.client_as("reader").await;
    let compared_by_reader = compare(&chosen, &reader, &settings).await.unwrap();
    let shown = text::describe(&compared_by_reader[0]);
    assert!(
        shown.contains(
            "? in HelmRelease/flux-system/web: its objects are not compared: secrets \"keys\" is forbidden"
        ),
        "{shown}"
    );
    assert!(!shown.contains("hunter"), "{shown}");
    let data = data::list(&compared);
    assert!(!data.to_string().contains("hunter"), "{data}");
    let fields = &data[0]["releases"][1]["differences"][1]["fields"];
    assert_eq!(
        fields[1],
        json!({ "path": ".data.url", "before": "***", "after": "***" }),
        "{data}"
    );
}
