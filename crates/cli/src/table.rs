//! Tables as kubectl prints them: no lines, three spaces between columns.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, Color, ColumnConstraint, ContentArrangement, Width};
use std::time::Duration;

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
    /// Text; replaces line breaks, which would break the table.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        let text: String = text.into();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        Self {
            text: lines.join(" "),
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

/// A duration like kubectl's ages: at most two units, and the smaller one only if it matters.
pub(crate) fn age(duration: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let seconds = duration.as_secs();
    let pair =
        |big: u64, big_unit: &str, small: u64, small_unit: &str| match (seconds / big, seconds % big / small)
        {
            (whole, 0) => format!("{whole}{big_unit}"),
            (whole, rest) => format!("{whole}{big_unit}{rest}{small_unit}"),
        };
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..600 => pair(MINUTE, "m", 1, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => pair(HOUR, "h", MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => pair(DAY, "d", HOUR, "h"),
        _ => format!("{}d", seconds / DAY),
    }
}

pub(crate) fn since(time: jiff::Timestamp, now: jiff::Timestamp) -> String {
    age(now.duration_since(time).unsigned_abs())
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
    fn colour_is_used_on_terminals_only() {
        let mut table = Table::new(vec!["READY"], true);
        table.row(vec![Value::status("True")]);
        assert!(table.take().contains("\u{1b}["));
    }

    #[test]
    fn ages() {
        let check = |seconds: u64, expected: &str| assert_eq!(age(Duration::from_secs(seconds)), expected);
        check(5, "5s");
        check(119, "119s");
        check(120, "2m");
        check(330, "5m30s");
        check(900, "15m");
        check(3 * 3600 + 1200, "3h20m");
        check(9 * 3600, "9h");
        check(50 * 3600, "2d2h");
        check(30 * 86_400, "30d");
    }
}
