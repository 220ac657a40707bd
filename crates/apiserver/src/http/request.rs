//! The method and path of a request, parsed.
//!
//! Kubernetes' paths are regular: `/api/v1` or `/apis/G/V`, then optionally `namespaces/NS`, then
//! `RESOURCE[/NAME[/SUBRESOURCE...]]`. Anything else is a non-resource path. The registry is not consulted,
//! so authorization runs before anything is known to exist.

use crate::auth::Attributes;
use http::Method;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RequestInfo {
    pub path: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or the lower-case
    /// method of a non-resource path.
    pub verb: &'static str,
    pub is_resource: bool,
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    /// Empty for all namespaces and for cluster-scoped resources.
    pub namespace: String,
    /// The plural resource.
    pub resource: String,
    /// Empty for collections, except those whose field selector requires one name.
    pub name: String,
    /// Whether the path has a name, possibly followed by a subresource.
    pub named: bool,
    /// Empty for the object itself.
    pub subresource: String,
}

impl RequestInfo {
    pub(crate) fn parse(method: &Method, path: &str, watch: bool, field_name: Option<&str>) -> Self {
        let mut info = Self {
            path: path.to_owned(),
            verb: lower(method),
            ..Self::default()
        };
        let mut parts = path.split('/').filter(|p| !p.is_empty());
        match parts.next() {
            Some("api") => {}
            Some("apis") => match parts.next() {
                Some(group) => info.group = group.to_owned(),
                None => return info,
            },
            _ => return info,
        }
        let Some(version) = parts.next() else { return info };
        info.version = version.to_owned();
        let rest: Vec<&str> = parts.collect();
        let rest = match rest.as_slice() {
            [] => return info,
            // `namespaces/NAME`, `namespaces/NAME/status`, `namespaces/NAME/finalize` are the resource
            // itself.
            ["namespaces"] => rest.as_slice(),
            ["namespaces", name] | ["namespaces", name, "status" | "finalize"] if info.group.is_empty() => {
                info.namespace = (*name).to_owned();
                rest.as_slice()
            }
            ["namespaces", namespace, tail @ ..] if !tail.is_empty() => {
                info.namespace = (*namespace).to_owned();
                tail
            }
            other => other,
        };
        info.is_resource = true;
        let (resource, tail) = rest.split_first().map_or(("", [].as_slice()), |(r, t)| (*r, t));
        info.resource = resource.to_owned();
        if let Some((name, sub)) = tail.split_first() {
            info.name = (*name).to_owned();
            info.named = true;
            info.subresource = sub.join("/");
        }
        info.verb = resource_verb(method, info.named, watch);
        // A collection request for exactly one name is authorized as a request for that name.
        if !info.named
            && matches!(info.verb, "list" | "watch" | "deletecollection")
            && let Some(name) = field_name
        {
            info.name = name.to_owned();
        }
        info
    }
}

impl RequestInfo {
    pub(crate) fn attributes(&self) -> Attributes {
        if !self.is_resource {
            return Attributes::path(self.verb, &self.path);
        }
        Attributes {
            verb: self.verb.to_owned(),
            group: self.group.clone(),
            resource: self.resource.clone(),
            subresource: self.subresource.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            ..Attributes::default()
        }
    }
}

fn lower(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "get",
        "HEAD" => "head",
        "POST" => "post",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        _ => "unknown",
    }
}

fn resource_verb(method: &Method, named: bool, watch: bool) -> &'static str {
    match (method.as_str(), named) {
        // One object is read, never watched, whatever the query says.
        ("GET" | "HEAD", true) => "get",
        ("GET" | "HEAD", false) if watch => "watch",
        ("GET" | "HEAD", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &str, path: &str, watch: bool, expected: &str) {
        let method: Method = method.parse().unwrap();
        let i = RequestInfo::parse(&method, path, watch, None);
        let got = format!(
            "{} g={} v={} ns={} r={} n={} s={}{}",
            i.verb,
            i.group,
            i.version,
            i.namespace,
            i.resource,
            i.name,
            i.subresource,
            if i.is_resource { "" } else { " nonresource" }
        );
        assert_eq!(got, expected);
    }

    #[test]
    fn paths() {
        check("GET", "/api/v1/pods", false, "list g= v=v1 ns= r=pods n= s=");
        check("GET", "/api/v1/pods", true, "watch g= v=v1 ns= r=pods n= s=");
        check(
            "GET",
            "/api/v1/namespaces/a/pods/p/",
            true,
            "get g= v=v1 ns=a r=pods n=p s=",
        );
        check(
            "GET",
            "/api/v1/namespaces/a/pods/p/status",
            true,
            "get g= v=v1 ns=a r=pods n=p s=status",
        );
        check(
            "POST",
            "/api/v1/namespaces/a/pods",
            false,
            "create g= v=v1 ns=a r=pods n= s=",
        );
        check(
            "GET",
            "/api/v1/namespaces",
            false,
            "list g= v=v1 ns= r=namespaces n= s=",
        );
        check(
            "GET",
            "/api/v1/namespaces/a",
            false,
            "get g= v=v1 ns=a r=namespaces n=a s=",
        );
        check(
            "PUT",
            "/api/v1/namespaces/a/finalize",
            false,
            "update g= v=v1 ns=a r=namespaces n=a s=finalize",
        );
        check(
            "PATCH",
            "/apis/apps/v1/namespaces/a/deployments/w/status",
            false,
            "patch g=apps v=v1 ns=a r=deployments n=w s=status",
        );
        check(
            "DELETE",
            "/apis/apps/v1/namespaces/a/deployments",
            false,
            "deletecollection g=apps v=v1 ns=a r=deployments n= s=",
        );
        check(
            "GET",
            "/apis/apps",
            false,
            "get g=apps v= ns= r= n= s= nonresource",
        );
        check("GET", "/metrics", false, "get g= v= ns= r= n= s= nonresource");
        check(
            "POST",
            "/api/v1/namespaces/a/pods/p/binding",
            false,
            "create g= v=v1 ns=a r=pods n=p s=binding",
        );
    }
}
