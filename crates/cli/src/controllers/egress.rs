//! `--egress-allow`, `--egress-deny`, and the hosts that flags and environment name.

use equate_egress::{AddressPolicy, Egress, IpNet};
use std::net::IpAddr;

/// The addresses that may be dialled for tenants.
#[derive(Debug, clap::Args)]
pub(crate) struct EgressFlags {
    /// Allow a range of addresses that is refused by default, such as `169.254.10.0/24` (can be repeated).
    #[arg(long, value_name = "CIDR,...", value_delimiter = ',', value_parser = range)]
    egress_allow: Vec<IpNet>,
    /// Refuse a range of addresses in objects of tenants, such as `10.0.0.0/8` (can be repeated).
    #[arg(long, value_name = "CIDR,...", value_delimiter = ',', value_parser = range)]
    egress_deny: Vec<IpNet>,
}

impl EgressFlags {
    /// `named` are the addresses, URLs or hosts that the operator gives in other flags.
    pub(crate) fn egress<'a>(&self, named: impl IntoIterator<Item = &'a str>) -> Egress {
        let policy = AddressPolicy::new(
            self.egress_allow.iter().copied(),
            self.egress_deny.iter().copied(),
        );
        let proxies = [
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
            "http_proxy",
            "https_proxy",
            "all_proxy",
        ];
        let proxies: Vec<String> = proxies
            .iter()
            .filter_map(|name| std::env::var(name).ok())
            .collect();
        let named: Vec<_> = named.into_iter().filter_map(place).collect();
        let proxies = proxies.iter().filter_map(|proxy| place(proxy));
        Egress::exempting(policy, named.into_iter().chain(proxies))
    }
}

/// The host and port of a URL, of `HOST:PORT`, or of a host alone, which means all ports.
fn place(text: &str) -> Option<(String, Option<u16>)> {
    let text = text.trim();
    let (scheme, after_scheme) = text.split_once("://").unwrap_or(("", text));
    let authority = after_scheme.split(['/', '?', '#']).next()?;
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            (host, after.strip_prefix(':'))
        }
        None => match place.split_once(':') {
            Some((host, port)) if !port.contains(':') => (host, Some(port)),
            _ => (place, None),
        },
    };
    let port = port.and_then(|port| port.parse().ok());
    let default = match scheme.to_ascii_lowercase().as_str() {
        "http" => Some(80),
        "https" => Some(443),
        "socks5" | "socks5h" => Some(1080),
        _ => None,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port.or(default)))
}

/// Parses a range, or one address.
fn range(text: &str) -> Result<IpNet, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    text.parse()
        .map_err(|_| "expected an address or a range such as 10.0.0.0/8 or fd00::/8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_found_in_urls_and_addresses() {
        let check = |text: &str, expected: Option<(&str, Option<u16>)>| {
            let found = place(text);
            let found = found.as_ref().map(|(host, port)| (host.as_str(), *port));
            assert_eq!(found, expected, "{text}");
        };
        check("http://vault:8200/v1", Some(("vault", Some(8200))));
        check("https://vault.example/v1", Some(("vault.example", Some(443))));
        check(
            "https://user:password@proxy.example:3128",
            Some(("proxy.example", Some(3128))),
        );
        check("socks5://proxy", Some(("proxy", Some(1080))));
        check("proxy:3128", Some(("proxy", Some(3128))));
        check("127.0.0.1", Some(("127.0.0.1", None)));
        check("http://[::1]:8080/", Some(("::1", Some(8080))));
        check("http://[::1]/", Some(("::1", Some(80))));
        check("::1", Some(("::1", None)));
        check("", None);
        check("http://", None);
    }

    #[test]
    fn ranges_and_addresses_are_read() {
        assert_eq!(range("10.0.0.0/8").unwrap().to_string(), "10.0.0.0/8");
        assert_eq!(range("10.0.0.1").unwrap().to_string(), "10.0.0.1/32");
        assert_eq!(range("fd00::/8").unwrap().to_string(), "fd00::/8");
        assert!(range("example.com").unwrap_err().contains("10.0.0.0/8"));
    }
}
