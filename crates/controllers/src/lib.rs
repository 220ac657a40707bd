//! One module per controller, and the runtime they share.
