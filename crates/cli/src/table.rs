//! Tables as kubectl prints them: no lines, three spaces between columns.

use console::{Style, measure_text_width};
use equate_manifest::go::duration;
use std::ffi::OsString;

/// The spaces between columns.
const GAP: usize = 3;

/// Rows under a header. Remembers column widths, so that later rows align.
#[derive(Debug)]
pub(crate) struct Table {
    header: Option<Vec<&'static str>>,
    rows: Vec<Vec<Value>>,
    widths: Vec<usize>,
    colour: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value {
    text: String,
    tone: Tone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tone {
    Plain,
    Good,
    Bad,
    Waiting,
}

impl Value {
    /// Text; replaces line breaks, which would break the table, and drops what would steer the terminal.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        let mut text: String = text.into();
        if !text.contains(char::is_control) {
            text.truncate(text.trim_end().len());
            let tone = Tone::Plain;
            return Self { text, tone };
        }
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let harmless = |c: char| match c {
            '\t' => Some(' '),
            c if c.is_control() => None,
            c => Some(c),
        };
        Self {
            text: lines.join(" ").chars().filter_map(harmless).collect(),
            tone: Tone::Plain,
        }
    }

    pub(crate) fn status(text: &str) -> Self {
        let tone = match text {
            "True" | "Current" => Tone::Good,
            "False" | "Failed" | "NotFound" => Tone::Bad,
            _ => Tone::Waiting,
        };
        Self {
            tone,
            ..Self::plain(text)
        }
    }

    /// The text in its colour.
    fn painted(&self) -> String {
        let style = Style::new().bright().force_styling(true);
        let style = match self.tone {
            Tone::Plain => return self.text.clone(),
            Tone::Good => style.green(),
            Tone::Bad => style.red(),
            Tone::Waiting => style.yellow(),
        };
        style.apply_to(&self.text).to_string()
    }
}

pub(crate) fn colour() -> bool {
    let set = |name: &str| std::env::var_os(name);
    std::io::IsTerminal::is_terminal(&std::io::stdout()) && colour_of(set("NO_COLOR").is_some(), set("TERM"))
}

/// Whether these variables allow colour on a terminal.
fn colour_of(no_color: bool, term: Option<OsString>) -> bool {
    !no_color && term.is_none_or(|term| term != "dumb")
}

impl Table {
    pub(crate) fn new(header: Vec<&'static str>, colour: bool) -> Self {
        Self {
            header: Some(header),
            rows: Vec::new(),
            widths: Vec::new(),
            colour,
        }
    }

    pub(crate) fn without_header(&mut self) {
        self.header = None;
    }

    pub(crate) fn row(&mut self, row: Vec<Value>) {
        self.rows.push(row);
    }

    /// The rows since the last call, with the header the first time; every line ends in a line break.
    pub(crate) fn take(&mut self) -> String {
        let header = self.header.take().into_iter();
        let header = header.map(|names| names.into_iter().map(Value::plain).collect());
        let rows: Vec<Vec<Value>> = header.chain(self.rows.drain(..)).collect();
        for row in &rows {
            self.widths.resize(self.widths.len().max(row.len()), 0);
            for (kept, value) in self.widths.iter_mut().zip(row) {
                *kept = (*kept).max(width_of(&value.text));
            }
        }
        let mut text = String::new();
        for row in &rows {
            // spaces only before a text: no line ends in them
            let mut spaces = 0;
            for (value, width) in row.iter().zip(&self.widths) {
                if value.text.is_empty() {
                    spaces += width + GAP;
                    continue;
                }
                text.extend(std::iter::repeat_n(' ', spaces));
                match self.colour {
                    true => text.push_str(&value.painted()),
                    false => text.push_str(&value.text),
                }
                spaces = width + GAP - width_of(&value.text);
            }
            text.push('\n');
        }
        text
    }
}

/// The columns of a terminal that a text takes. It has no control characters.
fn width_of(text: &str) -> usize {
    match text.is_ascii() {
        true => text.len(),
        false => measure_text_width(text),
    }
}

/// The time since a moment, or until it, as `kubectl get` shows ages.
pub(crate) fn since(time: jiff::Timestamp, now: jiff::Timestamp) -> String {
    duration::human(now.duration_since(time).abs().as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_rows_align() {
        let mut table = Table::new(vec!["NAME", "READY", "MESSAGE"], false);
        table.row(vec![
            Value::plain("a-long-name"),
            Value::status("True"),
            Value::plain("two\nlines"),
        ]);
        assert_eq!(
            table.take(),
            "NAME          READY   MESSAGE\na-long-name   True    two lines\n"
        );
        table.row(vec![Value::plain("b"), Value::status("False"), Value::plain("")]);
        assert_eq!(table.take(), "b             False\n");
    }

    #[test]
    fn columns_are_as_wide_as_their_texts_on_a_terminal() {
        let mut table = Table::new(vec!["A", "B", "C"], false);
        table.row(["\u{65e5}\u{672c}", "", "c"].map(Value::plain).into());
        table.row(["\u{e9}", "b", " "].map(Value::plain).into());
        assert_eq!(
            table.take(),
            "A      B   C\n\u{65e5}\u{672c}       c\n\u{e9}      b\n"
        );
        assert_eq!(table.take(), "");
    }

    #[test]
    fn texts_do_not_steer_the_terminal() {
        let mut table = Table::new(vec!["MESSAGE"], false);
        table.row(vec![Value::plain("a\u{1b}[2J\tb\u{7}")]);
        assert_eq!(table.take(), "MESSAGE\na[2J b\n");
    }

    #[test]
    fn variables_turn_colour_off() {
        let check = |no_color: bool, term: Option<&str>, expected: bool| {
            assert_eq!(colour_of(no_color, term.map(Into::into)), expected);
        };
        check(false, Some("xterm"), true);
        check(false, None, true);
        check(false, Some("dumb"), false);
        check(true, Some("xterm"), false);
    }

    #[test]
    fn colour_is_used_on_terminals_only() {
        let mut table = Table::new(vec!["READY"], true);
        table.row(vec![Value::status("True")]);
        assert!(table.take().contains("\u{1b}["));
    }
}
