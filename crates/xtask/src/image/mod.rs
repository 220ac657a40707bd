//! `cargo xtask image`: the statically linked program, and an image with nothing else.
//!
//! Only the last link differs from an ordinary build, and on arm64 jemalloc, so built libraries are reused, with
//! `--profile dev` those of the tests. Its headers show that it needs no other file ([`elf`]), and a start in the empty
//! image proves it. buildah makes the image in its own
//! store below `target/`, without touching other images, and exports an archive. It fetches nothing: the
//! public CA certificates are this machine's.

mod elf;

use std::env::consts::ARCH;
use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Debian's bundle of public CA certificates, also used by most others.
pub(crate) const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// The path of the program in the image, as in the Dockerfile.
const PROGRAM: &str = "/equate";
/// The profile of the tests.
const TESTS: &str = "dev";
/// The feature of `equate-cli` for this profile.
pub(crate) const AS_TESTED: &str = "as-tested";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The profile: `dist` for releases, `dev` to test the build
    #[arg(long, default_value = "dist")]
    profile: String,
    /// The image's tag
    #[arg(long, value_name = "NAME:TAG", default_value = concat!("equate:", env!("CARGO_PKG_VERSION")))]
    tag: String,
    /// The file with the public CA certificates
    #[arg(long, value_name = "FILE", default_value = CERTIFICATES)]
    certificates: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        println!("skipped: the image, which needs Linux with glibc");
        return Ok(());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    let program = program(&args.profile, None, &root)?;
    println!("{}: linked statically, needs no other file", program.display());
    match archive(&program, &args.tag, &args.certificates, &root)? {
        Ok(archive) => println!("{}: the image {}", archive.display(), args.tag),
        Err(why) => println!("skipped: the image, for {why}"),
    }
    Ok(())
}

/// Builds the program, for a Rust target or this machine, and checks that it needs no other file.
pub(crate) fn program(profile: &str, target: Option<&str>, root: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let program = build(profile, target, root)?;
    let needs = elf::needs(&std::fs::read(&program)?)?;
    if !needs.nothing() {
        return Err(format!("{} is not linked statically: it needs {needs}", program.display()).into());
    }
    Ok(program)
}

/// Makes the image of a program and exports it. The inner error is why this machine cannot.
pub(crate) fn archive(
    program: &Path,
    tag: &str,
    certificates: &Path,
    root: &Path,
) -> Result<Result<PathBuf, String>, Box<dyn Error>> {
    let folder = root.join("target/image");
    let context = context(&folder, program, certificates)?;
    let buildah = Buildah {
        folder,
        dockerfile: root.join("Dockerfile"),
    };
    if let Err(why) = buildah.works() {
        return Ok(Err(why));
    }
    Ok(Ok(buildah.image(tag, &context)?))
}

fn build(profile: &str, target: Option<&str>, root: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["rustc", "--package", "equate-cli", "--bin", "equate", "--locked"]);
    cargo.args(["--profile", profile]);
    if profile == TESTS {
        cargo.args(["--features", AS_TESTED]);
    }
    if let Some(target) = target {
        cargo.args(["--target", target]);
    }
    // arm64 systems have pages of up to 64 KiB, whatever those of this one are
    if target.unwrap_or(ARCH).starts_with("aarch64") {
        cargo.env("JEMALLOC_SYS_WITH_LG_PAGE", "16");
    }
    cargo.args(["--message-format", "json-render-diagnostics"]);
    cargo.args(["--", "-C", "target-feature=+crt-static"]);
    cargo.current_dir(root).stderr(std::process::Stdio::inherit());
    let output = cargo.output()?;
    if !output.status.success() {
        return Err(format!("the program was not built ({})", output.status).into());
    }
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let messages = lines.filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok());
    let mut built = messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    Ok(built
        .next_back()
        .ok_or("cargo does not say where the program is")?)
}

fn context(folder: &Path, program: &Path, certificates: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let context = folder.join("context");
    std::fs::create_dir_all(&context)?;
    std::fs::copy(program, context.join("equate"))
        .map_err(|error| format!("could not copy {}: {error}", program.display()))?;
    std::fs::copy(certificates, context.join("ca-certificates.crt")).map_err(|error| {
        format!(
            "could not read the public CA certificates in {}: {error}; name their file with --certificates",
            certificates.display()
        )
    })?;
    Ok(context)
}

/// Debian's buildah, with its own store.
struct Buildah {
    folder: PathBuf,
    dockerfile: PathBuf,
}

impl Buildah {
    /// Whether it is installed and works on this machine.
    fn works(&self) -> Result<(), String> {
        // never install on a person's machine unasked
        if installed().is_err() && std::env::var("CI").is_ok_and(|value| value == "true") {
            crate::test_peers::install("buildah");
        }
        installed().map_err(|error| format!("buildah is not installed: {error}"))?;
        let container = self
            .run(["from", "scratch"])
            .map_err(|why| format!("buildah does not run here: {why}"))?;
        let removed = self.run(["rm", container.trim()]);
        removed
            .map(drop)
            .map_err(|why| format!("buildah does not run here: {why}"))
    }

    /// Makes the image, starts the program in it, and exports an archive.
    fn image(&self, tag: &str, context: &Path) -> Result<PathBuf, String> {
        self.run([
            "build".as_ref(),
            "--isolation=chroot".as_ref(),
            "--format=docker".as_ref(),
            "--tag".as_ref(),
            OsStr::new(tag),
            "--file".as_ref(),
            self.dockerfile.as_os_str(),
            context.as_os_str(),
        ])?;
        let container = self.run(["from", "--pull-never", tag])?;
        let container = container.trim();
        let said = self.run(["run", "--isolation=chroot", container, "--", PROGRAM, "version"]);
        self.run(["rm", container])?;
        print!("in the image: {}", said?);
        let name = tag.replace(['/', ':'], "-");
        let archive = self.folder.join(format!("{name}.tar"));
        if archive.exists() {
            // buildah does not overwrite it
            std::fs::remove_file(&archive).map_err(|error| format!("{}: {error}", archive.display()))?;
        }
        self.run([
            "push",
            tag,
            &format!("docker-archive:{}:{tag}", archive.display()),
        ])?;
        Ok(archive)
    }

    fn run(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<String, String> {
        let mut command = Command::new("buildah");
        // needs no mounts, which may need privileges
        command.args(["--storage-driver", "vfs", "--root"]);
        command.arg(self.folder.join("store")).arg("--runroot");
        command.arg(self.folder.join("run")).args(arguments);
        succeeded(&mut command)
    }
}

fn installed() -> Result<(), String> {
    succeeded(Command::new("buildah").arg("--version")).map(drop)
}

/// Its stdout; its stderr on failure.
fn succeeded(command: &mut Command) -> Result<String, String> {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().map_err(|error| error.to_string())?;
    match status.success() {
        true => Ok(String::from_utf8_lossy(&stdout).into_owned()),
        false => Err(format!("{status}: {}", String::from_utf8_lossy(&stderr).trim())),
    }
}
