//! Asks the API server who may write what, and keeps the answers: what one could not write is not kept for
//! it, and it is not waited for. Whom to ask is found by `observe::questions`.
//!
//! It asks for `ASKING` at most: what is not answered by then counts, and is asked for in the next run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use equate_apply::id::ObjectId;
use futures::stream::{self, StreamExt as _};
use tokio::time::{Instant, timeout_at};

use crate::kustomization::Kustomizations;
use crate::kustomization::decide::seen::{Question, Questions};
use crate::ownership::access_reviews::Review;

/// How long a run asks: no worker is held for longer, however many questions there are.
const ASKING: Duration = Duration::from_secs(20);
/// How long one answer is waited for.
const ANSWER: Duration = Duration::from_secs(10);
/// So many are asked for at once.
const TOGETHER: usize = 8;

/// Asks, and notes for whose sake.
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
    let answers = answers(cx, questions.into_iter().map(|question| ((), question)), until);
    let answers = answers.await;
    let at = Instant::now();
    let mut graph = cx.kit.ownership();
    for ((), question, allowed) in answers {
        if let Some(allowed) = allowed {
            graph
                .reviews
                .record((&question.by).into(), question.id, Review { allowed, at });
        }
    }
}

/// Finds out whether those who want or hold something in containers may: of each until one may, or none is
/// left.
async fn ask_about_containers(cx: &Kustomizations, containers: Vec<Vec<Question>>, until: Instant) {
    let mut open: BTreeMap<usize, Vec<Question>> = containers.into_iter().enumerate().collect();
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
        let answers = answers(cx, round.into_iter(), until).await;
        if answers.len() < asked {
            open.clear();
        }
        let at = Instant::now();
        let mut graph = cx.kit.ownership();
        for (container, question, allowed) in answers {
            if let Some(allowed) = allowed {
                let judged = Review { allowed, at };
                graph
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

/// Several at once; those that are not answered by then are not there.
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
        // what is no name may nothing
        Err(_) => Some(false),
    }
}
