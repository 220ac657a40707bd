//! `equate hold` and `equate unhold`.

use super::ReleaseError;
use super::write::{self, Options};
use equate_release::config::parse_duration;
use equate_release::plan::{plan_hold, plan_unhold};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(mut_arg("reason", |arg| arg.required(true)), after_help = "Examples:
  # Keep checkout in prod-us where it is until Friday
  equate hold checkout --env prod-us --reason 'EU first' --until 2026-11-27")]
pub(crate) struct Hold {
    /// Service.
    #[arg(value_name = "SERVICE")]
    service: String,
    /// Environment or group.
    #[arg(short, long, value_name = "ENVIRONMENT")]
    env: String,
    /// End of the hold: a day, a time, or a duration such as 3d (default: none).
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # End the hold of checkout in prod-us
  equate unhold checkout --env prod-us")]
pub(crate) struct Unhold {
    /// Service.
    #[arg(value_name = "SERVICE")]
    service: String,
    /// Environment or group.
    #[arg(short, long, value_name = "ENVIRONMENT")]
    env: String,
    #[command(flatten)]
    options: Options,
}

pub(crate) fn hold(args: &Hold) -> Result<ExitCode, ReleaseError> {
    let now = Timestamp::now();
    let until = args.until.as_deref().map(|text| time(text, now)).transpose()?;
    let reason = args.options.reason.clone().unwrap_or_default();
    let written = write::write(&args.options, |tree, author, _| {
        let target = (args.service.as_str(), args.env.as_str());
        plan_hold(tree, target, &reason, author, (now, until))
    })?;
    Ok(written.code)
}

pub(crate) fn unhold(args: &Unhold) -> Result<ExitCode, ReleaseError> {
    let written = write::write(&args.options, |tree, author, _| {
        let target = (args.service.as_str(), args.env.as_str());
        plan_unhold(tree, target, args.options.reason.clone(), author)
    })?;
    Ok(written.code)
}

/// A day ends a hold as it begins, in the local time zone.
fn time(text: &str, now: Timestamp) -> Result<Timestamp, ReleaseError> {
    let wrong = || ReleaseError::Until(text.to_owned());
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    if let Some(duration) = parse_duration(text) {
        let duration = SignedDuration::try_from(duration).map_err(|_| wrong())?;
        return now.checked_add(duration).map_err(|_| wrong());
    }
    let date: Date = text.parse().map_err(|_| wrong())?;
    let zoned = date.to_zoned(TimeZone::system()).map_err(|_| wrong())?;
    Ok(zoned.timestamp())
}
