//! Converts names between styles: `HTTPServer` to `http_server`.

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Digits,
    Joint,
    Other,
}

fn is_joint(character: char) -> bool {
    matches!(character, '-' | '_') || character.is_whitespace()
}

fn kind(character: char) -> Kind {
    if is_joint(character) {
        Kind::Joint
    } else if character.is_numeric() {
        Kind::Digits
    } else if character.is_alphabetic() {
        Kind::Word
    } else {
        Kind::Other
    }
}

/// Splits a name. A word is a capital and the lower case after it, or capitals up to the one that begins the
/// next word.
fn stretches(text: &str) -> Vec<(Kind, String)> {
    let chars: Vec<char> = text.chars().collect();
    let mut found: Vec<(Kind, String)> = Vec::new();
    let mut start = 0;
    while start < chars.len() {
        let what = kind(chars[start]);
        let mut end = start + 1;
        let is_upper = |index: usize| chars.get(index).is_some_and(|c| c.is_uppercase());
        let is_word = |index: usize| chars.get(index).is_some_and(|c| kind(*c) == Kind::Word);
        if what == Kind::Word && is_upper(start) && is_upper(end) {
            while is_upper(end) {
                end += 1;
            }
            if is_word(end) {
                end -= 1;
            }
        } else if what == Kind::Word {
            while is_word(end) && !is_upper(end) {
                end += 1;
            }
        } else {
            while chars.get(end).is_some_and(|c| kind(*c) == what) {
                end += 1;
            }
        }
        found.push((what, chars[start..end].iter().collect()));
        start = end;
    }
    found
}

/// Words in lower case with a character between them.
pub(super) fn joined(text: &str, joint: char) -> String {
    let all = stretches(text);
    let mut out = String::new();
    let mut index = 0;
    // a number belongs to the word before it, or with lower-case letters after it to those
    let starts_word = |at: usize| {
        all.get(at)
            .is_some_and(|(kind, text)| *kind == Kind::Word && text.starts_with(char::is_lowercase))
    };
    while let Some((what, text)) = all.get(index) {
        let before = index
            .checked_sub(1)
            .and_then(|before| all.get(before))
            .map(|(kind, _)| *kind);
        match what {
            Kind::Joint => out.extend(text.chars().map(|_| joint)),
            Kind::Other => out.push_str(text),
            Kind::Digits => {
                if before == Some(Kind::Word) && starts_word(index + 1) {
                    out.push(joint);
                }
                out.push_str(text);
            }
            Kind::Word => {
                let follows_number = before == Some(Kind::Digits) && !starts_word(index);
                if before == Some(Kind::Word) || follows_number {
                    out.push(joint);
                }
                out.push_str(&text.to_lowercase());
            }
        }
        index += 1;
    }
    out
}

/// Capitalized words; drops the last character of each separator.
pub(super) fn pascal(text: &str) -> String {
    let mut out = String::new();
    let mut joints = String::new();
    // at the start of a word, and in a run of capitals there
    let (mut starts, mut in_capitals) = (true, false);
    for character in text.chars() {
        if is_joint(character) {
            joints.push(character);
            starts = true;
            continue;
        }
        if !out.is_empty() && !joints.is_empty() && out.chars().any(|c| !is_joint(c)) {
            joints.pop();
        }
        out.push_str(&std::mem::take(&mut joints));
        if starts {
            in_capitals = character.is_uppercase();
            out.extend(character.to_uppercase());
        } else if in_capitals && character.is_uppercase() {
            out.extend(character.to_lowercase());
        } else {
            in_capitals = false;
            out.push(character);
        }
        starts = false;
    }
    out.push_str(&joints);
    out
}
