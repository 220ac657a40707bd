//! What is held against the real helm's answers.

mod asked;
mod golden;
mod hostile;
mod listings;
mod repository;
