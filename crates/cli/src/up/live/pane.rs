//! Content of a pane about one object. Pure.

use super::model::Request;
use crate::explain::{Explanation, TerminalSize};
use crate::up::wrap::wrap_indented;
use equate_apply::id::ObjectId;
use jiff::Timestamp;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::Line;

/// Columns before the message of an event: its age.
pub(super) const EVENT_COLUMNS: usize = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Explain,
    Pods,
    Events,
    Yaml,
    Diff,
}

impl View {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Explain => "explain",
            Self::Pods => "pods",
            Self::Events => "events",
            Self::Yaml => "YAML",
            Self::Diff => "diff to the working tree",
        }
    }
}

#[derive(Debug)]
pub(super) enum Content {
    Loading,
    Explanation(Box<Explanation>),
    Text(String),
    Failed(String),
}

#[derive(Debug)]
pub(super) struct Pane {
    pub(super) id: ObjectId,
    pub(super) view: View,
    pub(super) content: Content,
    /// Whether new content is on its way.
    pub(super) pending: bool,
    /// Whether something has changed since that was asked for.
    pub(super) again: bool,
    pub(super) asked: Timestamp,
    /// The first line that is shown.
    pub(super) first: usize,
}

impl Pane {
    pub(super) fn new(id: ObjectId, view: View, now: Timestamp) -> Self {
        Self {
            id,
            view,
            content: Content::Loading,
            pending: true,
            again: false,
            asked: now,
            first: 0,
        }
    }

    pub(super) fn request(&self) -> Request {
        Request {
            view: self.view,
            id: self.id.clone(),
        }
    }

    /// All lines of the content.
    pub(super) fn lines(&self, columns: usize, now: Timestamp) -> Vec<Line<'static>> {
        let red = Style::new().fg(Color::Red);
        match &self.content {
            Content::Loading => vec![Line::styled("loading", Style::new().add_modifier(Modifier::DIM))],
            Content::Failed(error) => styled(&format!("error: {error}"), columns, 2, |_, _| red),
            Content::Text(text) => {
                let hanging = match self.view {
                    View::Events => EVENT_COLUMNS,
                    View::Pods | View::Diff => 4,
                    View::Yaml | View::Explain => 2,
                };
                styled(text, columns, hanging, |_, line| self.style(line))
            }
            Content::Explanation(explanation) => {
                let size = TerminalSize {
                    width: columns,
                    colour: false,
                };
                let head = if explanation.is_healthy() {
                    Color::Green
                } else {
                    Color::Red
                };
                styled(&explanation.text(now, size), columns, 2, |at, line| match at {
                    0 => Style::new().fg(head),
                    _ => title_style(line),
                })
            }
        }
    }

    fn style(&self, line: &str) -> Style {
        let first = line.trim_start().chars().next();
        match (self.view, first) {
            (View::Diff, Some('+')) => Style::new().fg(Color::Green),
            (View::Diff, Some('-' | '!')) => Style::new().fg(Color::Red),
            (View::Diff, Some('~' | '±' | '>')) => Style::new().fg(Color::Yellow),
            (View::Pods, Some('✓')) => Style::new().fg(Color::Green),
            (View::Pods, Some('✗')) => Style::new().fg(Color::Red),
            _ => Style::new(),
        }
    }
}

/// Headings and the names of paragraphs stand out.
fn title_style(line: &str) -> Style {
    let word = line.split([' ', ':']).next().unwrap_or_default();
    let heading = !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase());
    match heading {
        true => Style::new().add_modifier(Modifier::BOLD),
        false => Style::new(),
    }
}

fn styled(
    text: &str,
    columns: usize,
    hanging: usize,
    style: impl Fn(usize, &str) -> Style,
) -> Vec<Line<'static>> {
    let lines = text.lines().enumerate().flat_map(|(at, line)| {
        let style = style(at, line);
        let mut wrapped = wrap_indented(line, columns, hanging);
        if wrapped.is_empty() {
            wrapped.push(String::new());
        }
        wrapped.into_iter().map(move |line| Line::styled(line, style))
    });
    lines.collect()
}
