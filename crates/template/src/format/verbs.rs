//! `printf`: verbs, flags, and Go's texts for operands that do not fit.

use super::number;
use crate::limits::{Limit, Limits};
use crate::value::{Elements, Entries, Int, Kind, List, Map, Uint, Value};
use equate_manifest::go::quote_into;
use std::fmt::Write as _;

/// Greater widths and precisions are ignored.
const WIDTH_MAX: i64 = 1_000_000;

#[derive(Debug, Clone, Copy, Default)]
struct Flags {
    plus: bool,
    minus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
    /// `%+v`
    plus_v: bool,
    /// `%#v`
    sharp_v: bool,
}

pub(super) struct Printer<'l> {
    pub(super) out: Vec<u8>,
    flags: Flags,
    limits: &'l Limits,
}

struct Operands<'a> {
    values: &'a [Value],
    next: usize,
    reordered: bool,
    good_index: bool,
}

impl<'a> Operands<'a> {
    fn take(&mut self) -> Option<&'a Value> {
        let value = self.values.get(self.next)?;
        self.next += 1;
        Some(value)
    }

    /// `[3]`
    fn index(&mut self, format: &[u8], at: &mut usize) -> bool {
        if format.get(*at) != Some(&b'[') {
            return false;
        }
        self.reordered = true;
        let Some(length) = format[*at..].iter().position(|byte| *byte == b']') else {
            self.good_index = false;
            *at += 1;
            return false;
        };
        let digits = &format[*at + 1..*at + length];
        *at += length + 1;
        let index = std::str::from_utf8(digits)
            .ok()
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
            .and_then(|digits| digits.parse::<usize>().ok());
        match index {
            Some(index) if index >= 1 && index <= self.values.len() => {
                self.next = index - 1;
                true
            }
            _ => {
                self.good_index = false;
                false
            }
        }
    }

    /// `*`
    fn star(&mut self) -> Option<i64> {
        match self.take()? {
            Value::Int(value, _) if value.unsigned_abs() <= WIDTH_MAX.unsigned_abs() => Some(*value),
            Value::Uint(value, _) => i64::try_from(*value).ok().filter(|value| *value <= WIDTH_MAX),
            _ => None,
        }
    }
}

fn digits(format: &[u8], at: &mut usize) -> Option<usize> {
    let start = *at;
    let mut value = 0usize;
    while let Some(digit) = format.get(*at).filter(|byte| byte.is_ascii_digit()) {
        value = value * 10 + usize::from(digit - b'0');
        *at += 1;
        if value as i64 > WIDTH_MAX {
            // nothing of the format is left, as in Go
            *at = format.len();
            return None;
        }
    }
    (*at > start).then_some(value)
}

impl<'l> Printer<'l> {
    pub(super) fn new(limits: &'l Limits) -> Self {
        Self {
            out: Vec::new(),
            flags: Flags::default(),
            limits,
        }
    }

    pub(super) fn format(&mut self, format: &[u8], values: &[Value]) -> Result<(), Limit> {
        let mut operands = Operands {
            values,
            next: 0,
            reordered: false,
            good_index: true,
        };
        let mut at = 0;
        while at < format.len() {
            let length = format[at..]
                .iter()
                .position(|byte| *byte == b'%')
                .unwrap_or(format.len() - at);
            self.out.extend_from_slice(&format[at..at + length]);
            at += length;
            if at >= format.len() {
                break;
            }
            at += 1;
            self.directive(format, &mut at, &mut operands)?;
            if self.out.len() > self.limits.output_bytes_max {
                return Err(Limit::Output(self.limits.output_bytes_max));
            }
        }
        self.flags = Flags::default();
        if !operands.reordered && operands.next < values.len() {
            self.extra(&values[operands.next..])?;
        }
        Ok(())
    }

    fn extra(&mut self, values: &[Value]) -> Result<(), Limit> {
        self.text("%!(EXTRA ");
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.text(", ");
            }
            self.with_type(value)?;
        }
        self.text(")");
        Ok(())
    }

    /// `int=1`, as errors show a value.
    fn with_type(&mut self, value: &Value) -> Result<(), Limit> {
        if matches!(value, Value::Nil | Value::Absent) {
            self.text("<nil>");
            return Ok(());
        }
        self.text(value.type_name());
        self.text("=");
        self.value(value, 'v', 0)
    }

    /// Formats one `%...`, starting after the percent sign.
    fn directive(&mut self, format: &[u8], at: &mut usize, operands: &mut Operands<'_>) -> Result<(), Limit> {
        self.flags = Flags::default();
        operands.good_index = true;
        let mut after_index = false;
        loop {
            match format.get(*at) {
                Some(b'#') => self.flags.sharp = true,
                Some(b'0') => self.flags.zero = true,
                Some(b'+') => self.flags.plus = true,
                Some(b'-') => self.flags.minus = true,
                Some(b' ') => self.flags.space = true,
                _ => break,
            }
            *at += 1;
        }
        after_index |= operands.index(format, at);
        if format.get(*at) == Some(&b'*') {
            *at += 1;
            match operands.star() {
                Some(width) => {
                    self.flags.minus |= width < 0;
                    self.flags.width = usize::try_from(width.abs()).ok();
                }
                None => self.text("%!(BADWIDTH)"),
            }
            after_index = false;
        } else {
            self.flags.width = digits(format, at);
            if after_index && self.flags.width.is_some() {
                operands.good_index = false;
            }
        }
        if format.get(*at) == Some(&b'.') {
            *at += 1;
            if after_index {
                operands.good_index = false;
            }
            after_index = operands.index(format, at);
            if format.get(*at) == Some(&b'*') {
                *at += 1;
                match operands.star() {
                    Some(precision) if precision >= 0 => {
                        self.flags.precision = usize::try_from(precision).ok();
                    }
                    _ => self.text("%!(BADPREC)"),
                }
                after_index = false;
            } else {
                self.flags.precision = Some(digits(format, at).unwrap_or(0));
            }
        }
        if !after_index {
            operands.index(format, at);
        }
        let rest = crate::value::lossy(&format[*at..(*at + 4).min(format.len())]).into_owned();
        let Some(verb) = rest.chars().next() else {
            self.text("%!(NOVERB)");
            return Ok(());
        };
        *at += if verb == char::REPLACEMENT_CHARACTER {
            1
        } else {
            verb.len_utf8()
        };
        if verb == '%' {
            self.text("%");
            return Ok(());
        }
        if !operands.good_index {
            self.text(&format!("%!{verb}(BADINDEX)"));
            return Ok(());
        }
        let Some(value) = operands.take() else {
            self.text(&format!("%!{verb}(MISSING)"));
            return Ok(());
        };
        if verb == 'v' {
            self.flags.sharp_v = self.flags.sharp;
            self.flags.sharp = false;
            self.flags.plus_v = self.flags.plus;
            self.flags.plus = false;
        }
        self.value(value, verb, 0)
    }

    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn pad(&mut self, bytes: &[u8]) {
        let width = self.flags.width.unwrap_or(0);
        if width == 0 {
            self.out.extend_from_slice(bytes);
            return;
        }
        let missing = width.saturating_sub(crate::value::lossy(bytes).chars().count());
        if self.flags.minus {
            self.out.extend_from_slice(bytes);
            self.out.resize(self.out.len() + missing, b' ');
        } else {
            let fill = if self.flags.zero { b'0' } else { b' ' };
            self.out.resize(self.out.len() + missing, fill);
            self.out.extend_from_slice(bytes);
        }
    }

    fn bad_verb(&mut self, verb: char, value: &Value) -> Result<(), Limit> {
        self.text(&format!("%!{verb}("));
        self.with_type(value)?;
        self.text(")");
        Ok(())
    }

    pub(super) fn value(&mut self, value: &Value, verb: char, depth: usize) -> Result<(), Limit> {
        if depth > self.limits.value_depth_max {
            return Err(Limit::Depth(self.limits.value_depth_max));
        }
        if self.out.len() > self.limits.output_bytes_max {
            return Err(Limit::Output(self.limits.output_bytes_max));
        }
        if verb == 'p' && matches!(value, Value::List(_) | Value::Map(_) | Value::Bytes(_)) {
            // a placeholder: there is no address to show
            self.pad(b"0xc000000000");
            return Ok(());
        }
        if verb == 'T' && depth == 0 {
            self.string(value.type_name().as_bytes(), 's', value)?;
            return Ok(());
        }
        if let Some(text) = stringer(value)
            && !self.flags.sharp_v
            && matches!(verb, 'v' | 's' | 'x' | 'X' | 'q')
        {
            return self.string(text.as_bytes(), verb, value);
        }
        match value {
            Value::Absent | Value::Nil if depth > 0 => {
                let shown = if self.flags.sharp_v {
                    "interface {}(nil)"
                } else {
                    "<nil>"
                };
                self.text(shown);
            }
            Value::Absent | Value::Nil => match verb {
                'v' if self.flags.sharp_v => self.text("<nil>"),
                'v' => self.pad(b"<nil>"),
                _ => return self.bad_verb(verb, value),
            },
            Value::Bool(flag) => match verb {
                't' | 'v' => self.pad(if *flag { b"true" } else { b"false" }),
                _ => return self.bad_verb(verb, value),
            },
            Value::Int(number, _) => {
                return self.integer(number.unsigned_abs(), *number < 0, true, verb, value);
            }
            Value::Uint(number, _) => return self.integer(*number, false, false, verb, value),
            Value::Float(number) => return self.float(*number, verb, value),
            Value::String(text) => return self.string(text.as_bytes(), verb, value),
            Value::Bytes(bytes) => match verb {
                's' | 'x' | 'X' | 'q' => return self.string(bytes.as_bytes(), verb, value),
                _ => {
                    let items = bytes.as_bytes().iter();
                    let items = items
                        .map(|byte| Value::Uint((*byte).into(), Uint::Uint8))
                        .collect();
                    return self.list(&List::of(Elements::Int, items), "[]byte", verb, depth);
                }
            },
            Value::List(list) => return self.list(list, list.elements().slice_name(), verb, depth),
            Value::Map(map) => return self.map(map, verb, depth),
            Value::Host(host) => match host.entries() {
                Some(entries) if host.kind() == Kind::Map => {
                    let entries = entries.into_iter().filter_map(|(key, value)| match key {
                        Value::String(key) => Some((key, value)),
                        _ => None,
                    });
                    return self.map(&entries.collect(), verb, depth);
                }
                Some(entries) => {
                    self.text("{");
                    for (index, (name, field)) in entries.iter().enumerate() {
                        if index > 0 {
                            self.text(" ");
                        }
                        if self.flags.plus_v
                            && let Value::String(name) = name
                        {
                            self.text(&name.lossy());
                            self.text(":");
                        }
                        self.value(field, verb, depth + 1)?;
                    }
                    self.text("}");
                }
                None => self.text(&format!("{{{}}}", host.type_name())),
            },
        }
        Ok(())
    }

    fn list(&mut self, list: &List, name: &str, verb: char, depth: usize) -> Result<(), Limit> {
        let (open, between, close) = if self.flags.sharp_v {
            self.text(name);
            if list.is_nil() {
                self.text("(nil)");
                return Ok(());
            }
            ("{", ", ", "}")
        } else {
            ("[", " ", "]")
        };
        self.text(open);
        for (index, item) in list.items().iter().enumerate() {
            if index > 0 {
                self.text(between);
            }
            stacker::maybe_grow(64 << 10, 1 << 20, || self.value(item, verb, depth + 1))?;
        }
        self.text(close);
        Ok(())
    }

    fn map(&mut self, map: &Map, verb: char, depth: usize) -> Result<(), Limit> {
        let (open, between, close) = if self.flags.sharp_v {
            self.text(map.entries_type().map_name());
            if map.is_nil() {
                self.text("(nil)");
                return Ok(());
            }
            ("{", ", ", "}")
        } else {
            ("map[", " ", "]")
        };
        self.text(open);
        let Some(entries) = map.read() else {
            self.text(close);
            return Ok(());
        };
        for (index, (key, value)) in entries.iter().enumerate() {
            if index > 0 {
                self.text(between);
            }
            self.string(key.as_bytes(), verb, &Value::String(key.clone()))?;
            self.text(":");
            stacker::maybe_grow(64 << 10, 1 << 20, || {
                // typed strings are not interfaces and never nil
                debug_assert!(map.entries_type() != Entries::String || matches!(value, Value::String(_)));
                self.value(value, verb, depth + 1)
            })?;
        }
        self.text(close);
        Ok(())
    }

    fn integer(
        &mut self,
        number: u64,
        negative: bool,
        signed: bool,
        verb: char,
        value: &Value,
    ) -> Result<(), Limit> {
        let flags = self.flags;
        let (radix, prefix) = match verb {
            'v' if flags.sharp_v && !signed => (16, "0x"),
            'v' | 'd' => (10, ""),
            'b' => (2, if flags.sharp { "0b" } else { "" }),
            'o' => (8, if flags.sharp { "0" } else { "" }),
            'O' => (8, "0o"),
            'x' => (16, if flags.sharp { "0x" } else { "" }),
            'X' => (16, if flags.sharp { "0X" } else { "" }),
            'c' => {
                let character = u32::try_from(number)
                    .ok()
                    .filter(|_| !negative)
                    .and_then(char::from_u32);
                let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
                self.pad(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            'q' => {
                let code = i64::try_from(number).unwrap_or(-1);
                let text = number::quote_char(if negative { -code } else { code }, flags.plus);
                self.pad(text.as_bytes());
                return Ok(());
            }
            'U' => {
                let code = if negative { number.wrapping_neg() } else { number };
                let mut text = format!("U+{code:04X}");
                if flags.sharp
                    && let Some(character) = u32::try_from(code).ok().and_then(char::from_u32)
                    && equate_manifest::go::is_printable(character)
                {
                    let _ = write!(text, " '{character}'");
                }
                self.pad(text.as_bytes());
                return Ok(());
            }
            _ => return self.bad_verb(verb, value),
        };
        let sign = match (negative, flags.plus || flags.plus_v && verb != 'v', flags.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        };
        let digits = match radix {
            2 => format!("{number:b}"),
            8 => format!("{number:o}"),
            16 if verb == 'X' => format!("{number:X}"),
            16 => format!("{number:x}"),
            _ => number.to_string(),
        };
        let least = match flags.precision {
            Some(0) if number == 0 => {
                self.flags.zero = false;
                self.pad(b"");
                return Ok(());
            }
            Some(precision) => precision,
            None if flags.zero && !flags.minus => flags.width.unwrap_or(0).saturating_sub(sign.len()),
            None => 0,
        };
        let zeros = "0".repeat(least.saturating_sub(digits.len()));
        let prefix = if verb == 'o' && (zeros.ends_with('0') || digits.starts_with('0')) {
            ""
        } else {
            prefix
        };
        let text = format!("{sign}{prefix}{zeros}{digits}");
        self.flags.zero = false;
        self.pad(text.as_bytes());
        self.flags = flags;
        Ok(())
    }

    fn float(&mut self, number: f64, verb: char, value: &Value) -> Result<(), Limit> {
        let flags = self.flags;
        let text = match verb {
            'v' | 'g' | 'G' if flags.sharp => {
                let precision = flags.precision.unwrap_or(6);
                number::with_zeros(
                    &number::float(number, 'g', flags.precision),
                    precision,
                    verb == 'G',
                )
            }
            'x' | 'X' => number::hexadecimal(number, flags.precision, flags.sharp, verb == 'X'),
            'b' => number::binary(number),
            'v' => number::float(number, 'g', flags.precision),
            'g' | 'G' => number::float(number, verb, flags.precision),
            'e' | 'E' | 'f' | 'F' => {
                let verb = if verb == 'F' { 'f' } else { verb };
                number::float(number, verb, Some(flags.precision.unwrap_or(6)))
            }
            _ => return self.bad_verb(verb, value),
        };
        let is_finite = number.is_finite();
        if !is_finite {
            self.flags.zero = false;
        }
        let text = match text.strip_prefix('+') {
            Some(rest) if flags.plus => format!("+{rest}"),
            Some(rest) if flags.space => format!(" {rest}"),
            Some("Inf") => "+Inf".to_owned(),
            Some(rest) => rest.to_owned(),
            None => text,
        };
        let width = flags.width.unwrap_or(0);
        if flags.zero && !flags.minus && is_finite && width > text.len() && text.starts_with(['+', '-', ' '])
        {
            let (sign, rest) = text.split_at(1);
            let zeros = "0".repeat(width - text.len());
            self.text(&format!("{sign}{zeros}{rest}"));
        } else {
            self.pad(text.as_bytes());
        }
        self.flags = flags;
        Ok(())
    }

    fn string(&mut self, bytes: &[u8], verb: char, value: &Value) -> Result<(), Limit> {
        match verb {
            'v' if self.flags.sharp_v => self.quoted(bytes),
            'v' | 's' => {
                let bytes = self.cut(bytes);
                self.pad(bytes);
            }
            'q' => {
                let bytes = self.cut(bytes);
                self.quoted(bytes);
            }
            'x' | 'X' => {
                let bytes = &bytes[..self.flags.precision.unwrap_or(bytes.len()).min(bytes.len())];
                let text = self.hexadecimal(bytes, verb == 'X');
                self.pad(text.as_bytes());
            }
            _ => return self.bad_verb(verb, value),
        }
        Ok(())
    }

    /// The first characters, up to the precision.
    fn cut<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let Some(precision) = self.flags.precision else {
            return bytes;
        };
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                let end = text
                    .char_indices()
                    .nth(precision)
                    .map_or(bytes.len(), |(at, _)| at);
                &bytes[..end]
            }
            Err(_) => &bytes[..precision.min(bytes.len())],
        }
    }

    fn quoted(&mut self, bytes: &[u8]) {
        let text = std::str::from_utf8(bytes).ok().filter(|text| {
            self.flags.sharp && !text.contains('`') && text.chars().all(|c| c == '\t' || !c.is_control())
        });
        let quoted = match text {
            Some(text) => format!("`{text}`"),
            None => {
                let mut quoted = String::with_capacity(bytes.len() + 2);
                quote_into(&mut quoted, bytes, '"', self.flags.plus);
                quoted
            }
        };
        self.pad(quoted.as_bytes());
    }

    fn hexadecimal(&self, bytes: &[u8], upper: bool) -> String {
        let prefix = match (self.flags.sharp, upper) {
            (false, _) => "",
            (true, false) => "0x",
            (true, true) => "0X",
        };
        let mut text = String::with_capacity(bytes.len() * 2);
        for (index, byte) in bytes.iter().enumerate() {
            if index > 0 && self.flags.space {
                text.push(' ');
            }
            if index == 0 || self.flags.space {
                text.push_str(prefix);
            }
            let _ = if upper {
                write!(text, "{byte:02X}")
            } else {
                write!(text, "{byte:02x}")
            };
        }
        text
    }
}

/// The result of a value's own `String` method.
fn stringer(value: &Value) -> Option<String> {
    match value {
        Value::Int(number, kind @ (Int::Duration | Int::Month | Int::Weekday)) => {
            Some(crate::functions::number_text(*number, *kind))
        }
        Value::Host(host) => host.text(),
        _ => None,
    }
}
