//! A cluster, one owner, and a controller's state between runs: text in, text out.

use equate_apply::cluster::{Applied, Cluster, Execution};
use equate_apply::desired::Desired;
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::observed::Observed;
use equate_apply::owner::{Owner, OwnerKind};
use equate_apply::plan::{Live, Memory, Options, Plan, Presence, plan};
use equate_manifest::object::Object;
use equate_manifest::yaml;
use kube::Client;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) struct World {
    /// Stops the cluster on drop.
    _cluster: Arc<equate_testkit::cluster::Cluster>,
    pub(crate) client: Client,
    pub(crate) cluster: Cluster,
    pub(crate) owner: Owner,
    pub(crate) inventory: Inventory,
    pub(crate) memory: Memory,
    pub(crate) claims: BTreeSet<(ObjectId, Owner)>,
    pub(crate) contenders: BTreeMap<ObjectId, Owner>,
    pub(crate) force: bool,
    /// Whether live objects are read before a plan; otherwise they are unknown.
    pub(crate) look: bool,
    pub(crate) allow_empty: Option<String>,
}

pub(crate) static KUSTOMIZATION: OwnerKind = OwnerKind {
    kind: "Kustomization",
    field_manager: "kustomize-controller",
    name_label: "kustomize.toolkit.fluxcd.io/name",
    namespace_label: "kustomize.toolkit.fluxcd.io/namespace",
};

impl World {
    pub(crate) async fn start() -> World {
        let name = std::env::var("EQUATE_TESTS_ON").unwrap_or_else(|_| "embedded".to_owned());
        let cluster = equate_testkit::cluster::Cluster::named(&name, &mut |line| println!("{line}"))
            .await
            .unwrap();
        let client = cluster.client().unwrap();
        World {
            cluster: Cluster::new(client.clone()),
            client,
            _cluster: Arc::new(cluster),
            owner: Owner::new(&KUSTOMIZATION, "flux-system", "apps"),
            inventory: Inventory::default(),
            memory: Memory::default(),
            claims: BTreeSet::new(),
            contenders: BTreeMap::new(),
            force: false,
            look: true,
            allow_empty: None,
        }
    }

    pub(crate) fn other(&self, name: &str) -> World {
        World {
            _cluster: Arc::clone(&self._cluster),
            client: self.client.clone(),
            cluster: Cluster::new(self.client.clone()),
            owner: Owner::new(&KUSTOMIZATION, "flux-system", name),
            inventory: Inventory::default(),
            memory: Memory::default(),
            claims: BTreeSet::new(),
            contenders: BTreeMap::new(),
            force: self.force,
            look: self.look,
            allow_empty: None,
        }
    }

    pub(crate) async fn run(&mut self, manifests: &str) -> String {
        let (plan, desired) = self.plan(manifests).await;
        self.inventory = plan.write_ahead(&desired, &self.inventory);
        let (owner, claims, contenders, confirmed) = (
            self.owner.clone(),
            self.claims.clone(),
            self.contenders.clone(),
            self.allow_empty.clone(),
        );
        let options = options(&owner, &claims, &contenders, confirmed.as_deref());
        let mut execution = Execution::new(&options);
        execution.force = self.force;
        let mut text = plan.to_string();
        for stage in &plan.stages {
            let applied = self.cluster.apply_stage(stage, &desired, &execution).await;
            applied.remember_in(&mut self.memory);
            say(&mut text, &applied);
            if !applied.succeeded() {
                return text;
            }
            self.definitions_established(&desired).await;
        }
        let pruned = self.cluster.prune(&plan.prune, &execution).await;
        say(&mut text, &pruned);
        self.inventory = plan.inventory(&desired, &self.inventory);
        for failure in pruned.failures() {
            self.inventory.insert(failure.id.clone(), "v1");
        }
        text
    }

    pub(crate) async fn plan(&mut self, manifests: &str) -> (Plan, Vec<Desired>) {
        let desired = self.desired(manifests).await;
        let live = self.live(&desired).await;
        let owner = self.owner.clone();
        let plan = plan(
            &desired,
            &self.inventory,
            &live,
            &self.memory,
            &self.options(&owner),
        );
        (plan, desired)
    }

    pub(crate) fn options<'a>(&'a self, owner: &'a Owner) -> Options<'a> {
        options(owner, &self.claims, &self.contenders, self.allow_empty.as_deref())
    }

    pub(crate) async fn desired(&self, manifests: &str) -> Vec<Desired> {
        let mut objects = objects(manifests);
        self.cluster
            .assign_namespaces(&mut objects, Some("default"))
            .await
            .unwrap();
        objects
            .into_iter()
            .map(|object| Desired::new(object, &self.owner, Some("apps.yaml".to_owned())))
            .collect()
    }

    async fn live(&self, desired: &[Desired]) -> Live {
        let mut live = Live::default();
        if !self.look {
            return live;
        }
        let wanted = desired.iter().map(|d| {
            let version = d.object.api_version().rsplit('/').next().unwrap_or_default();
            (d.id.clone(), version.to_owned())
        });
        let before = self.inventory.iter().map(|(id, v)| (id.clone(), v.to_owned()));
        for (id, version) in wanted.chain(before) {
            let object = self.cluster.get(&id, &version, DEADLINE).await.unwrap();
            let presence = match object {
                Some(object) => Presence::Present(Arc::new(Observed::of(&object, &KUSTOMIZATION))),
                None => Presence::Absent,
            };
            live.insert(id, presence);
        }
        live
    }

    pub(crate) async fn get(&self, inventory_id: &str, version: &str) -> Option<Object> {
        let id = ObjectId::from_inventory(inventory_id).unwrap();
        self.cluster.get(&id, version, DEADLINE).await.unwrap()
    }

    pub(crate) async fn value(&self, inventory_id: &str, version: &str, pointer: &str) -> String {
        match self.get(inventory_id, version).await {
            None => "absent".to_owned(),
            Some(object) => {
                let value = object.into_value();
                value.pointer(pointer).cloned().unwrap_or_default().to_string()
            }
        }
    }

    pub(crate) async fn send(&self, method: &str, uri: &str, content_type: &str, body: &str) -> String {
        let request = http::Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", content_type)
            .body(body.as_bytes().to_vec())
            .unwrap();
        self.client.request_text(request).await.unwrap()
    }

    /// A stage waits until the one before is healthy; of these kinds only definitions take time.
    async fn definitions_established(&self, desired: &[Desired]) {
        let definitions = desired
            .iter()
            .filter(|d| &*d.id.kind == "CustomResourceDefinition");
        for definition in definitions {
            let deadline = tokio::time::Instant::now() + DEADLINE;
            loop {
                let object = self
                    .cluster
                    .get(&definition.id, "v1", DEADLINE)
                    .await
                    .unwrap()
                    .unwrap();
                let observed = Observed::of(&object, &KUSTOMIZATION);
                if observed.health.status == equate_apply::health::Status::Current {
                    break;
                }
                assert!(tokio::time::Instant::now() < deadline, "{observed:?}");
                tokio::task::yield_now().await;
            }
        }
    }
}

fn options<'a>(
    owner: &'a Owner,
    claims: &'a BTreeSet<(ObjectId, Owner)>,
    contenders: &'a BTreeMap<ObjectId, Owner>,
    confirmed: Option<&'a str>,
) -> Options<'a> {
    let mut options = Options::new(owner, "main@sha1:1");
    options.claims = claims;
    options.contenders = contenders;
    options.allow_empty = confirmed;
    options
}

pub(crate) fn objects(manifests: &str) -> Vec<Object> {
    yaml::load(manifests, &yaml::Options::default())
        .unwrap()
        .into_iter()
        .filter_map(|document| Object::from_value(document.value))
        .collect()
}

pub(crate) fn say(text: &mut String, applied: &Applied) {
    for outcome in applied.outcomes() {
        match outcome.result() {
            Ok(done) => {
                if !matches!(&done.action, equate_apply::cluster::Action::Kept(_)) || done.observed.is_some()
                {
                    text.push_str(&format!("= {} {}\n", outcome.id(), done.action));
                }
                for warning in &done.warnings {
                    text.push_str(&format!("  warning: {warning}\n"));
                }
            }
            Err(failure) => text.push_str(&format!("! {failure}: {}\n", failure.error)),
        }
    }
}

pub(crate) fn check(what: &str, got: &str, expected: &str) {
    let clean = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| line.trim_end().to_owned())
            .filter(|line| !line.trim().is_empty())
            .collect()
    };
    let expected = clean(expected);
    let indent = expected
        .iter()
        .map(|line| line.len() - line.trim_start().len())
        .min()
        .unwrap_or_default();
    let expected: Vec<String> = expected.iter().map(|line| line[indent..].to_owned()).collect();
    let got = clean(got);
    assert_eq!(
        got.join("\n"),
        expected.join("\n"),
        "{what}: got\n{}\nexpected\n{}\n",
        got.join("\n"),
        expected.join("\n")
    );
}
