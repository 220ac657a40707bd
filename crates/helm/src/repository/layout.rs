//! Splits an index of Helm's layout into entries before parsing.
//!
//! A parsed index takes about ten times its text, a hostile one several hundred times. Parsed by entry,
//! it takes no more memory than the kept result, and its text can stay in a file. The layout is block
//! style: `entries:` on a line, a line for each chart's name, and its versions below as a list. The caller
//! parses anything else whole. That includes a piece which is not one complete value: a quote or bracket that ends in another piece, or an
//! alias of another one.

use super::index::IndexError;
use std::io::{BufRead, Read as _};
use std::ops::Range;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The text outside the entries.
    pub(super) head: String,
    pub(super) charts: Vec<Chart>,
}

/// The places of a chart in the text, in bytes. They ascend.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chart {
    pub(super) name: Range<u64>,
    /// Its versions, each as a list of one.
    pub(super) versions: Vec<Range<u64>>,
}

impl Layout {
    /// The pieces of a text, which is read from here to its end; `None` for another layout. `entries_max` limits
    /// charts and versions together.
    pub(super) fn of(reader: &mut impl BufRead, entries_max: usize) -> Result<Option<Self>, IndexError> {
        let mut head = String::new();
        let mut below: Option<Block> = None;
        let (mut is_below, mut entries) = (false, 0);
        let (mut at, mut bytes) = (0_u64, Vec::new());
        loop {
            bytes.clear();
            if reader.read_until(b'\n', &mut bytes).map_err(IndexError::Read)? == 0 {
                break;
            }
            let line = std::str::from_utf8(&bytes).map_err(|error| {
                let place = at + error.valid_up_to() as u64;
                IndexError::NotUtf8(usize::try_from(place).unwrap_or(usize::MAX))
            })?;
            let place = at..at + bytes.len() as u64;
            at = place.end;
            let content = line.trim_end();
            if content.is_empty() || content.starts_with(' ') {
                match below.as_mut().filter(|_| is_below) {
                    Some(block) => match block.line(content, place) {
                        None => return Ok(None),
                        Some(Piece::Entry) => entries += 1,
                        Some(Piece::More) => {}
                    },
                    None => head.push_str(line),
                }
                if entries > entries_max {
                    return Err(IndexError::Entries(entries_max));
                }
                continue;
            }
            is_below = false;
            if content == "entries:" {
                is_below = below.replace(Block::default()).is_none();
                if !is_below {
                    return Ok(None);
                }
                continue;
            }
            // documents, directives and comments need the whole parser
            if content.starts_with(['-', '.', '%', '#', '\u{feff}']) {
                return Ok(None);
            }
            head.push_str(line);
        }
        let charts = below.map(|block| block.charts);
        Ok(charts.map(|charts| Self { head, charts }))
    }
}

/// A line's meaning below `entries:`.
enum Piece {
    /// A chart or a version begins.
    Entry,
    /// The one before goes on.
    More,
}

#[derive(Default)]
struct Block {
    charts: Vec<Chart>,
    /// The indent of names.
    name_indent: usize,
    /// The indent of the last chart's dashes.
    dash_indent: usize,
}

impl Block {
    fn line(&mut self, content: &str, place: Range<u64>) -> Option<Piece> {
        let bare = content.trim_start_matches(' ');
        if bare.is_empty() {
            return Some(self.more(&place));
        }
        let indent = content.len() - bare.len();
        let is_item = bare == "-" || bare.starts_with("- ");
        if self.charts.is_empty() {
            self.name_indent = indent;
        }
        if indent == self.name_indent && !is_item {
            // a value after the colon needs the whole parser
            (bare.ends_with(':') && !bare.starts_with('#')).then_some(())?;
            self.charts.push(Chart {
                name: place,
                versions: Vec::new(),
            });
            return Some(Piece::Entry);
        }
        let chart = self.charts.last_mut()?;
        if chart.versions.is_empty() {
            self.dash_indent = indent;
        }
        if indent == self.dash_indent && is_item && indent >= self.name_indent {
            chart.versions.push(place);
            return Some(Piece::Entry);
        }
        (indent > self.dash_indent).then_some(())?;
        Some(self.more(&place))
    }

    fn more(&mut self, place: &Range<u64>) -> Piece {
        if let Some(version) = self.charts.last_mut().and_then(|chart| chart.versions.last_mut()) {
            version.end = place.end;
        }
        Piece::More
    }
}

/// Reads pieces of a text by their places, which ascend.
pub(super) struct Pieces<'r, R> {
    reader: &'r mut R,
    at: u64,
    text: Vec<u8>,
}

impl<'r, R: BufRead> Pieces<'r, R> {
    /// The reader is at the beginning of the text.
    pub(super) fn new(reader: &'r mut R) -> Self {
        Self {
            reader,
            at: 0,
            text: Vec::new(),
        }
    }

    pub(super) fn get(&mut self, place: &Range<u64>) -> Result<&str, IndexError> {
        let length = place.end.saturating_sub(place.start);
        let before = place.start.saturating_sub(self.at);
        let mut before = self.reader.by_ref().take(before);
        std::io::copy(&mut before, &mut std::io::sink()).map_err(IndexError::Read)?;
        self.text.clear();
        let mut piece = self.reader.by_ref().take(length);
        piece.read_to_end(&mut self.text).map_err(IndexError::Read)?;
        self.at = place.end;
        let start = usize::try_from(place.start).unwrap_or(usize::MAX);
        std::str::from_utf8(&self.text)
            .map_err(|error| IndexError::NotUtf8(start.saturating_add(error.valid_up_to())))
    }
}
