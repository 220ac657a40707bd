use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;

/// `namespace/name`; without a namespace it is empty.
impl Namespaced for &str {
    fn namespace(&self) -> &str {
        self.split_once('/').map_or("", |(namespace, _)| namespace)
    }
}

impl Namespaced for String {
    fn namespace(&self) -> &str {
        self.split_once('/').map_or("", |(namespace, _)| namespace)
    }
}

/// Runs a script of the core's calls, one per line, and returns the results of `take`.
///
/// `wake KEY REASON`, `at SECONDS KEY REASON`, `pass SECONDS`, `take`, `forget KEY`, `end KEY
/// done|failed|after SECONDS|failed-within SECONDS`, `due`, `size`, and `waited` for the last taken key
/// and for all; `leave NAMESPACE`, `back NAMESPACE`, `compute KEY`, `computed KEY`, `label NAMESPACE TENANT`,
/// `platform` takes with the platform's worker, `lend` with a lent one, `throttled` for the last key, `lends` for
/// the time until the next is lent
fn play(script: &str) -> String {
    let backoff = Backoff {
        first: Duration::from_secs(1),
        max: Duration::from_secs(60),
    };
    let tenants = Tenants::of_cluster(["platform".to_owned()]);
    let mut core: Core<&str> = Core::new(backoff, Jitter::none(), tenants.clone());
    let mut runs = HashMap::new();
    let start = Instant::now();
    let mut now = start;
    let mut out = Vec::new();
    let (mut waited, mut throttled) = (Duration::ZERO, false);
    let reason = |word: &str| *Reason::ALL.iter().find(|r| r.as_str() == word).unwrap();
    let seconds = |word: &str| Duration::from_secs(word.parse().unwrap());
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["wake", key, why] => core.wake(key, reason(why), now),
            ["at", after, key, why] => core.wake_at(key, now + seconds(after), reason(why)),
            ["pass", time] => {
                now += seconds(time);
                core.expire(now);
            }
            [take @ ("take" | "platform" | "lend")] => {
                let free = match take {
                    "take" => Free::Any,
                    _ => Free::Some {
                        platform: take == "platform",
                        lent: take == "lend",
                    },
                };
                out.push(match core.take(free, now) {
                    Some(Taken::Key(Begun {
                        key,
                        info,
                        run,
                        tenant,
                    })) => {
                        waited = info.waited;
                        throttled = info.throttled;
                        runs.insert(key, (run, tenant));
                        format!("{key}({})", info.reasons)
                    }
                    Some(Taken::Run(run)) => {
                        let (key, _) = runs.iter().find(|(_, of)| of.0 == run).unwrap();
                        format!("{key} again")
                    }
                    None => "-".to_owned(),
                });
            }
            ["throttled"] => out.push(throttled.to_string()),
            ["label", namespace, label] => tenants.label(namespace, Some(label)),
            ["compute", key] => {
                let (run, tenant) = &runs[key];
                core.put_down(*run, now);
                core.away(Absence::Processor).add(tenant);
            }
            ["computed", key] => {
                let (run, tenant) = &runs[key];
                core.away(Absence::Processor).remove(tenant);
                core.want_worker(*run, now);
            }
            ["free", workers] => out.push(match core.free(workers.parse().unwrap(), now) {
                Free::Any => "Any".to_owned(),
                Free::NONE => "None".to_owned(),
                Free::Some { platform, lent } => {
                    let all = [(platform, "Platform"), (lent, "Lent")];
                    let words: Vec<&str> = all.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
                    words.join("+")
                }
            }),
            ["lends"] => out.push(match core.next_lent(now) {
                Some(at) => format!("lends after {} ms", (at - now).as_millis()),
                None => "lends to nobody".to_owned(),
            }),
            ["waited"] => out.push(format!(
                "waited {} of {}",
                waited.as_secs(),
                core.counts().waited.as_secs()
            )),
            ["leave", namespace] => core.away(Absence::Host).add(&tenants.of(namespace)),
            ["back", namespace] => core.away(Absence::Host).remove(&tenants.of(namespace)),
            ["forget", key] => core.forget(&key),
            ["end", key, ref how @ ..] => {
                let requeue = match how {
                    ["done"] => Requeue::Wait,
                    ["failed"] => Requeue::Backoff,
                    ["after", time] => Requeue::After(seconds(time), Reason::Interval),
                    ["failed-within", time] => Requeue::BackoffWithin(seconds(time)),
                    _ => panic!("{line}"),
                };
                core.finish(&key, requeue, now);
            }
            ["due"] => out.push(match core.next_due() {
                Some(at) => format!("due {}", at.duration_since(start).as_secs()),
                None => "never due".to_owned(),
            }),
            ["size"] => {
                let counts = core.counts();
                out.push(format!("{}/{}/{}", counts.ready, counts.running, counts.waiting));
            }
            _ => panic!("{line}"),
        }
    }
    out.join(" ")
}

fn take<K: Namespaced + Clone + Eq + Hash>(core: &mut Core<K>, now: Instant) -> Option<K> {
    match core.take(Free::Any, now)? {
        Taken::Key(begun) => Some(begun.key),
        Taken::Run(_) => None,
    }
}

#[track_caller]
fn check(script: &str, taken: &str) {
    assert_eq!(play(script), taken, "{script}");
}

#[test]
fn keys_run_in_the_order_they_were_woken_and_once() {
    check(
        "wake a changed
         wake b source
         wake a source
         wake c push
         take
         take
         take
         take",
        "a(changed+source) b(source) c(push) -",
    );
}

/// The order in which keys are taken: `KEY` is routine, `KEY!` is a request.
#[track_caller]
fn check_order(wakes: &str, taken: &str) {
    let mut core: Core<&str> = Core::new(Backoff::RECONCILE, Jitter::none(), Tenants::default());
    let now = Instant::now();
    for word in wakes.split_whitespace() {
        match word.strip_suffix('!') {
            Some(key) => core.wake(key, Reason::Requested, now),
            None => core.wake(word, Reason::Changed, now),
        }
    }
    let order: Vec<&str> = std::iter::from_fn(|| take(&mut core, now)).collect();
    assert_eq!(order.join(" "), taken, "{wakes}");
}

#[test]
fn namespaces_take_turns() {
    check_order("x/1 x/2 x/3 y/1 z/1 y/2", "x/1 y/1 z/1 x/2 y/2 x/3");
    check_order("y/1 x/1 x/2 y/2", "y/1 x/1 y/2 x/2");
    // keys without a namespace are one namespace
    check_order("1 2 x/1 3", "1 x/1 2 3");
    // a name may equal a namespace
    check_order("x/1 x/y y/1", "x/1 y/1 x/y");
}

#[test]
fn a_request_goes_first_in_its_own_namespace_and_in_no_other() {
    check_order("x/1 x/2 x/3!", "x/3 x/1 x/2");
    check_order("x/1 x/2! x/3 x/4!", "x/2 x/4 x/1 x/3");
    check_order("y/1 y/2 x/1 x/2!", "y/1 x/2 y/2 x/1");
    // many requests of one namespace do not delay routine work of another
    check_order("x/1! x/2! x/3! y/1 y/2", "x/1 y/1 x/2 y/2 x/3");
}

#[test]
fn a_request_moves_a_waiting_key_ahead() {
    check_order("x/1 x/2 x/2!", "x/2 x/1");
    check_order("x/1 x/2 x/3! x/2! x/3!", "x/3 x/2 x/1");
    // routine work on top of a request does not move it back
    check_order("x/1 x/2! x/2 x/3!", "x/2 x/3 x/1");
    // nor does a request cost its namespace the turn
    check_order("x/1 y/1 x/1!", "x/1 y/1");
    check(
        "wake x/1 changed
         take
         wake x/2 changed
         wake x/1 source
         wake x/1 requested
         end x/1 done
         take
         take",
        "x/1(changed) x/1(requested+source) x/2(changed)",
    );
}

#[test]
fn a_namespace_that_arrives_waits_for_no_second_turn_of_another() {
    check(
        "wake x/1 changed
         wake x/2 changed
         wake x/3 changed
         take
         wake y/1 changed
         wake y/2 changed
         take
         wake z/1 changed
         take
         take
         take
         take",
        "x/1(changed) y/1(changed) x/2(changed) z/1(changed) y/2(changed) x/3(changed)",
    );
}

#[test]
fn one_namespace_with_many_keys_delays_no_other_beyond_the_runs_in_progress() {
    let workers = 8;
    let mut core: Core<String> = Core::new(Backoff::RECONCILE, Jitter::none(), Tenants::default());
    let now = Instant::now();
    for key in 0..10_000 {
        core.wake(format!("large/{key}"), Reason::Changed, now);
    }
    let mut running: Vec<String> = (0..workers).map(|_| take(&mut core, now).unwrap()).collect();
    core.wake("small/1".to_owned(), Reason::Changed, now);
    // the first run in progress that ends makes room for it
    core.finish(&running.remove(0), Requeue::Wait, now);
    assert_eq!(take(&mut core, now).unwrap(), "small/1");
    // and every second run is the small one's as long as it has work
    core.wake("small/2".to_owned(), Reason::Changed, now);
    core.wake("small/3".to_owned(), Reason::Changed, now);
    let order: Vec<String> = (0..5).map(|_| take(&mut core, now).unwrap()).collect();
    assert_eq!(order, ["large/8", "small/2", "large/9", "small/3", "large/10"]);
}

#[test]
fn the_tenant_that_held_workers_least_is_next() {
    check(
        "wake x/1 changed
         wake x/2 changed
         wake x/3 changed
         wake y/1 changed
         wake y/2 changed
         wake y/3 changed
         take
         pass 9
         end x/1 done
         take
         pass 3
         end y/1 done
         take
         pass 3
         end y/2 done
         take
         pass 4
         end y/3 done
         take",
        "x/1(changed) y/1(changed) y/2(changed) y/3(changed) x/2(changed)",
    );
    // z arrives without credit: it starts where the least of the others is
    check(
        "wake x/1 changed
         wake x/2 changed
         wake x/3 changed
         take
         pass 9
         end x/1 done
         wake z/1 changed
         wake z/2 changed
         take
         pass 2
         end z/1 done
         take
         pass 3
         take",
        "x/1(changed) z/1(changed) x/2(changed) z/2(changed)",
    );
}

#[test]
fn a_label_makes_namespaces_one_tenant() {
    check(
        "label x shop
         label y shop
         wake x/1 changed
         wake x/2 changed
         wake y/1 changed
         wake y/2 changed
         wake z/1 changed
         wake z/2 changed
         take
         take
         take
         take
         take
         take",
        "x/1(changed) z/1(changed) x/2(changed) z/2(changed) y/1(changed) y/2(changed)",
    );
}

#[test]
fn the_platform_has_a_worker_of_its_own() {
    check(
        "wake x/1 changed
         wake x/2 changed
         wake x/3 changed
         free 2
         take
         take
         free 2
         platform
         wake platform/1 changed
         platform
         free 2
         end x/1 done
         free 2
         end platform/1 done
         free 2
         take
         free 2",
        "Any x/1(changed) x/2(changed) Platform - platform/1(changed) None Any Any x/3(changed) Platform",
    );
}

#[test]
fn a_long_run_lends_its_worker_to_a_tenant_without_one() {
    check(
        "wake x/1 changed
         wake x/2 changed
         wake x/3 changed
         lends
         take
         take
         lends
         free 2
         pass 1
         free 2
         lend
         wake y/1 changed
         wake y/2 changed
         lends
         lend
         lend
         free 2
         lend
         wake z/1 changed
         lend
         free 2
         end y/1 done
         free 2
         lends",
        "lends to nobody x/1(changed) x/2(changed) lends after 20 ms Platform Platform+Lent - lends to nobody \
         y/1(changed) - Platform+Lent - z/1(changed) Platform Platform+Lent lends to nobody",
    );
}

#[test]
fn lent_workers_do_not_keep_the_next_free_one_from_the_first_in_line() {
    // a lent worker lends nothing, and a worker that ends is free beside the lent ones
    check(
        "wake x/1 changed
         take
         pass 1
         wake y/1 changed
         free 1
         lend
         pass 1
         wake x/2 changed
         wake z/1 changed
         free 1
         end x/1 done
         free 1
         take",
        "x/1(changed) Platform+Lent y/1(changed) Platform Any z/1(changed)",
    );
}

#[test]
fn a_run_that_computes_has_no_worker_and_waits_for_its_turn_to_have_one() {
    check(
        "wake x/1 changed
         wake x/2 changed
         wake y/1 changed
         take
         pass 5
         compute x/1
         free 1
         take
         pass 7
         end y/1 done
         wake y/2 changed
         computed x/1
         free 1
         take
         take
         end x/1 done
         size",
        "x/1(changed) Any y/1(changed) Any x/1 again x/2(changed) 1/1/0",
    );
    // a run that ends while it waits leaves nothing behind
    check(
        "wake x/1 changed
         take
         compute x/1
         computed x/1
         end x/1 done
         take
         free 1
         size",
        "x/1(changed) - Any 0/0/0",
    );
}

#[test]
fn a_tenant_with_too_many_computing_runs_begins_no_others() {
    let mut script = String::new();
    for key in 0..seat::AWAY_MAX {
        script += &format!("wake x/{key} changed\ntake\ncompute x/{key}\n");
    }
    let taken = play(&format!(
        "{script}wake x/16 changed\nwake y/1 changed\ntake\ntake\ncomputed x/0\ntake\ntake"
    ));
    assert!(
        taken.ends_with("y/1(changed) - x/0 again x/16(changed)"),
        "{taken}"
    );
}

#[test]
fn a_key_is_throttled_if_it_waits_long_while_others_run() {
    let script = |seconds: u32, other: &str| {
        format!(
            "wake x/1 changed
             wake x/2 changed
             take
             pass 1
             wake {other} changed
             end x/1 done
             take
             pass {seconds}
             take
             throttled"
        )
    };
    let taken = play(&script(11, "y/1"));
    assert_eq!(taken, "x/1(changed) y/1(changed) x/2(changed) true");
    assert!(play(&script(9, "y/1")).ends_with("false"));
    // its own tenant's runs are no reason
    assert!(play(&script(11, "x/0")).ends_with("false"));
}

#[test]
fn the_wait_is_counted_from_when_a_key_is_ready() {
    check(
        "wake a changed
         pass 2
         wake a source
         pass 3
         take
         waited
         wake a object
         pass 10
         end a after 600
         pass 1
         take
         waited
         end a after 5
         pass 7
         take
         waited",
        "a(changed+source) waited 5 of 5 a(object) waited 1 of 6 a(interval) waited 2 of 8",
    );
}

#[test]
fn a_key_woken_while_it_runs_runs_again_at_the_end_of_the_line() {
    check(
        "wake a changed
         take
         wake a source
         wake a object
         take
         wake b push
         end a done
         take
         take
         end a done
         take
         size",
        "a(changed) - b(push) a(source+object) - 0/1/0",
    );
}

#[test]
fn a_failure_is_repeated_with_backoff_and_success_ends_it() {
    check(
        "wake a changed
         take
         end a failed
         due
         take
         pass 1
         take
         end a failed
         due
         pass 2
         take
         end a failed
         due
         pass 4
         take
         end a done
         due
         wake a changed
         take
         end a failed
         due",
        "a(changed) due 1 - a(retry) due 3 a(retry) due 7 a(retry) never due a(changed) due 8",
    );
}

#[test]
fn a_run_can_shorten_the_backoff() {
    check(
        "wake a changed
         take
         end a failed-within 30
         due
         pass 1
         take
         end a failed-within 1
         due",
        "a(changed) due 1 a(retry) due 2",
    );
}

#[test]
fn a_wake_does_not_wait_for_backoff_or_interval_and_takes_them_along() {
    check(
        "wake a changed
         take
         end a after 600
         due
         wake a source
         take
         due
         end a failed
         due
         wake a object
         take
         due
         end a done
         due
         size",
        "a(changed) due 600 a(source) never due due 1 a(object) never due never due 0/0/0",
    );
}

#[test]
fn the_earlier_of_two_times_counts() {
    check(
        "at 10 a interval
         at 20 a deadline
         due
         at 5 a deadline
         due
         pass 5
         take
         due",
        "due 10 due 5 a(deadline) never due",
    );
}

#[test]
fn a_time_set_while_the_key_runs_stays_unless_the_run_asks_for_an_earlier_one() {
    check(
        "wake a changed
         take
         at 10 a deadline
         end a after 600
         due
         pass 10
         take
         at 10 a deadline
         end a after 5
         due",
        "a(changed) due 10 a(deadline) due 15",
    );
}

#[test]
fn keys_due_together_run_in_the_order_they_were_set() {
    check(
        "at 3 b interval
         at 3 a interval
         at 2 c interval
         pass 3
         take
         take
         take",
        "c(interval) b(interval) a(interval)",
    );
}

#[test]
fn a_forgotten_key_leaves_nothing_behind() {
    check(
        "wake a changed
         wake b changed
         forget a
         take
         at 9 c interval
         forget c
         forget b
         wake x changed
         end b failed
         due
         take
         end x done
         take
         size",
        "b(changed) never due x(changed) - 0/0/0",
    );
    check(
        "wake a changed
         take
         forget a
         wake a appeared
         end a failed
         take",
        "a(changed) a(appeared)",
    );
}

#[test]
fn forgetting_leaves_the_others_in_their_order() {
    check(
        "wake x/1 changed
         wake x/2 requested
         wake y/1 changed
         wake z/1 changed
         wake x/3 changed
         forget x/2
         forget y/1
         size
         take
         take
         take
         take
         size",
        "3/0/0 x/1(changed) z/1(changed) x/3(changed) - 0/3/0",
    );
    // a namespace that comes back does not have its old turn
    check(
        "wake x/1 changed
         wake y/1 changed
         forget x/1
         wake x/1 changed
         take
         take",
        "y/1(changed) x/1(changed)",
    );
}

#[test]
fn failures_survive_a_wake_and_are_counted() {
    let mut core: Core<&str> = Core::new(Backoff::RECONCILE, Jitter::none(), Tenants::default());
    let now = Instant::now();
    for expected in 1..=3 {
        core.wake("a", Reason::Changed, now);
        take(&mut core, now);
        core.finish(&"a", Requeue::Backoff, now);
        assert_eq!(core.failures(&"a"), expected);
    }
    let counts = core.counts();
    assert_eq!(
        (counts.runs, counts.failed, counts.wakes(Reason::Changed)),
        (3, 3, 3)
    );
    assert_eq!(counts.runs_for(Reason::Changed), 3);
    assert_eq!(counts.runs_for(Reason::Retry), 0);
}

/// An operation that waits for readiness and fails is not tried again each time as if it were the first.
#[test]
fn a_pause_in_an_attempt_keeps_the_failures_before_it() {
    let mut core: Core<&str> = Core::new(Backoff::RECONCILE, Jitter::none(), Tenants::default());
    let now = Instant::now();
    let pause = Requeue::Pause(Duration::from_secs(1), Reason::Deadline);
    let after = Requeue::After(Duration::from_secs(1), Reason::Deadline);
    for (requeue, failures) in [
        (Requeue::Backoff, 1),
        (pause, 1),
        (Requeue::Backoff, 2),
        (after, 0),
    ] {
        core.wake("a", Reason::Changed, now);
        take(&mut core, now);
        core.finish(&"a", requeue, now);
        assert_eq!(core.failures(&"a"), failures);
    }
}

fn queue(workers: usize) -> Queue<String> {
    Queue::new(Settings {
        workers,
        jitter: Jitter::seeded(1),
        grace: Duration::from_secs(5),
        ..Settings::default()
    })
}

#[tokio::test(start_paused = true)]
async fn one_run_per_key_and_no_more_than_there_are_workers() {
    let queue = queue(3);
    let stop = CancellationToken::new();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (ended, mut runs) = mpsc::unbounded_channel();
    let busy = Arc::new(Mutex::new(std::collections::HashSet::new()));
    let running = tokio::spawn({
        let (queue, stop, most) = (queue.clone(), stop.clone(), Arc::clone(&most));
        async move {
            queue
                .run(stop, move |key, _| {
                    let (now, most, ended, busy) = (
                        Arc::clone(&now),
                        Arc::clone(&most),
                        ended.clone(),
                        Arc::clone(&busy),
                    );
                    async move {
                        assert!(busy.lock().unwrap().insert(key.clone()), "{key} runs twice");
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        now.fetch_sub(1, Ordering::SeqCst);
                        busy.lock().unwrap().remove(&key);
                        ended.send(key).unwrap();
                        Requeue::Wait
                    }
                })
                .await;
        }
    });
    for round in 0..3 {
        for key in 0..10 {
            queue.wake(format!("k{key}"), Reason::ALL[round]);
        }
    }
    for key in 0..10 {
        assert_eq!(runs.recv().await.unwrap(), format!("k{key}"));
    }
    queue.wake("k0".to_owned(), Reason::Push);
    assert_eq!(runs.recv().await.unwrap(), "k0");
    assert_eq!(most.load(Ordering::SeqCst), 3);
    let counts = queue.counts();
    assert_eq!((counts.runs, counts.failed, counts.panicked), (11, 0, 0));
    stop.cancel();
    running.await.unwrap();
    assert!(queue.counts().idle());
}

#[test]
fn a_namespace_with_too_many_runs_away_waits_and_others_do_not() {
    let mut script = String::new();
    for key in 0..=seat::AWAY_MAX {
        script += &format!("wake x/{key} changed\n");
    }
    script += "wake y/1 changed\n";
    for _ in 0..seat::AWAY_MAX {
        script += "leave x\n";
    }
    check(&format!("{script}take\ntake"), "y/1(changed) -");
    check(
        &format!("{script}take\nback x\ntake\ntake"),
        "y/1(changed) x/0(changed) x/1(changed)",
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_a_host_has_no_worker() {
    let queue = queue(1);
    let stop = CancellationToken::new();
    let (ended, mut runs) = mpsc::unbounded_channel();
    let running = tokio::spawn({
        let (queue, stop) = (queue.clone(), stop.clone());
        async move {
            queue
                .run(stop, move |key: String, _| {
                    let ended = ended.clone();
                    async move {
                        if key.starts_with("silent") {
                            let silent = tokio::time::sleep(Duration::from_secs(3600));
                            // two requests at once are one absence
                            tokio::join!(without_worker(silent), without_worker(async {}));
                        }
                        ended.send((key, Instant::now())).unwrap();
                        Requeue::Wait
                    }
                })
                .await;
        }
    });
    let start = Instant::now();
    for key in 0..100 {
        queue.wake(format!("silent/{key}"), Reason::Changed);
    }
    queue.wake("honest/1".to_owned(), Reason::Changed);
    let (key, at) = runs.recv().await.unwrap();
    assert_eq!((key.as_str(), at), ("honest/1", start));
    let counts = queue.counts();
    assert_eq!((counts.away, counts.running), (seat::AWAY_MAX, seat::AWAY_MAX));
    // all come back, in turns
    for _ in 0..100 {
        assert!(runs.recv().await.unwrap().0.starts_with("silent"));
    }
    stop.cancel();
    running.await.unwrap();
    assert_eq!(queue.counts().away, 0);
}

#[tokio::test(start_paused = true)]
async fn runs_that_waited_for_a_host_wait_for_a_free_worker() {
    let queue = queue(1);
    let stop = CancellationToken::new();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (ended, mut runs) = mpsc::unbounded_channel();
    let running = tokio::spawn({
        let (queue, stop, most) = (queue.clone(), stop.clone(), Arc::clone(&most));
        async move {
            queue
                .run(stop, move |key: String, _| {
                    let (ended, now, most) = (ended.clone(), Arc::clone(&now), Arc::clone(&most));
                    async move {
                        without_worker(tokio::time::sleep(Duration::from_secs(5))).await;
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        now.fetch_sub(1, Ordering::SeqCst);
                        ended.send(key).unwrap();
                        Requeue::Wait
                    }
                })
                .await;
        }
    });
    for key in 0..8 {
        queue.wake(format!("a/{key}"), Reason::Changed);
    }
    for _ in 0..8 {
        runs.recv().await.unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 1);
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_a_processor_has_no_worker() {
    let queue = queue(1);
    let stop = CancellationToken::new();
    let (ended, mut runs) = mpsc::unbounded_channel();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let running = tokio::spawn({
        let (queue, stop, most) = (queue.clone(), stop.clone(), Arc::clone(&most));
        async move {
            queue
                .run(stop, move |key: String, _| {
                    let (ended, now, most) = (ended.clone(), Arc::clone(&now), Arc::clone(&most));
                    async move {
                        if key.starts_with("slow") {
                            computing(tokio::time::sleep(Duration::from_secs(3600))).await;
                        }
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        now.fetch_sub(1, Ordering::SeqCst);
                        ended.send(key).unwrap();
                        Requeue::Wait
                    }
                })
                .await;
        }
    });
    let start = Instant::now();
    for key in 0..4 {
        queue.wake(format!("slow/{key}"), Reason::Changed);
    }
    queue.wake("honest/1".to_owned(), Reason::Changed);
    assert_eq!(runs.recv().await.unwrap(), "honest/1");
    assert!(start.elapsed() < Duration::from_secs(60));
    // they come back together, and go on one after the other
    for _ in 0..4 {
        assert!(runs.recv().await.unwrap().starts_with("slow"));
    }
    assert_eq!(most.load(Ordering::SeqCst), 1);
    queue.wake("slow/9".to_owned(), Reason::Changed);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(queue.counts().away, 1);
    stop.cancel();
    running.await.unwrap();
    assert_eq!(queue.counts().away, 0);
}

#[tokio::test(start_paused = true)]
async fn waiting_keys_hold_no_worker() {
    // a thousand keys wait for an hour, one worker serves another at once
    let queue = queue(1);
    let stop = CancellationToken::new();
    let (ran, mut runs) = mpsc::unbounded_channel();
    let running = tokio::spawn({
        let (queue, stop) = (queue.clone(), stop.clone());
        async move {
            queue
                .run(stop, move |key, run| {
                    ran.send((key, run.reasons, Instant::now())).unwrap();
                    async { Requeue::After(Duration::from_secs(3600), Reason::Interval) }
                })
                .await;
        }
    });
    let start = Instant::now();
    for key in 0..1000 {
        queue.wake(key.to_string(), Reason::Appeared);
    }
    for _ in 0..1000 {
        assert_eq!(runs.recv().await.unwrap().2, start);
    }
    queue.wake("urgent".to_owned(), Reason::Push);
    let (key, reasons, at) = runs.recv().await.unwrap();
    assert_eq!(
        (key.as_str(), reasons, at),
        ("urgent", Reason::Push.into(), start)
    );
    for _ in 0..1001 {
        let (_, reasons, at) = runs.recv().await.unwrap();
        assert_eq!(reasons, Reason::Interval.into());
        assert_eq!(at - start, Duration::from_secs(3600));
    }
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_gets_the_waiting_time_of_its_key() {
    let queue = queue(1);
    let stop = CancellationToken::new();
    let (ran, mut runs) = mpsc::unbounded_channel();
    let running = tokio::spawn({
        let (queue, stop) = (queue.clone(), stop.clone());
        async move {
            queue
                .run(stop, move |key, run| {
                    ran.send(format!("{key} {}", run.waited.as_secs())).unwrap();
                    async {
                        tokio::time::sleep(Duration::from_secs(3)).await;
                        Requeue::Wait
                    }
                })
                .await;
        }
    });
    for key in ["x/1", "x/2", "y/1"] {
        queue.wake(key.to_owned(), Reason::Changed);
    }
    // y has a lent worker
    for expected in ["x/1 0", "y/1 0", "x/2 3"] {
        assert_eq!(runs.recv().await.unwrap(), expected);
    }
    assert_eq!(queue.counts().waited.as_secs(), 3);
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_of_its_key_alone() {
    let queue = queue(2);
    let stop = CancellationToken::new();
    let (ran, mut runs) = mpsc::unbounded_channel();
    let first = AtomicUsize::new(0);
    let running = tokio::spawn({
        let (queue, stop) = (queue.clone(), stop.clone());
        async move {
            queue
                .run(stop, move |key, run| {
                    let broken = key == "bad" && first.fetch_add(1, Ordering::SeqCst) == 0;
                    let ran = ran.clone();
                    async move {
                        assert!(!broken, "on purpose");
                        ran.send(format!("{key}({})", run.reasons)).unwrap();
                        Requeue::Wait
                    }
                })
                .await;
        }
    });
    queue.wake("bad".to_owned(), Reason::Changed);
    queue.wake("good".to_owned(), Reason::Changed);
    assert_eq!(runs.recv().await.unwrap(), "good(changed)");
    assert_eq!(runs.recv().await.unwrap(), "bad(retry)");
    assert_eq!(queue.counts().panicked, 1);
    stop.cancel();
    running.await.unwrap();
}

/// Stops a run of that length in the middle; returns whether it ended, and after what time.
async fn stopped(length: Duration) -> (bool, Duration) {
    let queue = queue(1);
    let stop = CancellationToken::new();
    let (begun, mut begins) = mpsc::unbounded_channel();
    let ended = Arc::new(AtomicUsize::new(0));
    let running = tokio::spawn({
        let (queue, stop, ended) = (queue.clone(), stop.clone(), Arc::clone(&ended));
        async move {
            queue
                .run(stop, move |_, _| {
                    let (begun, ended) = (begun.clone(), Arc::clone(&ended));
                    async move {
                        begun.send(()).unwrap();
                        tokio::time::sleep(length).await;
                        ended.fetch_add(1, Ordering::SeqCst);
                        Requeue::Wait
                    }
                })
                .await;
        }
    });
    queue.wake("a".to_owned(), Reason::Changed);
    queue.wake("b".to_owned(), Reason::Changed);
    begins.recv().await.unwrap();
    let start = Instant::now();
    stop.cancel();
    running.await.unwrap();
    assert!(begins.try_recv().is_err(), "nothing begins after the stop");
    (ended.load(Ordering::SeqCst) == 1, start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_runs_up_to_a_limit() {
    let ms = |duration: Duration| duration.as_millis().div_euclid(100) * 100;
    let (ended, after) = stopped(Duration::from_secs(3)).await;
    assert_eq!((ended, ms(after)), (true, 3000));
    let (ended, after) = stopped(Duration::from_secs(60)).await;
    assert_eq!((ended, ms(after)), (false, 5000));
}
