//! `cargo xtask dist`: the files of a release.
//!
//! An archive for each platform (the statically linked program, its completion scripts and manual pages, the
//! licence), the image of this machine's platform, a list of the packages in the program (SPDX) and the checksums of
//! all files. The same commit and toolchain make the same archive: its times are the commit's.

mod archive;
mod sbom;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest as _, Sha256};

use crate::image;
use archive::Entry;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The Rust targets of a release, with their names in file names.
const PLATFORMS: [(&str, &str); 2] = [
    ("x86_64-unknown-linux-gnu", "linux_amd64"),
    ("aarch64-unknown-linux-gnu", "linux_arm64"),
];

/// Completion scripts: the shell, and the file in the archive.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "completions/equate.bash"),
    ("zsh", "completions/_equate"),
    ("fish", "completions/equate.fish"),
];

const DOCUMENTS: [&str; 3] = ["LICENSE", "NOTICE", "README.md"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The Rust target; repeatable, by default this machine's
    #[arg(long, value_name = "TRIPLE")]
    target: Vec<String>,
    /// The profile; `dev` to test the command
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Make no image
    #[arg(long)]
    no_image: bool,
    /// The folder of the files
    #[arg(long, value_name = "DIR", default_value = "target/dist-files")]
    output: PathBuf,
}

/// A platform that has a release.
struct Platform {
    triple: &'static str,
    name: &'static str,
    is_own: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    let own = own_triple()?;
    let wanted = match args.target.is_empty() {
        true => vec![own.clone()],
        false => args.target.clone(),
    };
    // all of them, before the first is built
    let platforms = wanted
        .iter()
        .map(|triple| platform(triple, &own))
        .collect::<Result<Vec<_>, _>>()?;
    let own_platform = platforms.iter().find(|platform| platform.is_own);
    let time = commit_time(&root)?;
    let folder = root.join(&args.output);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let mut files = Vec::new();

    // the completion scripts and manual pages are those of a program that runs here
    let runnable = image::program(&args.profile, None, &root)?;
    let documents = documents(&runnable, &root)?;
    for platform in &platforms {
        let program = match platform.is_own {
            true => runnable.clone(),
            false => image::program(&args.profile, Some(platform.triple), &root)?,
        };
        let name = format!("equate_{VERSION}_{}.tar.gz", platform.name);
        let mut entries = documents.clone();
        entries.push(Entry {
            path: "equate".into(),
            content: std::fs::read(program)?,
            is_program: true,
        });
        std::fs::write(folder.join(&name), archive::tar_gz(entries, time)?)?;
        files.push(name);
        let name = format!("equate_{VERSION}_{}.spdx.json", platform.name);
        let document = sbom::document(&root, platform.triple, time)?;
        std::fs::write(folder.join(&name), document)?;
        files.push(name);
    }
    if let Some(platform) = own_platform.filter(|_| !args.no_image) {
        match image::archive(
            &runnable,
            &format!("equate:{VERSION}"),
            Path::new(image::CERTIFICATES),
            &root,
        )? {
            Ok(made) => {
                let name = format!("equate_{VERSION}_{}_image.tar", platform.name);
                std::fs::copy(made, folder.join(&name))?;
                files.push(name);
            }
            Err(why) => println!("not made: the image, for {why}"),
        }
    }
    let name = format!("equate_{VERSION}_checksums.txt");
    std::fs::write(folder.join(&name), checksums(&folder, &files)?)?;
    files.push(name);
    for name in &files {
        let bytes = std::fs::metadata(folder.join(name))?.len();
        println!("{:>12} {}", bytes, args.output.join(name).display());
    }
    for (triple, name) in PLATFORMS {
        if !wanted.iter().any(|wanted| wanted == triple) {
            println!("not made: {name}; add --target {triple}");
        }
    }
    Ok(())
}

fn own_triple() -> Result<String, Box<dyn Error>> {
    let said = output(Command::new("rustc").arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc -vV does not name the host")?.to_owned())
}

/// The platform of a target that can be built here.
fn platform(triple: &str, own: &str) -> Result<Platform, Box<dyn Error>> {
    let Some((triple, name)) = PLATFORMS.into_iter().find(|(known, _)| *known == triple) else {
        let all: Vec<&str> = PLATFORMS.iter().map(|(known, _)| *known).collect();
        return Err(format!("no release is made for {triple}; choose from {}", all.join(", ")).into());
    };
    let is_own = triple == own;
    let library = output(Command::new("rustc").args(["--print", "target-libdir", "--target", triple]))?;
    if !Path::new(library.trim()).is_dir() {
        return Err(format!(
            "Rust's standard library for {triple} is not installed; run `rustup target add {triple}`, or make this \
             archive on such a machine"
        )
        .into());
    }
    Ok(Platform { triple, name, is_own })
}

fn commit_time(root: &Path) -> Result<u64, Box<dyn Error>> {
    let said = output(
        Command::new("git")
            .current_dir(root)
            .args(["log", "-1", "--format=%ct"]),
    )?;
    Ok(said.trim().parse()?)
}

/// All files of an archive but the program.
fn documents(program: &Path, root: &Path) -> Result<Vec<Entry>, Box<dyn Error>> {
    let mut all = Vec::new();
    for name in DOCUMENTS {
        all.push(Entry::text(name, std::fs::read(root.join(name))?));
    }
    for (shell, path) in COMPLETIONS {
        let script = output(Command::new(program).args(["completion", shell]))?;
        all.push(Entry::text(path, script.into_bytes()));
    }
    let pages = tempfile::tempdir()?;
    output(Command::new(program).arg("man").arg(pages.path()))?;
    for page in std::fs::read_dir(pages.path())? {
        let page = page?;
        let path = format!("man/man1/{}", page.file_name().to_string_lossy());
        all.push(Entry::text(path, std::fs::read(page.path())?));
    }
    Ok(all)
}

/// One line per file, as `sha256sum --check` reads them.
fn checksums(folder: &Path, files: &[String]) -> Result<String, Box<dyn Error>> {
    let mut lines = String::new();
    for name in files {
        let digest = Sha256::digest(std::fs::read(folder.join(name))?);
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        lines.push_str(&format!("{hex}  {name}\n"));
    }
    Ok(lines)
}

fn output(command: &mut Command) -> Result<String, Box<dyn Error>> {
    let said = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if !said.status.success() {
        let error = String::from_utf8_lossy(&said.stderr);
        return Err(format!("{command:?} failed ({}): {}", said.status, error.trim()).into());
    }
    Ok(String::from_utf8(said.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_a_release_names_those_that_have_one() {
        let error = platform("riscv64gc-unknown-linux-gnu", "x86_64-unknown-linux-gnu")
            .err()
            .expect("is refused");
        assert!(
            error.to_string().contains("choose from x86_64-unknown-linux-gnu"),
            "{error}"
        );
    }

    #[test]
    fn checksums_are_those_of_sha256sum() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "abc").unwrap();
        assert_eq!(
            checksums(folder.path(), &["a".into()]).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n"
        );
    }
}
