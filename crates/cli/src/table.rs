//! Tables as kubectl prints them: no lines, three spaces between columns.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, Color, ColumnConstraint, ContentArrangement, Width};
use equate_manifest::go::duration;

/// Rows under a header. Remembers column widths, so that later rows align.
#[derive(Debug)]
pub(crate) struct Table {
    header: Option<Vec<&'static str>>,
    rows: Vec<Vec<Value>>,
    widths: Vec<u16>,
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
        let text: String = text.into();
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

    fn cell(self) -> Cell {
        let cell = Cell::new(self.text);
        match self.tone {
            Tone::Plain => cell,
            Tone::Good => cell.fg(Color::Green),
            Tone::Bad => cell.fg(Color::Red),
            Tone::Waiting => cell.fg(Color::Yellow),
        }
    }
}

pub(crate) fn colour() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stdout()) && std::env::var_os("NO_COLOR").is_none()
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
        let mut table = comfy_table::Table::new();
        table
            .load_style(NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled);
        if self.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        if let Some(header) = self.header.take() {
            table.set_header(header);
        }
        for row in self.rows.drain(..) {
            table.add_row(row.into_iter().map(Value::cell).collect::<Vec<_>>());
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 3));
            if let Some(width) = self.widths.get(index) {
                // the constraint includes the padding
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width + 3)));
            }
        }
        let widths = table.column_max_content_widths();
        self.widths.resize(widths.len().max(self.widths.len()), 0);
        for (kept, width) in self.widths.iter_mut().zip(widths) {
            *kept = (*kept).max(width);
        }
        let lines: Vec<String> = table
            .lines()
            .map(|line| format!("{}\n", line.trim_end()))
            .collect();
        lines.concat()
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
    fn texts_do_not_steer_the_terminal() {
        let mut table = Table::new(vec!["MESSAGE"], false);
        table.row(vec![Value::plain("a\u{1b}[2J\tb\u{7}")]);
        assert_eq!(table.take(), "MESSAGE\na[2J b\n");
    }

    #[test]
    fn colour_is_used_on_terminals_only() {
        let mut table = Table::new(vec!["READY"], true);
        table.row(vec![Value::status("True")]);
        assert!(table.take().contains("\u{1b}["));
    }
}
