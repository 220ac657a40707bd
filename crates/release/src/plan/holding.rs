//! Plans that set and end holds.

use super::{Plan, PlanError, Step, config, environments, holds, known_service, record};
use crate::fleet::{Builds, Fleet};
use crate::hold::{Hold, Stops};
use crate::overlay::Files;
use crate::record::Intent;
use bytes::Bytes;
use equate_kustomize::Tree;
use jiff::Timestamp;

/// Plans a hold.
///
/// # Errors
/// The environment or service is unknown.
pub fn plan_hold(
    tree: &dyn Tree,
    (service, to): (&str, &str),
    reason: &str,
    by: &str,
    (now, until): (Timestamp, Option<Timestamp>),
) -> Result<Plan, PlanError> {
    let config = config(tree)?;
    let fleet = Fleet::for_change(tree, &config, &[service], &Builds::default());
    known_service(&fleet, service)?;
    let mut files = Files::new();
    let mut steps = Vec::new();
    for environment in environments(&config, to)? {
        let hold = Hold {
            environment: environment.clone(),
            service: service.to_owned(),
            reason: reason.to_owned(),
            by: by.to_owned(),
            since: Some(now),
            until,
            stops: Stops::All,
            newer_than: None,
            path: Hold::path(&environment, service),
            line: 1,
        };
        files.insert(hold.path.clone(), Some(Bytes::from(hold.to_text())));
        steps.push(unchanged(&fleet, service, &environment));
    }
    Ok(Plan {
        record: record(Intent::Hold, by, Some(reason.to_owned()), &steps),
        steps,
        files,
    })
}

/// Plans the end of a hold.
///
/// # Errors
/// The environment is unknown, or nothing is held.
pub fn plan_unhold(
    tree: &dyn Tree,
    (service, to): (&str, &str),
    reason: Option<String>,
    by: &str,
) -> Result<Plan, PlanError> {
    let config = config(tree)?;
    let holds = holds(tree)?;
    let fleet = Fleet::build(tree, &config);
    let mut files = Files::new();
    let mut steps = Vec::new();
    for environment in environments(&config, to)? {
        let held = |hold: &&Hold| hold.environment == environment && hold.service == service;
        if let Some(hold) = holds.iter().find(held) {
            files.insert(hold.path.clone(), None);
            steps.push(unchanged(&fleet, service, &environment));
        }
    }
    if steps.is_empty() {
        known_service(&fleet, service)?;
        return Err(PlanError::NotHeld {
            service: service.to_owned(),
            environment: to.to_owned(),
        });
    }
    Ok(Plan {
        record: record(Intent::Unhold, by, reason, &steps),
        steps,
        files,
    })
}

fn unchanged(fleet: &Fleet, service: &str, environment: &str) -> Step {
    let artifact = fleet.artifact(environment, service).unwrap_or_default();
    Step {
        service: service.to_owned(),
        environment: environment.to_owned(),
        from: None,
        before: artifact.clone(),
        after: artifact,
        changes: Vec::new(),
        verdicts: Vec::new(),
        remark: None,
        warning: None,
    }
}
