//! One module per controller, and the runtime they share.

mod key;

pub use key::Key;
