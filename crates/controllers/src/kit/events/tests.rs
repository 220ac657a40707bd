use super::*;
use equate_testkit::cluster::EmbeddedCluster;
use equate_testkit::eventually::eventually;
use equate_testkit::faults::{Fault, Faults, Rule, Verb};

const SOON: Duration = Duration::from_secs(900);

fn event(name: &str, reason: &str, message: &str) -> Event {
    Event {
        about: ObjectReference {
            api_version: Some("kustomize.toolkit.fluxcd.io/v1".to_owned()),
            kind: Some("Kustomization".to_owned()),
            namespace: Some("default".to_owned()),
            name: Some(name.to_owned()),
            uid: Some(format!("uid-of-{name}")),
            ..ObjectReference::default()
        },
        controller: "kustomize-controller",
        severity: Severity::Normal,
        reason: reason.to_owned(),
        message: message.to_owned(),
        metadata: BTreeMap::new(),
        carried: BTreeMap::new(),
    }
}

fn tenant(namespace: &str) -> Tenant {
    Tenant::Namespace(namespace.into())
}

fn remembered(memory: &Memory) -> usize {
    memory.order.values().map(VecDeque::len).sum()
}

/// Plays events in time; the first letter of a name is its tenant: `NAME REASON` publishes, a number waits seconds, `!` marks a failed write.
/// Returns `+` for new, a count for a repetition, `-` for nothing.
fn play(limits: &Limits, script: &str) -> String {
    let mut memory = Memory::new(limits.clone());
    let mut now = Instant::now();
    let mut names = 0;
    let mut out = Vec::new();
    for word in script.split_whitespace() {
        if let Ok(seconds) = word.parse() {
            now += Duration::from_secs(seconds);
            continue;
        }
        let failed = word.starts_with('!');
        let (name, reason) = word.trim_start_matches('!').split_once('.').unwrap();
        let identity = Identity::of(&event(name, reason, ""));
        let step = memory.step(&tenant(&name[..1]), &identity, now);
        let written = match &step {
            Step::Create => {
                names += 1;
                Some(names.to_string())
            }
            Step::Repeat { .. } | Step::Spare => None,
        };
        out.push(match &step {
            Step::Create => "+".to_owned(),
            Step::Repeat { name, count } => format!("{name}x{count}"),
            Step::Spare => "-".to_owned(),
        });
        if !failed && step != Step::Spare {
            memory.wrote(&tenant(&name[..1]), identity.digest, written, now);
        }
    }
    assert!(memory.written.len() <= limits.remembered && remembered(&memory) == memory.written.len());
    assert!(memory.buckets.len() <= limits.remembered);
    out.join(" ")
}

#[test]
fn repetitions_are_counted_and_new_events_are_limited() {
    let limits = Limits {
        window: Duration::from_secs(100),
        burst: 3,
        refill: Duration::from_secs(10),
        remembered: 4,
        ..Limits::default()
    };
    let check = |script: &str, expected: &str| assert_eq!(play(&limits, script), expected, "{script}");
    check("a.R a.R a.R b.R a.R", "+ 1x2 1x3 + 1x4");
    check("a.R 99 a.R 99 a.R 100 a.R a.R", "+ 1x2 1x3 + 2x2");
    check(
        "a.1 a.2 a.3 a.4 b.1 10 a.4 a.5 20 a.5 a.6 a.7",
        "+ + + - + + - + + -",
    );
    check("a.1 a.2 a.3 1000 a.4 a.5 a.6 a.7", "+ + + + + + -");
    check("!a.1 a.1 a.1", "+ + 2x2");
    check("!a.1 !a.1 !a.1 a.1", "+ + + -");
    // the oldest is forgotten first, and written anew
    check("a1.1 a2.1 a3.1 a4.1 1 a1.1 20 a5.1 a1.1", "+ + + + 1x2 + +");
    // of the tenant with the most events
    check("b.1 a1.1 a2.1 a3.1 20 a4.1 b.1 a1.1", "+ + + + + 1x2 +");
    check("a1.1 a2.1 a3.1 b.1 20 b.2 a1.1 a3.1 b.1", "+ + + + + + 3x2 4x2");
    // buckets run out: nothing is written rather than without bound
    check("a.1 b.1 c.1 d.1 e.1 10 e.1", "+ + + + - +");
    // those of the tenant with the most objects go first
    check("a1.1 a2.1 a3.1 a4.1 a5.1 b.1 c.1 a5.2", "+ + + + - + + -");
}

#[test]
fn what_counts_no_longer_is_forgotten() {
    let limits = Limits::default();
    let mut memory = Memory::new(limits.clone());
    let publish = |memory: &mut Memory, name: &str, now: Instant| {
        let identity = Identity::of(&event(name, "R", ""));
        let new = memory.step(&tenant("default"), &identity, now) == Step::Create;
        memory.wrote(
            &tenant("default"),
            identity.digest,
            new.then(|| name.to_owned()),
            now,
        );
    };
    let start = Instant::now();
    for number in 0..1_000 {
        publish(&mut memory, &number.to_string(), start);
    }
    let sizes = |memory: &Memory| (memory.written.len(), remembered(memory), memory.buckets.len());
    assert_eq!(sizes(&memory), (1_000, 1_000, 1_000));
    // the first is repeated, and stays
    publish(&mut memory, "0", start + limits.window / 2);
    publish(&mut memory, "new", start + limits.window);
    assert_eq!(sizes(&memory), (2, 2, 1));
    let orders: usize = memory.order.values().map(VecDeque::capacity).sum();
    let room = memory.written.capacity() + orders + memory.buckets.capacity();
    assert!(room < 50, "{room}");
}

#[test]
fn long_lists_keep_whole_lines_and_a_number() {
    let list: String = (0..400)
        .map(|n| format!("ConfigMap/default/c{n} created\n"))
        .collect();
    let short = shortened(list.clone());
    assert!(short.len() <= MESSAGE_BYTES_MAX);
    let (kept, more) = short.rsplit_once('\n').unwrap();
    assert!(list.starts_with(kept) && kept.ends_with(" created"));
    assert_eq!(more, format!("and {} more lines", 400 - kept.lines().count()));
    assert_eq!(shortened("a\nb".to_owned()), "a\nb");
}

#[test]
fn a_long_line_is_cut_off() {
    let long = "x".repeat(5000);
    assert_eq!(shortened(long.clone()), long[..MESSAGE_BYTES_MAX]);
    let error = format!("Helm upgrade failed:\n{long}");
    assert_eq!(shortened(error.clone()), error[..MESSAGE_BYTES_MAX]);
    let short = shortened(format!("{error}\n\nlast"));
    let (kept, more) = short.rsplit_once('\n').unwrap();
    assert_eq!(kept, &error[..MESSAGE_BYTES_MAX - MORE_BYTES]);
    assert_eq!(more, "and 1 more line");
    // only an empty line is left out
    let line = "x".repeat(MESSAGE_BYTES_MAX - 1);
    assert_eq!(shortened(format!("{line}\n\n")), format!("{line}\n"));
}

#[test]
fn a_message_is_cut_between_characters() {
    let cut = |message: &str| cut(message, MESSAGE_BYTES_MAX).len();
    assert_eq!(cut("short"), 5);
    let long = "ä".repeat(MESSAGE_BYTES_MAX);
    assert_eq!(cut(&long), MESSAGE_BYTES_MAX);
    let odd = format!("a{long}");
    assert_eq!(cut(&odd), MESSAGE_BYTES_MAX - 1);
}

async fn written(cluster: &EmbeddedCluster, count: usize) -> Vec<CoreEvent> {
    let api: Api<CoreEvent> = Api::namespaced(cluster.client(), "default");
    eventually("the events", SOON, || {
        let api = api.clone();
        async move {
            let all = api
                .list(&kube::api::ListParams::default())
                .await
                .map_err(|e| e.to_string())?
                .items;
            if all.iter().filter_map(|e| e.count).sum::<i32>() == i32::try_from(count).unwrap() {
                Ok(all)
            } else {
                Err(format!("{all:?}"))
            }
        }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn an_event_is_written_as_flux_writes_it() {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let recorder = Recorder::start(cluster.client(), Limits::default());
    let event = event(
        "apps",
        "ReconciliationSucceeded",
        "Reconciliation finished in 3ms",
    )
    .with("revision", "main@sha1:abc");
    recorder.publish(event.clone());
    recorder.publish(event.clone());
    recorder.publish(event);
    let all = written(&cluster, 3).await;
    assert_eq!(all.len(), 1);
    let mut text = serde_json::to_value(&all[0]).unwrap();
    let name = text["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("apps.") && name.len() > 15, "{name}");
    for time in ["firstTimestamp", "lastTimestamp"] {
        assert!(text[time].is_string(), "{text}");
        text[time] = "T".into();
    }
    text["metadata"] = serde_json::json!({ "annotations": text["metadata"]["annotations"] });
    let expected = serde_json::json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "annotations": { "kustomize.toolkit.fluxcd.io/revision": "main@sha1:abc" } },
        "involvedObject": {
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "namespace": "default", "name": "apps", "uid": "uid-of-apps",
        },
        "reason": "ReconciliationSucceeded", "message": "Reconciliation finished in 3ms",
        "type": "Normal", "count": 3, "firstTimestamp": "T", "lastTimestamp": "T",
        "source": { "component": "kustomize-controller" },
        "reportingComponent": "kustomize-controller", "reportingInstance": "kustomize-controller",
    });
    assert_eq!(text, expected);
    let counts = recorder.counts();
    assert_eq!((counts.created, counts.repeated, counts.refused), (1, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_server_dropped_is_created_again() {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let recorder = Recorder::start(cluster.client(), Limits::default());
    recorder.publish(event("a", "R", "m"));
    let all = written(&cluster, 1).await;
    let api: Api<CoreEvent> = Api::namespaced(cluster.client(), "default");
    let name = all[0].metadata.name.clone().unwrap();
    api.delete(&name, &kube::api::DeleteParams::default())
        .await
        .unwrap();
    recorder.publish(event("a", "R", "m"));
    let all = written(&cluster, 1).await;
    assert_ne!(all[0].metadata.name, Some(name));
    assert_eq!(recorder.counts().created, 2);
}

#[tokio::test(start_paused = true)]
async fn publishing_never_waits_and_failures_are_counted() {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let faults = Faults::default();
    faults.add(Rule::new(Verb::Write, "/events", Fault::status(500)).times(1));
    faults.add(Rule::new(Verb::Write, "/events", Fault::Slow(Duration::from_secs(3600))).times(1));
    let limits = Limits {
        line: 5,
        ..Limits::default()
    };
    let recorder = Recorder::start(faults.wrap(&cluster.client()), limits);
    let start = Instant::now();
    for number in 0..8 {
        recorder.publish(event(&format!("o{number}"), "R", "m"));
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(recorder.counts().crowded, 3);
    // of five one is refused, one gets no answer in time
    written(&cluster, 3).await;
    assert_eq!(recorder.counts().refused, 2);
}

#[tokio::test(start_paused = true)]
async fn flood_of_one_tenant_loses_no_event_of_another() {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let limits = Limits {
        line: 6,
        ..Limits::default()
    };
    let recorder = Recorder::start(cluster.client(), limits);
    for number in 0..100 {
        let mut flood = event(&format!("o{number}"), "R", "m");
        flood.about.namespace = Some("many".to_owned());
        recorder.publish(flood);
    }
    for reason in ["First", "Second", "Third"] {
        recorder.publish(event("other", reason, "m"));
    }
    assert_eq!(recorder.counts().crowded, 100 - 3);
    let reasons: Vec<String> = written(&cluster, 3)
        .await
        .into_iter()
        .filter_map(|event| event.reason)
        .collect();
    assert_eq!(reasons, ["First", "Second", "Third"]);
}

#[test]
fn few_bytes_of_annotations_are_carried() {
    let object = |sizes: &[usize]| {
        let annotation = |(at, size): (usize, &usize)| (format!("{EVENT_PREFIX}{at}"), "x".repeat(*size));
        ObjectMeta {
            annotations: Some(sizes.iter().enumerate().map(annotation).collect()),
            ..ObjectMeta::default()
        }
    };
    let name = EVENT_PREFIX.len() + 1;
    let sizes = |given: &[usize]| {
        carried("Kustomization", &object(given))
            .values()
            .map(String::len)
            .collect::<Vec<_>>()
    };
    assert_eq!(sizes(&[10, 20]), [10, 20]);
    assert_eq!(
        sizes(&[ANNOTATIONS_BYTES_MAX - name]),
        [ANNOTATIONS_BYTES_MAX - name]
    );
    assert_eq!(sizes(&[ANNOTATIONS_BYTES_MAX - name + 1]), [0; 0]);
    // a later one may still fit
    assert_eq!(sizes(&[3_000, 2_000, 10]), [3_000, 10]);
}
