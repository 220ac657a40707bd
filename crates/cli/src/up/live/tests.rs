//! The view as text, at several widths. `EQUATE_BLESS=1` writes the files of `screens/`; read them.

use super::draw;
use super::model::{Ask, Input, Key, Model, Request};
use super::pane::{Content, View};
use super::{Next, Pace, Turns};
use crate::up::view::{Dashboard, Group, Row, State};
use equate_apply::id::ObjectId;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;
use serde_json::json;
use std::path::Path;

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().unwrap()
}

fn row(
    kind: &str,
    namespace: &str,
    name: &str,
    shown: &str,
    state: State,
    detail: &str,
    message: &str,
) -> Row {
    Row {
        id: Some(ObjectId::new("", kind, namespace, name)),
        state,
        name: shown.into(),
        detail: detail.into(),
        age: "42s".into(),
        message: message.into(),
    }
}

const FAILED: &str = "health check failed after 30.004s: timeout waiting for: [Deployment/shop/web status: 'InProgress': Available: 0/1]";

fn dashboard() -> Dashboard {
    let group = |heading: &str, kind: Option<&'static str>, rows: Vec<Row>| Group {
        heading: heading.into(),
        kind,
        has_own_object: false,
        rows,
    };
    Dashboard {
        title: "equate up  fleet  main  clusters/dev".into(),
        hints: vec!["Ctrl-C stops".into()],
        groups: vec![
            group(
                "SOURCES",
                None,
                vec![row(
                    "GitRepository",
                    "flux-system",
                    "flux-system",
                    "GitRepository/flux-system",
                    State::Ready,
                    "main@190d93a",
                    "",
                )],
            ),
            group(
                "KUSTOMIZATIONS",
                Some("Kustomization"),
                vec![
                    row(
                        "Kustomization",
                        "flux-system",
                        "flux-system",
                        "flux-system",
                        State::Ready,
                        "main@190d93a",
                        "",
                    ),
                    row(
                        "Kustomization",
                        "flux-system",
                        "shop",
                        "shop",
                        State::Failed,
                        "main@190d93a",
                        FAILED,
                    ),
                    row(
                        "Kustomization",
                        "flux-system",
                        "web",
                        "web",
                        State::Waiting,
                        "",
                        "dependency 'flux-system/shop' is not ready",
                    ),
                ],
            ),
            group(
                "OBJECTS",
                None,
                vec![
                    row(
                        "ConfigMap",
                        "shop",
                        "settings",
                        "ConfigMap/shop/settings",
                        State::Ready,
                        "Current",
                        "",
                    ),
                    row(
                        "Deployment",
                        "shop",
                        "web",
                        "Deployment/shop/web",
                        State::Waiting,
                        "InProgress",
                        "Available: 0/1",
                    ),
                    row(
                        "CustomResourceDefinition",
                        "",
                        "prometheusrules.monitoring.coreos.com",
                        "CustomResourceDefinition/prometheusrules.monitoring.coreos.com",
                        State::Ready,
                        "Current",
                        "",
                    ),
                ],
            ),
        ],
        ..Dashboard::default()
    }
}

fn event(uid: &str, kind: &str, name: &str, message: &str, seconds: i64, type_: &str) -> Event {
    let when = now() - jiff::SignedDuration::from_secs(seconds);
    serde_json::from_value(json!({
        "metadata": { "uid": uid, "namespace": "flux-system" },
        "involvedObject": { "kind": kind, "namespace": "flux-system", "name": name },
        "reason": "BuildFailed", "message": message, "type": type_, "lastTimestamp": when.to_string(),
    }))
    .unwrap()
}

struct Shown {
    model: Model,
    asks: Vec<Ask>,
}

impl Shown {
    fn new(columns: u16, lines: u16) -> Self {
        let mut view = Self {
            model: Model::new(now(), columns, lines),
            asks: Vec::new(),
        };
        view.take(Input::Dashboard(dashboard()));
        view.take(Input::Events(vec![
            event(
                "a",
                "GitRepository",
                "flux-system",
                "stored artifact for commit 'Sell things'",
                42,
                "Normal",
            ),
            event(
                "b",
                "Kustomization",
                "shop",
                "Namespace/shop created\nConfigMap/shop/settings created\nDeployment/shop/web created",
                40,
                "Normal",
            ),
            event(
                "c",
                "Kustomization",
                "shop",
                "Deployment/shop/web corrected .spec.replicas 7 -> 2, written by kubectl",
                7,
                "Normal",
            ),
        ]));
        view
    }

    fn take(&mut self, input: Input) {
        let asks = self.model.update(input);
        self.asks.extend(asks);
    }

    fn keys(&mut self, keys: &str) {
        for c in keys.chars() {
            self.take(Input::Key(match c {
                '\n' => Key::Enter,
                '\u{1b}' => Key::Escape,
                '\u{8}' => Key::Backspace,
                c => Key::Char(c),
            }));
        }
    }

    fn text(&self) -> String {
        let (columns, lines) = (self.model.columns, self.model.lines);
        let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
        terminal
            .draw(|frame| draw::draw(&self.model, frame.buffer_mut()))
            .unwrap();
        let buffer = terminal.backend().buffer();
        let rows = buffer.content().chunks(usize::from(columns));
        let rows = rows.map(|row| {
            let text: String = row.iter().map(ratatui_core::buffer::Cell::symbol).collect();
            text.trim_end().to_owned()
        });
        rows.map(|row| row + "\n").collect()
    }
}

#[track_caller]
fn check(view: &Shown, screen: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/up/live/screens/{screen}.txt"));
    let text = view.text();
    if std::env::var_os("EQUATE_BLESS").is_some() {
        std::fs::write(path, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(text, expected, "\n{text}\n");
}

#[test]
fn table_at_80_columns() {
    let view = Shown::new(80, 30);
    check(&view, "table_80");
}

#[test]
fn table_at_50_columns() {
    let view = Shown::new(50, 40);
    check(&view, "table_50");
}

#[test]
fn table_at_160_columns() {
    let mut view = Shown::new(160, 24);
    view.take(Input::Uncommitted(true));
    view.keys("jj");
    let shop = ObjectId::new("", "Kustomization", "flux-system", "shop");
    let cause = "CrashLoopBackOff: Pod/shop/web-5d4f-x7, container web: exited with code 1";
    view.take(Input::Cause(shop, Some(cause.into())));
    check(&view, "table_160");
}

#[test]
fn filter_keeps_the_rows_with_all_words() {
    let mut view = Shown::new(50, 16);
    view.keys("/SHOP waiting");
    check(&view, "filter_50");
    view.keys("\n");
    assert!(!view.model.typing);
    view.keys("/zzz");
    check(&view, "filter_none_50");
    view.keys("\u{1b}");
    assert_eq!(view.model.rows().len(), 7);
}

#[test]
fn help_is_not_cut() {
    let mut view = Shown::new(50, 40);
    view.keys("?");
    check(&view, "help_50");
}

#[test]
fn panes_scroll_and_reload() {
    let mut view = Shown::new(50, 12);
    view.asks.clear();
    view.keys("jjy");
    let id = ObjectId::new("", "Kustomization", "flux-system", "shop");
    let request = Request { view: View::Yaml, id };
    assert_eq!(view.asks, [Ask::Load(request.clone())]);
    let text: String = (0..20)
        .map(|n| format!("  key{n}: a value that is longer than the screen is wide, by a little\n"))
        .collect();
    view.take(Input::Loaded(request.clone(), Content::Text(text)));
    view.keys("G");
    check(&view, "pane_end_50");
    // the answer to an earlier question is not shown
    let stale = Request {
        view: View::Pods,
        ..request.clone()
    };
    view.take(Input::Loaded(stale, Content::Text("stale".into())));
    assert!(!view.text().contains("stale"));
    view.asks.clear();
    let mut changed = dashboard();
    changed.groups[1].rows[1].state = State::Ready;
    view.take(Input::Dashboard(changed));
    assert_eq!(view.asks, [Ask::Load(request)]);
    view.keys("\u{1b}");
    assert!(view.model.pane.is_none());
    view.keys("q");
    assert_eq!(view.asks.last(), Some(&Ask::End));
}

#[test]
fn selection_follows_its_row() {
    let mut view = Shown::new(80, 20);
    view.keys("jj");
    let name = |view: &Shown| view.model.selected_row().unwrap().name.clone();
    assert_eq!(name(&view), "shop");
    let mut more = dashboard();
    more.groups[1].rows.insert(
        0,
        row(
            "Kustomization",
            "flux-system",
            "apps",
            "apps",
            State::Ready,
            "",
            "",
        ),
    );
    view.take(Input::Dashboard(more));
    assert_eq!(name(&view), "shop");
    view.keys("G");
    assert!(name(&view).starts_with("CustomResourceDefinition"));
    view.keys("g");
    assert_eq!(name(&view), "GitRepository/flux-system");
}

#[test]
fn causes_are_looked_for_once_per_message() {
    let mut view = Shown::new(80, 20);
    let asked = |view: &Shown| {
        let asks = view.asks.iter().filter(|ask| matches!(ask, Ask::Diagnose(..)));
        asks.count()
    };
    assert_eq!(asked(&view), 3);
    view.take(Input::Dashboard(dashboard()));
    assert_eq!(asked(&view), 3);
    let mut changed = dashboard();
    changed.groups[1].rows[1].message = "other".into();
    view.take(Input::Dashboard(changed));
    assert_eq!(asked(&view), 4);
    // later again, but only those with an answer
    let shop = ObjectId::new("", "Kustomization", "flux-system", "shop");
    view.take(Input::Cause(shop, None));
    view.model.now = now() + jiff::SignedDuration::from_secs(6);
    view.take(Input::Dashboard(view.model.dashboard.clone()));
    assert_eq!(asked(&view), 5);
}

#[test]
fn no_line_is_longer_than_the_screen() {
    for columns in [20, 33, 50, 80, 160] {
        let mut view = Shown::new(columns, 60);
        view.take(Input::Uncommitted(true));
        let text = view.text().split_whitespace().collect::<String>();
        // the message of a row that is not selected may end early
        for word in [
            "GitRepository/flux-system",
            "prometheusrules.monitoring.coreos.com",
            "writtenbykubectl",
        ] {
            assert!(text.contains(word), "{columns}: {}", view.text());
        }
        view.keys("?");
        let text = view.text().split_whitespace().collect::<String>();
        assert!(text.contains("endequateup"), "{columns}: {}", view.text());
    }
}

#[tokio::test(start_paused = true)]
async fn inputs_do_not_put_off_the_ages() {
    use std::time::Duration;
    let (sender, mut inputs) = tokio::sync::mpsc::unbounded_channel();
    let (_changed, mut changes) = tokio::sync::watch::channel(0);
    let steady = tokio::spawn(async move {
        while sender.send(Input::Uncommitted(false)).is_ok() {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    });
    // a view that takes long to draw
    let pace = Pace::of(Duration::from_millis(15));
    let mut turns = Turns::new();
    let mut refreshed = 0;
    for _ in 0..50 {
        match turns.next(&pace, &mut inputs, &mut changes).await {
            Next::Refresh => refreshed += 1,
            Next::Input(_) | Next::Later => {}
        }
    }
    assert!(refreshed >= 15, "{refreshed} of 50");
    steady.abort();
}
