//! Programs: variables and functions are resolved, macros expanded.

use crate::budget::Budget;
use crate::environment::{Environment, NamedFormat, Variables};
use crate::error::{CompileError, Fail, Issues};
use crate::eval::Run;
use crate::functions::{self, Function, Pattern};
use crate::parse::{self, Ast, Form};
use crate::value::Evaluated;

/// A part of a program, and its offset in the text.
#[derive(Debug)]
pub struct Node {
    /// The offset.
    pub at: usize,
    /// The operation.
    pub op: Op,
}

/// An operation.
#[derive(Debug)]
pub enum Op {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A float.
    Double(f64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A variable of the environment.
    Variable(usize),
    /// A variable of a macro, from the outermost.
    Local(usize),
    /// A type.
    Type(&'static str),
    /// A named format.
    Format(&'static NamedFormat),
    /// An unknown name.
    Undeclared(String),
    /// A message.
    Message(String),
    /// `a.b`, or `has(a.b)`.
    Select {
        /// The object.
        operand: Box<Node>,
        /// The field.
        field: String,
        /// For `has`.
        test: bool,
    },
    /// `a.?b`.
    OptSelect {
        /// The object.
        operand: Box<Node>,
        /// The field.
        field: String,
    },
    /// `a[b]`.
    Index(Box<Node>, Box<Node>),
    /// `a[?b]`.
    OptIndex(Box<Node>, Box<Node>),
    /// `&&` of all parts.
    And(Vec<Node>),
    /// `||` of all parts.
    Or(Vec<Node>),
    /// `!a`.
    Not(Box<Node>),
    /// `-a`.
    Negate(Box<Node>),
    /// `a ? b : c`.
    If(Box<Node>, Box<Node>, Box<Node>),
    /// An operator.
    Binary(Binary, Box<Node>, Box<Node>),
    /// Elements; some are optional.
    List(Vec<(Node, bool)>),
    /// Entries; some are optional.
    Map(Vec<(Node, Node, bool)>),
    /// A macro over elements.
    Each(Box<Each>),
    /// `optMap` and `optFlatMap`.
    OptMap {
        /// The optional.
        target: Box<Node>,
        /// The body.
        body: Box<Node>,
        /// For `optFlatMap`.
        flat: bool,
    },
    /// A function.
    Call(Box<Call>),
}

/// A call of a function.
#[derive(Debug)]
pub struct Call {
    /// The name, with its namespace.
    pub name: String,
    /// Whether the first argument is the receiver.
    pub is_method: bool,
    /// The arguments.
    pub args: Vec<Node>,
    /// `None`: there is no such function.
    pub(crate) function: Option<&'static Function>,
    /// The literal regular expression.
    pub(crate) pattern: Option<Pattern>,
}

impl Call {
    /// Whether the environment has the function.
    pub fn is_known(&self) -> bool {
        self.function.is_some()
    }
}

/// An operator with two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binary {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
    /// `in`
    In,
}

impl Binary {
    fn of(symbol: &str) -> Self {
        match symbol {
            "+" => Self::Add,
            "-" => Self::Subtract,
            "*" => Self::Multiply,
            "/" => Self::Divide,
            "%" => Self::Modulo,
            "==" => Self::Equal,
            "!=" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::LessEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterEqual,
            _ => Self::In,
        }
    }

    /// Its name in errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "_+_",
            Self::Subtract => "_-_",
            Self::Multiply => "_*_",
            Self::Divide => "_/_",
            Self::Modulo => "_%_",
            Self::Equal => "_==_",
            Self::NotEqual => "_!=_",
            Self::Less => "_<_",
            Self::LessEqual => "_<=_",
            Self::Greater => "_>_",
            Self::GreaterEqual => "_>=_",
            Self::In => "@in",
        }
    }
}

/// The kind of a macro over elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EachKind {
    /// `all`.
    All,
    /// `exists`.
    Exists,
    /// `exists_one`.
    ExistsOne,
    /// `map`, `filter`, `transformList`.
    List,
    /// `transformMap`.
    Map,
    /// `transformMapEntry`.
    Entries,
    /// `sortBy`.
    Sort,
}

/// A macro over elements, keys or entries.
#[derive(Debug)]
pub struct Each {
    /// Its kind.
    pub kind: EachKind,
    /// The list or map.
    pub range: Node,
    /// Whether it has a variable for the index or key too.
    pub is_pair: bool,
    /// Leaves out elements.
    pub filter: Option<Node>,
    /// The body.
    pub body: Node,
}

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    root: Node,
    names: Vec<String>,
    used: Vec<bool>,
    formats: &'static [NamedFormat],
}

impl Program {
    /// Compiles a text. Unknown names remain: see [`check_names`](Self::check_names).
    pub fn compile(text: &str, environment: &Environment) -> Result<Self, CompileError> {
        Self::compile_within(text, environment, &mut pattern_budget())
    }

    /// The same, with a budget for literal regular expressions that several programs share. Those that it does
    /// not pay for are compiled when the program runs.
    pub fn compile_within(
        text: &str,
        environment: &Environment,
        patterns: &mut Budget<'_>,
    ) -> Result<Self, CompileError> {
        let mut issues = Issues::new(text);
        let parsed = parse::parse(text, environment.limits, &mut issues)?;
        let (names, is_open) = match &environment.variables {
            Variables::Declared(names) => (names.iter().map(|name| (*name).to_owned()).collect(), false),
            Variables::Fields => (Vec::new(), true),
        };
        let mut lower = Lower {
            environment,
            issues,
            used: vec![false; names.len()],
            names,
            is_open,
            scope: Vec::new(),
            patterns,
        };
        let root = match parsed {
            Some(ast) => lower.node(ast),
            None => Node { at: 0, op: Op::Null },
        };
        lower.issues.finish()?;
        Ok(Self {
            root,
            formats: environment.library.formats(),
            names: lower.names,
            used: lower.used,
        })
    }

    /// The whole expression.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The declared variables, or the fields that the expression names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether it reads a variable.
    pub fn uses(&self, variable: usize) -> bool {
        self.used.get(variable).copied().unwrap_or_default()
    }

    /// Evaluates it; an error among the variables occurs when it is read.
    pub fn evaluate<'a>(&'a self, variables: &[Evaluated<'a>], budget: &mut Budget<'_>) -> Evaluated<'a> {
        Run::new(variables, budget, self.formats).eval(&self.root)
    }

    /// Evaluates it for an object whose fields are its variables.
    pub fn evaluate_fields<'a>(
        &'a self,
        fields: &'a crate::Fields,
        budget: &mut Budget<'_>,
    ) -> Evaluated<'a> {
        use crate::value::{Schema as _, UNTYPED, Val};
        let named = |name: &'a String| match fields.get(name) {
            Some(value) => UNTYPED.read(value),
            // types have no name of their own among the fields
            None => match functions::type_value(name) {
                Some(found) => Ok(Val::Type(found)),
                None => Err(Fail::absent(name)),
            },
        };
        let variables: Vec<Evaluated<'a>> = self.names.iter().map(named).collect();
        self.evaluate(&variables, budget)
    }

    /// Fails for unknown names, functions and messages.
    pub fn check_names(&self, text: &str) -> Result<(), CompileError> {
        let mut issues = Issues::new(text);
        undeclared(&self.root, &mut issues);
        issues.finish()
    }
}

/// cel-go's error about a name.
pub fn undeclared_text(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

fn undeclared(node: &Node, issues: &mut Issues<'_>) {
    match &node.op {
        Op::Undeclared(name) => issues.add(node.at, undeclared_text(name)),
        Op::Message(name) => issues.add(node.at, undeclared_text(name)),
        Op::Call(call) if !call.is_known() => issues.add(node.at, undeclared_text(&call.name)),
        _ => {}
    }
    node.children(&mut |child| undeclared(child, issues));
}

impl Node {
    /// Visits the parts of an operation.
    pub fn children<'n>(&'n self, visit: &mut dyn FnMut(&'n Node)) {
        match &self.op {
            Op::Null
            | Op::Bool(_)
            | Op::Int(_)
            | Op::UInt(_)
            | Op::Double(_)
            | Op::Text(_)
            | Op::Bytes(_)
            | Op::Variable(_)
            | Op::Local(_)
            | Op::Type(_)
            | Op::Format(_)
            | Op::Undeclared(_)
            | Op::Message(_) => {}
            Op::Select { operand, .. } | Op::OptSelect { operand, .. } => visit(operand),
            Op::Index(a, b) | Op::OptIndex(a, b) | Op::Binary(_, a, b) => {
                visit(a);
                visit(b);
            }
            Op::And(all) | Op::Or(all) => all.iter().for_each(visit),
            Op::Not(a) | Op::Negate(a) => visit(a),
            Op::If(a, b, c) => {
                visit(a);
                visit(b);
                visit(c);
            }
            Op::List(items) => items.iter().for_each(|(item, _)| visit(item)),
            Op::Map(entries) => {
                for (key, value, _) in entries {
                    visit(key);
                    visit(value);
                }
            }
            Op::Each(each) => {
                visit(&each.range);
                each.filter.iter().for_each(&mut *visit);
                visit(&each.body);
            }
            Op::OptMap { target, body, .. } => {
                visit(target);
                visit(body);
            }
            Op::Call(call) => call.args.iter().for_each(visit),
        }
    }
}

/// The budget for the literal regular expressions of one program: some twenty milliseconds.
pub fn pattern_budget() -> Budget<'static> {
    Budget::new(functions::LITERAL_UNITS_MAX, 0)
}

struct Lower<'e, 's, 'p, 'b> {
    environment: &'e Environment,
    issues: Issues<'s>,
    names: Vec<String>,
    used: Vec<bool>,
    /// Whether each unknown name becomes a variable.
    is_open: bool,
    /// The variables of macros, by position.
    scope: Vec<String>,
    /// The allowance for literal patterns.
    patterns: &'p mut Budget<'b>,
}

impl Lower<'_, '_, '_, '_> {
    fn boxed(&mut self, ast: Ast) -> Box<Node> {
        Box::new(self.node(ast))
    }

    fn all(&mut self, all: Vec<Ast>) -> Vec<Node> {
        all.into_iter().map(|ast| self.node(ast)).collect()
    }

    fn within(&mut self, names: Vec<String>, body: Ast) -> Node {
        let depth = self.scope.len();
        self.scope.extend(names);
        let node = self.node(body);
        self.scope.truncate(depth);
        node
    }

    fn node(&mut self, ast: Ast) -> Node {
        let at = ast.at;
        let op = match ast.form {
            Form::Null => Op::Null,
            Form::Bool(b) => Op::Bool(b),
            Form::Int(i) => Op::Int(i),
            Form::UInt(u) => Op::UInt(u),
            Form::Double(d) => Op::Double(d),
            Form::Text(text) => Op::Text(text),
            Form::Bytes(bytes) => Op::Bytes(bytes),
            Form::Ident(name) => self.name(name),
            Form::Message(name, fields) if self.environment.library.has_message(&name) => {
                let fields = fields.into_iter();
                let each = fields.map(|(field, value, optional)| {
                    let key = Node {
                        at,
                        op: Op::Text(field),
                    };
                    (key, self.node(value), optional)
                });
                Op::Map(each.collect())
            }
            Form::Message(name, _) => Op::Message(name),
            Form::Select {
                operand,
                field,
                optional,
            } => return self.select(at, *operand, field, optional),
            Form::Index {
                operand,
                index,
                optional,
            } => {
                let (operand, index) = (self.boxed(*operand), self.boxed(*index));
                match optional {
                    true => Op::OptIndex(operand, index),
                    false => Op::Index(operand, index),
                }
            }
            Form::List(items) => {
                let items = items.into_iter();
                Op::List(
                    items
                        .map(|(item, optional)| (self.node(item), optional))
                        .collect(),
                )
            }
            Form::Map(entries) => {
                let entries = entries.into_iter();
                let each = entries.map(|(key, value, optional)| (self.node(key), self.node(value), optional));
                Op::Map(each.collect())
            }
            Form::Not(a) => Op::Not(self.boxed(*a)),
            Form::Negate(a) => Op::Negate(self.boxed(*a)),
            Form::And(all) => Op::And(self.all(all)),
            Form::Or(all) => Op::Or(self.all(all)),
            Form::If(a, b, c) => Op::If(self.boxed(*a), self.boxed(*b), self.boxed(*c)),
            Form::Binary(symbol, a, b) => Op::Binary(Binary::of(symbol), self.boxed(*a), self.boxed(*b)),
            Form::Call { target, name, args } => self.call(at, target, name, args),
        };
        Node { at, op }
    }

    fn name(&mut self, name: String) -> Op {
        if let Some(place) = self.scope.iter().rposition(|known| *known == name) {
            return Op::Local(place);
        }
        let place = self.names.iter().position(|known| *known == name);
        if place.is_none() && !self.is_open {
            return match functions::type_value(&name) {
                Some(found) => Op::Type(found),
                None => Op::Undeclared(name),
            };
        }
        let place = place.unwrap_or_else(|| {
            self.names.push(name);
            self.used.push(false);
            self.names.len() - 1
        });
        self.used[place] = true;
        Op::Variable(place)
    }

    fn is_variable(&self, name: &str) -> bool {
        self.scope.iter().chain(&self.names).any(|known| known == name)
    }

    fn select(&mut self, at: usize, operand: Ast, field: String, optional: bool) -> Node {
        if let Some(space) = parse::path(&operand).filter(|_| !optional) {
            let root = space.split('.').next().unwrap_or_default();
            let found = functions::type_value(&format!("{space}.{field}"));
            if let Some(found) = found.filter(|_| !self.is_variable(root)) {
                let op = Op::Type(found);
                return Node { at, op };
            }
        }
        let operand = self.boxed(operand);
        let op = match optional {
            true => Op::OptSelect { operand, field },
            false => Op::Select {
                operand,
                field,
                test: false,
            },
        };
        Node { at, op }
    }

    fn call(&mut self, at: usize, target: Option<Box<Ast>>, name: String, mut args: Vec<Ast>) -> Op {
        let library = self.environment.library;
        let Some(target) = target else {
            if name == "has" && args.len() == 1 {
                return self.has(args.remove(0));
            }
            return self.function(name, false, self.environment, args);
        };
        if let Form::Ident(space) = &target.form
            && !self.is_variable(space)
        {
            let format = library.formats().iter().find(|format| format.name == name);
            if let Some(format) = format.filter(|_| space == "format" && args.is_empty()) {
                return Op::Format(format);
            }
            let full = format!("{space}.{name}");
            if functions::find(&full, library).is_some() {
                return self.function(full, false, self.environment, args);
            }
        }
        let kind = Macro::of(&name, args.len(), library.has_pairs(), library.has_lists());
        if let Some(kind) = kind {
            return self.expand(at, kind, *target, args);
        }
        args.insert(0, *target);
        self.function(name, true, self.environment, args)
    }

    fn function(&mut self, name: String, is_method: bool, environment: &Environment, args: Vec<Ast>) -> Op {
        let function = functions::find(&name, environment.library);
        let args = self.all(args);
        // an invalid pattern fails when it is used
        let pattern = match (function.is_some_and(Function::takes_pattern), args.get(1)) {
            (
                true,
                Some(Node {
                    op: Op::Text(text), ..
                }),
            ) => Pattern::literal(text, self.patterns),
            _ => None,
        };
        Op::Call(Box::new(Call {
            name,
            is_method,
            args,
            function,
            pattern,
        }))
    }

    fn has(&mut self, arg: Ast) -> Op {
        let at = arg.at;
        match arg.form {
            Form::Select {
                operand,
                field,
                optional: false,
            } => Op::Select {
                operand: self.boxed(*operand),
                field,
                test: true,
            },
            _ => {
                self.issues.add(at, "invalid argument to has() macro".to_owned());
                Op::Null
            }
        }
    }

    /// The name of a variable of a macro.
    fn variable(&mut self, arg: Ast, problem: &str) -> String {
        match arg.form {
            Form::Ident(name) => name,
            _ => {
                self.issues.add(arg.at, problem.to_owned());
                String::new()
            }
        }
    }

    fn expand(&mut self, at: usize, kind: Macro, target: Ast, args: Vec<Ast>) -> Op {
        let mut args = args.into_iter();
        let mut next = || args.next().unwrap_or_else(|| Ast::null(at));
        match kind {
            Macro::Optional { flat } => {
                let problem = match flat {
                    true => "optFlatMap() variable name must be a simple identifier",
                    false => "optMap() variable name must be a simple identifier",
                };
                let name = self.variable(next(), problem);
                Op::OptMap {
                    target: self.boxed(target),
                    body: Box::new(self.within(vec![name], next())),
                    flat,
                }
            }
            Macro::Each {
                kind,
                variables,
                filter,
            } => {
                let range = self.node(target);
                let mut names: Vec<String> = Vec::with_capacity(variables);
                for _ in 0..variables {
                    names.push(self.variable(next(), "argument must be a simple name"));
                }
                let filter = filter.then(|| self.within(names.clone(), next()));
                let body = match args.next() {
                    Some(body) => self.within(names, body),
                    // `filter` keeps the elements
                    None => Node {
                        at,
                        op: Op::Local(self.scope.len()),
                    },
                };
                Op::Each(Box::new(Each {
                    kind,
                    range,
                    is_pair: variables == 2,
                    filter,
                    body,
                }))
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Macro {
    Each {
        kind: EachKind,
        variables: usize,
        filter: bool,
    },
    Optional {
        flat: bool,
    },
}

impl Macro {
    /// The macro of this name with so many arguments.
    fn of(name: &str, args: usize, has_pairs: bool, has_lists: bool) -> Option<Self> {
        let (kind, variables, filter) = match (name, args) {
            ("all", 2) => (EachKind::All, 1, false),
            ("exists", 2) => (EachKind::Exists, 1, false),
            ("exists_one", 2) => (EachKind::ExistsOne, 1, false),
            ("map", 2) => (EachKind::List, 1, false),
            ("map", 3) | ("filter", 2) => (EachKind::List, 1, true),
            ("optMap" | "optFlatMap", 2) => {
                let flat = name == "optFlatMap";
                return Some(Self::Optional { flat });
            }
            ("sortBy", 2) if has_lists => (EachKind::Sort, 1, false),
            ("all", 3) if has_pairs => (EachKind::All, 2, false),
            ("exists", 3) if has_pairs => (EachKind::Exists, 2, false),
            ("existsOne" | "exists_one", 3) if has_pairs => (EachKind::ExistsOne, 2, false),
            ("transformList", 3 | 4) if has_pairs => (EachKind::List, 2, args == 4),
            ("transformMap", 3 | 4) if has_pairs => (EachKind::Map, 2, args == 4),
            ("transformMapEntry", 3 | 4) if has_pairs => (EachKind::Entries, 2, args == 4),
            _ => return None,
        };
        Some(Self::Each {
            kind,
            variables,
            filter,
        })
    }
}
