//! The next version of a service in an environment, and the answer of the rules now.
//!
//! The same code that plans a promotion chooses the version and judges it. Nothing is edited: whether the
//! files can be changed shows only in a plan.

use super::{Past, PlanError, Planner, Request, Wanted};
use crate::artifact::Artifact;
use crate::config::{Config, Services};
use crate::edit::{self, EditError};
use crate::fleet::Fleet;
use crate::hold::Hold;
use crate::record::Intent;
use crate::rules::{Actor, Verdict};
use equate_kustomize::Tree;

/// A service in an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    /// The service.
    pub service: String,
    /// The environment.
    pub environment: String,
    /// Its versions; `None` if it is not there or does not build.
    pub current: Option<Artifact>,
    /// The version that a promotion would bring.
    pub next: Next,
    /// The holds that count now.
    pub holds: Vec<Hold>,
}

/// The version that a promotion would bring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// No environment comes before, or none of them has the service.
    Nothing,
    /// The environment has the versions of the one before.
    Same {
        /// The environment before.
        from: String,
    },
    /// Other versions, and the answers of the rules.
    Versions {
        /// The environment that has them.
        from: String,
        /// The versions.
        artifact: Artifact,
        /// The answers.
        verdicts: Vec<Verdict>,
    },
    /// A promotion is impossible.
    Impossible(PlanError),
}

/// Looks at a service in an environment.
pub fn outlook(
    tree: &dyn Tree,
    config: &Config,
    fleet: &Fleet,
    holds: &[Hold],
    past: Past<'_>,
    (service, environment): (&str, &str),
) -> Outlook {
    let request = Request {
        intent: Intent::Promote,
        services: vec![service.to_owned()],
        to: environment.to_owned(),
        from: None,
        version: None,
        images: Vec::new(),
        pin: None,
        reason: None,
        by: String::new(),
        actor: Actor::Person,
    };
    let planner = Planner {
        tree,
        config,
        holds,
        request: &request,
        past,
        fleet,
    };
    let is_active =
        |hold: &&Hold| hold.service == service && hold.environment == environment && hold.is_active(past.now);
    Outlook {
        service: service.to_owned(),
        environment: environment.to_owned(),
        current: fleet.artifact(environment, service),
        next: planner.next(service, environment),
        holds: holds.iter().filter(is_active).cloned().collect(),
    }
}

impl Planner<'_> {
    fn next(&self, service: &str, environment: &str) -> Next {
        let before = self.config.before(environment);
        let is_there = |environment: &&str| {
            let has = self.fleet.artifact(environment, service).is_some();
            has || self.fleet.fault(environment, service).is_some()
        };
        if !before.iter().any(is_there) {
            return Next::Nothing;
        }
        let (wanted, after) = match self.arriving(service, environment) {
            Ok(found) => found,
            Err(error) => return Next::Impossible(error),
        };
        let from = wanted.from.clone().unwrap_or_default();
        let is_same = match &self.config.services {
            Services::Versions(_) => self.fleet.artifact(environment, service).as_ref() == Some(&after),
            Services::Copies { .. } => {
                let route = (from.as_str(), environment);
                match edit::copy(self.tree, self.config, self.fleet, service, route) {
                    Ok(edited) => edited.changes.is_empty(),
                    Err(error) => return Next::Impossible(error.into()),
                }
            }
        };
        match is_same {
            true => Next::Same { from },
            false => Next::Versions {
                verdicts: self.verdicts(service, environment, &wanted, &after),
                from,
                artifact: after,
            },
        }
    }

    /// The versions to take, and those that the environment has then.
    fn arriving(&self, service: &str, environment: &str) -> Result<(Wanted, Artifact), PlanError> {
        let wanted = self.source(service, environment)?;
        let wanted = self.pinned(service, wanted)?;
        if let Some(problem) = self.fleet.fault(environment, service) {
            return Err(PlanError::Edit(EditError::Unbuildable {
                directory: environment.to_owned(),
                problem: problem.to_owned(),
            }));
        }
        if matches!(self.config.services, Services::Copies { .. }) {
            let artifact = wanted.artifact.clone();
            return Ok((wanted, artifact));
        }
        let mut after = self.fleet.artifact(environment, service).ok_or_else(|| {
            PlanError::Edit(EditError::NoService {
                environment: environment.to_owned(),
                service: service.to_owned(),
            })
        })?;
        let current = after.clone();
        for subject in current.subjects() {
            let source = wanted.artifact.counterpart(subject);
            if let Some([version]) = source.map(|source| wanted.artifact.of(source))
                && current.of(subject) != std::slice::from_ref(version)
            {
                after.set(subject.clone(), version.clone());
            }
        }
        Ok((wanted, after))
    }
}

#[cfg(test)]
mod tests;
