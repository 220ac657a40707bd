//! Asks the API server who may write an object, and caches the answers. An object is not kept for a
//! Kustomization that could not write it. `observe::questions` finds the questions.
//!
//! A run asks for at most `ASKING`. The answers by then count; the rest is asked in the next run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use equate_apply::id::ObjectId;
use futures::stream::{self, StreamExt as _};
use tokio::time::{Instant, timeout_at};

use crate::kustomization::Kustomizations;
use crate::kustomization::decide::seen::{Question, Questions};
use crate::ownership::access_reviews::Review;

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
            if let Some(allowed) = allowed {
                let judged = Review { allowed, at };
                graph
                    .reviews
                    .record_within((&question.by).into(), &question.id, judged);
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
