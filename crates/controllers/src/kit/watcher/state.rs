//! The watcher's state without tasks: changes go in, wakes come out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use equate_apply::health::Status;
use equate_apply::id::ObjectId;
use equate_apply::observed::Observed;
use equate_apply::owner::{Owner, OwnerKind};
use equate_apply::plan::Presence;

use super::{Cause, Counts, Kind, KindChange, Local, Seen, Wake, WatchState, What};
use crate::ObjectRef;
use crate::kit::feed::{self, FeedError, Item};
use crate::kit::versioned_store::{Difference, VersionedStore};

/// A followed collection, and the kind of owner: its labels select the objects, and its fields are
/// observed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Place {
    Managed(Kind, &'static OwnerKind),
    Single(ObjectId, &'static OwnerKind),
}

#[derive(Debug)]
struct Followed {
    /// Changes of an older feed of this place are ignored.
    epoch: u64,
    versioned_store: VersionedStore<Local, Observed>,
    followers: BTreeSet<Owner>,
    watch_state: WatchState,
    /// The last change of the kind that woke the followers.
    announced: Option<KindChange>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    // ordered, so that reports and starts are deterministic
    places: BTreeMap<Place, Followed>,
    interests: HashMap<Owner, BTreeSet<Place>>,
    epochs: u64,
    counts: Counts,
}

/// The feeds to begin, each with its epoch, and to end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WatchDiff {
    pub(super) begin: Vec<(Place, u64)>,
    pub(super) end: Vec<Place>,
}

impl State {
    pub(super) fn follow(&mut self, follower: &Owner, wanted: &BTreeSet<Place>) -> WatchDiff {
        let mut diff = WatchDiff::default();
        for place in wanted {
            if let Some(followed) = self.places.get_mut(place) {
                followed.followers.insert(follower.clone());
                continue;
            }
            self.epochs += 1;
            let followed = Followed {
                epoch: self.epochs,
                versioned_store: VersionedStore::new(),
                followers: BTreeSet::from([follower.clone()]),
                watch_state: WatchState::Starting(None),
                announced: None,
            };
            self.places.insert(place.clone(), followed);
            diff.begin.push((place.clone(), self.epochs));
        }
        let before = if wanted.is_empty() {
            self.interests.remove(follower)
        } else {
            self.interests.insert(follower.clone(), wanted.clone())
        };
        for place in before.unwrap_or_default().difference(wanted) {
            let Some(followed) = self.places.get_mut(place) else {
                continue;
            };
            followed.followers.remove(follower);
            if followed.followers.is_empty() {
                self.places.remove(place);
                diff.end.push(place.clone());
            }
        }
        diff
    }

    /// A new feed for a followed place; its content stays.
    pub(super) fn renew(&mut self, place: &Place) -> Option<u64> {
        let followed = self.places.get_mut(place)?;
        self.epochs += 1;
        followed.epoch = self.epochs;
        Some(self.epochs)
    }

    pub(super) fn follows(&self, place: &Place) -> bool {
        self.places.contains_key(place)
    }

    pub(super) fn watch_state(&self, place: &Place) -> Option<&WatchState> {
        self.places.get(place).map(|followed| &followed.watch_state)
    }

    /// The last observation of an object for owners of a kind. Its single watch counts if they do not
    /// manage it.
    pub(super) fn get(&self, by: &'static OwnerKind, id: &ObjectId) -> Presence {
        let managed = self.known(&Place::Managed(Kind::of(id), by), id);
        match managed {
            Presence::Present(_) => managed,
            Presence::Absent | Presence::Unknown => match self.known(&Place::Single(id.clone(), by), id) {
                Presence::Unknown => managed,
                single => single,
            },
        }
    }

    /// The same for one owner: for an object of another owner, its own single watch counts.
    pub(super) fn get_for(&self, owner: &Owner, id: &ObjectId) -> Presence {
        let managed = self.known(&Place::Managed(Kind::of(id), owner.kind), id);
        match &managed {
            Presence::Present(observed) if observed.owner.as_ref() == Some(owner) => managed,
            _ => match self.known(&Place::Single(id.clone(), owner.kind), id) {
                Presence::Unknown => managed,
                single => single,
            },
        }
    }

    pub(super) fn followers(&self, place: &Place) -> Vec<Owner> {
        let followed = self.places.get(place);
        followed.map_or_else(Vec::new, |followed| followed.followers.iter().cloned().collect())
    }

    fn known(&self, place: &Place, id: &ObjectId) -> Presence {
        let Some(followed) = self.places.get(place) else {
            return Presence::Unknown;
        };
        match followed.versioned_store.get(&local(id)) {
            // an old answer to a write proves nothing now
            _ if matches!(
                followed.watch_state,
                WatchState::Unserved | WatchState::Refused(_)
            ) =>
            {
                Presence::Unknown
            }
            Some(observed) => Presence::Present(Arc::clone(observed)),
            None if followed.versioned_store.listed() => Presence::Absent,
            None => Presence::Unknown,
        }
    }

    /// The answer to a write. Its author knows; an owner that lost the object is woken.
    pub(super) fn note(&mut self, id: &ObjectId, observed: Observed) -> (bool, Vec<Wake>) {
        let Some(author) = observed.owner.clone() else {
            // the watch would not see it: the next list would look like a deletion
            return (false, Vec::new());
        };
        let Ok(version) = observed.resource_version.parse() else {
            return (false, Vec::new());
        };
        let place = Place::Managed(Kind::of(id), author.kind);
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
        wakes.retain(|wake| wake.object != ObjectRef::from(&author));
        self.counts.wakes += wakes.len() as u64;
        (true, wakes)
    }

    /// An object that was just read, also of the known version. Its reader is not woken.
    pub(super) fn note_read(
        &mut self,
        reader: &Owner,
        place: &Place,
        id: &ObjectId,
        observed: Observed,
    ) -> Vec<Wake> {
        let Some(followed) = self.places.get_mut(place) else {
            return Vec::new();
        };
        // the watch of managed objects would not see it
        let unseen = matches!(place, Place::Managed(..)) && observed.owner.is_none();
        let Some(version) = observed.resource_version.parse().ok().filter(|_| !unseen) else {
            return Vec::new();
        };
        let item = Item {
            version,
            value: observed,
        };
        let Some(difference) = followed.versioned_store.reread(local(id), item) else {
            return Vec::new();
        };
        let mut wakes = Vec::new();
        followed.wake(place, &local(id), &difference, &mut wakes);
        wakes.retain(|wake| wake.object != ObjectRef::from(reader));
        self.counts.wakes += wakes.len() as u64;
        wakes
    }

    pub(super) fn change(&mut self, place: &Place, epoch: u64, change: feed::Change<Seen>) -> Vec<Wake> {
        let Some(followed) = self.places.get_mut(place).filter(|f| f.epoch == epoch) else {
            return Vec::new();
        };
        self.counts.changes += 1;
        let mut wakes = Vec::new();
        let (watch_state, differences) = match change {
            feed::Change::Listed(version, items) => {
                self.counts.lists += 1;
                let first = !followed.versioned_store.listed();
                let differences = followed.versioned_store.relist(
                    version,
                    items.into_iter().map(split).map(|(id, item)| (id, Some(item))),
                );
                // followers of the kind read all of it; nothing changed for other owners
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
            feed::Change::Bookmark(version) => {
                followed.versioned_store.bookmark(version);
                (WatchState::Following, Vec::new())
            }
            feed::Change::Unserved => (WatchState::Unserved, Vec::new()),
            feed::Change::Failed(error) => (followed.failed_state(error), Vec::new()),
        };
        followed.set_watch_state(place, watch_state, &mut wakes);
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
                Place::Managed(..) => {
                    counts.kinds += 1;
                    counts.objects += followed.versioned_store.len();
                }
                Place::Single(..) => counts.singles += 1,
            }
        }
        counts
    }

    pub(super) fn watch_states(&self) -> Vec<(Place, WatchState)> {
        let all = self.places.iter();
        all.map(|(place, followed)| (place.clone(), followed.watch_state.clone()))
            .collect()
    }
}

impl Followed {
    fn failed_state(&self, error: FeedError) -> WatchState {
        let listed = self.versioned_store.listed();
        let refused = error.is_refusal();
        let error = Arc::new(error);
        match (listed, refused) {
            (true, _) => WatchState::Troubled(error),
            (false, true) => WatchState::Refused(error),
            (false, false) => WatchState::Starting(Some(error)),
        }
    }

    /// Sets the state. Wakes the followers when the kind becomes known, is not served (any more), or may
    /// not be listed. Other errors wake nobody: the content stays.
    fn set_watch_state(&mut self, place: &Place, watch_state: WatchState, wakes: &mut Vec<Wake>) {
        let kind_change = match &watch_state {
            WatchState::Following => Some(KindChange::Listed),
            WatchState::Unserved => Some(KindChange::Unserved),
            WatchState::Refused(_) => Some(KindChange::Refused),
            WatchState::Starting(Some(error)) if error.is_excess() => Some(KindChange::Excess),
            WatchState::Starting(_) | WatchState::Troubled(_) => None,
        };
        self.watch_state = watch_state;
        let Some(kind_change) = kind_change.filter(|_| self.announced != kind_change) else {
            return;
        };
        self.announced = Some(kind_change);
        let kind = place.kind();
        wakes.extend(self.followers.iter().map(|follower| Wake {
            object: follower.into(),
            cause: Cause::Kind(kind.clone(), kind_change),
        }));
    }

    fn wake(&self, place: &Place, local: &Local, difference: &Difference<Observed>, wakes: &mut Vec<Wake>) {
        match place {
            Place::Managed(kind, _) => wake_owners(&kind.object(local), difference, wakes),
            Place::Single(id, _) => wakes.extend(self.followers.iter().filter_map(|follower| {
                Some(Wake {
                    object: follower.into(),
                    cause: Cause::Object(id.clone(), compare(difference, follower)?),
                })
            })),
        }
    }
}

impl Place {
    pub(super) fn by(&self) -> &'static OwnerKind {
        match self {
            Place::Managed(_, by) | Place::Single(_, by) => by,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Place::Managed(kind, _) => kind.clone(),
            Place::Single(id, _) => Kind::of(id),
        }
    }
}

fn wake_owners(id: &ObjectId, difference: &Difference<Observed>, wakes: &mut Vec<Wake>) {
    let sides = [&difference.before, &difference.after];
    let owners = sides.into_iter().flatten().filter_map(|side| side.owner.as_ref());
    let owners: BTreeSet<&Owner> = owners.collect();
    wakes.extend(owners.into_iter().filter_map(|owner| {
        let what = compare(difference, owner)?;
        let cause = Cause::Object(id.clone(), what);
        let object = owner.into();
        Some(Wake { object, cause })
    }));
}

/// The change for one owner; `None` for the version, fields of others, or another message of the same
/// health.
fn compare(difference: &Difference<Observed>, by: &Owner) -> Option<What> {
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
    } else if health(before, by) != health(after, by) {
        Some(What::Health)
    } else {
        None
    }
}

/// The health of an object for one owner, with the digest of its rules.
fn health(observed: &Observed, by: &Owner) -> (u64, Status) {
    match observed.judged.is_empty() {
        true => None,
        false => observed.judged_by(by),
    }
    .map_or((0, observed.health.status), |judged| {
        (judged.stamp, judged.health.status)
    })
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
