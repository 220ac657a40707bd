//! The definitions against Flux's, and against a server.

mod against_flux;
mod established;
