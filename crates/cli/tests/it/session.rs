//! A copy of the example in a git repository, and the binary in its directory.

use equate_testkit::eventually::eventually;
use equate_testkit::git::{HttpServer, Repository};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// The example, committed.
pub(crate) struct Fleet {
    repository: Repository,
}

impl Fleet {
    pub(crate) fn example() -> Self {
        Self::of("fleet")
    }

    /// The files of an example of this name, committed.
    pub(crate) fn of(example: &str) -> Self {
        let files = example_files(example);
        let fleet = Self {
            repository: Repository::init().unwrap(),
        };
        let files: Vec<(&str, Option<&str>)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), Some(text.as_str())))
            .collect();
        fleet.repository.commit(&files).unwrap();
        fleet
    }

    pub(crate) fn empty() -> Self {
        Self {
            repository: Repository::init().unwrap(),
        }
    }

    /// Serves the repository over HTTP if git is installed; else prints that it is skipped.
    pub(crate) fn serve(&self) -> Option<HttpServer> {
        self.repository.serve_http().unwrap()
    }

    pub(crate) fn path(&self) -> &Path {
        self.repository.path()
    }

    /// Commits one file or its removal; returns the commit's id.
    pub(crate) fn commit(&self, path: &str, text: Option<&str>) -> String {
        self.repository.commit(&[(path, text)]).unwrap()
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        fs::write(self.path().join(path), text).unwrap();
    }

    pub(crate) fn equate(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Starts `equate up` here, and waits for a line with this text.
    pub(crate) fn up(&self, until: &str) -> Up {
        self.up_with(&[], until)
    }

    /// [`Self::up`] with more arguments.
    pub(crate) fn up_with(&self, arguments: &[&str], until: &str) -> Up {
        self.up_in("clusters/dev", arguments, until)
    }

    /// [`Self::up_with`], of another directory.
    pub(crate) fn up_in(&self, path: &str, arguments: &[&str], until: &str) -> Up {
        let mut process = self
            .command(&["up", "--path", path])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stdout = process.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let up = Up { process, lines };
        up.wait_for(until);
        up
    }

    fn command(&self, arguments: &[&str]) -> Command {
        equate_in(self.path(), arguments)
    }
}

/// The binary in a directory that is also its home.
pub(crate) fn equate_in(directory: &Path, arguments: &[&str]) -> Command {
    in_directory(Path::new(env!("CARGO_BIN_EXE_equate")), directory, arguments)
}

/// A program in a directory that is also its home.
pub(crate) fn in_directory(program: &Path, directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(directory)
        .env_remove("KUBECONFIG")
        .env_remove("RUST_LOG")
        .env_remove("GITHUB_TOKEN")
        .env_remove("NETRC")
        .env_remove("SSH_AUTH_SOCK")
        .env_remove("XDG_CACHE_HOME")
        .env("HOME", directory);
    command
}

pub(crate) struct Up {
    process: Child,
    lines: Receiver<String>,
}

impl Up {
    /// Waits for a line with this text.
    pub(crate) fn wait_for(&self, text: &str) {
        let end = Instant::now() + DEADLINE;
        let mut seen = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.contains(text) => return,
                Ok(line) => seen.push(line),
                Err(error) => panic!("no line with {text:?} ({error}); seen:\n{}", seen.join("\n")),
            }
        }
    }

    /// Sends SIGINT; returns whether the process succeeded.
    pub(crate) fn interrupt(mut self) -> bool {
        let pid = self.process.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .unwrap()
                .success()
        );
        self.process.wait().unwrap().success()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // ended already if the test got that far
        if let Ok(None) = self.process.try_wait() {
            self.process.kill().unwrap();
            self.process.wait().unwrap();
        }
    }
}

/// A long-running process whose output goes to a file.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a command, with its output appended to this file.
    pub(crate) fn start(command: &mut Command, log: PathBuf) -> Self {
        let file = fs::File::options().append(true).create(true).open(&log).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Self { child, log }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM, like a kubelet.
    pub(crate) fn terminate(&self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) async fn ended(mut self) -> ExitStatus {
        let child = std::sync::Mutex::new(&mut self.child);
        let look = async || child.lock().unwrap().try_wait().unwrap().ok_or("it runs");
        eventually("the process ends", DEADLINE, look).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
        if std::thread::panicking() {
            println!("{}:\n{}", self.log.display(), self.log());
        }
    }
}

/// Standard output followed by standard error.
pub(crate) fn printed(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// The files of an example, by path.
pub(crate) fn example_files(name: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name);
    let mut files = Vec::new();
    collect(&root, &root, &mut files);
    files
}

fn collect(root: &Path, directory: &Path, files: &mut Vec<(String, String)>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            files.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}
