//! Carries out a plan: builds, asks, writes. It makes no choices: the outcome is observed again, or
//! reported.
//!
//! | file | does |
//! |---|---|
//! | `announce` | tells the other Kustomizations which objects this one wants |
//! | `build` | builds a revision, to apply it or only to know its objects |
//! | `survey` | asks the API server who may write an object |
//! | `apply` | applies a build, stage by stage |
//! | `finish` | ends that: prunes, reports health and failures |
//! | `delete` | deletes or keeps the objects of a deleted Kustomization |
//! | `idle` | does nothing, and reports why |
//! | `status` | writes statuses before long steps, publishes events |

mod announce;
mod apply;
mod build;
mod delete;
mod finish;
mod idle;
mod status;
mod survey;

use super::decide::objects::Objects;
use super::decide::seen::{Exchange, Seen};
use super::decide::{Idle, Plan, Step};
use super::declared::Declared;
use super::report::Done;
use super::{Kustomizations, Run, object_ref};
use crate::kit::controller::{Acted, Next};
use crate::kit::reconciliation::Stop;

pub(super) async fn act(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    seen: Seen,
    plan: Plan,
) -> Result<Acted<Done>, Stop> {
    let Plan { announce, step } = plan;
    if begins_applying(&step) {
        cx.kit.ownership().begin_apply(&object_ref(&ks.key));
    }
    announce::announce(cx, run, ks, announce);
    if seen.current(ks).is_some() && !ks.deleting {
        // it is carried out now: the prepared build is no longer needed
        run.memory.prepared = None;
    }
    if ends_waiting(&step) {
        run.memory.waiting = None;
    }
    match step {
        Step::Idle(idle) => Ok(idle::idle(cx, run, ks, idle)),
        Step::Build(_) => Ok(build::build(cx, run, ks).await),
        Step::BuildAhead { keep } => Ok(build::build_ahead(cx, run, ks, keep).await),
        Step::Restart => Ok(build::restart(cx, run, ks)),
        Step::Survey(questions) => {
            survey::ask(cx, questions, &mut run.memory.this_run.reviewed).await;
            Ok(Acted::Again)
        }
        Step::HandOver(exchange) => hand_over(cx, run, ks, &exchange).await,
        Step::PrepareDeletion { account, waits } => {
            delete::prepare(cx, run, ks, account, waits).await;
            Ok(Acted::Again)
        }
        Step::Removal(removal) => Ok(delete::removal(run, &removal)),
        Step::Confirm { plan: _, stall } => Ok(finish::confirm(cx, run, ks, stall)),
        Step::Conclude(conclusion) => {
            run.memory.renew();
            Ok(finish::conclude(cx, run, ks, ks.inventory.clone(), conclusion))
        }
        Step::Fail(failure) => Ok(finish::fail(cx, run, ks, failure, None)),
        Step::OwnershipConflict(inventory) => Ok(finish::contested(cx, run, ks, inventory)),
        Step::Apply(application) => match seen.objects {
            Some(objects) => apply::apply(cx, run, ks, objects, application).await,
            None => Ok(unplanned()),
        },
        Step::Finish(end) => match seen.objects {
            Some(objects) => Ok(finish::finish(cx, run, ks, objects, end).await),
            None => Ok(unplanned()),
        },
        Step::Release(plan) => match seen.objects {
            Some(objects) => finish::release(cx, run, ks, &objects, plan).await,
            None => Ok(unplanned()),
        },
        Step::Delete { plan, then } => match seen.objects {
            Some(objects) => Ok(delete::delete(cx, run, ks, &objects, plan, then).await),
            None => Ok(unplanned()),
        },
    }
}

/// A plan about objects needs observed objects: without them the run starts over, later.
fn unplanned() -> Acted<Done> {
    Acted::Unreported(Next::Backoff)
}

fn begins_applying(step: &Step) -> bool {
    matches!(step, Step::Build(_) | Step::Restart | Step::Apply(_))
}

/// Whether a step shows that nothing is missing any more.
fn ends_waiting(step: &Step) -> bool {
    !matches!(
        step,
        Step::Idle(Idle::Waiting { .. } | Idle::WaitingWithoutStatus { .. })
            | Step::BuildAhead { .. }
            | Step::Survey(_)
            | Step::HandOver(_)
    )
}

/// Claims the objects it wants from other shards, and releases those they claim and it does not want.
async fn hand_over(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    exchange: &Exchange,
) -> Result<Acted<Done>, Stop> {
    let Exchange {
        claims,
        released,
        questions: _,
    } = exchange;
    let inventory = ks.inventory.difference(released).union(claims);
    run.memory.lingering = run.memory.lingering.difference(released);
    status::write(cx, run, ks, |draft| draft.holding(&inventory)).await?;
    Ok(Acted::Again)
}

fn execution<'a>(
    cx: &'a Kustomizations,
    ks: &Declared,
    options: &'a equate_apply::plan::Options<'a>,
) -> equate_apply::cluster::Execution<'a> {
    equate_apply::cluster::Execution {
        force: ks.force,
        rules: &*cx.sparing_rules,
        ..equate_apply::cluster::Execution::new(options)
    }
}

/// The observed objects without the parts that only planning needs: their memory is about to change.
fn planned(objects: Objects) -> Objects {
    Objects {
        applies: Default::default(),
        ..objects
    }
}
