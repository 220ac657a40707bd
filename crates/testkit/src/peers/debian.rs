//! The registry of distribution and cosign, from the archive of Debian 13. Nothing is installed, and the lists
//! of packages are not those of the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::pip::only_file;
use super::{Error, Progress, cache_folder, once, run, runs};

const SUITE: &str = "trixie";
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Where a machine names its mirror.
const MIRRORS: [&str; 2] = ["/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"];

/// Fetches the registry of the distribution project unless cached.
///
/// # Errors
/// [`Error::NoBuild`] on another system than Debian; otherwise the failed step.
pub fn distribution(progress: Progress<'_>) -> Result<PathBuf, Error> {
    program("docker-registry", progress)
}

/// Fetches cosign, which signs artifacts, unless cached.
///
/// # Errors
/// As of [`distribution`].
pub fn cosign(progress: Progress<'_>) -> Result<PathBuf, Error> {
    program("cosign", progress)
}

fn program(package: &str, progress: Progress<'_>) -> Result<PathBuf, Error> {
    let folder = cache_folder()?.join(format!("debian-{SUITE}-{package}"));
    if !folder.is_dir() && mirror().is_none() {
        return Err(Error::NoBuild {
            wanted: package.to_owned(),
        });
    }
    once(&folder, progress, |partial, progress| {
        progress(&format!("fetching {package} from Debian's archive"));
        let download = partial.join("download");
        fetch(package, &download)?;
        let file = only_file(&download, ".deb")?;
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("--extract").arg(&file).arg(partial);
        run("dpkg-deb --extract", &mut unpack)?;
        fs::remove_dir_all(&download).map_err(Error::io("remove", &download))
    })?;
    Ok(folder.join("usr/bin").join(package))
}

/// The URL of the machine's mirror; none if this is not Debian on x86-64, with apt and its keys.
fn mirror() -> Option<String> {
    let is_usable = cfg!(all(target_os = "linux", target_arch = "x86_64"))
        && Path::new(KEYS).exists()
        && runs("apt-get", &["--version"]);
    let mut texts = MIRRORS.iter().filter_map(|path| fs::read_to_string(path).ok());
    is_usable
        .then(|| texts.find_map(|text| mirror_of(&text)))
        .flatten()
}

/// The first mirror in a file of sources, in either format. A comment may name other archives.
fn mirror_of(text: &str) -> Option<String> {
    let lines = text
        .lines()
        .filter(|line| line.starts_with("URIs:") || line.starts_with("deb "));
    let mut urls = lines
        .flat_map(str::split_whitespace)
        .filter(|word| word.starts_with("http") && !word.contains("security"));
    urls.next().map(str::to_owned)
}

fn fetch(package: &str, folder: &Path) -> Result<(), Error> {
    for name in ["lists/partial", "archives/partial"] {
        let path = folder.join(name);
        fs::create_dir_all(&path).map_err(Error::io("create", &path))?;
    }
    let source = folder.join("source.list");
    let mirror = mirror().unwrap_or_default();
    fs::write(&source, format!("deb [signed-by={KEYS}] {mirror} {SUITE} main\n"))
        .map_err(Error::io("write", &source))?;
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.current_dir(folder).arg("--quiet");
        for (name, value) in [
            ("Dir::Etc::SourceList", source.as_path()),
            ("Dir::Etc::SourceParts", Path::new("/dev/null")),
            ("Dir::State::Lists", &folder.join("lists")),
            ("Dir::Cache", folder),
        ] {
            command.arg(format!("--option={name}={}", value.display()));
        }
        // apt gives its rights up, and this folder belongs to the caller
        command.arg("--option=APT::Sandbox::User=root").args(arguments);
        run(&format!("apt-get {}", arguments.join(" ")), &mut command)
    };
    apt(&["update", "--error-on=any"])?;
    apt(&["download", package]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::mirror_of;

    #[test]
    fn mirrors_are_read_in_both_formats() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(mirror_of(text).as_deref(), expected);
        check(
            "Types: deb\n# http://old.example/debian\nURIs: http://deb.example/debian\nSuites: bookworm\n",
            Some("http://deb.example/debian"),
        );
        check(
            "deb [signed-by=/k.gpg] https://security.example/x y main\ndeb https://deb.example/d bookworm main\n",
            Some("https://deb.example/d"),
        );
        check("# deb http://deb.example/debian bookworm main\n", None);
    }
}
