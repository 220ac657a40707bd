//! Cells of services, ingresses and their backends.

use super::cells::{View, cells, labels, selector_or_none, with_more};
use serde_json::Value;

const SHOWN_MAX: usize = 3;

fn load_balancer(view: &View<'_>) -> String {
    let ingress = view.list("/status/loadBalancer/ingress").iter();
    let mut addresses: Vec<&str> = ingress
        .map(|object| View {
            object,
            now: view.now,
        })
        .map(|ingress| ingress.text_or("/ip", ingress.text("/hostname")))
        .filter(|address| !address.is_empty())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.join(",")
}

pub(super) fn service(view: &View<'_>) -> Vec<Value> {
    let own = view.texts("/spec/externalIPs").join(",");
    let external = match view.text("/spec/type") {
        "ClusterIP" | "NodePort" if own.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => own,
        "LoadBalancer" => match (load_balancer(view), own) {
            (given, own) if given.is_empty() && own.is_empty() => "<pending>".to_owned(),
            (given, own) if own.is_empty() => given,
            (given, own) if given.is_empty() => own,
            (given, own) => format!("{given},{own}"),
        },
        "ExternalName" => view.text("/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    };
    let ports: Vec<String> = view
        .list("/spec/ports")
        .iter()
        .map(|object| View {
            object,
            now: view.now,
        })
        .map(|port| {
            let (number, protocol) = (port.number("/port"), port.text("/protocol"));
            match port.number("/nodePort") {
                0 => format!("{number}/{protocol}"),
                node => format!("{number}:{node}/{protocol}"),
            }
        })
        .collect();
    let ports = if ports.is_empty() {
        "<none>".to_owned()
    } else {
        ports.join(",")
    };
    cells![
        view.name(),
        view.text("/spec/type"),
        view.optional("/spec/clusterIPs/0").unwrap_or("<none>"),
        external,
        ports,
        view.age(),
        labels(view.map("/spec/selector")),
    ]
}

pub(super) fn endpoints(view: &View<'_>) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in view.list("/subsets").iter().map(|object| View {
        object,
        now: view.now,
    }) {
        let addresses: Vec<&str> = subset
            .list("/addresses")
            .iter()
            .filter_map(|address| address.get("ip").and_then(Value::as_str))
            .collect();
        let ports = subset.list("/ports");
        if ports.is_empty() {
            all.extend(addresses.iter().map(|&address| address.to_owned()));
        }
        for port in ports
            .iter()
            .filter_map(|port| port.get("port").and_then(Value::as_i64))
        {
            all.extend(addresses.iter().map(|address| match address.contains(':') {
                true => format!("[{address}]:{port}"),
                false => format!("{address}:{port}"),
            }));
        }
    }
    let text = if view.list("/subsets").is_empty() {
        "<none>".to_owned()
    } else {
        with_more(&all[..all.len().min(SHOWN_MAX)], all.len())
    };
    cells![view.name(), text, view.age()]
}

pub(super) fn endpoint_slice(view: &View<'_>) -> Vec<Value> {
    let shown = |all: &[String]| match all.len() {
        0 => "<unset>".to_owned(),
        count => with_more(&all[..count.min(SHOWN_MAX)], count),
    };
    let ports: Vec<String> = view
        .list("/ports")
        .iter()
        .map(|object| View {
            object,
            now: view.now,
        })
        .map(|port| match port.get("/port").and_then(Value::as_i64) {
            Some(number) => number.to_string(),
            None => port.optional("/name").unwrap_or("*").to_owned(),
        })
        .collect();
    let addresses: Vec<String> = view
        .list("/endpoints")
        .iter()
        .flat_map(|object| {
            View {
                object,
                now: view.now,
            }
            .texts("/addresses")
        })
        .map(str::to_owned)
        .collect();
    cells![
        view.name(),
        view.text("/addressType"),
        shown(&ports),
        shown(&addresses),
        view.age()
    ]
}

pub(super) fn ingress(view: &View<'_>) -> Vec<Value> {
    let rules = view.list("/spec/rules");
    let hosts = |rule: &Value| {
        rule.get("host")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let mut shown: Vec<String> = Vec::new();
    let mut more = false;
    for host in rules.iter().map(hosts) {
        more |= shown.len() == SHOWN_MAX;
        if !more && !host.is_empty() {
            shown.push(host);
        }
    }
    let hosts = match (shown.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (_, true) => with_more(&shown, rules.len()),
        (_, false) => shown.join(","),
    };
    let ports = if view.list("/spec/tls").is_empty() {
        "80"
    } else {
        "80, 443"
    };
    let class = view.optional("/spec/ingressClassName").unwrap_or("<none>");
    cells![view.name(), class, hosts, load_balancer(view), ports, view.age()]
}

pub(super) fn ingress_class(view: &View<'_>) -> Vec<Value> {
    let default = view.annotation("ingressclass.kubernetes.io/is-default-class") == Some("true");
    let name = if default {
        format!("{} (default)", view.name())
    } else {
        view.name().to_owned()
    };
    let parameters = if view.get("/spec/parameters").is_some() {
        let kind = view.text("/spec/parameters/kind");
        let group = view
            .optional("/spec/parameters/apiGroup")
            .map(|group| format!(".{group}"));
        format!(
            "{kind}{}/{}",
            group.unwrap_or_default(),
            view.text("/spec/parameters/name")
        )
    } else {
        "<none>".to_owned()
    };
    cells![name, view.text("/spec/controller"), parameters, view.age()]
}

pub(super) fn network_policy(view: &View<'_>) -> Vec<Value> {
    cells![
        view.name(),
        selector_or_none(view.get("/spec/podSelector")),
        view.age()
    ]
}

pub(super) fn ip_address(view: &View<'_>) -> Vec<Value> {
    let parent = if view.get("/spec/parentRef").is_some() {
        let field = |name: &str| view.text(&format!("/spec/parentRef/{name}"));
        let resource = match field("group") {
            "" => field("resource").to_owned(),
            group => format!("{}.{group}", field("resource")),
        };
        let parts = [
            resource.to_lowercase(),
            field("namespace").to_owned(),
            field("name").to_owned(),
        ];
        let [resource, namespace, name] = &parts;
        if namespace.is_empty() {
            format!("{resource}/{name}")
        } else {
            format!("{resource}/{namespace}/{name}")
        }
    } else {
        "<none>".to_owned()
    };
    cells![view.name(), parent, view.age()]
}
