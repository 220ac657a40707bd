//! `equate template`: what `helm template` prints, byte for byte, without it.
//!
//! The chart is a directory or an archive on this machine; nothing is fetched. Without
//! `--dry-run=server` no cluster is asked: its version and API versions are those of `--kube-version` and
//! `--api-versions`, or Helm's own defaults, and `lookup` finds nothing.

mod cluster;
mod options;
mod verify;
pub(crate) mod world;

use crate::connection::{ConnectError, Options};
use crate::failure::{Failure, is_broken_pipe};
use cluster::Cluster;
use equate_api::meta::Duration;
use equate_helm::cache::Cache;
use equate_helm::capabilities::{Capabilities, KubeVersion, KubeVersionError};
use equate_helm::dependencies::{self, MissingDependencies, NotInstallable};
use equate_helm::engine::{Bounds, Release};
use equate_helm::listing::{self, Choices, FileWrite, WriteMode};
use equate_helm::load::LoadError;
use equate_helm::release::{self, NameError};
use equate_helm::render::{self, Rendered, Request};
use equate_helm::values::{UserValues, UserValuesError};
use equate_helm::{Chart, Limits, Values};
use equate_template::{Library, Session, TemplateSet, Value};
use options::{OfAnInstallation, Switch};
use std::borrow::Cow;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Runtime;
use verify::VerifyError;
use world::Real;

/// The name of a release that nobody named.
pub(crate) const NAME_DEFAULT: &str = "release-name";

/// The namespace that nobody named.
const NAMESPACE_DEFAULT: &str = "default";

/// Helm's words after what a chart's text is refused for.
const HINT: &str = "\n\nUse --debug flag to render out invalid YAML";

/// Print the objects that a Helm chart renders to, as `helm template` does.
#[derive(Debug, clap::Args)]
#[command(
    disable_version_flag = true,
    after_help = "EXAMPLES:
  equate template ./charts/web
  equate template web ./web-1.2.0.tgz -n shop -f prod.yaml --set image.tag=v7
  equate template web ./charts/web -s templates/deployment.yaml
  equate template web ./charts/web --dry-run=server      with the API versions of a cluster, and what `lookup` finds there"
)]
pub(crate) struct Args {
    /// The release's name, then the chart: a directory or an archive. Alone, it is the chart.
    #[arg(value_name = "[NAME] CHART", required = true, num_args = 1..)]
    names: Vec<String>,
    /// Values in a YAML file, `-` for standard input; the last has the last word.
    #[arg(short = 'f', long, value_name = "FILE", value_delimiter = ',')]
    values: Vec<String>,
    /// A value: `key=value`, `list={a,b}`, `outer.inner=1,other=2`.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// A value that is a text, whatever it looks like.
    #[arg(long, value_name = "KEY=TEXT")]
    set_string: Vec<String>,
    /// A value in JSON: `key={"a":1}`, or a whole object.
    #[arg(long, value_name = "KEY=JSON")]
    set_json: Vec<String>,
    /// A value that is the text of a file.
    #[arg(long, value_name = "KEY=FILE")]
    set_file: Vec<String>,
    /// A value that is a text, taken as it is written.
    #[arg(long, value_name = "KEY=TEXT")]
    set_literal: Vec<String>,
    /// Which cluster, with --dry-run=server.
    #[command(flatten)]
    cluster: Options,
    /// The namespace of the release; without it `HELM_NAMESPACE`, else that of the kubeconfig's context.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// API versions the cluster serves, besides the usual ones: `example.org/v1`, `example.org/v1/Thing`.
    #[arg(short, long, value_name = "VERSION", value_delimiter = ',')]
    api_versions: Vec<String>,
    /// The version of Kubernetes to render for.
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<String>,
    /// Print the definitions of the chart's own kinds (crds/) too.
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL",
          default_value = "false", default_missing_value = "true", hide_default_value = true)]
    include_crds: Switch,
    /// Leave out hooks.
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL",
          default_value = "false", default_missing_value = "true", hide_default_value = true)]
    no_hooks: Switch,
    /// Leave out tests.
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL",
          default_value = "false", default_missing_value = "true", hide_default_value = true)]
    skip_tests: Switch,
    /// Render for an upgrade: `.Release.IsUpgrade` is true.
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL",
          default_value = "false", default_missing_value = "true", hide_default_value = true)]
    is_upgrade: Switch,
    /// Print only what comes of this template; a pattern, and more than once.
    #[arg(short, long, value_name = "TEMPLATE")]
    show_only: Vec<String>,
    /// A template that makes the release's name.
    #[arg(long, value_name = "TEMPLATE")]
    name_template: Option<String>,
    /// As in Helm: means nothing here, where a release without a name has one.
    #[arg(short, long, num_args = 0..=1, require_equals = true, value_name = "BOOL",
          default_value = "false", default_missing_value = "true", hide_default_value = true)]
    generate_name: Switch,
    /// Write a file for each template into this directory.
    #[arg(long, value_name = "DIRECTORY", value_parser = options::path())]
    output_dir: Option<PathBuf>,
    /// Write them below the release's name.
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL",
          default_value = "false", default_missing_value = "true", hide_default_value = true)]
    release_name: Switch,
    /// Do not hold the values against the charts' schemas.
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL",
          default_value = "false", default_missing_value = "true", hide_default_value = true)]
    skip_schema_validation: Switch,
    /// Ask a cluster for its version, its API versions and what `lookup` wants: `server`.
    #[arg(long, value_enum, value_name = "WHERE", num_args = 0..=1, require_equals = true,
          default_value = "client", default_missing_value = "client")]
    dry_run: DryRun,
    /// The same as --dry-run=server; deprecated in Helm.
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, value_name = "BOOL",
          default_value = "false", default_missing_value = "true", conflicts_with = "dry_run")]
    validate: Switch,
    /// Print the text of a chart that is refused.
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL",
          default_value = "false", default_missing_value = "true", hide_default_value = true)]
    debug: Switch,
    /// The version of a chart that is fetched: means nothing to one that is here.
    #[arg(long, value_name = "VERSION", hide = true)]
    version: Option<String>,
    /// Use the chart only if its provenance (CHART.prov) proves it: an archive that somebody signed.
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL",
          default_value = "false", default_missing_value = "true", hide_default_value = true)]
    verify: Switch,
    /// The public keys of those whose signatures count, with --verify; GnuPG's own if none are named.
    #[arg(long, value_name = "FILE", value_parser = options::path())]
    keyring: Option<PathBuf>,
    /// Where charts are fetched: not there yet.
    #[arg(long, value_name = "URL", hide = true)]
    repo: Option<String>,
    /// How long the render may take: `30s`, `5m0s`; 0 is for ever.
    #[arg(long, value_name = "DURATION", default_value = "5m0s")]
    timeout: Duration,
    /// What an installation is told and a render has no use for, as Helm takes it.
    #[command(flatten)]
    _of_an_installation: OfAnInstallation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum DryRun {
    /// Ask no cluster.
    #[value(alias = "true", alias = "unset")]
    Client,
    /// Ask one.
    Server,
}

/// Why nothing was rendered. Where Helm refuses too, the words are Helm's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TemplateError {
    /// Too many words.
    #[error("expected at most two arguments, unexpected arguments: {0}")]
    Words(String),
    /// The name is said twice.
    #[error("cannot set {0} and also specify a name")]
    Named(&'static str),
    /// The template of the name fails.
    #[error(transparent)]
    NameTemplate(Box<equate_template::Error>),
    /// The version of Kubernetes is none.
    #[error("invalid kube version '{text}'")]
    KubeVersion {
        /// What was given.
        text: String,
        /// What is wrong with it.
        #[source]
        source: KubeVersionError,
    },
    /// The chart is not here.
    #[error("path {0:?} not found")]
    NotFound(String),
    /// The chart would have to be fetched.
    #[error(
        "{0} would have to be fetched, and charts are not fetched yet: name a directory or an archive on this machine"
    )]
    Elsewhere(String),
    /// The chart cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The chart is not proved.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// It can be no release.
    #[error(transparent)]
    Type(#[from] NotInstallable),
    /// The release may not be called so.
    #[error("release name check failed: release name {0:?}: {1}")]
    Name(String, NameError),
    /// A chart it needs is not with it.
    #[error(
        "an error occurred while checking for chart dependencies. You may need to run 'helm dependency build' to fetch missing dependencies: {0}"
    )]
    Dependencies(MissingDependencies),
    /// The values cannot be read.
    #[error(transparent)]
    Values(#[from] UserValuesError),
    /// The chart is not rendered; and what helps to find out why.
    #[error("{0}{1}")]
    Render(Box<render::Error>, Cow<'static, str>),
    /// The time is over.
    #[error("{error}; {option} gives it longer")]
    Late {
        /// Where it was then.
        error: Box<render::Error>,
        /// What says how long it has.
        option: &'static str,
    },
    /// A template is asked for that there is not.
    #[error(transparent)]
    NoTemplate(#[from] listing::TemplateNotFound),
    /// There is no cluster.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The cluster does not answer.
    #[error("could not ask the cluster {what}")]
    Cluster {
        /// For what.
        what: &'static str,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// The machine gives no random numbers.
    #[error("the machine gives no random numbers")]
    Chance,
    /// A file of values cannot be read.
    #[error("open {path}")]
    Read {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file could not be written.
    #[error("could not write {path}")]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Standard output could not be written.
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for TemplateError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            // the texts are Helm's, which adds no hint
            _ => None,
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

impl Args {
    /// The release's name and the chart, as Helm reads one word or two.
    fn name_and_chart(&self) -> Result<(String, &str), TemplateError> {
        let name_template = options::told(self.name_template.as_ref());
        match self.names.as_slice() {
            [chart] => match name_template {
                Some(template) => Ok((named_by(template)?, chart)),
                None => Ok((NAME_DEFAULT.to_owned(), chart)),
            },
            [_, _] if self.generate_name.is_on() => Err(TemplateError::Named("--generate-name")),
            [_, _] if name_template.is_some() => Err(TemplateError::Named("--name-template")),
            [name, chart] => Ok((name.clone(), chart)),
            [_, _, more @ ..] => Err(TemplateError::Words(more.join(", "))),
            // clap asks for one
            [] => Err(TemplateError::Words(String::new())),
        }
    }

    fn values(&self) -> Result<Values, TemplateError> {
        let file = |name: &String| match read_file(name) {
            Ok(text) => Ok((name.clone(), text)),
            Err(source) => Err(TemplateError::Read {
                path: name.clone(),
                source,
            }),
        };
        let user = UserValues {
            files: self.values.iter().map(file).collect::<Result<_, _>>()?,
            set_json: self.set_json.clone(),
            set: self.set.clone(),
            set_string: self.set_string.clone(),
            set_file: self.set_file.clone(),
            set_literal: self.set_literal.clone(),
        };
        Ok(user.values(&Limits::default(), &mut read_file)?)
    }

    /// What the render is told of the cluster, and the cluster if it is asked.
    fn cluster(&self, runtime: &Runtime) -> Result<(Capabilities, Option<Cluster>), TemplateError> {
        let told = options::told(self.kube_version.as_ref()).map(|text| {
            text.parse::<KubeVersion>()
                .map_err(|source| TemplateError::KubeVersion {
                    text: text.clone(),
                    source,
                })
        });
        let told = told.transpose()?;
        if self.validate.is_on() || self.dry_run == DryRun::Server {
            if told.is_some() || !self.api_versions.is_empty() {
                warn("--kube-version and --api-versions mean nothing where a cluster is asked");
            }
            let connection = runtime.block_on(self.place().connect_aloud())?;
            let mut cluster = Cluster::new(connection.client, runtime.handle().clone());
            return Ok((cluster.capabilities()?, Some(cluster)));
        }
        let mut capabilities = Capabilities::default();
        capabilities.kube_version = told.unwrap_or(capabilities.kube_version);
        capabilities
            .api_versions
            .extend(self.api_versions.iter().cloned());
        Ok((capabilities, None))
    }

    /// The chart, if it is on this machine and can become a release.
    fn chart(&self, name: &str) -> Result<Chart, TemplateError> {
        let name = name.trim();
        let path = Path::new(name);
        if let Some(repo) = options::told(self.repo.as_ref()) {
            return Err(TemplateError::Elsewhere(format!("{name} of {repo}")));
        }
        if !path.exists() {
            return Err(match path.is_absolute() || name.starts_with('.') {
                true => TemplateError::NotFound(name.to_owned()),
                false => TemplateError::Elsewhere(name.to_owned()),
            });
        }
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let limits = Limits::default();
        let chart = match self.verify.is_on() {
            true => verify::chart(&path, options::told_path(self.keyring.as_deref()), &limits)?,
            false => Chart::from_path(&path, &limits)?,
        };
        dependencies::check_installable(&chart)?;
        if chart.metadata.deprecated {
            warn("this chart is deprecated");
        }
        dependencies::check_present(&chart).map_err(TemplateError::Dependencies)?;
        Ok(chart)
    }

    fn choices(&self) -> Choices {
        Choices {
            no_hooks: self.no_hooks.is_on(),
            skip_tests: self.skip_tests.is_on(),
            show_only: self.show_only.clone(),
        }
    }

    /// Which cluster: as Helm does, that of `HELM_KUBECONTEXT` unless the line names a context.
    fn place(&self) -> Options {
        let mut place = self.cluster.clone();
        place.context = place.context.or_else(|| variable("HELM_KUBECONTEXT"));
        place
    }

    /// The namespace of the release: Helm takes that of the kubeconfig's context, with or without a cluster.
    fn namespace(&self) -> String {
        let told = self.namespace.clone().or_else(|| variable("HELM_NAMESPACE"));
        told.filter(|namespace| !namespace.is_empty())
            .or_else(|| self.place().namespace())
            .unwrap_or_else(|| NAMESPACE_DEFAULT.to_owned())
    }

    fn show(&self, rendered: &Rendered, release: &str) -> Result<(), TemplateError> {
        let choices = self.choices();
        let crds = match self.include_crds.is_on() {
            true => listing::crds(&rendered.chart),
            false => Vec::new(),
        };
        let Some(directory) = options::told_path(self.output_dir.as_deref()) else {
            return print(&listing::text(&crds, &rendered.sorted, &choices)?);
        };
        let below = self.release_name.is_on().then_some(release);
        let directory = directory.to_string_lossy();
        let mut said = String::new();
        for file in listing::files(&directory, below, &crds, &rendered.sorted, &choices) {
            let path = Path::new(&file.path);
            write(path, &file).map_err(|source| TemplateError::Write {
                path: path.to_owned(),
                source,
            })?;
            said.push_str(&format!("wrote {}\n", file.path));
        }
        // nothing is left to show: Helm says so of the first template that is asked for
        match self.show_only.first() {
            None => print(&(said + "\n")),
            Some(wanted) => {
                print(&said)?;
                Err(listing::TemplateNotFound(wanted.clone()).into())
            }
        }
    }
}

/// What `--name-template` comes to.
pub(crate) fn named_by(template: &str) -> Result<String, TemplateError> {
    let mut set = TemplateSet::new(Library::Sprig);
    set.parse("name-template", template)
        .map_err(TemplateError::NameTemplate)?;
    let mut session = Session::new(equate_template::Options::default(), Box::new(Real::new(None)?));
    let name = session.execute(&set, "name-template", Value::Nil);
    Ok(name.map_err(TemplateError::NameTemplate)?.lossy().into_owned())
}

/// Renders and prints.
pub(crate) fn run(args: &Args, runtime: &Runtime) -> Result<(), TemplateError> {
    let (capabilities, cluster) = args.cluster(runtime)?;
    let (name, chart) = args.name_and_chart()?;
    let values = args.values()?;
    let chart = args.chart(chart)?;
    release::check_name(&name).map_err(|error| TemplateError::Name(name.clone(), error))?;
    let release = Release {
        name,
        namespace: args.namespace(),
        revision: 1,
        is_upgrade: args.is_upgrade.is_on(),
    };
    let request = Request {
        chart: &chart,
        values: &values,
        release: &release,
        capabilities: &capabilities,
        skip_schema: args.skip_schema_validation.is_on(),
        subchart_notes: false,
    };
    let bounds = Bounds {
        stop: stop_after(args.timeout),
        ..Bounds::default()
    };
    match render::render(request, &Cache::default(), Box::new(Real::new(cluster)?), bounds) {
        Ok(rendered) => {
            rendered.warnings.iter().for_each(|warning| warn(warning));
            args.show(&rendered, &release.name)
        }
        Err(error) if error.is_stopped() => Err(TemplateError::Late {
            error: Box::new(error),
            option: "--timeout",
        }),
        Err(error) => {
            if args.debug.is_on() && error.is_of_a_release() {
                let texts = match &error {
                    render::Error::Manifest(unsorted) => unsorted.texts.files.as_slice(),
                    _ => &[],
                };
                let files = texts.iter().map(|(path, text)| (&**path, &**text));
                print(&listing::unsorted(files, &args.choices())?)?;
            }
            let hint = match error.is_of_a_release() && !args.debug.is_on() {
                true => HINT,
                false => "",
            };
            Err(TemplateError::Render(Box::new(error), hint.into()))
        }
    }
}

/// What is set when the time is over. An interrupt needs no such thing: it ends the process, and nothing is
/// written before the render is done.
pub(crate) fn stop_after(timeout: Duration) -> Option<Arc<AtomicBool>> {
    let timeout = Some(timeout.get()).filter(|timeout| !timeout.is_zero())?;
    let stop = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&stop);
    std::thread::spawn(move || {
        #[expect(clippy::disallowed_methods, reason = "nobody waits for this thread")]
        std::thread::sleep(timeout);
        set.store(true, Ordering::Relaxed);
    });
    Some(stop)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn warn(text: &str) {
    eprintln!(
        "{} {text}",
        console::style("warning:").yellow().bold().for_stderr()
    );
}

/// A file that an option names; `-` is standard input. What is longer than any values may be is cut: who
/// reads it says so.
fn read_file(name: &str) -> std::io::Result<String> {
    let max = Limits::default().file_bytes_max + 1;
    let mut text = String::new();
    match name {
        "-" => std::io::stdin().take(max).read_to_string(&mut text)?,
        name => {
            let file = std::fs::File::open(name).map_err(in_helms_words)?;
            file.take(max).read_to_string(&mut text)?
        }
    };
    Ok(text)
}

/// Why a file cannot be opened, where Helm has other words for it than the system.
fn in_helms_words(error: std::io::Error) -> std::io::Error {
    match error.kind() {
        kind @ ErrorKind::NotFound => std::io::Error::new(kind, "no such file or directory"),
        kind @ ErrorKind::PermissionDenied => std::io::Error::new(kind, "permission denied"),
        _ => error,
    }
}

fn write(path: &Path, file: &FileWrite) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let appends = match file.mode {
        WriteMode::Replace => false,
        WriteMode::Append => true,
        WriteMode::AppendIfThere => path.exists(),
    };
    let mut options = std::fs::OpenOptions::new();
    options
        .create(true)
        .write(true)
        .append(appends)
        .truncate(!appends);
    options.open(path)?.write_all(file.text.as_bytes())
}

fn print(text: &str) -> Result<(), TemplateError> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(TemplateError::Output)
}
