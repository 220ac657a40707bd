//! Breaks text at the width of the terminal. Nothing is cut: a word that is too long is broken. Pure.

use ratatui_core::text::Span;

/// Columns that a text takes.
pub(in crate::up) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Breaks words into lines: the first of at most `first` columns, the others of at most `rest`. Keeps the
/// spaces between words of one line.
pub(in crate::up) fn wrap(text: &str, first: usize, rest: usize) -> Vec<String> {
    let mut lines = Lines {
        done: Vec::new(),
        line: String::new(),
        room: first,
        rest: rest.max(1),
    };
    let mut gap = 0;
    for word in text.trim().split(' ') {
        gap += 1;
        if !word.is_empty() {
            lines.put(word, gap);
            gap = 0;
        }
    }
    lines.end()
}

/// Breaks a line that has an indent of its own. Its continuation lines have that indent and `hanging` columns.
pub(in crate::up) fn wrap_indented(line: &str, columns: usize, hanging: usize) -> Vec<String> {
    let line = line.trim_end().replace('\t', "    ");
    if width(&line) <= columns {
        return vec![line];
    }
    let is_stem = |c: char| c == ' ' || "│├└".contains(c);
    let indent = line.chars().take_while(|c| is_stem(*c)).count();
    let indent = indent.min(columns / 2);
    let (start, words) = split_at_char(&line, indent);
    let stem: String = start
        .chars()
        .map(|c| if c == '│' || c == '├' { '│' } else { ' ' })
        .collect();
    let room = columns.saturating_sub(indent + hanging).max(1);
    let lines = wrap(words, columns.saturating_sub(indent).max(1), room);
    let lines = lines.into_iter().enumerate();
    lines
        .map(|(at, line)| match at {
            0 => format!("{start}{line}"),
            _ => format!("{stem}{:hanging$}{line}", ""),
        })
        .collect()
}

fn split_at_char(text: &str, at: usize) -> (&str, &str) {
    let end = text.char_indices().nth(at).map_or(text.len(), |(end, _)| end);
    text.split_at(end)
}

struct Lines {
    done: Vec<String>,
    line: String,
    room: usize,
    rest: usize,
}

impl Lines {
    fn put(&mut self, word: &str, gap: usize) {
        let gap = if self.line.is_empty() { 0 } else { gap };
        let taken = width(&self.line) + gap;
        if taken + width(word) <= self.room {
            self.line.extend(std::iter::repeat_n(' ', gap));
            self.line.push_str(word);
            return;
        }
        // a word that fits on no line is broken where it stands
        if width(word) <= self.rest {
            self.next();
            self.line.push_str(word);
            return;
        }
        if taken < self.room {
            self.line.extend(std::iter::repeat_n(' ', gap));
        }
        for c in word.chars() {
            let mut buffer = [0; 4];
            if width(&self.line) + width(c.encode_utf8(&mut buffer)) > self.room {
                self.next();
            }
            self.line.push(c);
        }
    }

    fn next(&mut self) {
        let line = std::mem::take(&mut self.line);
        self.done.push(line.trim_end().to_owned());
        self.room = self.rest;
    }

    fn end(mut self) -> Vec<String> {
        if !self.line.is_empty() {
            self.done.push(self.line);
        }
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_and_long_ones_broken() {
        let check = |text: &str, first: usize, rest: usize, expected: &[&str]| {
            assert_eq!(wrap(text, first, rest), expected, "{text}");
        };
        check("", 10, 10, &[]);
        check("a bc def", 4, 10, &["a bc", "def"]);
        check("a bc def", 3, 10, &["a", "bc def"]);
        check("abcdefghij", 4, 5, &["abcd", "efghi", "j"]);
        check("x abcdefghij", 4, 5, &["x ab", "cdefg", "hij"]);
        check("日本語", 4, 4, &["日本", "語"]);
        check("word", 0, 4, &["", "word"]);
        check("a  b   c", 6, 6, &["a  b", "c"]);
    }

    #[test]
    fn continuation_lines_keep_the_indent() {
        let check = |line: &str, columns: usize, expected: &[&str]| {
            assert_eq!(wrap_indented(line, columns, 2), expected, "{line}");
        };
        check("  a: b", 10, &["  a: b"]);
        check("  name: one two", 12, &["  name: one", "    two"]);
        check("├ one two three", 9, &["├ one two", "│   three"]);
        check("  └ one two three", 11, &["  └ one two", "      three"]);
    }
}
