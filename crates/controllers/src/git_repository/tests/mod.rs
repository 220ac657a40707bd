//! Decisions, credentials and statuses, as values.

use std::collections::BTreeMap;
use std::time::Duration;

use equate_api::meta::{Condition, ConditionType, Reason};
use equate_api::source::{Artifact as StatusArtifact, GitRepository, GitRepositoryStatus};
use equate_git::{Credentials, Mirrors, Reference, Remote, Revision, Secret};
use equate_source::{MediaType, Stored, Tree};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::act::{Done, Published};
use super::credentials;
use super::decide::{Artifact, Observed, Plan, Seen, Why, decide};
use super::declared::Declared;
use super::failure::Failure;
use super::report::{news, publish, report, succeeded};
use crate::kit::controller::Retry;
use crate::kit::read::chain;
use crate::kit::time_limit::TimeLimit;
use crate::sources::draft::{Draft, recovered};

mod deletion;
mod include;
mod run;
mod secrets;
mod submodule;
mod verify;

const FIRST: &str = "main@sha1:1111111111111111111111111111111111111111";
const SECOND: &str = "main@sha1:2222222222222222222222222222222222222222";

fn merge(mut into: Value, from: Value) -> Value {
    if let (Value::Object(into), Value::Object(from)) = (&mut into, from) {
        into.extend(from);
    }
    into
}

fn object(metadata: Value, spec: Value) -> GitRepository {
    let metadata = merge(
        json!({ "name": "fleet", "namespace": "flux-system", "generation": 2,
            "finalizers": ["finalizers.fluxcd.io"] }),
        metadata,
    );
    let spec = merge(
        json!({ "url": "https://example.org/fleet.git", "interval": "1m" }),
        spec,
    );
    serde_json::from_value(json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "metadata": metadata,
        "spec": spec,
    }))
    .unwrap()
}

fn declared(spec: Value) -> Declared {
    Declared::try_from(&object(json!({}), spec)).unwrap()
}

fn artifact(revision: &str) -> StatusArtifact {
    StatusArtifact {
        digest: "sha256:abc".to_owned(),
        last_update_time: Time("2026-01-01T00:00:00Z".parse().unwrap()),
        metadata: BTreeMap::new(),
        path: "gitrepository/flux-system/fleet/1.tar.gz".to_owned(),
        revision: revision.to_owned(),
        size: Some(7),
        url: "http://old/gitrepository/flux-system/fleet/1.tar.gz".to_owned(),
    }
}

fn failure(retry: bool) -> Failure {
    Failure {
        condition: Some(ConditionType::FetchFailed),
        reason: Reason::GitOperationFailed,
        message: "no answer".to_owned(),
        retry: match retry {
            true => Retry::Backoff,
            false => Retry::Never,
        },
    }
}

/// The plan where nothing outside was read.
fn unobserved(metadata: Value, spec: Value) -> Plan {
    let declared = Declared::try_from(&object(metadata, spec)).unwrap();
    decide(&declared, &Seen::Unobserved)
}

#[test]
fn a_deleted_object_is_not_observed() {
    let deleting = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
    for spec in [
        json!({ "suspend": true }),
        json!({ "include": [{ "repository": { "name": "a" } }] }),
        json!({ "provider": "aws" }),
    ] {
        assert_eq!(unobserved(deleting.clone(), spec), Plan::Delete);
    }
}

#[test]
fn supported_fields_are_not_refused() {
    for spec in [
        json!({ "include": [{ "repository": { "name": "a" } }] }),
        json!({ "verify": { "secretRef": { "name": "k" } } }),
        json!({ "recurseSubmodules": true }),
        json!({ "sparseCheckout": ["a"] }),
        json!({ "provider": "generic" }),
        json!({ "provider": "github" }),
        json!({ "proxySecretRef": { "name": "p" } }),
    ] {
        assert_eq!(unobserved(json!({}), spec), Plan::Keep);
    }
}

#[test]
fn git_repository_provider_of_a_cloud_is_refused_by_name() {
    let check = |spec: Value, field: &str| {
        let expected = Plan::Fail {
            failure: Failure::unsupported(field, "repository"),
            lost: false,
        };
        assert_eq!(unobserved(json!({}), spec), expected);
    };
    check(json!({ "provider": "aws" }), "spec.provider aws");
    check(json!({ "provider": "azure" }), "spec.provider azure");
    check(
        json!({ "provider": "aws", "serviceAccountName": "a" }),
        "spec.provider aws",
    );
    check(json!({ "serviceAccountName": "a" }), "spec.serviceAccountName");
}

#[test]
fn an_artifact_is_made_when_an_input_changes() {
    let status = GitRepositoryStatus {
        artifact: Some(artifact(FIRST)),
        observed_ignore: Some("*.md".to_owned()),
        ..GitRepositoryStatus::default()
    };
    let other = |change: fn(&mut GitRepositoryStatus)| {
        let mut status = status.clone();
        change(&mut status);
        status
    };
    let check = |ignore: Value, status: &GitRepositoryStatus, artifact, remote: &str, expected: &str| {
        let revision = remote.parse::<Revision>().map_err(|_| failure(true));
        let seen = Seen::Observed(Box::new(Observed {
            status: status.clone(),
            artifact,
            revision,
            included: Vec::new(),
            remote: None,
            fetching: None,
        }));
        let shown = match decide(&declared(json!({ "ignore": ignore })), &seen) {
            Plan::Keep => "keep".to_owned(),
            Plan::Publish(revision, why) => format!("{why:?} {revision}"),
            Plan::Fail { failure, .. } => failure.message,
            Plan::Delete => "delete".to_owned(),
        };
        assert_eq!(shown, expected);
    };
    use Artifact::{Lost, None as Nothing, Stored};
    let same = json!("*.md");
    check(same.clone(), &status, Stored, FIRST, "keep");
    check(
        same.clone(),
        &status,
        Stored,
        SECOND,
        &format!("{:?} {SECOND}", Why::Revision),
    );
    check(
        same.clone(),
        &status,
        Lost,
        FIRST,
        &format!("{:?} {FIRST}", Why::Lost),
    );
    check(
        json!("*.txt"),
        &status,
        Stored,
        FIRST,
        &format!("{:?} {FIRST}", Why::Content),
    );
    check(
        json!(null),
        &status,
        Stored,
        FIRST,
        &format!("{:?} {FIRST}", Why::Content),
    );
    let none = other(|status| status.artifact = None);
    check(
        same.clone(),
        &none,
        Nothing,
        FIRST,
        &format!("{:?} {FIRST}", Why::First),
    );
    // the same commit, by another reference
    let tag = FIRST.replace("main", "v1.0.0");
    check(
        same.clone(),
        &status,
        Stored,
        &tag,
        &format!("{:?} {tag}", Why::Revision),
    );
    // observed settings of Flux whose fields are no longer set
    let submodules = other(|status| status.observed_recurse_submodules = true);
    check(
        same.clone(),
        &submodules,
        Stored,
        FIRST,
        &format!("{:?} {FIRST}", Why::Content),
    );
    let sparse = other(|status| status.observed_sparse_checkout = vec!["a".to_owned()]);
    check(
        same.clone(),
        &sparse,
        Stored,
        FIRST,
        &format!("{:?} {FIRST}", Why::Content),
    );
    // nothing is known: nothing is done, whatever exists
    for artifact in [Stored, Lost, Nothing] {
        check(json!(null), &status, artifact, "unreadable", "no answer");
    }
}

#[test]
fn all_reference_fields_reach_git() {
    let given = json!({ "branch": "b", "tag": "t", "semver": ">1", "name": "refs/x", "commit": "c" });
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        declared(json!({ "ref": given })).reference,
        Reference {
            branch: text("b"),
            tag: text("t"),
            semver: text(">1"),
            name: text("refs/x"),
            commit: text("c")
        }
    );
    assert_eq!(declared(json!({})).reference, Reference::default());
}

#[test]
fn a_secret_is_read_for_the_urls_protocol() {
    let check = |url: &str, secret: Option<&[(&str, &str)]>, expected: Result<Remote, &str>| {
        let declared = declared(json!({ "url": url, "timeout": "7s", "secretRef": { "name": "key" } }));
        let data = secret.map(|data| {
            data.iter()
                .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
                .collect()
        });
        let opened = credentials::remote(&declared, data.as_ref())
            .map_err(|error| format!("{}: {}", error.reason().as_str(), chain(&error)));
        assert_eq!(opened, expected.map_err(str::to_owned), "{url} {secret:?}");
    };
    let (https, http, ssh) = ("https://h/x", "http://h/x", "ssh://git@h/x");
    let plain = |url: &str| Remote::new(url).with_timeout(Duration::from_secs(7));
    let basic = |url: &str, password: &str| {
        let credentials = Credentials::Basic {
            username: "me".to_owned(),
            password: Secret::new(password),
        };
        Ok(plain(url).with_credentials(credentials))
    };
    let bearer = plain(https).with_credentials(Credentials::Bearer(Secret::new("token")));
    let key = |passphrase: Option<&str>| {
        Ok(plain(ssh).with_credentials(Credentials::Ssh {
            identity: Secret::new("I"),
            known_hosts: b"H".to_vec(),
            passphrase: passphrase.map(Secret::new),
        }))
    };
    check(https, None, Ok(plain(https)));
    check(https, Some(&[]), Ok(plain(https)));
    check(
        https,
        Some(&[("username", "me"), ("password", "pw")]),
        basic(https, "pw"),
    );
    check(
        http,
        Some(&[("username", "me"), ("password", "pw")]),
        basic(http, "pw"),
    );
    check(https, Some(&[("username", "me")]), basic(https, ""));
    check(
        https,
        Some(&[("bearerToken", "token"), ("username", "me")]),
        Ok(bearer.clone()),
    );
    check(
        https,
        Some(&[("ca.crt", "C"), ("caFile", "F")]),
        Ok(plain(https).with_ca("C")),
    );
    check(
        https,
        Some(&[("caFile", "F"), ("bearerToken", "token")]),
        Ok(bearer.with_ca("F")),
    );
    let client = Remote {
        client_certificate: Some(Secret::new("C\nK")),
        ..plain(https)
    };
    check(https, Some(&[("tls.crt", "C"), ("tls.key", "K")]), Ok(client));
    check(
        https,
        Some(&[("password", "pw")]),
        Err(
            "AuthenticationFailed: failed to configure authentication options: invalid 'https' auth option: \
             'username' is required in secret 'flux-system/key'",
        ),
    );
    check(
        https,
        Some(&[("tls.crt", "C")]),
        Err(
            "AuthenticationFailed: failed to configure authentication options: invalid 'https' auth option: \
             'tls.key' is required in secret 'flux-system/key'",
        ),
    );
    check(ssh, Some(&[("identity", "I"), ("known_hosts", "H")]), key(None));
    check(
        ssh,
        Some(&[("identity", "I"), ("known_hosts", "H"), ("password", "pw")]),
        key(Some("pw")),
    );
    check(
        ssh,
        None,
        Err(
            "AuthenticationFailed: failed to configure authentication options: invalid 'ssh' auth option: \
             'identity' is required: name a Secret with identity and known_hosts in spec.secretRef",
        ),
    );
    check(
        ssh,
        Some(&[("identity", "I"), ("known_hosts", "")]),
        Err(
            "AuthenticationFailed: failed to configure authentication options: invalid 'ssh' auth option: \
             'known_hosts' is required in secret 'flux-system/key'",
        ),
    );
    check(
        https,
        Some(&[("githubAppID", "1"), ("githubAppPrivateKey", "K")]),
        Err(
            "InvalidProviderConfiguration: secretRef 'flux-system/key' has github app data but provider is \
             not set to github",
        ),
    );
}

/// A git error about an invalid URL or reference ends the retries; other errors do not.
#[test]
fn final_errors_are_not_retried() {
    let place = tempfile::tempdir().unwrap();
    let mirrors = Mirrors::new(place.path(), equate_git::Limits::default())
        .instead_of("https://h/absent", &place.path().join("absent"));
    let check = |url: &str, reference: Reference, expected: &str| {
        let error = mirrors.resolve(&Remote::new(url), &reference).unwrap_err();
        let limit = TimeLimit::of(Duration::MAX, Duration::MAX);
        let failure = Failure::resolve(&error, limit);
        let shown = format!(
            "{} {} {}",
            failure.reason.as_str(),
            failure.retry != Retry::Never,
            failure.message
        );
        assert!(shown.starts_with(expected), "{shown}");
    };
    let beginning = "failed to checkout and determine revision: ";
    check(
        "ftp://h/x",
        Reference::default(),
        &format!("URLInvalid false {beginning}"),
    );
    check(
        "https://h/x",
        Reference::commit("not an id"),
        &format!("GitOperationFailed false {beginning}"),
    );
    check(
        "https://h/absent",
        Reference::default(),
        &format!("GitOperationFailed true {beginning}"),
    );
}

/// One line for the status, then one for each condition.
fn check_status(status: &GitRepositoryStatus, expected: &[&str]) {
    let show = |condition: &Condition| {
        format!(
            "{}={} {} {}: {}",
            condition.type_,
            condition.status,
            condition.reason,
            condition.observed_generation.unwrap_or_default(),
            condition.message
        )
    };
    let head = format!(
        "artifact {:?} observed {:?} ignore {:?}",
        status.artifact.as_ref().map(|artifact| &*artifact.revision),
        status.observed_generation,
        status.observed_ignore,
    );
    let lines: Vec<String> = std::iter::once(head)
        .chain(status.conditions.iter().map(show))
        .collect();
    assert_eq!(lines.join("\n"), expected.join("\n"));
}

fn stored(revision: &str) -> Stored {
    Stored {
        path: "gitrepository/flux-system/fleet/2.tar.gz".to_owned(),
        url: "http://new/gitrepository/flux-system/fleet/2.tar.gz".to_owned(),
        digest: "sha256:def".to_owned(),
        size: 9,
        media_type: MediaType::Gzip,
        revision: revision.to_owned(),
        updated: "2026-01-02T00:00:00.75Z".parse().unwrap(),
        tree: Some(Tree::empty()),
    }
}

fn published_at(revision: &str) -> Published {
    Published {
        stored: stored(revision),
        summary: String::new(),
        verified: None,
        included: Vec::new(),
    }
}

#[test]
fn the_end_of_a_run_answers_a_request_and_a_failure_is_counted() {
    let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
    let declared = Declared::try_from(&object(json!({}), json!({}))).unwrap();
    let before = GitRepositoryStatus::default();
    let check = |done: Done, ended: bool, failed: bool| {
        let text = format!("{done:?}");
        let said = report(&declared, &before, done, now);
        assert_eq!((said.ended, said.failed), (ended, failed), "{text}");
        // the kit alone answers
        assert_eq!(said.status.last_handled_reconcile_at, None, "{text}");
    };
    let fails = |failure: Failure| Done::Failed {
        failure,
        revision: None,
        lost: false,
    };
    let waits = Failure::include(Reason::DependencyNotReady, "not there yet".to_owned());
    check(Done::Kept { url: None }, true, false);
    check(Done::Published(Box::new(published_at(FIRST))), true, false);
    check(fails(failure(true)), true, true);
    check(fails(failure(false)), true, true);
    check(fails(waits), true, false);
    check(Done::Unopened, false, true);
    check(Done::NotRemoved("no access".to_owned()), false, true);
}

#[test]
fn statuses_equal_those_of_flux() {
    let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
    let declared = Declared::try_from(&object(json!({}), json!({ "ignore": "*.md" }))).unwrap();
    let nothing = GitRepositoryStatus {
        observed_generation: Some(-1),
        ..GitRepositoryStatus::default()
    };
    let report = |before: &GitRepositoryStatus| Draft::new(before, declared.generation, now);

    let waiting = report(&nothing).progressing(None);
    check_status(
        &waiting,
        &[
            r#"artifact None observed Some(-1) ignore None"#,
            "Reconciling=True Progressing 2: building artifact",
            "Ready=Unknown Progressing 2: building artifact",
        ],
    );

    let failed = report(&waiting).failed(&failure(true), None).finish();
    check_status(
        &failed,
        &[
            r#"artifact None observed Some(-1) ignore None"#,
            "Reconciling=True ProgressingWithRetry 2: building artifact",
            "Ready=False GitOperationFailed 2: no answer",
            "FetchFailed=True GitOperationFailed 2: no answer",
        ],
    );
    // repeating it changes nothing
    assert_eq!(report(&failed).failed(&failure(true), None).finish(), failed);

    let ready = publish(&declared, report(&failed), &published_at(FIRST)).finish();
    check_status(
        &ready,
        &[
            &format!(r#"artifact Some("{FIRST}") observed Some(2) ignore Some("*.md")"#),
            &format!("Ready=True Succeeded 2: stored artifact for revision '{FIRST}'"),
            &format!("ArtifactInStorage=True Succeeded 2: stored artifact for revision '{FIRST}'"),
        ],
    );
    assert!(recovered(&failed, &ready) && !recovered(&ready, &ready));
    let published = ready.artifact.as_ref().unwrap();
    assert_eq!(
        serde_json::to_value(published).unwrap(),
        json!({
            "digest": "sha256:def",
            "lastUpdateTime": "2026-01-02T00:00:00Z",
            "path": "gitrepository/flux-system/fleet/2.tar.gz",
            "revision": FIRST,
            "size": 9,
            "url": "http://new/gitrepository/flux-system/fleet/2.tar.gz",
        })
    );
    let url = |host: &str| Some(format!("http://{host}/{}", published.path));
    assert_eq!(
        succeeded(&declared, report(&ready).moved(url("new"))).finish(),
        ready
    );
    let moved = succeeded(&declared, report(&ready).moved(url("elsewhere"))).finish();
    assert!(moved.artifact.unwrap().url.starts_with("http://elsewhere/"));

    let fetching = report(&ready).failed(&failure(true), None).finish();
    check_status(
        &fetching,
        &[
            &format!(r#"artifact Some("{FIRST}") observed Some(2) ignore Some("*.md")"#),
            "Reconciling=True ProgressingWithRetry 2: reconciliation in progress",
            "Ready=False GitOperationFailed 2: no answer",
            &format!("ArtifactInStorage=True Succeeded 2: stored artifact for revision '{FIRST}'"),
            "FetchFailed=True GitOperationFailed 2: no answer",
        ],
    );
    let full = Failure {
        condition: Some(ConditionType::StorageOperationFailed),
        reason: Reason::ArchiveOperationFailed,
        message: "no space left".to_owned(),
        retry: Retry::Backoff,
    };
    let storing = report(&fetching).failed(&full, Some(&news(SECOND))).finish();
    check_status(
        &storing,
        &[
            &format!(r#"artifact Some("{FIRST}") observed Some(2) ignore Some("*.md")"#),
            &format!(
                "Reconciling=True ProgressingWithRetry 2: building artifact: new upstream revision '{SECOND}'"
            ),
            "Ready=False ArchiveOperationFailed 2: no space left",
            &format!("ArtifactInStorage=True Succeeded 2: stored artifact for revision '{FIRST}'"),
            &format!("ArtifactOutdated=True NewRevision 2: new upstream revision '{SECOND}'"),
            "StorageOperationFailed=True ArchiveOperationFailed 2: no space left",
        ],
    );
    assert_eq!(
        succeeded(&declared, report(&storing).moved(url("new"))).finish(),
        ready
    );

    let lost = report(&ready).lost().failed(&failure(true), None).finish();
    check_status(
        &lost,
        &[
            r#"artifact None observed Some(2) ignore Some("*.md")"#,
            "Reconciling=True ProgressingWithRetry 2: building artifact",
            "Ready=False GitOperationFailed 2: no answer",
            "FetchFailed=True GitOperationFailed 2: no answer",
        ],
    );

    let stalled = report(&fetching)
        .stalled(&Failure::unsupported("spec.include", "repository"))
        .finish();
    let words = "spec.include is not supported yet; remove it. Until then the repository is not fetched and the last \
                 artifact is kept";
    check_status(
        &stalled,
        &[
            &format!(r#"artifact Some("{FIRST}") observed Some(2) ignore Some("*.md")"#),
            &format!("Stalled=True Unsupported 2: {words}"),
            &format!("Ready=False Unsupported 2: {words}"),
            &format!("ArtifactInStorage=True Succeeded 2: stored artifact for revision '{FIRST}'"),
        ],
    );
    assert_eq!(
        publish(&declared, report(&stalled), &published_at(FIRST))
            .finish()
            .conditions,
        ready.conditions
    );

    // suspended: only the generation is updated
    let rested = report(&GitRepositoryStatus {
        observed_generation: Some(1),
        ..fetching.clone()
    })
    .suspended();
    assert_eq!(rested, fetching);
    assert_eq!(report(&nothing).suspended().observed_generation, Some(-1));
}
