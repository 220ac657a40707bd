//! The test programs of `cargo test --workspace`, built at once.
//!
//! Another selection of packages has other features and would rebuild half of the dependencies.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The test programs of the workspace: package and target, the package's folder and the path.
pub(crate) struct Programs(BTreeMap<(String, String), (PathBuf, PathBuf)>);

impl Programs {
    pub(crate) fn build() -> Result<Self, Box<dyn Error>> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args(["test", "--workspace", "--no-run", "--message-format=json"])
            .stderr(Stdio::inherit());
        let output = cargo.output()?;
        if !output.status.success() {
            return Err(format!("the tests do not build ({})", output.status).into());
        }
        let mut programs = BTreeMap::new();
        for line in String::from_utf8(output.stdout)?.lines() {
            let message: Value = serde_json::from_str(line)?;
            let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
            let (Some(program), Some(manifest), Some(target)) =
                (text("/executable"), text("/manifest_path"), text("/target/name"))
            else {
                continue;
            };
            let folder = Path::new(manifest).parent();
            let (Some(folder), Some(true)) =
                (folder, message.pointer("/profile/test").and_then(Value::as_bool))
            else {
                continue;
            };
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            let key = (format!("equate-{name}"), target.to_owned());
            programs.insert(key, (folder.to_owned(), program.into()));
        }
        Ok(Self(programs))
    }

    /// The command that runs a test program as cargo does.
    pub(crate) fn command(&self, package: &str, target: &str) -> Result<Command, String> {
        let key = (package.to_owned(), target.to_owned());
        let found = self.0.get(&key);
        let (folder, program) = found.ok_or_else(|| format!("{package} has no test program {target}"))?;
        let mut command = Command::new(program);
        command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
        Ok(command)
    }
}
