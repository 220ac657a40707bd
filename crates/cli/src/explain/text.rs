//! Formats a chain as text and as data.

use super::chain::{CONFIRM, Chain, Link, State, confirmation};
use crate::table;
use jiff::Timestamp;
use serde_json::{Value as Json, json};

/// An event: time, reason, message.
pub(super) type EventLine = (Option<Timestamp>, String, String);

#[derive(Debug, Clone, Copy)]
pub(super) struct TerminalSize {
    pub(super) width: usize,
    pub(super) colour: bool,
}

/// The column of messages, after name, state and age.
const MESSAGE_COLUMN: usize = 14 + STATE_WIDTH + 8;
/// The longest state is `suspended`.
const STATE_WIDTH: usize = 11;

pub(super) fn render(chain: &Chain, events: &[EventLine], now: Timestamp, size: TerminalSize) -> String {
    let mut page = Page {
        text: String::new(),
        now,
        size,
    };
    page.text
        .push_str(&format!("{} {}\n\n", chain.called, head(chain, now)));
    page.text.push_str(&format!(
        "{:14}{:STATE_WIDTH$}{:8}MESSAGE\n",
        "STEP", "STATE", "SINCE"
    ));
    for step in &chain.steps {
        // the confirmation command is printed below, where it can be copied
        let what = confirmation(&step.what).map_or(step.what.as_str(), |(what, _)| what);
        let start = format!(
            "{:14}{}{:8}",
            step.stage.name(),
            page.state(step.state, STATE_WIDTH),
            since(step.since, now)
        );
        page.block(&start, &" ".repeat(MESSAGE_COLUMN), what);
        page.links(&step.below, &" ".repeat(MESSAGE_COLUMN));
    }
    for (name, message) in &chain.aspects {
        page.text.push('\n');
        page.block(&format!("{name}: "), "  ", message);
    }
    if let Some(throttled) = &chain.throttled {
        page.text.push('\n');
        page.block("throttled: ", "  ", throttled);
    }
    if let Some(next) = &chain.next {
        page.text.push('\n');
        page.block("next: ", "  ", next);
    }
    // the step shows the status message already
    let fresh = events.iter().filter(|(_, _, message)| *message != chain.message);
    for (at, (when, reason, message)) in fresh.enumerate() {
        if at == 0 {
            page.text.push_str("\nEVENTS\n");
        }
        page.block(
            &format!("{:6}{reason}: ", since(*when, now)),
            &" ".repeat(6),
            &headline(message),
        );
    }
    page.text
}

fn head(chain: &Chain, now: Timestamp) -> String {
    let since = since(chain.since, now);
    let since = match since.is_empty() {
        true => String::new(),
        false => format!(", for {since}"),
    };
    match (chain.ready, chain.state) {
        (true, State::Suspended) => "was ready when it was suspended".to_owned(),
        (true, _) => format!("is ready{since}"),
        (false, _) if chain.reason.is_empty() => "is not ready".to_owned(),
        (false, _) => format!("is not ready{since}: {}", chain.reason),
    }
}

fn headline(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    match message.lines().count() {
        0 | 1 => first.to_owned(),
        lines => format!("{first}, and {} more", lines - 1),
    }
}

struct Page {
    text: String,
    now: Timestamp,
    size: TerminalSize,
}

impl Page {
    /// Wraps words after `start`. Shortens revisions; keeps a confirmation command whole on its own line.
    fn block(&mut self, start: &str, stem: &str, words: &str) {
        let (words, command) = match words.split_once(CONFIRM) {
            Some((words, command)) => (format!("{words}{}", CONFIRM.trim_end()), Some(command)),
            None => (words.to_owned(), None),
        };
        let mut line = start.to_owned();
        let mut fresh = true;
        for word in words.split_whitespace().map(shorten) {
            let wide = console::measure_text_width(&line) + 1 + word.chars().count();
            if !fresh && wide > self.size.width {
                self.line(&line);
                line = stem.to_owned();
                fresh = true;
            }
            if !fresh {
                line.push(' ');
            }
            line.push_str(&word);
            fresh = false;
        }
        self.line(&line);
        if let Some(command) = command {
            self.line(&format!("  {command}"));
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn links(&mut self, below: &[Link], stem: &str) {
        for (at, link) in below.iter().enumerate() {
            let (branch, trunk) = match at + 1 == below.len() {
                true => ("└ ", "  "),
                false => ("├ ", "│ "),
            };
            let since = since(link.since, self.now);
            let state = self.state(link.state, 0);
            self.line(&format!("{stem}{branch}{} {state} {since}", link.object));
            let inner = format!("{stem}{trunk}");
            if link.state != State::Done {
                let words = format!("{inner}  ");
                self.block(&words, &words, &link.what);
            }
            self.links(&link.below, &inner);
        }
    }

    fn state(&self, state: State, width: usize) -> String {
        let text = format!("{:width$}", state.text());
        let style = console::Style::new().force_styling(self.size.colour);
        let style = match state {
            State::Done => style.green(),
            State::Failed => style.red(),
            State::Waiting | State::Suspended => style.yellow(),
            State::Ahead => return text,
        };
        style.apply_to(text).to_string()
    }
}

fn shorten(word: &str) -> String {
    let end = word.trim_end_matches([',', ';', '.', ':', ')', '\'', '"']);
    let rest = &word[end.len()..];
    format!("{}{rest}", crate::get::short(end))
}

fn since(time: Option<Timestamp>, now: Timestamp) -> String {
    time.map(|time| table::since(time, now)).unwrap_or_default()
}

pub(super) fn data(chain: &Chain, events: &[EventLine]) -> Json {
    let time = |time: &Option<Timestamp>| time.map(|time| time.to_string());
    let steps = chain.steps.iter().map(|step| {
        json!({
            "step": step.stage.name(), "state": name(step.state), "since": time(&step.since), "what": step.what,
            "dependsOn": step.below.iter().map(link).collect::<Vec<_>>(),
        })
    });
    let aspects = chain
        .aspects
        .iter()
        .map(|(name, message)| (name.clone(), message.as_str().into()));
    let events = events.iter().map(
        |(when, reason, message)| json!({ "lastSeen": time(when), "reason": reason, "message": message }),
    );
    json!({
        "object": chain.called,
        "ready": chain.ready,
        "reason": chain.reason,
        "message": chain.message,
        "since": time(&chain.since),
        "steps": steps.collect::<Vec<_>>(),
        "conditions": aspects.collect::<serde_json::Map<String, Json>>(),
        "throttled": chain.throttled,
        "next": chain.next,
        "events": events.collect::<Vec<_>>(),
    })
}

fn link(link: &Link) -> Json {
    json!({
        "object": link.object, "state": name(link.state), "since": link.since.map(|time| time.to_string()), "what": link.what,
        "dependsOn": link.below.iter().map(self::link).collect::<Vec<_>>(),
    })
}

fn name(state: State) -> &'static str {
    match state {
        State::Ahead => "ahead",
        state => state.text(),
    }
}
