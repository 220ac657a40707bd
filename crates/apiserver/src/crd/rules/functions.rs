//! The functions of rules.
//!
//! CEL's own functions and optionals are here. The Kubernetes libraries (quantities, addresses, URLs,
//! semver, formats, sets, math, ...) are kube-cel's, called with converted arguments.

use super::eval::Run;
use super::value::{Evaluated, Fail, Library, List, Map, Text, Val, parse_time};
use crate::crd::formats::parse_go_duration;
use jiff::tz::{Offset, TimeZone};
use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};
use kube_cel::cel::objects::{Key, Map as CelMap, OptionalValue};
use kube_cel::cel::{Context, Value as Cel};
use regex::Regex;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

pub(super) fn type_value<'a>(name: &str) -> Option<Val<'a>> {
    const TYPES: &[&str] = &[
        "bool",
        "bytes",
        "double",
        "int",
        "list",
        "map",
        "null_type",
        "string",
        "type",
        "uint",
        "google.protobuf.Duration",
        "google.protobuf.Timestamp",
        "optional_type",
    ];
    TYPES.contains(&name).then(|| Val::Type(Rc::from(name)))
}

pub(super) fn call<'a>(run: &mut Run<'a>, name: &str, is_method: bool, args: &[Val<'a>]) -> Evaluated<'a> {
    let size: usize = args.iter().map(text_weight).sum();
    run.spend(size / 10 + 1)?;
    if let Some(value) = native(run, name, args)? {
        return Ok(value);
    }
    library(name, is_method, args)
}

fn text_weight(value: &Val<'_>) -> usize {
    match value {
        Val::Text(t) => t.as_str().len(),
        Val::Bytes(b) => b.len(),
        Val::List(l) => l.len() * 10,
        Val::Map(m) => m.len() * 10,
        _ => 0,
    }
}

fn native<'a>(run: &mut Run<'a>, name: &str, args: &[Val<'a>]) -> Result<Option<Val<'a>>, Fail> {
    let int = |n: usize| Val::Int(i64::try_from(n).unwrap_or(i64::MAX));
    Ok(Some(match (name, args) {
        ("size", [Val::Text(t)]) => int(t.as_str().chars().count()),
        ("size", [Val::Bytes(b)]) => int(b.len()),
        ("size", [Val::List(l)]) => int(l.len()),
        ("size", [Val::Map(m)]) => int(m.len()),
        ("contains", [Val::Text(t), Val::Text(part)]) => Val::Bool(t.as_str().contains(part.as_str())),
        ("startsWith", [Val::Text(t), Val::Text(part)]) => Val::Bool(t.as_str().starts_with(part.as_str())),
        ("endsWith", [Val::Text(t), Val::Text(part)]) => Val::Bool(t.as_str().ends_with(part.as_str())),
        ("matches", [Val::Text(t), Val::Text(pattern)]) => {
            run.spend(pattern.as_str().len())?;
            let regex = Regex::new(pattern.as_str())
                .map_err(|_| Fail::new(format!("error parsing regexp: `{}`", pattern.as_str())))?;
            Val::Bool(regex.is_match(t.as_str()))
        }
        ("type", [value]) => Val::Type(Rc::from(value.type_name())),
        ("dyn", [value]) => value.clone(),
        ("int" | "uint" | "double" | "string" | "bytes" | "bool" | "duration" | "timestamp", [value]) => {
            match convert(name, value) {
                Some(converted) => converted?,
                None => return Ok(None),
            }
        }
        ("optional.none", []) => Val::Optional(None),
        ("optional.of", [value]) => Val::some(value.clone()),
        ("optional.ofNonZeroValue", [value]) => {
            if is_zero(value) {
                Val::Optional(None)
            } else {
                Val::some(value.clone())
            }
        }
        ("hasValue", [Val::Optional(inner)]) => Val::Bool(inner.is_some()),
        ("value", [Val::Optional(inner)]) => match inner {
            Some(inner) => (**inner).clone(),
            None => return Err(Fail::new("optional.none() dereference")),
        },
        ("or", [Val::Optional(inner), Val::Optional(_)]) => args[usize::from(inner.is_none())].clone(),
        ("orValue", [Val::Optional(inner), other]) => match inner {
            Some(inner) => (**inner).clone(),
            None => other.clone(),
        },
        ("unwrap" | "optional.unwrap", [Val::List(list)]) => {
            let mut out = Vec::new();
            for index in 0..list.len() {
                if let Some(Val::Optional(Some(inner))) = list.get(index).transpose()? {
                    out.push((*inner).clone());
                }
            }
            Val::list(out)
        }
        ("replace", [Val::Text(t), Val::Text(from), Val::Text(to)]) => {
            let grown = t.as_str().len() / from.as_str().len().max(1) * to.as_str().len();
            run.spend(grown / 10)?;
            Val::text(t.as_str().replace(from.as_str(), to.as_str()))
        }
        (_, [Val::Time(time), rest @ ..]) if name.starts_with("get") => time_part(name, *time, rest)?,
        (_, [Val::Duration(nanos)]) => match name {
            "getHours" => Val::Int(nanos / 3_600_000_000_000),
            "getMinutes" => Val::Int(nanos / 60_000_000_000),
            "getSeconds" => Val::Int(nanos / 1_000_000_000),
            "getMilliseconds" => Val::Int(nanos / 1_000_000),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    }))
}

fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null | Val::Optional(None) => true,
        Val::Bool(b) => !b,
        Val::Int(i) => *i == 0,
        Val::UInt(u) => *u == 0,
        Val::Double(d) => *d == 0.0,
        Val::Text(t) => t.as_str().is_empty(),
        Val::Bytes(b) => b.is_empty(),
        Val::List(l) => l.len() == 0,
        Val::Map(m) => m.len() == 0,
        Val::Duration(d) => *d == 0,
        _ => false,
    }
}

fn convert<'a>(to: &str, value: &Val<'a>) -> Option<Evaluated<'a>> {
    let mismatch = || {
        Fail::new(format!(
            "type conversion error from '{}' to '{to}'",
            value.type_name()
        ))
    };
    let range = || Fail::new("integer overflow");
    let unsigned = || Fail::new("unsigned integer overflow");
    Some(match (to, value) {
        (_, Val::Opaque(_)) => return None,
        ("int", Val::Int(_))
        | ("uint", Val::UInt(_))
        | ("double", Val::Double(_))
        | ("string", Val::Text(_))
        | ("bytes", Val::Bytes(_))
        | ("bool", Val::Bool(_))
        | ("duration", Val::Duration(_))
        | ("timestamp", Val::Time(_)) => Ok(value.clone()),
        ("int", Val::UInt(u)) => i64::try_from(*u).map(Val::Int).map_err(|_| range()),
        ("int", Val::Double(d)) if d.abs() < 9.223_372_036_854_775e18 => Ok(Val::Int(d.trunc() as i64)),
        ("int", Val::Double(_)) => Err(range()),
        ("int", Val::Text(t)) => t.as_str().parse().map(Val::Int).map_err(|_| mismatch()),
        ("int", Val::Time(t)) => Ok(Val::Int(t.as_second())),
        ("int", Val::Duration(d)) => Ok(Val::Int(*d)),
        ("uint", Val::Int(i)) => u64::try_from(*i).map(Val::UInt).map_err(|_| unsigned()),
        ("uint", Val::Double(d)) if (0.0..1.844_674_407_370_955e19).contains(d) => {
            Ok(Val::UInt(d.trunc() as u64))
        }
        ("uint", Val::Double(_)) => Err(unsigned()),
        ("uint", Val::Text(t)) => t.as_str().parse().map(Val::UInt).map_err(|_| mismatch()),
        ("double", Val::Int(i)) => Ok(Val::Double(*i as f64)),
        ("double", Val::UInt(u)) => Ok(Val::Double(*u as f64)),
        ("double", Val::Text(t)) => t.as_str().parse().map(Val::Double).map_err(|_| mismatch()),
        ("string", Val::Bytes(b)) => std::str::from_utf8(b)
            .map(Val::text)
            .map_err(|_| Fail::new("invalid UTF-8 in bytes, cannot convert to string")),
        (
            "string",
            Val::Int(_) | Val::UInt(_) | Val::Double(_) | Val::Bool(_) | Val::Duration(_) | Val::Time(_),
        ) => Ok(Val::text(show(value))),
        ("bytes", Val::Text(t)) => Ok(Val::Bytes(Rc::from(t.as_str().as_bytes()))),
        ("bool", Val::Text(t)) => match t.as_str() {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Val::Bool(false)),
            _ => Err(mismatch()),
        },
        ("duration", Val::Text(t)) => parse_go_duration(t.as_str())
            .map(Val::Duration)
            .ok_or_else(mismatch),
        ("duration", Val::Int(i)) => Ok(Val::Duration(*i)),
        ("timestamp", Val::Text(t)) => parse_time(t.as_str()).map(Val::Time).ok_or_else(mismatch),
        ("timestamp", Val::Int(i)) => jiff::Timestamp::from_second(*i)
            .map(Val::Time)
            .map_err(|_| Fail::new("timestamp overflow")),
        _ => Err(Fail::no_overload()),
    })
}

/// As `string()` converts it.
pub(super) fn show(value: &Val<'_>) -> String {
    match value {
        Val::Null => "null".to_owned(),
        Val::Bool(b) => b.to_string(),
        Val::Int(i) => i.to_string(),
        Val::UInt(u) => u.to_string(),
        Val::Double(d) => d.to_string(),
        Val::Text(t) => t.as_str().to_owned(),
        Val::Duration(nanos) => {
            let whole = nanos / 1_000_000_000;
            let rest = (nanos % 1_000_000_000).abs();
            let sign = if *nanos < 0 && whole == 0 { "-" } else { "" };
            if rest == 0 {
                format!("{whole}s")
            } else {
                let digits = format!("{rest:09}");
                format!("{sign}{whole}.{}s", digits.trim_end_matches('0'))
            }
        }
        Val::Time(t) => t.to_string(),
        other => other.type_name(),
    }
}

fn time_part<'a>(name: &str, time: jiff::Timestamp, zone: &[Val<'_>]) -> Evaluated<'a> {
    let zone = match zone {
        [] => TimeZone::UTC,
        [Val::Text(name)] => time_zone(name.as_str())?,
        _ => return Err(Fail::no_overload()),
    };
    let at = time.to_zoned(zone);
    let number = match name {
        "getFullYear" => i64::from(at.year()),
        "getMonth" => i64::from(at.month()) - 1,
        "getDayOfYear" => i64::from(at.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(at.day()) - 1,
        "getDate" => i64::from(at.day()),
        "getDayOfWeek" => i64::from(at.weekday().to_sunday_zero_offset()),
        "getHours" => i64::from(at.hour()),
        "getMinutes" => i64::from(at.minute()),
        "getSeconds" => i64::from(at.second()),
        "getMilliseconds" => i64::from(at.millisecond()),
        _ => return Err(Fail::no_overload()),
    };
    Ok(Val::Int(number))
}

fn time_zone(name: &str) -> Result<TimeZone, Fail> {
    let (sign, rest) = match name.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, name.strip_prefix('+').unwrap_or(name)),
    };
    if let Some((hours, minutes)) = rest.split_once(':')
        && let (Ok(hours), Ok(minutes)) = (hours.parse::<i32>(), minutes.parse::<i32>())
    {
        return Offset::from_seconds(sign * (hours * 3600 + minutes * 60))
            .map(TimeZone::fixed)
            .map_err(|_| Fail::new(format!("unknown time zone {name}")));
    }
    TimeZone::get(name).map_err(|_| Fail::new(format!("unknown time zone {name}")))
}

thread_local! {
    static LIBRARY: Context<'static> = Context::default().with_all();
}

fn library<'a>(name: &str, is_method: bool, args: &[Val<'a>]) -> Evaluated<'a> {
    let converted: Vec<Cel> = args.iter().map(to_library).collect::<Result<_, _>>()?;
    LIBRARY.with(|root| {
        let mut context = root.new_inner_scope();
        let mut variables = Vec::with_capacity(converted.len());
        for (index, value) in converted.into_iter().enumerate() {
            let variable = format!("@{index}");
            context.add_variable_from_value(variable.as_str(), value);
            variables.push(ident(variable));
        }
        let (target, func_name) = match name.split_once('.') {
            Some((namespace, function)) if !is_method => {
                (Some(ident(namespace.to_owned())), function.to_owned())
            }
            _ if is_method => (Some(variables.remove(0)), name.to_owned()),
            _ => (None, name.to_owned()),
        };
        let expression = IdedExpr {
            id: 0,
            expr: Expr::Call(CallExpr {
                func_name,
                target: target.map(Box::new),
                args: variables,
            }),
        };
        match Cel::resolve(&expression, &context) {
            // Upstream returns an optional; kube-cel the format or an error.
            Ok(value) if name == "format.named" => match from_library(&value)? {
                optional @ Val::Optional(_) => Ok(optional),
                Val::Null => Ok(Val::Optional(None)),
                format => Ok(Val::some(format)),
            },
            Err(_) if name == "format.named" => Ok(Val::Optional(None)),
            Ok(value) => from_library(&value),
            Err(error) => Err(library_error(name, args, &error)),
        }
    })
}

fn ident(name: String) -> IdedExpr {
    IdedExpr {
        id: 0,
        expr: Expr::Ident(name),
    }
}

fn library_error(name: &str, args: &[Val<'_>], error: &kube_cel::cel::ExecutionError) -> Fail {
    use kube_cel::cel::ExecutionError as E;
    match (name, args, error) {
        ("quantity", [Val::Text(_)], _) => {
            return Fail::new(
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            );
        }
        ("url", [Val::Text(text)], _) => {
            let text = text.as_str();
            let why = if text.starts_with(':') {
                "missing protocol scheme"
            } else {
                "invalid URI for request"
            };
            let quoted = crate::field::go_quote(text);
            return Fail::new(format!(
                "URL parse error during conversion from string: parse {quoted}: {why}"
            ));
        }
        ("charAt" | "substring", [Val::Text(text), indexes @ ..], E::FunctionError { .. }) => {
            let length = i64::try_from(text.as_str().chars().count()).unwrap_or(i64::MAX);
            let outside = indexes.iter().find_map(|index| match index {
                Val::Int(i) if !(0..=length).contains(i) => Some(*i),
                _ => None,
            });
            if let Some(index) = outside {
                return Fail::new(format!("index out of range: {index}"));
            }
        }
        ("asInteger", ..) => return Fail::new("cannot convert value to integer"),
        ("ip", [Val::Text(text)], _) => {
            let quoted = crate::field::go_quote(text.as_str());
            return Fail::new(format!(
                "IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): unable to parse IP"
            ));
        }
        ("cidr", [Val::Text(text)], _) if !text.as_str().contains('/') => {
            let quoted = crate::field::go_quote(text.as_str());
            let intro = "network address parse error during conversion from string: ".repeat(2);
            return Fail::new(format!("{intro}netip.ParsePrefix({quoted}): no '/'"));
        }
        ("semver", [Val::Text(text), ..], _) if text.as_str().split('.').count() != 3 => {
            return Fail::new("No Major.Minor.Patch elements found");
        }
        _ => {}
    }
    match error {
        E::FunctionError { message, .. } => Fail::new(message),
        E::NoSuchOverload
        | E::UnexpectedType { .. }
        | E::UnsupportedTargetType { .. }
        | E::NotSupportedAsMethod { .. }
        | E::UndeclaredReference(_)
        | E::InvalidArgumentCount { .. } => Fail::no_overload(),
        other => Fail::new(other.to_string()),
    }
}

fn to_library(value: &Val<'_>) -> Result<Cel, Fail> {
    Ok(match value {
        Val::Null => Cel::Null,
        Val::Bool(b) => Cel::Bool(*b),
        Val::Int(i) => Cel::Int(*i),
        Val::UInt(u) => Cel::UInt(*u),
        Val::Double(d) => Cel::Float(*d),
        Val::Text(t) => Cel::String(Arc::new(t.as_str().to_owned())),
        Val::Bytes(b) => Cel::Bytes(Arc::new(b.to_vec())),
        Val::Opaque(o) => Cel::Opaque(Arc::clone(&o.0)),
        // Times are passed as text: the libraries only print them.
        Val::Duration(_) | Val::Time(_) | Val::Type(_) => Cel::String(Arc::new(show(value))),
        Val::List(list) => {
            let mut out = Vec::with_capacity(list.len());
            for index in 0..list.len() {
                if let Some(item) = list.get(index) {
                    out.push(to_library(&item?)?);
                }
            }
            Cel::List(Arc::new(out))
        }
        Val::Map(map) => {
            let mut out = HashMap::new();
            for key in map.keys() {
                let Some(value) = map.get(&key) else { continue };
                let key = match &key {
                    Val::Text(t) => Key::String(Arc::new(t.as_str().to_owned())),
                    Val::Int(i) => Key::Int(*i),
                    Val::UInt(u) => Key::Uint(*u),
                    Val::Bool(b) => Key::Bool(*b),
                    _ => return Err(Fail::no_overload()),
                };
                out.insert(key, to_library(&value?)?);
            }
            Cel::Map(CelMap { map: Arc::new(out) })
        }
        Val::Optional(None) => Cel::Opaque(Arc::new(OptionalValue::none())),
        Val::Optional(Some(inner)) => Cel::Opaque(Arc::new(OptionalValue::of(to_library(inner)?))),
        Val::Unknown(_) => return Err(Fail::no_overload()),
    })
}

fn from_library<'a>(value: &Cel) -> Evaluated<'a> {
    Ok(match value {
        Cel::Null => Val::Null,
        Cel::Bool(b) => Val::Bool(*b),
        Cel::Int(i) => Val::Int(*i),
        Cel::UInt(u) => Val::UInt(*u),
        Cel::Float(d) => Val::Double(*d),
        Cel::String(s) => Val::Text(Text::Shared(Rc::from(s.as_str()))),
        Cel::Bytes(b) => Val::Bytes(Rc::from(b.as_slice())),
        Cel::List(items) => Val::List(List::Own(Rc::new(
            items.iter().map(from_library).collect::<Result<Vec<_>, _>>()?,
        ))),
        Cel::Map(map) => {
            let mut entries = Vec::with_capacity(map.map.len());
            for (key, value) in map.map.iter() {
                let key = match key {
                    Key::Int(i) => Val::Int(*i),
                    Key::Uint(u) => Val::UInt(*u),
                    Key::Bool(b) => Val::Bool(*b),
                    Key::String(s) => Val::text(s.as_str()),
                };
                entries.push((key, from_library(value)?));
            }
            Val::Map(Map::Own(Rc::new(entries)))
        }
        Cel::Opaque(opaque) => match opaque.downcast_ref::<OptionalValue>() {
            Some(optional) => match optional.value() {
                Some(inner) => Val::some(from_library(inner)?),
                None => Val::Optional(None),
            },
            None => Val::Opaque(Library(Arc::clone(opaque))),
        },
        _ => return Err(Fail::no_overload()),
    })
}
