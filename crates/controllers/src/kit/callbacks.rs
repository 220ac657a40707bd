//! The time that tenants' rules may take in callbacks of shared watches, where no tenant waits its turn.
//!
//! Each tenant has some, and all together have a part of one processor: so an event of another tenant waits for
//! less than a second, whatever the number of attackers. The platform counts only for itself.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::tenants::{Tenant, Tenants};
use equate_priority::{Limit, UsedTime};

/// The time of a tenant at once.
const TENANT: Limit = Limit {
    most: Duration::from_millis(100),
    per_second: Duration::from_millis(50),
    debt_max: Duration::MAX,
};
/// The same for all.
const ALL: Limit = Limit {
    most: Duration::from_millis(400),
    per_second: Duration::from_millis(200),
    debt_max: Duration::MAX,
};
/// Tenants that are remembered; those with all their time are dropped beyond.
const TENANTS_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct CallbackTime {
    tenants: Tenants,
    // held for a map operation
    spent: Mutex<Spent>,
}

#[derive(Debug, Default)]
struct Spent {
    all: UsedTime,
    by_tenant: HashMap<Tenant, UsedTime>,
}

impl CallbackTime {
    pub(crate) fn new(tenants: Tenants) -> Self {
        Self {
            tenants,
            spent: Mutex::default(),
        }
    }

    /// Whether rules of this namespace may be evaluated in a callback now.
    pub(crate) fn is_left(&self, namespace: &str) -> bool {
        self.is_left_at(namespace, Instant::now())
    }

    pub(crate) fn charge(&self, namespace: &str, cost: Duration) {
        self.charge_at(namespace, cost, Instant::now());
    }

    fn is_left_at(&self, namespace: &str, now: Instant) -> bool {
        let tenant = self.tenants.of(namespace);
        let spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let of_tenant = spent.by_tenant.get(&tenant).copied().unwrap_or_default();
        match self.tenants.is_platform(&tenant) {
            true => of_tenant.is_left(ALL, now),
            false => of_tenant.is_left(TENANT, now) && spent.all.is_left(ALL, now),
        }
    }

    fn charge_at(&self, namespace: &str, cost: Duration, now: Instant) {
        let tenant = self.tenants.of(namespace);
        let is_platform = self.tenants.is_platform(&tenant);
        let limit = if is_platform { ALL } else { TENANT };
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_platform {
            spent.all.charge(ALL, now, cost);
        }
        spent
            .by_tenant
            .entry(tenant)
            .or_default()
            .charge(limit, now, cost);
        if spent.by_tenant.len() > TENANTS_MAX {
            spent
                .by_tenant
                .retain(|_, used| used.used(TENANT, now) > Duration::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_and_all_of_them_have_some_time_in_callbacks() {
        let time = CallbackTime::new(Tenants::of_cluster(["flux-system".to_owned()]));
        let start = Instant::now();
        let is_left =
            |namespace: &str, after: u64| time.is_left_at(namespace, start + Duration::from_millis(after));
        assert!(is_left("a", 0));
        time.charge_at("a", TENANT.most, start);
        assert!(!is_left("a", 0) && is_left("b", 0));
        assert!(is_left("a", 1000), "half of it is back");
        // others use the rest
        for number in 0..4 {
            time.charge_at(&format!("c{number}"), Duration::from_millis(75), start);
        }
        assert!(!is_left("b", 0), "nothing is left for others");
        assert!(is_left("flux-system", 0));
        assert!(is_left("b", 1000));
        time.charge_at("flux-system", ALL.most, start);
        assert!(!is_left("flux-system", 0));
        // a debt is paid first
        time.charge_at("a", Duration::from_secs(10), start);
        assert!(!is_left("a", 100_000) && is_left("a", 220_000));
    }
}
