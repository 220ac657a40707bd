//! Sources of generated data: env files, literals, files, in this order.

use crate::error::Fault;
use crate::kustomization::GeneratorFields;
use crate::loader::Loader;
use crate::secrets::{self, SecretFile};
use bytes::Bytes;
use std::collections::{BTreeMap, HashSet};

/// All keys and values of an entry. A repeated key is an error; keys are not validated otherwise, as in
/// kustomize. `opens` decrypts encrypted files.
pub(super) fn collect(
    fields: &GeneratorFields,
    root: &str,
    opens: bool,
    loader: &mut Loader<'_>,
) -> Result<BTreeMap<String, Vec<u8>>, Fault> {
    let mut pairs = Vec::new();
    for path in &fields.envs {
        let (_, content) = loader.read(root, path)?;
        let content = match opens {
            true => opened(loader, root, path, path, true, content)?,
            false => content,
        };
        env_file(&content, path, &mut pairs)?;
    }
    for (index, literal) in fields.literals.iter().enumerate() {
        let pair = parse_literal(literal).ok_or_else(|| Fault::Literal {
            name: fields.name.clone(),
            number: index + 1,
        })?;
        pairs.push(pair);
    }
    for source in &fields.files {
        let (key, path) = parse_file(source)?;
        let (_, content) = loader.read(root, path)?;
        let content = match opens {
            true => {
                let (name, _) = source.split_once('=').unwrap_or((source, ""));
                opened(loader, root, path, name, false, content)?
            }
            false => content,
        };
        pairs.push((key.to_owned(), content.to_vec()));
    }
    let mut data = BTreeMap::new();
    let mut seen = HashSet::new();
    for (key, value) in pairs {
        if !seen.insert(key.clone()) {
            return Err(Fault::RepeatedKey {
                name: fields.name.clone(),
                key,
            });
        }
        data.insert(key, value);
    }
    Ok(data)
}

fn opened(
    loader: &Loader<'_>,
    root: &str,
    path: &str,
    name: &str,
    is_env: bool,
    content: Bytes,
) -> Result<Bytes, Fault> {
    let file = SecretFile {
        name,
        is_env,
        content: &content,
    };
    Ok(secrets::open_file(loader, root, path, file)?.unwrap_or(content))
}

/// Parses `key=value` and strips one pair of quotes from the value.
fn parse_literal(literal: &str) -> Option<(String, Vec<u8>)> {
    let (key, value) = literal.split_once('=')?;
    (!key.is_empty()).then(|| (key.to_owned(), unquoted(value).as_bytes().to_vec()))
}

fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        if value.len() >= 2
            && let Some(inner) = value
                .strip_prefix(quote)
                .and_then(|rest| rest.strip_suffix(quote))
        {
            return inner;
        }
    }
    value
}

/// Parses `path` (the key is its last segment) or `key=path`.
fn parse_file(source: &str) -> Result<(&str, &str), Fault> {
    let fault = |text: String| Err(Fault::FileSource(text));
    let mut parts = source.split('=');
    match (parts.next().unwrap_or_default(), parts.next(), parts.next()) {
        (path, None, _) => Ok((crate::path::name(path.trim_end_matches('/')), path)),
        (_, Some(_), Some(_)) => fault(format!("source {source:?} key name or file path contains '='")),
        ("", Some(path), None) => fault(format!(
            "missing key name for file path {path:?} in source {source:?}"
        )),
        (key, Some(""), None) => fault(format!(
            "missing file path for key name {key:?} in source {source:?}"
        )),
        (key, Some(path), None) => Ok((key, path)),
    }
}

/// Parses lines of `KEY=value`. Blank lines, comments and lines without a key are skipped; a key alone has an
/// empty value.
fn env_file(content: &[u8], path: &str, pairs: &mut Vec<(String, Vec<u8>)>) -> Result<(), Fault> {
    for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Ok(line) = std::str::from_utf8(line) else {
            return Err(Fault::EnvText {
                path: path.to_owned(),
                line: index + 1,
            });
        };
        let line = if index == 0 {
            line.trim_start_matches('\u{feff}')
        } else {
            line
        };
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        if !key.is_empty() {
            pairs.push((key.to_owned(), value.as_bytes().to_vec()));
        }
    }
    Ok(())
}
