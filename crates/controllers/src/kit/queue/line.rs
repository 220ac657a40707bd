//! The keys that are ready to run, the runs that wait for a worker again, and their order. No time, no
//! tasks.
//!
//! The tenant that used the workers least is next: ten thousand objects of one team, or a few slow ones, delay
//! another team's object by one run. Within a tenant, begun runs go on first, then requested keys, then the
//! others by arrival: a request takes nothing from another tenant.
//!
//! Every operation costs the logarithm of the number of keys; a tenant without keys costs nothing.

use std::collections::{BTreeMap, HashMap};

use crate::kit::tenants::Tenant;
use crate::kit::tenants::ledger::Ledger;

#[derive(Debug)]
pub(super) struct Line<K> {
    pub(super) ledger: Ledger,
    shares: HashMap<Tenant, Share<K>>,
    taken: u64,
    tickets: u64,
    ready: usize,
}

#[derive(Debug)]
struct Share<K> {
    taken: u64,
    /// Never empty.
    items: BTreeMap<Place, Queued<K>>,
}

#[derive(Debug)]
pub(super) enum Queued<K> {
    Key(K),
    /// A begun run that gave up its worker.
    Run(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Begun,
    Requested,
    Routine,
}

/// The order in a tenant: by class, then by arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    class: Class,
    ticket: u64,
}

impl<K> Default for Line<K> {
    fn default() -> Self {
        Self {
            ledger: Ledger::default(),
            shares: HashMap::new(),
            taken: 0,
            tickets: 0,
            ready: 0,
        }
    }
}

impl<K> Line<K> {
    /// The number of keys.
    pub(super) const fn len(&self) -> usize {
        self.ready
    }

    /// Whether neither keys nor runs wait.
    pub(super) fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }

    /// Adds a new item at the end of its class.
    pub(super) fn push(&mut self, tenant: &Tenant, item: Queued<K>, class: Class) -> Place {
        let place = self.place(class);
        self.ready += usize::from(matches!(item, Queued::Key(_)));
        self.ledger.enter(tenant);
        self.ledger.wait(tenant);
        let share = self.shares.entry(tenant.clone()).or_insert_with(|| Share {
            taken: 0,
            items: BTreeMap::new(),
        });
        share.items.insert(place, item);
        place
    }

    /// Moves a key to the end of the requests, unless it is one; returns its place.
    pub(super) fn advance(&mut self, tenant: &Tenant, place: Place) -> Place {
        if place.class != Class::Routine {
            return place;
        }
        let ahead = self.place(Class::Requested);
        let Some(share) = self.shares.get_mut(tenant) else {
            return place;
        };
        match share.items.remove(&place) {
            Some(key) => {
                share.items.insert(ahead, key);
                ahead
            }
            None => place,
        }
    }

    pub(super) fn remove(&mut self, tenant: &Tenant, place: Place) {
        let removed = self
            .shares
            .get_mut(tenant)
            .and_then(|share| share.items.remove(&place));
        let Some(item) = removed else { return };
        self.ready -= usize::from(matches!(item, Queued::Key(_)));
        if self.drop_if_empty(tenant) {
            self.ledger.rest(tenant);
        }
        self.ledger.leave(tenant);
    }

    /// Takes the next item, of a tenant that may go on; also returns [`Self::taken_by_others`]. The item
    /// stays in the ledger. Costs the number of tenants before it that may not.
    pub(super) fn pop(&mut self, may: impl Fn(&Tenant, Class) -> bool) -> Option<(Tenant, Queued<K>, u64)> {
        let first = |tenant: &Tenant| {
            let (place, _) = self.shares.get(tenant)?.items.first_key_value()?;
            Some(place.class)
        };
        let may = |tenant: &&Tenant| first(tenant).is_some_and(|class| may(tenant, class));
        let tenant = self.ledger.waiting().find(may)?.clone();
        let share = self.shares.get_mut(&tenant)?;
        let (_, item) = share.items.pop_first()?;
        share.taken += 1;
        self.taken += 1;
        let others = self.taken - share.taken;
        self.ready -= usize::from(matches!(item, Queued::Key(_)));
        let is_empty = self.drop_if_empty(&tenant);
        self.ledger.take(&tenant, !is_empty);
        Some((tenant, item, others))
    }

    /// The items of others that were taken since the tenant waits.
    pub(super) fn taken_by_others(&self, tenant: &Tenant) -> u64 {
        self.taken - self.shares.get(tenant).map_or(0, |share| share.taken)
    }

    fn drop_if_empty(&mut self, tenant: &Tenant) -> bool {
        let is_empty = self
            .shares
            .get(tenant)
            .is_some_and(|share| share.items.is_empty());
        if is_empty {
            self.shares.remove(tenant);
        }
        is_empty
    }

    fn place(&mut self, class: Class) -> Place {
        self.tickets += 1;
        Place {
            class,
            ticket: self.tickets,
        }
    }
}
