//! Values, borrowed from the objects and the program as far as possible.
//!
//! A [`Schema`] types JSON only where an expression reads it: a list or an object stays a reference until
//! then.

use crate::budget::Budget;
use crate::error::{Fail, FailureKind};
use crate::functions::Opaque;
use equate_manifest::json::go_float;
use jiff::Timestamp;
use serde_json::Value;
use std::cmp::Ordering;
use std::fmt;
use std::rc::Rc;

/// The fields of a JSON object.
pub type Fields = serde_json::Map<String, Value>;

/// The result of an evaluation.
pub type Evaluated<'a> = Result<Val<'a>, Fail>;

pub(crate) const VAL_BYTES: usize = size_of::<Val<'static>>();

/// The types of JSON values.
pub trait Schema: fmt::Debug {
    /// Reads a value of this type.
    fn read<'a>(&'a self, value: &'a Value) -> Evaluated<'a>;

    /// Reads an item of this list.
    fn item<'a>(&'a self, value: &'a Value) -> Evaluated<'a>;

    /// Reads a field of this object by its name in expressions.
    fn field<'a>(&'a self, fields: &'a Fields, name: &str) -> Option<Evaluated<'a>>;

    /// The names of the present fields.
    fn names<'a>(&'a self, fields: &'a Fields) -> Vec<Val<'a>>;

    /// The name of this type of object.
    fn object_name(&self) -> &'static str;

    /// How items of this list are compared.
    fn list_kind(&self) -> ListKind;

    /// Whether items of this keyed list have one key.
    fn is_same_item(&self, one: &Value, other: &Value) -> bool;
}

/// How lists are compared and joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// By position.
    Atomic,
    /// In any order.
    Set,
    /// In any order, by key.
    Keyed,
}

/// JSON without a schema.
#[derive(Debug)]
pub struct Untyped;

/// The only one.
pub static UNTYPED: Untyped = Untyped;

impl Schema for Untyped {
    fn read<'a>(&'a self, value: &'a Value) -> Evaluated<'a> {
        Ok(match value {
            Value::Null => Val::Null,
            Value::Bool(b) => Val::Bool(*b),
            Value::Number(number) => match number.as_i64() {
                Some(integer) => Val::Int(integer),
                None => Val::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Val::Text(Text::Borrowed(text)),
            Value::Array(items) => Val::List(List::Json(items, self)),
            Value::Object(fields) => Val::Map(Map::Json(fields, self)),
        })
    }

    fn item<'a>(&'a self, value: &'a Value) -> Evaluated<'a> {
        self.read(value)
    }

    fn field<'a>(&'a self, fields: &'a Fields, name: &str) -> Option<Evaluated<'a>> {
        fields.get(name).map(|value| self.read(value))
    }

    fn names<'a>(&'a self, fields: &'a Fields) -> Vec<Val<'a>> {
        let names = fields.keys();
        names.map(|name| Val::Text(Text::Borrowed(name))).collect()
    }

    fn object_name(&self) -> &'static str {
        "map"
    }

    fn list_kind(&self) -> ListKind {
        ListKind::Atomic
    }

    fn is_same_item(&self, _one: &Value, _other: &Value) -> bool {
        false
    }
}

/// A value of an expression.
#[derive(Debug, Clone)]
pub enum Val<'a> {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A float.
    Double(f64),
    /// A text.
    Text(Text<'a>),
    /// Bytes.
    Bytes(Bytes<'a>),
    /// Nanoseconds.
    Duration(i64),
    /// An instant.
    Time(Timestamp),
    /// A list.
    List(List<'a>),
    /// A map or an object.
    Map(Map<'a>),
    /// An optional value.
    Optional(Option<Rc<Val<'a>>>),
    /// A type, by name.
    Type(&'static str),
    /// A library's value.
    Opaque(Opaque),
    /// Data without a schema among data with one.
    Unknown(&'a Value),
}

/// A text.
#[derive(Debug, Clone)]
pub enum Text<'a> {
    /// Of an object or the program.
    Borrowed(&'a str),
    /// Made by the run.
    Shared(Rc<str>),
}

impl Text<'_> {
    /// The text.
    pub fn as_str(&self) -> &str {
        match self {
            Text::Borrowed(s) => s,
            Text::Shared(s) => s,
        }
    }
}

/// Bytes.
#[derive(Debug, Clone)]
pub enum Bytes<'a> {
    /// Of the program.
    Borrowed(&'a [u8]),
    /// Made by the run.
    Shared(Rc<[u8]>),
}

impl Bytes<'_> {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Borrowed(b) => b,
            Bytes::Shared(b) => b,
        }
    }
}

/// A list.
#[derive(Debug, Clone)]
pub enum List<'a> {
    /// Of an object.
    Json(&'a Vec<Value>, &'a dyn Schema),
    /// Made by the run.
    Own(Rc<Vec<Val<'a>>>),
}

/// A map or an object.
#[derive(Debug, Clone)]
pub enum Map<'a> {
    /// Of an object.
    Json(&'a Fields, &'a dyn Schema),
    /// Made by the run.
    Own(Rc<Vec<(Val<'a>, Val<'a>)>>),
}

impl<'a> Val<'a> {
    pub(crate) fn text(text: impl Into<Rc<str>>) -> Self {
        Val::Text(Text::Shared(text.into()))
    }

    /// Bytes.
    pub fn bytes(bytes: impl Into<Rc<[u8]>>) -> Self {
        Val::Bytes(Bytes::Shared(bytes.into()))
    }

    pub(crate) fn list(items: Vec<Val<'a>>) -> Self {
        Val::List(List::Own(Rc::new(items)))
    }

    pub(crate) fn map(entries: Vec<(Val<'a>, Val<'a>)>) -> Self {
        Val::Map(Map::Own(Rc::new(entries)))
    }

    /// A present optional.
    pub fn some(value: Val<'a>) -> Self {
        Val::Optional(Some(Rc::new(value)))
    }

    pub(crate) fn count(count: usize) -> Self {
        Val::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// The name that `type()` gives.
    pub fn type_name(&self) -> &'static str {
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::UInt(_) => "uint",
            Val::Double(_) => "double",
            Val::Text(_) => "string",
            Val::Bytes(_) => "bytes",
            Val::Duration(_) => "google.protobuf.Duration",
            Val::Time(_) => "google.protobuf.Timestamp",
            Val::List(_) => "list",
            Val::Map(Map::Json(_, schema)) => schema.object_name(),
            Val::Map(_) => "map",
            Val::Optional(_) => "optional_type",
            Val::Type(_) => "type",
            Val::Opaque(value) => value.type_name(),
            Val::Unknown(_) => "unknown",
        }
    }

    /// CEL's `==`: numbers compare across their types, sets and keyed lists regardless of order.
    pub(crate) fn equals(&self, other: &Val<'_>, budget: &mut Budget<'_>) -> Result<bool, Fail> {
        Ok(match (self, other) {
            (Val::Null, Val::Null) => true,
            (Val::Bool(a), Val::Bool(b)) => a == b,
            (Val::Int(a), Val::Int(b)) => a == b,
            (Val::Int(_) | Val::UInt(_) | Val::Double(_), Val::Int(_) | Val::UInt(_) | Val::Double(_)) => {
                self.order(other) == Some(Ordering::Equal)
            }
            (Val::Text(a), Val::Text(b)) => {
                let (a, b) = (a.as_str(), b.as_str());
                a.len() == b.len() && {
                    budget.read(a.len())?;
                    a == b
                }
            }
            (Val::Bytes(a), Val::Bytes(b)) => {
                let (a, b) = (a.as_slice(), b.as_slice());
                a.len() == b.len() && {
                    budget.read(a.len())?;
                    a == b
                }
            }
            (Val::Duration(a), Val::Duration(b)) => a == b,
            (Val::Time(a), Val::Time(b)) => a == b,
            (Val::Type(a), Val::Type(b)) => a == b,
            (Val::Opaque(a), Val::Opaque(b)) => a == b,
            (Val::Unknown(a), Val::Unknown(b)) => same_json(a, b, budget)?,
            (Val::Optional(a), Val::Optional(b)) => match (a, b) {
                (None, None) => true,
                (Some(a), Some(b)) => {
                    budget.spend(1)?;
                    a.equals(b, budget)?
                }
                _ => false,
            },
            (Val::List(a), Val::List(b)) => a.equals(b, budget)?,
            (Val::Map(a), Val::Map(b)) => a.equals(b, budget)?,
            _ => false,
        })
    }

    /// The order of two values; `None` if they have none.
    pub(crate) fn compare(&self, other: &Val<'_>, budget: &mut Budget<'_>) -> Result<Option<Ordering>, Fail> {
        budget.read(self.byte_count().min(other.byte_count()))?;
        Ok(self.order(other))
    }

    /// Whether values of this type have an order.
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(
            self,
            Val::Int(_)
                | Val::UInt(_)
                | Val::Double(_)
                | Val::Text(_)
                | Val::Bytes(_)
                | Val::Bool(_)
                | Val::Duration(_)
                | Val::Time(_)
        )
    }

    /// A total order of values of one type.
    pub(crate) fn sort_order(&self, other: &Val<'_>) -> Ordering {
        match (self, other) {
            (Val::Double(a), Val::Double(b)) => a.total_cmp(b),
            _ => self.order(other).unwrap_or(Ordering::Equal),
        }
    }

    /// The length of a text, or of bytes.
    pub(crate) fn byte_count(&self) -> usize {
        match self {
            Val::Text(text) => text.as_str().len(),
            Val::Bytes(bytes) => bytes.as_slice().len(),
            _ => 0,
        }
    }

    fn order(&self, other: &Val<'_>) -> Option<Ordering> {
        match (self, other) {
            (Val::Int(a), Val::Int(b)) => Some(a.cmp(b)),
            (Val::UInt(a), Val::UInt(b)) => Some(a.cmp(b)),
            (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
            (Val::Int(a), Val::UInt(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Val::UInt(a), Val::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Val::Int(a), Val::Double(b)) => int_double(i128::from(*a), *b),
            (Val::UInt(a), Val::Double(b)) => int_double(i128::from(*a), *b),
            (Val::Double(a), Val::Int(b)) => int_double(i128::from(*b), *a).map(Ordering::reverse),
            (Val::Double(a), Val::UInt(b)) => int_double(i128::from(*b), *a).map(Ordering::reverse),
            (Val::Text(a), Val::Text(b)) => Some(a.as_str().cmp(b.as_str())),
            (Val::Bytes(a), Val::Bytes(b)) => Some(a.as_slice().cmp(b.as_slice())),
            (Val::Bool(a), Val::Bool(b)) => Some(a.cmp(b)),
            (Val::Duration(a), Val::Duration(b)) => Some(a.cmp(b)),
            (Val::Time(a), Val::Time(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }
}

fn int_double(i: i128, f: f64) -> Option<Ordering> {
    if f.is_nan() {
        return None;
    }
    if f >= 1.8e19 {
        return Some(Ordering::Less);
    }
    if f <= -9.3e18 {
        return Some(Ordering::Greater);
    }
    let fraction = 0.0_f64.partial_cmp(&f.fract()).unwrap_or(Ordering::Equal);
    Some(i.cmp(&(f.trunc() as i128)).then(fraction))
}

fn same_json(a: &Value, b: &Value, budget: &mut Budget<'_>) -> Result<bool, Fail> {
    budget.spend(1)?;
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b) {
                if !same_json(a, b, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Object(a), Value::Object(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (name, a) in a {
                let Some(b) = b.get(name) else { return Ok(false) };
                if !same_json(a, b, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::String(a), Value::String(b)) => {
            budget.read(a.len().min(b.len()))?;
            Ok(a == b)
        }
        (a, b) => Ok(a == b),
    }
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            List::Json(items, _) => items.len(),
            List::Own(items) => items.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Evaluated<'a>> {
        match self {
            List::Json(items, schema) => items.get(index).map(|item| schema.item(item)),
            List::Own(items) => items.get(index).cloned().map(Ok),
        }
    }

    /// All items; the caller pays for them.
    pub(crate) fn items(&self) -> impl Iterator<Item = Evaluated<'a>> + use<'a, '_> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// The index of a value, from the front or from the back.
    pub(crate) fn position(
        &self,
        value: &Val<'_>,
        from_end: bool,
        budget: &mut Budget<'_>,
    ) -> Result<Option<usize>, Fail> {
        let count = self.len();
        for step in 0..count {
            let index = if from_end { count - 1 - step } else { step };
            budget.spend(1)?;
            if let Some(item) = self.get(index)
                && item?.equals(value, budget)?
            {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    fn kind(&self) -> ListKind {
        match self {
            List::Json(_, schema) => schema.list_kind(),
            List::Own(_) => ListKind::Atomic,
        }
    }

    fn equals(&self, other: &List<'_>, budget: &mut Budget<'_>) -> Result<bool, Fail> {
        if self.len() != other.len() {
            return Ok(false);
        }
        let in_order = self.kind() == ListKind::Atomic;
        for index in 0..self.len() {
            budget.spend(1)?;
            let Some(Ok(item)) = self.get(index) else {
                return Ok(false);
            };
            let found = if in_order {
                match other.get(index) {
                    Some(Ok(same)) => item.equals(&same, budget)?,
                    _ => false,
                }
            } else {
                other.position(&item, false, budget)?.is_some()
            };
            if !found {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// `a + b`: sets and keyed lists are merged, other lists joined.
    pub(crate) fn join(&self, other: &List<'a>, budget: &mut Budget<'_>) -> Evaluated<'a> {
        let count = self.len() + other.len();
        budget.spend(count)?;
        budget.hold(count * VAL_BYTES)?;
        let mut out = Vec::with_capacity(count);
        for item in self.items() {
            out.push(item?);
        }
        if let (List::Json(left, schema), List::Json(right, _), ListKind::Keyed) = (self, other, self.kind())
        {
            for (index, item) in right.iter().enumerate() {
                let Some(value) = other.get(index).transpose()? else {
                    continue;
                };
                budget.spend(left.len())?;
                match left.iter().rposition(|one| schema.is_same_item(one, item)) {
                    Some(at) => out[at] = value,
                    None => out.push(value),
                }
            }
            return Ok(Val::list(out));
        }
        let is_set = self.kind() == ListKind::Set;
        for value in other.items() {
            let value = value?;
            let mut is_new = true;
            if is_set {
                for known in &out {
                    budget.spend(1)?;
                    if known.equals(&value, budget)? {
                        is_new = false;
                        break;
                    }
                }
            }
            if is_new {
                out.push(value);
            }
        }
        Ok(Val::list(out))
    }
}

impl<'a> Map<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Map::Json(fields, _) => fields.len(),
            Map::Own(entries) => entries.len(),
        }
    }

    /// A field that the expression names.
    pub(crate) fn field(&self, name: &str, budget: &mut Budget<'_>) -> Result<Option<Val<'a>>, Fail> {
        match self {
            Map::Json(fields, schema) => schema.field(fields, name).transpose(),
            Map::Own(_) => self.get(&Val::Text(Text::Borrowed(name)), budget),
        }
    }

    pub(crate) fn get(&self, key: &Val<'_>, budget: &mut Budget<'_>) -> Result<Option<Val<'a>>, Fail> {
        match self {
            Map::Json(fields, schema) => match key {
                Val::Text(key) => {
                    budget.read(key.as_str().len())?;
                    schema.field(fields, key.as_str()).transpose()
                }
                _ => Ok(None),
            },
            Map::Own(entries) => {
                budget.spend(entries.len() / 4)?;
                for (known, value) in entries.iter() {
                    if known.equals(key, budget)? {
                        return Ok(Some(value.clone()));
                    }
                }
                Ok(None)
            }
        }
    }

    /// All keys; the caller pays for them.
    pub(crate) fn keys(&self) -> Vec<Val<'a>> {
        match self {
            Map::Json(fields, schema) => schema.names(fields),
            Map::Own(entries) => entries.iter().map(|(key, _)| key.clone()).collect(),
        }
    }

    fn equals(&self, other: &Map<'_>, budget: &mut Budget<'_>) -> Result<bool, Fail> {
        if self.len() != other.len() {
            return Ok(false);
        }
        budget.spend(self.len())?;
        for key in self.keys() {
            let same = match (self.get(&key, budget), other.get(&key, budget)) {
                (Ok(Some(a)), Ok(Some(b))) => a.equals(&b, budget)?,
                (Err(fail), _) | (_, Err(fail)) if fail.is_final() => return Err(fail),
                _ => false,
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// cel-go's error about an index of a list.
pub(crate) fn bad_index(index: &Val<'_>) -> Fail {
    let text = format!("unsupported index type '{}' in list", index.type_name());
    Fail::of(FailureKind::Overload, text)
}

/// RFC 3339 with an offset, as `timestamp()` reads it.
pub fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let offset = bytes.len().checked_sub(6).map(|at| bytes[at]);
    let is_strict =
        bytes.get(10) == Some(&b'T') && (text.ends_with('Z') || matches!(offset, Some(b'+' | b'-')));
    text.parse().ok().filter(|_| is_strict)
}

/// RFC 3339; without an offset it is UTC.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    text.parse::<Timestamp>().ok().or_else(|| {
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    })
}

/// The member of a list or map; `None` if it is absent.
pub(crate) fn member<'a>(
    operand: &Val<'a>,
    index: &Val<'_>,
    budget: &mut Budget<'_>,
) -> Result<Option<Val<'a>>, Fail> {
    match operand {
        Val::Map(map) => map.get(index, budget),
        Val::List(list) => {
            let at = match index {
                Val::Int(i) => usize::try_from(*i).ok(),
                Val::UInt(u) => usize::try_from(*u).ok(),
                Val::Double(d) if d.fract() == 0.0 && *d >= 0.0 => Some(*d as usize),
                Val::Double(d) => {
                    let text = format!("unsupported index value {} in list", go_float(*d));
                    return Err(Fail::of(FailureKind::Overload, text));
                }
                other => return Err(bad_index(other)),
            };
            at.and_then(|at| list.get(at)).transpose()
        }
        _ => Err(Fail::no_overload()),
    }
}
