//! Corrects the objects that differ from the release.

use std::time::Duration;

use equate_api::meta::{ConditionStatus, ConditionType, Reason as Why};
use equate_apply::cluster::{PatchKind, Write};
use jiff::Timestamp;
use serde_json::Value;

use super::drift_message;
use super::outcome::about;
use crate::helm_release::decide::seen::Seen;
use crate::helm_release::declared::{Action, Declared};
use crate::helm_release::objects::named;
use crate::helm_release::observe::drift::{Difference, differences};
use crate::helm_release::report::Done;
use crate::helm_release::status::{Draft, full_name, latest};
use crate::helm_release::{HELM_RELEASE, HelmReleases, Run};
use crate::kit::controller::{Acted, Notice};
use crate::kit::events::Severity;
use crate::kit::read::chain;
use crate::kit::reconciliation::Stop;
use crate::targets::target::Access;

const ANSWER: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) async fn correct(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    seen: &Seen,
    mut draft: Draft,
    access: &Access,
) -> Result<Acted<Done>, Stop> {
    let message = drift_message(&draft.status, seen);
    draft.set(
        ConditionType::Drifted,
        ConditionStatus::True,
        Why::DriftDetected,
        &message,
    );
    run.write_status(draft.status).await?;
    run.emit(Notice::new(
        Severity::Warning,
        Why::DriftDetected.as_str(),
        message,
    ));
    let (mut done, mut errors) = (Vec::new(), Vec::new());
    for difference in differences(cx, run, declared).await {
        let name = named(&difference.target.id);
        match write(cx, run, declared, access, &difference).await {
            Ok(word) => done.push(format!("{name} {word}")),
            Err(why) => errors.push(format!("{name} {why}")),
        }
    }
    let status = run.status();
    let current = latest(&status.history);
    let release = current.map(full_name).unwrap_or_default();
    let noticed = |severity, reason, text: &str| match current {
        Some(current) => about(severity, reason, text, current),
        None => Notice::new(severity, reason, text),
    };
    if !errors.is_empty() {
        let partially = if done.is_empty() { "" } else { "partially " };
        let mut text = format!(
            "Failed to {partially}correct cluster state of release {release}:\n{}",
            errors.join("\n")
        );
        if !done.is_empty() {
            text.push_str("\n\nSuccessful corrections:\n");
            text.push_str(&done.join("\n"));
        }
        run.emit(noticed(Severity::Warning, "DriftCorrectionFailed", &text));
    } else if !done.is_empty() {
        let text = format!(
            "Cluster state of release {release} has been corrected:\n{}",
            done.join("\n")
        );
        run.emit(noticed(Severity::Normal, "DriftCorrected", &text));
    }
    run.memory.attempted.insert(Action::CorrectDrift.class());
    run.memory.this_run.drift = None;
    let mut draft = Draft::new(run.status(), declared.generation, Timestamp::now());
    draft.summarize(declared);
    run.write_status(draft.status).await?;
    Ok(Acted::Again)
}

async fn write(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    access: &Access,
    difference: &Difference,
) -> Result<&'static str, String> {
    let target = &difference.target;
    let at = (&target.id, target.api_version());
    let patch = Value::Array(difference.operations.clone().unwrap_or_default());
    let (write, word, verb) = match &difference.operations {
        None => (
            Write::Apply {
                object: &target.object,
                dry_run: false,
            },
            "created",
            "creation",
        ),
        // a patch leaves the ignored fields alone
        Some(_) if difference.ignores => (Write::Patch(PatchKind::Json, &patch), "configured", "patch"),
        Some(_) => (
            Write::Apply {
                object: &target.object,
                dry_run: false,
            },
            "configured",
            "patch",
        ),
    };
    let written = access
        .cluster
        .write(&HELM_RELEASE, at, write, (ANSWER, PATIENCE))
        .await;
    match written {
        Ok(Some(written)) => {
            super::objects::note(cx, run, declared, access, &target.id, &written.object);
            Ok(word)
        }
        Ok(None) => Ok(word),
        Err(error) => Err(format!("{verb} failure: {}", chain(&error))),
    }
}
