//! What libyaml and its heirs refuse and granit reads, and the other way round.

use super::resolve::Dialect;

/// How many lines of texts in quotes may stand further out than granit reads them.
const MOVED_LINES_MAX: usize = 64;
/// How much is read again for them: each time it is all of the text.
const MOVED_BYTES_MAX: usize = 32 << 20;
/// How far in they are moved, in spaces. They are no part of the text.
const MOVED_BY: usize = 400;

/// How many lines of a text may be moved.
pub(super) fn moves_max(text: &str) -> usize {
    (MOVED_BYTES_MAX / text.len().max(1)).min(MOVED_LINES_MAX)
}

/// The text with a line within quotes moved in: libyaml does not mind where it stands.
pub(super) fn moved(text: &str, at: usize) -> String {
    let (before, line) = text.split_at(text.floor_char_boundary(at));
    format!("{before}{}{line}", " ".repeat(MOVED_BY))
}

/// Whether a text in double quotes has a `\\/`, which libyaml's heirs in Go know nothing of.
pub(super) fn escapes_a_slash(written: &str) -> bool {
    let mut characters = written.chars();
    while let Some(character) = characters.next() {
        if character == '\\' && characters.next() == Some('/') {
            return true;
        }
    }
    false
}

/// Whether a line, up to where something begins, has a tab behind `-`, `?` or `:`. A key may begin
/// there, so a tab would indent it.
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

/// What is wrong with what stands before a document: a sign that one ends before any began, directives.
pub(super) fn may_come_before(before: &str, is_first: bool, dialect: Dialect) -> Result<(), &'static str> {
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
