//! Draws the interactive view. Pure: the model and the size in, cells out.
//!
//! Text is wrapped and never cut, except that a message below a row that is not selected ends after a few
//! lines; selecting the row shows the rest.

use super::model::{Item, Model};
use crate::table;
use crate::up::view::{Group, Row, State};
use crate::up::wrap::{width, wrap};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::{Line, Span};

/// Lines of a message below a row that is not selected.
const MESSAGE_LINES: usize = 6;
/// Columns before a message below its row.
const MESSAGE_INDENT: usize = 6;
/// Columns before the text of an activity: its age.
const AGE_COLUMNS: usize = 6;
/// The least lines of a terminal that has an activity pane, and its share of them.
const ACTIVITY_FROM: usize = 16;
const ACTIVITY_SHARE: usize = 4;
/// The least lines of a terminal with two lines for the keys.
const TWO_LINES_FROM: usize = 24;

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);
const YELLOW: Style = Style::new().fg(Color::Yellow);

/// The keys of a view with their meaning, and how important it is to show them.
type Keys = [(&'static str, &'static str, u8)];

const TABLE_KEYS: &Keys = &[
    ("j/k", "select", 4),
    ("enter", "explain", 1),
    ("p", "pods", 3),
    ("e", "events", 3),
    ("y", "YAML", 3),
    ("d", "diff", 3),
    ("/", "filter", 2),
    ("?", "help", 0),
    ("q", "quit", 0),
];
const PANE_KEYS: &Keys = &[
    ("esc", "back", 0),
    ("j/k", "scroll", 4),
    ("enter", "explain", 3),
    ("p", "pods", 3),
    ("e", "events", 3),
    ("y", "YAML", 3),
    ("d", "diff", 3),
    ("?", "help", 1),
    ("q", "quit", 0),
];
const FILTER_KEYS: &Keys = &[("enter", "keep", 0), ("esc", "clear", 0)];
const HELP_KEYS: &Keys = &[("esc", "back", 0), ("j/k", "scroll", 1), ("q", "quit", 0)];

const HELP: &[(&str, &str)] = &[
    ("j k ↓ ↑", "select a row, or scroll"),
    ("space b", "a page down or up"),
    ("g G", "to the first or the last"),
    ("/", "filter by words: a name, a kind, or a state such as failed"),
    (
        "enter",
        "explain: why it is not healthy, who applies it, from which file",
    ),
    ("p", "its pods"),
    ("e", "its events"),
    ("y", "the object as YAML; values of Secrets are masked"),
    (
        "d",
        "diff: the changes that a commit of the working tree would make",
    ),
    ("esc", "back; in the list, clear the filter"),
    ("q ctrl-c", "end equate up"),
];
const MARKS: &[(State, &str)] = &[
    (State::Ready, "ready"),
    (State::Waiting, "waiting: it continues by itself"),
    (State::Failed, "failed: enter says why"),
    (State::Idle, "idle: suspended, or without a controller"),
    (State::Kept, "kept: replaced by this loop"),
];
const COMMANDS: &[&str] = &[
    "In a second terminal, in this directory:",
    "  export KUBECONFIG=$PWD/.equate/kubeconfig",
    "  kubectl get pods -A",
    "  equate get all -A",
    "  equate tree ks flux-system",
];

pub(super) fn draw(model: &Model, buffer: &mut Buffer) {
    let frame = Frame::of(model);
    let area = buffer.area;
    let end = area.bottom();
    let above: Vec<&Line<'_>> = frame.head.iter().chain(&frame.body).collect();
    for ((at, line), y) in above.iter().enumerate().zip(area.y..end) {
        buffer.set_line(area.x, y, line, area.width);
        if frame.selected.contains(&at) {
            let row = Rect { y, height: 1, ..area };
            buffer.set_style(row, REVERSED);
        }
    }
    let below: Vec<&Line<'_>> = frame.activity.iter().chain(&frame.foot).collect();
    let lines = |lines: &[&Line<'_>]| u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let start = end.saturating_sub(lines(&below));
    let start = start.max(area.y.saturating_add(lines(&above)));
    for (line, y) in below.into_iter().zip(start..end) {
        buffer.set_line(area.x, y, line, area.width);
    }
}

/// The last line at which the help can begin.
pub(super) fn help_end(model: &Model) -> usize {
    let columns = usize::from(model.columns);
    help(columns, &model.dashboard.hints)
        .len()
        .saturating_sub(room(model))
}

/// The last line at which the content of the pane can begin.
pub(super) fn pane_end(model: &Model) -> usize {
    let columns = usize::from(model.columns);
    let pane = model.pane.as_ref();
    let lines = pane.map_or(0, |pane| pane.lines(columns, model.now).len());
    lines.saturating_sub(room(model))
}

/// Lines between the head and the keys.
fn room(model: &Model) -> usize {
    let columns = usize::from(model.columns);
    let fixed = head(model, columns).len() + foot(model, columns).len();
    usize::from(model.lines).saturating_sub(fixed).max(1)
}

struct Frame {
    head: Vec<Line<'static>>,
    body: Vec<Line<'static>>,
    /// Positions of the selected row's lines, counted from the head.
    selected: Vec<usize>,
    activity: Vec<Line<'static>>,
    foot: Vec<Line<'static>>,
}

impl Frame {
    fn of(model: &Model) -> Self {
        let columns = usize::from(model.columns);
        let (head, foot) = (head(model, columns), foot(model, columns));
        let room = room(model);
        let whole =
            |lines: Vec<Line<'static>>, first: usize| lines.into_iter().skip(first).take(room).collect();
        let mut frame = Self {
            head,
            body: Vec::new(),
            selected: Vec::new(),
            activity: Vec::new(),
            foot,
        };
        if let Some(first) = model.help {
            frame.body = whole(help(columns, &model.dashboard.hints), first);
        } else if let Some(pane) = &model.pane {
            frame.body = whole(pane.lines(columns, model.now), pane.first);
        } else {
            frame.activity = activity(model, columns, room);
            let room = room.saturating_sub(frame.activity.len());
            let (body, selected) = list(model, columns, room);
            frame.selected = selected.into_iter().map(|at| at + frame.head.len()).collect();
            frame.body = body;
        }
        frame
    }
}

fn head(model: &Model, columns: usize) -> Vec<Line<'static>> {
    let mut lines = plain(&model.dashboard.title, columns, BOLD);
    if let Some(pane) = model.pane.as_ref().filter(|_| model.help.is_none()) {
        lines = plain(&format!("{}  {}", pane.id, pane.view.title()), columns, BOLD);
    } else if model.help.is_none() {
        lines.extend(counts(model, columns));
    }
    if model.uncommitted {
        let text = "uncommitted work is not applied; commit it, or look with d";
        lines.extend(plain(text, columns, YELLOW));
    }
    lines.push(Line::default());
    lines
}

fn counts(model: &Model, columns: usize) -> Vec<Line<'static>> {
    let rows = || model.dashboard.groups.iter().flat_map(|group| &group.rows);
    let states = [
        State::Failed,
        State::Waiting,
        State::Idle,
        State::Kept,
        State::Ready,
    ];
    let mut words: Vec<(String, Style)> = states
        .iter()
        .map(|state| (rows().filter(|row| row.state == *state).count(), state))
        .filter(|(count, _)| *count > 0)
        .map(|(count, state)| (format!("{count} {}", state.word()), style(*state)))
        .collect();
    if !model.filter.is_empty() || model.typing {
        let cursor = if model.typing { "▏" } else { "" };
        let shown = model.rows().len();
        words.push((format!("/{}{cursor}", model.filter), BOLD));
        words.push((format!("{shown} of {} shown", rows().count()), DIM));
    }
    flow(
        words
            .into_iter()
            .map(|(text, style)| vec![Span::styled(text, style)]),
        columns,
    )
}

/// Places short texts beside each other, as many as fit in a line.
fn flow(words: impl Iterator<Item = Vec<Span<'static>>>, columns: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    for word in words {
        let word = Line::from(word);
        match lines.last_mut() {
            Some(line) if line.width() + 2 + word.width() <= columns => {
                line.push_span(Span::raw("  "));
                line.spans.extend(word.spans);
            }
            _ if word.width() > columns => lines.extend(plain(&word.to_string(), columns, BOLD)),
            _ => lines.push(word),
        }
    }
    lines
}

/// The keys that fit in one line, or in two of a high terminal; help and the end always.
fn foot(model: &Model, columns: usize) -> Vec<Line<'static>> {
    let keys = if model.help.is_some() {
        HELP_KEYS
    } else if model.typing {
        FILTER_KEYS
    } else if model.pane.is_some() {
        PANE_KEYS
    } else {
        TABLE_KEYS
    };
    let words = |least: u8| -> Vec<Line<'static>> {
        let shown = keys.iter().filter(|(_, _, rank)| *rank <= least);
        let words =
            shown.map(|(key, what, _)| vec![Span::styled(*key, BOLD), Span::styled(format!(" {what}"), DIM)]);
        flow(words, columns)
    };
    // two lines only for the keys of panes
    let orders = [(4, 1), (3, 1), (3, 2), (2, 1), (1, 1)];
    let is_high = usize::from(model.lines) >= TWO_LINES_FROM;
    let orders = orders.iter().filter(|(_, lines)| is_high || *lines == 1);
    let mut orders = orders.map(|(least, lines)| (words(*least), lines));
    let shown = orders.find(|(shown, lines)| shown.len() <= **lines);
    let shown = shown.map(|(shown, _)| shown);
    let mut lines = vec![Line::default()];
    lines.extend(shown.unwrap_or_else(|| words(0)));
    lines
}

fn help(columns: usize, hints: &[String]) -> Vec<Line<'static>> {
    let keys = HELP.iter().map(|(key, _)| width(key)).max().unwrap_or(0) + 2;
    let mut lines = Vec::new();
    for (key, what) in HELP {
        lines.extend(two(key, what, keys, columns, BOLD));
    }
    lines.push(Line::default());
    for (state, what) in MARKS {
        lines.extend(two(state.mark(), what, keys, columns, style(*state)));
    }
    lines.push(Line::default());
    if !hints.is_empty() {
        for line in COMMANDS {
            let indent = line.len() - line.trim_start().len();
            let text = wrap(
                line,
                columns.saturating_sub(indent),
                columns.saturating_sub(indent + 2),
            );
            let text = text
                .into_iter()
                .map(|text| Line::raw(format!("{:indent$}{text}", "")));
            lines.extend(text);
        }
    }
    lines
}

/// A word in a column, and text beside it.
fn two(word: &str, text: &str, column: usize, columns: usize, style: Style) -> Vec<Line<'static>> {
    let room = columns.saturating_sub(column).max(1);
    let lines = wrap(text, room, room).into_iter().enumerate();
    let lines = lines.map(|(at, text)| {
        let start = if at == 0 { word } else { "" };
        let gap = column.saturating_sub(width(start));
        Line::from(vec![
            Span::styled(start.to_owned(), style),
            Span::raw(format!("{:gap$}{text}", "")),
        ])
    });
    lines.collect()
}

fn plain(text: &str, columns: usize, style: Style) -> Vec<Line<'static>> {
    let lines = wrap(text, columns, columns).into_iter();
    lines.map(|line| Line::styled(line, style)).collect()
}

fn style(state: State) -> Style {
    match state {
        State::Failed => Style::new().fg(Color::Red),
        State::Waiting => YELLOW,
        State::Idle | State::Kept => DIM,
        State::Ready => Style::new().fg(Color::Green),
    }
}

/// The newest lines of activity that fit, below a heading.
fn activity(model: &Model, columns: usize, room: usize) -> Vec<Line<'static>> {
    if usize::from(model.lines) < ACTIVITY_FROM {
        return Vec::new();
    }
    let mut lines_max = room / ACTIVITY_SHARE;
    let mut shown: Vec<Vec<Line<'static>>> = Vec::new();
    let mut taken = 0;
    for said in model.said().rev() {
        let age = said.when.map(|when| table::since(when, model.now));
        let text = format!("{}: {}", said.object, said.text);
        let style = if said.warning {
            style(State::Failed)
        } else {
            Style::new()
        };
        let lines = two(&age.unwrap_or_default(), &text, AGE_COLUMNS, columns, DIM);
        let lines: Vec<Line<'static>> = lines.into_iter().map(|line| line.patch_style(style)).collect();
        // the newest is always shown, as far as it fits
        if taken > 0 && taken + lines.len() > lines_max {
            break;
        }
        lines_max = lines_max.max(lines.len().min(room / 3));
        taken += lines.len();
        shown.push(lines);
    }
    if shown.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![Line::default(), Line::styled("ACTIVITY", DIM)];
    lines.extend(shown.into_iter().rev().flatten().take(lines_max.max(1)));
    lines
}

/// The part of the list around the selected row, and the positions of that row's lines.
fn list(model: &Model, columns: usize, room: usize) -> (Vec<Line<'static>>, Vec<usize>) {
    let items = model.items();
    let chosen = model.selected_row();
    let widths = Columns::of(model, columns);
    let mut lines: Vec<Line<'static>> = Vec::new();
    let mut selected = Vec::new();
    for item in &items {
        match item {
            Item::Heading(group) => {
                if !lines.is_empty() {
                    lines.push(Line::default());
                }
                lines.extend(plain(&group.heading, columns, DIM));
            }
            Item::None => lines.push(Line::raw("  none")),
            Item::Cause(cause) => lines.extend(plain(cause, columns, style(State::Failed))),
            Item::Note(note) => lines.extend(plain(note, columns, DIM)),
            Item::Row(_, row) => {
                let is_selected = chosen.is_some_and(|chosen| std::ptr::eq(chosen, *row));
                let drawn = widths.row(model, row, is_selected);
                if is_selected {
                    selected.extend(lines.len()..lines.len() + drawn.len());
                }
                lines.extend(drawn);
            }
        }
    }
    let rows = model.rows();
    if rows.is_empty() && !model.filter.is_empty() {
        lines.extend(plain(
            "nothing has these words; esc clears the filter",
            columns,
            DIM,
        ));
    }
    let is = |row: Option<&(&Group, &Row)>| {
        let both = row.zip(chosen);
        both.is_some_and(|((_, row), chosen)| std::ptr::eq(*row, chosen))
    };
    let ends = (is(rows.first()), is(rows.last()));
    let first = window(lines.len(), &selected, room, ends);
    let lines: Vec<_> = lines.into_iter().skip(first).take(room).collect();
    let selected = selected.into_iter().filter_map(|at| at.checked_sub(first));
    (lines, selected.filter(|at| *at < room).collect())
}

/// The first line to show: the selected row is in the middle if not everything fits. With the first or the
/// last row, the lines without a row are shown, too.
fn window(lines: usize, selected: &[usize], room: usize, (is_first, is_last): (bool, bool)) -> usize {
    let end = lines.saturating_sub(room);
    let (Some(first), Some(last)) = (selected.first(), selected.last()) else {
        return 0;
    };
    if is_first && *last < room {
        return 0;
    }
    if is_last && *first >= end {
        return end;
    }
    let middle = (first + last) / 2;
    middle.saturating_sub(room / 2).min(*first).min(end)
}

/// The widths of the columns, or none if a row needs several lines.
struct Columns {
    name: usize,
    detail: usize,
    columns: usize,
    beside: bool,
}

impl Columns {
    fn of(model: &Model, columns: usize) -> Self {
        let rows = model.rows();
        let widest = |of: fn(&Row) -> &str| rows.iter().map(|(_, row)| width(of(row))).max().unwrap_or(0);
        let (name, detail) = (widest(|row| &row.name), widest(|row| &row.detail));
        let age = widest(|row| &row.age);
        Self {
            name,
            detail,
            columns,
            beside: 4 + name + 2 + detail + 2 + age <= columns,
        }
    }

    fn row(&self, model: &Model, row: &Row, is_selected: bool) -> Vec<Line<'static>> {
        let mark = Span::styled(format!("  {} ", row.state.mark()), style(row.state));
        let mut lines = match self.beside {
            true => {
                let text = format!(
                    "{}  {}  {}",
                    padded(&row.name, self.name),
                    padded(&row.detail, self.detail),
                    row.age
                );
                vec![Line::from(vec![mark, Span::raw(text.trim_end().to_owned())])]
            }
            false => self.narrow(mark, row),
        };
        let message = model.message(row);
        if message.is_empty() {
            return lines;
        }
        let style = style(row.state);
        if let [line] = lines.as_mut_slice()
            && line.width() + 2 + width(&message) <= self.columns
        {
            line.push_span(Span::styled(format!("  {message}"), style));
            return lines;
        }
        let room = self.columns.saturating_sub(MESSAGE_INDENT).max(1);
        let mut below = wrap(&message, room, room);
        if !is_selected && below.len() > MESSAGE_LINES {
            below.truncate(MESSAGE_LINES);
            if let Some(last) = below.last_mut() {
                while width(last) + 1 > room {
                    last.pop();
                }
                last.push('…');
            }
        }
        let below = below.into_iter().map(|text| {
            let indent = " ".repeat(MESSAGE_INDENT);
            Line::from(vec![Span::raw(indent), Span::styled(text, style)])
        });
        lines.extend(below);
        lines
    }

    /// The name, and below it the rest.
    fn narrow(&self, mark: Span<'static>, row: &Row) -> Vec<Line<'static>> {
        let rest = format!("{}  {}", row.detail, row.age);
        let rest = rest.trim();
        let room = self.columns.saturating_sub(4).max(1);
        if width(&row.name) + 2 + width(rest) <= room {
            let gap = room - width(&row.name) - width(rest);
            let text = format!("{}{:gap$}{rest}", row.name, "");
            return vec![Line::from(vec![mark, Span::raw(text.trim_end().to_owned())])];
        }
        let mut lines = Vec::new();
        for (at, text) in wrap(&row.name, room, room).into_iter().enumerate() {
            let start = if at == 0 { mark.clone() } else { Span::raw("    ") };
            lines.push(Line::from(vec![start, Span::raw(text)]));
        }
        if !rest.is_empty() {
            let gap = room.saturating_sub(width(rest));
            lines.push(Line::from(vec![
                Span::raw("    "),
                Span::styled(format!("{:gap$}{rest}", ""), DIM),
            ]));
        }
        lines
    }
}

fn padded(text: &str, columns: usize) -> String {
    let gap = columns.saturating_sub(width(text));
    format!("{text}{:gap$}", "")
}
