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
        let named: Vec<String> = named.into_iter().filter_map(host).collect();
        let proxies = proxies.iter().filter_map(|proxy| host(proxy));
        Egress::exempting(policy, named.into_iter().chain(proxies))
    }
}

/// The host of a URL, of `HOST:PORT`, or of a host alone.
fn host(text: &str) -> Option<String> {
    let text = text.trim();
    let after_scheme = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = after_scheme.split(['/', '?', '#']).next()?;
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    let host = match place.strip_prefix('[') {
        Some(rest) => rest.split(']').next()?,
        None if place.matches(':').count() == 1 => place.split(':').next()?,
        None => place,
    };
    (!host.is_empty()).then(|| host.to_owned())
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
    fn hosts_are_found_in_urls_and_addresses() {
        let check =
            |text: &str, expected: Option<&str>| assert_eq!(host(text).as_deref(), expected, "{text}");
        check("http://vault:8200/v1", Some("vault"));
        check("https://user:password@proxy.example:3128", Some("proxy.example"));
        check("proxy:3128", Some("proxy"));
        check("127.0.0.1", Some("127.0.0.1"));
        check("http://[::1]:80/", Some("::1"));
        check("::1", Some("::1"));
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
