//! Benchmark repositories, written by the `git` program.

use super::launch;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug)]
pub(super) struct Fleet {
    directory: tempfile::TempDir,
}

impl Fleet {
    pub(super) fn copy_of(source: &Path) -> Result<Self, Box<dyn Error>> {
        let fleet = Self::empty()?;
        copy(source, fleet.path())?;
        fleet.commit("fleet")?;
        Ok(fleet)
    }

    /// A ConfigMap `settings`, changed by commits, and some `drifting-N`, changed in the cluster.
    pub(super) fn small(drifting: usize) -> Result<Self, Box<dyn Error>> {
        let fleet = Self::empty()?;
        fleet.write("settings.yaml", &settings("settings", "0"))?;
        for number in 0..drifting {
            let name = format!("drifting-{number}");
            fleet.write(&format!("{name}.yaml"), &settings(&name, "0"))?;
        }
        fleet.commit("settings")?;
        Ok(fleet)
    }

    /// Many Kustomizations of four objects each, in namespaces of their own.
    pub(super) fn large(kustomizations: usize) -> Result<Self, Box<dyn Error>> {
        let fleet = Self::empty()?;
        for number in 0..kustomizations {
            let name = app(number);
            fleet.write(&format!("cluster/{name}.yaml"), &kustomization(&name))?;
            fleet.write(
                &format!("apps/{name}/kustomization.yaml"),
                "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [objects.yaml]\n",
            )?;
            fleet.write(&format!("apps/{name}/objects.yaml"), &objects(&name, "0"))?;
        }
        fleet.commit("fleet")?;
        Ok(fleet)
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn write(&self, path: &str, text: &str) -> Result<(), Box<dyn Error>> {
        let path: PathBuf = self.path().join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)?;
        Ok(())
    }

    pub(super) fn commit(&self, message: &str) -> Result<(), Box<dyn Error>> {
        self.git(&["add", "--all"])?;
        self.git(&["commit", "--quiet", "--message", message])
    }

    fn empty() -> Result<Self, Box<dyn Error>> {
        let fleet = Self {
            directory: tempfile::Builder::new().prefix("equate-bench-").tempdir()?,
        };
        fleet.git(&["init", "--quiet", "--initial-branch", "main"])?;
        for (key, value) in [
            ("user.name", "bench"),
            ("user.email", "bench@example.org"),
            ("commit.gpgsign", "false"),
            ("gc.auto", "0"),
        ] {
            fleet.git(&["config", key, value])?;
        }
        Ok(fleet)
    }

    fn git(&self, arguments: &[&str]) -> Result<(), Box<dyn Error>> {
        let mut command = Command::new("git");
        command.arg("-C").arg(self.path()).args(arguments);
        let output = launch(&mut command, Command::output)?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!("git {}: {}", arguments.join(" "), text.trim()).into());
        }
        Ok(())
    }
}

pub(super) fn settings(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\ndata:\n  value: \"{value}\"\n"
    )
}

pub(super) fn app(number: usize) -> String {
    format!("app-{number:04}")
}

/// A Namespace, a ServiceAccount, a Deployment without replicas and a ConfigMap.
pub(super) fn objects(name: &str, value: &str) -> String {
    format!(
        "{}---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: app\n  namespace: {name}\ndata:\n  value: \"{value}\"\n",
        objects_without_map(name)
    )
}

pub(super) fn objects_without_map(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n---\n\
         apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: app\n  namespace: {name}\n---\n\
         apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: app\n  namespace: {name}\nspec:\n  replicas: 0\n  \
         selector:\n    matchLabels:\n      app: app\n  template:\n    metadata:\n      labels:\n        app: app\n    \
         spec:\n      serviceAccountName: app\n      containers:\n        - name: app\n          image: app:1\n"
    )
}

fn kustomization(name: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: {name}\n  \
         namespace: flux-system\nspec:\n  interval: 10m\n  path: ./apps/{name}\n  prune: true\n  wait: true\n  \
         sourceRef:\n    kind: GitRepository\n    name: flux-system\n"
    )
}

fn copy(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
