//! The store against a naive map with its full history.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::*;

/// So small that rings overflow all the time.
const HISTORY_EVENTS: usize = 6;

#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<Wish>),
    Read { place: Place, back: u64, start: Place },
    Keep { back: u64 },
    Subscribe { resource: Option<bool>, back: u64 },
    Take { which: usize },
    Unsubscribe { which: usize },
    Compact { back: u64 },
    Fork,
    Reopen,
}

#[derive(Debug, Clone)]
struct Wish {
    place: Place,
    /// `None` deletes.
    put: Option<u8>,
    last: Option<u8>,
    expect: Wanted,
}

#[derive(Debug, Clone, Copy)]
enum Wanted {
    Any,
    Absent,
    /// The model's revision before the commit, minus this.
    Current(u64),
}

/// Namespaces and names whose path order differs from the order of the pairs.
#[derive(Debug, Clone, Copy)]
struct Place {
    namespaced: bool,
    namespace: usize,
    name: usize,
}

const NAMESPACES: [&str; 4] = ["a", "a-b", "a.b", "a0"];
const NAMES: [&str; 3] = ["x", "x-1", "y"];

impl Place {
    fn resource(self) -> ResourceId {
        resource(self.namespaced)
    }

    fn namespace(self) -> &'static str {
        if self.namespaced {
            NAMESPACES[self.namespace]
        } else {
            ""
        }
    }

    fn key(self) -> Key {
        Key::new(&self.resource(), self.namespace(), NAMES[self.name])
    }
}

fn resource(namespaced: bool) -> ResourceId {
    if namespaced {
        ResourceId::new("apps", "deployments")
    } else {
        ResourceId::new("", "nodes")
    }
}

fn places() -> impl Strategy<Value = Place> {
    (any::<bool>(), 0..NAMESPACES.len(), 0..NAMES.len()).prop_map(|(namespaced, namespace, name)| Place {
        namespaced,
        namespace,
        name,
    })
}

fn wishes() -> impl Strategy<Value = Wish> {
    let expect = prop_oneof![
        3 => Just(Wanted::Any),
        1 => Just(Wanted::Absent),
        2 => Just(Wanted::Current(0)),
        1 => (1u64..4).prop_map(Wanted::Current),
    ];
    let put = proptest::option::weighted(0.7, any::<u8>());
    (places(), put, any::<Option<u8>>(), expect).prop_map(|(place, put, last, expect)| Wish {
        place,
        put,
        last,
        expect,
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let back = 0u64..12;
    let step = prop_oneof![
        12 => proptest::collection::vec(wishes(), 1..4).prop_map(Step::Commit),
        6 => (places(), back.clone(), places()).prop_map(|(place, back, start)| Step::Read { place, back, start }),
        2 => back.clone().prop_map(|back| Step::Keep { back }),
        3 => (any::<Option<bool>>(), back.clone()).prop_map(|(resource, back)| Step::Subscribe { resource, back }),
        6 => (0usize..4).prop_map(|which| Step::Take { which }),
        1 => (0usize..4).prop_map(|which| Step::Unsubscribe { which }),
        1 => back.prop_map(|back| Step::Compact { back }),
        1 => Just(Step::Fork),
        1 => Just(Step::Reopen),
    ];
    proptest::collection::vec(step, 1..80)
}

type Objects = BTreeMap<(ResourceId, String), (u64, Value)>;

#[derive(Clone, Debug, PartialEq)]
struct Happened {
    revision: u64,
    kind: EventKind,
    key: Key,
    object: Value,
    previous: Option<u64>,
}

#[derive(Clone)]
struct Model {
    /// By revision, the first being 1.
    states: Vec<Objects>,
    log: Vec<Happened>,
    floor: u64,
}

impl Model {
    fn new() -> Self {
        Self {
            states: vec![Objects::new()],
            log: Vec::new(),
            floor: 1,
        }
    }

    fn revision(&self) -> u64 {
        self.states.len() as u64
    }

    fn at(&self, revision: u64) -> &Objects {
        &self.states[usize::try_from(revision).unwrap() - 1]
    }

    fn commit(&mut self, changes: &[Change]) -> Result<Vec<Value>, String> {
        let mut next = self.clone();
        let mut written = Vec::new();
        for change in changes {
            let key = change.key();
            let (expect, is_put) = match change {
                Change::Put { expect, .. } => (*expect, true),
                Change::Delete { expect, .. } => (*expect, false),
            };
            let mut objects = next.at(next.revision()).clone();
            let place = (key.resource.clone(), key.path().to_string());
            let found = objects.get(&place).cloned();
            match (&found, expect) {
                (Some(_), Expect::Absent) => return Err(format!("{key} exists")),
                (None, Expect::Revision(_)) => return Err(format!("{key} does not exist")),
                (None, Expect::Any | Expect::Absent) if !is_put => {
                    return Err(format!("{key} does not exist"));
                }
                (Some((at, _)), Expect::Revision(revision)) if *at != revision => {
                    return Err(format!("{key} is at revision {at}, not at the expected revision"));
                }
                _ => {}
            }
            let revision = next.revision() + 1;
            let mut object = match change {
                Change::Put { object, .. }
                | Change::Delete {
                    last: Some(object), ..
                } => object.clone(),
                Change::Delete { last: None, .. } => found.clone().unwrap().1,
            };
            object["metadata"]["resourceVersion"] = json!(revision.to_string());
            if is_put {
                objects.insert(place, (revision, object.clone()));
            } else {
                objects.remove(&place);
            }
            next.states.push(objects);
            next.log.push(Happened {
                revision,
                kind: match (is_put, &found) {
                    (false, _) => EventKind::Deleted,
                    (true, None) => EventKind::Added,
                    (true, Some(_)) => EventKind::Modified,
                },
                key: key.clone(),
                object: object.clone(),
                previous: found.map(|(at, _)| at),
            });
            written.push(object);
        }
        *self = next;
        Ok(written)
    }

    /// The newest event in scope that the store may have dropped.
    fn trimmed(&self, scope: Option<&ResourceId>) -> u64 {
        [true, false]
            .map(resource)
            .iter()
            .filter(|one| scope.is_none_or(|scope| scope == *one))
            .filter_map(|one| {
                let log: Vec<_> = self
                    .log
                    .iter()
                    .filter(|event| event.key.resource == *one)
                    .collect();
                let kept = log.len().saturating_sub(HISTORY_EVENTS);
                log.iter()
                    .enumerate()
                    .filter(|(index, event)| *index < kept || event.revision <= self.floor)
                    .map(|(_, event)| event.revision)
                    .max()
            })
            .max()
            .unwrap_or(0)
    }

    fn reach(&self, scope: Option<&ResourceId>, revision: u64) -> Result<(), AtError> {
        let oldest = self.trimmed(scope).max(self.floor);
        if revision < oldest {
            Err(AtError::Expired { oldest })
        } else {
            Ok(())
        }
    }

    fn list(
        &self,
        revision: u64,
        resource: &ResourceId,
        namespace: Option<&str>,
        start: &str,
    ) -> Vec<(String, Value)> {
        self.at(revision)
            .iter()
            .filter(|((of, path), _)| of == resource && path.as_str() >= start)
            .filter(|((_, path), _)| {
                namespace.is_none_or(|namespace| {
                    namespace.is_empty() || path.starts_with(&format!("{namespace}/"))
                })
            })
            .map(|((_, path), (_, object))| (path.clone(), object.clone()))
            .collect()
    }

    fn after(&self, scope: Option<&ResourceId>, revision: u64) -> Vec<Happened> {
        self.log
            .iter()
            .filter(|event| {
                event.revision > revision && scope.is_none_or(|scope| *scope == event.key.resource)
            })
            .cloned()
            .collect()
    }
}

fn listed<'a>(list: impl Iterator<Item = (&'a ObjectPath, &'a Arc<Entry>)>) -> Vec<(String, Value)> {
    list.map(|(path, entry)| {
        assert_eq!(entry.object().to_string().as_bytes(), entry.encoded());
        (path.to_string(), entry.object().clone())
    })
    .collect()
}

/// Compares everything a snapshot shows of the resources with the model.
fn check_snapshot(snapshot: &Snapshot, model: &Model, scope: Option<&ResourceId>) {
    let mut found = Vec::new();
    for resource in [true, false].map(resource) {
        let expected = match scope {
            Some(only) if *only != resource => Vec::new(),
            _ => model.list(snapshot.revision(), &resource, None, ""),
        };
        assert_eq!(listed(snapshot.list(&resource, None)), expected, "{resource}");
        assert_eq!(snapshot.count(&resource, None), expected.len());
        if !expected.is_empty() {
            found.push(resource);
        }
    }
    found.sort();
    assert_eq!(snapshot.resources().cloned().collect::<Vec<_>>(), found);
}

struct Run<'a> {
    store: Store,
    model: Model,
    journal: Option<&'a Path>,
    kept: Vec<Snapshot>,
    /// With their scope and last seen revision.
    subscriptions: Vec<(Subscription, Option<ResourceId>, u64)>,
    /// Forked-off stores and their expected content.
    left: Vec<(Store, Model)>,
}

impl Run<'_> {
    fn open(journal: Option<&Path>) -> Store {
        Store::open(Options {
            journal: journal.map(Path::to_owned),
            history_events: HISTORY_EVENTS,
            ..Options::default()
        })
        .unwrap()
    }

    fn back(&self, back: u64) -> u64 {
        self.model.revision().saturating_sub(back).max(1)
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Commit(wishes) => {
                let before = self.model.at(self.model.revision());
                let object = |n: u8| json!({"metadata": {"name": "any"}, "spec": n});
                let changes: Vec<_> = wishes
                    .into_iter()
                    .map(|wish| {
                        let key = wish.place.key();
                        let expect = match wish.expect {
                            Wanted::Any => Expect::Any,
                            Wanted::Absent => Expect::Absent,
                            Wanted::Current(off) => before
                                .get(&(key.resource.clone(), key.path().to_string()))
                                .map_or(Expect::Any, |(at, _)| Expect::Revision(at.saturating_sub(off))),
                        };
                        match wish.put {
                            Some(n) => Change::Put {
                                key,
                                object: object(n),
                                expect,
                            },
                            None => Change::Delete {
                                key,
                                expect,
                                last: wish.last.map(object),
                            },
                        }
                    })
                    .collect();
                let expected = self.model.commit(&changes);
                let written = self.store.commit(changes).await;
                let written = written
                    .map(|entries| {
                        entries
                            .iter()
                            .map(|entry| entry.object().clone())
                            .collect::<Vec<_>>()
                    })
                    .map_err(|error| error.to_string());
                assert_eq!(written, expected);
            }
            Step::Read { place, back, start } => {
                let revision = self.back(back);
                let resource = place.resource();
                let reach = self.model.reach(Some(&resource), revision);
                let snapshot = self.store.snapshot_of(&resource, revision);
                assert_eq!(snapshot.as_ref().map(|_| ()).map_err(|error| *error), reach);
                if let Ok(snapshot) = snapshot {
                    check_snapshot(&snapshot, &self.model, Some(&resource));
                    let path = start.key().path();
                    for start in [format!("{path}"), format!("{path}\0")] {
                        for namespace in [None, Some(place.namespace())] {
                            assert_eq!(
                                listed(snapshot.list_from(&resource, namespace, &start)),
                                self.model.list(revision, &resource, namespace, &start)
                            );
                        }
                    }
                    let expected = self.model.list(revision, &resource, Some(place.namespace()), "");
                    assert_eq!(snapshot.count(&resource, Some(place.namespace())), expected.len());
                    let key = place.key();
                    let expected = self.model.at(revision).get(&(resource, key.path().to_string()));
                    let found = snapshot
                        .get(&key)
                        .map(|entry| (entry.revision, entry.object().clone()));
                    assert_eq!(found.as_ref(), expected);
                }
            }
            Step::Keep { back } => {
                let revision = self.back(back);
                let snapshot = self.store.snapshot_at(revision);
                let reach = self.model.reach(None, revision);
                assert_eq!(snapshot.as_ref().map(|_| ()).map_err(|error| *error), reach);
                self.kept.extend(snapshot);
                self.kept.push(self.store.snapshot());
            }
            Step::Subscribe { resource: of, back } => {
                let after = self.back(back);
                let scope = of.map(resource);
                let subscription = match &scope {
                    Some(resource) => self.store.subscribe(resource, after),
                    None => self.store.subscribe_all(after),
                };
                let reach = self.model.reach(scope.as_ref(), after);
                assert_eq!(subscription.as_ref().map(|_| ()).map_err(|error| *error), reach);
                self.subscriptions
                    .extend(subscription.map(|subscription| (subscription, scope, after)));
            }
            Step::Take { which } => {
                let Some((subscription, scope, seen)) = self.subscriptions.get_mut(which) else {
                    return;
                };
                let trimmed = self.model.trimmed(scope.as_ref());
                let expected = self.model.after(scope.as_ref(), *seen);
                let behind = subscription.revision();
                assert_eq!(
                    behind,
                    if expected.is_empty() {
                        self.model.revision()
                    } else {
                        *seen
                    }
                );
                match subscription.take() {
                    Err(lagged) => {
                        assert_eq!(lagged, Lagged { seen: *seen, trimmed });
                        assert!(trimmed > *seen);
                        self.subscriptions.remove(which);
                    }
                    Ok(events) => {
                        assert!(trimmed <= *seen);
                        let events: Vec<_> = events
                            .iter()
                            .map(|event| Happened {
                                revision: event.revision,
                                kind: event.kind,
                                key: event.key.clone(),
                                object: event.entry.object().clone(),
                                previous: event.previous.as_ref().map(|previous| previous.revision),
                            })
                            .collect();
                        assert_eq!(events, expected);
                        assert_eq!(subscription.revision(), self.model.revision());
                        *seen = events.last().map_or(*seen, |event| event.revision);
                    }
                }
            }
            Step::Unsubscribe { which } => {
                if which < self.subscriptions.len() {
                    self.subscriptions.remove(which);
                }
            }
            Step::Compact { back } => {
                let before = self.back(back);
                self.store.compact(before);
                self.model.floor = self.model.floor.max(before);
            }
            Step::Fork if self.journal.is_none() => {
                let fork = self.store.fork();
                let left = std::mem::replace(&mut self.store, fork);
                self.left.push((left, self.model.clone()));
                // these follow the abandoned store, where nothing changes any more
                self.subscriptions.clear();
            }
            Step::Fork => self.left.push((self.store.fork(), self.model.clone())),
            Step::Reopen => {
                let Some(journal) = self.journal else { return };
                // every handle of the old one must go first: it keeps the file open
                self.subscriptions.clear();
                self.store = Store::in_memory();
                self.store = Self::open(Some(journal));
                self.model.floor = self.model.revision();
            }
        }
        assert_eq!(self.store.revision(), self.model.revision());
    }

    fn finish(&self) {
        check_snapshot(&self.store.snapshot(), &self.model, None);
        for snapshot in &self.kept {
            check_snapshot(snapshot, &self.model, None);
        }
        for (store, model) in &self.left {
            assert_eq!(store.revision(), model.revision());
            check_snapshot(&store.snapshot(), model, None);
        }
    }
}

fn check(steps: Vec<Step>, journal: Option<&Path>) {
    // the paused clock would run ahead if a write to the journal looked idle
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut run = Run {
            store: Run::open(journal),
            model: Model::new(),
            journal,
            kept: Vec::new(),
            subscriptions: Vec::new(),
            left: Vec::new(),
        };
        let start = Instant::now();
        for step in steps {
            run.step(step).await;
        }
        run.finish();
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

proptest! {
    #[test]
    fn store_in_memory_is_a_map_with_history(steps in steps()) {
        check(steps, None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn store_with_a_journal_survives_restarts(steps in steps()) {
        let directory = tempfile::tempdir().unwrap();
        check(steps, Some(&directory.path().join("journal")));
    }
}
