//! Shared state of a render, and its connection to the outside world.

use crate::ast::Tree;
use crate::cache::RenderCache;
use crate::exec::Exec;
use crate::fault::{Chain, Error, ErrorKind, Fault};
use crate::functions::Library;
use crate::limits::{Limits, Meter};
use crate::parse;
use crate::value::{Map, Str, Value};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The name of every set, under which `tpl` parses its text; messages show it.
pub(crate) const SET_NAME: &str = "gotpl";

/// Templates by name. Parsed once and run many times, from any thread. Its renders cache texts given to `tpl`
/// and regular expressions, within bounds. A clone has the same templates and shares the cache.
#[derive(Debug, Clone)]
pub struct TemplateSet {
    library: Library,
    trees: HashMap<Arc<str>, Arc<Tree>>,
    cache: RenderCache,
    weight: usize,
}

impl TemplateSet {
    /// An empty set for templates with this function library.
    pub fn new(library: Library) -> Self {
        Self::with_cache(library, RenderCache::default())
    }

    /// [`Self::new`] with a cache shared with other sets of the same library.
    pub fn with_cache(library: Library, cache: RenderCache) -> Self {
        Self {
            library,
            trees: HashMap::new(),
            cache,
            weight: 0,
        }
    }

    /// The approximate memory of the templates; at most 96 MiB.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Parses a text and the templates it defines. They replace earlier ones of the same name, unless they
    /// are empty (only white space and comments). An invalid text changes nothing.
    pub fn parse(&mut self, name: &str, text: &str) -> Result<(), Box<Error>> {
        let room = parse::READ_BYTES_MAX.saturating_sub(self.weight);
        let read = parse::parse(&name.into(), &text.into(), self.library, room)?;
        self.weight += read.weight;
        for tree in read.trees {
            let keeps = tree.is_empty && self.trees.contains_key(&tree.name);
            if !keeps {
                self.trees.insert(Arc::clone(&tree.name), tree);
            }
        }
        Ok(())
    }

    /// Whether there is a template with this name.
    pub fn contains(&self, name: &str) -> bool {
        self.trees.contains_key(name)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Tree>> {
        self.trees.get(name)
    }

    pub(crate) fn library(&self) -> Library {
        self.library
    }

    pub(crate) fn cache(&self) -> &RenderCache {
        &self.cache
    }
}

/// The value of a missing map key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingKey {
    /// No value.
    #[default]
    Default,
    /// The zero value of the map's elements, as in Helm.
    Zero,
    /// An error.
    Error,
}

/// Options of a render.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The value of a missing map key.
    pub missing_key: MissingKey,
    /// The limits of the render.
    pub limits: Limits,
    /// Ends the render with [`crate::Limit::Stopped`] once set; the caller has the clock. Checked every 1,024
    /// steps, which is within milliseconds, or after the current key or hash.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Options {
    /// Helm's options.
    pub fn helm() -> Self {
        Self {
            missing_key: MissingKey::Zero,
            limits: Limits::default(),
            stop: None,
        }
    }
}

/// The outside world: randomness, the clock, and the cluster.
pub trait World {
    /// Fills the bytes randomly.
    fn random(&mut self, bytes: &mut [u8]);

    /// The time, in nanoseconds since 1970.
    fn now(&mut self) -> i128;

    /// The name of the local time zone, such as `UTC` or `Europe/Copenhagen`.
    fn zone(&self) -> String {
        "UTC".into()
    }

    /// The result of `lookup`; an empty map without a cluster or object.
    fn lookup(&mut self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, Fault>;
}

/// A deterministic world for tests and comparisons: the same seed gives the same render. It has no cluster.
#[derive(Debug, Clone)]
pub struct Seeded {
    seed: [u8; 32],
    used: u64,
    now: i128,
}

impl Seeded {
    /// A world with this seed and time, in nanoseconds since 1970.
    pub fn new(seed: &[u8], now: i128) -> Self {
        use sha2::Digest as _;
        Self {
            seed: sha2::Sha256::digest(seed).into(),
            used: 0,
            now,
        }
    }
}

impl World for Seeded {
    fn random(&mut self, bytes: &mut [u8]) {
        use sha2::Digest as _;
        for chunk in bytes.chunks_mut(32) {
            let block = sha2::Sha256::new()
                .chain_update(self.seed)
                .chain_update(self.used.to_be_bytes())
                .finalize();
            self.used += 1;
            chunk.copy_from_slice(&block[..chunk.len()]);
        }
    }

    fn now(&mut self) -> i128 {
        self.now
    }

    fn lookup(&mut self, _: &str, _: &str, _: &str, _: &str) -> Result<Value, Fault> {
        Ok(Map::new().into())
    }
}

/// One render of many templates, with one budget.
pub struct Session {
    pub(crate) options: Options,
    pub(crate) meter: Meter,
    pub(crate) world: Box<dyn World>,
    pub(crate) used: BTreeSet<&'static str>,
    /// The current `include` depth of each template.
    pub(crate) included: HashMap<Str, usize>,
    /// Maps that received maps or lists: they may contain themselves and are emptied at the end.
    pub(crate) changed: Vec<Map>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("options", &self.options)
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// A session with a full budget.
    pub fn new(options: Options, world: Box<dyn World>) -> Self {
        Self {
            meter: Meter::new(options.limits, options.stop.clone()),
            options,
            world,
            used: BTreeSet::new(),
            included: HashMap::new(),
            changed: Vec::new(),
        }
    }

    /// Runs a template as Helm does: removes `<no value>` from the output.
    pub fn render(&mut self, set: &TemplateSet, name: &str, data: Value) -> Result<Str, Box<Error>> {
        self.execute(set, name, data).map(without_no_value)
    }

    /// Runs a template. Maps in the data that templates change are emptied when the session ends.
    pub fn execute(&mut self, set: &TemplateSet, name: &str, data: Value) -> Result<Str, Box<Error>> {
        // left over from a failed template
        self.included.clear();
        let Some(tree) = set.get(name) else {
            return Err(no_template(name));
        };
        Exec::new(self, set).run(tree, data)
    }

    /// The functions used so far whose results change between renders.
    pub fn unrepeatable(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.used.iter().copied()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for map in std::mem::take(&mut self.changed) {
            map.clear();
        }
    }
}

pub(crate) fn no_template(name: &str) -> Box<Error> {
    let quote = equate_manifest::go::quote;
    let reason = format!(
        "no template {} associated with template {}",
        quote(name),
        quote(SET_NAME)
    );
    Box::new(Error {
        kind: ErrorKind::Exec,
        message: format!("template: {reason}"),
        template: name.to_owned(),
        line: 0,
        column: None,
        reason,
        chain: Chain::default(),
    })
}

/// Removes `<no value>`, as Helm does.
pub(crate) fn without_no_value(text: Str) -> Str {
    const NONE: &[u8] = b"<no value>";
    let find = |text: &[u8]| memchr::memmem::find(text, NONE);
    let Some(mut at) = find(text.as_bytes()) else {
        return text;
    };
    let mut kept = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        kept.extend_from_slice(&rest[..at]);
        rest = &rest[at + NONE.len()..];
        match find(rest) {
            Some(next) => at = next,
            None => break,
        }
    }
    kept.extend_from_slice(rest);
    kept.into()
}

// a parsed chart is rendered from many threads
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<TemplateSet>();
};
