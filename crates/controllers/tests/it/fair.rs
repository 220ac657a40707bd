//! One tenant's work does not delay another's.

use std::fmt::Write as _;
use std::time::Duration;

use equate_api::kustomize::Kustomization;
use equate_testkit::eventually::eventually;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::session::{DEADLINE, Options, Session, config_map_in, kustomization, ready};

/// Replacements that write each other's targets: a product of two large numbers from a small repository.
fn endless() -> (String, String) {
    let mut objects = String::new();
    for number in 0..3000 {
        write!(
            objects,
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{number}, namespace: evil}}\ndata: {{v: a}}\n---\n"
        )
        .unwrap();
    }
    let mut all = "resources: [all.yaml]\nreplacements:\n".to_owned();
    for number in 0..5000 {
        let number = number % 3000;
        writeln!(
            all,
            "- {{source: {{kind: ConfigMap, name: c{number}, fieldPath: data.v}}, \
             targets: [{{select: {{kind: ConfigMap}}, fieldPaths: [data.v]}}]}}"
        )
        .unwrap();
    }
    (objects, all)
}

async fn start(options: Options) -> Session {
    let (objects, replacements) = endless();
    let honest = config_map_in("calm", "a", "one");
    let files = [
        ("evil/all.yaml", &*objects),
        ("evil/kustomization.yaml", &*replacements),
        ("calm/a.yaml", &*honest),
    ];
    let session = Session::with(&files, options).await;
    session.namespace("evil").await;
    session.namespace("calm").await;
    session
}

async fn kustomize(session: &Session, namespace: &str, name: &str) {
    let source = json!({ "kind": "GitRepository", "name": "fleet", "namespace": session.home });
    let spec = json!({ "sourceRef": source, "timeout": "10h" });
    let mut object = kustomization(name, namespace, spec);
    object.metadata.namespace = Some(namespace.to_owned());
    let api: Api<Kustomization> = Api::namespaced(session.client.clone(), namespace);
    api.create(&PostParams::default(), &object).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_builds_of_one_namespace_delay_no_other() {
    const ATTACKERS: usize = 12;
    let session = start(Options {
        own_threads: true,
        ..Options::default()
    })
    .await;
    // more than there are workers or processors
    for number in 0..ATTACKERS {
        kustomize(&session, "evil", &format!("endless-{number}")).await;
    }
    let building = async || match session.stats().builds {
        builds if builds >= 8 => Ok(()),
        builds => Err(builds),
    };
    eventually("the builds run", DEADLINE, building).await;
    // before the others by name: of one source, new objects wait for the builds of those before
    kustomize(&session, "calm", "app").await;
    let revision = session.commit(&[]);
    session.ready("calm/app", &revision).await;
    session.value("calm", "a", Some("one")).await;
    let evil: Api<Kustomization> = Api::namespaced(session.client.clone(), "evil");
    for number in 0..ATTACKERS {
        let object = evil.get(&format!("endless-{number}")).await.unwrap();
        let (_, message) = ready(&object.status.unwrap_or_default());
        let ended = message.contains("build failed") || message.contains("Applied");
        assert!(!ended, "a build ended before: {message}");
    }
    // the builds end with the test
    drop(session);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operators_limit_ends_a_build_and_is_named() {
    let session = start(Options {
        own_threads: true,
        timeout_max: Some(Duration::from_secs(1)),
        ..Options::default()
    })
    .await;
    kustomize(&session, "evil", "endless").await;
    let message = session.fails("evil/endless", "BuildFailed").await;
    let expected = "kustomize build failed: stopped because it took longer than 1s (--timeout-max)";
    assert_eq!(message, expected);
    drop(session);
}
