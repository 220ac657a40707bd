//! Differences between libyaml's descendants and granit.

use super::resolve::Dialect;
use granit_parser::Span;

/// The most lines in quoted texts that are indented less than granit accepts.
const MOVED_LINES_MAX: usize = 64;
/// The most bytes to read again for them: each one rereads the whole text.
const MOVED_BYTES_MAX: usize = 32 << 20;
/// The indentation to add, in spaces. It is not part of the text.
const MOVED_BY: usize = 400;

/// The most lines to move in a text.
pub(super) fn moves_max(text: &str) -> usize {
    (MOVED_BYTES_MAX / text.len().max(1)).min(MOVED_LINES_MAX)
}

/// Indents a line within quotes; libyaml ignores its indentation.
pub(super) fn moved(text: &str, at: usize) -> String {
    let (before, line) = text.split_at(text.floor_char_boundary(at));
    format!("{before}{}{line}", " ".repeat(MOVED_BY))
}

/// Whether the header of a block scalar, on the line above, states its indentation.
pub(super) fn has_indentation_indicator(text: &str, span: &Span) -> bool {
    let start = span.start.byte_offset().unwrap_or_default();
    let above = text.get(..start).unwrap_or_default().trim_end();
    let header = above.rsplit('\n').next().unwrap_or_default();
    let header = header.find(" #").map_or(header, |comment| &header[..comment]);
    let indicators = header.rsplit(['|', '>']).next().unwrap_or_default();
    indicators.bytes().any(|byte| byte.is_ascii_digit())
}

/// Whether a double-quoted text has a `\\/`, which go-yaml does not know.
pub(super) fn escapes_a_slash(written: &str) -> bool {
    let mut characters = written.chars();
    while let Some(character) = characters.next() {
        if character == '\\' && characters.next() == Some('/') {
            return true;
        }
    }
    false
}

/// Whether a line has a tab after `-`, `?` or `:` before this position. A key may begin there, so a tab would
/// indent it.
pub(super) fn is_tab_behind_indicator(line: &str) -> bool {
    let line = line.find('#').map_or(line, |comment| &line[..comment]);
    let indicators = line.trim_end_matches('\r');
    !line.starts_with("---")
        && indicators.contains('\t')
        && indicators.trim_start_matches(' ').starts_with(['-', '?', ':'])
        && indicators
            .bytes()
            .all(|byte| matches!(byte, b'-' | b'?' | b':' | b' ' | b'\t'))
}

/// Checks the text before a document: misplaced end markers, directives.
pub(super) fn check_before_document(
    before: &str,
    is_first: bool,
    dialect: Dialect,
) -> Result<(), &'static str> {
    for line in before.lines() {
        if line.starts_with("...") && is_first {
            return Err("did not find expected node content");
        }
        let Some(directive) = line.strip_prefix('%') else {
            continue;
        };
        let mut words = directive.split_whitespace();
        match (words.next(), words.next()) {
            (Some("YAML"), version) if dialect == Dialect::Yaml11 && version != Some("1.1") => {
                return Err("found incompatible YAML document");
            }
            (Some("YAML" | "TAG"), _) => {}
            _ => return Err("found unknown directive name"),
        }
    }
    Ok(())
}
