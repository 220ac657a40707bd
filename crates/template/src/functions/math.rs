//! Arithmetic on integers, floats and decimals.

use super::cast::{float, int};
use super::{Function, table};
use crate::call::{Call, Outcome};
use crate::value::{Elements, List, Value};

pub(super) const FUNCTIONS: &[Function] = table! {
    "int" (Any) => |call| Ok(Value::int(int(call.arg(0))));
    "int64" (Any) => |call| Ok(Value::int64(int(call.arg(0))));
    "float64" (Any) => |call| Ok(Value::Float(float(call.arg(0))));
    "atoi" (Str) => |call| Ok(Value::int(crate::literal::integer(&call.text(0), false).unwrap_or(0)));
    "toDecimal" (Any) => |call| {
        let text = crate::format::plain_text(call.arg(0), call.exec.limits())?;
        Ok(Value::int64(i64::from_str_radix(&text, 8).unwrap_or(0)))
    };
    "add" (;Any) => |call| whole(call, 0, i64::wrapping_add);
    "add1" (Any) => |call| Ok(Value::int64(int(call.arg(0)).wrapping_add(1)));
    "sub" (Any, Any) => |call| Ok(Value::int64(int(call.arg(0)).wrapping_sub(int(call.arg(1)))));
    "mul" (Any; Any) => |call| whole(call, 1, i64::wrapping_mul);
    "div" (Any, Any) => |call| divide(call, i64::wrapping_div);
    "mod" (Any, Any) => |call| divide(call, i64::wrapping_rem);
    "max" (Any; Any) => |call| most(call, |new, old| new > old);
    "biggest" (Any; Any) => |call| most(call, |new, old| new > old);
    "min" (Any; Any) => |call| most(call, |new, old| new < old);
    "maxf" (Any; Any) => |call| most_float(call, f64::max);
    "minf" (Any; Any) => |call| most_float(call, f64::min);
    "ceil" (Any) => |call| Ok(Value::Float(float(call.arg(0)).ceil()));
    "floor" (Any) => |call| Ok(Value::Float(float(call.arg(0)).floor()));
    "round" (Any, Int; Float) => round;
    "addf" (;Any) => |call| decimal(call, 0.0, 0, Decimal::add);
    "add1f" (Any) => |call| {
        finite(call, 0)?;
        let one = Decimal::from(float(call.arg(0))).add(Decimal::from(1.0));
        Ok(Value::Float(one.to_f64()))
    };
    "subf" (Any; Any) => |call| decimal_from_first(call, |a, b| a.add(b.negated()));
    "mulf" (Any; Any) => |call| decimal_from_first(call, Decimal::mul);
    "divf" (Any; Any) => |call| {
        if call.rest(1).iter().any(|value| float(value) == 0.0) {
            return call.fail("decimal division by 0");
        }
        decimal_from_first(call, Decimal::div)
    };
    "until" (Int) => |call| {
        let count = call.int(0);
        steps(call, 0, count, if count < 0 { -1 } else { 1 })
    };
    "untilStep" (Int, Int, Int) => |call| steps(call, call.int(0), call.int(1), call.int(2));
    "seq" (;Int) => seq;
};

fn whole(call: &mut Call<'_, '_>, from: usize, operate: fn(i64, i64) -> i64) -> Outcome {
    let start = if from == 0 { 0 } else { int(call.arg(0)) };
    let numbers = call.rest(from).iter().map(int);
    Ok(Value::int64(numbers.fold(start, operate)))
}

fn divide(call: &mut Call<'_, '_>, operate: fn(i64, i64) -> i64) -> Outcome {
    let (left, right) = (int(call.arg(0)), int(call.arg(1)));
    if right == 0 {
        return call.fail("runtime error: integer divide by zero");
    }
    Ok(Value::int64(operate(left, right)))
}

fn most(call: &mut Call<'_, '_>, better: fn(i64, i64) -> bool) -> Outcome {
    let numbers = call.args.iter().map(int);
    let found = numbers.reduce(|old, new| if better(new, old) { new } else { old });
    Ok(Value::int64(found.unwrap_or(0)))
}

fn most_float(call: &mut Call<'_, '_>, better: fn(f64, f64) -> f64) -> Outcome {
    Ok(Value::Float(
        call.args.iter().map(float).reduce(better).unwrap_or(0.0),
    ))
}

fn round(call: &mut Call<'_, '_>) -> Outcome {
    let on = match call.rest(2).first() {
        Some(Value::Float(on)) => *on,
        _ => 0.5,
    };
    let power = 10f64.powf(call.int(1) as f64);
    let shifted = power * float(call.arg(0));
    let rounded = if shifted.fract() >= on {
        shifted.ceil()
    } else {
        shifted.floor()
    };
    Ok(Value::Float(rounded / power))
}

/// A decimal number, integer times power of ten, or a float if that is too small.
#[derive(Clone, Copy)]
enum Decimal {
    Exact(i128, i32),
    Float(f64),
}

impl From<f64> for Decimal {
    fn from(value: f64) -> Self {
        let text = format!("{value:e}");
        let exact = || {
            let (mantissa, power) = text.split_once('e')?;
            let (_, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
            let digits: i128 = mantissa.replace('.', "").parse().ok()?;
            Some(Self::Exact(
                digits,
                power.parse::<i32>().ok()? - fraction.len() as i32,
            ))
        };
        exact().unwrap_or(Self::Float(value))
    }
}

impl Decimal {
    fn to_f64(self) -> f64 {
        match self {
            Self::Exact(digits, power) => format!("{digits}e{power}").parse().unwrap_or(f64::NAN),
            Self::Float(value) => value,
        }
    }

    fn negated(self) -> Self {
        match self {
            Self::Exact(digits, power) => Self::Exact(-digits, power),
            Self::Float(value) => Self::Float(-value),
        }
    }

    fn scaled(self, to: i32) -> Option<i128> {
        match self {
            Self::Exact(digits, power) => {
                let by = u32::try_from(power.checked_sub(to)?).ok()?;
                digits.checked_mul(10i128.checked_pow(by)?)
            }
            Self::Float(_) => None,
        }
    }

    fn power(self) -> i32 {
        match self {
            Self::Exact(_, power) => power,
            Self::Float(_) => 0,
        }
    }

    fn add(self, other: Self) -> Self {
        let power = self.power().min(other.power());
        let sum = || self.scaled(power)?.checked_add(other.scaled(power)?);
        match sum() {
            Some(digits) => Self::Exact(digits, power),
            None => Self::Float(self.to_f64() + other.to_f64()),
        }
    }

    fn mul(self, other: Self) -> Self {
        match (self, other) {
            (Self::Exact(a, x), Self::Exact(b, y)) => match a.checked_mul(b) {
                Some(digits) => Self::Exact(digits, x + y),
                None => Self::Float(self.to_f64() * other.to_f64()),
            },
            _ => Self::Float(self.to_f64() * other.to_f64()),
        }
    }

    /// Divides to sixteen decimals, rounding the last.
    fn div(self, other: Self) -> Self {
        const DECIMALS: i32 = 16;
        let quotient = || {
            let (Self::Exact(a, x), Self::Exact(b, y)) = (self, other) else {
                return None;
            };
            let by = x - y + DECIMALS;
            let (a, b) = if by >= 0 {
                (a.checked_mul(10i128.checked_pow(by as u32)?)?, b)
            } else {
                (a, b.checked_mul(10i128.checked_pow(by.unsigned_abs())?)?)
            };
            let (quotient, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
            let up = rest.checked_abs()?.checked_mul(2)? >= b.checked_abs()?;
            let sign = if (a < 0) == (b < 0) { 1 } else { -1 };
            Some(Self::Exact(quotient + if up { sign } else { 0 }, -DECIMALS))
        };
        quotient().unwrap_or_else(|| Self::Float(self.to_f64() / other.to_f64()))
    }
}

type Operate = fn(Decimal, Decimal) -> Decimal;

fn finite(call: &Call<'_, '_>, from: usize) -> Result<(), crate::Fault> {
    match call.rest(from).iter().map(float).find(|value| !value.is_finite()) {
        Some(value) => call.fail(format!(
            "Cannot create a Decimal from {}",
            crate::format::float_general(value)
        )),
        None => Ok(()),
    }
}

fn decimal(call: &mut Call<'_, '_>, start: f64, from: usize, operate: Operate) -> Outcome {
    finite(call, 0)?;
    let numbers = call.rest(from).iter().map(|value| Decimal::from(float(value)));
    Ok(Value::Float(numbers.fold(Decimal::from(start), operate).to_f64()))
}

fn decimal_from_first(call: &mut Call<'_, '_>, operate: Operate) -> Outcome {
    let start = float(call.arg(0));
    decimal(call, start, 1, operate)
}

/// The numbers from `start` up to, not including, `stop`.
fn numbers(call: &mut Call<'_, '_>, start: i64, stop: i64, step: i64) -> Result<Vec<i64>, crate::Fault> {
    let upward = stop >= start;
    if step == 0 && !upward && start != stop {
        // Go would loop forever
        return call.fail("the step must not be 0");
    }
    if (upward && step <= 0) || (!upward && step >= 0) {
        return Ok(Vec::new());
    }
    let count = (i128::from(stop) - i128::from(start))
        .unsigned_abs()
        .div_ceil(step.unsigned_abs().into());
    call.charge_items(usize::try_from(count).unwrap_or(usize::MAX))?;
    Ok((0..count as i64)
        .map(|index| start.wrapping_add(index.wrapping_mul(step)))
        .collect())
}

fn steps(call: &mut Call<'_, '_>, start: i64, stop: i64, step: i64) -> Outcome {
    let numbers = numbers(call, start, stop, step)?;
    let items = numbers.into_iter().map(Value::int).collect();
    Ok(List::of(Elements::Int, items).into())
}

fn seq(call: &mut Call<'_, '_>) -> Outcome {
    let numbers_of = |call: &mut Call<'_, '_>, start: i64, end: i64, step: i64| {
        let toward = if end < start { -1 } else { 1 };
        let found = numbers(call, start, end.saturating_add(toward), step)?;
        let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
        call.done(texts.join(" "))
    };
    let toward = |start: i64, end: i64| if end < start { -1 } else { 1 };
    match call.count() {
        1 => {
            let end = call.int(0);
            numbers_of(call, 1, end, toward(1, end))
        }
        2 => {
            let (start, end) = (call.int(0), call.int(1));
            numbers_of(call, start, end, toward(start, end))
        }
        3 => {
            let (start, step, end) = (call.int(0), call.int(1), call.int(2));
            if end < start && step > 0 {
                return Ok("".into());
            }
            numbers_of(call, start, end, step)
        }
        _ => Ok("".into()),
    }
}
