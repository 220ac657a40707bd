//! What needs a process of its own, or the whole of the crate from outside.

mod journal;
