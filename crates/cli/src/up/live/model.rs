//! The state of the interactive view: keys and news in, requests out. Pure.

use super::activity::{Activity, Said};
use super::draw;
use super::pane::{Content, Pane, View};
use crate::up::view::{Dashboard, Group, Row, State};
use equate_apply::id::ObjectId;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    Interrupt,
}

#[derive(Debug)]
pub(super) enum Input {
    Key(Key),
    Size {
        columns: u16,
        lines: u16,
    },
    Dashboard(Dashboard),
    Events(Vec<Event>),
    /// A warning of the program itself.
    Warning(String),
    Uncommitted(bool),
    Loaded(Request, Content),
    /// The cause of an object's state.
    Cause(ObjectId, Option<String>),
}

/// Content of a pane that the caller has to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) view: View,
    pub(super) id: ObjectId,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    End,
    Load(Request),
    /// Find the cause of an object's state.
    Diagnose(ObjectId),
}

/// A row's group and name.
type Place = (String, String);

#[derive(Debug)]
pub(super) struct Model {
    pub(super) dashboard: Dashboard,
    pub(super) now: Timestamp,
    pub(super) columns: u16,
    pub(super) lines: u16,
    pub(super) uncommitted: bool,
    pub(super) activity: Activity,
    pub(super) filter: String,
    /// Whether keys go to the filter.
    pub(super) typing: bool,
    pub(super) pane: Option<Pane>,
    /// The first line of the help that is shown, if it is open.
    pub(super) help: Option<usize>,
    selected: Option<Place>,
    causes: BTreeMap<ObjectId, Cause>,
}

/// The cause of an object's state, as far as it is known.
#[derive(Debug)]
struct Cause {
    /// The message of the row that it explains.
    message: String,
    text: Option<String>,
    asked: Timestamp,
    pending: bool,
}

/// Time after which a cause is looked for again: a container fails while its Deployment's message stays.
const CAUSE_SECONDS: i64 = 3;

/// Objects whose cause is looked for at the same time as the view is open.
const DIAGNOSED: usize = 20;

/// A line of the list.
#[derive(Debug, Clone, Copy)]
pub(super) enum Item<'a> {
    Heading(&'a Group),
    Row(&'a Group, &'a Row),
    /// A failure that several rows share.
    Cause(&'a str),
    Note(&'a str),
    None,
}

impl Model {
    pub(super) fn new(now: Timestamp, columns: u16, lines: u16) -> Self {
        Self {
            dashboard: Dashboard::default(),
            now,
            columns,
            lines,
            uncommitted: false,
            activity: Activity::default(),
            filter: String::new(),
            typing: false,
            pane: None,
            help: None,
            selected: None,
            causes: BTreeMap::new(),
        }
    }

    /// Takes in one thing that happened; returns what the caller has to do for it.
    pub(super) fn update(&mut self, input: Input) -> Vec<Ask> {
        let asks = match input {
            Input::Key(key) => self.key(key).into_iter().collect(),
            Input::Size { columns, lines } => {
                (self.columns, self.lines) = (columns, lines);
                Vec::new()
            }
            Input::Dashboard(dashboard) => self.replace(dashboard),
            Input::Events(events) => {
                self.activity.add(events);
                Vec::new()
            }
            Input::Warning(text) => {
                self.activity.note(self.now, text);
                Vec::new()
            }
            Input::Uncommitted(uncommitted) => {
                let differs = self.uncommitted || uncommitted;
                self.uncommitted = uncommitted;
                let shown = self.pane.as_ref().is_some_and(|pane| pane.view == View::Diff);
                match shown && differs {
                    true => self.reload().into_iter().collect(),
                    false => Vec::new(),
                }
            }
            Input::Loaded(request, content) => {
                let mut again = false;
                if let Some(pane) = self.pane.as_mut().filter(|pane| pane.request() == request) {
                    pane.content = content;
                    pane.pending = false;
                    again = std::mem::take(&mut pane.again);
                }
                match again {
                    true => self.reload().into_iter().collect(),
                    false => Vec::new(),
                }
            }
            Input::Cause(id, text) => {
                if let Some(cause) = self.causes.get_mut(&id) {
                    cause.text = text;
                    cause.pending = false;
                }
                Vec::new()
            }
        };
        self.clamp();
        asks
    }

    fn replace(&mut self, dashboard: Dashboard) -> Vec<Ask> {
        let mut asks = Vec::new();
        if let Some(pane) = &self.pane {
            let changed = state_of(&self.dashboard, &pane.id) != state_of(&dashboard, &pane.id);
            let seconds = self.now.duration_since(pane.asked).as_secs();
            // a container or an event changes while the row stays
            let is_old = seconds >= CAUSE_SECONDS && !matches!(pane.view, View::Yaml | View::Diff);
            if changed || (is_old && !pane.pending) {
                asks.extend(self.reload());
            }
        }
        self.dashboard = dashboard;
        let rows = self.dashboard.groups.iter().flat_map(|group| &group.rows);
        let unwell = rows.filter(|row| row.state == State::Failed || row.state == State::Waiting);
        let unwell = unwell.filter_map(|row| Some((row.id.clone()?, row.message.clone())));
        let unwell: Vec<_> = unwell.take(DIAGNOSED).collect();
        self.causes
            .retain(|id, _| unwell.iter().any(|(other, _)| other == id));
        for (id, message) in unwell {
            let known = self.causes.get(&id);
            let is_fresh = known.is_some_and(|known| {
                let seconds = self.now.duration_since(known.asked).as_secs();
                known.message == message && (known.pending || seconds < CAUSE_SECONDS)
            });
            if is_fresh {
                continue;
            }
            let text = known.filter(|known| known.message == message);
            let cause = Cause {
                text: text.and_then(|known| known.text.clone()),
                message,
                asked: self.now,
                pending: true,
            };
            self.causes.insert(id.clone(), cause);
            asks.push(Ask::Diagnose(id));
        }
        asks
    }

    /// Asks for the pane's content again; later, if it is on its way.
    fn reload(&mut self) -> Option<Ask> {
        let pane = self.pane.as_mut()?;
        if std::mem::replace(&mut pane.pending, true) {
            pane.again = true;
            return None;
        }
        pane.asked = self.now;
        Some(Ask::Load(pane.request()))
    }

    /// A row's message, with its cause first.
    pub(super) fn message(&self, row: &Row) -> String {
        let cause = row.id.as_ref().and_then(|id| self.causes.get(id));
        row.caused_by(cause.and_then(|cause| cause.text.as_deref()))
    }

    fn key(&mut self, key: Key) -> Option<Ask> {
        if key == Key::Interrupt {
            return Some(Ask::End);
        }
        if self.typing {
            self.type_filter(key);
            return None;
        }
        if self.help.is_some() {
            return self.help_key(key);
        }
        match key {
            Key::Char('q') => return Some(Ask::End),
            Key::Char('?') => self.help = Some(0),
            Key::Char('e') => return self.open(View::Events),
            Key::Char('p') => return self.open(View::Pods),
            Key::Char('y') => return self.open(View::Yaml),
            Key::Char('d') => return self.open(View::Diff),
            Key::Enter => return self.open(View::Explain),
            Key::Char('/') => {
                self.pane = None;
                self.typing = true;
            }
            Key::Escape | Key::Backspace => {
                if self.pane.take().is_none() {
                    self.filter.clear();
                }
            }
            key => self.travel(key),
        }
        None
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Char(c) => self.filter.push(c),
            Key::Backspace if self.filter.is_empty() => self.typing = false,
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Escape => {
                self.filter.clear();
                self.typing = false;
            }
            Key::Enter => self.typing = false,
            Key::Up | Key::Down => self.travel(key),
            Key::PageUp | Key::PageDown | Key::Home | Key::End | Key::Interrupt => {}
        }
    }

    fn help_key(&mut self, key: Key) -> Option<Ask> {
        match key {
            Key::Char('q') => return Some(Ask::End),
            Key::Char('?') | Key::Escape | Key::Enter | Key::Backspace => self.help = None,
            key => self.travel(key),
        }
        None
    }

    fn open(&mut self, view: View) -> Option<Ask> {
        let id = match &self.pane {
            Some(pane) => pane.id.clone(),
            None => self.selected_row()?.id.clone()?,
        };
        let pane = Pane::new(id, view, self.now);
        let ask = Ask::Load(pane.request());
        self.pane = Some(pane);
        Some(ask)
    }

    /// Moves in the list, or scrolls the pane or the help.
    fn travel(&mut self, key: Key) {
        let page = usize::from(self.lines / 2).max(1);
        let to = |at: usize| match key {
            Key::Up | Key::Char('k') => at.saturating_sub(1),
            Key::Down | Key::Char('j') => at + 1,
            Key::PageUp | Key::Char('b') => at.saturating_sub(page),
            Key::PageDown | Key::Char(' ' | 'f') => at + page,
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => usize::MAX,
            _ => at,
        };
        if let Some(first) = &mut self.help {
            *first = to(*first);
        } else if let Some(pane) = &mut self.pane {
            pane.first = to(pane.first);
        } else {
            let rows = self.rows();
            let at = self.position(&rows).unwrap_or_default();
            let at = to(at).min(rows.len().saturating_sub(1));
            self.selected = rows.get(at).map(|(group, row)| place(group, row));
        }
    }

    /// Keeps positions within what is there.
    fn clamp(&mut self) {
        if let Some(first) = self.help {
            self.help = Some(first.min(draw::help_end(self)));
        }
        if let Some(first) = self.pane.as_ref().map(|pane| pane.first) {
            let end = draw::pane_end(self);
            if let Some(pane) = &mut self.pane {
                pane.first = first.min(end);
            }
        }
    }

    /// The lines of the list that the filter admits, with the headings of their groups.
    pub(super) fn items(&self) -> Vec<Item<'_>> {
        let mut items = Vec::new();
        let admits = |line: &&String| self.admits(line);
        items.extend(
            self.dashboard
                .causes
                .iter()
                .filter(admits)
                .map(|line| Item::Cause(line)),
        );
        items.extend(
            self.dashboard
                .notes
                .iter()
                .filter(admits)
                .map(|line| Item::Note(line)),
        );
        for group in &self.dashboard.groups {
            let rows: Vec<&Row> = group
                .rows
                .iter()
                .filter(|row| self.admits_row(group, row))
                .collect();
            if rows.is_empty() && !self.filter.is_empty() {
                continue;
            }
            items.push(Item::Heading(group));
            if rows.is_empty() {
                items.push(Item::None);
            }
            items.extend(rows.into_iter().map(|row| Item::Row(group, row)));
        }
        items
    }

    pub(super) fn rows(&self) -> Vec<(&Group, &Row)> {
        let rows = self.items().into_iter().filter_map(|item| match item {
            Item::Row(group, row) => Some((group, row)),
            Item::Heading(_) | Item::Cause(_) | Item::Note(_) | Item::None => None,
        });
        rows.collect()
    }

    fn admits_row(&self, group: &Group, row: &Row) -> bool {
        if self.filter.is_empty() {
            return true;
        }
        let text = [
            group.full_name(row).as_str(),
            &row.detail,
            row.state.word(),
            &row.message,
        ]
        .join(" ");
        self.admits(&text)
    }

    /// Whether a text contains all words of the filter, in any case.
    fn admits(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let filter = self.filter.to_lowercase();
        filter.split_whitespace().all(|word| text.contains(word))
    }

    fn position(&self, rows: &[(&Group, &Row)]) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        rows.iter()
            .position(|(group, row)| place(group, row) == *selected)
    }

    /// The selected row; the first one if nothing is selected or it is gone.
    pub(super) fn selected_row(&self) -> Option<&Row> {
        let rows = self.rows();
        let at = self.position(&rows).unwrap_or_default();
        rows.get(at).map(|(_, row)| *row)
    }

    pub(super) fn said(&self) -> impl DoubleEndedIterator<Item = &Said> {
        self.activity.iter()
    }
}

fn place(group: &Group, row: &Row) -> Place {
    (group.heading.clone(), row.name.clone())
}

/// An object's row without its age.
fn state_of<'d>(dashboard: &'d Dashboard, id: &ObjectId) -> Option<(State, &'d str, &'d str)> {
    let mut rows = dashboard.groups.iter().flat_map(|group| &group.rows);
    let row = rows.find(|row| row.id.as_ref() == Some(id))?;
    Some((row.state, &row.detail, &row.message))
}
