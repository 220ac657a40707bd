//! The controller of Kustomizations as the engine sees it.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use equate_api::kustomize::{InventoryEntry, Kustomization, KustomizationStatus};
use equate_api::meta::{FINALIZER, KUSTOMIZE_MANAGER, KUSTOMIZE_STATUS_MANAGER};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::inputs::vault_transit::{TransitSettings, Transits};
use super::rules::ObjectRules;
use super::run::{Context, reconcile};
use super::{KUSTOMIZATION, declaration};
use crate::Key;
use crate::kit::about::{About, Column, Concurrency};
use crate::kit::controller::Reconcilable;
use crate::kit::listed;
use crate::kit::mirror::{Change, Mirror};
use crate::kit::queue::{Counts, Queue, RunInfo, Settings};
use crate::kit::runner::{Observer, Pace, ReconcileEvent, Run};
use crate::kit::services::Kit;
use crate::kit::wake::Reason;
use crate::targets::target::Access;

/// The kind and its controller as data.
pub(crate) const ABOUT: About = About {
    kind: "Kustomization",
    plural: "kustomizations",
    group: "kustomize.toolkit.fluxcd.io",
    version: "v1",
    aliases: &["ks"],
    family: None,
    component: KUSTOMIZE_MANAGER,
    finalizer: Some(FINALIZER),
    status_manager: KUSTOMIZE_STATUS_MANAGER,
    owner: Some(&KUSTOMIZATION),
    concurrency: Concurrency::Computes,
    suspends: true,
    columns: &[Column {
        header: "REVISION",
        pointer: "/status/lastAppliedRevision",
    }],
};

impl Reconcilable for Kustomization {
    type Status = KustomizationStatus;

    fn status(&self) -> Option<&KustomizationStatus> {
        self.status.as_ref()
    }

    fn interval(&self) -> Duration {
        self.spec.interval.get()
    }

    fn retry_interval(&self) -> Duration {
        self.spec.retry_interval()
    }

    fn is_suspended(&self) -> bool {
        self.spec.suspend
    }

    fn revision(&self) -> Option<&str> {
        self.status.as_ref()?.last_applied_revision.as_deref()
    }

    fn inventory(&self) -> &[InventoryEntry] {
        let inventory = self.status.as_ref().and_then(|status| status.inventory.as_ref());
        inventory.map_or(&[], |inventory| &inventory.entries)
    }
}

crate::standard_status!(KustomizationStatus);

/// Runs Kustomizations.
pub(crate) struct KustomizationRunner {
    cx: Arc<Context>,
}

impl KustomizationRunner {
    pub(crate) fn new(kit: &Arc<Kit>, pace: Pace) -> Self {
        let queue = Queue::new(Settings {
            workers: ABOUT.concurrency.limit(pace.concurrent),
            backoff: pace.backoff,
            jitter: kit.settings.jitter.clone(),
            ..Settings::default()
        });
        kit.waker.register(ABOUT.kind, queue.clone());
        let rules = Arc::new(ObjectRules::default());
        let registered = Arc::clone(&rules);
        kit.owner_rules.register(ABOUT.kind, registered);
        let kustomizations: Mirror<Kustomization> = kit.mirror();
        {
            // the mirror lives in the kit: a strong reference would keep both for ever
            let (kit, rules) = (Arc::downgrade(kit), Arc::clone(&rules));
            kustomizations.subscribe(move |change: &Change<Kustomization>| {
                match &change.after {
                    Some(object) => rules.set(&change.key, &object.spec),
                    None => rules.forget(&change.key),
                }
                if let Some(kit) = kit.upgrade() {
                    let reconciles =
                        |object: &Arc<Kustomization>| kit.reconciles(ABOUT.kind, &object.metadata);
                    let ours = change.after.as_ref().is_some_and(reconciles);
                    let policy = &kit.settings.policy;
                    let wakes = declaration::changed(&mut kit.ownership(), change, ours, policy);
                    kit.waker.wake_all(wakes);
                }
            });
        }
        Self {
            cx: Arc::new(Context {
                kit: Arc::clone(kit),
                kustomizations,
                rules,
                here: kit.here(&KUSTOMIZATION),
                nowhere: Access::none(kit.settings.pace.clone(), &KUSTOMIZATION),
                transits: Transits::new(kit.configuration::<TransitSettings>()),
                queue,
                memories: Mutex::default(),
            }),
        }
    }
}

impl Run for KustomizationRunner {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn counts(&self) -> Counts {
        self.cx.queue.counts()
    }

    fn objects(&self) -> Vec<Arc<dyn listed::Listed>> {
        let all = self.cx.kustomizations.all().into_iter();
        all.map(|object| object as Arc<dyn listed::Listed>).collect()
    }

    fn wake_all(&self, reason: Reason) {
        for object in self.cx.kustomizations.all() {
            self.cx.queue.wake(Key::of(&object.metadata), reason);
        }
    }

    fn run(
        self: Arc<Self>,
        stop: CancellationToken,
        observer: Option<Observer>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let listed = async {
                self.cx.kustomizations.ready().await;
                self.cx.kit.sources.repositories.ready().await;
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = listed => {}
            }
            let queue = self.cx.queue.clone();
            let handler = move |key: Key, run: RunInfo| {
                let (context, observer) = (Arc::clone(&self.cx), observer.clone());
                async move {
                    let began = Instant::now();
                    let requeue = reconcile(Arc::clone(&context), key.clone(), run.reasons).await;
                    if let Some(observer) = observer {
                        // as good as gone where another shard has it
                        let gone =
                            context.kustomizations.get(&key).is_none() || context.is_in_other_shard(&key);
                        observer(&ReconcileEvent {
                            about: &ABOUT,
                            key: &key,
                            waited: run.waited,
                            took: began.elapsed(),
                            failed: requeue.is_failure(),
                            gone,
                        });
                    }
                    requeue
                }
            };
            queue.run(stop, handler).await;
        })
    }
}
