//! Cache of parsed charts.
//!
//! Parsing the templates costs more than executing them for most charts. The result depends on the bytes
//! of the charts and on the enabled subcharts and their names, not on other values.

use crate::chart::Chart;
use crate::engine::{Program, RenderError};
use crate::schema::Schemas;
use equate_template::RenderCache;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Cache of parsed charts, keyed by content. Clones share it.
///
/// The bound is the approximate memory of the entries, not the length of their source. The texts given to
/// `tpl` and the regular expressions of all charts have shared bounds of their own.
#[derive(Debug, Clone)]
pub struct Cache(Arc<Mutex<Kept>>, RenderCache);

#[derive(Debug)]
struct Kept {
    slots: HashMap<Key, Slot>,
    /// Sum over all entries.
    weight: usize,
    weight_max: usize,
    /// Counts uses: the least recently used entry is evicted first.
    clock: u64,
}

type Key = [u8; 32];

#[derive(Debug)]
struct Slot {
    known: Arc<ParsedChart>,
    weight: usize,
    used: u64,
}

/// The parsed parts of a chart. Concurrent readers wait for the first one.
#[derive(Debug)]
pub(crate) struct ParsedChart {
    key: Key,
    schemas: OnceLock<Schemas>,
    program: OnceLock<Result<Arc<Program>, RenderError>>,
}

/// The most charts, whatever their weight: eviction looks at all of them.
const CHARTS_MAX: usize = 1_000;
const CHART_WEIGHT: usize = 4 << 10;

impl Cache {
    /// A cache bounded to this many bytes of memory.
    pub fn new(bytes_max: usize) -> Self {
        let kept = Kept {
            slots: HashMap::new(),
            weight: 0,
            weight_max: bytes_max,
            clock: 0,
        };
        Self(Arc::new(Mutex::new(kept)), RenderCache::default())
    }

    /// The program of a chart with resolved dependencies, from the cache or parsed now.
    ///
    /// # Errors
    /// A template does not parse.
    pub fn program(&self, chart: &Chart) -> Result<Arc<Program>, RenderError> {
        self.known(chart).program(self, chart)
    }

    pub(crate) fn known(&self, chart: &Chart) -> Arc<ParsedChart> {
        let key = key(chart);
        self.lock().known(key)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self::new(256 << 20)
    }
}

impl ParsedChart {
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
    fn known(&mut self, key: Key) -> Arc<ParsedChart> {
        self.clock += 1;
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.used = self.clock;
            return Arc::clone(&slot.known);
        }
        let known = Arc::new(ParsedChart {
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

    /// Adds to the weight of an entry and evicts others until the rest fits.
    fn weigh(&mut self, key: &Key, weight: usize) {
        // the entry may have been evicted meanwhile
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        slot.weight += weight;
        self.weight += weight;
        // an entry larger than the whole cache must not evict the others
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

/// The inputs of a chart's templates: its bytes, and the enabled subcharts and their names.
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
        // parse errors are cached too
        let broken = chart("c", "{{");
        assert_eq!(
            cache.program(&broken).unwrap_err(),
            cache.program(&broken).unwrap_err()
        );
    }

    #[test]
    fn cache_is_bounded_by_weight_and_number() {
        let cache = Cache::new(1 << 20);
        let long = "{{ .Values.a }} ".repeat(100);
        for number in 0..2 * CHARTS_MAX {
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
