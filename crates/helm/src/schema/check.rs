//! Validation of values against a schema.
//!
//! Errors come in the order of Helm's validator: type, constant, enumeration and format each end their
//! schema; all other keywords are evaluated.

use super::compile::{Compiled, Dependency, Id, Pattern, Schema};
use super::equal::{WORK_MAX, Work, equal, equal_items};
use super::failure::{ErrorBudget, Failure, FailureKind, all_quoted, quote, shown};
use super::format;
use super::number::{Decimal, count};
use crate::chart::Values;
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// The most schema evaluations: combinations multiply.
const STEPS_MAX: usize = 500_000;

pub(super) const FAULTS_BYTES_MAX: usize = 1 << 20;

/// The most nested evaluations: each takes stack.
const NESTED_MAX: usize = 2_000;

pub(super) fn check(compiled: &Compiled, values: &Value, bytes_max: usize) -> Result<(), Failure> {
    let budget = ErrorBudget::new(bytes_max);
    let work = Work::new();
    let mut checker = Checker {
        compiled,
        budget: &budget,
        work: &work,
        steps: 0,
        exhausted: None,
    };
    let result = checker.schema(0, values, &Path::Root, None);
    if let Some(exhausted) = checker.exhausted {
        return Err(Failure::of_all(exhausted));
    }
    if work.is_done() {
        return Err(Failure::of_all(format!(
            "holding the schema against values takes more than {WORK_MAX} comparisons"
        )));
    }
    if budget.is_full() {
        return Err(Failure::of_all(format!(
            "what is wrong takes more than {FAULTS_BYTES_MAX} bytes to say"
        )));
    }
    result.map(|_| ())
}

#[derive(Clone, Copy)]
enum Path<'p> {
    Root,
    Below(&'p Path<'p>, &'p str),
    At(&'p Path<'p>, usize),
}

impl Path<'_> {
    fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Below(parent, key) => {
                format!(
                    "{}/{}",
                    parent.pointer(),
                    key.replace('~', "~0").replace('/', "~1")
                )
            }
            Self::At(parent, index) => format!("{}/{index}", parent.pointer()),
        }
    }
}

/// The enclosing schemas, innermost first.
#[derive(Clone, Copy)]
struct Scope<'s> {
    schema: Id,
    /// The value under validation.
    value: *const Value,
    parent: Option<&'s Scope<'s>>,
    depth: usize,
}

#[derive(Default)]
struct Seen<'v> {
    keys: BTreeSet<&'v str>,
    items: BTreeSet<usize>,
}

impl Seen<'_> {
    fn add(&mut self, mut other: Self) {
        self.keys.append(&mut other.keys);
        self.items.append(&mut other.items);
    }
}

type Checked<'v> = Result<Seen<'v>, Failure>;

struct Checker<'c> {
    compiled: &'c Compiled,
    budget: &'c ErrorBudget,
    work: &'c Work,
    steps: usize,
    /// The exceeded limit.
    exhausted: Option<String>,
}

struct Here<'h, 'v> {
    schema: &'h Schema,
    value: &'v Value,
    path: &'h Path<'h>,
    scope: &'h Scope<'h>,
    budget: &'h ErrorBudget,
    work: &'h Work,
    seen: Seen<'v>,
    faults: Vec<Failure>,
}

impl Here<'_, '_> {
    fn says(&mut self, what: impl FnOnce() -> String) {
        self.because(what, Vec::new());
    }

    fn because(&mut self, what: impl FnOnce() -> String, causes: Vec<Failure>) {
        self.add(|| FailureKind::Message(what()), causes);
    }

    fn add(&mut self, what: impl FnOnce() -> FailureKind, causes: Vec<Failure>) {
        let path = self.path;
        self.faults
            .push(self.budget.failure(|| path.pointer(), what, causes));
    }
}

impl<'c> Checker<'c> {
    fn schema<'v>(
        &mut self,
        id: Id,
        value: &'v Value,
        path: &Path<'_>,
        parent: Option<&Scope<'_>>,
    ) -> Checked<'v> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            let times = format!("the schema was held against values more than {STEPS_MAX} times");
            self.exhausted.get_or_insert(times);
        }
        if self.exhausted.is_some() || self.budget.is_full() || self.work.is_done() {
            return Err(Failure::default());
        }
        stacker::maybe_grow(128 << 10, 1 << 20, || self.schema_here(id, value, path, parent))
    }

    fn schema_here<'v>(
        &mut self,
        id: Id,
        value: &'v Value,
        path: &Path<'_>,
        parent: Option<&Scope<'_>>,
    ) -> Checked<'v> {
        let compiled = self.compiled;
        let schema = &compiled.schemas[id];
        match schema.always {
            Some(true) => return Ok(Seen::default()),
            Some(false) => return Err(self.said(path, || "false schema".into())),
            None => {}
        }
        let scope = Scope {
            schema: id,
            value: std::ptr::from_ref(value),
            parent,
            depth: parent.map_or(0, |parent| parent.depth + 1),
        };
        if scope.depth > NESTED_MAX {
            let deep = format!("schemas lead to one another more than {NESTED_MAX} times");
            self.exhausted.get_or_insert(deep);
            return Err(Failure::default());
        }
        if is_cycle(&scope, self.work) {
            return Err(self.said(path, || "references lead in a circle".into()));
        }
        if let Err(wrong) = whole(schema, value, self.budget, self.work) {
            return Err(self.said(path, || wrong));
        }
        let mut here = Here {
            schema,
            value,
            path,
            scope: &scope,
            budget: self.budget,
            work: self.work,
            seen: Seen::default(),
            faults: Vec::new(),
        };
        if let Some(target) = schema.reference {
            self.reference(&mut here, target);
            if schema.old {
                return finished(here);
            }
        }
        match value {
            Value::Object(map) => self.object(&mut here, map),
            Value::Array(items) => self.list(&mut here, items),
            Value::String(text) => string(&mut here, text),
            Value::Number(number) => numeric(&mut here, Decimal::new(number)),
            _ => {}
        }
        self.moving_references(&mut here);
        self.combined(&mut here);
        self.leftovers(&mut here);
        finished(here)
    }

    fn said(&self, path: &Path<'_>, what: impl FnOnce() -> String) -> Failure {
        self.budget
            .failure(|| path.pointer(), || FailureKind::Message(what()), Vec::new())
    }

    /// Evaluates without collecting errors: most failures in a combination are never shown.
    fn quietly<T>(&mut self, look: impl FnOnce(&mut Self) -> T) -> T {
        let was_quiet = self.budget.set_quiet(true);
        let found = look(self);
        self.budget.set_quiet(was_quiet);
        found
    }

    fn wrong_by(&mut self, here: &Here<'_, '_>, schemas: &[Id]) -> Vec<Failure> {
        match self.budget.is_quiet() {
            true => Vec::new(),
            false => schemas
                .iter()
                .filter_map(|id| self.same(here, *id).err())
                .collect(),
        }
    }

    fn same<'v>(&mut self, here: &Here<'_, 'v>, id: Id) -> Checked<'v> {
        self.schema(id, here.value, here.path, Some(here.scope))
    }

    fn same_into(&mut self, here: &mut Here<'_, '_>, id: Id) {
        match self.same(here, id) {
            Ok(seen) => here.seen.add(seen),
            Err(fault) => here.faults.push(fault),
        }
    }

    fn below(&mut self, here: &mut Here<'_, '_>, id: Id, value: &Value, path: &Path<'_>) {
        if let Err(fault) = self.schema(id, value, path, Some(here.scope)) {
            here.faults.push(fault);
        }
    }

    fn reference(&mut self, here: &mut Here<'_, '_>, target: Id) {
        match self.same(here, target) {
            Ok(seen) => here.seen.add(seen),
            Err(fault) => {
                let causes = match fault.what {
                    FailureKind::Group => fault.causes,
                    _ => vec![fault],
                };
                here.add(|| FailureKind::Reference, causes);
            }
        }
    }

    /// References whose target depends on the dynamic scope.
    fn moving_references(&mut self, here: &mut Here<'_, '_>) {
        if let Some(target) = here.schema.recursive {
            let target = self.outermost(here.scope, "", target);
            self.reference(here, target);
        }
        if let Some((target, name)) = &here.schema.dynamic {
            let target = match name {
                Some(name) => self.outermost(here.scope, name, *target),
                None => *target,
            };
            self.reference(here, target);
        }
    }

    fn outermost(&self, scope: &Scope<'_>, name: &str, fallback: Id) -> Id {
        let compiled = self.compiled;
        let anchor = |id: Id| {
            let key = (compiled.schemas[id].resource.clone(), name.to_owned());
            compiled.dynamic.get(&key).copied()
        };
        // a reference whose own target has no anchor is not dynamic
        if name.is_empty() && anchor(fallback).is_none() {
            return fallback;
        }
        let mut found = fallback;
        let mut next = Some(scope);
        while let Some(scope) = next.filter(|_| self.work.spend(4)) {
            found = anchor(scope.schema).unwrap_or(found);
            next = scope.parent;
        }
        found
    }

    fn object<'v>(&mut self, here: &mut Here<'_, 'v>, map: &'v Values) {
        let schema = here.schema;
        bounds(
            here,
            "Properties",
            map.len(),
            schema.min_properties,
            schema.max_properties,
        );
        let asked = schema.required.len() + schema.dependencies.len() + schema.dependent_required.len();
        self.work.spend(map.len() + asked);
        let missing = missing(map, &schema.required);
        match missing.as_slice() {
            [] => {}
            [one] => here.says(|| format!("missing property {}", quote(one))),
            several => here.says(|| format!("missing properties {}", all_quoted(several.iter().copied()))),
        }
        for (key, dependency) in &schema.dependencies {
            match dependency {
                _ if !map.contains_key(&**key) => {}
                Dependency::Keys(keys) => depends(here, map, key, keys),
                Dependency::Schema(id) => self.same_into(here, *id),
            }
        }
        self.properties(here, map);
        if let Some(id) = schema.property_names {
            for key in map.keys() {
                let name = Value::String(key.clone());
                if let Err(fault) = self.schema(id, &name, &Path::Root, None) {
                    let causes = match fault.what {
                        FailureKind::Group => fault.causes,
                        _ => vec![fault],
                    };
                    let what = || FailureKind::Message(format!("invalid propertyName {}", quote(key)));
                    here.faults.push(self.budget.failure(String::new, what, causes));
                }
            }
        }
        for (key, id) in &schema.dependent_schemas {
            if map.contains_key(&**key) {
                self.same_into(here, *id);
            }
        }
        for (key, keys) in &schema.dependent_required {
            if map.contains_key(&**key) {
                depends(here, map, key, keys);
            }
        }
    }

    fn properties<'v>(&mut self, here: &mut Here<'_, 'v>, map: &'v Values) {
        let schema = here.schema;
        let mut additional = Vec::new();
        for (key, value) in map {
            let path = Path::Below(here.path, key);
            let mut seen = false;
            if let Some(id) = schema.properties.get(key.as_str()) {
                seen = true;
                self.below(here, *id, value, &path);
            }
            for (pattern, id) in &schema.patterns {
                if matches(pattern, key, self.work) {
                    seen = true;
                    self.below(here, *id, value, &path);
                }
            }
            if let (false, Some(id)) = (seen, schema.additional_properties) {
                seen = true;
                match self.compiled.schemas[id].always {
                    Some(true) => {}
                    Some(false) => additional.push(key.as_str()),
                    None => self.below(here, id, value, &path),
                }
            }
            if seen && self.compiled.tracks {
                here.seen.keys.insert(key);
            }
        }
        if !additional.is_empty() {
            here.says(|| format!("additional properties {} not allowed", all_quoted(additional)));
        }
    }

    fn list(&mut self, here: &mut Here<'_, '_>, items: &[Value]) {
        let schema = here.schema;
        bounds(here, "Items", items.len(), schema.min_items, schema.max_items);
        if schema.unique_items
            && let Some((first, second)) = equal_items(items, self.work)
        {
            here.says(|| format!("items at {} and {} are equal", count(first), count(second)));
        }
        let prefix = schema.prefix_items.len().min(items.len());
        for (index, item) in items.iter().enumerate() {
            let path = Path::At(here.path, index);
            let id = match schema.prefix_items.get(index) {
                Some(id) => Some(*id),
                None => schema.items,
            };
            if let Some(id) = id {
                here.seen.items.insert(index);
                // the validator restarts the count after the prefix items
                let counted = match index.checked_sub(prefix) {
                    Some(behind) if prefix > 0 => Path::At(here.path, behind),
                    _ => path,
                };
                self.below(here, id, item, &counted);
            }
        }
        if let Some(id) = schema.additional_items {
            let rest = items.get(prefix..).unwrap_or_default();
            match self.compiled.schemas[id].always {
                Some(false) if !rest.is_empty() => {
                    here.says(|| format!("last {} additionalItem(s) not allowed", count(rest.len())));
                }
                Some(_) => {}
                None => {
                    for (index, item) in rest.iter().enumerate() {
                        let path = Path::At(here.path, index);
                        self.below(here, id, item, &path);
                    }
                }
            }
            here.seen.items.extend(prefix..items.len());
        }
        if let Some(id) = schema.contains {
            self.contains(here, items, id);
        }
    }

    fn contains(&mut self, here: &mut Here<'_, '_>, items: &[Value], id: Id) {
        let schema = here.schema;
        let holds = |checker: &mut Self, index: usize, item| {
            checker.schema(id, item, &Path::At(here.path, index), Some(here.scope))
        };
        let each = || items.iter().enumerate();
        let matched: Vec<usize> = self.quietly(|checker| {
            each()
                .filter(|(index, item)| holds(checker, *index, item).is_ok())
                .map(|(index, _)| index)
                .collect()
        });
        let too_few = matched.len() < schema.min_contains.unwrap_or(1);
        let faults = match too_few && !self.budget.is_quiet() {
            true => each()
                .filter_map(|(index, item)| holds(self, index, item).err())
                .collect(),
            false => Vec::new(),
        };
        if schema.marks_contained {
            here.seen.items.extend(matched.iter().copied());
        }
        let found = || {
            let at: Vec<String> = matched.iter().map(ToString::to_string).collect();
            format!("but matched {} items at {}", count(matched.len()), at.join(" "))
        };
        match schema.min_contains {
            Some(least) if too_few => {
                let what = || {
                    let found = match matched.is_empty() {
                        true => "but none matched".to_owned(),
                        false => found(),
                    };
                    let least = count(least);
                    format!("min {least} items required to match contains schema, {found}")
                };
                here.because(what, faults);
            }
            None if too_few => here.because(|| "no items match contains schema".into(), faults),
            _ => {}
        }
        if let Some(most) = schema.max_contains.filter(|most| matched.len() > *most) {
            let (most, found) = (count(most), found);
            here.says(|| format!("max {most} items required to match contains schema, {}", found()));
        }
    }

    fn combined(&mut self, here: &mut Here<'_, '_>) {
        let schema = here.schema;
        if let Some(id) = schema.not
            && self.quietly(|checker| checker.same(here, id).is_ok())
        {
            here.says(|| "'not' failed".into());
        }
        let mut faults = Vec::new();
        for id in &schema.all_of {
            match self.same(here, *id) {
                Ok(seen) => here.seen.add(seen),
                Err(fault) => faults.push(fault),
            }
        }
        if !faults.is_empty() {
            here.because(|| "'allOf' failed".into(), faults);
        }
        self.any_of(here);
        self.one_of(here);
        if let Some(condition) = schema.condition {
            let branch = match self.quietly(|checker| checker.same(here, condition)) {
                Ok(seen) => {
                    here.seen.add(seen);
                    schema.then
                }
                Err(_) => schema.otherwise,
            };
            if let Some(id) = branch {
                self.same_into(here, id);
            }
        }
    }

    fn any_of(&mut self, here: &mut Here<'_, '_>) {
        let schema = here.schema;
        let mut matched = schema.any_of.is_empty();
        for id in &schema.any_of {
            if let Ok(seen) = self.quietly(|checker| checker.same(here, *id)) {
                here.seen.add(seen);
                matched = true;
                if !self.compiled.tracks {
                    break;
                }
            }
        }
        if !matched {
            let faults = self.wrong_by(here, &schema.any_of);
            here.because(|| "'anyOf' failed".into(), faults);
        }
    }

    fn one_of(&mut self, here: &mut Here<'_, '_>) {
        let schema = here.schema;
        let mut matched = None;
        for (index, id) in schema.one_of.iter().enumerate() {
            match (self.quietly(|checker| checker.same(here, *id)), matched) {
                (Ok(seen), None) => {
                    here.seen.add(seen);
                    matched = Some(index);
                }
                (Ok(_), Some(first)) => {
                    let (first, second) = (count(first), count(index));
                    here.says(|| format!("'oneOf' failed, subschemas {first}, {second} matched"));
                    return;
                }
                (Err(_), _) => {}
            }
        }
        if matched.is_none() && !schema.one_of.is_empty() {
            let faults = self.wrong_by(here, &schema.one_of);
            here.because(|| "'oneOf' failed, none matched".into(), faults);
        }
    }

    /// Keywords for unevaluated items and properties.
    fn leftovers(&mut self, here: &mut Here<'_, '_>) {
        if let (Some(id), Value::Object(map)) = (here.schema.unevaluated_properties, here.value) {
            for (key, value) in map {
                if here.seen.keys.insert(key) {
                    self.below(here, id, value, &Path::Below(here.path, key));
                }
            }
        }
        if let (Some(id), Value::Array(items)) = (here.schema.unevaluated_items, here.value) {
            for (index, item) in items.iter().enumerate() {
                if here.seen.items.insert(index) {
                    self.below(here, id, item, &Path::At(here.path, index));
                }
            }
        }
    }
}

fn finished<'v>(here: Here<'_, 'v>) -> Checked<'v> {
    let Here {
        path,
        budget,
        seen,
        mut faults,
        ..
    } = here;
    match (faults.pop(), faults.is_empty()) {
        (None, _) => Ok(seen),
        (Some(one), true) => Err(one),
        (Some(last), false) => {
            faults.push(last);
            Err(budget.failure(|| path.pointer(), || FailureKind::Group, faults))
        }
    }
}

fn is_cycle(scope: &Scope<'_>, work: &Work) -> bool {
    let mut next = scope.parent;
    let mut passed = 0;
    while let Some(outer) = next.filter(|outer| std::ptr::eq(outer.value, scope.value)) {
        if outer.schema == scope.schema {
            return true;
        }
        passed += 1;
        next = outer.parent;
    }
    work.spend(passed / 16);
    false
}

/// Whether a pattern matches somewhere in a text; false once the budget is spent.
fn matches(pattern: &Pattern, text: &str, work: &Work) -> bool {
    let bytes = text.len().saturating_add(1);
    work.spend(bytes.saturating_mul(pattern.slowness)) && pattern.regex.is_match(text)
}

/// Checks a value as a whole; collects no text while quiet.
fn whole(schema: &Schema, value: &Value, budget: &ErrorBudget, work: &Work) -> Result<(), String> {
    let wrong = |what: &dyn Fn() -> String| match budget.is_quiet() {
        true => Err(String::new()),
        false => Err(what()),
    };
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_whole = || matches!(value, Value::Number(number) if Decimal::new(number).is_whole());
    let fits = |wanted: &&str| *wanted == found || *wanted == "integer" && is_whole();
    if !schema.types.is_empty() && !schema.types.iter().any(fits) {
        return wrong(&|| format!("got {found}, want {}", schema.types.join(" or ")));
    }
    let is_simple = |value: &Value| !matches!(value, Value::Array(_) | Value::Object(_));
    if let Some(wanted) = &schema.constant
        && !equal(value, wanted, work)
    {
        return wrong(&|| match is_simple(wanted) {
            true => format!("value must be {}", shown(wanted)),
            false => "'const' failed".into(),
        });
    }
    if let Some(wanted) = &schema.one_of_values
        && !wanted.iter().any(|wanted| equal(value, wanted, work))
    {
        return wrong(&|| match (wanted.iter().all(is_simple), &**wanted) {
            (false, _) => "'enum' failed".into(),
            (_, [one]) => format!("value must be {}", shown(one)),
            (_, all) => {
                let all: Vec<String> = all.iter().map(shown).collect();
                format!("value must be one of {}", all.join(", "))
            }
        });
    }
    let (Some(name), Value::String(text)) = (&schema.format, value) else {
        return Ok(());
    };
    work.read(text, 4);
    match format::wrong(name, text) {
        Some(why) => wrong(&|| format!("{} is not valid {name}: {why}", quote(text))),
        None => Ok(()),
    }
}

fn bounds(here: &mut Here<'_, '_>, what: &str, found: usize, least: Option<usize>, most: Option<usize>) {
    if let Some(least) = least.filter(|least| found < *least) {
        here.says(|| format!("min{what}: got {}, want {}", count(found), count(least)));
    }
    if let Some(most) = most.filter(|most| found > *most) {
        here.says(|| format!("max{what}: got {}, want {}", count(found), count(most)));
    }
}

fn missing<'k>(map: &Values, keys: &'k [Box<str>]) -> Vec<&'k str> {
    let keys = keys.iter().map(|key| &**key);
    keys.filter(|key| !map.contains_key(*key)).collect()
}

fn depends(here: &mut Here<'_, '_>, map: &Values, key: &str, keys: &[Box<str>]) {
    here.work.spend(keys.len());
    let missing = missing(map, keys);
    if !missing.is_empty() {
        let (missing, key) = (all_quoted(missing), quote(key));
        here.says(|| format!("properties {missing} required, if {key} exists"));
    }
}

fn string(here: &mut Here<'_, '_>, text: &str) {
    let schema = here.schema;
    if schema.min_length.is_some() || schema.max_length.is_some() {
        let length = text.chars().count();
        bounds(here, "Length", length, schema.min_length, schema.max_length);
    }
    if let Some((pattern, source)) = &schema.pattern
        && !matches(pattern, text, here.work)
    {
        here.says(|| format!("{} does not match pattern {}", quote(text), quote(source)));
    }
}

fn numeric(here: &mut Here<'_, '_>, number: Decimal) {
    let schema = here.schema;
    let checks = [
        ("minimum", schema.minimum, [Ordering::Less, Ordering::Less]),
        ("maximum", schema.maximum, [Ordering::Greater, Ordering::Greater]),
        (
            "exclusiveMinimum",
            schema.above,
            [Ordering::Less, Ordering::Equal],
        ),
        (
            "exclusiveMaximum",
            schema.below,
            [Ordering::Greater, Ordering::Equal],
        ),
    ];
    for (keyword, bound, wrong) in checks {
        if let Some(bound) = bound.filter(|bound| wrong.contains(&number.order(*bound))) {
            here.says(|| format!("{keyword}: got {}, want {}", number.shown(), bound.shown()));
        }
    }
    if let Some(factor) = schema
        .multiple_of
        .filter(|factor| !number.is_multiple_of(*factor))
    {
        here.says(|| format!("multipleOf: got {}, want {}", number.shown(), factor.shown()));
    }
}
