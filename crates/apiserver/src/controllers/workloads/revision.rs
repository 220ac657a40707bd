//! ControllerRevisions: the history of pod templates of StatefulSets and DaemonSets.

use super::context::{Context, controller_reference, digest, wanted};
use super::{Kind, replica_set};
use crate::builtin::tree::{get, int};
use crate::controllers::Action;
use crate::controllers::object::meta;
use serde_json::{Value, json};

pub(super) const HASH: &str = "controller-revision-hash";

pub(super) struct Revisions<'a> {
    known: Vec<&'a Value>,
    /// The name of the current template's revision.
    pub(super) update: String,
    pub(super) hash: String,
}

impl<'a> Revisions<'a> {
    pub(super) fn of(cx: &Context<'a>, owner: &Value) -> Self {
        let hash = digest(&[&get(owner, "spec.template").to_string()], 9);
        let children = cx.children_of(owner, Kind::Revision);
        let mut known: Vec<&'a Value> = children.into_iter().map(|(_, revision)| revision).collect();
        known.sort_by_key(|revision| number(revision));
        Self {
            known,
            update: format!("{}-{hash}", meta(owner, "name")),
            hash,
        }
    }

    pub(super) fn template(&self, name: &str) -> Option<&'a Value> {
        let revision = self.known.iter().find(|r| meta(r, "name") == name)?;
        Some(get(revision, "data.spec.template"))
    }

    /// Adopts the revisions of a deleted owner.
    pub(super) fn adopt(cx: &Context<'_>, owner: &Value) -> Vec<Action> {
        replica_set::claims(cx, owner, Kind::Revision, &[])
    }

    /// Keeps the current revision and as many old ones as the history limit; `used` are never deleted.
    pub(super) fn keep(
        &self,
        cx: &mut Context<'_>,
        owner: &Value,
        label: &str,
        used: &[&str],
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        let last = self.known.last().map_or(0, |r| number(r));
        match self.known.iter().find(|r| meta(r, "name") == self.update) {
            None => actions.push(cx.create(Kind::Revision, self.object(cx, owner, label, last + 1))),
            Some(present) if number(present) < last => {
                let key =
                    crate::store::Key::new(&Kind::Revision.resource(), &*cx.key.namespace, &*self.update);
                actions.push(cx.change(&key, present, json!({ "revision": last + 1 })));
            }
            Some(_) => {}
        }
        let limit = wanted(owner, "spec.revisionHistoryLimit", 10);
        let old: Vec<&&Value> = self
            .known
            .iter()
            .filter(|r| meta(r, "name") != self.update && !used.contains(&meta(r, "name")))
            .collect();
        for revision in old.iter().take(old.len().saturating_sub(limit)) {
            let key = crate::store::Key::new(
                &Kind::Revision.resource(),
                &*cx.key.namespace,
                meta(revision, "name"),
            );
            actions.push(cx.kill(&key, revision));
        }
        actions
    }

    fn object(&self, cx: &Context<'_>, owner: &Value, label: &str, number: i64) -> Value {
        let mut template = get(owner, "spec.template").clone();
        template["$patch"] = json!("replace");
        let mut labels = get(owner, "spec.template.metadata.labels").clone();
        labels[HASH] = json!(label);
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": {
                "name": self.update, "namespace": cx.key.namespace,
                "labels": labels, "ownerReferences": controller_reference(owner),
            },
            "data": { "spec": { "template": template } },
            "revision": number,
        })
    }
}

fn number(revision: &Value) -> i64 {
    int(revision, "revision").unwrap_or(0)
}
