//! An immutable object is deleted and created anew; one that does not disappear blocks nothing else.

use equate_testkit::faults::Call;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::faults::comes;
use crate::session::{Session, config_map, document, ready};

/// While this finalizer is on an object, it is not gone.
const HOLDS: &str = "example.org/holds";

fn immutable(value: &str) -> String {
    let mut object: Value = serde_json::from_str(&config_map("fixed", value)).unwrap();
    object["immutable"] = true.into();
    document(&object)
}

/// Waits until the conditions of a Kustomization contain these texts.
async fn says(session: &Session, name: &str, texts: &[&str]) {
    comes(&format!("{name} says {texts:?}"), async || {
        let status = session.kustomizations().get(name).await.unwrap().status;
        let conditions = status.unwrap_or_default().conditions;
        let messages: Vec<&str> = conditions.iter().map(|c| c.message.as_str()).collect();
        let said = messages.join("\n");
        match texts.iter().all(|text| said.contains(text)) {
            true => Ok(()),
            false => Err(said),
        }
    })
    .await;
}

async fn applied(session: &Session, name: &str, revision: &str) {
    let expected = ("True".to_owned(), format!("Applied revision: {revision}"));
    comes(&format!("{name} at {revision}"), async || {
        let status = session.kustomizations().get(name).await.unwrap().status;
        let ready = ready(&status.unwrap_or_default());
        if ready == expected {
            Ok(())
        } else {
            Err(format!("{ready:?}"))
        }
    })
    .await;
}

/// The value of the object, with its uid.
async fn fixed(session: &Session) -> Option<(String, String)> {
    let map: ConfigMap = session.get("default", "fixed").await?;
    let value = map.data.unwrap_or_default().remove("value")?;
    Some((map.metadata.uid?, value))
}

/// Sets the finalizers of the object, as another controller does.
async fn hold(session: &Session, finalizers: Value) {
    let maps: Api<ConfigMap> = Api::namespaced(session.client.clone(), "default");
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
    maps.patch("fixed", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// A Kustomization with a timeout, and its messages about an object that does not disappear.
async fn check(timeout: &str, said: &[&str]) {
    let files = [
        ("stuck/fixed.yaml", immutable("one")),
        ("other/own.yaml", config_map("own", "one")),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, &**text)).collect();
    let session = Session::start(&files).await;
    let first = session.commit(&[]);
    // only the object's changes begin another run during the test
    let spec = json!({ "force": true, "timeout": timeout, "interval": "20h", "retryInterval": "20h" });
    session.kustomize("stuck", "stuck", spec).await;
    session.kustomize("other", "other", json!({})).await;
    for name in ["stuck", "other"] {
        applied(&session, name, &first).await;
    }
    hold(&session, json!([HOLDS])).await;
    let (before, _) = fixed(&session).await.unwrap();
    session.faults.clear_log();

    let (two, own) = (immutable("two"), config_map("own", "two"));
    let second = session.commit(&[("stuck/fixed.yaml", Some(&two)), ("other/own.yaml", Some(&own))]);
    applied(&session, "other", &second).await;
    says(&session, "stuck", said).await;
    // another commit is applied by the others, too, and so is its own
    let third = session.commit(&[
        ("other/own.yaml", Some(&config_map("own", "three"))),
        ("stuck/more.yaml", Some(&config_map("more", "three"))),
    ]);
    applied(&session, "other", &third).await;
    session.value("default", "more", Some("three")).await;
    says(&session, "stuck", said).await;
    let (still, value) = fixed(&session).await.unwrap();
    assert_eq!((&*still, &*value), (&*before, "one"));
    let of_it = |call: &&Call| call.path.ends_with("/configmaps/fixed");
    let log = session.faults.log();
    let asked = log.iter().filter(of_it).count();
    assert!(asked < 40, "it is asked for again and again: {asked} times");

    hold(&session, json!([])).await;
    applied(&session, "stuck", &third).await;
    let (anew, value) = fixed(&session).await.unwrap();
    assert_ne!(anew, before);
    assert_eq!(value, "two");
    session.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_stuck_object_blocks_only_its_kustomization() {
    let text = "ConfigMap/default/fixed";
    let why = "its deletion has not finished, so it cannot be created anew: it waits for example.org/holds";
    check("10h", &["Waiting for", text, why]).await;
    check("20s", &[text, why]).await;
}
