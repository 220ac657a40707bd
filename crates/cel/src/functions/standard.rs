//! The language's own functions: sizes, conversions, optionals, base64.

use super::{Function, time};
use crate::error::{Fail, FailureKind};
use crate::eval::Run;
use crate::value::{Evaluated, Val, parse_timestamp};
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use base64::{DecodeError, Engine as _};
use equate_manifest::go::duration;
use equate_manifest::json::go_float;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("size", size),
    Function::new("type", |_, args| match args {
        [value] => Ok(Val::Type(value.type_name())),
        _ => Err(Fail::no_overload()),
    }),
    Function::new("dyn", |_, args| match args {
        [value] => Ok(value.clone()),
        _ => Err(Fail::no_overload()),
    }),
    Function::new("int", |_, args| convert(args, "int", to_int)),
    Function::new("uint", |_, args| convert(args, "uint", to_uint)),
    Function::new("double", |_, args| convert(args, "double", to_double)),
    Function::new("bool", |_, args| convert(args, "bool", to_bool)),
    Function::new("string", to_text),
    Function::new("bytes", to_bytes),
    Function::new("duration", |_, args| {
        convert(args, "google.protobuf.Duration", to_duration)
    }),
    Function::new("timestamp", |_, args| {
        convert(args, "google.protobuf.Timestamp", to_time)
    }),
    Function::new("optional.none", |_, args| match args {
        [] => Ok(Val::Optional(None)),
        _ => Err(Fail::no_overload()),
    }),
    Function::new("optional.of", |_, args| match args {
        [value] => Ok(Val::some(value.clone())),
        _ => Err(Fail::no_overload()),
    }),
    Function::new("optional.ofNonZeroValue", |_, args| match args {
        [value] if is_zero(value) => Ok(Val::Optional(None)),
        [value] => Ok(Val::some(value.clone())),
        _ => Err(Fail::no_overload()),
    }),
    Function::new("hasValue", |_, args| match args {
        [Val::Optional(inner)] => Ok(Val::Bool(inner.is_some())),
        _ => Err(Fail::no_overload()),
    }),
    Function::new("value", |_, args| match args {
        [Val::Optional(Some(inner))] => Ok((**inner).clone()),
        [Val::Optional(None)] => Err(Fail::new("optional.none() dereference")),
        _ => Err(Fail::no_overload()),
    }),
    Function::new("or", |_, args| match args {
        [Val::Optional(inner), Val::Optional(_)] => Ok(args[usize::from(inner.is_none())].clone()),
        _ => Err(Fail::no_overload()),
    }),
    Function::new("orValue", |_, args| match args {
        [Val::Optional(Some(inner)), _] => Ok((**inner).clone()),
        [Val::Optional(None), other] => Ok(other.clone()),
        _ => Err(Fail::no_overload()),
    }),
    Function::flux("base64.encode", |run, args| match args {
        [Val::Bytes(bytes)] => {
            let bytes = bytes.as_slice();
            run.budget.write(bytes.len() / 3 * 4 + 4)?;
            Ok(Val::text(STANDARD.encode(bytes)))
        }
        _ => Err(Fail::no_overload()),
    }),
    Function::flux("base64.decode", |run, args| match args {
        [Val::Text(text)] => {
            let text = text.as_str();
            run.budget.write(text.len())?;
            let decoded = STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text));
            decoded.map(Val::bytes).map_err(|error| {
                let at = match error {
                    DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
                    DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len(),
                };
                Fail::new(format!("illegal base64 data at input byte {at}"))
            })
        }
        _ => Err(Fail::no_overload()),
    }),
];

fn size<'a>(_run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Text(text)] => Ok(Val::count(text.as_str().chars().count())),
        [Val::Bytes(bytes)] => Ok(Val::count(bytes.as_slice().len())),
        [Val::List(list)] => Ok(Val::count(list.len())),
        [Val::Map(map)] => Ok(Val::count(map.len())),
        _ => Err(Fail::no_overload()),
    }
}

fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null | Val::Optional(None) => true,
        Val::Bool(b) => !b,
        Val::Int(i) => *i == 0,
        Val::UInt(u) => *u == 0,
        Val::Double(d) => *d == 0.0,
        Val::Text(t) => t.as_str().is_empty(),
        Val::Bytes(b) => b.as_slice().is_empty(),
        Val::List(l) => l.len() == 0,
        Val::Map(m) => m.len() == 0,
        Val::Duration(d) => *d == 0,
        _ => false,
    }
}

/// `Ok(None)`: the text has another format.
type Converted<'a> = Result<Option<Val<'a>>, Fail>;

fn convert<'a>(args: &[Val<'a>], to: &str, conversion: fn(&Val<'_>) -> Converted<'a>) -> Evaluated<'a> {
    let [value] = args else {
        return Err(Fail::no_overload());
    };
    if value.type_name() == to {
        return Ok(value.clone());
    }
    conversion(value)?.ok_or_else(|| {
        let from = value.type_name();
        Fail::new(format!("type conversion error from '{from}' to '{to}'"))
    })
}

fn to_int<'a>(value: &Val<'_>) -> Converted<'a> {
    match value {
        Val::UInt(u) => Ok(Some(Val::Int(i64::try_from(*u).map_err(|_| Fail::overflow())?))),
        // beyond this, neighbours are no integers of 64 bits
        Val::Double(d) if d.abs() < 9.223_372_036_854_775e18 => Ok(Some(Val::Int(d.trunc() as i64))),
        Val::Double(_) => Err(Fail::overflow()),
        Val::Text(t) => Ok(t.as_str().parse().ok().map(Val::Int)),
        Val::Time(t) => Ok(Some(Val::Int(t.as_second()))),
        Val::Duration(d) => Ok(Some(Val::Int(*d))),
        _ => Err(Fail::no_overload()),
    }
}

fn to_uint<'a>(value: &Val<'_>) -> Converted<'a> {
    let max = 1.844_674_407_370_955e19;
    match value {
        Val::Int(i) => Ok(Some(Val::UInt(
            u64::try_from(*i).map_err(|_| Fail::unsigned_overflow())?,
        ))),
        Val::Double(d) if (0.0..max).contains(d) => Ok(Some(Val::UInt(d.trunc() as u64))),
        Val::Double(_) => Err(Fail::unsigned_overflow()),
        Val::Text(t) if t.as_str().starts_with('+') => Ok(None),
        Val::Text(t) => Ok(t.as_str().parse().ok().map(Val::UInt)),
        _ => Err(Fail::no_overload()),
    }
}

fn to_double<'a>(value: &Val<'_>) -> Converted<'a> {
    match value {
        Val::Int(i) => Ok(Some(Val::Double(*i as f64))),
        Val::UInt(u) => Ok(Some(Val::Double(*u as f64))),
        Val::Text(t) => {
            let text = t.as_str();
            let parsed = text.parse().ok();
            let names_infinity = text.to_ascii_lowercase().contains("inf");
            let fits = |float: &f64| !float.is_infinite() || names_infinity;
            Ok(parsed.filter(fits).map(Val::Double))
        }
        _ => Err(Fail::no_overload()),
    }
}

fn to_bool<'a>(value: &Val<'_>) -> Converted<'a> {
    let Val::Text(text) = value else {
        return Err(Fail::no_overload());
    };
    Ok(match text.as_str() {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(Val::Bool(true)),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(Val::Bool(false)),
        _ => None,
    })
}

fn to_duration<'a>(value: &Val<'_>) -> Converted<'a> {
    match value {
        Val::Text(t) => Ok(duration::parse(t.as_str()).ok().map(Val::Duration)),
        Val::Int(i) => Ok(Some(Val::Duration(*i))),
        _ => Err(Fail::no_overload()),
    }
}

fn to_time<'a>(value: &Val<'_>) -> Converted<'a> {
    match value {
        Val::Text(t) => Ok(parse_timestamp(t.as_str()).map(Val::Time)),
        Val::Int(i) => {
            let overflow = |_| Fail::of(FailureKind::Overflow, "timestamp overflow");
            Ok(Some(Val::Time(
                jiff::Timestamp::from_second(*i).map_err(overflow)?,
            )))
        }
        _ => Err(Fail::no_overload()),
    }
}

fn to_text<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Text(_)] => Ok(args[0].clone()),
        [Val::Bytes(bytes)] => {
            let bytes = bytes.as_slice();
            run.budget.write(bytes.len())?;
            let text = std::str::from_utf8(bytes);
            text.map(Val::text)
                .map_err(|_| Fail::new("invalid UTF-8 in bytes, cannot convert to string"))
        }
        [Val::Opaque(value)] => value.text().map(Val::text).ok_or_else(Fail::no_overload),
        [
            value @ (Val::Int(_)
            | Val::UInt(_)
            | Val::Double(_)
            | Val::Bool(_)
            | Val::Duration(_)
            | Val::Time(_)),
        ] => Ok(Val::text(show(value))),
        [Val::Type(name)] => Ok(Val::text(*name)),
        _ => Err(Fail::no_overload()),
    }
}

fn to_bytes<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Bytes(_)] => Ok(args[0].clone()),
        [Val::Text(text)] => {
            let text = text.as_str();
            run.budget.write(text.len())?;
            Ok(Val::bytes(text.as_bytes()))
        }
        _ => Err(Fail::no_overload()),
    }
}

/// A simple value as `string()` converts it; of others, the type.
pub(crate) fn show(value: &Val<'_>) -> String {
    match value {
        Val::Null => "null".to_owned(),
        Val::Bool(b) => b.to_string(),
        Val::Int(i) => i.to_string(),
        Val::UInt(u) => u.to_string(),
        Val::Double(d) if d.is_nan() => "NaN".to_owned(),
        Val::Double(d) if d.is_infinite() => if *d > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        Val::Double(d) => go_float(*d),
        Val::Text(t) => t.as_str().to_owned(),
        Val::Duration(nanos) => time::show_duration(*nanos),
        Val::Time(t) => t.to_string(),
        Val::Type(name) => (*name).to_owned(),
        other => other.type_name().to_owned(),
    }
}
