//! The metrics of `/metrics`, under Flux's names where Flux has the metric.
//!
//! As in Flux, one series per object measures its reconciliations and is removed with the object. All other
//! series have few labels.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use equate_controllers::kit::runner::{Observer, ReconcileEvent};
use equate_controllers::{ControllerSet, Engine};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets, exponential_buckets_range};
use prometheus_client::registry::Registry;

use crate::counts::{self, Named, Requests};

pub(crate) struct Metrics {
    registry: Registry,
    durations: Family<Object, Histogram, fn() -> Histogram>,
    reconciles: Family<Outcome, Counter>,
    times: Family<Controller, Histogram, fn() -> Histogram>,
    work: Family<Line, Histogram, fn() -> Histogram>,
    waits: Family<Line, Histogram, fn() -> Histogram>,
    shares: Family<Controller, Histogram, fn() -> Histogram>,
    requests: Requests,
    leads: Family<Named, Gauge>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Object {
    kind: &'static str,
    name: String,
    namespace: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    controller: String,
    result: ReconcileResult,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Controller {
    controller: String,
}

/// controller-runtime names the queue like its controller.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Line {
    controller: String,
    name: String,
}

/// The values of controller-runtime's label `result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ReconcileResult {
    Success,
    Error,
}

impl EncodeLabelValue for ReconcileResult {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        let word = match self {
            ReconcileResult::Success => "success",
            ReconcileResult::Error => "error",
        };
        EncodeLabelValue::encode(&word, encoder)
    }
}

/// Flux's buckets: ten between 0.01 s and 30 min.
fn histogram() -> Histogram {
    Histogram::new(exponential_buckets_range(0.01, 1800.0, 10))
}

/// A subset of controller-runtime's buckets.
fn times() -> Histogram {
    Histogram::new([
        0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    ])
}

/// From what nobody notices to what makes a tenant ask.
fn waits() -> Histogram {
    Histogram::new([0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0])
}

/// client-go's buckets: powers of ten from 10 ns.
fn queue_times() -> Histogram {
    Histogram::new(exponential_buckets(1e-8, 10.0, 12))
}

impl Metrics {
    /// Registers the metrics; sets the concurrency limits of these controllers for this value of
    /// `--concurrent`.
    pub(crate) fn new(controllers: &ControllerSet, concurrent: u16) -> Arc<Self> {
        let mut registry = Registry::default();
        let durations = Family::new_with_constructor(histogram as fn() -> Histogram);
        registry.register(
            "gotk_reconcile_duration_seconds",
            "The duration in seconds of a GitOps Toolkit resource reconciliation",
            durations.clone(),
        );
        let reconciles = Family::default();
        // the encoder adds `_total`
        registry.register(
            "controller_runtime_reconcile",
            "Total number of reconciliations per controller",
            reconciles.clone(),
        );
        let times = Family::new_with_constructor(times as fn() -> Histogram);
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "Length of time per reconciliation per controller",
            times.clone(),
        );
        let work = Family::new_with_constructor(queue_times as fn() -> Histogram);
        registry.register(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes",
            work.clone(),
        );
        let waits = Family::new_with_constructor(queue_times as fn() -> Histogram);
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested",
            waits.clone(),
        );
        let shares = Family::new_with_constructor(self::waits as fn() -> Histogram);
        registry.register(
            "equate_queue_wait_seconds",
            "Time per reconciliation that an object waited for a worker and its builds for a processor",
            shares.clone(),
        );
        let most = Family::<Controller, Gauge>::default();
        registry.register(
            "controller_runtime_max_concurrent_reconciles",
            "Maximum number of concurrent reconciles per controller",
            most.clone(),
        );
        for about in controllers.iter() {
            let controller = counts::queue_name(about);
            let limit = about.concurrency.limit(concurrent.into());
            most.get_or_create(&Controller { controller })
                .set(limit.try_into().unwrap_or(i64::MAX));
        }
        let leads = Family::default();
        registry.register(
            "leader_election_master_status",
            "Whether this process holds the Lease: 1 if it does, 0 while it waits",
            leads.clone(),
        );
        let requests = Requests::default();
        requests.register(&mut registry);
        Arc::new(Self {
            registry,
            durations,
            reconciles,
            times,
            work,
            waits,
            shares,
            requests,
            leads,
        })
    }

    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    pub(crate) fn observer(self: &Arc<Self>) -> Observer {
        let metrics = Arc::clone(self);
        Arc::new(move |ran| metrics.ran(ran))
    }

    fn ran(&self, ran: &ReconcileEvent<'_>) {
        let object = Object {
            kind: ran.about.kind,
            name: ran.key.name.clone(),
            namespace: ran.key.namespace.clone(),
        };
        match ran.gone {
            true => drop(self.durations.remove(&object)),
            false => self
                .durations
                .get_or_create(&object)
                .observe(ran.took.as_secs_f64()),
        }
        let controller = counts::queue_name(ran.about);
        self.times
            .get_or_create(&Controller {
                controller: controller.clone(),
            })
            .observe(ran.took.as_secs_f64());
        let line = Line {
            controller: controller.clone(),
            name: controller.clone(),
        };
        self.work.get_or_create(&line).observe(ran.took.as_secs_f64());
        self.waits.get_or_create(&line).observe(ran.waited.as_secs_f64());
        let waited = ran.waited + ran.waited_for_processors;
        let share = Controller {
            controller: controller.clone(),
        };
        self.shares.get_or_create(&share).observe(waited.as_secs_f64());
        let outcome = Outcome {
            controller,
            result: if ran.failed {
                ReconcileResult::Error
            } else {
                ReconcileResult::Success
            },
        };
        self.reconciles.get_or_create(&outcome).inc();
    }

    pub(crate) fn leads(&self, lease: &str, held: bool) {
        let name = lease.to_owned();
        self.leads.get_or_create(&Named { name }).set(held.into());
    }

    /// All metrics as text, including those of an engine.
    pub(crate) fn text(&self, engine: Option<&Engine>) -> String {
        let mut now = Registry::default();
        if let Some(engine) = engine {
            counts::engine(&mut now, &engine.stats(), &engine.queues());
        }
        process(&mut now);
        counts::page(&[&self.registry, &now])
    }
}

/// Registers the metrics of this process from Linux's `/proc`, if there is one.
fn process(registry: &mut Registry) {
    let read_proc = |file: &str| std::fs::read_to_string(format!("/proc/self/{file}")).ok();
    if let Some(cpu) = read_proc("stat").and_then(|stat| cpu(&stat)) {
        let help = "Total user and system CPU time spent in seconds";
        let seconds = ConstCounter::new(cpu.as_secs_f64());
        registry.register("process_cpu_seconds", help, seconds);
    }
    if let Some(bytes) = read_proc("status").and_then(|status| resident_bytes(&status)) {
        let help = "Resident memory size in bytes";
        registry.register("process_resident_memory_bytes", help, ConstGauge::new(bytes));
    }
}

/// Fields 14 and 15 of `proc(5)`, counted after the name, which ends at the last parenthesis. Ticks are
/// hundredths of a second on every supported Linux.
fn cpu(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Duration::from_millis((number(14)? + number(15)?) * 10))
}

/// `VmRSS` of `proc(5)`, always in kB.
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let number = line.trim().strip_suffix("kB")?.trim_end();
    number.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use equate_controllers::Key;

    #[test]
    fn metrics_have_the_names_of_flux() {
        let controllers = equate_controllers::all();
        let metrics = Metrics::new(&controllers, 8);
        let observer = metrics.observer();
        let about = |kind: &str| controllers.iter().find(|about| about.kind == kind).unwrap();
        let ran = |name: &str, failed: bool, gone: bool| {
            observer(&ReconcileEvent {
                about: about("Kustomization"),
                key: &Key::new("flux-system", name),
                waited: Duration::from_millis(250),
                waited_for_processors: Duration::from_millis(750),
                took: Duration::from_millis(500),
                failed,
                gone,
            });
        };
        ran("apps", false, false);
        ran("apps", true, false);
        ran("gone", false, false);
        ran("gone", false, true);
        metrics.leads("kustomize-controller-leader-election", true);
        let text = metrics.text(None);
        for line in [
            "gotk_reconcile_duration_seconds_count{kind=\"Kustomization\",name=\"apps\",namespace=\"flux-system\"} 2",
            "gotk_reconcile_duration_seconds_sum{kind=\"Kustomization\",name=\"apps\",namespace=\"flux-system\"} 1.0",
            "controller_runtime_reconcile_total{controller=\"kustomization\",result=\"error\"} 1",
            "controller_runtime_reconcile_time_seconds_count{controller=\"kustomization\"} 4",
            "workqueue_work_duration_seconds_count{controller=\"kustomization\",name=\"kustomization\"} 4",
            "workqueue_queue_duration_seconds_sum{controller=\"kustomization\",name=\"kustomization\"} 1.0",
            "equate_queue_wait_seconds_sum{controller=\"kustomization\"} 4.0",
            "controller_runtime_max_concurrent_reconciles{controller=\"kustomization\"} 8",
            "controller_runtime_max_concurrent_reconciles{controller=\"gitrepository\"} 64",
            "controller_runtime_reconcile_total{controller=\"kustomization\",result=\"success\"} 3",
            "leader_election_master_status{name=\"kustomize-controller-leader-election\"} 1",
        ] {
            assert!(text.lines().any(|known| known == line), "no {line} in\n{text}");
        }
        assert!(!text.contains("name=\"gone\""), "{text}");
        assert!(
            text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1,
            "{text}"
        );
    }

    #[test]
    fn proc_files_are_parsed() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 5 0 0 0 150 50 0 0 20 0 8 0 100 900000 25 184 1 1";
        assert_eq!(cpu(stat), Some(Duration::from_secs(2)));
        assert_eq!(cpu("7 (a) S"), None);
        let status = "Name:\tequate\nVmPeak:\t  300 kB\nVmRSS:\t     100 kB\nThreads:\t4\n";
        assert_eq!(resident_bytes(status), Some(102_400));
        assert_eq!(resident_bytes("VmRSS:\t100\n"), None);
        let mut registry = Registry::default();
        process(&mut registry);
        let text = counts::page(&[&registry]);
        #[cfg(target_os = "linux")]
        for series in ["process_cpu_seconds_total ", "process_resident_memory_bytes "] {
            assert!(text.contains(series), "{text}");
        }
    }
}
