//! Parses an expression to a tree of calls, as written: macros are expanded by [`crate::program`].
//!
//! Refuses texts and trees beyond the limits of the environment, so that all walks over a tree fit on the
//! stack of a worker. Errors are cel-go's; after the first syntax error, the rest is not read.

use crate::error::{CompileError, Issues};
use crate::lex::{self, Kind, Token};

/// A part of an expression, and the offset that errors about it show.
#[derive(Debug)]
pub(crate) struct Ast {
    pub(crate) at: usize,
    depth: usize,
    pub(crate) form: Form,
}

impl Ast {
    pub(crate) fn null(at: usize) -> Self {
        Self {
            at,
            depth: 1,
            form: Form::Null,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Form {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Ident(String),
    Select {
        operand: Box<Ast>,
        field: String,
        optional: bool,
    },
    Index {
        operand: Box<Ast>,
        index: Box<Ast>,
        optional: bool,
    },
    /// The elements, and whether they are optional.
    List(Vec<(Ast, bool)>),
    Map(Vec<(Ast, Ast, bool)>),
    /// `a.b{...}`: the type's name.
    Message(String, Vec<(String, Ast, bool)>),
    Call {
        target: Option<Box<Ast>>,
        name: String,
        args: Vec<Ast>,
    },
    Not(Box<Ast>),
    Negate(Box<Ast>),
    And(Vec<Ast>),
    Or(Vec<Ast>),
    If(Box<Ast>, Box<Ast>, Box<Ast>),
    Binary(&'static str, Box<Ast>, Box<Ast>),
}

/// The most bytes and the deepest nesting of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest text.
    pub bytes_max: usize,
    /// The deepest nesting of brackets and operations.
    pub depth_max: usize,
}

enum Stop {
    /// The error is listed.
    Syntax,
    Deep,
}

/// Boxed, to keep the frames of the parser small.
type Parsed<T = Box<Ast>> = Result<T, Stop>;

/// The end of ANTLR's list of the beginnings of an operand.
const OPERAND: &str = "'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// The beginnings of that list, by place.
mod expecting {
    pub(super) const OPERAND: &str = "{'[', '{', '(', '.', '-', '!', ";
    pub(super) const INDEX: &str = "{'[', '{', '(', '.', '-', '!', '?', ";
    pub(super) const ARGUMENT: &str = "{'[', '{', '(', ')', '.', '-', '!', ";
    pub(super) const ITEM: &str = "{'[', ']', '{', '(', '.', ',', '-', '!', '?', ";
    pub(super) const ENTRY: &str = "{'[', '{', '}', '(', '.', ',', '-', '!', '?', ";
}

/// Words that are no names of variables.
pub const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The level of an operator; 0: it is none. Higher ones bind more tightly.
fn level_of(operator: &str) -> u8 {
    match operator {
        "||" => 1,
        "&&" => 2,
        "==" | "!=" | "<" | "<=" | ">" | ">=" | "in" => 3,
        "+" | "-" => 4,
        "*" | "/" | "%" => 5,
        _ => 0,
    }
}

pub(crate) fn parse<'s>(
    text: &'s str,
    limits: Limits,
    issues: &mut Issues<'s>,
) -> Result<Option<Ast>, CompileError> {
    if text.len() > limits.bytes_max {
        return Err(CompileError::Long {
            bytes: text.len(),
            max: limits.bytes_max,
        });
    }
    let (tokens, errors) = lex::tokens(text);
    for (at, why) in errors {
        issues.add(at, why);
    }
    let mut parser = Parser {
        text,
        tokens,
        next: 0,
        issues,
        depth: 0,
        depth_max: limits.depth_max,
    };
    let parsed = parser.expr(expecting::OPERAND).and_then(|root| {
        parser.end()?;
        Ok(root)
    });
    match parsed {
        Ok(root) => Ok(Some(*root)),
        Err(Stop::Syntax) => Ok(None),
        Err(Stop::Deep) => Err(CompileError::Deep {
            max: limits.depth_max,
        }),
    }
}

struct Parser<'p, 's> {
    text: &'s str,
    tokens: Vec<Token>,
    next: usize,
    issues: &'p mut Issues<'s>,
    depth: usize,
    depth_max: usize,
}

impl<'s> Parser<'_, 's> {
    fn token(&self) -> Token {
        self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn after(&self) -> Token {
        self.tokens[(self.next + 1).min(self.tokens.len() - 1)]
    }

    fn is(&self, symbol: &'static str) -> bool {
        self.token().kind == Kind::Symbol(symbol)
    }

    fn eat(&mut self, symbol: &'static str) -> Option<usize> {
        let at = self.token().start;
        self.is(symbol).then(|| {
            self.next += 1;
            at
        })
    }

    fn one_of(&self, symbols: &[&'static str]) -> Option<&'static str> {
        match self.token().kind {
            Kind::Symbol(symbol) if symbols.contains(&symbol) => Some(symbol),
            _ => None,
        }
    }

    fn written(&self, token: Token) -> &'s str {
        match token.kind {
            Kind::End => "<EOF>",
            _ => &self.text[token.start..token.end],
        }
    }

    #[cold]
    fn fail<T>(&mut self, at: usize, why: &str) -> Parsed<T> {
        self.issues.add(at, format!("Syntax error: {why}"));
        Err(Stop::Syntax)
    }

    /// The next token is none of the expected ones. As ANTLR does, drops it if the one behind it is.
    #[cold]
    fn unexpected(&mut self, list: &str) -> Parsed<()> {
        let token = self.token();
        let written = self.written(token);
        if token.kind != Kind::End && is_listed(list, self.after().kind) {
            self.next += 1;
            let why = format!("Syntax error: extraneous input '{written}' expecting {list}");
            self.issues.add(token.start, why);
            return Ok(());
        }
        self.fail(
            token.start,
            &format!("mismatched input '{written}' expecting {list}"),
        )
    }

    fn expect(&mut self, symbol: &'static str) -> Parsed<()> {
        if self.eat(symbol).is_some() {
            return Ok(());
        }
        let token = self.token();
        let goes_on = match symbol {
            ":" => begins_operand(token.kind),
            _ => token.kind == Kind::End,
        };
        if goes_on && self.after().kind != Kind::Symbol(symbol) {
            let why = format!("Syntax error: missing '{symbol}' at '{}'", self.written(token));
            self.issues.add(token.start, why);
            return Ok(());
        }
        self.unexpected(&format!("'{symbol}'"))?;
        self.eat(symbol);
        Ok(())
    }

    fn end(&mut self) -> Parsed<()> {
        match self.token().kind {
            Kind::End => Ok(()),
            _ => self.unexpected("<EOF>"),
        }
    }

    fn node(&self, at: usize, depth: usize, form: Form) -> Parsed {
        let depth = depth + 1;
        if depth > self.depth_max {
            return Err(Stop::Deep);
        }
        Ok(Box::new(Ast { at, depth, form }))
    }

    fn leaf(&self, at: usize, form: Form) -> Parsed {
        self.node(at, 0, form)
    }

    fn expr(&mut self, beginning: &str) -> Parsed {
        self.depth += 1;
        if self.depth > self.depth_max {
            return Err(Stop::Deep);
        }
        let out = self.operation(1, beginning)?;
        let out = match self.eat("?") {
            Some(at) => self.choice(at, out)?,
            None => out,
        };
        self.depth -= 1;
        Ok(out)
    }

    fn choice(&mut self, at: usize, condition: Box<Ast>) -> Parsed {
        let yes = self.operation(1, expecting::OPERAND)?;
        self.expect(":")?;
        let no = self.expr(expecting::OPERAND)?;
        let depth = condition.depth.max(yes.depth).max(no.depth);
        self.node(at, depth, Form::If(condition, yes, no))
    }

    /// Operands and operators of at least this level.
    fn operation(&mut self, level: u8, beginning: &str) -> Parsed {
        let mut left = self.unary(beginning)?;
        while let Kind::Symbol(operator) = self.token().kind {
            let found = level_of(operator);
            if found == 0 || found < level {
                break;
            }
            left = match operator {
                "||" | "&&" => self.logic(operator, found, *left)?,
                _ => self.binary(operator, found, left)?,
            };
        }
        Ok(left)
    }

    /// Operands joined by `||` or by `&&`: one part, however many there are.
    fn logic(&mut self, operator: &'static str, level: u8, first: Ast) -> Parsed {
        let (at, mut depth) = (self.token().start, first.depth);
        let mut all = vec![first];
        while self.eat(operator).is_some() {
            let next = self.operation(level + 1, expecting::OPERAND)?;
            depth = depth.max(next.depth);
            all.push(*next);
        }
        let form = if operator == "||" {
            Form::Or(all)
        } else {
            Form::And(all)
        };
        self.node(at, depth, form)
    }

    fn binary(&mut self, operator: &'static str, level: u8, left: Box<Ast>) -> Parsed {
        let at = self.token().start;
        self.next += 1;
        let right = self.operation(level + 1, expecting::OPERAND)?;
        let depth = left.depth.max(right.depth);
        self.node(at, depth, Form::Binary(operator, left, right))
    }

    fn unary(&mut self, beginning: &str) -> Parsed {
        match self.one_of(&["!", "-"]) {
            Some(operator) => self.signed(operator),
            None => self.member(beginning),
        }
    }

    fn signed(&mut self, operator: &'static str) -> Parsed {
        let at = self.token().start;
        let mut count = 0;
        while self.is(operator) && !(operator == "-" && self.is_number_next()) {
            self.next += 1;
            count += 1;
        }
        self.check_sign(operator)?;
        let operand = self.member(expecting::OPERAND)?;
        // an even number of signs has no effect
        if count % 2 == 0 {
            return Ok(operand);
        }
        let depth = operand.depth;
        let form = if operator == "!" {
            Form::Not(operand)
        } else {
            Form::Negate(operand)
        };
        self.node(at, depth, form)
    }

    fn is_number_next(&self) -> bool {
        matches!(self.after().kind, Kind::Int | Kind::Float)
    }

    /// The errors about the token behind the signs.
    fn check_sign(&mut self, operator: &'static str) -> Parsed<()> {
        let token = self.token();
        if token.kind == Kind::Symbol("-") && self.is_number_next() {
            return Ok(());
        }
        let no_alternative = |input: &str| format!("no viable alternative at input '{input}'");
        match (operator, token.kind) {
            ("!", Kind::Symbol("-")) => {
                let after = self.after();
                let why = no_alternative(&format!("-{}", self.written(after)));
                self.fail(after.start, &why)
            }
            (_, Kind::Symbol("!" | "-")) => {
                let why = no_alternative(&format!("{operator}{}", self.written(token)));
                self.fail(token.start, &why)
            }
            ("!", Kind::End) => {
                let why = format!(
                    "extraneous input '<EOF>' expecting {}{OPERAND}",
                    expecting::OPERAND
                );
                self.fail(token.start, &why)
            }
            ("-", Kind::End) => {
                let why = format!("Syntax error: {}", no_alternative("-"));
                self.issues.add(token.start, why);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn member(&mut self, beginning: &str) -> Parsed {
        let mut out = self.primary(beginning)?;
        loop {
            let at = self.token().start;
            if self.eat(".").is_some() {
                out = self.select(at, out)?;
            } else if self.eat("[").is_some() {
                out = self.index(at, out)?;
            } else if self.is("{")
                && let Some(name) = path(&out)
            {
                return self.message(name);
            } else {
                return Ok(out);
            }
        }
    }

    fn select(&mut self, at: usize, operand: Box<Ast>) -> Parsed {
        let optional = self.eat("?").is_some();
        let field = self.field(optional)?;
        if !optional && self.is("(") {
            return self.call(Some(operand), field);
        }
        let depth = operand.depth;
        let form = Form::Select {
            operand,
            field,
            optional,
        };
        self.node(at, depth, form)
    }

    fn index(&mut self, at: usize, operand: Box<Ast>) -> Parsed {
        let optional = self.eat("?").is_some();
        let list = if optional {
            expecting::OPERAND
        } else {
            expecting::INDEX
        };
        let index = self.expr(list)?;
        self.expect("]")?;
        let depth = operand.depth.max(index.depth);
        let form = Form::Index {
            operand,
            index,
            optional,
        };
        self.node(at, depth, form)
    }

    fn field(&mut self, optional: bool) -> Parsed<String> {
        let token = self.token();
        let written = self.written(token).to_owned();
        match token.kind {
            Kind::Ident => {
                self.next += 1;
                Ok(written)
            }
            Kind::Escaped => {
                self.next += 1;
                self.issues.add(token.start, "unsupported syntax: '`'".to_owned());
                Ok(written.trim_matches('`').to_owned())
            }
            _ if optional => {
                let why = format!("mismatched input '{written}' expecting {{IDENTIFIER, ESC_IDENTIFIER}}");
                self.fail(token.start, &why)
            }
            Kind::Symbol("true" | "false" | "null") => self.fail(
                token.start,
                &format!("mismatched input '{written}' expecting IDENTIFIER"),
            ),
            Kind::End => self.fail(token.start, "no viable alternative at input '.'"),
            _ => self.fail(
                token.start,
                &format!("no viable alternative at input '.{written}'"),
            ),
        }
    }

    /// The arguments of a call, whose name is read. Errors about a call show its bracket.
    fn call(&mut self, target: Option<Box<Ast>>, name: String) -> Parsed {
        let at = self.token().start;
        self.next += 1;
        let mut depth = target.as_ref().map_or(0, |target| target.depth);
        let mut args = Vec::new();
        if self.eat(")").is_none() {
            let mut list = expecting::ARGUMENT;
            loop {
                let arg = self.expr(list)?;
                depth = depth.max(arg.depth);
                args.push(*arg);
                if self.eat(",").is_none() {
                    break;
                }
                list = expecting::OPERAND;
            }
            self.expect(")")?;
        }
        self.node(at, depth, Form::Call { target, name, args })
    }

    fn primary(&mut self, beginning: &str) -> Parsed {
        let token = self.token();
        let at = token.start;
        match token.kind {
            Kind::Symbol("(") => self.grouped(),
            Kind::Symbol("[") => self.list(),
            Kind::Symbol("{") => self.map(),
            Kind::Symbol(".") if self.after().kind == Kind::Ident => {
                self.next += 1;
                self.name()
            }
            Kind::Ident => self.name(),
            Kind::Symbol("-") if self.is_number_next() => {
                self.next += 1;
                self.literal(at, true)
            }
            Kind::Symbol("true" | "false" | "null")
            | Kind::Int
            | Kind::UInt
            | Kind::Float
            | Kind::Text
            | Kind::Bytes => self.literal(at, false),
            _ => {
                self.unexpected(&format!("{beginning}{OPERAND}"))?;
                self.primary(expecting::OPERAND)
            }
        }
    }

    fn grouped(&mut self) -> Parsed {
        self.next += 1;
        let inner = self.expr(expecting::OPERAND)?;
        self.expect(")")?;
        Ok(inner)
    }

    fn name(&mut self) -> Parsed {
        let token = self.token();
        self.next += 1;
        let name = self.written(token).to_owned();
        if RESERVED.contains(&name.as_str()) {
            self.issues
                .add(token.start, format!("reserved identifier: {name}"));
        }
        if self.is("(") {
            return self.call(None, name);
        }
        self.leaf(token.start, Form::Ident(name))
    }

    fn literal(&mut self, at: usize, is_negative: bool) -> Parsed {
        let token = self.token();
        self.next += 1;
        let written = self.written(token);
        let digits = written.trim_end_matches(['u', 'U']);
        let (digits, radix) = match digits.strip_prefix("0x") {
            Some(digits) => (digits, 16),
            None => (digits, 10),
        };
        let form = match token.kind {
            Kind::Symbol("true") => Ok(Form::Bool(true)),
            Kind::Symbol("false") => Ok(Form::Bool(false)),
            Kind::Int => {
                let sign = if is_negative { "-" } else { "" };
                let parsed = i64::from_str_radix(&format!("{sign}{digits}"), radix);
                parsed.map(Form::Int).map_err(|_| "invalid int literal")
            }
            Kind::UInt => u64::from_str_radix(digits, radix)
                .map(Form::UInt)
                .map_err(|_| "invalid uint literal"),
            Kind::Float => match written.parse::<f64>() {
                Ok(float) if float.is_finite() => Ok(Form::Double(if is_negative { -float } else { float })),
                _ => Err("invalid double literal"),
            },
            Kind::Text => lex::unquote(written, false).and_then(|bytes| {
                let text = String::from_utf8(bytes);
                text.map(Form::Text).map_err(|_| "invalid unicode code point")
            }),
            Kind::Bytes => lex::unquote(written, true).map(Form::Bytes),
            _ => Ok(Form::Null),
        };
        let form = form.unwrap_or_else(|why| {
            self.issues.add(at, why.to_owned());
            Form::Null
        });
        self.leaf(at, form)
    }

    fn list(&mut self) -> Parsed {
        let at = self.token().start;
        self.next += 1;
        let (mut items, mut depth) = (Vec::new(), 0);
        let mut list = expecting::ITEM;
        loop {
            // a comma may be the last, or the only one
            if items.is_empty() && self.is(",") && self.after().kind == Kind::Symbol("]") {
                self.next += 1;
            }
            if self.eat("]").is_some() {
                break;
            }
            if !items.is_empty() && !begins_operand(self.token().kind) && !self.is("?") {
                self.expect("]")?;
                break;
            }
            let optional = self.eat("?").is_some();
            let item = self.expr(if optional { expecting::OPERAND } else { list })?;
            depth = depth.max(item.depth);
            items.push((*item, optional));
            list = expecting::OPERAND;
            if self.eat(",").is_none() {
                if self.eat("]").is_some() {
                    break;
                }
                self.unexpected("{']', ','}")?;
                self.eat(",");
            }
        }
        self.node(at, depth, Form::List(items))
    }

    fn map(&mut self) -> Parsed {
        let at = self.token().start;
        self.next += 1;
        let (mut entries, mut depth) = (Vec::new(), 0);
        let mut list = expecting::ENTRY;
        loop {
            if entries.is_empty() && self.is(",") && self.after().kind == Kind::Symbol("}") {
                self.next += 1;
            }
            if self.eat("}").is_some() {
                break;
            }
            if !entries.is_empty() && !begins_operand(self.token().kind) && !self.is("?") {
                self.expect("}")?;
                break;
            }
            let optional = self.eat("?").is_some();
            let key = self.expr(if optional { expecting::OPERAND } else { list })?;
            self.expect(":")?;
            let value = self.expr(expecting::OPERAND)?;
            depth = depth.max(key.depth).max(value.depth);
            entries.push((*key, *value, optional));
            list = expecting::OPERAND;
            if self.eat(",").is_none() {
                if self.eat("}").is_some() {
                    break;
                }
                self.unexpected("{'}', ','}")?;
                self.eat(",");
            }
        }
        self.node(at, depth, Form::Map(entries))
    }

    fn message(&mut self, name: String) -> Parsed {
        let at = self.token().start;
        self.next += 1;
        let (mut fields, mut depth) = (Vec::new(), 0);
        while self.eat("}").is_none() {
            let optional = self.eat("?").is_some();
            let token = self.token();
            if token.kind != Kind::Ident {
                self.unexpected("{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}")?;
                continue;
            }
            let field = self.written(token).to_owned();
            self.next += 1;
            self.expect(":")?;
            let value = self.expr(expecting::OPERAND)?;
            depth = depth.max(value.depth);
            fields.push((field, *value, optional));
            if self.eat(",").is_none() {
                self.expect("}")?;
                break;
            }
        }
        self.node(at, depth, Form::Message(name, fields))
    }
}

fn begins_operand(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Ident
            | Kind::Int
            | Kind::UInt
            | Kind::Float
            | Kind::Text
            | Kind::Bytes
            | Kind::Symbol("[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null")
    )
}

/// Whether a list of expected tokens has this kind.
fn is_listed(list: &str, kind: Kind) -> bool {
    match kind {
        Kind::End => list.contains("<EOF>"),
        Kind::Symbol(symbol) => list.contains(&format!("'{symbol}'")),
        Kind::Ident | Kind::Escaped => list.contains("IDENTIFIER"),
        Kind::Int | Kind::UInt | Kind::Float | Kind::Text | Kind::Bytes => list.contains("STRING"),
    }
}

/// The dotted name that this is.
pub(crate) fn path(at: &Ast) -> Option<String> {
    match &at.form {
        Form::Ident(name) => Some(name.clone()),
        Form::Select {
            operand,
            field,
            optional: false,
        } => Some(format!("{}.{field}", path(operand)?)),
        _ => None,
    }
}
