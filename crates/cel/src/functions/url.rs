//! URLs, as Go's `url.ParseRequestURI` reads them.

use super::Function;
use super::kubernetes::{Content, Opaque};
use crate::error::Fail;
use crate::value::{VAL_BYTES, Val};
use equate_manifest::go::quote as go_quote;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::kubernetes("url", |run, args| match args {
        [Val::Text(text)] => {
            run.spend(2)?;
            run.budget.write(2 * text.as_str().len())?;
            match Url::parse(text.as_str()) {
                Ok(url) => Ok(Opaque::val(Content::Url(url))),
                Err(why) => {
                    let quoted = go_quote(text.as_str());
                    let intro = "URL parse error during conversion from string";
                    Err(Fail::new(format!("{intro}: parse {quoted}: {why}")))
                }
            }
        }
        _ => Err(Fail::no_overload()),
    }),
    Function::kubernetes("isURL", |_, args| match args {
        [Val::Text(text)] => Ok(Val::Bool(Url::parse(text.as_str()).is_ok())),
        _ => Err(Fail::no_overload()),
    }),
    Function::kubernetes("getScheme", |run, args| {
        let url = one(args)?;
        run.budget.write(url.scheme.len())?;
        Ok(Val::text(url.scheme.as_str()))
    }),
    Function::kubernetes("getHost", |run, args| {
        let url = one(args)?;
        run.budget.write(url.host.len())?;
        Ok(Val::text(url.host.as_str()))
    }),
    Function::kubernetes("getHostname", |run, args| {
        let url = one(args)?;
        run.budget.write(url.host.len())?;
        Ok(Val::text(url.name_and_port().0))
    }),
    Function::kubernetes("getPort", |run, args| {
        let url = one(args)?;
        run.budget.write(url.host.len())?;
        Ok(Val::text(url.name_and_port().1))
    }),
    Function::kubernetes("getEscapedPath", |run, args| {
        let url = one(args)?;
        run.budget.write(3 * url.path.len())?;
        Ok(Val::text(url.escaped_path()))
    }),
    Function::kubernetes("getQuery", |run, args| {
        let url = one(args)?;
        run.budget.write(url.query.len())?;
        let pairs: Vec<(String, String)> = url.pairs().collect();
        run.budget.hold(pairs.len() * 4 * VAL_BYTES)?;
        let mut entries: Vec<(String, Vec<Val<'_>>)> = Vec::new();
        for (key, value) in pairs {
            run.spend(1 + entries.len() / 4)?;
            let value = Val::text(value);
            match entries.iter_mut().find(|(known, _)| *known == key) {
                Some((_, values)) => values.push(value),
                None => entries.push((key, vec![value])),
            }
        }
        let entries = entries
            .into_iter()
            .map(|(key, values)| (Val::text(key), Val::list(values)));
        Ok(Val::map(entries.collect()))
    }),
];

/// Why a text is no URL for a request, with Go's text.
pub fn uri_problem(text: &str) -> Option<String> {
    let why = Url::parse(text).err()?;
    Some(format!("parse {}: {why}", go_quote(text)))
}

fn one<'v>(args: &'v [Val<'_>]) -> Result<&'v Url, Fail> {
    match args {
        [Val::Opaque(value)] => match &*value.0 {
            Content::Url(url) => Ok(url),
            _ => Err(Fail::no_overload()),
        },
        _ => Err(Fail::no_overload()),
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Url {
    scheme: String,
    user: String,
    host: String,
    /// As written.
    path: String,
    query: String,
    opaque: String,
}

impl Url {
    /// The error is Go's, without the part that quotes the text.
    fn parse(text: &str) -> Result<Self, String> {
        if text.chars().any(|c| c < ' ' || c == '\u{7f}') {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() {
            return Err("empty url".to_owned());
        }
        let mut url = Self {
            scheme: String::new(),
            user: String::new(),
            host: String::new(),
            path: String::new(),
            query: String::new(),
            opaque: String::new(),
        };
        if text == "*" {
            text.clone_into(&mut url.path);
            return Ok(url);
        }
        let (scheme, rest) = split_scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        query.clone_into(&mut url.query);
        if !rest.starts_with('/') {
            if scheme.is_empty() {
                return Err("invalid URI for request".to_owned());
            }
            rest.clone_into(&mut url.opaque);
            return Ok(url);
        }
        let mut path = rest;
        if (!scheme.is_empty() || !rest.starts_with("///"))
            && let Some(after) = rest.strip_prefix("//")
        {
            let end = after.find('/').unwrap_or(after.len());
            path = &after[end..];
            url.authority(&after[..end])?;
        }
        unescape(path, Part::Path)?;
        path.clone_into(&mut url.path);
        Ok(url)
    }

    fn authority(&mut self, text: &str) -> Result<(), String> {
        let (user, host) = match text.rsplit_once('@') {
            Some((user, host)) => (user, host),
            None => ("", text),
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
        if !user.chars().all(allowed) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        unescape(user, Part::User)?;
        user.clone_into(&mut self.user);
        let port = match host.strip_prefix('[') {
            Some(inner) => {
                let end = inner.rfind(']').ok_or("missing ']' in host")?;
                &inner[end + 1..]
            }
            None => host.rfind(':').map_or("", |at| &host[at..]),
        };
        let digits = port.strip_prefix(':').unwrap_or(port);
        if (!port.is_empty() && !port.starts_with(':')) || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!("invalid port {} after host", go_quote(port)));
        }
        self.host = unescape(host, Part::Host)?;
        Ok(())
    }

    fn name_and_port(&self) -> (&str, &str) {
        let (name, port) = match self.host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (name, port),
            _ => (self.host.as_str(), ""),
        };
        let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        (inner.unwrap_or(name), port)
    }

    /// The path as written if it is escaped correctly, otherwise escaped again.
    fn escaped_path(&self) -> String {
        let fits = |b: u8| b == b'%' || b"!'()*[]".contains(&b) || !is_escaped(b);
        if self.path.bytes().all(fits) || self.path == "*" {
            return self.path.clone();
        }
        let mut out = String::with_capacity(self.path.len());
        for byte in unescaped(&self.path) {
            match is_escaped(byte) {
                true => out.push_str(&format!("%{byte:02X}")),
                false => out.push(char::from(byte)),
            }
        }
        out
    }

    /// The parameters; those that cannot be read are left out.
    fn pairs(&self) -> impl Iterator<Item = (String, String)> {
        let parts = self.query.split('&');
        let parts = parts.filter(|part| !part.is_empty() && !part.contains(';'));
        parts.filter_map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let read = |text: &str| unescape(&text.replace('+', " "), Part::Query).ok();
            Some((read(key)?, read(value)?))
        })
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    User,
    Host,
    Query,
}

/// Bytes that a path escapes.
fn is_escaped(byte: u8) -> bool {
    !byte.is_ascii_alphanumeric() && !b"-_.~$&+,/:;=@".contains(&byte)
}

fn unescaped(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

fn unescape(text: &str, part: Part) -> Result<String, String> {
    for (at, c) in text.char_indices() {
        if c == '%' {
            let shown: String = text[at..].chars().take(3).collect();
            let hex = text.as_bytes().get(at + 1..at + 3).unwrap_or_default();
            // a host escapes only letters beyond ASCII
            let fits = part != Part::Host || shown == "%25" || hex.first().is_some_and(|b| *b >= b'8');
            if hex.len() < 2 || !hex.iter().all(u8::is_ascii_hexdigit) || !fits {
                return Err(format!("invalid URL escape {}", go_quote(&shown)));
            }
        }
        if part == Part::Host && c.is_ascii() {
            let allowed = c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
            if !allowed {
                return Err(format!(
                    "invalid character {} in host name",
                    go_quote(&c.to_string())
                ));
            }
        }
    }
    Ok(String::from_utf8_lossy(&unescaped(text)).into_owned())
}
