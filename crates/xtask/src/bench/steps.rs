//! The measured steps, as a user experiences them.

use super::fleet::{Fleet, app, objects, objects_without_map, settings};
use super::session::{Counters, PATIENCE, Session, api};
use super::{LoopArgs, Times, launch};
use futures::{StreamExt, TryStreamExt};
use kube::api::{
    ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, WatchEvent, WatchParams,
};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(super) const GROUP: &str = "kustomize.toolkit.fluxcd.io";

pub(super) fn run(binary: &Path, args: &LoopArgs) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        start_of_the_example(binary, args.rounds.clamp(1, 20))?;
        small_repository(binary, args).await?;
        large_repository(binary, args).await
    })
}

/// The README's first command, with `--once`.
fn start_of_the_example(binary: &Path, rounds: usize) -> Result<(), Box<dyn Error>> {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet");
    let fleet = Fleet::copy_of(&example)?;
    let mut times = Times::default();
    for _ in 0..rounds {
        let begun = Instant::now();
        let mut command = Command::new(binary);
        command
            .args(["up", ".", "--path", "clusters/dev", "--once"])
            .current_dir(fleet.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let status = launch(&mut command, Command::status)?;
        if !status.success() {
            return Err(format!("`equate up --once` on the example: {status}").into());
        }
        times.push(begun.elapsed());
    }
    println!("example, cold start to Ready: {times}");
    Ok(())
}

async fn small_repository(binary: &Path, args: &LoopArgs) -> Result<(), Box<dyn Error>> {
    let fleet = Fleet::small(args.rounds)?;
    let (_session, client) = Session::start(binary, fleet.path(), "./").await?;
    let maps = api(&client, "", "v1", "ConfigMap", "default");
    wait_for_value(&maps, "settings", "0").await?;
    let mut times = Times::default();
    for round in 1..=args.rounds {
        let value = round.to_string();
        fleet.write("settings.yaml", &settings("settings", &value))?;
        let applied = wait_for_value(&maps, "settings", &value);
        let begun = Instant::now();
        fleet.commit(&value)?;
        applied.await?;
        times.push(begun.elapsed());
    }
    println!("commit (git add and commit included) to applied: {times}");
    let mut times = Times::default();
    // each object once: repeated changes of one object would start the drift backoff
    for round in 0..args.rounds {
        let name = format!("drifting-{round}");
        let patch = json!({ "data": { "value": "by hand" } });
        let begun = Instant::now();
        maps.patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        wait_for_value(&maps, &name, "0").await?;
        times.push(begun.elapsed());
    }
    println!("changed by hand to corrected: {times}");
    Ok(())
}

async fn large_repository(binary: &Path, args: &LoopArgs) -> Result<(), Box<dyn Error>> {
    let fleet = Fleet::large(args.kustomizations)?;
    let count = args.kustomizations;
    let (session, client) = Session::start(binary, fleet.path(), "./cluster").await?;
    let kustomizations = api(&client, GROUP, "v1", "Kustomization", "flux-system");
    // plus the bootstrap's own
    wait_for_ready(&kustomizations, count + 1, None).await?;
    println!(
        "{count} Kustomizations of 4 objects, start to all Ready: {:.2} s, {:.1} s of CPU, peak memory {:.0} MiB",
        session.started.elapsed().as_secs_f64(),
        session.process.cpu().unwrap_or(f64::NAN),
        session.process.peak_memory().unwrap_or(f64::NAN),
    );
    one_of_many(&fleet, &session, &client, count).await?;
    steady(&session, args).await?;
    all_prune_one(&fleet, &session, &client, count).await
}

async fn one_of_many(
    fleet: &Fleet,
    session: &Session,
    client: &Client,
    count: usize,
) -> Result<(), Box<dyn Error>> {
    let kustomizations = api(client, GROUP, "v1", "Kustomization", "flux-system");
    let name = app(count / 2);
    let maps = api(client, "", "v1", "ConfigMap", &name);
    let before = session.counters().await?;
    fleet.write(&format!("apps/{name}/objects.yaml"), &objects(&name, "1"))?;
    let begun = Instant::now();
    fleet.commit("one of many")?;
    wait_for_value(&maps, "app", "1").await?;
    let applied = begun.elapsed();
    let head = revision(fleet.path())?;
    wait_for_ready(&kustomizations, count + 1, Some(&head)).await?;
    let everywhere = begun.elapsed();
    let after = session.counters().await?;
    let grown = |name: &str| grown(&before, &after, name);
    println!(
        "a commit that touches one of {count}: applied after {:.0} ms, all at the new revision after {:.0} ms; \
         builds {}, skipped {}, objects written {}, status patches {}",
        applied.as_secs_f64() * 1000.0,
        everywhere.as_secs_f64() * 1000.0,
        grown("equate_builds_total"),
        grown("equate_builds_skipped_total"),
        grown("equate_objects_applied_total"),
        grown("equate_status_patches_total"),
    );
    Ok(())
}

/// Each Kustomization drops one of its objects: none is pruned before all owners are known not to want
/// it.
async fn all_prune_one(
    fleet: &Fleet,
    session: &Session,
    client: &Client,
    count: usize,
) -> Result<(), Box<dyn Error>> {
    let kustomizations = api(client, GROUP, "v1", "Kustomization", "flux-system");
    for number in 0..count {
        let name = app(number);
        fleet.write(&format!("apps/{name}/objects.yaml"), &objects_without_map(&name))?;
    }
    let before = session.counters().await?;
    let gone = gone(client, count);
    let begun = Instant::now();
    fleet.commit("all drop one")?;
    let committed = begun.elapsed();
    gone.await?;
    let pruned = begun.elapsed();
    let head = revision(fleet.path())?;
    wait_for_ready(&kustomizations, count + 1, Some(&head)).await?;
    let everywhere = begun.elapsed();
    let after = session.counters().await?;
    let grown = |name: &str| grown(&before, &after, name);
    println!(
        "a commit (which took {:.0} ms) with which all {count} prune one object: all pruned after {:.0} ms, \
         all at the new revision after {:.0} ms; builds {}, objects deleted {}, written {}, status patches {}, \
         times that all were asked what they want {}, peak memory {:.0} MiB",
        committed.as_secs_f64() * 1000.0,
        pruned.as_secs_f64() * 1000.0,
        everywhere.as_secs_f64() * 1000.0,
        grown("equate_builds_total"),
        grown("equate_objects_pruned_total"),
        grown("equate_objects_applied_total"),
        grown("equate_status_patches_total"),
        grown("equate_prune_checks_total"),
        session.process.peak_memory().unwrap_or(f64::NAN),
    );
    Ok(())
}

async fn gone(client: &Client, count: usize) -> Result<(), Box<dyn Error>> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let maps: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let selector = "metadata.name=app";
    let list = maps.list(&ListParams::default().fields(selector)).await?;
    let place = |object: &DynamicObject| object.metadata.namespace.clone().unwrap_or_default();
    let mut there: std::collections::BTreeSet<String> = list.items.iter().map(place).collect();
    if there.len() > count {
        return Err(format!("{} ConfigMaps of {count} Kustomizations", there.len()).into());
    }
    let mut last = list.metadata.resource_version.unwrap_or_default();
    let waiting = async {
        while !there.is_empty() {
            let mut events = maps
                .watch(&WatchParams::default().fields(selector), &last)
                .await?
                .boxed();
            while !there.is_empty()
                && let Some(event) = events.try_next().await?
            {
                let (WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)) =
                    &event
                else {
                    continue;
                };
                if let Some(version) = &object.metadata.resource_version {
                    last.clone_from(version);
                }
                match event {
                    WatchEvent::Deleted(_) => there.remove(&place(object)),
                    _ => there.insert(place(object)),
                };
            }
        }
        Ok::<(), Box<dyn Error>>(())
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.map_err(|_elapsed| format!("not all {count} ConfigMaps are gone after {PATIENCE:?}"))?
}

pub(super) fn grown(before: &Counters, after: &Counters, name: &str) -> f64 {
    after.get(name).unwrap_or(&0.0) - before.get(name).unwrap_or(&0.0)
}

/// The API requests between two readings: a line each, or that there were none.
fn requests(before: &Counters, after: &Counters) -> String {
    let mut said = String::new();
    for name in after.keys() {
        let count = grown(before, after, name);
        if name.starts_with("rest_client_requests_total") && count > 0.0 {
            said.push_str(&format!("\n  {name} {count}"));
        }
    }
    if said.is_empty() {
        said.push_str(" none");
    }
    said
}

async fn steady(session: &Session, args: &LoopArgs) -> Result<(), Box<dyn Error>> {
    let before = session.counters().await?;
    let cpu = session.process.cpu().unwrap_or(f64::NAN);
    tokio::time::sleep(Duration::from_secs(args.steady)).await;
    let after = session.counters().await?;
    println!(
        "in {} s of steady state: {:.2} s of CPU; requests of the loop to the API:{}",
        args.steady,
        session.process.cpu().unwrap_or(f64::NAN) - cpu,
        requests(&before, &after)
    );
    Ok(())
}

fn revision(repository: &Path) -> Result<String, Box<dyn Error>> {
    let mut command = Command::new("git");
    command.arg("-C").arg(repository).args(["rev-parse", "HEAD"]);
    let output = launch(&mut command, Command::output)?;
    Ok(format!("main@sha1:{}", String::from_utf8(output.stdout)?.trim()))
}

async fn wait_for_value(maps: &Api<DynamicObject>, name: &str, value: &str) -> Result<(), Box<dyn Error>> {
    let selector = format!("metadata.name={name}");
    let list = maps.list(&ListParams::default().fields(&selector)).await?;
    let holds =
        |object: &DynamicObject| object.data.pointer("/data/value").and_then(Value::as_str) == Some(value);
    if list.items.iter().any(holds) {
        return Ok(());
    }
    let revision = list.metadata.resource_version.unwrap_or_default();
    let mut events = maps
        .watch(&WatchParams::default().fields(&selector), &revision)
        .await?
        .boxed();
    let found = async {
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
                && holds(&object)
            {
                return Ok(());
            }
        }
        Err("the watch ended".into())
    };
    tokio::time::timeout(PATIENCE, found)
        .await
        .map_err(|_elapsed| format!("ConfigMap {name} never became {value:?}"))?
}

/// Waits until this many are Ready, all at a revision if given.
pub(super) async fn wait_for_ready(
    kustomizations: &Api<DynamicObject>,
    count: usize,
    revision: Option<&str>,
) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let mut watched = std::collections::BTreeSet::new();
    let ready = |object: &DynamicObject| {
        let applied = object
            .data
            .pointer("/status/lastAppliedRevision")
            .and_then(Value::as_str);
        let conditions = object
            .data
            .pointer("/status/conditions")
            .and_then(Value::as_array);
        revision.is_none_or(|revision| applied == Some(revision))
            && conditions.is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
    };
    let list = kustomizations.list(&ListParams::default()).await?;
    let mut last = list.metadata.resource_version.clone().unwrap_or_default();
    watched.extend(
        list.items
            .iter()
            .filter(|object| ready(object))
            .filter_map(|o| o.metadata.name.clone()),
    );
    while watched.len() < count {
        if begun.elapsed() > PATIENCE {
            return Err(format!(
                "{} of {count} Kustomizations are Ready after {PATIENCE:?}",
                watched.len()
            )
            .into());
        }
        let mut events = kustomizations
            .watch(&WatchParams::default(), &last)
            .await?
            .boxed();
        while watched.len() < count
            && let Some(event) = events.try_next().await?
        {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event {
                if let Some(version) = &object.metadata.resource_version {
                    last.clone_from(version);
                }
                if ready(&object) {
                    watched.extend(object.metadata.name);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Counters, requests};

    #[test]
    fn requests_are_listed_or_there_were_none() {
        let counters = |all: &[(&str, f64)]| -> Counters {
            all.iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect()
        };
        let check = |before: &[(&str, f64)], after: &[(&str, f64)], expected: &str| {
            assert_eq!(requests(&counters(before), &counters(after)), expected);
        };
        const GET: &str = "rest_client_requests_total{method=\"GET\",code=\"200\"}";
        const PATCH: &str = "rest_client_requests_total{method=\"PATCH\",code=\"200\"}";
        check(&[], &[], " none");
        check(&[(GET, 3.0)], &[(GET, 3.0)], " none");
        check(&[(GET, 3.0)], &[(GET, 3.0), ("equate_runs_total", 9.0)], " none");
        check(
            &[(GET, 3.0)],
            &[(GET, 5.0), (PATCH, 1.0)],
            &format!("\n  {GET} 2\n  {PATCH} 1"),
        );
    }
}
