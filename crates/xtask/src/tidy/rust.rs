//! A small tokenizer of Rust for the rules: named paths, methods of types, definitions.
//!
//! Tokens exclude comments and literals, and a name may span lines. It expands no macros and resolves
//! nothing: the rules need neither, and `syn` would be another dependency.

/// The tokens of a file, each with its line.
#[derive(Debug)]
pub(super) struct Tokens(Vec<(String, usize)>);

/// A path that starts with `crate` or `super`, up to the first other name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PathHead {
    /// The number of `super`; `None` if the path starts at the crate's root.
    pub(super) supers: Option<usize>,
    pub(super) name: String,
    pub(super) line: usize,
}

/// A method that takes `&mut self`, and its type.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MutMethod {
    pub(super) of: String,
    pub(super) name: String,
}

impl Tokens {
    pub(super) fn of(text: &str) -> Self {
        let mut scanner = Scanner {
            rest: text,
            line: 1,
            found: Vec::new(),
        };
        while !scanner.rest.is_empty() {
            scanner.one();
        }
        Self(scanner.found)
    }

    /// Removes modules that are compiled for tests only.
    pub(super) fn without_tests(self) -> Self {
        const MARK: [&str; 8] = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
        let mut kept = Vec::with_capacity(self.0.len());
        let mut at = 0;
        while at < self.0.len() {
            let marked = MARK
                .iter()
                .enumerate()
                .all(|(place, token)| self.text(at + place) == *token);
            // `mod tests;` is another file
            let opens = at + MARK.len() + 1;
            if marked && self.text(opens) == "{" {
                at = self.closing(opens) + 1;
            } else {
                kept.push(self.0[at].clone());
                at += 1;
            }
        }
        Self(kept)
    }

    fn text(&self, at: usize) -> &str {
        self.0.get(at).map_or("", |(text, _)| text)
    }

    /// The bracket that closes this one, or the end.
    fn closing(&self, opens: usize) -> usize {
        let mut depth = 0_usize;
        for at in opens..self.0.len() {
            match self.text(at) {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth = depth.saturating_sub(1),
                _ => continue,
            }
            if depth == 0 {
                return at;
            }
        }
        self.0.len()
    }

    /// The names of all types, traits, functions, constants, modules and macros, each with its line.
    pub(super) fn definitions(&self) -> impl Iterator<Item = (&str, usize)> {
        (0..self.0.len()).filter_map(|at| {
            let name = match (self.text(at), self.text(at + 1)) {
                ("macro_rules", "!") | ("static", "mut") => at + 2,
                ("const" | "static" | "fn" | "struct" | "enum" | "union" | "trait" | "type" | "mod", _) => {
                    at + 1
                }
                _ => return None,
            };
            // a raw pointer is no definition
            let pointer = at > 0 && self.text(at - 1) == "*";
            let (text, line) = self.0.get(name)?;
            (!pointer && is_identifier(text)).then_some((text.as_str(), *line))
        })
    }

    /// All paths from the root or from a parent module, in `use` and elsewhere.
    pub(super) fn path_heads(&self) -> Vec<PathHead> {
        let mut heads = Vec::new();
        for at in 0..self.0.len() {
            let first = matches!(self.text(at), "crate" | "super");
            if first && self.text(at + 1) == "::" && (at == 0 || self.text(at - 1) != "::") {
                let supers = (self.text(at) == "super").then_some(1);
                self.heads_after(at + 2, supers, &mut heads);
            }
        }
        heads
    }

    /// The names after `crate::` or `super::`: one, or those of a group in braces.
    fn heads_after(&self, at: usize, supers: Option<usize>, heads: &mut Vec<PathHead>) {
        match self.text(at) {
            "super" if self.text(at + 1) == "::" => {
                self.heads_after(at + 2, supers.map(|count| count + 1), heads);
            }
            "{" => {
                let end = self.closing(at);
                let mut item = at + 1;
                while item < end {
                    self.heads_after(item, supers, heads);
                    while item < end && self.text(item) != "," {
                        item = match self.text(item) {
                            "{" => self.closing(item) + 1,
                            _ => item + 1,
                        };
                    }
                    item += 1;
                }
            }
            name if is_identifier(name) => heads.push(PathHead {
                supers,
                name: name.to_owned(),
                line: self.0[at].1,
            }),
            _ => {}
        }
    }

    /// The methods that take `&mut self`, of all `impl` blocks.
    pub(super) fn mut_methods(&self) -> Vec<MutMethod> {
        let mut methods = Vec::new();
        for at in 0..self.0.len() {
            let item = at == 0 || matches!(self.text(at - 1), "}" | ";" | "{" | "]" | "unsafe");
            if self.text(at) != "impl" || !item {
                continue;
            }
            let Some(opens) = (at..self.0.len()).find(|at| self.text(*at) == "{") else {
                continue;
            };
            let of = self.subject(at + 1, opens);
            let names = self.mut_methods_within(opens);
            methods.extend(names.map(|name| MutMethod { of: of.clone(), name }));
        }
        methods
    }

    /// The type of an `impl` block, by its own name.
    fn subject(&self, from: usize, until: usize) -> String {
        let (mut depth, mut name) = (0_usize, "");
        for at in from..until {
            match self.text(at) {
                "<" => depth += 1,
                ">" => depth = depth.saturating_sub(1),
                "where" if depth == 0 => break,
                // the name before is the trait; `for<'a>` is different
                "for" if depth == 0 && self.text(at + 1) != "<" => name = "",
                word if depth == 0 && is_identifier(word) => name = word,
                _ => {}
            }
        }
        name.to_owned()
    }

    fn mut_methods_within(&self, opens: usize) -> impl Iterator<Item = String> {
        let end = self.closing(opens);
        let (mut at, mut names) = (opens + 1, Vec::new());
        while at < end {
            if self.text(at) == "fn" {
                let name = self.text(at + 1);
                if self.takes_mut_self(at + 2, end) {
                    names.push(name.to_owned());
                }
            }
            at = match self.text(at) {
                "{" | "(" | "[" => self.closing(at) + 1,
                _ => at + 1,
            };
        }
        names.into_iter()
    }

    /// Whether the parameters after a method's name start with `&mut self`.
    fn takes_mut_self(&self, from: usize, end: usize) -> bool {
        let (mut depth, mut at) = (0_usize, from);
        while at < end && (depth > 0 || self.text(at) != "(") {
            match self.text(at) {
                "<" => depth += 1,
                ">" => depth = depth.saturating_sub(1),
                _ => {}
            }
            at += 1;
        }
        let parameter: Vec<&str> = (at + 1..end)
            .map(|at| self.text(at))
            .filter(|token| !token.starts_with('\''))
            .take(6)
            .collect();
        let is = |form: &[&str]| parameter.starts_with(form);
        is(&["&", "mut", "self"])
            || is(&["self", ":", "&", "mut", "Self"])
            || is(&["mut", "self", ":", "&", "mut", "Self"])
    }
}

fn is_identifier(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
        && !matches!(token, "dyn" | "mut" | "const" | "as")
}

struct Scanner<'a> {
    rest: &'a str,
    line: usize,
    found: Vec<(String, usize)>,
}

impl Scanner<'_> {
    fn one(&mut self) {
        let rest = self.rest;
        let Some(first) = rest.chars().next() else { return };
        if rest.starts_with("//") {
            self.skip(rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("/*") {
            self.skip(block_comment(rest));
        } else if let Some(length) = raw_string(rest).or_else(|| quoted(rest)) {
            self.skip(length);
        } else if first == '\'' {
            let length = 1 + word(&rest[1..]);
            self.token(length);
        } else if first.is_alphanumeric() || first == '_' {
            self.token(word(rest));
        } else if rest.starts_with("::") || rest.starts_with("->") || rest.starts_with("=>") {
            self.token(2);
        } else if first.is_whitespace() {
            self.skip(first.len_utf8());
        } else {
            self.token(first.len_utf8());
        }
    }

    fn token(&mut self, length: usize) {
        self.found.push((self.rest[..length].to_owned(), self.line));
        self.skip(length);
    }

    fn skip(&mut self, length: usize) {
        let (over, rest) = self.rest.split_at(length);
        self.line += over.matches('\n').count();
        self.rest = rest;
    }
}

fn word(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len())
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        let rest = &text[at..];
        let step = if rest.starts_with("/*") {
            depth += 1;
            2
        } else if rest.starts_with("*/") {
            depth -= 1;
            2
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
        at += step;
        if depth == 0 {
            break;
        }
    }
    at
}

fn raw_string(text: &str) -> Option<usize> {
    let start = ["r", "br", "cr"].iter().find_map(|prefix| {
        let rest = text.strip_prefix(prefix)?;
        rest.starts_with(['#', '"']).then_some(prefix.len())
    })?;
    let hashes = text[start..].len() - text[start..].trim_start_matches('#').len();
    let opens = start + hashes;
    // `r#type` is a name
    text[opens..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = text[opens + 1..].find(&end);
    Some(length.map_or(text.len(), |length| opens + 1 + length + end.len()))
}

/// The length of a string or character, if one starts here; a lifetime is neither.
fn quoted(text: &str) -> Option<usize> {
    let prefix = usize::from(text.starts_with(['b', 'c']));
    let body = &text[prefix..];
    let quote = body.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    if quote == '\'' {
        let mut inside = body[1..].chars();
        let first = inside.next()?;
        if first != '\\' && inside.next() != Some('\'') {
            return None;
        }
    }
    let mut escaped = false;
    for (at, c) in body.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(prefix + at + 1),
            _ => {}
        }
    }
    Some(text.len())
}
