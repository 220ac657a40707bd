//! The embedded API accepts and serves every definition, and returns objects as the types write them.

use equate_api::kustomize::{Kustomization, KustomizationSpec, KustomizationStatus, SourceReference};
use equate_api::meta::{ConditionStatus, ConditionType, Duration, Reason, set_condition};
use equate_api::source::{GitRepository, GitRepositorySpec};
use equate_manifest::yaml::{self, Options};
use equate_testkit::eventually::established;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

type Outcome = Result<(), Box<dyn std::error::Error>>;

async fn cluster() -> Result<(equate_testkit::cluster::Cluster, kube::Client), Box<dyn std::error::Error>> {
    let cluster = equate_testkit::cluster::Cluster::named("embedded", &mut |_| {}).await?;
    let client = cluster.client()?;
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in equate_api::definitions() {
        let document = yaml::load(definition.yaml, &Options::default())?
            .pop()
            .ok_or("no document")?;
        let crd: CustomResourceDefinition = serde_json::from_value(document.value)?;
        api.create(&PostParams::default(), &crd).await?;
    }
    for definition in equate_api::definitions() {
        established(&client, definition.name, std::time::Duration::from_secs(120)).await;
    }
    Ok((cluster, client))
}

#[tokio::test]
async fn every_definition_is_established_and_sets_its_defaults() -> Outcome {
    let (_cluster, client) = cluster().await?;
    let repositories: Api<GitRepository> = Api::namespaced(client, "default");
    let spec = GitRepositorySpec {
        url: "https://example.com/fleet".to_owned(),
        interval: Duration::from_secs(300),
        ..GitRepositorySpec::default()
    };
    let made = repositories
        .create(&PostParams::default(), &GitRepository::new("fleet", spec.clone()))
        .await?;
    assert_eq!(made.spec.timeout, Some(Duration::from_secs(60)));
    assert_eq!(
        made.status.and_then(|status| status.observed_generation),
        Some(-1)
    );

    let refused = GitRepositorySpec {
        url: "git@example.com:fleet".to_owned(),
        ..spec
    };
    let error = repositories
        .create(&PostParams::default(), &GitRepository::new("scp", refused))
        .await
        .err()
        .ok_or("an address in scp's form was taken")?;
    let said = error.to_string();
    assert!(
        said.contains("spec.url in body should match '^(http|https|ssh)://.*$'"),
        "{said}"
    );
    Ok(())
}

#[tokio::test]
async fn a_status_is_written_as_a_merge_patch_and_read_back() -> Outcome {
    let (_cluster, client) = cluster().await?;
    let kustomizations: Api<Kustomization> = Api::namespaced(client, "default");
    let spec = KustomizationSpec {
        interval: Duration::from_secs(3600),
        prune: true,
        source_ref: SourceReference {
            name: "fleet".to_owned(),
            ..SourceReference::default()
        },
        ..KustomizationSpec::default()
    };
    kustomizations
        .create(&PostParams::default(), &Kustomization::new("apps", spec))
        .await?;
    let mut status = KustomizationStatus {
        observed_generation: Some(1),
        last_applied_revision: Some("main@sha1:0".to_owned()),
        ..KustomizationStatus::default()
    };
    set_condition(
        &mut status.conditions,
        ConditionType::Ready,
        ConditionStatus::True,
        Reason::ReconciliationSucceeded,
        "Applied revision: main@sha1:0",
        1,
        "2026-01-02T03:04:05.6Z".parse()?,
    );
    let patch = json!({ "status": status });
    assert_eq!(
        patch["status"]["conditions"][0]["lastTransitionTime"],
        "2026-01-02T03:04:05Z"
    );
    let written = kustomizations
        .patch_status("apps", &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    assert_eq!(written.status, Some(status));
    Ok(())
}
