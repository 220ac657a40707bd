//! Many Kustomizations read one repository: a commit that touches one builds one.

use equate_api::kustomize::Kustomization;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde_json::json;

use crate::session::{Options, Session, config_map};

const MANY: usize = 40;

#[tokio::test]
async fn a_commit_that_touches_one_builds_one() {
    let files: Vec<(String, String)> = (0..MANY)
        .map(|n| (format!("app{n}/a.yaml"), config_map(&format!("app{n}"), "one")))
        .collect();
    let borrowed: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    let session = Session::start(&borrowed).await;
    let revision = session.commit(&[]);
    for n in 0..MANY {
        session
            .kustomize(&format!("app{n}"), &format!("app{n}"), json!({}))
            .await;
    }
    for n in 0..MANY {
        session.ready(&format!("app{n}"), &revision).await;
    }
    let before = session.stats();
    let revision = session.commit(&[("app7/a.yaml", Some(&*config_map("app7", "two")))]);
    for n in 0..MANY {
        session.ready(&format!("app{n}"), &revision).await;
    }
    session.value("default", "app7", Some("two")).await;
    let after = session.stats();
    let many = u64::try_from(MANY).unwrap();
    assert_eq!(after.builds - before.builds, 1, "{after:?}");
    assert_eq!(
        after.builds_skipped - before.builds_skipped,
        many - 1,
        "{after:?}"
    );
    assert_eq!(after.applies - before.applies, 1, "{after:?}");
    assert_eq!(after.status_patches - before.status_patches, many, "{after:?}");
    session.end().await;
}

/// Whichever it is: the other statuses can wait.
#[tokio::test]
async fn a_commit_is_applied_before_unaffected_statuses_are_written() {
    let names = ["a", "b", "c", "d", "e"];
    let files = names.map(|name| (format!("{name}/a.yaml"), config_map(name, "one")));
    let borrowed: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    let options = Options {
        concurrency: Some(1),
        ..Options::default()
    };
    let session = Session::with(&borrowed, options).await;
    let revision = session.commit(&[]);
    for name in names {
        session.kustomize(name, name, json!({})).await;
    }
    for name in names {
        session.ready(name, &revision).await;
    }
    for touched in names {
        let text = config_map(touched, "two");
        let revision = session.commit(&[(&format!("{touched}/a.yaml"), Some(&*text))]);
        for name in names {
            session.ready(name, &revision).await;
        }
        session.value("default", touched, Some("two")).await;
        let applied = version(session.get::<ConfigMap>("default", touched).await);
        for other in names.into_iter().filter(|name| *name != touched) {
            let noted = version(session.get::<Kustomization>("@home", other).await);
            assert!(applied < noted, "{touched} after {other}");
        }
    }
    session.end().await;
}

fn version(object: Option<impl ResourceExt>) -> u64 {
    object.unwrap().resource_version().unwrap().parse().unwrap()
}

/// Each makes a prune check before it deletes, but all share the answer while nothing changes: the work of
/// one commit grows linearly with the Kustomizations.
#[tokio::test]
async fn a_commit_that_all_prune_for_needs_few_checks() {
    check_hearings(&["5m"]).await;
    // Kustomizations with other timeouts do not replace each other's answer
    check_hearings(&["5m", "6m", "7m"]).await;
}

async fn check_hearings(timeouts: &[&str]) {
    let files: Vec<(String, String)> = (0..MANY)
        .flat_map(|n| {
            let map = |file: &str| {
                let name = format!("{file}{n}");
                (format!("app{n}/{file}.yaml"), config_map(&name, "one"))
            };
            [map("keep"), map("gone")]
        })
        .collect();
    let borrowed: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    let session = Session::start(&borrowed).await;
    let revision = session.commit(&[]);
    for n in 0..MANY {
        let name = format!("app{n}");
        let timeout = timeouts[n % timeouts.len()];
        session
            .kustomize(&name, &name, json!({ "timeout": timeout }))
            .await;
    }
    for n in 0..MANY {
        session.ready(&format!("app{n}"), &revision).await;
    }
    let before = session.stats();
    let gone: Vec<String> = (0..MANY).map(|n| format!("app{n}/gone.yaml")).collect();
    let gone: Vec<(&str, Option<&str>)> = gone.iter().map(|path| (&**path, None)).collect();
    let revision = session.commit(&gone);
    for n in 0..MANY {
        session.ready(&format!("app{n}"), &revision).await;
        session.value("default", &format!("gone{n}"), None).await;
    }
    let after = session.stats();
    let (many, runs) = (u64::try_from(MANY).unwrap(), after.runs - before.runs);
    assert_eq!(after.prunes - before.prunes, many, "{after:?}");
    let prune_checks = after.prune_checks - before.prune_checks;
    let of = format!("{prune_checks} prune_checks, {runs} runs of {many}, timeouts {timeouts:?}");
    eprintln!("{of}");
    assert!(prune_checks < many, "{of}");
    session.end().await;
}
