//! Golden files with both sides: one line each, in one order.

use std::fmt::Write as _;
use std::path::Path;

/// The lines after each step.
pub(super) type Said = [(String, Vec<String>)];

/// The golden file of one scenario.
#[derive(Debug, Default)]
pub(super) struct Page {
    lines: Vec<String>,
}

impl Page {
    /// Reads it; a missing one is empty.
    pub(super) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        Self {
            lines: text.lines().map(str::to_owned).collect(),
        }
    }

    /// Equate's lines after a step.
    pub(super) fn ours(&self, step: &str) -> Vec<String> {
        self.side(step, '+')
    }

    fn side(&self, step: &str, own: char) -> Vec<String> {
        let title = title(step);
        let part = self.lines.iter().skip_while(|line| **line != title).skip(1);
        part.take_while(|line| !line.starts_with("# "))
            .filter(|line| line.starts_with([' ', own]))
            .map(|line| line.get(2..).unwrap_or_default().to_owned())
            .collect()
    }

    /// Writes it with the new lines of one side, or both.
    pub(super) fn write(&mut self, path: &Path, theirs: Option<&Said>, ours: Option<&Said>) {
        let Some(said) = theirs.or(ours) else { return };
        let mut text = String::new();
        for (step, lines) in said {
            let find = |side: Option<&Said>, own| match side {
                Some(_) => lines.clone(),
                None => self.side(step, own),
            };
            let (before, after) = (find(theirs, '-'), find(ours, '+'));
            let _ = write!(text, "{}\n{}", title(step), merged(&before, &after));
        }
        std::fs::write(path, text).unwrap();
    }
}

pub(super) fn difference(step: &str, before: &[String], after: &[String]) -> String {
    format!("{}\n{}", title(step), merged(before, after))
}

fn title(step: &str) -> String {
    format!("# {step}")
}

/// Both, line by line; the longest common part once.
fn merged(before: &[String], after: &[String]) -> String {
    let mut longest = vec![vec![0_usize; after.len() + 1]; before.len() + 1];
    for (i, old) in before.iter().enumerate().rev() {
        for (j, new) in after.iter().enumerate().rev() {
            longest[i][j] = if old == new {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut text) = (0, 0, String::new());
    while i < before.len() || j < after.len() {
        let both = before.get(i).zip(after.get(j)).filter(|(old, new)| old == new);
        let line = if let Some((line, _)) = both {
            (i, j) = (i + 1, j + 1);
            format!("  {line}")
        } else if i < before.len() && (j == after.len() || longest[i + 1][j] >= longest[i][j + 1]) {
            i += 1;
            format!("- {}", before[i - 1])
        } else {
            j += 1;
            format!("+ {}", after[j - 1])
        };
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}
