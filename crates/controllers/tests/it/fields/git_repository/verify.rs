//! Signatures. Skipped with a line where `ssh-keygen` is not installed.

use serde_json::{Value, json};

use super::super::{git, program};
use crate::session::Session;

/// A session with signed commits and tags.
struct Signing {
    session: Session,
    key: String,
}

impl Signing {
    async fn start() -> Option<Self> {
        let session = Session::anywhere(&[]).await;
        let key = session.folder().join("key").display().to_string();
        let arguments = ["-q", "-t", "ed25519", "-N", "", "-C", "a", "-f", &key];
        program("ssh-keygen", &arguments)?;
        let public = std::fs::read_to_string(format!("{key}.pub")).unwrap();
        session.secret("signers", json!({ "a.sshpub": public })).await;
        Some(Self { session, key })
    }

    fn git(&self, arguments: &[&str]) -> String {
        let key = format!("user.signingkey={}", self.key);
        let mut all = vec!["-c", "gpg.format=ssh", "-c", &key];
        all.extend_from_slice(arguments);
        git(&self.session, &all).unwrap()
    }

    fn plain(&self) -> String {
        self.session
            .repository
            .commit(&[("a.yaml", Some("a: 1\n"))])
            .unwrap()
    }

    fn signed(&self) -> String {
        let tree = format!("{}^{{tree}}", self.plain());
        let signed = self.git(&["commit-tree", "-S", "-m", "signed", &tree]);
        self.session.repository.set_branch("main", &signed).unwrap();
        signed
    }

    async fn source(&self, name: &str, reference: Value, mode: Option<&str>) {
        let mut verify = json!({ "secretRef": { "name": "signers" } });
        if let Some(mode) = mode {
            verify["mode"] = json!(mode);
        }
        let spec = json!({ "ref": reference, "verify": verify });
        self.session.source(name, spec).await;
    }
}

/// Signed commits are accepted, unsigned ones are refused.
async fn commits(mode: Option<&str>, remembered: &str) {
    let Some(signing) = Signing::start().await else {
        return;
    };
    let signed = signing.signed();
    signing.source("app", json!({ "branch": "main" }), mode).await;
    let status = signing.session.stored("app", &signed).await;
    assert_eq!(status["sourceVerificationMode"], json!(remembered));
    let plain = signing.plain();
    let message = format!("signature verification of commit '{plain}' failed");
    let status = signing
        .session
        .says("app", "InvalidCommitSignature", &message)
        .await;
    let revision = status["artifact"]["revision"].as_str().unwrap();
    assert!(revision.ends_with(&signed), "{revision}");
    signing.session.end().await;
}

/// The mode of the last verification; empty without verification.
#[tokio::test]
async fn status_source_verification_mode() {
    let Some(signing) = Signing::start().await else {
        return;
    };
    let signed = signing.signed();
    let branch = json!({ "branch": "main" });
    signing.source("app", branch, Some("HEAD")).await;
    let status = signing.session.stored("app", &signed).await;
    assert_eq!(status["sourceVerificationMode"], json!("HEAD"));
    let plain = signing.plain();
    signing.session.change("app", json!({ "verify": null })).await;
    let status = signing.session.stored("app", &plain).await;
    assert_eq!(status["sourceVerificationMode"], Value::Null);
    signing.session.end().await;
}

#[tokio::test]
async fn spec_verify_mode_head() {
    commits(Some("HEAD"), "HEAD").await;
}

#[tokio::test]
async fn spec_verify_mode_head_in_small_letters() {
    commits(Some("head"), "HEAD").await;
}

#[tokio::test]
async fn spec_verify_mode_head_by_default() {
    commits(None, "HEAD").await;
}

/// The tag is signed, the commit is not.
async fn tags(mode: &str, taken: bool) {
    let Some(signing) = Signing::start().await else {
        return;
    };
    let plain = signing.plain();
    signing.git(&["tag", "-s", "-m", "one", "v1", &plain]);
    signing.source("app", json!({ "tag": "v1" }), Some(mode)).await;
    match taken {
        true => drop(signing.session.stored("app", &plain).await),
        false => {
            let message = format!("signature verification of commit '{plain}' failed");
            signing
                .session
                .says("app", "InvalidCommitSignature", &message)
                .await;
        }
    }
    signing.session.end().await;
}

#[tokio::test]
async fn spec_verify_mode_tag() {
    tags("Tag", true).await;
}

#[tokio::test]
async fn spec_verify_mode_tag_that_is_not_signed() {
    let Some(signing) = Signing::start().await else {
        return;
    };
    let signed = signing.signed();
    signing.session.repository.annotated_tag("v1", &signed).unwrap();
    signing.source("app", json!({ "tag": "v1" }), Some("Tag")).await;
    signing.session.says("app", "InvalidGitObject", "v1").await;
    signing.session.end().await;
}

#[tokio::test]
async fn spec_verify_mode_tag_and_head() {
    tags("TagAndHEAD", false).await;
}

#[tokio::test]
async fn spec_verify_secret_ref_name() {
    let Some(signing) = Signing::start().await else {
        return;
    };
    let signed = signing.signed();
    let session = &signing.session;
    let verify = json!({ "mode": "HEAD", "secretRef": { "name": "absent" } });
    session.source("app", json!({ "verify": verify })).await;
    session.says("app", "VerificationError", "absent").await;
    session
        .change("app", json!({ "verify": { "secretRef": { "name": "signers" } } }))
        .await;
    session.stored("app", &signed).await;
    signing.session.end().await;
}
