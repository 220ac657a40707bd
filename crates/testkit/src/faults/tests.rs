use super::*;
use crate::cluster::EmbeddedCluster;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};

async fn cluster() -> (EmbeddedCluster, Api<ConfigMap>) {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), "default");
    for name in ["a", "b", "c"] {
        api.create(&PostParams::default(), &config_map(name))
            .await
            .unwrap();
    }
    (cluster, api)
}

fn config_map(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object
}

fn words<T>(answer: kube::Result<T>, good: impl Fn(T) -> String) -> String {
    match answer {
        Ok(value) => good(value),
        Err(kube::Error::Api(status)) => {
            let after = status
                .details
                .as_ref()
                .map_or(0, |details| details.retry_after_seconds);
            format!("{} {} retry {after}", status.code, status.reason)
        }
        Err(kube::Error::SerdeError(_)) => "unreadable".to_owned(),
        Err(kube::Error::Service(error)) => match error.downcast_ref::<std::io::Error>() {
            Some(error) => format!("{:?}", error.kind()),
            None => format!("broken: {error}"),
        },
        Err(error) => format!("failed: {error}"),
    }
}

/// The results of a list, a create and a read under a fault.
async fn check(verb: Verb, fault: Fault, listed: &str, created: &str, there: bool) {
    let (cluster, plain) = cluster().await;
    let faults = Faults::default();
    faults.add(Rule::new(verb, "/configmaps", fault).times(1));
    let client = faults.wrap(&cluster.client());
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let list = words(api.list(&ListParams::default()).await, |list| {
        list.items.len().to_string()
    });
    assert_eq!(list, listed, "{fault:?}: list");
    let made = words(api.create(&PostParams::default(), &config_map("z")).await, |_| {
        "made".to_owned()
    });
    assert_eq!(made, created, "{fault:?}: create");
    let is_there = plain.get_opt("z").await.unwrap().is_some();
    assert_eq!(is_there, there, "{fault:?}: there");
}

#[tokio::test(start_paused = true)]
async fn requests_fail_as_told() {
    let busy = Fault::Status {
        code: 429,
        retry_after_seconds: Some(7),
    };
    check(Verb::Read, busy, "429 TooManyRequests retry 7", "made", true).await;
    check(
        Verb::Write,
        Fault::status(409),
        "4",
        "409 Conflict retry 0",
        false,
    )
    .await;
    check(Verb::Create, Fault::Unreachable, "4", "ConnectionRefused", false).await;
    check(Verb::Create, Fault::LostAnswer, "4", "ConnectionReset", true).await;
    check(Verb::Read, Fault::EndAfterLines(0), "unreadable", "made", true).await;
    check(Verb::Delete, Fault::status(500), "4", "made", true).await;
    check(
        Verb::Write,
        Fault::Slow(Duration::from_secs(60)),
        "4",
        "made",
        true,
    )
    .await;
}

/// The events of a watch of three objects, until it ends or is silent for a minute.
async fn watched(fault: Option<Fault>) -> String {
    let (cluster, _) = cluster().await;
    let faults = Faults::default();
    if let Some(fault) = fault {
        faults.add(Rule::new(Verb::Watch, "/configmaps", fault));
    }
    let api: Api<ConfigMap> = Api::namespaced(faults.wrap(&cluster.client()), "default");
    let params = WatchParams::default().fields("metadata.name!=kube-root-ca.crt");
    let mut events = match api.watch(&params, "0").await {
        Ok(events) => events.boxed(),
        Err(error) => return words::<()>(Err(error), |()| String::new()),
    };
    let mut seen = Vec::new();
    loop {
        match tokio::time::timeout(Duration::from_secs(50), events.next()).await {
            Err(_) => seen.push("silence".to_owned()),
            Ok(None) => seen.push("end".to_owned()),
            Ok(Some(Err(_))) => seen.push("break".to_owned()),
            Ok(Some(Ok(WatchEvent::Added(object)))) => {
                seen.push(object.metadata.name.unwrap());
                continue;
            }
            Ok(Some(Ok(WatchEvent::Error(status)))) => {
                seen.push(format!("error {}", status.code));
                continue;
            }
            Ok(Some(Ok(_))) => continue,
        }
        return seen.join(" ");
    }
}

#[tokio::test(start_paused = true)]
async fn watches_fail_as_told() {
    let cases = [
        (None, "a b c silence"),
        (Some(Fault::EndAfterLines(0)), "end"),
        (Some(Fault::EndAfterLines(2)), "a b end"),
        (Some(Fault::SilentAfterLines(2)), "a b silence"),
        (Some(Fault::CutAfterLines(1)), "a break"),
        (Some(Fault::RepeatLines), "a a b b c c silence"),
        (Some(Fault::ErrorEvent(410)), "error 410 end"),
        (Some(Fault::status(410)), "410 Expired retry 0"),
    ];
    for (fault, expected) in cases {
        assert_eq!(watched(fault).await, expected, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn rules_take_turns_and_the_seed_decides() {
    let seen = |seed: u64| async move {
        let (cluster, _) = cluster().await;
        let faults = Faults::seeded(seed);
        faults.add(
            Rule::new(Verb::Read, "/configmaps/a", Fault::status(500))
                .after(1)
                .times(2),
        );
        faults.add(
            Rule::new(Verb::Read, "/configmaps", Fault::status(503))
                .percent(50)
                .times(3),
        );
        let api: Api<ConfigMap> = Api::namespaced(faults.wrap(&cluster.client()), "default");
        let mut seen = Vec::new();
        for _ in 0..12 {
            seen.push(words(api.get("a").await, |_| "ok".to_owned()));
        }
        seen
    };
    let first = seen(1).await;
    assert_eq!(first, seen(1).await);
    assert_ne!(first, seen(2).await);
    let count = |text: &str| first.iter().filter(|word| word.starts_with(text)).count();
    assert_eq!((count("500"), count("503"), count("ok")), (2, 3, 7), "{first:?}");
    assert_ne!(first[0], "500 InternalError retry 0");
}

#[tokio::test(start_paused = true)]
async fn dead_clients_get_no_answers() {
    for death in [Death::Before, Death::After] {
        let (cluster, plain) = cluster().await;
        let faults = Faults::default();
        faults.die_when(move |call| (call.method == Method::DELETE).then_some(death));
        let api: Api<ConfigMap> = Api::namespaced(faults.wrap(&cluster.client()), "default");
        api.get("a").await.unwrap();
        let watch = tokio::spawn(watch_all(api.clone()));
        let delete = tokio::spawn({
            let api = api.clone();
            async move { api.delete("a", &DeleteParams::default()).await.map(drop) }
        });
        faults.died().await;
        assert_eq!(
            plain.get_opt("a").await.unwrap().is_some(),
            death == Death::Before
        );
        plain.delete("b", &DeleteParams::default()).await.unwrap();
        let read = tokio::spawn(async move { api.get("c").await.map(drop) });
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(
            !watch.is_finished() && !delete.is_finished() && !read.is_finished(),
            "{death:?}"
        );
        let log: Vec<_> = faults.log().iter().map(ToString::to_string).collect();
        let deleted = log.contains(&"DELETE /api/v1/namespaces/default/configmaps/a".to_owned());
        assert_eq!(deleted, death == Death::After, "{log:?}");
        for task in [watch, delete, read] {
            task.abort();
        }
    }
}

async fn watch_all(api: Api<ConfigMap>) -> kube::Result<()> {
    let mut events = api.watch(&WatchParams::default(), "0").await?.boxed();
    while let Some(event) = events.next().await {
        if matches!(event?, WatchEvent::Deleted(_)) {
            break;
        }
    }
    Ok(())
}
