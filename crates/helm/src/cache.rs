//! Charts that were read, kept by what is in them.
//!
//! Reading the templates costs more than running them for most charts. What was read depends on the
//! bytes of the charts and on which subcharts take part under which name, not on other values.

use crate::chart::Chart;
use crate::engine::{Program, RenderError};
use crate::schema::Schemas;
use equate_template::RenderCache;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What was read of charts, by what it was read from. A clone shares it.
///
/// It is bounded by what things weigh in memory, nearly, not by the texts they were read from; what is
/// given to `tpl` and the regular expressions of all charts have bounds of their own, all together.
#[derive(Debug, Clone)]
pub struct Cache(Arc<Mutex<Kept>>, RenderCache);

#[derive(Debug)]
struct Kept {
    slots: HashMap<Key, Slot>,
    /// Of all that is kept.
    weight: usize,
    weight_max: usize,
    /// Counts uses: who was used longest ago goes first.
    clock: u64,
}

type Key = [u8; 32];

#[derive(Debug)]
struct Slot {
    known: Arc<Known>,
    /// Grows as more of the chart is read.
    weight: usize,
    used: u64,
}

/// What was read of a chart. Who comes while another reads waits for it.
#[derive(Debug)]
pub(crate) struct Known {
    key: Key,
    schemas: OnceLock<Schemas>,
    program: OnceLock<Result<Arc<Program>, RenderError>>,
}

/// The most charts, whatever they weigh: to find the oldest all are looked at.
const CHARTS_MAX: usize = 1_000;
/// What any chart takes.
const CHART_WEIGHT: usize = 4 << 10;

impl Cache {
    /// Keeps what takes so many bytes of memory.
    pub fn new(bytes_max: usize) -> Self {
        let kept = Kept {
            slots: HashMap::new(),
            weight: 0,
            weight_max: bytes_max,
            clock: 0,
        };
        Self(Arc::new(Mutex::new(kept)), RenderCache::default())
    }

    /// The program of a chart whose dependencies are settled: kept, or read now.
    ///
    /// # Errors
    /// A template that cannot be read.
    pub fn program(&self, chart: &Chart) -> Result<Arc<Program>, RenderError> {
        self.known(chart).program(self, chart)
    }

    /// What is known of a chart whose dependencies are settled.
    pub(crate) fn known(&self, chart: &Chart) -> Arc<Known> {
        let key = key(chart);
        self.lock().known(key)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Cache {
    /// Room for some hundred large charts.
    fn default() -> Self {
        Self::new(256 << 20)
    }
}

impl Known {
    /// The templates of the chart that this is known of.
    pub(crate) fn program(&self, cache: &Cache, chart: &Chart) -> Result<Arc<Program>, RenderError> {
        let mut is_new = false;
        let program = self.program.get_or_init(|| {
            is_new = true;
            Program::remembering(chart, &cache.1).map(Arc::new)
        });
        if let (true, Ok(program)) = (is_new, program) {
            cache.lock().weigh(&self.key, program.weight());
        }
        program.clone()
    }

    /// The schemas of the chart that this is known of, and of the charts in it.
    pub(crate) fn schemas(&self, cache: &Cache, chart: &Chart) -> &Schemas {
        let mut is_new = false;
        let schemas = self.schemas.get_or_init(|| {
            is_new = true;
            Schemas::read(chart)
        });
        if is_new {
            cache.lock().weigh(&self.key, schemas.weight());
        }
        schemas
    }
}

impl Kept {
    fn known(&mut self, key: Key) -> Arc<Known> {
        self.clock += 1;
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.used = self.clock;
            return Arc::clone(&slot.known);
        }
        let known = Arc::new(Known {
            key,
            schemas: OnceLock::new(),
            program: OnceLock::new(),
        });
        let slot = Slot {
            known: Arc::clone(&known),
            weight: 0,
            used: self.clock,
        };
        self.slots.insert(key, slot);
        self.weigh(&key, CHART_WEIGHT);
        known
    }

    /// Adds to the weight of what is kept under a key, and forgets what there is no room for.
    fn weigh(&mut self, key: &Key, weight: usize) {
        // it may have been forgotten meanwhile
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        slot.weight += weight;
        self.weight += weight;
        // one too large for all of it is not worth the others
        if slot.weight > self.weight_max {
            self.forget(*key);
        }
        while self.weight > self.weight_max || self.slots.len() > CHARTS_MAX {
            let Some(oldest) = self.slots.iter().min_by_key(|(_, slot)| slot.used) else {
                break;
            };
            self.forget(*oldest.0);
        }
    }

    fn forget(&mut self, key: Key) {
        if let Some(slot) = self.slots.remove(&key) {
            self.weight -= slot.weight;
        }
    }
}

/// What the templates of a chart depend on: its bytes, and which charts take part under which names.
fn key(chart: &Chart) -> Key {
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

#[cfg(test)]
mod tests {
    use super::{CHART_WEIGHT, CHARTS_MAX, Cache, Kept};
    use crate::chart::{Chart, File};
    use crate::metadata::Metadata;
    use std::sync::Arc;

    fn chart(name: &str, text: &str) -> Chart {
        let metadata = Metadata {
            name: name.into(),
            ..Metadata::default()
        };
        let template = File {
            name: "templates/a".into(),
            data: text.as_bytes().into(),
        };
        Chart {
            metadata: Arc::new(metadata),
            templates: Arc::new([template]),
            ..Chart::default()
        }
    }

    fn is_sound(kept: &Kept) -> bool {
        let all: usize = kept.slots.values().map(|slot| slot.weight).sum();
        kept.weight == all && all <= kept.weight_max && kept.slots.len() <= CHARTS_MAX
    }

    #[test]
    fn the_same_chart_is_read_once() {
        let cache = Cache::default();
        let one = chart("a", "{{ 1 }}");
        let programs: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| cache.program(&one).unwrap()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(programs.iter().all(|program| Arc::ptr_eq(program, &programs[0])));
        assert!(!Arc::ptr_eq(
            &programs[0],
            &cache.program(&chart("b", "{{ 1 }}")).unwrap()
        ));
        // what cannot be read is not read again either
        let broken = chart("c", "{{");
        assert_eq!(
            cache.program(&broken).unwrap_err(),
            cache.program(&broken).unwrap_err()
        );
    }

    #[test]
    fn what_is_kept_is_bounded_by_weight_and_number() {
        let cache = Cache::new(1 << 20);
        let long = "{{ .Values.a }} ".repeat(100);
        for number in 0..2 * CHARTS_MAX {
            // no templates weigh as little as may be
            let text = if number % 2 == 0 { "" } else { &long };
            cache.program(&chart(&number.to_string(), text)).unwrap();
            assert!(is_sound(&cache.lock()), "after {number}");
        }
        assert!(cache.lock().slots.len() > 10);
        let large = chart("large", &long.repeat(1_000));
        let kept = cache.lock().slots.len();
        cache.program(&large).unwrap();
        assert_eq!(
            cache.lock().slots.len(),
            kept,
            "it is forgotten, and nothing else"
        );
        assert!(is_sound(&cache.lock()));
        let small = Cache::new(CHART_WEIGHT - 1);
        small.program(&chart("a", "")).unwrap();
        assert!(small.lock().slots.is_empty());
    }
}
