//! The result of go-yaml v3 writing a folded text (`>`) and reading it again.
//!
//! Its emitter decides whether a break needs a second one by the text's first line instead of the next, so
//! the text changes: a blank line appears before an indented line, and lines of a text that begins indented
//! run together. kustomize writes and reads every object, so clusters contain these texts.

pub(super) fn after_go_yaml(text: &str) -> Option<String> {
    if !is_written_folded(text) {
        return None;
    }
    let body = text.trim_start_matches('\n');
    let begins_blank = body.starts_with([' ', '\t']);
    let mut out = String::with_capacity(text.len() + 8);
    out.push_str(&text[..text.len() - body.len()]);
    let mut rest = body;
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.find('\n').unwrap_or(rest.len()));
        rest = after.trim_start_matches('\n');
        let breaks = after.len() - rest.len();
        let is_blank = |line: &str| line.starts_with([' ', '\t']);
        let kept = match (is_blank(line), begins_blank) {
            // folding does not touch an indented line
            (true, _) => breaks,
            // a second break is always written, and read where nothing is folded
            (false, false) => {
                let reads_all = if rest.is_empty() {
                    breaks > 1
                } else {
                    is_blank(rest)
                };
                breaks + usize::from(reads_all)
            }
            // a second break is never written, and missing where lines are folded
            (false, true) => {
                let folds = !rest.is_empty() && !is_blank(rest);
                breaks - usize::from(folds && breaks > 0)
            }
        };
        out.push_str(line);
        if kept == 0 && breaks > 0 {
            out.push(' ');
        }
        out.extend(std::iter::repeat_n('\n', kept));
    }
    (out != text).then_some(out)
}

/// Whether the emitter writes the text folded rather than quoted.
fn is_written_folded(text: &str) -> bool {
    let is_printable = |character: char| {
        matches!(character, '\n' | '\t' | ' '..='~' | '\u{a0}'..='\u{ffff}')
            && !matches!(character, '\u{feff}' | '\u{fffe}' | '\u{ffff}')
    };
    // go-yaml treats these two as breaks only in some places
    let is_odd_break = |character| matches!(character, '\u{2028}' | '\u{2029}');
    text.contains('\n')
        && !text.ends_with(' ')
        && !text.contains(" \n")
        && text
            .chars()
            .all(|character| is_printable(character) && !is_odd_break(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded_texts_equal_go_yaml() {
        for (text, expected) in [
            ("a b\n", "a b\n"),
            ("a\nb\n", "a\nb\n"),
            ("a\n  b\nc\n", "a\n\n  b\nc\n"),
            ("a\n\n  b\n  c\n\nd", "a\n\n\n  b\n  c\n\nd"),
            ("a\n\n", "a\n\n\n"),
            ("\n\na\n b", "\n\na\n\n b"),
            ("  a\nb\nc\n", "  a\nb c\n"),
            ("  a\nb\n\nc\n", "  a\nb\nc\n"),
            ("a\n b \nc", "a\n b \nc"),
            ("a\n b\u{1f600}", "a\n b\u{1f600}"),
            ("a\n\tb", "a\n\n\tb"),
        ] {
            assert_eq!(
                after_go_yaml(text).as_deref().unwrap_or(text),
                expected,
                "{text:?}"
            );
        }
    }
}
