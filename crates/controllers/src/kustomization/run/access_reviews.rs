//! Whether one that impersonates may write what it wants: before another keeps anything for it.
//!
//! To declare an object costs nothing, so a want is no right. A tenant that declares what is the
//! platform's would keep the platform from deleting it, and one in whose build nobody can look might
//! want anything. So whoever is about to delete asks the API server with the other's identity
//! whether that could write the object: what it could not is not kept for it, and it is not waited
//! for. Asked is only about objects that are to be deleted and somebody else wants, or may want; an
//! answer holds for half a minute. Where nobody can say, the want counts.
//!
//! Of a Namespace or a CustomResourceDefinition it is asked once for each kind and namespace: a right
//! to a single object by its name is not found there. What is wanted is walked over once for each of
//! them, and all are asked about together.
//!
//! A run asks for `ASKING` at most: what is not answered by then counts, and is asked for next time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use equate_apply::container::Container;
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::owner::Owner;
use equate_apply::plan::Presence;
use futures::stream::{self, StreamExt as _};
use tokio::time::{Instant, timeout_at};

use super::{Context, Run};
use crate::ObjectRef;
use crate::kustomization::declared::Declared;
use crate::ownership::access_reviews::{Review, within};
use crate::ownership::graph::{Need, OwnershipGraph};
use crate::targets::target::TargetCluster;

/// How long a run asks: no worker is held for longer, however many questions there are.
const ASKING: Duration = Duration::from_secs(20);
/// How long one answer is waited for.
const ANSWER: Duration = Duration::from_secs(10);
/// So many are asked for at once.
const TOGETHER: usize = 8;
/// Of so many it is asked in one run whether they need be waited for; the others are waited for
/// meanwhile.
const SUSPECTS: usize = 16;
/// So many kinds and namespaces are asked about for one container in one run.
const WITHIN: usize = 64;

/// Something to ask the API server.
struct Question {
    by: Owner,
    user: String,
    id: ObjectId,
    version: String,
}

impl Context {
    async fn ask(&self, question: &Question) -> Option<bool> {
        let Question {
            by,
            user,
            id,
            version,
        } = question;
        match self.here.cluster.acting_as(user) {
            Ok(cluster) => cluster.may_write(by.kind, id, version, ANSWER).await.ok(),
            // what is no name may nothing
            Err(_) => Some(false),
        }
    }
}

impl Run<'_> {
    /// Finds out who of those that want what is to be deleted may write it.
    pub(super) async fn review_access(&self, ks: &Declared, gone: &Inventory) {
        if self.access.target != TargetCluster::Local || gone.is_empty() || !(ks.prune || ks.deleting) {
            return;
        }
        let until = Instant::now() + ASKING;
        self.question(self.questions(ks, gone), until).await;
        let containers = gone
            .iter()
            .filter_map(|(id, _)| Container::of(id, &self.access.hub.get(id)));
        self.review_containers(containers.collect(), until).await;
    }

    /// Finds out whether it may write itself what another holds that it declares.
    pub(super) async fn review_own_access(&self, ids: impl Iterator<Item = (&ObjectId, &str)>) {
        if self.access.target != TargetCluster::Local {
            return;
        }
        let now = Instant::now();
        let questions = {
            let index = self.cx.index();
            let Some(user) = index.user(&self.me) else { return };
            let held = ids.filter(|(id, _)| index.holders(id, &self.me).next().is_some());
            let open = held.filter(|(id, _)| !index.reviews.is_known(&self.me, id, now));
            let question = |(id, version): (&ObjectId, &str)| Question {
                by: self.owner(),
                user: user.to_owned(),
                id: id.clone(),
                version: version.to_owned(),
            };
            open.map(question).collect()
        };
        self.question(questions, Instant::now() + ASKING).await;
    }

    fn questions(&self, ks: &Declared, gone: &Inventory) -> Vec<Question> {
        let now = Instant::now();
        let mut index = self.cx.index();
        let mut holding_up: BTreeSet<ObjectRef> = BTreeSet::new();
        for key in self
            .cx
            .survey(&mut index, ks, &TargetCluster::Local)
            .holding_up(now)
        {
            if holding_up.len() == SUSPECTS {
                break;
            }
            if *key != self.me && index.user(key).is_some() {
                holding_up.insert(key.clone());
            }
        }
        let mut questions = Vec::new();
        for (id, version) in gone.iter() {
            let rivals = index.rivals(id, &self.me).cloned();
            let all: BTreeSet<ObjectRef> = rivals.chain(holding_up.iter().cloned()).collect();
            for key in all {
                if index.reviews.is_known(&key, id, now) {
                    continue;
                }
                let Some(user) = index.user(&key) else {
                    continue;
                };
                questions.push(Question {
                    by: index.owner(&key),
                    user: user.to_owned(),
                    id: id.clone(),
                    version: version.to_owned(),
                });
            }
        }
        questions
    }

    async fn question(&self, questions: Vec<Question>, until: Instant) {
        let answers = self.answers(questions.into_iter().map(|question| ((), question)), until);
        let answers = answers.await;
        let at = Instant::now();
        let mut index = self.cx.index();
        for ((), question, allowed) in answers {
            if let Some(allowed) = allowed {
                index
                    .reviews
                    .record((&question.by).into(), question.id, Review { allowed, at });
            }
        }
    }

    /// Several at once; those that are not answered by then are not there.
    async fn answers<T>(
        &self,
        questions: impl Iterator<Item = (T, Question)>,
        until: Instant,
    ) -> Vec<(T, Question, Option<bool>)> {
        let asking: Vec<_> = questions
            .map(|(of, question)| async move {
                let allowed = self.cx.ask(&question).await;
                (of, question, allowed)
            })
            .collect();
        let mut asking = stream::iter(asking).buffer_unordered(TOGETHER);
        let mut answers = Vec::new();
        while let Ok(Some(answer)) = timeout_at(until, asking.next()).await {
            answers.push(answer);
        }
        answers
    }

    /// Finds out whether those who want or hold something in containers may: of each until one may, or
    /// none is left.
    async fn review_containers(&self, containers: Vec<Container>, until: Instant) {
        let mut open: BTreeMap<usize, Vec<Question>> = {
            let index = self.cx.index();
            let questions = containers.iter().map(|container| self.within(&index, container));
            questions.enumerate().collect()
        };
        // one of each at first: mostly who wants something may
        let mut each = 1;
        loop {
            open.retain(|_, questions| !questions.is_empty());
            let round = open.iter_mut().flat_map(|(at, questions)| {
                let rest = questions.split_off(each.min(questions.len()));
                let now = std::mem::replace(questions, rest);
                now.into_iter().map(|question| (*at, question))
            });
            let round: Vec<_> = round.collect();
            let asked = round.len();
            if asked == 0 {
                return;
            }
            let answers = self.answers(round.into_iter(), until).await;
            if answers.len() < asked {
                open.clear();
            }
            let at = Instant::now();
            let mut index = self.cx.index();
            for (container, question, allowed) in answers {
                if let Some(allowed) = allowed {
                    let judged = Review { allowed, at };
                    index
                        .reviews
                        .record_within((&question.by).into(), &question.id, judged);
                }
                // it stays: for one who may, or of whom nobody can say
                if allowed != Some(false) {
                    open.remove(&container);
                }
            }
            each = TOGETHER;
        }
    }

    /// What has to be asked about a container; nothing where it stays anyway. What is there with the labels
    /// of one is its own, and not asked about.
    fn within(&self, index: &OwnershipGraph, container: &Container) -> Vec<Question> {
        let now = Instant::now();
        let (mut seen, mut questions) = (BTreeSet::new(), Vec::new());
        for (key, id) in index.needs(container, &self.me, Need::Now) {
            if !seen.insert((key, within(id))) {
                continue;
            }
            let by = index.owner(key);
            let theirs = matches!(self.cx.kit.objects.get(by.kind, id), Presence::Present(observed)
                if observed.owner.as_ref() == Some(&by));
            let user = index.user(key);
            let user = user.filter(|_| !theirs && !index.reviews.is_known_within(key, id, now));
            // it stays, if none before may
            let Some(user) = user else { return questions };
            questions.push(Question {
                by,
                user: user.to_owned(),
                id: id.clone(),
                version: String::new(),
            });
            if questions.len() == WITHIN {
                break;
            }
        }
        questions
    }
}
