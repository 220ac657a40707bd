use super::*;
use crate::store::{Change, Expect, Key, Store};
use serde_json::json;

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn pod(requests: &Value) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "a"},
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]},
    })
}

fn quota(hard: &Value, used: &Value) -> Value {
    json!({
        "metadata": {"name": "q", "namespace": "a"},
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": used},
    })
}

fn pods() -> Measured {
    Measured::new(ResourceId::new("", "pods"))
}

fn charged(quota: &Value, object: &Value, stored: Option<&Value>) -> Result<Option<Value>, String> {
    let charges = charge(&pods(), [(quota, 7)].into_iter(), object, stored, now())?;
    Ok(charges
        .into_iter()
        .next()
        .map(|one| one.quota["status"]["used"].clone()))
}

#[test]
fn fitting_pod_is_charged() {
    let hard = json!({"pods": "2", "requests.cpu": "1", "requests.example.com/gpu": "3", "services": "1"});
    let used = json!({"pods": "1", "requests.cpu": "250m", "requests.example.com/gpu": "0", "services": "1"});
    let object = pod(&json!({"cpu": "500m", "example.com/gpu": "2"}));
    let expected =
        json!({"pods": "2", "requests.cpu": "750m", "requests.example.com/gpu": "2", "services": "1"});
    assert_eq!(charged(&quota(&hard, &used), &object, None), Ok(Some(expected)));
}

#[test]
fn pod_above_the_limit_is_refused_with_upstreams_words() {
    let hard = json!({"cpu": "1", "memory": "1Gi", "pods": "5"});
    let used = json!({"cpu": "500m", "memory": "900Mi", "pods": "1"});
    let object = pod(&json!({"cpu": "600m", "memory": "100Mi"}));
    assert_eq!(
        charged(&quota(&hard, &used), &object, None),
        Err("exceeded quota: q, requested: cpu=600m, used: cpu=500m, limited: cpu=1".to_owned())
    );
    assert_eq!(
        charged(&quota(&hard, &used), &pod(&json!({"memory": "1Mi"})), None),
        Err("failed quota: q: must specify cpu for: main".to_owned())
    );
    assert_eq!(
        charged(&quota(&hard, &json!({})), &object, None),
        Err("status unknown for quota: q, resources: cpu,memory,pods".to_owned())
    );
}

#[test]
fn scopes_select_pods() {
    let mut scoped = quota(&json!({"pods": "1"}), &json!({"pods": "1"}));
    let best_effort = pod(&json!({}));
    let burstable = pod(&json!({"cpu": "1"}));
    scoped["spec"]["scopes"] = json!(["BestEffort"]);
    assert_eq!(charged(&scoped, &burstable, None), Ok(None));
    assert!(charged(&scoped, &best_effort, None).is_err());
    scoped["spec"] = json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [
        {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]},
    ]}});
    let mut high = burstable.clone();
    assert_eq!(charged(&scoped, &high, None), Ok(None));
    high["spec"]["priorityClassName"] = json!("high");
    assert!(charged(&scoped, &high, None).is_err());
}

#[test]
fn update_is_charged_only_when_it_changes_the_scope() {
    let quota = quota(&json!({"pods": "5"}), &json!({"pods": "1"}));
    let stored = pod(&json!({}));
    let mut terminating = stored.clone();
    assert_eq!(charged(&quota, &stored, Some(&stored)), Ok(None));
    terminating["spec"]["activeDeadlineSeconds"] = json!(10);
    let mut scoped = quota.clone();
    scoped["spec"]["scopes"] = json!(["Terminating"]);
    assert_eq!(
        charged(&scoped, &terminating, Some(&stored)),
        Ok(Some(json!({"pods": "2"})))
    );
}

#[test]
fn node_ports_and_storage_classes_count() {
    let services = Measured::new(ResourceId::new("", "services"));
    let service = json!({"spec": {"type": "LoadBalancer", "ports": [{}, {"nodePort": 30001}]}});
    let used = services.usage(&service, now());
    assert_eq!(to_value(&used)["services.nodeports"], json!("2"));
    let without = json!({"spec": {
        "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{}, {"nodePort": 30001}],
    }});
    assert_eq!(
        to_value(&services.usage(&without, now()))["services.nodeports"],
        json!("1")
    );
    let claims = Measured::new(ResourceId::new("", "persistentvolumeclaims"));
    let claim = json!({"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "2Gi"}}}});
    let used = to_value(&claims.usage(&claim, now()));
    assert_eq!(
        used["fast.storageclass.storage.k8s.io/requests.storage"],
        json!("2Gi")
    );
    assert_eq!(used["count/persistentvolumeclaims"], json!("1"));
}

#[test]
fn init_containers_run_beside_their_sidecars() {
    let cpu = |amount: &str| json!({"requests": {"cpu": amount}});
    let object = json!({"spec": {
        "overhead": {"cpu": "10m"},
        "initContainers": [
            {"name": "s", "restartPolicy": "Always", "resources": cpu("100m")},
            {"name": "i", "resources": cpu("700m")},
        ],
        "containers": [{"name": "c", "resources": cpu("200m")}],
    }});
    assert_eq!(pod::requests(&object)["cpu"].to_string(), "810m");
}

#[tokio::test]
async fn status_measures_the_namespace() {
    let store = Store::in_memory();
    let put = |plural: &str, group: &str, name: &str, object: Value| Change::Put {
        key: Key::new(&ResourceId::new(group, plural), "a", name),
        object,
        expect: Expect::Absent,
    };
    let mut ended = pod(&json!({"cpu": "1"}));
    ended["status"] = json!({"phase": "Succeeded"});
    store
        .commit(vec![
            put("pods", "", "one", pod(&json!({"cpu": "1"}))),
            put("pods", "", "two", ended),
            put("replicasets", "apps", "r", json!({"metadata": {}})),
            put("secrets", "", "s", json!({"metadata": {}})),
        ])
        .await
        .unwrap();
    let hard = json!({"cpu": "4", "pods": "4", "count/pods": "4", "count/replicasets.apps": "4", "secrets": "2", "configmaps": "1", "widgets": "1"});
    let object = json!({"spec": {"hard": hard}});
    let status = measured_status(&object, "a", &store.snapshot(), now());
    let expected = json!({"cpu": "1", "pods": "1", "count/pods": "2", "count/replicasets.apps": "1", "secrets": "1", "configmaps": "0"});
    assert_eq!(status, json!({"hard": hard, "used": expected}));
}

fn range() -> Value {
    json!({"spec": {"limits": [
        {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m", "memory": "1Mi"},
         "max": {"cpu": "2"}, "min": {"memory": "1Mi"}, "maxLimitRequestRatio": {"cpu": "10"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
    ]}})
}

#[test]
fn limit_range_completes_containers() {
    let mut object = json!({"metadata": {}, "spec": {"containers": [
        {"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}},
    ]}});
    apply_defaults(&range(), &mut object);
    let expected = json!({"requests": {"cpu": "100m", "memory": "1Mi"}, "limits": {"cpu": "1"}});
    assert_eq!(object["spec"]["containers"][0]["resources"], expected);
    assert_eq!(
        object["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        json!(
            "LimitRanger plugin set: cpu, memory request for container a; cpu limit for container a; memory request for container b"
        )
    );
    assert_eq!(check_limits(&range(), "pods", &object), Ok(()));
}

#[test]
fn limit_range_refuses_with_upstreams_words() {
    let object = |cpu: &str| {
        json!({"spec": {"containers": [{"name": "a", "resources": {
            "requests": {"cpu": "100m", "memory": "1Mi"}, "limits": {"cpu": cpu},
        }}]}})
    };
    let check = |object: &Value| check_limits(&range(), "pods", object).unwrap_err();
    assert_eq!(
        check(&object("3")),
        "[maximum cpu usage per Container is 2, but limit is 3, cpu max limit to request ratio per Container is 10, but provided ratio is 30.000000]"
    );
    assert_eq!(
        check(&object("1500m")),
        "cpu max limit to request ratio per Container is 10, but provided ratio is 15.000000"
    );
    let claim = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    assert_eq!(
        check_limits(&range(), "persistentvolumeclaims", &claim).unwrap_err(),
        "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"
    );
}
