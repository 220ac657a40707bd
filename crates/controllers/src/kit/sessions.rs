//! The number of sessions with hosts that hold a thread: of git, and downloads. Each holds it until its host has
//! answered or the time is over, also after its run was cancelled.
//!
//! The more are in progress, the fewer a tenant may have: the last ones go to tenants without any.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::tenants::{Tenant, Tenants};

/// A quarter of the threads that the runtime has for blocking work: files are read by the others.
pub(crate) const SESSIONS_MAX: usize = 128;
/// Those of the platform.
const RESERVED: usize = 8;
/// A tenant may have this part of those that are free.
const SHARE: usize = 4;

/// Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sessions {
    tenants: Tenants,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    // held for a map operation
    used: Mutex<Used>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Used {
    all: usize,
    by_tenant: HashMap<Tenant, usize>,
}

/// One session, until it is dropped.
pub(crate) struct Slot {
    shared: Arc<Shared>,
    tenant: Tenant,
}

impl Sessions {
    pub(crate) fn new(tenants: Tenants) -> Self {
        Self {
            tenants,
            shared: Arc::default(),
        }
    }

    /// Waits until the tenant of a namespace may begin one more.
    pub(crate) async fn enter(&self, namespace: &str) -> Slot {
        loop {
            let mut freed = std::pin::pin!(self.shared.freed.notified());
            // one that is freed from here on is noticed
            freed.as_mut().enable();
            if let Some(slot) = self.try_enter(namespace) {
                return slot;
            }
            freed.await;
        }
    }

    fn try_enter(&self, namespace: &str) -> Option<Slot> {
        let tenant = self.tenants.of(namespace);
        let mut used = self.shared.used();
        let held = used.by_tenant.get(&tenant).copied().unwrap_or_default();
        let may = match self.tenants.is_platform(&tenant) {
            true => used.all < SESSIONS_MAX,
            false => {
                let free = (SESSIONS_MAX - RESERVED).saturating_sub(used.all);
                free > 0 && held < (free / SHARE).max(1)
            }
        };
        if !may {
            return None;
        }
        used.all += 1;
        used.by_tenant.insert(tenant.clone(), held + 1);
        let shared = Arc::clone(&self.shared);
        Some(Slot { shared, tenant })
    }
}

impl Shared {
    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        {
            let mut used = self.shared.used();
            used.all -= 1;
            if let Some(held) = used.by_tenant.get_mut(&self.tenant) {
                *held -= 1;
                if *held == 0 {
                    used.by_tenant.remove(&self.tenant);
                }
            }
        }
        self.shared.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_with_many_sessions_leave_some_to_the_others() {
        let sessions = Sessions::new(Tenants::of_cluster(["flux-system".to_owned()]));
        let mut held = Vec::new();
        let mut take_all = |namespace: &str| {
            let before = held.len();
            held.extend(std::iter::from_fn(|| sessions.try_enter(namespace)));
            held.len() - before
        };
        assert_eq!(take_all("a"), 24);
        assert_eq!(take_all("a"), 0);
        for number in 0..10 {
            assert!(take_all(&format!("b{number}")) < 24);
        }
        for number in 0..5 {
            assert!(take_all(&format!("honest{number}")) >= 1);
        }
        assert!(take_all("flux-system") >= RESERVED);
    }

    #[tokio::test]
    async fn a_waiting_session_begins_when_one_ends() {
        let sessions = Sessions::default();
        let mut held: Vec<Slot> = std::iter::from_fn(|| sessions.try_enter("a")).collect();
        let waiting = tokio::spawn({
            let sessions = sessions.clone();
            async move { drop(sessions.enter("a").await) }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        held.clear();
        waiting.await.unwrap();
        assert_eq!(sessions.shared.used().all, 0);
    }
}
