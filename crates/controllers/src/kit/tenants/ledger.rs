//! Start-time fair queueing: the tenant with the least use is next; with equal use, they take turns.
//!
//! A tenant that arrives starts at the least use of those present, so nobody saves up credit. Those who leave
//! keep their use above that. Every operation costs the logarithm of the number of tenants.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::Tenant;

#[derive(Debug, Default)]
pub(in crate::kit) struct Ledger {
    accounts: HashMap<Tenant, Account>,
    present: BTreeSet<(Duration, Tenant)>,
    absent: BTreeSet<(Duration, Tenant)>,
    /// Those that wait for a turn.
    line: BTreeMap<(Duration, Turn), Tenant>,
    taken: u64,
    tickets: u64,
}

#[derive(Debug, Default)]
struct Account {
    used: Duration,
    /// Those that wait or are in progress.
    items: usize,
    turn: Option<Turn>,
}

/// The order of equal use. After its turn, a tenant comes after all that are present at the following
/// turn: one that arrives in between does not wait twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    taken: u64,
    had_turn: bool,
    ticket: u64,
}

impl Ledger {
    pub(in crate::kit) fn enter(&mut self, tenant: &Tenant) {
        let floor = self.floor();
        let account = self.accounts.entry(tenant.clone()).or_default();
        account.items += 1;
        if account.items > 1 {
            return;
        }
        self.absent.remove(&(account.used, tenant.clone()));
        account.used = account.used.max(floor);
        self.present.insert((account.used, tenant.clone()));
        self.forgive();
    }

    pub(in crate::kit) fn leave(&mut self, tenant: &Tenant) {
        let Some(account) = self.accounts.get_mut(tenant) else {
            return;
        };
        account.items = account.items.saturating_sub(1);
        if account.items > 0 {
            return;
        }
        let place = (account.used, tenant.clone());
        self.present.remove(&place);
        self.absent.insert(place);
        self.forgive();
    }

    pub(in crate::kit) fn wait(&mut self, tenant: &Tenant) {
        let Some(account) = self
            .accounts
            .get_mut(tenant)
            .filter(|account| account.turn.is_none())
        else {
            return;
        };
        self.tickets += 1;
        let turn = Turn {
            taken: self.taken,
            had_turn: false,
            ticket: self.tickets,
        };
        account.turn = Some(turn);
        self.line.insert((account.used, turn), tenant.clone());
    }

    pub(in crate::kit) fn rest(&mut self, tenant: &Tenant) {
        if let Some(account) = self.accounts.get_mut(tenant)
            && let Some(turn) = account.turn.take()
        {
            self.line.remove(&(account.used, turn));
        }
    }

    pub(in crate::kit) fn take(&mut self, tenant: &Tenant, waits: bool) {
        self.taken += 1;
        self.rest(tenant);
        if waits && let Some(account) = self.accounts.get_mut(tenant) {
            // the place of the one turn that ends now: no other has this number and `had_turn`
            let turn = Turn {
                taken: self.taken,
                had_turn: true,
                ticket: 0,
            };
            account.turn = Some(turn);
            self.line.insert((account.used, turn), tenant.clone());
        }
    }

    pub(in crate::kit) fn charge(&mut self, tenant: &Tenant, cost: Duration) {
        let Some(account) = self.accounts.get_mut(tenant) else {
            return;
        };
        let before = account.used;
        account.used = before.saturating_add(cost);
        let places = match account.items {
            0 => &mut self.absent,
            _ => &mut self.present,
        };
        places.remove(&(before, tenant.clone()));
        places.insert((account.used, tenant.clone()));
        if let Some(turn) = account.turn {
            self.line.remove(&(before, turn));
            self.line.insert((account.used, turn), tenant.clone());
        }
        self.forgive();
    }

    /// Those that wait, the next first.
    pub(in crate::kit) fn waiting(&self) -> impl Iterator<Item = &Tenant> {
        self.line.values()
    }

    pub(in crate::kit) fn used(&self, tenant: &Tenant) -> Duration {
        self.accounts
            .get(tenant)
            .map_or(Duration::ZERO, |account| account.used)
    }

    /// The number of tenants with items.
    pub(in crate::kit) fn present(&self) -> usize {
        self.present.len()
    }

    /// The least use of those present.
    pub(in crate::kit) fn floor(&self) -> Duration {
        self.present.first().map_or(Duration::ZERO, |(used, _)| *used)
    }

    /// Drops the accounts that would start at the floor again; all, if nobody is present.
    fn forgive(&mut self) {
        let floor = match self.present.is_empty() {
            true => Duration::MAX,
            false => self.floor(),
        };
        while self.absent.first().is_some_and(|(used, _)| *used <= floor) {
            if let Some((_, tenant)) = self.absent.pop_first() {
                self.accounts.remove(&tenant);
            }
        }
    }

    #[cfg(test)]
    pub(in crate::kit) fn is_empty(&self) -> bool {
        self.accounts.is_empty() && self.line.is_empty()
    }
}
