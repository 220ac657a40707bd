//! `spec.verify`, on the embedded API: signatures of git with a key of `ssh-keygen`. Skipped with a line
//! where one of them is not installed; `equate-git` has the tests of OpenPGP.

use std::path::Path;
use std::process::Command;

use equate_api::meta::{Condition, ConditionType, condition};
use equate_api::source::GitRepositoryStatus;
use equate_testkit::eventually::eventually;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::run::{DEADLINE, Session, URL};

/// A program's output; `None` when it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let none = Path::new("/dev/null");
    let output = Command::new(program)
        .args(arguments)
        .envs([("GIT_CONFIG_GLOBAL", none), ("GIT_CONFIG_SYSTEM", none)])
        .output();
    match output {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program} {arguments:?}: {said}");
            Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
        }
        Err(error) => {
            println!("skipped: {program}: {error}");
            None
        }
    }
}

/// A session with signed commits.
struct Signing {
    session: Session,
    key: String,
    public: String,
    fingerprint: String,
}

impl Signing {
    async fn start() -> Option<Self> {
        let session = Session::start().await;
        let key = session.folder.path().join("key").display().to_string();
        run(
            "ssh-keygen",
            &["-q", "-t", "ed25519", "-N", "", "-C", "a", "-f", &key],
        )?;
        run("git", &["--version"])?;
        let listed = run("ssh-keygen", &["-l", "-f", &key])?;
        Some(Self {
            session,
            public: std::fs::read_to_string(format!("{key}.pub")).unwrap(),
            key,
            fingerprint: listed.split(' ').nth(1).unwrap().to_owned(),
        })
    }

    fn git(&self, arguments: &[&str]) -> String {
        let path = self.session.repository.path().display().to_string();
        let key = format!("user.signingkey={}", self.key);
        let mut all = vec![
            "-C",
            &path,
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            &key,
        ];
        all.extend_from_slice(&["-c", "gpg.format=ssh"]);
        all.extend_from_slice(arguments);
        run("git", &all).unwrap()
    }

    /// Commits a change of `a.yaml` on `main`. Returns its id.
    fn commit(&self, text: &str, signed: bool) -> String {
        let commit = self.session.repository.commit(&[("a.yaml", Some(text))]).unwrap();
        if !signed {
            return commit;
        }
        let tree = format!("{commit}^{{tree}}");
        let parent = self.git(&["rev-list", "--skip=1", "--max-count=1", &commit]);
        let mut arguments = vec!["commit-tree", "-S", "-m", "signed"];
        if !parent.is_empty() {
            arguments.extend_from_slice(&["-p", &parent]);
        }
        arguments.push(&tree);
        let signed = self.git(&arguments);
        self.session.repository.set_branch("main", &signed).unwrap();
        signed
    }

    async fn keys(&self, data: Value) {
        let secret: Secret = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "signers" }, "stringData": data,
        }))
        .unwrap();
        let secrets: Api<Secret> = Api::namespaced(self.session.cluster.client(), "flux-system");
        match secrets.get_opt("signers").await.unwrap() {
            None => drop(secrets.create(&PostParams::default(), &secret).await.unwrap()),
            Some(_) => {
                let patch = Patch::Merge(json!({ "data": null, "stringData": data }));
                drop(
                    secrets
                        .patch("signers", &PatchParams::default(), &patch)
                        .await
                        .unwrap(),
                );
            }
        }
    }

    async fn create(&self, reference: Value, mode: Option<&str>) {
        let verify = match mode {
            Some(mode) => json!({ "mode": mode, "secretRef": { "name": "signers" } }),
            None => json!({ "secretRef": { "name": "signers" } }),
        };
        let spec = json!({ "url": URL, "ref": reference, "interval": "1h", "verify": verify });
        self.session.create(spec).await;
    }

    /// Checks the verified objects, and the recorded mode.
    fn check(&self, status: &GitRepositoryStatus, mode: &str, objects: &[&str]) {
        let said = verified(status);
        let lines: String = objects
            .iter()
            .map(|object| format!("\n\t- {object} with key '{}'", self.fingerprint))
            .collect();
        assert_eq!(
            (said.status.as_str(), said.reason.as_str(), said.message),
            ("True", "Succeeded", format!("verified signature of{lines}"))
        );
        assert_eq!(status.source_verification_mode.as_deref(), Some(mode));
    }
}

fn verified(status: &GitRepositoryStatus) -> Condition {
    condition(&status.conditions, ConditionType::SourceVerified)
        .cloned()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_repository_verify_mode_head() {
    let Some(signing) = Signing::start().await else {
        return;
    };
    let session = &signing.session;
    signing.keys(json!({ "a.sshpub": signing.public })).await;
    let first = signing.commit("a: 1\n", true);
    let running = session.run().await;
    signing.create(json!({ "branch": "main" }), None).await;
    let status = session.artifact_of(&first).await;
    signing.check(&status, "HEAD", &[&format!("commit '{first}'")]);
    let artifact = status.artifact.unwrap();

    // an unsigned commit replaces nothing
    let second = signing.commit("a: 2\n", false);
    let message =
        format!("signature verification of commit '{second}' failed: unsupported signature type: empty");
    let status = session.ready("InvalidCommitSignature", &message).await;
    assert_eq!(status.artifact.as_ref(), Some(&artifact));
    assert_eq!(verified(&status).status, "False");
    assert!(running.tree(&artifact.digest).is_some());
    assert!(condition(&status.conditions, ConditionType::ArtifactOutdated).is_none());

    // back at a verified commit: it is verified again
    session.repository.set_branch("main", &first).unwrap();
    let status = session.artifact_of(&first).await;
    signing.check(&status, "HEAD", &[&format!("commit '{first}'")]);

    let third = signing.commit("a: 3\n", true);
    let status = session.artifact_of(&third).await;
    signing.check(&status, "HEAD", &[&format!("commit '{third}'")]);

    session.patch(json!({ "spec": { "verify": null } })).await;
    eventually(
        "what is not asked for is not said any more",
        DEADLINE,
        async || {
            let status = session.status().await;
            match condition(&status.conditions, ConditionType::SourceVerified) {
                None => Ok(()),
                Some(verified) => Err(format!("{verified:?}")),
            }
        },
    )
    .await;
    let status = session.artifact_of(&third).await;
    assert_eq!(status.source_verification_mode, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_repository_verify_mode_legacy_head() {
    let Some(signing) = Signing::start().await else {
        return;
    };
    signing.keys(json!({ "a.sshpub": signing.public })).await;
    let first = signing.commit("a: 1\n", true);
    let _running = signing.session.run().await;
    signing.create(json!({ "branch": "main" }), Some("head")).await;
    let status = signing.session.artifact_of(&first).await;
    signing.check(&status, "HEAD", &[&format!("commit '{first}'")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_repository_verify_mode_tag() {
    let Some(signing) = Signing::start().await else {
        return;
    };
    let session = &signing.session;
    signing.keys(json!({ "a.sshpub": signing.public })).await;
    let commit = signing.commit("a: 1\n", false);
    signing.git(&["tag", "light", &commit]);
    signing.git(&["tag", "-s", "-m", "one", "v1.0.0", &commit]);
    let tag = signing.git(&["rev-parse", "v1.0.0"]);
    let _running = session.run().await;
    signing.create(json!({ "tag": "light" }), Some("Tag")).await;
    let message = "cannot verify signature of tag 'light' since it is not signed";
    let status = session.ready("InvalidGitObject", message).await;
    assert_eq!(
        (verified(&status).status.as_str(), status.artifact),
        ("False", None)
    );

    for reference in [
        json!({ "tag": "v1.0.0" }),
        json!({ "tag": null, "semver": ">=1" }),
        json!({ "semver": null, "name": "refs/tags/v1.0.0" }),
    ] {
        session.patch(json!({ "spec": { "ref": reference } })).await;
        let name = if reference["name"].is_null() {
            "v1.0.0"
        } else {
            "refs/tags/v1.0.0"
        };
        let said = format!("stored artifact for revision '{name}@sha1:{commit}'");
        let status = session.ready("Succeeded", &said).await;
        signing.check(&status, "Tag", &[&format!("tag 'v1.0.0@{tag}'")]);
    }

    // a branch has no tag: only the spec can change that
    session
        .patch(json!({ "spec": { "ref": { "name": null, "branch": "main" } } }))
        .await;
    let message = "cannot verify tag object's signature if a tag reference is not specified";
    let status = session.ready("InvalidVerificationMode", message).await;
    let stalled = condition(&status.conditions, ConditionType::Stalled).unwrap();
    assert_eq!(
        (stalled.status.as_str(), stalled.reason.as_str()),
        ("True", "InvalidVerificationMode")
    );
    assert!(status.artifact.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_repository_verify_mode_tag_and_head() {
    let Some(signing) = Signing::start().await else {
        return;
    };
    let session = &signing.session;
    signing.keys(json!({ "a.sshpub": signing.public })).await;
    let plain = signing.commit("a: 1\n", false);
    signing.git(&["tag", "-s", "-m", "half", "v1.0.0", &plain]);
    let commit = signing.commit("a: 2\n", true);
    signing.git(&["tag", "-s", "-m", "whole", "v2.0.0", &commit]);
    let tag = signing.git(&["rev-parse", "v2.0.0"]);
    // an old release under a new name, by the server of the repository
    signing.git(&["update-ref", "refs/tags/v3.0.0", "refs/tags/v2.0.0"]);
    let _running = session.run().await;
    signing
        .create(json!({ "tag": "v1.0.0" }), Some("TagAndHEAD"))
        .await;
    let message = format!("signature verification of commit '{plain}' failed");
    session.ready("InvalidCommitSignature", &message).await;

    session
        .patch(json!({ "spec": { "ref": { "tag": "v2.0.0" } } }))
        .await;
    let said = format!("stored artifact for revision 'v2.0.0@sha1:{commit}'");
    let status = session.ready("Succeeded", &said).await;
    let objects = [&*format!("tag 'v2.0.0@{tag}'"), &format!("commit '{commit}'")];
    signing.check(&status, "TagAndHEAD", &objects);

    session
        .patch(json!({ "spec": { "ref": { "tag": "v3.0.0" } } }))
        .await;
    let message = "failed: the tag object names \"v2.0.0\", not \"v3.0.0\"";
    let status = session.ready("InvalidTagSignature", message).await;
    assert_eq!(status.artifact.unwrap().revision, format!("v2.0.0@sha1:{commit}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_repository_verify_secret_ref() {
    let Some(signing) = Signing::start().await else {
        return;
    };
    let session = &signing.session;
    let commit = signing.commit("a: 1\n", true);
    let _running = session.run().await;
    signing.create(json!({ "branch": "main" }), Some("HEAD")).await;
    let message = "public keys secret error: failed to get secret 'flux-system/signers'";
    let status = session.ready("VerificationError", message).await;
    assert_eq!(verified(&status).reason, "VerificationError");

    let failed = format!("signature verification of commit '{commit}' failed");
    let other = session.folder.path().join("other").display().to_string();
    run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &other]).unwrap();
    let other = std::fs::read_to_string(format!("{other}.pub")).unwrap();
    // keys of the other kind, keys under an unknown name, another person's key
    for (data, message) in [
        (json!({ "a.asc": "x" }), "no SSH public keys found in secret"),
        (
            json!({ "a": signing.public }),
            "no SSH public keys found in secret",
        ),
        (json!({ "a.sshpub": other }), "no matching key"),
    ] {
        signing.keys(data.clone()).await;
        let asked = json!({ "reconcile.fluxcd.io/requestedAt": data.to_string() });
        session
            .patch(json!({ "metadata": { "annotations": asked } }))
            .await;
        let status = session.ready("InvalidCommitSignature", message).await;
        assert!(
            verified(&status).message.starts_with(&failed),
            "{}",
            verified(&status).message
        );
    }
    signing
        .keys(json!({ "a.sshpub": other, "b.sshpub": signing.public }))
        .await;
    let asked = json!({ "reconcile.fluxcd.io/requestedAt": "both" });
    session
        .patch(json!({ "metadata": { "annotations": asked } }))
        .await;
    session.artifact_of(&commit).await;
}
