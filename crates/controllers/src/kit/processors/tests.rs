use super::core::{Begins, LARGE, QUANTUM, QUICK, SLOW, SLOW_MAX, SLOW_TURN};
use super::*;
use crate::kit::tenants::Tenant;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize};

const HELD_MAX_OF_TESTS: usize = 64 << 20;

/// Runs a script of the core's calls, one per line, and returns the jobs that begin or continue.
///
/// `job TENANT/NUMBER...`, `solo TENANT/NUMBER...`, `hold NAME MEBIBYTES`, `use NAME MILLISECONDS`, `end NAME`, `stop NAME`, `late NAME`, `lane NAME`
fn play(processors: usize, script: &str) -> String {
    play_on(Schedule::new(processors, 0, HELD_MAX_OF_TESTS), script)
}

fn play_on(mut core: Schedule, script: &str) -> String {
    let mut names = BTreeMap::new();
    let mut out = Vec::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let id = |name: &str| *names.iter().find(|(_, known)| **known == name).unwrap().0;
        match words[..] {
            [kind @ ("job" | "solo"), ref all @ ..] => {
                let begins = if kind == "solo" {
                    Begins::Solo
                } else {
                    Begins::InTurn
                };
                for name in all {
                    let tenant = name.split_once('/').unwrap().0;
                    let id = names.len() as JobId;
                    names.insert(id, *name);
                    core.submit(
                        id,
                        &Tenant::Namespace(tenant.into()),
                        tenant == "platform",
                        begins,
                    );
                }
            }
            ["use", name, cost] => {
                core.pause(id(name), Duration::from_millis(cost.parse().unwrap()));
                if core.is_paused(id(name)) {
                    out.push(format!("{name} pauses"));
                }
            }
            ["hold", name, mebibytes] => {
                let bytes = mebibytes.parse::<usize>().unwrap() << 20;
                let displaced = core.hold(id(name), bytes);
                out.extend(displaced.iter().map(|job| format!("{} is displaced", names[job])));
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

#[track_caller]
fn check_quick(places: usize, script: &str, turns: &str) {
    let core = Schedule::new(1, places, HELD_MAX_OF_TESTS);
    assert_eq!(play_on(core, script), turns, "{script}");
}

#[test]
fn a_new_job_of_a_tenant_without_others_has_a_quick_place() {
    check_quick(
        1,
        "job a/1 a/2
         job b/1
         lane b/1
         job c/1
         end b/1
         lane c/1
         end a/1
         end c/1",
        "a/1, b/1, quick, c/1, quick, a/2",
    );
    // it is not for two jobs of one tenant
    check_quick(2, "job a/1 a/2 a/3", "a/1");
}

#[test]
fn a_quick_job_waits_for_a_processor_when_it_is_quick_no_more() {
    assert_eq!(QUICK, Duration::from_millis(10));
    check_quick(
        1,
        "job a/1
         job b/1
         use b/1 9
         use b/1 1
         job c/1
         lane c/1
         end a/1
         lane b/1",
        "a/1, b/1, b/1 pauses, c/1, quick, b/1, normal",
    );
    // one without pauses keeps its place until it is overdue
    check_quick(
        1,
        "job a/1
         job b/1
         job c/1
         late b/1
         lane b/1
         lane c/1",
        "a/1, b/1, c/1, slow, quick",
    );
}

#[test]
fn a_tenant_of_long_jobs_has_no_quick_place_for_a_while() {
    check_quick(
        1,
        "job a/1
         job b/1
         use b/1 15
         end a/1
         end b/1
         job a/2
         job b/2
         end a/2
         end b/2
         job a/3
         job b/3
         lane b/3",
        "a/1, b/1, b/1 pauses, b/1, a/2, b/2, a/3, b/3, quick",
    );
}

#[test]
fn a_tenant_that_used_more_than_the_others_has_no_quick_place() {
    let script = |jobs: u32| {
        let mut script = String::from("job a/1\n");
        for number in 1..=jobs {
            script += &format!("job b/{number}\nuse b/{number} 9\nend b/{number}\n");
        }
        script + "job b/more\njob c/1\nlane c/1"
    };
    let turns = |jobs: u32| {
        let names: Vec<String> = (1..=jobs).map(|number| format!("b/{number}, ")).collect();
        format!("a/1, {}", names.concat())
    };
    check_quick(1, &script(28), &(turns(28) + "c/1, quick"));
    // it is little, and others may have arrived just now
    check_quick(1, &script(26), &(turns(26) + "b/more, none"));
}

#[test]
fn use_is_little_again_after_a_while() {
    let (began, tenant) = (std::time::Instant::now(), Tenant::Namespace("a".into()));
    let mut core = Schedule::new(2, 1, HELD_MAX_OF_TESTS);
    core.recent.now = began;
    // another one, which uses nothing
    core.submit(0, &Tenant::Namespace("b".into()), false, Begins::InTurn);
    core.submit(1, &tenant, false, Begins::InTurn);
    core.turns();
    core.pause(1, QUICK / 2);
    for job in 2..100 {
        core.submit(job, &tenant, false, Begins::InTurn);
        core.turns();
        core.finish(job, QUICK);
    }
    // 985 ms of which 250 are little; two processors give 200 back each second
    assert_eq!(nice(&core, 1), SHARED_PRIORITY);
    core.recent.now = began + Duration::from_millis(3_600);
    assert_eq!(nice(&core, 1), SHARED_PRIORITY);
    core.recent.now = began + Duration::from_millis(3_700);
    assert_eq!(nice(&core, 1), 0);
}

#[test]
fn only_jobs_of_tenants_that_used_more_than_their_share_begin_low() {
    let mut core = Schedule::new(4, 0, HELD_MAX_OF_TESTS);
    let tenant = |name: &str| Tenant::Namespace(name.into());
    // each tenant has a job that stays
    for (number, (name, is_platform)) in [("busy", false), ("quiet", false), ("platform", true)]
        .into_iter()
        .enumerate()
    {
        core.submit(number as JobId, &tenant(name), is_platform, Begins::InTurn);
    }
    core.turns();
    core.submit(3, &tenant("busy"), false, Begins::InTurn);
    assert_eq!(first_nice(&core, 3), 0);
    core.pause(0, 10 * QUANTUM);
    core.pause(2, 10 * QUANTUM);
    for (number, name, nice) in [(4, "busy", SHARED_PRIORITY), (5, "quiet", 0), (6, "platform", 0)] {
        core.submit(number, &tenant(name), name == "platform", Begins::InTurn);
        assert_eq!(first_nice(&core, number), nice, "{name}");
    }
}

#[test]
fn only_some_tenants_of_long_jobs_are_remembered() {
    let mut core = Schedule::new(1, 1, HELD_MAX_OF_TESTS);
    for number in 0..2_000 {
        let tenant = Tenant::Namespace(format!("team-{number}").into());
        core.submit(number, &tenant, false, Begins::InTurn);
        assert_eq!(core.turns(), [number]);
        core.finish(number, Duration::from_secs(1));
    }
    assert_eq!(core.remembered(), 1_024);
    assert!(core.is_empty());
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
    let mut core = Schedule::new(1, 0, HELD_MAX_OF_TESTS);
    let (a, b) = (Tenant::Namespace("a".into()), Tenant::Namespace("b".into()));
    core.submit(1, &a, false, Begins::InTurn);
    assert_eq!(core.turns(), [1]);
    core.pause(1, QUANTUM);
    core.submit(2, &b, false, Begins::InTurn);
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

#[test]
fn the_tenant_with_the_most_use_gives_up_its_largest_job() {
    // the first one goes on as the solo job, and the next one ends
    check(
        4,
        "job a/1 b/1 b/2 c/1
         use a/1 40
         use b/1 20
         hold a/1 40
         hold c/1 20
         hold b/1 5
         hold b/2 20
         hold c/1 38
         hold a/1 100
         hold c/1 43
         hold b/1 8",
        "a/1, b/1, c/1, b/2, b/2 is displaced",
    );
    // one that pauses ends, too
    check(
        1,
        "job a/1
         hold a/1 70
         job b/1
         use a/1 60
         hold b/1 60
         use b/1 70
         job c/1
         use a/1 60
         hold c/1 50
         end c/1
         end b/1",
        "a/1, a/1 pauses, b/1, b/1 pauses, a/1, a/1 pauses, c/1, b/1 is displaced, a/1",
    );
}

#[test]
fn one_displaced_job_at_a_time_begins_again_and_that_of_the_least_used_tenant_first() {
    check(
        4,
        "job a/1 b/1 c/1
         use a/1 30
         use b/1 20
         use c/1 10
         hold a/1 1000
         solo b/2 c/2 b/3
         job b/4
         end a/1
         hold c/2 1000
         end c/2
         stop b/2
         end b/2",
        "a/1, b/1, c/1, b/4, c/2, b/2, b/3",
    );
    // nobody takes the place of those who wait for it
    check(
        1,
        "job a/1
         solo b/1
         hold a/1 100
         end a/1",
        "a/1, a/1 is displaced, b/1",
    );
}

#[test]
fn a_job_that_alone_holds_too_much_goes_on() {
    check(
        2,
        "job a/1
         hold a/1 65
         hold a/1 1000
         job b/1
         hold b/1 60
         use a/1 10
         end a/1
         hold b/1 64",
        "a/1, b/1",
    );
}

#[test]
fn small_jobs_and_those_of_the_platform_are_not_displaced() {
    assert_eq!(LARGE, 4 << 20);
    check(
        4,
        "job a/1 platform/1 b/1 b/2
         use b/1 40
         hold a/1 70
         hold platform/1 1000
         hold b/1 63
         hold b/2 3
         hold b/2 4
         job c/1
         hold c/1 3",
        "platform/1, a/1, b/1, b/2, b/1 is displaced, c/1",
    );
}

#[test]
fn what_an_ended_job_held_is_free() {
    for end in ["end a/1", "stop a/1"] {
        let script = format!(
            "job a/1 b/1 c/1
             hold a/1 70
             hold b/1 60
             {end}
             hold c/1 60"
        );
        // the place of the solo job is free as well when it has ended
        let turns = match end {
            "end a/1" => "a/1, b/1, c/1",
            _ => "a/1, b/1, c/1, c/1 is displaced",
        };
        check(3, &script, turns);
    }
    let mut core = Schedule::new(1, 0, HELD_MAX_OF_TESTS);
    let a = Tenant::Namespace("a".into());
    core.submit(1, &a, false, Begins::InTurn);
    core.submit(2, &a, false, Begins::Solo);
    core.submit(3, &a, false, Begins::Solo);
    assert_eq!(core.turns(), [1]);
    assert!(core.hold(1, LARGE).is_empty());
    core.stop(2);
    core.finish(1, Duration::ZERO);
    assert_eq!(core.turns(), [3]);
    core.finish(3, Duration::ZERO);
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
    let schedule = Schedule::new(number, 0, HELD_MAX_OF_TESTS);
    Processors::with_clock(schedule, tenants, Threads::Own, ticks)
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

/// The bytes of a test's jobs; returned when they end.
#[derive(Default)]
struct Held {
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Held {
    /// A build: it grows, and works on with all of its memory.
    fn grow(self: &Arc<Self>, pause: &Pause, bytes: usize) -> bool {
        let mut own = 0;
        let goes_on = (0..60).all(|_| {
            if own < bytes {
                own += 1 << 20;
                let now = self.now.fetch_add(1 << 20, Ordering::SeqCst) + (1 << 20);
                self.peak.fetch_max(now, Ordering::SeqCst);
            }
            pause.holding(own)
        });
        self.now.fetch_sub(own, Ordering::SeqCst);
        goes_on
    }
}

async fn grown(processors: &Processors, namespace: &str, held: &Arc<Held>, bytes: usize) -> usize {
    let (mut pause, mut displaced) = (processors.pause(), 0);
    loop {
        let (own, held) = (pause.clone(), Arc::clone(held));
        let job = processors.run_pausing(namespace, pause, move || held.grow(&own, bytes));
        match job.done().await {
            Ok(goes_on) => {
                assert!(goes_on);
                return displaced;
            }
            Err(error) => assert_eq!(error, JobError::Displaced),
        }
        displaced += 1;
        pause = processors.pause_of_displaced();
    }
}

#[tokio::test]
async fn builds_of_many_tenants_hold_no_more_than_the_limit() {
    let (processors, held) = (processors(2, &[]), Arc::new(Held::default()));
    let large = 30 << 20;
    let names: Vec<String> = (0..20).map(|number| format!("evil-{number}")).collect();
    let attacks = names.iter().flat_map(|name| [name; 2]);
    let attacks = attacks.map(|name| grown(&processors, name, &held, large));
    let honest = async {
        for _ in 0..50 {
            assert_eq!(grown(&processors, "honest", &Arc::default(), 1 << 20).await, 0);
        }
    };
    let (displaced, ()) = futures::join!(futures::future::join_all(attacks), honest);
    // no job begins more than twice
    assert!(displaced.iter().all(|times| *times <= 1), "{displaced:?}");
    assert!(displaced.contains(&1));
    // jobs that are told to end may hold theirs for a moment
    let peak = held.peak.load(Ordering::SeqCst);
    assert!(peak <= HELD_MAX_OF_TESTS + 8 * large, "{} MiB", peak >> 20);
    assert_eq!(held.now.load(Ordering::SeqCst), 0);
    assert!(processors.are_idle());
}

#[test]
fn the_memory_of_the_machine_is_read() {
    let text = "MemTotal:       24684000 kB\nMemFree: 1 kB\n";
    assert_eq!(machine_memory(text), Some(24_684_000 << 10));
    assert_eq!(machine_memory("MemFree: 1 kB\n"), None);
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

#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_is_lowered_before_it_begins_begins_lower() {
    let nice = || priority().unwrap();
    let before = nice();
    // priorities may not be raised again: on a thread of its own
    let (own, thread) = (Arc::new(OwnThread::default()), Arc::new(OwnThread::default()));
    own.lower(before + 1);
    let begun = std::thread::spawn(move || {
        own.begin(this_thread());
        let first = nice();
        own.lower(before + 1);
        own.lower(before + 3);
        own.lower(before + 2);
        let second = nice();
        own.end();
        own.lower(before + 5);
        (first, second, nice())
    });
    assert_eq!(begun.join().unwrap(), (before + 1, before + 3, before + 3));
    drop(GivesWay(Arc::clone(&thread)));
    assert_eq!(thread.nice.load(Ordering::Relaxed), SHARED_PRIORITY);
}

#[cfg(target_os = "linux")]
#[test]
fn a_quick_job_does_not_use_up_its_time_while_it_waits() {
    let used = std::thread::spawn(|| {
        if this_thread().and_then(time_of).is_none() {
            println!("skipped: the system does not tell the time of threads");
            return None;
        }
        let gate = processors(1, &[]).pause().gate;
        assert_eq!(gate.quick_time_left(), None, "no thread");
        gate.begin(thread_time());
        gate.thread.begin(this_thread());
        let (_waits, other) = std::sync::mpsc::channel::<()>();
        other.recv_timeout(2 * QUICK).unwrap_err();
        let before = gate.quick_time_left();
        // the system counts in ticks
        let began = thread_time();
        while thread_time() < began + 4 * QUICK {}
        assert!(before.is_some());
        gate.quick_time_left()
    });
    assert_eq!(used.join().unwrap(), None);
}

#[test]
fn short_jobs_keep_the_normal_priority() {
    let mut core = Schedule::new(2, 0, HELD_MAX_OF_TESTS);
    let tenant = |name: &str| Tenant::Namespace(name.into());
    for (number, name) in [(0, "busy"), (1, "quiet"), (2, "platform")] {
        core.submit(number, &tenant(name), name == "platform", Begins::InTurn);
    }
    assert_eq!(core.turns().len(), 3);
    let all = |core: &Schedule| [0, 1, 2].map(|job| nice(core, job));
    assert_eq!(all(&core), [0; 3]);
    for job in 0..3 {
        core.pause(job, QUICK / 2);
    }
    assert_eq!(all(&core), [0; 3]);
    core.pause(2, QUICK);
    core.pause(0, Duration::from_millis(250));
    assert_eq!(all(&core), [SHARED_PRIORITY, 0, SHARED_PRIORITY]);
    core.finish(0, Duration::ZERO);
    core.submit(3, &tenant("busy"), false, Begins::InTurn);
    core.turns();
    // its tenant has used more than the others
    assert_eq!([1, 3].map(|job| nice(&core, job)), [0, SHARED_PRIORITY]);
}

#[tokio::test]
async fn work_for_a_host_takes_no_turn_and_goes_on_if_nobody_waits() {
    let processors = processors(1, &[]);
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let held = processors.run("a", move || ended.recv());
    assert_eq!(processors.beside(|| 1).await, Ok(1));
    let broken = processors.beside(|| -> u8 { panic!("on {}", "purpose") }).await;
    assert_eq!(broken, Err(JobError::Panicked("on purpose".to_owned())));
    let (go, went) = std::sync::mpsc::channel::<()>();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let work = processors.beside(move || (went.recv(), done.send(())));
    // longer than until its thread gives way
    assert!(tokio::time::timeout(2 * LASTING, work).await.is_err());
    go.send(()).unwrap();
    is_done.recv_timeout(Duration::from_secs(60)).unwrap();
    end.send(()).unwrap();
    held.done().await.unwrap().unwrap();
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

#[tokio::test]
async fn paced_work_ends_at_its_limit_and_without_readers() {
    let processors = Processors::new(1, Tenants::default(), Threads::Own);
    let endless = |go_on: &dyn Fn() -> bool| while go_on() {};
    let limit = Duration::from_millis(20);
    assert_eq!(
        processors.paced("a", limit, endless).await,
        Err(JobError::Late(limit))
    );
    let hour = Duration::from_secs(3600);
    let unread = tokio::time::timeout(limit, processors.paced("a", hour, endless));
    assert!(unread.await.is_err());
    while !processors.are_idle() {
        tokio::task::yield_now().await;
    }
    assert_eq!(processors.paced("a", hour, |go_on| go_on()).await, Ok(true));
}

/// Records on drop whether work was over.
struct Probe(Pause, Arc<AtomicBool>);

impl Drop for Probe {
    fn drop(&mut self) {
        self.1.store(self.0.is_over(), Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_job_is_over_before_it_is_stopped() {
    let processors = processors(1, &[]);
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let first = processors.run("a", move || ended.recv());
    let was_over = Arc::new(AtomicBool::new(false));
    let pause = processors.pause();
    let probe = Probe(pause.clone(), Arc::clone(&was_over));
    // it waits, so the stop drops its work
    drop(processors.run_pausing("b", pause, move || drop(probe)));
    assert!(was_over.load(Ordering::SeqCst));
    end.send(()).unwrap();
    first.done().await.unwrap().unwrap();
}
