//! The error of apply conflicts.

use super::entries::{Identity, Operation};
use crate::status::{ApiError, Cause, Details};
use equate_manifest::merge::Conflict;
use std::fmt::Write as _;

/// 409 with a cause per conflict.
pub(super) fn error(conflicts: &[Conflict<Identity>]) -> ApiError {
    let causes = conflicts
        .iter()
        .map(|conflict| Cause {
            reason: "FieldManagerConflict".to_owned(),
            message: format!("conflict with {}", name(&conflict.manager)),
            field: conflict.path.to_string(),
        })
        .collect();
    let details = Details {
        causes,
        ..Details::default()
    };
    ApiError::new(409, "Conflict", message(conflicts), Some(details))
}

fn message(conflicts: &[Conflict<Identity>]) -> String {
    if let [one] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            name(&one.manager),
            one.path
        );
    }
    let mut text = format!("Apply failed with {} conflicts: ", conflicts.len());
    let mut before = None;
    for conflict in conflicts {
        let separator = if before.is_some() { "\n" } else { "" };
        // Conflicts come sorted by manager.
        if before != Some(&conflict.manager) {
            // Writing to a String cannot fail.
            let _ = write!(text, "{separator}conflicts with {}:", name(&conflict.manager));
            before = Some(&conflict.manager);
        }
        let _ = write!(text, "\n- {}", conflict.path);
    }
    text
}

/// `"hpa"`, `"kube-controller-manager" with subresource "status" using apps/v1`.
fn name(identity: &Identity) -> String {
    let mut text = format!("{:?}", identity.manager);
    if !identity.subresource.is_empty() {
        let _ = write!(text, " with subresource {:?}", identity.subresource);
    }
    if identity.operation == Operation::Update {
        let _ = write!(
            text,
            " using {}",
            identity.api_version.as_deref().unwrap_or_default()
        );
    }
    text
}
