//! Go type declarations, as far as the Kubernetes API types use the language.
//!
//! A line reader for gofmt's output, not a Go parser: it reads named types, structs of tagged fields,
//! pointers, slices, maps and string constants.

use super::Error;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// A Go type expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Type {
    /// A predeclared type, `string`.
    Builtin(String),
    /// A type of a package: import path and name.
    Named(String, String),
    Pointer(Box<Type>),
    Slice(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Interface,
}

#[derive(Debug, Clone)]
pub(super) struct Field {
    pub name: String,
    pub ty: Type,
    /// Its JSON key; empty for an inlined embedded struct.
    pub json: String,
    pub omitempty: bool,
    pub omitzero: bool,
    /// Its number in protobuf messages.
    pub protobuf: Option<u32>,
}

#[derive(Debug, Clone)]
pub(super) enum Decl {
    Struct(Vec<Field>),
    /// `type A B`.
    Named(Type),
    /// `type A = B`.
    Alias(Type),
}

#[derive(Debug, Default)]
struct Package {
    name: String,
    types: HashMap<String, Decl>,
    /// Types marked `+enum`, with their values.
    enums: HashMap<String, Vec<String>>,
}

#[derive(Debug)]
pub(super) struct Sources {
    modules: Vec<(String, PathBuf)>,
    packages: BTreeMap<String, Package>,
}

impl Sources {
    pub(super) fn new(modules: Vec<(String, PathBuf)>) -> Self {
        Self {
            modules,
            packages: BTreeMap::new(),
        }
    }

    fn package(&mut self, path: &str) -> Result<&Package, Error> {
        if !self.packages.contains_key(path) {
            let (module, dir) = self
                .modules
                .iter()
                .find(|(module, _)| path.starts_with(&format!("{module}/")))
                .ok_or_else(|| Error::Source(format!("package {path} is in none of the modules")))?;
            let dir = dir.join(path[module.len()..].trim_start_matches('/'));
            let package = read_package(path, &dir)?;
            self.packages.insert(path.to_owned(), package);
        }
        Ok(&self.packages[path])
    }

    pub(super) fn declaration(&mut self, path: &str, name: &str) -> Result<Decl, Error> {
        self.package(path)?
            .types
            .get(name)
            .cloned()
            .ok_or_else(|| Error::Source(format!("package {path} declares no type {name}")))
    }

    /// The values of a type marked `+enum`.
    pub(super) fn enumeration(&mut self, ty: &Type) -> Result<Vec<String>, Error> {
        match self.dealias(ty)? {
            Type::Named(path, name) => Ok(self.package(&path)?.enums.get(&name).cloned().unwrap_or_default()),
            _ => Ok(Vec::new()),
        }
    }

    /// Follows `type A = B`.
    pub(super) fn dealias(&mut self, ty: &Type) -> Result<Type, Error> {
        let mut ty = ty.clone();
        while let Type::Named(path, name) = &ty {
            match self.declaration(path, name)? {
                Decl::Alias(to) => ty = to,
                _ => break,
            }
        }
        Ok(ty)
    }

    /// The underlying type: a struct's named type, or the expression behind all names.
    pub(super) fn underlying(&mut self, ty: &Type) -> Result<Type, Error> {
        let mut ty = ty.clone();
        while let Type::Named(path, name) = &ty {
            match self.declaration(path, name)? {
                Decl::Struct(_) => break,
                Decl::Named(to) | Decl::Alias(to) => ty = to,
            }
        }
        Ok(ty)
    }

    /// A type as Go's reflection prints it: `[]v1.Container`.
    pub(super) fn print(&mut self, ty: &Type) -> Result<String, Error> {
        Ok(match self.dealias(ty)? {
            Type::Builtin(name) if name == "byte" => "uint8".into(),
            Type::Builtin(name) => name,
            Type::Named(path, name) => format!("{}.{name}", self.package(&path)?.name),
            Type::Pointer(to) => format!("*{}", self.print(&to)?),
            Type::Slice(of) => format!("[]{}", self.print(&of)?),
            Type::Map(key, value) => format!("map[{}]{}", self.print(&key)?, self.print(&value)?),
            Type::Interface => "interface {}".into(),
        })
    }
}

fn read_package(path: &str, dir: &Path) -> Result<Package, Error> {
    let read = |source| Error::Read {
        path: dir.to_owned(),
        source,
    };
    let mut package = Package::default();
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(read)? {
        files.push(entry.map_err(read)?.path());
    }
    files.sort();
    for file in files {
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let generated = name.starts_with("zz_generated") || name.starts_with("generated.");
        if !name.ends_with(".go") || name.ends_with("_test.go") || generated {
            continue;
        }
        let text = std::fs::read_to_string(&file).map_err(|source| Error::Read {
            path: file.clone(),
            source,
        })?;
        read_file(path, &text, &mut package);
    }
    for values in package.enums.values_mut() {
        values.sort();
        values.dedup();
    }
    Ok(package)
}

fn read_file(path: &str, text: &str, package: &mut Package) {
    let text = without_block_comments(text);
    let imports = imports(&text);
    let mut lines = text.lines();
    let mut marked = false;
    let mut constants: Vec<(String, Option<String>)> = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with("//") {
            marked |= line.trim_start_matches('/').trim() == "+enum";
            continue;
        }
        if let Some(name) = line.strip_prefix("package ") {
            package.name = name.trim().to_owned();
        }
        let constant = line.trim_start().trim_start_matches("const ");
        constants.extend(string_constant(constant));
        if let Some(rest) = line.strip_prefix("type ") {
            let (name, body) = rest.split_once(' ').unwrap_or((rest, ""));
            let decl = if body.starts_with("struct") {
                let fields = if body.ends_with("{}") {
                    Vec::new()
                } else {
                    lines
                        .by_ref()
                        .take_while(|line| !line.starts_with('}'))
                        .filter_map(|line| field(path, line, &imports))
                        .collect()
                };
                Some(Decl::Struct(fields))
            } else if let Some(to) = body.strip_prefix("= ") {
                type_expr(path, code(to), &imports).map(Decl::Alias)
            } else {
                type_expr(path, code(body), &imports).map(Decl::Named)
            };
            if let Some(decl) = decl {
                package.types.insert(name.to_owned(), decl);
            }
            if marked {
                package.enums.entry(name.to_owned()).or_default();
            }
        }
        marked = false;
    }
    // upstream keeps a type's constants in the file that declares it, before or after
    for (ty, value) in constants {
        match (package.enums.get_mut(&ty), value) {
            (Some(values), Some(value)) => values.push(value),
            // an incomplete list of values would be wrong
            (Some(_), None) => {
                package.enums.remove(&ty);
            }
            (None, _) => {}
        }
    }
}

/// Type and value of `Name Type = "value"` or `Name = Type("value")`; no value if it is another constant.
fn string_constant(line: &str) -> Option<(String, Option<String>)> {
    let (declared, rest) = line.split_once(" = ")?;
    let mut words = declared.split_whitespace();
    words.next()?;
    let (ty, value) = match (words.next(), words.next()) {
        (Some(ty), None) => (ty, rest),
        (None, None) => rest.split_once('(')?,
        _ => return None,
    };
    let value = value.strip_prefix('"').and_then(|value| value.split('"').next());
    Some((ty.to_owned(), value.map(str::to_owned)))
}

fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default().trim()
}

fn without_block_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("\n/*") {
        out.push_str(&rest[..=start]);
        match rest[start..].find("*/") {
            Some(end) => rest = &rest[start + end + 2..],
            None => return out,
        }
    }
    out.push_str(rest);
    match out.strip_prefix("/*").and_then(|rest| rest.find("*/")) {
        Some(end) => out[end + 4..].to_owned(),
        None => out,
    }
}

fn imports(text: &str) -> HashMap<String, String> {
    let mut imports = HashMap::new();
    let mut inside = false;
    for line in text.lines() {
        let single = line.strip_prefix("import ").filter(|rest| !rest.starts_with('('));
        inside |= line.starts_with("import (");
        if inside && line.starts_with(')') {
            break;
        }
        let Some(spec) = single.or(inside.then_some(line)).map(str::trim) else {
            continue;
        };
        let Some((alias, path)) = spec.split_once('"') else {
            continue;
        };
        let path = path.trim_end_matches('"');
        let alias = match alias.trim() {
            "" => path.rsplit('/').next().unwrap_or(path),
            alias => alias,
        };
        imports.insert(alias.to_owned(), path.to_owned());
    }
    imports
}

fn field(path: &str, line: &str, imports: &HashMap<String, String>) -> Option<Field> {
    let line = line.trim();
    if line.starts_with("//") {
        return None;
    }
    let (declaration, tag) = match line.split_once('`') {
        Some((declaration, tag)) => (declaration.trim(), tag.split('`').next().unwrap_or_default()),
        None => (code(line), ""),
    };
    let (name, ty) = match declaration.split_once(char::is_whitespace) {
        Some((name, ty)) => (name.to_owned(), type_expr(path, ty.trim(), imports)?),
        None if declaration.is_empty() => return None,
        None => {
            let ty = type_expr(path, declaration, imports)?;
            let name = declaration.trim_start_matches('*');
            (name.rsplit('.').next().unwrap_or(name).to_owned(), ty)
        }
    };
    let embedded = !declaration.contains(char::is_whitespace);
    let json = tag
        .split_once("json:\"")
        .and_then(|(_, rest)| rest.split('"').next());
    let mut parts = json.unwrap_or_default().split(',');
    let key = parts.next().unwrap_or_default();
    let options: Vec<&str> = parts.collect();
    let protobuf = tag
        .split_once("protobuf:\"")
        .and_then(|(_, rest)| rest.split(',').nth(1)?.parse().ok());
    if key == "-" || (json.is_none() && !embedded && !name.starts_with(char::is_uppercase)) {
        return None;
    }
    let json = match key {
        "" if embedded => String::new(),
        "" => name.clone(),
        key => key.to_owned(),
    };
    Some(Field {
        name,
        ty,
        json,
        omitempty: options.contains(&"omitempty"),
        omitzero: options.contains(&"omitzero"),
        protobuf,
    })
}

const BUILTINS: &[&str] = &[
    "string", "bool", "byte", "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32",
    "uint64", "float32", "float64",
];

fn type_expr(path: &str, text: &str, imports: &HashMap<String, String>) -> Option<Type> {
    if let Some(rest) = text.strip_prefix('*') {
        return Some(Type::Pointer(Box::new(type_expr(path, rest, imports)?)));
    }
    if let Some(rest) = text.strip_prefix("[]") {
        return Some(Type::Slice(Box::new(type_expr(path, rest, imports)?)));
    }
    if let Some(rest) = text.strip_prefix("map[") {
        let (key, value) = rest.split_once(']')?;
        return Some(Type::Map(
            Box::new(type_expr(path, key, imports)?),
            Box::new(type_expr(path, value, imports)?),
        ));
    }
    if text == "interface{}" || text == "any" || text.starts_with("interface {") {
        return Some(Type::Interface);
    }
    if BUILTINS.contains(&text) {
        return Some(Type::Builtin(text.to_owned()));
    }
    if !text.chars().all(|c| c.is_alphanumeric() || c == '.' || c == '_') {
        return None;
    }
    match text.split_once('.') {
        Some((alias, name)) => Some(Type::Named(imports.get(alias)?.clone(), name.to_owned())),
        None => Some(Type::Named(path.to_owned(), text.to_owned())),
    }
}
