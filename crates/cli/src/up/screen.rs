//! Output of the view: a terminal that is redrawn in place, or log lines.

use super::view::{APPLIED, Dashboard, Group, Row, State, TerminalSize, draw};
use console::Term;
use equate_apply::id::ObjectId;
use std::collections::{BTreeMap, HashSet};
use std::io::{IsTerminal, Write};
use std::time::Duration;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) enum Screen {
    /// Redrawn in place.
    Terminal(Terminal),
    /// One line per change.
    Log(Log),
}

/// A terminal and its current content.
#[derive(Debug)]
pub(crate) struct Terminal {
    term: Term,
    colour: bool,
    shown: String,
}

/// Lines about rows between two calm moments; further changes are only counted.
const LINES_MAX: usize = 200;
/// Interval of the counts while nothing is calm.
const COUNTS_INTERVAL: Duration = Duration::from_secs(5);
/// Waiting rows that have lines at a calm moment; more are only counted.
const WAITING_MAX: usize = 20;
/// Failed rows that are named beside the counts.
const FAILED_NAMED: usize = 20;

/// A row's object, or the name of a row that is none: names alone may be ambiguous.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Subject {
    Object(ObjectId),
    Name(String),
}

impl Subject {
    fn of(row: &Row) -> Self {
        match &row.id {
            Some(id) => Self::Object(id.clone()),
            None => Self::Name(row.name.clone()),
        }
    }
}

/// The last line of each subject.
#[derive(Debug, Default)]
pub(crate) struct Log {
    last: BTreeMap<Subject, Shown>,
    /// Waiting rows without a line: they have one at the next calm moment.
    awaited: BTreeMap<Subject, Shown>,
    summary: Vec<String>,
    /// Lines since the last calm moment.
    said: usize,
    counted: Counted,
}

#[derive(Debug, PartialEq, Eq)]
struct Shown {
    name: String,
    state: State,
    detail: String,
    message: String,
}

impl Shown {
    fn of(group: &Group, row: &Row) -> Self {
        Self {
            name: group.full_name(row),
            state: row.state,
            detail: row.detail.clone(),
            message: row.message.clone(),
        }
    }

    fn line(&self) -> String {
        let Self {
            name,
            state,
            detail,
            message,
        } = self;
        let below = format!("\n{:9}", "");
        let message = message.trim().replace('\n', &below);
        let line = format!("{:7}  {name}  {detail}  {message}", state.word());
        line.trim_end().to_owned()
    }
}

/// Changes without a line of their own.
#[derive(Debug, Default)]
struct Counted {
    since: Option<Instant>,
    /// The last state of each subject, and its line if it failed.
    rows: BTreeMap<Subject, (State, Option<String>)>,
    gone: usize,
}

impl Counted {
    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.gone == 0
    }

    /// `1500 objects changed: 20 failed, 1480 ready`, then failed ones by name.
    fn take(&mut self) -> Vec<String> {
        let Self { rows, gone, .. } = std::mem::take(self);
        let mut lines = Vec::new();
        let mut counts: BTreeMap<State, usize> = BTreeMap::new();
        for (state, _) in rows.values() {
            *counts.entry(*state).or_default() += 1;
        }
        let counts = counts
            .iter()
            .map(|(state, count)| format!("{count} {}", state.word()));
        let mut counts: Vec<String> = counts.collect();
        if gone > 0 {
            counts.push(format!("{gone} gone"));
        }
        if !counts.is_empty() {
            let total = rows.len() + gone;
            lines.push(format!(
                "summary  {total} more objects changed: {}",
                counts.join(", ")
            ));
        }
        let failed: Vec<String> = rows.into_values().filter_map(|(_, line)| line).collect();
        let more = failed.len().saturating_sub(FAILED_NAMED);
        lines.extend(failed.into_iter().take(FAILED_NAMED));
        if more > 0 {
            lines.push(format!("failed   {more} more"));
        }
        lines
    }
}

impl Screen {
    /// Selects the screen by the type of standard output.
    pub(crate) fn of_stdout() -> Self {
        if std::io::stdout().is_terminal() {
            Self::Terminal(Terminal {
                term: Term::buffered_stdout(),
                colour: crate::table::colour(),
                shown: String::new(),
            })
        } else {
            Self::Log(Log::default())
        }
    }

    /// Whether the view changes with time alone.
    pub(crate) fn shows_ages(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// Shows a dashboard; writes nothing if it has not changed.
    pub(crate) fn show(&mut self, dashboard: &Dashboard) -> std::io::Result<()> {
        match self {
            Self::Terminal(terminal) => terminal.show(dashboard),
            Self::Log(log) => log.show(dashboard, &mut std::io::stdout().lock()),
        }
    }

    /// Whether a summary has lines that were not printed. A terminal shows them in the view.
    pub(crate) fn has_news(&self, dashboard: &Dashboard) -> bool {
        match self {
            Self::Terminal(_) => false,
            Self::Log(log) => log.has_news(dashboard),
        }
    }

    /// Prints the new lines of a summary.
    pub(crate) fn summarise(&mut self, dashboard: &Dashboard) -> std::io::Result<()> {
        match self {
            Self::Terminal(_) => Ok(()),
            Self::Log(log) => log.summarise(dashboard, &mut std::io::stdout().lock()),
        }
    }

    /// Whether a calm moment has rows to print.
    pub(crate) fn is_settled(&self) -> bool {
        match self {
            Self::Terminal(_) => true,
            Self::Log(log) => log.is_settled(),
        }
    }

    /// Prints the rows that wait, and what was only counted.
    pub(crate) fn settle(&mut self) -> std::io::Result<()> {
        match self {
            Self::Terminal(_) => Ok(()),
            Self::Log(log) => log.settle(&mut std::io::stdout().lock()),
        }
    }

    /// Prints lines above the view.
    pub(crate) fn note_all(&mut self, lines: &[String]) -> std::io::Result<()> {
        match self {
            Self::Terminal(_) => Ok(()),
            Self::Log(_) => lines
                .iter()
                .try_for_each(|line| self.note(&format!("note     {line}"))),
        }
    }

    /// Removes the view, so that another one can take its place.
    pub(crate) fn clear(&mut self) -> std::io::Result<()> {
        match self {
            Self::Terminal(terminal) => {
                terminal.erase()?;
                terminal.term.flush()
            }
            Self::Log(_) => Ok(()),
        }
    }

    /// Prints a line above the view.
    pub(crate) fn note(&mut self, text: &str) -> std::io::Result<()> {
        match self {
            Self::Terminal(terminal) => {
                terminal.erase()?;
                terminal.term.write_line(text)?;
                terminal.term.flush()
            }
            Self::Log(_) => writeln!(std::io::stdout(), "{text}"),
        }
    }
}

impl Terminal {
    fn show(&mut self, dashboard: &Dashboard) -> std::io::Result<()> {
        let (height, width) = self.term.size();
        let size = TerminalSize {
            width: usize::from(width),
            // the last line is for the cursor
            height: usize::from(height).saturating_sub(1),
            colour: self.colour,
        };
        let text = draw(dashboard, size);
        if text == self.shown {
            return Ok(());
        }
        self.erase()?;
        self.term.write_str(&text)?;
        self.shown = text;
        self.term.flush()
    }

    fn erase(&mut self) -> std::io::Result<()> {
        let lines = std::mem::take(&mut self.shown).lines().count();
        self.term.clear_last_lines(lines)
    }
}

impl Log {
    fn show(&mut self, dashboard: &Dashboard, out: &mut impl Write) -> std::io::Result<()> {
        self.awaited.clear();
        for group in &dashboard.groups {
            for row in &group.rows {
                let name = group.full_name(row);
                // the summary has the cause of these once
                if !dashboard.grouped.contains(&name) && !dashboard.is_counted(&name) {
                    self.say(group, row, out)?;
                }
            }
        }
        let rows = dashboard.groups.iter().flat_map(|group| &group.rows);
        let here: HashSet<Subject> = rows.map(Subject::of).collect();
        let gone: Vec<Subject> = self
            .last
            .keys()
            .filter(|subject| !here.contains(subject))
            .cloned()
            .collect();
        for subject in gone {
            self.counted.rows.remove(&subject);
            match self.last.remove(&subject) {
                Some(shown) if self.has_room() => writeln!(out, "gone     {}", shown.name)?,
                _ => self.counted.gone += 1,
            }
        }
        match self.counted.since {
            Some(since) if since.elapsed() >= COUNTS_INTERVAL => self.say_counts(out),
            _ => Ok(()),
        }
    }

    /// Prints what no change has a line for yet.
    fn settle(&mut self, out: &mut impl Write) -> std::io::Result<()> {
        self.say_counts(out)?;
        self.said = 0;
        let awaited = std::mem::take(&mut self.awaited);
        if awaited.len() > WAITING_MAX {
            writeln!(out, "summary  {} objects are waiting", awaited.len())?;
            self.last.extend(awaited);
            return Ok(());
        }
        for (subject, shown) in awaited {
            self.say_shown(subject, shown, out)?;
        }
        Ok(())
    }

    fn is_settled(&self) -> bool {
        self.said == 0 && self.counted.is_empty() && self.awaited.is_empty()
    }

    fn news<'a>(&'a self, dashboard: &'a Dashboard) -> impl Iterator<Item = String> + 'a {
        let causes = dashboard.causes.iter().map(|line| format!("failed   {line}"));
        let notes = dashboard.notes.iter().map(|line| format!("note     {line}"));
        causes.chain(notes).filter(|line| !self.summary.contains(line))
    }

    /// Whether the next calm moment has something to print or to forget.
    fn has_news(&self, dashboard: &Dashboard) -> bool {
        !self.is_settled() || self.news(dashboard).next().is_some()
    }

    /// Prints what was only counted and the new lines of the summary.
    fn summarise(&mut self, dashboard: &Dashboard, out: &mut impl Write) -> std::io::Result<()> {
        self.settle(out)?;
        let news: Vec<String> = self.news(dashboard).collect();
        news.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        self.summary.extend(news);
        Ok(())
    }

    fn say_counts(&mut self, out: &mut impl Write) -> std::io::Result<()> {
        let lines = self.counted.take();
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))
    }

    fn say(&mut self, group: &Group, row: &Row, out: &mut impl Write) -> std::io::Result<()> {
        let shown = Shown::of(group, row);
        let subject = Subject::of(row);
        let last = self.last.get(&subject);
        if last == Some(&shown) {
            return Ok(());
        }
        // the release says what it waits for, and its objects were watched until they were ready
        let said = last.is_some_and(|last| last.state == State::Ready);
        if shown.detail == APPLIED && (said || shown.state != State::Ready) {
            return Ok(());
        }
        if shown.state == State::Waiting {
            self.awaited.insert(subject, shown);
            return Ok(());
        }
        self.say_shown(subject, shown, out)
    }

    fn say_shown(&mut self, subject: Subject, shown: Shown, out: &mut impl Write) -> std::io::Result<()> {
        let line = shown.line();
        let state = shown.state;
        self.last.insert(subject.clone(), shown);
        if self.has_room() {
            return writeln!(out, "{line}");
        }
        let line = (state == State::Failed).then_some(line);
        self.counted.since.get_or_insert_with(Instant::now);
        self.counted.rows.insert(subject, (state, line));
        Ok(())
    }

    /// Takes one of the lines that are left until the next calm moment.
    fn has_room(&mut self) -> bool {
        let has_room = self.said < LINES_MAX;
        self.said += usize::from(has_room);
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::up::view::NOT_FOUND;

    fn dashboard(rows: &[(&str, State, &str)]) -> Dashboard {
        Dashboard {
            groups: vec![Group {
                heading: "OBJECTS".into(),
                rows: rows
                    .iter()
                    .map(|(name, state, message)| Row {
                        id: None,
                        state: *state,
                        name: (*name).into(),
                        detail: String::new(),
                        age: format!("{}s", message.len()),
                        message: (*message).into(),
                    })
                    .collect(),
                ..Group::default()
            }],
            ..Dashboard::default()
        }
    }

    #[test]
    fn log_has_one_line_per_change() {
        let mut log = Log::default();
        let mut say = |rows: &[(&str, State, &str)], calm: bool| {
            let mut out = Vec::new();
            log.show(&dashboard(rows), &mut out).unwrap();
            if calm {
                log.settle(&mut out).unwrap();
            }
            String::from_utf8(out).unwrap()
        };
        let waiting = [("a", State::Waiting, "0 of 1")];
        assert_eq!(say(&waiting, false), "");
        assert_eq!(say(&waiting, true), "waiting  a    0 of 1\n");
        assert_eq!(say(&waiting, true), "");
        assert_eq!(
            say(
                &[("a", State::Ready, ""), ("b", State::Failed, "no\nnor\n")],
                false
            ),
            "ready    a\nfailed   b    no\n         nor\n"
        );
        assert_eq!(say(&[("b", State::Failed, "no\nnor\n")], false), "gone     a\n");
    }

    #[test]
    fn log_leaves_out_what_passes_soon() {
        let mut log = Log::default();
        let shown = |state: State, detail: &str| {
            let mut dashboard = dashboard(&[("a", state, "")]);
            dashboard.groups[0].rows[0].detail = detail.into();
            dashboard
        };
        let mut said = |state: State, detail: &str, calm: bool| {
            let mut out = Vec::new();
            let dashboard = shown(state, detail);
            log.show(&dashboard, &mut out).unwrap();
            if calm {
                log.summarise(&dashboard, &mut out).unwrap();
            }
            String::from_utf8(out).unwrap()
        };
        assert_eq!(said(State::Waiting, NOT_FOUND, false), "");
        assert_eq!(said(State::Waiting, NOT_FOUND, true), "waiting  a  not found\n");
        assert_eq!(said(State::Waiting, NOT_FOUND, true), "");
        // an object of a release
        assert_eq!(said(State::Waiting, APPLIED, false), "");
        assert_eq!(said(State::Ready, "Current", false), "ready    a  Current\n");
        assert_eq!(said(State::Waiting, APPLIED, false), "");
        assert_eq!(said(State::Ready, APPLIED, false), "");
        assert_eq!(said(State::Waiting, "InProgress", false), "");
        assert_eq!(
            said(State::Waiting, "InProgress", true),
            "waiting  a  InProgress\n"
        );
        assert_eq!(said(State::Ready, APPLIED, false), "ready    a  applied\n");
    }

    #[test]
    fn many_waiting_rows_are_counted() {
        let check = |count: usize, expected: &str| {
            let names: Vec<String> = (0..count).map(|n| n.to_string()).collect();
            let rows: Vec<_> = names
                .iter()
                .map(|name| (name.as_str(), State::Waiting, "no"))
                .collect();
            let mut log = Log::default();
            let mut out = Vec::new();
            for _ in 0..2 {
                log.show(&dashboard(&rows), &mut out).unwrap();
                log.settle(&mut out).unwrap();
            }
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check(1, "waiting  0    no\n");
        check(WAITING_MAX + 1, "summary  21 objects are waiting\n");
    }

    #[test]
    fn changes_beyond_a_limit_are_counted() {
        let mut log = Log::default();
        let rows = |state: fn(usize) -> State, count: usize| {
            let names: Vec<String> = (0..count).map(|n| format!("{n:04}")).collect();
            let rows: Vec<_> = names
                .iter()
                .enumerate()
                .map(|(n, name)| (name.as_str(), state(n), ""))
                .collect();
            dashboard(&rows)
        };
        let idle = rows(|_| State::Idle, 190);
        let mut out = Vec::new();
        log.show(&idle, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 190);
        let mut out = Vec::new();
        let fleet = rows(
            |n| {
                if n % 100 == 99 {
                    State::Failed
                } else {
                    State::Ready
                }
            },
            1000,
        );
        log.show(&fleet, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 10);
        assert!(log.has_news(&fleet));
        let mut out = Vec::new();
        log.summarise(&fleet, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.starts_with("summary  990 more objects changed: 10 failed, 980 ready\nfailed   0099\n"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 11);
        // after a calm moment each change has its line again
        let mut out = Vec::new();
        log.show(&rows(|_| State::Ready, 1000), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 10);
    }

    #[test]
    fn object_that_moves_to_another_group_is_not_gone() {
        let mut log = Log::default();
        let id = ObjectId::new(
            "kustomize.toolkit.fluxcd.io",
            "Kustomization",
            "flux-system",
            "apps",
        );
        let row = |name: &str, state: State, detail: &str| Row {
            id: Some(id.clone()),
            state,
            name: name.into(),
            detail: detail.into(),
            age: String::new(),
            message: String::new(),
        };
        let group = |kind: Option<&'static str>, row: Row| Dashboard {
            groups: vec![Group {
                kind,
                rows: vec![row],
                ..Group::default()
            }],
            ..Dashboard::default()
        };
        let mut out = Vec::new();
        let before = group(None, row("Kustomization/apps", State::Waiting, "InProgress"));
        log.show(&before, &mut out).unwrap();
        log.settle(&mut out).unwrap();
        let after = group(Some("Kustomization"), row("apps", State::Ready, ""));
        log.show(&after, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "waiting  Kustomization/apps  InProgress\nready    Kustomization/apps\n"
        );
    }
}
