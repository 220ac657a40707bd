//! Bare mirrors, incremental fetch, trees without checkout.
