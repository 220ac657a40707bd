//! Draws the dashboard of `equate up` as text.
//!
//! Pure: no terminal, no clock; the caller passes the size and whether to use colour. Objects that need
//! attention come first; ready ones are only counted if they do not fit.

use super::summary::WAITING_NAMED;
use super::wrap::wrap;
use console::{Style, measure_text_width, truncate_str};
use equate_apply::id::ObjectId;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The detail of an object that its release applied and does not watch.
pub(crate) const APPLIED: &str = "applied";
/// The detail of an applied object that no watch has shown yet.
pub(crate) const NOT_FOUND: &str = "not found";

/// The state of everything at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Dashboard {
    pub(crate) title: String,
    pub(crate) hints: Vec<String>,
    pub(crate) groups: Vec<Group>,
    /// Why rows fail, a line for each cause that several may have.
    pub(crate) causes: Vec<String>,
    /// The full names of rows whose failure is among the causes.
    pub(crate) grouped: BTreeSet<String>,
    /// The full names of rows that wait for other rows.
    pub(crate) dependents: BTreeSet<String>,
    /// About objects that are stored and not acted on.
    pub(crate) notes: Vec<String>,
}

impl Dashboard {
    /// A number that changes with the rows, except for their ages.
    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for row in self.groups.iter().flat_map(|group| &group.rows) {
            (&row.name, row.state, &row.detail, &row.message).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Whether the row waits for others, with so many that only their number is said.
    pub(crate) fn is_counted(&self, full_name: &str) -> bool {
        self.dependents.len() > WAITING_NAMED && self.dependents.contains(full_name)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) heading: String,
    /// The kind of its rows, if their names do not include it.
    pub(crate) kind: Option<&'static str>,
    /// Whether one of the loop's own objects belongs to it, so that an empty group is shown.
    pub(crate) has_own_object: bool,
    pub(crate) rows: Vec<Row>,
}

impl Group {
    /// The row's name without its heading.
    pub(crate) fn full_name(&self, row: &Row) -> String {
        match self.kind {
            Some(kind) => format!("{kind}/{}", row.name),
            None => row.name.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The object in the cluster, if the row is one.
    pub(crate) id: Option<ObjectId>,
    pub(crate) state: State,
    pub(crate) name: String,
    /// A revision or a health status.
    pub(crate) detail: String,
    pub(crate) age: String,
    pub(crate) message: String,
}

impl Row {
    /// The message in one line, with its cause first.
    pub(crate) fn caused_by(&self, cause: Option<&str>) -> String {
        let message = self.message.split_whitespace().collect::<Vec<_>>().join(" ");
        match cause {
            Some(cause) if cause.contains(&message) => cause.to_owned(),
            Some(cause) if !message.contains(cause) => format!("{cause}; {message}"),
            _ => message,
        }
    }
}

/// The state of a row, worst first: the order in which rows are selected if not all fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum State {
    Failed,
    Waiting,
    /// Not reconciled: suspended, or without a controller.
    Idle,
    /// Reconciled by something else.
    Kept,
    Ready,
}

impl State {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Waiting => "waiting",
            Self::Idle => "idle",
            Self::Kept => "kept",
            Self::Ready => "ready",
        }
    }

    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Failed => "✗",
            Self::Waiting => "◌",
            Self::Idle => "–",
            Self::Kept => "=",
            Self::Ready => "✓",
        }
    }

    fn style(self, colour: bool) -> Style {
        let style = Style::new().force_styling(colour);
        match self {
            Self::Failed => style.red(),
            Self::Waiting => style.yellow(),
            Self::Idle | Self::Kept => style.dim(),
            Self::Ready => style.green(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalSize {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) colour: bool,
}

const NAME_WIDTH_MAX: usize = 52;
const DETAIL_WIDTH_MAX: usize = 28;
/// Columns before a message below its row, and its most lines.
const MESSAGE_INDENT: usize = 6;
const MESSAGE_LINES_MAX: usize = 6;

/// Draws the dashboard within the terminal's size.
pub(crate) fn draw(dashboard: &Dashboard, size: TerminalSize) -> String {
    let bold = Style::new().force_styling(size.colour).bold();
    let dim = Style::new().force_styling(size.colour).dim();
    let mut text = String::new();
    line(&mut text, size, &bold.apply_to(&dashboard.title).to_string());
    let summary = dashboard.causes.len() + dashboard.notes.len();
    let summary = summary + usize::from(summary > 0);
    let fixed = 1 + dashboard.groups.len() * 2 + summary + dashboard.hints.len() + 1;
    let mut free = size.height.saturating_sub(fixed);
    let columns = Columns::of(&dashboard.groups);
    for (position, group) in dashboard.groups.iter().enumerate() {
        // later groups keep at least one line each, so that a long group does not hide them
        let later = dashboard.groups.len() - position - 1;
        let allowed = free.saturating_sub(later).max(1);
        let shown = draw_group(&mut text, group, columns, allowed, size);
        free = free.saturating_sub(shown);
    }
    if !dashboard.causes.is_empty() || !dashboard.notes.is_empty() {
        text.push('\n');
    }
    for cause in &dashboard.causes {
        line(
            &mut text,
            size,
            &State::Failed.style(size.colour).apply_to(cause).to_string(),
        );
    }
    for note in &dashboard.notes {
        line(&mut text, size, &dim.apply_to(note).to_string());
    }
    if !dashboard.hints.is_empty() {
        text.push('\n');
    }
    for hint in &dashboard.hints {
        line(&mut text, size, &dim.apply_to(hint).to_string());
    }
    text
}

/// Draws a group; returns the number of lines of its rows.
fn draw_group(
    text: &mut String,
    group: &Group,
    columns: Columns,
    allowed: usize,
    size: TerminalSize,
) -> usize {
    let dim = Style::new().force_styling(size.colour).dim();
    text.push('\n');
    line(text, size, &dim.apply_to(&group.heading).to_string());
    if group.rows.is_empty() {
        line(text, size, "  none");
        return 1;
    }
    let drawn: Vec<(State, Vec<String>)> = group
        .rows
        .iter()
        .map(|row| (row.state, columns.row(row, size)))
        .collect();
    let (picked, hidden) = pick(&drawn, allowed);
    let mut taken = 0;
    for (_, lines) in picked.iter().filter_map(|&index| drawn.get(index)) {
        for content in lines {
            line(text, size, content);
            taken += 1;
        }
    }
    if !hidden.is_empty() {
        let unwell = hidden.iter().filter(|state| **state < State::Idle).count();
        let more = if unwell == 0 {
            format!("  … and {} more, all well", hidden.len())
        } else {
            format!("  … and {} more, {unwell} of them not ready", hidden.len())
        };
        line(text, size, &dim.apply_to(more).to_string());
        taken += 1;
    }
    taken
}

/// Selects the worst rows that fit, in the group's order; returns the omitted states too.
fn pick(drawn: &[(State, Vec<String>)], allowed: usize) -> (Vec<usize>, Vec<State>) {
    let all: usize = drawn.iter().map(|(_, lines)| lines.len()).sum();
    // one line is needed for the number of omitted rows
    let mut left = if all <= allowed {
        all
    } else {
        allowed.saturating_sub(1)
    };
    let mut order: Vec<(usize, &(State, Vec<String>))> = drawn.iter().enumerate().collect();
    order.sort_by_key(|(_, (state, _))| *state);
    let (mut picked, mut hidden) = (Vec::new(), Vec::new());
    for (index, (state, lines)) in order {
        match left.checked_sub(lines.len()) {
            Some(rest) if hidden.is_empty() => {
                left = rest;
                picked.push(index);
            }
            Some(_) | None => hidden.push(*state),
        }
    }
    picked.sort_unstable();
    (picked, hidden)
}

#[derive(Debug, Clone, Copy)]
struct Columns {
    name: usize,
    detail: usize,
    age: usize,
}

impl Columns {
    fn of(groups: &[Group]) -> Self {
        let widest = |of: fn(&Row) -> &str, limit: usize| {
            groups
                .iter()
                .flat_map(|group| &group.rows)
                .map(|row| measure_text_width(of(row)))
                .max()
                .unwrap_or(0)
                .min(limit)
        };
        Self {
            name: widest(|row| &row.name, NAME_WIDTH_MAX),
            detail: widest(|row| &row.detail, DETAIL_WIDTH_MAX),
            age: widest(|row| &row.age, 8),
        }
    }

    /// The lines of a row; its message goes below if it does not fit.
    fn row(self, row: &Row, size: TerminalSize) -> Vec<String> {
        let style = row.state.style(size.colour);
        let mut text = format!("  {} ", style.apply_to(row.state.mark()));
        pad(&mut text, &row.name, self.name);
        text.push_str("  ");
        pad(&mut text, &row.detail, self.detail);
        text.push_str("  ");
        pad(&mut text, &row.age, self.age);
        if row.message.is_empty() {
            return vec![text];
        }
        // joins the lines of a message, which would break the table
        let message = row.message.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        let beside = measure_text_width(&text) + 2 + measure_text_width(&message) <= size.width;
        if beside {
            return vec![format!("{text}  {}", style.apply_to(message))];
        }
        let room = size.width.saturating_sub(MESSAGE_INDENT).max(1);
        let mut lines = vec![text];
        let below = wrap(&message, room, room).into_iter().take(MESSAGE_LINES_MAX);
        lines.extend(below.map(|line| format!("{:MESSAGE_INDENT$}{}", "", style.apply_to(line))));
        lines
    }
}

fn pad(text: &mut String, cell: &str, width: usize) {
    let cell = truncate_str(cell, width, "…");
    text.push_str(&cell);
    text.extend(std::iter::repeat_n(
        ' ',
        width.saturating_sub(measure_text_width(&cell)),
    ));
}

fn line(text: &mut String, size: TerminalSize, content: &str) {
    text.push_str(truncate_str(content, size.width, "…").trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(state: State, name: &str, message: &str) -> Row {
        Row {
            id: None,
            state,
            name: name.into(),
            detail: "main@5c1f2ab".into(),
            age: "3s".into(),
            message: message.into(),
        }
    }

    fn check(dashboard: &Dashboard, width: usize, height: usize, expected: &str) {
        let size = TerminalSize {
            width,
            height,
            colour: false,
        };
        let drawn = draw(dashboard, size);
        assert_eq!(drawn.trim_end(), expected.trim_matches('\n'), "\n{drawn}");
        assert!(drawn.lines().count() <= height.max(6), "{drawn}");
    }

    #[test]
    fn rows_that_fit_keep_their_order() {
        let dashboard = Dashboard {
            title: "fleet".into(),
            hints: vec!["Ctrl-C stops".into()],
            groups: vec![
                Group {
                    heading: "SOURCES".into(),
                    rows: vec![row(State::Ready, "GitRepository/flux-system", "")],
                    ..Group::default()
                },
                Group {
                    heading: "KUSTOMIZATIONS".into(),
                    rows: vec![
                        row(State::Ready, "apps", ""),
                        row(State::Failed, "web", "a: 1\n  b: 2"),
                    ],
                    ..Group::default()
                },
                Group {
                    heading: "OBJECTS".into(),
                    rows: vec![],
                    ..Group::default()
                },
            ],
            ..Dashboard::default()
        };
        check(
            &dashboard,
            80,
            24,
            "
fleet

SOURCES
  ✓ GitRepository/flux-system  main@5c1f2ab  3s

KUSTOMIZATIONS
  ✓ apps                       main@5c1f2ab  3s
  ✗ web                        main@5c1f2ab  3s  a: 1 b: 2

OBJECTS
  none

Ctrl-C stops",
        );
    }

    #[test]
    fn messages_are_wrapped() {
        let dashboard = Dashboard {
            title: "fleet".into(),
            groups: vec![Group {
                heading: "OBJECTS".into(),
                rows: vec![row(
                    State::Failed,
                    "web",
                    "no such file or directory: 'missing.yaml'",
                )],
                ..Group::default()
            }],
            ..Dashboard::default()
        };
        check(
            &dashboard,
            34,
            10,
            "
fleet

OBJECTS
  ✗ web  main@5c1f2ab  3s
      no such file or directory:
      'missing.yaml'",
        );
    }

    #[test]
    fn failed_rows_are_shown_first() {
        let mut rows: Vec<Row> = (0..20).map(|n| row(State::Ready, &format!("a{n}"), "")).collect();
        rows[17].state = State::Waiting;
        rows[19].state = State::Failed;
        let dashboard = Dashboard {
            title: "fleet".into(),
            hints: vec![],
            groups: vec![Group {
                heading: "OBJECTS".into(),
                rows,
                ..Group::default()
            }],
            ..Dashboard::default()
        };
        check(
            &dashboard,
            20,
            8,
            "
fleet

OBJECTS
  ✓ a0   main@5c1f2…
  ◌ a17  main@5c1f2…
  ✗ a19  main@5c1f2…
  … and 17 more, al…",
        );
    }
}
