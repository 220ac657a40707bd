//! The addresses that may be dialled for a tenant.
//!
//! Private ranges are allowed: artifact servers, Vault and git servers are in the cluster. Refused are
//! addresses that only this machine or its cloud answers. An IPv6 address that contains an IPv4 address is
//! checked as both.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Ranges that are refused unless a longer prefix allows a part of them.
///
/// Sources: RFC 6890 (special-purpose addresses); the metadata addresses are those that AWS, Google, Azure,
/// Alibaba and Oracle document.
const REFUSED: [(&str, &str); 16] = [
    ("0.0.0.0/8", "an unspecified address"),
    ("127.0.0.0/8", "a loopback address"),
    ("169.254.0.0/16", "a link-local address"),
    ("100.100.100.200/32", "a metadata address"),
    ("168.63.129.16/32", "a metadata address"),
    ("192.0.0.192/32", "a metadata address"),
    ("224.0.0.0/4", "a multicast address"),
    ("255.255.255.255/32", "a broadcast address"),
    ("::/128", "an unspecified address"),
    ("::1/128", "a loopback address"),
    ("fe80::/10", "a link-local address"),
    ("fec0::/10", "a site-local address"),
    ("ff00::/8", "a multicast address"),
    ("fd00:ec2::254/128", "a metadata address"),
    ("fd00:ec2::23/128", "a metadata address"),
    ("fd20:ce::254/128", "a metadata address"),
];

const DENIED: &str = "in a range of --egress-deny";

/// The longest matching prefix decides; of equally long ones, `deny`, then `allow`.
#[derive(Debug, Clone)]
pub struct AddressPolicy {
    refused: Vec<(IpNet, &'static str)>,
    allowed: Vec<IpNet>,
}

/// An address is not dialled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the address {address} is refused because it is {why}; --egress-allow can allow it")]
pub struct RefusedAddress {
    /// The address.
    pub address: IpAddr,
    /// Its kind.
    pub why: &'static str,
}

impl Default for AddressPolicy {
    fn default() -> Self {
        Self::new([], [])
    }
}

impl AddressPolicy {
    /// The default, with the operator's ranges: `--egress-allow` and `--egress-deny`.
    #[must_use]
    pub fn new(allow: impl IntoIterator<Item = IpNet>, deny: impl IntoIterator<Item = IpNet>) -> Self {
        let built_in = REFUSED
            .iter()
            .filter_map(|(net, why)| Some((net.parse().ok()?, *why)));
        Self {
            refused: built_in
                .chain(deny.into_iter().map(|net| (net.trunc(), DENIED)))
                .collect(),
            allowed: allow.into_iter().map(|net| net.trunc()).collect(),
        }
    }

    /// Checks an address.
    ///
    /// # Errors
    /// It may not be dialled.
    pub fn check(&self, address: IpAddr) -> Result<(), RefusedAddress> {
        let refused = match address {
            IpAddr::V4(_) => self.refused_as(address),
            IpAddr::V6(v6) => self
                .refused_as(address)
                .or_else(|| embedded(v6).and_then(|v4| self.refused_as(IpAddr::V4(v4)))),
        };
        match refused {
            Some(why) => Err(RefusedAddress { address, why }),
            None => Ok(()),
        }
    }

    fn refused_as(&self, address: IpAddr) -> Option<&'static str> {
        let refused = self.refused.iter().filter(|(net, _)| net.contains(&address));
        let (net, why) = refused.max_by_key(|(net, _)| net.prefix_len())?;
        let allowed = self.allowed.iter().filter(|net| net.contains(&address));
        let allowed = allowed.map(IpNet::prefix_len).max();
        let is_allowed = match *why {
            DENIED => allowed > Some(net.prefix_len()),
            _ => allowed >= Some(net.prefix_len()),
        };
        (!is_allowed).then_some(*why)
    }
}

/// The IPv4 address that a gateway or the kernel makes of an IPv6 address: IPv4-mapped and -compatible,
/// NAT64 (RFC 6052, RFC 8215), 6to4 (RFC 3056).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let joined = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match [a, b, c, d, e, f] {
        // the unspecified and the loopback address are not IPv4-compatible
        [0, 0, 0, 0, 0, 0] if (g, h) != (0, 0) && (g, h) != (0, 1) => Some(joined(g, h)),
        [0, 0, 0, 0, 0, 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => Some(joined(g, h)),
        [0x64, 0xff9b, 1, ..] => Some(joined(g, h)),
        [0x2002, high, low, ..] => Some(joined(high, low)),
        _ => None,
    }
}

impl fmt::Display for AddressPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} refused, {} allowed ranges",
            self.refused.len(),
            self.allowed.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(policy: &AddressPolicy, address: &str) -> Option<&'static str> {
        policy
            .check(address.parse().unwrap())
            .err()
            .map(|refused| refused.why)
    }

    #[test]
    fn all_built_in_ranges_are_valid() {
        assert_eq!(AddressPolicy::default().refused.len(), REFUSED.len());
    }

    #[test]
    fn addresses_of_this_machine_and_its_cloud_are_refused() {
        let policy = AddressPolicy::default();
        let check = |address: &str, expected: Option<&str>| {
            assert_eq!(refused(&policy, address), expected, "{address}");
        };
        let (loopback, link_local) = (Some("a loopback address"), Some("a link-local address"));
        check("127.0.0.1", loopback);
        check("127.255.255.254", loopback);
        check("::1", loopback);
        check("::ffff:127.0.0.1", loopback);
        check("::127.0.0.1", loopback);
        check("64:ff9b::7f00:1", loopback);
        check("64:ff9b:1:0:0:0:7f00:1", loopback);
        check("2002:7f00:1::", loopback);
        check("169.254.169.254", link_local);
        check("::ffff:169.254.169.254", link_local);
        check("64:ff9b::a9fe:a9fe", link_local);
        check("fe80::1", link_local);
        check("0.0.0.0", Some("an unspecified address"));
        check("::", Some("an unspecified address"));
        check("fd00:ec2::254", Some("a metadata address"));
        check("100.100.100.200", Some("a metadata address"));
        check("224.0.0.1", Some("a multicast address"));
        check("255.255.255.255", Some("a broadcast address"));
        check("10.0.0.1", None);
        check("192.168.1.1", None);
        check("100.64.0.1", None);
        check("fd12::1", None);
        check("2606:4700::1111", None);
        check("8.8.8.8", None);
    }

    #[test]
    fn the_longest_prefix_decides() {
        let nets = |nets: &[&str]| {
            nets.iter()
                .map(|net| net.parse().unwrap())
                .collect::<Vec<IpNet>>()
        };
        let policy = AddressPolicy::new(
            nets(&[
                "127.0.0.2/32",
                "10.1.0.0/16",
                "0.0.0.0/0",
                "169.254.0.0/16",
                "10.3.0.0/16",
            ]),
            nets(&["10.0.0.0/8", "10.1.2.0/24", "10.3.0.0/16"]),
        );
        assert_eq!(refused(&policy, "127.0.0.1"), Some("a loopback address"));
        assert_eq!(refused(&policy, "127.0.0.2"), None);
        assert_eq!(refused(&policy, "10.2.0.1"), Some(DENIED));
        assert_eq!(refused(&policy, "10.1.0.1"), None);
        assert_eq!(refused(&policy, "10.1.2.3"), Some(DENIED));
        assert_eq!(refused(&policy, "169.254.1.1"), None);
        assert_eq!(
            refused(&policy, "10.3.0.1"),
            Some(DENIED),
            "of equal ranges, the refusal"
        );
        assert_eq!(refused(&policy, "::ffff:10.2.0.1"), Some(DENIED));
    }
}
