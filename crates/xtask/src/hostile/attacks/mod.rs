//! The attacks, by the part that they attack.

mod archives;
mod builds;
mod charts;
mod clusters;
mod expressions;
mod git;
mod objects;
mod requests;
mod secrets;
mod signatures;
mod tenancy;

use futures::future::LocalBoxFuture;

use super::ground::{Ground, Threat};
use super::session::Outcome;

type Launch = for<'a> fn(&'a Ground<'a>) -> LocalBoxFuture<'a, Outcome<Threat>>;

pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) launch: Launch,
}

const fn attack(name: &'static str, launch: Launch) -> Attack {
    Attack { name, launch }
}

pub(super) fn all() -> Vec<Attack> {
    [
        clusters::all(),
        git::all(),
        archives::all(),
        expressions::all(),
        builds::all(),
        charts::all(),
        secrets::all(),
        signatures::all(),
        tenancy::all(),
        objects::all(),
        requests::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
