//! Regular expressions, with Go's syntax and meaning.
//!
//! A literal one is compiled with its program, as far as the program's allowance goes. Any other is compiled
//! once per run, is smaller, and the run pays for it. A search pays for each byte, and more if the expression
//! is large: with too many lazy states, each byte visits the whole expression.

use super::{Body, Function, text};
use crate::budget::Budget;
use crate::error::Fail;
use crate::eval::Run;
use crate::value::{Evaluated, VAL_BYTES, Val};
use equate_manifest::regexp;
use regex::Regex;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

struct Size {
    /// The most bytes of the compiled expression.
    bytes_max: usize,
    /// The units for trying, besides those for the text.
    units: usize,
    /// The bytes of simple reading that cost as much as one byte searched.
    slowness: usize,
}

/// Measured: 5,000 units are a tenth of a millisecond.
const SIZES: [Size; 3] = [
    Size {
        bytes_max: 16 << 10,
        units: 5_000,
        slowness: 4,
    },
    Size {
        bytes_max: 64 << 10,
        units: 20_000,
        slowness: 64,
    },
    Size {
        bytes_max: 512 << 10,
        units: 250_000,
        slowness: 4 << 10,
    },
];

/// The sizes of a computed expression.
const COMPUTED_SIZES: &[Size] = SIZES.split_at(2).0;

/// The units for trying a byte of an expression.
const BYTE_UNITS: usize = 80;

/// The units for the literal expressions of one program.
pub(crate) const LITERAL_UNITS_MAX: u64 = 1_000_000;

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

/// Whether a text is a regular expression.
pub fn is_pattern(text: &str) -> bool {
    regexp::rewrite(text).is_ok()
}

#[derive(Debug, Clone)]
pub(crate) struct Pattern(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    regex: Regex,
    slowness: usize,
}

impl Pattern {
    /// Compiles a literal expression; `None` if it is not valid, or the budget does not suffice.
    pub(crate) fn literal(source: &str, budget: &mut Budget<'_>) -> Option<Self> {
        Self::new(source, &SIZES, budget).ok()
    }

    fn new(source: &str, sizes: &[Size], budget: &mut Budget<'_>) -> Result<Self, Fail> {
        for size in sizes {
            budget.spend(size.units + source.len() * BYTE_UNITS)?;
            if let Some(regex) = regexp::compile(source, size.bytes_max).map_err(Fail::new)? {
                let slowness = size.slowness;
                return Ok(Self(Arc::new(Compiled { regex, slowness })));
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
fn pattern<'p>(
    run: &mut Run<'_, '_, '_>,
    literal: Option<&'p Pattern>,
    source: &str,
    text: &str,
) -> Result<Cow<'p, Pattern>, Fail> {
    let found = match literal {
        Some(literal) => Cow::Borrowed(literal),
        None => Cow::Owned(computed(run, source)?),
    };
    run.budget.read(text.len().saturating_mul(found.0.slowness))?;
    Ok(found)
}

fn computed(run: &mut Run<'_, '_, '_>, source: &str) -> Result<Pattern, Fail> {
    if let Some(known) = run.patterns.0.get(source) {
        return Ok(known.clone());
    }
    let new = Pattern::new(source, COMPUTED_SIZES, run.budget)?;
    if run.patterns.0.len() < KEPT_MAX {
        run.patterns.0.insert(source.to_owned(), new.clone());
    }
    Ok(new)
}

fn matches<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>], literal: Option<&Pattern>) -> Evaluated<'a> {
    let [Val::Text(text), Val::Text(source)] = args else {
        return Err(Fail::no_overload());
    };
    let text = text.as_str();
    let found = pattern(run, literal, source.as_str(), text)?;
    Ok(Val::Bool(found.0.regex.is_match(text)))
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
        .0
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
    for one in found.0.regex.find_iter(whole).take(most) {
        run.spend(1)?;
        run.budget.hold(2 * VAL_BYTES)?;
        out.push(text::part(run.budget, text, one.start(), one.end())?);
        // the next search may go to the end
        run.budget
            .read((whole.len() - one.end()).saturating_mul(found.0.slowness))?;
    }
    Ok(Val::list(out))
}
