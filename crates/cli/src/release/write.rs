//! Makes a plan on the newest tip, judges it, commits it, and pushes it.

use super::past::Ahead;
use super::repository::{Place, Repository, committer, tree_of};
use super::snapshot::{Fault, Shared, Snapshot};
use super::{Output, POLICY, ReleaseError, text};
use equate_git::{Commit, Draft, Identity, Written};
use equate_kustomize::Tree;
use equate_release::config::Config;
use equate_release::fleet::Builds;
use equate_release::history::Entry;
use equate_release::plan::{self, Past, Plan};
use equate_release::record::{Intent, NOTES};
use equate_release::rules::Health;
use jiff::Timestamp;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Reason for the change, kept in the commit.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Show the change and the rules without writing anything.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Author of the commit, as `Name <address>` (default: git's user.name and user.email).
    #[arg(long, value_name = "AUTHOR")]
    author: Option<String>,
    /// Commit without a signature, although commit.gpgsign is set.
    #[arg(long)]
    no_gpg_sign: bool,
    #[command(flatten)]
    pub(crate) place: Place,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub(crate) output: Output,
    #[arg(skip)]
    pub(crate) parts: Parts,
}

/// The parts of a change that are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Parts {
    /// The plan and its outcome.
    #[default]
    All,
    /// The plan as text on stderr, before a question.
    Question,
    /// The outcome, after the answer. As data, it has the plan.
    Outcome,
}

/// A plan that was carried out, or was not.
pub(crate) struct Done {
    pub(crate) plan: Plan,
    /// The commit that has the versions: the new one, or the tip if there was nothing to do.
    pub(crate) commit: Commit,
    pub(crate) code: ExitCode,
    pub(crate) is_refused: bool,
}

pub(crate) type HealthOf<'h> = dyn Fn(&dyn Tree, &Config, &str, &str) -> Health + 'h;

/// [`write_with`] where nothing shows health.
pub(crate) fn write(
    options: &Options,
    make: impl Fn(&dyn Tree, &str, Past<'_>) -> Result<Plan, plan::PlanError>,
) -> Result<Done, ReleaseError> {
    let blind: &HealthOf<'_> = &|_, _, _, _| Health::Unknown("no cluster is looked at".to_owned());
    write_with(options, blind, |tree, author, past| Ok(make(tree, author, past)?))
}

/// Plans and writes. The plan is made again on each tip that the commit is tried on, with all its rules.
pub(crate) fn write_with(
    options: &Options,
    health: &HealthOf<'_>,
    make: impl Fn(&dyn Tree, &str, Past<'_>) -> Result<Plan, ReleaseError>,
) -> Result<Done, ReleaseError> {
    let repository = options.place.open()?;
    let planner = Planner::new(options, &repository, health)?;
    if options.dry_run {
        let commit = repository.tip()?;
        let plan = planner.plan(std::slice::from_ref(&commit), &make)?;
        return finish(options, &repository, plan, commit, None);
    }
    let (plan, commit, id) = commit(&repository, &planner, make)?;
    finish(options, &repository, plan, commit, id.as_deref())
}

/// Commits one change. Returns its plan, the commit that has the versions, and the id of that commit if it is new.
pub(crate) fn commit(
    repository: &Repository,
    planner: &Planner<'_>,
    make: impl Fn(&dyn Tree, &str, Past<'_>) -> Result<Plan, ReleaseError>,
) -> Result<(Plan, Commit, Option<String>), ReleaseError> {
    let latest: RefCell<Option<(Plan, Commit)>> = RefCell::default();
    let draft = |commit: &Commit| -> Result<Option<Draft>, Box<ReleaseError>> {
        let plan = planner.plan(std::slice::from_ref(commit), &make)?;
        let draft = planner.draft(commit, &plan);
        latest.replace(Some((plan, commit.clone())));
        Ok(draft)
    };
    let inner = &repository.inner;
    let written = match &repository.upstream {
        Some((upstream, remote)) => inner.commit_upstream(&repository.mirrors, remote, upstream, draft)?,
        None => inner.commit_locally(&repository.branch, draft)?,
    };
    let Some((plan, tip)) = latest.take() else {
        return Err(ReleaseError::Detached);
    };
    match written {
        Written::Nothing => Ok((plan, tip, None)),
        Written::Commit { id, .. } => Ok((plan, inner.commit(&id)?.commit, Some(id))),
    }
}

/// Plans for the commits of one repository. It keeps what it read and built: a tip that others moved differs
/// little from the one before.
pub(crate) struct Planner<'w> {
    repository: &'w Repository,
    health: &'w HealthOf<'w>,
    author: Identity,
    by: String,
    shared: Arc<Shared>,
    builds: Builds,
    ahead: RefCell<Ahead>,
}

impl<'w> Planner<'w> {
    /// # Errors
    /// The author is unknown, or commits would have to be signed.
    pub(crate) fn new(
        options: &Options,
        repository: &'w Repository,
        health: &'w HealthOf<'w>,
    ) -> Result<Self, ReleaseError> {
        let author = repository.author(options.author.as_deref())?;
        if repository.wants_signatures() && !options.no_gpg_sign && !options.dry_run {
            return Err(ReleaseError::Signing);
        }
        Ok(Self {
            repository,
            health,
            by: author.to_string(),
            author,
            shared: Arc::default(),
            builds: Builds::default(),
            ahead: RefCell::default(),
        })
    }

    /// Plans for the newest of some commits. The first is the tip of the branch, and each other one is the next
    /// change on the one before.
    pub(crate) fn plan(
        &self,
        commits: &[Commit],
        make: impl FnOnce(&dyn Tree, &str, Past<'_>) -> Result<Plan, ReleaseError>,
    ) -> Result<Plan, ReleaseError> {
        let commit = commits.last().ok_or(ReleaseError::Detached)?;
        let tree = Snapshot::sharing(commit.tree().clone(), Fault::default(), Arc::clone(&self.shared));
        let config = plan::config(&tree)?;
        let known: RefCell<BTreeMap<String, Vec<Entry>>> = RefCell::default();
        let failure: RefCell<Option<ReleaseError>> = RefCell::default();
        let of_service = |service: &str| -> Result<Vec<Entry>, ReleaseError> {
            let mut ahead = self.ahead.borrow_mut();
            let history = ahead.of(self.repository, commits, &config)?;
            Ok(history.entries(|key| key.service == service).collect())
        };
        let entries = |service: &str| -> Vec<Entry> {
            let mut known = known.borrow_mut();
            let found = known.entry(service.to_owned()).or_insert_with(|| {
                of_service(service).unwrap_or_else(|error| {
                    failure.replace(Some(error));
                    Vec::new()
                })
            });
            found.clone()
        };
        let health = |environment: &str, service: &str| (self.health)(&tree, &config, environment, service);
        let past = Past {
            entries: &entries,
            health: &health,
            now: Timestamp::now(),
            builds: &self.builds,
        };
        let plan = make(&tree, &self.by, past);
        // a plan from a part of history is no plan
        failure.take().map_or(plan, Err)
    }

    /// The commit of a plan; none if a rule refuses it, or if there is nothing to do.
    pub(crate) fn draft(&self, commit: &Commit, plan: &Plan) -> Option<Draft> {
        if plan.is_refused() || plan.files.is_empty() {
            return None;
        }
        let config = plan::config(&tree_of(commit)).ok();
        let files = plan.files.iter();
        Some(Draft {
            changes: files
                .map(|(path, content)| (path.clone(), content.as_ref().map(|bytes| bytes.to_vec())))
                .collect(),
            author: self.author.clone(),
            committer: committer(config.and_then(|config| config.committer).as_deref()),
            time: SystemTime::now(),
            message: plan.record.message(),
            note: Some((NOTES.to_owned(), plan.record.note())),
        })
    }
}

/// The word for a plan's end.
pub(crate) fn outcome(options: &Options, plan: &Plan, written: Option<&str>) -> &'static str {
    match (written, plan.is_refused(), options.dry_run) {
        (Some(_), _, _) => "committed",
        (None, true, _) => "refused",
        (None, false, _) if plan.files.is_empty() => "unchanged",
        (None, false, _) => "planned",
    }
}

/// Prints the warnings of a plan.
pub(crate) fn warn(plan: &Plan) {
    for warning in plan.steps.iter().filter_map(|step| step.warning.as_ref()) {
        eprintln!("warning: {}", text::shown(warning));
    }
}

/// Prints a plan and its end.
pub(crate) fn finish(
    options: &Options,
    repository: &Repository,
    plan: Plan,
    commit: Commit,
    written: Option<&str>,
) -> Result<Done, ReleaseError> {
    let now = Timestamp::now();
    let is_refused = plan.is_refused();
    warn(&plan);
    match (options.output, options.parts) {
        (Output::Json | Output::Yaml, Parts::All | Parts::Outcome) => {
            let outcome = outcome(options, &plan, written);
            text::print_data(options.output, &text::data(&plan, written, outcome))?;
        }
        _ if is_refused => eprint!("{}", text::refusal(&plan, now)),
        (_, Parts::Question) => eprint!("{}", steps(&plan)),
        (Output::Text | Output::Wide, parts) => {
            let mut shown = match parts {
                Parts::All => steps(&plan),
                Parts::Question | Parts::Outcome => String::new(),
            };
            match (written, options.dry_run) {
                (Some(id), _) => {
                    let short: String = id.chars().take(7).collect();
                    let (place, by) = (repository.place(), &plan.record.by);
                    shown.push_str(&format!("committed  {short} on {place} by {by}\n"));
                }
                (None, true) if !plan.files.is_empty() => {
                    for verdict in plan.steps.iter().flat_map(|step| &step.verdicts) {
                        shown.push_str(&format!("  met        {}\n", text::reason(verdict, now)));
                    }
                    let subject = plan.record.subject();
                    shown.push_str(&format!(
                        "dry run: would commit to {}: {subject}\n",
                        repository.place()
                    ));
                }
                (None, _) => {}
            }
            text::print(&shown)?;
        }
    }
    Ok(Done {
        plan,
        commit,
        code: match is_refused {
            true => ExitCode::from(POLICY),
            false => ExitCode::SUCCESS,
        },
        is_refused,
    })
}

/// The lines of a plan's steps.
fn steps(plan: &Plan) -> String {
    let mut shown = String::new();
    for step in &plan.steps {
        let version = step.labels().1;
        let (service, environment) = (&step.service, &step.environment);
        shown.push_str(&match plan.record.intent {
            Intent::Hold => format!("{service} stays at {version} in {environment}\n"),
            Intent::Unhold => format!("{service} is no longer held in {environment}, at {version}\n"),
            Intent::Undeploy => text::removal(step),
            Intent::Promote | Intent::Release | Intent::Rollback => text::step(step),
        });
    }
    shown
}
