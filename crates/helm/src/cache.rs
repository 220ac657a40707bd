//! Charts that were read, kept by what is in them.
//!
//! Reading the templates costs more than running them for most charts. What was read depends on the
//! bytes of the charts and on which subcharts take part under which name, not on other values.

use crate::chart::Chart;
use crate::engine::{Program, RenderError};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Programs by the digest of what they were read from. A clone shares them.
#[derive(Debug, Clone)]
pub struct Cache(Arc<Mutex<Kept>>);

#[derive(Debug)]
struct Kept {
    programs: HashMap<[u8; 32], (Arc<Program>, u64)>,
    /// Bytes of templates, of all that is kept.
    bytes: usize,
    bytes_max: usize,
    /// Counts uses: who was used longest ago goes first.
    clock: u64,
}

impl Cache {
    /// Keeps programs of so many bytes of templates.
    pub fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Mutex::new(Kept {
            programs: HashMap::new(),
            bytes: 0,
            bytes_max,
            clock: 0,
        })))
    }

    /// The program of a chart whose dependencies are settled: kept, or read now. Two who ask for the
    /// same at once may both read it.
    pub fn program(&self, chart: &Chart) -> Result<Arc<Program>, RenderError> {
        let key = key(chart);
        if let Some(program) = self.lock().get(&key) {
            return Ok(program);
        }
        let program = Arc::new(Program::read(chart)?);
        self.lock().put(key, &program);
        Ok(program)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Cache {
    /// Room for some hundred large charts.
    fn default() -> Self {
        Self::new(32 << 20)
    }
}

impl Kept {
    fn get(&mut self, key: &[u8; 32]) -> Option<Arc<Program>> {
        self.clock += 1;
        let (program, used) = self.programs.get_mut(key)?;
        *used = self.clock;
        Some(Arc::clone(program))
    }

    fn put(&mut self, key: [u8; 32], program: &Arc<Program>) {
        if program.bytes() > self.bytes_max || self.programs.contains_key(&key) {
            return;
        }
        self.bytes += program.bytes();
        self.programs.insert(key, (Arc::clone(program), self.clock));
        while self.bytes > self.bytes_max {
            let oldest = self.programs.iter().min_by_key(|(_, (_, used))| *used);
            let Some((oldest, _)) = oldest.map(|(key, program)| (*key, program)) else {
                break;
            };
            if let Some((program, _)) = self.programs.remove(&oldest) {
                self.bytes -= program.bytes();
            }
        }
    }
}

/// What the templates of a chart depend on: its bytes, and which charts take part under which names.
fn key(chart: &Chart) -> [u8; 32] {
    fn add(chart: &Chart, hash: &mut Sha256) {
        hash.update(chart.digest);
        hash.update((chart.name().len() as u64).to_be_bytes());
        hash.update(chart.name());
        // a source may have rewritten it after the chart was read
        hash.update((chart.metadata.version.len() as u64).to_be_bytes());
        hash.update(&chart.metadata.version);
        // import-values and conditions change what `.Chart.Dependencies` says
        hash.update((chart.metadata.dependencies.len() as u64).to_be_bytes());
        for dependency in &chart.metadata.dependencies {
            hash.update((dependency.name.len() as u64).to_be_bytes());
            hash.update(&dependency.name);
            hash.update([u8::from(dependency.enabled)]);
        }
        hash.update((chart.dependencies.len() as u64).to_be_bytes());
        for chart in &chart.dependencies {
            add(chart, hash);
        }
    }
    let mut hash = Sha256::new();
    add(chart, &mut hash);
    hash.finalize().into()
}
