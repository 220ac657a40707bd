use super::*;
use crate::status::ApiError;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue};
use rbac::{Attributes, RbacView, authorize, require};
use serde_json::{Value, json};

fn view(objects: &[Value]) -> RbacView {
    let of = |kind: &'static str| objects.iter().filter(move |o| o["kind"] == kind);
    RbacView::new(
        of("ClusterRole"),
        of("Role"),
        of("ClusterRoleBinding"),
        of("RoleBinding"),
    )
}

fn role(kind: &str, namespace: &str, name: &str, rules: &Value) -> Value {
    let mut out = json!({ "kind": kind, "metadata": { "name": name }, "rules": rules });
    if !namespace.is_empty() {
        out["metadata"]["namespace"] = json!(namespace);
    }
    out
}

fn binding(namespace: &str, name: &str, role: (&str, &str), subject: &Value) -> Value {
    let kind = if namespace.is_empty() {
        "ClusterRoleBinding"
    } else {
        "RoleBinding"
    };
    json!({
        "kind": kind,
        "metadata": { "name": name, "namespace": namespace },
        "subjects": [subject],
        "roleRef": { "apiGroup": rbac::GROUP, "kind": role.0, "name": role.1 },
    })
}

/// `verb resource[.group][/sub] [namespace[/name]]`, or `verb /path`.
fn request(text: &str) -> Attributes {
    let words: Vec<&str> = text.split(' ').collect();
    if words[1].starts_with('/') {
        return Attributes::path(words[0], words[1]);
    }
    let (resource, subresource) = words[1].split_once('/').unwrap_or((words[1], ""));
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let (namespace, name) = words
        .get(2)
        .map_or(("", ""), |w| w.split_once('/').unwrap_or((w, "")));
    Attributes {
        verb: words[0].to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        path: String::new(),
    }
}

fn outcome<T>(result: Result<T, ApiError>, ok: impl FnOnce(T) -> String) -> String {
    match result {
        Ok(value) => ok(value),
        Err(error) => format!("{} {}", error.code, error.message),
    }
}

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let mut out = HeaderMap::new();
    for (name, value) in lines {
        out.append(
            HeaderName::from_bytes(name.to_lowercase().as_bytes()).unwrap(),
            HeaderValue::from_str(value).unwrap(),
        );
    }
    out
}

#[test]
fn requests_are_authenticated() {
    let token = Token::new("s3cret");
    let authenticator = Authenticator::new().token(&token, Identity::user("alice", ["devs"]));
    let check = |authenticator: &Authenticator, value: Option<&str>, want: &str| {
        let lines: Vec<(&str, &str)> = value.iter().map(|v| ("authorization", *v)).collect();
        let got = authenticator.authenticate(&headers(&lines), &Extensions::new());
        let got = outcome(got, |who| format!("{} {}", who.name, who.groups.join(",")));
        assert_eq!(got, want, "{value:?}");
    };
    check(&authenticator, None, "system:anonymous system:unauthenticated");
    check(
        &authenticator,
        Some("Bearer s3cret"),
        "alice devs,system:authenticated",
    );
    check(
        &authenticator,
        Some("bearer s3cret more"),
        "alice devs,system:authenticated",
    );
    check(&authenticator, Some("Bearer s3cre"), "401 Unauthorized");
    check(&authenticator, Some("Bearer s3cret2"), "401 Unauthorized");
    check(
        &authenticator,
        Some("Basic s3cret"),
        "system:anonymous system:unauthenticated",
    );
    check(&authenticator.anonymous(false), None, "401 Unauthorized");
}

#[test]
fn an_injected_identity_wins_and_gets_its_groups() {
    let mut extensions = Extensions::new();
    extensions.insert(Identity {
        name: "system:serviceaccount:flux-system:helm".to_owned(),
        ..Identity::default()
    });
    let who = Authenticator::new()
        .anonymous(false)
        .authenticate(&headers(&[("authorization", "Bearer nope")]), &extensions)
        .unwrap();
    assert_eq!(
        who.groups,
        [
            "system:serviceaccounts",
            "system:serviceaccounts:flux-system",
            "system:authenticated"
        ]
    );
    assert_eq!(who, Identity::service_account("flux-system", "helm"));
}

#[test]
fn a_token_never_prints() {
    let token = Token::new("s3cret");
    let authenticator = Authenticator::new().token(&token, Identity::admin());
    let printed = format!("{token:?} {authenticator:?}");
    assert!(!printed.contains("s3cret"), "{printed}");
    let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
    assert_eq!(one.expose().len(), 64);
    assert_ne!(one.expose(), other.expose());
}

#[test]
fn rules_match_requests() {
    let check_attributes = |rule: Value, asked: &Attributes, want: bool| {
        let view = view(&[
            role("ClusterRole", "", "r", &json!([rule])),
            binding(
                "",
                "b",
                ("ClusterRole", "r"),
                &json!({ "kind": "User", "name": "alice" }),
            ),
        ]);
        let got = authorize(&view, &Identity::user("alice", ["devs"]), asked).allowed;
        assert_eq!(got, want, "{rule} {asked:?}");
    };
    let check = |rule: Value, asked: &str, want: bool| check_attributes(rule, &request(asked), want);
    let on = |verbs: &str, groups: &str, resources: &str| {
        let list = |text: &str| -> Vec<String> { text.split('|').map(str::to_owned).collect() };
        json!({ "verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources) })
    };
    check(on("get", "", "pods"), "get pods ns/a", true);
    check(on("get", "", "pods"), "get pods/log ns/a", false);
    check(on("get", "", "pods"), "list pods ns", false);
    check(on("get", "", "pods"), "get pods.metrics.k8s.io ns/a", false);
    check(on("*", "*", "*"), "get pods/log ns/a", true);
    check(on("*", "*", "*"), "get /metrics", false);
    check(on("get", "", "pods/log"), "get pods/log ns/a", true);
    check(on("get", "", "pods/log"), "get pods ns/a", false);
    check(
        on("get", "apps", "*/scale"),
        "get deployments.apps/scale ns/a",
        true,
    );
    check(on("get", "apps", "*/scale"), "get deployments.apps ns/a", false);
    check(
        on("get", "apps", "deployments/*"),
        "get deployments.apps/scale ns/a",
        false,
    );
    // access reviews of prometheus-operator ask so
    let whole = Attributes {
        resource: "pods/log".to_owned(),
        ..request("get pods ns/a")
    };
    check_attributes(on("get", "", "pods/log"), &whole, true);
    check_attributes(on("get", "", "pods"), &whole, false);
    check_attributes(on("get", "", "*/log"), &whole, false);
    let named = |mut rule: Value| {
        rule["resourceNames"] = json!(["only"]);
        rule
    };
    check(named(on("*", "", "pods")), "get pods ns/only", true);
    check(named(on("*", "", "pods")), "get pods ns/other", false);
    check(named(on("*", "", "pods")), "create pods ns", false);
    check(named(on("*", "", "pods")), "list pods ns/only", true);
    let path = |path: &str| json!({ "verbs": ["get"], "nonResourceURLs": [path] });
    check(path("/metrics"), "get /metrics", true);
    check(path("/metrics"), "get /metrics/a", false);
    check(path("/metrics/*"), "get /metrics/a", true);
    check(path("/metrics/*"), "get /metrics", false);
    check(path("*"), "get /metrics", true);
    check(path("*"), "post /metrics", false);
    check(path("*"), "get pods ns/a", false);
}

#[test]
fn bindings_apply_to_their_subjects() {
    let rules = json!([{ "verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"] }]);
    let objects = [
        role("Role", "g", "r", &rules),
        role("ClusterRole", "", "c", &rules),
        binding(
            "g",
            "r",
            ("Role", "r"),
            &json!({ "kind": "Group", "name": "devs" }),
        ),
        binding(
            "g",
            "sa",
            ("ClusterRole", "c"),
            &json!({ "kind": "ServiceAccount", "name": "ci" }),
        ),
        binding(
            "",
            "bob",
            ("ClusterRole", "c"),
            &json!({ "kind": "User", "name": "bob" }),
        ),
        binding(
            "g",
            "z",
            ("Role", "absent"),
            &json!({ "kind": "User", "name": "carol" }),
        ),
    ];
    let view = view(&objects);
    let check = |who: &Identity, asked: &str, allowed: bool, reason: &str| {
        let got = authorize(&view, who, &request(asked));
        assert_eq!(
            (got.allowed, got.reason.as_str()),
            (allowed, reason),
            "{who:?} {asked}"
        );
    };
    let alice = Identity::user("alice", ["devs"]);
    check(
        &alice,
        "get configmaps g/x",
        true,
        r#"RBAC: allowed by RoleBinding "r/g" of Role "r" to Group "devs""#,
    );
    check(&alice, "get configmaps other/x", false, "");
    check(&alice, "get configmaps", false, "");
    let bob = Identity::user("bob", Vec::<String>::new());
    let by_cluster = r#"RBAC: allowed by ClusterRoleBinding "bob" of ClusterRole "c" to User "bob""#;
    check(&bob, "get configmaps other/x", true, by_cluster);
    let ci = Identity::service_account("g", "ci");
    check(
        &ci,
        "get configmaps g/x",
        true,
        r#"RBAC: allowed by RoleBinding "sa/g" of ClusterRole "c" to ServiceAccount "ci/g""#,
    );
    check(
        &Identity::service_account("h", "ci"),
        "get configmaps g/x",
        false,
        "",
    );
    check(
        &Identity::user("carol", ["c"]),
        "get configmaps g/x",
        false,
        r#"RBAC: role.rbac.authorization.k8s.io "absent" not found"#,
    );
    check(&Identity::admin(), "delete nodes /x", true, "");
}

#[test]
fn denials_have_upstreams_text() {
    let check = |asked: &str, want: &str| {
        let got = require(
            &RbacView::default(),
            &Identity::user("alice", ["devs"]),
            &request(asked),
        );
        assert_eq!(outcome(got, |()| "allowed".to_owned()), format!("403 {want}"));
    };
    check(
        "list configmaps g",
        r#"configmaps is forbidden: User "alice" cannot list resource "configmaps" in API group "" in the namespace "g""#,
    );
    check(
        "get configmaps g/x",
        r#"configmaps "x" is forbidden: User "alice" cannot get resource "configmaps" in API group "" in the namespace "g""#,
    );
    check(
        "get deployments.apps/scale g/x",
        r#"deployments.apps "x" is forbidden: User "alice" cannot get resource "deployments/scale" in API group "apps" in the namespace "g""#,
    );
    check(
        "list nodes",
        r#"nodes is forbidden: User "alice" cannot list resource "nodes" in API group "" at the cluster scope"#,
    );
    check(
        "get /metrics",
        r#"forbidden: User "alice" cannot get path "/metrics""#,
    );
    check(
        "get /a&b",
        r#"forbidden: User "alice" cannot get path "/a&amp;b""#,
    );
}

#[test]
fn impersonation_headers_are_parsed() {
    let check = |lines: &[(&str, &str)], want: &str| {
        let got = outcome(impersonate::wanted(&headers(lines)), |w| {
            w.map_or("none".to_owned(), |w| {
                format!("{} {:?} {:?}", w.name, w.groups, w.extra)
            })
        });
        assert_eq!(got, want);
    };
    check(&[], "none");
    check(
        &[
            ("Impersonate-User", "bob"),
            ("Impersonate-Group", "a"),
            ("Impersonate-Group", "b"),
        ],
        r#"bob ["a", "b"] {}"#,
    );
    check(
        &[
            ("Impersonate-User", "bob"),
            ("Impersonate-Extra-Acme.com%2fScope", "x"),
            ("Impersonate-Extra-bad%2", "y"),
        ],
        r#"bob [] {"acme.com/scope": ["x"], "bad%2": ["y"]}"#,
    );
    check(
        &[("Impersonate-Group", "devs")],
        r#"400 requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"devs"}, Extra:map[string][]string(nil)} without impersonating a user name"#,
    );
    check(
        &[("Impersonate-Uid", "7"), ("Impersonate-Extra-K", "v")],
        r#"400 requested &user.DefaultInfo{Name:"", UID:"7", Groups:[]string(nil), Extra:map[string][]string{"k":[]string{"v"}}} without impersonating a user name"#,
    );
}

#[test]
fn impersonation_needs_the_right() {
    let may = |name: &str, verbs: &[&str], group: &str, resource: &str| {
        let rules = json!([{ "verbs": verbs, "apiGroups": [group], "resources": [resource] }]);
        let to = json!({ "kind": "User", "name": name });
        [
            role("ClusterRole", "", &format!("{name}-{resource}"), &rules),
            binding(
                "",
                &format!("{name}-{resource}"),
                ("ClusterRole", &format!("{name}-{resource}")),
                &to,
            ),
        ]
    };
    let objects = [
        may("legacy", &["impersonate"], "", "users"),
        may("sa", &["impersonate"], "", "serviceaccounts"),
        may("narrow", &["impersonate-on:user-info:list"], "", "configmaps"),
        may(
            "narrow",
            &["impersonate:user-info"],
            "authentication.k8s.io",
            "users",
        ),
    ]
    .concat();
    let view = view(&objects);
    let check = |who: &str, lines: &[(&str, &str)], asked: &str, want: &str| {
        let requestor = if who == "admin" {
            Identity::admin()
        } else {
            Identity::user(who, Vec::<String>::new())
        };
        let wanted = impersonate::wanted(&headers(lines)).unwrap().unwrap();
        let got = impersonate::impersonate(&view, &requestor, &wanted, &request(asked));
        let got = outcome(got, |i| format!("{} {}", i.name, i.groups.join(",")));
        assert_eq!(got, want, "{who} {lines:?}");
    };
    let bob = [("Impersonate-User", "bob")];
    let bob_devs = [("Impersonate-User", "bob"), ("Impersonate-Group", "devs")];
    let list = "list configmaps g";
    check(
        "alice",
        &bob,
        list,
        r#"403 configmaps is forbidden: User "alice" cannot impersonate-on:user-info:list resource "configmaps" in API group "" in the namespace "g""#,
    );
    check("admin", &bob, list, "bob system:authenticated");
    check("admin", &bob_devs, list, "bob devs,system:authenticated");
    check(
        "admin",
        &[("Impersonate-User", "system:serviceaccount:g:default")],
        list,
        "system:serviceaccount:g:default system:serviceaccounts,system:serviceaccounts:g,system:authenticated",
    );
    check(
        "admin",
        &[("Impersonate-User", "system:anonymous")],
        list,
        "system:anonymous system:unauthenticated",
    );
    check(
        "admin",
        &[("Impersonate-User", "x"), ("Impersonate-Group", "system:masters")],
        list,
        "x system:masters,system:authenticated",
    );
    check(
        "admin",
        &[("Impersonate-User", "system:node:n1")],
        list,
        "system:node:n1 system:nodes,system:authenticated",
    );
    check("legacy", &bob, list, "bob system:authenticated");
    check(
        "legacy",
        &bob_devs,
        "get configmaps g/x",
        r#"403 configmaps "x" is forbidden: User "legacy" cannot impersonate-on:user-info:get resource "configmaps" in API group "" in the namespace "g""#,
    );
    check(
        "sa",
        &[("Impersonate-User", "system:serviceaccount:g:default")],
        list,
        "system:serviceaccount:g:default system:serviceaccounts,system:serviceaccounts:g,system:authenticated",
    );
    check("narrow", &bob, list, "bob system:authenticated");
    check(
        "narrow",
        &bob_devs,
        list,
        r#"403 groups.authentication.k8s.io "devs" is forbidden: User "narrow" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope"#,
    );
    check(
        "narrow",
        &[("Impersonate-User", "x"), ("Impersonate-Group", "system:masters")],
        list,
        r#"403 groups.authentication.k8s.io "system:masters" is forbidden: User "narrow" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope: impersonating the system:masters group is not allowed"#,
    );
}

#[test]
fn writing_rbac_grants_no_more_than_the_writer_holds() {
    let held = json!([
        { "verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"] },
        { "verbs": ["get"], "apiGroups": ["apps"], "resources": ["*/scale"] },
        { "verbs": ["get"], "nonResourceURLs": ["/healthz/*"] },
    ]);
    let special = json!([
        { "verbs": ["escalate"], "apiGroups": [rbac::GROUP], "resources": ["roles"] },
        { "verbs": ["bind"], "apiGroups": [rbac::GROUP], "resources": ["clusterroles"], "resourceNames": ["big"] },
    ]);
    let user = |name: &str| json!({ "kind": "User", "name": name });
    let objects = [
        role("ClusterRole", "", "held", &held),
        role("ClusterRole", "", "special", &special),
        role(
            "ClusterRole",
            "",
            "big",
            &json!([{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }]),
        ),
        binding("", "held", ("ClusterRole", "held"), &user("alice")),
        binding("", "special", ("ClusterRole", "special"), &user("root")),
    ];
    let view = view(&objects);
    let check = |who: &str, asked: &str, object: &Value, stored: Option<&Value>, want: &str| {
        let who = Identity::user(who, ["devs"]);
        let got = escalation::check_write(&view, &who, &request(asked), object, stored);
        assert_eq!(outcome(got, |()| "ok".to_owned()), want, "{object}");
    };
    let create = "create roles.rbac.authorization.k8s.io g";
    let some = |rules: Value| role("Role", "g", "esc", &rules);
    let fits = some(json!([
        { "verbs": ["list", "get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["one"] },
        { "verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments/scale"] },
        { "verbs": ["get"], "nonResourceURLs": ["/healthz/ping"] },
    ]));
    check("alice", create, &fits, None, "ok");
    let all = some(json!([{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }]));
    check(
        "alice",
        create,
        &all,
        None,
        "403 roles.rbac.authorization.k8s.io \"esc\" is forbidden: user \"alice\" (groups=[\"devs\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}",
    );
    check("root", create, &all, None, "ok");
    let more = some(json!([
        { "verbs": ["get", "update", "delete"], "apiGroups": [""], "resources": ["pods", "secrets"] },
        { "verbs": ["get"], "nonResourceURLs": ["/metrics"] },
    ]));
    check(
        "alice",
        create,
        &more,
        None,
        "403 roles.rbac.authorization.k8s.io \"esc\" is forbidden: user \"alice\" (groups=[\"devs\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"update\" \"delete\"]}\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"update\" \"delete\"]}\n{NonResourceURLs:[\"/metrics\"], Verbs:[\"get\"]}",
    );
    let mut collected = all.clone();
    collected["metadata"]["finalizers"] = json!(["x/y"]);
    check(
        "alice",
        "update roles.rbac.authorization.k8s.io g/esc",
        &all,
        Some(&collected),
        "ok",
    );
    let bind = "create rolebindings.rbac.authorization.k8s.io g";
    let to = |name: &str| binding("g", "b", ("ClusterRole", name), &user("bob"));
    check("alice", bind, &to("held"), None, "ok");
    check("root", bind, &to("big"), None, "ok");
    check(
        "alice",
        bind,
        &to("big"),
        None,
        "403 rolebindings.rbac.authorization.k8s.io \"b\" is forbidden: user \"alice\" (groups=[\"devs\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}",
    );
    check(
        "alice",
        bind,
        &to("gone"),
        None,
        "404 rolebindings.rbac.authorization.k8s.io \"gone\" not found",
    );
    let mut gathering = role("ClusterRole", "", "agg", &json!([]));
    gathering["aggregationRule"] = json!({ "clusterRoleSelectors": [{ "matchLabels": { "a": "b" } }] });
    check(
        "alice",
        "create clusterroles.rbac.authorization.k8s.io",
        &gathering,
        None,
        "403 clusterroles.rbac.authorization.k8s.io \"agg\" is forbidden: must have cluster-admin privileges to use the aggregationRule",
    );
    check("alice", "create configmaps g", &json!({}), None, "ok");
}

#[test]
fn selectors_of_aggregation_rules() {
    let check = |selector: Value, want: &[&str]| {
        let rule = |verb: &str| json!([{ "verbs": [verb] }]);
        let mut roles = [
            role("ClusterRole", "", "a", &rule("a")),
            role("ClusterRole", "", "b", &rule("b")),
            role("ClusterRole", "", "b2", &rule("b")),
            role("ClusterRole", "", "self", &rule("self")),
        ];
        roles[0]["metadata"]["labels"] = json!({ "tier": "one" });
        roles[1]["metadata"]["labels"] = json!({ "tier": "two", "extra": "" });
        roles[2]["metadata"]["labels"] = json!({ "tier": "two" });
        roles[3]["aggregationRule"] = json!({ "clusterRoleSelectors": [selector] });
        let got = aggregate::aggregated_rules(&roles[3], &roles.iter()).unwrap();
        let got: Vec<&str> = got.iter().map(|r| r["verbs"][0].as_str().unwrap()).collect();
        assert_eq!(got, want, "{selector}");
    };
    check(json!({}), &["a", "b"]);
    check(json!({ "matchLabels": { "tier": "two" } }), &["b"]);
    let with = |key: &str, operator: &str, values: &[&str]| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
    check(with("tier", "In", &["one", "three"]), &["a"]);
    check(with("tier", "NotIn", &["one"]), &["b"]);
    check(with("extra", "NotIn", &["x"]), &["a", "b"]);
    check(with("extra", "Exists", &[]), &["b"]);
    check(with("extra", "DoesNotExist", &[]), &["a", "b"]);
    check(with("extra", "Near", &[]), &[]);
    let plain = role("ClusterRole", "", "a", &json!([]));
    assert_eq!(aggregate::aggregated_rules(&plain, &std::iter::empty()), None);
}

#[test]
fn bootstrap_roles_grant_their_verbs() {
    let view = view(&bootstrap::objects(true));
    let check = |who: &Identity, asked: &str, want: bool| {
        assert_eq!(
            authorize(&view, who, &request(asked)).allowed,
            want,
            "{} {asked}",
            who.name
        );
    };
    let alice = Identity::user("alice", ["devs"]);
    check(&alice, "get /version", true);
    check(&alice, "get /apis/apps/v1", true);
    check(&alice, "get /metrics", false);
    check(
        &alice,
        "create selfsubjectaccessreviews.authorization.k8s.io",
        true,
    );
    check(&alice, "list configmaps g", false);
    check(&Identity::anonymous(), "get /version", true);
    check(&Identity::anonymous(), "get /apis", false);
}

#[test]
fn aggregated_role_without_controller_has_no_rules() {
    let objects = bootstrap::objects(false);
    let rules = |name: &str| objects.iter().find(|o| o["metadata"]["name"] == name).unwrap()["rules"].clone();
    assert_eq!(rules("view"), Value::Null);
    assert!(rules("system:aggregate-to-view").is_array());
}

#[test]
fn bootstrap_roles_aggregate_each_other() {
    let objects = bootstrap::objects(true);
    let rules = |name: &str| {
        let role = objects
            .iter()
            .find(|o| o["kind"] == "ClusterRole" && o["metadata"]["name"] == name);
        rbac::rules_of(role.unwrap())
    };
    for (outer, inner) in [
        ("view", "system:aggregate-to-view"),
        ("edit", "view"),
        ("edit", "system:aggregate-to-edit"),
        ("admin", "edit"),
        ("admin", "system:aggregate-to-admin"),
    ] {
        let (outer_rules, inner_rules) = (rules(outer), rules(inner));
        assert!(!inner_rules.is_empty(), "{inner}");
        for rule in inner_rules {
            assert!(outer_rules.contains(&rule), "{outer} lacks {rule:?} of {inner}");
        }
    }
}

#[tokio::test]
async fn rights_follow_the_store() {
    use crate::store::{Change, Expect, Key, ResourceId, Store};
    let store = Store::in_memory();
    let authority = Authority::new(Authenticator::new(), issued::IssuedTokens::new().unwrap());
    let alice = Identity::user("alice", ["devs"]);
    let asked = request("get configmaps g/x");
    let allowed = || authority.decide(&store.snapshot(), &alice, &asked).allowed;
    let put = |plural: &str, object: Value| Change::Put {
        key: Key::new(
            &ResourceId::new(rbac::GROUP, plural),
            object["metadata"]["namespace"].as_str().unwrap_or_default(),
            object["metadata"]["name"].as_str().unwrap(),
        ),
        object,
        expect: Expect::Any,
    };
    assert!(!allowed());
    let to = json!({ "kind": "Group", "name": "devs" });
    let bound = put("rolebindings", binding("g", "b", ("Role", "r"), &to));
    let rules = json!([{ "verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"] }]);
    let granted = put("roles", role("Role", "g", "r", &rules));
    store.commit(vec![bound.clone()]).await.unwrap();
    assert!(!allowed(), "bound to an absent role");
    store.commit(vec![granted]).await.unwrap();
    assert!(allowed());
    let key = bound.key().clone();
    let gone = Change::Delete {
        key,
        expect: Expect::Any,
        last: None,
    };
    store.commit(vec![gone]).await.unwrap();
    assert!(!allowed(), "unbound");
}
