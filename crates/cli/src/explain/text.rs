//! Formats an explanation as text and as data.

use super::applied::{Applied, Written};
use super::chain::{CONFIRM, Chain, Link, State, confirmation};
use super::explanation::{Body, Explanation, Next};
use super::origin::Origin;
use crate::diagnosis::{Node, NodeHealth};
use crate::table;
use equate_controllers::helm_release::outlook::Outlook;
use jiff::Timestamp;
use serde_json::{Value as Json, json};

#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalSize {
    pub(crate) width: usize,
    pub(crate) colour: bool,
}

/// The column of messages, after name, state and age.
const MESSAGE_COLUMN: usize = 14 + STATE_WIDTH + 8;
/// The longest state is `suspended`.
const STATE_WIDTH: usize = 11;
/// Below this width a step's message is below the step.
const BESIDE_FROM: usize = 72;
const BELOW_COLUMN: usize = 4;

pub(super) fn render(explanation: &Explanation, now: Timestamp, size: TerminalSize) -> String {
    let mut page = Page {
        text: String::new(),
        now,
        size,
    };
    let said = match &explanation.body {
        Body::Steps(chain) => page.chain(chain),
        Body::Release(node, next) => {
            let said = page.object(node, next.suspended);
            page.next(next);
            said
        }
        Body::Object(node) => page.object(node, false),
    };
    page.applied(&explanation.applied);
    // the status message is above already
    let fresh = explanation
        .events
        .iter()
        .filter(|(_, _, message)| *message != said);
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
    let cause = chain.cause.as_deref();
    match (chain.ready, chain.state, cause) {
        (true, State::Suspended, _) => "was ready when it was suspended".to_owned(),
        (true, _, None) => format!("is ready{since}"),
        (true, _, Some(cause)) => format!("is ready{since}, but not all of its objects: {cause}"),
        (false, _, None) if chain.reason.is_empty() => "is not ready".to_owned(),
        (false, _, None) => format!("is not ready{since}: {}", chain.reason),
        (false, _, Some(cause)) => format!("is not ready{since}: {cause}"),
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
    /// The steps of a Kustomization; returns its status message.
    fn chain<'c>(&mut self, chain: &'c Chain) -> &'c str {
        let head = head(chain, self.now);
        self.block(&format!("{} ", chain.called), "  ", &head);
        let beside = self.size.width >= BESIDE_FROM;
        let (title, column) = match beside {
            true => ("MESSAGE", MESSAGE_COLUMN),
            false => ("", BELOW_COLUMN),
        };
        let stem = " ".repeat(column);
        self.text.push('\n');
        self.line(&format!(
            "{:14}{:STATE_WIDTH$}{:8}{title}",
            "STEP", "STATE", "SINCE"
        ));
        for step in &chain.steps {
            // the confirmation command is printed below, where it can be copied
            let what = confirmation(&step.what).map_or(step.what.as_str(), |(what, _)| what);
            let start = format!(
                "{:14}{}{:8}",
                step.stage.name(),
                self.state(step.state, STATE_WIDTH),
                since(step.since, self.now)
            );
            if beside || what.is_empty() {
                self.block(&start, &stem, what);
            } else {
                self.line(&start);
                self.block(&stem, &stem, what);
            }
            self.links(&step.below, &stem);
        }
        for (name, message) in &chain.aspects {
            self.paragraph(name, message);
        }
        if let Some(throttled) = &chain.throttled {
            self.paragraph("throttled", throttled);
        }
        if let Some(next) = &chain.next {
            self.paragraph("next", next);
        }
        &chain.message
    }

    /// Any other object; returns its message.
    fn object<'n>(&mut self, node: &'n Node, suspended: bool) -> &'n str {
        let since = since(node.since, self.now);
        let since = match since.is_empty() {
            true => String::new(),
            false => format!(", for {since}"),
        };
        let below = node.cause_below();
        let head = match (node.health, node.cause()) {
            (NodeHealth::Healthy, _) if let Some(cause) = &below => {
                format!("is healthy{since}, but not all of its objects: {cause}")
            }
            (NodeHealth::Healthy, _) => match node.text() {
                text if text.is_empty() => format!("is healthy{since}"),
                text => format!("is healthy{since}: {text}"),
            },
            (_, Some(cause)) => format!("is not healthy{since}: {cause}"),
            (_, None) => format!("is not healthy{since}"),
        };
        let head = match suspended {
            true => format!("is suspended, and {head}"),
            false => head,
        };
        self.block(&format!("{} ", node.object), "  ", &head);
        if !node.below.is_empty() {
            self.text.push('\n');
            let link = Link::of(node);
            let said = match link.what.as_str() {
                "" => link.object.clone(),
                what => format!("{} {what}", link.object),
            };
            self.block("", "  ", &said);
            self.links(&link.below, "");
        }
        &node.message
    }

    /// The next action on a release.
    fn next(&mut self, next: &Next) {
        let outlook = &next.outlook;
        let planned = format!("{}: {}", outlook.action, outlook.reason);
        let planned = match next.suspended {
            true => format!("nothing until it is resumed; then {planned}"),
            false => planned,
        };
        self.paragraph("next", &planned);
        if let Some(hook) = &outlook.waits_for {
            self.block("waits for: ", "  ", hook);
        }
        if let Some(record) = &outlook.record {
            self.block("last record: ", "  ", record);
        }
        for unknown in &outlook.unknown {
            self.block("not known: ", "  ", unknown);
        }
    }

    fn paragraph(&mut self, name: &str, words: &str) {
        self.text.push('\n');
        self.block(&format!("{name}: "), "  ", words);
    }

    fn applied(&mut self, applied: &Applied) {
        let mut by = match &applied.by {
            Some(by) => by.clone(),
            None => "no Kustomization or HelmRelease".to_owned(),
        };
        if let Some(revision) = &applied.revision {
            by.push_str(&format!(" at {revision}"));
        }
        if !applied.owners.is_empty() {
            by.push_str(&format!(", through {}", applied.owners.join(", ")));
        }
        if let Some(doubt) = &applied.doubt {
            by.push_str(&format!("; {doubt}"));
        }
        self.paragraph("applied by", &by);
        match &applied.origin {
            Some(Origin::File { place, of }) => self.block("file: ", "  ", &format!("{place} in {of}")),
            Some(Origin::Unknown(reason)) => self.block("file: ", "  ", &format!("unknown: {reason}")),
            None => {}
        }
        for (title, by_hand) in [("changed by hand", true), ("written by others", false)] {
            let fields = applied.written.iter().filter(|one| one.by_hand == by_hand);
            for (at, one) in fields.enumerate() {
                if at == 0 {
                    self.text.push_str(&format!("{title}:\n"));
                }
                let when = since(one.when, self.now);
                let when = match when.is_empty() {
                    true => String::new(),
                    false => format!(" {when} ago"),
                };
                let git = match &one.declared {
                    Some(declared) if *declared != one.value => format!("; git has {declared}"),
                    _ => String::new(),
                };
                let Written {
                    path, value, manager, ..
                } = one;
                self.block("  ", "    ", &format!("{path} = {value} by {manager}{when}{git}"));
            }
        }
    }

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
            if link.state != State::Done && !link.what.is_empty() {
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

pub(super) fn data(explanation: &Explanation) -> Json {
    let time = |time: &Option<Timestamp>| time.map(|time| time.to_string());
    let mut data = match &explanation.body {
        Body::Steps(chain) => chain_data(chain),
        Body::Release(node, next) => {
            let mut data = node_data(node);
            let Outlook {
                action,
                reason,
                waits_for,
                record,
                unknown,
            } = &next.outlook;
            data["suspended"] = next.suspended.into();
            data["next"] = json!({ "action": action, "reason": reason });
            data["waitsFor"] = waits_for.as_deref().into();
            data["lastRecord"] = record.as_deref().into();
            data["notKnown"] = unknown.as_slice().into();
            data
        }
        Body::Object(node) => node_data(node),
    };
    let applied = &explanation.applied;
    let file = match &applied.origin {
        Some(Origin::File { place, of }) => json!({ "path": place, "in": of }),
        Some(Origin::Unknown(reason)) => json!({ "unknown": reason }),
        None => Json::Null,
    };
    let written = applied.written.iter().map(|one| {
        json!({
            "path": one.path, "value": one.value, "manager": one.manager, "time": time(&one.when),
            "byHand": one.by_hand, "inGit": one.declared,
        })
    });
    data["applied"] = json!({
        "by": applied.by, "through": applied.owners, "revision": applied.revision,
        "doubt": applied.doubt, "file": file, "written": written.collect::<Vec<_>>(),
    });
    let events = explanation.events.iter().map(
        |(when, reason, message)| json!({ "lastSeen": time(when), "reason": reason, "message": message }),
    );
    data["events"] = events.collect();
    data
}

fn node_data(node: &Node) -> Json {
    json!({
        "object": node.object,
        "healthy": node.is_healthy(),
        "reason": node.reason,
        "message": node.message,
        "cause": node.cause().or_else(|| node.cause_below()),
        "since": node.since.map(|time| time.to_string()),
        "below": node.below.iter().map(Link::of).map(|below| link(&below)).collect::<Vec<_>>(),
    })
}

fn chain_data(chain: &Chain) -> Json {
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
    json!({
        "object": chain.called,
        "ready": chain.ready,
        "reason": chain.reason,
        "message": chain.message,
        "cause": chain.cause,
        "since": time(&chain.since),
        "steps": steps.collect::<Vec<_>>(),
        "conditions": aspects.collect::<serde_json::Map<String, Json>>(),
        "throttled": chain.throttled,
        "next": chain.next,
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
