//! Output of the view: a terminal that is redrawn in place, or log lines.

use super::view::{Dashboard, Group, Row, State, TerminalSize, draw};
use console::Term;
use std::collections::{BTreeMap, HashSet};
use std::io::{IsTerminal, Write};

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

/// The kind of a line's group and the name of its row; names alone may be ambiguous.
type Subject = (Option<&'static str>, String);

/// The last line of each subject.
#[derive(Debug, Default)]
pub(crate) struct Log {
    last: BTreeMap<Subject, (State, String, String)>,
    summary: Vec<String>,
}

impl Screen {
    /// Selects the screen by the type of standard output.
    pub(crate) fn of_stdout() -> Self {
        if std::io::stdout().is_terminal() {
            Self::Terminal(Terminal {
                term: Term::buffered_stdout(),
                colour: std::env::var_os("NO_COLOR").is_none(),
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
            Self::Log(log) => log.news(dashboard).next().is_some(),
        }
    }

    /// Prints the new lines of a summary.
    pub(crate) fn summarise(&mut self, dashboard: &Dashboard) -> std::io::Result<()> {
        match self {
            Self::Terminal(_) => Ok(()),
            Self::Log(log) => log.summarise(dashboard, &mut std::io::stdout().lock()),
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
        for group in &dashboard.groups {
            let rows = group.rows.iter();
            // the summary has the cause of these once
            for row in rows.filter(|row| !dashboard.grouped.contains(&group.full_name(row))) {
                self.say(group, row, out)?;
            }
        }
        let here: HashSet<(Option<&str>, &str)> = dashboard
            .groups
            .iter()
            .flat_map(|group| group.rows.iter().map(|row| (group.kind, row.name.as_str())))
            .collect();
        let gone: Vec<Subject> = self
            .last
            .keys()
            .filter(|(kind, name)| !here.contains(&(*kind, name.as_str())))
            .cloned()
            .collect();
        for subject in gone {
            self.last.remove(&subject);
            writeln!(out, "gone     {}", subject.1)?;
        }
        Ok(())
    }

    fn news<'a>(&'a self, dashboard: &'a Dashboard) -> impl Iterator<Item = String> + 'a {
        let causes = dashboard.causes.iter().map(|line| format!("failed   {line}"));
        let notes = dashboard.notes.iter().map(|line| format!("note     {line}"));
        causes.chain(notes).filter(|line| !self.summary.contains(line))
    }

    fn summarise(&mut self, dashboard: &Dashboard, out: &mut impl Write) -> std::io::Result<()> {
        let news: Vec<String> = self.news(dashboard).collect();
        news.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        self.summary.extend(news);
        Ok(())
    }

    fn say(&mut self, group: &Group, row: &Row, out: &mut impl Write) -> std::io::Result<()> {
        let word = match row.state {
            State::Failed => "failed ",
            State::Waiting => "waiting",
            State::Idle => "idle   ",
            State::Kept => "kept   ",
            State::Ready => "ready  ",
        };
        let what = (row.state, row.detail.clone(), row.message.clone());
        let subject = (group.kind, row.name.clone());
        if self.last.get(&subject) != Some(&what) {
            let name = group.full_name(row);
            let line = format!("{word}  {name}  {}  {}", row.detail, row.message);
            writeln!(out, "{}", line.trim_end())?;
            self.last.insert(subject, what);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dashboard(rows: &[(&str, State, &str)]) -> Dashboard {
        Dashboard {
            groups: vec![Group {
                heading: "OBJECTS".into(),
                rows: rows
                    .iter()
                    .map(|(name, state, message)| Row {
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
        let mut say = |rows: &[(&str, State, &str)]| {
            let mut out = Vec::new();
            log.show(&dashboard(rows), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(say(&[("a", State::Waiting, "0 of 1")]), "waiting  a    0 of 1\n");
        assert_eq!(say(&[("a", State::Waiting, "0 of 1")]), "");
        assert_eq!(
            say(&[("a", State::Ready, ""), ("b", State::Failed, "no")]),
            "ready    a\nfailed   b    no\n"
        );
        assert_eq!(say(&[("b", State::Failed, "no")]), "gone     a\n");
    }
}
