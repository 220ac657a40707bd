use super::*;
use serde_json::json;

fn namespace(labels: &Value) -> Value {
    let labels = labels.as_object().into_iter().flatten();
    let labels = labels.map(|(name, value)| (format!("pod-security.kubernetes.io/{name}"), value.clone()));
    let labels: serde_json::Map<_, _> = labels.collect();
    json!({"metadata": {"name": "team", "labels": labels}})
}

fn check(level: &str, version: &str, pod: &Value, expected: &str) {
    let namespace = namespace(&json!({"enforce": level, "enforce-version": version}));
    let expected = match expected {
        "" => Ok(Vec::new()),
        detail => Err(format!("violates PodSecurity \"{level}:{version}\": {detail}")),
    };
    assert_eq!(check_pod(&namespace, pod, None), expected, "{pod}");
}

fn pod(spec: Value, mut container: Value) -> Value {
    container["name"] = json!("c");
    let mut pod = json!({"metadata": {"name": "p"}});
    pod["spec"] = spec;
    pod["spec"]["containers"] = Value::Array(vec![container]);
    pod
}

#[test]
fn plain_pod_violates_restricted() {
    check(
        "privileged",
        "latest",
        &pod(json!({"hostPID": true}), json!({})),
        "",
    );
    check("baseline", "latest", &pod(json!({}), json!({})), "");
    check(
        "restricted",
        "latest",
        &pod(json!({}), json!({})),
        "allowPrivilegeEscalation != false (container \"c\" must set \
         securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set \
         securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set \
         securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set \
         securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")",
    );
    let good = pod(
        json!({
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [{"name": "v", "emptyDir": {}}],
        }),
        json!({"securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        }}),
    );
    check("restricted", "latest", &good, "");
}

#[test]
fn baseline_checks() {
    for (spec, container, expected) in [
        (
            json!({"hostNetwork": true, "hostIPC": true}),
            json!({}),
            "host namespaces (hostNetwork=true, hostIPC=true)",
        ),
        (
            json!({"volumes": [{"name": "a", "hostPath": {}}, {"name": "b", "hostPath": {}}]}),
            json!({}),
            "hostPath volumes (volumes \"a\", \"b\")",
        ),
        (
            json!({}),
            json!({"ports": [{"hostPort": 80}, {"hostPort": 443}, {"containerPort": 1}]}),
            "hostPort (container \"c\" uses hostPorts 443, 80)",
        ),
        (
            json!({}),
            json!({"livenessProbe": {"httpGet": {"host": "h"}}, "lifecycle": {"preStop": {"tcpSocket": {"host": "i"}}}}),
            "probe or lifecycle host (container \"c\" uses probe or lifecycle hosts \"h\", \"i\")",
        ),
        (
            json!({}),
            json!({"securityContext": {"privileged": true}}),
            "privileged (container \"c\" must not set securityContext.privileged=true)",
        ),
        (
            json!({}),
            json!({"securityContext": {"procMount": "Unmasked"}}),
            "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")",
        ),
        (
            json!({"hostUsers": false}),
            json!({"securityContext": {"procMount": "Unmasked"}}),
            "",
        ),
        (
            json!({}),
            json!({"securityContext": {"capabilities": {"add": ["SYS_ADMIN", "CHOWN", "NET_RAW"]}}}),
            "non-default capabilities (container \"c\" must not include \"NET_RAW\", \"SYS_ADMIN\" in \
             securityContext.capabilities.add)",
        ),
        (
            json!({"securityContext": {"seLinuxOptions": {"type": "spc_t", "user": "u"}}}),
            json!({"securityContext": {"seLinuxOptions": {"role": "r"}}}),
            "seLinuxOptions (pod and container \"c\" set forbidden securityContext.seLinuxOptions: type \"spc_t\"; \
             user may not be set; role may not be set)",
        ),
        (
            json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
            json!({}),
            "seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (
            json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}),
            json!({}),
            "forbidden AppArmor profile (pod must not set AppArmor profile type to \"Unconfined\")",
        ),
        (
            json!({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}, {"name": "kernel.msgmax"}]}}),
            json!({}),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            json!({"securityContext": {"windowsOptions": {"hostProcess": true}}}),
            json!({}),
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
    ] {
        check("baseline", "latest", &pod(spec, container), expected);
    }
}

#[test]
fn versions_change_the_checks() {
    let sysctl = pod(
        json!({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}}),
        json!({}),
    );
    check(
        "baseline",
        "v1.31",
        &sysctl,
        "forbidden sysctls (net.ipv4.tcp_rmem)",
    );
    check("baseline", "v1.32", &sysctl, "");
    check("baseline", "v1.99", &sysctl, "");
    let probe = pod(json!({}), json!({"readinessProbe": {"tcpSocket": {"host": "h"}}}));
    check("baseline", "v1.33", &probe, "");
    let mut annotated = pod(json!({}), json!({}));
    annotated["metadata"]["annotations"] = json!({
        "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
        "container.apparmor.security.beta.kubernetes.io/c": "unconfined",
    });
    let armor = "forbidden AppArmor profile (annotation must not set AppArmor profile type to \
                 \"container.apparmor.security.beta.kubernetes.io/c=\"unconfined\"\")";
    check("baseline", "v1.19", &annotated, armor);
    check(
        "baseline",
        "v1.18",
        &annotated,
        &format!(
            "{armor}, seccompProfile (forbidden annotation \
             seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")"
        ),
    );
}

#[test]
fn restricted_replaces_checks_of_baseline() {
    let spec = json!({
        "hostUsers": false,
        "os": {"name": "windows"},
        "volumes": [{"name": "a", "hostPath": {}}, {"name": "b", "nfs": {}}, {"name": "c", "secret": {}}],
    });
    check(
        "restricted",
        "latest",
        &pod(spec, json!({"securityContext": {"procMount": "Unmasked"}})),
        "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\"), restricted volume \
         types (volumes \"a\", \"b\" use restricted volume types \"hostPath\", \"nfs\")",
    );
    let root = json!({"securityContext": {"runAsUser": 0, "runAsNonRoot": false}});
    check(
        "restricted",
        "v1.20",
        &pod(json!({}), root),
        "allowPrivilegeEscalation != false (container \"c\" must set \
         securityContext.allowPrivilegeEscalation=false), runAsNonRoot != true (container \"c\" must not set \
         securityContext.runAsNonRoot=false), seccompProfile (pod or container \"c\" must set \
         securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")",
    );
}

#[test]
fn updates_count_if_they_change_an_image() {
    let restricted = namespace(&json!({"enforce": "restricted"}));
    let old = pod(json!({}), json!({"image": "a"}));
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(check_pod(&restricted, &new, Some(&old)), Ok(Vec::new()));
    new["spec"]["containers"][0]["image"] = json!("b");
    assert!(check_pod(&restricted, &new, Some(&old)).is_err());
    let mut debugged = old.clone();
    debugged["spec"]["ephemeralContainers"] = json!([{"name": "d", "image": "a"}]);
    assert!(check_pod(&restricted, &debugged, Some(&old)).is_err());
    assert_eq!(check_pod(&restricted, &debugged, Some(&debugged)), Ok(Vec::new()));
}

#[test]
fn warnings_follow_enforce() {
    let deployment = json!({"spec": {"template": pod(json!({"hostPID": true}), json!({}))}});
    let path = template_path("apps", "deployments").unwrap();
    for (labels, expected) in [
        (
            json!({"enforce": "baseline", "enforce-version": "v1.30"}),
            Some("baseline:v1.30"),
        ),
        (json!({"enforce": "baseline", "warn": "privileged"}), None),
        (
            json!({"enforce": "baseline", "warn-version": "v1.3"}),
            Some("baseline:v1.3"),
        ),
        (json!({"warn": "baseline"}), Some("baseline:latest")),
        (json!({"audit": "baseline"}), None),
        (json!({"enforce": "none"}), None),
    ] {
        let warnings = check_template(&namespace(&labels), &deployment, path);
        let expected = expected
            .map(|level| format!("would violate PodSecurity \"{level}\": host namespaces (hostPID=true)"));
        assert_eq!(warnings, expected.into_iter().collect::<Vec<_>>(), "{labels}");
    }
    assert_eq!(template_path("apps", "pods"), None);
}

#[test]
fn wrong_labels_are_refused_once() {
    let wrong = namespace(&json!({"enforce": "none", "warn-version": "1.30", "audit-version": "v1.07"}));
    let errors = check_labels(&wrong, None);
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"none\": must be one of \
             privileged, baseline, restricted",
            "metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: \"v1.07\": must be \"latest\" \
             or \"v1.x\"",
            "metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"1.30\": must be \"latest\" \
             or \"v1.x\"",
        ]
    );
    assert_eq!(check_labels(&wrong, Some(&wrong)), []);
    assert_eq!(
        check_labels(&namespace(&json!({"enforce": "baseline"})), Some(&wrong)),
        []
    );
    // the strictest level meanwhile
    let refused = check_pod(&wrong, &pod(json!({}), json!({})), None).unwrap_err();
    assert!(
        refused.starts_with("violates PodSecurity \"restricted:latest\": "),
        "{refused}"
    );
}

#[test]
fn a_stricter_level_warns_about_existing_pods() {
    let named = |name: &str, owner: &str, spec: Value| {
        let mut pod = pod(spec, json!({}));
        pod["metadata"]["name"] = json!(name);
        if !owner.is_empty() {
            pod["metadata"]["ownerReferences"] = json!([{"controller": true, "uid": owner}]);
        }
        pod
    };
    let pods = [
        named("good", "", json!({})),
        named("z", "o", json!({"hostPID": true})),
        named("y", "o", json!({"hostPID": true})),
        named("x", "", json!({"hostPID": true})),
        named(
            "n",
            "",
            json!({"hostNetwork": true, "volumes": [{"name": "v", "hostPath": {}}]}),
        ),
    ];
    let (loose, strict) = (namespace(&json!({})), namespace(&json!({"enforce": "baseline"})));
    assert_eq!(
        check_existing(&strict, &loose, pods.iter()),
        [
            "existing pods in namespace \"team\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "n: host namespaces, hostPath volumes",
            "x (and 2 other pods): host namespaces",
        ]
    );
    let none: [String; 0] = [];
    assert_eq!(check_existing(&loose, &strict, pods.iter()), none);
    assert_eq!(check_existing(&strict, &strict, pods.iter()), none);
    let stricter = namespace(&json!({"enforce": "restricted"}));
    assert_eq!(check_existing(&strict, &stricter, pods.iter()), none);
}
