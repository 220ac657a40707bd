//! A bounded cache of parsed texts and expressions, shared by all renders of one or more sets.
//!
//! It has two generations: entries in use are young; when the young ones exceed the bound they become the old
//! ones, and the previous old ones are dropped. So the bound holds for hostile charts, and nothing is sorted.

use crate::ast::Tree;
use crate::functions::Pattern;
use crate::value::Str;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug, Clone)]
pub(crate) struct Layer {
    /// The text's own template.
    pub(crate) own: Option<Arc<Tree>>,
    trees: Arc<[Arc<Tree>]>,
}

impl Layer {
    /// Templates with distinct names, the text's own first.
    pub(crate) fn new(mut trees: Vec<Arc<Tree>>) -> Self {
        let own = trees.first().map(Arc::clone);
        trees.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        Self {
            own,
            trees: trees.into(),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Tree>> {
        let at = self.trees.binary_search_by(|tree| (*tree.name).cmp(name)).ok()?;
        self.trees.get(at)
    }
}

/// The most bytes of texts given to `tpl` per generation. A parsed text may take forty times its length.
const LAYERS_BYTES_MAX: usize = 512 << 10;
/// The most expressions per generation. One takes up to 320 KiB, most a tenth of that.
const PATTERNS_MAX: usize = 100;
const PATTERN_BYTES_MAX: usize = 4 << 10;

/// A cache of texts given to `tpl` and of regular expressions: at most 40 MiB of texts and 64 MiB of
/// expressions, however many sets share it. A clone shares the cache.
#[derive(Debug, Clone, Default)]
pub struct RenderCache(Arc<SharedCache>);

#[derive(Debug)]
struct SharedCache {
    layers: Mutex<Generations<Layer>>,
    patterns: Mutex<Generations<Pattern>>,
}

impl Default for SharedCache {
    fn default() -> Self {
        Self {
            layers: Mutex::new(Generations::new(LAYERS_BYTES_MAX)),
            patterns: Mutex::new(Generations::new(PATTERNS_MAX)),
        }
    }
}

impl RenderCache {
    pub(crate) fn layer(&self, text: &Str) -> Option<Layer> {
        get(&self.0.layers, text)
    }

    pub(crate) fn keep_layer(&self, text: Str, layer: Layer) {
        let weight = text.len();
        put(&self.0.layers, text, layer, weight);
    }

    pub(crate) fn pattern(&self, text: &Str) -> Option<Pattern> {
        get(&self.0.patterns, text)
    }

    pub(crate) fn keep_pattern(&self, text: Str, pattern: Pattern) {
        if text.len() <= PATTERN_BYTES_MAX {
            put(&self.0.patterns, text, pattern, 1);
        }
    }
}

// a panic leaves the map intact: each change is a single call
fn get<V: Clone>(of: &Mutex<Generations<V>>, key: &Str) -> Option<V> {
    of.lock().unwrap_or_else(PoisonError::into_inner).get(key)
}

fn put<V: Clone>(into: &Mutex<Generations<V>>, key: Str, value: V, weight: usize) {
    into.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .put(key, value, weight);
}

/// Values with weights; each generation has the same bound.
#[derive(Debug)]
struct Generations<V> {
    young: HashMap<Str, (V, usize)>,
    old: HashMap<Str, (V, usize)>,
    weight: usize,
    weight_max: usize,
}

impl<V: Clone> Generations<V> {
    fn new(weight_max: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            weight: 0,
            weight_max,
        }
    }

    fn get(&mut self, key: &Str) -> Option<V> {
        if let Some((value, _)) = self.young.get(key) {
            return Some(value.clone());
        }
        let (value, weight) = self.old.remove(key)?;
        self.put(key.clone(), value.clone(), weight);
        Some(value)
    }

    fn put(&mut self, key: Str, value: V, weight: usize) {
        if weight > self.weight_max {
            return;
        }
        if self.weight + weight > self.weight_max {
            self.old = std::mem::take(&mut self.young);
            self.weight = 0;
        }
        // two renders may add the same
        if let Some((_, before)) = self.young.insert(key, (value, weight)) {
            self.weight -= before;
        }
        self.weight += weight;
    }
}

#[cfg(test)]
mod tests {
    use super::Generations;

    #[test]
    fn used_entries_survive_eviction() {
        let mut kept = Generations::new(10);
        for number in 0..50 {
            kept.put(format!("{number}").as_str().into(), number, 3);
            assert_eq!(kept.get(&"0".into()), Some(0), "after {number}");
            assert!(kept.weight <= 10);
            assert!(kept.young.len() + kept.old.len() <= 6);
        }
        assert_eq!(kept.get(&"49".into()), Some(49));
        assert_eq!(kept.get(&"20".into()), None);
        kept.put("heavy".into(), 1, 11);
        assert_eq!(kept.get(&"heavy".into()), None);
    }
}
