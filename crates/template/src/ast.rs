//! Parsed templates, and their parts as Go prints them in messages.
//!
//! Every part that a message can point at has a number. A run only tracks the current number; the part is
//! looked up for a message.

use crate::functions::FunctionId;
use crate::literal::Number;
use crate::value::Str;
use std::fmt::Write as _;
use std::sync::Arc;

/// The position of a part, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) pos: u32,
    pub(crate) id: u32,
}

#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) name: Arc<str>,
    pub(crate) source: Arc<str>,
    pub(crate) text: Arc<str>,
    pub(crate) root: Vec<Node>,
    pub(crate) is_empty: bool,
}

#[derive(Debug)]
pub(crate) enum Node {
    Text(Str),
    Action(Position, Pipe),
    If(Box<Branch>),
    With(Box<Branch>),
    Range(Box<Branch>),
    Template(Position, Arc<str>, Option<Pipe>),
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) at: Position,
    pub(crate) pipe: Pipe,
    pub(crate) list: Vec<Node>,
    pub(crate) else_list: Option<Vec<Node>>,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) at: Position,
    pub(crate) is_assign: bool,
    pub(crate) decl: Vec<Var>,
    pub(crate) commands: Vec<Command>,
}

#[derive(Debug, Clone)]
pub(crate) struct Var {
    pub(crate) name: Arc<str>,
    pub(crate) slot: u32,
}

#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) at: Position,
    /// The first is the function or the value.
    pub(crate) args: Vec<Expr>,
}

#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) at: Position,
    pub(crate) what: ExprKind,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Dot,
    Nil,
    Bool(bool),
    Number(Box<Number>),
    /// The text as written, and its value.
    Text(Box<str>, Str),
    Field(Box<[Str]>),
    Variable(Var, Box<[Str]>),
    Function(FunctionId),
    Pipe(Box<Pipe>),
    Chain(Box<Expr>, Box<[Str]>),
}

impl Tree {
    /// The line from 1, the column from 0, and the text of a part.
    pub(crate) fn context(&self, id: u32) -> (usize, usize, String) {
        let (pos, text) = find_in_list(&self.root, id).unwrap_or((0, String::new()));
        let before = self.text.get(..pos as usize).unwrap_or_default();
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        let column = before
            .rfind('\n')
            .map_or(before.len(), |at| before.len() - at - 1);
        (line, column, text)
    }
}

pub(crate) fn is_empty(list: &[Node]) -> bool {
    list.iter().all(|node| match node {
        Node::Text(text) => text.lossy().trim().is_empty(),
        _ => false,
    })
}

// parts may nest ten thousand levels deep and are dropped on any thread

impl Drop for Branch {
    fn drop(&mut self) {
        let mut queue = std::mem::take(&mut self.list);
        queue.extend(self.else_list.take().into_iter().flatten());
        while let Some(node) = queue.pop() {
            if let Node::If(mut branch) | Node::With(mut branch) | Node::Range(mut branch) = node {
                queue.append(&mut branch.list);
                queue.extend(branch.else_list.take().into_iter().flatten());
            }
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let is_deep = |arg: &Expr| matches!(arg.what, ExprKind::Pipe(_) | ExprKind::Chain(..));
        let mut commands = self.commands.iter();
        if !commands.any(|command| command.args.iter().any(is_deep)) {
            return;
        }
        let taken = |pipe: &mut Self| {
            let commands = std::mem::take(&mut pipe.commands);
            commands.into_iter().flat_map(|command| command.args)
        };
        let mut queue: Vec<Expr> = taken(self).collect();
        while let Some(expr) = queue.pop() {
            match expr.what {
                ExprKind::Pipe(mut pipe) => queue.extend(taken(&mut pipe)),
                ExprKind::Chain(inner, _) => queue.push(*inner),
                _ => {}
            }
        }
    }
}

fn grown<T>(run: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(64 << 10, 1 << 20, run)
}

type Found = Option<(u32, String)>;

fn find_in_list(list: &[Node], id: u32) -> Found {
    grown(|| list.iter().find_map(|node| find_in_node(node, id)))
}

fn find_in_node(node: &Node, id: u32) -> Found {
    match node {
        Node::Text(_) | Node::Break | Node::Continue => None,
        Node::Action(at, pipe) => {
            found(*at, id, || format!("{{{{{}}}}}", pipe.text())).or_else(|| find_in_pipe(pipe, id))
        }
        Node::If(branch) | Node::With(branch) | Node::Range(branch) => find_in_pipe(&branch.pipe, id)
            .or_else(|| find_in_list(&branch.list, id))
            .or_else(|| find_in_list(branch.else_list.as_deref().unwrap_or_default(), id))
            .or_else(|| found(branch.at, id, || node.text())),
        Node::Template(at, _, pipe) => {
            found(*at, id, || node.text()).or_else(|| pipe.as_ref().and_then(|pipe| find_in_pipe(pipe, id)))
        }
    }
}

fn found(at: Position, id: u32, text: impl FnOnce() -> String) -> Found {
    (at.id == id).then(|| (at.pos, text()))
}

fn find_in_pipe(pipe: &Pipe, id: u32) -> Found {
    let inside = || {
        pipe.commands.iter().find_map(|command| {
            let in_args = || command.args.iter().find_map(|arg| find_in_expr(arg, id));
            found(command.at, id, || command.text()).or_else(in_args)
        })
    };
    found(pipe.at, id, || pipe.text()).or_else(inside)
}

fn find_in_expr(expr: &Expr, id: u32) -> Found {
    let itself = || found(expr.at, id, || expr.text());
    grown(|| match &expr.what {
        ExprKind::Pipe(pipe) => find_in_pipe(pipe, id),
        ExprKind::Chain(inner, _) => itself().or_else(|| find_in_expr(inner, id)),
        _ => itself(),
    })
}

impl Node {
    fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Text(text) => out.push_str(&text.lossy()),
            Self::Action(_, pipe) => {
                out.push_str("{{");
                pipe.write(out);
                out.push_str("}}");
            }
            Self::If(branch) => branch.write("if", out),
            Self::With(branch) => branch.write("with", out),
            Self::Range(branch) => branch.write("range", out),
            Self::Template(_, name, pipe) => {
                out.push_str("{{template ");
                out.push_str(&equate_manifest::go::quote(name));
                if let Some(pipe) = pipe {
                    out.push(' ');
                    pipe.write(out);
                }
                out.push_str("}}");
            }
            Self::Break => out.push_str("{{break}}"),
            Self::Continue => out.push_str("{{continue}}"),
        }
    }
}

impl Branch {
    fn write(&self, name: &str, out: &mut String) {
        out.push_str("{{");
        out.push_str(name);
        out.push(' ');
        self.pipe.write(out);
        out.push_str("}}");
        grown(|| self.list.iter().for_each(|node| node.write(out)));
        if let Some(list) = &self.else_list {
            out.push_str("{{else}}");
            grown(|| list.iter().for_each(|node| node.write(out)));
        }
        out.push_str("{{end}}");
    }
}

impl Pipe {
    fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) {
        for (index, var) in self.decl.iter().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            out.push_str(&var.name);
        }
        if !self.decl.is_empty() {
            out.push_str(if self.is_assign { " = " } else { " := " });
        }
        for (index, command) in self.commands.iter().enumerate() {
            if index > 0 {
                out.push_str(" | ");
            }
            command.write(out);
        }
    }
}

impl Command {
    fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) {
        for (index, arg) in self.args.iter().enumerate() {
            if index > 0 {
                out.push(' ');
            }
            arg.write(out);
        }
    }
}

impl Expr {
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) {
        match &self.what {
            ExprKind::Dot => out.push('.'),
            ExprKind::Nil => out.push_str("nil"),
            ExprKind::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
            ExprKind::Number(number) => out.push_str(&number.text),
            ExprKind::Text(written, _) => out.push_str(written),
            ExprKind::Field(fields) => write_fields(out, fields),
            ExprKind::Variable(var, fields) => {
                out.push_str(&var.name);
                write_fields(out, fields);
            }
            ExprKind::Function(function) => out.push_str(function.name()),
            ExprKind::Pipe(pipe) => grown(|| {
                out.push('(');
                pipe.write(out);
                out.push(')');
            }),
            ExprKind::Chain(inner, fields) => {
                inner.write(out);
                write_fields(out, fields);
            }
        }
    }
}

fn write_fields(out: &mut String, fields: &[Str]) {
    for field in fields {
        let _ = write!(out, ".{field}");
    }
}
