//! Tenants of a shared cluster: a tenant's Kustomization writes, reads and deletes with the rights of its
//! ServiceAccount only, learns nothing else, and blocks nobody. One test for each attempted escape.

use equate_api::kustomize::{Kustomization, KustomizationStatus};
use equate_api::meta::{ConditionType, condition};
use equate_api::source::{GitRepository, OciRepository};
use equate_controllers::Policy;
use equate_controllers::policy::ArtifactServers;
use equate_testkit::eventually::eventually;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{CustomResourceExt as _, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::artifact_server::{ArtifactServer, published};
pub(crate) use crate::session::config_map_in as map;
use crate::session::{
    DEADLINE, Options, Session, deployment, document, inventory, kustomization, ready, said,
};

pub(crate) async fn create<K>(session: &Session, namespace: &str, object: Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Serialize
        + std::fmt::Debug,
{
    let object: K = serde_json::from_str(&session.here(&object.to_string())).unwrap();
    let api: Api<K> = Api::namespaced(session.client.clone(), &session.here(namespace));
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// A namespace with the ServiceAccount `deployer`, which has all rights on ConfigMaps, Deployments, Roles
/// and RoleBindings there.
pub(crate) async fn tenant(session: &Session, name: &str) {
    session.namespace(name).await;
    create::<ServiceAccount>(session, name, json!({ "metadata": { "name": "deployer" } })).await;
    allow(session, name, name).await;
}

async fn allow(session: &Session, tenant: &str, namespace: &str) {
    let rules = json!([
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"] },
        { "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"] },
        { "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["get", "create", "update", "patch", "delete"] },
    ]);
    let role = json!({ "metadata": { "name": tenant }, "rules": rules });
    create::<Role>(session, namespace, role).await;
    let binding = json!({
        "metadata": { "name": tenant },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": tenant },
        "subjects": [{ "kind": "ServiceAccount", "name": "deployer", "namespace": tenant }],
    });
    create::<RoleBinding>(session, namespace, binding).await;
    let (user, path) = (
        format!("system:serviceaccount:{tenant}:deployer"),
        format!("/api/v1/namespaces/{namespace}/configmaps"),
    );
    session.may(&user, &path).await;
}

/// A Kustomization of the tenant: of a directory of `fleet`, as `deployer` unless the spec says otherwise.
pub(crate) async fn kustomize(session: &Session, tenant: &str, path: &str, spec: Value) {
    let mut all = json!({
        "serviceAccountName": "deployer",
        "retryInterval": "2s",
        "sourceRef": { "kind": "GitRepository", "name": "fleet", "namespace": "@home" },
    });
    for (field, value) in spec.as_object().unwrap() {
        all[field] = value.clone();
    }
    if all["serviceAccountName"].is_null() {
        all.as_object_mut().unwrap().remove("serviceAccountName");
    }
    let all = serde_json::from_str(&session.here(&all.to_string())).unwrap();
    let mut object = kustomization("app", path, all);
    object.metadata.namespace = Some(session.here(tenant));
    object.metadata.labels = serde_json::from_value(session.labels()).unwrap();
    let api: Api<Kustomization> = Api::namespaced(session.client.clone(), &session.here(tenant));
    api.create(&PostParams::default(), &object).await.unwrap();
}

pub(crate) async fn absent(session: &Session, namespace: &str, name: &str) {
    let found: Option<ConfigMap> = session.get(namespace, name).await;
    assert_eq!(found, None, "{namespace}/{name}");
}

#[tokio::test]
async fn spec_service_account_name_applies_corrects_and_prunes_with_its_rights() {
    let files = [
        ("app/a.yaml", map("@home-a", "a", "one")),
        ("app/b.yaml", map("@home-a", "b", "one")),
    ];
    let session = Session::anywhere(&[(files[0].0, &*files[0].1), (files[1].0, &*files[1].1)]).await;
    tenant(&session, "@home-a").await;
    kustomize(&session, "@home-a", "app", json!({ "wait": true })).await;
    let revision = session.commit(&[]);
    session.ready("@home-a/app", &revision).await;
    // the object watcher covers its own objects
    session
        .merge::<ConfigMap>("@home-a", "a", json!({ "data": { "value": "by hand" } }))
        .await;
    session.value("@home-a", "a", Some("one")).await;
    session.delete::<ConfigMap>("@home-a", "a").await;
    session.value("@home-a", "a", Some("one")).await;
    let revision = session.commit(&[("app/b.yaml", None)]);
    let status = session.ready("@home-a/app", &revision).await;
    assert_eq!(inventory(&status), [session.here("@home-a_a__ConfigMap")]);
    session.value("@home-a", "b", None).await;
    session.delete::<Kustomization>("@home-a", "app").await;
    session.value("@home-a", "a", None).await;
    session.end().await;
}

/// Whatever a tenant writes, the rights of its account limit it; `expected` is in the message.
async fn check_refused(files: &[(&str, &str)], spec: Value, target: (&str, &str), expected: &str) {
    let session = Session::anywhere(files).await;
    tenant(&session, "@home-a").await;
    session.namespace("@home-platform").await;
    kustomize(&session, "@home-a", "app", spec).await;
    let message = session.fails("@home-a/app", "ReconciliationFailed").await;
    assert!(message.contains(&session.here(expected)), "{message}");
    absent(&session, target.0, target.1).await;
    session.end().await;
}

const FORBIDDEN: &str = "User \"system:serviceaccount:@home-a:deployer\" cannot";

#[tokio::test]
async fn an_object_in_another_namespace_is_refused() {
    let a = map("@home-platform", "a", "one");
    check_refused(
        &[("app/a.yaml", &a)],
        json!({}),
        ("@home-platform", "a"),
        FORBIDDEN,
    )
    .await;
}

#[tokio::test]
async fn target_namespace_grants_no_rights() {
    let a = map("@home-a", "a", "one");
    let spec = json!({ "targetNamespace": "@home-platform" });
    check_refused(&[("app/a.yaml", &a)], spec, ("@home-platform", "a"), FORBIDDEN).await;
}

#[tokio::test]
async fn a_patch_of_the_namespace_grants_no_rights() {
    let a = map("@home-a", "a", "one");
    let patch = r#"[{ "op": "replace", "path": "/metadata/namespace", "value": "@home-platform" }]"#;
    let spec = json!({ "patches": [{ "patch": patch, "target": { "kind": "ConfigMap" } }] });
    check_refused(&[("app/a.yaml", &a)], spec, ("@home-platform", "a"), FORBIDDEN).await;
}

#[tokio::test]
async fn a_tenant_cannot_grant_itself_rights() {
    let role = document(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": "more", "namespace": "@home-a" },
        "rules": [{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }],
    }));
    let expected = "attempting to grant RBAC permissions not currently held";
    check_refused(&[("app/a.yaml", &role)], json!({}), ("@home-a", "more"), expected).await;
}

#[tokio::test]
async fn a_missing_account_has_no_permissions() {
    let a = map("@home-a", "a", "one");
    let spec = json!({ "serviceAccountName": "nobody" });
    let expected = "User \"system:serviceaccount:@home-a:nobody\" cannot";
    check_refused(&[("app/a.yaml", &a)], spec, ("@home-a", "a"), expected).await;
}

#[tokio::test]
async fn an_account_of_another_namespace_cannot_be_named() {
    let a = map("@home-platform", "a", "one");
    let spec = json!({ "serviceAccountName": "@home-platform:admin" });
    let expected =
        "spec.serviceAccountName \"@home-platform:admin\" is not a name that a ServiceAccount can have";
    check_refused(&[("app/a.yaml", &a)], spec, ("@home-platform", "a"), expected).await;
}

#[tokio::test]
async fn default_service_account_applies_where_none_is_named() {
    let a = map("@home-platform", "a", "one");
    let policy = Policy {
        default_service_account: Some("deployer".to_owned()),
        ..Policy::default()
    };
    let options = Options {
        policy,
        ..Options::default()
    };
    let session = Session::anywhere_with(&[("app/a.yaml", &*a)], options).await;
    tenant(&session, "@home-a").await;
    session.namespace("@home-platform").await;
    kustomize(&session, "@home-a", "app", json!({ "serviceAccountName": null })).await;
    let message = session.fails("@home-a/app", "ReconciliationFailed").await;
    assert!(message.contains(&session.here(FORBIDDEN)), "{message}");
    // new rights are tried after `retryInterval`
    allow(&session, "@home-a", "@home-platform").await;
    session.value("@home-platform", "a", Some("one")).await;
    session.end().await;
}

#[tokio::test]
async fn no_cross_namespace_refs_refuses_sources_of_others() {
    let a = map("@home-a", "a", "one");
    let policy = Policy {
        no_cross_namespace_refs: true,
        ..Policy::default()
    };
    let options = Options {
        policy,
        ..Options::default()
    };
    let b = map("@home", "b", "one");
    let session = Session::anywhere_with(&[("app/a.yaml", &*a), ("platform/b.yaml", &*b)], options).await;
    tenant(&session, "@home-a").await;
    kustomize(&session, "@home-a", "app", json!({})).await;
    let message = session.fails("@home-a/app", "AccessDenied").await;
    let expected = session
        .here("can't access 'GitRepository/@home/fleet', cross-namespace references have been blocked");
    assert_eq!(message, expected);
    let stalled = |status: &_| said(status, ConditionType::Stalled) == expected;
    session.until("@home-a/app", "stalled", stalled).await;
    absent(&session, "@home-a", "a").await;
    // one that may read its own namespace is not delayed by one that may not
    session.kustomize("platform", "platform", json!({})).await;
    session.value("@home", "b", Some("one")).await;
    session.commit(&[
        ("platform/b.yaml", None),
        ("platform/c.yaml", Some(&map("@home", "c", "one"))),
    ]);
    session.value("@home", "b", None).await;
    session.end().await;
}

#[tokio::test]
async fn a_kustomization_whose_account_is_gone_leaves_its_objects() {
    let a = map("@home-a", "a", "one");
    let session = Session::anywhere(&[("app/a.yaml", &*a)]).await;
    tenant(&session, "@home-a").await;
    kustomize(&session, "@home-a", "app", json!({})).await;
    session.value("@home-a", "a", Some("one")).await;
    session.delete::<ServiceAccount>("@home-a", "deployer").await;
    session.delete::<Kustomization>("@home-a", "app").await;
    session
        .event("@home-a/app", "unable to prune objects: \nConfigMap/@home-a/a")
        .await;
    let gone = async || match session.get::<Kustomization>("@home-a", "app").await {
        None => Ok(()),
        Some(found) => Err(format!("{:?}", found.metadata.finalizers)),
    };
    eventually("the Kustomization is gone", DEADLINE, gone).await;
    session.value("@home-a", "a", Some("one")).await;
    session.end().await;
}

#[tokio::test]
async fn spec_health_checks_reveal_only_readable_objects() {
    let a = map("@home-a", "a", "one");
    let web = deployment("web", "example.org/web:1", json!({})).replace("default", "@home");
    let session = Session::anywhere(&[("app/a.yaml", &*a), ("platform/web.yaml", &*web)]).await;
    session
        .kustomize("platform", "platform", json!({ "wait": true }))
        .await;
    session.ready("platform", &session.commit(&[])).await;
    tenant(&session, "@home-a").await;
    let checks =
        json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "@home" }]);
    let spec = json!({ "healthChecks": checks, "timeout": "2s", "retryInterval": "1s" });
    kustomize(&session, "@home-a", "app", spec).await;
    // questions beyond the time limit are asked in the next run
    let unknown = session.here("Deployment/@home/web status: 'Unknown'");
    let forbidden = session.here(FORBIDDEN);
    let refused = |status: &KustomizationStatus| {
        let (_, message) = ready(status);
        reason(status) == "HealthCheckFailed" && message.contains(&unknown) && message.contains(&forbidden)
    };
    session.until("@home-a/app", "is told nothing", refused).await;
    // with the right to watch, events arrive
    allow(&session, "@home-a", "@home").await;
    let status = session.ready("@home-a/app", &session.commit(&[])).await;
    assert!(said(&status, ConditionType::Healthy).starts_with("Health check passed"));
    session.end().await;
}

/// A platform drops an object that a tenant declares as well, without the right to write it: the object is
/// deleted.
async fn check_dropped(tenants: &str, dropped: ((&str, &str), &str)) {
    let kept = map("@home", "kept", "one");
    let session = Session::anywhere(&[
        ("app/a.yaml", tenants),
        ("platform/kept.yaml", &*kept),
        ("platform/dropped.yaml", dropped.1),
    ])
    .await;
    tenant(&session, "@home-a").await;
    session.kustomize("platform", "platform", json!({})).await;
    let first = session.commit(&[]);
    session.ready("platform", &first).await;
    kustomize(&session, "@home-a", "app", json!({})).await;
    let refused = |status: &KustomizationStatus| {
        ["ReconciliationFailed", "BuildFailed"]
            .map(str::to_owned)
            .contains(&reason(status))
    };
    session.until("@home-a/app", "refused", refused).await;
    let second = session.commit(&[("platform/dropped.yaml", None)]);
    session.ready("platform", &second).await;
    // also where the answer about the tenant's rights took longer than usual
    let kept = [session.here("@home_kept__ConfigMap")];
    let dropped_all = |status: &KustomizationStatus| {
        let quiet = [ConditionType::PruneBlocked, ConditionType::OwnershipConflict];
        inventory(status) == kept && quiet.into_iter().all(|of| said(status, of).is_empty())
    };
    session.until("platform", "keeps nothing", dropped_all).await;
    let (namespace, name) = dropped.0;
    session.value(namespace, name, None).await;
    session.end().await;
}

fn reason(status: &KustomizationStatus) -> String {
    condition(&status.conditions, ConditionType::Ready)
        .map(|ready| ready.reason.clone())
        .unwrap_or_default()
}

#[tokio::test]
async fn a_claim_without_permission_keeps_nothing() {
    let shared = map("@home", "shared", "one");
    check_dropped(&map("@home", "shared", "mine"), (("@home", "shared"), &shared)).await;
}

/// Of more kinds than are asked about at once.
#[tokio::test]
async fn a_claim_without_permission_keeps_no_namespace() {
    let old =
        document(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "@home-old" } }));
    let both = format!("{old}\n---\n{}", map("@home-old", "shared", "one"));
    let kinds = [
        ("v1", "ConfigMap"),
        ("v1", "Endpoints"),
        ("v1", "LimitRange"),
        ("v1", "ResourceQuota"),
        ("v1", "Secret"),
        ("v1", "ServiceAccount"),
        ("discovery.k8s.io/v1", "EndpointSlice"),
        ("coordination.k8s.io/v1", "Lease"),
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("policy/v1", "PodDisruptionBudget"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("networking.k8s.io/v1", "Ingress"),
    ];
    let wanted = kinds.map(|(version, kind)| {
        let metadata = json!({ "name": "mine", "namespace": "@home-old" });
        document(&json!({ "apiVersion": version, "kind": kind, "metadata": metadata }))
    });
    check_dropped(&wanted.join("\n---\n"), (("@home-old", "shared"), &both)).await;
}

#[tokio::test]
async fn an_unbuildable_one_keeps_only_objects_it_may_write() {
    let shared = map("@home", "shared", "one");
    check_dropped("kind: [", (("@home", "shared"), &shared)).await;
}

#[tokio::test]
async fn a_claim_with_permission_takes_over() {
    let (shared, kept) = (map("@home", "shared", "one"), map("@home", "kept", "one"));
    let session = Session::anywhere(&[
        ("app/a.yaml", &*map("@home-a", "a", "one")),
        ("platform/kept.yaml", &*kept),
        ("platform/shared.yaml", &*shared),
    ])
    .await;
    tenant(&session, "@home-a").await;
    allow(&session, "@home-a", "@home").await;
    session.kustomize("platform", "platform", json!({})).await;
    kustomize(&session, "@home-a", "app", json!({})).await;
    session.value("@home-a", "a", Some("one")).await;
    session.value("@home", "shared", Some("one")).await;
    let uid = async || {
        let found: Option<ConfigMap> = session.get("@home", "shared").await;
        found.unwrap().metadata.uid
    };
    let before = uid().await;
    let moved = map("@home", "shared", "two");
    let revision = session.commit(&[("platform/shared.yaml", None), ("app/shared.yaml", Some(&*moved))]);
    session.value("@home", "shared", Some("two")).await;
    session.ready("@home-a/app", &revision).await;
    assert_eq!(uid().await, before);
    session.end().await;
}

async fn forged<K>(session: &Session, name: &str, spec: Value, artifact: &Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Serialize
        + std::fmt::Debug,
{
    let mut object = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "metadata": { "name": name, "labels": session.labels() },
        "spec": spec,
    });
    if K::kind(&()) == OciRepository::kind(&()) {
        // of another process
        object["metadata"]["labels"]["far"] = json!("yes");
    }
    let api: Api<K> = Api::namespaced(session.client.clone(), &session.here("@home-a"));
    let served = async || {
        let object: K = serde_json::from_value(object.clone()).unwrap();
        api.create(&PostParams::default(), &object).await
    };
    eventually("the kind is served", DEADLINE, served).await;
    let status = Patch::Merge(json!({ "status": { "artifact": artifact } }));
    let params = PatchParams::default();
    api.patch_status(name, &params, &status).await.unwrap();
}

/// The tenant's Kustomization of a source says this and applies nothing.
async fn opens_nothing(session: &Session, kind: &str, source: &str, expected: &str) {
    let name = format!("{}-{source}", kind.to_lowercase());
    let spec = json!({
        "serviceAccountName": "deployer", "retryInterval": "1s", "timeout": "1s",
        "sourceRef": { "kind": kind, "name": source },
    });
    let mut object = kustomization(&name, "app", spec);
    object.metadata.namespace = Some(session.here("@home-a"));
    object.metadata.labels = serde_json::from_value(session.labels()).unwrap();
    let api: Api<Kustomization> = Api::namespaced(session.client.clone(), &session.here("@home-a"));
    api.create(&PostParams::default(), &object).await.unwrap();
    let says = |status: &KustomizationStatus| {
        let (ready, message) = ready(status);
        ready == "False" && message.contains(&session.here(expected))
    };
    session.until(&format!("@home-a/{name}"), expected, says).await;
    absent(session, "@home-a", "a").await;
}

#[tokio::test]
async fn a_forged_status_opens_no_artifact_of_another_source() {
    let options = Options {
        http_retries: Some(0),
        selector: Some("!far".to_owned()),
        ..Options::default()
    };
    let a = map("@home-a", "a", "of the platform");
    let session = Session::anywhere_with(&[("app/a.yaml", &*a)], options).await;
    tenant(&session, "@home-a").await;
    session.define(OciRepository::crd()).await;
    let fleet = async || {
        let fleet: Option<GitRepository> = session.get("@home", "fleet").await;
        fleet
            .and_then(|fleet| fleet.status?.artifact)
            .ok_or("no artifact")
    };
    let fleet = eventually("the platform has an artifact", DEADLINE, fleet).await;
    let forged_fleet = serde_json::to_value(&fleet).unwrap();

    // a repository that this process reconciles
    let git = json!({ "url": "https://local.invalid/mine", "interval": "10m", "suspend": true });
    forged::<GitRepository>(&session, "mine", git, &forged_fleet).await;
    let missing = "the store has no artifact with the digest in its status that it published";
    opens_nothing(&session, "GitRepository", "mine", missing).await;

    // the path in the store of the platform's source
    let oci = json!({ "url": "oci://registry.invalid/app", "interval": "10m" });
    forged::<OciRepository>(&session, "path", oci.clone(), &forged_fleet).await;
    let elsewhere = "is not below /ocirepository/@home-a/path/";
    opens_nothing(&session, "OCIRepository", "path", elsewhere).await;

    // the digest of an artifact that was fetched for the platform
    let server = ArtifactServer::start().await;
    let revision = format!("latest@sha256:{}", "1".repeat(64));
    let files = [("app/a.yaml", &*session.here(&a))];
    let artifact = server.publish("theirs", &revision, &files);
    let mut object = json!({ "metadata": { "name": "theirs", "labels": session.labels() }, "spec": oci });
    object["metadata"]["labels"]["far"] = json!("yes");
    create::<OciRepository>(&session, "@home", with_kind::<OciRepository>(object)).await;
    published::<OciRepository>(&session, "theirs", &artifact).await;
    let spec = json!({ "sourceRef": { "kind": "OCIRepository", "name": "theirs" } });
    session.kustomize("theirs", "nowhere", spec).await;
    let built = |status: &KustomizationStatus| ready(status).1.contains("is not in the artifact");
    session.until("theirs", "read", built).await;
    assert_eq!(server.asked("theirs"), 1);
    let mut copied = artifact.clone();
    copied["url"] = server
        .url(&session.here("ocirepository/@home-a/digest/none"))
        .into();
    forged::<OciRepository>(&session, "digest", oci, &copied).await;
    opens_nothing(&session, "OCIRepository", "digest", "artifact not found").await;
    session.end().await;
}

fn with_kind<K: Resource<DynamicType = ()>>(mut object: Value) -> Value {
    object["apiVersion"] = K::api_version(&()).into();
    object["kind"] = K::kind(&()).into();
    object
}

#[tokio::test]
async fn a_forged_status_makes_no_request_to_another_server() {
    let server = ArtifactServer::start().await;
    let allowed = ArtifactServer::start().await;
    let host = allowed.url("").replace("http://", "");
    let named = [host.trim_end_matches('/').parse().unwrap()];
    let policy = Policy {
        artifact_servers: ArtifactServers::of("flux-system", named),
        ..Policy::default()
    };
    let options = Options {
        policy,
        http_retries: Some(0),
        selector: Some("!far".to_owned()),
        ..Options::default()
    };
    let session = Session::anywhere_with(&[], options).await;
    tenant(&session, "@home-a").await;
    session.define(OciRepository::crd()).await;
    let revision = format!("latest@sha256:{}", "1".repeat(64));
    let a = session.here(&map("@home-a", "a", "one"));
    let oci = json!({ "url": "oci://registry.invalid/app", "interval": "10m" });
    let of = |server: &ArtifactServer, name: &str| {
        let mut artifact = server.publish("app", &revision, &[("app/a.yaml", &a)]);
        let path = session.here(&format!("ocirepository/@home-a/{name}/app"));
        artifact["url"] = server.url(&path).into();
        artifact
    };
    forged::<OciRepository>(&session, "internal", oci.clone(), &of(&server, "internal")).await;
    let refused = "it is no Service of namespace flux-system; if it is one, start `equate controllers` with --artifact-server=127.0.0.1";
    opens_nothing(&session, "OCIRepository", "internal", refused).await;
    assert_eq!(server.asked("app"), 0);

    forged::<OciRepository>(&session, "listed", oci, &of(&allowed, "listed")).await;
    let spec = json!({ "sourceRef": { "kind": "OCIRepository", "name": "listed" } });
    kustomize(&session, "@home-a", "app", spec).await;
    session.value("@home-a", "a", Some("one")).await;
    session.end().await;
}
