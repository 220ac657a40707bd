//! One test for each advisory on Flux about these kinds, by its number.

use equate_api::kustomize::Kustomization;
use equate_api::source::GitRepository;
use equate_testkit::eventually::eventually;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, PostParams};
use kube::{CustomResourceExt, Resource};
use serde_json::{Value, json};

use crate::session::{DEADLINE, HOME, Options, Session, config_map, kustomization};
use crate::tenancy::{absent, create, kustomize, map, tenant};

/// The controller ran a shell script in a Secret with its own rights.
#[tokio::test]
async fn cve_2021_41254_a_script_in_a_secret_is_a_text() {
    let values = document_of(&["${token}", "${backticks}"]);
    let session = Session::anywhere(&[("app/a.yaml", &*values)]).await;
    let marker = session.folder().join("was-here");
    let marker = marker.to_str().unwrap();
    let script = format!("x'; touch {marker}; $(touch {marker})");
    let backticks = format!("x `touch {marker}` | touch {marker} && touch {marker}");
    tenant(&session, "@home-a").await;
    let scripts = json!({ "token": &script, "backticks": &backticks });
    let account = json!({
        "metadata": { "name": "account", "annotations": { "kubernetes.io/service-account.name": "deployer" } },
        "type": "kubernetes.io/service-account-token",
        "stringData": &scripts,
    });
    create::<Secret>(&session, "@home-a", account).await;
    let named = json!({ "secrets": [{ "name": "account" }] });
    session
        .merge::<ServiceAccount>("@home-a", "deployer", named)
        .await;
    // the account's own Secret gets keys that no variable can have
    let values = json!({ "metadata": { "name": "scripts" }, "stringData": &scripts });
    create::<Secret>(&session, "@home-a", values).await;
    let from = json!([{ "kind": "Secret", "name": "scripts" }]);
    kustomize(
        &session,
        "@home-a",
        "app",
        json!({ "postBuild": { "substituteFrom": from } }),
    )
    .await;
    session.ready("@home-a/app", &session.commit(&[])).await;
    session.value("@home-a", "value-0", Some(&script)).await;
    session.value("@home-a", "value-1", Some(&backticks)).await;
    assert!(!std::path::Path::new(marker).exists(), "the script ran");
    session.end().await;
}

/// ConfigMaps of the tenant, each with a quoted value.
fn document_of(values: &[&str]) -> String {
    let each = values.iter().enumerate();
    let each: Vec<String> = each
        .map(|(number, value)| {
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: value-{number}, namespace: @home-a}}\ndata:\n  value: >-\n    {value}\n"
            )
        })
        .collect();
    each.join("---\n")
}

/// A kubeconfig in a Secret named a program, and the controller ran it.
#[tokio::test]
async fn cve_2022_24817_a_kubeconfig_runs_no_program() {
    let session = Session::anywhere(&[("app/a.yaml", &*map("@home-a", "a", "one"))]).await;
    tenant(&session, "@home-a").await;
    let marker = session.folder().join("was-here");
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [marker],
        "interactiveMode": "Never",
    });
    let provider = json!({ "name": "gcp", "config": { "cmd-path": "touch", "cmd-args": marker } });
    for (name, user, expected) in [
        ("exec", json!({ "exec": exec }), "users[].user.exec is refused"),
        (
            "provider",
            json!({ "auth-provider": provider }),
            "users[].user.auth-provider is refused",
        ),
    ] {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
            "clusters": [{ "name": "a", "cluster": { "server": "https://127.0.0.1:1" } }],
            "users": [{ "name": "a", "user": user }],
        });
        let secret =
            json!({ "metadata": { "name": name }, "stringData": { "value": kubeconfig.to_string() } });
        create::<Secret>(&session, "@home", secret).await;
        let spec = json!({ "kubeConfig": { "secretRef": { "name": name } } });
        session.kustomize(name, "app", spec).await;
        let message = session.fails(name, "ReconciliationFailed").await;
        assert!(message.contains(expected), "{message}");
    }
    assert!(!marker.exists(), "the program ran");
    absent(&session, "@home-a", "a").await;
    session.end().await;
}

/// A kustomization.yaml read files of the controller's pod, its token first of all.
#[tokio::test]
async fn cve_2022_24877_a_kustomization_reads_no_file_of_the_controller() {
    let session = Session::anywhere(&[("app/a.yaml", "{}")]).await;
    tenant(&session, "@home-a").await;
    let token = session.folder().join("token");
    std::fs::write(&token, "correct horse").unwrap();
    let token = token.to_str().unwrap();
    let climbing = format!("{}{}", "../".repeat(12), token.trim_start_matches('/'));
    for (name, file) in [("absolute", token), ("climbing", &*climbing), ("linked", "token")] {
        let generator = format!(
            "namespace: @home-a\ngeneratorOptions: {{disableNameSuffixHash: true}}\n\
             configMapGenerator: [{{name: leaked, files: [\"token={file}\"]}}]\n"
        );
        session.commit(&[(&*format!("{name}/kustomization.yaml"), Some(&*generator))]);
        session.repository.link("linked/token", token).unwrap();
        session.kustomize(name, name, json!({})).await;
        let message = session.fails(name, "BuildFailed").await;
        assert!(!message.contains("correct horse"), "{message}");
    }
    absent(&session, "@home-a", "leaked").await;
    session.end().await;
}

/// A kustomization.yaml that referenced itself, or an endless file, stopped the controller.
#[tokio::test]
async fn cve_2022_24878_an_endless_kustomization_blocks_nobody() {
    let laughs: String = (1..12)
        .map(|level| {
            let below = vec![format!("*l{}", level - 1); 10].join(",");
            format!("l{level}: &l{level} [{below}]\n")
        })
        .collect();
    let laughs = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\nl0: &l0 [lol]\n{laughs}");
    let deep = "[".repeat(100_000);
    let files = [
        ("itself/kustomization.yaml", "resources: [.]\n"),
        ("around/kustomization.yaml", "resources: [below]\n"),
        ("around/below/kustomization.yaml", "resources: [../]\n"),
        ("parent/kustomization.yaml", "resources: [../parent]\n"),
        (
            "endless/kustomization.yaml",
            "configMapGenerator: [{name: a, files: [zero]}]\n",
        ),
        ("circle/kustomization.yaml", "resources: [one]\n"),
        ("laughs/a.yaml", &*laughs),
        ("deep/a.yaml", &*deep),
        ("well/a.yaml", &*map("@home", "a", "one")),
    ];
    let session = Session::anywhere(&files).await;
    let links = [
        ("endless/zero", "/dev/zero"),
        ("circle/one", "two"),
        ("circle/two", "one"),
    ];
    for (path, target) in links {
        session.repository.link(path, target).unwrap();
    }
    let revision = session.commit(&[]);
    let endless = [
        "itself", "around", "parent", "endless", "circle", "laughs", "deep",
    ];
    for name in endless {
        session
            .kustomize(name, name, json!({ "retryInterval": "1s" }))
            .await;
    }
    for name in endless {
        session.fails(name, "BuildFailed").await;
    }
    session.kustomize("well", "well", json!({})).await;
    session.ready("well", &revision).await;
    session.end().await;
}

/// Removes the validation of durations from a CRD, as in the old version.
fn lenient(definition: &CustomResourceDefinition) -> CustomResourceDefinition {
    fn loosen(value: &mut Value) {
        match value {
            Value::Object(map) => {
                if map.get("pattern").is_some_and(Value::is_string) {
                    map.remove("pattern");
                }
                map.values_mut().for_each(loosen);
            }
            Value::Array(items) => items.iter_mut().for_each(loosen),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(definition).unwrap();
    loosen(&mut value["spec"]);
    serde_json::from_value(value).unwrap()
}

/// One object with an invalid duration stopped the controller for all objects of the kind.
#[tokio::test]
async fn cve_2022_39272_an_invalid_duration_blocks_nobody() {
    let files = [
        ("app/a.yaml", &*config_map("a", "one")),
        ("wrong/b.yaml", &*config_map("b", "one")),
    ];
    let mut session = Session::start(&files).await;
    let wrong = [
        ("interval", json!("1")),
        ("interval", json!("ten minutes")),
        ("interval", json!("99999999999999999999h")),
        ("retryInterval", json!("-1m")),
        ("timeout", json!("0x10s")),
    ];
    // the CRD rejects them
    for (number, (field, value)) in wrong.iter().enumerate() {
        let name = format!("strict-{number}");
        let mut object = serde_json::to_value(kustomization(&name, "wrong", json!({}))).unwrap();
        object["spec"][field] = value.clone();
        let long = value == "99999999999999999999h";
        let created = raw::<Kustomization>(&session, object).await;
        match created {
            Ok(_) if long => session.delete::<Kustomization>(HOME, &name).await,
            Err(kube::Error::Api(status)) if status.code == 422 && !long => {}
            other => panic!("{field}: {value}: {other:?}"),
        }
    }
    // an object from before the validation is left alone
    for definition in [Kustomization::crd(), GitRepository::crd()] {
        let definitions: Api<CustomResourceDefinition> = Api::all(session.client.clone());
        let name = definition.metadata.name.clone().unwrap();
        let mut loose = lenient(&definition);
        loose.metadata.resource_version = definitions.get(&name).await.unwrap().metadata.resource_version;
        definitions
            .replace(&name, &PostParams::default(), &loose)
            .await
            .unwrap();
    }
    for (number, (field, value)) in wrong.iter().enumerate() {
        let mut object =
            serde_json::to_value(kustomization(&format!("wrong-{number}"), "wrong", json!({}))).unwrap();
        object["spec"][field] = value.clone();
        let let_in = async || {
            raw::<Kustomization>(&session, object.clone())
                .await
                .map_err(|error| error.to_string())
        };
        eventually("the lenient definition is used", DEADLINE, let_in).await;
    }
    let source = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": { "name": "wrong", "namespace": HOME },
        "spec": { "url": "https://git.invalid/a", "interval": "1" },
    });
    let let_in = async || {
        raw::<GitRepository>(&session, source.clone())
            .await
            .map_err(|error| error.to_string())
    };
    eventually("the lenient definition is used", DEADLINE, let_in).await;
    // neither while it runs nor from the start
    session.kustomize("apps", "app", json!({})).await;
    let revision = session.commit(&[]);
    session.ready("apps", &revision).await;
    session.engine(Options::default()).await;
    let revision = session.commit(&[("app/a.yaml", Some(&*config_map("a", "two")))]);
    session.ready("apps", &revision).await;
    session.value("default", "a", Some("two")).await;
    for number in [0, 1, 3, 4] {
        let name = format!("wrong-{number}");
        let found = raw::<Kustomization>(&session, json!({ "metadata": { "name": name } })).await;
        assert_eq!(found.unwrap().data["status"].get("conditions"), None, "{name}");
    }
    session.end().await;
}

/// Writes an object without the checks of its Rust type.
async fn raw<K: Resource<DynamicType = ()>>(session: &Session, object: Value) -> kube::Result<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let kind = kube::core::ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(session.client.clone(), HOME, &kind);
    let name = object.metadata.name.clone().unwrap();
    match api.get_opt(&name).await? {
        Some(found) => Ok(found),
        None => api.create(&PostParams::default(), &object).await,
    }
}
