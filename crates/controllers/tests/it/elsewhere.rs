//! A Kustomization with a `kubeConfig` applies to another cluster: a second API server, over TLS.

use std::path::Path;

use equate_api::kustomize::Kustomization;
use equate_testkit::apiserver::EmbeddedCluster;
use equate_testkit::apiserver::cluster::Builder;
use equate_testkit::eventually::eventually;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::session::{DEADLINE, HOME, Options, Session, config_map, inventory, kustomization};
use crate::tenancy::create;

/// Another cluster, served over TLS, and its kubeconfig.
struct Other {
    cluster: EmbeddedCluster,
    client: Client,
    kubeconfig: String,
    address: String,
    // serves until it is dropped
    _serving: Box<dyn std::any::Any + Send>,
}

impl Other {
    async fn start() -> Other {
        Self::built(EmbeddedCluster::builder()).await
    }

    /// A cluster that accepts the tokens of a session's cluster.
    async fn trusting(session: &Session) -> Other {
        Self::built(EmbeddedCluster::builder().trusting(session.cluster())).await
    }

    async fn built(builder: Builder) -> Other {
        let cluster = builder.build().await.unwrap();
        let serving = cluster.serve("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        cluster.write_kubeconfig(&serving, &path).unwrap();
        Other {
            client: cluster.client(),
            kubeconfig: read(&path),
            address: serving.url(),
            _serving: Box::new(serving),
            cluster,
        }
    }

    /// The data of a ConfigMap for it, with an account.
    fn identity(&self, account: Option<&str>) -> Value {
        json!({
            "provider": "generic", "address": self.address, "ca.crt": self.cluster.certificate_authority(),
            "serviceAccountName": account, "audiences": "https://kubernetes.default.svc",
        })
    }

    /// Grants an account of the session's cluster all rights there.
    async fn admit(&self, account: &str) {
        let binding: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": { "name": account },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": HOME }],
        }))
        .unwrap();
        let bindings: Api<ClusterRoleBinding> = Api::all(self.client.clone());
        bindings.create(&PostParams::default(), &binding).await.unwrap();
    }

    /// Waits until a ConfigMap of `default` there has this value; without one, until it is gone.
    async fn value(&self, name: &str, value: Option<&str>) {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        let look = async || {
            let found = maps.get_opt(name).await.unwrap();
            let found = found.map(|map| map.data.unwrap_or_default().remove("value").unwrap_or_default());
            match found.as_deref() == value {
                true => Ok(()),
                false => Err(format!("{found:?}")),
            }
        };
        eventually(&format!("{name} there is {value:?}"), DEADLINE, look).await;
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// A watched Secret of the session with a kubeconfig.
async fn secret(session: &Session, key: &str, kubeconfig: &str) {
    let object: Secret = serde_json::from_value(json!({
        "metadata": { "name": "other", "labels": { "reconcile.fluxcd.io/watch": "Enabled" } },
        "stringData": { key: kubeconfig },
    }))
    .unwrap();
    let secrets: Api<Secret> = Api::namespaced(session.client.clone(), HOME);
    secrets.create(&PostParams::default(), &object).await.unwrap();
}

fn elsewhere() -> Value {
    json!({ "kubeConfig": { "secretRef": { "name": "other" } }, "wait": true })
}

#[tokio::test]
async fn spec_kube_config_secret_ref_applies_corrects_and_prunes_there() {
    let (a, b) = (config_map("a", "there"), config_map("b", "there"));
    let here = config_map("a", "here");
    let files = [
        ("apps/a.yaml", &*a),
        ("apps/b.yaml", &*b),
        ("here/a.yaml", &*here),
    ];
    let session = Session::start(&files).await;
    let other = Other::start().await;
    secret(&session, "value", &other.kubeconfig).await;
    session.kustomize("apps", "apps", elsewhere()).await;
    // an object of the same name in this cluster is another object
    session.kustomize("here", "here", json!({})).await;
    let revision = session.commit(&[]);
    session.ready("apps", &revision).await;
    session.ready("here", &revision).await;
    other.value("a", Some("there")).await;
    session.value("default", "a", Some("here")).await;
    let maps: Api<ConfigMap> = Api::namespaced(other.client.clone(), "default");
    let by_hand = Patch::Merge(json!({ "data": { "value": "by hand" } }));
    maps.patch("a", &PatchParams::default(), &by_hand).await.unwrap();
    other.value("a", Some("there")).await;
    let revision = session.commit(&[("apps/b.yaml", None), ("here/b.yaml", Some(&*b))]);
    let status = session.ready("apps", &revision).await;
    assert_eq!(inventory(&status), ["default_a__ConfigMap"]);
    other.value("b", None).await;
    session.value("default", "b", Some("there")).await;
    session.delete::<Kustomization>(HOME, "apps").await;
    other.value("a", None).await;
    session.value("default", "a", Some("here")).await;
    session.end().await;
    other.cluster.stop().await;
}

/// Accepts connections, and never sends a byte.
async fn silent() -> (String, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    let kubeconfig = format!(
        "{{apiVersion: v1, kind: Config, current-context: a, contexts: [{{name: a, context: {{cluster: a, user: \
         a}}}}], clusters: [{{name: a, cluster: {{server: 'https://{address}'}}}}], users: [{{name: a, user: \
         {{token: t}}}}]}}"
    );
    (kubeconfig, accepting)
}

#[tokio::test]
async fn silent_clusters_of_a_tenant_delay_nobody_else() {
    let options = Options {
        concurrency: Some(2),
        ..Options::default()
    };
    let files = [
        ("there/a.yaml", &*config_map("a", "there")),
        ("here/a.yaml", &*config_map("a", "one")),
    ];
    let session = Session::with(&files, options).await;
    let (kubeconfig, accepting) = silent().await;
    session.namespace("tenant").await;
    for name in 0..10 {
        let own =
            json!({ "metadata": { "name": format!("k{name}") }, "stringData": { "value": kubeconfig } });
        create::<Secret>(&session, "tenant", own).await;
        let spec = json!({
            "kubeConfig": { "secretRef": { "name": format!("k{name}") } },
            "sourceRef": { "kind": "GitRepository", "name": "fleet", "namespace": HOME },
        });
        let mut attacker = kustomization(&format!("k{name}"), "there", spec);
        attacker.metadata.namespace = Some("tenant".to_owned());
        create::<Kustomization>(&session, "tenant", serde_json::to_value(&attacker).unwrap()).await;
    }
    session.kustomize("here", "here", json!({})).await;
    let change = config_map("a", "two");
    session.ready("here", &session.commit(&[])).await;
    session
        .ready("here", &session.commit(&[("here/a.yaml", Some(&*change))]))
        .await;
    session.value("default", "a", Some("two")).await;
    session.end().await;
    accepting.abort();
}

#[tokio::test]
async fn a_new_or_changed_kube_config_is_noticed() {
    let session = Session::start(&[("apps/a.yaml", &*config_map("a", "there"))]).await;
    let (one, two) = (Other::start().await, Other::start().await);
    session.kustomize("apps", "apps", elsewhere()).await;
    let message = session.fails("apps", "ReconciliationFailed").await;
    assert!(
        message.starts_with(
            "failed to build kube client: unable to read KubeConfig secret 'flux-system/other' error: "
        ),
        "{message}"
    );
    secret(&session, "value.yaml", &one.kubeconfig).await;
    one.value("a", Some("there")).await;
    session.ready("apps", &session.commit(&[])).await;
    let changed = json!({ "stringData": { "value.yaml": two.kubeconfig } });
    session.merge::<Secret>(HOME, "other", changed).await;
    two.value("a", Some("there")).await;
    // as in Flux, objects in the old cluster stay there
    one.value("a", Some("there")).await;
    session.end().await;
    one.cluster.stop().await;
    two.cluster.stop().await;
}

#[tokio::test]
async fn spec_kube_config_is_refused_where_it_would_run_a_program_or_read_a_file() {
    let check = async |user: &str, expected: &str| {
        let session = Session::start(&[("apps/a.yaml", &*config_map("a", "there"))]).await;
        let kubeconfig = format!(
            "{{apiVersion: v1, kind: Config, current-context: a, contexts: [{{name: a, context: {{cluster: a, \
             user: a}}}}], clusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:1'}}}}], users: [{{name: \
             a, user: {user}}}]}}"
        );
        secret(&session, "value", &kubeconfig).await;
        session.kustomize("apps", "apps", elsewhere()).await;
        let message = session.fails("apps", "ReconciliationFailed").await;
        assert!(message.contains(expected), "{message}");
        session.value("default", "a", None).await;
        session.end().await;
    };
    let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never}}";
    check(
        exec,
        "users[].user.exec is refused: a Secret may not run programs",
    )
    .await;
    let file = "{tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}";
    check(
        file,
        "users[].user.tokenFile is refused: a Secret may not read files",
    )
    .await;
}

#[tokio::test]
async fn spec_service_account_name_impersonates_an_account_of_that_cluster() {
    let session = Session::start(&[("apps/a.yaml", &*config_map("a", "there"))]).await;
    let other = Other::start().await;
    secret(&session, "value", &other.kubeconfig).await;
    let spec = json!({
        "kubeConfig": { "secretRef": { "name": "other" } }, "serviceAccountName": "deployer",
    });
    session.kustomize("apps", "apps", spec).await;
    let message = session.fails("apps", "ReconciliationFailed").await;
    let expected = "User \"system:serviceaccount:flux-system:deployer\" cannot";
    assert!(message.contains(expected), "{message}");
    other.value("a", None).await;
    session.end().await;
    other.cluster.stop().await;
}

async fn account(session: &Session, name: &str) {
    let object = json!({ "metadata": { "name": name } });
    create::<ServiceAccount>(session, HOME, object).await;
}

async fn cluster(session: &Session, data: Value) {
    let metadata = json!({ "name": "other", "labels": { "reconcile.fluxcd.io/watch": "Enabled" } });
    let data: Value = data
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    create::<ConfigMap>(session, HOME, json!({ "metadata": metadata, "data": data })).await;
}

fn by_identity() -> Value {
    json!({ "kubeConfig": { "configMapRef": { "name": "other" } }, "wait": true, "retryInterval": "1s" })
}

#[tokio::test]
async fn spec_kube_config_config_map_ref_uses_an_account_of_this_cluster() {
    let (a, b) = (config_map("a", "there"), config_map("b", "there"));
    let files = [("apps/a.yaml", &*a), ("apps/b.yaml", &*b)];
    let session = Session::with(&files, Options::with_tokens()).await;
    let other = Other::trusting(&session).await;
    session.kustomize("apps", "apps", by_identity()).await;
    let message = session.fails("apps", "ReconciliationFailed").await;
    let absent = "failed to build kube client: failed to get configmap flux-system/other: ";
    assert!(message.starts_with(absent), "{message}");
    cluster(&session, other.identity(Some("deployer"))).await;
    let passes = |expected: &'static str| {
        move |status: &equate_api::kustomize::KustomizationStatus| {
            crate::session::ready(status).1.contains(expected)
        }
    };
    let nobody = "failed to create kubernetes token for service account 'flux-system/deployer': \
                  serviceaccounts \"deployer\" not found";
    session.until("apps", nobody, passes(nobody)).await;
    account(&session, "deployer").await;
    let forbidden = "User \"system:serviceaccount:flux-system:deployer\" cannot";
    session.until("apps", forbidden, passes(forbidden)).await;
    other.value("a", None).await;
    other.admit("deployer").await;
    session.ready("apps", &session.commit(&[])).await;
    // it is watched there with the same token
    let maps: Api<ConfigMap> = Api::namespaced(other.client.clone(), "default");
    let by_hand = Patch::Merge(json!({ "data": { "value": "by hand" } }));
    maps.patch("a", &PatchParams::default(), &by_hand).await.unwrap();
    other.value("a", Some("there")).await;
    session.value("default", "a", None).await;
    let revision = session.commit(&[("apps/b.yaml", None)]);
    session.ready("apps", &revision).await;
    other.value("b", None).await;
    session.delete::<Kustomization>(HOME, "apps").await;
    other.value("a", None).await;
    session.end().await;
    other.cluster.stop().await;
}

#[tokio::test]
async fn default_kubeconfig_service_account_applies_where_none_is_named() {
    let mut options = Options::with_tokens();
    options.policy.default_kubeconfig_service_account = Some("default-deployer".to_owned());
    let session = Session::with(&[("apps/a.yaml", &*config_map("a", "there"))], options).await;
    let other = Other::trusting(&session).await;
    account(&session, "default-deployer").await;
    other.admit("default-deployer").await;
    cluster(&session, other.identity(None)).await;
    session.kustomize("apps", "apps", by_identity()).await;
    other.value("a", Some("there")).await;
    session.end().await;
    other.cluster.stop().await;
}

#[tokio::test]
async fn spec_kube_config_config_map_ref_is_refused_by_name() {
    let files = [("apps/a.yaml", &*config_map("a", "there"))];
    let session = Session::with(&files, Options::with_tokens()).await;
    let other = Other::start().await;
    account(&session, "deployer").await;
    cluster(&session, json!({ "provider": "aws" })).await;
    session.kustomize("apps", "apps", by_identity()).await;
    let says = async |data: Value, expected: &str| {
        session
            .merge::<ConfigMap>(HOME, "other", json!({ "data": data }))
            .await;
        let passes = |status: &equate_api::kustomize::KustomizationStatus| {
            crate::session::ready(status).1.contains(expected)
        };
        session.until("apps", expected, passes).await;
    };
    says(json!({}), "provider 'aws' is not supported").await;
    says(json!({ "provider": "generic" }), "cluster address is required").await;
    says(
        json!({ "address": "http://127.0.0.1:1" }),
        "must use https scheme",
    )
    .await;
    says(
        json!({ "address": "127.0.0.1:1" }),
        "names no 'serviceAccountName'",
    )
    .await;
    let elsewhere = "../../platform/serviceaccounts/admin";
    let expected = "is not a name that a ServiceAccount can have";
    says(json!({ "serviceAccountName": elsewhere }), expected).await;
    // a cluster that does not know the token
    says(other.identity(Some("deployer")), "Unauthorized").await;
    other.value("a", None).await;
    session.value("default", "a", None).await;
    session.end().await;
    other.cluster.stop().await;
}

#[tokio::test]
async fn a_refused_token_is_requested_again() {
    let files = [("apps/a.yaml", &*config_map("a", "one"))];
    let session = Session::with(&files, Options::with_tokens()).await;
    let (address, authority, _serving) = session.address().await;
    let admin: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "deployer" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "name": "deployer", "namespace": HOME }],
    }))
    .unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(session.client.clone());
    bindings.create(&PostParams::default(), &admin).await.unwrap();
    account(&session, "deployer").await;
    let identity = json!({
        "provider": "generic", "address": address, "ca.crt": authority, "serviceAccountName": "deployer",
        "audiences": "https://kubernetes.default.svc",
    });
    cluster(&session, identity).await;
    session.kustomize("apps", "apps", by_identity()).await;
    session.ready("apps", &session.commit(&[])).await;
    // an account of the same name with another uid
    session.delete::<ServiceAccount>(HOME, "deployer").await;
    account(&session, "deployer").await;
    let revision = session.commit(&[("apps/a.yaml", Some(&*config_map("a", "two")))]);
    session.ready("apps", &revision).await;
    session.value("default", "a", Some("two")).await;
    session.end().await;
}

#[tokio::test]
async fn a_config_map_gives_no_token_without_the_feature_gate() {
    let mut session = Session::start(&[("apps/a.yaml", &*config_map("a", "there"))]).await;
    let other = Other::trusting(&session).await;
    account(&session, "deployer").await;
    other.admit("deployer").await;
    cluster(&session, other.identity(Some("deployer"))).await;
    session.kustomize("apps", "apps", by_identity()).await;
    let message = session.fails("apps", "ReconciliationFailed").await;
    assert!(
        message.contains("enables it with --feature-gates=ObjectLevelWorkloadIdentity=true"),
        "{message}"
    );
    other.value("a", None).await;
    let mut options = Options::with_tokens();
    let hosts = &mut options.policy.workload_identity.hosts;
    hosts.insert("other.example.com".to_owned());
    session.engine(options).await;
    let refused = |status: &equate_api::kustomize::KustomizationStatus| {
        let (_, message) = crate::session::ready(status);
        message.contains("`equate controllers` allows it with --workload-identity-hosts")
    };
    session.until("apps", "the host is refused", refused).await;
    other.value("a", None).await;
    session.engine(Options::with_tokens()).await;
    other.value("a", Some("there")).await;
    session.end().await;
    other.cluster.stop().await;
}
