//! The explanation of any object: its status down to the containers, its file, and the changes by hand.

use super::ExplainError;
use super::applied::{self, Applied};
use super::chain::{self, Chain};
use super::steps::Steps;
use super::text::{self, TerminalSize};
use crate::diagnosis::{EventLine, Node, Reader};
use crate::kinds::Kinds;
use crate::objects::RequestError;
use crate::status::UNSUPPORTED;
use equate_api::helm::HelmRelease;
use equate_api::kustomize::Kustomization;
use equate_apply::id::ObjectId;
use equate_controllers::helm_release::outlook::{Outlook, outlook};
use equate_controllers::kit::reconciliation::THROTTLED_EVENT;
use equate_manifest::object::Object;
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

const EVENTS_MAX: usize = 5;
/// An older event says nothing about now; the controllers repeat it after five minutes.
const THROTTLED_MAX: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(crate) struct Explanation {
    pub(crate) body: Body,
    pub(crate) applied: Applied,
    pub(crate) events: Vec<EventLine>,
}

#[derive(Debug)]
pub(crate) enum Body {
    /// A Kustomization by its steps.
    Steps(Box<Chain>),
    /// A HelmRelease, with the objects that are not healthy, and the next action on its release.
    Release(Node, Box<Next>),
    Object(Node),
}

/// The next action on a release.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) outlook: Outlook,
    pub(crate) suspended: bool,
}

impl Explanation {
    pub(crate) fn is_healthy(&self) -> bool {
        match &self.body {
            Body::Steps(chain) => chain.ready,
            Body::Release(node, _) | Body::Object(node) => node.is_healthy(),
        }
    }

    pub(crate) fn text(&self, now: Timestamp, size: TerminalSize) -> String {
        text::render(self, now, size)
    }

    pub(super) fn data(&self) -> Value {
        text::data(self)
    }
}

/// Explains an object in any served version; looks for its file from `directory`.
pub(crate) async fn explain(
    client: &Client,
    kinds: &Kinds,
    id: &ObjectId,
    directory: &Path,
) -> Result<Explanation, ExplainError> {
    let reader = Reader::new(client.clone());
    let found = reader.object(id, "").await;
    let found = found.map_err(|source| ExplainError::Read {
        id: id.clone(),
        source: Box::new(source),
    })?;
    let object = found.ok_or_else(|| ExplainError::NotFound { id: id.clone() })?;
    let mut explanation = explain_object(&reader, kinds, id, object, directory).await?;
    if kinds.is_unreconciled(&id.group, &id.kind) {
        explanation.body = Body::Object(Node::unsupported(id.to_string()));
    }
    Ok(explanation)
}

/// The cause of an object's state in one line, if it is not healthy and tells one.
pub(crate) async fn cause(client: &Client, kinds: &Kinds, id: &ObjectId) -> Option<String> {
    if kinds.is_unreconciled(&id.group, &id.kind) {
        return Some(UNSUPPORTED.to_owned());
    }
    let reader = Reader::new(client.clone());
    let object = reader.object(id, "").await.ok()??;
    if !is_kustomization(kinds, id) {
        return reader.diagnose(id, &object).await.cause();
    }
    let chain = steps(&reader, kinds, &object, &mut Vec::new()).await.ok()?;
    chain.cause
}

fn is_kustomization(kinds: &Kinds, id: &ObjectId) -> bool {
    is(kinds, id, "Kustomization")
}

fn is(kinds: &Kinds, id: &ObjectId, kind: &str) -> bool {
    kinds
        .find(&id.group, &id.kind)
        .is_some_and(|found| found.kind == kind)
}

async fn explain_object(
    reader: &Reader,
    kinds: &Kinds,
    id: &ObjectId,
    object: Object,
    directory: &Path,
) -> Result<Explanation, ExplainError> {
    let mut events = reader
        .events(&id.kind, &id.namespace, &id.name)
        .await
        .map_err(|source| RequestError::Failed {
            verb: "list",
            what: format!("events of {id}"),
            source: Box::new(source),
        })?;
    let body = match is_kustomization(kinds, id) {
        true => Body::Steps(Box::new(steps(reader, kinds, &object, &mut events).await?)),
        false if is(kinds, id, "HelmRelease") => release(reader, kinds, id, &object).await?,
        false => Body::Object(reader.diagnose(id, &object).await),
    };
    let applied = applied::find(reader, kinds, &object, directory).await;
    let events = events.split_off(events.len().saturating_sub(EVENTS_MAX));
    Ok(Explanation {
        body,
        applied,
        events,
    })
}

async fn release(
    reader: &Reader,
    kinds: &Kinds,
    id: &ObjectId,
    object: &Object,
) -> Result<Body, ExplainError> {
    let release: HelmRelease = serde_json::from_value(Value::Object(object.0.clone())).map_err(|source| {
        ExplainError::Unreadable {
            object: id.to_string(),
            kind: "HelmRelease",
            source,
        }
    })?;
    let steps = Steps::new(reader.clone(), kinds);
    let node = reader.diagnose(id, object).await;
    let node = node.with_below(steps.unhealthy_in_release(&release).await);
    let next = Next {
        outlook: outlook(reader.client(), &release).await,
        suspended: release.spec.suspend,
    };
    Ok(Body::Release(node, Box::new(next)))
}

async fn steps(
    reader: &Reader,
    kinds: &Kinds,
    object: &Object,
    events: &mut Vec<EventLine>,
) -> Result<Chain, ExplainError> {
    let object: Kustomization =
        serde_json::from_value(Value::Object(object.0.clone())).map_err(|source| {
            ExplainError::Unreadable {
                object: ObjectId::of(object).to_string(),
                kind: "Kustomization",
                source,
            }
        })?;
    let steps = Steps::new(reader.clone(), kinds);
    let mut looked = BTreeSet::from([chain::own_name(&object)]);
    let seen = steps.look(object, &mut looked).await?;
    let mut chain = chain::chain(&seen);
    let now = Timestamp::now();
    let is_recent = |when: Timestamp| now.duration_since(when).unsigned_abs() < THROTTLED_MAX;
    let throttled = events
        .iter()
        .rev()
        .find(|(when, reason, _)| reason == THROTTLED_EVENT && when.is_some_and(is_recent));
    chain.throttled = throttled.map(|(_, _, message)| message.clone());
    if chain.throttled.is_some() {
        events.retain(|(_, reason, _)| reason != THROTTLED_EVENT);
    }
    Ok(chain)
}
