//! `equate describe`: one service: its versions and the places that set them, the person who brought them, and
//! where else they are.

use super::repository::{Place, Repository, tree_of};
use super::view::View;
use super::{Output, ReleaseError, text};
use equate_release::artifact::Artifact;
use equate_release::edit::{EditError, Setter, setters};
use equate_release::fleet::Fleet;
use equate_release::history::{Entry, Spell, spells};
use equate_release::hold::Hold;
use equate_release::plan::{self, PlanError};
use equate_release::record::Record;
use equate_release::rules::span;
use jiff::Timestamp;
use serde_json::json;

#[derive(Debug, clap::Args)]
#[command(
    disable_version_flag = true,
    after_help = "Examples:
  # Describe a service in each environment
  equate describe checkout
  # Describe it in one environment
  equate describe checkout@prod-eu
  # Show where a version runs and ran, and who brought it there
  equate describe checkout 2.4.1"
)]
pub(crate) struct Args {
    /// Service, or SERVICE@ENVIRONMENT.
    #[arg(value_name = "SERVICE")]
    service: String,
    /// Version that an environment has or had (default: the current one).
    #[arg(value_name = "VERSION")]
    wanted: Option<String>,
    /// Environment or group (default: all that have the service).
    #[arg(short, long, value_name = "ENVIRONMENT")]
    env: Option<String>,
    #[command(flatten)]
    place: Place,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,
}

/// A version of the service in an environment.
struct Description {
    environment: String,
    artifact: Artifact,
    is_current: bool,
    /// The change that brought it, if history goes back to it.
    brought: Option<Entry>,
    /// The message of its commit.
    message: String,
    record: Option<(Record, &'static str)>,
    setters: Vec<Setter>,
    /// The times in which any environment had it, the described one left out.
    elsewhere: Vec<Spell>,
    holds: Vec<Hold>,
}

pub(crate) fn run(args: &Args) -> Result<(), ReleaseError> {
    let (service, env) = match (args.service.split_once('@'), &args.env) {
        (None, env) => (args.service.as_str(), env.as_deref()),
        (Some((service, env)), None) => (service, Some(env)),
        (Some(_), Some(env)) => {
            let (at, env) = (args.service.clone(), env.clone());
            return Err(ReleaseError::TwoEnvironments { at, env });
        }
    };
    let view = View::open(&args.place, &[service.to_owned()])?;
    let environments = view.environments(env)?;
    let entries: Vec<Entry> = view.history.entries(|key| key.service == service).collect();
    let now = Timestamp::now();
    let holds: Vec<Hold> = plan::holds(&view.tree)?
        .into_iter()
        .filter(|hold| hold.service == service && hold.is_active(now))
        .collect();
    let mut found = Vec::new();
    for environment in &environments {
        let target = (environment.as_str(), service);
        found.extend(describe(&view, target, args.wanted.as_deref(), &entries, &holds)?);
    }
    if found.is_empty() {
        return Err(absent(
            &view,
            service,
            args.wanted.as_deref(),
            &environments,
            &entries,
        ));
    }
    match args.output {
        Output::Text | Output::Wide => {
            let shown: Vec<String> = found
                .iter()
                .map(|one| block(service, one, args.output == Output::Wide, now))
                .collect();
            Ok(text::print(&shown.join("\n"))?)
        }
        Output::Json | Output::Yaml => {
            let environments: Vec<serde_json::Value> = found.iter().map(|one| data(service, one)).collect();
            let value = json!({"service": service, "environments": environments});
            Ok(text::print_data(args.output, &value)?)
        }
    }
}

/// Describes the current version or the wanted one; `None` if the environment never had it.
fn describe(
    view: &View,
    (environment, service): (&str, &str),
    version: Option<&str>,
    entries: &[Entry],
    holds: &[Hold],
) -> Result<Option<Description>, ReleaseError> {
    let current = view.fleet.artifact(environment, service);
    let is_wanted = |artifact: &Artifact| version.is_none_or(|text| artifact.is_named(service, text));
    let here = || entries.iter().filter(|entry| entry.environment == environment);
    let (artifact, is_current, brought) = match current.filter(|artifact| is_wanted(artifact)) {
        Some(artifact) => (artifact, true, here().next()),
        None if version.is_none() => return Ok(None),
        None => {
            let past = here().find_map(|entry| {
                let after = entry.after.as_ref()?;
                is_wanted(after).then(|| (after.clone(), entry))
            });
            match past {
                Some((artifact, entry)) => (artifact, false, Some(entry)),
                None => return Ok(None),
            }
        }
    };
    let brought = brought.filter(|entry| entry.after.as_ref() == Some(&artifact));
    let setters = match (is_current, brought) {
        (true, _) => setters(&view.tree, &view.config, &view.fleet, (environment, service)),
        (false, Some(entry)) => {
            let then = view.repository.inner.commit(&entry.commit.id)?.commit;
            let tree = tree_of(&then);
            let fleet = Fleet::of_services(&tree, &view.config, &[service]);
            setters(&tree, &view.config, &fleet, (environment, service))
        }
        (false, None) => Ok(Vec::new()),
    };
    let elsewhere = spells(entries, &artifact).into_iter();
    let elsewhere = elsewhere.filter(|spell| spell.environment != environment);
    let message = match brought {
        Some(entry) => view.repository.message(&entry.commit.id)?,
        None => String::new(),
    };
    let of_environment = holds.iter().filter(|hold| hold.environment == environment);
    Ok(Some(Description {
        environment: environment.to_owned(),
        is_current,
        record: brought.and_then(|entry| record(&view.repository, entry, &message)),
        brought: brought.cloned(),
        message,
        setters: setters.map_err(PlanError::from)?,
        elsewhere: elsewhere.collect(),
        holds: of_environment.cloned().collect(),
        artifact,
    }))
}

/// The record of a change, and the place where it is.
fn record(repository: &Repository, entry: &Entry, message: &str) -> Option<(Record, &'static str)> {
    let notes = repository.notes(&entry.commit.id);
    let noted = notes.iter().find_map(|text| Record::parse_note(text));
    match noted {
        Some(record) => Some((record, "git note")),
        None => Record::of_message(message).map(|record| (record, "trailers of the commit")),
    }
}

fn absent(
    view: &View,
    service: &str,
    version: Option<&str>,
    environments: &[String],
    entries: &[Entry],
) -> ReleaseError {
    if let Some(version) = version {
        let mut known: Vec<String> = Vec::new();
        for artifact in entries.iter().filter_map(|entry| entry.after.as_ref()) {
            let label = artifact.label(service);
            if !known.contains(&label) {
                known.push(label);
            }
        }
        return ReleaseError::Plan(PlanError::Version {
            service: service.to_owned(),
            version: version.to_owned(),
            known,
        });
    }
    let fault = environments
        .iter()
        .find_map(|environment| Some((environment, view.fleet.fault(environment, service)?)));
    match fault {
        Some((environment, problem)) => ReleaseError::Plan(PlanError::Edit(EditError::Unbuildable {
            directory: environment.clone(),
            problem: problem.to_owned(),
        })),
        None => ReleaseError::Plan(PlanError::Absent {
            service: service.to_owned(),
            environment: environments.join(", "),
        }),
    }
}

fn how(one: &Description) -> String {
    let Some((record, _)) = &one.record else {
        return format!("by hand: {}", text::subject(&one.message));
    };
    match from(one, record) {
        Some(from) => format!("{} from {from}", record.intent),
        None => record.intent.to_string(),
    }
}

/// The environment that the version came from.
fn from<'r>(one: &Description, record: &'r Record) -> Option<&'r str> {
    let change = record
        .changes
        .iter()
        .find(|change| change.environment == one.environment);
    change.and_then(|change| change.from.as_deref())
}

fn block(service: &str, one: &Description, is_wide: bool, now: Timestamp) -> String {
    let (environment, artifact) = (&one.environment, &one.artifact);
    let mut text = text::shown(&format!("{service} in {environment}"));
    text.push('\n');
    let mut line = |key: &str, value: &str| {
        text.push_str(&format!("  {key:<10} {}\n", text::shown(value)));
    };
    let version = artifact.label(service);
    match one.is_current {
        true => line("version", &version),
        false => line(
            "version",
            &format!("{version}, which {environment} no longer has"),
        ),
    }
    line("artifact", &artifact.id().to_string());
    for setter in &one.setters {
        let versions: Vec<String> = setter.versions.iter().map(ToString::to_string).collect();
        let subject = setter.subject.name();
        line(
            setter.subject.kind(),
            &format!("{subject} {}", versions.join(", ")),
        );
        for place in &setter.places {
            line("", place);
        }
    }
    match &one.brought {
        None => line("since", "unknown: history does not go back to it"),
        Some(entry) => {
            let commit = &entry.commit;
            let id: String = match is_wide {
                true => commit.id.clone(),
                false => commit.id.chars().take(7).collect(),
            };
            let age = span(now.duration_since(commit.time));
            line(
                "since",
                &format!("{} ({age} ago), commit {id}", text::moment(commit.time)),
            );
            line("by", &format!("{} <{}>", commit.author, commit.email));
            line("how", &how(one));
            let reason = one.record.as_ref().and_then(|(record, _)| record.reason.as_ref());
            if let Some(reason) = reason {
                line("reason", reason);
            }
            line("record", one.record.as_ref().map_or("none", |(_, place)| place));
            if let Some(before) = &entry.before {
                line("before", &before.label_beside(service, artifact));
            }
        }
    }
    for spell in &one.elsewhere {
        let since = text::moment(spell.since.time);
        match &spell.until {
            None => line("also in", &format!("{} since {since}", spell.environment)),
            Some(until) => {
                let until = text::moment(until.time);
                line(
                    "was in",
                    &format!("{} from {since} to {until}", spell.environment),
                );
            }
        }
    }
    for hold in &one.holds {
        let until = match hold.until {
            Some(until) => format!(" until {}", text::day(until)),
            None => String::new(),
        };
        line("held", &format!("by {}{until}: {}", hold.name(), hold.reason));
        line("", &hold.consequence());
        line("", &format!("{}:{}", hold.path, hold.line));
    }
    text
}

fn data(service: &str, one: &Description) -> serde_json::Value {
    let setters: Vec<serde_json::Value> = one
        .setters
        .iter()
        .map(|setter| {
            let versions: Vec<serde_json::Value> = setter
                .versions
                .iter()
                .map(|version| json!({"tag": version.tag, "digest": version.digest}))
                .collect();
            json!({
                "kind": setter.subject.kind(),
                "name": setter.subject.name(),
                "versions": versions,
                "places": setter.places,
            })
        })
        .collect();
    let commit = one.brought.as_ref().map(|entry| &entry.commit);
    let before = one.brought.as_ref().and_then(|entry| entry.before.as_ref());
    let record = one.record.as_ref();
    json!({
        "environment": one.environment,
        "version": one.artifact.label(service),
        "artifact": one.artifact.id().to_string(),
        "current": one.is_current,
        "subjects": setters,
        "since": commit.map(|commit| commit.time.to_string()),
        "commit": commit.map(|commit| commit.id.clone()),
        "author": commit.map(|commit| json!({"name": commit.author, "email": commit.email})),
        "subject": commit.map(|_| text::subject(&one.message)),
        "before": before.map(|artifact| artifact.label(service)),
        "from": record.and_then(|(record, _)| from(one, record)),
        "reason": record.and_then(|(record, _)| record.reason.clone()),
        "record": record.map(|(record, _)| record),
        "recordPlace": record.map(|(_, place)| place),
        "elsewhere": one.elsewhere.iter().map(|spell| json!({
            "environment": spell.environment,
            "since": spell.since.time.to_string(),
            "until": spell.until.as_ref().map(|until| until.time.to_string()),
        })).collect::<Vec<_>>(),
        "holds": one.holds.iter().map(text::hold_data).collect::<Vec<_>>(),
    })
}
