//! Commands with the names, words and columns of Flux's: `check`, `debug`, `export`, `logs`, `stats`, `trace`.

pub(crate) mod check;
pub(crate) mod debug;
pub(crate) mod export;
pub(crate) mod logs;
pub(crate) mod stats;
#[cfg(test)]
mod tests;
pub(crate) mod trace;

/// The label of Flux's and Equate's own objects.
const PART_OF_FLUX: &str = "app.kubernetes.io/part-of=flux";
