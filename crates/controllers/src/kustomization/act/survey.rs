//! Asks the API server who may write an object, and caches the answers. An object is not kept for a
//! Kustomization that could not write it. `observe::questions` finds the questions.
//!
//! A run asks for at most `ASKING`. The answers by then count; the rest is asked in the next run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use equate_apply::id::ObjectId;
use futures::stream::{self, StreamExt as _};
use tokio::time::{Instant, timeout_at};

use crate::ObjectRef;
use crate::kustomization::Kustomizations;
use crate::kustomization::decide::seen::{Question, Questions};
use crate::ownership::access_reviews::Review;
use crate::ownership::graph::OwnershipGraph;

/// Limit for the questions of one run: no worker is held longer.
const ASKING: Duration = Duration::from_secs(20);
const ANSWER: Duration = Duration::from_secs(10);
const TOGETHER: usize = 8;

/// Asks, and records for which objects.
pub(super) async fn ask(cx: &Kustomizations, questions: Questions, reviewed: &mut BTreeSet<ObjectId>) {
    let Questions {
        objects,
        containers,
        about,
    } = questions;
    let until = Instant::now() + ASKING;
    ask_about_objects(cx, objects, until).await;
    ask_about_containers(cx, containers, until).await;
    reviewed.extend(about);
}

async fn ask_about_objects(cx: &Kustomizations, questions: Vec<Question>, until: Instant) {
    let answers = answers(cx, by_user(questions), until).await;
    record_answers(&mut cx.kit.ownership(), answers);
}

type Answer = (Vec<ObjectRef>, Question, Option<bool>);

/// Skips owners that are gone, since nothing forgets their answers, and those that impersonate another user now.
fn record_answers(graph: &mut OwnershipGraph, answers: Vec<Answer>) {
    let at = Instant::now();
    for (owners, question, allowed) in answers {
        if let Some(allowed) = allowed {
            let review = Review { allowed, at };
            for owner in owners {
                if graph.impersonates(&owner, &question.user) {
                    graph.reviews.record(owner, question.id.clone(), review);
                }
            }
        }
    }
}

/// One question for all owners of an object that write as the same user.
fn by_user(questions: Vec<Question>) -> impl Iterator<Item = (Vec<ObjectRef>, Question)> {
    let mut all: BTreeMap<(ObjectId, String), (Vec<ObjectRef>, Question)> = BTreeMap::new();
    for question in questions {
        let owner = (&question.by).into();
        let of = (question.id.clone(), question.user.clone());
        let (owners, _) = all.entry(of).or_insert((Vec::new(), question));
        owners.push(owner);
    }
    all.into_values()
}

/// Asks for each container whether one of those who want or hold something in it may write it, until one
/// may.
async fn ask_about_containers(cx: &Kustomizations, containers: Vec<Vec<Question>>, until: Instant) {
    let mut open: BTreeMap<usize, Vec<Question>> = containers.into_iter().enumerate().collect();
    // start with one question each: mostly the first one may
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
        let answers = answers(cx, round.into_iter(), until).await;
        if answers.len() < asked {
            open.clear();
        }
        let at = Instant::now();
        let mut graph = cx.kit.ownership();
        for (container, question, allowed) in answers {
            let owner = (&question.by).into();
            if let Some(allowed) = allowed.filter(|_| graph.impersonates(&owner, &question.user)) {
                let judged = Review { allowed, at };
                graph.reviews.record_within(owner, &question.id, judged);
            }
            // the container stays: for one who may write, or of whom the server does not say
            if allowed != Some(false) {
                open.remove(&container);
            }
        }
        each = TOGETHER;
    }
}

/// Asks concurrently; answers after the limit are left out.
async fn answers<T>(
    cx: &Kustomizations,
    questions: impl Iterator<Item = (T, Question)>,
    until: Instant,
) -> Vec<(T, Question, Option<bool>)> {
    let asking: Vec<_> = questions
        .map(|(of, question)| async move {
            let allowed = answer(cx, &question).await;
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

async fn answer(cx: &Kustomizations, question: &Question) -> Option<bool> {
    let Question {
        by,
        user,
        id,
        version,
    } = question;
    match cx.here.cluster.acting_as(user) {
        Ok(cluster) => cluster.may_write(by.kind, id, version, ANSWER).await.ok(),
        // an invalid name has no permissions
        Err(_) => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use crate::kustomization::owner_of;
    use crate::ownership::declaration::Declaration;
    use crate::ownership::graph::tests::declaration;

    #[test]
    fn owners_with_one_user_share_a_question() {
        let question = |owner: &str, user: &str, name: &str| Question {
            by: owner_of(&Key::new("team", owner)),
            user: user.to_owned(),
            id: ObjectId::new("", "ConfigMap", "team", name),
            version: "v1".to_owned(),
        };
        let all = vec![
            question("a", "one", "x"),
            question("b", "one", "x"),
            question("c", "two", "x"),
            question("a", "one", "y"),
        ];
        let asked: Vec<String> = by_user(all)
            .map(|(owners, question)| {
                let owners: Vec<&str> = owners.iter().map(|owner| &*owner.name).collect();
                format!("{} {} for {}", question.user, question.id.name, owners.join(" "))
            })
            .collect();
        assert_eq!(asked, ["one x for a b", "two x for c", "one y for a"]);
    }

    #[tokio::test]
    async fn an_answer_about_a_gone_owner_or_another_user_is_dropped() {
        let id = ObjectId::new("", "ConfigMap", "team", "db");
        let owner = |name: &str| ObjectRef::new("Kustomization", "team", name);
        let mut graph = OwnershipGraph::default();
        for (name, user) in [("same", "one"), ("other", "two"), ("gone", "one")] {
            let user = Some(user.to_owned());
            graph.changed(
                &owner(name),
                None,
                Some(Declaration {
                    user,
                    ..declaration()
                }),
            );
        }
        graph.changed(&owner("gone"), None, None);
        let question = Question {
            by: owner_of(&Key::new("team", "same")),
            user: "one".to_owned(),
            id: id.clone(),
            version: "v1".to_owned(),
        };
        let owners = ["same", "other", "gone"].map(owner);
        record_answers(&mut graph, vec![(owners.to_vec(), question, Some(false))]);
        let allowed = owners.map(|owner| graph.reviews.allow(&owner, &id));
        assert_eq!(allowed, [false, true, true]);
    }
}
