//! Flag values in the syntax of Go's flag packages, so that the arguments of Flux's Deployments need no
//! edits.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use equate_api::meta::Duration;

/// A boolean in one of Go's spellings.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// A duration above zero.
pub(crate) fn positive(text: &str) -> Result<Duration, String> {
    let time: Duration = text.parse().map_err(|error| format!("{error}"))?;
    match time.get().is_zero() {
        true => Err("expected a duration above zero, such as 10m".to_owned()),
        false => Ok(time),
    }
}

/// A listen address: `host:port`, or `:port` for all addresses; `0` or empty to disable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Listen {
    Off,
    At(Option<String>, u16),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() || text == "0" {
            return Ok(Self::Off);
        }
        let wrong =
            || format!("invalid listen address {text:?}: expected one such as :9090 or 127.0.0.1:9090");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        if host.contains(['[', ']', '/']) || (host.contains(':') && host.parse::<Ipv6Addr>().is_err()) {
            return Err(wrong());
        }
        let host = (!host.is_empty()).then(|| host.to_owned());
        Ok(Self::At(host, port))
    }
}

impl Listen {
    /// Binds the address; returns none if it is disabled.
    pub(crate) async fn bind(&self) -> std::io::Result<Option<tokio::net::TcpListener>> {
        let listener = match self {
            Self::Off => return Ok(None),
            Self::At(Some(host), port) => tokio::net::TcpListener::bind((&**host, *port)).await?,
            Self::At(None, port) => {
                // one socket for both address families; machines without IPv6 fall back to IPv4
                let all = |ip: IpAddr| SocketAddr::new(ip, *port);
                match tokio::net::TcpListener::bind(all(Ipv6Addr::UNSPECIFIED.into())).await {
                    Ok(listener) => listener,
                    Err(_) => {
                        tokio::net::TcpListener::bind(all(std::net::Ipv4Addr::UNSPECIFIED.into())).await?
                    }
                }
            }
        };
        Ok(Some(listener))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_no_time_is_refused() {
        assert_eq!(
            positive("10m").map(|time| time.to_string()),
            Ok("10m0s".to_owned())
        );
        assert!(positive("0s").unwrap_err().contains("above zero"));
        assert!(positive("soon").is_err());
    }

    #[test]
    fn listen_addresses_have_go_syntax() {
        let at = |host: &str, port| Ok(Listen::At(Some(host.to_owned()), port));
        let check = |text: &str, expected: Result<Listen, ()>| {
            assert_eq!(text.parse::<Listen>().map_err(drop), expected, "{text:?}");
        };
        check(":9090", Ok(Listen::At(None, 9090)));
        check("127.0.0.1:0", at("127.0.0.1", 0));
        check("localhost:80", at("localhost", 80));
        check("[::1]:80", at("::1", 80));
        check("0", Ok(Listen::Off));
        check("", Ok(Listen::Off));
        for wrong in ["9090", "a:b", "a:70000", "http://a:80", "[a:80", "1:2:3"] {
            check(wrong, Err(()));
        }
    }
}
