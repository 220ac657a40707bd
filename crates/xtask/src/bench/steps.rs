//! The steps that are timed, each as a user would meet it.

use super::fleet::{Fleet, objects, settings};
use super::session::{PATIENCE, Session, api};
use super::{LoopArgs, Times};
use futures::{StreamExt, TryStreamExt};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const GROUP: &str = "kustomize.toolkit.fluxcd.io";

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
        let status = Command::new(binary)
            .args(["up", ".", "--path", "clusters/dev", "--once"])
            .current_dir(fleet.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        if !status.success() {
            return Err(format!("`equate up --once` on the example: {status}").into());
        }
        times.push(begun.elapsed());
    }
    println!("example, cold start to Ready: {times}");
    Ok(())
}

/// Commit to applied, drift to corrected.
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
    // Each object once: who changes the same one again and again is another controller, and backed off from.
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
    // The loop's own is one more.
    wait_for_ready(&kustomizations, count + 1, None).await?;
    println!(
        "{count} Kustomizations of 4 objects, start to all Ready: {:.2} s, {:.1} s of CPU, peak memory {:.0} MiB",
        session.started.elapsed().as_secs_f64(),
        session.cpu().unwrap_or(f64::NAN),
        session.peak_memory().unwrap_or(f64::NAN),
    );
    one_of_many(&fleet, &session, &client, count).await?;
    steady(&session, args).await
}

async fn one_of_many(
    fleet: &Fleet,
    session: &Session,
    client: &Client,
    count: usize,
) -> Result<(), Box<dyn Error>> {
    let kustomizations = api(client, GROUP, "v1", "Kustomization", "flux-system");
    let name = format!("app-{:04}", count / 2);
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
    let grown = |name: &str| after.get(name).unwrap_or(&0.0) - before.get(name).unwrap_or(&0.0);
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

async fn steady(session: &Session, args: &LoopArgs) -> Result<(), Box<dyn Error>> {
    let before = session.counters().await?;
    let cpu = session.cpu().unwrap_or(f64::NAN);
    tokio::time::sleep(Duration::from_secs(args.steady)).await;
    let after = session.counters().await?;
    println!(
        "in {} s of steady state: {:.2} s of CPU; requests of the loop to the API:",
        args.steady,
        session.cpu().unwrap_or(f64::NAN) - cpu
    );
    for (name, value) in &after {
        let grown = value - before.get(name).unwrap_or(&0.0);
        if name.starts_with("rest_client_requests_total") && grown > 0.0 {
            println!("  {name} {grown}");
        }
    }
    Ok(())
}

fn revision(repository: &Path) -> Result<String, Box<dyn Error>> {
    let output = Command::new("git")
        .arg("-C")
        .arg(repository)
        .args(["rev-parse", "HEAD"])
        .output()?;
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

/// Until so many are Ready, all at a revision if one is given.
async fn wait_for_ready(
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
