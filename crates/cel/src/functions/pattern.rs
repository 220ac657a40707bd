//! Regular expressions, with Go's syntax and meaning.
//!
//! A literal one is compiled with its program. A computed one is compiled once per run, is smaller, and
//! pays for it. A search pays for each byte, and more if the expression is large: with too many lazy states,
//! each byte visits the whole expression.

use super::{Body, Function, text};
use crate::error::Fail;
use crate::eval::Run;
use crate::value::{Evaluated, VAL_BYTES, Val};
use equate_manifest::regexp;
use regex::Regex;
use std::collections::HashMap;
use std::sync::Arc;

/// Sizes of a compiled expression in bytes, and the bytes of simple reading that a byte searched costs.
const SIZES: [(usize, usize); 3] = [(16 << 10, 4), (64 << 10, 64), (512 << 10, 4 << 10)];

/// The sizes of a computed expression.
const COMPUTED_SIZES: &[(usize, usize)] = SIZES.split_at(2).0;

/// The units for compiling a computed expression, and for each byte of its text.
const COMPILE_UNITS: usize = 4_000;
const COMPILE_BYTE_UNITS: usize = 40;

/// The computed expressions that a run keeps.
const KEPT_MAX: usize = 32;

pub(super) const FUNCTIONS: &[Function] = &[
    matching("matches", true, matches),
    matching("find", false, find),
    matching("findAll", false, find_all),
];

const fn matching(name: &'static str, in_flux: bool, body: super::Matching) -> Function {
    Function {
        name,
        in_flux,
        in_kubernetes: true,
        body: Body::Matching(body),
    }
}

/// Whether a text is a regular expression that an expression may contain.
pub fn is_pattern(text: &str) -> bool {
    Pattern::literal(text).is_ok()
}

#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    regex: Arc<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    regex: Regex,
    cost: usize,
}

impl Pattern {
    pub(crate) fn literal(source: &str) -> Result<Self, Fail> {
        Self::new(source, &SIZES)
    }

    fn new(source: &str, sizes: &[(usize, usize)]) -> Result<Self, Fail> {
        for (bytes_max, cost) in sizes {
            if let Some(regex) = regexp::compile(source, *bytes_max).map_err(Fail::new)? {
                let cost = *cost;
                return Ok(Self {
                    regex: Arc::new(Compiled { regex, cost }),
                });
            }
        }
        Err(Fail::new(format!(
            "error parsing regexp: expression too large: `{source}`"
        )))
    }
}

/// Computed expressions, by text.
#[derive(Debug, Default)]
pub(crate) struct Patterns(HashMap<String, Pattern>);

/// The pattern of a call, after the payment for one search of `text`.
fn pattern(
    run: &mut Run<'_, '_, '_>,
    literal: Option<&Pattern>,
    source: &str,
    text: &str,
) -> Result<Pattern, Fail> {
    let found = match literal.or_else(|| run.patterns.0.get(source)) {
        Some(found) => found.clone(),
        None => {
            run.spend(COMPILE_UNITS + source.len() * COMPILE_BYTE_UNITS)?;
            let found = Pattern::new(source, COMPUTED_SIZES)?;
            if run.patterns.0.len() < KEPT_MAX {
                run.patterns.0.insert(source.to_owned(), found.clone());
            }
            found
        }
    };
    run.budget.read(text.len().saturating_mul(found.regex.cost))?;
    Ok(found)
}

fn matches<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>], literal: Option<&Pattern>) -> Evaluated<'a> {
    let [Val::Text(text), Val::Text(source)] = args else {
        return Err(Fail::no_overload());
    };
    let text = text.as_str();
    let found = pattern(run, literal, source.as_str(), text)?;
    Ok(Val::Bool(found.regex.regex.is_match(text)))
}

fn illegal(fail: Fail) -> Fail {
    match &fail {
        Fail::Error(failure) => Fail::new(format!("Illegal regex: {}", failure.text)),
        _ => fail,
    }
}

fn find<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>], literal: Option<&Pattern>) -> Evaluated<'a> {
    let [Val::Text(text), Val::Text(source)] = args else {
        return Err(Fail::no_overload());
    };
    let found = pattern(run, literal, source.as_str(), text.as_str()).map_err(illegal)?;
    let range = found
        .regex
        .regex
        .find(text.as_str())
        .map_or(0..0, |found| found.range());
    text::part(run.budget, text, range.start, range.end)
}

fn find_all<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>], literal: Option<&Pattern>) -> Evaluated<'a> {
    let (text, source, most) = match args {
        [Val::Text(text), Val::Text(source)] => (text, source, usize::MAX),
        [Val::Text(text), Val::Text(source), Val::Int(most)] => {
            (text, source, usize::try_from(*most).unwrap_or(usize::MAX))
        }
        _ => return Err(Fail::no_overload()),
    };
    let whole = text.as_str();
    let found = pattern(run, literal, source.as_str(), whole).map_err(illegal)?;
    let mut out = Vec::new();
    for one in found.regex.regex.find_iter(whole).take(most) {
        run.spend(1)?;
        run.budget.hold(2 * VAL_BYTES)?;
        out.push(text::part(run.budget, text, one.start(), one.end())?);
        // the next search may go to the end
        run.budget
            .read((whole.len() - one.end()).saturating_mul(found.regex.cost))?;
    }
    Ok(Val::list(out))
}
