//! Transformers that handle one resource at a time, run together.
//!
//! Thousands of objects do not fit a processor's cache, so each resource goes through all passes before the
//! next. The result is the same as pass by pass, errors included: the first pass's error wins, and of that
//! the first resource's.

use crate::budget::Budget;
use crate::collection::Collection;
use crate::error::{BuildError, Fault, Place};
use crate::loader::at;
use crate::notes::{self, Note};
use crate::resource::Resource;
use std::convert::Infallible;

/// The steps of a pass that finds nothing in a resource.
const PASS_STEPS: usize = 10;

pub(crate) type Step<'s> = Box<dyn FnMut(&mut Resource) -> Result<(), Fault> + 's>;

pub(crate) trait Pass: Sync {
    fn begin(&self) -> Step<'_>;

    fn renames(&self) -> bool {
        false
    }
}

#[derive(Default)]
pub(crate) struct Passes<'p>(Vec<(Box<dyn Pass + 'p>, Place)>);

impl<'p> Passes<'p> {
    /// Adds a pass; `place` is the field it comes from.
    pub(crate) fn add(&mut self, pass: impl Pass + 'p, place: Place) {
        self.0.push((Box::new(pass), place));
    }

    pub(crate) fn run(mut self, resources: &mut Collection) -> Result<(), BuildError> {
        let passes: Vec<&dyn Pass> = self.0.iter().map(|(pass, _)| &**pass).collect();
        match first_fault(&passes, resources) {
            None => Ok(()),
            Some((pass, fault)) => Err(at(self.0.swap_remove(pass).1)(fault)),
        }
    }
}

pub(crate) fn run(pass: &dyn Pass, resources: &mut Collection) -> Result<(), Fault> {
    first_fault(&[pass], resources).map_or(Ok(()), |(_, fault)| Err(fault))
}

fn first_fault(passes: &[&dyn Pass], resources: &mut Collection) -> Option<(usize, Fault)> {
    if passes.is_empty() {
        return None;
    }
    let budget = resources.budget();
    let items = match passes.iter().any(|pass| pass.renames()) {
        true => resources.items_mut(),
        false => resources.contents_mut(),
    };
    let begin = || -> Vec<Step<'_>> { passes.iter().map(|pass| pass.begin()).collect() };
    // no pass stops at a fault: a later resource may have one of an earlier pass
    let take_through = |steps: &mut Vec<Step<'_>>, resource: &mut Resource| {
        let mut steps = steps.iter_mut().enumerate();
        let fault = steps.find_map(|(pass, step)| {
            let spent = budget.spend(PASS_STEPS * resource.steps());
            let spent = spent.and_then(|()| budget.check()).map_err(Fault::from);
            Some((pass, spent.and_then(|()| step(resource)).err()?))
        });
        Ok::<_, Infallible>(fault.map(Box::new))
    };
    let faults = budget.workers().map(items, begin, take_through).done;
    let first = faults.into_iter().flatten().min_by_key(|fault| fault.0);
    first.map(|fault| *fault)
}

#[derive(Debug)]
pub(crate) struct NotePass(pub(crate) Note, pub(crate) Budget);

impl Pass for NotePass {
    fn begin(&self) -> Step<'_> {
        let bytes = self.0.bytes();
        Box::new(move |resource| {
            self.1.charge(bytes)?;
            self.1.spend(notes::STEPS)?;
            resource.note_change(&self.0);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;
    use crate::error::FieldProblem;
    use crate::schema::Schema;
    use serde_json::{Value, json};

    struct Adds(char, &'static str);

    impl Pass for Adds {
        fn begin(&self) -> Step<'_> {
            Box::new(|resource| {
                let name = resource.name().to_owned();
                if name == self.1 {
                    let (path, problem) = (self.0.to_string(), FieldProblem::EmptyName);
                    return Err(Fault::Field {
                        path,
                        id: name,
                        problem,
                    });
                }
                resource.set_name(&format!("{name}{}", self.0));
                Ok(())
            })
        }

        fn renames(&self) -> bool {
            true
        }
    }

    fn check(passes: Vec<Adds>, expected: &str) {
        let mut resources = Collection::default();
        for name in ["x", "y", "z"] {
            let Value::Object(object) = json!({"kind": "K", "metadata": {"name": name}}) else {
                panic!("no object");
            };
            let resource = Resource::new(object, Origin::default());
            resources.append(resource, Schema::built_in()).unwrap();
        }
        let mut all = Passes::default();
        for pass in passes {
            let place = Place::file(format!("file-{}", pass.0));
            all.add(pass, place);
        }
        let outcome = match all.run(&mut resources) {
            Ok(()) => {
                let names: Vec<&str> = resources.items().iter().map(Resource::name).collect();
                names.join(" ")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(outcome, expected);
    }

    #[test]
    fn first_failing_pass_is_reported() {
        check(vec![], "x y z");
        check(vec![Adds('a', ""), Adds('b', "")], "xab yab zab");
        check(
            vec![Adds('a', "z"), Adds('b', "xa")],
            "file-a: considering field 'a' of object z: cannot set or create an empty field name",
        );
        check(
            vec![Adds('a', ""), Adds('b', "za"), Adds('c', "xab")],
            "file-b: considering field 'b' of object za: cannot set or create an empty field name",
        );
        check(
            vec![Adds('a', ""), Adds('b', "ya"), Adds('c', "")],
            "file-b: considering field 'b' of object ya: cannot set or create an empty field name",
        );
    }
}
