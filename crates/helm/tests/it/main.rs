//! What is held against the real helm's answers.

mod listings;
