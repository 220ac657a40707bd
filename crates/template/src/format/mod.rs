//! Formats values as Go's `fmt` does.

mod number;
mod verbs;

pub(crate) use number::float_general;

use crate::limits::{Limit, Limits};
use crate::value::Value;

/// Formats a value with `%v`.
pub(crate) fn plain(value: &Value, limits: &Limits) -> Result<Vec<u8>, Limit> {
    let mut printer = verbs::Printer::new(limits);
    printer.value(value, 'v', 0)?;
    Ok(printer.out)
}

/// Formats a value with `%v`, as text for messages and comparisons.
pub(crate) fn plain_text(value: &Value, limits: &Limits) -> Result<String, Limit> {
    plain(value, limits).map(|bytes| crate::value::lossy(&bytes).into_owned())
}

/// `Sprint`: a space between two operands that are not strings.
pub(crate) fn print(values: &[Value], limits: &Limits) -> Result<Vec<u8>, Limit> {
    let mut printer = verbs::Printer::new(limits);
    for (index, value) in values.iter().enumerate() {
        let is_text = |value: &Value| matches!(value, Value::String(_));
        if index > 0 && !is_text(value) && !is_text(&values[index - 1]) {
            printer.out.push(b' ');
        }
        printer.value(value, 'v', 0)?;
    }
    Ok(printer.out)
}

/// `Sprintln`: a space between any two operands, and a line break.
pub(crate) fn println(values: &[Value], limits: &Limits) -> Result<Vec<u8>, Limit> {
    let mut printer = verbs::Printer::new(limits);
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            printer.out.push(b' ');
        }
        printer.value(value, 'v', 0)?;
    }
    printer.out.push(b'\n');
    Ok(printer.out)
}

/// `Sprintf`.
pub(crate) fn printf(format: &[u8], values: &[Value], limits: &Limits) -> Result<Vec<u8>, Limit> {
    let mut printer = verbs::Printer::new(limits);
    printer.format(format, values)?;
    Ok(printer.out)
}
