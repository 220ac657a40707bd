//! Parses `${...}` in a text.

use super::SubstituteError;

const DEPTH_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    Text(String),
    Variable {
        name: String,
        operator: String,
        arguments: Vec<Node>,
    },
}

pub(super) fn parse(text: &str) -> Result<Vec<Node>, SubstituteError> {
    let mut parser = Parser { rest: text, depth: 0 };
    let mut nodes = Vec::new();
    while !parser.rest.is_empty() {
        if parser.take("${") {
            nodes.push(parser.variable()?);
        } else {
            nodes.push(Node::Text(parser.text_until_variable()));
        }
    }
    Ok(nodes)
}

struct Parser<'t> {
    rest: &'t str,
    depth: usize,
}

/// The end of an argument, and whether `\` escapes in it.
#[derive(Clone, Copy)]
struct Terminator {
    stops: &'static [char],
    escapes: bool,
}

impl<'t> Parser<'t> {
    fn take(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// Reads text up to `${`. `$$` is one dollar that opens nothing.
    fn text_until_variable(&mut self) -> String {
        let mut text = String::new();
        loop {
            let Some(at) = self.rest.find('$') else {
                text.push_str(self.rest);
                self.rest = "";
                return text;
            };
            text.push_str(&self.rest[..at]);
            self.rest = &self.rest[at..];
            if self.take("$$") {
                text.push('$');
            } else if self.rest.starts_with("${") {
                return text;
            } else {
                self.next();
                text.push('$');
            }
        }
    }

    fn variable(&mut self) -> Result<Node, SubstituteError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(SubstituteError::Depth(DEPTH_MAX));
        }
        let node = self.form()?;
        self.depth -= 1;
        Ok(node)
    }

    fn form(&mut self) -> Result<Node, SubstituteError> {
        if self.take("#") {
            let name = self.name().ok_or(SubstituteError::Form)?;
            self.close(SubstituteError::Form)?;
            return Ok(node(name, "#", Vec::new()));
        }
        let name = self.name().ok_or(SubstituteError::Name)?;
        match self.peek() {
            Some(':') => self.default_or_substring(name),
            Some('=' | '-') => {
                let operator = self.next().map(String::from).unwrap_or_default();
                self.default(name, operator)
            }
            Some(',' | '^') => {
                let first = self.next().unwrap_or_default();
                let mut operator = String::from(first);
                while operator.len() < 2
                    && let Some(second @ (',' | '^')) = self.peek()
                {
                    operator.push(second);
                    self.next();
                }
                self.close(SubstituteError::Form)?;
                Ok(node(name, &operator, Vec::new()))
            }
            Some('/') => self.replace(name),
            Some(sign @ ('#' | '%')) => {
                let mut operator = String::new();
                while operator.len() < 2 && self.peek() == Some(sign) {
                    operator.push(sign);
                    self.next();
                }
                let argument = self.argument(Terminator {
                    stops: &['}'],
                    escapes: false,
                })?;
                self.close(SubstituteError::Form)?;
                Ok(node(name, &operator, vec![argument]))
            }
            _ => {
                self.close(SubstituteError::Brace)?;
                Ok(node(name, "", Vec::new()))
            }
        }
    }

    fn name(&mut self) -> Option<String> {
        let end = self
            .rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!name.is_empty()).then(|| name.to_owned())
    }

    fn close(&mut self, otherwise: SubstituteError) -> Result<(), SubstituteError> {
        if self.take("}") { Ok(()) } else { Err(otherwise) }
    }

    fn default_or_substring(&mut self, name: String) -> Result<Node, SubstituteError> {
        self.next();
        if let Some(sign @ ('=' | '-' | '?' | '+')) = self.peek() {
            self.next();
            return self.default(name, format!(":{sign}"));
        }
        let offset = self.argument(Terminator {
            stops: &[':', '}'],
            escapes: false,
        })?;
        if self.take("}") {
            return Ok(node(name, ":", vec![offset]));
        }
        if !self.take(":") {
            return Err(SubstituteError::Form);
        }
        let length = self.argument(Terminator {
            stops: &['}'],
            escapes: false,
        })?;
        self.close(SubstituteError::Form)?;
        Ok(node(name, ":", vec![offset, length]))
    }

    /// Reads a default: text and nested substitutions, up to `}`.
    fn default(&mut self, name: String, operator: String) -> Result<Node, SubstituteError> {
        let mut arguments = Vec::new();
        while !self.take("}") {
            if self.rest.is_empty() {
                return Err(SubstituteError::Argument);
            }
            arguments.push(self.argument(Terminator {
                stops: &['}'],
                escapes: false,
            })?);
        }
        Ok(Node::Variable {
            name,
            operator,
            arguments,
        })
    }

    fn replace(&mut self, name: String) -> Result<Node, SubstituteError> {
        let mut operator = String::from("/");
        self.next();
        if let Some(sign @ ('/' | '#' | '%')) = self.peek() {
            operator.push(sign);
            self.next();
        }
        let pattern = self.argument(Terminator {
            stops: &['/'],
            escapes: true,
        })?;
        if !self.take("/") {
            return Err(SubstituteError::Form);
        }
        while self.take("/") {}
        if self.take("}") {
            return Ok(node(name, &operator, vec![pattern]));
        }
        let replacement = self.argument(Terminator {
            stops: &['}'],
            escapes: true,
        })?;
        self.close(SubstituteError::Form)?;
        Ok(node(name, &operator, vec![pattern, replacement]))
    }

    /// Reads one argument: a substitution, or text up to the next one or the end.
    fn argument(&mut self, until: Terminator) -> Result<Node, SubstituteError> {
        if self.take("${") {
            return self.variable();
        }
        let mut text = String::new();
        while let Some(c) = self.peek() {
            if self.rest.starts_with("${") {
                break;
            }
            if until.escapes {
                let escaped = ["\\/", "\\\\", "$$"]
                    .into_iter()
                    .find(|escape| self.rest.starts_with(escape));
                if let Some(escape) = escaped {
                    text.push_str(&escape[1..]);
                    self.rest = &self.rest[escape.len()..];
                    continue;
                }
            }
            if until.stops.contains(&c) {
                break;
            }
            text.push(c);
            self.next();
        }
        if text.is_empty() {
            return Err(SubstituteError::Argument);
        }
        Ok(Node::Text(text))
    }
}

fn node(name: String, operator: &str, arguments: Vec<Node>) -> Node {
    Node::Variable {
        name,
        operator: operator.to_owned(),
        arguments,
    }
}
