//! Load balancer addresses, from the block for documentation (RFC 5737): nobody mistakes them for real
//! ones.

use super::look::{Look, digest};
use crate::builtin::tree::{get, items, text};
use serde_json::{Value, json};

fn address(look: &Look<'_>) -> String {
    let digest = digest(&[&look.key.namespace, &look.key.name], 6);
    let number = digest
        .bytes()
        .fold(0_u32, |n, byte| n.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("192.0.2.{}", 1 + number % 254)
}

/// A Service gets an address while its type is `LoadBalancer`.
pub(super) fn service(look: &mut Look<'_>, service: &Value) {
    let is_balancer =
        text(service, "spec.type") == "LoadBalancer" && text(service, "spec.loadBalancerClass").is_empty();
    let has = !items(service, "status.loadBalancer.ingress").is_empty();
    if is_balancer == has {
        return;
    }
    let mut status = get(service, "status").clone();
    status["loadBalancer"] = if is_balancer {
        json!({ "ingress": [{ "ip": address(look), "ipMode": "VIP" }] })
    } else {
        json!({})
    };
    let action = look.status(service, &status);
    look.step(action.into_iter().collect());
}

pub(super) fn ingress(look: &mut Look<'_>, ingress: &Value) {
    if !items(ingress, "status.loadBalancer.ingress").is_empty() {
        return;
    }
    let status = json!({ "loadBalancer": { "ingress": [{ "ip": address(look) }] } });
    let action = look.status(ingress, &status);
    look.step(action.into_iter().collect());
}
