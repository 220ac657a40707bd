//! Objects of many kinds as people write them: an applied object is recognised after a restart.

use crate::world::{World, check};
use std::path::PathBuf;

const OBJECTS: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: all, labels: {pod-security.kubernetes.io/enforce: baseline}}
---
apiVersion: v1
kind: Service
metadata: {name: headless, namespace: all}
spec: {clusterIP: None, selector: {a: b}, ports: [{name: http, port: 80, targetPort: http}, {name: dns, port: 53, protocol: UDP}]}
---
apiVersion: v1
kind: Service
metadata: {name: external, namespace: all}
spec: {type: ExternalName, externalName: example.org}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: sa, namespace: all}
imagePullSecrets: [{name: pull}]
automountServiceAccountToken: false
---
apiVersion: v1
kind: Secret
metadata: {name: s, namespace: all}
type: kubernetes.io/basic-auth
data: {username: YQ==}
stringData: {password: p}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: all}
spec: {hard: {pods: "100", requests.cpu: "100000m", requests.memory: 1024Gi}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: l, namespace: all}
spec: {limits: [{type: Container, default: {cpu: 0.5, memory: 512Mi}, defaultRequest: {cpu: 100m}}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: p, namespace: all}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}, storageClassName: ""}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: all}
spec:
  serviceName: headless
  replicas: 1
  selector: {matchLabels: {a: b}}
  updateStrategy: {type: RollingUpdate}
  template:
    metadata: {labels: {a: b}}
    spec:
      securityContext: {fsGroup: 1000}
      initContainers: [{name: init, image: busybox, command: ["true"]}]
      containers:
      - name: db
        image: db:1
        ports: [{containerPort: 5432, name: sql}]
        envFrom: [{configMapRef: {name: c}}]
        livenessProbe: {tcpSocket: {port: sql}, periodSeconds: 10}
        volumeMounts: [{name: data, mountPath: /data}]
        securityContext: {capabilities: {drop: [ALL]}}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: all}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: agent, image: agent, resources: {}}]
      volumes: [{name: host, hostPath: {path: /var, type: ""}}]
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: all}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec: {restartPolicy: OnFailure, containers: [{name: c, image: c, ports: [{containerPort: 80}]}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: all}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: all}
spec: {maxUnavailable: 25%, selector: {matchLabels: {a: b}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: all}
spec:
  tls: [{hosts: [a.example.org], secretName: tls}]
  rules:
  - host: a.example.org
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: all}
spec: {podSelector: {}, policyTypes: [Ingress], ingress: []}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: allow, namespace: all}
spec: {podSelector: {}, ingress: [{}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: all:aggregated}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {all: "true"}}]}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: r, namespace: all}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: rb, namespace: all}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}
subjects: [{kind: ServiceAccount, name: sa, namespace: all}, {kind: User, name: u}]
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: example.org/fast
parameters: {type: ssd}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high-all}
value: 1000
globalDefault: false
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: all}
spec: {controller: example.org/ingress}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: all}
webhooks:
- name: a.example.org
  sideEffects: None
  admissionReviewVersions: [v1]
  failurePolicy: Ignore
  clientConfig: {service: {name: hook, namespace: all}}
  rules: [{apiGroups: [x.example.org], apiVersions: [v1], operations: [CREATE], resources: [things]}]
  namespaceSelector: {}
"#;

/// A restart loses the memory. Four kinds then cost an apply that changes nothing: the API server fills
/// in items of their atomic lists.
#[tokio::test]
async fn built_in_kinds_are_known_after_a_restart() {
    let mut world = World::start().await;
    let first = world.run(OBJECTS).await;
    assert!(!first.contains("\n! "), "{first}");
    let again = world.run(OBJECTS).await;
    let changed: Vec<_> = again
        .lines()
        .filter(|line| !line.ends_with("(unchanged)"))
        .collect();
    assert_eq!(changed.join("\n"), "", "remembered");
    world.memory = Default::default();
    let restarted = world.run(OBJECTS).await;
    let changed: Vec<_> = restarted
        .lines()
        .filter(|line| !line.ends_with("(unchanged)"))
        .collect();
    check(
        "restarted",
        &changed.join("\n"),
        "
        patch RoleBinding/all/rb (changed)
        patch LimitRange/all/l (changed)
        patch StatefulSet/all/db (changed)
        patch ValidatingWebhookConfiguration/all (changed)
        = RoleBinding/all/rb unchanged
        = LimitRange/all/l unchanged
        = StatefulSet/all/db unchanged
        = ValidatingWebhookConfiguration/all unchanged
        ",
    );
}

/// Large definitions, with many fields set by the API server.
#[tokio::test]
async fn definitions_are_known_after_a_restart() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/flux-crds");
    let Ok(files) = std::fs::read_dir(&folder) else {
        println!("skipped: no shared reference material");
        return;
    };
    let manifests: String = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| format!("---\n{}\n", std::fs::read_to_string(path).unwrap()))
        .collect();
    let mut world = World::start().await;
    let first = world.run(&manifests).await;
    assert_eq!(first.matches(" created").count(), 15, "{first}");
    world.memory = Default::default();
    let restarted = world.run(&manifests).await;
    assert_eq!(restarted.matches(" (unchanged)").count(), 15, "{restarted}");
}
