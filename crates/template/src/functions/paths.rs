//! Paths and URLs.

use super::{Function, table};
use crate::call::{Call, Outcome};
use crate::value::{Map, Value};

pub(super) const FUNCTIONS: &[Function] = table! {
    "base" (Str) => |call| done(call, base);
    "osBase" (Str) => |call| done(call, base);
    "dir" (Str) => |call| done(call, |path| clean_path(path.rfind('/').map_or("", |at| &path[..=at])));
    "osDir" (Str) => |call| done(call, |path| clean_path(path.rfind('/').map_or("", |at| &path[..=at])));
    "ext" (Str) => |call| done(call, ext);
    "osExt" (Str) => |call| done(call, ext);
    "clean" (Str) => |call| done(call, clean_path);
    "osClean" (Str) => |call| done(call, clean_path);
    "isAbs" (Str) => |call| Ok(Value::Bool(call.bytes(0).starts_with(b"/")));
    "osIsAbs" (Str) => |call| Ok(Value::Bool(call.bytes(0).starts_with(b"/")));
    "urlParse" (Str) => url_parse;
    "urlJoin" (Map) => url_join;
};

fn done(call: &mut Call<'_, '_>, make: fn(&str) -> String) -> Outcome {
    call.charge_slow_read(4)?;
    let made = make(&call.text(0));
    call.done(made)
}

fn base(path: &str) -> String {
    let trimmed = path.trim_end_matches('/');
    match (path.is_empty(), trimmed.is_empty()) {
        (true, _) => ".".into(),
        (_, true) => "/".into(),
        _ => trimmed.rsplit('/').next().unwrap_or_default().to_owned(),
    }
}

fn ext(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rfind('.')
        .map_or_else(String::new, |at| name[at..].to_owned())
}

/// Go's `path.Clean`: resolves `.`, `..` and repeated slashes; `.` for an empty path.
pub fn clean_path(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if rooted => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".into(),
        _ => joined,
    }
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
        }
    }
    Some(crate::value::lossy(&bytes).into_owned())
}

#[derive(Default)]
struct Url<'a> {
    scheme: String,
    opaque: &'a str,
    userinfo: Option<&'a str>,
    host: &'a str,
    path: &'a str,
    query: &'a str,
    fragment: &'a str,
}

fn parse(text: &str) -> Result<Url<'_>, String> {
    let failed = |why: &str| {
        let quoted = equate_manifest::go::quote(text);
        format!("unable to parse url: parse {quoted}: {why}")
    };
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err(failed("net/url: invalid control character in URL"));
    }
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let mut url = Url {
        fragment,
        ..Url::default()
    };
    let mut rest = rest;
    let scheme_end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')));
    if let Some(end) = scheme_end
        && rest[end..].starts_with(':')
    {
        if end == 0 {
            return Err(failed("missing protocol scheme"));
        }
        if rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            url.scheme = rest[..end].to_ascii_lowercase();
            rest = &rest[end + 1..];
        }
    }
    if let Some((before, query)) = rest.split_once('?') {
        rest = before;
        url.query = query;
    }
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            url.opaque = rest;
            return Ok(url);
        }
        if rest.split('/').next().unwrap_or_default().contains(':') {
            return Err(failed("first path segment in URL cannot contain colon"));
        }
    }
    if let Some(after) = rest.strip_prefix("//") {
        let (authority, _) = after.split_once('/').unwrap_or((after, ""));
        rest = &after[authority.len()..];
        match authority.rsplit_once('@') {
            Some((user, host)) => {
                url.userinfo = Some(user);
                url.host = host;
            }
            None => url.host = authority,
        }
        if url.host.starts_with('[') && !url.host.contains(']') {
            return Err(failed("missing ']' in host"));
        }
        let port = url.host.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
        if let Some((_, port)) = port
            && !port.bytes().all(|byte| byte.is_ascii_digit())
        {
            let shown = equate_manifest::go::quote(&format!(":{port}"));
            return Err(failed(&format!("invalid port {shown} after host")));
        }
    }
    url.path = rest;
    let escapes = |part: &str| part.find('%').filter(|_| unescaped(part).is_none());
    for part in [url.path, url.host, url.fragment] {
        if let Some(at) = escapes(part) {
            let shown: String = part[at..].chars().take(3).collect();
            return Err(failed(&format!(
                "invalid URL escape {}",
                equate_manifest::go::quote(&shown)
            )));
        }
    }
    Ok(url)
}

fn hostname(host: &str) -> &str {
    if let Some(inner) = host.strip_prefix('[') {
        return inner.split(']').next().unwrap_or_default();
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

fn url_parse(call: &mut Call<'_, '_>) -> Outcome {
    let text = call.text(0).into_owned();
    call.made(text.len().saturating_mul(2).saturating_add(256))?;
    let url = match parse(&text) {
        Ok(url) => url,
        Err(message) => return call.fail(message),
    };
    let plain = |part: &str| unescaped(part).unwrap_or_else(|| part.to_owned());
    let entries = [
        ("scheme", url.scheme.clone()),
        ("host", plain(url.host)),
        ("hostname", plain(hostname(url.host))),
        ("path", plain(url.path)),
        ("query", url.query.to_owned()),
        ("opaque", url.opaque.to_owned()),
        ("fragment", plain(url.fragment)),
        ("userinfo", url.userinfo.unwrap_or_default().to_owned()),
    ];
    let entries = entries.into_iter().map(|(name, text)| (name.into(), text.into()));
    Ok(entries.collect::<Map>().into())
}

fn escaped_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!*'()[]".contains(&byte);
        if is_plain {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn url_join(call: &mut Call<'_, '_>) -> Outcome {
    let map = call.map(0);
    let part = |name: &str| match map.get(name.as_bytes()) {
        Some(Value::String(text)) => Ok(text.lossy().into_owned()),
        None | Some(Value::Nil) => Ok(String::new()),
        Some(other) => Err(format!(
            "unable to parse {name} key, must be of type string, but {} found",
            other.kind().name()
        )),
    };
    let build = || -> Result<String, String> {
        let (scheme, opaque, user) = (part("scheme")?, part("opaque")?, part("userinfo")?);
        let (host, path, query, fragment) = (part("host")?, part("path")?, part("query")?, part("fragment")?);
        let mut out = String::new();
        if !scheme.is_empty() {
            out = format!("{scheme}:");
        }
        if opaque.is_empty() {
            if !scheme.is_empty() || !host.is_empty() || !user.is_empty() {
                if !host.is_empty() || !path.is_empty() || !user.is_empty() {
                    out.push_str("//");
                }
                if !user.is_empty() {
                    out.push_str(&format!("{user}@"));
                }
                out.push_str(&host);
            }
            let path = escaped_path(&path);
            if !path.is_empty() && !path.starts_with('/') && !host.is_empty() {
                out.push('/');
            }
            out.push_str(&path);
        } else {
            out.push_str(&opaque);
        }
        if !query.is_empty() {
            out.push_str(&format!("?{query}"));
        }
        if !fragment.is_empty() {
            out.push_str(&format!("#{}", escaped_path(&fragment)));
        }
        Ok(out)
    };
    match build() {
        Ok(text) => call.done(text),
        Err(message) => call.fail(message),
    }
}
