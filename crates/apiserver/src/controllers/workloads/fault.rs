//! Simulated failures, requested by the annotation `equate.dev/simulate`.
//!
//! The annotation is set on a pod (by its template), or on the workload that owns it. Its value must be a
//! [`Fault`]. Any other value is reported in an Event and has no effect, so that a misspelt fault is not
//! mistaken for a healthy run.

use super::context::{Context, EventSource};
use super::{Kind, controller, owner_key};
use crate::builtin::tree::{annotation, get};
use serde_json::Value;

pub(super) const SIMULATE: &str = "equate.dev/simulate";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    CrashLoopBackOff,
    ImagePullBackOff,
}

impl Fault {
    fn named(name: &str) -> Option<Self> {
        match name {
            "CrashLoopBackOff" => Some(Self::CrashLoopBackOff),
            "ImagePullBackOff" => Some(Self::ImagePullBackOff),
            _ => None,
        }
    }
}

/// The values of an object's own annotation and of its pod template's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestedFault<'a> {
    own: Option<&'a str>,
    template: Option<&'a str>,
}

impl<'a> RequestedFault<'a> {
    pub(super) fn is_known(&self) -> bool {
        self.unknown().is_none()
    }

    fn unknown(&self) -> Option<&'a str> {
        [self.own, self.template]
            .into_iter()
            .flatten()
            .find(|name| Fault::named(name).is_none())
    }
}

pub(super) fn requested(object: &Value) -> RequestedFault<'_> {
    RequestedFault {
        own: annotation(object, SIMULATE),
        template: annotation(get(object, "spec.template"), SIMULATE),
    }
}

/// The fault of a pod: from its own annotation, else from those of its owners.
pub(super) fn of(cx: &Context<'_>, pod: &Value) -> Option<Fault> {
    let mut object = pod;
    for _ in 0..3 {
        if let Some(name) = annotation(object, SIMULATE) {
            return Fault::named(name);
        }
        let key = owner_key(controller(object)?, &cx.key.namespace)?;
        object = cx.get(Kind::of(&key.resource)?, &key.namespace, &key.name)?;
    }
    None
}

pub(super) fn report_unknown(cx: &mut Context<'_>, object: &Value) {
    let Some(name) = requested(object).unknown() else {
        return;
    };
    let message = format!(
        "{SIMULATE}: unknown value {name:?} has no effect; use \"CrashLoopBackOff\" or \"ImagePullBackOff\""
    );
    let event_source = EventSource {
        component: "equate-simulation",
        about: object,
    };
    let event = cx.event(event_source, "Warning", "UnknownSimulation", &message);
    cx.step(vec![event]);
}
