//! `format`: the clauses of a text are replaced by arguments.
//!
//! cel-go has two versions. Kubernetes uses the older one: it quotes texts inside of lists and maps, and
//! writes exponents as powers of ten.

use crate::budget::Budget;
use crate::error::{Fail, FailureKind};
use crate::eval::Run;
use crate::functions::show;
use crate::value::{Evaluated, List, Val};
use equate_manifest::go::quote as go_quote;
use equate_manifest::json::go_float;
use std::fmt::Write as _;

/// More digits are refused.
const PRECISION_MAX: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Old,
    New,
}

pub(super) fn flux<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    format(run, args, Style::New)
}

pub(super) fn kubernetes<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    format(run, args, Style::Old)
}

fn format<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>], style: Style) -> Evaluated<'a> {
    let [Val::Text(text), Val::List(values)] = args else {
        return Err(Fail::no_overload());
    };
    let mut writer = Writer {
        out: String::new(),
        style,
        budget: run.budget,
    };
    writer.clauses(text.as_str(), values)?;
    Ok(Val::text(writer.out))
}

struct Writer<'b, 's> {
    out: String,
    style: Style,
    budget: &'b mut Budget<'s>,
}

impl Writer<'_, '_> {
    fn put(&mut self, text: &str) -> Result<(), Fail> {
        self.budget.write(text.len())?;
        self.out.push_str(text);
        Ok(())
    }

    fn clauses(&mut self, text: &str, values: &List<'_>) -> Result<(), Fail> {
        let mut rest = text;
        let mut index = 0;
        while let Some((before, after)) = rest.split_once('%') {
            self.put(before)?;
            if let Some(after) = after.strip_prefix('%') {
                self.put("%")?;
                rest = after;
                continue;
            }
            if after.is_empty() {
                return Err(Fail::new("unexpected end of string"));
            }
            let value = match values.get(index) {
                Some(value) => value?,
                None => return Err(Fail::new(format!("index {index} out of range"))),
            };
            index += 1;
            let (precision, after) = precision(after)?;
            let mut letters = after.chars();
            let clause = letters
                .next()
                .ok_or_else(|| Fail::new("unexpected end of string"))?;
            rest = letters.as_str();
            self.clause(clause, precision, &value)?;
        }
        self.put(rest)
    }

    fn clause(&mut self, clause: char, precision: Option<usize>, value: &Val<'_>) -> Result<(), Fail> {
        match clause {
            's' => self.value(value, false),
            'd' => match value {
                Val::Int(_) | Val::UInt(_) => self.put(&show(value)),
                Val::Double(float) if self.style == Style::New => self.put(&plain(*float)),
                _ => Err(self.wrong("decimal", "integers", "ints, uints, and doubles", value)),
            },
            'f' => self.float("fixed-point", value, |float| {
                format!("{float:.*}", precision.unwrap_or(6))
            }),
            'e' if self.style == Style::Old => {
                self.float("scientific", value, |float| power_of_ten(&scientific(float, 6)))
            }
            'e' => self.float("scientific", value, |float| {
                scientific(float, precision.unwrap_or(6))
            }),
            'b' => match value {
                Val::Bool(b) => self.put(if *b { "1" } else { "0" }),
                _ => self.integer(
                    "binary",
                    "integers and bools",
                    "ints, uints, and bools",
                    value,
                    |n| format!("{n:b}"),
                ),
            },
            'o' => self.integer("octal", "integers", "ints and uints", value, |n| format!("{n:o}")),
            'x' | 'X' => self.hexadecimal(value, clause == 'X'),
            other => Err(Fail::new(format!(
                "could not parse formatting clause: unrecognized formatting clause {}",
                go_quote(&other.to_string())
            ))),
        }
    }

    fn wrong(&self, clause: &str, old: &str, new: &str, value: &Val<'_>) -> Fail {
        let allowed = if self.style == Style::Old { old } else { new };
        let given = value.type_name();
        Fail::of(
            FailureKind::Overload,
            format!(
                "error during formatting: {clause} clause can only be used on {allowed}, was given {given}"
            ),
        )
    }

    fn float(&mut self, clause: &str, value: &Val<'_>, shown: impl Fn(f64) -> String) -> Result<(), Fail> {
        let float = match value {
            Val::Double(float) => *float,
            // the older version reads the names of special numbers
            Val::Text(text) if self.style == Style::Old => match text.as_str() {
                "NaN" => f64::NAN,
                "Infinity" => f64::INFINITY,
                "-Infinity" => f64::NEG_INFINITY,
                _ => return Err(self.wrong(clause, "doubles", "ints, uints, and doubles", value)),
            },
            Val::Int(_) | Val::UInt(_) if self.style == Style::New => {
                // Go formats an integer with the wrong verb; a number is meant
                let float: f64 = show(value).parse().unwrap_or(f64::NAN);
                return self.put(&shown(float));
            }
            _ => return Err(self.wrong(clause, "doubles", "ints, uints, and doubles", value)),
        };
        if float.is_finite() {
            return self.put(&shown(float));
        }
        self.put(match (self.style, float.is_nan(), float > 0.0) {
            (_, true, _) => "NaN",
            (Style::Old, _, true) => "∞",
            (Style::Old, _, false) => "-∞",
            (Style::New, _, true) => "Infinity",
            (Style::New, _, false) => "-Infinity",
        })
    }

    fn integer(
        &mut self,
        clause: &str,
        old: &str,
        new: &str,
        value: &Val<'_>,
        shown: impl Fn(u64) -> String,
    ) -> Result<(), Fail> {
        match value {
            Val::Int(n) => {
                self.put(if *n < 0 { "-" } else { "" })?;
                self.put(&shown(n.unsigned_abs()))
            }
            Val::UInt(n) => self.put(&shown(*n)),
            _ => Err(self.wrong(clause, old, new, value)),
        }
    }

    fn hexadecimal(&mut self, value: &Val<'_>, is_upper: bool) -> Result<(), Fail> {
        let bytes = match value {
            Val::Text(text) => text.as_str().as_bytes(),
            Val::Bytes(bytes) => bytes.as_slice(),
            _ => {
                let shown = |n| {
                    if is_upper {
                        format!("{n:X}")
                    } else {
                        format!("{n:x}")
                    }
                };
                let old = "integers, byte buffers, and strings";
                return self.integer("hex", old, "ints, uints, bytes, and strings", value, shown);
            }
        };
        self.budget.write(bytes.len() * 2)?;
        // each byte is formatted
        self.budget.spend(bytes.len())?;
        for byte in bytes {
            // writing to a text cannot fail
            let _ = match is_upper {
                true => write!(self.out, "{byte:02X}"),
                false => write!(self.out, "{byte:02x}"),
            };
        }
        Ok(())
    }

    /// `%s`; the older version writes values inside of others like literals.
    fn value(&mut self, value: &Val<'_>, is_inner: bool) -> Result<(), Fail> {
        self.budget.spend(1)?;
        let is_literal = is_inner && self.style == Style::Old;
        match value {
            Val::Text(text) if is_literal => self.put(&go_quote(text.as_str())),
            Val::Text(text) => self.put(text.as_str()),
            Val::Bytes(bytes) => {
                let text = String::from_utf8_lossy(bytes.as_slice());
                match is_literal {
                    true => self.put(&format!("b{}", go_quote(&text))),
                    false => self.put(&text),
                }
            }
            Val::Double(float) if is_literal => self.put(&format!("{float:.6}")),
            Val::Double(float) if self.style == Style::New => self.put(&plain(*float)),
            Val::Double(float) if float.is_finite() => self.put(&go_float(*float)),
            Val::Duration(_) if is_literal => self.put(&format!("duration({})", go_quote(&show(value)))),
            Val::Time(_) if is_literal => self.put(&format!("timestamp({})", go_quote(&show(value)))),
            Val::Null
            | Val::Bool(_)
            | Val::Int(_)
            | Val::UInt(_)
            | Val::Double(_)
            | Val::Duration(_)
            | Val::Time(_)
            | Val::Type(_) => self.put(&show(value)),
            Val::List(list) => {
                self.put("[")?;
                for (index, item) in list.items().enumerate() {
                    self.put(if index > 0 { ", " } else { "" })?;
                    self.value(&item?, true)?;
                }
                self.put("]")
            }
            Val::Map(map) => self.map(map),
            Val::Optional(_) | Val::Opaque(_) | Val::Unknown(_) => {
                let allowed =
                    "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps";
                Err(self.wrong("string", allowed, allowed, value))
            }
        }
    }

    fn map(&mut self, map: &crate::value::Map<'_>) -> Result<(), Fail> {
        self.budget.spend(map.len())?;
        let mut entries = Vec::with_capacity(map.len());
        for key in map.keys() {
            let Some(value) = map.get(&key, self.budget)? else {
                continue;
            };
            let shown = self.apart(&key)?;
            entries.push((shown, self.apart(&value)?));
        }
        entries.sort();
        self.put("{")?;
        let colon = if self.style == Style::Old { ":" } else { ": " };
        for (index, (key, value)) in entries.iter().enumerate() {
            self.put(if index > 0 { ", " } else { "" })?;
            self.put(key)?;
            self.put(colon)?;
            self.put(value)?;
        }
        self.put("}")
    }

    /// A value as a text of its own.
    fn apart(&mut self, value: &Val<'_>) -> Result<String, Fail> {
        let outer = std::mem::take(&mut self.out);
        let written = self.value(value, true);
        let inner = std::mem::replace(&mut self.out, outer);
        written.map(|()| inner)
    }
}

/// The digits after a point, and the rest.
fn precision(text: &str) -> Result<(Option<usize>, &str), Fail> {
    let Some(after) = text.strip_prefix('.') else {
        return Ok((None, text));
    };
    let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    match after[..end].parse() {
        Ok(digits) if digits <= PRECISION_MAX => Ok((Some(digits), &after[end..])),
        _ => Err(Fail::new(format!(
            "could not parse formatting clause: error while parsing precision: error while converting \
             precision to integer: strconv.Atoi: parsing {}: invalid syntax",
            go_quote(&after[..end])
        ))),
    }
}

/// A float without an exponent.
fn plain(float: f64) -> String {
    match float.is_nan() {
        true => "NaN".to_owned(),
        false if float.is_infinite() => if float > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        false => float.to_string(),
    }
}

/// A float with an exponent of two digits.
fn scientific(float: f64, digits: usize) -> String {
    let text = format!("{float:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// `1.5e+03` as `1.5×10⁰³`.
fn power_of_ten(text: &str) -> String {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "+00"));
    let raised = exponent.chars().filter_map(|c| match c {
        '-' => Some('⁻'),
        '+' => None,
        digit => {
            let place = digit.to_digit(10)? as usize;
            "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(place)
        }
    });
    format!("{mantissa}×10{}", raised.collect::<String>())
}
