//! Validation of IP addresses in built-in kinds.

use crate::field::FieldError;
use serde_json::Value;
use std::net::IpAddr;

pub(super) fn check_ip(path: &str, value: &Value) -> Option<FieldError> {
    let text = value.as_str().unwrap_or("");
    match text.parse::<IpAddr>() {
        Err(_) => Some(FieldError::invalid(
            path,
            value,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        )),
        Ok(_) => None,
    }
}

pub(super) fn check_endpoint_ip(path: &str, value: &Value) -> Vec<FieldError> {
    let shown = value.as_str().unwrap_or("");
    let Ok(ip) = shown.parse::<IpAddr>() else {
        return vec![FieldError::invalid(path, value, "must be a valid IP address")];
    };
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let link_multicast = match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    };
    let mut out = Vec::new();
    for (bad, why) in [
        (ip.is_unspecified(), format!("may not be unspecified ({shown})")),
        (
            ip.is_loopback(),
            "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned(),
        ),
        (
            link_local,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned(),
        ),
        (
            link_multicast,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned(),
        ),
    ] {
        if bad {
            out.push(FieldError::invalid(path, value, why));
        }
    }
    out
}
