//! What the hub knows and whom it tells, without tasks: changes go in, wakes come out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use equate_apply::health::Status;
use equate_apply::id::ObjectId;
use equate_apply::observed::Observed;
use equate_apply::owner::Owner;
use equate_apply::plan::Presence;

use super::{Cause, Counts, Kind, KindChange, Local, Seen, Wake, WatchState, What};
use crate::Key;
use crate::kit::feed::{self, FeedError, Item};
use crate::kit::versioned_store::{Difference, VersionedStore};

/// One collection that is followed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Place {
    /// The managed objects of a kind.
    Managed(Kind),
    /// A single object, whoever's it is.
    Single(ObjectId),
}

#[derive(Debug)]
struct Followed {
    /// Changes of an older feed of this place are not for this one.
    epoch: u64,
    versioned_store: VersionedStore<Local, Observed>,
    followers: BTreeSet<Key>,
    standing: WatchState,
    /// What the followers were last told of the kind.
    announced: Option<KindChange>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    // ordered, so that what is reported and started is in the same order each time
    places: BTreeMap<Place, Followed>,
    interests: HashMap<Key, BTreeSet<Place>>,
    epochs: u64,
    counts: Counts,
}

/// What a new interest changes: feeds to begin, each with its epoch, and to end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WatchDiff {
    pub(super) begin: Vec<(Place, u64)>,
    pub(super) end: Vec<Place>,
}

impl State {
    /// From now on the key follows these places and no others.
    pub(super) fn follow(&mut self, key: &Key, wanted: &BTreeSet<Place>) -> WatchDiff {
        let mut diff = WatchDiff::default();
        for place in wanted {
            if let Some(followed) = self.places.get_mut(place) {
                followed.followers.insert(key.clone());
                continue;
            }
            self.epochs += 1;
            let followed = Followed {
                epoch: self.epochs,
                versioned_store: VersionedStore::new(),
                followers: BTreeSet::from([key.clone()]),
                standing: WatchState::Starting(None),
                announced: None,
            };
            self.places.insert(place.clone(), followed);
            diff.begin.push((place.clone(), self.epochs));
        }
        let before = if wanted.is_empty() {
            self.interests.remove(key)
        } else {
            self.interests.insert(key.clone(), wanted.clone())
        };
        for place in before.unwrap_or_default().difference(wanted) {
            let Some(followed) = self.places.get_mut(place) else {
                continue;
            };
            followed.followers.remove(key);
            if followed.followers.is_empty() {
                self.places.remove(place);
                diff.end.push(place.clone());
            }
        }
        diff
    }

    /// A new feed for a place that is followed already; what is known stays.
    pub(super) fn renew(&mut self, place: &Place) -> Option<u64> {
        let followed = self.places.get_mut(place)?;
        self.epochs += 1;
        followed.epoch = self.epochs;
        Some(self.epochs)
    }

    pub(super) fn standing(&self, place: &Place) -> Option<&WatchState> {
        self.places.get(place).map(|followed| &followed.standing)
    }

    /// What is known of an object. The single watch of it counts where it is not managed.
    pub(super) fn get(&self, id: &ObjectId) -> Presence {
        let managed = self.known(&Place::Managed(Kind::of(id)), id);
        match managed {
            Presence::Present(_) => managed,
            Presence::Absent | Presence::Unknown => match self.known(&Place::Single(id.clone()), id) {
                Presence::Unknown => managed,
                single => single,
            },
        }
    }

    /// The same for somebody: of an object that is another's its own watch of it counts.
    pub(super) fn get_for(&self, key: &Key, id: &ObjectId) -> Presence {
        let managed = self.known(&Place::Managed(Kind::of(id)), id);
        match &managed {
            Presence::Present(observed) if observed.owner.as_ref().map(key_of).as_ref() == Some(key) => {
                managed
            }
            _ => match self.known(&Place::Single(id.clone()), id) {
                Presence::Unknown => managed,
                single => single,
            },
        }
    }

    /// Who follows a place.
    pub(super) fn followers(&self, place: &Place) -> Vec<Key> {
        let followed = self.places.get(place);
        followed.map_or_else(Vec::new, |followed| followed.followers.iter().cloned().collect())
    }

    fn known(&self, place: &Place, id: &ObjectId) -> Presence {
        let Some(followed) = self.places.get(place) else {
            return Presence::Unknown;
        };
        match followed.versioned_store.get(&local(id)) {
            // what a write was answered once says nothing about now
            _ if matches!(followed.standing, WatchState::Unserved | WatchState::Refused(_)) => {
                Presence::Unknown
            }
            Some(observed) => Presence::Present(Arc::clone(observed)),
            None if followed.versioned_store.listed() => Presence::Absent,
            None => Presence::Unknown,
        }
    }

    /// The answer to a write of ours. Its owner knows; one who lost the object does not.
    pub(super) fn note(&mut self, id: &ObjectId, observed: Observed) -> (bool, Vec<Wake>) {
        let Some(author) = observed.owner.clone() else {
            // the watch would not see it: it would look deleted with the next list
            return (false, Vec::new());
        };
        let Ok(version) = observed.resource_version.parse() else {
            return (false, Vec::new());
        };
        let place = Place::Managed(Kind::of(id));
        let Some(followed) = self.places.get_mut(&place) else {
            return (false, Vec::new());
        };
        let item = Item {
            version,
            value: observed,
        };
        let Some(difference) = followed.versioned_store.note(local(id), item) else {
            return (false, Vec::new());
        };
        let mut wakes = Vec::new();
        wake_owners(id, &difference, &mut wakes);
        wakes.retain(|wake| wake.key != key_of(&author));
        self.counts.wakes += wakes.len() as u64;
        (true, wakes)
    }

    /// An object as it was read just now, also of the version that is known. Who had it read knows.
    pub(super) fn look(&mut self, key: &Key, place: &Place, id: &ObjectId, observed: Observed) -> Vec<Wake> {
        let Some(followed) = self.places.get_mut(place) else {
            return Vec::new();
        };
        // the watch of managed objects would not see it
        let unseen = matches!(place, Place::Managed(_)) && observed.owner.is_none();
        let Some(version) = observed.resource_version.parse().ok().filter(|_| !unseen) else {
            return Vec::new();
        };
        let item = Item {
            version,
            value: observed,
        };
        let Some(difference) = followed.versioned_store.look(local(id), item) else {
            return Vec::new();
        };
        let mut wakes = Vec::new();
        followed.wake(place, &local(id), &difference, &mut wakes);
        wakes.retain(|wake| wake.key != *key);
        self.counts.wakes += wakes.len() as u64;
        wakes
    }

    /// A change that a feed tells.
    pub(super) fn change(&mut self, place: &Place, epoch: u64, change: feed::Change<Seen>) -> Vec<Wake> {
        let Some(followed) = self.places.get_mut(place).filter(|f| f.epoch == epoch) else {
            return Vec::new();
        };
        self.counts.changes += 1;
        let mut wakes = Vec::new();
        let (standing, differences) = match change {
            feed::Change::Listed(version, items) => {
                self.counts.lists += 1;
                let first = !followed.versioned_store.listed();
                let differences = followed.versioned_store.relist(
                    version,
                    items.into_iter().map(split).map(|(id, item)| (id, Some(item))),
                );
                // who waits for the kind looks at all of it; nothing changed for anyone else
                let differences = if first { Vec::new() } else { differences };
                (WatchState::Following, differences)
            }
            feed::Change::Applied(item) => {
                let (id, item) = split(item);
                let difference = followed.versioned_store.apply(id.clone(), item);
                (
                    WatchState::Following,
                    difference.map(|d| (id, d)).into_iter().collect(),
                )
            }
            feed::Change::Deleted(item) => {
                let (id, item) = split(item);
                let difference = followed.versioned_store.delete(&id, item.version);
                (
                    WatchState::Following,
                    difference.map(|d| (id, d)).into_iter().collect(),
                )
            }
            feed::Change::Told(version) => {
                followed.versioned_store.tell(version);
                (WatchState::Following, Vec::new())
            }
            feed::Change::Unserved => (WatchState::Unserved, Vec::new()),
            feed::Change::Failed(trouble) => (followed.trouble(trouble), Vec::new()),
        };
        followed.stand(place, standing, &mut wakes);
        for (local, difference) in differences {
            followed.wake(place, &local, &difference, &mut wakes);
        }
        self.counts.wakes += wakes.len() as u64;
        wakes
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = self.counts;
        for (place, followed) in &self.places {
            match place {
                Place::Managed(_) => {
                    counts.kinds += 1;
                    counts.objects += followed.versioned_store.len();
                }
                Place::Single(_) => counts.singles += 1,
            }
        }
        counts
    }

    pub(super) fn standings(&self) -> Vec<(Place, WatchState)> {
        let all = self.places.iter();
        all.map(|(place, followed)| (place.clone(), followed.standing.clone()))
            .collect()
    }
}

impl Followed {
    fn trouble(&self, trouble: FeedError) -> WatchState {
        let listed = self.versioned_store.listed();
        let refused = trouble.is_refusal();
        let trouble = Arc::new(trouble);
        match (listed, refused) {
            (true, _) => WatchState::Troubled(trouble),
            (false, true) => WatchState::Refused(trouble),
            (false, false) => WatchState::Starting(Some(trouble)),
        }
    }

    /// Takes the new standing; tells the followers when the kind can be looked at, when it is
    /// not served (any more), and when it may not be looked at. Other trouble is told nobody:
    /// what is known stays.
    fn stand(&mut self, place: &Place, standing: WatchState, wakes: &mut Vec<Wake>) {
        let news = match &standing {
            WatchState::Following => Some(KindChange::Listed),
            WatchState::Unserved => Some(KindChange::Unserved),
            WatchState::Refused(_) => Some(KindChange::Refused),
            WatchState::Starting(_) | WatchState::Troubled(_) => None,
        };
        self.standing = standing;
        let Some(news) = news.filter(|_| self.announced != news) else {
            return;
        };
        self.announced = Some(news);
        let kind = place.kind();
        wakes.extend(self.followers.iter().map(|key| Wake {
            key: key.clone(),
            cause: Cause::Kind(kind.clone(), news),
        }));
    }

    fn wake(&self, place: &Place, local: &Local, difference: &Difference<Observed>, wakes: &mut Vec<Wake>) {
        match place {
            Place::Managed(kind) => wake_owners(&kind.object(local), difference, wakes),
            Place::Single(id) => wakes.extend(self.followers.iter().filter_map(|key| {
                Some(Wake {
                    key: key.clone(),
                    cause: Cause::Object(id.clone(), compare(difference, key)?),
                })
            })),
        }
    }
}

impl Place {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Place::Managed(kind) => kind.clone(),
            Place::Single(id) => Kind::of(id),
        }
    }
}

/// Those whose labels the object carries and carried.
fn wake_owners(id: &ObjectId, difference: &Difference<Observed>, wakes: &mut Vec<Wake>) {
    let sides = [&difference.before, &difference.after];
    let owners = sides.into_iter().flatten().filter_map(|side| side.owner.as_ref());
    let keys: BTreeSet<Key> = owners.map(key_of).collect();
    wakes.extend(keys.into_iter().filter_map(|key| {
        let what = compare(difference, &key)?;
        let cause = Cause::Object(id.clone(), what);
        Some(Wake { key, cause })
    }));
}

/// What is different for somebody; nothing where only the version is, or fields of others,
/// or the words about a health that is the same.
fn compare(difference: &Difference<Observed>, key: &Key) -> Option<What> {
    let (before, after) = match (&difference.before, &difference.after) {
        (_, None) => return Some(What::Gone),
        (None, Some(_)) => return Some(What::Appeared),
        (Some(before), Some(after)) => (before, after),
    };
    if before.uid != after.uid {
        Some(What::Appeared)
    } else if before.owner != after.owner {
        Some(What::Owner)
    } else if before.deleting != after.deleting {
        Some(What::Deleting)
    } else if before.owned != after.owned || before.policy != after.policy {
        Some(What::Changed)
    } else if health(before, key) != health(after, key) {
        Some(What::Health)
    } else {
        None
    }
}

/// How healthy an object is for somebody, and by which rules.
fn health(observed: &Observed, key: &Key) -> (u64, Status) {
    let by = Owner::new(&key.namespace, &key.name);
    match observed.judged.is_empty() {
        true => None,
        false => observed.judged_by(&by),
    }
    .map_or((0, observed.health.status), |judged| {
        (judged.stamp, judged.health.status)
    })
}

fn key_of(owner: &Owner) -> Key {
    Key::new(&*owner.namespace, &*owner.name)
}

fn local(id: &ObjectId) -> Local {
    (Arc::clone(&id.namespace), Arc::clone(&id.name))
}

fn split(item: Item<Seen>) -> (Local, Item<Observed>) {
    let Item {
        version,
        value: (local, value),
    } = item;
    (local, Item { version, value })
}
