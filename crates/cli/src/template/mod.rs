//! `equate template`: prints the output of `helm template`, byte for byte, without Helm.
//!
//! The chart is a local directory or archive, or comes from a repository with `--repo`, or from a registry
//! with `oci://`. Without `--dry-run=server` no cluster is used: the version and API versions come from
//! `--kube-version` and `--api-versions` or are Helm's defaults, and `lookup` finds nothing.

mod cluster;
mod options;
mod verify;
pub(crate) mod world;

use crate::artifact::{self, ArtifactError};
use crate::connection::{ConnectError, Options};
use crate::failure::{Failure, is_broken_pipe};
use crate::up::entry::{self, EntryError};
use cluster::Cluster;
use equate_api::meta::Duration;
use equate_controllers::chart_fetch::{ChartFetchError, RegistryChartError, fetch_from_registry, registries};
use equate_egress::Egress;
use equate_helm::cache::Cache;
use equate_helm::capabilities::{Capabilities, KubeVersion, KubeVersionError};
use equate_helm::dependencies::{self, MissingDependencies, NotInstallable};
use equate_helm::engine::{Bounds, Release};
use equate_helm::listing::{self, Choices, FileWrite, WriteMode};
use equate_helm::load::{self, LoadError};
use equate_helm::log::{Level, LogLine};
use equate_helm::release::{self, NameError};
use equate_helm::render::{self, Rendered, Request};
use equate_helm::values::{UserValues, UserValuesError};
use equate_helm::{Chart, Limits, Values};
use equate_registry::{Access, NameError as ReferenceError, Repository};
use equate_template::{Library, Session, TemplateSet, Value};
use options::{InstallationOptions, RepositoryOptions, Switch};
use std::borrow::Cow;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Runtime;
use verify::VerifyError;
use world::SystemWorld;

/// Helm's name of an unnamed release.
pub(crate) const NAME_DEFAULT: &str = "release-name";

const NAMESPACE_DEFAULT: &str = "default";

/// The time to fetch a chart of a registry. Helm has none.
const REGISTRY_TIME: std::time::Duration = std::time::Duration::from_secs(120);

/// Helm's hint after the error of an invalid manifest.
const HINT: &str = "\n\nUse --debug flag to render out invalid YAML";

#[derive(Debug, clap::Args)]
#[command(
    disable_version_flag = true,
    override_usage = "equate template [OPTIONS] [NAME] <CHART>",
    after_help = "Examples:
  # Render a chart directory with its default values
  equate template ./charts/web
  # Render an archive as release web in the namespace shop
  equate template web ./web-1.2.0.tgz -n shop -f prod.yaml --set image.tag=v7
  # Render a chart of a repository
  equate template web podinfo --repo https://stefanprodan.github.io/podinfo --version 6.x
  # Render a chart of a registry
  equate template web oci://ghcr.io/stefanprodan/charts/podinfo --version 6.x
  # Print one template
  equate template web ./charts/web -s templates/deployment.yaml
  # Use the API versions of a cluster, and let `lookup` read it
  equate template web ./charts/web --dry-run=server"
)]
pub(crate) struct Args {
    /// Release name, which is optional, and chart: a local directory, a .tgz archive, oci://HOST/CHART, or a name
    /// with --repo.
    #[arg(value_name = "[NAME] CHART", required = true, num_args = 1..)]
    names: Vec<String>,
    /// Read values from YAML files, or from standard input (`-`); the last file wins (can be repeated).
    #[arg(short = 'f', long, value_name = "FILE,...", value_delimiter = ',')]
    values: Vec<String>,
    /// Set values, such as `key=value`, `list={a,b}` or `outer.inner=1,other=2` (can be repeated).
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Set values as strings, such as `version=1.20` (can be repeated).
    #[arg(long, value_name = "KEY=TEXT")]
    set_string: Vec<String>,
    /// Set values as JSON, such as `key={"a":1}`, or as a whole object (can be repeated).
    #[arg(long, value_name = "KEY=JSON")]
    set_json: Vec<String>,
    /// Set values to the content of files, such as `config=app.conf` (can be repeated).
    #[arg(long, value_name = "KEY=FILE")]
    set_file: Vec<String>,
    /// Set a value to a string, and do not parse commas or braces in it (can be repeated).
    #[arg(long, value_name = "KEY=TEXT")]
    set_literal: Vec<String>,
    #[command(flatten)]
    cluster: Options,
    /// Namespace of the release (default: `HELM_NAMESPACE`, then that of the kubeconfig's context, then `default`).
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Additional API versions for the chart, such as `example.org/v1` or `example.org/v1/Thing` (can be repeated).
    #[arg(short, long, value_name = "VERSION,...", value_delimiter = ',')]
    api_versions: Vec<String>,
    /// Kubernetes version for the chart, such as `1.33` (default: that of Helm).
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<String>,
    /// Also print the CRDs in `crds/` of the chart.
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
    /// Render for an upgrade: set `.Release.IsUpgrade` instead of `.Release.IsInstall`.
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL",
          default_value = "false", default_missing_value = "true", hide_default_value = true)]
    is_upgrade: Switch,
    /// Print only these templates, such as `templates/deployment.yaml` or `templates/*.yaml` (can be repeated).
    #[arg(short, long, value_name = "TEMPLATE")]
    show_only: Vec<String>,
    /// Go template of the release name, such as `web-{{ randNumeric 3 }}`.
    #[arg(long, value_name = "TEMPLATE")]
    name_template: Option<String>,
    /// No effect: a release without a name gets a default name.
    #[arg(short, long, num_args = 0..=1, require_equals = true, value_name = "BOOL",
          default_value = "false", default_missing_value = "true", hide_default_value = true)]
    generate_name: Switch,
    /// Write one file for each template into this directory.
    #[arg(long, value_name = "DIR", value_parser = options::path())]
    output_dir: Option<PathBuf>,
    /// With --output-dir, write the files into a subdirectory with the name of the release.
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL",
          default_value = "false", default_missing_value = "true", hide_default_value = true)]
    release_name: Switch,
    /// Skip schema validation of values.
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL",
          default_value = "false", default_missing_value = "true", hide_default_value = true)]
    skip_schema_validation: Switch,
    /// Source of the Kubernetes version, of the API versions and of `lookup`.
    #[arg(long, value_enum, value_name = "WHERE", num_args = 0..=1, require_equals = true,
          default_value = "client", default_missing_value = "client")]
    dry_run: DryRun,
    /// Like --dry-run=server; deprecated in Helm.
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, value_name = "BOOL",
          default_value = "false", default_missing_value = "true", conflicts_with = "dry_run")]
    validate: Switch,
    /// Print the rendered text if it is not valid YAML.
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL",
          default_value = "false", default_missing_value = "true", hide_default_value = true)]
    debug: Switch,
    /// Version of a chart to fetch, or a range (default: the newest); no effect on local charts.
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Verify the archive with its signature file (CHART.tgz.prov) before use.
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL",
          default_value = "false", default_missing_value = "true", hide_default_value = true)]
    verify: Switch,
    /// File with the public keys that --verify trusts (default: the keyring in `~/.gnupg`).
    #[arg(long, value_name = "FILE", value_parser = options::path())]
    keyring: Option<PathBuf>,
    /// Repository to fetch the chart from, by its name.
    #[arg(long, value_name = "URL")]
    repo: Option<String>,
    #[command(flatten)]
    repository: RepositoryOptions,
    /// Read charts from the directory DIR instead of the chart repository or registry at URL, such as `oci://example.org/charts=../charts` (can be repeated).
    #[arg(long, value_name = "URL=DIR", value_parser = crate::up::substitution)]
    instead_of: Vec<(String, PathBuf)>,
    /// Maximum time to render, such as `30s`; 0 means no limit.
    #[arg(long, value_name = "DURATION", default_value = "5m0s")]
    timeout: Duration,
    /// Options of an installation, which have no effect on a render.
    #[command(flatten)]
    _installation_options: InstallationOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum DryRun {
    /// No cluster; `lookup` finds nothing
    #[value(alias = "true", alias = "unset")]
    Client,
    /// The cluster of the kubeconfig
    Server,
}

/// Why rendering failed. Helm's own errors have Helm's text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("expected at most two arguments, unexpected arguments: {0}")]
    Words(String),
    #[error("cannot set {0} and also specify a name")]
    Named(&'static str),
    #[error(transparent)]
    NameTemplate(Box<equate_template::Error>),
    #[error("invalid kube version '{text}'")]
    KubeVersion {
        text: String,
        #[source]
        source: KubeVersionError,
    },
    #[error("path {0:?} not found")]
    NotFound(String),
    #[error(
        "could not fetch {0}: repository names and URLs of archives are not supported yet; use --repo URL, \
         oci://HOST/CHART, a local directory or an archive"
    )]
    NotLocal(String),
    #[error("--verify is not supported for charts to fetch; fetch the chart and its signature first")]
    VerifyFetched,
    #[error("invalid reference {0:?}")]
    Reference(String, #[source] ReferenceError),
    #[error("could not open {0}")]
    Registry(String, #[source] Box<ArtifactError>),
    #[error(transparent)]
    RegistryChart(Box<RegistryChartError>),
    #[error(transparent)]
    Fetch(#[from] ChartFetchError),
    #[error(transparent)]
    InsteadOf(#[from] EntryError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Verify(#[from] VerifyError),
    #[error(transparent)]
    Type(#[from] NotInstallable),
    #[error("release name check failed: release name {0:?}: {1}")]
    Name(String, NameError),
    #[error(
        "an error occurred while checking for chart dependencies. You may need to run 'helm dependency build' to fetch missing dependencies: {0}"
    )]
    Dependencies(MissingDependencies),
    #[error(transparent)]
    Values(#[from] UserValuesError),
    #[error("{0}{1}")]
    Render(Box<render::Error>, Cow<'static, str>),
    #[error("{error}; increase {option}")]
    Late {
        error: Box<render::Error>,
        option: &'static str,
    },
    #[error(transparent)]
    NoTemplate(#[from] listing::TemplateNotFound),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("could not ask the cluster {what}")]
    Cluster {
        what: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("could not get random numbers from the operating system")]
    NoRandomness,
    #[error("open {path}")]
    Read {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("could not write {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for TemplateError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            // Helm's texts have no hint
            _ => None,
        }
    }

    fn is_helms(&self) -> bool {
        !matches!(self, Self::Connect(_) | Self::InsteadOf(_))
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

impl Args {
    /// The release name and the chart, from one or two arguments like in Helm.
    fn name_and_chart(&self) -> Result<(String, &str), TemplateError> {
        let name_template = options::non_empty(self.name_template.as_ref());
        match self.names.as_slice() {
            [chart] => match name_template {
                Some(template) => Ok((render_name_template(template)?, chart)),
                None => Ok((NAME_DEFAULT.to_owned(), chart)),
            },
            [_, _] if self.generate_name.is_on() => Err(TemplateError::Named("--generate-name")),
            [_, _] if name_template.is_some() => Err(TemplateError::Named("--name-template")),
            [name, chart] => Ok((name.clone(), chart)),
            [_, _, more @ ..] => Err(TemplateError::Words(more.join(", "))),
            // clap requires one argument
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

    /// The capabilities of the render, and the cluster if it is used.
    fn cluster(&self, runtime: &Runtime) -> Result<(Capabilities, Option<Cluster>), TemplateError> {
        let non_empty = options::non_empty(self.kube_version.as_ref()).map(|text| {
            text.parse::<KubeVersion>()
                .map_err(|source| TemplateError::KubeVersion {
                    text: text.clone(),
                    source,
                })
        });
        let non_empty = non_empty.transpose()?;
        if self.validate.is_on() || self.dry_run == DryRun::Server {
            if non_empty.is_some() || !self.api_versions.is_empty() {
                warn("--kube-version and --api-versions have no effect with --dry-run=server");
            }
            let connection = runtime.block_on(self.place().connect_and_print())?;
            let mut cluster = Cluster::new(connection.client, runtime.handle().clone());
            return Ok((cluster.capabilities()?, Some(cluster)));
        }
        let mut capabilities = Capabilities::default();
        capabilities.kube_version = non_empty.unwrap_or(capabilities.kube_version);
        capabilities
            .api_versions
            .extend(self.api_versions.iter().cloned());
        Ok((capabilities, None))
    }

    /// The local chart, if it is installable.
    fn chart(&self, name: &str, runtime: &Runtime) -> Result<Chart, TemplateError> {
        let name = name.trim();
        let path = Path::new(name);
        if let Some(repo) = options::non_empty(self.repo.as_ref()) {
            return self.fetched(repo, name, runtime);
        }
        if let Some(reference) = name.strip_prefix("oci://") {
            return self.of_registry(reference, runtime);
        }
        if !path.exists() {
            return Err(match path.is_absolute() || name.starts_with('.') {
                true => TemplateError::NotFound(name.to_owned()),
                false => TemplateError::NotLocal(name.to_owned()),
            });
        }
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let limits = Limits::default();
        load::links(&path, &limits).iter().for_each(log);
        let chart = match self.verify.is_on() {
            true => verify::chart(&path, options::non_empty_path(self.keyring.as_deref()), &limits)?,
            false => Chart::from_path(&path, &limits)?,
        };
        checked(chart)
    }

    /// A chart of a repository.
    fn fetched(&self, repo: &str, name: &str, runtime: &Runtime) -> Result<Chart, TemplateError> {
        if self.verify.is_on() {
            return Err(TemplateError::VerifyFetched);
        }
        let egress = entry::instead_of(Egress::default(), &self.instead_of)?;
        let repository = self.repository.open(repo)?.with_egress(egress);
        let version = options::non_empty(self.version.as_ref()).map_or("", String::as_str);
        let archive = runtime.block_on(repository.fetch(name, version))?;
        checked(Chart::from_archive(&archive, &Limits::default())?)
    }

    /// A chart of a registry, with a tag or a digest if the reference has one.
    fn of_registry(&self, reference: &str, runtime: &Runtime) -> Result<Chart, TemplateError> {
        if self.verify.is_on() {
            return Err(TemplateError::VerifyFetched);
        }
        let parsed = Repository::parse_version(reference);
        let (repository, tag) =
            parsed.map_err(|error| TemplateError::Reference(reference.to_owned(), error))?;
        let last = reference.rsplit('/').next().unwrap_or_default();
        let tag = Some(tag).filter(|_| last.contains([':', '@']));
        let registries = registries(entry::instead_of(Egress::default(), &self.instead_of)?);
        let remote = artifact::open_at(&registries, &repository, Access::new("", REGISTRY_TIME));
        let remote = remote.map_err(|error| TemplateError::Registry(reference.to_owned(), error.into()))?;
        let version = options::non_empty(self.version.as_ref()).map_or("", String::as_str);
        let fetched = runtime.block_on(fetch_from_registry(&remote, tag, version));
        let archive = fetched.map_err(|error| TemplateError::RegistryChart(error.into()))?;
        checked(Chart::from_archive(&archive, &Limits::default())?)
    }

    fn choices(&self) -> Choices {
        Choices {
            no_hooks: self.no_hooks.is_on(),
            skip_tests: self.skip_tests.is_on(),
            show_only: self.show_only.clone(),
        }
    }

    /// The selected cluster; like Helm, uses `HELM_KUBECONTEXT` if no context is given.
    fn place(&self) -> Options {
        let mut place = self.cluster.clone();
        place.context = place.context.or_else(|| variable("HELM_KUBECONTEXT"));
        place
    }

    /// The namespace of the release; like Helm, that of the kubeconfig's context, with or without a cluster.
    fn namespace(&self) -> String {
        let non_empty = self.namespace.clone().or_else(|| variable("HELM_NAMESPACE"));
        non_empty
            .filter(|namespace| !namespace.is_empty())
            .or_else(|| self.place().namespace())
            .unwrap_or_else(|| NAMESPACE_DEFAULT.to_owned())
    }

    fn show(&self, rendered: &Rendered, release: &str) -> Result<(), TemplateError> {
        let choices = self.choices();
        let crds = match self.include_crds.is_on() {
            true => listing::crds(&rendered.chart),
            false => Vec::new(),
        };
        let Some(directory) = options::non_empty_path(self.output_dir.as_deref()) else {
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
        // no output is left: Helm reports the first requested template as missing
        match self.show_only.first() {
            None => print(&(said + "\n")),
            Some(wanted) => {
                print(&said)?;
                Err(listing::TemplateNotFound(wanted.clone()).into())
            }
        }
    }
}

/// The chart, if it is installable and complete.
fn checked(chart: Chart) -> Result<Chart, TemplateError> {
    dependencies::check_installable(&chart)?;
    if chart.metadata.deprecated {
        warn("this chart is deprecated");
    }
    dependencies::check_present(&chart).map_err(TemplateError::Dependencies)?;
    Ok(chart)
}

pub(crate) fn render_name_template(template: &str) -> Result<String, TemplateError> {
    let mut set = TemplateSet::new(Library::Sprig);
    set.parse("name-template", template)
        .map_err(TemplateError::NameTemplate)?;
    let mut session = Session::new(
        equate_template::Options::default(),
        Box::new(SystemWorld::new(None)?),
    );
    let name = session.execute(&set, "name-template", Value::Nil);
    Ok(name.map_err(TemplateError::NameTemplate)?.lossy().into_owned())
}

pub(crate) fn run(args: &Args, runtime: &Runtime) -> Result<(), TemplateError> {
    let (capabilities, cluster) = args.cluster(runtime)?;
    let (name, chart) = args.name_and_chart()?;
    let values = args.values()?;
    let chart = args.chart(chart, runtime)?;
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
    match render::render(
        request,
        &Cache::default(),
        Box::new(SystemWorld::new(cluster)?),
        bounds,
    ) {
        Ok(rendered) => {
            rendered.warnings.iter().for_each(log);
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

/// A flag that is set after the timeout. An interrupt needs none: it ends the process, and nothing is written
/// before the render is complete.
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
    log(&LogLine::new(Level::Warn, text));
}

fn log(line: &LogLine) {
    eprintln!("{line}");
}

/// Reads the file of an option; `-` is standard input. Cuts a file that exceeds the limit of values: the
/// parser reports it.
fn read_file(name: &str) -> std::io::Result<String> {
    let max = Limits::default().file_bytes_max + 1;
    let mut text = String::new();
    match name {
        "-" => std::io::stdin().take(max).read_to_string(&mut text)?,
        name => {
            let file = std::fs::File::open(name).map_err(with_helm_text)?;
            file.take(max).read_to_string(&mut text)?
        }
    };
    Ok(text)
}

/// Replaces the system's text by Helm's if they differ.
fn with_helm_text(error: std::io::Error) -> std::io::Error {
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
