//! Adds the structs on a path to a set, for pruning.

use super::Type;
use super::schema::{AtomId, NO_TYPE, Schema};
use crate::fieldpath::{PathElement, Set};

impl Type {
    /// The set with every declared struct field on a path as a member of its own.
    ///
    /// Field sets name only leaves; pruning must also see the structs around them. Map entries and list items
    /// are members only if someone owns them.
    pub fn ensure_named(&self, set: &Set) -> Set {
        ensure(&self.schema, self.root, set)
    }
}

fn ensure(schema: &Schema, atom: AtomId, set: &Set) -> Set {
    let atom = schema.atom(atom);
    let mut out = Set::default();
    let mut members = set.members().iter().peekable();
    for (element, child) in set.children() {
        while let Some(member) = members.next_if(|member| *member <= element) {
            out.insert_member(member.clone());
        }
        let below = match element {
            PathElement::Field(name) => {
                let field = atom.map.as_ref().and_then(|map| map.field(name));
                if field.is_some() {
                    out.insert_member(element.clone());
                }
                field
                    .map(|field| field.atom)
                    .or(atom.map.as_ref().map(|map| map.element))
            }
            PathElement::Key(_) => atom.list.as_ref().map(|list| list.element),
            PathElement::Value(_) | PathElement::Index(_) => None,
        };
        out.insert_child(element.clone(), ensure(schema, below.unwrap_or(NO_TYPE), child));
    }
    for member in members {
        out.insert_member(member.clone());
    }
    out
}
