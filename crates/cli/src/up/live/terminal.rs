//! The terminal of the interactive view: raw mode, the alternate screen, keys. Restores it in any case.

use super::draw;
use super::model::{Input, Key, Model};
use crate::log;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{cursor, execute};
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use std::io::{self, IsTerminal, Stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// Interval of the check whether the view has ended.
const KEY_INTERVAL: Duration = Duration::from_millis(100);

/// Whether a view has the terminal.
static OPEN: AtomicBool = AtomicBool::new(false);
static PANIC_HOOK: Once = Once::new();

/// Whether keys can be read and the screen be drawn.
pub(in crate::up) fn is_possible() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    io::stdin().is_terminal() && io::stdout().is_terminal() && !(cfg!(unix) && dumb)
}

/// The open screen; closing it restores the terminal and prints the log messages in between.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    _log: log::Held,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        PANIC_HOOK.call_once(restore_on_panic);
        let log = log::Held::hold();
        enable_raw_mode()?;
        OPEN.store(true, Ordering::SeqCst);
        // from here on an error drops the guard
        let guard = Restored;
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        std::mem::forget(guard);
        Ok(Self { terminal, _log: log })
    }

    pub(super) fn size(&self) -> io::Result<(u16, u16)> {
        let size = self.terminal.size()?;
        Ok((size.width, size.height))
    }

    pub(super) fn draw(&mut self, model: &Model) -> io::Result<()> {
        self.terminal
            .draw(|frame| draw::draw(model, frame.buffer_mut()))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    if !OPEN.swap(false, Ordering::SeqCst) {
        return;
    }
    // nothing else can be done about a terminal that is gone
    let _gone = disable_raw_mode();
    let _gone = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
}

/// Leaves the screen before the message of a panic that ends the view. A panic elsewhere is a log message.
fn restore_on_panic() {
    let before = std::panic::take_hook();
    let view = std::thread::current().id();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() == view {
            restore();
        } else if OPEN.load(Ordering::SeqCst) {
            tracing::error!("{panic}");
            return;
        }
        before(panic);
    }));
}

/// Reads keys until this is dropped.
pub(super) struct Keys(Arc<AtomicBool>);

impl Keys {
    pub(super) fn read(sender: UnboundedSender<Input>) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ended);
        std::thread::spawn(move || {
            while !until.load(Ordering::SeqCst) {
                let input = match next() {
                    Ok(Some(input)) => input,
                    Ok(None) => continue,
                    Err(_gone) => Input::Key(Key::Interrupt),
                };
                let ends = matches!(input, Input::Key(Key::Interrupt));
                if sender.send(input).is_err() || ends {
                    return;
                }
            }
        });
        Self(ended)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn next() -> io::Result<Option<Input>> {
    if !event::poll(KEY_INTERVAL)? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => translate(key).map(Input::Key),
        Event::Resize(columns, lines) => Some(Input::Size { columns, lines }),
        _ => None,
    })
}

fn translate(key: KeyEvent) -> Option<Key> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c' | 'd' | '\\') if control => Key::Interrupt,
        KeyCode::Char('n') if control => Key::Down,
        KeyCode::Char('p') if control => Key::Up,
        KeyCode::Char(_) if control => return None,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace | KeyCode::Left => Key::Backspace,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossterm::terminal::is_raw_mode_enabled;

    /// Takes the terminal, so it runs only if it is asked to.
    #[test]
    fn panic_restores_the_terminal() {
        if std::env::var_os("EQUATE_TEST_TERMINAL").is_none() || !is_possible() {
            eprintln!("skipped: set EQUATE_TEST_TERMINAL in a terminal");
            return;
        }
        let ended = std::panic::catch_unwind(|| {
            let _screen = Screen::open().unwrap();
            assert!(is_raw_mode_enabled().unwrap());
            panic!("the view ends");
        });
        assert!(ended.is_err());
        assert!(!is_raw_mode_enabled().unwrap());
        assert!(!OPEN.load(Ordering::SeqCst));
    }
}
