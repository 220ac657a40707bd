//! Type-checks a rule before it runs: undeclared names, undefined fields, mismatched operands.
//!
//! Functions of the Kubernetes libraries are known by name and result; their arguments are checked when
//! they run. Values without a declared type match anything.

use super::escape;
use super::program::{Binary, Each, EachKind, Fold, Ir, at_offset, find_word};
use super::value::{field_schema, is_struct, parse_time};
use crate::crd::formats::parse_go_duration;
use crate::crd::node::Node;
use equate_manifest::schema::SchemaType;
use regex::Regex;
use std::collections::HashMap;

#[derive(Debug, Clone)]
pub(super) enum Type<'a> {
    Dyn,
    Null,
    Bool,
    Int,
    UInt,
    Double,
    Text,
    Bytes,
    Duration,
    Time,
    List(Box<Type<'a>>),
    Map(Box<Type<'a>>, Box<Type<'a>>),
    /// A declared object, and whether it is a whole one.
    Object(&'a Node, bool),
    Optional(Box<Type<'a>>),
    /// The type of types.
    Meta,
    Library(&'static str),
}

impl Type<'_> {
    pub(super) fn may_be(&self, other: &Type<'_>) -> bool {
        match (self, other) {
            (Type::Dyn, _) | (_, Type::Dyn) => true,
            (Type::Null, Type::Null)
            | (Type::Bool, Type::Bool)
            | (Type::Int, Type::Int)
            | (Type::UInt, Type::UInt)
            | (Type::Double, Type::Double)
            | (Type::Text, Type::Text)
            | (Type::Bytes, Type::Bytes)
            | (Type::Duration, Type::Duration)
            | (Type::Time, Type::Time)
            | (Type::Meta, Type::Meta) => true,
            (Type::Library(a), Type::Library(b)) => a == b,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => a.may_be(b),
            (Type::Map(a, b), Type::Map(c, d)) => a.may_be(c) && b.may_be(d),
            // A wrapper may be null.
            (Type::Null, Type::Time | Type::Duration | Type::Optional(_) | Type::Object(..))
            | (Type::Time | Type::Duration | Type::Optional(_) | Type::Object(..), Type::Null) => true,
            (Type::Object(a, _), Type::Object(b, _)) => std::ptr::eq(*a, *b),
            _ => false,
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Type::Int | Type::UInt | Type::Double)
    }

    fn name(&self) -> String {
        match self {
            Type::Dyn => "dyn".to_owned(),
            Type::Null => "null".to_owned(),
            Type::Bool => "bool".to_owned(),
            Type::Int => "int".to_owned(),
            Type::UInt => "uint".to_owned(),
            Type::Double => "double".to_owned(),
            Type::Text => "string".to_owned(),
            Type::Bytes => "bytes".to_owned(),
            Type::Duration => "duration".to_owned(),
            Type::Time => "timestamp".to_owned(),
            Type::List(item) => format!("list({})", item.name()),
            Type::Map(key, value) => format!("map({}, {})", key.name(), value.name()),
            Type::Object(..) => "object".to_owned(),
            Type::Optional(inner) => format!("optional_type({})", inner.name()),
            Type::Meta => "type".to_owned(),
            Type::Library(name) => (*name).to_owned(),
        }
    }
}

/// The type of values of a schema; `Dyn` where a rule cannot see into them.
pub(super) fn declared(node: &Node, whole: bool) -> Type<'_> {
    if node.int_or_string {
        return Type::Dyn;
    }
    let format = node.checks.format.as_ref().map(|f| f.name.as_str());
    match node.kind {
        None => Type::Dyn,
        Some(SchemaType::Object) => match node.additional_schema() {
            Some(value) if !is_struct(node, whole) => {
                Type::Map(Box::new(Type::Text), Box::new(declared(value, value.embedded)))
            }
            _ => Type::Object(node, whole),
        },
        Some(SchemaType::Array) => {
            let item = node
                .items
                .as_deref()
                .map_or(Type::Dyn, |i| declared(i, i.embedded));
            Type::List(Box::new(item))
        }
        Some(SchemaType::String) => match format {
            Some("duration") => Type::Duration,
            Some("date" | "date-time") => Type::Time,
            Some("byte") => Type::Bytes,
            _ => Type::Text,
        },
        Some(SchemaType::Integer) => Type::Int,
        Some(SchemaType::Number) => Type::Double,
        Some(SchemaType::Boolean) => Type::Bool,
    }
}

pub(super) fn type_of<'a>(
    source: &str,
    root: &Ir,
    node: &'a Node,
    whole: bool,
    optional_old: bool,
) -> Result<Type<'a>, String> {
    let this = declared(node, whole);
    let old = if optional_old {
        Type::Optional(Box::new(this.clone()))
    } else {
        this.clone()
    };
    let mut checker = Checker {
        source,
        scope: vec![this, old],
        errors: Vec::new(),
        seen: HashMap::new(),
    };
    let found = checker.expr(root);
    if checker.errors.is_empty() {
        return Ok(found);
    }
    checker.errors.sort_by_key(|(offset, _)| *offset);
    let texts: Vec<String> = checker
        .errors
        .iter()
        .map(|(at, why)| at_offset(source, *at, why))
        .collect();
    Err(texts.join("\n"))
}

enum Place<'p> {
    At(&'p str),
    /// At the parenthesis that opens a function's arguments.
    Call(&'p str),
    /// At its first argument.
    Argument(&'p str),
    /// At the last operator of an expression.
    Of(&'p Ir),
}

struct Checker<'s, 'a> {
    source: &'s str,
    scope: Vec<Type<'a>>,
    errors: Vec<(usize, String)>,
    seen: HashMap<String, usize>,
}

impl<'a> Checker<'_, 'a> {
    fn offset(&self, place: &Place<'_>) -> usize {
        let call = |name: &str| find_word(self.source, &format!("{name}("), 0).map(|at| at + name.len());
        match place {
            Place::At(needle) => find_word(self.source, needle, 0),
            Place::Call(name) => call(name),
            Place::Argument(name) => call(name).map(|at| at + 1),
            Place::Of(ir) => match ir {
                Ir::Select { field, .. } => find_word(self.source, &format!(".{field}"), 0),
                Ir::Index(..) => find_word(self.source, "[", 0),
                Ir::Call { name, .. } => call(name),
                Ir::Binary(operator, ..) => find_word(self.source, symbol(*operator), 0),
                Ir::Var(1) => find_word(self.source, "oldSelf", 0),
                _ => Some(0),
            },
        }
        .unwrap_or(0)
    }

    fn fail(&mut self, place: &Place<'_>, message: String) -> Type<'a> {
        let offset = self.offset(place);
        self.errors.push((offset, message));
        Type::Dyn
    }

    fn undeclared(&mut self, name: &str) -> Type<'a> {
        let nth = self.seen.entry(name.to_owned()).or_insert(0);
        let offset = find_word(self.source, name, *nth).unwrap_or(0);
        *nth += 1;
        self.errors.push((
            offset,
            format!("undeclared reference to '{name}' (in container '')"),
        ));
        Type::Dyn
    }

    fn no_overload(&mut self, place: &Place<'_>, name: &str, types: &[&Type<'_>]) -> Type<'a> {
        let types: Vec<String> = types.iter().map(|t| t.name()).collect();
        self.fail(
            place,
            format!(
                "found no matching overload for '{name}' applied to '({})'",
                types.join(", ")
            ),
        )
    }

    fn scoped<T>(&mut self, types: Vec<Type<'a>>, run: impl FnOnce(&mut Self) -> T) -> T {
        let depth = self.scope.len();
        self.scope.extend(types);
        let out = run(self);
        self.scope.truncate(depth);
        out
    }

    fn expr(&mut self, ir: &Ir) -> Type<'a> {
        match ir {
            Ir::Null => Type::Null,
            Ir::Bool(_) => Type::Bool,
            Ir::Int(_) => Type::Int,
            Ir::UInt(_) => Type::UInt,
            Ir::Double(_) => Type::Double,
            Ir::Text(_) => Type::Text,
            Ir::Bytes(_) => Type::Bytes,
            Ir::Var(place) => self.scope.get(*place).cloned().unwrap_or(Type::Dyn),
            Ir::Name(name) => {
                if super::functions::type_value(name).is_none() {
                    return self.undeclared(name);
                }
                Type::Meta
            }
            Ir::Select { operand, field, test } => {
                let operand = self.expr(operand);
                let found = self.select(&operand, ".", field);
                if *test { Type::Bool } else { found }
            }
            Ir::OptSelect { operand, field } => {
                let operand = self.expr(operand);
                match self.select(&operand, ".?", field) {
                    optional @ Type::Optional(_) => optional,
                    found => Type::Optional(Box::new(found)),
                }
            }
            Ir::Index(operand, index) => {
                let operand = self.expr(operand);
                let index = self.expr(index);
                self.index(&operand, &index, "[", "_[_]")
            }
            Ir::OptIndex(operand, index) => {
                let operand = self.expr(operand);
                let index = self.expr(index);
                match self.index(&operand, &index, "[?", "_[?_]") {
                    optional @ Type::Optional(_) => optional,
                    found => Type::Optional(Box::new(found)),
                }
            }
            Ir::And(a, b) => self.logic(a, b),
            Ir::Or(a, b) => self.logic(a, b),
            Ir::Not(a) => match self.expr(a) {
                t if t.may_be(&Type::Bool) => Type::Bool,
                t => self.no_overload(&Place::At("!"), "!_", &[&t]),
            },
            Ir::Negate(a) => match self.expr(a) {
                t @ (Type::Int | Type::Double | Type::Dyn) => t,
                t => self.no_overload(&Place::At("-"), "-_", &[&t]),
            },
            Ir::NotStrictlyFalse(a) => {
                self.expr(a);
                Type::Bool
            }
            Ir::If(condition, yes, no) => {
                let condition = self.expr(condition);
                let yes = self.expr(yes);
                let no = self.expr(no);
                if !condition.may_be(&Type::Bool) || !yes.may_be(&no) {
                    return self.no_overload(&Place::At("?"), "_?_:_", &[&condition, &yes, &no]);
                }
                if matches!(yes, Type::Dyn | Type::Null) {
                    no
                } else {
                    yes
                }
            }
            Ir::Binary(operator, a, b) => {
                let a = self.expr(a);
                let b = self.expr(b);
                self.binary(*operator, &a, &b)
            }
            Ir::List(items) => {
                let mut item = None;
                for (element, _) in items {
                    let found = self.expr(element);
                    item = join(item, found);
                }
                Type::List(Box::new(item.unwrap_or(Type::Dyn)))
            }
            Ir::Map(entries) => {
                let (mut keys, mut values) = (None, None);
                for (key, value, _) in entries {
                    keys = join(keys, self.expr(key));
                    values = join(values, self.expr(value));
                }
                Type::Map(
                    Box::new(keys.unwrap_or(Type::Dyn)),
                    Box::new(values.unwrap_or(Type::Dyn)),
                )
            }
            Ir::Fold(fold) => self.fold(fold),
            Ir::Each(each) => self.each(each),
            Ir::OptMap { target, body, flat } => {
                let inner = match self.expr(target) {
                    Type::Optional(inner) => *inner,
                    Type::Dyn => Type::Dyn,
                    t => return self.no_overload(&Place::Call("optMap"), "optMap", &[&t]),
                };
                let found = self.scoped(vec![inner], |c| c.expr(body));
                if *flat {
                    found
                } else {
                    Type::Optional(Box::new(found))
                }
            }
            Ir::Matches { target, .. } => {
                let target = self.expr(target);
                self.call("matches", true, &[target, Type::Text])
            }
            Ir::Call { name, target, args } => {
                let mut types = Vec::with_capacity(args.len() + 1);
                if let Some(target) = target {
                    types.push(self.expr(target));
                }
                for arg in args {
                    types.push(self.expr(arg));
                }
                if let ("duration" | "timestamp" | "matches", Some(Ir::Text(text))) =
                    (name.as_str(), args.last())
                {
                    self.check_literal(name, text);
                }
                self.call(name, target.is_some(), &types)
            }
        }
    }

    /// Literal arguments are checked when the rule is written.
    fn check_literal(&mut self, name: &str, text: &str) {
        let valid = match name {
            "duration" => parse_go_duration(text).is_some(),
            "timestamp" => parse_time(text).is_some(),
            _ => Regex::new(text).is_ok(),
        };
        if !valid {
            self.fail(&Place::Argument(name), format!("invalid {name} argument"));
        }
    }

    fn select(&mut self, operand: &Type<'a>, dot: &str, field: &str) -> Type<'a> {
        match operand {
            Type::Dyn => Type::Dyn,
            Type::Map(_, value) => (**value).clone(),
            Type::Optional(inner) => Type::Optional(Box::new(self.select(inner, dot, field))),
            Type::Object(node, whole) => {
                let name = escape::unescape(field);
                let found = name.as_deref().and_then(|n| field_schema(node, *whole, n));
                match found.filter(|n| n.visible_to_rules()) {
                    Some(inner) => declared(inner, inner.embedded),
                    None => self.fail(
                        &Place::At(&format!("{dot}{field}")),
                        format!("undefined field '{field}'"),
                    ),
                }
            }
            other => {
                let message = format!("type '{}' does not support field selection", other.name());
                self.fail(&Place::At(&format!("{dot}{field}")), message)
            }
        }
    }

    fn index(&mut self, operand: &Type<'a>, index: &Type<'a>, needle: &str, name: &str) -> Type<'a> {
        match operand {
            Type::Dyn => Type::Dyn,
            Type::List(item) if index.may_be(&Type::Int) => (**item).clone(),
            Type::Map(key, value) if index.may_be(key) => (**value).clone(),
            Type::Optional(inner) => Type::Optional(Box::new(self.index(inner, index, needle, name))),
            _ => self.no_overload(&Place::At(needle), name, &[operand, index]),
        }
    }

    fn logic(&mut self, a: &Ir, b: &Ir) -> Type<'a> {
        for operand in [a, b] {
            let found = self.expr(operand);
            if !found.may_be(&Type::Bool) {
                let message = format!("expected type 'bool' but found '{}'", found.name());
                self.fail(&Place::Of(operand), message);
            }
        }
        Type::Bool
    }

    fn binary(&mut self, operator: Binary, a: &Type<'a>, b: &Type<'a>) -> Type<'a> {
        let name = operator.name();
        let dynamic = matches!(a, Type::Dyn) || matches!(b, Type::Dyn);
        let found = match operator {
            Binary::Equal | Binary::NotEqual => a.may_be(b).then_some(Type::Bool),
            Binary::Less | Binary::LessEqual | Binary::Greater | Binary::GreaterEqual => {
                let ordered = |t: &Type<'_>| {
                    matches!(
                        t,
                        Type::Bool | Type::Text | Type::Bytes | Type::Duration | Type::Time | Type::Dyn
                    ) || t.is_number()
                };
                let comparable = a.may_be(b) || (a.is_number() && b.is_number());
                (ordered(a) && ordered(b) && comparable).then_some(Type::Bool)
            }
            Binary::In => match b {
                Type::Dyn => Some(Type::Bool),
                Type::List(item) => a.may_be(item).then_some(Type::Bool),
                Type::Map(key, _) => a.may_be(key).then_some(Type::Bool),
                _ => None,
            },
            _ if dynamic => Some(if matches!(a, Type::Dyn) {
                b.clone()
            } else {
                a.clone()
            }),
            Binary::Add => match (a, b) {
                (Type::Text | Type::Bytes | Type::List(_) | Type::Duration, _) if a.may_be(b) => {
                    Some(a.clone())
                }
                (Type::Time, Type::Duration) | (Type::Duration, Type::Time) => Some(Type::Time),
                _ if a.is_number() && a.may_be(b) => Some(a.clone()),
                _ => None,
            },
            Binary::Subtract => match (a, b) {
                (Type::Time, Type::Time) | (Type::Duration, Type::Duration) => Some(Type::Duration),
                (Type::Time, Type::Duration) => Some(Type::Time),
                _ if a.is_number() && a.may_be(b) => Some(a.clone()),
                _ => None,
            },
            Binary::Multiply | Binary::Divide => (a.is_number() && a.may_be(b)).then(|| a.clone()),
            Binary::Modulo => (matches!(a, Type::Int | Type::UInt) && a.may_be(b)).then(|| a.clone()),
        };
        match found {
            // An operand of any type gives a result of any type.
            Some(_) if dynamic && !is_relation(operator) => Type::Dyn,
            Some(found) => found,
            None => self.no_overload(&Place::At(symbol(operator)), name, &[a, b]),
        }
    }

    fn element(&mut self, range: &Type<'a>, from: &Ir) -> Type<'a> {
        match range {
            Type::Dyn => Type::Dyn,
            Type::List(item) => (**item).clone(),
            Type::Map(key, _) => (**key).clone(),
            other => self.fail(
                &Place::Of(from),
                format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    other.name()
                ),
            ),
        }
    }

    fn fold(&mut self, fold: &Fold) -> Type<'a> {
        let range = self.expr(&fold.range);
        let item = self.element(&range, &fold.range);
        // An empty list as start takes its type from the first step.
        let init = self.expr(&fold.init);
        self.scoped(vec![init.clone(), item], |c| {
            c.expr(&fold.condition);
            let step = c.expr(&fold.step);
            let accu = fold.accu;
            c.scope[accu] = match (&init, step) {
                (Type::List(inner), step @ Type::List(_)) if matches!(**inner, Type::Dyn) => step,
                _ => init.clone(),
            };
            if let (Type::List(_), Ir::Binary(Binary::Add, _, items)) = (&init, &fold.step)
                && let Type::List(item) = c.expr(items)
            {
                c.scope[accu] = Type::List(item);
            }
            if let (Type::List(_), Ir::If(_, yes, _)) = (&init, &fold.step)
                && let Ir::Binary(Binary::Add, _, items) = &**yes
                && let Type::List(item) = c.expr(items)
            {
                c.scope[accu] = Type::List(item);
            }
            c.expr(&fold.result)
        })
    }

    fn each(&mut self, each: &Each) -> Type<'a> {
        let range = self.expr(&each.range);
        let (key, value) = match (&range, each.kind) {
            (_, EachKind::SortBy) => (Type::Dyn, self.element(&range, &each.range)),
            (Type::List(item), _) => (Type::Int, (**item).clone()),
            (Type::Map(key, value), _) => ((**key).clone(), (**value).clone()),
            (Type::Dyn, _) => (Type::Dyn, Type::Dyn),
            (other, _) => return self.element(other, &each.range),
        };
        let (name, item) = (key.clone(), value.clone());
        let body = self.scoped(vec![key, value], |c| {
            if let Some(filter) = &each.filter {
                c.expr(filter);
            }
            c.expr(&each.body)
        });
        match each.kind {
            EachKind::All | EachKind::Exists | EachKind::ExistsOne => Type::Bool,
            EachKind::TransformList => Type::List(Box::new(body)),
            EachKind::TransformMap => Type::Map(Box::new(name), Box::new(body)),
            EachKind::TransformMapEntry => body,
            EachKind::SortBy => Type::List(Box::new(item)),
        }
    }

    fn call(&mut self, name: &str, is_method: bool, types: &[Type<'a>]) -> Type<'a> {
        let Some(result) = result_of(name, types) else {
            return self.fail(
                &Place::Call(name),
                format!("undeclared reference to '{name}' (in container '')"),
            );
        };
        let matching = match (name, types) {
            ("size", [t]) => {
                matches!(
                    t,
                    Type::Dyn | Type::Text | Type::Bytes | Type::List(_) | Type::Map(..)
                )
            }
            ("startsWith" | "endsWith" | "contains" | "matches", [a, b]) => {
                a.may_be(&Type::Text) && b.may_be(&Type::Text)
            }
            ("startsWith" | "endsWith" | "contains" | "matches" | "size", _) => false,
            ("lowerAscii" | "upperAscii" | "trim", [t]) => t.may_be(&Type::Text),
            ("reverse" | "sort" | "distinct" | "flatten" | "isSorted" | "sum", [t]) => {
                matches!(t, Type::List(_) | Type::Dyn)
            }
            ("sign", [t]) => matches!(t, Type::Dyn),
            ("hasValue" | "value", [t]) => t.may_be(&Type::Optional(Box::new(Type::Dyn))),
            ("orValue" | "or", [t, _]) => t.may_be(&Type::Optional(Box::new(Type::Dyn))),
            (
                "quantity" | "isQuantity" | "url" | "isURL" | "semver" | "isSemver" | "isIP" | "isCIDR",
                [t, ..],
            ) => t.may_be(&Type::Text),
            _ => true,
        };
        if !matching {
            let types: Vec<String> = types.iter().map(Type::name).collect();
            let shown = match types.split_first() {
                Some((receiver, args)) if is_method => format!("{receiver}.({})", args.join(", ")),
                _ => format!("({})", types.join(", ")),
            };
            return self.fail(
                &Place::Call(name),
                format!("found no matching overload for '{name}' applied to '{shown}'"),
            );
        }
        result
    }
}

fn symbol(operator: Binary) -> &'static str {
    match operator {
        Binary::In => "in",
        other => other.name().trim_matches('_'),
    }
}

fn is_relation(operator: Binary) -> bool {
    !matches!(
        operator,
        Binary::Add | Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Modulo
    )
}

fn join<'a>(known: Option<Type<'a>>, found: Type<'a>) -> Option<Type<'a>> {
    match known {
        None => Some(found),
        Some(known) if known.may_be(&found) && !matches!(known, Type::Null) => Some(known),
        Some(_) => Some(Type::Dyn),
    }
}

fn result_of<'a>(name: &str, types: &[Type<'a>]) -> Option<Type<'a>> {
    let first = || types.first().cloned().unwrap_or(Type::Dyn);
    let texts = || Type::List(Box::new(Type::Text));
    Some(match name {
        "size" | "int" | "indexOf" | "lastIndexOf" | "compareTo" | "asInteger" | "sign" | "prefixLength"
        | "family" | "major" | "minor" | "patch" | "getFullYear" | "getMonth" | "getDayOfYear"
        | "getDayOfMonth" | "getDate" | "getDayOfWeek" | "getHours" | "getMinutes" | "getSeconds"
        | "getMilliseconds" => Type::Int,
        "contains"
        | "startsWith"
        | "endsWith"
        | "matches"
        | "bool"
        | "isSorted"
        | "isQuantity"
        | "isInteger"
        | "isGreaterThan"
        | "isLessThan"
        | "isURL"
        | "isIP"
        | "isIPv4"
        | "isIPv6"
        | "isCIDR"
        | "isCIDRv4"
        | "isCIDRv6"
        | "isLoopback"
        | "isUnspecified"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast"
        | "ip.isCanonical"
        | "containsIP"
        | "containsCIDR"
        | "isSemver"
        | "hasValue"
        | "sets.contains"
        | "sets.equivalent"
        | "sets.intersects" => Type::Bool,
        "string" | "charAt" | "lowerAscii" | "upperAscii" | "replace" | "substring" | "trim" | "join"
        | "find" | "format" | "getScheme" | "getHost" | "getHostname" | "getPort" | "getEscapedPath"
        | "strings.quote" => Type::Text,
        "split" | "findAll" => texts(),
        "getQuery" => Type::Map(Box::new(Type::Text), Box::new(texts())),
        "double" | "asApproximateFloat" => Type::Double,
        "uint" => Type::UInt,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Time,
        "type" => Type::Meta,
        "dyn" | "sum" | "min" | "max" | "value" | "orValue" | "or" | "flatten" | "unwrap"
        | "optional.unwrap" => match (name, types) {
            ("value", [Type::Optional(inner)]) | ("orValue", [Type::Optional(inner), _]) => (**inner).clone(),
            ("or", [optional @ Type::Optional(_), _]) => optional.clone(),
            ("sum" | "min" | "max", [Type::List(item)]) => (**item).clone(),
            _ => Type::Dyn,
        },
        "sort" | "distinct" | "slice" | "reverse" => first(),
        "lists.range" => Type::List(Box::new(Type::Int)),
        "first" | "last" => match types {
            [Type::List(item)] => Type::Optional(item.clone()),
            _ => Type::Dyn,
        },
        "quantity" | "add" | "sub" => Type::Library("kubernetes.Quantity"),
        "url" => Type::Library("kubernetes.URL"),
        "ip" => Type::Library("net.IP"),
        "cidr" | "masked" => Type::Library("net.CIDR"),
        "semver" => Type::Library("kubernetes.Semver"),
        "validate" => Type::Optional(Box::new(texts())),
        "optional.none" => Type::Optional(Box::new(Type::Dyn)),
        "optional.of" | "optional.ofNonZeroValue" => Type::Optional(Box::new(first())),
        "format.named" => Type::Optional(Box::new(Type::Dyn)),
        "format.dns1123Label"
        | "format.dns1123Subdomain"
        | "format.dns1035Label"
        | "format.qualifiedName"
        | "format.dns1123LabelPrefix"
        | "format.dns1123SubdomainPrefix"
        | "format.dns1035LabelPrefix"
        | "format.labelValue"
        | "format.uri"
        | "format.uuid"
        | "format.byte"
        | "format.date"
        | "format.datetime" => Type::Dyn,
        _ => return None,
    })
}
