use super::core::{QUANTUM, SLOW, SLOW_MAX, SLOW_TURN};
use super::*;
use crate::kit::tenants::Tenant;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// Runs a script of the core's calls, one per line, and returns the jobs that begin or continue.
///
/// `job TENANT/NUMBER...`, `use NAME MILLISECONDS`, `end NAME`, `stop NAME`, `late NAME`, `lane NAME`
fn play(processors: usize, script: &str) -> String {
    let mut core = Schedule::new(processors);
    let mut names = BTreeMap::new();
    let mut out = Vec::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let id = |name: &str| *names.iter().find(|(_, known)| **known == name).unwrap().0;
        match words[..] {
            ["job", ref all @ ..] => {
                for name in all {
                    let tenant = name.split_once('/').unwrap().0;
                    let id = names.len() as JobId;
                    names.insert(id, *name);
                    core.submit(id, &Tenant::Namespace(tenant.into()), tenant == "platform");
                }
            }
            ["use", name, cost] => {
                core.pause(id(name), Duration::from_millis(cost.parse().unwrap()));
                if core.is_paused(id(name)) {
                    out.push(format!("{name} pauses"));
                }
            }
            ["end", name] => core.finish(id(name), Duration::ZERO),
            ["stop", name] => core.stop(id(name)),
            ["late", name] => core.overdue(id(name)),
            ["lane", name] => out.push(core.lane(id(name)).to_owned()),
            _ => panic!("{line}"),
        }
        out.extend(core.turns().iter().map(|id| names[id].to_owned()));
    }
    out.join(", ")
}

#[track_caller]
fn check(processors: usize, script: &str, turns: &str) {
    assert_eq!(play(processors, script), turns, "{script}");
}

#[test]
fn tenants_take_turns_and_no_processor_idles() {
    check(2, "job a/1 a/2 a/3 b/1 a/4", "a/1, b/1");
    check(
        1,
        "job a/1 a/2 a/3 b/1 b/2
         end a/1
         end b/1
         end a/2
         end b/2",
        "a/1, b/1, a/2, b/2, a/3",
    );
    // alone, a tenant has all of them
    check(3, "job a/1 a/2 a/3 a/4", "a/1, a/2, a/3");
}

#[test]
fn the_tenant_that_used_least_is_next() {
    check(
        1,
        "job a/1 a/2 a/3 b/1 b/2 b/3
         use a/1 40
         end a/1
         use b/1 10
         end b/1
         use b/2 10
         end b/2
         use b/3 60",
        "a/1, b/1, b/2, b/3, b/3 pauses, a/2",
    );
}

#[test]
fn a_tenant_that_arrives_has_no_credit_and_one_that_leaves_keeps_its_debt() {
    // b arrives at the use of a, and they take turns
    check(
        1,
        "job a/1 a/2 a/3
         use a/1 900
         end a/1
         job b/1 b/2
         end a/2
         end b/1
         end a/3",
        "a/1, a/2, b/1, a/3, b/2",
    );
    // b used more than a, leaves and comes back: a goes first
    check(
        1,
        "job a/1 a/2 b/1
         end a/1
         use b/1 30
         end b/1
         job b/2 a/3
         end a/2
         end a/3",
        "a/1, b/1, a/2, a/3, b/2",
    );
}

#[test]
fn a_job_lets_a_tenant_go_first_that_used_less() {
    check(
        1,
        "job a/1
         use a/1 40
         job b/1
         use a/1 5
         use a/1 5
         end b/1",
        "a/1, a/1 pauses, b/1, a/1",
    );
    // but not one that used more
    check(
        1,
        "job a/1 b/1
         use a/1 60
         use b/1 70
         use a/1 5",
        "a/1, a/1 pauses, b/1, b/1 pauses, a/1",
    );
}

#[test]
fn a_slow_job_leaves_its_processor_and_goes_on_in_the_slow_lane() {
    check(
        1,
        "job a/1 a/2
         use a/1 999
         use a/1 1
         lane a/1
         lane a/2",
        "a/1, a/1 pauses, a/2, a/1, slow, normal",
    );
}

#[test]
fn slow_jobs_take_turns_by_tenant_one_at_once() {
    check(
        1,
        "job a/1 b/1
         use a/1 1000
         use b/1 1000
         job c/1
         use a/1 240
         use a/1 10
         use b/1 250
         use a/1 250
         end b/1",
        "a/1, a/1 pauses, b/1, a/1, b/1 pauses, c/1, a/1 pauses, b/1, b/1 pauses, a/1, a/1 pauses, b/1, a/1",
    );
}

#[test]
fn slow_jobs_use_idle_processors_until_others_come() {
    check(
        2,
        "job a/1 a/2
         use a/1 1000
         use a/2 1000
         lane a/1
         lane a/2
         job b/1 b/2
         use a/1 5
         use a/2 5
         end b/1
         end b/2",
        "a/1, a/2, a/1 pauses, a/1, a/2 pauses, a/2, slow, slow, b/1, b/2, a/1 pauses, a/1",
    );
}

#[test]
fn a_tenant_with_slow_jobs_begins_no_others_while_there_are_other_tenants() {
    assert_eq!(SLOW_MAX, 2);
    check(
        2,
        "job a/1 a/2 b/1 c/1
         use a/1 1000
         end b/1
         use a/2 1000
         job a/3 a/4
         end c/1
         end a/1",
        "a/1, b/1, a/1 pauses, c/1, a/1, a/2, a/2 pauses, a/2, a/3, a/4",
    );
}

#[test]
fn the_platform_has_a_processor_that_nobody_else_can_take() {
    check(
        1,
        "job a/1 a/2 b/1 platform/1 platform/2
         lane platform/1
         use platform/1 1500
         end platform/1
         lane platform/2",
        "platform/1, a/1, platform, platform/1 pauses, platform/2, platform/1, platform",
    );
    // a slow job of the platform stays there if no quick one waits
    check(
        1,
        "job platform/1
         job a/1
         use a/1 1000
         use platform/1 1000
         lane platform/1",
        "platform/1, a/1, a/1 pauses, a/1, platform",
    );
    // others have all that it leaves
    check(
        2,
        "job platform/1 a/1 a/2 platform/2",
        "platform/1, a/1, platform/2",
    );
    check(
        1,
        "job a/1 a/2 b/1
         use a/1 1000
         use b/1 1000",
        "a/1, a/1 pauses, b/1, a/1, b/1 pauses, a/2",
    );
}

#[test]
fn a_job_without_pauses_gives_its_place_to_another() {
    check(
        1,
        "job a/1 b/1 b/2
         late a/1
         lane a/1
         end a/1
         late b/1
         stop b/1
         lane b/1
         end b/1",
        "a/1, b/1, slow, b/2, slow",
    );
}

#[test]
fn stopped_jobs_do_not_begin_or_end_at_once() {
    check(
        1,
        "job a/1 a/2 b/1
         stop a/2
         stop b/1
         end a/1",
        "a/1",
    );
    let mut core = Schedule::new(1);
    let (a, b) = (Tenant::Namespace("a".into()), Tenant::Namespace("b".into()));
    core.submit(1, &a, false);
    assert_eq!(core.turns(), [1]);
    core.pause(1, QUANTUM);
    core.submit(2, &b, false);
    core.pause(1, QUANTUM);
    assert!(core.is_paused(1));
    assert_eq!(core.turns(), [2]);
    core.stop(1);
    assert!(!core.is_paused(1));
    core.stop(2);
    core.pause(2, SLOW + SLOW_TURN);
    assert!(!core.is_paused(2));
    core.pause(1, SLOW + SLOW_TURN);
    assert!(!core.is_paused(1));
    core.finish(1, Duration::ZERO);
    core.finish(2, Duration::ZERO);
    assert!(core.is_empty());
}

thread_local!(static USED: Cell<Duration> = const { Cell::new(Duration::ZERO) });

fn ticks() -> Duration {
    USED.with(|used| {
        used.set(used.get() + Duration::from_millis(20));
        used.get()
    })
}

fn processors(number: usize, platform: &[&str]) -> Processors {
    let tenants = Tenants::of_cluster(platform.iter().map(|name| (*name).to_owned()));
    Processors::with_clock(number, tenants, Threads::Own, ticks)
}

fn endless(processors: &Processors, namespace: &str) -> (Job<()>, Arc<AtomicBool>, Arc<AtomicUsize>) {
    let (pause, stop, pauses) = (processors.pause(), Arc::default(), Arc::default());
    let (own, stopped, counted) = (pause.clone(), Arc::clone(&stop), Arc::clone(&pauses));
    let job = processors.run_pausing(namespace, pause, move || {
        let (stopped, counted): (Arc<AtomicBool>, Arc<AtomicUsize>) = (stopped, counted);
        while !stopped.load(Ordering::SeqCst) {
            own.here();
            counted.fetch_add(1, Ordering::SeqCst);
            std::thread::yield_now();
        }
    });
    (job, stop, pauses)
}

#[tokio::test]
async fn an_honest_job_is_done_among_endless_ones() {
    let processors = processors(2, &[]);
    let endless: Vec<_> = (0..40)
        .map(|job| endless(&processors, ["evil", "worse"][job % 2]))
        .collect();
    for _ in 0..50 {
        let answer = processors.run("honest", || 42).done().await;
        assert_eq!(answer, Ok(42));
    }
    // no more than these are in memory
    let begun = endless
        .iter()
        .filter(|(_, _, pauses)| pauses.load(Ordering::SeqCst) > 0);
    assert!(begun.count() <= 2 * (SLOW_MAX + 2));
    for (job, stop, _) in endless {
        stop.store(true, Ordering::SeqCst);
        drop(job);
    }
    assert_eq!(processors.run("honest", || 1).done().await, Ok(1));
}

#[tokio::test]
async fn a_stop_ends_a_pause_at_once() {
    let processors = processors(1, &[]);
    let (slow, stop_slow, _) = endless(&processors, "a");
    let (other, stop_other, _) = endless(&processors, "b");
    for _ in 0..100 {
        processors.run("honest", || ()).done().await.unwrap();
    }
    stop_slow.store(true, Ordering::SeqCst);
    stop_other.store(true, Ordering::SeqCst);
    drop((slow, other));
    while !processors.are_idle() {
        tokio::task::yield_now().await;
    }
    assert!(processors.0.state().gates.is_empty());
}

#[tokio::test]
async fn the_platforms_processor_is_free_while_others_hold_theirs() {
    let processors = processors(1, &["flux-system"]);
    let (end, ended) = std::sync::mpsc::channel::<()>();
    // without pauses
    let held = processors.run("evil", move || ended.recv());
    assert_eq!(processors.run("flux-system", || 1).done().await, Ok(1));
    end.send(()).unwrap();
    held.done().await.unwrap().unwrap();
}

#[tokio::test]
async fn a_panic_is_returned_and_frees_the_processor() {
    let processors = processors(1, &[]);
    let broken = processors.run("a", || -> u8 { panic!("on {}", "purpose") });
    let error = broken.done().await.unwrap_err();
    assert_eq!(error.to_string(), "the work panicked with message \"on purpose\"");
    assert_eq!(processors.run("a", || 1).done().await, Ok(1));
}

#[tokio::test]
async fn a_job_that_nobody_waits_for_does_not_begin() {
    let processors = processors(1, &[]);
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let first = processors.run("a", move || ended.recv());
    let begun = Arc::new(AtomicBool::new(false));
    let second = processors.run("a", {
        let begun = Arc::clone(&begun);
        move || begun.store(true, Ordering::SeqCst)
    });
    drop(second);
    end.send(()).unwrap();
    first.done().await.unwrap().unwrap();
    processors.run("a", || ()).done().await.unwrap();
    assert!(!begun.load(Ordering::SeqCst));
    assert!(processors.are_idle());
}

#[tokio::test(start_paused = true)]
async fn only_the_time_on_a_processor_is_limited() {
    let processors = processors(1, &[]);
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let first = processors.run("a", move || ended.recv());
    let second = processors.run("b", || 2);
    let minute = Duration::from_secs(60);
    let said = AtomicBool::new(false);
    let throttled = || said.store(true, Ordering::SeqCst);
    let mut waiting = std::pin::pin!(second.within(minute, throttled));
    // an hour in line
    assert!(tokio::time::timeout(60 * minute, &mut waiting).await.is_err());
    assert!(said.load(Ordering::SeqCst));
    assert_eq!(first.within(minute, || ()).await, Err(JobError::Late(minute)));
    // threads do not follow a paused clock
    tokio::time::resume();
    end.send(()).unwrap();
    assert_eq!(waiting.await, Ok(2));
}
