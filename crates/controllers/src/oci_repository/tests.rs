//! Decisions and statuses, as values.

use std::collections::BTreeMap;

use equate_api::meta::{Condition, ConditionType, Reason};
use equate_api::source::{Artifact as StatusArtifact, OciRepository, OciRepositoryStatus};
use equate_registry::Version;
use equate_source::{MediaType, Stored, Tree};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::act::{Done, Published};
use super::decide::{Artifact, Found, Observed, Plan, Seen, Why, decide};
use super::declared::Declared;
use super::failure;
use super::report::{news, report};
use crate::kit::controller::{Next, Report};
use crate::sources::failure::Failure;
use crate::sources::signatures::Unverified;

fn digest(digit: &str) -> String {
    format!("sha256:{}", digit.repeat(64))
}

fn object(spec: &Value) -> OciRepository {
    let mut object = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "OCIRepository",
        "metadata": { "name": "app", "namespace": "apps", "generation": 2 },
        "spec": { "url": "oci://ghcr.io/org/app", "interval": "1m" },
    });
    for (field, value) in spec.as_object().cloned().unwrap_or_default() {
        object["spec"][field] = value;
    }
    serde_json::from_value(object).unwrap()
}

fn declared(spec: &Value) -> Declared {
    Declared::try_from(&object(spec)).unwrap()
}

fn found(tag: &str, digit: &str) -> Found {
    let Ok(Version::Digest(found)) = Version::digest(&digest(digit)) else {
        panic!("a digest");
    };
    Found {
        version: Version::tag(tag).unwrap(),
        revision: format!("{tag}@{found}"),
        digest: found,
    }
}

fn artifact(revision: &str) -> StatusArtifact {
    StatusArtifact {
        digest: "sha256:abc".to_owned(),
        last_update_time: Time("2026-01-01T00:00:00Z".parse().unwrap()),
        metadata: BTreeMap::new(),
        path: "ocirepository/apps/app/1.tar.gz".to_owned(),
        revision: revision.to_owned(),
        size: Some(7),
        url: "http://old/ocirepository/apps/app/1.tar.gz".to_owned(),
    }
}

fn status(revision: &str) -> OciRepositoryStatus {
    OciRepositoryStatus {
        artifact: Some(artifact(revision)),
        observed_generation: Some(2),
        ..OciRepositoryStatus::default()
    }
}

fn plan(spec: &Value, status: OciRepositoryStatus, stored: Artifact, found: Result<Found, Failure>) -> Plan {
    let observed = Observed {
        status,
        artifact: stored,
        found,
        open: None,
    };
    decide(&declared(spec), &Seen::Observed(Box::new(observed)))
}

#[test]
fn an_artifact_is_made_when_an_input_changes() {
    let (one, two) = (found("v1", "1"), found("v1", "2"));
    let have = status(&one.revision);
    let check = |spec: Value, status: &OciRepositoryStatus, stored, now: &Found, want: Plan| {
        assert_eq!(plan(&spec, status.clone(), stored, Ok(now.clone())), want);
    };
    let none = OciRepositoryStatus::default();
    let publish = |found: &Found, why| Plan::Publish(found.clone(), why);
    check(json!({}), &none, Artifact::None, &one, publish(&one, Why::First));
    check(json!({}), &have, Artifact::Stored, &one, Plan::Keep);
    check(json!({}), &have, Artifact::Lost, &one, publish(&one, Why::Lost));
    check(
        json!({}),
        &have,
        Artifact::Stored,
        &two,
        publish(&two, Why::Revision),
    );
    let content = publish(&one, Why::Content);
    check(
        json!({ "ignore": "*.md" }),
        &have,
        Artifact::Stored,
        &one,
        content.clone(),
    );
    let selector = json!({ "layerSelector": { "operation": "copy" } });
    check(selector, &have, Artifact::Stored, &one, content);
    let verify = json!({ "verify": { "provider": "cosign", "secretRef": { "name": "keys" } } });
    check(
        verify.clone(),
        &have,
        Artifact::Stored,
        &one,
        Plan::Verify(one.clone()),
    );
    let mut verified = have.clone();
    verified.conditions = vec![Condition {
        last_transition_time: Time("2026-01-01T00:00:00Z".parse().unwrap()),
        message: String::new(),
        observed_generation: Some(2),
        reason: "Succeeded".to_owned(),
        status: "True".to_owned(),
        type_: "SourceVerified".to_owned(),
    }];
    check(verify.clone(), &verified, Artifact::Stored, &one, Plan::Keep);
    verified.conditions[0].observed_generation = Some(1);
    check(
        verify,
        &verified,
        Artifact::Stored,
        &one,
        Plan::Verify(one.clone()),
    );
}

#[test]
fn a_failure_keeps_the_artifact() {
    let failed = failure::layer("no layers found in artifact".to_owned());
    let got = plan(&json!({}), status("v1@x"), Artifact::Lost, Err(failed.clone()));
    assert_eq!(
        got,
        Plan::Fail {
            failure: failed,
            lost: true
        }
    );
}

#[test]
fn refused_specs_are_named() {
    let check = |spec: Value, reason: Reason, want: &str| {
        let Plan::Fail { failure, .. } = decide(&declared(&spec), &Seen::Unobserved) else {
            panic!("{spec} is not refused");
        };
        assert_eq!(failure.reason, reason, "{}", failure.message);
        assert!(failure.message.contains(want), "{}", failure.message);
    };
    for provider in ["aws", "azure", "gcp"] {
        // refused where credentials are needed: a directory needs none
        let named = format!("spec.provider {provider}");
        assert_eq!(
            declared(&json!({ "provider": provider })).cloud,
            Some(named.as_str())
        );
    }
    check(
        json!({ "url": "oci://ghcr.io/org/app:v1" }),
        Reason::UrlInvalid,
        "URL validation failed for 'oci://ghcr.io/org/app:v1': repository can only contain",
    );
    check(
        json!({ "url": "oci://ghcr.io/org/app:v1" }),
        Reason::UrlInvalid,
        "remove \":v1\" and use spec.ref",
    );
    for spec in [
        json!({}),
        json!({ "provider": "aws", "secretRef": { "name": "a" } }),
        json!({ "provider": "gcp", "serviceAccountName": "a" }),
        json!({ "verify": { "provider": "notation", "secretRef": { "name": "a" } } }),
        json!({ "verify": { "provider": "cosign" } }),
    ] {
        assert_eq!(decide(&declared(&spec), &Seen::Unobserved), Plan::Keep);
    }
}

fn lines(report: &Report<OciRepositoryStatus>) -> String {
    let mut lines: Vec<String> = report
        .status
        .conditions
        .iter()
        .map(|condition| {
            let Condition {
                type_,
                status,
                reason,
                message,
                ..
            } = condition;
            format!("{type_}={status} {reason}: {message}")
        })
        .collect();
    lines.sort();
    for notice in &report.notices {
        lines.push(format!("event {}: {}", notice.reason, notice.message));
    }
    lines.join("\n")
}

fn published(found: &Found, metadata: &[(&str, &str)]) -> Done {
    let metadata = metadata
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Done::Published(Box::new(Published {
        stored: Stored {
            path: "ocirepository/apps/app/1.tar.gz".to_owned(),
            url: "http://new/ocirepository/apps/app/1.tar.gz".to_owned(),
            digest: "sha256:def".to_owned(),
            size: 7,
            media_type: MediaType::Gzip,
            revision: found.revision.clone(),
            updated: Timestamp::UNIX_EPOCH,
            tree: Some(Tree::empty()),
        },
        latest: "http://new/ocirepository/apps/app/latest.tar.gz".to_owned(),
        metadata: metadata.collect(),
        verified: None,
    }))
}

#[test]
fn a_stored_artifact_is_reported_as_in_flux() {
    let (declared, found) = (declared(&json!({ "ignore": "*.md" })), found("v1", "1"));
    let origin = [
        ("org.opencontainers.image.source", "https://git/app"),
        ("org.opencontainers.image.revision", "main@sha1:1"),
    ];
    let before = OciRepositoryStatus::default();
    let got = report(
        &declared,
        &before,
        published(&found, &origin),
        Timestamp::UNIX_EPOCH,
    );
    let revision = &found.revision;
    assert_eq!(
        lines(&got),
        format!(
            "ArtifactInStorage=True Succeeded: stored artifact for digest '{revision}'\n\
             Ready=True Succeeded: stored artifact for digest '{revision}'\n\
             event NewArtifact: stored artifact with revision '{revision}' from 'oci://ghcr.io/org/app', \
             origin source 'https://git/app', origin revision 'main@sha1:1'"
        )
    );
    assert_eq!(
        got.status.url.as_deref(),
        Some("http://new/ocirepository/apps/app/latest.tar.gz")
    );
    assert_eq!(got.status.observed_ignore.as_deref(), Some("*.md"));
    assert_eq!(got.status.artifact.as_ref().unwrap().metadata.len(), 2);
    assert_eq!(got.status.observed_generation, Some(2));
    let kept = Done::Kept {
        url: Some("http://new/ocirepository/apps/app/1.tar.gz".to_owned()),
        latest: "http://new/ocirepository/apps/app/latest.tar.gz".to_owned(),
        verified: None,
    };
    let again = report(&declared, &got.status, kept, Timestamp::UNIX_EPOCH);
    assert_eq!(
        (&again.status, again.notices.len()),
        (&got.status, 0),
        "nothing changes"
    );
}

#[test]
fn failures_are_reported_as_in_flux() {
    let (declared, next) = (declared(&json!({})), found("v1", "2"));
    let before = status("v1@sha256:1");
    let failed = |failure: Failure, lost: bool| Done::Failed {
        news: Some(news(&declared, &next)),
        failure,
        lost,
    };
    let layer = failure::layer("no layers found in artifact".to_owned());
    let got = report(&declared, &before, failed(layer, false), Timestamp::UNIX_EPOCH);
    let text = format!("new revision '{}' for 'ghcr.io/org/app:v1'", next.revision);
    assert_eq!(
        lines(&got),
        format!(
            "ArtifactOutdated=True NewRevision: {text}\n\
             FetchFailed=True OCIArtifactLayerOperationFailed: no layers found in artifact\n\
             Ready=False OCIArtifactLayerOperationFailed: no layers found in artifact\n\
             Reconciling=True ProgressingWithRetry: building artifact: {text}\n\
             event OCIArtifactLayerOperationFailed: no layers found in artifact"
        )
    );
    let refused = failure::version(&Version::tag("").unwrap_err());
    let got = report(&declared, &before, failed(refused, true), Timestamp::UNIX_EPOCH);
    assert_eq!((got.next, got.status.artifact), (Next::Await, None));
    assert!(
        got.status
            .conditions
            .iter()
            .any(|condition| condition.type_ == "Stalled")
    );
    let unverified = Unverified {
        provider: "cosign",
        why: "no matching signatures were found for 'x'".to_owned(),
        is_setup: false,
    };
    let unverified = unverified.failure();
    assert_eq!(unverified.condition, Some(ConditionType::SourceVerified));
    assert!(unverified.hides_revision(false));
    let got = report(
        &declared,
        &before,
        Done::NotRemoved("full".to_owned()),
        Timestamp::UNIX_EPOCH,
    );
    assert!(!got.ended);
}
