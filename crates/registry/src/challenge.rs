//! The challenges of `WWW-Authenticate` (RFC 9110, section 11.6.1).

/// Bytes of a header that are read.
const HEADER_BYTES_MAX: usize = 8 << 10;

/// How a registry wants to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    Basic,
    Bearer {
        /// The URL of the token server.
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
}

/// The first challenge that this crate can answer.
pub(crate) fn pick<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Challenge> {
    headers
        .filter(|header| header.len() <= HEADER_BYTES_MAX)
        .flat_map(parse)
        .find_map(|(scheme, parameters)| known(&scheme, parameters))
}

type Parameters = Vec<(String, String)>;

fn known(scheme: &str, parameters: Parameters) -> Option<Challenge> {
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let mut parameters = parameters;
    let mut take = |name: &str| {
        let at = parameters
            .iter()
            .position(|(own, _)| own.eq_ignore_ascii_case(name))?;
        Some(parameters.swap_remove(at).1)
    };
    let realm = take("realm")?;
    Some(Challenge::Bearer {
        realm,
        service: take("service").filter(|service| !service.is_empty()),
        scope: take("scope").filter(|scope| !scope.is_empty()),
    })
}

fn parse(header: &str) -> Vec<(String, Parameters)> {
    let mut challenges: Vec<(String, Parameters)> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest
            .find(|char: char| !(char.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(char)))
            .unwrap_or(rest.len());
        if end == 0 {
            return challenges;
        }
        let word = &rest[..end];
        rest = rest[end..].trim_start_matches([' ', '\t']);
        match (rest.strip_prefix('='), challenges.last_mut()) {
            (Some(after), Some((_, parameters))) => {
                let (value, after) = value(after.trim_start_matches([' ', '\t']));
                parameters.push((word.to_owned(), value));
                rest = after;
            }
            // a parameter of no challenge
            (Some(_), None) => return challenges,
            (None, _) => challenges.push((word.to_owned(), Vec::new())),
        }
    }
}

fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let (mut value, mut escaped) = (String::new(), false);
    for (at, char) in quoted.char_indices() {
        match (escaped, char) {
            (false, '"') => return (value, &quoted[at + 1..]),
            (false, '\\') => escaped = true,
            _ => {
                value.push(char);
                escaped = false;
            }
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_parsed() {
        #[track_caller]
        fn check(headers: &[&str], want: &Option<Challenge>) {
            assert_eq!(pick(headers.iter().copied()), *want, "{headers:?}");
        }
        let bearer = |realm: &str, service: Option<&str>, scope: Option<&str>| {
            Some(Challenge::Bearer {
                realm: realm.to_owned(),
                service: service.map(str::to_owned),
                scope: scope.map(str::to_owned),
            })
        };
        check(&[], &None);
        check(&["Negotiate"], &None);
        check(&["Negotiate", "Basic realm=\"x\""], &Some(Challenge::Basic));
        check(&["basic"], &Some(Challenge::Basic));
        check(
            &[
                "Bearer realm=\"https://auth.docker.io/token\",service=\"registry.docker.io\",scope=\"a:b:pull,push\"",
            ],
            &bearer(
                "https://auth.docker.io/token",
                Some("registry.docker.io"),
                Some("a:b:pull,push"),
            ),
        );
        check(
            &["Bearer service=x , realm=https://a/b"],
            &bearer("https://a/b", Some("x"), None),
        );
        check(
            &["Negotiate abc, Bearer realm=\"a\\\"b\""],
            &bearer("a\"b", None, None),
        );
        check(&["Bearer service=\"no realm\""], &None);
        check(&["Bearer realm=\"unfinished"], &bearer("unfinished", None, None));
        check(&["=,=\"\\"], &None);
    }
}
