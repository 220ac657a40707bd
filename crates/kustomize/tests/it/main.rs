//! Whole builds, over trees in memory.

mod memory;
mod vectors;
