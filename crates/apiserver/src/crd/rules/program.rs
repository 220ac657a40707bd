//! Parsed rules: operators by name, variables by position.
//!
//! The `cel` crate parses. The evaluator is our own: cel's values have no schema and its evaluator no
//! limit. Macros it lacks (two-variable comprehensions, `sortBy`, `optMap`) are expanded here.

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators as op};
use kube_cel::cel::parser::{ParseErrors, Parser};
use regex::Regex;
use std::rc::Rc;

/// Namespaces of functions: `sets.contains(...)`. Rules have no `math`, `base64`, `jsonpatch` or `cel`.
const NAMESPACES: &[&str] = &["format", "ip", "lists", "optional", "sets", "strings"];

#[derive(Debug, Clone)]
pub(super) enum Ir {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Var(usize),
    /// Not a variable: a type, or undeclared.
    Name(String),
    Select {
        operand: Box<Ir>,
        field: String,
        test: bool,
    },
    OptSelect {
        operand: Box<Ir>,
        field: String,
    },
    Index(Box<Ir>, Box<Ir>),
    OptIndex(Box<Ir>, Box<Ir>),
    And(Box<Ir>, Box<Ir>),
    Or(Box<Ir>, Box<Ir>),
    Not(Box<Ir>),
    Negate(Box<Ir>),
    NotStrictlyFalse(Box<Ir>),
    If(Box<Ir>, Box<Ir>, Box<Ir>),
    Binary(Binary, Box<Ir>, Box<Ir>),
    List(Vec<(Ir, bool)>),
    Map(Vec<(Ir, Ir, bool)>),
    Fold(Box<Fold>),
    Each(Box<Each>),
    /// `optMap`, `optFlatMap`: the body runs with the content of an optional.
    OptMap {
        target: Box<Ir>,
        body: Box<Ir>,
        flat: bool,
    },
    /// `matches` with a literal pattern, compiled once.
    Matches {
        target: Box<Ir>,
        regex: Box<Regex>,
    },
    Call {
        name: String,
        target: Option<Box<Ir>>,
        args: Vec<Ir>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
}

impl Binary {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Add => op::ADD,
            Self::Subtract => op::SUBSTRACT,
            Self::Multiply => op::MULTIPLY,
            Self::Divide => op::DIVIDE,
            Self::Modulo => op::MODULO,
            Self::Equal => op::EQUALS,
            Self::NotEqual => op::NOT_EQUALS,
            Self::Less => op::LESS,
            Self::LessEqual => op::LESS_EQUALS,
            Self::Greater => op::GREATER,
            Self::GreaterEqual => op::GREATER_EQUALS,
            Self::In => op::IN,
        }
    }
}

/// A one-variable comprehension as the parser expands it. The accumulator is at `accu`, the item after it.
#[derive(Debug, Clone)]
pub(super) struct Fold {
    pub(super) range: Ir,
    pub(super) init: Ir,
    pub(super) condition: Ir,
    pub(super) step: Ir,
    pub(super) result: Ir,
    pub(super) accu: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EachKind {
    All,
    Exists,
    ExistsOne,
    TransformList,
    TransformMap,
    TransformMapEntry,
    /// One variable: sorts the items by the body's values.
    SortBy,
}

#[derive(Debug, Clone)]
pub(super) struct Each {
    pub(super) kind: EachKind,
    pub(super) range: Ir,
    pub(super) filter: Option<Ir>,
    pub(super) body: Ir,
}

#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) root: Ir,
    pub(super) uses_old_self: bool,
}

/// No hand-written rule is longer.
const TEXT_MAX: usize = 16 << 10;
/// The nesting of brackets and operations; cel-go's limit.
const DEPTH_MAX: usize = 250;
/// Enough for the parser at the deepest accepted text; only used pages take memory.
const STACK: usize = 512 << 20;

/// Parses `source`; the error is cel-go's text, with the position.
///
/// The parser recurses with the text's nesting, so it gets a stack of its own.
pub(super) fn parse(source: &str) -> Result<Program, String> {
    if source.len() > TEXT_MAX {
        return Err(format!(
            "the rule has {} bytes, and may have {TEXT_MAX}",
            source.len()
        ));
    }
    if brackets(source) > DEPTH_MAX {
        return Err(too_deep());
    }
    let given_up = |why: &str| Err(format!("the rule cannot be parsed: {why}"));
    std::thread::scope(|scope| {
        let parser = std::thread::Builder::new().stack_size(STACK);
        match parser.spawn_scoped(scope, || parse_here(source)) {
            Ok(running) => running
                .join()
                .unwrap_or_else(|_panic| given_up("the parser gave up")),
            Err(error) => given_up(&error.to_string()),
        }
    })
}

fn too_deep() -> String {
    format!("the rule is nested more than {DEPTH_MAX} levels deep")
}

fn brackets(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn is_deeper(at: &IdedExpr, left: usize) -> bool {
    let Some(left) = left.checked_sub(1) else {
        return true;
    };
    let deeper = |part: &IdedExpr| is_deeper(part, left);
    let entry = |entry: &EntryExpr| match entry {
        EntryExpr::StructField(field) => deeper(&field.value),
        EntryExpr::MapEntry(entry) => deeper(&entry.key) || deeper(&entry.value),
    };
    match &at.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => false,
        Expr::Select(select) => deeper(&select.operand),
        Expr::List(list) => list.elements.iter().any(deeper),
        Expr::Map(map) => map.entries.iter().any(|one| entry(&one.expr)),
        Expr::Struct(of) => of.entries.iter().any(|one| entry(&one.expr)),
        Expr::Call(call) => call.target.as_deref().is_some_and(deeper) || call.args.iter().any(deeper),
        Expr::Comprehension(of) => {
            let parts = [
                &of.iter_range,
                &of.accu_init,
                &of.loop_cond,
                &of.loop_step,
                &of.result,
            ];
            parts.into_iter().any(deeper)
        }
    }
}

fn parse_here(source: &str) -> Result<Program, String> {
    let expression = Parser::default()
        .enable_optional_syntax(true)
        .parse(source)
        .map_err(|e| syntax_error(source, &e))?;
    if is_deeper(&expression, DEPTH_MAX) {
        return Err(too_deep());
    }
    let mut lower = Lower {
        source,
        scope: vec![Rc::from("self"), Rc::from("oldSelf")],
        uses_old_self: false,
    };
    let root = lower.expr(&expression)?;
    Ok(Program {
        root,
        uses_old_self: lower.uses_old_self,
    })
}

fn syntax_error(source: &str, errors: &ParseErrors) -> String {
    let texts: Vec<String> = errors
        .errors
        .iter()
        .map(|e| {
            let line = usize::try_from(e.pos.0).unwrap_or(1).max(1);
            let column = usize::try_from(e.pos.1).unwrap_or(1).max(1);
            at_position(source, line, column, &e.msg)
        })
        .collect();
    texts.join("\n")
}

fn at_position(source: &str, line: usize, column: usize, message: &str) -> String {
    let snippet = source.lines().nth(line - 1).unwrap_or_default();
    let dots = ".".repeat(column - 1);
    format!("ERROR: <input>:{line}:{column}: {message}\n | {snippet}\n | {dots}^")
}

/// A message at the first occurrence of `needle` as a whole word, or at the start.
pub(super) fn at_needle(source: &str, needle: &str, message: &str) -> String {
    at_offset(source, find_word(source, needle, 0).unwrap_or(0), message)
}

pub(super) fn at_offset(source: &str, offset: usize, message: &str) -> String {
    let before = &source[..offset];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    at_position(source, line, column, message)
}

pub(super) fn find_word(source: &str, needle: &str, nth: usize) -> Option<usize> {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    source
        .match_indices(needle)
        .map(|(at, _)| at)
        .filter(|at| {
            let before = source[..*at].chars().next_back();
            let after = source[at + needle.len()..].chars().next();
            let open = !needle.starts_with(|c: char| c.is_alphanumeric() || c == '_') || !is_word(before);
            open && (!needle.ends_with(|c: char| c.is_alphanumeric() || c == '_') || !is_word(after))
        })
        .nth(nth)
}

struct Lower<'s> {
    source: &'s str,
    /// Variables by position. `@` hides one from lookup.
    scope: Vec<Rc<str>>,
    uses_old_self: bool,
}

impl Lower<'_> {
    fn boxed(&mut self, expr: &IdedExpr) -> Result<Box<Ir>, String> {
        self.expr(expr).map(Box::new)
    }

    fn fail<T>(&self, needle: &str, message: &str) -> Result<T, String> {
        Err(at_needle(self.source, needle, message))
    }

    fn within<T>(
        &mut self,
        names: &[&str],
        run: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        let depth = self.scope.len();
        self.scope.extend(names.iter().map(|n| Rc::from(*n)));
        let out = run(self);
        self.scope.truncate(depth);
        out
    }

    fn expr(&mut self, expr: &IdedExpr) -> Result<Ir, String> {
        Ok(match &expr.expr {
            Expr::Unspecified => return self.fail("", "unspecified expression"),
            Expr::Struct(s) => {
                return self.fail(
                    &s.type_name,
                    &format!("undeclared reference to '{}' (in container '')", s.type_name),
                );
            }
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(b) => Ir::Bool(*b.inner()),
                LiteralValue::Bytes(b) => Ir::Bytes(b.inner().to_vec()),
                LiteralValue::Double(d) => Ir::Double(*d.inner()),
                LiteralValue::Int(i) => Ir::Int(*i.inner()),
                LiteralValue::Null => Ir::Null,
                LiteralValue::String(s) => Ir::Text(s.inner().to_owned()),
                LiteralValue::UInt(u) => Ir::UInt(*u.inner()),
            },
            Expr::Ident(name) => self.name(name),
            Expr::Select(_) if self.type_path(expr).is_some() => {
                Ir::Name(self.type_path(expr).unwrap_or_default())
            }
            Expr::Select(select) => Ir::Select {
                operand: self.boxed(&select.operand)?,
                field: select.field.clone(),
                test: select.test,
            },
            Expr::List(list) => {
                let mut items = Vec::with_capacity(list.elements.len());
                for (index, element) in list.elements.iter().enumerate() {
                    items.push((self.expr(element)?, list.optional_indices.contains(&index)));
                }
                Ir::List(items)
            }
            Expr::Map(map) => {
                let mut entries = Vec::with_capacity(map.entries.len());
                for entry in &map.entries {
                    match &entry.expr {
                        EntryExpr::MapEntry(e) => {
                            entries.push((self.expr(&e.key)?, self.expr(&e.value)?, e.optional));
                        }
                        EntryExpr::StructField(f) => return self.fail(&f.field, "unsupported field"),
                    }
                }
                Ir::Map(entries)
            }
            Expr::Comprehension(c) => {
                let range = self.expr(&c.iter_range)?;
                let init = self.expr(&c.accu_init)?;
                let accu = self.scope.len();
                let iter_var = c.iter_var.clone();
                let accu_var = c.accu_var.clone();
                self.within(&[&accu_var, &iter_var], |l| {
                    Ok(Ir::Fold(Box::new(Fold {
                        condition: l.expr(&c.loop_cond)?,
                        step: l.expr(&c.loop_step)?,
                        result: l.expr(&c.result)?,
                        range,
                        init,
                        accu,
                    })))
                })?
            }
            Expr::Call(call) => self.call(call)?,
        })
    }

    fn name(&mut self, name: &str) -> Ir {
        match self.scope.iter().rposition(|n| &**n == name) {
            Some(place) => {
                self.uses_old_self |= place == 1;
                Ir::Var(place)
            }
            None => Ir::Name(name.to_owned()),
        }
    }

    fn type_path(&self, expr: &IdedExpr) -> Option<String> {
        let Expr::Select(select) = &expr.expr else {
            return None;
        };
        let Expr::Select(inner) = &select.operand.expr else {
            return None;
        };
        let Expr::Ident(root) = &inner.operand.expr else {
            return None;
        };
        let name = format!("{root}.{}.{}", inner.field, select.field);
        (!self.is_variable(root) && super::functions::type_value(&name).is_some()).then_some(name)
    }

    fn is_variable(&self, name: &str) -> bool {
        self.scope.iter().any(|n| &**n == name)
    }

    fn call(&mut self, call: &CallExpr) -> Result<Ir, String> {
        if call.target.is_none()
            && let Some(operator) = self.operator(call)?
        {
            return Ok(operator);
        }
        if let Some(target) = &call.target {
            if let Expr::Ident(namespace) = &target.expr
                && NAMESPACES.contains(&namespace.as_str())
                && !self.is_variable(namespace)
            {
                return self.qualified(namespace, call);
            }
            if let Some(expanded) = self.method_macro(target, call)? {
                return Ok(expanded);
            }
        }
        let operands = (
            call.func_name.as_str(),
            call.target.as_deref(),
            call.args.as_slice(),
        );
        if let ("matches", Some(text), [pattern]) | ("matches", None, [text, pattern]) = operands
            && let Expr::Literal(LiteralValue::String(pattern)) = &pattern.expr
            && let Ok(regex) = Regex::new(pattern.inner())
        {
            let target = self.boxed(text)?;
            return Ok(Ir::Matches {
                target,
                regex: Box::new(regex),
            });
        }
        let target = call.target.as_deref().map(|t| self.boxed(t)).transpose()?;
        let args = self.all(&call.args)?;
        Ok(Ir::Call {
            name: call.func_name.clone(),
            target,
            args,
        })
    }

    fn all(&mut self, exprs: &[IdedExpr]) -> Result<Vec<Ir>, String> {
        exprs.iter().map(|e| self.expr(e)).collect()
    }

    fn operator(&mut self, call: &CallExpr) -> Result<Option<Ir>, String> {
        let name = call.func_name.as_str();
        Ok(Some(match (name, call.args.as_slice()) {
            (op::CONDITIONAL, [a, b, c]) => Ir::If(self.boxed(a)?, self.boxed(b)?, self.boxed(c)?),
            (op::LOGICAL_AND, [a, b]) => Ir::And(self.boxed(a)?, self.boxed(b)?),
            (op::LOGICAL_OR, [a, b]) => Ir::Or(self.boxed(a)?, self.boxed(b)?),
            (op::LOGICAL_NOT, [a]) => Ir::Not(self.boxed(a)?),
            (op::NEGATE, [a]) => Ir::Negate(self.boxed(a)?),
            (op::NOT_STRICTLY_FALSE, [a]) => Ir::NotStrictlyFalse(self.boxed(a)?),
            (op::INDEX, [a, b]) => Ir::Index(self.boxed(a)?, self.boxed(b)?),
            (op::OPT_INDEX, [a, b]) => Ir::OptIndex(self.boxed(a)?, self.boxed(b)?),
            (op::OPT_SELECT, [a, b]) => match &b.expr {
                Expr::Literal(LiteralValue::String(field)) => Ir::OptSelect {
                    operand: self.boxed(a)?,
                    field: field.inner().to_owned(),
                },
                _ => return self.fail("?.", "unsupported optional field selection"),
            },
            (_, [a, b]) => {
                let binary = match name {
                    op::ADD => Binary::Add,
                    op::SUBSTRACT => Binary::Subtract,
                    op::MULTIPLY => Binary::Multiply,
                    op::DIVIDE => Binary::Divide,
                    op::MODULO => Binary::Modulo,
                    op::EQUALS => Binary::Equal,
                    op::NOT_EQUALS => Binary::NotEqual,
                    op::LESS => Binary::Less,
                    op::LESS_EQUALS => Binary::LessEqual,
                    op::GREATER => Binary::Greater,
                    op::GREATER_EQUALS => Binary::GreaterEqual,
                    op::IN => Binary::In,
                    _ => return Ok(None),
                };
                Ir::Binary(binary, self.boxed(a)?, self.boxed(b)?)
            }
            _ => return Ok(None),
        }))
    }

    fn qualified(&mut self, namespace: &str, call: &CallExpr) -> Result<Ir, String> {
        let args = self.all(&call.args)?;
        Ok(Ir::Call {
            name: format!("{namespace}.{}", call.func_name),
            target: None,
            args,
        })
    }

    fn method_macro(&mut self, target: &IdedExpr, call: &CallExpr) -> Result<Option<Ir>, String> {
        let ident = |e: &IdedExpr| match &e.expr {
            Expr::Ident(name) => Some(name.clone()),
            _ => None,
        };
        let kind = match (call.func_name.as_str(), call.args.len()) {
            ("all", 3) => EachKind::All,
            ("exists", 3) => EachKind::Exists,
            ("existsOne" | "exists_one", 3) => EachKind::ExistsOne,
            ("transformList", 3 | 4) => EachKind::TransformList,
            ("transformMap", 3 | 4) => EachKind::TransformMap,
            ("transformMapEntry", 3 | 4) => EachKind::TransformMapEntry,
            ("sortBy", 2) => EachKind::SortBy,
            ("optMap" | "optFlatMap", 2) => {
                let Some(name) = ident(&call.args[0]) else {
                    return Ok(None);
                };
                let target = self.boxed(target)?;
                let body = self.within(&[&name], |l| l.boxed(&call.args[1]))?;
                let flat = call.func_name == "optFlatMap";
                return Ok(Some(Ir::OptMap { target, body, flat }));
            }
            _ => return Ok(None),
        };
        let range = self.expr(target)?;
        let each = if kind == EachKind::SortBy {
            let Some(name) = ident(&call.args[0]) else {
                return Ok(None);
            };
            let body = self.within(&["@", &name], |l| l.expr(&call.args[1]))?;
            Each {
                kind,
                range,
                filter: None,
                body,
            }
        } else {
            let (Some(key), Some(value)) = (ident(&call.args[0]), ident(&call.args[1])) else {
                return self.fail(&call.func_name, "argument must be a simple name");
            };
            let args = &call.args;
            self.within(&[&key, &value], |l| {
                let (filter, body) = match args.get(3) {
                    Some(body) => (Some(l.expr(&args[2])?), l.expr(body)?),
                    None => (None, l.expr(&args[2])?),
                };
                Ok(Each {
                    kind,
                    range,
                    filter,
                    body,
                })
            })?
        };
        Ok(Some(Ir::Each(Box::new(each))))
    }
}
