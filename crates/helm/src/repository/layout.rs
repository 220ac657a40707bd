//! An index as Helm writes it, cut into its entries before any of it is read.
//!
//! Read, an index takes some ten times its text, and a hostile one several hundred times. Entry by entry it
//! takes no more than what is kept. Only the layout is looked at here: block style, `entries:` by itself, a
//! line for each chart's name and its versions below as a list. Anything else is left to who reads the
//! whole, and so is a piece that turns out to be no whole value: a quote or a bracket that ends in another
//! piece, an alias of something in another one.

/// A text in its pieces.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout<'t> {
    /// What is said besides the entries.
    pub(super) head: String,
    /// The charts, in their order.
    pub(super) charts: Vec<Chart<'t>>,
}

/// The versions of a chart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chart<'t> {
    /// The line with its name, a mapping to nothing.
    pub(super) name: &'t str,
    /// Its versions, each a list of one.
    pub(super) versions: Vec<&'t str>,
}

impl<'t> Layout<'t> {
    /// The pieces of a text, if it has that layout.
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
            // documents, directives and comments are for who reads the whole
            (!content.starts_with(['-', '.', '%', '#', '\u{feff}'])).then_some(())?;
            head.push_str(line);
        }
        let charts = below?.charts;
        Some(Self { head, charts })
    }
}

/// What is below `entries:`, line by line.
#[derive(Default)]
struct Block<'t> {
    charts: Vec<Chart<'t>>,
    /// How far names are indented.
    name_indent: usize,
    /// How far the dashes of the last chart are.
    dash_indent: usize,
    /// Where the last version begins.
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
            // what stands behind the colon is for who reads the whole
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

    /// A line that belongs to the last version, if there is one.
    fn more(&mut self, text: &'t str, place: std::ops::Range<usize>) -> Option<()> {
        let Some(version) = self.charts.last_mut().and_then(|chart| chart.versions.last_mut()) else {
            return Some(());
        };
        *version = text.get(self.version_start..place.end)?;
        Some(())
    }
}
