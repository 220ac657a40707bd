//! Type-checks a rule before it runs: undeclared names, undefined fields, mismatched operands.
//!
//! Functions of the Kubernetes libraries are known by name and result; their arguments are checked when
//! they run. Values without a declared type match anything.

use super::escape;
use super::types::{field_schema, is_struct};
use crate::crd::node::Node as Schema;
use equate_cel::{
    Binary, Call, CompileError, Each, EachKind, Issues, Node, Op, Program, is_pattern, parse_timestamp,
    undeclared_text,
};
use equate_manifest::go::duration;
use equate_manifest::schema::SchemaType;

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
    Object(&'a Schema, bool),
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
pub(super) fn declared(node: &Schema, whole: bool) -> Type<'_> {
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

/// The type of a program's result, for values of a schema.
pub(super) fn type_of<'a>(
    source: &str,
    program: &Program,
    schema: &'a Schema,
    whole: bool,
    optional_old: bool,
) -> Result<Type<'a>, CompileError> {
    let this = declared(schema, whole);
    let old = if optional_old {
        Type::Optional(Box::new(this.clone()))
    } else {
        this.clone()
    };
    let mut checker = Checker {
        issues: Issues::new(source),
        variables: [this, old],
        scope: Vec::new(),
    };
    let found = checker.expr(program.root());
    checker.issues.finish().map(|()| found)
}

struct Checker<'s, 'a> {
    issues: Issues<'s>,
    /// `self` and `oldSelf`.
    variables: [Type<'a>; 2],
    /// The variables of macros.
    scope: Vec<Type<'a>>,
}

impl<'a> Checker<'_, 'a> {
    fn fail(&mut self, at: usize, message: String) -> Type<'a> {
        self.issues.add(at, message);
        Type::Dyn
    }

    fn no_overload(&mut self, at: usize, name: &str, types: &[&Type<'_>]) -> Type<'a> {
        let types: Vec<String> = types.iter().map(|t| t.name()).collect();
        self.fail(
            at,
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

    fn expr(&mut self, node: &Node) -> Type<'a> {
        let at = node.at;
        match &node.op {
            Op::Null => Type::Null,
            Op::Bool(_) => Type::Bool,
            Op::Int(_) => Type::Int,
            Op::UInt(_) => Type::UInt,
            Op::Double(_) => Type::Double,
            Op::Text(_) => Type::Text,
            Op::Bytes(_) => Type::Bytes,
            Op::Variable(place) => self.variables.get(*place).cloned().unwrap_or(Type::Dyn),
            Op::Local(place) => self.scope.get(*place).cloned().unwrap_or(Type::Dyn),
            Op::Type(_) => Type::Meta,
            Op::Format(_) => Type::Library("kubernetes.NamedFormat"),
            Op::Undeclared(name) | Op::Message(name) => self.fail(at, undeclared_text(name)),
            Op::Select { operand, field, test } => {
                let operand = self.expr(operand);
                let found = self.select(&operand, at, field);
                if *test { Type::Bool } else { found }
            }
            Op::OptSelect { operand, field } => {
                let operand = self.expr(operand);
                match self.select(&operand, at, field) {
                    optional @ Type::Optional(_) => optional,
                    found => Type::Optional(Box::new(found)),
                }
            }
            Op::Index(operand, index) => {
                let operand = self.expr(operand);
                let index = self.expr(index);
                self.index(&operand, &index, at, "_[_]")
            }
            Op::OptIndex(operand, index) => {
                let operand = self.expr(operand);
                let index = self.expr(index);
                match self.index(&operand, &index, at, "_[?_]") {
                    optional @ Type::Optional(_) => optional,
                    found => Type::Optional(Box::new(found)),
                }
            }
            Op::And(all) | Op::Or(all) => {
                for operand in all {
                    self.boolean(operand);
                }
                Type::Bool
            }
            Op::Not(a) => match self.expr(a) {
                t if t.may_be(&Type::Bool) => Type::Bool,
                t => self.no_overload(at, "!_", &[&t]),
            },
            Op::Negate(a) => match self.expr(a) {
                t @ (Type::Int | Type::Double | Type::Duration | Type::Dyn) => t,
                t => self.no_overload(at, "-_", &[&t]),
            },
            Op::If(condition, yes, no) => {
                let condition = self.expr(condition);
                let yes = self.expr(yes);
                let no = self.expr(no);
                if !condition.may_be(&Type::Bool) || !yes.may_be(&no) {
                    return self.no_overload(at, "_?_:_", &[&condition, &yes, &no]);
                }
                if matches!(yes, Type::Dyn | Type::Null) {
                    no
                } else {
                    yes
                }
            }
            Op::Binary(operator, a, b) => {
                let a = self.expr(a);
                let b = self.expr(b);
                self.binary(*operator, at, &a, &b)
            }
            Op::List(items) => {
                let mut item = None;
                for (element, _) in items {
                    let found = self.expr(element);
                    item = join(item, found);
                }
                Type::List(Box::new(item.unwrap_or(Type::Dyn)))
            }
            Op::Map(entries) => {
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
            Op::Each(each) => self.each(each, at),
            Op::OptMap { target, body, flat } => {
                let inner = match self.expr(target) {
                    Type::Optional(inner) => *inner,
                    Type::Dyn => Type::Dyn,
                    t => return self.no_overload(at, "optMap", &[&t]),
                };
                let found = self.scoped(vec![inner], |c| c.expr(body));
                if *flat {
                    found
                } else {
                    Type::Optional(Box::new(found))
                }
            }
            Op::Call(call) => {
                let types: Vec<Type<'a>> = call.args.iter().map(|arg| self.expr(arg)).collect();
                self.check_literal(call);
                self.call(call, at, &types)
            }
        }
    }

    fn boolean(&mut self, operand: &Node) {
        let found = self.expr(operand);
        if !found.may_be(&Type::Bool) {
            let message = format!("expected type 'bool' but found '{}'", found.name());
            self.fail(operand.at, message);
        }
    }

    /// Literal arguments are checked when the rule is written.
    fn check_literal(&mut self, call: &Call) {
        let Some(Node {
            at,
            op: Op::Text(text),
        }) = call.args.last()
        else {
            return;
        };
        let valid = match call.name.as_str() {
            "duration" => duration::parse(text).is_ok(),
            "timestamp" => parse_timestamp(text).is_some(),
            "matches" => is_pattern(text),
            _ => true,
        };
        if !valid {
            self.fail(*at, format!("invalid {} argument", call.name));
        }
    }

    fn select(&mut self, operand: &Type<'a>, at: usize, field: &str) -> Type<'a> {
        match operand {
            Type::Dyn => Type::Dyn,
            Type::Map(_, value) => (**value).clone(),
            Type::Optional(inner) => Type::Optional(Box::new(self.select(inner, at, field))),
            Type::Object(node, whole) => {
                let name = escape::unescape(field);
                let found = name.as_deref().and_then(|n| field_schema(node, *whole, n));
                match found.filter(|n| n.visible_to_rules()) {
                    Some(inner) => declared(inner, inner.embedded),
                    None => self.fail(at, format!("undefined field '{field}'")),
                }
            }
            other => {
                let message = format!("type '{}' does not support field selection", other.name());
                self.fail(at, message)
            }
        }
    }

    fn index(&mut self, operand: &Type<'a>, index: &Type<'a>, at: usize, name: &str) -> Type<'a> {
        match operand {
            Type::Dyn => Type::Dyn,
            Type::List(item) if index.may_be(&Type::Int) => (**item).clone(),
            Type::Map(key, value) if index.may_be(key) => (**value).clone(),
            Type::Optional(inner) => Type::Optional(Box::new(self.index(inner, index, at, name))),
            _ => self.no_overload(at, name, &[operand, index]),
        }
    }

    fn binary(&mut self, operator: Binary, at: usize, a: &Type<'a>, b: &Type<'a>) -> Type<'a> {
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
            None => self.no_overload(at, name, &[a, b]),
        }
    }

    fn element(&mut self, range: &Type<'a>, from: &Node) -> Type<'a> {
        match range {
            Type::Dyn => Type::Dyn,
            Type::List(item) => (**item).clone(),
            Type::Map(key, _) => (**key).clone(),
            other => self.fail(
                from.at,
                format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    other.name()
                ),
            ),
        }
    }

    fn each(&mut self, each: &Each, at: usize) -> Type<'a> {
        let range = self.expr(&each.range);
        let variables = match (&range, each.is_pair) {
            (_, false) => vec![self.element(&range, &each.range)],
            (Type::List(item), true) => vec![Type::Int, (**item).clone()],
            (Type::Map(key, value), true) => vec![(**key).clone(), (**value).clone()],
            (Type::Dyn, true) => vec![Type::Dyn, Type::Dyn],
            (other, true) => return self.element(other, &each.range),
        };
        let first = variables[0].clone();
        self.scoped(variables, |c| {
            if let Some(filter) = &each.filter {
                let found = c.expr(filter);
                if !found.may_be(&Type::Bool) {
                    let list = Type::List(Box::new(first.clone()));
                    return c.no_overload(at, "_?_:_", &[&found, &list, &list]);
                }
            }
            match each.kind {
                EachKind::All | EachKind::Exists => {
                    c.boolean(&each.body);
                    Type::Bool
                }
                EachKind::ExistsOne => {
                    let found = c.expr(&each.body);
                    match found.may_be(&Type::Bool) {
                        true => Type::Bool,
                        false => c.no_overload(at, "_?_:_", &[&found, &Type::Int, &Type::Int]),
                    }
                }
                EachKind::List => Type::List(Box::new(c.expr(&each.body))),
                EachKind::Map => Type::Map(Box::new(first), Box::new(c.expr(&each.body))),
                EachKind::Entries => c.expr(&each.body),
                EachKind::Sort => {
                    c.expr(&each.body);
                    Type::List(Box::new(first))
                }
            }
        })
    }

    fn call(&mut self, call: &Call, at: usize, types: &[Type<'a>]) -> Type<'a> {
        let name = call.name.as_str();
        let known = call.is_known().then(|| result_of(name, types));
        let Some(result) = known.flatten() else {
            return self.fail(at, undeclared_text(name));
        };
        let matching = match (name, types) {
            ("size", [t]) => {
                matches!(
                    t,
                    Type::Dyn | Type::Text | Type::Bytes | Type::List(_) | Type::Map(..)
                )
            }
            ("startsWith" | "endsWith" | "contains", _) if !call.is_method => false,
            ("startsWith" | "endsWith" | "contains" | "matches", [a, b]) => {
                a.may_be(&Type::Text) && b.may_be(&Type::Text)
            }
            ("startsWith" | "endsWith" | "contains" | "matches" | "size", _) => false,
            ("lowerAscii" | "upperAscii" | "trim", [t]) => t.may_be(&Type::Text),
            ("reverse" | "sort" | "distinct" | "flatten" | "isSorted" | "sum", [t]) => {
                matches!(t, Type::List(_) | Type::Dyn)
            }
            ("sign", [t]) => !call.is_method && t.may_be(&Type::Library("kubernetes.Quantity")),
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
                Some((receiver, args)) if call.is_method => format!("{receiver}.({})", args.join(", ")),
                _ => format!("({})", types.join(", ")),
            };
            return self.fail(
                at,
                format!("found no matching overload for '{name}' applied to '{shown}'"),
            );
        }
        result
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
        | "isCIDR"
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
        "dyn" | "sum" | "min" | "max" | "value" | "orValue" | "or" | "flatten" | "unwrapOpt"
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
        "format.named" => Type::Optional(Box::new(Type::Library("kubernetes.NamedFormat"))),
        _ => return None,
    })
}
