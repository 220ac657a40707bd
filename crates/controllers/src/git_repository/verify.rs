//! `spec.verify`: whether a revision has the required signatures, with Flux's messages.

use std::time::SystemTime;

use equate_api::meta::Reason;
use equate_git::{Commit, Mirrors, Remote, Signers};

use super::Context;
use super::declared::{Declared, Verify};
use super::failure::Failure;
use super::observe;
use crate::kit::controller::Retry;
use crate::kit::read::chain;
use crate::kit::time_limit::TimeLimit;

/// The keys of the Secret.
pub(super) async fn signers(cx: &Context, declared: &Declared, verify: &Verify) -> Result<Signers, Failure> {
    let data = observe::secret(cx, &declared.key.namespace, &verify.secret)
        .await
        .map_err(|error| {
            let message = format!("public keys secret error: {}", chain(&error));
            Failure::verification(Reason::VerificationError, message)
        })?;
    Ok(Signers::new(
        data.iter()
            .map(|(name, value)| (name.as_str(), value.0.as_slice())),
    ))
}

/// Verifies, and returns the condition's message. Blocks.
pub(super) fn verify(
    git: &Mirrors,
    remote: &Remote,
    commit: &Commit,
    verify: &Verify,
    signers: &Signers,
    now: SystemTime,
) -> Result<String, Failure> {
    let mut verified = Vec::new();
    if verify.tag() {
        verified.push(tag(git, remote, commit, signers, now)?);
    }
    if verify.head() {
        let id = commit.revision().commit();
        let key = commit.verify(signers, now).map_err(|error| {
            let message = format!(
                "signature verification of commit '{id}' failed: {}",
                chain(&error)
            );
            Failure::verification(Reason::InvalidCommitSignature, message)
        })?;
        verified.push(format!("\n\t- commit '{id}' with key '{key}'"));
    }
    Ok(format!("verified signature of{}", verified.concat()))
}

fn tag(
    git: &Mirrors,
    remote: &Remote,
    commit: &Commit,
    signers: &Signers,
    now: SystemTime,
) -> Result<String, Failure> {
    let limit = TimeLimit::of(remote.timeout, remote.timeout);
    let tagged = git.tag(remote, commit);
    let Some(tag) = tagged.map_err(|error| Failure::fetch(&error, limit))? else {
        let message = "cannot verify tag object's signature if a tag reference is not specified".to_owned();
        return Err(Failure {
            retry: Retry::Never,
            ..Failure::verification(Reason::InvalidVerificationMode, message)
        });
    };
    let broken = |error| {
        let message = format!("signature verification of tag '{tag}' failed: {}", chain(&error));
        Failure::verification(Reason::InvalidTagSignature, message)
    };
    if !tag.is_signed().map_err(broken)? {
        let message = format!("cannot verify signature of tag '{tag}' since it is not signed");
        return Err(Failure::verification(Reason::InvalidGitObject, message));
    }
    let key = tag.verify(signers, now).map_err(broken)?;
    Ok(format!("\n\t- tag '{tag}' with key '{key}'"))
}
