//! Rules about comments: how much of the code they are, and how documentation begins.

use super::File;
use super::sources::is_generated;

/// Comment words per 1,000 lines of code, at most. Lower it when comments go; do not raise it.
const COMMENT_WORDS_MAX: usize = 653;

/// A sentence that begins with one of these names neither actor nor object, unless it is a question.
const QUESTION_WORDS: [&str; 4] = ["What", "Who", "Whom", "Whoever"];

/// The attributes of `clap` that hold help text.
const HELP: [&str; 4] = ["help = \"", "long_help = \"", "about = \"", "long_about = \""];

pub(super) fn check(files: &[File]) -> Vec<String> {
    let mut complaints = comments(files, COMMENT_WORDS_MAX);
    complaints.extend(beginnings(files));
    complaints
}

fn written(files: &[File]) -> impl Iterator<Item = &File> {
    files
        .iter()
        .filter(|file| file.path.ends_with(".rs") && !is_generated(file))
}

/// The ceiling on comments, over all files: some need more reasons than others.
pub(super) fn comments(files: &[File], words_max: usize) -> Vec<String> {
    let (mut words, mut lines) = (0, 0);
    for line in written(files).flat_map(|file| file.text.lines()) {
        match line.trim().strip_prefix("//") {
            Some(comment) => words += comment.trim_start_matches(['/', '!']).split_whitespace().count(),
            None => lines += usize::from(!line.trim().is_empty()),
        }
    }
    let share = (words * 1000).checked_div(lines).unwrap_or_default();
    let complaint = (share > words_max).then(|| {
        format!(
            "{share} comment words per 1,000 lines of code, more than {words_max}: \
             keep reasons, invariants and sources"
        )
    });
    complaint.into_iter().collect()
}

/// Documentation and help texts that begin with a question word and ask no question.
pub(super) fn beginnings(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in written(files) {
        let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
        for (index, line) in lines.iter().enumerate() {
            let text = match (
                doc(line),
                index.checked_sub(1).and_then(|above| doc(lines[above])),
            ) {
                (Some(_), None) => block(&lines[index..]),
                (Some(_), Some(_)) => continue,
                (None, _) => match HELP.iter().find_map(|help| attribute(line, help)) {
                    Some(help) => help.to_owned(),
                    None => continue,
                },
            };
            if let Some(word) = question_word(&text) {
                complaints.push(format!(
                    "{}:{}: begins with `{word}`: name the actor or the object",
                    file.path,
                    index + 1
                ));
            }
        }
    }
    complaints
}

/// The text of a line of documentation.
fn doc(line: &str) -> Option<&str> {
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    // four slashes are a comment
    (!text.starts_with('/')).then_some(text)
}

/// The first paragraph of the documentation that begins here, as one line.
fn block(lines: &[&str]) -> String {
    let paragraph: Vec<&str> = lines
        .iter()
        .map_while(|line| doc(line))
        .map(str::trim)
        .take_while(|text| !text.is_empty())
        .collect();
    paragraph.join(" ")
}

fn attribute<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let (before, after) = line.split_once(name)?;
    let whole = !before.ends_with(|last: char| last.is_alphanumeric() || last == '_');
    whole.then(|| after.split('"').next().unwrap_or(after))
}

/// The word that a text begins with, if it should not.
fn question_word(text: &str) -> Option<&'static str> {
    let first = text.split(|c: char| !c.is_alphabetic()).next()?;
    let word = QUESTION_WORDS.into_iter().find(|word| *word == first)?;
    // the end of the first sentence; a point inside of a name is none
    let end = text
        .char_indices()
        .find(|(at, c)| {
            let ends = text[at + c.len_utf8()..]
                .chars()
                .next()
                .is_none_or(char::is_whitespace);
            matches!(c, '.' | '?' | '!') && ends
        })
        .map(|(_, c)| c);
    (end != Some('?')).then_some(word)
}
