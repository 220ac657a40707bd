//! Kubernetes' libraries: quantities, addresses, versions and named formats.

use super::{Function, url::Url};
use crate::environment::NamedFormat;
use crate::error::Fail;
use crate::eval::Run;
use crate::value::{Evaluated, VAL_BYTES, Val};
use equate_manifest::go::quote as go_quote;
use equate_manifest::go::version::Version;
use equate_manifest::schema::quantity::Quantity;
use std::cmp::Ordering;
use std::net::IpAddr;
use std::rc::Rc;

/// A value that only its library reads.
#[derive(Debug, Clone)]
pub struct Opaque(pub(super) Rc<Content>);

#[derive(Debug)]
pub(super) enum Content {
    /// In units of 10^-9.
    Quantity(i128),
    Url(Url),
    Ip(IpAddr),
    /// An address and the length of its prefix.
    Cidr(IpAddr, u8),
    Version(Version),
    Format(NamedFormat),
}

impl PartialEq for Opaque {
    fn eq(&self, other: &Self) -> bool {
        match (&*self.0, &*other.0) {
            (Content::Quantity(a), Content::Quantity(b)) => a == b,
            (Content::Url(a), Content::Url(b)) => a == b,
            (Content::Ip(a), Content::Ip(b)) => a == b,
            (Content::Cidr(a, x), Content::Cidr(b, y)) => a == b && x == y,
            (Content::Version(a), Content::Version(b)) => a.order(b).is_eq(),
            (Content::Format(a), Content::Format(b)) => a == b,
            _ => false,
        }
    }
}

impl Opaque {
    pub(super) fn val<'a>(content: Content) -> Val<'a> {
        Val::Opaque(Self(Rc::new(content)))
    }

    pub(crate) fn format(format: NamedFormat) -> Self {
        Self(Rc::new(Content::Format(format)))
    }

    pub(crate) fn type_name(&self) -> &'static str {
        match &*self.0 {
            Content::Quantity(_) => "kubernetes.Quantity",
            Content::Url(_) => "kubernetes.URL",
            Content::Ip(_) => "net.IP",
            Content::Cidr(..) => "net.CIDR",
            Content::Version(_) => "kubernetes.Semver",
            Content::Format(_) => "kubernetes.NamedFormat",
        }
    }

    /// The text that `string()` gives.
    pub(super) fn text(&self) -> Option<String> {
        match &*self.0 {
            Content::Ip(ip) => Some(ip.to_string()),
            Content::Cidr(ip, bits) => Some(format!("{ip}/{bits}")),
            _ => None,
        }
    }
}

pub(super) const FUNCTIONS: &[Function] = &[
    Function::kubernetes("quantity", |_, args| {
        let text = one_text(args)?;
        let parsed = Quantity::parse(text).map_err(|error| Fail::new(error.to_string()))?;
        Ok(Opaque::val(Content::Quantity(parsed.nanos())))
    }),
    Function::kubernetes("isQuantity", |_, args| {
        Ok(Val::Bool(Quantity::parse(one_text(args)?).is_ok()))
    }),
    Function::kubernetes("sign", |_, args| match contents(args)?[..] {
        [Content::Quantity(nanos)] => Ok(Val::Int(nanos.signum() as i64)),
        _ => Err(Fail::no_overload()),
    }),
    Function::kubernetes("isInteger", |_, args| match contents(args)?[..] {
        [Content::Quantity(nanos)] => Ok(Val::Bool(integer(*nanos).is_some())),
        _ => Err(Fail::no_overload()),
    }),
    Function::kubernetes("asInteger", |_, args| match contents(args)?[..] {
        [Content::Quantity(nanos)] => integer(*nanos)
            .map(Val::Int)
            .ok_or_else(|| Fail::new("cannot convert value to integer")),
        _ => Err(Fail::no_overload()),
    }),
    Function::kubernetes("asApproximateFloat", |_, args| match contents(args)?[..] {
        [Content::Quantity(nanos)] => Ok(Val::Double(*nanos as f64 / NANO as f64)),
        _ => Err(Fail::no_overload()),
    }),
    Function::kubernetes("add", |_, args| total(args, i128::checked_add)),
    Function::kubernetes("sub", |_, args| total(args, i128::checked_sub)),
    Function::kubernetes("isGreaterThan", |_, args| Ok(Val::Bool(compare(args)?.is_gt()))),
    Function::kubernetes("isLessThan", |_, args| Ok(Val::Bool(compare(args)?.is_lt()))),
    Function::kubernetes("compareTo", |_, args| Ok(Val::Int(compare(args)? as i64))),
    Function::kubernetes("ip", |_, args| match args {
        [Val::Opaque(value)] => match &*value.0 {
            Content::Cidr(ip, _) => Ok(Opaque::val(Content::Ip(*ip))),
            _ => Err(Fail::no_overload()),
        },
        _ => parse_ip(one_text(args)?).map(|ip| Opaque::val(Content::Ip(ip))),
    }),
    Function::kubernetes("isIP", |_, args| Ok(Val::Bool(parse_ip(one_text(args)?).is_ok()))),
    Function::kubernetes("ip.isCanonical", |_, args| {
        let text = one_text(args)?;
        Ok(Val::Bool(parse_ip(text)?.to_string() == text))
    }),
    Function::kubernetes("family", |_, args| {
        Ok(Val::Int(if one_ip(args)?.is_ipv4() { 4 } else { 6 }))
    }),
    Function::kubernetes("isUnspecified", |_, args| {
        Ok(Val::Bool(one_ip(args)?.is_unspecified()))
    }),
    Function::kubernetes("isLoopback", |_, args| Ok(Val::Bool(one_ip(args)?.is_loopback()))),
    Function::kubernetes("isLinkLocalMulticast", |_, args| {
        Ok(Val::Bool(is_link_local_multicast(one_ip(args)?)))
    }),
    Function::kubernetes("isLinkLocalUnicast", |_, args| {
        Ok(Val::Bool(is_link_local_unicast(one_ip(args)?)))
    }),
    Function::kubernetes("isGlobalUnicast", |_, args| {
        let ip = one_ip(args)?;
        let special = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast();
        let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
        Ok(Val::Bool(!special && !broadcast && !is_link_local_unicast(ip)))
    }),
    Function::kubernetes("cidr", |_, args| {
        let (ip, bits) = parse_cidr(one_text(args)?).map_err(|why| in_cidr(&why))?;
        Ok(Opaque::val(Content::Cidr(ip, bits)))
    }),
    Function::kubernetes("isCIDR", |_, args| {
        Ok(Val::Bool(parse_cidr(one_text(args)?).is_ok()))
    }),
    Function::kubernetes("containsIP", |_, args| {
        let (net, bits) = first_cidr(args)?;
        let ip = match &args[1..] {
            [Val::Text(text)] => parse_ip(text.as_str()).map_err(|_| Fail::no_overload())?,
            rest => one_ip(rest)?,
        };
        Ok(Val::Bool(
            ip.is_ipv4() == net.is_ipv4() && masked(ip, bits) == masked(net, bits),
        ))
    }),
    Function::kubernetes("containsCIDR", |_, args| {
        let (net, bits) = first_cidr(args)?;
        let (ip, inner) = match &args[1..] {
            [Val::Text(text)] => parse_cidr(text.as_str()).map_err(|_| Fail::no_overload())?,
            rest => first_cidr(rest)?,
        };
        let overlaps = ip.is_ipv4() == net.is_ipv4() && masked(ip, bits) == masked(net, bits);
        Ok(Val::Bool(overlaps && bits <= inner))
    }),
    Function::kubernetes("prefixLength", |_, args| {
        Ok(Val::Int(i64::from(first_cidr(args)?.1)))
    }),
    Function::kubernetes("masked", |_, args| {
        let (ip, bits) = first_cidr(args)?;
        Ok(Opaque::val(Content::Cidr(masked(ip, bits), bits)))
    }),
    Function::kubernetes("semver", |_, args| {
        version(args)?
            .map(|version| Opaque::val(Content::Version(version)))
            .map_err(Fail::new)
    }),
    Function::kubernetes("isSemver", |_, args| Ok(Val::Bool(version(args)?.is_ok()))),
    Function::kubernetes("major", |_, args| number(args, |version| version.numbers()[0])),
    Function::kubernetes("minor", |_, args| number(args, |version| version.numbers()[1])),
    Function::kubernetes("patch", |_, args| number(args, |version| version.numbers()[2])),
    Function::kubernetes("format.named", |run, args| {
        let name = one_text(args)?;
        let found = run.formats.iter().find(|format| format.name == name);
        Ok(Val::Optional(
            found.map(|format| Rc::new(Val::Opaque(Opaque::format(*format)))),
        ))
    }),
    Function::kubernetes("validate", validate),
];

const NANO: i128 = 1_000_000_000;

fn one_text<'v>(args: &'v [Val<'_>]) -> Result<&'v str, Fail> {
    match args {
        [Val::Text(text)] => Ok(text.as_str()),
        _ => Err(Fail::no_overload()),
    }
}

/// The arguments, if all are values of libraries.
fn contents<'v>(args: &'v [Val<'_>]) -> Result<Vec<&'v Content>, Fail> {
    let content = |value: &'v Val<'_>| match value {
        Val::Opaque(value) => Ok(&*value.0),
        _ => Err(Fail::no_overload()),
    };
    args.iter().map(content).collect()
}

fn integer(nanos: i128) -> Option<i64> {
    i64::try_from(nanos / NANO).ok().filter(|_| nanos % NANO == 0)
}

fn total<'a>(args: &[Val<'a>], operation: fn(i128, i128) -> Option<i128>) -> Evaluated<'a> {
    let quantity = |value: &Val<'_>| match value {
        Val::Int(units) => Ok(i128::from(*units) * NANO),
        Val::Opaque(value) => match &*value.0 {
            Content::Quantity(nanos) => Ok(*nanos),
            _ => Err(Fail::no_overload()),
        },
        _ => Err(Fail::no_overload()),
    };
    match args {
        [a @ Val::Opaque(_), b] => {
            let total = operation(quantity(a)?, quantity(b)?).ok_or_else(Fail::overflow)?;
            Ok(Opaque::val(Content::Quantity(total)))
        }
        _ => Err(Fail::no_overload()),
    }
}

fn compare(args: &[Val<'_>]) -> Result<Ordering, Fail> {
    match contents(args)?[..] {
        [Content::Quantity(a), Content::Quantity(b)] => Ok(a.cmp(b)),
        [Content::Version(a), Content::Version(b)] => Ok(a.order(b)),
        _ => Err(Fail::no_overload()),
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, Fail> {
    let quoted = go_quote(text);
    let parsed: Result<IpAddr, _> = text.parse();
    match parsed {
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => Err(Fail::new(format!(
            "IPv4-mapped IPv6 address {quoted} is not allowed"
        ))),
        Ok(ip) => Ok(ip),
        Err(_) => Err(Fail::new(format!(
            "IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): unable to parse IP"
        ))),
    }
}

fn one_ip(args: &[Val<'_>]) -> Result<IpAddr, Fail> {
    match contents(args)?[..] {
        [Content::Ip(ip)] => Ok(*ip),
        _ => Err(Fail::no_overload()),
    }
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// The error's text without its beginning.
fn parse_cidr(text: &str) -> Result<(IpAddr, u8), String> {
    let fail = |why: &str| Err(format!("netip.ParsePrefix({}): {why}", go_quote(text)));
    let Some((address, bits)) = text.rsplit_once('/') else {
        return fail("no '/'");
    };
    let ip: IpAddr = match address.parse() {
        Ok(ip) => ip,
        Err(_) => {
            let quoted = go_quote(address);
            return fail(&format!("ParseAddr({quoted}): unable to parse IP"));
        }
    };
    if matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some()) {
        return Err(format!(
            "IPv4-mapped IPv6 address {} is not allowed",
            go_quote(text)
        ));
    }
    let max = if ip.is_ipv4() { 32 } else { 128 };
    let plain = bits.bytes().all(|b| b.is_ascii_digit()) && (bits.len() == 1 || !bits.starts_with('0'));
    match bits.parse::<u8>() {
        _ if !plain => fail(&format!("bad bits after slash: {}", go_quote(bits))),
        Ok(bits) if bits <= max => Ok((ip, bits)),
        Ok(_) => fail("prefix length out of range"),
        Err(_) => fail(&format!("bad bits after slash: {}", go_quote(bits))),
    }
}

fn in_cidr(why: &str) -> Fail {
    let intro = "network address parse error during conversion from string: ";
    // upstream wraps its own error once more
    let inner = if why.starts_with("netip") { intro } else { "" };
    Fail::new(format!("{intro}{inner}{why}"))
}

fn first_cidr(args: &[Val<'_>]) -> Result<(IpAddr, u8), Fail> {
    match args.first() {
        Some(Val::Opaque(value)) => match &*value.0 {
            Content::Cidr(ip, bits) => Ok((*ip, *bits)),
            _ => Err(Fail::no_overload()),
        },
        _ => Err(Fail::no_overload()),
    }
}

fn masked(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
            IpAddr::V4((ip.to_bits() & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
            IpAddr::V6((ip.to_bits() & mask).into())
        }
    }
}

/// A version, or the reason why the text is none. A second argument completes short versions.
fn version(args: &[Val<'_>]) -> Result<Result<Version, String>, Fail> {
    let (text, lenient) = match args {
        [Val::Text(text)] => (text.as_str(), false),
        [Val::Text(text), Val::Bool(lenient)] => (text.as_str(), *lenient),
        _ => return Err(Fail::no_overload()),
    };
    let completed = match lenient {
        true => match completed(text) {
            Ok(text) => text,
            Err(why) => return Ok(Err(why)),
        },
        false => text.to_owned(),
    };
    Ok(parse_version(&completed))
}

fn parse_version(text: &str) -> Result<Version, String> {
    if text.is_empty() {
        return Err("Version string empty".to_owned());
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, patch] = parts[..] else {
        return Err("No Major.Minor.Patch elements found".to_owned());
    };
    let patch = patch.split(['-', '+']).next().unwrap_or_default();
    for (name, number) in [("Major", major), ("Minor", minor), ("Patch", patch)] {
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            let name = name.to_ascii_lowercase();
            return Err(format!(
                "Invalid character(s) found in {name} number {}",
                go_quote(number)
            ));
        }
        if number.len() > 1 && number.starts_with('0') {
            return Err(format!(
                "{name} number must not contain leading zeroes {}",
                go_quote(number)
            ));
        }
    }
    Version::parse(text).map_err(|error| error.to_string())
}

fn completed(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = Vec::new();
    for part in text.splitn(3, '.') {
        let digits = part.trim_start_matches('0');
        let zero = if digits.starts_with(|c: char| c.is_ascii_digit()) {
            ""
        } else {
            "0"
        };
        parts.push(match part.len() {
            0 | 1 => part.to_owned(),
            _ => format!("{zero}{digits}"),
        });
    }
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    parts.resize(3, "0".to_owned());
    Ok(parts.join("."))
}

fn number<'a>(args: &[Val<'a>], part: fn(&Version) -> u64) -> Evaluated<'a> {
    match contents(args)?[..] {
        [Content::Version(version)] => Ok(Val::Int(i64::try_from(part(version)).unwrap_or(i64::MAX))),
        _ => Err(Fail::no_overload()),
    }
}

/// The problems of a text, if it does not have the format.
fn validate<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::Opaque(format), Val::Text(text)] = args else {
        return Err(Fail::no_overload());
    };
    let Content::Format(format) = &*format.0 else {
        return Err(Fail::no_overload());
    };
    // the checks read a text several times
    run.budget.read(text.as_str().len().saturating_mul(8))?;
    let mut problems = Vec::new();
    for problem in (format.problems)(text.as_str()) {
        run.budget.write(problem.len() + VAL_BYTES)?;
        problems.push(Val::text(problem));
    }
    Ok(match problems.is_empty() {
        true => Val::Optional(None),
        false => Val::some(Val::list(problems)),
    })
}
