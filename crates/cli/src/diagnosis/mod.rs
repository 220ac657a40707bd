//! Finds why an object is unhealthy: follows it down to its pods, containers, volumes and backends.
//!
//! `read` sends the requests, `pod` and `network` judge what they return and are pure. It only reads.

mod network;
mod pod;
mod read;
#[cfg(test)]
mod tests;
mod workload;

pub(crate) use read::{EventLine, Reader};

use crate::status::StatusText;
use equate_apply::health::Status;
use jiff::Timestamp;

/// Children that are shown; healthy ones are left out first.
const CHILDREN_MAX: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NodeHealth {
    Healthy,
    Waiting,
    Failed,
}

/// An object or container with its cause, and the objects that it depends on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// `Pod/shop/web-1`, or `container web`.
    pub(crate) object: String,
    pub(crate) health: NodeHealth,
    /// One word, such as `CrashLoopBackOff`; may be empty.
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) since: Option<Timestamp>,
    pub(crate) below: Vec<Node>,
}

impl Node {
    pub(crate) fn new(object: impl Into<String>, health: NodeHealth) -> Self {
        Self {
            object: object.into(),
            health,
            reason: String::new(),
            message: String::new(),
            since: None,
            below: Vec::new(),
        }
    }

    fn because(mut self, reason: impl Into<String>, message: impl Into<String>) -> Self {
        self.reason = reason.into();
        self.message = message.into();
        self
    }

    fn since(mut self, since: Option<Timestamp>) -> Self {
        self.since = since;
        self
    }

    pub(crate) fn missing(object: impl Into<String>) -> Self {
        Self::new(object, NodeHealth::Failed).because("NotFound", "does not exist")
    }

    /// An object that nothing in the cluster reconciles: its status says nothing.
    pub(crate) fn unsupported(object: impl Into<String>) -> Self {
        Self::new(object, NodeHealth::Waiting).because("", crate::status::UNSUPPORTED)
    }

    fn of_status(object: impl Into<String>, status: &StatusText) -> Self {
        let health = match status.status {
            Status::Current => NodeHealth::Healthy,
            Status::Failed | Status::NotFound => NodeHealth::Failed,
            Status::InProgress | Status::Terminating | Status::Unknown => NodeHealth::Waiting,
        };
        Self::new(object, health)
            .because(status.reason.clone(), status.message.clone())
            .since(status.since)
    }

    /// Adds the objects that it depends on; the unhealthy ones are shown.
    pub(crate) fn with_below(mut self, below: Vec<Node>) -> Self {
        self.set_below(below);
        self
    }

    pub(crate) fn is_healthy(&self) -> bool {
        self.health == NodeHealth::Healthy
    }

    /// Takes over the health of its worst child: a Service or Job has no condition for it.
    fn judged_by(mut self, below: Vec<Node>) -> Self {
        let worst = below.iter().map(|child| child.health).max();
        self.health = self.health.max(worst.unwrap_or(NodeHealth::Healthy));
        self.set_below(below);
        self
    }

    /// Shows the unhealthy ones, and counts the rest.
    fn set_below(&mut self, below: Vec<Node>) {
        let (mut shown, healthy): (Vec<Node>, Vec<Node>) =
            below.into_iter().partition(|child| !child.is_healthy());
        shown.sort_by_key(|child| std::cmp::Reverse(child.health));
        let more = shown.len().saturating_sub(CHILDREN_MAX);
        shown.truncate(CHILDREN_MAX);
        if more > 0 {
            shown.push(Node::new(format!("{more} more"), NodeHealth::Waiting));
        }
        if !shown.is_empty() && !healthy.is_empty() {
            shown.push(Node::new(format!("{} more", healthy.len()), NodeHealth::Healthy));
        }
        self.below.extend(shown);
    }

    /// The reason and message as one text.
    pub(crate) fn text(&self) -> String {
        match (self.reason.is_empty(), self.message.is_empty()) {
            (false, false) => format!("{}: {}", self.reason, self.message),
            (false, true) => self.reason.clone(),
            (true, _) => self.message.clone(),
        }
    }

    /// The deepest of the most telling causes, in one line: `CrashLoopBackOff: Pod/shop/web-1, container web: ...`.
    pub(crate) fn cause(&self) -> Option<String> {
        let mut found: Option<Cause<'_>> = None;
        self.look_for_cause(None, 0, &mut found);
        let cause = found?;
        let place = match cause.pod {
            Some(pod) => format!("{}, {}: ", pod.object, cause.node.object),
            None if cause.depth == 0 => String::new(),
            None => format!("{}: ", cause.node.object),
        };
        Some(match cause.node.reason.is_empty() {
            true => format!("{place}{}", cause.node.message),
            false if cause.node.message.is_empty() && place.is_empty() => cause.node.reason.clone(),
            false => {
                let text = format!("{}: {place}{}", cause.node.reason, cause.node.message);
                text.trim_end_matches([':', ' ']).to_owned()
            }
        })
    }

    /// The cause with the object's name.
    pub(crate) fn named_cause(&self) -> Option<String> {
        let cause = self.cause()?;
        Some(match cause.contains(&self.object) {
            true => cause,
            false => format!("{}: {cause}", self.object),
        })
    }

    /// Whether others tell more: health checks do not wait for the pods of a Service or an Ingress.
    pub(crate) fn only_leads_to_pods(&self) -> bool {
        self.object.starts_with("Service/") || self.object.starts_with("Ingress/")
    }

    /// The cause of an unhealthy object below a healthy one.
    pub(crate) fn cause_below(&self) -> Option<String> {
        let below = self.below.iter().filter(|_| self.is_healthy());
        let worst = below.min_by_key(|node| (node.only_leads_to_pods(), std::cmp::Reverse(node.health)));
        worst.and_then(Self::named_cause)
    }

    fn look_for_cause<'n>(&'n self, parent: Option<&'n Node>, depth: usize, found: &mut Option<Cause<'n>>) {
        if self.is_healthy() {
            return;
        }
        let rank = (self.health == NodeHealth::Failed, !self.reason.is_empty(), depth);
        let says = !self.reason.is_empty() || !self.message.is_empty();
        if says && found.as_ref().is_none_or(|best| rank > best.rank) {
            *found = Some(Cause {
                node: self,
                pod: parent.filter(|_| self.object.starts_with(pod::CONTAINER)),
                depth,
                rank,
            });
        }
        for child in &self.below {
            child.look_for_cause(Some(self), depth + 1, found);
        }
    }
}

struct Cause<'n> {
    node: &'n Node,
    pod: Option<&'n Node>,
    depth: usize,
    rank: (bool, bool, usize),
}
