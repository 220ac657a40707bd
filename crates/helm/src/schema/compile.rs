//! A compiled schema: typed keywords, resolved references.

use super::address::{ROOT, pointer, resolved, scheme, split};
use super::number::Decimal;
use equate_manifest::go::quote;
use equate_manifest::regexp;
use regex::Regex;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The most schemas in one document, and the most by reference.
const SCHEMAS_MAX: usize = 100_000;
/// The most distinct expressions: each keeps up to 256 KiB of search state.
const PATTERNS_MAX: usize = 300;
/// Memory limits of an expression, in bytes, tried in order, each with the cost of a searched byte. With
/// less memory the regex engine walks every state for each byte.
const PATTERN_BYTES: [(usize, usize); 3] = [(8 << 10, 5), (32 << 10, 20), (128 << 10, 100)];
const PATTERNS_BYTES_MAX: usize = 16 << 20;

/// A schema is invalid or unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaFault {
    /// `$schema` names no known draft.
    #[error("failing loading {}: no schema is read from the network", quote(.0))]
    Draft(String),
    /// A reference to the network or a file.
    #[error("failing loading {}: no schema is read from the network or from files", quote(.0))]
    Elsewhere(String),
    /// A dangling pointer.
    #[error("json-pointer in {} not found", quote(.0))]
    NoPointer(String),
    /// A missing anchor.
    #[error("anchor in {} not found in schema {}", quote(reference), quote(of))]
    NoAnchor {
        /// The reference.
        reference: String,
        /// The schema without it.
        of: String,
    },
    /// A keyword has the wrong type.
    #[error(
        "{} is not valid against metaschema: '{keyword}' wants {wanted}",
        quote(ROOT_SHOWN)
    )]
    Keyword {
        /// The keyword.
        keyword: String,
        /// The expected type.
        wanted: &'static str,
    },
    /// An invalid regular expression.
    #[error("invalid regex {} at {}: {why}", quote(pattern), quote(ROOT_SHOWN))]
    Pattern {
        /// The expression.
        pattern: String,
        /// The cause.
        why: String,
    },
    /// Too many schemas.
    #[error("the schema has more than {SCHEMAS_MAX} subschemas")]
    Schemas,
    /// Too many expressions.
    #[error("the schema has more than {PATTERNS_MAX} different regular expressions")]
    Patterns,
    /// The expressions take too much memory together.
    #[error("the regular expressions of the schema take more than {PATTERNS_BYTES_MAX} bytes")]
    PatternsBytes,
}

const ROOT_SHOWN: &str = "file:///values.schema.json#";

/// The drafts, in order of publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    D4,
    D6,
    D7,
    D2019,
    D2020,
}

pub(super) type Id = usize;

/// A schema with all it refers to. It owns its data: the cache outlives the text.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) schemas: Vec<Schema>,
    /// Whether any schema uses unevaluated items or properties.
    pub(super) tracks: bool,
    /// `$dynamicAnchor`s and `$recursiveAnchor`s (which have no name) by resource.
    pub(super) dynamic: HashMap<(String, String), Id>,
}

#[derive(Debug, Clone)]
pub(super) struct Pattern {
    pub(super) regex: Arc<Regex>,
    /// The cost of one searched byte.
    pub(super) slowness: usize,
}

/// The value of a dependency or of additional items or properties.
#[derive(Debug)]
pub(super) enum Dependency {
    Keys(Vec<Box<str>>),
    Schema(Id),
}

/// One schema. Keywords outside its draft are absent.
#[derive(Debug, Default)]
pub(super) struct Schema {
    pub(super) always: Option<bool>,
    pub(super) resource: String,
    pub(super) old: bool,
    pub(super) types: Vec<&'static str>,
    pub(super) constant: Option<Value>,
    pub(super) one_of_values: Option<Box<[Value]>>,
    pub(super) format: Option<Box<str>>,
    pub(super) reference: Option<Id>,
    pub(super) recursive: Option<Id>,
    pub(super) dynamic: Option<(Id, Option<String>)>,
    pub(super) min_properties: Option<usize>,
    pub(super) max_properties: Option<usize>,
    pub(super) required: Vec<Box<str>>,
    pub(super) dependencies: Vec<(Box<str>, Dependency)>,
    pub(super) properties: BTreeMap<Box<str>, Id>,
    pub(super) patterns: Vec<(Pattern, Id)>,
    pub(super) additional_properties: Option<Id>,
    pub(super) property_names: Option<Id>,
    pub(super) dependent_schemas: Vec<(Box<str>, Id)>,
    pub(super) dependent_required: Vec<(Box<str>, Vec<Box<str>>)>,
    pub(super) min_items: Option<usize>,
    pub(super) max_items: Option<usize>,
    pub(super) unique_items: bool,
    pub(super) prefix_items: Vec<Id>,
    pub(super) items: Option<Id>,
    pub(super) additional_items: Option<Id>,
    pub(super) contains: Option<Id>,
    pub(super) marks_contained: bool,
    pub(super) min_contains: Option<usize>,
    pub(super) max_contains: Option<usize>,
    pub(super) min_length: Option<usize>,
    pub(super) max_length: Option<usize>,
    pub(super) pattern: Option<(Pattern, Box<str>)>,
    pub(super) minimum: Option<Decimal>,
    pub(super) maximum: Option<Decimal>,
    pub(super) above: Option<Decimal>,
    pub(super) below: Option<Decimal>,
    pub(super) multiple_of: Option<Decimal>,
    pub(super) not: Option<Id>,
    pub(super) all_of: Vec<Id>,
    pub(super) any_of: Vec<Id>,
    pub(super) one_of: Vec<Id>,
    pub(super) condition: Option<Id>,
    pub(super) then: Option<Id>,
    pub(super) otherwise: Option<Id>,
    pub(super) unevaluated_properties: Option<Id>,
    pub(super) unevaluated_items: Option<Id>,
}

impl Compiled {
    pub(super) fn weight(&self) -> usize {
        self.schemas.len().saturating_mul(size_of::<Schema>())
    }

    pub(super) fn new(document: &Value) -> Result<Self, SchemaFault> {
        let mut compiler = Compiler {
            resources: HashMap::new(),
            anchors: HashMap::new(),
            bases: HashMap::new(),
            known: HashMap::new(),
            waiting: Vec::new(),
            patterns: HashMap::new(),
            patterns_bytes_left: PATTERNS_BYTES_MAX,
            draft: draft(document)?,
            out: Self {
                schemas: Vec::new(),
                tracks: false,
                dynamic: HashMap::new(),
            },
        };
        compiler.resources.insert(ROOT.into(), document);
        compiler.index(document, ROOT, 0);
        compiler.id(document, ROOT)?;
        while let Some((id, value, base)) = compiler.waiting.pop() {
            compiler.out.schemas[id] = compiler.schema(value, base)?;
        }
        let anchors = std::mem::take(&mut compiler.anchors);
        for ((base, name), (value, is_dynamic)) in anchors {
            if let (true, Some(id)) = (is_dynamic, compiler.known.get(&address(value))) {
                compiler.out.dynamic.insert((base, name), *id);
            }
        }
        Ok(compiler.out)
    }
}

fn draft(document: &Value) -> Result<Draft, SchemaFault> {
    let Some(named) = document.get("$schema").and_then(Value::as_str) else {
        return Ok(Draft::D2020);
    };
    let bare = named.trim_end_matches('#');
    let bare = bare
        .strip_prefix("http://")
        .or(bare.strip_prefix("https://"))
        .unwrap_or(bare);
    match bare {
        "json-schema.org/draft-04/schema" => Ok(Draft::D4),
        "json-schema.org/draft-06/schema" => Ok(Draft::D6),
        "json-schema.org/draft-07/schema" => Ok(Draft::D7),
        "json-schema.org/draft/2019-09/schema" => Ok(Draft::D2019),
        "json-schema.org/draft/2020-12/schema" | "json-schema.org/schema" => Ok(Draft::D2020),
        _ => Err(SchemaFault::Draft(named.to_owned())),
    }
}

fn address(value: &Value) -> usize {
    std::ptr::from_ref(value) as usize
}

struct Compiler<'d> {
    draft: Draft,
    /// Schemas with an address of their own.
    resources: HashMap<String, &'d Value>,
    /// Anchors by resource and name, and whether they are dynamic.
    anchors: HashMap<(String, String), (&'d Value, bool)>,
    /// The resource of each value that may be a schema.
    bases: HashMap<usize, String>,
    known: HashMap<usize, Id>,
    waiting: Vec<(Id, &'d Value, String)>,
    /// Compiled expressions, by text.
    patterns: HashMap<&'d str, Pattern>,
    patterns_bytes_left: usize,
    out: Compiled,
}

/// The deepest nesting; the JSON parser allows no more.
const DEPTH_MAX: usize = 200;

impl<'d> Compiler<'d> {
    fn index(&mut self, value: &'d Value, base: &str, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        match value {
            Value::Array(items) => {
                for item in items {
                    self.index(item, base, depth + 1);
                }
            }
            Value::Object(map) => {
                let own = self.own_address(map, base);
                let base = own.as_deref().unwrap_or(base);
                if own.is_some() {
                    self.resources.entry(base.to_owned()).or_insert(value);
                }
                self.bases.insert(address(value), base.to_owned());
                self.index_anchors(value, map, base);
                for (key, below) in map {
                    if !matches!(key.as_str(), "enum" | "const" | "default" | "examples") {
                        self.index(below, base, depth + 1);
                    }
                }
            }
            _ => {}
        }
    }

    fn own_address(&self, map: &Map<String, Value>, base: &str) -> Option<String> {
        let keyword = if self.draft == Draft::D4 { "id" } else { "$id" };
        let id = map.get(keyword)?.as_str()?;
        if self.draft < Draft::D2019 && map.contains_key("$ref") {
            return None;
        }
        let (path, _) = split(id);
        (!path.is_empty()).then(|| resolved(base, path))
    }

    fn index_anchors(&mut self, value: &'d Value, map: &'d Map<String, Value>, base: &str) {
        let text = |keyword: &str| map.get(keyword).and_then(Value::as_str);
        let mut add = |name: &str, dynamic: bool| {
            self.anchors
                .insert((base.to_owned(), name.to_owned()), (value, dynamic));
        };
        if self.draft < Draft::D2019 {
            let id = text(if self.draft == Draft::D4 { "id" } else { "$id" });
            if let Some(("", name)) = id.map(split).filter(|(_, name)| !name.is_empty()) {
                add(name, false);
            }
            return;
        }
        if let Some(name) = text("$anchor") {
            add(name, false);
        }
        if let (Some(name), Draft::D2020) = (text("$dynamicAnchor"), self.draft) {
            add(name, true);
        }
        if map.get("$recursiveAnchor") == Some(&Value::Bool(true)) && self.draft == Draft::D2019 {
            add("", true);
        }
    }

    fn id(&mut self, value: &'d Value, base: &str) -> Result<Id, SchemaFault> {
        if let Some(id) = self.known.get(&address(value)) {
            return Ok(*id);
        }
        let id = self.out.schemas.len();
        if id == SCHEMAS_MAX {
            return Err(SchemaFault::Schemas);
        }
        self.known.insert(address(value), id);
        self.out.schemas.push(Schema::default());
        let base = self
            .bases
            .get(&address(value))
            .map_or(base, String::as_str)
            .to_owned();
        self.waiting.push((id, value, base));
        Ok(id)
    }

    fn anything(&mut self) -> Id {
        self.out.schemas.push(Schema {
            always: Some(true),
            ..Schema::default()
        });
        self.out.schemas.len() - 1
    }

    fn follow(&mut self, reference: &str, base: &str) -> Result<Id, SchemaFault> {
        let whole = resolved(base, reference);
        let (path, fragment) = split(&whole);
        let Some(&resource) = self.resources.get(path) else {
            return match scheme(path) {
                Some("urn") => Ok(self.anything()),
                _ => Err(SchemaFault::Elsewhere(path.to_owned())),
            };
        };
        if fragment.is_empty() {
            return self.id(resource, path);
        }
        if !fragment.starts_with('/') {
            let key = (path.to_owned(), fragment.to_owned());
            let Some((value, _)) = self.anchors.get(&key).copied() else {
                return Err(SchemaFault::NoAnchor {
                    reference: whole.clone(),
                    of: path.to_owned(),
                });
            };
            return self.id(value, path);
        }
        let (mut value, mut base) = (resource, path.to_owned());
        for key in pointer(fragment) {
            let below = match value {
                Value::Object(map) => map.get(&key),
                Value::Array(items) => key.parse::<usize>().ok().and_then(|at| items.get(at)),
                _ => None,
            };
            value = below.ok_or_else(|| SchemaFault::NoPointer(whole.clone()))?;
            if let Some(own) = self.bases.get(&address(value)) {
                base.clone_from(own);
            }
        }
        self.id(value, &base)
    }

    fn schema(&mut self, value: &'d Value, base: String) -> Result<Schema, SchemaFault> {
        let map = match value {
            Value::Bool(flag) => {
                return Ok(Schema {
                    always: Some(*flag),
                    ..Schema::default()
                });
            }
            Value::Object(map) => map,
            _ => return Err(wrong("schema", "an object or a boolean")),
        };
        let mut keywords = Keywords {
            map,
            base: &base,
            compiler: self,
        };
        let mut schema = Schema {
            old: keywords.compiler.draft < Draft::D2019,
            ..Schema::default()
        };
        if let Some(reference) = keywords.text("$ref")? {
            schema.reference = Some(keywords.compiler.follow(reference, &base)?);
            if schema.old {
                schema.resource = base;
                return Ok(schema);
            }
        }
        keywords.any(&mut schema)?;
        keywords.of_objects(&mut schema)?;
        keywords.of_lists(&mut schema)?;
        keywords.of_scalars(&mut schema)?;
        keywords.combined(&mut schema)?;
        keywords.newer(&mut schema)?;
        schema.resource = base;
        Ok(schema)
    }
}

fn wrong(keyword: &str, wanted: &'static str) -> SchemaFault {
    SchemaFault::Keyword {
        keyword: keyword.to_owned(),
        wanted,
    }
}

struct Keywords<'k, 'd> {
    map: &'d Map<String, Value>,
    base: &'k str,
    compiler: &'k mut Compiler<'d>,
}

type Read<T> = Result<T, SchemaFault>;

impl<'d> Keywords<'_, 'd> {
    fn is_from(&self, draft: Draft) -> bool {
        self.compiler.draft >= draft
    }

    fn text(&self, keyword: &str) -> Read<Option<&'d str>> {
        match self.map.get(keyword) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(keyword, "a string")),
        }
    }

    fn flag(&self, keyword: &str) -> Read<bool> {
        match self.map.get(keyword) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(wrong(keyword, "a boolean")),
        }
    }

    fn number(&self, keyword: &str) -> Read<Option<Decimal>> {
        match self.map.get(keyword) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(Decimal::new(number))),
            Some(_) => Err(wrong(keyword, "a number")),
        }
    }

    fn count(&self, keyword: &str) -> Read<Option<usize>> {
        const WANTED: &str = "a whole number, not negative";
        match self.map.get(keyword) {
            None => Ok(None),
            Some(Value::Number(number)) => {
                let float = number.as_f64().unwrap_or(-1.0);
                match float >= 0.0 && float.fract() == 0.0 {
                    true => Ok(Some(float as usize)),
                    false => Err(wrong(keyword, WANTED)),
                }
            }
            Some(_) => Err(wrong(keyword, WANTED)),
        }
    }

    fn one(&mut self, keyword: &str) -> Read<Option<Id>> {
        match self.map.get(keyword) {
            None => Ok(None),
            Some(value) => self.compiler.id(value, self.base).map(Some),
        }
    }

    fn list(&mut self, keyword: &str) -> Read<Vec<Id>> {
        match self.map.get(keyword) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) if !items.is_empty() => items
                .iter()
                .map(|item| self.compiler.id(item, self.base))
                .collect(),
            Some(_) => Err(wrong(keyword, "a list of schemas")),
        }
    }

    fn table(&self, keyword: &str) -> Read<impl Iterator<Item = (&'d str, &'d Value)> + use<'d>> {
        let map = match self.map.get(keyword) {
            None => None,
            Some(Value::Object(map)) => Some(map),
            Some(_) => return Err(wrong(keyword, "an object")),
        };
        Ok(map
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), value)))
    }

    fn pattern(&mut self, source: &'d str) -> Read<Pattern> {
        if let Some(known) = self.compiler.patterns.get(source) {
            return Ok(known.clone());
        }
        if self.compiler.patterns.len() == PATTERNS_MAX {
            return Err(SchemaFault::Patterns);
        }
        let failed = |why| SchemaFault::Pattern {
            pattern: source.to_owned(),
            why,
        };
        for (bytes, slowness) in PATTERN_BYTES {
            let Some(regex) = regexp::compile(source, bytes).map_err(failed)? else {
                continue;
            };
            self.compiler.patterns_bytes_left = self
                .compiler
                .patterns_bytes_left
                .checked_sub(bytes)
                .ok_or(SchemaFault::PatternsBytes)?;
            let pattern = Pattern {
                regex: Arc::new(regex),
                slowness,
            };
            self.compiler.patterns.insert(source, pattern.clone());
            return Ok(pattern);
        }
        Err(failed("it takes too much memory".into()))
    }

    fn any(&mut self, schema: &mut Schema) -> Read<()> {
        schema.types = types(self.map.get("type"))?;
        if self.is_from(Draft::D6) {
            schema.constant = self.map.get("const").cloned();
        }
        schema.one_of_values = match self.map.get("enum") {
            None => None,
            Some(Value::Array(items)) => Some(items.as_slice().into()),
            Some(_) => return Err(wrong("enum", "a list")),
        };
        let format = self.text("format")?;
        if schema.old {
            schema.format = format.map(Into::into);
        }
        Ok(())
    }

    fn of_objects(&mut self, schema: &mut Schema) -> Read<()> {
        schema.min_properties = self.count("minProperties")?;
        schema.max_properties = self.count("maxProperties")?;
        if let Some(required) = self.map.get("required") {
            schema.required = strings("required", required)?;
        }
        for (key, value) in self.table("properties")? {
            let id = self.compiler.id(value, self.base)?;
            schema.properties.insert(key.into(), id);
        }
        for (key, value) in self.table("patternProperties")? {
            let pattern = self.pattern(key)?;
            schema
                .patterns
                .push((pattern, self.compiler.id(value, self.base)?));
        }
        schema.additional_properties = self.one("additionalProperties")?;
        for (key, value) in self.table("dependencies")? {
            let dependency = match value {
                Value::Array(_) => Dependency::Keys(strings("dependencies", value)?),
                _ => Dependency::Schema(self.compiler.id(value, self.base)?),
            };
            schema.dependencies.push((key.into(), dependency));
        }
        if self.is_from(Draft::D6) {
            schema.property_names = self.one("propertyNames")?;
        }
        Ok(())
    }

    fn of_lists(&mut self, schema: &mut Schema) -> Read<()> {
        schema.min_items = self.count("minItems")?;
        schema.max_items = self.count("maxItems")?;
        schema.unique_items = self.flag("uniqueItems")?;
        if self.is_from(Draft::D2020) {
            schema.prefix_items = self.list("prefixItems")?;
            schema.items = self.one("items")?;
        } else if matches!(self.map.get("items"), Some(Value::Array(items)) if !items.is_empty()) {
            schema.prefix_items = self.list("items")?;
            schema.additional_items = self.one("additionalItems")?;
        } else if !matches!(self.map.get("items"), Some(Value::Array(_))) {
            schema.items = self.one("items")?;
        }
        if self.is_from(Draft::D6) {
            schema.contains = self.one("contains")?;
        }
        Ok(())
    }

    fn of_scalars(&mut self, schema: &mut Schema) -> Read<()> {
        schema.min_length = self.count("minLength")?;
        schema.max_length = self.count("maxLength")?;
        if let Some(source) = self.text("pattern")? {
            schema.pattern = Some((self.pattern(source)?, source.into()));
        }
        (schema.minimum, schema.above) = self.bound("minimum", "exclusiveMinimum")?;
        (schema.maximum, schema.below) = self.bound("maximum", "exclusiveMaximum")?;
        schema.multiple_of = self.number("multipleOf")?;
        Ok(())
    }

    /// The inclusive and the exclusive bound; in draft 4 the second is a flag of the first.
    fn bound(&self, with: &str, without: &str) -> Read<(Option<Decimal>, Option<Decimal>)> {
        let number = self.number(with)?;
        match self.map.get(without) {
            Some(Value::Bool(flag)) if self.compiler.draft == Draft::D4 => Ok(match flag {
                true => (None, number),
                false => (number, None),
            }),
            _ => Ok((number, self.number(without)?)),
        }
    }

    fn combined(&mut self, schema: &mut Schema) -> Read<()> {
        schema.not = self.one("not")?;
        schema.all_of = self.list("allOf")?;
        schema.any_of = self.list("anyOf")?;
        schema.one_of = self.list("oneOf")?;
        if self.is_from(Draft::D7) {
            schema.condition = self.one("if")?;
            if schema.condition.is_some() {
                schema.then = self.one("then")?;
                schema.otherwise = self.one("else")?;
            }
        }
        Ok(())
    }

    fn newer(&mut self, schema: &mut Schema) -> Read<()> {
        if !self.is_from(Draft::D2019) {
            return Ok(());
        }
        if schema.contains.is_some() {
            schema.min_contains = self.count("minContains")?;
            schema.max_contains = self.count("maxContains")?;
        }
        for (key, value) in self.table("dependentRequired")? {
            schema
                .dependent_required
                .push((key.into(), strings("dependentRequired", value)?));
        }
        for (key, value) in self.table("dependentSchemas")? {
            schema
                .dependent_schemas
                .push((key.into(), self.compiler.id(value, self.base)?));
        }
        schema.unevaluated_properties = self.one("unevaluatedProperties")?;
        schema.unevaluated_items = self.one("unevaluatedItems")?;
        self.compiler.out.tracks |=
            schema.unevaluated_properties.is_some() || schema.unevaluated_items.is_some();
        if !self.is_from(Draft::D2020) {
            if let Some(reference) = self.text("$recursiveRef")? {
                schema.recursive = Some(self.compiler.follow(reference, self.base)?);
            }
            return Ok(());
        }
        schema.marks_contained = true;
        if let Some(reference) = self.text("$dynamicRef")? {
            let id = self.compiler.follow(reference, self.base)?;
            let whole = resolved(self.base, reference);
            let (path, name) = split(&whole);
            let key = (path.to_owned(), name.to_owned());
            let is_dynamic = self
                .compiler
                .anchors
                .get(&key)
                .is_some_and(|(_, dynamic)| *dynamic);
            schema.dynamic = Some((id, is_dynamic.then(|| name.to_owned())));
        }
        Ok(())
    }
}

fn strings(keyword: &str, value: &Value) -> Result<Vec<Box<str>>, SchemaFault> {
    let fault = || wrong(keyword, "a list of strings");
    let items = value.as_array().ok_or_else(fault)?;
    let text = |item: &Value| item.as_str().map(Into::into).ok_or_else(fault);
    items.iter().map(text).collect()
}

/// The types, in the order of the error text.
fn types(value: Option<&Value>) -> Result<Vec<&'static str>, SchemaFault> {
    const TYPES: [&str; 7] = [
        "null", "boolean", "number", "integer", "string", "array", "object",
    ];
    let fault = || wrong("type", "the name of a type, or a list of them");
    let named: Vec<Box<str>> = match value {
        None => return Ok(Vec::new()),
        Some(Value::String(name)) => vec![name.as_str().into()],
        Some(value) => strings("type", value).map_err(|_| fault())?,
    };
    if named.is_empty() || named.iter().any(|name| !TYPES.contains(&&**name)) {
        return Err(fault());
    }
    let is_named = |known: &&str| named.iter().any(|name| **name == **known);
    Ok(TYPES.into_iter().filter(is_named).collect())
}
