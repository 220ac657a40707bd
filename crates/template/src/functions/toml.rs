//! TOML, in and out. The layout is that of Go's encoder: sorted keys, tables last, nested tables indented by
//! two spaces.

use super::dates::Time;
use super::{Function, table};
use crate::call::{Call, Outcome};
use crate::fault::Fault;
use crate::format::float_general;
use crate::limits::Limit;
use crate::value::{Elements, Int, Kind, List, Map, Str, Value};
use jiff::tz::{Offset, TimeZone};
use std::rc::Rc;
use toml::de::{DeTable, DeValue};
use toml::value::{Datetime, Offset as TomlOffset};

pub(super) const FUNCTIONS: &[Function] = table! {
    "toToml" (Any) => |call| match encoded(call) {
        // the error's text is the result
        Err(Fault::Message(text)) if text.starts_with("toml: ") => call.done(text),
        done => call.done(done?),
    };
    "mustToToml" (Any) => |call| {
        let text = encoded(call)?;
        call.done(text)
    };
    "fromToml" (Str) => from_toml;
};

fn encoded(call: &mut Call<'_, '_>) -> Result<String, Fault> {
    let value = call.arg(0).clone();
    if matches!(value, Value::Absent | Value::Nil) {
        return call.fail("reflect: call of reflect.Value.Type on zero Value");
    }
    let depth = call.depth_max();
    let mut writer = Writer {
        out: String::new(),
        depth,
        call,
    };
    writer.encode(&mut Vec::new(), &value)?;
    Ok(writer.out)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Nothing,
    Plain,
    Table,
    Tables,
}

struct Writer<'a, 'c, 's> {
    out: String,
    depth: usize,
    call: &'a mut Call<'c, 's>,
}

impl Writer<'_, '_, '_> {
    fn form(&mut self, value: &Value, left: usize) -> Result<Form, Fault> {
        let left = left.checked_sub(1).ok_or(Limit::Depth(self.depth))?;
        self.call.exec.meter().step()?;
        Ok(match value {
            value if value.is_nil() => Form::Nothing,
            Value::Map(_) => Form::Table,
            Value::Host(host) if host.text().is_none() && host.kind() != Kind::Slice => Form::Table,
            Value::List(list) => {
                let mut all_tables = !list.is_empty();
                for item in list.items() {
                    match stacker::maybe_grow(64 << 10, 1 << 20, || self.form(item, left))? {
                        Form::Nothing => {
                            return self.call.fail("toml: cannot encode array with nil element");
                        }
                        form => all_tables &= form == Form::Table,
                    }
                }
                if all_tables { Form::Tables } else { Form::Plain }
            }
            _ => Form::Plain,
        })
    }

    fn entries(&mut self, value: &Value) -> Result<Vec<(Str, Value)>, Fault> {
        let entries: Vec<(Str, Value)> = match value {
            Value::Map(map) => map.snapshot(),
            Value::Host(host) => {
                let named = host.entries().unwrap_or_default().into_iter();
                named
                    .filter_map(|(key, value)| match key {
                        Value::String(key) => Some((key, value)),
                        _ => None,
                    })
                    .collect()
            }
            _ => Vec::new(),
        };
        self.call.charge_items(entries.len())?;
        Ok(entries)
    }

    fn encode(&mut self, path: &mut Vec<Str>, value: &Value) -> Result<(), Fault> {
        if path.len() > self.depth {
            return Err(Limit::Depth(self.depth).into());
        }
        match self.form(value, self.depth)? {
            Form::Nothing => Ok(()),
            Form::Table => {
                // a blank line between top-level tables
                if path.len() == 1 && !self.out.is_empty() {
                    self.out.push('\n');
                }
                self.header(path, "[", "]")?;
                self.table(path, value)
            }
            Form::Tables if path.is_empty() => self
                .call
                .fail("toml: top-level values must be Go maps or structs"),
            Form::Tables => {
                let Value::List(list) = value else { return Ok(()) };
                for item in list.items() {
                    if !self.out.is_empty() {
                        self.out.push('\n');
                    }
                    self.header(path, "[[", "]]")?;
                    self.table(path, item)?;
                }
                Ok(())
            }
            Form::Plain => {
                if let Some(key) = path.last() {
                    self.out.push_str(&"  ".repeat(path.len() - 1));
                    write_key(&mut self.out, &key.lossy());
                    self.out.push_str(" = ");
                }
                self.element(value, self.depth)?;
                if !path.is_empty() {
                    self.out.push('\n');
                }
                self.grown()
            }
        }
    }

    fn header(&mut self, path: &[Str], open: &str, close: &str) -> Result<(), Fault> {
        if path.is_empty() {
            return Ok(());
        }
        self.out.push_str(&"  ".repeat(path.len() - 1));
        self.out.push_str(open);
        for (index, key) in path.iter().enumerate() {
            if index > 0 {
                self.out.push('.');
            }
            write_key(&mut self.out, &key.lossy());
        }
        self.out.push_str(close);
        self.out.push('\n');
        self.grown()
    }

    /// Charges the output before it is returned: table names grow with the depth.
    fn grown(&mut self) -> Result<(), Fault> {
        let limit = self.call.exec.limits().output_bytes_max;
        if self.out.len() > limit {
            return Err(Limit::Output(limit).into());
        }
        Ok(())
    }

    fn table(&mut self, path: &mut Vec<Str>, value: &Value) -> Result<(), Fault> {
        let (plain, tables) = self.sorted(value)?;
        for (key, value) in plain.into_iter().chain(tables) {
            path.push(key);
            let written = stacker::maybe_grow(64 << 10, 1 << 20, || self.encode(path, &value));
            path.pop();
            written?;
        }
        Ok(())
    }

    #[expect(clippy::type_complexity, reason = "two lists of the same")]
    fn sorted(&mut self, value: &Value) -> Result<(Vec<(Str, Value)>, Vec<(Str, Value)>), Fault> {
        let (mut plain, mut tables) = (Vec::new(), Vec::new());
        for (key, value) in self.entries(value)? {
            match self.form(&value, self.depth)? {
                Form::Table | Form::Tables => tables.push((key, value)),
                Form::Plain | Form::Nothing => plain.push((key, value)),
            }
        }
        Ok((plain, tables))
    }

    fn element(&mut self, value: &Value, left: usize) -> Result<(), Fault> {
        let left = left.checked_sub(1).ok_or(Limit::Depth(self.depth))?;
        self.call.exec.meter().step()?;
        let out = &mut self.out;
        match value {
            Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
            Value::Int(number, Int::Duration) => {
                let text = super::number_text(*number, Int::Duration);
                write_quoted(out, &text);
            }
            Value::Int(number, _) => out.push_str(&number.to_string()),
            Value::Uint(number, _) => out.push_str(&number.to_string()),
            Value::Float(number) => out.push_str(&float(*number)),
            Value::String(text) => write_quoted(out, &text.lossy()),
            Value::Bytes(bytes) => {
                let numbers: Vec<String> = bytes.as_bytes().iter().map(u8::to_string).collect();
                out.push_str(&format!("[{}]", numbers.join(", ")));
            }
            Value::List(list) => {
                out.push('[');
                for (index, item) in list.items().iter().enumerate() {
                    if index > 0 {
                        self.out.push_str(", ");
                    }
                    stacker::maybe_grow(64 << 10, 1 << 20, || self.element(item, left))?;
                }
                self.out.push(']');
            }
            Value::Host(host) => match (host.as_any().downcast_ref::<Time>(), host.text()) {
                (Some(time), _) => out.push_str(&time_text(time)),
                (None, Some(text)) => write_quoted(out, &text),
                (None, None) => self.inline(value, left)?,
            },
            Value::Map(_) => self.inline(value, left)?,
            Value::Absent | Value::Nil => {}
        }
        self.grown()
    }

    fn inline(&mut self, value: &Value, left: usize) -> Result<(), Fault> {
        let (plain, tables) = self.sorted(value)?;
        let (first, more) = (plain.len(), !tables.is_empty());
        let last = first + tables.len();
        self.out.push('{');
        for (index, (key, value)) in plain.into_iter().chain(tables).enumerate() {
            if value.is_nil() {
                continue;
            }
            write_key(&mut self.out, &key.lossy());
            self.out.push_str(" = ");
            stacker::maybe_grow(64 << 10, 1 << 20, || self.element(&value, left))?;
            // also before one that is nil, as upstream
            if index + 1 < first || index < first && more || index >= first && index + 1 < last {
                self.out.push_str(", ");
            }
        }
        self.out.push('}');
        Ok(())
    }
}

fn write_key(out: &mut String, key: &str) {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !key.is_empty() && key.chars().all(is_bare) {
        out.push_str(key);
    } else {
        write_quoted(out, key);
    }
}

fn write_quoted(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..='\u{1f}' | '\u{7f}' => out.push_str(&format!("\\u{:04x}", character as u32)),
            other => out.push(other),
        }
    }
    out.push('"');
}

fn float(number: f64) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan" } else { "nan" }.into();
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf" } else { "inf" }.into();
    }
    let text = float_general(number);
    if text.contains(['e', '.']) {
        return text;
    }
    format!("{text}.0")
}

/// The zone names that mark times without a zone, so that they are written as they were read.
const DATE_AND_TIME: &str = "datetime-local";
const DATE: &str = "date-local";
const TIME: &str = "time-local";

fn time_text(time: &Time) -> String {
    time.format(match time.zone.as_deref() {
        Some(DATE_AND_TIME) => "2006-01-02T15:04:05.999999999",
        Some(DATE) => "2006-01-02",
        Some(TIME) => "15:04:05.999999999",
        _ => "2006-01-02T15:04:05.999999999Z07:00",
    })
}

fn from_toml(call: &mut Call<'_, '_>) -> Outcome {
    call.charge_slow_read(16)?;
    let length = call.bytes(0).len();
    // a value of two bytes takes as much
    call.made(length.saturating_mul(24))?;
    let text = call.text(0).into_owned();
    let read = DeTable::parse(&text)
        .map_err(|error| {
            (
                error.message().to_owned(),
                error.span().map_or(0, |span| span.start),
            )
        })
        .and_then(|table| {
            let table = table.into_inner();
            read_table(&text, &table)
        });
    Ok(read
        .unwrap_or_else(|(message, at)| {
            let line = 1 + text.as_bytes()[..at.min(text.len())]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count();
            Map::from_iter([("Error".into(), format!("toml: line {line}: {message}").into())])
        })
        .into())
}

/// A value, or an error and its offset.
type ReadResult<T> = Result<T, (String, usize)>;

fn read_table(source: &str, table: &DeTable<'_>) -> ReadResult<Map> {
    table
        .iter()
        .map(|(key, value)| {
            let key = Str::from(key.get_ref().as_ref());
            Ok((key, read_value(source, value.get_ref(), value.span().start)?))
        })
        .collect()
}

// the reader goes at most eighty levels deep
fn read_value(source: &str, value: &DeValue<'_>, at: usize) -> ReadResult<Value> {
    let wrong = |what: &str| (what.to_owned(), at);
    Ok(match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(number) => {
            let digits = number.as_str().replace('_', "");
            let number = i64::from_str_radix(&digits, number.radix());
            Value::int64(number.map_err(|_| wrong("number is out of range for int64"))?)
        }
        DeValue::Float(number) => {
            let number = number.as_str().replace('_', "").parse::<f64>();
            Value::Float(number.map_err(|_| wrong("invalid float"))?)
        }
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(at) => read_time(at).map_err(|error| wrong(&error.to_string()))?.into(),
        DeValue::Array(array) => {
            let mut items = Vec::with_capacity(array.len());
            let mut is_tables = !array.is_empty();
            for item in array.iter() {
                let start = item.span().start;
                // written `[[name]]`, not `{...}`
                is_tables &= item.get_ref().is_table() && !source[start..].starts_with('{');
                items.push(read_value(source, item.get_ref(), start)?);
            }
            let elements = if is_tables { Elements::Maps } else { Elements::Any };
            List::of(elements, items).into()
        }
        DeValue::Table(table) => read_table(source, table)?.into(),
    })
}

fn read_time(at: &Datetime) -> Result<Time, jiff::Error> {
    let date = at.date.map_or(Ok(jiff::civil::date(0, 1, 1)), |date| {
        let year = i16::try_from(date.year).unwrap_or(i16::MAX);
        jiff::civil::Date::new(year, date.month as i8, date.day as i8)
    })?;
    let time = at.time.map_or(Ok(jiff::civil::Time::midnight()), |time| {
        let second = time.second.unwrap_or(0) as i8;
        let nanosecond = time.nanosecond.unwrap_or(0) as i32;
        jiff::civil::Time::new(time.hour as i8, time.minute as i8, second, nanosecond)
    })?;
    let zone = match at.offset {
        None | Some(TomlOffset::Z | TomlOffset::Custom { minutes: 0 }) => TimeZone::UTC,
        Some(TomlOffset::Custom { minutes }) => {
            TimeZone::fixed(Offset::from_seconds(i32::from(minutes) * 60)?)
        }
    };
    let name = match (at.date, at.time, at.offset) {
        (_, _, Some(_)) => None,
        (Some(_), Some(_), None) => Some(DATE_AND_TIME),
        (Some(_), None, None) => Some(DATE),
        (None, _, None) => Some(TIME),
    };
    Ok(Time {
        at: date.to_datetime(time).to_zoned(zone)?,
        zone: name.map(Rc::from),
    })
}
