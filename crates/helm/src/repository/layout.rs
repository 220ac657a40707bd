//! Splits an index of Helm's layout into entries before parsing.
//!
//! A parsed index takes about ten times its text, a hostile one several hundred times. Parsed by entry,
//! it takes no more memory than the kept result. The layout is block style: `entries:` on a line, a line
//! for each chart's name, and its versions below as a list. The caller parses anything else whole. That
//! includes a piece which is not one complete value: a quote or bracket that ends in another piece, or an
//! alias of another one.

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout<'t> {
    /// The text outside the entries.
    pub(super) head: String,
    pub(super) charts: Vec<Chart<'t>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chart<'t> {
    pub(super) name: &'t str,
    /// Its versions, each as a list of one.
    pub(super) versions: Vec<&'t str>,
}

impl<'t> Layout<'t> {
    /// The pieces of a text; `None` for another layout.
    pub(super) fn of(text: &'t str) -> Option<Self> {
        let mut head = String::new();
        let mut below: Option<Block<'t>> = None;
        let mut is_below = false;
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let place = at..at + line.len();
            at = place.end;
            let content = line.trim_end();
            if content.is_empty() || content.starts_with(' ') {
                match below.as_mut().filter(|_| is_below) {
                    Some(block) => block.line(text, content, place)?,
                    None => head.push_str(line),
                }
                continue;
            }
            is_below = false;
            if content == "entries:" {
                is_below = below.replace(Block::default()).is_none();
                is_below.then_some(())?;
                continue;
            }
            // documents, directives and comments need the whole parser
            (!content.starts_with(['-', '.', '%', '#', '\u{feff}'])).then_some(())?;
            head.push_str(line);
        }
        let charts = below?.charts;
        Some(Self { head, charts })
    }
}

#[derive(Default)]
struct Block<'t> {
    charts: Vec<Chart<'t>>,
    /// The indent of names.
    name_indent: usize,
    /// The indent of the last chart's dashes.
    dash_indent: usize,
    /// The start of the last version.
    version_start: usize,
}

impl<'t> Block<'t> {
    fn line(&mut self, text: &'t str, content: &str, place: std::ops::Range<usize>) -> Option<()> {
        let bare = content.trim_start_matches(' ');
        if bare.is_empty() {
            return self.more(text, place);
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
                name: text.get(place)?,
                versions: Vec::new(),
            });
            return Some(());
        }
        let chart = self.charts.last_mut()?;
        if chart.versions.is_empty() {
            self.dash_indent = indent;
        }
        if indent == self.dash_indent && is_item && indent >= self.name_indent {
            self.version_start = place.start;
            chart.versions.push(text.get(place)?);
            return Some(());
        }
        (indent > self.dash_indent).then_some(())?;
        self.more(text, place)
    }

    fn more(&mut self, text: &'t str, place: std::ops::Range<usize>) -> Option<()> {
        let Some(version) = self.charts.last_mut().and_then(|chart| chart.versions.last_mut()) else {
            return Some(());
        };
        *version = text.get(self.version_start..place.end)?;
        Some(())
    }
}
