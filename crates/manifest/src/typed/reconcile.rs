//! Adapts stored sets to a changed schema.

use super::error::{Faults, invalid_atom};
use super::schema::{AtomId, Form, NO_TYPE, Schema};
use super::{Errors, Type};
use crate::fieldpath::{PathElement, Set};

impl Type {
    /// The set as the present schema would have recorded it, if that differs.
    ///
    /// The owner of any part of a map or list that became atomic owns the whole. One that became granular
    /// keeps its owner until someone changes a part.
    pub fn reconcile(&self, set: &Set) -> Result<Option<Set>, Errors> {
        let mut walk = Walk {
            schema: &self.schema,
            faults: Faults::default(),
            path: Vec::new(),
            atomic: Set::default(),
        };
        walk.visit(self.root, Some(set), false);
        let atomic = walk.atomic;
        walk.faults
            .into_result((!atomic.is_empty()).then(|| set.recursive_difference(&atomic).union(&atomic)))
    }
}

struct Walk<'a> {
    schema: &'a Schema,
    faults: Faults,
    path: Vec<PathElement>,
    atomic: Set,
}

impl Walk<'_> {
    /// `leaf`: the set ends here and already covers the whole value.
    fn visit(&mut self, atom: AtomId, set: Option<&Set>, leaf: bool) {
        let schema = self.schema;
        let atom = schema.atom(atom);
        match atom.form(None) {
            Form::Scalar(_) => {}
            Form::Map(map) if schema.is_deduced_map(map) => {}
            Form::Map(map) if map.atomic && !leaf => {
                if set.is_some() {
                    self.atomic.insert(&self.path);
                }
            }
            Form::Map(map) => self.elements(set, |element| match element {
                PathElement::Field(name) => map.atom_of(name),
                _ => map.element,
            }),
            Form::List(list) if !list.associative && !leaf => self.atomic.insert(&self.path),
            Form::List(list) => self.elements(set, |_| list.element),
            Form::None => self.faults.add(invalid_atom(atom)),
        }
    }

    fn elements(&mut self, set: Option<&Set>, atom_of: impl Fn(&PathElement) -> AtomId) {
        let Some(set) = set else { return };
        let only_children = set
            .children()
            .filter(|(element, _)| !set.has_member(element))
            .map(|(e, _)| (e, false));
        let members = set.members().iter().map(|element| (element, true));
        for (element, member) in only_children.chain(members) {
            let atom = atom_of(element);
            if atom == NO_TYPE {
                // removed fields are left to the next update
                continue;
            }
            let below = set.child(element);
            self.path.push(element.clone());
            self.visit(atom, below, member && below.is_none());
            self.path.pop();
        }
    }
}
