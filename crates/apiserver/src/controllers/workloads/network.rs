//! Load balancer addresses, from the block for documentation (RFC 5737): nobody mistakes them for real
//! ones.

use super::context::{Context, digest};
use crate::builtin::tree::{get, items, text};
use serde_json::{Value, json};

fn address(cx: &Context<'_>) -> String {
    let digest = digest(&[&cx.key.namespace, &cx.key.name], 6);
    let number = digest
        .bytes()
        .fold(0_u32, |n, byte| n.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("192.0.2.{}", 1 + number % 254)
}

/// A Service gets an address while its type is `LoadBalancer`.
pub(super) fn service(cx: &mut Context<'_>, service: &Value) {
    let is_balancer =
        text(service, "spec.type") == "LoadBalancer" && text(service, "spec.loadBalancerClass").is_empty();
    let has = !items(service, "status.loadBalancer.ingress").is_empty();
    if is_balancer == has {
        return;
    }
    let mut status = get(service, "status").clone();
    status["loadBalancer"] = if is_balancer {
        json!({ "ingress": [{ "ip": address(cx), "ipMode": "VIP" }] })
    } else {
        json!({})
    };
    let action = cx.status(service, &status);
    cx.step(action.into_iter().collect());
}

pub(super) fn ingress(cx: &mut Context<'_>, ingress: &Value) {
    if !items(ingress, "status.loadBalancer.ingress").is_empty() {
        return;
    }
    let status = json!({ "loadBalancer": { "ingress": [{ "ip": address(cx) }] } });
    let action = cx.status(ingress, &status);
    cx.step(action.into_iter().collect());
}
