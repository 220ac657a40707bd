//! What templates share while a chart is rendered, and who answers for the world outside.

use crate::ast::Tree;
use crate::exec::Exec;
use crate::fault::{Error, ErrorKind, Fault};
use crate::functions::Library;
use crate::limits::{Limits, Meter};
use crate::parse;
use crate::value::{Map, Str, Value};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

/// Templates by name. Parsed once, run many times, from any thread.
#[derive(Debug, Clone)]
pub struct TemplateSet {
    library: Library,
    trees: HashMap<Arc<str>, Arc<Tree>>,
}

impl TemplateSet {
    /// An empty set whose templates may call the functions of a library.
    pub fn new(library: Library) -> Self {
        Self {
            library,
            trees: HashMap::new(),
        }
    }

    /// Reads a text under a name, with the templates it defines. Later ones replace earlier ones of the
    /// same name, unless they are empty.
    pub fn parse(&mut self, name: &str, text: &str) -> Result<(), Box<Error>> {
        for tree in parse::parse(&name.into(), &text.into(), self.library)? {
            let keeps = tree.is_empty() && self.trees.contains_key(&tree.name);
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What a key that is not there comes to.
    pub missing_key: MissingKey,
    /// The name under which `tpl` reads its text, and of the set in messages.
    pub set_name: Arc<str>,
    /// How much a render may take.
    pub limits: Limits,
}

impl Options {
    /// Helm's way.
    pub fn helm() -> Self {
        Self {
            missing_key: MissingKey::Zero,
            set_name: "gotpl".into(),
            limits: Limits::default(),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            missing_key: MissingKey::Default,
            set_name: "template".into(),
            limits: Limits::default(),
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

/// The templates of a text given to `tpl`, the text's own first.
pub(crate) type Layer = Arc<[Arc<Tree>]>;

/// One render of many templates: their budget, what they remember, and what of the world they used.
pub struct Session {
    pub(crate) options: Options,
    pub(crate) meter: Meter,
    pub(crate) world: Box<dyn World>,
    pub(crate) used: BTreeSet<&'static str>,
    /// How often each template is being included right now.
    pub(crate) included: HashMap<Str, usize>,
    pub(crate) layers: HashMap<Str, Layer>,
    pub(crate) patterns: HashMap<Str, regex::Regex>,
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
            meter: Meter::new(options.limits),
            options,
            world,
            used: BTreeSet::new(),
            included: HashMap::new(),
            layers: HashMap::new(),
            patterns: HashMap::new(),
            changed: Vec::new(),
        }
    }

    /// Runs a template. Maps in the data that templates change are emptied when the session ends.
    pub fn execute(&mut self, set: &TemplateSet, name: &str, data: Value) -> Result<Str, Box<Error>> {
        // what a failed template left behind
        self.included.clear();
        let Some(tree) = set.get(name) else {
            return Err(no_template(name, &self.options.set_name));
        };
        Exec::new(self, set).run(tree, data).map(Str::from)
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

pub(crate) fn no_template(name: &str, set_name: &str) -> Box<Error> {
    let quote = crate::literal::quote;
    let reason = format!(
        "no template {} associated with template {}",
        quote(name),
        quote(set_name)
    );
    Box::new(Error {
        kind: ErrorKind::Exec,
        message: format!("template: {reason}"),
        template: name.to_owned(),
        line: 0,
        column: None,
        reason,
    })
}
