//! The template parser.
//!
//! Hand-written, because every message must name Go's line, and a run needs each part's place as Go counts it
//! (a chain of fields is at its second field). [`parse`] returns a text's own template first, then those it
//! defines.

use crate::ast::{Branch, Command, Expr, ExprKind, Node, Pipe, Position, Tree, Var};
use crate::fault::{Chain, Error, ErrorKind};
use crate::functions::{FunctionId, Library};
use crate::lex::{Kind, Lexer, Token};
use crate::limits::Limit;
use crate::literal;
use crate::value::Str;
use std::collections::HashMap;
use std::sync::Arc;

/// The deepest nesting of parentheses, and of branches.
const DEPTH_MAX: usize = 10_000;
/// The approximate memory limit for the templates of one set: twice their text, plus the parts of their
/// actions.
pub(crate) const READ_BYTES_MAX: usize = 96 << 20;
/// The memory of a part that messages can point at, and of a name or text in addition to its bytes.
const PART_BYTES: usize = 64;
const KEPT_BYTES: usize = 48;

type Parsed<T> = Result<T, Box<Error>>;

/// Parses a text. Templates without content do not replace others of the same name.
pub(crate) fn parse(name: &Arc<str>, text: &Arc<str>, library: Library, weight_max: usize) -> Parsed<Read> {
    let mut parser = Parser {
        name,
        text,
        library,
        lexer: Lexer::new(text),
        own: TemplateState::default(),
        slots: HashMap::from([("$", 0)]),
        ids: 0,
        weight: text.len(),
        weight_max: weight_max.min(READ_BYTES_MAX),
        depth: 0,
        trees: Vec::new(),
        places: HashMap::new(),
    };
    parser.check_weight()?;
    let root = parser.file()?;
    let own = parser.tree(Arc::clone(name), root);
    parser.add(own)?;
    let mut trees = parser.trees;
    if let Some(at) = trees.iter().position(|tree| tree.name == *name) {
        trees[..=at].rotate_right(1);
    }
    Ok(Read {
        trees,
        weight: parser.weight,
    })
}

pub(crate) struct Read {
    pub(crate) trees: Vec<Arc<Tree>>,
    pub(crate) weight: usize,
}

#[derive(Default)]
struct TemplateState<'a> {
    /// Lookahead tokens, the next one last; errors are reported at index 0.
    buffer: [Option<Token<'a>>; 3],
    peeked: usize,
    vars: Vec<&'a str>,
    known: HashMap<&'a str, u32>,
    range_depth: usize,
    action_pos: Option<usize>,
}

impl<'a> TemplateState<'a> {
    fn declare(&mut self, name: &'a str) {
        self.vars.push(name);
        *self.known.entry(name).or_insert(0) += 1;
    }

    /// Drops variables down to this many.
    fn forget(&mut self, left: usize) {
        for name in self.vars.drain(left..) {
            if let Some(count) = self.known.get_mut(name) {
                *count -= 1;
            }
        }
    }

    fn knows(&self, name: &str) -> bool {
        self.known.get(name).is_some_and(|count| *count > 0)
    }
}

struct Parser<'a> {
    name: &'a Arc<str>,
    text: &'a Arc<str>,
    library: Library,
    lexer: Lexer<'a>,
    own: TemplateState<'a>,
    slots: HashMap<&'a str, u32>,
    ids: u32,
    weight: usize,
    weight_max: usize,
    depth: usize,
    trees: Vec<Arc<Tree>>,
    places: HashMap<Arc<str>, usize>,
}

enum End {
    End,
    Else,
}

impl End {
    fn shown(&self) -> &'static str {
        match self {
            Self::End => "{{end}}",
            Self::Else => "{{else}}",
        }
    }
}

enum Item {
    Node(Node),
    End(End),
}

impl<'a> Parser<'a> {
    fn file(&mut self) -> Parsed<Vec<Node>> {
        self.own.declare("$");
        let mut root = Vec::new();
        loop {
            match self.peek().kind {
                Kind::Eof => return Ok(root),
                Kind::LeftDelim => {
                    let delim = self.next();
                    if self.next_non_space().kind == Kind::Define {
                        self.definition()?;
                        continue;
                    }
                    self.back_to(delim);
                }
                _ => {}
            }
            match self.item()? {
                Item::Node(node) => root.push(node),
                Item::End(end) => return Err(self.error(&format!("unexpected {}", end.shown()))),
            }
        }
    }

    fn tree(&self, name: Arc<str>, root: Vec<Node>) -> Tree {
        Tree {
            name,
            source: Arc::clone(self.name),
            text: Arc::clone(self.text),
            is_empty: crate::ast::is_empty(&root),
            root,
        }
    }

    fn add(&mut self, tree: Tree) -> Parsed<()> {
        match self.places.get(&tree.name).copied() {
            None => {
                self.places.insert(Arc::clone(&tree.name), self.trees.len());
                self.trees.push(Arc::new(tree));
            }
            Some(at) if self.trees[at].is_empty => self.trees[at] = Arc::new(tree),
            Some(_) if tree.is_empty => {}
            Some(_) => {
                let name = equate_manifest::go::quote(&tree.name);
                return Err(self.error(&format!("template: multiple definition of template {name}")));
            }
        }
        Ok(())
    }

    fn inner(
        &mut self,
        context: Option<&'static str>,
        name: impl FnOnce(&mut Self) -> Parsed<Arc<str>>,
    ) -> Parsed<Arc<str>> {
        let outer = std::mem::take(&mut self.own);
        self.own.declare("$");
        let name = name(self)?;
        let (root, end) = self.list()?;
        if let (End::Else, Some(context)) = (&end, context) {
            return Err(self.error(&format!("unexpected {} in {context}", end.shown())));
        }
        let tree = self.tree(Arc::clone(&name), root);
        self.add(tree)?;
        self.own = outer;
        Ok(name)
    }

    fn definition(&mut self) -> Parsed<()> {
        const CONTEXT: &str = "define clause";
        self.inner(Some(CONTEXT), |parser| {
            let token = parser.next_non_space();
            let name = parser.template_name(&token, CONTEXT)?;
            parser.expect(Kind::RightDelim, CONTEXT)?;
            Ok(name)
        })?;
        Ok(())
    }

    fn template_name(&self, token: &Token<'a>, context: &str) -> Parsed<Arc<str>> {
        if !matches!(token.kind, Kind::String | Kind::RawString) {
            return Err(self.unexpected(token, context));
        }
        let bytes = self.unquote(token)?;
        Ok(String::from_utf8_lossy(&bytes).into())
    }

    fn unquote(&self, token: &Token<'a>) -> Parsed<Vec<u8>> {
        literal::unquote(token.text).ok_or_else(|| self.error("invalid syntax"))
    }

    fn list(&mut self) -> Parsed<(Vec<Node>, End)> {
        let mut list = Vec::new();
        while self.peek_non_space().kind != Kind::Eof {
            match self.item()? {
                Item::Node(node) => list.push(node),
                Item::End(end) => return Ok((list, end)),
            }
        }
        Err(self.error("unexpected EOF"))
    }

    fn item(&mut self) -> Parsed<Item> {
        self.check_weight()?;
        let token = self.next_non_space();
        match token.kind {
            Kind::Text => Ok(Item::Node(Node::Text(token.text.into()))),
            Kind::LeftDelim => {
                self.own.action_pos = Some(token.pos);
                let item = stacker::maybe_grow(64 << 10, 1 << 20, || self.action());
                self.own.action_pos = None;
                item
            }
            _ => Err(self.unexpected(&token, "input")),
        }
    }

    fn action(&mut self) -> Parsed<Item> {
        let token = self.next_non_space();
        let node = match token.kind {
            Kind::Block => self.block()?,
            Kind::Break => self.leave("{{break}}", Node::Break)?,
            Kind::Continue => self.leave("{{continue}}", Node::Continue)?,
            Kind::Else => {
                if !matches!(self.peek_non_space().kind, Kind::If | Kind::With) {
                    self.expect(Kind::RightDelim, "else")?;
                }
                return Ok(Item::End(End::Else));
            }
            Kind::End => {
                self.expect(Kind::RightDelim, "end")?;
                return Ok(Item::End(End::End));
            }
            Kind::If => Node::If(self.branch("if")?),
            Kind::Range => Node::Range(self.branch("range")?),
            Kind::With => Node::With(self.branch("with")?),
            Kind::Template => self.template()?,
            _ => {
                self.back();
                let pos = self.peek().pos;
                let at = self.at(pos);
                Node::Action(at, self.pipeline("command", Kind::RightDelim)?)
            }
        };
        Ok(Item::Node(node))
    }

    fn leave(&mut self, shown: &str, node: Node) -> Parsed<Node> {
        let token = self.next_non_space();
        if token.kind != Kind::RightDelim {
            return Err(self.unexpected(&token, shown));
        }
        if self.own.range_depth == 0 {
            return Err(self.error(&format!("{shown} outside {{{{range}}}}")));
        }
        Ok(node)
    }

    fn branch(&mut self, context: &'static str) -> Parsed<Box<Branch>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error(&format!("limit: actions nested deeper than {DEPTH_MAX}")));
        }
        let vars = self.own.vars.len();
        let pipe = self.pipeline(context, Kind::RightDelim)?;
        self.own.range_depth += usize::from(context == "range");
        let (list, end) = self.list()?;
        self.own.range_depth -= usize::from(context == "range");
        let else_list = match end {
            End::End => None,
            End::Else => Some(self.else_list(context)?),
        };
        self.own.forget(vars);
        self.depth -= 1;
        let at = self.at(pipe.at.pos as usize);
        Ok(Box::new(Branch {
            at,
            pipe,
            list,
            else_list,
        }))
    }

    fn else_list(&mut self, context: &'static str) -> Parsed<Vec<Node>> {
        // its end also ends the branch it continues
        let continues = stacker::maybe_grow(64 << 10, 1 << 20, || -> Parsed<Option<Node>> {
            Ok(match (context, self.peek().kind) {
                ("if", Kind::If) => {
                    self.next();
                    Some(Node::If(self.branch("if")?))
                }
                ("with", Kind::With) => {
                    self.next();
                    Some(Node::With(self.branch("with")?))
                }
                _ => None,
            })
        })?;
        if let Some(node) = continues {
            return Ok(vec![node]);
        }
        let (list, end) = self.list()?;
        match end {
            End::End => Ok(list),
            End::Else => Err(self.error(&format!("expected end; found {}", end.shown()))),
        }
    }

    fn block(&mut self) -> Parsed<Node> {
        const CONTEXT: &str = "block clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, Kind::RightDelim)?;
        let at = self.at(token.pos);
        let name = self.inner(Some(CONTEXT), |_| Ok(name))?;
        Ok(Node::Template(at, name, Some(pipe)))
    }

    fn template(&mut self) -> Parsed<Node> {
        const CONTEXT: &str = "template clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        let at = self.at(token.pos);
        let pipe = if self.next_non_space().kind == Kind::RightDelim {
            None
        } else {
            self.back();
            Some(self.pipeline(CONTEXT, Kind::RightDelim)?)
        };
        Ok(Node::Template(at, name, pipe))
    }

    fn pipeline(&mut self, context: &str, end: Kind) -> Parsed<Pipe> {
        let pos = self.peek_non_space().pos;
        let mut pipe = Pipe {
            at: self.at(pos),
            is_assign: false,
            decl: Vec::new(),
            // most have one
            commands: Vec::with_capacity(1),
        };
        self.declarations(&mut pipe, context)?;
        loop {
            let token = self.next_non_space();
            match token.kind {
                kind if kind == end => break,
                Kind::Bool
                | Kind::CharConstant
                | Kind::Complex
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::RawString
                | Kind::String
                | Kind::Variable
                | Kind::LeftParen => {
                    self.back();
                    let command = self.command()?;
                    pipe.commands.push(command);
                }
                _ => return Err(self.unexpected(&token, context)),
            }
        }
        self.check(&pipe, context)?;
        Ok(pipe)
    }

    /// `$x :=`, `$x =`, and `$i, $e :=` of a range.
    fn declarations(&mut self, pipe: &mut Pipe, context: &str) -> Parsed<()> {
        while self.peek_non_space().kind == Kind::Variable {
            let variable = self.next();
            // telling `$x :=` from `$x y` needs two tokens of lookahead
            let after = self.peek();
            let next = self.peek_non_space();
            match next.kind {
                Kind::Assign | Kind::Declare => {
                    pipe.is_assign = next.kind == Kind::Assign;
                    self.next_non_space();
                    self.declare(pipe, variable.text);
                    return Ok(());
                }
                Kind::Char if next.text == "," => {
                    self.next_non_space();
                    self.declare(pipe, variable.text);
                    if context != "range" || pipe.decl.len() >= 2 {
                        return Err(self.error(&format!("too many declarations in {context}")));
                    }
                    let follows = self.peek_non_space().kind;
                    if !matches!(follows, Kind::Variable | Kind::RightDelim | Kind::RightParen) {
                        return Err(self.error("range can only initialize variables"));
                    }
                }
                _ => {
                    if after.kind == Kind::Space {
                        self.own.buffer[1] = Some(after);
                        self.own.buffer[2] = Some(variable);
                        self.own.peeked = 3;
                    } else {
                        self.back_to(variable);
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn declare(&mut self, pipe: &mut Pipe, name: &'a str) {
        let var = self.var(name);
        pipe.decl.push(var);
        self.own.declare(name);
    }

    fn var(&mut self, name: &'a str) -> Var {
        let count = self.slots.len() as u32;
        let slot = *self.slots.entry(name).or_insert(count);
        Var {
            name: name.into(),
            slot,
        }
    }

    fn check(&self, pipe: &Pipe, context: &str) -> Parsed<()> {
        if pipe.commands.is_empty() {
            return Err(self.error(&format!("missing value for {context}")));
        }
        for (index, command) in pipe.commands.iter().enumerate().skip(1) {
            let first = command.args.first().map(|arg| &arg.what);
            if let Some(
                ExprKind::Bool(_) | ExprKind::Dot | ExprKind::Nil | ExprKind::Number(_) | ExprKind::Text(..),
            ) = first
            {
                let stage = index + 1;
                return Err(self.error(&format!("non executable command in pipeline stage {stage}")));
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Parsed<Command> {
        let pos = self.peek_non_space().pos;
        let at = self.at(pos);
        let mut args = Vec::with_capacity(1);
        loop {
            self.peek_non_space();
            args.extend(self.operand()?);
            let token = self.next();
            match token.kind {
                Kind::Space => {}
                Kind::RightDelim | Kind::RightParen => {
                    self.back();
                    break;
                }
                Kind::Pipe => break,
                _ => return Err(self.unexpected(&token, "operand")),
            }
        }
        if args.is_empty() {
            return Err(self.error("empty command"));
        }
        Ok(Command { at, args })
    }

    fn operand(&mut self) -> Parsed<Option<Expr>> {
        self.check_weight()?;
        let Some(term) = self.term()? else {
            return Ok(None);
        };
        if self.peek().kind != Kind::Field {
            return Ok(Some(term));
        }
        let pos = self.peek().pos;
        let at = self.at(pos);
        let mut fields: Vec<Str> = Vec::new();
        while self.peek().kind == Kind::Field {
            self.check_weight()?;
            fields.push(self.next().text[1..].into());
        }
        let what = match term.what {
            ExprKind::Field(first) => ExprKind::Field(first.iter().cloned().chain(fields).collect()),
            ExprKind::Variable(var, first) => {
                ExprKind::Variable(var, first.iter().cloned().chain(fields).collect())
            }
            ExprKind::Bool(_) | ExprKind::Text(..) | ExprKind::Number(_) | ExprKind::Nil | ExprKind::Dot => {
                let shown = equate_manifest::go::quote(&term.text());
                return Err(self.error(&format!("unexpected . after term {shown}")));
            }
            _ => ExprKind::Chain(Box::new(term), fields.into()),
        };
        Ok(Some(Expr { at, what }))
    }

    fn term(&mut self) -> Parsed<Option<Expr>> {
        let token = self.next_non_space();
        let at = self.at(token.pos);
        let what = match token.kind {
            Kind::Identifier => match FunctionId::find(token.text, self.library) {
                Some(function) => ExprKind::Function(function),
                None => {
                    let name = equate_manifest::go::quote(token.text);
                    return Err(self.error(&format!("function {name} not defined")));
                }
            },
            Kind::Dot => ExprKind::Dot,
            Kind::Nil => ExprKind::Nil,
            Kind::Variable => {
                if !self.own.knows(token.text) {
                    let name = equate_manifest::go::quote(token.text);
                    return Err(self.error(&format!("undefined variable {name}")));
                }
                ExprKind::Variable(self.var(token.text), Box::default())
            }
            Kind::Field => ExprKind::Field([token.text[1..].into()].into()),
            Kind::Bool => ExprKind::Bool(token.text == "true"),
            Kind::CharConstant => ExprKind::Number(Box::new(
                literal::character(token.text).map_err(|message| self.error(&message))?,
            )),
            Kind::Number | Kind::Complex => ExprKind::Number(Box::new(
                literal::number(token.text).map_err(|message| self.error(&message))?,
            )),
            Kind::LeftParen => {
                if self.depth >= DEPTH_MAX {
                    return Err(self.error("max expression depth exceeded"));
                }
                self.depth += 1;
                let pipe = stacker::maybe_grow(64 << 10, 1 << 20, || {
                    self.pipeline("parenthesized pipeline", Kind::RightParen)
                })?;
                self.depth -= 1;
                // a pipeline in parentheses is the part itself
                return Ok(Some(Expr {
                    at: pipe.at,
                    what: ExprKind::Pipe(Box::new(pipe)),
                }));
            }
            Kind::String | Kind::RawString => {
                let bytes = self.unquote(&token)?;
                ExprKind::Text(token.text.into(), bytes.into())
            }
            _ => {
                self.back();
                return Ok(None);
            }
        };
        Ok(Some(Expr { at, what }))
    }

    fn at(&mut self, pos: usize) -> Position {
        self.ids += 1;
        self.weight += PART_BYTES;
        Position {
            pos: pos as u32,
            id: self.ids,
        }
    }

    fn next(&mut self) -> Token<'a> {
        if self.own.peeked > 0 {
            self.own.peeked -= 1;
        } else {
            self.read_token();
        }
        self.token_at(self.own.peeked)
    }

    /// Reads the next token and adds its weight.
    fn read_token(&mut self) {
        let token = self.lexer.next();
        let is_kept = matches!(
            token.kind,
            Kind::Text
                | Kind::Field
                | Kind::Variable
                | Kind::Number
                | Kind::CharConstant
                | Kind::String
                | Kind::RawString
        );
        if is_kept {
            self.weight += KEPT_BYTES + token.text.len();
        }
        self.own.buffer[0] = Some(token);
    }

    fn check_weight(&self) -> Parsed<()> {
        match self.weight > self.weight_max {
            true => {
                let limit = Limit::Read(READ_BYTES_MAX);
                let mut error = self.error(&limit.to_string());
                error.kind = ErrorKind::Limit(limit);
                Err(error)
            }
            false => Ok(()),
        }
    }

    fn token_at(&self, index: usize) -> Token<'a> {
        match self.own.buffer.get(index) {
            Some(Some(token)) => token.clone(),
            _ => Token {
                kind: Kind::Eof,
                pos: self.text.len(),
                text: "",
                message: String::new(),
            },
        }
    }

    fn back(&mut self) {
        self.own.peeked += 1;
    }

    fn back_to(&mut self, token: Token<'a>) {
        self.own.buffer[1] = Some(token);
        self.own.peeked = 2;
    }

    fn peek(&mut self) -> Token<'a> {
        if self.own.peeked == 0 {
            self.read_token();
            self.own.peeked = 1;
        }
        self.token_at(self.own.peeked - 1)
    }

    fn next_non_space(&mut self) -> Token<'a> {
        loop {
            let token = self.next();
            if token.kind != Kind::Space {
                return token;
            }
        }
    }

    fn peek_non_space(&mut self) -> Token<'a> {
        let token = self.next_non_space();
        self.back();
        token
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Parsed<()> {
        let token = self.next_non_space();
        if token.kind == kind {
            return Ok(());
        }
        Err(self.unexpected(&token, context))
    }

    fn line(&self, pos: usize) -> usize {
        let before = self.text.as_bytes().get(..pos).unwrap_or_default();
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    fn unexpected(&self, token: &Token<'a>, context: &str) -> Box<Error> {
        if token.kind != Kind::Error {
            return self.error(&format!("unexpected {} in {context}", token.shown()));
        }
        let mut message = token.message.clone();
        if let Some(start) = self.own.action_pos.map(|pos| self.line(pos))
            && start != self.line(token.pos)
        {
            let action = if message.ends_with(" action") {
                ""
            } else {
                " in action"
            };
            message = format!("{message}{action} started at {}:{start}", self.name);
        }
        self.error(&message)
    }

    fn error(&self, message: &str) -> Box<Error> {
        let pos = self.own.buffer[0].as_ref().map_or(0, |token| token.pos);
        self.error_at(pos, message)
    }

    fn error_at(&self, pos: usize, message: &str) -> Box<Error> {
        let line = self.line(pos);
        Box::new(Error {
            kind: ErrorKind::Parse,
            message: format!("template: {}:{line}: {message}", self.name),
            template: self.name.to_string(),
            line,
            column: None,
            reason: message.to_owned(),
            chain: Chain::default(),
        })
    }
}
