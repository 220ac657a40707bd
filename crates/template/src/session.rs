//! What templates share while a chart is rendered, and who answers for the world outside.

use crate::ast::Tree;
use crate::exec::Exec;
use crate::fault::{Chain, Error, ErrorKind, Fault};
use crate::functions::Library;
use crate::limits::{Limits, Meter};
use crate::parse;
use crate::remembered::Memory;
use crate::value::{Map, Str, Value};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The name of every set, under which `tpl` reads its text too; messages show it.
pub(crate) const SET_NAME: &str = "gotpl";

/// Templates by name. Parsed once, run many times, from any thread and from several at once: what the
/// renders of a set read on the way (texts given to `tpl`, regular expressions) is remembered with it,
/// within bounds. A clone has the same templates and shares that memory.
#[derive(Debug, Clone)]
pub struct TemplateSet {
    library: Library,
    trees: HashMap<Arc<str>, Arc<Tree>>,
    memory: Memory,
    weight: usize,
}

impl TemplateSet {
    /// An empty set whose templates may call the functions of a library.
    pub fn new(library: Library) -> Self {
        Self::remembering(library, Memory::default())
    }

    /// The same, whose renders share what they read on the way with those of other sets of the same library.
    pub fn remembering(library: Library, memory: Memory) -> Self {
        Self {
            library,
            trees: HashMap::new(),
            memory,
            weight: 0,
        }
    }

    /// What the templates take in memory, nearly; at most 96 MiB.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Reads a text under a name, with the templates it defines. Later ones replace earlier ones of the
    /// same name, unless they are empty (nothing but space and comments). A text that cannot be read
    /// changes nothing.
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

    /// Whether there is a template of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.trees.contains_key(name)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Tree>> {
        self.trees.get(name)
    }

    pub(crate) fn library(&self) -> Library {
        self.library
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }
}

/// What a key that is not there comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingKey {
    /// No value at all.
    #[default]
    Default,
    /// The zero value of the map's elements, which is how Helm renders.
    Zero,
    /// An error.
    Error,
}

/// How templates are run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What a key that is not there comes to.
    pub missing_key: MissingKey,
    /// How much a render may take.
    pub limits: Limits,
    /// Ends the render with [`crate::Limit::Stopped`] once it is set: here is no clock, the caller has one.
    /// Looked at every 1,024 steps, so within milliseconds, or when the key or hash that is being made is done.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Options {
    /// Helm's way.
    pub fn helm() -> Self {
        Self {
            missing_key: MissingKey::Zero,
            limits: Limits::default(),
            stop: None,
        }
    }
}

/// What differs from one render to the next: chance, the clock, and the cluster.
pub trait World {
    /// Fills bytes by chance.
    fn random(&mut self, bytes: &mut [u8]);

    /// The time, in nanoseconds since 1970.
    fn now(&mut self) -> i128;

    /// The name of the local time zone, such as `UTC` or `Europe/Copenhagen`.
    fn zone(&self) -> String {
        "UTC".into()
    }

    /// What `lookup` finds; an empty map when there is no cluster or no such object.
    fn lookup(&mut self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, Fault>;
}

/// A world in which everything follows from a seed: the same seed, the same render. No cluster.
#[derive(Debug, Clone)]
pub struct Seeded {
    seed: [u8; 32],
    used: u64,
    now: i128,
}

impl Seeded {
    /// A world of this seed at this time, in nanoseconds since 1970.
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

/// One render of many templates: their budget, what they remember, and what of the world they used.
pub struct Session {
    pub(crate) options: Options,
    pub(crate) meter: Meter,
    pub(crate) world: Box<dyn World>,
    pub(crate) used: BTreeSet<&'static str>,
    /// How often each template is being included right now.
    pub(crate) included: HashMap<Str, usize>,
    /// Maps that took in other maps or lists: they may hold themselves, and are emptied in the end.
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
    /// A session with a whole budget.
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

    /// Runs a template as Helm runs one of a chart: what had no value is gone from the output.
    pub fn render(&mut self, set: &TemplateSet, name: &str, data: Value) -> Result<Str, Box<Error>> {
        self.execute(set, name, data).map(without_no_value)
    }

    /// Runs a template. Maps in the data that templates change are emptied when the session ends.
    pub fn execute(&mut self, set: &TemplateSet, name: &str, data: Value) -> Result<Str, Box<Error>> {
        // what a failed template left behind
        self.included.clear();
        let Some(tree) = set.get(name) else {
            return Err(no_template(name));
        };
        Exec::new(self, set).run(tree, data)
    }

    /// The functions used so far whose results differ from one render to the next.
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
    let quote = crate::literal::quote;
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

/// What Helm leaves of a text: what had no value is gone.
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
